"""The applied indexes of a collection: kept, built when first used, and caught up with the log.

Plain indexes trail the log: a write does nothing for them, and the next query takes in what was
committed since. Unique ones must know at once, so that a write brings their keys along (its
*claims*) and they are changed under the same lock as the log.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from memdb._claims import Claims, Taken
from memdb._index_building import Entries, KeyChange, apply, comparable
from memdb._index_functions import query_shape, refuse_hidden
from memdb._index_uniques import UniqueKeys
from memdb._saved_indexes import SavedIndexes
from memdb._scan import Snapshot
from memdb.errors import ConfigError, DuplicateKeyError, IndexKeyError, MemdbError, QueryError
from memdb.indexes import NO_KEY, ColumnEntries, UniqueEntries
from memdb.query._candidates import best_candidates, indexes_of, seeds_for
from memdb.query._conditions import conjuncts
from memdb.query._costs import matches_nothing
from memdb.storage import Era, Kind

if TYPE_CHECKING:
    from memdb._bound_index import BoundIndex
    from memdb._insertion import Insertion
    from memdb._transaction import Change
    from memdb.query import Expression

# Up to so many new versions are looked at one by one: NumPy's calls cost as much as thirty.
_FEW = 64

# Sets of indexes that queries use; more than there are plans.
_MOST_VIEWS = 1024

_DIFFERENT = "is not as its records say"

# How often candidates are looked up again after somebody has committed meanwhile.
_ATTEMPTS = 10


class View:
    """Some indexes as of `cursor`; what generated queries look at.

    Attributes:
        cursor: The collection's horizon up to which the indexes have taken in everything, -1 when
            the view must not be used any more. A query that finds the horizon here before and
            after has seen a single state.
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

    def parts(self) -> tuple[dict[int, int], list[int]]:
        """Return the live ones and their slots, and the deleted ones."""
        changed = self.changed or {}
        live = {number: slot for number, slot in changed.items() if slot}
        return live, [number for number, slot in changed.items() if not slot]


