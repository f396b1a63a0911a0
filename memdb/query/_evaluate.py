"""What conditions and values mean, record by record; the generated code must agree with it.

Meaning of a comparison, the same everywhere:

- Where a value is absent (a dict without the key, a path through None or through an object without
  the attribute, a calculation that Python refuses), where `<` and its kin compare None or values of
  types that have no order, and where `in`, `startswith` and so on do not apply, the comparison does
  not match. It never raises.
- `!=` is the opposite of `==`, and `~` the opposite of whatever it stands before: each record
  matches exactly one of `c` and `~c`. So `~(F.age < 18)` also finds the records without an age.
- What a comparison gives counts by its truth value. What has none does not match, as an array of
  NumPy's that has not exactly one element. Indexes follow: see `memdb.indexes._odd`.
- A dict is looked into by key, anything else by attribute; what a number in brackets names is an
  element, or the value of that key in a dict.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from memdb.errors import QueryError
from memdb.indexes._order import ABSENT
from memdb.query._aggregates import Aggregate, Group, term_key
from memdb.query._conditions import (
    Always,
    And,
    Behind,
    Callback,
    Comparison,
    Expression,
    Never,
    Not,
    Or,
    unknown,
)
from memdb.query._fields import Field
from memdb.query._fitting import NO_MATCH, holds, is_in
from memdb.query._functions import Computed
from memdb.query._parameters import (
    Case,
    Optional,
    missing_parameter,
    operand_given,
)
from memdb.query._values import Arithmetic, Constant, Function, Parameter, Value

__all__ = ["NO_MATCH", "TESTS", "evaluate", "is_in", "item", "no_aggregate", "step", "value_of"]

_NOTHING_GIVEN: Final[Mapping[str, Any]] = MappingProxyType({})


def evaluate(
    expression: Expression, record: Any, parameters: Mapping[str, Any] = _NOTHING_GIVEN
) -> bool:
    """Whether `record` matches: the definition, and the way out when the generated code raises.

    Args:
        expression: The condition.
        record: The record, or a `Group`.
        parameters: Their values, best as `check_parameters` gives them.

    Raises:
        QueryError: A parameter is missing or does not fit.
    """
    evaluator = _EVALUATORS.get(type(expression))
    if evaluator is None:
        raise unknown(expression)
    return evaluator(expression, record, parameters)


def value_of(value: Value, record: Any, parameters: Mapping[str, Any] = _NOTHING_GIVEN) -> Any:
    """Return a value of a record, or ABSENT where there is none.

    Raises:
        QueryError: A parameter is missing, or `value` is an aggregate, and `record` no `Group` that
            has it.
    """
    if type(record) is Group:
        known = record.values.get(term_key(value), ABSENT)
        if known is not ABSENT:
            return known
    if isinstance(value, Field):
        return _field(value, record)
    if isinstance(value, Arithmetic):
        return _apply(
            _OPERATIONS[value.operator],
            _operand(value.left, record, parameters),
            _operand(value.right, record, parameters),
        )
    if isinstance(value, Function):
        return _apply(_FUNCTIONS[value.name], _operand(value.value, record, parameters))
    if isinstance(value, Parameter):
        if value.name not in parameters:
            raise missing_parameter(value.name)
        return parameters[value.name]
    if isinstance(value, Constant):
        return value.value
    if isinstance(value, Computed):
        # Outside of what says that values do not fit: an error of the function's is none of these.
        return value_at(value.function(record, ABSENT), value.field._path[1:])
    if isinstance(value, Aggregate):
        raise no_aggregate(value)
    raise unknown(value)


def no_aggregate(value: Value) -> QueryError:
    """Return the error for an aggregate where there is no group."""
    return QueryError(
        f"{value!r} is calculated over a group, not for a single record. Use it in select() or "
        "having() after group_by()."
    )


def step(value: Any, name: str | int) -> Any:
    """Return what `name` leads to in `value`: by key in a dict, else by attribute or index."""
    if not isinstance(value, dict):
        return getattr(value, name) if isinstance(name, str) else value[name]
    # Not value[name]: a defaultdict would take the name in.
    if name not in value:
        raise KeyError(name)
    return value[name]


def item(value: Any, index: int, nothing: Any = ABSENT) -> Any:
    """Return an element of a sequence, or the value of a dict's key; `nothing` for none."""
    try:
        return step(value, index)
    except LookupError:
        return nothing


def _comparison(comparison: Comparison, record: Any, parameters: Mapping[str, Any]) -> bool:
    is_negated = comparison.operator == "!="
    name = "==" if is_negated else comparison.operator
    value = value_of(comparison.value, record, parameters)
    operands = [_operand(each, record, parameters) for each in comparison.operands]
    for position, each in enumerate(comparison.operands):
        if isinstance(each, Parameter):
            operands[position] = operand_given(name, operands[position], each.name)
    if value is ABSENT or any(each is ABSENT for each in operands):
        return is_negated
    return holds(TESTS[name], value, *operands) is not is_negated


def _optional(expression: Optional, record: Any, parameters: Mapping[str, Any]) -> bool:
    is_given = parameters.get(expression.parameter.name) is not None
    return not is_given or evaluate(expression.condition, record, parameters)


def _case(expression: Case, record: Any, parameters: Mapping[str, Any]) -> bool:
    position = expression.chosen(value_of(expression.parameter, record, parameters))
    conditions = [condition for _, condition in expression.arms] + [expression.default]
    return evaluate(conditions[position], record, parameters)


_EVALUATORS: Final[dict[type, Callable[[Any, Any, Mapping[str, Any]], bool]]] = {
    Comparison: _comparison,
    And: lambda e, record, given: all(evaluate(part, record, given) for part in e.parts),
    Or: lambda e, record, given: any(evaluate(part, record, given) for part in e.parts),
    Not: lambda e, record, given: not evaluate(e.part, record, given),
    Always: lambda e, record, given: True,
    Never: lambda e, record, given: False,
    Callback: lambda e, record, given: bool(e.function(record)),
    Behind: lambda e, record, given: e.place.is_before(record),
    Optional: _optional,
    Case: _case,
}


def _field(field: Field, record: Any) -> Any:
    return ABSENT if type(record) is Group else value_at(record, field._path)


def value_at(value: Any, path: tuple[str | int, ...]) -> Any:
    """Return what a path leads to, ABSENT where it leads nowhere."""
    try:
        for name in path:
            value = step(value, name)
    except NO_MATCH:
        return ABSENT
    return value


def _operand(operand: Any, record: Any, parameters: Mapping[str, Any]) -> Any:
    return value_of(operand, record, parameters) if isinstance(operand, Value) else operand


def _apply(function: Callable[..., Any], *operands: Any) -> Any:
    """Return what a function gives, ABSENT where it does not apply."""
    if any(each is ABSENT for each in operands):
        return ABSENT
    try:
        return function(*operands)
    except NO_MATCH:
        return ABSENT


TESTS: Final[dict[str, Callable[..., Any]]] = {
    "==": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": is_in,
    "is": operator.is_,
    "contains": operator.contains,
    "between": lambda value, low, high: low <= value <= high,
    "startswith": lambda value, prefix: value.startswith(prefix),
    "endswith": lambda value, suffix: value.endswith(suffix),
    "matches": lambda value, pattern: pattern.search(value) is not None,
}

_OPERATIONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
}

_FUNCTIONS: Final[dict[str, Callable[[Any], Any]]] = {
    "len": len,
    "abs": abs,
    "-": operator.neg,
}
