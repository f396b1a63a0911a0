"""A cursor as a condition: what comes behind a record in an order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb.query._conditions import And, Expression, Or
from memdb.query._fields import Field
from memdb.query._order_source import EXACT, type_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memdb._store import Store
    from memdb.query._paging import Cursor
    from memdb.query._values import Order


def keyset(store: Store, order: Sequence[Order], cursor: Cursor) -> Expression | None:
    """Return the condition of the records behind a cursor, so that an index leads to them.

    None where comparisons do not follow the total order: where values may be None, absent, NaN or
    of several types, and in collections with a natural key.

    Args:
        store: The collection.
        order: That of the query, which is that of the cursor.
        cursor: The place.
    """
    identity = store.shape.identity
    if store.key is not None or identity is None or not store.decoding.is_typed:
        return None
    if type(cursor.identity) is not int:
        return None
    condition: Expression = Field((identity,)) > cursor.identity
    for term, value in zip(reversed(order), reversed(cursor.values), strict=True):
        kind = type_of(store, term.value)
        if kind not in EXACT or type(value) is not kind:
            return None
        beyond = term.value < value if term.is_descending else term.value > value
        condition = Or((beyond, And((term.value == value, condition))))
    if not order:
        return condition
    first, value = order[0], cursor.values[0]
    # Follows from the rest, and is what an index serves.
    limit = first.value <= value if first.is_descending else first.value >= value
    return And((limit, condition))
