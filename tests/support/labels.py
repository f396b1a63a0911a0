"""Names of test cases that are the same in each process."""

from __future__ import annotations

import re


def label_of(value: object) -> str:
    """Return what `repr` gives, without addresses: workers must collect the same names."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))
