"""Opening: from the bytes of a file to the state of its log, telling a torn tail from damage."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from memdb.errors import DamageError, NotADatabaseError, UnsupportedFormatError
from memdb.storage._blocks import (
    Array,
    BlockHeader,
    Checkpoint,
    Root,
    checksum32,
    checksum64,
    unpack_block,
    unpack_checked,
    unpack_checkpoint,
    unpack_header,
    unpack_root,
)
from memdb.storage._catalogue import unpack_catalogue
from memdb.storage._constants import (
    ALIGNMENT,
    BLOCK_BYTES,
    BOOT_ID_BYTES,
    CATALOGUE_MAGIC,
    CHECKPOINT_MAGIC,
    CHECKSUM_BYTES,
    COMMIT_MAGIC,
    ENCRYPTED_FORMAT_VERSION,
    FORMAT_VERSION,
    HEADER_BYTES,
    INDEX_MAGIC,
    LOG_START,
    MAGIC,
    MAGIC_OFFSET,
    POINTER,
    POINTER_BYTES,
    POINTER_DTYPE,
    ROOT_BYTES,
    ROOT_OFFSETS,
)
from memdb.storage._file import File, MapAccess
from memdb.storage._key_slots import Keys, missing_key, unexpected_key
from memdb.storage._pointer_map import PointerMap
from memdb.storage._singles import Pieces, take_singles

if TYPE_CHECKING:
    from memdb.storage._cipher import Cipher

_CHUNK_BYTES = 1 << 20
ANY_MAGIC = COMMIT_MAGIC[:3]
# A reader may meet a block that the writer is just writing; it looks again this often.
_READER_ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class Recovery:
    """What opening had to mend, because the file was not closed or its end is torn.

    Attributes:
        was_clean: The last writer had closed the file.
        replayed_commits: Commits found behind the last checkpoint.
        replayed_versions: Versions in them.
        cut_offset: Where the log ends, bytes from the start of the file.
        cut_bytes: Length of what lay behind it, reserved space of a dead writer not counted.
        kept_in: Path of the file to which a torn tail was copied; None when it was only zeros,
            or the database is open for reading.
        finished_rekey: A change of the key or password that was cut short was carried through:
            from this opening on the one before opens the file no more.
    """

    was_clean: bool
    replayed_commits: int
    replayed_versions: int
    cut_offset: int
    cut_bytes: int
    kept_in: str | None
    finished_rekey: bool = False


@dataclass(slots=True)
class LinkedCheckpoint:
    """A checkpoint in the chain: where it lies and which slots it gathers."""

    offset: int
    first_slot: int
    count: int
    has_large_commits: bool


class Mark(NamedTuple):
    """How far a log is known; the names are those of `LogState`."""

    next_slot: int
    end: int
    sequence: int
    timestamp: int
    last_block: int
    catalogue: dict[str, Any]
    catalogue_offset: int
    chain: tuple[LinkedCheckpoint, ...]
    has_index_behind: bool


@dataclass(slots=True)
class LogState:
    """What is known of a log once it is open."""

    file_id: int
    root: Root
    cipher: Cipher | None = None
    """What opens the records, the catalogue and the indexes of an encrypted file."""
    map: PointerMap = field(default_factory=PointerMap)
    catalogue: dict[str, Any] = field(default_factory=dict)
    catalogue_offset: int = 0
    chain: list[LinkedCheckpoint] = field(default_factory=list)
    last_identities: dict[int, int] = field(default_factory=dict)
    large_commits: list[tuple[int, int, int]] = field(default_factory=list)
    """(first slot, commit offset, count) of large commits behind the last checkpoint."""
    has_index_behind: bool = False
    """An index block lies behind the last checkpoint."""
    end: int = LOG_START
    sequence: int = 0
    timestamp: int = 0
    last_block: int = 0
    """Offset of the block that ends at `end`, 0 for none."""
    replayed_commits: int = 0
    replayed_versions: int = 0

    def mark(self) -> Mark:
        """Return how far the log is known, for `go_back`."""
        return Mark(
            self.map.next_slot,
            self.end,
            self.sequence,
            self.timestamp,
            self.last_block,
            self.catalogue,
            self.catalogue_offset,
            tuple(self.chain),
            self.has_index_behind,
        )

    def go_back(self, mark: Mark) -> None:
        """Forget what was walked over since; harmless when that is nothing."""
        self.map.cut(mark.next_slot)
        self.large_commits = [each for each in self.large_commits if each[0] < mark.next_slot]
        self.end, self.sequence, self.timestamp = mark.end, mark.sequence, mark.timestamp
        self.last_block = mark.last_block
        self.catalogue, self.catalogue_offset = mark.catalogue, mark.catalogue_offset
        self.chain = list(mark.chain)
        self.has_index_behind = mark.has_index_behind

    def note(self, header: BlockHeader) -> None:
        """Move the end of the log behind a block."""
        self.end = header.end
        self.sequence = header.sequence
        self.timestamp = header.timestamp
        self.last_block = header.offset

    def read_catalogue(
        self, header: BlockHeader, body: bytes | memoryview, path: str | None
    ) -> dict[str, Any]:
        """Return the catalogue of a block whose checksum is right.

        Raises:
            DamageError: It is not what memdb writes.
        """
        opened: bytes | memoryview | None = body
        if self.cipher is not None:
            opened = self.cipher.open_block(header.magic, header.sequence, body)
        if opened is None:
            raise DamageError(
                f"{path}: the catalogue at byte {header.offset} is not as it was encrypted:"
                " somebody has changed the file. Restore it from a copy.",
                path=path,
                offset=header.offset,
            )
        catalogue: dict[str, Any] = unpack_catalogue(opened, path, header.offset)
        return catalogue

    def note_identities(self, pointers: Array) -> None:
        """Raise the highest identity of each collection to those of ``pointers``."""
        # Not np.unique, whose first call imports for ten milliseconds.
        for collection in np.flatnonzero(np.bincount(pointers["collection"])).tolist():
            highest = int(pointers["identity"][pointers["collection"] == collection].max())
            if highest > self.last_identities.get(collection, 0):
                self.last_identities[collection] = highest


class _Snapshot:
    """What lies behind the root's log end, read at once.

    For a reader: a busy writer appends faster than a walk goes, which would chase it for long.
    """

    def __init__(self, file: File, start: int) -> None:
        self._start = start
        self._data = file.read(start, max(file.length() - start, 0))
        self.length = start + len(self._data)

    def read(self, offset: int, size: int) -> bytes:
        """Return ``size`` bytes from ``offset``, fewer only at the end."""
        start = offset - self._start
        return self._data[start : start + size]

    def piece(self, offset: int) -> tuple[bytes, int]:
        """Return all of it, and where it begins."""
        return self._data, self._start


@dataclass(frozen=True, slots=True)
class Tail:
    """What follows the last valid block.

    Attributes:
        torn: The bytes from the end of the log to the last that is not zero.
        zero_bytes: How many zeros follow those.
        next_block: Offset of a valid block with a higher sequence, or None.
    """

    torn: bytes
    zero_bytes: int
    next_block: int | None


class Source(Pieces, Protocol):
    """Gives parts of a file."""

    def read(self, offset: int, size: int) -> bytes | memoryview:
        """Return ``size`` bytes from ``offset``, fewer only at the end of the file."""


class MapReader:
    """Reads what is synced through a map: nothing is copied, which halves a cold start."""

    def __init__(self, data: mmap.mmap) -> None:
        self._view = memoryview(data)
        self.length = len(data)

    def read(self, offset: int, size: int) -> memoryview:
        """Return ``size`` bytes from ``offset``, fewer only at the end of the map."""
        return self._view[offset : offset + size]

    def piece(self, offset: int) -> tuple[memoryview, int]:
        """Return the map."""
        return self._view, 0


class Window:
    """Reads a file forward in large pieces; what lies behind the root's log end may change.

    Args:
        file: The file.
        length: Where it is taken to end; where it does unless told.
        piece_bytes: How much is read at first; then twice as much each time, up to a megabyte.
    """

    def __init__(
        self, file: File, length: int | None = None, piece_bytes: int = _CHUNK_BYTES
    ) -> None:
        self._file = file
        self.length = file.length() if length is None else length
        self._piece_bytes = piece_bytes
        self._start = 0
        self._data = b""

    def read(self, offset: int, size: int) -> bytes:
        """Return ``size`` bytes from ``offset``, fewer only at the end of the file."""
        start = offset - self._start
        if start < 0 or start + size > len(self._data):
            self._start, start = offset, 0
            self._data = self._file.read(offset, max(size, self._piece_bytes))
            self._piece_bytes = min(2 * self._piece_bytes, _CHUNK_BYTES)
        return self._data[start : start + size]

    def piece(self, offset: int) -> tuple[bytes, int]:
        """Return what was read at once with the bytes at ``offset``."""
        self.read(offset, BLOCK_BYTES + POINTER_BYTES)
        return self._data, self._start


def read_header(file: File) -> tuple[int, bool]:
    """Check the header page; return the file id, and whether the file is encrypted.

    Raises:
        NotADatabaseError: The file does not begin as a memdb file.
        UnsupportedFormatError: A newer memdb wrote it.
        DamageError: It is a memdb file with a damaged header.
    """
    path = file.path
    data = file.read(0, HEADER_BYTES)
    if data[: len(MAGIC)] != MAGIC:
        raise NotADatabaseError(
            f"{path}: is not a memdb file (it begins with {data[:8]!r}). Check the path;"
            " memdb never overwrites another file.",
            path=path,
        )
    if len(data) < HEADER_BYTES:
        raise DamageError(
            f"{path}: was cut to {len(data)} bytes. Restore it from a copy.",
            path=path,
            offset=len(data),
        )
    _, version, file_id, matches = unpack_header(data)
    if not matches:
        raise DamageError(
            f"{path}: the header does not match its checksum. Restore the file from a copy.",
            path=path,
        )
    if not FORMAT_VERSION <= version <= ENCRYPTED_FORMAT_VERSION:
        raise UnsupportedFormatError(
            f"{path}: is in format version {version}, this memdb knows"
            f" {ENCRYPTED_FORMAT_VERSION}. Open it with a newer memdb.",
            path=path,
            found=version,
            supported=ENCRYPTED_FORMAT_VERSION,
        )
    return file_id, version == ENCRYPTED_FORMAT_VERSION


def unlock(file: File, file_id: int, is_encrypted: bool, keys: Keys | None) -> Cipher | None:
    """Return what opens the records of a file, None for a plain one.

    Raises:
        WrongKeyError: The key is not the file's, or missing, or the file is not encrypted.
        DamageError: No key slot is whole.
    """
    if keys is None:
        if is_encrypted:
            raise missing_key(file.path)
        return None
    if not is_encrypted:
        raise unexpected_key(file.path)
    # Not above: only those who encrypt pay for its import, and need the library.
    from memdb.storage._cipher import Cipher

    keys.unlock(file, file_id)
    return Cipher(keys.data_key, file_id, is_marked=keys.is_marked)


def read_root(file: File, file_id: int) -> Root:
    """Return the newest valid root.

    Raises:
        DamageError: None is valid, or the file is shorter than it was when last synced.
    """
    roots = [unpack_root(file.read(offset, ROOT_BYTES), file_id) for offset in ROOT_OFFSETS]
    valid = [root for root in roots if root is not None]
    if not valid:
        raise DamageError(
            f"{file.path}: neither root (bytes {ROOT_OFFSETS[0]} and {ROOT_OFFSETS[1]}) matches"
            " its checksum. Restore the file from a copy.",
            path=file.path,
            offset=ROOT_OFFSETS[0],
        )
    root = max(valid, key=lambda root: root.generation)
    length = file.length()
    if length < root.log_end:
        raise DamageError(
            f"{file.path}: was cut to {length} bytes, its log reached to byte {root.log_end}."
            " Restore the file from a copy.",
            path=file.path,
            offset=length,
        )
    return root


def load(
    file: File, access: MapAccess, keys: Keys | None = None
) -> tuple[LogState, Tail, mmap.mmap]:
    """Read the state of the log from a file, changing nothing.

    Args:
        file: Is locked, unless ``access`` is ``read``: then a writer may be at work in it.
        access: How to map the file.
        keys: Of an encrypted file.

    Returns:
        The state, what follows the last valid block, and the map up to the log's end.

    Raises:
        OpenError: It is not a memdb file, or one of a newer format, or these are not its keys.
        DamageError: The log is damaged; the offset says where.
    """
    file_id, is_encrypted = read_header(file)
    cipher = unlock(file, file_id, is_encrypted, keys)
    state = LogState(file_id, read_root(file, file_id), cipher)
    mapped_end = state.root.log_end
    data = file.map(mapped_end, access)
    reader = MapReader(data)
    _load_checkpoints(file, reader, state)
    _load_catalogue(file, reader, state)
    is_reader = access == "read"
    for attempt in range(_READER_ATTEMPTS if is_reader else 1):
        end = state.end
        source = _Snapshot(file, end) if is_reader else Window(file)
        walk(file, source, state)
        tail = read_tail(source, state)
        # A writer may have been in the middle of the block at the end. If so, it is whole now.
        if tail.next_block is None or (attempt and state.end == end):
            break
    else:
        if is_reader:
            # Each walk came further: a busy writer, and nothing is damaged.
            tail = replace(tail, next_block=None)
    _judge(file, state, tail)
    if state.end > mapped_end:
        data = file.map(state.end, access)
    return state, tail, data


def walk(file: File, source: Source, state: LogState) -> None:
    """Take in the valid blocks from the end of the log on.

    Cost: O(blocks and their payloads), at most about a checkpoint interval after a crash.
    """
    take_singles(source, state)
    for header, data in whole_blocks(source, state):
        if header.magic == COMMIT_MAGIC:
            _take_commit(state, header, data)
        elif header.magic == CATALOGUE_MAGIC:
            body = data[BLOCK_BYTES + CHECKSUM_BYTES :]
            body = body[: header.payload_bytes - CHECKSUM_BYTES]
            state.catalogue = state.read_catalogue(header, body, file.path)
            state.catalogue_offset = header.offset
        elif header.magic == CHECKPOINT_MAGIC:
            _take_checkpoint(file, source, state, header)
        elif header.magic == INDEX_MAGIC:
            state.has_index_behind = True
        state.note(header)
        take_singles(source, state)


def _take_commit(state: LogState, header: BlockHeader, data: bytes | memoryview) -> None:
    slot = state.map.next_slot
    state.map.add_run(slot, header.timestamp)
    if header.count == 1:
        identity, _, _, _, collection, *_ = POINTER.unpack_from(data, BLOCK_BYTES)
        if identity > state.last_identities.get(collection, 0):
            state.last_identities[collection] = identity
        state.map.positions.append(header.pointers_offset)
    else:
        state.note_identities(np.frombuffer(data, POINTER_DTYPE, header.count, BLOCK_BYTES))
        state.map.extend(header.pointers_offset, header.count)
    if header.count >= LARGE_COMMIT:
        state.large_commits.append((slot, header.offset, header.count))
    state.replayed_commits += 1
    state.replayed_versions += header.count


def _take_checkpoint(file: File, source: Source, state: LogState, header: BlockHeader) -> None:
    """A checkpoint behind the root's one: link it, its versions are known from the walk."""
    checkpoint = _read_checkpoint(file, source, state, header)
    while state.chain and state.chain[-1].offset != checkpoint.previous:
        state.chain.pop()
    count = state.map.next_slot - checkpoint.first_slot
    state.chain.append(_link(header, checkpoint, count))
    state.large_commits.clear()
    state.has_index_behind = False


