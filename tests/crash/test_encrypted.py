"""Encrypted files under everything else that memdb does: no plaintext anywhere (F2), no loss."""

from __future__ import annotations

import os
import random
import signal
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

import memdb
from memdb.storage import OSFile, _key_slots
from tests.support.disk import Disk
from tests.support.faulty import drop, open_on
from tests.support.processes import Child

KEY = bytes(range(32))
OTHER = bytes(range(2, 34))
NEEDLES = (b"hush", b"Secretary", b"secretaries", b"field_name", b"example.org")
# The number of the records as a payload and as a saved index have it.
NEEDLES += (b"\x11\x22\x33", b"\x33\x22\x11")


@pytest.fixture(autouse=True)
def quick_scrypt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Derive keys from passwords in no time."""
    monkeypatch.setattr(_key_slots, "SCRYPT_N", 2)


@pytest.fixture(autouse=True)
def small_indexes_are_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have indexes of few records in the file."""
    monkeypatch.setattr("memdb._saved_indexes._LEAST_ENTRIES", 10)
    monkeypatch.setattr("memdb._saved_indexes._LEAST_CHANGES", 10)


@dataclass
class Secretary:
    """A record whose every part has a needle."""

    email: str
    field_name: str
    number: int = 0x11223344


def texts(folder: Path) -> dict[str, set[bytes]]:
    """Return the needles that stand in any file of a folder, also in names."""
    found = {}
    for path in folder.rglob("*"):
        content = os.fsencode(path.name) + (path.read_bytes() if path.is_file() else b"")
        found[path.name] = {needle for needle in NEEDLES if needle in content}
    return {name: needles for name, needles in found.items() if needles}


def secretaries(db: memdb.Database) -> memdb.KeyedCollection[Secretary]:
    """Return the collection, with an index that is saved."""
    index = memdb.SortedIndex("number")
    return db.collection(Secretary, name="secretaries", key="email", indexes=[index])


def fill(db: memdb.Database, start: int = 0) -> None:
    """Write in every way."""
    people = secretaries(db)
    people.insert(Secretary(f"hush{start}@example.org", "hush"))
    people.insert_many(
        [Secretary(f"hush{start + n}@example.org", f"hush {n}") for n in range(1, 40)]
    )
    with db.transaction():
        people.update(f"hush{start}@example.org", field_name="hush hush")
        people.delete(f"hush{start + 1}@example.org")
    assert people.count(memdb.F.number > 5) == len(people)


def test_f2_the_needles_are_found_in_a_plain_file(tmp_path: Path) -> None:
    """What this test looks for would be there without a key."""
    with memdb.open(tmp_path / "a.memdb") as db:
        fill(db)

    assert {"a.memdb": set(NEEDLES)} == texts(tmp_path)


@pytest.mark.parametrize("serializer", ["binary", "json", "msgpack", "pickle"])
def test_f2_no_plaintext_in_any_file(tmp_path: Path, serializer: str) -> None:
    """After inserts, compaction, snapshots, rekey, restore, repair and a kill with a torn tail."""
    path = tmp_path / "a.memdb"
    settings: dict[str, Any] = {"key": KEY, "serializer": serializer}
    with memdb.open(path, **settings) as db:
        fill(db)
        db.checkpoint()
        assert {} == texts(tmp_path)
        db.snapshot(tmp_path / "copy")
        fill(db, 100)
        db.snapshot(tmp_path / "later", base=tmp_path / "copy")
        db.compact(archive=tmp_path / "archive")
        fill(db, 200)
        db.rekey(key=OTHER)
        fill(db, 300)
        db.compact()
        expected = {each.email: each for each in secretaries(db)}
        assert [] == db.check()
    settings["key"] = OTHER
    assert {} == texts(tmp_path)

    file = OSFile(str(path), write=True)
    db = open_on(file, **settings)
    fill(db, 400)
    end = db._engine.log.end
    drop(db)
    with open(path, "r+b") as raw:
        raw.seek(end - 30)
        raw.write(b"torn")
    with memdb.open(path, **settings) as db:
        assert db.recovery is not None and db.recovery.kept_in is not None
        found = {each.email: each for each in secretaries(db)}
        assert [] == db.check()
    assert expected.items() <= found.items()
    assert [] == memdb.check(path, key=OTHER)

    memdb.restore(tmp_path / "archive", to=tmp_path / "restored", key=KEY)
    memdb.repair(path, to=tmp_path / "repaired", key=OTHER)
    for name, key in (("copy", KEY), ("later", KEY), ("restored", KEY), ("repaired", OTHER)):
        with memdb.open(tmp_path / name, "r", key=key, serializer=serializer) as db:
            assert 39 <= len(secretaries(db))
            assert [] == db.check()
        with pytest.raises(memdb.WrongKeyError):
            memdb.open(tmp_path / name, "r")
    assert {} == texts(tmp_path)


def test_f2_no_plaintext_at_any_moment(tmp_path: Path) -> None:
    """Also not in files that are there only for a moment, nor in what a kill leaves."""
    folder = tmp_path / "disk"
    folder.mkdir()
    with Disk(folder) as disk, memdb.open(folder / "a.memdb", key=KEY) as db:
        fill(db)
        db.compact(archive=folder / "archive")
        db.snapshot(folder / "copy")
        db.rekey(password="hush")
        fill(db, 100)
    seen = set()
    for moment in disk.moments:
        for name, content in moment.content().items():
            seen.add(name)
            assert not [needle for needle in NEEDLES if needle in content], (name, moment.call)
    assert {"a.memdb", "archive", "copy"} < seen


