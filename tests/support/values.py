"""One sample of each value that can be stored, with the annotation that names its type.

The values of `records.VALUES`, the edges of every type beside them, and what needs an annotation:
members of Enum classes, records inside records, unions and the other forms of `typing`.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, NewType, TypeVar
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
import numpy as np
import pydantic

from tests.support import records, strategies

T = TypeVar("T")


@dataclass(frozen=True)
class Point:
    """Can be a key of a dict."""

    x: int
    y: int


@dataclass
class Box(Generic[T]):
    """Holds a value of what type the annotation says."""

    content: T


@dataclass(frozen=True, slots=True)
class Tree:
    """Refers to itself."""

    name: str
    branches: tuple[Tree, ...] = ()
    by_name: dict[str, Tree] = field(default_factory=dict)


class Cat(msgspec.Struct, tag=True, frozen=True, array_like=True):
    """One of two in a union."""

    lives: int = 9


class Dog(msgspec.Struct, tag=True):
    """The other one."""

    name: str
    friends: list[Cat | Dog] = []


class Model(pydantic.BaseModel):
    """A pydantic model with a nested one."""

    name: str
    home: Home | None = None


class Home(pydantic.BaseModel):
    """The nested one."""

    city: str
    lines: list[str] = []


UserName = NewType("UserName", str)
KATHMANDU, PARIS, APIA = map(ZoneInfo, ("Asia/Kathmandu", "Europe/Paris", "Pacific/Apia"))
QUARTER = timezone(timedelta(hours=5, minutes=45))
REPEATED = datetime(2024, 10, 27, 2, 30)


@dataclass(frozen=True)
class Sample:
    """A value and an annotation that promises it.

    Attributes:
        name: What the tests call it.
        annotation: Of the field that holds it.
        value: Never changed.
    """

    name: str
    annotation: Any
    value: Any


def nested(depth: int) -> Any:
    """Return lists in lists."""
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


#: The forms of D1: datetimes with and without zones, at the edges, in the repeated hour.
MOMENTS: list[datetime] = [
    datetime.min,
    datetime.max,
    datetime.min.replace(tzinfo=UTC),
    datetime.max.replace(tzinfo=UTC),
    datetime.min.replace(tzinfo=KATHMANDU),
    datetime.max.replace(tzinfo=APIA),
    datetime(2024, 6, 1, 12, 0, 0, 1),
    datetime(2024, 6, 1, 12, 0, 0, 999_999, tzinfo=QUARTER),
    datetime(2024, 6, 1, 12, tzinfo=KATHMANDU),
    datetime(2011, 12, 30, 12, tzinfo=APIA),
    datetime(2024, 3, 31, 2, 30, tzinfo=PARIS),
    datetime(1900, 1, 1, tzinfo=PARIS),
    REPEATED.replace(fold=1),
    REPEATED.replace(tzinfo=PARIS),
    REPEATED.replace(tzinfo=PARIS, fold=1),
    REPEATED.replace(tzinfo=UTC, fold=1),
    REPEATED.replace(tzinfo=QUARTER, fold=1),
    datetime(2024, 1, 1, tzinfo=timezone(-timedelta(hours=23, minutes=59, microseconds=1))),
]

NUMPY: list[Any] = [
    *(np.True_, np.int8(-5), np.uint8(255), np.int64(-(2**63)), np.uint64(2**64 - 1)),
    *(np.float16(0.1), np.float32(0.1), np.float64("nan"), np.float64(-0.0), np.float64(1.5)),
    *(np.complex64(1 + 2j), np.complex128(complex(-0.0, math.inf))),
    *(np.datetime64("2024-05-06T07:08:09.123"), np.datetime64("NaT", "s"), np.timedelta64(5, "m")),
    np.array([1, 2, 3]),
    np.array([[1.5, -0.0], [math.nan, math.inf]]),
    np.array(5, "<u2"),
    np.array([], "f4"),
    np.zeros((2, 0, 3), "i1"),
    np.array([1, 2], ">i4"),
    np.arange(6).reshape(2, 3).T,
    np.arange(10)[::3],
    np.array([True, False]),
    np.array(["a", "żółw"]),
    np.array([b"a", b"bc"]),
    np.array(["2024-01-01", "NaT"], "M8[D]"),
    np.array([1 + 2j], "c8"),
    np.array([(1, "a"), (2, "b")], [("n", "<i8"), ("text", "<U2")]),
]

_FALSE: list[Any] = [[], 0, False, None]
_ANNOTATED: list[tuple[Any, Any]] = [
    *((datetime, moment) for moment in MOMENTS),
    *((type(value), value) for value in NUMPY),
    # Whole values that are false, where something else is allowed too (D4).
    *((bytes | str | None, value) for value in (b"", "", None)),
    *((list[int] | int | bool | None, value) for value in _FALSE),
    *((int, value) for value in (2**200, -(2**200))),
    *((float, value) for value in (5, 2**70, True)),
    *((Decimal, Decimal(text)) for text in ("1.10", "-0.00", "NaN", "1E-6176", "1E+6144")),
    (time, time(2, 30, tzinfo=PARIS, fold=1)),
    (time, time.max.replace(tzinfo=QUARTER)),
    (Path, Path("a b/#?%;=/żółw/\udcff")),
    (Path, Path()),
    *((records.Color, member) for member in records.Color),
    (records.Level, records.Level.HIGH),
    (records.Text, records.Text.A),
    (records.Shade, records.Shade.DARK),
    (records.Mixed, records.Mixed.PAIR),
    *((records.Permission, records.Permission(value)) for value in (0, 1, 3)),
    (list[records.Color | int], [records.Color.RED, 1]),
    (dict[records.Color, int], {records.Color.RED: 1}),
    (set[records.Level | str], {records.Level.LOW, "LOW"}),
    (records.Pair, records.Pair(1, "x", 5)),
    (tuple[records.Pair, int], (records.Pair(2), 1)),
    (records.Address, records.Address("Rome", ["1"], date(2020, 2, 29))),
    (records.BetterAddress, records.BetterAddress("Rome", [], None, "00100")),
    (list[records.Address], [records.Address(""), records.Address("\ud800")]),
    (dict[str, records.Inner | None], {"a": records.Inner("b"), "c": None}),
    (records.Address | records.Inner | None, records.Inner("c", date(2020, 1, 1))),
    (records.Node, records.Node("a", [records.Node("b", [records.Node("c")])])),
    (records.AttrsRecord, records.AttrsRecord("a", 2, ["t"], 5)),
    (records.FrozenStruct, records.FrozenStruct("f", records.Inner("c"), 3)),
    (records.OddStruct, records.OddStruct(long_name="x", some_set={3, 1})),
    (records.ArrayStruct, records.ArrayStruct(1, "b")),
    (Tree, Tree("a", (Tree("b"), Tree("c", (Tree("d"),))), {"x": Tree("y")})),
    (Box[int], Box(5)),
    (Box[list[Decimal]], Box([Decimal("1.10"), Decimal("sNaN")])),
    (Box[Box[date]], Box(Box(date(2020, 1, 1)))),
    (dict[Point, set[Point]], {Point(1, 2): {Point(3, 4)}}),
    (Cat | Dog, Cat(7)),
    (Cat | Dog, Dog("Rex", [Cat(), Dog("Bo")])),
    (list[Cat | Dog], [Cat(), Dog("")]),
    (Model, Model(name="m", home=Home(city="Oslo", lines=["1"]))),
    (list[Model], [Model(name="")]),
    (Literal["a", 1, None], 1),
    (Literal[records.Color.RED, 0], records.Color.RED),
    (UserName, UserName("n")),
    (Annotated[int, "a note"], 5),
    (int | str | float, "1"),
    (int | str | float, 1),
    (int | str | float, 1.0),
    (int | bool, True),
    (date | datetime, date(2020, 1, 1)),
    (date | datetime, datetime(2020, 1, 1)),
    (bytes | bytearray | str, bytearray(b"a")),
    (str | UUID | date, "2020-01-01"),
    (str | UUID | date, UUID(int=0)),
    (list[int] | tuple[int, ...] | set[int], (1, 2)),
    (list[float], [1, 1.0, -0.0, math.nan, True]),
    (dict[Any, Any], {1: "int", "1": "str", b"1": "bytes", (1,): "tuple", None: "none"}),
    (dict[Any, Any], {math.nan: 1, math.inf: 2, Decimal("1.5"): 3, Fraction(1, 3): 4}),
    (dict[tuple[int, str], list[date]], {(1, "a"): [date(2020, 1, 1)]}),
    (frozenset[tuple[str, bytes]], frozenset({("a", b"a")})),
    (set[float], {1.5, math.nan, -0.0}),
    *((strategies.Mood, member) for member in strategies.Mood),
    *((strategies.Right, strategies.Right(value)) for value in (0, 4, 6)),
    (dict[strategies.Mood, int], {strategies.Mood.GLAD: 1}),
    (deque[int], deque([1, 2], 3)),
    (deque[date], deque()),
    (OrderedDict[str, int], OrderedDict(b=1, a=2)),
    (Counter[str], Counter(a=2, b=-1)),
    (range, range(5, -(2**70), -1)),
    (list[Any], nested(50)),
    (list[Any], [[], {}, (), set(), frozenset(), "", b"", bytearray(), None, 0, False, 0.0]),
]


def _type_of(value: Any) -> Any:
    return int | None if value is None else type(value)


def _samples() -> Iterator[Sample]:
    pairs = [(_type_of(value), value) for value in records.VALUES] + _ANNOTATED
    for number, (annotation, value) in enumerate(pairs):
        # The same in every process, which the text of a set is not.
        shown = "" if isinstance(value, Collection) else ascii(value)[:30]
        yield Sample(f"{number} {type(value).__name__} {shown}".strip(), annotation, value)


SAMPLES = list(_samples())

#: The types whose values, and tuples of them, can be natural keys.
KEY_TYPES = frozenset({type(None), bool, int, str, bytes, date, datetime, UUID})


def can_be_key(value: Any) -> bool:
    """Whether a value can be a natural key."""
    if type(value) is tuple:
        return all(map(can_be_key, value))
    return type(value) in KEY_TYPES


@dataclass
class Form:
    """A way of holding a sample in a record.

    Attributes:
        name: What the tests call it.
        hold: Return the value of the field ``value``.
        annotation: Return the annotation of the field, None for a plain dict.
    """

    name: str
    hold: Callable[[Any], Any]
    annotation: Callable[[Any], Any] | None

    @property
    def needs_no_name(self) -> bool:
        """Whether no annotation leads to the classes of the value."""
        return self.name in ("any", "dict")

    def class_for(self, sample: Sample) -> Any:
        """Return the class of the records, the same for equal annotations; None for dicts."""
        if self.annotation is None:
            return None
        annotation = self.annotation(sample.annotation)
        key = repr(annotation)
        if key not in _CLASSES:
            # A name of its own, as the file knows the class by it.
            name = f"Holder{len(_CLASSES)}"
            fields: list[Any] = [("value", annotation), ("id", int, 0)]
            _CLASSES[key] = dataclasses.make_dataclass(name, fields)
        return _CLASSES[key]


_CLASSES: dict[str, Any] = {}
# Behind a name that no type checker follows: its argument is known only when it runs.
_list: Any = list
FORMS = [
    Form("annotated", lambda value: value, lambda annotation: annotation),
    Form("list", lambda value: [value], lambda annotation: _list[annotation]),
    Form("any", lambda value: value, lambda annotation: Any),
    Form("dict", lambda value: {"deep": [value]}, None),
]
# The names of the classes must be the same in every process.
for _sample in SAMPLES:
    for _form in FORMS:
        _form.class_for(_sample)
