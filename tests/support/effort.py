"""How long the long tests take: TEST_EFFORT=10 makes them ten times as long as they are in CI."""

from __future__ import annotations

import os


def times(number: int) -> int:
    """Return how often something is to be done that is done ``number`` times in CI."""
    return max(round(number * float(os.environ.get("TEST_EFFORT", "1"))), 1)
