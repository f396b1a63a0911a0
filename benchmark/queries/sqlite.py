"""sqlite3 in memory with the same indexes, after ANALYZE; whole rows by ``fetchall``."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from benchmark.queries.fixture import values_of
from benchmark.queries.shapes import Shape

ITEM_INDEXES = ("UNIQUE code", '"group"', "tier", "band", "lane", "flag", "updated")
RECORD_INDEXES = ("ts", "updated", "key_a", "key_b", "customer_id", "product_id")
PRICED_INDEXES = ("category, price", "segment, price")


def make_connection(
    cls: type[Any], rows: Sequence[Any], indexes: Sequence[str]
) -> sqlite3.Connection:
    """Return a database in memory that holds ``rows`` as ``data``."""
    connection = sqlite3.connect(":memory:", isolation_level=None, cached_statements=256)
    names = [each.name for each in fields(cls) if each.name != "id"]
    columns = ", ".join(f'"{name}" INTEGER' for name in names)
    connection.execute(f"CREATE TABLE data (id INTEGER PRIMARY KEY, {columns})")
    connection.execute("BEGIN")
    connection.executemany(insert_statement(cls), map(values_of, rows))
    connection.execute("COMMIT")
    for number, index in enumerate(indexes):
        column, is_unique = index.removeprefix("UNIQUE "), index.startswith("UNIQUE ")
        kind = "UNIQUE INDEX" if is_unique else "INDEX"
        connection.execute(f"CREATE {kind} data_{number} ON data ({column})")
    connection.execute("ANALYZE")
    return connection


def insert_statement(cls: type[Any]) -> str:
    """Return the statement that inserts the values of one record."""
    return f"INSERT INTO data VALUES ({', '.join('?' * len(fields(cls)))})"


def select_statement(shape: Shape) -> str:
    """Return the statement of a shape."""
    return f"SELECT {'count(*)' if shape.is_count else '*'} FROM data WHERE {shape.sql}"
