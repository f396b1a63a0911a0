"""A disk that remembers: what a folder held after each call, and what a power loss would leave.

A program runs once inside of a `Disk`. Every call that changes a file of the folder, and every
store into a shared map of one, is a `Moment`; so a test can look at each state in which the program
could have been killed, and at those which a disk may hold when the power goes then, without
running it again. It all happens at the system calls, so that it does not matter which module
makes them.
"""

from __future__ import annotations

import mmap
import os
import random
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

SECTOR_BYTES = 512
# Disks write a sector wholly or not at all, or so they say: checksums must notice if not.
_TORN_SECTORS = 0.05

Content = dict[str, bytes]
"""What a folder holds: the name of each file and its bytes."""

# Calls that change a file, by the position of the argument that says which.
_BY_FD = {"pwrite": 0, "write": 0, "ftruncate": 0, "posix_fallocate": 0, "sendfile": 0}
_BY_TARGET_FD = {"copy_file_range": 1}
_BY_NAME = {
    **{"open": 0, "unlink": 0, "remove": 0, "rename": 1, "replace": 1, "link": 1, "truncate": 0}
}
_SYNCS = ("fsync", "fdatasync")
# After these only the file itself is looked at; the others may change names.
_OF_ONE_FILE = ("pwrite", "store")


@dataclass(frozen=True)
class Moment:
    """What a folder held after one call.

    Attributes:
        call: The call and the file.
        mark: What the program had said of itself, see `Disk.mark`.
        names: Name -> file.
        earlier_names: What a power loss may make of the names: those since they were synced.
        images: File -> what it has held since it was synced, the oldest first, the present last.
    """

    call: str
    mark: Any
    names: Mapping[str, int]
    earlier_names: tuple[Mapping[str, int], ...]
    images: Mapping[int, tuple[bytes, ...]]

    def content(self) -> Content:
        """Return what the folder holds for every process: what a kill leaves."""
        return {name: self.images[file][-1] for name, file in self.names.items()}

    def after_power_loss(self, chance: random.Random) -> Content:
        """Return what a disk may hold if the power goes now.

        Names are as they were after any of the calls since the folder was synced. Each sector of a
        file is as it was at any moment since the file was synced, independently of all others.
        """
        names = chance.choice(
            (self.earlier_names[0], self.names, chance.choice(self.earlier_names))
        )
        share = chance.choice((0.0, 0.1, 0.5, 0.9, 1.0))
        return {name: _mixed(self.images[file], share, chance) for name, file in names.items()}

    def torn(self, before: Moment, chance: random.Random) -> Content:
        """Return what a kill in the middle of the call leaves: of what it changed only a part."""
        found = {}
        for name, file in self.names.items():
            old, new = before.images.get(file, (b"",))[-1], self.images[file][-1]
            if old != new and len(old) <= len(new):
                end = chance.randint(_first_difference(old, new), len(new))
                new = new[:end] + old[end:]
            found[name] = new
        return found


def _first_difference(old: bytes, new: bytes) -> int:
    """Return how many bytes two files have in common from their beginning."""
    at = 0
    while at < len(old) and old[at : at + SECTOR_BYTES] == new[at : at + SECTOR_BYTES]:
        at += SECTOR_BYTES
    pairs = zip(old[at : at + SECTOR_BYTES], new[at : at + SECTOR_BYTES], strict=False)
    return next((at + step for step, (a, b) in enumerate(pairs) if a != b), len(old))


def _mixed(images: tuple[bytes, ...], share: float, chance: random.Random) -> bytes:
    """Return a file whose sectors are of different moments; ``share`` of them of late ones."""
    size = chance.choice((len(images[0]), len(images[-1]), len(chance.choice(images))))
    padded = [image.ljust(size, b"\0")[:size] for image in images]
    kept = bytearray(padded[0])
    for at in range(0, size, SECTOR_BYTES):
        place = slice(at, at + SECTOR_BYTES)
        old, *later = dict.fromkeys(image[place] for image in padded)
        if later and chance.random() < share:
            new = chance.choice((later[-1], chance.choice(later)))
            if chance.random() < _TORN_SECTORS:
                torn_at = chance.randrange(SECTOR_BYTES)
                new = new[:torn_at] + old[torn_at:]
            kept[place] = new
    return bytes(kept)


