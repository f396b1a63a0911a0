"""What is refused: of conditions, orders, pages, cursors, parameters and declarations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import memdb
from memdb import F, P, case, count_, optional


@dataclass
class Address:
    city: str
    zip_code: str | None = None


@dataclass
class Person:
    first_name: str
    age: int
    born: date
    height: float | None = None
    balance: Decimal = Decimal(0)
    tags: list[str] = field(default_factory=list)
    home: Address | None = None
    extra: Any = None
    id: int = 0


BORN = date(1990, 5, 17)
Ask = Callable[[memdb.Collection[Any]], Any]


@pytest.fixture
def people(db: memdb.Database) -> memdb.Collection[Person]:
    """Two people."""
    people = db.collection(Person)
    people.insert_many(
        [Person("Ann", 30, BORN, tags=["tv"]), Person("Bob", 40, BORN, home=Address("Rome"))]
    )
    return people


def refused(error: type[Exception], ask: Callable[[], Any], *parts: str) -> str:
    """Check that something is refused with a message that has some parts; return it."""
    with pytest.raises(error) as caught:
        ask()
    message = str(caught.value)
    for part in parts:
        assert part in message, message
    assert isinstance(caught.value, memdb.MemdbError)
    return message


# -- unknown fields --------------------------------------------------------------------------

UNKNOWN: dict[str, Ask] = {
    "where": lambda people: people.where(F.first_nam == "Ann").all(),
    "equals": lambda people: people.where(first_nam="Ann").all(),
    "count": lambda people: people.where(F.first_nam == "Ann").count(),
    "prepare": lambda people: people.where(F.first_nam == P.x).prepare()(x=1),
    "order": lambda people: people.query().order_by("first_nam").all(),
    "falling": lambda people: people.query().order_by("-first_nam").all(),
    "order of F": lambda people: people.query().order_by(F.first_nam.desc()).all(),
    "select": lambda people: people.query().select(F.first_nam).all(),
    "values": lambda people: people.query().values(F.first_nam).all(),
    "sum": lambda people: people.query().sum("first_nam"),
    "min": lambda people: people.query().min(F.first_nam),
    "group": lambda people: (
        people.query().group_by(F.first_nam).select(F.first_nam, count_()).all()
    ),
    "or": lambda people: people.where((F.age > 100) | (F.first_nam == "Ann")).all(),
    "not": lambda people: people.where(~(F.first_nam == "Ann")).all(),
    "arithmetic": lambda people: people.where(F.age + F.first_nam > 1).all(),
    "optional": lambda people: people.where(optional(P.x, F.first_nam == P.x)).prepare()(),
    "case": lambda people: people.where(case(P.x, {1: F.first_nam == "a"})).prepare()(x=2),
}


@pytest.mark.parametrize("way", UNKNOWN)
def test_unknown_field_is_named_with_the_nearest(
    people: memdb.Collection[Person], way: str
) -> None:
    """An unknown field is refused wherever it stands, and the nearest one is suggested."""
    refused(memdb.QueryError, lambda: UNKNOWN[way](people), "first_nam", "'first_name'")


def test_unknown_nested_field(people: memdb.Collection[Person]) -> None:
    """Inside a nested record, too."""
    for ask in (
        lambda: people.where(F.home.citi == "Rome").all(),
        lambda: people.query().order_by("home.citi").all(),
        lambda: people.query().select(F.home.citi).all(),
    ):
        refused(memdb.QueryError, ask, "home.citi", "'city'")


def test_unknown_field_of_an_update(people: memdb.Collection[Person]) -> None:
    """A bulk update of an unknown field changes nothing."""
    before = list(people)
    with pytest.raises(memdb.MemdbError) as caught:
        people.where(F.age > 0).update(first_nam="x")

    assert "first_name" in str(caught.value)
    assert before == list(people)


DECLARATIONS = [memdb.HashIndex, memdb.SortedIndex, memdb.SetIndex, memdb.ColumnIndex]


@pytest.mark.parametrize("declaration", DECLARATIONS)
def test_unknown_field_of_an_index(people: memdb.Collection[Person], declaration: Any) -> None:
    """An index of an unknown field is refused and not there."""
    with pytest.raises((memdb.QueryError, memdb.ConfigError)) as caught:
        people.indexes.add(declaration("first_nam"))

    assert "first_name" in str(caught.value)
    assert [] == list(people.indexes)


# -- types -----------------------------------------------------------------------------------

INCOMPARABLE: dict[str, Any] = {
    "int < str": lambda: F.age < "a",
    "int <= None": lambda: F.age <= None,
    "str > int": lambda: F.first_name > 5,
    "str >= bytes": lambda: F.first_name >= b"a",
    "date < str": lambda: F.born < "2020-01-01",
    "date < datetime": lambda: F.born < datetime(2020, 1, 1),
    "optional < str": lambda: F.height < "1.80",
    "optional < None": lambda: F.height < None,
    "Decimal < str": lambda: F.balance < "1",
    "between": lambda: F.age.between(1, "b"),
    "between None": lambda: F.age.between(None, 5),
    "startswith": lambda: F.age.startswith("1"),
    "nested": lambda: F.home.city < 5,
    "in or": lambda: (F.first_name == "Ann") | (F.age < "a"),
    "in not": lambda: ~(F.age < "a"),
}


@pytest.mark.parametrize("is_indexed", [False, True])
@pytest.mark.parametrize("what", INCOMPARABLE)
def test_incomparable_types(people: memdb.Collection[Person], what: str, is_indexed: bool) -> None:
    """A range of what can't be compared with the field's type is refused, index or not."""
    if is_indexed:
        for name in ("age", "first_name", "born", "height", "balance", "home.city"):
            people.indexes.add(memdb.SortedIndex(name))
    for ask in (
        lambda: people.where(INCOMPARABLE[what]()).all(),
        lambda: people.where(INCOMPARABLE[what]()).count(),
        lambda: people.where(INCOMPARABLE[what]()).delete(),
    ):
        refused(memdb.QueryError, ask)
    assert 2 == len(people)


def test_incomparable_parameter(people: memdb.Collection[Person]) -> None:
    """So is a parameter when it is given; another call of the same query is not harmed."""
    for index in (None, memdb.SortedIndex("age")):
        if index is not None:
            people.indexes.add(index)
        younger = people.where(F.age < P.age).prepare()
        refused(memdb.QueryError, lambda younger=younger: younger(age="a"), "age", "int")
        refused(memdb.QueryError, lambda younger=younger: younger(age=None), "age")
        refused(memdb.QueryError, lambda younger=younger: younger.count(age="a"), "age")
        assert ["Ann"] == [person.first_name for person in younger(age=35)]


def test_error_names_field_type_and_value(people: memdb.Collection[Person]) -> None:
    """The error for a range names the field, its type and the value."""
    refused(memdb.QueryError, lambda: people.where(F.age < "abc").all(), "age", "int", "'abc'")


def test_what_can_hold_anything_is_never_refused(db: memdb.Database) -> None:
    """Where the type says nothing, what can't be compared just does not match."""
    people, notes = db.collection(Person), db.collection("notes")
    people.insert(Person("Ann", 30, BORN, extra=5))
    notes.insert_many([{"a": 1}, {"a": "x"}, {}, {"a": None}])
    for _ in range(2):
        for other in ("a", BORN, (1,), b"x", datetime(2020, 1, 1)):
            assert [] == people.where(F.extra < other).ids()
        assert [1] == notes.where(F.a < 5).ids()
        assert [2] == notes.where(F.a > "a").ids() == notes.where(F.a.startswith("x")).ids()
        assert [] == notes.where(F.a.between(1, "z")).ids()
        people.indexes.add(memdb.SortedIndex("extra", name=f"i{len(people.indexes)}"))
        notes.indexes.add(memdb.SortedIndex("a", name=f"i{len(notes.indexes)}"))


