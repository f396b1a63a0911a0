"""Little stack left, and data that is nested deeper than any stack: two things."""

import enum
import sys
from collections.abc import Callable
from dataclasses import dataclass, make_dataclass
from typing import Any

import pytest

from memdb.errors import DecodeError, MemdbError
from memdb.serializers import Evolution, get_serializer, make_decoder, shape_of, unknown_fields
from tests.support.evolving import encode, schema_of
from tests.support.exact import assert_exact


class Kind(enum.Enum):
    ODD = (1, 2)


@dataclass
class Inner:
    a: Any


@dataclass
class Deep:
    v: Any
    inner: Inner
    kind: Kind = Kind.ODD
    id: int = 0


def used_up(leave: int, function: Callable[[], Any]) -> Any:
    """Return what a function gives that is called with so many frames left."""
    frame, depth = sys._getframe(), 0
    while frame is not None:
        frame, depth = frame.f_back, depth + 1  # type: ignore[assignment]

    def called(more: int) -> Any:
        return called(more - 1) if more > 0 else function()

    return called(sys.getrecursionlimit() - depth - leave)


def outcomes(function: Callable[[], Any]) -> list[Any]:
    """Return all that a function gives as the stack runs out; RecursionErrors are left out."""
    found = []
    for leave in range(1, 90):
        try:
            found.append(used_up(leave, function))
        except RecursionError:
            continue
    assert 0 < len(found) < 89, "no frame was missing, or all were"
    return found


VALUE = (1, [(2, {3: (4,)})], {"k": ((5,),)})


@pytest.mark.parametrize("spec", ["binary", "json", "msgpack", "pickle"])
def test_the_stack_of_the_caller_is_not_in_the_data(spec: str) -> None:
    """Near the end of the stack there is a RecursionError, or all is as usual."""
    record = Deep(VALUE, Inner(VALUE), id=7)
    serializer, shape = get_serializer(spec), shape_of(Deep)
    codec, schema = serializer.codec(shape), schema_of(spec, Deep)
    data = codec.encode(record)
    older = make_dataclass("Deep", [("v", Any), ("id", int, 0)])
    unknown = unknown_fields(serializer, shape_of(older), schema, Evolution())
    assert unknown is not None
    upgrade = Evolution(version=2, upgrades={2: lambda record: {**record, "more": 1}})

    assert {data} == {*outcomes(lambda: codec.encode(record))}
    for read in (
        lambda: codec.decode(data, 7),
        lambda: make_decoder(serializer, shape, schema, Evolution())(data, 7),
        lambda: make_decoder(serializer, shape, schema, upgrade)(data, 7),
    ):
        for found in outcomes(read):
            assert_exact(found, record)
    expected = unknown.of(data)
    assert all(found == expected for found in outcomes(lambda: unknown.of(data)))
    if spec != "pickle":
        plain = serializer.codec(shape_of(None), schema)
        expected = plain.decode(data, 7)
        for found in outcomes(lambda: serializer.codec(shape_of(None), schema).decode(data, 7)):
            assert_exact(found, expected)


@pytest.mark.parametrize("cls", [Deep, None])
def test_bytes_that_are_nested_deeper_than_any_stack(cls: Any) -> None:
    """What no program has written is a DecodeError."""
    deep = b"\x91" * 100_000
    payloads = {
        "binary": [b"\xc1" + deep, deep, b"\xc1\x81\xa1v" + deep, b"\x81\xa1v" + deep],
        "msgpack": [b"\xc1\x82\xa1v" + deep, b"\x82\xa1v" + deep],
        "json": [b"[" * 100_000, b'["exact",{"v":' + b"[" * 100_000, b'{"v":' + b"[" * 100_000],
    }
    for spec, data in payloads.items():
        codec = get_serializer(spec).codec(shape_of(cls))
        for payload in data:
            with pytest.raises(DecodeError):
                codec.decode(payload, 1)


@pytest.mark.parametrize("spec", ["binary", "json", "msgpack", "pickle"])
def test_values_that_are_nested_deeper_than_any_stack(spec: str) -> None:
    """They are refused, whatever the serializer."""
    value: Any = 1
    for _ in range(100_000):
        value = [value]
    codec = get_serializer(spec).codec(shape_of(Deep))

    with pytest.raises(MemdbError):
        codec.encode(Deep(value, Inner(1)))
    # Taken apart in a loop, as not every Python frees it without using the stack.
    while type(value) is list:
        value = value.pop()


def test_a_type_is_no_other_near_the_end_of_the_stack() -> None:
    """A class is never seen without what its annotations say."""
    cls = make_dataclass("Typed", [("a", "int"), ("b", "list[Inner]")])
    cls.__module__ = __name__
    expected = [field.annotation for field in shape_of(cls).fields]
    found = outcomes(lambda: [field.annotation for field in shape_of(cls).fields])

    assert all(one == expected for one in found)
    schema = schema_of("json", Deep)
    data = encode("json", "exact", Deep(1, Inner(2)))
    for record in outcomes(
        lambda: get_serializer("json").codec(shape_of(None), schema).decode(data, 7)
    ):
        assert_exact(record, {"v": 1, "inner": {"a": 2}, "kind": (1, 2), "id": 7})
