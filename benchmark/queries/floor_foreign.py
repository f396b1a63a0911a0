"""The loops over foreign keys, sorted pages with a join, and small tables.

As in `benchmark.queries.floor_joins`; what only one record can have is a dict by its key.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Callable
from operator import attrgetter
from typing import Any

from benchmark.queries.floor import Rows, tied
from benchmark.queries.floor_joins import Lists, fill_dict, fill_lists

_customers_by_id: dict[int, Any] = {}
_customers_by_segment: Lists = {}
_orders_by_group: Lists = {}
_profile_by_customer: dict[int, Any] = {}
_lines_by_order: Lists = {}
_docs_by_bucket: Lists = {}
_tags_by_id: dict[int, Any] = {}

_scored: Rows = []
_labels: dict[int, Any] = {}

_rooms: Rows = []
_desks_by_room: Lists = {}
_occupier_by_desk: dict[int, Any] = {}
_parts: Rows = []
_counterpart_by_part: dict[int, Any] = {}

# Parallel lists, in order of the key.
_ranges: list[int] = []
_ranged: Rows = []
_info_by_product: dict[int, Any] = {}
_offers_by_product: Lists = {}

_by_score = attrgetter("score")


def load_foreign(tables: dict[str, Rows]) -> None:
    """Fill the tables that are tied by foreign keys."""
    fill_dict(_customers_by_id, tables["customers"])
    fill_lists(_customers_by_segment, "segment", tables["customers"])
    fill_lists(_orders_by_group, "group", tables["orders"])
    _fill_unique(_profile_by_customer, "customer_id", tables["profiles"])
    fill_lists(_lines_by_order, "order_id", tables["lines"])
    fill_lists(_docs_by_bucket, "bucket", tables["docs"])
    fill_dict(_tags_by_id, tables["tags"])


def load_top(tables: dict[str, Rows]) -> None:
    """Fill the tables of sorted pages."""
    _scored[:] = tables["scored"]
    fill_dict(_labels, tables["labels"])


def load_rooms(tables: dict[str, Rows]) -> None:
    """Fill the small tables."""
    _rooms[:] = tables["rooms"]
    fill_lists(_desks_by_room, "room_id", tables["desks"])
    _fill_unique(_occupier_by_desk, "desk_id", tables["occupiers"])
    _parts[:] = tables["parts"]
    _fill_unique(_counterpart_by_part, "part_id", tables["counterparts"])


def load_heavy(tables: dict[str, Rows]) -> None:
    """Fill the tables of the concurrent workload."""
    _ranged[:] = sorted(tables["products"], key=attrgetter("range"))
    _ranges[:] = [product.range for product in _ranged]
    _fill_unique(_info_by_product, "product_id", tables["infos"])
    fill_lists(_offers_by_product, "product_id", tables["offers"])


def _fill_unique(found: dict[int, Any], field: str, rows: Rows) -> None:
    found.clear()
    found.update((getattr(row, field), row) for row in rows)


def _with_customer(group: int) -> Rows:
    get = _customers_by_id.get
    return [(row, get(row.customer_id)) for row in _orders_by_group.get(group, ())]


def _with_customer_inner(group: int) -> Rows:
    get = _customers_by_id.get
    return [
        (row, customer)
        for row in _orders_by_group.get(group, ())
        if (customer := get(row.customer_id)) is not None
    ]


def _with_customer_of(region: str) -> Callable[[int], Rows]:
    def ask(group: int) -> Rows:
        get = _customers_by_id.get
        return [
            (row, customer)
            for row in _orders_by_group.get(group, ())
            if (customer := get(row.customer_id)) is not None and customer.region == region
        ]

    return ask


def _with_profile(segment: int) -> Rows:
    get = _profile_by_customer.get
    return [(row, get(row.id)) for row in _customers_by_segment.get(segment, ())]


def _with_lines(group: int) -> Rows:
    get = _lines_by_order.get
    return [(row, tuple(get(row.id, ()))) for row in _orders_by_group.get(group, ())]


def _with_tags(bucket: int) -> Rows:
    get = _tags_by_id.get
    return [
        (row, tuple(filter(None, map(get, row.tag_ids)))) for row in _docs_by_bucket.get(bucket, ())
    ]


def _page_with_profile(segment: int) -> Rows:
    get = _profile_by_customer.get
    # For 40 of 1,000 the sort took 61 us, the heap 64.
    rows = sorted(_customers_by_segment.get(segment, ()), key=tied)
    return [(row, get(row.id)) for row in rows[20:40]]


def _page_with_customer(group: int) -> Rows:
    get = _customers_by_id.get
    rows = sorted(_orders_by_group.get(group, ()), key=tied)
    return [(row, get(row.customer_id)) for row in rows[20:40]]


def _count_with_customer(group: int) -> int:
    customers = _customers_by_id
    return len([None for row in _orders_by_group.get(group, ()) if row.customer_id in customers])


def _top_labelled(skip: int, take: int) -> Rows:
    labels = _labels
    if skip + take < len(_scored) // 4:
        rows = heapq.nsmallest(skip + take, _scored, key=_by_score)
        found = [(row, label) for row in rows if (label := labels.get(row.id)) is not None]
        # A right is hardly ever missing: 3.3 ms, where looking at all of them first took 5.7.
        if len(found) == len(rows):
            return found[skip:]
    rows = [row for row in _scored if row.id in labels]
    rows.sort(key=_by_score)
    return [(row, labels[row.id]) for row in rows[skip : skip + take]]


def _rooms_with_desks() -> Rows:
    get = _desks_by_room.get
    return [(room, tuple(get(room.id, ()))) for room in _rooms]


def _rooms_with_occupied_desks() -> Rows:
    desks, occupier = _desks_by_room.get, _occupier_by_desk.get
    return [
        (room, tuple([(desk, occupier(desk.id)) for desk in desks(room.id, ())])) for room in _rooms
    ]


def _with_counterpart() -> Rows:
    get = _counterpart_by_part.get
    return [(part, counterpart) for part in _parts if (counterpart := get(part.id)) is not None]


def _count_with_counterpart() -> int:
    counterparts = _counterpart_by_part
    return len([None for part in _parts if part.id in counterparts])


def _products_with_all(pivot: int) -> Rows:
    info, offers = _info_by_product.get, _offers_by_product.get
    return [
        (product, info(product.id), tuple(offers(product.id, ())))
        for product in _ranged[bisect_left(_ranges, pivot) :]
    ]


LOOPS: dict[str, Callable[..., Any]] = {
    "Fk_ManyToOne": _with_customer,
    "Fk_ManyToOne_Inner": _with_customer_inner,
    "Fk_OneToOneReverse": _with_profile,
    "Fk_OneToManyReverse": _with_lines,
    "Fk_Collection": _with_tags,
    "Fk_SortBounded_OneToOneReverse": _page_with_profile,
    "Fk_SortBounded_ManyToOne": _page_with_customer,
    "Fk_ManyToOne_Filtered": _with_customer_of("EU"),
    "Fk_ManyToOne_Filtered, all": _with_customer_of("US"),
    "Count_Fk_ManyToOne_Inner": _count_with_customer,
    "Top20JoinOne": _top_labelled,
    "Top200JoinOne": _top_labelled,
    "Top20AtEndJoinOne": _top_labelled,
    "TopHalfJoinOne": _top_labelled,
    "TopAllJoinOne": _top_labelled,
    "JoinMany_Desks": _rooms_with_desks,
    "JoinMany_DesksJoinOne": _rooms_with_occupied_desks,
    "InnerJoinOne_Half": _with_counterpart,
    "Count_InnerJoinOne_Half": _count_with_counterpart,
    "HeavyJoin": _products_with_all,
}
