"""A joined query: records of several collections that belong together, row by row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    Literal,
    NamedTuple,
    NoReturn,
    TypeVar,
    TypeVarTuple,
    cast,
    overload,
)

from memdb.errors import QueryError
from memdb.query import _export
from memdb.query._builder import QueryBuilder, checked_count, joined
from memdb.query._compiler import compile_condition
from memdb.query._conditions import Expression, conjuncts, has_callback
from memdb.query._distinct import first_places
from memdb.query._explanation import JoinedExplanation
from memdb.query._fields import Field, value_term
from memdb.query._grouping import Groups
from memdb.query._join import Join, nodes_in, stores_in
from memdb.query._joined_explain import analyze_joined, explain_joined
from memdb.query._joined_plans import AHEAD, Base, copied
from memdb.query._joined_prepared import prepared_joined
from memdb.query._ordering import arrange
from memdb.query._paging import Page
from memdb.query._parameters import check_names, missing_parameter, parameters
from memdb.query._reading import column, owned, present
from memdb.query._reducing import greatest, least, mean, total
from memdb.query._row import Row
from memdb.query._row_source import How, RowSource, with_join
from memdb.query._selection import Selection, name_of
from memdb.query._values import Order, Parameter, Value

if TYPE_CHECKING:
    from memdb._collection import Collection
    from memdb.query._prepared import Prepared
    from memdb.query._query import Query

T = TypeVar("T")
R = TypeVar("R")
D = TypeVar("D")
Ts = TypeVarTuple("Ts")
Rs = TypeVarTuple("Rs")

_ENDLESS: Final = 2**62


class _Parts(NamedTuple):
    """A joined query, taken apart.

    Attributes:
        left: The query on the left, with all that could be moved to it.
        condition: What rows must match besides; None for nothing.
        order: The order of rows, where it is not that of the left.
        is_cut: Each record of the left gives one row, so that a part of them is enough.
    """

    left: Query[Any]
    condition: Expression | None
    order: tuple[Order, ...]
    is_cut: bool


class JoinedQuery(QueryBuilder[Any], Generic[*Ts]):
    """A query whose results are rows: a record, and what belongs to it in other collections.

    Made by `Query.join` and `Query.join_many`. Everything that is said of it afterwards is about
    rows: ``F.customer.region`` is a field of what is in the slot ``customer``, ``F.customer`` all
    of that, and a name that is no slot a field of the record on the left. What the query on the
    left says comes first, its limit too.

    All collections are read as of one commit. Results are copies, or can't be changed; a record
    that belongs to several rows is copied once.

    Threads: a query never changes; any thread may ask it.

    >>> import memdb
    >>> from memdb import F
    >>> db = memdb.open(None)
    >>> authors = db.collection("authors")
    >>> books = db.collection("books", indexes=[memdb.HashIndex("author")])
    >>> ann, bob = authors.insert_many([{"name": "Ann"}, {"name": "Bob"}])
    >>> ids = books.insert_many([{"author": ann, "title": "Up"}, {"author": ann, "title": "Down"}])
    >>> written = books.where(title="Up").join(authors, on=F.author, as_="writer")
    >>> for book, writer in written:
    ...     print(book["title"], "by", writer["name"])
    Up by Ann
    >>> with_books = authors.where().join_many(books, back=F.author)
    >>> [(row.authors["name"], len(row.books)) for row in with_books]
    [('Ann', 2), ('Bob', 0)]
    >>> db.close()
    """

    __slots__ = ()

    if TYPE_CHECKING:
        _store: RowSource  # type: ignore[assignment]

    # -- joining -------------------------------------------------------------------------

    @overload
    def join(
        self,
        right: Collection[R] | Query[R] | type[R],
        *,
        how: Literal["inner"],
        on: Any = ...,
        back: Any = ...,
        where: Any = ...,
        as_: str | None = ...,
        then: None = ...,
    ) -> JoinedQuery[*Ts, R]: ...
    @overload
    def join(
        self,
        right: Collection[R] | Query[R] | type[R],
        *,
        on: Any = ...,
        back: Any = ...,
        how: Literal["left"] = ...,
        where: Any = ...,
        as_: str | None = ...,
        then: None = ...,
    ) -> JoinedQuery[*Ts, R | None]: ...
    @overload
    def join(
        self, right: JoinedQuery[*tuple[Any, ...]], *, on: Any = ..., back: Any = ...,
        how: Literal["left", "inner"] = ..., where: Any = ..., as_: str | None = ...,
        then: None = ...,
    ) -> JoinedQuery[*Ts, Any]: ...  # fmt: skip
    @overload
    def join(
        self, right: Any, *, then: Callable[[Any], Any], on: Any = ..., back: Any = ...,
        how: Literal["left", "inner"] = ..., where: Any = ..., as_: str | None = ...,
    ) -> JoinedQuery[*Ts, Any]: ...  # fmt: skip
    def join(
        self,
        right: Any,
        *,
        on: Any = None,
        back: Any = None,
        how: str = "left",
        where: Any = None,
        as_: str | None = None,
        then: Any = None,
    ) -> JoinedQuery[*tuple[Any, ...]]:
        """Return the query for rows with one more slot; see `Query.join`."""
        how_ = How(on, back, how, where, as_, then, False)
        return self._joined_to(right, how_)

    @overload
    def join_many(
        self,
        right: Collection[R] | Query[R] | type[R],
        *,
        on: Any = ...,
        back: Any = ...,
        how: Literal["left", "inner"] = ...,
        where: Any = ...,
        as_: str | None = ...,
        then: None = ...,
    ) -> JoinedQuery[*Ts, tuple[R, ...]]: ...
    @overload
    def join_many(
        self, right: JoinedQuery[*tuple[Any, ...]], *, on: Any = ..., back: Any = ...,
        how: Literal["left", "inner"] = ..., where: Any = ..., as_: str | None = ...,
        then: None = ...,
    ) -> JoinedQuery[*Ts, tuple[Any, ...]]: ...  # fmt: skip
    @overload
    def join_many(
        self, right: Any, *, then: Callable[[Any], Any], on: Any = ..., back: Any = ...,
        how: Literal["left", "inner"] = ..., where: Any = ..., as_: str | None = ...,
    ) -> JoinedQuery[*Ts, tuple[Any, ...]]: ...  # fmt: skip
    def join_many(
        self,
        right: Any,
        *,
        on: Any = None,
        back: Any = None,
        how: str = "left",
        where: Any = None,
        as_: str | None = None,
        then: Any = None,
    ) -> JoinedQuery[*tuple[Any, ...]]:
        """Return the query for rows with one more slot; see `Query.join_many`."""
        how_ = How(on, back, how, where, as_, then, True)
        return self._joined_to(right, how_)

    def _joined_to(self, right: Any, how: How) -> JoinedQuery[*tuple[Any, ...]]:
        query = self._copy()
        query._store = with_join(self._store, right, how)
        return cast("JoinedQuery[*tuple[Any, ...]]", query)

    def after(self, cursor: str | None) -> NoReturn:
        """Refuse cursors, which joined rows have not.

        Raises:
            QueryError: Always.
        """
        raise QueryError(
            f"{self._store.name}: joined rows have no cursors. Say after() of the query on the"
            " left, before the join, or page with skip."
        )

    def __repr__(self) -> str:
        joins = "".join([f" join {join.shown(self._store.names)}" for join in self._store.joins])
        rest = super().__repr__().removeprefix(f"<Query of {self._store.name!r}")
        return f"<{self._store.left!r}{joins}{rest}"

    # -- asking --------------------------------------------------------------------------

    def all(self) -> list[Row[*Ts]]:
        """Return all results.

        Raises:
            QueryError: A slot or field does not exist, or several records belong to a row where
                `join` expects one.

        Cost: that of the query on the left, a look-up for each of its records and join, and of a
            join without an index one pass over its collection.
        """
        return self._made(self._start, self._stop)[0]

    def __iter__(self) -> Iterator[Row[*Ts]]:
        """Iterate over the results as they are now; what is changed meanwhile does not show."""
        return iter(self.all())

    @overload
    def first(self) -> Row[*Ts] | None: ...
    @overload
    def first(self, default: D) -> Row[*Ts] | D: ...
    def first(self, default: Any = None) -> Any:
        """Return the first result, ``default`` when there is none."""
        found = self._some(1)
        return found[0] if found else default

    def one(self) -> Row[*Ts]:
        """Return the only result.

        Raises:
            QueryError: There is none, or more than one.
        """
        found = self._some(2)
        if len(found) == 1:
            return cast("Row[*Ts]", found[0])
        raise QueryError(
            f"{self._store.name}: one() takes exactly one result, and there"
            f" {'are several' if found else 'is none'}, with {self!r}."
            f" Use {'first() or all()' if found else 'first()'}."
        )

    def page(self, skip: int = 0, take: int | None = None) -> Page[Row[*Ts]]:
        """Return a part of the results, and how many there are, both of one commit.

        Args:
            skip: How many are before the page.
            take: How many there are on it at most; None for all the rest.

        Raises:
            QueryError: One of these is no number from 0; and as `all`. Of the page's ``cursor``:
                joined rows have none.
        """
        checked_count(skip, "skip", self._store)  # type: ignore[arg-type]
        if take is not None:
            checked_count(take, "take", self._store)  # type: ignore[arg-type]
        start, end = self._start + skip, self._stop
        stop = end if take is None else min(end, start + take)
        stores = [self._store.left._store, *stores_in(self._store.joins)]
        before = [store.horizon.slot for store in stores]
        items, count = self._made(start, stop)[0], self.count()
        if before != [store.horizon.slot for store in stores]:
            every = self._made(self._start, end)[0]
            items, count = every[skip : skip + stop - start], len(every)
        cursor = QueryError(
            f"{self._store.name}: pages of joined rows have no cursor. Page with skip, or page the"
            " query on the left with after() and join what is on the page."
        )
        return Page(items, total=count, skip=skip, take=take, cursor=cursor)

    def count(self) -> int:
        """Return how many results `all` would give.

        Where nothing is said of rows none is made, and nothing is looked up whose number does not
        matter; so that it gives a number also where `all` would find several records instead of
        one.
        """
        if self._is_made_of_many:
            return len(self._made(self._start, self._stop)[0])
        self._check()
        parts = self._parts()
        for name in parameters(*self._nodes()):
            # What does not matter for the number is not looked at.
            raise missing_parameter(name)
        if parts.condition is None:
            found = Base(parts.left, self._store).count()
        else:
            found = len(self._matching(parts, 0, _ENDLESS)[0])
        return max(0, min(found, self._stop) - self._start)

    def exists(self) -> bool:
        """Whether there is a result; it is told as `count` tells it."""
        if self._is_made_of_many:
            return self.count() > 0
        self._check()
        parts, start = self._parts(), self._start
        stop = min(self._stop, start + 1)
        if parts.condition is not None:
            return bool(self._matching(parts, start, stop)[0])
        # Those that can't be made are there, too.
        return bool(self._found(_Parts(parts.left, None, (), parts.is_cut), start, stop)[0])

    def sum(self, value: str | Value | None = None) -> Any:
        """Return the sum of a value over the results, 0 of none; None and absent are left out.

        Args:
            value: Of the rows; may be left out after `values`.

        Raises:
            QueryError: The values can't be added.
        """
        return total(self._present(value, "sum"), f"{self._store.name}: sum()")

    def mean(self, value: str | Value | None = None) -> Any:
        """Return the mean of a value over the results, None of none; otherwise as `sum`."""
        return mean(self._present(value, "mean"), f"{self._store.name}: mean()")

    def min(self, value: str | Value | None = None) -> Any:
        """Return the first value in the total order, None of none; None and absent are left out."""
        return owned([least(self._present(value, "min"), "")])[0]

    def max(self, value: str | Value | None = None) -> Any:
        """Return the last value in the total order, None of none; None and absent are left out."""
        return owned([greatest(self._present(value, "max"), "")])[0]

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return the results as plain dicts by slot, or by name after `select`."""
        selection = self._shown_selection
        query = self
        if selection is not None:
            query = self._copy()
            query._selection = selection.by_name(self._store)  # type: ignore[arg-type]
        return [_export.plain(row) for row in query.all()]

    def to_pandas(self) -> Any:
        """Return the results as a pandas DataFrame, a column for each slot or selected value.

        Raises:
            QueryError: pandas is not installed: ``pip install "memdb-engine[pandas]"``.
        """
        return _export.to_pandas(self._column_names, self.to_dicts())

    def to_arrow(self) -> Any:
        """Return the results as a pyarrow Table, a column for each slot or selected value.

        Raises:
            QueryError: pyarrow is not installed: ``pip install "memdb-engine[arrow]"``; or values
                of a column do not fit each other.
        """
        return _export.to_arrow(self._column_names, self.to_dicts())

    # -- planning ------------------------------------------------------------------------

    def prepare(self) -> Prepared[Any]:
        """Return the query compiled, to be called with its parameters by keyword.

        Raises:
            QueryError: A slot or field does not exist, or can't be compared with a constant.
        """
        return prepared_joined(cast("JoinedQuery[*tuple[Any, ...]]", self))

    def explain(self) -> JoinedExplanation:
        """Return how `all` would be answered now, for a person to read; see `Query.explain`.

        Raises:
            QueryError: As `all`.
            ClosedError: The database is closed.
        """
        return explain_joined(cast("JoinedQuery[*tuple[Any, ...]]", self))

    def analyze(self) -> JoinedExplanation:
        """Ask the query, and return how it was answered and how long that took.

        Raises:
            QueryError: As `all`.
            ClosedError: The database is closed.
        """
        return analyze_joined(cast("JoinedQuery[*tuple[Any, ...]]", self))

    # -- parts ---------------------------------------------------------------------------

    @property
    def _says_more(self) -> bool:
        """Whether anything is said of the rows, besides what is joined."""
        return self._condition is not None or bool(self._order) or self._has_window

    @property
    def _joins(self) -> tuple[Join, ...]:
        return self._store.joins

    @property
    def _start(self) -> int:
        if isinstance(self._skip, Parameter):
            raise missing_parameter(self._skip.name)
        return min(self._skip, _ENDLESS)

    @property
    def _stop(self) -> int:
        if isinstance(self._limit, Parameter):
            raise missing_parameter(self._limit.name)
        return _ENDLESS if self._limit is None else min(self._start + self._limit, _ENDLESS)

    @property
    def _has_groups(self) -> bool:
        found = self._group is not None or (
            self._selection is not None and self._selection.has_aggregates
        )
        if self._having is not None and not found:
            raise QueryError(
                f"{self._store.name}: having() is for groups. Use where() for rows, or say"
                " group_by()."
            )
        return found

    @property
    def _is_made_of_many(self) -> bool:
        """Whether a result may be made of several rows."""
        return self._is_distinct or self._has_groups

    @property
    def _is_plain(self) -> bool:
        """Whether the results are whole rows."""
        return self._selection is None and not self._is_made_of_many

    @property
    def _shown_selection(self) -> Selection | None:
        if self._selection is None and self._group is not None:
            return Selection(self._group, tuple(map(name_of, self._group)))
        return self._selection

    @property
    def _column_names(self) -> list[str]:
        selection = self._shown_selection
        return list(self._store.names if selection is None else selection.names)

    def _check(self) -> None:
        """Raise for values that can't be asked, where none has to be.

        Raises:
            QueryError: A slot or field does not exist.
        """
        self._store.rooted_all([term.value for term in self._order])
        self._store.rooted_all(self._selection.values if self._selection is not None else ())

    def _parts(self) -> _Parts:
        """Return the query with all moved to the left that gives the same there."""
        source, left = self._store, self._store.left
        is_open = not left._has_window
        rest: list[Expression] = []
        for part in [] if self._condition is None else conjuncts(self._condition):
            node = source.rooted(part)
            inside = source.of_left(node) if is_open and not has_callback(part) else None
            if inside is None:
                rest.append(node)
            else:
                left = left.where(inside)
        condition = joined(None, tuple(rest), {})
        order: tuple[Order, ...] = ()
        if not self._has_groups:
            order = tuple([source.rooted(term) for term in self._order])
            # What the terms hold equal stays as it was, which is by identity unless there is a
            # natural key; and behind a cursor is what the left's own order says.
            is_open = is_open and left._cursor is None
            is_open = is_open and (left._store.key is None or bool(left._order))
            values = [source.of_left(term.value) for term in order] if is_open else []
            if values and all([value is not None for value in values]):
                terms = zip(values, order, strict=True)
                moved = [
                    Order(value, term.is_descending) for value, term in terms if value is not None
                ]
                left, order = left.order_by(*moved, *left._order), ()
        has_all = all([not join.is_inner for join in source.joins])
        is_cut = has_all and condition is None and not order and not self._is_made_of_many
        return _Parts(left, condition, order, is_cut)

    def _matching(self, parts: _Parts, start: int, stop: int) -> tuple[list[Any], dict[int, Any]]:
        """Return shared rows start to stop in order, and the records by id that need no copy.

        Raises:
            QueryError: One can't be made.
        """
        rows, owned = self._found(parts, start, stop)
        return _without_errors(rows), owned

    def _found(self, parts: _Parts, start: int, stop: int) -> tuple[list[Any], dict[int, Any]]:
        """Return the same, with the error in place of a row that can't be made."""
        base = Base(parts.left, self._store)
        if parts.is_cut:
            found = base.rows(start, stop)
            return found.rows, found.owned
        if not parts.order and stop < _ENDLESS:
            # What the joins leave of some more may be enough.
            ahead = 2 * stop + AHEAD
            found = base.rows(0, ahead)
            rows = self._filtered(found.rows, parts.condition, found.owned)
            if len(rows) >= stop or found.count < ahead:
                return rows[start:stop], found.owned
        found = base.rows(0, _ENDLESS)
        rows = self._filtered(found.rows, parts.condition, found.owned)
        rows = self._in_order(rows, parts.order, start, stop)
        return rows, found.owned

    def _filtered(
        self, rows: list[Any], condition: Expression | None, owned_ones: dict[int, Any]
    ) -> list[Any]:
        if condition is None:
            return rows
        rows = _without_errors(rows)
        compiled = compile_condition(condition, {}, self._store.query_shape)
        matches, prefilter = compiled.matches, compiled.prefilter
        if not compiled.needs_copy:
            return [row for row in rows if matches(row)]
        if prefilter is not None:
            rows = [row for row in rows if prefilter(row)]
        # Nothing that a callable does to its row is ever seen.
        source = self._store
        return [row for row in rows if matches(copied(source, [row], owned_ones, is_last=False)[0])]

    def _in_order(
        self, rows: list[Any], order: tuple[Order, ...], start: int, stop: int
    ) -> list[Any]:
        if not order:
            return rows[start:stop]
        rows = _without_errors(rows)
        columns = [column(term.value, rows, self._store.query_shape) for term in order]
        falling = [term.is_descending for term in order]
        return [rows[place] for place in arrange(columns, falling, len(rows), start, stop)]

    def _finished(self, rows: list[Any], owned_ones: dict[int, Any]) -> list[Any]:
        """Return those of some rows that are asked for, in order: of the right side of a join."""
        source = self._store
        condition = None if self._condition is None else source.rooted(self._condition)
        order = tuple([source.rooted(term) for term in self._order])
        rows = self._filtered(rows, condition, owned_ones)
        return self._in_order(rows, order, self._start, self._stop)

    # -- results -------------------------------------------------------------------------

    def _some(self, count: int) -> list[Any]:
        """Return the first results, up to a number."""
        return self._made(self._start, min(self._stop, self._start + count))[0]

    def _made(self, start: int, stop: int) -> tuple[list[Any], int]:
        """Return results start to stop, and how many rows or groups they were taken from."""
        parts = self._parts()
        if not self._is_made_of_many:
            rows, owned_ones = self._matching(parts, start, stop)
            return self._given(rows, owned_ones), len(rows)
        rows, owned_ones = self._matching(parts, 0, _ENDLESS)
        if self._has_groups:
            found = self._grouped(rows)
            return found[start:stop], len(found)
        columns = [rows] if self._selection is None else self._columns(rows)
        places = first_places(columns, len(rows))
        kept = [rows[place] for place in places[start:stop]]
        return self._given(kept, owned_ones), len(places)

    def _given(self, rows: list[Any], owned_ones: dict[int, Any]) -> list[Any]:
        """Return what the receiver may have of shared rows."""
        if self._selection is None:
            return copied(self._store, rows, owned_ones)
        values = self._store.rooted_all(self._selection.values)
        slots = [_is_slot(value) for value in values]
        copies = copied(self._store, rows, owned_ones) if any(slots) else rows
        shape, columns = self._store.query_shape, []
        for value, is_slot in zip(values, slots, strict=True):
            # A record that is selected as a whole is one copy for the result, as in a row.
            taken = column(value, copies if is_slot else rows, shape)
            columns.append(taken if is_slot else owned(taken))
        return self._selection.make(columns)

    def _columns(self, rows: list[Any]) -> list[list[Any]]:
        assert self._selection is not None
        values = self._store.rooted_all(self._selection.values)
        return [column(value, rows, self._store.query_shape) for value in values]

    def _grouped(self, rows: list[Any]) -> list[Any]:
        source, selection = self._store, self._shown_selection
        assert selection is not None
        known = selection.names
        values = tuple(source.rooted_all(selection.values))
        names = dict(zip(known, values, strict=True))
        terms = tuple(source.rooted_all(self._group or ()))
        groups = Groups(terms, rows, source, names)  # type: ignore[arg-type]
        if self._having is not None:
            groups.keep(source.rooted(self._having, known))
        order = tuple([source.rooted(term, known) for term in self._order])
        groups.arrange(order, 0, len(groups.groups))
        columns = groups.columns(values)
        if self._is_distinct:
            places = first_places(columns, len(groups.groups))
            columns = [[each[place] for place in places] for each in columns]
        return selection.make(columns)

    def _present(self, value: str | Value | None, method: str) -> list[Any]:
        """Return the values of the results that are there and not None."""
        if value is None:
            if self._selection is None or not self._selection.is_single:
                raise QueryError(
                    f"{self._store.name}: {method}() takes a field or another value, as"
                    f" {method}(F.slot.field), unless values() has named it."
                )
            return present(self.all())
        if not self._is_plain:
            raise QueryError(
                f"{self._store.name}: {method}() is for whole rows, and {self!r} makes something"
                " else of them. Leave out select(), values(), distinct() and group_by()."
            )
        rows = self._matching(self._parts(), self._start, self._stop)[0]
        taken = self._store.rooted(value_term(value))
        return present(column(taken, rows, self._store.query_shape))

    # -- parameters ----------------------------------------------------------------------

    def _nodes(self) -> list[Any]:
        """Return all that may have parameters in it."""
        source = self._store
        return [*source.left._nodes(), *nodes_in(source.joins), *self._row_nodes()]

    def _row_nodes(self) -> list[Any]:
        """Return all that is said of rows and may have parameters in it."""
        return super()._nodes()

    def _bound(self, given: Any) -> Any:
        """Return the query with the values of its parameters in their places.

        Raises:
            QueryError: A parameter is missing, there is none of a name, or a value does not fit.
        """
        check_names(parameters(*self._nodes()), given)
        values = {
            name: list(value) if isinstance(value, Iterator) else value
            for name, value in given.items()
        }
        query = super()._bound(values)
        query._store = self._store.bound(values)
        return query


def join_to(left: Query[Any], right: Any, how: How) -> JoinedQuery[*tuple[Any, ...]]:
    """Return a query with its first join.

    Raises:
        QueryError: The query gives no whole records; and as `Query.join`.
    """
    if not left._is_plain:
        raise QueryError(
            f"{left._store.name}: records are joined, and {left!r} makes something else of them."
            " Join first, and say select(), distinct() or group_by() afterwards."
        )
    return JoinedQuery(with_join(RowSource(left, ()), right, how))  # type: ignore[arg-type]


def _without_errors(rows: list[Any]) -> list[Any]:
    """Return rows that are wanted.

    Raises:
        QueryError: One can't be made.
    """
    if QueryError in set(map(type, rows)):
        raise next(row for row in rows if type(row) is QueryError)
    return rows


def _is_slot(value: Value) -> bool:
    """Whether a value of a row is the content of a slot."""
    return isinstance(value, Field) and len(value._path) == 1 and "." not in str(value._path[0])
