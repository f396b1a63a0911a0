"""Indexes that functions make, asked by their names: the same as calling the function each time."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memdb
from memdb import F, HashIndex, P, SetIndex, SortedIndex, _index_set, case, count_, optional
from memdb._scan import matching
from memdb.errors import ConfigError, DuplicateKeyError, IndexKeyError, QueryError
from memdb.query import Expression, _aggregating, compile_condition
from tests.support.labels import label_of


@dataclass
class Person:
    name: str
    born: date | None = None
    tags: list[str] = field(default_factory=list)
    id: int = 0


class Pair(NamedTuple):
    key: str
    number: int


def month(person: Person) -> int | None:
    """Return the month of birth."""
    return None if person.born is None else person.born.month


def words(person: Person) -> Iterator[str]:
    """Give the words of the name, one by one."""
    return iter(person.name.lower().split())


def folded(person: Person) -> str:
    """Return the name without cases."""
    return person.name.casefold()


def rest_of(number: int, person: Person) -> int:
    """Return what is left of the identity."""
    return person.id % number


INDEXES = (
    SortedIndex(key=month, name="month"),
    SetIndex(key=words, name="words"),
    HashIndex(key=folded, name="folded", unique=True),
    HashIndex(key=lambda person: len(person.tags), name="tag count"),
)

PEOPLE = [
    Person("Ann Lee", date(1990, 5, 1), ["a"]),
    Person("Bob Ray", date(1985, 5, 5), ["a", "b"]),
    Person("Cid", date(1970, 3, 3)),
    Person("Dan Lee Ray"),
    Person("Eve", date(2001, 12, 31), ["c"]),
]

# A condition, and what it says.
Case = tuple[Expression, Callable[[Person], bool]]

CASES: list[Case] = [
    (F.month == 5, lambda p: month(p) == 5),
    (F.month != 5, lambda p: month(p) != 5),
    (F.month.is_none(), lambda p: month(p) is None),
    (F.month < 5, lambda p: (month(p) or 99) < 5),
    (F.month.between(3, 5), lambda p: month(p) in (3, 4, 5)),
    (F.month.in_([3, 12]), lambda p: month(p) in (3, 12)),
    (F.month > "x", lambda p: False),
    (F.month % 2 == 1, lambda p: (month(p) or 0) % 2 == 1),
    (~(F.month == 5), lambda p: month(p) != 5),
    (~(F.month > 3), lambda p: not (month(p) or 0) > 3),
    (F.words.contains("lee"), lambda p: "lee" in words(p)),
    (F.words.len_() == 3, lambda p: len([*words(p)]) == 3),
    (F.words[0] == "eve", lambda p: next(words(p)) == "eve"),
    (F.folded == "cid", lambda p: folded(p) == "cid"),
    (F.folded.is_(None), lambda p: False),
    (F.folded.in_(["cid", "eve", "x"]), lambda p: folded(p) in ("cid", "eve")),
    (F.folded.startswith("a"), lambda p: folded(p).startswith("a")),
    (F.folded == F.name, lambda p: folded(p) == p.name),
    (F["tag count"] == 1, lambda p: len(p.tags) == 1),
    (F.month.real == 5, lambda p: month(p) == 5),
    ((F.month == 5) & F.words.contains("lee"), lambda p: month(p) == 5 and "lee" in words(p)),
    ((F.month == 5) & (F.name > "B"), lambda p: month(p) == 5 and p.name > "B"),
    ((F.month == 3) | (F.folded == "eve"), lambda p: month(p) == 3 or folded(p) == "eve"),
    ((F.month == 3) | (F.name == "Eve"), lambda p: month(p) == 3 or p.name == "Eve"),
    ((F.month == 5) | (lambda p: p.name == "Eve"), lambda p: month(p) == 5 or p.name == "Eve"),
    ((F.month == 5) & (lambda p: p.id > 1), lambda p: month(p) == 5 and p.id > 1),
]


@pytest.fixture
def db() -> Iterator[memdb.Database]:
    """Give a database in memory."""
    with memdb.open(None) as database:
        yield database


@pytest.fixture
def people(db: memdb.Database) -> Any:
    """Give a collection with indexes of functions."""
    collection = db.collection(Person, indexes=INDEXES)
    collection.insert_many(PEOPLE)
    return collection


def expected(collection: Any, matches: Callable[[Person], bool]) -> list[Person]:
    """Return what a loop finds."""
    return [person for person in collection if matches(person)]


# -- conditions


@pytest.mark.parametrize("found", CASES, ids=lambda found: label_of(found[0]))
@pytest.mark.parametrize("cache", ["all", "none"])
def test_conditions(found: Case, cache: str) -> None:
    """Each way of asking gives what a loop over the function does, generated or not."""
    condition, matches = found
    with memdb.open(None, cache=cache) as db:
        people = db.collection(Person, indexes=INDEXES)
        people.insert_many(PEOPLE)
        wanted = expected(people, matches)

        for _ in range(2):
            query = people.where(condition)
            assert query.all() == list(query) == people.find_all(condition) == wanted
            assert query.count() == people.count(condition) == len(wanted)
            assert query.exists() == people.exists(condition) == bool(wanted)
            assert query.first() == people.find(condition) == (wanted[0] if wanted else None)
            assert query.ids() == [person.id for person in wanted]
            assert query.prepare()() == wanted


@pytest.mark.parametrize("found", CASES, ids=lambda found: label_of(found[0]))
def test_conditions_in_transactions(db: memdb.Database, people: Any, found: Case) -> None:
    """A transaction sees what it has changed, by the function as well."""
    condition, matches = found
    with db.transaction():
        people.insert(Person("Fay Lee", date(1999, 5, 6), ["x"]))
        people.update(1, born=None)
        people.update(3, born=date(2000, 5, 5), name="Eva")
        people.delete(2)
        wanted = expected(people, matches)

        assert people.where(condition).all() == people.find_all(condition) == wanted
        assert people.where(condition).prepare()() == wanted
    assert people.where(condition).all() == wanted


@given(
    picked=st.lists(
        st.tuples(st.integers(0, len(CASES) - 1), st.booleans()), min_size=1, max_size=3
    ),
    is_any=st.booleans(),
    days=st.lists(st.none() | st.dates(date(2000, 1, 1), date(2000, 12, 31)), max_size=20),
)
@settings(max_examples=60, deadline=None)
def test_combinations(
    picked: list[tuple[int, bool]], is_any: bool, days: list[date | None]
) -> None:
    """Conditions may be joined in any way."""
    tests: list[Case] = []
    for place, is_negated in picked:
        condition, matches = CASES[place]
        negated = (~condition, lambda p, matches=matches: not matches(p))
        tests.append(negated if is_negated else (condition, matches))
    joined, *others = [condition for condition, _ in tests]
    for each in others:
        joined = joined | each if is_any else joined & each
    with memdb.open(None) as db:
        people = db.collection(Person, indexes=INDEXES)
        people.insert_many([Person(f"Lee {n}", day, ["a"] * (n % 3)) for n, day in enumerate(days)])
        people.insert_many(PEOPLE)
        quantor = any if is_any else all
        wanted = expected(people, lambda p: quantor([matches(p) for _, matches in tests]))

        assert people.where(joined).all() == wanted
        assert people.where(joined).count() == len(wanted)
        assert people.find_all(joined) == wanted


def test_keywords(people: Any) -> None:
    """A keyword is equality with what the function makes."""
    assert people.count(month=5) == people.where(month=5).count() == 2
    assert people.find(folded="cid").name == "Cid"
    assert people.exists(month=5, name="Bob Ray")


@pytest.mark.parametrize(
    ("condition", "source"),
    [
        (F.month == 5, "sorted index 'month'"),
        (F.month.between(3, 5), "sorted index 'month'"),
        (F.month > 4, "sorted index 'month'"),
        (F.words.contains("lee"), "set index 'words'"),
        (F.folded == "eve", "unique index 'folded'"),
        (F.folded.in_(["eve"]), "unique index 'folded', several keys"),
        (F["tag count"] == 1, "hash index 'tag count'"),
        ((F.month == 3) | (F.folded == "eve"), "sorted index 'month' or unique index 'folded'"),
        (F.month % 2 == 0, "all records"),
    ],
)
def test_index_is_used(people: Any, condition: Expression, source: str) -> None:
    """The query explains itself, and candidates come from the index."""
    query = people.where(condition)
    query.all()
    explanation = query.explain()

    assert explanation.chosen.source == source
    assert explanation.is_compiled


def test_index_is_used_in_transactions(db: memdb.Database, people: Any) -> None:
    """The general way looks it up too."""
    with db.transaction():
        people.update(5, name="Eva")
        assert people.where(F.folded == "cid").explain().chosen.source == "unique index 'folded'"
        assert people.where(F.folded == "eva").ids() == [5]
        assert people.where(F.folded == "eve").ids() == []


def test_function_is_not_called_for_what_the_index_knows(db: memdb.Database) -> None:
    """Without a residual comparison a query never calls the function."""
    calls: list[str] = []

    def initial(person: Person) -> str:
        calls.append(person.name)
        return person.name[0]

    people = db.collection(Person, indexes=[SortedIndex(key=initial, name="initial")])
    people.insert_many(PEOPLE)
    people.where(F.initial >= "C").order_by("initial").all()
    calls.clear()

    assert people.where(F.initial >= "C").order_by("-initial").count() == 3
    assert people.where(F.initial == "A").one().name == "Ann Lee"
    assert [p.name[0] for p in people.query().order_by("-initial")] == ["E", "D", "C", "B", "A"]
    assert calls == []


def test_cheap_comparisons_come_first(db: memdb.Database) -> None:
    """A function is called only for the records that pass what costs less."""
    calls: list[str] = []

    def length(person: Person) -> int:
        calls.append(person.name)
        return len(person.name)

    people = db.collection(Person, indexes=[HashIndex(key=length, name="length")])
    people.insert_many(PEOPLE)
    query = people.where(F.length > 2, F.name.endswith("e"))
    assert query.ids() == [1, 5]
    query.all()
    calls.clear()
    query.all()

    assert calls == ["Ann Lee", "Eve"]


# -- everything else that takes a value


def test_order(people: Any) -> None:
    """The index gives the order; None comes first, and last when it falls."""
    for order in ("month", F.month, F.month.asc()):
        assert people.query().order_by(order).ids() == [4, 3, 1, 2, 5]
    falling = people.query().order_by("-month")

    assert falling.ids() == [5, 1, 2, 3, 4]
    assert falling.limit(2).ids() == [5, 1]
    assert falling.explain().is_order_given
    assert people.query().order_by("tag count", F.folded.desc()).ids() == [4, 3, 5, 1, 2]
    assert people.where(F.name > "B").order_by(F.month * -1).ids() == [4, 5, 2, 3]


def test_pages(people: Any) -> None:
    """Cursors hold what the function made."""
    query = people.query().order_by("month")
    page = query.page(0, 2)

    assert query.after(page.cursor).ids() == [1, 2, 5]
    assert (page.total, [person.id for person in page]) == (5, [4, 3])


def test_selection(people: Any) -> None:
    """Values of functions can be selected, named by the index."""
    assert people.where(id=1).select("month", F.words, "tag count").all() == [
        (5, ("ann", "lee"), 1)
    ]
    assert people.query().values("month").distinct().all() == [5, 3, None, 12]
    assert people.where(id=1).select(F.month, n=F.month + 1, into=dict).all() == [
        {"month": 5, "n": 6}
    ]
    assert people.where(id=2).select("month", "folded").to_dicts() == [
        {"month": 5, "folded": "bob ray"}
    ]


def test_groups(people: Any) -> None:
    """Records can be grouped by what a function makes, and it can be added up."""
    groups = people.query().group_by("month").select("month", count_())
    assert groups.all() == [(None, 1), (3, 1), (5, 2), (12, 1)]
    assert groups.having(F.month > 3).order_by("-month").all() == [(12, 1), (5, 2)]
    by_count = people.query().group_by("tag count").select("tag count", F.month.sum_())
    assert by_count.all() == [(0, 3), (1, 17), (2, 5)]


def test_aggregates(db: memdb.Database, people: Any) -> None:
    """Sums and the first and last value are those of the function."""
    for _ in range(2):
        query = people.query()
        assert (query.sum("month"), query.mean(F.month)) == (25, 6.25)
        assert (query.min("month"), query.max(F.month)) == (3, 12)
        assert people.where(F.month < 10).max("month") == 5
    assert "max(F.month)" in people.query().explain().by_index
    with db.transaction():
        people.update(5, born=None)
        assert people.query().max("month") == 5


def test_changes(people: Any) -> None:
    """A query over a function can update and delete, and calculate with the function."""
    assert people.where(F.month == 5).update(name=F.folded) == 2
    assert people.where(F.month == 5).values("name").all() == ["ann lee", "bob ray"]
    assert people.where(F.words.contains("lee")).delete() == 2
    assert people.where(F.words.contains("lee")).count() == 0
    assert people.where(F.month == 5).ids() == [2]


def test_parameters(people: Any) -> None:
    """Prepared queries take what the function is compared with."""
    query = people.where(
        optional(P.month, F.month == P.month),
        optional(P.names, F.folded.in_(P.names)),
        case(P.word, {"": F.id > 0}, default=F.words.contains(P.word)),
    ).prepare()

    assert [person.id for person in query(word="", month=5)] == [1, 2]
    assert [person.id for person in query(word="lee", month=5)] == [1]
    assert [person.id for person in query(word="", names=["eve", "cid"])] == [3, 5]
    assert query.count(word="ray") == 2
    calculated = people.where(F.month + P.more == 6).order_by(F.month * P.sign).prepare()
    assert [person.id for person in calculated(more=1, sign=-1)] == [1, 2]
    unique = people.where(F.folded == P.name).prepare()
    assert (unique.count(name="eve"), unique.count(name=None)) == (1, 0)


def test_natural_keys(db: memdb.Database) -> None:
    """Collections with a natural key have such indexes too."""
    pairs = db.collection(
        Pair, key="key", indexes=[SortedIndex(key=lambda pair: pair.number % 3, name="rest")]
    )
    pairs.insert_many([Pair(letter, number) for number, letter in enumerate("abcdef")])

    assert pairs.where(F.rest == 1).ids() == ["b", "e"]
    assert pairs.query().order_by("-rest").ids() == ["c", "f", "b", "e", "a", "d"]
    assert (pairs.query().min("rest"), pairs.query().max("rest")) == (0, 2)


def test_reopened(tmp_path: Path) -> None:
    """What was written is found by a program that declares the indexes again."""
    path = tmp_path / "people.memdb"
    for _ in range(2):
        with memdb.open(path) as db:
            people = db.collection(Person, indexes=INDEXES)
            if not len(people):
                people.insert_many(PEOPLE)
            assert people.where(F.month == 5).ids() == [1, 2]
            assert people.where(F.month % 2 == 1).order_by("folded").ids() == [1, 2, 3]
            assert db.check() == []
    with memdb.open(path) as db, pytest.raises(QueryError, match="no field 'month'"):
        db.collection(Person).where(F.month == 5).all()


# -- copies


@pytest.mark.parametrize("cache", ["all", "none"])
def test_function_that_changes_the_record_harms_nobody(cache: str) -> None:
    """It gets a copy, whoever calls it."""

    def spoil(person: Person) -> int:
        person.name = "spoiled"
        person.tags.append("spoiled")
        return len(person.tags)

    with memdb.open(None, cache=cache) as db:
        people = db.collection(Person, indexes=[SortedIndex(key=spoil, name="spoilt")])
        people.insert_many(PEOPLE)
        before = list(people)

        def ask() -> None:
            people.where(F.spoilt == 2).all()
            people.where(F.spoilt % 2 == 0, F.name > "").order_by(F.spoilt + 1).all()
            people.query().order_by("-spoilt").select("spoilt").all()
            people.query().group_by("spoilt").all()
            people.query().max("spoilt")
            people.where((F.spoilt == 2) | (lambda person: False)).all()
            people.find(spoilt=3)

        for _ in range(2):
            ask()
            assert list(people) == before == people.query().all()
        with db.transaction():
            people.update(1, tags=["x", "y"])
            before = list(people)
            ask()
            assert list(people) == before
        assert list(people) == before


def test_results_are_their_receivers_own(db: memdb.Database) -> None:
    """What a function gives out again and again is copied for each receiver."""
    shared = ["a"]
    people = db.collection(Person, indexes=[SetIndex(key=lambda person: shared, name="shared")])
    people.insert(Person("Ann"))
    people.query().values("shared").one().append("b")

    assert (shared, people.query().values("shared").all()) == (["a"], [["a"]])


# -- indexes come and go


def test_unknown_names(people: Any) -> None:
    """A name that is nearly right is shown, be it that of a field or of an index."""
    for condition in (F.mont == 5, F.month_ == 5, F.wordz.contains("a")):
        with pytest.raises(QueryError, match=r"Did you mean '(month|words)'"):
            people.where(condition).all()
        with pytest.raises(QueryError, match=r"Did you mean '(month|words)'"):
            people.find(condition)
    with pytest.raises(QueryError, match="It has name, born, tags, id, month, words, folded"):
        people.query().order_by("zzz").all()


def test_dropped(people: Any) -> None:
    """The name of an index that is dropped is unknown, also to queries from before."""
    query, prepared = people.where(F.month == 5), people.where(F.month == P.month).prepare()
    assert query.count() == prepared.count(month=5) == 2
    people.indexes.drop("month")

    for ask in (
        query.all, query.count, query.explain, lambda: prepared(month=5),
        lambda: prepared.count(month=5), lambda: people.find(month=5),
        lambda: people.query().order_by("month").all(), lambda: people.query().max("month"),
        lambda: people.query().select("month").all(), people.query().group_by("month").all,
        lambda: people.where(F.month == P.month).prepare(),
    ):  # fmt: skip
        with pytest.raises(QueryError, match="no field 'month'"):
            ask()
    assert people.where(F.words.contains("lee")).count() == 2


def test_added_and_replaced(people: Any) -> None:
    """Queries from before ask the index that has the name now."""
    later, prepared = people.where(F.year == 1985), people.where(F.month == P.month).prepare()
    with pytest.raises(QueryError, match="no field 'year'"):
        later.all()
    people.indexes.add(HashIndex(key=lambda p: p.born and p.born.year, name="year"))
    assert later.ids() == [2]
    assert prepared.count(month=5) == 2

    people.indexes.drop("month")
    people.indexes.add(HashIndex(key=lambda person: person.id % 2, name="month"))
    assert prepared.count(month=5) == 0
    assert [person.id for person in prepared(month=1)] == [1, 3, 5]
    assert people.where(F.month == 0).ids() == [2, 4]
    assert people.query().select("month").limit(2).all() == [(1,), (0,)]


def test_renamed(people: Any) -> None:
    """A renamed index is asked by its new name."""
    people.indexes.rename("month", "birth month")

    assert people.where(F["birth month"] == 5).ids() == [1, 2]
    with pytest.raises(QueryError, match="Did you mean 'birth month'"):
        people.where(F.birth_month == 5).all()
    with pytest.raises(ConfigError, match="have a field 'name' too"):
        people.indexes.rename("birth month", "name")
    assert people.where(F["birth month"] == 5).count() == 2


def test_replaced_while_a_query_is_asked(people: Any) -> None:
    """A condition that was compiled for one function takes no candidates of another's."""
    store = people._store
    compiled = compile_condition(F.month == 5, {}, store.query_shape)
    people.indexes.drop("month")
    people.indexes.add(HashIndex(key=lambda person: 5 if person.id == 5 else 0, name="month"))

    assert [row[1].id for row in matching(store, compiled)] == [1, 2]


