"""Records as plain dicts, and as the tables of other libraries."""

from __future__ import annotations

import importlib
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from memdb.errors import QueryError, RecordTypeError
from memdb.serializers import shape_of
from memdb.serializers._shape import kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def plain(value: Any) -> Any:
    """Return a value with dicts in the places of the records in it."""
    cls: Any = type(value)
    return _converter(cls)(value)


@lru_cache(maxsize=256)
def _converter(cls: type) -> Callable[[Any], Any]:
    """Return what makes values of a class plain."""
    if issubclass(cls, dict):
        return lambda value: {key: plain(element) for key, element in value.items()}
    if cls is list:
        return lambda value: list(map(plain, value))
    if cls is tuple:
        return lambda value: tuple(map(plain, value))
    if kind_of(cls) is not None:
        try:
            names = [field.name for field in shape_of(cls).fields]
        except RecordTypeError:
            return _same
        return lambda value: {name: plain(getattr(value, name)) for name in names}
    return _same


def _same(value: Any) -> Any:
    return value


def to_pandas(columns: Sequence[str], rows: list[dict[str, Any]]) -> Any:
    """Return a DataFrame of the rows.

    Raises:
        QueryError: pandas is not installed.
    """
    pandas = _imported("pandas", "pandas")
    return pandas.DataFrame(_by_column(columns, rows), columns=list(columns))


def to_arrow(columns: Sequence[str], rows: list[dict[str, Any]]) -> Any:
    """Return a Table of the rows.

    Raises:
        QueryError: pyarrow is not installed, or a column has values that Arrow can't hold together.
    """
    arrow = _imported("pyarrow", "arrow")
    arrays = {}
    for name, values in _by_column(columns, rows).items():
        try:
            arrays[name] = arrow.array(values)
        except (arrow.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise QueryError(
                f"to_arrow(): the column {name!r} can't be one of Arrow: {error} Leave it out with"
                " select(), or select something calculated from it."
            ) from error
    return arrow.table(arrays)


def names_in(rows: list[dict[str, Any]]) -> list[str]:
    """Return the keys of dicts in the order in which they first come."""
    return list(dict.fromkeys(key for row in rows for key in row))


def _by_column(columns: Sequence[str], rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    return {name: [row.get(name) for row in rows] for name in columns}


def _imported(package: str, extra: str) -> Any:
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise QueryError(
            f"to_{extra}() needs {package}, which is not installed."
            f' Install it with: pip install "memdb-engine[{extra}]"'
        ) from error
