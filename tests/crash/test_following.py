"""A reader process beside writers that commit, compact, close, die and come back (B7)."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import pytest

import memdb
from memdb import F, P
from tests.crash.rounds import SIZE, Counter, begin, write_rounds
from tests.support.effort import times
from tests.support.processes import Child


class Reader:
    """Asks one of several questions each time; the answers must be of one round, and in order."""

    def __init__(self, db: memdb.Database) -> None:
        self.db = db
        self.counters = db.collection(
            Counter,
            indexes=[
                memdb.HashIndex("place", unique=True),
                memdb.HashIndex("round", name="hashed"),
                memdb.SortedIndex("round", name="sorted"),
            ],
        )
        self.places = db.collection("places", key="place", indexes=[memdb.HashIndex("round")])
        counters, places = self.counters.where(), self.places.where()
        on = (F.round, F.round)
        joined = places.join_many(self.counters, on=on, as_="same")
        nested = places.limit(2).join_many(
            counters.order_by("-place").limit(2),
            on=on,
            how="inner",
            as_="last",
            then=lambda q: q.join_many(self.places, on=on, as_="again"),
        )
        prepared = (
            self.counters.where(F.place >= P.least)
            .join_many(self.places, on=on, how="inner", as_="same")
            .prepare()
        )
        # Each gives records, or rows of such, and is told how many there are.
        self.questions: list[tuple[Callable[[], Any], int]] = [
            (lambda: self.counters, SIZE),
            (lambda: self.places, SIZE),
            (lambda: counters.order_by("-round").all(), SIZE),
            (lambda: self.counters.where(F.round >= 0).all(), SIZE),
            (lambda: self.counters.where(F.place >= 0).order_by("place").all(), SIZE),
            (lambda: self.counters.find_all(lambda counter: counter.place >= 0), SIZE),
            (self.of_a_view, 2 * SIZE),
            (joined.all, SIZE * (1 + SIZE)),
            (lambda: prepared(least=0), SIZE * (1 + SIZE)),
            (nested.all, 2 * (1 + 2 * (1 + SIZE))),
        ]
        self.last = 0

    def of_a_view(self) -> list[Any]:
        """Return what a view has of two collections, one after the other."""
        with self.db.view() as view:
            places = list(view.collection(self.places))
            return [*places, *view.collection(self.counters)]

    def ask(self, chance: random.Random) -> None:
        """Ask a question."""
        question, count = chance.choice(self.questions)
        found = [number for each in question() for number in rounds_of(each)]
        assert len(set(found)) == 1, f"of several commits: {sorted(set(found))}"
        assert len(found) == count
        assert found[0] >= self.last, f"round {found[0]} after {self.last}"
        self.last = found[0]


def rounds_of(found: Any) -> list[int]:
    """Return the round of a record, or of each in a row and in rows in it."""
    if isinstance(found, memdb.Row | tuple):
        return [number for each in found for number in rounds_of(each)]
    return [found["round"] if isinstance(found, dict) else found.round]


@dataclass
class Followed:
    """How much was seen; see `follow`."""

    queries: int = 0
    rounds: int = 0
    kills: int = 0
    files: int = 0

    def is_less_than(self, wanted: Followed) -> bool:
        """Whether there has to be more of anything."""
        return any(own < other for own, other in zip(astuple(self), astuple(wanted), strict=True))


def follow(path: Path, settings: dict[str, Any], wanted: Followed) -> None:
    """Ask beside writers that commit, compact, close and are killed, until all was seen enough."""
    chance = random.Random(wanted.queries)
    with memdb.open(path) as db:
        begin(db)
    seen = Followed()
    is_manual = "refresh" not in settings
    with memdb.open(path, "r", **settings) as db:
        reader, log = Reader(db), db._engine.log
        file_id = log.file_id
        while seen.is_less_than(wanted):
            durability = chance.choice(("buffered", "written", "written", "synced"))
            acknowledged = 0
            with Child(write_rounds, str(path), chance.randrange(10**9), durability) as child:
                end = time.monotonic() + chance.choice((0.02, 0.1, 0.5))
                while time.monotonic() < end or not acknowledged:
                    while child.connection.poll():
                        acknowledged = child.receive()
                    if is_manual:
                        db.refresh()
                    before = reader.last
                    reader.ask(chance)
                    if is_manual and acknowledged:
                        # What had been acknowledged before the refresh is there.
                        assert max(counter.round for counter in reader.counters) >= acknowledged
                    seen.queries += 1
                    seen.rounds += reader.last > before
                    seen.files += log.file_id != file_id
                    file_id = log.file_id
                child.kill()
                seen.kills += 1
        db.refresh()
        assert [] == db.check()
        with memdb.open(path) as writer:
            assert list(reader.counters) == list(writer.collection(Counter))
            assert list(reader.places) == list(writer.collection("places", key="place"))
            assert [] == writer.check()


SETTINGS: dict[str, dict[str, Any]] = {
    "manual": {},
    "uncached": {"cache": "none"},
    "by itself": {"refresh": 0.002},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_b7_a_reader_beside_dying_writers(tmp_path: Path, name: str) -> None:
    """Each query is of one commit, none older than the one before, whatever the writers do."""
    wanted = Followed(queries=500, rounds=60, kills=4, files=1)
    follow(tmp_path / "a.memdb", SETTINGS[name], wanted)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", SETTINGS)
def test_b7_10_000_queries_beside_dying_writers(tmp_path: Path, name: str) -> None:
    """The same, for 10,000 queries and a hundred writers."""
    wanted = Followed(times(10_000), times(1_000), kills=times(100), files=times(20))
    follow(tmp_path / "a.memdb", SETTINGS[name], wanted)