@pytest.mark.parametrize("module", [_index_set, _aggregating], ids=["candidates", "last value"])
def test_replaced_before_it_is_read(
    people: Any, monkeypatch: pytest.MonkeyPatch, module: Any
) -> None:
    """What was chosen of one index is not taken from another one of the same name."""
    people.indexes.add(SortedIndex("name", name="x"))
    name = "seeds_for" if module is _index_set else "_read"
    original = getattr(module, name)

    def replace(*arguments: Any) -> Any:
        monkeypatch.setattr(module, name, original)
        found = original(*arguments) if name == "seeds_for" else None
        people.indexes.drop("x")
        people.indexes.add(SortedIndex("-name", name="x"))
        return original(*arguments) if found is None else found

    monkeypatch.setattr(module, name, replace)
    if name == "seeds_for":
        people.indexes.drop("x")
        people.indexes.add(SortedIndex("name", name="x", where=F.id > 0))
        assert people.where(F.name > "C", F.id > 0).ids() == people.ids()[2:]
    else:
        assert people.query().max("name") == "Eve"
    assert getattr(module, name) is original


def test_collections_of_one_class(db: memdb.Database) -> None:
    """Functions of the same name in two collections are two."""
    asked = []
    for rest in (2, 3):
        index = HashIndex(key=partial(rest_of, rest), name="rest")
        people = db.collection(Person, name=f"by {rest}", indexes=[index])
        people.insert_many(PEOPLE)
        asked.append(people)
    for condition, wanted in (
        (F.rest == 1, [[1, 3, 5], [1, 4]]),
        (F.rest > 0, [[1, 3, 5], [1, 2, 4, 5]]),
    ):
        assert [people.where(condition).ids() for people in asked] == wanted
        assert [[p.id for p in people.find_all(condition)] for people in asked] == wanted
    assert [people.query().sum(F.rest + 0) for people in asked] == [3, 6]


