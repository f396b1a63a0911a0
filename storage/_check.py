"""Verifying a whole file: every block, pointer and payload, without stopping at a finding."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from memdb.errors import DamageError
from memdb.storage._blocks import BlockHeader, checksum32, unpack_checked
from memdb.storage._check_checkpoints import Commits, check_checkpoint
from memdb.storage._constants import (
    ALIGNMENT,
    BLOCK_BYTES,
    CATALOGUE_MAGIC,
    CHECKPOINT_MAGIC,
    COMMIT_MAGIC,
    INDEX_MAGIC,
    LOG_START,
    MAGIC_OFFSET,
    POINTER,
    POINTER_BYTES,
    POINTER_DTYPE,
    POINTER_LAST_OF_COMMIT,
    POINTER_SEALED,
    Kind,
)
from memdb.storage._findings import Finding
from memdb.storage._origin import Origin, origin_of
from memdb.storage._recovery import ANY_MAGIC, MapReader, valid_header
from memdb.storage._saved import SavedIndex, from_catalogue, payload_bytes

if TYPE_CHECKING:
    from memdb.storage._cipher import Cipher
    from memdb.storage._era import Era
    from memdb.storage._log import Log

KINDS = frozenset(int(kind) for kind in Kind)
UNKNOWN = -1
_FLAGS = POINTER_LAST_OF_COMMIT | POINTER_SEALED


@dataclass(frozen=True, slots=True)
class Source:
    """What is verified.

    Attributes:
        reader: Gives its bytes.
        file_id: Of the file.
        end: Where its blocks end.
        cipher: Of an encrypted file.
        read_catalogue: Makes a catalogue of a block's header and body; raises DamageError.
    """

    reader: MapReader
    file_id: int
    end: int
    cipher: Cipher | None
    read_catalogue: Callable[[BlockHeader, Any], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Place:
    """What a root says of a log that ends at some block; `UNKNOWN` behind damage."""

    checkpoint: int = 0
    catalogue: int = 0
    sequence: int = 0
    timestamp: int = 0


def check_log(log: Log) -> list[Finding]:
    """Verify the log from its first block to its end.

    Returns:
        What was found, empty when all is well.

    Cost: O(file), reads every byte. Writers are not stopped; what they append is not looked at.
    """
    with log.lock:
        # All of one file, also when a compaction puts another one in its place meanwhile.
        end, era, state = log.end, log.era, log._state
        data, versions = era.data, log.next_slot - log.first_slot

    def read_catalogue(header: BlockHeader, body: Any) -> dict[str, Any]:
        return state.read_catalogue(header, body, log.path)

    source = Source(MapReader(data), era.file_id, end, era.cipher, read_catalogue)
    walk = Walk(source, era)
    with log.while_open():
        findings = list(walk.findings())
        findings += walk.closing_findings(versions)
    return findings


class Walk:
    """One look at every block, in order.

    Attributes:
        places: Offset -> what a root that names it as the end of the log has to say, for each
            place between two blocks that was come to.
        slot: Of the next version, 0 where it is not known any more.
        catalogue: The last one that is whole.
    """

    def __init__(self, source: Source, era: Era | None = None) -> None:
        """Begin.

        Args:
            source: What is verified.
            era: Its pointer map is compared with what is found, if it is open.
        """
        self._source = source
        self._era = era
        self.slot = 1
        self.catalogue: dict[str, Any] = {"collections": [], "writers": []}
        self.places: dict[int, Place] = {LOG_START: Place()}
        self._collections: set[int] = set()
        self._writers: dict[int, Any] = {}
        self._index_blocks: dict[int, int] = {}
        self._commits = Commits()

    def findings(self) -> Iterator[Finding]:
        """Give what is wrong with the blocks, one after the other."""
        reader, end = self._source.reader, self._source.end
        place = Place()
        offset = LOG_START
        while offset < end:
            header = valid_header(reader, self._source.file_id, offset, end)
            if header is None:
                yield Finding(offset, "the block does not match its checksum")
                self.slot = 0
                following = self._next_block(offset)
                if following is None:
                    return
                offset = following.offset
                place = Place(UNKNOWN, UNKNOWN, following.sequence - 1)
                continue
            if header.sequence != place.sequence + 1:
                expected = place.sequence + 1
                yield Finding(
                    offset, f"the block has sequence {header.sequence}, {expected} was expected"
                )
            if header.timestamp < place.timestamp:
                yield Finding(offset, "the block is older than the one before it")
            yield from self._block(header, place)
            checkpoint, catalogue = place.checkpoint, place.catalogue
            if header.magic == CHECKPOINT_MAGIC:
                checkpoint = offset
            elif header.magic == CATALOGUE_MAGIC:
                catalogue = offset
            place = Place(checkpoint, catalogue, header.sequence, header.timestamp)
            offset = header.end
            self.places[offset] = place

    def closing_findings(self, versions: int) -> Iterator[Finding]:
        """Give what is wrong with the log as a whole, which the pointer map says has so many."""
        saved = from_catalogue(self.catalogue)
        yield from self._check_indexes(saved, versions)
        if self.slot and self.slot - 1 != versions:
            yield Finding(
                self._source.end,
                f"the log holds {self.slot - 1} versions, the pointer map {versions}",
            )

    @property
    def origin(self) -> Origin | None:
        """What the file was compacted from, None if it never was."""
        return origin_of(self.catalogue)

    def _block(self, header: BlockHeader, place: Place) -> Iterator[Finding]:
        if header.magic == COMMIT_MAGIC:
            yield from self._commit(header)
            return
        if header.magic != CHECKPOINT_MAGIC and header.count:
            yield Finding(header.offset, "the block has pointers, which none of its kind has")
        if header.magic == INDEX_MAGIC:
            self._index_blocks[header.offset] = header.payload_bytes
        payload = self._source.reader.read(header.payload_offset, header.payload_bytes)
        body = unpack_checked(payload, self._source.file_id)
        if body is None:
            yield Finding(header.payload_offset, "the payload does not match its checksum")
        elif header.magic == CATALOGUE_MAGIC:
            try:
                catalogue = self._source.read_catalogue(header, body)
            except DamageError:
                yield Finding(header.payload_offset, "the catalogue is not what memdb writes")
            else:
                yield from self._take_catalogue(header, catalogue)
        elif header.magic == CHECKPOINT_MAGIC:
            self.slot, findings = check_checkpoint(
                self._source.reader, header, body, self._commits, self.slot, self.origin
            )
            yield from findings

    def _take_catalogue(self, header: BlockHeader, catalogue: dict[str, Any]) -> Iterator[Finding]:
        numbers = {entry["id"] for entry in catalogue["collections"]}
        writers = {
            entry["id"]: (entry["collection"], entry["schema"]) for entry in catalogue["writers"]
        }
        for number in sorted(self._collections - numbers):
            yield Finding(header.payload_offset, f"the catalogue has lost the collection {number}")
        for number, entry in self._writers.items():
            if writers.get(number) != entry:
                yield Finding(
                    header.payload_offset, f"the catalogue has lost or changed the writer {number}"
                )
        self._collections |= numbers
        self._writers |= writers
        self.catalogue = catalogue

    # -- commits -------------------------------------------------------------------------

    def _commit(self, header: BlockHeader) -> Iterator[Finding]:
        reader, slot = self._source.reader, self.slot
        pointers = bytes(reader.read(header.pointers_offset, header.count * POINTER_BYTES))
        yield from self._check_commit(header, pointers)
        self._commits.add(header, pointers, slot)
        if not slot:
            return
        if self._source.cipher is not None:
            yield from _check_tags(self._source.cipher, reader, slot, pointers)
        if self._era is not None and _mapped(self._era, reader, slot, header.count) != pointers:
            name = _differing_field(self._era, slot, pointers)
            yield Finding(
                header.pointers_offset,
                f"a checkpoint has another {name} for the versions of this commit",
            )
        self.slot += header.count

    def _check_commit(self, header: BlockHeader, pointers: bytes) -> Iterator[Finding]:
        reader = self._source.reader
        if not header.count:
            yield Finding(header.offset, "the commit has no versions")
        expected = header.payload_offset
        seen: set[tuple[int, int]] = set()
        where = header.pointers_offset
        are_last: list[int] = []
        for row in POINTER.iter_unpack(pointers):
            identity, at, length, checksum, collection, writer, kind, flags, reserved = row
            name = f"the version of record {identity}"
            if identity < 1:
                yield Finding(where, f"{name} has no identity from 1 on")
            if kind not in KINDS:
                yield Finding(where, f"{name} has the unknown kind {kind}")
            if collection not in self._collections:
                yield Finding(where, f"{name} is of collection {collection}, which is unknown")
            if (writer == 0) != (kind == Kind.DELETED) or (writer and writer not in self._writers):
                yield Finding(where, f"{name} has the unknown writer {writer}")
            elif writer and self._writers[writer][0] != collection:
                yield Finding(where, f"{name} has the writer {writer} of another collection")
            if kind == Kind.DELETED and (at or length or checksum):
                yield Finding(where, f"{name} is a deletion, and points to bytes")
            elif at != (expected if length else 0):
                yield Finding(where, f"{name} points to byte {at}, {expected} was expected")
            if reserved or flags & ~_FLAGS or (flags & POINTER_SEALED and not self._can_seal):
                yield Finding(where, f"{name} has flags or reserved bytes that mean nothing")
            if length and checksum32(reader.read(at, length)) != checksum:
                yield Finding(at, f"the bytes of record {identity} do not match their checksum")
            are_last.append(flags & POINTER_LAST_OF_COMMIT)
            seen.add((collection, identity))
            expected += length
            where += POINTER_BYTES
        if expected != header.payload_offset + header.payload_bytes:
            yield Finding(header.payload_offset, "the payload has another length than its records")
        if are_last and are_last != [0] * (header.count - 1) + [POINTER_LAST_OF_COMMIT]:
            yield Finding(header.pointers_offset, "the end of the commit is marked wrong")
        if len(seen) != header.count:
            yield Finding(header.pointers_offset, "a record occurs twice in the commit")

    @property
    def _can_seal(self) -> bool:
        return self._source.cipher is not None

    # -- the rest ------------------------------------------------------------------------

    def _check_indexes(self, saved: list[SavedIndex], versions: int) -> Iterator[Finding]:
        """Look for the saved indexes of the last catalogue; collections know what is in them."""
        for index in saved:
            size = payload_bytes(index.layout, is_sealed=self._can_seal)
            if self._index_blocks.get(index.offset) != size:
                yield Finding(
                    index.offset, f"the index {index.name} is not where the catalogue says"
                )
            if index.slot > versions + 1:
                yield Finding(
                    index.offset, f"the index {index.name} is of versions that are not there"
                )

    def _next_block(self, offset: int) -> BlockHeader | None:
        """Return the next whole block behind a damaged one."""
        reader, end = self._source.reader, self._source.end
        data = bytes(reader.read(offset, end - offset))
        at = data.find(ANY_MAGIC, BLOCK_BYTES)
        while at >= 0:
            start = offset + at - MAGIC_OFFSET
            if start % ALIGNMENT == 0:
                header = valid_header(reader, self._source.file_id, start, end)
                if header is not None:
                    return header
            at = data.find(ANY_MAGIC, at + 1)
        return None


def _check_tags(cipher: Cipher, reader: MapReader, slot: int, pointers: bytes) -> Iterator[Finding]:
    """Look whether the records of a commit are as they were encrypted."""
    for number, at in enumerate(range(0, len(pointers), POINTER_BYTES), slot):
        pointer = pointers[at : at + POINTER_BYTES]
        identity, offset, length, checksum, *_ = POINTER.unpack(pointer)
        stored = bytes(reader.read(offset, length))
        # Other bytes are found by their checksum already.
        is_whole = length and checksum32(stored) == checksum
        if is_whole and cipher.open_one(number, pointer, stored) is None:
            yield Finding(offset, f"the bytes of record {identity} fail their authentication tag")


def _mapped(era: Era, reader: MapReader, slot: int, count: int) -> bytes:
    """Return the pointers that the pointer map has for some slots."""
    if count == 1:
        return bytes(reader.read(era.positions[slot], POINTER_BYTES))
    return era.map.pointers(era.data, slot, slot + count).tobytes()


def _differing_field(era: Era, slot: int, pointers: bytes) -> str:
    """Return the first field in which the pointer map differs from a commit's pointers."""
    own = np.frombuffer(pointers, POINTER_DTYPE)
    mapped = era.map.pointers(era.data, slot, slot + len(own))
    assert POINTER_DTYPE.names is not None
    return next(name for name in POINTER_DTYPE.names if not np.array_equal(mapped[name], own[name]))
