"""The workloads of the shapes: who takes part, that all agree, and the rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from benchmark.peers.floor import generated_copy
from benchmark.queries import fixture, floor, floor_records, naive, ours, sqlite
from benchmark.queries.shapes import (
    ITEM_SHAPES,
    RECORD_SHAPES,
    Shape,
    compound_shapes,
    top_shapes,
)
from benchmark.queries.statements import (
    AD_HOC,
    LOOP,
    PREPARED,
    REVERSED,
    SQLITE,
    Statement,
    call_text,
    copying,
    freeze_heap,
)
from benchmark.timing import Series, run_rounds


class Table:
    """The rows of one workload in each contender's form.

    The loops run over memdb's own record objects where these are shared, so that both find the
    same memory; the mutable ones have a copy of each.
    """

    def __init__(
        self,
        cls: type[Any],
        rows: Sequence[Any],
        *,
        indexes: Callable[[], list[Any]],
        sql_indexes: Sequence[str],
        load: Callable[[list[Any]], None],
        loops: dict[str, Callable[..., Any]],
    ) -> None:
        self.cls = cls
        self.collection = ours.make_table(cls, rows, indexes())
        self.rows = self.collection.where().all()
        self.connection = sqlite.make_connection(cls, rows, sql_indexes)
        load(self.rows)
        self._loops = loops

    @property
    def is_copying(self) -> bool:
        """Tell whether results are copies."""
        return not self.cls.__dataclass_params__.frozen

    def loop(self, shape: Shape) -> Callable[..., Any]:
        """Return the hand-written loop."""
        made = self._loops[shape.name]
        if shape.is_count or not self.is_copying:
            return made
        return copying(made, generated_copy(self.cls))


def run_shapes(
    table: Table, shapes: Sequence[Shape], rounds: int, *, is_full: bool
) -> list[Series]:
    """Check every contender's answer, then give each its turns.

    Args:
        is_full: The table has all rows, so that the results have their documented sizes.
    """
    contenders: list[Statement] = []
    sizes: dict[str, int] = {}
    for shape in shapes:
        wanted = naive.expected(shape.name, table.rows, shape.arguments)
        size = wanted if shape.is_count else len(wanted)
        if is_full and size != shape.size:
            raise AssertionError(f"{shape.name}: {size} found, {shape.size} documented")
        for each in _statements(table, shape):
            _check(each, shape, wanted)
            contenders.append(each)
            sizes[each.name] = size
    freeze_heap()
    found = run_rounds("queries", contenders, rounds)
    for series in found:
        series.result_size = sizes[series.contender]
    return found


def _statements(table: Table, shape: Shape) -> Iterator[Statement]:
    text = call_text(shape.arguments, by_keyword=False)
    yield Statement(f"{shape.name}: {LOOP}", text, {"ask": table.loop(shape)})
    yield from _our_statements(table.collection, shape)
    names = {
        "execute": table.connection.cursor().execute,
        "statement": sqlite.select_statement(shape),
        "values": shape.sql_values,
    }
    yield Statement(f"{shape.name}: {SQLITE}", "execute(statement, values).fetchall()", names)


def _our_statements(collection: Any, shape: Shape) -> Iterator[Statement]:
    for name, query in ((PREPARED, shape.prepared_text), (REVERSED, shape.reversed_text)):
        if query is not None:
            made = ours.prepared({"table": collection}, query)
            names = {"ask": made.count if shape.is_count else made}
            text = call_text(shape.parameters, by_keyword=True)
            yield Statement(f"{shape.name}: {name}", text, names)
    names = ours.ad_hoc_names(shape, {"table": collection})
    yield Statement(f"{shape.name}: {AD_HOC}", ours.ad_hoc_statement(shape), names)


def _check(contender: Statement, shape: Shape, wanted: Any) -> None:
    answer = contender.answer()
    if contender.name.endswith(SQLITE):
        if shape.is_count:
            ((answer,),) = answer
        else:
            answer = answer if shape.is_ordered else sorted(answer)
            wanted = list(map(fixture.values_of, wanted))
    if answer != wanted:
        raise AssertionError(f"{contender.name}: another result than the naive evaluator's")


def _items(cls: type[Any], count: int) -> Table:
    return Table(
        cls,
        fixture.make_items(cls, count),
        indexes=ours.item_indexes,
        sql_indexes=sqlite.ITEM_INDEXES,
        load=floor.load,
        loops=floor.LOOPS,
    )


def _records(cls: type[Any], count: int) -> Table:
    return Table(
        cls,
        fixture.make_records(cls, count),
        indexes=ours.record_indexes,
        sql_indexes=sqlite.RECORD_INDEXES,
        load=floor_records.load_records,
        loops=floor_records.LOOPS,
    )


def query_items(count: int, rounds: int) -> list[Series]:
    """Every shape over items; immutable records, so results are shared."""
    is_full = count == fixture.ITEM_COUNT
    return run_shapes(_items(fixture.Item, count), ITEM_SHAPES, rounds, is_full=is_full)


def query_items_copied(count: int, rounds: int) -> list[Series]:
    """The same with mutable records: every row of a result is a copy."""
    shapes = [shape for shape in ITEM_SHAPES if not shape.is_count]
    is_full = count == fixture.ITEM_COUNT
    return run_shapes(_items(fixture.MutableItem, count), shapes, rounds, is_full=is_full)


def query_records(count: int, rounds: int) -> list[Series]:
    """The shapes with a time window, over a tenth as many records."""
    count //= 10
    is_full = count == fixture.RECORD_COUNT
    return run_shapes(_records(fixture.Record, count), RECORD_SHAPES, rounds, is_full=is_full)


def query_records_copied(count: int, rounds: int) -> list[Series]:
    """The same with mutable records."""
    count //= 10
    shapes = [shape for shape in RECORD_SHAPES if not shape.is_count]
    is_full = count == fixture.RECORD_COUNT
    table = _records(fixture.MutableRecord, count)
    return run_shapes(table, shapes, rounds, is_full=is_full)


def query_top(count: int, rounds: int) -> list[Series]:
    """Sorted pages of a whole table without an index."""
    table = Table(
        fixture.Scored,
        fixture.make_scored(count),
        indexes=list,
        sql_indexes=(),
        load=floor_records.load_scored,
        loops=floor_records.LOOPS,
    )
    return run_shapes(table, top_shapes(count), rounds, is_full=True)


def query_compound(count: int, rounds: int) -> list[Series]:
    """Pages of one key of a compound index, in its order."""
    table = Table(
        fixture.Priced,
        fixture.make_priced(count),
        indexes=ours.priced_indexes,
        sql_indexes=sqlite.PRICED_INDEXES,
        load=floor_records.load_priced,
        loops=floor_records.LOOPS,
    )
    return run_shapes(table, compound_shapes(), rounds, is_full=count >= 10_000)


WORKLOADS: dict[str, Callable[[int, int], list[Series]]] = {
    "query_items": query_items,
    "query_items_copied": query_items_copied,
    "query_records": query_records,
    "query_records_copied": query_records_copied,
    "query_top": query_top,
    "query_compound": query_compound,
}
