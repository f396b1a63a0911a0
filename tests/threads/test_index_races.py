"""Indexes beside interrupts, forks and other threads, each race met on purpose where it can be."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

import memdb
from memdb import _index_set
from memdb._index_set import IndexSet
from memdb.query import F, P, _plans, _prepared
from memdb.query._plan_source import PlanWriter
from tests.support.concurrently import and_then, run_all, switching_often, until
from tests.support.effort import every
from tests.support.interrupts import Interrupt, interrupted_at
from tests.support.processes import in_fork

# More than any of the operations here has.
MOST_PLACES = 5_000


@dataclass
class Item:
    a: int = 0
    s: str = ""
    tags: list[str] = field(default_factory=list)
    id: int = 0


def in_thread(work: Callable[[], object]) -> None:
    """Let another thread do something, and wait for it; a deadlock fails."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive(), "a deadlock"
    if errors:
        raise errors[0]


# -- interrupts --------------------------------------------------------------------------------

KINDS: dict[str, tuple[Callable[[], Any], Callable[[Item], bool], Any]] = {
    "hash": (lambda: memdb.HashIndex("a"), lambda item: item.a == 1, F.a == 1),
    "two": (
        lambda: memdb.HashIndex("a", "s", name="two"),
        lambda item: (item.a, item.s) == (1, "x"),
        (F.a == 1) & (F.s == "x"),
    ),
    "sorted": (lambda: memdb.SortedIndex("a"), lambda item: item.a >= 1, F.a >= 1),
    "texts": (lambda: memdb.SortedIndex("s", "-a"), lambda item: item.s == "x", F.s == "x"),
    "set": (
        lambda: memdb.SetIndex("tags"),
        lambda item: "t" in item.tags,
        F.tags.contains("t"),
    ),
    "column": (lambda: memdb.ColumnIndex("a"), lambda item: item.a == 1, F.a == 1),
    "function": (
        lambda: memdb.HashIndex(key=lambda item: item.a, name="made"),
        lambda item: item.a == 1,
        F.a == 1,
    ),
}
CHANGES: dict[str, Callable[[memdb.Collection[Item]], object]] = {
    "insert": lambda items: items.insert(Item(1, "x", ["t"])),
    "update": lambda items: items.update(1, a=1, s="x", tags=["t", "u"]),
    "same": lambda items: items.update(2, id=2, tags=["t", "new"]),
    "delete": lambda items: items.delete(2),
    "many": lambda items: [
        items.insert_many([Item(1, "x", ["t"]), Item(1, "y", ["t"])]),
        items.update(1, a=1, s="x", tags=["u", "t"]),
        items.delete(2),
        items.update(4, a=7),
    ],
}


def filled(db: memdb.Database, *indexes: Any) -> memdb.Collection[Item]:
    """Return six items, in a collection whose indexes are up to date."""
    items = db.collection(Item, indexes=indexes)
    items.insert_many([Item(n % 2, "xyz"[n % 3], ["t"] if n % 2 else ["u"]) for n in range(6)])
    return items


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", KINDS)
def test_places_of_catching_up(kind: str, change: str) -> None:
    """Wherever catching up is interrupted, the next query is right, and the index whole."""
    # Not all the places where there are many; the slow test takes all.
    is_short = kind in ("hash", "set") and change in ("insert", "update")
    interrupt_catching_up(kind, change, 2 if is_short else 11 if change == "many" else 7)


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_place_of_catching_up(kind: str, change: str) -> None:
    """The same at all places."""
    interrupt_catching_up(kind, change, 1)


