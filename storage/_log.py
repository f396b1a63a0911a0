"""The log: opening a file, appending commits to it, going over to another one."""

from __future__ import annotations

import errno
import mmap
import threading
import time
import weakref
from array import array
from collections.abc import Sequence
from typing import Any, Literal

from memdb.errors import MemdbError, OpenError, WriteError
from memdb.storage._blocks import (
    Array,
    checksum32,
    checksum64,
    pack_block,
    pack_checked,
    pack_checkpoint,
    place_payloads,
)
from memdb.storage._checkpoint import FULL_CHECKPOINT, build_checkpoint
from memdb.storage._constants import (
    ALIGNMENT,
    BLOCK_BYTES,
    CHECKPOINT_MAGIC,
    CHECKSUM_BYTES,
    COMMIT_MAGIC,
    MAX_PAYLOAD_BYTES,
    MAX_SEALED_BYTES,
    POINTER_BYTES,
    POINTER_END,
    POINTER_LAST_OF_COMMIT,
    POINTER_SEALED,
    RUN_NANOSECONDS,
    SINGLE_COMMIT,
    SINGLE_MAGIC_AND_COUNT,
    Kind,
)
from memdb.storage._creation import (
    create,
    is_unfinished,
    locked_error,
    own_name,
    read_holder,
    refuse_unfinished,
    write_holder,
)
from memdb.storage._durable_log import NO_GROUP, DurableLog
from memdb.storage._era import MAX_BASE, MAX_SLOT, Era
from memdb.storage._file import File, write_beside
from memdb.storage._flusher import Flusher
from memdb.storage._gate import Shut, write_error
from memdb.storage._key_slots import Keys
from memdb.storage._left_over import remove_left_over
from memdb.storage._recovery import LARGE_COMMIT, LogState, Recovery, load
from memdb.storage._warning import warn

Durability = Literal["buffered", "written", "synced"]

_WORTH_A_WRITE_BYTES = 1 << 18
_SINGLE_BYTES = BLOCK_BYTES + POINTER_BYTES
_SINGLE_PADDED_BYTES = _SINGLE_BYTES + ALIGNMENT - 1
_ALIGNMENT_MASK = -ALIGNMENT

# Bound once: a module attribute costs two look-ups in `append_one`.
_time_ns = time.time_ns
_pack_single = SINGLE_COMMIT.pack


def pointer_end(collection: int, writer: int, kind: Kind, flags: int = 0) -> bytes:
    """Return the last eight bytes of a pointer that is alone in its commit."""
    return POINTER_END.pack(collection, writer, kind, flags | POINTER_LAST_OF_COMMIT, 0)


