"""Values that a query is given each time it runs, and what depends on them.

>>> from memdb.query import F
>>> optional(P.born, F.born >= P.born)
optional(P.born, F.born >= P.born)
"""

from __future__ import annotations

import difflib
import keyword
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import eq, is_
from types import NoneType
from typing import Any, Final

from memdb.errors import QueryError, shown
from memdb.query._conditions import (
    ALWAYS,
    NEVER,
    Always,
    And,
    Comparison,
    Expression,
    Never,
    Node,
    Not,
    Or,
    all_of,
    any_of,
    as_condition,
    deeper,
    walk,
)
from memdb.query._fitting import holds
from memdb.query._structure import analysis
from memdb.query._values import (
    Arithmetic,
    Constant,
    Function,
    Parameter,
    Value,
    compiled_pattern,
)


class Parameters:
    """Give the parameter of each name.

    Example:
        >>> from memdb.query import F
        >>> F.age.between(P.youngest, P.oldest)
        F.age.between(P.youngest, P.oldest)
    """

    __slots__ = ()

    def __getattr__(self, name: str) -> Parameter:
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, name: str) -> Parameter:
        if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
            raise QueryError(
                f"{shown(name)} can't be the name of a parameter, which is given by keyword. "
                "Use a Python identifier."
            )
        # As Python does with the names in a source, and so with those of keyword arguments.
        return Parameter(unicodedata.normalize("NFKC", name))

    __iter__ = None

    def __reduce__(self) -> str:
        return "P"

    def __repr__(self) -> str:
        return "P"


P: Final = Parameters()


class Optional(Expression):
    """Match what `condition` does, and everything when `parameter` is not given or None."""

    # As the constructor takes them, for copies.
    __slots__ = ("parameter", "condition")  # noqa: RUF023

    def __init__(self, parameter: Parameter, condition: Expression) -> None:
        self.parameter = parameter
        self.condition = condition
        self._analysis = None

    def _inner(self) -> Iterable[Node]:
        """Return the parameter and the condition."""
        return self.parameter, self.condition

    def _take(self, constants: list[Any], depth: int) -> Any:
        """Return the structure, and append the constants in the order of the source."""
        return "optional", self.parameter.name, self.condition._take(constants, deeper(depth))

    def __repr__(self) -> str:
        return f"optional({self.parameter!r}, {self.condition!r})"


class Case(Expression):
    """Match what the arm does whose key equals the parameter, or else what `default` does."""

    # As the constructor takes them, for copies.
    __slots__ = ("parameter", "arms", "default")  # noqa: RUF023

    def __init__(
        self, parameter: Parameter, arms: tuple[tuple[Any, Expression], ...], default: Expression
    ) -> None:
        self.parameter = parameter
        self.arms = arms
        self.default = default
        self._analysis = None

    def chosen(self, given: object) -> int:
        """Return the position of the arm for a value, the number of the arms for none of them."""
        return chosen_arm(given, *[key for key, _ in self.arms])

    def _inner(self) -> Iterable[Node]:
        """Return the parameter and the conditions."""
        return self.parameter, *[condition for _, condition in self.arms], self.default

    def _take(self, constants: list[Any], depth: int) -> Any:
        """Return the structure, and append keys and constants in the order of the source."""
        depth = deeper(depth)
        constants.extend([key for key, _ in self.arms])
        conditions = [condition for _, condition in self.arms] + [self.default]
        taken = [condition._take(constants, depth) for condition in conditions]
        return "case", self.parameter.name, tuple(taken)

    def __repr__(self) -> str:
        arms = ", ".join([f"{key!r}: {condition!r}" for key, condition in self.arms])
        default = "" if isinstance(self.default, Never) else f", default={self.default!r}"
        return f"case({self.parameter!r}, {{{arms}}}{default})"


def optional(parameter: Parameter, condition: Expression | Callable[[Any], object]) -> Expression:
    """Return a condition that counts only when a parameter is given and is not None.

    Where it does not count it matches every record; its opposite then matches none.

    Args:
        parameter: `P.name`. It may be left out when the query runs.
        condition: What must match otherwise.

    Raises:
        QueryError: One of them is none.

    Example:
        >>> from memdb.query import F
        >>> optional(P.city, F.city == P.city) & (F.age >= 18)
        optional(P.city, F.city == P.city) & (F.age >= 18)
    """
    return Optional(_checked_parameter(parameter, "optional"), as_condition(condition))


