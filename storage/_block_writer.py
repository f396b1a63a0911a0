"""Writing a whole log into a new file, block after block: for compaction and repair."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from memdb.storage._blocks import (
    Array,
    Root,
    checksum32,
    checksum64,
    pack_block,
    pack_checked,
    pack_checkpoint,
    place_payloads,
)
from memdb.storage._catalogue import pack_catalogue
from memdb.storage._checkpoint import FULL_CHECKPOINT, build_checkpoint, unchecked_slot
from memdb.storage._constants import (
    ALIGNMENT,
    BLOCK_BYTES,
    CATALOGUE_MAGIC,
    CHECKPOINT_MAGIC,
    COMMIT_MAGIC,
    LOG_START,
    POINTER_BYTES,
    POINTER_LAST_OF_COMMIT,
    POINTER_SEALED,
    SINGLE_COMMIT,
    SINGLE_MAGIC_AND_COUNT,
)
from memdb.storage._file import File
from memdb.storage._recovery import LARGE_COMMIT, LogState

if TYPE_CHECKING:
    from memdb.storage._cipher import Cipher

_WRITE_BYTES = 1 << 20
_SINGLE_BYTES = BLOCK_BYTES + POINTER_BYTES
# Of the last eight bytes of a pointer.
_FLAGS_AT = 5


class BlockWriter:
    """Writes blocks to a file that nobody else sees yet.

    Threads: one at a time.

    Attributes:
        state: Of the log that has been written so far, as `load` would read it, without a root.
    """

    def __init__(self, file: File, file_id: int, cipher: Cipher | None = None) -> None:
        """Begin with the first block.

        Args:
            file: Is empty.
            file_id: What it is to have.
            cipher: Seals what is to be encrypted.
        """
        self._file = file
        self.state = LogState(file_id, Root(0, LOG_START), cipher)
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0

    def catalogue(self, catalogue: dict[str, Any], timestamp: int) -> None:
        """Write a catalogue."""
        offset = self._checked(CATALOGUE_MAGIC, b"", pack_catalogue(catalogue), timestamp)
        self.state.catalogue, self.state.catalogue_offset = catalogue, offset

    def commit(
        self,
        pointers: Array,
        payloads: Sequence[bytes],
        timestamp: int,
        times: Iterable[tuple[int, int]] = ((0, 0),),
    ) -> None:
        """Write a commit.

        Args:
            pointers: (n,) POINTER_DTYPE, n >= 1, as `Log.append_batch` takes them.
            payloads: (n) The records' bytes, not encrypted; empty for deletions.
            timestamp: When it was committed; never less than that of the block before.
            times: Place in the commit and when the versions from there on were committed, where
                that was before.
        """
        state, count = self.state, len(pointers)
        slot = state.map.next_slot
        pointers["flags"] &= POINTER_SEALED
        pointers["flags"][-1] |= POINTER_LAST_OF_COMMIT
        if state.cipher is not None:
            payloads = state.cipher.seal_many(slot, pointers, payloads)
        at = state.end + BLOCK_BYTES + POINTER_BYTES * count
        place_payloads(pointers, payloads, at)
        state.note_identities(pointers)
        payload = b"".join(payloads)
        start = self._block(COMMIT_MAGIC, pointers.tobytes(), payload, timestamp)
        for offset, time in times:
            state.map.add_run(slot + offset, time or state.timestamp)
        state.map.extend(start + BLOCK_BYTES, count)
        if count >= LARGE_COMMIT:
            state.large_commits.append((slot, start, count))

    def single(self, identity: int, payload: bytes, end_of_pointer: bytes, timestamp: int) -> None:
        """Write a commit of one version, as `commit` does.

        Args:
            identity: The record's.
            payload: Its bytes, not encrypted; empty for a deletion.
            end_of_pointer: See `pointer_end`.
            timestamp: As for `commit`.

        Cost: 3 us, where `commit` takes twenty: a compaction has to gain on those who write.
        """
        state = self.state
        slot, start = state.map.next_slot, state.end
        if end_of_pointer[_FLAGS_AT] & POINTER_SEALED:
            assert state.cipher is not None
            associated = identity.to_bytes(8, "little", signed=True) + end_of_pointer
            payload = state.cipher.seal_one(slot, associated, payload)
        size = len(payload)
        state.sequence += 1
        state.timestamp = timestamp = max(timestamp, state.timestamp)
        at, checksum = (start + _SINGLE_BYTES, checksum32(payload)) if size else (0, 0)
        body = SINGLE_COMMIT.pack(
            SINGLE_MAGIC_AND_COUNT, state.sequence, timestamp, size,
            identity, at, size, checksum, end_of_pointer,
        )  # fmt: skip
        padding = bytes(-size % ALIGNMENT)
        self._waiting.append(checksum64(body, state.file_id) + body + payload + padding)
        length = _SINGLE_BYTES + size + len(padding)
        self._waiting_bytes += length
        state.end = start + length
        state.map.positions.append(start + BLOCK_BYTES)
        state.map.add_run(slot, timestamp)
        collection = int.from_bytes(end_of_pointer[:2], "little")
        if identity > state.last_identities.get(collection, 0):
            state.last_identities[collection] = identity
        if self._waiting_bytes >= _WRITE_BYTES:
            self.write()

    def checkpoint(self) -> None:
        """Write a checkpoint of what was written since the last one, if there is anything."""
        state = self.state
        is_new = state.map.next_slot > unchecked_slot(state)
        # Without versions, it is for the identities that were given.
        if not is_new and (state.chain or not state.last_identities):
            return
        self.write()
        data = self._file.map(state.end, "read")
        pointers, checkpoint, link = build_checkpoint(state, data, FULL_CHECKPOINT)
        body = pack_checkpoint(checkpoint)
        link.offset = self._checked(CHECKPOINT_MAGIC, pointers, body, state.timestamp)
        while state.chain and state.chain[-1].offset != checkpoint.previous:
            state.chain.pop()
        state.chain.append(link)
        state.large_commits.clear()

    def _checked(self, magic: bytes, pointers: bytes, body: bytes, timestamp: int) -> int:
        state = self.state
        if state.cipher is not None and magic != CHECKPOINT_MAGIC:
            body = state.cipher.seal_block(magic, state.sequence + 1, body)
        return self._block(magic, pointers, pack_checked(body, state.file_id), timestamp)

    def _block(self, magic: bytes, pointers: bytes, payload: bytes, timestamp: int) -> int:
        """Write a block; return where it starts."""
        state, start = self.state, self.state.end
        timestamp = max(timestamp, state.timestamp)
        sequence = state.sequence + 1
        head = pack_block(magic, sequence, timestamp, pointers, len(payload), state.file_id)
        size = len(head) + len(payload)
        padding = bytes(-size % ALIGNMENT)
        self._waiting += (head, payload, padding)
        self._waiting_bytes += size + len(padding)
        state.sequence, state.timestamp = sequence, timestamp
        state.end = start + size + len(padding)
        if self._waiting_bytes >= _WRITE_BYTES:
            self.write()
        return start

    def write(self) -> None:
        """Write to the file what waits in memory."""
        if self._waiting:
            self._file.write(self.state.end - self._waiting_bytes, b"".join(self._waiting))
            self._waiting.clear()
            self._waiting_bytes = 0

    def root(self) -> Root:
        """Return what a root says of the log so far; it is a clean one."""
        state = self.state
        return Root(
            generation=1,
            log_end=state.end,
            checkpoint=state.chain[-1].offset if state.chain else 0,
            catalogue=state.catalogue_offset,
            sequence=state.sequence,
            timestamp=state.timestamp,
            boot_id=self._file.boot_id,
            is_clean=True,
        )
