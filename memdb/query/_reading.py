"""What a query reads from records: one value of each, whether it is a field or calculated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from operator import attrgetter
from threading import Lock
from typing import Any, Final

from memdb import _cloners
from memdb.indexes._order import ABSENT
from memdb.query._aggregates import Aggregate
from memdb.query._conditions import walk
from memdb.query._evaluate import NO_MATCH, no_aggregate, value_of
from memdb.query._fields import Field
from memdb.query._functions import QueryShape, resolved
from memdb.query._parameters import missing_parameter, parameters
from memdb.query._paths import resolve_path
from memdb.query._source import SourceWriter
from memdb.query._structure import analysis
from memdb.query._values import Value
from memdb.serializers import Shape
from memdb.serializers._build import is_plain_name

Get = Callable[[Any], Any]
_Make = Callable[[Get, list[Any]], Get]

# By structure and class, as of conditions.
_MOST_KEPT: Final = 512


def column(value: Value, records: Sequence[Any], shape: Shape) -> list[Any]:
    """Return a value for each record, ABSENT where there is none.

    The values are the records' own: `owned` makes them the receiver's.

    Raises:
        QueryError: A field does not exist, a parameter has no value, or it is an aggregate.
    """
    if isinstance(value, Field):
        is_plain = not isinstance(shape, QueryShape)
        fast = (_kept_attribute if is_plain else _attribute)(value._path, shape)
        if fast is not None:
            try:
                return list(map(fast, records))
            except NO_MATCH:
                # One leads nowhere on the way.
                pass
    return list(map(getter(value, shape), records))


def check_value(value: Value, shape: Shape) -> None:
    """Raise unless a value can be taken from the records of a class.

    Raises:
        QueryError: As `column`.
    """
    getter(value, shape)


def _attribute(path: tuple[str | int, ...], shape: Shape) -> Get | None:
    """Return what reads a path that leads somewhere, None where that takes more than attributes.

    Raises:
        QueryError: A name does not exist in what the path has reached.
    """
    steps = resolve_path(path, shape)
    if all(each.way == "attribute" and is_plain_name(str(each.name)) for each in steps):
        return attrgetter(".".join(map(str, path)))
    return None


# Not for the shapes of single collections, which it would keep alive.
_kept_attribute = lru_cache(maxsize=512)(_attribute)

_kept: Final[dict[tuple[Any, Shape], _Make]] = {}
_lock = Lock()


def getter(value: Value, shape: Shape) -> Get:
    """Return the function that takes a value from a record, ABSENT where there is none.

    Raises:
        QueryError: As `column`.
    """
    structure, constants = analysis(value)
    kept = shape.kept if isinstance(shape, QueryShape) else _kept
    make = kept.get((structure, shape)) or _made(value, shape, structure, kept)
    return make(partial(value_of, resolved(value, shape)), constants)


def _made(
    value: Value, shape: Shape, structure: Any, kept: dict[tuple[Any, Shape], _Make]
) -> _Make:
    """Return and keep what binds constants to the generated function of a structure."""
    for node in walk(value):
        if isinstance(node, Aggregate):
            raise no_aggregate(node)
    for name in parameters(value):
        raise missing_parameter(name)
    writer = SourceWriter(shape, is_typed=False)
    taken = writer.value(value)
    numbers = "".join([f"c{number}, " for number in range(writer.constants)])
    source = "\n".join(
        [
            "def make(slow, constants):",
            f"    {numbers}= constants" if numbers else "    pass",
            "    def get(r):",
            "        try:",
            f"            return {taken}",
            "        except NO_MATCH:",
            "            return slow(r)",
            "    return get",
        ]
    )
    namespace = {**writer.namespace, "NO_MATCH": NO_MATCH}
    exec(compile(source, "<memdb value>", "exec"), namespace)
    make: _Make = namespace["make"]
    with _lock:
        if len(kept) >= _MOST_KEPT:
            del kept[next(iter(kept))]
        kept[structure, shape] = make
    return make


def owned(values: list[Any]) -> list[Any]:
    """Return values that their receiver may change, None for those that are absent."""
    types = set(map(type, values))
    if type(ABSENT) in types:
        values = [None if value is ABSENT else value for value in values]
        types = set(map(type, values))
    return values if types <= _cloners._ATOMS else list(map(_cloners.deep, values))


def present(values: Iterable[Any]) -> list[Any]:
    """Return the values that are there and are not None."""
    return [value for value in values if value is not None and value is not ABSENT]
