"""Joins of values with comparisons of their own, as NumPy's: a pair is compared as conditions do.

A join looked values up by their hash, or by their place in a sorted index, also where those say
nothing of what is equal: a date found no `datetime64`, and 0.1 none of 32 bits; 5 found the array
[5] without a sorted index and not with one. And a left whose value was held constant by a condition
was looked up once for all, though several values equal one of NumPy's.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import memdb
from memdb import F, HashIndex, P, SetIndex, SortedIndex
from memdb.query._fitting import holds
from tests.support.tracing import traced
from tests.unit.test_odd_values import STORED

# As in test_odd_values.
pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@dataclass
class Left:
    a: Any
    id: int = 0


@dataclass
class Right:
    a: Any
    b: int = 1
    id: int = 0


@dataclass
class RatioLeft:
    a: float
    id: int = 0


@dataclass
class RatioRight:
    a: float
    b: int = 1
    id: int = 0


Make = Callable[[Any], Any]
FORMS: dict[str, tuple[Any, Any, Make, Make]] = {
    "any": (Left, Right, Left, Right),
    "float": (RatioLeft, RatioRight, RatioLeft, RatioRight),
    "dict": ("left", "right", lambda a: {"a": a}, lambda a: {"a": a, "b": 1}),
}
INDEXES: dict[str, list[Any]] = {
    "none": [],
    "hash": [HashIndex("a")],
    "unique": [HashIndex("a", unique=True)],
    "sorted": [SortedIndex("a")],
}

# One of each way to be compared, and what it equals.
VALUES: list[Any] = [
    np.array([3]), np.array([3, 4]), np.int64(3), np.float32(0.1), np.int64(2**53 + 1),
    np.str_("x"), np.datetime64("2020-01-01"), (np.float32(0.1),),
    3, 0.1, float(np.float32(0.1)), 2.0**53, "x", date(2020, 1, 1), (3,), Decimal(3), 3 + 0j, None,
]  # fmt: skip

# So that a few look-ups in a sorted index are worth while.
OTHERS = range(1_000, 1_100)

JOINS: dict[str, Callable[[Any, Any], Any]] = {
    "left": lambda left, right: left.join(right, on=(F.a, F.a), as_="found"),
    "inner": lambda left, right: left.join(right, on=(F.a, F.a), as_="found", how="inner"),
    "many": lambda left, right: left.join_many(right, on=(F.a, F.a), as_="found"),
}


def a_of(record: Any) -> Any:
    """Return the value of a record."""
    return record["a"] if isinstance(record, dict) else record.a


def number_of(record: Any) -> int:
    """Return the identity of a record."""
    number: int = record["id"] if isinstance(record, dict) else record.id
    return number


def are_equal(left: Any, right: Any) -> bool:
    """Whether a pair belongs together."""
    return left is not None and right is not None and holds(operator.eq, left, right)


def found_in(rows: Any) -> list[tuple[int, list[int]]]:
    """Return what is in rows, by identity."""
    return [
        (number_of(left), [number_of(right) for right in _rights(found)]) for left, found in rows
    ]


def _rights(found: Any) -> Any:
    return found if isinstance(found, tuple) else () if found is None else (found,)


def expected_of(lefts: Any, rights: Any, *, is_inner: bool) -> list[tuple[int, list[int]]]:
    """Return what belongs together, compared one by one."""
    kept = [(number_of(right), a_of(right)) for right in rights]
    rows = [
        (number_of(left), [number for number, value in kept if are_equal(a_of(left), value)])
        for left in lefts
    ]
    return [row for row in rows if row[1] or not is_inner]


def opened(db: memdb.Database, form: str, indexes: str) -> tuple[Any, Any, Make, Make]:
    """Return both collections, and what makes their records."""
    left, right, make_left, make_right = FORMS[form]
    arguments: dict[str, Any] = {} if form == "dict" else {"name": "left"}
    lefts = db.collection(left, **arguments)
    arguments = {} if form == "dict" else {"name": "right"}
    rights = db.collection(right, indexes=INDEXES[indexes], **arguments)
    return lefts, rights, make_left, make_right


@pytest.mark.parametrize("indexes", INDEXES)
@pytest.mark.parametrize("form", FORMS)
def test_each_with_each(form: str, indexes: str) -> None:
    """One value on either side: what belongs is what is equal, with any index and none."""
    for value in VALUES:
        with memdb.open(None) as db:
            lefts, rights, make_left, make_right = opened(db, form, indexes)
            lefts.insert(make_left(0.0))
            prepared = {name: join(lefts.where(), rights).prepare() for name, join in JOINS.items()}
            try:
                rights.insert(make_right(value))
            except memdb.IndexKeyError:
                assert indexes in ("hash", "unique")
                continue
            rights.insert_many(map(make_right, OTHERS))
            for other in VALUES:
                lefts.update(1, a=other)
                for name, join in JOINS.items():
                    query = join(lefts.where(), rights)
                    expected = expected_of(lefts, rights, is_inner="inner" in name)

                    assert expected == found_in(query.all()), (name, other, value)
                    assert expected == found_in(prepared[name]()), (name, other, value)
                    assert len(expected) == query.count() == prepared[name].count()


@pytest.mark.parametrize("cache", ["all", "none"])
@pytest.mark.parametrize("indexes", INDEXES)
@pytest.mark.parametrize("form", FORMS)
def test_all_at_once(form: str, indexes: str, cache: Any) -> None:
    """Very different values in one collection do not hide each other."""
    with memdb.open(None, cache=cache) as db:
        lefts, rights, make_left, make_right = opened(db, form, indexes)
        for value in [*VALUES, *STORED, *OTHERS]:
            lefts.insert(make_left(value))
            try:
                rights.insert(make_right(value))
            except (memdb.IndexKeyError, memdb.DuplicateKeyError):
                assert indexes in ("hash", "unique")
        for how in ("left", "inner"):
            query = lefts.where().join_many(rights, on=(F.a, F.a), as_="found", how=how)
            expected = expected_of(lefts, rights, is_inner=how == "inner")

            assert expected == found_in(query.all())
            assert expected == found_in(query.prepare()())
            assert len(expected) == query.count()
            with db.transaction():
                assert expected == found_in(query.all())


@pytest.mark.parametrize("indexes", INDEXES)
def test_from_a_slot_and_inside(indexes: str) -> None:
    """Also for what is in a slot, in the rows of a right, and with a condition and an order."""
    with memdb.open(None) as db:
        lefts, rights, *_ = opened(db, "any", indexes)
        for value in (0.1, np.float32(0.1), 3, np.datetime64("2020-01-01"), date(2020, 1, 1)):
            lefts.insert(Left(value))
            rights.insert(Right(value))
        rights.insert_many(map(Right, OTHERS))
        plain = expected_of(lefts, rights, is_inner=False)
        chained = (
            lefts.where()
            .join(lefts, on=F.id, as_="same")
            .join_many(rights, on=(F.same.a, F.a), as_="found")
        )
        inside = lefts.where().join(
            lefts, on=F.id, as_="same", then=lambda q: JOINS["many"](q, rights)
        )
        ordered = lefts.where().join_many(
            rights.where(F.b == 1).order_by("-id").limit(2), on=(F.a, F.a), as_="found"
        )
        for ask in (lambda query: query.all(), lambda query: query.prepare()()):
            assert plain == [(row[0].id, [each.id for each in row.found]) for row in ask(chained)]
            assert plain == [
                (row[0].id, [each.id for each in row.same.found]) for row in ask(inside)
            ]
            assert [(n, ids[::-1]) for n, ids in plain] == found_in(ask(ordered))
    assert any(len(ids) == 2 for _, ids in plain)


# -- plans that were made before -------------------------------------------------------------


ODD: dict[str, tuple[Any, Any]] = {
    "array": (np.array([3]), 3),
    "float of 32 bits": (np.float32(0.1), 0.1),
    "datetime64": (np.datetime64("2020-01-01"), date(2020, 1, 1)),
    "whole number": (np.int64(3), (3,)),
    "large number": (np.int64(2**53 + 1), 2.0**53),
}


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("indexes", INDEXES)
@pytest.mark.parametrize("form", FORMS)
def test_it_comes_and_goes_on_the_right(form: str, indexes: str, odd: str) -> None:
    """Joins from before find it, too, and run as before when it is gone."""
    value, equal = ODD[odd]
    with memdb.open(None) as db:
        lefts, rights, make_left, make_right = opened(db, form, indexes)
        lefts.insert_many([make_left(equal), make_left(7.0)])
        rights.insert_many([make_right(7.0), *map(make_right, OTHERS)])
        asked = [join(lefts.where(), rights) for join in JOINS.values()]
        asks = [each for query in asked for each in (query.all, query.prepare())]
        for ask in asks:
            ask()
            assert [(2, [1])] == [row for row in found_in(ask()) if row[1]]
        for _ in range(2):
            try:
                number = rights.insert(make_right(value))
            except memdb.IndexKeyError:
                assert (indexes in ("hash", "unique"), odd) == (True, "array")
                return
            assert are_equal(equal, value)
            for ask in asks:
                assert [(1, [number]), (2, [1])] == found_in(ask())
                with db.transaction():
                    assert [(1, [number]), (2, [1])] == found_in(ask())
            rights.delete(number)
            for ask in asks:
                assert [(2, [1])] == [row for row in found_in(ask()) if row[1]]
        for ask in asks:
            with traced() as ran:
                ask()
            # That of the lefts, and that of the joins.
            assert 2 == len(ran) or (type(equal), indexes) == (tuple, "sorted")
        assert all([query.explain().is_compiled for query in asked])


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("indexes", INDEXES)
@pytest.mark.parametrize("form", FORMS)
def test_it_comes_and_goes_on_the_left(form: str, indexes: str, odd: str) -> None:
    """So they do for a value on the left."""
    value, equal = ODD[odd]
    with memdb.open(None) as db:
        lefts, rights, make_left, make_right = opened(db, form, indexes)
        lefts.insert(make_left(7.0))
        rights.insert_many(map(make_right, [7.0, equal, *OTHERS]))
        asked = [join(lefts.where(), rights) for join in JOINS.values()]
        asks = [each for query in asked for each in (query.all, query.prepare())]
        for ask in asks:
            ask()
            assert [(1, [1])] == found_in(ask())
        for _ in range(2):
            number = lefts.insert(make_left(value))
            assert are_equal(value, equal)
            for ask in asks:
                assert [(1, [1]), (number, [2])] == found_in(ask())
            lefts.delete(number)
            for ask in asks:
                assert [(1, [1])] == found_in(ask())
        assert all([query.explain().is_compiled for query in asked])


def test_explanation() -> None:
    """Of an index with such keys it says why the general way joins."""
    with memdb.open(None) as db:
        lefts, rights, *_ = opened(db, "any", "hash")
        lefts.insert(Left(3))
        rights.insert(Right(np.float32(0.1)))
        query, back = (
            JOINS["many"](lefts.where(), rights),
            lefts.where().join_many(rights, back=F.a),
        )

        assert "an index has values that compare in their own way" == query.explain().reason
        assert back.explain().is_compiled
        rights.delete(1)
        assert query.explain().is_compiled


@pytest.mark.parametrize("indexes", INDEXES)
def test_numbers_of_numpy_are_as_good(indexes: str) -> None:
    """Whole numbers and floats of 64 bits on the right need no general way, for usual values."""
    with memdb.open(None) as db:
        lefts, rights, make_left, make_right = opened(db, "dict", indexes)
        lefts.insert_many([make_left(n) for n in range(10)])
        rights.insert_many([make_right(np.int64(n)) for n in range(5)])
        rights.insert_many([make_right(np.float64(n)) for n in range(5, 40)])
        query = JOINS["inner"](lefts.where(), rights)
        prepared = query.prepare()
        expected = [(n, [n]) for n in range(1, 11)]
        prepared()
        query.all()

        with traced() as ran:
            assert expected == found_in(prepared()) == found_in(query.all())
        assert 4 == len(ran)
        assert query.explain().is_compiled
        lefts.insert(make_left((20,)))
        assert [*expected, (11, [21])] == found_in(prepared()) == found_in(query.all())


# -- a value that is held constant -----------------------------------------------------------


@pytest.mark.parametrize("indexes", ["none", "hash", "sorted"])
def test_several_values_equal_one_of_numpys(indexes: str) -> None:
    """A condition that holds a value of NumPy's holds none constant."""
    single = float(np.float32(0.1))
    with memdb.open(None) as db:
        lefts, rights, *_ = opened(db, "float", indexes)
        lefts.insert_many(map(RatioLeft, [0.1, single, 0.1]))
        rights.insert_many(map(RatioRight, [single, 0.1, *OTHERS]))
        expected = [(1, [2]), (2, [1]), (3, [2])]
        for held in (np.float32(0.1), np.array([0.1], "f4")):
            query = JOINS["many"](lefts.where(F.a == held), rights)
            prepared = JOINS["many"](lefts.where(F.a == P.held), rights).prepare()

            assert expected == found_in(query.all()) == found_in(query.prepare()())
            assert [(1, [2]), (3, [2])] == found_in(prepared(held=0.1))
            assert expected == found_in(prepared(held=held))
            assert 3 == prepared.count(held=held)


