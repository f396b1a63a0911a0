"""Questions as the database is asked them; `naive` says what they mean."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import memdb
from memdb import F, P, case, optional
from tests.support import naive
from tests.support.naive import (
    All,
    Applied,
    Calculation,
    Call,
    Choice,
    Condition,
    Constant,
    No,
    Optionally,
    Parameter,
    Path,
    Question,
    Some,
    Term,
    Test,
    Value,
)


def term_of(value: Value) -> Any:
    """Return a value as the database is asked for it."""
    match value:
        case Constant():
            return value.value
        case Parameter():
            return getattr(P, value.name)
        case Path():
            found: Any = F
            for name in value.names:
                found = found[name]
            return found
        case Applied():
            inner = term_of(value.value)
            return (
                inner.len_() if value.function == "len" else naive.FUNCTIONS[value.function](inner)
            )
        case Calculation():
            return naive.ARITHMETIC[value.operator](term_of(value.left), term_of(value.right))


def expression(condition: Condition) -> Any:
    """Return a condition as the database is asked it."""
    match condition:
        case Test():
            return _comparison(condition)
        case All() | Some():
            return _joined(condition)
        case No():
            inner = expression(condition.part)
            if not isinstance(inner, memdb.query.Expression):
                return lambda record: not inner(record)
            return ~inner
        case Call():
            return lambda record: naive.matches(condition.part, record)
        case Optionally():
            return optional(getattr(P, condition.name), expression(condition.part))
        case Choice():
            arms = {key: expression(part) for key, part in condition.arms}
            default = None if condition.default is None else expression(condition.default)
            return case(getattr(P, condition.name), arms, default=default)


def _joined(condition: All | Some) -> Any:
    """Return the parts with ``&`` or ``|`` between them; functions of the user's come last."""
    parts = [expression(part) for part in condition.parts]
    parts.sort(key=lambda part: not isinstance(part, memdb.query.Expression))
    if isinstance(parts[0], memdb.query.Expression):
        return functools.reduce(
            operator.and_ if isinstance(condition, All) else operator.or_, parts
        )
    return lambda record: naive.matches(condition, record)


def _comparison(test: Test) -> Any:
    value = term_of(test.value)
    operands = [term_of(operand) for operand in test.operands]
    if test.operator in _COMPARISONS:
        return _COMPARISONS[test.operator](value, *operands)
    return getattr(value, _METHODS[test.operator])(*operands)


_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_METHODS = {
    "in": "in_",
    "between": "between",
    "startswith": "startswith",
    "endswith": "endswith",
    "contains": "contains",
    "matches": "matches",
    "is": "is_",
    "is none": "is_none",
}


def ordering(term: Term) -> Any:
    """Return the key of an order as the database is told it."""
    is_field = isinstance(term.value, Path) and all(type(name) is str for name in term.value.names)
    if is_field:
        text = ".".join(term.value.names)  # type: ignore[union-attr]
        # Both ways of saying it, by a field's name, as good as at random.
        if len(text) % 2:
            return f"-{text}" if term.falls else text
    value = term_of(term.value)
    return value.desc() if term.falls else value.asc()


def query_for(collection: memdb.Collection[Any], question: Question) -> Any:
    """Return the query that asks a collection a question."""
    condition = question.condition
    if condition is None:
        query = collection.query()
    elif isinstance(condition, All):
        query = collection.where(*map(expression, condition.parts))
    else:
        query = collection.where(expression(condition))
    if question.order:
        query = query.order_by(*map(ordering, question.order))
    if question.skip:
        query = query.skip(question.skip)
    if question.limit is not None:
        query = query.limit(question.limit)
    return query
