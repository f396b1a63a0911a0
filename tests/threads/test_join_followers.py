"""Joins of readers and views beside transfers and compactions: no answer mixes two commits."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import memdb
from tests.support.bank import INDEXES, Bank
from tests.support.concurrently import and_then, run_all, switching_often, until


@pytest.fixture(autouse=True)
def often() -> Iterator[None]:
    """Let threads take turns often."""
    with switching_often():
        yield


def transfers(
    bank: Bank, is_over: threading.Event, looks: list[int], compacts: int = 0
) -> Callable[[], None]:
    """Return a function that transfers until others have looked often enough."""
    chance = random.Random(0)

    def write() -> None:
        turns = 0
        while turns < 40 or (min(looks) < 20 and not is_over.is_set()):
            bank.transfer(chance)
            turns += 1
            if compacts and turns % compacts == 0:
                assert isinstance(bank.db, memdb.Database)
                bank.db.compact()

    return write


@pytest.mark.parametrize("cache", ["all", "none", 10])
@pytest.mark.parametrize("indexes", INDEXES)
def test_beside_a_thread_that_compacts(tmp_path: Path, indexes: str, cache: Any) -> None:
    """In the writer itself each answer is of one commit, whatever slots are called meanwhile."""
    with memdb.open(tmp_path / "a") as db:
        bank = Bank(db, indexes=indexes, cache=cache)
        bank.fill()
        is_over = threading.Event()
        chances = [random.Random(seed) for seed in range(3)]
        looks = [0]

        def look() -> None:
            bank.check(chances[1])
            looks[0] += 1

        run_all(
            and_then(is_over, transfers(bank, is_over, looks)),
            and_then(is_over, until(is_over, look)),
            and_then(is_over, until(is_over, db.compact)),
        )
        bank.check_all(chances[2])

        assert [] == db.check()


@pytest.mark.parametrize("cache", ["all", "none", 10])
@pytest.mark.parametrize("indexes", INDEXES)
def test_of_a_reader(tmp_path: Path, indexes: str, cache: Any) -> None:
    """Each answer of a reader is of one commit, while it refreshes and the file changes."""
    path = tmp_path / "a"
    with memdb.open(path) as writer, memdb.open(path, "r") as reader:
        bank = Bank(writer, indexes="hash")
        seen = Bank(reader, indexes=indexes, cache=cache)
        bank.fill()
        reader.refresh()
        is_over = threading.Event()
        chances = [random.Random(seed) for seed in range(3)]
        looks = [0, 0]

        def look(place: int) -> None:
            seen.check(chances[place])
            looks[place] += 1

        run_all(
            and_then(is_over, transfers(bank, is_over, looks, compacts=7)),
            and_then(is_over, until(is_over, lambda: look(0))),
            and_then(is_over, until(is_over, lambda: look(1))),
            and_then(is_over, until(is_over, reader.refresh)),
        )
        reader.refresh()
        seen.check_all(chances[2])

        assert [query.to_dicts() for query in bank.self_joins()] == [
            query.to_dicts() for query in seen.self_joins()
        ]
        assert [] == reader.check()


@pytest.mark.parametrize("cache", ["all", "none"])
def test_of_views(tmp_path: Path, cache: Any) -> None:
    """A view of the writer, of a reader or of the past answers the same as long as it is open."""
    path = tmp_path / "a"
    with memdb.open(path) as writer, memdb.open(path, "r", refresh=0.001) as reader:
        bank = Bank(writer, indexes="hash", cache=cache)
        bank.fill()
        with writer.view() as view:
            first = view.slot
        reader.refresh()
        Bank(reader, indexes="sorted", cache=cache)
        is_over = threading.Event()
        looks = [0, 0, 0]

        def look(place: int, make: Callable[[], memdb.View]) -> Callable[[], None]:
            chance = random.Random(place)

            def at_one_commit() -> None:
                looks[place] += 1
                try:
                    view = make()
                except memdb.CommitNotFoundError:
                    # From before the last compaction.
                    return
                with view:
                    own = Bank(view, indexes="sorted" if place == 1 else "hash", cache=cache)
                    before = [query.to_dicts() for query in own.self_joins()]
                    own.check(chance)
                    assert before == [query.to_dicts() for query in own.self_joins()]

            return until(is_over, at_one_commit)

        def past() -> memdb.View:
            with writer.view() as now:
                return writer.at(random.Random(looks[2]).randint(first, now.slot))

        run_all(
            and_then(is_over, transfers(bank, is_over, looks, compacts=20)),
            and_then(is_over, look(0, writer.view)),
            and_then(is_over, look(1, reader.view)),
            and_then(is_over, look(2, past)),
        )
