"""Joined queries: conditions and values of slots, distinct ones, groups, sums and tables."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import pytest

import memdb
from memdb import F, count_
from tests.support.shop import Customer, Order, Shop, make_shop


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


def totals(query: Any) -> list[int]:
    """Return the total of the order in each row."""
    return [row.order.total for row in query.all()]


class TestConditions:
    @pytest.mark.parametrize(
        ("condition", "expected"),
        [
            (F.customer.region == "EU", [30, 10]),
            (F.customer.region != "EU", [20, 40, 50]),
            (~(F.customer.region == "EU"), [20, 40, 50]),
            (F.customer.name.in_(["Bob", "Cid"]), [20]),
            (F.customer.name.startswith("A"), [30, 10]),
            (F.customer == None, [40, 50]),  # noqa: E711
            (F.customer != None, [30, 10, 20]),  # noqa: E711
            (F.customer.is_none(), [40, 50]),
            (~F.customer.is_none(), [30, 10, 20]),
            # Bob has no country, the last two have no customer.
            (F.customer.country_id.is_none(), [20]),
            (F.customer.country_id == None, [20]),  # noqa: E711
            (F.total > 20, [30, 40, 50]),
            (F.order.total > 20, [30, 40, 50]),
            (F.total / 10 > F.customer.id, [30]),
            (F.order_lines.len_() == 0, [40, 50]),
            (F.order_lines[0].quantity >= 2, [30, 10]),
            (F.order_lines[1].quantity >= 0, [30]),
            (F.order_lines[-1].product_id == 9, [20]),
            ((F.customer.region == "US") | (F.total == 50), [20, 50]),
            ((F.customer.region == "EU") & (F.order_lines.len_() == 1), [10]),
            (F.id == 3, [20]),
            (F.customer.id == 1, [30, 10]),
        ],
        ids=repr,
    )
    def test_of_slots(self, query: Any, condition: Any, expected: list[int]) -> None:
        """Conditions compare values of any slot, and of the left without its name."""
        found = query.where(condition)

        assert expected == totals(found)
        assert (len(expected), bool(expected)) == (found.count(), found.exists())

    def test_several(self, query: Any) -> None:
        """All of them must match, however they are given."""
        for found in (
            query.where(F.customer.region == "EU", F.total > 10),
            query.where(F.customer.region == "EU").where(F.total > 10),
            query.where(F.customer.region == "EU", total=30),
            query.where((F.customer.region == "EU") & (F.total > 10)),
        ):
            assert [30] == totals(found)

    def test_callables(self, query: Any) -> None:
        """A callable is given the row."""
        found = query.where(lambda row: len(row.order_lines) == 1, F.customer.region == "EU")

        assert [10] == totals(found)
        assert 1 == found.count()

    def test_callables_that_raise(self, query: Any) -> None:
        """What a callable raises comes out."""
        with pytest.raises(AttributeError):
            query.where(lambda row: row.customer.region == "EU").all()

    def test_whole_record(self, query: Any) -> None:
        """A slot can be compared with a record as a whole."""
        assert [30, 10] == totals(query.where(F.customer == Customer("Ann", "EU", 1, 1)))

    def test_of_nested_rows(self, shop: Shop) -> None:
        """A path goes on through nested rows."""
        query = shop.orders.where().join_many(
            shop.lines, back=F.order_id, then=lambda q: q.join(shop.products, on=F.product_id)
        )

        assert [30, 10] == totals(query.where(F.order_lines[0].product.name == "Pen"))
        assert [20] == totals(query.where(F.order_lines[0].order_line.product_id == 9))


@dataclass
class Pair:
    name: str | None
    total: int


class TestSelect:
    def test_values_of_slots(self, query: Any) -> None:
        """Tuples of values of any slot; None for what is not there."""
        assert [
            ("Ann", 30, 2),
            ("Ann", 10, 1),
            ("Bob", 20, 1),
            (None, 40, 0),
            (None, 50, 0),
        ] == query.select(F.customer.name, F.total, F.order_lines.len_()).all()

    def test_names(self, query: Any) -> None:
        """Values can be given by name as text, and get names by keyword."""
        assert [("Ann", 30, 3)] == query.limit(1).select(
            "customer.name", "total", tens=F.total // 10
        ).all()

    def test_whole_slots(self, query: Any) -> None:
        """A slot as a whole is the record, None, or the tuple."""
        found = query.select(F.customer, F.order_lines.len_(), F.order).all()

        assert (Customer("Ann", "EU", 1, 1), 2, Order(1, 30, "A", 1)) == found[0]
        assert (None, 0, Order(9, 50, "", 5)) == found[-1]
        assert () == query.values(F.order_lines).all()[-1]
        assert Customer("Ann", "EU", 1, 1) == query.values("customer").first()

    def test_whole_slots_are_copies(self, shop: Shop, query: Any) -> None:
        """They are the receiver's own."""
        for record in query.values(F.customer).all()[:3]:
            record.name = "changed"
        for lines in query.values(F.order_lines):
            for line in lines:
                line.quantity = -1

        assert "Ann" == shop.customers[1].name == query.values(F.customer.name).first()
        assert 2 == shop.lines[1].quantity

    def test_into(self, query: Any) -> None:
        """into= is called with the values by name, the last step of a path."""
        assert [Pair("Ann", 30), Pair("Ann", 10), Pair("Bob", 20), Pair(None, 40)] == query.select(
            F.customer.name, F.order.total, into=Pair
        ).all()[:4]

    def test_single_values(self, query: Any) -> None:
        """values() gives one as it is."""
        assert ["Ann", "Ann", "Bob", None, None] == query.values(F.customer.name).all()
        assert ["Ann", "Ann", "Bob", None, None] == query.values("customer.name").all()
        assert [30, 10, 20, 40, 50] == query.values("total").all()
        assert [3, 1, 2, 4, 5] == query.values(F.total // 10).all()
        assert "Bob" == query.order_by("-customer.name").values(F.customer.name).first()

    def test_ways_of_asking(self, query: Any) -> None:
        """Selected values can be asked for in every way."""
        names = query.select(F.customer.name, F.total)

        assert ("Ann", 30) == names.first()
        assert [("Ann", 30), ("Ann", 10)] == names.page(0, 2).items == names.limit(2).all()
        assert 5 == names.count() == len(list(names)) == names.page(0, 1).total
        assert names.exists()
        assert ("Bob", 20) == names.where(F.customer.region == "US").one()

    def test_parts_of_nested_rows(self, shop: Shop) -> None:
        """Values inside of nested rows."""
        query = shop.orders.where(F.id < 4).join_many(
            shop.lines, back=F.order_id, then=lambda q: q.join(shop.products, on=F.product_id)
        )

        assert ["Pen", "Pen", None] == query.values(F.order_lines[0].product.name).all()


class TestDistinct:
    def test_values(self, query: Any) -> None:
        """Equal results once, where the first one stands; cut afterwards."""
        names = query.values(F.customer.name).distinct()

        assert ["Ann", "Bob", None] == names.all()
        assert (3, True) == (names.count(), names.exists())
        assert ["Bob", None] == names.skip(1).all()
        assert ["Bob"] == names.skip(1).limit(1).all()
        assert [None, "Ann", "Bob"] == query.order_by(F.customer.name).values(
            F.customer.name
        ).distinct().all()

    def test_none_and_nothing_are_one_value(self, query: Any) -> None:
        """None, and what is not there, are given as None: once."""
        countries = query.values(F.customer.country_id)

        assert [1, 1, None, None, None] == countries.all()
        assert [1, None] == countries.distinct().all()
        assert 2 == countries.distinct().count()
        assert [(1,), (None,)] == query.select(F.customer.country_id).distinct().all()

    def test_tuples(self, query: Any) -> None:
        """Tuples of values of several slots."""
        assert [("EU", 2), ("EU", 1), ("US", 1), (None, 0)] == query.select(
            F.customer.region, F.order_lines.len_()
        ).distinct().all()

    def test_rows(self, db: memdb.Database) -> None:
        """Whole rows, where records do not carry their identity."""
        lefts, rights = db.collection(Plain, name="left"), db.collection(Plain, name="right")
        lefts.insert_many([Plain(1), Plain(2), Plain(1), Plain(3)])
        rights.insert_many([Plain(0), Plain(0)])
        query = lefts.where().join(rights, on=F.n).distinct()

        assert [(Plain(1), Plain(0)), (Plain(2), Plain(0)), (Plain(3), None)] == [
            tuple(row) for row in query.all()
        ]
        assert 3 == query.count()


@dataclass
class Plain:
    n: int


class TestGroups:
    def test_by_a_value_of_a_right(self, query: Any) -> None:
        """Groups by what is in a slot, in the total order."""
        groups = query.group_by(F.customer.region).select(
            F.customer.region, count_(), F.total.sum_(), F.order_lines.len_().max_()
        )

        assert [(None, 2, 90, 0), ("EU", 2, 40, 2), ("US", 1, 20, 1)] == groups.all()
        assert (3, True) == (groups.count(), groups.exists())

    def test_by_several(self, query: Any) -> None:
        """Values of different slots together."""
        assert [(None, 0, 2), ("Ann", 1, 1), ("Ann", 2, 1), ("Bob", 1, 1)] == query.group_by(
            F.customer.name, F.order_lines.len_()
        ).select(F.customer.name, F.order_lines.len_(), count_()).all()

    def test_having_and_order(self, query: Any) -> None:
        """having and order_by ask for aggregates and selected names."""
        groups = query.group_by("customer.region").select(
            region=F.customer.region, n=count_(), total=F.order.total.sum_()
        )

        assert [(None, 2, 90), ("EU", 2, 40)] == groups.having(F.n > 1).all()
        assert [(None, 2, 90)] == groups.having(F.order.total.sum_() > 50).all()
        assert [("US", 1, 20), ("EU", 2, 40), (None, 2, 90)] == groups.order_by(
            F.order.total.sum_()
        ).all()
        assert ("EU", 2, 40) == groups.order_by("-region").skip(1).first()
        assert 2 == groups.having(count_() == 2).count()

    def test_only_matching_rows_are_grouped(self, query: Any) -> None:
        """A condition comes before the groups."""
        assert [("EU", 2)] == query.where(F.customer.region == "EU").group_by(
            F.customer.region
        ).select(F.customer.region, count_()).all()

    def test_one_group_of_all(self, query: Any) -> None:
        """Aggregates without group_by, also of no rows."""
        assert [(5, 150, "Ann", "Bob")] == query.select(
            count_(), F.total.sum_(), F.customer.name.min_(), F.customer.name.max_()
        ).all()
        assert [(0, 0, None)] == query.where(F.total > 1_000).select(
            count_(), F.total.sum_(), F.customer.name.min_()
        ).all()

    def test_field_that_differs(self, query: Any) -> None:
        """A value that differs within a group is refused."""
        with pytest.raises(memdb.QueryError):
            query.group_by(F.customer.region).select(F.customer.region, F.total).all()

    def test_by_a_slot_of_many(self, query: Any) -> None:
        """The length of a tuple of rights."""
        assert [(0, 2), (1, 2), (2, 1)] == query.group_by(F.order_lines.len_()).select(
            F.order_lines.len_(), count_()
        ).all()


class TestAggregates:
    def test_of_rows(self, query: Any) -> None:
        """Sums, means and ends of a value of any slot; what is not there is left out."""
        assert 150 == query.sum("total") == query.sum(F.order.total)
        assert 4 == query.sum(F.customer.id) == query.sum(F.order_lines.len_())
        assert 30 == query.mean(F.total)
        assert 4 / 3 == query.mean(F.customer.id)
        assert ("Ann", "Bob") == (query.min(F.customer.name), query.max("customer.name"))
        assert 5 == query.values(F.order_lines[0].quantity).max()

    def test_of_nothing(self, query: Any) -> None:
        """0, and None."""
        empty = query.where(F.total > 1_000)

        assert (0, None, None, None) == (
            empty.sum("total"),
            empty.mean("total"),
            empty.min("total"),
            empty.max(F.customer.name),
        )

    def test_of_inner_joins(self, shop: Shop) -> None:
        """Only rows count that there are."""
        query = shop.orders.where().join(shop.customers, on=F.customer_id, how="inner")

        assert (60, 20, 10, 30) == (
            query.sum("total"),
            query.mean("total"),
            query.min("total"),
            query.max("total"),
        )
        assert 20 == query.where(F.customer.region == "EU").mean("total")

    def test_skip_and_limit_count(self, query: Any) -> None:
        """A sum is that of the rows that all() would give."""
        assert 50 == query.skip(1).order_by("total").limit(2).sum("total")


class TestExport:
    def test_dicts(self, query: Any) -> None:
        """Rows become dicts of their slots, all plain inside."""
        found = query.to_dicts()

        assert {
            "order": {"customer_id": 1, "total": 30, "sku": "A", "id": 1},
            "customer": {"name": "Ann", "region": "EU", "country_id": 1, "id": 1},
            "order_lines": [
                {"order_id": 1, "product_id": 1, "quantity": 2, "id": 1},
                {"order_id": 1, "product_id": 2, "quantity": 1, "id": 2},
            ],
        } == _lists(found[0])
        assert {
            "order": {"customer_id": 9, "total": 50, "sku": "", "id": 5},
            "customer": None,
            "order_lines": [],
        } == _lists(found[-1])

    def test_nested_dicts(self, shop: Shop) -> None:
        """Nested rows too."""
        query = shop.orders.where(F.id == 2).join_many(
            shop.lines, back=F.order_id, then=lambda q: q.join(shop.products, on=F.product_id)
        )

        assert [
            {
                "order": {"customer_id": 1, "total": 10, "sku": "B", "id": 2},
                "order_lines": [
                    {
                        "order_line": {"order_id": 2, "product_id": 1, "quantity": 5, "id": 3},
                        "product": {"code": "A", "name": "Pen", "price": 1.5, "id": 1},
                    }
                ],
            }
        ] == _lists(query.to_dicts())

    def test_dicts_of_selected_values(self, query: Any) -> None:
        """Selected values by name."""
        assert [{"name": "Ann", "total": 30, "n": 2}] == query.limit(1).select(
            F.customer.name, "total", n=F.order_lines.len_()
        ).to_dicts()
        assert [{"region": "US", "n": 1}] == query.group_by(F.customer.region).select(
            F.customer.region, n=count_()
        ).order_by("-region").limit(1).to_dicts()

    def test_same_names(self, query: Any) -> None:
        """Two values of one name are refused, and can be given others."""
        with pytest.raises(memdb.QueryError, match="'id'"):
            query.select(F.order.id, F.customer.id).to_dicts()

        assert {"id": 1, "customer": 1} == query.select(
            F.order.id, customer=F.customer.id
        ).to_dicts()[0]

    def test_pandas(self, query: Any) -> None:
        """A column for each slot or selected value."""
        pandas = pytest.importorskip("pandas")
        frame = query.select(F.customer.name, "total").to_pandas()

        assert ["name", "total"] == list(frame.columns)
        assert [30, 10, 20, 40, 50] == list(frame["total"])
        assert ["Ann", "Ann", "Bob"] == list(frame["name"])[:3]
        assert isinstance(frame, pandas.DataFrame)
        assert ["order", "customer", "order_lines"] == list(query.to_pandas().columns)
        assert ["order", "customer", "order_lines"] == list(
            query.where(F.total > 1_000).to_pandas().columns
        )

    def test_arrow(self, query: Any) -> None:
        """The same as a table of pyarrow."""
        pytest.importorskip("pyarrow")
        table = query.select(F.customer.name, "total").to_arrow()

        assert {
            "name": ["Ann", "Ann", "Bob", None, None],
            "total": [30, 10, 20, 40, 50],
        } == table.to_pydict()
        assert ["order", "customer", "order_lines"] == query.to_arrow().column_names

    @pytest.mark.parametrize("name", ["pandas", "pyarrow"])
    def test_without_the_library(
        self, query: Any, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A library that is not installed is named."""
        monkeypatch.setitem(sys.modules, name, None)
        method = {"pandas": "to_pandas", "pyarrow": "to_arrow"}[name]
        with pytest.raises(memdb.QueryError, match=name):
            getattr(query, method)()


def _lists(value: Any) -> Any:
    """Return the same with lists for tuples, which a slot of many may be either of."""
    if isinstance(value, dict):
        return {name: _lists(each) for name, each in value.items()}
    return [_lists(each) for each in value] if isinstance(value, list | tuple) else value
