"""Compaction in orders that nobody planned: within itself, of a moved file, below open queries."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest

import memdb
from memdb import F, ForeignKey, HashIndex, P, SortedIndex, _auto_compaction
from memdb.storage import _compaction
from tests.support.concurrently import run_all

KEY, OTHER_KEY = bytes(range(32)), b"2" * 32


@dataclass
class Customer:
    """What an order refers to."""

    name: str
    id: int = 0


@dataclass
class Order:
    """Goes with its customer."""

    customer_id: Annotated[int, ForeignKey(Customer, on_delete="cascade")]
    total: int
    id: int = 0


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small tests have several commits, parts and rounds."""
    monkeypatch.setattr(_compaction, "_COMMIT_VERSIONS", 7)
    monkeypatch.setattr(_compaction, "_PART_VERSIONS", 23)
    monkeypatch.setattr(_compaction, "_SMALL_REST_BYTES", 200)


@pytest.fixture(params=["written", "buffered", "encrypted", "memory"])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[memdb.Database]:
    """An open database of each kind, which must be whole in the end."""
    settings: dict[str, Any] = {
        "buffered": {"durability": "buffered"},
        "encrypted": {"key": KEY},
    }.get(request.param, {})
    path = None if request.param == "memory" else tmp_path / "a.memdb"
    with memdb.open(path, **settings) as opened:
        yield opened
        assert [] == opened.check()


def filled(db: memdb.Database) -> memdb.Collection[dict[str, Any]]:
    """Return a collection with old versions."""
    notes = db.collection("notes")
    notes.insert_many({"n": number} for number in range(40))
    for identity in range(1, 40, 3):
        notes.update(identity, n=-identity)
    return notes


# -- within itself, and in the middle of others ----------------------------------------------


def test_a_compaction_within_one_is_refused(db: memdb.Database) -> None:
    """Whoever is told of the progress can't wait for the end of the same compaction."""
    notes = filled(db)

    def again(*progress: object) -> None:
        db.compact()

    def compact() -> None:
        with pytest.raises(memdb.TransactionError, match="another compact"):
            db.compact(progress=again)

    # In a thread, where a deadlock would be noticed.
    run_all(compact)
    result = db.compact()

    assert (40, 40, 13) == (len(notes), result.versions, result.dropped_versions)


def test_whoever_is_told_may_do_all_else(db: memdb.Database, tmp_path: Path) -> None:
    """A transaction, a snapshot and another key in the middle are in the new file."""
    notes, told = filled(db), []

    def meanwhile(*progress: object) -> None:
        told.append(progress)
        with db.transaction():
            notes.insert({"n": 0})
            notes.update(2, n=len(told))
            notes.delete(40 + len(told) - 1)
        db.snapshot(tmp_path / f"{len(told)}.memdb")
        if db.is_encrypted and len(told) == 1:
            db.rekey(key=OTHER_KEY)

    db.compact(progress=meanwhile)
    path, settings = db.path, {"key": OTHER_KEY} if db.is_encrypted else {}
    db.flush()
    found = (len(notes), notes[2]["n"])
    if path is not None:
        with memdb.open(path, "r", **settings) as reader:
            assert found == (len(reader.collection("notes")), reader.collection("notes")[2]["n"])

    assert (40, len(told)) == found
    assert len(told) > 1
    for number in range(1, len(told) + 1):
        key = KEY if db.is_encrypted and number == 1 else settings.get("key")
        assert [] == memdb.check(tmp_path / f"{number}.memdb", key=key)


def test_closing_while_told_leaves_the_old_file(tmp_path: Path) -> None:
    """The database is closed, the compaction says so, and nothing of it is left."""
    path = tmp_path / "a.memdb"
    with memdb.open(path) as db:
        filled(db)
        with pytest.raises(memdb.ClosedError):
            db.compact(progress=lambda *_: db.close())

    assert [path] == list(tmp_path.iterdir())
    with memdb.open(path) as db:
        assert (None, 40, 53) == (db.recovery, len(db.collection("notes")), db.stats().versions)


# -- a file that was moved -------------------------------------------------------------------


def put_another(path: Path) -> bytes:
    """Move a database away and put another one in its place; return that one's bytes."""
    other = path.with_name("other.memdb")
    with memdb.open(other) as db:
        db.collection("precious").insert({"n": 1})
    path.rename(path.with_name("moved.memdb"))
    other.rename(path)
    return path.read_bytes()


@pytest.mark.parametrize("is_there", [True, False])
@pytest.mark.parametrize("when", ["before", "meanwhile"])
@pytest.mark.parametrize("archive", [None, "archive.memdb"])
def test_a_moved_file_is_not_compacted(
    tmp_path: Path, is_there: bool, when: str, archive: str | None
) -> None:
    """What lies at the path by now is somebody else's, and stays; nothing else appears."""
    path = tmp_path / "a.memdb"
    content = []

    def move(*progress: object) -> None:
        if not content:
            content.append(put_another(path) if is_there else b"")
        if not is_there and path.exists():
            path.rename(tmp_path / "moved.memdb")

    with memdb.open(path) as db:
        notes = filled(db)
        if when == "before":
            move()
        for _ in range(2):
            with pytest.raises(memdb.WriteError, match="not there any more"):
                db.compact(progress=move, archive=archive and tmp_path / archive)
        notes.insert({"n": "later"})
        copy = db.snapshot(tmp_path / "copy.memdb").path
        names = db.health().names
    found = [path.read_bytes()] if is_there else [b""]

    assert ("file_moved",) == names
    assert content == found
    assert {"copy.memdb", "moved.memdb"} == {*os.listdir(tmp_path)} - {"a.memdb"}
    assert is_there == path.exists()
    for each in (copy, tmp_path / "moved.memdb"):
        with memdb.open(each) as db:
            assert (41, []) == (len(db.collection("notes")), db.check())


