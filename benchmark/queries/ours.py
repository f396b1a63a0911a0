"""memdb, driven as a program would: in memory, with the original's indexes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import memdb
from benchmark.queries.shapes import Shape
from memdb import F


def item_indexes() -> list[Any]:
    """Return the declarations for the items, in the original's order."""
    return [
        memdb.HashIndex("code", unique=True),
        memdb.HashIndex("group"),
        memdb.HashIndex("tier"),
        memdb.SortedIndex("code", name="code_range"),
        memdb.HashIndex("band"),
        memdb.HashIndex("lane"),
        memdb.HashIndex("flag"),
        memdb.SortedIndex("updated"),
    ]


def record_indexes() -> list[Any]:
    """Return the declarations for the records."""
    return [
        memdb.SortedIndex("updated"),
        memdb.SortedIndex("ts"),
        memdb.HashIndex("key_a"),
        memdb.HashIndex("key_b"),
        memdb.HashIndex("customer_id"),
        memdb.HashIndex("product_id"),
    ]


def priced_indexes() -> list[Any]:
    """Return the two compound indexes."""
    return [memdb.SortedIndex("category", "price"), memdb.SortedIndex("segment", "price")]


def plain_indexes() -> list[Any]:
    """Return four that keep no promise, so that they may trail the writes."""
    return [
        memdb.HashIndex("group"),
        memdb.HashIndex("tier"),
        memdb.HashIndex("band"),
        memdb.SortedIndex("code"),
    ]


def sorted_price() -> list[Any]:
    """Return a numeric sorted index."""
    return [memdb.SortedIndex("price")]


def price_column() -> list[Any]:
    """Return the column of a number."""
    return [memdb.ColumnIndex("price")]


def make_table(cls: type[Any], rows: Sequence[Any], indexes: list[Any]) -> Any:
    """Return a collection in memory that holds ``rows``, all of them read once."""
    _, table = make_empty(cls, indexes)
    table.insert_many(rows)
    table.where().all()  # The first touch decodes.
    return table


def make_empty(
    cls: type[Any], indexes: list[Any], path: Path | None = None
) -> tuple[memdb.Database, Any]:
    """Return a database, in memory or in a file, and an empty collection of it."""
    db = memdb.open(path)
    return db, db.collection(cls, name="rows", indexes=indexes)


def prepared(table: Any, text: str) -> Any:
    """Return the prepared query of a program text."""
    return eval(f"{text}.prepare()", _names(table))


def ad_hoc_statement(shape: Shape) -> str:
    """Return the program text that builds the query and asks."""
    return shape.ad_hoc_text + (".count()" if shape.is_count else ".all()")


def ad_hoc_names(shape: Shape, table: Any) -> dict[str, Any]:
    """Return the variables of that text."""
    return shape.arguments | {"F": F, "table": table}


def _names(table: Any) -> dict[str, Any]:
    return {
        "F": F,
        "P": memdb.P,
        "case": memdb.case,
        "optional": memdb.optional,
        "table": table,
    }
