"""What joins keep beside unique indexes is never older than the records."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

import memdb
from memdb import F


@dataclass(frozen=True, slots=True)
class User:
    name: str
    id: int = 0


@dataclass(frozen=True, slots=True)
class Profile:
    user_id: int
    text: str
    id: int = 0


@pytest.fixture
def db() -> memdb.Database:
    """Two users, each with a profile that a unique index finds."""
    db = memdb.open(None)
    db.collection(User).insert_many([User("Ann"), User("Bob")])
    unique = memdb.HashIndex("user_id", unique=True)
    profiles = db.collection(Profile, indexes=[unique])
    profiles.insert_many([Profile(1, "a"), Profile(2, "b")])
    return db


def test_kept_records_follow_the_writes(db: memdb.Database) -> None:
    """After each kind of write the next query finds what is there now."""
    users, profiles = db.collection(User), db.collection(Profile)
    query = users.query().join(profiles, back=F.user_id).prepare()

    def texts() -> list[str | None]:
        # Twice: the first call keeps what the second one finds.
        first = [row.profile and row.profile.text for row in query()]
        assert first == [row.profile and row.profile.text for row in query()]
        return first

    assert texts() == ["a", "b"]
    profiles.update(1, text="changed")
    assert texts() == ["changed", "b"]
    with db.transaction():
        profiles.update(1, user_id=2)
        profiles.update(2, user_id=1)
    assert texts() == ["b", "changed"]
    profiles.delete(2)
    assert texts() == [None, "changed"]
    profiles.insert(Profile(1, "new"))
    assert texts() == ["new", "changed"]
    profiles.put(Profile(1, "put", id=3))
    assert texts() == ["put", "changed"]
    assert profiles.where().update(text="all") == 2
    assert texts() == ["all", "all"]
    profiles.clear()
    assert texts() == [None, None]


def test_kept_records_of_a_rolled_back_transaction(db: memdb.Database) -> None:
    """What was read inside of a transaction that is dropped is not kept."""
    users, profiles = db.collection(User), db.collection(Profile)
    query = users.query().join(profiles, back=F.user_id)
    assert [row.profile.text for row in query] == ["a", "b"]

    with pytest.raises(RuntimeError), db.transaction():
        profiles.update(1, text="inside")
        assert [row.profile.text for row in query] == ["inside", "b"]
        raise RuntimeError

    assert [row.profile.text for row in query] == ["a", "b"]
    assert [row.profile.text for row in query] == ["a", "b"]


def test_kept_records_when_the_index_is_made_anew(db: memdb.Database) -> None:
    """A dropped and added index begins with nothing."""
    users, profiles = db.collection(User), db.collection(Profile)
    query = users.query().join(profiles, back=F.user_id).prepare()
    assert [row.profile.text for row in query()] == ["a", "b"]

    profiles.indexes.drop("user_id")
    profiles.update(1, text="changed")
    assert [row.profile.text for row in query()] == ["changed", "b"]
    profiles.indexes.add(memdb.HashIndex("user_id", unique=True))

    assert [row.profile.text for row in query()] == ["changed", "b"]
