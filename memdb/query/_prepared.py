"""Prepared queries: compiled once, called with parameters."""

from __future__ import annotations

import re
from itertools import count
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar, cast

from memdb.query._conditions import ALWAYS
from memdb.query._explain import Explanation, explain
from memdb.query._parameters import check_names, check_parameters, parameters
from memdb.query._plan_source import Shape, What
from memdb.query._plans import (
    ATTEMPTS,
    ENDLESS,
    Lines,
    Plan,
    guarded,
    indented,
    make_plan,
    try_again,
)
from memdb.query._results import copies
from memdb.query._values import Parameter

if TYPE_CHECKING:
    from memdb.query._query import Query

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_MISSING: Final = object()

_WORDS: Final = re.compile(r"(?<!')\b[^\W\d]\w*\b(?!')")

_generations = count(1)


class Prepared(Protocol[T_co]):
    """A query that is compiled; made by `Query.prepare`.

    Called with the parameters by keyword it gives the list that `Query.all` would. Parameters of
    `optional` conditions may be left out.

    Threads: any thread may call it at once.
    """

    def __call__(self, **given: Any) -> list[T_co]:
        """Return the results.

        Args:
            given: The parameters.

        Raises:
            QueryError: One is missing, there is none of a name, or a value can't be compared.

        Cost: the loop over the smallest set of candidates, and 0.1 us.
        """

    def count(self, **given: Any) -> int:
        """Return how many results there are; arguments and errors are those of calling it."""

    def explain(self, **given: Any) -> Explanation:
        """Return how it would be answered now; arguments and errors are those of calling it."""


