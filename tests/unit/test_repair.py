"""Checking, repairing and removing files that nobody has open."""

from __future__ import annotations

import os
import random
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import memdb
from memdb.storage._blocks import checksum64
from tests.support import reader

KEY = bytes(range(32))


def made(path: Path, **settings: Any) -> dict[str, dict[Any, Any]]:
    """Make a file with single commits, a large one, deletions, checkpoints; return its records."""
    with memdb.open(path, **settings) as db:
        notes, users = db.collection("notes"), db.collection("users", key="name")
        for number in range(12):
            notes.insert({"a": number, "text": "x" * number})
        users.insert({"name": "eve", "age": 1})
        notes.delete(3)
        notes.update(5, a=55)
        notes.insert_many([{"a": number} for number in range(20)])
        db.checkpoint()
        users.put({"name": "eve", "age": 2})
        notes.delete(7)
        notes.update(1, a="new")
        notes.insert({"last": True})
    with memdb.open(path, "r", **settings) as db:
        return records(db)


def records(db: memdb.Database) -> dict[str, dict[Any, Any]]:
    """Return what a database holds."""
    notes, users = db.collection("notes"), db.collection("users", key="name")
    return {"notes": dict(notes.items()), "users": dict(users.items())}


def flipped(data: bytes, offset: int, bit: int = 1) -> bytes:
    """Return the bytes with one bit turned over."""
    return data[:offset] + bytes([data[offset] ^ bit]) + data[offset + 1 :]


def padding_of(data: bytes) -> set[int]:
    """Return the offsets that say nothing: between the end of a block and the next one."""
    contents = reader.read_by_walking(data)
    found: set[int] = set()
    for block in contents.blocks:
        size = 40 + 32 * len(block.pointers) + len(block.payload)
        found |= set(range(block.offset + size, block.end))
    return found


# -- check -----------------------------------------------------------------------------------


def test_check_says_nothing_of_whole_files(tmp_path: Path) -> None:
    """Files that were closed, left by a killed process, empty ones, and compacted ones."""
    closed, killed, empty = tmp_path / "closed", tmp_path / "killed", tmp_path / "empty"
    made(closed)
    memdb.open(empty).close()
    with memdb.open(killed) as db:
        db.collection("notes").insert_many([{"a": 1}] * 3)
        (tmp_path / "copy").write_bytes(killed.read_bytes())
        db.compact()
    torn = (tmp_path / "copy").read_bytes()
    end = len(torn.rstrip(b"\0"))
    (tmp_path / "torn").write_bytes(torn[: end - 3] + bytes(100))
    for name in ("closed", "killed", "empty", "copy", "torn"):
        assert [] == memdb.check(tmp_path / name), name


def test_check_finds_each_flipped_bit(tmp_path: Path) -> None:
    """Whatever byte of a file that means something is wrong, it is found."""
    path = tmp_path / "a.memdb"
    made(path)
    data = path.read_bytes()
    silent = padding_of(data) | set(range(2048, 2304))
    chance = random.Random(1)
    missed = []
    offsets = [*range(0, 600), *range(4000, 4400), *range(8100, 8500), *range(12288, len(data), 7)]
    for offset in offsets:
        if offset in silent:
            continue
        path.write_bytes(flipped(data, offset, 1 << chance.randrange(8)))
        try:
            if not memdb.check(path):
                missed.append(offset)
        except (memdb.NotADatabaseError, memdb.UnsupportedFormatError, memdb.WrongKeyError):
            assert offset < 64
    path.write_bytes(data[:-30])

    assert [] == missed
    assert [len(data) - 30] == [each.offset for each in memdb.check(path)][-1:]


