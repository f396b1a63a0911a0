"""Classes that change between two openings of a file (D6), as a user meets it."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, make_dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

import memdb
from tests.support.exact import assert_exact


class Color(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Address:
    street: str
    zip: str = ""


@dataclass
class Person:
    name: str
    age: int
    color: Color = Color.RED
    home: Address | None = None
    tags: list[str] = field(default_factory=list)
    id: int = 0


RECORDS = [
    Person("Ann", 30, Color.BLUE, Address("High", "1"), ["a"]),
    Person("Bob", 40),
    # A value that is no int: its payload is of the exact tier.
    Person("Eve", 2**70, Color.RED, Address("Low"), ["x", "y"]),
]


@pytest.fixture(params=["binary", "msgpack", "json", "pickle"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A file with three people in it, written by each serializer."""
    with memdb.open(tmp_path / "a.memdb", serializer=request.param) as db:
        db.collection(Person, name="people").insert_many(RECORDS)
    return tmp_path / "a.memdb"


def opened(path: Path, cls: Any, check: Any, **settings: Any) -> None:
    """Check the people of a file as records of another class, read only and for writing."""
    modes: list[Any] = ["r", "rw"]
    for mode in modes:
        with memdb.open(path, mode=mode, trusted_serializers=["pickle"]) as db:
            check(db.collection(cls, name="people", **settings))


def test_an_added_field_gets_its_default(path: Path) -> None:
    """Each record its own copy of it."""

    @dataclass
    class Now:
        name: str
        age: int
        size: float = 1.5
        friends: list[str] = field(default_factory=lambda: ["Kim"])
        id: int = 0

    def check(people: memdb.Collection[Now]) -> None:
        assert_exact(people[1], Now("Ann", 30, 1.5, ["Kim"], 1))
        people[1].friends.append("Lee")
        assert [["Kim"]] * 3 == [person.friends for person in people]

    opened(path, Now, check)


def test_an_added_field_without_default_is_an_error_for_the_record(path: Path) -> None:
    """It names collection, record and field, and what to declare; new records are readable."""

    @dataclass
    class Now:
        name: str
        size: float
        id: int = 0

    with memdb.open(path, trusted_serializers=["pickle"]) as db:
        people = db.collection(Now, name="people")
        people.insert(Now("New", 1.0))
        with pytest.raises(
            memdb.DecodeError, match=r"^people 2: size: .*default.*upgrade="
        ) as info:
            people[2]
        assert ("people", 2, "size") == (
            info.value.collection,
            info.value.identity,
            info.value.field,
        )
        assert Now("New", 1.0, 4) == people[4]
        assert [1, 2, 3, 4] == people.ids()
        people.delete(2)
        assert 3 == len(people)

    def add_size(stored: dict[str, Any]) -> None:
        stored["size"] = float(len(stored["name"]))

    opened(path, Now, lambda people: assert_exact(people[1], Now("Ann", 3.0, 1)), upgrade=add_size)


def test_a_removed_field_is_kept_in_the_file_until_the_record_is_rewritten(path: Path) -> None:
    """Whoever brings the field back finds it."""

    @dataclass
    class Now:
        name: str
        id: int = 0

    def add_age(stored: dict[str, Any]) -> None:
        stored.setdefault("age", 0)

    opened(path, Now, lambda people: assert_exact(people[1], Now("Ann", 1)))
    with memdb.open(path, trusted_serializers=["pickle"]) as db:
        db.collection(Now, name="people").update(1, name="Anna")
    with memdb.open(path, trusted_serializers=["pickle"]) as db:
        people = db.collection(Person, name="people", upgrade=add_age)
        assert_exact(people[2], Person("Bob", 40, id=2))
        assert_exact(people[1], Person("Anna", 0, id=1))


def test_a_renamed_field_keeps_its_value(path: Path) -> None:
    """With renames=; without, the message says that a field is missing."""

    @dataclass
    class Now:
        full_name: str
        home: Address | None = None
        id: int = 0

    opened(
        path,
        Now,
        lambda people: assert_exact(people[1], Now("Ann", Address("High", "1"), 1)),
        renames={"name": "full_name"},
    )
    with (
        memdb.open(path, trusted_serializers=["pickle"]) as db,
        pytest.raises(memdb.DecodeError, match="people 1: full_name"),
    ):
        print(db.collection(Now, name="people")[1])


