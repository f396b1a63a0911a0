"""Compaction beside threads that read, write, iterate, ask and flush."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import memdb
from memdb import F, HashIndex, SortedIndex
from memdb.storage import Log, _check
from tests.support.concurrently import run_all, switching_often
from tests.support.interrupts import Timer

THREADS = 4
KEY = bytes(range(32))


@dataclass
class Item:
    """A record of one of the threads."""

    owner: int
    value: int
    name: str
    id: int = 0


def work(
    db: memdb.Database,
    owner: int,
    model: dict[int, tuple[int, str]],
    is_enough: Callable[[int], bool],
) -> Callable[[], None]:
    """Return what changes the records of one thread, until it is enough, and keeps a model."""
    items = db.collection(Item)

    def run() -> None:
        chance = random.Random(owner)
        for number in itertools.takewhile(lambda done: not is_enough(done), itertools.count()):
            way = chance.random()
            value, name = chance.randrange(1000), f"{owner} {number}"
            if way < 0.4 or not model:
                identity = items.insert(Item(owner, value, name))
                assert identity not in model
                model[identity] = value, name
            elif way < 0.75:
                identity = chance.choice(list(model))
                items.update(identity, value=value)
                model[identity] = value, model[identity][1]
            elif way < 0.85:
                identity = chance.choice(list(model))
                items.delete(identity)
                del model[identity]
            elif way < 0.9:
                with db.transaction():
                    for step in range(3):
                        identity = items.insert(Item(owner, value, f"{name} {step}"))
                        model[identity] = value, f"{name} {step}"
            else:
                identity = chance.choice(list(model))
                found = items[identity]
                assert model[identity] == (found.value, found.name)
                known = {each.id for each in items.where(owner=owner)}
                assert model.keys() == known

    return run


@pytest.mark.parametrize("kind", ["written", "synced", "encrypted", "memory"])
def test_f1_b4_compaction_while_threads_write(tmp_path: Path, kind: str) -> None:
    """Each thread finds its own records, and everything is whole, now and after reopening."""
    path = tmp_path / "a.memdb"
    settings: dict[str, Any] = {"flush_interval": 0.005, "checkpoint_interval": 50}
    key: dict[str, Any] = {"key": KEY} if kind == "encrypted" else {}
    if kind == "synced":
        settings["durability"] = "synced"
    models: list[dict[int, tuple[int, str]]] = [{} for _ in range(THREADS)]
    declared = [SortedIndex("value"), HashIndex("owner"), HashIndex("name", unique=True)]
    count = 60 if kind == "synced" else 200
    compactions = []

    def is_enough(done: int) -> bool:
        return done >= count and len(compactions) >= 3

    with memdb.open(None if kind == "memory" else path, **settings, **key) as db:
        items = db.collection(Item, indexes=declared)
        is_over = threading.Event()

        def compact() -> None:
            while not is_over.is_set():
                compactions.append(db.compact())

        def read() -> None:
            while not is_over.is_set():
                for each in items:
                    assert each.id
                assert items.where(F.value >= 0).count() >= 0

        def write() -> None:
            try:
                run_all(*[work(db, owner, models[owner], is_enough) for owner in range(THREADS)])
            finally:
                is_over.set()

        with switching_often():
            run_all(write, compact, read)
        expected = {each: value for model in models for each, value in model.items()}

        assert expected == {each.id: (each.value, each.name) for each in items}
        assert [] == db.check()
    if kind != "memory":
        with memdb.open(path, **key) as db:
            items = db.collection(Item, indexes=declared)

            assert expected == {each.id: (each.value, each.name) for each in items}
            assert [] == db.check()
            assert [path] == list(tmp_path.iterdir())

    assert len(compactions) >= 3


def test_collections_that_are_made_meanwhile(tmp_path: Path) -> None:
    """A collection that is asked for in the moment of the change finds its records."""
    path = tmp_path / "a.memdb"
    with memdb.open(path) as db:
        for number in range(60):
            db.collection(f"c{number}").insert_many([{"a": number}] * 3)
            db.collection(f"c{number}").update(2, a=-1)
    with memdb.open(path) as db, switching_often():
        is_over = threading.Event()

        def compact() -> None:
            while not is_over.is_set():
                db.compact()

        def ask() -> None:
            try:
                for number in range(60):
                    found = db.collection(f"c{number}")
                    found.update(3, a=-2)
                    found.delete(1)
                    assert [-1, -2] == [record["a"] for record in found]
            finally:
                is_over.set()

        run_all(compact, ask)

        assert [] == db.check()


def test_closing_in_the_middle_leaves_the_old_file(tmp_path: Path) -> None:
    """When the database is closed by another thread the compaction ends with an error."""
    path = tmp_path / "a.memdb"
    db = memdb.open(path)
    notes = db.collection("notes")
    notes.insert_many([{"a": number} for number in range(200)])

    def close(*progress: Any) -> None:
        run_all(db.close)

    with pytest.raises(memdb.ClosedError):
        db.compact(progress=close)
    with memdb.open(path) as db:
        assert 200 == len(db.collection("notes"))
        assert [] == db.check()

    assert [path] == list(tmp_path.iterdir())


@pytest.mark.parametrize("settings", [{}, {"key": KEY}], ids=["plain", "encrypted"])
@pytest.mark.parametrize("after", [1, 3, 9])
def test_a_check_ends_over_the_file_that_it_began_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], after: int
) -> None:
    """A compaction in the middle of a check, with natural keys too, gives no finding."""
    with memdb.open(tmp_path / "a", **settings) as db:
        items = db.collection(Item)
        users = db.collection("users", key="name")
        identities = items.insert_many([Item(0, number, "a") for number in range(20)])
        users.insert_many([{"name": str(number)} for number in range(20)])
        for identity in identities:
            items.update(identity, value=-1)
        commit, calls = _check.Walk._commit, itertools.count(1)

        def compacting(*arguments: Any) -> Any:
            if next(calls) == after:
                db.compact()
            return commit(*arguments)

        monkeypatch.setattr(_check.Walk, "_commit", compacting)
        findings = db.check()

        assert next(calls) > after + 1
        assert [] == findings
        assert [] == db.check()


def test_one_compaction_at_a_time(tmp_path: Path) -> None:
    """Two threads that compact do so one after the other."""
    with memdb.open(tmp_path / "a.memdb") as db:
        db.collection("notes").insert_many([{"a": number} for number in range(2000)])
        run_all(db.compact, db.compact, db.compact)

        assert 2000 == db.stats().versions
        assert [] == db.check()


def test_an_interrupt_comes_before_or_after_the_change(tmp_path: Path) -> None:
    """Ctrl-C at any moment leaves the old file or the new one, and a database that goes on."""
    path = tmp_path / "a.memdb"
    with memdb.open(path) as db:
        notes = db.collection("notes")
        notes.insert_many([{"a": number} for number in range(3000)])
        with Timer(1, 0.05) as timer:
            for number in range(60):
                notes.update(1, a=-number)
                try:
                    timer.start()
                    db.compact()
                except BaseException as error:
                    assert type(error).__name__ == "Interrupt"
                finally:
                    timer.stop()
                assert -number == notes[1]["a"]
        assert [] == db.check()
        assert timer.count > 5
    with memdb.open(path) as db:
        assert -59 == db.collection("notes")[1]["a"]
        assert [] == db.check()

    assert [path] == list(tmp_path.iterdir())


def test_indexes_are_not_saved_while_the_file_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a checkpoint writes of an index is in the file whose catalogue names it."""
    path = tmp_path / "a"
    appended = threading.Event()
    over = threading.Event()
    append = Log.append_index

    def slow(self: Log, *arguments: Any) -> Any:
        found = append(self, *arguments)
        self.lock.release()
        try:
            appended.set()
            # The file would be another one by then, if it could be.
            over.wait(0.5)
        finally:
            self.lock.acquire()
        return found

    with memdb.open(path) as db:
        items = db.collection(Item, indexes=[SortedIndex("value")])
        items.insert_many([Item(0, number % 100, "") for number in range(12_000)])
        assert items.where(F.value == 7).count() == 120
        checkpoint = threading.Thread(target=db.checkpoint)

        def progress(done: int, total: int, unit: str, /) -> None:
            if not appended.is_set():
                checkpoint.start()
                assert appended.wait(60)

        monkeypatch.setattr(Log, "append_index", slow)
        db.compact(progress=progress)
        over.set()
        checkpoint.join()
        monkeypatch.undo()
        assert [] == db.check()
    with memdb.open(path) as db:
        items = db.collection(Item, indexes=[SortedIndex("value")])
        assert items.where(F.value == 7).count() == 120
        assert [] == db.check()
