"""Reading what a class has written without any of its classes."""

import contextlib
import enum
from collections import Counter, OrderedDict, deque
from dataclasses import dataclass, field, make_dataclass, replace
from datetime import date
from decimal import Decimal
from typing import Any, Literal, NamedTuple

import numpy as np
import pytest

from memdb.errors import DecodeError
from memdb.serializers import by_name, get_serializer, shape_of, writer_schema
from memdb.serializers._exact import ExactTier
from memdb.serializers._writer import ABSENT, shape_of_writer, world_of
from tests.support.evolving import WAYS, encode, schema_of
from tests.support.exact import assert_exact

Way = tuple[str, str]


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Odd(enum.Enum):
    OBJECT = object()
    PRICE = Decimal("0.1")
    PAIR = (1, 2)


class Level(enum.IntEnum):
    LOW = 1


class Right(enum.Flag):
    READ = 1
    WRITE = 2


@by_name
class Named(enum.Enum):
    ONE = 1


class Text(enum.StrEnum):
    A = "a"


@dataclass(frozen=True)
class Part:
    size: int
    day: date
    color: Color = Color.RED


@dataclass
class Node:
    name: str
    children: list["Node"] = field(default_factory=list)


class Pair(NamedTuple):
    part: Part
    level: Level


@dataclass
class Item:
    name: str
    price: Decimal
    part: Part | None
    parts: list[Part]
    by_key: dict[str, Part]
    color: Color
    level: Level
    right: Right
    named: Named
    pair: tuple[int, Part]
    nested: Pair
    id: int = 0


def item() -> Item:
    """Return a record of which all can be in the fast tier."""
    part = Part(1, date(2000, 1, 1), Color.BLUE)
    return Item(
        "n",
        Decimal("1.10"),
        part,
        [part],
        {"a": part},
        Color.RED,
        Level.LOW,
        Right.READ | Right.WRITE,
        Named.ONE,
        (1, part),
        Pair(part, Level.LOW),
    )


PART = {"size": 1, "day": date(2000, 1, 1), "color": "blue"}
PLAIN = {
    "name": "n",
    "price": Decimal("1.10"),
    "part": PART,
    "parts": [PART],
    "by_key": {"a": PART},
    "color": "red",
    "level": 1,
    "right": 3,
    "named": 1,
    "pair": (1, PART),
    "nested": {"part": PART, "level": 1},
}


def read(way: Way, data: bytes, schema: dict[str, Any], identity: str | None = "id") -> Any:
    """Return a payload as a dict, without any class."""
    shape = replace(shape_of(None), identity=identity)
    return get_serializer(way[0]).codec(shape, schema).decode(data, 7)


@pytest.fixture(params=[way for way in WAYS if way[0] != "pickle"], ids="-".join)
def way(request: pytest.FixtureRequest) -> Way:
    """A serializer and a tier."""
    return request.param  # type: ignore[no-any-return]


def test_a_schema_describes_nested_classes() -> None:
    """Nested records and Enums are in the schema; what is empty or usual is not."""
    schema = schema_of("json", Node)
    more = schema_of("json", Item, version=3, tag="item")

    assert schema == {
        "serializer": "json",
        "class": "Node",
        "kind": "dataclass",
        "fields": [["name", "str"], ["children", "list[Node]"]],
        "records": {"Node": [["name", "str"], ["children", "list[Node]"]]},
    }
    assert more["version"] == 3 and more["tag"] == "item"
    assert more["enums"]["Color"] == {
        "kind": "Enum",
        "members": [["RED", "red"], ["BLUE", "blue"]],
    }
    assert more["enums"]["Right"]["kind"] == "Flag"
    assert more["enums"]["Named"] == {"kind": "Enum", "members": [["ONE", 1]], "by_name": True}
    assert set(more["records"]) == {"Part", "Pair"}


def test_a_schema_does_not_depend_on_what_is_imported() -> None:
    """A class derived from a nested one, or an alias, changes nothing in the schema."""
    base = make_dataclass("Base", [("a", int)])
    cls = make_dataclass("Holder", [("value", base)])
    before = schema_of("json", cls)
    derived = make_dataclass("Derived", [("b", int)], bases=(base,))
    shape = replace(shape_of(cls), aliases={"Old": derived})

    assert before == schema_of("json", cls)
    assert before == writer_schema(shape, get_serializer("json"))


