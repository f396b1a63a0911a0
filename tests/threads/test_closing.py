"""Closing while other threads read and write."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import memdb
from memdb import F
from tests.support.concurrently import Item, run_all, switching_often

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def often() -> Iterator[None]:
    """Let threads take turns often."""
    with switching_often():
        yield


class TestClosing:
    @pytest.mark.parametrize("cache", ["all", "none"])
    @pytest.mark.parametrize("has_file", [True, False])
    def test_readers(self, tmp_path: Path, cache: Any, has_file: bool) -> None:
        """A reader gets the right record or ClosedError when another thread closes."""
        for turn in range(8):
            db = memdb.open(tmp_path / str(turn) if has_file else None, cache=cache)
            items = db.collection(Item)
            items.insert_many([Item(0, number) for number in range(1, 1_500)])
            started = threading.Barrier(5)

            def read(
                work: Callable[[], None], started: threading.Barrier = started
            ) -> Callable[[], None]:
                def run() -> None:
                    work()
                    started.wait()
                    with pytest.raises(memdb.ClosedError):
                        while True:
                            work()

                return run

            def one(items: Any = items) -> None:
                assert 7 == items[7].n

            def scan(items: Any = items) -> None:
                assert 1_499 == len(list(items))

            def other(items: Any = items, db: memdb.Database = db) -> None:
                items.count(F.n > 5)
                items.history(5)
                items.stats()
                db.stats()

            def close(db: memdb.Database = db, started: threading.Barrier = started) -> None:
                started.wait()
                db.close()

            run_all(read(one), read(one), read(scan), read(other), close)

    def test_writers(self, tmp_path: Path) -> None:
        """What was acknowledged when another thread closes is in the file; nothing crashes."""
        # In a process of its own, as writing behind the end of a mapped file kills it.
        child = subprocess.run(
            [sys.executable, "-c", _CLOSING_WRITERS, str(tmp_path)],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=120,
        )

        assert ("done\n", "", 0) == (child.stdout, child.stderr, child.returncode)

    def test_waiting_writer(self, db: memdb.Database) -> None:
        """A writer that waits for a transaction in which the database is closed hears of it."""
        items = db.collection(Item)
        is_begun = threading.Event()

        def holder() -> None:
            with pytest.raises(memdb.ClosedError), db.transaction():
                items.insert(Item(0, 0))
                is_begun.set()
                db.close()

        def writer() -> None:
            assert is_begun.wait(30)
            with pytest.raises(memdb.ClosedError):
                items.insert(Item(0, 0))

        run_all(holder, writer, writer)

    def test_two_closers(self, tmp_path: Path) -> None:
        """Closing from several threads at once closes once."""
        for turn in range(20):
            db = memdb.open(tmp_path / str(turn))
            db.collection(Item).insert(Item(0, 0))
            run_all(*[db.close] * 4)

            with memdb.open(tmp_path / str(turn)) as db:
                assert (None, 1) == (db.recovery, len(db.collection(Item)))


_CLOSING_WRITERS = """
import sys, threading, time
from dataclasses import dataclass
import memdb

@dataclass
class Item:
    n: int
    id: int = 0

sys.setswitchinterval(5e-6)
for turn in range(20):
    path = f"{sys.argv[1]}/{turn}"
    db = memdb.open(path, durability=("written", "buffered", "synced")[turn % 3])
    items, told, errors = db.collection(Item), [], []
    items.insert(Item(0))

    def write(kind):
        try:
            while True:
                if kind == 0:
                    told.append(items.insert(Item(1)))
                elif kind == 1:
                    told.extend(items.insert_many([Item(1), Item(2)]))
                else:
                    with db.transaction():
                        identity = items.insert(Item(1))
                        items.update(1, n=identity)
                    told.append(identity)
        except memdb.ClosedError:
            pass
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(kind,)) for kind in range(3)]
    for thread in threads:
        thread.start()
    time.sleep(0.001 * (turn % 4))
    db.close()
    for thread in threads:
        thread.join()
    assert not errors, errors
    with memdb.open(path) as db:
        there = set(db.collection(Item).ids())
        assert db.recovery is None, db.recovery
        assert set(told) <= there, set(told) - there
        assert db.check() == []
print("done")
"""
