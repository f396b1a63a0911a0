"""Writers in several threads that wait for the disk: how far they share its syncs."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from time import perf_counter_ns
from typing import Any

from benchmark.ours import open_store
from benchmark.records import Item, make_records
from benchmark.timing import Contender

THREADS = (1, 2, 4, 8, 16)
# As in ``synced``: each waits for the disk.
_COUNT = 1_200


class ThreadsContender:
    """Some threads that insert under ``"synced"``, each its part of all records."""

    has_gc_rounds = False

    def __init__(self, threads: int, count: int) -> None:
        self.name = contender_name(threads)
        self._threads = threads
        self._records = make_records(Item, count)

    def round(self, workload: str) -> tuple[int, int]:
        """Insert all records into a fresh file; return nanoseconds and how many they were."""
        with tempfile.TemporaryDirectory(prefix="memdb-bench-") as directory:
            store = open_store(Path(directory), Item, "binary", durability="synced")
            try:
                store.insert(self._records[0])  # The first one makes the collection.
                return self._timed(store.insert), len(self._records)
            finally:
                store.close()

    def _timed(self, insert: Callable[[Any], object]) -> int:
        start, end = (threading.Barrier(self._threads + 1) for _ in range(2))

        def work(number: int) -> None:
            own = self._records[number :: self._threads]
            start.wait()
            for record in own:
                insert(record)
            end.wait()

        threads = [threading.Thread(target=work, args=(number,)) for number in range(self._threads)]
        for thread in threads:
            thread.start()
        start.wait()
        begin = perf_counter_ns()
        end.wait()
        elapsed = perf_counter_ns() - begin
        for thread in threads:
            thread.join()
        return elapsed


def contender_name(threads: int) -> str:
    """Return what tables call so many threads."""
    return "1 thread" if threads == 1 else f"{threads} threads"


def thread_contenders(count: int) -> list[Contender]:
    """Return a contender for each number of threads."""
    return [ThreadsContender(threads, min(count, _COUNT)) for threads in THREADS]
