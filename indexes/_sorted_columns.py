"""Keys in rising order, one an entry, and the searches in them."""

from __future__ import annotations

import operator
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from datetime import datetime, time
from itertools import compress
from typing import Any, Final

import numpy as np

from memdb.indexes._order import NAN_RANK, NUMBER_RANK, OTHER_RANK, SortKey, sort_key
from memdb.indexes._sorted_kinds import (
    ENCODERS,
    Array,
    Kind,
    Raw,
    decode,
    encode,
    order_of,
    viewed,
)

# The other end of a range is looked for among so many first.
_NEAR: Final = 1024


class Column:
    """One key an entry, rising.

    Attributes:
        size: How many there are.
        end: Where the NaNs begin, which are the last; the size where there are none.
    """

    __slots__ = ("_encoder", "_rank", "_values", "_view", "end", "kind", "raw", "size")

    def __init__(self, kind: Kind, raw: Raw, values: list[Any] | None = None) -> None:
        """Take keys in rising order."""
        self.kind = kind
        self.raw = raw
        self.size = len(raw)
        self.end = _first_nan(kind, raw)
        self._values = values
        self._rank = kind.rank
        self._encoder = ENCODERS.get(kind.rank) if kind.dtype else None
        # Python's bisect compares exactly, whatever number it is given.
        self._view = viewed(raw) if kind.dtype else raw

    @classmethod
    def build(cls, keys: Sequence[Any]) -> tuple[Column, Array]:
        """Make it of keys in any order; also return which were taken, in rising order."""
        kind, raw, values = encode(keys)
        order = order_of(kind, raw)
        places = order.tolist() if values is not None or not kind.dtype else []
        if values is not None:
            values = [values[place] for place in places]
        raw = raw[order] if kind.dtype else [raw[place] for place in places]
        return cls(kind, raw, values), order

    def left(self, key: SortKey) -> int:
        """Return how many keys come before this one."""
        rank = self._rank
        if key[0] == rank and len(key) > 1:
            value = key[1] if self._encoder is None else self._encoder(key[1])
            return bisect_left(self._view, value, 0, self.end)
        if rank < 0:
            return bisect_left(self._view, key)
        if key[0] <= rank:
            return 0
        return self.end if key[0] == NAN_RANK else self.size

    def right(self, key: SortKey) -> int:
        """Return how many keys come before this one or equal it."""
        rank = self._rank
        if key[0] == rank and len(key) > 1:
            value = key[1] if self._encoder is None else self._encoder(key[1])
            return bisect_right(self._view, value, 0, self.end)
        if rank < 0:
            return bisect_right(self._view, key)
        return 0 if key[0] <= rank else self.size

    def equal(self, key: SortKey) -> tuple[int, int]:
        """Return where the keys that equal this one begin and end."""
        view, end = self._view, self.end
        if key[0] == self._rank and len(key) > 1:
            value = key[1] if self._encoder is None else self._encoder(key[1])
            first = bisect_left(view, value, 0, end)
            if first == end or view[first] != value:
                return first, first
            return first, bisect_right(view, value, first, end)
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
        if self._encoder is None and self.end == self.size and low and high and not prefix:
            rank, view = self._rank, self._view
            if low[0] == rank == high[0] and len(low) == len(high) == 2:
                value = low[1]
                start = bisect_right(view, value) if is_low_open else bisect_left(view, value)
                # The other end is mostly near, and found with half of the steps then.
                near, value = start + _NEAR, high[1]
                if near >= self.size or view[near] <= value:
                    near = self.size
                if is_high_open:
                    return start, bisect_left(view, value, start, near)
                return start, bisect_right(view, value, start, near)
        if prefix:
            return self.equal(prefix[0])
        start = 0 if low is None else self.right(low) if is_low_open else self.left(low)
        if high is None:
            return start, self.size
        return start, self.left(high) if is_high_open else self.right(high)

    def key_of(self, value: Any) -> SortKey:
        """Return the beginning of the delta's entry for a key."""
        return sort_key(value)

    def value_at(self, place: int) -> Any:
        """Return a key as the user gave it."""
        if self._values is not None:
            return self._values[place]
        item = self._view[place]
        return item if self._encoder is None else decode(self.kind, item)

    def is_same(self, place: int, value: Any) -> bool:
        """Whether a key is this very value: equal in the order, and of its type, zone and so on."""
        cls = type(value)
        if cls is int or cls is str:
            old = self._view[place] if self._values is None else self._values[place]
            return type(old) is cls and bool(old == value)
        return _is_same(self.value_at(place), value)

    def values(self) -> list[Any]:
        """Return all keys as the user gave them, rising."""
        if self._values is not None:
            return self._values
        if self._encoder is None:
            items: list[Any] = self._view.tolist() if self.kind.dtype else self.raw
            return items
        return [self.value_at(place) for place in range(self.size)]

    def changes(self, start: int, stop: int) -> Array:
        """Return which keys of a range differ from the one before, (stop - start,) bool."""
        flags = np.ones(stop - start, bool)
        raw, last = self.raw, min(stop, self.end)
        if last - start > 1:
            if self.kind.dtype:
                flags[1 : last - start] = raw[start + 1 : last] != raw[start : last - 1]
            else:
                differ = map(operator.ne, raw[start + 1 : last], raw[start : last - 1])
                flags[1 : last - start] = list(differ)
        # NaN equals NaN here.
        flags[max(self.end + 1 - start, 1) :] = False
        return flags

    def take(self, places: Array) -> Column:
        """Return the column of some of the keys."""
        if self.kind.dtype:
            return Column(self.kind, self.raw[places])
        chosen = places.tolist()
        values = None if self._values is None else [self._values[place] for place in chosen]
        return Column(self.kind, [self.raw[place] for place in chosen], values)

    def merged(self, keep: Array | None, places: Array, keys: Sequence[Any]) -> Column | None:
        """Return the column without some keys and with others.

        Args:
            keep: Which ones stay, (size,) bool; None for all.
            places: Where the new ones go among those that stay, rising.
            keys: The new ones, rising.

        Returns:
            The new column; None where the new keys are of another kind.
        """
        kind, raw, values = self.kind, None, None
        if len(keys) and kind.rank >= 0:
            found, raw, values = encode(keys)
            if found != kind and self.size:
                # A list of numbers takes any of them.
                if kind != Kind(NUMBER_RANK) or found.rank != NUMBER_RANK:
                    return None
                raw = list(keys)
            kind = found if not self.size else kind
        elif len(keys):
            raw, values = list(map(sort_key, keys)), list(keys)
        return Column(
            kind,
            spliced(self.raw if self.size or raw is None else raw[:0], keep, places, raw),
            None if kind.rank >= 0 else spliced(self._values or [], keep, places, values),
        )


