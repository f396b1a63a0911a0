"""`memdb.schema`: what a file holds, told without its classes."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from pathlib import Path

import pytest

import memdb


class Color(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Address:
    street: str
    since: Decimal = Decimal(0)


@dataclass
class Person:
    name: str
    home: Address
    colors: list[Color] = field(default_factory=list)
    id: int = 0


@dataclass
class Cat:
    name: str


@dataclass
class Dog:
    name: str


def test_a_schema_tells_fields_types_and_counts(tmp_path: Path) -> None:
    """Nested classes and Enums included."""
    with memdb.open(tmp_path / "a.memdb") as db:
        people = db.collection(Person, version=3)
        people.insert_many([Person("Ann", Address("x")), Person("Bob", Address("y"))])
        people.delete(1)
        db.collection("users", key=("mail", "site")).insert({"mail": "a", "site": "b"})
        pets = db.collection(Cat | Dog, name="pets", serializer="json")
        pets.insert_many([Cat("Tom"), Cat("Kit")])
        pets.insert(Dog("Rex"))
    with memdb.open(tmp_path / "a.memdb", mode="r") as db:
        schema = memdb.schema(db)

    assert ["Person", "users", "pets"] == list(schema.collections)
    person = schema.collections["Person"]
    assert (1, 3, None) == (person.records, person.versions, person.key)
    (form,) = person.forms
    assert ("Person", "dataclass", "binary", 3, None, 1) == (
        form.class_name,
        form.kind,
        form.serializer,
        form.version,
        form.tag,
        form.records,
    )
    assert {"name": "str", "home": "Address", "colors": "list[Color]"} == form.fields
    assert {"Address": {"street": "str", "since": "Decimal"}} == form.nested
    assert {"Color": {"RED": "red", "BLUE": "blue"}} == form.enums
    assert ("mail", "site") == schema.collections["users"].key
    assert [("Cat", 2), ("Dog", 1)] == [
        (form.tag, form.records) for form in schema.collections["pets"].forms
    ]


def test_a_schema_is_text_for_a_person(db: memdb.Database) -> None:
    """One line for each collection, form and field."""
    assert "no collections" == str(memdb.schema(db))
    db.collection(Person, version=3).insert(Person("Ann", Address("x")))
    db.collection("users", key="mail").insert({"mail": "a"})

    assert """\
Person: 1 record, 1 version
  Person version 3, binary: 1 record
    name: str
    home: Address
    colors: list[Color]
    Address(street: str, since: Decimal)
    Color(RED, BLUE)
users: 1 record, 1 version, key mail
  dict, binary: 1 record""" == str(memdb.schema(db))


def test_the_forms_of_a_class_are_told_apart(tmp_path: Path) -> None:
    """Each with the records that are still in it."""

    @dataclass
    class Later:
        name: str
        age: int = 0

    with memdb.open(tmp_path / "a.memdb") as db:
        db.collection(Cat, name="x").insert_many([Cat("a"), Cat("b")])
    with memdb.open(tmp_path / "a.memdb") as db:
        db.collection(Later, name="x").update(1, age=3)
        forms = memdb.schema(db).collections["x"].forms

    assert [("Cat", 1), ("Later", 1)] == [(form.class_name, form.records) for form in forms]


def test_a_closed_database_has_no_schema(db: memdb.Database) -> None:
    """As it has nothing else."""
    db.close()

    with pytest.raises(memdb.ClosedError):
        memdb.schema(db)


def test_a_typed_collection_reads_as_dicts_by_its_name(tmp_path: Path) -> None:
    """Nested records are dicts, members of Enums their values, everything else as it was."""
    for serializer in ("binary", "msgpack", "json"):
        with memdb.open(tmp_path / serializer, serializer=serializer) as db:
            db.collection(Person).insert(Person("Ann", Address("x", Decimal("1.10")), [Color.RED]))
        with memdb.open(tmp_path / serializer) as db:
            people = db.collection("Person")
            expected = {
                "name": "Ann",
                "home": {"street": "x", "since": Decimal("1.10")},
                "colors": ["red"],
                "id": 1,
            }
            assert expected == people[1]
            assert expected == people.find(name="Ann")
            with pytest.raises(memdb.ReadOnlyError, match="Open it with the class"):
                people.insert({"name": "Bob"})
