"""Writer schema: what a file remembers of the class that its payloads were written with."""

from __future__ import annotations

import ast
import datetime
import decimal
import uuid
from collections.abc import Mapping
from typing import Any, Union

from memdb.serializers._protocol import Serializer
from memdb.serializers._shape import FieldShape, Shape, type_text


def writer_schema(shape: Shape, serializer: Serializer) -> dict[str, Any]:
    """Return what decoding needs to know of the class as it is now, as JSON can hold it.

    Two classes with equal schemas write the same payloads. Fields are those of the payload: the
    identity is in the pointer.

    >>> from memdb.serializers import get_serializer, shape_of
    >>> writer_schema(shape_of(None), get_serializer("json"))
    {'serializer': 'json', 'class': 'dict', 'kind': 'dict', 'fields': []}
    """
    return {
        "serializer": serializer.name,
        "class": shape.name,
        "kind": shape.kind,
        "fields": [[field.name, type_text(field.annotation)] for field in shape.payload_fields],
    }


def shape_of_writer(writer: Mapping[str, Any]) -> Shape:
    """Return a shape that gives the records of a typed collection back as dicts."""
    fields = tuple(FieldShape(name, parse_type(text)) for name, text in writer["fields"])
    return Shape(dict, str(writer["class"]), "dict", fields, "id", False, False)


def parse_type(text: str) -> Any:
    """Return the annotation of a type text; ``Any`` for what is no builtin or standard type.

    >>> parse_type("dict[str, Decimal]")
    dict[str, decimal.Decimal]
    >>> parse_type("Address")
    typing.Any
    """
    try:
        return _annotation(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, TypeError, KeyError):
        return Any


_NAMES: dict[str, Any] = {
    cls.__name__: cls
    for cls in (
        *(bool, int, float, str, bytes, bytearray, list, tuple, set, frozenset, dict),
        *(datetime.date, datetime.time, datetime.datetime, datetime.timedelta),
        *(decimal.Decimal, uuid.UUID),
    )
}


def _annotation(node: ast.expr) -> Any:
    """Look the names of a type expression up in a fixed table; nothing is evaluated."""
    match node:
        case ast.Constant(value=None):
            return type(None)
        case ast.Constant(value=value) if value is Ellipsis:
            return Ellipsis
        case ast.Name(id=name):
            return _NAMES.get(name, Any)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return Union[_annotation(left), _annotation(right)]  # noqa: UP007
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Tuple(elts=elements)):
            return _NAMES[name][tuple(_annotation(element) for element in elements)]
        case ast.Subscript(value=ast.Name(id=name), slice=element):
            return _NAMES[name][_annotation(element)]
    raise ValueError(ast.dump(node))
