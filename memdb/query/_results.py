"""The results of queries that make something else of records than copies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from memdb.errors import QueryError
from memdb.query._distinct import first_places
from memdb.query._grouping import Groups
from memdb.query._reading import column, owned

if TYPE_CHECKING:
    from memdb._scan import Row
    from memdb._store import Store
    from memdb.query._query import Query
    from memdb.query._selection import Selection

_ENDLESS: Final = 2**62


def given(store: Store, rows: list[Row], selection: Selection | None = None) -> list[Any]:
    """Return a result for each row: a copy of the record, or what was selected of it.

    Raises:
        QueryError: A field does not exist.
    """
    if selection is None:
        clone = store.cloner.clone
        return [clone(record) if is_cached else record for _, record, is_cached in rows]
    records = [row[1] for row in rows]
    columns = [column(value, records, store.query_shape) for value in selection.values]
    return selection.make([owned(values) for values in columns])


def copies(store: Store, records: list[Any]) -> list[Any]:
    """Return what the receiver may have of shared records; the list is his already."""
    if store.cloner.inline_expression == "{r}":
        return records
    return list(map(store.cloner.clone, records))


def made(query: Query[Any], start: int, stop: int) -> tuple[list[Any], int]:
    """Return results start to stop of any query, and how many there are before that.

    Raises:
        QueryError: A field does not exist, or groups are asked for what they have not.
    """
    store, selection = query._store, query._selection
    if has_groups(query):
        return _grouped(query, start, stop)
    if not query._is_distinct:
        some, found = query._window(start, stop)
        return given(store, some, selection), found
    records = query._records(0, _ENDLESS)
    rows: list[Row] | None = None
    if records is None:
        rows = query._window(0, _ENDLESS)[0]
        records = [row[1] for row in rows]
    if selection is None:
        places = first_places([records], len(records))
    else:
        columns = [column(value, records, store.query_shape) for value in selection.values]
        places = first_places(columns, len(records))
    kept = [
        (0, records[place], True) if rows is None else rows[place] for place in places[start:stop]
    ]
    return given(store, kept, selection), len(places)


def has_groups(query: Query[Any]) -> bool:
    """Whether each result is made of several records.

    Raises:
        QueryError: It is not, and there is a condition for groups.
    """
    selection = query._selection
    found = query._group is not None or (selection is not None and selection.has_aggregates)
    if query._having is not None and not found:
        raise QueryError(
            f"{query._store.name}: having() is for groups. Use where() for records, or say"
            " group_by()."
        )
    return found


def _grouped(query: Query[Any], start: int, stop: int) -> tuple[list[Any], int]:
    store = query._store
    if query._cursor is not None:
        raise QueryError(f"{store.name}: groups have no cursors. Page with skip.")
    selection = query._selection or query._grouped_selection()
    assert selection is not None
    names = dict(zip(selection.names, selection.values, strict=True))
    version = store.horizon.slot
    records = query._found()
    is_all = query._condition is None and store.key is None and store.engine.current() is None
    groups = Groups(query._group or (), records, store, names, version if is_all else None)
    if query._having is not None:
        groups.keep(query._having)
    if not query._is_distinct:
        found = len(groups.groups)
        groups.arrange(query._order, start, stop)
        return selection.make(groups.columns(selection.values)), found
    groups.arrange(query._order, 0, len(groups.groups))
    columns = groups.columns(selection.values)
    places = first_places(columns, len(groups.groups))
    kept = [[values[place] for place in places[start:stop]] for values in columns]
    return selection.make(kept), len(places)
