"""Queries: groups, and what is calculated over them."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import memdb
from memdb import F
from memdb.errors import QueryError
from memdb.query import count_
from memdb.query._reducing import greatest, least, mean, total
from tests.support.labels import label_of


@dataclass
class Sale:
    shop: Any
    product: str
    price: Any = 0
    tags: list[str] = field(default_factory=list)
    id: int = 0


class Level(enum.IntEnum):
    LOW = 1


@dataclass
class Sum:
    shop: str
    n: int
    most: int


@pytest.fixture
def sales(db: memdb.Database) -> memdb.Collection[Sale]:
    """Sales of two shops, and one of none."""
    collection = db.collection(Sale)
    collection.insert_many(
        [
            Sale("Rome", "tea", 5),
            Sale("Bern", "tea", 4),
            Sale("Rome", "jam", 7),
            Sale(None, "jam", None),
            Sale("Rome", "tea", 3),
        ]
    )
    return collection


class TestGroups:
    def test_keys(self, sales: memdb.Collection[Sale]) -> None:
        """Without a selection a group is its values, in the total order."""
        query = sales.where()

        assert [(None,), ("Bern",), ("Rome",)] == query.group_by("shop").all()
        assert [("jam", None), ("jam", "Rome"), ("tea", "Bern"), ("tea", "Rome")] == query.group_by(
            F.product, "shop"
        ).all()
        assert [(0,), (1,)] == query.group_by(F.id % 2).all()

    def test_aggregates(self, sales: memdb.Collection[Sale]) -> None:
        """Counts, and sums and their kin of values, calculations and all."""
        found = sales.where().group_by("shop").select(
            F.shop, count_(), F.price.sum_(), F.price.min_(), F.price.max_(), F.price.mean_(),
            double=(F.price * 2).sum_() + 1, share=F.price.sum_() / count_(),
        ).all()  # fmt: skip

        assert [
            (None, 1, 0, None, None, None, 1, 0.0),
            ("Bern", 1, 4, 4, 4, 4.0, 9, 4.0),
            ("Rome", 3, 15, 3, 7, 5.0, 31, 5.0),
        ] == found

    def test_types(self, db: memdb.Database) -> None:
        """A sum of ints is an int, whatever the values of other groups are."""
        sales = db.collection(Sale)
        prices = [("Rome", 1), ("Bern", 1.5), ("Rome", 2), ("Bern", 2), ("Wien", True)]
        sales.insert_many([Sale(shop, "tea", price) for shop, price in prices])
        query = sales.query().group_by("shop").select("shop", F.price.sum_(), F.price.mean_())

        assert "[('Bern', 3.5, 1.75), ('Rome', 3, 1.5), ('Wien', 1, 1.0)]" == repr(query.all())

    def test_of_calculations(self, sales: memdb.Collection[Sale]) -> None:
        """What is grouped by may be calculated, and calculated with."""
        query = sales.where().group_by(F.id % 2)

        assert [(0, 2), (1, 3)] == query.select(F.id % 2, count_()).all()
        assert [(10, 2), (11, 3)] == query.select((F.id % 2) + 10, count_()).all()
        with pytest.raises(QueryError, match=r"asks groups for F\.id"):
            query.select(F.id % 3).all()

    def test_conditions_are_of_records(self, sales: memdb.Collection[Sale]) -> None:
        """where() chooses before, having() after."""
        query = sales.where(F.price > 3).group_by("shop").select("shop", n=count_())

        assert [("Bern", 1), ("Rome", 2)] == query.all()
        assert [("Rome", 2)] == query.having(count_() > 1).all()
        assert [("Rome", 2)] == query.having(F.n > 1).having(F.shop != "Bern").all()
        assert [] == query.having(F.n > 1).where(id=1).all()
        assert [("Bern", 1)] == query.having(~(F.price.sum_() > 5)).all()
        assert [("Bern", 1)] == query.having(F.price.max_() == F.price.min_()).all()

    def test_order(self, sales: memdb.Collection[Sale]) -> None:
        """By aggregates, by selected names; ties in the order of what they are grouped by."""
        query = sales.where().group_by("product", "shop").select("product", "shop", n=count_())
        expected = [("tea", "Rome", 2), ("jam", None, 1), ("jam", "Rome", 1), ("tea", "Bern", 1)]

        assert expected == query.order_by("-n").all()
        assert expected == query.order_by(count_().desc()).all()
        assert [1, 2, 1, 1] == [n for *_, n in query.order_by("-shop", F.price.sum_())]
        assert expected[:2] == query.order_by("-n").limit(2).all()
        assert expected[3:] == query.order_by("-n").skip(3).all()

    def test_counts(self, sales: memdb.Collection[Sale]) -> None:
        """Groups are what is counted, skipped, limited and paged."""
        query = sales.where().group_by("shop").select("shop")

        assert (3, 2, 1) == (
            query.count(), query.skip(1).count(), query.having(F.shop == "Rome").count()
        )  # fmt: skip
        assert (True, False) == (query.exists(), query.where(id=99).exists())
        assert ((None,), ("Rome",)) == (query.first(), query.order_by("-shop").first())
        page = query.page(1, 1)
        assert ([("Bern",)], 3) == (page.items, page.total)

    def test_forms(self, sales: memdb.Collection[Sale]) -> None:
        """Groups become classes, plain values and dicts as records do."""
        query = sales.where(F.shop != None).group_by("shop")  # noqa: E711
        chosen: dict[str, Any] = {"n": count_(), "most": F.price.max_()}

        assert [Sum("Bern", 1, 4), Sum("Rome", 3, 7)] == query.select(
            "shop", **chosen, into=Sum
        ).all()
        assert [1, 3] == query.values(count_()).all()
        assert [{"shop": "Bern", "n": 1}, {"shop": "Rome", "n": 3}] == query.select(
            "shop", n=count_()
        ).to_dicts()
        assert [{"shop": "Bern"}, {"shop": "Rome"}] == query.to_dicts()
        assert 4 == query.values(count_()).sum()

    def test_distinct(self, sales: memdb.Collection[Sale]) -> None:
        """Equal results of different groups come once."""
        query = sales.where().group_by("product", "shop").select(n=count_()).distinct()

        assert [(1,), (2,)] == query.all()
        assert ([(2,)], 2) == (query.order_by("-n").limit(1).all(), query.count())

    def test_equal_values_of_different_types(self, sales: memdb.Collection[Sale]) -> None:
        """Values that are equal are one group, any two NaN too, and lists as well."""
        sales.clear()
        values = [1, True, math.nan, 1.0, "1", float("nan"), [1], [1.0], None]
        sales.insert_many([Sale(value, "x") for value in values])
        found = sales.where().group_by("shop").select(count_(), F.shop).all()

        assert [1, 3, 2, 1, 2] == [count for count, _ in found]
        assert [None, 1, "1", [1]] == [key for _, key in found if key == key]

    def test_absent_values(self, db: memdb.Database) -> None:
        """Records without the field are a group of their own, before None, and show None."""
        events = db.collection("events")
        events.insert_many([{"a": None}, {"b": 1}, {"a": 1}, {}])
        found = events.where().group_by("a").select("a", count_(), F.b.sum_())

        assert [(None, 2, 1), (None, 1, 0), (1, 1, 0)] == found.all()

    def test_of_nothing(self, sales: memdb.Collection[Sale]) -> None:
        """No records, no groups."""
        assert [] == sales.where(id=99).group_by("shop").select("shop", count_()).all()

    def test_same_aggregate_of_two_fields(self, sales: memdb.Collection[Sale]) -> None:
        """Aggregates are told apart by what they are of, constants and all."""
        found = sales.where(product="tea").group_by("product").select(
            F.price.sum_(), F.id.sum_(), (F.price + 1).sum_(), (F.price + 1.5).sum_(),
            (F.price + True).sum_(),
        )  # fmt: skip

        assert [(12, 8, 15, 16.5, 15)] == found.all()


class TestRefused:
    def test_what_groups_have_not(self, sales: memdb.Collection[Sale]) -> None:
        """A field that differs inside of a group is refused, wherever it is asked for."""
        query = sales.where().group_by("shop")
        for ask in (
            query.select("price").all,
            query.select(F.price + count_()).all,
            query.having(F.price > 1).all,
            query.having((count_() > 1) & (F.price == 1)).count,
            query.order_by("price").all,
            query.select(n="price").order_by("n").all,
        ):
            with pytest.raises(QueryError, match=r"asks groups for F\.price"):
                ask()

    def test_name_that_is_the_field_itself(self, sales: memdb.Collection[Sale]) -> None:
        """A selected name does not make a field known that is selected under it."""
        query = sales.where().group_by("shop").select("price")
        with pytest.raises(QueryError, match=r"asks groups for F\.price"):
            query.order_by("price").all()

    def test_aggregates_of_aggregates(self, sales: memdb.Collection[Sale]) -> None:
        """There are no groups of groups."""
        with pytest.raises(QueryError, match="groups of groups"):
            sales.where().group_by("shop").select((count_() + 1).sum_()).all()

    def test_having_without_groups(self, sales: memdb.Collection[Sale]) -> None:
        """having() is refused for records, and takes nothing but expressions."""
        query = sales.where().having(count_() > 1)
        for ask in (query.all, query.count, query.first, query.select("shop").all, query.page):
            with pytest.raises(QueryError, match=r"having\(\) is for groups"):
                ask()
        with pytest.raises(QueryError, match="takes an expression"):
            sales.where().having(lambda group: True)  # type: ignore[arg-type]

    def test_no_terms(self, sales: memdb.Collection[Sale]) -> None:
        """group_by() takes at least one value."""
        with pytest.raises(QueryError, match="was given nothing"):
            sales.where().group_by()

    def test_no_records(self, sales: memdb.Collection[Sale]) -> None:
        """What is for whole records is refused for groups."""
        query = sales.where().group_by("shop")
        for ask in (
            query.ids,
            query.delete,
            lambda: query.update(price=1),
            lambda: query.sum("id"),
        ):
            with pytest.raises(QueryError, match="is for whole records"):
                ask()
        assert 5 == len(sales)


class TestReductions:
    @pytest.mark.parametrize(
        ("values", "expected"),
        [
            ([], 0),
            ([1, True, 2], 4),
            ([2**70, 1], 2**70 + 1),
            ([0.1] * 10, 1.0),
            ([1e308, 1e308, -1e308], 1e308),
            ([1, 0.5], 1.5),
            ([math.inf, 1], math.inf),
            ([Decimal("0.1"), Decimal("0.2"), 1], Decimal("1.3")),
            ([Fraction(1, 3), Fraction(1, 3)], Fraction(2, 3)),
            ([timedelta(1), timedelta(2)], timedelta(3)),
            ([np.int64(2**62), np.int64(2**62), 1], 2**63 + 1),
            ([np.float32(0.5), np.int8(1)], 1.5),
            ([Level.LOW], 1),
        ],
    )
    def test_totals(self, values: list[Any], expected: Any) -> None:
        """Integers exactly, floats as exact as one can be, others by their own addition."""
        found = total(values, "sum")

        assert expected == found
        assert type(expected) is type(found)

    def test_not_a_number(self) -> None:
        """Infinities of both signs, and a NaN, have the sum that Python gives them."""
        for values in ([math.inf, -math.inf], [math.nan, 1], [1, math.nan, math.inf]):
            assert math.isnan(total(values, "sum"))
            assert math.isnan(mean(values, "mean"))

    @pytest.mark.parametrize(
        ("values", "expected"),
        [
            ([], None),
            ([1, 2], 1.5),
            ([True, False], 0.5),
            ([Decimal(1), Decimal(2)], Decimal("1.5")),
            ([timedelta(1), timedelta(2)], timedelta(1.5)),
        ],
    )
    def test_means(self, values: list[Any], expected: Any) -> None:
        """The sum divided by how many there are."""
        assert expected == mean(values, "mean")

    @pytest.mark.parametrize(
        "values",
        [["a"], ["a", 1], [1, "a"], [[1]], [(1,)], [b"a"], [Decimal(1), 0.5], [{}], [object()]],
        ids=label_of,
    )
    def test_refused(self, values: list[Any]) -> None:
        """What can't be added is refused with the types."""
        for reduce in (total, mean):
            with pytest.raises(QueryError, match=r"here: values of type .* have no sum"):
                reduce(values, "here")

    def test_too_large(self) -> None:
        """Integers that no float can hold have a sum and no mean."""
        assert 10**400 + 1 == total([10**400, 1], "sum")
        for reduce, values in ((mean, [10**400, 1]), (total, [10**400, 0.5])):
            with pytest.raises(QueryError, match="too large for a float"):
                reduce(values, "here")

    def test_extremes(self) -> None:
        """The first and the last in the total order; of equal ones the first that comes."""
        assert (None, None) == (least([], ""), greatest([], ""))
        assert (1, "a") == (least([2, "a", 1], ""), greatest([2, "a", 1], ""))
        assert (bool, float) == (
            type(least([True, 1, 2.0, 2], "")),
            type(greatest([True, 2.0, 2], "")),
        )
