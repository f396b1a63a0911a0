"""The disk of the crash tests: what it counts, and what it says that a power loss may leave."""

from __future__ import annotations

import mmap
import os
import random
from pathlib import Path

import pytest

from tests.support.disk import Content, Disk, Moment

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="looks into /proc")


def losses(moment: Moment, count: int = 200) -> list[Content]:
    """Return what many power losses leave."""
    chance = random.Random(1)
    return [moment.after_power_loss(chance) for _ in range(count)]


def write(path: Path, data: bytes) -> int:
    """Make a file, write to it, and return its descriptor."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    os.pwrite(fd, data, 0)
    return fd


def test_every_call_is_a_moment(tmp_path: Path) -> None:
    """Each call that changes a file, and each store into a shared map, is one; others are not."""
    other = tmp_path / "other"
    folder = tmp_path / "folder"
    folder.mkdir()
    real = os.pwrite, mmap.mmap
    with Disk(folder) as disk:
        fd = write(folder / "a", b"abc")
        os.ftruncate(fd, 5000)
        shared = mmap.mmap(fd, 5000, access=mmap.ACCESS_WRITE)
        private = mmap.mmap(fd, 5000, access=mmap.ACCESS_COPY)
        shared[10:12] = b"xy"
        private[20:22] = b"xy"
        os.fdatasync(fd)
        os.replace(folder / "a", folder / "b")
        os.unlink(folder / "b")
        os.close(write(other, b"elsewhere"))
        os.close(os.open(other, os.O_RDONLY))
        disk.note("said")
        os.close(fd)

    assert [
        *("begin", "open a", "pwrite a", "ftruncate a", "store a", "fdatasync a", "replace b"),
        *("unlink b", "said"),
    ] == [moment.call for moment in disk.moments]
    assert {"a": b"abc"} == disk.moments[2].content()
    assert b"xy" == disk.moments[4].content()["a"][10:12]
    assert bytes(2) == disk.moments[4].content()["a"][20:22]
    assert {} == disk.moments[-1].content()
    assert real == (os.pwrite, mmap.mmap)


def test_what_is_synced_is_safe(tmp_path: Path) -> None:
    """Bytes and names that were synced survive every power loss; others survive some."""
    with Disk(tmp_path) as disk:
        fd = write(tmp_path / "a", b"first")
        os.fsync(fd)
        folder = os.open(tmp_path, os.O_RDONLY)
        os.fsync(folder)
        os.pwrite(fd, b"other", 0)
        os.close(fd)
        os.close(folder)
    named, safe, changed = disk.moments[3], disk.moments[4], disk.moments[5]

    assert "fsync" in named.call and {"a": b"first"} == named.content()
    # The bytes are safe, the name is not.
    assert {0, 1} == {len(loss) for loss in losses(named)}
    assert [{"a": b"first"}] == [loss for loss in losses(safe, 1)]
    assert {b"first"} == {loss["a"] for loss in losses(safe)}
    assert {b"first", b"other"} <= {loss["a"] for loss in losses(changed)}


def test_a_file_that_takes_a_name_unsynced_can_be_empty(tmp_path: Path) -> None:
    """The well-known fault: a new file renamed over an old one before it was synced."""
    old = tmp_path / "a"
    old.write_bytes(b"old")
    with Disk(tmp_path) as disk:
        os.close(write(tmp_path / "new", b"new"))
        os.replace(tmp_path / "new", old)

    assert {b"old", b"new", b""} <= {loss["a"] for loss in losses(disk.moments[-1])}


def test_sectors_reach_the_disk_in_any_order(tmp_path: Path) -> None:
    """Of what was written since a sync any sectors may be there, also those of between."""
    with Disk(tmp_path) as disk:
        fd = write(tmp_path / "a", bytes(2048))
        os.fsync(fd)
        os.fsync(folder := os.open(tmp_path, os.O_RDONLY))
        for letter in (b"1", b"2"):
            os.pwrite(fd, letter * 2048, 0)
        os.close(fd)
        os.close(folder)
    found = {loss["a"][::512] for loss in losses(disk.moments[-1], 2000)}

    assert {bytes(4), b"2222", b"\0\0\0002", b"2\0\0\0", b"1\0\0\0"} <= found
    assert all(set(each) <= set(b"\x0012") for each in found)


def test_a_call_that_is_cut_short(tmp_path: Path) -> None:
    """A kill inside of a call leaves the beginning of what it changes; a renaming is whole."""
    with Disk(tmp_path) as disk:
        fd = write(tmp_path / "a", b"0123456789")
        os.pwrite(fd, b"abc", 4)
        os.replace(tmp_path / "a", tmp_path / "b")
        os.close(fd)
    _, made, written, changed, renamed = disk.moments
    chance = random.Random(1)
    torn = {written.torn(made, chance)["a"] for _ in range(200)}
    torn_later = {changed.torn(written, chance)["a"] for _ in range(200)}

    assert {b"0123456789"[:length] for length in range(11)} == torn
    assert {b"0123456789", b"0123a56789", b"0123ab6789", b"0123abc789"} == torn_later
    assert {"b": b"0123abc789"} == renamed.torn(changed, chance)
