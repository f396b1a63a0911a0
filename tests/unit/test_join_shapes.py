"""Every joined shape of the query benchmark: at its documented size, as a naive evaluator has it.

The tables, the shapes and the evaluator are those of `benchmark.queries`, which tests of its own
hold to the description. Here the database is asked in every way, over the whole tables.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
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
from tests.support.effort import times

Rows = dict[str, list[Any]]
Tables = dict[str, Any]
WHOLE = 100_000
FEW = 3_000
TOP = {"scored": fixture.Scored, "labels": fixture.Label}


def named(shapes: list[JoinShape]) -> Any:
    """Return a parameter of tests: each shape under its name."""
    return pytest.mark.parametrize("shape", shapes, ids=[shape.name for shape in shapes])


def check(tables: Tables, rows: Rows, shape: JoinShape, size: Size | None = None) -> None:
    """Check every way of asking a shape's question, and its documented size if there is one."""
    wanted = naive_joins.expected(shape.name, rows, shape.arguments)
    if size is not None:
        assert size == size_of(shape, wanted)
    names = ours.ad_hoc_names(shape, tables)
    query = eval(shape.ad_hoc_text.removesuffix(".count()").removesuffix(".all()"), names)
    prepared = ours.prepared(tables, shape.prepared_text)
    given = shape.arguments
    if shape.is_count:
        assert wanted == query.count() == prepared.count(**given) == len(query.all())
        assert bool(wanted) == query.exists()
        return
    for found in (query.all(), prepared(**given), list(query)):
        assert wanted == plain_rows(found)
    assert len(wanted) == query.count() == prepared.count(**given)
    assert bool(wanted) == query.exists()
    first = query.first()
    assert wanted[:1] == ([] if first is None else plain_rows([first]))
    page = query.page(3, 5)
    assert (wanted[3:8], len(wanted)) == (plain_rows(page.items), page.total)


@pytest.fixture(scope="module")
def original() -> Iterator[tuple[Tables, Rows]]:
    """Give the whole tables of the original."""
    rows = fixture_joins.make_tables(fixture_joins.CLASSES, WHOLE, has_misses=False)
    yield ours.make_tables(fixture_joins.CLASSES, rows, ours.join_indexes()), rows


@pytest.fixture(scope="module")
def with_misses() -> Iterator[tuple[Tables, Rows]]:
    """Give the whole tables in which every fourth right is missing."""
    rows = fixture_joins.make_tables(fixture_joins.CLASSES, WHOLE, has_misses=True)
    yield ours.make_tables(fixture_joins.CLASSES, rows, ours.join_indexes()), rows


@pytest.fixture(scope="module")
def foreign() -> Iterator[tuple[Tables, Rows]]:
    """Give the whole tables that are tied by foreign keys."""
    rows = fixture_foreign.make_tables(WHOLE)
    yield ours.make_tables(fixture_foreign.CLASSES, rows, ours.foreign_indexes()), rows


@named(JOIN_SHAPES)
def test_original(original: tuple[Tables, Rows], shape: JoinShape) -> None:
    """Over the original tables, where no right is missing that is asked for."""
    check(*original, shape, shape.size)


@named(JOIN_SHAPES)
def test_with_misses(with_misses: tuple[Tables, Rows], shape: JoinShape) -> None:
    """Over tables with real misses."""
    check(*with_misses, shape, shape.size_with_misses)


@named(FOREIGN_SHAPES)
def test_foreign(foreign: tuple[Tables, Rows], shape: JoinShape) -> None:
    """Over tables that refer to each other, with misses."""
    check(*foreign, shape, shape.size)


@pytest.mark.parametrize(
    "count",
    [
        10_000,
        pytest.param(100_000, marks=pytest.mark.slow),
        pytest.param(times(500_000), marks=pytest.mark.slow, id="500000"),
    ],
)
def test_top(count: int) -> None:
    """Sorted pages of a whole table, each row with its one right."""
    rows: Rows = {"scored": fixture.make_scored(count), "labels": fixture.make_labels(count)}
    tables = ours.make_tables(TOP, rows, {})
    for shape in top_joined_shapes(count):
        check(tables, rows, shape, shape.size)


def test_rooms() -> None:
    """Rights of rights, and a table of which half have a right."""
    rows = fixture_rooms.make_tables(10_000)
    tables = ours.make_tables(fixture_rooms.CLASSES, rows, ours.room_indexes())
    for shape in room_shapes(10_000):
        check(tables, rows, shape, shape.size)


def test_heavy() -> None:
    """The query of the concurrent workload, at each pivot."""
    rows = heavy.make_tables()
    tables = ours.make_tables(heavy.CLASSES, rows, ours.heavy_indexes())
    (shape,) = HEAVY_SHAPES
    check(tables, rows, shape, shape.size)
    for pivot in (1, 499, 500, 501):
        check(tables, rows, dataclasses.replace(shape, arguments={"pivot": pivot}))


@pytest.mark.parametrize("is_mutable", [False, True], ids=["frozen", "mutable"])
@pytest.mark.parametrize("indexes", ["all", "none", "later"])
def test_fewer_rows(indexes: str, is_mutable: bool) -> None:
    """With a part of the tables: copied or shared, with the indexes, without, and added later."""
    classes = fixture_joins.CLASSES
    if is_mutable:
        classes = {name: fixture_joins.mutable(cls) for name, cls in classes.items()}
    rows = fixture_joins.make_tables(classes, FEW, has_misses=True)
    declared = ours.join_indexes()
    tables = ours.make_tables(classes, rows, declared if indexes == "all" else {})
    for shape in JOIN_SHAPES:
        check(tables, rows, shape)
        if indexes == "later":
            for name, own in declared.items():
                if own:
                    tables[name].indexes.add(own.pop())


def test_in_a_transaction_and_without_a_cache() -> None:
    """A few rows in the general way: while a transaction is open, and with nothing kept."""
    rows = fixture_joins.make_tables(fixture_joins.CLASSES, FEW, has_misses=True)
    with memdb.open(None, cache="none") as db:
        tables = ours.open_tables(db, fixture_joins.CLASSES, ours.join_indexes())
        for name, table in tables.items():
            table.insert_many(rows[name])
        for shape in JOIN_SHAPES:
            check(tables, rows, shape)
    with memdb.open(None) as db:
        tables = ours.open_tables(db, fixture_joins.CLASSES, ours.join_indexes())
        with db.transaction():
            for name, table in tables.items():
                table.insert_many(rows[name])
            for shape in JOIN_SHAPES[::3]:
                check(tables, rows, shape)
        for shape in JOIN_SHAPES:
            check(tables, rows, shape)
