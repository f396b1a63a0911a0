"""Interrupts (Ctrl-C, timers, timeouts): each change is done or not, and the database goes on."""

from __future__ import annotations

import contextlib
import contextvars
import gc
import random
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import memdb
from tests.support.effort import every, times
from tests.support.interrupts import Interrupt, Timer, interrupted_at

State = dict[str, dict[int, Any]]

# More than any of the operations here has.
MOST_PLACES = 5_000

# On files each place costs some syncs.
STEPS = pytest.mark.parametrize(
    "step", [11, pytest.param(every(1), marks=pytest.mark.slow, id="1")]
)


@dataclass
class Item:
    n: int
    tags: list[str] = field(default_factory=list)
    id: int = 0


@dataclass
class Tables:
    """A database with two collections of three records, and one that is still to come."""

    db: memdb.Database
    items: memdb.Collection[Item]
    notes: memdb.Collection[dict[str, Any]]

    def state(self) -> State:
        """Return everything."""
        return {each.name: dict(each.items()) for each in (self.items, self.notes)}  # type: ignore[attr-defined]


def make_tables(**settings: Any) -> Tables:
    """Return new tables in memory."""
    db = memdb.open(None, **settings)
    items = db.collection(Item)
    items.insert_many([Item(1), Item(2), Item(3)])
    notes = db.collection("notes")
    notes.insert_many([{"n": 1}, {"n": 2}, {"n": 3}])
    list(items), list(notes)
    return Tables(db, items, notes)


def _commit(tables: Tables) -> None:
    with tables.db.transaction():
        tables.items.update(1, n=10)
        tables.notes.insert({"n": 4})
        tables.items.delete(2)


def _commit_nested(tables: Tables) -> None:
    with tables.db.transaction():
        tables.items.update(1, n=10)
        with tables.db.transaction():
            tables.items.update(1, n=11)
            tables.notes.insert_many([{"n": 4}, {"n": 5}])
        with contextlib.suppress(ZeroDivisionError), tables.db.transaction():
            tables.items.clear()
            raise ZeroDivisionError


def _roll_back(tables: Tables) -> None:
    with contextlib.suppress(ZeroDivisionError), tables.db.transaction():
        tables.items.update(1, n=10)
        tables.notes.clear()
        raise ZeroDivisionError


def _edit(tables: Tables) -> None:
    with tables.items.edit(2) as item:
        item.n = 10


OPERATIONS: dict[str, Callable[[Tables], object]] = {
    "insert": lambda tables: tables.items.insert(Item(4)),
    "insert explicitly": lambda tables: tables.items.insert(Item(4, id=9)),
    "insert far away": lambda tables: tables.items.insert(Item(4, id=10**9)),
    "insert_many": lambda tables: tables.items.insert_many([Item(4), Item(5)]),
    "insert_many explicitly": lambda tables: tables.items.insert_many([Item(4, id=9), Item(5)]),
    "first insert": lambda tables: tables.db.collection("new").insert({"n": 1}),
    "put new": lambda tables: tables.items.put(Item(4, id=9)),
    "put": lambda tables: tables.items.put(Item(4, id=2)),
    "update": lambda tables: tables.items.update(2, n=10),
    "update by function": lambda tables: tables.items.update(2, lambda i: i.tags.append("x")),
    "edit": _edit,
    "delete": lambda tables: tables.items.delete(2),
    "clear": lambda tables: tables.items.clear(),
    "transaction": _commit,
    "nested transaction": _commit_nested,
    "rolled back transaction": _roll_back,
    "checkpoint": lambda tables: tables.db.checkpoint(),
    "scan": lambda tables: [list(tables.items), tables.items.find_all(n=2), tables.db.check()],
}
LONG = {
    **{"insert": 1, "delete": 1, "insert_many": 3, "insert_many explicitly": 5, "clear": 5},
    **{"put": 3, "update": 3, "update by function": 5, "edit": 5, "checkpoint": 11},
    **{"first insert": 7, "transaction": 7, "rolled back transaction": 7},
    **{"nested transaction": 17, "scan": 29},
}


def in_time(work: Callable[[], Any]) -> Any:
    """Return what `work` gives, called in this context by another thread; a deadlock fails."""
    result: list[Any] = []
    context = contextvars.copy_context()
    thread = threading.Thread(target=lambda: result.append(context.run(work)), daemon=True)
    thread.start()
    thread.join(10)
    assert not thread.is_alive(), "a deadlock"
    return result[0]


