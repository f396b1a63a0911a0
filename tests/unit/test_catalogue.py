"""The catalogue as bytes, and what is none though its checksum is right."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import memdb
from memdb.errors import DamageError
from memdb.storage._catalogue import pack_catalogue, unpack_catalogue

CATALOGUE: dict[str, Any] = {
    "collections": [
        {"id": 1, "name": "Größe \U0001f600", "later": [1]},
        {
            "id": 2,
            "name": "users",
            "key": {"fields": ["a", "b"], "hash": "xxh3", "seed": 7, "former": [["c", "d"]]},
        },
    ],
    "writers": [
        {
            "id": 3,
            "collection": 1,
            "schema": {
                "serializer": "json",
                "class": "A",
                "kind": "dataclass",
                "fields": [["a", "int"], ["b", "Color"]],
                "records": {"B": [["x", "str"]]},
                "enums": {"Color": {"kind": "Enum", "members": [["RED", ["decimal", "1"]]]}},
                "version": 2,
                "tag": "a",
            },
        }
    ],
}


def test_a_catalogue_comes_back() -> None:
    """Whatever the names, and with keys that nobody knows yet."""
    assert CATALOGUE == unpack_catalogue(pack_catalogue(CATALOGUE))


WRONG: list[Any] = [
    None,
    True,
    -1,
    0,
    70_000,
    1.5,
    "",
    "x",
    [],
    ["x"],
    [["x"]],
    [[1, "x"]],
    {},
    {"x": 1},
]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Return the paths of everything in a catalogue that the format speaks of."""
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, inner in items:
        if key != "later" and "members" not in path:
            yield (*path, key)
            yield from places(inner, (*path, key))


def with_change(path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """Return the catalogue with another value at a path."""
    changed = copy.deepcopy(CATALOGUE)
    inner: Any = changed
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return changed


@pytest.mark.parametrize("path", list(places(CATALOGUE)), ids=str)
def test_wrong_types_are_damage(path: tuple[Any, ...]) -> None:
    """At each place of a catalogue: refused, or something that is right there."""
    refused = 0
    for value in WRONG:
        body = pack_catalogue(with_change(path, value))
        try:
            assert json.loads(body) == unpack_catalogue(body, "a.memdb", 77)
        except DamageError as error:
            refused += 1
            assert ("a.memdb", 77) == (error.path, error.offset)
            assert "catalogue at byte 77" in str(error)

    assert refused > 6


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"1", b"\xff", b"[" * 100_000])
def test_what_is_no_catalogue_is_damage(body: bytes) -> None:
    """Neither JSON nor an object."""
    with pytest.raises(DamageError):
        unpack_catalogue(body)


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c["collections"][1].update(id=1),
        lambda c: c["collections"][1].update(name=c["collections"][0]["name"]),
        lambda c: c["writers"].append(c["writers"][0]),
        lambda c: c["writers"][0].update(collection=9),
        lambda c: c["writers"][0]["schema"]["fields"].append(["a", "str"]),
        lambda c: c.pop("writers"),
        lambda c: c["writers"][0]["schema"].pop("kind"),
    ],
)
def test_contradictions_are_damage(change: Any) -> None:
    """Numbers and names once, and no writer of nothing."""
    catalogue = copy.deepcopy(CATALOGUE)
    change(catalogue)

    with pytest.raises(DamageError):
        unpack_catalogue(pack_catalogue(catalogue))


def test_a_file_with_a_wrong_catalogue_is_not_opened(tmp_path: Path) -> None:
    """Opening says so, whichever way it comes to the catalogue; the file is left as it is."""
    path = tmp_path / "a.memdb"
    for is_clean in (True, False):
        path.unlink(missing_ok=True)
        with memdb.open(path) as db:
            db.collection("notes").insert({"a": 1})
            log = db._engine.log
            with log.lock:
                log.write_catalogue({"collections": 5})
            if not is_clean:
                data = path.read_bytes()
            assert ["the catalogue is not what memdb writes"] == [f.message for f in db.check()]
        if not is_clean:
            path.write_bytes(data)
        before = path.read_bytes()
        with pytest.raises(DamageError, match="catalogue"):
            memdb.open(path)
        assert before == path.read_bytes()
