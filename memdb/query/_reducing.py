"""What is made of many values: sum, mean, the first and the last in the total order."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from memdb.errors import QueryError
from memdb.indexes._sums import float_sum
from memdb.query._evaluate import NO_MATCH
from memdb.query._ordering import keys_of

# These can be added to each other, and their sum means nothing.
_NO_NUMBERS: Final = (str, bytes, bytearray, list, tuple)


def total(values: list[Any], place: str, types: set[type] | None = None) -> Any:
    """Return the sum of values, 0 of none: that of floats as exact as a float can be.

    Args:
        values: Without None.
        place: What messages call the sum.
        types: Those of the values, where they are known.

    Raises:
        QueryError: They can't be added.
    """
    if not values:
        return 0
    if types is None:
        types = set(map(type, values))
    if any(issubclass(cls, np.generic) for cls in types):
        # NumPy's integers would overflow.
        values = [value.item() if isinstance(value, np.generic) else value for value in values]
        types = set(map(type, values))
    if all(issubclass(cls, int) for cls in types):
        return sum(values)
    try:
        if all(issubclass(cls, (int, float)) for cls in types):
            return float_sum(values)
        if isinstance(values[0], _NO_NUMBERS):
            raise TypeError
        # With itself first, so that one value alone is refused as several are.
        operator.add(values[0], values[0])
        return functools.reduce(operator.add, values)
    except NO_MATCH as error:
        raise _refused(place, types, error) from error


def mean(values: list[Any], place: str, types: set[type] | None = None) -> Any:
    """Return the mean of values, None of none; the arguments and errors are those of `total`."""
    if not values:
        return None
    try:
        return total(values, place, types) / len(values)
    except NO_MATCH as error:
        raise _refused(place, set(map(type, values)), error) from error


def least(values: list[Any], place: str, types: set[type] | None = None) -> Any:
    """Return the first value in the total order, None of none."""
    if not values:
        return None
    keys = keys_of(values)[0]
    return values[min(range(len(values)), key=keys.__getitem__)]


def greatest(values: list[Any], place: str, types: set[type] | None = None) -> Any:
    """Return the last value in the total order, None of none."""
    if not values:
        return None
    keys = keys_of(values)[0]
    return values[max(range(len(values)), key=keys.__getitem__)]


#: By the kind of an aggregate.
REDUCTIONS: Final[dict[str, Callable[[list[Any], str, set[type] | None], Any]]] = {
    "sum": total,
    "mean": mean,
    "min": least,
    "max": greatest,
}


def _refused(place: str, types: set[type], error: Exception) -> QueryError:
    if isinstance(error, OverflowError):
        return QueryError(f"{place}: the numbers are too large for a float. Use Decimal or int.")
    names = ", ".join(sorted(cls.__qualname__ for cls in types))
    return QueryError(
        f"{place}: values of type {names} have no sum. Choose a field of numbers, or leave out"
        " what is none with where()."
    )
