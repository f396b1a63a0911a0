"""The table of what converts by itself, and what does not."""

import dataclasses
import enum
from collections import Counter, OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field, make_dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from fractions import Fraction
from pathlib import Path, PurePosixPath
from typing import Any, Generic, Literal, NamedTuple, Optional, TypedDict, TypeVar
from uuid import UUID

import msgspec
import pytest

from memdb.errors import DecodeError
from memdb.serializers import by_name, get_serializer, shape_of, writer_schema
from memdb.serializers._convert import Converter
from memdb.serializers._writer import NamedDict, as_plain, parse_type, world_of
from tests.support.exact import assert_exact

T = TypeVar("T")


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1


class Shade(enum.StrEnum):
    RED = "red"


class Right(enum.Flag):
    READ = 1
    WRITE = 2


@by_name
class Named(enum.Enum):
    RED = 1


@dataclass
class Part:
    size: float
    day: date | None = None
    tags: list[str] = field(default_factory=list)


@dataclass
class Wheel:
    size: int
    spokes: int


class Pair(NamedTuple):
    a: float
    b: str = "b"


class Inner(msgspec.Struct):
    value: Decimal


class Movie(TypedDict):
    name: str
    year: float


@dataclass
class Box(Generic[T]):
    value: T


@dataclass
class Animal:
    name: str


@dataclass
class Cat(Animal):
    lives: int = 9


class Other:
    """What nothing knows."""


@dataclass
class Holder:
    """The classes that a payload may name."""

    a: Color | Level | Shade | Right | Named
    b: Part | Wheel | Pair | Inner | Box[int]
    c: Animal | Cat


CONVERTER = Converter(shape_of(Holder))


def world(*classes: Any) -> dict[str, Any]:
    """Return what stands for classes in the world of a writer that had them."""
    holder = make_dataclass("Writer", [(f"f{i}", cls) for i, cls in enumerate(classes)])
    return world_of(writer_schema(shape_of(holder), get_serializer("json")))


def stored(record: Any, cls: Any = None) -> Any:
    """Return a record as one of the writer's world."""
    cls = cls or type(record)
    made = world(cls)[cls.__qualname__]
    return tuple.__new__(made, [getattr(record, name) for name in made._fields])


