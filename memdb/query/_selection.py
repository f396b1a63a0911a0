"""What a query makes of each record: some values, by place or by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from memdb.errors import QueryError, shown
from memdb.query._aggregates import Aggregate
from memdb.query._conditions import walk
from memdb.query._fields import Field, value_term
from memdb.query._values import Value

if TYPE_CHECKING:
    from memdb._records import Records


class Selection(NamedTuple):
    """Some values, and what to make of them.

    Attributes:
        values: What is taken.
        names: Of the values: as given, the last step of a field, or the expression itself.
        into: Called with the values by name; None for tuples.
        is_single: There is one value, which is given as it is.
    """

    values: tuple[Value, ...]
    names: tuple[str, ...]
    into: Callable[..., Any] | None = None
    is_single: bool = False

    @property
    def has_aggregates(self) -> bool:
        """Whether a value is made of several records."""
        return any(isinstance(node, Aggregate) for value in self.values for node in walk(value))

    def make(self, columns: list[list[Any]]) -> list[Any]:
        """Return what is given for the values."""
        if self.is_single:
            return columns[0]
        if self.into is None:
            return list(zip(*columns, strict=True))
        into, names = self.into, self.names
        return [into(**dict(zip(names, row, strict=True))) for row in zip(*columns, strict=True)]

    def by_name(self, store: Records) -> Selection:
        """Return the selection that makes dicts.

        Raises:
            QueryError: Two values have the same name.
        """
        refuse_same_names(self.names, store)
        return self._replace(into=dict, is_single=False)


def selected(
    values: tuple[object, ...], named: Mapping[str, object], into: Any, store: Records
) -> Selection:
    """Return what `Query.select` was given.

    Raises:
        QueryError: There is nothing, something that is no value, or a value without a name that
            ``into`` needs.
    """
    taken = [value_term(value) for value in (*values, *named.values())]
    if not taken:
        raise QueryError(
            f"{store.name}: select() was given nothing. Name the fields, as in"
            " select('name', F.born), or leave it out for whole records."
        )
    names = [name_of(value) for value in taken[: len(values)]] + list(named)
    if into is not None:
        if not callable(into):
            raise QueryError(
                f"{store.name}: select(into=) takes a class or a function, not {shown(into)}."
            )
        for value, name in zip(taken, names[: len(values)], strict=False):
            if not isinstance(value, Field) or not name.isidentifier():
                raise QueryError(
                    f"{store.name}: {value!r} needs a name for into=: give it as a keyword, as in"
                    f" select(total={value!r}, into=...)."
                )
        refuse_same_names(names, store)
    return Selection(tuple(taken), tuple(names), into)


def name_of(value: Value) -> str:
    """Return what a value is called that was given no name."""
    return str(value._path[-1]) if isinstance(value, Field) else repr(value)


def refuse_same_names(names: list[str] | tuple[str, ...], store: Records) -> None:
    """Raise where two values would have the same name.

    Raises:
        QueryError: It is so.
    """
    for name in names:
        if names.count(name) > 1:
            raise QueryError(
                f"{store.name}: two of the selected values are called {name!r}. Give one another"
                " name, as in select(F.a.id, other=F.b.id)."
            )
