"""Any supported value, in a field of any annotation, comes back equal in value and type."""

import dataclasses
import datetime as dt
import enum
import zoneinfo
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from ipaddress import IPv4Address, IPv6Address
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memdb.errors import DecodeError
from memdb.serializers import Codec, get_serializer, shape_of
from tests.support.exact import assert_exact

NAMES = ("binary", "msgpack", "json")
ZONES = [zoneinfo.ZoneInfo(key) for key in ("Europe/Paris", "America/New_York", "UTC")]


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclasses.dataclass
class Address:
    city: str
    lines: list[str]
    since: dt.date | None = None


class Inner(msgspec.Struct):
    size: float
    color: Color = Color.RED


any_text = st.text(st.characters(exclude_categories=()), max_size=8)
zones = st.one_of(
    st.none(),
    st.just(dt.UTC),
    st.sampled_from(ZONES),
    st.builds(
        dt.timezone,
        st.timedeltas(dt.timedelta(hours=-23), dt.timedelta(hours=23)),
    ),
    st.builds(dt.timezone, st.timedeltas(dt.timedelta(0), dt.timedelta(hours=2)), any_text),
)
moments = st.builds(
    lambda moment, zone, fold: moment.replace(tzinfo=zone, fold=fold),
    st.datetimes(),
    zones,
    st.sampled_from([0, 0, 0, 1]),
)
clocks = st.builds(
    lambda clock, zone, fold: clock.replace(tzinfo=zone, fold=fold),
    st.times(),
    zones,
    st.sampled_from([0, 0, 0, 1]),
)
addresses = st.builds(Address, any_text, st.lists(any_text, max_size=2), st.none() | st.dates())
inners = st.builds(Inner, st.floats(), st.sampled_from(Color))

#: For each annotation the values that it promises.
BY_ANNOTATION: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(),
    float: st.floats() | st.integers(),
    bool: st.booleans(),
    str: any_text,
    bytes: st.binary(max_size=8),
    bytearray: st.binary(max_size=8).map(bytearray),
    dt.date: st.dates(),
    dt.time: clocks,
    dt.datetime: moments,
    dt.timedelta: st.timedeltas(),
    Decimal: st.decimals(),
    UUID: st.uuids(),
    Color: st.sampled_from(Color),
    Level: st.sampled_from(Level),
    Address: addresses,
    Inner: inners,
    Fraction: st.fractions(),
    complex: st.complex_numbers(),
    IPv4Address: st.ip_addresses(v=4),
    IPv6Address: st.ip_addresses(v=6),
    PurePosixPath: any_text.map(lambda text: PurePosixPath(text.replace("\x00", ""))),
}
hashable = st.one_of(
    *(
        strategy
        for annotation, strategy in BY_ANNOTATION.items()
        if annotation not in (bytearray, Address, Inner)
    )
).filter(lambda value: not (isinstance(value, Decimal) and value.is_snan()))
anything = st.recursive(
    st.none() | st.one_of(*BY_ANNOTATION.values()),
    lambda children: st.one_of(
        st.lists(children, max_size=3),
        st.lists(children, max_size=3).map(tuple),
        st.dictionaries(any_text, children, max_size=3),
        st.dictionaries(hashable, children, max_size=3),
        st.sets(hashable, max_size=3),
        st.frozensets(hashable, max_size=3),
    ),
    max_leaves=8,
)

SCALARS: list[Any] = list(BY_ANNOTATION)
KEYS: list[Any] = [str, int, dt.date, UUID, bytes, Color, dt.datetime]


