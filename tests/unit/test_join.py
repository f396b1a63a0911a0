"""Each kind of join, as examples: what is in the slots of which row."""

from __future__ import annotations

from typing import Any

import pytest

import memdb
from memdb import F
from tests.support.shop import (
    Customer,
    Employee,
    Note,
    Order,
    OrderLine,
    Product,
    Profile,
    Shop,
    Tag,
    add_indexes,
    make_shop,
)


@pytest.fixture(params=[False, True], ids=["plain", "indexed"])
def shop(request: pytest.FixtureRequest, db: memdb.Database) -> Shop:
    """The shop, with and without indexes for its joins."""
    shop = make_shop(db)
    if request.param:
        add_indexes(shop)
    return shop


def ids(rows: Any) -> list[Any]:
    """Return rows with identities instead of records, to be compared at a glance."""
    return [_ids(row) for row in rows]


def _ids(value: Any) -> Any:
    if value is None:
        return None
    return value.id if hasattr(value, "id") else tuple(map(_ids, value))


# -- one right -------------------------------------------------------------------------------


class TestOn:
    def test_field_names_the_right(self, shop: Shop) -> None:
        """A field of the left is the identity of the right; None where there is none."""
        query = shop.orders.where().join(shop.customers, on=F.customer_id)

        assert [
            (Order(1, 30, "A", 1), Customer("Ann", "EU", 1, 1)),
            (Order(1, 10, "B", 2), Customer("Ann", "EU", 1, 1)),
            (Order(2, 20, "A", 3), Customer("Bob", "US", None, 2)),
            (Order(None, 40, "C", 4), None),
            (Order(9, 50, "", 5), None),
        ] == [tuple(row) for row in query.all()]

    def test_inner_drops_lefts_without_a_right(self, shop: Shop) -> None:
        """With how="inner" there are only rows that have the right."""
        query = shop.orders.where().join(shop.customers, on=F.customer_id, how="inner")

        assert [(1, 1), (2, 1), (3, 2)] == ids(query)

    def test_left_is_what_is_said_without_how(self, shop: Shop) -> None:
        """how="left" is the default, and can be said."""
        query = shop.orders.where().join(shop.customers, on=F.customer_id, how="left")

        assert [(1, 1), (2, 1), (3, 2), (4, None), (5, None)] == ids(query)

    def test_name_of_the_field(self, shop: Shop) -> None:
        """The field can be given by its name."""
        query = shop.orders.where().join(shop.customers, on="customer_id")

        assert [(1, 1), (2, 1), (3, 2), (4, None), (5, None)] == ids(query)

    def test_calculated_value(self, shop: Shop) -> None:
        """Any value of the left can name the right; what can't be calculated names nothing."""
        query = shop.orders.where().join(shop.customers, on=F.customer_id + 1)

        assert [(1, 2), (2, 2), (3, 3), (4, None), (5, None)] == ids(query)

    def test_left_query_is_heeded(self, shop: Shop) -> None:
        """Rows are the results of the left query in its order, with its skip and limit."""
        left = shop.orders.where(F.total >= 20).order_by("-total").skip(1).limit(3)

        assert [(4, None), (1, 1), (3, 2)] == ids(left.join(shop.customers, on=F.customer_id))
        assert [(1, 1), (3, 2)] == ids(left.join(shop.customers, on=F.customer_id, how="inner"))

    def test_after_on_the_left(self, shop: Shop) -> None:
        """A cursor belongs to the left query, before the join."""
        left = shop.orders.where().order_by("total")
        cursor = left.page(take=2).cursor

        assert [(1, 1), (4, None), (5, None)] == ids(
            left.after(cursor).join(shop.customers, on=F.customer_id)
        )

    def test_condition_of_the_right(self, shop: Shop) -> None:
        """where= says which rights count; what does not count is not there."""
        for how, expected in (
            ({}, [(1, 1), (2, 1), (3, None), (4, None), (5, None)]),
            ({"how": "inner"}, [(1, 1), (2, 1)]),
        ):
            query = shop.orders.where().join(
                shop.customers,
                on=F.customer_id,
                where=F.region == "EU",
                **how,
            )

            assert expected == ids(query)
            assert expected == ids(
                shop.orders.where().join(
                    shop.customers.where(F.region == "EU"),
                    on=F.customer_id,
                    **how,
                )
            )

    def test_condition_beside_one_of_the_right_query(self, shop: Shop) -> None:
        """Rights must match both."""
        right = shop.customers.where(F.region == "EU")
        query = shop.orders.where().join(right, on=F.customer_id, where=F.name == "Cid")

        assert [None] * 5 == [row.customer for row in query]

    def test_callable_as_condition_of_the_right(self, shop: Shop) -> None:
        """Callables say which rights count as everywhere."""
        query = shop.orders.where().join(
            shop.customers, on=F.customer_id, where=lambda customer: customer.name == "Bob"
        )

        assert [(1, None), (2, None), (3, 2), (4, None), (5, None)] == ids(query)

    def test_skip_and_limit_of_the_right(self, shop: Shop) -> None:
        """They count the rights of each left."""
        for right, expected in (
            (shop.customers.where().limit(1), [1, 1, 2, None, None]),
            (shop.customers.where().limit(0), [None] * 5),
            (shop.customers.where().skip(1), [None] * 5),
        ):
            query = shop.orders.where().join(right, on=F.customer_id)

            assert expected == [_ids(row.customer) for row in query]

    def test_self_join(self, shop: Shop) -> None:
        """A collection can be joined with itself."""
        query = shop.employees.where().join(shop.employees, on=F.manager_id, as_="manager")

        assert [
            ("Eva", None),
            ("Fay", "Eva"),
            ("Gus", "Eva"),
            ("Hal", None),
        ] == query.select(F.employee.name, F.manager.name).all()

    def test_class_stands_for_its_collection(self, shop: Shop) -> None:
        """A record class is the collection that the database has for it."""
        query = shop.orders.where().join(Customer, on=F.customer_id)

        assert [(1, 1), (2, 1), (3, 2), (4, None), (5, None)] == ids(query)

    def test_every_left_by_one_right(self, shop: Shop) -> None:
        """A constant names the same right for every left."""
        query = shop.products.where().join(shop.countries, on=F.id * 0 + 2)

        assert [(1, 2), (2, 2)] == ids(query)

    def test_no_lefts(self, shop: Shop) -> None:
        """Of nothing come no rows."""
        query = shop.orders.where(F.total > 1_000).join(shop.customers, on=F.customer_id)

        assert ([], 0, False) == (query.all(), query.count(), query.exists())

    def test_no_rights(self, shop: Shop) -> None:
        """A collection without records joins nothing, not even when it is new."""
        empty = shop.db.collection("empty")
        query = shop.orders.where().join(empty, on=F.customer_id)
        inner = shop.orders.where().join_many(empty, back=F.order_id, how="inner")

        assert [None] * 5 == [row.empty for row in query]
        assert [] == inner.all()


