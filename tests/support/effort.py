"""How long the long tests take: with TEST_EFFORT=10 ten times as long as by ``make slow``."""

from __future__ import annotations

import os

EFFORT = float(os.environ.get("TEST_EFFORT", "1"))


def times(number: int) -> int:
    """Return how often something is to be done that ``make slow`` does ``number`` times."""
    return max(round(number * EFFORT), 1)


def every(step: int) -> int:
    """Return at every how many places something is to be tried that ``make slow`` tries so often.

    An odd number, so that it does not go along with what repeats.
    """
    return max(round(step / EFFORT) | 1, 1)
