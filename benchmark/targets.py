"""The targets that the figures are held against, each a ratio or a limit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from benchmark.ours import FORMS
from benchmark.timing import Series

_MS = 1_000_000


@dataclass(frozen=True)
class Verdict:
    """One target, what was found, and whether it is met."""

    workload: str
    target: str
    found: str
    is_met: bool


def judge(workload: str, found: list[Series]) -> Iterator[Verdict]:
    """Yield a verdict for each target whose contenders took part."""
    median = {each.contender: each.median for each in found}
    for form in FORMS:
        if form in median:
            yield from _against_peers(workload, form, median)
    if workload == "open_clean":
        yield from _opening(median)
    if workload == "memory":
        yield from _footprint(median)


def _against_peers(workload: str, form: str, median: dict[str, float]) -> Iterator[Verdict]:
    floor = "dict, generated copy" if "dataclass" in form else "dict, Struct copy"
    wanted = {
        "insert": [("sqlite3", 8.0), ("lmdb", 1.0)],
        "get": [("sqlite3, row only", 20.0), ("lmdb", 5.0), (floor, 1 / 2.5)],
        "insert_many": [(form + ", insert one by one", 2.0)],
        "synced": [("pwrite + fdatasync", 0.9)],
    }
    for peer, times in wanted.get(workload.removesuffix("_hot"), []):
        if peer in median:
            rate = median[peer] / median[form]
            target = f"{form}: at least {times:g}x the rate of {peer}"
            if times < 0.5:
                target = f"{form}: within {1 / times:g}x of {peer}"
            yield Verdict(workload, target, f"{rate:.2f}x", rate >= times)


def _opening(median: dict[str, float]) -> Iterator[Verdict]:
    by_form: dict[str, list[tuple[int, float]]] = {}
    for name, value in median.items():
        form, _, count = name.partition(", ")
        if form not in ("sqlite3", "lmdb"):
            by_form.setdefault(form, []).append((int(count.replace(",", "")), value))
    for form, pairs in by_form.items():
        (few, few_ns), (many, many_ns) = sorted(pairs)
        target = f"{form}: {many:,} records under 40 ms"
        yield Verdict("open_clean", target, f"{many_ns / _MS:.1f} ms", many_ns < 40 * _MS)
        times, limit = many_ns / few_ns, many / few
        target = f"{form}: grows no faster than the map ({limit:g}x)"
        yield Verdict("open_clean", target, f"{times:.2f}x", times <= limit)


def _footprint(median: dict[str, float]) -> Iterator[Verdict]:
    wanted = [
        'inserted, cache="none": resident',
        'reopened, cache="none": resident, untouched',
        'reopened, cache="none": resident, all read',
    ]
    for name in wanted:
        value = median[name]
        yield Verdict("memory", f"{name}: at most 193 bytes", f"{value:.0f} bytes", value <= 193)