@pytest.mark.parametrize("indexes", ["none", "hash", "sorted"])
@pytest.mark.parametrize("form", FORMS)
def test_one_of_numpys_equals_what_is_held(form: str, indexes: str) -> None:
    """Of lefts that equal one value each is looked up for itself, if one may be NumPy's."""
    single = float(np.float32(0.1))
    with memdb.open(None) as db:
        lefts, rights, make_left, make_right = opened(db, form, indexes)
        rights.insert_many(map(make_right, [single, 0.1, *OTHERS]))
        query = JOINS["many"](lefts.where(F.a == 0.1), rights)
        prepared = JOINS["many"](lefts.where(F.a == P.held), rights).prepare()
        lefts.insert(make_left(0.1))

        assert [(1, [2])] == found_in(query.all()) == found_in(prepared(held=0.1))
        lefts.insert_many([make_left(np.float32(0.1)), make_left(single)])
        expected = [(1, [2]), (2, [1, 2])]
        assert expected == found_in(query.all()) == found_in(prepared(held=0.1))
        assert expected == found_in(query.prepare()())


def test_what_names_a_record_and_is_held() -> None:
    """So it is where what is held names a record; also if the first of NumPy's comes later."""
    exact = 2**24
    with memdb.open(None) as db:
        lefts, others = db.collection(Ref, name="left"), db.collection(Left, name="other")
        others.insert_many([Left(0, id=exact), Left(0, id=exact + 1)])
        lefts.insert_many([Ref(exact), Ref(exact + 1), Ref(exact)])
        prepared = lefts.where(F.a == P.held).join(others, on=F.a, as_="found").prepare()
        expected = [(1, [exact]), (2, [exact + 1]), (3, [exact])]
        # Of 32 bits it equals both.
        rounded = np.float32(exact)
        query = lefts.where(F.a == rounded).join(others, on=F.a, as_="found")

        assert [expected[0], expected[2]] == found_in(prepared(held=exact))
        assert expected == found_in(query.all()) == found_in(prepared(held=rounded))
        lefts.insert(Ref(np.int64(exact)))  # type: ignore[arg-type]
        assert [expected[0], expected[2], (4, [])] == found_in(prepared(held=exact))
        assert [*expected, (4, [])] == found_in(query.all()) == found_in(prepared(held=rounded))