def interrupt_catching_up(kind: str, change: str, step: int) -> None:
    """Interrupt an index that catches up at one place after the other, and check what comes."""
    index, matches, condition = KINDS[kind]
    for number in range(0, MOST_PLACES, step):
        with memdb.open(None) as db:
            items = filled(db, index())
            items.where(condition).all()
            CHANGES[change](items)
            place = ""
            try:
                with interrupted_at(number) as interrupt:
                    items._store.indexes.catch_up(list(items.indexes))
            except Interrupt as error:
                place = str(error)
            if not interrupt.is_done:
                break
            expected = [item.id for item in items if matches(item)]
            query = items.where(condition)
            assert expected == query.ids() == [item.id for item in query], place
            assert len(expected) == query.count(), place
            assert sum(item.a for item in items) == items.query().sum("a"), place
            assert [] == db.check(), place
            CHANGES["insert"](items)
            assert len(expected) + 1 == query.count() == len(query.all()), place
    assert 3 < number < MOST_PLACES - step


UNIQUE: dict[str, Callable[[], Any]] = {
    "hash": lambda: memdb.HashIndex("s", unique=True, name="u"),
    "sorted": lambda: memdb.SortedIndex("s", unique=True, name="u"),
    "partial": lambda: memdb.HashIndex("s", unique=True, name="u", where=F.a >= 0),
}
# What is done to the indexes -> the names that there are after it.
OPERATIONS: dict[str, tuple[Callable[[memdb.Collection[Item]], object], list[str]]] = {
    "drop": (lambda items: items.indexes.drop("u"), ["a"]),
    "drop plain": (lambda items: items.indexes.drop("a"), ["u"]),
    "rename": (lambda items: items.indexes.rename("u", "v"), ["a", "v"]),
    "add": (
        lambda items: items.indexes.add(memdb.HashIndex("a", "s", unique=True, name="v")),
        ["a", "u", "v"],
    ),
    "add plain": (lambda items: items.indexes.add(memdb.SortedIndex("tags")), ["a", "u", "tags"]),
}
STEPS = pytest.mark.parametrize(
    "step", [13, pytest.param(every(1), marks=pytest.mark.slow, id="1")]
)


# What is raised in a generator that nobody goes on with comes out nowhere.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@STEPS
@pytest.mark.parametrize("unique", UNIQUE)
@pytest.mark.parametrize("name", OPERATIONS)
def test_every_place_of_changing_the_indexes(name: str, unique: str, step: int) -> None:
    """Wherever an index is interrupted in coming or going, it is there or not, and writes go on."""
    operate, after = OPERATIONS[name]
    for number in range(0, MOST_PLACES, step):
        with memdb.open(None) as db:
            items = db.collection(Item, indexes=[memdb.HashIndex("a"), UNIQUE[unique]()])
            items.insert_many([Item(n, str(n)) for n in range(3)])
            insert = items.insert
            place = ""
            try:
                with interrupted_at(number) as interrupt:
                    operate(items)
            except Interrupt as error:
                place = str(error)
            if not interrupt.is_done:
                break
            names = list(items.indexes)
            assert names in (["a", "u"], after), place
            for write, text in ((items.insert, "new"), (insert, "newer")):
                identity = write(Item(5, text))
                assert [identity] == items.where(F.s == text).ids(), place
                assert [identity] == [item.id for item in items.where(F.s == text)], place
            with db.transaction():
                items.update(1, s="newest")
            refused = 0
            for write in (items.insert, insert):
                try:
                    write(Item(5, "new"))
                except memdb.DuplicateKeyError:
                    refused += 1
            assert (2 if {"u", "v"} & set(names) else 0) == refused, place
            assert [1] == items.where(F.s == "newest").ids(), place
            assert [] == db.check(), place
            # Once more, without an interrupt.
            if names == ["a", "u"]:
                operate(items)
                assert after == list(items.indexes), place
    assert 3 < number < MOST_PLACES - step


