"""The tables that are joined to items, records and orders, as `benchmark.queries.fixture`.

In the original every fourth record is missing, ``i % 4``, but in steps of 100 that is the same
for each: of the rows that the shapes ask for, none lacks a right. With ``has_misses`` every
fourth of those is missing, ``i // 100 % 4``.
"""

from __future__ import annotations

from dataclasses import dataclass, make_dataclass
from typing import Any, get_type_hints

from benchmark.queries import fixture

_CUSTOMER_COUNT = 100
_REC_CUSTOMER_COUNT = 2000
_REC_PRODUCT_COUNT = 500
_TAG_COUNT = 500


@dataclass(frozen=True, slots=True)
class Detail:
    """Of the item with the same identity."""

    id: int
    region: str


@dataclass(frozen=True, slots=True)
class RecCustomer:
    """A customer of records."""

    id: int
    region: str


@dataclass(frozen=True, slots=True)
class RecProduct:
    """A product of records."""

    id: int
    category: str


@dataclass(frozen=True, slots=True)
class Order:
    """An order of one of a hundred customers."""

    id: int
    customer_id: int
    qty: int


@dataclass(frozen=True, slots=True)
class Customer:
    """A customer of orders and notes."""

    id: int
    region: str


@dataclass(frozen=True, slots=True)
class OrderDetail:
    """Of the order with the same identity."""

    id: int
    region: str


@dataclass(frozen=True, slots=True)
class Line:
    """One of two lines of an item."""

    id: int
    item_id: int
    qty: int


@dataclass(frozen=True, slots=True)
class Note:
    """One of three notes of a customer."""

    id: int
    customer_id: int
    text: str


@dataclass(frozen=True, slots=True)
class Doc:
    """A document with three tags, or none."""

    id: int
    group: int
    tag_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Tag:
    """A tag of documents."""

    id: int
    name: str


CLASSES: dict[str, type[Any]] = {
    "items": fixture.Item,
    "details": Detail,
    "records": fixture.Record,
    "rec_customers": RecCustomer,
    "rec_products": RecProduct,
    "orders": Order,
    "customers": Customer,
    "order_details": OrderDetail,
    "lines": Line,
    "notes": Note,
    "docs": Doc,
    "tags": Tag,
}


def mutable(cls: type[Any]) -> type[Any]:
    """Return a class with the same fields whose records can be changed, so that they are copied."""
    hints = get_type_hints(cls)
    return make_dataclass(f"Mutable{cls.__name__}", list(hints.items()), slots=True)


def make_tables(
    classes: dict[str, type[Any]], count: int, *, has_misses: bool
) -> dict[str, list[Any]]:
    """Return the rows of every table, in order of identity; ``count`` of items and orders."""
    there = [i for i in range(count) if (i // 100 if has_misses else i) % 4]
    return {
        "items": fixture.make_items(classes["items"], count),
        "details": [classes["details"](i + 1, region(i)) for i in there],
        "records": fixture.make_records(classes["records"], count // 10),
        "rec_customers": [
            classes["rec_customers"](c + 1, region(c)) for c in range(_REC_CUSTOMER_COUNT) if c % 7
        ],
        "rec_products": [
            classes["rec_products"](p + 1, f"c{p % 9}") for p in range(_REC_PRODUCT_COUNT)
        ],
        "orders": [classes["orders"](i + 1, i % _CUSTOMER_COUNT + 1, i % 13) for i in range(count)],
        "customers": [classes["customers"](c + 1, region(c)) for c in range(_CUSTOMER_COUNT)],
        "order_details": [classes["order_details"](i + 1, region(i)) for i in there],
        "lines": [line for i in there for line in two_lines(classes["lines"], i)],
        "notes": [
            classes["notes"](3 * c + k + 1, c + 1, f"n{k}")
            for c in range(_CUSTOMER_COUNT)
            for k in range(3)
        ],
        "docs": [
            classes["docs"](d + 1, d % 10, tags_of(d, (d // 10 if has_misses else d) % 4 == 0))
            for d in range(count // 10)
        ],
        "tags": make_tags(classes["tags"]),
    }


def region(number: int) -> str:
    """Return the region of a customer or of details."""
    return "US" if number % 2 else "EU"


def two_lines(cls: type[Any], i: int) -> list[Any]:
    """Return the lines of item or order ``i``."""
    return [cls(2 * i + 1, i + 1, i % 7), cls(2 * i + 2, i + 1, i % 11)]


def tags_of(d: int, is_untagged: bool) -> tuple[int, ...]:
    """Return the identities of the tags of document ``d``."""
    if is_untagged:
        return ()
    return d % _TAG_COUNT + 1, d * 7 % _TAG_COUNT + 1, d * 13 % _TAG_COUNT + 1


def make_tags(cls: type[Any]) -> list[Any]:
    """Return all tags."""
    return [cls(t + 1, f"t{t}") for t in range(_TAG_COUNT)]