# Commits of at least so many versions are referred to by checkpoints, not gathered again.
LARGE_COMMIT = 4096


def _link(header: BlockHeader, checkpoint: Checkpoint, count: int) -> LinkedCheckpoint:
    has_large = bool((checkpoint.segments["key"] != 0).any())
    return LinkedCheckpoint(header.offset, checkpoint.first_slot, count, has_large)


def whole_blocks(
    source: Source, state: LogState
) -> Iterator[tuple[BlockHeader, bytes | memoryview]]:
    """Give the valid blocks from the end of the log on, as headers and whole bytes."""
    while True:
        header = valid_header(source, state.file_id, state.end, source.length)
        # With its padding: the next block begins behind that, and the log is mapped up to there.
        if header is None or header.end > source.length or header.sequence != state.sequence + 1:
            return
        size = header.payload_offset - header.offset + header.payload_bytes
        data = source.read(header.offset, size)
        if not _is_payload_valid(header, data, state.file_id):
            return
        yield header, data


def valid_header(source: Source, file_id: int, offset: int, length: int) -> BlockHeader | None:
    """Return the header at ``offset`` if it and its pointers match their checksum."""
    data = source.read(offset, BLOCK_BYTES)
    if len(data) < BLOCK_BYTES:
        return None
    unpacked = unpack_block(data, offset)
    if unpacked is None:
        return None
    checksum, header = unpacked
    if header.payload_offset + header.payload_bytes > length:
        return None
    data = source.read(offset, header.payload_offset - offset)
    return header if checksum64(data[CHECKSUM_BYTES:], file_id) == checksum else None


