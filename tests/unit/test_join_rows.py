"""The rows of a joined query: their slots, and whose the records in them are."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

import memdb
from memdb import F, P
from tests.support.shop import Customer, Order, OrderLine, Shop, make_shop


@pytest.fixture
def shop(db: memdb.Database) -> Shop:
    """The shop."""
    return make_shop(db)


@pytest.fixture
def query(shop: Shop) -> Any:
    """Orders with their customers and lines."""
    return (
        shop.orders.where()
        .join(shop.customers, on=F.customer_id)
        .join_many(shop.lines, back=F.order_id)
    )


ANN = Customer("Ann", "EU", 1, 1)
FIRST = (Order(1, 30, "A", 1), ANN, (OrderLine(1, 1, 2, 1), OrderLine(1, 2, 1, 2)))


class TestShape:
    def test_slots_by_name(self, query: Any) -> None:
        """Each slot is an attribute."""
        row = query.first()

        assert FIRST == (row.order, row.customer, row.order_lines)

    def test_unpacking(self, query: Any) -> None:
        """A row unpacks into its slots, in the sequence of the joins."""
        assert [(1, "Ann", 2), (2, "Ann", 1), (3, "Bob", 1), (4, None, 0), (5, None, 0)] == [
            (order.id, customer and customer.name, len(lines)) for order, customer, lines in query
        ]

    def test_length_and_indexing(self, query: Any) -> None:
        """As in a tuple: places from either end, and slices."""
        row = query.first()

        assert 3 == len(row)
        assert FIRST == (row[0], row[1], row[2]) == (row[-3], row[-2], row[-1]) == tuple(row)
        assert FIRST[1:] == tuple(row[1:])
        for place in (3, -4):
            with pytest.raises(IndexError):
                row[place]

    def test_equality(self, query: Any) -> None:
        """Rows are equal when their slots are."""
        first, again = query.all(), query.all()

        assert first == again
        assert first[0] == again[0]
        assert first[0] != first[1]
        assert first[0] != again[1]
        again[0].customer.name = "Eve"
        assert first[0] != again[0]

    def test_rows_of_other_slots_are_different(self, shop: Shop) -> None:
        """A row with the same records in slots of other names is another one."""
        query = shop.orders.where(F.id == 1)
        one = query.join(shop.customers, on=F.customer_id).one()
        other = query.join(shop.customers, on=F.customer_id, as_="buyer").one()

        assert one != other
        assert tuple(one) == tuple(other)

    def test_repr(self, query: Any) -> None:
        """A row shows its slots by name, so that a failing test can be read."""
        text = repr(query.first())

        assert f"order={FIRST[0]!r}" in text
        assert f"customer={FIRST[1]!r}" in text
        assert f"order_lines={FIRST[2]!r}" in text

    def test_immutable(self, query: Any) -> None:
        """Nothing can be set, deleted or added."""
        row = query.first()
        with pytest.raises(AttributeError):
            row.customer = None
        with pytest.raises(AttributeError):
            row.anything = None
        with pytest.raises(AttributeError):
            del row.customer
        with pytest.raises(TypeError):
            row[0] = None
        with pytest.raises(AttributeError):
            row.nothing  # noqa: B018

        assert FIRST == tuple(row)

    def test_copies(self, query: Any) -> None:
        """Rows can be copied and pickled, and are equal to what they were."""
        row = query.first()
        deep = copy.deepcopy(row)

        assert copy.copy(row) == row == deep == pickle.loads(pickle.dumps(row))
        assert copy.copy(row).customer is row.customer
        assert deep.customer is not row.customer
        assert repr(row) == repr(pickle.loads(pickle.dumps(row)))

    def test_nested_rows_are_copied_too(self, shop: Shop) -> None:
        """So can rows with rows in them."""
        row = (
            shop.orders.where()
            .join_many(
                shop.lines, back=F.order_id, then=lambda q: q.join(shop.products, on=F.product_id)
            )
            .first()
        )

        assert row == pickle.loads(pickle.dumps(row)) == copy.deepcopy(row)
        assert "Pen" == pickle.loads(pickle.dumps(row)).order_lines[0].product.name

    def test_hash(self, db: memdb.Database) -> None:
        """Rows of hashable records are hashable: they can be kept in sets."""
        one, other = db.collection(Frozen, name="one"), db.collection(Frozen, name="other")
        one.insert_many([Frozen(1), Frozen(1)])
        other.insert(Frozen(5))
        query = one.where().join(other, on=F.ref)

        assert 2 == len({*query.all(), *query.all()})

    def test_matching(self, query: Any) -> None:
        """Slots can be taken apart by name in a match statement."""
        match query.first():
            case object(order=Order(total=total), customer=Customer(name=name)):
                found = total, name

        assert (30, "Ann") == found


@dataclass(frozen=True)
class Frozen:
    ref: int
    id: int = 0


class Shared(msgspec.Struct, frozen=True):
    ref: int
    id: int = 0


class TestOwnership:
    def test_changing_a_result_changes_nothing(self, shop: Shop, query: Any) -> None:
        """Lefts and rights are the receiver's own."""
        before = query.all()
        for row in query:
            row.order.total = -1
            if row.customer is not None:
                row.customer.name = "changed"
            for line in row.order_lines:
                line.quantity = -1

        assert before == query.all()
        assert "Ann" == shop.customers[1].name
        assert [2, 1, 5, 1] == [line.quantity for line in shop.lines]

    def test_one_right_is_one_copy_in_a_result(self, query: Any) -> None:
        """Rows that share a right share its copy; another result has its own."""
        rows, others = query.all(), query.all()

        assert rows[0].customer is rows[1].customer
        assert rows[0].customer is not others[0].customer
        assert rows[0].order_lines[0] is not others[0].order_lines[0]

    def test_one_copy_in_iterating_and_pages(self, shop: Shop) -> None:
        """However the result is asked for."""
        query = shop.orders.where().join(shop.customers, on=F.customer_id, how="inner")
        for rows in (
            list(query),
            query.page(0, 2).items,
            query.limit(2).all(),
            query.prepare()(),
            query.order_by("customer.name").all()[:2],
            query.where(F.customer.name == "Ann").all(),
        ):
            assert rows[0].customer is rows[1].customer

    def test_one_copy_in_many(self, shop: Shop) -> None:
        """A right that is in several tuples, or twice in one, is one copy."""
        rows = shop.docs.where().join_many(shop.tags, on=F.tag_ids).all()

        assert rows[0].tags[1] is rows[2].tags[0] is rows[2].tags[1]

    def test_one_copy_in_nested_rows(self, shop: Shop) -> None:
        """Inside of nested rows, too."""
        rows = (
            shop.orders.where()
            .join_many(
                shop.lines,
                back=F.order_id,
                then=lambda q: q.join(shop.products, on=F.product_id),
            )
            .all()
        )

        assert rows[0].order_lines[0].product is rows[1].order_lines[0].product

    def test_copies_in_a_transaction(self, shop: Shop, query: Any) -> None:
        """Inside a transaction nothing else is given out."""
        with shop.db.transaction():
            shop.customers.update(1, name="Anna")
            rows = query.all()
            rows[0].customer.name = "changed"
            rows[0].order.total = -1

            assert rows[0].customer is rows[1].customer
            assert "Anna" == shop.customers[1].name
            assert ("Anna", 30) == query.select(F.customer.name, F.order.total).first()

    @pytest.mark.parametrize("cls", [Frozen, Shared])
    def test_immutable_records_are_shared(self, db: memdb.Database, cls: Any) -> None:
        """What can't be changed is not copied at all."""
        lefts, rights = db.collection(cls, name="left"), db.collection(cls, name="right")
        lefts.insert_many([cls(1), cls(1), cls(2)])
        rights.insert_many([cls(1), cls(1)])
        one = lefts.where().join(rights, on=F.left.ref)
        many = lefts.where().join_many(rights, back=F.ref)
        lefts.where().all(), rights.where().all()
        rows, others = one.all(), one.all()

        assert rows[0].left is others[0].left is lefts[1]
        assert rows[0].right is rows[1].right is others[0].right is rights[1]
        assert many.first().rights[0] is rights[1]

    @pytest.mark.parametrize("cache", ["all", "none", 1])
    def test_callables_get_copies(self, cache: Any) -> None:
        """Functions in conditions are given what they may break."""
        with memdb.open(None, cache=cache) as db:
            shop = make_shop(db)

            def spoil(record: Any) -> bool:
                record.name = "spoiled"
                return True

            def spoil_row(row: Any) -> bool:
                row.order.total = -1
                if row.customer is not None:
                    row.customer.name = "spoiled"
                return True

            query = (
                shop.orders.where()
                .join(shop.customers, on=F.customer_id, where=spoil)
                .where(spoil_row)
            )

            assert 5 == len(query.all()) == query.count()
            assert 30 == query.first().order.total
            assert ["Ann", "Bob", "Cid", "Dee"] == [each.name for each in shop.customers]
            assert ["Ann", "Ann", "Bob", None, None] == query.values(F.customer.name).all()

    def test_dicts(self, db: memdb.Database) -> None:
        """Plain dicts are copies in each result, one for a right."""
        lefts, rights = db.collection("left"), db.collection("right")
        lefts.insert_many([{"ref": 1}, {"ref": 1}])
        rights.insert({"tags": ["a"]})
        query = lefts.where().join(rights, on=F.ref)
        rows = query.all()
        rows[0].right["tags"].append("b")

        assert rows[0].right is rows[1].right
        assert [{"tags": ["a"], "id": 1}] * 2 == [row.right for row in query]

    def test_parameters_are_not_kept(self, shop: Shop) -> None:
        """The result of a prepared query is the caller's, each time."""
        prepared = (
            shop.orders.where(F.total == P.total).join(shop.customers, on=F.customer_id).prepare()
        )
        prepared(total=30)[0].customer.name = "changed"

        assert "Ann" == prepared(total=30)[0].customer.name