def _annotated(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return annotations that contain others."""
    return st.one_of(
        inner.map(lambda a: list[a]),
        inner.map(lambda a: tuple[a, ...]),
        st.tuples(inner, inner).map(lambda pair: tuple[pair]),
        st.tuples(st.sampled_from(KEYS), inner).map(lambda pair: dict[pair]),
        st.sampled_from(KEYS).map(lambda a: set[a]),
        st.sampled_from(KEYS).map(lambda a: frozenset[a]),
        inner.map(lambda a: a | None),
        st.tuples(inner, inner).map(lambda pair: pair[0] | pair[1]),
    )


annotations = st.recursive(st.sampled_from(SCALARS), _annotated, max_leaves=3)


def values_of(annotation: Any) -> st.SearchStrategy[Any]:
    """Return the values that an annotation promises."""
    if annotation in (None, type(None)):
        return st.none()
    if annotation in BY_ANNOTATION:
        return BY_ANNOTATION[annotation]
    origin, arguments = getattr(annotation, "__origin__", None), annotation.__args__
    if origin is None:
        return st.one_of(*map(values_of, arguments))
    makers: dict[Any, Callable[[], st.SearchStrategy[Any]]] = {
        list: lambda: st.lists(values_of(arguments[0]), max_size=3),
        set: lambda: st.sets(values_of(arguments[0]), max_size=3),
        frozenset: lambda: st.frozensets(values_of(arguments[0]), max_size=3),
        dict: lambda: st.dictionaries(*map(values_of, arguments), max_size=3),
        tuple: lambda: (
            st.lists(values_of(arguments[0]), max_size=3).map(tuple)
            if arguments[1] is Ellipsis
            else st.tuples(*map(values_of, arguments))
        ),
    }
    return makers[origin]()


def codec_of(name: str, annotation: Any) -> tuple[type, Codec]:
    """Return a class with one field of an annotation and its codec."""
    cls = dataclasses.make_dataclass("One", [("value", annotation), ("id", int, 0)])
    return cls, get_serializer(name).codec(shape_of(cls))


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
@settings(max_examples=100, deadline=None, derandomize=True)
def test_values_of_the_annotation(name: str, data: st.DataObject) -> None:
    """A value that fits its annotation comes back exactly."""
    annotation = data.draw(annotations)
    cls, codec = codec_of(name, annotation)
    for _ in range(3):
        record = cls(data.draw(values_of(annotation)), 7)

        assert_exact(codec.decode(codec.encode(record), 7), record)


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
@settings(max_examples=100, deadline=None, derandomize=True)
def test_values_of_another_annotation(name: str, data: st.DataObject) -> None:
    """A value that does not fit its annotation comes back exactly too."""
    cls, codec = codec_of(name, data.draw(annotations))
    for _ in range(3):
        # Classes are named by annotations only, so that others can't come back.
        record = cls(data.draw(anything.filter(lambda value: not _names_a_class(value))), 7)

        assert_exact(codec.decode(codec.encode(record), 7), record)


@pytest.mark.parametrize("name", NAMES)
@given(value=anything)
@settings(max_examples=100, deadline=None, derandomize=True)
def test_values_of_dicts(name: str, value: Any) -> None:
    """What a plain dict holds comes back exactly."""
    if _names_a_class(value):
        return
    codec = get_serializer(name).codec(shape_of(None))
    record = {"value": value, "id": 7}

    assert_exact(codec.decode(codec.encode(record), 7), record)


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
@settings(max_examples=60, deadline=None, derandomize=True)
def test_damaged_payloads(name: str, data: st.DataObject) -> None:
    """A changed payload gives a DecodeError or a record of the class, and nothing else."""
    annotation = data.draw(annotations)
    cls, codec = codec_of(name, annotation)
    payload = bytearray(codec.encode(cls(data.draw(values_of(annotation)))))
    for place in data.draw(st.lists(st.integers(0, len(payload) - 1), min_size=1, max_size=3)):
        payload[place] = data.draw(st.integers(0, 255))
    try:
        record = codec.decode(bytes(payload), 7)
    except DecodeError:
        return

    assert type(record) is cls


def _names_a_class(value: Any) -> bool:
    """Whether a value is or holds a record or an Enum member."""
    if isinstance(value, Address | Inner | enum.Enum):
        return True
    if isinstance(value, dict):
        return any(map(_names_a_class, [*value, *value.values()]))
    if isinstance(value, list | tuple | set | frozenset):
        return any(map(_names_a_class, value))
    return False
