"""Queries: changing and deleting what they find, all of it or nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

import memdb
from memdb import F
from memdb.errors import (
    EncodeError,
    IdentityError,
    QueryError,
    ReadOnlyError,
    RecordTypeError,
    TransactionError,
)
from memdb.query import count_


@dataclass
class Person:
    name: str
    age: int | None = 0
    tags: list[str] = field(default_factory=list)
    id: int = 0


class City(NamedTuple):
    name: str
    people: int = 0


class Frozen(msgspec.Struct, frozen=True):
    name: str
    people: int = 0
    id: int = 0


@dataclass
class User:
    email: str
    group: int = 0


@pytest.fixture
def people(db: memdb.Database) -> memdb.Collection[Person]:
    """Ann, Bob, Cid and Dan under 1 to 4."""
    collection = db.collection(Person)
    collection.insert_many(
        [Person("Ann", 30), Person("Bob", None), Person("Cid", 30), Person("Dan", 41)]
    )
    return collection


def ages(people: memdb.Collection[Person]) -> list[int | None]:
    """Return the ages in the order of iteration."""
    return [person.age for person in people]


class TestUpdate:
    def test_fields(self, people: memdb.Collection[Person]) -> None:
        """Fields get new values; what stays the same is not written and not counted."""
        assert 2 == people.where(F.age == 30).update(age=31)
        assert [31, None, 31, 41] == ages(people)
        assert 1 == people.where(F.age > 1, F.id < 4).where(F.id < 3).update(age=41)
        assert 1 == people.where(F.age >= 31).update(age=41)
        assert 0 == people.where(F.age == 99).update(age=1)

    def test_function(self, people: memdb.Collection[Person]) -> None:
        """A function changes its copy, or returns another record; fields are set after it."""

        def change(person: Person) -> Person | None:
            person.tags.append("seen")
            return Person("Eve", 1) if person.name == "Dan" else None

        assert 2 == people.where(F.id > 2).update(change, age=5)
        assert [Person("Cid", 5, ["seen"], 3), Person("Eve", 5, [], 4)] == list(people)[2:]

    def test_expressions(self, people: memdb.Collection[Person]) -> None:
        """A field may get what is calculated from the old record, all of them from the same."""
        assert 3 == people.where(F.age != None).update(  # noqa: E711
            age=F.age * 10 + F.id, name=F.name + F.name, tags=F.tags
        )
        assert [("AnnAnn", 301), ("Bob", None), ("CidCid", 303), ("DanDan", 414)] == [
            (person.name, person.age) for person in people
        ]

    def test_expression_without_a_value(self, people: memdb.Collection[Person]) -> None:
        """Where a record has none, nothing is changed, and the error names the record."""
        with pytest.raises(QueryError, match=r"record 2 has no value for F\.age \+ 1"):
            people.where().update(age=F.age + 1)

        assert [30, None, 30, 41] == ages(people)

    def test_order_and_limit(self, people: memdb.Collection[Person]) -> None:
        """Order, skip, limit and cursor choose the records."""
        query = people.where().order_by("-age", "-name")
        assert 1 == query.skip(1).limit(1).update(age=0)
        assert [30, None, 0, 41] == ages(people)
        assert 2 == query.after(query.page(take=2).cursor).update(age=7)
        assert [30, 7, 7, 41] == ages(people)

    def test_is_one_commit(self, people: memdb.Collection[Person], db: memdb.Database) -> None:
        """All of it is one commit: nobody sees a part, and the history has it at one time."""
        before = db.stats().versions
        people.where().update(age=1)

        assert before + 4 == db.stats().versions
        assert 1 == len({people.history(identity)[-1].time for identity in people.ids()})

    def test_sees_the_state_before(self, people: memdb.Collection[Person]) -> None:
        """The function of each record sees the others as they were."""
        seen: list[Any] = []

        def change(person: Person) -> None:
            seen.append(ages(people))
            person.age = 0

        people.where(F.age == 30).update(change)

        assert [[30, None, 30, 41]] * 2 == seen

    def test_kinds_of_records(self, db: memdb.Database) -> None:
        """Records that can't be changed get new ones; dicts, named tuples and structs too."""
        for cls in (City, Frozen):
            cities = db.collection(cls, name=cls.__name__)
            cities.insert_many([cls("Rome", 5), cls("Bern", 1)])
            assert 1 == cities.where(F.people > 1).update(people=F.people + 1)
            assert [6, 1] == cities.where().values("people").all()
        events = db.collection("events")
        events.insert_many([{"a": 1}, {"b": 2}])
        assert 2 == events.where().update(lambda event: {**event, "c": 3}, d=4)
        assert [{"a": 1, "c": 3, "d": 4, "id": 1}, {"b": 2, "c": 3, "d": 4, "id": 2}] == list(
            events
        )

    def test_natural_keys(self, db: memdb.Database) -> None:
        """Records are found by their keys, which can't be changed."""
        users = db.collection(User, key="email")
        users.insert_many([User("a", 1), User("b", 2), User("c", 1)])

        assert 2 == users.where(group=1).update(group=F.group + 5)
        assert [6, 2, 6] == [users[key].group for key in "abc"]
        with pytest.raises(IdentityError, match="can't become"):
            users.where(email="a").update(email="z")

    def test_in_a_transaction(self, people: memdb.Collection[Person], db: memdb.Database) -> None:
        """Inside of a transaction it is part of it, and undone with it."""
        with pytest.raises(ZeroDivisionError), db.transaction():
            people.insert(Person("Eve", 50))
            assert 2 == people.where(F.age > 40).update(age=0)
            assert [30, None, 30, 0, 0] == ages(people)
            with pytest.raises(KeyError):
                people.where(age=0).update(lambda person: {}["nothing"])
            assert 2 == people.where(age=0).count()
            1 / 0  # noqa: B018
        assert [30, None, 30, 41] == ages(people)
        with db.transaction():
            people.where(F.age > 40).update(age=0)
        assert [30, None, 30, 0] == ages(people)


