"""Rows as their receiver may have them: copies of what the cache shares, each record once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memdb.query._row_source import RowSource

Copy = Callable[[Any], Any]


class RowCopier:
    """Copies of one result: what belongs to several rows is one copy."""

    def __init__(self, source: RowSource, owned: set[int], *, is_last: bool = True) -> None:
        """Make copies of rows.

        Args:
            source: What they are of.
            owned: Ids of records that nobody else has.
            is_last: Nobody needs the rows any more, so that these records can be given away.
        """
        self._source = source
        self._owned = owned
        self._is_last = is_last
        self._copies: dict[int, Any] = {}

    def copies(self, rows: list[Any]) -> list[Any]:
        """Return the rows with copies in their slots; the list is the receiver's already."""
        if is_shared(self._source):
            return rows
        row = self._source.row
        slots = [self._slot(name) for name in self._source.names]
        return [
            row(*[copy(value) for copy, value in zip(slots, each, strict=True)]) for each in rows
        ]

    def column(self, name: str, rows: list[Any]) -> list[Any]:
        """Return what is in one slot of each row."""
        copy = self._slot(name)
        return [copy(getattr(row, name)) for row in rows]

    def _slot(self, name: str) -> Copy:
        """Return what copies the content of a slot."""
        source = self._source
        place = source.names.index(name)
        if place == 0:
            return self._copy_of(source.left._store, is_once=False)
        join = source.joins[place - 1]
        if join.nested is None:
            copy = self._copy_of(join.store, is_once=True)
        else:
            copy = self._nested(join.nested._store)
        if join.is_many:
            return lambda values: tuple(map(copy, values))
        return lambda value: None if value is None else copy(value)

    def _copy_of(self, store: Any, *, is_once: bool) -> Copy:
        clone, owned, copies = store.cloner.clone, self._owned, self._copies
        copy_owned: Copy = (lambda record: record) if self._is_last else store.cloner
        if store.cloner.inline_expression == "{r}":
            return lambda record: record

        def copy(record: Any) -> Any:
            make = copy_owned if id(record) in owned else clone
            if not is_once:
                return make(record)
            found = copies.get(id(record))
            if found is None:
                found = copies[id(record)] = make(record)
            return found

        return copy

    def _nested(self, source: RowSource) -> Copy:
        inner = RowCopier(source, self._owned, is_last=self._is_last)
        inner._copies = self._copies
        if is_shared(source):
            return lambda row: row
        slots = [inner._copy_of(source.left._store, is_once=True)]
        slots += [inner._slot(name) for name in source.names[1:]]
        make = source.row
        return lambda row: make(*[copy(value) for copy, value in zip(slots, row, strict=True)])


def is_shared(source: RowSource) -> bool:
    """Whether rows hold only what can't be changed, so that they need no copies."""
    if source.left._store.cloner.inline_expression != "{r}":
        return False
    return all(
        [
            join.store.cloner.inline_expression == "{r}"
            if join.nested is None
            else is_shared(join.nested._store)
            for join in source.joins
        ]
    )
