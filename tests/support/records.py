"""Records and values of every kind, for the serializers' tests."""

import enum
import typing
from collections import OrderedDict, defaultdict, deque
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from fractions import Fraction
from ipaddress import IPv4Address, IPv4Network, IPv6Address
from pathlib import PosixPath, PurePosixPath, PureWindowsPath
from typing import Annotated, Any, Literal, NamedTuple, NewType, Optional
from uuid import UUID
from zoneinfo import ZoneInfo

import attrs
import msgspec
import numpy as np

from tests.support.python import PICKLES_SCOPES


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Mixed(enum.Enum):
    TEXT = "x"
    NUMBER = 1
    PAIR = (1, 2)
    OBJECT = object()
    DEEP = (OBJECT,)


class Text(enum.StrEnum):
    A = "a"


class Permission(enum.Flag):
    READ = enum.auto()
    WRITE = enum.auto()


class Shade(enum.Enum):
    DARK = Decimal("0.1")


@dataclass
class Address:
    city: str
    lines: list[str] = field(default_factory=list)
    since: date | None = None


@dataclass
class BetterAddress(Address):
    zip_code: str = ""


@dataclass
class Plain:
    name: str
    born: date
    address: Address | None = None
    tags: list[str] = field(default_factory=list)
    id: int = 0


@dataclass(slots=True)
class Slotted:
    id: int
    name: str
    created_at: datetime
    amount: Decimal
    count: int
    is_active: bool


@dataclass(frozen=True)
class Frozen:
    name: str
    born: date
    id: int = 0


@dataclass(frozen=True, slots=True)
class FrozenSlotted:
    name: str
    born: date
    id: int | None = None


@dataclass
class Watched:
    """Counts what a decoder must not run."""

    name: str
    size: int = field(default=0, init=False)
    calls: typing.ClassVar[int] = 0

    def __post_init__(self) -> None:
        self.size = len(self.name)
        Watched.calls += 1

    def __setattr__(self, name: str, value: object) -> None:
        if value == "refused":
            raise ValueError(name)
        object.__setattr__(self, name, value)


@dataclass
class Base:
    a: int
    b: str = "b"


@dataclass
class Derived(Base):
    c: list[Address] = field(default_factory=list)
    d: dict[str, Address] = field(default_factory=dict)
    e: tuple[Address, int] | None = None


@dataclass
class KeywordOnly:
    a: int = field(kw_only=True, default=1)
    b: str


@dataclass
class Node:
    name: str
    children: list["Node"] = field(default_factory=list)
    parent: Optional["Node"] = None


@dataclass
class Empty:
    pass


@dataclass
class TextId:
    id: str
    value: int


class Struct(msgspec.Struct):
    id: int
    name: str
    created_at: datetime
    amount: Decimal
    ratio: float
    tags: list[str] = []


class FrozenStruct(msgspec.Struct, frozen=True):
    name: str
    address: "Inner | None" = None
    id: int = 0


class Inner(msgspec.Struct):
    city: str
    since: date | None = None


class ChoosyStruct(msgspec.Struct):
    letter: Literal["a", "b"]
    either: int | float | str
    parts: list[Inner]
    post: "PostStruct | None" = None
    yes: Literal[True] = True


class RenamedStruct(msgspec.Struct, rename="camel"):
    long_name: str


class OddStruct(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, tag="odd"):
    long_name: str
    some_set: set[int] = msgspec.field(default_factory=set)
    small: Annotated[int, msgspec.Meta(gt=0)] = 1


