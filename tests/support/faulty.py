"""Files that fail on demand: at the n-th call of a method, or by losing power.

What a kill or a power loss leaves at any call is a matter of `tests.support.disk`.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import random
import threading
from collections import Counter
from typing import Any

from memdb import Database
from memdb._config import Config
from memdb._engine import Engine
from memdb._secrets import keys_of, without_secrets
from memdb.storage import File, Log, MapAccess, OSFile

SECTOR_BYTES = 512


class FaultyFile(OSFile):
    """A real file that counts the calls of each method and can fail at one of them.

    It grows in small steps, so that a small test makes room often.

    Attributes:
        calls: Method -> how often it was called.
        synced: The bytes that certainly survive a power loss.
    """

    growth_bytes = 8192

    def __init__(self, path: str | os.PathLike[str], *, write: bool = True) -> None:
        self.calls: Counter[str] = Counter()
        self._faults: dict[str, tuple[int, int, bool]] = {}
        self._moment = threading.RLock()
        super().__init__(os.fspath(path), write=write)
        self.synced = self.image()

    def image(self) -> bytes:
        """Return all bytes of the file as any process sees them now."""
        return super().read(0, super().length())

    def lose_power(self, chance: random.Random) -> bytes:
        """Return what the disk may hold if the power goes now, the flusher at work or not."""
        with self._moment:
            return after_power_loss(self.synced, self.image(), chance)

    def fail(
        self, method: str, number: int = 1, code: int = errno.EIO, *, for_ever: bool = False
    ) -> None:
        """Let the ``number``-th call of a method from now on raise, or all from that on."""
        self._faults[method] = self.calls[method] + number, code, for_ever

    def heal(self) -> None:
        """Forget every fault."""
        self._faults.clear()

    def _enter(self, method: str) -> None:
        self.calls[method] += 1
        number, code, for_ever = self._faults.get(method, (0, 0, False))
        count = self.calls[method]
        if number and (count == number or (for_ever and count > number)):
            raise OSError(code, os.strerror(code))

    def length(self) -> int:
        """As `OSFile`, or fail."""
        self._enter("length")
        return super().length()

    def read(self, offset: int, size: int) -> bytes:
        """As `OSFile`, or fail."""
        self._enter("read")
        return super().read(offset, size)

    def write(self, offset: int, data: bytes | memoryview) -> None:
        """As `OSFile`, or fail."""
        with self._moment:
            self._enter("write")
            super().write(offset, data)

    def map(self, length: int, access: MapAccess) -> mmap.mmap:
        """As `OSFile`, or fail."""
        self._enter("map")
        return super().map(length, access)

    def reserve(self, length: int) -> None:
        """As `OSFile`, or fail."""
        self._enter("reserve")
        super().reserve(length)

    def truncate(self, length: int) -> None:
        """As `OSFile`, or fail."""
        self._enter("truncate")
        super().truncate(length)

    def sync(self) -> None:
        """Note what is safe from now on, or fail."""
        with self._moment:
            self._enter("sync")
            # Nothing is really synced: that is slow and would prove nothing here.
            self.synced = self.image()

    def sync_directory(self) -> None:
        """Do nothing, or fail."""
        self._enter("sync_directory")

    def lock(self) -> bool:
        """As `OSFile`, or fail."""
        self._enter("lock")
        return super().lock()

    def close(self, *, keep_lock: bool = False) -> None:
        """As `OSFile`, and count."""
        self.calls["close"] += 1
        with contextlib.suppress(OSError):
            super().close(keep_lock=keep_lock)


def after_power_loss(synced: bytes, present: bytes, chance: random.Random) -> bytes:
    """Return what a disk may hold after a power loss.

    Args:
        synced: What the last sync made safe.
        present: What the file held when the power went.
        chance: Decides which of the sectors written since have reached the disk.
    """
    size = max(len(synced), len(present))
    old, new = synced.ljust(size, b"\0"), present.ljust(size, b"\0")
    kept = bytearray(old)
    share = chance.choice((0.0, 0.1, 0.5, 0.9, 1.0))
    for at in range(0, size, SECTOR_BYTES):
        sector = slice(at, at + SECTOR_BYTES)
        if old[sector] != new[sector] and chance.random() < share:
            kept[sector] = new[sector]
    return bytes(kept[: chance.choice((len(synced), len(present)))])


def open_on(file: File, mode: Any = "rw", **settings: Any) -> Database:
    """Open a database on any implementation of `File`, as `memdb.open` does on a path.

    Nothing runs in the background unless ``flush_interval`` says so.
    """
    config = Config(**{"flush_interval": 86_400.0, **settings})
    log = Log(
        file,
        mode=mode,
        durability=config.durability,
        flush_interval_s=config.flush_interval,
        checkpoint_interval=config.checkpoint_interval,
        keys=keys_of(config, file.path),
    )
    return Database(Engine(log, without_secrets(config), mode))


def drop(db: Database) -> None:
    """Let go of a database as a killed process does: nothing is flushed, marked or cut."""
    engine = db._engine
    engine._finalizer.detach()
    log = engine.log
    log._is_closing = True
    log._flusher.stop()
    with contextlib.suppress(BufferError):
        log.data.close()
    OSFile.close(log._file)  # type: ignore[arg-type]
