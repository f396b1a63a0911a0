"""Some of the loops with joins over mutable records: each record in a result is one copy.

A right that several rows may share is copied once for a result; one that only one row can have is
copied where it is met.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmark.peers.floor import generated_copy
from benchmark.queries import floor_joins
from benchmark.queries.floor import Rows, tied_page
from benchmark.queries.floor_joins import (
    customers_by_id,
    details_by_id,
    docs_by_group,
    items_by_group,
    lines_by_item,
    notes_by_customer,
    order_details_by_id,
    orders_by_customer,
    rec_customers_by_id,
    rec_products_by_id,
    tags_by_id,
)
from benchmark.queries.floor_records import window_page

Copy = Callable[[Any], Any]

_copies: dict[str, Copy] = {}


def load(tables: dict[str, Rows]) -> None:
    """Fill the tables."""
    floor_joins.load(tables)
    _copies.update((name, generated_copy(type(rows[0]))) for name, rows in tables.items())


class _Copied(dict[int, Any]):
    """The records that a result has already, by identity; others are copied when asked for."""

    def __init__(self, records: dict[int, Any], copy: Copy) -> None:
        self._records = records
        self._copy = copy

    def __missing__(self, identity: int) -> Any:
        record = self._records.get(identity)
        self[identity] = copied = None if record is None else self._copy(record)
        return copied


def _page_with_detail(group: int, band: int, lane: int) -> Rows:
    get, copy, copy_detail = details_by_id.get, _copies["items"], _copies["details"]
    return [
        (copy(row), None if (detail := get(row.id)) is None else copy_detail(detail))
        for row in tied_page(group, band, lane)
    ]


def _page_with_two(after: int, key_a: int, key_b: int) -> Rows:
    customers = _Copied(rec_customers_by_id, _copies["rec_customers"])
    products = _Copied(rec_products_by_id, _copies["rec_products"])
    copy = _copies["records"]
    return [
        (copy(row), customers[row.customer_id], products[row.product_id])
        for row in window_page(after, key_a, key_b)
    ]


def _with_customer(customer_id: int) -> Rows:
    customers = _Copied(customers_by_id, _copies["customers"])
    copy = _copies["orders"]
    return [
        (copy(row), customers[row.customer_id]) for row in orders_by_customer.get(customer_id, ())
    ]


def _with_detail_inner(customer_id: int) -> Rows:
    get, copy, copy_detail = order_details_by_id.get, _copies["orders"], _copies["order_details"]
    return [
        (copy(row), copy_detail(detail))
        for row in orders_by_customer.get(customer_id, ())
        if (detail := get(row.id)) is not None
    ]


def _with_lines(group: int) -> Rows:
    get, copy, copy_line = lines_by_item.get, _copies["items"], _copies["lines"]
    return [
        (copy(row), tuple(map(copy_line, get(row.id, ())))) for row in items_by_group.get(group, ())
    ]


def _with_notes(customer_id: int) -> Rows:
    copy, copy_note = _copies["orders"], _copies["notes"]
    found: dict[int, Rows] = {}
    rows = []
    for row in orders_by_customer.get(customer_id, ()):
        notes = found.get(row.customer_id)
        if notes is None:
            notes = list(map(copy_note, notes_by_customer.get(row.customer_id, ())))
            found[row.customer_id] = notes
        rows.append((copy(row), tuple(notes)))
    return rows


def _with_tags(group: int) -> Rows:
    tag, copy = _Copied(tags_by_id, _copies["tags"]).__getitem__, _copies["docs"]
    return [
        (copy(row), tuple(filter(None, map(tag, row.tag_ids))))
        for row in docs_by_group.get(group, ())
    ]


LOOPS: dict[str, Callable[..., Any]] = {
    "ListListListSortBoundedJoinOne": _page_with_detail,
    "TimeWindowListListSortBoundedJoinTwo": _page_with_two,
    "JoinOne": _with_customer,
    "InnerJoinOne": _with_detail_inner,
    "JoinMany": _with_lines,
    "JoinMany_LeftSym": _with_notes,
    "JoinMany_Collection": _with_tags,
}
