"""Keys for which an index does not know what Python's own comparisons say.

An index finds its keys by hash, or by their places in the total order, which stands for comparing
each of them with what is asked. NumPy's values have comparisons of their own that go with neither:
a float of 32 bits equals what rounds to it, an array is compared element by element, a datetime64
equals a date that has another hash. So an index notes which numbers have such keys. They may match
whatever is asked for, and are compared.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import chain
from typing import Any, Final, Literal
from uuid import UUID

import numpy as np

from memdb.indexes._by_number import NOTHING
from memdb.indexes._order import ABSENT, MAKERS, compares_itself, order_of_class

SURE: Final[frozenset[type]] = frozenset(
    {int, float, bool, str, bytes, type(None), type(ABSENT), type(NOTHING), Decimal, Fraction}
    | {date, datetime, time, timedelta, UUID}
)
"""Types whose values an index knows all about."""

# What NumPy compares its whole numbers and floats of 64 bits with as Python does.
_USUAL: Final[frozenset[type]] = frozenset(
    {int, float, bool, str, bytes, type(None), date, datetime, timedelta}
)

# Up to here floats hold each whole number.
_EXACT: Final = 2**53

Way = Literal["sure", "items", "pairs", "odd"]


def is_sure(value: Any) -> bool:
    """Whether `==` of a value goes with its hash: no value of NumPy's, and none within it."""
    cls: Any = type(value)
    if cls in SURE:
        return True
    way = _way(cls)
    if way == "items":
        return are_sure(value)
    return are_sure(value) and are_sure(value.values()) if way == "pairs" else way == "sure"


def are_sure(values: Iterable[Any]) -> bool:
    """Whether all of some values are such."""
    return all([type(value) in SURE or is_sure(value) for value in values])


def is_placed(value: Any) -> bool:
    """Whether comparisons of a value with others go with its place in the total order."""
    cls: Any = type(value)
    if cls in SURE:
        return True
    way = _way_in_order(cls)
    return all(map(is_placed, value)) if way == "items" else way == "sure"


def is_usual(value: Any) -> bool:
    """Whether NumPy compares whole numbers of its own with a value as Python does."""
    cls = type(value)
    return cls in _USUAL and (cls is not int or -(2**63) <= value < 2**63)


@lru_cache(maxsize=256)
def _way(cls: type) -> Way:
    if issubclass(cls, (np.generic, np.ndarray)):
        # NumPy's texts are compared as Python's.
        return "sure" if issubclass(cls, (np.str_, np.bytes_)) else "odd"
    if issubclass(cls, dict):
        return "pairs"
    return "items" if issubclass(cls, (tuple, list, set, frozenset, deque)) else "sure"


@lru_cache(maxsize=256)
def _way_in_order(cls: type) -> Way:
    if _way(cls) == "odd":
        return "odd"
    if any([issubclass(cls, base) for base in MAKERS]):
        if compares_itself(cls):
            return "odd"
        return "items" if issubclass(cls, (tuple, list)) else "sure"
    # A class without comparisons of its own, or Enum members, are equal to themselves alone.
    is_own = order_of_class(cls) != order_of_class(object)
    return "odd" if is_own and cls not in (dict, set, frozenset) else "sure"


def is_tame(value: Any) -> bool:
    """Whether a value of NumPy's is compared with usual ones as the equal number of Python's is."""
    if isinstance(value, (np.integer, np.bool_)) and not isinstance(value, np.timedelta64):
        return abs(int(value)) <= _EXACT
    return isinstance(value, np.float64) and (value != value or bool(abs(value) < _EXACT))


class OddKeys:
    """The numbers whose keys an index can't vouch for.

    Attributes:
        numbers: Those that may match whatever is asked for.
        tame: Those that may do so where `is_usual` says no to it.
        are_any: There are some.
        on_change: Called when one of the sets gets its first number, or loses its last one.
    """

    __slots__ = ("_is_sure", "are_any", "numbers", "on_change", "tame")

    def __init__(self, is_sure: Callable[[Any], bool]) -> None:
        """Note the numbers of keys for which a function says no."""
        self._is_sure = is_sure
        self.numbers: set[int] = set()
        self.tame: set[int] = set()
        self.are_any = False
        self.on_change: Callable[[], object] | None = None

    def note(self, number: int, keys: Iterable[Any]) -> None:
        """Note what a number has, instead of what it had."""
        if self.are_any:
            self.discard(number)
        for key in keys:
            if type(key) not in SURE and not self._is_sure(key):
                self._add(number, self.tame if is_tame(key) else self.numbers)

    def note_all(
        self, keys: Sequence[Any], numbers: Iterable[int], *, are_compound: bool = False
    ) -> None:
        """Note what numbers have, besides what they had.

        Args:
            keys: The keys.
            numbers: That of each; one may have several.
            are_compound: A key is a tuple of parts that are compared.

        Cost: 10 ns a key, where all are of types that are sure.
        """
        if SURE.issuperset(map(type, chain.from_iterable(keys) if are_compound else keys)):
            return
        for number, key in zip(numbers, keys, strict=True):
            for part in key if are_compound else (key,):
                if type(part) not in SURE and not self._is_sure(part):
                    self._add(number, self.tame if is_tame(part) else self.numbers)

    def _add(self, number: int, group: set[int]) -> None:
        is_first = not group
        group.add(number)
        self.are_any = True
        if is_first and self.on_change is not None:
            self.on_change()

    def discard(self, number: int) -> None:
        """Forget a number, if it is there."""
        for group in (self.numbers, self.tame):
            if number in group:
                group.discard(number)
                self.are_any = bool(self.numbers or self.tame)
                if not group and self.on_change is not None:
                    self.on_change()

    def clear(self) -> None:
        """Forget everything."""
        self.numbers, self.tame, self.are_any = set(), set(), False
