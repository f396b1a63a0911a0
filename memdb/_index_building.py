"""Building indexes: the keys of records, one by one and of very many, and what is made of them."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from memdb._bulk import values_of
from memdb._claims import Taken
from memdb._index_keys import has_nothing
from memdb._scan import Snapshot, collector_paused, scan
from memdb.errors import DuplicateKeyError, IndexKeyError, MemdbError
from memdb.indexes import (
    NO_KEY,
    ColumnEntries,
    Duplicate,
    HashEntries,
    SortedEntries,
    UniqueEntries,
    sort_key,
)
from memdb.serializers._build import force_setattr
from memdb.storage import Moved

if TYPE_CHECKING:
    from memdb._bound_index import BoundIndex
    from memdb._insertion import Insertion

Entries = HashEntries | SortedEntries | ColumnEntries
E = TypeVar("E", bound=Entries | UniqueEntries)


class KeyChange(NamedTuple):
    """What some records are in an index from now on.

    Attributes:
        entries: The index.
        gone: Numbers of those that are deleted.
        numbers: Of those that are new or different.
        keys: What each of these has in the index.
    """

    entries: Entries
    gone: list[int]
    numbers: list[int]
    keys: list[tuple[Any, ...]]


class IndexBuilding:
    """The inside of `IndexSet` that makes entries of records."""

    _store: Insertion

    def renew(self) -> None:
        """Let no compiled plan run any more; see `IndexSet.renew`."""
        raise NotImplementedError

    def _watched(self, entries: E) -> E:
        """Have plans made anew when an index gets keys that it can't vouch for, or loses them."""
        if not isinstance(entries, ColumnEntries):
            entries.odd.on_change = self.renew
        return entries

    def _records(self, live: Sequence[tuple[int, int]]) -> list[Any]:
        """Return the records of numbers and slots; they are not to be changed."""
        store = self._store
        find = store.identities.find
        records: list[Any] = []
        decoded: list[tuple[int, int, Any]] = []
        for number, slot in live:
            record = store.cache.get(number)
            # What readers share they may have changed; and a newer version may be there already.
            if record is None or store.cloner.is_sharing or find(number) != slot:
                record = store.record_at(slot)
                decoded.append((number, slot, record))
            records.append(record)
        if decoded and store.cache_limit is None:
            store.keep(decoded)
        return records

    def keys_of(self, bound: BoundIndex, number: int, record: Any) -> tuple[Any, ...]:
        """Return the keys of a stored record in an index.

        Raises:
            IndexKeyError: They can't be.
        """
        try:
            return bound.check(self.copy_for(bound, record))
        except IndexKeyError as error:
            raise self._located(error, self._store.identity_of(number, record)) from error.__cause__

    def _located(self, error: IndexKeyError, identity: Any) -> IndexKeyError:
        return error.located(self._store.name, identity)

    def _build(self, bound: BoundIndex, snapshot: Snapshot) -> Entries:
        keys = self._bulk_keys(bound, snapshot)
        numbers = snapshot.numbers.tolist()
        if bound.is_partial and bound.kind != "set":
            kept = [
                (key, number)
                for key, number in zip(keys, numbers, strict=True)
                if key is not NO_KEY
            ]
            keys, numbers = [key for key, _ in kept], [number for _, number in kept]
        try:
            if bound.kind == "hash":
                return HashEntries.build(keys, numbers)
            if bound.kind == "set":
                return HashEntries.build_many(keys, numbers)
        except TypeError:
            # A key has no hash: the error has to say whose.
            self._refuse_misfits(bound, snapshot)
            raise
        if bound.kind == "column":
            return ColumnEntries.build(keys, numbers)
        return SortedEntries.build(keys, numbers, bound.directions)

    def _bulk_keys(self, bound: BoundIndex, snapshot: Snapshot) -> list[Any]:
        """Return what `BoundIndex.extract` gives of the records of a snapshot.

        Raises:
            IndexKeyError: A key can't be one; it names the record.
        """
        store = self._store
        with collector_paused():
            records = self._all_cached(snapshot)
            is_of_fields = bound.paths is not None and bound.condition is None
            if records is None and is_of_fields and bound.kind != "set":
                assert bound.paths is not None
                found = values_of(store, snapshot.numbers, snapshot.slots, bound.paths)
                if bound.kind != "unique":
                    return found
                is_one = len(bound.paths) == 1
                return [
                    NO_KEY if (has_nothing(key) if is_one else has_nothing(*key)) else key
                    for key in found
                ]
            try:
                if records is not None:
                    return self._extracted(bound, records)
                keys: list[Any] = []
                for part in scan(store, snapshot):
                    keys += self._extracted(bound, part.records)
                return keys
            except (IndexKeyError, TypeError):
                # An element of a set index may have no hash: the error has to say whose.
                self._refuse_misfits(bound, snapshot)
                raise

    def copy_for(self, bound: BoundIndex, record: Any) -> Any:
        """Return a record as an index may have it: a copy if a function of the user's looks at it.

        That of a unique index does not see the identity, which a new record has not got yet when
        its keys are claimed.
        """
        if not bound.needs_copy:
            return record
        own = self._store.cloner(record)
        member = self._store.members.find(type(own))
        if bound.kind != "unique" or member is None or member.shape.identity is None:
            return own
        name, kind = member.shape.identity, member.shape.kind
        if kind == "namedtuple":
            return own._replace(**{name: 0})
        if own is record:
            own = copy.copy(own)
        if kind == "dict":
            own.pop(name, None)
        else:
            set_field = force_setattr if kind == "struct" else object.__setattr__
            set_field(own, name, 0)
        return own

    def _extracted(self, bound: BoundIndex, records: list[Any]) -> list[Any]:
        if bound.needs_copy:
            records = [self.copy_for(bound, record) for record in records]
        return bound.extract(records)

    def _all_cached(self, snapshot: Snapshot) -> list[Any] | None:
        """Return the records of a snapshot if all are in the cache."""
        store = self._store
        if len(store.cache) < len(snapshot.numbers) or store.cloner.is_sharing:
            return None
        try:
            records = list(map(store.cache.__getitem__, snapshot.numbers.tolist()))
        except KeyError:
            return None
        # A commit is in the log before the cache loses what it replaces.
        return records if store.engine.log.next_slot == snapshot.version else None

    def _refuse_misfits(self, bound: BoundIndex, snapshot: Snapshot) -> None:
        """Raise the error of the first record whose key can't be one."""
        for part in scan(self._store, snapshot):
            for number, record in zip(part.identities, part.records, strict=True):
                self.keys_of(bound, number, record)

    def _build_unique(self, bound: BoundIndex, snapshot: Snapshot) -> UniqueEntries:
        try:
            return UniqueEntries.build(self._bulk_keys(bound, snapshot), snapshot.numbers.tolist())
        except Duplicate as error:
            taken = Taken(self._store, bound.name, error.second, error.first)
            raise self.duplicate(taken) from None
        except TypeError:
            self._refuse_misfits(bound, snapshot)
            raise

    def duplicate(self, taken: Taken) -> DuplicateKeyError:
        """Return the error for a key that two records would have."""
        store = self._store
        identities: list[Any] = []
        for number in (taken.owner, taken.number):
            identity: Any = number
            if store.key is not None:
                found = None
                try:
                    found = store.slot_of(number)
                    identity = store.key.of(store.record_at(found)) if found else None
                except (MemdbError, Moved):
                    identity = None
            elif not store.slot_of(number):
                identity = None
            identities.append(identity)
        return DuplicateKeyError.of(store.name, taken.index, *identities)


def comparable(entries: Entries | UniqueEntries) -> Any:
    """Return keys and numbers, as what says whether two indexes have the same."""
    if isinstance(entries, HashEntries | UniqueEntries):
        # Any of some equal keys stands for all of them.
        return dict(entries.items())
    return [(sort_key(key), number) for key, number in sorted(entries.items(), key=_number_first)]


def _number_first(item: tuple[Any, int]) -> int:
    return item[1]


def apply(change: KeyChange) -> None:
    """Take changes of records into an index; the lock is held."""
    entries = change.entries
    for number in change.gone:
        entries.remove(number)
    if isinstance(entries, HashEntries):
        for number, keys in zip(change.numbers, change.keys, strict=True):
            if keys:
                entries.set(number, keys)
            else:
                entries.remove(number)
        return
    there: list[int] = []
    sole: list[Any] = []
    for number, keys in zip(change.numbers, change.keys, strict=True):
        if keys:
            there.append(number)
            sole.append(keys[0])
        else:
            entries.remove(number)
    entries.set_many(sole, there)
