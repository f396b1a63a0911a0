"""Faults with indexes, scanning and sorting: cases C1, C2, C3, C5, E2 and E3."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

import memdb
from memdb import F
from tests.support import naive
from tests.support.concurrently import run_all
from tests.support.exact import assert_exact
from tests.support.naive import ABSENT


@dataclass
class Person:
    email: str
    name: str
    n: int
    tags: list[str] = field(default_factory=list)
    nick: str | None = None
    id: int = 0


@dataclass(frozen=True)
class FrozenPerson:
    email: str
    name: str
    n: int
    tags: tuple[str, ...] = ()
    nick: str | None = None
    id: int = 0


class StructPerson(msgspec.Struct):
    email: str
    name: str
    n: int
    tags: list[str] = []
    nick: str | None = None
    id: int = 0


def email_of(person: Any) -> str:
    """Return what the index by function has."""
    email: str = person.email
    return email.casefold()


UNIQUE: dict[str, Callable[[], Any]] = {
    "hash": lambda: memdb.HashIndex("email", unique=True, name="u"),
    "several": lambda: memdb.HashIndex("email", "nick", unique=True, name="u"),
    "function": lambda: memdb.HashIndex(key=email_of, unique=True, name="u"),
    "partial": lambda: memdb.HashIndex("email", unique=True, name="u", where=F.n < 1_000),
    "sorted": lambda: memdb.SortedIndex("email", unique=True, name="u"),
}
PLAIN: dict[str, Callable[[], Any]] = {
    "hash": lambda: memdb.HashIndex("name"),
    "sorted": lambda: memdb.SortedIndex("n"),
    "compound": lambda: memdb.SortedIndex("name", "-n", name="both"),
    "set": lambda: memdb.SetIndex("tags"),
    "column": lambda: memdb.ColumnIndex("n", name="column"),
    "function": lambda: memdb.HashIndex(key=lambda person: person.n % 10, name="digit"),
    "partial": lambda: memdb.SortedIndex("n", where=F.n > 1, name="some"),
}
PLACES = {"first": 0, "middle": 4, "last": len(PLAIN)}
CLASSES = [Person, FrozenPerson, StructPerson]


def indexes_with(unique: str, place: str) -> list[Any]:
    """Return one index of each kind, and a unique one among them."""
    indexes = [declare() for declare in PLAIN.values()]
    indexes.insert(PLACES[place], UNIQUE[unique]())
    return indexes


def made(cls: Any, email: str, name: str, n: int, tag: str) -> Any:
    """Return a person."""
    return cls(email, name, n, (tag,) if cls is FrozenPerson else [tag], "nick")


def check_people(people: memdb.Collection[Any], expected: dict[int, Any]) -> None:
    """Check that the people are the expected ones, by every index."""
    assert_exact(dict(people.items()), expected)
    assert len(expected) == len(people) == people.query().count()

    def find(condition: Any) -> set[int]:
        return set(people.where(condition).ids())

    every = [*expected.values(), *PEOPLE_MET]
    for met in every:
        for condition, matches in (
            (F.email == met.email, lambda each, met=met: each.email == met.email),
            (F.name == met.name, lambda each, met=met: each.name == met.name),
            (F.n == met.n, lambda each, met=met: each.n == met.n),
            (F.n >= met.n, lambda each, met=met: each.n >= met.n),
            (F.n.between(2, met.n), lambda each, met=met: 2 <= each.n <= met.n),
            (F.tags.contains(met.tags[0]), lambda each, met=met: met.tags[0] in each.tags),
            (
                (F.name == met.name) & (F.n == met.n),
                lambda each, met=met: (each.name, each.n) == (met.name, met.n),
            ),
        ):
            right = {number for number, each in expected.items() if matches(each)}
            assert right == find(condition), condition
            assert len(right) == people.where(condition).count()
            assert bool(right) == people.where(condition).exists()
    assert sum(each.n for each in expected.values()) == people.query().sum("n")
    assert sorted(each.n for each in expected.values()) == [
        each.n for each in people.query().order_by("n")
    ]


# Those that are refused and must not be found.
PEOPLE_MET = [
    Person("new@x", "new", 77, ["new"]),
    Person("a@x", "second", 78, ["other"]),
    Person("y@x", "y", 79, ["why"]),
]


@dataclass
class Opened:
    """A collection of two people in a file."""

    path: Path
    people: memdb.Collection[Any]
    db: memdb.Database
    cls: Any
    expected: dict[int, Any]
    indexes: Callable[[], list[Any]]

    def check(self) -> None:
        """Check what is there, now and in a new handle, with indexes and without."""
        check_people(self.people, self.expected)
        assert [] == self.db.check()
        self.db.close()
        for mode in ("r", "rw"):
            with memdb.open(self.path, mode) as db:
                check_people(db.collection(self.cls, indexes=self.indexes()), self.expected)
        with memdb.open(self.path) as db:
            check_people(db.collection(self.cls), self.expected)
            assert [] == db.check()


@contextlib.contextmanager
def opened(
    path: Path, cls: Any, indexes: Callable[[], list[Any]], **settings: Any
) -> Iterator[Opened]:
    """Open a file with two people, into which nothing is written in the background."""
    first, second = made(cls, "a@x", "ann", 1, "tv"), made(cls, "b@x", "bob", 2, "sea")
    with memdb.open(path, **{"flush_interval": 86_400.0, **settings}) as db:
        people = db.collection(cls, indexes=indexes())
        assert [1, 2] == people.insert_many([first, second])
        expected = dict(enumerate(map(with_identity, (first, second), (1, 2)), 1))
        yield Opened(path, people, db, cls, expected, indexes)


def with_identity(person: Any, identity: int) -> Any:
    """Return a person with an identity."""
    if isinstance(person, msgspec.Struct):
        return msgspec.structs.replace(person, id=identity)
    return replace(person, id=identity)


# -- C1: refused by a unique index -----------------------------------------------------------

WAYS = ["insert", "insert_many", "put new", "put", "update", "fields", "edit", "bulk"]
# Every way with every unique index, the plain one in every place and the others in one of them.
CASES = [
    (way, unique, place)
    for (n, way), (m, unique), (k, place) in itertools.product(
        enumerate(WAYS), enumerate(UNIQUE), enumerate(PLACES)
    )
    if unique == "hash" or (n + m + k) % 3 == 0
]


def write_duplicate(people: memdb.Collection[Any], cls: Any, way: str) -> None:
    """Try to give a record the key of the first one."""
    duplicate = made(cls, "a@x", "second", 78, "other")
    if way == "insert":
        people.insert(duplicate)
    elif way == "insert_many":
        # Also where only the one in the middle is refused.
        around = [made(cls, f"{n}@x", "new", 77, "new") for n in range(2)]
        people.insert_many([around[0], duplicate, around[1]])
    elif way == "put new":
        people.put(with_identity(duplicate, 9))
    elif way == "put":
        people.put(with_identity(duplicate, 2))
    elif way == "update":
        people.update(2, lambda old: with_identity(duplicate, 2))
    elif way == "edit" and cls is not FrozenPerson:
        with people.edit(2) as person:
            person.email = "a@x"
    elif way == "bulk":
        people.where(F.name == "bob").update(email="a@x", name="second")
    else:
        people.update(2, email="a@x", name="second")


@pytest.mark.parametrize(("way", "unique", "place"), CASES)
def test_c1_a_refused_key_is_nowhere(tmp_path: Path, way: str, unique: str, place: str) -> None:
    """A change that a unique index refuses is neither in memory nor in the file."""
    path = tmp_path / "a.memdb"
    cls = CLASSES[(len(way) + len(unique)) % 3]
    with opened(path, cls, lambda: indexes_with(unique, place)) as opening:
        before = path.read_bytes()
        with pytest.raises(memdb.DuplicateKeyError) as caught:
            write_duplicate(opening.people, cls, way)

        assert before == path.read_bytes()
        assert ("u", cls.__name__) == (caught.value.index, caught.value.collection)
        assert 1 == caught.value.other
        assert "a@x" not in str(caught.value)
        check_people(opening.people, opening.expected)
        third = made(cls, "c@x", "cid", 3, "tv")
        number = opening.people.insert(third)
        opening.expected[number] = with_identity(third, number)
        opening.check()


@pytest.mark.parametrize(("way", "unique", "place"), CASES)
def test_c1_in_a_transaction(tmp_path: Path, way: str, unique: str, place: str) -> None:
    """A transaction with a refused key, at once or at its end, leaves nothing."""
    path = tmp_path / "a.memdb"
    cls = CLASSES[(len(way) + len(unique)) % 3]
    with opened(path, cls, lambda: indexes_with(unique, place)) as opening:
        before = path.read_bytes()
        with pytest.raises(memdb.DuplicateKeyError), opening.db.transaction():
            opening.people.insert(made(cls, "new@x", "new", 77, "new"))
            opening.people.update(1, n=5)
            with contextlib.suppress(ZeroDivisionError), opening.db.transaction():
                opening.people.insert(made(cls, "a@x", "new", 77, "new"))
                raise ZeroDivisionError
            write_duplicate(opening.people, cls, way)

        assert before == path.read_bytes()
        check_people(opening.people, opening.expected)
        opening.people.update(2, email="d@x")
        opening.expected[2] = opening.people[2]
        assert "d@x" == opening.people[2].email
        opening.check()


@pytest.mark.parametrize("unique", UNIQUE)
def test_c1_two_new_records_of_one_key(tmp_path: Path, unique: str) -> None:
    """Records inserted together are refused for each other's key, too."""
    path = tmp_path / "a.memdb"
    with opened(path, Person, lambda: indexes_with(unique, "middle")) as opening:
        before = path.read_bytes()
        twins = [made(Person, "new@x", "new", 77, "new") for _ in range(2)]
        with pytest.raises(memdb.DuplicateKeyError):
            opening.people.insert_many(twins)
        with pytest.raises(memdb.DuplicateKeyError), opening.db.transaction():
            for twin in twins:
                opening.people.insert(twin)
        with pytest.raises(memdb.DuplicateKeyError):
            opening.people.query().update(email="y@x")

        assert before == path.read_bytes()
        opening.check()


