"""The log: appending commits to the file, syncing them, reading them back."""

from __future__ import annotations

import contextlib
import errno
import mmap
import threading
import time
from array import array
from typing import Any, Literal

import numpy as np

from memdb.errors import (
    ClosedError,
    FailedError,
    MemdbError,
    OpenError,
    WriteError,
)
from memdb.storage._blocks import (
    Array,
    checksum32,
    checksum64,
    pack_block,
    pack_checked,
    pack_checkpoint,
    pack_root,
)
from memdb.storage._catalogue_log import CatalogueLog
from memdb.storage._checkpoint import build_checkpoint, unchecked_slot
from memdb.storage._constants import (
    ALIGNMENT,
    BLOCK_BYTES,
    CHECKPOINT_MAGIC,
    CHECKSUM_BYTES,
    COMMIT_MAGIC,
    MAX_PAYLOAD_BYTES,
    PAGE_BYTES,
    POINTER,
    POINTER_BYTES,
    POINTER_END,
    POINTER_LAST_OF_COMMIT,
    ROOT_OFFSETS,
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
from memdb.storage._file import File, MapAccess, write_beside
from memdb.storage._flusher import Flusher
from memdb.storage._gate import OUT_OF_SPACE, Shut, sync_error, write_error
from memdb.storage._recovery import LARGE_COMMIT, Recovery, load

Durability = Literal["buffered", "written", "synced"]

_MIN_GROWTH_BYTES = 1 << 20
# Checkpoints of so many versions and more are never taken over by later ones.
_FULL_CHECKPOINT = 65_536
_WORTH_A_WRITE_BYTES = 1 << 18
_ZEROS = bytes(1 << 20)
_SINGLE_BYTES = BLOCK_BYTES + POINTER_BYTES
_SINGLE_PADDED_BYTES = _SINGLE_BYTES + ALIGNMENT - 1
_ALIGNMENT_MASK = -ALIGNMENT

# Bound once: a module attribute costs two look-ups in `append_one`.
_time_ns = time.time_ns
_pack_single = SINGLE_COMMIT.pack
_unpack_pointer = POINTER.unpack_from


def pointer_end(collection: int, writer: int, kind: Kind) -> bytes:
    """Return the last eight bytes of a pointer that is alone in its commit."""
    return POINTER_END.pack(collection, writer, kind, POINTER_LAST_OF_COMMIT, 0)


class Log(CatalogueLog):
    """One open file, with what appends and syncs; `LogReader` has what reads.

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
        positions: Slot -> offset of its pointer, see `PointerMap`.
        is_closed: Not even reading is possible.
        recovery: What opening had to mend, or None.
    """

    __slots__ = (
        "_access",
        "_has_failed",
        "_interval",
        "_is_closing",
        "_is_shared",
        "_limit",
        "_mode",
        "_next_run",
        "_root",
        "_written_end",
        "_zeroed_end",
        "file_id",
        "lock",
        "recovery",
        "sequence",
        "sync_lock",
        "synced_end",
        "timestamp",
    )

    def __init__(
        self,
        file: File,
        *,
        mode: Literal["rw", "r", "append"] = "rw",
        durability: Durability = "written",
        flush_interval_s: float = 1.0,
        checkpoint_interval: int = 65_536,
    ) -> None:
        """Lock the file, make it if it is empty, and load its state.

        Args:
            file: Is owned by the log from now on, and closed when this raises.
            mode: ``r`` takes no lock and changes nothing.
            durability: Says where an append goes, see ``docs/design.md``.
            flush_interval_s: Seconds between two syncs in the background.
            checkpoint_interval: Versions after which a checkpoint is written.

        Raises:
            LockedError: Another writer has the file.
            OpenError: It is no memdb file, or of a newer format.
            DamageError: The file is damaged.
        """
        self._file = file
        self.path = file.path
        self._mode = mode
        self._interval = checkpoint_interval
        self._access: MapAccess = (
            "read" if mode == "r" else "private" if durability == "buffered" else "shared"
        )
        # Whether the map is that of a real file, where writes to the file show.
        self._is_shared = self._access == "shared" and file.path is not None
        self.lock = threading.Lock()
        self.sync_lock = threading.Lock()
        self._flusher = Flusher(self._sync_behind, flush_interval_s, self._lower_limit)
        self._is_closing = False
        self.recovery: Recovery | None = None
        self.gate: object | None = None
        self.is_closed = False
        self._has_failed = False
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
                create(file)
        state, tail, self.data = load(file, self._access)
        kept_in = None
        length = file.length()
        # The space that a killed writer had reserved is no finding.
        cut_bytes = len(tail.torn) + (tail.zero_bytes if state.root.is_clean else 0)
        if self._mode != "r":
            if tail.torn and self.path is not None:
                kept_in = write_beside(f"{self.path}.torn-{state.end}", tail.torn)
            if length > state.end:
                file.truncate(state.end)
            write_holder(file, own_name())
        if cut_bytes or not state.root.is_clean:
            self.recovery = Recovery(
                was_clean=state.root.is_clean,
                replayed_commits=state.replayed_commits,
                replayed_versions=state.replayed_versions,
                cut_offset=state.end,
                cut_bytes=cut_bytes,
                kept_in=kept_in,
            )
        self._state = state
        self._root = state.root
        self.file_id = state.file_id
        self.end = self.synced_end = self._written_end = self._zeroed_end = state.end
        if self.recovery is not None:
            self.synced_end = state.root.log_end
        self.sequence, self.timestamp = state.sequence, state.timestamp
        self.positions: array[int] = state.map.positions
        self._count = len(self.positions)
        self._next_run = state.map.next_run
        # Invariant: _limit is 0 until the session's first write, which goes through _make_room.
        self._limit = 0
        if self._mode == "r":
            self.gate = Shut.READ_ONLY

    # -- opening and closing -------------------------------------------------------------

    def close(self) -> None:
        """Checkpoint, sync, cut the reserved space, mark the file clean, give up the lock.

        Cost: O(versions since the last checkpoint) and two syncs; nothing when nothing was
        written. A second call does nothing.

        Raises:
            FailedError: The data could not be synced. The file is closed all the same.
            WriteError: A failure in the background that no call has met yet.
        """
        if self.gate is Shut.FORKED:
            return
        with self.lock:
            if not self._is_closing:
                self._is_closing = True
                # From here on no writer gets in; readers may go on until the map is given up.
                self.gate = Shut.CLOSED
        self._flusher.stop()
        # The lock for syncing, so that none is under way when the file goes.
        with self.sync_lock:
            if self.is_closed:
                # An interrupt may have left the second half to this call.
                self._release()
                return
            is_changed = self._limit or self.recovery is not None
            is_kept = self._mode != "r" and self._file.path is not None
            try:
                if is_kept and is_changed and not self._has_failed:
                    self._finish()
                self._flusher.take_failure()
            except Exception:
                self._give_up()
                raise
            # An interrupt (Ctrl-C) leaves what is not synced to another call of close().
            self._give_up()

    def _give_up(self) -> None:
        """Let go of lock, file and map."""
        if self._mode != "r" and self._file.path is not None:
            # The note is only for a message, and means nothing once the lock is gone.
            with contextlib.suppress(OSError):
                write_holder(self._file, "")
        with self.lock:
            self.is_closed = True
            self._release()

    def close_unused(self) -> None:
        """Close the log of a database that was dropped without being closed.

        The collector may find that out in the flusher itself, in the middle of a sync and with
        the locks held; then the flusher closes when it is through.
        """
        if self._flusher.is_own_thread():
            self._flusher.stop_with(self.close)
        else:
            self.close()

    def _finish(self) -> None:
        # Without the checkpoint (a full disk) the next opening walks the commits.
        self._sync(due=1)
        try:
            self._file.truncate(self.end)
            self._write_root(is_clean=True)
            self._file.sync()
        except OSError as error:
            raise self._fail(error) from error

    def shut_after_fork(self) -> None:
        """Make the handle useless in a forked child, touching neither file nor locks."""
        self.gate = Shut.FORKED
        self.is_closed = self._is_closing = True

    def abandon(self) -> None:
        """Let go of file and map in a forked child: they share the parent's lock with it."""
        self._release(keep_lock=True)

    def _release(self, *, keep_lock: bool = False) -> None:
        data, self.data = self.data, mmap.mmap(-1, 1)
        self._limit = 0
        # Where somebody still looks at an array over the map, it goes with that.
        with contextlib.suppress(BufferError):
            data.close()
        self._file.close(keep_lock=keep_lock)

    # -- errors --------------------------------------------------------------------------

    def _fail(self, error: OSError) -> FailedError:
        """Refuse every further write: after a failed sync the kernel may have dropped pages."""
        self._has_failed = True
        self.gate = Shut.FAILED
        return sync_error(error, self.path)

    # -- appending -----------------------------------------------------------------------

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
        try:
            self.data[start : at + size] = checksum64(body, self.file_id) + body + payload
            self.positions.append(start + BLOCK_BYTES)
            if now >= self._next_run:
                self._state.map.add_run(slot, now)
                self._next_run = now + RUN_NANOSECONDS
            # Invariant: no call between these, so that an interrupt (Ctrl-C) finds the commit
            # either wholly in the log or not at all.
            self.end = end
            self.sequence = sequence
            self.timestamp = now
            self._count = slot + 1
        except BaseException:
            self._take_back(start)
            raise
        return slot

    def append_batch(self, pointers: Array, payload: bytes) -> int:
        """Append one commit of several versions; `lock` is held and the gate is open.

        Args:
            pointers: (n,) POINTER_DTYPE, n >= 1, with identity, length, checksum, collection,
                writer and kind; offsets and flags are filled in here.
            payload: The records' bytes, joined in the order of the pointers.

        Returns:
            The slot of the first version; the others follow it.

        Raises:
            WriteError: There is no room; nothing was changed.
        """
        count = len(pointers)
        start = self.end
        at = start + BLOCK_BYTES + POINTER_BYTES * count
        end = (at + len(payload) + ALIGNMENT - 1) & -ALIGNMENT
        # Much at once is written: one copy, and no page faults.
        is_written = self._is_shared and len(payload) >= _WORTH_A_WRITE_BYTES
        if end > self._limit or is_written:
            self._flusher.take_failure()
            self._make_room(end - start, to_be_written=is_written)
        lengths = pointers["length"].astype(np.uint64)
        offsets = np.uint64(at) + np.cumsum(lengths) - lengths
        pointers["offset"] = np.where(lengths > 0, offsets, np.uint64(0))
        pointers["flags"] = 0
        pointers["flags"][-1] = POINTER_LAST_OF_COMMIT
        now = max(_time_ns(), self.timestamp)
        sequence = self.sequence + 1
        head = pack_block(
            COMMIT_MAGIC, sequence, now, pointers.tobytes(), len(payload), self.file_id
        )
        slot = self._count
        try:
            if is_written:
                self._file.write(at, payload)
                self._file.write(start, head)
            else:
                self.data[start:at] = head
                self.data[at : at + len(payload)] = payload
            self._state.map.extend(start + BLOCK_BYTES, count)
            if count >= LARGE_COMMIT:
                self._state.large_commits.append((slot, start, count))
            if now >= self._next_run:
                self._state.map.add_run(slot, now)
                self._next_run = now + RUN_NANOSECONDS
            # Invariant: as in append_one.
            self.end = end
            self.sequence = sequence
            self.timestamp = now
            self._count = slot + count
        except BaseException as error:
            self._take_back(start)
            if isinstance(error, OSError):
                raise write_error(error, self.path) from error
            raise
        return slot

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
            self._state, self.data, max(self._interval, _FULL_CHECKPOINT)
        )
        payload = pack_checked(pack_checkpoint(checkpoint), self.file_id)
        link.offset = self._append_block(CHECKPOINT_MAGIC, pointers, payload)
        chain = self._state.chain
        while chain and chain[-1].offset != checkpoint.previous:
            chain.pop()
        chain.append(link)
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
                self._file.write(start, block)
            except OSError as error:
                raise write_error(error, self.path) from error
        else:
            self.data[start : start + size] = block + payload
        self.end = end
        self.sequence += 1
        self.timestamp = now
        return start

    def _make_room(self, size: int, *, to_be_written: bool = False) -> None:
        """See to it that ``size`` more bytes can be appended; a session's first write begins here.

        Args:
            to_be_written: The bytes go to the file by a write and not through the map.

        Raises:
            WriteError: The disk has no room.
        """
        needed = self.end + size
        # So small a step that the flusher is told of a due checkpoint in time.
        step = self._interval * _SINGLE_BYTES
        try:
            if needed > len(self.data) or not self._limit:
                self._reserve(needed)
            if not self._limit:
                self._begin_session()
            limit = min(len(self.data), max(needed, self.end + step))
            if not to_be_written:
                self._zero(limit)
        except OSError as error:
            raise write_error(error, self.path) from error
        # The next append after a written one comes here again, for its zeros.
        self._limit = self.end if to_be_written else limit
        if self._state.map.next_slot - unchecked_slot(self._state) >= self._interval:
            self._flusher.wake()

    def refuse_large(self, payload_bytes: int) -> None:
        """Raise WriteError if a record of so many bytes is more than a pointer can tell."""
        if payload_bytes > MAX_PAYLOAD_BYTES:
            raise WriteError(
                f"{self.path}: a record of {payload_bytes} bytes is larger than the"
                f" {MAX_PAYLOAD_BYTES} that one record can have. Split it.",
                path=self.path,
                errno=errno.EFBIG,
            )

    def _reserve(self, needed: int) -> None:
        """Allocate and map up to ``needed``, and further ahead where the disk has room."""
        growth = min(max(needed // 2, _MIN_GROWTH_BYTES), self._file.growth_bytes)
        # Whole pages: a map ends on one anyway.
        ahead = -(-(needed + growth) // PAGE_BYTES) * PAGE_BYTES
        try:
            self._file.reserve(ahead)
        except OSError as error:
            if error.errno not in OUT_OF_SPACE:
                raise
            self._file.reserve(needed)
        self._write_private()
        self.data = self._file.map(self._file.length(), self._access)

    def _zero(self, limit: int) -> None:
        """Write zeros over the reserved space that the next appends go to.

        Space that is only reserved costs each page fault a change of the file's extents: 60 ns
        an insert, where writing the zeros costs 20 (benchmark ``insert``).
        """
        start = max(self._zeroed_end, self.end)
        if self._is_shared:
            for offset in range(start, limit, len(_ZEROS)):
                self._file.write(offset, memoryview(_ZEROS)[: limit - offset])
            self._zeroed_end = max(limit, start)

    def _begin_session(self) -> None:
        if self._file.path is not None:
            self._write_root(is_clean=False, boot_id=self._file.boot_id)
            self._flusher.start()

    def _lower_limit(self) -> None:
        """Have the next append come to where a failure of the background is raised."""
        self._limit = min(self._limit, 1)

    # -- syncing -------------------------------------------------------------------------

    def _write_private(self) -> None:
        """Write what only private memory holds (``buffered``) to the file."""
        if self._access == "private" and self._written_end < self.end:
            end = self.end
            with memoryview(self.data) as view:
                self._file.write(self._written_end, view[self._written_end : end])
            self._written_end = end

    def _write_root(self, **changes: Any) -> None:
        root = self._root.next(**changes)
        self._file.write(ROOT_OFFSETS[root.generation % 2], pack_root(root, self.file_id))
        self._root = root

    def sync(self, *, checkpoint: bool = False) -> None:
        """Return once every commit so far survives power loss.

        Args:
            checkpoint: Write one now, if there is anything new for it; else only when due.

        Raises:
            FailedError: The disk refused; no further write is accepted.
            WriteError: There is no room for the checkpoint that was asked for; the commits are
                synced all the same.
        """
        if self._mode == "r":
            self.raise_if_closed()
            return
        self.raise_if_failed()
        with self.sync_lock:
            self.raise_if_failed()
            failure = self._sync(due=1 if checkpoint else self._interval)
        if checkpoint and failure is not None:
            raise failure

    def _sync(self, due: int) -> WriteError | None:
        """Sync, with a checkpoint first if ``due`` versions wait for one; `sync_lock` is held.

        Returns:
            Why there was no checkpoint. It is only there to spare the next opening a walk, so
            that a full disk must not keep the commits from being synced.
        """
        failure = None
        with self.lock:
            unchecked = self._state.map.next_slot - unchecked_slot(self._state)
            # Opening must not walk over an index, whose damage would be that of the log then.
            if unchecked >= due or (due == 1 and self._state.has_index_behind):
                try:
                    self._append_checkpoint()
                except WriteError as error:
                    failure = error
            if self.end == self._root.log_end and self.end == self.synced_end:
                return failure
            root = {
                "log_end": self.end,
                "checkpoint": self._state.chain[-1].offset if self._state.chain else 0,
                "catalogue": self._state.catalogue_offset,
                "sequence": self.sequence,
                "timestamp": self.timestamp,
            }
            try:
                self._write_private()
            except OSError as error:
                raise self._fail(error) from error
        try:
            self._file.sync()
            self.synced_end = root["log_end"]
            self._write_root(**root)
        except OSError as error:
            raise self._fail(error) from error
        return failure

    def _sync_behind(self) -> None:
        """Sync in the background."""
        try:
            self.sync()
        except ClosedError:
            # close() has begun meanwhile, and syncs everything itself.
            if not self._is_closing:
                raise

    def sync_to(self, end: int) -> None:
        """Return once every byte before ``end`` survives power loss.

        Writers that come while one syncs wait for it, and then one of them syncs for all.

        Raises:
            FailedError: The disk refused; no further write is accepted.
        """
        while self.synced_end < end:
            with self.sync_lock:
                # Before the gate: close() may have synced for this writer and shut it.
                if self.synced_end >= end:
                    return
                self.raise_if_failed()
                target = self.end
                try:
                    self._file.sync()
                except OSError as error:
                    raise self._fail(error) from error
                self.synced_end = target

    def raise_if_failed(self) -> None:
        """Raise if a sync has failed, or the handle is closed or from before a fork."""
        if self.gate is not Shut.READ_ONLY:
            self.raise_if_unusable()
