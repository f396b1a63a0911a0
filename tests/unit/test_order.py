"""The total order of values, and the intervals that comparisons lead to."""

from __future__ import annotations

import math
from collections import namedtuple
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from enum import Enum, Flag, IntEnum, StrEnum
from fractions import Fraction
from itertools import pairwise
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from memdb.indexes import ABSENT, HIGHEST, Bounds, bounds, descending, family_name, sort_key
from tests.support.labels import label_of

BERLIN = ZoneInfo("Europe/Berlin")
EAST = timezone(timedelta(hours=5))


class Color(Enum):
    """Without an order of its own: RED is defined first."""

    RED = "z"
    BLUE = "a"


class Shape(Enum):
    """Comes behind Color by its name."""

    ROUND = 1


class Ordered(Enum):
    """With an order of its own, which the total order does not ask."""

    LOW = 1

    def __lt__(self, other: object) -> bool:
        return True


class Rank(IntEnum):
    """A number."""

    TWO = 2


class Word(StrEnum):
    """A text."""

    B = "b"


class Permission(Flag):
    """Combinations come behind what has a name."""

    READ = 1
    WRITE = 2


class Upside(str):
    """A text that compares in a way of its own."""

    __slots__ = ()

    def __lt__(self, other: str) -> bool:
        return str.__gt__(self, other)

    __hash__ = str.__hash__


class Nowhere(tzinfo):
    """A zone that does not know its offset: its times are naive."""

    def utcoffset(self, moment: datetime | None) -> None:
        """Return nothing."""


Point = namedtuple("Point", "x y")

# From first to last; the values of one row are equal in the order.
RISING: list[list[Any]] = [
    [ABSENT],
    [None],
    [-math.inf, Decimal("-Infinity")],
    [-(10**400)],
    [-1.5, Decimal("-1.5"), Fraction(-3, 2), np.float64(-1.5)],
    [0, 0.0, -0.0, False, Decimal("-0"), Fraction(0), np.bool_(False)],
    [0.1],
    [Fraction(1, 3)],
    [1, 1.0, True, Decimal(1), np.int8(1)],
    [2, Rank.TWO],
    [2**53, float(2**53)],
    [2**53 + 1],
    [2**63, float(2**63), np.uint64(2**63)],
    [10**400, Decimal("1e400")],
    [math.inf],
    [math.nan, -math.nan, Decimal("NaN"), Decimal("sNaN"), np.float32("nan")],
    [""],
    ["a"],
    ["b", Word.B, Upside("b"), np.str_("b")],
    ["ba"],
    ["é"],
    ["\U0010ffff"],
    [b"", bytearray()],
    [b"a", bytearray(b"a"), np.bytes_(b"a")],
    [date(1, 1, 1)],
    [date(2020, 1, 1)],
    [datetime(1, 1, 1)],
    [
        datetime(2020, 1, 1),
        datetime(2020, 1, 1, fold=1),
        datetime(2020, 1, 1, tzinfo=Nowhere()),
    ],
    [datetime(1, 1, 1, tzinfo=EAST)],
    [datetime(2020, 1, 1, 7, tzinfo=EAST), datetime(2020, 1, 1, 2, tzinfo=UTC)],
    [datetime(2020, 10, 25, 2, 30, tzinfo=BERLIN), datetime(2020, 10, 25, 0, 30, tzinfo=UTC)],
    [
        datetime(2020, 10, 25, 2, 30, tzinfo=BERLIN, fold=1),
        datetime(2020, 10, 25, 1, 30, tzinfo=UTC),
    ],
    [time(0)],
    [time(12), time(12, tzinfo=BERLIN)],
    [time(1, tzinfo=EAST)],
    [time(1, tzinfo=UTC), time(6, tzinfo=EAST)],
    [timedelta(-1)],
    [timedelta(1)],
    [UUID(int=1)],
    [UUID(int=2)],
    [Color.RED],
    [Color.BLUE],
    [Permission.READ],
    [Permission.WRITE],
    [Permission.READ | Permission.WRITE],
    [Shape.ROUND],
    [(), []],
    [(1,), [1], [True]],
    [(1, None), [1, None]],
    [(1, 2), [1, 2.0], Point(1, 2)],
    [(1, "a")],
    [(2,)],
    [Ordered.LOW],
    [{1: 2}, {}],
    [{1}, {2, 3}],
]

# Values and operands for what comparisons must find. NumPy's scalars round what they are compared
# with; memdb takes them as their Python value.
VALUES = [
    value.item() if isinstance(value, np.generic) else value
    for row in RISING
    for value in row
    if type(value) is not Upside and value is not ABSENT
]


