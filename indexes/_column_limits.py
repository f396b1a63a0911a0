"""Which items of an array lie on one side of a limit, compared as exactly as Python compares."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from memdb.indexes._order import SortKey
from memdb.indexes._sorted_kinds import Array, Kind, raw_of

_FIRST: Final = -(2**63)
_LAST: Final = 2**63 - 1


def items_beyond(kind: Kind, raw: Array, key: SortKey, with_equal: bool) -> Array:
    """Return which items come behind a limit, or are equal to it."""
    limit = raw_of(kind, key)
    found: Array
    if raw.dtype == "<f8":
        nearest, is_below, is_above = _as_float(limit)
        found = raw >= nearest if is_above or (with_equal and not is_below) else raw > nearest
        return found
    # Beyond 64 bits, infinities among them, no item can be.
    if limit > _LAST or limit < _FIRST:
        return np.full(len(raw), limit < 0)
    first = math.ceil(limit) if with_equal else math.floor(limit) + 1
    if first > _LAST:
        return np.zeros(len(raw), bool)
    found = raw >= first
    return found


def items_before(kind: Kind, raw: Array, key: SortKey, with_equal: bool) -> Array:
    """Return which items come before a limit, or are equal to it."""
    limit = raw_of(kind, key)
    found: Array
    if raw.dtype == "<f8":
        nearest, is_below, is_above = _as_float(limit)
        found = raw <= nearest if is_below or (with_equal and not is_above) else raw < nearest
        return found
    if limit > _LAST or limit < _FIRST:
        return np.full(len(raw), limit > 0)
    last = math.floor(limit) if with_equal else math.ceil(limit) - 1
    if last < _FIRST:
        return np.zeros(len(raw), bool)
    found = raw <= last
    return found


def _as_float(limit: Any) -> tuple[float, bool, bool]:
    """Return the nearest float, and whether it is below or above the number."""
    try:
        nearest = float(limit)
    except OverflowError:
        nearest = math.inf if limit > 0 else -math.inf
    return nearest, nearest < limit, nearest > limit