def _is_same(one: Any, other: Any) -> bool:
    """Whether nobody could tell two values apart."""
    if type(one) is not type(other):
        return False
    if isinstance(one, (tuple, list)):
        return len(one) == len(other) and all(map(_is_same, one, other))
    key = sort_key(one)
    if key[0] == OTHER_RANK:
        return one is other
    if isinstance(one, (datetime, time)) and (one.tzinfo, one.fold) != (other.tzinfo, other.fold):
        return False
    return key == sort_key(other)


def _first_nan(kind: Kind, raw: Raw) -> int:
    """Return where the NaNs begin in rising numbers."""
    size = len(raw)
    if kind.rank != NUMBER_RANK or kind.dtype in ("?", "<i8") or not size:
        return size
    if kind.dtype:
        return int(np.searchsorted(raw, np.nan)) if raw[-1] != raw[-1] else size
    while size and sort_key(raw[size - 1])[0] == NAN_RANK:
        size -= 1
    return size


def spliced(items: Raw, keep: Array | None, places: Array, new: Any) -> Raw:
    """Return an array or a list without some items and with others; see `Column.merged`."""
    if isinstance(items, np.ndarray):
        array = items if keep is None else items[keep]
        return array if new is None else np.insert(array, places, new)
    kept = items if keep is None else list(compress(items, keep.tolist()))
    if new is None:
        return kept
    result: list[Any] = []
    start = 0
    for place, item in zip(places.tolist(), new, strict=True):
        if place > start:
            result += kept[start:place]
            start = place
        result.append(item)
    result += kept[start:]
    return result
