"""Joined queries that are prepared: parameters anywhere, asked again and again."""

from __future__ import annotations

from typing import Any

import pytest

import memdb
from memdb import F, P, case, count_, optional
from tests.support.concurrently import run_all
from tests.support.shop import Order, Shop, add_indexes, make_shop


@pytest.fixture(params=[False, True], ids=["plain", "indexed"])
def shop(request: pytest.FixtureRequest, db: memdb.Database) -> Shop:
    """The shop, with and without indexes."""
    shop = make_shop(db)
    if request.param:
        add_indexes(shop)
    return shop


def ids(rows: Any) -> list[Any]:
    """Return rows with identities instead of records."""
    return [_ids(row) for row in rows]


def _ids(value: Any) -> Any:
    if value is None:
        return None
    return value.id if hasattr(value, "id") else tuple(map(_ids, value))


class TestParameters:
    def test_in_the_left_condition(self, shop: Shop) -> None:
        """Of the left query."""
        prepared = (
            shop.orders.where(F.total >= P.least).join(shop.customers, on=F.customer_id).prepare()
        )

        assert [(1, 1), (4, None), (5, None)] == ids(prepared(least=30))
        assert [(5, None)] == ids(prepared(least=50))
        assert 3 == prepared.count(least=30)

    def test_in_the_right_condition(self, shop: Shop) -> None:
        """Of the right, by where= and of a query."""
        for query in (
            shop.orders.where().join(
                shop.customers, on=F.customer_id, where=F.region == P.region, how="inner"
            ),
            shop.orders.where().join(
                shop.customers.where(F.region == P.region), on=F.customer_id, how="inner"
            ),
        ):
            prepared = query.prepare()

            assert [(1, 1), (2, 1)] == ids(prepared(region="EU"))
            assert [(3, 2)] == ids(prepared(region="US"))
            assert (2, 1, 0) == tuple(prepared.count(region=each) for each in ("EU", "US", "AS"))

    def test_in_the_condition_of_rows(self, shop: Shop) -> None:
        """Behind the joins."""
        prepared = (
            shop.orders.where()
            .join(shop.customers, on=F.customer_id)
            .where(F.customer.name == P.name, F.total > P.least)
            .prepare()
        )

        assert [(1, 1), (2, 1)] == ids(prepared(name="Ann", least=0))
        assert [(1, 1)] == ids(prepared(name="Ann", least=20))
        assert 1 == prepared.count(name="Bob", least=0)

    def test_in_all_of_them(self, shop: Shop) -> None:
        """One name may stand in several places."""
        prepared = (
            shop.customers.where(F.region == P.region)
            .join_many(
                shop.notes.where(F.pinned == P.pinned).order_by("-at").limit(P.most),
                back=F.customer_id,
            )
            .where(F.notes.len_() <= P.most)
            .limit(P.rows)
            .prepare()
        )

        assert [(1, (4, 1)), (3, (3,))] == ids(prepared(region="EU", pinned=True, most=2, rows=9))
        assert [(1, (2,))] == ids(prepared(region="EU", pinned=False, most=2, rows=1))
        assert [(1, (4, 1, 5)), (3, (3,))] == ids(
            prepared(region="EU", pinned=True, most=3, rows=None)
        )
        assert 2 == prepared.count(region="EU", pinned=True, most=2, rows=9)

    def test_skip_and_limit(self, shop: Shop) -> None:
        """Of the left, of the right for each left, and of rows."""
        prepared = (
            shop.orders.where()
            .order_by("-total")
            .skip(P.left_skip)
            .limit(P.left_limit)
            .join_many(shop.lines.where().skip(P.right_skip).limit(P.right_limit), back=F.order_id)
            .skip(P.skip)
            .limit(P.limit)
            .prepare()
        )
        given: dict[str, Any] = {
            "left_skip": 0,
            "left_limit": None,
            "right_skip": 0,
            "right_limit": None,
            "skip": 0,
            "limit": None,
        }

        assert [(5, ()), (4, ()), (1, (1, 2)), (3, (4,)), (2, (3,))] == ids(prepared(**given))
        assert [(1, (2,)), (3, ())] == ids(
            prepared(**given | {"left_limit": 4, "right_skip": 1, "skip": 2, "limit": 9})
        )
        assert [(4, ())] == ids(prepared(**given | {"left_skip": 1, "limit": 1}))
        assert [(1, (1,)), (3, (4,)), (2, (3,))] == ids(
            prepared(**given | {"left_skip": 2, "right_limit": 1})
        )
        assert 3 == prepared.count(**given | {"left_limit": 4, "skip": 1})

    def test_in_the_sides_of_a_join(self, shop: Shop) -> None:
        """A value that is looked up may be calculated with a parameter."""
        prepared = (
            shop.orders.where()
            .join(shop.customers, on=F.customer_id + P.more, how="inner")
            .prepare()
        )

        assert [(1, 1), (2, 1), (3, 2)] == ids(prepared(more=0))
        assert [(1, 3), (2, 3), (3, 4)] == ids(prepared(more=2))

    def test_in_nested_joins(self, shop: Shop) -> None:
        """Inside of the right side's own joins."""
        prepared = (
            shop.orders.where(F.id == P.order)
            .join_many(
                shop.lines,
                back=F.order_id,
                then=lambda q: q.where(F.quantity >= P.least).join(
                    shop.products, on=F.product_id, where=F.price < P.price
                ),
            )
            .prepare()
        )

        assert [(1, ((1, 1), (2, None)))] == ids(prepared(order=1, least=0, price=5))
        assert [(1, ((1, 1),))] == ids(prepared(order=1, least=2, price=5))
        assert [(2, ((3, None),))] == ids(prepared(order=2, least=2, price=1))

    def test_in_order_select_and_groups(self, shop: Shop) -> None:
        """In values that rows are ordered, selected and grouped by."""
        joined = shop.orders.where().join(shop.customers, on=F.customer_id)
        ordered = joined.order_by(F.total % P.n, "total").values("total").prepare()
        grouped = joined.group_by(F.total // P.n).select(
            F.total // P.n, count_(), F.customer.id.sum_()
        )

        assert [20, 40, 10, 30, 50] == ordered(n=20)
        assert [30, 10, 40, 20, 50] == ordered(n=30)
        assert [(0, 1, 1), (1, 2, 3), (2, 2, 0)] == grouped.prepare()(n=20)
        assert [(2, 2, 0)] == grouped.having(F.customer.id.sum_() == P.sum).prepare()(n=20, sum=0)

    def test_optional_and_case(self, shop: Shop) -> None:
        """Conditions that count only with their parameter, and one of several."""
        prepared = (
            shop.orders.where(optional(P.least, F.total >= P.least))
            .join(
                shop.customers,
                on=F.customer_id,
                where=case(P.which, {"eu": F.region == "EU", "us": F.region == "US"}),
                how="inner",
            )
            .where(optional(P.name, F.customer.name == P.name))
            .prepare()
        )

        assert [(1, 1), (2, 1)] == ids(prepared(which="eu"))
        assert [(1, 1)] == ids(prepared(which="eu", least=20))
        assert [(3, 2)] == ids(prepared(which="us", name="Bob"))
        assert [] == prepared(which="us", name="Ann")
        assert [] == prepared(which="none")

    def test_missing_and_unknown(self, shop: Shop) -> None:
        """A parameter that is missing, or that the query has not, is named."""
        prepared = (
            shop.orders.where(F.total >= P.least)
            .join(shop.customers, on=F.customer_id, where=F.region == P.region)
            .where(F.customer.name == P.name)
            .limit(P.limit)
            .prepare()
        )
        given: dict[str, Any] = {"least": 0, "region": "EU", "name": "Ann", "limit": 1}
        for name in given:
            for ask in (prepared, prepared.count, prepared.explain):
                with pytest.raises(memdb.QueryError, match=rf"P\.{name}"):
                    ask(**{each: value for each, value in given.items() if each != name})
        for ask in (prepared, prepared.count):
            with pytest.raises(memdb.QueryError, match="limit"):
                ask(**given, limits=1)

        assert [(1, 1)] == ids(prepared(**given))

    def test_wrong_values(self, shop: Shop) -> None:
        """What is refused as a constant is refused as a parameter."""
        prepared = (
            shop.orders.where(F.total >= P.least)
            .join(shop.customers, on=F.customer_id)
            .where(F.customer.region < P.region)
            .limit(P.limit)
            .prepare()
        )
        given: dict[str, Any] = {"least": 0, "region": "US", "limit": 1}
        for wrong in ({"least": "a"}, {"region": 5}, {"limit": -1}, {"limit": "a"}):
            with pytest.raises(memdb.QueryError):
                prepared(**given | wrong)

        assert [(1, 1)] == ids(prepared(**given))

    @pytest.mark.parametrize(
        "ask",
        [
            lambda query: query.all(),
            lambda query: list(query),
            lambda query: query.count(),
            lambda query: query.exists(),
            lambda query: query.first(),
            lambda query: query.one(),
            lambda query: query.page(0, 1),
            lambda query: query.sum("total"),
            lambda query: query.to_dicts(),
        ],
        ids=["all", "iter", "count", "exists", "first", "one", "page", "sum", "to_dicts"],
    )
    def test_only_prepared(self, shop: Shop, ask: Any) -> None:
        """A query with parameters is asked by prepare() only, wherever they are."""
        joined = shop.orders.where().join(shop.customers, on=F.customer_id)
        for query in (
            shop.orders.where(F.total > P.x).join(shop.customers, on=F.customer_id),
            shop.orders.where().join(shop.customers, on=F.customer_id, where=F.name == P.x),
            joined.where(F.customer.name == P.x),
            joined.limit(P.x),
            joined.order_by(F.total % P.x),
        ):
            with pytest.raises(memdb.QueryError, match=r"P\.x"):
                ask(query)


