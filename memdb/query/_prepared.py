"""Prepared queries: compiled once, called with parameters."""

from __future__ import annotations

import re
import threading
from itertools import count
from types import FunctionType
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    NamedTuple,
    Protocol,
    TypeVar,
    cast,
    runtime_checkable,
)

from memdb.query._conditions import ALWAYS
from memdb.query._explain import explain_prepared
from memdb.query._explanation import Explanation
from memdb.query._parameters import (
    check_names,
    check_parameters,
    collections_in,
    parameters,
    readable,
)
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
from memdb.query._structure import structure
from memdb.query._values import Parameter

if TYPE_CHECKING:
    from memdb.query._query import Query

T = TypeVar("T")

_MISSING: Final = object()

# Names, but for attributes and texts.
_WORDS: Final = re.compile(r"(?<![.'\w])[^\W\d]\w*\b(?!')")

_generations = count(1)


@runtime_checkable
class Prepared(Protocol[T]):
    """A query that is compiled; made by `Query.prepare`.

    Called with the parameters by keyword it gives the list that `Query.all` would. Parameters of
    `optional` conditions may be left out.

    Threads: any thread may call it at once.
    """

    def __call__(self, **given: Any) -> list[T]:
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


class _Call:
    """A function of the user's whose code is replaced when the indexes are others.

    A function is called in half of the time of an object with ``__call__``. The names that differ
    from plan to plan are in one tuple, which the code takes apart at its beginning, so that
    whoever is in the middle of older code has what that was made for.

    Attributes:
        function: What the user has.
    """

    def __init__(self, owner: Preparation[Any], name: str, document: str | None) -> None:
        self._namespace: dict[str, Any] = {
            "owner": owner,
            "missing": _MISSING,
            "readable": readable,
        }
        self._last: list[str] = []
        self.function = FunctionType(_plain_source(name).__code__, self._namespace, name)
        self.function.__doc__ = document
        self.function.__module__ = __name__

    def replace(
        self, source: str, required: dict[str, bool], shared: dict[str, Any], own: Own | None
    ) -> None:
        """Let the function do something else.

        Args:
            source: Of the function.
            required: The parameters, and whether each is.
            shared: What the source needs and means the same in every plan.
            own: What only this plan has.
        """
        name = self.function.__name__
        scope: dict[str, Any] = {}
        exec(compile(source, f"<memdb query, {name}>", "exec"), scope)
        self._namespace |= shared
        if own is not None:
            self._namespace[own.name] = own.values
            self._last.append(own.name)
        # Parameters and their names are the same, so that either code goes with either default.
        defaults = {n: _MISSING if needed else None for n, needed in required.items()}
        self.function.__kwdefaults__ = defaults
        self.function.__code__ = scope[name].__code__
        # Entries and records of former plans are let go of. Code that begins with this after all
        # takes the slow way.
        for former in self._last[:-1]:
            self._namespace[former] = None
        self._last = self._last[-1:]


class Own(NamedTuple):
    """What only one plan has.

    Attributes:
        name: By which the code finds it.
        values: What the code takes apart.
    """

    name: str
    values: tuple[Any, ...]


