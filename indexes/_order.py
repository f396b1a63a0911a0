"""One total order of all values, used wherever values are sorted or looked up by range.

    absent < None < numbers < NaN < text < bytes < dates < naive datetimes < aware datetimes
    < naive times < aware times < timedeltas < UUIDs < Enum members < tuples and lists < the rest

Numbers of all types are ordered by their exact value, aware datetimes and times by their instant,
Enum members without an order of their own by class name and definition, tuples and lists element
by element (a list like a tuple), everything else by the name of its type. Subclasses are ordered
as the values that they hold: an IntEnum is a number. NumPy's scalars are their Python values.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np

SortKey = tuple[Any, ...]

(
    ABSENT_RANK,
    NONE_RANK,
    NUMBER_RANK,
    NAN_RANK,
    TEXT_RANK,
    BYTES_RANK,
    DATE_RANK,
    NAIVE_RANK,
    AWARE_RANK,
    TIME_RANK,
    AWARE_TIME_RANK,
    DELTA_RANK,
    UUID_RANK,
    ENUM_RANK,
    SEQUENCE_RANK,
    OTHER_RANK,
) = range(16)

_NAMES: Final = (
    "absent", "None", "number", "number", "text", "bytes", "date", "naive datetime",
    "aware datetime", "time", "aware time", "timedelta", "UUID", "Enum member", "sequence",
)  # fmt: skip

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

# Wall clocks of one zone are off from each other's instants by less than this.
_ZONE_SLACK: Final = timedelta(days=2)


class Absent:
    """The type of `ABSENT`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = Absent()
"""Stands for the value of a field that a record does not have."""


class Highest:
    """The type of `HIGHEST`."""

    __slots__ = ()

    def __lt__(self, other: object) -> bool:
        return False

    def __le__(self, other: object) -> bool:
        return other is self

    def __gt__(self, other: object) -> bool:
        return other is not self

    def __ge__(self, other: object) -> bool:
        return True

    def __repr__(self) -> str:
        return "HIGHEST"


HIGHEST: Final = Highest()
"""Comes after every sort key, and after everything within one."""


class Reversed:
    """A sort key in falling order."""

    __slots__ = ("key",)

    def __init__(self, key: Any) -> None:
        self.key = key

    def __lt__(self, other: Any) -> bool:
        return bool(other.key < self.key) if type(other) is Reversed else NotImplemented

    def __gt__(self, other: Any) -> bool:
        return bool(self.key < other.key) if type(other) is Reversed else NotImplemented

    def __eq__(self, other: object) -> bool:
        return bool(self.key == other.key) if type(other) is Reversed else NotImplemented

    def __hash__(self) -> int:
        return hash((Reversed, self.key))

    def __repr__(self) -> str:
        return f"Reversed({self.key!r})"


def descending(key: Any) -> Reversed:
    """Return a key that sorts the other way round."""
    return Reversed(key)


class Bounds(NamedTuple):
    """An interval of sort keys.

    Attributes:
        low: The first sort key, or what comes right before the first.
        high: The last sort key, or what comes right behind the last.
        is_low_open: `low` itself is not in the interval.
        is_high_open: `high` itself is not in the interval.
        is_exact: Python's comparison is true for each value in the interval. Where False, the
            values have to be compared again.
    """

    low: SortKey
    high: SortKey
    is_low_open: bool = False
    is_high_open: bool = False
    is_exact: bool = True

    @property
    def is_empty(self) -> bool:
        """No value lies in it."""
        return self.high < self.low or (
            self.high == self.low and (self.is_low_open or self.is_high_open)
        )


NOTHING: Final = Bounds((-1,), (-1,), True, True)
"""The interval without a value."""


def _number_key(value: Any) -> SortKey:
    return (NUMBER_RANK, value)


def _float_key(value: float) -> SortKey:
    return (NUMBER_RANK, value) if value == value else (NAN_RANK,)


def _decimal_key(value: Decimal) -> SortKey:
    # Not by ==, which raises for a signaling NaN.
    return (NAN_RANK,) if value.is_nan() else (NUMBER_RANK, value)


def _datetime_key(value: datetime) -> SortKey:
    if value.tzinfo is None or value.utcoffset() is None:
        return (NAIVE_RANK, value if value.tzinfo is None else value.replace(tzinfo=None))
    return (AWARE_RANK, value - EPOCH)


