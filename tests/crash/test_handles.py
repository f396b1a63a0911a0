"""Thousands of openings, also failing ones, leave no file, mapping, thread or object behind."""

from __future__ import annotations

import errno
import gc
import os
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import memdb
from memdb import SortedIndex
from memdb._engine import Engine
from tests.crash.children import Account
from tests.crash.test_readers import memdb_maps, open_files
from tests.support.faulty import FaultyFile, open_on

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts files in /proc")

OPENINGS = 2_000
# Closing waits for the disk.
FEWER = [100, pytest.param(OPENINGS, marks=[pytest.mark.slow, pytest.mark.timeout(1200)])]


def held() -> tuple[int, int, int]:
    """Return how many files, threads and engines this process has."""
    gc.collect()
    engines = sum(isinstance(each, Engine) for each in gc.get_objects())
    return open_files(), threading.active_count(), engines


@pytest.mark.parametrize("count", FEWER)
def test_openings_leave_nothing_behind(tmp_path: Path, count: int) -> None:
    """Openings in all modes that read, write, or do nothing, closed or dropped, leave nothing."""
    path = tmp_path / "a.memdb"
    memdb.open(path).close()
    before = held()
    chance = random.Random(1)
    written = 0
    for number in range(count):
        mode = chance.choice(("rw", "append", "r", "memory"))
        settings: dict[str, Any] = {"cache": chance.choice(("all", "none", 5))}
        if mode in ("rw", "append"):
            settings["durability"] = chance.choice(("buffered", "written"))
            settings["flush_interval"] = chance.choice((0.001, 60.0))
        is_file = mode != "memory"
        db = memdb.open(path if is_file else None, mode if is_file else "rw", **settings)  # type: ignore[arg-type]
        own = db.collection(Account, indexes=[SortedIndex("cents")])
        if mode in ("rw", "append") and chance.random() < 0.7:
            own.insert(Account("a", number))
            written += 1
        if is_file:
            assert written == len(own)
        if chance.random() < 0.3:
            assert own.query().order_by("cents").limit(3).all() is not None
        is_closed = number % 100 > 0
        if is_closed:
            db.close()
        del db, own
        if not is_closed:
            gc.collect()

    assert before == held()
    assert [] == memdb_maps(path)
    assert [path] == list(tmp_path.iterdir())


def refusals(folder: Path) -> dict[str, Callable[[], object]]:
    """Return openings that fail, each at another place."""
    good = folder / "good.memdb"
    with memdb.open(good) as db:
        db.collection(Account).insert_many([Account("a", number) for number in range(50)])
    data = good.read_bytes()
    contents = {
        "something else": b"something else" * 1000,
        "empty": b"",
        "cut": data[:-9],
        "cut in the header": data[:40],
        "damaged header": data[:30] + b"?" + data[31:],
        "damaged roots": data[:4100] + b"?" + data[4101:8200] + b"?" + data[8201:],
        "damaged checkpoint": data[:-30] + b"??????" + data[-24:],
        "newer format": data[:8] + b"\x63" + data[9:],
    }
    found: dict[str, Callable[[], object]] = {}
    for name, content in contents.items():
        path = folder / name
        path.write_bytes(content)
        found[f"{name}, r"] = lambda path=path: memdb.open(path, "r")
        if content:
            found[f"{name}, rw"] = lambda path=path: memdb.open(path)
    found["no file"] = lambda: memdb.open(folder / "none", "r")
    found["no folder"] = lambda: memdb.open(folder / "none" / "none")
    found["folder"] = lambda: memdb.open(folder)
    found["device"] = lambda: memdb.open("/dev/null")
    found["setting"] = lambda: memdb.open(good, durabillity="synced")
    found["contradiction"] = lambda: memdb.open(good, "r", durability="synced")

    def failing(method: str, number: int) -> None:
        file = FaultyFile(good)
        file.fail(method, number, errno.EIO)
        open_on(file)

    for method in ("length", "read", "map", "lock", "write"):
        found[f"failing {method}"] = lambda method=method: failing(method, 1)
    found["failing second read"] = lambda: failing("read", 2)
    return found


def test_failing_openings_leave_nothing_behind(tmp_path: Path) -> None:
    """Openings that fail, wherever they do, leave nothing; the file opens afterwards."""
    found = refusals(tmp_path)
    names = {each.name for each in tmp_path.iterdir()}
    before = held()
    for number in range(OPENINGS):
        name = list(found)[number % len(found)]
        with pytest.raises(memdb.MemdbError):
            found[name]()
            pytest.fail(f"{name}: was opened")

    assert before == held()
    assert [] == memdb_maps(tmp_path)
    assert names == {each.name for each in tmp_path.iterdir()}
    with memdb.open(tmp_path / "good.memdb") as db:
        assert 50 == len(db.collection(Account))
        assert [] == db.check()


def test_refused_second_writers_leave_nothing_behind(tmp_path: Path) -> None:
    """Writers that are refused because there is one already leave nothing."""
    path = tmp_path / "a.memdb"
    with memdb.open(path) as db:
        own = db.collection(Account)
        own.insert(Account("a", 1))
        before = held()
        for _ in range(OPENINGS):
            with pytest.raises(memdb.LockedError):
                memdb.open(path)
        after = held()
        own.insert(Account("b", 1))

    assert before == after


def test_no_descriptor_is_left_for_one_more(tmp_path: Path) -> None:
    """Where the process has no descriptor left, opening says so, and works once there is one."""
    path = tmp_path / "a.memdb"
    with memdb.open(path) as db:
        db.collection(Account).insert(Account("a", 1))
    taken: list[int] = []
    try:
        with pytest.raises(OSError) as caught:
            while True:
                taken.append(os.open(path, os.O_RDONLY))
        assert errno.EMFILE == caught.value.errno
        for mode in ("rw", "r", "append"):
            with pytest.raises(memdb.OpenError) as refused:
                memdb.open(path, mode)
            assert errno.EMFILE == refused.value.errno
    finally:
        for fd in taken:
            os.close(fd)
    with memdb.open(path) as db:
        assert 1 == len(db.collection(Account))