def test_functions_go_with_the_database() -> None:
    """No cache of compiled conditions keeps a function."""

    def length(person: Person) -> int:
        return len(person.name)

    reference = weakref.ref(length)
    with memdb.open(None) as db:
        people = db.collection(Person, indexes=[HashIndex(key=length, name="length")])
        people.insert_many(PEOPLE)
        assert people.count(length=3) == people.where(F.length < 4).count() == 2
        assert people.query().select("length", F.length + 1).order_by("length").first() == (3, 4)
    del length, people, db
    gc.collect()

    assert reference() is None


# -- names


def test_names_of_fields_are_refused(db: memdb.Database) -> None:
    """A field of the class with this name would be meant."""
    for name in ("name", "id"):
        with pytest.raises(ConfigError, match=f"have a field '{name}' too.*another name="):
            db.collection(Person, indexes=[HashIndex(key=folded, name=name)])
    people = db.collection(Person)
    with pytest.raises(ConfigError, match="have a field 'born' too"):
        people.indexes.add(HashIndex(key=folded, name="born"))
    people.indexes.add(HashIndex("born", name="name"))
    assert list(people.indexes) == ["name"]


def test_dicts(db: memdb.Database) -> None:
    """Where any name may be a key, that of an index stands for the index."""
    notes = db.collection("notes", indexes=[HashIndex(key=lambda r: r["a"] % 2, name="b")])
    notes.insert_many([{"a": 1, "b": 7}, {"a": 2, "b": 1}])

    assert notes.find_all(b=1) == notes.where(F.b == 1).all() == [{"a": 1, "b": 7, "id": 1}]
    assert notes.where(F.b == 7).all() == []
    notes.indexes.drop("b")
    assert notes.where(F.b == 7).ids() == [1]
    with pytest.raises(ConfigError, match="have a field 'id' too"):
        notes.indexes.add(HashIndex(key=len, name="id"))