def spoilt(name: str) -> Callable[[bytearray], None]:
    """Return a change under right checksums that breaks one invariant of the format."""

    def change(data: bytearray) -> None:
        file_id = int.from_bytes(data[16:24], "little")
        contents = reader.read_by_walking(bytes(data))
        root = contents.root.offset
        if name == "header":
            data[33] = 1
            data[56:64] = checksum64(bytes(data[:56]))
        elif name == "page":
            data[1000] = 1
        elif name == "root page":
            data[root + 500] = 1
        elif name == "behind":
            data += b"stray"
        elif name in ("log end", "checkpoint", "catalogue", "sequence", "timestamp"):
            at = {"log end": 24, "checkpoint": 32, "catalogue": 40, "sequence": 48, "timestamp": 56}
            offset = root + at[name]
            value = struct.unpack_from("<Q", data, offset)[0]
            struct.pack_into("<Q", data, offset, value - 8)
            data[root : root + 8] = checksum64(bytes(data[root + 8 : root + 128]), file_id)
        else:
            block = next(
                each
                for each in contents.blocks
                if each.kind == ("P" if "checkpoint" in name else "C")
            )
            payload = block.offset + 40 + 32 * len(block.pointers)
            tables = struct.unpack_from("<QQ", data, payload + 24)
            places = {
                "reserved": block.offset + 40 + 30,
                "flags": block.offset + 40 + 29,
                "checkpoint pointers": block.offset + 40 + 29,
                "checkpoint first slot": payload + 16,
                "checkpoint previous": payload + 8,
                "checkpoint identities": payload + 48 + 16 * sum(tables[:2]) + 8,
                "checkpoint times": payload + 48 + 16 + 8 + 4,
            }
            data[places[name]] = 0 if "identities" in name else data[places[name]] ^ 4
            end = payload
            data[block.offset : block.offset + 8] = checksum64(
                bytes(data[block.offset + 8 : end]), file_id
            )
            if block.kind == "P":
                stop = payload + len(block.payload)
                data[payload : payload + 8] = checksum64(bytes(data[payload + 8 : stop]), file_id)

    return change


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("header", "reserved bytes that can't be"),
        ("page", "has bytes where there are none"),
        ("root page", "has bytes where there are none"),
        ("behind", "5 bytes follow the end of a log that was closed"),
        ("log end", "where no block ends"),
        ("checkpoint", "of the checkpoint"),
        ("catalogue", "of the catalogue"),
        ("sequence", "of the sequence"),
        ("timestamp", "of the timestamp"),
        ("reserved", "reserved bytes that mean nothing"),
        ("flags", "reserved bytes that mean nothing"),
        ("checkpoint pointers", "has other pointers than the commit"),
        ("checkpoint first slot", "the checkpoint starts at slot"),
        ("checkpoint previous", "which is no checkpoint"),
        ("checkpoint identities", "is the highest identity of collection"),
        ("checkpoint times", "has another time for slot"),
    ],
)
def test_check_knows_the_invariants(tmp_path: Path, name: str, message: str) -> None:
    """What contradicts the format under right checksums is found too."""
    path = tmp_path / "a.memdb"
    made(path)
    data = bytearray(path.read_bytes())
    spoilt(name)(data)
    path.write_bytes(data)
    messages = [finding.message for finding in memdb.check(path)]

    assert any(message in each for each in messages), messages


def test_check_lists_all_in_the_order_of_the_file(tmp_path: Path) -> None:
    """Several damages, in the header and behind each other, are all listed with their offsets."""
    path = tmp_path / "a.memdb"
    made(path)
    data = path.read_bytes()
    blocks = reader.read_by_walking(data).blocks
    places = [3, 4096 + 30, blocks[2].offset + 20, blocks[6].offset + 74, blocks[-1].offset + 9]
    for place in places[1:]:
        data = flipped(data, place)
    path.write_bytes(flipped(data, 25))
    offsets = [finding.offset for finding in memdb.check(path)]

    assert sorted(offsets) == offsets
    assert {0, 4096, blocks[2].offset, blocks[-1].offset} <= set(offsets)
    assert any(blocks[6].offset <= offset < blocks[6].end for offset in offsets)


