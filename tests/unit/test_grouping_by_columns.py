"""Aggregates of groups from column indexes: each as a twin collection without indexes gives it."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import Any

import pytest

import memdb
from memdb import ColumnIndex, F
from memdb.query import _aggregating, _grouping, count_
from memdb.query._aggregating import column_at


@dataclass
class Row:
    group: Any = None
    a: Any = 0
    b: Any = 0.0
    day: date | None = None
    id: int = 0


@dataclass
class Keyed:
    key: str
    group: Any = None
    a: Any = 0
    b: Any = 0.0
    day: date | None = None


INDEXES = (ColumnIndex("a"), ColumnIndex("b"), ColumnIndex("day"))


class Twins:
    """Two collections of the same records, one of them with columns."""

    def __init__(self, cls: type = Row, **options: Any) -> None:
        self.db = memdb.open(None)
        self.plain = self.db.collection(cls, name="plain", **options)
        self.own = self.db.collection(cls, name="own", indexes=INDEXES, **options)
        self.collections = [self.plain, self.own]

    def do(self, method: str, *given: Any, **named: Any) -> None:
        """Make the same change to both."""
        for collection in self.collections:
            getattr(collection, method)(*given, **named)

    def check(self, *conditions: Any) -> None:
        """Compare what both say of their groups, with types and signs."""
        plain, own = [answers(each, *conditions) for each in self.collections]

        assert plain == own


def answers(collection: Any, *conditions: Any) -> list[str]:
    """Return what a collection says of its groups."""
    query = collection.where(*conditions)
    found = []
    calculated = ["key"] if query._store.key else [F.id % 3]
    for terms in (["group"], calculated, ["group", "a"], []):
        for value in (F.a, F.b, F.day):
            taken = [count_(), value.min_(), value.max_()]
            if value is not F.day:
                taken += [value.sum_(), value.mean_()]
            groups = query.group_by(*terms) if terms else query
            made = groups.select(*terms, *taken)
            found.append(repr(made.all()))
            found.append(repr(made.having(count_() > 2).order_by(-count_()).limit(2).all()))
    return found


@pytest.fixture(autouse=True)
def columns_used(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Let columns stand for any number of records, and note whether they did."""
    used: list[bool] = []

    def noting(*given: Any) -> Any:
        found = column_at(*given)
        used.append(found is not None)
        return found

    monkeypatch.setattr(_aggregating, "_LEAST_RECORDS", 0)
    monkeypatch.setattr(_grouping, "column_at", noting)
    return used


@pytest.fixture
def twins() -> Iterator[Twins]:
    """Rows of a few groups, some of them without values."""
    pair = Twins()
    pair.do("insert_many", [row(n) for n in range(60)])
    yield pair
    pair.db.close()


def row(n: int) -> Row:
    """Return the n-th row."""
    a = None if n % 5 == 0 else n * 7919 % 23
    return Row(["x", "y", None, 1][n % 4], a, n / 8 - 3, date(2024, 1, 1 + n % 9))


