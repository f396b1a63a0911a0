"""Queries: values of records instead of whole ones, and each of them once."""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytest

import memdb
from memdb import F
from memdb.errors import QueryError
from memdb.query import count_
from memdb.query._distinct import first_places, places_by_value


@dataclass
class Address:
    city: str
    zip: int = 0


@dataclass
class Person:
    name: str
    age: int | None = 0
    tags: list[str] = field(default_factory=list)
    home: Address | None = None
    id: int = 0


@dataclass
class Row:
    name: str
    city: str | None = None
    months: int | None = None


@dataclass
class Note:
    """Does not carry its identity, so that two can be equal."""

    text: str
    tags: list[str] = field(default_factory=list)


class Pair(NamedTuple):
    a: Any
    b: Any = None


class Dot(msgspec.Struct):
    x: int
    tags: list[str] = msgspec.field(default_factory=list)


@dataclass
class Loose:
    """Equal whenever the lower case is."""

    text: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Loose) and self.text.lower() == other.text.lower()


class Stubborn:
    """Does not even say whether it is equal."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError

    __hash__ = None  # type: ignore[assignment]


@pytest.fixture
def people(db: memdb.Database) -> memdb.Collection[Person]:
    """Ann, Bob and Cid under 1 to 3."""
    collection = db.collection(Person)
    collection.insert_many(
        [
            Person("Ann", 30, ["x"], Address("Rome", 1)),
            Person("Bob", None),
            Person("Cid", 30, ["x"], Address("Rome", 2)),
        ]
    )
    return collection


class TestSelect:
    def test_tuples(self, people: memdb.Collection[Person]) -> None:
        """Values in the sequence in which they are named, absent ones as None."""
        query = people.where()

        assert [("Ann", "Rome"), ("Bob", None), ("Cid", "Rome")] == query.select(
            "name", F.home.city
        ).all()
        assert [(1,), (2,), (3,)] == query.select("id").all()
        assert [("Ann", 360), ("Bob", None)] == query.limit(2).select(
            "name", months=F.age * 12
        ).all()
        assert [("Rome", "x"), (None, None)] == query.limit(2).select("home.city", F.tags[0]).all()
        assert [(1, 1)] == query.limit(1).select(F.tags.len_(), F["id"]).all()

    def test_single_values(self, people: memdb.Collection[Person]) -> None:
        """values() gives them as they are."""
        query = people.where()

        assert ["Ann", "Bob", "Cid"] == query.values("name").all() == list(query.values(F.name))
        assert "Cid" == query.order_by("-id").values("name").first()

    def test_into_a_class(self, people: memdb.Collection[Person]) -> None:
        """A class, or any function, is called with the values by name."""
        query = people.where().order_by("-id")

        assert [Row("Cid", "Rome", 360), Row("Bob"), Row("Ann", "Rome", 360)] == query.select(
            "name", F.home.city, months=F.age * 12, into=Row
        ).all()
        assert {"name": "Cid", "years": 30} == query.select("name", years="age", into=dict).first()
        assert 33 == query.select(a="age", b="id", into=lambda a, b: a + b).first()

    def test_whole_parts(self, people: memdb.Collection[Person]) -> None:
        """A nested record is given as a copy of its class."""
        assert Address("Rome", 1) == people.where().values("home").first()

    def test_of_dicts(self, db: memdb.Database) -> None:
        """Plain dicts have the fields that they have."""
        events = db.collection("events")
        events.insert_many([{"a": {"b": 1}}, {"a": 5}, {"c": 1}, {"a": {"b": None}}])

        assert [(1,), (None,), (None,), (None,)] == events.where().select("a.b").all()
        assert [1, None, None, None] == events.where().values(F.a["b"]).all()

    def test_of_several_classes(self, db: memdb.Database) -> None:
        """A field that only some classes have is None for the others."""
        both = db.collection(Row | Note, name="both")
        both.insert_many([Row("a", "Rome"), Note("b")])

        assert [("a", None), (None, "b")] == both.where().select("name", "text").all()

    def test_order_needs_no_selection(self, people: memdb.Collection[Person]) -> None:
        """Order and conditions are of the records, whatever is selected."""
        query = people.where(F.age == 30).order_by("-id").select("name")

        assert [("Cid",), ("Ann",)] == query.all()
        assert [("Ann",)] == query.skip(1).all()

    @pytest.mark.parametrize("value", ["", 5, None, F.a == 1, F, [F.name]])
    def test_no_value(self, people: memdb.Collection[Person], value: Any) -> None:
        """What is no value is refused when it is given."""
        query = people.where()
        for build in (query.select, query.values, query.group_by, query.sum, query.min):
            if value is not None or build not in (query.sum, query.min):
                with pytest.raises(QueryError):
                    build(value)

    def test_nothing(self, people: memdb.Collection[Person]) -> None:
        """An empty selection is refused."""
        with pytest.raises(QueryError, match="was given nothing"):
            people.where().select()

    def test_names_for_a_class(self, people: memdb.Collection[Person]) -> None:
        """What a class is called with needs a name, and each its own."""
        query = people.where()
        with pytest.raises(QueryError, match="needs a name"):
            query.select(F.age + 1, into=Row)
        with pytest.raises(QueryError, match="needs a name"):
            query.select(F.tags[0], into=Row)
        with pytest.raises(QueryError, match="called 'name'"):
            query.select("name", name=F.age, into=Row)
        with pytest.raises(QueryError, match="takes a class or a function, not 5"):
            query.select("name", into=5)  # type: ignore[call-overload]

    def test_one_group(self, people: memdb.Collection[Person]) -> None:
        """Aggregates without groups are over all records, also of none."""
        everything = (count_(), F.age.sum_(), F.age.mean_(), F.name.min_(), F.name.max_())

        assert [(3, 60, 30.0, "Ann", "Cid")] == people.where().select(*everything).all()
        assert [(0, 0, None, None, None)] == people.where(id=9).select(*everything).all()
        assert 1 == people.where(id=9).select(count_()).count()


def places_of(columns: list[list[Any]], size: int) -> list[list[int]]:
    """Return the places of each combination of values."""
    order, starts = places_by_value(columns, size)
    return [order[start:stop].tolist() for start, stop in pairwise(starts)]


class TestDistinct:
    def test_selected(self, people: memdb.Collection[Person]) -> None:
        """Equal results come once, where the first one is; skip and limit count what is left."""
        query = people.where().order_by("-id").select("age", "tags").distinct()

        assert [(30, ["x"]), (None, [])] == query.all()
        assert [(None, [])] == query.skip(1).all()
        assert [(30, ["x"])] == query.limit(1).all()
        assert (2, 1) == (query.count(), query.skip(1).count())
        assert [None, "Rome"] == people.where().order_by("age").values("home.city").distinct().all()

    def test_into_a_class(self, people: memdb.Collection[Person]) -> None:
        """The values are compared, not what is made of them."""
        made = people.where().select("age", into=lambda age: object()).distinct()

        assert 2 == len(made.all()) == made.count()

    def test_records(self, db: memdb.Database) -> None:
        """Whole records are compared as their class does."""
        notes = db.collection(Note)
        notes.insert_many([Note("a"), Note("b"), Note("a"), Note("a", ["x"])])

        assert [Note("a"), Note("b"), Note("a", ["x"])] == notes.where().distinct().all()
        assert 3 == notes.where().distinct().count()
        people = db.collection(Person)
        people.insert_many([Person("Ann"), Person("Ann")])
        assert 2 == people.where().distinct().count()

    def test_equal_values(self) -> None:
        """Values are one where Python calls them equal, and any two NaN, whatever holds them."""
        nan, other = math.nan, float("nan")
        array = np.array([1, 2])
        groups: list[list[Any]] = [
            [1, True, 1.0, Decimal(1), np.int64(1)],
            [nan, other, Decimal("NaN"), np.float64("nan")],
            ["1"],
            [b"1", bytearray(b"1")],
            [None],
            [[1, 2], [1.0, 2]],
            [(1, 2), Pair(1, 2), (True, 2)],
            [[nan], [other]],
            [Pair(nan, [1]), (other, [1])],
            [{1, 2}, frozenset([2, 1])],
            [{"a": [1]}, OrderedDict(a=[1])],
            [{"a": nan}, {"a": other}],
            [Note("a", ["x"]), Note("a", ["x"])],
            [Note("a", ["y"])],
            [Dot(1), Dot(1)],
            [Dot(1, ["x"])],
            [Loose("A"), Loose("a")],
            [array, array.copy()],
            [array.astype("f8")],
            [np.array([[1], "x"], dtype=object)],
            [np.array([[1], "x"], dtype=object)],
            [Decimal("sNaN")],
            [Decimal("sNaN")],
            [Stubborn()],
        ]
        values = [value for first in range(5) for group in groups for value in group[first::5]]
        numbered = list(enumerate(groups))
        where = [n for first in range(5) for n, group in numbered for _ in group[first::5]]
        expected: dict[int, list[int]] = {}
        for place, number in enumerate(where):
            expected.setdefault(number, []).append(place)

        assert list(expected.values()) == places_of([values], len(values))
        assert [places[0] for places in expected.values()] == first_places([values], len(values))

    def test_same_object(self) -> None:
        """What says of nothing whether it is equal is itself."""
        one, other = Stubborn(), Stubborn()

        assert [[0, 2], [1]] == places_of([[one, other, one]], 3)

    def test_single_group(self) -> None:
        """By nothing at all, everything is one."""
        assert [[0, 1, 2]] == places_of([], 3)
        assert [] == places_of([], 0)

    @pytest.mark.parametrize("values", [[3, 1, 3], ["a", "b", "a"], [1, True, None], [0.5, 1, 0.5]])
    def test_shortcut(self, values: list[Any]) -> None:
        """Where a dictionary can tell equal values, the result is the same as otherwise."""
        odd = [math.nan, [1]]

        assert first_places([values], 3) == first_places([[*values, *odd]], 5)[:-2]
        assert places_of([values], 3) == places_of([[*values, *odd]], 5)[:-2]
        assert first_places([values, values], 3) == first_places([values], 3)
        assert places_of([values, values], 3) == places_of([values], 3)

    def test_many(self) -> None:
        """However many different ones there are, each is where it was, and stands at its places."""
        size = 3 * 2**16
        values = [place * 7 % (2**16 + 5) for place in range(size)]
        expected: dict[int, list[int]] = {}
        for place, value in enumerate(values):
            expected.setdefault(value, []).append(place)

        assert list(expected.values()) == places_of([values], size)
