"""The indexes of a collection that functions make, as its queries ask for them by name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from memdb.errors import ConfigError, IndexKeyError, MemdbError
from memdb.query import Field
from memdb.query._conditions import walk
from memdb.query._evaluate import NO_MATCH, step
from memdb.query._functions import KeyFunction, with_functions
from memdb.serializers import Shape

if TYPE_CHECKING:
    from memdb._bound_index import BoundIndex
    from memdb._records import Records


def query_shape(store: Records, indexes: Iterable[BoundIndex]) -> Shape:
    """Return what the queries of a collection can ask of its records: fields and functions."""
    functions = {
        bound.name: _key_function(store, bound)
        for bound in indexes
        if bound.declaration.key is not None
    }
    return with_functions(store.shape, functions)


def _key_function(store: Records, bound: BoundIndex) -> KeyFunction:
    """Return what a query calls for the name of an index that a function makes.

    It may be given a stored record: the user's function, which may change it, gets a copy. An
    error is an IndexKeyError, as it is for writes. But a record that is not in a partial index was
    never promised to have a key: there an error says that it has none.
    """
    value_of, condition = bound.value_of, bound.condition

    def function(record: Any, nothing: Any) -> Any:
        try:
            return value_of(store.cloner(record))
        except IndexKeyError as error:
            if condition is not None and not condition.matches(record):
                return nothing
            raise error.located(store.name, _identity(store, record)) from error.__cause__

    return function


def _identity(store: Records, record: Any) -> Any:
    """Return what the user calls a record, None where the record itself does not tell."""
    try:
        if store.key is not None:
            return store.key.of(record)
        return None if store.shape.identity is None else step(record, store.shape.identity)
    except (*NO_MATCH, MemdbError):
        return None


def refuse_hidden(store: Records, indexes: Iterable[BoundIndex]) -> None:
    """Raise where an index asks for a field whose name is that of another one, made by a function.

    That can be in collections of dicts alone, where any name may be a field.

    Raises:
        ConfigError: It is so.
    """
    known = list(indexes)
    functions = [bound.name for bound in known if bound.declaration.key is not None]
    if not functions:
        return
    asked = {name: "the natural key" for name in (store.key.fields if store.key else ())}
    for bound in known:
        where = bound.declaration.where
        nodes = [] if where is None else [node for node in walk(where) if isinstance(node, Field)]
        for path in [*(bound.declaration.paths or ()), *[node._path for node in nodes]]:
            asked.setdefault(str(path[0]), f"the index {bound.name!r}")
    for name in functions:
        if name in asked:
            raise ConfigError(
                f"{store.name}: {asked[name]} has the field {name!r}, and queries would take it for"
                f" the index {name!r}, which a function makes. Give that one another name=."
            )