@pytest.mark.parametrize("way", WAYS)
def test_c1_after_a_reopening(tmp_path: Path, way: str) -> None:
    """The first write after an opening is checked, too, whatever was read before."""
    path = tmp_path / "a.memdb"
    for cache in ("all", "none", 1):
        path = tmp_path / f"{cache}.memdb"
        with opened(path, Person, list):
            pass
        with memdb.open(path, cache=cache) as db:
            people = db.collection(Person, indexes=indexes_with("hash", "middle"))
            with pytest.raises(memdb.DuplicateKeyError):
                write_duplicate(people, Person, way)
            assert 2 == len(people)
        with memdb.open(path) as db:
            assert ["a@x", "b@x"] == [person.email for person in db.collection(Person)]


def test_c1_several_unique_indexes(db: memdb.Database) -> None:
    """Whichever of several unique indexes refuses, none of them has taken a key in."""
    names = ("email", "name", "n")
    people = db.collection(Person, indexes=[memdb.HashIndex(name, unique=True) for name in names])
    people.insert(Person("a", "a", 1))
    for name, person in zip(
        names, (Person("a", "b", 2), Person("b", "a", 2), Person("b", "b", 1)), strict=True
    ):
        with pytest.raises(memdb.DuplicateKeyError) as caught:
            people.insert(person)
        assert name == caught.value.index
    identity = people.insert(Person("b", "b", 2))

    assert [identity] == people.where(F.email == "b").ids() == people.where(F.n == 2).ids()