CONVERTED: list[tuple[Any, Any, Any]] = [
    # What fits stays.
    *((value, type(value), value) for value in (1, True, 1.5, "a", b"a", 1j, Decimal("1.0"))),
    *(
        (value, type(value), value)
        for value in (date(2000, 1, 1), datetime(2000, 1, 1, tzinfo=UTC))
    ),
    *((value, type(value), value) for value in (time(1), UUID(int=1), Fraction(1, 2))),
    (PurePosixPath("a"), PurePosixPath, PurePosixPath("a")),
    (Path("a"), Path, Path("a")),
    (None, None, None),
    (None, int | None, None),
    (None, Optional[str], None),  # noqa: UP045
    ([1, "a"], list, [1, "a"]),
    (bytearray(b"a"), bytearray, bytearray(b"a")),
    (deque([1], 3), deque[int], deque([1], 3)),
    (OrderedDict(a=1), OrderedDict[str, int], OrderedDict(a=1)),
    (Counter("a"), Counter[str], Counter("a")),
    (Color.RED, Color, Color.RED),
    (Part(1.0), Part, Part(1.0)),
    (5, Any, 5),
    (5, object, 5),
    (5, T, 5),
    ("a", Literal["a", "b"], "a"),
    ("c", Literal["a", "b"], "c"),
    # Numbers.
    (True, int, 1),
    (5, float, 5.0),
    (2**60, float, float(2**60)),
    (5, complex, 5 + 0j),
    (1.5, complex, 1.5 + 0j),
    (2**100, Decimal, Decimal(2**100)),
    (5, Fraction, Fraction(5)),
    # Bytes.
    (b"a", bytearray, bytearray(b"a")),
    (bytearray(b"a"), bytes, b"a"),
    # Containers.
    ([1, 2], tuple[float, ...], (1.0, 2.0)),
    ((1, 2), list[float], [1.0, 2.0]),
    ([1, "a"], tuple[float, str], (1.0, "a")),
    ([], tuple[()], ()),
    ([1], tuple, (1,)),
    ({1}, frozenset[float], frozenset({1.0})),
    (frozenset({1}), set, {1}),
    ({"a": [1]}, dict[str, tuple[float, ...]], {"a": (1.0,)}),
    ({1: 1}, dict[float, float], {1.0: 1.0}),
    # Enums.
    ("red", Color, Color.RED),
    (1, Level, Level.LOW),
    (3, Right, Right.READ | Right.WRITE),
    ("RED", Named, Named.RED),
    (1, Named, Named.RED),
    (Color.RED, str, "red"),
    (Level.LOW, Decimal, Decimal(1)),
    ("red", Literal[Color.RED], Color.RED),
    (Shade.RED, Literal["red"], "red"),
    # Records and dicts.
    ({"size": 1, "more": 1}, Part, Part(1.0)),
    ({"size": 1, "day": None, "tags": ("a",)}, Part, Part(1.0, None, ["a"])),
    ({"a": 1}, Pair, Pair(1.0, "b")),
    ({"value": 1}, Inner, Inner(Decimal(1))),
    ({"value": 1}, Box[float], Box(1.0)),
    ({"name": "a", "year": 1, "more": (1,)}, Movie, {"name": "a", "year": 1.0, "more": (1,)}),
    (stored(Part(1, None, [])), dict, {"size": 1, "day": None, "tags": []}),
    (stored(Part(1, None, [])), dict[str, Any], {"size": 1, "day": None, "tags": []}),
    (stored(Part(1, None, ["a"])), Part, Part(1, None, ["a"])),
    (stored(Wheel(1, 2)), Part, Part(1.0)),
    (stored(Wheel(1, 2)), Any, Wheel(1, 2)),
    ([stored(Wheel(1, 2))], list, [Wheel(1, 2)]),
    (stored(Pair(1, "x")), Movie | Pair, Pair(1, "x")),
    # Unions.
    (5, str | float, 5.0),
    (5, float | int, 5),
    (True, int | bool, True),
    ([1], tuple[int, ...] | None, (1,)),
    ([1], list[str] | list[int], [1]),
    ("red", str | Color, "red"),
    ("red", int | Color, Color.RED),
    ({"size": 1, "spokes": 2}, Part | Wheel, Wheel(1, 2)),
    ({"size": 1, "day": None}, Part | Wheel, Part(1.0)),
    ({"size": 1}, dict[str, int] | Part, {"size": 1}),
    (NamedDict({"size": 1}.items(), "Part"), dict[str, int] | Part, Part(1.0)),
    (stored(Wheel(1, 2)), Part | Wheel | None, Wheel(1, 2)),
    (stored(Wheel(1, 2)), dict[str, Any] | None, {"size": 1, "spokes": 2}),
    ([stored(Wheel(1, 2))], list[Part] | list[Wheel], [Wheel(1, 2)]),
    ((1, "a"), tuple[float, str] | tuple[int, str], (1, "a")),
    ((1, "a"), tuple[float, bytes] | tuple[float, str], (1.0, "a")),
    ({"a": 1}, dict[str, str] | dict[str, float], {"a": 1.0}),
    ([1, "a"], list[int] | list[Any], [1, "a"]),
    # Derived classes.
    (stored(Cat("a", 3)), Animal, Cat("a", 3)),
    (stored(Cat("a", 3)), Animal | None, Cat("a", 3)),
    (Cat("a"), Animal, Cat("a")),
    # Abstract types say what kind of thing is meant.
    ({"a": 1}, Mapping[str, int], {"a": 1}),
]


@pytest.mark.parametrize(("value", "wanted", "expected"), CONVERTED, ids=repr)
def test_what_converts(value: Any, wanted: Any, expected: Any) -> None:
    """A value of the table becomes just this."""
    assert_exact(CONVERTER.convert(value, wanted), expected)