class Disk:
    """Remembers what is done to the files of a folder while it is entered.

    Nothing is really synced: that is slow, and would prove nothing here.

    Attributes:
        moments: One for each call, in order.
        mark: Called at each moment: what is to be remembered with it.
    """

    def __init__(self, folder: Path, mark: Callable[[], Any] = lambda: None) -> None:
        self.moments: list[Moment] = []
        self.mark = mark
        self._folder = os.path.realpath(folder)
        self._lock = threading.RLock()
        self._real: dict[str, Any] = {}
        self._fds: dict[int, int] = {}
        self._images: dict[int, list[bytes]] = {}
        self._names: list[dict[str, int]] = []

    def __enter__(self) -> Disk:
        self._open = os.open
        for name in (*_BY_FD, *_BY_TARGET_FD, *_BY_NAME, *_SYNCS):
            if hasattr(os, name):
                self._real[name] = getattr(os, name)
                setattr(os, name, self._around(name))
        self._map = mmap.mmap
        setattr(mmap, "mmap", self._map_class())  # noqa: B010 - it is a class to type checkers
        self._look("", None)
        self._sync_all()
        self._remember("begin")
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        setattr(mmap, "mmap", self._map)  # noqa: B010
        for name, function in self._real.items():
            setattr(os, name, function)
        for fd in self._fds.values():
            os.close(fd)

    def note(self, what: str) -> None:
        """Remember a moment at which no call was made."""
        with self._lock:
            self._remember(what)

    # -- what is called instead ----------------------------------------------------------

    def _around(self, name: str) -> Callable[..., Any]:
        real = self._real[name]
        position = {**_BY_FD, **_BY_TARGET_FD, **_BY_NAME}.get(name, 0)

        def call(*arguments: Any, **named: Any) -> Any:
            path = self._path_of(arguments[position])
            if not path or (name == "open" and not arguments[1] & os.O_CREAT):
                return real(*arguments, **named)
            with self._lock:
                if name in _SYNCS:
                    self._sync(path, arguments[0])
                    result = None
                else:
                    result = real(*arguments, **named)
                    self._look(name, arguments[position])
                self._remember(f"{name} {os.path.basename(path)}")
            return result

        return call

    def _map_class(self) -> type:
        disk = self

        class Map(mmap.mmap):
            """A map whose stores are moments, where they reach the file."""

            path = ""
            fd = -1

            def __new__(cls, fileno: int, length: int, **named: Any) -> Map:
                made = super().__new__(cls, fileno, length, **named)
                is_shared = named.get("access") == mmap.ACCESS_WRITE
                if fileno >= 0 and is_shared and (path := disk._path_of(fileno)):
                    made.path, made.fd = path, disk._own_fd(path)
                return made

            def __setitem__(self, key: Any, value: Any) -> None:
                if not self.path:
                    return super().__setitem__(key, value)
                with disk._lock:
                    super().__setitem__(key, value)
                    disk._look("store", self.fd)
                    disk._remember(f"store {os.path.basename(self.path)}")

        return Map

    # -- what is remembered --------------------------------------------------------------

    def _path_of(self, where: Any) -> str:
        """Return the path of a descriptor or name if it is the folder or in it, else nothing."""
        try:
            path = os.readlink(f"/proc/self/fd/{where}") if type(where) is int else where
        except OSError:
            return ""
        path = os.path.abspath(os.fsdecode(path)).removesuffix(" (deleted)")
        is_ours = path == self._folder or os.path.dirname(path) == self._folder
        return path if is_ours else ""

    def _own_fd(self, path: str) -> int:
        """Return the descriptor by which a file is looked at, also when it has no name any more."""
        number = os.stat(path).st_ino
        if number not in self._fds:
            self._fds[number] = self._open(path, os.O_RDONLY | os.O_CLOEXEC)
            self._images[number] = [b""]
        return self._fds[number]

    def _look(self, call: str, fd: Any) -> None:
        """Take in what has changed."""
        if call in _OF_ONE_FILE:
            self._take_image(os.fstat(fd).st_ino)
            return
        names = {}
        for entry in os.scandir(self._folder):
            if entry.is_file(follow_symlinks=False):
                self._own_fd(entry.path)
                names[entry.name] = entry.inode()
        if not self._names or names != self._names[-1]:
            self._names.append(names)
        for number in self._fds:
            self._take_image(number)

    def _take_image(self, number: int) -> None:
        fd, images = self._fds[number], self._images[number]
        image = os.pread(fd, os.fstat(fd).st_size, 0)
        if image != images[-1]:
            images.append(image)

    def _sync(self, path: str, fd: int) -> None:
        """Forget what is older than the present of a file, or of the names."""
        self._look("", None)
        if path == self._folder:
            del self._names[:-1]
        else:
            del self._images[os.fstat(fd).st_ino][:-1]

    def _sync_all(self) -> None:
        del self._names[:-1]
        for images in self._images.values():
            del images[:-1]

    def _remember(self, call: str) -> None:
        images = {number: tuple(images) for number, images in self._images.items()}
        names = tuple(self._names)
        self.moments.append(Moment(call, self.mark(), names[-1], names, images))
