"""Serializers: records to bytes and back, equal in value and type.

>>> from dataclasses import dataclass
>>> from memdb.serializers import get_serializer, shape_of
>>> @dataclass
... class City:
...     name: str
...     tags: list[str]
...     id: int = 0
>>> codec = get_serializer("json").codec(shape_of(City))
>>> data = codec.encode(City("Paris", ["river"]))
>>> data
b'{"name":"Paris","tags":["river"]}'
>>> codec.decode(data, 7)
City(name='Paris', tags=['river'], id=7)
"""

from memdb.serializers._compare import is_current
from memdb.serializers._enums import by_name
from memdb.serializers._evolve import Evolution, make_decoder
from memdb.serializers._exact import MAX_DEPTH
from memdb.serializers._protocol import Codec, Serializer
from memdb.serializers._registry import get_serializer, is_harmless, register
from memdb.serializers._shape import MISSING, FieldShape, Kind, Shape, shape_of
from memdb.serializers._unknown import UnknownFields, unknown_fields
from memdb.serializers._writer import enum_values, writer_schema

__all__ = [
    "MAX_DEPTH",
    "MISSING",
    "Codec",
    "Evolution",
    "FieldShape",
    "Kind",
    "Serializer",
    "Shape",
    "UnknownFields",
    "by_name",
    "enum_values",
    "get_serializer",
    "is_current",
    "is_harmless",
    "make_decoder",
    "register",
    "shape_of",
    "unknown_fields",
    "writer_schema",
]
