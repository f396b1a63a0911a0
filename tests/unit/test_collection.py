"""Collections: what the methods that write promise, as examples."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
import pytest

import memdb
from memdb import F
from tests.support.exact import assert_exact

MAX_IDENTITY = 2**63 - 1


@dataclass
class Person:
    name: str
    age: int = 0
    tags: list[str] = field(default_factory=list)
    id: int = 0


@dataclass
class Student(Person):
    pass


@dataclass
class Note:
    """Does not carry its identity."""

    text: str


@dataclass(frozen=True)
class Point:
    x: int
    y: int
    id: int = 0


class Pair(NamedTuple):
    left: int
    right: int
    id: int = 0


class City(msgspec.Struct):
    name: str
    people: int = 0
    id: int = 0


class Fixed(msgspec.Struct, frozen=True):
    name: str
    id: int = 0


@dataclass
class OptionalId:
    name: str
    id: int | None = None


@dataclass
class Group:
    members: set[str]
    id: int = 0


@pytest.fixture
def people(db: memdb.Database) -> memdb.Collection[Person]:
    """Ann, Bob and Cid under 1, 2, 3."""
    collection = db.collection(Person)
    collection.insert_many([Person("Ann", 30), Person("Bob", 40, ["x"]), Person("Cid", 30)])
    return collection


def versions(db: memdb.Database) -> int:
    """Return how many versions the file has."""
    return db.stats().versions


class TestInsert:
    def test_gives_identities_from_1(self, db: memdb.Database) -> None:
        """New records get 1, 2, 3 ..."""
        people = db.collection(Person)

        assert [1, 2, 3] == [people.insert(Person(name)) for name in "abc"]

    def test_leaves_the_record_alone(self, db: memdb.Database) -> None:
        """The object that is given does not change; the stored copy carries the identity."""
        people, ann = db.collection(Person), Person("Ann")
        identity = people.insert(ann)

        assert Person("Ann") == ann
        assert Person("Ann", id=identity) == people[identity]

    @pytest.mark.parametrize("record", [Person("a", id=7), {"name": "a", "id": 7}, City("a", id=7)])
    def test_takes_an_identity(self, db: memdb.Database, record: Any) -> None:
        """A record with an id that is not 0 keeps it, and the next one follows it."""
        collection = db.collection("x" if type(record) is dict else type(record))

        assert 7 == collection.insert(record)
        assert_exact(collection[7], record)
        other = {"name": "b"} if type(record) is dict else type(record)("b")
        assert 8 == collection.insert(other)

    @pytest.mark.parametrize("no_identity", [0, None])
    def test_none_means_no_identity(self, db: memdb.Database, no_identity: int | None) -> None:
        """An id of 0 or None asks for a new one."""
        records, dicts = db.collection(OptionalId), db.collection("dicts")
        for number in (1, 2):
            assert number == records.insert(OptionalId("a", no_identity))
            assert number == dicts.insert({"id": no_identity})
        assert OptionalId("a", 2) == records[2]

    def test_without_a_field_for_it(self, db: memdb.Database) -> None:
        """A class without id has identities that the collection alone knows."""
        notes = db.collection(Note)
        identity = notes.insert(Note("hello"))

        assert (1, Note("hello")) == (identity, notes[identity])

    def test_takes_a_low_identity_later(self, db: memdb.Database) -> None:
        """An explicit identity may be lower than others, if it is free."""
        people = db.collection(Person)
        people.insert(Person("late", id=10**12))
        people.insert(Person("early", id=5))

        assert [5, 10**12] == people.ids()
        assert 10**12 + 1 == people.insert(Person("next"))

    def test_never_gives_an_identity_twice(
        self, people: memdb.Collection[Person], db: memdb.Database
    ) -> None:
        """The identity of a deleted record, even the highest, is not assigned again."""
        people.delete(3)

        assert 4 == people.insert(Person("Dan"))
        people.clear()
        assert 5 == people.insert(Person("Eve"))

    def test_gives_a_deleted_identity_when_asked(self, people: memdb.Collection[Person]) -> None:
        """Who asks for the identity of a deleted record by name gets it."""
        people.delete(2)

        assert 2 == people.insert(Person("Bea", id=2))
        assert "Bea" == people[2].name

    def test_refuses_a_duplicate(
        self, people: memdb.Collection[Person], db: memdb.Database
    ) -> None:
        """An id that a live record has is refused, with collection and identity in the error."""
        before = versions(db)
        with pytest.raises(memdb.DuplicateIdentityError, match="identity 2 is there") as caught:
            people.insert(Person("Bea", id=2))

        assert ("Person", 2) == (caught.value.collection, caught.value.identity)
        assert "Bob" == people[2].name
        assert before == versions(db)

    @pytest.mark.parametrize("identity", [-1, 2**63, True, False, 1.0, 0.0, "1", "", [], b"1"])
    @pytest.mark.parametrize("is_first", [True, False])
    def test_refuses_what_is_no_identity(
        self, db: memdb.Database, identity: Any, is_first: bool
    ) -> None:
        """An id that is no int from 1 on is refused, in the first insert as in later ones."""
        people, dicts = db.collection(Person), db.collection("dicts")
        if not is_first:
            people.insert(Person("a"))
            dicts.insert({})
        for insert in (
            lambda: people.insert(Person("a", id=identity)),
            lambda: people.insert_many([Person("a", id=identity)]),
            lambda: people.put(Person("a", id=identity)),
            lambda: dicts.insert({"id": identity}),
        ):
            with pytest.raises(memdb.IdentityError, match="'id'"):
                insert()
        assert 0 == len(people) + len(dicts) - 2 * (not is_first)

    def test_highest_identity_is_the_last(self, db: memdb.Database) -> None:
        """After 2**63 - 1 there is nothing to assign; the error says so, also in a transaction."""
        people = db.collection(Person)
        people.insert(Person("last", id=MAX_IDENTITY))

        def in_transaction() -> None:
            with db.transaction():
                people.insert(Person("more"))

        for insert in (
            lambda: people.insert(Person("more")),
            lambda: people.insert_many([Person("more")]),
            lambda: people.put(Person("more")),
            in_transaction,
        ):
            with pytest.raises(memdb.IdentityError, match="none after it"):
                insert()
        assert 5 == people.insert(Person("low", id=5))
        assert [5, MAX_IDENTITY] == people.ids()

    @pytest.mark.parametrize(
        "record", [Student("a"), Note("a"), {"name": "a"}, "Ann", None, 1, Person]
    )
    def test_refuses_another_class(self, people: memdb.Collection[Person], record: Any) -> None:
        """Only records of exactly the class are taken; a subclass has a collection of its own."""
        for insert in (people.insert, people.put, lambda r: people.insert_many([r])):
            with pytest.raises(memdb.RecordTypeError, match="holds records of Person"):
                insert(record)
        assert 3 == len(people)

    @pytest.mark.parametrize("serializer", ["binary", "msgpack", "json", "pickle"])
    def test_refuses_what_the_serializer_cannot_hold(
        self, db: memdb.Database, serializer: str
    ) -> None:
        """A value that can't be held is an error with its path, and nothing is written."""
        people = db.collection(Person, serializer=serializer)
        people.insert(Person("Ann"))
        before = versions(db)
        bad: Any = Person("Bob", tags=["x", iter(())])  # type: ignore[list-item]
        if serializer == "pickle":
            bad.tags[1] = (each for each in ())
        for insert in (people.insert, people.put, lambda r: people.insert_many([Person("c"), r])):
            with pytest.raises(memdb.EncodeError) as caught:
                insert(bad)
            assert serializer == "pickle" or caught.value.field == "tags[1]"
        assert before == versions(db)
        assert [Person("Ann", id=1)] == list(people)
        assert 2 == people.insert(Person("Cid"))

    def test_is_a_snapshot(self, db: memdb.Database) -> None:
        """What happens to the object afterwards is not seen."""
        people, ann = db.collection(Person), Person("Ann", tags=["a"])
        identity = people.insert(ann)
        ann.name = "changed"
        ann.tags.append("b")

        assert Person("Ann", tags=["a"], id=identity) == people[identity]


