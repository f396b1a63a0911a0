"""A writer and a reader of one file in one process, for tests of what a reader takes in."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import memdb


@dataclass
class Town:
    """A record."""

    name: str
    people: int
    tags: list[str] = field(default_factory=list)
    id: int = 0


@dataclass
class User:
    """A record with a natural key."""

    email: str
    age: int


def all_indexes() -> list[Any]:
    """Return indexes of every kind for `Town`; names are unique."""
    return [
        memdb.HashIndex("name", unique=True),
        memdb.HashIndex("people", name="hashed"),
        memdb.SortedIndex("people", name="sorted"),
        memdb.ColumnIndex("people", name="column"),
        memdb.SetIndex("tags"),
    ]


@contextlib.contextmanager
def writer_and_reader(
    path: Path, **settings: Any
) -> Iterator[tuple[memdb.Database, memdb.Database]]:
    """Open a file for writing and for reading; the reader ends up as the writer is, and whole.

    Args:
        path: The file, made when missing.
        settings: Of the reader.
    """
    with memdb.open(path) as writer, memdb.open(path, "r", **settings) as reader:
        yield writer, reader
        if not reader.is_closed and not writer.is_closed:
            reader.refresh()
            expected, found = contents(writer), contents(reader)
            assert {name: expected[name] for name in found} == found
            assert [] == reader.check()


def contents(db: memdb.Database) -> dict[str, dict[Any, Any]]:
    """Return all records of the collections that were asked for."""
    return {
        name: dict(collection.items()) for name, (collection, _) in sorted(db._collections.items())
    }