class Log(DurableLog):
    """One open file: opening it, and appending. `DurableLog` has the rest of what writes.

    The log knows bytes and pointers. Whoever changes something holds ``lock``, has seen that
    ``gate`` is None, and appends; the lock is held for one append, never for a sync.

    Threads: `read` needs no lock. `append_one`, `append_batch` and `write_catalogue` need
    `lock` held. All others take what they need themselves; `sync_lock` is taken before `lock`.

    Attributes:
        lock: Serialises appends and the publication of what they change.
        gate: None while autocommitted writes may go on. Else a transaction (whoever set it
            clears it), or why nothing goes any more, a `Shut`.
        end: Offset at which the next block starts.
        synced_end: Every byte before it survives power loss.
        has_failed: A sync has failed.
        safe_since_s: When all that was committed until then was last known to be synced, of
            `time.monotonic`.
        positions: Slot -> offset of its pointer, see `PointerMap`.
        is_closed: Not even reading is possible.
        recovery: What opening had to mend, or None.
    """

    __slots__ = ("_next_run",)

    def __new__(cls, file: File, *, keys: Keys | None = None, **settings: Any) -> Log:
        """Return an object that takes what `__init__` does: of a subclass where there are keys."""
        if cls is Log and keys is not None:
            from memdb.storage._sealed_log import SealedLog

            cls = SealedLog
        return super().__new__(cls)

    def __init__(
        self,
        file: File,
        *,
        mode: Literal["rw", "r", "append"] = "rw",
        durability: Durability = "written",
        flush_interval_s: float = 1.0,
        checkpoint_interval: int = 65_536,
        keys: Keys | None = None,
    ) -> None:
        """Lock the file, make it if it is empty, and load its state.

        Args:
            file: Is owned by the log from now on, and closed when this raises.
            mode: ``r`` takes no lock and changes nothing.
            durability: Says where an append goes, see ``docs/design.md``.
            flush_interval_s: Seconds between two syncs in the background.
            checkpoint_interval: Versions after which a checkpoint is written.
            keys: Of an encrypted file, or for one that is to be made.

        Raises:
            LockedError: Another writer has the file.
            OpenError: It is no memdb file, or of a newer format.
            WrongKeyError: These are not its keys.
            DamageError: The file is damaged.
        """
        self._file = file
        self.path = file.path
        self._mode = mode
        self._keys = keys
        self._interval = checkpoint_interval
        self._access = (
            "read" if mode == "r" else "private" if durability == "buffered" else "shared"
        )
        # Whether the map is that of a real file, where writes to the file show.
        self._is_shared = self._access == "shared" and file.path is not None
        self.lock = threading.Lock()
        self.sync_lock = threading.Lock()
        self._group = NO_GROUP
        self._flusher = Flusher(self._sync_behind, flush_interval_s, self._lower_limit)
        self._is_closing = False
        self.recovery = None
        self.gate: object | None = None
        self.is_closed = False
        self.has_failed = False
        self.damaged = set()
        self.safe_since_s = time.monotonic()
        try:
            self._open()
        except BaseException as error:
            file.close()
            if isinstance(error, OSError) and not isinstance(error, MemdbError):
                raise OpenError(
                    f"{self.path}: can't be opened: {error.strerror or error}.",
                    path=self.path,
                    errno=error.errno,
                ) from error
            raise

    def _open(self) -> None:
        file = self._file
        if self._mode == "r":
            refuse_unfinished(file)
        else:
            if not file.lock():
                raise locked_error(self.path, read_holder(file))
            if is_unfinished(file):
                create(file, self._keys)
        state, tail, data = load(file, self._access, self._keys)
        if self._mode != "r" and self._keys is not None:
            self._keys.refuse_marking(self.path)
        kept_in, finished_rekey = None, False
        length = file.length()
        # The space that a killed writer had reserved is no finding.
        cut_bytes = len(tail.torn) + (tail.zero_bytes if state.root.is_clean else 0)
        if self._mode != "r":
            if tail.torn and self.path is not None:
                kept_in = write_beside(f"{self.path}.torn-{state.end}", tail.torn)
            if length > state.end:
                file.truncate(state.end)
            write_holder(file, own_name())
            if self._keys is not None:
                finished_rekey = self._keys.finish_change(file, state.file_id)
            remove_left_over(file)
        if cut_bytes or finished_rekey or not state.root.is_clean:
            self.recovery = Recovery(
                was_clean=state.root.is_clean,
                replayed_commits=state.replayed_commits,
                replayed_versions=state.replayed_versions,
                cut_offset=state.end,
                cut_bytes=cut_bytes,
                kept_in=kept_in,
                finished_rekey=finished_rekey,
            )
        self._earlier = []
        self._start_era(Era(0, state.map, data, state.file_id, state.cipher), state)
        if self._mode == "r":
            self.gate = Shut.READ_ONLY
        elif state.end > state.root.log_end:
            # Invariant: nothing is shown that a power loss could still take, though the one who
            # wrote it was killed before he synced it.
            file.sync()
        if kept_in is not None:
            warn(
                f"{self.path}: {len(tail.torn)} bytes behind the last whole commit (at byte"
                f" {state.end}) were cut off, and are kept in {kept_in}."
            )

    def _start_era(self, era: Era, state: LogState) -> None:
        """Have everything be that of a file, as it was loaded."""
        self._state = state
        self._root = state.root
        self.file_id = state.file_id
        self.end = self.synced_end = self._written_end = self._zeroed_end = state.end
        self.sequence, self.timestamp = state.sequence, state.timestamp
        self.positions: array[int] = era.positions
        self._count = len(self.positions)
        self._next_run = state.map.next_run
        # Invariant: _limit is 0 until the session's first write, which goes through _make_room.
        self._limit = 0
        self.data = era.data
        self.era = era

    # -- going on where another process writes -------------------------------------------

    @property
    def is_following(self) -> bool:
        """Whether it only reads a file that another process may be writing."""
        return self._mode == "r" and self.path is not None

    def run_in_background(self, flusher: Flusher) -> None:
        """Start a thread of a reader, which ends when the log is closed."""
        self._flusher = flusher
        flusher.start()

    def take_in(self, data: mmap.mmap | None) -> None:
        """Let what was walked over since count; `lock` is held.

        Args:
            data: A map that covers it, None where the one that there is does.
        """
        if data is not None:
            self._show(data)
        state, count = self._state, len(self.positions)
        # Invariant: no call between these, so that an interrupt (Ctrl-C) finds all or nothing.
        self.end = self.synced_end = self._written_end = self._zeroed_end = state.end
        self.sequence, self.timestamp = state.sequence, state.timestamp
        self._count = count

    def next_base(self, count: int) -> int:
        """Return what the slots of another file, that holds ``count`` versions, are higher by.

        They go on behind those of now, and the next one is another even if there is no version.
        Once four bytes would not do, they begin again below those of now.

        Raises:
            OpenError: There is no room below either.
        """
        base = self.next_slot
        if base + count > MAX_BASE:
            base = 0
            if count >= self.era.base:
                raise OpenError(
                    f"{self.path}: this handle has met more versions than it can tell apart."
                    " Close it and open it again.",
                    path=self.path,
                )
        return base

    def move(self, file: File, era: Era, state: LogState) -> None:
        """Go over to another file, whose log goes on where this one's does; `lock` is held.

        What was read from the old one stays readable for whoever keeps its `Era`. It can be done
        again where an interrupt (Ctrl-C) has left it.

        Args:
            file: Is owned by the log from now on; the old one is closed.
            era, state: Of what it holds, with a base from `next_base`.
        """
        old, old_file = self.era, self._file
        if old is era:
            return
        if old.stop == MAX_SLOT:
            old.stop = self.next_slot
        kept = [each for each in self._earlier if each() not in (None, old)]
        self._earlier = [weakref.ref(old), *kept]
        self._file = file
        self.path = file.path
        self._start_era(era, state)
        if old_file is not file:
            old_file.close()

    # -- appending -----------------------------------------------------------------------

    @property
    def has_marks(self) -> bool:
        """Whether only those records are encrypted that are marked, or were when they came in."""
        return self._state.cipher is not None and not self.seal_flags()

    def seal_flags(self, *, is_marked: bool = False) -> int:
        """Return the flags of the pointer to a new record: whether it is to be encrypted.

        Args:
            is_marked: The record is one of those that ``encrypt="marked"`` encrypts.
        """
        cipher, keys = self._state.cipher, self._keys
        if cipher is None or keys is None:
            return 0
        is_sealed = is_marked or not (cipher.is_marked and keys.wants_marked)
        return POINTER_SEALED if is_sealed else 0

    def append_one(self, identity: int, payload: bytes, end_of_pointer: bytes) -> int:
        """Append a commit of one version; `lock` is held and the gate is open.

        Args:
            identity: The record's.
            payload: Its bytes; empty for a deletion.
            end_of_pointer: See `pointer_end`.

        Returns:
            The slot of the version.

        Raises:
            WriteError: There is no room; nothing was changed.

        Cost: O(payload), no system call. Written flat, 0.4 us: a `with`, a helper or a NumPy
        scalar here each cost a tenth of an insert (benchmark ``insert``).
        """
        size = len(payload)
        start = self.end
        end = start + _SINGLE_PADDED_BYTES + size & _ALIGNMENT_MASK
        if end > self._limit:
            self._flusher.take_failure()
            self.refuse_large(size)
            self._make_room(end - start)
        at = start + _SINGLE_BYTES
        now = _time_ns()
        if now < self.timestamp:
            now = self.timestamp
        sequence = self.sequence + 1
        slot = self._count
        if size:
            body = _pack_single(
                SINGLE_MAGIC_AND_COUNT, sequence, now, size,
                identity, at, size, checksum32(payload), end_of_pointer,
            )  # fmt: skip
        else:
            body = _pack_single(
                SINGLE_MAGIC_AND_COUNT, sequence, now, 0, identity, 0, 0, 0, end_of_pointer
            )
        block = checksum64(body, self.file_id) + body + payload
        try:
            self.positions.append(start + BLOCK_BYTES)
            if now >= self._next_run:
                self._state.map.add_run(slot, now)
                self._next_run = now + RUN_NANOSECONDS
            # Invariant: no call between these, so that an interrupt (Ctrl-C) finds the commit
            # either wholly in the log or not at all; nor may a reader in another process, who
            # takes it in as soon as its bytes are there.
            self.data[start : at + size] = block
            self.end = end
            self.sequence = sequence
            self.timestamp = now
            self._count = slot + 1
        except BaseException:
            self._take_back(start)
            raise
        return self.era.base + slot

    def append_batch(self, pointers: Array, payloads: Sequence[bytes]) -> int:
        """Append one commit of several versions; `lock` is held and the gate is open.

        Args:
            pointers: (n,) POINTER_DTYPE, n >= 1, with identity, collection, writer and kind, and
                the flag `POINTER_SEALED` where the record is to be encrypted, as `seal_flags`
                says; the rest is filled in here.
            payloads: (n) The records' bytes, not encrypted; empty for deletions.

        Returns:
            The slot of the first version; the others follow it.

        Raises:
            WriteError: There is no room; nothing was changed.
        """
        count = len(pointers)
        pointers["flags"] &= POINTER_SEALED
        pointers["flags"][-1] |= POINTER_LAST_OF_COMMIT
        start = self.end
        at = start + BLOCK_BYTES + POINTER_BYTES * count
        cipher = self._state.cipher
        if cipher is None:
            self.refuse_large(int(place_payloads(pointers, payloads, at).max()))
        else:
            self.refuse_large(max(map(len, payloads)))
            payloads = cipher.seal_many(self._count, pointers, payloads)
            place_payloads(pointers, payloads, at)
        payload = b"".join(payloads)
        end = (at + len(payload) + ALIGNMENT - 1) & -ALIGNMENT
        # Much at once is written: one copy, and no page faults.
        is_written = self._is_shared and len(payload) >= _WORTH_A_WRITE_BYTES
        if end > self._limit or is_written:
            self._flusher.take_failure()
            self._make_room(end - start, to_be_written=is_written)
        now = max(_time_ns(), self.timestamp)
        sequence = self.sequence + 1
        head = pack_block(
            COMMIT_MAGIC, sequence, now, pointers.tobytes(), len(payload), self.file_id
        )
        slot = self._count
        try:
            if is_written:
                self._file.write(at, payload)
                self._file.write(start + CHECKSUM_BYTES, memoryview(head)[CHECKSUM_BYTES:])
            else:
                self.data[at : at + len(payload)] = payload
                self.data[start + CHECKSUM_BYTES : at] = head[CHECKSUM_BYTES:]
            self._state.map.extend(start + BLOCK_BYTES, count)
            if count >= LARGE_COMMIT:
                self._state.large_commits.append((slot, start, count))
            if now >= self._next_run:
                self._state.map.add_run(slot, now)
                self._next_run = now + RUN_NANOSECONDS
            checksum = head[:CHECKSUM_BYTES]
            # Invariant: as in append_one; without its checksum the block is none.
            self.data[start : start + CHECKSUM_BYTES] = checksum
            self.end = end
            self.sequence = sequence
            self.timestamp = now
            self._count = slot + count
        except BaseException as error:
            self._take_back(start)
            if isinstance(error, OSError):
                raise write_error(error, self.path) from error
            raise
        return self.era.base + slot

    def _take_back(self, start: int) -> None:
        """Undo what an interrupted append left in map and memory; its commit did not count."""
        # Without its checksum it is none for a reader or the next opening either.
        self.data[start : start + CHECKSUM_BYTES] = bytes(CHECKSUM_BYTES)
        slots = self._state.map
        slots.cut(self._count)
        self._next_run = slots.next_run
        large = self._state.large_commits
        while large and large[-1][0] >= self._count:
            large.pop()

    def _append_checkpoint(self) -> None:
        pointers, checkpoint, link = build_checkpoint(
            self._state, self.data, max(self._interval, FULL_CHECKPOINT)
        )
        payload = pack_checked(pack_checkpoint(checkpoint), self.file_id)
        link.offset = self._append_block(CHECKPOINT_MAGIC, pointers, payload)
        chain = self._state.chain
        kept = len(chain)
        while kept and chain[kept - 1].offset != checkpoint.previous:
            kept -= 1
        # Invariant: at one stroke; `vitals` looks without a lock.
        self._state.chain = [*chain[:kept], link]
        self._state.large_commits.clear()
        self._state.has_index_behind = False

    def _append_block(self, magic: bytes, pointers: bytes, payload: bytes) -> int:
        """Append a block that is no commit; return its offset."""
        start = self.end
        size = BLOCK_BYTES + len(pointers) + len(payload)
        end = (start + size + ALIGNMENT - 1) & -ALIGNMENT
        is_written = self._is_shared and size >= _WORTH_A_WRITE_BYTES
        if end > self._limit or is_written:
            self._make_room(end - start, to_be_written=is_written)
        now = max(_time_ns(), self.timestamp)
        block = pack_block(magic, self.sequence + 1, now, pointers, len(payload), self.file_id)
        if is_written:
            try:
                self._file.write(start + len(block), payload)
                self._file.write(start + CHECKSUM_BYTES, memoryview(block)[CHECKSUM_BYTES:])
            except OSError as error:
                raise write_error(error, self.path) from error
            block = block[:CHECKSUM_BYTES]
        else:
            block += payload
        # Invariant: as in append_one.
        self.data[start : start + len(block)] = block
        self.end = end
        self.sequence += 1
        self.timestamp = now
        return start

    def refuse_large(self, payload_bytes: int) -> None:
        """Raise WriteError if a record of so many bytes is more than a pointer can tell."""
        limit = MAX_PAYLOAD_BYTES if self._state.cipher is None else MAX_SEALED_BYTES
        if payload_bytes > limit:
            raise WriteError(
                f"{self.path}: a record of {payload_bytes} bytes is larger than the"
                f" {limit} that one record can have. Split it.",
                path=self.path,
                errno=errno.EFBIG,
            )
