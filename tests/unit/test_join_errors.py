"""What is refused of joined queries, in which words, and that nothing comes of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any

import pytest

import memdb
from memdb import F, P, count_
from tests.support.labels import label_of
from tests.support.shop import Customer, Order, Shop, make_shop


@pytest.fixture
def shop(db: memdb.Database) -> Any:
    """The shop; whatever is refused changes nothing in it."""
    shop = make_shop(db)
    before = [(each.name, list(each)) for each in shop.collections]  # type: ignore[attr-defined]
    yield shop
    after = [(each.name, list(each)) for each in shop.collections]  # type: ignore[attr-defined]

    assert before == after


def refused(ask: Callable[[], Any], *parts: str) -> str:
    """Check that something is refused with a message that has some parts; return it."""
    with pytest.raises(memdb.QueryError) as caught:
        found = ask()
        # What can't be said when a query is made is said when it is asked.
        found.all()
    message = str(caught.value)
    for part in parts:
        assert part in message, message
    assert message[-1] in ".?", message
    return message


class TestPaths:
    def test_neither_on_nor_back(self, shop: Shop) -> None:
        """Without a foreign key it has to be said what belongs together."""
        for ask in (
            lambda: shop.orders.where().join(shop.customers),
            lambda: shop.orders.where().join(Customer),
            lambda: shop.customers.where().join_many(shop.orders),
        ):
            refused(ask, "on=", "back=", "'Order'", "'Customer'")

    def test_both_on_and_back(self, shop: Shop) -> None:
        """One of them says it all."""
        refused(
            lambda: shop.orders.where().join(shop.customers, on=F.customer_id, back=F.id),
            "on=",
            "back=",
        )
        refused(
            lambda: shop.orders.where().join_many(shop.lines, on=F.id, back=F.order_id),
            "on=",
            "back=",
        )

    @pytest.mark.parametrize(
        "on", [3, None.__class__, ["a", "b"], F.id == 1, object(), ""], ids=label_of
    )
    def test_no_value(self, shop: Shop, on: Any) -> None:
        """on= and back= take fields and values."""
        refused(lambda: shop.orders.where().join(shop.customers, on=on), "on=")
        refused(lambda: shop.orders.where().join_many(shop.lines, back=on), "back=")

    @pytest.mark.parametrize(
        "pair", [(), (F.sku,), (F.sku, F.code, F.name), (F.sku, 3), (1, "code")]
    )
    def test_wrong_pairs(self, shop: Shop, pair: Any) -> None:
        """A pair has two values."""
        refused(lambda: shop.orders.where().join(shop.products, on=pair), "on=")

    def test_pair_as_back(self, shop: Shop) -> None:
        """back= takes no pair."""
        refused(lambda: shop.orders.where().join_many(shop.lines, back=(F.id, F.order_id)), "back=")

    @pytest.mark.parametrize("how", ["outer", "right", "LEFT", "", None, True, 1])
    def test_wrong_how(self, shop: Shop, how: Any) -> None:
        """There are left and inner joins."""
        for ask in (
            lambda: shop.orders.where().join(shop.customers, on=F.customer_id, how=how),
            lambda: shop.orders.where().join_many(shop.lines, back=F.order_id, how=how),
        ):
            refused(ask, "how", repr(how), "left", "inner")


class TestRight:
    @pytest.mark.parametrize(
        "right", [3, None, "Customer", [], {"a": 1}, F.customer, lambda: None], ids=label_of
    )
    def test_nothing_to_join(self, shop: Shop, right: Any) -> None:
        """The right is a collection, a query, or a class."""
        refused(lambda: shop.orders.where().join(right, on=F.customer_id), "collection")

    def test_class_without_a_collection(self, shop: Shop) -> None:
        """A class must have a collection in the database."""

        @dataclass
        class Stranger:
            id: int = 0

        refused(lambda: shop.orders.where().join(Stranger, on=F.customer_id), "Stranger")

    @pytest.mark.parametrize(
        "change",
        [
            lambda query: query.select("name"),
            lambda query: query.values("name"),
            lambda query: query.distinct(),
            lambda query: query.group_by("name").select("name", count_()),
            lambda query: query.group_by("name"),
            lambda query: query.select(count_()),
            lambda query: query.after(query.order_by("name").page(take=1).cursor),
        ],
        ids=["select", "values", "distinct", "groups", "group_by", "aggregate", "after"],
    )
    def test_query_of_something_else(self, shop: Shop, change: Any) -> None:
        """A right query gives whole records, each of them."""
        right = shop.customers.where().order_by("name")
        for ask in (
            lambda: shop.orders.where().join(change(right), on=F.customer_id),
            lambda: shop.orders.where().join(
                shop.customers.where().order_by("name"), on=F.customer_id, then=change
            ),
        ):
            refused(ask)

    @pytest.mark.parametrize(
        "change",
        [
            lambda query: query.select("customer.name"),
            lambda query: query.values("customer.name"),
            lambda query: query.distinct(),
            lambda query: query.group_by("customer.name").select("customer.name", count_()),
        ],
        ids=["select", "values", "distinct", "groups"],
    )
    def test_joined_query_of_something_else(self, shop: Shop, change: Any) -> None:
        """A joined right gives whole rows."""
        right = shop.orders.where().join(shop.customers, on=F.customer_id)

        refused(lambda: shop.lines.where().join(change(right), on=F.order_id))

    @pytest.mark.parametrize(
        "change",
        [
            lambda query: query.select("total"),
            lambda query: query.values("total"),
            lambda query: query.distinct(),
            lambda query: query.group_by("total"),
        ],
        ids=["select", "values", "distinct", "group_by"],
    )
    def test_left_query_of_something_else(self, shop: Shop, change: Any) -> None:
        """So does a left query."""
        refused(lambda: change(shop.orders.where()).join(shop.customers, on=F.customer_id))

    def test_then_that_gives_no_query(self, shop: Shop) -> None:
        """then= gives a query of the right."""
        for then in (lambda query: None, lambda query: query.all(), 3, "x"):
            refused(
                lambda then=then: shop.orders.where().join(  # type: ignore[misc]
                    shop.customers, on=F.customer_id, then=then
                ),
                "then",
            )

    def test_then_that_gives_another_collection(self, shop: Shop) -> None:
        """It gives the query that it was given, refined."""
        refused(
            lambda: shop.orders.where().join(
                shop.customers, on=F.customer_id, then=lambda query: shop.tags.where()
            )
        )

    def test_then_that_raises(self, shop: Shop) -> None:
        """What it raises comes out."""
        with pytest.raises(ZeroDivisionError):
            shop.orders.where().join(shop.customers, on=F.customer_id, then=lambda query: 1 / 0)

    def test_condition_that_is_none(self, shop: Shop) -> None:
        """where= takes a condition."""
        for where in (3, "region", True, F.region):
            refused(
                lambda where=where: shop.orders.where().join(  # type: ignore[misc]
                    shop.customers, on=F.customer_id, where=where
                )
            )

    def test_other_database(self, shop: Shop) -> None:
        """Collections of different databases can't be joined; what to do is said."""
        with memdb.open(None) as other:
            customers = other.collection(Customer)
            message = refused(
                lambda: shop.orders.where().join(customers, on=F.customer_id), "database"
            )
            assert message.count(".") > 1
            refused(
                lambda: shop.orders.where().join_many(
                    shop.lines, back=F.order_id, then=lambda q: q.join(customers, on=F.product_id)
                ),
                "database",
            )

    def test_closed(self) -> None:
        """A closed database answers nothing."""
        with memdb.open(None) as db:
            shop = make_shop(db)
            query = shop.orders.where().join(shop.customers, on=F.customer_id)
            prepared = query.prepare()
            selected = query.select(F.customer.name)
        for ask in (
            query.all,
            query.count,
            query.exists,
            query.first,
            query.page,
            query.explain,
            query.analyze,
            selected.all,
            prepared,
            prepared.count,
            query.prepare,
            lambda: list(query),
            lambda: query.sum("total"),
            lambda: query.to_dicts(),
        ):
            try:
                ask()
            except memdb.ClosedError:
                continue
            # Preparing need not look at the database.
            assert ask == query.prepare


