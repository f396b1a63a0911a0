"""What annotations say of the values that an index would have as keys.

True and False are certain, as far as values are as annotated; None means that it depends on the
value. Whether values are as annotated is known where a serializer proves it, record by record: its
fast tier takes no other ones. `is_proven` says for which annotations that is so.
"""

from __future__ import annotations

import datetime
import enum
import fractions
import inspect
import pathlib
from collections.abc import Collection, Mapping, Set
from decimal import Decimal
from types import NoneType
from typing import Any, Final, Literal, get_args, get_origin
from uuid import UUID

import msgspec

from memdb.errors import RecordTypeError
from memdb.query._paths import members_of
from memdb.serializers import Shape, shape_of
from memdb.serializers._exact import is_valid_text
from memdb.serializers._shape import IMMUTABLE, is_union, kind_of, strip, type_text

# Not Decimal: a signaling NaN has no hash.
_HASHABLE: Final = (IMMUTABLE - {Decimal}) | {
    *(fractions.Fraction, range, frozenset, pathlib.Path, pathlib.PurePath),
    *(pathlib.PosixPath, pathlib.PurePosixPath, pathlib.WindowsPath, pathlib.PureWindowsPath),
}

#: A part of one of these is no element: `in` finds more in them than iterating gives.
NO_COLLECTIONS: Final = (str, bytes, bytearray, memoryview, enum.Enum)

# Those whose values a serializer's fast tier takes by their exact type.
_PROVEN: Final = frozenset({str, int, float, bool, bytes, bytearray, Decimal, UUID, NoneType}) | {
    *(datetime.date, datetime.datetime, datetime.time, datetime.timedelta),
}
_PROVEN_TOGETHER: Final = frozenset({int, float, str, bool})
_PROVEN_ELEMENTS: Final = frozenset({str, int, datetime.date, UUID})
_INT_RANGE: Final = range(-(2**63), 2**63)

# The serializers follow annotations for some levels only.
_DEEPEST: Final = 6


def members_at(path: tuple[str | int, ...], shape: Shape) -> list[Any]:
    """Return what the value at a path may be besides None; Any where nothing is known.

    Args:
        path: One that `memdb.query._paths.resolve_path` accepts.
        shape: That of the records.
    """
    members = _values_of(_annotation_of(path[0], shape))
    for name in path[1:]:
        members = [
            value for member in members for value in _values_of(_annotation_inside(member, name))
        ]
    return members


def _values_of(annotation: Any) -> list[Any]:
    return [member for member in members_of(annotation) if member is not NoneType]


def _annotation_of(name: str | int, shape: Shape) -> Any:
    return next((field.annotation for field in shape.fields if field.name == name), Any)


def _annotation_inside(member: Any, name: str | int) -> Any:
    """Return the annotation of what `name` leads to in a value of an annotation."""
    try:
        return _annotation_of(name, shape_of(member))
    except RecordTypeError:
        arguments = get_args(member)
        cls = get_origin(member) or member
        is_mapping = isinstance(cls, type) and issubclass(cls, Mapping)
        return arguments[1] if is_mapping and len(arguments) == 2 else Any


def text_of(members: list[Any]) -> str:
    """Return the members of a union as a message has them."""
    return " | ".join(dict.fromkeys(map(type_text, members))) or "None"


# -- what can be a key


def are_hashable(members: list[Any]) -> bool | None:
    """Whether values of these annotations have a hash; False if those of none have."""
    return _joined([_has_hash(member) for member in members])


def are_collections(members: list[Any]) -> bool | None:
    """Whether values of these annotations are collections of elements."""
    return _joined([_has_elements(member) for member in members])


def have_hashable_elements(members: list[Any]) -> bool | None:
    """Whether the elements of what is annotated as collections have a hash."""
    return _joined([_has_hashable_elements(member) for member in members])


def are_columnar(members: list[Any]) -> bool:
    """Whether values of these annotations can stand in one column of numbers, dates or times."""
    families = {_family(member) for member in members} - {"unknown"}
    return len(families) <= 1 and "" not in families


def _joined(answers: list[bool | None]) -> bool | None:
    """Return what is true of each of some annotations, None where they differ."""
    if all(answers):
        return True
    return False if all(answer is False for answer in answers) else None


