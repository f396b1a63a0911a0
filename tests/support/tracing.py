"""What generated queries do while they run: which lines, and with which values."""

from __future__ import annotations

import re
import sys
from typing import Any

import numpy as np

from memdb.indexes import Bucket


class Run:
    """What a generated function took.

    Attributes:
        lines: Numbers of the lines that it ran.
        values: Its local values when it returned.
    """

    def __init__(self) -> None:
        self.lines: list[int] = []
        self.values: dict[str, Any] = {}


class traced:
    """Note what the generated functions that run inside of a ``with`` do, but for escapes."""

    def __enter__(self) -> list[Run]:
        self.runs: list[Run] = []
        self.before = sys.gettrace()
        sys.settrace(self._enter)
        return self.runs

    def __exit__(self, *error: object) -> None:
        sys.settrace(self.before)

    def _enter(self, frame: Any, event: str, argument: Any) -> Any:
        code = frame.f_code
        is_query = code.co_filename.startswith("<memdb query")
        if not is_query or code.co_name not in ("run", "prepared"):
            return None
        run = Run()

        def note(frame: Any, event: str, argument: Any) -> Any:
            if event == "line":
                run.lines.append(frame.f_lineno)
            elif event == "return" and argument is not None:
                run.values = dict(frame.f_locals)
                self.runs.append(run)
            return note

        return note


def taken(run: Run, source: str, names: list[str]) -> tuple[set[str], int | None]:
    """Return the indexes whose candidates a function took, and how many those were.

    Args:
        run: Of the function.
        source: Its source.
        names: Of the indexes; none begins with another one and an underscore.

    Returns:
        No names and no number where it looked at all records or at none.
    """
    lines = source.split("\n")
    # The first line of what was compiled is the function around it.
    ran = [lines[number - 2].strip() for number in run.lines]
    used = [line for line in ran if re.match(r"(found = |r = cache|if s\d+ is None)", line)]
    numbers = set(re.findall(r"\bs(\d+)\b", " ".join(used)))
    indexes: set[str] = set()
    for line in ran:
        for number in numbers:
            if line.startswith(f"s{number} = "):
                called = re.findall(r"\b(?:get|span|column)_(\w+)", line)
                indexes |= {n for n in names for each in called if f"{each}_".startswith(f"{n}_")}
    if not numbers:
        return indexes, None
    return indexes, sum(_size(run.values[f"s{number}"]) for number in numbers)


def _size(found: Any) -> int:
    """Return how many records one look-up found."""
    if found is None or type(found) is int:
        return int(found is not None)
    if isinstance(found, Bucket):
        return len(found.numbers)
    if isinstance(found, np.ndarray):
        return len(found)
    return sum(map(_size, found)) if isinstance(found, list) else int(found.count)
