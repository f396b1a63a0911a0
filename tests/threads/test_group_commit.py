"""Writers that wait for the disk share its syncs, and none is told too early."""

from __future__ import annotations

import contextlib
import threading
import time
from pathlib import Path

import pytest

import memdb
from memdb.storage import OSFile
from tests.support.concurrently import Item, run_all
from tests.support.faulty import FaultyFile, drop, open_on
from tests.support.interrupts import Interrupt, interrupted_at

THREADS = 8


class Slow(FaultyFile):
    """A disk whose syncs take long enough for others to come, and that knows what is safe."""

    def __init__(self, path: Path) -> None:
        self.syncs = 0
        super().__init__(path)

    def sync(self) -> None:
        """As `FaultyFile`, some time later."""
        synced = self.image()
        time.sleep(0.003)
        super().sync()
        # What is written while it runs need not be safe.
        self.synced = synced
        self.syncs += 1


def test_writers_share_syncs(tmp_path: Path) -> None:
    """Eight writers take less than a third of the syncs that one would, a group for each."""
    file = Slow(tmp_path / "a")
    db = open_on(file, durability="synced")
    items = db.collection(Item)
    items.insert(Item(0, 0))
    file.syncs = 0

    def work() -> None:
        for number in range(25):
            items.insert(Item(1, number))

    run_all(*[work] * THREADS)
    syncs = file.syncs
    db.close()

    # A group is whoever came while the one before was synced: about a half of all.
    assert syncs < THREADS * 25 / 3


@pytest.mark.parametrize("way", ["insert", "insert_many", "transaction", "update"])
def test_nobody_is_told_too_early(tmp_path: Path, way: str) -> None:
    """When a call of one of many writers returns, what it wrote is in what the disk has safe."""
    file = Slow(tmp_path / "a")
    db = open_on(file, durability="synced")
    items = db.collection(Item)
    items.insert_many([Item(thread, 0, [f"<{thread}:0>"]) for thread in range(THREADS)])
    early: list[str] = []

    def work(thread: int) -> None:
        for number in range(1, 8):
            text = f"<{thread}:{number}>"
            if way == "insert":
                items.insert(Item(thread, number, [text]))
            elif way == "insert_many":
                items.insert_many([Item(thread, number, ["other"]), Item(thread, number, [text])])
            elif way == "transaction":
                with db.transaction():
                    items.update(thread + 1, tags=["other"])
                    items.update(thread + 1, tags=[text])
            else:
                items.update(thread + 1, tags=[text])
            if text.encode() not in file.synced:
                early.append(text)

    run_all(*[lambda thread=thread: work(thread) for thread in range(THREADS)])
    db.close()

    assert [] == early


def test_flushes_and_closing_beside_groups(tmp_path: Path) -> None:
    """Whoever flushes or closes meanwhile keeps no group from its end; nobody waits for ever."""
    for turn in range(4):
        db = open_on(Slow(tmp_path / str(turn)), durability="synced", flush_interval=0.001)
        items = db.collection(Item)
        items.insert(Item(0, 0))
        told: list[int] = []

        def work(items: memdb.Collection[Item] = items, told: list[int] = told) -> None:
            with pytest.raises(memdb.ClosedError):
                while True:
                    told.append(items.insert(Item(1, 1)))

        def close(db: memdb.Database = db, items: memdb.Collection[Item] = items) -> None:
            while len(items) < 40:
                db.flush()
            db.close()

        run_all(*[work] * 4, close)
        with memdb.open(tmp_path / str(turn)) as db:
            assert set(told) <= set(db.collection(Item).ids())
            assert [] == db.check()


def test_interrupted_anywhere(tmp_path: Path) -> None:
    """A writer that is interrupted (Ctrl-C) while it leads or joins a group holds nobody up."""
    # Not "synced", so that the waiting is by itself.
    db = open_on(Slow(tmp_path / "a"))
    items = db.collection(Item)
    items.insert(Item(0, 0))
    log = db._engine.log
    is_over = threading.Event()

    def others() -> None:
        while not is_over.is_set():
            items.insert(Item(1, 1))
            log.sync_to(log.end)

    thread = threading.Thread(target=others, daemon=True)
    thread.start()
    interrupts = 0
    try:
        # How far it comes differs each time, as others lead it or not.
        for number in range(160):
            items.insert(Item(2, 2))
            with contextlib.suppress(Interrupt), interrupted_at(number % 8) as count:
                log.sync_to(log.end)
            interrupts += count.is_done
    finally:
        is_over.set()
    thread.join(30)
    is_stuck = thread.is_alive()
    db.close()

    assert not is_stuck
    assert interrupts > 80


def test_a_group_that_nobody_leads(tmp_path: Path) -> None:
    """Should an interrupt leave the mark of a group behind, the next writer notices and goes on."""
    with memdb.open(tmp_path / "a", durability="synced", flush_interval=3600) as db:
        items = db.collection(Item)
        items.insert(Item(0, 0))
        left = threading.Lock()
        left.acquire()
        db._engine.log._group = left
        items.insert(Item(0, 1))

        assert 2 == len(items)


@pytest.mark.parametrize("number", [1, 2, 5])
def test_a_failed_sync_reaches_the_whole_group(
    tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the sync of a group fails, each of its writers raises, and no later one is accepted."""
    file = Slow(tmp_path / "a")
    db = open_on(file, durability="synced")
    items = db.collection(Item)
    items.insert(Item(0, 0))
    file.fail("sync", number, for_ever=True)
    told: list[int] = []

    def work() -> None:
        with pytest.raises(memdb.FailedError):
            while True:
                told.append(items.insert(Item(1, 1)))

    run_all(*[work] * THREADS)
    synced = file.synced
    drop(db)
    path = tmp_path / "left"
    path.write_bytes(synced)
    monkeypatch.setattr(OSFile, "boot_id", bytes(range(16)), raising=False)
    with memdb.open(path) as db:
        there = set(db.collection(Item).ids())

    assert set(told) <= there