def naive(operator: str, value: Any, operand: Any) -> bool:
    """Return what Python's own comparison says; no where it says that it can't."""
    try:
        if operator == "between":
            return bool(operand[0] <= value <= operand[1])
        if operator == "startswith":
            return bool(value.startswith(operand))
        tests: dict[str, Any] = {
            "<": lambda: value < operand,
            "<=": lambda: value <= operand,
            ">": lambda: value > operand,
            ">=": lambda: value >= operand,
            "==": lambda: value == operand,
        }
        return bool(tests[operator]())
    except (TypeError, ArithmeticError, AttributeError, ValueError):
        return False


def is_within(limits: Bounds, value: Any) -> bool:
    """Return whether a value lies within bounds."""
    key = sort_key(value)
    is_high = key > limits.low if limits.is_low_open else key >= limits.low
    return is_high and (key < limits.high if limits.is_high_open else key <= limits.high)


def test_rows_rise() -> None:
    """Each row's values come before those of the next row."""
    for row, following in pairwise(RISING):
        for value in row:
            for other in following:
                assert sort_key(value) < sort_key(other), (value, other)


@pytest.mark.parametrize("row", RISING, ids=lambda row: repr(row[0])[:40])
def test_rows_are_equal(row: list[Any]) -> None:
    """The values of one row have equal keys."""
    assert [sort_key(row[0])] * len(row) == [sort_key(value) for value in row]


def test_falling() -> None:
    """Falling keys are the whole order turned round, None last."""
    values = [None, "a", 3, ABSENT, math.nan, 1.5]

    falling = sorted(values, key=lambda value: descending(sort_key(value)))

    assert ["a", 3, 1.5, None, ABSENT] == [value for value in falling if value == value]
    assert math.isnan(falling[1])  # type: ignore[arg-type]


def test_falling_keys_compare() -> None:
    """Falling keys compare with each other, and with nothing else."""
    one, two = descending((1,)), descending((2,))

    assert two < one and one > two and one == descending((1,)) != two
    assert hash(one) == hash(descending((1,)))
    assert one != (1,)
    assert repr(one) == "Reversed((1,))"
    with pytest.raises(TypeError):
        assert one < (1,)
    with pytest.raises(TypeError):
        assert one > (1,)


def test_highest() -> None:
    """The highest sentinel comes behind every key and everything in one, and equals itself."""
    for key in [*map(sort_key, VALUES), 1, 1.5, "a", descending((1,))]:
        assert key < HIGHEST
        assert not HIGHEST < key
        assert HIGHEST >= key
        assert not HIGHEST <= key
    assert HIGHEST <= HIGHEST and HIGHEST >= HIGHEST
    assert not HIGHEST > HIGHEST
    assert (2, 5) < (2, HIGHEST) < (3,)
    assert ("HIGHEST", "ABSENT") == (repr(HIGHEST), repr(ABSENT))


@pytest.mark.parametrize("operator", ["<", "<=", ">", ">=", "=="])
def test_bounds_hold_all_that_python_finds(operator: str) -> None:
    """Whatever Python's comparison is true for lies within; exact bounds hold nothing else."""
    for operand in VALUES:
        limits = bounds(operator, operand)
        for value in VALUES:
            is_true = naive(operator, value, operand)
            # A NaN in a tuple equals itself; Ordered has a mind of its own.
            if limits is None or isinstance(value, Ordered):
                continue
            if is_true:
                assert is_within(limits, value), (operator, value, operand)
            elif limits.is_exact:
                assert not is_within(limits, value), (operator, value, operand)


def test_between_holds_all_that_python_finds() -> None:
    """The same for between, with ends of one family and of several."""
    for low in VALUES[::2]:
        for high in VALUES[::3]:
            limits = bounds("between", (low, high))
            for value in VALUES:
                is_true = naive("between", value, (low, high))
                if limits is None or isinstance(value, Ordered):
                    continue
                if is_true:
                    assert is_within(limits, value), (value, low, high)
                elif limits.is_exact:
                    assert not is_within(limits, value), (value, low, high)


@pytest.mark.parametrize(
    "prefix", ["", "a", "ab", "\U0010ffff", "a\U0010ffff", b"", b"a", b"\xff", b"a\xff\xff"]
)
def test_startswith(prefix: str | bytes) -> None:
    """The interval of a prefix holds exactly what begins with it."""
    values = [
        "", "a", "ab", "abc", "ac", "b", "a\U0010ffff", "a\U0010ffffb", "\U0010ffff",
        "\U0010ffff\U0010ffff", b"", b"a", b"a\xff", b"a\xff\xff", b"a\xff\xffb", b"b", b"\xff",
        b"\xff\xff", bytearray(b"a"), Word.B, 1, None, ("a",),
    ]  # fmt: skip
    limits = bounds("startswith", prefix)

    assert limits is not None
    assert [value for value in values if is_within(limits, value)] == [
        value for value in values if naive("startswith", value, prefix)
    ]