def test_hidden_fields(db: memdb.Database) -> None:
    """In a collection of dicts no other index may ask for what an index hides."""
    notes = db.collection("notes", indexes=[HashIndex(key=len, name="n"), HashIndex("a")])
    for index in (
        HashIndex("n", name="x"), SortedIndex("a", "n.m", name="x"),
        HashIndex("b", where=F.n > 1), HashIndex(key=len, name="a_", where=F.a_ == 1),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match="which a function makes"):
            notes.indexes.add(index)
    with pytest.raises(ConfigError, match="which a function makes"):
        db.collection("others", indexes=[HashIndex("n", name="x"), HashIndex(key=len, name="n")])
    notes.indexes.add(HashIndex("c", name="by_c"))
    with pytest.raises(ConfigError, match="the index 'by_c' has the field 'c'"):
        notes.indexes.rename("n", "c")
    with pytest.raises(ConfigError, match="the natural key has the field 'k'"):
        db.collection("keyed", key="k", indexes=[HashIndex(key=len, name="k")])
    assert list(notes.indexes) == ["n", "a", "by_c"]


# -- errors, and partial indexes


def test_errors_of_functions(db: memdb.Database) -> None:
    """A function that fails is an IndexKeyError that names index and record, whoever asks."""
    is_broken = False

    def fragile(person: Person) -> int:
        if is_broken and person.id == 2:
            raise KeyError("broken")
        return person.id

    people = db.collection(Person, indexes=[HashIndex(key=fragile, name="fragile")])
    people.insert_many(PEOPLE)
    assert people.where(F.fragile > 1).ids() == [2, 3, 4, 5]
    assert people.where(F.fragile == 3).ids() == [3]
    is_broken = True

    def check() -> None:
        for ask in (
            people.where(F.fragile > 1).all, people.where(F.fragile > 1).count,
            people.where(~(F.fragile.real + 1 == 3)).prepare(),
            people.query().order_by("fragile").all, people.query().select("fragile").all,
            people.query().group_by("fragile").all, people.where(id=2).values(F.fragile * 2).all,
            lambda: people.find_all((F.fragile > 1) & (lambda person: True)),
        ):  # fmt: skip
            with pytest.raises(IndexKeyError, match="its function raised KeyError") as caught:
                ask()
            error = caught.value
            assert (error.collection, error.index, error.identity) == ("Person", "fragile", 2)
            assert isinstance(error.__cause__, KeyError)

    check()
    assert people.where(F.fragile == 3).ids() == [3]
    with db.transaction():
        people.update(1, name="Anna")
        check()