class TestInsertMany:
    def test_gives_identities_in_order(self, db: memdb.Database) -> None:
        """The identities come in the order of the records, from any iterable."""
        people = db.collection(Person)

        assert [1, 2, 3] == people.insert_many(Person(name) for name in "abc")
        assert ["a", "b", "c"] == [person.name for person in people]

    def test_takes_own_identities(self, db: memdb.Database) -> None:
        """Records with and without an identity may be mixed; new ones come after all."""
        people = db.collection(Person)
        given = people.insert_many(
            [Person("a"), Person("b", id=50), Person("c"), Person("d", id=3)]
        )

        assert 4 == len(set(given))
        assert (50, 3) == (given[1], given[3])
        assert ["a", "b", "c", "d"] == [people[identity].name for identity in given]
        assert max(given) + 1 == people.insert(Person("e"))

    def test_is_one_commit(self, people: memdb.Collection[Person], db: memdb.Database) -> None:
        """One record that is refused keeps all others out."""
        before = versions(db)
        cases: Iterable[tuple[type[Exception], list[Any]]] = [
            (memdb.RecordTypeError, [Person("d"), Note("e")]),
            (memdb.EncodeError, [Person("d"), Person(object())]),  # type: ignore[arg-type]
            (memdb.DuplicateIdentityError, [Person("d"), Person("e", id=1)]),
            (memdb.DuplicateIdentityError, [Person("d", id=9), Person("e", id=9)]),
            (memdb.IdentityError, [Person("d"), Person("e", id=-1)]),
        ]
        for error, records in cases:
            with pytest.raises(error):
                people.insert_many(records)
            assert before == versions(db)
            assert [1, 2, 3] == people.ids()
        assert 4 == people.insert(Person("d"))

    def test_of_nothing(self, people: memdb.Collection[Person], db: memdb.Database) -> None:
        """No records give no identities and no commit."""
        before = versions(db)

        assert [] == people.insert_many([])
        assert before == versions(db)

    def test_iterable_that_raises(self, people: memdb.Collection[Person]) -> None:
        """When the iterable raises, nothing is inserted and its error comes out."""

        def records() -> Iterable[Person]:
            yield Person("d")
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            people.insert_many(records())
        assert 3 == len(people)

    def test_from_itself(self, people: memdb.Collection[Person]) -> None:
        """The records may come from the collection itself."""
        people.insert_many(Person(person.name) for person in people)

        assert 6 == len(people)