class TestSlots:
    def test_two_of_one_name(self, shop: Shop) -> None:
        """Each slot has a name of its own; as_= is what to give."""
        joined = shop.orders.where().join(shop.customers, on=F.customer_id)
        for ask in (
            lambda: joined.join(shop.customers, on=F.customer_id),
            lambda: joined.join_many(shop.lines, back=F.order_id, as_="customer"),
            lambda: joined.join_many(shop.lines, back=F.order_id, as_="order"),
            lambda: shop.employees.where().join(shop.employees, on=F.manager_id),
        ):
            refused(ask, "as_=")

    def test_names_that_are_none(self, shop: Shop) -> None:
        """A slot is called by an identifier."""
        for name in ("", "a b", "1a", "class", "_private", "a.b", 3, True):
            refused(
                lambda name=name: shop.orders.where().join(  # type: ignore[misc]
                    shop.customers, on=F.customer_id, as_=name
                ),
                "as_",
                repr(name),
            )

    def test_ambiguous(self, shop: Shop) -> None:
        """A name that is a slot and a field of the left is refused where it is used."""
        query = shop.orders.where().join(shop.customers, on=F.customer_id, as_="total")
        for ask in (
            lambda: query.where(F.total == 5),
            lambda: query.order_by("total"),
            lambda: query.order_by("-total"),
            lambda: query.select(F.total),
            lambda: query.values(F.total),
            lambda: query.group_by(F.total).select(F.total, count_()),
            lambda: query.join(shop.countries, on=F.total),
            lambda: query.join(shop.countries, on=F.total + 1),
        ):
            refused(ask, "ambiguous", "total", "as_=")

        # Not where only one of the two leads somewhere: an int has no name.
        assert ["Ann", "Ann", "Bob", None, None] == query.values(F.total.name).all()
        assert [1, 2] == query.where(F.total.name == "Ann").values(F.order.id).all()
        assert 3 == query.order_by("-total.name").first().order.id
        # Where it is not used nothing is ambiguous, and the left's own slot says which is meant.
        assert 5 == len(query.where(F.order.total > 0).all())
        assert ["A", "B"] == query.limit(2).values("sku").all()

    def test_unknown(self, shop: Shop) -> None:
        """What is neither a slot nor a field of the left is named, with the nearest."""
        query = shop.orders.where().join(shop.customers, on=F.customer_id)
        for ask in (
            lambda: query.where(F.custome.name == "Ann"),
            lambda: query.where((F.total > 1_000) & (F.custome.name == "Ann")),
            lambda: query.order_by("custome.name"),
            lambda: query.select(F.custome.name),
            lambda: query.values("custome"),
            lambda: query.group_by(F.custome.name).select(count_()),
            lambda: query.join(shop.countries, on=F.custome.country_id),
        ):
            refused(ask, "custome", "'customer'")
        refused(lambda: query.where(F.totl > 5), "totl", "'total'")

    def test_unknown_field_of_a_slot(self, shop: Shop) -> None:
        """A field that the record in a slot has not is named, with the nearest."""
        query = (
            shop.orders.where()
            .join(shop.customers, on=F.customer_id)
            .join_many(shop.lines, back=F.order_id)
        )
        for ask in (
            lambda: query.where(F.customer.nam == "Ann"),
            lambda: query.order_by("customer.nam"),
            lambda: query.select(F.customer.nam),
            lambda: query.join(shop.countries, on=F.customer.nam),
        ):
            refused(ask, "nam", "'name'")
        refused(lambda: query.where(F.order.totl > 5), "totl", "'total'")

    def test_field_of_another_slot(self, shop: Shop) -> None:
        """A field of the right is no field of the left: its slot has to be named."""
        query = shop.orders.where().join(shop.customers, on=F.customer_id)

        refused(lambda: query.where(F.region == "EU"), "region")

    def test_unknown_in_methods(self, shop: Shop) -> None:
        """In every way of asking."""
        query = shop.orders.where().join(shop.customers, on=F.customer_id)
        wrong = query.where(F.customer.nam == "Ann")
        for ask in (
            wrong.count,
            wrong.exists,
            wrong.first,
            wrong.one,
            wrong.page,
            wrong.prepare,
            wrong.explain,
            wrong.to_dicts,
            lambda: list(wrong),
            lambda: query.sum("customer.nam"),
            lambda: query.min(F.custome),
        ):
            with pytest.raises(memdb.QueryError):
                ask()

    def test_comparison_that_can_not_be(self, shop: Shop) -> None:
        """A constant that no value of the slot's field can be ordered with is refused."""
        query = shop.orders.where().join(shop.customers, on=F.customer_id)

        refused(lambda: query.where(F.customer.name < 5), "name")
        refused(lambda: query.where(F.total < "a"), "total")
        refused(
            lambda: shop.orders.where().join(shop.customers, on=F.customer_id, where=F.name < 5),
            "name",
        )


