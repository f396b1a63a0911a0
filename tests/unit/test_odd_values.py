"""Values with comparisons of their own, as NumPy's: an index never changes what is found."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import total_ordering
from typing import Any

import numpy as np
import pytest

import memdb
from memdb import ColumnIndex, F, HashIndex, P, SetIndex, SortedIndex, count_
from memdb.errors import IndexKeyError, QueryError
from memdb.indexes import (
    Bounds,
    HashEntries,
    SortedEntries,
    UniqueEntries,
    bounds,
    is_placed,
    is_sure,
    is_usual,
    sort_key,
)
from memdb.query import evaluate
from tests.support import naive
from tests.support.asking import expression
from tests.support.naive import All, Constant, No, Parameter, Path, Term, Test
from tests.support.tracing import traced

# NumPy says so when it rounds; that an empty array has no truth value it only warns of up to 2.1.
pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@dataclass
class Whole:
    a: int
    b: int = 1
    id: int = 0


@dataclass
class Ratio:
    a: float
    b: int = 1
    id: int = 0


@dataclass
class Listed:
    a: list[int]
    b: int = 1
    id: int = 0


@dataclass
class Anything:
    a: Any
    b: int = 1
    id: int = 0


def _dict(a: Any, b: int = 1) -> dict[str, Any]:
    return {"a": a, "b": b}


FORMS: dict[str, tuple[Any, Callable[..., Any]]] = {
    "int": (Whole, Whole),
    "float": (Ratio, Ratio),
    "list": (Listed, Listed),
    "any": (Anything, Anything),
    "dict": ("dicts", _dict),
}

INDEXES: dict[str, Any] = {
    "none": [],
    "hash": [HashIndex("a")],
    "unique": [HashIndex("a", unique=True)],
    "hash of two": [HashIndex("a", "b")],
    "sorted": [SortedIndex("a")],
    "falling": [SortedIndex("-a", name="falling")],
    "first of two": [SortedIndex("a", "-b")],
    "second of two": [SortedIndex("b", "a")],
    "set": [SetIndex("a")],
    "column": [ColumnIndex("a"), ColumnIndex("b")],
}

ARRAYS = [
    np.array([], "i8"), np.array([5]), np.array([5, 6]), np.array(5), np.array([[5]]),
    np.array([[5, 6], [7, 8]]), np.array([0.1]), np.array(["x"]), np.array(["2020-01-01"], "M8[D]"),
]  # fmt: skip
SCALARS = [
    np.int64(5), np.int8(7), np.uint64(2**64 - 1), np.int64(2**53 + 1), np.bool_(True),
    np.float64(0.1), np.float64(2.0**53), np.float64("nan"), np.float32(0.1), np.float16(0.1),
    np.complex64(5), np.str_("x"), np.bytes_(b"x"), np.datetime64("2020-01-01"),
    np.datetime64("2020-01-01T00:00:00"), np.datetime64("NaT"), np.timedelta64(1, "D"),
]  # fmt: skip
PLAIN = [
    5, 6.5, 0.1, 2**53, 2.0**53, True, None, "x", b"x", Decimal("0.1"), Fraction(1, 10),
    date(2020, 1, 1), datetime(2020, 1, 1), datetime(2020, 1, 1, tzinfo=UTC), timedelta(1),
    math.nan, 5 + 0j, (5,), [5],
]  # fmt: skip
NESTED = [(np.float32(0.1),), [np.int64(5)], [np.array([5])], (np.datetime64("2020-01-01"), 1)]

STORED: list[Any] = [*ARRAYS, *SCALARS, *PLAIN, *NESTED]
NUMBERS: list[Any] = [
    5, 0.1, float(np.float32(0.1)), 2.0**53, 10**30, True, Decimal(5), (5,), np.float32(0.1),
    np.int64(5),
]  # fmt: skip
OPERANDS: list[Any] = [
    *NUMBERS, 2**53 + 1, None, "x", date(2020, 1, 1), datetime(2020, 1, 1), timedelta(1), 5 + 0j,
    (0.1,), [5], np.datetime64("2020-01-01"), np.array([5]),
]  # fmt: skip

A = Path(("a",))


def conditions(operand: Any) -> list[naive.Condition]:
    """Return what a value can be compared with an operand by."""
    given = Constant(operand)
    tests: list[naive.Condition] = [
        Test(operator, A, (given,)) for operator in ("==", "!=", "<", "<=", ">", ">=", "contains")
    ]
    tests += [Test("in", A, (Constant(among),)) for among in ([operand], [operand, -1])]
    tests.append(Test("between", A, (given, Constant(10))))
    tests += [Test("between", A, (given, given)), No(Test("==", A, (given,)))]
    return [*tests, All((Test("==", A, (given,)), Test("==", Path(("b",)), (Constant(1),))))]


def asked(condition: naive.Condition, operand: Any) -> naive.Condition | None:
    """Return a condition with a parameter in place of its operand, None if it has others."""
    if isinstance(condition, Test) and len(condition.operands) == 1:
        is_among = condition.operator == "in"
        if is_among or condition.operands[0] == Constant(operand):
            return Test(condition.operator, A, (Parameter("x"),))
    return None


def filled(db: memdb.Database, form: str, indexes: str) -> memdb.Collection[Any]:
    """Return a collection of each value that its index takes."""
    cls, make = FORMS[form]
    try:
        collection = db.collection(cls, indexes=INDEXES[indexes])
    except memdb.errors.ConfigError:
        pytest.skip("no such index of such a field")
    for value in STORED:
        try:
            collection.insert(make(value))
        except (IndexKeyError, memdb.DuplicateKeyError):
            assert indexes in ("hash", "unique", "hash of two", "set")
    return collection


@pytest.mark.parametrize("indexes", INDEXES)
@pytest.mark.parametrize("form", FORMS)
def test_conditions(form: str, indexes: str) -> None:
    """Whatever is compared by whatever, what is found is what the definition says."""
    with memdb.open(None) as db:
        collection = filled(db, form, indexes)
        rows = list(collection.items())
        assert rows
        for operand in OPERANDS if form in ("any", "dict") else NUMBERS:
            for condition in conditions(operand):
                query = collection.where(expression(condition))
                expected = [number for number, record in rows if naive.matches(condition, record)]
                try:
                    found = query.all()
                except QueryError:
                    # What no value of the annotation can be compared with is refused.
                    continue

                assert expected == [number_of(record) for record in found], condition
                assert expected == query.ids(), condition
                assert len(expected) == query.count(), condition
                with_parameter = asked(condition, operand)
                if with_parameter is not None:
                    given = [operand, -1] if condition.operator == "in" else operand  # type: ignore[union-attr]
                    prepared = collection.where(expression(with_parameter)).prepare()
                    assert expected == [number_of(record) for record in prepared(x=given)]
                    assert len(expected) == prepared.count(x=given)


def number_of(record: Any) -> int:
    """Return the identity of a record."""
    number: int = record["id"] if isinstance(record, dict) else record.id
    return number


@pytest.mark.parametrize("indexes", INDEXES)
@pytest.mark.parametrize("form", FORMS)
def test_order_and_groups(form: str, indexes: str) -> None:
    """Orders, pages, groups and different values are the same with an index as without."""
    with memdb.open(None) as db, memdb.open(None) as other:
        collection, plain = filled(db, form, indexes), other.collection(FORMS[form][0])
        plain.insert_many([FORMS[form][1](_a_of(record)) for record in collection])
        rows = list(collection.items())
        places = dict(zip(collection.ids(), plain.ids(), strict=True))
        for falls in (False, True):
            order = [Term(A, falls)]
            term = F.a.desc() if falls else F.a.asc()
            query = collection.query().order_by(term)
            expected = [number for number, _ in naive.in_order(rows, order)]

            assert expected == query.ids() == [number_of(record) for record in query]
            page, joined = query.page(0, 7), list[int]()
            joined += map(number_of, page)
            while page.cursor is not None:
                page = query.after(page.cursor).page(0, 7)
                joined += map(number_of, page)
            assert expected == joined
        groups, its_groups = [
            each.query().group_by("a").select("a", count_(), F.id.min_()).all()
            for each in (collection, plain)
        ]
        mine = [(value, count, places[first]) for value, count, first in groups]
        assert repr(its_groups) == repr(mine)
        for make in (
            lambda each: each.query().values("a").distinct().all(),
            lambda each: [each.query().min("a"), each.query().max("a")],
        ):
            assert repr(make(plain)) == repr(make(collection))


def _a_of(record: Any) -> Any:
    return record["a"] if isinstance(record, dict) else record.a


# -- plans that were made before -------------------------------------------------------------


ODD: dict[str, tuple[Any, Any, list[int]]] = {
    "array": (np.array([5]), F.a == 5, [2]),
    "float of 32 bits": (np.float32(0.1), F.a == 0.1, []),
    "complex": (5 + 0j, F.a == 5, [2]),
    "datetime64": (np.datetime64("2020-01-01"), F.a == date(2020, 1, 1), []),
}
# With a hash a complex number is found as its equal is.
KINDS = {"sorted": SortedIndex("a"), "hash": HashIndex("a"), "unique": HashIndex("a", unique=True)}


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_dict", [False, True])
def test_it_comes_and_goes(db: memdb.Database, odd: str, kind: str, is_dict: bool) -> None:
    """Queries from before find it, too, and are as fast as before when it is gone."""
    value, condition, before = ODD[odd]
    cls, make = FORMS["dict" if is_dict else "any"]
    rows = db.collection(cls, indexes=[KINDS[kind]])
    # One of them is not as its class says, so that no plan relies on that.
    rows.insert_many([make(4), make(5, np.float32(1)), *[make(n) for n in range(10, 20)]])
    query, usual = rows.where(condition), rows.where(F.a == 4)
    prepared = query.prepare()
    for ask in (query.all, prepared, usual.all):
        ask()
        ask()
    try:
        number = rows.insert(make(value))
    except (IndexKeyError, memdb.DuplicateKeyError):
        assert (kind, odd) in [
            ("hash", "array"), ("unique", "array"), ("unique", "complex"),
        ]  # fmt: skip
        return

    expected = [*before, number]
    is_trusted = kind != "sorted" and odd == "complex"
    for _ in range(3):
        assert expected == query.ids() == [number_of(record) for record in query]
        assert expected == [number_of(record) for record in prepared()]
        assert len(expected) == query.count() == prepared.count()
        assert [1] == usual.ids() == [number_of(record) for record in usual]
    explanation = usual.explain()
    assert is_trusted is explanation.is_compiled
    if not is_trusted:
        assert explanation.reason == "an index has values that compare in their own way"
        assert explanation.chosen.count == 2
    assert [] == db.check()
    rows.delete(number)
    for _ in range(3):
        assert before == query.ids() == [number_of(record) for record in prepared()]
    for ask in (query.all, prepared, usual.all):
        with traced() as ran:
            ask()
        assert ran
    assert usual.explain().is_compiled


ONE_BY_ONE = [5, 0.1, 2**53, float(np.float32(0.1)), date(2020, 1, 1), "x", (5,), (0.1,), True]
ALL_PLAIN: dict[str, list[Any]] = {
    **dict.fromkeys(("hash", "unique", "hash of two", "sorted"), ONE_BY_ONE),
    "set": [[5, 0.1], ["x", date(2020, 1, 1)]],
}


@pytest.mark.parametrize("indexes", ALL_PLAIN)
@pytest.mark.parametrize("form", ["any", "dict"])
def test_odd_operands(form: str, indexes: str) -> None:
    """Plain values are asked by the same plans for plain operands and for odd ones."""
    operands = [5, 7, "x", *SCALARS, (np.float32(0.1),), 0.1, date(2020, 1, 1)]
    cls, make = FORMS[form]
    with memdb.open(None) as db:
        rows = db.collection(cls, indexes=INDEXES[indexes])
        rows.insert_many(map(make, ALL_PLAIN[indexes]))
        kept = list(rows.items())
        for operand in operands:
            for condition in conditions(operand):
                expected = [number for number, record in kept if naive.matches(condition, record)]
                query = rows.where(expression(condition))
                try:
                    found = [number_of(record) for record in query]
                except QueryError:
                    continue
                assert expected == found == query.ids(), condition
                with_parameter = asked(condition, operand)
                if with_parameter is not None:
                    given = [operand, -1] if condition.operator == "in" else operand  # type: ignore[union-attr]
                    prepared = rows.where(expression(with_parameter)).prepare()
                    assert expected == [number_of(record) for record in prepared(x=given)]
                    assert len(expected) == prepared.count(x=given)


@dataclass
class Text:
    a: str | None
    b: int = 1
    id: int = 0


@pytest.mark.parametrize("indexes", ["hash", "unique"])
def test_texts(indexes: str) -> None:
    """Nothing of NumPy's but its texts equals a text, until a value is none."""
    with memdb.open(None) as db:
        rows = db.collection(Text, indexes=INDEXES[indexes])
        rows.insert_many(map(Text, ["x", "2020-01-01", "5", "", None]))
        prepared, among = (rows.where(each).prepare() for each in (F.a == P.x, F.a.in_(P.x)))
        for others in ([], [Text(0.1)], [Text(np.float32(0.5))]):  # type: ignore[arg-type]
            rows.insert_many(others)
            kept = list(rows.items())
            for operand in [*SCALARS, np.void(b"x"), 0.1, "x"]:
                condition = Test("==", A, (Constant(operand),))
                expected = [number for number, row in kept if naive.matches(condition, row)]

                assert expected == [row.id for row in prepared(x=operand)], operand
                assert expected == [row.id for row in among(x=[operand])], operand