REFUSED: list[tuple[Any, Any]] = [
    *((True, wanted) for wanted in (float, str, Decimal, bytes, complex)),
    *((1, wanted) for wanted in (bool, str, bytes, date, list, dict, Color, Part, None)),
    *((1.0, wanted) for wanted in (int, Decimal, Fraction, str, Level)),
    *(("1", wanted) for wanted in (int, float, Decimal, bytes, date, UUID, Path, list, set, Color)),
    (b"a", str),
    (2**53 + 1, float),
    (2**53 + 1, complex),
    (2**2000, float),
    (Decimal(1), int),
    (Decimal(1), float),
    (Fraction(1), Decimal),
    (date(2000, 1, 1), datetime),
    (datetime(2000, 1, 1), date),
    (None, int),
    (None, list[int]),
    ([1, 1], set[int]),
    ([1], frozenset),
    ({1}, list[int]),
    ({1: 2}, list),
    ([1], tuple[int, int]),
    (["a"], list[int]),
    ({"a": 1}, dict[str, str]),
    ({"a": 1}, dict[int, int]),
    ({1.0: 1, Decimal(1): 2}, dict[str, int]),
    ({"spokes": 1}, Part),
    ({"a": "x"}, Pair),
    ([1], Part),
    ("a", Movie),
    (1, Literal["a"]),
    (Color.BLUE, Level),
    (Level.LOW, Literal["a"]),
    (Color.BLUE, Shade),
    (stored(Part(1.0)), int),
    (stored(Part(1.0)), list[Any]),
    (stored(Part(1.0)), int | str),
    ({"size": 1, "tags": []}, Wheel | Pair),
    ("a", Other),
    ("a", Mapping[str, int]),
]


@pytest.mark.parametrize(("value", "wanted"), REFUSED, ids=repr)
def test_what_does_not_convert(value: Any, wanted: Any) -> None:
    """What could lose something is refused with the path and what to declare."""
    with pytest.raises(DecodeError) as caught:
        CONVERTER.convert(value, wanted, trail=(None, ".field"))

    assert caught.value.field.startswith("field")
    assert str(caught.value).startswith(caught.value.field + ": ")
    assert "upgrade=" in str(caught.value)


def test_no_message_shows_a_value() -> None:
    """What a record holds is not in the errors about it."""
    for value in ("secret", ["secret"], {"a": "secret"}, stored(Wheel(1, "secret"))):  # type: ignore[arg-type]
        with pytest.raises(DecodeError) as caught:
            CONVERTER.convert(value, Inner | int, trail=(None, ".v"))

        assert "secret" not in str(caught.value)


def test_the_path_leads_to_the_item() -> None:
    """The path goes through lists, keys, sets and records."""
    cases = [
        ([1, "a"], list[int], "v[1]"),
        ({"a": {"b": "x"}}, dict[str, dict[str, int]], "v['a']['b']"),
        ({"a": 1}, dict[int, int], "v.keys()"),
        ({"x" * 50: "a"}, dict[str, int], f"v['{'x' * 39}...]"),
        ({(1,): "a"}, dict[tuple[int], int], "v[...]"),
        ({"a"}, set[int], "v{}"),
        ([{"size": "a"}], list[Part], "v[0].size"),
        ([{"spokes": 1}], list[Wheel], "v[0].size"),
    ]
    for value, wanted, path in cases:
        with pytest.raises(DecodeError) as caught:
            CONVERTER.convert(value, wanted, trail=(None, ".v"))

        assert caught.value.field == path


def test_what_did_not_fit_before_is_left_alone() -> None:
    """A value that did not fit its old annotation stays, inside of what is converted too."""
    cases: list[tuple[Any, Any, Any, Any]] = [
        ("a", int, float, "a"),
        (5, float, float, 5),
        (5, float, float | None, 5),
        (5, int, float, 5.0),
        (5, int | str, float, 5.0),
        ([5, "a"], list[int], list[float], [5.0, "a"]),
        ([5, "a"], list[float], tuple[float, ...], (5, "a")),
        ({"a": 5, 1: 6}, dict[str, int], dict[str, float], {"a": 5.0, 1: 6.0}),
        ((0, "a"), tuple[float, str] | list[int], tuple[float, str], (0, "a")),
        ((0, "a"), tuple[int, bytes] | tuple[int, str], tuple[float, str], (0.0, "a")),
        ("c", Literal["a"], int, "c"),
        (None, int, float, None),
        (5, None, str, 5),
    ]
    for value, written, wanted, expected in cases:
        assert_exact(CONVERTER.convert(value, wanted, written), expected)


def test_nothing_is_shared_with_what_was_given() -> None:
    """Lists, dicts, sets and bytearrays are copies, whatever the annotation says of them."""
    for wanted in (list, Any, list[Any], list[list[int]], object):
        inner: list[int] = [1]
        CONVERTER.convert([inner], wanted)[0].append(2)

        assert inner == [1]
    for value in ({"a": 1}, {1}, bytearray(b"a"), deque([1]), OrderedDict(a=1), Counter("a")):
        assert CONVERTER.convert(value, Any) is not value


