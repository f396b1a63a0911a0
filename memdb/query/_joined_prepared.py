"""Prepared joined queries: compiled once, called with parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from memdb.indexes import SURE, are_sure, is_sure
from memdb.query._builder import checked_count
from memdb.query._join import each_join
from memdb.query._join_source import What, constant_places, join_constants, windows_in
from memdb.query._joined_plans import AHEAD, JoinPlan, make_join_plan
from memdb.query._parameters import (
    check_names,
    check_parameters,
    collections_in,
    parameters,
    readable,
)
from memdb.query._plans import ATTEMPTS, ENDLESS, compiled, indented
from memdb.query._prepared import Preparation
from memdb.query._row_copies import is_shared
from memdb.query._values import Parameter

if TYPE_CHECKING:
    from memdb.query._explanation import JoinedExplanation
    from memdb.query._joined import JoinedQuery
    from memdb.query._prepared import Prepared

Fast = Callable[..., list[Any] | None]


class _JoinedPreparation:
    """What is behind a prepared joined query, and what the user calls.

    What the left and the joins alone answer goes to their plans; everything else is asked with the
    values in their places.
    """

    def __init__(self, query: JoinedQuery[*tuple[Any, ...]]) -> None:
        self._query = query
        self._required = parameters(*query._nodes())
        self._source = query._store
        # Here, so that what is wrong is told now.
        query._check()
        parts = query._parts()
        self._parts = parts
        left = parts.left
        self._left = left
        self._is_limited = query._has_window
        self._is_simple = (
            parts.condition is None
            and not parts.order
            and not query._is_made_of_many
            and left._cursor is None
            and not (query._selection is not None and parameters(*query._selection.values))
        )
        self._whole = Preparation(left)
        self._part = Preparation(left.limit(1)) if self._is_limited else self._whole
        self._gives_rows = query._selection is None and is_shared(self._source)
        nodes = query._nodes()
        # What is given for these is the value itself; others have to be looked at.
        self._collections = [name for node in nodes for name in collections_in(node)]
        self._is_plain = all(self._required.values()) and not self._collections
        self._plans: dict[What, JoinPlan] = {}
        joins = self._source.joins
        self._constants = join_constants(joins)
        places = constant_places(left, joins)
        self._constant = frozenset(places)
        self._held = [name for name in dict.fromkeys(places.values()) if name is not None]
        conditions = [join.right._condition for join in each_join(joins)]
        self._conditions = [each for each in conditions if each is not None and parameters(each)]
        self._windows = [join.right for join in windows_in(joins)]
        self._fast: Fast | None = None
        if self._is_simple:
            self._plan("rows")

    def __call__(self, /, **given: Any) -> list[Any]:
        """Return the results; see `Prepared`."""
        rows = None
        given = self._readable(given)
        if self._fast is not None and given.keys() == self._required.keys():
            rows = self._fast(**given)
        if rows is None:
            rows = self._rows(given) if self._is_simple else None
        if rows is None:
            return cast("list[Any]", self._query._bound(given).all())
        return rows if self._gives_rows else self._query._given(rows, {})

    def count(self, /, **given: Any) -> int:
        """Return how many results there are; see `Prepared`."""
        found = None
        given = self._readable(given)
        if self._is_simple and not self._is_limited:
            found = self._count(given)
        if found is None:
            return cast("int", self._query._bound(given).count())
        return found

    def explain(self, /, **given: Any) -> JoinedExplanation:
        """Return how it would be answered now; see `Prepared`."""
        return cast("JoinedExplanation", self._query._bound(self._readable(given)).explain())

    # -- inside --------------------------------------------------------------------------

    def _readable(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return the parameters so that collections can be read more than once."""
        again = {name: readable(given[name]) for name in self._collections if name in given}
        return {**given, **again} if again else given

    def _rows(self, given: dict[str, Any]) -> list[Any] | None:
        """Return shared rows, None where the general way has to."""
        values = self._checked(given)
        first, last = self._limits(self._left, values)
        if not self._is_limited:
            found = self._joined("rows", self._whole, values, first, last)
            return None if found is None else found[0]
        start, stop = self._limits(self._query, values)
        if self._parts.is_cut:
            end = min(last, first + stop)
            found = self._joined("rows", self._part, values, first + start, end)
            return None if found is None else found[0]
        ahead = min(2 * stop + AHEAD, ENDLESS)
        found = self._joined("rows", self._part, values, first, min(last, first + ahead))
        if found is not None and len(found[0]) < stop and found[1] == ahead:
            found = self._joined("rows", self._whole, values, first, last)
        return None if found is None else found[0][start:stop]

    def _count(self, given: dict[str, Any]) -> int | None:
        values = self._checked(given)
        first, last = self._limits(self._left, values)
        if not any([join.is_inner for join in self._source.joins]):
            found = self._whole.answer("count", self._of_left(values), first, last)
            return None if found is None else max(0, min(int(found), last) - first)
        both = self._joined("count", self._whole, values, first, last)
        return None if both is None else int(both[0])

    def _joined(
        self, what: What, left: Preparation[Any], values: dict[str, Any], start: int, stop: int
    ) -> tuple[Any, int] | None:
        """Return what the plan makes of some records of the left, and how many those are."""
        if not are_sure([values[name] for name in self._held]):
            return None
        limits = [end for right in self._windows for end in self._limits(right, values)]
        engine, own = self._source.engine, self._of_left(values)
        for _ in range(ATTEMPTS):
            plan = self._plan(what)
            if plan.run is None or (engine.transaction is not None and engine.current()):
                return None
            versions = plan.versions()
            if versions is None:
                plan.catch_up()
                versions = plan.versions()
                if versions is None:
                    continue
            records = left.answer("rows", own, start, stop)
            if records is None:
                return None
            taken = [values[name] for name in plan.parameters]
            found = plan.run(*versions, records, *self._constants, *taken, *limits)
            if found is not None:
                return found, len(records)
            if not plan.catch_up():
                return None
        return None

    def _plan(self, what: What) -> JoinPlan:
        plan = self._plans.get(what)
        if plan is None or not plan.is_valid:
            plan = make_join_plan(self._source, what, self._constant)
            if what == "rows":
                self._fast = self._made_fast(plan)
            # Last: after an interrupt all of this is done again.
            self._plans[what] = plan
        return plan

    def _made_fast(self, plan: JoinPlan) -> Fast | None:
        """Return a function for the everyday case, which gives None where it is not that.

        It saves 2 us of the 4 that the others need around the plans.
        """
        is_fixed = not any(
            [_has_parameter(each) for each in [self._query, self._left, *self._windows]]
        )
        if plan.run is None or not self._is_plain or not is_fixed:
            return None
        if self._is_limited and not self._parts.is_cut:
            return None
        left_plan = self._part.plan("rows")
        if left_plan.run is None:
            return None
        first, last = self._limits(self._left, {})
        start, stop = self._limits(self._query, {})
        numbers = range(len(plan.views))
        versions = ", ".join([f"version{n}" for n in numbers])
        limits = [end for right in self._windows for end in self._limits(right, {})]
        names: dict[str, Any] = {
            "SURE": SURE,
            "is_sure": is_sure,
            "engine": self._source.engine,
            "left": left_plan.run,
            "left_constants": left_plan.constants,
            "run": plan.run,
            "join_constants": self._constants,
            "limits": limits,
            "start": min(first + start, ENDLESS),
            "stop": min(last, first + stop),
        }
        for number, (store, view) in enumerate(plan.views):
            names |= {f"horizon{number}": store.horizon, f"view{number}": view}
        own = [f"p_{name}" for name in self._required]
        of_left = "".join([f"p_{name}, " for name in left_plan.parameters])
        of_joins = "".join([f"p_{name}, " for name in plan.parameters])
        changed = " or ".join([f"horizon{n}.slot != version{n}" for n in numbers])
        lines = [
            f"def fast({', '.join(own)}):",
            [
                *[f"version{n} = view{n}.cursor" for n in numbers],
                f"if {changed} or (engine.transaction is not None and engine.current()):",
                ["return None"],
                *[
                    line
                    for name in self._held
                    for line in (
                        f"if type(p_{name}) not in SURE and not is_sure(p_{name}):",
                        ["return None"],
                    )
                ],
                f"found = left(*left_constants, {of_left}start, stop)",
                "if found is None:",
                ["return None"],
                f"return run({versions}, found, *join_constants, {of_joins}*limits)",
            ],
        ]
        made = compiled("\n".join(indented(lines, 0)), "fast", names, self._source.name)
        required = list(self._required)
        if not required:
            return cast("Fast", made)
        if len(required) == 1:
            (name,) = required
            return lambda **given: made(given[name])
        return lambda **given: made(*[given[name] for name in required])

    def _checked(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return a value for each parameter, None for those that were left out.

        Raises:
            QueryError: One is missing, there is none of a name, or a value does not fit.
        """
        if given.keys() == self._required.keys() and self._is_plain:
            return given
        check_names(self._required, given)
        values = {name: given.get(name) for name in self._required}
        for condition in self._conditions:
            own = {name: given[name] for name in parameters(condition) if name in given}
            values |= check_parameters(condition, own)
        return values

    def _of_left(self, values: dict[str, Any]) -> dict[str, Any]:
        return values if self._is_plain else self._whole.checked(values)

    def _limits(self, query: Any, values: dict[str, Any]) -> tuple[int, int]:
        """Return start and stop of what is wanted of a query.

        Raises:
            QueryError: A parameter can't be a number of results.
        """
        skip, limit = query._skip, query._limit
        if isinstance(skip, Parameter):
            skip = checked_count(values[skip.name], "skip", query._store)
        if isinstance(limit, Parameter):
            given = values[limit.name]
            limit = None if given is None else checked_count(given, "limit", query._store)
        start = min(skip, ENDLESS)
        return start, ENDLESS if limit is None else min(start + limit, ENDLESS)


def _has_parameter(query: Any) -> bool:
    return isinstance(query._skip, Parameter) or isinstance(query._limit, Parameter)


def prepared_joined(query: JoinedQuery[*tuple[Any, ...]]) -> Prepared[Any]:
    """Return a joined query compiled."""
    return cast("Prepared[Any]", _JoinedPreparation(query))
