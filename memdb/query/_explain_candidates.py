"""The candidates that an explanation tells of, and those of the general way."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from memdb.query._candidates import NOTHING, Candidates, names_of, open_seed, seeds_for
from memdb.query._conditions import And, Expression, conjuncts
from memdb.query._costs import matches_nothing
from memdb.query._explanation import Access
from memdb.query._seeds import Seed

if TYPE_CHECKING:
    from memdb._store import Store
    from memdb.query._query import Query


class Look(NamedTuple):
    """What candidates there are.

    Attributes:
        chosen: Where they come from.
        others: What was not taken.
        covers: Places of the conditions that they match all.
        candidates: The chosen ones; None for all records.
        direction: As `Choice.direction` has it.
    """

    chosen: Access
    others: tuple[Access, ...]
    covers: frozenset[int]
    candidates: Candidates | None = None
    direction: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether it is known that nothing matches."""
        return self.candidates is NOTHING


NOTHING_MATCHES: Final = Look(Access("none", 0), (), frozenset(), NOTHING)
"""What is known of a condition that no record can match."""


def look_in_general(query: Query[Any]) -> Look:
    """Return what candidates the general way takes for a query without parameters."""
    store, expression = query._store, query._compiled().expression
    # Without a callable, which no index knows.
    plain = [] if expression is None else conjuncts(expression)
    has_indexes = expression is not None and len(store.indexes) > 0
    if has_indexes and any(map(matches_nothing, plain)):
        return NOTHING_MATCHES
    seeds = seeds_for(store, expression) if expression is not None and has_indexes else []
    total, found = opened(store, names_of(seeds), seeds)
    best = min([each for each in found if each is not None], key=_count_of, default=None)
    if best is not None and not best.narrows(total):
        best = None
    accesses = {
        id(each): Access(str(each.seed), each.count, together(plain, seed.covers))
        for each, seed in zip(found, seeds, strict=True)
        if each is not None
    }
    chosen = Access("all records", total) if best is None else accesses.pop(id(best))
    return Look(chosen, by_count(accesses.values()), frozenset(), best)


def opened(
    store: Store, names: Iterable[str], seeds: list[Seed]
) -> tuple[int, list[Candidates | None]]:
    """Return the number of records and what each seed gives, all of one commit."""
    names, log = list(names), store.engine.log
    while True:
        view = store.indexes.catch_up(names)
        horizon = view.cursor
        try:
            # Without the lock, as comparing what the user gave may run his code.
            found = [open_seed(view, seed) for seed in seeds]
        except Exception:
            if view.is_valid and store.horizon.slot == horizon:
                raise
            # Half of a change was seen.
            continue
        with log.lock:
            log.raise_if_closed()
            if view.is_valid and store.horizon.slot == horizon == view.cursor:
                return len(store.identities), found


def together(parts: list[Expression], places: frozenset[int]) -> str:
    """Return some parts as one condition, as a query shows it."""
    some = [parts[place] for place in sorted(places)]
    return "" if not some else repr(some[0] if len(some) == 1 else And(tuple(some)))


def _count_of(found: Candidates) -> int:
    return found.count


def by_count(accesses: Iterable[Access]) -> tuple[Access, ...]:
    """Return accesses, the smallest first."""
    return tuple(sorted(accesses, key=lambda access: access.count))
