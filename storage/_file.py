"""The one interface through which the engine touches files, and its implementations."""

from __future__ import annotations

import contextlib
import errno
import functools
import mmap
import os
import stat
import sys
from typing import Literal, Protocol

from memdb.errors import (
    FileMissingError,
    FilePermissionError,
    NotADatabaseError,
    OpenError,
)
from memdb.storage._constants import BOOT_ID_BYTES

if sys.platform == "win32":  # pragma: no cover - tried by hand, the test machines are Linux
    import msvcrt
else:
    import fcntl

MapAccess = Literal["shared", "private", "read"]

_ACCESS = {
    "shared": mmap.ACCESS_WRITE,
    "private": mmap.ACCESS_COPY,
    "read": mmap.ACCESS_READ,
}
_ZEROS = bytes(1 << 20)
# Errors of posix_fallocate that mean "this file system can't", not "there is no room".
_NO_FALLOCATE = {errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS}
# The same of copy_file_range: other file systems, an old kernel.
_NO_COPY_FILE_RANGE = {errno.EXDEV, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS}

# What the name of a file that takes the place of another one ends in until it does.
SUCCESSOR_SUFFIX = ".compacting"


class File(Protocol):
    """A file as the engine sees it: a row of bytes that can be read, written, mapped and synced.

    Offsets and lengths are in bytes. Failures are the operating system's ``OSError``.
    Threads: every method may be called from any thread; a range that is written while it is
    read gives either.
    """

    path: str | None
    """The real path, or None where there is no file."""
    growth_bytes: int
    """The most by which the space reserved in advance should grow at once."""
    boot_id: bytes
    """Names this run of the operating system, 16 bytes; zeros when unknown."""
    is_new: bool
    """Whether opening has made it."""

    def length(self) -> int:
        """Return the length of the file."""

    def read(self, offset: int, size: int) -> bytes:
        """Return ``size`` bytes from ``offset``, fewer only at the end of the file."""

    def write(self, offset: int, data: bytes | memoryview) -> None:
        """Write all of ``data`` at ``offset``."""

    def map(self, length: int, access: MapAccess) -> mmap.mmap:
        """Map the first ``length`` bytes; later maps leave earlier ones usable.

        For reading only as many of them as there are by now, since another process may have cut
        off what is behind the log.
        """

    def reserve(self, length: int) -> None:
        """Make the file at least ``length`` long, zeros, with the space allocated.

        On failure the length is what it was.
        """

    def truncate(self, length: int) -> None:
        """Cut the file to ``length``."""

    def sync(self) -> None:
        """Return once everything written, through maps too, survives power loss."""

    def lock(self) -> bool:
        """Take the writer's lock; False when somebody has it. Dies with the process.

        If the path has come to lead to another file meanwhile, that is the one from then on.
        """

    def is_at_its_path(self) -> bool:
        """Whether the path leads to this very file."""

    def reopened(self) -> File:
        """Return the file that the path leads to now, open for reading; see `OSFile`."""

    def copy_from(self, source: File, offset: int, size: int) -> None:
        """Copy ``size`` bytes at ``offset`` of another file to the same place of this one."""

    def begin_sync(self, offset: int, size: int) -> None:
        """Have the system begin to write a range to the disk; nothing is promised of it."""

    def duplicate(self) -> File:
        """Return another object for the same file, whose closing leaves this one open.

        It has no part in the lock.
        """

    def another(self, path: str) -> File:
        """Return another real file, open for writing, made when missing; see `OSFile`."""

    def successor(self) -> File:
        """Return another file that may take the place of this one: see `take_name`.

        It is empty, or what was left of an earlier one.
        """

    def add_name(self, path: str) -> None:
        """Let the file be found under a further name, which nothing has yet."""

    def sync_directory_of(self, path: str) -> None:
        """Return once a name that the file has survives power loss."""

    def take_name(self, path: str, *, replace: bool) -> None:
        """Let the file be found under another name of the same directory.

        Args:
            path: The name.
            replace: Take it from the file that has it; else that is a ``FileExistsError``.
        """

    def remove(self) -> None:
        """Remove the name of the file."""

    def sync_directory(self) -> None:
        """Return once the name of the file survives power loss."""

    def close(self, *, keep_lock: bool = False) -> None:
        """Give up lock and file.

        Args:
            keep_lock: Leave the lock alone: in a forked child it is the parent's.
        """


