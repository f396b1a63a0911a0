"""Joined queries beside transfers that hold over four collections: no answer mixes two commits."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import memdb
from tests.support.bank import CLASSES, INDEXES, Bank
from tests.support.concurrently import and_then, run_all, switching_often, until
from tests.support.processes import start_script


@pytest.fixture(autouse=True)
def often() -> Iterator[None]:
    """Let threads take turns often."""
    with switching_often():
        yield


@pytest.mark.parametrize("cache", ["all", "none", 10])
@pytest.mark.parametrize("indexes", INDEXES)
@pytest.mark.parametrize("kind", CLASSES)
def test_each_answer_is_of_one_commit(kind: str, indexes: str, cache: Any) -> None:
    """Beside transfers no row and no result ever mixes two commits."""
    with memdb.open(None) as db:
        bank = Bank(db, kind, indexes, cache)
        bank.fill()
        is_over = threading.Event()
        chances = [random.Random(seed) for seed in range(4)]
        looks = [0, 0]

        def write() -> None:
            turns = 0
            while turns < 60 or (min(looks) < 30 and not is_over.is_set()):
                bank.pause_s = turns % 3 * 0.0005
                bank.transfer(chances[0])
                turns += 1

        def look(reader: int) -> None:
            bank.check(chances[1 + reader])
            looks[reader] += 1

        run_all(
            and_then(is_over, write),
            and_then(is_over, until(is_over, lambda: look(0))),
            and_then(is_over, until(is_over, lambda: look(1))),
        )
        bank.check_all(chances[3])

        assert [] == db.check()


def test_beside_two_writers() -> None:
    """Writers in two threads take turns; one of them reads inside of its transactions."""
    with memdb.open(None) as db:
        bank = Bank(db, indexes="hash")
        bank.fill()
        is_over = threading.Event()
        chances = [random.Random(seed) for seed in range(3)]

        def write_and_look() -> None:
            for _ in range(15):
                with db.transaction():
                    bank.transfer(chances[0])
                    bank.look_many(chances[0])
                    bank.look_chained(chances[0])

        def write() -> None:
            for _ in range(40):
                bank.transfer(chances[1])

        run_all(
            and_then(is_over, write_and_look),
            write,
            until(is_over, lambda: bank.check(chances[2])),
        )
        bank.check_all(chances[2])


@pytest.mark.parametrize("indexes", ["none", "hash"])
def test_rolled_back_transactions_are_never_seen(indexes: str) -> None:
    """What a transaction of another thread changes and takes back is in no answer."""
    with memdb.open(None) as db:
        bank = Bank(db, indexes=indexes)
        bank.fill()
        is_over = threading.Event()
        chances = [random.Random(seed) for seed in range(2)]
        before = [query.to_dicts() for query in bank.self_joins()]

        def write() -> None:
            for _ in range(40):
                with pytest.raises(ZeroDivisionError), db.transaction():
                    bank.transfer(chances[0])
                    bank.branches.update(1, cents=-1)
                    bank.entries.clear()
                    raise ZeroDivisionError

        def look() -> None:
            bank.check(chances[1])
            assert before == [query.to_dicts() for query in bank.self_joins()]

        run_all(and_then(is_over, write), until(is_over, look))
        bank.check_all(chances[1])


def test_indexes_come_and_go_beside_joins() -> None:
    """Answers are of one commit while indexes are added, renamed and dropped."""
    with memdb.open(None) as db:
        bank = Bank(db)
        bank.fill()
        is_over = threading.Event()
        chances = [random.Random(seed) for seed in range(3)]

        def change() -> None:
            for name in ("hash", "sorted") * 3:
                for table, indexes in INDEXES[name]().items():
                    collection = getattr(bank, table)
                    for index in indexes:
                        collection.indexes.add(index)
                        bank.transfer(chances[0])
                    for each in list(collection.indexes):
                        collection.indexes.rename(each, f"{each} again")
                        collection.indexes.drop(f"{each} again")
                        bank.transfer(chances[0])

        run_all(
            and_then(is_over, change),
            until(is_over, lambda: bank.check(chances[1])),
            until(is_over, lambda: bank.check(chances[2])),
        )
        bank.check_all(chances[1])


_WRITER = """
import random, sys
import memdb
from tests.support.bank import Bank
with memdb.open(sys.argv[1], flush_interval=0.01, checkpoint_interval=50) as db:
    bank = Bank(db, indexes="hash")
    bank.fill()
    print("ready", flush=True)
    chance = random.Random(5)
    for turn in range(int(sys.argv[2])):
        bank.transfer(chance)
print("done", flush=True)
"""


def test_readers_of_other_processes(tmp_path: Path) -> None:
    """A reader of the file sees one commit over all collections, while another process writes."""
    path = tmp_path / "bank.memdb"
    writer = start_script(_WRITER, path, 300)
    try:
        assert writer.stdout is not None
        assert "ready\n" == writer.stdout.readline()
        chance = random.Random(2)
        count = 0
        while writer.poll() is None or count < 3:
            with memdb.open(path, "r") as db:
                Bank(db).check_all(chance)
            count += 1
        out, errors = writer.communicate(timeout=60)
    finally:
        writer.kill()
        writer.wait()

    assert ("done\n", "", 0) == (out, errors, writer.returncode)
    with memdb.open(path) as db:
        Bank(db, indexes="hash").check_all(chance)
        assert [] == db.check()
