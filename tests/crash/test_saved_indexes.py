"""Indexes saved at checkpoints and at closing, stopped, failed or without power at each call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import memdb
from memdb import ColumnIndex, SortedIndex, _saved_indexes
from memdb._saved_indexes import SavedIndexes
from memdb.indexes import ABSENT
from memdb.storage import _log
from tests.crash import children
from tests.crash.children import Account
from tests.crash.test_sweep import MODES, scenario, sweep, sweep_faults


@pytest.fixture(autouse=True)
def used(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Declare and compare indexes wherever the scenarios ask for collections, save small ones.

    Returns:
        The names of those that were taken from a file.
    """
    names: list[str] = []
    load = SavedIndexes.load

    def noted(self: SavedIndexes, bound: Any) -> Any:
        found = load(self, bound)
        if found is not None:
            names.append(bound.name)
        return found

    monkeypatch.setattr(SavedIndexes, "load", noted)
    monkeypatch.setattr(_saved_indexes, "_LEAST_ENTRIES", 1)
    monkeypatch.setattr(_saved_indexes, "_LEAST_CHANGES", 1)
    monkeypatch.setattr(_log, "_WORTH_A_WRITE_BYTES", 400)
    monkeypatch.setattr(children, "collections", collections)
    return names


def collections(db: memdb.Database) -> dict[str, memdb.Collection[Any]]:
    """Return the collections of the scenarios, once their indexes are as their records."""
    columns = SortedIndex("cents"), ColumnIndex("cents", name="column")
    found: dict[str, memdb.Collection[Any]] = {
        "Account": db.collection(Account, indexes=columns),
        "notes": db.collection("notes", indexes=[SortedIndex("number")]),
    }
    for collection in found.values():
        for name in collection.indexes:
            entries = collection._store.indexes.catch_up([name]).entries[name]
            expected = {
                identity: record.cents
                if isinstance(record, Account)
                else record.get("number", ABSENT)
                for identity, record in collection.items()
            }
            assert {number: key for key, number in entries.items()} == expected
    return found


@pytest.mark.parametrize("durability", MODES)
def test_stop_at_each_call(tmp_path: Path, durability: str, used: list[str]) -> None:
    """Killed or without power at any call, all that was committed is there, and indexes fit."""
    sweep(tmp_path, durability, scenario(5, 12), losses=2)

    assert {"cents", "column", "number"} == set(used)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("durability", MODES)
def test_stop_at_each_call_of_a_longer_scenario(tmp_path: Path, durability: str) -> None:
    """The same over many checkpoints that save indexes."""
    sweep(tmp_path, durability, scenario(1, 40), losses=4)


@pytest.mark.parametrize("durability", MODES)
@pytest.mark.parametrize("method", ["reserve", "truncate", "sync", "write"])
def test_each_change_fails(tmp_path: Path, durability: str, method: str) -> None:
    """Whichever change of the file fails, the error is memdb's, and indexes fit afterwards."""
    sweep_faults(tmp_path, durability, scenario(7, 9), [method])


@pytest.mark.parametrize("method", ["read", "map"])
def test_each_read_fails(tmp_path: Path, method: str) -> None:
    """Whichever reading call fails, the error is memdb's, and indexes fit afterwards."""
    sweep_faults(tmp_path, "written", scenario(7, 9), [method])
