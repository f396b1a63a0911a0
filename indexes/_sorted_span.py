"""The state of sorted entries, and an interval of it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from memdb.indexes._order import SortKey
from memdb.indexes._sorted_columns import Column
from memdb.indexes._sorted_compound import CompoundColumn, TupleColumn
from memdb.indexes._sorted_kinds import Array, viewed
from memdb.indexes._sorted_optional import OptionalColumn

AnyColumn = Column | OptionalColumn | CompoundColumn | TupleColumn
Load = Callable[[list[int]], list[Any]]

# Rows are kept in blocks of so many entries: a range of a thousand is cut out of five.
BLOCK_BITS: Final = 8
_BLOCK: Final = 1 << BLOCK_BITS

LEAST_CHANGES: Final = 1024
_MOST_CHANGES: Final = 16_384

_CHANGED: Final = "The records have changed while they were read."


class State:
    """A base and what has changed since it was made.

    Attributes:
        column: The keys of the base, in order.
        numbers: Beside them, (n,) <u4 or <i8.
        cells: For each block of the base its rows, or an empty list. A row that is no longer true
            is dropped by replacing the list, so that a reader that is about to fill it, with
            what it has read before, fills one that nobody looks at.
        entries: The delta: sort keys with the number behind, rising.
        places: Beside them, where in the base they belong.
        delta: Number -> its entry and the user's key.
        dead: Places of the base's entries that are no longer true, rising.
        is_changed: There is something in the delta or dead.
    """

    __slots__ = (
        "_dead_numbers", "_highest", "_limit", "_numbers", "_of_number", "cells", "column", "dead",
        "delta", "entries", "is_changed", "numbers", "places",
    )  # fmt: skip

    def __init__(self, column: AnyColumn, numbers: Array) -> None:
        size = column.size
        self.column = column
        self.numbers = numbers
        self._numbers = viewed(numbers)
        self._highest = int(numbers.max()) if size else -1
        self._of_number: tuple[int, Any, Any] | None = None
        self._limit = min(max(LEAST_CHANGES, size >> 4), _MOST_CHANGES)
        self.cells: list[list[Any]] = [[] for _ in range(0, size, _BLOCK)]
        self.entries: list[SortKey] = []
        self.places: list[int] = []
        self.delta: dict[int, tuple[SortKey, Any]] = {}
        self.dead: list[int] = []
        self._dead_numbers: set[int] = set()
        self.is_changed = False

    def is_full(self) -> bool:
        """Whether it is time for a new base."""
        return len(self.entries) + len(self.dead) > self._limit

    def place_of(self, number: int) -> int:
        """Return the place of a number in the base, -1 where it is not or no longer there."""
        if number > self._highest or number in self._dead_numbers:
            return -1
        low, places, numbers = self._of_number or self._index()
        if numbers is None:
            return int(places[number - low]) if number >= low else -1
        place = bisect_left(numbers, number)
        return int(places[place]) if place < len(numbers) and numbers[place] == number else -1

    def _index(self) -> tuple[int, Any, Any]:
        """Make what `place_of` looks into: only once a number that may be there is changed."""
        numbers = self.numbers
        low = int(numbers.min())
        if self._highest - low < 2 * len(numbers) + LEAST_CHANGES:
            table = np.full(self._highest - low + 1, -1, "<i4")
            table[numbers - low] = np.arange(len(numbers), dtype="<i4")
            found: tuple[int, Any, Any] = (low, viewed(table), None)
        else:
            order = np.argsort(numbers)
            found = (low, viewed(order.astype("<i4")), viewed(numbers[order]))
        self._of_number = found
        return found

    def kill(self, number: int, place: int) -> None:
        """Declare the entry of a number in the base dead."""
        self.is_changed = True
        insort(self.dead, place)
        self._dead_numbers.add(number)
        cell = self.cells[place >> BLOCK_BITS]
        if cell:
            cell[place & (_BLOCK - 1)] = None

    def drop_block(self, place: int) -> None:
        """Forget the rows of a block of the base."""
        self.cells[place >> BLOCK_BITS] = []

    def add_delta(self, number: int, key: Any, entry: SortKey) -> None:
        """Add an entry of a number that has none."""
        place, last = self.column.equal(entry[:-1])
        if place < last:
            place = bisect_left(self._numbers, number, place, last)
        self.is_changed = True
        index = self.index_of(entry, place)
        self.entries.insert(index, entry)
        self.places.insert(index, place)
        self.delta[number] = (entry, key)

    def index_of(self, probe: SortKey, place: int) -> int:
        """Return how many entries of the delta come before a probe that has a place in the base.

        Integers are compared in a fifth of the time of sort keys, and few entries share a place.
        """
        places = self.places
        index = bisect_left(places, place)
        if index == len(places) or places[index] != place:
            return index
        return bisect_left(self.entries, probe, index, bisect_right(places, place, index))

    def changes_of(self, begin: int, end: int) -> tuple[list[SortKey], list[int]]:
        """Return some entries of the delta and their places.

        Raises:
            RuntimeError: A writer has come in between.
        """
        entries, places = self.entries[begin:end], self.places[begin:end]
        if len(entries) != len(places) or len(entries) != end - begin:
            raise RuntimeError(_CHANGED)
        return entries, places

    def drop_delta(self, number: int, entry: SortKey) -> None:
        """Take an entry out of the delta."""
        index = bisect_left(self.entries, entry)
        del self.entries[index]
        del self.places[index]
        del self.delta[number]


class Span:
    """The entries of an interval, as they were when it was made.

    Attributes:
        count: How many there are.
    """

    __slots__ = ("_changes", "_start", "_state", "_stop", "count")

    def __init__(
        self,
        state: State,
        start: int,
        stop: int,
        count: int,
        changes: tuple[int, int, int, int] = (0, 0, 0, 0),
    ) -> None:
        self._state = state
        self._start = start
        self._stop = stop
        self.count = count
        # Where the delta's entries begin and end, and the dead ones.
        self._changes = changes

    def __len__(self) -> int:
        """Return how many there are."""
        return self.count

    def numbers(self, reverse: bool = False, limit: int | None = None) -> list[int]:
        """Return the numbers in order of their keys.

        Args:
            reverse: Keys falling; the numbers of equal keys still rise.
            limit: Only so many, the first ones.

        Cost: 10 ns a number; those beyond the limit cost nothing.
        """
        begin, end, dead_begin, dead_end = self._changes
        is_clean = begin == end and dead_begin == dead_end
        if limit is not None and limit < self.count:
            if limit <= 0:
                return []
            if is_clean and not reverse:
                # Without a span of its own: half of the time of a page.
                few: list[int] = self._state.numbers[self._start : self._start + limit].tolist()
                return few
            return self._limited(reverse, limit).numbers(reverse)[:limit]
        state, start, stop = self._state, self._start, self._stop
        numbers = state.numbers[start:stop]
        if is_clean:
            if reverse:
                flags = state.column.changes(start, stop)
                numbers = numbers[::-1] if flags.all() else numbers[_falling(flags)]
            found: list[int] = numbers.tolist()
            return found
        keep = np.ones(stop - start, bool)
        keep[np.array(state.dead[dead_begin:dead_end], "<i8") - start] = False
        entries, at = state.changes_of(begin, end)
        added, places = [entry[-1] for entry in entries], np.array(at, "<i8") - start
        before = np.concatenate(([0], np.cumsum(keep)))
        merged = np.insert(numbers[keep].astype("<i8"), before[places], added)
        if reverse:
            codes = self._codes(entries, places, keep, before)
            flags = np.ones(len(codes), bool)
            flags[1:] = codes[1:] != codes[:-1]
            merged = merged[_falling(flags)]
        found = merged.tolist()
        return found

    def array(self) -> Array:
        """Return the numbers in order of their keys, (n,) <u4 or <i8; do not change it."""
        begin, end, dead_begin, dead_end = self._changes
        if begin == end and dead_begin == dead_end:
            numbers: Array = self._state.numbers[self._start : self._stop]
            return numbers
        return np.array(self.numbers(), "<i8")

    def _codes(self, entries: list[SortKey], places: Array, keep: Array, before: Array) -> Array:
        """Return integers that rise from entry to entry exactly as the keys do."""
        state, start = self._state, self._start
        groups = 2 * np.cumsum(state.column.changes(start, self._stop))
        scale = len(entries) + 1
        codes: list[int] = []
        distinct, previous = 0, None
        for entry, place in zip(entries, places.tolist(), strict=True):
            first, last = state.column.equal(entry[:-1])
            if first < last:
                codes.append(int(groups[first - start]) * scale)
                continue
            # Behind the group before, and in order among the others there.
            if entry[:-1] != previous:
                distinct, previous = distinct + 1, entry[:-1]
            group = int(groups[place - 1]) + 1 if place else 1
            codes.append(group * scale + distinct)
        return np.insert(groups[keep] * scale, before[places], np.array(codes, "<i8"))

    def _limited(self, reverse: bool, limit: int) -> Span:
        """Return a span with the first entries, at least so many, and all with the last's key."""
        state, start, stop = self._state, self._start, self._stop
        begin, end, dead_begin, dead_end = self._changes
        reach = limit + dead_end - dead_begin
        if reverse:
            if stop - reach > start:
                key = state.column.key_of(state.column.value_at(stop - reach))
                start = max(start, state.column.equal(key)[0])
                begin = bisect_left(state.entries, key, begin, end)
        elif start + reach < stop:
            stop = start + reach
            end = bisect_right(state.places, stop, begin, end)
        dead_begin, dead_end = bisect_left(state.dead, start), bisect_left(state.dead, stop)
        count = stop - start + end - begin - dead_end + dead_begin
        return Span(state, start, stop, count, (begin, end, dead_begin, dead_end))

    def first(self) -> int | None:
        """Return the number of the first entry, None where there is none."""
        return next(iter(self.numbers(limit=1)), None)

    def last(self) -> int | None:
        """Return the lowest number of those with the last key, None where there is none."""
        return next(iter(self.numbers(reverse=True, limit=1)), None)

    def rows(self, load: Load) -> list[Any]:
        """Return one object a number, in order of the keys.

        Args:
            load: Gives one object for each of some numbers, or raises KeyError. What it gives for
                entries that have not changed since the base was made is kept.

        Cost: 3 us for a thousand that are kept.
        """
        start, stop = self._start, self._stop
        rows: list[Any] = []
        if start < stop:
            first, last = start >> BLOCK_BITS, (stop - 1) >> BLOCK_BITS
            for index in range(first, last + 1):
                cell = self._state.cells[index]
                try:
                    part = cell or self._fill(index, cell, load)
                except KeyError:
                    # Perhaps of an entry beside the range: blocks are filled as a whole.
                    return load(self.numbers())
                if first < index < last:
                    rows += part
                else:
                    offset = index << BLOCK_BITS
                    rows += part[max(start - offset, 0) : stop - offset]
        begin, end, dead_begin, dead_end = self._changes
        if begin == end and dead_begin == dead_end:
            return rows
        return self._with_changes(rows, load)

    def _fill(self, index: int, cell: list[Any], load: Load) -> list[Any]:
        """Load the rows of a block; None for the dead ones."""
        state = self._state
        start = index << BLOCK_BITS
        numbers = state.numbers[start : start + _BLOCK].tolist()
        dead = state.dead
        gone = dead[bisect_left(dead, start) : bisect_left(dead, start + _BLOCK)]
        for place in reversed(gone):
            del numbers[place - start]
        rows = load(numbers)
        if len(rows) != len(numbers):
            raise RuntimeError(_CHANGED)
        if gone:
            rows = list(rows)
            for place in gone:
                rows.insert(place - start, None)
        cell[:] = rows
        return rows

    def _with_changes(self, rows: list[Any], load: Load) -> list[Any]:
        """Return the base's rows without the dead ones and with those of the delta."""
        state, start = self._state, self._start
        begin, end, dead_begin, dead_end = self._changes
        dead = state.dead[dead_begin:dead_end]
        entries, places = state.changes_of(begin, end)
        added = load([entry[-1] for entry in entries])
        if len(added) != len(entries):
            raise RuntimeError(_CHANGED)
        result: list[Any] = []
        at = index = 0
        for place, row in zip(places, added, strict=True):
            while index < len(dead) and dead[index] < place:
                result += rows[at : dead[index] - start]
                at = dead[index] - start + 1
                index += 1
            if place - start > at:
                result += rows[at : place - start]
                at = place - start
            result.append(row)
        for gone in dead[index:]:
            result += rows[at : gone - start]
            at = gone - start + 1
        result += rows[at:]
        return result


def _falling(flags: Array) -> Array:
    """Return the order of rising keys turned round, with equal ones as they are.

    Args:
        flags: Which keys differ from the one before, (n,) bool.
    """
    count = len(flags)
    starts = np.flatnonzero(flags)
    counts = np.diff(np.append(starts, count))[::-1]
    offsets = np.cumsum(counts) - counts
    order: Array = np.repeat(starts[::-1] - offsets, counts) + np.arange(count)
    return order