def test_check_of_what_is_no_database(tmp_path: Path) -> None:
    """Missing, empty, foreign, encrypted without its key, newer."""
    path = tmp_path / "a.memdb"
    with pytest.raises(memdb.FileMissingError):
        memdb.check(path)
    path.write_bytes(b"")
    with pytest.raises(memdb.NotADatabaseError):
        memdb.check(path)
    path.write_bytes(b"something else" * 2000)
    with pytest.raises(memdb.NotADatabaseError):
        memdb.check(path)
    path.unlink()
    made(path, key=KEY)
    with pytest.raises(memdb.WrongKeyError):
        memdb.check(path)
    assert [] == memdb.check(path, key=KEY)
    data = bytearray(path.read_bytes())
    data[8] = 9
    data[56:64] = checksum64(bytes(data[:56]))
    path.write_bytes(data)
    with pytest.raises(memdb.UnsupportedFormatError):
        memdb.check(path)


# -- repair ----------------------------------------------------------------------------------


@pytest.mark.parametrize("key", [None, KEY])
def test_a_whole_file_is_repaired_without_loss(tmp_path: Path, key: bytes | None) -> None:
    """Nothing is lost, the history is there, and identities go on."""
    settings: Any = {} if key is None else {"key": key}
    path, to = tmp_path / "a.memdb", tmp_path / "b.memdb"
    expected = made(path, **settings)
    before = path.read_bytes()
    told: list[Any] = []
    result = memdb.repair(path, to=to, progress=lambda *each: told.append(each), **settings)
    with memdb.open(path, "r", **settings) as db:
        history = db.collection("notes").history(5)
    with memdb.open(to, **settings) as db:
        found, findings = records(db), db.check()
        found_history = db.collection("notes").history(5)
        new = db.collection("notes").insert({})

    assert (expected, [], history, 34) == (found, findings, found_history, new)
    assert (True, 32, before) == (result.is_complete, result.records, path.read_bytes())
    assert told[-1][0] == told[-1][1] == 2 * len(before)
    assert [] == memdb.check(to, **settings)


@pytest.mark.parametrize("key", [None, KEY])
def test_a9_whatever_byte_is_damaged_all_else_is_salvaged(
    tmp_path: Path, key: bytes | None
) -> None:
    """At most the record that the byte is in is lost or older, and then the loss is listed."""
    settings: Any = {} if key is None else {"key": key}
    path, to = tmp_path / "a.memdb", tmp_path / "b.memdb"
    expected = made(path, **settings)
    data = path.read_bytes()
    chance = random.Random(2)
    step = 17 if key is None else 61
    offsets = [*range(0, 80, 7), *range(4096, 4300, 23), *range(12288, len(data), step)]
    outcomes = []
    for offset in offsets:
        path.write_bytes(flipped(data, offset, 1 << chance.randrange(8)))
        try:
            result = memdb.repair(path, to=to, **settings)
        except memdb.WrongKeyError:
            assert 8 <= offset < 12  # Whether it is encrypted is what was damaged.
            continue
        with memdb.open(to, **settings) as db:
            found, findings = records(db), db.check()
        to.unlink()
        different = [
            (name, identity)
            for name, each in expected.items()
            for identity in each.keys() | found[name].keys()
            if each.get(identity) != found[name].get(identity)
        ]
        assert [] == findings
        assert len(different) <= 1, offset
        assert result.losses or not different, offset
        for name, identity in different:
            known = None if name == "users" else identity
            named = {(loss.collection, loss.identity) for loss in result.losses}
            assert (name, known) in named, (offset, result)
        outcomes.append(bool(different))

    assert 10 < sum(outcomes) < len(outcomes) / 2


