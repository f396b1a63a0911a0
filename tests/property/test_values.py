"""Any supported value, in a field of any annotation, comes back equal in value and type."""

import dataclasses
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memdb.errors import DecodeError
from memdb.serializers import Codec, get_serializer, shape_of
from tests.support.exact import assert_exact
from tests.support.strategies import (
    anything,
    hashable_values,
    record_classes,
    records_of,
    type_annotations,
    values_of,
)

NAMES = ("binary", "msgpack", "json")
ANNOTATIONS = type_annotations(with_numpy=True)
ANYTHING = anything()


def codec_of(name: str, annotation: Any) -> tuple[type, Codec]:
    """Return a class with one field of an annotation and its codec."""
    cls = dataclasses.make_dataclass("One", [("value", annotation), ("id", int, 0)])
    return cls, get_serializer(name).codec(shape_of(cls))


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
@settings(max_examples=100)
def test_values_of_the_annotation(name: str, data: st.DataObject) -> None:
    """A value that fits its annotation comes back exactly."""
    annotation = data.draw(ANNOTATIONS)
    cls, codec = codec_of(name, annotation)
    for _ in range(3):
        record = cls(data.draw(values_of(annotation)), 7)

        assert_exact(codec.decode(codec.encode(record), 7), record)


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
@settings(max_examples=100)
def test_values_of_another_annotation(name: str, data: st.DataObject) -> None:
    """A value that does not fit its annotation comes back exactly too."""
    cls, codec = codec_of(name, data.draw(ANNOTATIONS))
    for _ in range(3):
        record = cls(data.draw(ANYTHING), 7)

        assert_exact(codec.decode(codec.encode(record), 7), record)


@pytest.mark.parametrize("name", NAMES)
@given(value=ANYTHING)
@settings(max_examples=100)
def test_values_of_dicts(name: str, value: Any) -> None:
    """What a plain dict holds comes back exactly."""
    codec = get_serializer(name).codec(shape_of(None))
    record = {"value": value, "id": 7}

    assert_exact(codec.decode(codec.encode(record), 7), record)


@pytest.mark.parametrize("name", NAMES)
@given(key=hashable_values(), value=ANYTHING)
@settings(max_examples=60)
def test_keys_of_dicts(name: str, key: Any, value: Any) -> None:
    """Whatever can be a key comes back as that key, in a plain dict and inside one."""
    codec = get_serializer(name).codec(shape_of(None))
    record = {"value": {key: value}, key: value}
    record.pop("id", None)
    record["id"] = 7

    assert_exact(codec.decode(codec.encode(record), 7), record)


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
@settings(max_examples=60)
def test_records_of_any_class(name: str, data: st.DataObject) -> None:
    """A record of a class of any kind, with fields of any annotation, comes back exactly."""
    cls = data.draw(record_classes(has_identity=False, max_fields=3))
    codec = get_serializer(name).codec(shape_of(cls))
    record = data.draw(records_of(cls))

    assert_exact(codec.decode(codec.encode(record), 7), record)


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
@settings(max_examples=60)
def test_damaged_payloads(name: str, data: st.DataObject) -> None:
    """A changed payload gives a DecodeError or a record of the class, and nothing else."""
    annotation = data.draw(ANNOTATIONS)
    cls, codec = codec_of(name, annotation)
    payload = bytearray(codec.encode(cls(data.draw(values_of(annotation)))))
    for place in data.draw(st.lists(st.integers(0, len(payload) - 1), min_size=1, max_size=3)):
        payload[place] = data.draw(st.integers(0, 255))
    try:
        record = codec.decode(bytes(payload), 7)
    except DecodeError:
        return

    assert type(record) is cls
