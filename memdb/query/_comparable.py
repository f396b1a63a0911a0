"""Which values a field can be put in order with, as far as its annotation tells."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from types import NoneType
from typing import Any, Final, get_origin
from uuid import UUID

from memdb.errors import QueryError, RecordTypeError, shown
from memdb.query._evaluate import TESTS
from memdb.query._fitting import NO_MATCH
from memdb.serializers import shape_of

# Naive and aware ones can't be compared with each other; the annotation says nothing of that.
_DATETIMES: Final = (
    datetime.datetime(2000, 1, 1),
    datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC),
)
_TIMES: Final = (datetime.time(1), datetime.time(1, tzinfo=datetime.UTC))

# Values of each type, to try a comparison with.
_SAMPLES: Final[dict[type, tuple[Any, ...]]] = {
    bool: (True,),
    int: (0,),
    float: (0.0,),
    complex: (0j,),
    str: ("",),
    bytes: (b"",),
    bytearray: (bytearray(),),
    list: ([],),
    tuple: ((),),
    set: (set(),),
    frozenset: (frozenset(),),
    dict: ({},),
    datetime.datetime: _DATETIMES,
    datetime.date: (datetime.date(2000, 1, 1),),
    datetime.time: _TIMES,
    datetime.timedelta: (datetime.timedelta(0),),
    Decimal: (Decimal(0),),
    Fraction: (Fraction(0),),
    UUID: (UUID(int=0),),
    NoneType: (),
}

_ORDERS: Final = ("__lt__", "__le__", "__gt__", "__ge__")


def check_operand(
    text: str, members: Sequence[Any], operator: str, operand: object, position: int = 0
) -> None:
    """Refuse what the values of an annotation can't be compared with by `<` and its kin.

    Args:
        text: The field, for the message.
        members: Of the annotation, as `Step.members` has them.
        operator: One of `RANGES`.
        operand: What is compared with.
        position: Which operand it is.

    Raises:
        QueryError: Python would raise for each value of the annotation.
    """
    if not any(_is_comparable(member, operator, operand, position) for member in members):
        names = " | ".join([_name(member) for member in members])
        raise QueryError(
            f"{text} is annotated {names}, which can't be compared by {operator} with "
            f"{shown(operand)} of type {type(operand).__name__}. Give a value of the field's type"
            f"{', or use .is_(None)' if operand is None else ''}."
        )


def can_refuse(members: Sequence[Any]) -> bool:
    """Whether there are values that `check_operand` refuses for an annotation."""
    return not any(_is_comparable(member, "<", _Strange(), 0) for member in members)


def usual_type(members: Sequence[Any], operator: str) -> type | None:
    """Return the type of what the values of an annotation are usually compared with."""
    for member in members:
        cls = get_origin(member) or member
        samples = _samples(cls) if isinstance(cls, type) else None
        if samples and type(samples[0]) is cls and _is_comparable(member, operator, samples[0], 0):
            return cls
    return None


class _Strange:
    """Have no order with anything."""


def _is_comparable(member: Any, operator: str, operand: object, position: int) -> bool:
    cls = get_origin(member) or member
    if not isinstance(cls, type) or cls is object or cls is Any:
        return True
    samples = _samples(cls)
    if samples is None:
        # An order of the class's own, or of the operand's, may take anything.
        is_odd = type(operand) in _SAMPLES or type(operand) is _Strange
        return not is_odd or (operand is not None and not _has_no_order(cls))
    test = _test(operator, position)
    # A list: an interrupt (Ctrl-C) that hits the closing of a generator would be lost.
    return any([_is_possible(test, sample, operand) for sample in samples])


@lru_cache(maxsize=512)
def _samples(cls: type) -> tuple[Any, ...] | None:
    """Return values of a class to try with, None where none are known."""
    if issubclass(cls, Enum):
        return tuple(cls)[:1]
    for base in cls.__mro__:
        if base in _SAMPLES:
            is_changed = any(getattr(cls, name) is not getattr(base, name) for name in _ORDERS)
            return None if is_changed else _SAMPLES[base]
    return None


def _has_no_order(cls: type) -> bool:
    """Whether values of a class certainly have no order: a record class without one."""
    if any(getattr(cls, name) is not getattr(object, name) for name in _ORDERS):
        return False
    try:
        shape_of(cls)
    except RecordTypeError:
        return False
    return True


def _test(operator: str, position: int) -> Callable[[Any, Any], Any]:
    if operator == "between":
        return TESTS["<=" if position else ">="]
    return TESTS[operator]


def _is_possible(test: Callable[[Any, Any], Any], sample: Any, operand: object) -> bool:
    try:
        test(sample, operand)
    except (TypeError, AttributeError):
        return False
    except NO_MATCH:
        return True
    return True


def _name(member: Any) -> str:
    return "None" if member is NoneType else getattr(member, "__name__", str(member))
