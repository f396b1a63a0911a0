"""Verifying a whole file: every block, pointer and payload, without stopping at a finding."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from memdb.errors import DamageError
from memdb.storage._blocks import BlockHeader, checksum32, unpack_checked
from memdb.storage._catalogue import unpack_catalogue
from memdb.storage._constants import (
    ALIGNMENT,
    BLOCK_BYTES,
    CATALOGUE_MAGIC,
    COMMIT_MAGIC,
    INDEX_MAGIC,
    LOG_START,
    MAGIC_OFFSET,
    POINTER,
    POINTER_BYTES,
    POINTER_DTYPE,
    POINTER_LAST_OF_COMMIT,
    Kind,
)
from memdb.storage._log import Log
from memdb.storage._recovery import ANY_MAGIC, MapReader, valid_header
from memdb.storage._saved import SavedIndex, from_catalogue, payload_bytes

KINDS = frozenset(int(kind) for kind in Kind)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong in a file.

    Attributes:
        offset: Bytes from the start of the file to what is wrong.
        message: What is wrong there, in one sentence.
    """

    offset: int
    message: str


def check_log(log: Log) -> list[Finding]:
    """Verify the log from its first block to its end.

    Returns:
        What was found, empty when all is well.

    Cost: O(file), reads every byte. Writers are not stopped; what they append is not looked at.
    """
    with log.lock:
        end, data, versions = log.end, log.data, log.next_slot - 1
    with log.while_open():
        return list(_findings(log, MapReader(data), end, versions))


def _findings(log: Log, reader: MapReader, end: int, versions: int) -> Iterator[Finding]:
    offset, sequence, timestamp, slot = LOG_START, 0, 0, 1
    collections: set[int] = set()
    writers: set[int] = {0}
    saved: list[SavedIndex] = []
    index_blocks: dict[int, int] = {}
    while offset < end:
        header = valid_header(reader, log.file_id, offset, end)
        if header is None:
            yield Finding(offset, "the block does not match its checksum")
            following = _next_block(log, reader, offset, end)
            if following is None:
                return
            offset, sequence, slot = following.offset, following.sequence - 1, 0
            continue
        if header.sequence != sequence + 1:
            yield Finding(
                offset, f"the block has sequence {header.sequence}, {sequence + 1} was expected"
            )
        if header.timestamp < timestamp:
            yield Finding(offset, "the block is older than the one before it")
        sequence, timestamp = header.sequence, header.timestamp
        if header.magic == COMMIT_MAGIC:
            pointers = bytes(reader.read(header.pointers_offset, header.count * POINTER_BYTES))
            yield from _check_commit(reader, header, pointers, collections, writers)
            if slot:
                if _mapped(log, reader, slot, header.count) != pointers:
                    name = _differing_field(log, slot, pointers)
                    yield Finding(
                        header.pointers_offset,
                        f"a checkpoint has another {name} for the versions of this commit",
                    )
                slot += header.count
        else:
            if header.magic == INDEX_MAGIC:
                index_blocks[header.offset] = header.payload_bytes
            body = unpack_checked(
                reader.read(header.payload_offset, header.payload_bytes), log.file_id
            )
            if body is None:
                yield Finding(header.payload_offset, "the payload does not match its checksum")
            elif header.magic == CATALOGUE_MAGIC:
                try:
                    catalogue = unpack_catalogue(body)
                except DamageError:
                    yield Finding(header.payload_offset, "the catalogue is not what memdb writes")
                else:
                    collections |= {entry["id"] for entry in catalogue["collections"]}
                    writers |= {entry["id"] for entry in catalogue["writers"]}
                    saved = from_catalogue(catalogue)
        offset = header.end
    yield from _check_indexes(saved, index_blocks, versions)
    if slot and slot - 1 != versions:
        yield Finding(end, f"the log holds {slot - 1} versions, the pointer map {versions}")


def _check_indexes(
    saved: list[SavedIndex], blocks: dict[int, int], versions: int
) -> Iterator[Finding]:
    """Look for the saved indexes of the last catalogue; what is in them, the collection knows."""
    for index in saved:
        if blocks.get(index.offset) != payload_bytes(index.layout):
            yield Finding(index.offset, f"the index {index.name} is not where the catalogue says")
        if index.slot > versions + 1:
            yield Finding(index.offset, f"the index {index.name} is of versions that are not there")


def _mapped(log: Log, reader: MapReader, slot: int, count: int) -> bytes:
    """Return the pointers that the pointer map has for some slots."""
    if count == 1:
        return bytes(reader.read(log.positions[slot], POINTER_BYTES))
    return log.pointers(slot, slot + count).tobytes()


def _differing_field(log: Log, slot: int, pointers: bytes) -> str:
    """Return the first field in which the pointer map differs from a commit's pointers."""
    own = np.frombuffer(pointers, POINTER_DTYPE)
    mapped = log.pointers(slot, slot + len(own))
    assert POINTER_DTYPE.names is not None
    return next(name for name in POINTER_DTYPE.names if not np.array_equal(mapped[name], own[name]))


def _next_block(log: Log, reader: MapReader, offset: int, end: int) -> BlockHeader | None:
    data = bytes(reader.read(offset, end - offset))
    at = data.find(ANY_MAGIC, BLOCK_BYTES)
    while at >= 0:
        start = offset + at - MAGIC_OFFSET
        if start % ALIGNMENT == 0:
            header = valid_header(reader, log.file_id, start, end)
            if header is not None:
                return header
        at = data.find(ANY_MAGIC, at + 1)
    return None


def _check_commit(
    reader: MapReader,
    header: BlockHeader,
    pointers: bytes,
    collections: set[int],
    writers: set[int],
) -> Iterator[Finding]:
    if not header.count:
        yield Finding(header.offset, "the commit has no versions")
    expected = header.payload_offset
    seen: set[tuple[int, int]] = set()
    where = header.pointers_offset
    are_last: list[int] = []
    for row in POINTER.iter_unpack(pointers):
        identity, at, length, checksum, collection, writer, kind, flags, _ = row
        name = f"the version of record {identity}"
        if identity < 1:
            yield Finding(where, f"{name} has no identity from 1 on")
        if kind not in KINDS:
            yield Finding(where, f"{name} has the unknown kind {kind}")
        if collection not in collections:
            yield Finding(where, f"{name} is of collection {collection}, which is unknown")
        if writer not in writers or (writer == 0) != (kind == Kind.DELETED):
            yield Finding(where, f"{name} has the unknown writer {writer}")
        if at != (expected if length else 0):
            yield Finding(where, f"{name} points to byte {at}, {expected} was expected")
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
