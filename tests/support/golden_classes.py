"""Records of the golden files for keys, several classes, evolution and values.

The classes without a number are those of today, with which the files are opened; those with one
are forms of them that programs had earlier, and only write.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field, make_dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from ipaddress import ip_address, ip_interface, ip_network
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, Literal, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import attrs
import msgspec
import numpy as np
import pydantic

import memdb

SPECS = ("json", "msgpack", "binary")
PARIS = ZoneInfo("Europe/Paris")


def _made(name: str, *fields: Any, bases: tuple[type, ...] = ()) -> Any:
    """Return a dataclass of this module; what a program had earlier under the name."""
    return make_dataclass(name, fields, bases=bases, namespace={"__module__": __name__})


# -- natural keys ----------------------------------------------------------------------------


@dataclass
class User:
    """Has a text for a key, and a field ``id`` like any other."""

    email: str
    name: str
    id: int = 0


class Street(msgspec.Struct):
    """Has a key of three fields."""

    country: str
    code: int
    since: date
    name: str = ""


KEYS: list[Any] = [
    *(None, True, False, 0, 1, -255, 2**200, "", "1", "żółw", "\ud800", b"", b"1", b"\x00\xff"),
    *(date(2020, 1, 31), UUID(int=5), (), (1,), ("FR", 75001), ((None, b"a"), "x")),
    datetime(2020, 1, 31),
    datetime(2020, 1, 31, 1, 2, 3, 4, tzinfo=UTC),
    datetime(2024, 10, 27, 2, 30, tzinfo=PARIS, fold=1),
    datetime(2020, 1, 1, tzinfo=timezone(timedelta(hours=-5, microseconds=1))),
    datetime(2020, 1, 1, tzinfo=timezone(timedelta(hours=1), "a")),
]
GIVEN_KEYS: dict[str, list[Any]] = {
    "users": ["ann@example.com", "bob@example.com", "ż@example.com"],
    "streets": [("FR", 75001, date(2000, 1, 1)), ("FR", 75002, date(2000, 1, 1))],
    "everything": KEYS,
}


def write_keys(path: Path, **settings: Any) -> None:
    """Insert, update and delete by natural keys of every type."""
    with memdb.open(path, **settings) as db:
        users = db.collection(User, name="users", key="email", serializer="json")
        streets = open_streets(db)
        everything = db.collection("everything", key="k", serializer="msgpack")
        with db.transaction():
            for number, email in enumerate(GIVEN_KEYS["users"]):
                users.insert(User(email, f"user {number}", number))
            for key in GIVEN_KEYS["streets"]:
                streets.insert(Street(*key))
            everything.insert_many({"k": key, "number": n} for n, key in enumerate(KEYS))
        users.update("ann@example.com", name="changed", id=70)
        users.delete("bob@example.com")
        streets.update(("FR", 75001, date(2000, 1, 1)), name="Rue de Rivoli")
        everything.update(True, number=-1)
        everything.delete(1)


def open_streets(db: memdb.Database) -> Any:
    """Return the collection of streets."""
    return db.collection(Street, name="streets", key=("country", "code", "since"))


# -- several classes -------------------------------------------------------------------------


@dataclass
class Animal:
    """The base of some."""

    name: str
    id: int = 0


@dataclass
class Cat(Animal):
    """Has a tag of its own."""

    lives: int = 9


@dataclass
class Dog(Animal):
    """Was called Hound."""

    friends: list[Animal] = field(default_factory=list)


class Fish(msgspec.Struct, tag="a fish", array_like=True):
    """Of another library than the rest."""

    name: str
    length: float = 0.0
    id: int = 0


Hound = _made("Hound", ("friends", list[Animal], field(default_factory=list)), bases=(Animal,))


def write_classes(path: Path) -> None:
    """Write records of several classes into one collection, in each serializer."""
    with memdb.open(path) as db, db.transaction():
        for spec in SPECS:
            pets = db.collection(
                Cat | Hound | Fish,
                name=f"pets {spec}",
                tags={"cat": Cat, "fish": Fish},
                serializer=spec,
            )
            pets.insert(Cat("Tom"))
            pets.insert(Fish("Wanda", 1.5))
            pets.insert(Hound("Rex", friends=[Animal("a"), Cat("b", lives=3)]))
            pets.insert(Cat("Kit", lives=2**70))
            pets.insert(Hound("Bo"))
    with memdb.open(path) as db:
        pets = open_pets(db, "pets binary")
        pets.update(1, lives=8)
        pets.delete(5)
        pets.insert(Dog("New", friends=[Animal("c")]))


def open_pets(db: memdb.Database, name: str) -> Any:
    """Return a collection of pets as the program of today has it."""
    return db.collection(
        Cat | Dog | Fish, name=name, tags={"cat": Cat, "fish": Fish}, aliases={"Hound": Dog}
    )


# -- evolution -------------------------------------------------------------------------------


class Mood(enum.Enum):
    """Its members have had other names."""

    HAPPY = "glad"
    SAD = "blue"


Mood1: Any = enum.Enum("Mood", {"GLAD": "glad", "BLUE": "blue"}, module=__name__)
Address1 = _made("Address", ("street", str), ("town", str))
Address2 = _made("Address", ("street", str), ("town", str), ("code", int | None, None))


@dataclass
class Address:
    """Its city was a town, and its code a number."""

    street: str
    city: str
    code: str | None = None


def _person(address: Any, mood: Any, *fields: Any) -> Any:
    shared = [
        ("home", address),
        ("others", dict[str, list[address]]),
        ("mood", mood),
        ("more", Any),
        ("id", int, 0),
    ]
    return _made("Person", *fields, *shared)


Person1 = _person(Address1, Mood1, ("name", str), ("age", int), ("gone", str))
Person2 = _person(Address2, Mood1, ("full_name", str), ("age", float), ("email", str))
Person3 = _person(Address, Mood, ("full_name", str), ("age", Decimal), ("email", str))


@dataclass
class Person:
    """The third form, and a field that has come since without another number."""

    full_name: str
    age: Decimal
    email: str
    home: Address
    others: dict[str, list[Address]]
    mood: Mood
    more: Any
    nickname: str = "none"
    id: int = 0


def to_second(record: dict[str, Any]) -> None:
    """Upgrade a record of the first form."""
    record["full_name"] = record.pop("name")
    record["email"] = f"{record['full_name'].lower()}@example.com"


def to_third(record: dict[str, Any]) -> None:
    """Upgrade a record of the second form."""
    places = [record["home"], *(place for some in record["others"].values() for place in some)]
    for place in places:
        place["city"] = place.pop("town")
        if place.get("code") is not None:
            place["code"] = str(place["code"])
    record["age"] = Decimal(str(record["age"]))


def write_evolved(path: Path, serializer: str) -> None:
    """Write records of three forms of a class, in both forms of payloads."""
    name = f"people {serializer}"
    for version, make in enumerate((_first, _second, _third), 1):
        native, exact = make("Ann", None), make("Bob", ({version}, Decimal("1.10")))
        with memdb.open(path, serializer=serializer) as db:
            people = db.collection(type(native), name=name, version=version)
            people.insert_many([native, exact])
    with memdb.open(path, serializer=serializer) as db:
        people = open_people(db, name)
        people.update(1, nickname="changed")
        people.delete(4)


def _first(name: str, more: Any) -> Any:
    home = Address1("a", "Oslo")
    return Person1(name, 41, "gone", home, {"old": [home]}, Mood1.GLAD, more)


def _second(name: str, more: Any) -> Any:
    home = Address2("a", "Oslo", 150)
    return Person2(name, 41.5, "e", home, {"old": [home, Address2("", "")]}, Mood1.BLUE, more)


def _third(name: str, more: Any) -> Any:
    home = Address("a", "Oslo", "0150")
    return Person3(name, Decimal("41.50"), "e", home, {}, Mood.SAD, more)


def open_people(db: memdb.Database, name: str) -> Any:
    """Return a collection of people as the program of today has it."""
    return db.collection(Person, name=name, version=3, upgrades={2: to_second, 3: to_third})


# -- values ----------------------------------------------------------------------------------


class Color(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 2


class Letter(enum.StrEnum):
    A = "a"


class Shade(enum.Enum):
    DARK = Decimal("0.1")


class Right(enum.Flag):
    READ = 1
    WRITE = 2


class Bits(enum.IntFlag):
    A = 1


@memdb.by_name
class Size(enum.Enum):
    SMALL = 1
    LARGE = 10


@memdb.by_name
class Side(enum.Flag):
    LEFT = 1
    RIGHT = 2


class Spot(NamedTuple):
    x: int
    y: Decimal = Decimal(0)


class Room(msgspec.Struct, rename="camel", tag=True):
    wall_colors: list[Color]


@attrs.define
class Lamp:
    watts: float
    on: bool = True


class Home(pydantic.BaseModel, extra="allow"):
    city: str
    lines: list[str] = []


@dataclass(frozen=True)
class Point:
    x: int


class Model(pydantic.BaseModel):
    name: str
    price: Decimal = Decimal("1.10")
    home: Home | None = None
    id: int = 0


FIVE, SPOT = UUID(int=5), Spot(1)


@dataclass
class Natives:
    """A field for each type that is written natively."""

    text: str = "żółw \U0001f600"
    number: int = 2**64 - 1
    ratio: float = -0.0
    whole: float = 5
    flag: bool = True
    data: bytes = b"\x00\xff"
    array: bytearray = field(default_factory=lambda: bytearray(b"a"))
    day: date = date(2020, 2, 29)
    clock: time = time(12, 30, 0, 1)
    moment: datetime = datetime(2024, 10, 27, 2, 30)
    instant: datetime = datetime(2024, 2, 29, 12, 0, 0, 1, tzinfo=UTC)
    span: timedelta = timedelta(-1, 5, 7)
    money: Decimal = Decimal("-0E-10")
    key: UUID = FIVE
    color: Color = Color.RED
    level: Level = Level.HIGH
    letter: Letter = Letter.A
    right: Right = Right.READ | Right.WRITE
    size: Size = Size.LARGE
    choice: Literal["a", 1, None] = 1
    maybe: date | None = None
    either: int | str = "1"
    numbers: list[float] = field(default_factory=lambda: [1, 1.0])
    moments: list[datetime | None] = field(
        default_factory=lambda: [None, datetime.min, datetime.max.replace(tzinfo=UTC)]
    )
    pair: tuple[int, date] = (1, date(1, 1, 1))
    many: tuple[UUID, ...] = (UUID(int=1), UUID(int=2))
    words: set[str] = field(default_factory=lambda: {"a", "b"})
    days: frozenset[date] = frozenset({date(2020, 1, 1)})
    sizes: dict[str, Size] = field(default_factory=lambda: {"a": Size.SMALL})
    anything: Any = field(default_factory=lambda: {"a": [1, "2020-01-01", None, True, 1.5]})
    spot: Spot = SPOT
    spots: dict[str, list[Spot | None]] = field(
        default_factory=lambda: {"a": [Spot(1, Decimal("1.0")), None]}
    )
    room: Room = field(default_factory=lambda: Room([Color.RED]))
    lamp: Lamp = field(default_factory=lambda: Lamp(1.5))
    home: Home = field(default_factory=lambda: Home(city="Oslo", lines=["1"]))
    id: int = 0


@dataclass
class Mixture:
    """Holds values of any type, and of classes that an annotation must name."""

    values: list[Any]
    named: list[
        Color
        | Level
        | Letter
        | Shade
        | Right
        | Bits
        | Size
        | Side
        | Spot
        | Room
        | Lamp
        | Home
        | Point
    ] = field(default_factory=list)
    points: dict[Point, set[Point]] = field(default_factory=dict)
    id: int = 0


MIXTURES: list[list[Any]] = [
    [None, True, 0, 2**64, -(2**200), 1.5, -0.0, math.inf, -math.inf, math.nan, complex(-0.0, 1)],
    [Decimal("1.10"), Decimal("sNaN"), Fraction(-1, 3), Fraction(2**70, 3), range(5, -(2**70), -1)],
    ["", "a\0b", "\ud800", b"", b"\xc1", bytearray(b"a"), UUID(int=5)],
    [
        *(date.min, time(1, 2, 3), time(1, tzinfo=UTC), time(2, 30, tzinfo=PARIS, fold=1)),
        *(datetime(2024, 10, 27, 2, 30, tzinfo=PARIS, fold=fold) for fold in (0, 1)),
        *(datetime(2024, 10, 27, 2, 30, fold=1), datetime(1, 1, 1, tzinfo=UTC)),
        datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=-5, microseconds=1))),
        datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=-5), "EST")),
        *(timedelta.min, timedelta(microseconds=-1), UTC, PARIS),
    ],
    [
        *(ip_address("10.0.0.1"), ip_address("fe80::1%eth0"), ip_network("10.0.0.0/8")),
        *(ip_network("fe80::/10"), ip_interface("10.0.0.1/8"), ip_interface("::1/64")),
        *(PurePosixPath("a/\udcff"), PureWindowsPath("C:/b")),
    ],
    [
        *([], (), {}, set(), frozenset(), (1, (2, [3])), {1, "a", None}, frozenset({(1, 2)})),
        *({1: "a", "1": "b", (1,): [], None: 0, date(2020, 1, 1): 1}, {"z": 1, "a": 2}),
        *(deque([1, (2,)], 3), deque(), OrderedDict(b=1, a=2), Counter(a=2, b=-1)),
    ],
    [
        *(np.True_, np.int8(-5), np.uint64(2**64 - 1), np.float16(0.1), np.float64("nan")),
        *(np.complex64(1 + 2j), np.datetime64("2024-05-06T07:08"), np.timedelta64(5, "m")),
        *(np.str_("żółw"), np.bytes_(b"a"), np.array(5, "<u2"), np.zeros((2, 0, 3), "i1")),
        *(np.arange(6).reshape(2, 3).T, np.array([1, 2], ">i4"), np.array([True, False])),
        *(np.array(["a", "żółw"]), np.array([b"a", b"bc"]), np.array(["NaT"], "M8[D]")),
        np.array([(1, "a", [1, 2])], [("n", "<i8"), ("text", "<U2"), ("pair", "<u2", (2,))]),
    ],
]
NAMED: list[Any] = [
    *(Color.RED, Level.HIGH, Letter.A, Shade.DARK, Right(0), Right(3), Bits(1), Bits(5)),
    *(Size.LARGE, Side.LEFT, Side(3), Spot(1, Decimal("1.0")), Room([Color.RED]), Lamp(1.0, False)),
    *(Home(city="Oslo"), Home(city="Oslo", lines=[], more=(1, Color.RED)), Point(1)),
]


def write_values(path: Path, serializer: str) -> None:
    """Write a value of every type."""
    with memdb.open(path, serializer=serializer) as db:
        natives = db.collection(Natives, name="natives")
        mixtures = db.collection(Mixture, name="mixtures")
        models = db.collection(Model, name="models")
        dicts = db.collection("dicts")
        with db.transaction():
            natives.insert(Natives())
            folded = datetime(2024, 10, 27, 2, 30, fold=1)
            natives.insert(dataclasses.replace(Natives(), moment=folded, maybe=date(1, 1, 1)))
            mixtures.insert_many(Mixture(values) for values in MIXTURES)
            mixtures.insert(Mixture([], NAMED, {Point(1): {Point(2), Point(3)}}))
            models.insert(Model(name="a", price=Decimal(2), home=Home(city="b", lines=[])))
            models.insert(Model(name="b", home=Home(city="b", further=1)))
            dicts.insert({"a": [1, None, {"b": 1.5}], "id": 5})
            mixed: dict[Any, Any] = {"a": (1, date(2020, 1, 1)), 1: "number", "1": "text"}
            dicts.insert(mixed)


# -- how today's program opens them, and shows what it finds ----------------------------------

Opener = Callable[[memdb.Database, str], Any]


def _open_as(cls: Any) -> Opener:
    return lambda db, name: db.collection(cls, name=name)


#: The first word of a collection's name -> what opens it.
OPENERS: dict[str, Opener] = {
    "users": lambda db, name: db.collection(User, name=name, key="email"),
    "streets": lambda db, name: open_streets(db),
    "everything": lambda db, name: db.collection(name, key="k"),
    "pets": open_pets,
    "people": open_people,
    "natives": _open_as(Natives),
    "mixtures": _open_as(Mixture),
    "models": _open_as(Model),
    "dicts": lambda db, name: db.collection(name),
}


def shown(value: Any) -> str:
    """Return a value as text that is the same in every version of Python and its libraries."""
    match value:
        case enum.Enum():
            return f"{type(value).__name__}({shown(value.value)})"
        case np.ndarray() if value.dtype.names:
            return f"array({value.dtype.descr}, {value.tolist()})"
        case np.ndarray():
            return f"array({value.dtype.str}, {value.shape}, {value.tobytes().hex()})"
        case np.str_() | np.bytes_():
            return f"{type(value).__name__}({value.item()!r})"
        case np.generic():
            return f"{type(value).__name__}({value.dtype.str}, {value.tobytes().hex()})"
        case deque():
            return f"deque({shown(list(value))}, {value.maxlen})"
        case dict():
            pairs = ", ".join(f"{shown(key)}: {shown(item)}" for key, item in value.items())
            return f"{type(value).__name__}({pairs})"
        case set() | frozenset():
            return f"{type(value).__name__}({', '.join(sorted(map(shown, value)))})"
        case list():
            return f"[{', '.join(map(shown, value))}]"
    if type(value) is tuple:
        return f"({', '.join(map(shown, value))})"
    if isinstance(value, pydantic.BaseModel):
        further = ", ".join(sorted(value.model_fields_set))
        return f"{_shown_record(value, dict(value))}, set: {further}"
    if isinstance(value, tuple):
        return _shown_record(value, value._asdict())  # type: ignore[attr-defined]
    for names in ("__dataclass_fields__", "__struct_fields__", "__attrs_attrs__"):
        fields = getattr(type(value), names, None)
        if fields is not None:
            known = [getattr(each, "name", each) for each in fields]
            return _shown_record(value, {name: getattr(value, name) for name in known})
    return repr(value)


def _shown_record(record: Any, fields: dict[str, Any]) -> str:
    inner = ", ".join(f"{name}={shown(item)}" for name, item in fields.items())
    return f"{type(record).__name__}({inner})"