def test_c1_unique_over_natural_keys(db: memdb.Database) -> None:
    """With natural keys a unique index refuses a second record, and its error names both."""
    people = db.collection(
        Person, key="email", indexes=[memdb.HashIndex("name", unique=True, name="u")]
    )
    people.insert(Person("", "ann", 1))
    people.insert(Person("b", "bob", 1))
    for write in (
        lambda: people.insert(Person("c", "ann", 2)),
        lambda: people.put(Person("c", "ann", 2)),
        lambda: people.insert_many([Person("c", "new", 2), Person("d", "ann", 2)]),
        lambda: people.update("b", name="ann"),
    ):
        with pytest.raises(memdb.DuplicateKeyError) as caught:
            write()
        assert "" == caught.value.other
    with pytest.raises(memdb.DuplicateKeyError), db.transaction():
        people.update("b", name="ann")

    assert ["", "b"] == people.ids()
    assert [""] == people.where(F.name == "ann").ids()


def test_c1_declared_over_duplicates(db: memdb.Database) -> None:
    """A unique index over records with one key is refused, and not there afterwards."""
    people = db.collection(Person, indexes=[memdb.SortedIndex("n")])
    people.insert_many([Person("a", "a", 1), Person("b", "b", 2), Person("a", "c", 3)])
    with pytest.raises(memdb.DuplicateKeyError):
        people.indexes.add(memdb.HashIndex("email", unique=True))

    assert ["n"] == list(people.indexes)
    people.insert(Person("a", "d", 4))
    people.update(1, email="c")
    people.delete(4)
    people.indexes.add(memdb.HashIndex("email", unique=True))
    with pytest.raises(memdb.DuplicateKeyError):
        people.insert(Person("a", "d", 4))
    assert [3] == people.where(F.email == "a").ids()


