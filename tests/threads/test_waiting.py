"""Writers that wait for a transaction, and races for the cache, step by step."""

from __future__ import annotations

import contextlib
import contextvars
import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import memdb
from memdb import F
from memdb._scan import collector_paused
from memdb.indexes import IdentityIndex
from tests.support.concurrently import Item, run_all, switching_often


@pytest.fixture(autouse=True)
def often() -> Iterator[None]:
    """Let threads take turns often."""
    with switching_often():
        yield


@pytest.mark.parametrize("cache", ["all", 20, "none"])
@pytest.mark.parametrize("read", ["get", "iterate", "find", "count"])
class TestBetweenDecodingAndKeeping:
    """A record changes in the very moment in which a reader has decoded it."""

    def read(self, items: memdb.Collection[Item], how: str) -> int | None:
        """Return the number in record 1, read in one of the ways."""
        if how == "get":
            item = items.get(1)
        elif how == "iterate":
            item = next(iter(items), None)
        elif how == "find":
            item = items.find(F.id == 1)
        else:
            return items.count(F.n == 0) - 1
        return None if item is None else item.n

    def hook(self, items: memdb.Collection[Item], change: Callable[[], object]) -> None:
        """Do the change behind the next decoding, in another thread."""
        store = items._store.decoding
        decode = store.decode

        def once(*arguments: Any) -> Any:
            store.decode = decode  # type: ignore[method-assign]
            record = decode(*arguments)
            run_all(change)
            return record

        store.decode = once  # type: ignore[method-assign]

    @pytest.mark.parametrize("change", ["update", "delete", "clear", "transaction"])
    def test_change(self, cache: Any, read: str, change: str) -> None:
        """The reader may still get the old state, whoever reads afterwards gets the new one."""
        with memdb.open(None) as db:
            items = db.collection(Item, cache=cache)
            items.insert(Item(0, 0))

            def write() -> None:
                if change == "transaction":
                    with db.transaction():
                        items.update(1, n=5)
                elif change == "update":
                    items.update(1, n=5)
                elif change == "delete":
                    items.delete(1)
                else:
                    items.clear()

            self.hook(items, write)

            assert 0 == self.read(items, read)
            expected = None if change in ("delete", "clear") else 5
            for how in ("get", "iterate", "find", "get"):
                assert expected == self.read(items, how)

    def test_change_inside(self, cache: Any, read: str) -> None:
        """A reader outside never hides from a transaction what it has written."""
        with memdb.open(None) as db:
            items = db.collection(Item, cache=cache)
            items.insert(Item(0, 0))
            outside = contextvars.Context()
            with contextlib.suppress(ZeroDivisionError), db.transaction():
                context = contextvars.copy_context()
                self.hook(items, lambda: context.run(items.update, 1, n=5))
                assert 0 == outside.run(self.read, items, read)
                for how in ("get", "iterate", "find", "get"):
                    assert 5 == self.read(items, how)
                    assert 0 == outside.run(self.read, items, how)
                raise ZeroDivisionError
            assert 0 == self.read(items, "get")


# Whether the record 2 is gone, or record 1 changed.
LOOKS: dict[str, Callable[[memdb.Collection[Item]], bool]] = {
    "get": lambda items: items.get(2) is None,
    "item": lambda items: items[1].n == 1,
    "in": lambda items: 2 not in items,
    "len": lambda items: len(items) == 1,
    "ids": lambda items: items.ids() == [1],
    "iterate": lambda items: len(list(items)) == 1,
    "find": lambda items: items.exists(n=1),
}
CLEARED: dict[str, Callable[[memdb.Collection[Item]], int]] = {
    "len": len,
    "count": lambda items: items.count(),
    "count if": lambda items: items.count(F.n == 0),
    "exists": lambda items: 5 * items.exists(),
    "ids": lambda items: len(items.ids()),
    "iterate": lambda items: len(list(items)),
    "get": lambda items: 5 - 5 * (items.get(1) is None),
}


@pytest.mark.parametrize("cache", ["all", "none"])
@pytest.mark.parametrize("index", [True, False])
class TestHalfPublished:
    """A reader looks in the very moment in which half of a commit is in the indexes."""

    def look_in_the_middle(
        self, items: memdb.Collection[Item], look: Callable[[], object]
    ) -> list[threading.Thread]:
        """Call `look` in another thread behind the next version that is made visible.

        The writer waits for it a moment only, as it may wait for the writer.
        """
        store, threads = items._store, list[threading.Thread]()
        publish = store.publish

        def once(*arguments: Any) -> None:
            publish(*arguments)
            if not threads:
                threads.append(threading.Thread(target=look, daemon=True))
                threads[0].start()
                threads[0].join(0.03)

        store.publish = once  # type: ignore[method-assign]
        return threads

    @pytest.mark.parametrize("look", LOOKS)
    @pytest.mark.parametrize("is_left_first", [True, False])
    def test_transaction(self, cache: Any, index: bool, is_left_first: bool, look: str) -> None:
        """Who sees one record of a transaction sees the others, in whatever order."""
        with memdb.open(None) as db:
            left = db.collection(Item, name="left", cache=cache, identity_index=index)
            right = db.collection(Item, name="right", cache=cache, identity_index=index)
            for items in (left, right):
                items.insert_many([Item(0, 0), Item(0, 0)])
                list(items), items.get(1)
            first, second = (left, right) if is_left_first else (right, left)
            is_new = LOOKS[look]
            seen: list[bool] = []
            threads = self.look_in_the_middle(
                first, lambda: seen.extend((is_new(first), is_new(second)))
            )
            with db.transaction():
                for items in (first, second):
                    items.delete(2)
                    items.update(1, n=1)
            threads[0].join(10)

            # The first was read first: the second must not be older.
            assert seen in ([False, False], [False, True], [True, True])

    @pytest.mark.parametrize("look", CLEARED)
    def test_clear(self, cache: Any, index: bool, look: str) -> None:
        """A collection that is being cleared is full or empty."""
        with memdb.open(None) as db:
            items = db.collection(Item, cache=cache, identity_index=index)
            items.insert_many([Item(0, 0) for _ in range(5)])
            seen: list[int] = []
            threads = self.look_in_the_middle(items, lambda: seen.append(CLEARED[look](items)))
            items.clear()
            threads[0].join(10)

            assert seen in ([0], [5])


def test_collector_is_left_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads that hold the garbage collector off at once leave it on."""
    is_enabled = gc.isenabled
    first, second = collector_paused(), collector_paused()
    first.__enter__()

    def first_ends_meanwhile() -> bool:
        monkeypatch.undo()
        answer = is_enabled()
        first.__exit__(None, None, None)
        return answer

    monkeypatch.setattr(gc, "isenabled", first_ends_meanwhile)
    try:
        with second:
            pass
        assert is_enabled()
    finally:
        gc.enable()


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


def test_no_update_is_lost_while_another_is_published(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who finds the new version in the index does not find the old record in the cache."""
    with memdb.open(None) as db:
        items = db.collection(Item)
        items.insert(Item(0, 0))
        assert 0 == items[1].n
        set_slot, threads = IdentityIndex.set, list[threading.Thread]()

        def set_and_look(index: IdentityIndex, identity: int, slot: int) -> None:
            set_slot(index, identity, slot)
            if not threads:
                threads.append(threading.Thread(target=add_one, daemon=True))
                threads[0].start()
                threads[0].join(0.05)

        def add_one() -> None:
            items.update(1, lambda item: Item(0, item.n + 1))

        monkeypatch.setattr(IdentityIndex, "set", set_and_look)
        add_one()
        threads[0].join()

        assert 2 == items[1].n