def _is_payload_valid(header: BlockHeader, data: bytes | memoryview, file_id: int) -> bool:
    start = header.payload_offset - header.offset
    if len(data) < start + header.payload_bytes:
        return False
    if header.magic != COMMIT_MAGIC:
        return unpack_checked(data[start:], file_id) is not None
    if header.count == 1:
        _, offset, length, checksum, *_ = POINTER.unpack_from(data, BLOCK_BYTES)
        offset -= header.offset
        return not length or checksum32(data[offset : offset + length]) == checksum
    pointers = np.frombuffer(data, POINTER_DTYPE, header.count, BLOCK_BYTES)
    view = memoryview(data)
    rows = zip(
        (pointers["offset"] - np.uint64(header.offset)).tolist(),
        pointers["length"].tolist(),
        pointers["checksum"].tolist(),
        strict=True,
    )
    return all(not n or checksum32(view[at : at + n]) == checksum for at, n, checksum in rows)


def _read_checked_block(
    file: File, reader: Source, state: LogState, offset: int, magic: bytes
) -> BlockHeader:
    """Return the header of a block that a root or a checkpoint names; it must be valid."""
    header = valid_header(reader, state.file_id, offset, state.root.log_end)
    if header is None or header.magic != magic:
        raise DamageError(
            f"{file.path}: the block at byte {offset} does not match its checksum."
            " Restore the file from a copy.",
            path=file.path,
            offset=offset,
        )
    return header