def test_an_index_of_numbers_of_numpy(db: memdb.Database) -> None:
    """Whole numbers and floats of 64 bits are as good as Python's own, for usual operands."""
    rows = db.collection(Whole, indexes=[SortedIndex("a"), HashIndex("b")])
    rows.insert_many([Whole(np.int64(n), np.int64(n % 3)) for n in range(30)])  # type: ignore[arg-type]
    list(rows)
    for condition, expected in (
        (F.a >= 25, 5),
        (F.b == 1, 10),
        (F.a == 3.0, 1),
        (F.b.in_([1, 2]), 20),
    ):
        query = rows.where(condition)
        assert expected == len(query.all()) == query.count()
        explanation = query.explain()
        assert explanation.is_compiled
        assert (explanation.chosen.count, explanation.filters) == (expected, ())
    for odd in (F.b == (1,), F.a.between(Decimal(25), 30), F.b.in_([Decimal(1)])):
        assert [row.id for row in rows if evaluate(odd, row)] == rows.where(odd).ids()
        assert rows.where(odd).ids() == [row.id for row in rows.where(odd)]


@pytest.mark.parametrize("form", ["float", "dict"])
def test_a_function_that_gives_them(db: memdb.Database, form: str) -> None:
    """The keys that functions make are looked at as well, in a write that checks nothing else."""
    cls, make = FORMS[form]
    indexes = [
        SortedIndex(key=lambda row: np.float32(_a_of(row)), name="sorted"),
        HashIndex(key=lambda row: np.float32(_a_of(row)), name="unique", unique=True),
    ]
    rows = db.collection(cls, indexes=indexes)
    rows.insert(make(0.5))
    list(rows.where(unique=0.5))
    rows.insert(make(0.1))
    among = F.sorted.in_([0.1, 3])

    for condition in (F.sorted == 0.1, F.unique == 0.1, F.unique.in_([0.1, 3]), among):
        expected = [number for number, row in rows.items() if np.float32(_a_of(row)) == 0.1]
        assert expected == rows.where(condition).ids()
        assert expected == [number_of(record) for record in rows.where(condition)]