def _time_key(value: time) -> SortKey:
    offset = value.utcoffset()
    if offset is None:
        return (TIME_RANK, value if value.tzinfo is None else value.replace(tzinfo=None))
    since_midnight = timedelta(
        hours=value.hour,
        minutes=value.minute,
        seconds=value.second,
        microseconds=value.microsecond,
    )
    return (AWARE_TIME_RANK, since_midnight - offset)


def _sequence_key(value: Any) -> SortKey:
    return (SEQUENCE_RANK, tuple([sort_key(item) for item in value]))


MAKERS: Final[dict[type, Callable[[Any], SortKey]]] = {
    Absent: lambda value: (ABSENT_RANK,),
    type(None): lambda value: (NONE_RANK,),
    int: _number_key,
    bool: _number_key,
    float: _float_key,
    Decimal: _decimal_key,
    Fraction: _number_key,
    str: lambda value: (TEXT_RANK, value),
    bytes: lambda value: (BYTES_RANK, value),
    bytearray: lambda value: (BYTES_RANK, bytes(value)),
    datetime: _datetime_key,
    date: lambda value: (DATE_RANK, value),
    time: _time_key,
    timedelta: lambda value: (DELTA_RANK, value),
    UUID: lambda value: (UUID_RANK, value),
    tuple: _sequence_key,
    list: _sequence_key,
}

# A subclass may compare in its own way; the key must not.
_PLAIN: Final[dict[type, Callable[[Any], Any]]] = {
    int: int.__int__,
    float: float.__float__,
    str: str.__str__,
    bytes: lambda value: bytes(memoryview(value)),
}


def sort_key(value: Any) -> SortKey:
    """Return a tuple that compares, with that of any other value, as the total order says.

    Raises:
        RecursionError: A list contains itself.
    """
    make = MAKERS.get(type(value))
    if make is None:
        cls: Any = type(value)
        make = _maker_of(cls)
    return make(value)


@lru_cache(maxsize=256)
def _maker_of(cls: Any) -> Callable[[Any], SortKey]:
    """Return what makes the keys of a class that is not in the table."""
    for base, make in MAKERS.items():
        if issubclass(cls, base):
            plain = _PLAIN.get(base)
            return make if plain is None else _plainly(make, plain)
    if issubclass(cls, Enum):
        if order_of_class(cls) == order_of_class(object):
            return _enum_maker(cls)
    elif issubclass(cls, (np.integer, np.floating, np.bool_)) and _has_item(cls):
        return lambda value: sort_key(value.item())
    name = cls.__qualname__
    return lambda value: (OTHER_RANK, name)


def _plainly(
    make: Callable[[Any], SortKey], plain: Callable[[Any], Any]
) -> Callable[[Any], SortKey]:
    return lambda value: make(plain(value))


def _has_item(cls: type) -> bool:
    """Whether a NumPy scalar is a Python number: a long double and a timedelta64 are not."""
    return not issubclass(cls, (np.longdouble, np.timedelta64))


def _enum_maker(cls: type[Enum]) -> Callable[[Any], SortKey]:
    places = {name: place for place, name in enumerate(cls._member_names_)}
    class_name = cls.__qualname__

    def make(member: Any) -> SortKey:
        place = places.get(member._name_)
        if place is not None:
            return (ENUM_RANK, class_name, (NUMBER_RANK, place))
        # A combination of flags has no place of its own.
        return (ENUM_RANK, class_name, (TEXT_RANK, sort_key(member._value_)))

    return make


def family_name(value: Any) -> str:
    """Return what kind of value it is for the order, as text for a message."""
    rank = sort_key(value)[0]
    return _NAMES[rank] if rank < len(_NAMES) else type(value).__qualname__


def bounds(operator: str, operand: Any) -> Bounds | None:
    """Return the interval with every value for which Python's own comparison is true.

    Comparisons stay within a family: `<` finds no None, no NaN and no value of another one. That
    values compare otherwise is looked at where they become keys, see `memdb.indexes._odd`.

    Args:
        operator: One of `< <= > >= == between startswith`.
        operand: What values are compared with; for `between` the pair of low and high.

    Returns:
        The interval; an empty one where nothing can match; None where the order can't tell, as
        for sets, dicts, values of unknown classes.
    """
    if isinstance(operand, np.generic):
        # Python's own comparison with them may raise where that with an equal number does not.
        return None
    if operator == "between":
        return _between(*operand)
    if operator == "startswith":
        return _beginning(operand)
    cls: Any = type(operand)
    key = sort_key(operand)
    rank = key[0]
    if rank in _SIMPLE_RANKS:
        if cls not in MAKERS and compares_itself(cls):
            return None
        return _interval(operator, key, key, True)
    if rank == NONE_RANK:
        return Bounds(key, key) if operator == "==" else NOTHING
    if rank == AWARE_RANK:
        return _around(operator, operand, key)
    if rank == ENUM_RANK:
        return Bounds(key, key, is_exact=False) if operator == "==" else NOTHING
    if rank == SEQUENCE_RANK:
        if compares_itself(cls) or not all(map(_is_plain, key[1])):
            return None
        return _interval(operator, key, key, False)
    # NaN equals nothing and comes before nothing.
    return None if rank == OTHER_RANK else NOTHING


