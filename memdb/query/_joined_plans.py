"""Plans of joins: generated functions, kept by the structure of the joins, and how they are run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from memdb.query._join import Join, nodes_in, stores_in
from memdb.query._join_access import Access, access_of
from memdb.query._join_source import JoinWriter, What, constant_places, join_constants, windows_in
from memdb.query._joining import as_of_one_commit, joined
from memdb.query._parameters import parameters
from memdb.query._plans import ATTEMPTS, ENDLESS, MOST_PLANS, compiled, keep_plan
from memdb.query._row_copies import is_shared, row_copies
from memdb.query._runtime import Misfit
from memdb.query._structure import structure

if TYPE_CHECKING:
    from collections.abc import Callable

    from memdb._bound_index import BoundIndex
    from memdb._index_set import View
    from memdb.query._joining import Reading
    from memdb.query._query import Query
    from memdb.query._row_source import RowSource


@dataclass(frozen=True, slots=True)
class JoinPlan:
    """A generated function and what it was made for.

    Attributes:
        run: Takes the versions of the collections, records, constants, parameters and limits;
            None where the general way is the only one.
        view: Of the collection on the left.
        views: What it looks at: of each collection, the left one first.
        indexes: The names of the indexes that it uses, of each collection.
        parameters: Names of those that `run` takes, in order.
        source: Its source.
    """

    run: Callable[..., Any] | None
    view: View
    views: tuple[tuple[Any, View], ...]
    indexes: tuple[tuple[str, ...], ...]
    parameters: tuple[str, ...]
    source: str

    @property
    def is_valid(self) -> bool:
        """Whether the indexes are still those that it was made for."""
        return all([view.is_valid for _, view in self.views])

    def versions(self) -> list[int] | None:
        """Return the version of each collection, None if one has changed since."""
        found = []
        for store, view in self.views:
            cursor = view.cursor
            if store.horizon.slot != cursor:
                return None
            found.append(cursor)
        return found

    def catch_up(self) -> bool:
        """Bring the views up to date; whether there was anything to do."""
        if self.is_valid and self.versions() is not None:
            return False
        for (store, _), names in zip(self.views, self.indexes, strict=True):
            store.indexes.catch_up(names)
        return True


def join_plan(source: RowSource, left: Query[Any], what: What) -> JoinPlan:
    """Return the plan for what is joined to records, kept for its structure.

    Args:
        source: The joins.
        left: The query that gives the records.
        what: Rows, or their number.
    """
    store: Any = source.left._store
    constant = frozenset(constant_places(left, source.joins))
    key = ("join", what, constant, _structure(source.joins))
    kept: JoinPlan | None = store.indexes.plans.get(key)
    if kept is not None and kept.is_valid:
        return kept
    return keep_plan(store, key, make_join_plan(source, what, constant))


def make_join_plan(source: RowSource, what: What, constant: frozenset[int]) -> JoinPlan:
    """Return the plan for what is joined to records, with its indexes built."""
    stores = list(dict.fromkeys([source.left._store, *stores_in(source.joins)]))
    for _ in range(ATTEMPTS):
        wanted: dict[Any, dict[str, None]] = {store: {} for store in stores}
        accesses: dict[int, Access] = {}
        used: list[tuple[Any, BoundIndex]] = []
        for left, join in with_left(source):
            access = accesses[id(join)] = access_of(join, left)
            if access.index is not None:
                wanted[join.store][access.index.name] = None
                used.append((join.store, access.index))
        views = {store: store.indexes.catch_up(tuple(names)) for store, names in wanted.items()}
        if all([store.indexes.find(index.name) is index for store, index in used]):
            break
        # One was dropped meanwhile, and its name may be that of another by now.
    left_view = views[source.left._store]
    indexes = tuple([tuple(names) for names in wanted.values()])
    given = tuple(parameters(*nodes_in(source.joins)))
    none = JoinPlan(None, left_view, tuple(views.items()), indexes, given, "")
    if any([store.cache_limit is not None for store in stores]):
        return none
    writer = JoinWriter(source, views, accesses, what, constant)
    try:
        text = writer.write(given)
    except Misfit:
        return none
    run = compiled(text, "run", writer.names, source.left._store.name)
    return JoinPlan(run, left_view, tuple(views.items()), indexes, given, text)


def with_left(source: RowSource) -> list[tuple[Any, Join]]:
    """Return each join, the nested ones too, and the collection of the record on its left."""
    found: list[tuple[Any, Join]] = []
    stores = [source.left._store, *[join.store for join in source.joins]]
    for join in source.joins:
        found.append((stores[join.place], join))
        if join.nested is not None:
            found += with_left(join.nested._store)
    return found


def _structure(joins: Sequence[Join]) -> tuple[Any, ...]:
    """Return what is left of joins without their constants; it has a hash."""
    return tuple(
        [
            (
                join.slot, join.store.name, join.place, join.form, join.is_many, join.is_inner,
                join.has_window,
                None if join.left is None else structure(join.left),
                None if join.match is None else structure(join.match),
                None if join.right._condition is None else structure(join.right._condition),
                tuple([structure(term) for term in join.right._order]),
                join.right._cursor is not None,
                None if join.nested is None else _nested_structure(join.nested),
            )
            for join in joins
        ]
    )  # fmt: skip


def _nested_structure(nested: Any) -> tuple[Any, ...]:
    return nested._says_more, _structure(nested._joins)


def copied(
    source: RowSource, rows: list[Any], owned: dict[int, Any], *, is_last: bool = True
) -> list[Any]:
    """Return rows as their receiver may have them.

    Args:
        source: What they are of.
        rows: Shared rows.
        owned: Id -> record, of those in them that nobody else has.
        is_last: Nobody needs the rows any more.
    """
    if is_shared(source):
        return rows
    plans = source.left._store.indexes.plans
    key = ("copies", _structure(source.joins), bool(owned), is_last)
    copies = plans.get(key)
    if copies is None:
        copies = row_copies(source, has_owned=bool(owned), is_last=is_last)
        if len(plans) >= MOST_PLANS:
            plans.clear()
        plans[key] = copies
    return copies(rows, owned)


def join_limits(joins: Sequence[Join]) -> list[int]:
    """Return start and stop of the part that is wanted of each right side that has one."""
    rights = [join.right for join in windows_in(joins)]
    return [end for right in rights for end in (right._start, right._stop)]


# How many rows more are looked at than are wanted, where a join may drop some.
AHEAD: Final = 64


# -- running -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Found:
    """What was found.

    Attributes:
        rows: Shared rows; in the place of one that can't be made, as several records belong where
            one is expected, the error for whoever wants it.
        owned: Id -> record, of those in them that need no copy.
        count: How many records of the left they were made of, with those that joins dropped.
    """

    rows: list[Any]
    owned: dict[int, Any]
    count: int


class Base:
    """The rows of a query and its joins, before anything that is said of rows."""

    def __init__(self, left: Query[Any], source: RowSource) -> None:
        self._left = left
        self._source = source

    def rows(self, start: int, stop: int) -> Found:
        """Return the rows of the records start to stop of the left."""
        left = self._left
        first = min(left._start + start, ENDLESS)
        last = min(left._stop, left._start + stop)
        found = self._answer("rows", first, last)
        if found is not None:
            rows, count = found
            return Found(rows, {}, count)
        return self._in_general(first, last)

    def count(self) -> int:
        """Return how many rows there are."""
        left, joins = self._left, self._source.joins
        if not any([join.is_inner for join in joins]):
            return left.count()
        found = self._answer("count", left._start, left._stop)
        if found is not None:
            return int(found[0])
        return len(self._in_general(left._start, left._stop).rows)

    def _answer(self, what: What, start: int, stop: int) -> tuple[Any, int] | None:
        """Return rows, or their number, and of how many records, by a generated function."""
        store: Any = self._left._store
        store.engine.log.raise_if_closed()
        if store.cache_limit is not None or store.engine.current() is not None:
            return None
        values = join_constants(self._source.joins)
        limits = join_limits(self._source.joins)
        for _ in range(ATTEMPTS):
            plan = join_plan(self._source, self._left, what)
            if plan.run is None or plan.parameters:
                return None
            versions = plan.versions()
            if versions is None:
                plan.catch_up()
                versions = plan.versions()
                if versions is None:
                    continue
            records = self._left._records(start, stop)
            if records is None:
                return None
            found = plan.run(*versions, records, *values, *limits)
            if found is not None:
                return found, len(records)
            if not plan.catch_up():
                return None
        return None

    def _in_general(self, start: int, stop: int) -> Found:
        """Return the rows by the general way."""
        left, source = self._left, self._source

        def work(reading: Reading) -> Found:
            rows = reading.rows(left)[start:stop]
            made = joined(reading, rows, left._store, source.joins, source.row)
            return Found([row for row in made if row is not None], reading.owned, len(rows))

        return as_of_one_commit(left, source.joins, work)
