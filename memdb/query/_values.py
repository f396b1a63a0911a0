"""What conditions compare and queries order, group and select by, and how it is compared.

A value is taken from a record, calculated from what is taken, or given when the query runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, NoReturn

from memdb.errors import QueryError, shown
from memdb.query._conditions import (
    PLAIN,
    Comparison,
    Expression,
    Node,
    Operand,
    any_of,
    deeper,
)

if TYPE_CHECKING:
    from memdb.query._aggregates import Aggregate

# Nothing that could be a value or a condition in the wrong place.
_SIMPLE: Final = PLAIN | {bool, NoneType}

# A comparison of a parameter with a field is turned round, so that the field comes first.
_MIRRORED: Final = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


class Value(Operand):
    """Take something from a record: compare it, calculate with it, order by it.

    Threads: a value never changes, so that it may be shared freely.

    Example:
        >>> from memdb.query import F
        >>> (F.price * F.amount) % 100 == 0
        ((F.price * F.amount) % 100) == 0
    """

    __slots__ = ("_held",)

    # Otherwise numbers and arrays of NumPy take a value apart that stands on their right.
    __array_ufunc__ = None

    # Without this, iter() would try __getitem__ with 0, 1, 2 ... where there is one.
    __iter__ = None

    __hash__ = None  # type: ignore[assignment]

    def __init__(self) -> None:
        self._held = None

    def __eq__(self, value: object) -> Expression:  # type: ignore[override]
        # The everyday way, half as long as the other.
        if type(value) in _SIMPLE:
            return Comparison((value,), "==", self)
        return self._compare("==", value)

    def __ne__(self, value: object) -> Expression:  # type: ignore[override]
        if type(value) in _SIMPLE:
            return Comparison((value,), "!=", self)
        return self._compare("!=", value)

    def __lt__(self, value: Any) -> Expression:
        if type(value) in _SIMPLE:
            return Comparison((value,), "<", self)
        return self._compare("<", value)

    def __le__(self, value: Any) -> Expression:
        if type(value) in _SIMPLE:
            return Comparison((value,), "<=", self)
        return self._compare("<=", value)

    def __gt__(self, value: Any) -> Expression:
        if type(value) in _SIMPLE:
            return Comparison((value,), ">", self)
        return self._compare(">", value)

    def __ge__(self, value: Any) -> Expression:
        if type(value) in _SIMPLE:
            return Comparison((value,), ">=", self)
        return self._compare(">=", value)

    def in_(self, values: Iterable[Any] | Value) -> Expression:
        """Match the records whose value equals one of `values`.

        Args:
            values: Read once, now; or a parameter, which stands for any collection; or a field
                that holds one. A string is refused, since its letters are hardly meant.

        Raises:
            QueryError: `values` is a string or can't be iterated over.

        Example:
            >>> from memdb.query import F
            >>> F.name.in_(["Kyle", "Stan"])
            F.name.in_(['Kyle', 'Stan'])
        """
        if isinstance(values, Value):
            if isinstance(values, Parameter):
                return Comparison((values,), "in", self)
            return Comparison((self,), "contains", values)
        if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
            raise QueryError(
                f"{self!r}.in_() takes a collection of values, not a {type(values).__name__}. "
                "For a part of a text use .contains(), for a single value ==."
            )
        taken = [self._checked(value) for value in values]
        if not any(isinstance(value, Value) for value in taken):
            return Comparison((taken,), "in", self)
        constants = [value for value in taken if not isinstance(value, Value)]
        among = [Comparison((constants,), "in", self)] if constants else []
        return any_of([*among, *[self == value for value in taken if isinstance(value, Value)]])

    def is_(self, value: bool | None) -> Expression:
        """Match the records whose value is this very None, True or False.

        An absent value is not None: `F.address.city.is_(None)` does not match where the address
        itself is None.

        Raises:
            QueryError: `value` is something else; `==` is meant.

        Example:
            >>> from memdb.query import F
            >>> F.email.is_(None)
            F.email.is_(None)
        """
        if value is not None and value is not True and value is not False:
            raise QueryError(f"{self!r}.is_() takes None, True or False. Use == for other values.")
        return Comparison((value,), "is", self)

    def is_none(self) -> Expression:
        """Match the records whose value is None; the same as `is_(None)`.

        Example:
            >>> from memdb.query import F
            >>> F.email.is_none()
            F.email.is_(None)
        """
        return Comparison((None,), "is", self)

    def contains(self, value: object) -> Expression:
        """Match the records in whose value `value` is, as Python's `in` sees it.

        That is an element of a list, tuple or set, a key of a dict, a part of a text.

        Example:
            >>> from memdb.query import F
            >>> F.tags.contains("tv")
            F.tags.contains('tv')
        """
        return Comparison((self._checked(value),), "contains", self)

    def between(self, low: Any, high: Any) -> Expression:
        """Match the records whose value lies between `low` and `high`, both included.

        Example:
            >>> from memdb.query import F
            >>> F.age.between(18, 65)
            F.age.between(18, 65)
        """
        return Comparison((self._checked(low), self._checked(high)), "between", self)

    def startswith(self, prefix: str | bytes | Value) -> Expression:
        """Match the records whose text or bytes begin with `prefix`.

        Raises:
            QueryError: `prefix` is neither text nor bytes.

        Example:
            >>> from memdb.query import F
            >>> F.name.startswith("Mc")
            F.name.startswith('Mc')
        """
        return self._compare_text("startswith", prefix)

    def endswith(self, suffix: str | bytes | Value) -> Expression:
        """Match the records whose text or bytes end with `suffix`.

        Raises:
            QueryError: `suffix` is neither text nor bytes.

        Example:
            >>> from memdb.query import F
            >>> F.name.endswith("son")
            F.name.endswith('son')
        """
        return self._compare_text("endswith", suffix)

    def matches(self, pattern: str | bytes | re.Pattern[Any] | Value) -> Expression:
        """Match the records in whose text the regular expression is found, anywhere.

        Args:
            pattern: As `re.search` takes it: `^` and `$` anchor it, `re.compile` gives it flags.

        Raises:
            QueryError: `pattern` is no regular expression.

        Example:
            >>> from memdb.query import F
            >>> F.name.matches(r"^Mc[A-Z]")
            F.name.matches('^Mc[A-Z]')
        """
        if isinstance(pattern, Parameter):
            return Comparison((pattern,), "matches", self)
        return Comparison((compiled_pattern(pattern, f"{self!r}.matches()"),), "matches", self)

    def len_(self) -> Value:
        """Return the length of the value: of a text, a collection.

        Example:
            >>> from memdb.query import F
            >>> F.tags.len_() >= 2
            F.tags.len_() >= 2
        """
        return Function("len", self)

    def asc(self) -> Order:
        """Return the term to order by this value, rising."""
        return Order(self, False)

    def desc(self) -> Order:
        """Return the term to order by this value, falling.

        Example:
            >>> from memdb.query import F
            >>> (F.score % 8).desc()
            (F.score % 8).desc()
        """
        return Order(self, True)

    def sum_(self) -> Aggregate:
        """Return the sum of the value over a group; None and absent values are left out."""
        return _aggregate("sum", self)

    def min_(self) -> Aggregate:
        """Return the smallest value of a group, in the total order."""
        return _aggregate("min", self)

    def max_(self) -> Aggregate:
        """Return the largest value of a group, in the total order."""
        return _aggregate("max", self)

    def mean_(self) -> Aggregate:
        """Return the mean of the value over a group."""
        return _aggregate("mean", self)

    def _compare(self, operator: str, value: object) -> Expression:
        checked = self._checked(value)
        is_turned = isinstance(self, Parameter) and isinstance(checked, Value)
        if is_turned and not isinstance(checked, Parameter):
            return Comparison((self,), _MIRRORED[operator], checked)
        return Comparison((checked,), operator, self)

    def _compare_text(self, operator: str, text: object) -> Expression:
        if not isinstance(text, (str, bytes, Value)):
            raise QueryError(
                f"{self!r}.{operator}() takes text or bytes, not a {type(text).__name__}."
            )
        return Comparison((text,), operator, self)

    def _checked(self, value: Any) -> Any:
        """Return what to compare with, or refuse a condition in its place."""
        if isinstance(value, (Expression, Order)):
            raise QueryError(
                f"{self!r} can be compared with a value, not with {value!r}. "
                "Combine conditions with & and |, with parentheses around each comparison."
            )
        return value

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

    def __add__(self, other: Any) -> Value:
        return self._calculate("+", self, other)

    def __radd__(self, other: Any) -> Value:
        return self._calculate("+", other, self)

    def __sub__(self, other: Any) -> Value:
        return self._calculate("-", self, other)

    def __rsub__(self, other: Any) -> Value:
        return self._calculate("-", other, self)

    def __mul__(self, other: Any) -> Value:
        return self._calculate("*", self, other)

    def __rmul__(self, other: Any) -> Value:
        return self._calculate("*", other, self)

    def __truediv__(self, other: Any) -> Value:
        return self._calculate("/", self, other)

    def __rtruediv__(self, other: Any) -> Value:
        return self._calculate("/", other, self)

    def __floordiv__(self, other: Any) -> Value:
        return self._calculate("//", self, other)

    def __rfloordiv__(self, other: Any) -> Value:
        return self._calculate("//", other, self)

    def __mod__(self, other: Any) -> Value:
        return self._calculate("%", self, other)

    def __rmod__(self, other: Any) -> Value:
        return self._calculate("%", other, self)

    def __pow__(self, other: Any) -> Value:
        return self._calculate("**", self, other)

    def __rpow__(self, other: Any) -> Value:
        return self._calculate("**", other, self)

    def __neg__(self) -> Value:
        return Function("-", self)

    def __abs__(self) -> Value:
        return Function("abs", self)

    def _calculate(self, operator: str, left: Any, right: Any) -> Value:
        return Arithmetic(operator, self._checked(left), self._checked(right))

    def __reduce__(self) -> tuple[Any, ...]:
        cls = type(self)
        return cls, tuple([getattr(self, name) for name in cls.__slots__])


class Arithmetic(Value):
    """Calculate with two operands, each a value or a constant."""

    # As the constructor takes them, for copies.
    __slots__ = ("operator", "left", "right")  # noqa: RUF023

    def __init__(self, operator: str, left: Any, right: Any) -> None:
        self.operator = operator
        self.left = left
        self.right = right
        self._held = None

    def _inner(self) -> Iterable[Node]:
        """Return the operands that are no constants."""
        return [each for each in (self.left, self.right) if isinstance(each, Value)]

    def _take(self, constants: list[Any], depth: int) -> Any:
        """Return the structure, and append the constants in the order of the source."""
        depth = deeper(depth)
        return (
            self.operator,
            _take(self.left, constants, depth),
            _take(self.right, constants, depth),
        )

    def _enclosed(self) -> str:
        """Return how the value shows itself in the middle of something larger."""
        return f"({self!r})"

    def __repr__(self) -> str:
        return f"{_shown(self.left)} {self.operator} {_shown(self.right)}"


class Function(Value):
    """Apply one of a few functions to a value: "len", "abs", and "-" for its negative."""

    __slots__ = ("name", "value")

    def __init__(self, name: str, value: Any) -> None:
        self.name = name
        self.value = value
        self._held = None

    def _inner(self) -> Iterable[Node]:
        """Return the operand, if it is no constant."""
        return [self.value] if isinstance(self.value, Value) else ()

    def _take(self, constants: list[Any], depth: int) -> Any:
        """Return the structure, and append the constants in the order of the source."""
        return self.name, _take(self.value, constants, deeper(depth))

    def _enclosed(self) -> str:
        """Return how the value shows itself in the middle of something larger."""
        return f"({self!r})" if self.name == "-" else repr(self)

    def __repr__(self) -> str:
        if self.name == "abs":
            return f"abs({self.value!r})"
        inside = _shown(self.value)
        return f"-{inside}" if self.name == "-" else f"{inside}.len_()"


class Constant(Value):
    """Stand for a parameter that was given, where only a value can stand."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value
        self._held = None

    def _take(self, constants: list[Any], depth: int) -> Any:
        """Return the structure, and append the constant."""
        constants.append(self.value)
        return ("constant",)

    def __repr__(self) -> str:
        return repr(self.value)


