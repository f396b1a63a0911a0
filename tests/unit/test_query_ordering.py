"""Queries: the order of their results."""

from __future__ import annotations

import enum
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID

import pytest

import memdb
from memdb import F
from memdb.errors import QueryError
from memdb.query import _reading, count_
from memdb.query._ordering import arrange, keys_of


class Color(enum.Enum):
    RED = "r"
    BLUE = "b"


@dataclass
class Item:
    a: Any = None
    b: Any = None
    id: int = 0


@dataclass
class User:
    name: str
    group: int = 0
    tenant: int = 0


# From the first to the last in the total order; those in one list are equal.
LADDER: list[list[Any]] = [
    [None],
    [-math.inf],
    [-1, -1.0, Decimal(-1)],
    [0, False, -0.0],
    [Decimal("0.1")],
    [0.1],
    [Fraction(1, 2), 0.5],
    [1, True, 1.0, Decimal("1.0")],
    [2**53],
    [2**53 + 1],
    [10**400],
    [math.inf],
    [math.nan, float("-nan"), Decimal("NaN")],
    [""],
    ["A"],
    ["a"],
    ["ab"],
    [b"", bytearray(b"")],
    [b"a"],
    [date(2020, 1, 1)],
    [datetime(2019, 1, 1)],
    [
        datetime(2020, 1, 1, tzinfo=UTC),
        datetime(2020, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))),
    ],
    [datetime(2020, 1, 1, 0, 30, tzinfo=UTC)],
    [time(23)],
    [timedelta(-1)],
    [timedelta(1)],
    [UUID(int=1)],
    [UUID(int=2)],
    [Color.RED],
    [Color.BLUE],
    [[]],
    [[1], (1.0,)],
    [[1, None]],
    [[1, "a"]],
    [[2]],
]


def identities(query: Any) -> list[Any]:
    """Return the identities of the results in order."""
    return [item.id for item in query.all()]


@pytest.fixture
def items(db: memdb.Database) -> memdb.Collection[Item]:
    """An empty collection."""
    return db.collection(Item)


class TestTotalOrder:
    @pytest.mark.parametrize("skip", [0, 1, 20, 41, 60])
    def test_values_of_all_types(self, db: memdb.Database, skip: int) -> None:
        """Everything has its place, equal values rise by identity, also when falling."""
        events = db.collection("events", serializer="pickle")
        ladder = [[{"b": "absent"}], *[[{"a": value} for value in step] for step in LADDER]]
        places = [(place, record) for place, step in enumerate(ladder) for record in step]
        # Every seventh of each other, so that neither they nor what is equal stands in order.
        mixed = [each for first in range(7) for each in places[first::7]]
        ids = events.insert_many([{**record, "place": place} for place, record in mixed])
        where = dict(zip(ids, [place for place, _ in mixed], strict=True))

        for limit in (1, 3, None):
            rising = events.where().order_by("a").skip(skip).limit(limit).ids()
            falling = events.where().order_by("-a").skip(skip).limit(limit).ids()
            stop = None if limit is None else skip + limit
            assert sorted(ids, key=lambda i: (where[i], i))[skip:stop] == rising
            assert sorted(ids, key=lambda i: (-where[i], i))[skip:stop] == falling

    def test_extremes(self, items: memdb.Collection[Item]) -> None:
        """Min and max are the first and the last of this order."""
        items.insert_many([Item(value) for value in (3, None, "x", 1.5, True)])

        assert (True, "x") == (items.where().min("a"), items.where().max("a"))

    @pytest.mark.parametrize(
        "values",
        [
            [3, 1, 2, 1],
            [3, True, False, 2],
            [1.5, -math.inf, math.inf, 0.0],
            [math.inf, -math.inf, math.inf, -math.inf],
            [1, 0.5, True, 2**60],
            [10**400, 1.5, 2, -(10**400)],
            [1, math.nan, 2, math.nan],
            ["b", "a", "c", "a"],
            [b"b", b"a", b"c", b"a"],
            [date(2020, 1, 2), date(2020, 1, 1), date(2021, 1, 1), date(2020, 1, 1)],
            [datetime(2020, 1, 2), datetime(2020, 1, 1), datetime(2021, 1, 1), datetime(1, 1, 1)],
            [datetime(2020, 1, 2), datetime(2020, 1, 2, tzinfo=UTC), datetime(2019, 1, 1), None],
            [timedelta(2), timedelta(1), timedelta(0), timedelta(1)],
            [Decimal(1), Decimal("NaN"), Decimal("0.5"), 0.75],
            [None, None, None, None],
        ],
        ids=repr,
    )
    def test_shortcuts(self, values: list[Any]) -> None:
        """Where values are their own keys, the order is as by sort keys."""
        mixed = [*values, "zz", None]
        for falling in (False, True):
            places = arrange([values], [falling], 4, 0, 4)
            among = arrange([mixed], [falling], 6, 0, 6)
            assert [place for place in among if place < 4] == places

    def test_own_keys(self) -> None:
        """Values of one plain type are not touched."""
        for values in ([1, 2], [1.5, True], ["a"], [b"a"], [date(1, 1, 1)], [datetime(1, 1, 1)]):
            assert keys_of(values)[0] is values
        for others in ([None, 1], [math.nan], [datetime(1, 1, 1, tzinfo=UTC)], ["a", 1]):
            assert keys_of(others)[0] is not others