@STEPS
@pytest.mark.parametrize("unique", UNIQUE)
@pytest.mark.parametrize("way", ["insert", "insert_many", "update", "delete", "transaction"])
def test_every_place_of_a_write_with_unique_keys(way: str, unique: str, step: int) -> None:
    """Wherever a write is interrupted, its unique keys are taken exactly if it was done."""

    def write(items: memdb.Collection[Item], db: memdb.Database) -> None:
        if way == "insert":
            items.insert(Item(5, "new"))
        elif way == "insert_many":
            items.insert_many([Item(5, "new"), Item(5, "newer")])
        elif way == "update":
            items.update(1, s="new")
        elif way == "delete":
            items.delete(1)
        else:
            with db.transaction():
                items.update(1, s="1")
                items.update(2, s="0")
                items.insert(Item(5, "new"))

    for number in range(0, MOST_PLACES, step):
        with memdb.open(None) as db:
            items = db.collection(Item, indexes=[UNIQUE[unique]()])
            items.insert_many([Item(n, str(n)) for n in range(3)])
            items.where(F.s == "1").all()
            place = ""
            try:
                with interrupted_at(number) as interrupt:
                    write(items, db)
            except Interrupt as error:
                place = str(error)
            if not interrupt.is_done:
                break
            texts = {item.s: item.id for item in items}
            for text in ("0", "1", "2", "new", "newer"):
                expected = [texts[text]] if text in texts else []
                assert expected == items.where(F.s == text).ids(), place
                if expected:
                    with pytest.raises(memdb.DuplicateKeyError):
                        items.insert(Item(0, text))
                else:
                    items.insert(Item(0, text))
            assert [] == db.check(), place
    assert 3 < number < MOST_PLACES - step


ASKS: dict[str, Callable[[memdb.Collection[Item], Any], object]] = {
    "call": lambda items, found: found(a=1),
    "count": lambda items, found: found.count(a=1),
    "all": lambda items, found: items.where(F.a == 1).order_by("s").all(),
    "ids": lambda items, found: items.where(F.a == 1).ids(),
    "sum": lambda items, found: items.where(F.a >= 1).sum("a"),
    "prepare": lambda items, found: items.where(F.a == P.a).prepare()(a=1),
}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("step", [29, pytest.param(every(3), marks=pytest.mark.slow, id="3")])
@pytest.mark.parametrize("ask", ASKS)
def test_every_place_of_compiling(ask: str, step: int) -> None:
    """Wherever a query that is compiled anew is interrupted, all queries are right afterwards."""
    for number in range(0, MOST_PLACES, step):
        with memdb.open(None) as db:
            items = filled(db, memdb.HashIndex("a"), memdb.ColumnIndex("a", name="column"))
            list(items)
            found = items.where(F.a == P.a).prepare()
            found(a=1)
            items._store.indexes.renew()
            items.update(1, a=1)
            place = ""
            try:
                with interrupted_at(number) as interrupt:
                    ASKS[ask](items, found)
            except Interrupt as error:
                place = str(error)
            if not interrupt.is_done:
                break
            for _ in range(2):
                assert [1, 2, 4, 6] == [item.id for item in found(a=1)], place
                assert 4 == found.count(a=1) == items.where(F.a >= 1).sum("a"), place
                assert [1, 4, 2, 6] == items.where(F.a == 1).order_by("s").ids(), place
                assert [1, 2, 4, 6] == items.where(F.a == 1).ids(), place
                items.update(1, tags=[])
            assert [] == db.check(), place
    assert 3 < number < MOST_PLACES - step


# -- writes that began before the indexes changed ----------------------------------------------


@pytest.mark.parametrize("key", [None, "s"])
def test_a_kept_insert_minds_the_present_indexes(key: str | None) -> None:
    """A bound ``insert`` that a program has kept obeys the indexes that there are by now."""
    with memdb.open(None) as db:
        items = db.collection(
            Item,
            indexes=[memdb.HashIndex("s", unique=True, name="u")],
            **({"key": key} if key else {}),
        )
        items.insert(Item(0, "a"))
        insert = items.insert
        insert(Item(1, "b"))
        items.indexes.drop("u")
        items.indexes.add(memdb.HashIndex("a", unique=True, name="u"))
        insert(Item(2, "c"))
        for write in (insert, items.insert):
            with pytest.raises(memdb.DuplicateKeyError):
                write(Item(2, "d"))
        assert 1 == items.where(F.a == 2).count()
        assert [] == db.check()

        items.indexes.drop("u")
        insert(Item(2, "e"))
        assert 2 == items.where(F.a == 2).count()
        items.indexes.add(memdb.HashIndex("s"))
        insert(Item(3, "f"))
        assert 1 == items.where(F.s == "f").count()
        assert [] == db.check()


