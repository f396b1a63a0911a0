"""Conditions, order, pages and groups over plain lists of records, as slow and plain as can be.

What queries must agree with. Written from what is promised and nothing else: it shares no code
with the package, compares values pair by pair, and knows of no index.
"""

from __future__ import annotations

import enum
import functools
import math
import operator
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID

import numpy as np

# Identity and record, in the order of the collection.
Row = tuple[Any, Any]
Parameters = dict[str, Any]
NO_MATCH = (TypeError, AttributeError, LookupError, ArithmeticError, ValueError)


class Absent(enum.Enum):
    """The value of a field that is not there."""

    ABSENT = enum.auto()


ABSENT = Absent.ABSENT


# -- values ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Path:
    """A field, or what is inside of one; a number is an item of a list."""

    names: tuple[str | int, ...]


@dataclass(frozen=True)
class Calculation:
    """Two values with an arithmetic operator between them."""

    operator: str
    left: Value
    right: Value


@dataclass(frozen=True)
class Applied:
    """A function of one value: ``-``, ``abs`` or ``len``."""

    function: str
    value: Value


@dataclass(frozen=True)
class Constant:
    """A value that is in the query itself."""

    value: Any


@dataclass(frozen=True)
class Parameter:
    """A value that is given when the query is asked."""

    name: str


Value = Path | Calculation | Applied | Constant | Parameter

ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
}
FUNCTIONS: dict[str, Callable[[Any], Any]] = {"-": operator.neg, "abs": abs, "len": len}


def look_up(record: Any, names: Sequence[str | int]) -> Any:
    """Return what a path leads to: by key in dicts, by item for numbers, else by attribute."""
    value = record
    for name in names:
        try:
            if isinstance(value, dict):
                value = value.get(name, ABSENT)
            elif isinstance(name, int):
                value = value[name]
            else:
                value = getattr(value, name)
        except NO_MATCH:
            return ABSENT
        if value is ABSENT:
            return ABSENT
    return value


def value_of(value: Value, record: Any, parameters: Parameters) -> Any:
    """Return a value for a record; ABSENT where there is none or it can't be calculated."""
    match value:
        case Constant():
            return value.value
        case Parameter():
            return parameters[value.name]
        case Path():
            return look_up(record, value.names)
        case Applied():
            inner = value_of(value.value, record, parameters)
            return _calculated(FUNCTIONS[value.function], inner)
        case Calculation():
            left = value_of(value.left, record, parameters)
            right = value_of(value.right, record, parameters)
            return _calculated(ARITHMETIC[value.operator], left, right)


def _calculated(function: Callable[..., Any], *operands: Any) -> Any:
    if any(operand is ABSENT for operand in operands):
        return ABSENT
    try:
        return function(*operands)
    except NO_MATCH:
        return ABSENT


# -- conditions ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Test:
    """A comparison of a value with others."""

    __test__ = False

    operator: str
    value: Value
    operands: tuple[Value, ...] = ()


@dataclass(frozen=True)
class All:
    """Matches what every part matches."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True)
class Some:
    """Matches what any part matches."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True)
class No:
    """Matches what its part does not."""

    part: Condition


@dataclass(frozen=True)
class Call:
    """A function of the user's, which does what a condition does."""

    part: Condition


@dataclass(frozen=True)
class Optionally:
    """Counts only when the parameter is given and not None."""

    name: str
    part: Condition


@dataclass(frozen=True)
class Choice:
    """The condition of the arm that a parameter names, the default where none is named."""

    name: str
    arms: tuple[tuple[Any, Condition], ...]
    default: Condition | None = None


Condition = Test | All | Some | No | Call | Optionally | Choice

TESTS: dict[str, Callable[..., Any]] = {
    "==": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": lambda value, others: any([_holds(operator.eq, value, other) for other in others]),
    "between": lambda value, low, high: low <= value <= high,
    "startswith": lambda value, prefix: value.startswith(prefix),
    "endswith": lambda value, suffix: value.endswith(suffix),
    "contains": lambda value, part: part in value,
    "matches": lambda value, pattern: re.search(pattern, value) is not None,
    "is": operator.is_,
    "is none": lambda value: value is None,
}