NO_NUMBERS = {"text": "a", "None": None, "list": [1], "object": object(), "array": np.array([1, 2])}


@pytest.mark.parametrize("value", NO_NUMBERS.values(), ids=NO_NUMBERS)
def test_equality_takes_anything(people: memdb.Collection[Person], value: Any) -> None:
    """What equals nothing of the field's type is found nowhere, index or not."""
    for index in (None, memdb.HashIndex("age"), memdb.SortedIndex("age", name="s")):
        if index is not None:
            people.indexes.add(index)
        assert [] == people.where(F.age == value).ids()
        assert [1, 2] == people.where(F.age != value).ids()
        assert [1] == people.where(F.age.in_([value, 30])).ids()


# -- keys ------------------------------------------------------------------------------------


def test_a_key_without_a_hash(db: memdb.Database) -> None:
    """A record whose key has no hash is refused, with index and record named."""
    notes = db.collection("notes", indexes=[memdb.SortedIndex("n"), memdb.HashIndex("a")])
    notes.insert({"a": 1, "n": 1})
    for write in (
        lambda: notes.insert({"a": [1], "n": 2}),
        lambda: notes.insert_many([{"a": 2, "n": 2}, {"a": {}, "n": 2}]),
        lambda: notes.put({"a": {1}, "n": 2, "id": 1}),
        lambda: notes.update(1, a=[1]),
        lambda: notes.where(F.n == 1).update(a=bytearray(b"a")),
    ):
        with pytest.raises(memdb.IndexKeyError) as caught:
            write()
        assert ("notes", "a") == (caught.value.collection, caught.value.index)
        assert "'a'" in str(caught.value)
        with pytest.raises(memdb.IndexKeyError), db.transaction():
            write()
    with pytest.raises(memdb.IndexKeyError) as caught:
        notes.update(1, a=[1])

    assert 1 == caught.value.identity
    assert [{"a": 1, "n": 1, "id": 1}] == list(notes)
    assert [] == notes.where(F.a == [1]).ids() == notes.where(F.n == 2).ids()


