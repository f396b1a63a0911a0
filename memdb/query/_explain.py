"""How a query is answered, for a person to read."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from memdb.query._candidates import names_of, open_seed, seeds_for
from memdb.query._conditions import ALWAYS, Expression, conjuncts
from memdb.query._parameters import bind
from memdb.query._plan_source import Shape
from memdb.query._plans import make_plan

if TYPE_CHECKING:
    from memdb.query._query import Query


@dataclass(frozen=True, slots=True)
class Access:
    """One way to the records that may match.

    Attributes:
        source: The index, or what else.
        count: How many records it gives, exactly.
        covers: The conditions that need no further look.
    """

    source: str
    count: int
    covers: tuple[str, ...]

    def __str__(self) -> str:
        covered = f" for {' & '.join(self.covers)}" if self.covers else ""
        return f"{self.source}{covered}: {self.count:,}"


@dataclass(frozen=True, slots=True)
class Explanation:
    """How a query is answered; its text is for a person.

    Attributes:
        query: What was asked.
        chosen: Where the candidates come from.
        others: What was larger.
        filters: The conditions that each candidate is compared with.
        order: What they are sorted by.
        is_compiled: A generated function answers; if not, the general way.
        source: The generated function; None where there is none.
        results: How many results there were, after `Query.analyze`.
        seconds: How long it took, after `Query.analyze`.
    """

    query: str
    chosen: Access
    others: tuple[Access, ...]
    filters: tuple[str, ...]
    order: tuple[str, ...]
    is_compiled: bool
    source: str | None
    results: int | None = None
    seconds: float | None = None

    def __str__(self) -> str:
        lines = [self.query, f"  candidates  {self.chosen}"]
        lines += [f"  not taken   {other}" for other in self.others]
        lines += [f"  compare     {each}" for each in self.filters]
        if self.order:
            lines.append(f"  order       {', '.join(self.order)}")
        how = "a generated function" if self.is_compiled else "the general way"
        lines.append(f"  answered by {how}")
        if self.seconds is not None:
            lines.append(f"  took        {self.seconds * 1e6:,.1f} us for {self.results:,} results")
        return "\n".join(lines)


def explain(query: Query[Any]) -> Explanation:
    """Return how a query, without parameters, would be answered now."""
    store = query._store
    expression = ALWAYS if query._condition is None else query._condition
    bound = bind(expression, {})
    seeds = seeds_for(store, bound)
    view = store.indexes.catch_up(names_of(seeds))
    with store.engine.log.lock:
        found = [open_seed(view, seed) for seed in seeds]
        total = len(store.identities)
    parts = conjuncts(bound)
    accesses = sorted(
        [
            (
                each.count,
                Access(
                    str(each.seed), each.count, _texts(parts, seed.covers if each.is_exact else ())
                ),
                frozenset(seed.covers if each.is_exact else ()),
            )
            for each, seed in zip(found, seeds, strict=True)
            if each is not None
        ],
        key=lambda item: item[0],
    )
    if not accesses:
        accesses = [(total, Access("all records", total, ()), frozenset())]
    filters = [
        repr(part)
        for place, part in enumerate(parts)
        if place not in accesses[0][2] and part is not ALWAYS
    ]
    has_window = query._start > 0 or query._limit is not None
    plan = make_plan(store, Shape(bound, tuple(query._order), "rows", has_window))
    is_compiled = plan.run is not None and store.cache_limit is None and query._cursor is None
    return Explanation(
        query=repr(query),
        chosen=accesses[0][1],
        others=tuple([access for _, access, _ in accesses[1:]]),
        filters=tuple(filters),
        order=tuple(map(repr, query._order)),
        is_compiled=is_compiled,
        source=plan.source if is_compiled else None,
    )


def _texts(parts: list[Expression], covers: Any) -> tuple[str, ...]:
    return tuple([repr(part) for place, part in enumerate(parts) if place in covers])


def analyze(query: Query[Any]) -> Explanation:
    """Ask a query once to prepare it, then once with a clock."""
    query.all()
    before = time.perf_counter()
    results = len(query.all())
    seconds = time.perf_counter() - before
    return replace(explain(query), results=results, seconds=seconds)
