"""Where a field path leads in a class, as far as its annotations tell.

The answer serves two ends: a name that can't be right is refused when the condition is compiled,
and the compiler knows where to expect a None or an absent key. Values may differ from their
annotations; what happens then is not decided here.
"""

from __future__ import annotations

import datetime
import difflib
import inspect
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from types import NoneType
from typing import Any, Final, Literal, NoReturn, get_args, get_origin
from uuid import UUID

from memdb.errors import QueryError, RecordTypeError
from memdb.query._functions import functions_of
from memdb.serializers import Shape, shape_of
from memdb.serializers._shape import is_union, strip

Way = Literal["attribute", "key", "item", "either", "function"]

# Classes whose values have the attributes of the class and no others that a condition could mean.
_CLOSED: Final = (
    bool, int, float, complex, str, bytes, bytearray, list, tuple, set, frozenset,
    datetime.date, datetime.time, datetime.timedelta, Decimal, Enum, UUID,
)  # fmt: skip

# An attribute of one of these names would be found in a dict too, where the key is meant.
_NAMES_IN_DICTS: Final = frozenset(dir(dict))


@dataclass(frozen=True, slots=True)
class Step:
    """Describe one step of a path.

    Attributes:
        name: The attribute or key, or the number of an element.
        way: How it is reached; "either" is decided by the value, and "function" is no field: the
            function of an index gives it.
        may_be_none: Whether None is to be expected where the step leads.
        members: What the annotation says of the value, `members_of` it; Any for unknown.
    """

    name: str | int
    way: Way
    may_be_none: bool
    members: tuple[Any, ...] = (Any,)


def resolve_path(path: tuple[str | int, ...], shape: Shape) -> list[Step]:
    """Return the steps of a path that starts at a record of `shape`.

    Raises:
        QueryError: A name does not exist in what the path has reached.
    """
    steps: list[Step] = []
    insides = [_inside_record(path[0], shape)]
    inner: list[Any] = [shape.cls]
    for position, name in enumerate(path):
        found = [inside for inside in insides if inside is not None]
        if not found:
            _refuse(path, position, inner if position else [], shape)
        ways = {way for way, _ in found}
        members = [member for _, annotation in found for member in members_of(annotation)]
        is_any = any(is_open(member) for member in members)
        way: Way = ways.pop() if len(ways) == 1 else "either"
        if way == "attribute" and position and name in _NAMES_IN_DICTS:
            way = "either"
        steps.append(Step(name, way, is_any or NoneType in members, tuple(members)))
        if position + 1 < len(path):
            inner = [member for member in members if member is not NoneType]
            insides = [_inside(member, path[position + 1]) for member in inner]
    return steps


def members_of(annotation: Any) -> list[Any]:
    """Return the members of a union, or the annotation alone; None as NoneType.

    What says nothing about the value besides its type (Annotated, NewType, aliases) is taken off.
    """
    annotation = strip(annotation)
    if is_union(annotation):
        return [member for part in get_args(annotation) for member in members_of(part)]
    if get_origin(annotation) is Literal:
        return [type(value) for value in get_args(annotation)]
    return [NoneType if annotation is None else annotation]


def _inside_record(name: str | int, shape: Shape) -> tuple[Way, Any] | None:
    """Return how a field of a record is reached and its annotation, None if there is no such."""
    if name in functions_of(shape):
        return "function", Any
    if shape.kind == "dict":
        return "key", Any
    for field in shape.fields:
        if field.name == name:
            # Of a union's classes, some may lack the field.
            return "either" if shape.kind == "union" else "attribute", field.annotation
    return None


def _inside(member: Any, name: str | int) -> tuple[Way, Any] | None:
    """Return how `name` is reached in a value of this annotation; None: it is not there."""
    cls = get_origin(member) or member
    if isinstance(name, int):
        return _element(member, cls, name)
    if not isinstance(cls, type):
        return "either", Any
    if issubclass(cls, Mapping) or typing.is_typeddict(cls):
        arguments = get_args(member)
        return "key", arguments[1] if len(arguments) == 2 else Any
    shape = _shape_or_none(cls)
    if shape is not None:
        return _inside_record(name, shape)
    if not issubclass(cls, _CLOSED):
        return "either", Any
    return ("attribute", Any) if name in _values_in(cls) else None


def _element(member: Any, cls: Any, index: int) -> tuple[Way, Any] | None:
    """Return how an element is reached in a value of this annotation; None: it has none."""
    if not isinstance(cls, type):
        return "either", Any
    arguments = get_args(member)
    if issubclass(cls, Mapping):
        return "key", arguments[1] if len(arguments) == 2 else Any
    if issubclass(cls, str):
        return "item", str
    if issubclass(cls, list):
        return "item", arguments[0] if arguments else Any
    if issubclass(cls, tuple):
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return "item", arguments[0]
        is_known = bool(arguments) and -len(arguments) <= index < len(arguments)
        return "item", arguments[index] if is_known else Any
    if issubclass(cls, (bytes, bytearray)):
        return "item", int
    if issubclass(cls, _CLOSED) or _shape_or_none(cls) is not None:
        return None
    return "either", Any


def is_open(member: Any) -> bool:
    """Whether the annotation says nothing certain about the value."""
    cls = get_origin(member) or member
    return not isinstance(cls, type) or cls is Any or cls is object


def _names_in(cls: type) -> list[str]:
    """Return what can be asked of the values of a class."""
    shape = _shape_or_none(cls)
    return _values_in(cls) if shape is None else [field.name for field in shape.fields]


def _values_in(cls: type) -> list[str]:
    """Return the public attributes of a class that are values, as `year` is of a date."""
    names = [
        name
        for name in dir(cls)
        if not name.startswith("_") and not callable(inspect.getattr_static(cls, name, None))
    ]
    if issubclass(cls, Enum):
        # Of a member, not of the class; and the members are no attributes of one another.
        return ["name", "value", *[name for name in names if name not in cls.__members__]]
    return names


def _shape_or_none(cls: type) -> Shape | None:
    """Return the shape of a record class, None for any other class."""
    try:
        return shape_of(cls)
    except RecordTypeError:
        return None


def path_text(path: tuple[str | int, ...]) -> str:
    """Return a path for a message."""
    return "F" + "".join([f".{name}" if isinstance(name, str) else f"[{name}]" for name in path])


def _refuse(
    path: tuple[str | int, ...], position: int, members: list[Any], shape: Shape
) -> NoReturn:
    """Raise for the name at `position`, which is in none of the members, with the nearest one."""
    name = path[position]
    # Only classes are closed, so that each member is one, or a generic form of one.
    classes: list[type] = [get_origin(member) or member for member in members]
    known = [other for cls in classes for other in _names_in(cls)]
    owners = " or ".join([cls.__name__ for cls in classes]) or "None"
    if isinstance(name, int):
        raise QueryError(
            f"{path_text(path)}: {owners} has no elements by number. Use .contains() to look for "
            "one in a set."
        )
    if not position:
        known = [*[field.name for field in shape.fields], *functions_of(shape)]
        owners = shape.name
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"Did you mean {close[0]!r}?" if close else f"It has {', '.join(known) or 'none'}."
    raise QueryError(f"{path_text(path)}: {owners} has no field {name!r}. {hint}")
