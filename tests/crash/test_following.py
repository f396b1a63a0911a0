"""A reader process beside writers that commit, compact, close, die and come back (B7)."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import memdb
from memdb import F
from tests.crash.rounds import SIZE, Counter, begin, write_rounds
from tests.support.processes import Child


class Reader:
    """Asks one of several questions each time; the answers must be of one round, and in order."""

    def __init__(self, db: memdb.Database) -> None:
        self.counters = db.collection(
            Counter,
            indexes=[
                memdb.HashIndex("place", unique=True),
                memdb.HashIndex("round", name="hashed"),
                memdb.SortedIndex("round", name="sorted"),
            ],
        )
        self.places = db.collection("places", key="place", indexes=[memdb.HashIndex("round")])
        rows = self.places.where().join_many(self.counters, on=(F.round, F.round), as_="same")
        self.questions: list[Callable[[], list[int]]] = [
            lambda: [counter.round for counter in self.counters],
            lambda: [place["round"] for place in self.places],
            lambda: self.counters.where().order_by("-round").values(F.round).all(),
            lambda: self.counters.where(F.round >= 0).values(F.round).all(),
            lambda: [row.places["round"] for row in rows.all() for _ in row.same[: SIZE + 1]],
            lambda: [len(self.counters.where(F.place >= 0).all())],
        ]
        self.last = 0

    def ask(self, chance: random.Random) -> None:
        """Ask a question."""
        number = chance.randrange(len(self.questions))
        found = self.questions[number]()
        if number == 5:
            assert found == [SIZE]
            return
        assert len(set(found)) == 1, f"of several commits: {sorted(set(found))}"
        assert len(found) == (SIZE * SIZE if number == 4 else SIZE)
        assert found[0] >= self.last, f"round {found[0]} after {self.last}"
        self.last = found[0]


def follow(path: Path, settings: dict[str, Any], queries: int, rounds: int, kills: int) -> None:
    """Ask beside writers that are killed, until there were so many queries, rounds and kills."""
    chance = random.Random(queries)
    with memdb.open(path) as db:
        begin(db)
    asked = killed = 0
    seen = set()
    is_manual = "refresh" not in settings
    with memdb.open(path, "r", **settings) as db:
        reader = Reader(db)
        while asked < queries or len(seen) < rounds or killed < kills:
            durability = chance.choice(("buffered", "written", "written", "synced"))
            acknowledged = 0
            with Child(write_rounds, str(path), chance.randrange(10**9), durability) as child:
                end = time.monotonic() + chance.choice((0.02, 0.1, 0.5))
                while time.monotonic() < end or not acknowledged:
                    while child.connection.poll():
                        acknowledged = child.receive()
                    if is_manual:
                        db.refresh()
                        reader.ask(chance)
                        asked += 1
                        if acknowledged:
                            # What had been acknowledged before the refresh is there.
                            assert max(counter.round for counter in reader.counters) >= acknowledged
                    else:
                        reader.ask(chance)
                        asked += 1
                    seen.add(reader.last)
                child.kill()
                killed += 1
        db.refresh()
        assert [] == db.check()
        with memdb.open(path) as writer:
            assert list(reader.counters) == list(writer.collection(Counter))
            assert [] == writer.check()


@pytest.mark.parametrize(
    "settings", [{}, {"cache": "none"}, {"refresh": 0.002}], ids=["manual", "uncached", "by itself"]
)
def test_a_reader_beside_dying_writers(tmp_path: Path, settings: dict[str, Any]) -> None:
    """Each query is of one commit, none older than the one before, whatever the writers do."""
    follow(tmp_path / "a.memdb", settings, queries=1_000, rounds=100, kills=5)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize(
    "settings", [{}, {"cache": "none"}, {"refresh": 0.001}], ids=["manual", "uncached", "by itself"]
)
def test_10_000_queries_beside_dying_writers(tmp_path: Path, settings: dict[str, Any]) -> None:
    """The same, for 10,000 queries and a hundred writers."""
    follow(tmp_path / "a.memdb", settings, queries=10_000, rounds=2_000, kills=100)
