"""`Database.migrate`, as examples."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import memdb


@dataclass
class Old:
    name: str
    price: str
    id: int = 0


@dataclass
class New:
    name: str
    price: Decimal
    stock: int = 0
    id: int = 0


def to_decimal(stored: dict[str, Any]) -> None:
    stored["price"] = Decimal(stored["price"])


SETTINGS: dict[str, Any] = {"name": "items", "version": 2, "upgrades": {2: to_decimal}}


def old_file(path: Path, prices: list[str]) -> None:
    """Write a file of the old class."""
    with memdb.open(path) as db:
        db.collection(Old, name="items").insert_many([Old("a", price) for price in prices])


def test_every_old_record_is_written_anew(tmp_path: Path) -> None:
    """Afterwards the upgrade is not needed any more."""
    path = tmp_path / "a.memdb"
    old_file(path, ["1.50", "2.00"])
    steps: list[tuple[int, int]] = []
    with memdb.open(path) as db:
        items = db.collection(New, **SETTINGS)
        items.insert(New("b", Decimal("3.00")))

        result = db.migrate(progress=lambda done, total: steps.append((done, total)))

        assert result.is_complete
        assert (2, 2, ()) == (
            result.collections["items"].old,
            result.collections["items"].migrated,
            result.collections["items"].failures,
        )
        assert [(2, 2)] == steps
        assert New("a", Decimal("1.50"), 0, 1) == items[1]
        again = db.migrate()
        assert 0 == again.collections["items"].old
        assert [] == db.check()
    with memdb.open(path) as db:
        items = db.collection(New, name="items", version=2)
        assert [Decimal("1.50"), Decimal("2.00"), Decimal("3.00")] == [each.price for each in items]
        assert [0, 3] == [form.records for form in memdb.schema(db).collections["items"].forms]


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    """It tells what would be done and what would fail."""
    path = tmp_path / "a.memdb"
    old_file(path, ["1.50", "free"])
    before = path.read_bytes()
    with memdb.open(path, mode="r") as db:
        items = db.collection(New, **SETTINGS)
        result = db.migrate(dry_run=True)

        assert result.is_dry_run
        assert not result.is_complete
        assert 1 == result.collections["items"].migrated
        ((identity, error),) = result.collections["items"].failures
        assert 2 == identity
        assert "items 2" in str(error)
        assert New("a", Decimal("1.50"), 0, 1) == items[1]
    assert before == path.read_bytes()


def test_a_record_that_fails_stays_as_it_is(tmp_path: Path) -> None:
    """The others are migrated; it can still be read by its name, and deleted."""
    path = tmp_path / "a.memdb"
    old_file(path, ["1.50", "free", "2.50"])
    with memdb.open(path) as db:
        items = db.collection(New, **SETTINGS)
        result = db.migrate()

        assert (3, 2) == (result.collections["items"].old, result.collections["items"].migrated)
        with pytest.raises(memdb.DecodeError, match="items 2"):
            items[2]
        items.delete(2)
        assert [1, 3] == items.ids()


def test_a_migration_converts_the_serializer(tmp_path: Path) -> None:
    """Also of plain dicts."""
    path = tmp_path / "a.memdb"
    with memdb.open(path) as db:
        db.collection("notes").insert({"text": "hello"})
    with memdb.open(path, serializer="json") as db:
        notes = db.collection("notes")
        assert 1 == db.migrate().collections["notes"].migrated
        assert {"text": "hello", "id": 1} == notes[1]
        assert ["binary", "json"] == [
            form.serializer for form in memdb.schema(db).collections["notes"].forms
        ]


def test_large_collections_go_in_steps(tmp_path: Path) -> None:
    """Progress is told after each; what other threads change meanwhile is left to them."""
    path = tmp_path / "a.memdb"
    old_file(path, ["1"] * 2500)
    with memdb.open(path) as db:
        items = db.collection(New, **SETTINGS)

        def progress(done: int, total: int) -> None:
            if done == 1000:
                items.update(2400, stock=1)
                items.delete(2500)
            steps.append((done, total))

        steps: list[tuple[int, int]] = []
        result = db.migrate(progress=progress)

        assert [(1000, 2500), (2000, 2500), (2500, 2500)] == steps
        assert 2498 == result.collections["items"].migrated
        assert 1 == items[2400].stock
        assert 2499 == len(items)
        assert 0 == db.migrate().collections["items"].old


def test_a_migration_is_no_part_of_a_transaction(db: memdb.Database) -> None:
    """It makes commits of its own."""
    with db.transaction(), pytest.raises(memdb.TransactionError, match="migrate"):
        db.migrate()


@pytest.mark.parametrize("mode", ["r", "append"])
def test_a_migration_needs_a_database_that_may_change(tmp_path: Path, mode: Any) -> None:
    """A reader may only try."""
    old_file(tmp_path / "a.memdb", ["1"])
    with memdb.open(tmp_path / "a.memdb", mode=mode) as db, pytest.raises(memdb.ReadOnlyError):
        db.migrate()


def test_a_collection_that_was_opened_by_name_is_left_alone(tmp_path: Path) -> None:
    """As dicts its records would lose their types."""
    old_file(tmp_path / "a.memdb", ["1"])
    with memdb.open(tmp_path / "a.memdb", serializer="json") as db:
        db.collection("items")
        assert {} == db.migrate().collections
