"""Many threads at once: case B4, whole commits for readers, waiting, and races of the cache."""

from __future__ import annotations

import contextlib
import contextvars
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import memdb
from memdb import F

ROOT = Path(__file__).parents[2]


@dataclass
class Item:
    thread: int
    n: int
    tags: list[str] = field(default_factory=list)
    id: int = 0


@pytest.fixture(autouse=True)
def switching_often() -> Iterator[None]:
    """Let threads take turns a thousand times as often, so that races are met."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(5e-6)
    yield
    sys.setswitchinterval(before)


def run_all(*works: Callable[[], object]) -> None:
    """Run functions in a thread each, from one moment on; raise the first error of any."""
    errors: list[BaseException] = []
    barrier = threading.Barrier(len(works))

    def run(work: Callable[[], object]) -> None:
        barrier.wait()
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    if errors:
        raise errors[0]
    assert not any(thread.is_alive() for thread in threads), "a deadlock"


def until(is_over: threading.Event, work: Callable[[], object]) -> Callable[[], None]:
    """Return a function that repeats `work` until the event, at least once."""

    def repeat() -> None:
        while True:
            work()
            if is_over.is_set():
                return

    return repeat


def and_then(is_over: threading.Event, work: Callable[[], object]) -> Callable[[], None]:
    """Return a function that does `work` and sets the event, whatever happens."""

    def run() -> None:
        try:
            work()
        finally:
            is_over.set()

    return run


SETTINGS: list[dict[str, Any]] = [
    {},
    {"cache": "none"},
    {"cache": 20},
    {"identity_index": False},
]


def named(settings: dict[str, Any]) -> str:
    """Return a name for a test."""
    return "-".join(f"{name}={value}" for name, value in settings.items()) or "default"


class TestManyThreads:
    """Case B4."""

    THREADS = 8

    @pytest.mark.parametrize(("durability", "turns"), [("written", 1_000), ("buffered", 200)])
    def test_counts_are_right(self, tmp_path: Path, durability: Any, turns: int) -> None:
        """8 threads insert, update, delete and read 1,000 times each beside a flusher."""
        sys.setswitchinterval(2e-4)
        path = tmp_path / "a"
        with memdb.open(path, durability=durability, checkpoint_interval=500) as db:
            items = db.collection(Item)
            given: list[list[int]] = [[] for _ in range(self.THREADS)]
            is_over = threading.Event()

            def work(thread: int) -> None:
                own = given[thread]
                for number in range(turns):
                    own.append(items.insert(Item(thread, number)))
                    assert items[own[-1]].n == number
                    if number % 2:
                        assert items.update(own[number // 2], tags=["updated"])
                    if number % 5 == 4:
                        items.delete(own[number // 3])
                        assert own[number // 3] not in items
                        own[number // 3] = items.insert(Item(thread, -number))
                    if number % 250 == 0:
                        mine = items.find_all(F.thread == thread)
                        assert {item.id for item in mine} == set(own)

            def maintain() -> None:
                db.flush()
                db.checkpoint()
                assert [] == db.check()
                is_over.wait(0.05)

            workers = [
                lambda thread=thread: work(thread)  # type: ignore[misc]
                for thread in range(self.THREADS)
            ]
            left = threading.Semaphore(0)

            def counted(worker: Callable[[], None]) -> Callable[[], None]:
                def run() -> None:
                    try:
                        worker()
                    finally:
                        left.release()

                return run

            def wait() -> None:
                for _ in range(self.THREADS):
                    left.acquire()

            run_all(*map(counted, workers), until(is_over, maintain), and_then(is_over, wait))
            identities = [identity for own in given for identity in own]
            expected = {(thread, identity) for thread, own in enumerate(given) for identity in own}

            assert self.THREADS * turns == len(set(identities)) == len(items)
            assert expected == {(item.thread, item.id) for item in items}
            assert sorted(identities) == items.ids()
            assert [] == db.check()
        with memdb.open(path) as db:
            assert db.recovery is None
            assert expected == {(item.thread, item.id) for item in db.collection(Item)}
            assert [] == db.check()

    def test_synced_writers(self, tmp_path: Path) -> None:
        """Writers that wait for the disk share syncs, and all are there."""
        with memdb.open(tmp_path / "a", durability="synced") as db:
            items = db.collection(Item)
            run_all(*[lambda: [items.insert(Item(0, n)) for n in range(30)]] * 8)

            assert 240 == len(items)
            assert db._engine.log.synced_end == db._engine.log.end

    @pytest.mark.parametrize("settings", SETTINGS, ids=named)
    def test_one_record(self, settings: dict[str, Any]) -> None:
        """Updates by a function are never lost, however many threads make them."""
        with memdb.open(None) as db:
            items = db.collection(Item, **settings)
            items.insert(Item(0, 0))

            def count() -> None:
                for _ in range(200):
                    items.update(1, lambda item: setattr(item, "n", item.n + 1))

            run_all(*[count] * 4)

            assert 800 == items[1].n
            assert 801 == len(items.history(1))

    def test_put_of_one_record(self) -> None:
        """Putting the record that others put and delete always works."""
        with memdb.open(None) as db:
            items = db.collection(Item)
            outcomes: list[str] = []

            def put(thread: int) -> None:
                for number in range(500):
                    outcomes.append(items.put(Item(thread, number, id=1)).outcome)
                    with contextlib.suppress(memdb.RecordNotFoundError):
                        items.delete(1)

            run_all(lambda: put(1), lambda: put(2), lambda: put(3))

            assert 1_500 == len(outcomes)
            found = [version.kind for version in items.history(1)]
            assert outcomes.count("inserted") == found.count("inserted")
            assert outcomes.count("updated") == found.count("updated")

    def test_explicit_identities(self) -> None:
        """Of several threads that insert the same identity, one does and the others hear it."""
        with memdb.open(None) as db:
            items = db.collection(Item)
            done: list[int] = []

            def insert(thread: int) -> None:
                for number in range(1, 300):
                    with contextlib.suppress(memdb.DuplicateIdentityError):
                        done.append(items.insert(Item(thread, number, id=number)))

            run_all(*[lambda: insert(1)] * 4)

            assert list(range(1, 300)) == sorted(done)

    def test_first_use(self) -> None:
        """Threads that ask for a collection for the first time get the same one."""
        for _ in range(50):
            with memdb.open(None) as db:
                found: list[Any] = []

                def ask(db: memdb.Database = db, found: list[Any] = found) -> None:
                    items = db.collection(Item)
                    items.insert(Item(0, 0))
                    found.append(items)

                run_all(*[ask] * 4)

                assert 1 == len(set(map(id, found)))
                assert (4, ["Item"]) == (len(found[0]), db.collections())


@pytest.mark.parametrize("settings", SETTINGS, ids=named)
class TestReaders:
    """Readers take no lock, and see each commit wholly or not at all."""

    def test_commit_is_seen_wholly(self, settings: dict[str, Any]) -> None:
        """Who has seen a transaction in one collection sees it in the other."""
        with memdb.open(None) as db:
            left = db.collection(Item, name="left", **settings)
            right = db.collection(Item, name="right", **settings)
            for items in (left, right):
                items.insert_many([Item(0, 0) for _ in range(5)])
            is_over = threading.Event()

            def write() -> None:
                for number in range(1, 400):
                    with db.transaction():
                        left.update(1, n=number)
                        right.update(5, n=number)

            def read_left_first() -> None:
                seen = left[1].n
                assert seen <= right[5].n

            def read_right_first() -> None:
                seen = right.get(5).n  # type: ignore[union-attr]
                assert seen <= left.get(1).n  # type: ignore[union-attr]

            def scan() -> None:
                seen = next(iter(left)).n
                assert seen <= max(item.n for item in right)
                found = right.find(F.n > 0)
                assert found is None or found.n <= left.find_all(F.id == 1)[0].n

            run_all(
                and_then(is_over, write),
                until(is_over, read_left_first),
                until(is_over, read_right_first),
                until(is_over, scan),
            )

    def test_sum_is_constant(self, settings: dict[str, Any]) -> None:
        """A scan is of one moment: what moves between records is always in one of them."""
        with memdb.open(None) as db:
            items = db.collection(Item, **settings)
            items.insert_many([Item(0, 100) for _ in range(10)])
            is_over = threading.Event()

            def write() -> None:
                for number in range(300):
                    source, target = number % 10 + 1, number * 3 % 10 + 1
                    with db.transaction():
                        items.update(source, lambda item: setattr(item, "n", item.n - 7))
                        items.update(target, lambda item: setattr(item, "n", item.n + 7))

            def read() -> None:
                assert 1_000 == sum(item.n for item in items)
                assert 1_000 == sum(item.n for _, item in items.items())
                assert 1_000 == sum(item.n for item in items.find_all())
                assert 10 == items.count(F.n > -10_000) == len(items)

            run_all(and_then(is_over, write), until(is_over, read), until(is_over, read))

    def test_insert_many_is_seen_wholly(self, settings: dict[str, Any]) -> None:
        """Records that are inserted, cleared or deleted together come and go together."""
        with memdb.open(None) as db:
            items = db.collection(Item, **settings)
            is_over = threading.Event()

            def write() -> None:
                for _ in range(100):
                    items.insert_many([Item(0, 0) for _ in range(7)])
                    items.insert_many([Item(0, 0, id=10**9 - n) for n in range(7)])
                    items.clear()

            def read() -> None:
                assert 0 == len(list(items)) % 7
                assert 0 == len(items.ids()) % 7
                assert 0 == items.count(F.n == 0) % 7

            run_all(and_then(is_over, write), until(is_over, read), until(is_over, read))

    def test_two_collections_inside(self, settings: dict[str, Any]) -> None:
        """Inside a transaction two collections agree, as nobody writes meanwhile."""
        with memdb.open(None) as db:
            left = db.collection(Item, name="left", **settings)
            right = db.collection(Item, name="right", **settings)
            left.insert(Item(0, 1_000))
            right.insert(Item(0, 0))
            is_over = threading.Event()

            def write() -> None:
                for number in range(200):
                    with db.transaction():
                        left.update(1, n=1_000 - number)
                        right.update(1, n=number)

            def read() -> None:
                with db.transaction():
                    assert 1_000 == left[1].n + right[1].n
                    assert 1_000 == sum(item.n for each in (left, right) for item in each)

            run_all(and_then(is_over, write), until(is_over, read))

    def test_old_objects_do_not_come_back(self, settings: dict[str, Any]) -> None:
        """A reader that fills the cache while the record changes never brings the old one back."""
        with memdb.open(None) as db:
            items = db.collection(Item, **settings)
            items.insert_many([Item(0, 0) for _ in range(3)])
            is_over = threading.Event()

            def write() -> None:
                for number in range(1, 1_000):
                    items.update(2, n=number)
                    assert number == items[2].n
                    if number % 10 == 0:
                        items.delete(2)
                        assert items.get(2) is None
                        items.insert(Item(0, number, id=2))

            def read() -> None:
                last = 0
                for _ in range(20):
                    item = items.get(2)
                    assert item is None or (item.n >= last and item.id == 2)
                    last = item.n if item else last
                    assert all(each.n >= last for each in items.find_all(id=2))

            run_all(and_then(is_over, write), until(is_over, read), until(is_over, read))

    def test_own_writes_are_seen_inside(self, settings: dict[str, Any]) -> None:
        """A transaction reads what it wrote, and others do not, while others read the record."""
        with memdb.open(None) as db:
            items = db.collection(Item, **settings)
            items.insert_many([Item(0, 0) for _ in range(3)])
            is_over = threading.Event()

            def write() -> None:
                for number in range(1, 500):
                    with contextlib.suppress(ZeroDivisionError), db.transaction():
                        items.update(2, n=-number)
                        for _ in range(3):
                            assert -number == items[2].n
                        assert [0, -number, 0] == [item.n for item in items]
                        raise ZeroDivisionError
                    assert 0 == items[2].n

            def read() -> None:
                assert 0 == items[2].n
                assert [0, 0, 0] == [item.n for item in items.find_all()]

            run_all(and_then(is_over, write), until(is_over, read), until(is_over, read))

    def test_right_record(self, settings: dict[str, Any]) -> None:
        """Reading by identity gives that record or none, while others come and go around it."""
        with memdb.open(None) as db:
            items = db.collection(Item, **settings)
            items.insert_many([Item(0, number) for number in range(1, 701)])
            is_over = threading.Event()

            def write() -> None:
                for number in range(1, 300):
                    items.delete(number)
                    items.insert(Item(0, 0))

            def read() -> None:
                for identity in (1, 350, 600, 700):
                    item = items.get(identity)
                    assert item is None or (identity, identity) == (item.id, item.n)
                    assert identity == 1 or item is not None

            run_all(and_then(is_over, write), until(is_over, read), until(is_over, read))

    def test_bounded_cache(self, settings: dict[str, Any]) -> None:
        """Readers that throw records out of the cache while a transaction writes do not fail."""
        with memdb.open(None) as db:
            items = db.collection(Item, **settings)
            items.insert_many([Item(0, number) for number in range(1, 101)])
            is_over = threading.Event()

            def write() -> None:
                for number in range(60):
                    with db.transaction():
                        for identity in range(number % 50 + 1, number % 50 + 40):
                            items.update(identity, tags=[str(number)])

            def read() -> None:
                for identity in range(1, 101):
                    assert items[identity].n == identity

            run_all(and_then(is_over, write), *[until(is_over, read)] * 3)


class TestWaiting:
    def test_writers_wait_for_a_transaction(self, db: memdb.Database) -> None:
        """Writers of other threads wait until the transaction has ended, readers do not."""
        items = db.collection(Item)
        items.insert_many([Item(0, 0), Item(0, 0)])
        is_begun, has_read = threading.Event(), threading.Event()
        order: list[str] = []

        def holder() -> None:
            with db.transaction():
                items.update(1, n=1)
                is_begun.set()
                assert has_read.wait(30)
                order.append("end")

        def writer(write: Callable[[], object]) -> Callable[[], None]:
            def run() -> None:
                assert is_begun.wait(30)
                write()
                order.append("written")

            return run

        def begin() -> None:
            with db.transaction():
                items.update(1, lambda item: setattr(item, "n", item.n + 1))

        def reader() -> None:
            assert is_begun.wait(30)
            assert [0, 0] == [item.n for item in items]
            assert 0 == items[1].n
            has_read.set()

        run_all(
            holder,
            reader,
            writer(lambda: items.insert(Item(1, 5))),
            writer(lambda: items.insert_many([Item(1, 5)])),
            writer(lambda: items.update(2, n=7)),
            writer(begin),
        )

        assert ["end", *["written"] * 4] == order
        assert [2, 7, 5, 5] == [item.n for item in items]

    def test_transactions_take_turns(self) -> None:
        """Transactions of many threads do not mix, and none waits for ever."""
        with memdb.open(None) as db:
            items = db.collection(Item)
            items.insert_many([Item(0, 0), Item(0, 0)])

            def work() -> None:
                for number in range(100):
                    with contextlib.suppress(ZeroDivisionError), db.transaction():
                        first, second = items[1].n, items[2].n
                        assert first == second
                        items.update(1, n=first + 1)
                        items.update(2, n=second + 1)
                        if number % 4 == 0:
                            raise ZeroDivisionError

            run_all(*[work] * 4)

            assert [300, 300] == [item.n for item in items]

    def test_thread_in_the_context(self, db: memdb.Database) -> None:
        """A thread that runs in a copy of the context is part of the transaction."""
        items = db.collection(Item)
        items.insert(Item(0, 0))
        with contextlib.suppress(ZeroDivisionError), db.transaction():
            items.update(1, n=1)
            context = contextvars.copy_context()
            seen: list[int] = []

            def inside() -> None:
                seen.append(items[1].n)
                items.update(1, n=2)
                items.insert(Item(0, 3))

            run_all(lambda: context.run(inside), lambda: seen.append(items[1].n))
            assert [0, 1] == sorted(seen)
            assert [2, 3] == [item.n for item in items]
            raise ZeroDivisionError

        assert [0] == [item.n for item in items]

    def test_threads_in_one_transaction(self) -> None:
        """Several threads of one transaction lose no update of each other."""
        with memdb.open(None) as db:
            items = db.collection(Item)
            items.insert(Item(0, 0))

            def count() -> None:
                for _ in range(100):
                    items.update(1, lambda item: setattr(item, "n", item.n + 1))
                    items.insert(Item(0, 0))

            with db.transaction():
                contexts = [contextvars.copy_context() for _ in range(4)]
                run_all(*[lambda each=each: each.run(count) for each in contexts])  # type: ignore[misc]
                assert (400, 401) == (items[1].n, len(items))

            assert (400, 401) == (items[1].n, len(items))

    def test_ended_in_another_thread(self) -> None:
        """A transaction may end in another thread than it began in."""
        with memdb.open(None) as db:
            items = db.collection(Item)
            scope = db.transaction()
            scope.__enter__()
            items.insert(Item(0, 1))
            context = contextvars.copy_context()
            run_all(lambda: context.run(scope.__exit__, None, None, None))
            items.insert(Item(0, 2))
            with db.transaction():
                items.insert(Item(0, 3))

            assert [1, 2, 3] == [item.n for item in items]


class TestClosing:
    @pytest.mark.parametrize("cache", ["all", "none"])
    @pytest.mark.parametrize("has_file", [True, False])
    def test_readers(self, tmp_path: Path, cache: Any, has_file: bool) -> None:
        """A reader gets the right record or ClosedError when another thread closes."""
        for turn in range(15):
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
for turn in range(40):
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
