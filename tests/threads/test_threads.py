"""Many threads at once: case B4, and readers that see whole commits."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import memdb
from memdb import F
from tests.support.concurrently import Item, and_then, run_all, switching_often, until


@pytest.fixture(autouse=True)
def often() -> Iterator[None]:
    """Let threads take turns often."""
    with switching_often():
        yield


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
        path = tmp_path / "a"
        with (
            switching_often(2e-4),
            memdb.open(path, durability=durability, checkpoint_interval=500) as db,
        ):
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
