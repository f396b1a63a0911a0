"""Writer schemas that nobody has written: whoever writes a file may write anything into it."""

import contextlib
import copy
import enum
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, make_dataclass
from datetime import date
from functools import partial
from typing import Any

import pytest

from memdb.errors import DecodeError
from memdb.serializers import (
    Evolution,
    enum_values,
    get_serializer,
    is_current,
    make_decoder,
    shape_of,
    unknown_fields,
)
from memdb.serializers._writer import parse_type
from tests.support.evolving import WAYS, encode, schema_of
from tests.support.exact import assert_exact

Way = tuple[str, str]


class Color(enum.Enum):
    RED = "red"


@dataclass
class Part:
    size: int
    born: date
    color: Color = Color.RED


@dataclass
class Item:
    name: str
    part: Part
    id: int = 0


PART = {"size": 1, "born": date(2000, 1, 1), "color": "red"}


def read(way: Way, data: bytes, schema: dict[str, Any]) -> Any:
    """Return a payload as a dict, without any class."""
    return get_serializer(way[0]).codec(shape_of(None), schema).decode(data, 7)


@pytest.fixture(params=[way for way in WAYS if way[0] != "pickle"], ids="-".join)
def way(request: pytest.FixtureRequest) -> Way:
    """A serializer and a tier."""
    return request.param  # type: ignore[no-any-return]


DEEP = [
    "|".join(["int"] * 5000), " | ".join(f"C{number}" for number in range(200)),
    f"Literal[{', '.join(['[1]'] * 9000)}]", f"a{'.b' * 40000}", "(" * 50000, "-" * 90000 + "1",
    "list[" * 20000, f"a{'[b]' * 20000}", "'a' " * 20000, "9" * 90000, "x" * 1_000_000,
    "lambda: " * 9000 + "1", "1 if 1 else " * 8000 + "1", "a(" * 90 + ")" * 90,
]  # fmt: skip
WRONG_TYPES = [
    *("", " ", "#", "\n", "'", "\\", "a b", "\0", "\ud800", "1", "...", "None.x", "not int"),
    *("__import__('os').system('false')", "().__class__", "[x for x in y]", "f'{x}'", "*int"),
    *("Literal[Color.RED]", "Literal[{}]", "Literal[1.5]", "Literal[x]"),
    *("list[int, str]", "set[...]", "dict[int]", "dict[int, ...]", "tuple[..., int]", "list[1]"),
    *("tuple[int, ..., str]", "tuple[int, str, ...]", "int | ...", "int & str", "list[*x]"),
]


@pytest.mark.parametrize("text", [*DEEP, *WRONG_TYPES], ids=lambda text: ascii(text[:20]))
def test_types_that_are_none(text: str) -> None:
    """A text that is no type counts as Any, however long it is, and is never evaluated."""
    assert parse_type(text) is Any


@pytest.mark.parametrize("text", [*DEEP, *WRONG_TYPES], ids=lambda text: ascii(text[:20]))
def test_a_type_that_is_none_spoils_nothing(text: str, way: Way) -> None:
    """A record is read all the same, under a field of such a type, and one nested so deep."""
    cls = make_dataclass("Holder", [("a", Any), ("part", Part)])
    data, schema = (
        encode(way[0], "exact", cls(1, Part(1, date(2000, 1, 1)))),
        schema_of(way[0], cls),
    )
    schema["fields"][0][1] = schema["records"]["Part"][0][1] = text
    schema["records"][text] = [["a", text]]

    expected = {"a": 1, "part": PART, "id": 7}
    assert_exact(read(way, data, schema), expected)


def test_types_nested_deep(way: Way) -> None:
    """A type that is nested as deep as may be written, and deeper than values may be, is read."""
    cls = make_dataclass("Holder", [("a", list[Any])])
    for depth in (9, 10, 11, 20, 64, 95):
        schema = schema_of(way[0], cls)
        schema["fields"][0][1] = "list[" * depth + "int" + "]" * depth
        value: list[Any] = [[], [[]]]

        assert_exact(read(way, encode(*way, cls(value)), schema), {"a": value, "id": 7})


ENUMS: dict[str, dict[str, Any]] = {
    "a flag of many bits": {"kind": "Flag", "members": [["A", ["int", "f" * 500_000]]]},
    "flags below zero": {"kind": "IntFlag", "members": [["A", -1], ["B", -8]]},
    "a flag that is text": {"kind": "Flag", "members": [["A", "x"], ["B", 1]]},
    "unhashable values": {"kind": "Enum", "members": [[f"A{i}", ["list", i]] for i in range(9000)]},
    "arrays": {
        "kind": "Enum",
        "members": [[name, ["array", "|i1", [2], "AAA="]] for name in ("A", "B")],
    },
    "attributes": {"kind": "Enum", "members": [["__class__", "x"], ["__new__", 1], ["A", 2]]},
    "what Enum takes for itself": {"kind": "Enum", "members": [["_ignore_", "A"], ["A", 2]]},
    "a name that can't be": {"kind": "Enum", "members": [["mro", 1]]},
    "no name": {"kind": "Enum", "members": [["", 1]]},
    "NUL and surrogates": {"kind": "Enum", "members": [["a\0b", 1], ["\ud800", 2]]},
    "one name twice": {"kind": "Enum", "members": [["A", 1], ["A", 2]]},
    "nothing": {"kind": "Enum", "members": []},
    "an unknown kind": {"kind": "Color", "members": [["A", 1]], "by_name": 5},
    "values that can't be read": {
        "kind": "Enum",
        "members": [["A", ["decimal", "x"]], ["B", ["record", "X", {}]], ["C", {"a": ["int"]}]],
    },
}


