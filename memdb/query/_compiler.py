"""From a condition to a function of exactly its shape.

The compiler writes Python source, as `dataclasses` does for `__init__`: plain attribute comparisons
joined by and, or, not, with the constants as closure variables. `evaluate` defines the meaning;
where the compiled code raises because values do not fit each other, it decides.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import count
from typing import Any, Final

from memdb.errors import QueryError
from memdb.query._expressions import (
    NO_MATCH,
    And,
    Comparison,
    Expression,
    Field,
    Not,
    Or,
    evaluate,
    is_in,
    step,
)
from memdb.query._paths import Step, resolve_path
from memdb.serializers import Shape
from memdb.serializers._build import is_plain_name

Matches = Callable[[Any], bool]

# By structure and class; each entry is a code object of some hundred bytes.
CACHED_SHAPES: Final = 512

# Levels of and, or, not within each other; Python's parser gives up at 200 parentheses.
DEEPEST: Final = 60


@dataclass(frozen=True, slots=True)
class Condition:
    """Hold a compiled condition.

    Attributes:
        matches: Whether a record matches. It is the whole condition.
        needs_copy: `matches` runs the user's own code, which must get copies of the records. Where
            it is False, `matches` reads only and may be given the stored objects themselves.
        prefilter: The part of the condition that may be given the stored objects, so that only the
            records that pass it need a copy; None when there is none.
        matches_all: There is nothing to check.
        expression: What was compiled, without a callable; None when there is nothing.
        source: The generated comparison, with the record as `r`; None when there is none.
    """

    matches: Matches
    needs_copy: bool = False
    prefilter: Matches | None = None
    matches_all: bool = False
    expression: Expression | None = None
    source: str | None = None


def compile_condition(
    condition: Expression | Callable[[Any], object] | None,
    equals: Mapping[str, object],
    shape: Shape,
) -> Condition:
    """Return the function that says whether a record of `shape` matches.

    Args:
        condition: An expression of `F`, a callable that takes a record, or None.
        equals: Fields and the values that they must equal, all of them, besides the condition.
        shape: The class of the records. Records of kind `"dict"` are looked into by key.

    Returns:
        The compiled condition. Comparing never raises; see `memdb.query._expressions`.

    Raises:
        QueryError: A field does not exist, or `condition` is none.

    Cost: 2 us for a structure seen before, about a millisecond for a new one; then, for each
        record, the bare comparison and a call, 30 ns for one field.
    """
    expression = _joined(condition, equals)
    callback = None if condition is None or isinstance(condition, Expression) else condition
    if expression is None:
        if callback is None:
            return Condition(_always, matches_all=True)
        return Condition(_calling(_checked(callback)), needs_copy=True)
    matches, source = _compile(expression, shape)
    if callback is None:
        return Condition(matches, False, matches, False, expression, source)
    call = _calling(_checked(callback))
    return Condition(
        lambda record: matches(record) and call(record), True, matches, False, expression, source
    )


def _joined(condition: object, equals: Mapping[str, object]) -> Expression | None:
    """Join the expression and the equalities by and; None when there is neither."""
    parts: list[Expression] = []
    if isinstance(condition, Expression):
        parts += condition.parts if isinstance(condition, And) else [condition]
    # Through Field, so that a condition given as a value is refused as it is there.
    parts += [Field((name,)) == value for name, value in equals.items()]
    return And(tuple(parts)) if len(parts) > 1 else parts[0] if parts else None


def _checked(condition: object) -> Callable[[Any], object]:
    """Return the user's callable, or say what is wrong with what was given."""
    if isinstance(condition, Field):
        raise QueryError(f"{condition!r} is a field, not a condition. Compare it with something.")
    if isinstance(condition, type) or not callable(condition):
        raise QueryError(
            "A condition is an expression of F or a callable that takes a record, not a "
            f"{type(condition).__qualname__}. Build it with F, as in F.name == 'Eric'."
        )
    if inspect.iscoroutinefunction(condition):
        raise QueryError("A condition can't be a coroutine function. Give a plain callable.")
    return condition


def _always(record: Any) -> bool:
    return True


def _calling(callback: Callable[[Any], object]) -> Matches:
    return lambda record: bool(callback(record))


def _compile(expression: Expression, shape: Shape) -> tuple[Matches, str]:
    """Return the function for an expression, and the source of its comparison."""
    constants: list[Any] = []
    structure = _structure(expression, constants, 0)
    make, source = _factory(structure, _ByClass(shape))
    return make(partial(evaluate, expression), constants), source


def _structure(expression: Expression, constants: list[Any], depth: int) -> tuple[Any, ...]:
    """Return the expression without its constants, which are appended to `constants` in order."""
    if depth > DEEPEST:
        raise QueryError(f"A condition can be nested {DEEPEST} levels deep at most.")
    if isinstance(expression, Comparison):
        if expression.operator == "in":
            constants.append(_members(expression.operands[0]))
        else:
            constants.extend(expression.operands)
        return expression.operator, expression.path
    if isinstance(expression, (And, Or)):
        parts = tuple([_structure(part, constants, depth + 1) for part in expression.parts])
        return "and" if isinstance(expression, And) else "or", parts
    if isinstance(expression, Not):
        return "not", _structure(expression.part, constants, depth + 1)
    raise QueryError(f"{type(expression).__name__} is not a condition that memdb knows.")


