"""Write a record with one form of a class and read it with another, in either tier."""

from __future__ import annotations

from typing import Any

from memdb.serializers import Evolution, get_serializer, make_decoder, shape_of, writer_schema
from memdb.serializers._exact import ExactTier
from memdb.serializers._generate import GeneratedSerializer

#: Each serializer, and the tier that payloads are written in.
WAYS = [
    *((spec, tier) for spec in ("binary", "json", "msgpack") for tier in ("fast", "exact")),
    ("pickle", "only"),
]


def schema_of(spec: str, cls: Any, **more: Any) -> dict[str, Any]:
    """Return the writer schema of a class."""
    return writer_schema(shape_of(cls), get_serializer(spec), **more)


def encode(spec: str, tier: str, record: Any, cls: Any = None) -> bytes:
    """Return a payload of a record in a tier, which it must be possible to write it in."""
    serializer = get_serializer(spec)
    shape = shape_of(cls or type(record))
    if not isinstance(serializer, GeneratedSerializer):
        return serializer.codec(shape).encode(record)
    if tier == "exact":
        tier_of = ExactTier(shape)
        if shape.cls is dict:
            return serializer.exact_bytes(tier_of.to_plain(record))
        return serializer.exact_bytes(tier_of.fields_to_plain(record))
    data = serializer.codec(shape).encode(record)
    assert serializer.exact_plain(data) is None, "the record is not of the fast tier"
    return data


def evolve(
    way: tuple[str, str],
    record: Any,
    cls: Any,
    *,
    old: Any = None,
    schema: dict[str, Any] | None = None,
    written: int = 1,
    tag: str | None = None,
    identity: int = 7,
    **evolution: Any,
) -> Any:
    """Return a record, written by its own class, as one of another class.

    Args:
        way: Serializer and tier.
        record: What is written.
        cls: What it is read as.
        old: The class that it is written with, if that is not its type.
        schema: What the file says of the writer, if that is not the truth.
        written: The version of the writer.
        tag: Its tag.
        identity: The record's.
        evolution: What the reading program declares.
    """
    spec, tier = way
    data = encode(spec, tier, record, old)
    if schema is None:
        schema = schema_of(spec, old or type(record), version=written, tag=tag)
    declared = Evolution(**evolution)
    declared.validate(shape_of(cls))
    decode = make_decoder(get_serializer(spec), shape_of(cls), schema, declared)
    return decode(data, identity)
