"""The past: a log as it was at one of its commits, which stays as it is while others write."""

from __future__ import annotations

import mmap
import threading
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import numpy as np

from memdb.errors import CommitNotFoundError
from memdb.storage._blocks import Array
from memdb.storage._constants import POINTER_LAST_OF_COMMIT
from memdb.storage._era import MAX_SLOT, Era
from memdb.storage._gate import Shut
from memdb.storage._log import Log
from memdb.storage._origin import origin_of
from memdb.storage._pointer_map import PointerMap
from memdb.storage._recovery import LogState
from memdb.storage._restoring import as_text, nanoseconds

# Where the end of a commit is looked for at once.
_PART_VERSIONS = 4096


class PastLog(Log):
    """A log as it was at one commit: that of another one, without what came later.

    It reads the file that the other one had then, through the same maps, and has nothing of its
    own to close; nothing can be written to it.
    """

    __slots__ = ("_catalogue", "_identities")

    def __new__(cls, log: Log, stop: int) -> PastLog:
        """Return an object for `__init__`: what kind of log the other one is does not matter."""
        return object.__new__(cls)

    def __init__(self, log: Log, stop: int) -> None:
        """Have a log as it was.

        Args:
            log: The other one; its `lock` is held.
            stop: The number in the present file of the first version that is not seen, behind
                the end of a commit.
        """
        # What is not said here is as in the other one; the base class would open a file.
        for name in [name for cls in type(log).__mro__ for name in getattr(cls, "__slots__", ())]:
            if hasattr(log, name):
                setattr(self, name, getattr(log, name))
        self.lock = threading.Lock()
        self.sync_lock = threading.Lock()
        self.recovery = None
        self.gate: object | None = Shut.PAST
        self._count = stop
        self._earlier = []
        self._catalogue = log.catalogue
        self._identities: dict[int, int] | None = None

    @property
    def is_following(self) -> bool:
        """Return False: it stays as it is."""
        return False

    @property
    def catalogue(self) -> dict[str, Any]:
        """The catalogue as it was when this was made."""
        return self._catalogue

    @property
    def last_identities(self) -> dict[int, int]:
        """Collection -> highest identity that it had. Cost: O(versions), vectorised, once."""
        if self._identities is None:
            highest = LogState(self.file_id, self._state.root)
            for _, pointers in self.pointer_parts():
                highest.note_identities(pointers)
            self._identities = highest.last_identities
        return self._identities

    def pointer_parts(self) -> Iterator[tuple[int, Array]]:
        """Do as `LogReader.pointer_parts`; the other log may be closed meanwhile."""
        with self.while_open():
            yield from super().pointer_parts()

    def seal_flags(self, *, is_marked: bool = False) -> int:
        """Return 0: nothing is written."""
        return 0

    def close(self) -> None:
        """Let nobody read any more; the other log stays open."""
        self._leave(Shut.LEFT)

    def close_unused(self) -> None:
        """Do as `close`."""
        self.close()

    def shut_after_fork(self) -> None:
        """Make it useless in a forked child."""
        self._leave(Shut.FORKED)

    def abandon(self) -> None:
        """Do nothing: the other log lets go of file and map."""

    def _leave(self, reason: Shut) -> None:
        if self.is_closed:
            return
        self.gate = reason
        self.is_closed = True
        # So that the file can go, if the other log has left it; and whoever still reads is told,
        # as no slot is of this era.
        era = Era(MAX_SLOT, PointerMap(), mmap.mmap(-1, 1), self.file_id)
        self.era, self.data, self.positions = era, era.data, era.positions
        self._state = LogState(self.file_id, self._state.root, self._state.cipher)


def number_at(log: Log, at: int | datetime) -> int:
    """Return the number in the present file of the last version that a state has; `lock` is held.

    Args:
        log: The log.
        at: The number of a version, for the state behind its commit; or a time with a zone, for
            that behind the last commit until then.

    Raises:
        CommitNotFoundError: The file has no such state.
    """
    era, last = log.era, log.next_slot - log.first_slot
    origin = origin_of(log.catalogue)
    if isinstance(at, datetime):
        number = min(era.map.slot_at(nanoseconds(at)), last)
        if origin is not None and nanoseconds(at) // 1000 < origin.time // 1000:
            raise CommitNotFoundError(
                f"{log.path}: was compacted, and goes back to {as_text(origin.time)} only. Restore"
                " an earlier state from what the compaction kept: memdb.restore()."
            )
        if not number:
            first = f"the first is of {as_text(era.map.time_of(1))}" if last else "there is none"
            raise CommitNotFoundError(f"{log.path}: has no commit from {at} or before: {first}.")
        return number
    if at > last:
        raise CommitNotFoundError(f"{log.path}: has {last} versions, and none with the slot {at}.")
    if origin is not None and at < origin.slot - 1:
        raise CommitNotFoundError(
            f"{log.path}: was compacted, and the oldest state that it holds is that behind version"
            f" {origin.slot - 1}, not {at}. Restore an earlier one from what the compaction kept:"
            " memdb.restore()."
        )
    return _end_of_commit(log, at)


def _end_of_commit(log: Log, number: int) -> int:
    """Return the number of the last version in the commit of one."""
    base = log.era.base
    while True:
        stop = min(base + number + _PART_VERSIONS, log.next_slot)
        flags = log.pointers(base + number, stop)["flags"]
        ends = np.flatnonzero(flags & POINTER_LAST_OF_COMMIT)
        if len(ends) or stop == log.next_slot:
            return number + int(ends[0]) if len(ends) else number
        number = stop - base