@pytest.mark.parametrize("name", ENUMS)
def test_enums_that_are_none(name: str, way: Way) -> None:
    """An Enum class that can't be made spoils nothing: its members are their values."""
    cls = make_dataclass("Holder", [("a", Any), ("part", Part)])
    data, schema = (
        encode(way[0], "exact", cls(1, Part(1, date(2000, 1, 1)))),
        schema_of(way[0], cls),
    )
    schema["enums"]["Color"] = schema["enums"]["a b"] = ENUMS[name]

    assert enum_values(schema)["Color"].keys() == {member for member, _ in ENUMS[name]["members"]}
    actual = read(way, data, schema)
    assert_exact(actual, {"a": 1, "part": PART, "id": 7})


NAMES = [
    *("class", "a b", "'", '"', "\n", "#", "{r}", "__class__", "__slots__", "__new__", "__hash__"),
    *("__eq__", "__getattribute__", "__del__", "__init_subclass__", "_fields", "items_present"),
    *("count", "f0", "o", "identity", "data", "cls", "__pydantic_extra__", "id", "None", ""),
]


@pytest.mark.parametrize("name", NAMES)
def test_names_of_fields(name: str, way: Way) -> None:
    """Fields may be called as they like: a name becomes no code, nor an attribute that counts."""
    cls = make_dataclass("Holder", [("a", int), ("part", Part), ("parts", Any, None)])
    part = Part(1, date(2000, 1, 1))
    data, schema = encode(*way, cls(1, part)), schema_of(way[0], cls)
    schema["fields"][0][0] = schema["records"]["Part"][0][0] = name
    actual = None
    with contextlib.suppress(DecodeError):
        actual = read(way, data, schema)

    # By name there is no such field in the bytes, and of some names msgspec makes none.
    is_readable = way == ("binary", "fast") and name not in ('"', "\n", "__pydantic_extra__")
    assert actual is not None or not is_readable
    assert actual is None or actual["part"]["born"] == date(2000, 1, 1)


BAD_PARTS: list[tuple[list[Any], Any]] = [
    *(([key], value) for key in ("fields", "records", "enums") for value in (None, 1, "x", [1])),
    *((["fields", 0], value) for value in (None, "x", [], ["a"], ["a", "b", "c"], {"a": 1})),
    *((["fields", 0, place], value) for place in (0, 1) for value in (None, 1, [], {}, ["a"])),
    *((["records", "Part"], value) for value in (None, 1, "x", [1], [["a"]], {"a": "int"})),
    *((["records", "Part", 0, 0], value) for value in (None, 1, [], "\ud800")),
    *((["enums", "Color"], value) for value in (None, 1, "x", [], {}, {"kind": "Enum"})),
    *((["enums", "Color", "members"], value) for value in (None, 1, "x", [1], [["A"]], {"A": 1})),
    *((["enums", "Color", "members", 0, 0], value) for value in (None, 1, [])),
    *((["version"], value) for value in (None, "x", [], {})),
    *((["kind"], value) for value in (None, [], {})),
    *((["class"], value) for value in ("\0", "\ud800")),
]


@pytest.mark.parametrize(("path", "bad"), BAD_PARTS, ids=repr)
def test_schemas_that_are_none(path: list[Any], bad: Any) -> None:
    """Whatever is wrong with a schema, each use of it works or is a DecodeError."""
    for spec in ("binary", "json", "msgpack", "pickle"):
        schema = copy.deepcopy(schema_of(spec, Item, version=2, tag="t"))
        place: Any = schema
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = bad
        for use in uses(spec, schema):
            with contextlib.suppress(DecodeError):
                use()


def uses(spec: str, schema: dict[str, Any]) -> Iterator[Callable[[], Any]]:
    """Give all that a schema is used for."""
    serializer, own, none = get_serializer(spec), shape_of(Item), shape_of(None)
    upgrades: Any = {2: dict, 3: dict}
    evolution = Evolution(version=3, upgrades=upgrades)
    yield partial(make_decoder, serializer, own, schema, evolution)
    yield partial(make_decoder, serializer, none, schema, Evolution())
    yield partial(serializer.codec, none, schema)
    yield partial(serializer.codec, own, schema)
    yield partial(unknown_fields, serializer, own, schema, evolution)
    yield partial(is_current, schema_of(spec, Item), schema)
    yield partial(enum_values, schema)


@pytest.fixture
def usual_stack() -> Iterator[None]:
    """Python's own limit, which a test before may have raised."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    yield
    sys.setrecursionlimit(limit)


@pytest.mark.usefixtures("usual_stack")
def test_records_in_a_long_chain() -> None:
    """Classes that lead to each other a thousand times are refused, a web of them is not."""
    chain = {f"R{i}": [["x", f"R{i + 1}"]] for i in range(3000)}
    web = {f"R{i}": [["x", f"R{i + 1}"], ["y", f"list[R{i + 1}]"]] for i in range(60)}
    schema = {"serializer": "json", "class": "X", "kind": "dataclass", "fields": [["a", "R0"]]}
    with pytest.raises(DecodeError, match="can't be understood"):
        get_serializer("json").codec(shape_of(None), {**schema, "records": chain})
    codec = get_serializer("json").codec(shape_of(None), {**schema, "records": web})

    assert codec.decode(b'["exact",{"a":1}]', 7) == {"a": 1, "id": 7}


def test_an_error_of_the_class_itself_is_no_error_of_the_file() -> None:
    """Without a schema, what goes wrong is not laid to a file's account."""
    with pytest.raises(AttributeError):
        get_serializer("json").codec(object())  # type: ignore[arg-type]
