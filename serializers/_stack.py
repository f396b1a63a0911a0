"""Stack: errors that say nothing of the data, among those that a broad handler catches."""

from __future__ import annotations

import sys
from types import FrameType


def pass_on(error: BaseException, *kinds: type[Exception]) -> None:
    """Raise an error again if it is of some kinds already, or says nothing of the data.

    A RecursionError says nothing of it if the caller's stack was used up. Nothing that can be
    stored needs half the stack: so where that much is free, what is nested deeper than the stack
    is no record.

    Args:
        error: What was caught, by a handler that would blame the data for it.
        kinds: What is raised by such handlers, and says what is wrong.
    """
    if isinstance(error, kinds):
        raise error
    if isinstance(error, RecursionError):
        half = sys.getrecursionlimit() // 2
        frame: FrameType | None = sys._getframe()
        while frame is not None and half > 0:
            frame, half = frame.f_back, half - 1
        if frame is not None:
            raise error
