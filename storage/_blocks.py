"""Blocks, roots and the header page as bytes, and back. Nothing here touches a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from memdb.errors import DamageError
from memdb.storage._constants import (
    ALIGNMENT,
    BLOCK,
    BLOCK_BYTES,
    BOOT_ID_BYTES,
    CATALOGUE_MAGIC,
    CHECKPOINT,
    CHECKPOINT_MAGIC,
    CHECKSUM_BYTES,
    COMMIT_MAGIC,
    ENCRYPTED_FORMAT_VERSION,
    FORMAT_VERSION,
    HEADER,
    HEADER_BYTES,
    HEADER_CHECKSUM_OFFSET,
    INDEX_MAGIC,
    MAGIC,
    PAGE_BYTES,
    PAIR_DTYPE,
    POINTER_BYTES,
    POINTER_DTYPE,
    ROOT,
    ROOT_BYTES,
    ROOT_CLEAN,
    ROOT_MAGIC,
)

Array = NDArray[Any]
MAGICS = (COMMIT_MAGIC, CHECKPOINT_MAGIC, CATALOGUE_MAGIC, INDEX_MAGIC)

# The eight bytes that are stored: an integer would have to be packed, 30 ns a commit.
checksum64 = xxhash.xxh3_64_digest
checksum32 = xxhash.xxh32_intdigest


def aligned(offset: int) -> int:
    """Return ``offset`` rounded up to where a block may start."""
    return -(-offset // ALIGNMENT) * ALIGNMENT


@dataclass(frozen=True, slots=True)
class Root:
    """What opening starts from; see "Roots" in ``docs/format.md``."""

    generation: int
    log_end: int
    checkpoint: int = 0
    catalogue: int = 0
    sequence: int = 0
    timestamp: int = 0
    boot_id: bytes = bytes(BOOT_ID_BYTES)
    is_clean: bool = False

    def next(self, **changes: Any) -> Root:
        """Return the root that follows this one."""
        return replace(self, generation=self.generation + 1, **changes)


# Not frozen: that makes it four times as slow to make, and opening after a crash makes many.
@dataclass(slots=True)
class BlockHeader:
    """The fixed part of a block, and where the block lies."""

    offset: int
    magic: bytes
    count: int
    sequence: int
    timestamp: int
    payload_bytes: int

    @property
    def pointers_offset(self) -> int:
        """Where the pointers start."""
        return self.offset + BLOCK_BYTES

    @property
    def payload_offset(self) -> int:
        """Where the payload starts."""
        return self.offset + BLOCK_BYTES + POINTER_BYTES * self.count

    @property
    def end(self) -> int:
        """Where the next block starts."""
        return aligned(self.payload_offset + self.payload_bytes)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The payload of a checkpoint block.

    Attributes:
        segments: (n,) PAIR_DTYPE, key = commit offset or 0, value = count.
        runs: (n,) PAIR_DTYPE, key = slot, value = timestamp in nanoseconds.
        last_identities: (n,) PAIR_DTYPE, key = collection, value = highest identity given.
    """

    previous: int
    first_slot: int
    segments: Array
    runs: Array
    last_identities: Array


def pack_header(file_id: int, created: int, *, is_encrypted: bool = False) -> bytes:
    """Return the header page, without holder note and key slots."""
    version = ENCRYPTED_FORMAT_VERSION if is_encrypted else FORMAT_VERSION
    body = HEADER.pack(MAGIC, version, PAGE_BYTES, file_id, created, bytes(24), b"")
    body = body[:HEADER_CHECKSUM_OFFSET]
    page = body + checksum64(body)
    return page.ljust(PAGE_BYTES, b"\0")


def unpack_header(data: bytes) -> tuple[bytes, int, int, bool]:
    """Return magic, format version, file id, and whether the checksum matches."""
    magic, version, _page, file_id, _created, _, checksum = HEADER.unpack(data[:HEADER_BYTES])
    return magic, version, file_id, checksum == checksum64(data[:HEADER_CHECKSUM_OFFSET])


def pack_root(root: Root, file_id: int) -> bytes:
    """Return the used part of a root page."""
    body = ROOT.pack(
        b"",
        ROOT_MAGIC,
        ROOT_CLEAN if root.is_clean else 0,
        root.generation,
        root.log_end,
        root.checkpoint,
        root.catalogue,
        root.sequence,
        root.timestamp,
        root.boot_id,
        b"",
    )[CHECKSUM_BYTES:]
    return checksum64(body, file_id) + body