_SIMPLE_RANKS: Final = frozenset(
    [
        NUMBER_RANK, TEXT_RANK, BYTES_RANK, DATE_RANK, NAIVE_RANK, TIME_RANK, AWARE_TIME_RANK,
        DELTA_RANK, UUID_RANK,
    ]
)  # fmt: skip


def _interval(operator: str, low: SortKey, high: SortKey, is_exact: bool) -> Bounds:
    """Return the interval; `low` and `high` are where the operand may lie, mostly one key."""
    rank = low[0]
    if operator == "==":
        return Bounds(low, high, False, False, is_exact)
    if operator == "<":
        return Bounds((rank,), high, False, True, is_exact)
    if operator == "<=":
        return Bounds((rank,), high, False, False, is_exact)
    if operator == ">":
        return Bounds(low, (rank + 1,), True, True, is_exact)
    if operator == ">=":
        return Bounds(low, (rank + 1,), False, True, is_exact)
    raise ValueError(f"There are no bounds for the operator {operator!r}.")


def _between(low: Any, high: Any) -> Bounds | None:
    cls = type(low)
    if cls is type(high) and (cls is int or cls is str):
        rank = NUMBER_RANK if cls is int else TEXT_RANK
        return Bounds((rank, low), (rank, high))
    first = bounds(">=", low)
    last = bounds("<=", high)
    if first is None or last is None:
        return None
    if first is NOTHING or last is NOTHING or first.low[0] != last.high[0]:
        return NOTHING
    is_exact = first.is_exact and last.is_exact
    return Bounds(first.low, last.high, first.is_low_open, last.is_high_open, is_exact)


def _beginning(prefix: Any) -> Bounds | None:
    """Return the interval of what begins with a text or bytes."""
    if isinstance(prefix, str):
        prefix, rank = str.__str__(prefix), TEXT_RANK
        head = prefix.rstrip(chr(0x10FFFF))
        following: Any = head[:-1] + chr(ord(head[-1]) + 1) if head else None
    elif isinstance(prefix, (bytes, bytearray)):
        prefix, rank = bytes(prefix), BYTES_RANK
        head_bytes = prefix.rstrip(b"\xff")
        following = head_bytes[:-1] + bytes([head_bytes[-1] + 1]) if head_bytes else None
    else:
        return None
    high = (rank + 1,) if following is None else (rank, following)
    return Bounds((rank, prefix), high, False, True)


def _around(operator: str, operand: datetime, key: SortKey) -> Bounds | None:
    """Return the interval for an aware datetime.

    Python compares datetimes of one zone by their wall clocks, and never calls a time that occurs
    twice equal to one of another zone.
    """
    cls: Any = type(operand)
    if cls is not datetime and compares_itself(cls):
        return None
    zone = operand.tzinfo
    is_fixed = isinstance(zone, timezone) or (
        isinstance(zone, ZoneInfo) and zone.utcoffset(None) is not None
    )
    if is_fixed:
        return _interval(operator, key, key, operator != "==")
    rank, instant = key
    return _interval(operator, (rank, instant - _ZONE_SLACK), (rank, instant + _ZONE_SLACK), False)


@lru_cache(maxsize=256)
def compares_itself(cls: Any) -> bool:
    """Whether a class has comparisons of its own."""
    base: Any = next((base for base in MAKERS if issubclass(cls, base)), object)
    is_own: bool = order_of_class(cls) != order_of_class(base)
    return is_own


def order_of_class(cls: Any) -> tuple[Any, Any]:
    """Return what decides how values of a class compare."""
    return cls.__lt__, cls.__eq__


def _is_plain(key: SortKey) -> bool:
    """Whether values with this key equal each other for Python exactly if their keys are equal."""
    if key[0] == SEQUENCE_RANK:
        return all(map(_is_plain, key[1]))
    rank: int = key[0]
    return rank not in (OTHER_RANK, AWARE_RANK)
