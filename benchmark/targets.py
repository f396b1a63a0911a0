"""The targets that the figures are held against, each a ratio or a limit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from benchmark.ours import ENCRYPTED, FORMS
from benchmark.readers import BUSY, FAST, LAST, PACED, READ, SPINNING, USED
from benchmark.timing import Series

_US = 1_000
_MS = 1_000_000

# The workloads of joins, which have targets of their own.
_JOINS = ("query_joins", "query_foreign", "query_top_joined", "query_rooms", "query_heavy")

# Of the rate of sqlite3, where more is asked than three times.
_TIMES_SQLITE = dict.fromkeys(
    ("ListWhere", "ListList", "ListListReversed", "ListListList", "ListRange", "Or"), 10.0
)


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
    if workload.startswith(_JOINS):
        yield from _joins(workload, {each.contender: min(each.values) for each in found})
    elif workload.startswith("query_"):
        yield from _queries(workload, found)
        yield from _upkeep(workload, {each.contender: min(each.values) for each in found})
    if workload == "synced_threads":
        rate = median["1 thread"] / median["8 threads"]
        target = "8 threads: at least 3x the rate of one"
        yield Verdict(workload, target, f"{rate:.2f}x", rate >= 3)
    if workload in ("encrypted_insert", "open_encrypted"):
        yield from _encrypted(workload, median)
    if workload in ("refresh", "beside_reader"):
        yield from _following(workload, median, {s.contender: min(s.values) for s in found})
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


def _encrypted(workload: str, median: dict[str, float]) -> Iterator[Verdict]:
    for form, value in median.items():
        encrypted = median.get(
            form + ENCRYPTED if workload == "encrypted_insert" else f"encrypted-{form}"
        )
        if encrypted is None:
            continue
        rate = value / encrypted
        # Opening reads no record: as fast as plain, but for the noise of so short a time.
        times = 0.6 if workload == "encrypted_insert" else 0.9
        target = f"{form}: encrypted at least {times:g}x the rate of plain"
        yield Verdict(workload, target, f"{rate:.2f}x", rate >= times)


def _following(
    workload: str, median: dict[str, float], least: dict[str, float]
) -> Iterator[Verdict]:
    if workload == "beside_reader":
        # The least of each, as for queries: the noise of other processes only ever adds. Beside
        # one that has nothing to do with the file, which shares the processor all the same.
        rate = least[BUSY + USED] / least[SPINNING + USED]
        target = "a busy reader costs the writer under 5% of its processor time"
        yield Verdict(workload, target, f"{100 * (rate - 1):+.1f}%", rate < 1.05)
        return
    for name in (READ, PACED + LAST, FAST):
        target, value = f"{name}: seen within 10 ms of refresh()", median[name]
        yield Verdict(workload, target, f"{value / _MS:.3f} ms", value < 10 * _MS)


def _footprint(median: dict[str, float]) -> Iterator[Verdict]:
    wanted = [
        'inserted, cache="none": resident',
        'reopened, cache="none": resident, untouched',
        'reopened, cache="none": resident, all read',
    ]
    for name in wanted:
        value = median[name]
        yield Verdict("memory", f"{name}: at most 193 bytes", f"{value:.0f} bytes", value <= 193)


def _queries(workload: str, found: list[Series]) -> Iterator[Verdict]:
    """Hold each shape against the loop and sqlite3, by the least of all rounds.

    The machine's noise only ever adds; the contenders of a shape take turns, so the least of
    each is of the same quiet moments.
    """
    least = {each.contender: min(each.values) for each in found}
    is_copying = workload.endswith("_copied")
    for name, loop in least.items():
        shape, _, who = name.rpartition(": ")
        if who != "loop" or f"{shape}: memdb prepared" not in least:
            continue
        prepared = least[f"{shape}: memdb prepared"]
        times = 2.0 if loop < _US else 1.25
        target, rate = f"{shape}: prepared within {times:g}x of the loop", prepared / loop
        yield Verdict(workload, target, f"{rate:.2f}x", rate <= times)
        planning = least[f"{shape}: memdb ad hoc"] - 2 * loop
        target, what = f"{shape}: ad hoc within 2x and 5 us", f"2x {planning / _US:+.1f} us"
        yield Verdict(workload, target, what, planning <= 5 * _US)
        if not is_copying:  # Rows of sqlite3 are no copies of records.
            times, rate = _TIMES_SQLITE.get(shape, 3.0), least[f"{shape}: sqlite3"] / prepared
            target = f"{shape}: at least {times:g}x the rate of sqlite3"
            yield Verdict(workload, target, f"{rate:.2f}x", rate >= times)
        if f"{shape}: memdb reversed" in least:
            rate = least[f"{shape}: memdb reversed"] / prepared
            target = f"{shape}: conditions reversed within 10%"
            yield Verdict(workload, target, f"{rate:.2f}x", 1 / 1.1 <= rate <= 1.1)


def _joins(workload: str, least: dict[str, float]) -> Iterator[Verdict]:
    """Hold each shape with joins against the loop and sqlite3, and each count against its rows."""
    for name, prepared in least.items():
        shape, _, who = name.rpartition(": ")
        if who != "memdb prepared":
            continue
        listed = f"{shape.removeprefix('Count_')}: memdb prepared"
        if shape.startswith("Count_"):
            rate = least[listed] / prepared
            target = f"{shape}: at least 2x the rate of its rows"
            yield Verdict(workload, target, f"{rate:.2f}x", rate >= 2)
        else:
            rate = prepared / least[f"{shape}: loop"]
            target = f"{shape}: prepared within 1.3x of the loop"
            yield Verdict(workload, target, f"{rate:.2f}x", rate <= 1.3)
        if not workload.endswith("_copied"):  # Rows of sqlite3 are no copies of records.
            rate = least[f"{shape}: sqlite3"] / prepared
            target = f"{shape}: at least 3x the rate of sqlite3"
            yield Verdict(workload, target, f"{rate:.2f}x", rate >= 3)


def _upkeep(workload: str, least: dict[str, float]) -> Iterator[Verdict]:
    if workload == "query_insert":
        rate = least["memdb, four indexes"] / least["memdb, no index"]
        target = "insert with four plain indexes within 1.3x of none"
        yield Verdict(workload, target, f"{rate:.2f}x", rate <= 1.3)
    if workload == "query_catch_up":
        for name in ("memdb, just inserted", "memdb, all read before"):
            target, value = f"{name}: under 500 ms", least[name]
            yield Verdict(workload, target, f"{value / _MS:.0f} ms", value < 500 * _MS)
    other, times = {"query_mixed": ("sqlite3", 5.0), "query_column": ("loop", 20.0)}.get(
        workload, ("", 0.0)
    )
    for name in least:
        what, _, who = name.rpartition(": ")
        if who == "memdb" and f"{what}: {other}" in least:
            rate = least[f"{what}: {other}"] / least[name]
            target = f"{what}: at least {times:g}x the rate of {other}"
            yield Verdict(workload, target, f"{rate:.2f}x", rate >= times)