def test_errors_without_an_identity(db: memdb.Database) -> None:
    """The record of an error has the identity that it tells."""

    def fails(pair: Pair) -> int:
        raise LookupError

    pairs = db.collection(Pair)
    keyed = db.collection(Pair, name="keyed", key="key")
    for collection in (pairs, keyed):
        collection.insert(Pair("a", 1))
        with pytest.raises(IndexKeyError):
            collection.indexes.add(HashIndex(key=fails, name="fails"))
        assert list(collection.indexes) == []
        with pytest.raises(QueryError, match="no field 'fails'"):
            collection.where(F.fails == 1).all()
    is_broken = False
    index = HashIndex(key=lambda pair: fails(pair) if is_broken else 0, name="key length")
    for collection, identity in ((pairs, None), (keyed, "a")):
        is_broken = False
        collection.indexes.add(index)
        is_broken = True
        with pytest.raises(IndexKeyError) as caught:
            collection.where(F["key length"] > 1).all()
        assert caught.value.identity == identity


def test_partial_indexes(db: memdb.Database) -> None:
    """A record that is not in the index has its value all the same, or none if there is none."""
    known = ~F.born.is_none()
    people = db.collection(
        Person,
        indexes=[
            SortedIndex(key=lambda person: person.born.month, name="month", where=known),
            HashIndex(key=folded, name="folded", where=F.id > 2),
        ],
    )
    people.insert_many(PEOPLE)

    def check(first: list[int]) -> None:
        for conditions in ([known, F.month == 5], [F.month == 5, known], [F.month == 5]):
            assert people.where(*conditions).ids() == first
            assert [each.id for each in people.where(*conditions).prepare()()] == first
        assert people.where(F.month != 5).ids() == [n for n in range(1, 6) if n not in first]
        assert people.where(F.month.is_none()).ids() == []
        assert people.where(id=4).values("month").all() == [None]
        assert people.where(F.folded == "ann lee").ids() == [1]
        assert people.where(F.folded == "eve").ids() == [5]

    for _ in range(2):
        check([1, 2])
    chosen = people.where(known, F.month == 5).explain().chosen.source
    assert chosen == "sorted index 'month'"
    assert people.where(F.month == 5).explain().chosen.source == "all records"
    assert people.query().order_by("month").ids() == [4, 3, 1, 2, 5]
    with db.transaction():
        people.update(1, born=None)
        people.update(3, born=date(1999, 5, 5))
        check([2, 3])
    check([2, 3])


