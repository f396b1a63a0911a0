"""Why nothing can be written (or read) any more, and the errors that say so."""

from __future__ import annotations

import errno
from enum import Enum

from memdb.errors import (
    ClosedError,
    FailedError,
    ForkedError,
    MemdbError,
    ReadOnlyError,
    WriteError,
)

OUT_OF_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class Shut(Enum):
    """What shuts the gate of a log for good."""

    CLOSED = "closed"
    FORKED = "forked"
    READ_ONLY = "read-only"
    PAST = "past"
    LEFT = "left"
    FAILED = "failed"


def shut_error(reason: Shut, path: str | None) -> MemdbError:
    """Return the error for a call that met a shut gate."""
    place = path or "memory"
    if reason is Shut.CLOSED:
        return ClosedError(f"{place}: the database is closed. Open it again.")
    if reason is Shut.FORKED:
        return ForkedError(
            f"{place}: was opened before a fork. Open it again in this process,"
            ' with mode="r" while the parent writes.'
        )
    if reason is Shut.LEFT:
        return ClosedError(
            f"{place}: the view is closed, or the database that it is of. Make another one."
        )
    if reason is Shut.PAST:
        return ReadOnlyError(
            f"{place}: a view can't be changed. Change the database, which the view does not show."
        )
    if reason is Shut.READ_ONLY:
        return ReadOnlyError(f'{place}: is open with mode="r". Open it with mode="rw".')
    return FailedError(
        f"{place}: an earlier sync failed, so that what is on the disk is not known."
        " Close the database and open it again to go on from what is there.",
        path=path,
        errno=errno.EIO,
    )


def write_error(error: OSError, path: str | None) -> WriteError:
    """Return the error for a write that the disk refused before anything was changed."""
    advice = " Make room and try again." if error.errno in OUT_OF_SPACE else ""
    return WriteError(
        f"{path}: can't be written: {error.strerror or error}. Nothing was changed.{advice}",
        path=path,
        errno=error.errno,
    )


def sync_error(error: OSError, path: str | None) -> FailedError:
    """Return the error for the sync that failed."""
    return FailedError(
        f"{path}: a sync failed: {error.strerror or error}. No further write is"
        " accepted. Close the database and open it again to go on from what is there.",
        path=path,
        errno=error.errno,
    )