def test_a_kept_insert_checks_the_keys_of_a_later_index() -> None:
    """A key that can't be one is refused by a kept ``insert``, too."""
    with memdb.open(None) as db:
        items: memdb.Collection[Any] = db.collection(Item)
        items.insert(Item(0, "a"))
        insert = items.insert
        insert(Item(0, "b"))
        items.indexes.add(memdb.HashIndex("s"))
        for write in (insert, items.insert):
            with pytest.raises(memdb.IndexKeyError):
                write(Item(0, []))  # type: ignore[arg-type]

        assert 2 == len(items)
        assert [2] == items.where(F.s == "b").ids()
        assert [] == db.check()


@pytest.mark.parametrize("way", ["insert", "insert_many", "put", "update", "bulk", "transaction"])
@pytest.mark.parametrize("change", ["add", "drop", "rename", "add unique", "drop unique"])
def test_indexes_change_while_a_write_makes_its_keys(way: str, change: str) -> None:
    """A write whose keys are being made when the indexes change is right, or refused as a whole."""
    with memdb.open(None) as db:
        changed: list[bool] = []

        def other(item: Item) -> int:
            if item.s == "new" and not changed:
                changed.append(True)
                in_thread(change_indexes)
            return item.a

        def change_indexes() -> None:
            indexes = items.indexes
            if change == "add":
                indexes.add(memdb.SortedIndex("a", name="more"))
            elif change == "drop":
                indexes.drop("plain")
            elif change == "rename":
                indexes.rename("plain", "more")
            elif change == "add unique":
                indexes.add(memdb.HashIndex("s", unique=True, name="more"))
            else:
                indexes.drop("u")

        def write() -> None:
            new = Item(7, "new", [], 2)
            if way == "insert":
                items.insert(Item(7, "new"))
            elif way == "insert_many":
                items.insert_many([Item(7, "new"), Item(8, "newer")])
            elif way == "put":
                items.put(new)
            elif way == "update":
                items.update(2, new)
            elif way == "bulk":
                items.where(F.s == "b").update(s="new", a=7)
            else:
                with db.transaction():
                    items.update(2, a=7, s="new")
                    items.insert(Item(8, "newer"))

        items = db.collection(
            Item,
            indexes=[
                memdb.HashIndex("a", "s", unique=True, name="u"),
                memdb.HashIndex(key=other, name="made"),
                memdb.HashIndex("s", name="plain"),
                memdb.SortedIndex("s", name="last"),
            ],
        )
        items.insert_many([Item(0, "a"), Item(1, "b")])
        is_refused = False
        try:
            write()
        except memdb.TransactionError:
            is_refused = True

        assert changed
        assert not is_refused or change.endswith("unique")
        texts = {item.s for item in items}
        assert ("new" in texts) is not is_refused
        for text in ("a", "b", "new", "newer"):
            assert (text in texts) == items.where(F.s == text).count()
        assert [] == db.check()


def test_a_plain_index_added_inside_of_a_transaction() -> None:
    """A plain index may come and go while a transaction with unique keys is open."""
    with memdb.open(None) as db:
        items = db.collection(Item, indexes=[memdb.HashIndex("s", unique=True)])
        with db.transaction():
            items.insert(Item(1, "a"))
            items.indexes.add(memdb.SortedIndex("a"))
            items.insert(Item(2, "b"))
            items.indexes.rename("a", "b")
            items.indexes.drop("b")

        assert [1, 2] == items.ids()
        with pytest.raises(memdb.DuplicateKeyError):
            items.insert(Item(3, "a"))


