"""What following costs, the reader and the writer: ``python -m benchmark.readers``.

A refresh by itself; refreshes beside a writer in another process, which commits at a pace or as
fast as it can; and what a busy reader costs that writer, in rounds with and without it in turn.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import memdb
from benchmark.records import Item, make_records

_US = 1_000_000
_MS = 1_000
# Asked between two refreshes of a busy reader.
_READS = 100
_PACE_PER_S = 1_000

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
    start = time.perf_counter()
    for number in range(count):
        insert(records[number % 10_000])
        if pace:
            time.sleep(max(start + number / pace - time.perf_counter(), 0))
    print(time.perf_counter() - start, flush=True)
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

    def seconds(self) -> float:
        """Wait for its end; return how long the inserts took."""
        output, _ = self._process.communicate()
        return float(output)


def quantiles(values: list[float]) -> str:
    """Return median, 99th percentile and maximum of seconds, in milliseconds."""
    ordered = sorted(values)
    last = ordered[int(0.99 * (len(ordered) - 1))]
    return f"{statistics.median(ordered) * _MS:8.3f} {last * _MS:8.3f} {ordered[-1] * _MS:8.3f}"


def by_itself(folder: Path, count: int) -> None:
    """Measure refreshes of which the size is known, in one process."""
    records = make_records(Item, 10_000)
    with memdb.open(folder / "a") as writer, memdb.open(folder / "a", "r") as reader:
        items, seen = writer.collection(Item), reader.collection(Item)
        nothing, one, first = [], [], []
        for number in range(count // 20):
            start = time.perf_counter()
            reader.refresh()
            nothing.append(time.perf_counter() - start)
            identity = items.insert(records[number % 10_000])
            start = time.perf_counter()
            reader.refresh()
            one.append(time.perf_counter() - start)
            seen[identity]
            first.append(time.perf_counter() - start)
        for name, values in (("nothing new", nothing), ("one commit", one), ("and read", first)):
            print(f"{name:28} {statistics.median(values) * _US:8.1f} us")
        for number in range(count):
            items.insert(records[number % 10_000])
        start = time.perf_counter()
        reader.refresh()
        each = (time.perf_counter() - start) / count
        print(f"{'each of many commits':28} {each * _US:8.2f} us")
        for start_at in range(0, count, 10_000):
            items.insert_many(records[: count - start_at])
        start = time.perf_counter()
        reader.refresh()
        each = (time.perf_counter() - start) / count
        print(f"{'each record of large commits':28} {each * _US:8.2f} us")


def beside(folder: Path, count: int, pace: float) -> None:
    """Measure refreshes beside a writer at work, and how old what is read is after them."""
    path = folder / f"{pace}.memdb"
    memdb.open(path).close()
    writer = Writer(path, count, pace)
    durations, ages = [], []
    with memdb.open(path, "r") as reader:
        seen = reader.collection(Item)
        log = reader._engine.log
        writer.start()
        while writer.is_at_work:
            start = time.perf_counter()
            is_new = reader.refresh()
            durations.append(time.perf_counter() - start)
            if is_new:
                # Of the last commit that is there.
                ages.append(time.time() - log.timestamp / 1e9)
            for identity in range(max(len(seen) - _READS, 1), len(seen)):
                seen[identity]
    writer.seconds()
    name = f"{pace:.0f} a second" if pace else "as fast as it can"
    print(f"{name:28} {len(durations):9} {quantiles(durations)}   {quantiles(ages)}")


def cost(folder: Path, count: int, rounds: int) -> None:
    """Measure a writer alone, beside a busy reader, and beside one that refreshes by itself."""
    found: dict[str, list[float]] = {}
    for number in range(rounds):
        for how in (
            "alone",
            "beside a busy process",
            "beside a busy reader",
            "beside refresh=0.01",
        ):
            path = folder / f"{number}{how}.memdb"
            memdb.open(path).close()
            writer = Writer(path, count)
            if how == "alone":
                writer.start()
            elif how == "beside a busy process":
                writer.start()
                while writer.is_at_work:
                    for _ in range(10_000):
                        pass
            else:
                _read_beside(path, writer, is_busy=how == "beside a busy reader")
            found.setdefault(how, []).append(writer.seconds() / count)
            os.unlink(path)
    alone = statistics.median(found["alone"])
    for how, values in found.items():
        median = statistics.median(values)
        print(
            f"{how:28} {median * _US:8.3f} us {min(values) * _US:8.3f} us"
            f" {100 * (median / alone - 1):+6.1f}%"
        )


def _read_beside(path: Path, writer: Writer, *, is_busy: bool) -> None:
    settings = {} if is_busy else {"refresh": 0.01}
    with memdb.open(path, "r", **settings) as reader:
        seen = reader.collection(Item)
        writer.start()
        while writer.is_at_work:
            if is_busy:
                reader.refresh()
            for identity in range(max(len(seen) - _READS, 1), len(seen)):
                seen[identity]


def main() -> None:
    """Run all and print tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200_000, help="commits of a round")
    parser.add_argument("--rounds", type=int, default=7, help="of the writer's cost")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="memdb-bench-") as name:
        folder = Path(name)
        print("A refresh by itself, median:")
        by_itself(folder, options.count)
        print("\nBeside a writer: refreshes, their ms (median, 99%, max), and the age in ms of the")
        print("last commit that is there afterwards:")
        beside(folder, options.count // 50, _PACE_PER_S)
        beside(folder, 5 * options.count, 0)
        print("\nAn insert of a writer that never pauses: median, min, and beside `alone`:")
        cost(folder, options.count, options.rounds)


if __name__ == "__main__":
    main()