def test_what_is_lost_is_told(tmp_path: Path) -> None:
    """A record that is gone, one of which an older version is kept, and unknown blocks."""
    path = tmp_path / "a.memdb"
    with memdb.open(path) as db:
        notes = db.collection("notes")
        notes.insert_many([{"text": f"number {number}"} for number in range(5)])
        notes.update(2, text="newer two")
        db.checkpoint()
        notes.insert({"text": "behind the checkpoint"})
        notes.insert({"text": "at the end"})
        db.flush()
        # As a kill leaves it: without the checkpoint of the closing.
        data = path.read_bytes()
    for text in (b"number 3", b"newer two"):
        data = flipped(data, data.index(text))
    data = flipped(data, data.index(b"behind the") - 40)
    path.write_bytes(data)
    result = memdb.repair(path, to=tmp_path / "b.memdb")
    with memdb.open(result.path) as db:
        found = {identity: each["text"] for identity, each in db.collection("notes").items()}
        new = db.collection("notes").insert({})
    losses = [(loss.collection, loss.identity, loss.message) for loss in result.losses]

    assert {1: "number 0", 2: "number 1", 3: "number 2", 5: "number 4", 7: "at the end"} == found
    assert (8, False) == (new, result.is_complete)
    assert [
        ("notes", 4, "a version of notes 4: its bytes are damaged"),
        ("notes", 2, "a version of notes 2: its bytes are damaged, an older one is kept"),
        (None, None, "damaged blocks, and the versions in them, whose number is not known"),
    ] == losses
    assert all(loss.offset > 12288 and loss.bytes > 0 for loss in result.losses)


def test_one_damaged_byte_costs_no_catalogue(tmp_path: Path) -> None:
    """The only block that says what all others mean is mended, whatever byte of it is wrong."""
    path = tmp_path / "a.memdb"
    with memdb.open(path) as db:
        db.collection("notes").insert({"a": 1})
    data = path.read_bytes()
    block = reader.read_by_walking(data).blocks[0]
    assert "K" == block.kind
    for offset in range(block.offset, block.offset + 40 + len(block.payload)):
        path.write_bytes(flipped(data, offset, 64))
        result = memdb.repair(path, to=tmp_path / f"{offset}.memdb")
        with memdb.open(result.path) as db:
            assert {"a": 1, "id": 1} == db.collection("notes")[1], offset


def test_a_cut_file_is_salvaged_up_to_there(tmp_path: Path) -> None:
    """Of a file that was cut anywhere, all whole commits before are in the new one."""
    path, to = tmp_path / "a.memdb", tmp_path / "b.memdb"
    made(path)
    data = path.read_bytes()
    versions = [0]
    for size in range(12289, len(data), 97):
        path.write_bytes(data[:size])
        try:
            versions.append(memdb.repair(path, to=to).versions)
        except memdb.DamageError:
            assert versions == [0]  # Not even the catalogue is whole.
            continue
        with memdb.open(to) as db:
            assert [] == db.check()
        to.unlink()

    assert sorted(versions) == versions
    assert versions[-1] >= 36


def test_garbage_in_the_middle(tmp_path: Path) -> None:
    """Whole pages of other bytes cost the records in them, and nothing else."""
    path = tmp_path / "a.memdb"
    with memdb.open(path) as db:
        notes = db.collection("notes")
        for number in range(400):
            notes.insert({"number": number})
    data = path.read_bytes()
    path.write_bytes(data[:20480] + os.urandom(4096) + data[24576:])
    result = memdb.repair(path, to=tmp_path / "b.memdb")
    with memdb.open(result.path) as db:
        found = {identity: each["number"] for identity, each in db.collection("notes").items()}
    lost = {loss.identity for loss in result.losses if loss.identity is not None}

    assert {number: number - 1 for number in range(1, 401) if number not in lost} == found
    assert 30 < len(lost) < 70