def case(
    parameter: Parameter,
    arms: Mapping[Any, Expression | Callable[[Any], object]],
    default: Expression | Callable[[Any], object] | None = None,
) -> Expression:
    """Return a condition that depends on the value of a parameter.

    Args:
        parameter: `P.name`.
        arms: A condition for each value that the parameter may have.
        default: The condition for any other value; None matches nothing.

    Raises:
        QueryError: The parameter, an arm or the default is none.

    Example:
        >>> from memdb.query import F
        >>> case(P.mode, {"open": F.closed.is_none(), "all": F.id > 0})
        case(P.mode, {'open': F.closed.is_(None), 'all': F.id > 0})
    """
    if not isinstance(arms, Mapping):
        raise QueryError(f"case() takes a dict of conditions by value, not {shown(arms)}.")
    for key in arms:
        if isinstance(key, (Expression, Value)):
            raise QueryError(f"The keys of case() are plain values, not {key!r}.")
    return Case(
        _checked_parameter(parameter, "case"),
        tuple([(key, as_condition(condition)) for key, condition in arms.items()]),
        NEVER if default is None else as_condition(default),
    )


def parameters(*nodes: Node) -> dict[str, bool]:
    """Return the parameters in the order in which they first stand, and whether each is required.

    One may be left out if it is used by nothing but `optional` conditions of its own.
    """
    found: dict[str, bool] = {}
    for node in nodes:
        for name, is_required in _uses(node, frozenset()):
            found[name] = found.get(name, False) or is_required
    return found


def _uses(node: Node, left_out: frozenset[str]) -> Iterator[tuple[str, bool]]:
    if isinstance(node, Parameter):
        yield node.name, node.name not in left_out
    elif isinstance(node, Optional):
        yield node.parameter.name, False
        yield from _uses(node.condition, left_out | {node.parameter.name})
    else:
        for each in node._inner():
            yield from _uses(each, left_out)


