"""The workloads of the shapes with joins: who takes part, that all agree, and the rounds."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from benchmark.queries import (
    fixture,
    fixture_foreign,
    fixture_joins,
    fixture_rooms,
    floor_foreign,
    floor_joins,
    floor_joins_copied,
    heavy,
    naive_joins,
    ours,
    sqlite,
)
from benchmark.queries.join_shape import JoinShape, Size
from benchmark.queries.shapes_foreign import (
    FOREIGN_SHAPES,
    HEAVY_SHAPES,
    room_shapes,
    top_joined_shapes,
)
from benchmark.queries.shapes_joins import JOIN_SHAPES
from benchmark.queries.statements import (
    AD_HOC,
    LOOP,
    PREPARED,
    SQLITE,
    Statement,
    call_text,
    freeze_heap,
)
from benchmark.timing import Series, run_rounds


class Tables:
    """The tables of one workload in each contender's form.

    The loops run over memdb's own record objects where these are shared, so that both find the
    same memory; the mutable ones have a copy of each.
    """

    def __init__(
        self,
        classes: dict[str, type[Any]],
        rows: dict[str, list[Any]],
        *,
        indexes: dict[str, list[Any]],
        sql_indexes: Mapping[str, Sequence[str]],
        load: Callable[[dict[str, list[Any]]], None],
        loops: dict[str, Callable[..., Any]],
    ) -> None:
        self.collections = ours.make_tables(classes, rows, indexes)
        self.rows = {name: table.where().all() for name, table in self.collections.items()}
        self.connection = sqlite.make_tables(classes, self.rows, sql_indexes)
        self.loops = loops
        load(self.rows)


def run_joins(
    tables: Tables,
    shapes: Sequence[JoinShape],
    rounds: int,
    *,
    is_full: bool,
    has_misses: bool = False,
) -> list[Series]:
    """Check every contender's answer, then give each its turns.

    Args:
        is_full: The tables have all rows, so that the results have their documented sizes.
        has_misses: The tables are those with real misses.
    """
    contenders: list[Statement] = []
    sizes: dict[str, int] = {}
    for shape in shapes:
        checked, size = checked_statements(tables, shape)
        documented = shape.size_with_misses if has_misses else shape.size
        if is_full and size != documented:
            raise AssertionError(f"{shape.name}: {size} found, {documented} documented")
        contenders += checked
        sizes.update((each.name, size.rows) for each in checked)
    freeze_heap()
    found = run_rounds("queries", contenders, rounds)
    for series in found:
        series.result_size = sizes[series.contender]
    return found


def checked_statements(tables: Tables, shape: JoinShape) -> tuple[list[Statement], Size]:
    """Return the contenders of a shape, whose answers are right, and the size of these."""
    wanted = naive_joins.expected(shape.name, tables.rows, shape.arguments)
    statements = list(_statements(tables, shape))
    for each in statements:
        _check(each, shape, wanted)
    return statements, size_of(shape, wanted)


def size_of(shape: JoinShape, wanted: Any) -> Size:
    """Return the size of what the naive evaluator found."""
    if shape.is_count:
        return Size(wanted, 0)
    return Size(len(wanted), naive_joins.rights_in(wanted))


def flat_rows(rows: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return what SQL makes of rows: one for each pair of left and right, in order of values.

    No record holds a None, so the columns of a right that is not there are left out.
    """
    return sorted((values for row in rows for values in _flat(row)), key=repr)


def plain_rows(answer: Any) -> Any:
    """Return rows as tuples: of the program's own types none is left but the records."""
    if not isinstance(answer, list):
        return answer
    return [_plain(row) for row in answer]