def test_classes_of_one_name_are_told_apart() -> None:
    """Of two classes with the same qualified name the schema names the modules."""
    twin = make_dataclass("Part", [("other", str)])
    twin.__module__ = "elsewhere"
    cls = make_dataclass("Holder", [("a", Part), ("b", list[twin])])  # type: ignore[valid-type]
    schema = schema_of("json", cls)
    record = cls(Part(1, date(2000, 1, 1)), [twin("x")])
    names = {"elsewhere.Part", f"{__name__}.Part"}

    assert set(schema["records"]) == names
    assert {schema["fields"][0][1], schema["fields"][1][1][5:-1]} == names
    for tier in ("fast", "exact"):
        actual = read(("json", tier), encode("json", tier, record), schema)
        assert_exact(actual["a"], {**PART, "color": "red"})
        assert_exact(actual["b"], [{"other": "x"}])


def test_records_as_dicts(way: Way) -> None:
    """Nested records are dicts, members their values, and all else of its exact type."""
    data, schema = encode(*way, item()), schema_of(way[0], Item)

    assert_exact(read(way, data, schema), {**PLAIN, "id": 7})


def test_members_in_every_kind_of_container(way: Way) -> None:
    """Those that are stored by their names are their values there too."""
    if way[1] == "fast":
        pytest.skip("these containers are written exactly")
    kinds = {"a": deque[Named], "b": OrderedDict[Named, Named], "c": Counter[Named]}
    cls = make_dataclass("Holder", list(kinds.items()))
    one = Named.ONE
    record = cls(deque([one], 3), OrderedDict({one: one}), Counter([one]))
    data, schema = encode(*way, record), schema_of(way[0], cls)

    expected = {"a": deque([1], 3), "b": OrderedDict({1: 1}), "c": Counter([1]), "id": 7}
    assert_exact(read(way, data, schema), expected)


def test_a_literal_that_names_a_member(way: Way) -> None:
    """What it is in is read as what it was."""
    cls = make_dataclass("Holder", [("a", tuple[Literal[Color.RED, 0], ...])])
    data, schema = encode(*way, cls((0,))), schema_of(way[0], cls)

    assert_exact(read(way, data, schema), {"a": (0,), "id": 7})


def test_the_tag_is_in_the_dict(way: Way) -> None:
    """In a collection of several classes the dict says which it is."""
    data, schema = encode(*way, item()), schema_of(way[0], Item, tag="thing")

    assert_exact(read(way, data, schema), {"__class__": "thing", **PLAIN, "id": 7})


def test_an_ordinary_field_named_id(way: Way) -> None:
    """A field ``id`` that is no identity keeps its value, with and without a natural key."""
    cls = make_dataclass("Holder", [("id", str), ("n", int)])
    data, schema = encode(*way, cls("x", 1)), schema_of(way[0], cls)

    assert_exact(read(way, data, schema), {"id": "x", "n": 1})
    assert_exact(read(way, data, schema, None), {"id": "x", "n": 1})


def test_no_identity_under_a_natural_key(way: Way) -> None:
    """With a natural key the number in the pointer is not shown."""
    cls = make_dataclass("Holder", [("n", int)])

    assert_exact(read(way, encode(*way, cls(1)), schema_of(way[0], cls), None), {"n": 1})


def test_a_pickle_as_a_dict() -> None:
    """A pickle's values are what they are; tag and identity are as for the others."""
    cls = make_dataclass("Holder", [("id", str), ("n", Color)])
    data, schema = encode("pickle", "only", cls("x", Color.RED)), schema_of("pickle", cls, tag="t")

    expected = {"__class__": "t", "id": "x", "n": Color.RED}
    assert_exact(read(("pickle", "only"), data, schema), expected)


def test_odd_members(way: Way) -> None:
    """A member whose value can't be stored is its name; others are their exact values."""
    cls = make_dataclass("Holder", [("a", Odd), ("b", Odd), ("c", Odd)])
    data = encode(way[0], "exact", cls(*Odd))
    schema = schema_of(way[0], cls)

    assert schema["enums"]["Odd"]["members"][0] == ["OBJECT", ["opaque"]]
    expected = {"a": "OBJECT", "b": Decimal("0.1"), "c": (1, 2), "id": 7}
    assert_exact(read(way, data, schema), expected)