class _OSFile:
    """An `OSFile` without its ``__del__``: what it becomes when it is closed."""

    growth_bytes = 64 << 20
    _fd = -1

    def __init__(self, path: str, *, write: bool) -> None:
        """Open ``path``, for writing made when missing.

        Args:
            path: Links are followed; side files lie beside the real file.
            write: Open for reading and writing, else for reading only.

        Raises:
            FileMissingError: Nothing is there (reading), or no such directory.
            FilePermissionError: The file may not be opened so.
            NotADatabaseError: It is a directory or a device.
            OpenError: Any other failure of the operating system.
        """
        self.path: str | None = os.path.realpath(path)
        self.boot_id = boot_id()
        self.is_new = False
        self._is_locked = False
        try:
            self._fd = self._open(write=write)
        except FileNotFoundError as error:
            raise FileMissingError(
                f"{path}: there is no such file or directory. Check the path"
                + ("" if write else ', or open with mode="rw" to make a new database')
                + ".",
                path=path,
                errno=error.errno,
            ) from error
        except IsADirectoryError as error:
            raise NotADatabaseError(
                f"{path}: is a directory. Give the path of a file.", path=path, errno=error.errno
            ) from error
        except PermissionError as error:
            raise FilePermissionError(
                f"{path}: may not be opened for {'writing' if write else 'reading'}"
                f" ({error.strerror}). Check the permissions of the file and its directory"
                + (', or open with mode="r".' if write else "."),
                path=path,
                errno=error.errno,
            ) from error
        except OSError as error:
            if error.errno == errno.EROFS:
                raise FilePermissionError(
                    f'{path}: the file system is read-only. Open with mode="r".',
                    path=path,
                    errno=error.errno,
                ) from error
            raise OpenError(
                f"{path}: can't be opened: {error.strerror}.", path=path, errno=error.errno
            ) from error
        if not stat.S_ISREG(os.fstat(self._fd).st_mode):
            raise NotADatabaseError(f"{path}: is not a regular file.", path=path)

    def _open(self, *, write: bool) -> int:
        assert self.path is not None
        flags = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
        # A device or a fifo must be refused, not waited for.
        flags |= getattr(os, "O_NONBLOCK", 0)
        if os.path.isdir(self.path):  # Windows calls this a permission error.
            raise IsADirectoryError(errno.EISDIR, "Is a directory")
        if not write:
            return os.open(self.path, flags | os.O_RDONLY)
        while True:
            try:
                return os.open(self.path, flags | os.O_RDWR)
            except FileNotFoundError:
                with contextlib.suppress(FileExistsError):  # Somebody was faster: open theirs.
                    fd = os.open(self.path, flags | os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
                    self.is_new = True
                    return fd

    def length(self) -> int:
        """Return the length of the file."""
        return os.fstat(self._fd).st_size

    def read(self, offset: int, size: int) -> bytes:
        """Return ``size`` bytes from ``offset``, fewer only at the end of the file."""
        parts: list[bytes] = []
        while size > 0:
            part = _pread(self._fd, min(size, 1 << 30), offset)
            if not part:
                break
            parts.append(part)
            offset += len(part)
            size -= len(part)
        return b"".join(parts) if len(parts) != 1 else parts[0]

    def write(self, offset: int, data: bytes | memoryview) -> None:
        """Write all of ``data`` at ``offset``."""
        view = memoryview(data)
        while view:
            written = _pwrite(self._fd, view[: 1 << 30], offset)
            offset += written
            view = view[written:]

    def map(self, length: int, access: MapAccess) -> mmap.mmap:
        """Map the first ``length`` bytes; earlier maps stay usable."""
        try:
            return mmap.mmap(self._fd, length, access=_ACCESS[access])
        except ValueError:
            present = os.fstat(self._fd).st_size
            if access != "read" or min(present, length) <= 0:
                raise
        # A writer has closed the file since its length was asked for, and given back what he had
        # reserved behind the log.
        return self.map(min(length, present), access)

    def reserve(self, length: int) -> None:
        """Allocate the file up to ``length``; on failure it has its old length."""
        present = self.length()
        if length <= present:
            return
        try:
            if hasattr(os, "posix_fallocate"):
                try:
                    os.posix_fallocate(self._fd, present, length - present)
                    return
                except OSError as error:
                    if error.errno not in _NO_FALLOCATE:
                        raise
            for offset in range(present, length, len(_ZEROS)):
                self.write(offset, memoryview(_ZEROS)[: length - offset])
        except BaseException:
            os.ftruncate(self._fd, present)
            raise

    def truncate(self, length: int) -> None:
        """Cut the file to ``length``."""
        os.ftruncate(self._fd, length)

    def sync(self) -> None:
        """Return once everything written survives power loss."""
        if sys.platform == "darwin":  # pragma: no cover
            # macOS: fsync leaves the data in the drive's cache, F_FULLFSYNC does not.
            fcntl.fcntl(self._fd, fcntl.F_FULLFSYNC)
        elif hasattr(os, "fdatasync"):
            os.fdatasync(self._fd)
        else:  # pragma: no cover
            os.fsync(self._fd)

    def sync_directory(self) -> None:
        """Return once the file's name survives power loss."""
        assert self.path is not None
        sync_directory(os.path.dirname(self.path))

    def lock(self) -> bool:
        """Take the writer's lock; False when somebody has it."""
        # The writer may have put another file in the place of this one before it gave the lock
        # up: what is written to this one would be lost.
        while self._lock():
            if self.is_at_its_path():
                return True
            fd = self._open(write=True)
            old, self._fd = self._fd, fd
            os.close(old)
        return False

    def _lock(self) -> bool:
        try:
            if sys.platform == "win32":  # pragma: no cover
                # Far behind any data: a locked range of Windows can't be read by others.
                os.lseek(self._fd, 1 << 62, os.SEEK_SET)
                msvcrt.locking(self._fd, msvcrt.LK_NBLCK, 1)
            else:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES, errno.EDEADLK):
                return False
            raise
        self._is_locked = True
        return True

    def reopened(self) -> OSFile:
        """Return the file that the path leads to now, open for reading."""
        assert self.path is not None
        made = type(self)(self.path, write=False)
        assert isinstance(made, OSFile)
        return made

    def is_at_its_path(self) -> bool:
        """Whether the path leads to this very file."""
        assert self.path is not None
        try:
            there = os.stat(self.path)
        except FileNotFoundError:
            return False
        return os.path.samestat(there, os.fstat(self._fd))

    def copy_from(self, source: File, offset: int, size: int) -> None:
        """Copy ``size`` bytes at ``offset`` of another file to the same place of this one."""
        end = offset + size
        if isinstance(source, _OSFile) and hasattr(os, "copy_file_range"):
            try:
                while offset < end:
                    copied = os.copy_file_range(
                        source._fd, self._fd, end - offset, offset_src=offset, offset_dst=offset
                    )
                    if not copied:
                        break
                    offset += copied
            except OSError as error:
                if error.errno not in _NO_COPY_FILE_RANGE:
                    raise
        while offset < end:
            data = source.read(offset, min(end - offset, len(_ZEROS)))
            if not data:
                raise OSError(errno.EIO, f"the source ends at byte {offset}")
            self.write(offset, data)
            offset += len(data)

    def begin_sync(self, offset: int, size: int) -> None:
        """Have the system begin to write a range to the disk; nothing is promised of it."""
        if hasattr(os, "posix_fadvise"):
            # Linux begins to write what is to be given up; pages that are dirty stay until then.
            with contextlib.suppress(OSError):
                os.posix_fadvise(self._fd, offset, size, os.POSIX_FADV_DONTNEED)

    def duplicate(self) -> OSFile:
        """Return another object for the same file."""
        made = type(self).__new__(type(self))
        assert isinstance(made, OSFile)
        # Not with the descriptor: an interrupt here would have it closed twice.
        made.__dict__.update({**vars(self), "_fd": -1, "_is_locked": False, "is_new": False})
        made._fd = os.dup(self._fd)
        return made

    def another(self, path: str) -> OSFile:
        """Return another real file, open for writing, made when missing."""
        made = type(self)(path, write=True)
        assert isinstance(made, OSFile)
        return made

    def successor(self) -> OSFile:
        """Return a file beside this one, with its permissions; made when missing."""
        assert self.path is not None
        made = self.another(self.path + SUCCESSOR_SUFFIX)
        try:
            own = os.fstat(self._fd)
            if hasattr(os, "fchmod"):
                os.fchmod(made._fd, stat.S_IMODE(own.st_mode))
            if hasattr(os, "fchown"):
                # Only root may give a file away.
                with contextlib.suppress(PermissionError):
                    os.fchown(made._fd, own.st_uid, own.st_gid)
        except BaseException:
            made.close()
            raise
        return made

    def add_name(self, path: str) -> None:
        """Let the file be found under a further name."""
        assert self.path is not None
        os.link(self.path, path)

    def sync_directory_of(self, path: str) -> None:
        """Return once a name that the file has survives power loss."""
        sync_directory(os.path.dirname(path))

    def take_name(self, path: str, *, replace: bool) -> None:
        """Let the file be found under another name of the same directory."""
        assert self.path is not None
        if replace:
            os.replace(self.path, path)
        else:
            try:
                # Unlike a renaming, this fails when somebody else has the name by now.
                os.link(self.path, path)
            except FileExistsError:
                raise
            except OSError:
                # A file system without hard links.
                if os.path.lexists(path):
                    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)) from None
                os.rename(self.path, path)
            else:
                os.unlink(self.path)
        self.path = path

    def close(self, *, keep_lock: bool = False) -> None:
        """Give up lock and file.

        The lock belongs to the open file description, which a forked child and the maps
        share: without the explicit unlock it would live as long as any of them.
        """
        if self._fd < 0:
            return
        if self._is_locked and not keep_lock:
            if sys.platform == "win32":  # pragma: no cover
                os.lseek(self._fd, 1 << 62, os.SEEK_SET)
                msvcrt.locking(self._fd, msvcrt.LK_UNLCK, 1)
            else:
                fcntl.flock(self._fd, fcntl.LOCK_UN)
        self._is_locked = False
        fd, self._fd = self._fd, -1
        is_subclassed = type(self) is not OSFile
        if not is_subclassed:
            # What needs no __del__ any more has none: an interrupt in it would be lost.
            self.__class__ = _OSFile
        os.close(fd)

    def remove(self) -> None:
        """Remove the name of the file."""
        assert self.path is not None
        os.unlink(self.path)