# -- identities ------------------------------------------------------------------------------


@dataclass
class Text:
    code: str


@dataclass
class Ref:
    a: int
    id: int = 0


@dataclass
class Refs:
    a: list[int]
    id: int = 0


NAMES: list[Any] = [
    np.int64(3), np.float64(3), np.float32(3), np.array([3]), np.array(3), np.str_("x"),
    np.array(["x"]), np.timedelta64(3, "s"), [np.int64(3)], [3, np.int64(3)], [np.timedelta64(3)],
    [np.str_("x"), "x"], (np.int64(3),), 3, "x", [3], ["x"],
]  # fmt: skip
BY_IDENTITY: dict[str, Callable[[Any, Any], Any]] = {
    "on": lambda named, refs: refs.where().join(named, on=F.a, as_="found"),
    "on, inner": lambda named, refs: refs.where().join(named, on=F.a, as_="found", how="inner"),
    "on, many": lambda named, refs: refs.where().join_many(named, on=F.a, as_="found"),
    "back": lambda named, refs: named.where().join(refs, back=F.a, as_="found"),
    "back, inner": lambda named, refs: named.where().join(refs, back=F.a, as_="found", how="inner"),
    "back, many": lambda named, refs: named.where().join_many(refs, back=F.a, as_="found"),
}