class TestKept:
    def test_follows_every_change(self, shop: Shop) -> None:
        """Prepared once, it is right whatever is changed, indexes too."""
        prepared = (
            shop.orders.where(F.total >= P.least)
            .join(shop.customers, on=F.customer_id)
            .join_many(shop.lines, back=F.order_id)
            .prepare()
        )

        def found() -> Any:
            return ids(prepared(least=40))

        assert [(4, None, ()), (5, None, ())] == found()
        shop.orders.update(4, customer_id=3)
        assert [(4, 3, ()), (5, None, ())] == found()
        shop.lines.update(1, order_id=5)
        assert [(4, 3, ()), (5, None, (1,))] == found()
        shop.customers.delete(3)
        assert [(4, None, ()), (5, None, (1,))] == found()
        shop.lines.indexes.add(memdb.HashIndex("order_id", name="further"))
        shop.orders.insert(Order(1, 60))
        assert [(4, None, ()), (5, None, (1,)), (6, 1, ())] == found()
        shop.lines.indexes.drop("further")
        shop.lines.update(2, order_id=6)
        assert [(4, None, ()), (5, None, (1,)), (6, 1, (2,))] == found()
        for name in list(shop.lines.indexes):
            shop.lines.indexes.drop(name)
        assert [(4, None, ()), (5, None, (1,)), (6, 1, (2,))] == found()
        with shop.db.transaction():
            shop.customers.update(1, region="AS")
            shop.orders.delete(4)
            shop.lines.delete(1)
            assert [(5, None, ()), (6, 1, (2,))] == found()
        assert [(5, None, ()), (6, 1, (2,))] == found()
        shop.orders.clear()
        assert [] == found()

    def test_by_threads(self, shop: Shop) -> None:
        """Any thread may ask it."""
        prepared = (
            shop.orders.where(F.total >= P.least).join(shop.customers, on=F.customer_id).prepare()
        )
        expected = {10: 5, 20: 4, 30: 3, 40: 2, 50: 1, 60: 0}

        def ask() -> None:
            for _ in range(30):
                for least, count in expected.items():
                    assert count == len(prepared(least=least)) == prepared.count(least=least)

        run_all(ask, ask, ask)

    def test_without_parameters(self, shop: Shop) -> None:
        """It gives a list of rows, each time its own."""
        prepared = shop.orders.where().join(shop.customers, on=F.customer_id).prepare()

        assert prepared() == prepared()
        assert prepared() is not prepared()
        assert list is type(prepared())

    def test_selected(self, shop: Shop) -> None:
        """A query of selected values, distinct ones and groups can be prepared as well."""
        joined = shop.orders.where(F.total >= P.least).join(shop.customers, on=F.customer_id)

        assert [("Ann", 30), (None, 40), (None, 50)] == joined.select(
            F.customer.name, "total"
        ).prepare()(least=30)
        assert ["Ann", None] == joined.values(F.customer.name).distinct().prepare()(least=30)
        assert [(None, 2), ("Ann", 1)] == joined.group_by(F.customer.name).select(
            F.customer.name, count_()
        ).prepare()(least=30)
        assert 2 == joined.values(F.customer.name).distinct().prepare().count(least=30)

    def test_explained(self, shop: Shop) -> None:
        """explain() of a prepared query takes its parameters."""
        prepared = (
            shop.orders.where(F.total >= P.least).join(shop.customers, on=F.customer_id).prepare()
        )

        assert "30" in str(prepared.explain(least=30))
        assert "customer" in str(prepared.explain(least=30))

    def test_bad_query(self, shop: Shop) -> None:
        """An unknown field is refused when it is prepared."""
        joined = shop.orders.where().join(shop.customers, on=F.customer_id)
        for query in (
            joined.where(F.customer.nam == P.x),
            joined.where(F.totall == P.x),
            joined.order_by("customer.nam"),
        ):
            with pytest.raises(memdb.QueryError):
                query.prepare()
