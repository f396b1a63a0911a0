"""Joins by foreign keys: the classes are all that has to be said."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec
import pytest

import memdb
from memdb import F, ForeignKey


@dataclass
class Customer:
    name: str
    id: int = 0


@dataclass
class Order:
    customer_id: Annotated[int | None, ForeignKey(Customer)]
    total: int
    id: int = 0


@dataclass
class Line:
    order_id: Annotated[int, ForeignKey(Order)]
    quantity: int
    id: int = 0


@dataclass
class Tag:
    name: str
    id: int = 0


@dataclass
class Doc:
    tag_ids: Annotated[list[int], ForeignKey(Tag)]
    id: int = 0


@dataclass
class Node:
    name: str
    parent_id: Annotated[int | None, ForeignKey("Node")] = None
    id: int = 0


@dataclass
class Country:
    code: str
    name: str


@dataclass
class Person:
    name: str
    country_code: Annotated[str, ForeignKey(Country)] | None = None
    id: int = 0


class Pet(msgspec.Struct):
    name: str
    owner_id: Annotated[int, ForeignKey(Person)]
    id: int = 0


@dataclass
class Shop:
    """The collections of the tests, filled."""

    db: memdb.Database
    tables: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for cls in (Customer, Order, Line, Tag, Doc, Node, Person, Pet):
            if cls is Person:
                self.tables["Country"] = self.db.collection(Country, key="code")
            self.tables[cls.__name__] = self.db.collection(cls)
        for record in (
            *[Customer("Ann"), Customer("Bob")],
            # One without a customer, and one whose customer is not there.
            *[Order(1, 30), Order(1, 10), Order(None, 5), Order(9, 7)],
            *[Line(1, 2), Line(1, 3), Line(2, 4), Line(7, 5)],
            *[Tag("red"), Tag("green"), Tag("blue")],
            *[Doc([2, 1]), Doc([]), Doc([1, 9, 1])],
            *[Node("root"), Node("a", 1), Node("b", 1), Node("aa", 2)],
            *[Country("no", "Norway"), Country("it", "Italy")],
            *[Person("Eve", "it"), Person("Fay"), Person("Gus", "xx")],
            *[Pet("Tom", 1), Pet("Rex", 3), Pet("Kit", 1)],
        ):
            self.tables[type(record).__name__].insert(record)

    def __getitem__(self, cls: Any) -> Any:
        return self.tables[cls.__name__]


@pytest.fixture
def shop(db: memdb.Database) -> Shop:
    """The collections."""
    return Shop(db)


def names(query: Any, *paths: Any) -> list[Any]:
    """Return some values of each row."""
    return [tuple(each) for each in query.select(*paths).all()]


class TestOne:
    def test_field_that_refers(self, shop: Shop) -> None:
        """join(Customer): the key of the left says on what."""
        query = shop[Order].where().join(Customer)

        assert [(30, "Ann"), (10, "Ann"), (5, None), (7, None)] == names(
            query, F.total, F.customer.name
        )
        assert [(30, "Ann"), (10, "Ann")] == names(
            shop[Order].where().join(Customer, how="inner"), F.total, F.customer.name
        )

    def test_collections_and_queries_too(self, shop: Shop) -> None:
        """The right may be given as a class, a collection or a query."""
        for right in (Customer, shop[Customer], shop[Customer].where(), shop[Customer].query()):
            query = shop[Order].where().join(right)

            assert ["Ann", "Ann", None, None] == query.values(F.customer.name).all()

    def test_other_way_round(self, shop: Shop) -> None:
        """join(Order) from the customer: its one order, by the same key."""
        query = shop[Customer].where(name="Bob").join(Order)
        assert [("Bob", None)] == names(query, F.customer.name, F.order.total)
        shop[Order].insert(Order(2, 50))

        assert [("Bob", 50)] == names(query, F.customer.name, F.order.total)
        with pytest.raises(memdb.QueryError, match="join_many"):
            shop[Customer].where().join(Order).all()

    def test_natural_keys(self, shop: Shop) -> None:
        """A key refers by whatever the identity is, also inside of an Optional."""
        query = shop[Person].where().join(Country)

        assert [("Eve", "Italy"), ("Fay", None), ("Gus", None)] == names(
            query, F.person.name, F.country.name
        )
        assert [("Norway", 0), ("Italy", 1)] == names(
            shop[Country].where().join_many(Person), F.country.name, F["persons"].len_()
        )

    def test_structs(self, shop: Shop) -> None:
        """Classes of any kind have keys."""
        query = shop[Pet].where().join(Person).join(Country, on=F.person.country_code)

        assert [("Tom", "Eve", "Italy"), ("Rex", "Gus", None), ("Kit", "Eve", "Italy")] == names(
            query, F.pet.name, F.person.name, F.country.name
        )


class TestMany:
    def test_rights_that_refer(self, shop: Shop) -> None:
        """join_many(Order): the key of the right says by what."""
        query = shop[Customer].where().join_many(Order)

        assert [("Ann", [30, 10]), ("Bob", [])] == [
            (row.customer.name, [order.total for order in row.orders]) for row in query
        ]

    def test_lists(self, shop: Shop) -> None:
        """A list of references, and its reverse."""
        forward = shop[Doc].where().join_many(Tag)
        back = shop[Tag].where().join_many(Doc)

        assert [["green", "red"], [], ["red", "red"]] == [
            [tag.name for tag in row.tags] for row in forward
        ]
        assert [[1, 3], [1], []] == [[doc.id for doc in row.docs] for row in back]

    def test_nested(self, shop: Shop) -> None:
        """Keys all the way down."""
        query = (
            shop[Customer]
            .where()
            .join_many(Order, then=lambda q: q.order_by("total").join_many(Line))
        )

        assert [("Ann", [(10, [4]), (30, [2, 3])]), ("Bob", [])] == [
            (
                row.customer.name,
                [(each.order.total, [line.quantity for line in each.lines]) for each in row.orders],
            )
            for row in query
        ]

    def test_filtered_and_limited(self, shop: Shop) -> None:
        """Everything else can be said besides."""
        query = (
            shop[Customer]
            .where()
            .join_many(
                shop[Order].where().order_by("total").limit(1),
                where=F.total > 10,
                how="inner",
                as_="cheapest",
            )
        )

        assert [("Ann", [30])] == [
            (row.customer.name, [order.total for order in row.cheapest]) for row in query
        ]


class TestSelf:
    def test_tree(self, shop: Shop) -> None:
        """A class that refers to itself: join goes up, join_many down."""
        nodes = shop[Node].where()

        assert [("root", None), ("a", "root"), ("b", "root"), ("aa", "a")] == names(
            nodes.join(Node, as_="parent"), F.node.name, F.parent.name
        )
        assert [("root", 2), ("a", 1), ("b", 0), ("aa", 0)] == names(
            nodes.join_many(Node, as_="children"), F.node.name, F.children.len_()
        )


class TestExplicit:
    def test_on_overrides(self, shop: Shop) -> None:
        """on= and back= count where they are given."""
        query = shop[Order].where().join(Customer, on=F.id)

        assert ["Ann", "Bob", None, None] == query.values(F.customer.name).all()
        assert [[1], [2]] == [
            [order.id for order in row.orders]
            for row in shop[Customer].where().join_many(Order, back=F.id)
        ]

    def test_its_index_is_used(self, shop: Shop) -> None:
        """The key's own index is the way to the rights; no further one is suggested."""
        text = str(shop[Customer].where().join_many(Order).explain())

        assert "'customer_id'" in text
        assert "HashIndex" not in text

    def test_same_as_explicit(self, shop: Shop) -> None:
        """It is the same query as with on= and back=, counted and prepared too."""
        for one, other in (
            (
                shop[Order].where().join(Customer),
                shop[Order].where().join(Customer, on=F.customer_id),
            ),
            (
                shop[Customer].where().join_many(Order, how="inner"),
                shop[Customer].where().join_many(Order, back=F.customer_id, how="inner"),
            ),
            (shop[Doc].where().join_many(Tag), shop[Doc].where().join_many(Tag, on=F.tag_ids)),
        ):
            assert one.all() == other.all() == one.prepare()()
            assert one.count() == other.count()

    def test_chained(self, shop: Shop) -> None:
        """In a chain a key counts between the first record and the right."""
        query = shop[Order].where().join(Customer).join_many(Line)

        assert [("Ann", 2), ("Ann", 1), (None, 0), (None, 0)] == names(
            query, F.customer.name, F.lines.len_()
        )