class TestCopies:
    """How many records are copied: each that is given out, once, and no others."""

    @pytest.fixture
    def copied(self) -> list[Any]:
        """All that has been copied."""
        return []

    @pytest.fixture
    def joined(self, copied: list[Any]) -> Iterator[Any]:
        """Five orders with their two customers."""

        def clone(record: Any) -> Any:
            copied.append(record)
            return copy.deepcopy(record)

        with memdb.open(None, cloner=clone) as db:
            shop = make_shop(db)
            query = shop.orders.where().join(shop.customers, on=F.customer_id)
            query.all()
            copied.clear()
            yield query

    @pytest.mark.parametrize(
        ("ask", "count"),
        [
            # Five orders, and two customers once each.
            (lambda query: query.all(), 7),
            (lambda query: query.prepare()(), 7),
            (lambda query: list(query), 7),
            (lambda query: query.first(), 2),
            (lambda query: query.limit(2).all(), 3),
            (lambda query: query.page(0, 2), 3),
            (lambda query: query.order_by("customer.name").limit(1).all(), 1),
            (lambda query: query.where(F.customer.name == "Bob").all(), 2),
            (lambda query: query.count(), 0),
            (lambda query: query.exists(), 0),
            (lambda query: query.prepare().count(), 0),
            (lambda query: query.where(F.customer.name == "Bob").count(), 0),
            (lambda query: query.page(0, 0), 0),
            (lambda query: query.select(F.customer.name, F.total).all(), 0),
            (lambda query: query.sum("total"), 0),
            (lambda query: query.group_by(F.customer.name).select(F.customer.name).all(), 0),
        ],
    )
    def test_ways_of_asking(self, joined: Any, copied: list[Any], ask: Any, count: int) -> None:
        """Counting, sums and values copy nothing; a page what is on it."""
        ask(joined)

        assert count == len(copied)

    def test_rights_behind_the_page(self) -> None:
        """The rights of rows that are not on the page are not even looked at."""
        looked_at: list[int] = []

        def look(customer: Any) -> bool:
            looked_at.append(customer.id)
            return True

        with memdb.open(None) as db:
            shop = make_shop(db)
            query = shop.orders.where().join(shop.customers, on=F.customer_id, where=look)
            query.order_by("-total").skip(2).limit(1).all()
            assert [1] == looked_at
            looked_at.clear()
            query.count()
            assert [] == looked_at
