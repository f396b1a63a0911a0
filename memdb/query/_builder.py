"""What can be said of a query before it is asked; see `memdb.query._query`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, cast, overload

from memdb.errors import QueryError, shown
from memdb.query._conditions import And, Expression, as_condition
from memdb.query._fields import Field, order_term, value_term
from memdb.query._paging import Cursor, check_cursor, read_cursor
from memdb.query._parameters import (
    bind,
    bind_value,
    check_names,
    parameters,
)
from memdb.query._selection import Selection, name_of, selected
from memdb.query._values import Order, Parameter, Value

if TYPE_CHECKING:
    from memdb._store import Store
    from memdb.query._query import Query

T = TypeVar("T")
R = TypeVar("R")


class QueryBuilder(Generic[T]):
    """The parts of a query, and the methods that give another query with more of them."""

    __slots__ = (
        "_condition",
        "_cursor",
        "_group",
        "_having",
        "_is_distinct",
        "_limit",
        "_order",
        "_selection",
        "_skip",
        "_store",
    )

    def __init__(
        self,
        store: Store,
        condition: Expression | None = None,
        order: tuple[Order, ...] = (),
        skip: int | Parameter = 0,
        limit: int | Parameter | None = None,
        cursor: Cursor | None = None,
        selection: Selection | None = None,
        is_distinct: bool = False,
        group: tuple[Value, ...] | None = None,
        having: Expression | None = None,
    ) -> None:
        self._store = store
        self._condition = condition
        self._order = order
        self._skip = skip
        self._limit = limit
        self._cursor = cursor
        self._selection = selection
        self._is_distinct = is_distinct
        self._group = group
        self._having = having

    def __repr__(self) -> str:
        parts = [f"<Query of {self._store.name!r}"]
        if self._condition is not None:
            parts.append(f"where {self._condition!r}")
        if self._group is not None:
            parts.append(f"group by {', '.join(map(repr, self._group))}")
        if self._having is not None:
            parts.append(f"having {self._having!r}")
        if self._order:
            parts.append(f"order by {', '.join(map(repr, self._order))}")
        if self._cursor is not None:
            parts.append("after a cursor")
        if isinstance(self._skip, Parameter) or self._skip:
            parts.append(f"skip {self._skip!r}")
        if self._limit is not None:
            parts.append(f"limit {self._limit!r}")
        if self._selection is not None:
            parts.append(f"select {', '.join(self._selection.names)}")
        return " ".join([*parts, "distinct"] if self._is_distinct else parts) + ">"

    def _copy(self) -> Self:
        return type(self)(
            self._store,
            self._condition,
            self._order,
            self._skip,
            self._limit,
            self._cursor,
            self._selection,
            self._is_distinct,
            self._group,
            self._having,
        )

    # -- saying more ---------------------------------------------------------------------

    def where(self, /, *conditions: Expression | Callable[[Any], object], **equals: Any) -> Self:
        """Return the query for the records that match all of this as well.

        Args:
            conditions: Expressions of `F`, or callables that are given a copy of each record.
            equals: Fields and what they must equal.

        Raises:
            QueryError: A condition is none. A field that does not exist is refused when the query
                is asked.
        """
        query = self._copy()
        query._condition = joined(self._condition, conditions, equals)
        return query

    def order_by(self, *terms: str | Value | Order) -> Self:
        """Return the query for the same records in another order, instead of one given before.

        Args:
            terms: The most significant first: names of fields, with a minus for falling, values
                as ``F.born`` or ``F.score % 8``, or ``F.born.desc()``. Values of any types are in
                one total order: absent, None, numbers, NaN, text, bytes, dates, datetimes and so
                on. What all terms hold equal rises by identity, also under a falling term.

        Raises:
            QueryError: A term is none.
        """
        query = self._copy()
        query._order = tuple([order_term(term) for term in terms])
        return query

    def skip(self, count: int | Parameter) -> Self:
        """Return the query without the first ``count`` results.

        Raises:
            QueryError: It is no number from 0.
        """
        query = self._copy()
        is_given = not isinstance(count, Parameter)
        query._skip = checked_count(count, "skip", self._store) if is_given else count
        return query

    def limit(self, count: int | Parameter | None) -> Self:
        """Return the query for at most ``count`` results, None for all of them.

        Raises:
            QueryError: It is no number from 0.
        """
        query = self._copy()
        is_given = count is not None and not isinstance(count, Parameter)
        query._limit = checked_count(count, "limit", self._store) if is_given else count
        return query

    def after(self, cursor: str | None) -> Self:
        """Return the query for what comes behind the end of a page.

        In this way pages join up though records are inserted and deleted between them.

        Args:
            cursor: `Page.cursor` of a page of this query, in the same order; None to begin.

        Raises:
            QueryError: The text is no cursor, or one of another order; also when it is asked.
        """
        query = self._copy()
        query._cursor = None if cursor is None else read_cursor(cursor, self._store)
        if query._cursor is not None and self._order:
            check_cursor(query._cursor, self._order, self._store)
        return query

    @overload
    def select(self, /, *values: str | Value, **named: str | Value) -> Query[tuple[Any, ...]]: ...
    @overload
    def select(
        self, /, *values: str | Value, into: Callable[..., R], **named: str | Value
    ) -> Query[R]: ...
    def select(self, /, *values: Any, into: Any = None, **named: Any) -> Query[Any]:
        """Return the query for values of the records instead of whole ones.

        Args:
            values: Names of fields, or values as ``F.address.city`` and ``F.price * F.amount``.
            into: Called with the values by name for each record, as a class; tuples if it is None.
                A field is named by its last step.
            named: Further values, by names of your own.

        Raises:
            QueryError: There is no value, one is none, or has no name that ``into`` needs.
        """
        query = self._copy()
        query._selection = selected(values, named, into, self._store)
        return cast("Query[Any]", query)

    def values(self, value: str | Value) -> Query[Any]:
        """Return the query for one value of each record, as it is, not in a tuple.

        Raises:
            QueryError: It is no value.
        """
        query = self._copy()
        taken = value_term(value)
        query._selection = Selection((taken,), (name_of(taken),), None, True)
        return cast("Query[Any]", query)

    def distinct(self) -> Self:
        """Return the query that gives equal results only once, where the first one is.

        Two NaN count as equal. Skip and limit are counted afterwards.
        """
        query = self._copy()
        query._is_distinct = True
        return query

    def group_by(self, *terms: str | Value) -> Query[tuple[Any, ...]]:
        """Return the query for groups of records with equal values.

        The groups are in the total order of these values, or as `order_by` says. `select` says
        what to give for each: these values, ``count_()``, and ``sum_()``, ``min_()``, ``max_()``
        and ``mean_()`` of a value.

        Raises:
            QueryError: A term is none, or there is none.
        """
        if not terms:
            raise QueryError(
                f"{self._store.name}: group_by() was given nothing. Name the fields, or select"
                " aggregates without it for a single group."
            )
        query = self._copy()
        query._group = tuple([value_term(term) for term in terms])
        return cast("Query[Any]", query)

    def having(self, condition: Expression) -> Self:
        """Return the query for the groups that match this as well.

        Args:
            condition: Of what they are grouped by, of aggregates, and of selected values by name.

        Raises:
            QueryError: It is no condition.
        """
        if not isinstance(condition, Expression):
            raise QueryError(
                f"{self._store.name}: having() takes an expression, as count_() > 1, not"
                f" {shown(condition)}."
            )
        query = self._copy()
        query._having = joined(self._having, (condition,), {})
        return query

    @property
    def _has_window(self) -> bool:
        """Whether only a part of the results is wanted."""
        return self._limit is not None or not (type(self._skip) is int and self._skip == 0)

    # -- parameters ----------------------------------------------------------------------

    def _nodes(self) -> list[Expression | Value]:
        """Return all that may have parameters in it."""
        nodes: list[Any] = [self._condition, *[term.value for term in self._order], self._having]
        nodes += self._group or ()
        nodes += [] if self._selection is None else self._selection.values
        nodes += [count for count in (self._skip, self._limit) if isinstance(count, Parameter)]
        return [node for node in nodes if node is not None]

    def _bound(self, given: Mapping[str, Any]) -> Self:
        """Return the query with the values of its parameters in their places.

        Raises:
            QueryError: A parameter is missing, there is none of a name, or a value does not fit.
        """
        known = parameters(*self._nodes())
        check_names(known, given)
        # An iterator can be read only once.
        values: dict[str, Any] = {
            name: list(value) if isinstance(value, Iterator) else value
            for name, value in given.items()
        }

        def own(node: Expression | Value) -> dict[str, Any]:
            return {name: values[name] for name in parameters(node) if name in values}

        def bound(value: Value) -> Value:
            return bind_value(value, own(value))

        query = self
        if isinstance(self._skip, Parameter):
            query = query.skip(values[self._skip.name])
        if isinstance(self._limit, Parameter):
            query = query.limit(values[self._limit.name])
        query = query._copy()
        if self._condition is not None:
            query._condition = bind(self._condition, own(self._condition))
        if self._having is not None:
            query._having = bind(self._having, own(self._having))
        query._order = tuple([Order(bound(term.value), term.is_descending) for term in self._order])
        if self._group is not None:
            query._group = tuple(map(bound, self._group))
        if self._selection is not None:
            taken = tuple(map(bound, self._selection.values))
            query._selection = self._selection._replace(values=taken)
        return query


def joined(
    condition: Expression | None,
    conditions: tuple[Expression | Callable[[Any], object], ...],
    equals: Mapping[str, Any],
) -> Expression | None:
    """Return what matches all of some conditions and equalities, None where there is none.

    Raises:
        QueryError: A condition is none.
    """
    parts: list[Expression] = []
    for each in conditions if condition is None else (condition, *conditions):
        part = each if isinstance(each, Expression) else as_condition(each)
        if isinstance(part, And):
            parts.extend(part.parts)
        else:
            parts.append(part)
    for name, value in equals.items():
        parts.append(Field((name,)) == value)
    return And(tuple(parts)) if len(parts) > 1 else parts[0] if parts else None


def checked_count(count: object, name: str, store: Store) -> int:
    """Return a number of results that was given.

    Raises:
        QueryError: It is none.
    """
    if type(count) is not int or count < 0:
        raise QueryError(
            f"{store.name}: {name} is a number of results, 0 or more, not {shown(count)}."
        )
    return count