def test_members_of_the_writers_enums() -> None:
    """A member is found by class and value, by its name where no member has the value now."""
    old = enum.Enum("Color", {"RED": "red", "BLUE": "#00f", "GONE": "gone"})  # type: ignore[misc]
    old.__qualname__ = "Color"
    members = world(old)["Color"]

    assert CONVERTER.convert(members.RED, Color) is Color.RED
    assert CONVERTER.convert(members.BLUE, Color) is Color.BLUE
    assert CONVERTER.convert(members.BLUE, str) == "#00f"
    assert CONVERTER.convert(members.RED, Shade | Color) is Color.RED
    assert CONVERTER.convert(members.RED, Shade | int) is Shade.RED
    assert CONVERTER.convert(members.RED, str | int) == "red"
    assert CONVERTER.convert([members.RED], Any) == [Color.RED]
    with pytest.raises(DecodeError, match="Color no longer has GONE"):
        CONVERTER.convert(members.GONE, Color, trail=(None, ".v"))
    unknown = enum.Enum("Unknown", {"A": 1})  # type: ignore[misc]
    unknown.__qualname__ = "Unknown"
    with pytest.raises(DecodeError, match=r"names the class Unknown.*aliases=\{'Unknown'"):
        CONVERTER.convert(world(unknown)["Unknown"].A, Any, trail=(None, ".v"))


def test_classes_of_a_union() -> None:
    """The name decides, then an alias, then the fields; where all fit it is an error."""
    old = make_dataclass("Old", [("size", int), ("spokes", int)])
    old.__qualname__ = "Old"
    value = stored(old(1, 2))
    twin = make_dataclass("Twin", [("size", int), ("spokes", int)])
    shape = dataclasses.replace(shape_of(Holder), aliases={"Old": Wheel, "Left": twin})

    assert_exact(CONVERTER.convert(value, Part | Wheel), Wheel(1, 2))
    assert_exact(Converter(shape).convert(value, Wheel | twin), Wheel(1, 2))
    assert_exact(Converter(shape).convert(value, Any), Wheel(1, 2))
    with pytest.raises(DecodeError, match=r"several classes fit: say which, as aliases=\{'Old'"):
        CONVERTER.convert(value, Wheel | twin)
    with pytest.raises(DecodeError, match=r"several classes fit: say which\. Declare"):
        CONVERTER.convert({"size": 1, "spokes": 2}, Wheel | twin)


def test_names_that_lost_or_gained_a_module() -> None:
    """A name that had to say its module is found without it, and the other way round."""
    value = NamedDict({"size": 1, "spokes": 2}.items(), f"{__name__}.Wheel")

    assert_exact(CONVERTER.convert(value, Any), Wheel(1, 2))


def test_a_named_dict_of_no_known_class_is_a_dict() -> None:
    """What an upgrade has moved into a field that says nothing stays a plain dict."""
    value = NamedDict({"a": NamedDict({"size": 1}.items(), "Nothing")}.items(), "Nobody")

    assert_exact(CONVERTER.convert(value, Any), {"a": {"size": 1}})


def test_records_in_sets_and_keys_as_plain() -> None:
    """Where a dict can't be, a nested record is a tuple of pairs."""
    record = stored(Wheel(1, 2))
    pairs = (("size", 1), ("spokes", 2))

    assert_exact(as_plain({record}), {pairs})
    assert_exact(as_plain({record: [record]}), {pairs: [NamedDict(pairs, "Wheel")]})
    assert_exact(as_plain({(record, frozenset({record}))}), {(pairs, frozenset({pairs}))})


def test_texts_of_types() -> None:
    """A type text gives the annotation back, with Any for what it can't name."""
    cases: list[tuple[str, Any]] = [
        ("int | None", int | None),
        ("dict[str, list[Decimal]]", dict[str, list[Decimal]]),
        ("tuple[()]", tuple[()]),
        ("tuple[int, ...]", tuple[int, ...]),
        ("f.<locals>.Part | None", Part | None),
        ("list[f.<locals>.Part]", list[Part]),
        ("Box[int]", Box),
        ("other.Part", Any),
        ("Sequence[int]", Any),
        ("list[Sequence[int]]", list[Any]),
        ("Literal['a', 1]", Literal["a", 1]),
        ("Literal[Color.RED]", Any),
        ("Literal[-1]", Literal[-1]),
        ("__import__('os')", Any),
        ("1 + 1", Any),
        ("(", Any),
    ]

    assert [annotation for _, annotation in cases] == [
        parse_type(text, {"f._locals_.Part": Part, "Box": Box}) for text, _ in cases
    ]