class _Preparation(Generic[T]):
    """What is behind a prepared query.

    Attributes:
        call: The function that the user has. Its code is replaced when the indexes are others: a
            function is called in half of the time of an object with ``__call__``.
    """

    def __init__(self, query: Query[T]) -> None:
        self._query = query
        self._expression = ALWAYS if query._condition is None else query._condition
        self._required = parameters(*query._nodes())
        self._plans: dict[What, Plan] = {}
        self._namespace: dict[str, Any] = {"owner": self, "missing": _MISSING}
        self.call: Any = None
        self._renew("rows")

    # -- the calls -----------------------------------------------------------------------

    def all(self, given: dict[str, Any]) -> list[T]:
        """Return the results; the way for all that the generated call does not do."""
        query = self._query
        if query._is_plain and query._cursor is None:
            found = self._answer("rows", given)
            if found is not None:
                return copies(query._store, found)
        return self._query._bound(given).all()

    def slow(self, known: dict[str, Any], unknown: dict[str, Any]) -> list[T]:
        """Return the results for parameters of which some may be missing."""
        given = {name: value for name, value in known.items() if value is not _MISSING}
        return self.all({**given, **unknown})

    def count(self, /, **given: Any) -> int:
        """Return how many results there are; see `Prepared`."""
        if self._query._is_plain and self._query._cursor is None:
            found = self._answer("count", given)
            if found is not None:
                start, stop = self._window(given)
                return max(0, min(int(found), stop) - start)
        return self._query._bound(given).count()

    def explain(self, /, **given: Any) -> Explanation:
        """Return how it would be answered now; see `Prepared`."""
        return explain(self._query._bound(given))

    # -- inside --------------------------------------------------------------------------

    def _answer(self, what: What, given: dict[str, Any]) -> Any:
        """Return what the plan finds, caught up; None where only the general way can answer."""
        store = self._query._store
        values = self._checked(given)
        start, stop = self._window(values)
        for _ in range(ATTEMPTS):
            plan = self._plan(what)
            if plan.run is None:
                return None
            taken = [values[name] for name in plan.parameters]
            found = plan.run(*plan.constants, *taken, start, stop)
            if found is not None or not try_again(store, plan):
                return found
        return None

    def _window(self, values: dict[str, Any]) -> tuple[int, int]:
        """Return start and stop of what is wanted.

        Raises:
            QueryError: A parameter can't be a number of results.
        """
        query = self._query
        if isinstance(query._skip, Parameter):
            query = query.skip(values[query._skip.name])
        if isinstance(query._limit, Parameter):
            query = query.limit(values[query._limit.name])
        return query._start, query._stop

    def _checked(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return a value for each parameter, None for those that were left out.

        Raises:
            QueryError: One is missing, or there is none of a name.
        """
        own = parameters(self._expression)
        if own.keys() == self._required.keys():
            return check_parameters(self._expression, given)
        check_names(self._required, given)
        ours = {name: value for name, value in given.items() if name in own}
        return {**given, **check_parameters(self._expression, ours)}

    def _plan(self, what: What) -> Plan:
        plan = self._plans.get(what)
        if plan is None or plan.view is not self._query._store.indexes.view:
            plan = self._renew(what)
        return plan

    def _renew(self, what: What) -> Plan:
        """Make the plan for the indexes as they are now, and the call with it."""
        query = self._query
        store = query._store
        order = tuple(query._order) if what == "rows" else ()
        is_whole = type(query._skip) is int and query._skip == 0 and query._limit is None
        has_window = what == "rows" and not is_whole
        shape = Shape(self._expression, order, what, has_window)
        plan = make_plan(
            store,
            shape,
            has_parameters=True,
            is_bounded=store.cache_limit is not None,
            # The old code may be running with the names of the new one.
            suffix=f"_{next(_generations)}",
        )
        self._plans[what] = plan
        if what == "rows":
            self._renew_call(plan)
        return plan

    def _renew_call(self, plan: Plan) -> None:
        source = "def prepared(**given):\n    return owner.all(given)"
        if plan.writer is not None and self._query._is_plain and self._query._cursor is None:
            source = self._call_source(plan) or source
        scope: dict[str, Any] = {}
        exec(compile(source, f"<memdb query of {self._query._store.name}>", "exec"), scope)
        function: FunctionType = scope["prepared"]
        if self.call is None:
            self.call = FunctionType(function.__code__, self._namespace, "prepared")
            self.call.__doc__ = Prepared.__call__.__doc__
            self.call.count, self.call.explain = self.count, self.explain
        # Parameters and their names are the same, so that either code goes with either default.
        defaults = {n: _MISSING if needed else None for n, needed in self._required.items()}
        self.call.__kwdefaults__ = defaults
        self.call.__code__ = function.__code__

    def _call_source(self, plan: Plan) -> str | None:
        """Return the source of the call: the whole plan spelled out; None if it can't be.

        Each further call would cost 50 ns where a look-up by a unique key takes 130 in all.
        """
        query, writer = self._query, plan.writer
        assert writer is not None
        given = ", ".join([f"{name!r}: p_{name}" for name in self._required])
        otherwise = f"return owner.slow({{{given}}}, unknown)"
        needed = [name for name, is_needed in self._required.items() if is_needed]
        body: Lines = [
            f"if {' or '.join(['unknown', *[f'p_{name} is missing' for name in needed]])}:",
            [otherwise],
            *_window_lines(query, otherwise),
            *writer.prelude,
            *guarded(plan.lines, otherwise, view=writer.view_name),
            *_give(query, writer.names),
        ]
        if not set(_WORDS.findall("\n".join(indented(body, 1)))).isdisjoint(self._required):
            # A parameter of a name that the source has for something else.
            return None
        self._namespace |= writer.names
        self._namespace |= {f"c{number}": value for number, value in enumerate(plan.constants)}
        signature = ", ".join([f"{name}=None" for name in self._required])
        keywords = f"*, {signature}, " if signature else ""
        body = [*[f"p_{name} = {name}" for name in self._required], *body]
        return "\n".join([f"def prepared({keywords}**unknown):", *indented(body, 1)])


def prepared(query: Query[T]) -> Prepared[T]:
    """Return a query compiled."""
    return cast("Prepared[T]", _Preparation(query).call)


def _window_lines(query: Query[Any], otherwise: str) -> Lines:
    """Return the lines that set ``start`` and ``stop``."""
    lines: Lines = []
    sources = {"start": "0", "limit": ""}
    for name, value in (("start", query._skip), ("limit", query._limit)):
        if isinstance(value, Parameter):
            sources[name] = f"p_{value.name}"
            lines += [f"if type(p_{value.name}) is not int or p_{value.name} < 0:", [otherwise]]
        elif value is not None:
            sources[name] = str(value)
    if sources == {"start": "0", "limit": ""}:
        return []
    stop = f"{sources['start']} + {sources['limit']}" if sources["limit"] else str(ENDLESS)
    return [*lines, f"start = {sources['start']}", f"stop = {stop}"]


def _give(query: Query[Any], names: dict[str, Any]) -> Lines:
    """Return the lines that give copies of what was found."""
    cloner = query._store.cloner
    names |= cloner.namespace
    names["clone"] = cloner.clone
    if cloner.inline_expression == "{r}":
        return ["return found"]
    if cloner.inline_expression is not None:
        return [f"return [{cloner.inline_expression.replace('{r}', 'r')} for r in found]"]
    if cloner.inline_lines is not None:
        lines = [line.replace("{r}", "r").replace("{o}", "o") for line in cloner.inline_lines]
        return [
            "copies = []",
            "append = copies.append",
            "for r in found:",
            [*lines, "append(o)"],
            "return copies",
        ]
    return ["return list(map(clone, found))"]
