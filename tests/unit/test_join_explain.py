"""What is said of how a joined query is answered, and that it is so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import memdb
from memdb import F, P
from tests.support.shop import Order, Shop, add_indexes, make_shop


@pytest.fixture
def db() -> Iterator[memdb.Database]:
    """Give a database in memory."""
    with memdb.open(None) as database:
        yield database


@pytest.fixture
def plain(db: memdb.Database) -> Shop:
    """The shop without an index."""
    return make_shop(db)


@pytest.fixture
def shop(plain: Shop) -> Shop:
    """The shop with an index for each of its joins."""
    add_indexes(plain)
    return plain


def text_of(query: Any) -> str:
    """Return the text of an explanation."""
    return str(query.explain())


class TestAccess:
    def test_identity(self, plain: Shop) -> None:
        """What the left names is looked up by its identity, which needs no index."""
        explanation = plain.orders.where().join(plain.customers, on=F.customer_id).explain()
        (join,) = explanation.joins

        assert ("customer", "left", None) == (join.slot, join.kind, join.warning)
        assert "identity of 'Customer'" in join.source
        assert () == explanation.warnings
        assert "WARNING" not in str(explanation)

    def test_list_of_identities(self, plain: Shop) -> None:
        """So is what a list of the left names."""
        explanation = plain.docs.where().join_many(plain.tags, on=F.tag_ids).explain()
        (join,) = explanation.joins

        assert ("tags", "left, many") == (join.slot, join.kind)
        assert "identity of 'Tag'" in join.source
        assert () == explanation.warnings

    @pytest.mark.parametrize(
        ("build", "parts"),
        [
            (
                lambda s: s.orders.where().join(s.products, on=(F.sku, F.code)),
                ("unique index 'code'", "'Product'", "F.sku"),
            ),
            (
                lambda s: s.customers.where().join(s.profiles, back=F.customer_id),
                ("unique index 'customer_id'", "'Profile'"),
            ),
            (
                lambda s: s.customers.where().join_many(s.orders, back=F.customer_id),
                ("hash index 'customer_id'", "'Order'"),
            ),
            (
                lambda s: s.tags.where().join_many(s.docs, back=F.tag_ids),
                ("set index 'tag_ids'", "'Doc'"),
            ),
            (
                lambda s: s.employees.where().join_many(
                    s.employees, back=F.manager_id, as_="reports"
                ),
                ("hash index 'manager_id'", "'Employee'"),
            ),
        ],
        ids=["pair", "back", "many", "elements", "self"],
    )
    def test_index(self, shop: Shop, build: Any, parts: tuple[str, ...]) -> None:
        """The index of the right that is used is named."""
        explanation = build(shop).explain()
        (join,) = explanation.joins

        for part in parts:
            assert part in join.source
        assert () == explanation.warnings

    @pytest.mark.parametrize(
        ("build", "advice"),
        [
            (
                lambda s: s.orders.where().join(s.products, on=(F.sku, F.code)),
                'memdb.HashIndex("code")',
            ),
            (
                lambda s: s.customers.where().join(s.profiles, back=F.customer_id),
                'memdb.HashIndex("customer_id")',
            ),
            (
                lambda s: s.customers.where().join_many(s.orders, back=F.customer_id),
                'memdb.HashIndex("customer_id")',
            ),
            (
                lambda s: s.tags.where().join_many(s.docs, back=F.tag_ids),
                'memdb.SetIndex("tag_ids")',
            ),
        ],
        ids=["pair", "back", "many", "elements"],
    )
    def test_warning_that_helps(self, plain: Shop, build: Any, advice: str) -> None:
        """Without an index there is a warning with the index to declare, which then is used."""
        query = build(plain)
        explanation = query.explain()
        (warning,) = explanation.warnings

        assert advice in warning
        assert warning in str(explanation)
        right = {"products": plain.products, "profiles": plain.profiles}
        right |= {"orders": plain.orders, "docs": plain.docs}
        name = next(
            each for each in right if each.removesuffix("s") in query.explain().joins[0].slot
        )
        before = query.all()
        right[name].indexes.add(eval(advice))

        assert () == query.explain().warnings
        assert advice.split('"')[1] in query.explain().joins[0].source
        assert before == query.all()

    def test_index_that_does_not_serve(self, plain: Shop) -> None:
        """A partial index, or one of other fields, is not taken for a join."""
        plain.orders.indexes.add(memdb.HashIndex("total"))
        plain.orders.indexes.add(memdb.HashIndex("customer_id", where=F.total > 15, name="part"))
        plain.orders.indexes.add(memdb.HashIndex("customer_id", "total", name="both"))
        query = plain.customers.where().join_many(plain.orders, back=F.customer_id)

        assert 1 == len(query.explain().warnings)
        assert [[1, 2], [3], [], []] == [[each.id for each in row.orders] for row in query]

    def test_sorted_index(self, plain: Shop) -> None:
        """A sorted index finds what belongs, too."""
        plain.orders.indexes.add(memdb.SortedIndex("customer_id"))
        query = plain.customers.where().join_many(plain.orders, back=F.customer_id)

        assert () == query.explain().warnings
        assert "sorted index 'customer_id'" in query.explain().joins[0].source

    def test_several_joins(self, shop: Shop) -> None:
        """Each join has its own, in their sequence, and the text a line of each."""
        query = (
            shop.orders.where(F.total > 5)
            .join(shop.customers, on=F.customer_id, how="inner")
            .join(shop.countries, on=F.customer.country_id)
            .join_many(shop.orders, back=F.customer_id, as_="others")
        )
        explanation = query.explain()

        assert ["customer", "country", "others"] == [join.slot for join in explanation.joins]
        assert ["inner", "left", "left, many"] == [join.kind for join in explanation.joins]
        assert 3 == str(explanation).count("  join  ")
        assert "F.customer.country_id" in str(explanation)

    def test_nested_joins(self, plain: Shop) -> None:
        """What is joined inside is inside, with its warnings."""
        query = plain.orders.where().join_many(
            plain.lines,
            back=F.order_id,
            then=lambda q: q.join(plain.products, on=(F.product_id, F.price)),
        )
        explanation = query.explain()
        (join,) = explanation.joins
        (inside,) = join.inside

        assert ("order_lines", "product") == (join.slot, inside.slot)
        assert 2 == len(explanation.warnings)
        assert ["order_id" in explanation.warnings[0], "price" in explanation.warnings[1]] == [
            True,
            True,
        ]

    def test_right_query(self, shop: Shop) -> None:
        """What a right query compares and sorts is said of its join."""
        right = shop.notes.where(F.pinned == True).order_by("-at").limit(3)  # noqa: E712
        (join,) = shop.customers.where().join_many(right, back=F.customer_id).explain().joins

        assert ("F.pinned == True",) == join.filters
        assert ("F.at.desc()",) == join.order


class TestWhole:
    def test_first_line_shows_the_query(self, shop: Shop) -> None:
        """The text begins with the query as it shows itself."""
        query = (
            shop.orders.where(F.total > 5)
            .join(shop.customers, on=F.customer_id)
            .where(F.customer.region == "EU")
        )
        explanation = query.explain()

        assert repr(query) == explanation.query == str(explanation).split("\n")[0]
        assert str(explanation) == repr(explanation)

    def test_left_side(self, shop: Shop) -> None:
        """How the left is answered is said as of any query."""
        query = shop.orders.where(customer_id=1).join(shop.customers, on=F.customer_id)
        explanation = query.explain()

        assert "hash index 'customer_id'" in explanation.left.chosen.source
        assert 2 == explanation.left.chosen.count
        assert "hash index 'customer_id' for F.customer_id == 1: 2" in str(explanation)

    def test_conditions_of_the_left_go_to_the_left(self, shop: Shop) -> None:
        """What a condition behind the join says of the left alone narrows the left down."""
        query = (
            shop.orders.where()
            .join(shop.customers, on=F.customer_id)
            .where(F.customer_id == 1, F.customer.region == "EU")
        )
        explanation = query.explain()

        assert 2 == explanation.left.chosen.count
        assert ("F.customer.region == 'EU'",) == explanation.filters

    def test_page_before_the_joins(self, shop: Shop) -> None:
        """Where a page can be cut before the rights are fetched, it is; else it is not."""
        joined = shop.orders.where().join(shop.customers, on=F.customer_id)
        inner = shop.orders.where().join(shop.customers, on=F.customer_id, how="inner")

        assert joined.order_by("-total").limit(2).explain().is_cut
        assert not joined.order_by("customer.name").limit(2).explain().is_cut
        assert not joined.where(F.customer.region == "EU").limit(2).explain().is_cut
        assert not inner.limit(2).explain().is_cut
        assert ("F.customer.name.asc()",) == joined.order_by("customer.name").explain().order

    def test_way_of_the_answer(self, shop: Shop) -> None:
        """A generated function, or the general way and why."""
        query = shop.orders.where().join(shop.customers, on=F.customer_id)
        compiled = query.explain()
        general = query.where(lambda row: True).explain()
        with shop.db.transaction():
            shop.orders.insert(Order(1, 1))
            inside = query.explain()

        assert compiled.is_compiled
        assert compiled.reason is None
        assert compiled.source is not None
        assert "generated function" in str(compiled)
        assert not inside.is_compiled
        assert "transaction" in str(inside.reason)
        assert inside.source is None
        assert "general way" in str(inside)
        assert str(general)

    def test_analyze(self, shop: Shop) -> None:
        """analyze() asks the query, and says how many rows there were and how long it took."""
        query = shop.orders.where().join(shop.customers, on=F.customer_id, how="inner")
        analyzed = query.analyze()

        assert (3, True) == (analyzed.results, analyzed.seconds is not None)
        assert "3 results" in str(analyzed)
        assert (None, None) == (query.explain().results, query.explain().seconds)

    def test_explaining_asks_nothing(self, shop: Shop) -> None:
        """explain() finds no fault that only rows have; asking does."""
        query = shop.customers.where().join(shop.orders, back=F.customer_id)

        assert "order" in text_of(query)
        with pytest.raises(memdb.QueryError, match="join_many"):
            query.analyze()

    def test_prepared(self, shop: Shop) -> None:
        """That of a prepared query has the values of its parameters."""
        prepared = (
            shop.orders.where(F.customer_id == P.customer)
            .join(shop.customers, on=F.customer_id, where=F.region == P.region)
            .prepare()
        )
        explanation = prepared.explain(customer=1, region="EU")

        assert 2 == explanation.left.chosen.count
        assert "'EU'" in str(explanation)
        assert "P." not in str(explanation)

    def test_groups_and_selections(self, shop: Shop) -> None:
        """Queries of values and groups are explained as well."""
        joined = shop.orders.where().join(shop.customers, on=F.customer_id)
        for query in (
            joined.select(F.customer.name, "total"),
            joined.values(F.customer.name).distinct(),
            joined.group_by(F.customer.region).select(F.customer.region, F.total.sum_()),
        ):
            assert "customer" in text_of(query)
            assert repr(query) == text_of(query).split("\n")[0]
