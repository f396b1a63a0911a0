"""Candidates: what the indexes say of a condition whose operands are known, without its code.

The way for everything that generated code does not do: transactions, bounded caches, callables,
changes that other threads make meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from memdb.indexes import Bucket, HashEntries, SortedEntries, Span, UniqueEntries, is_usual
from memdb.indexes._order import bounds
from memdb.query._conditions import Expression, conjuncts
from memdb.query._costs import matches_nothing
from memdb.query._runtime import Misfit, keys_among, range_finder, scanned, size_of
from memdb.query._seeds import (
    Among,
    Columns,
    Equal,
    Operands,
    Range,
    Seed,
    Union,
    not_dominated,
    seeds_of,
)
from memdb.query._values import Parameter
from memdb.storage import Array

if TYPE_CHECKING:
    from memdb._bound_index import BoundIndex
    from memdb._index_set import View
    from memdb._insertion import Insertion

_NONE = np.empty(0, "<i8")


@dataclass(frozen=True, slots=True)
class Candidates:
    """What one seed gives.

    Attributes:
        seed: Which; None where the condition can't match.
        count: How many there are.
        numbers: Gives them, in any order, perhaps twice.
        is_exact: The parts that the seed covers match all of them.
    """

    seed: Seed | None
    count: int
    numbers: Callable[[], Array]
    is_exact: bool = True

    def narrows(self, total: int) -> bool:
        """Whether they are so few of all records that it is worth while to pick them out."""
        return self.count <= total // 2


NOTHING: Final = Candidates(None, 0, lambda: _NONE)
"""Of a condition that no record can match."""


def seeds_for(store: Insertion, expression: Expression) -> list[Seed]:
    """Return the seeds of a condition in a collection."""
    return not_dominated(seeds_of(conjuncts(expression), store.indexes, Operands(expression)))


def names_of(seeds: Iterable[Seed]) -> list[str]:
    """Return the names of the indexes that seeds need."""
    return [index.name for index in indexes_of(seeds)]


def indexes_of(seeds: Iterable[Seed]) -> list[BoundIndex]:
    """Return the indexes that seeds need."""
    indexes: list[BoundIndex] = []
    for seed in seeds:
        if isinstance(seed, Union):
            indexes += indexes_of(seed.seeds)
        elif isinstance(seed, Columns):
            indexes += [test.index for test in seed.tests]
        else:
            indexes.append(seed.index)
    return indexes


def best_candidates(view: View, expression: Expression, seeds: list[Seed]) -> Candidates | None:
    """Return the smallest set of candidates, None where no index can tell; the lock is held.

    Args:
        view: Of the indexes, caught up.
        expression: The condition, without parameters.
        seeds: Its seeds.
    """
    if any(map(matches_nothing, conjuncts(expression))):
        return NOTHING
    best: Candidates | None = None
    for seed in seeds:
        found = open_seed(view, seed)
        if found is not None and (best is None or found.count < best.count):
            best = found
    return best


def open_seed(view: View, seed: Seed) -> Candidates | None:
    """Return what a seed gives; None where its operands do not fit the index."""
    try:
        if isinstance(seed, Union):
            return _union(view, seed)
        if isinstance(seed, Range):
            return _range(view, seed)
        if isinstance(seed, Columns):
            return _columns(view, seed)
        return _hashed(view, seed)
    except (TypeError, ArithmeticError, ValueError, Misfit):
        # No hash, or nothing that the index could be asked for: it has to be compared.
        return None


def _union(view: View, seed: Union) -> Candidates | None:
    arms = []
    for each in seed.seeds:
        found = open_seed(view, each)
        if found is None:
            return None
        arms.append(found)
    return Candidates(
        seed,
        sum([arm.count for arm in arms]),
        lambda: np.concatenate([_NONE, *[arm.numbers() for arm in arms]]),
        all([arm.is_exact for arm in arms]),
    )


def _range(view: View, seed: Range) -> Candidates | None:
    entries: Any = view.entries.get(seed.index.name)
    if entries is None:
        # Dropped since the seed was made.
        return None
    operands = [each.value for each in seed.operands]
    if any([isinstance(each, Parameter) for each in operands]):
        return None
    try:
        span = range_finder(entries, seed)(*operands)
    except Misfit:
        found = _inexact_range(entries, seed)
    else:
        found = Candidates(seed, span.count, span.array)
    return None if found is None else _with_odd(found, seed, entries)


def _columns(view: View, seed: Columns) -> Candidates | None:
    tests = []
    for test in seed.tests:
        values = [each.value for each in test.operands]
        if test.index.name not in view.entries or any(
            [isinstance(each, Parameter) for each in values]
        ):
            return None
        operand = tuple(values) if test.operator == "between" else values[0]
        tests.append((view.entries[test.index.name], test.operator, operand))
    numbers = scanned(*tests)
    return Candidates(seed, len(numbers), lambda: numbers)


def _inexact_range(entries: Any, seed: Range) -> Candidates | None:
    """Return the candidates of a comparison whose interval has more than what matches."""
    if seed.prefix or len(seed.bounds) != 1:
        return None
    ((operator, operands),) = seed.bounds
    values = [each.value for each in operands]
    limits = bounds(operator, tuple(values) if operator == "between" else values[0])
    if limits is None:
        return None
    span: Span = entries.span(*limits[:4])
    is_exact = limits.is_exact and seed.after is None
    return Candidates(seed, span.count, span.array, is_exact)


def _hashed(view: View, seed: Equal | Among) -> Candidates | None:
    name = seed.index.name
    get: Callable[[Any], Any]
    entries: Any = (view.uniques if seed.index.kind == "unique" else view.entries).get(name)
    if entries is None:
        # Dropped since the seed was made.
        return None
    get = entries.numbers.get if seed.index.kind == "unique" else entries.buckets.get
    if isinstance(seed, Among):
        if isinstance(seed.operand.value, Parameter):
            return None
        keys = list(keys_among(seed.operand.value))
        if seed.index.kind == "unique" and None in keys:
            return None
    else:
        values = [each.value for each in seed.operands]
        if any([isinstance(each, Parameter) for each in values]):
            return None
        if seed.index.kind == "unique" and any([value is None for value in values]):
            return None
        # A NaN is found by its identity in a dict, and equals nothing.
        keys = [tuple(values) if len(values) > 1 else values[0]]
        if not all([value == value for value in values]):
            keys = []
    found = [each for each in map(get, keys) if each is not None]
    numbers = Candidates(seed, sum(map(size_of, found)), lambda: _numbers(found))
    return _with_odd(numbers, seed, entries)


def _with_odd(
    found: Candidates,
    seed: Equal | Among | Range,
    entries: HashEntries | UniqueEntries | SortedEntries,
) -> Candidates | None:
    """Return candidates together with those of which the index does not know whether they match."""
    odd = entries.odd
    if not odd.are_any or not seed.compared:
        return found
    operands = [each.value for each in seed.compared]
    are_usual = all(map(is_usual, operands[0] if isinstance(seed, Among) else operands))
    if odd.tame and not are_usual:
        return None
    if not odd.numbers:
        return found
    others = np.array(list(odd.numbers), "<i8")
    return Candidates(
        seed,
        found.count + len(others),
        lambda: np.concatenate([found.numbers(), others]),
        is_exact=False,
    )


def _numbers(found: list[Bucket | int]) -> Array:
    parts = [
        np.array([each] if isinstance(each, int) else each.numbers[:], "<i8") for each in found
    ]
    return np.concatenate([_NONE, *parts])