def matches(condition: Condition, record: Any, parameters: Parameters | None = None) -> bool:
    """Whether a record matches."""
    given = {} if parameters is None else parameters
    match condition:
        case Test():
            return _passes(condition, record, given)
        case All():
            return all(matches(part, record, given) for part in condition.parts)
        case Some():
            return any(matches(part, record, given) for part in condition.parts)
        case No():
            return not matches(condition.part, record, given)
        case Call():
            return matches(condition.part, record, given)
        case Optionally():
            if given.get(condition.name) is None:
                return True
            return matches(condition.part, record, given)
        case Choice():
            for key, part in condition.arms:
                if key == given[condition.name]:
                    return matches(part, record, given)
            return condition.default is not None and matches(condition.default, record, given)


def _passes(test: Test, record: Any, parameters: Parameters) -> bool:
    if test.operator == "!=":
        return not _passes(Test("==", test.value, test.operands), record, parameters)
    values = [value_of(value, record, parameters) for value in (test.value, *test.operands)]
    if any(value is ABSENT for value in values):
        return False
    return _holds(TESTS[test.operator], *values)


def _holds(test: Callable[..., Any], *operands: Any) -> bool:
    try:
        return bool(test(*operands))
    except NO_MATCH:
        return False


# -- the total order -------------------------------------------------------------------------


def compare(one: Any, other: Any) -> int:
    """Return -1, 0 or 1: where one value stands to another in the order of all values."""
    one, other = _python_number(one), _python_number(other)
    families = _family(one), _family(other)
    if families[0] != families[1]:
        return -1 if families[0] < families[1] else 1
    result: int = _COMPARISONS[families[0]](one, other)
    return result


def _python_number(value: Any) -> Any:
    """Return what a number of NumPy's stands for, anything else as it is."""
    is_number = isinstance(value, np.integer | np.floating | np.bool_)
    return value.item() if is_number and not isinstance(value, np.timedelta64) else value


def _family(value: Any) -> int:
    """Return the place of a value's family, in the order of `_COMPARISONS`."""
    if value is ABSENT:
        return 0
    if value is None:
        return 1
    for place, belongs in enumerate(_FAMILIES, 2):
        if belongs(value):
            return place
    return len(_FAMILIES) + 2


def _is_aware(value: Any) -> bool:
    return value.utcoffset() is not None


_FAMILIES: list[Callable[[Any], bool]] = [
    lambda value: isinstance(value, int | float | Decimal | Fraction),
    lambda value: isinstance(value, str),
    lambda value: isinstance(value, bytes | bytearray),
    lambda value: isinstance(value, date) and not isinstance(value, datetime),
    lambda value: isinstance(value, datetime) and not _is_aware(value),
    lambda value: isinstance(value, datetime),
    lambda value: isinstance(value, time) and not _is_aware(value),
    lambda value: isinstance(value, time),
    lambda value: isinstance(value, timedelta),
    lambda value: isinstance(value, UUID),
    lambda value: isinstance(value, enum.Enum),
    lambda value: isinstance(value, tuple | list),
]


def _sign(one: Any, other: Any) -> int:
    return (one > other) - (one < other)


def _compare_numbers(one: Any, other: Any) -> int:
    """Compare by exact value, whatever the types; NaN is behind all of them."""
    are_nan = _is_nan(one), _is_nan(other)
    if any(are_nan):
        return are_nan[0] - are_nan[1]
    places = _infinity(one), _infinity(other)
    if any(places):
        return _sign(*places)
    return _sign(Fraction(one), Fraction(other))


def _is_nan(value: Any) -> bool:
    return value.is_nan() if isinstance(value, Decimal) else value != value


def _infinity(value: Any) -> int:
    """Return -1, 0 or 1; an int or Decimal may be too large for a float."""
    is_infinite = value.is_infinite() if isinstance(value, Decimal) else False
    if isinstance(value, float):
        is_infinite = math.isinf(value)
    if not is_infinite:
        return 0
    return 1 if value > 0 else -1


def _instant(value: datetime) -> timedelta:
    """Return the time since the year 1 in UTC, also where no datetime can hold it."""
    offset = value.utcoffset()
    assert offset is not None
    return value.replace(tzinfo=None, fold=0) - datetime.min - offset


def _utc_time(value: time) -> tuple[timedelta, timedelta]:
    offset = value.utcoffset()
    assert offset is not None
    clock = timedelta(
        hours=value.hour, minutes=value.minute, seconds=value.second, microseconds=value.microsecond
    )
    return clock - offset, offset


def _definition(member: enum.Enum) -> tuple[str, int]:
    return type(member).__name__, list(type(member)).index(member)