def state_of_file(tables: Tables, path: Path) -> State:
    """Return what a reader of the bytes as they are would see."""
    file = tables.db._engine.log._file
    path.write_bytes(file.read(0, file.length()))
    with memdb.open(path, "r", cloner="share", cache="none") as reader:
        assert len(set(reader.collections())) == len(reader.collections())
        return {
            "Item": dict(reader.collection(Item).items()),
            "notes": dict(reader.collection("notes").items()),
        }


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_place(name: str, tmp_path: Path) -> None:
    """Wherever a change is interrupted, it is done or not, in memory as in the file."""
    # Not all the places where there are many; the slow test takes all.
    interrupt_everywhere(name, tmp_path, step=LONG.get(name, 2))


@pytest.mark.slow
@pytest.mark.parametrize("name", OPERATIONS)
def test_every_single_place(name: str, tmp_path: Path) -> None:
    """The same at all places, and without a cache."""
    interrupt_everywhere(name, tmp_path, cache="none")


def interrupt_everywhere(name: str, tmp_path: Path, step: int = 1, cache: str = "all") -> None:
    """Interrupt an operation at one place after the other, and check what comes of it."""
    operation = OPERATIONS[name]
    whole = make_tables(cache=cache)
    before = whole.state()
    operation(whole)
    after = whole.state()
    for number in range(0, MOST_PLACES, step):
        tables = make_tables(cache=cache)
        place = ""
        try:
            with interrupted_at(number) as interrupt:
                operation(tables)
        except Interrupt as error:
            place = str(error)
        if not interrupt.is_done:
            break
        found = in_time(tables.state)
        assert found in (before, after), place
        assert gc.isenabled(), place
        assert [] == tables.db.check(), place
        assert found == state_of_file(tables, tmp_path / "copy"), place
        _check_goes_on(tables, found, tmp_path / "copy", place)
        tables.db.close()
    assert 3 < number < MOST_PLACES - step


def _check_goes_on(tables: Tables, state: State, path: Path, place: str) -> None:
    """Check that later changes are made, are commits of their own, and reach the file."""
    versions = tables.db.stats().versions
    identity = in_time(lambda: tables.items.insert(Item(99)))
    assert versions + 1 == tables.db.stats().versions, place
    assert identity not in state["Item"], place
    in_time(lambda: tables.items.update(1, n=98) if 1 in tables.items else None)
    in_time(lambda: _commit_more(tables))
    in_time(lambda: tables.db.collection("new").insert({"n": 1}))

    assert 99 == tables.items[identity].n, place
    assert tables.state() == state_of_file(tables, path), place
    assert len(set(tables.db.collections())) == len(tables.db.collections()), place
    assert [] == tables.db.check(), place


def _commit_more(tables: Tables) -> None:
    with tables.db.transaction():
        tables.notes.insert({"n": 100})
        tables.items.insert(Item(100))


@STEPS
def test_every_place_of_opening(tmp_path: Path, step: int) -> None:
    """Wherever opening is interrupted, the file can be opened afterwards."""
    path = tmp_path / "a"
    for is_new in (True, False):
        for number in range(0, MOST_PLACES, step):
            if is_new:
                path.unlink(missing_ok=True)
            db = None
            place = "swallowed"
            try:
                with interrupted_at(number) as interrupt:
                    db = memdb.open(path)
            except Interrupt as error:
                place = str(error)
            if db is not None:
                db.close()
            if not interrupt.is_done:
                break
            try:
                memdb.open(path, "append").close()
            except memdb.MemdbError as error:
                raise AssertionError(place) from error
        assert 3 < number < MOST_PLACES - step


@pytest.mark.parametrize("durability", ["written", "buffered", "synced"])
@STEPS
def test_every_place_of_the_first_write(tmp_path: Path, durability: Any, step: int) -> None:
    """Wherever the first write to a file is interrupted, the next ones work, and closing does."""
    template = tmp_path / "template"
    with memdb.open(template) as db:
        db.collection(Item).insert(Item(1))
    content = template.read_bytes()
    for number in range(0, MOST_PLACES, step):
        path = tmp_path / "a"
        path.write_bytes(content)
        place, before = "", threading.active_count()
        with memdb.open(path, durability=durability) as db:
            items = db.collection(Item)
            try:
                with interrupted_at(number) as interrupt:
                    items.insert(Item(2))
            except Interrupt as error:
                place = str(error)
            found = [item.n for item in items]
            assert found in ([1], [1, 2]), place
            items.insert(Item(3))
            assert before + 1 == threading.active_count(), place
        with memdb.open(path, "r") as db:
            assert (None, [*found, 3]) == (db.recovery, [item.n for item in db.collection(Item)])
        if not interrupt.is_done:
            break
    assert 3 < number < MOST_PLACES - step