class TestAllOrNothing:
    @pytest.mark.parametrize("bad", [1, 2, 4])
    def test_function_that_raises(self, tmp_path: Path, bad: int) -> None:
        """C5: when the function raises, on whichever record, nothing is changed."""
        path = tmp_path / "a.memdb"
        with memdb.open(path) as db:
            people = db.collection(Person)
            people.insert_many([Person(name) for name in "abcd"])
            size, before = db.stats().versions, list(people)

            def change(person: Person) -> None:
                person.age = 5
                if person.id == bad:
                    raise LookupError("no")

            with pytest.raises(LookupError, match="no"):
                people.where().update(change)

            assert (before, size) == (list(people), db.stats().versions)
            people.insert(Person("e"))
        with memdb.open(path) as db:
            assert [0] * 5 == ages(db.collection(Person))

    @pytest.mark.parametrize(
        ("change", "error"),
        [
            (lambda person: "text", RecordTypeError),
            (lambda person: Person("x", id=99), IdentityError),
            (lambda person: person.tags.append(object()), EncodeError),
        ],
    )
    def test_record_that_is_refused(
        self, people: memdb.Collection[Person], change: Any, error: type[Exception]
    ) -> None:
        """When one of the new records is refused, nothing is changed."""

        def bad_last(person: Person) -> Any:
            person.age = 99
            return change(person) if person.id == 4 else None

        with pytest.raises(error):
            people.where().update(bad_last)

        assert [30, None, 30, 41] == ages(people)
        assert 4 == people.where().update(age=1)

    def test_unknown_field(self, people: memdb.Collection[Person]) -> None:
        """A field that does not exist is refused with the nearest name, and nothing is changed."""
        with pytest.raises(RecordTypeError, match=r"'naem'.*'name'"):
            people.where().update(age=1, naem="x")

        assert [30, None, 30, 41] == ages(people)

    def test_function_that_changes_the_collection(self, people: memdb.Collection[Person]) -> None:
        """A function that writes what the query is about to write is refused, all undone."""

        def change(person: Person) -> None:
            people.update(1, age=77)
            person.age = 5

        with pytest.raises(TransactionError, match="itself changed a record"):
            people.where().update(change)

        assert [30, None, 30, 41] == ages(people)

    def test_other_writers_wait(self, people: memdb.Collection[Person]) -> None:
        """No other thread's change is lost between reading and writing."""
        is_inside, threads = threading.Event(), []

        def other() -> None:
            is_inside.wait()
            people.update(4, tags=["other"])

        def change(person: Person) -> None:
            is_inside.set()
            person.age = 5

        threads.append(threading.Thread(target=other, daemon=True))
        threads[0].start()
        people.where().update(change)
        threads[0].join()

        assert Person("Dan", 5, ["other"], 4) == people[4]


