"""Readers beside two writers: ``python -m benchmark.queries.concurrent [seconds [rounds]]``.

The query is a join of 250 products in the mean, each with its info and its twenty offers. Every
window of time runs in a process of its own.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import orjson

from benchmark.report import print_table
from benchmark.timing import Series

_WINDOW_S = 3.0
_SHORT_WINDOW_S = 0.2
_FEW_ROUNDS = 3
_FULL_COUNT = 100_000
_MIB = 2**20


@dataclass(frozen=True)
class Scene:
    """Who reads, who writes, and whether every row is looked at.

    Attributes:
        where: ``"threads"`` or ``"processes"``, those of the readers; writers are threads.
        readers: How many.
        writers: How many.
        is_checked: Each row is compared with what the writers leave: these change two products
            at once, in transactions, instead of putting single records.
    """

    where: str
    readers: int
    writers: int = 2
    is_checked: bool = False

    @property
    def name(self) -> str:
        """What tables call it."""
        readers = "1 reader" if self.readers == 1 else f"{self.readers} readers"
        return (
            f"{self.where}, {readers}"
            + ("" if self.writers else ", no writer")
            + (", each row checked" if self.is_checked else "")
        )


SCENES = [
    Scene("threads", 1, writers=0),
    Scene("threads", 1),
    Scene("threads", 2),
    Scene("threads", 4),
    Scene("processes", 1),
    Scene("processes", 2),
    Scene("processes", 4),
    Scene("threads", 4, is_checked=True),
    Scene("processes", 4, is_checked=True),
]
_FEW_SCENES = [Scene("threads", 2, is_checked=True), Scene("processes", 1)]

Answer = dict[str, float]


def measure(scenes: Sequence[Scene], window_s: float, rounds: int) -> dict[Scene, list[Answer]]:
    """Return what each window of each scene has seen; the scenes take turns."""
    found: dict[Scene, list[Answer]] = {scene: [] for scene in scenes}
    for _ in range(rounds):
        for scene, answers in found.items():
            how = "checked" if scene.is_checked else "plain"
            readers, writers = str(scene.readers), str(scene.writers)
            answers.append(_child(scene.where, readers, writers, str(window_s), how))
    return found


def allocation() -> Answer:
    """Return the most bytes that a query of 250 rows allocates, and the hand-written loop."""
    return _child("allocation")


def query_concurrent(count: int, rounds: int) -> list[Series]:
    """Readers beside writers: the time of a row; with a small count short windows of few scenes."""
    is_full = count >= _FULL_COUNT
    window_s, scenes = (_WINDOW_S, SCENES) if is_full else (_SHORT_WINDOW_S, _FEW_SCENES)
    found = []
    for scene, answers in measure(scenes, window_s, min(rounds, _FEW_ROUNDS)).items():
        series = Series(scene.name, operations=round(answers[-1]["rows"]))
        series.values = [each["seconds"] * 1e9 / each["rows"] for each in answers]
        found.append(series)
    return found


WORKLOADS: dict[str, Callable[[int, int], list[Series]]] = {"query_concurrent": query_concurrent}


def main() -> int:
    """Print what each scene reads and writes a second, and how much memory it takes."""
    window_s = float(sys.argv[1]) if len(sys.argv) > 1 else _WINDOW_S
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else _FEW_ROUNDS
    found = measure(SCENES, window_s, rounds)
    rows = [_row(scene, answers) for scene, answers in found.items()]
    headings = ("readers", "rows/s", "queries/s", "written/s", "openings/s", "peak MiB")
    print_table(f"readers beside writers (medians of {rounds} x {window_s:g} s)", headings, rows)
    for name, size in allocation().items():
        print(f"allocated by a query of 250 rows, {name}: {size / 1024:.0f} KiB at most")
    return 0


def _row(scene: Scene, answers: list[Answer]) -> tuple[str, ...]:
    rates = [
        statistics.median(each.get(what, 0) / each["seconds"] for each in answers)
        for what in ("rows", "queries", "written", "openings")
    ]
    peak = max(each["peak_bytes"] for each in answers)
    return scene.name, *(f"{rate:,.0f}" for rate in rates), f"{peak / _MIB:,.0f}"


def _child(*arguments: str) -> Answer:
    done = subprocess.run(
        [sys.executable, "-m", "benchmark.queries.concurrent_child", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        check=True,
    )
    answer: Answer = orjson.loads(done.stdout)
    return answer


if __name__ == "__main__":
    sys.exit(main())
