"""A cursor as a condition: what comes behind a record in an order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from memdb.indexes import sort_key
from memdb.query._conditions import And, Behind, Expression, Or
from memdb.query._fields import Field
from memdb.query._order_source import EXACT, type_of
from memdb.query._reading import getter
from memdb.query._structure import structure

if TYPE_CHECKING:
    from memdb._store import Store
    from memdb.query._paging import Cursor
    from memdb.query._values import Order


class Place:
    """A place in an order: right behind a record that there was.

    Attributes:
        keys: The sort keys of the order's terms there.
        falling: Whether each term falls.
        identity: Of the record.
        paths: Of the terms; None where one is no field, so that no index has the order.
        structure: Of the order.
        is_before: Whether the place is before a record.
    """

    __slots__ = ("falling", "identity", "is_before", "keys", "paths", "structure")

    def __init__(self, store: Store, order: Sequence[Order], cursor: Cursor, name: str) -> None:
        """Take the place of a cursor, for records whose identity has a name.

        Raises:
            QueryError: A field does not exist.
        """
        shape = store.query_shape
        self.keys = tuple(map(sort_key, cursor.values))
        self.falling = tuple([term.is_descending for term in order])
        self.identity: int = cursor.identity
        paths = [term.value._path for term in order if isinstance(term.value, Field)]
        self.paths = tuple(paths) if len(paths) == len(order) else None
        self.structure = tuple(map(structure, order))
        identity, own = getter(Field((name,)), shape), self.identity
        getters = [getter(term.value, shape) for term in order]
        terms = list(zip(getters, self.keys, self.falling, strict=True))

        def is_before(record: Any) -> bool:
            for get, key, is_falling in terms:
                its = sort_key(get(record))
                if its != key:
                    return bool((its < key) is is_falling)
            return bool(identity(record) > own)

        self.is_before = is_before


def keyset(store: Store, order: Sequence[Order], cursor: Cursor) -> Expression | None:
    """Return the condition of the records behind a cursor, so that an index may lead to them.

    None in collections with a natural key, whose ties no index has in order.

    Args:
        store: The collection.
        order: That of the query, which is that of the cursor.
        cursor: The place.

    Raises:
        QueryError: A field does not exist.
    """
    name = store.shape.identity
    if store.key is not None or name is None or type(cursor.identity) is not int:
        return None
    return Behind(Place(store, order, cursor, name), _plain(store, order, cursor, name))


def _plain(store: Store, order: Sequence[Order], cursor: Cursor, name: str) -> Expression | None:
    """Return the condition as comparisons, for records that are as their class says.

    None where comparisons do not follow the total order: where values may be None, absent, NaN, of
    several types, or datetimes.
    """
    condition: Expression = Field((name,)) > cursor.identity
    for term, value in zip(reversed(order), reversed(cursor.values), strict=True):
        kind = type_of(store, term.value)
        if kind not in EXACT or type(value) is not kind:
            return None
        beyond = term.value < value if term.is_descending else term.value > value
        condition = Or((beyond, And((term.value == value, condition))))
    return condition
