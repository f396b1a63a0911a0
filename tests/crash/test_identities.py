"""An identity is given once, whatever was deleted and however the process ended (C4)."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import memdb
from tests.crash import children
from tests.crash.children import collections, record_of
from tests.support.effort import times
from tests.support.processes import Child

MODES = ("buffered", "written", "synced")


def use_up(path: Path, durability: str, rounds: int) -> None:
    """Kill writers of one file again and again; no identity is given by two of them, or twice."""
    chance = random.Random(durability)
    given: dict[str, set[int]] = {name: set() for name in children.COLLECTIONS}
    for seed in range(rounds):
        stop = chance.randint(1, 60)
        with Child(children.use_up_identities, str(path), durability, seed) as child:
            for number, (name, identities) in enumerate(child.messages()):
                assert not given[name] & set(identities), f"seed {seed}: given twice"
                given[name] |= set(identities)
                if number == stop:
                    child.kill()
        with memdb.open(path, "r") as db:
            for name, collection in collections(db).items():
                last = collection.stats().last_identity
                assert last >= max(given[name], default=0), f"seed {seed}: forgotten"
    with memdb.open(path) as db:
        for name, collection in collections(db).items():
            collection.clear()
            assert collection.insert(record_of(name, (1, "a"))) > max(given[name])
        assert [] == db.check()


@pytest.mark.parametrize("durability", MODES)
def test_c4_killed_writers_give_no_identity_twice(tmp_path: Path, durability: str) -> None:
    """After each kill -9 the next identity is one that no committed record ever had."""
    use_up(tmp_path / "a.memdb", durability, 5)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("durability", MODES)
def test_c4_killed_writers_give_no_identity_twice_for_long(tmp_path: Path, durability: str) -> None:
    """The same, two hundred times."""
    use_up(tmp_path / "a.memdb", durability, times(200))


@pytest.mark.parametrize("durability", MODES)
@pytest.mark.parametrize("how", ["delete", "clear", "transaction", "insert and delete"])
@pytest.mark.parametrize("identity", [0, 10**12])
def test_c4_the_highest_is_deleted(
    tmp_path: Path, durability: Any, how: str, identity: int
) -> None:
    """The identity after a deleted highest one, own or assigned, is new, closed or killed."""
    path = tmp_path / "a.memdb"
    with memdb.open(path, durability=durability) as db:
        notes = db.collection("notes")
        notes.insert_many([{}, {}])
        highest = notes.insert({"id": identity})
        if how == "delete":
            notes.delete(highest)
        elif how == "clear":
            notes.clear()
        elif how == "transaction":
            with db.transaction():
                notes.delete(highest)
                notes.clear()
        else:
            with db.transaction():
                notes.delete(highest)
                assert highest + 1 == notes.insert({})
            notes.delete(highest + 1)
            highest += 1
        db.flush()
        # As a kill leaves it.
        killed = tmp_path / "killed.memdb"
        killed.write_bytes(path.read_bytes())
        assert highest + 1 == notes.insert({})
    for file, following in ((path, highest + 2), (killed, highest + 1)):
        for number in range(2):
            with memdb.open(file) as db:
                notes = db.collection("notes")
                assert following + number == notes.insert({})
                notes.delete(following + number)
