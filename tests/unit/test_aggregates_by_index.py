"""Aggregates that need no record: each as a twin collection without indexes gives it."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memdb
from memdb import ColumnIndex, F, HashIndex, SortedIndex
from memdb.errors import ClosedError, QueryError
from memdb.indexes._sums import sum_of_floats
from memdb.query import _aggregating
from memdb.query._aggregating import NO_ANSWER, answer
from memdb.query._fields import value_term
from memdb.query._query import Query

WHATS = ("sum", "mean", "min", "max")

INDEXES = (ColumnIndex("a"), ColumnIndex("b"), ColumnIndex("day"), ColumnIndex("at"))


@dataclass
class Row:
    a: Any = None
    b: Any = None
    day: date | None = None
    at: datetime | None = None
    name: str = ""
    id: int = 0


@dataclass
class Named:
    key: str
    a: Any = None


@pytest.fixture(autouse=True)
def no_record_is_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let indexes answer for collections of any size."""
    monkeypatch.setattr(_aggregating, "_LEAST_RECORDS", 0)
    monkeypatch.setattr(_aggregating, "_LEAST_COMPARED", 0)


class Twins:
    """Two collections of the same records, one of them with indexes."""

    def __init__(self, *indexes: Any, path: Path | None = None, **options: Any) -> None:
        self.db = memdb.open(path)
        options = {"cls": Row, **options}
        cls = options.pop("cls")
        self.plain = self.db.collection(cls, name="plain", **options)
        self.own = self.db.collection(cls, name="own", indexes=indexes, **options)

    def do(self, change: Callable[[Any], object]) -> None:
        """Make the same change to both."""
        change(self.plain)
        change(self.own)

    def check(self, condition: Any = None, field: str = "a", *, is_certain: bool = True) -> None:
        """Compare every aggregate, and check that an index gave it."""
        conditions = [] if condition is None else [condition]
        plain, own = self.plain.where(*conditions), self.own.where(*conditions)
        assert outcome(plain, "count") == outcome(own, "count"), condition
        for what in WHATS:
            expected, found = outcome(plain, what, field), outcome(own, what, field)
            assert expected == found, (what, condition)
            if is_certain and not expected.startswith("QueryError"):
                assert found == shown(by_index(self.own, condition, field, what)), what


def shown(value: object) -> str:
    """Return a value with its type, so that 1, 1.0 and True, 0.0 and -0.0 differ."""
    return f"{type(value).__name__} {value!r}"


def outcome(query: Query[Any], what: str, *fields: str) -> str:
    """Return what an aggregate gives or raises."""
    try:
        return shown(getattr(query, what)(*fields))
    except QueryError:
        return "QueryError"


def by_index(collection: Any, condition: Any, field: str | None, what: Any) -> Any:
    """Return what indexes alone say."""
    value = None if field is None else value_term(field)
    return answer(collection.where()._store, condition, value, what)


@pytest.fixture
def twins() -> Iterator[Twins]:
    """Some rows of plain numbers."""
    pair = Twins(*INDEXES)
    rows = [Row(a=n % 7, b=n / 4, day=date(2024, 1, 1 + n % 28)) for n in range(50)]
    pair.do(lambda collection: collection.insert_many(rows))
    yield pair
    pair.db.close()


