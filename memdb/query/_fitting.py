"""What it means that values do not fit each other: no match, and no error."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any, Final

from memdb.indexes import SURE, are_sure, is_sure

# What a comparison of two values may raise when they do not fit each other. ArithmeticError:
# Decimal raises InvalidOperation for a NaN that is compared with <. ValueError: an array of NumPy
# has no truth value, and "%" has no such format.
NO_MATCH: Final = (TypeError, AttributeError, LookupError, ArithmeticError, ValueError)


def holds(test: Callable[..., Any], *operands: Any) -> bool:
    """Whether a test says yes; one that does not apply says no."""
    try:
        return bool(test(*operands))
    except NO_MATCH:
        return False


def is_in(value: Any, values: Iterable[Any]) -> bool:
    """Whether `value` equals one of `values`; one that can't be compared does not stop the rest."""
    return any(holds(operator.eq, value, other) for other in values)


class Members:
    """Find by `==` alone."""

    __slots__ = ("_values",)

    def __init__(self, values: list[Any]) -> None:
        self._values = values

    def __contains__(self, value: Any) -> bool:
        return is_in(value, self._values)


def members(values: list[Any]) -> frozenset[Any] | Members:
    """Return the values of `in_` so that Python's `in` agrees with `==`, of values that are sure.

    A NaN equals nothing, though `in` would find it by its identity. Values without a hash, or whose
    hash says nothing of what they equal, are compared one by one.
    """
    try:
        found = frozenset([value for value in values if value == value])
    except NO_MATCH:
        return Members(values)
    is_known = SURE.issuperset(map(type, found)) or are_sure(found)
    return found if is_known else Members(values)


def odd_in(value: Any, values: frozenset[Any] | Members) -> bool:
    """Whether a value that was not found by its hash equals one of them all the same."""
    return type(values) is frozenset and not is_sure(value) and is_in(value, values)
