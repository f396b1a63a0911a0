"""The tables, the shapes, the loops and the SQL of the benchmark of joins."""

from __future__ import annotations

from typing import Any

import pytest

from benchmark.queries import (
    fixture,
    fixture_foreign,
    fixture_joins,
    floor_foreign,
    floor_joins,
    floor_joins_copied,
    naive_joins,
    rounds_joins,
    sqlite,
)
from benchmark.queries.join_shape import JoinShape
from benchmark.queries.shapes_foreign import (
    FOREIGN_SHAPES,
    HEAVY_SHAPES,
    room_shapes,
    top_joined_shapes,
)
from benchmark.queries.shapes_joins import JOIN_SHAPES
from benchmark.targets import judge
from benchmark.timing import Series

Rows = dict[str, list[Any]]

_MISSES = pytest.mark.parametrize("has_misses", [False, True], ids=["original", "misses"])
_FEW = 3000


def _names(shapes: list[JoinShape]) -> list[str]:
    return [shape.name for shape in shapes]


@pytest.fixture(scope="module")
def original() -> Rows:
    """Return all rows of the original tables."""
    return fixture_joins.make_tables(fixture_joins.CLASSES, 100_000, has_misses=False)


@pytest.fixture(scope="module")
def with_misses(original: Rows) -> Rows:
    """Return all rows of the tables with real misses."""
    made = fixture_joins.make_tables(fixture_joins.CLASSES, 100_000, has_misses=True)
    # The largest are the same ones.
    return made | {name: original[name] for name in ("items", "records", "orders")}


@pytest.fixture(scope="module")
def foreign() -> Rows:
    """Return all rows of the tables that are tied by foreign keys."""
    return fixture_foreign.make_tables(100_000)


def test_sizes_of_tables(original: Rows, with_misses: Rows, foreign: Rows) -> None:
    """Each table has its documented number of rows, with real misses too."""
    documented = {
        "items": 100_000,
        "details": 75_000,
        "records": 10_000,
        "rec_customers": 1714,
        "rec_products": 500,
        "orders": 100_000,
        "customers": 100,
        "order_details": 75_000,
        "lines": 150_000,
        "notes": 300,
        "docs": 10_000,
        "tags": 500,
    }

    assert documented == {name: len(rows) for name, rows in original.items()}
    assert documented == {name: len(rows) for name, rows in with_misses.items()}
    assert [100_000, 100_000, 75_000, 150_000, 10_000, 500] == list(map(len, foreign.values()))


def test_identities_are_distinct(original: Rows, with_misses: Rows, foreign: Rows) -> None:
    """No table has an identity twice, and all are in their order."""
    for tables in (original, with_misses, foreign):
        for rows in tables.values():
            identities = [row.id for row in rows]

            assert identities == sorted(set(identities))


def test_first_scores_of_foreign_tables(foreign: Rows) -> None:
    """A customer's score is drawn before an order's, again and again."""
    random = fixture.NetRandom(1234)
    drawn = [random.below(2**31 - 1) for _ in range(4)]
    customers, orders = foreign["customers"], foreign["orders"]

    assert drawn == [customers[0].score, orders[0].score, customers[1].score, orders[1].score]


@pytest.mark.parametrize("shape", JOIN_SHAPES, ids=_names(JOIN_SHAPES))
def test_shape(original: Rows, shape: JoinShape) -> None:
    """The loop and the naive evaluator agree over the original tables, at the documented size."""
    if floor_joins.tags_by_id.get(1) is not original["tags"][0]:
        floor_joins.load(original)
    wanted = naive_joins.expected(shape.name, original, shape.arguments)

    assert shape.size == rounds_joins.size_of(shape, wanted)
    assert wanted == floor_joins.LOOPS[shape.name](*shape.arguments.values())


@pytest.mark.parametrize("shape", JOIN_SHAPES, ids=_names(JOIN_SHAPES))
def test_shape_with_misses(with_misses: Rows, shape: JoinShape) -> None:
    """The loop and the naive evaluator agree where rights are missing, at the known size."""
    if floor_joins.tags_by_id.get(1) is not with_misses["tags"][0]:
        floor_joins.load(with_misses)
    wanted = naive_joins.expected(shape.name, with_misses, shape.arguments)

    assert shape.size_with_misses == rounds_joins.size_of(shape, wanted)
    assert wanted == floor_joins.LOOPS[shape.name](*shape.arguments.values())


@pytest.mark.parametrize("shape", FOREIGN_SHAPES, ids=_names(FOREIGN_SHAPES))
def test_shape_over_foreign_keys(foreign: Rows, shape: JoinShape) -> None:
    """The loop and the naive evaluator agree over foreign keys, at the documented size."""
    floor_foreign.load_foreign(foreign)
    wanted = naive_joins.expected(shape.name, foreign, shape.arguments)

    assert shape.size == rounds_joins.size_of(shape, wanted)
    assert wanted == floor_foreign.LOOPS[shape.name](*shape.arguments.values())


