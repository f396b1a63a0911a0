"""What becomes of an open log on the disk: room for appends, syncs, copies, the end of it."""

from __future__ import annotations

import contextlib
import mmap
import threading
import time
from abc import abstractmethod
from typing import Any, Literal

from memdb.errors import ClosedError, FailedError, MemdbError, WriteError
from memdb.storage._blocks import Root, pack_root
from memdb.storage._catalogue_log import CatalogueLog
from memdb.storage._checkpoint import unchecked_slot
from memdb.storage._constants import BLOCK_BYTES, PAGE_BYTES, POINTER_BYTES, ROOT_OFFSETS
from memdb.storage._copying import Prefix
from memdb.storage._creation import write_holder
from memdb.storage._file import File, MapAccess
from memdb.storage._gate import OUT_OF_SPACE, Shut, sync_error, write_error
from memdb.storage._key_slots import Keys, unexpected_key
from memdb.storage._new_file import copied_header
from memdb.storage._recovery import Recovery
from memdb.storage._secret import Secret

_MIN_GROWTH_BYTES = 1 << 20
_ZEROS = bytes(1 << 20)
_SINGLE_BYTES = BLOCK_BYTES + POINTER_BYTES

_GROUP_POLL_S = 0.05
# Stands for a group of writers that wait for a sync, where there is none.
NO_GROUP = threading.Lock()