class TestTerms:
    @pytest.mark.parametrize("count", [3, 50])
    @pytest.mark.parametrize("limit", [1, 5, 49, None])
    def test_several(self, items: memdb.Collection[Item], count: int, limit: int | None) -> None:
        """The first term decides, then the next, each in its direction, then the identity."""
        made = [Item(str(number % 3), number % 4, number) for number in range(1, count + 1)]
        items.insert_many(made)
        for falls in itertools.product((False, True), repeat=2):
            terms = [("-" if fall else "") + name for fall, name in zip(falls, "ab", strict=True)]
            expected = sorted(made, key=lambda item: item.b, reverse=falls[1])
            expected.sort(key=lambda item: item.a, reverse=falls[0])
            numbers = ["-b" if falls[1] else "b", "a" if falls[0] else "-a"]
            by_number = sorted(made, key=lambda item: item.a, reverse=not falls[0])
            by_number.sort(key=lambda item: item.b, reverse=falls[1])

            query = items.where().limit(limit)
            assert expected[:limit] == query.order_by(*terms).all()
            assert by_number[:limit] == query.order_by(*numbers).all()

    def test_forms(self, items: memdb.Collection[Item]) -> None:
        """A term is a name, a value, or one with a direction."""
        items.insert_many([Item({"x": 2}, -7), Item({"x": 1}, 3), Item({"x": 3}, 4)])
        query = items.where()

        for rising in ("a.x", F.a.x, F.a["x"], F.a.x.asc(), F.a.x.desc().asc(), F.a.x + 1):
            assert [2, 1, 3] == identities(query.order_by(rising))
        for falling in ("-a.x", F.a.x.desc(), -F.a.x):
            assert [3, 1, 2] == identities(query.order_by(falling))
        assert [2, 3, 1] == identities(query.order_by(abs(F.b)))
        assert [1, 2, 3] == identities(query.order_by())

    @pytest.mark.parametrize("term", ["", "-", 5, None, F.a == 1, F, ["a"], b"a"])
    def test_no_term(self, items: memdb.Collection[Item], term: Any) -> None:
        """What is none is refused when it is given."""
        with pytest.raises(QueryError):
            items.where().order_by(term)

    def test_aggregates(self, items: memdb.Collection[Item]) -> None:
        """Single records have no aggregates to order by."""
        with pytest.raises(QueryError, match="calculated over a group"):
            items.where().order_by(count_()).all()

    def test_many_calculations(
        self, items: memdb.Collection[Item], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Generated functions are kept for the last structures alone."""
        monkeypatch.setattr(_reading, "_kept", kept := {})
        monkeypatch.setattr(_reading, "_MOST_KEPT", 2)
        items.insert_many([Item(5, -1), Item(3, -2)])
        for term in (F.a + 1, F.a + F.b, F.a - F.b, abs(F.a), F.a + 2):
            assert [2, 1] == identities(items.where().order_by(term))
            assert len(kept) <= 2

    def test_absent_on_the_way(self, items: memdb.Collection[Item]) -> None:
        """A path that leads through None, or nowhere, comes first."""
        items.insert_many([Item({"x": 1}), Item(None), Item({"y": 1}), Item({"x": None})])

        assert [2, 3, 4, 1] == identities(items.where().order_by("a.x"))

    def test_calculation_that_fails(self, items: memdb.Collection[Item]) -> None:
        """What can't be calculated is absent."""
        items.insert_many([Item(5, 2), Item(5, 0), Item("x", 2), Item(4, 2)])

        assert [2, 3, 4, 1] == identities(items.where().order_by(F.a / F.b))


class TestTies:
    @pytest.mark.parametrize("limit", [3, 19, None])
    def test_by_identity(self, items: memdb.Collection[Item], limit: int | None) -> None:
        """What is equal rises by identity, in both directions, whatever was written last."""
        for identity in (17, *range(1, 17), 40):
            items.insert(Item(1, id=identity))
        items.update(3, a=2)
        items.update(3, a=1)
        expected = [*range(1, 18), 40][:limit]
        for term in ("a", "-a"):
            assert expected == identities(items.where().order_by(term).limit(limit))

    def test_natural_key(self, db: memdb.Database) -> None:
        """In a collection with a natural key they rise by the key, not by their writing."""
        users = db.collection(User, key="name")
        users.insert_many([User(name, group % 2) for group, name in enumerate("zyxabc")])
        users.update("c", group=5)
        users.update("c", group=1)

        assert list("xzbacy") != users.where().order_by("group").ids()
        assert list("bxzacy") == users.where().order_by("group").ids()
        assert list("acybxz") == users.where().order_by("-group").ids()
        assert list("zyxabc") == users.where().ids()

    def test_compound_key(self, db: memdb.Database) -> None:
        """With several fields in the key, by each of them in turn."""
        users = db.collection(User, key=("tenant", "name"))
        users.insert_many([User("b", 0, 10), User("a", 0, 10), User("c", 0, 9)])

        assert [(9, "c"), (10, "a"), (10, "b")] == users.where().order_by("group").ids()


class TestWindows:
    @pytest.mark.parametrize("size", [0, 1, 7, 40])
    def test_every_end(self, size: int) -> None:
        """Positions start to stop are those of the whole order, for each start and stop."""
        columns: Sequence[list[Any]] = [[n * 7 % 5 for n in range(size)], [-n for n in range(size)]]
        whole = arrange(columns, [True, False], size, 0, size)
        for start in range(0, size + 3, 3):
            for stop in range(0, size + 3, 3):
                assert whole[start:stop] == arrange(columns, [True, False], size, start, stop)
