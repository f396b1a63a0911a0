"""sqlite3: WAL, synchronous=NORMAL, autocommit, one connection, cached statements."""

from __future__ import annotations

import sqlite3
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from benchmark.records import Item

_CREATE = """CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT, category TEXT, created_at TEXT,
    updated_at TEXT, amount TEXT, count INTEGER, is_active INTEGER)"""
_INSERT = (
    "INSERT INTO items (name, category, created_at, updated_at, amount, count, is_active) "
    "VALUES (?, ?, ?, ?, ?, ?, ?)"
)
_SELECT = "SELECT * FROM items WHERE id = ?"


class SqliteStore:
    """Datetimes as ISO text, as the documentation's recipes have it; decimals as text."""

    def __init__(self, path: Path, *, synchronous: str = "NORMAL", rows: bool = False) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None, cached_statements=128)
        self._cursor = self._connection.cursor()
        self._cursor.execute("PRAGMA journal_mode = WAL")
        self._cursor.execute(f"PRAGMA synchronous = {synchronous}")
        self._cursor.execute(_CREATE) if not _has_table(self._cursor) else None
        self._execute = self._cursor.execute
        self.get = self.get_row if rows else self.get_record

    def insert(self, record: Item) -> object:
        """Insert one row, a transaction of its own."""
        return self._execute(_INSERT, _to_row(record))

    def insert_many(self, records: list[Item]) -> object:
        """Insert all rows in one transaction."""
        self._execute("BEGIN")
        self._cursor.executemany(_INSERT, map(_to_row, records))
        return self._execute("COMMIT")

    def get_row(self, identity: int) -> Any:
        """Return the row as sqlite3 gives it."""
        return self._execute(_SELECT, (identity,)).fetchone()

    def get_record(self, identity: int) -> Any:
        """Return the record built from the row."""
        row = self._execute(_SELECT, (identity,)).fetchone()
        return Item(
            row[0],
            row[1],
            row[2],
            datetime.fromisoformat(row[3]),
            datetime.fromisoformat(row[4]),
            Decimal(row[5]),
            row[6],
            bool(row[7]),
        )

    def update(self, identity: int, count: int) -> object:
        """Set one column."""
        return self._execute("UPDATE items SET count = ? WHERE id = ?", (count, identity))

    def delete(self, identity: int) -> object:
        """Delete one row."""
        return self._execute("DELETE FROM items WHERE id = ?", (identity,))

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _to_row(record: Item) -> tuple[Any, ...]:
    return (
        record.name,
        record.category,
        record.created_at.isoformat(),
        record.updated_at.isoformat(),
        str(record.amount),
        record.count,
        record.is_active,
    )


def _has_table(cursor: sqlite3.Cursor) -> bool:
    return cursor.execute("SELECT 1 FROM sqlite_master").fetchone() is not None