class IndexSet(UniqueKeys):
    """The applied indexes of one collection.

    Each plain index has a cursor of its own, so that a query brings up to date what it uses.

    Threads: any thread may call anything, unless it says that the log's lock must be held.

    Attributes:
        entries: Name -> what is built of the plain indexes.
        uniques: Name -> unique index, in the order of claims; all or none.
        uniques_at: The slot up to which a reader's unique indexes have taken in everything.
        claimed: The unique indexes, in the order of claims. Another list after each change of
            these, by which a write that began before knows.
        nothing_claimed: The claims of a record that has no key in any of these.
        token: Another object after each change of any index, for the generated insert.
        partials: Those that have a condition.
        plans: What was compiled, by the shape of the query; see `renew`.
        is_checked: The keys of each record that is written have to be checked.
        is_strict: That, or each write has to bring its claims.
    """

    def __init__(self, store: Insertion, bound: Iterable[BoundIndex]) -> None:
        self._store = store
        self._bound: dict[str, BoundIndex] = {each.name: each for each in bound}
        refuse_hidden(store, self)
        self._lock = threading.RLock()
        self._is_busy = False
        self.entries: dict[str, Entries] = {}
        self.uniques: dict[str, UniqueEntries] = {}
        self.uniques_at = 0
        self._cursors: dict[str, int] = {}
        self._saved = SavedIndexes(store)
        self._views: dict[tuple[str, ...], View] = {}
        self.plans: dict[Any, Any] = {}
        start = getattr(store.serializer, "exact_start", None)
        self._exact_start: bytes | None = None if start is None else bytes([start])
        self.claimed: list[BoundIndex] = []
        self._set_bound(self._bound)
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
        refuse_hidden(self._store, [*self, bound])
        self._store.engine.log.raise_if_closed()
        with self._lock:
            try:
                self._set_bound({**self._bound, bound.name: bound})
                if bound.unique is not None:
                    # The others with it: claims are for all of them.
                    with self._store.engine.log.lock:
                        self.distrust()
                    self.build_uniques()
                if bound.kind != "unique":
                    self.catch_up([bound.name])
            except BaseException:
                if bound.name in self._bound:
                    self.drop(bound.name)
                raise
            self.renew()

    def drop(self, name: str) -> None:
        """Forget an index that is there."""
        self._store.engine.log.raise_if_closed()
        with self._lock, self._store.engine.log.lock:
            self._saved.drop(name)
            kept = {each.name: each for each in self if each.name != name}
            if name in self.uniques:
                self.uniques = {}
            self._set_bound(kept)
            self._discard([name])

    def rename(self, old: str, new: BoundIndex) -> None:
        """Give an index another name, without building it again.

        Raises:
            ConfigError: A function makes it and another one asks for a field of this name.
        """
        refuse_hidden(self._store, [new, *[each for each in self if each.name != old]])
        self._store.engine.log.raise_if_closed()
        with self._lock, self._store.engine.log.lock:

            def renamed(content: dict[str, Any]) -> dict[str, Any]:
                # In the order of the declarations, which is that of claims.
                return {new.name if name == old else name: each for name, each in content.items()}

            self._saved.drop(old)
            uniques, entries = renamed(self.uniques), renamed(self.entries)
            cursors = renamed(self._cursors)
            self.renew()
            self._set_bound({**renamed(self._bound), new.name: new})
            self.uniques, self.entries, self._cursors = uniques, entries, cursors

    def _set_bound(self, bound: dict[str, BoundIndex]) -> None:
        """Let these be the indexes from now on."""
        all_bound = list(bound.values())
        shape = query_shape(self._store, all_bound)
        claimed = [each.unique for each in all_bound if each.unique is not None]
        if list(map(id, claimed)) == list(map(id, self.claimed)):
            # What was claimed before still holds.
            claimed = self.claimed
        is_checked = any([each.is_checked_always for each in all_bound])
        is_checked = is_checked or (bool(bound) and self._exact_start is None)
        is_strict = is_checked or bool(claimed)
        nothing = Claims(claimed, ())
        token = object()
        partials = [each for each in all_bound if each.declaration.where is not None]
        # No call from here on, so that an interrupt finds all of it done or nothing.
        self._store.query_shape = shape
        self._bound = bound
        self.claimed = claimed
        self.nothing_claimed = nothing
        self.token = token
        self.is_checked = is_checked
        self.is_strict = is_strict
        self.partials = partials

    def renew(self) -> None:
        """Let no compiled plan run any more, as what it was made from is different.

        It takes no lock: a record may be decoded, and be found not to be as its class says, by
        whoever holds one.
        """
        # In this order, see `_catch_up` and `keep_plan`: nobody who finds the new plans has a view
        # from before that is valid.
        views, self._views = self._views, {}
        for view in list(views.values()):
            view.is_valid = False
            view.cursor = -1
            view.rows = None
        self.plans = {}

    def forget(self) -> None:
        """Let go of everything, as the database is closed."""
        self.renew()
        built = [*self.entries.values(), *self.uniques.values()]
        self.entries, self.uniques, self._cursors = {}, {}, {}
        for entries in built:
            # Prepared queries hold them.
            entries.clear()
        # Whoever had the old one when the process forked is not there any more.
        self._lock = threading.RLock()

    def _view(self, names: tuple[str, ...]) -> View:
        """Return the view of some indexes; the lock is held."""
        view = self._views.get(names)
        if view is None:
            if len(self._views) >= _MOST_VIEWS:
                self.renew()
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
        self._store.engine.log.raise_if_closed()
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
        wanted = list(wanted)
        there = [self._bound[name] for name in wanted if name in self._bound]
        names = tuple([bound.name for bound in there if bound.kind != "unique"])
        if len(names) < len(there):
            self.build_uniques()
        missing: list[BoundIndex] = []
        behind: dict[int, list[str]] = {}
        self._take_saved(names)
        with log.lock:
            log.raise_if_closed()
            # Kept, so that what was committed up to here can be read.
            era = log.era
            stop, horizon = log.next_slot, store.horizon.slot
            unique_gap = self._unique_gap()
            for name in names:
                cursor = self._cursors.get(name)
                if cursor is None:
                    missing.append(self._bound[name])
                elif cursor < stop:
                    behind.setdefault(cursor, []).append(name)
            gaps = [(behind[first], self._gap(first)) for first in behind]
            # As of now: should the file be another one meanwhile, they may be forgotten.
            entries = dict(self.entries)
            for some, gap in gaps:
                if gap.changed is None:
                    missing += [self._bound[name] for name in some]
            snapshot = None
            if missing:
                snapshot = Snapshot(*store.identities.arrays(), stop, {}, era)
        if unique_gap is not None and not self._take_in_uniques(unique_gap, era):
            return self._catch_up(wanted)
        changes: list[KeyChange] = []
        for some, gap in gaps:
            if gap.changed:
                changes += self._changed_keys([(name, entries[name]) for name in some], gap, era)
        built: dict[str, Entries] = {}
        if snapshot is not None:
            built = {bound.name: self._build(bound, snapshot) for bound in missing}
        if changes:
            # Invariant: an index that is being changed has no cursor, so that it is built anew
            # after an interrupt in the middle; and no view that has it is at the horizon, which
            # what is changed here has raised. So nobody needs to wait for this.
            with log.lock:
                for some, gap in gaps:
                    for name in some if gap.changed else ():
                        self._cursors.pop(name, None)
            for change in changes:
                apply(change)
        with log.lock:
            log.raise_if_closed()
            is_as_before = log.era is era
            if is_as_before:
                view = self._at(names, built, stop, horizon)
        # Else the file is another one, and nothing that was made is of it.
        return view if is_as_before else self._catch_up(wanted)

    def _at(
        self, names: tuple[str, ...], built: dict[str, Entries], stop: int, horizon: int
    ) -> View:
        """Return the view of indexes that have taken in everything up to a slot; the lock is held.

        Args:
            names: Of the plain indexes.
            built: Those that were made anew.
            stop: The slot.
            horizon: That of the collection then.
        """
        if not self.entries.keys().isdisjoint(built):
            # Plans hold the entries that are replaced.
            self.renew()
        for name in names:
            # Not one that was dropped meanwhile.
            if name in self._bound:
                if name in built:
                    self.entries[name] = self._watched(built[name])
                self._cursors[name] = stop
        view = self._view(names)
        if view.cursor != horizon:
            view.rows = None
            view.cursor = horizon
            if not view.is_valid:
                # `renew` may have come between.
                view.cursor = -1
        return view

    def discard_all(self) -> None:
        """Forget what is built of the plain indexes, as no record is left; the lock is held.

        Else they would keep the records alive until they are asked again.
        """
        built = list(self.entries.values())
        self._discard(list(self.entries))
        for entries in built:
            entries.clear()

    def start_over(self) -> None:
        """Forget all that was built, as the file is another one; the lock is held."""
        self.uniques = {}
        self._discard(list(self.entries))
        self._cursors.clear()
        self._saved.start_over()

    # -- when the file is compacted --------------------------------------------------------

    def catch_up_built(self) -> None:
        """Bring all that is built of the plain indexes up to date, as far as that can be."""
        names = [name for name in self.entries if name in self._cursors]
        # What a record makes impossible is said to whoever asks the index.
        with contextlib.suppress(MemdbError):
            if names:
                self.catch_up(names)

    def renumber(self, cursor: Callable[[int], int | None]) -> None:
        """Learn the new slots of versions that stay the same; the lock is held.

        Args:
            cursor: Makes a new cursor of an old one; None where too much is not known any more.
        """
        cursors = {name: cursor(slot) for name, slot in self._cursors.items()}
        self._discard([name for name, slot in cursors.items() if slot is None])
        self._cursors.update({name: slot for name, slot in cursors.items() if slot is not None})
        self.uniques_at = self._store.engine.log.next_slot
        self._saved.start_over()

    def let_go_of_the_file(self) -> None:
        """Forget the indexes that are views into a file which is no more.

        They are taken from the new one, if they were saved there.
        """
        with self._lock, self._store.engine.log.lock:
            mapped, self._saved.mapped = self._saved.mapped, set()
            if mapped:
                self._discard(mapped)

    def _discard(self, names: Iterable[str]) -> None:
        """Forget what is built of some indexes; the lock is held."""
        self.renew()
        for name in names:
            self._cursors.pop(name, None)
            self.entries.pop(name, None)

    def _take_saved(self, names: Iterable[str]) -> None:
        """Take from the file what is not built and saved there; it is caught up with as others."""
        log = self._store.engine.log
        for name in names:
            era = log.era
            found = None if name in self._cursors else self._saved.load(self._bound[name])
            if found is not None:
                with log.lock:
                    if log.era is era:
                        self.entries[name], self._cursors[name] = self._watched(found[0]), found[1]

    def save(self) -> None:
        """Write to the file what spares the next opening work, see `SavedIndexes.save`.

        Nothing if another thread is about to bring the indexes up to date, or a key function calls.
        """
        if not self._lock.acquire(blocking=False):
            return
        try:
            if not self._is_busy:
                cursors = self._cursors
                built = [
                    (self._bound[name], entries, cursors[name])
                    for name, entries in self.entries.items()
                    if name in cursors and name in self._bound
                ]
                self._saved.save(built)
        finally:
            self._lock.release()

    def is_changed_since(self, slot: int) -> bool:
        """Whether any record was changed from a slot on; the lock is held."""
        return self._gap(slot).changed != {}

    def level_of(self, view: View) -> int | None:
        """Return the slot that all indexes of a view are as of, None if there is no one; the lock
        is held."""
        levels = {self._cursors.get(name) for name in view.names}
        return levels.pop() if len(levels) == 1 and view.is_valid else None

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

    def _changed_keys(
        self, built: list[tuple[str, Entries]], gap: _Gap, era: Era
    ) -> list[KeyChange]:
        """Return what each changed record has to be in some of the indexes, by name."""
        live, gone = gap.parts()
        found = self._keys([self._bound[name] for name, _ in built], live, gap.stop, era)
        return [
            KeyChange(entries, gone, list(live), keys)
            for (_, entries), keys in zip(built, found, strict=True)
        ]

    def _keys(
        self, indexes: list[BoundIndex], live: dict[int, int], stop: int, era: Era
    ) -> list[list[tuple[Any, ...]]]:
        """Return what each of some records has in each of some indexes.

        Args:
            indexes: The indexes.
            live: Number -> slot of the version that is asked for.
            stop, era: As of `Snapshot`.
        """
        numbers = list(live)
        if len(live) <= _FEW:
            records = self._records(list(live.items()))
            return [list(map(partial(self.keys_of, bound), numbers, records)) for bound in indexes]
        slots = np.fromiter(live.values(), "<i8", len(live))
        snapshot = Snapshot(np.array(numbers, "<i8"), slots, stop, {}, era)
        keys: list[list[tuple[Any, ...]]] = []
        for bound in indexes:
            found = self._bulk_keys(bound, snapshot)
            is_set = bound.kind == "set"
            keys.append([() if key is NO_KEY else key if is_set else (key,) for key in found])
        return keys

    # -- unique indexes of a reader, who hears of a change when it is there already ---------

    def _unique_gap(self) -> _Gap | None:
        """Return what unique indexes have to take in; the lock is held.

        None where they are up to date or not built: so they are for whoever writes.
        """
        if not self.uniques or self.uniques_at >= self._store.engine.log.next_slot:
            return None
        if not self._store.engine.is_following:
            return None
        gap = self._gap(self.uniques_at)
        if gap.changed is None:
            self.distrust()
        return gap

    def _take_in_uniques(self, gap: _Gap, era: Era) -> bool:
        """Bring the unique indexes up to date; False where they have to be built anew.

        Raises:
            DuplicateKeyError: Whoever writes has not declared them, and two records have one key.
        """
        if gap.changed is None:
            return False
        live, gone = gap.parts()
        indexes = self.claimed
        by_index = self._keys(indexes, live, gap.stop, era)
        changes: list[tuple[int, Claims | None]] = [(number, None) for number in gone]
        claims = [Claims(indexes, keys) for keys in zip(*by_index, strict=True)]
        changes += zip(live, claims, strict=True)
        try:
            with self._store.engine.log.lock:
                if self._store.engine.log.era is not era:
                    return False
                try:
                    self.refuse_taken(changes)
                    self.take_claims(changes)
                except BaseException:
                    # Half of it may be done.
                    self.distrust()
                    raise
                self.uniques_at = gap.stop
        except Taken as taken:
            raise self.duplicate(taken) from None
        return True

    def snapshot(self, expression: Expression, changes: dict[int, Change]) -> Snapshot | None:
        """Return the records that an index says may match; None where none says much.

        Args:
            expression: The condition, without parameters.
            changes: Of the calling context's transaction.
        """
        store, log = self._store, self._store.engine.log
        for _ in range(_ATTEMPTS):
            seeds = seeds_for(store, expression)
            if not seeds and not any(map(matches_nothing, conjuncts(expression))):
                return None
            used = indexes_of(seeds)
            view = self.catch_up([index.name for index in used])
            if not all([self._bound.get(index.name) is index for index in used]):
                # By now a name is that of another index.
                continue
            horizon = view.cursor
            numbers = None
            try:
                # Without the lock, as comparing what the user gave may run his code.
                best = best_candidates(view, expression, seeds)
                if best is not None and best.narrows(len(store.identities)):
                    numbers = np.unique(best.numbers())
            except Exception:
                if view.is_valid and store.horizon.slot == horizon:
                    raise
                # Half of a change was seen.
                log.raise_if_closed()
                continue
            with log.lock:
                log.raise_if_closed()
                # Else somebody has committed since, and the candidates would be of no one state.
                if not view.is_valid or store.horizon.slot != horizon or view.cursor != horizon:
                    continue
                if numbers is None:
                    return None
                version = log.next_slot
                slots = store.identities.find_many(numbers)
                era = log.era
            if store.key is not None:
                order = np.argsort(slots)
                numbers, slots = numbers[order], slots[order]
            return Snapshot(numbers, slots, version, changes, era)
        # Somebody commits all the time. A scan waits for nobody.
        return None

    # -- checking ------------------------------------------------------------------------

    def faults(self) -> dict[str, str]:
        """Return what is wrong with indexes whose content is not that of a rebuild, by name."""
        found: dict[str, str] = {}
        built = [bound for bound in self if bound.name in self.entries or self._saved.find(bound)]
        for bound in [*built, *self.claimed]:
            try:
                if self._is_different(bound):
                    found[bound.name] = _DIFFERENT
            except (DuplicateKeyError, IndexKeyError) as error:
                found[bound.name] = f"can't be built: {error}"
        return dict.fromkeys(self._saved.misfits, _DIFFERENT) | found

    def _is_different(self, bound: BoundIndex) -> bool:
        store, log = self._store, self._store.engine.log
        while True:
            view = self.catch_up([bound.name])
            with log.lock:
                if not view.is_valid or view.cursor != store.horizon.slot:
                    continue
                built: Any = self.uniques if bound.kind == "unique" else self.entries
                entries = built.get(bound.name)
                if entries is None or (isinstance(entries, ColumnEntries) and not entries.is_exact):
                    # Nothing asks it.
                    return False
                content = comparable(entries)
                snapshot = Snapshot(*store.identities.arrays(), log.next_slot, {}, log.era)
                build: Any = self._build_unique if bound.kind == "unique" else self._build
            return bool(content != comparable(build(bound, snapshot)))