def _read_body(
    file: File, reader: Source, state: LogState, header: BlockHeader
) -> bytes | memoryview:
    payload = reader.read(header.payload_offset, header.payload_bytes)
    body = unpack_checked(payload, state.file_id)
    if body is None:
        raise DamageError(
            f"{file.path}: the payload at byte {header.payload_offset} does not match its"
            " checksum. Restore the file from a copy.",
            path=file.path,
            offset=header.payload_offset,
        )
    return body


def _read_checkpoint(
    file: File, reader: Source, state: LogState, header: BlockHeader
) -> Checkpoint:
    return unpack_checkpoint(_read_body(file, reader, state, header), file.path, header.offset)


def _load_checkpoints(file: File, reader: Source, state: LogState) -> None:
    """Follow the chain from the root and fill the pointer map from it."""
    root = state.root
    chain: list[tuple[BlockHeader, Checkpoint]] = []
    offset = root.checkpoint
    while offset:
        header = _read_checked_block(file, reader, state, offset, CHECKPOINT_MAGIC)
        checkpoint = _read_checkpoint(file, reader, state, header)
        chain.append((header, checkpoint))
        offset = checkpoint.previous
    for header, checkpoint in reversed(chain):
        _load_checkpoint(file, reader, state, header, checkpoint)
        state.note(header)
    if chain:
        last = chain[0][1].last_identities
        state.last_identities = dict(zip(last["key"].tolist(), last["value"].tolist(), strict=True))


