"""A column of keys of which some are absent or None."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, repeat
from typing import Any

import numpy as np

from memdb.indexes._order import ABSENT, ABSENT_RANK, NONE_RANK, SortKey, sort_key
from memdb.indexes._sorted_columns import Column
from memdb.indexes._sorted_kinds import Array, Kind


class OptionalColumn:
    """Two counts in front of a column, so that its keys can be an array all the same.

    Attributes:
        absent: How many keys are absent.
        inner: Those that are neither absent nor None.
        size: How many keys there are, absent ones and None among them.
    """

    __slots__ = ("_head", "absent", "inner", "size")

    def __init__(self, absent: int, none: int, inner: Column) -> None:
        self.absent = absent
        self._head = absent + none
        self.inner = inner
        self.size = self._head + inner.size

    @property
    def none(self) -> int:
        """How many keys are None."""
        return self._head - self.absent

    @property
    def kind(self) -> Kind:
        """How the keys that are there are held."""
        return self.inner.kind

    def left(self, key: SortKey) -> int:
        """Return how many keys come before this one."""
        if key[0] > NONE_RANK:
            return self._head + self.inner.left(key)
        return self.absent if key[0] == NONE_RANK else 0

    def right(self, key: SortKey) -> int:
        """Return how many keys come before this one or equal it."""
        if key[0] > NONE_RANK:
            return self._head + self.inner.right(key)
        return self._head if key[0] == NONE_RANK else self.absent if key[0] == ABSENT_RANK else 0

    def equal(self, key: SortKey) -> tuple[int, int]:
        """Return where the keys that equal this one begin and end."""
        if key[0] > NONE_RANK:
            start, stop = self.inner.equal(key)
            return self._head + start, self._head + stop
        return self.left(key), self.right(key)

    def range(
        self,
        prefix: Sequence[SortKey],
        low: SortKey | None,
        high: SortKey | None,
        is_low_open: bool,
        is_high_open: bool,
    ) -> tuple[int, int]:
        """Return where the keys of an interval begin and end; see `SortedEntries.span`."""
        if prefix:
            return self.equal(prefix[0])
        if low is not None and high is not None and NONE_RANK < low[0] <= high[0]:
            start, stop = self.inner.range((), low, high, is_low_open, is_high_open)
            return self._head + start, self._head + stop
        start = 0 if low is None else self.right(low) if is_low_open else self.left(low)
        if high is None:
            return start, self.size
        return start, self.left(high) if is_high_open else self.right(high)

    def key_of(self, value: Any) -> SortKey:
        """Return the beginning of the delta's entry for a key."""
        return sort_key(value)

    def value_at(self, place: int) -> Any:
        """Return a key as the user gave it."""
        if place >= self._head:
            return self.inner.value_at(place - self._head)
        return ABSENT if place < self.absent else None

    def is_same(self, place: int, value: Any) -> bool:
        """Whether a key is this very value; see `Column.is_same`."""
        if place >= self._head:
            return self.inner.is_same(place - self._head, value)
        return value is self.value_at(place)

    def values(self) -> list[Any]:
        """Return all keys as the user gave them, rising."""
        return [*repeat(ABSENT, self.absent), *repeat(None, self.none), *self.inner.values()]

    def changes(self, start: int, stop: int) -> Array:
        """Return which keys of a range differ from the one before, (stop - start,) bool."""
        head = self._head
        first = max(start - head, 0)
        inner = self.inner.changes(first, max(stop - head, first))
        flags = np.zeros(stop - start, bool)
        flags[max(head - start, 0) :] = inner
        for place in (start, self.absent):
            if start <= place < stop:
                flags[place - start] = True
        return flags

    def take(self, places: Array) -> OptionalColumn:
        """Return the column of some of the keys, of rising places."""
        absent, head = np.searchsorted(places, (self.absent, self._head)).tolist()
        return OptionalColumn(absent, head - absent, self.inner.take(places[head:] - self._head))

    def merged(
        self, keep: Array | None, places: Array, keys: Sequence[Any]
    ) -> OptionalColumn | None:
        """Return the column without some keys and with others; see `Column.merged`."""
        absent, head = self.absent, self._head
        if keep is not None:
            absent = int(np.count_nonzero(keep[: self.absent]))
            head = int(np.count_nonzero(keep[: self._head]))
            keep = keep[self._head :]
        none = head - absent
        added_absent = sum([key is ABSENT for key in keys])
        added_none = sum([key is None for key in keys])
        front = added_absent + added_none
        inner = self.inner.merged(keep, places[front:] - head, keys[front:])
        if inner is None:
            return None
        return OptionalColumn(absent + added_absent, none + added_none, inner)


def build_column(keys: Sequence[Any]) -> tuple[Column | OptionalColumn, Array]:
    """Make the column of keys in any order; also return which were taken, in rising order."""
    if not {type(None), type(ABSENT)} & set(map(type, keys)):
        return Column.build(keys)
    absent = [place for place, key in enumerate(keys) if key is ABSENT]
    none = [place for place, key in enumerate(keys) if key is None]
    front = len(absent) + len(none)
    rest = [place for place, key in enumerate(keys) if key is not None and key is not ABSENT]
    inner, order = Column.build([keys[place] for place in rest])
    places = np.fromiter(chain(absent, none), "<i8", front)
    order = np.concatenate((places, np.array(rest, "<i8")[order]))
    return OptionalColumn(len(absent), len(none), inner), order
