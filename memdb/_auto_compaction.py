"""Compacting in the background, once too large a part of the file is not needed any more."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from memdb._health import dead_share
from memdb._maintenance import compact
from memdb.errors import ClosedError, FailedError, ForkedError, MemdbError, WriteError
from memdb.storage import Flusher, is_elsewhere, warn

if TYPE_CHECKING:
    from memdb._engine import Engine

_INTERVAL_S = 1.0
# After a failure it is tried again when the log is so much larger.
_GROWTH = 1.1


class _Stopped(Exception):
    """The database is being closed in the middle of a compaction."""


class Compactor(Flusher):
    """The thread that looks at intervals whether to compact; it ends with the database.

    A failure is raised by the next call that writes, as one of the background flush is.
    """

    __slots__ = ("_engine", "_retry_bytes", "_share")

    name = "memdb-compactor"

    def __init__(self, engine: Engine, share: float) -> None:
        """Make one that does not run yet.

        Args:
            engine: Of the database; it can go all the same.
            share: The part of the log that is to be dead before it is compacted.
        """
        super().__init__(self._look, _INTERVAL_S, lambda: None)
        self._engine = weakref.ref(engine)
        self._share = share
        self._retry_bytes = 0.0

    def _look(self) -> None:
        engine = self._engine()
        if engine is None:
            self._is_stopping = True
        elif (
            engine.log.end >= self._retry_bytes
            and dead_share(engine) > self._share
            # Somebody has moved the file, which `health` says and is no fault of who writes.
            and not is_elsewhere(engine.log)
        ):
            compact(engine, None, self._progress)
            self._retry_bytes = 0.0

    def _progress(self, done: int, total: int, unit: str, /) -> None:
        if self._is_stopping:
            raise _Stopped

    def run_once(self) -> None:
        """Look once, and keep a failure for the next call."""
        try:
            self._look()
        except (ClosedError, ForkedError, _Stopped):
            self._is_stopping = True
        except Exception as error:
            self._tell(error)

    def _tell(self, error: Exception) -> None:
        engine = self._engine()
        if engine is None:
            return
        self._retry_bytes = engine.log.end * _GROWTH
        failure = error
        if not isinstance(error, FailedError):
            failure = WriteError(
                f"{engine.place}: the compaction in the background failed: {error} The file is"
                " as it was; it is tried again when the file has grown by a tenth.",
                path=engine.log.path,
                errno=getattr(error, "errno", None),
            )
            failure.__cause__ = error
        warn(str(failure))
        assert isinstance(failure, MemdbError)
        engine.log.keep_failure(failure)
