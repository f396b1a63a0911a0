"""Which of some values are equal: by ``==``, and any two NaN too."""

from __future__ import annotations

import dataclasses
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from datetime import date
from functools import lru_cache
from itertools import count
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec
import numpy as np

from memdb.indexes._order import ABSENT
from memdb.query._ordering import has_no_nan
from memdb.storage import Array

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


class Places(NamedTuple):
    """Where each of the different combinations of some values is.

    Attributes:
        order: All places, (n,) of integers: those of the combination that comes first, rising,
            then those of the next one, and so on.
        starts: Where the places of each combination begin in the order, and its end.
    """

    order: Array
    starts: list[int]


def places_by_value(columns: Sequence[list[Any]], size: int) -> Places:
    """Return where each combination of values in the columns is.

    Args:
        columns: Lists of `size` values each; without any all places have the same.
        size: How many places there are.

    Cost: 40 ns a place for plain values.
    """
    numbers, highest = _numbered(columns, size)
    # Integers of 16 bits are sorted in a tenth of the time of longer ones.
    order = np.argsort(numbers.astype("<u2") if highest <= 2**16 else numbers, kind="stable")
    counts = np.bincount(numbers, minlength=highest)
    return Places(order, [0, *np.cumsum(counts).tolist()])


def _numbered(columns: Sequence[list[Any]], size: int) -> tuple[Array, int]:
    """Return a number for each place, equal for equal combinations, and how many there are.

    They are numbered from 0, in the order in which they come.
    """
    if not columns:
        return np.zeros(size, "<u4"), min(size, 1)
    items = columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))
    known: defaultdict[Any, int] = defaultdict(count().__next__)
    try:
        numbers = np.fromiter(map(known.__getitem__, items), "<u4", size)
    except Exception:
        # A value has no hash, or raises whatever it likes when it is compared.
        is_plain = False
    else:
        parts: Iterable[Any] = [known] if len(columns) == 1 else zip(*known, strict=True)
        # What equals a plain value is in the dictionary as one, whatever it is itself.
        is_plain = all([_is_plain(list(part)) for part in parts])
    if is_plain:
        return numbers, len(known)
    equals = Equals()
    # As tuples, in which a value equals itself though it may not say so.
    tuples = zip(*columns, strict=True)
    return np.fromiter(map(equals.number, tuples), "<u4", size), equals.size


def first_places(columns: Sequence[list[Any]], size: int) -> list[int]:
    """Return where each combination of values in the columns comes first, rising.

    What is absent counts as None, which is what is given for it.
    """
    columns = [_without_absent(values) for values in columns]
    if not all(map(_is_plain, columns)):
        order, starts = places_by_value(columns, size)
        firsts: list[int] = order[starts[:-1]].tolist()
        return firsts
    items = columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))
    # Of equal ones the last that is entered stays.
    return sorted(dict(zip(reversed(items), range(size - 1, -1, -1), strict=True)).values())


def _without_absent(values: list[Any]) -> list[Any]:
    if type(ABSENT) not in set(map(type, values)):
        return values
    return [None if value is ABSENT else value for value in values]


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
