"""Saved indexes: arrays of large indexes in the file, so that an opening need not build them.

They are written directly before a checkpoint, and say up to which slot they are true; whoever takes
one out of the file catches up from there. Nothing in a file can make one wrong later: versions
never change, and what does not fit the program any more is built anew.

Keys are saved in clear. So nothing may be saved of a collection whose records are not.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from memdb.errors import ConfigError, WriteError
from memdb.indexes import ColumnEntries, SortedEntries
from memdb.indexes._saved import Saved, from_saved, is_known, numbers_of_saved, to_saved
from memdb.storage import Array, SavedIndex

if TYPE_CHECKING:
    from memdb._bound_index import BoundIndex
    from memdb._records import Records

Built = tuple["BoundIndex", object, int]
"""An index, its entries, and the slot up to which they have taken in everything."""

# Measured: with fewer, building takes less than 5 ms.
_LEAST_ENTRIES: Final = 10_000
# It is saved again once so many versions have come since: so a version costs the file 68 bytes at
# most, and an opening catches up with a quarter of the records at most.
_LEAST_CHANGES: Final = 10_000
_SHARE_OF_CHANGES: Final = 4


class _Progress(NamedTuple):
    """How far an index was looked at for saving.

    Attributes:
        cursor: Up to which slot.
        changes: How many of the collection's versions before it the file does not have.
    """

    cursor: int
    changes: float


class SavedIndexes:
    """What the file has of the indexes of one collection.

    Threads: the lock of the collection's indexes is held for every call.

    Attributes:
        misfits: Names of those that their checksum says are as they were written, and that can't
            be true all the same.
    """

    def __init__(self, store: Records) -> None:
        self._store = store
        self._progress: dict[str, _Progress] = {}
        self._dropped: set[str] = set()
        self.misfits: set[str] = set()
        self.mapped: set[str] = set()

    # -- using ---------------------------------------------------------------------------

    def find(self, bound: BoundIndex) -> SavedIndex | None:
        """Return what the file has of an index, if it is this one and its keys can be believed."""
        if not self._can_be_saved(bound):
            return None
        own = self._own_writers()
        for saved in self._store.engine.log.saved_indexes(self._store.collection_id):
            if saved.name != bound.name:
                continue
            declaration, writers, facts = _parts_of(saved.meta)
            is_same = declaration == bound.declaration.signature
            # Another memdb may know words that this one does not.
            if is_same and is_known(bound.kind, facts, [name for name, _, _ in saved.layout]):
                return saved if all([each in own for each in writers]) else None
        return None

    def load(self, bound: BoundIndex) -> tuple[SortedEntries | ColumnEntries, int] | None:
        """Return entries out of the file, and up to which slot they are true.

        Returns:
            None where there are none, or building is cheaper or safer.

        Cost: O(n), vectorised: some milliseconds a million.
        """
        era = self._store.engine.log.era
        found = self.find(bound)
        if found is None:
            return None
        changed = self._changed_since(found.slot)
        if len(changed) > len(self._store.identities) // 2:
            return None
        arrays = self._store.engine.log.index_arrays(found)
        if arrays is None:
            # Damage, of which check() tells.
            return None
        saved = Saved(arrays, _parts_of(found.meta)[2])
        entries = from_saved(bound.kind, saved)
        if entries is None or not self._has_right_numbers(saved, found.slot):
            # Unless the log went over to another file meanwhile.
            if self._store.engine.log.era is era:
                self.misfits.add(bound.name)
            return None
        self._progress[bound.name] = _Progress(found.slot, 0)
        self.mapped.add(bound.name)
        return entries, found.slot

    def _has_right_numbers(self, saved: Saved, slot: int) -> bool:
        """Whether entries as of a slot are of just the records that there were.

        Those that changed since are left out, whatever they were.
        """
        with self._store.engine.log.lock:
            numbers, slots = self._store.identities.arrays()
            changed = self._changed_since(slot)
        found = numbers_of_saved(saved)
        if len(changed):
            numbers = numbers[slots < slot]
            found = found[~np.isin(found, changed)]
        return np.array_equal(found, numbers)

    def _changed_since(self, first: int, stop: int | None = None) -> Array:
        """Return the number of each version of the collection between two slots."""
        pointers = self._store.engine.log.pointers(first, stop)
        numbers: Array = pointers["identity"][pointers["collection"] == self._store.collection_id]
        return numbers

    def _own_writers(self) -> set[int]:
        """Return the writers whose bytes hold the values of a record as they are."""
        return {member.writer_id for member in self._store.members if member.writer_id}

    def _can_be_saved(self, bound: BoundIndex) -> bool:
        """Whether nothing but bytes in the file says what the keys of an index are.

        A function or a serializer of the user's may do something else in the next program.
        """
        is_plain = bound.kind == "column" or (bound.kind == "sorted" and bound.directions == (1,))
        has_one_field = bound.paths is not None and len(bound.paths) == 1
        is_ours = getattr(self._store.serializer, "exact_start", None) is not None
        return is_plain and has_one_field and bound.declaration.where is None and is_ours

    def start_over(self) -> None:
        """Forget everything, as the file is another one."""
        self._progress.clear()
        self.misfits.clear()

    # -- writing -------------------------------------------------------------------------

    def drop(self, name: str) -> None:
        """Have an index forgotten by the file when indexes are saved next."""
        self._progress.pop(name, None)
        self._dropped.add(name)

    def save(self, built: Iterable[Built]) -> None:
        """Write the indexes that are large and have changed, and forget those that were dropped.

        Of each what its entries have taken in is written, which is committed and may be less than
        all. A full disk is no error: the next opening has more to do then, and nothing else.
        """
        log, collection = self._store.engine.log, self._store.collection_id
        written: list[SavedIndex] = []
        try:
            for bound, entries, cursor in built:
                saved = self._to_be_saved(bound, entries, cursor)
                writers = None if saved is None else self._writers_before(cursor)
                if saved is None or writers is None:
                    continue
                meta = {"declaration": bound.declaration.signature, "writers": writers}
                meta |= saved.facts
                with log.lock:
                    if log.is_shut:
                        return
                    found = log.append_index(collection, bound.name, cursor, meta, saved.arrays)
                written.append(found)
            with log.lock:
                if not log.is_shut and (written or self._dropped):
                    log.name_indexes(collection, written, self._dropped)
        except (WriteError, ConfigError):
            # No room, or a name of a field that is no valid text.
            return
        self._dropped.clear()
        for each in written:
            self._progress[each.name] = _Progress(log.era.base + each.slot, 0)

    def _to_be_saved(self, bound: BoundIndex, entries: object, cursor: int) -> Saved | None:
        """Return an index as arrays, None where it is not worth it or can't be."""
        if not self._can_be_saved(bound) or not isinstance(entries, SortedEntries | ColumnEntries):
            return None
        before = self._progress.get(bound.name, _Progress(0, math.inf))
        count = len(entries)
        if count < _LEAST_ENTRIES or before.cursor == cursor:
            return None
        changes = before.changes
        if changes < math.inf:
            changes += len(self._changed_since(before.cursor, cursor))
        self._progress[bound.name] = _Progress(cursor, changes)
        is_changed = changes >= max(_LEAST_CHANGES, count // _SHARE_OF_CHANGES)
        # Far behind, the next opening would build it all the same.
        is_behind = len(self._changed_since(cursor)) > count // 2
        return to_saved(entries) if is_changed and not is_behind else None

    def _writers_before(self, cursor: int) -> list[int] | None:
        """Return the writers of all records from before a slot, if all are of the present classes.

        Else upgrades and converters are between bytes and keys, which the next program may have
        others of.
        """
        store = self._store
        own = self._own_writers()
        entries = store.engine.writers
        used = {entry["id"] for entry in entries if entry["collection"] == store.collection_id}
        if not used <= own:
            with store.engine.log.lock:
                slots = store.identities.arrays()[1]
            pointers = store.engine.log.pointers_of(slots[slots < cursor])
            used = set(np.flatnonzero(np.bincount(pointers["writer"])).tolist())
        return sorted(used) if used <= own else None


def _parts_of(meta: dict[str, Any]) -> tuple[object, list[Any], dict[str, Any]]:
    """Return declaration, writers, and the facts of the entries, whatever the file says."""
    facts = dict(meta)
    declaration, writers = facts.pop("declaration", None), facts.pop("writers", None)
    return declaration, writers if isinstance(writers, list) else [None], facts
