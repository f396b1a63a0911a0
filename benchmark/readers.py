"""What following costs, the reader and the writer: the workloads ``refresh`` and ``beside_reader``.

A refresh by itself, and beside a writer in another process, which commits at a pace or as fast as
it can; and what a reader costs that writer. Contenders take turns in every round.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import memdb
from benchmark.records import Item, make_records
from benchmark.timing import Series

# What the targets look at.
READ = "one commit, and its record"
PACED, FAST = "beside 1,000 commits a second", "beside commits without a pause"
LAST = ", 99 of 100"
ALONE, SPINNING = "writer alone", "beside a busy process without a file"
BUSY = "beside a reader that refreshes without a pause"
# What waiting for a processor that others use has no part in.
USED = ", processor time"

_NS = 1_000_000_000
_PACE_PER_S = 1_000
# Asked between two refreshes of a reader.
_READS = 100
# So many commits at a pace last half a second.
_MOST_PACED = 500

_WRITER = """
import sys, time
import memdb
from benchmark.records import Item, make_records
path, count, pace = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
with memdb.open(path) as db:
    insert = db.collection(Item).insert
    records = make_records(Item, 10_000)
    insert(records[0])
    print("open", flush=True)
    sys.stdin.readline()
    start, used = time.perf_counter(), time.process_time()
    for number in range(count):
        insert(records[number % 10_000])
        if pace:
            time.sleep(max(start + number / pace - time.perf_counter(), 0))
    print(time.perf_counter() - start, time.process_time() - used, flush=True)
"""


class Writer:
    """A process that inserts, once it is told to."""

    def __init__(self, path: Path, count: int, pace: float = 0) -> None:
        command = [sys.executable, "-c", _WRITER, str(path), str(count), str(pace)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self._process.stdout.readline()

    def start(self) -> None:
        """Let it begin."""
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    @property
    def is_at_work(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def seconds(self) -> tuple[float, float]:
        """Wait for its end; return how long the inserts took, and what of the processor's time."""
        output, _ = self._process.communicate()
        elapsed, used = map(float, output.split())
        return elapsed, used


Figures = Iterator[tuple[str, float]]


def refresh(count: int, rounds: int) -> list[Series]:
    """Measure refreshes, each of which ends with a look at the last record."""
    return _in_rounds(count, rounds, _refreshes)


def beside_reader(count: int, rounds: int) -> list[Series]:
    """Measure an insert of a writer alone, and beside readers and a process without a file."""
    return _in_rounds(count, rounds, _inserts)


def _in_rounds(count: int, rounds: int, measure: Callable[[Path, int], Figures]) -> list[Series]:
    """Return what was measured in rounds, nanoseconds of each name, after one for warming up."""
    found: dict[str, Series] = {}
    for number in range(-1, rounds):
        with tempfile.TemporaryDirectory(prefix="memdb-bench-") as name:
            for contender, seconds in measure(Path(name), count):
                series = found.setdefault(contender, Series(contender, operations=count))
                if number >= 0:
                    series.values.append(seconds * _NS)
    return list(found.values())


def _refreshes(folder: Path, count: int) -> Figures:
    yield from _by_itself(folder, count)
    for name, pace in ((PACED, _PACE_PER_S), (FAST, 0)):
        durations = _beside(folder, min(count, _MOST_PACED) if pace else 5 * count, pace)
        durations.sort()
        yield name, durations[len(durations) // 2]
        yield name + LAST, durations[int(0.99 * (len(durations) - 1))]


def _by_itself(folder: Path, count: int) -> Figures:
    """Refresh in one process with the writer, so that it is known what there is to take in."""
    records = make_records(Item, 10_000)
    with memdb.open(folder / "a") as writer, memdb.open(folder / "a", "r") as reader:
        items, seen = writer.collection(Item), reader.collection(Item)
        names = ("nothing new", "one commit", READ)
        durations: dict[str, list[float]] = {name: [] for name in names}
        for number in range(max(count // 20, 20)):
            start = time.perf_counter()
            reader.refresh()
            durations[names[0]].append(time.perf_counter() - start)
            identity = items.insert(records[number % 10_000])
            start = time.perf_counter()
            reader.refresh()
            durations[names[1]].append(time.perf_counter() - start)
            seen[identity]
            durations[names[2]].append(time.perf_counter() - start)
        for name, values in durations.items():
            yield name, sorted(values)[len(values) // 2]
        for number in range(count):
            items.insert(records[number % 10_000])
        start = time.perf_counter()
        reader.refresh()
        yield "each of many commits", (time.perf_counter() - start) / count
        for at in range(0, count, 10_000):
            items.insert_many(records[: count - at])
        start = time.perf_counter()
        reader.refresh()
        yield "each record of large commits", (time.perf_counter() - start) / count


def _beside(folder: Path, count: int, pace: float) -> list[float]:
    """Return how long refreshes that find something take, with a look at the last record."""
    path = folder / f"{pace}.memdb"
    memdb.open(path).close()
    writer = Writer(path, count, pace)
    durations: list[float] = []
    with memdb.open(path, "r") as reader:
        seen = reader.collection(Item)
        writer.start()
        while writer.is_at_work or not durations:
            start = time.perf_counter()
            is_new = reader.refresh()
            seen.get(len(seen))
            if is_new:
                durations.append(time.perf_counter() - start)
            for identity in range(max(len(seen) - _READS, 1), len(seen)):
                seen[identity]
        writer.seconds()
    return durations


def _inserts(folder: Path, count: int) -> Figures:
    def spin() -> None:
        for _ in range(10_000):
            pass

    settings: dict[str, dict[str, Any]] = {BUSY: {}, "beside refresh=0.01": {"refresh": 0.01}}
    for name in (ALONE, SPINNING, *settings):
        path = folder / f"{name.replace(' ', '-')}.memdb"
        memdb.open(path).close()
        writer = Writer(path, count)
        if name in settings:
            _read_beside(path, writer, settings[name])
        else:
            writer.start()
            while name != ALONE and writer.is_at_work:
                spin()
        elapsed, used = writer.seconds()
        yield name, elapsed / count
        yield name + USED, used / count


def _read_beside(path: Path, writer: Writer, settings: dict[str, Any]) -> None:
    with memdb.open(path, "r", **settings) as reader:
        seen = reader.collection(Item)
        writer.start()
        while writer.is_at_work:
            if not settings:
                reader.refresh()
            for identity in range(max(len(seen) - _READS, 1), len(seen)):
                seen[identity]


WORKLOADS: dict[str, Callable[[int, int], list[Series]]] = {
    "refresh": refresh,
    "beside_reader": beside_reader,
}