def _load_checkpoint(
    file: File, reader: Source, state: LogState, header: BlockHeader, checkpoint: Checkpoint
) -> None:
    slots = state.map
    before = slots.next_slot
    if checkpoint.first_slot != before:
        raise DamageError(
            f"{file.path}: the checkpoint at byte {header.offset} starts at slot"
            f" {checkpoint.first_slot}, {before} was expected.",
            path=file.path,
            offset=header.offset,
        )
    for slot, timestamp in checkpoint.runs.tolist():
        slots.add_run(slot, timestamp)
    own = header.pointers_offset
    for offset, count in checkpoint.segments.tolist():
        if offset:
            commit = _read_checked_block(file, reader, state, offset, COMMIT_MAGIC)
            slots.extend(commit.pointers_offset, count)
        else:
            slots.extend(own, count)
            own += count * POINTER_BYTES
    state.chain.append(_link(header, checkpoint, slots.next_slot - before))


def _load_catalogue(file: File, reader: Source, state: LogState) -> None:
    offset = state.root.catalogue
    if offset:
        header = _read_checked_block(file, reader, state, offset, CATALOGUE_MAGIC)
        body = _read_body(file, reader, state, header)
        state.catalogue = state.read_catalogue(header, body, file.path)
        state.catalogue_offset = offset


