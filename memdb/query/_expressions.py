"""What a condition is made of: fields, comparisons, and their combinations.

An expression is an immutable value that says what to look for; it knows no class and no database.
`evaluate` defines what each one means, record by record; the compiler must agree with it.

Meaning of a comparison, the same everywhere:

- Where the field is absent (a dict without the key, a path through None or through an object
  without the attribute), where `<` and its kin compare None or values of types that have no order,
  and where `in`, `startswith` and so on do not apply, the comparison does not match. It never
  raises.
- `!=` is the opposite of `==`, and `~` the opposite of whatever it stands before: each record
  matches exactly one of `c` and `~c`. So `~(F.age < 18)` also finds the records without an age.
- A dict is looked into by key, anything else by attribute.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NoReturn

from memdb.errors import QueryError

# What a comparison of two values may raise when they do not fit each other. ArithmeticError:
# Decimal raises InvalidOperation for a NaN that is compared with <.
NO_MATCH: Final = (TypeError, AttributeError, LookupError, ArithmeticError)


class Expression:
    """Describe which records match; combine with `&`, `|` and `~`.

    Threads: an expression never changes, so that it may be shared freely.

    Example:
        >>> (F.age >= 18) | (F.name == "Eric")
        (F.age >= 18) | (F.name == 'Eric')
    """

    __slots__ = ()

    def __and__(self, other: Expression) -> Expression:
        """Match the records that both sides match."""
        if not isinstance(other, Expression):
            return NotImplemented
        return And((*_parts(self, And), *_parts(other, And)))

    def __or__(self, other: Expression) -> Expression:
        """Match the records that either side matches."""
        if not isinstance(other, Expression):
            return NotImplemented
        return Or((*_parts(self, Or), *_parts(other, Or)))

    def __invert__(self) -> Expression:
        """Match exactly the records that this expression does not."""
        return Not(self)

    def __bool__(self) -> NoReturn:
        raise QueryError(
            f"The condition {self!r} has no truth value of its own. Use & | ~ instead of "
            "and, or, not, with parentheses around each comparison, and "
            ".between() or .in_() instead of a chain or `in`."
        )


class Comparison(Expression):
    """Compare the value at `path` with `operands` by `operator`, one of the keys of `TESTS`."""

    __slots__ = ("operands", "operator", "path")

    def __init__(self, path: tuple[str, ...], operator: str, operands: tuple[Any, ...]) -> None:
        self.path = path
        self.operator = operator
        self.operands = operands

    def __repr__(self) -> str:
        field = repr(Field(self.path))
        if self.operator in _METHODS:
            return f"{field}.{_METHODS[self.operator]}({', '.join(map(repr, self.operands))})"
        return f"{field} {self.operator} {self.operands[0]!r}"


class And(Expression):
    """Match what all of `parts` match."""

    __slots__ = ("parts",)

    def __init__(self, parts: tuple[Expression, ...]) -> None:
        self.parts = parts

    def __repr__(self) -> str:
        return " & ".join(map(_enclosed, self.parts))


class Or(Expression):
    """Match what any of `parts` matches."""

    __slots__ = ("parts",)

    def __init__(self, parts: tuple[Expression, ...]) -> None:
        self.parts = parts

    def __repr__(self) -> str:
        return " | ".join(map(_enclosed, self.parts))


class Not(Expression):
    """Match what `part` does not match."""

    __slots__ = ("part",)

    def __init__(self, part: Expression) -> None:
        self.part = part

    def __repr__(self) -> str:
        return f"~{_enclosed(self.part)}"


class Field:
    """Name a field of a record, or a value inside of one, and compare it.

    Further attributes lead deeper: `F.address.city`. A name that is a method here, or is no
    identifier, is reached with brackets: `F.address["contains"]`.

    Example:
        >>> F.address.city == "Zürich"
        F.address.city == 'Zürich'
    """

    __slots__ = ("_path",)

    def __init__(self, path: tuple[str, ...]) -> None:
        self._path = path

    def __getattr__(self, name: str) -> Field:
        if name.startswith("__"):
            raise AttributeError(name)
        return Field((*self._path, name))

    def __getitem__(self, name: str) -> Field:
        return Field((*self._path, _checked_name(name)))

    # Without this, iter() would try __getitem__ with 0, 1, 2 ...
    __iter__ = None

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, value: object) -> Expression:  # type: ignore[override]
        return self._compare("==", value)

    def __ne__(self, value: object) -> Expression:  # type: ignore[override]
        return self._compare("!=", value)

    def __lt__(self, value: Any) -> Expression:
        return self._compare("<", value)

    def __le__(self, value: Any) -> Expression:
        return self._compare("<=", value)

    def __gt__(self, value: Any) -> Expression:
        return self._compare(">", value)

    def __ge__(self, value: Any) -> Expression:
        return self._compare(">=", value)

    def in_(self, values: Iterable[Any]) -> Expression:
        """Match the records whose value equals one of `values`.

        Args:
            values: Read once, now. A string is refused, since its letters are hardly meant.

        Raises:
            QueryError: `values` is a string or can't be iterated over.

        Example:
            >>> F.name.in_(["Kyle", "Stan"])
            F.name.in_(['Kyle', 'Stan'])
        """
        if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
            raise QueryError(
                f"{self!r}.in_() takes a collection of values, not a {type(values).__name__}. "
                "For a part of a text use .contains(), for a single value ==."
            )
        taken = list(values)
        for value in taken:
            self._refuse_expression(value)
        return Comparison(self._path, "in", (taken,))

    def is_(self, value: bool | None) -> Expression:
        """Match the records whose value is this very None, True or False.

        An absent value is not None: `F.address.city.is_(None)` does not match where the address
        itself is None.

        Raises:
            QueryError: `value` is something else; `==` is meant.

        Example:
            >>> F.email.is_(None)
            F.email.is_(None)
        """
        if value is not None and value is not True and value is not False:
            raise QueryError(f"{self!r}.is_() takes None, True or False. Use == for other values.")
        return Comparison(self._path, "is", (value,))

    def contains(self, value: object) -> Expression:
        """Match the records in whose value `value` is, as Python's `in` sees it.

        That is an element of a list, tuple or set, a key of a dict, a part of a text.

        Example:
            >>> F.tags.contains("tv")
            F.tags.contains('tv')
        """
        self._refuse_expression(value)
        return Comparison(self._path, "contains", (value,))

    def between(self, low: Any, high: Any) -> Expression:
        """Match the records whose value lies between `low` and `high`, both included.

        Example:
            >>> F.age.between(18, 65)
            F.age.between(18, 65)
        """
        self._refuse_expression(low)
        self._refuse_expression(high)
        return Comparison(self._path, "between", (low, high))

    def startswith(self, prefix: str | bytes) -> Expression:
        """Match the records whose text or bytes begin with `prefix`.

        Raises:
            QueryError: `prefix` is neither text nor bytes.

        Example:
            >>> F.name.startswith("Mc")
            F.name.startswith('Mc')
        """
        if not isinstance(prefix, (str, bytes)):
            raise QueryError(
                f"{self!r}.startswith() takes text or bytes, not a {type(prefix).__name__}."
            )
        return Comparison(self._path, "startswith", (prefix,))

    def _compare(self, operator: str, value: object) -> Expression:
        self._refuse_expression(value)
        return Comparison(self._path, operator, (value,))

    def _refuse_expression(self, value: object) -> None:
        """Refuse another field or condition as the value to compare with."""
        if isinstance(value, (Field, Expression)):
            raise QueryError(
                f"{self!r} can be compared with a value, not with {value!r}. "
                "Use a callable, as in lambda record: record.a < record.b."
            )

    def _refuse_operator(self, other: object) -> NoReturn:
        raise QueryError(
            f"{self!r} is a field, not a condition: compare it, and put parentheses around each "
            "comparison, as in (F.a == 1) & (F.b == 2)."
        )

    __and__ = __rand__ = __or__ = __ror__ = _refuse_operator

    def __invert__(self) -> NoReturn:
        self._refuse_operator(None)

    def __bool__(self) -> NoReturn:
        raise QueryError(
            f"The field {self!r} has no truth value of its own. Compare it, as in "
            f"{self!r} == True, and use & | ~ instead of and, or, not."
        )

    def __repr__(self) -> str:
        steps = (f".{name}" if _is_plain(name) else f"[{name!r}]" for name in self._path)
        return "F" + "".join(steps)


class Fields:
    """Give the field of each name: `F.name`, or `F["a name"]` where it is no identifier.

    Example:
        >>> F.born, F["date of birth"]
        (F.born, F['date of birth'])
    """

    __slots__ = ()

    def __getattr__(self, name: str) -> Field:
        if name.startswith("__"):
            raise AttributeError(name)
        return Field((name,))

    def __getitem__(self, name: str) -> Field:
        return Field((_checked_name(name),))

    __iter__ = None

    def __repr__(self) -> str:
        return "F"


F: Final = Fields()


def step(value: Any, name: str) -> Any:
    """Return what `name` leads to in `value`: by key in a dict, by attribute in anything else."""
    if not isinstance(value, dict):
        return getattr(value, name)
    # Not value[name]: a defaultdict would take the name in.
    if name not in value:
        raise KeyError(name)
    return value[name]


def is_in(value: Any, values: Iterable[Any]) -> bool:
    """Whether `value` equals one of `values`; one that can't be compared does not stop the rest."""
    return any(_holds(operator.eq, value, other) for other in values)