def _compare_items(one: Sequence[Any], other: Sequence[Any]) -> int:
    for left, right in zip(one, other, strict=False):
        found = compare(left, right)
        if found:
            return found
    return _sign(len(one), len(other))


def _by(key: Callable[[Any], Any]) -> Callable[[Any, Any], int]:
    return lambda one, other: _sign(key(one), key(other))


_COMPARISONS: list[Callable[[Any, Any], int]] = [
    lambda one, other: 0,
    lambda one, other: 0,
    _compare_numbers,
    _by(str.__str__),
    _by(bytes),
    _sign,
    _by(lambda value: value.replace(fold=0)),
    _by(_instant),
    _sign,
    _by(_utc_time),
    _sign,
    _sign,
    _by(_definition),
    _compare_items,
    _by(lambda value: type(value).__name__),
]

order_key = functools.cmp_to_key(compare)


# -- queries ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Term:
    """A key of an order."""

    value: Value
    falls: bool = False


@dataclass(frozen=True)
class Question:
    """What is asked for.

    Attributes:
        condition: None: all records.
        order: From the most to the least significant key; ties rise by identity.
        skip: How many are left out at the beginning.
        limit: How many there are at most; None for all.
        parameters: The values of the parameters in the condition.
    """

    condition: Condition | None = None
    order: tuple[Term, ...] = ()
    skip: int = 0
    limit: int | None = None
    parameters: Parameters = field(default_factory=dict)


def answer(rows: Iterable[Row], question: Question) -> list[Row]:
    """Return the rows that are asked for, in order."""
    parameters = question.parameters
    found = [
        row
        for row in rows
        if question.condition is None or matches(question.condition, row[1], parameters)
    ]
    found = in_order(found, question.order, parameters)
    stop = None if question.limit is None else question.skip + question.limit
    return found[question.skip : stop]


def in_order(
    rows: list[Row], order: Sequence[Term], parameters: Parameters | None = None
) -> list[Row]:
    """Return rows in an order, those that it holds equal rising by identity.

    Without any order they stay as they are.
    """
    given = {} if parameters is None else parameters
    if order:
        rows = sorted(rows, key=lambda row: order_key(row[0]))
    for term in reversed(order):

        def key(row: Row, value: Value = term.value) -> Any:
            return order_key(value_of(value, row[1], given))

        # Python's reversed sorting keeps the order of equal ones.
        rows = sorted(rows, key=key, reverse=term.falls)
    return rows


def selected(rows: Iterable[Row], values: Sequence[Value]) -> list[tuple[Any, ...]]:
    """Return the values of each row; None for one that is not there."""
    return [tuple(or_none(value_of(value, row[1], {})) for value in values) for row in rows]


def or_none(value: Any) -> Any:
    """Return a value, None for what is not there."""
    return None if value is ABSENT else value


def distinct(items: Iterable[Any]) -> list[Any]:
    """Return the first of those that are equal."""
    kept: list[Any] = []
    for item in items:
        if not any(item is other or item == other for other in kept):
            kept.append(item)
    return kept


def present(rows: Iterable[Row], value: Value) -> list[Any]:
    """Return the values that are there and not None."""
    values = [value_of(value, row[1], {}) for row in rows]
    return [value for value in values if value is not ABSENT and value is not None]


def total(values: Sequence[Any]) -> Any:
    """Return the sum of values, 0 of none."""
    return sum(values)


def mean(values: Sequence[Any]) -> Any:
    """Return the mean of values, None of none."""
    return sum(values) / len(values) if values else None


def least(values: Sequence[Any]) -> Any:
    """Return the first value in the total order, None of none."""
    return min(values, key=order_key, default=None)


def greatest(values: Sequence[Any]) -> Any:
    """Return the last value in the total order, None of none."""
    return max(values, key=order_key, default=None)


def groups(rows: Iterable[Row], values: Sequence[Value]) -> list[tuple[tuple[Any, ...], list[Row]]]:
    """Return the keys and rows of each group, in the total order of the keys."""
    found: list[tuple[tuple[Any, ...], list[Row]]] = []
    for row in rows:
        key = tuple(value_of(value, row[1], {}) for value in values)
        for other, members in found:
            if compare(key, other) == 0:
                members.append(row)
                break
        else:
            found.append((key, [row]))
    return sorted(found, key=lambda group: order_key(group[0]))