class TestPut:
    def test_says_what_it_did(self, people: memdb.Collection[Person]) -> None:
        """A record is inserted, updated, or unchanged."""
        assert memdb.PutResult(4, "inserted") == people.put(Person("Dan"))
        assert (9, "inserted") == people.put(Person("Eve", id=9))
        assert (9, "updated") == people.put(Person("Eva", id=9))
        assert (9, "unchanged") == people.put(Person("Eva", id=9))
        assert "Eva" == people[9].name

    def test_unchanged_writes_nothing(
        self, people: memdb.Collection[Person], db: memdb.Database
    ) -> None:
        """An unchanged record makes no version."""
        before = versions(db)
        people.put(people[2])

        assert before == versions(db)

    @pytest.mark.parametrize("serializer", ["binary", "msgpack", "json"])
    def test_order_of_a_set_is_no_change(self, db: memdb.Database, serializer: str) -> None:
        """Equal sets are unchanged, however they came about."""
        groups = db.collection(Group, serializer=serializer)
        letters = [f"{letter}{number}" for letter in "abcdef" for number in range(9)]
        groups.insert(Group(set(letters)))

        assert "unchanged" == groups.put(Group(set(reversed(letters)), id=1)).outcome

    def test_needs_an_identity_field(self, db: memdb.Database) -> None:
        """A class without id can't be put."""
        with pytest.raises(memdb.RecordTypeError, match="does not have"):
            db.collection(Note).put(Note("a"))

    def test_of_a_deleted_record(self, people: memdb.Collection[Person]) -> None:
        """Putting a deleted record inserts it again."""
        ann = people[1]
        people.delete(1)

        assert (1, "inserted") == people.put(ann)