def _members(values: list[Any]) -> frozenset[Any] | _Members:
    """Return the values of `in_` so that Python's `in` agrees with `==`.

    A NaN equals nothing, though `in` would find it by its identity. Values without a hash are
    compared one by one.
    """
    try:
        return frozenset([value for value in values if value == value])
    except NO_MATCH:
        return _Members(values)


class _Members:
    """Find by `==` alone."""

    __slots__ = ("_values",)

    def __init__(self, values: list[Any]) -> None:
        self._values = values

    def __contains__(self, value: Any) -> bool:
        return is_in(value, self._values)


class _ByClass:
    """Carry a shape, equal to any other shape of the same class: a key for the cache.

    Unions are equal to themselves only; the arguments of a generic class are in its name.
    """

    __slots__ = ("shape",)

    def __init__(self, shape: Shape) -> None:
        self.shape = shape

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _ByClass)
            and self.shape.cls is other.shape.cls
            and self.shape.kind == other.shape.kind
            and self.shape.name == other.shape.name
            and (self.shape.kind != "union" or self.shape is other.shape)
        )

    def __hash__(self) -> int:
        return hash((id(self.shape.cls), self.shape.kind))


@lru_cache(maxsize=CACHED_SHAPES)
def _factory(
    structure: tuple[Any, ...], key: _ByClass
) -> tuple[Callable[[Matches, list[Any]], Matches], str]:
    """Return what binds constants to the compiled structure, and the source of its comparison."""
    writer = _Writer(key.shape)
    comparison = writer.write(structure)
    names = "".join([f"c{number}, " for number in range(writer.constants)])
    source = "\n".join(
        [
            "def make(slow, constants):",
            f"    {names}= constants",
            "    def matches(r):",
            "        try:",
            f"            return True if {comparison} else False",
            "        except NO_MATCH:",
            "            return slow(r)",
            "    return matches",
        ]
    )
    namespace: dict[str, Any] = {"NO_MATCH": NO_MATCH, "absent": _ABSENT, "step": step}
    exec(compile(source, "<memdb condition>", "exec"), namespace)
    make: Callable[[Matches, list[Any]], Matches] = namespace["make"]
    return make, comparison


_ABSENT: Final = object()

_TEMPLATES: Final = {
    "==": "{v} == {0}",
    "!=": "{v} == {0}",
    "<": "{v} < {0}",
    "<=": "{v} <= {0}",
    ">": "{v} > {0}",
    ">=": "{v} >= {0}",
    "in": "{v} in {0}",
    "is": "{v} is {0}",
    "contains": "{0} in {v}",
    "between": "{0} <= {v} <= {1}",
    "startswith": "{v}.startswith({0})",
}

# These have an answer for None; for the others a None is kept away, since raising costs more.
_FITS_NONE: Final = frozenset({"==", "!=", "in", "is"})


class _Writer:
    """Write the source of one structure for one class."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._variables = count()
        self.constants = 0

    def write(self, structure: tuple[Any, ...]) -> str:
        """Return the source of a structure, with constants numbered as `_structure` found them."""
        kind, content = structure
        if kind in ("and", "or"):
            return f" {kind} ".join([f"({self.write(part)})" for part in content])
        if kind == "not":
            return f"not ({self.write(content)})"
        comparison = self._write_comparison(kind, content)
        return f"not ({comparison})" if kind == "!=" else comparison

    def _write_comparison(self, operator: str, path: tuple[str, ...]) -> str:
        """Return one comparison, after a guard for each step that may well lead nowhere."""
        steps = resolve_path(path, self._shape)
        guards: list[str] = []
        value = "r"
        for position, step_taken in enumerate(steps):
            needs_value = operator not in _FITS_NONE or position < len(steps) - 1
            if needs_value and step_taken.may_be_none:
                nothing = "None"
            else:
                nothing = "absent" if step_taken.way == "key" else ""
            value = _access(value, step_taken, nothing)
            if nothing:
                variable = f"v{next(self._variables)}"
                guards.append(f"({variable} := {value}) is not {nothing}")
                value = variable
        first = self.constants
        self.constants += 2 if operator == "between" else 1
        comparison = _TEMPLATES[operator].format(f"c{first}", f"c{first + 1}", v=value)
        return " and ".join([*guards, comparison])


def _access(value: str, step_taken: Step, nothing: str) -> str:
    """Return the source that goes one step further from `value`, to `nothing` for no such key."""
    name = step_taken.name
    if step_taken.way == "key":
        return f"{value}.get({name!r}, {nothing})"
    if step_taken.way == "either":
        return f"step({value}, {name!r})"
    if is_plain_name(name):
        return f"{value}.{name}"
    return f"getattr({value}, {name!r})"