class TestPairs:
    def test_equal_values(self, shop: Shop) -> None:
        """A pair of values: the right's second equals the left's first."""
        query = shop.orders.where().join(shop.products, on=(F.sku, F.code))

        assert [(1, 1), (2, 2), (3, 1), (4, None), (5, None)] == ids(query)
        assert [(1, 1), (2, 2), (3, 1)] == ids(
            shop.orders.where().join(shop.products, on=("sku", "code"), how="inner")
        )

    def test_calculated_values(self, shop: Shop) -> None:
        """Both may be calculated."""
        query = shop.orders.where().join_many(
            shop.notes.where(), on=(F.total // 10, F.at // 10), as_="notes"
        )

        assert [(1, (1,)), (2, (2,)), (3, (5,)), (4, (4,)), (5, ())] == ids(query)

    def test_many(self, shop: Shop) -> None:
        """join_many gives all whose value is equal."""
        query = shop.products.where().join_many(shop.orders, on=(F.code, F.sku))

        assert [(1, (1, 3)), (2, (2,))] == ids(query)

    def test_identity_as_one_of_them(self, shop: Shop) -> None:
        """The identity is a field as any other."""
        assert [(1, 1), (2, 1), (3, 2), (4, None), (5, None)] == ids(
            shop.orders.where().join(shop.customers, on=(F.customer_id, F.id))
        )
        assert [(1, 2), (2, 1), (3, None), (4, None)] == ids(
            shop.customers.where().join(shop.profiles, on=(F.id, F.customer_id))
        )

    def test_values_are_compared_as_in_conditions(self, db: memdb.Database) -> None:
        """True, 1 and 1.0 are equal; None, NaN and what is absent equal nothing."""
        lefts, rights = db.collection("left"), db.collection("right")
        values = [True, 1.0, None, float("nan"), "a", [1], {"b": 1}]
        lefts.insert_many([*({"v": value} for value in values), {}])
        rights.insert_many([*({"w": value} for value in [1, *values]), {}])
        query = lefts.where().join_many(rights, on=(F.v, F.w), as_="found")

        assert [
            (1, (1, 2, 3)),
            (2, (1, 2, 3)),
            (3, ()),
            (4, ()),
            (5, (6,)),
            (6, (7,)),
            (7, (8,)),
            (8, ()),
        ] == [(row.left["id"], tuple(each["id"] for each in row.found)) for row in query]


class TestBack:
    def test_field_of_the_right_names_the_left(self, shop: Shop) -> None:
        """A field of the right is the identity of the left."""
        query = shop.customers.where().join(shop.profiles, back=F.customer_id)

        assert [
            (Customer("Ann", "EU", 1, 1), Profile(1, "Likes pens.", 2)),
            (Customer("Bob", "US", None, 2), Profile(2, "Likes ink.", 1)),
            (Customer("Cid", "EU", 2, 3), None),
            (Customer("Dee", "US", 9, 4), None),
        ] == [tuple(row) for row in query.all()]
        assert [(1, 2), (2, 1)] == ids(
            shop.customers.where().join(shop.profiles, back="customer_id", how="inner")
        )

    def test_calculated_value(self, shop: Shop) -> None:
        """The value may be calculated."""
        query = shop.customers.where().join(shop.profiles, back=F.customer_id + 2)

        assert [(1, None), (2, None), (3, 2), (4, 1)] == ids(query)

    def test_more_than_one_right(self, shop: Shop) -> None:
        """Where one right is expected, several are refused, and what to write is said."""
        query = shop.customers.where().join(shop.orders, back=F.customer_id)
        with pytest.raises(memdb.QueryError) as caught:
            query.all()

        message = str(caught.value)
        assert "1" in message
        assert "join_many" in message
        assert "limit(1)" in message

    def test_one_of_several_rights(self, shop: Shop) -> None:
        """limit(1) on the right takes the first of them, in its order."""
        for right, expected in (
            (shop.orders.where().limit(1), [1, 3, None, None]),
            (shop.orders.where().order_by("total").limit(1), [2, 3, None, None]),
            (shop.orders.where().order_by("total").skip(1).limit(1), [1, None, None, None]),
        ):
            query = shop.customers.where().join(right, back=F.customer_id)

            assert expected == [_ids(row.order) for row in query]


# -- many rights -----------------------------------------------------------------------------


class TestMany:
    def test_rights_that_name_the_left(self, shop: Shop) -> None:
        """A tuple of rights for each left, in their default order; an empty one for none."""
        query = shop.orders.where().join_many(shop.lines, back=F.order_id)
        rows = query.all()

        assert (
            Order(1, 30, "A", 1),
            (OrderLine(1, 1, 2, 1), OrderLine(1, 2, 1, 2)),
        ) == tuple(rows[0])
        assert [(1, (1, 2)), (2, (3,)), (3, (4,)), (4, ()), (5, ())] == ids(rows)
        assert all(type(row.order_lines) is tuple for row in rows)

    def test_inner_drops_empty_ones(self, shop: Shop) -> None:
        """With how="inner" there are only rows with a right."""
        query = shop.orders.where().join_many(shop.lines, back=F.order_id, how="inner")

        assert [(1, (1, 2)), (2, (3,)), (3, (4,))] == ids(query)

    def test_filtered(self, shop: Shop) -> None:
        """where= filters the rights, and inner counts those that are left."""
        for how, expected in (
            ({}, [(1, (1,)), (2, (3,)), (3, ()), (4, ()), (5, ())]),
            ({"how": "inner"}, [(1, (1,)), (2, (3,))]),
        ):
            query = shop.orders.where().join_many(
                shop.lines,
                back=F.order_id,
                where=F.quantity > 1,
                **how,
            )

            assert expected == ids(query)

    def test_latest_three(self, shop: Shop) -> None:
        """A right query is filtered, ordered and limited for each left."""
        notes = shop.notes.where(F.pinned == True).order_by("-at")  # noqa: E712
        for right, expected in (
            (notes, [(1, (4, 1, 5)), (2, ()), (3, (3,)), (4, ())]),
            (notes.limit(2), [(1, (4, 1)), (2, ()), (3, (3,)), (4, ())]),
            (notes.skip(1).limit(1), [(1, (1,)), (2, ()), (3, ()), (4, ())]),
            (notes.limit(0), [(1, ()), (2, ()), (3, ()), (4, ())]),
        ):
            query = shop.customers.where().join_many(right, back=F.customer_id)

            assert expected == ids(query)

    def test_limit_counts_what_matches_the_condition(self, shop: Shop) -> None:
        """where= beside a limited right is one of its conditions, before the limit."""
        right = shop.notes.where().order_by("-at").limit(1)
        query = shop.customers.where().join_many(
            right, back=F.customer_id, where=F.at < 30, how="inner"
        )

        assert [(1, (5,)), (3, (3,))] == ids(query)

    def test_self_join(self, shop: Shop) -> None:
        """The same collection, the other way round."""
        query = shop.employees.where().join_many(
            shop.employees, back=F.manager_id, as_="reports", how="inner"
        )

        assert [(1, (2, 3))] == ids(query)


class TestLists:
    def test_through_a_list_of_identities(self, shop: Shop) -> None:
        """The rights that the list names: in its order, twice where named twice, None left out."""
        query = shop.docs.where().join_many(shop.tags, on=F.tag_ids)

        assert [(1, (2, 1)), (2, ()), (3, (1, 1)), (4, ())] == ids(query)
        assert [(1, (2, 1)), (3, (1, 1))] == ids(
            shop.docs.where().join_many(shop.tags, on="tag_ids", how="inner")
        )

    def test_order_of_the_right_query(self, shop: Shop) -> None:
        """If the right query has an order, the rights are in that."""
        for right, expected in (
            (shop.tags.where().order_by("name"), [(2, 1), (), (1, 1), ()]),
            (shop.tags.where().order_by("-name"), [(1, 2), (), (1, 1), ()]),
            (shop.tags.where().limit(1), [(2,), (), (1,), ()]),
            (shop.tags.where().order_by("-name").limit(1), [(1,), (), (1,), ()]),
            (shop.tags.where().skip(1), [(1,), (), (1,), ()]),
            (shop.tags.where(F.name != "red"), [(2,), (), (), ()]),
        ):
            query = shop.docs.where().join_many(right, on=F.tag_ids)

            assert expected == [_ids(row.tags) for row in query]

    def test_reverse(self, shop: Shop) -> None:
        """Rights whose list names the left; each once."""
        query = shop.tags.where().join_many(shop.docs, back=F.tag_ids)

        assert [(1, (1, 3)), (2, (1,)), (3, ())] == ids(query)
        assert [(2, 1)] == ids(
            shop.tags.where(name="green").join(shop.docs, back=F.tag_ids, how="inner")
        )

    @pytest.mark.parametrize("kind", [list, tuple, set, frozenset])
    def test_kinds_of_collections(self, db: memdb.Database, kind: Any) -> None:
        """Lists, tuples, sets and frozensets; those without an order are in the right's."""
        tags, docs = db.collection(Tag), db.collection("docs")
        tags.insert_many([Tag("red"), Tag("green"), Tag("blue")])
        docs.insert_many([{"tags": kind([3, 1])}, {"tags": kind()}, {"tags": kind([2])}])
        there = docs.where().join_many(tags, on=F.tags, as_="found")
        has_order = kind in (list, tuple)

        assert [((3, 1) if has_order else (1, 3)), (), (2,)] == [_ids(row.found) for row in there]

    def test_element_that_is_no_identity(self, db: memdb.Database) -> None:
        """What names nothing is left out, whatever it is."""
        tags, docs = db.collection(Tag), db.collection("docs")
        tags.insert(Tag("red"))
        docs.insert_many([{"tags": [True, 1.0, "1", None, [1], 2, 1]}, {"tags": 1}, {"tags": "1"}])
        query = docs.where().join_many(tags, on=F.tags, as_="found")

        assert [(1,), (), ()] == [_ids(row.found) for row in query]

    def test_unannotated_values_that_name_the_left(self, db: memdb.Database) -> None:
        """In plain dicts the value is the identity, or a list or set that holds it."""
        tags, docs = db.collection(Tag), db.collection("docs")
        tags.insert_many([Tag("red"), Tag("green")])
        docs.insert_many([{"t": 1}, {"t": [2, 1, 1]}, {"t": {2}}, {"t": True}, {"t": None}, {}])
        docs.insert_many([{"t": "1"}, {"t": [[1]]}, {"t": {1: 2}}])
        query = tags.where().join_many(docs, back=F.t, as_="found")

        assert [[1, 2], [2, 3]] == [[doc["id"] for doc in row.found] for row in query]


# -- several joins ---------------------------------------------------------------------------


class TestChained:
    def test_two_rights_of_the_left(self, shop: Shop) -> None:
        """Each join adds a slot."""
        query = (
            shop.orders.where()
            .join(shop.customers, on=F.customer_id)
            .join_many(shop.lines, back=F.order_id)
        )

        assert [
            (1, 1, (1, 2)),
            (2, 1, (3,)),
            (3, 2, (4,)),
            (4, None, ()),
            (5, None, ()),
        ] == ids(query)

    def test_from_a_slot(self, shop: Shop) -> None:
        """A path that begins with a slot starts there; what is None leads nowhere."""
        query = (
            shop.orders.where()
            .join(shop.customers, on=F.customer_id)
            .join(shop.countries, on=F.customer.country_id)
        )

        assert [
            (1, 1, 1),
            (2, 1, 1),
            (3, 2, None),
            (4, None, None),
            (5, None, None),
        ] == ids(query)

    def test_by_a_pair_from_a_slot(self, shop: Shop) -> None:
        """The left value of a pair may start from a slot, too."""
        query = (
            shop.lines.where()
            .join(shop.products, on=F.product_id)
            .join_many(shop.orders, on=(F.product.code, F.sku))
        )

        assert [(1, 1, (1, 3)), (2, 2, (2,)), (3, 1, (1, 3)), (4, None, ())] == ids(query)

    def test_through_a_list_in_a_slot(self, shop: Shop) -> None:
        """So may the list of identities."""
        query = (
            shop.tags.where(name="green")
            .join(shop.docs, back=F.tag_ids)
            .join_many(shop.tags.where(), on=F.doc.tag_ids, as_="all_tags")
        )

        assert [(2, 1, (2, 1))] == ids(query)

    def test_first_slot_can_be_named(self, shop: Shop) -> None:
        """A path through the first slot is one of the left record."""
        query = shop.orders.where().join(shop.customers, on=F.order.customer_id)

        assert [(1, 1), (2, 1), (3, 2), (4, None), (5, None)] == ids(query)

    def test_back_is_of_the_first_slot(self, shop: Shop) -> None:
        """back= means the identity of the left, also in a chain."""
        query = (
            shop.customers.where()
            .join(shop.countries, on=F.country_id)
            .join_many(shop.orders, back=F.customer_id)
        )

        assert [(1, 1, (1, 2)), (2, None, (3,)), (3, 2, ()), (4, None, ())] == ids(query)

    def test_inner_drops_for_all_later_ones(self, shop: Shop) -> None:
        """Each inner join drops rows, wherever it stands."""
        query = (
            shop.orders.where()
            .join(shop.customers, on=F.customer_id)
            .join(shop.countries, on=F.customer.country_id, how="inner")
            .join_many(shop.lines, back=F.order_id)
        )

        assert [(1, 1, 1, (1, 2)), (2, 1, 1, (3,))] == ids(query)

    def test_same_collection_twice(self, shop: Shop) -> None:
        """The same right under two names."""
        query = (
            shop.orders.where(F.id == 1)
            .join(shop.customers, on=F.customer_id, as_="buyer")
            .join(shop.customers, on=F.customer_id + 1, as_="next_buyer")
        )

        assert [("Ann", "Bob")] == query.select(F.buyer.name, F.next_buyer.name).all()

    def test_without_a_limit(self, shop: Shop) -> None:
        """Ten joins in a chain; the ninth manages the fourth, who manages the fifth, and so on."""
        for number in range(5, 12):
            shop.employees.insert(Employee(f"E{number}", number - 1))
        query = shop.employees.where(F.id == 11).join(shop.employees, on=F.manager_id, as_="m1")
        for level in range(2, 11):
            query = query.join(shop.employees, on=F[f"m{level - 1}"].manager_id, as_=f"m{level}")

        assert [(11, 10, 9, 8, 7, 6, 5, 4, 9, 8, 7)] == ids(query)
        assert 11 == len(query.one())

    def test_condition_between_joins(self, shop: Shop) -> None:
        """A condition of rows is one of all of them, wherever it was said."""
        query = (
            shop.orders.where()
            .join(shop.customers, on=F.customer_id)
            .where(F.customer.region == "EU")
            .join_many(shop.lines, back=F.order_id)
        )

        assert [(1, 1, (1, 2)), (2, 1, (3,))] == ids(query)

    def test_queries_do_not_change(self, shop: Shop) -> None:
        """Every method gives another query, so that each can be kept."""
        left = shop.orders.where()
        one = left.join(shop.customers, on=F.customer_id)
        two = one.join_many(shop.lines, back=F.order_id)
        three = one.where(F.customer.region == "US").order_by("-total").skip(1).limit(1)

        assert [(1, 1), (2, 1), (3, 2), (4, None), (5, None)] == ids(one)
        assert [1, 2, 3, 4, 5] == [order.id for order in left]
        assert (1, 1, (1, 2)) == ids(two)[0]
        assert [] == three.all()


class TestNested:
    def test_then(self, shop: Shop) -> None:
        """then= joins something to each right: the slot has rows."""
        query = shop.orders.where().join_many(
            shop.lines, back=F.order_id, then=lambda q: q.join(shop.products, on=F.product_id)
        )
        rows = query.all()

        assert [
            (1, ((1, 1), (2, 2))),
            (2, ((3, 1),)),
            (3, ((4, None),)),
            (4, ()),
            (5, ()),
        ] == ids(rows)
        assert ["Pen", "Ink"] == [inner.product.name for inner in rows[0].order_lines]
        assert [2, 1] == [inner.order_line.quantity for inner in rows[0].order_lines]

    def test_joined_query_as_right(self, shop: Shop) -> None:
        """The same is said by a joined query; its first slot is what is joined."""
        right = shop.lines.where(F.quantity > 1).join(shop.products, on=F.product_id)
        query = shop.orders.where().join_many(right, back=F.order_id)

        assert [(1, ((1, 1),)), (2, ((3, 1),)), (3, ()), (4, ()), (5, ())] == ids(query)

    def test_inner_inside(self, shop: Shop) -> None:
        """An inner join inside drops rights, and one outside the lefts that then have none."""
        right = shop.lines.where().join(shop.products, on=F.product_id, how="inner")
        for how, expected in (
            ({}, [(1, ((1, 1), (2, 2))), (2, ((3, 1),)), (3, ()), (4, ()), (5, ())]),
            ({"how": "inner"}, [(1, ((1, 1), (2, 2))), (2, ((3, 1),))]),
        ):
            query = shop.orders.where().join_many(
                right,
                back=F.order_id,
                **how,
            )

            assert expected == ids(query)
            assert len(expected) == query.count()

    def test_conditions_and_order_inside(self, shop: Shop) -> None:
        """What a joined right says of its rows counts for each left."""
        right = shop.lines.where().join(shop.products, on=F.product_id)
        for changed, expected in (
            (right.where(F.product.price > 2), [((2, 2),), (), (), (), ()]),
            (right.order_by("-product.price"), [((2, 2), (1, 1)), ((3, 1),), ((4, None),), (), ()]),
            (
                right.order_by("-product.price").limit(1),
                [((2, 2),), ((3, 1),), ((4, None),), (), ()],
            ),
            (right.skip(1), [((2, 2),), (), (), (), ()]),
        ):
            query = shop.orders.where().join_many(changed, back=F.order_id)

            assert expected == [_ids(row.order_lines) for row in query]

    def test_limit_of_the_inner_left(self, shop: Shop) -> None:
        """A limit before the inner join is for each left as well."""
        query = shop.orders.where().join_many(
            shop.lines.where().order_by("-id").limit(1),
            back=F.order_id,
            then=lambda q: q.join(shop.products, on=F.product_id),
        )

        assert [((2, 2),), ((3, 1),), ((4, None),), (), ()] == [
            _ids(row.order_lines) for row in query
        ]

    def test_one_right_with_more_behind_it(self, shop: Shop) -> None:
        """join with then=: the slot has a row, or None."""
        query = shop.orders.where().join(
            shop.customers,
            on=F.customer_id,
            then=lambda q: q.join(shop.countries, on=F.country_id),
        )

        assert [(1, (1, 1)), (2, (1, 1)), (3, (2, None)), (4, None), (5, None)] == ids(query)
        assert ["Italy", "Italy", None, None, None] == query.values(F.customer.country.name).all()

    def test_three_levels(self, shop: Shop) -> None:
        """Inside of what is joined inside."""
        query = shop.countries.where().join_many(
            shop.customers,
            back=F.country_id,
            then=lambda q: q.join_many(
                shop.orders,
                back=F.customer_id,
                then=lambda q: q.join_many(
                    shop.lines.where().order_by("-quantity"), back=F.order_id
                ),
            ),
        )

        assert [
            (1, ((1, ((1, (1, 2)), (2, (3,)))),)),
            (2, ((3, ()),)),
        ] == ids(query)
        assert ((1, ((1, ((1, (1, 2)), (2, (3,)))),)),) == tuple(ids(query.limit(1)))

    def test_through_a_list(self, shop: Shop) -> None:
        """Rows in the order of a list of identities, twice where named twice."""
        query = shop.docs.where().join_many(
            shop.tags,
            on=F.tag_ids,
            then=lambda q: q.join_many(shop.docs, back=F.tag_ids, as_="others"),
        )

        assert [
            (1, ((2, (1,)), (1, (1, 3)))),
            (2, ()),
            (3, ((1, (1, 3)), (1, (1, 3)))),
            (4, ()),
        ] == ids(query)

    def test_several_where_one_is_expected(self, shop: Shop) -> None:
        """Inside, too, several rights where one is expected are refused."""
        query = shop.countries.where().join_many(
            shop.customers,
            back=F.country_id,
            then=lambda q: q.join(shop.orders, back=F.customer_id),
        )
        with pytest.raises(memdb.QueryError, match="join_many"):
            query.all()

    def test_then_that_joins_nothing(self, shop: Shop) -> None:
        """then= may also only refine the query: the slot has records then."""
        query = shop.orders.where().join_many(
            shop.lines, back=F.order_id, then=lambda q: q.where(F.quantity > 1).order_by("-id")
        )

        assert [(1, (1,)), (2, (3,)), (3, ()), (4, ()), (5, ())] == ids(query)


# -- names of slots --------------------------------------------------------------------------


class TestSlots:
    @pytest.mark.parametrize(
        ("name", "one", "many"),
        [
            ("Customer", "customer", "customers"),
            ("OrderLine", "order_line", "order_lines"),
            ("Box", "box", "boxes"),
            ("Category", "category", "categories"),
            ("Day", "day", "days"),
            ("Branch", "branch", "branches"),
            ("Dish", "dish", "dishes"),
            ("notes", "notes", "notes"),
            ("audit_log", "audit_log", "audit_logs"),
        ],
    )
    def test_default_names(self, db: memdb.Database, name: str, one: str, many: str) -> None:
        """The name of the collection in snake case, of many in the plural."""
        left, right = db.collection("Left"), db.collection(name)
        left.insert({"n": 1})

        assert None is getattr(left.where().join(right, on=F.n).one(), one)
        assert () == getattr(left.where().join_many(right, back=F.n).one(), many)

    def test_first_slot(self, shop: Shop) -> None:
        """The left has the name of its collection."""
        row = shop.lines.where().join(shop.products, on=F.product_id).first()

        assert row is not None
        assert OrderLine(1, 1, 2, 1) == row.order_line == row[0]
        assert Product("A", "Pen", 1.5, 1) == row.product == row[1]

    def test_as(self, shop: Shop) -> None:
        """as_= chooses the name, of one and of many."""
        query = (
            shop.orders.where(F.id == 1)
            .join(shop.customers, on=F.customer_id, as_="buyer")
            .join_many(shop.lines, back=F.order_id, as_="what")
        )
        row = query.one()

        assert Customer("Ann", "EU", 1, 1) == row.buyer
        assert [1, 2] == [line.id for line in row.what]
        assert [("Ann", 2)] == query.select(F.buyer.name, F.what.len_()).all()
        assert not hasattr(row, "customer")

    def test_name_of_the_collection(self, db: memdb.Database) -> None:
        """It is the collection's name that counts, not that of the class."""
        pinned, loose = db.collection(Note, name="Pinned"), db.collection(Note, name="Loose")
        pinned.insert(Note(1, 5))
        loose.insert(Note(7, 6))
        row = pinned.where().join(loose, on=F.customer_id).one()

        assert (Note(1, 5, id=1), Note(7, 6, id=1)) == (row.pinned, row.loose)

    def test_name_that_is_a_method(self, shop: Shop) -> None:
        """A slot may be called as a method of rows or queries; by name it is asked with []."""
        query = shop.orders.where(F.id == 1).join(shop.customers, on=F.customer_id, as_="count")

        assert ["Ann"] == query.values(F["count"].name).all()
        assert Customer("Ann", "EU", 1, 1) == query.one()[1]