class TestUpdate:
    def test_fields(self, people: memdb.Collection[Person]) -> None:
        """Fields are given by name; True says that something was written."""
        assert people.update(2, name="Bert", age=41)
        assert Person("Bert", 41, ["x"], id=2) == people[2]

    def test_record(self, people: memdb.Collection[Person]) -> None:
        """A record takes the place of the old one, its identity may be left out."""
        assert people.update(2, Person("Bea"))
        assert people.update(3, Person("Cia", id=3))
        assert [Person("Bea", id=2), Person("Cia", id=3)] == people.find_all(F.id > 1)

    def test_function_that_changes(self, people: memdb.Collection[Person]) -> None:
        """A function changes the copy that it is given."""
        assert people.update(2, lambda person: person.tags.append("y"))
        assert ["x", "y"] == people[2].tags

    def test_function_that_returns(self, people: memdb.Collection[Person]) -> None:
        """Or it returns another record."""
        assert people.update(2, lambda person: Person(person.name * 2))
        assert Person("BobBob", id=2) == people[2]

    def test_fields_after_the_change(self, people: memdb.Collection[Person]) -> None:
        """Fields are set after the change was made; a record that is given stays as it is."""
        bea = Person("Bea")
        people.update(2, bea, age=5)
        people.update(3, lambda person: person.tags.append("z"), age=6)

        assert [Person("Bea", 5, id=2), Person("Cid", 6, ["z"], id=3)] == list(people)[1:]
        assert Person("Bea") == bea

    @pytest.mark.parametrize("record", [Point(1, 2), Pair(1, 2), City("a"), Fixed("a"), Note("a")])
    def test_every_kind_of_class(self, db: memdb.Database, record: Any) -> None:
        """Frozen records too have fields that can be updated, by a new version."""
        collection = db.collection(type(record))
        identity = collection.insert(record)
        name = {"Point": "y", "Pair": "right", "Note": "text"}.get(type(record).__name__, "name")
        before = [collection[identity], collection[identity], collection.get(identity)]
        originally = [repr(each) for each in before]

        assert collection.update(identity, **{name: "new"})
        assert "new" == getattr(collection[identity], name)
        # What was read before is nobody's but the reader's.
        assert originally == [repr(each) for each in before]

    def test_dict(self, db: memdb.Database) -> None:
        """A dict gets keys and keeps the others."""
        events = db.collection("events")
        events.insert({"kind": "a"})

        assert events.update(1, level=3)
        assert {"kind": "a", "level": 3, "id": 1} == events[1]

    def test_unchanged(self, people: memdb.Collection[Person], db: memdb.Database) -> None:
        """Where nothing differs, False, and nothing is written."""
        before = versions(db)

        assert not people.update(2)
        assert not people.update(2, name="Bob", age=40)
        assert not people.update(2, lambda person: None)
        assert not people.update(2, Person("Bob", 40, ["x"]))
        assert before == versions(db)

    def test_type_is_a_change(self, people: memdb.Collection[Person]) -> None:
        """An equal value of another type is a change."""
        assert people.update(1, age=30.0)
        assert float is type(people[1].age)

    @pytest.mark.parametrize("identity", [99, 0, -1, "1", 1.0, True, None, (1,)])
    def test_unknown_identity(self, people: memdb.Collection[Person], identity: Any) -> None:
        """An identity without a record, or that can't be one, is not found."""
        for change in (
            lambda: people.update(identity, name="x"),
            lambda: people.update(identity, lambda person: 1 / 0),
            lambda: people.delete(identity),
            lambda: people.__delitem__(identity),
            lambda: people[identity],
            lambda: people.edit(identity).__enter__(),
        ):
            with pytest.raises(memdb.RecordNotFoundError) as caught:
                change()
            assert ("Person", identity) == (caught.value.collection, caught.value.identity)
            assert isinstance(caught.value, KeyError)
            assert str(caught.value).startswith("Person: there is no record with identity")
        assert identity not in people
        assert people.get(identity) is None
        assert [] == people.history(identity)

    def test_unknown_field(self, people: memdb.Collection[Person]) -> None:
        """A field that does not exist is refused, with the nearest name."""
        with pytest.raises(memdb.RecordTypeError, match=r"no field 'nmae'.* 'name'"):
            people.update(1, nmae="x")
        assert Person("Ann", 30, id=1) == people[1]

    def test_identity_never_changes(self, people: memdb.Collection[Person]) -> None:
        """An update that would alter the identity is refused, however it tries."""

        def change(person: Person) -> None:
            person.id = 5

        for update in (
            lambda: people.update(1, id=5),
            lambda: people.update(1, Person("a", id=5)),
            lambda: people.update(1, change),
        ):
            with pytest.raises(memdb.IdentityError, match="never changes"):
                update()
        assert not people.update(1, id=1)
        assert [1, 2, 3] == people.ids()

    @pytest.mark.parametrize("change", [Student("x"), 5, "x", {"name": "x"}])
    def test_change_of_another_class(self, people: memdb.Collection[Person], change: Any) -> None:
        """A change is a record of the class, or a function that gives one."""
        with pytest.raises(memdb.RecordTypeError):
            people.update(1, change)
        with pytest.raises(memdb.RecordTypeError):
            people.update(1, lambda person: change)
        assert "Ann" == people[1].name

    @pytest.mark.parametrize("cloner", ["auto", "roundtrip", "fields", "share"])
    @pytest.mark.parametrize("cache", ["all", "none"])
    def test_refused_value_is_nowhere(self, db: memdb.Database, cloner: str, cache: str) -> None:
        """When the new value is refused, the old record stays as it was."""
        people = db.collection(Person, cloner=cloner, cache=cache)
        people.insert(Person("Ann"))
        for _ in range(2):
            with pytest.raises(memdb.EncodeError):
                people.update(1, name=object())
            with pytest.raises(memdb.EncodeError):
                people.update(1, Person("x"), name=object())
            assert Person("Ann", id=1) == people[1]

    def test_function_that_raises(self, people: memdb.Collection[Person]) -> None:
        """When the function raises, its error comes out and nothing changes."""

        def change(person: Person) -> None:
            person.name = "half"
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            people.update(1, change)
        assert "Ann" == people[1].name

    def test_function_is_called_again(self, people: memdb.Collection[Person]) -> None:
        """When the record changes while the function runs, it runs again on the new state."""
        seen: list[int] = []

        def birthday(person: Person) -> None:
            seen.append(person.age)
            if len(seen) == 1:
                people.update(1, age=50)
            person.age += 1

        assert people.update(1, birthday)
        assert ([30, 50], 51) == (seen, people[1].age)


