"""Queries: results as dicts, and as the tables of other libraries."""

from __future__ import annotations

import sys
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import datetime
from types import SimpleNamespace
from typing import Any, NamedTuple

import msgspec
import pytest

import memdb
from memdb import F
from memdb.errors import QueryError
from memdb.query import count_


class Spot(NamedTuple):
    x: int
    y: int


class Address(msgspec.Struct):
    city: str
    spot: Spot | None = None


@dataclass
class Person:
    name: str
    born: datetime | None = None
    homes: list[Address] = field(default_factory=list)
    by_name: dict[str, Address] = field(default_factory=dict)
    id: int = 0


@dataclass
class Note:
    text: str


@dataclass
class Failure(Exception):
    """A dataclass that is no record: only its own class can make one."""

    text: str


@pytest.fixture
def people(db: memdb.Database) -> memdb.Collection[Person]:
    """Two people, one with homes."""
    collection = db.collection(Person)
    home = Address("Rome", Spot(1, 2))
    collection.insert_many(
        [Person("Ann", datetime(2020, 1, 1), [home], {"main": home}), Person("Bob")]
    )
    return collection


class TestDicts:
    def test_records(self, people: memdb.Collection[Person]) -> None:
        """Records become dicts, those inside of them too; all other values stay as they are."""
        home = {"city": "Rome", "spot": {"x": 1, "y": 2}}

        assert [
            {
                "name": "Ann",
                "born": datetime(2020, 1, 1),
                "homes": [home],
                "by_name": {"main": home},
                "id": 1,
            },
            {"name": "Bob", "born": None, "homes": [], "by_name": {}, "id": 2},
        ] == people.where().to_dicts()

    def test_selected(self, people: memdb.Collection[Person]) -> None:
        """Selected values have the names of their fields, those given, or what they are."""
        query = people.where(name="Ann")

        assert [{"name": "Ann", "city": "Rome", "n": 1, "F.id + 1": 2}] == query.select(
            "name", F.homes[0].city, F.id + 1, n=F.homes.len_()
        ).to_dicts() or [{"name": "Ann", "city": "Rome", "F.id + 1": 2, "n": 1}] == query.select(
            "name", F.homes[0].city, F.id + 1, n=F.homes.len_()
        ).to_dicts()
        assert [{"homes": [{"city": "Rome", "spot": {"x": 1, "y": 2}}]}] == query.values(
            "homes"
        ).to_dicts()
        assert [{"name": "Ann"}] == query.select("name", into=Note).to_dicts()
        assert [{"count_()": 2}] == people.where().select(count_()).to_dicts()

    def test_same_names(self, people: memdb.Collection[Person]) -> None:
        """Two values of one name are refused."""
        with pytest.raises(QueryError, match="called 'name'"):
            people.where().select("name", name=F.id).to_dicts()

    def test_dicts(self, db: memdb.Database) -> None:
        """Plain dicts come as they are, all of them plain."""
        events = db.collection("events", serializer="pickle")
        events.insert({"a": OrderedDict(b=(Spot(1, 2), [Note("x")]))})
        events.insert({"a": Failure("x")})
        found = events.where().to_dicts()

        assert Failure is type(found.pop()["a"])
        assert [{"a": {"b": ({"x": 1, "y": 2}, [{"text": "x"}])}, "id": 1}] == found
        assert dict is type(found[0]["a"])

    def test_order_and_limit(self, people: memdb.Collection[Person]) -> None:
        """They are the results, in their order."""
        assert ["Bob"] == [
            found["name"] for found in people.where().order_by("-id").limit(1).to_dicts()
        ]


class TestPandas:
    def test_columns(self, people: memdb.Collection[Person]) -> None:
        """A frame has a column for each field, or for each selected value."""
        pytest.importorskip("pandas")
        frame = people.where().to_pandas()

        assert ["name", "born", "homes", "by_name", "id"] == list(frame.columns)
        assert ["Ann", "Bob"] == frame["name"].tolist()
        counts = people.where().group_by(F.homes.len_()).select(homes=F.homes.len_(), n=count_())
        assert [[0, 1], [1, 1]] == counts.to_pandas().values.tolist()

    def test_empty(self, people: memdb.Collection[Person], db: memdb.Database) -> None:
        """Without results it has its columns all the same."""
        pytest.importorskip("pandas")

        assert ["name", "born", "homes", "by_name", "id"] == list(
            people.where(id=9).to_pandas().columns
        )
        assert ["name"] == list(people.where(id=9).select("name").to_pandas().columns)
        assert (0, 0) == db.collection("events").where().to_pandas().shape

    def test_dicts(self, db: memdb.Database) -> None:
        """Plain dicts have the columns that any of them has."""
        pytest.importorskip("pandas")
        events = db.collection("events")
        events.insert_many([{"a": 1}, {"b": "x"}])

        assert {"a", "b", "id"} == set(events.where().to_pandas().columns)


class FakeArrow(SimpleNamespace):
    """What `to_arrow` needs of pyarrow."""

    class ArrowException(Exception):
        """As pyarrow's."""

    @staticmethod
    def array(values: list[Any]) -> list[Any]:
        """Return a column, if all its values are of one type."""
        if len({type(value) for value in values if value is not None}) > 1:
            raise FakeArrow.ArrowException("mixed.")
        return values

    @staticmethod
    def table(columns: dict[str, Any]) -> dict[str, Any]:
        """Return a table."""
        return columns


class TestArrow:
    def test_columns(
        self, people: memdb.Collection[Person], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A table has a column for each field, or for each selected value."""
        monkeypatch.setitem(sys.modules, "pyarrow", FakeArrow())  # type: ignore[arg-type]

        assert {"name": ["Ann", "Bob"], "id": [1, 2]} == people.where().select(
            "name", "id"
        ).to_arrow()
        assert {"name": [], "n": []} == people.where(id=9).select("name", n="id").to_arrow()

    def test_mixed_values(self, db: memdb.Database, monkeypatch: pytest.MonkeyPatch) -> None:
        """A column that Arrow refuses is named."""
        monkeypatch.setitem(sys.modules, "pyarrow", FakeArrow())  # type: ignore[arg-type]
        events = db.collection("events")
        events.insert_many([{"a": 1}, {"a": "x"}])
        with pytest.raises(QueryError, match=r"the column 'a' can't be one of Arrow: mixed\."):
            events.where().to_arrow()

    def test_the_real_one(self, people: memdb.Collection[Person]) -> None:
        """With pyarrow it is one of its tables."""
        pyarrow = pytest.importorskip("pyarrow")
        table = people.where().select("name", "born").to_arrow()

        assert isinstance(table, pyarrow.Table)
        assert ["Ann", "Bob"] == table["name"].to_pylist()


@pytest.mark.parametrize(
    ("method", "package", "extra"),
    [("to_pandas", "pandas", "pandas"), ("to_arrow", "pyarrow", "arrow")],
)
def test_not_installed(
    people: memdb.Collection[Person],
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    package: str,
    extra: str,
) -> None:
    """Without the package the error says how to install it."""
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(QueryError, match=f"needs {package}.*memdb-engine.{extra}"):
        getattr(people.where(), method)()