def test_a_retyped_field_is_widened_or_converted(path: Path) -> None:
    """An int becomes a Decimal by itself, and a text by a function; else it is refused."""

    @dataclass
    class Exact:
        name: str
        age: Decimal
        id: int = 0

    @dataclass
    class Text:
        name: str
        age: str
        id: int = 0

    opened(path, Exact, lambda people: assert_exact(people[3], Exact("Eve", Decimal(2**70), 3)))
    opened(
        path,
        Text,
        lambda people: assert_exact(people[1], Text("Ann", "30 years", 1)),
        converters={"age": lambda age: f"{age} years"},
    )
    with memdb.open(path, trusted_serializers=["pickle"]) as db:
        people = db.collection(Text, name="people")
        with pytest.raises(memdb.DecodeError, match=r"people 1: age: .*int.*str.*converters="):
            people[1]
        people.insert(Text("New", "5"))
        assert "5" == people[4].age


def test_versions_are_upgraded_one_after_the_other(path: Path) -> None:
    """Each function gets the record as the one before left it; new records pass none."""

    @dataclass
    class Now:
        first: str
        born: date
        id: int = 0

    def to_2(stored: dict[str, Any]) -> None:
        stored["first"] = stored.pop("name")

    def to_3(stored: dict[str, Any]) -> dict[str, Any]:
        return {"first": stored["first"], "born": date(2020 - min(stored["age"], 99), 1, 1)}

    def check(people: memdb.Collection[Now]) -> None:
        assert_exact(people[1], Now("Ann", date(1990, 1, 1), 1))

    settings: dict[str, Any] = {"version": 3, "upgrades": {2: to_2, 3: to_3}}
    opened(path, Now, check, **settings)
    with memdb.open(path, trusted_serializers=["pickle"]) as db:
        people = db.collection(Now, name="people", **settings)
        people.update(1, first="Anna")
        assert Now("Anna", date(1990, 1, 1), 1) == people[1]
        people.insert(Now("New", date(2000, 1, 1)))
    opened(
        path,
        Now,
        lambda people: assert_exact(people[4], Now("New", date(2000, 1, 1), 4)),
        **settings,
    )


def test_an_upgrade_that_raises_is_an_error_for_the_record(path: Path) -> None:
    """The cause is kept, and the other records are readable."""

    def upgrade(stored: dict[str, Any]) -> None:
        stored["age"] = 100 // (stored["age"] - 40)

    with memdb.open(path, trusted_serializers=["pickle"]) as db:
        people = db.collection(Person, name="people", version=2, upgrades={2: upgrade})
        with pytest.raises(memdb.DecodeError, match=r"^people 2: upgrades\[2\]=.*Division") as info:
            people[2]
        assert isinstance(info.value.__cause__, ZeroDivisionError)
        assert -10 == people[1].age


def test_members_of_an_enum_may_be_renamed_and_removed(path: Path) -> None:
    """By value; a removed one needs a converter, and only its records."""
    New: Any = Enum("Color", {"SCARLET": "red"})  # type: ignore[misc]

    # The annotation of a class in a function can't name what is local to it.
    Now: Any = make_dataclass("Now", [("name", str), ("color", New), ("id", int, 0)])
    with memdb.open(path, trusted_serializers=["pickle"]) as db:
        is_pickled = "pickle" == memdb.schema(db).collections["people"].forms[0].serializer
        if is_pickled:
            # A pickle names the class itself.
            return
        people = db.collection(Now, name="people")
        assert New.SCARLET is people[2].color
        with pytest.raises(memdb.DecodeError, match=r"people 1: color: .*BLUE.*converters="):
            people[1]
    with memdb.open(path) as db:
        people = db.collection(
            Now, name="people", converters={"color": lambda value: New("red" if value else "")}
        )
        assert [New.SCARLET] * 3 == [person.color for person in people]


