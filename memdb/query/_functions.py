"""Names that are no fields: those of the indexes that functions make, which queries ask as fields.

They are known to the shape that queries are compiled for, so that whatever takes a field takes
such a name, and one that is no index any more is refused like any other unknown field.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, Final, TypeVar

from memdb.query._conditions import Expression
from memdb.query._fields import Field
from memdb.query._rewriting import rewritten
from memdb.query._values import Value
from memdb.serializers import Shape

KeyFunction = Callable[[Any, Any], Any]
"""Gives what a function makes of a record, or its second argument where that is nothing."""

N = TypeVar("N", Expression, Value)

_NONE: Final[Mapping[str, KeyFunction]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, eq=False)
class QueryShape(Shape):
    """What queries can ask of the records of a collection with indexes that functions make.

    Attributes:
        functions: By the name that stands for each.
        kept: What was compiled for these functions, which must not outlive them.
    """

    functions: Mapping[str, KeyFunction] = field(default_factory=dict)
    kept: dict[Any, Any] = field(default_factory=dict)


def with_functions(shape: Shape, functions: Mapping[str, KeyFunction]) -> Shape:
    """Return the shape that also has the names of functions; the same where there are none."""
    if not functions:
        return shape
    parts = {each.name: getattr(shape, each.name) for each in fields(Shape)}
    return QueryShape(**parts, functions=functions)


def functions_of(shape: Shape) -> Mapping[str, KeyFunction]:
    """Return the functions that queries can ask for, by name."""
    return shape.functions if isinstance(shape, QueryShape) else _NONE


class Computed(Value):
    """Stand for a field in what is evaluated, where its first name is that of a function."""

    # As the constructor takes them, for copies.
    __slots__ = ("field", "function")

    def __init__(self, field: Field, function: KeyFunction) -> None:
        self.field = field
        self.function = function
        self._held = None

    def __repr__(self) -> str:
        return repr(self.field)


def resolved(node: N, shape: Shape) -> N:
    """Return what to evaluate for a condition or value, which has no function's name any more."""
    functions = functions_of(shape)
    if not functions:
        return node

    def computed(field: Field) -> Value:
        function = functions.get(field._path[0])  # type: ignore[arg-type]
        return field if function is None else Computed(field, function)

    return rewritten(node, computed)
