"""Fields: the values that a record has, and how they are named."""

from __future__ import annotations

from typing import Final

from memdb.errors import QueryError, shown
from memdb.query._values import Order, Value


class Field(Value):
    """Name a field of a record, or a value inside of one, and compare it.

    Further attributes lead deeper: `F.address.city`; a number in brackets is an element:
    `F.tags[0]`. A name that is a method here, or is no identifier, is reached with brackets:
    `F.address["contains"]`.

    Example:
        >>> F.address.city == "Zürich"
        F.address.city == 'Zürich'
    """

    __slots__ = ("_path",)

    def __init__(self, path: tuple[str | int, ...]) -> None:
        self._path = path
        self._held = ("field", path)

    def __getattr__(self, name: str) -> Field:
        if name.startswith("__"):
            raise AttributeError(name)
        return Field((*self._path, name))

    def __getitem__(self, name: str | int) -> Field:
        if type(name) is int:
            return Field((*self._path, name))
        return Field((*self._path, _checked_name(name)))

    def __repr__(self) -> str:
        steps = (
            f".{name}" if isinstance(name, str) and _is_plain(name) else f"[{name!r}]"
            for name in self._path
        )
        return "F" + "".join(steps)


class Fields:
    """Give the field of each name: `F.name`, or `F["a name"]` where it is no identifier.

    Example:
        >>> F.born, F["date of birth"]
        (F.born, F['date of birth'])
    """

    def __getattr__(self, name: str) -> Field:
        if name.startswith("__"):
            raise AttributeError(name)
        field = Field((name,))
        # The next time the field is found without a call, in a tenth of the time.
        if len(self.__dict__) < _KEPT_FIELDS:
            self.__dict__[name] = field
        return field

    def __getitem__(self, name: str) -> Field:
        return Field((_checked_name(name),))

    __iter__ = None

    def __reduce__(self) -> str:
        return "F"

    def __repr__(self) -> str:
        return "F"


_KEPT_FIELDS: Final = 1000

F: Final = Fields()


def value_term(term: object) -> Value:
    """Return what a query is given to select or group by as a value: a field by its name.

    Raises:
        QueryError: It is neither a value nor a name.
    """
    if isinstance(term, Value):
        return term
    if isinstance(term, str) and term:
        return Field(tuple(term.split(".")))
    raise QueryError(f"{shown(term)} is no field. Give F.name, or the name as a text.")


def order_term(term: object) -> Order:
    """Return what a query is given to order by as a term: `F.a.desc()`, `F.a`, "name", "-name".

    Raises:
        QueryError: It is none of these.
    """
    if isinstance(term, Order):
        return term
    if isinstance(term, str) and term.startswith("-"):
        return Order(value_term(term[1:]), True)
    return Order(value_term(term), False)


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