@dataclass
class Stock:
    code: str
    amount: int
    codes: list[str]
    day: Any = None
    id: int = 0


class TestKeys:
    def test_unknown_fields(self, shop: Shop) -> None:
        """A field that is not there can't be joined on, on either side."""
        for ask, name in (
            (lambda: shop.orders.where().join(shop.customers, on=F.customer_i), "'customer_id'"),
            (lambda: shop.orders.where().join(shop.customers, on="customer_i"), "'customer_id'"),
            (lambda: shop.orders.where().join_many(shop.lines, back=F.order_i), "'order_id'"),
            (lambda: shop.orders.where().join(shop.products, on=(F.skuu, F.code)), "'sku'"),
            (lambda: shop.orders.where().join(shop.products, on=(F.sku, F.cod)), "'code'"),
        ):
            refused(ask, name)

    def test_right_field_as_left(self, shop: Shop) -> None:
        """A field of the right is not one of the left, and the other way round."""
        refused(lambda: shop.orders.where().join_many(shop.lines, on=F.order_id), "order_id")
        refused(lambda: shop.orders.where().join(shop.customers, back=F.customer_id), "customer_id")

    def test_types_that_are_never_equal(self, shop: Shop) -> None:
        """Keys of different types by annotation are refused: no row would ever match."""
        stock = shop.db.collection(Stock)
        for ask, *parts in (
            (lambda: stock.where().join(shop.customers, on=F.code), "str", "int"),
            (lambda: shop.customers.where().join(stock, back=F.code), "str", "int"),
            (lambda: stock.where().join_many(shop.tags, on=F.codes), "str", "int"),
            (lambda: shop.tags.where().join_many(stock, back=F.codes), "str", "int"),
            (lambda: stock.where().join(shop.products, on=(F.amount, F.code)), "str", "int"),
            (lambda: shop.products.where().join_many(stock, on=(F.code, F.amount)), "str", "int"),
        ):
            refused(ask, *parts)

        # What nobody knows is not refused.
        assert [] == stock.where().join(shop.customers, on=F.day).all()
        assert [] == stock.where().join(shop.products, on=(F.day, F.code)).all()
        assert [] == stock.where().join(shop.products, on=(F.amount, F.price)).all()

    def test_types_of_natural_keys(self, shop: Shop) -> None:
        """With a natural key its fields say what the identity is."""
        stock = shop.db.collection(Stock, key="code")

        refused(lambda: shop.orders.where().join(stock, on=F.total), "str", "int")
        refused(lambda: stock.where().join(shop.orders, back=F.total), "str", "int")
        assert 5 == len(shop.orders.where().join(stock, on=F.sku).all())

    def test_one_identity_where_a_list_is_expected(self, shop: Shop) -> None:
        """join_many(on=) takes a list of identities; what to write for one is said."""
        refused(lambda: shop.orders.where().join_many(shop.customers, on=F.customer_id), "join(")

    def test_list_where_one_identity_is_expected(self, shop: Shop) -> None:
        """join(on=) takes one identity; what to write for a list is said."""
        refused(lambda: shop.docs.where().join(shop.tags, on=F.tag_ids), "join_many")


