"""What indexes cost those who write, and what a column is worth to those who add up."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from time import perf_counter_ns
from typing import Any

from benchmark.queries import fixture, ours, sqlite
from benchmark.queries.shapes import ITEM_SHAPES
from benchmark.queries.statements import Statement, freeze_heap
from benchmark.timing import Contender, Series, run_rounds, time_call, time_each
from memdb import F

_MIXED_CALLS = 200
_FEW_ROUNDS = 3


class Insertion:
    """Inserts one by one into a fresh file, its indexes in use from the first record on."""

    has_gc_rounds = True

    def __init__(
        self,
        name: str,
        items: Sequence[Any],
        indexes: Callable[[], list[Any]],
        *,
        is_caught_up: bool = False,
    ) -> None:
        self.name = name
        self._items = items
        self._indexes = indexes
        self._is_caught_up = is_caught_up

    def round(self, workload: str) -> tuple[int, int]:
        """Insert everything; where that is asked for, bring the indexes up to date too."""
        with tempfile.TemporaryDirectory(prefix="memdb-bench-") as directory:
            path = Path(directory) / "rows.memdb"
            db, table = ours.make_empty(fixture.Item, self._indexes(), path)
            with db:
                table.insert(self._items[0])
                _use_all(table)
                elapsed = time_each(table.insert, self._items[1:])
                if self._is_caught_up:
                    elapsed += time_call(lambda: _use_all(table))
                return elapsed, len(self._items) - 1


class SqliteInsertion:
    """The same rows into sqlite3 in memory."""

    has_gc_rounds = False

    def __init__(self, name: str, items: Sequence[Any], indexes: Sequence[str]) -> None:
        self.name = name
        self._rows = [(None, *fixture.values_of(item)[1:]) for item in items]
        self._indexes = indexes

    def round(self, workload: str) -> tuple[int, int]:
        """Insert everything."""
        connection = sqlite.make_connection(fixture.Item, [], self._indexes)
        execute = connection.cursor().execute
        statement = sqlite.insert_statement(fixture.Item)
        elapsed = time_each(lambda row: execute(statement, row), self._rows)
        connection.close()
        return elapsed, len(self._rows)


class Once:
    """An operation over all records that is done once a round."""

    has_gc_rounds = False

    def __init__(self, name: str, timed: Callable[[], int]) -> None:
        self.name = name
        self._timed = timed

    def round(self, workload: str) -> tuple[int, int]:
        """Do it."""
        return self._timed(), 1


class Mixed:
    """A write and a query in turn, over one table that stays for all rounds."""

    has_gc_rounds = False

    def __init__(
        self,
        name: str,
        write: Callable[..., object],
        changes: Sequence[tuple[Any, ...]],
        ask: Callable[[], Any],
    ) -> None:
        self.name = name
        self.ask = ask
        self._write = write
        self._changes = iter(changes)

    def round(self, workload: str) -> tuple[int, int]:
        """Do some hundred of both."""
        write, ask = self._write, self.ask
        changes = list(islice(self._changes, _MIXED_CALLS))
        begin = perf_counter_ns()
        for change in changes:
            write(*change)
            ask()
        return perf_counter_ns() - begin, len(changes)


def query_insert(count: int, rounds: int) -> list[Series]:
    """Insert with four plain indexes, and without any."""
    items = list(islice(fixture.item_stream(0), count))
    indexes = ('"group"', "tier", "band", "code")
    contenders: list[Contender] = [
        Insertion("memdb, four indexes", items, ours.plain_indexes),
        Insertion("memdb, no index", items, list),
        Insertion("memdb, four and caught up", items, ours.plain_indexes, is_caught_up=True),
        SqliteInsertion("sqlite3, four indexes", items, indexes),
        SqliteInsertion("sqlite3, no index", items, ()),
    ]
    return run_rounds("query_insert", contenders, rounds)


def query_catch_up(count: int, rounds: int) -> list[Series]:
    """The first use of a sorted index of numbers after ``count`` records were inserted."""
    rows = fixture.make_priced(count)
    wanted = sum(row.price < 500_000 for row in rows)
    freeze_heap()

    def caught_up(is_read: bool) -> int:
        db, table = ours.make_empty(fixture.Priced, ours.sorted_price())
        with db:
            table.insert_many(rows[:1])
            _use_all(table)
            table.insert_many(rows[1:])
            if is_read:
                for _ in table:  # No query, which would bring the index up to date.
                    pass
            elapsed = time_call(lambda: _use_all(table))
            _expect(wanted, table.where(F.price < 500_000).count())
            return elapsed

    contenders: list[Contender] = [
        Once("memdb, just inserted", lambda: caught_up(False)),
        Once("memdb, all read before", lambda: caught_up(True)),
        Once("sorted() of pairs", lambda: time_call(lambda: _sorted_pairs(rows))),
    ]
    return run_rounds("query_catch_up", contenders, min(rounds, _FEW_ROUNDS), warm_up=False)


def query_mixed(count: int, rounds: int) -> list[Series]:
    """A write and a query in turn, beside sqlite3 with the same indexes."""
    items = fixture.make_items(count=count)
    writes = (rounds + 1) * _MIXED_CALLS
    fresh = list(islice(fixture.item_stream(count), writes))
    inserted = [(item,) for item in fresh]
    moved = [(number * 7919 % count + 1, number % 1000) for number in range(writes)]
    contenders: list[Mixed] = []
    for what, names in (
        ("insert", ("UniqueArg", "ListList", "Range")),
        ("update", ("ListList", "ListWhere")),
    ):
        for name in names:
            table = ours.make_table(fixture.Item, items, ours.item_indexes())
            shape = next(each for each in ITEM_SHAPES if each.name == name)
            query = ours.prepared({"table": table}, shape.prepared_text)
            write = table.insert if what == "insert" else _mover(table)
            changes: Sequence[tuple[Any, ...]] = inserted if what == "insert" else moved
            pair = f"{what}, {name}"
            contenders.append(Mixed(f"{pair}: memdb", write, changes, _asker(query, shape)))
            contenders.append(_sqlite_mixed(f"{pair}: sqlite3", items, changes, shape))
    freeze_heap()
    found = run_rounds("query_mixed", contenders, rounds)
    for one, other in zip(contenders[::2], contenders[1::2], strict=True):
        _expect(sorted(map(fixture.values_of, one.ask())), sorted(other.ask()))
    return found


def query_column(count: int, rounds: int) -> list[Series]:
    """Sums, counts and scans of a number: a column of it, and a loop over all records."""
    table = ours.make_table(fixture.Priced, fixture.make_priced(count), ours.price_column())
    rows = table.where().all()
    connection = sqlite.make_connection(fixture.Priced, rows, ())
    names = {"F": F, "table": table, "rows": rows, "execute": connection.cursor().execute}
    contenders = []
    for what, loop, query, statement in _COLUMN_QUESTIONS:
        asked = f"execute({statement!r}).fetchall()"
        contenders += [
            Statement(f"{what}: loop", loop, names),
            Statement(f"{what}: memdb", query, names),
            Statement(f"{what}: sqlite3", asked, names),
        ]
        _expect(contenders[-3].answer(), contenders[-2].answer())
    freeze_heap()
    return run_rounds("query_column", contenders, rounds)


_COLUMN_QUESTIONS = [
    (
        "sum",
        "sum([row.price for row in rows])",
        "table.where().sum(F.price)",
        "SELECT sum(price) FROM data",
    ),
    (
        "sum of some",
        "sum([row.price for row in rows if row.price < 500_000])",
        "table.where(F.price < 500_000).sum(F.price)",
        "SELECT sum(price) FROM data WHERE price < 500000",
    ),
    (
        "count",
        "len([row for row in rows if row.price < 500_000])",
        "table.where(F.price < 500_000).count()",
        "SELECT count(*) FROM data WHERE price < 500000",
    ),
    (
        "scan",
        "[row for row in rows if row.price < 100]",
        "table.where(F.price < 100).all()",
        "SELECT * FROM data WHERE price < 100",
    ),
]


def _use_all(table: Any) -> None:
    """Ask something of each index, which brings it up to date."""
    for name in table.indexes:
        table.where(F[name] == -1).count()


def _sorted_pairs(rows: Sequence[Any]) -> object:
    return sorted([(row.price, row.id) for row in rows])


def _mover(table: Any) -> Callable[[int, int], object]:
    def move(identity: int, tier: int) -> object:
        return table.update(identity, tier=tier)

    return move


def _asker(query: Any, shape: Any) -> Callable[[], Any]:
    arguments = shape.parameters
    return lambda: query(**arguments)


def _sqlite_mixed(
    name: str, items: Sequence[Any], changes: Sequence[tuple[Any, ...]], shape: Any
) -> Mixed:
    connection = sqlite.make_connection(fixture.Item, items, sqlite.ITEM_INDEXES)
    execute = connection.cursor().execute
    if name.startswith("insert"):
        statement = sqlite.insert_statement(fixture.Item)
        changes = [((None, *fixture.values_of(item)[1:]),) for (item,) in changes]
    else:
        statement = "UPDATE data SET tier = ? WHERE id = ?"
        changes = [((tier, identity),) for identity, tier in changes]
    select, values = sqlite.select_statement(shape), shape.sql_values

    def write(row: tuple[Any, ...]) -> object:
        return execute(statement, row)

    return Mixed(name, write, changes, lambda: execute(select, values).fetchall())


def _expect(wanted: object, found: object) -> None:
    if found != wanted:
        raise AssertionError("the contenders disagree")


WORKLOADS: dict[str, Callable[[int, int], list[Series]]] = {
    "query_insert": query_insert,
    "query_catch_up": query_catch_up,
    "query_mixed": query_mixed,
    "query_column": query_column,
}
