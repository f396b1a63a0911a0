"""The log as it is read: versions, pointers, and whether that is still possible."""

from __future__ import annotations

import contextlib
import mmap
import struct
from array import array
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from memdb.errors import DamageError
from memdb.storage._blocks import Array, checksum32
from memdb.storage._checkpoint import unchecked_slot
from memdb.storage._constants import LOG_START, POINTER, POINTER_BYTES
from memdb.storage._file import File
from memdb.storage._flusher import Flusher
from memdb.storage._gate import Shut, shut_error
from memdb.storage._recovery import LogState
from memdb.storage._saved import SavedIndex, from_catalogue, unpack_arrays

_unpack_pointer = POINTER.unpack_from

# What was just copied is still near the processor when it is looked at: a slice of the map takes
# 40 ns, and 80 when a million are made at once (``timeit``).
_PART_PAYLOADS = 2048


class Payloads(NamedTuple):
    """The bytes of some versions, and what their pointers say; all are of one length.

    Attributes:
        identities: (n,) <i8.
        writers: (n,) <u2.
        first_bytes: (n,) u1, of the bytes; of no meaning for a deletion.
        payloads: The checked bytes, empty for a deletion.
    """

    identities: Array
    writers: Array
    first_bytes: Array
    payloads: list[bytes]


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

    @property
    def is_shut(self) -> bool:
        """Whether nothing can be written any more; an open transaction does not matter."""
        return isinstance(self.gate, Shut)

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
            raise self._damage(identity, offset)
        return identity, writer, kind, payload

    def _damage(self, identity: int, offset: int) -> DamageError:
        """Return the error for the bytes of a version that do not match their checksum."""
        return DamageError(
            f"{self.path}: record {identity} at byte {offset} does not match its checksum."
            " The file is damaged there; the other records stay readable."
            " Restore this one from a copy.",
            path=self.path,
            offset=offset,
        )

    def payloads(self, slots: Array) -> Iterator[Payloads]:
        """Give the bytes of many versions, in parts of some thousand, in the order of ``slots``.

        Args:
            slots: (n,) of integers, each from 1.

        Raises:
            DamageError: The bytes of a version do not match their checksum, as `read` says.

        Cost: O(bytes), 135 ns a record of 60 bytes, where `read` takes 300.
        """
        pointers = self.pointers_of(slots)
        # After the pointers: a map that is younger than a slot covers it. The same for all parts:
        # once it is closed, each of them raises.
        data = self.data
        for start in range(0, len(pointers), _PART_PAYLOADS):
            with self.while_open():
                part = self._payloads_at(data, pointers[start : start + _PART_PAYLOADS])
            yield part

    def _payloads_at(self, data: mmap.mmap, pointers: Array) -> Payloads:
        """Return the bytes that pointers lead to, checked."""
        offsets = pointers["offset"]
        starts, stops = offsets.tolist(), (offsets + pointers["length"]).tolist()
        payloads = [data[start:stop] for start, stop in zip(starts, stops, strict=True)]
        if list(map(checksum32, payloads)) != pointers["checksum"].tolist():
            self._refuse_damaged(pointers, payloads)
        # Nothing is known of the offset of an empty one.
        first_bytes = np.frombuffer(data, "u1").take(offsets.astype(np.intp), mode="clip")
        return Payloads(pointers["identity"], pointers["writer"], first_bytes, payloads)

    def _refuse_damaged(self, pointers: Array, payloads: list[bytes]) -> None:
        """Raise for the first version whose bytes do not match; deletions have none."""
        # The map may have been given up in this very moment, and is an empty one then.
        self.raise_if_closed()
        for pointer, payload in zip(pointers.tolist(), payloads, strict=True):
            identity, offset, length, checksum, *_ = pointer
            if length and checksum32(payload) != checksum:
                raise self._damage(identity, offset)

    def owner_of(self, slot: int) -> tuple[int, int]:
        """Return identity and collection of a version. Cost: O(1)."""
        position = self.positions[slot]
        identity, _, _, _, collection, _, _, _, _ = _unpack_pointer(self.data, position)
        return identity, collection

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

    def saved_indexes(self, collection: int) -> list[SavedIndex]:
        """Return the saved indexes of a collection, as the catalogue has them."""
        return [
            saved
            for saved in from_catalogue(self.catalogue)
            if saved.collection == collection and saved.slot <= self._count
        ]

    def index_arrays(self, saved: SavedIndex) -> dict[str, Array] | None:
        """Return the arrays of a saved index, None if they are damaged and have to be made anew.

        They are views into the map that nobody can write to, and stay valid when the log is
        closed; until they go, the map stays.

        Cost: O(bytes), for the checksum: 0.1 s a GB.
        """
        with self.while_open():
            return unpack_arrays(self.data, self._state.file_id, saved, self.end)

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
