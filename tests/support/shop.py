"""A small shop in several collections, with rights that are missing, shared and unordered."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import memdb


@dataclass
class Country:
    name: str
    id: int = 0


@dataclass
class Customer:
    name: str
    region: str
    country_id: int | None = None
    id: int = 0


@dataclass
class Order:
    customer_id: int | None
    total: int
    sku: str = ""
    id: int = 0


@dataclass
class OrderLine:
    order_id: int
    product_id: int
    quantity: int
    id: int = 0


@dataclass
class Product:
    code: str
    name: str
    price: float
    id: int = 0


@dataclass
class Profile:
    customer_id: int
    bio: str
    id: int = 0


@dataclass
class Note:
    customer_id: int
    at: int
    pinned: bool = False
    id: int = 0


@dataclass
class Tag:
    name: str
    id: int = 0


@dataclass
class Doc:
    title: str
    tag_ids: list[int] | None = field(default_factory=list)
    id: int = 0


@dataclass
class Employee:
    name: str
    manager_id: int | None = None
    id: int = 0


RECORDS: list[Any] = [
    *[Country("Italy"), Country("Norway")],
    # Bob has no country, Dee's is not there; Cid and Dee have no orders.
    *[Customer("Ann", "EU", 1), Customer("Bob", "US"), Customer("Cid", "EU", 2)],
    Customer("Dee", "US", 9),
    # The fourth has no customer, that of the fifth is not there.
    *[Order(1, 30, "A"), Order(1, 10, "B"), Order(2, 20, "A"), Order(None, 40, "C")],
    Order(9, 50),
    *[OrderLine(1, 1, 2), OrderLine(1, 2, 1), OrderLine(2, 1, 5), OrderLine(3, 9, 1)],
    *[Product("A", "Pen", 1.5), Product("B", "Ink", 7.0)],
    *[Profile(2, "Likes ink."), Profile(1, "Likes pens.")],
    # Not in the order of their time.
    *[Note(1, 30, True), Note(1, 10), Note(3, 5, True), Note(1, 40, True), Note(1, 20, True)],
    *[Tag("red"), Tag("green"), Tag("blue")],
    # Not in the order of identities, none, one twice and one that is not there, and None.
    *[Doc("a", [2, 1]), Doc("b"), Doc("c", [1, 9, 1]), Doc("d", None)],
    *[Employee("Eva"), Employee("Fay", 1), Employee("Gus", 1), Employee("Hal", 9)],
]


@dataclass
class Shop:
    """The collections."""

    db: memdb.Database
    countries: memdb.Collection[Country]
    customers: memdb.Collection[Customer]
    orders: memdb.Collection[Order]
    lines: memdb.Collection[OrderLine]
    products: memdb.Collection[Product]
    profiles: memdb.Collection[Profile]
    notes: memdb.Collection[Note]
    tags: memdb.Collection[Tag]
    docs: memdb.Collection[Doc]
    employees: memdb.Collection[Employee]

    @property
    def collections(self) -> list[memdb.Collection[Any]]:
        """All of them."""
        return [each for each in vars(self).values() if isinstance(each, memdb.Collection)]


def open_shop(db: memdb.Database) -> Shop:
    """Return the collections as they are in a database."""
    return Shop(
        db,
        db.collection(Country),
        db.collection(Customer),
        db.collection(Order),
        db.collection(OrderLine),
        db.collection(Product),
        db.collection(Profile),
        db.collection(Note),
        db.collection(Tag),
        db.collection(Doc),
        db.collection(Employee),
    )


def make_shop(db: memdb.Database) -> Shop:
    """Return the collections, filled; all identities rise from 1."""
    shop = open_shop(db)
    for record in RECORDS:
        db.collection(type(record)).insert(record)
    return shop


INDEXES: list[tuple[str, Any]] = [
    ("customers", memdb.HashIndex("country_id")),
    ("orders", memdb.HashIndex("customer_id")),
    ("lines", memdb.SortedIndex("order_id")),
    ("lines", memdb.HashIndex("product_id")),
    ("products", memdb.HashIndex("code", unique=True)),
    ("profiles", memdb.HashIndex("customer_id", unique=True)),
    ("notes", memdb.SortedIndex("customer_id", "-at")),
    ("docs", memdb.SetIndex("tag_ids")),
    ("employees", memdb.HashIndex("manager_id")),
]


def add_indexes(shop: Shop) -> None:
    """Add an index for each of the joins that the tests make."""
    for name, index in INDEXES:
        getattr(shop, name).indexes.add(index)
