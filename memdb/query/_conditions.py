"""What a condition is made of: comparisons of values, and their combinations.

A condition is an immutable value that says what to look for; it knows no class and no database.
What each one means is defined by `memdb.query._evaluate`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn, TypeAlias
from uuid import UUID

from memdb.errors import QueryError, shown
from memdb.indexes import are_sure, is_sure
from memdb.query._fitting import Members, members

if TYPE_CHECKING:
    from memdb.query._values import Value

# Levels of conditions and values within each other; Python's parser gives up at 200 parentheses.
DEEPEST: Final = 60

# What is usually compared with: no values of a record, and nothing that the source depends on.
PLAIN: Final[frozenset[type]] = frozenset(
    {int, str, float, bytes, date, datetime, time, timedelta, Decimal, UUID}
)

# The type of what these compare with decides whether the comparison makes sense at all.
RANGES: Final = frozenset({"<", "<=", ">", ">=", "between", "startswith", "endswith"})

# None, True and False are so often asked for that the source is written for them.
_LITERALS: Final = frozenset({"==", "!=", "is"})

# What stands for a condition or value without its constants, and the constants in order.
Analysis = tuple[Any, list[Any]]


class Operand:
    """What is taken from a record or given later, and so is no constant: each `Value`."""

    __slots__ = ()

    # The structure, where no constants are in it; see `_take`.
    _held: Any

    def _inner(self) -> Iterable[Node]:
        """Return the values that this one is made of, one level deep."""
        return ()

    def _take(self, constants: list[Any], depth: int) -> Any:
        """Return the structure, and append the constants in the order of the source."""
        raise unknown(self)

    def _enclosed(self) -> str:
        """Return how the value shows itself in the middle of something larger."""
        return repr(self)


Node: TypeAlias = "Expression | Operand"


class Expression:
    """Describe which records match; combine with `&`, `|` and `~`.

    A callable that takes a record may stand on either side of `&` and `|`. It gets a copy of the
    record.

    Threads: an expression never changes, so that it may be shared freely.

    Example:
        >>> from memdb.query import F
        >>> (F.age >= 18) | (F.name == "Eric")
        (F.age >= 18) | (F.name == 'Eric')
    """

    __slots__ = ("_analysis", "_needs")

    # What `memdb.query._parameters` finds out about the parameters; set when it does.
    _needs: Any

    def __init__(self) -> None:
        self._analysis: Analysis | None = None

    def __and__(self, other: object) -> Expression:
        """Match the records that both sides match."""
        return _combined(And, self, other)

    def __rand__(self, other: object) -> Expression:
        return _combined(And, other, self)

    def __or__(self, other: object) -> Expression:
        """Match the records that either side matches."""
        return _combined(Or, self, other)

    def __ror__(self, other: object) -> Expression:
        return _combined(Or, other, self)

    def __invert__(self) -> Expression:
        """Match exactly the records that this expression does not."""
        return Not(self)

    def __bool__(self) -> NoReturn:
        raise QueryError(
            f"The condition {self!r} has no truth value of its own. Use & | ~ instead of "
            "and, or, not, with parentheses around each comparison, and "
            ".between() or .in_() instead of a chain or `in`."
        )

    def __reduce__(self) -> tuple[Any, ...]:
        cls = type(self)
        return cls, tuple([getattr(self, name) for name in cls.__slots__])

    def _inner(self) -> Iterable[Node]:
        """Return the conditions and values that this one is made of, one level deep."""
        return ()

    def _take(self, constants: list[Any], depth: int) -> Any:
        """Return the structure, and append the constants in the order of the source."""
        raise unknown(self)


class Comparison(Expression):
    """Compare `value` with `operands` by `operator`, one of the keys of `TESTS`.

    An operand is a constant or a `Value`; that of "in" a list or a parameter, that of "matches" a
    compiled pattern or a parameter.
    """

    __slots__ = ("operands", "operator", "value")

    def __init__(self, operands: tuple[Any, ...], operator: str, value: Value) -> None:
        self.operands = operands
        self.operator = operator
        self.value = value
        self._analysis = None

    def _inner(self) -> Iterable[Node]:
        """Return the values among what is compared."""
        return [self.value, *[each for each in self.operands if isinstance(each, Operand)]]

    def _take(self, constants: list[Any], depth: int) -> Any:
        """Return the structure, and append the constants in the order of the source."""
        value, operator, operands = self.value, self.operator, self.operands
        held = value._held or value._take(constants, depth + 1)
        if len(operands) == 1:
            kind = type(operands[0])
            if kind in PLAIN:
                constants.append(operands[0])
                return operator, held, kind if operator in RANGES else None
            if kind is bool and operator in _LITERALS:
                return operator, held, "True" if operands[0] else "False"
        taken = [_take_operand(operator, each, constants, depth) for each in operands]
        return operator, held, *taken

    def __repr__(self) -> str:
        left = self.value._enclosed()
        if self.operator not in _METHODS:
            operand = self.operands[0]
            right = operand._enclosed() if isinstance(operand, Operand) else repr(operand)
            return f"{left} {self.operator} {right}"
        operands = [
            each.pattern if isinstance(each, re.Pattern) and each == re.compile(each.pattern)
            else each for each in self.operands
        ]  # fmt: skip
        return f"{left}.{_METHODS[self.operator]}({', '.join(map(repr, operands))})"


class _Combination(Expression):
    """Join the answers of several conditions."""

    __slots__ = ("parts",)

    word: ClassVar[str]
    sign: ClassVar[str]

    def __init__(self, parts: tuple[Expression, ...]) -> None:
        self.parts = parts
        self._analysis = None

    def _inner(self) -> Iterable[Node]:
        """Return the parts."""
        return self.parts

    def _take(self, constants: list[Any], depth: int) -> Any:
        """Return the structure, and append the constants in the order of the source."""
        depth = deeper(depth)
        return self.word, tuple([part._take(constants, depth) for part in self.parts])

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.parts,)

    def __repr__(self) -> str:
        return f" {self.sign} ".join(map(_shown_part, self.parts))


class And(_Combination):
    """Match what all of `parts` match."""

    __slots__ = ()

    word = "and"
    sign = "&"


class Or(_Combination):
    """Match what any of `parts` matches."""

    __slots__ = ()

    word = "or"
    sign = "|"


class Not(Expression):
    """Match what `part` does not match."""

    __slots__ = ("part",)

    def __init__(self, part: Expression) -> None:
        self.part = part
        self._analysis = None

    def _inner(self) -> Iterable[Node]:
        """Return the part."""
        return (self.part,)

    def _take(self, constants: list[Any], depth: int) -> Any:
        """Return the structure, and append the constants in the order of the source."""
        return "not", self.part._take(constants, deeper(depth))

    def __repr__(self) -> str:
        return f"~{_shown_part(self.part)}"


class Always(Expression):
    """Match every record: what an optional condition is without its parameter."""

    __slots__ = ()

    def _take(self, constants: list[Any], depth: int) -> Any:
        """Return the structure."""
        return ("always",)

    def __repr__(self) -> str:
        return "Always()"


class Never(Expression):
    """Match no record: what a case is without an arm for its parameter."""

    __slots__ = ()

    def _take(self, constants: list[Any], depth: int) -> Any:
        """Return the structure."""
        return ("never",)

    def __repr__(self) -> str:
        return "Never()"


class Callback(Expression):
    """Match what the user's own callable says yes to; it gets a copy of the record."""

    __slots__ = ("function",)

    def __init__(self, function: Callable[[Any], object]) -> None:
        self.function = function
        self._analysis = None

    def _take(self, constants: list[Any], depth: int) -> Any:
        """Return the structure, and append the callable."""
        constants.append(self.function)
        return ("callback",)

    def __repr__(self) -> str:
        return shown(self.function)


