"""The thread that syncs in the background."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable

from memdb.errors import FailedError, MemdbError, WriteError
from memdb.storage._warning import warn


class Flusher:
    """Calls a function at intervals, or sooner when woken, until it is stopped.

    A failure is kept for the next call of the user's, see `take_failure`, and logged at once.

    Attributes:
        failure: What the last call raised, until somebody was told.
        interval_s: Seconds between two calls.
    """

    name = "memdb-flusher"

    __slots__ = (
        "_farewell",
        "_is_stopping",
        "_on_failure",
        "_sync",
        "_thread",
        "_wake",
        "failure",
        "interval_s",
    )

    def __init__(
        self, sync: Callable[[], None], interval_s: float, on_failure: Callable[[], None]
    ) -> None:
        """Make a flusher that does not run yet.

        Args:
            sync: What to call.
            interval_s: Seconds between two calls.
            on_failure: Called after a failure is kept, other than a failed sync.
        """
        self._sync = sync
        self.interval_s = interval_s
        self._on_failure = on_failure
        self._is_stopping = False
        self._thread: threading.Thread | None = None
        # Not an Event, whose Python code an interrupt (Ctrl-C) can leave locked for ever.
        self._wake: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._farewell: Callable[[], None] | None = None
        self.failure: MemdbError | None = None

    def start(self) -> None:
        """Start the thread, unless it runs or was stopped."""
        if not self._is_running() and not self._is_stopping:
            self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
            self._thread.start()

    def _is_running(self) -> bool:
        # An interrupt may have come between the making and the start of the thread.
        return self._thread is not None and self._thread.ident is not None

    def wake(self) -> None:
        """Have it call now."""
        self._wake.put(None)

    def stop(self) -> None:
        """Return when the thread has ended; it does not start again."""
        self._is_stopping = True
        self._wake.put(None)
        if self._thread is not None and self._is_running() and not self.is_own_thread():
            self._thread.join()

    def is_own_thread(self) -> bool:
        """Whether the caller is the flusher itself."""
        return self._thread is threading.current_thread()

    def stop_with(self, farewell: Callable[[], None]) -> None:
        """Have the thread end after the call that it is in, calling ``farewell`` last."""
        self._farewell = farewell
        self._is_stopping = True

    def _run(self) -> None:
        while not self._is_stopping:
            with contextlib.suppress(queue.Empty):
                self._wake.get(timeout=self.interval_s)
                while not self._wake.empty():
                    self._wake.get_nowait()
            if not self._is_stopping:
                self.run_once()
        if self._farewell is not None:
            self._farewell()

    def run_once(self) -> None:
        """Call once and keep a failure."""
        try:
            self._sync()
        except FailedError as error:
            # The gate is shut; close() raises this if no call before it met the gate.
            self.failure = error
            warn(str(error))
        except Exception as error:
            if not self._is_stopping:
                self.failure = WriteError(f"the flush in the background failed: {error!r}.")
                self.failure.__cause__ = error
                self._on_failure()
                warn(str(self.failure))

    def take_failure(self) -> None:
        """Raise a failure that nobody was told of yet, once."""
        if self.failure is not None:
            error, self.failure = self.failure, None
            raise error