class DurableLog(CatalogueLog):
    """What an open log has for the disk; `Log` opens, appends, and fills the attributes.

    Threads: the methods that begin with an underscore need `sync_lock`, `lock` or both, as they
    say; all others take what they need themselves; `sync_lock` is taken before `lock`.
    """

    __slots__ = (
        "_access",
        "_group",
        "_interval",
        "_is_closing",
        "_is_shared",
        "_keys",
        "_limit",
        "_mode",
        "_root",
        "_written_end",
        "_zeroed_end",
        "file_id",
        "has_failed",
        "lock",
        "recovery",
        "safe_since_s",
        "sequence",
        "sync_lock",
        "synced_end",
        "timestamp",
    )

    _access: MapAccess
    _group: threading.Lock
    _interval: int
    _is_closing: bool
    _is_shared: bool
    _keys: Keys | None
    _limit: int
    _mode: Literal["rw", "r", "append"]
    _root: Root
    _written_end: int
    _zeroed_end: int
    file_id: int
    has_failed: bool
    lock: threading.Lock
    recovery: Recovery | None
    safe_since_s: float
    sequence: int
    sync_lock: threading.Lock
    synced_end: int
    timestamp: int

    @abstractmethod
    def _append_checkpoint(self) -> None:
        """Append a checkpoint; `lock` is held."""

    # -- room ----------------------------------------------------------------------------

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
        self._show(self._file.map(self._file.length(), self._access))

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
            self.safe_since_s = time.monotonic()
            self._flusher.start()

    def keep_failure(self, failure: MemdbError) -> None:
        """Have the next call that writes raise a failure of the background."""
        self._flusher.failure = failure
        self._lower_limit()

    def take_failure(self) -> None:
        """Raise a failure of the background that nobody was told of yet, once."""
        self._flusher.take_failure()

    def _lower_limit(self) -> None:
        """Have the next append come to where a failure of the background is raised."""
        self._limit = min(self._limit, 1)

    def _show(self, data: mmap.mmap) -> None:
        """Have a map of the file take the place of a shorter one."""
        self.data = self.era.data = data

    # -- copying -------------------------------------------------------------------------

    @property
    def file(self) -> File:
        """The present file, which is the log's."""
        return self._file

    @property
    def keys(self) -> Keys | None:
        """Those of an encrypted file."""
        return self._keys

    def prefix(self) -> Prefix:
        """Return the log as it is now, to be copied while others go on.

        Raises:
            WriteError: The disk has no room for what only memory holds (``buffered``).
        """
        # That for syncing, so that no key slot is half changed.
        with self.sync_lock, self.lock:
            self.raise_if_closed()
            try:
                return self.locked_prefix()
            except OSError as error:
                raise write_error(error, self.path) from error

    def locked_prefix(self) -> Prefix:
        """Return what `prefix` does; both locks are held."""
        self._write_private()
        state = self._state
        root = self._root.next(
            log_end=self.end,
            checkpoint=state.chain[-1].offset if state.chain else 0,
            catalogue=state.catalogue_offset,
            sequence=self.sequence,
            timestamp=self.timestamp,
            boot_id=self._file.boot_id,
            is_clean=True,
        )
        header = copied_header(self._file)
        return Prefix(self._file.duplicate(), self.file_id, root, header, self._keys)

    def map_like_own(self, file: File, length: int) -> mmap.mmap:
        """Map another file as this log maps its own."""
        return file.map(length, self._access)

    def sync_name(self) -> None:
        """Return once it survives power loss that the file is found at its path.

        Raises:
            FailedError: The disk refused; no further write is accepted.
        """
        try:
            self._file.sync_directory()
        except OSError as error:
            raise self._fail(error) from error

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
        failure, now = None, time.monotonic()
        with self.lock:
            unchecked = self._state.map.next_slot - unchecked_slot(self._state)
            # Opening must not walk over an index, whose damage would be that of the log then.
            if unchecked >= due or (due == 1 and self._state.has_index_behind):
                try:
                    self._append_checkpoint()
                except WriteError as error:
                    failure = error
            if self.end == self._root.log_end and self.end == self.synced_end:
                self.safe_since_s = now
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
            self.synced_end, self.safe_since_s = root["log_end"], now
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

        An end behind that of the log is that of a file which a compaction has replaced since, and
        all of that is safe in the new one.

        Writers that come while another one syncs form a group: the first of them waits for that
        sync to end and then syncs for all. They wait for that one and not for each other's turn at
        `sync_lock`, so that none sits through the sync of the group behind it (benchmark
        ``synced_threads``).

        Raises:
            FailedError: The disk refused; no further write is accepted.
        """
        while self.synced_end < end <= self.end:
            group = self._group
            if group.locked():
                if group.acquire(timeout=_GROUP_POLL_S):
                    group.release()
                elif not self.sync_lock.locked():
                    # An interrupt (Ctrl-C) between the two lines above left it locked for ever.
                    self._group = NO_GROUP
                continue
            group = threading.Lock()
            with group:
                self._group = group
                with self.sync_lock:
                    # Invariant: nobody joins once the end is looked at.
                    self._group = NO_GROUP
                    # Before the gate: close() may have synced for this writer and shut it.
                    if self.synced_end >= end:
                        return
                    self.raise_if_failed()
                    target, now = self.end, time.monotonic()
                    try:
                        self._file.sync()
                    except OSError as error:
                        raise self._fail(error) from error
                    self.synced_end, self.safe_since_s = target, now

    def rekey(self, secret: Secret) -> None:
        """Have the file opened by another key or password from now on.

        Killed at any moment, the old one or the new one opens the file; when this returns only
        the new one does. The data key stays, and with it everything that is encrypted.

        Raises:
            WrongKeyError: The file is not encrypted, or the new key or password can't be one.
            ReadOnlyError, ClosedError: It can't be written.
            FailedError: The disk refused; no further write is accepted.
        """
        self.raise_if_unusable()
        if self._keys is None:
            raise unexpected_key(self.path)
        with self.sync_lock:
            self.raise_if_unusable()
            try:
                self._keys.change(self._file, self.file_id, secret)
            except OSError as error:
                if isinstance(error, MemdbError):
                    raise
                raise self._fail(error) from error

    def raise_if_failed(self) -> None:
        """Raise if a sync has failed, or the handle is closed or from before a fork."""
        if self.gate is not Shut.READ_ONLY:
            self.raise_if_unusable()

    # -- closing -------------------------------------------------------------------------

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
                if is_kept and is_changed and not self.has_failed:
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
        data = self.data
        self._show(mmap.mmap(-1, 1))
        self._limit = 0
        # Where somebody still looks at an array over the map, it goes with that.
        with contextlib.suppress(BufferError):
            data.close()
        self._file.close(keep_lock=keep_lock)

    # -- errors --------------------------------------------------------------------------

    def _fail(self, error: OSError) -> FailedError:
        """Refuse every further write: after a failed sync the kernel may have dropped pages."""
        self.has_failed = True
        self.gate = Shut.FAILED
        return sync_error(error, self.path)
