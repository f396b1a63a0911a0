"""Surveying a damaged file: which commits are whole, and what is known of those that are not."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from memdb.errors import DamageError, NotADatabaseError
from memdb.storage._blocks import (
    BlockHeader,
    Checkpoint,
    Root,
    checksum64,
    unpack_checked,
    unpack_checkpoint,
    unpack_header,
    unpack_root,
)
from memdb.storage._constants import (
    ALIGNMENT,
    BLOCK_BYTES,
    CATALOGUE_MAGIC,
    CHECKPOINT_MAGIC,
    CHECKSUM_BYTES,
    COMMIT_MAGIC,
    ENCRYPTED_FORMAT_VERSION,
    FORMAT_VERSION,
    HEADER,
    HEADER_BYTES,
    LOG_START,
    MAGIC_OFFSET,
    POINTER_BYTES,
    ROOT_BYTES,
    ROOT_OFFSETS,
)
from memdb.storage._file import File
from memdb.storage._recovery import ANY_MAGIC, LogState, MapReader, Window, unlock, valid_header

if TYPE_CHECKING:
    from memdb.storage._key_slots import Keys
    from memdb.storage._new_file import Progress

_ID_BYTES = 8
# In larger catalogues no damaged byte is looked for: that takes the square of their size.
_MOST_MENDED_BYTES = 8192


@dataclass(slots=True)
class Piece:
    """A commit whose header and pointers are whole; slot 0 where its place is not known."""

    header: BlockHeader
    slot: int = 0


@dataclass(slots=True)
class Gap:
    """A range of the file without a whole block.

    Attributes:
        start, stop: Where it begins and ends.
        versions: How many versions it held, None where that is not known.
        known: Slot, time and pointer of those that a checkpoint tells of.
        is_tail: No whole block follows: it may be a commit that was never finished.
    """

    start: int
    stop: int
    versions: int | None = None
    known: list[tuple[int, int, bytes]] = field(default_factory=list)
    is_tail: bool = False


@dataclass(slots=True)
class Survey:
    """What is known of a damaged file.

    Attributes:
        state: File id, cipher, last whole catalogue, highest identities.
        created: When the database was made.
        items: Commits and gaps, in order.
        spoilt: Offset and what it was of each other block whose payload is damaged.
        reader: Gives bytes of the file.
    """

    state: LogState
    created: int
    reader: MapReader
    items: list[Piece | Gap] = field(default_factory=list)
    spoilt: list[tuple[int, str]] = field(default_factory=list)


def survey(file: File, keys: Keys | None, progress: Progress, total: int) -> Survey:
    """Look at every block of a file.

    Raises:
        NotADatabaseError: It is none.
        WrongKeyError: These are not its keys.
        DamageError: Nothing in it can be told from anything else.
    """
    head = file.read(0, HEADER_BYTES)
    length = file.length()
    if length <= LOG_START or len(head) < HEADER_BYTES:
        raise NotADatabaseError(
            f"{file.path}: has {length} bytes, too few to hold anything.", path=file.path
        )
    data = file.map(length, "read")
    file_id, root = _identified(file, head)
    _, version, _, is_whole = unpack_header(head)
    is_encrypted = version == ENCRYPTED_FORMAT_VERSION
    if not is_whole and version not in (FORMAT_VERSION, ENCRYPTED_FORMAT_VERSION):
        is_encrypted = keys is not None
    cipher = unlock(file, file_id, is_encrypted, keys)
    created = HEADER.unpack(head)[4]
    made = Survey(LogState(file_id, root, cipher), created, MapReader(data))
    _Surveyor(made, file, length, progress, total).look()
    return made


def _identified(file: File, head: bytes) -> tuple[int, Root]:
    """Return the file id, by which all checksums are made, and the newest root.

    One byte of it may be damaged: of the two thousand others the right one fits a root.
    """
    stored = HEADER.unpack(head)[3].to_bytes(_ID_BYTES, "little")
    pages = [file.read(offset, ROOT_BYTES) for offset in ROOT_OFFSETS]
    window, length = Window(file), file.length()
    for candidate in _candidates(stored):
        file_id = int.from_bytes(candidate, "little")
        roots = [root for page in pages if (root := unpack_root(page, file_id)) is not None]
        if roots:
            return file_id, max(roots, key=lambda root: root.generation)
        if valid_header(window, file_id, LOG_START, length) is not None:
            return file_id, Root(0, LOG_START)
    raise DamageError(
        f"{file.path}: neither a root nor the first block fits the header, so that nothing in the"
        " file can be told from damage. Restore it from a copy.",
        path=file.path,
    )


def _candidates(stored: bytes) -> Iterator[bytes]:
    yield stored
    for place in range(_ID_BYTES):
        for byte in range(256):
            yield stored[:place] + bytes([byte]) + stored[place + 1 :]


class _Surveyor:
    """Fills a survey."""

    def __init__(
        self, made: Survey, file: File, length: int, progress: Progress, total: int
    ) -> None:
        self._made = made
        self._path = file.path
        self._length = length
        self._progress = progress
        self._total = total
        self._slot = 1
        # Index of the first item whose slot is not known.
        self._unknown_from: int | None = None

    def look(self) -> None:
        """Walk over all blocks that are whole."""
        made, reader = self._made, self._made.reader
        offset, sequence = LOG_START, 0
        told = 0
        while offset < self._length:
            header = valid_header(reader, made.state.file_id, offset, self._length)
            if header is None or header.sequence <= sequence:
                header = self._next(offset, sequence)
                stop = self._length if header is None else header.offset
                self._look_for_catalogue(offset, stop, sequence)
                self._gap(offset, stop, is_tail=header is None)
                if header is None:
                    break
            if header.magic == COMMIT_MAGIC:
                made.items.append(Piece(header, self._slot))
                self._slot += header.count if self._slot else 0
            else:
                self._other(header)
            offset, sequence = header.end, header.sequence
            if offset - told >= 1 << 20:
                told = offset
                self._progress(min(offset, self._length), self._total, "bytes")

    def _next(self, offset: int, sequence: int) -> BlockHeader | None:
        """Return the next whole block."""
        reader, piece = self._made.reader, 1 << 20
        for start in range(offset, self._length, piece):
            data = bytes(reader.read(start, piece + MAGIC_OFFSET))
            at = data.find(ANY_MAGIC)
            while at >= 0:
                place = start + at - MAGIC_OFFSET
                if place > offset and place % ALIGNMENT == 0:
                    header = valid_header(reader, self._made.state.file_id, place, self._length)
                    if header is not None and header.sequence > sequence:
                        return header
                at = data.find(ANY_MAGIC, at + 1)
        return None

    def _gap(self, start: int, stop: int, *, is_tail: bool) -> None:
        made = self._made
        if is_tail:
            content = bytes(made.reader.read(start, stop - start)).rstrip(b"\0")
            if not content and start >= made.state.root.log_end:
                # Space that a writer had reserved.
                return
            stop = max(start + len(content), min(made.state.root.log_end, stop))
        if self._unknown_from is None:
            self._unknown_from = len(made.items)
        made.items.append(Gap(start, stop, is_tail=is_tail and start >= made.state.root.log_end))
        self._slot = 0

    def _other(self, header: BlockHeader) -> None:
        """Take in a block that is no commit."""
        made = self._made
        payload = made.reader.read(header.payload_offset, header.payload_bytes)
        body = unpack_checked(payload, made.state.file_id)
        if header.magic == CATALOGUE_MAGIC:
            if not self._take_catalogue(header, bytes(payload)):
                made.spoilt.append((header.offset, "a catalogue"))
        elif header.magic == CHECKPOINT_MAGIC:
            try:
                if body is not None:
                    self._checkpoint(header, unpack_checkpoint(body, self._path, header.offset))
                    return
            except DamageError:
                pass
            made.spoilt.append((header.offset, "a checkpoint"))

    def _take_catalogue(self, header: BlockHeader, payload: bytes) -> bool:
        """Take in a catalogue, also one of which one byte is damaged."""
        made = self._made
        body = _mended(payload, made.state.file_id)
        if body is None:
            return False
        try:
            made.state.catalogue = made.state.read_catalogue(header, body, self._path)
        except DamageError:
            return False
        return True

    def _look_for_catalogue(self, start: int, stop: int, sequence: int) -> None:
        """Look whether a damaged block is a catalogue whose payload is whole."""
        root = self._made.state.root
        for offset in {start, root.catalogue}:
            if not start <= offset < stop:
                continue
            # What its damaged header says is not believed: it ends where the next block starts.
            for padding in range(ALIGNMENT):
                size = stop - offset - BLOCK_BYTES - padding
                header = BlockHeader(offset, CATALOGUE_MAGIC, 0, sequence + 1, 0, size)
                payload = bytes(self._made.reader.read(header.payload_offset, max(size, 0)))
                body = unpack_checked(payload, self._made.state.file_id)
                if size > CHECKSUM_BYTES and body is not None:
                    self._take_catalogue(header, payload)
                    return

    def _checkpoint(self, header: BlockHeader, checkpoint: Checkpoint) -> None:
        """Number the commits behind a gap, and take in what the checkpoint knows of it."""
        made = self._made
        for collection, identity in checkpoint.last_identities.tolist():
            highest = made.state.last_identities.get(collection, 0)
            made.state.last_identities[collection] = max(highest, identity)
        stop = checkpoint.first_slot + int(checkpoint.segments["value"].sum())
        if self._unknown_from is not None:
            first = self._slot_before(self._unknown_from)
            known = _Known(made.reader, header, checkpoint)
            _align(made, made.items[self._unknown_from :], first, stop, known)
            self._unknown_from = None
        self._slot = stop

    def _slot_before(self, place: int) -> int:
        """Return the slot that the first version in a gap has."""
        for item in reversed(self._made.items[:place]):
            if isinstance(item, Piece):
                return item.slot + item.header.count
        return 1


def _mended(payload: bytes, file_id: int) -> bytes | None:
    """Return the body of a checked payload of which at most one byte is damaged, None for more.

    Without a catalogue nothing can be read, and there may be only one. With 64 bits of checksum a
    wrong correction is as good as impossible.
    """
    checksum, body = payload[:CHECKSUM_BYTES], bytearray(payload[CHECKSUM_BYTES:])
    found = checksum64(body, file_id)
    if sum(one != other for one, other in zip(found, checksum, strict=True)) <= 1:
        return bytes(body)
    for place in range(len(body) if len(body) <= _MOST_MENDED_BYTES else 0):
        stored = body[place]
        for byte in range(256):
            body[place] = byte
            if checksum64(body, file_id) == checksum:
                return bytes(body)
        body[place] = stored
    return None


class _Known:
    """The pointers that a checkpoint has itself, by slot."""

    def __init__(self, reader: MapReader, header: BlockHeader, checkpoint: Checkpoint) -> None:
        self._reader = reader
        self._segments: list[tuple[int, int, int]] = []
        slot, at = checkpoint.first_slot, header.pointers_offset
        for offset, count in checkpoint.segments.tolist():
            if not offset:
                self._segments.append((slot, count, at))
                at += count * POINTER_BYTES
            slot += count
        self._run_slots = checkpoint.runs["key"].tolist()
        self._run_times = checkpoint.runs["value"].tolist()

    def pointer(self, slot: int) -> bytes | None:
        """Return the pointer of a version, None where the checkpoint has none."""
        for first, count, at in self._segments:
            if first <= slot < first + count:
                return bytes(self._reader.read(at + (slot - first) * POINTER_BYTES, POINTER_BYTES))
        return None

    def time(self, slot: int) -> int:
        """Return when it was committed, to a millisecond."""
        place = bisect_right(self._run_slots, slot) - 1
        return int(self._run_times[max(place, 0)])


def _align(made: Survey, items: list[Piece | Gap], first: int, stop: int, known: _Known) -> None:
    """Give the versions from ``first`` to before ``stop`` to the commits and gaps they are in.

    The commits behind the last gap end at ``stop``; those between gaps are found by their pointers.
    """
    behind: list[Piece] = []
    while items and isinstance(items[-1], Piece):
        piece = items.pop()
        assert isinstance(piece, Piece)
        stop -= piece.header.count
        piece.slot = stop
        behind.append(piece)
    slot = first
    gap: Gap | None = None
    for item in items:
        if isinstance(item, Gap):
            gap = item
            gap.versions = 0
            continue
        place = _place_of(made, item, slot, stop, known)
        if place is None:
            item.slot = 0
            continue
        item.slot = place
        if gap is not None:
            _fill(gap, slot, place, known)
        slot = place + item.header.count
    if gap is not None:
        _fill(gap, slot, max(slot, stop), known)


def _place_of(made: Survey, piece: Piece, slot: int, stop: int, known: _Known) -> int | None:
    header = piece.header
    own = bytes(made.reader.read(header.pointers_offset, POINTER_BYTES))
    for place in range(slot, stop - header.count + 1):
        if known.pointer(place) == own:
            return place
    return None


def _fill(gap: Gap, first: int, stop: int, known: _Known) -> None:
    """Note the versions of a gap."""
    gap.versions = (gap.versions or 0) + stop - first
    for slot in range(first, stop):
        pointer = known.pointer(slot)
        if pointer is not None:
            gap.known.append((slot, known.time(slot), pointer))
