"""memdb, driven as a program would: in memory, with the original's indexes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import memdb
from benchmark.queries.join_shape import JoinShape
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


def join_indexes() -> dict[str, list[Any]]:
    """Return the declarations of the tables that are joined, in the original's order."""
    return {
        "items": item_indexes(),
        "records": record_indexes(),
        "orders": [memdb.HashIndex("customer_id")],
        "lines": [memdb.HashIndex("item_id")],
        "notes": [memdb.HashIndex("customer_id")],
        "docs": [memdb.HashIndex("group"), memdb.SetIndex("tag_ids")],
    }


def foreign_indexes() -> dict[str, list[Any]]:
    """Return the declarations beside those that the foreign keys are."""
    return {
        "customers": [memdb.HashIndex("segment")],
        "orders": [memdb.HashIndex("group")],
        "profiles": [memdb.HashIndex("customer_id", unique=True)],
        "docs": [memdb.HashIndex("bucket")],
    }


def room_indexes() -> dict[str, list[Any]]:
    """Return the declarations of the small tables."""
    return {
        "desks": [memdb.HashIndex("room_id")],
        "occupiers": [memdb.HashIndex("desk_id", unique=True)],
        "counterparts": [memdb.HashIndex("part_id", unique=True)],
    }


def heavy_indexes() -> dict[str, list[Any]]:
    """Return the declarations of products, infos and offers."""
    return {
        "products": [memdb.SortedIndex("range")],
        "infos": [memdb.HashIndex("product_id", unique=True)],
        "offers": [memdb.HashIndex("product_id")],
    }


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


def open_tables(
    db: memdb.Database, classes: dict[str, type[Any]], indexes: dict[str, list[Any]]
) -> dict[str, Any]:
    """Return a collection of ``db`` for each class."""
    return {
        name: db.collection(cls, indexes=indexes.get(name, ())) for name, cls in classes.items()
    }


def make_tables(
    classes: dict[str, type[Any]],
    rows: Mapping[str, Sequence[Any]],
    indexes: dict[str, list[Any]],
) -> dict[str, Any]:
    """Return the collections of one database in memory that hold ``rows``, all read once."""
    tables = open_tables(memdb.open(None), classes, indexes)
    for name, table in tables.items():
        table.insert_many(rows[name])
        table.where().all()
    return tables


def prepared(tables: dict[str, Any], text: str) -> Any:
    """Return the prepared query of a program text that names the tables."""
    return eval(f"{text}.prepare()", _names(tables))


def ad_hoc_statement(shape: Shape) -> str:
    """Return the program text that builds the query and asks."""
    return shape.ad_hoc_text + (".count()" if shape.is_count else ".all()")


def ad_hoc_names(shape: Shape | JoinShape, tables: dict[str, Any]) -> dict[str, Any]:
    """Return the variables of that text."""
    return shape.arguments | {"F": F} | tables


def _names(tables: dict[str, Any]) -> dict[str, Any]:
    return tables | {"F": F, "P": memdb.P, "case": memdb.case, "optional": memdb.optional}
