"""Make the golden files under tests/data and the worked example of docs/format.md.

    python -m tests.support.make_golden            make the golden files that are missing
    python -m tests.support.make_golden example    put the worked example into the document

A golden file is never made again: it shows that what an earlier memdb wrote stays readable.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest import mock
from uuid import UUID

import memdb
from memdb import _saved_indexes
from memdb.storage import OSFile, _key_slots, _log
from tests.support import golden_classes
from tests.support.faulty import FaultyFile, drop, open_on
from tests.support.markdown import ROOT

DATA = ROOT / "tests" / "data"
DOCUMENT = ROOT / "docs" / "format.md"
# Of the encrypted ones.
KEY = bytes(range(100, 132))
PASSWORD = "caf\u00e9 au lait"
BEGIN, END = "<!-- worked example: begin -->\n", "<!-- worked example: end -->\n"


class Colour(enum.Enum):
    """A value of a record."""

    RED = "red"
    BLUE = "blue"


@dataclass
class Place:
    """A record inside a record."""

    town: str
    latitude: float


@dataclass
class Item:
    """A record with values of many types."""

    name: str
    price: Decimal
    made: datetime
    day: date
    key: UUID
    colour: Colour
    place: Place | None
    raw: bytes = b""
    tags: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    span: timedelta = timedelta(0)
    is_sold: bool = False
    weight: float | None = None
    id: int = 0


def item(number: int) -> Item:
    """Return one of any number of records."""
    return Item(
        name=f"Gerät {number} \U0001f600",
        price=Decimal(number) / 100 + Decimal("1.10"),
        made=datetime(2024, 2, 29, 12, 30, 15, number, UTC if number % 2 else None),
        day=date(2000, 1, 1) + timedelta(days=number),
        key=UUID(int=number),
        colour=list(Colour)[number % 2],
        place=Place("Übach", 50.9 + number) if number % 3 else None,
        raw=bytes(range(number % 7)),
        tags=["a"] * (number % 4),
        counts={"x": number, "y": -(2**40)},
        span=timedelta(days=-1, microseconds=number),
        is_sold=number % 2 == 0,
        weight=None if number % 5 else number / 3,
    )


# -- golden files ----------------------------------------------------------------------------


def write_all_kinds(path: Path, serializer: str, **settings: Any) -> None:
    """Insert, update and delete, with typed records and dicts, and close."""
    with memdb.open(path, serializer=serializer, **settings) as db:
        items, notes = db.collection(Item), db.collection("notes")
        for number in range(5):
            items.insert(item(number))
        items.insert_many(item(number) for number in range(5, 12))
        notes.insert({"text": "plain", "list": [1, None, True, 2.5], "id": 40})
        with db.transaction():
            items.update(2, name="changed")
            items.delete(3)
            notes.insert({"text": "with", "nested": {"a": {"b": []}}})
        items.delete(12)
        notes.update(40, text="changed")


def write_checkpoints(path: Path) -> None:
    """Open, write and close often, with checkpoints that take each other over."""
    for session in range(6):
        with memdb.open(path, checkpoint_interval=8) as db:
            items = db.collection(Item)
            for number in range(1 + session % 3):
                items.insert(item(session * 10 + number))
                db.checkpoint()
            if session > 2:
                items.update(session, name=f"in session {session}")
                items.delete(session - 2)


def write_large(path: Path) -> None:
    """Commit so much at once that the checkpoint refers to the commit."""
    with memdb.open(path) as db:
        notes = db.collection("notes")
        notes.insert({"n": -1})
        notes.insert_many({"n": number} for number in range(600))
        notes.delete(300)
        notes.insert_many({"n": -number} for number in range(100))


def write_torn(path: Path) -> None:
    """Leave a file as a killed process does whose last commit is half written."""
    db = open_on(FaultyFile(path), serializer="msgpack")
    items = db.collection(Item)
    items.insert(item(0))
    db.checkpoint()
    with db.transaction():
        items.insert(item(1))
        items.update(1, name="changed")
    items.insert(item(2))
    end = db._engine.log.end
    items.insert_many([item(3), item(4)])
    drop(db)
    data = bytearray(path.read_bytes())
    half = end + (db._engine.log.end - end) // 2
    path.write_bytes(bytes(data[:half]).ljust(len(data), b"\0"))


@dataclass
class Reading:
    """A record of the golden file with saved indexes."""

    count: int
    value: float | None
    is_valid: bool
    day: date
    local: datetime
    moment: datetime | None
    id: int = 0


READING_INDEXES: tuple[memdb.SortedIndex | memdb.ColumnIndex, ...] = tuple(
    [memdb.SortedIndex(each.name) for each in dataclasses.fields(Reading)[:-1]]
    + [
        memdb.ColumnIndex(each.name, name=f"{each.name} column")
        for each in dataclasses.fields(Reading)[:-1]
    ]
)
LOOSE_INDEXES = (memdb.SortedIndex("n"), memdb.ColumnIndex("n", name="n column"))


def reading(number: int) -> Reading:
    """Return one of any number of records: equal keys, None, a NaN, both ends of 64 bits."""
    start = datetime(2024, 2, 29, 12) - timedelta(days=40 * number)
    return Reading(
        count={0: -(2**63), 1: 2**63 - 1}.get(number, number * number % 17 - 8),
        value={0: float("nan"), 1: -0.0, 2: 0.0, 3: float("inf")}.get(
            number, None if number % 6 == 5 else number / 7
        ),
        is_valid=number % 3 == 0,
        day=date.min if number == 4 else date(2000, 1, 1) + timedelta(days=number % 11),
        local=datetime.max if number == 6 else start + timedelta(microseconds=number),
        moment=None if number % 5 == 3 else (start + timedelta(hours=number)).replace(tzinfo=UTC),
    )


def readings_of(db: memdb.Database) -> tuple[memdb.Collection[Reading], memdb.Collection[Any]]:
    """Return the collections of the golden file with saved indexes, with their indexes."""
    return (
        db.collection(Reading, indexes=READING_INDEXES),
        db.collection("loose", indexes=LOOSE_INDEXES),
    )


def write_indexes(path: Path, **settings: Any) -> None:
    """Save indexes of each kind, and change records afterwards."""
    with (
        mock.patch.object(_saved_indexes, "_LEAST_ENTRIES", 20),
        memdb.open(path, **settings) as db,
    ):
        readings, loose = readings_of(db)
        readings.insert_many(reading(number) for number in range(40))
        loose.insert_many(
            [{}, {"n": None}, {"n": 2.5}, {"n": 2.5}, {}][number % 5] for number in range(25)
        )
        readings.delete(11)
        loose.delete(24)
        for collection in (readings, loose):
            for name in collection.indexes:
                collection._store.indexes.catch_up([name])
    with memdb.open(path, **settings) as db:
        readings, loose = readings_of(db)
        readings.update(3, count=100, value=None, moment=None)
        readings.delete(20)
        readings.insert(reading(40))
        loose.insert({"n": 7.5})


def write_compacted(path: Path, **settings: Any) -> None:
    """Compact a file that has old versions, and write to it while that goes on and afterwards."""
    with memdb.open(path, **settings) as db:
        items, notes = db.collection(Item), db.collection("notes")
        for number in range(8):
            items.insert(item(number))
            notes.insert({"n": number})
        for identity in (2, 4, 8):
            items.update(identity, name=f"changed {identity}")
        items.delete(3)
        notes.delete(8)
        steps = iter([lambda: items.insert(item(50)), lambda: notes.update(1, n="meanwhile")])
        db.compact(progress=lambda *_: next(steps, lambda: None)())
        items.delete(4)
        notes.insert({"n": "afterwards"})


def write_marked(path: Path, **settings: Any) -> None:
    """Encrypt some records and others not, and change the password of the file."""
    with (
        mock.patch.object(_key_slots, "SCRYPT_N", 16),
        memdb.open(path, password="the first", encrypt="marked", **settings) as db,
    ):
        items, notes = db.collection(Item), db.collection("notes")
        for number in range(6):
            items.insert(item(number), encrypt=number % 2 == 0)
        items.update(1, name="changed")
        items.update(2, name="changed")
        notes.insert_many([{"n": 1}, {"n": 2}], encrypt=True)
        notes.insert({"n": 3})
        notes.delete(2)
        db.rekey(password=PASSWORD)
        with db.transaction():
            items.delete(3)
            notes.put({"n": 4, "id": 3}, encrypt=True)


def secret_of(path: Path) -> bytes | str | None:
    """Return the key or password of a golden file, None for a plain one."""
    if not path.stem.startswith("v2"):
        return None
    return PASSWORD if path.stem == "v2-marked" else KEY


def settings_of(path: Path) -> dict[str, Any]:
    """Return the settings that open a golden file."""
    secret = secret_of(path)
    return {} if secret is None else {"password" if isinstance(secret, str) else "key": secret}


def golden_files() -> dict[str, Any]:
    """Return what makes each golden file."""
    families = {
        "v1": write_all_kinds,
        "v1-evolved": golden_classes.write_evolved,
        "v1-values": golden_classes.write_values,
    }
    files: dict[str, Any] = {
        f"{name}-{serializer}": functools.partial(write, serializer=serializer)
        for name, write in families.items()
        for serializer in ("binary", "json", "msgpack")
    }
    return files | {
        "v1-checkpoints": write_checkpoints,
        "v1-large": write_large,
        "v1-torn": write_torn,
        "v1-keys": golden_classes.write_keys,
        "v1-classes": golden_classes.write_classes,
        "v1-indexes": write_indexes,
        "v1-compacted": write_compacted,
        "v2-binary": functools.partial(write_all_kinds, serializer="binary", key=KEY),
        "v2-keys": functools.partial(golden_classes.write_keys, key=KEY),
        "v2-marked": write_marked,
        "v2-compacted": functools.partial(write_compacted, key=KEY),
        "v2-indexes": functools.partial(write_indexes, key=KEY),
    }


def content_of(path: Path, mode: Any = "r") -> dict[str, Any]:
    """Return all that a golden file holds, as JSON can keep it."""
    with memdb.open(path, mode, **settings_of(path)) as db:
        contents: dict[str, Any] = {"records": {}, "history": {}}
        for name in db.collections():
            collection, show = opened(db, name)
            contents["records"][name] = {
                _text_of(name, identity): show(record) for identity, record in collection.items()
            }
            contents["history"][name] = {
                _text_of(name, identity): [version.kind for version in collection.history(identity)]
                for identity in identities_of(name, collection)
            }
        recovery = db.recovery
        contents["recovery"] = (
            None
            if recovery is None
            else [recovery.replayed_commits, recovery.cut_offset, recovery.cut_bytes]
        )
    return contents


def opened(db: memdb.Database, name: str) -> tuple[Any, Callable[[Any], str]]:
    """Return a collection of a golden file, and what shows its records as text."""
    opener = golden_classes.OPENERS.get(name.partition(" ")[0])
    if opener is not None:
        return opener(db, name), golden_classes.shown
    classes: dict[str, Any] = {"Item": Item, "Reading": Reading}
    return db.collection(classes.get(name, name)), repr


def identities_of(name: str, collection: Any) -> Iterable[Any]:
    """Return the identities or natural keys that were ever given."""
    if name in golden_classes.GIVEN_KEYS:
        return golden_classes.GIVEN_KEYS[name]
    return range(1, collection.stats().last_identity + 1)


def _text_of(name: str, identity: Any) -> str:
    """Return an identity or a natural key as JSON can have it for a key."""
    return repr(identity) if name in golden_classes.GIVEN_KEYS else str(identity)


def make_golden_files() -> None:
    """Make the golden files that are not there, and what is expected of them."""
    DATA.mkdir(exist_ok=True)
    for name, write in golden_files().items():
        path = DATA / f"{name}.memdb"
        if path.exists():
            continue
        with (
            mock.patch.object(OSFile, "growth_bytes", 8192),
            mock.patch.object(_log, "LARGE_COMMIT", 64),
        ):
            write(path)
        text = json.dumps(content_of(path), indent=1, ensure_ascii=True)
        path.with_suffix(".json").write_text(text + "\n", encoding="utf-8")
        print(path.name, path.stat().st_size)


# -- the worked example ----------------------------------------------------------------------


@dataclass
class Town:
    """The record of the worked example."""

    name: str
    people: int
    id: int = 0


def worked_example(folder: Path) -> bytes:
    """Return the bytes of a small file, the same ones each time."""
    clock: Iterator[int] = iter(range(1_700_000_000_000_000_000, 2**63, 1_000_000_000))
    with (
        mock.patch.object(os, "urandom", lambda size: bytes(range(1, size + 1))),
        mock.patch.object(time, "time_ns", lambda: next(clock)),
        mock.patch.object(_log, "_time_ns", lambda: next(clock)),
    ):
        path = folder / "example.memdb"
        file = OSFile(str(path), write=True)
        file.boot_id = b"an example boot."
        with open_on(file, serializer="json") as db:
            towns = db.collection(Town)
            towns.insert(Town("Bath", 94782))
            towns.insert_many([Town("Ely", 20574), Town("Wells", 11145)])
            towns.delete(2)
    return path.read_bytes()


TITLES = {
    0: "header page",
    4096: "root A, the newer one, clean",
    8192: "root B",
}


def hex_text(data: bytes, titles: dict[int, str]) -> str:
    """Return the bytes that are not zero, as offset and hex, 16 to a line, with titles."""
    starts = sorted(titles)
    lines = []
    for start, stop in zip(starts, [*starts[1:], len(data)], strict=True):
        part = data[start:stop].rstrip(b"\0")
        lines.append(f"{'' if not lines else chr(10)}{titles[start]}")
        for at in range(0, len(part), 16):
            row = part[at : at + 16]
            shown = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
            lines.append(f"{start + at:08x}  {row.hex(' '):47}  {shown}")
    return "\n".join(lines) + "\n"


def example_text(data: bytes) -> str:
    """Return the section of the document between its markers."""
    from tests.support import reader

    names = {"K": "catalogue", "C": "commit", "P": "checkpoint"}
    titles = dict(TITLES)
    for block in reader.read_by_walking(data).blocks:
        count = len(block.pointers)
        what = f" of {count} version{'s' if count != 1 else ''}" if count else ""
        titles[block.offset] = f"{names[block.kind]}{what}, sequence {block.sequence}"
    return (
        f"A file of {len(data)} bytes, made by inserting one town, then two at once, deleting"
        " the second, and closing.\nOffsets and bytes in hex; what is not shown is zeros.\n\n"
        f"```text\n{hex_text(data, titles)}```\n"
    )


def put_example() -> None:
    """Put the worked example between its markers in the document."""
    with tempfile.TemporaryDirectory() as folder:
        text = example_text(worked_example(Path(folder)))
    document = DOCUMENT.read_text(encoding="utf-8")
    if BEGIN not in document:
        document = f"{document.rstrip()}\n\n## A worked example\n\n{BEGIN}{END}"
    before, _, rest = document.partition(BEGIN)
    _, _, after = rest.partition(END)
    DOCUMENT.write_text(f"{before}{BEGIN}{text}{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:] == ["example"]:
        put_example()
    else:
        make_golden_files()