class ArrayStruct(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    a: int
    b: str = ""


class PostStruct(msgspec.Struct, frozen=True):
    a: int

    def __post_init__(self) -> None:
        if self.a < 0:
            msgspec.structs.force_setattr(self, "a", 0)


class Strict(msgspec.Struct):
    """Counts what a decoder must not run, and would refuse what was stored."""

    a: int
    calls: typing.ClassVar[int] = 0

    def __post_init__(self) -> None:
        Strict.calls += 1
        if self.a < 0:
            raise ValueError("negative")


class FrozenStrict(Strict, frozen=True, weakref=True, kw_only=True, tag=True):
    b: int = 5


class DictStrict(Strict, dict=True, array_like=True):
    def __copy__(self) -> Any:
        raise AssertionError("not called")

    def __setattr__(self, name: str, value: object) -> None:
        raise AssertionError("not called")


STRICT_STRUCTS = [Strict, FrozenStrict, DictStrict]


class Pair(NamedTuple):
    left: int
    right: str = "r"
    id: int = 0


class Untyped(NamedTuple):
    value: Any


@attrs.define
class AttrsRecord:
    name: str
    _hidden: int = attrs.field(default=1, validator=attrs.validators.instance_of(int))
    tags: list[str] = attrs.Factory(list)
    id: int = 0


@attrs.frozen
class AttrsFrozen:
    name: str
    address: Address | None = None


@attrs.define(slots=False)
class AttrsOpen:
    name: str
    double: str = attrs.Factory(lambda self: self.name * 2, takes_self=True)


Name = NewType("Name", str)


@dataclass
class Wide:
    """A field for each annotation that the fast tier knows, and some that it does not."""

    text: str
    number: int
    ratio: float
    flag: bool
    data: bytes
    array: bytearray
    day: date
    clock: time
    moment: datetime
    span: timedelta
    money: Decimal
    key: UUID
    color: Color
    level: Level
    letter: Text
    choice: Literal["a", "b", 1, None]
    name: Name
    noted: Annotated[int, "note"]
    maybe: int | None
    either: int | str | None
    any_of: float | str
    yes: Literal[True]
    some_color: Literal[Color.RED, "x"]
    numbers: list[int]
    floats: list[float]
    moments: list[datetime]
    optional_days: list[date | None]
    nested: list[list[str]]
    pair: tuple[int, str]
    many: tuple[Decimal, ...]
    words: set[str]
    keys: frozenset[int]
    counts: dict[str, int]
    by_number: dict[int, str]
    by_day: dict[date, int]
    anything: Any
    address: Address
    addresses: dict[str, list[Address]]
    loose: list  # type: ignore[type-arg]
    looser: dict  # type: ignore[type-arg]
    point: Pair
    inner: Inner


def make_wide(**changes: Any) -> Wide:
    """Return a record whose values are all natively exact, but for the changes."""
    values: dict[str, Any] = dict(
        text="żółw",
        number=-5,
        ratio=1.5,
        flag=True,
        data=b"\x00\xff",
        array=bytearray(b"ab"),
        day=date(1, 1, 1),
        clock=time(23, 59, 59, 999999),
        moment=datetime(2024, 5, 6, 7, 8, 9, 123456, tzinfo=UTC),
        span=timedelta(-1, 5, 7),
        money=Decimal("1.50"),
        key=UUID(int=5),
        color=Color.RED,
        level=Level.HIGH,
        letter=Text.A,
        choice="a",
        name=Name("n"),
        noted=3,
        maybe=None,
        either="e",
        any_of=2.5,
        yes=True,
        some_color="x",
        numbers=[1, 2, 3],
        floats=[1.0, -0.0],
        moments=[datetime(2024, 1, 1), datetime(9999, 12, 31, tzinfo=UTC)],
        optional_days=[None, date(2020, 2, 29)],
        nested=[["a"], []],
        pair=(1, "a"),
        many=(Decimal("0E-10"), Decimal("1E+5")),
        words={"a", "b"},
        keys=frozenset({3, 1}),
        counts={"z": 1, "a": 2},
        by_number={},
        by_day={},
        anything={"a": [1, "x", None, True, 1.5]},
        address=Address("Paris", ["1", "2"], date(2000, 1, 1)),
        addresses={"home": [Address("Rome")]},
        loose=[1, "a"],
        looser={"k": "v"},
        point=Pair(1, "x", 5),
        inner=Inner("Oslo"),
    )
    return Wide(**(values | changes))


class MyText(str):
    pass


class MyList(list[Any]):
    pass


class MyDeque(deque[Any]):
    pass


def with_a_note() -> OrderedDict[str, Any]:
    """Return an ordered dict that has an attribute of its own."""
    made: OrderedDict[str, Any] = OrderedDict(a=1)
    made.note = "n"  # type: ignore[attr-defined]
    return made


class MyMoment(datetime):
    pass


class MyZone(tzinfo):
    def utcoffset(self, moment: datetime | None) -> timedelta:
        return timedelta(hours=1)


PARIS = ZoneInfo("Europe/Paris")

VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    -1,
    2**63 - 1,
    -(2**63),
    2**64 - 1,
    2**64,
    -(2**63) - 1,
    10**3000,
    0.0,
    -0.0,
    1.0,
    1e22,
    5e-324,
    float("inf"),
    float("-inf"),
    float("nan"),
    -float("nan"),
    "",
    "a\x00b",
    "\ud800",
    "\ud83d\ude00",
    "😀",
    b"",
    b"\xc1",
    bytearray(b"x"),
    complex(-0.0, float("inf")),
    date(1, 1, 1),
    date(9999, 12, 31),
    time(0),
    time(1, 2, 3, 4, fold=1),
    time(1, tzinfo=UTC),
    time(1, tzinfo=PARIS),
    datetime(1, 1, 1),
    datetime(2024, 1, 1, 1, 2, 3, 4),
    datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    datetime(2024, 10, 27, 2, 30, fold=1),
    datetime(2024, 10, 27, 2, 30, tzinfo=PARIS),
    datetime(2024, 10, 27, 2, 30, tzinfo=PARIS, fold=1),
    datetime(2024, 10, 27, 2, 30, tzinfo=UTC, fold=1),
    datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=5, seconds=1, microseconds=2))),
    datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=-5), "EST")),
    datetime(2024, 1, 1, tzinfo=timezone(timedelta(0), "Z")),
    datetime(2024, 1, 1, tzinfo=ZoneInfo("UTC")),
    UTC,
    PARIS,
    timedelta.min,
    timedelta.max,
    timedelta(microseconds=-1),
    *map(Decimal, ["0", "-0", "1.0", "1E+5", "0E-10", "NaN", "sNaN", "-NaN12", "Infinity"]),
    Decimal("1" * 60),
    Fraction(-1, 3),
    Fraction(10**30, 7),
    UUID(int=2**128 - 1),
    IPv4Address("1.2.3.4"),
    IPv6Address("fe80::1%eth0" if PICKLES_SCOPES else "fe80::1"),
    IPv4Network("10.0.0.0/8"),
    PurePosixPath("/a/b"),
    PosixPath("a\udcff"),
    PureWindowsPath("C:\\a"),
    [],
    (),
    {},
    set(),
    frozenset(),
    [1, [2, [3]]],
    (1, "a", (2,)),
    [()],
    {1, "a", 2.5, None},
    frozenset({(1, 2), frozenset({3})}),
    {"a": {"b": []}},
    {1: "a", "1": "b", (1, 2): "c", None: "d", 1.5: "e", date(2020, 1, 1): "f"},
    {True: 1},
    {"\ud800": 1},
    {"z": 1, "a": 2},
    ["list", 1],
    ["exact", {}],
    {"id": 5},
]