# -- queries beside changes --------------------------------------------------------------------


def drop_once(items: memdb.Collection[Item], function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that drops the index ``a``, the first time, and does what it did."""
    is_done: list[bool] = []

    def wrapper(*arguments: Any, **named: Any) -> Any:
        if not is_done:
            is_done.append(True)
            in_thread(lambda: items.indexes.drop("a"))
        return function(*arguments, **named)

    return wrapper


# Before an index is chosen, and when it is and its code is about to be written.
@pytest.mark.parametrize("step", ["write", "_access"])
@pytest.mark.parametrize("index", [memdb.HashIndex, memdb.SortedIndex, memdb.ColumnIndex])
@pytest.mark.parametrize(
    "ask",
    [
        lambda query: len(query.all()),
        lambda query: query.count(),
        lambda query: len(query.prepare()()),
        lambda query: len(query.order_by("a").all()),
    ],
)
def test_an_index_goes_while_a_query_is_compiled(
    monkeypatch: pytest.MonkeyPatch, index: Any, ask: Callable[[Any], int], step: str
) -> None:
    """An index that is dropped between choosing it and writing the code does no harm."""
    with memdb.open(None) as db:
        items = filled(db, index("a"))
        list(items)
        monkeypatch.setattr(PlanWriter, step, drop_once(items, getattr(PlanWriter, step)))

        assert 3 == ask(items.where(F.a == 1))
        assert 3 == ask(items.where(F.a == 1))
        assert [] == list(items.indexes)


@pytest.mark.parametrize("index", [memdb.HashIndex, memdb.SortedIndex])
def test_an_index_goes_while_its_candidates_are_looked_up(
    monkeypatch: pytest.MonkeyPatch, index: Any
) -> None:
    """An index that is dropped under a query that takes candidates from it does no harm."""
    with memdb.open(None) as db:
        items = filled(db, index("a"))
        looked = drop_once(items, _index_set.best_candidates)
        monkeypatch.setattr(_index_set, "best_candidates", looked)

        assert [2, 4, 6] == items.where(F.a == 1).ids()
        assert [] == list(items.indexes)
        assert [2, 4, 6] == items.where(F.a == 1).ids()


def test_a_plan_of_indexes_that_are_gone_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan that was made while the indexes changed is made again, not asked in vain for ever."""
    with memdb.open(None) as db:
        items = filled(db, memdb.HashIndex("a"))
        list(items)
        indexes: IndexSet = items._store.indexes
        make, turns = _plans.make_plan, 0

        def make_late(*arguments: Any, **named: Any) -> Any:
            nonlocal turns
            turns += 1
            plan = make(*arguments, **named)
            if turns == 1:
                in_thread(indexes.renew)
            return plan

        monkeypatch.setattr(_plans, "make_plan", make_late)
        for _ in range(4):
            assert [2, 4, 6] == [item.id for item in items.where(F.a == 1).all()]

        assert 2 == turns
        kept = [plan for plan in indexes.plans.values() if isinstance(plan, _plans.Plan)]
        assert kept
        assert all(plan.view.is_valid for plan in kept)


def test_candidates_beside_someone_who_always_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A query whose every look at an index somebody outruns is answered all the same."""
    with memdb.open(None) as db:
        items = filled(db, memdb.HashIndex("a"))
        list(items)
        best, commits = _index_set.best_candidates, 0

        def outrun(*arguments: Any, **named: Any) -> Any:
            nonlocal commits
            commits += 1
            assert commits < 200, "starved"
            found = best(*arguments, **named)
            # Who holds the lock lets nobody commit.
            if not db._engine.log.lock.locked():
                in_thread(lambda: items.insert(Item(7)))
            return found

        monkeypatch.setattr(_index_set, "best_candidates", outrun)

        assert [2, 4, 6] == items.where(F.a == 1).ids()
        assert [2, 4, 6] == items.where(F.a == 1, lambda item: True).ids()
        assert [items[2]] == items.where(F.a == 1, F.id < 4, lambda item: True).all()


@pytest.mark.parametrize("way", ["catch_up", "renew"])
def test_prepared_calls_beside_renewals(way: str) -> None:
    """Threads that call one prepared query while it is compiled anew all get its answers."""
    with memdb.open(None) as db, switching_often():
        items = filled(db, memdb.HashIndex("a"))
        list(items)
        found = items.where(F.a == P.a, F.s != P.s).prepare()
        is_over = threading.Event()
        looks = [0, 0, 0]

        def renew() -> None:
            turn = 0
            while turn < 60 or min(looks) < 60:
                if way == "renew":
                    items._store.indexes.renew()
                else:
                    items.indexes.add(memdb.SortedIndex("s"))
                    items.indexes.drop("s")
                turn += 1

        def look(place: int) -> None:
            assert [2, 4, 6] == [item.id for item in found(a=1, s="none")]
            assert 3 == found.count(a=1, s="none")
            looks[place] += 1

        run_all(
            and_then(is_over, renew),
            *[until(is_over, lambda place=n: look(place)) for n in range(3)],  # type: ignore[misc]
        )
        look(0)


def test_a_prepared_call_inside_of_its_own_renewal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two renewals of a prepared query, one inside of the other, leave one that works."""
    with memdb.open(None) as db:
        items = filled(db, memdb.HashIndex("a"))
        list(items)
        found = items.where(F.a == P.a).prepare()
        make, depth = _prepared.make_plan, 0

        def make_twice(*arguments: Any, **named: Any) -> Any:
            nonlocal depth
            plan = make(*arguments, **named)
            depth += 1
            if depth < 4:
                items._store.indexes.renew()
                look()
            depth -= 1
            return plan

        def look() -> None:
            assert [2, 4, 6] == [item.id for item in found(a=1)]
            assert 3 == found.count(a=1)

        monkeypatch.setattr(_prepared, "make_plan", make_twice)
        for _ in range(3):
            items._store.indexes.renew()
            look()
            look()
        assert 0 == depth


# -- locks -------------------------------------------------------------------------------------


def test_a_fork_while_another_thread_builds_an_index() -> None:
    """A child of a fork is told so by queries, whatever lock another thread held at that moment."""
    db = memdb.open(None)
    is_building, may_go_on = threading.Event(), threading.Event()

    def slow(item: Item) -> int:
        is_building.set()
        if threading.current_thread() is builder:
            may_go_on.wait(60)
        return item.a

    items = filled(db, memdb.HashIndex("a"), memdb.HashIndex("a", "s", name="u", unique=True))
    items.where(F.a == 1).all()
    found = items.where(F.a == P.a).prepare()
    builder = threading.Thread(
        target=lambda: items.indexes.add(memdb.HashIndex(key=slow, name="slow")), daemon=True
    )
    builder.start()
    assert is_building.wait(60)
    asks: list[Callable[[], object]] = [
        lambda: items.where(F.a == 1).all(),
        lambda: items.where(F.s == "x").ids(),
        lambda: items.query().sum("a"),
        lambda: items.insert(Item(1)),
        lambda: found(a=1),
        lambda: found.count(a=1),
        lambda: items.indexes.add(memdb.HashIndex("s")),
        lambda: items.indexes.drop("a"),
        lambda: items.indexes.rename("a", "b"),
        lambda: db.check(),
    ]

    def errors() -> list[str]:
        return [error_of(ask) for ask in asks]

    try:
        assert ["ForkedError"] * len(asks) == in_fork(errors)
    finally:
        may_go_on.set()
        builder.join(60)
    assert ["a", "u", "slow"] == list(items.indexes)
    assert 3 == items.where(F.a == 1).count()
    db.close()


def error_of(ask: Callable[[], object]) -> str:
    """Return the name of the error that something raises, "" for none."""
    try:
        ask()
    except Exception as error:
        return type(error).__name__
    return ""


class Struct(msgspec.Struct):
    a: int = 0
    b: int = 0
    id: int = 0


@pytest.mark.parametrize("serializer", ["json", "msgpack", "binary"])
@pytest.mark.parametrize("indexes", [[], [memdb.HashIndex("a")]], ids=["none", "hash"])
def test_a_commit_that_finds_a_record_not_to_be_as_its_class(
    tmp_path: Path, serializer: Any, indexes: list[Any]
) -> None:
    """A transaction that compares with an old record of another type ends."""
    path = tmp_path / "a.memdb"
    with memdb.open(path) as db:
        structs: memdb.Collection[Any] = db.collection(Struct, serializer=serializer)
        structs.insert_many([Struct("x", 1), Struct(1, 1)])  # type: ignore[arg-type]

    def change() -> Any:
        with memdb.open(path) as db:
            structs = db.collection(Struct, serializer=serializer, indexes=indexes)
            found = structs.where(F.b == P.b).prepare()
            with db.transaction():
                structs.delete(1)
                structs.insert(Struct(5, 5, 1))
            return structs[1].a, structs.where(F.a == 5).ids(), len(found(b=5)), db.check()

    # In a child, which is ended if it hangs with the lock.
    assert (5, [1], 1, []) == in_fork(change)


class _FirstLook(dict[str, Any]):
    """No indexes, for whoever looks whether there are any; then something happens."""

    happens: Callable[[], object]

    def __bool__(self) -> bool:
        happens, self.happens = self.happens, lambda: None
        happens()
        return False


@pytest.mark.parametrize("way", ["insert", "insert_many", "put", "update", "transaction"])
@pytest.mark.parametrize("kind", ["unique", "plain"])
def test_the_first_index_comes_while_a_write_makes_no_keys(kind: str, way: str) -> None:
    """A write that found no index is refused when a unique one was added before it ended."""
    with memdb.open(None) as db:
        items = db.collection(Item)
        items.insert_many([Item(0, "a"), Item(1, "b")])
        before = list(items)
        indexes = items._store.indexes
        added: list[bool] = []

        def add() -> None:
            added.append(True)
            in_thread(
                lambda: items.indexes.add(memdb.HashIndex("s", unique=kind == "unique", name="s"))
            )

        looked = _FirstLook()
        looked.happens = add
        indexes._bound = looked
        writes: dict[str, Callable[[], object]] = {
            "insert": lambda: items.insert(Item(7, "a", id=9)),
            "insert_many": lambda: items.insert_many([Item(7, "a"), Item(8, "c")]),
            "put": lambda: items.put(Item(7, "a", id=2)),
            "update": lambda: items.update(2, s="a"),
            "transaction": lambda: in_transaction(db, lambda: items.insert(Item(7, "a"))),
        }
        if kind == "unique":
            with pytest.raises((memdb.TransactionError, memdb.DuplicateKeyError)):
                writes[way]()
        else:
            writes[way]()

        assert added
        assert (before == list(items)) is (kind == "unique")
        expected = [item.id for item in items if item.s == "a"]
        assert expected == items.where(F.s == "a").ids()
        assert [] == db.check()


def in_transaction(db: memdb.Database, work: Callable[[], object]) -> None:
    """Do something in a transaction."""
    with db.transaction():
        work()


def test_no_more_plans_are_kept_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many shapes are asked, the memory of their plans is bounded."""
    monkeypatch.setattr(_plans, "MOST_PLANS", 5)
    with memdb.open(None) as db:
        items = db.collection(Item, indexes=[memdb.HashIndex("a")])
        items.insert_many([Item(n % 3) for n in range(9)])
        condition = F.a == 1
        for number in range(1, 20):
            condition = condition & (F.id != 100 + number)

            assert 3 == len(items.where(condition).all())
            assert 0 < len(items._store.indexes.plans) <= 5
