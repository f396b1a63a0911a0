"""The source that puts the records of a generated query in order.

Records come in default order, so that a stable sort leaves ties by identity. Where the values are
known to be of one type whose own order is the total order they are their own keys.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from datetime import date, datetime, timedelta
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

from memdb.query._fields import Field
from memdb.query._ordering import arrange
from memdb.query._paths import resolve_path
from memdb.query._reading import column
from memdb.query._runtime import Misfit
from memdb.query._source import SourceWriter
from memdb.query._structure import constants
from memdb.query._values import Arithmetic, Order, Parameter
from memdb.serializers._build import is_plain_name

if TYPE_CHECKING:
    from memdb._store import Store

# Values of exactly these types are in the total order by their own comparisons; a float that is no
# NaN and a datetime without a zone are too.
EXACT: Final[frozenset[Any]] = frozenset({int, str, bool, bytes, date, timedelta, UUID})
_CHECKED: Final[frozenset[Any]] = frozenset({float, datetime})

# What gives an int for ints.
_WHOLE: Final = frozenset({"+", "-", "*", "%", "//"})


class _Key(NamedTuple):
    """What to sort by.

    Attributes:
        source: Of a function of the record.
        body: The same as an expression of ``r``.
        is_falling: From the last to the first.
        type: Of the values.
    """

    source: str
    body: str
    is_falling: bool
    type: Any


class OrderSource(NamedTuple):
    """The lines that put ``found`` in order and cut it.

    Attributes:
        lines: The source.
        names: What it needs.
        constants: How many constants there are with those of the terms.
    """

    lines: list[Any]
    names: dict[str, Any]
    constants: int


def order_lines(
    store: Store,
    writer: SourceWriter,
    terms: tuple[Order, ...],
    first: int,
    *,
    has_window: bool,
    tag: str = "",
) -> OrderSource:
    """Return the source for an order.

    Args:
        store: The collection.
        writer: Of the query's source.
        terms: The order.
        first: Number of the first constant of the terms.
        has_window: Only ``start`` to ``stop`` is wanted.
        tag: What the names of this order have that no other order of the same function has.
    """
    count = first + sum([len(constants(term)) for term in terms])
    if store.key is not None:
        terms = (*terms, *[Order(Field((name,)), False) for name in store.key.fields])
    names: dict[str, Any] = {"nsmallest": heapq.nsmallest, "nlargest": heapq.nlargest}
    keys: list[_Key] = []
    checks: list[Any] = []
    for number, term in enumerate(terms):
        writer.constants = first
        found = _key(store, writer, term, f"{tag}{number}", names)
        if found is None:
            return _in_general(store, terms, count, tag, has_window=has_window)
        key, lines = found
        keys.append(key)
        checks += lines
        first += len(constants(term))
    window = has_window
    return OrderSource(checks + _sort_lines(keys, has_window=window), names, count)


def _key(
    store: Store, writer: SourceWriter, term: Order, number: str, names: dict[str, Any]
) -> tuple[_Key, list[Any]] | None:
    """Return a term's key and what has to be checked before, None if it needs the total order."""
    kind = type_of(store, term.value)
    if kind is None:
        return None
    first = writer.constants
    body = writer.value(term.value)
    checks: list[Any] = []
    if isinstance(term.value, Arithmetic):
        for place in range(first, writer.constants):
            checks += [f"if type(c{place}) is not int:", ["raise Misfit"]]
        names["Misfit"] = Misfit
    source = f"lambda r: {body}"
    if isinstance(term.value, Field) and body == f"r.{term.value._path[0]}":
        source = f"key{number}"
        names[source] = attrgetter(str(term.value._path[0]))
    if kind in _CHECKED:
        names["check_floats"], names["check_naive"] = check_floats, check_naive
        check = "check_floats" if kind is float else "check_naive"
        checks.append(f"{check}([{body} for r in found])")
    return _Key(source, body, term.is_descending, kind), checks


def type_of(store: Store, value: Any) -> Any:
    """Return the type of a value of every record, None if it may be of several or of others."""
    if not store.decoding.is_typed:
        return None
    if isinstance(value, Field):
        steps = resolve_path(value._path, store.query_shape)
        if not all([s.way == "attribute" and is_plain_name(str(s.name)) for s in steps]):
            return None
        if any([step.may_be_none for step in steps]) or len(steps[-1].members) != 1:
            return None
        (kind,) = steps[-1].members
        return kind if kind in EXACT or kind in _CHECKED else None
    if isinstance(value, Arithmetic) and value.operator in _WHOLE:
        sides = [value.left, value.right]
        if any([isinstance(side, Parameter) for side in sides]):
            return None
        types = [type_of(store, side) if hasattr(side, "_held") else int for side in sides]
        return int if types == [int, int] else None
    return None


def _sort_lines(keys: list[_Key], *, has_window: bool) -> list[Any]:
    joined = _joined(keys)
    if joined is None:
        lines: list[Any] = [
            f"found.sort(key={key.source}, reverse={key.is_falling})" for key in reversed(keys)
        ]
        return [*lines, "found = found[start:stop]"] if has_window else lines
    source, is_falling = joined
    sort = f"found.sort(key={source}, reverse={is_falling})"
    if not has_window:
        return [sort]
    select = "nlargest" if is_falling else "nsmallest"
    return [
        # Measured (benchmark query_top): from 400 records for the first 10 to 2,300 for 200.
        "if stop * 10 + 350 < len(found):",
        [f"found = {select}(stop, found, key={source})[start:]"],
        "else:",
        [sort, "found = found[start:stop]"],
    ]


def _joined(keys: list[_Key]) -> tuple[str, bool] | None:
    """Return one key for all terms, if there is one, and whether it falls."""
    if len(keys) == 1:
        return keys[0].source, keys[0].is_falling
    is_falling = keys[0].is_falling
    bodies = []
    for key in keys:
        if key.is_falling is not is_falling and key.type not in (int, bool, timedelta):
            return None
        bodies.append(key.body if key.is_falling is is_falling else f"-{key.body}")
    return f"lambda r: ({', '.join(bodies)})", is_falling


def _in_general(
    store: Store, terms: tuple[Order, ...], count: int, tag: str, *, has_window: bool
) -> OrderSource:
    """Return the source for values of any type, which calls the general way."""
    if any([constants(term) or _has_parameter(term.value) for term in terms]):
        raise Misfit
    shape = store.query_shape
    falling = [term.is_descending for term in terms]

    def arranged(records: list[Any], start: int, stop: int) -> list[Any]:
        columns = [column(term.value, records, shape) for term in terms]
        places = arrange(columns, falling, len(records), start, stop)
        return list(map(records.__getitem__, places))

    window = "start, stop" if has_window else "0, len(found)"
    name = f"arranged{tag}"
    return OrderSource([f"found = {name}(found, {window})"], {name: arranged}, count)


def _has_parameter(value: Any) -> bool:
    return isinstance(value, Parameter) or any(map(_has_parameter, value._inner()))


def check_floats(values: list[float]) -> None:
    """Raise if there is a NaN, which no sort puts in a place.

    Raises:
        Misfit: There is one, or there may be.
    """
    # A NaN makes the sum one; so do two infinities, which the general way sorts as well.
    if math.isnan(sum(values)):
        raise Misfit


def check_naive(values: list[datetime]) -> None:
    """Raise if a datetime has a zone: Python compares those of one zone by their wall clocks.

    Raises:
        Misfit: One has.
    """
    if set(map(_ZONE, values)) - {None}:
        raise Misfit


_ZONE: Final[Callable[[datetime], Any]] = attrgetter("tzinfo")