def test_unique_keys_hold(people: Any) -> None:
    """An index that is asked refuses what it did before."""
    with pytest.raises(DuplicateKeyError):
        people.insert(Person("EVE"))
    assert people.where(F.folded == "eve").count() == 1
    people.update(5, name="Eva")
    assert people.where(F.folded == "eve").count() == 0
    people.insert(Person("EVE"))
    assert people.find(folded="eve").name == "EVE"


def test_index_for_a_key_without_hash(db: memdb.Database) -> None:
    """A sorted index takes any values of a function, and finds equal ones."""
    people = db.collection(Person, indexes=[SortedIndex(key=lambda p: p.tags, name="sorted tags")])
    people.insert_many(PEOPLE)

    assert people.where(F["sorted tags"] == ["a", "b"]).ids() == [2]
    assert people.query().order_by("-sorted tags").ids() == [5, 2, 1, 3, 4]


def test_keys_of_several_values(db: memdb.Database) -> None:
    """A function may make a tuple or a dict; what is inside can be asked for as well."""
    people = db.collection(
        Person,
        indexes=[
            SortedIndex(key=lambda person: (len(person.tags), person.name), name="pair"),
            SortedIndex(key=lambda person: {"first": person.name[:1]}, name="parts"),
        ],
    )
    people.insert_many(PEOPLE)

    for _ in range(2):
        assert people.where(F.pair == (1, "Eve")).ids() == [5]
        assert people.where(F.pair > (1, "B")).ids() == [2, 5]
        assert people.query().order_by("-pair").ids() == [2, 5, 1, 4, 3]
        assert people.where(F.pair[0] == 1).ids() == [1, 5]
        assert people.where(F.parts.first == "E").ids() == [5]
        assert people.where(F.parts.second == "E").ids() == []
        assert people.where(id=1).values("parts.first").all() == ["A"]


