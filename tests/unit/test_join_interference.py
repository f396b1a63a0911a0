"""A commit in the middle of a joined query, at every place where one can come: deterministic.

A constant that conditions compare with is an object of the test, which lets another thread commit
when it is compared for the n-th time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

import memdb
from memdb import F, P

COUNT = 4


@dataclass
class Left:
    """All of a commit have its stamp, as all rights do; each names two of them."""

    stamp: int
    ref: int
    refs: list[int]
    name: str = ""
    id: int = 0


@dataclass
class Right:
    """A commit deletes all of them and inserts others, so that each row must be of one."""

    stamp: int
    left_id: int
    left_ids: list[int] = field(default_factory=list)
    name: str = ""
    id: int = 0


class Tables:
    """The two collections."""

    def __init__(self, db: memdb.Database, *, is_indexed: bool) -> None:
        self.db = db
        self.stamp = 0
        indexes: list[Any] = [memdb.HashIndex("left_id"), memdb.SetIndex("left_ids")]
        self.lefts = db.collection(Left)
        self.rights = db.collection(Right, indexes=indexes if is_indexed else ())
        self.lefts.insert_many([Left(0, 0, []) for _ in range(COUNT)])
        self.commit()

    def commit(self) -> None:
        """Exchange all rights, and let all lefts name the new ones."""
        self.stamp += 1
        with self.db.transaction():
            self.rights.clear()
            ids = self.rights.insert_many(
                [Right(self.stamp, n, [n, n % COUNT + 1]) for n in range(1, COUNT + 1)]
            )
            for n, identity in enumerate(ids, 1):
                refs = [ids[n % COUNT], identity]
                self.lefts.update(n, Left(self.stamp, identity, refs, id=n))

    def commit_elsewhere(self) -> None:
        """Do so in another thread, which reads it all, and wait for it."""

        def work() -> None:
            self.commit()
            # What is not in the cache, or an index has taken in, would be noticed by itself.
            for each in (self.lefts, self.rights):
                for identity in each.ids():
                    assert self.stamp == each[identity].stamp  # type: ignore[attr-defined]

        thread = threading.Thread(target=work)
        thread.start()
        thread.join(30)
        assert not thread.is_alive()


class Meddling:
    """Equals everything; when it is compared for the n-th time, something happens."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, number: int, act: Callable[[], object]) -> None:
        self.left = number
        self.act = act

    def __eq__(self, other: object) -> bool:
        self.left -= 1
        if self.left == 0:
            self.act()
        return True


Build = Callable[[Tables, Any, Any], Any]
# A query with a condition for the left, and one for the right.
QUERIES: dict[str, Build] = {
    "on": lambda t, left, right: left(t.lefts).join(
        t.rights, on=F.ref, where=right, how="inner", as_="found"
    ),
    "back": lambda t, left, right: left(t.lefts).join(
        t.rights, back=F.left_id, where=right, how="inner", as_="found"
    ),
    "many": lambda t, left, right: left(t.lefts).join_many(
        t.rights, back=F.left_id, where=right, how="inner", as_="found"
    ),
    "list": lambda t, left, right: left(t.lefts).join_many(
        t.rights, on=F.refs, where=right, how="inner", as_="found"
    ),
    "elements": lambda t, left, right: left(t.lefts).join_many(
        t.rights, back=F.left_ids, where=right, how="inner", as_="found"
    ),
    "pair": lambda t, left, right: left(t.lefts).join_many(
        t.rights, on=(F.stamp, F.stamp), where=right, how="inner", as_="found"
    ),
    "nested": lambda t, left, right: left(t.lefts).join_many(
        t.rights,
        on=F.refs,
        where=right,
        how="inner",
        then=lambda q: q.join(t.lefts, on=F.left_id, how="inner", as_="back"),
        as_="found",
    ),
    "chained": lambda t, left, right: (
        left(t.lefts)
        .join(t.rights, on=F.ref, where=right, how="inner", as_="found")
        .join(t.lefts, on=F.found.left_id, how="inner", as_="back")
        .order_by("-back.stamp")
    ),
}
WAYS: dict[str, Callable[[Any], Any]] = {
    "all": lambda query: query.all(),
    "prepared": lambda query: query.prepare()(),
    "count": lambda query: query.count(),
    "prepared count": lambda query: query.prepare().count(),
    "page": lambda query: query.page(0, 2).total,
    "sum": lambda query: query.sum(F.left.id) * COUNT // 10,
}


def stamps_in(value: Any) -> set[int]:
    """Return the stamps of all records in a row."""
    if hasattr(value, "stamp"):
        return {value.stamp}
    return set().union(*map(stamps_in, value))


@pytest.mark.parametrize("place", ["left", "right", "rows"])
@pytest.mark.parametrize("is_indexed", [False, True], ids=["plain", "indexed"])
@pytest.mark.parametrize("name", QUERIES)
def test_commit_in_the_middle(name: str, is_indexed: bool, place: str) -> None:
    """Wherever a commit comes, the answer is of before it or of after it."""
    general: list[tuple[str, Any]] = [("all", "none"), ("count", "none")]
    for way, cache in [*((way, "all") for way in WAYS), *general]:
        number, is_over = 0, False
        while not is_over:
            # Each of the first places, then every third.
            number += 1 if number < 5 else 3
            with memdb.open(None, cache=cache) as db:
                is_over = meddle(db, QUERIES[name], WAYS[way], number, place, is_indexed)
            assert number < 100, way


def meddle(
    db: memdb.Database, build: Build, ask: Any, number: int, place: str, is_indexed: bool
) -> bool:
    """Let a commit come at the n-th comparison of a query; return whether there was none."""
    tables = Tables(db, is_indexed=is_indexed)
    # So that the generated way is what is disturbed.
    build(tables, lambda lefts: lefts.where(), None).all()
    meddling = Meddling(number, tables.commit_elsewhere)
    query = build(
        tables,
        lambda lefts: lefts.where(F.name == meddling) if place == "left" else lefts.where(),
        F.name == meddling if place == "right" else None,
    )
    if place == "rows":
        query = query.where(F.found == meddling)
    found = ask(query)
    is_over = meddling.left > 0

    if isinstance(found, int):
        assert COUNT == found
    else:
        assert COUNT == len(found)
        assert 1 == len(stamps_in(found)), found
        assert stamps_in(found) <= {tables.stamp, tables.stamp - 1}
    return is_over


def test_prepared_with_a_parameter_that_meddles() -> None:
    """A parameter is compared as a constant is: what comes meanwhile is not mixed in."""
    with memdb.open(None) as db:
        tables = Tables(db, is_indexed=True)
        prepared = (
            tables.lefts.where(F.name == P.left)
            .join(tables.rights, on=F.ref, where=F.name == P.right, how="inner")
            .prepare()
        )
        for number in range(1, 2 * COUNT + 4):
            for asked in ("left", "right"):
                given: dict[str, Any] = {"left": "", "right": ""}
                given[asked] = Meddling(number, tables.commit_elsewhere)
                rows = prepared(**given)

                assert COUNT == len(rows)
                assert 1 == len(stamps_in(rows))
                given[asked] = Meddling(number, tables.commit_elsewhere)
                assert COUNT == prepared.count(**given)
