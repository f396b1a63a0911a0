"""One number, bool or date a record in an array, for scans and sums of all records at once."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any, Final, Self

import numpy as np

from memdb.indexes._column_limits import items_before, items_beyond
from memdb.indexes._order import (
    ABSENT,
    NONE_RANK,
    NUMBER_RANK,
    Bounds,
    bounds,
)
from memdb.indexes._sorted_kinds import (
    BOOLS,
    FLOATS,
    INTS,
    Array,
    Kind,
    decode,
    encode,
    viewed,
)
from memdb.indexes._sums import sum_of_floats, sum_of_ints

# What a row has. Do not change: saved ones are part of the file format.
REMOVED_STATE: Final = 0
ABSENT_STATE: Final = 1
NONE_STATE: Final = 2
VALUE_STATE: Final = 3

_LEAST_ROOM: Final = 64
_LEAST_HOLES: Final = 1024
# Integers up to here are exact as floats.
_EXACT: Final = 2**53

# Whose values are items of the array themselves.
_TYPES: Final[dict[Kind | None, type]] = {INTS: int, FLOATS: float, BOOLS: bool}


class ColumnEntries:
    """One value a number, in arrays by row.

    Numbers, bools, dates and datetimes only, of one type; ints among floats are held as floats.

    Threads: changes need the writer's lock; reading needs none, and may see half of a change.

    Attributes:
        is_exact: All values are held as they are. Once False, nothing here counts any more.
        is_mixed: There are or were ints among floats: what is given back for one is an equal float.
    """

    __slots__ = (
        "_aligned", "_highest", "_holes", "_kind", "_late", "_layout", "_numbers", "_raw",
        "_rising", "_rows", "_states", "is_exact", "is_mixed",
    )  # fmt: skip

    def __init__(self) -> None:
        self.is_exact = True
        self.is_mixed = False
        self._kind: Kind | None = None
        # Another object when a number gets a row; of both columns when those were last compared.
        self._layout = object()
        self._aligned: tuple[object, object] = (None, None)
        self._fill(np.empty(0, "<i8"), np.empty(0, "<i8"), np.empty(0, "u1"))

    def _fill(self, numbers: Array, raw: Array, states: Array) -> None:
        """Take the arrays of rows whose numbers rise."""
        self._numbers = numbers
        self._raw = raw
        self._states = states
        self._rows = len(numbers)
        # Rows up to here have rising numbers, the others are in the dict.
        self._rising = len(numbers)
        self._highest = int(numbers[-1]) if len(numbers) else -_EXACT
        self._late: dict[int, int] = {}
        self._holes = 0
        self._layout = object()

    @classmethod
    def build(cls, values: Sequence[Any], numbers: Sequence[int]) -> Self:
        """Make it of one value, None or `ABSENT` for each number; the numbers rise.

        Cost: 0.05 us an entry for ints and floats.
        """
        self = cls()
        states = np.full(len(values), VALUE_STATE, "u1")
        present: Sequence[Any] = values
        if {type(None), type(ABSENT)} & set(map(type, values)):
            states = np.array([_state_of(value) for value in values], "u1")
            present = [value for value in values if value is not None and value is not ABSENT]
        raw = self._encoded(present)
        if raw is None:
            self.is_exact = False
            return self
        spread = raw
        if len(present) < len(values):
            spread = np.zeros(len(values), raw.dtype)
            spread[states == VALUE_STATE] = raw
        self._fill(np.array(numbers, "<i8"), spread, states)
        return self

    @classmethod
    def of_rows(
        cls, kind: Kind, numbers: Array, raw: Array, states: Array, *, is_mixed: bool
    ) -> Self:
        """Make it of rows as `rows` gives them; the arrays need not be such as can be changed."""
        self = cls()
        self._kind, self.is_mixed = kind, is_mixed
        # New rows go to larger arrays, so that the numbers are never changed in their place.
        self._fill(numbers.astype("<i8", copy=False), raw.copy(), states.copy())
        return self

    def rows(self) -> tuple[Kind | None, Array, Array, Array]:
        """Return kind, numbers, items and states of the rows that are there, by number."""
        rows = self._rows
        arrays = self._numbers[:rows], self._raw[:rows], self._states[:rows]
        if self._holes:
            there = arrays[2] != REMOVED_STATE
            arrays = arrays[0][there], arrays[1][there], arrays[2][there]
        if self._rising != rows:
            order = np.argsort(arrays[0])
            arrays = arrays[0][order], arrays[1][order], arrays[2][order]
        return self._kind, *arrays

    def _encoded(self, values: Sequence[Any]) -> Array | None:
        """Return values as an array of the column's kind; None where they don't fit."""
        if not values:
            return np.empty(0, self._raw.dtype)
        if set(map(type, values)) == {int, float}:
            if any([type(value) is int and abs(value) > _EXACT for value in values]):
                return None
            floats = np.array(values, "<f8")
            self.is_mixed = True
            kind, raw = FLOATS, floats
        else:
            kind, raw, _ = encode(values)
        if not kind.dtype:
            return None
        if self._kind is None:
            self._kind = kind
            self._raw = np.zeros(len(self._raw), kind.dtype)
            return raw
        if kind == self._kind:
            # Zones may be equal and have other names, of which only one would be given back.
            is_same = kind.zone is self._kind.zone or repr(kind.zone) == repr(self._kind.zone)
            return raw if is_same else None
        if {kind, self._kind} != {INTS, FLOATS}:
            return None
        return self._as_floats(raw)

    def _as_floats(self, raw: Array) -> Array | None:
        """Return new values as floats, and make the old ones such; None where that rounds."""
        ints = [array for array in (raw, self._raw) if array.dtype != "<f8" and len(array)]
        if any([int(array.max()) > _EXACT or int(array.min()) < -_EXACT for array in ints]):
            return None
        self._raw = self._raw.astype("<f8")
        self._kind = FLOATS
        self.is_mixed = True
        return raw.astype("<f8")

    def _row_of(self, number: int) -> int:
        """Return the row of a number, -1 when it never had one."""
        if number > self._highest:
            return -1
        numbers, rising = viewed(self._numbers), self._rising
        row = bisect_left(numbers, number, 0, rising)
        if row < rising and numbers[row] == number:
            return row
        return self._late.get(number, -1)

    def set(self, number: int, value: Any) -> None:
        """Give a number this value, None or `ABSENT`, instead of the one that it had.

        Cost: O(log n); now and then larger arrays.
        """
        state = _state_of(value)
        item: Any = 0
        if state == VALUE_STATE:
            if type(value) is _TYPES.get(self._kind):
                item = value
            else:
                encoded = self._encoded((value,))
                if encoded is None:
                    self.is_exact = False
                    return
                item = encoded[0]
        row = self._row_of(number)
        if row < 0:
            row = self._new_row(number)
        try:
            self._raw[row] = item
        except OverflowError:
            self.is_exact = False
            return
        if self._states[row] == REMOVED_STATE:
            self._holes -= 1
        self._states[row] = state

    def _new_row(self, number: int) -> int:
        """Append a row without a value."""
        row = self._rows
        if row == len(self._numbers):
            room = max(row, _LEAST_ROOM)
            self._numbers = np.concatenate((self._numbers, np.zeros(room, "<i8")))
            self._raw = np.concatenate((self._raw, np.zeros(room, self._raw.dtype)))
            self._states = np.concatenate((self._states, np.zeros(room, "u1")))
        self._numbers[row] = number
        if number > self._highest and row == self._rising:
            self._rising += 1
        else:
            self._late[number] = row
        self._highest = max(self._highest, number)
        self._holes += 1
        self._rows += 1
        # Last: what a reader finds out meanwhile is noted for the layout before.
        self._layout = object()
        return row

    def set_many(self, values: Sequence[Any], numbers: Sequence[int]) -> None:
        """Give each number its value; the same as `set` for each, and faster for many."""
        if len(numbers) * 16 <= max(self._rows, _LEAST_HOLES):
            for number, value in zip(numbers, values, strict=True):
                self.set(number, value)
            return
        added = np.array(numbers, "<i8")
        states = np.array([_state_of(value) for value in values], "u1")
        raw = self._encoded([value for value in values if _state_of(value) == VALUE_STATE])
        if raw is None:
            self.is_exact = False
            return
        spread = np.zeros(len(values), raw.dtype)
        spread[states == VALUE_STATE] = raw
        rows = self._rows
        keep = (self._states[:rows] != REMOVED_STATE) & ~np.isin(self._numbers[:rows], added)
        all_numbers = np.concatenate((self._numbers[:rows][keep], added))
        order = np.argsort(all_numbers)
        self._fill(
            all_numbers[order],
            np.concatenate((self._raw[:rows][keep], spread))[order],
            np.concatenate((self._states[:rows][keep], states))[order],
        )

    def remove(self, number: int) -> None:
        """Forget a number, if it is there."""
        row = self._row_of(number)
        if row < 0 or self._states[row] == REMOVED_STATE:
            return
        self._states[row] = REMOVED_STATE
        self._holes += 1
        if self._holes > max(_LEAST_HOLES, self._rows // 2):
            rows = self._rows
            keep = np.flatnonzero(self._states[:rows] != REMOVED_STATE)
            keep = keep[np.argsort(self._numbers[keep])]
            self._fill(self._numbers[keep], self._raw[keep], self._states[keep])

    def __len__(self) -> int:
        """Return how many numbers there are."""
        return self._rows - self._holes

    def mask(self, operator: str, operand: Any) -> Array | None:
        """Return for each row whether a comparison with its value is true.

        Args:
            operator: One of `== != < <= > >= between in`.
            operand: What values are compared with; for `between` the pair of low and high.

        Returns:
            (rows,) bool; None where this column can't tell.

        Raises:
            RuntimeError: The column was changed meanwhile; so also in what follows.

        Cost: 1 ms a million rows.
        """
        rows = self._rows
        return self._mask(operator, operand, *_same_size(self._raw[:rows], self._states[:rows]))

    def _mask(self, operator: str, operand: Any, raw: Array, states: Array) -> Array | None:
        if operator == "!=":
            equal = self._mask("==", operand, raw, states)
            return None if equal is None else (states != REMOVED_STATE) & ~equal
        if operator == "in":
            found = np.zeros(len(states), bool)
            for value in operand:
                one = self._mask("==", value, raw, states)
                if one is None:
                    return None
                found |= one
            return found
        limits = bounds(operator, operand)
        # Only zones with changing offsets make a single key inexact, and there is none here.
        if limits is None or not (limits.is_exact or limits.low == limits.high):
            return None
        if limits.low == (NONE_RANK,):
            is_none: Array = states == NONE_STATE
            return is_none
        return self._within(limits, raw, states)

    def _within(self, limits: Bounds, raw: Array, states: Array) -> Array:
        """Return which rows lie within limits."""
        kind = self._kind
        if kind is None or limits.low[0] != kind.rank:
            return np.zeros(len(raw), bool)
        found: Array = states == VALUE_STATE
        if len(limits.low) > 1:
            found &= items_beyond(kind, raw, limits.low, not limits.is_low_open)
        if len(limits.high) > 1:
            # Only numbers that are not before it; a NaN is neither.
            found &= items_before(kind, raw, limits.high, not limits.is_high_open)
        elif kind == FLOATS:
            found &= raw == raw
        return found

    def present(self) -> Array:
        """Return for each row whether its number is there, (rows,) bool."""
        there: Array = self._states[: self._rows] != REMOVED_STATE
        return there

    def aligned(self, other: ColumnEntries, mask: Array) -> Array:
        """Return a mask of another column, of the same numbers, as one of this column's rows.

        Cost: nothing where both have come about together, but 0.5 ms a million rows after a number
            was added; else 20 ms.
        """
        known = (self._layout, other._layout)
        if self._aligned == known:
            return mask
        numbers, others = self._numbers[: self._rows], other._numbers[: other._rows]
        if np.array_equal(numbers, others):
            self._aligned = known
            return mask
        found: Array = np.isin(numbers, others.compress(mask)) & self.present()
        return found

    def numbers(self, mask: Array | None = None) -> Array:
        """Return the numbers of the rows of a mask, or all, (n,) <i8, rising, an own copy."""
        rows = self._rows
        chosen = self._states[:rows] != REMOVED_STATE if mask is None else mask
        found: Array = self._numbers[:rows].compress(chosen)
        return found if self._rising == rows else np.sort(found)

    def clear(self) -> None:
        """Forget everything."""
        self._fill(np.empty(0, "<i8"), np.empty(0, self._raw.dtype), np.empty(0, "u1"))

    def items(self) -> Iterator[tuple[Any, int]]:
        """Iterate over values, with None and `ABSENT`, and numbers."""
        rows, kind = self._rows, self._kind
        columns = self._raw[:rows].tolist(), self._states[:rows].tolist(), self._numbers[:rows]
        for item, state, number in zip(*columns, strict=True):
            if state == VALUE_STATE and kind is not None:
                yield decode(kind, item), int(number)
            elif state != REMOVED_STATE:
                yield None if state == NONE_STATE else ABSENT, int(number)

    def count(self, mask: Array | None = None) -> int:
        """Return how many rows have a value, of those of a mask."""
        return int(np.count_nonzero(self._chosen(mask)))

    def _chosen(self, mask: Array | None) -> Array:
        has_value: Array = self._states[: self._rows] == VALUE_STATE
        if mask is None:
            return has_value
        has_value, mask = _same_size(has_value, mask)
        return has_value & mask

    def _values(self, mask: Array | None) -> Array:
        raw, chosen = _same_size(self._raw[: self._rows], self._chosen(mask))
        # A mask as an index takes eight times as long.
        return raw if chosen.all() else raw.compress(chosen)

    def sum(self, mask: Array | None = None) -> Any:
        """Return the sum of the values, 0 for none: exact for ints, that of `math.fsum` for floats.

        Raises:
            TypeError: They are no numbers.
        """
        raw = self._values(mask)
        kind = self._kind
        if not len(raw) or kind is None:
            return 0
        if kind.rank != NUMBER_RANK:
            raise TypeError("Dates have no sum.")
        return sum_of_floats(raw) if kind == FLOATS else sum_of_ints(raw)

    def mean(self, mask: Array | None = None) -> Any:
        """Return the sum of the values by their count, None for none.

        Raises:
            TypeError: They are no numbers.
        """
        count = self.count(mask)
        return self.sum(mask) / count if count else None

    def has_both_zeros(self, mask: Array | None = None) -> bool:
        """Whether there are zeros of both signs, which are equal and yet not the same."""
        raw = self._values(mask)
        signs = np.signbit(raw[raw == 0])
        return bool(signs.any() and not signs.all())

    def min(self, mask: Array | None = None) -> Any:
        """Return the first value in the total order, None for none; NaN comes last."""
        raw = self._values(mask)
        if not len(raw):
            return None
        # fmin leaves NaNs out while there is anything else.
        least = np.fmin.reduce(raw) if self._kind == FLOATS else raw.min()
        return decode(self._kind or INTS, least.item())

    def max(self, mask: Array | None = None) -> Any:
        """Return the last value in the total order, None for none; NaN comes last."""
        raw = self._values(mask)
        return decode(self._kind or INTS, raw.max().item()) if len(raw) else None


def _same_size(one: Array, other: Array) -> tuple[Array, Array]:
    """Return two arrays, or raise where a writer has come in between."""
    if len(one) != len(other):
        raise RuntimeError("The column has changed while it was read.")
    return one, other


def _state_of(value: Any) -> int:
    if value is None:
        return NONE_STATE
    return ABSENT_STATE if value is ABSENT else VALUE_STATE