def test_parameters_of_any_name(people: Any) -> None:
    """A parameter may be called as the generated source calls something."""
    query = people.where(F.month % 2 == P.function0, F.folded.endswith(P.r)).prepare()

    assert [person.id for person in query(function0=1, r="y")] == [2]
    assert query.count(function0=1, r="y") == 1


def test_replaced_by_another_thread(people: Any) -> None:
    """A query is answered by one function, whichever it is, and never by two."""
    people.insert_many([Person(f"Person {n}", tags=["x"] * (n % 3)) for n in range(100)])
    parities = [
        HashIndex(key=lambda person: person.id % 2, name="parity"),
        SortedIndex(key=lambda person: 1 - person.id % 2, name="parity"),
    ]
    is_done = threading.Event()

    def replace() -> None:
        for turn in range(60):
            people.indexes.add(parities[turn % 2])
            people.indexes.drop("parity")
        is_done.set()

    thread = threading.Thread(target=replace)
    thread.start()
    odd = [person.id for person in people if person.id % 2]
    even = [person.id for person in people if not person.id % 2]
    prepared = people.where(~(F.name == ""), F.parity == 1).prepare
    while not is_done.is_set():
        try:
            found = people.where(F.parity == 1).ids()
            again = [person.id for person in people.find_all(parity=1)]
            third = [person.id for person in prepared()()]
        except QueryError as error:
            assert "no field 'parity'" in str(error)
            continue
        assert all([ids in (odd, even) for ids in (found, again, third)])
    thread.join()