def test_c1_nothing_is_not_a_key(db: memdb.Database) -> None:
    """Records without a value in a unique index do not stand in each other's way."""
    people = db.collection(Person, indexes=[memdb.HashIndex("nick", unique=True)])
    notes = db.collection("notes", indexes=[memdb.HashIndex("a", "b", unique=True, name="u")])
    people.insert_many([Person("a", "a", 1), Person("b", "b", 2)])
    notes.insert_many([{"a": 1}, {"a": 1}, {"a": 1, "b": None}, {}, {"a": 1, "b": 2}])
    notes.insert_many([{"a": 1, "b": float("nan")}, {"a": 1, "b": float("nan")}])

    assert [1, 2] == people.where(F.nick.is_none()).ids() == people.where(F.nick == None).ids()  # noqa: E711
    assert [3] == notes.where(F.a == 1, F.b.is_none()).ids()
    with pytest.raises(memdb.DuplicateKeyError):
        notes.insert({"a": True, "b": 2.0})
    assert 7 == len(notes)


# -- C2: an indexed field is changed ---------------------------------------------------------

CHANGES: dict[str, Callable[[memdb.Collection[Any]], object]] = {
    "fields": lambda people: people.update(1, email="y@x", name="y", n=79, tags=["why"]),
    "put": lambda people: people.put(Person("y@x", "y", 79, ["why"], "nick", 1)),
    "bulk": lambda people: people.where(F.n == 1).update(email="y@x", name="y", n=79, tags=["why"]),
    "function": lambda people: people.update(
        1, lambda old: Person("y@x", "y", 79, ["why"], "nick")
    ),
}


@pytest.mark.parametrize("cache", ["all", "none", 1])
@pytest.mark.parametrize("way", CHANGES)
@pytest.mark.parametrize("place", PLACES)
def test_c2_only_the_new_value_is_found(
    tmp_path: Path, place: str, way: str, cache: int | str
) -> None:
    """After a change of its indexed fields a record is found by the new values only."""
    path = tmp_path / "a.memdb"

    def indexes() -> list[Any]:
        return indexes_with("hash", place)

    with opened(path, Person, indexes, cache=cache) as opening:
        people = opening.people
        # Each index is in use before.
        check_people(people, opening.expected)
        changed = Person("y@x", "y", 79, ["why"], "nick", 1)
        with contextlib.suppress(ZeroDivisionError), opening.db.transaction():
            CHANGES[way](people)
            check_people(people, opening.expected | {1: changed})
            raise ZeroDivisionError
        check_people(people, opening.expected)
        with opening.db.transaction():
            CHANGES[way](people)
            check_people(people, opening.expected | {1: changed})
            people.update(1, email="a@x", n=1)
            CHANGES["fields"](people)
        opening.expected[1] = changed
        check_people(people, opening.expected)
        people.update(1, email="a@x", name="ann", n=1, tags=["tv"])
        assert [1] == people.where(F.email == "a@x").ids()
        CHANGES[way](people)
        opening.check()


@pytest.mark.parametrize("kind", PLAIN)
def test_c2_each_index_alone(tmp_path: Path, kind: str) -> None:
    """The same with each kind of index alone, the record deleted and inserted again."""
    path = tmp_path / "a.memdb"
    with opened(path, Person, lambda: [PLAIN[kind]()]) as opening:
        people = opening.people
        check_people(people, opening.expected)
        CHANGES["fields"](people)
        opening.expected[1] = Person("y@x", "y", 79, ["why"], "nick", 1)
        check_people(people, opening.expected)
        people.delete(1)
        check_people(people, {2: opening.expected[2]})
        people.insert(opening.expected[1])
        check_people(people, opening.expected)
        people.clear()
        check_people(people, {})
        people.insert_many(list(opening.expected.values()))
        opening.check()