def test_startswith_of_others() -> None:
    """A prefix that is neither text nor bytes can't be served; a bytearray is bytes."""
    assert bounds("startswith", 1) is None
    assert bounds("startswith", bytearray(b"a")) == bounds("startswith", b"a")


@pytest.mark.parametrize(
    "operand",
    [
        {1},
        {},
        object(),
        1j,
        Upside("a"),
        Ordered.LOW,
        (1, {2}),
        [datetime(2020, 1, 1, tzinfo=BERLIN)],
        np.float32(0.1),
        np.datetime64("2020-01-01"),
    ],
    ids=label_of,
)
def test_operands_that_have_no_interval(operand: Any) -> None:
    """Values that compare in a way of their own can't be served, alone or as an end."""
    assert bounds("==", operand) is None
    assert bounds("<", operand) is None
    assert bounds("between", (operand, operand)) is None


@pytest.mark.parametrize("operand", [None, math.nan, Decimal("sNaN"), ABSENT, Color.RED], ids=repr)
def test_nothing_comes_before(operand: Any) -> None:
    """None, NaN and members without an order come before nothing."""
    limits = bounds("<", operand)

    assert limits is not None and limits.is_empty
    assert not any(is_within(limits, value) for value in VALUES)


def test_is_empty() -> None:
    """An interval is empty where its ends have crossed or an end of a single key is open."""
    assert Bounds((2, 5), (2, 4)).is_empty
    assert Bounds((2, 5), (2, 5), True).is_empty
    assert Bounds((2, 5), (2, 5), False, True).is_empty
    assert not Bounds((2, 5), (2, 5)).is_empty
    assert not Bounds((2, 5), (2, 6), True, True).is_empty


def test_unknown_operator() -> None:
    """An operator without an interval is a mistake of the caller's."""
    with pytest.raises(ValueError, match="'!='"):
        bounds("!=", 1)


def test_zones() -> None:
    """In a zone with changing offsets Python compares wall clocks; the interval has them all."""
    early = datetime(2020, 10, 25, 2, 30, tzinfo=BERLIN, fold=1)
    late = datetime(2020, 10, 25, 2, 40, tzinfo=BERLIN)
    assert early < late and sort_key(early) > sort_key(late)

    limits = bounds("<", late)

    assert limits is not None and not limits.is_exact and is_within(limits, early)


@pytest.mark.parametrize("zone", [UTC, EAST, ZoneInfo("UTC")])
def test_fixed_zones_are_exact(zone: tzinfo) -> None:
    """With a fixed offset wall clocks are instants; only == must look again."""
    limits, equal = (
        bounds("<", datetime(2020, 1, 1, tzinfo=zone)),
        bounds("==", datetime(2020, 1, 1, tzinfo=zone)),
    )

    assert limits is not None and limits.is_exact
    assert equal is not None and not equal.is_exact


def test_datetime_that_compares_itself() -> None:
    """A subclass of datetime with comparisons of its own can't be served."""

    class Moment(datetime):
        def __lt__(self, other: object) -> bool:
            return True

        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = datetime.__hash__

    assert bounds("<", Moment(2020, 1, 1, tzinfo=UTC)) is None
    assert bounds("<", Moment(2020, 1, 1)) is None


def test_subclasses_are_kept_as_plain_values() -> None:
    """A key holds no object of the user's class, whose comparisons may be its own."""
    assert [int, str, str] == [
        type(sort_key(value)[1]) for value in (Rank.TWO, Word.B, Upside("b"))
    ]


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (ABSENT, "absent"),
        (None, "None"),
        (True, "number"),
        (math.nan, "number"),
        ("a", "text"),
        (b"a", "bytes"),
        (date(2020, 1, 1), "date"),
        (datetime(2020, 1, 1), "naive datetime"),
        (datetime(2020, 1, 1, tzinfo=UTC), "aware datetime"),
        (time(1), "time"),
        (timedelta(1), "timedelta"),
        (UUID(int=1), "UUID"),
        (Color.RED, "Enum member"),
        ([1], "sequence"),
        ({1}, "set"),
    ],
)
def test_family_name(value: Any, name: str) -> None:
    """A message can say what kind of value it is."""
    assert name == family_name(value)