def _of_parts(arguments: tuple[Any, ...]) -> bool | None:
    """Whether a tuple of these annotations has a hash: all of its parts must."""
    parts = [are_hashable(members_of(part)) for part in arguments if part is not Ellipsis]
    if False in parts:
        return False
    return True if parts and all(parts) else None


def _has_hash(member: Any) -> bool | None:
    cls = get_origin(member) or member
    if not _is_known(cls):
        return None
    if cls in _HASHABLE:
        return True
    if cls is tuple:
        return _of_parts(get_args(member))
    if inspect.isabstract(cls):
        return None
    if issubclass(cls, enum.Enum):
        return cls.__hash__ is not None
    if issubclass(cls, msgspec.Struct):
        config = cls.__struct_config__
        is_own = cls.__hash__ is not msgspec.Struct.__hash__
        return None if is_own or config.frozen or not config.eq else False
    return False if cls.__hash__ is None else None


def _has_elements(member: Any) -> bool | None:
    cls = get_origin(member) or member
    if not _is_known(cls):
        return None
    if issubclass(cls, NO_COLLECTIONS):
        return False
    if issubclass(cls, Collection):
        return True
    # An Iterable, say, may be one; so may be a value of a protocol.
    return None if inspect.isabstract(cls) else False


def _has_hashable_elements(member: Any) -> bool | None:
    cls = get_origin(member) or member
    if not _is_known(cls) or not issubclass(cls, Collection):
        return None
    if issubclass(cls, Mapping | Set | range):
        return True
    arguments = get_args(member)
    return _of_parts(arguments if cls is tuple else arguments[:1])


def _family(member: Any) -> str:
    """Return which values can share a column with those of an annotation; "" if they are none."""
    cls = get_origin(member) or member
    if not _is_known(cls):
        return "unknown"
    families = {
        (int, float): "number",
        (datetime.datetime,): "datetime",
        (datetime.date,): "date",
    }
    return next((name for classes, name in families.items() if issubclass(cls, classes)), "")


def _is_known(cls: Any) -> bool:
    """Whether an annotation is a class that says something of its values."""
    return isinstance(cls, type) and cls not in (Any, object)


# -- what is proven


def is_proven(path: tuple[str | int, ...], shape: Shape) -> bool:
    """Whether a record that the fast tier of a serializer takes has at a path what is annotated.

    May say no where it could say yes, never the other way round: see `serializers._plan`.
    """
    if shape.kind == "dict" or len(path) > _DEEPEST:
        return False
    annotation, seen = _annotation_of(path[0], shape), [shape.cls]
    for name in path[1:]:
        members = _values_of(annotation)
        # Of a class within itself the serializers check less.
        if len(members) != 1 or kind_of(members[0]) is None or members[0] in seen:
            return False
        seen.append(members[0])
        annotation = _annotation_inside(members[0], name)
    return _is_proven(annotation, _DEEPEST - len(path))


def _is_proven(annotation: Any, levels: int) -> bool:
    annotation = strip(annotation)
    if annotation is None or (isinstance(annotation, type) and annotation in _PROVEN):
        return True
    origin, arguments = get_origin(annotation), get_args(annotation)
    if is_union(annotation):
        others = [strip(argument) for argument in arguments if strip(argument) is not NoneType]
        return (
            _is_proven(others[0], levels)
            if len(others) == 1
            else _are_among(others, _PROVEN_TOGETHER)
        )
    if origin is Literal:
        return {type(value) for value in arguments} <= {str, int, NoneType}
    if levels <= 0 or not arguments:
        return _is_proven_enum(annotation)
    if origin in (list, tuple):
        return all([_is_proven(part, levels - 1) for part in arguments if part is not Ellipsis])
    # Of a dict the keys count.
    allowed = {dict: frozenset({str}), set: _PROVEN_ELEMENTS, frozenset: _PROVEN_ELEMENTS}
    return origin in allowed and _are_among([strip(arguments[0])], allowed[origin])


def _is_proven_enum(cls: Any) -> bool:
    if not isinstance(cls, type) or not issubclass(cls, enum.Enum) or not cls.__members__:
        return False
    values = [member.value for member in cls]
    return all([type(value) is int and value in _INT_RANGE for value in values]) or all(
        [type(value) is str and is_valid_text(value) for value in values]
    )


def _are_among(annotations: list[Any], allowed: frozenset[type]) -> bool:
    return all([isinstance(each, type) and each in allowed for each in annotations])
