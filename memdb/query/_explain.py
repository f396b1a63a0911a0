"""How a query is answered, told to a person: what its plan does, without asking it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from memdb.indexes import ColumnEntries
from memdb.query._aggregating import NO_ANSWER, What
from memdb.query._aggregating import answer as answer_by_columns
from memdb.query._choice import Choice, way_for
from memdb.query._conditions import ALWAYS, Always, Expression, conjuncts, has_callback, walk
from memdb.query._costs import cost_of, matches_nothing
from memdb.query._explain_candidates import (
    NOTHING_MATCHES,
    Look,
    by_count,
    look_in_general,
    opened,
    together,
)
from memdb.query._explanation import Access, Explanation
from memdb.query._fields import Field
from memdb.query._functions import functions_of
from memdb.query._paging import check_cursor
from memdb.query._parameters import bind, check_parameters, parameters
from memdb.query._plan_source import Shape
from memdb.query._plans import ENDLESS, Plan, make_plan
from memdb.query._reading import check_value
from memdb.query._results import has_groups
from memdb.query._seeds import Operands, Seed
from memdb.query._values import Parameter

if TYPE_CHECKING:
    from memdb._index_set import View
    from memdb.query._query import Query

_AGGREGATES: Final[tuple[What, ...]] = ("sum", "mean", "min", "max")

# Why the general way answers.
_CURSOR = "it goes on after a cursor"
_CACHE = "the setting `cache` keeps not every record"
_TRANSACTION = "a transaction is open"
_CALLABLE = "its condition has a callable"
_ORDER = "its order is of values of any type"
_OPERAND = "an index can't serve what is compared"
ODD = "an index has values that compare in their own way"
_FIRST = "it looks at no more records than it takes"
_UNREAD = "it has not read all candidates yet"
_VALUES = "the records have values that it does not sort, or others commit meanwhile"


class _General(Exception):
    """The general way answers; says why."""


def explain(query: Query[Any]) -> Explanation:
    """Return how a query, without parameters, would be answered now.

    Raises:
        QueryError: As asking it.
        ClosedError: The database is closed.
    """
    return replace(_explained(query, query, {}), by_index=_by_index(query))


def explain_prepared(query: Query[Any], given: dict[str, Any]) -> Explanation:
    """Return how a prepared query would be answered now.

    Args:
        query: As it was prepared.
        given: Its parameters.

    Raises:
        QueryError: As calling it.
        ClosedError: The database is closed.
    """
    # An iterator can be read only once.
    given = {
        name: list(value) if isinstance(value, Iterator) else value for name, value in given.items()
    }
    bound = query._bound(given)
    # Of others than whole records only their query is prepared.
    if parameters(*query._nodes()) and query._is_plain and query._cursor is None:
        found = _explained(query, bound, given)
        if found.is_compiled:
            return found
    # What is left with the values in their places is asked as any other query.
    return _explained(bound, bound, {})


def analyze(query: Query[Any]) -> Explanation:
    """Ask a query once to prepare it, then once with a clock.

    Raises:
        QueryError: As asking it.
        ClosedError: The database is closed.
    """
    query.all()
    before = time.perf_counter()
    has_records = True
    if query._is_plain or query._has_rows:
        records = query._records(query._start, query._stop)
        has_records = records is not None
        results = query._in_general() if records is None else query._of_records(records)
    else:
        results = query.all()
    seconds = time.perf_counter() - before
    found = explain(query)
    if not has_records and found.is_compiled:
        reason = _UNREAD if found.unread else _VALUES
        found = replace(explain_general(query, reason), by_index=found.by_index)
    return replace(found, results=len(results), seconds=seconds)


def explain_general(query: Query[Any], reason: str) -> Explanation:
    """Return how the general way answers a query without parameters."""
    store = query._store
    parts = _shown(_condition(query))
    look = look_in_general(query)
    transaction = store.engine.current()
    return Explanation(
        query=repr(query),
        chosen=look.chosen,
        others=look.others,
        # It compares with the whole condition, whatever the candidates are.
        filters=() if look.is_empty else tuple(map(repr, parts)),
        order=tuple(map(repr, query._order)),
        is_compiled=False,
        reason=reason,
        changes=None if transaction is None else len(transaction.changes(store)),
    )


def _explained(query: Query[Any], bound: Query[Any], given: dict[str, Any]) -> Explanation:
    """Return how a query is answered for values of its parameters.

    Args:
        query: The query.
        bound: With the values in their places.
        given: The values.
    """
    query._store.engine.log.raise_if_closed()
    _check(bound)
    try:
        return _generated(query, bound, given)
    except _General as error:
        return explain_general(bound, str(error))


def _check(query: Query[Any]) -> None:
    """Refuse what asking the query would refuse.

    Raises:
        QueryError: A field does not exist, values can't be compared, or a cursor is of another
            order.
    """
    query._compiled()
    if not has_groups(query):
        # What groups are ordered by may be the name of an aggregate.
        query._check_order()
    selected = () if query._selection is None else query._selection.values
    for value in (*(query._group or ()), *selected):
        for node in walk(value):
            if isinstance(node, Field):
                check_value(node, query._store.query_shape)
    if query._cursor is not None:
        check_cursor(query._cursor, query._order, query._store)


# -- the generated way -----------------------------------------------------------------------


def _generated(query: Query[Any], bound: Query[Any], given: dict[str, Any]) -> Explanation:
    """Return how a generated function answers.

    Raises:
        _General: It does not.
    """
    shown_query = repr(bound)
    order = tuple(map(repr, bound._order))
    if query is bound:
        query = bound = _of_records(query)
    plan = _plan(query, bound, is_prepared=query is not bound)
    expression = _condition(query)
    own = {name: given[name] for name in parameters(expression) if name in given}
    values = check_parameters(expression, own)
    kept = [each for each in way_for(conjuncts(expression), values) if not isinstance(each, Always)]
    shown = [_with_given(part, values) for part in kept]
    look = _look(query, plan, kept, shown, values)
    has_window = _has_window(query, bound)
    if look.candidates is None and has_window and not query._order and plan.view.rows is None:
        # All of them would have to be at hand.
        raise _General(_FIRST)
    filters = [part for place, part in enumerate(shown) if place not in look.covers]
    return Explanation(
        query=shown_query,
        chosen=look.chosen,
        others=look.others,
        filters=() if look.is_empty else tuple(map(repr, filters)),
        order=order,
        is_order_given=look.direction != 0,
        unread=_unread(bound, look),
        source=plan.source,
    )


def _of_records(query: Query[Any]) -> Query[Any]:
    """Return the query for the records that results are made of, a condition for its cursor."""
    query = query._resolved()
    if query._is_plain:
        return query
    found = query._copy()
    found._selection, found._is_distinct = None, False
    if has_groups(query):
        found._group, found._having, found._order = None, None, ()
    if not query._has_rows:
        found._skip, found._limit = 0, None
    return found


def _plan(query: Query[Any], bound: Query[Any], *, is_prepared: bool) -> Plan:
    """Return the plan that is asked.

    Raises:
        _General: There is none.
    """
    store, expression = query._store, _condition(query)
    if query._cursor is not None:
        raise _General(_CURSOR)
    if store.cache_limit is not None:
        raise _General(_CACHE)
    if store.engine.current() is not None:
        raise _General(_TRANSACTION)
    if has_callback(expression):
        raise _General(_CALLABLE)
    shape = Shape(expression, tuple(query._order), "rows", _has_window(query, bound))
    plan = make_plan(store, shape, has_parameters=is_prepared)
    if plan.run is None:
        raise _General(ODD if has_odd(plan.view, plan.indexes) else _ORDER)
    return plan


def has_odd(view: View, names: Iterable[str]) -> bool:
    """Whether an index of some that a plan would use can't stand for comparing all of its keys."""
    found = [view.entries.get(name) or view.uniques.get(name) for name in names]
    return any([not isinstance(e, ColumnEntries | None) and bool(e.odd.numbers) for e in found])