class Behind(Expression):
    """Match the records that come behind a place in an order, as behind a cursor.

    Attributes:
        place: A `memdb.query._keyset.Place`.
        plain: The same condition by comparisons alone, which is as good for records that are as
            their class says; None where such records may have values that comparisons do not order.
    """

    __slots__ = ("place", "plain")

    def __init__(self, place: Any, plain: Expression | None) -> None:
        self.place = place
        self.plain = plain
        self._analysis = None

    def _take(self, constants: list[Any], depth: int) -> Any:
        """Return the structure, and append the test, the place, and the plain one's constants."""
        constants += [self.place.is_before, self.place]
        plain = None if self.plain is None else self.plain._take(constants, deeper(depth))
        return "behind", self.place.structure, plain

    def __repr__(self) -> str:
        return "behind the cursor"


ALWAYS: Final = Always()
NEVER: Final = Never()


def as_condition(given: object) -> Expression:
    """Return what stands for a condition as one: an expression, or a callable.

    Raises:
        QueryError: It is neither.
    """
    if isinstance(given, Expression):
        return given
    if isinstance(given, Operand):
        raise QueryError(f"{given!r} is a field, not a condition. Compare it with something.")
    if isinstance(given, type) or not callable(given):
        raise QueryError(
            "A condition is an expression of F or a callable that takes a record, not a "
            f"{type(given).__qualname__}. Build it with F, as in F.name == 'Eric'."
        )
    if inspect.iscoroutinefunction(given):
        raise QueryError("A condition can't be a coroutine function. Give a plain callable.")
    return Callback(given)


