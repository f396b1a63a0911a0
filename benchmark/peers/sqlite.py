"""sqlite3: WAL, synchronous=NORMAL, autocommit, one connection, cached statements."""

from __future__ import annotations

import sqlite3
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from benchmark.records import Item, KeyedItem

_COLUMNS = """name TEXT, category TEXT, created_at TEXT, updated_at TEXT, amount TEXT,
    count INTEGER, is_active INTEGER"""
_NAMES = "name, category, created_at, updated_at, amount, count, is_active"


class SqliteStore:
    """Datetimes as ISO text, as the documentation's recipes have it; decimals as text."""

    _record_class: type[Any] = Item
    _create = f"CREATE TABLE items (id INTEGER PRIMARY KEY, {_COLUMNS})"
    _insert = f"INSERT INTO items ({_NAMES}) VALUES (?, ?, ?, ?, ?, ?, ?)"
    _select = "SELECT * FROM items WHERE id = ?"
    _update = "UPDATE items SET count = ? WHERE id = ?"
    _delete = "DELETE FROM items WHERE id = ?"

    def __init__(self, path: Path, *, synchronous: str = "NORMAL", rows: bool = False) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None, cached_statements=128)
        self._cursor = self._connection.cursor()
        self._cursor.execute("PRAGMA journal_mode = WAL")
        self._cursor.execute(f"PRAGMA synchronous = {synchronous}")
        self._cursor.execute(self._create) if not _has_table(self._cursor) else None
        self._execute = self._cursor.execute
        self.get = self.get_row if rows else self.get_record

    def insert(self, record: Any) -> object:
        """Insert one row, a transaction of its own."""
        return self._execute(self._insert, self._to_row(record))

    def insert_many(self, records: list[Any]) -> object:
        """Insert all rows in one transaction."""
        self._execute("BEGIN")
        self._cursor.executemany(self._insert, map(self._to_row, records))
        return self._execute("COMMIT")

    def get_row(self, identity: Any) -> Any:
        """Return the row as sqlite3 gives it."""
        return self._execute(self._select, (identity,)).fetchone()

    def get_record(self, identity: Any) -> Any:
        """Return the record built from the row."""
        row = self._execute(self._select, (identity,)).fetchone()
        return self._record_class(
            row[0],
            row[1],
            row[2],
            datetime.fromisoformat(row[3]),
            datetime.fromisoformat(row[4]),
            Decimal(row[5]),
            row[6],
            bool(row[7]),
        )

    def update(self, identity: Any, count: int) -> object:
        """Set one column."""
        return self._execute(self._update, (count, identity))

    def delete(self, identity: Any) -> object:
        """Delete one row."""
        return self._execute(self._delete, (identity,))

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    @staticmethod
    def _to_row(record: Any) -> tuple[Any, ...]:
        return (
            record.name,
            record.category,
            record.created_at.isoformat(),
            record.updated_at.isoformat(),
            str(record.amount),
            record.count,
            record.is_active,
        )


class KeyedSqliteStore(SqliteStore):
    """The same by natural key, which is where SQLite keeps the row."""

    _record_class = KeyedItem
    _create = f"CREATE TABLE items (code TEXT PRIMARY KEY, {_COLUMNS}) WITHOUT ROWID"
    _insert = f"INSERT INTO items (code, {_NAMES}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
    _select = "SELECT * FROM items WHERE code = ?"
    _update = "UPDATE items SET count = ? WHERE code = ?"
    _delete = "DELETE FROM items WHERE code = ?"

    @staticmethod
    def _to_row(record: Any) -> tuple[Any, ...]:
        # Written out again: a call for the rest would count as SQLite's.
        return (
            record.code,
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
