"""The loops over items that a good programmer writes by hand: what queries are held against.

Records in a dict by identity, a bucket ``{identity: record}`` for each key, sorted lists and
``bisect`` for ranges. The tables are the module's own, as they would be in a program: a function
finds them as fast as anything can be found. Results are in the order in which memdb gives them.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any

Rows = list[Any]
Buckets = dict[int, dict[int, Any]]

_by_code: dict[int, Any] = {}
_by_group: Buckets = {}
_by_tier: Buckets = {}
_by_band: Buckets = {}
_by_lane: Buckets = {}
_by_flag: Buckets = {}
# Parallel lists, in order of the key.
_items: dict[int, Any] = {}
_codes: list[int] = []
_coded: list[int] = []
_updates: list[int] = []
_updated: Rows = []

_NONE: dict[int, Any] = {}
_by_id = attrgetter("id")
_by_score = attrgetter("score")


def tied(row: Any) -> int:
    """Return the key of the bounded pages, which many rows share."""
    key: int = row.score % 8
    return key


def load(items: Iterable[Any]) -> None:
    """Fill the tables."""
    items = list(items)
    fill_buckets(_by_group, "group", items)
    fill_buckets(_by_tier, "tier", items)
    fill_buckets(_by_band, "band", items)
    fill_buckets(_by_lane, "lane", items)
    fill_buckets(_by_flag, "flag", items)
    coded: Rows = []
    fill_sorted(_codes, coded, "code", items)
    _coded[:] = [item.id for item in coded]
    _items.clear()
    _items.update((item.id, item) for item in items)
    fill_sorted(_updates, _updated, "updated", items)
    _by_code.clear()
    _by_code.update((item.code, item) for item in items)


def fill_buckets(buckets: Buckets, field: str, rows: Rows) -> None:
    """Sort ``rows`` into buckets by a field."""
    buckets.clear()
    for row in rows:
        buckets.setdefault(getattr(row, field), {})[row.id] = row


def fill_sorted(keys: list[int], found: Rows, field: str, rows: Rows) -> None:
    """Fill the two parallel lists of a range index."""
    found[:] = sorted(rows, key=attrgetter(field))
    keys[:] = map(attrgetter(field), found)


def _unique() -> Rows:
    row = _by_code.get(43_042)
    return [row] if row is not None else []


def _unique_arg(code: int) -> Rows:
    row = _by_code.get(code)
    return [row] if row is not None else []


def _unique_where(code: int) -> Rows:
    row = _by_code.get(code)
    return [row] if row is not None and row.flag else []


def _unique_arg_where(code: int, least: int) -> Rows:
    row = _by_code.get(code)
    return [row] if row is not None and row.score >= least else []


def _list_where(group: int) -> Rows:
    return [row for row in _by_group.get(group, _NONE).values() if row.flag]


def _code_range(low: int, high: int) -> Rows:
    # Identities, as a record that changes is replaced in the dict
    # alone. Codes rise with identities, so this is the order of identities.
    found = _coded[bisect_left(_codes, low) : bisect_left(_codes, high)]
    return [_items[identity] for identity in found]


def _optional_range(low: int | None, high: int | None) -> Rows:
    first = 0 if low is None else bisect_left(_codes, low)
    last = len(_codes) if high is None else bisect_left(_codes, high)
    return [_items[identity] for identity in _coded[first:last]]


def _list_two_wheres(group: int) -> Rows:
    rows = _by_group.get(group, _NONE).values()
    return [row for row in rows if row.flag and row.score % 10 == 0]


def _list_three_wheres(group: int) -> Rows:
    rows = _by_group.get(group, _NONE).values()
    return [row for row in rows if row.id >= 0 and row.flag and row.score % 100 == 0]


def _list_two_arg_wheres(group: int, least: int, most: int) -> Rows:
    return [row for row in _by_group.get(group, _NONE).values() if least <= row.id <= most]


def _list_list(group: int, tier: int) -> Rows:
    one, other = _by_group.get(group, _NONE), _by_tier.get(tier, _NONE)
    if len(one) < len(other):
        return [row for row in one.values() if row.tier == tier]
    return [row for row in other.values() if row.group == group]


def list_list_list(group: int, band: int, lane: int) -> Rows:
    """Return the items of three buckets, from the smallest."""
    groups = _by_group.get(group, _NONE)
    bands = _by_band.get(band, _NONE)
    lanes = _by_lane.get(lane, _NONE)
    if len(lanes) <= len(bands) and len(lanes) <= len(groups):
        return [row for row in lanes.values() if row.group == group and row.band == band]
    if len(bands) <= len(groups):
        return [row for row in bands.values() if row.group == group and row.lane == lane]
    return [row for row in groups.values() if row.band == band and row.lane == lane]


def _list_range(group: int, low: int, high: int) -> Rows:
    groups = _by_group.get(group, _NONE)
    first, last = bisect_left(_codes, low), bisect_left(_codes, high)
    if last - first < len(groups):
        return [row for i in _coded[first:last] if (row := _items[i]).group == group]
    return [row for row in groups.values() if low <= row.code < high]


def _list_key_set(group: int) -> Rows:
    groups, flags = _by_group.get(group, _NONE), _by_flag.get(True, _NONE)
    if len(flags) < len(groups):
        return [row for row in flags.values() if row.group == group]
    return [row for row in groups.values() if row.flag]


def _list_last_updated(group: int, after: int) -> Rows:
    groups = _by_group.get(group, _NONE)
    first = bisect_right(_updates, after)
    if len(_updates) - first < len(groups):
        return [row for row in _updated[first:] if row.group == group]
    return [row for row in groups.values() if row.updated > after]


def _either(group: int, other: int) -> Rows:
    rows = list(_by_group.get(group, _NONE).values())
    if other == group:
        return rows
    rows += _by_group.get(other, _NONE).values()
    rows.sort(key=_by_id)  # Two runs in order: the sort merges them.
    return rows


def _or_after_list(group: int, code: int, other: int) -> Rows:
    rows = []
    row = _by_code.get(code)
    if row is not None and row.group == group:
        rows.append(row)
    row = _by_code.get(other)
    if row is not None and row.group == group and other != code:
        rows.append(row)
        rows.sort(key=_by_id)
    return rows


def _match(mode: int, group: int, code: int) -> Rows:
    if mode == 0:
        row = _by_code.get(code)
        return [row] if row is not None else []
    if mode == 1:
        return list(_by_group.get(group, _NONE).values())
    if mode == 2:
        return [row for row in _by_group.get(group, _NONE).values() if row.flag]
    return []


def _if_code(group: int, code: int | None) -> Rows:
    if code is None:
        return list(_by_group.get(group, _NONE).values())
    row = _by_code.get(code)
    return [row] if row is not None and row.group == group else []


def _sorted_list_list(group: int, tier: int) -> Rows:
    rows = _list_list(group, tier)
    rows.sort(key=_by_score)
    return rows


def _sort_bounded(group: int) -> Rows:
    # For 20 of 1,000 the heap took 48 us, the sort 78.
    return heapq.nsmallest(20, _by_group.get(group, _NONE).values(), key=_by_score)


def _sort_bounded_list_list(group: int, tier: int) -> Rows:
    # For 20 of 100 the sort took 5 us, the heap 10.
    rows = _list_list(group, tier)
    rows.sort(key=_by_score)
    return rows[:20]


def tied_page(group: int, band: int, lane: int) -> Rows:
    """Return the second page of these."""
    rows = list_list_list(group, band, lane)
    rows.sort(key=tied)
    return rows[20:40]


def _count_list_where(group: int) -> int:
    # The length of a list is found faster than a sum over a generator.
    return len([row for row in _by_group.get(group, _NONE).values() if row.flag])


def _count_group(group: int) -> int:
    return len(_by_group.get(group, _NONE))


def _count_list_list(group: int, tier: int) -> int:
    return len(_list_list(group, tier))


def _count_list_list_list(group: int, band: int, lane: int) -> int:
    return len(list_list_list(group, band, lane))


def _count_list_range(group: int, low: int, high: int) -> int:
    return len(_list_range(group, low, high))


def _count_either(group: int, other: int) -> int:
    groups = len(_by_group.get(group, _NONE))
    return groups if other == group else groups + len(_by_group.get(other, _NONE))


def _count_match(mode: int, group: int, code: int) -> int:
    if mode == 0:
        return 1 if code in _by_code else 0
    if mode == 1:
        return len(_by_group.get(group, _NONE))
    return len(_match(mode, group, code))


LOOPS: dict[str, Callable[..., Any]] = {
    "Unique": _unique,
    "UniqueArg": _unique_arg,
    "UniqueWhere": _unique_where,
    "UniqueArgWhere": _unique_arg_where,
    "ListWhere": _list_where,
    "Range": _code_range,
    "OptionalRange": _optional_range,
    "ListTwoWheres": _list_two_wheres,
    "ListThreeWheresSelectiveLast": _list_three_wheres,
    "ListTwoArgWheres": _list_two_arg_wheres,
    "ListList": _list_list,
    "ListListReversed": _list_list,
    "ListListList": list_list_list,
    "ListRange": _list_range,
    "ListKeySet": _list_key_set,
    "ListLastUpdated": _list_last_updated,
    "Or": _either,
    "OrAfterList": _or_after_list,
    "Match": _match,
    "IfTaken": _if_code,
    "IfSkipped": _if_code,
    "Sort_ListList": _sorted_list_list,
    "SortBounded": _sort_bounded,
    "SortBounded_ListList": _sort_bounded_list_list,
    "ListListListSortBounded": tied_page,
    "Count_ListWhere": _count_list_where,
    "Count_ListList": _count_list_list,
    "Count_ListRange": _count_list_range,
    "Count_Or": _count_either,
    "Count_Match": _count_match,
    "Count_SortBounded": _count_group,
    "Count_ListListListSortBounded": _count_list_list_list,
}