def _look(
    query: Query[Any],
    plan: Plan,
    kept: list[Expression],
    shown: list[Expression],
    values: dict[str, Any],
) -> Look:
    """Return what candidates the source of a plan takes.

    Args:
        query: The query.
        plan: Its plan.
        kept: The parts of the condition that count, as the query has them.
        shown: The same with the values of the parameters.
        values: Of the parameters.

    Raises:
        _General: An index can't serve a value.
    """
    store = query._store
    if any(map(matches_nothing, kept)):
        return NOTHING_MATCHES
    # As the source has them: what is taken of equal ones depends on it.
    functions = functions_of(store.query_shape)
    places = sorted(range(len(kept)), key=lambda place: cost_of(kept[place], functions))
    parts = [kept[place] for place in places]
    choice = Choice(store, plan.view, tuple(query._order))
    seeds = choice.seeds(parts, Operands(_condition(query)))
    whole = choice.whole_order() if not seeds else None
    wanted: list[Seed] = [choice.with_values(seed, values) for seed in seeds]
    if whole is not None:
        wanted.append(whole)
    total, found = opened(store, plan.indexes, wanted)
    if not found:
        return Look(Access("all records", total), (), frozenset())
    if not all([each is not None and each.is_exact for each in found]):
        raise _General(_OPERAND)
    covers = [frozenset([places[place] for place in seed.covers]) for seed in wanted]
    accesses = [
        Access(str(each.seed), each.count, together(shown, covered))
        for each, covered in zip(found, covers, strict=True)
        if each is not None
    ]
    first = min(range(len(found)), key=lambda place: accesses[place].count)
    others = by_count([each for place, each in enumerate(accesses) if place != first])
    direction = choice.direction(wanted[first])
    return Look(accesses[first], others, covers[first], found[first], direction)