# -- C3: what a unique index must allow ------------------------------------------------------


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("unique", UNIQUE)
def test_c3_what_is_allowed(tmp_path: Path, unique: str, place: str) -> None:
    """A record keeps its own key; within one transaction a key can change its owner."""
    path = tmp_path / "a.memdb"
    with opened(path, Person, lambda: indexes_with(unique, place)) as opening:
        people, db = opening.people, opening.db
        assert not people.update(1, email="a@x")
        assert people.update(1, email="a@x", n=3)
        assert "unchanged" == people.put(people[1]).outcome
        with db.transaction():
            people.delete(1)
            third = people.insert(made(Person, "a@x", "ann", 1, "tv"))
        assert [third] == people.where(F.email == "a@x").ids()
        with db.transaction():
            again = people.insert(made(Person, "a@x", "ann", 1, "tv"))
            people.delete(third)
        assert [again] == people.where(F.email == "a@x").ids()
        with db.transaction():
            people.update(2, email="a@x")
            people.update(again, email="b@x")
        assert [2] == people.where(F.email == "a@x").ids()
        assert [again] == people.where(F.email == "b@x").ids()
        with pytest.raises(memdb.DuplicateKeyError):
            people.insert(made(Person, "b@x", "new", 77, "new"))
        people.delete(again)
        last = people.insert(made(Person, "b@x", "bob", 2, "sea"))
        opening.expected = {2: people[2], last: people[last]}
        assert ("a@x", "b@x") == (people[2].email, people[last].email)
        opening.check()


def test_c3_keys_go_round(db: memdb.Database) -> None:
    """Any number of records can pass their keys on in one bulk update."""
    people = db.collection(Person, indexes=[memdb.HashIndex("n", unique=True)])
    people.insert_many([Person("", "", n) for n in range(10)])
    changed = people.query().update(lambda person: replace(person, n=(person.n + 1) % 10))

    assert 10 == changed
    assert [*range(1, 10), 0] == [person.n for person in people]
    assert [[10], [1]] == [people.where(F.n == n).ids() for n in (0, 1)]


def test_c3_a_deletion_frees_the_key(db: memdb.Database) -> None:
    """What was rolled back frees no key, and takes none."""
    people = db.collection(Person, indexes=[memdb.HashIndex("email", unique=True)])
    people.insert(Person("a", "a", 1))
    with contextlib.suppress(ZeroDivisionError), db.transaction():
        people.delete(1)
        people.insert(Person("b", "b", 2))
        raise ZeroDivisionError
    with pytest.raises(memdb.DuplicateKeyError):
        people.insert(Person("a", "a", 1))

    assert people.insert(Person("b", "b", 2))
    people.clear()
    assert people.insert(Person("a", "a", 1))


# -- C5: a bulk update that raises -----------------------------------------------------------


@pytest.mark.parametrize("is_in_transaction", [False, True])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("unique", UNIQUE)
def test_c5_nothing_is_changed(
    tmp_path: Path, unique: str, place: str, is_in_transaction: bool
) -> None:
    """A bulk update whose function raises on the second record has changed nothing."""
    path = tmp_path / "a.memdb"
    with opened(path, Person, lambda: indexes_with(unique, place)) as opening:
        before = path.read_bytes()
        for error in (ZeroDivisionError, KeyboardInterrupt, KeyError):
            calls: list[int] = []

            def change(person: Any, calls: list[int] = calls, error: Any = error) -> None:
                calls.append(person.id)
                if len(calls) == 2:
                    raise error
                person.email, person.name, person.n, person.tags = "y@x", "y", 79, ["why"]

            scope: Any = contextlib.nullcontext()
            if is_in_transaction:
                scope = opening.db.transaction()
            with scope:
                with pytest.raises(error):
                    opening.people.query().update(change)
                check_people(opening.people, opening.expected)
            assert 2 == len(calls)
        with pytest.raises(memdb.EncodeError):
            opening.people.query().update(lambda person: setattr(person, "tags", [object()]))

        assert before == path.read_bytes()
        opening.check()


def test_c5_a_refused_second_record(tmp_path: Path) -> None:
    """Nor has one whose second record is refused, for its class, identity or values."""
    path = tmp_path / "a.memdb"
    with opened(path, Person, lambda: indexes_with("hash", "first")) as opening:
        before = path.read_bytes()
        for second, error in (
            ("a text", memdb.RecordTypeError),
            (Person("y@x", "y", 79, id=9), memdb.IdentityError),
            (Person("y@x", object(), 79), memdb.EncodeError),  # type: ignore[arg-type]
            (Person("y@x", "y", 79), memdb.DuplicateKeyError),
        ):
            given: Iterator[Any] = iter([Person("y@x", "y", 79), second])
            with pytest.raises(error):
                opening.people.query().order_by("n").update(lambda _, given=given: next(given))
            assert before == path.read_bytes()
        opening.check()