def test_text_enums(way: Way) -> None:
    """The value of a member that is text itself is plain text."""
    cls = make_dataclass("Holder", [("a", Text), ("b", dict[str, Level])])
    data, schema = encode(*way, cls(Text.A, {"x": Level.LOW})), schema_of(way[0], cls)

    assert_exact(read(way, data, schema), {"a": "a", "b": {"x": 1}, "id": 7})


def test_recursive_records(way: Way) -> None:
    """Records that contain records of their own class are dicts all the way down."""
    record = Node("a", [Node("b", [Node("c")])])
    data, schema = encode(way[0], "exact", record), schema_of(way[0], Node)
    inner = {"name": "b", "children": [{"name": "c", "children": []}]}

    assert_exact(read(way, data, schema), {"name": "a", "children": [inner], "id": 7})


def test_records_where_no_dict_can_be(way: Way) -> None:
    """In a set or as a key a nested record is a tuple of pairs; other containers stay."""
    cls = make_dataclass("Holder", [("a", Any), ("part", Part | None, None)])
    part = Part(1, date(2000, 1, 1), Color.BLUE)
    pairs = tuple(PART.items())
    values = [
        ({part}, {pairs}),
        ({part: part}, {pairs: PART}),
        (deque([part], 2), deque([PART], 2)),
        (OrderedDict(a=part), OrderedDict(a=PART)),
    ]
    for value, expected in values:
        data = encode(way[0], "exact", cls(value))
        actual = read(way, data, schema_of(way[0], cls))

        assert_exact(actual, {"a": expected, "part": None, "id": 7})


def test_two_equal_records_in_a_set() -> None:
    """Records that only their own class can tell apart do not become one."""

    @dataclass(eq=False)
    class Same:
        a: int

    cls = make_dataclass("Holder", [("a", set[Same])])
    shape = shape_of_writer(schema_of("json", cls))
    tier = ExactTier(shape_of(cls))
    plain = tier.fields_to_plain(cls({Same(1), Same(1)}))
    serializer = get_serializer("json")
    values = serializer.world_decoder(shape, schema_of("json", cls))(  # type: ignore[attr-defined]
        serializer.exact_bytes(plain),  # type: ignore[attr-defined]
        1,
    )

    assert len(values["a"]) == 2


def test_old_schemas(way: Way) -> None:
    """Exact payloads of before nested classes were described read as dicts and values."""
    schema = schema_of(way[0], Item)
    del schema["records"], schema["enums"]
    data = encode(way[0], "exact", item())

    expected = {**PLAIN, "named": "ONE", "id": 7}
    assert_exact(read(way, data, schema), expected)


def test_what_a_newer_program_has_added(way: Way) -> None:
    """Names that the schema does not have are shown, in nested records too."""
    newer = make_dataclass("Part", [("size", int), ("more", Decimal)])
    newer.__qualname__ = "Part"
    cls = make_dataclass("Holder", [("a", newer), ("b", newer)])
    older_part = make_dataclass("Part", [("size", int)])
    older_part.__qualname__ = "Part"
    older = make_dataclass("Holder", [("a", older_part)])
    data = encode(way[0], "exact", cls(newer(1, Decimal(2)), newer(3, Decimal(4))))
    actual = read(way, data, schema_of(way[0], older))

    expected = {"a": {"size": 1, "more": Decimal(2)}, "b": {"size": 3, "more": Decimal(4)}, "id": 7}
    assert_exact(actual, expected)


def test_an_enum_that_can_not_be_made() -> None:
    """A class whose members need what only it had is left out; its values are still read."""
    content = {"kind": "Flag", "members": [["A", "text"]]}

    assert world_of({"enums": {"Bad": content}}) == {}