def test_a_moved_file_is_not_compacted_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`compact_when` leaves it alone, and no write hears of it; health() does."""
    looked: list[bool] = []
    monkeypatch.setattr(_auto_compaction, "_INTERVAL_S", 0.005)
    monkeypatch.setattr(_auto_compaction, "dead_share", lambda _: looked.append(True) or 1.0)
    monkeypatch.setattr(_auto_compaction, "compact", lambda *_: pytest.fail("was compacted"))
    path = tmp_path / "a.memdb"
    memdb.open(path).close()
    with memdb.open(path) as db:
        # The thread begins only now.
        path.rename(tmp_path / "moved.memdb")
        db._engine.compact_in_background(_auto_compaction.Compactor(db._engine, 0.5))
        while len(looked) < 3:
            time.sleep(0.005)
        db.collection("notes").insert({"n": 1})

        assert ("file_moved",) == db.health().names


# -- below what is open ----------------------------------------------------------------------


def test_pages_go_on_behind_their_cursors(db: memdb.Database) -> None:
    """A cursor leads to the next page after a compaction too, with an index and without."""
    for indexes in ([], [SortedIndex("n")]):
        name = f"notes {len(indexes)}"
        notes = db.collection(name, indexes=indexes)
        notes.insert_many({"n": number % 7} for number in range(60))
        for identity in range(1, 60, 4):
            notes.update(identity, n=identity % 5)
        query = notes.where(F.n >= 1).order_by("-n")
        expected, found = [record["id"] for record in query], []
        page = query.page(0, 7)
        while page.items:
            found += [record["id"] for record in page.items]
            db.compact()
            if page.cursor is None:
                break
            page = query.after(page.cursor).page(0, 7)

        assert expected == found


def test_queries_joins_and_foreign_keys_go_on(db: memdb.Database) -> None:
    """What was asked before, prepared or begun gives the same; keys are checked, and cascade."""
    customers = db.collection(Customer, indexes=[HashIndex("name")])
    orders = db.collection(Order, indexes=[HashIndex("customer_id"), SortedIndex("total")])
    customers.insert_many(Customer(f"customer {number}") for number in range(10))
    orders.insert_many(Order(1 + number % 10, number) for number in range(100))
    joined = orders.where(F.total >= 20).join(customers, on=F.customer_id).order_by("-total")
    many = customers.query().join_many(orders, back=F.customer_id)
    prepared = orders.where(F.total >= P.least).prepare()
    joined_prepared = orders.where(F.total >= P.least).join(customers, on=F.customer_id).prepare()

    def answers() -> list[Any]:
        return [
            joined.all(),
            many.all(),
            sorted(order.id for order in prepared(least=50)),
            sorted(row[0].id for row in joined_prepared(least=50)),
        ]

    for step in range(3):
        for identity in range(1 + step, 100, 7):
            if identity in orders:
                orders.update(identity, total=1000 * step + identity)
        before, begun = answers(), iter(joined)
        first = next(begun)
        db.compact()

        assert before == answers()
        assert before[0] == [first, *begun]
        with pytest.raises(memdb.ForeignKeyError):
            orders.insert(Order(999, 1))
        customers.delete(step + 1)
        assert [] == orders.where(customer_id=step + 1).all()
    assert (7, 70) == (len(customers), len(orders))


@pytest.mark.parametrize("settings", [{}, {"key": KEY}, {"key": KEY, "encrypt": "marked"}])
def test_natural_keys_go_on(tmp_path: Path, settings: dict[str, Any]) -> None:
    """Their hashes are the same in each file that is made of another, also by another key."""
    path = tmp_path / "a.memdb"
    with memdb.open(path, **settings) as db:
        users = db.collection("users", key="email")
        users.insert_many({"email": f"{number}@x", "n": number} for number in range(60))
        for number in range(0, 60, 7):
            users.delete(f"{number}@x")
        db.compact()
        with pytest.raises(memdb.DuplicateIdentityError):
            users.insert({"email": "1@x", "n": 0})
        users.insert({"email": "7@x", "n": -7})
        if settings:
            db.rekey(key=OTHER_KEY)
        db.compact(archive=tmp_path / "archive.memdb")
        users.update("1@x", n=-1)
        expected = {record["email"]: record for record in users}
        db.snapshot(tmp_path / "snapshot.memdb")
    given = {"key": OTHER_KEY} if settings else {}
    memdb.repair(path, to=tmp_path / "repaired.memdb", **given)
    memdb.restore(path, to=tmp_path / "restored.memdb", **given)
    for name in ("a", "snapshot", "repaired", "restored"):
        with memdb.open(tmp_path / f"{name}.memdb", **given) as db:
            users = db.collection("users", key="email")

            assert expected == {key: users[key] for key in expected}
            assert len(expected) == len(users)
            assert [] == db.check()