def unpack_root(data: bytes, file_id: int) -> Root | None:
    """Return the root, or None when it is not valid."""
    if len(data) < ROOT_BYTES:
        return None
    checksum, magic, flags, *numbers, boot_id, _ = ROOT.unpack(data[:ROOT_BYTES])
    generation, log_end, checkpoint, catalogue, sequence, timestamp = numbers
    if magic != ROOT_MAGIC or checksum != checksum64(data[CHECKSUM_BYTES:ROOT_BYTES], file_id):
        return None
    is_clean = bool(flags & ROOT_CLEAN)
    return Root(generation, log_end, checkpoint, catalogue, sequence, timestamp, boot_id, is_clean)


def pack_block(
    magic: bytes, sequence: int, timestamp: int, pointers: bytes, payload_bytes: int, file_id: int
) -> bytes:
    """Return header and pointers; the payload of ``payload_bytes`` follows them in the file."""
    count = len(pointers) // POINTER_BYTES
    body = BLOCK.pack(b"", magic, count, sequence, timestamp, payload_bytes)[CHECKSUM_BYTES:]
    body += pointers
    return checksum64(body, file_id) + body


def unpack_block(data: bytes | memoryview, offset: int) -> tuple[bytes, BlockHeader] | None:
    """Return checksum and header of what may be a block, or None when its magic is not one."""
    checksum, magic, count, sequence, timestamp, payload_bytes = BLOCK.unpack(data)
    if magic not in MAGICS:
        return None
    return checksum, BlockHeader(offset, magic, count, sequence, timestamp, payload_bytes)


def pack_checked(body: bytes, file_id: int) -> bytes:
    """Return the payload of a catalogue or checkpoint: its checksum and ``body``."""
    return checksum64(body, file_id) + body


def unpack_checked(payload: bytes | memoryview, file_id: int) -> bytes | memoryview | None:
    """Return the body of such a payload, or None when its checksum does not match."""
    body = payload[CHECKSUM_BYTES:]
    if payload[:CHECKSUM_BYTES] != checksum64(body, file_id):
        return None
    return body


def pack_checkpoint(checkpoint: Checkpoint) -> bytes:
    """Return the body of a checkpoint's payload."""
    tables = (checkpoint.segments, checkpoint.runs, checkpoint.last_identities)
    head = CHECKPOINT.pack(b"", checkpoint.previous, checkpoint.first_slot, *map(len, tables))
    return head[CHECKSUM_BYTES:] + b"".join(table.tobytes() for table in tables)


def unpack_checkpoint(body: bytes | memoryview, path: str | None, offset: int) -> Checkpoint:
    """Return the checkpoint at ``offset``; its bytes are checked already."""
    size = CHECKPOINT.size - CHECKSUM_BYTES
    if len(body) >= size:
        _, previous, first_slot, *counts = CHECKPOINT.unpack(bytes(CHECKSUM_BYTES) + body[:size])
        if len(body) == size + sum(counts) * PAIR_DTYPE.itemsize:
            pairs = np.frombuffer(body, PAIR_DTYPE, offset=size)
            segments, runs, last = np.split(pairs, np.cumsum(counts[:-1]))
            return Checkpoint(previous, first_slot, segments, runs, last)
    raise DamageError(
        f"{path}: the checkpoint at byte {offset} is of a wrong length.", path=path, offset=offset
    )


def empty_pointers(count: int) -> Array:
    """Return ``count`` pointers, all zeros, to be filled in."""
    return np.zeros(count, POINTER_DTYPE)


def place_payloads(pointers: Array, payloads: Sequence[bytes], at: int) -> Array:
    """Let pointers lead to the bytes of their versions, which lie in a row from ``at`` on.

    Args:
        pointers: (n,) POINTER_DTYPE; offset, length and checksum are filled in.
        payloads: (n) As they are stored; empty for deletions.
        at: Offset of the first.

    Returns:
        (n,) <u8, the lengths: more than a pointer can tell if they were not looked at before.
    """
    lengths = np.fromiter(map(len, payloads), "<u8", len(pointers))
    pointers["length"] = lengths
    pointers["checksum"] = np.fromiter(map(checksum32, payloads), "<u4", len(pointers))
    pointers["checksum"][lengths == 0] = 0
    offsets = np.uint64(at) + np.cumsum(lengths) - lengths
    pointers["offset"] = np.where(lengths > 0, offsets, np.uint64(0))
    return lengths
