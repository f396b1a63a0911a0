"""Collections: what the methods that read promise, as examples."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import memdb
from memdb import F


@dataclass
class Person:
    name: str
    age: int = 0
    tags: list[str] = field(default_factory=list)
    id: int = 0


@dataclass
class Note:
    """Does not carry its identity."""

    text: str


@dataclass
class Wrapper:
    person: Person
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


class TestReading:
    def test_mapping(self, people: memdb.Collection[Person]) -> None:
        """It reads like a mapping from identity to record."""
        assert Person("Bob", 40, ["x"], id=2) == people[2] == people.get(2)
        assert (None, "nobody") == (people.get(9), people.get(9, "nobody"))
        assert [True, False, False, False] == [each in people for each in (2, 9, "2", [])]
        assert (3, [1, 2, 3]) == (len(people), people.ids())
        assert ["Ann", "Bob", "Cid"] == [person.name for person in people]
        assert [(1, "Ann"), (2, "Bob"), (3, "Cid")] == [(i, p.name) for i, p in people.items()]

    def test_ids_are_ints(self, people: memdb.Collection[Person]) -> None:
        """Identities are plain ints, wherever they come from."""
        found = [*people.ids(), *dict(people.items()), *(person.id for person in people)]

        assert {int} == set(map(type, found))

    def test_order_is_by_identity(self, db: memdb.Database) -> None:
        """Every scan rises by identity, however the records came in."""
        people = db.collection(Person)
        for identity in (7, 10**15, 3, 10**6, 1):
            people.insert(Person(str(identity), id=identity))
        expected = [1, 3, 7, 10**6, 10**15]

        assert expected == people.ids() == [person.id for person in people]
        assert expected == [i for i, _ in people.items()] == [p.id for p in people.find_all()]
        found = people.find()
        assert found is not None
        assert 1 == found.id

    def test_empty_is_true(self, db: memdb.Database) -> None:
        """A collection is true even when it has no records."""
        people = db.collection(Person)

        assert (True, 0, []) == (bool(people), len(people), list(people))

    def test_results_are_copies(self, people: memdb.Collection[Person]) -> None:
        """Whatever a receiver does to a result is not seen by the next."""
        for read in (
            lambda: people[2],
            lambda: people.get(2),
            lambda: next(person for person in people if person.id == 2),
            lambda: dict(people.items())[2],
            lambda: people.find(name="Bob"),
            lambda: people.find(id=2),
            lambda: people.find_all(F.age == 40)[0],
            lambda: people.history(2)[0].record,
        ):
            for _ in range(2):
                person = read()
                assert Person("Bob", 40, ["x"], id=2) == person
                assert person is not None
                person.name = "changed"
                person.tags.append("changed")

    def test_name_and_repr(self, people: memdb.Collection[Person], db: memdb.Database) -> None:
        """The name is that in the file; the repr shows it and where it lives."""
        assert "Person" == people.name
        assert f"<Collection 'Person' of {db.path or 'memory'}>" == repr(people)

    def test_iteration_is_over_the_start(self, people: memdb.Collection[Person]) -> None:
        """Inserting, updating and deleting while iterating does not show in the iteration."""
        for iterate in (people.__iter__, lambda: (person for _, person in people.items())):
            before = list(people)
            seen = []
            for person in iterate():
                seen.append(person)
                people.update(person.id, age=person.age + 1)
                if person.id % 2:
                    people.delete(person.id)
                people.insert(Person("new"))
            assert before == seen

    def test_scan_of_many(self, db: memdb.Database) -> None:
        """A scan of more records than are taken at once is complete, cached or not."""
        for cache in ("all", "none", 100):
            people = db.collection(Person, name=str(cache), cache=cache)
            people.insert_many(Person(str(number)) for number in range(1, 2501))
            people.update(1300, name="changed")
            people.delete(2400)
            expected = [i for i in range(1, 2501) if i != 2400]
            for _ in range(2):
                assert expected == [person.id for person in people]
                assert 1 == people.count(name="changed")


class TestFinding:
    def test_conditions(self, people: memdb.Collection[Person]) -> None:
        """An expression, a callable and keywords, alone and together."""
        assert [1, 3] == [p.id for p in people.find_all(F.age == 30)]
        assert [1, 3] == [p.id for p in people.find_all(lambda p: p.age == 30)]
        assert [1, 3] == [p.id for p in people.find_all(age=30)]
        assert [3] == [p.id for p in people.find_all(F.age == 30, name="Cid")]
        assert [3] == [p.id for p in people.find_all(lambda p: p.name > "B", age=30)]
        assert [2] == [p.id for p in people.find_all(F.tags.contains("x"))]

    def test_first_by_identity(self, people: memdb.Collection[Person]) -> None:
        """find gives the first match, or None."""
        first = people.find(age=30)
        assert first is not None
        assert 1 == first.id
        assert people.find(age=99) is None

    def test_count_and_exists(self, people: memdb.Collection[Person]) -> None:
        """Counting and asking take the same conditions."""
        assert (3, 2, 1, 0) == (
            people.count(),
            people.count(age=30),
            people.count(F.age > 30),
            people.count(lambda p: False),
        )
        assert (True, True, False) == (
            people.exists(),
            people.exists(name="Bob"),
            people.exists(F.name == "Zoe"),
        )
        people.clear()
        assert (False, 0) == (people.exists(), people.count())

    def test_by_identity(self, people: memdb.Collection[Person]) -> None:
        """The identity is a field like any other."""
        assert people[2] == people.find(id=2) == people.find(F.id == 2)
        assert people.find(id=2, name="Ann") is None
        assert people.find(id=99) is None
        assert [1, 2] == [p.id for p in people.find_all(F.id < 3)]

    def test_dicts_by_key(self, db: memdb.Database) -> None:
        """Dicts are looked into by key; a key that is missing does not match."""
        events = db.collection("events")
        events.insert_many([{"kind": "a"}, {"level": 1}, {"kind": "b", "level": 2}])

        assert [3] == [e["id"] for e in events.find_all(F.level > 1)]
        assert [1] == [e["id"] for e in events.find_all(kind="a")]

    def test_unknown_field(self, people: memdb.Collection[Person]) -> None:
        """A condition on a field that does not exist is refused, even when there are no records."""
        people.clear()
        for find in (people.find, people.find_all, people.count, people.exists):
            with pytest.raises(memdb.QueryError, match="name"):
                find(nmae="x")
            with pytest.raises(memdb.QueryError):
                find(F.nmae == "x")

    @pytest.mark.parametrize("condition", [5, "name", True, Person("a")])
    def test_what_is_no_condition(self, people: memdb.Collection[Person], condition: Any) -> None:
        """Anything that is neither an expression nor callable is refused."""
        for find in (people.find, people.find_all, people.count, people.exists):
            with pytest.raises(memdb.QueryError):
                find(condition)

    def test_predicate_gets_copies(self, people: memdb.Collection[Person]) -> None:
        """A callable that changes what it is given changes nothing that anybody sees."""

        def spoil(person: Person) -> bool:
            person.name = "spoiled"
            person.tags.append("spoiled")
            return True

        before = list(people)
        for _ in range(2):
            assert before == people.find_all(spoil)
            assert before[0] == people.find(spoil)
            assert (3, True) == (people.count(spoil), people.exists(spoil))
        assert before == list(people)

    def test_predicate_that_raises(self, people: memdb.Collection[Person]) -> None:
        """The error of a callable comes out as it is."""
        with pytest.raises(ZeroDivisionError):
            people.find(lambda p: 1 / 0)

    def test_predicate_that_writes(self, people: memdb.Collection[Person]) -> None:
        """A callable may write; the search is over the state at its start."""

        def delete(person: Person) -> bool:
            people.delete(person.id)
            return True

        assert 3 == people.count(delete)
        assert 0 == len(people)


class TestHistory:
    def test_versions(self, people: memdb.Collection[Person]) -> None:
        """The versions of a record come oldest first, with kind and time."""
        begin = datetime.now(UTC)
        people.update(1, age=31)
        people.update(1, age=31)
        people.delete(1)
        people.insert(Person("Anna", id=1))
        found = people.history(1)

        assert ["inserted", "updated", "deleted", "inserted"] == [each.kind for each in found]
        assert [30, 31, None, 0] == [each.record and each.record.age for each in found]
        times = [each.time for each in found]
        assert sorted(times) == times
        assert {UTC} == {each.tzinfo for each in times}
        # To a millisecond.
        assert begin - timedelta(milliseconds=1) <= times[1]
        assert times[-1] <= datetime.now(UTC)

    def test_only_this_record(self, people: memdb.Collection[Person], db: memdb.Database) -> None:
        """Records of other identities and collections are left out."""
        notes = db.collection(Note)
        notes.insert(Note("one"))

        assert [Note("one")] == [each.record for each in notes.history(1)]
        assert [] == people.history(99)

    def test_only_committed(self, people: memdb.Collection[Person], db: memdb.Database) -> None:
        """What the open transaction changed is not history yet."""
        with db.transaction():
            people.update(1, age=31)
            people.update(1, age=32)
            assert 1 == len(people.history(1))

        assert [30, 32] == [each.record and each.record.age for each in people.history(1)]

    def test_times_follow_the_clock(
        self, db: memdb.Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Each version has the time of its commit, to a millisecond."""
        people = db.collection(Person)
        now = 1_700_000_000_000_000_000
        clock = [now, now + 400_000, now + 900_000, now + 1_100_000, now + 10**9, now + 10**15]
        for time in clock:
            monkeypatch.setattr("memdb.storage._log._time_ns", lambda time=time: time)
            people.put(Person(str(time), id=1))
            people.insert_many([Person("x"), Person("y")])
        found = [each.time.timestamp() * 1e9 for each in people.history(1)]

        assert len(clock) == len(found)
        assert all(-1e4 < time - each < 1e6 for time, each in zip(clock, found, strict=True))

    def test_clock_that_goes_back(
        self, db: memdb.Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Times never fall, whatever the clock does; nothing is refused or lost."""
        people = db.collection(Person)
        for time in (10**18, 10**17, 2 * 10**18, 5, 10**18):
            monkeypatch.setattr("memdb.storage._log._time_ns", lambda time=time: time)
            people.put(Person(str(time), id=1))
            people.insert_many([Person("x"), Person("y")])
            with db.transaction():
                people.update(2, name=str(time))
                people.delete(len(people))
        found = [each.time for each in people.history(1)]

        assert 5 == len(found)
        assert sorted(found) == found
        assert [1e9, 1e9, 2e9, 2e9, 2e9] == [round(each.timestamp()) for each in found]

    def test_after_reopening(self, tmp_path: Any) -> None:
        """History stays in the file, with its times, whatever serializer wrote it."""
        times = []
        for serializer in ("binary", "json", "msgpack"):
            with memdb.open(tmp_path / "a", serializer=serializer) as db:
                db.collection(Person).put(Person(serializer, id=1))
                times.append(db.collection(Person).history(1)[-1].time)
        with memdb.open(tmp_path / "a", "r") as db:
            found = db.collection(Person).history(1)

        assert ["binary", "json", "msgpack"] == [each.record and each.record.name for each in found]
        assert times == [each.time for each in found]


class TestCache:
    @pytest.mark.parametrize("cache", ["all", "none", 1, 2, 16, 100])
    @pytest.mark.parametrize("index", [True, False])
    def test_is_not_seen(self, db: memdb.Database, cache: Any, index: bool) -> None:
        """Whatever is kept in memory, reading gives the present state."""
        people = db.collection(Person, cache=cache, identity_index=index)
        people.insert_many(Person(str(number), number) for number in range(1, 41))
        for number in (1, 40, 7, 7, 1):
            for identity in range(1, 41):
                people.get(identity)
            people.update(number, age=people[number].age + 1000)
            assert people[number].age > 1000
        people.delete(5)

        assert people.get(5) is None
        assert [1, 7, 40] == [p.id for p in people.find_all(F.age > 1000)]
        assert 39 == len(list(people)) == len(people)

    @pytest.mark.parametrize("limit", [1, 16, 100])
    def test_is_bounded(self, db: memdb.Database, limit: int) -> None:
        """Never are more decoded records kept than were asked for."""
        people = db.collection(Person, cache=limit)
        people.insert_many(Person(str(number)) for number in range(500))
        for identity in (*range(1, 501), *range(1, 501, 7)):
            people.get(identity)
            assert len(people._store.cache) <= limit
        list(people)
        people.find_all(age=0)

        assert 0 < len(people._store.cache) <= limit

    def test_none_keeps_nothing(self, db: memdb.Database) -> None:
        """With none, every read decodes."""
        people = db.collection(Person, cache="none")
        people.insert(Person("a"))
        people.get(1), list(people), people.find(name="a")

        assert 0 == len(people._store.cache)

    def test_value_unlike_its_annotation(self, db: memdb.Database) -> None:
        """A list where the annotation says str is copied all the same."""
        people = db.collection(Person)
        people.insert(Person(["not", ["text"]]))  # type: ignore[arg-type]
        for read in (lambda: people[1], lambda: people.find(), lambda: next(iter(people))):
            for _ in range(2):
                name: Any = read().name  # type: ignore[union-attr]
                assert ["not", ["text"]] == name
                name[1].append("changed")

    def test_nested_record_is_copied(self, db: memdb.Database) -> None:
        """A record in a record is the receiver's own, too."""
        wrappers = db.collection(Wrapper)
        wrappers.insert(Wrapper(Person("in", tags=["a"])))
        for _ in range(3):
            found = wrappers[1]
            assert Wrapper(Person("in", tags=["a"]), 1) == found
            found.person.tags.append("b")
            found.person.name = "out"


class TestWithoutIndex:
    def test_all_operations(self, db: memdb.Database) -> None:
        """Without an identity index every operation works, by scanning."""
        people = db.collection(Person, identity_index=False)

        assert [1, 2, 3] == people.insert_many([Person("a"), Person("b"), Person("c")])
        assert 9 == people.insert(Person("i", id=9))
        assert 10 == people.insert(Person("j"))
        assert 5 == people.insert(Person("e", id=5))
        with pytest.raises(memdb.DuplicateIdentityError):
            people.insert(Person("e", id=5))
        people.update(2, name="B")
        people.delete(9)
        assert ["a", "B", "c", "e", "j"] == [person.name for person in people]
        assert [1, 2, 3, 5, 10] == people.ids()
        assert (True, False, None) == (2 in people, 9 in people, people.get(9))
        assert "updated" == people.put(Person("A", id=1)).outcome
        assert 5 == people.clear()
        assert 11 == people.insert(Person("k"))