# -- what is known of values -----------------------------------------------------------------


@total_ordering
class Own:
    """Compares with numbers as if it were one."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return self.value == other

    def __lt__(self, other: Any) -> bool:
        return bool(self.value < other)

    def __hash__(self) -> int:
        return hash(self.value)


class OwnInt(int):
    """Compares the other way round."""

    def __lt__(self, other: Any) -> bool:
        return int(self) > other


KNOWN: list[Any] = [*STORED, *OPERANDS, Own(5), OwnInt(5), {"a": 1}, {5}, frozenset([5])]
TESTS = {"==": "__eq__", "<": "__lt__", "<=": "__le__", ">": "__gt__", ">=": "__ge__"}


def is_found(limits: Bounds, value: Any) -> bool:
    """Whether a value lies in an interval."""
    key = sort_key(value)
    is_above = key > limits.low or (key == limits.low and not limits.is_low_open)
    return is_above and (key < limits.high or (key == limits.high and not limits.is_high_open))


def test_what_is_placed() -> None:
    """Of a value that is placed, or tame beside usual ones, the order says what comparing does."""
    count = 0
    for value in KNOWN:
        entries = SortedEntries.build([value], [1])
        if entries.odd.numbers:
            assert not is_placed(value)
            continue
        for operand, operator in [(o, t) for o in KNOWN for t in TESTS]:
            limits = bounds(operator, operand)
            if (
                limits is None
                or not limits.is_exact
                or (entries.odd.tame and not is_usual(operand))
            ):
                continue
            condition = Test(operator, Constant(value), (Constant(operand),))
            assert naive.matches(condition, None) is is_found(limits, value), condition
            count += 1
    assert count > 2_000
    assert not is_placed(Own(5))
    assert not is_placed(OwnInt(5))
    assert not is_placed(5 + 0j)
    assert is_placed([1, (2, None)])


def test_what_is_sure() -> None:
    """Values that are sure, or tame beside usual ones, have one hash where they are equal."""
    count = 0
    for value in KNOWN:
        try:
            entries = HashEntries.build([value], [1])
        except TypeError:
            continue
        if entries.odd.numbers:
            assert not is_sure(value)
            continue
        for operand in KNOWN:
            if not is_sure(operand) or (entries.odd.tame and not is_usual(operand)):
                continue
            condition = Test("==", Constant(value), (Constant(operand),))
            try:
                found = entries.find(operand) is not None
            except TypeError:
                continue
            # An object is itself in a dict, and a NaN equals nothing.
            assert naive.matches(condition, None) is (found and operand == operand), condition
            count += 1
    assert count > 500


@pytest.mark.parametrize("make", [HashEntries, UniqueEntries, SortedEntries])
def test_structures_note_them(make: Any) -> None:
    """Built, set, changed, removed and cleared, one by one and many at once."""
    array = (np.float32(1),)
    calls: list[tuple[bool, bool]] = []

    def note(number: int, key: Any) -> None:
        entries.set(number, (key,) if make is HashEntries else key)

    entries = make.build([1, array, np.int64(3), "x"], [1, 2, 3, 4])
    odd = entries.odd
    odd.on_change = lambda: calls.append((bool(odd.numbers), bool(odd.tame)))
    assert ({2}, {3}, True) == (odd.numbers, odd.tame, odd.are_any)
    note(5, np.int64(4))
    note(2, 2)
    note(2, np.float32(2.5))
    note(1, np.datetime64("2020-01-01"))
    assert ({1, 2}, {3, 5}) == (odd.numbers, odd.tame)
    entries.remove(1)
    entries.remove(2)
    assert (set(), {3, 5}, True) == (odd.numbers, odd.tame, odd.are_any)
    entries.remove(5)
    entries.remove(3)
    assert [(False, True), (True, True), (False, True), (False, False)] == calls
    assert not odd.are_any
    note(9, array)
    entries.clear()
    assert (set(), set(), False) == (odd.numbers, odd.tame, odd.are_any)


@pytest.mark.parametrize("size", [3, 5_000])
def test_many_at_once(size: int) -> None:
    """What many numbers have is noted instead of what they had."""
    entries = SortedEntries.build(list(range(size)), list(range(1, size + 1)))
    entries.set(2, np.float32(0.1))
    entries.set_many([np.float32(n) for n in range(size)], list(range(1, size + 1)))
    assert set(range(1, size + 1)) == entries.odd.numbers
    entries.set_many(list(range(size)), list(range(1, size + 1)))
    assert not entries.odd.are_any
    compound = SortedEntries.build([(1, np.int64(n)) for n in range(size)], range(size), (1, -1))
    assert set(range(size)) == compound.odd.tame
    several = HashEntries.build_many([[1], [np.float32(1), 2], []], [1, 2, 3])
    assert {2} == several.odd.numbers
