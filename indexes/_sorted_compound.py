"""Several keys an entry, in rising or falling order each."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np

from memdb.indexes._order import HIGHEST, Reversed, SortKey, sort_key
from memdb.indexes._sorted_columns import Column, spliced
from memdb.indexes._sorted_kinds import Array, viewed
from memdb.indexes._sorted_optional import OptionalColumn, build_column

Part = Column | OptionalColumn

_LARGEST_CODE: Final = 2**63 - 1


class Probes:
    """What to look for in a sorted list of entries, which are tuples of one sort key a part."""

    __slots__ = ("directions", "is_tuple")

    def __init__(self, directions: Sequence[int], is_tuple: bool) -> None:
        self.directions = tuple(directions)
        # A single falling key is no tuple for the user.
        self.is_tuple = is_tuple

    def key_of(self, value: Any) -> SortKey:
        """Return the entry of a user's key."""
        parts = value if self.is_tuple else (value,)
        return tuple(
            [
                sort_key(part) if direction > 0 else Reversed(sort_key(part))
                for part, direction in zip(parts, self.directions, strict=True)
            ]
        )

    def of(
        self,
        prefix: Sequence[SortKey],
        low: SortKey | None,
        high: SortKey | None,
        is_low_open: bool,
        is_high_open: bool,
    ) -> tuple[SortKey, SortKey]:
        """Return what lies before and behind all entries of an interval, and between no others."""
        head = tuple(
            [
                key if direction > 0 else Reversed(key)
                for key, direction in zip(prefix, self.directions, strict=False)
            ]
        )
        first: Any = low
        last: Any = high
        if len(head) < len(self.directions) and self.directions[len(head)] < 0:
            first = None if high is None else Reversed(high)
            last = None if low is None else Reversed(low)
            is_low_open, is_high_open = is_high_open, is_low_open
        start = head if first is None else (*head, first)
        if first is not None and is_low_open:
            start = (*start, HIGHEST)
        if last is None:
            return start, (*head, HIGHEST)
        return start, (*head, last) if is_high_open else (*head, last, HIGHEST)