class OSFile(_OSFile):
    """A real file."""

    def __del__(self) -> None:
        # For an opening that was interrupted (Ctrl-C) where no `finally` reaches.
        if self._fd >= 0:
            os.close(self._fd)


class MemoryFile:
    """A file that is only memory, for databases without one and for tests."""

    # Growing copies, so it doubles.
    growth_bytes = 1 << 40

    def __init__(self) -> None:
        self.path: str | None = None
        self.boot_id = bytes(BOOT_ID_BYTES)
        self.is_new = True
        self._length = 0
        self._map = mmap.mmap(-1, 1)

    def length(self) -> int:
        """Return the length of the file."""
        return self._length

    def read(self, offset: int, size: int) -> bytes:
        """Return ``size`` bytes from ``offset``, fewer only at the end."""
        return self._map[offset : min(offset + size, self._length)]

    def write(self, offset: int, data: bytes | memoryview) -> None:
        """Write all of ``data`` at ``offset``."""
        self.reserve(offset + len(data))
        self._map[offset : offset + len(data)] = bytes(data)

    def map(self, length: int, access: MapAccess) -> mmap.mmap:
        """Return the memory itself; an earlier map keeps its bytes and misses later ones."""
        return self._map

    def reserve(self, length: int) -> None:
        """Make the memory at least ``length`` long."""
        if length > len(self._map):
            larger = mmap.mmap(-1, length)
            larger[: self._length] = self._map[: self._length]
            self._map = larger
        self._length = max(self._length, length)

    def truncate(self, length: int) -> None:
        """Cut to ``length``; what lay behind reads as zeros when reserved again."""
        self._map[length : self._length] = bytes(self._length - length)
        self._length = length

    def sync(self) -> None:
        """Do nothing: memory has no disk to reach."""

    def lock(self) -> bool:
        """Return True: nobody else can see this memory."""
        return True

    def is_at_its_path(self) -> bool:
        """Return True: there is no path."""
        return True

    def reopened(self) -> MemoryFile:
        """Return the same."""
        return self

    def copy_from(self, source: File, offset: int, size: int) -> None:
        """Copy ``size`` bytes at ``offset`` of another file to the same place of this one."""
        self.write(offset, source.read(offset, size))

    def begin_sync(self, offset: int, size: int) -> None:
        """Do nothing: memory has no disk to reach."""

    def duplicate(self) -> MemoryFile:
        """Return the same: it has nothing to close."""
        return self

    def another(self, path: str) -> OSFile:
        """Return a real file, open for writing, made when missing."""
        return OSFile(path, write=True)

    def successor(self) -> MemoryFile:
        """Return a new, empty one."""
        return MemoryFile()

    def add_name(self, path: str) -> None:
        """Do nothing: memory has no name."""

    def sync_directory_of(self, path: str) -> None:
        """Do nothing: memory has no name."""

    def take_name(self, path: str, *, replace: bool) -> None:
        """Do nothing: memory has no name."""

    def remove(self) -> None:
        """Do nothing: memory has no name."""

    def sync_directory(self) -> None:
        """Do nothing: memory has no name."""

    def close(self, *, keep_lock: bool = False) -> None:
        """Let the memory go with its last map."""


