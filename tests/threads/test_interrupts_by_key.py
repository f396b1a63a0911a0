"""Interrupts (Ctrl-C) of changes by natural key: done or not, in the index as in the file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import memdb
from memdb.indexes import _hashed as hashed
from tests.support.effort import every
from tests.support.interrupts import Interrupt, interrupted_at

# More than any of the operations here has.
MOST_PLACES = 5_000

# So many numbers fit into the table of the index as it is made here.
FULL = 10


@dataclass
class User:
    name: str
    n: int = 0


Users = memdb.KeyedCollection[User]

# name -> how many numbers the table has before, and the change.
OPERATIONS: dict[str, tuple[int, Callable[[Users], object]]] = {
    "insert": (FULL - 1, lambda users: users.insert(User("new"))),
    "insert into a full table": (FULL, lambda users: users.insert(User("new"))),
    "insert a deleted one": (FULL, lambda users: users.insert(User("0"))),
    "insert_many": (FULL - 1, lambda users: users.insert_many([User("new"), User("newer")])),
    "put new": (FULL - 1, lambda users: users.put(User("new"))),
    "put": (FULL, lambda users: users.put(User("1", 5))),
    "update": (FULL, lambda users: users.update("1", n=5)),
    "delete": (FULL, lambda users: users.delete("1")),
    "clear": (FULL, lambda users: users.clear()),
}


def make_users(count: int) -> tuple[memdb.Database, Users]:
    """Return a database in memory with users, the first of whom is deleted."""
    db = memdb.open(None)
    users = db.collection(User, key="name")
    for number in range(count):
        users.insert(User(str(number)))
    users.delete("0")
    assert FULL - count == users._store.identities.room  # type: ignore[attr-defined]
    list(users)
    return db, users


def state(users: Users) -> dict[Any, User]:
    """Return all users by key, after looking each up."""
    found = dict(users.items())
    assert len(users) == len(found)
    assert [*found.values()] == [users[name] for name in found]
    return found


def state_of_file(db: memdb.Database, path: Path) -> dict[Any, User]:
    """Return what a reader of the bytes as they are would see."""
    file = db._engine.log._file
    path.write_bytes(file.read(0, file.length()))
    with memdb.open(path, "r") as reader:
        return state(reader.collection(User, key="name"))


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("step", [7, pytest.param(every(1), marks=pytest.mark.slow, id="1")])
def test_every_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, step: int) -> None:
    """Wherever a change by key is interrupted, it is done or not, and later ones are made."""
    monkeypatch.setattr(hashed, "_LEAST_BITS", 4)
    count, operation = OPERATIONS[name]
    db, users = make_users(count)
    before = state(users)
    operation(users)
    after = state(users)
    if name == "insert":
        step = 1
    for number in range(0, MOST_PLACES, step):
        db, users = make_users(count)
        place = ""
        try:
            with interrupted_at(number) as interrupt:
                operation(users)
        except Interrupt as error:
            place = str(error)
        if not interrupt.is_done:
            break
        found = state(users)
        assert found in (before, after), place
        assert found == state_of_file(db, tmp_path / "copy"), place
        for each in ("later", "new", "0"):
            users.put(User(each, 7))
        users.put(User("1", 7))
        users.delete("new")
        later = {**found, "later": User("later", 7), "0": User("0", 7), "1": User("1", 7)}
        later.pop("new", None)
        assert later == state(users) == state_of_file(db, tmp_path / "copy"), place
        assert [] == db.check(), place
        db.close()
    assert 3 < number < MOST_PLACES - step
