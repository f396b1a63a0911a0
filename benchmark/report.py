"""Tables for people, and the results file for machines."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from benchmark.machine import machine_facts
from benchmark.targets import Verdict
from benchmark.timing import Series

_AD_HOC = "memdb ad hoc"
_HEADINGS = ("contender", "median", "min", "max", "gc off", "a second", "x ours")


def print_workload(workload: str, found: list[Series]) -> None:
    """Print the rows of one workload; ``x ours`` compares with the first row."""
    first = found[0].median
    rows = []
    for each in found:
        off = sorted(each.values_gc_off)
        rows.append(
            (
                each.contender,
                _figure(each.median, each.unit),
                _figure(min(each.values), each.unit),
                _figure(max(each.values), each.unit),
                _figure(off[len(off) // 2], each.unit) if off else "",
                f"{1e9 / each.median:,.0f}" if each.unit == "ns" else "",
                f"{each.median / first:.2f}" if first else "",
            )
        )
    unit = "time an operation" if found[0].unit == "ns" else "bytes a record"
    print_table(f"{workload} ({unit}, {found[0].operations:,} a round)", _HEADINGS, rows)


def print_shapes(workload: str, found: list[Series]) -> None:
    """Print a line for each query shape: the loop, and each contender beside it.

    Times are the least of all rounds; the medians are in the results file.
    """
    by_shape: dict[str, dict[str, Series]] = {}
    for each in found:
        shape, _, who = each.contender.rpartition(": ")
        by_shape.setdefault(shape, {})[who] = each
    others = list(dict.fromkeys(who for series in by_shape.values() for who in series))[1:]
    rows = []
    for shape, series in by_shape.items():
        loop = series["loop"]
        row = [shape, f"{loop.result_size:,}", _micro(min(loop.values))]
        for who in others:
            if who not in series:
                row += ["", "", ""] if who == _AD_HOC else ["", ""]
                continue
            least = min(series[who].values)
            row += [_micro(least), f"{least / min(loop.values):.2f}x"]
            if who == _AD_HOC:
                row.append(f"{(least - min(loop.values)) / 1e3:+.1f}")
        rows.append(row)
    headings = ["shape", "result", "loop"]
    for who in others:
        headings += [who, "x loop", "- loop"] if who == _AD_HOC else [who, "x loop"]
    print_table(f"{workload} (us a query, the best of all rounds)", headings, rows)


def print_verdicts(verdicts: Sequence[Verdict]) -> None:
    """Print every target beside what was found."""
    rows = [
        (each.workload, each.target, each.found, "met" if each.is_met else "MISSED")
        for each in verdicts
    ]
    print_table("targets", ("workload", "target", "found", ""), rows, left=2)


def print_table(
    title: str, headings: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1
) -> None:
    """Print a table that reads the same in a terminal and in a file; ``left`` columns of text."""
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    print(f"\n{title}")
    for row in (headings, ["-" * width for width in widths], *rows):
        cells = [
            cell.ljust(width) if number < left else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        print("  ".join(cells).rstrip(), flush=True)


def write_results(
    folder: Path, options: dict[str, Any], found: dict[str, list[Series]], verdicts: list[Verdict]
) -> Path:
    """Write everything that was measured, with the machine and the versions."""
    now = datetime.now(UTC)
    content = {
        "when": now.isoformat(timespec="seconds"),
        "machine": machine_facts(),
        "options": options,
        "workloads": {name: [each.to_dict() for each in series] for name, series in found.items()},
        "targets": [
            {"workload": e.workload, "target": e.target, "found": e.found, "is_met": e.is_met}
            for e in verdicts
        ],
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{now:%Y%m%d-%H%M%S}.json"
    path.write_bytes(orjson.dumps(content, option=orjson.OPT_INDENT_2) + b"\n")
    return path


def _micro(value_ns: float) -> str:
    return f"{value_ns / 1e3:,.2f}"


def _figure(value: float, unit: str) -> str:
    if unit == "bytes":
        return f"{value:,.1f}"
    for name, size, least in (("s", 1e9, 1e10), ("ms", 1e6, 1e6), ("us", 1e3, 1e4)):
        if value >= least:
            return f"{value / size:,.1f} {name}"
    return f"{value:,.0f} ns"
