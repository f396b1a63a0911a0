"""Compare: whether what one form of a class has written is what another one would write."""

from __future__ import annotations

import enum
import typing
from collections.abc import Mapping
from typing import Any

from memdb.serializers._enums import is_by_name
from memdb.serializers._plan import mentions_any
from memdb.serializers._shape import Shape, is_union
from memdb.serializers._writer import WorldRecord, understanding


def is_current(schema: Mapping[str, Any], writer: Mapping[str, Any]) -> bool:
    """Return whether records of a writer are as they would be written now.

    Args:
        schema: The writer schema of the class of now.
        writer: The one that the records were written with. If it is of a file that knows nothing of
            nested classes, they are taken to be the same.

    Raises:
        DecodeError: The schema of the writer is none.
    """
    with understanding(writer):
        return (
            all(schema.get(key) == writer.get(key) for key in ("serializer", "tag"))
            and is_same_form(schema, writer)
            and schema.get("version", 1) == writer.get("version", 1)
            and schema["fields"] == writer["fields"]
        )


def is_same_form(schema: Mapping[str, Any], writer: Mapping[str, Any]) -> bool:
    """Whether two schemas say the same of the fields, whatever their order."""
    if (schema["kind"] == "dict") != (writer["kind"] == "dict"):
        return False
    if dict(schema["fields"]) != dict(writer["fields"]):
        return False
    if "records" not in writer and "enums" not in writer:
        return True
    return all(schema.get(key, {}) == writer.get(key, {}) for key in ("records", "enums"))


def is_fast(theirs: Shape, ours: Shape, renames: Mapping[str, str]) -> bool:
    """Whether the generated decoder reads all that a writer may have packed without names.

    Args:
        theirs: The world of the writer.
        ours: The world of the class of now, so that both come from texts.
        renames: The field names that have changed.
    """
    annotations = {field.name: field.annotation for field in ours.fields}
    for one in theirs.fields:
        name = renames.get(one.name, one.name)
        if name not in annotations:
            continue
        now = annotations[name]
        if is_union(now) and not is_union(one.annotation):
            others = [part for part in typing.get_args(now) if part is not type(None)]
            now = others[0] if len(others) == 1 else now
        if not (_is_like(one.annotation, now, {}) or _says_more(one.annotation, now)):
            return False
    return True


def _is_like(theirs: Any, ours: Any, seen: dict[tuple[Any, Any], bool]) -> bool:
    """Whether two annotations of two worlds lead to the same bytes."""
    if theirs is ours or theirs == ours:
        return True
    if (theirs, ours) in seen:
        return True
    if typing.get_args(theirs) or typing.get_args(ours):
        parts, other_parts = typing.get_args(theirs), typing.get_args(ours)
        return (
            (typing.get_origin(theirs) == typing.get_origin(ours) or is_union(theirs))
            and is_union(theirs) == is_union(ours)
            and len(parts) == len(other_parts)
            and all(_is_like(a, b, seen) for a, b in zip(parts, other_parts, strict=True))
        )
    if not isinstance(theirs, type) or not isinstance(ours, type):
        return False
    if issubclass(theirs, enum.Enum) and issubclass(ours, enum.Enum):
        return _packing(theirs) == _packing(ours)
    if not (issubclass(theirs, WorldRecord) and issubclass(ours, WorldRecord)):
        return False
    seen[theirs, ours] = True
    now = ours.__annotations__
    return all(
        _is_like(annotation, now[name], seen)
        for name, annotation in theirs.__annotations__.items()
        if name in now
    )


def _says_more(theirs: Any, ours: Any) -> bool:
    """Whether the writer's type stands in for what the annotation of now leaves open."""
    if mentions_any(theirs) or has_classes(theirs):
        return False
    if ours is Any:
        return True
    if theirs == ours:
        return True
    origin = typing.get_origin(theirs)
    parts, other_parts = typing.get_args(theirs), typing.get_args(ours)
    if origin is None or is_union(theirs) or origin is not (typing.get_origin(ours) or ours):
        return False
    return not other_parts or (
        len(parts) == len(other_parts)
        and all(_says_more(a, b) for a, b in zip(parts, other_parts, strict=True))
    )


def has_classes(annotation: Any) -> bool:
    """Whether an annotation of a writer's world names a record or Enum class."""
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum | WorldRecord):
        return True
    return any(has_classes(part) for part in typing.get_args(annotation))


def _packing(cls: type[enum.Enum]) -> object:
    """Return what tells apart the ways in which an Enum class may be packed."""
    types = {type(member.value) for member in cls}
    return issubclass(cls, enum.Flag), is_by_name(cls), types if len(types) == 1 else None