@functools.cache
def boot_id() -> bytes:
    """Return 16 bytes that name this run of the operating system, zeros when unknown.

    Source: ``random(4)`` of Linux, ``/proc/sys/kernel/random/boot_id``.
    """
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return bytes.fromhex(file.read().strip().replace("-", ""))
    except (OSError, ValueError):
        return bytes(BOOT_ID_BYTES)


def sync_directory(path: str) -> None:
    """Return once the names in the directory survive power loss, where systems allow that."""
    if sys.platform == "win32":  # pragma: no cover - directories can't be opened there
        return
    fd = os.open(path or ".", os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_beside(path: str, data: bytes) -> str:
    """Write a new file, never over an old one, synced; return the path that it got."""
    number = 0
    while True:
        name = path if number == 0 else f"{path}-{number}"
        try:
            fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0))
        except FileExistsError:
            number += 1
            continue
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except BaseException:
            os.unlink(name)
            raise
        sync_directory(os.path.dirname(name))
        return name


def _pread(fd: int, size: int, offset: int) -> bytes:
    if hasattr(os, "pread"):
        return os.pread(fd, size, offset)
    os.lseek(fd, offset, os.SEEK_SET)  # pragma: no cover - Windows
    return os.read(fd, size)  # pragma: no cover


def _pwrite(fd: int, data: memoryview, offset: int) -> int:
    if hasattr(os, "pwrite"):
        return os.pwrite(fd, data, offset)
    os.lseek(fd, offset, os.SEEK_SET)  # pragma: no cover - Windows
    return os.write(fd, data)  # pragma: no cover
