"""Tables that are tied by foreign keys, as `benchmark.queries.fixture`; every fourth is missing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import memdb
from benchmark.queries.fixture import NetRandom
from benchmark.queries.fixture_joins import make_tags, region, tags_of, two_lines

_SEED = 1234
_INT_MAX = 2**31 - 1
# What an order without a customer names instead of one.
_NOBODY = 1_000_000


@dataclass(frozen=True, slots=True)
class Customer:
    """A customer, of a hundred segments."""

    id: int
    segment: int
    region: str
    score: int


@dataclass(frozen=True, slots=True)
class Order:
    """An order; every fourth names a customer that is not there."""

    id: int
    group: int
    customer_id: Annotated[int, memdb.ForeignKey(Customer)]
    score: int


@dataclass(frozen=True, slots=True)
class Profile:
    """The one profile of a customer."""

    id: int
    customer_id: Annotated[int, memdb.ForeignKey(Customer)]
    bio: str


@dataclass(frozen=True, slots=True)
class Line:
    """One of two lines of an order."""

    id: int
    order_id: Annotated[int, memdb.ForeignKey(Order)]
    qty: int


@dataclass(frozen=True, slots=True)
class Tag:
    """A tag of documents."""

    id: int
    name: str


@dataclass(frozen=True, slots=True)
class Doc:
    """A document with three tags, or none."""

    id: int
    bucket: int
    tag_ids: Annotated[tuple[int, ...], memdb.ForeignKey(Tag)]


CLASSES: dict[str, type[Any]] = {
    "customers": Customer,
    "orders": Order,
    "profiles": Profile,
    "lines": Line,
    "docs": Doc,
    "tags": Tag,
}


def make_tables(count: int) -> dict[str, list[Any]]:
    """Return the rows of every table, in order of identity; ``count`` of customers and orders."""
    random = NetRandom(_SEED)
    customers, orders = [], []
    for i in range(count):  # A customer's score is drawn, then an order's.
        customers.append(Customer(i + 1, i % 100, region(i), random.below(_INT_MAX)))
        customer_id = i + 1 + (_NOBODY if i // 100 % 4 == 3 else 0)
        orders.append(Order(i + 1, i % 100, customer_id, random.below(_INT_MAX)))
    there = [i for i in range(count) if i // 100 % 4]
    return {
        "customers": customers,
        "orders": orders,
        "profiles": [Profile(i + 1, i + 1, "b") for i in there],
        "lines": [line for i in there for line in two_lines(Line, i)],
        "docs": [Doc(d + 1, d % 10, tags_of(d, d // 10 % 4 == 0)) for d in range(count // 10)],
        "tags": make_tags(Tag),
    }