@pytest.mark.parametrize("refs", [Ref, Refs, "refs"], ids=["one", "several", "dict"])
@pytest.mark.parametrize("named", [Left, Text], ids=["number", "text"])
def test_no_value_of_numpys_is_an_identity(named: Any, refs: Any) -> None:
    """As `get` does not find it; and so with each index that there can be, and with none."""
    for value in NAMES:
        answers = [
            answer
            for indexes in [*INDEXES.values(), [SetIndex("a")]]
            for cache in (("all",) if indexes else ("all", "none"))
            for answer in _by_identity(named, refs, value, indexes, cache)
        ]

        assert len(answers) > 1
        assert all([answers[0] == answer for answer in answers]), value
        if not isinstance(value, int | str | list) and "back, many" in answers[0]:
            assert {"()"} == {found for _, found in answers[0]["back, many"]}, value


def _by_identity(
    named: Any, refs: Any, value: Any, indexes: list[Any], cache: Any
) -> list[dict[str, Any]]:
    """Return all answers, ad hoc and prepared; none where the index refuses the value."""
    with memdb.open(None, cache=cache) as db:
        key: Any = {"key": "code"} if named is Text else {}
        names, name = db.collection(named, **key), {} if refs == "refs" else {"name": "refs"}
        names.insert_many(map(Text, "xyz") if named is Text else map(Left, range(4)))
        try:
            collection: Any = db.collection(refs, indexes=indexes, **name)
            collection.insert({"a": value} if refs == "refs" else refs(value))
        except (memdb.ConfigError, memdb.IndexKeyError):
            return []
        answers: list[dict[str, Any]] = [{}, {}]
        for name, build in BY_IDENTITY.items():
            try:
                query = build(names, collection)
            except memdb.QueryError:
                # Of fields with such an annotation it makes no sense.
                continue
            for answer, ask in zip(answers, (query.all, query.prepare()), strict=True):
                answer[name] = [(repr(left), repr(found)) for left, found in _of(ask)]
                assert answer[name] == [(repr(left), repr(found)) for left, found in _of(ask)]
        return answers


def _of(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except memdb.QueryError:
        return [("several belong", None)]
