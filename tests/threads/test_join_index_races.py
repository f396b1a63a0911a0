"""Joins beside a thread that adds and drops the index that they use: each place met on purpose."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import memdb
from memdb import F, HashIndex, P, SetIndex, SortedIndex
from memdb._index_set import IndexSet
from memdb.query import _joined_plans
from tests.support.concurrently import and_then, run_all, switching_often, until
from tests.threads.test_index_races import in_thread


@dataclass
class Left:
    a: int
    id: int = 0


@dataclass
class Right:
    """`b` is as `a`, in the other direction; so that each index but that of `a` is a wrong one."""

    a: int
    b: int
    ids: list[int]
    id: int = 0


COUNT = 30

INDEXES: dict[str, Callable[[], Any]] = {
    "hash": lambda: HashIndex("a", name="i"),
    "unique": lambda: HashIndex("a", name="i", unique=True),
    "sorted": lambda: SortedIndex("a", name="i"),
    "set": lambda: SetIndex("ids", name="i"),
}
OTHERS: dict[str, Callable[[], Any]] = {
    "none": lambda: None,
    **INDEXES,
    "hash of another": lambda: HashIndex("b", name="i"),
    "unique of another": lambda: HashIndex("b", name="i", unique=True),
    "sorted of another": lambda: SortedIndex("b", name="i"),
    "partial": lambda: HashIndex("a", name="i", where=F.a < 5),
}

JOINS: dict[str, Callable[[Any, Any], Any]] = {
    "pair": lambda lefts, rights: lefts.where().join(rights, on=(F.a, F.a), as_="found"),
    "inner": lambda lefts, rights: lefts.where().join(
        rights, on=(F.a, F.a), as_="found", how="inner"
    ),
    "pairs": lambda lefts, rights: lefts.where().join_many(rights, on=(F.a, F.a), as_="found"),
    "few": lambda lefts, rights: (
        lefts.where().limit(1).join_many(rights, on=(F.a, F.a), as_="found")
    ),
    "back": lambda lefts, rights: lefts.where().join(rights, back=F.a, as_="found"),
    "backs": lambda lefts, rights: lefts.where().join_many(rights, back=F.a, as_="found"),
    "elements": lambda lefts, rights: lefts.where().join(rights, back=F.ids, as_="found"),
    "nested": lambda lefts, rights: lefts.where().join_many(
        rights,
        on=(F.a, F.a),
        then=lambda q: q.join(rights, on=(F.a, F.a), as_="same"),
        as_="found",
    ),
}
WAYS: dict[str, Callable[[Any], Any]] = {
    "all": lambda query: query.all(),
    "prepared": lambda query: query.prepare()(),
}


def filled(db: memdb.Database) -> tuple[Any, Any]:
    """Return collections of which each left belongs to one right."""
    lefts, rights = db.collection(Left), db.collection(Right)
    lefts.insert_many([Left(n) for n in range(1, COUNT + 1)])
    rights.insert_many([Right(n, COUNT - n, [n]) for n in range(1, COUNT + 1)])
    return lefts, rights


def replace(rights: Any, other: Any) -> None:
    """Drop the index, and add one of the same name."""
    if "i" in rights.indexes:
        rights.indexes.drop("i")
    if other is not None:
        rights.indexes.add(other)


@pytest.mark.parametrize("when", ["chosen", "caught up"])
@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("index", INDEXES)
def test_replaced_while_it_is_made(
    monkeypatch: pytest.MonkeyPatch, index: str, other: str, when: str
) -> None:
    """Whether another thread drops the index or gives its name to another, answers are right."""
    access_of, catch_up = _joined_plans.access_of, IndexSet.catch_up
    waiting: list[Any] = []

    def meddle() -> None:
        if waiting:
            rights = waiting.pop()
            in_thread(lambda: replace(rights, OTHERS[other]()))

    def chosen(*given: Any) -> Any:
        found = access_of(*given)
        if when == "chosen":
            meddle()
        return found

    def caught_up(self: IndexSet, names: Any = ()) -> Any:
        view = catch_up(self, names)
        if when == "caught up" and "i" in names:
            meddle()
        return view

    for name, build in JOINS.items():
        for way, ask in WAYS.items():
            with memdb.open(None) as db:
                lefts, rights = filled(db)
                query = build(lefts, rights)
                expected = ask(query)
                replace(rights, INDEXES[index]())
                with monkeypatch.context() as patch:
                    patch.setattr(_joined_plans, "access_of", chosen)
                    patch.setattr(IndexSet, "catch_up", caught_up)
                    waiting.append(rights)
                    found = ask(query)

                assert expected == found, (name, way)
                assert expected == ask(query), (name, way)
                if not waiting:
                    assert (other != "none") is ("i" in rights.indexes)
                    assert query.explain().is_compiled
                waiting.clear()


@pytest.mark.parametrize("index", INDEXES)
def test_in_a_loop(index: str) -> None:
    """Never an exception, never a wrong row: ad hoc, prepared before, with parameters, counted."""
    with memdb.open(None) as db, switching_often():
        lefts, rights = filled(db)
        is_over = threading.Event()
        asks: list[tuple[Callable[[], Any], Any]] = []
        for build in JOINS.values():
            query = build(lefts, rights)
            some = build(lefts, rights.where(F.b <= P.most)).prepare()
            asks += [(query.all, query.all()), (query.count, query.count())]
            asks += [
                (query.prepare(), query.all()),
                (lambda some=some: some(most=COUNT), some(most=COUNT)),
            ]

        def change() -> None:
            for _ in range(15):
                for other in (index, "hash of another", "sorted of another"):
                    replace(rights, OTHERS[other]())
                replace(rights, None)

        def look() -> None:
            for ask, expected in asks:
                assert expected == ask()

        run_all(and_then(is_over, change), until(is_over, look), until(is_over, look))
        look()
