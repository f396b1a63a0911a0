"""Whatever payloads and writer schemas hold: a record, or an error of memdb, and no code is run."""

from __future__ import annotations

import contextlib
import copy
import enum
from collections.abc import Iterator
from dataclasses import dataclass, make_dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from random import Random
from typing import Any, NamedTuple

import msgspec
import pydantic
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memdb.errors import DecodeError, EncodeError
from memdb.serializers import (
    Evolution,
    enum_values,
    get_serializer,
    is_current,
    make_decoder,
    shape_of,
    unknown_fields,
    writer_schema,
)

# Each example makes several codecs.
SOME = settings(max_examples=50)
THOROUGH = settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow])


class Color(enum.Enum):
    RED = "red"
    PAIR = (1, 2)


class Right(enum.Flag):
    READ = 1
    WRITE = 2


@dataclass
class Part:
    size: int
    color: Color = Color.RED
    pair: tuple[int, str] = (1, "a")


class Model(pydantic.BaseModel, extra="allow"):
    x: int = 1
    parts: list[Part] = []


class Node(msgspec.Struct):
    a: int = 0
    next: Node | None = None


class Pair(NamedTuple):
    left: int
    right: str = ""


@dataclass
class Record:
    name: str
    part: Part
    by: dict[str, Part]
    model: Model
    node: Node
    pair: Pair
    right: Right
    any: Any
    either: Part | Node | None
    colors: set[Color]
    day: date
    moment: datetime
    price: Decimal
    pairs: frozenset[Pair]
    id: int = 0


RECORD = Record(
    "n", Part(1), {"k": Part(2, Color.PAIR)}, Model(x=2, parts=[Part(3)]), Node(1, Node(2)),
    Pair(1), Right.READ | Right.WRITE, {"a": (1, {2: 3})}, Node(3), {Color.RED}, date(2020, 1, 1),
    datetime(2020, 1, 1, tzinfo=UTC), Decimal("1.0"), frozenset({Pair(1)}), 7,
)  # fmt: skip
# The same name, as another program has the class.
Other: Any = make_dataclass(
    "Record",
    [
        *(("name", list), ("part", Node), ("by", dict), ("model", Part), ("pair", Part)),
        *(("right", int), ("either", Pair | Right), ("new", list[int], None), ("any", Any, None)),
        ("id", int, 0),
    ],
)
SHAPES = [shape_of(cls) for cls in (Record, Other, Model, None)]
EVOLUTIONS = [
    Evolution(),
    Evolution(renames={"name": "new"}),
    Evolution(upgrade=lambda record: None),
    Evolution(version=3, upgrades={2: lambda record: None, 3: dict}),
    Evolution(converters={"name": list, "part": lambda value: value}),
]
SPECS = ("binary", "json", "msgpack")

JUNK: list[Any] = [
    *(None, True, 0, -1, 2**64 - 1, 1.5, "", "a", "id", "None", "a b", "a\0b", "\ud800", "'"),
    *("__class__", "__init__", "__slots__", "_fields", "__pydantic_extra__", "_value_", "mro"),
    *("__pydantic_fields_set__", "_missing_", "__hash__", "__del__", "x" * 1000, [], {}, [[]]),
    *(["a"], ["a", "int"], [["a", "int"]], {"a": 1}, ["opaque"], ["list", 1], ["dict", ["a", 1]]),
    *(["record", "Part", {}], ["enum", "Color", "red"], ["enum name", "Color", "RED"]),
    *(["decimal", "1"], ["int", "ff"], ["array", "<i4", [2], "AAAA"], ["set", [[]]], ["counter"]),
    *("dict[str, int]", "dict[list[int], str]", "set[Part]", "list[Part, Part]", "Part | Color"),
    *("Color", "Right", "Node", "Any", "tuple[...]", "Literal['a', 1]", "list[" * 99 + "]" * 99),
    *("raise SystemExit", "__import__('os')._exit(1)", "exit()", "Flag", "Enum", "dict", "struct"),
]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Give the path of everything in a plain form."""
    if path:
        yield path
    if type(value) in (dict, list):
        for key, item in value.items() if type(value) is dict else enumerate(value):
            yield from places(item, (*path, key))


def at(value: Any, path: tuple[Any, ...]) -> Any:
    """Return what is at a path."""
    for key in path:
        value = value[key]
    return value


def spoilt(value: Any, random: Random) -> Any:
    """Return a plain form with something replaced, taken away, repeated, renamed or moved."""
    value = copy.deepcopy(value)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        path = random.choice([*places(value)])
        holder, key = at(value, path[:-1]), path[-1]
        match random.choice(["replace", "take", "repeat", "rename", "move"]):
            case "take":
                del holder[key]
            case "repeat" if type(holder) is list:
                holder.insert(key, copy.deepcopy(random.choice(holder)))
            case "rename" if type(holder) is dict:
                holder[str(random.choice(JUNK))] = holder.pop(key)
            case "move":
                holder[key] = copy.deepcopy(at(value, random.choice([*places(value)])))
            case _:
                holder[key] = copy.deepcopy(random.choice(JUNK))
        if not value:
            return value
    return value


def damaged(data: bytes, random: Random) -> bytes:
    """Return bytes with three of them changed."""
    changed = bytearray(data)
    for _ in range(3):
        changed[random.randrange(len(changed))] = random.randrange(256)
    return bytes(changed)


@pytest.mark.parametrize("spec", SPECS)
@given(random=st.randoms(use_true_random=False))
@SOME
def test_records_of_hostile_files(spec: str, random: Random) -> None:
    """Making decoders, decoding, and what else is done with a record gives errors of memdb."""
    judge(spec, random)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("spec", SPECS)
@given(random=st.randoms(use_true_random=False))
@THOROUGH
def test_many_records_of_hostile_files(spec: str, random: Random) -> None:
    """The same for hundreds of them."""
    judge(spec, random)


def judge(spec: str, random: Random) -> None:
    """Use a schema and a payload, one of them or both spoilt, for all that they are used for."""
    serializer: Any = get_serializer(spec)
    schema = writer_schema(shape_of(Record), serializer, version=2, tag="t")
    exact = serializer.exact_plain(serializer.codec(shape_of(Record)).encode(RECORD))
    data = serializer.codec(shape_of(Record)).encode(RECORD)
    if random.random() < 0.7:
        schema = spoilt(schema, random)
    if random.random() < 0.6:
        with contextlib.suppress(EncodeError):
            data = serializer.exact_bytes(spoilt(exact, random))
    if random.random() < 0.2:
        data = damaged(data, random)
    shape, evolution = random.choice(SHAPES), random.choice(EVOLUTIONS)

    with contextlib.suppress(DecodeError):
        record = make_decoder(serializer, shape, schema, evolution)(data, 7)
        assert type(record) is shape.cls
    with contextlib.suppress(DecodeError):
        codec = serializer.codec(shape_of(None), schema)
        assert type(codec.decode(data, 7)) is dict
    with contextlib.suppress(DecodeError):
        is_current(writer_schema(shape_of(Record), serializer), schema)
        enum_values(schema)
    with contextlib.suppress(DecodeError, EncodeError):
        unknown = unknown_fields(serializer, shape_of(Record), schema, evolution)
        kept = None if unknown is None else unknown.of(data)
        if unknown is not None and kept is not None:
            unknown.encode(RECORD, kept)
