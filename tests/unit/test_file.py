"""The file interface: one contract, kept by every implementation."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

import pytest

from memdb.errors import FileMissingError, FilePermissionError, NotADatabaseError, OpenError
from memdb.storage import File, MemoryFile, OSFile
from memdb.storage import _file as file_module
from memdb.storage._file import boot_id, write_beside
from tests.support.faulty import FaultyFile


class FileContract:
    """What the engine relies on, whatever the file is."""

    def make(self, folder: Path) -> File:
        """Return an empty file."""
        raise NotImplementedError

    @pytest.fixture
    def file(self, tmp_path: Path) -> File:
        """An empty file."""
        return self.make(tmp_path)

    def test_new_file_is_empty(self, file: File) -> None:
        """A new file has no bytes."""
        found = file.length(), file.read(0, 10)

        assert (0, b"") == found

    def test_read_gives_what_was_written(self, file: File) -> None:
        """Bytes come back from where they were written."""
        file.write(0, b"abcdef")
        file.write(2, b"XY")

        assert b"abXYef" == file.read(0, 6)
        assert b"Ye" == file.read(3, 2)

    def test_write_takes_views(self, file: File) -> None:
        """A memoryview is written as its bytes are."""
        file.write(0, memoryview(b"abcdef")[1:4])

        assert b"bcd" == file.read(0, 10)

    def test_read_beyond_the_end_is_short(self, file: File) -> None:
        """Reading gives fewer bytes at the end of the file, and none behind it."""
        file.write(0, b"abc")

        assert (b"bc", b"", b"") == (file.read(1, 100), file.read(3, 1), file.read(500, 1))

    def test_write_behind_the_end_leaves_zeros_between(self, file: File) -> None:
        """A gap reads as zeros."""
        file.write(4, b"x")

        assert b"\0\0\0\0x" == file.read(0, 5)
        assert 5 == file.length()

    def test_reserve_makes_zeros(self, file: File) -> None:
        """Reserved space counts to the length, reads as zeros, and changes no byte before it."""
        file.write(0, b"abc")
        file.reserve(10_000)

        assert 10_000 == file.length()
        assert b"abc" + bytes(9_997) == file.read(0, 20_000)

    def test_reserve_never_cuts(self, file: File) -> None:
        """Reserving less than there is changes nothing."""
        file.write(0, b"abc")
        file.reserve(2)
        file.reserve(3)

        assert b"abc" == file.read(0, 10)

    def test_truncate_cuts_for_good(self, file: File) -> None:
        """What was cut off reads as zeros when the space is reserved again."""
        file.write(0, b"abcdef")
        file.truncate(2)
        length = file.length()
        file.reserve(6)

        assert 2 == length
        assert b"ab\0\0\0\0" == file.read(0, 6)

    def test_shared_map_and_file_are_one(self, file: File) -> None:
        """What is written into a shared map is read from the file, and the other way round."""
        file.reserve(4096)
        data = file.map(4096, "shared")
        data[5:8] = b"map"
        file.write(10, b"file")

        assert b"map" == file.read(5, 3)
        assert b"file" == data[10:14]
        data.close()

    def test_older_maps_stay_usable(self, file: File) -> None:
        """A map keeps its bytes after the file has grown and was mapped again."""
        file.reserve(4096)
        first = file.map(4096, "shared")
        first[0:3] = b"one"
        file.reserve(100_000)
        second = file.map(100_000, "shared")
        second[50_000:50_003] = b"two"

        assert b"one" == first[0:3] == second[0:3]
        assert b"two" == file.read(50_000, 3)
        assert 100_000 <= len(second)

    def test_map_from_a_writer_is_seen_by_reading_maps(self, file: File) -> None:
        """A reading map follows what is written."""
        file.reserve(4096)
        data = file.map(4096, "read")
        file.write(7, b"later")

        assert b"later" == data[7:12]

    def test_sync_changes_nothing(self, file: File) -> None:
        """Syncing leaves the bytes as they are."""
        file.write(0, b"abc")
        file.sync()

        assert b"abc" == file.read(0, 10)

    def test_begin_sync_changes_nothing(self, file: File) -> None:
        """Beginning to sync leaves the bytes as they are, also behind the end."""
        file.write(0, b"abc")
        file.begin_sync(0, 3)
        file.begin_sync(8192, 4096)

        assert b"abc" == file.read(0, 10)

    def test_lock_is_free_at_first(self, file: File) -> None:
        """The first to ask gets the lock."""
        assert file.lock() is True
        file.close()

    def test_copy_from_copies_a_range_to_the_same_place(self, file: File, tmp_path: Path) -> None:
        """The bytes of a range are there, from a real file and from memory; nothing else is."""
        for number, source in enumerate((OSFile(str(tmp_path / "s"), write=True), MemoryFile())):
            source.write(0, bytes(range(200)) * 10)
            file.write(100, b"\xff" * 1000)
            file.copy_from(source, 300 + number, 500)
            source.close()

            expected = (bytes(range(200)) * 10)[300 + number : 800 + number]
            assert expected == file.read(300 + number, 500)
            assert b"\xff" * 50 == file.read(200, 50) == file.read(850, 50)

    def test_copy_from_a_source_that_ends(self, file: File, tmp_path: Path) -> None:
        """A real source that is shorter than the range is an error, and not half a copy."""
        source = OSFile(str(tmp_path / "s"), write=True)
        source.write(0, b"abc")
        if isinstance(file, OSFile):
            with pytest.raises(OSError, match="ends at byte 3"):
                file.copy_from(source, 0, 10)
        source.close()

    def test_duplicate_is_the_same_file(self, file: File) -> None:
        """What one writes the other reads; closing the one leaves the other open, and the lock."""
        assert file.lock()
        other = file.duplicate()
        other.write(0, b"both")
        other.close()

        assert b"both" == file.read(0, 4)
        if file.path is not None:
            second = OSFile(file.path, write=True)
            assert not second.lock()
            second.close()

    def test_a_successor_takes_the_name(self, file: File) -> None:
        """Another file is found under the path from then on; the old one can be read on."""
        file.write(0, b"old")
        successor = file.successor()
        successor.write(0, b"new")
        if file.path is not None:
            successor.take_name(file.path, replace=True)
            successor.sync_directory()

            assert [os.path.basename(file.path)] == os.listdir(os.path.dirname(file.path))
            assert b"new" == Path(file.path).read_bytes()
            assert not file.is_at_its_path() and successor.is_at_its_path()
        assert (b"old", b"new") == (file.read(0, 3), successor.read(0, 3))
        successor.close()

    def test_a_name_is_not_taken_from_another_file(self, file: File, tmp_path: Path) -> None:
        """Unless told, taking a name that a file has is an error, and so is a further name."""
        if file.path is None:
            return
        (tmp_path / "taken").write_bytes(b"mine")
        with pytest.raises(FileExistsError):
            file.take_name(str(tmp_path / "taken"), replace=False)
        with pytest.raises(FileExistsError):
            file.add_name(str(tmp_path / "taken"))
        file.add_name(str(tmp_path / "also"))
        file.sync_directory_of(str(tmp_path / "also"))
        before = file.path
        file.take_name(str(tmp_path / "free"), replace=False)

        assert b"mine" == (tmp_path / "taken").read_bytes()
        assert {"taken", "also", "free"} == set(os.listdir(tmp_path))
        assert before != file.path == os.path.realpath(tmp_path / "free")

    def test_attributes(self, file: File) -> None:
        """Each file knows its path or None, its growth and a boot id of 16 bytes."""
        assert file.path is None or os.path.isabs(file.path)
        assert file.growth_bytes > 0
        assert 16 == len(file.boot_id)


class TestMemoryFile(FileContract):
    """`MemoryFile` keeps the contract."""

    def make(self, folder: Path) -> File:
        """Return an empty file."""
        return MemoryFile()

    def test_boot_id_is_unknown(self) -> None:
        """Memory outlives no run of the operating system."""
        assert bytes(16) == MemoryFile().boot_id


class TestOSFile(FileContract):
    """`OSFile` keeps the contract, and more."""

    def make(self, folder: Path) -> File:
        """Return an empty file."""
        return OSFile(str(folder / "a"), write=True)

    def test_private_map_does_not_reach_the_file(self, file: File) -> None:
        """What is written into a private map stays there."""
        file.write(0, b"abc")
        data = file.map(3, "private")
        data[0:1] = b"X"

        assert (b"Xbc", b"abc") == (data[:], file.read(0, 3))
        data.close()

    def test_read_map_can_not_be_written(self, file: File) -> None:
        """A reading map refuses changes."""
        file.write(0, b"abc")
        data = file.map(3, "read")
        with pytest.raises(TypeError):
            data[0:1] = b"X"

    def test_second_lock_is_refused_until_closed(self, tmp_path: Path) -> None:
        """The lock is one for all handles, of this process too, and goes with its handle."""
        first, second = self.make(tmp_path), self.make(tmp_path)
        answers = [first.lock(), second.lock()]
        first.close()
        answers.append(second.lock())
        second.close()

        assert [True, False, True] == answers

    def test_close_with_a_map_open_gives_the_lock_up(self, tmp_path: Path) -> None:
        """A map that is still in use keeps no lock."""
        first, second = self.make(tmp_path), self.make(tmp_path)
        first.lock()
        first.reserve(4096)
        data = first.map(4096, "shared")
        first.close()
        is_free = second.lock()
        second.close()
        data.close()

        assert is_free

    def test_reserve_without_fallocate_writes_zeros(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Where the system can't allocate, zeros are written: the space is allocated too."""
        for code in (errno.EOPNOTSUPP, errno.EINVAL):

            def refuse(*_: object, code: int = code) -> None:
                raise OSError(code, "no")

            monkeypatch.setattr(os, "posix_fallocate", refuse)
            file = OSFile(str(tmp_path / str(code)), write=True)
            file.reserve(3_000_000)

            assert 3_000_000 == file.length()
            assert os.stat(tmp_path / str(code)).st_blocks * 512 >= 3_000_000
            file.close()
        monkeypatch.delattr(os, "posix_fallocate")
        file = OSFile(str(tmp_path / "none"), write=True)
        file.reserve(5000)

        assert bytes(5000) == file.read(0, 6000)
        file.close()

    @pytest.mark.parametrize("has_fallocate", [True, False])
    def test_failed_reserve_keeps_the_length(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_fallocate: bool
    ) -> None:
        """When there is no room the file is as long as before, even if a part was written."""
        file = OSFile(str(tmp_path / "a"), write=True)
        file.write(0, b"abc")
        written = file_module._pwrite

        def full(fd: int, data: memoryview, offset: int) -> int:
            if offset > 1_000_000:
                raise OSError(errno.ENOSPC, "full")
            return written(fd, data, offset)

        def allocate(fd: int, offset: int, size: int) -> None:
            os.ftruncate(fd, offset + size // 2)
            raise OSError(errno.ENOSPC, "full")

        if has_fallocate:
            monkeypatch.setattr(os, "posix_fallocate", allocate)
        else:
            monkeypatch.delattr(os, "posix_fallocate")
            monkeypatch.setattr(file_module, "_pwrite", full)
        with pytest.raises(OSError, match="full"):
            file.reserve(5_000_000)

        assert b"abc" == file.read(0, 10)
        file.close()

    def test_short_writes_and_reads_are_continued(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A system that reads and writes less than asked still moves every byte."""
        pread, pwrite = os.pread, os.pwrite
        monkeypatch.setattr(os, "pread", lambda fd, size, at: pread(fd, min(size, 3), at))
        monkeypatch.setattr(os, "pwrite", lambda fd, data, at: pwrite(fd, data[:2], at))
        file = OSFile(str(tmp_path / "a"), write=True)
        file.write(1, b"abcdefghij")

        assert b"\0abcdefghij" == file.read(0, 100)
        file.close()

    def test_path_is_the_real_one(self, tmp_path: Path) -> None:
        """Links are followed, so that side files lie beside the real file."""
        link = tmp_path / "link"
        link.symlink_to(tmp_path / "real")
        file = OSFile(str(link), write=True)
        found = file.path, file.is_new
        file.close()
        again = OSFile(str(link), write=True)
        second = again.is_new
        again.close()

        assert (os.path.realpath(tmp_path / "real"), True) == found
        assert not second

    def test_missing_file_is_made_by_writers_only(self, tmp_path: Path) -> None:
        """A reader makes nothing; neither makes a directory."""
        with pytest.raises(FileMissingError):
            OSFile(str(tmp_path / "a"), write=False)
        for write in (True, False):
            with pytest.raises(FileMissingError):
                OSFile(str(tmp_path / "no" / "a"), write=write)

        assert [] == list(tmp_path.iterdir())

    @pytest.mark.parametrize("write", [True, False])
    def test_what_is_no_file_is_refused(self, tmp_path: Path, write: bool) -> None:
        """Directories, devices and pipes are refused at once, and a pipe is not waited for."""
        os.mkfifo(tmp_path / "fifo")
        for path in (tmp_path, tmp_path / "fifo", Path("/dev/null")):
            with pytest.raises(OpenError) as caught:
                OSFile(str(path), write=write)
            assert str(path) in str(caught.value)

    def test_errors_of_the_system_are_told_apart(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Permission, read-only file systems and the rest give different errors, with errno."""
        cases = {
            errno.EACCES: FilePermissionError,
            errno.EPERM: FilePermissionError,
            errno.EROFS: FilePermissionError,
            errno.EISDIR: NotADatabaseError,
            errno.ENOENT: FileMissingError,
            errno.EMFILE: OpenError,
            errno.ELOOP: OpenError,
        }
        found = {}
        for code in cases:

            def refuse(*_: object, code: int = code) -> int:
                raise OSError(code, os.strerror(code))

            with monkeypatch.context() as patch:
                patch.setattr(os, "open", refuse)
                with pytest.raises(OpenError) as caught:
                    OSFile(str(tmp_path / "a"), write=False)
            found[code] = type(caught.value)
            assert code == caught.value.errno

        assert cases == found

    def test_a_new_file_may_be_made_by_two_at_once(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Whoever is second to make a file opens the one that the first has made."""
        path = tmp_path / "a"
        system_open = os.open

        def open_late(name: str, flags: int, *mode: int) -> int:
            if flags & os.O_CREAT and not path.exists():
                path.write_bytes(b"theirs")
            return system_open(name, flags, *mode)

        monkeypatch.setattr(os, "open", open_late)
        file = OSFile(str(path), write=True)
        found = file.is_new, file.read(0, 10)
        file.close()

        assert (False, b"theirs") == found

    def test_sync_reaches_the_system(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A sync is one of the system, and its failure comes out."""
        calls = []
        name = "fdatasync" if hasattr(os, "fdatasync") else "fsync"
        file = OSFile(str(tmp_path / "a"), write=True)
        monkeypatch.setattr(os, name, calls.append)
        file.sync()

        def fail(fd: int) -> None:
            raise OSError(errno.EIO, "broken")

        monkeypatch.setattr(os, name, fail)
        with pytest.raises(OSError, match="broken"):
            file.sync()
        file.close()

        assert 1 == len(calls)

    def test_child_processes_do_not_inherit_the_file(self, tmp_path: Path) -> None:
        """A started program does not get the descriptor, so that it keeps no lock."""
        file = OSFile(str(tmp_path / "a"), write=True)
        is_inherited = os.get_inheritable(file._fd)
        file.close()

        assert not is_inherited


class TestFaultyFile(TestOSFile):
    """The file that the crash tests use keeps the contract while nothing is to fail."""

    def make(self, folder: Path) -> File:
        """Return an empty file."""
        return FaultyFile(folder / "a")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells its boot id")
def test_boot_id_is_the_same_in_every_process() -> None:
    """The boot id is the system's, 16 bytes and not zeros."""
    text = Path("/proc/sys/kernel/random/boot_id").read_text().strip()

    assert bytes.fromhex(text.replace("-", "")) == boot_id()
    assert bytes(16) != boot_id()


def test_unknown_boot_id_is_zeros(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system does not tell, the boot id is 16 zeros."""

    def refuse(*_: object, **__: object) -> None:
        raise FileNotFoundError

    monkeypatch.setattr("builtins.open", refuse)
    found = boot_id.__wrapped__()
    monkeypatch.undo()

    assert bytes(16) == found


def test_write_beside_never_overwrites(tmp_path: Path) -> None:
    """A side file gets a number when its name is taken."""
    names = [write_beside(str(tmp_path / "a.torn"), data) for data in (b"1", b"2", b"3")]

    assert ["a.torn", "a.torn-1", "a.torn-2"] == [os.path.basename(name) for name in names]
    assert [b"1", b"2", b"3"] == [Path(name).read_bytes() for name in names]


def test_a_file_that_is_cut_while_it_is_mapped(tmp_path: Path) -> None:
    """A writer gives back what it had reserved; a reader who had asked for the length maps on."""
    path = tmp_path / "a"
    path.write_bytes(b"x" * 10_000)
    file = OSFile(str(path), write=False)
    length = file.length()
    os.truncate(path, 5_000)

    assert b"x" * 5_000 == file.map(length, "read")[:]
    os.truncate(path, 0)
    with pytest.raises(ValueError, match="mmap"):
        file.map(length, "read")
    file.close()