class TestSeveralRights:
    @pytest.mark.parametrize(
        "ask",
        [
            lambda query: query.all(),
            lambda query: list(query),
            lambda query: query.first(),
            lambda query: query.page(0, 1),
            lambda query: query.order_by("-order.total").all(),
            lambda query: query.where(F.order.total == 30).all(),
            lambda query: query.where(F.order.total == 30).count(),
            lambda query: query.select(F.order.total).all(),
            lambda query: query.sum(F.order.total),
            lambda query: query.to_dicts(),
            lambda query: query.prepare()(),
        ],
    )
    def test_named(self, shop: Shop, ask: Any) -> None:
        """The left that has them is named, and what to write."""
        query = shop.customers.where().join(shop.orders, back=F.customer_id)
        for asked in (query, shop.products.where().join(shop.orders, on=(F.code, F.sku))):
            with pytest.raises(memdb.QueryError) as caught:
                ask(asked)
            for part in ("1", "join_many", "limit(1)"):
                assert part in str(caught.value)

    def test_natural_key_of_the_left(self, shop: Shop) -> None:
        """It is named by its key."""
        groups = shop.db.collection("group", key="code")
        groups.insert_many([{"code": "x"}, {"code": "it's"}])
        members = shop.db.collection("member")
        members.insert_many([{"of": "it's"}, {"of": "it's"}, {"of": "x"}])
        with pytest.raises(memdb.QueryError, match="it's"):
            groups.where().join(members, back=F.of).all()

    def test_not_where_they_are_filtered(self, shop: Shop) -> None:
        """Only rights that count are too many."""
        right = shop.orders.where(F.total > 15)

        assert [1, 3, None, None] == [
            row.order and row.order.id
            for row in shop.customers.where().join(right, back=F.customer_id)
        ]


