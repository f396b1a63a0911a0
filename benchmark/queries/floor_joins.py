"""The loops with joins that a good programmer writes by hand, over immutable records.

Records in a dict by identity where they are looked up by it, else a list ``{key: [record]}`` for
each key. A row is a tuple of the left record and its right, or the tuple of its rights: never
an index's own list, which changes.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from operator import attrgetter
from typing import Any

from benchmark.queries import floor, floor_records
from benchmark.queries.floor import Rows, list_list_list, tied_page
from benchmark.queries.floor_records import count_window, window_page

Lists = dict[int, Rows]

items_by_group: Lists = {}
details_by_id: dict[int, Any] = {}
rec_customers_by_id: dict[int, Any] = {}
rec_products_by_id: dict[int, Any] = {}
orders_by_customer: Lists = {}
customers_by_id: dict[int, Any] = {}
order_details_by_id: dict[int, Any] = {}
lines_by_item: Lists = {}
notes_by_customer: Lists = {}
docs_by_group: Lists = {}
docs_by_tag: Lists = {}
tags_by_id: dict[int, Any] = {}

_by_score = attrgetter("score")


def load(tables: dict[str, Rows]) -> None:
    """Fill the tables."""
    floor.load(tables["items"])
    floor_records.load_records(tables["records"])
    fill_lists(items_by_group, "group", tables["items"])
    fill_dict(details_by_id, tables["details"])
    fill_dict(rec_customers_by_id, tables["rec_customers"])
    fill_dict(rec_products_by_id, tables["rec_products"])
    fill_lists(orders_by_customer, "customer_id", tables["orders"])
    fill_dict(customers_by_id, tables["customers"])
    fill_dict(order_details_by_id, tables["order_details"])
    fill_lists(lines_by_item, "item_id", tables["lines"])
    fill_lists(notes_by_customer, "customer_id", tables["notes"])
    fill_lists(docs_by_group, "group", tables["docs"])
    docs_by_tag.clear()
    for doc in tables["docs"]:
        for tag_id in dict.fromkeys(doc.tag_ids):
            docs_by_tag.setdefault(tag_id, []).append(doc)
    fill_dict(tags_by_id, tables["tags"])


def fill_dict(found: dict[int, Any], rows: Rows) -> None:
    """Fill a dict by identity."""
    found.clear()
    found.update((row.id, row) for row in rows)


def fill_lists(lists: Lists, field: str, rows: Rows) -> None:
    """Fill the lists of an index."""
    lists.clear()
    for row in rows:
        lists.setdefault(getattr(row, field), []).append(row)


def _first_with_lines(group: int) -> Rows:
    rows = heapq.nsmallest(20, items_by_group.get(group, ()), key=_by_score)
    get = lines_by_item.get
    return [(row, tuple(get(row.id, ()))) for row in rows]


def _page_with_detail(group: int, band: int, lane: int) -> Rows:
    get = details_by_id.get
    return [(row, get(row.id)) for row in tied_page(group, band, lane)]


def _page_with_lines(group: int, band: int, lane: int) -> Rows:
    get = lines_by_item.get
    return [(row, tuple(get(row.id, ()))) for row in tied_page(group, band, lane)]


def _page_with_two(after: int, key_a: int, key_b: int) -> Rows:
    customer, product = rec_customers_by_id.get, rec_products_by_id.get
    return [
        (row, customer(row.customer_id), product(row.product_id))
        for row in window_page(after, key_a, key_b)
    ]


def _three_with_lines(group: int, band: int, lane: int) -> Rows:
    get = lines_by_item.get
    return [
        (row, tuple(lines))
        for row in list_list_list(group, band, lane)
        if (lines := get(row.id)) is not None
    ]


def _with_customer(customer_id: int) -> Rows:
    get = customers_by_id.get
    return [(row, get(row.customer_id)) for row in orders_by_customer.get(customer_id, ())]


def _with_detail_inner(customer_id: int) -> Rows:
    get = order_details_by_id.get
    return [
        (row, detail)
        for row in orders_by_customer.get(customer_id, ())
        if (detail := get(row.id)) is not None
    ]


def _with_customer_and_detail(customer_id: int) -> Rows:
    customer, detail = customers_by_id.get, order_details_by_id.get
    return [
        (row, customer(row.customer_id), detail(row.id))
        for row in orders_by_customer.get(customer_id, ())
    ]


def _with_customer_of(region: str) -> Callable[[int], Rows]:
    def ask(customer_id: int) -> Rows:
        rows = []
        get = customers_by_id.get
        for row in orders_by_customer.get(customer_id, ()):
            customer = get(row.customer_id)
            if customer is not None and customer.region != region:
                customer = None
            rows.append((row, customer))
        return rows

    return ask


def _with_detail_of(region: str) -> Callable[[int], Rows]:
    def ask(customer_id: int) -> Rows:
        rows = []
        get = order_details_by_id.get
        for row in orders_by_customer.get(customer_id, ()):
            detail = get(row.id)
            if detail is not None and detail.region != region:
                detail = None
            rows.append((row, detail))
        return rows

    return ask


def _with_lines(group: int) -> Rows:
    get = lines_by_item.get
    return [(row, tuple(get(row.id, ()))) for row in items_by_group.get(group, ())]


def _with_lines_inner(group: int) -> Rows:
    get = lines_by_item.get
    return [
        (row, tuple(lines))
        for row in items_by_group.get(group, ())
        if (lines := get(row.id)) is not None
    ]


def _with_notes(customer_id: int) -> Rows:
    get = notes_by_customer.get
    return [
        (row, tuple(get(row.customer_id, ()))) for row in orders_by_customer.get(customer_id, ())
    ]


def _with_notes_inner(customer_id: int) -> Rows:
    get = notes_by_customer.get
    return [
        (row, tuple(notes))
        for row in orders_by_customer.get(customer_id, ())
        if (notes := get(row.customer_id)) is not None
    ]


def _with_tags(group: int) -> Rows:
    get = tags_by_id.get
    return [
        (row, tuple(filter(None, map(get, row.tag_ids)))) for row in docs_by_group.get(group, ())
    ]


def _with_tags_inner(group: int) -> Rows:
    tags = tags_by_id
    return [
        (row, found)
        for row in docs_by_group.get(group, ())
        if (found := tuple([tags[tag_id] for tag_id in row.tag_ids if tag_id in tags]))
    ]


def _with_docs(first: int, last: int) -> Rows:
    get = docs_by_tag.get
    # Tags are in order of identity, as they were inserted.
    return [(tag, tuple(get(tag.id, ()))) for tag in tags_by_id.values() if first <= tag.id <= last]


def _count_group(group: int) -> int:
    return len(items_by_group.get(group, ()))


def _count_with_lines(group: int) -> int:
    lines = lines_by_item
    return len([None for row in items_by_group.get(group, ()) if row.id in lines])


def _count_three(group: int, band: int, lane: int) -> int:
    return len(list_list_list(group, band, lane))


def _count_three_with_lines(group: int, band: int, lane: int) -> int:
    lines = lines_by_item
    return len([None for row in list_list_list(group, band, lane) if row.id in lines])


def _count_with_detail(customer_id: int) -> int:
    details = order_details_by_id
    return len([None for row in orders_by_customer.get(customer_id, ()) if row.id in details])


LOOPS: dict[str, Callable[..., Any]] = {
    "Sort_JoinMany": _first_with_lines,
    "SortBounded_JoinMany": _first_with_lines,
    "ListListListSortBoundedJoinOne": _page_with_detail,
    "TimeWindowListListSortBoundedJoinTwo": _page_with_two,
    "TimeWindowListListSortBoundedJoinTwo, range": _page_with_two,
    "ListListListSortBoundedJoinMany": _page_with_lines,
    "ListListListInnerJoinMany": _three_with_lines,
    "JoinOne": _with_customer,
    "InnerJoinOne": _with_detail_inner,
    "JoinOneChained": _with_customer_and_detail,
    "JoinOneFiltered": _with_customer_of("EU"),
    "JoinOneFilteredDistinct": _with_detail_of("EU"),
    "JoinOneFiltered, all": _with_customer_of("US"),
    "JoinOneFilteredDistinct, all": _with_detail_of("US"),
    "JoinMany": _with_lines,
    "InnerJoinMany": _with_lines_inner,
    "JoinMany_LeftSym": _with_notes,
    "InnerJoinMany_LeftSym": _with_notes_inner,
    "JoinMany_Collection": _with_tags,
    "InnerJoinMany_Collection": _with_tags_inner,
    "JoinMany_CollectionReverse": _with_docs,
    "Count_JoinMany": _count_group,
    "Count_InnerJoinMany": _count_with_lines,
    "Count_ListListListInnerJoinMany": _count_three_with_lines,
    "Count_ListListListSortBoundedJoinOne": _count_three,
    "Count_TimeWindowListListSortBoundedJoinTwo": count_window,
    "Count_TimeWindowListListSortBoundedJoinTwo, range": count_window,
    "Count_InnerJoinOne": _count_with_detail,
}
