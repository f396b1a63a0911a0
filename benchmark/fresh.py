"""Workloads whose every figure needs a fresh process: opening, and memory.

The children run ``python -m benchmark.fresh_child``; here they are started and collected.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import orjson

from benchmark.timing import Series

# The default of the setting ``checkpoint_interval``; a kill just before the next checkpoint
# leaves the longest tail to walk.
_CHECKPOINT_INTERVAL = 65_536

OPEN_FORMS = ("binary", "msgpack", "json", "struct-msgpack", "sqlite3", "lmdb")
# By natural key; no payload is read but that of the record looked up, so that two are enough.
KEY_FORMS = ("key-binary", "key-struct-msgpack", "key-sqlite3", "key-lmdb")


ENCRYPTED_FORMS = ("binary", "encrypted-binary")


def open_clean(count: int, rounds: int) -> list[Series]:
    """Time opening to the first get after a clean close, at ``count`` and a quarter of it."""
    return _open(count, rounds, killed=False)


def open_killed(count: int, rounds: int) -> list[Series]:
    """Time opening to the first get after SIGKILL, with the longest tail behind a checkpoint."""
    tail = _CHECKPOINT_INTERVAL - 500 if count >= _CHECKPOINT_INTERVAL else count
    return _open(count // _CHECKPOINT_INTERVAL * _CHECKPOINT_INTERVAL + tail, rounds, killed=True)


def open_keys(count: int, rounds: int) -> list[Series]:
    """As `open_clean`, with natural keys: from opening to the first record by its key."""
    return _open(count, rounds, killed=False, all_forms=KEY_FORMS)


def open_encrypted(count: int, rounds: int) -> list[Series]:
    """As `open_clean`, of an encrypted file beside a plain one; the cipher is imported before."""
    return _open(count, rounds, killed=False, all_forms=ENCRYPTED_FORMS)


def memory(count: int, rounds: int) -> list[Series]:
    """Measure the growth of a process by ``count`` records, in bytes a record."""
    found: dict[str, Series] = {}
    for _ in range(min(rounds, 3)):
        with tempfile.TemporaryDirectory(prefix="memdb-bench-") as directory:
            path = Path(directory) / "items.memdb"
            runs = {
                'inserted, cache="none"': ("memory-insert", str(path), "none", str(count)),
                'reopened, cache="none"': ("memory-reopen", str(path), "none", str(count)),
                'reopened, cache="all"': ("memory-reopen", str(path), "all", str(count)),
                'inserted, cache="all"': ("memory-insert", str(path) + "2", "all", str(count)),
                "dict of records": ("memory-dict", str(count)),
            }
            for name, arguments in runs.items():
                for what, value in _child(*arguments).items():
                    series = found.setdefault(
                        f"{name}: {what}", Series(f"{name}: {what}", "bytes", count)
                    )
                    series.values.append(value)
    return list(found.values())


WORKLOADS: dict[str, Callable[[int, int], list[Series]]] = {
    "open_clean": open_clean,
    "open_killed": open_killed,
    "open_keys": open_keys,
    "open_encrypted": open_encrypted,
    "memory": memory,
}


def _open(
    count: int, rounds: int, *, killed: bool, all_forms: Sequence[str] = OPEN_FORMS
) -> list[Series]:
    counts = (count,) if killed else (max(count // 4, 1), count)
    forms = [form for form in all_forms if not form.endswith("lmdb") or find_spec("lmdb")]
    found: dict[tuple[str, int], Series] = {}
    with tempfile.TemporaryDirectory(prefix="memdb-bench-") as directory:
        for form in forms:
            for each in counts:
                how = "killed" if killed else "closed"
                _child("build", str(Path(directory) / f"{form}-{each}"), form, str(each), how)
                found[form, each] = Series(f"{form.removeprefix('key-')}, {each:,}")
        for number in range(-1, rounds):
            for (form, each), series in found.items():
                folder = Path(directory) / f"{form}-{each}"
                elapsed = (
                    _open_copy(folder, form, each, number)
                    if killed
                    else (_child("open", str(folder), form, str(each // 2 + 1))["ns"])
                )
                if number >= 0:
                    series.values.append(elapsed)
    return list(found.values())


def _open_copy(folder: Path, form: str, count: int, number: int) -> float:
    """Open a copy, since opening mends what the kill left."""
    copy = folder.with_name(f"{folder.name}-copy{number}")
    # Not by shutil, which would write out the 4 GiB that LMDB's file has room for.
    subprocess.run(["cp", "-r", folder, copy], check=True)
    try:
        elapsed: float = _child("open", str(copy), form, str(count // 2 + 1))["ns"]
        return elapsed
    finally:
        shutil.rmtree(copy)


def _child(*arguments: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmark.fresh_child", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        check=False,
    )
    if not done.stdout:
        raise RuntimeError(f"benchmark child {arguments[0]} ended with {done.returncode}")
    answer: dict[str, Any] = orjson.loads(done.stdout)
    return answer