def all_of(parts: Iterable[Expression]) -> Expression:
    """Return what matches what all of the parts match, as simple as it gets."""
    kept: list[Expression] = []
    for part in parts:
        for each in conjuncts(part):
            if isinstance(each, Never):
                return NEVER
            if not isinstance(each, Always):
                kept.append(each)
    return And(tuple(kept)) if len(kept) > 1 else kept[0] if kept else ALWAYS


def any_of(parts: Iterable[Expression]) -> Expression:
    """Return what matches what any of the parts matches, as simple as it gets."""
    kept: list[Expression] = []
    for part in parts:
        for each in part.parts if isinstance(part, Or) else (part,):
            if isinstance(each, Always):
                return ALWAYS
            if not isinstance(each, Never):
                kept.append(each)
    return Or(tuple(kept)) if len(kept) > 1 else kept[0] if kept else NEVER


def is_value(operand: object) -> bool:
    """Whether an operand is taken from a record or given later, and so is no constant."""
    return isinstance(operand, Operand)


def conjuncts(expression: Expression) -> list[Expression]:
    """Return the conditions that a record must match all of."""
    return list(expression.parts) if isinstance(expression, And) else [expression]


def walk(node: Node) -> Iterator[Node]:
    """Give a condition or value and everything that it is made of."""
    waiting: list[Node] = [node]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(reversed([*node._inner()]))


def has_callback(expression: Expression) -> bool:
    """Whether the user's own code is part of a condition, so that it needs copies."""
    if type(expression) is Comparison:
        return False
    return any(isinstance(node, Callback) for node in walk(expression))


def deeper(depth: int) -> int:
    """Return the next level.

    Raises:
        QueryError: There is none.
    """
    if depth >= DEEPEST:
        raise QueryError(f"A condition can be nested {DEEPEST} levels deep at most.")
    return depth + 1


def unknown(node: object) -> QueryError:
    """Return the error for a class of conditions or values that nobody knows."""
    return QueryError(f"{type(node).__name__} is not a condition that memdb knows.")


def _take_operand(operator: str, operand: Any, constants: list[Any], depth: int) -> Any:
    """Return what an operand adds to the structure, and append its constants."""
    if isinstance(operand, Operand):
        return operand._held or operand._take(constants, depth + 1)
    if operator in _LITERALS and (operand is None or operand is True or operand is False):
        # A text, since True is 1 in a dictionary.
        return repr(operand)
    if operator == "in":
        among = members(operand)
        constants.append(among)
        if not operand:
            # Nothing is among no values, which needs no look at any record.
            return "empty"
        return "odd" if type(among) is Members and not are_sure(operand) else None
    if operator == "matches":
        constants.append(operand.search)
        return None
    constants.append(operand)
    # No index can be asked for an odd one.
    return type(operand) if operator in RANGES else None if is_sure(operand) else "odd"


_METHODS: Final = {
    "in": "in_",
    "is": "is_",
    "contains": "contains",
    "between": "between",
    "startswith": "startswith",
    "endswith": "endswith",
    "matches": "matches",
}


def _combined(kind: type[And] | type[Or], left: object, right: object) -> Expression:
    """Return the combination of both sides; chains of one kind stay flat."""
    parts: list[Expression] = []
    for side in (left, right):
        if isinstance(side, kind):
            parts.extend(side.parts)
        elif isinstance(side, Expression):
            parts.append(side)
        elif callable(side) and not isinstance(side, type):
            parts.append(as_condition(side))
        else:
            return NotImplemented  # type: ignore[no-any-return]
    return kind(tuple(parts))


def _shown_part(expression: Expression) -> str:
    """Show a part in parentheses unless it binds more tightly than any operator around it."""
    is_loose = isinstance(expression, (And, Or, Callback)) or (
        isinstance(expression, Comparison) and expression.operator not in _METHODS
    )
    return f"({expression!r})" if is_loose else repr(expression)