@_MISSES
def test_all_agree(has_misses: bool) -> None:
    """Loops, memdb and sqlite3 give what the naive evaluator gives, over a part of the tables."""
    tables = rounds_joins.joined_tables(fixture_joins.CLASSES, _FEW, has_misses=has_misses)

    for shape in JOIN_SHAPES:
        rounds_joins.checked_statements(tables, shape)


@_MISSES
def test_all_agree_on_copies(has_misses: bool) -> None:
    """The same with mutable records, where each has a loop of its own that copies."""
    classes = {name: fixture_joins.mutable(cls) for name, cls in fixture_joins.CLASSES.items()}
    tables = rounds_joins.joined_tables(classes, _FEW, has_misses=has_misses)
    shapes = [shape for shape in JOIN_SHAPES if shape.name in floor_joins_copied.LOOPS]

    assert len(floor_joins_copied.LOOPS) == len(shapes)
    for shape in shapes:
        statements, _ = rounds_joins.checked_statements(tables, shape)
        one, other = statements[0].answer(), statements[0].answer()

        assert not {id(row[0]) for row in one} & {id(row[0]) for row in other}


def test_all_agree_over_other_tables() -> None:
    """The same over foreign keys, sorted pages, rooms and products."""
    for tables, shapes in (
        (rounds_joins.foreign_tables(_FEW), FOREIGN_SHAPES),
        (rounds_joins.top_tables(_FEW), top_joined_shapes(_FEW)),
        (rounds_joins.room_tables(_FEW), room_shapes(_FEW)),
        (rounds_joins.heavy_tables(), HEAVY_SHAPES),
    ):
        for shape in shapes:
            rounds_joins.checked_statements(tables, shape)


def test_sorted_page_of_which_a_right_is_missing() -> None:
    """The loop over sorted pages leaves out what has no label, and fills the page."""
    scored, labels = fixture.make_scored(400), fixture.make_labels(400)
    best = min(scored, key=lambda row: row.score)
    tables: Rows = {
        "scored": scored,
        "labels": [label for label in labels if label.id != best.id],
    }
    floor_foreign.load_top(tables)
    for shape in top_joined_shapes(400):
        wanted = naive_joins.expected(shape.name, tables, shape.arguments)

        assert wanted == floor_foreign.LOOPS[shape.name](*shape.arguments.values())


def test_wrong_answer_is_found() -> None:
    """Whoever answers another question is not timed."""
    tables = rounds_joins.room_tables(500)
    shape = room_shapes(500)[0]
    tables.loops = {shape.name: lambda: []}

    with pytest.raises(AssertionError, match="JoinMany_Desks: loop"):
        rounds_joins.checked_statements(tables, shape)


def test_flat_rows() -> None:
    """What SQL makes of a row: its left with each of its rights, or alone."""
    left, one, other = (fixture_joins.Tag(number, f"t{number}") for number in (1, 2, 3))
    rows = [(left, (one, other)), (left, None), (left, ()), (left, ((one, None), (other, left)))]

    assert [
        (1, "t1"),
        (1, "t1"),
        (1, "t1", 2, "t2"),
        (1, "t1", 2, "t2"),
        (1, "t1", 3, "t3"),
        (1, "t1", 3, "t3", 1, "t1"),
    ] == sorted(rounds_joins.flat_rows(rows))


def test_texts_of_a_shape() -> None:
    """A shape's texts: with parameters, and as a program writes it that has variables."""
    by_name = {shape.name: shape for shape in JOIN_SHAPES}
    paged, counted = by_name["SortBounded_JoinMany"], by_name["Count_InnerJoinOne"]

    assert paged.prepared_text == (
        "items.where(F.group == P.group).order_by(F.score).limit(20)"
        ".join_many(lines, back=F.item_id)"
    )
    assert by_name["Sort_JoinMany"].ad_hoc_text == (
        "items.where(F.group == group).order_by(F.score)"
        ".join_many(lines, back=F.item_id).limit(20).all()"
    )
    assert counted.ad_hoc_text == (
        'orders.where(F.customer_id == customer_id).join(order_details, on=F.id, how="inner")'
        ".count()"
    )


def test_stored_values() -> None:
    """A record's tuple has no column; its other values are in the order of the fields."""
    assert (7, 3) == sqlite.stored_values(fixture_joins.Doc(7, 3, (1, 2)))


def test_targets() -> None:
    """Rows are held against the loop and sqlite3, a count against its rows."""
    figures = {
        "InnerJoinOne: loop": 100.0,
        "InnerJoinOne: memdb prepared": 140.0,
        "InnerJoinOne: memdb ad hoc": 150.0,
        "InnerJoinOne: sqlite3": 700.0,
        "Count_InnerJoinOne: loop": 1.0,
        "Count_InnerJoinOne: memdb prepared": 60.0,
        "Count_InnerJoinOne: sqlite3": 90.0,
    }
    series = [Series(name, values=[figure, figure * 2]) for name, figure in figures.items()]
    verdicts = [(each.found, each.is_met) for each in judge("query_joins", series)]
    copied = [each.found for each in judge("query_joins_copied", series)]

    assert [("1.40x", False), ("5.00x", True), ("2.33x", True), ("1.50x", False)] == verdicts
    assert ["1.40x", "2.33x"] == copied
