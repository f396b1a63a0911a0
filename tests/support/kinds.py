"""Record classes of every kind, in every form that their libraries have, and records of them."""

import dataclasses
import enum
import typing
from collections import namedtuple
from collections.abc import Callable
from dataclasses import InitVar, dataclass, field
from datetime import date
from decimal import Decimal
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Optional,
    Required,
    TypedDict,
    TypeVar,
)

import attrs
import msgspec
import pydantic

from memdb.serializers import by_name

if TYPE_CHECKING:
    from tests.support.elsewhere import Town

T = TypeVar("T")
U = TypeVar("U")
Metres = NewType("Metres", float)
DAY = date(2000, 1, 2)


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


@by_name
class Mood(enum.Enum):
    GLAD = 1
    SAD = 2


# -- dataclasses


@dataclass
class Point:
    x: int
    y: Decimal = Decimal("1.0")
    seen: date | None = None


@dataclass(frozen=True)
class FrozenPoint:
    x: int
    names: tuple[str, ...] = ()


@dataclass(slots=True, weakref_slot=True)
class WeakPoint:
    x: int
    items: list[Point] = field(default_factory=list)
    id: int = 0


@dataclass(slots=True, frozen=True, kw_only=True)
class StrictPoint:
    y: str = "y"
    x: float
    id: int = 0


@dataclass
class Counted:
    """Has what its constructor takes and does not keep, and the other way round."""

    name: str
    start: InitVar[int]
    step: InitVar[int] = 2
    total: int = field(init=False)
    noted: list[str] = field(init=False, default_factory=list)
    made: ClassVar[int] = 0
    id: int = 0

    def __post_init__(self, start: int, step: int) -> None:
        self.total = start + step


@dataclass
class Animal:
    name: str
    id: int = 0


@dataclass
class Cat(Animal):
    lives: int = 9


@dataclass(slots=True)
class Lion(Cat):
    mane: Optional["Cat"] = None


@dataclass
class Tree:
    label: str
    branches: list["Tree"] = field(default_factory=list)
    up: "Tree | None" = None
    id: int = 0


@dataclass
class Visit:
    """Names a class that is imported only for type checkers."""

    town: "Town"
    towns: "dict[str, list[Town]]" = field(default_factory=dict)
    id: int = 0


@dataclass
class Noted:
    size: Annotated[int, "cm"]
    far: Metres
    letter: Literal["a", "b", 3, None]
    color: Annotated[Color | None, "paint"] = None
    mood: Mood = Mood.GLAD
    moods: dict[Mood, int] = field(default_factory=dict)
    id: int = 0


@dataclass
class Box(Generic[T]):
    content: T
    more: list[T] = field(default_factory=list)
    id: int = 0


@dataclass
class DayBox(Box[date]):
    color: Color = Color.RED


@dataclass
class Shelf:
    days: Box[date]
    points: Box[Point]


# -- Structs


class StructPoint(msgspec.Struct):
    x: int
    y: Decimal = Decimal("1.0")
    seen: date | None = None
    id: int = 0


class FrozenStruct(msgspec.Struct, frozen=True, cache_hash=True):
    x: int
    names: tuple[str, ...] = ()


class TaggedStruct(msgspec.Struct, tag="tagged", tag_field="type"):
    x: int
    when: date = DAY
    id: int = 0


class ArrayStruct(msgspec.Struct, array_like=True, tag=True):
    x: int
    items: list[StructPoint] = []


class RenamedStruct(msgspec.Struct, rename="camel", kw_only=True):
    first_name: str = "n"
    long_number: int
    id: int = 0


