"""A query: what to look for in a collection, in which order, and what to make of it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, cast, overload

from memdb import _scan
from memdb.errors import QueryError
from memdb.query import _aggregating, _export
from memdb.query._builder import QueryBuilder, checked_count
from memdb.query._changing import delete_rows, update_rows
from memdb.query._compiler import compile_condition
from memdb.query._explain import analyze, explain
from memdb.query._explanation import Explanation
from memdb.query._fields import value_term
from memdb.query._joined import JoinedQuery, join_to
from memdb.query._keyset import keyset
from memdb.query._ordering import identities, in_order
from memdb.query._paging import Page, check_cursor, cursor_after, rows_after
from memdb.query._parameters import missing_parameter
from memdb.query._plans import answer
from memdb.query._prepared import Prepared, prepared
from memdb.query._reading import check_value, column, owned, present
from memdb.query._reducing import greatest, least, mean, total
from memdb.query._results import copies, given, made
from memdb.query._row_source import How
from memdb.query._selection import Selection, name_of
from memdb.query._values import Parameter, Value

if TYPE_CHECKING:
    from memdb._collection import Collection
    from memdb._scan import Row
    from memdb.query._compiler import Condition

T = TypeVar("T")
R = TypeVar("R")
D = TypeVar("D")

_ENDLESS: Final = 2**62


class Query(QueryBuilder[T]):
    """What to look for in a collection; made by `Collection.where`.

    Every method that says more gives another query, so that a query can be kept, shared and
    refined, its parts in any sequence. Nothing is looked for until it is asked: by iterating, or
    by a method like `all`. Results are copies, or can't be changed.

    Without `order_by` records come as from iterating over the collection: rising by identity, in
    a collection with a natural key in the order of their last writing.

    Threads: a query never changes; any thread may ask it.

    >>> import memdb
    >>> from memdb import F
    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class City:
    ...     name: str
    ...     people: int
    ...     id: int = 0
    >>> db = memdb.open(None)
    >>> cities = db.collection(City)
    >>> ids = cities.insert_many([City("Rome", 2_800_000), City("Bern", 140_000)])
    >>> large = cities.where(F.people > 100_000).order_by("name")
    >>> [city.name for city in large]
    ['Bern', 'Rome']
    >>> large.limit(1).all()
    [City(name='Bern', people=140000, id=2)]
    >>> cities.where(name="Rome").update(people=F.people + 1)
    1
    >>> db.close()
    """

    __slots__ = ()

    # -- joining -------------------------------------------------------------------------

    # No overload takes just anything where another takes less: of two that fit a type with Any in
    # it, as that of a collection of dicts, mypy takes neither.
    @overload
    def join(
        self, right: Collection[R] | Query[R] | type[R], *, how: Literal["inner"], on: Any = ...,
        back: Any = ..., where: Any = ..., as_: str | None = ..., then: None = ...,
    ) -> JoinedQuery[T, R]: ...  # fmt: skip
    @overload
    def join(
        self, right: Collection[R] | Query[R] | type[R], *, on: Any = ..., back: Any = ...,
        how: Literal["left"] = ..., where: Any = ..., as_: str | None = ..., then: None = ...,
    ) -> JoinedQuery[T, R | None]: ...  # fmt: skip
    @overload
    def join(
        self, right: JoinedQuery[*tuple[Any, ...]], *, on: Any = ..., back: Any = ...,
        how: Literal["left", "inner"] = ..., where: Any = ..., as_: str | None = ...,
        then: None = ...,
    ) -> JoinedQuery[T, Any]: ...  # fmt: skip
    @overload
    def join(
        self, right: Any, *, then: Callable[[Any], Any], on: Any = ..., back: Any = ...,
        how: Literal["left", "inner"] = ..., where: Any = ..., as_: str | None = ...,
    ) -> JoinedQuery[T, Any]: ...  # fmt: skip
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
        """Return the query for rows of a record and the one of another collection that belongs.

        Args:
            right: The other collection; a query of it, for a part of it; a joined query, for what
                belongs to each of its records; or a record class, for the collection of it.
            on: What names the record: a field of this collection that has the other's identity;
                or a pair, a value of this one and one of the other that are equal. In a chain
                ``F.customer.country`` is of a slot.
            back: Instead: a field of the other collection that has this one's identity, or a list
                of such. Neither where a `ForeignKey` says what belongs together.
            how: ``"left"`` keeps records to which nothing belongs, with None in the slot;
                ``"inner"`` drops them.
            where: A condition for the records of the other collection.
            as_: What the slot is called; the collection's name in snake case unless told.
            then: A function of the right side's query that gives it with joins of its own.

        Returns:
            A query of rows; see `JoinedQuery`. The results of this query come first, with its
            order and limit.

        Raises:
            QueryError: No key, or both, are given, and no foreign key says it; a field does not
                exist; the values are of types that are never equal; two slots have one name; or
                the collections are in different databases. When it is asked: several records
                belong to one.

        >>> import memdb
        >>> from memdb import F
        >>> db = memdb.open(None)
        >>> authors = db.collection("authors")
        >>> books = db.collection("books")
        >>> ids = authors.insert_many([{"name": "Ann"}, {"name": "Bob"}])
        >>> ids = books.insert_many([{"title": "Up", "author": 1}, {"title": "Down", "author": 9}])
        >>> [(b["title"], a and a["name"]) for b, a in books.where().join(authors, on=F.author)]
        [('Up', 'Ann'), ('Down', None)]
        >>> db.close()
        """
        return join_to(self, right, How(on, back, how, where, as_, then, False))

    @overload
    def join_many(
        self, right: Collection[R] | Query[R] | type[R], *, on: Any = ..., back: Any = ...,
        how: Literal["left", "inner"] = ..., where: Any = ..., as_: str | None = ...,
        then: None = ...,
    ) -> JoinedQuery[T, tuple[R, ...]]: ...  # fmt: skip
    @overload
    def join_many(
        self, right: JoinedQuery[*tuple[Any, ...]], *, on: Any = ..., back: Any = ...,
        how: Literal["left", "inner"] = ..., where: Any = ..., as_: str | None = ...,
        then: None = ...,
    ) -> JoinedQuery[T, tuple[Any, ...]]: ...  # fmt: skip
    @overload
    def join_many(
        self, right: Any, *, then: Callable[[Any], Any], on: Any = ..., back: Any = ...,
        how: Literal["left", "inner"] = ..., where: Any = ..., as_: str | None = ...,
    ) -> JoinedQuery[T, tuple[Any, ...]]: ...  # fmt: skip
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
        """Return the query for rows of a record and all of another collection that belong to it.

        They are in a tuple: in the order of the right side; those of a list in the order of the
        list, if the right side has none of its own.

        Args:
            right, back, how, where, as_, then: As for `join`. A query with a limit gives so many
                for each record. The slot is called by the plural of the collection's name.
            on: A field that has a list, tuple, set or frozenset of the other's identities; or a
                pair as for `join`.

        Raises:
            QueryError: As `join`; and ``on`` is annotated as something else.

        >>> import memdb
        >>> from memdb import F
        >>> db = memdb.open(None)
        >>> authors = db.collection("authors")
        >>> books = db.collection("books", indexes=[memdb.HashIndex("author")])
        >>> ids = authors.insert_many([{"name": "Ann"}, {"name": "Bob"}])
        >>> ids = books.insert_many([{"title": "Up", "author": 1}, {"title": "Down", "author": 1}])
        >>> for row in authors.where().join_many(books, back=F.author):
        ...     print(row.authors["name"], [book["title"] for book in row.books])
        Ann ['Up', 'Down']
        Bob []
        >>> db.close()
        """
        return join_to(self, right, How(on, back, how, where, as_, then, True))

    # -- asking --------------------------------------------------------------------------

    def all(self) -> list[T]:
        """Return all results.

        Raises:
            QueryError: A field does not exist, a cursor is of another order, or values can't be
                compared as a condition does.

        Cost: O(records), or O(candidates) where indexes give some; a copy of each result.
        """
        if self._is_plain or self._has_rows:
            records = self._records(self._start, self._stop)
            if records is not None:
                return self._of_records(records)
        return self._in_general()

    def _of_records(self, records: list[Any]) -> list[T]:
        """Return the results that shared records give."""
        if self._selection is None:
            return copies(self._store, records)
        return given(self._store, [(0, record, True) for record in records], self._selection)

    def __iter__(self) -> Iterator[T]:
        """Iterate over the results as they are now; what is changed meanwhile does not show."""
        store = self._store
        if not self._is_plain or self._order or self._cursor is not None:
            return iter(self.all())
        records = self._records(self._start, self._stop)
        if records is not None:
            return map(store.cloner.clone, records)
        rows = islice(_scan.matching(store, self._compiled()), self._start, self._stop)
        return (_scan.given(store, row) for row in rows)

    @overload
    def first(self) -> T | None: ...
    @overload
    def first(self, default: D) -> T | D: ...
    def first(self, default: Any = None) -> Any:
        """Return the first result, ``default`` when there is none."""
        found = self._some(1)
        return found[0] if found else default

    def one(self) -> T:
        """Return the only result.

        Raises:
            QueryError: There is none, or more than one.
        """
        found = self._some(2)
        if len(found) == 1:
            return found[0]
        raise QueryError(
            f"{self._store.name}: one() takes exactly one result, and there"
            f" {'are several' if found else 'is none'}, with {self!r}."
            f" Use {'first() or all()' if found else 'first()'}."
        )

    def page(self, skip: int = 0, take: int | None = None) -> Page[T]:
        """Return a part of the results, and how many there are.

        Args:
            skip: How many are before the page.
            take: How many there are on it at most; None for all the rest.

        Raises:
            QueryError: One of these is no number from 0; and as `all`.
        """
        checked_count(skip, "skip", self._store)
        if take is not None:
            checked_count(take, "take", self._store)
        start, end = self._start + skip, self._stop
        stop = end if take is None else min(end, start + take)
        cursor: str | QueryError | None = None
        if self._is_plain or self._has_rows:
            rows, found = self._part(start, stop)
            items = given(self._store, rows, self._selection)
            count = max(0, min(found, end) - self._start)
            if rows and skip + len(rows) < count:
                cursor = cursor_after(rows[-1], self._order, self._store)
        else:
            items, found = made(self, start, stop)
            count = max(0, min(found, end) - self._start)
            cursor = QueryError(
                f"{self._store.name}: pages of groups and of distinct results have no cursor."
                " Page with skip."
            )
        return Page(items, total=count, skip=skip, take=take, cursor=cursor)

    def count(self) -> int:
        """Return how many results `all` would give. Nothing is copied, but for a callable."""
        if not (self._is_plain or self._has_rows):
            found = made(self, 0, 0)[1]
        else:
            self._check_order()
            query = self._resolved()
            is_after = query._cursor is not None
            found = len(self._matching()) if is_after else query._count_matching()
        return max(0, min(found, self._stop) - self._start)

    def exists(self) -> bool:
        """Whether there is a result."""
        if self._cursor is not None or not (self._is_plain or self._has_rows):
            return self.count() > 0
        self._check_order()
        start = self._start
        records = self._records(start, min(self._stop, start + 1))
        if records is not None:
            return bool(records)
        rows = _scan.matching(self._store, self._compiled())
        return any(True for _ in islice(rows, start, min(self._stop, start + 1)))

    def ids(self) -> list[Any]:
        """Return the identities of the records that `all` would give, in the same order."""
        self._refuse_made("ids")
        return identities(self._rows(), self._store)

    def sum(self, value: str | Value | None = None) -> Any:
        """Return the sum of a value over the results, 0 of none; None and absent are left out.

        Args:
            value: Of the records; may be left out after `values`.

        Raises:
            QueryError: The values can't be added.
        """
        found = self._without_records(value, "sum")
        if found is not _aggregating.NO_ANSWER:
            return found
        return total(self._present(value, "sum"), f"{self._store.name}: sum({_of(value)})")

    def mean(self, value: str | Value | None = None) -> Any:
        """Return the mean of a value over the results, None of none; otherwise as `sum`."""
        found = self._without_records(value, "mean")
        if found is not _aggregating.NO_ANSWER:
            return found
        return mean(self._present(value, "mean"), f"{self._store.name}: mean({_of(value)})")

    def min(self, value: str | Value | None = None) -> Any:
        """Return the first value in the total order, None of none; None and absent are left out."""
        found = self._without_records(value, "min")
        if found is not _aggregating.NO_ANSWER:
            return found
        return owned([least(self._present(value, "min"), "")])[0]

    def max(self, value: str | Value | None = None) -> Any:
        """Return the last value in the total order, None of none; None and absent are left out."""
        found = self._without_records(value, "max")
        if found is not _aggregating.NO_ANSWER:
            return found
        return owned([greatest(self._present(value, "max"), "")])[0]

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return the results as plain dicts, nested records too."""
        selection = self._selection or self._grouped_selection()
        if selection is None:
            return cast("list[dict[str, Any]]", [_export.plain(each) for each in self.all()])
        named = selection.by_name(self._store)
        rows = self._with(named)
        return [_export.plain(row) for row in rows.all()]

    def to_pandas(self) -> Any:
        """Return the results as a pandas DataFrame, a column for each field or selected value.

        Raises:
            QueryError: pandas is not installed: ``pip install "memdb-engine[pandas]"``.
        """
        rows = self.to_dicts()
        return _export.to_pandas(self._column_names(rows), rows)

    def to_arrow(self) -> Any:
        """Return the results as a pyarrow Table, a column for each field or selected value.

        Raises:
            QueryError: pyarrow is not installed: ``pip install "memdb-engine[arrow]"``; or values
                of a column do not fit each other.
        """
        rows = self.to_dicts()
        return _export.to_arrow(self._column_names(rows), rows)

    # -- planning ------------------------------------------------------------------------

    def prepare(self) -> Prepared[T]:
        """Return the query compiled, to be called with its parameters by keyword.

        Raises:
            QueryError: A field does not exist, or can't be compared with a constant.

        >>> import memdb
        >>> from memdb import F, P
        >>> db = memdb.open(None)
        >>> notes = db.collection("notes")
        >>> ids = notes.insert_many([{"by": "ann", "at": 1}, {"by": "bob", "at": 2}])
        >>> by = notes.where(F.by == P.author).prepare()
        >>> by(author="bob")
        [{'by': 'bob', 'at': 2, 'id': 2}]
        >>> by.count(author="ann")
        1
        >>> db.close()
        """
        return prepared(self)

    def explain(self) -> Explanation:
        """Return how `all` would be answered now, for a person to read.

        The query is not asked: what only its records can tell, as a NaN that it would have to
        sort, `analyze` finds out.

        Raises:
            QueryError: As `all`.
            ClosedError: The database is closed.

        Cost: that of planning, 50 us to some ms; of a query without `order_by` a pass over each
            `ColumnIndex` that could answer `sum` and its kin.

        >>> import memdb
        >>> from memdb import F
        >>> db = memdb.open(None)
        >>> notes = db.collection("notes", indexes=[memdb.HashIndex("by")])
        >>> ids = notes.insert_many([{"by": "ann", "at": 1}, {"by": "bob", "at": 2}])
        >>> print(notes.where(F.by == "bob", F.at < 5).explain())
        <Query of 'notes' where (F.by == 'bob') & (F.at < 5)>
          candidates  hash index 'by' for F.by == 'bob': 1
          compare     F.at < 5
          answered by a generated function, after reading 1 record
        >>> db.close()
        """
        return explain(self)

    def analyze(self) -> Explanation:
        """Ask the query, and return how it was answered and how long that took.

        Raises:
            QueryError: As `all`.
            ClosedError: The database is closed.

        Cost: twice that of `all`, since it is asked once before; and that of `explain`.
        """
        return analyze(self)

    # -- changing ------------------------------------------------------------------------

    def update(self, change: Callable[[T], T | None] | None = None, /, **fields: Any) -> int:
        """Change the records, as one commit, all or none.

        Args:
            change: A function that is given a copy of each, which it changes or for which it
                returns another record.
            fields: New values of fields, set after ``change``; an expression as ``F.age + 1`` is
                calculated from the old record.

        Returns:
            How many were written; those whose bytes are as before are not.

        Raises:
            QueryError: There is nothing to change, or the query gives no whole records.
            MemdbError: As `Collection.update`; and whatever the function raises. Nothing is
                changed then.
        """
        self._refuse_made("update")
        return update_rows(self._store, self._rows, change, fields)

    def delete(self) -> int:
        """Delete the records, as one commit, and return how many there were.

        Raises:
            QueryError: The query gives no whole records.
            ReadOnlyError, ClosedError, WriteError: As `Collection.delete`.
        """
        self._refuse_made("delete")
        return delete_rows(self._store, self._rows)

    # -- rows ----------------------------------------------------------------------------

    @property
    def _is_plain(self) -> bool:
        """Whether the results are whole records, one for each row."""
        return (
            self._selection is None
            and not self._is_distinct
            and self._group is None
            and self._having is None
        )

    @property
    def _has_rows(self) -> bool:
        """Whether each result is made of one row, if it is not a whole record."""
        if self._is_distinct or self._group is not None or self._having is not None:
            return False
        return self._selection is None or not self._selection.has_aggregates

    @property
    def _start(self) -> int:
        """Where the results begin, of those that there are without skip and limit."""
        if isinstance(self._skip, Parameter):
            raise missing_parameter(self._skip.name)
        return min(self._skip, _ENDLESS)

    @property
    def _stop(self) -> int:
        """Where the results end."""
        if isinstance(self._limit, Parameter):
            raise missing_parameter(self._limit.name)
        return _ENDLESS if self._limit is None else min(self._start + self._limit, _ENDLESS)

    def _compiled(self) -> Condition:
        return compile_condition(self._condition, {}, self._store.query_shape)

    def _matching(self) -> list[Row]:
        """Return the rows that match, and are behind the cursor, in default order."""
        query = self._resolved()
        condition = query._compiled()
        # Not while a callable of the user's runs. The collector would look at all records for
        # every few thousand rows: 1.1 s of 1.2 for 280,000.
        pause = contextlib.nullcontext if condition.needs_copy else _scan.collector_paused
        with pause():
            rows = list(_scan.matching(query._store, condition))
        if query._cursor is not None:
            rows = rows_after(rows, query._cursor, query._order, query._store)
        return rows

    def _count_matching(self) -> int:
        """Return how many rows match; no record is read without a condition."""
        if self._condition is None:
            return _scan.size(self._store)
        found = _aggregating.answer(self._store, self._condition, None, "count")
        if found is not _aggregating.NO_ANSWER:
            return int(found)
        found = answer(self._store, self._condition, (), "count")
        if found is not None:
            return int(found)
        return _scan.count(self._store, self._compiled())

    def _check_order(self) -> None:
        """Raise for an order that can't be, where nothing has to be ordered.

        Raises:
            QueryError: A field does not exist.
        """
        for term in self._order:
            check_value(term.value, self._store.query_shape)

    def _window(self, start: int, stop: int, *, is_cut: bool = False) -> tuple[list[Row], int]:
        """Return rows start to stop in order, and how many there are before that.

        Args:
            start, stop: Of the rows in order.
            is_cut: The number is not needed, so that not all have to be looked for.
        """
        if is_cut and not self._order and self._cursor is None:
            return list(islice(_scan.matching(self._store, self._compiled()), start, stop)), 0
        rows = self._matching()
        return in_order(rows, self._order, self._store, start, stop), len(rows)

    def _part(self, start: int, stop: int) -> tuple[list[Row], int]:
        """Return what `_window` does, by generated functions if they can."""
        store = self._store
        name = store.shape.identity
        is_field = store.key is None and name is not None and store.members.sole is not None
        query = self._resolved()
        if is_field and store.shape.kind != "dict" and query._cursor is None:
            horizon = store.horizon.slot
            records = answer(store, query._condition, self._order, "rows", start, stop)
            found = None if records is None else answer(store, query._condition, (), "count")
            # Both of one commit.
            if found is not None and store.horizon.slot == horizon:
                identity = attrgetter(str(name))
                return [(identity(record), record, True) for record in records], found
        return self._window(start, stop)

    def _records(self, start: int, stop: int) -> list[Any] | None:
        """Return shared records start to stop in order, None where only the general way can.

        They must not be changed, nor given to anybody who might.
        """
        query = self._resolved()
        if query._cursor is not None:
            return None
        window = None if start == 0 and stop == _ENDLESS else stop
        return answer(query._store, query._condition, query._order, "rows", start, window)  # type: ignore[no-any-return]

    def _resolved(self) -> Query[T]:
        """Return the query with a condition in place of its cursor, if there is such.

        Raises:
            QueryError: The cursor is of another order.
        """
        if self._cursor is None:
            return self
        check_cursor(self._cursor, self._order, self._store)
        condition = keyset(self._store, self._order, self._cursor)
        if condition is None:
            return self
        query = self.where(condition)
        query._cursor = None
        return query

    def _found(self) -> list[Any]:
        """Return the records that match, in default order, without a cursor; do not change them."""
        records = answer(self._store, self._condition, (), "rows")
        return _scan.matching_records(self._store, self._compiled()) if records is None else records

    def _rows(self) -> list[Row]:
        """Return the rows that are asked for, in order."""
        return self._window(self._start, self._stop, is_cut=True)[0]

    def _in_general(self) -> list[T]:
        """Return all results without a generated function for them."""
        if self._is_plain:
            return given(self._store, self._rows())
        return made(self, self._start, self._stop)[0]

    def _some(self, count: int) -> list[T]:
        """Return the first results, up to a number."""
        stop = min(self._stop, self._start + count)
        if self._is_plain or self._has_rows:
            records = self._records(self._start, stop)
            if records is not None:
                return self._of_records(records)
            rows = self._window(self._start, stop, is_cut=True)[0]
            return given(self._store, rows, self._selection)
        return made(self, self._start, stop)[0]

    def _without_records(self, value: str | Value | None, what: _aggregating.What) -> Any:
        """Return what an index alone says of a value, `NO_ANSWER` where none can."""
        is_whole = self._is_plain and self._cursor is None and not self._order
        if value is None or not is_whole or self._start or self._limit is not None:
            return _aggregating.NO_ANSWER
        return _aggregating.answer(self._store, self._condition, value_term(value), what)

    def _present(self, value: str | Value | None, method: str) -> list[Any]:
        """Return the values of the results that are there and not None."""
        if value is None:
            if self._selection is None or not self._selection.is_single:
                raise QueryError(
                    f"{self._store.name}: {method}() takes a field or another value, as"
                    f" {method}('age'), unless values() has named it."
                )
            return present(self.all())
        self._refuse_made(method)
        records = self._records(self._start, self._stop)
        if records is None:
            records = [row[1] for row in self._rows()]
        return present(column(value_term(value), records, self._store.query_shape))

    def _with(self, selection: Selection) -> Query[Any]:
        query = self._copy()
        query._selection = selection
        return query

    def _grouped_selection(self) -> Selection | None:
        """Return what is given for groups without a selection: what they are grouped by."""
        if self._group is None:
            return None
        return Selection(self._group, tuple(map(name_of, self._group)))

    def _column_names(self, rows: list[dict[str, Any]]) -> list[str]:
        selection = self._selection or self._grouped_selection()
        if selection is not None:
            return list(selection.names)
        shape = self._store.shape
        names = [field.name for field in shape.fields]
        return list(dict.fromkeys([*names, *_export.names_in(rows)]))

    def _refuse_made(self, method: str) -> None:
        """Raise unless the results are whole records, one for each row.

        Raises:
            QueryError: They are not.
        """
        if not self._is_plain:
            raise QueryError(
                f"{self._store.name}: {method}() is for whole records, and {self!r} makes something"
                " else of them. Leave out select(), values(), distinct() and group_by()."
            )


def _of(value: object) -> str:
    return "" if value is None else repr(value)
