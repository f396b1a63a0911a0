"""The order of records: by the total order of values, ties by identity."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from operator import attrgetter, neg
from typing import TYPE_CHECKING, Any, Final

from memdb.indexes._order import sort_key
from memdb.query._reading import column
from memdb.query._values import Order

if TYPE_CHECKING:
    from memdb._records import Records
    from memdb._scan import Row

# Python's own order of each of these is the total order, unless a NaN is among them.
_NUMBERS: Final[frozenset[type]] = frozenset({int, bool, float})
_PLAIN: Final[frozenset[type]] = frozenset({str, bytes, date, timedelta})


def keys_of(values: list[Any]) -> tuple[list[Any], bool]:
    """Return comparable keys for values, and whether they are plain numbers.

    The values are their own keys where Python orders them as the total order does.
    """
    types = set(map(type, values))
    if types <= _NUMBERS:
        is_plain = float not in types or has_no_nan(values)
        return (values, True) if is_plain else (_sort_keys(values), False)
    if len(types) == 1:
        cls = next(iter(types))
        if cls in _PLAIN:
            return values, False
        if cls is datetime and set(map(_ZONE, values)) == {None}:
            return values, False
    return _sort_keys(values), False


_ZONE = attrgetter("tzinfo")


def _sort_keys(values: list[Any]) -> list[Any]:
    return list(map(sort_key, values))


def has_no_nan(values: list[Any]) -> bool:
    """Whether none of some numbers is a NaN."""
    try:
        # A NaN makes the sum one; so do two infinities, which is looked at closer.
        if not math.isnan(sum(values)):
            return True
    except OverflowError:
        pass
    return not any(value != value for value in values)


def arrange(
    columns: Sequence[list[Any]], falling: Sequence[bool], size: int, start: int, stop: int
) -> list[int]:
    """Return positions start to stop of the order of `size` things.

    Args:
        columns: A list of values of all things for each term, the most significant first.
        falling: Whether each term falls.
        size: How many things there are; those that all terms hold equal stay as they are.
        start, stop: What to return of the positions in order.
    """
    keys: list[list[Any]] = []
    are_numbers: list[bool] = []
    for values in columns:
        made, is_number = keys_of(values)
        keys.append(made)
        are_numbers.append(is_number)
    stop = min(stop, size)
    if start >= stop:
        return []
    if stop < size / 4:
        bounded = _bounded(keys, are_numbers, falling, size, stop)
        if bounded is not None:
            return bounded[start:]
    places = list(range(size))
    # Each sort leaves what it holds equal in the order of the less significant terms.
    for values, is_falling in zip(reversed(keys), reversed(falling), strict=True):
        places.sort(key=values.__getitem__, reverse=is_falling)
    return places[start:stop]


def _bounded(
    keys: list[list[Any]], are_numbers: list[bool], falling: Sequence[bool], size: int, stop: int
) -> list[int] | None:
    """Return the first positions by a heap; None where the directions do not allow one."""
    is_falling = falling[0]
    if any(each is not is_falling for each in falling):
        if not all(
            is_number or each is is_falling
            for is_number, each in zip(are_numbers, falling, strict=True)
        ):
            return None
        keys = [
            values if each is is_falling else list(map(neg, values))
            for values, each in zip(keys, falling, strict=True)
        ]
    joined = keys[0] if len(keys) == 1 else list(zip(*keys, strict=True))
    select = heapq.nlargest if is_falling else heapq.nsmallest
    return select(stop, range(size), key=joined.__getitem__)


def by_identity(rows: list[Row], store: Records) -> list[Row]:
    """Return rows in the order in which ties stand: rising by identity."""
    if store.key is None or len(rows) < 2:
        # Rows come so.
        return rows
    keys = keys_of(identities(rows, store))[0]
    return [rows[place] for place in sorted(range(len(rows)), key=keys.__getitem__)]


def identities(rows: list[Row], store: Records) -> list[Any]:
    """Return the identity of each row."""
    key = store.key
    if key is None:
        return [row[0] for row in rows]
    return [key.of(row[1]) for row in rows]


def in_order(
    rows: list[Row], order: Sequence[Order], store: Records, start: int, stop: int | None
) -> list[Row]:
    """Return rows start to stop of an order.

    Raises:
        QueryError: A field does not exist.
    """
    if not order:
        return rows[start:stop]
    rows = by_identity(rows, store)
    records = [row[1] for row in rows]
    columns = [column(term.value, records, store.query_shape) for term in order]
    falling = [term.is_descending for term in order]
    last = len(rows) if stop is None else stop
    return [rows[place] for place in arrange(columns, falling, len(rows), start, last)]