class Preparation(Generic[T]):
    """What is behind a prepared query.

    Attributes:
        call: The function that the user has; its attributes are the others.
    """

    def __init__(self, query: Query[T]) -> None:
        self._query = query
        self._expression = ALWAYS if query._condition is None else query._condition
        # Before anything that walks through it: this refuses what is nested too deep.
        structure(self._expression)
        self._required = parameters(*query._nodes())
        self._plans: dict[What, Plan] = {}
        self._calls: dict[What, _Call] = {
            "rows": _Call(self, "prepared", Prepared.__call__.__doc__),
            "count": _Call(self, "count", Prepared.count.__doc__),
        }
        # The type of functions has no such attributes; functions take any.
        call: Any = self._calls["rows"].function
        call.count, call.explain = self._calls["count"].function, self.explain
        self.call = call
        self._lock = threading.RLock()
        # Compiled at once, so that a wrong field is told here.
        self._renew("rows")

    # -- the calls -----------------------------------------------------------------------

    def prepared(self, given: dict[str, Any]) -> list[T]:
        """Return the results; the way for all that the generated call does not do."""
        query = self._query
        given = self._readable(given)
        if self._is_whole:
            found = self._answer("rows", given)
            if found is not None:
                return copies(query._store, found)
        return query._bound(given).all()

    def count(self, given: dict[str, Any]) -> int:
        """Return how many results there are; otherwise as `prepared`."""
        given = self._readable(given)
        if self._is_whole:
            found = self._answer("count", given)
            if found is not None:
                start, stop = self._window(given)
                return max(0, min(int(found), stop) - start)
        return self._query._bound(given).count()

    def _readable(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return the parameters so that collections can be read more than once."""
        again = {n: readable(given[n]) for n in collections_in(self._expression) if n in given}
        return {**given, **again} if again else given

    def slow_prepared(self, known: dict[str, Any], unknown: dict[str, Any]) -> list[T]:
        """Return the results for parameters of which some may be missing."""
        found = self._again("rows", known, unknown)
        if found is not None:
            return copies(self._query._store, found)
        return self.prepared(_given(known, unknown))

    def slow_count(self, known: dict[str, Any], unknown: dict[str, Any]) -> int:
        """Return how many results there are for parameters of which some may be missing."""
        if self._query._skip == 0 and self._query._limit is None:
            found = self._again("count", known, unknown)
            if found is not None:
                return int(found)
        return self.count(_given(known, unknown))

    def _again(self, what: What, known: dict[str, Any], unknown: dict[str, Any]) -> Any:
        """Return what the plan finds with its indexes caught up, None where more is amiss.

        The usual case after a commit, spelled out: half of the time of `_answer`.
        """
        plan = self._plans[what]
        store = self._query._store
        is_given = not unknown and all([value is not _MISSING for value in known.values()])
        if plan.run is None or not plan.view.is_valid or not is_given:
            return None
        if plan.view.cursor == store.horizon.slot or store.engine.transaction is not None:
            return None
        start, stop = self._window(known)
        store.indexes.catch_up(plan.indexes)
        return plan.run(*plan.constants, *[known[n] for n in plan.parameters], start, stop)

    def explain(self, /, **given: Any) -> Explanation:
        """Return how it would be answered now; see `Prepared`."""
        return explain_prepared(self._query, given)

    # -- inside --------------------------------------------------------------------------

    @property
    def _is_whole(self) -> bool:
        """Whether the results are whole records, which a plan gives."""
        return self._query._is_plain and self._query._cursor is None

    def _answer(self, what: What, given: dict[str, Any]) -> Any:
        """Return what the plan finds, caught up; None where only the general way can answer."""
        values = self._checked(given)
        return self.answer(what, values, *self._window(values))

    def answer(self, what: What, values: dict[str, Any], start: int, stop: int) -> Any:
        """Return what the plan finds, caught up; None where only the general way can answer.

        Args:
            what: Shared records, or their number.
            values: Of the parameters, checked.
            start, stop: Which part of the records, if the query has limits.
        """
        store = self._query._store
        for _ in range(ATTEMPTS):
            plan = self.plan(what)
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

    def checked(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return a value for each parameter of the query's own, of some that were given.

        Raises:
            QueryError: A value does not fit.
        """
        own = parameters(self._expression)
        ours = {name: given[name] for name in own if name in given}
        return {**given, **check_parameters(self._expression, ours)} if own else given

    def plan(self, what: What) -> Plan:
        """Return the plan, made anew if the indexes are others."""
        plan = self._plans.get(what)
        if plan is None or not plan.view.is_valid:
            plan = self._renew(what)
        return plan

    def _renew(self, what: What) -> Plan:
        """Make the plan for the indexes as they are now, and the call with it."""
        with self._lock:
            plan = self._plans.get(what)
            if plan is not None and plan.view.is_valid:
                # Another thread has done it.
                return plan
            query = self._query
            store = query._store
            order = tuple(query._order) if what == "rows" else ()
            is_whole = type(query._skip) is int and query._skip == 0 and query._limit is None
            shape = Shape(self._expression, order, what, what == "rows" and not is_whole)
            is_bounded = store.cache_limit is not None
            plan = make_plan(store, shape, has_parameters=True, is_bounded=is_bounded)
            if plan.writer is None or not self._is_whole or not self._replace(plan, what):
                source = _general_source(self._calls[what].function.__name__)
                self._calls[what].replace(source, {}, {}, None)
            # Last: after an interrupt all of this is done again.
            self._plans[what] = plan
            return plan

    def _replace(self, plan: Plan, what: What) -> bool:
        """Spell the whole plan out in a call, if that can be; whether it could.

        Each further call would cost 50 ns where a look-up by a unique key takes 130 in all.
        """
        query, writer, call = self._query, plan.writer, self._calls[what]
        assert writer is not None
        name = call.function.__name__
        given = ", ".join([f"{each!r}: p_{each}" for each in self._required])
        otherwise = f"return owner.slow_{name}({{{given}}}, unknown)"
        needed = [each for each, is_needed in self._required.items() if is_needed]
        window = _window_lines(query, otherwise)
        result: Lines = ["return max(0, min(found, stop) - start)" if window else "return found"]
        if what == "rows":
            result = _give(query, writer.names)
        body: Lines = [
            f"if {' or '.join(['unknown', *[f'p_{each} is missing' for each in needed]])}:",
            [otherwise],
            *window,
            # What can be read only once must do for another attempt.
            *[f"p_{each} = readable(p_{each})" for each in collections_in(self._expression)],
            *writer.prelude,
            *guarded(writer, plan.lines, otherwise),
            *result,
        ]
        words = set(_WORDS.findall("\n".join(indented(body, 1))))
        if not {"self", *words}.isdisjoint(self._required):
            # A parameter of a name that the source has for something else.
            return False
        own = {n: v for n, v in writer.names.items() if n in words and n not in writer.shared}
        values = Own(f"own_{next(_generations)}", tuple(own.values()))
        signature = ", ".join([f"{each}=None" for each in self._required])
        lines: Lines = [
            f"def {name}({f'*, {signature}, ' if signature else ''}**unknown):",
            [
                *[f"p_{each} = {each}" for each in self._required],
                "try:",
                [f"{', '.join(own)}, = {values.name}"],
                "except TypeError:",
                [otherwise],
                *body,
            ],
        ]
        shared = {n: v for n, v in writer.names.items() if n in writer.shared}
        shared |= {f"c{number}": value for number, value in enumerate(plan.constants)}
        call.replace("\n".join(indented(lines, 0)), self._required, shared, values)
        return True


def _general_source(name: str) -> str:
    return f"def {name}(**given):\n    return owner.{name}(given)"


def _plain_source(name: str) -> FunctionType:
    """Return the function that leaves all to the general way."""
    scope: dict[str, Any] = {}
    exec(compile(_general_source(name), "<memdb query>", "exec"), scope)
    function: FunctionType = scope[name]
    return function


def _given(known: dict[str, Any], unknown: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters that were given."""
    given = {name: value for name, value in known.items() if value is not _MISSING}
    return {**given, **unknown}


def prepared(query: Query[T]) -> Prepared[T]:
    """Return a query compiled."""
    return cast("Prepared[T]", Preparation(query).call)


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
