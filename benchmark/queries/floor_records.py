"""The hand-written loops over the other tables: a time window, sorted paging, compound keys."""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any

from benchmark.queries.floor import Buckets, Rows, fill_buckets, fill_sorted, tied

_by_key_a: Buckets = {}
_by_key_b: Buckets = {}
# Parallel lists, in order of the key.
_times: list[int] = []
_timed: Rows = []
_scored: Rows = []
_wares: dict[int, Any] = {}
_priced: dict[str, tuple[list[tuple[int, int]], list[int]]] = {}

_NONE: dict[int, Any] = {}
_by_id = attrgetter("id")
_by_score = attrgetter("score")


def load_records(records: Iterable[Any]) -> None:
    """Fill the tables of the records; their time of writing is their time."""
    records = list(records)
    fill_buckets(_by_key_a, "key_a", records)
    fill_buckets(_by_key_b, "key_b", records)
    fill_sorted(_times, _timed, "updated", records)


def load_scored(rows: Iterable[Any]) -> None:
    """Fill the table for sorted paging."""
    _scored[:] = rows


def load_priced(rows: Iterable[Any]) -> None:
    """Fill the two compound indexes."""
    rows = list(rows)
    _wares.clear()
    _wares.update((row.id, row) for row in rows)
    for field in ("category", "segment"):
        key = attrgetter(field, "price")
        found = sorted(rows, key=key)
        _priced[field] = list(map(key, found)), [row.id for row in found]


def _window(after: int, key_a: int, key_b: int) -> Rows:
    """Seed from whatever is the smallest: the window or one of the buckets."""
    ones, others = _by_key_a.get(key_a, _NONE), _by_key_b.get(key_b, _NONE)
    first = bisect_right(_times, after)
    count = len(_times) - first
    if count <= len(ones) and count <= len(others):
        rows = [row for row in _timed[first:] if row.key_a == key_a and row.key_b == key_b]
        rows.sort(key=_by_id)
        return rows
    if len(others) <= len(ones):
        return [row for row in others.values() if row.key_a == key_a and row.updated > after]
    return [row for row in ones.values() if row.key_b == key_b and row.updated > after]


def window_page(after: int, key_a: int, key_b: int) -> Rows:
    """Return the second page of the records in a window and two buckets."""
    rows = _window(after, key_a, key_b)
    rows.sort(key=tied)
    return rows[20:40]


def count_window(after: int, key_a: int, key_b: int) -> int:
    """Return how many records are in a window and two buckets."""
    ones, others = _by_key_a.get(key_a, _NONE), _by_key_b.get(key_b, _NONE)
    first = bisect_right(_times, after)
    if len(_times) - first <= min(len(ones), len(others)):
        rows = _timed[first:]  # A count needs no order.
        return len([row for row in rows if row.key_a == key_a and row.key_b == key_b])
    return len(_window(after, key_a, key_b))


def _top(skip: int, take: int) -> Rows:
    if skip + take < len(_scored) // 4:
        return heapq.nsmallest(skip + take, _scored, key=_by_score)[skip:]
    return sorted(_scored, key=_by_score)[skip : skip + take]


def _cheapest_of_category(category: int, skip: int, take: int) -> Rows:
    keys, identities = _priced["category"]
    first = bisect_left(keys, (category,)) + skip
    found = identities[first : min(first + take, bisect_left(keys, (category + 1,)))]
    return [_wares[identity] for identity in found]


def _cheapest_of_segment(segment: int, skip: int, take: int) -> Rows:
    keys, identities = _priced["segment"]
    first = bisect_left(keys, (segment,)) + skip
    found = identities[first : min(first + take, bisect_left(keys, (segment + 1,)))]
    return [_wares[identity] for identity in found]


LOOPS: dict[str, Callable[..., Any]] = {
    "TimeWindowListListSortBounded": window_page,
    "TimeWindowListListSortBounded, range": window_page,
    "Count_TimeWindowListListSortBounded": count_window,
    "Count_TimeWindowListListSortBounded, range": count_window,
    "TimeRangeSeedOrder, 1 s": _window,
    "TimeRangeSeedOrder, 60 s": _window,
    "TimeRangeSeedOrder, 15%": _window,
    "TimeRangeSeedOrder, all": _window,
    "Top20": _top,
    "Top200": _top,
    "Top20AtEnd": _top,
    "TopHalf": _top,
    "TopAll": _top,
    "Cheapest20of10": _cheapest_of_category,
    "Cheapest100of10": _cheapest_of_category,
    "Cheapest20of10, page 3": _cheapest_of_category,
    "Cheapest20of100": _cheapest_of_segment,
    "Cheapest100of100": _cheapest_of_segment,
    "Cheapest20of100, page 3": _cheapest_of_segment,
}
