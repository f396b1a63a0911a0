"""How an open log is doing, for `Database.health`: looked at without waiting for anybody."""

from __future__ import annotations

import time
from typing import NamedTuple

from memdb.errors import MemdbError
from memdb.storage._checkpoint import unchecked_slot
from memdb.storage._constants import LOG_START
from memdb.storage._key_slots import has_two_slots
from memdb.storage._log import Log
from memdb.storage._recovery import Window, valid_header


class Vitals(NamedTuple):
    """What tells how a log is doing.

    Attributes:
        has_failed: A sync has failed: no write is accepted any more.
        failure: What failed in the background and no call was told of yet.
        unsynced_s: For how long there have been commits that are not synced, 0 for none.
        flush_interval_s: How long that should be.
        unchecked_versions: Versions behind the last checkpoint; 0 where none is written.
        checkpoint_interval: How many that should be.
        damaged: Offsets of the payloads that did not match their checksum when they were read.
        log_bytes: Of the log, without reserved space.
        has_two_keys: A change of the key or password is not through: both open the file.
    """

    has_failed: bool
    failure: MemdbError | None
    unsynced_s: float
    flush_interval_s: float
    unchecked_versions: int
    checkpoint_interval: int
    damaged: tuple[int, ...]
    log_bytes: int
    has_two_keys: bool


def vitals(log: Log) -> Vitals:
    """Return how a log is doing.

    No lock is taken, as whoever holds it may be waiting for a disk that does not answer. What is
    read here is changed at one stroke each.

    Cost: O(damaged).
    """
    # In this order: what is synced between the two lines is not taken for late.
    since = log.safe_since_s
    is_unsynced = log.end > log.synced_end
    with log.while_open():
        # Through the map: another process may have changed them, and no call may have to wait.
        has_two_keys = log.is_encrypted and has_two_slots(log.data)
    # Nobody else syncs and checkpoints.
    is_kept = log.path is not None and log._mode != "r"
    return Vitals(
        has_failed=log.has_failed,
        failure=log._flusher.failure,
        unsynced_s=time.monotonic() - since if is_unsynced and is_kept else 0.0,
        flush_interval_s=log._flusher.interval_s,
        unchecked_versions=log._count - unchecked_slot(log._state) if is_kept else 0,
        checkpoint_interval=log._interval,
        damaged=tuple(sorted(log.damaged.copy())),
        log_bytes=log.end - LOG_START,
        has_two_keys=has_two_keys,
    )


def is_elsewhere(log: Log) -> bool:
    """Whether the file that is open is not the one that its path leads to. Cost: two system calls.

    For a moment that is so while a compaction puts another file in its place.
    """
    try:
        return not log._file.is_at_its_path()
    except OSError:
        # A folder that can't be looked into any more.
        return True


def behind_s(log: Log) -> float:
    """Return for how long a reader has not taken in a commit that is in the file, 0 for none.

    Also 0 while it is about to take in what there is, which may take long, and is not waited for.

    Raises:
        OSError: The file can't be read.

    Cost: O(the block that follows); some system calls.
    """
    if log.sync_lock.locked():
        return 0.0
    # Not closed meanwhile.
    with log.sync_lock:
        log.raise_if_closed()
        file, state = log._file, log._state
        header = valid_header(Window(file), state.file_id, log.end, file.length())
        if header is None or header.sequence != log.sequence + 1:
            return 0.0
        return max((time.time_ns() - header.timestamp) / 1e9, 0.0)
