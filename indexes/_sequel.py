"""What comes behind one entry of a sorted index, whatever its keys are: where a page goes on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from memdb.indexes._order import Bounds, SortKey
from memdb.indexes._sorted import SortedEntries
from memdb.indexes._sorted_kinds import Array
from memdb.indexes._sorted_span import Load, Span

EVERYTHING: Final = Bounds((-1,), (99,))
"""The interval of all values."""


class Sequel:
    """The entries behind a place in an order: equal ones with higher numbers, then some spans.

    It has the methods of a `Span`; the numbers of equal keys rise in either direction.

    Attributes:
        count: How many there are.
    """

    __slots__ = ("_equal", "_is_reversed", "_spans", "count")

    def __init__(self, equal: Array, spans: list[Span], *, is_reversed: bool) -> None:
        """Join them.

        Args:
            equal: Numbers with the keys of the place, rising.
            spans: What comes behind, in the order in which it is read.
            is_reversed: Each is read from its end.
        """
        self._equal = equal
        self._spans = spans
        self._is_reversed = is_reversed
        self.count = len(equal) + sum([span.count for span in spans])

    def __len__(self) -> int:
        """Return how many there are."""
        return self.count

    def numbers(self, reverse: bool = False, limit: int | None = None) -> list[int]:
        """Return the numbers in order of their keys; see `Span.numbers`."""
        wanted = self.count if limit is None else max(limit, 0)
        found: list[int] = []
        for part in self._parts(reverse):
            if len(found) >= wanted:
                break
            rest = wanted - len(found)
            if isinstance(part, Span):
                found += part.numbers(reverse, rest)
            else:
                found += part[:rest].tolist()
        return found

    def _parts(self, reverse: bool) -> Iterator[Span | Array]:
        if reverse is self._is_reversed:
            yield self._equal
            yield from self._spans
        else:
            yield from reversed(self._spans)
            yield self._equal

    def array(self) -> Array:
        """Return the numbers in order of their keys, (n,) of integers; do not change it."""
        parts = self._parts(False)
        return np.concatenate([each.array() if isinstance(each, Span) else each for each in parts])

    def rows(self, load: Load) -> list[Any]:
        """Return one object a number, in order of the keys; see `Span.rows`."""
        rows: list[Any] = []
        for part in self._parts(False):
            rows += part.rows(load) if isinstance(part, Span) else load(part.tolist())
        return rows


def sequel(
    entries: SortedEntries,
    prefix: Sequence[Any],
    keys: Sequence[SortKey],
    falling: Sequence[bool],
    number: int,
    limits: Bounds,
    *,
    is_reversed: bool,
) -> Sequel:
    """Return what comes behind a place in the order of an index or in the opposite one.

    Args:
        entries: The index.
        prefix: Values that its first fields equal.
        keys: Where the place is, a sort key for each of the other fields.
        falling: Whether the order falls, for each of these.
        number: Of equal entries those with higher ones come behind.
        limits: Between which the first of these fields lies.
        is_reversed: It is the opposite order.

    Cost: two searches for each field, 1 us each.
    """
    is_within = _has(limits, keys[0])
    spans: list[Span] = []
    # From those that differ in the last field alone to those that do so in the first one.
    for place in range(len(keys) - 1, -1, -1):
        beyond = _beyond(keys[place], falling[place])
        if not place:
            beyond = _both(beyond, limits)
        if is_within or not place:
            low, high, is_low_open, is_high_open, _ = beyond
            spans.append(
                entries.span(low, high, is_low_open, is_high_open, prefix=prefix, head=keys[:place])
            )
    equal = np.empty(0, "<i8")
    if is_within:
        last = keys[-1]
        equal = entries.span(last, last, prefix=prefix, head=keys[:-1]).array()
        equal = equal[np.searchsorted(equal, number, "right") :]
    return Sequel(equal, spans, is_reversed=is_reversed)


def reach(
    entries: SortedEntries, prefix: Sequence[Any], key: SortKey, limits: Bounds, *, is_falling: bool
) -> Span:
    """Return the entries whose next field is not before a key, in rising or falling order.

    Args:
        entries: The index.
        prefix: Values that its first fields equal.
        key: Of the next field.
        limits: Between which this lies.
        is_falling: What is before is higher.
    """
    whole = _beyond(key, is_falling)._replace(is_low_open=False, is_high_open=False)
    low, high, is_low_open, is_high_open, _ = _both(whole, limits)
    return entries.span(low, high, is_low_open, is_high_open, prefix=prefix)


def _beyond(key: SortKey, is_falling: bool) -> Bounds:
    """Return the interval of what comes behind a key."""
    if is_falling:
        return Bounds(EVERYTHING.low, key, False, True)
    return Bounds(key, EVERYTHING.high, True, False)


def _both(one: Bounds, other: Bounds) -> Bounds:
    """Return what lies in two intervals."""
    low, is_low_open = max((one.low, one.is_low_open), (other.low, other.is_low_open))
    high, is_closed = min((one.high, not one.is_high_open), (other.high, not other.is_high_open))
    return Bounds(low, high, is_low_open, not is_closed)


def _has(limits: Bounds, key: SortKey) -> bool:
    """Whether a key lies in an interval."""
    return not _both(limits, Bounds(key, key)).is_empty
