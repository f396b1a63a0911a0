"""Every joined shape of the query benchmark, at its documented size and as a naive evaluator has it.

The tables, the shapes and the evaluator are those of `benchmark.queries`, which tests of its own
hold to the description; here the database is asked in every way, over the whole tables.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import memdb
from benchmark.queries import (
    fixture,
    fixture_foreign,
    fixture_joins,
    fixture_rooms,
    heavy,
    naive_joins,
    ours,
)
from benchmark.queries.join_shape import JoinShape, Size
from benchmark.queries.rounds_joins import plain_rows, size_of
from benchmark.queries.shapes_foreign import (
    FOREIGN_SHAPES,
    HEAVY_SHAPES,
    room_shapes,
    top_joined_shapes,
)
from benchmark.queries.shapes_joins import JOIN_SHAPES
from memdb import F

Rows = dict[str, list[Any]]
Tables = dict[str, Any]
COUNT = 100_000
FEW = 3_000


def named(shapes: list[JoinShape]) -> Any:
    """Return a parameter of tests: each shape under its name."""
    return pytest.mark.parametrize("shape", shapes, ids=[shape.name for shape in shapes])


def check(tables: Tables, rows: Rows, shape: JoinShape, size: Size | None = None) -> None:
    """Check every way of asking a shape's question, and its documented size if there is one."""
    wanted = naive_joins.expected(shape.name, rows, shape.arguments)
    names = ours.ad_hoc_names(shape, tables)
    text = shape.ad_hoc_text.removesuffix(".count()").removesuffix(".all()")
    query = eval(text, names)
    prepared = ours.prepared(tables, shape.prepared_text)
    if size is not None:
        assert size == size_of(shape, wanted)
    if shape.is_count:
        assert wanted == query.count() == prepared.count(**shape.arguments)
        assert wanted == len(query.all())
        return
    for found in (query.all(), prepared(**shape.arguments), list(query)):
        assert wanted == plain_rows(found)
    assert len(wanted) == query.count() == prepared.count(**shape.arguments)
    assert bool(wanted) == query.exists()
    first = query.first()
    assert wanted[:1] == ([] if first is None else plain_rows([first]))
    page = query.page(3, 5)
    assert (wanted[3:8], len(wanted)) == (plain_rows(page.items), page.total)


@pytest.fixture(scope="module")
def large() -> Iterator[dict[str, tuple[Tables, Rows]]]:
    """Give the whole tables, as they are in the original and with real misses."""
    found = {}
    for name in ("original", "misses"):
        rows = fixture_joins.make_tables(fixture_joins.CLASSES, COUNT, has_misses=name == "misses")
        found[name] = ours.make_tables(fixture_joins.CLASSES, rows, ours.join_indexes()), rows
    yield found
    for tables, _ in found.values():
        tables["items"]._store.engine.database.close() if False else None


@named(JOIN_SHAPES)
def test_original(large: dict[str, tuple[Tables, Rows]], shape: JoinShape) -> None:
    """Over the original tables."""
    check(*large["original"], shape, shape.size)


@named(JOIN_SHAPES)
def test_with_misses(large: dict[str, tuple[Tables, Rows]], shape: JoinShape) -> None:
    """Over tables in which every fourth right is missing."""
    check(*large["misses"], shape, shape.size_with_misses)
