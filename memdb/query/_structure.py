"""A condition without its constants: what generated code is kept by.

Two conditions of one structure differ in their constants alone, so that they share their code.
"""

from __future__ import annotations

from typing import Any

from memdb.query._conditions import Analysis, Expression, Operand
from memdb.query._values import Order


def analysis(node: Expression | Operand | Order) -> Analysis:
    """Return structure and constants of a condition, value or term; see `structure`.

    Raises:
        QueryError: It is nested too deep, or of a class that nobody knows.
    """
    if isinstance(node, Expression):
        found = node._analysis
        if found is None:
            constants: list[Any] = []
            found = node._analysis = (node._take(constants, 0), constants)
        return found
    constants = []
    if isinstance(node, Order):
        return ("order", node.is_descending, _value(node.value, constants)), constants
    return _value(node, constants), constants


def structure(node: Expression | Operand | Order) -> Any:
    """Return what is left of a condition, value or term without its constants; it has a hash.

    None, True and False in `==`, `!=` and `is_` are part of it, and so are the types of what `<`
    and its kin compare with, since they decide whether a comparison makes sense.
    """
    return analysis(node)[0]


def constants(node: Expression | Operand | Order) -> list[Any]:
    """Return the constants in the order in which `SourceWriter` names them; do not change it."""
    return analysis(node)[1]


def _value(value: Operand, constants: list[Any]) -> Any:
    return value._held or value._take(constants, 0)
