"""What comparing a record with a condition costs, roughly, and what needs no look at any record."""

from __future__ import annotations

from collections.abc import Container
from typing import Any, Final

from memdb.query._conditions import Behind, Callback, Comparison, Expression, Never
from memdb.query._fields import Field
from memdb.query._structure import structure
from memdb.query._values import Parameter, Value

# In units of some 15 ns, as measured for the generated source.
_OPERATORS: Final = {
    "is": 1, "==": 2, "!=": 2, "in": 3, "<": 3, "<=": 3, ">": 3, ">=": 3, "between": 4,
    "startswith": 6, "endswith": 6, "contains": 7, "matches": 12,
}  # fmt: skip

# Most of it the copy that it gets.
_OF_FUNCTION: Final = 60
_OF_CALLABLE: Final = 100
# The sort keys of a record's values.
_OF_PLACE: Final = 50


def cost_of(part: Expression, functions: Container[Any] = ()) -> tuple[int, str]:
    """Return what orders the parts of a condition by their cost, the same for equal structures.

    Args:
        part: One of them.
        functions: Names that are no fields, but those of indexes that functions make.
    """
    return _cost(part, functions), repr(structure(part))


def _cost(node: Any, functions: Container[Any]) -> int:
    if isinstance(node, Callback):
        return _OF_CALLABLE
    if isinstance(node, Behind):
        return _OF_PLACE
    if isinstance(node, Comparison):
        operands = node.operands
        is_truth = node.operator == "==" and type(operands[0]) is bool
        cost = 0 if is_truth else _OPERATORS[node.operator]
        return cost + sum([_cost(each, functions) for each in (node.value, *operands)])
    if isinstance(node, Field):
        cost = _OF_FUNCTION if node._path[0] in functions else 0
        return cost + 2 * len(node._path) - 2
    if isinstance(node, Parameter) or not isinstance(node, Expression | Value):
        return 0
    return 3 + sum([_cost(each, functions) for each in node._inner()])


def matches_nothing(part: Expression) -> bool:
    """Whether no record can match, whatever the parameters are."""
    if isinstance(part, Comparison):
        operand = part.operands[0]
        return part.operator == "in" and isinstance(operand, list) and not operand
    return isinstance(part, Never)