def test_records_in_a_set_hold_what_can_be_there() -> None:
    """Lists, dicts and sets in a record that is in a set are hashable too."""

    @dataclass(eq=False)
    class Full:
        a: list[Any]
        b: dict[str, Any]
        c: Any = None

    cls = make_dataclass("Holder", [("v", set[Full])])
    schema = schema_of("json", cls)
    values = [bytearray(b"x"), deque([{1}]), OrderedDict(k=[1])]
    expected = [b"x", (frozenset({1}),), (("k", (1,)),)]
    for value, plain in zip(values, expected, strict=True):
        data = encode("json", "exact", cls({Full([[1]], {"k": {2}}, value)}))
        pairs = (("a", ((1,),)), ("b", (("k", frozenset({2})),)), ("c", plain))

        assert_exact(read(("json", "exact"), data, schema), {"v": {pairs}, "id": 7})
    array = encode("json", "exact", cls({Full([], {}, np.zeros(1))}))
    with pytest.raises(DecodeError, match=r"can't be shown as a dict \(TypeError\)"):
        read(("json", "exact"), array, schema)


def test_a_world_has_places_for_what_is_not_there() -> None:
    """A nested record that lacks a field that its schema has is read without it."""
    cls = make_dataclass("Holder", [("part", Part)])
    schema = schema_of("json", cls)
    data = b'["exact",{"part":["record","Part",{"size":1}]}]'

    assert_exact(read(("json", "exact"), data, schema), {"part": {"size": 1}, "id": 7})
    made = world_of(schema)["Part"]
    assert ABSENT in vars(made)["_field_defaults"].values()


def test_garbage_is_refused(way: Way) -> None:
    """What is no payload of the class is an error on the way to a dict too."""
    data, schema = encode(*way, item()), schema_of(way[0], Item)
    codec = get_serializer(way[0]).codec(shape_of(None), schema)
    for size in range(len(data)):
        with pytest.raises(DecodeError):
            codec.decode(data[:size], 7)


@pytest.mark.parametrize("spec", ["binary", "json", "msgpack", "pickle"])
def test_a_class_without_fields_in_the_payload(spec: str) -> None:
    """What is in its payloads is a record without fields, and no dict."""
    for cls in (make_dataclass("Empty", []), make_dataclass("OnlyId", [("id", int, 0)])):
        serializer = get_serializer(spec)
        data = serializer.codec(shape_of(cls)).encode(cls())

        actual = serializer.codec(shape_of(None), schema_of(spec, cls)).decode(data, 7)
        assert_exact(actual, {"id": 7})


def test_classes_named_like_standard_types(way: Way) -> None:
    """A class of the program's and the type that its name is of are told apart."""
    classes: list[Any] = [
        enum.Enum("Decimal", {"A": "a"}),
        make_dataclass("Decimal", [("date", date)]),
        make_dataclass("deque", [("date", date)]),
    ]
    for named in classes:
        named.__module__ = "shop"
        cls = make_dataclass(
            "Holder",
            [("price", Decimal), ("more", deque[int] | None), ("own", list[named])],  # type: ignore[valid-type]
        )
        is_enum = issubclass(named, enum.Enum)
        record = cls(Decimal("1.10"), None, [named("a" if is_enum else date(2000, 1, 1))])
        data, schema = encode(*way, record), schema_of(way[0], cls)

        own = "a" if is_enum else {"date": date(2000, 1, 1)}
        expected = {"price": Decimal("1.10"), "more": None, "own": [own], "id": 7}
        assert_exact(read(way, data, schema), expected)
        assert_exact(get_serializer(way[0]).codec(shape_of(cls)).decode(data, 7), record)


@pytest.mark.parametrize(
    "fields",
    [
        *([["a\\", "int"]], [['"', "int"]], [["\x00", "int"]], [["a", "int"], ["a", "int"]]),
        [["a", "list[" * 100 + "int" + "]" * 100]],
    ],
    ids=range(5),
)
def test_names_and_types_that_no_program_has(way: Way, fields: Any) -> None:
    """Whatever a file says of a class, its records are read or refused."""
    cls = make_dataclass("Holder", [("part", Part)])
    data = encode(*way, cls(Part(1, date(2000, 1, 1))))
    for where in ("fields", "records"):
        for name in ("Part", "Part\0"):
            schema = schema_of(way[0], cls)
            schema |= {"fields": fields} if where == "fields" else {"records": {name: fields}}
            with contextlib.suppress(DecodeError):
                assert type(read(way, data, {**schema, "class": "Holder\0"})) is dict
