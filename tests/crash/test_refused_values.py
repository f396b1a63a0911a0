"""A value that the serializer refuses changes neither the memory nor the file (A1)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import memdb
from tests.crash.children import Account, collections, state_of


class Opaque:
    """Something that no serializer holds."""

    def __reduce__(self) -> Any:
        raise TypeError("not to be pickled")


def bad() -> Account:
    """Return a record whose second tag is refused."""
    return Account("b", 2, ["fine", Opaque()])  # type: ignore[list-item]


WAYS: dict[str, Callable[[memdb.Collection[Any]], object]] = {
    "insert": lambda own: own.insert(bad()),
    "insert_many": lambda own: own.insert_many([Account("c", 3), bad()]),
    "put": lambda own: own.put(bad()),
    "update": lambda own: own.update(1, tags=["fine", Opaque()]),
    "update with a record": lambda own: own.update(1, bad()),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("durability", ["buffered", "written", "synced"])
@pytest.mark.parametrize("serializer", ["binary", "json", "msgpack", "pickle"])
def test_a1_refused_value_leaves_the_file_byte_for_byte(
    tmp_path: Path, serializer: str, durability: Any, way: str
) -> None:
    """A refused value is an error that names the field; the file is byte-identical."""
    path = tmp_path / "a.memdb"
    settings: dict[str, Any] = {
        "serializer": serializer,
        "durability": durability,
        "flush_interval": 1000,
    }
    with memdb.open(path, **settings) as db:
        own = collections(db)["Account"]
        own.insert(Account("a", 1))
        db.flush()
        before, state = path.read_bytes(), state_of(db)
        with pytest.raises(memdb.EncodeError) as caught:
            WAYS[way](own)
        after, state_after = path.read_bytes(), state_of(db)
        later = own.insert(Account("later", 3))
        findings = db.check()
    with memdb.open(path, serializer=serializer) as db:
        found = [account.owner for account in collections(db)["Account"]]

    # pickle can't say where in the record it met the value.
    assert serializer == "pickle" or "tags[1]" in f"{caught.value.field} {caught.value}"
    assert (before, state) == (after, state_after)
    assert (2, [], ["a", "later"]) == (later, findings, found)


@pytest.mark.parametrize("serializer", ["binary", "json", "msgpack"])
def test_a1_refused_first_record_of_a_new_file(tmp_path: Path, serializer: str) -> None:
    """Not even the catalogue is written for a first record that is refused."""
    path = tmp_path / "a.memdb"
    memdb.open(path).close()
    before = path.read_bytes()
    with memdb.open(path, serializer=serializer) as db:
        during = path.read_bytes()
        with pytest.raises(memdb.EncodeError):
            collections(db)["Account"].insert(bad())
        after = path.read_bytes()

    assert during == after
    assert before == path.read_bytes()


def test_a1_refused_value_in_a_transaction_leaves_the_rest(tmp_path: Path) -> None:
    """A refused value that is caught inside a transaction takes nothing else with it."""
    path = tmp_path / "a.memdb"
    with memdb.open(path) as db:
        own = collections(db)["Account"]
        with db.transaction():
            own.insert(Account("a", 1))
            with pytest.raises(memdb.EncodeError):
                own.insert(bad())
            own.insert(Account("c", 3))
    with memdb.open(path) as db:
        found = {
            identity: account.owner for identity, account in collections(db)["Account"].items()
        }

    assert {1: "a", 2: "c"} == found
