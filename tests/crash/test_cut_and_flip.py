"""Small files cut at every length and with every bit flipped: right data or an error (A8)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

import memdb
from memdb.storage import (
    Log,
    MemoryFile,
    OSFile,
    empty_pointers,
)
from tests.crash.children import Account, collections, state_of
from tests.support import reader
from tests.support.faulty import FaultyFile, drop, open_on

MODES: tuple[Literal["rw", "r"], ...] = ("rw", "r")
Version = tuple[Any, ...]


def write(db: memdb.Database) -> None:
    """Make commits of all kinds, with a checkpoint between."""
    own = collections(db)
    own["Account"].insert(Account("a", 1, ["t"]))
    with db.transaction():
        own["Account"].insert(Account("b", 2))
        own["notes"].insert({"text": "n", "list": [1, None, "x" * 30]})
    db.checkpoint()
    own["Account"].update(1, cents=5)
    own["notes"].delete(1)
    own["Account"].insert_many([Account("c", 3), Account("d", 4)])
    own["notes"].insert({"text": "last"})


def make(path: Path, kind: str) -> bytes:
    """Return the bytes of a small file that was closed, or whose writer was killed."""
    db = open_on(FaultyFile(path), serializer="json")
    write(db)
    if kind == "closed":
        db.close()
        return path.read_bytes()
    drop(db)
    # The reserved space is only shortened: it is zeros, and each costs sixteen openings here.
    data = path.read_bytes()
    path.write_bytes(data[: len(data.rstrip(b"\0")) + 600])
    return path.read_bytes()


def used(data: bytes) -> Iterator[int]:
    """Yield the offsets that hold anything, and some of each stretch of zeros."""
    ranges = [range(0, 80), range(4096, 4240), range(8192, 8336)]
    ranges.append(range(12288, len(data.rstrip(b"\0")) + 16))
    for each in ranges:
        yield from (offset for offset in each if offset < len(data))
    yield from (2048, 2060, 2303, 3000, 4095, 12287)
    yield from range(len(data.rstrip(b"\0")), len(data), 97)


class Outcome:
    """What came of opening some bytes."""

    def __init__(self, data: bytes, mode: Literal["rw", "r"], *, write: bool = True) -> None:
        self.error: memdb.MemdbError | None = None
        self.versions: list[Version | None] = []
        file = MemoryFile()
        file.write(0, data)
        try:
            log = Log(file, mode=mode)
        except memdb.MemdbError as error:
            self.error = error
            self.is_unchanged = file.read(0, file.length()) == data
            return
        self.recovery = log.recovery
        for slot in range(1, log.next_slot):
            try:
                version = log.read(slot)
            except memdb.DamageError:
                self.versions.append(None)
            else:
                self.versions.append((*version, log.time_of(slot) // 1_000_000))
        self.is_unchanged = mode == "rw" or file.read(0, file.length()) == data
        if mode == "rw" and write:
            pointers = empty_pointers(1)
            pointers["identity"] = 7
            pointers[["collection", "writer", "kind"]] = 1, 1, 1
            with log.lock:
                slot = log.append_batch(pointers, [b"later"])
            assert log.read(slot)[3] == b"later"
            log.close()


def judge(whole: list[Version | None], outcome: Outcome, *, may_lose_tail: bool) -> str:
    """Return what is wrong with an outcome, nothing if it is legal."""
    if outcome.error is not None:
        return "" if outcome.is_unchanged else "an error, but the file was changed"
    found = outcome.versions
    if not outcome.is_unchanged:
        return "a reader changed the file"
    for right, got in zip(whole, found, strict=False):
        if got is not None and got != right:
            return f"wrong data: {got} instead of {right}"
    if len(found) > len(whole):
        return "more than there was"
    if len(found) < len(whole):
        if not may_lose_tail:
            return f"{len(whole) - len(found)} versions silently lost"
        if outcome.recovery is None:
            return "a prefix without a report"
    return ""


def flip(data: bytes, offset: int, bit: int) -> bytes:
    """Return the bytes with one bit flipped."""
    changed = bytearray(data)
    changed[offset] ^= 1 << bit
    return bytes(changed)


def check_flips(data: bytes, kind: str, mode: Literal["rw", "r"], bits: Any, offsets: Any) -> None:
    """Flip bits and demand a legal outcome of each."""
    whole = Outcome(data, "r").versions
    wrong = {}
    for offset in offsets:
        for bit in bits(offset):
            outcome = Outcome(flip(data, offset, bit), mode, write=offset % 64 == 8 * bit)
            verdict = judge(whole, outcome, may_lose_tail=kind == "killed")
            if not verdict and len(outcome.versions) < len(whole) and outcome.error is None:
                assert outcome.recovery is not None
                verdict = "" if outcome.recovery.cut_bytes else "a cut that is not reported"
            if verdict:
                wrong[offset, bit] = verdict

    assert {} == wrong


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["closed", "killed"])
def test_a8_one_flipped_bit_of_each_byte(
    tmp_path: Path, kind: str, mode: Literal["rw", "r"]
) -> None:
    """A flipped bit gives the right data, a reported prefix, or memdb's own error."""
    data = make(tmp_path / "a.memdb", kind)
    chance = random.Random(8)
    check_flips(data, kind, mode, lambda _: (chance.randrange(8),), used(data))


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["closed", "killed"])
def test_a8_every_flipped_bit(tmp_path: Path, kind: str, mode: Literal["rw", "r"]) -> None:
    """Any flipped bit gives the right data, a reported prefix, or memdb's own error."""
    data = make(tmp_path / "a.memdb", kind)
    check_flips(data, kind, mode, lambda _: range(8), range(len(data)))


