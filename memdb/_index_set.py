"""The applied indexes of a collection: kept, built when first used, and caught up with the log.

Plain indexes trail the log: a write does nothing for them, and the next query takes in what was
committed since. Unique ones must know at once, so that a write brings their keys along (its
*claims*) and they are changed under the same lock as the log.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from memdb._bulk import values_of
from memdb._claims import Claims, Taken
from memdb._index_keys import has_nothing
from memdb._scan import Snapshot, collector_paused, scan
from memdb.errors import ConfigError, DuplicateKeyError, IndexKeyError, MemdbError, QueryError
from memdb.indexes import (
    NO_KEY,
    ColumnEntries,
    Duplicate,
    HashEntries,
    SortedEntries,
    UniqueEntries,
    sort_key,
)
from memdb.query._candidates import best_candidates, names_of, seeds_for
from memdb.query._conditions import conjuncts
from memdb.query._costs import matches_nothing
from memdb.storage import Kind

if TYPE_CHECKING:
    from memdb._index_declarations import BoundIndex
    from memdb._insertion import Insertion
    from memdb._transaction import Change
    from memdb.query import Expression

Entries = HashEntries | SortedEntries | ColumnEntries

# Up to so many new versions are looked at one by one: NumPy's calls cost as much as thirty.
_FEW = 64


class View:
    """Some indexes as of `cursor`; what generated queries look at.

    Attributes:
        cursor: The slot up to which the indexes have taken in everything, -1 when the view must
            not be used any more. A query that finds the log's next slot here before and after has
            seen a single state.
        is_valid: Whether plans for the view may still be made and kept.
        names: Of its plain indexes.
        rows: All records in default order at `cursor`, None until they are asked for.
        entries: Name -> what is built of the plain indexes, others too.
        uniques: Name -> unique index.
    """

    __slots__ = ("cursor", "entries", "is_valid", "names", "rows", "uniques")

    def __init__(
        self,
        names: tuple[str, ...],
        entries: dict[str, Entries],
        uniques: dict[str, UniqueEntries],
    ) -> None:
        self.cursor = -1
        self.is_valid = True
        self.names = names
        self.rows: list[Any] | None = None
        self.entries = entries
        self.uniques = uniques


class _Gap(NamedTuple):
    """What happened in the collection between two slots.

    Attributes:
        stop: The slot after the last one.
        changed: Number -> slot of the live version at `stop`, 0 when it is deleted; None when so
            much did that building anew is cheaper.
    """

    stop: int
    changed: dict[int, int] | None


class _Change(NamedTuple):
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


class IndexSet:
    """The applied indexes of one collection.

    Each plain index has a cursor of its own, so that a query brings up to date what it uses.

    Threads: any thread may call anything, unless it says that the log's lock must be held.

    Attributes:
        entries: Name -> what is built of the plain indexes.
        uniques: Name -> unique index, in the order of claims; all or none.
        plans: What was compiled, by the shape of the query; see `renew`.
        is_checked: The keys of each record that is written have to be checked.
        is_strict: That, or each write has to bring its claims.
    """

    def __init__(self, store: Insertion, bound: Iterable[BoundIndex]) -> None:
        self._store = store
        self._bound: dict[str, BoundIndex] = {each.name: each for each in bound}
        self._lock = threading.RLock()
        self._is_busy = False
        self.entries: dict[str, Entries] = {}
        self.uniques: dict[str, UniqueEntries] = {}
        self._cursors: dict[str, int] = {}
        self._views: dict[tuple[str, ...], View] = {}
        self.plans: dict[Any, Any] = {}
        start = getattr(store.serializer, "exact_start", None)
        self._exact_start: bytes | None = None if start is None else bytes([start])
        self._set_strictness()
        store.on_untyped = self.renew

    # -- what there is -------------------------------------------------------------------

    def __iter__(self) -> Iterator[BoundIndex]:
        return iter(list(self._bound.values()))

    def __len__(self) -> int:
        return len(self._bound)

    def find(self, name: str) -> BoundIndex | None:
        """Return the index of a name, None if there is none."""
        return self._bound.get(name)

    def add(self, bound: BoundIndex) -> None:
        """Take in another index, built at once.

        Raises:
            ConfigError: There is one of this name.
            DuplicateKeyError: It is unique and two records have the same key.
            IndexKeyError: A record's key can't be one.
        """
        if bound.name in self._bound:
            raise ConfigError(
                f"{self._store.name}: has an index {bound.name!r} already. Give the new one"
                " another name=, or drop the old one."
            )
        with self._lock:
            self._bound[bound.name] = bound
            self._set_strictness()
            try:
                if bound.unique is not None:
                    # The others with it: claims are for all of them.
                    with self._store.engine.log.lock:
                        self.distrust()
                    self.build_uniques()
                if bound.kind != "unique":
                    self.catch_up([bound.name])
            except BaseException:
                self.drop(bound.name)
                raise
            self.renew()

    def drop(self, name: str) -> None:
        """Forget an index that is there."""
        with self._lock, self._store.engine.log.lock:
            self._bound.pop(name)
            self.entries.pop(name, None)
            self._cursors.pop(name, None)
            if name in self.uniques:
                self.uniques = {}
            self._set_strictness()
            self._renew()

    def rename(self, old: str, new: BoundIndex) -> None:
        """Give an index another name, without building it again."""
        with self._lock, self._store.engine.log.lock:

            def renamed(content: dict[str, Any]) -> dict[str, Any]:
                # In the order of the declarations, which is that of claims.
                return {new.name if name == old else name: each for name, each in content.items()}

            self._bound = {**renamed(self._bound), new.name: new}
            self.entries = renamed(self.entries)
            self._cursors = renamed(self._cursors)
            self.uniques = renamed(self.uniques)
            self._set_strictness()
            self._renew()

    def _set_strictness(self) -> None:
        self._uniques = [each.unique for each in self._bound.values() if each.unique is not None]
        is_checked = any([each.is_checked_always for each in self._bound.values()])
        has_any = bool(self._bound)
        self.is_checked = is_checked or (has_any and self._exact_start is None)
        self.is_strict = self.is_checked or bool(self._uniques)

    def renew(self) -> None:
        """Let no compiled plan run any more, as what it was made from is different."""
        with self._store.engine.log.lock:
            self._renew()

    def _renew(self) -> None:
        """Do what `renew` does; the lock is held."""
        for view in self._views.values():
            view.is_valid = False
            view.cursor = -1
        self._views = {}
        self.plans = {}

    def forget(self) -> None:
        """Let go of everything, as the database is closed."""
        self._renew()
        self.entries, self.uniques, self._cursors = {}, {}, {}

    def _view(self, names: tuple[str, ...]) -> View:
        """Return the view of some indexes; the lock is held."""
        view = self._views.get(names)
        if view is None:
            view = self._views[names] = View(names, self.entries, self.uniques)
        return view

    # -- plain indexes -------------------------------------------------------------------

    def catch_up(self, names: Iterable[str] = ()) -> View:
        """Take in what was committed since, build the named indexes that are not; return the view.

        When it returns the view is of a state after the call began; whether it still is that of
        the log the caller sees under the log's lock.

        Raises:
            IndexKeyError: The key of a record can't be one; it names index and record.
            QueryError: A key function asks its own collection.

        Cost: O(versions since the last time), nothing when there were none.
        """
        with self._lock:
            if self._is_busy:
                raise QueryError(
                    f"{self._store.name}: a key function of its indexes asks the collection"
                    " itself. Make keys of the record alone."
                )
            self._is_busy = True
            try:
                return self._catch_up(names)
            finally:
                self._is_busy = False

    def _catch_up(self, wanted: Iterable[str]) -> View:
        store, log = self._store, self._store.engine.log
        there = [self._bound[name] for name in wanted if name in self._bound]
        names = tuple([bound.name for bound in there if bound.kind != "unique"])
        if len(names) < len(there):
            self.build_uniques()
        missing: list[BoundIndex] = []
        behind: dict[int, list[str]] = {}
        with log.lock:
            log.raise_if_closed()
            stop = log.next_slot
            for name in names:
                cursor = self._cursors.get(name)
                if cursor is None:
                    missing.append(self._bound[name])
                elif cursor < stop:
                    behind.setdefault(cursor, []).append(name)
            gaps = [(behind[first], self._gap(first)) for first in behind]
            for some, gap in gaps:
                if gap.changed is None:
                    missing += [self._bound[name] for name in some]
            snapshot = None
            if missing:
                snapshot = Snapshot(*store.identities.arrays(), stop, {})
        changes: list[_Change] = []
        for some, gap in gaps:
            if gap.changed:
                changes += self._changed_keys(some, gap.changed, stop)
        built: dict[str, Entries] = {}
        if snapshot is not None:
            built = {bound.name: self._build(bound, snapshot) for bound in missing}
        with log.lock:
            log.raise_if_closed()
            for change in changes:
                _apply(change)
            if not self.entries.keys().isdisjoint(built):
                # Plans hold the entries that are replaced.
                self._renew()
            for name in names:
                # Not one that was dropped meanwhile.
                if name in self._bound:
                    self._cursors[name] = stop
                    if name in built:
                        self.entries[name] = built[name]
            view = self._view(names)
            if view.cursor != stop:
                view.rows = None
                view.cursor = stop
        return view

    def is_at(self, view: View, version: int) -> bool:
        """Whether the indexes of a view are as of just this slot; the lock is held."""
        return view.is_valid and all([self._cursors.get(n) == version for n in view.names])

    def _gap(self, first: int) -> _Gap:
        """Return what happened from a slot on; the lock is held."""
        store, log = self._store, self._store.engine.log
        stop = log.next_slot
        if stop - first <= _FEW:
            owners = [log.owner_of(slot) for slot in range(first, stop)]
            own = {number for number, owner in owners if owner == store.collection_id}
            return _Gap(stop, {number: store.identities.find(number) for number in own})
        pointers = log.pointers(first, stop)
        own_places = np.flatnonzero(pointers["collection"] == store.collection_id)
        if len(own_places) > max(_FEW, len(store.identities) // 2):
            return _Gap(stop, None)
        pointers = pointers[own_places]
        slots = np.where(pointers["kind"] == Kind.DELETED, 0, own_places + first)
        # The last one of each number stays.
        return _Gap(stop, dict(zip(pointers["identity"].tolist(), slots.tolist(), strict=True)))

    def _changed_keys(self, names: list[str], changed: dict[int, int], stop: int) -> list[_Change]:
        """Return what each changed record has to be in some of the indexes."""
        live = {number: slot for number, slot in changed.items() if slot}
        gone = [number for number, slot in changed.items() if not slot]
        numbers = list(live)
        indexes = [(self._bound[name], self.entries[name]) for name in names]
        if len(live) <= _FEW:
            records = self._records(list(live.items()))
            return [
                _Change(
                    entries,
                    gone,
                    numbers,
                    list(map(partial(self.keys_of, bound), numbers, records)),
                )
                for bound, entries in indexes
            ]
        changes: list[_Change] = []
        slots = np.fromiter(live.values(), "<i8", len(live))
        snapshot = Snapshot(np.array(numbers, "<i8"), slots, stop, {})
        for bound, entries in indexes:
            found = self._bulk_keys(bound, snapshot)
            is_set = bound.kind == "set"
            many = [() if key is NO_KEY else key if is_set else (key,) for key in found]
            changes.append(_Change(entries, gone, numbers, many))
        return changes

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
            if bound.needs_copy:
                record = self._store.cloner(record)
            return bound.check(record)
        except IndexKeyError as error:
            raise self._located(error, self._store.identity_of(number, record)) from error.__cause__

    def _located(self, error: IndexKeyError, identity: Any) -> IndexKeyError:
        return error.located(self._store.name, identity)

    def snapshot(self, expression: Expression, changes: dict[int, Change]) -> Snapshot | None:
        """Return the records that an index says may match; None where none says much.

        Args:
            expression: The condition, without parameters.
            changes: Of the calling context's transaction.
        """
        store, log = self._store, self._store.engine.log
        seeds = seeds_for(store, expression)
        if not seeds and not any(map(matches_nothing, conjuncts(expression))):
            return None
        names = names_of(seeds)
        while True:
            view = self.catch_up(names)
            with log.lock:
                log.raise_if_closed()
                version = log.next_slot
                # Else somebody has committed since, and the candidates would be of no one state.
                if not view.is_valid or view.cursor != version:
                    continue
                best = best_candidates(view, expression, seeds)
                if best is None or best.count > len(store.identities) // 2:
                    return None
                numbers = np.unique(best.numbers())
                slots = np.fromiter(map(store.identities.find, numbers.tolist()), "<i8")
            if store.key is not None:
                order = np.argsort(slots)
                numbers, slots = numbers[order], slots[order]
            return Snapshot(numbers, slots, version, changes)

    # -- building ------------------------------------------------------------------------

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
            except IndexKeyError:
                self._refuse_misfits(bound, snapshot)
                raise

    def _extracted(self, bound: BoundIndex, records: list[Any]) -> list[Any]:
        if bound.needs_copy:
            records = list(map(self._store.cloner, records))
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

    # -- unique indexes ------------------------------------------------------------------

    @property
    def claimed(self) -> list[BoundIndex]:
        """The unique indexes, in the order of claims."""
        return self._uniques

    @property
    def has_uniques(self) -> bool:
        """Whether any index is unique."""
        return bool(self._uniques)

    @property
    def are_uniques_built(self) -> bool:
        """Whether unique indexes know every key."""
        return len(self.uniques) == len(self._uniques)

    def build_uniques(self) -> None:
        """Build the unique indexes if they are not.

        Raises:
            DuplicateKeyError: Two records have the same key.
            IndexKeyError: A record's key can't be one.
        """
        store, log = self._store, self._store.engine.log
        while not self.are_uniques_built:
            with self._lock:
                with log.lock:
                    log.raise_if_closed()
                    stop = log.next_slot
                    numbers, slots = store.identities.arrays()
                snapshot = Snapshot(numbers, slots, stop, {})
                built = {bound.name: self._build_unique(bound, snapshot) for bound in self._uniques}
                with log.lock:
                    is_as_before = self._gap(stop).changed == {}
                    if is_as_before and list(built) == [each.name for each in self._uniques]:
                        self.uniques = built
                        self._renew()

    def _build_unique(self, bound: BoundIndex, snapshot: Snapshot) -> UniqueEntries:
        try:
            return UniqueEntries.build(self._bulk_keys(bound, snapshot), snapshot.numbers.tolist())
        except Duplicate as error:
            taken = Taken(self._store, bound.name, error.second, error.first)
            raise self.duplicate(taken) from None
        except TypeError:
            self._refuse_misfits(bound, snapshot)
            raise

    def distrust(self) -> None:
        """Build unique indexes anew before the next write; the lock is held."""
        if self.uniques:
            self.uniques = {}
            self._renew()

    def claims(self, record: Any, payload: bytes, identity: Any = None) -> Claims:
        """Return the keys of a record that is about to be written in each unique index.

        Args:
            record: The user's, as it was encoded.
            payload: Its bytes, which tell whether its values are as the class says.
            identity: For the error.

        Raises:
            IndexKeyError: A key can't be one, in any of the indexes.
        """
        if not self._bound:
            return ()
        is_exact = self._exact_start is None or payload[:1] == self._exact_start
        try:
            claims = []
            for bound in self._bound.values():
                if bound.unique is None and not (is_exact or bound.is_checked_always):
                    continue
                # A function of the user's may change what it gets.
                own = self._store.cloner(record) if bound.needs_copy else record
                keys = bound.check(own)
                if bound.unique is not None:
                    claims.append(keys if bound.unique is bound else bound.unique.check(own))
            return tuple(claims)
        except IndexKeyError as error:
            raise self._located(error, identity) from error.__cause__

    def claims_of_many(
        self, records: list[Any], payloads: list[bytes], identities: list[Any]
    ) -> list[Claims]:
        """Return the `claims` of each record, nothing where no index is unique.

        Args:
            records, payloads: As for `claims`.
            identities: Of the records, none where they have none yet.
        """
        wanted = list(zip(records, payloads, identities or repeat(None), strict=False))
        if not self.is_strict:
            exact = self._exact_start if self._bound else None
            wanted = [each for each in wanted if each[1][:1] == exact]
        claims = [self.claims(*each) for each in wanted]
        return claims if self._uniques else []

    def refuse_taken(self, changes: Sequence[tuple[int, Claims]]) -> None:
        """Raise if a change would give two records one key; the lock is held, uniques are built.

        Args:
            changes: Number and claims of each record that is changed, () of one that is deleted.

        Raises:
            Taken: It would.
        """
        for place, (name, entries) in enumerate(self.uniques.items()):
            new: dict[Any, int] = {}
            for number, claims in changes:
                for key in claims[place] if claims else ():
                    if new.setdefault(key, number) != number:
                        raise Taken(self._store, name, number, new[key])
            for key, number in new.items():
                owner = entries.find(key)
                if owner and owner != number and all([owner != each for each, _ in changes]):
                    raise Taken(self._store, name, number, owner)

    def take_claims(self, changes: Sequence[tuple[int, Claims]]) -> None:
        """Enter what was written into the unique indexes; the lock is held."""
        for place, entries in enumerate(self.uniques.values()):
            # All keys are given up first: two records may have swapped theirs.
            for number, _ in changes:
                entries.remove(number)
            for number, claims in changes:
                for key in claims[place] if claims else ():
                    entries.set(number, key)

    def remove(self, number: int) -> None:
        """Take a deleted record out of the unique indexes; the lock is held."""
        for entries in self.uniques.values():
            entries.remove(number)

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
                except MemdbError:
                    identity = None
            elif not store.slot_of(number):
                identity = None
            identities.append(identity)
        return DuplicateKeyError.of(store.name, taken.index, *identities)

    # -- checking ------------------------------------------------------------------------

    def differing(self) -> list[str]:
        """Return the names of the built indexes whose content is not that of a rebuild."""
        store, log = self._store, self._store.engine.log
        wrong: list[str] = []
        targets = [bound for bound in self if bound.name in self.entries]
        for bound in [*targets, *(self._uniques if self.uniques else [])]:
            while True:
                view = self.catch_up([bound.name])
                with log.lock:
                    if not view.is_valid or view.cursor != log.next_slot:
                        continue
                    built: Any = self.uniques if bound.kind == "unique" else self.entries
                    if bound.name not in built:
                        break
                    content = _comparable(built[bound.name])
                    snapshot = Snapshot(*store.identities.arrays(), view.cursor, {})
                build: Any = self._build_unique if bound.kind == "unique" else self._build
                if content != _comparable(build(bound, snapshot)):
                    wrong.append(bound.name)
                break
        return wrong


def _comparable(entries: Entries | UniqueEntries) -> list[Any]:
    """Return keys and numbers, as what says whether two indexes have the same."""
    if isinstance(entries, HashEntries):
        return sorted([(sort_key(key), numbers) for key, numbers in entries.items()])
    return [(sort_key(key), number) for key, number in sorted(entries.items(), key=_number_first)]


def _number_first(item: tuple[Any, int]) -> int:
    return item[1]


def _apply(change: _Change) -> None:
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
