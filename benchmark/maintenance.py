"""What compaction and snapshots cost: ``python -m benchmark.maintenance``.

Compaction of a file of which a half is dead, in records that live a second; snapshots beside ``cp``
of the same file, and ``cp`` followed by ``sync``, since a snapshot is safe when it returns. Each
figure is the median of the rounds, in which all take turns.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import memdb
from benchmark.records import Item, make_records


def filled(path: Path, count: int, *, is_bulk: bool, serializer: str = "binary") -> memdb.Database:
    """Return a database with records, half of whose versions are dead."""
    db = memdb.open(path, serializer=serializer)
    items = db.collection(Item)
    records = make_records(Item, count)
    if is_bulk:
        for start in range(0, count, 10_000):
            items.insert_many(records[start : start + 10_000])
    else:
        for record in records:
            items.insert(record)
    for identity in range(1, count + 1):
        items.update(identity, count=identity)
    db.checkpoint()
    return db


def timed(action: Callable[[], object]) -> float:
    """Return how many seconds something takes, once the disk is at rest."""
    os.sync()
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def compaction(folder: Path, count: int, rounds: int) -> None:
    """Measure compactions and print records a second."""
    for name, is_bulk, before in (
        ("one commit a record", False, "binary"),
        ("commits of 10,000", True, "binary"),
        ("converted from json", True, "json"),
    ):
        seconds = []
        for number in range(rounds):
            path = folder / f"{number}.memdb"
            filled(path, count, is_bulk=is_bulk, serializer=before).close()
            with memdb.open(path) as db:
                db.collection(Item)
                seconds.append(timed(db.compact))
            path.unlink()
        rate = count / statistics.median(seconds)
        print(f"compact, {name}: {rate:,.0f} records/s")


def snapshots(folder: Path, count: int, rounds: int) -> None:
    """Measure snapshots beside copies and print bytes a second."""
    path = folder / "source.memdb"
    with filled(path, count, is_bulk=True) as db:
        size = db.snapshot(folder / "first.memdb").bytes
        plain, target = folder / "plain.memdb", folder / "copy.memdb"
        plain.write_bytes((folder / "first.memdb").read_bytes())

        def copy() -> None:
            subprocess.run(["cp", plain, target], check=True)

        def copy_and_sync() -> None:
            copy()
            subprocess.run(["sync", target], check=True)

        ways: dict[str, Callable[[], object]] = {
            "cp": copy,
            "cp and sync": copy_and_sync,
            "snapshot": lambda: db.snapshot(target),
        }
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(rounds):
            for name, way in ways.items():
                seconds[name].append(timed(way))
                target.unlink()
        medians = {name: statistics.median(each) for name, each in seconds.items()}
        for name, median in medians.items():
            share = medians["cp"] / median
            print(f"{name}, {size / 1e6:.0f} MB: {size / median / 1e6:,.0f} MB/s, {share:.2f}x cp")


def main() -> None:
    """Measure everything."""
    parser = argparse.ArgumentParser(prog="python -m benchmark.maintenance", description=__doc__)
    parser.add_argument("--count", type=int, default=500_000, help="records")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--directory", help="where files are written")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="memdb-bench-", dir=options.directory) as directory:
        compaction(Path(directory), options.count, options.rounds)
        snapshots(Path(directory), options.count, options.rounds)


if __name__ == "__main__":
    main()