def check_cuts(data: bytes, kind: str, mode: Literal["rw", "r"], lengths: Any) -> None:
    """Cut at each length and demand a legal outcome of each."""
    whole = Outcome(data, "r").versions
    wrong = {}
    for length in lengths:
        outcome = Outcome(data[:length], mode)
        verdict = judge(whole, outcome, may_lose_tail=kind == "killed")
        if kind == "closed" and outcome.error is None and (mode == "r" or length):
            verdict = "a cut of a closed file opens"
        if verdict and not (mode == "rw" and length == 0):
            wrong[length] = verdict

    assert {} == wrong


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["closed", "killed"])
def test_a8_cut_at_each_length(tmp_path: Path, kind: str, mode: Literal["rw", "r"]) -> None:
    """A file that was cut gives a reported prefix or memdb's own error, at 0 bytes too."""
    data = make(tmp_path / "a.memdb", kind)
    check_cuts(data, kind, mode, sorted(set(used(data))))


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["closed", "killed"])
def test_a8_cut_at_every_length(tmp_path: Path, kind: str, mode: Literal["rw", "r"]) -> None:
    """A file that was cut at any length gives a reported prefix or memdb's own error."""
    data = make(tmp_path / "a.memdb", kind)
    check_cuts(data, kind, mode, range(len(data)))


@pytest.mark.parametrize("kind", ["closed", "killed"])
@pytest.mark.parametrize("mode", MODES)
def test_a8_a_damaged_file_through_the_front_door(
    tmp_path: Path, kind: str, mode: Literal["rw", "r"]
) -> None:
    """Cut and flipped files opened by path give the right records or errors of memdb only."""
    path = tmp_path / "a.memdb"
    data = make(path, kind)
    with memdb.open(path, "r", serializer="json") as db:
        whole = state_of(db)
    chance = random.Random(80)
    offsets = sorted(chance.sample(sorted(set(used(data))), 60))
    for offset in offsets:
        for changed in (flip(data, offset, chance.randrange(8)), data[:offset]):
            path.write_bytes(changed)
            is_cut = len(changed) < len(data)
            try:
                with memdb.open(path, mode, serializer="json") as db:
                    found, recovery = state_of(db), db.recovery
            except memdb.MemdbError as error:
                assert str(path) in str(error)
                assert mode == "rw" or changed == path.read_bytes()
                continue
            assert found == whole or (recovery is not None and kind == "killed"), offset
            assert kind == "killed" or not is_cut or offset == 0
    assert mode == "r" or len(list(tmp_path.iterdir())) >= 1


@pytest.mark.parametrize("mode", MODES)
def test_a8_cut_within_the_padding_of_the_last_block(
    tmp_path: Path, mode: Literal["rw", "r"]
) -> None:
    """A file that was cut anywhere in its last block, behind all of its data too, opens."""
    path = tmp_path / "a.memdb"
    killed = open_on(FaultyFile(path), serializer="json")
    collections(killed)["notes"].insert({"text": "123456"})
    drop(killed)
    data = path.read_bytes()
    last = reader.read_by_walking(data).blocks[-1]
    end = last.offset + 40 + 32 * len(last.pointers) + len(last.payload)
    found = []
    for length in range(end - 1, last.end + 1):
        path.write_bytes(data[:length])
        with memdb.open(path, mode) as db:
            assert db.recovery is not None
            found.append((len(collections(db)["notes"]), db.recovery.cut_bytes > 0))
        for kept in tmp_path.glob("*.torn-*"):
            kept.unlink()

    # There is some padding, or this shows nothing.
    assert 7 == last.end - end
    assert [(0, True)] * (last.end + 1 - end) + [(1, False)] == found


def test_a8_error_says_where_and_what_to_do(tmp_path: Path) -> None:
    """The error for a cut file names the file, the offset, and says how to go on."""
    path = tmp_path / "a.memdb"
    data = make(path, "closed")
    path.write_bytes(data[:-100])
    with pytest.raises(memdb.DamageError) as caught:
        memdb.open(path)

    assert (str(path), len(data) - 100) == (caught.value.path, caught.value.offset)
    assert str(len(data) - 100) in str(caught.value)
    assert "Restore" in str(caught.value)


def test_a8_a_damaged_file_is_unlocked_again(tmp_path: Path) -> None:
    """A refused opening keeps neither lock nor file; once mended it opens in the same process."""
    path = tmp_path / "a.memdb"
    data = make(path, "closed")
    path.write_bytes(data[:-100])
    for mode in MODES:
        with pytest.raises(memdb.DamageError):
            memdb.open(path, mode)
    OSFile(str(path), write=True).write(0, data)
    with memdb.open(path) as db:
        assert db.check() == []