@pytest.mark.parametrize("durability", ["written", "buffered"])
@STEPS
def test_every_place_of_closing(tmp_path: Path, durability: Any, step: int) -> None:
    """Wherever closing is interrupted, closing again ends it, and nothing written is lost."""
    for number in range(0, MOST_PLACES, step):
        path = tmp_path / str(number)
        db = memdb.open(path, durability=durability)
        db.collection(Item).insert_many([Item(1), Item(2)])
        place = ""
        try:
            with interrupted_at(number) as interrupt:
                db.close()
        except Interrupt as error:
            place = str(error)
        db.close()
        assert db.is_closed, place
        try:
            with memdb.open(path) as again:
                assert [1, 2] == [item.n for item in again.collection(Item)], place
        except memdb.MemdbError as error:
            raise AssertionError(place) from error
        if not interrupt.is_done:
            break
    assert 3 < number < MOST_PLACES - step


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs a timer")
# Not by a signal, as that is the one that the timer uses.
@pytest.mark.timeout(120, method="thread")
class TestSignals:
    """By real signals at random moments, on a file with a flusher at work."""

    @pytest.fixture(autouse=True)
    def no_callbacks(self) -> Iterator[None]:
        """Take away the collector's callbacks, one of hypothesis: interrupts in them are lost."""
        before = gc.callbacks[:]
        gc.callbacks.clear()
        yield
        gc.callbacks.extend(before)

    def test_changes(self, tmp_path: Path) -> None:
        """A change that a signal interrupts is done or not, thousands of times."""
        self.run(tmp_path / "a", turns=3_000, seed=1)

    @pytest.mark.slow
    @pytest.mark.timeout(600, method="thread")
    @pytest.mark.parametrize("seed", range(2, 5))
    def test_changes_for_long(self, tmp_path: Path, seed: int) -> None:
        """The same, more often."""
        self.run(tmp_path / "a", turns=times(20_000), seed=seed)

    def run(self, path: Path, turns: int, seed: int) -> None:
        chance = random.Random(seed)
        model: dict[int, int] = {}
        with memdb.open(path, checkpoint_interval=200, flush_interval=0.05) as db:
            items = db.collection(Item)
            items.insert(Item(0))
            model[1] = 0
            with Timer(seed, 60e-6) as timer:
                for turn in range(turns):
                    after = dict(model)
                    change = self.change(db, items, after, chance, turn)
                    is_done = False
                    try:
                        try:
                            timer.start()
                            change()
                            is_done = True
                        finally:
                            timer.stop()
                    except Interrupt:
                        pass
                    self.compare(items, model, after, is_done)
                    if turn % 500 == 0:
                        assert model == {i: item.n for i, item in items.items()}
                        assert [] == db.check()
            assert timer.count > turns // 10
            assert model == {i: item.n for i, item in items.items()}
        with memdb.open(path) as db:
            assert db.recovery is None
            assert model == {i: item.n for i, item in db.collection(Item).items()}
            assert [] == db.check()

    def compare(
        self,
        items: memdb.Collection[Item],
        model: dict[int, int],
        after: dict[int, int],
        is_done: bool,
    ) -> None:
        """Take what happened into the model, if it is all of the change or nothing."""
        touched = [i for i in model.keys() | after.keys() if model.get(i) != after.get(i)]
        found = {i: item.n for i in touched if (item := items.get(i)) is not None}
        wanted = {i: after[i] for i in touched if i in after}
        if is_done or found == wanted:
            assert wanted == found
            model.clear()
            model.update(after)
        else:
            assert {i: model[i] for i in touched if i in model} == found
        assert len(model) == len(items)

    def change(
        self,
        db: memdb.Database,
        items: memdb.Collection[Item],
        after: dict[int, int],
        chance: random.Random,
        turn: int,
    ) -> Callable[[], object]:
        """Return a random change, and make it in the model."""
        following = 1 + items.stats().last_identity
        some = chance.choice(sorted(after)) if after else 0
        match chance.choice(["insert", "insert_many", "update", "delete", "both"]):
            case "insert_many":
                after.update({following: turn, following + 1: turn})
                return lambda: items.insert_many([Item(turn), Item(turn)])
            case "update" if some:
                after[some] = turn
                return lambda: items.update(some, n=turn)
            case "delete" if len(after) > 20:
                del after[some]
                return lambda: items.delete(some)
            case "both" if some:
                after.update({some: -turn, following: turn})

                def both() -> None:
                    with db.transaction():
                        items.update(some, n=-turn)
                        items.insert(Item(turn))

                return both
        after[following] = turn
        return lambda: items.insert(Item(turn))