def test_the_kind_of_a_class_may_change(path: Path) -> None:
    """Slots, frozen, another library, another name, other order: fields are matched by name."""

    @dataclass(frozen=True, slots=True)
    class Frozen:
        age: int
        name: str
        id: int = 0

    class Record(msgspec.Struct):
        age: int
        name: str
        id: int = 0

    class Row(NamedTuple):
        age: int
        name: str
        id: int = 0

    classes: list[Any] = [Frozen, Record, Row]
    for cls in classes:
        opened(path, cls, lambda people, cls=cls: assert_exact(people[1], cls(30, "Ann", 1)))


@dataclass
class Place:
    street: str
    country: str = "fr"


@dataclass
class Moved:
    name: str
    age: int
    home: Place | int | None = None
    id: int = 0


def test_a_nested_class_may_change_and_have_another_name(tmp_path: Path) -> None:
    """With aliases=, also where the payload names it."""
    for serializer in ("binary", "msgpack", "json"):
        path = tmp_path / serializer
        with memdb.open(path, serializer=serializer) as db:
            db.collection(Person, name="people").insert_many(RECORDS)
        with memdb.open(path) as db:
            people = db.collection(Moved, name="people", aliases={"Address": Place})
            assert_exact(people[1], Moved("Ann", 30, Place("High", "fr"), 1))
            assert_exact(people[3], Moved("Eve", 2**70, Place("Low", "fr"), 3))


@dataclass
class Newer:
    name: str
    age: int
    color: Color = Color.RED
    home: Address | None = None
    tags: list[str] = field(default_factory=list)
    salary: Decimal = Decimal(0)
    boss: Address | None = None
    id: int = 0


@pytest.mark.parametrize("serializer", ["binary", "msgpack", "json", "pickle"])
@pytest.mark.parametrize("versions", [(1, 2), (None, None)])
@pytest.mark.parametrize("age", [30, 2**70])
def test_what_a_newer_program_stored_survives_an_older_one(
    tmp_path: Path, serializer: str, versions: Any, age: int
) -> None:
    """Fields that the older one does not know are there after whatever it does to a record."""
    old, new = versions
    path = tmp_path / "a.memdb"
    stored = Newer("Ann", age, Color.BLUE, Address("High"), ["a"], Decimal("1.10"), Address("X"))
    with memdb.open(path, serializer=serializer) as db:
        db.collection(Person, name="people", version=old).insert(Person("Old", 1))
    with memdb.open(path, serializer=serializer) as db:
        db.collection(Newer, name="people", version=new).insert_many([stored] * 5)
    with memdb.open(path, serializer=serializer) as db:
        people = db.collection(Person, name="people", version=old)
        assert_exact(people[2], Person("Ann", age, Color.BLUE, Address("High"), ["a"], 2))
        assert people.update(2, name="Anna")
        assert people.update(2, tags=[])
        people.put(Person("Put", 5, id=3))
        with people.edit(4) as person:
            person.home = None
        with db.transaction():
            people.update(5, name="Tx")
            people.update(5, age=1)
        assert not people.update(2, tags=[])
    with memdb.open(path, serializer=serializer) as db:
        newer = db.collection(Newer, name="people", version=new)
        extra: Any = {"salary": Decimal("1.10"), "boss": Address("X")}
        assert_exact(newer[2], Newer("Anna", age, Color.BLUE, Address("High"), [], **extra, id=2))
        assert_exact(newer[3], Newer("Put", 5, **extra, id=3))
        assert_exact(newer[4], Newer("Ann", age, Color.BLUE, None, ["a"], **extra, id=4))
        assert_exact(newer[5], Newer("Tx", 1, Color.BLUE, Address("High"), ["a"], **extra, id=5))
        assert_exact(newer[1], Newer("Old", 1, id=1))
        assert [] == db.check()


@dataclass
class Inner:
    """As the older program knows it."""

    a: int


@dataclass
class NewInner:
    """As the newer program knows it."""

    a: int
    b: int = 0


NewInner.__qualname__ = "Inner"


