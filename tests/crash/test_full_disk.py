"""A full disk is an error at the call and nothing else (A7)."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import memdb
from tests.crash import children
from tests.crash.children import Account, collections, state_of
from tests.support.faulty import FaultyFile, drop, open_on
from tests.support.processes import Child

MODES = ("buffered", "written", "synced")


@pytest.mark.parametrize("durability", MODES)
@pytest.mark.parametrize("end", ["close", "kill"])
def test_a7_file_size_limit(tmp_path: Path, durability: str, end: str) -> None:
    """At RLIMIT_FSIZE the failed insert is nowhere, all others are there, and it goes on."""
    path = tmp_path / "a.memdb"
    arguments = (str(path), durability, 1_200_000, 3)
    with Child(children.fill_until_limit, *arguments) as child:
        acknowledged, failures, findings = child.receive()
        child.send(end)
        if end == "close":
            assert child.receive() == "closed"
            assert child.wait() == 0
        else:
            child.kill()
    with memdb.open(path) as db:
        found = {account.id: account.cents for account in collections(db)["Account"]}
        later = db.check()

    assert [("WriteError", errno.EFBIG)] * 3 == [failure[:2] for failure in failures]
    assert all(str(path) in message for *_, message in failures)
    # In memory the failed record is not there either.
    assert [failure[2] for failure in failures] == sorted({failure[2] for failure in failures})
    assert [] == findings == later
    if durability == "buffered" and end == "kill":
        assert found == {number + 1: number for number in range(len(found))}
    else:
        assert {identity: identity - 1 for identity in acknowledged} == found


def test_a7_no_room_to_make_a_database(tmp_path: Path) -> None:
    """Where there is no room for an empty database, the error says so and no file is left."""
    path = tmp_path / "a.memdb"
    with Child(children.open_at_limit, str(path), 5000) as child:
        answer = child.receive()

    assert ("WriteError", True) == answer
    assert not path.exists()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of two mebibytes."""
    where = tmp_path / "disk"
    where.mkdir()
    mount = shutil.which("mount")
    if mount is None or os.geteuid() != 0:
        pytest.skip("only root may mount a small file system")
    made = subprocess.run(
        [mount, "-t", "tmpfs", "-o", "size=2m", "memdb-test", str(where)],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        pytest.skip(f"mounting is not allowed here: {made.stderr.strip()}")
    try:
        yield where
    finally:
        subprocess.run(["umount", str(where)], check=True)


@pytest.mark.parametrize("durability", MODES)
def test_a7_full_file_system(small_disk: Path, durability: str) -> None:
    """On a full file system the failed insert is nowhere; with room made, writing goes on."""
    path, ballast = small_disk / "a.memdb", small_disk / "ballast"
    ballast.write_bytes(bytes(500_000))
    db = memdb.open(path, durability=durability, flush_interval=0.01)
    own = collections(db)["Account"]
    acknowledged = 0
    for made in ("room", "none"):
        with pytest.raises(memdb.WriteError) as caught:
            while True:
                own.insert(Account("x" * 3000, acknowledged))
                acknowledged += 1
        assert errno.ENOSPC == caught.value.errno
        assert acknowledged == len(own) == max(own.ids())
        # What is smaller than the rest of the room still fits, or is refused; never half.
        try:
            own.insert_many([Account("x" * 1000, acknowledged + each) for each in range(5)])
        except memdb.WriteError:
            assert acknowledged == len(own)
        else:
            acknowledged += 5
        if made == "room":
            ballast.unlink()
    assert db.check() == []
    db.close()
    with memdb.open(path) as db:
        found = [account.cents for account in collections(db)["Account"]]
        recovery, findings = db.recovery, db.check()

    assert (list(range(acknowledged)), None, []) == (found, recovery, findings)


def test_b6_read_only_file_system(small_disk: Path) -> None:
    """On a file system that is read-only reading works; writing says so, and what to do."""
    path = small_disk / "a.memdb"
    with memdb.open(path) as db:
        collections(db)["Account"].insert(Account("a", 1))
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    for mode in ("rw", "append"):
        with pytest.raises(memdb.FilePermissionError) as caught:
            memdb.open(path, mode)  # type: ignore[arg-type]
        assert errno.EROFS == caught.value.errno
        assert str(path) in str(caught.value) and 'mode="r"' in str(caught.value)
    with pytest.raises(memdb.FilePermissionError):
        memdb.open(small_disk / "new.memdb")
    with memdb.open(path, "r") as db:
        found, findings = len(collections(db)["Account"]), db.check()
        health = db.health()

    assert (1, [], True) == (found, findings, health.is_well)
    assert [path] == list(small_disk.iterdir())


@pytest.mark.parametrize("durability", MODES)
def test_a7_every_kind_of_write_is_refused_whole(tmp_path: Path, durability: str) -> None:
    """With no room left each kind of change raises WriteError and changes nothing."""
    path = tmp_path / "a.memdb"
    file = FaultyFile(path)
    db = open_on(file, durability=durability)
    own = collections(db)
    own["Account"].insert_many([Account("a" * 100, number) for number in range(100)])
    file.fail("reserve", 1, errno.ENOSPC, for_ever=True)
    big = "x" * 20_000

    def transact() -> None:
        with db.transaction():
            own["Account"].update(1, cents=-1)
            own["notes"].insert({"text": big})

    def edit() -> None:
        with own["Account"].edit(3) as account:
            account.tags.append(big)

    expected = state_of(db)
    for write in (
        lambda: own["Account"].insert(Account(big, 0)),
        lambda: own["Account"].insert_many([Account(big, 0), Account("b", 0)]),
        lambda: own["Account"].update(2, owner=big),
        lambda: own["Account"].put(Account(big, 0, id=4)),
        lambda: own["Account"].put(Account(big, 0, id=4000)),
        lambda: own["notes"].insert({"text": big}),
        transact,
        edit,
    ):
        with pytest.raises(memdb.WriteError) as caught:
            write()
        assert errno.ENOSPC == caught.value.errno
        assert expected == state_of(db)
        assert own["Account"].get(4000) is None
    file.heal()
    own["notes"].insert({"text": big})
    expected = state_of(db)
    db.close()
    with memdb.open(path) as db:
        found, findings = state_of(db), db.check()

    assert (expected, []) == (found, findings)


def test_a7_deleting_and_clearing_need_room_too(tmp_path: Path) -> None:
    """A deletion that finds no room is refused and the record stays."""
    file = FaultyFile(tmp_path / "a.memdb")
    db = open_on(file)
    own = collections(db)["Account"]
    own.insert_many([Account("a", number) for number in range(1000)])
    file.fail("reserve", 1, errno.ENOSPC, for_ever=True)
    deleted = []
    with pytest.raises(memdb.WriteError):
        for identity in own.ids():
            own.delete(identity)
            deleted.append(identity)
    with pytest.raises(memdb.WriteError):
        own.clear()
    found = own.ids()
    file.heal()
    db.close()

    assert [each for each in range(1, 1001) if each not in deleted] == found


class HalfWriting(FaultyFile):
    """Writes only a half of what is large, and says so."""

    is_full = False

    def write(self, offset: int, data: bytes | memoryview) -> None:
        """As `OSFile` for what is small; nothing large is written to the end."""
        if self.is_full and len(data) > 100_000:
            super().write(offset, memoryview(data)[: len(data) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super().write(offset, data)


@pytest.mark.parametrize("durability", MODES)
@pytest.mark.parametrize("end", ["close", "kill"])
def test_a7_large_commit_that_fails_half_way(tmp_path: Path, durability: str, end: str) -> None:
    """Of a large commit whose write fails half-way nothing is there, and writing goes on."""
    path = tmp_path / "a.memdb"
    file = HalfWriting(path)
    db = open_on(file, durability=durability)
    own = collections(db)["Account"]
    own.insert(Account("a", 1))
    records = [Account("x" * 1000, number) for number in range(1000)]
    file.is_full = True
    try:
        own.insert_many(records)
    except memdb.WriteError as error:
        assert error.errno == errno.ENOSPC
        assert own.ids() == [1]
    file.is_full = False
    own.insert(Account("b", 2))
    own.insert_many(records[:600])
    db.flush()
    own.update(1, cents=7)
    expected = state_of(db)
    assert db.check() == []
    if end == "close":
        db.close()
    else:
        if durability == "buffered":
            db.flush()
        drop(db)
    with memdb.open(path) as db:
        found, findings = state_of(db), db.check()
        is_clean = db.recovery is None

    assert (expected, [], end == "close") == (found, findings, is_clean)