class TestDelete:
    def test_what_matches(self, people: memdb.Collection[Person]) -> None:
        """The records that are found are gone, and counted."""
        assert 2 == people.where(F.age == 30).delete()
        assert 0 == people.where(F.age == 30).delete()
        assert [2, 4] == people.ids()
        assert 2 == people.query().delete()
        assert 0 == len(people)

    def test_order_and_limit(self, people: memdb.Collection[Person]) -> None:
        """Order, skip and limit choose them."""
        assert 1 == people.where().order_by("-age", "-name").skip(1).limit(1).delete()
        assert ["Ann", "Bob", "Dan"] == [person.name for person in people]

    def test_is_one_commit(self, people: memdb.Collection[Person], db: memdb.Database) -> None:
        """All of it is one commit."""
        people.where().delete()

        assert 1 == len({people.history(identity)[-1].time for identity in range(1, 5)})
        assert 4 == people.stats().deleted.count

    def test_callable_that_raises(self, people: memdb.Collection[Person]) -> None:
        """A condition that raises deletes nothing."""
        with pytest.raises(ZeroDivisionError):
            people.where(lambda person: 1 // (person.id - 3)).delete()

        assert 4 == len(people)
        people.insert(Person("Eve"))

    def test_natural_keys(self, db: memdb.Database) -> None:
        """By key, and the key is free again."""
        users = db.collection(User, key="email")
        users.insert_many([User("a", 1), User("b", 2)])

        assert 1 == users.where(group=1).delete()
        assert "a" == users.insert(User("a", 3))

    def test_in_a_transaction(self, people: memdb.Collection[Person], db: memdb.Database) -> None:
        """Inside of a transaction it is undone with it."""
        with pytest.raises(ZeroDivisionError), db.transaction():
            assert 3 == people.where(F.id > 1).delete()
            assert 1 == len(people)
            1 / 0  # noqa: B018

        assert 4 == len(people)


class TestRefused:
    def test_nothing_to_change(self, people: memdb.Collection[Person]) -> None:
        """An update without any change is refused."""
        with pytest.raises(QueryError, match="was given nothing to change"):
            people.where().update()

    @pytest.mark.parametrize("change", [5, "age", Person("x"), {"age": 1}], ids=str)
    def test_no_function(self, people: memdb.Collection[Person], change: Any) -> None:
        """Many records can't be replaced by one."""
        with pytest.raises(RecordTypeError, match="takes a function"):
            people.where().update(change)

    def test_no_records(self, people: memdb.Collection[Person]) -> None:
        """What a query makes of records can't be changed."""
        query = people.where()
        for made in (
            query.select("name"),
            query.values("name"),
            query.distinct(),
            query.group_by("name"),
            query.having(count_() > 1),
        ):
            with pytest.raises(QueryError, match="is for whole records"):
                made.update(age=1)
            with pytest.raises(QueryError, match="is for whole records"):
                made.delete()

    @pytest.mark.parametrize("mode", ["r", "append"])
    def test_read_only(self, tmp_path: Path, mode: Any) -> None:
        """Where nothing can be changed, that is what the error says, even of no records."""
        path = tmp_path / "a.memdb"
        with memdb.open(path) as db:
            db.collection(Person).insert(Person("Ann"))
        with memdb.open(path, mode) as db:
            people = db.collection(Person)
            changes: list[Callable[[], object]] = [
                lambda: people.where().update(age=1),
                people.where().delete,
                people.where(id=99).delete,
                lambda: people.where(id=99).update(age=1),
            ]
            for change in changes:
                with pytest.raises(ReadOnlyError):
                    change()
            assert 1 == people.where().count()