REFUSED: list[tuple[str, Any, str]] = [
    ("subclass of str", MyText("a"), "value"),
    ("subclass of list", MyList(), "value"),
    ("subclass of datetime", MyMoment(2024, 1, 1), "value"),
    ("own tzinfo", datetime(2024, 1, 1, tzinfo=MyZone()), "value"),
    ("object", object(), "value"),
    ("class", int, "value"),
    ("function", len, "value"),
    ("generator", (i for i in range(3)), "value"),
    ("default dict", defaultdict(list, a=[1]), "value"),
    ("subclass of deque", MyDeque([1]), "value"),
    ("ordered dict with attributes", with_a_note(), "value"),
    ("array of objects", np.array([object()]), "value"),
    ("array of long doubles", np.zeros(2, np.longdouble), "value"),
    ("masked array", np.ma.MaskedArray([1, 2], [True, False]), "value"),
    ("array of records", np.rec.array([(1, 2)]), "value"),
    ("long long", np.longlong(1), "value"),
    ("raw bytes of numpy", np.void(b"abc"), "value"),
    ("in a deque", deque([1, [object()]]), "value[1][0]"),
    ("record of an unnamed class", Empty(), "value"),
    ("in a list", [1, {"a": (object(),)}], "value[1]['a'][0]"),
    ("key", {object(): 1}, "value[key 0]"),
]


@dataclass
class Holder:
    """Holds a value of any type."""

    value: Any


@dataclass
class Typed:
    """What a value of each type must survive in a field annotated otherwise."""

    text: str = ""
    number: int = 0
    ratio: float = 0.0
    moment: datetime | None = None
    items: list[str] = field(default_factory=list)
    table: dict[str, int] = field(default_factory=dict)
    group: set[str] = field(default_factory=set)
    pair: tuple[int, int] = (0, 0)
    color: Color = Color.RED
    address: Address | None = None
    money: Decimal = Decimal(0)
    flag: bool = False


RECORDS: list[Any] = [
    Plain("Ann", date(2000, 1, 1), Address("Paris", ["a", "b"]), ["x"]),
    Plain("", date(1, 1, 1)),
    Slotted(0, "n", datetime(2024, 1, 1, tzinfo=UTC), Decimal("1.10"), 5, True),
    Frozen("f", date(2000, 1, 1)),
    FrozenSlotted("f", date(2000, 1, 1), 0),
    Watched("abc"),
    Derived(1, "x", [Address("a")], {"k": Address("b", ["c"])}, (Address("d"), 1)),
    Derived(2),
    KeywordOnly(a=5, b="b"),
    Node("root", [Node("leaf"), Node("branch", [Node("twig")])]),
    Node("child", parent=Node("parent")),
    Empty(),
    TextId("key", 5),
    Struct(0, "s", datetime(2024, 1, 1, tzinfo=UTC), Decimal("1.10"), 0.5, ["a"]),
    Struct(0, "s", datetime(2024, 1, 1), Decimal("sNaN"), 1, []),
    FrozenStruct("f", Inner("c", date(2020, 1, 1))),
    FrozenStruct("f"),
    Inner("c"),
    ChoosyStruct("a", 1.5, [Inner("a")]),
    ChoosyStruct("b", float("nan"), [], PostStruct(1)),
    ChoosyStruct("c", "x", []),  # type: ignore[arg-type]
    RenamedStruct("r"),
    OddStruct(long_name="x", some_set={3, 1}, small=-5),
    OddStruct(long_name="x"),
    ArrayStruct(1, "b"),
    PostStruct(5),
    Pair(1, "x"),
    Untyped([1, (2, 3)]),
    AttrsRecord("a", 2, ["t"]),
    AttrsFrozen("a", Address("c")),
    AttrsOpen("a"),
    make_wide(),
]