class SparseStruct(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    x: int = 1
    when: date = DAY
    words: set[str] = msgspec.field(default_factory=set)


class TreeStruct(msgspec.Struct):
    label: str
    branches: "list[TreeStruct]" = []
    up: "TreeStruct | None" = None
    id: int = 0


class VisitStruct(msgspec.Struct):
    town: "Town"
    id: int = 0


class BoxStruct(msgspec.Struct, Generic[T, U]):
    content: T
    other: U | None = None
    id: int = 0


class DayBoxStruct(BoxStruct[date, int]):
    color: Color = Color.RED


# -- attrs


@attrs.define
class AttrsPoint:
    x: int
    y: Decimal = Decimal("1.0")
    seen: date | None = None
    id: int = 0


@attrs.frozen
class FrozenAttrs:
    x: int
    names: tuple[str, ...] = ()


@attrs.define(slots=False, kw_only=True)
class OpenAttrs:
    x: int
    _hidden: list[int] = attrs.field(factory=list)
    __secret: int = 3
    doubled: int = attrs.Factory(lambda self: self.x * 2, takes_self=True)
    id: int = 0


@attrs.define
class CheckedAttrs:
    """Its validator and converter would refuse and change what is stored."""

    x: int = attrs.field(validator=attrs.validators.lt(5), on_setattr=attrs.setters.NO_OP)
    text: str = attrs.field(converter=str, default="t", on_setattr=attrs.setters.NO_OP)
    id: int = 0


@attrs.define(frozen=True, cache_hash=True, eq=True)
class HashedAttrs:
    x: int
    name: str = "n"


@attrs.define(frozen=True, cache_hash=True, eq=True, slots=False)
class OpenHashedAttrs:
    x: int
    id: int = 0


@attrs.define
class BoxAttrs(Generic[T]):
    content: T
    more: list[T] = attrs.field(factory=list)
    id: int = 0


# -- pydantic


class Model(pydantic.BaseModel):
    x: int = pydantic.Field(lt=5, alias="ex")
    y: Decimal = Decimal("1.0")
    seen: date | None = None
    id: int = 0
    _cached: dict[str, int] = pydantic.PrivateAttr(default_factory=dict)
    validated: ClassVar[int] = 0

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def twice(self) -> int:
        return self.x * 2

    @pydantic.field_validator("x")
    @classmethod
    def check(cls, value: int) -> int:
        Model.validated += 1
        return value


class FrozenModel(pydantic.BaseModel, frozen=True):
    x: int
    names: tuple[str, ...] = ()


class OpenModel(pydantic.BaseModel, extra="allow"):
    x: int
    color: Color = Color.RED
    __pydantic_extra__: dict[str, Any]


class PointsModel(pydantic.BaseModel, extra="allow"):
    __pydantic_extra__: dict[str, Point]


class FrozenOpenModel(pydantic.BaseModel, extra="allow", frozen=True):
    x: int
    _note: list[str] = pydantic.PrivateAttr(default_factory=list)


class TreeModel(pydantic.BaseModel):
    label: str
    branches: list["TreeModel"] = []
    up: "TreeModel | None" = None
    id: int = 0


class BoxModel(pydantic.BaseModel, Generic[T]):
    content: T
    id: int = 0


class DayBoxModel(BoxModel[date]):
    color: Color = Color.RED


class ListModel(pydantic.RootModel[list[date]]):
    pass


@pydantic.dataclasses.dataclass
class PydanticDataclass:
    x: int = pydantic.Field(lt=5)
    words: list[str] = pydantic.Field(default_factory=list)
    y: int = pydantic.Field(default=3)
    id: int = 0


# -- named tuples


class TuplePoint(NamedTuple):
    x: int
    y: Decimal = Decimal("1.0")
    seen: date | None = None
    id: int = 0


Plain = namedtuple("Plain", ["left", "right"], defaults=[0])


class BoxTuple(NamedTuple, Generic[T]):
    content: T
    id: int = 0


class DerivedTuple(TuplePoint):
    """Has a ``__dict__``."""


# -- dicts


class Movie(TypedDict):
    title: str
    year: NotRequired[int]
    color: Required[Color]
    point: Point


class MovieWithId(TypedDict, total=False):
    id: int
    when: "date"


class BoxDict(TypedDict, Generic[T]):
    content: T


def _counted() -> Counted:
    made = Counted("c", 5)
    made.noted.append("n")
    made.id = 7
    return made


def _checked() -> CheckedAttrs:
    made = CheckedAttrs(1, "t", 7)
    made.x, made.text = 99, 5  # type: ignore[assignment]
    return made


def _unchecked(cls: type[Any], **values: Any) -> Any:
    return cls.model_construct(**values)


#: Records of every kind; those that can carry an identity have 7. Each by a name.
RECORDS: dict[str, Any] = {
    "dataclass": Point(1, Decimal("2.50"), DAY),
    "dataclass frozen": FrozenPoint(1, ("a", "b")),
    "dataclass weakref": WeakPoint(1, [Point(2)], 7),
    "dataclass kw_only": StrictPoint(x=1.5, y="z", id=7),
    "dataclass InitVar": _counted(),
    "dataclass inherited": Lion("Leo", 7, 8, Cat("Kit", 3)),
    "dataclass recursive": Tree("a", [Tree("b", [Tree("c")])], Tree("d"), 7),
    "dataclass annotated": Noted(3, Metres(1.5), 3, Color.BLUE, Mood.SAD, {Mood.SAD: 1}, 7),
    "dataclass generic": Box(DAY, [DAY], 7),
    "dataclass of a generic": DayBox(DAY, [], 7, Color.BLUE),
    "dataclass with generics": Shelf(Box(DAY, [DAY]), Box(Point(1))),
    "dataclass of pydantic": PydanticDataclass(x=1, words=["w"], id=7),
    "struct": StructPoint(1, Decimal("2.50"), DAY, 7),
    "struct frozen": FrozenStruct(1, ("a",)),
    "struct tagged": TaggedStruct(1, DAY, 7),
    "struct array": ArrayStruct(1, [StructPoint(2)]),
    "struct renamed": RenamedStruct(first_name="a", long_number=5, id=7),
    "struct sparse": SparseStruct(1, DAY, {"w"}),
    "struct recursive": TreeStruct("a", [TreeStruct("b")], TreeStruct("c"), 7),
    "struct generic": BoxStruct(DAY, (5,), 7),
    "struct of a generic": DayBoxStruct(DAY, 5, 7, Color.BLUE),
    "attrs": AttrsPoint(1, Decimal("2.50"), DAY, 7),
    "attrs frozen": FrozenAttrs(1, ("a",)),
    "attrs open": OpenAttrs(x=1, hidden=[2], id=7),
    "attrs unchecked": _checked(),
    "attrs hashed": HashedAttrs(1),
    "attrs open hashed": OpenHashedAttrs(1, 7),
    "attrs generic": BoxAttrs(DAY, [DAY], 7),
    "pydantic": Model(ex=1, y=Decimal("2.50"), seen=DAY, id=7),
    "pydantic with defaults": Model(ex=1, id=7),
    "pydantic unchecked": _unchecked(Model, x=(1,), y="q", seen=None, id=7),
    "pydantic frozen": FrozenModel(x=1, names=("a",)),
    "pydantic extra": OpenModel(x=1, more=[DAY], other=Decimal("1.0")),
    "pydantic no extra": OpenModel(x=1, color=Color.BLUE),
    "pydantic frozen extra": FrozenOpenModel(x=1, more=[1]),
    "pydantic recursive": TreeModel(label="a", branches=[TreeModel(label="b")], id=7),
    "pydantic generic": BoxModel[date](content=DAY, id=7),
    "pydantic of a generic": DayBoxModel(content=DAY, id=7, color=Color.BLUE),
    "pydantic bare generic": BoxModel(content=(DAY,), id=7),
    "pydantic root": ListModel([DAY]),
    "namedtuple": TuplePoint(1, Decimal("2.50"), DAY, 7),
    "namedtuple plain": Plain(1, ("b",)),
    "namedtuple generic": BoxTuple(DAY, 7),
    "namedtuple derived": DerivedTuple(1, id=7),
}


def as_dataclass(inner: Any) -> type[Any]:
    """Return a dataclass that holds records of a class in several ways."""
    return dataclasses.make_dataclass("Outer", _fields(inner))


def as_slots(inner: Any) -> type[Any]:
    """Return a frozen dataclass with slots that does."""
    return dataclasses.make_dataclass("Outer", _fields(inner), slots=True, frozen=True)


def as_struct(inner: Any) -> type[Any]:
    """Return a Struct that does."""
    return msgspec.defstruct("Outer", _fields(inner), module=__name__)


def as_attrs(inner: Any) -> type[Any]:
    """Return an attrs class that does."""
    return attrs.make_class("Outer", {n: attrs.field(type=t) for n, t in _fields(inner)})


def as_model(inner: Any) -> type[Any]:
    """Return a pydantic model that does."""
    config = pydantic.ConfigDict(arbitrary_types_allowed=True)
    fields: dict[str, Any] = {name: (annotation, ...) for name, annotation in _fields(inner)}
    return pydantic.create_model("Outer", __config__=config, **fields)


def as_namedtuple(inner: Any) -> type[Any]:
    """Return a NamedTuple that does."""
    return typing.cast(Any, NamedTuple)("Outer", _fields(inner))


def _fields(inner: Any) -> list[tuple[str, Any]]:
    return [
        ("one", inner),
        ("many", list[inner]),
        ("maybe", inner | None),
        ("by", dict[str, inner]),
    ]


OUTERS: list[Callable[[Any], type[Any]]] = [
    as_dataclass, as_slots, as_struct, as_attrs, as_model, as_namedtuple,
]  # fmt: skip


def make_outer(cls: type[Any], record: Any) -> Any:
    """Return a record of an outer class that holds a record in all its ways."""
    values = {"one": record, "many": [record, record], "maybe": None, "by": {"k": record}}
    if hasattr(cls, "model_construct"):
        return cls.model_construct(**values)
    return cls(**values)
