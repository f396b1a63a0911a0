"""Groups: records with equal values, and what is calculated over each group."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from memdb.errors import QueryError
from memdb.indexes._order import ABSENT
from memdb.query._aggregates import Aggregate, Group, term_key
from memdb.query._aggregating import column_at
from memdb.query._conditions import Expression, Operand, walk
from memdb.query._distinct import places_by_value
from memdb.query._evaluate import evaluate, value_of
from memdb.query._fields import Field
from memdb.query._ordering import arrange
from memdb.query._reading import column, owned, present
from memdb.query._reducing import REDUCTIONS
from memdb.query._values import Order, Value

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from memdb._records import Records

# Picking a group by itself takes as long as so many values of all of them.
_COST_OF_PART: Final = 128


class Groups:
    """The groups of some records, in the total order of what they are grouped by.

    Attributes:
        groups: What is known of each group.
    """

    def __init__(
        self,
        terms: tuple[Value, ...],
        records: list[Any],
        store: Records,
        names: Mapping[str, Any],
        version: int | None = None,
    ) -> None:
        """Group records.

        Args:
            terms: By what; empty for one group of all, even of none.
            records: In default order; the stored objects themselves.
            store: The collection.
            names: The selected values by name, for conditions and order.
            version: The horizon of the collection at which the records are all that it has, so
                that columns may stand for them; None where they are not.

        Raises:
            QueryError: A field does not exist.
        """
        self._store = store
        self._records = records
        self._names = names
        self._version = version
        self._known: set[Hashable] = {term_key(term) for term in terms}
        columns = [column(term, records, store.query_shape) for term in terms]
        self._order, starts = places_by_value(columns, len(records))
        if not terms:
            starts = [0, len(records)]
        parts = list(pairwise(starts))
        firsts: list[int] = self._order[starts[:-1]].tolist() if terms else []
        keys = [list(map(values.__getitem__, firsts)) for values in columns]
        order = arrange(keys, [False] * len(keys), len(parts), 0, len(parts))
        # Where the places of each group begin and end in the order.
        self._parts = [parts[place] for place in order]
        self.groups = [
            Group({term_key(term): values[place] for term, values in zip(terms, keys, strict=True)})
            for place in order
        ]

    def keep(self, condition: Expression) -> None:
        """Drop the groups that do not match.

        Raises:
            QueryError: It asks for what a group has not.
        """
        self._learn(condition, "having")
        self._take([p for p, group in enumerate(self.groups) if evaluate(condition, group)])

    def arrange(self, order: tuple[Order, ...], start: int, stop: int) -> None:
        """Bring the groups into an order and keep those from start to stop.

        Raises:
            QueryError: It asks for what a group has not.
        """
        columns = [self._values(term.value, "order_by") for term in order]
        falling = [term.is_descending for term in order]
        self._take(arrange(columns, falling, len(self.groups), start, stop))

    def columns(self, values: tuple[Value, ...]) -> list[list[Any]]:
        """Return the values of all groups, each in a list, for their receiver to keep.

        Raises:
            QueryError: One is what a group has not.
        """
        return [owned(self._values(value, "select")) for value in values]

    def _take(self, places: list[int]) -> None:
        self.groups = [self.groups[place] for place in places]
        self._parts = [self._parts[place] for place in places]

    def _values(self, value: Value, method: str) -> list[Any]:
        self._learn(value, method)
        return list(map(partial(value_of, value), self.groups))

    def _learn(self, node: Expression | Operand, method: str) -> None:
        """Calculate for each group what a condition or value needs, once.

        Raises:
            QueryError: It is what a group has not.
        """
        if isinstance(node, Value):
            key = term_key(node)
            if key in self._known:
                return
            if isinstance(node, Aggregate):
                self._note(key, self._aggregated(node))
                return
            if isinstance(node, Field):
                self._note(key, self._named(node, method))
                return
        for each in node._inner():
            self._learn(each, method)

    def _note(self, key: Hashable, values: list[Any]) -> None:
        for group, value in zip(self.groups, values, strict=True):
            group.values[key] = value  # type: ignore[index]
        self._known.add(key)

    def _named(self, field: Field, method: str) -> list[Any]:
        """Return for each group the selected value of a name."""
        named = self._names.get(field._path[0]) if len(field._path) == 1 else None  # type: ignore[arg-type]
        if method == "select" or named is None or term_key(named) == term_key(field):
            raise QueryError(
                f"{self._store.name}: {method}() asks groups for {field!r}, which differs from"
                " record to record. Name it in group_by(), or take its sum_(), min_(), max_() or"
                " mean_()."
            )
        return self._values(named, "select")

    def _aggregated(self, aggregate: Aggregate) -> list[Any]:
        """Return an aggregate of each group."""
        value = aggregate.value
        if value is None:
            return [stop - start for start, stop in self._parts]
        if any(isinstance(node, Aggregate) for node in walk(value)):
            raise QueryError(
                f"{self._store.name}: {aggregate!r} is calculated over groups of groups. Calculate"
                " it from what the query gives."
            )
        reduce, place = REDUCTIONS[aggregate.kind], f"{self._store.name}: {aggregate!r}"
        parts, types = self._present_by_group(value)
        return [reduce(part, place, types) for part in parts]

    def _present_by_group(self, value: Value) -> tuple[Iterator[list[Any]], set[type] | None]:
        """Return what is there of a value in each group, and the types if that is known of each."""
        if self._version is not None:
            held = column_at(self._store, value, self._order, self._version)  # type: ignore[arg-type]
            if held is not None:
                return held.parts(self._parts), held.types
        values = column(value, self._records, self._store.query_shape)
        types = set(map(type, values))
        nothing = types & {type(None), type(ABSENT)}
        types -= nothing
        found = self._by_group(values)
        parts = map(present, found) if nothing else found
        return parts, types if len(types) == 1 else None

    def _by_group(self, values: list[Any]) -> Iterator[list[Any]]:
        """Give the values of the records of each group, of those of all records."""
        order = self._order
        # Through an array: 20 ns a value where picking from the list takes 120.
        held = np.fromiter(values, object, len(values))
        wanted = sum([stop - start for start, stop in self._parts])
        if wanted + _COST_OF_PART * len(self._parts) < len(values):
            return (held[order[start:stop]].tolist() for start, stop in self._parts)
        ordered = held[order].tolist()
        return (ordered[start:stop] for start, stop in self._parts)
