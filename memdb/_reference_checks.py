"""What checked foreign keys ask of a transaction, and what becomes of records that refer.

Nobody else can write while a transaction has the turn, so that what is found here holds until its
commit. Cascades happen with each deletion, so that the transaction sees them; whether all
references lead somewhere is looked at once, in the state that the commit makes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from memdb._changes import changed
from memdb._scan import present, take_snapshot
from memdb._transaction import DELETED, Deleted, Transaction
from memdb.errors import DamageError, DecodeError, ForeignKeyError, IdentityError, shown
from memdb.storage import Kind, Moved

if TYPE_CHECKING:
    from memdb._insertion import Insertion
    from memdb._references import Reference
    from memdb._store import Store
    from memdb._transaction import Net


def refuse_dangling(transaction: Transaction, changes: Sequence[Net]) -> None:
    """Raise unless all references that were written lead to records, and none to one that is gone.

    Raises:
        ForeignKeyError: One does.
        ConfigError: The collection that one leads to was not asked for.
    """
    gone: dict[Insertion, list[int]] = {}
    known: set[tuple[Reference, Any]] = set()
    for store, number, change, kind in changes:
        if isinstance(change, Deleted):
            if store.referrers:
                gone.setdefault(store, []).append(number)
        elif store.checked:
            record = change.member.codec.decode(change.payload, number)
            missing = _missing(store, record, known)
            if missing is not None:
                is_new = kind is Kind.INSERTED and store.key is None
                raise _leads_nowhere(
                    *missing, None if is_new else store.identity_of(number, record)
                )
    for target, numbers in gone.items():
        identities = _gone_identities(target, numbers)
        for reference in target.referrers:
            # Of those that were written here none refers to one that is gone, as was just seen.
            numbers = _committed(reference, identities)
            found = list(_referring(reference, numbers, identities))
            if found:
                raise _is_referred_to(reference, found)


def _missing(
    store: Insertion, record: Any, known: set[tuple[Reference, Any]]
) -> tuple[Reference, Any] | None:
    """Return a reference of a record that leads nowhere, and to what; `known` lead somewhere."""
    for reference in store.checked:
        for value in reference.values_of(record):
            # Of other types, equal values may be different identities.
            is_plain = type(value) in (int, str)
            if is_plain and (reference, value) in known:
                continue
            if not reference.target.find_number(value):
                return reference, value
            if is_plain:
                known.add((reference, value))
    return None


def follow(transaction: Transaction, target: Store, gone: Sequence[Any]) -> None:
    """Delete or change what refers to records that were deleted, and so on; the lock is held.

    Args:
        transaction: The one that deleted them.
        target: Their collection.
        gone: Their identities.

    Raises:
        MemdbError: A record can't be read, or can't be changed.

    Cost: one look-up in an index for each key that leads to the collection and each identity, and
    an append for each record that refers.
    """
    waiting = [(target, gone)]
    while waiting:
        target, gone = waiting.pop()
        for reference in target.referrers:
            if reference.on_delete == "restrict":
                continue
            numbers = [
                *_pending(transaction, reference, gone),
                *_committed(reference, gone),
            ]
            found = {number: record for number, record, _ in _referring(reference, numbers, gone)}
            if not found:
                continue
            store = reference.store
            store.refuse_borrowed()
            identities = [store.identity_of(number, record) for number, record in found.items()]
            if reference.on_delete == "set_none":
                _take_out(reference, identities, gone)
                continue
            for number in found:
                transaction.write(store, number, DELETED)
            if store.referrers:
                waiting.append((store, identities))


def dangling(store: Store) -> Iterator[str]:
    """Tell of the committed records whose checked references lead nowhere.

    Keys whose collection was not asked for and records that can't be read are left out. Safe
    while others write.
    """
    log = store.engine.log
    references = [each for each in store.checked if len(each.candidates) == 1]
    with log.lock:
        # The era too, which keeps the slots readable though the file may be compacted meanwhile.
        era = log.era
        slots = store.identities.arrays()[1].tolist() if references else []
    for slot in slots:
        try:
            number, writer_id, _, payload = log.read(slot)
            record = store.decoding.decode(writer_id, payload, number)
        except (DamageError, DecodeError):
            continue
        for reference in references:
            for value in reference.values_of(record):
                if _is_dangling(reference, number, slot, value):
                    yield (
                        f"{reference.field} of the record"
                        f" {shown(store.identity_of(number, record))} refers to a record of"
                        f" {reference.target.name} that is not there"
                    )
    del era


def _is_dangling(reference: Reference, number: int, slot: int, value: Any) -> bool:
    log, target = reference.store.engine.log, reference.target
    while not target.find_number(value):
        version = log.next_slot
        is_there = reference.store.slot_of(number) == slot
        # Both of one commit.
        if not target.find_number(value) and log.next_slot == version:
            return is_there
    return False


# -- looking for records


def present_identities(store: Store, numbers: Sequence[int]) -> Sequence[Any]:
    """Return the identities of some records that are there, see `_known_identities`."""
    return _known_identities(store, numbers, lambda number: (store.shared(number) or (None,))[0])


def _gone_identities(target: Insertion, numbers: Sequence[int]) -> Sequence[Any]:
    """Return the identities of records that a commit deletes, but for those that are there again.

    A key that was not under its first number may come back under another one.
    """
    if target.key is None:
        return numbers

    def committed(number: int) -> Any:
        while True:
            try:
                return target.record_at(target.slot_of(number))
            except Moved:
                # A compaction has just given it another slot.
                continue

    identities = _known_identities(target, numbers, committed)
    return [identity for identity in identities if not target.find_number(identity)]


def _known_identities(
    store: Insertion, numbers: Sequence[int], read: Callable[[int], Any]
) -> Sequence[Any]:
    """Return the identities of records as far as they can be told.

    What can't be read any more can be deleted all the same, whoever refers to it.
    """
    if store.key is None:
        return numbers
    identities = []
    for number in numbers:
        try:
            identities.append(store.key.of(read(number)))
        except DecodeError as error:
            if error.identity is not None:
                identities.append(error.identity)
        except DamageError:
            continue
    return identities


def _referring(
    reference: Reference, numbers: Iterable[int], identities: Sequence[Any]
) -> Iterator[tuple[int, Any, Any]]:
    """Give number and record of those that do refer to some identities, and to which."""
    wanted = _Exact(reference, identities)
    for number in dict.fromkeys(numbers):
        found = reference.store.shared(number)
        values = () if found is None else reference.values_of(found[0])
        referred = [value for value in values if value in wanted]
        if found is not None and referred:
            yield number, found[0], referred[0]


def _pending(
    transaction: Transaction, reference: Reference, identities: Sequence[Any]
) -> list[int]:
    """Return the numbers of the records written in a transaction that may refer to some."""
    entries = transaction.pending(reference)
    return [number for key in identities for number in _numbers(entries, key)]


def _committed(reference: Reference, identities: Sequence[Any]) -> list[int]:
    """Return the numbers of the committed records that may refer to some."""
    store = reference.store
    bound = reference.index()
    entries: Any = None
    if bound is not None:
        store.indexes.catch_up([bound.name])
        is_unique = bound.kind == "unique"
        built: Any = store.indexes.uniques if is_unique else store.indexes.entries
        entries = built.get(bound.name)
    if entries is None:
        # The index was dropped.
        return present(store, take_snapshot(store))
    return [number for key in identities for number in _numbers(entries, key)]


def _numbers(entries: Any, key: Any) -> Iterable[int]:
    """Return the numbers that the entries of an index have for a key."""
    found = entries.find(key)
    if isinstance(found, int):
        return (found,) if found else ()
    return () if found is None else found.numbers


class _Exact:
    """Some identities of a collection, of which equal values of other types are none."""

    def __init__(self, reference: Reference, identities: Sequence[Any]) -> None:
        self._key = reference.target.key
        self._identities = set(
            identities if self._key is None else map(self._key.encode, identities)
        )

    def __contains__(self, value: Any) -> bool:
        if self._key is None:
            return type(value) is int and value in self._identities
        try:
            return self._key.encode(value) in self._identities
        except IdentityError:
            return False


def _take_out(reference: Reference, identities: Sequence[Any], gone: Sequence[Any]) -> None:
    """Let records refer to some identities no more."""
    store, unwanted = reference.store, _Exact(reference, gone)
    for identity in identities:
        state = store.current_state(identity)
        value = None
        if reference.is_many:
            old = reference.value_of(state.record)
            value = type(old)([each for each in old if each not in unwanted])
        store.replace(state, *changed(store, identity, state, None, {reference.field: value}))


# -- errors


def _leads_nowhere(reference: Reference, value: Any, identity: Any) -> ForeignKeyError:
    store, target = reference.store, reference.target
    record = "a new record" if identity is None else f"the record {shown(identity)}"
    return ForeignKeyError(
        f"{store.name}: {reference.field} of {record} refers to {_shown_identity(target, value)},"
        f" and {target.name} has no such record. Insert that first, or in the same transaction.",
        collection=store.name,
        identity=identity,
        field=reference.field,
        target=target.name,
        referred=value,
    )


def _is_referred_to(reference: Reference, found: list[tuple[int, Any, Any]]) -> ForeignKeyError:
    store, target = reference.store, reference.target
    number, record, value = found[0]
    identity = store.identity_of(number, record)
    others = f" and {len(found) - 1} more" if len(found) > 1 else ""
    return ForeignKeyError(
        f"{target.name}: the record {shown(value)} is referred to by {reference.field} of"
        f" {store.name} {shown(identity)}{others}. Delete or change these first, or in the same"
        " transaction.",
        collection=store.name,
        identity=identity,
        field=reference.field,
        target=target.name,
        referred=value,
    )


def _shown_identity(target: Store, value: Any) -> str:
    """Return an identity for a message; what can't be one is a record's content."""
    try:
        is_one = type(value) is int if target.key is None else bool(target.key.encode(value))
    except IdentityError:
        is_one = False
    return shown(value) if is_one else f"a value of type {type(value).__qualname__}"