@pytest.mark.parametrize("is_read_before", [True, False])
@pytest.mark.parametrize("kind", [int, float])
def test_unknown_nested_fields_of_pickles_are_lost_in_any_case(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_read_before: bool, kind: type
) -> None:
    """Whether the record was read before the update by the older program makes no difference."""
    older = make_dataclass("Outer", [("inner", Inner), ("n", kind, 0), ("id", int, 0)])
    newer = make_dataclass("Outer", [("inner", NewInner), ("n", int, 0), ("id", int, 0)])
    path = tmp_path / "a.memdb"

    def opened() -> memdb.Database:
        return memdb.open(path, serializer="pickle", trusted_serializers=["pickle"])

    with opened() as db:
        db.collection(older).insert(older(Inner(1)))
    with monkeypatch.context() as patch, opened() as db:
        patch.setattr(sys.modules[__name__], "Inner", NewInner)
        db.collection(newer, version=2).insert(newer(NewInner(1, 5)))
    with opened() as db:
        outers: Any = db.collection(older)
        if is_read_before:
            assert vars(outers[2].inner) == {"a": 1}
        outers.update(2, n=5)
    with monkeypatch.context() as patch, opened() as db:
        patch.setattr(sys.modules[__name__], "Inner", NewInner)
        assert_exact(db.collection(newer, version=2)[2], newer(NewInner(1, 0), 5, 2))


@pytest.mark.parametrize("old", ["binary", "msgpack", "json"])
@pytest.mark.parametrize("new", ["binary", "msgpack", "json"])
def test_unknown_fields_survive_another_serializer(tmp_path: Path, old: str, new: str) -> None:
    """What is written is of the program's own serializer, whatever it was before."""
    path = tmp_path / "a.memdb"
    stored = Newer("Ann", 2**70, salary=Decimal("1.10"), boss=Address("X"))
    with memdb.open(path, serializer=old) as db:
        db.collection(Newer, name="people", version=2).insert_many([stored] * 2)
    for age in (1, 2):
        with memdb.open(path, serializer=new) as db:
            assert db.collection(Person, name="people").update(1, age=age)
    with memdb.open(path) as db:
        people = db.collection(Newer, name="people", version=2)
        expected = Newer("Ann", 2, salary=Decimal("1.10"), boss=Address("X"), id=1)
        assert_exact(people[1], expected)
        assert [] == db.check()


def test_a_removed_field_does_not_come_back(tmp_path: Path) -> None:
    """What the class itself has given up is gone with the next writing, in each tier."""

    @dataclass
    class Less:
        name: str
        id: int = 0

    path = tmp_path / "a.memdb"
    with memdb.open(path) as db:
        db.collection(Person, name="people").insert_many(RECORDS)
    with memdb.open(path) as db:
        people = db.collection(Less, name="people")
        people.update(3, name="E")
        people.update(3, name="\ud800")
    with memdb.open(path) as db:
        assert {"name": "\ud800", "id": 3} == db.collection("people")[3]


def test_an_upgrade_must_leave_the_natural_key(tmp_path: Path) -> None:
    """Its record would not be found; the message says so, and the record can be deleted."""

    def shout(stored: dict[str, Any]) -> None:
        stored["name"] = stored["name"].upper()

    path = tmp_path / "a.memdb"
    with memdb.open(path) as db:
        db.collection(Person, name="people", key="name").insert(Person("Ann", 3))
    with memdb.open(path) as db:
        people = db.collection(Person, name="people", key="name", version=2, upgrades={2: shout})
        with pytest.raises(memdb.DecodeError, match=r"people 'Ann': name: upgrading .* its key"):
            people["Ann"]
        assert ["Ann"] == people.ids()
        assert "Ann" in people
        people.delete("Ann")
        assert 0 == len(people)


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        ({"version": 0}, "version"),
        ({"version": "2"}, "version"),
        ({"version": 2, "upgrades": {3: len}}, "upgrades"),
        ({"upgrades": {2: len}}, "upgrades"),
        ({"upgrades": {2: 5}, "version": 2}, "upgrades"),
        ({"upgrade": len, "upgrades": {2: len}, "version": 2}, "upgrade"),
        ({"renames": {"a": 3}}, "renames"),
        ({"renames": ["a"]}, "renames"),
        ({"converters": {"age": 3}}, "converters"),
        ({"converters": {"size": str}}, "size"),
        ({"aliases": {"Old": 3}}, "aliases"),
        ({"tags": {"Old": 3}}, "int|3"),
    ],
)
def test_wrong_settings_are_refused(
    db: memdb.Database, settings: dict[str, Any], part: str
) -> None:
    """Before anything is read or written; the message names the setting."""
    with pytest.raises((memdb.ConfigError, memdb.RecordTypeError), match=part):
        db.collection(Person, **settings)