def test_what_can_not_be_repaired(tmp_path: Path) -> None:
    """Foreign and empty files, those without any catalogue or id, and paths that are taken."""
    path, to = tmp_path / "a.memdb", tmp_path / "b.memdb"
    made(path)
    data = path.read_bytes()
    catalogue = next(b for b in reader.read_by_walking(data).blocks if b.kind == "K")
    with pytest.raises(memdb.FileTakenError):
        memdb.repair(path, to=path)
    to.write_bytes(b"mine")
    with pytest.raises(memdb.FileTakenError):
        memdb.repair(path, to=to)
    to.unlink()
    with memdb.open(path) as db:
        for _ in range(3):
            db.collection("notes").insert({})
    blind = data
    for block in reader.read_by_walking(data).blocks:
        if block.kind == "K":
            blind = flipped(flipped(blind, block.offset + 60), block.offset + 70)
    for content, error in (
        (b"", memdb.NotADatabaseError),
        (b"other" * 9000, memdb.DamageError),
        (blind, memdb.DamageError),
        (data[:16] + os.urandom(8) + data[24:], memdb.DamageError),
    ):
        path.write_bytes(content)
        with pytest.raises(error):
            memdb.repair(path, to=to)
        assert ["a.memdb"] == os.listdir(tmp_path)
    assert catalogue.offset == 12288


# -- destroy ---------------------------------------------------------------------------------


def test_a_database_goes_with_its_side_files(tmp_path: Path) -> None:
    """Torn tails and unfinished files go, others stay; a link goes with what it leads to."""
    path, link = tmp_path / "a.memdb", tmp_path / "link"
    made(path)
    link.symlink_to(path)
    beside = ["torn-12288", "torn-12288-1", "partial"]
    others = ["b.memdb", "a.memdb.bak", "a.memdb.torn-x", "aXmemdb.torn-1"]
    for ending in beside:
        (tmp_path / f"a.memdb.{ending}").write_bytes(b"")
    for name in others:
        (tmp_path / name).write_bytes(b"")
    with memdb.open(path), pytest.raises(memdb.LockedError):
        memdb.destroy(link)
    beside.append("compacting")
    (tmp_path / "a.memdb.compacting").write_bytes(b"")
    removed = memdb.destroy(link)

    assert set(others) == set(os.listdir(tmp_path))
    assert {"a.memdb", "link", *(f"a.memdb.{ending}" for ending in beside)} == {
        os.path.basename(each) for each in removed
    }


def test_nothing_else_is_destroyed(tmp_path: Path) -> None:
    """A foreign file, a folder, and what is not there."""
    path = tmp_path / "mine"
    path.write_bytes(b"mine")
    with pytest.raises(memdb.NotADatabaseError):
        memdb.destroy(path)
    with pytest.raises(memdb.OpenError):
        memdb.destroy(tmp_path)
    with pytest.raises(memdb.FileMissingError):
        memdb.destroy(tmp_path / "no")

    assert ["mine"] == os.listdir(tmp_path)


@pytest.fixture
def damaged(tmp_path: Path) -> Iterator[Path]:
    """A file that can't be opened."""
    path = tmp_path / "a.memdb"
    made(path)
    data = path.read_bytes()
    path.write_bytes(flipped(flipped(data, 4100), 8200))
    with pytest.raises(memdb.DamageError):
        memdb.open(path)
    yield path


def test_a_damaged_database_can_be_destroyed(damaged: Path) -> None:
    """It need not be one that opens."""
    memdb.destroy(damaged)

    assert not damaged.exists()


@pytest.mark.parametrize("settings", [{}, {"key": KEY}], ids=["plain", "encrypted"])
def test_times_of_what_a_checkpoint_tells_of(tmp_path: Path, settings: dict[str, Any]) -> None:
    """A first commit that only its checkpoint knows of keeps its time, and the file is whole."""
    path, mended = tmp_path / "a", tmp_path / "b"
    with memdb.open(path, **settings) as db:
        notes = db.collection("notes")
        notes.insert({"a": 1})
        time.sleep(0.01)
        notes.insert({"a": 2})
        expected = [version.time for each in (1, 2) for version in notes.history(each)]
    data = path.read_bytes()
    first = next(
        block
        for block in reader.read_by_walking(data, settings.get("key")).blocks
        if block.kind == "C"
    )
    path.write_bytes(flipped(data, first.offset + 44))
    memdb.repair(path, to=mended, **settings)
    with memdb.open(mended, **settings) as db:
        notes = db.collection("notes")
        found = [version.time for each in (1, 2) for version in notes.history(each)]
        findings = db.check()

    assert ([], expected) == (findings, found)
