"""The log as it is read: versions, pointers, and whether that is still possible."""

from __future__ import annotations

import contextlib
import mmap
import struct
from array import array
from collections.abc import Iterator
from typing import Any

import numpy as np

from memdb.errors import DamageError
from memdb.storage._blocks import Array, checksum32
from memdb.storage._checkpoint import unchecked_slot
from memdb.storage._constants import LOG_START, POINTER, POINTER_BYTES
from memdb.storage._file import File
from memdb.storage._flusher import Flusher
from memdb.storage._gate import Shut, shut_error
from memdb.storage._recovery import LogState

_unpack_pointer = POINTER.unpack_from


class LogReader:
    """What an open log gives to readers; `Log` fills the attributes.

    Threads: `read` needs no lock.
    """

    __slots__ = (
        "_count",
        "_file",
        "_flusher",
        "_state",
        "data",
        "end",
        "gate",
        "is_closed",
        "path",
        "positions",
    )

    _count: int
    _file: File
    _flusher: Flusher
    _state: LogState
    data: mmap.mmap
    end: int
    gate: object | None
    is_closed: bool
    path: str | None
    positions: array[int]

    def raise_if_unusable(self) -> None:
        """Raise what the gate says, if it is an error and not a transaction."""
        if isinstance(self.gate, Shut):
            if self.gate is Shut.FAILED:
                self._flusher.failure = None
            raise shut_error(self.gate, self.path)

    def raise_if_closed(self) -> None:
        """Raise if not even reading is possible."""
        if self.is_closed:
            self.raise_if_unusable()

    def read(self, slot: int) -> tuple[int, int, int, bytes]:
        """Return identity, writer, kind and the checked bytes of a version.

        Raises:
            DamageError: The bytes do not match their checksum.

        Cost: O(length), no system call. Positions before data: a map that is younger than
        the position covers it.
        """
        position = self.positions[slot]
        data = self.data
        try:
            identity, offset, length, checksum, _, writer, kind, _, _ = _unpack_pointer(
                data, position
            )
            payload = data[offset : offset + length]
        except (struct.error, ValueError):
            # Another thread closed the map since the caller looked.
            self.raise_if_closed()
            raise
        if length and checksum32(payload) != checksum:
            raise DamageError(
                f"{self.path}: record {identity} at byte {offset} does not match its checksum."
                " The file is damaged there; the other records stay readable."
                " Restore this one from a copy.",
                path=self.path,
                offset=offset,
            )
        return identity, writer, kind, payload

    def pointer_parts(self) -> Iterator[tuple[int, Array]]:
        """Give all pointers in order of slots, see `PointerMap.parts`; for the opening."""
        return self._state.map.parts(self.data, 1, self._count)

    def pointers(self, start: int = 1, stop: int | None = None) -> Array:
        """Return the pointers of the slots from ``start`` to before ``stop`` (to the last).

        Returns:
            (n,) POINTER_DTYPE, a copy.
        """
        stop = self._count if stop is None else stop
        # After the count: a map that is younger than a slot covers its pointer.
        data = self.data
        with self.while_open():
            return self._state.map.pointers(data, start, stop)

    def pointers_of(self, slots: Array) -> Array:
        """Return the pointers of ``slots``, (n,) of integers, as (n,) POINTER_DTYPE."""
        # A copy first: an array that NumPy looks at can't grow meanwhile.
        positions = np.array(self.positions[:], dtype="<u8")
        data = self.data
        with self.while_open():
            return self._state.map.gather(data, positions[slots])

    @contextlib.contextmanager
    def while_open(self) -> Iterator[None]:
        """Turn what a map that another thread closes meanwhile raises into ClosedError."""
        try:
            yield
        except (ValueError, IndexError):
            self.raise_if_closed()
            raise

    def time_of(self, slot: int) -> int:
        """Return when the version was committed, nanoseconds since 1970-01-01 UTC."""
        return self._state.map.time_of(slot)

    @property
    def catalogue(self) -> dict[str, Any]:
        """The newest catalogue; empty for a new file."""
        return self._state.catalogue

    @property
    def last_identities(self) -> dict[int, int]:
        """Collection -> highest identity ever given, as of the opening."""
        return self._state.last_identities

    @property
    def next_slot(self) -> int:
        """The slot that the next version gets."""
        return self._count

    def sizes(self) -> dict[str, int]:
        """Return the sizes of the file and the map, in bytes; `lock` is held."""
        self.raise_if_closed()
        return {
            "file_bytes": self._file.length(),
            "log_bytes": self.end - LOG_START,
            "map_bytes": self._count * (POINTER_BYTES + self.positions.itemsize),
            "versions": self._count - 1,
            "unchecked_versions": self._count - unchecked_slot(self._state),
        }