class CompoundColumn:
    """Several keys an entry: for each part the distinct ones, and one integer an entry.

    The integer joins the places that the entry's keys have among the distinct ones, so that it
    rises as the entries do.

    Attributes:
        size: How many entries there are.
    """

    __slots__ = ("_parts", "_probes", "_view", "_weights", "codes", "key_of", "size")

    def __init__(self, parts: list[Part], codes: Array, probes: Probes) -> None:
        """Take the distinct keys of each part and the rising codes of the entries."""
        self._parts = parts
        self._probes = probes
        self._weights = _weights([part.size for part in parts])
        self.codes = codes
        self._view = viewed(codes)
        self.size = len(codes)
        self.key_of = probes.key_of

    @classmethod
    def build(cls, keys: Sequence[Any], probes: Probes) -> tuple[CompoundColumn, Array] | None:
        """Make it of keys in any order; None where there are too many for 63 bits."""
        parts, ranks = [], []
        rows = keys if probes.is_tuple else [(key,) for key in keys]
        for index in range(len(probes.directions)):
            part, order = build_column([row[index] for row in rows])
            changes = part.changes(0, part.size)
            rank = np.empty(part.size, "<i8")
            rank[order] = np.cumsum(changes) - 1
            parts.append(part.take(np.flatnonzero(changes)))
            ranks.append(rank)
        codes = _joined(parts, ranks, probes.directions)
        if codes is None:
            return None
        order = np.argsort(codes, kind="stable")
        return cls(parts, codes[order], probes), order

    def range(
        self,
        prefix: Sequence[SortKey],
        low: SortKey | None,
        high: SortKey | None,
        is_low_open: bool,
        is_high_open: bool,
    ) -> tuple[int, int]:
        """Return where the entries of an interval begin and end; see `SortedEntries.span`."""
        code, view, index = 0, self._view, 0
        directions, weights = self._probes.directions, self._weights
        for index, key in enumerate(prefix):
            part = self._parts[index]
            first, last = part.equal(key)
            if directions[index] < 0:
                first, last = part.size - last, part.size - first
            code += first * weights[index]
            if first == last:
                place = bisect_left(view, code)
                return place, place
        count = len(prefix)
        if count == len(directions):
            return bisect_left(view, code), bisect_right(view, code)
        part = self._parts[count]
        first, last = part.range((), low, high, is_low_open, is_high_open)
        if directions[count] < 0:
            first, last = part.size - last, part.size - first
        start = bisect_left(view, code + first * weights[count])
        return start, bisect_left(view, code + last * weights[count])

    def equal(self, key: SortKey) -> tuple[int, int]:
        """Return where the entries that equal this one begin and end."""
        plain = [part.key if type(part) is Reversed else part for part in key]
        return self.range(plain, None, None, False, False)

    def value_at(self, place: int) -> Any:
        """Return a key as the user gave it, or an equal one."""
        code = self._view[place]
        values = []
        for part, weight, direction in zip(
            self._parts, self._weights, self._probes.directions, strict=True
        ):
            rank, code = divmod(code, weight)
            values.append(part.value_at(rank if direction > 0 else part.size - 1 - rank))
        return tuple(values) if self._probes.is_tuple else values[0]

    def is_same(self, place: int, value: Any) -> bool:
        """Whether a key is this one in the order."""
        return bool(self.key_of(self.value_at(place)) == self.key_of(value))

    def values(self) -> list[Any]:
        """Return all keys as the user gave them, or equal ones, in order."""
        columns = []
        for part, rank in zip(self._parts, self._ranks(), strict=True):
            columns.append(list(map(part.values().__getitem__, rank.tolist())))
        if self._probes.is_tuple:
            return list(zip(*columns, strict=True))
        return columns[0]

    def _ranks(self) -> list[Array]:
        """Return, for each part, where the keys of the entries are among the distinct ones."""
        ranks, rest = [], self.codes
        for part, weight, direction in zip(
            self._parts, self._weights, self._probes.directions, strict=True
        ):
            rank, rest = np.divmod(rest, weight)
            ranks.append(rank if direction > 0 else part.size - 1 - rank)
        return ranks

    def changes(self, start: int, stop: int) -> Array:
        """Return which entries of a range differ from the one before, (stop - start,) bool."""
        flags = np.ones(stop - start, bool)
        if stop - start > 1:
            flags[1:] = self.codes[start + 1 : stop] != self.codes[start : stop - 1]
        return flags

    def merged(
        self, keep: Array | None, places: Array, keys: Sequence[Any]
    ) -> CompoundColumn | None:
        """Return the column without some entries and with others; see `Column.merged`."""
        rows = keys if self._probes.is_tuple else [(key,) for key in keys]
        parts, old_ranks, new_ranks = [], [], []
        for index, (part, rank) in enumerate(zip(self._parts, self._ranks(), strict=True)):
            news = [row[index] for row in rows]
            if keep is not None:
                rank = rank[keep]
            grown = _grown(part, rank, news)
            if grown is None:
                return None
            parts.append(grown[0])
            old_ranks.append(grown[1])
            new_ranks.append(grown[2])
        directions = self._probes.directions
        codes = _joined(parts, old_ranks, directions)
        new_codes = _joined(parts, new_ranks, directions)
        if codes is None or new_codes is None:
            return None
        return CompoundColumn(parts, np.insert(codes, places, new_codes), self._probes)