def test_what_a_file_can_not_describe_is_refused(db: memdb.Database) -> None:
    """At the first write, which changes nothing; the collection can be asked for anew."""
    odd: Any = Enum("Odd", {"\ud800": 1})  # type: ignore[misc]
    cls: Any = make_dataclass("Odd", [("odd", odd)])

    with pytest.raises(memdb.ConfigError, match="can't be described in the file"):
        db.collection(cls).insert(cls(odd["\ud800"]))
    with pytest.raises(memdb.ConfigError, match="can't be described in the file"):
        db.collection(Person, version=10**20).insert(Person("Ann", 3))
    assert [] == db.collections()


def test_asking_again_with_other_settings_is_refused(db: memdb.Database) -> None:
    """Functions may be written anew; everything else must be the same or left out."""
    people = db.collection(Person, version=2, upgrades={2: lambda d: None}, renames={"a": "age"})

    assert people is db.collection(Person)
    assert people is db.collection(Person, version=2, upgrades={2: lambda d: None})
    with pytest.raises(memdb.ConfigError, match="version=2 before, now with 3"):
        db.collection(Person, version=3)
    with pytest.raises(memdb.ConfigError, match="renames="):
        db.collection(Person, renames={})


@dataclass
class Stricter:
    name: str
    size: float
    id: int = 0


def test_a_record_that_can_not_be_read_can_be_replaced(path: Path) -> None:
    """By put and by update with a whole record; a function would need the old one."""
    with memdb.open(path, trusted_serializers=["pickle"]) as db:
        people = db.collection(Stricter, name="people")
        assert "updated" == people.put(Stricter("Ann", 1.0, 1)).outcome
        assert people.update(2, Stricter("Bob", 2.0))
        for change in (lambda person: person, None):
            with pytest.raises(memdb.DecodeError, match="people 3: size"):
                people.update(3, change, name="Eve")
        assert [Stricter("Ann", 1.0, 1), Stricter("Bob", 2.0, 2)] == [people[1], people[2]]
        with db.transaction():
            people.update(3, Stricter("Eve", 3.0))
            people.update(3, Stricter("Eve", 4.0))
        assert Stricter("Eve", 4.0, 3) == people[3]


def test_history_tells_which_versions_can_not_be_read(path: Path) -> None:
    """Each with its error; the others are given."""
    with memdb.open(path, trusted_serializers=["pickle"]) as db:
        people = db.collection(Stricter, name="people")
        people.put(Stricter("Ann", 1.0, 1))
        old, new = people.history(1)

        assert (None, "inserted") == (old.record, old.kind)
        assert "people 1: size" in str(old.error)
        assert (Stricter("Ann", 1.0, 1), "updated", None) == (new.record, new.kind, new.error)


def test_history_by_natural_key_tells_it_too(tmp_path: Path) -> None:
    """The key is known though the record can't be made."""
    with memdb.open(tmp_path / "a.memdb") as db:
        db.collection(Person, name="people", key="name").insert(Person("Ann", 3))
    with memdb.open(tmp_path / "a.memdb") as db:
        people = db.collection(Stricter, name="people", key="name")
        (version,) = people.history("Ann")
        assert "people 'Ann': size" in str(version.error)
        assert "updated" == people.put(Stricter("Ann", 1.0)).outcome
        assert Stricter("Ann", 1.0) == people["Ann"]
