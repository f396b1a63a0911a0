"""Joined queries: order, skip, limit and pages, and the twins that count."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import memdb
from memdb import F
from tests.support.shop import Shop, add_indexes, make_shop


@pytest.fixture(params=[False, True], ids=["plain", "indexed"])
def shop(request: pytest.FixtureRequest, db: memdb.Database) -> Shop:
    """The shop, with and without indexes."""
    shop = make_shop(db)
    if request.param:
        add_indexes(shop)
    return shop


@pytest.fixture
def query(shop: Shop) -> Any:
    """Orders with their customers and lines."""
    return (
        shop.orders.where()
        .join(shop.customers, on=F.customer_id)
        .join_many(shop.lines, back=F.order_id)
    )


def ids(query: Any) -> list[int]:
    """Return the identity of the order in each row."""
    return [row.order.id for row in query.all()]


class TestOrder:
    @pytest.mark.parametrize(
        ("terms", "expected"),
        [
            ((), [1, 2, 3, 4, 5]),
            (("total",), [2, 3, 1, 4, 5]),
            (("-total",), [5, 4, 1, 3, 2]),
            ((F.order.total,), [2, 3, 1, 4, 5]),
            # Without a customer it is absent: first, or last when falling.
            (("customer.name",), [4, 5, 1, 2, 3]),
            (("-customer.name",), [3, 1, 2, 4, 5]),
            ((F.customer.name.desc(), "total"), [3, 2, 1, 4, 5]),
            (("customer.region", "-total"), [5, 4, 1, 2, 3]),
            # Absent stands before None.
            (("customer.country_id",), [4, 5, 3, 1, 2]),
            ((F.order_lines.len_(), "-id"), [5, 4, 3, 2, 1]),
            ((F.order_lines.len_().desc(),), [1, 2, 3, 4, 5]),
            ((F.order_lines[0].quantity,), [4, 5, 3, 1, 2]),
            ((F.total % 20, "-customer.name"), [3, 4, 1, 2, 5]),
            (("-id",), [5, 4, 3, 2, 1]),
        ],
        ids=repr,
    )
    def test_by_any_slot(self, query: Any, terms: Any, expected: list[int]) -> None:
        """Rows stand in the total order of values of any slot; ties stay as they were."""
        assert expected == ids(query.order_by(*terms))

    def test_ties_stay_in_the_order_of_rows(self, shop: Shop) -> None:
        """Rows that are equal by the order are as the left query has them, falling or not."""
        left = shop.orders.where().order_by("-total")
        query = left.join(shop.customers, on=F.customer_id)

        assert [5, 4, 1, 3, 2] == ids(query)
        assert [5, 4, 1, 2, 3] == ids(query.order_by("customer.name"))
        assert [3, 1, 2, 5, 4] == ids(query.order_by("-customer.name"))

    def test_by_a_whole_slot(self, query: Any) -> None:
        """A record is of no order with another of its class; None comes first."""
        assert [4, 5, 1, 2, 3] == ids(query.order_by(F.customer))

    def test_second_one_counts(self, query: Any) -> None:
        """A second order_by replaces the first."""
        assert [2, 3, 1, 4, 5] == ids(query.order_by("customer.name").order_by("total"))

    def test_after_a_condition(self, query: Any) -> None:
        """Conditions and order can be given in any sequence."""
        for asked in (
            query.where(F.customer.region == "EU").order_by("total").limit(1),
            query.limit(1).order_by("total").where(F.customer.region == "EU"),
        ):
            assert [2] == ids(asked)


class TestSkipAndLimit:
    @pytest.mark.parametrize(
        ("skip", "limit", "expected"),
        [
            (0, 2, [1, 2]),
            (1, 2, [2, 3]),
            (3, None, [4, 5]),
            (0, 0, []),
            (9, None, []),
            (4, 9, [5]),
            (0, None, [1, 2, 3, 4, 5]),
        ],
    )
    def test_of_rows(self, query: Any, skip: int, limit: int | None, expected: list[int]) -> None:
        """They count rows; count and exists are those of what is left."""
        for asked in (query.skip(skip).limit(limit), query.limit(limit).skip(skip)):
            assert expected == ids(asked)
            assert len(expected) == asked.count()
            assert bool(expected) == asked.exists()

    def test_before_and_after(self, shop: Shop) -> None:
        """On the left they count lefts, behind the join they count rows."""
        left = shop.orders.where().order_by("-total")
        inner = left.limit(3).join(shop.customers, on=F.customer_id, how="inner")
        outer = left.join(shop.customers, on=F.customer_id, how="inner").limit(3)

        assert [1] == ids(inner)
        assert [1, 3, 2] == ids(outer)
        assert (1, 3) == (inner.count(), outer.count())
        assert [3] == ids(left.skip(1).limit(3).join(shop.customers, on=F.customer_id).skip(2))

    def test_before_a_further_join(self, shop: Shop) -> None:
        """A limit of rows counts them after all joins, wherever it was said."""
        query = (
            shop.orders.where()
            .order_by("-total")
            .join(shop.customers, on=F.customer_id)
            .limit(2)
            .join_many(shop.lines, back=F.order_id, how="inner")
        )

        assert [1, 3] == ids(query)

    def test_after_conditions_on_rights(self, query: Any) -> None:
        """They count the rows that match."""
        eu = query.where(F.customer.region == "EU")

        assert [2] == ids(eu.skip(1))
        assert [1] == ids(eu.limit(1))
        assert (1, True, 0, False) == (
            eu.skip(1).count(),
            eu.skip(1).exists(),
            eu.skip(2).count(),
            eu.skip(2).exists(),
        )

    def test_refused(self, query: Any) -> None:
        """A count is a number from 0."""
        for wrong in (-1, 1.0, "1", True, None):
            with pytest.raises(memdb.QueryError):
                query.skip(wrong)
        for wrong in (-1, 1.0, "1", False):
            with pytest.raises(memdb.QueryError):
                query.limit(wrong)


class TestAsking:
    def test_first(self, query: Any) -> None:
        """The first row, or the default."""
        assert 1 == query.first().order.id
        assert 5 == query.order_by("-total").first().order.id
        assert 3 == query.where(F.customer.region == "US").first().order.id
        assert query.where(F.customer.region == "AS").first() is None
        assert "none" == query.skip(5).first("none")

    def test_one(self, query: Any) -> None:
        """The only row; none and several are refused."""
        assert 3 == query.where(F.customer.region == "US").one().order.id
        assert 2 == query.skip(1).limit(1).one().order.id
        for wrong in (query, query.where(F.customer.region == "EU"), query.skip(5)):
            with pytest.raises(memdb.QueryError, match="one"):
                wrong.one()

    def test_iterating(self, shop: Shop, query: Any) -> None:
        """Iterating shows the rows as they are when it begins."""
        seen = []
        for row in query:
            seen.append((row.order.id, len(row.order_lines)))
            shop.lines.clear()
            shop.orders.delete(row.order.id)

        assert [(1, 2), (2, 1), (3, 1), (4, 0), (5, 0)] == seen
        assert [] == list(query)

    def test_page(self, query: Any) -> None:
        """A part of the rows, and how many there are."""
        page = query.order_by("-total").page(1, 2)

        assert [4, 1] == [row.order.id for row in page]
        assert (5, 1, 2, 2) == (page.total, page.skip, page.take, len(page))
        assert [1, 2, 3, 4, 5] == [row.order.id for row in query.page()]
        assert ([], 5) == (query.page(9, 2).items, query.page(9, 2).total)
        assert ([], 5) == (query.page(0, 0).items, query.page(0, 0).total)

    def test_page_of_part(self, query: Any) -> None:
        """Pages are of what skip, limit and conditions leave."""
        page = query.skip(1).limit(3).page(1, 5)

        assert ([3, 4], 3) == ([row.order.id for row in page], page.total)
        page = query.where(F.customer.region == "EU").page(1, 1)
        assert ([2], 2) == ([row.order.id for row in page], page.total)

    def test_page_of_inner_joins(self, shop: Shop) -> None:
        """The number is that of rows, not of lefts."""
        page = shop.orders.where().join(shop.customers, on=F.customer_id, how="inner").page(1, 1)

        assert ([2], 3) == ([row.order.id for row in page], page.total)

    def test_page_refused(self, query: Any) -> None:
        """A page takes numbers from 0."""
        for wrong in ((-1, 2), (0, -2), ("a", 1), (0, 1.5)):
            with pytest.raises(memdb.QueryError):
                query.page(*wrong)

    def test_pages_have_no_cursor(self, query: Any) -> None:
        """What is said of cursors: they belong to the left, before the join."""
        with pytest.raises(memdb.QueryError, match=r"cursor"):
            query.page(0, 2).cursor  # noqa: B018


Build = Callable[[Shop], Any]

COUNTED: dict[str, tuple[Build, int]] = {
    "left": (lambda s: s.orders.where().join(s.customers, on=F.customer_id), 5),
    "inner": (lambda s: s.orders.where().join(s.customers, on=F.customer_id, how="inner"), 3),
    "inner, pair": (
        lambda s: s.orders.where().join(s.products, on=(F.sku, F.code), how="inner"),
        3,
    ),
    "inner, back": (
        lambda s: s.customers.where().join(s.profiles, back=F.customer_id, how="inner"),
        2,
    ),
    "inner, filtered": (
        lambda s: s.orders.where().join(
            s.customers, on=F.customer_id, how="inner", where=F.region == "EU"
        ),
        2,
    ),
    "many": (lambda s: s.orders.where().join_many(s.lines, back=F.order_id), 5),
    "inner, many": (
        lambda s: s.orders.where().join_many(s.lines, back=F.order_id, how="inner"),
        3,
    ),
    "inner, many, filtered": (
        lambda s: s.orders.where().join_many(
            s.lines.where(F.quantity > 1), back=F.order_id, how="inner"
        ),
        2,
    ),
    "inner, many, limited to none": (
        lambda s: s.orders.where().join_many(
            s.lines.where().limit(0), back=F.order_id, how="inner"
        ),
        0,
    ),
    "inner, many, without the first": (
        lambda s: s.orders.where().join_many(s.lines.where().skip(1), back=F.order_id, how="inner"),
        1,
    ),
    "inner, list": (lambda s: s.docs.where().join_many(s.tags, on=F.tag_ids, how="inner"), 2),
    "inner, reverse list": (
        lambda s: s.tags.where().join_many(s.docs, back=F.tag_ids, how="inner"),
        2,
    ),
    "inner, nested": (
        lambda s: s.orders.where().join_many(
            s.lines,
            back=F.order_id,
            how="inner",
            then=lambda q: q.join(s.products, on=F.product_id, how="inner"),
        ),
        2,
    ),
    "chained": (
        lambda s: (
            s.orders.where()
            .join(s.customers, on=F.customer_id)
            .join(s.countries, on=F.customer.country_id, how="inner")
        ),
        2,
    ),
    "self": (
        lambda s: s.employees.where().join(
            s.employees, on=F.manager_id, as_="manager", how="inner"
        ),
        2,
    ),
    "filtered left": (
        lambda s: s.orders.where(F.total > 10).join(s.customers, on=F.customer_id, how="inner"),
        2,
    ),
    "limited left": (
        lambda s: s.orders.where().order_by("-total").limit(3).join(s.customers, on=F.customer_id),
        3,
    ),
    "condition on the right": (
        lambda s: (
            s.orders.where().join(s.customers, on=F.customer_id).where(F.customer.region == "EU")
        ),
        2,
    ),
    "condition on the left": (
        lambda s: s.orders.where().join(s.customers, on=F.customer_id).where(F.total > 10),
        4,
    ),
}


@pytest.mark.parametrize("name", COUNTED)
def test_count_and_exists_are_those_of_all(shop: Shop, name: str) -> None:
    """For each kind of join, with any skip and limit, and inside of a transaction."""
    build, count = COUNTED[name]

    def check() -> None:
        query = build(shop)
        assert count == query.count() == len(query.all()) == len(list(query))
        assert bool(count) == query.exists()
        for skip in range(count + 2):
            for limit in (None, 0, 1, 2, 9):
                part = query.skip(skip).limit(limit)
                found = part.all()

                assert len(found) == part.count() == part.page(0, 0).total
                assert bool(found) == part.exists()
                assert found == query.all()[skip : None if limit is None else skip + limit]
                assert (found[0] if found else None) == part.first()

    check()
    with shop.db.transaction():
        shop.customers.update(1, name="Anna")
        shop.lines.update(1, quantity=3)
        check()


@dataclass(frozen=True)
class Scored:
    score: int
    right: int
    id: int = 0


@dataclass(frozen=True)
class Label:
    text: str
    id: int = 0


@pytest.mark.parametrize("how", ["left", "inner"])
def test_deep_pages_of_many_rows(how: Any) -> None:
    """Pages in an order, shallow and deep, are slices of the whole, in each way of sorting."""
    chance = random.Random(7)
    with memdb.open(None) as db:
        lefts, rights = db.collection(Scored), db.collection(Label)
        rights.insert_many([Label("abc"[n % 3]) for n in range(50)])
        lefts.insert_many([Scored(chance.randrange(90), chance.randrange(60)) for _ in range(400)])
        joined = lefts.where().join(rights, on=F.right, how=how)
        for terms in (("score",), ("-score",), ("label.text", "-score"), (F.score % 8,), ()):
            query = joined.order_by(*terms)
            whole = query.all()
            for skip, take in ((0, 1), (0, 20), (20, 20), (len(whole) - 20, 20), (3, 250)):
                assert whole[skip : skip + take] == query.skip(skip).limit(take).all()
                assert whole[skip : skip + take] == query.page(skip, take).items

            assert len(whole) == query.count()
        assert 400 == len(joined.all()) or how == "inner"
