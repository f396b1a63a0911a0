"""Scans: the records of a collection at one moment, and those of them that match."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from memdb.storage import Array

if TYPE_CHECKING:
    from memdb._store import Store
    from memdb.query import Condition

_CHUNK = 1024

# Identity, record, and whether the record is the cache's own object, which must be copied before
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
        identities: (n,) <i8, rising, without what the transaction changed.
        slots: (n,) <i8, of their versions.
        version: The slot that the next version of the log got then.
        changes: What the calling context's transaction changed: identity -> bytes or None.
    """

    identities: Array
    slots: Array
    version: int
    changes: dict[int, bytes | None]


def take_snapshot(store: Store) -> Snapshot:
    """Return the records as they are now, as the calling context sees them.

    Cost: O(records), vectorised.
    """
    engine = store.engine
    engine.log.raise_if_closed()
    transaction = engine.current()
    with engine.log.lock:
        identities, slots = store.identities.arrays()
        version = engine.log.next_slot
    changes = transaction.changes(store) if transaction is not None else {}
    return Snapshot(identities, slots, version, changes)


def scan(store: Store, snapshot: Snapshot) -> Iterator[Part]:
    """Give the records of a snapshot in parts, rising by identity."""
    identities, slots, _, changes = snapshot
    if changes:
        keep = ~np.isin(identities, np.fromiter(changes, "<i8", len(changes)))
        written = sorted(i for i, payload in changes.items() if payload is not None)
        identities = np.concatenate((identities[keep], np.array(written, "<i8")))
        # Slot 0: the bytes are in the changes.
        slots = np.concatenate((slots[keep], np.zeros(len(written), "<i8")))
        order = np.argsort(identities, kind="stable")
        identities, slots = identities[order], slots[order]
    for start in range(0, len(identities), _CHUNK):
        part = slice(start, start + _CHUNK)
        yield _scan_part(store, identities[part].tolist(), slots[part].tolist(), snapshot)


def _scan_part(store: Store, identities: list[int], slots: list[int], snapshot: Snapshot) -> Part:
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
                payload = snapshot.changes[identity]
                assert payload is not None
                record = store.codec.decode(payload, identity)
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


def rows_of(parts: Iterable[Part]) -> Iterator[Row]:
    """Give the records of the parts one by one."""
    return (row for part in parts for row in zip(*part, strict=True))


def matching(store: Store, condition: Condition) -> Iterator[Row]:
    """Give the records that match, rising by identity.

    The user's own callable gets a copy, so that nothing it does to it is ever seen.
    """
    parts = scan(store, take_snapshot(store))
    if condition.matches_all:
        return rows_of(parts)
    if condition.needs_copy:
        return _matching_copies(store, rows_of(parts), condition)
    matches = condition.matches
    return (row for part in parts for row in zip(*part, strict=True) if matches(row[1]))


def _matching_copies(store: Store, rows: Iterator[Row], condition: Condition) -> Iterator[Row]:
    prefilter, matches = condition.prefilter, condition.matches
    clone, cloner = store.cloner.clone, store.cloner
    for row in rows:
        _, record, is_cached = row
        if prefilter is None or prefilter(record):
            copy = clone(record) if is_cached else cloner(record)
            if matches(copy):
                yield row


def count(store: Store, condition: Condition) -> int:
    """Return how many records match; copies nothing but for a callable."""
    if condition.needs_copy:
        return sum(1 for _ in matching(store, condition))
    parts = scan(store, take_snapshot(store))
    return sum(sum(map(condition.matches, part.records)) for part in parts)


def given(store: Store, row: Row) -> Any:
    """Return the record of a row as its receiver may have it."""
    _, record, is_cached = row
    return store.cloner.clone(record) if is_cached else record


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
