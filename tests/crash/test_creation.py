"""A crash while a file is made locks nobody out (A10)."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import memdb
from memdb.storage import _file
from tests.crash.children import Account, collections
from tests.support.disk import Content, Disk
from tests.support.faulty import FaultyFile, open_on


def opens_as_empty(path: Path, content: Content, *, is_rebooted: bool = False) -> bool:
    """Whether these files open for writing as an empty database that works."""
    for left in path.parent.iterdir():
        left.unlink()
    for name, data in content.items():
        (path.parent / name).write_bytes(data)
    with pytest.MonkeyPatch.context() as patch:
        if is_rebooted:
            patch.setattr(_file, "boot_id", lambda: bytes(range(16)))
        with memdb.open(path) as db:
            assert db.collections() == []
            assert collections(db)["Account"].insert(Account("a", 1)) == 1
    with memdb.open(path) as db:
        return len(collections(db)["Account"]) == 1 and db.check() == []


def test_a10_stopped_at_each_step_of_creation(tmp_path: Path) -> None:
    """Killed or without power at any call of the creation: the file opens as an empty one."""
    folder, left = tmp_path / "disk", tmp_path / "left"
    folder.mkdir()
    left.mkdir()
    with Disk(folder) as disk:
        memdb.open(folder / "a.memdb").close()
    chance = random.Random(10)
    path, before = left / "a.memdb", disk.moments[0]
    for moment in disk.moments:
        assert opens_as_empty(path, moment.content())
        assert opens_as_empty(path, moment.torn(before, chance))
        for _ in range(10):
            left_over = moment.after_power_loss(chance)
            assert opens_as_empty(path, left_over, is_rebooted=True)
        before = moment

    assert len(disk.moments) > 8


@pytest.mark.parametrize("size", [0, 1, 4096, 8192, 12288])
def test_a10_unfinished_file_is_made_anew_by_a_writer(tmp_path: Path, size: int) -> None:
    """A file of zeros, as a crash in its making leaves it, becomes an empty database."""
    assert opens_as_empty(tmp_path / "a.memdb", {"a.memdb": bytes(size)})


@pytest.mark.parametrize("size", [0, 1, 4096, 12288])
def test_a10_unfinished_file_is_no_database_to_a_reader(tmp_path: Path, size: int) -> None:
    """A reader is told that the file is empty, not given an empty database; nothing is made."""
    path = tmp_path / "a.memdb"
    path.write_bytes(bytes(size))
    with pytest.raises(memdb.NotADatabaseError) as caught:
        memdb.open(path, "r")

    assert str(path) in str(caught.value) and "empty" in str(caught.value)
    assert bytes(size) == path.read_bytes()


def test_a10_zeros_beyond_the_first_pages_are_no_database(tmp_path: Path) -> None:
    """A long file of zeros may have held something: it is refused and left as it is."""
    path = tmp_path / "a.memdb"
    path.write_bytes(bytes(12296))
    for mode in ("rw", "r"):
        with pytest.raises(memdb.NotADatabaseError):
            memdb.open(path, mode)

    assert bytes(12296) == path.read_bytes()


@pytest.mark.parametrize("method", ["reserve", "write", "sync", "sync_directory", "map", "lock"])
def test_a10_failed_creation_locks_nobody_out(tmp_path: Path, method: str) -> None:
    """When the disk refuses a new file the error is memdb's own and no lock is left."""
    path = tmp_path / "a.memdb"
    file = FaultyFile(path)
    file.fail(method)
    with pytest.raises(memdb.MemdbError) as caught:
        open_on(file)

    assert str(path) in str(caught.value)
    with memdb.open(path) as db:
        assert collections(db)["Account"].insert(Account("a", 1)) == 1


def test_a10_database_without_a_commit_opens_as_empty(tmp_path: Path) -> None:
    """A file that was made and closed without a commit is an empty database in all modes."""
    path = tmp_path / "a.memdb"
    memdb.open(path).close()
    found = []
    for mode in ("r", "append", "rw"):
        with memdb.open(path, mode) as db:
            found.append((db.collections(), len(collections(db)["Account"]), db.recovery))

    assert [([], 0, None)] * 3 == found