def _grown(part: Part, ranks: Array, news: list[Any]) -> tuple[Part, Array, Array] | None:
    """Return the distinct keys with new ones and without unused ones, and the places of all."""
    fresh, order = build_column(news)
    changes = fresh.changes(0, fresh.size)
    distinct = fresh.take(np.flatnonzero(changes))
    values = distinct.values()
    found = [part.equal(sort_key(value)) for value in values]
    firsts = np.array([pair[0] for pair in found], "<i8")
    is_new = np.array([pair[0] == pair[1] for pair in found], bool)
    is_used = np.zeros(part.size, bool)
    is_used[ranks] = True
    is_used[firsts[~is_new]] = True
    added = [value for value, new in zip(values, is_new.tolist(), strict=True) if new]
    # Where each old key is among those that stay.
    stays = np.concatenate(([0], np.cumsum(is_used)))
    places = stays[firsts[is_new]]
    merged = part.merged(is_used, places, added)
    if merged is None:
        return None
    moved = stays[:-1] + np.searchsorted(places, stays[:-1], side="right")
    of_values = stays[firsts] + np.concatenate(([0], np.cumsum(is_new)))[:-1]
    new_ranks = np.empty(len(news), "<i8")
    new_ranks[order] = of_values[np.cumsum(changes) - 1] if len(news) else 0
    return merged, moved[ranks], new_ranks


def _weights(sizes: list[int]) -> list[int]:
    """Return how much a step in each part is worth in a code."""
    weights = [1]
    for size in reversed(sizes[1:]):
        weights.append(weights[-1] * max(size, 1))
    return weights[::-1]


def _joined(parts: list[Part], ranks: list[Array], directions: Sequence[int]) -> Array | None:
    """Return the codes of entries, None where they need more than 63 bits."""
    sizes = [part.size for part in parts]
    weights = _weights(sizes)
    if weights[0] * max(sizes[0], 1) > _LARGEST_CODE:
        return None
    codes = np.zeros(len(ranks[0]), "<i8")
    for size, rank, weight, direction in zip(sizes, ranks, weights, directions, strict=True):
        codes += (rank if direction > 0 else size - 1 - rank) * weight
    return codes


class TupleColumn:
    """Several keys an entry, as a list of tuples of sort keys: for whatever has no codes."""

    __slots__ = ("_keys", "_probes", "_values", "key_of", "size")

    def __init__(self, keys: list[SortKey], values: list[Any], probes: Probes) -> None:
        """Take keys in order, and what the user gave for them."""
        self._keys = keys
        self._values = values
        self._probes = probes
        self.size = len(keys)
        self.key_of = probes.key_of

    @classmethod
    def build(cls, keys: Sequence[Any], probes: Probes) -> tuple[TupleColumn, Array]:
        """Make it of keys in any order."""
        entries = list(map(probes.key_of, keys))
        order = sorted(range(len(entries)), key=entries.__getitem__)
        column = cls([entries[place] for place in order], [keys[place] for place in order], probes)
        return column, np.array(order, "<i8")

    def range(
        self,
        prefix: Sequence[SortKey],
        low: SortKey | None,
        high: SortKey | None,
        is_low_open: bool,
        is_high_open: bool,
    ) -> tuple[int, int]:
        """Return where the entries of an interval begin and end; see `SortedEntries.span`."""
        start, stop = self._probes.of(prefix, low, high, is_low_open, is_high_open)
        return bisect_left(self._keys, start), bisect_left(self._keys, stop)

    def equal(self, key: SortKey) -> tuple[int, int]:
        """Return where the entries that equal this one begin and end."""
        return bisect_left(self._keys, key), bisect_right(self._keys, key)

    def value_at(self, place: int) -> Any:
        """Return a key as the user gave it."""
        return self._values[place]

    def is_same(self, place: int, value: Any) -> bool:
        """Whether a key is this one in the order."""
        return self._keys[place] == self.key_of(value)

    def values(self) -> list[Any]:
        """Return all keys as the user gave them, in order."""
        return self._values

    def changes(self, start: int, stop: int) -> Array:
        """Return which entries of a range differ from the one before, (stop - start,) bool."""
        flags = np.ones(stop - start, bool)
        flags[1:] = [one != other for one, other in pairwise(self._keys[start:stop])]
        return flags

    def merged(self, keep: Array | None, places: Array, keys: Sequence[Any]) -> TupleColumn:
        """Return the column without some entries and with others; see `Column.merged`."""
        entries = list(map(self.key_of, keys))
        return TupleColumn(
            spliced(self._keys, keep, places, entries),
            spliced(self._values, keep, places, list(keys)),
            self._probes,
        )
