"""Scans: the records of a collection at one moment, and those of them that match."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from memdb._transaction import Change, Written
from memdb.errors import DamageError, DecodeError, IdentityError
from memdb.storage import Array, Era, Finding, Kind

if TYPE_CHECKING:
    from memdb._natural_key import NaturalKey
    from memdb._records import Records
    from memdb.query import Condition

_CHUNK = 1024

# Number, record, and whether the record is the cache's own object, which must be copied before
# anybody else gets it.
Row = tuple[int, Any, bool]


class Part(NamedTuple):
    """Some records of a scan; the lists are of one length, see `Row`."""

    identities: list[int]
    records: list[Any]
    are_cached: list[bool]


class Snapshot(NamedTuple):
    """The records of a collection at one moment.

    Attributes:
        numbers: (n,) <i8, without what the transaction changed. Rising, which is the order of
            the identities; with a natural key in the order of the records' last writing.
        slots: (n,) <i8, of their versions.
        version: The slot that the next version of the log got then.
        changes: What the calling context's transaction changed, by number.
        era: Keeps the versions readable, should the log go over to another file.
    """

    numbers: Array
    slots: Array
    version: int
    changes: dict[int, Change]
    era: Era


def take_snapshot(store: Records) -> Snapshot:
    """Return the records as they are now, as the calling context sees them.

    Cost: O(records), vectorised.
    """
    return take_snapshots([store])[store]


def take_snapshots(stores: Sequence[Records]) -> dict[Any, Snapshot]:
    """Return the records of several collections of one database as of one commit."""
    engine = stores[0].engine
    engine.log.raise_if_closed()
    with engine.log.lock:
        arrays = [store.identities.arrays() for store in stores]
        version, era = engine.log.next_slot, engine.log.era
    return {
        store: _snapshot(store, numbers, slots, version, era)
        for store, (numbers, slots) in zip(stores, arrays, strict=True)
    }


def snapshot_of(store: Records, numbers: Sequence[int]) -> Snapshot:
    """Return those of some records that are there, and all that the transaction changed."""
    engine = store.engine
    engine.log.raise_if_closed()
    wanted = np.unique(np.array(numbers, "<i8"))
    with engine.log.lock:
        slots = np.fromiter(map(store.identities.find, wanted.tolist()), "<i8", len(wanted))
        version, era = engine.log.next_slot, engine.log.era
    is_there = slots != 0
    return _snapshot(store, wanted[is_there], slots[is_there], version, era)


def _snapshot(store: Records, numbers: Array, slots: Array, version: int, era: Era) -> Snapshot:
    if store.key is not None:
        order = np.argsort(slots)
        numbers, slots = numbers[order], slots[order]
    transaction = store.engine.current()
    changes = transaction.changes(store) if transaction is not None else {}
    return Snapshot(numbers, slots, version, changes, era)


def _merged(store: Records, snapshot: Snapshot) -> tuple[Array, Array]:
    """Return the numbers that are there, in order, and their slots; 0: in the changes."""
    numbers, slots, changes = snapshot.numbers, snapshot.slots, snapshot.changes
    if not changes:
        return numbers, slots
    keep = ~np.isin(numbers, np.fromiter(changes, "<i8", len(changes)))
    written = [number for number, change in changes.items() if isinstance(change, Written)]
    numbers = np.concatenate((numbers[keep], np.array(written, "<i8")))
    slots = np.concatenate((slots[keep], np.zeros(len(written), "<i8")))
    if store.key is None:
        order = np.argsort(numbers, kind="stable")
        numbers, slots = numbers[order], slots[order]
    return numbers, slots


def present(store: Records, snapshot: Snapshot) -> list[int]:
    """Return the numbers of the records of a snapshot, in order; nothing is decoded."""
    return [*_merged(store, snapshot)[0].tolist()]


def scan(store: Records, snapshot: Snapshot) -> Iterator[Part]:
    """Give the records of a snapshot in parts, in its order."""
    numbers, slots = _merged(store, snapshot)
    for start in range(0, len(numbers), _CHUNK):
        part = slice(start, start + _CHUNK)
        yield _scan_part(store, numbers[part].tolist(), slots[part].tolist(), snapshot)


def _scan_part(store: Records, identities: list[int], slots: list[int], snapshot: Snapshot) -> Part:
    # Invariant: a commit is appended before the cache loses what it replaces. So if the log
    # is where it was, every object just fetched is of the snapshot.
    fetched: list[Any]
    try:
        fetched = list(map(store.cache.__getitem__, identities))
    except KeyError:
        fetched = list(map(store.cache.get, identities))
        is_complete = False
    else:
        is_complete = True
    is_unchanged = store.engine.log.next_slot == snapshot.version
    if is_unchanged and is_complete:
        return Part(identities, fetched, [True] * len(fetched))
    decoded: list[tuple[int, int, Any]] = []
    records: list[Any] = []
    owned: set[int] = set()
    with collector_paused():
        for identity, slot, record in zip(identities, slots, fetched, strict=True):
            if not slot:
                change = snapshot.changes[identity]
                assert isinstance(change, Written)
                record = change.member.codec.decode(change.payload, identity)
                owned.add(identity)
            elif record is None or not (is_unchanged or store.identities.find(identity) == slot):
                record = store.record_at(slot)
                decoded.append((identity, slot, record))
                owned.add(identity)
            records.append(record)
    # A scan would sweep a bounded cache empty of what is asked for often.
    if decoded and store.cache_limit is None:
        owned -= store.keep(decoded)
    return Part(identities, records, [identity not in owned for identity in identities])


def keys_in(store: Records, key: NaturalKey, snapshot: Snapshot) -> list[Any]:
    """Return the natural keys of the records of a snapshot, in its order.

    Raises:
        DecodeError: A record can't be made, and not even its key can be told.
    """
    keys: list[Any] = []
    numbers, slots = _merged(store, snapshot)
    for start in range(0, len(numbers), _CHUNK):
        part = slice(start, start + _CHUNK)
        some_numbers, some_slots = numbers[part].tolist(), slots[part].tolist()
        try:
            records = _scan_part(store, some_numbers, some_slots, snapshot).records
            keys += map(key.of, records)
        except DecodeError:
            # One can't be read with this class; it must be possible to find and delete it.
            for number, slot in zip(some_numbers, some_slots, strict=True):
                keys.append(_key_at(store, key, snapshot, number, slot))
    return keys


def _key_at(store: Records, key: NaturalKey, snapshot: Snapshot, number: int, slot: int) -> Any:
    if not slot:
        change = snapshot.changes[number]
        assert isinstance(change, Written)
        return key.of(change.member.codec.decode(change.payload, number))
    try:
        return key.of(store.record_at(slot))
    except DecodeError as error:
        if error.identity is None:
            raise
        return error.identity


def rows_of(parts: Iterable[Part]) -> Iterator[Row]:
    """Give the records of the parts one by one."""
    return (row for part in parts for row in zip(*part, strict=True))


def matching(
    store: Records, condition: Condition, snapshot: Snapshot | None = None
) -> Iterator[Row]:
    """Give the records that match, in the order of `Snapshot`, of one or of now.

    The user's own callable gets a copy, so that nothing it does to it is ever seen.
    """
    parts = scan(store, _narrowed(store, condition) if snapshot is None else snapshot)
    if condition.matches_all:
        return rows_of(parts)
    if condition.needs_copy:
        return _matching_copies(store, rows_of(parts), condition)
    matches = condition.matches
    return (row for part in parts for row in zip(*part, strict=True) if matches(row[1]))


def matching_records(store: Records, condition: Condition) -> list[Any]:
    """Return the records that match, without what else `matching` tells of each."""
    if condition.needs_copy:
        return [record for _, record, _ in matching(store, condition)]
    found: list[Any] = []
    for part in scan(store, _narrowed(store, condition)):
        is_all = condition.matches_all
        found += part.records if is_all else filter(condition.matches, part.records)
    return found


def _narrowed(store: Records, condition: Condition) -> Snapshot:
    """Return a snapshot that has every record that matches; few others where an index helps."""
    engine = store.engine
    engine.log.raise_if_closed()
    snapshot = None
    if condition.expression is not None and len(store.indexes):
        transaction = engine.current()
        changes = {} if transaction is None else transaction.changes(store)
        snapshot = store.indexes.snapshot(condition.expression, changes)
        if condition.shape is not store.query_shape:
            # A name may be that of another function than the one that is going to be asked.
            snapshot = None
    return take_snapshot(store) if snapshot is None else snapshot


def _matching_copies(store: Records, rows: Iterator[Row], condition: Condition) -> Iterator[Row]:
    prefilter, matches = condition.prefilter, condition.matches
    clone, cloner = store.cloner.clone, store.cloner
    for row in rows:
        _, record, is_cached = row
        if prefilter is None or prefilter(record):
            copy = clone(record) if is_cached else cloner(record)
            if matches(copy):
                yield row


def size(store: Records) -> int:
    """Return the number of records; none is read."""
    engine = store.engine
    engine.log.raise_if_closed()
    count = len(store.identities)
    if engine.is_publishing:
        with engine.log.lock:
            count = len(store.identities)
    transaction = engine.current()
    if transaction is not None:
        for number, change in transaction.changes(store).items():
            count += isinstance(change, Written) - (store.identities.find(number) != 0)
    return count


def count(store: Records, condition: Condition) -> int:
    """Return how many records match; copies nothing but for a callable."""
    if condition.needs_copy:
        return sum(1 for _ in matching(store, condition))
    parts = scan(store, _narrowed(store, condition))
    return sum(sum(map(condition.matches, part.records)) for part in parts)


def given(store: Records, row: Row) -> Any:
    """Return the record of a row as its receiver may have it."""
    _, record, is_cached = row
    return store.cloner.clone(record) if is_cached else record


def history(
    store: Records, identity: Any
) -> Iterator[tuple[int, int, Kind, Any, DecodeError | DamageError | None]]:
    """Give the committed versions of a record, oldest first.

    Of each: number in the file, time in nanoseconds, kind, record and error. The record is None
    for a deletion, and for a version that can't be read any more.
    """
    log, key = store.engine.log, store.key
    encoded = None
    numbers: Sequence[int]
    if key is None:
        if type(identity) is not int:
            return
        numbers = [identity]
    else:
        try:
            encoded = key.encode(identity)
        except IdentityError:
            return
        numbers = key.numbers(encoded)
    with log.lock:
        # Kept, so that all versions can be read though the log may go over to another file.
        era, first, stop = log.era, log.first_slot, log.next_slot
    pointers = log.pointers(first, stop)
    is_wanted = np.isin(pointers["identity"], numbers) & (
        pointers["collection"] == store.collection_id
    )
    # Numbers under which the last version was of another key.
    others: set[int] = set()
    for row in np.flatnonzero(is_wanted).tolist():
        number, kind = int(pointers["identity"][row]), Kind(int(pointers["kind"][row]))
        record, own = None, identity
        error: DecodeError | DamageError | None = None
        if kind is not Kind.DELETED:
            try:
                record = store.record_at(era.base + row + 1)
                own = store.identity_of(number, record)
            except DecodeError as caught:
                error, own = caught, identity if caught.identity is None else caught.identity
            except DamageError as caught:
                error = caught
            if key is not None:
                (others.discard if key.encode(own) == encoded else others.add)(number)
        if number not in others:
            yield row + 1, era.map.time_of(row + 1), kind, record, error


def misplaced(
    store: Records, key: NaturalKey, offsets: list[int], slots: Array
) -> Iterator[Finding]:
    """Give what is wrong with the numbers of records with a natural key.

    Args:
        store, key: The collection and its key.
        offsets: Of the bytes of the live versions, for the findings.
        slots: (n,) of integers, of the same versions.
    """
    seen: set[tuple[int, bytes]] = set()
    for offset, slot in zip(offsets, slots.tolist(), strict=True):
        try:
            number, writer_id, _, payload = store.engine.log.read(slot)
            encoded = key.encode(key.of(store.decoding.decode(writer_id, payload, number)))
        except (DamageError, DecodeError):
            # Damage is found by whoever verifies the log; a class that does not fit is none.
            continue
        if number not in key.numbers(encoded):
            yield Finding(offset, f"{store.name}: a record is not under the number of its key")
        if encoded in seen:
            yield Finding(offset, f"{store.name}: another record has the same key")
        seen.add(encoded)


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """Hold the cyclic garbage collector off while many records are made.

    Source: measured, the collector took 20 to 70% of bulk work with half a million records.
    """
    was_enabled = gc.isenabled()
    try:
        # Not when it is off: another thread's pause may end before this line.
        if was_enabled:
            gc.disable()
        yield
    finally:
        if was_enabled:
            gc.enable()