class TestGroups:
    def test_of_all_records(self, twins: Twins, columns_used: list[bool]) -> None:
        """Sums and their kin of numbers come from a column; those of dates from the records."""
        twins.check()

        plain, own = columns_used[: len(columns_used) // 2], columns_used[len(columns_used) // 2 :]
        assert not any(plain)
        assert {True, False} == set(own)

    def test_of_some_records(self, twins: Twins, columns_used: list[bool]) -> None:
        """With a condition the records are looked at."""
        twins.check(F.a > 3)

        assert [] == columns_used

    def test_after_changes(self, twins: Twins, columns_used: list[bool]) -> None:
        """Whatever was changed, deleted or put in between."""
        twins.do("update", 7, a=1_000, group="new")
        twins.check()
        for number in (1, 2, 33, 60):
            twins.do("delete", number)
        twins.check()
        twins.do("put", Row("y", 4, -1.5, id=200))
        twins.do("put", Row("y", 5, -2.5, id=100))
        twins.do("put", Row("x", 6, -3.5, id=2))
        twins.check()
        twins.do("update", 8, a=2**70)
        twins.check()
        twins.do("clear")
        twins.check()

        assert any(columns_used)

    def test_without_values(self) -> None:
        """A column that has none at all."""
        twins = Twins()
        twins.do("insert_many", [Row("x", None, None), Row("y", None, None)])
        twins.check()

    @pytest.mark.parametrize(
        "values",
        [
            [1, 2.5, 3],
            [True, False, 2],
            [True, True],
            [2**63, 1],
            [2**62, 2**62, 2**62],
            [0.0, -0.0],
            [-0.0, 0.0, math.inf],
            [math.nan, 1.0],
            [1e308, 1e308, -1e308],
            [date(2024, 1, 1)],
            ["text"],
        ],
        ids=str,
    )
    def test_other_values(self, values: list[Any]) -> None:
        """What is given back is of the type and sign that the records have."""
        twins = Twins()
        rows = [Row(n % 2, value) for n, value in enumerate(values * 2)]
        twins.do("insert_many", rows)
        terms: list[Any] = ["group", count_(), F.a.min_(), F.a.max_()]
        if not isinstance(values[0], str | date):
            terms += [F.a.sum_(), F.a.mean_()]
        plain, own = [
            repr(each.query().group_by("group").select(*terms).all()) for each in twins.collections
        ]

        assert plain == own

    def test_natural_keys(self, columns_used: list[bool]) -> None:
        """Their records come in another order than the rows of a column."""
        twins = Twins(Keyed, key="key")
        twins.do("insert_many", [Keyed(f"k{n}", n % 3, n, n / 2) for n in range(30)])
        twins.do("update", "k3", a=99)
        twins.check()

        assert [] == columns_used


class TestStates:
    def test_transactions(self, twins: Twins, columns_used: list[bool]) -> None:
        """Inside of a transaction its own changes count."""
        with twins.db.transaction():
            twins.do("update", 7, a=1_000)
            twins.check()
            twins.do("insert", Row("new", 5))
            twins.check()
        assert not any(columns_used)
        twins.check()
        assert any(columns_used)

    def test_a_change_meanwhile(self, twins: Twins, monkeypatch: pytest.MonkeyPatch) -> None:
        """A column of another commit than the records is not taken."""
        places = _grouping.places_by_value
        inserted = []

        def changing(*given: Any) -> Any:
            if not inserted:
                inserted.append(twins.own.insert(Row("x", 10_000)))
                twins.own.delete(1)
            return places(*given)

        query = twins.own.query().group_by("group").select("group", F.a.sum_())
        before = query.all()
        monkeypatch.setattr(_grouping, "places_by_value", changing)

        assert before == query.all()
        assert before != query.all()

    def test_an_index_that_goes(self, twins: Twins, monkeypatch: pytest.MonkeyPatch) -> None:
        """A column that is dropped, or whose name becomes another index's, is not taken."""
        read = _aggregating._read

        def dropping(*given: Any) -> Any:
            if twins.own.indexes["a"] == INDEXES[0]:
                twins.own.indexes.drop("a")
                twins.own.indexes.add(ColumnIndex("b", name="a"))
            return read(*given)

        monkeypatch.setattr(_aggregating, "_read", dropping)

        twins.check()

    def test_threads(self) -> None:
        """Groups are of one commit while others write."""
        db = memdb.open(None)
        rows = db.collection(Row, indexes=[ColumnIndex("a")])
        rows.insert_many([Row(n % 2, 1) for n in range(500)])
        query = rows.query().group_by("group").select("group", F.a.sum_(), count_())
        errors: list[Any] = []
        stop = threading.Event()

        def write() -> None:
            for number in range(1, 200):
                with db.transaction():
                    rows.update(number, a=8)
                    rows.update(number + 2, a=-6)
                    rows.insert_many([Row(0, 3), Row(0, -3)])
                    rows.update(number, a=1)
                    rows.update(number + 2, a=1)
            stop.set()

        def read() -> None:
            while not stop.is_set():
                (_, first, size), *rest = query.all()
                if (first, size % 2, rest) != (250, 0, [(1, 250, 250)]):
                    errors.append((first, size, rest))

        threads = [threading.Thread(target=write), *[threading.Thread(target=read) for _ in "ab"]]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert [] == errors
        db.close()