class Parameter(Value):
    """Stand for a value that is given when the query runs, by `name`."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name
        self._held = ("parameter", name)

    def __repr__(self) -> str:
        return f"P.{self.name}"


class Order:
    """Order by a value.

    Attributes:
        value: What is ordered by.
        is_descending: From the last to the first in the total order.
    """

    __slots__ = ("is_descending", "value")

    def __init__(self, value: Value, is_descending: bool) -> None:
        self.value = value
        self.is_descending = is_descending

    def desc(self) -> Order:
        """Return the same term, falling."""
        return Order(self.value, True)

    def asc(self) -> Order:
        """Return the same term, rising."""
        return Order(self.value, False)

    def __reduce__(self) -> tuple[Any, ...]:
        return Order, (self.value, self.is_descending)

    def __repr__(self) -> str:
        return f"{self.value._enclosed()}.{'desc' if self.is_descending else 'asc'}()"


def compiled_pattern(pattern: object, place: str) -> re.Pattern[Any]:
    """Return a regular expression compiled.

    Raises:
        QueryError: It is none.
    """
    if isinstance(pattern, re.Pattern):
        return pattern
    if not isinstance(pattern, (str, bytes)):
        raise QueryError(f"{place} takes a regular expression, not a {type(pattern).__name__}.")
    try:
        return re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise QueryError(
            f"{place}: {shown(pattern)} is no regular expression: {error}. re.escape() takes any "
            "text literally."
        ) from error


def _take(operand: Any, constants: list[Any], depth: int) -> Any:
    """Return what an operand adds to the structure, and append its constants."""
    if isinstance(operand, Value):
        return operand._held or operand._take(constants, depth)
    constants.append(operand)
    return None


def _shown(operand: Any) -> str:
    return operand._enclosed() if isinstance(operand, Value) else repr(operand)


def _aggregate(kind: str, value: Value) -> Aggregate:
    from memdb.query._aggregates import Aggregate

    return Aggregate(kind, value)
