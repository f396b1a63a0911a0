"""Bytes a record of each index structure: ``python -m benchmark.queries.memory [records]``.

What the caller holds is not counted: the keys themselves and the records. The records' numbers
are, being made anew for each structure; and NumPy's buffers, which `tracemalloc` follows.
"""

from __future__ import annotations

import gc
import random
import sys
import tracemalloc
from collections.abc import Callable
from datetime import date, datetime, timedelta

import numpy as np

from memdb.indexes import ColumnEntries, HashEntries, SortedEntries, UniqueEntries

_BUCKET_COUNT = 100


def main() -> int:
    """Print a table of bytes a record."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    print("| structure | bytes a record |\n|---|---|")
    for name, build in _structures(count).items():
        print(f"| {name} | {_size(build) / count:.1f} |", flush=True)
    return 0


def _size(build: Callable[[], object]) -> int:
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    built = build()
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del built
    return after - before


def _structures(count: int) -> dict[str, Callable[[], object]]:
    chosen = random.Random(1)
    dense = np.arange(1, count + 1)
    wide = np.sort(np.array([chosen.randrange(2**62) for _ in range(count)]))
    numbers = dense.tolist()
    ints = [number * 7919 % 10**9 for number in numbers]
    texts = [f"name{key:09}" for key in ints]
    few = [f"name{number % _BUCKET_COUNT}" for number in numbers]
    tags = [[f"t{number % 50}", f"u{number % 7}", f"v{number % 500}"] for number in numbers]
    floats = [chosen.random() for _ in numbers]
    dates = [date.fromordinal(730_000 + number % 9_000) for number in numbers]
    moments = [datetime(2020, 1, 1) + timedelta(seconds=number) for number in numbers]
    mixed = [None if number % 10 == 0 else number for number in numbers]
    pairs = list(zip(few, ints, strict=True))
    bools = [number % 2 == 0 for number in numbers]

    def updated() -> SortedEntries:
        entries = SortedEntries.build(ints, dense.tolist())
        entries.set(1, ints[0])
        return entries

    return {
        f"hash, {_BUCKET_COUNT} keys": lambda: HashEntries.build(few, dense.tolist()),
        f"hash, {_BUCKET_COUNT} keys, natural keys": lambda: HashEntries.build(few, wide.tolist()),
        "hash, a key a record (int)": lambda: HashEntries.build(ints, dense.tolist()),
        "hash, a key a record (text)": lambda: HashEntries.build(texts, dense.tolist()),
        "set, 3 elements a record": lambda: HashEntries.build_many(tags, dense.tolist()),
        "unique (int)": lambda: UniqueEntries.build(ints, dense.tolist()),
        "unique (text)": lambda: UniqueEntries.build(texts, dense.tolist()),
        "sorted, ints": lambda: SortedEntries.build(ints, dense.tolist()),
        "sorted, ints, after an update": updated,
        "sorted, ints, natural keys": lambda: SortedEntries.build(ints, wide.tolist()),
        "sorted, floats": lambda: SortedEntries.build(floats, dense.tolist()),
        "sorted, dates": lambda: SortedEntries.build(dates, dense.tolist()),
        "sorted, datetimes": lambda: SortedEntries.build(moments, dense.tolist()),
        "sorted, texts": lambda: SortedEntries.build(texts, dense.tolist()),
        "sorted, ints and None": lambda: SortedEntries.build(mixed, dense.tolist()),
        "sorted, text and falling int": lambda: SortedEntries.build(pairs, dense.tolist(), (1, -1)),
        "column, ints": lambda: ColumnEntries.build(ints, dense.tolist()),
        "column, dates": lambda: ColumnEntries.build(dates, dense.tolist()),
        "column, bools": lambda: ColumnEntries.build(bools, dense.tolist()),
    }


if __name__ == "__main__":
    sys.exit(main())
