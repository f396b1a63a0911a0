"""sqlite3 in memory with the same indexes, after ANALYZE; whole rows by ``fetchall``."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, get_origin, get_type_hints

from benchmark.queries.fixture import values_of
from benchmark.queries.shapes import Shape

_TYPES = {str: "TEXT", Decimal: "TEXT", float: "REAL"}

ITEM_INDEXES = ("UNIQUE code", '"group"', "tier", "band", "lane", "flag", "updated")
RECORD_INDEXES = ("ts", "updated", "key_a", "key_b", "customer_id", "product_id")
PRICED_INDEXES = ("category, price", "segment, price")
# Of the tables that are joined.
JOIN_INDEXES: dict[str, Sequence[str]] = {
    "items": ITEM_INDEXES,
    "records": RECORD_INDEXES,
    "orders": ("customer_id",),
    "lines": ("item_id",),
    "notes": ("customer_id",),
    "docs": ('"group"',),
}
FOREIGN_INDEXES: dict[str, Sequence[str]] = {
    "customers": ("segment",),
    "orders": ('"group"', "customer_id"),
    "profiles": ("UNIQUE customer_id",),
    "lines": ("order_id",),
    "docs": ("bucket",),
}
ROOM_INDEXES: dict[str, Sequence[str]] = {
    "desks": ("room_id",),
    "occupiers": ("UNIQUE desk_id",),
    "counterparts": ("UNIQUE part_id",),
}
HEAVY_INDEXES: dict[str, Sequence[str]] = {
    "products": ("range",),
    "infos": ("UNIQUE product_id",),
    "offers": ("product_id",),
}


def make_connection(
    cls: type[Any], rows: Sequence[Any], indexes: Sequence[str]
) -> sqlite3.Connection:
    """Return a database in memory that holds ``rows`` as ``data``."""
    connection = _connect()
    _add_table(connection, "data", cls, rows, indexes)
    connection.execute("ANALYZE")
    return connection


def make_tables(
    classes: dict[str, type[Any]],
    rows: Mapping[str, Sequence[Any]],
    indexes: Mapping[str, Sequence[str]],
) -> sqlite3.Connection:
    """Return a database in memory with a table for each class.

    The tags of documents are a table of their own, ``doc_tags``, with an index either way.
    """
    connection = _connect()
    for name, cls in classes.items():
        _add_table(connection, name, cls, rows[name], indexes.get(name, ()))
    if "docs" in classes:
        _add_tags(connection, rows["docs"])
    connection.execute("ANALYZE")
    return connection


def stored_values(record: Any) -> tuple[Any, ...]:
    """Return the values of a record's columns, decimals as text; a tuple has no column."""
    return tuple(
        str(value) if isinstance(value, Decimal) else value
        for value in values_of(record)
        if not isinstance(value, tuple)
    )


def insert_statement(cls: type[Any], table: str = "data") -> str:
    """Return the statement that inserts the values of one record."""
    return f"INSERT INTO {table} VALUES ({', '.join('?' * len(_columns(cls)))})"


def select_statement(shape: Shape) -> str:
    """Return the statement of a shape."""
    return f"SELECT {'count(*)' if shape.is_count else '*'} FROM data WHERE {shape.sql}"


def _columns(cls: type[Any]) -> dict[str, str]:
    """Return the columns of a class, name -> type; ``id`` is the first."""
    return {
        name: _TYPES.get(hint, "INTEGER")
        for name, hint in get_type_hints(cls).items()
        if get_origin(hint) is not tuple
    }


def _connect() -> sqlite3.Connection:
    return sqlite3.connect(":memory:", isolation_level=None, cached_statements=256)


def _add_table(
    connection: sqlite3.Connection,
    table: str,
    cls: type[Any],
    rows: Sequence[Any],
    indexes: Sequence[str],
) -> None:
    names = [f'"{name}" {kind}' for name, kind in _columns(cls).items() if name != "id"]
    columns = ", ".join(["id INTEGER PRIMARY KEY", *names])
    connection.execute(f"CREATE TABLE {table} ({columns})")
    connection.execute("BEGIN")
    connection.executemany(insert_statement(cls, table), map(stored_values, rows))
    connection.execute("COMMIT")
    for number, index in enumerate(indexes):
        column, is_unique = index.removeprefix("UNIQUE "), index.startswith("UNIQUE ")
        kind = "UNIQUE INDEX" if is_unique else "INDEX"
        connection.execute(f"CREATE {kind} {table}_{number} ON {table} ({column})")


def _add_tags(connection: sqlite3.Connection, docs: Sequence[Any]) -> None:
    connection.execute("CREATE TABLE doc_tags (doc_id INTEGER, tag_id INTEGER)")
    pairs = [(doc.id, tag_id) for doc in docs for tag_id in doc.tag_ids]
    connection.execute("BEGIN")
    connection.executemany("INSERT INTO doc_tags VALUES (?, ?)", pairs)
    connection.execute("COMMIT")
    connection.execute("CREATE INDEX doc_tags_0 ON doc_tags (doc_id, tag_id)")
    connection.execute("CREATE INDEX doc_tags_1 ON doc_tags (tag_id, doc_id)")