class TestColumns:
    @pytest.mark.parametrize(
        "values",
        [
            [],
            [None, None],
            [3, None, -4, 3],
            [2**62, 2**62, 2**62],
            [-(2**63), 2**63 - 1, -1],
            [True, False, None, True],
            [False],
            [0.1] * 10,
            [1.5, math.nan, -math.inf],
            [math.nan, math.nan],
            [math.inf, -math.inf],
            [1e308, 1e308, -1e308],
            [-0.0],
        ],
    )
    def test_values(self, values: list[Any]) -> None:
        """Values of one type have the same sum, mean, first and last, type and all."""
        pair = Twins(*INDEXES)
        pair.do(lambda c: c.insert_many([Row(a=value) for value in values]))

        pair.check()
        pair.check(F.a > 0)
        pair.check(F.a.is_none())
        pair.db.close()

    @pytest.mark.parametrize(
        "values",
        [
            [1, 2.5],
            [0.0, -0.0],
            [-0.0, 0.0],
            [True, 2],
            [2**63, 1],
            [1e308, 1e308, math.inf],
            ["a", 1],
            [Decimal(1), Decimal("1.0")],
            [1e308, 1e308],
        ],
    )
    def test_what_columns_can_not_tell(self, values: list[Any]) -> None:
        """Where a column is not certain of the value and its type the records are asked."""
        pair = Twins(*INDEXES)
        pair.do(lambda c: c.insert_many([Row(a=value) for value in values]))

        pair.check(is_certain=False)
        pair.check(F.a != 5, is_certain=False)
        pair.db.close()

    def test_floats_among_ints(self) -> None:
        """A column that had floats among its ints only counts."""
        pair = Twins(*INDEXES)
        pair.do(lambda c: c.insert_many([Row(a=1), Row(a=2)]))
        pair.check()
        pair.do(lambda c: c.insert(Row(a=0.5)))
        pair.check(is_certain=False)
        pair.do(lambda c: c.where(F.a == 0.5).delete())

        pair.check(is_certain=False)
        assert by_index(pair.own, None, "a", "sum") is NO_ANSWER
        assert by_index(pair.own, F.a >= 2, None, "count") == 1
        pair.db.close()

    @pytest.mark.parametrize("field", ["day", "at"])
    def test_dates(self, twins: Twins, field: str) -> None:
        """Dates have a first and a last, and no sum."""
        moments = [Row(at=datetime(2024, 1, n, tzinfo=UTC), a=n) for n in (5, 3, 9)]
        twins.do(lambda c: c.insert_many(moments))

        twins.check(field=field)
        twins.check(F.at > datetime(2024, 1, 4, tzinfo=UTC), field)
        twins.check(F.day.between(date(2024, 1, 4), date(2024, 1, 9)), field)

    def test_names_of_zones(self) -> None:
        """Zones that are equal and have other names are told apart."""
        zones = [timezone(timedelta(hours=1), name) for name in ("CET", "BST")]
        for first, second in (zones, zones[::-1]):
            pair = Twins(ColumnIndex("at"))
            pair.do(lambda c, zone=first: c.insert(Row(at=datetime(2024, 1, 2, tzinfo=zone))))
            pair.check(field="at", is_certain=False)
            pair.do(lambda c, zone=second: c.insert(Row(at=datetime(2024, 1, 1, tzinfo=zone))))

            pair.check(field="at", is_certain=False)
            pair.db.close()

    @pytest.mark.parametrize(
        "condition",
        [
            F.a == 3,
            F.a != 3,
            F.a < 3,
            F.a <= 3.5,
            F.a > Fraction(5, 2),
            F.a >= Decimal("2.5"),
            F.a.between(2, 4),
            F.a.between(4, 2),
            F.a.in_([1, 5, 5.0, None, "x"]),
            F.a.in_([]),
            F.a == None,  # noqa: E711
            F.a.is_none(),
            F.a > math.nan,
            F.a != math.nan,
            F.a < math.inf,
            F.a < 10**30,
            F.a == "x",
            F.a != "x",
            F.a < "x",
            F.a == True,  # noqa: E712
            (F.a > 2) & (F.b < 7.5),
            (F.a > 2) & (F.b < 7.5) & (F.day != date(2024, 1, 3)),
            (F.a > 5) | (F.b < 2),
            ~(F.a > 2) & ~((F.b > 3) | (F.a == 0)),
            ~F.a.is_none(),
        ],
        ids=repr,
    )
    def test_conditions(self, twins: Twins, condition: Any) -> None:
        """Comparisons of columns with constants need no record, however they are joined."""
        twins.do(lambda c: c.insert_many([Row(), Row(a=2), Row(b=1.0)]))

        twins.check(condition)
        twins.check(condition, "b")
        assert by_index(twins.own, condition, None, "count") == twins.plain.where(condition).count()

    def test_what_is_left_to_records(self, twins: Twins) -> None:
        """Conditions of other fields, of calculations and functions, and long lists."""
        conditions = [
            F.name == "x",
            (F.a > 1) & (F.name == ""),
            F.a + 1 > 3,
            F.a < F.b,
            F.a.in_(range(100)),
            F.a.is_(True),
            F.a == 1j,
        ]
        for condition in conditions:
            twins.check(condition, is_certain=False)
            assert by_index(twins.own, condition, "a", "sum") is NO_ANSWER, condition
        twins.check(lambda row: row.a == 3, is_certain=False)
        assert by_index(twins.own, None, "name", "min") is NO_ANSWER
        assert by_index(twins.own, None, "a", "sum") == 147

    def test_calculated_values(self, twins: Twins) -> None:
        """The sum of a calculation is made of the records."""
        assert twins.plain.where().sum(F.a * 2) == twins.own.where().sum(F.a * 2)

    def test_refusals_stay(self) -> None:
        """What can't be compared with an annotated field is refused, and so is what has no sum."""
        pair = Twins(*INDEXES)
        pair.do(lambda c: c.insert(Row(day=date(2024, 1, 1))))

        for query in (pair.plain.where(F.day < "x"), pair.own.where(F.day < "x")):
            for ask in (query.count, lambda query=query: query.sum("a")):
                with pytest.raises(QueryError, match="can't be compared"):
                    ask()
        with pytest.raises(QueryError, match="no sum"):
            pair.own.where().sum("day")
        with pytest.raises(QueryError, match="no field"):
            pair.own.where().sum("aa")
        pair.db.close()

    def test_parts_are_made_of_records(self, twins: Twins) -> None:
        """Skip, limit, selections and pages count."""
        for query in (
            twins.own.where().skip(45),
            twins.own.where().limit(3),
            twins.own.where().order_by("-b").limit(2),
        ):
            assert sum(row.a for row in query.all()) == query.sum("a")
            assert min(row.b for row in query.all()) == query.min("b")
            assert len(query.all()) == query.count()
        assert twins.own.where(F.a > 3).limit(2).count() == 2
        assert twins.own.where().values("a").sum() == 147
        with pytest.raises(QueryError, match="whole records"):
            twins.own.where().group_by("a").sum("a")

    def test_nested_and_absent(self) -> None:
        """Paths into dicts; where they lead nowhere there is no value."""
        db = memdb.open(None)
        plain, own = (
            db.collection("plain"),
            db.collection("own", indexes=[ColumnIndex("in.x"), ColumnIndex("y")]),
        )
        rows = [{"in": {"x": 3}}, {"in": None, "y": 1}, {"in": {"x": None}}, {"y": 5}, {"in": {}}]
        for collection in (plain, own):
            collection.insert_many(rows)

        for condition in (F.y > 0, F["in"].x != 3, ~(F.y > 1), F["in"].x.is_none(), F.y >= 0):
            assert plain.where(condition).count() == own.where(condition).count()
            for what in WHATS:
                expected = getattr(plain.where(condition), what)("in.x")
                assert shown(expected) == shown(getattr(own.where(condition), what)("in.x"))
        assert by_index(own, F.y > 0, "in.x", "sum") == 0
        assert by_index(own, None, "in.x", "sum") == 3
        db.close()

    def test_columns_that_came_about_differently(self, twins: Twins) -> None:
        """Masks of a column whose rows are others than those of the column that is added."""
        twins.check(F.a > 2)
        twins.do(lambda c: c.where(F.a == 1).delete())
        twins.check(F.a > 2)
        twins.own.indexes.drop("b")
        twins.own.indexes.add(ColumnIndex("b"))
        twins.do(lambda c: c.insert_many([Row(a=5, b=0.5), Row(a=None, b=7.0), Row(a=6)]))

        for condition in (F.b < 5, F.b != 0.5, F.b.is_none(), ~(F.b < 5)):
            twins.check(condition, "a")
            twins.check(condition & (F.a > 2), "b")
            twins.check(~condition | (F.a == 2), "a")

    def test_other_indexes_go_first(self, twins: Twins) -> None:
        """Where another index gives the count, or few candidates, no column is looked at."""
        twins.own.indexes.add(HashIndex("a", name="by_a"))

        assert by_index(twins.own, F.a == 3, None, "count") is NO_ANSWER
        assert by_index(twins.own, (F.a == 3) & (F.b > 2), None, "count") is not NO_ANSWER
        twins.check((F.a == 3) & (F.b > 2))
        twins.check((F.a == 100) & (F.b > 2), is_certain=False)
        assert by_index(twins.own, (F.a == 100) & (F.b > 2), None, "count") is NO_ANSWER

    def test_few_records(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A loop over a few records is left to itself, and a column answers for many."""
        monkeypatch.undo()
        pair = Twins(*INDEXES)
        pair.do(lambda c: c.insert(Row(a=1, b=1.0)))
        assert by_index(pair.own, None, "a", "sum") is NO_ANSWER
        pair.do(lambda c: c.insert_many([Row(a=n, b=n / 7) for n in range(3000)]))

        pair.check(F.a > 700, "b")
        pair.check(field="b")
        pair.db.close()


class TestSortedIndexes:
    @pytest.mark.parametrize("name", ["a", "-a"])
    @pytest.mark.parametrize(
        "values",
        [
            [],
            [None, None],
            [3, None, 5, 5, -1],
            [1, 1.0, True, 2, 2.0, Fraction(2)],
            [True, 1, 1.0],
            [0.0, -0.0],
            [-0.0, 0.0],
            [math.nan, 1.0, None],
            [math.nan],
            ["b", 1, "a", None, b"x"],
            [[1, 2], (1, 2), [1.0, 2]],
            [{1}, {2}],
            [Decimal("1.0"), Decimal("1.00")],
            [datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 1)],
        ],
        ids=repr,
    )
    def test_first_and_last(self, name: str, values: list[Any]) -> None:
        """The first and the last that is not None, of equal ones the first record's."""
        pair = Twins(SortedIndex(name))
        pair.do(lambda c: c.insert_many([Row(a=value) for value in values]))

        for what in ("min", "max"):
            expected = outcome(pair.plain.where(), what, "a")
            assert expected == outcome(pair.own.where(), what, "a")
            assert expected == shown(by_index(pair.own, None, "a", what))
        pair.db.close()

    @pytest.mark.parametrize("name", ["a", "-a"])
    def test_natural_keys(self, name: str) -> None:
        """Of equal values that of the record that was written first."""
        pair = Twins(SortedIndex(name), cls=Named, key="key")
        pair.do(lambda c: c.insert_many([Named("a", 1), Named("b", 1.0), Named("c", True)]))
        pair.do(lambda c: c.put(Named("a", Decimal(1))))

        for what in ("min", "max"):
            expected = outcome(pair.plain.where(), what, "a")
            assert expected == outcome(pair.own.where(), what, "a")
            assert expected == shown(by_index(pair.own, None, "a", what))
        pair.db.close()

    def test_many_equal_keys(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """With natural keys many equal values are left to the records."""
        monkeypatch.setattr(_aggregating, "_MOST_EQUAL", 2)
        pair = Twins(SortedIndex("a"), cls=Named, key="key")
        pair.do(lambda c: c.insert_many([Named(name, 1) for name in "abc"]))

        assert by_index(pair.own, None, "a", "min") is NO_ANSWER
        assert 1 == pair.own.where().min("a")
        pair.db.close()

    def test_partial_and_compound(self) -> None:
        """An index of some records, or of several fields, does not know the first value."""
        pair = Twins(
            SortedIndex("a", where=F.b == 1, name="some"), SortedIndex("a", "b", name="two")
        )
        pair.do(lambda c: c.insert_many([Row(a=1, b=0), Row(a=2, b=1)]))

        assert by_index(pair.own, None, "a", "min") is NO_ANSWER
        assert 1 == pair.own.where().min("a")
        pair.db.close()

    def test_given_values_are_own(self) -> None:
        """Changing what was given changes no record."""
        pair = Twins(SortedIndex("a"))
        pair.own.insert(Row(a=[1, 2]))

        pair.own.where().min("a").append(3)

        assert [1, 2] == pair.own.where().min("a")
        pair.db.close()


class TestStates:
    def test_changes(self, twins: Twins) -> None:
        """Inserted, updated, replaced and deleted records count at once."""
        changes: list[Callable[[Any], object]] = [
            lambda c: c.insert(Row(a=100, b=-1.0)),
            lambda c: c.where(F.a == 3).update(a=F.a + 50),
            lambda c: c.where(F.a == 100).delete(),
            lambda c: c.where(F.a == 1).update(a=None),
            lambda c: c.insert_many([Row(a=n) for n in range(200)]),
            lambda c: c.where(F.a > 5).delete(),
            lambda c: c.where().delete(),
            lambda c: c.insert(Row(a=4)),
        ]
        for change in changes:
            twins.do(change)
            for condition in (None, F.a > 2, (F.a != 4) & (F.b >= 2)):
                twins.check(condition)
                twins.check(condition, "b")

    def test_changes_in_sorted_indexes(self) -> None:
        """The first and the last value go and come."""
        pair = Twins(SortedIndex("a"), SortedIndex("-b", name="falling"))
        pair.do(lambda c: c.insert_many([Row(a=n, b=-n) for n in range(9)]))
        changes: list[Callable[[Any], object]] = [
            lambda c: c.where(F.a == 8).delete(),
            lambda c: c.where(F.a == 0).update(a=None, b=100),
            lambda c: c.insert(Row(a="x", b=None)),
            lambda c: c.insert(Row(a=0.5, b=100.0)),
            lambda c: c.where().update(a=4),
            lambda c: c.where().delete(),
        ]
        for change in changes:
            pair.do(change)
            for field in ("a", "b"):
                pair.check(field=field, is_certain=False)
                for what in ("min", "max"):
                    found = shown(by_index(pair.own, None, field, what))
                    assert outcome(pair.plain.where(), what, field) == found
        pair.db.close()

    def test_transactions(self, twins: Twins) -> None:
        """Inside a transaction its own changes count, outside only what is committed."""
        found: list[Any] = []

        def ask() -> None:
            found.append((twins.own.where().sum("a"), twins.own.where(F.a > 90).count()))

        with twins.db.transaction():
            twins.own.insert(Row(a=100))
            assert by_index(twins.own, None, "a", "sum") is NO_ANSWER
            assert 247 == twins.own.where().sum("a")
            assert 1 == twins.own.where(F.a > 90).count()
            assert 100 == twins.own.where().max("a")
            other = threading.Thread(target=ask)
            other.start()
            other.join()
        ask()

        assert [(147, 0), (247, 1)] == found

    def test_rolled_back(self, twins: Twins) -> None:
        """What was taken back never counts."""
        with pytest.raises(ZeroDivisionError), twins.db.transaction():
            twins.own.insert(Row(a=100))
            twins.own.where().sum("a")
            raise ZeroDivisionError

        twins.check()

    def test_reopened(self, tmp_path: Path) -> None:
        """After opening again the answers are the same, read from the file."""
        pair = Twins(*INDEXES, SortedIndex("b", name="sorted_b"), path=tmp_path / "x.memdb")
        pair.do(lambda c: c.insert_many([Row(a=n, b=n / 8) for n in range(100)]))
        pair.check(F.b > 3)
        pair.do(lambda c: c.where(F.a < 10).delete())
        pair.db.close()
        pair = Twins(*INDEXES, SortedIndex("b", name="sorted_b"), path=tmp_path / "x.memdb")

        for condition in (None, F.b > 3, (F.a > 4) & (F.b < 11)):
            pair.check(condition)
            pair.check(condition, "b")
        pair.db.close()

    def test_closed(self, twins: Twins) -> None:
        """A closed database says so."""
        twins.own.where().sum("a")
        twins.db.close()

        for ask in (lambda: twins.own.where().sum("a"), lambda: twins.own.where(F.a > 1).count()):
            with pytest.raises(ClosedError):
                ask()

    def test_a_change_while_reading(self, twins: Twins, monkeypatch: pytest.MonkeyPatch) -> None:
        """What was read while an index was changed is read again."""
        reduced = _aggregating._reduced
        found: list[Any] = []

        def changing(*given: Any) -> Any:
            result = reduced(*given)
            if len(found) < 5 and not twins.own.where()._store.engine.log.lock.locked():
                twins.own.insert(Row(a=1))
                twins.own.where()._store.indexes.catch_up(["a"])
            found.append(result)
            return result

        monkeypatch.setattr(_aggregating, "_reduced", changing)

        assert twins.own.where().sum("a") == 150
        assert [147, 148, 149, 150] == found

    def test_a_broken_read(self, twins: Twins, monkeypatch: pytest.MonkeyPatch) -> None:
        """Whatever half of a change leads to, the records answer."""

        def breaking(*given: Any) -> Any:
            raise IndexError

        monkeypatch.setattr(_aggregating, "_reduced", breaking)

        twins.check(is_certain=False)
        assert by_index(twins.own, None, "a", "sum") is NO_ANSWER

    def test_threads(self) -> None:
        """Sums and counts are of one commit while others write."""
        db = memdb.open(None)
        rows = db.collection(Row, indexes=[ColumnIndex("a"), ColumnIndex("b")])
        rows.insert_many([Row(a=1, b=-1) for _ in range(2000)])
        errors: list[Any] = []
        stop = threading.Event()

        def write() -> None:
            for number in range(100):
                with db.transaction():
                    rows.where(F.id == number + 1).update(a=F.a + 7)
                    rows.where(F.id == number + 2).update(a=F.a - 7)
                    rows.insert_many([Row(a=3, b=-3), Row(a=-3, b=3)])
            stop.set()

        def read() -> None:
            while not stop.is_set():
                found = (
                    rows.where().sum("a"),
                    rows.where(F.b != -1).sum("b"),
                    rows.where((F.b == -3) | (F.b == 3)).count() % 2,
                )
                if found != (2000, 0, 0):
                    errors.append(found)

        threads = [threading.Thread(target=write), *[threading.Thread(target=read) for _ in "ab"]]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert [] == errors
        assert 2000 == rows.where().sum("a")
        db.close()


class TestSumsOfFloats:
    @pytest.mark.parametrize(
        "make",
        [
            lambda random: random.uniform(0, 100, 40_000),
            lambda random: random.uniform(-1, 1, 33_001),
            lambda random: np.round(random.uniform(0, 1000, 20_000), 2),
            lambda random: random.normal(0, 1, 50_000) * 10.0 ** random.integers(-200, 200, 50_000),
            lambda random: np.repeat([1.0, -1.0, 2.0**-60], 10_000),
            lambda random: np.full(70_000, 0.1),
            lambda random: np.tile([2.0**53, 1.0, 2.0**-30], 9_000),
            lambda random: random.uniform(0, 1, 20_000) * 1e-310,
            lambda random: random.uniform(0, 1, 20_000) * 1e303,
            lambda random: np.append(random.uniform(0, 1, 20_000), math.inf),
            lambda random: np.append(random.uniform(0, 1, 20_000), math.nan),
            lambda random: np.zeros(20_000),
        ],
    )
    def test_many(self, make: Callable[[Any], Any]) -> None:
        """The sum of very many floats is that of `math.fsum`, to the last bit."""
        for seed in range(5):
            values = make(np.random.default_rng(seed))

            assert repr(math.fsum(values.tolist())) == repr(sum_of_floats(values))


NUMBERS = st.one_of(st.integers(-5, 5), st.integers(-(2**64), 2**64))
FLOATS = st.one_of(st.sampled_from([0.0, -0.0, 1.5, 2.0, 1e308]), st.floats())
KINDS = [
    st.one_of(st.none(), NUMBERS),
    st.one_of(st.none(), FLOATS),
    st.one_of(st.none(), st.booleans()),
    st.one_of(st.none(), NUMBERS, FLOATS, st.booleans(), st.text(max_size=2)),
]
VALUES = st.sampled_from(KINDS).flatmap(lambda kind: st.lists(kind, max_size=12))
OPERANDS = st.one_of(
    NUMBERS, FLOATS, st.booleans(), st.decimals(), st.fractions(), st.none(), st.just("x")
)


@st.composite
def comparisons(draw: st.DrawFn) -> Any:
    """Return a comparison of a field with a constant."""
    field = draw(st.sampled_from([F.a, F.b]))
    operand = draw(OPERANDS)
    others = draw(st.lists(OPERANDS, max_size=3))
    makers: list[Callable[[], Any]] = [
        lambda: field == operand,
        lambda: field != operand,
        lambda: field.in_(others),
    ]
    if operand is not None:
        makers += [
            lambda: field < operand,
            lambda: field <= operand,
            lambda: field > operand,
            lambda: field >= operand,
        ]
        if others and others[0] is not None:
            makers.append(lambda: field.between(operand, others[0]))
    return draw(st.sampled_from(makers))()


CONDITIONS = st.recursive(
    comparisons(),
    lambda inner: st.one_of(
        st.builds(lambda a, b: a & b, inner, inner),
        st.builds(lambda a, b: a | b, inner, inner),
        st.builds(lambda a: ~a, inner),
    ),
    max_leaves=4,
)


@settings(max_examples=150)
@given(
    first=VALUES,
    second=VALUES,
    changes=st.lists(st.tuples(st.integers(1, 14), st.one_of(st.none(), *KINDS)), max_size=6),
    deleted=st.sets(st.integers(1, 12), max_size=4),
    conditions=st.lists(CONDITIONS, min_size=1, max_size=4),
    is_sorted=st.booleans(),
)
def test_any_values(
    first: list[Any],
    second: list[Any],
    changes: list[tuple[int, Any]],
    deleted: set[int],
    conditions: list[Any],
    is_sorted: bool,
) -> None:
    """Whatever the values, changes and conditions are, the indexes give what the records do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_aggregating, "_LEAST_RECORDS", 0)
        patch.setattr(_aggregating, "_LEAST_COMPARED", 0)
        extra = [SortedIndex("a", name="sorted_a")] if is_sorted else []
        pair = Twins(ColumnIndex("a"), ColumnIndex("b"), *extra)
        columns = list(zip(first, [*second, *[None] * len(first)], strict=False))
        pair.do(lambda c: c.insert_many([Row(a=a, b=b) for a, b in columns]))
        pair.check(is_certain=False)
        for number, value in changes:
            pair.do(lambda c, n=number, v=value: c.where(F.id == n).update(a=v))
        pair.do(lambda c: c.where(F.id.in_(deleted)).delete())
        for condition in (None, *conditions):
            pair.check(condition, is_certain=False)
        pair.db.close()