# -- E2: scanning and changing ---------------------------------------------------------------

QUERIES: dict[str, Callable[[memdb.Collection[Any]], Any]] = {
    "all": lambda people: people.query(),
    "hash": lambda people: people.where(F.name == "x"),
    "sorted": lambda people: people.where(F.n >= 0),
    "ordered": lambda people: people.query().order_by("-n"),
    "set": lambda people: people.where(F.tags.contains("t")),
    "function": lambda people: people.where(lambda person: person.n >= 0),
    "collection": lambda people: people,
}
TAMPERING: dict[str, Callable[[memdb.Collection[Any], Any], object]] = {
    "delete": lambda people, person: people.delete(person.id),
    "update": lambda people, person: people.update(
        person.id, name="y", n=-person.n - 1, tags=["u"]
    ),
    "insert": lambda people, person: people.insert(Person("", "x", person.n + 100, ["t"])),
    "clear": lambda people, person: people.clear(),
}


@pytest.mark.parametrize("where", ["here", "transaction", "thread"])
@pytest.mark.parametrize("what", TAMPERING)
@pytest.mark.parametrize("query", QUERIES)
def test_e2_iterating_and_changing(db: memdb.Database, query: str, what: str, where: str) -> None:
    """An iteration is over the state at its start, whatever is changed meanwhile."""
    people = db.collection(Person, indexes=[declare() for declare in PLAIN.values()])
    people.insert_many([Person("", "x", n, ["t"]) for n in range(20)])
    expected = list(QUERIES[query](people))
    scope: Any = db.transaction() if where == "transaction" else contextlib.nullcontext()
    with scope:
        found = []
        for person in QUERIES[query](people):
            found.append(person)
            if where == "thread":
                run_all(lambda person=person: TAMPERING[what](people, person))
            else:
                TAMPERING[what](people, person)

        assert expected == found
    assert {"delete": 0, "update": 20, "insert": 40, "clear": 0}[what] == people.query().count()
    left = {"delete": 0, "update": 0, "insert": 40, "clear": 0}[what]
    assert left == people.where(F.name == "x").count() == people.where(F.n >= 0).count()
    assert left == people.where(F.tags.contains("t")).count()


def test_e2_bulk_changes_of_what_they_look_for(db: memdb.Database) -> None:
    """A bulk update of the field by which its records are found changes each of them once."""
    people = db.collection(Person, indexes=[declare() for declare in PLAIN.values()])
    people.insert_many([Person("", "x", n, ["t"]) for n in range(20)])

    assert 20 == people.where(F.n >= 0).update(lambda person: replace(person, n=person.n + 50))
    assert 20 == people.where(F.n >= 50).order_by("n").update(lambda p: replace(p, n=p.n + 50))
    assert list(range(100, 120)) == [person.n for person in people]
    assert 10 == people.where(F.n >= 100).order_by("-n").limit(10).delete()
    assert list(range(100, 110)) == [person.n for person in people]


# -- E3: one total order ---------------------------------------------------------------------

NAN = float("nan")
MIXED: list[Any] = [3, None, ABSENT, "x", 1.5, NAN, True]
MORE: list[Any] = [*MIXED, None, "", 1, 1.0, ABSENT, -0.0, 0, b"x", (1, 2), [1, 2], [1], NAN, "x"]
ORDERS = [("value",), ("-value",), ("value", "-n"), ("-value", "n"), ("-n", "value")]


def mixed(db: memdb.Database, values: list[Any], index: Any) -> memdb.Collection[Any]:
    """Return a collection of dicts with such values."""
    notes = db.collection("notes", indexes=[] if index is None else [index])
    records = [{"value": value, "n": n % 3} for n, value in enumerate(values)]
    for record in records:
        if record["value"] is ABSENT:
            del record["value"]
    notes.insert_many(records)
    return notes


