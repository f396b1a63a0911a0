"""Conditions and values with other values in the places of their fields."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from memdb.query._aggregates import Aggregate
from memdb.query._conditions import And, Comparison, Expression, Not, Or
from memdb.query._fields import Field
from memdb.query._parameters import Case, Optional
from memdb.query._values import Arithmetic, Function, Value

N = TypeVar("N", Expression, Value)


def rewritten(node: N, change: Callable[[Field], Value]) -> N:
    """Return a condition or value whose fields are what a function makes of each."""
    return _rewritten(node, change)  # type: ignore[no-any-return]


def _rewritten(node: Any, change: Callable[[Field], Value]) -> Any:
    def inner(part: Any) -> Any:
        return _rewritten(part, change)

    if isinstance(node, Field):
        return change(node)
    if isinstance(node, Comparison):
        return Comparison(tuple(map(inner, node.operands)), node.operator, inner(node.value))
    if isinstance(node, And | Or):
        return type(node)(tuple(map(inner, node.parts)))
    if isinstance(node, Not):
        return Not(inner(node.part))
    if isinstance(node, Optional):
        return Optional(node.parameter, inner(node.condition))
    if isinstance(node, Case):
        arms = tuple([(key, inner(condition)) for key, condition in node.arms])
        return Case(node.parameter, arms, inner(node.default))
    if isinstance(node, Arithmetic):
        return Arithmetic(node.operator, inner(node.left), inner(node.right))
    if isinstance(node, Function):
        return Function(node.name, inner(node.value))
    if isinstance(node, Aggregate):
        return node if node.value is None else Aggregate(node.kind, inner(node.value))
    return node