def _flat(row: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    for parts in itertools.product(*map(_alternatives, row)):
        yield tuple(itertools.chain.from_iterable(parts))


def _alternatives(slot: Any) -> list[tuple[Any, ...]]:
    """Return the values of a record, or those of each of some, which may be rows themselves."""
    if slot is None or slot == ():
        return [()]
    if not isinstance(slot, tuple):
        return [sqlite.stored_values(slot)]
    return [
        values
        for each in slot
        for values in (_flat(each) if isinstance(each, tuple) else _alternatives(each))
    ]


def _plain(slot: Any) -> Any:
    if slot is None or hasattr(slot, "__dataclass_fields__"):
        return slot
    return tuple(map(_plain, slot))


def _statements(tables: Tables, shape: JoinShape) -> Iterator[Statement]:
    by_position = call_text(shape.arguments, by_keyword=False)
    by_keyword = call_text(shape.arguments, by_keyword=True)
    yield Statement(f"{shape.name}: {LOOP}", by_position, {"ask": tables.loops[shape.name]})
    made = ours.prepared(tables.collections, shape.prepared_text)
    ask = made.count if shape.is_count else made
    yield Statement(f"{shape.name}: {PREPARED}", by_keyword, {"ask": ask})
    names = ours.ad_hoc_names(shape, tables.collections)
    yield Statement(f"{shape.name}: {AD_HOC}", shape.ad_hoc_text, names)
    names = {
        "execute": tables.connection.cursor().execute,
        "statement": shape.sql,
        "values": tuple(shape.arguments.values()),
    }
    yield Statement(f"{shape.name}: {SQLITE}", "execute(statement, values).fetchall()", names)


def _check(contender: Statement, shape: JoinShape, wanted: Any) -> None:
    answer = contender.answer()
    if not contender.name.endswith(SQLITE):
        answer = plain_rows(answer)
    elif shape.is_count:
        ((answer,),) = answer
    else:
        pairs = (tuple(each for each in row if each is not None) for row in answer)
        answer = sorted(pairs, key=repr)
        wanted = flat_rows(wanted)
    if answer != wanted:
        raise AssertionError(f"{contender.name}: another result than the naive evaluator's")


def joined_tables(classes: dict[str, type[Any]], count: int, *, has_misses: bool) -> Tables:
    """Return the tables of items, records, orders and documents."""
    is_copying = classes is not fixture_joins.CLASSES
    return Tables(
        classes,
        fixture_joins.make_tables(classes, count, has_misses=has_misses),
        indexes=ours.join_indexes(),
        sql_indexes=sqlite.JOIN_INDEXES,
        load=floor_joins_copied.load if is_copying else floor_joins.load,
        loops=floor_joins_copied.LOOPS if is_copying else floor_joins.LOOPS,
    )


def foreign_tables(count: int) -> Tables:
    """Return the tables that are tied by foreign keys."""
    return Tables(
        fixture_foreign.CLASSES,
        fixture_foreign.make_tables(count),
        indexes=ours.foreign_indexes(),
        sql_indexes=sqlite.FOREIGN_INDEXES,
        load=floor_foreign.load_foreign,
        loops=floor_foreign.LOOPS,
    )


def top_tables(count: int) -> Tables:
    """Return the tables of sorted pages."""
    return Tables(
        {"scored": fixture.Scored, "labels": fixture.Label},
        {"scored": fixture.make_scored(count), "labels": fixture.make_labels(count)},
        indexes={},
        sql_indexes={},
        load=floor_foreign.load_top,
        loops=floor_foreign.LOOPS,
    )


def room_tables(count: int) -> Tables:
    """Return the small tables."""
    return Tables(
        fixture_rooms.CLASSES,
        fixture_rooms.make_tables(count),
        indexes=ours.room_indexes(),
        sql_indexes=sqlite.ROOM_INDEXES,
        load=floor_foreign.load_rooms,
        loops=floor_foreign.LOOPS,
    )


def heavy_tables() -> Tables:
    """Return products, infos and offers."""
    return Tables(
        heavy.CLASSES,
        heavy.make_tables(),
        indexes=ours.heavy_indexes(),
        sql_indexes=sqlite.HEAVY_INDEXES,
        load=floor_foreign.load_heavy,
        loops=floor_foreign.LOOPS,
    )


def query_joins(count: int, rounds: int) -> list[Series]:
    """Every shape with joins over the original tables; immutable records, so results are shared."""
    tables = joined_tables(fixture_joins.CLASSES, count, has_misses=False)
    return run_joins(tables, JOIN_SHAPES, rounds, is_full=count == fixture.ITEM_COUNT)


def query_joins_missing(count: int, rounds: int) -> list[Series]:
    """The same over the tables in which rights are really missing."""
    tables = joined_tables(fixture_joins.CLASSES, count, has_misses=True)
    is_full = count == fixture.ITEM_COUNT
    return run_joins(tables, JOIN_SHAPES, rounds, is_full=is_full, has_misses=True)


def query_joins_copied(count: int, rounds: int) -> list[Series]:
    """Some of them with mutable records: a result has a copy of each record in it."""
    classes = {name: fixture_joins.mutable(cls) for name, cls in fixture_joins.CLASSES.items()}
    tables = joined_tables(classes, count, has_misses=True)
    shapes = [shape for shape in JOIN_SHAPES if shape.name in floor_joins_copied.LOOPS]
    is_full = count == fixture.ITEM_COUNT
    return run_joins(tables, shapes, rounds, is_full=is_full, has_misses=True)


def query_foreign(count: int, rounds: int) -> list[Series]:
    """The shapes over tables that are tied by foreign keys."""
    tables = foreign_tables(count)
    return run_joins(tables, FOREIGN_SHAPES, rounds, is_full=count == fixture.ITEM_COUNT)


def query_top_joined(count: int, rounds: int) -> list[Series]:
    """Sorted pages of a whole table without an index, each row with its one right."""
    return run_joins(top_tables(count), top_joined_shapes(count), rounds, is_full=True)


def query_rooms(count: int, rounds: int) -> list[Series]:
    """Small tables whole: many rights, rights of rights, and half of the rights missing."""
    count //= 10
    return run_joins(room_tables(count), room_shapes(count), rounds, is_full=True)


def query_heavy(count: int, rounds: int) -> list[Series]:
    """The query of the concurrent workload, by itself; ``count`` says nothing."""
    return run_joins(heavy_tables(), HEAVY_SHAPES, rounds, is_full=True)


WORKLOADS: dict[str, Callable[[int, int], list[Series]]] = {
    "query_joins": query_joins,
    "query_joins_missing": query_joins_missing,
    "query_joins_copied": query_joins_copied,
    "query_foreign": query_foreign,
    "query_top_joined": query_top_joined,
    "query_rooms": query_rooms,
    "query_heavy": query_heavy,
}
