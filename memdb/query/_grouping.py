"""Groups: records with equal values, and what is calculated over each group."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from memdb.errors import QueryError
from memdb.query._aggregates import Aggregate, Group, term_key
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


class Groups:
    """The groups of some records, in the total order of what they are grouped by.

    Attributes:
        groups: What is known of each group.
    """

    def __init__(
        self, terms: tuple[Value, ...], records: list[Any], store: Records, names: Mapping[str, Any]
    ) -> None:
        """Group records.

        Args:
            terms: By what; empty for one group of all, even of none.
            records: In default order; the stored objects themselves.
            store: The collection.
            names: The selected values by name, for conditions and order.

        Raises:
            QueryError: A field does not exist.
        """
        self._store = store
        self._records = records
        self._names = names
        self._known: set[Hashable] = {term_key(term) for term in terms}
        columns = [column(term, records, store.query_shape) for term in terms]
        places = places_by_value(columns, len(records)) if terms else [list(range(len(records)))]
        keys = [[values[group[0]] for group in places] for values in columns]
        order = arrange(keys, [False] * len(keys), len(places), 0, len(places))
        self._places = [places[place] for place in order]
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
        self._places = [self._places[place] for place in places]

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
            return list(map(len, self._places))
        if any(isinstance(node, Aggregate) for node in walk(value)):
            raise QueryError(
                f"{self._store.name}: {aggregate!r} is calculated over groups of groups. Calculate"
                " it from what the query gives."
            )
        values = column(value, self._records, self._store.query_shape)
        reduce, place = REDUCTIONS[aggregate.kind], f"{self._store.name}: {aggregate!r}"
        return [reduce(present([values[p] for p in places]), place) for places in self._places]
