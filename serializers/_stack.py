"""Stack: whether a RecursionError is of the data, or of the program that called."""

from __future__ import annotations

import sys
from types import FrameType


def pass_on(error: BaseException) -> None:
    """Raise an error again if it says nothing of the data: the caller's stack was used up.

    Nothing that can be stored needs half the stack. So where that much is free, what is nested
    deeper than the stack is no record.

    Args:
        error: What was caught, by a handler that would blame the data for it.
    """
    if isinstance(error, RecursionError):
        half = sys.getrecursionlimit() // 2
        frame: FrameType | None = sys._getframe()
        while frame is not None and half > 0:
            frame, half = frame.f_back, half - 1
        if frame is not None:
            raise error