def check_parameters(expression: Node, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was given for each parameter, in order, None for what was left out.

    A collection for `in_` becomes a list, since an iterator can be read only once.

    Raises:
        QueryError: One is missing, there is none of a name, or `in_` can't take a value.
    """
    known, collections = _needs(expression)
    if given.keys() != known.keys():
        check_names(known, given)
    values = {name: given.get(name) for name in known}
    for name in collections:
        if type(values[name]) not in _READ_AGAIN:
            values[name] = members_given(values[name], name)
    return values


def _needs(node: Node) -> tuple[dict[str, bool], list[str]]:
    """Return the parameters, and those among them that stand for collections; found out once."""
    if isinstance(node, Expression):
        try:
            kept: tuple[dict[str, bool], list[str]] = node._needs
            return kept
        except AttributeError:
            pass
    # First of all this refuses what is nested too deep.
    analysis(node)
    needs = parameters(node), collections_in(node)
    if isinstance(node, Expression):
        node._needs = needs
    return needs


# None and texts may be meant for an `in_` that does not count; for one that does, they are refused.
_READ_AGAIN: Final = frozenset({list, tuple, set, frozenset, str, bytes, NoneType})


def collections_in(top: Node) -> list[str]:
    """Return the names of the parameters that stand for collections."""
    found = [
        node.operands[0].name
        for node in walk(top)
        if isinstance(node, Comparison)
        and node.operator == "in"
        and isinstance(node.operands[0], Parameter)
    ]
    return list(dict.fromkeys(found))


def readable(values: Any) -> Any:
    """Return what was given for an `in_` so that it can be read again."""
    if type(values) in _READ_AGAIN or not isinstance(values, Iterable):
        return values
    return list(values)


def check_names(known: Mapping[str, bool], given: Iterable[str]) -> None:
    """Refuse what was given if a required parameter is missing or one is unknown.

    Args:
        known: The parameters, as `parameters` returns them.
        given: The names of what was given.

    Raises:
        QueryError: With the name, and the nearest to an unknown one.
    """
    for name in given:
        if name not in known:
            raise no_parameter(name, known)
    for name, is_required in known.items():
        if is_required and name not in given:
            raise missing_parameter(name)


def no_parameter(name: str, known: Iterable[str]) -> QueryError:
    """Return the error for a value that no parameter takes."""
    close = difflib.get_close_matches(name, known, n=1)
    every = ", ".join(known) or "none"
    hint = f"Did you mean {close[0]!r}?" if close else f"It has {every}."
    return QueryError(f"The query has no parameter {name!r}. {hint}")


def missing_parameter(name: str) -> QueryError:
    """Return the error for a parameter without a value."""
    return QueryError(f"The parameter P.{name} was not given. Give it by keyword, as {name}=....")


def members_given(values: Any, name: str) -> list[Any]:
    """Return what was given for the parameter of an `in_` as a list.

    Raises:
        QueryError: It is a text or no collection.
    """
    check_members(values, name)
    return values if isinstance(values, list) else list(values)


def check_members(values: object, name: str) -> None:
    """Refuse what can't be the parameter of an `in_`, without reading it.

    Raises:
        QueryError: It is a text or no collection.
    """
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise QueryError(
            f"The parameter P.{name} of in_() takes a collection of values, not a "
            f"{type(values).__name__}. Put a single value in a list."
        )


def text_given(text: Any, name: str) -> Any:
    """Return what was given for the parameter of a `startswith` or `endswith`.

    Raises:
        QueryError: It is neither text nor bytes.
    """
    if not isinstance(text, (str, bytes)):
        raise QueryError(
            f"The parameter P.{name} of startswith() or endswith() takes text or bytes, not a "
            f"{type(text).__name__}."
        )
    return text


def pattern_given(pattern: Any, name: str) -> re.Pattern[Any]:
    """Return what was given for the parameter of a `matches`, compiled.

    Raises:
        QueryError: It is no regular expression.
    """
    return compiled_pattern(pattern, f"The parameter P.{name} of matches()")


def chosen_arm(given: object, *keys: object) -> int:
    """Return the position of the first key that a value equals, the number of keys for none."""
    for position, key in enumerate(keys):
        if holds(eq, key, given):
            return position
    return len(keys)


def bind(expression: Expression, given: Mapping[str, Any]) -> Expression:
    """Return a condition with the values of its parameters in their places.

    Args:
        expression: The condition.
        given: A value for each parameter, but for those that `parameters` says may be left out.

    Returns:
        A condition without parameters, `optional` and `case`. What needs no check any more is
        gone; what is left then may be `Always` or `Never`.

    Raises:
        QueryError: A parameter is missing, there is none of a name, or a value does not fit.
    """
    return _bound(expression, check_parameters(expression, given))


def bind_value(value: Value, given: Mapping[str, Any]) -> Value:
    """Return a value with the values of its parameters in their places, as `bind` does."""
    bound = _bound_value(value, check_parameters(value, given))
    return bound if isinstance(bound, Value) else Constant(bound)


def _bound(expression: Expression, given: Mapping[str, Any]) -> Expression:
    if isinstance(expression, Comparison):
        return _bound_comparison(expression, given)
    if isinstance(expression, And):
        return all_of([_bound(part, given) for part in expression.parts])
    if isinstance(expression, Or):
        return any_of([_bound(part, given) for part in expression.parts])
    if isinstance(expression, Not):
        part = _bound(expression.part, given)
        if isinstance(part, (Always, Never)):
            return NEVER if isinstance(part, Always) else ALWAYS
        return Not(part)
    if isinstance(expression, Optional):
        is_given = given[expression.parameter.name] is not None
        return _bound(expression.condition, given) if is_given else ALWAYS
    if isinstance(expression, Case):
        conditions = [condition for _, condition in expression.arms] + [expression.default]
        return _bound(conditions[expression.chosen(given[expression.parameter.name])], given)
    return expression


_GIVEN: Final[dict[str, Callable[[Any, str], Any]]] = {
    "in": members_given,
    "startswith": text_given,
    "endswith": text_given,
    "matches": pattern_given,
}


def operand_given(operator: str, value: Any, name: str) -> Any:
    """Return what was given for a parameter as the operand of a comparison.

    Raises:
        QueryError: The operator can't take it.
    """
    check = _GIVEN.get(operator)
    return value if check is None else check(value, name)


def _bound_comparison(comparison: Comparison, given: Mapping[str, Any]) -> Expression:
    operator = comparison.operator
    operands = tuple(
        [
            operand_given(operator, given[each.name], each.name)
            if isinstance(each, Parameter)
            else _bound_value(each, given)
            for each in comparison.operands
        ]
    )
    value = _bound_value(comparison.value, given)
    if value is comparison.value and all(map(is_, operands, comparison.operands)):
        return comparison
    return Comparison(operands, operator, value if isinstance(value, Value) else Constant(value))


def _bound_value(value: Any, given: Mapping[str, Any]) -> Any:
    if isinstance(value, Parameter):
        return given[value.name]
    if isinstance(value, Arithmetic):
        left, right = _bound_value(value.left, given), _bound_value(value.right, given)
        is_same = left is value.left and right is value.right
        return value if is_same else Arithmetic(value.operator, left, right)
    if isinstance(value, Function):
        inside = _bound_value(value.value, given)
        return value if inside is value.value else Function(value.name, inside)
    return value


def _checked_parameter(parameter: object, function: str) -> Parameter:
    if not isinstance(parameter, Parameter):
        raise QueryError(
            f"{function}() takes a parameter first, as P.name, not {shown(parameter)}."
        )
    return parameter
