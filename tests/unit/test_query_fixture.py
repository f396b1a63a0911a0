"""The tables, the shapes and the hand-written loops of the query benchmark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from benchmark.queries import fixture, floor, floor_records, naive, sqlite
from benchmark.queries.shapes import (
    ITEM_SHAPES,
    RECORD_SHAPES,
    Shape,
    compound_shapes,
    top_shapes,
)

_COUNT = 10_000


@pytest.fixture(scope="module")
def items() -> list[Any]:
    """Return all items, loaded into the loops' tables."""
    made = fixture.make_items()
    floor.load(made)
    return made


@pytest.fixture(scope="module")
def records() -> list[Any]:
    """Return all records, loaded into the loops' tables."""
    made = fixture.make_records()
    floor_records.load_records(made)
    return made


def _names(shapes: list[Shape]) -> list[str]:
    return [shape.name for shape in shapes]


def test_random_numbers_are_those_of_dotnet() -> None:
    """The generator gives the numbers that .NET documents for a seed."""
    random = fixture.NetRandom(0)

    assert [1_559_595_546, 1_755_192_844] == [random.sample(), random.sample()]


def test_first_scores(items: list[Any]) -> None:
    """The first scores are those of the original tables."""
    assert [857_019_877, 1_923_929_452, 685_483_091] == [item.score for item in items[:3]]


@pytest.mark.parametrize(
    ("size", "matches"),
    [
        (1000, lambda item: item.group == 13),
        (100, lambda item: item.tier == 13),
        (333, lambda item: item.band == 113),
        (111, lambda item: item.lane == 413),
        (33_334, lambda item: item.flag),
        (1000, lambda item: 51_000 <= item.code < 52_000),
        (60_000, lambda item: 21_000 <= item.code < 81_000),
        (49_999, lambda item: item.updated > 1_050_000),
    ],
)
def test_buckets_of_items(items: list[Any], size: int, matches: Callable[[Any], bool]) -> None:
    """Each bucket and window of items has its documented size."""
    assert size == sum(map(matches, items))


@pytest.mark.parametrize(
    ("size", "matches"),
    [
        (3334, lambda record: record.key_a == 0),
        (2000, lambda record: record.key_b == 0),
        (667, lambda record: record.key_a == record.key_b == 0),
        (1499, lambda record: record.ts > fixture.TIME_BASE + 3_060_000),
        (166, lambda record: record.ts > fixture.TIME_BASE + 3_540_000),
        (2, lambda record: record.ts > fixture.TIME_BASE + 3_599_000),
        (10_000, lambda record: fixture.TIME_BASE <= record.ts <= fixture.TIME_BASE + 3_599_640),
    ],
)
def test_buckets_of_records(records: list[Any], size: int, matches: Callable[[Any], bool]) -> None:
    """Each bucket and window of records has its documented size."""
    assert size == sum(map(matches, records))


def test_times_are_distinct(records: list[Any]) -> None:
    """No time is in the window twice."""
    assert len(records) == len({record.ts for record in records})


def test_tie_groups(items: list[Any], records: list[Any]) -> None:
    """The ties by which the bounded pages are sorted are those of the original scores."""
    three = [item for item in items if (item.group, item.band, item.lane) == (13, 113, 413)]
    late = [
        record
        for record in records
        if record.ts > fixture.TIME_BASE + 3_060_000 and record.key_a == record.key_b == 0
    ]

    assert [19, 11, 7, 17, 20, 12, 12, 13] == _ties(three)
    assert [11, 6, 19, 16, 17, 6, 16, 8] == _ties(late)


def _ties(rows: list[Any]) -> list[int]:
    counted = Counter(row.score & 7 for row in rows)
    return [counted[key] for key in range(8)]


@pytest.mark.parametrize("shape", ITEM_SHAPES, ids=_names(ITEM_SHAPES))
def test_items_shape(items: list[Any], shape: Shape) -> None:
    """The loop over items and the naive evaluator agree, at the documented size."""
    wanted = naive.expected(shape.name, items, shape.arguments)

    assert shape.size == (wanted if shape.is_count else len(wanted))
    assert wanted == floor.LOOPS[shape.name](*shape.arguments.values())


@pytest.mark.parametrize("shape", RECORD_SHAPES, ids=_names(RECORD_SHAPES))
def test_records_shape(records: list[Any], shape: Shape) -> None:
    """The loop over records and the naive evaluator agree, at the documented size."""
    wanted = naive.expected(shape.name, records, shape.arguments)

    assert shape.size == (wanted if shape.is_count else len(wanted))
    assert wanted == floor_records.LOOPS[shape.name](*shape.arguments.values())


@pytest.mark.parametrize("shape", top_shapes(_COUNT), ids=_names(top_shapes(_COUNT)))
def test_top_shape(shape: Shape) -> None:
    """The loop and the naive evaluator give the same page of a sorted table."""
    rows = fixture.make_scored(_COUNT)
    floor_records.load_scored(rows)
    wanted = naive.expected(shape.name, rows, shape.arguments)

    assert shape.size == len(wanted)
    assert wanted == floor_records.LOOPS[shape.name](*shape.arguments.values())


@pytest.mark.parametrize("shape", compound_shapes(), ids=_names(compound_shapes()))
def test_compound_shape(shape: Shape) -> None:
    """The loop and the naive evaluator give the same page of a compound key."""
    rows = fixture.make_priced(_COUNT)
    floor_records.load_priced(rows)
    wanted = naive.expected(shape.name, rows, shape.arguments)

    assert shape.size == len(wanted)
    assert wanted == floor_records.LOOPS[shape.name](*shape.arguments.values())


@pytest.mark.parametrize(
    ("name", "mode", "size"), [("Match", 0, 1), ("Match", 1, 1000), ("Match", 3, 0)]
)
def test_other_arms_of_the_loop(items: list[Any], name: str, mode: int, size: int) -> None:
    """The loop with arms answers each of them, and nothing by default."""
    assert size == len(floor.LOOPS[name](mode, 13, 43_013))


def test_sqlite_agrees(items: list[Any]) -> None:
    """The SQL of each shape asks the same question."""
    few = items[:2000]
    connection = sqlite.make_connection(fixture.Item, few, sqlite.ITEM_INDEXES)
    for shape in ITEM_SHAPES:
        wanted = naive.expected(shape.name, few, shape.arguments)
        found = connection.execute(sqlite.select_statement(shape), shape.sql_values).fetchall()
        if shape.is_count:
            found = found[0][0]
        else:
            wanted = list(map(fixture.values_of, wanted))
            found = found if shape.is_ordered else sorted(found)

        assert (shape.name, wanted) == (shape.name, found)


def test_texts_of_a_shape() -> None:
    """A shape's texts: with parameters, the other way round, and with a program's variables."""
    shape = next(each for each in ITEM_SHAPES if each.name == "SortBounded_ListList")

    assert shape.parameters == {"group": 13, "tier": 13}
    assert shape.prepared_text == (
        "table.where(F.group == P.group, F.tier == P.tier).order_by(F.score).limit(20)"
    )
    assert shape.reversed_text == (
        "table.where(F.tier == P.tier, F.group == P.group).order_by(F.score).limit(20)"
    )
    assert shape.ad_hoc_text == (
        "table.where(F.group == group, F.tier == tier).order_by(F.score).limit(20)"
    )