class TestMethods:
    @pytest.mark.parametrize("name", ["update", "delete", "ids"])
    def test_not_there(self, shop: Shop, name: str) -> None:
        """Rows are not changed, and have no identities."""
        query: Any = shop.orders.where().join(shop.customers, on=F.customer_id)

        assert not hasattr(query, name)

    def test_after(self, shop: Shop) -> None:
        """A cursor is given to the left query, before the join."""
        cursor = shop.orders.where().order_by("total").page(take=1).cursor
        query = shop.orders.where().order_by("total").join(shop.customers, on=F.customer_id)

        refused(lambda: query.after(cursor), "before")

    def test_truth_value(self, shop: Shop) -> None:
        """Whether there are rows is asked by exists()."""
        query = shop.orders.where().join(shop.customers, on=F.customer_id)

        assert query.exists()
        with pytest.raises(TypeError):
            len(query)

    def test_repr(self, shop: Shop) -> None:
        """A joined query shows itself, without being asked."""
        query = (
            shop.orders.where(F.total > P.x)
            .join(shop.customers, on=F.customer_id, where=F.region == "EU", how="inner")
            .join_many(shop.lines, back=F.order_id, as_="what")
            .where(F.customer.name == "Ann")
            .order_by("-total")
            .limit(3)
        )
        for part in ("Order", "customer", "what", "F.total", "Ann", "3"):
            assert part in repr(query), repr(query)


# -- foreign keys ----------------------------------------------------------------------------


@dataclass
class Team:
    name: str
    captain_id: Annotated[int | None, memdb.ForeignKey("Player")] = None
    id: int = 0


@dataclass
class Player:
    name: str
    team_id: Annotated[int, memdb.ForeignKey(Team)] = 0
    former_team_ids: Annotated[list[int], memdb.ForeignKey("Team")] = field(default_factory=list)
    id: int = 0


@dataclass
class Match:
    home_id: Annotated[int, memdb.ForeignKey(Team)]
    guest_id: Annotated[int, memdb.ForeignKey(Team)]
    id: int = 0


class TestForeignKeys:
    def test_none_between_the_two(self, shop: Shop) -> None:
        """Without a key between the two on= or back= is needed; that there is none is said."""
        refused(lambda: shop.orders.where().join(Customer), "foreign key")
        refused(lambda: shop.customers.where().join_many(Order), "foreign key")

    def test_several(self) -> None:
        """Of several keys it has to be said which one is meant."""
        with memdb.open(None) as db:
            db.collection(Player)
            teams, matches = db.collection(Team), db.collection(Match)
            teams.insert_many([Team("A"), Team("B")])
            matches.insert(Match(1, 2))

            refused(lambda: matches.where().join(Team), "home_id", "guest_id", "on=")
            refused(lambda: teams.where().join_many(Match), "home_id", "guest_id", "back=")
            assert ("A", "B") == matches.where().join(Team, on=F.home_id, as_="home").join(
                Team, on=F.guest_id, as_="guest"
            ).select(F.home.name, F.guest.name).one()