def _unread(query: Query[Any], look: Look) -> int:
    """Return how many records the cache has not of those that the generated function needs."""
    store, candidates = query._store, look.candidates
    # With the lock no index is in the middle of a change.
    with store.engine.log.lock:
        numbers = store.identities.arrays()[0] if candidates is None else candidates.numbers()
    if look.direction:
        numbers = numbers[:: look.direction][: query._stop]
    return len(numbers) - sum(map(store.cache.__contains__, numbers.tolist()))


# -- what is asked -------------------------------------------------------------------------


def _by_index(query: Query[Any]) -> tuple[str, ...]:
    """Return the methods that indexes answer without the records."""
    store = query._store
    found: list[str] = []
    has_rows = query._condition is not None and query._cursor is None and query._has_rows
    if has_rows and answer_by_columns(store, query._condition, None, "count") is not NO_ANSWER:
        found.append("count()")
    paths = [
        index.asked[0]
        for index in store.indexes
        if index.kind in ("column", "sorted") and len(index.asked) == 1
    ]
    for path in dict.fromkeys(paths):
        for what in _AGGREGATES:
            if query._without_records(Field(path), what) is not NO_ANSWER:
                found.append(f"{what}({Field(path)!r})")
    return tuple(found)


def _condition(query: Query[Any]) -> Expression:
    return ALWAYS if query._condition is None else query._condition


def _shown(expression: Expression) -> list[Expression]:
    return [part for part in conjuncts(expression) if not isinstance(part, Always)]


def _with_given(part: Expression, values: dict[str, Any]) -> Expression:
    return bind(part, {name: values[name] for name in parameters(part)})


def _has_window(query: Query[Any], bound: Query[Any]) -> bool:
    """Whether the plan is one for a part of the results."""
    if query is bound:
        return query._start > 0 or query._stop < ENDLESS
    return isinstance(query._skip, Parameter) or query._skip > 0 or query._limit is not None
