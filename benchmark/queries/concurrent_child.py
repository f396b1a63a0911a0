"""What runs inside the fresh processes of ``benchmark.queries.concurrent``; prints one JSON object.

Readers in threads share the writers' process; readers in processes open the file with ``"r"``. As
long as a reader can't follow the writer, such a process sees the state at its opening, so it opens
the file again after each second of reading.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
import tracemalloc
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path

import orjson

from benchmark.queries import floor_foreign, heavy
from benchmark.queries.heavy_work import (
    Check,
    Products,
    Putting,
    Reads,
    Stamping,
    check_rows,
    read,
)

Answer = dict[str, float]

# Opening and reading all records again takes a tenth of it.
_REOPEN_S = 1.0
_PIVOT = 251


def threads(readers: str, writers: str, window_s: str, how: str) -> Answer:
    """Let readers and writers run in threads of this process."""
    with tempfile.TemporaryDirectory(prefix="memdb-bench-") as directory:
        products = _filled(Path(directory) / "products.memdb")
        with products.db:
            ask, check = products.ask(), _check(how)
            check_rows(ask(1), heavy.PRODUCT_COUNT)  # The first query builds the indexes.
            is_over = threading.Event()

            def run(number: int) -> Reads:
                return read(ask, heavy.PRODUCT_COUNT, number, is_over.is_set, check)

            with ThreadPoolExecutor(int(readers) + int(writers)) as pool:
                writing = _start_writers(pool, products, int(writers), how, is_over)
                begin = time.perf_counter()
                reading = [pool.submit(run, number) for number in range(int(readers))]
                time.sleep(float(window_s))
                is_over.set()
                seen = [each.result() for each in reading]
                seconds = time.perf_counter() - begin
                written = sum(each.result() for each in writing)
    return _answer(seen, seconds) | {"written": written}


def processes(readers: str, writers: str, window_s: str, how: str) -> Answer:
    """Let writers run in threads of this process, and readers in processes of their own."""
    with tempfile.TemporaryDirectory(prefix="memdb-bench-") as directory:
        path = Path(directory) / "products.memdb"
        products = _filled(path)
        with products.db:
            numbers = range(int(readers))
            children = [_Reader(path, number, window_s, how) for number in numbers]
            for child in children:
                child.expect_ready()
            is_over = threading.Event()
            with ThreadPoolExecutor(int(writers)) as pool:
                writing = _start_writers(pool, products, int(writers), how, is_over)
                for child in children:
                    child.go()
                answers = [child.answer() for child in children]
                is_over.set()
                written = sum(each.result() for each in writing)
    return {
        "queries": sum(each["queries"] for each in answers),
        "rows": sum(each["rows"] for each in answers),
        "seconds": max(each["seconds"] for each in answers),
        "peak_bytes": max(each["peak_bytes"] for each in answers),
        "openings": sum(each["openings"] for each in answers),
        "written": written,
    }


def read_file(path: str, number: str, window_s: str, how: str) -> Answer:
    """Read beside a writer of another process, opening the file again and again."""
    check, seen, openings = _check(how), [], 0
    _read_once(Path(path), int(number), 0.0, check)  # So that everything is imported.
    print("ready", flush=True)
    sys.stdin.readline()
    begin = time.perf_counter()
    while (left_s := begin + float(window_s) - time.perf_counter()) > 0:
        number_now = int(number) + 1000 * openings
        seen.append(_read_once(Path(path), number_now, min(left_s, _REOPEN_S), check))
        openings += 1
    return _answer(seen, time.perf_counter() - begin) | {"openings": openings}


def allocation() -> Answer:
    """Measure what one query of 250 rows allocates at most, and what the loop does."""
    products = Products.open(None)
    products.fill(heavy.PRODUCT_COUNT)
    ask = products.ask()
    loop = floor_foreign.LOOPS["HeavyJoin"]
    floor_foreign.load_heavy({name: table.where().all() for name, table in products.tables.items()})
    return {"memdb": _peak_of(lambda: ask(_PIVOT)), "loop": _peak_of(lambda: loop(_PIVOT))}


class _Reader:
    """A process that reads the file; all of them begin together."""

    def __init__(self, path: Path, number: int, window_s: str, how: str) -> None:
        arguments = ["read", str(path), str(number), window_s, how]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmark.queries.concurrent_child", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._to, self._from = self._process.stdin, self._process.stdout

    def expect_ready(self) -> None:
        """Wait until it has imported and read everything once."""
        if self._from.readline() != "ready\n":
            raise RuntimeError("a reading process did not start")

    def go(self) -> None:
        """Let it begin."""
        self._to.write("go\n")
        self._to.flush()

    def answer(self) -> Answer:
        """Wait for its end and return what it has seen."""
        answer: Answer = orjson.loads(self._from.read())
        self._to.close()
        self._from.close()
        if self._process.wait():
            raise RuntimeError("a reading process failed")
        return answer


def _filled(path: Path) -> Products:
    products = Products.open(path)
    products.fill(heavy.PRODUCT_COUNT)
    return products


def _check(how: str) -> Check | None:
    return partial(check_rows, count=heavy.PRODUCT_COUNT) if how == "checked" else None


def _start_writers(
    pool: ThreadPoolExecutor, products: Products, writers: int, how: str, is_over: threading.Event
) -> list[Future[int]]:
    writer = (Stamping if how == "checked" else Putting)(products)
    return [pool.submit(writer.write, number, is_over.is_set) for number in range(writers)]


def _read_once(path: Path, number: int, window_s: float, check: Check | None) -> Reads:
    """Open the file, ask once for everything, then for some time."""
    products = Products.open(path, "r")
    with products.db:
        ask = products.ask()
        first = len(ask(1))
        end = time.perf_counter() + window_s
        seen = read(ask, heavy.PRODUCT_COUNT, number, lambda: time.perf_counter() > end, check)
    return Reads(seen.queries + 1, seen.rows + first)


def _answer(seen: list[Reads], seconds: float) -> Answer:
    return {
        "queries": sum(reads.queries for reads in seen),
        "rows": sum(reads.rows for reads in seen),
        "seconds": seconds,
        "peak_bytes": _peak_resident(),
    }


def _peak_resident() -> int:
    """Return the most memory that this process has had; what it inherited does not count."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("the system tells no peak")


def _peak_of(ask: Callable[[], object]) -> int:
    ask()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    ask()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak - before


_COMMANDS: dict[str, Callable[..., Answer]] = {
    "threads": threads,
    "processes": processes,
    "read": read_file,
    "allocation": allocation,
}

if __name__ == "__main__":
    found = _COMMANDS[sys.argv[1]](*sys.argv[2:])
    sys.stdout.buffer.write(orjson.dumps(found))