def read_tail(source: Source, state: LogState) -> Tail:
    """Return what follows the end of the log."""
    start, length = state.end, source.length
    last, next_block = start, None
    for offset in range(start, length, _CHUNK_BYTES):
        # A magic may lie across the border of two pieces.
        data = bytes(source.read(offset, _CHUNK_BYTES + MAGIC_OFFSET))
        stripped = len(data.rstrip(b"\0"))
        if stripped:
            last = max(last, offset + stripped)
            if next_block is None:
                next_block = _find_block(source, state, offset, data)
    torn = bytes(source.read(start, last - start))
    return Tail(torn, max(length - last, 0), next_block)


def _find_block(source: Source, state: LogState, start: int, data: bytes) -> int | None:
    """Return the offset of a valid block with a higher sequence whose magic is in ``data``."""
    at = data.find(ANY_MAGIC)
    while at >= 0:
        offset = start + at - MAGIC_OFFSET
        # At the end itself only the payload can be bad: that block is the torn one.
        if offset > state.end and offset % ALIGNMENT == 0:
            header = valid_header(source, state.file_id, offset, source.length)
            if header is not None and header.sequence > state.sequence:
                return offset
        at = data.find(ANY_MAGIC, at + 1)
    return None


def _judge(file: File, state: LogState, tail: Tail) -> None:
    """Raise if what follows the log is damage and not a torn tail."""
    root = state.root
    has_rebooted = (
        bytes(BOOT_ID_BYTES) not in (root.boot_id, file.boot_id) and root.boot_id != file.boot_id
    )
    if state.end < root.log_end or (tail.next_block is not None and not has_rebooted):
        raise DamageError(
            f"{file.path}: the block at byte {state.end} is damaged, and whole ones follow it"
            f" (at byte {max(tail.next_block or 0, state.end)})."
            " The file was not changed. Restore it from a copy.",
            path=file.path,
            offset=state.end,
        )
