"""Exact sums of whole arrays: integers as Python's, floats as those of `math.fsum`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Final

import numpy as np

from memdb.indexes._sorted_kinds import Array

# So many sums run beside each other: their arrays stay in the processor's cache.
_LANES: Final = 8192
# So many floats are cut at a time, for the same reason.
_PART: Final = 32_768
# Powers of two between which nothing becomes too large or too small.
_LEAST_EXPONENT: Final = -800
_MOST_EXPONENT: Final = 1000
# Half of the distance from 1 to the next float.
_UNIT: Final = 2.0**-53


def sum_of_ints(raw: Array) -> int:
    """Return the exact sum of bools or integers of 64 bits, at least one."""
    if raw.dtype != "<i8":
        return int(np.count_nonzero(raw))
    if (max(int(raw.max()), -int(raw.min())) * len(raw)).bit_length() <= 63:
        return int(raw.sum())
    high = raw >> 32
    return (int(high.sum()) << 32) + int((raw & 0xFFFF_FFFF).sum())


def sum_of_floats(raw: Array) -> float:
    """Return the float nearest to the sum of floats, at least one; NaN for both infinities.

    Raises:
        OverflowError: It is beyond the floats.

    Cost: 1 ns a float where they are about as large as each other, else 4; `math.fsum` with a list
        takes 40.
    """
    rounds = len(raw) // _LANES
    if rounds > 1:
        largest = max(float(raw.max()), -float(raw.min()))
        # Not so for NaN and infinities, nor where a sum on the way may be one.
        if largest * len(raw) < math.inf:
            found = _quick_sum(raw, largest)
            if found is None:
                found = _certain_sum(raw, rounds, largest)
            if found is not None:
                return found
    return float_sum(raw.tolist())


def float_sum(values: Sequence[float]) -> float:
    """Return the sum of floats, as `math.fsum` has it, NaN of infinities of both signs."""
    try:
        return math.fsum(values)
    except ValueError:
        return math.nan
    except OverflowError:
        # Perhaps only on the way.
        return float(sum(map(Fraction, values)))


def _quick_sum(raw: Array, largest: float) -> float | None:
    """Return the float nearest to the sum, None where it is too near the middle of two.

    Every float is cut in two at the same bit, by adding a power of two and taking it away again
    (the extraction of Rump, Ogita and Oishi). The sums of the high parts are exact, as they are
    multiples of that bit and below 2^53 of it; the low parts are so small that what their sum is
    rounded by is hardly ever of account.
    """
    exponent = math.frexp(largest)[1] + len(raw).bit_length() + 1
    if not _LEAST_EXPONENT < exponent < _MOST_EXPONENT:
        return None
    unit = math.ldexp(1.0, exponent)
    space = np.empty(_PART)
    parts: list[float] = []
    for start in range(0, len(raw), _PART):
        items = raw[start : start + _PART]
        cut = space[: len(items)]
        np.add(items, unit, out=cut)
        np.subtract(cut, unit, out=cut)
        parts.append(float(cut.sum()))
        np.subtract(items, cut, out=cut)
        parts.append(float(cut.sum()))
    error = 2 * _PART * _UNIT * len(raw) * _UNIT * unit
    low, high = math.fsum([*parts, -error]), math.fsum([*parts, error])
    return low if low == high else None


def _certain_sum(raw: Array, rounds: int, largest: float) -> float | None:
    """Return the float nearest to the sum, None where it is too near the middle of two.

    Each lane adds its floats and, beside, what every addition rounds away, which is a float itself
    (Knuth's two-sum). Only the sum of those is rounded, by less than `error` in all.
    """
    total: Array = raw[:_LANES].copy()
    lost = np.zeros(_LANES)
    new, part, rest = np.empty(_LANES), np.empty(_LANES), np.empty(_LANES)
    for start in range(_LANES, rounds * _LANES, _LANES):
        items = raw[start : start + _LANES]
        np.add(total, items, out=new)
        np.subtract(new, total, out=part)
        np.subtract(new, part, out=rest)
        np.subtract(total, rest, out=rest)
        np.subtract(items, part, out=part)
        rest += part
        lost += rest
        total, new = new, total
    parts: list[Any] = [*total.tolist(), *lost.tolist(), *raw[rounds * _LANES :].tolist()]
    error = 0.0
    if lost.any():
        error = 2 * (rounds * _UNIT) ** 2 * largest * len(raw) + 5e-324
    low, high = math.fsum([*parts, -error]), math.fsum([*parts, error])
    return low if low == high else None
