"""Interrupts, as Ctrl-C or a timer brings them: an exception out of nowhere.

CPython runs signal handlers at the start of Python functions, behind calls of C functions and at
backward jumps. `interrupted_at` raises at the n-th of the first two, so that a test can try every
place one after the other; `Timer` raises at random ones, by a real signal.
"""

from __future__ import annotations

import contextlib
import random
import signal
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

# Their callbacks come when they like, and what is raised in them comes out nowhere.
_WEAK = ("weakref", "_weakrefset")


class Interrupt(BaseException):
    """What comes out of nowhere; no Exception, as KeyboardInterrupt."""


class Count:
    """Whether the interrupt has come."""

    is_done = False


@contextlib.contextmanager
def interrupted_at(number: int) -> Iterator[Count]:
    """Raise `Interrupt` at the n-th place where this thread could be interrupted.

    The test's own places do not count, those in the standard library do.
    """
    count = Count()
    left = number

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal left
        if event not in ("call", "c_return") or not _is_ours(frame, event):
            return
        left -= 1
        if left < 0 and not count.is_done:
            count.is_done = True
            sys.setprofile(None)
            raise Interrupt(f"{event} in {frame.f_code.co_qualname}:{frame.f_lineno}")

    sys.setprofile(profile)
    try:
        yield count
    finally:
        sys.setprofile(None)


def _is_ours(frame: FrameType, event: str) -> bool:
    module = str(frame.f_globals.get("__name__", ""))
    if module.startswith(("tests.", "numpy.", "typing", "hypothesis.")):
        return False
    # What is raised in a finalizer comes out nowhere.
    above: FrameType | None = frame
    while above is not None:
        if above.f_code.co_name == "__del__" or above.f_globals.get("__name__") in _WEAK:
            return False
        # What happens inside of these is CPython's own matter.
        if above.f_code.co_qualname in ("Thread.start", "Thread.join"):
            return above is frame and event == "call"
        above = above.f_back
    return True


class Timer:
    """Raises `Interrupt` once after a random time, by SIGALRM; main thread only."""

    def __init__(self, seed: int, longest_s: float) -> None:
        self._random = random.Random(seed)
        self._longest_s = longest_s
        self.count = 0

    def __enter__(self) -> Timer:
        self._before = signal.signal(signal.SIGALRM, self._raise)
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()
        signal.signal(signal.SIGALRM, self._before)

    def _raise(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        raise Interrupt

    def start(self) -> None:
        """Begin to wait."""
        signal.setitimer(signal.ITIMER_REAL, self._random.uniform(1e-6, self._longest_s))

    def stop(self) -> None:
        """Let nothing come any more."""
        signal.setitimer(signal.ITIMER_REAL, 0)