class TestEdit:
    def test_writes_back(self, people: memdb.Collection[Person]) -> None:
        """The copy is written at the end of the block, not before."""
        with people.edit(2) as person:
            person.name = "Bert"
            person.tags.append("y")
            assert "Bob" == people[2].name

        assert Person("Bert", 40, ["x", "y"], id=2) == people[2]

    def test_raising_writes_nothing(self, people: memdb.Collection[Person]) -> None:
        """A block that raises leaves the record as it was."""
        with pytest.raises(ZeroDivisionError), people.edit(2) as person:
            person.tags.append("y")
            raise ZeroDivisionError

        assert ["x"] == people[2].tags

    def test_unchanged_writes_nothing(
        self, people: memdb.Collection[Person], db: memdb.Database
    ) -> None:
        """A block that changes nothing makes no version."""
        before = versions(db)
        with people.edit(2):
            pass

        assert before == versions(db)

    @pytest.mark.parametrize("is_inside", [False, True])
    @pytest.mark.parametrize("change", ["update", "delete"])
    def test_conflict(
        self, people: memdb.Collection[Person], db: memdb.Database, is_inside: bool, change: str
    ) -> None:
        """When somebody else changed the record meanwhile, nothing is written and it says so."""
        scope = db.transaction() if is_inside else contextlib.nullcontext()
        with scope:
            with (
                pytest.raises((memdb.TransactionError, memdb.RecordNotFoundError)),
                people.edit(2) as person,
            ):
                person.name = "mine"
                if change == "update":
                    people.update(2, age=1)
                else:
                    people.delete(2)
            expected = None if change == "delete" else Person("Bob", 1, ["x"], id=2)

            assert expected == people.get(2)
        assert expected == people.get(2)

    @pytest.mark.parametrize("record", [Point(1, 2), Pair(1, 2), Fixed("a")])
    def test_frozen(self, db: memdb.Database, record: Any) -> None:
        """A record that can't be changed in place says to use update."""
        collection = db.collection(type(record))
        collection.insert(record)
        with pytest.raises(memdb.RecordTypeError, match="update"), collection.edit(1):
            pass

    def test_identity_never_changes(self, people: memdb.Collection[Person]) -> None:
        """Setting the id in the block is refused."""
        with pytest.raises(memdb.IdentityError), people.edit(2) as person:
            person.id = 9
        assert [1, 2, 3] == people.ids()

    def test_refused_value(self, people: memdb.Collection[Person]) -> None:
        """A value that can't be held is refused at the end of the block."""
        with pytest.raises(memdb.EncodeError), people.edit(2) as person:
            person.tags.append(object())  # type: ignore[arg-type]
        assert ["x"] == people[2].tags

    def test_dict(self, db: memdb.Database) -> None:
        """Plain dicts are edited alike; keys may go."""
        events = db.collection("events")
        events.insert({"kind": "a", "level": 1})
        with events.edit(1) as event:
            del event["level"]
            event["kind"] = "b"

        assert {"kind": "b", "id": 1} == events[1]


class TestDelete:
    def test_removes(self, people: memdb.Collection[Person]) -> None:
        """A deleted record is gone for every way of reading."""
        people.delete(1)
        del people[2]

        assert [3] == people.ids()
        assert (None, False, 1) == (people.get(1), 2 in people, len(people))
        assert people.find(name="Ann") is None
        with pytest.raises(memdb.RecordNotFoundError):
            people.delete(1)

    def test_clear(self, people: memdb.Collection[Person], db: memdb.Database) -> None:
        """Clearing deletes all, one version each, and says how many; other collections stay."""
        db.collection(Note).insert(Note("stays"))
        people.delete(2)
        before = versions(db)

        assert 2 == people.clear()
        assert before + 2 == versions(db)
        assert ([], 0, None) == (people.ids(), len(people), people.get(1))
        assert 0 == people.clear()
        assert 1 == len(db.collection(Note))