# -- with the rest of memdb ------------------------------------------------------------------


def test_compaction_keeps_what_is_encrypted(tmp_path: Path) -> None:
    """Marked records stay marked, plain ones plain; under "all" every record is encrypted."""
    path = tmp_path / "a.memdb"
    with memdb.open(path, key=KEY, encrypt="marked") as db:
        notes = db.collection("notes")
        notes.insert({"text": "hush"}, encrypt=True)
        notes.insert({"text": "open"})
        notes.update(1, n=1)
        db.compact()
        notes.insert({"text": "open"})
        assert [] == db.check()
    data = path.read_bytes()
    assert b"hush" not in data and b"open" in data
    with memdb.open(path, key=KEY) as db:
        notes = db.collection("notes")
        db.compact()
        assert [{"text": "hush", "n": 1, "id": 1}, {"text": "open", "id": 2}] == list(notes)[:2]
        assert [] == db.check()
    assert b"open" not in path.read_bytes()
    with memdb.open(path, key=KEY) as db:
        assert 3 == len(db.collection("notes")) and [] == db.check()


def test_f3_rekey_while_a_compaction_runs(tmp_path: Path) -> None:
    """The file that takes the place of the old one opens by the new key and not by the old."""
    path = tmp_path / "a.memdb"
    with memdb.open(path, key=KEY) as db:
        fill(db)
        calls = []

        def rekey_once(done: int, total: int, unit: str) -> None:
            if not calls:
                calls.append(done)
                db.rekey(key=OTHER)

        db.compact(progress=rekey_once)
        assert calls and [] == db.check()
        fill(db, 100)
    with pytest.raises(memdb.WrongKeyError):
        memdb.open(path, key=KEY)
    with memdb.open(path, key=OTHER) as db:
        assert 78 == len(secretaries(db)) and [] == db.check()


def test_readers_follow_a_writer(tmp_path: Path) -> None:
    """Through commits, new collections, a compaction and another key."""
    path = tmp_path / "a.memdb"
    with memdb.open(path, key=KEY) as db, memdb.open(path, "r", key=KEY) as reader:
        for step in range(4):
            fill(db, 100 * step)
            db.collection(f"hush {step}").insert({"n": step})
            if step == 2:
                db.rekey(key=OTHER)
                db.compact()
            assert reader.refresh()
            assert {each.email for each in secretaries(db)} == set(secretaries(reader).ids())
            assert [{"n": step, "id": 1}] == list(reader.collection(f"hush {step}"))
            assert [] == reader.check()


def test_views_of_an_encrypted_database(tmp_path: Path) -> None:
    """A view stays at its commit, over an encrypted file too."""
    with memdb.open(tmp_path / "a.memdb", key=KEY) as db:
        fill(db)
        with db.view() as view:
            before = {each.email for each in secretaries(db)}
            fill(db, 100)
            people = view.collection("secretaries")
            assert before == {each.email for each in people}


def _write_until_killed(connection: Connection, path: str, durability: Any, seed: int) -> None:
    chance = random.Random(seed)
    with memdb.open(path, key=KEY, durability=durability) as db:
        notes = db.collection("notes")
        while True:
            count = chance.choice((1, 1, 1, 7))
            if count == 1:
                notes.insert({"text": "hush", "n": chance.random()})
            else:
                notes.insert_many([{"text": "hush", "n": chance.random()} for _ in range(count)])
            if durability == "buffered":
                db.flush()
            connection.send(len(notes))


@pytest.mark.parametrize("durability", ["buffered", "written", "synced"])
def test_killed_writers_lose_nothing(tmp_path: Path, durability: str) -> None:
    """All that was acknowledged is there after each kill, and no plaintext is."""
    path = tmp_path / "a.memdb"
    acknowledged = 0
    for seed in range(5):
        with Child(_write_until_killed, str(path), durability, seed) as child:
            for _ in range(3 + 10 * seed):
                acknowledged = child.receive()
            os.kill(child.pid, signal.SIGKILL)
        with memdb.open(path, key=KEY) as db:
            found = len(db.collection("notes"))
            assert found >= acknowledged
            assert [] == db.check()
            assert {"hush"} == {note["text"] for note in db.collection("notes")}
        acknowledged = found
    assert {} == texts(tmp_path)


def test_a_snapshot_that_is_extended_after_rekey(tmp_path: Path) -> None:
    """It opens by the new key then, at any moment by one of the two."""
    path, copy = tmp_path / "a.memdb", tmp_path / "copies" / "b.memdb"
    copy.parent.mkdir()
    with memdb.open(path, key=KEY) as db:
        fill(db)
        db.snapshot(copy)
        db.rekey(key=OTHER)
        fill(db, 100)
        with Disk(copy.parent) as disk:
            db.snapshot(copy, base=copy)
    chance, left = random.Random(1), tmp_path / "left.memdb"
    for moment in disk.moments:
        for content in (moment.content(), moment.after_power_loss(chance)):
            left.write_bytes(content["b.memdb"])
            found = []
            for key in (KEY, OTHER):
                try:
                    with memdb.open(left, "r", key=key) as db:
                        found.append(len(secretaries(db)))
                except memdb.WrongKeyError:
                    continue
            assert found and set(found) <= set(range(39, 79))
    with pytest.raises(memdb.WrongKeyError):
        memdb.open(copy, "r", key=KEY)
    with memdb.open(copy, "r", key=OTHER) as db:
        assert 78 == len(secretaries(db)) and [] == db.check()
