"""From a condition to a function of exactly its shape.

The compiler writes Python source, as `dataclasses` does for `__init__`: plain attribute comparisons
joined by and, or, not, with the constants as closure variables. `evaluate` defines the meaning;
where the compiled code raises because values do not fit each other, it decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Any, Final

from memdb.errors import QueryError
from memdb.query._conditions import (
    DEEPEST,
    And,
    Callback,
    Expression,
    as_condition,
    conjuncts,
    has_callback,
)
from memdb.query._evaluate import NO_MATCH, evaluate
from memdb.query._fields import Field
from memdb.query._functions import QueryShape, resolved
from memdb.query._parameters import parameters
from memdb.query._source import SourceWriter
from memdb.query._structure import analysis
from memdb.serializers import Shape

__all__ = ["CACHED_SHAPES", "DEEPEST", "Condition", "compile_condition"]

Matches = Callable[[Any], bool]

# By structure and class; each entry is a code object of some hundred bytes.
CACHED_SHAPES: Final = 512


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
        shape: What it was compiled for.
    """

    matches: Matches
    needs_copy: bool = False
    prefilter: Matches | None = None
    matches_all: bool = False
    expression: Expression | None = None
    source: str | None = None
    shape: Shape | None = None


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
        The compiled condition. Comparing never raises; see `memdb.query._evaluate`.

    Raises:
        QueryError: A field does not exist, or `condition` is none.

    Cost: 2 us for a structure seen before, about a millisecond for a new one; then, for each
        record, the bare comparison and a call, 30 ns for one field.
    """
    if isinstance(condition, Expression) and not equals and not has_callback(condition):
        # As it is, since it keeps what was found out about it.
        plain, rest = [condition], list[Expression]()
    else:
        plain, rest = _divided(condition, equals)
    if not plain and not rest:
        return Condition(_always, matches_all=True)
    if not plain:
        return Condition(_calling(rest, shape), needs_copy=True, shape=shape)
    expression = And(tuple(plain)) if len(plain) > 1 else plain[0]
    matches, source = _compile(expression, shape)
    if not rest:
        return Condition(matches, False, matches, False, expression, source, shape)
    call = _calling(rest, shape)
    return Condition(
        lambda record: matches(record) and call(record),
        True,
        matches,
        False,
        expression,
        source,
        shape,
    )


def _always(record: Any) -> bool:
    return True


def _divided(
    condition: Expression | Callable[[Any], object] | None, equals: Mapping[str, object]
) -> tuple[list[Expression], list[Expression]]:
    """Return what must match, without the user's own code and with it."""
    parts = [] if condition is None else conjuncts(as_condition(condition))
    # Through Field, so that a condition given as a value is refused as it is there.
    parts += [Field((name,)) == value for name, value in equals.items()]
    plain: list[Expression] = []
    rest: list[Expression] = []
    for part in parts:
        (rest if has_callback(part) else plain).append(part)
    return plain, rest


def _calling(parts: list[Expression], shape: Shape) -> Matches:
    """Return whether a copy of a record matches what the user's own code is part of.

    Not compiled: what a user's code raises comes out, and must not be taken for values that do
    not fit each other.
    """
    tests = [
        part.function if isinstance(part, Callback) else partial(evaluate, resolved(part, shape))
        for part in parts
    ]
    if len(tests) == 1:
        test = tests[0]
        return lambda record: bool(test(record))
    return lambda record: all(test(record) for test in tests)


def _compile(expression: Expression, shape: Shape) -> tuple[Matches, str]:
    """Return the function for an expression, and the source of its comparison."""
    structure, constants = analysis(expression)
    key = structure, _ByClass(shape)
    if not isinstance(shape, QueryShape):
        make, source = _kept.get(key) or _made(expression, shape, key, _kept)
        return make(partial(evaluate, expression), constants), source
    make, source = shape.kept.get(key) or _made(expression, shape, key, shape.kept)
    return make(partial(evaluate, resolved(expression, shape)), constants), source


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


Make = Callable[[Matches, list[Any]], Matches]

Kept = dict[tuple[Any, _ByClass], tuple[Make, str]]

_kept: Final[Kept] = {}
_lock = Lock()


def _made(
    expression: Expression, shape: Shape, key: tuple[Any, _ByClass], kept: Kept
) -> tuple[Make, str]:
    """Return and keep what binds constants to a structure, and the source of its comparison.

    Not an `lru_cache`, which would keep the constants of the expression too.
    """
    names = parameters(expression)
    if names:
        raise QueryError(
            f"The condition has the parameter P.{next(iter(names))}, which has no value here. "
            "Use where(...).prepare(), and give it when the query runs."
        )
    writer = SourceWriter(shape, is_typed=False)
    comparison = writer.condition(expression)
    numbers = "".join([f"c{number}, " for number in range(writer.constants)])
    source = "\n".join(
        [
            "def make(slow, constants):",
            f"    {numbers}= constants" if numbers else "    pass",
            "    def matches(r):",
            "        try:",
            f"            return True if {comparison} else False",
            "        except NO_MATCH:",
            "            return slow(r)",
            "    return matches",
        ]
    )
    namespace = {**writer.namespace, "NO_MATCH": NO_MATCH}
    exec(compile(source, "<memdb condition>", "exec"), namespace)
    made: tuple[Make, str] = namespace["make"], comparison
    with _lock:
        if len(kept) >= CACHED_SHAPES:
            del kept[next(iter(kept))]
        kept[key] = made
    return made
