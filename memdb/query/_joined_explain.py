"""How a joined query is answered, told to a person."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from memdb.query._conditions import conjuncts, has_callback
from memdb.query._explain import ODD, explain, has_odd
from memdb.query._explanation import JoinAccess, JoinedExplanation
from memdb.query._join import Join, each_join, stores_in
from memdb.query._join_access import Access, access_of, suggestion
from memdb.query._joined_plans import JoinPlan, join_plan, with_left

if TYPE_CHECKING:
    from memdb.query._joined import JoinedQuery
    from memdb.query._row_source import RowSource


def explain_joined(query: JoinedQuery[*tuple[Any, ...]]) -> JoinedExplanation:
    """Return how a joined query, without parameters, would be answered now.

    Raises:
        QueryError: As asking it.
        ClosedError: The database is closed.
    """
    source = query._store
    source.engine.log.raise_if_closed()
    query._check()
    parts = query._parts()
    left = parts.left
    if parts.is_cut and query._limit is not None:
        left = left.skip(left._start + query._start)
        stop = min(parts.left._stop, parts.left._start + query._stop)
        left = left.limit(max(0, stop - left._start))
    reason = _reason(query)
    plan = None if reason else join_plan(source, parts.left, "rows")
    if plan is not None and plan.catch_up():
        # Keys that came meanwhile, or went, may have made it void.
        plan = join_plan(source, parts.left, "rows")
    if plan is not None and plan.run is None:
        reason = ODD if _has_odd(source, plan) else "the joins need more than generated code does"
    condition = parts.condition
    return JoinedExplanation(
        query=repr(query),
        left=explain(left),
        joins=tuple(_accesses(source.left._store, source.joins)),
        filters=() if condition is None else tuple(map(repr, conjuncts(condition))),
        order=tuple(map(repr, parts.order)),
        is_cut=parts.is_cut and query._limit is not None,
        is_compiled=reason is None,
        reason=reason,
        source=plan.source if plan is not None and plan.run is not None else None,
    )


def analyze_joined(query: JoinedQuery[*tuple[Any, ...]]) -> JoinedExplanation:
    """Ask a joined query once to prepare it, then once with a clock.

    Raises:
        QueryError: As asking it.
        ClosedError: The database is closed.
    """
    query.all()
    before = time.perf_counter()
    results = query.all()
    seconds = time.perf_counter() - before
    return replace(explain_joined(query), results=len(results), seconds=seconds)


def _reason(query: JoinedQuery[*tuple[Any, ...]]) -> str | None:
    """Return why the general way joins, None where generated code does."""
    source = query._store
    stores = [source.left._store, *stores_in(source.joins)]
    if any([store.cache_limit is not None for store in stores]):
        return "the setting `cache` keeps not every record"
    if source.engine.current() is not None:
        return "a transaction is open"
    conditions = [join.right._condition for join in each_join(source.joins)]
    if any([each is not None and has_callback(each) for each in conditions]):
        return "a condition of the right has a callable"
    if source.left._cursor is not None:
        return "the query on the left goes on after a cursor"
    return None


def _has_odd(source: RowSource, plan: JoinPlan) -> bool:
    """Whether an index of values can't stand for comparing all of its keys."""
    views = dict(plan.views)
    found = [(join, access_of(join, left).index) for left, join in with_left(source)]
    return any(
        [
            index is not None and not join.is_named and has_odd(views[join.store], [index.name])
            for join, index in found
        ]
    )


def _accesses(left: Any, joins: Sequence[Join]) -> Iterator[JoinAccess]:
    stores = [left, *[join.store for join in joins]]
    slots = ("", *[join.slot for join in joins])
    for join in joins:
        access = access_of(join, stores[join.place])
        condition = join.right._condition
        nested = join.nested
        yield JoinAccess(
            slot=join.slot,
            source=_shown(join, access, join.left_shown(slots)),
            kind=f"{'inner' if join.is_inner else 'left'}{', many' if join.is_many else ''}",
            filters=() if condition is None else tuple(map(repr, conjuncts(condition))),
            order=tuple(map(repr, join.right._order)),
            inside=() if nested is None else tuple(_accesses(join.store, nested._joins)),
            warning=_warning(join, access),
        )


def _shown(join: Join, access: Access, key: str) -> str:
    name = join.store.name
    if access.way == "number":
        return f"identity of {name!r} for {key}"
    if access.way == "key":
        return f"natural key of {name!r} for {key}"
    if access.index is not None:
        return f"{access.index.kind} index {access.index.name!r} of {name!r} for {key}"
    return f"all {len(join.store.identities):,} records of {name!r}, by {join.match!r}, for {key}"


def _warning(join: Join, access: Access) -> str | None:
    if access.way != "table":
        return None
    return (
        f"{join.slot}: no index of {join.store.name!r} has {join.match!r}, so that each query looks"
        f" at all of its {len(join.store.identities):,} records. Declare {suggestion(join)}."
    )
