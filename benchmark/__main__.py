"""The benchmark runner: ``python -m benchmark [options] [workload ...]``."""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchmark.report import print_shapes, print_verdicts, print_workload, write_results
from benchmark.targets import Verdict, judge
from benchmark.timing import Series, run_rounds
from benchmark.workloads import WHOLE, contenders, workload_names

_RESULTS = Path(__file__).parent / "results" / "local"

# In a plain run; those of one form are for looking at that form alone.
_OF_ONE_FORM = ("insert_struct_msgpack", "insert_dataclass_binary")
# Sizes of --smoke, where they are not tiny: in the full tables of the shapes the results have
# their documented sizes; of the many tables of the joins a part is enough to find something.
_SMOKE_COUNTS = {
    "query_items": 100_000,
    "query_items_copied": 100_000,
    "query_records": 100_000,
    "query_records_copied": 100_000,
    "query_joins": 20_000,
    "query_joins_missing": 20_000,
    "query_joins_copied": 20_000,
    "query_foreign": 20_000,
    "query_rooms": 20_000,
}
_DEFAULT = [name for name in workload_names() if name not in _OF_ONE_FORM]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the workloads, print tables and verdicts, write the raw results."""
    options = _parse(arguments)
    if options.directory:
        tempfile.tempdir = str(options.directory)
    if options.profile:
        return _profile(options.profile, options.count or 100_000)
    found: dict[str, list[Series]] = {}
    verdicts: list[Verdict] = []
    for name in options.workload or _DEFAULT:
        count, rounds = _size(name, options)
        print(f"{name}: {rounds} rounds of {count:,} ...", file=sys.stderr, flush=True)
        found[name] = _in_child(name, count, rounds)
        verdicts += judge(name, found[name])
        if all(each.result_size is not None for each in found[name]):
            print_shapes(name, found[name])
        else:
            print_workload(name, found[name])
    if not options.smoke:  # Its figures say nothing.
        print_verdicts(verdicts)
        used = {"count": options.count, "rounds": options.rounds}
        path = write_results(options.results, used, found, verdicts)
        print(f"\nraw results: {path.name} in {path.parent.name}/")
    return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmark", description=__doc__)
    names = workload_names()
    parser.add_argument("workload", nargs="*", help=f"one or more of {', '.join(names)}")
    parser.add_argument("--count", type=int, help="records (100,000 or 1,000,000)")
    parser.add_argument("--rounds", type=int, default=7, help="rounds after the warm-up (7)")
    parser.add_argument("--smoke", action="store_true", help="tiny: only that everything runs")
    parser.add_argument("--directory", type=Path, help="where the files go (temporary files)")
    parser.add_argument("--results", type=Path, default=_RESULTS, help="folder of raw results")
    parser.add_argument("--profile", metavar="WORKLOAD", help="profile ours with pyinstrument")
    options = parser.parse_args(arguments)
    for name in [*options.workload, *([options.profile] if options.profile else [])]:
        if name not in names:
            parser.error(f"no workload {name!r}; there are {', '.join(names)}")
    if options.profile in WHOLE:
        parser.error(f"{options.profile!r} times itself, so there is nothing to profile around")
    return options


def _size(name: str, options: argparse.Namespace) -> tuple[int, int]:
    if options.smoke:
        return _SMOKE_COUNTS.get(name, 400), 1
    is_large = name.startswith(("open_", "memory", "query_catch_up", "query_column"))
    return options.count or (1_000_000 if is_large else 100_000), options.rounds


def _in_child(name: str, count: int, rounds: int) -> list[Series]:
    """Run a workload in a process of its own, so that none inherits another's heap."""
    command = [sys.executable, "-m", "benchmark.workloads", name, str(count), str(rounds)]
    environment = os.environ | {"TMPDIR": tempfile.gettempdir()}
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True, env=environment
    )
    return msgspec.json.decode(done.stdout, type=list[Series])


def _profile(name: str, count: int) -> int:
    if importlib.util.find_spec("pyinstrument") is None:
        print("pyinstrument is not installed: pip install pyinstrument", file=sys.stderr)
        return 1
    from pyinstrument import Profiler

    ours = [each for each in contenders(name, count) if each.name.startswith("memdb")]
    for each in ours:
        profiler = Profiler(interval=0.0005)
        run_rounds(name, [each], 1)
        with profiler:
            run_rounds(name, [each], 3, warm_up=False)
        print(f"\n{each.name}: {name}\n{profiler.output_text(show_all=True, timeline=False)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
