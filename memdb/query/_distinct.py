"""Which of some values are equal: by ``==``, and any two NaN too."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Iterator, Sequence
from datetime import date
from functools import lru_cache
from typing import Any, Final
from uuid import UUID

import msgspec
import numpy as np

from memdb.indexes._order import ABSENT
from memdb.query._ordering import has_no_nan

# Two values of these are equal exactly where a dictionary takes one for the other.
_PLAIN: Final[frozenset[type]] = frozenset(
    {int, bool, float, str, bytes, date, UUID, type(None), type(ABSENT)}
)


class Equals:
    """Numbers the different ones among values, from 0, in the order in which they come."""

    def __init__(self) -> None:
        self._by_hash: dict[Any, int] = {}
        self._others: list[tuple[Any, int]] = []
        self.size = 0

    def number(self, value: Any) -> int:
        """Return the number of a value, a new one if it equals none before."""
        try:
            key = _hashable(value)
            number = self._by_hash.setdefault(key, self.size)
        except _Unhashable:
            number = self.size
            for other, its_number in self._others:
                if _are_equal(value, other):
                    number = its_number
                    break
            else:
                self._others.append((value, number))
        self.size += number == self.size
        return number


def places_by_value(columns: Sequence[list[Any]], size: int) -> list[list[int]]:
    """Return for each combination of values in the columns where it is, the first one first.

    Args:
        columns: Lists of `size` values each.
        size: How many places there are.
    """
    items = list(zip(*columns, strict=True)) if columns else [()] * size
    found: dict[Any, list[int]] = {}
    number = iter(items) if all(map(_is_plain, columns)) else _numbers(items)
    for place, key in enumerate(number):
        places = found.get(key)
        if places is None:
            found[key] = [place]
        else:
            places.append(place)
    return list(found.values())


def first_places(columns: Sequence[list[Any]], size: int) -> list[int]:
    """Return where each combination of values in the columns comes first, rising."""
    if not all(map(_is_plain, columns)):
        return [places[0] for places in places_by_value(columns, size)]
    items = columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))
    # Of equal ones the last that is entered stays.
    return sorted(dict(zip(reversed(items), range(size - 1, -1, -1), strict=True)).values())


def _numbers(items: list[Any]) -> Iterator[int]:
    return map(Equals().number, items)


def _is_plain(values: list[Any]) -> bool:
    types = set(map(type, values))
    if not types <= _PLAIN:
        return False
    if float not in types:
        return True
    return has_no_nan([value for value in values if type(value) is float])


class _Unhashable(Exception):
    """A value has to be compared with every other."""


_NAN: Final = object()


def _hashable(value: Any) -> Any:
    """Return what has the same hash and is equal for equal values.

    Raises:
        _Unhashable: There is no such thing.
    """
    cls: Any = type(value)
    if cls in (str, int, bytes, bool, type(None)):
        return value
    try:
        if isinstance(value, tuple) and cls.__eq__ is tuple.__eq__:
            return tuple(map(_hashable, value))
        if cls is list or cls is deque:
            return cls, tuple(map(_hashable, value))
        if cls is set or cls is frozenset:
            return frozenset(map(_hashable, value))
        if isinstance(value, dict):
            pairs = [(_hashable(key), _hashable(item)) for key, item in value.items()]
            return dict, frozenset(pairs)
        if cls is bytearray:
            return bytes(value)
        if cls is np.ndarray:
            return _hashable_array(value)
        names = _fields_compared(cls)
        if names is not None:
            return cls, tuple([_hashable(getattr(value, name)) for name in names])
        if value != value:
            return _NAN
        hash(value)
    except _Unhashable:
        raise
    except Exception as error:
        # Whatever a class of the user's raises there, or a signalling NaN.
        raise _Unhashable from error
    return value


@lru_cache(maxsize=256)
def _fields_compared(cls: type) -> tuple[str, ...] | None:
    """Return the fields by which records of a class are equal, None where that is not known."""
    if issubclass(cls, msgspec.Struct):
        is_usual = cls.__eq__ is msgspec.Struct.__eq__ and cls.__struct_config__.eq
        return cls.__struct_fields__ if is_usual else None
    code = getattr(cls.__eq__, "__code__", None)
    # What dataclasses generates is in no file; a method of the class's own stays as it is.
    if dataclasses.is_dataclass(cls) and code is not None and code.co_filename == "<string>":
        return tuple([field.name for field in dataclasses.fields(cls) if field.compare])
    return None


def _hashable_array(array: np.ndarray[Any, Any]) -> Any:
    if array.dtype.hasobject:
        raise _Unhashable
    return np.ndarray, array.dtype.str, array.shape, array.tobytes()


def _are_equal(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except Exception:
        # Values that do not even say whether they are equal are not.
        return False