def test_an_index_over_what_has_no_hash(db: memdb.Database) -> None:
    """An index that is added over a record without a key names the record and is not there."""
    notes = db.collection("notes")
    notes.insert_many([{"a": 1}, {"a": [1]}])
    with pytest.raises(memdb.IndexKeyError) as caught:
        notes.indexes.add(memdb.HashIndex("a"))

    assert (2, "a") == (caught.value.identity, caught.value.index)
    assert [] == list(notes.indexes)
    assert [2] == notes.where(F.a == [1]).ids()


@pytest.mark.parametrize("make", [memdb.HashIndex, memdb.SortedIndex])
def test_a_key_function_that_raises(db: memdb.Database, make: Any) -> None:
    """A record whose key function raises is refused, with the cause."""
    index = make(key=lambda note: 1 // note["n"], name="inverse")
    notes = db.collection("notes", indexes=[index])
    notes.insert({"n": 1})
    for write in (
        lambda: notes.insert({"n": 0}),
        lambda: notes.insert_many([{"n": 2}, {"n": 0}]),
        lambda: notes.update(1, n=0),
        lambda: notes.insert({}),
    ):
        with pytest.raises(memdb.IndexKeyError) as caught:
            write()
        assert "inverse" == caught.value.index
        assert isinstance(caught.value.__cause__, ZeroDivisionError | KeyError)

    assert [{"n": 1, "id": 1}] == list(notes)


def test_a_lazy_build_that_fails_names_the_record(tmp_path: Any) -> None:
    """A declared index that can't be built when it is first used names the record."""
    path = tmp_path / "a.memdb"
    with memdb.open(path) as db:
        db.collection("notes").insert_many([{"a": 1}, {"a": [1]}])
    with memdb.open(path) as db:
        notes = db.collection("notes", indexes=[memdb.HashIndex("a")])
        with pytest.raises(memdb.IndexKeyError) as caught:
            notes.where(F.a == 1).all()

        assert 2 == caught.value.identity
        notes.update(2, a=2)
        assert [2] == notes.where(F.a == 2).ids()


WRONG_INDEXES: dict[str, Callable[[], Any]] = {
    "hash of a list": lambda: memdb.HashIndex("tags"),
    "hash of a record": lambda: memdb.HashIndex("home"),
    "set of a number": lambda: memdb.SetIndex("age"),
    "column of a text": lambda: memdb.ColumnIndex("first_name"),
    "nothing": lambda: memdb.HashIndex(),
    "both": lambda: memdb.HashIndex("age", key=lambda person: 1, name="x"),
    "function without a name": lambda: memdb.HashIndex(key=lambda person: 1),
    "no condition": lambda: memdb.HashIndex("age", where=5),
    "no field": lambda: memdb.HashIndex(5),
    "no function": lambda: memdb.HashIndex(key=5, name="x"),
    "empty": lambda: memdb.SortedIndex(""),
    "sign alone": lambda: memdb.SortedIndex("-"),
}


@pytest.mark.parametrize("what", WRONG_INDEXES)
def test_wrong_declarations(people: memdb.Collection[Person], what: str) -> None:
    """A declaration that makes no sense is refused, when it is made or when it is bound."""
    with pytest.raises((memdb.ConfigError, memdb.QueryError)):
        people.indexes.add(WRONG_INDEXES[what]())

    assert [] == list(people.indexes)


def test_duplicate_index_names(db: memdb.Database) -> None:
    """Two indexes of one name are refused, wherever the second comes from."""
    same = [memdb.HashIndex("age"), memdb.SortedIndex("age")]
    refused(memdb.ConfigError, lambda: db.collection(Person, indexes=same), "'age'")
    people = db.collection(Person, indexes=[memdb.HashIndex("age"), memdb.HashIndex("born")])
    refused(memdb.ConfigError, lambda: people.indexes.add(memdb.SortedIndex("age")), "'age'")
    refused(memdb.ConfigError, lambda: people.indexes.rename("age", "born"), "'born'")

    assert ["age", "born"] == list(people.indexes)


def test_unknown_index_names(people: memdb.Collection[Person]) -> None:
    """What there is no index of can't be dropped or renamed, and the nearest is suggested."""
    people.indexes.add(memdb.HashIndex("age"))
    for ask in (
        lambda: people.indexes.drop("agee"),
        lambda: people.indexes.rename("agee", "x"),
    ):
        refused(memdb.ConfigError, ask, "agee", "'age'")
    with pytest.raises(KeyError):
        people.indexes["agee"]


# -- counts, pages and cursors ---------------------------------------------------------------

NO_COUNTS: list[Any] = [-1, -(2**70), 1.0, "1", True]


@pytest.mark.parametrize("count", [*NO_COUNTS, None], ids=str)
@pytest.mark.parametrize("way", ["skip", "page skip"])
def test_no_skip(people: memdb.Collection[Person], way: str, count: Any) -> None:
    """A skip that is negative or no number is refused at once."""
    query = people.query()
    ask = query.skip if way == "skip" else query.page
    refused(memdb.QueryError, lambda: ask(count), "skip")


@pytest.mark.parametrize("count", NO_COUNTS, ids=str)
@pytest.mark.parametrize("way", ["limit", "take"])
def test_no_limit(people: memdb.Collection[Person], way: str, count: Any) -> None:
    """So is a limit."""
    query = people.query()
    ask = query.limit if way == "limit" else lambda count: query.page(0, count)
    refused(memdb.QueryError, lambda: ask(count), way)


def test_a_cursor_of_another_order(people: memdb.Collection[Person]) -> None:
    """A cursor is refused after the order has changed, also that of one direction."""
    query = people.query()
    cursor = query.order_by("age").page(take=1).cursor
    assert cursor is not None
    assert [2] == query.order_by("age").after(cursor).ids()
    for other in (
        lambda: query.order_by("-age").after(cursor).all(),
        lambda: query.order_by("first_name").after(cursor).all(),
        lambda: query.order_by("age", "first_name").after(cursor).all(),
        lambda: query.after(cursor).all(),
        lambda: query.after(cursor).order_by("-age").all(),
        lambda: query.after(cursor).order_by("-age").count(),
        lambda: query.after(cursor).order_by("-age").page(take=1),
        lambda: query.order_by("age").after(cursor).order_by("born").exists(),
    ):
        refused(memdb.QueryError, other, "order")


@pytest.mark.parametrize("cursor", ["", "abc", "żółw", "A" * 100, 5, b"abc"], ids=str)
def test_no_cursor(people: memdb.Collection[Person], cursor: Any) -> None:
    """What is no cursor is refused, also one that was cut or changed."""
    refused(memdb.QueryError, lambda: people.query().after(cursor).all(), "cursor")


def test_a_damaged_cursor(people: memdb.Collection[Person]) -> None:
    """A cursor that was cut or changed anywhere is refused."""
    query = people.query().order_by("first_name")
    cursor = query.page(take=1).cursor
    assert cursor is not None
    for place in range(len(cursor)):
        other = "B" if cursor[place] == "A" else "A"
        for text in (cursor[:place], cursor[:place] + other + cursor[place + 1 :]):
            # The last sign may hold bits that mean nothing.
            if place < len(cursor) - 1:
                refused(memdb.QueryError, lambda text=text: query.after(text).all(), "cursor")


# -- expressions -----------------------------------------------------------------------------

TRUTHS: dict[str, Callable[[], Any]] = {
    "and": lambda: (F.age > 1) and (F.age < 5),
    "or": lambda: (F.age > 1) or (F.age < 5),
    "not": lambda: not (F.age > 1),
    "chain": lambda: 1 < F.age < 5,
    "if": lambda: 1 if F.age > 1 else 0,
    "field and": lambda: F.age and F.born,
    "calculated": lambda: bool(F.age + 1),
    "length": lambda: not F.tags.len_(),
    "parameter": lambda: bool(P.x),
    "optional": lambda: bool(optional(P.x, F.age == P.x)),
    "case": lambda: bool(case(P.x, {1: F.age == 1})),
    "aggregate": lambda: bool(count_() > 1),
}


@pytest.mark.parametrize("way", TRUTHS)
def test_an_expression_is_no_bool(way: str) -> None:
    """An expression used as a bool is refused, and the error says to use &."""
    refused(memdb.QueryError, TRUTHS[way], "&")


NO_CONDITIONS: dict[str, Ask] = {
    "number": lambda people: people.where(5),
    "text": lambda people: people.where("age > 5"),
    "True": lambda people: people.where(True),
    "None": lambda people: people.where(None),
    "field": lambda people: people.where(F.age),
    "calculated": lambda people: people.where(F.age + 1),
    "in text": lambda people: people.where(F.first_name.in_("Ann")),
    "in number": lambda people: people.where(F.age.in_(5)),
    "order": lambda people: people.query().order_by(5),
    "empty order": lambda people: people.query().order_by(""),
    "order of a condition": lambda people: people.query().order_by(F.age > 5).where(5),
    "pattern": lambda people: people.where(F.first_name.matches("(")),
    "no pattern": lambda people: people.where(F.first_name.matches(5)),
}


@pytest.mark.parametrize("what", NO_CONDITIONS)
def test_no_condition(people: memdb.Collection[Person], what: str) -> None:
    """What is no condition or order is refused."""
    refused(memdb.QueryError, lambda: NO_CONDITIONS[what](people).all())


# -- parameters ------------------------------------------------------------------------------


def test_parameters_must_be_given(people: memdb.Collection[Person]) -> None:
    """A prepared query refuses parameters that are missing or that it does not know."""
    prepared = people.where(F.age.between(P.low, P.high)).prepare()
    for call in (prepared, prepared.count):
        refused(memdb.QueryError, lambda call=call: call(low=1), "high")
        refused(memdb.QueryError, call, "low")
        refused(memdb.QueryError, lambda call=call: call(low=1, high=2, hight=3), "hight", "'high'")
        with pytest.raises((TypeError, memdb.QueryError)):
            call(1, 2)

    assert 2 == len(prepared(low=1, high=50)) == prepared.count(low=1, high=50)


def test_parameters_without_preparing(people: memdb.Collection[Person]) -> None:
    """A query with parameters that is asked without them says which."""
    query = people.where(F.age > P.lowest)
    for ask in (query.all, query.count, query.exists, query.first, query.delete, query.ids):
        refused(memdb.QueryError, ask, "lowest")

    assert 2 == len(people)


def test_one(people: memdb.Collection[Person]) -> None:
    """one() refuses none and several."""
    refused(memdb.QueryError, lambda: people.where(F.age > 100).one())
    refused(memdb.QueryError, lambda: people.query().one())

    assert "Bob" == people.where(F.age > 35).one().first_name
