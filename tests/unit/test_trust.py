"""What a file may ask for, and what a collection opened in another way may do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import memdb


@dataclass
class Note:
    """A record."""

    text: str
    id: int = 0


@dataclass
class Unset:
    """A record whose identity the constructor does not set."""

    text: str
    id: int = field(init=False)


def test_pickle_is_read_only_when_the_program_names_it(tmp_path: Path) -> None:
    """A file can't make a program unpickle that did not ask for it."""
    path = tmp_path / "a.memdb"
    with memdb.open(path, serializer="pickle") as db:
        db.collection(Note).insert(Note("a"))

    with memdb.open(path) as db, pytest.raises(memdb.DecodeError, match="trusted_serializers"):
        db.collection(Note).get(1)
    with memdb.open(path, trusted_serializers=["pickle"]) as db:
        assert Note("a", 1) == db.collection(Note)[1]


CHANGES: list[Callable[[Any], object]] = [
    lambda notes: notes.insert({"text": "b"}),
    lambda notes: notes.insert_many([{"text": "b"}]),
    lambda notes: notes.put({"text": "b", "id": 1}),
    lambda notes: notes.update(1, text="b"),
    lambda notes: notes.delete(1),
    lambda notes: notes.clear(),
    lambda notes: notes.edit(1).__enter__(),
]


@pytest.mark.parametrize("change", CHANGES)
def test_collection_of_a_class_by_its_name_is_only_read(
    tmp_path: Path, change: Callable[[Any], object]
) -> None:
    """Opened by its name, a collection of a class gives dicts and refuses every change."""
    path = tmp_path / "a.memdb"
    with memdb.open(path) as db:
        db.collection(Note).insert(Note("a"))
    with memdb.open(path) as db:
        notes = db.collection("Note")
        with pytest.raises(memdb.ReadOnlyError, match="Open it with the class"):
            change(notes)

        assert [{"text": "a", "id": 1}] == list(notes)


def test_dicts_that_have_become_records_of_a_class_are_only_read(tmp_path: Path) -> None:
    """By its name such a collection refuses new ones, though it has written dicts before."""
    path = tmp_path / "a.memdb"
    with memdb.open(path) as db:
        db.collection("notes").insert({"text": "a"})
    with memdb.open(path) as db:
        db.collection(Note, name="notes").insert(Note("b"))
    with memdb.open(path) as db:
        notes = db.collection("notes")
        with pytest.raises(memdb.ReadOnlyError, match="Open it with the class"):
            notes.insert({"text": "c"})

        assert ["a", "b"] == [note["text"] for note in notes]


def test_identity_that_the_constructor_does_not_set() -> None:
    """A record whose identity was never set gets one, the second as the first."""
    with memdb.open(None) as db:
        records = db.collection(Unset)

        assert [1, 2, 3] == [records.insert(Unset("a")) for _ in range(3)]
        assert [4, 5] == records.insert_many([Unset("b"), Unset("c")])