def evaluate(expression: Expression, record: Any) -> bool:
    """Whether `record` matches: the definition, and the way out when the compiled code raises."""
    if isinstance(expression, Comparison):
        return _evaluate_comparison(expression, record)
    if isinstance(expression, And):
        return all(evaluate(part, record) for part in expression.parts)
    if isinstance(expression, Or):
        return any(evaluate(part, record) for part in expression.parts)
    if isinstance(expression, Not):
        return not evaluate(expression.part, record)
    raise QueryError(f"{type(expression).__name__} is not a condition that memdb knows.")


def _evaluate_comparison(comparison: Comparison, record: Any) -> bool:
    """Whether the value at the comparison's path fits."""
    negated = comparison.operator == "!="
    value = record
    try:
        for name in comparison.path:
            value = step(value, name)
    except NO_MATCH:
        return negated
    test = TESTS["==" if negated else comparison.operator]
    return _holds(test, value, *comparison.operands) is not negated


def _holds(test: Callable[..., Any], *operands: Any) -> bool:
    """Whether a test says yes; one that does not apply says no."""
    try:
        return bool(test(*operands))
    except NO_MATCH:
        return False


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
}

_METHODS: Final = {
    "in": "in_",
    "is": "is_",
    "contains": "contains",
    "between": "between",
    "startswith": "startswith",
}


def _parts(expression: Expression, kind: type[And] | type[Or]) -> Iterator[Expression]:
    """Yield the parts of a combination of this kind, so that chains stay flat."""
    if isinstance(expression, kind):
        yield from expression.parts
    else:
        yield expression


def _enclosed(expression: Expression) -> str:
    """Show a part in parentheses unless it binds more tightly than any operator around it."""
    is_tight = isinstance(expression, Not) or (
        isinstance(expression, Comparison) and expression.operator in _METHODS
    )
    return repr(expression) if is_tight else f"({expression!r})"


def _checked_name(name: object) -> str:
    """Return a name given in brackets, or refuse what is none."""
    if not isinstance(name, str):
        raise QueryError(
            f"A field is named by text, not by {name!r}. Use .contains() for elements."
        )
    return name


def _is_plain(name: str) -> bool:
    """Whether the name can be written after a dot."""
    return name.isidentifier() and not name.startswith("__") and not hasattr(Field, name)
