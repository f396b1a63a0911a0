"""The log as it is read: versions, pointers, and whether that is still possible."""

from __future__ import annotations

import contextlib
import mmap
import struct
import weakref
from array import array
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from memdb.errors import DamageError
from memdb.storage._blocks import Array, BlockHeader, checksum32
from memdb.storage._checkpoint import unchecked_slot
from memdb.storage._constants import LOG_START, POINTER, POINTER_BYTES, POINTER_SEALED
from memdb.storage._era import Era, Moved
from memdb.storage._file import File
from memdb.storage._flusher import Flusher
from memdb.storage._gate import Shut, shut_error
from memdb.storage._recovery import LogState
from memdb.storage._saved import SavedIndex, from_catalogue, unpack_arrays

if TYPE_CHECKING:
    from memdb.storage._cipher import Cipher

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

    Slots are those of the program, which go on when the log goes over to another file: see `Era`.

    Threads: `read` needs no lock.

    Attributes:
        era: The present file.
        damaged: Offsets of the payloads that were met and were not as they had been written.
    """

    __slots__ = (
        "_count",
        "_earlier",
        "_file",
        "_flusher",
        "_state",
        "damaged",
        "data",
        "end",
        "era",
        "gate",
        "is_closed",
        "path",
        "positions",
    )

    # By the numbers of the file.
    _count: int
    _earlier: list[weakref.ref[Era]]
    _file: File
    _flusher: Flusher
    _state: LogState
    damaged: set[int]
    data: mmap.mmap
    end: int
    era: Era
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

    def era_of(self, slot: int) -> Era:
        """Return the era of a slot.

        Raises:
            Moved: Nobody keeps it any more.
        """
        era = self.era
        if 0 < slot - era.base <= len(era.positions):
            return era
        self.raise_if_closed()
        for reference in self._earlier:
            earlier = reference()
            if earlier is not None and earlier.base < slot < earlier.stop:
                return earlier
        raise Moved

    def read(self, slot: int) -> tuple[int, int, int, bytes]:
        """Return identity, writer, kind and the checked bytes of a version.

        Raises:
            DamageError: The bytes do not match their checksum.
            Moved: The log went over to another file since the slot was looked up, and nobody
                keeps the `Era` of before.

        Cost: O(length), no system call. Positions before data: a map that is younger than
        the position covers it.
        """
        era = self.era
        number = slot - era.base
        if number <= 0 or number >= len(era.positions):
            era = self.era_of(slot)
            number = slot - era.base
        position = era.positions[number]
        data = era.data
        try:
            identity, offset, length, checksum, _, writer, kind, _, _ = _unpack_pointer(
                data, position
            )
            payload = data[offset : offset + length]
            pointer = b"" if era.cipher is None else data[position : position + POINTER_BYTES]
        except (struct.error, ValueError):
            # Another thread closed the map since the caller looked.
            self.raise_if_closed()
            raise
        if length and checksum32(payload) != checksum:
            raise self._damage(identity, offset)
        if era.cipher is not None and length:
            opened = era.cipher.open_one(number, pointer, payload)
            if opened is None:
                raise self._tampering(identity, offset)
            payload = opened
        return identity, writer, kind, payload

    def _damage(self, identity: int, offset: int) -> DamageError:
        """Return the error for the bytes of a version that do not match their checksum."""
        self.damaged.add(offset)
        return DamageError(
            f"{self.path}: record {identity} at byte {offset} does not match its checksum."
            " The file is damaged there; the other records stay readable."
            " Restore this one from a copy.",
            path=self.path,
            offset=offset,
        )

    def _tampering(self, identity: int, offset: int) -> DamageError:
        """Return the error for a version that is not as it was encrypted."""
        self.damaged.add(offset)
        return DamageError(
            f"{self.path}: record {identity} at byte {offset} fails its authentication tag:"
            " somebody has changed it, or put it where another one was. The other records stay"
            " readable. Restore this one from a copy.",
            path=self.path,
            offset=offset,
        )

    def payloads(self, slots: Array) -> Iterator[Payloads]:
        """Give the bytes of many versions, in parts of some thousand, in the order of ``slots``.

        Args:
            slots: (n,) of integers, each from 1.

        Raises:
            DamageError: The bytes of a version do not match their checksum, as `read` says.

        Cost: O(bytes), 135 ns a record of 60 bytes, where `read` takes 300; 700 more for an
        encrypted one.
        """
        if not len(slots):
            return
        era = self.era_of(int(slots[0]))
        pointers = self.pointers_of(slots)
        # After the pointers: a map that is younger than a slot covers it. The same for all parts:
        # once it is closed, each of them raises.
        data = era.data
        for start in range(0, len(pointers), _PART_PAYLOADS):
            with self.while_open():
                part = self._payloads_at(data, pointers[start : start + _PART_PAYLOADS])
                if era.cipher is not None:
                    numbers = slots[start : start + _PART_PAYLOADS] - era.base
                    part = self._opened(era.cipher, numbers, pointers[start:], part)
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

    def _opened(self, cipher: Cipher, numbers: Array, pointers: Array, part: Payloads) -> Payloads:
        """Return versions with the bytes that they had before they were encrypted."""
        pointers = pointers[: len(numbers)]
        payloads = cipher.open_many(numbers, pointers, part.payloads)
        if payloads is None:
            for number, pointer, sealed in zip(
                numbers.tolist(), pointers, part.payloads, strict=True
            ):
                if sealed and cipher.open_one(number, pointer.tobytes(), sealed) is None:
                    raise self._tampering(int(pointer["identity"]), int(pointer["offset"]))
            raise AssertionError("a version opens alone only")  # pragma: no cover
        first_bytes = np.frombuffer(b"".join([each[:1] or b"\0" for each in payloads]), "u1")
        return part._replace(first_bytes=first_bytes, payloads=payloads)

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
        era = self.era_of(slot)
        position = era.positions[slot - era.base]
        identity, _, _, _, collection, _, _, _, _ = _unpack_pointer(era.data, position)
        return identity, collection

    @property
    def is_encrypted(self) -> bool:
        """Whether the present file is encrypted."""
        return self._state.cipher is not None

    def key_hash(self) -> Callable[[bytes, int], int] | None:
        """Return the hash of natural keys in an encrypted file, None for a plain one."""
        cipher = self._state.cipher
        return None if cipher is None else cipher.key_hash()

    def is_sealed(self, slot: int) -> bool:
        """Whether the bytes of a version are encrypted in the file. Cost: O(1)."""
        era = self.era_of(slot)
        position = era.positions[slot - era.base]
        return bool(_unpack_pointer(era.data, position)[7] & POINTER_SEALED)

    def pointer_parts(self) -> Iterator[tuple[int, Array]]:
        """Give all pointers of the present file in order of slots, see `PointerMap.parts`.

        `lock` is held until all of them were given.
        """
        return self.era.parts(self._count)

    def pointers(self, start: int | None = None, stop: int | None = None) -> Array:
        """Return the pointers of the slots from ``start`` to before ``stop``.

        Args:
            start: The first of the present file unless told.
            stop: Of the same era; the next slot of all unless told.

        Returns:
            (n,) POINTER_DTYPE, a copy.

        Raises:
            Moved: As `read`.
        """
        era = self.era if start is None else self.era_of(start)
        first = 1 if start is None else start - era.base
        if stop is None:
            # The present file, unless it is no more.
            stop = era.base + self._count if era is self.era else era.stop
        # After the count: a map that is younger than a slot covers its pointer.
        data = era.data
        with self.while_open():
            return era.map.pointers(data, first, stop - era.base)

    def pointers_of(self, slots: Array) -> Array:
        """Return the pointers of ``slots``, (n,) of integers of one era, as (n,) POINTER_DTYPE.

        Raises:
            Moved: As `read`.
        """
        slots = np.asarray(slots)
        era = self.era_of(int(slots[0])) if len(slots) else self.era
        # A copy first: an array that NumPy looks at can't grow meanwhile.
        positions = np.array(era.positions[:], dtype="<u8")
        data = era.data
        with self.while_open():
            return era.map.gather(data, positions[slots - era.base])

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
        era = self.era_of(slot)
        return era.map.time_of(slot - era.base)

    @property
    def catalogue(self) -> dict[str, Any]:
        """The newest catalogue; empty for a new file."""
        return self._state.catalogue

    def read_catalogue(self, header: BlockHeader, body: bytes | memoryview) -> dict[str, Any]:
        """Return the catalogue of a block of the present file; see `LogState`."""
        return self._state.read_catalogue(header, body, self.path)

    def saved_indexes(self, collection: int) -> list[SavedIndex]:
        """Return the saved indexes of a collection, as the catalogue has them."""
        return [
            saved._replace(slot=self.era.base + saved.slot)
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
            era = self.era
            return unpack_arrays(era.data, era.file_id, saved, self.end, era.cipher)

    @property
    def last_identities(self) -> dict[int, int]:
        """Collection -> highest identity ever given, as of the opening."""
        return self._state.last_identities

    @property
    def first_slot(self) -> int:
        """The slot of the first version in the present file."""
        return self.era.base + 1

    @property
    def next_slot(self) -> int:
        """The slot that the next version gets."""
        return self.era.base + self._count

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