def naive_ids(values: list[Any], order: tuple[str, ...]) -> list[int]:
    """Return the identities in an order."""
    rows = [
        (number, {"value": value, "n": (number - 1) % 3}) for number, value in enumerate(values, 1)
    ]
    terms = [naive.Term(naive.Path((name.lstrip("-"),)), name[0] == "-") for name in order]
    return [identity for identity, _ in naive.in_order(rows, terms)]


def test_e3_the_documented_order(db: memdb.Database) -> None:
    """Absent, None, numbers by value, NaN, text; falling is the reverse of it."""
    notes = mixed(db, MIXED, None)

    def values(order: str) -> list[Any]:
        return [note.get("value", ABSENT) for note in notes.query().order_by(order)]

    assert_exact(values("value"), [ABSENT, None, True, 1.5, 3, NAN, "x"])
    assert_exact(values("-value"), ["x", NAN, 3, 1.5, True, None, ABSENT])


@pytest.mark.parametrize("order", ORDERS, ids="_".join)
@pytest.mark.parametrize("is_indexed", [False, True])
@pytest.mark.parametrize("values", [MIXED, MORE], ids=["few", "more"])
def test_e3_every_skip_and_limit(
    db: memdb.Database, values: list[Any], is_indexed: bool, order: tuple[str, ...]
) -> None:
    """With and without an index each part of the order is what a sorted list has there."""
    notes = mixed(db, values, memdb.SortedIndex(*order) if is_indexed else None)
    expected = naive_ids(values, order)
    query = notes.query().order_by(*order)
    ends = [0, 1, 2, 3, len(values) - 1, len(values), len(values) + 1, 100]

    assert expected == query.ids()
    for skip, limit in itertools.product(ends, [None, *ends]):
        part = query.skip(skip).limit(limit) if limit is not None else query.skip(skip)
        right = expected[skip : None if limit is None else skip + limit]
        assert right == part.ids() == [note["id"] for note in part]
        assert len(right) == part.count()
        assert bool(right) == part.exists()
        page = query.page(skip, limit)
        assert right == [note["id"] for note in page]
        assert len(expected) == page.total


@pytest.mark.parametrize("order", ORDERS, ids="_".join)
@pytest.mark.parametrize("is_indexed", [False, True])
@pytest.mark.parametrize("take", [1, 2, 5, 19, 20])
def test_e3_pages_join_up(
    db: memdb.Database, take: int, is_indexed: bool, order: tuple[str, ...]
) -> None:
    """Pages by number and pages by cursor, one after another, are the whole."""
    notes = mixed(db, MORE, memdb.SortedIndex(*order) if is_indexed else None)
    expected = naive_ids(MORE, order)
    query = notes.query().order_by(*order)
    by_number = [query.page(skip, take) for skip in range(0, len(MORE), take)]
    page = query.page(take=take)
    by_cursor = [page]
    while page.cursor is not None:
        assert len(by_cursor) <= len(MORE), "a cursor that leads nowhere"
        page = query.after(page.cursor).page(take=take)
        by_cursor.append(page)

    for pages in (by_number, by_cursor):
        assert expected == [note["id"] for page in pages for note in page]
    assert all(len(page) == take for page in by_cursor[:-1])


@pytest.mark.parametrize("is_indexed", [False, True])
def test_e3_a_cursor_survives_changes(db: memdb.Database, is_indexed: bool) -> None:
    """What is inserted, moved or deleted before a cursor neither repeats nor hides a record."""
    notes = mixed(db, MORE, memdb.SortedIndex("value") if is_indexed else None)
    query = notes.query().order_by("value")
    expected = naive_ids(MORE, ("value",))
    page = query.page(take=8)
    last = page[-1]["id"]
    notes.insert({"value": None, "n": 0})
    notes.delete(expected[0])
    notes.delete(last)

    rest = query.after(page.cursor)
    assert expected[8:] == rest.ids()
    assert len(expected) - 8 == rest.count()


@pytest.mark.parametrize("is_indexed", [False, True])
def test_e3_least_and_greatest(db: memdb.Database, is_indexed: bool) -> None:
    """Of mixed values the least and the greatest are those of the total order, without None."""
    notes = mixed(db, MIXED, memdb.SortedIndex("value") if is_indexed else None)

    assert True is notes.query().min("value")
    assert "x" == notes.query().max("value")
    assert None is notes.where(F.n > 5).min("value") is notes.where(F.n > 5).max("value")
    notes.delete(4)
    assert_exact(notes.query().max("value"), NAN)
