"""What a file holds, told without any of the user's classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from memdb._statistics import live_pointers
from memdb.serializers import enum_values

if TYPE_CHECKING:
    from memdb._database import Database


@dataclass(frozen=True, slots=True)
class FormSchema:
    """One form of the records of a collection: a class as it was at some time.

    Attributes:
        class_name: The class's name; ``"dict"`` for plain dicts.
        kind: ``"dataclass"``, ``"struct"``, ``"attrs"``, ``"pydantic"``, ``"namedtuple"`` or
            ``"dict"``.
        serializer: What its records are written with.
        version: Of the class, 1 unless its program says another.
        tag: What tells the class from the others of the collection; None where it is the only one.
        fields: Name -> type, without a field that carries an assigned identity.
        nested: The record classes that the types name -> their fields, as above.
        enums: The Enum classes that the types name -> member -> value; None for a value that a
            file can't hold.
        records: How many records are in this form now.
    """

    class_name: str
    kind: str
    serializer: str
    version: int
    tag: str | None
    fields: dict[str, str]
    nested: dict[str, dict[str, str]]
    enums: dict[str, dict[str, Any]]
    records: int


@dataclass(frozen=True, slots=True)
class CollectionSchema:
    """What a file says of one collection.

    Attributes:
        name: The collection's name.
        key: The fields of its natural key; None where identities are assigned.
        records: How many there are.
        versions: All in the file, deletions too.
        forms: Every form that its records were ever written in, oldest first.
    """

    name: str
    key: tuple[str, ...] | None
    records: int
    versions: int
    forms: tuple[FormSchema, ...]


@dataclass(frozen=True, slots=True)
class Schema:
    """What a file holds; as text, it is laid out for a person.

    Attributes:
        collections: By name, in order of their making.
    """

    collections: dict[str, CollectionSchema]

    def __str__(self) -> str:
        return "\n".join(_lines(self)) or "no collections"


def schema(db: Database) -> Schema:
    """Return what a database holds: collections, fields, types, serializers, versions, counts.

    Needs none of the classes. A collection that was asked for and never written to is not in it.

    Raises:
        ClosedError: The database is closed.

    Cost: O(versions), vectorised; no record is read.

    >>> import memdb
    >>> db = memdb.open(None)
    >>> db.collection("notes").insert({"text": "hello"})
    1
    >>> print(memdb.schema(db))
    notes: 1 record, 1 version
      dict, binary: 1 record
    >>> db.close()
    """
    engine = db._engine
    log = engine.log
    log.raise_if_closed()
    with log.lock:
        pointers = log.pointers()
    collections = {}
    for entry in engine.collections:
        own = pointers[pointers["collection"] == entry["id"]]
        live = live_pointers(own)
        counts = np.bincount(live["writer"])
        forms = tuple(
            _form(writer["schema"], int(counts[writer["id"]]) if writer["id"] < len(counts) else 0)
            for writer in engine.writers
            if writer["collection"] == entry["id"]
        )
        key = tuple(entry["key"]["fields"]) if "key" in entry else None
        name = entry["name"]
        collections[name] = CollectionSchema(name, key, len(live), len(own), forms)
    return Schema(collections)


def _form(stored: dict[str, Any], records: int) -> FormSchema:
    return FormSchema(
        class_name=stored["class"],
        kind=stored["kind"],
        serializer=stored["serializer"],
        version=stored.get("version", 1),
        tag=stored.get("tag"),
        fields=dict(stored["fields"]),
        nested={name: dict(fields) for name, fields in stored.get("records", {}).items()},
        enums=enum_values(stored),
        records=records,
    )


def _lines(whole: Schema) -> list[str]:
    lines = []
    for each in whole.collections.values():
        counts = f"{_count(each.records, 'record')}, {_count(each.versions, 'version')}"
        key = f", key {', '.join(each.key)}" if each.key else ""
        lines.append(f"{each.name}: {counts}{key}")
        for form in each.forms:
            version = f" version {form.version}" if form.version != 1 else ""
            tag = f" tag {form.tag!r}" if form.tag is not None else ""
            name = "dict" if form.kind == "dict" and not form.fields else form.class_name
            lines.append(
                f"  {name}{version}{tag}, {form.serializer}: {_count(form.records, 'record')}"
            )
            lines += [f"    {field}: {text}" for field, text in form.fields.items()]
            for nested, fields in form.nested.items():
                inner = ", ".join(f"{field}: {text}" for field, text in fields.items())
                lines.append(f"    {nested}({inner})")
            for enum, members in form.enums.items():
                lines.append(f"    {enum}({', '.join(members)})")
    return lines


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"
