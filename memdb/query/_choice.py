"""What a generated query starts from: the choice that its source makes and `explain` shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from memdb.query._conditions import Expression, conjuncts
from memdb.query._fields import Field
from memdb.query._parameters import Case, Optional
from memdb.query._paths import resolve_path
from memdb.query._seeds import (
    Among,
    Columns,
    Operand,
    Operands,
    Range,
    Seed,
    Union,
    not_dominated,
    seeds_of,
)
from memdb.query._values import Order, Parameter

if TYPE_CHECKING:
    from memdb._index_set import View
    from memdb._store import Store

# Ways that a query with optional conditions and cases is written in; the rest is compared.
MOST_WAYS: Final = 16


# -- conditions that depend on what is given -----------------------------------------------


def branch_at(parts: Sequence[Expression], budget: int) -> tuple[int, int] | None:
    """Return where a query is written in several ways, None if it is in one.

    Args:
        parts: What a record must match all of.
        budget: How many ways there may be.

    Returns:
        The place of an optional part or a case, and how many ways each of its own may take.
    """
    for place, part in enumerate(parts):
        if isinstance(part, Optional | Case):
            count = 2 if isinstance(part, Optional) else len(part.arms) + 1
            if count <= budget:
                return place, budget // count
    return None


def ways_of(parts: Sequence[Expression], place: int) -> list[list[Expression]]:
    """Return the parts for each way that the one at a place may go.

    An optional one does not count, or does; a case has its arms and then what holds without one.
    """
    part, rest = parts[place], [*parts[:place], *parts[place + 1 :]]
    if isinstance(part, Optional):
        return [rest, [*parts[:place], *conjuncts(part.condition), *parts[place + 1 :]]]
    assert isinstance(part, Case)
    conditions = [*[condition for _, condition in part.arms], part.default]
    return [[*rest, *conjuncts(condition)] for condition in conditions]


def every_way(parts: list[Expression], budget: int = MOST_WAYS) -> Iterator[list[Expression]]:
    """Give the parts of each way that a query is written in."""
    branch = branch_at(parts, budget)
    if branch is None:
        yield parts
        return
    for way in ways_of(parts, branch[0]):
        yield from every_way(way, branch[1])


def way_for(
    parts: list[Expression], given: dict[str, Any], budget: int = MOST_WAYS
) -> list[Expression]:
    """Return the parts of the way that a query goes for values of its parameters."""
    branch = branch_at(parts, budget)
    if branch is None:
        return parts
    part = parts[branch[0]]
    if isinstance(part, Optional):
        way = int(given[part.parameter.name] is not None)
    else:
        assert isinstance(part, Case)
        way = part.chosen(given[part.parameter.name])
    return way_for(ways_of(parts, branch[0])[way], given, branch[1])


# -- seeds ---------------------------------------------------------------------------------


class Choice:
    """The seeds that a query looks up, of which it takes the first of the smallest.

    Attributes:
        entries: Name -> plain index, of those that are built.
        uniques: Name -> unique index.
    """

    def __init__(self, store: Store, view: View, order: tuple[Order, ...]) -> None:
        """Choose among the indexes of a view for an order.

        Args:
            store: The collection.
            view: Its indexes; what is not built is left out.
            order: Of the records; empty for a count.
        """
        self._store = store
        # As they are now: another thread may add or drop one.
        self.entries, self.uniques = dict(view.entries), dict(view.uniques)
        self._paths = _paths_in_order(store, order)

    def seeds(self, parts: list[Expression], operands: Operands) -> list[Seed]:
        """Return the seeds of parts that all count, those first that win ties."""
        built = [
            index
            for index in self._store.indexes
            if index.name in (self.uniques if index.kind == "unique" else self.entries)
        ]
        seeds = seeds_of(parts, built, operands)
        ordered = [seed for seed in seeds if self.direction(seed)]
        # First, so that they are taken where others are no smaller: they need no sorting.
        return [*ordered, *[seed for seed in not_dominated(seeds) if seed not in ordered]]

    def whole_order(self) -> Range | None:
        """Return the range of a whole index that gives the order, None where none does."""
        if not self._paths:
            return None
        for index in self._store.indexes:
            if index.kind == "sorted" and index.condition is None and index.name in self.entries:
                found = Range(index, (), (), frozenset())
                if self.direction(found):
                    return found
        return None

    def direction(self, seed: Seed) -> int:
        """Return 1 if a seed gives the records in order, -1 if it does so from the end, 0 else."""
        if not isinstance(seed, Range) or not self._paths:
            return 0
        first = len(seed.prefix)
        paths, directions = seed.index.asked[first:], seed.index.directions[first:]
        if paths != tuple([path for path, _ in self._paths]):
            return 0
        wanted = tuple([direction for _, direction in self._paths])
        return 1 if directions == wanted else -1 if directions == tuple([-d for d in wanted]) else 0

    def may_be_none(self, path: Any) -> bool:
        """Whether a field of the records may be None."""
        if not self._store.decoding.is_typed:
            return True
        steps = resolve_path(path, self._store.query_shape)
        return any([each.may_be_none or each.way != "attribute" for each in steps])

    def with_values(self, seed: Seed, given: dict[str, Any]) -> Seed:
        """Return a seed with the values of parameters in their places."""

        def own(operands: tuple[Operand, ...]) -> tuple[Operand, ...]:
            return tuple([_with_value(each, given) for each in operands])

        if isinstance(seed, Union):
            seeds = [self.with_values(each, given) for each in seed.seeds]
            return replace(seed, seeds=tuple(seeds))
        if isinstance(seed, Among):
            return replace(seed, operand=_with_value(seed.operand, given))
        if isinstance(seed, Columns):
            tests = [replace(test, operands=own(test.operands)) for test in seed.tests]
            return replace(seed, tests=tuple(tests))
        if isinstance(seed, Range):
            bounds = [(operator, own(operands)) for operator, operands in seed.bounds]
            return replace(seed, prefix=own(seed.prefix), bounds=tuple(bounds))
        operands = own(seed.operands)
        if seed.index.kind == "unique":
            # It has no entry for None, and needs none where no field is.
            operands = tuple(
                [
                    each if each.value is not None or self.may_be_none(path) else _NOWHERE
                    for each, path in zip(operands, seed.index.asked, strict=True)
                ]
            )
        return replace(seed, operands=operands)


# A key that no record has.
_NOWHERE: Final = Operand(object(), "None")


def _with_value(operand: Operand, given: dict[str, Any]) -> Operand:
    is_given = isinstance(operand.value, Parameter)
    return replace(operand, value=given[operand.value.name]) if is_given else operand


def _paths_in_order(store: Store, order: tuple[Order, ...]) -> tuple[tuple[Any, int], ...]:
    """Return path and direction of each term of the order; none if an index can't give it.

    With a natural key ties are in the order of the keys, which no index has.
    """
    paths: list[tuple[Any, int]] = []
    for term in order:
        if store.key is not None or not isinstance(term.value, Field):
            return ()
        paths.append((term.value._path, -1 if term.is_descending else 1))
    return tuple(paths)
