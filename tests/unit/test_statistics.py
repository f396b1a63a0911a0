"""stats(): counts and sizes of live, stale and deleted versions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import memdb
from memdb import VersionStats
from memdb._statistics import collection_stats
from memdb.storage import POINTER_DTYPE, Kind

NOTHING = VersionStats(0, 0, 0, 0, 0.0)


@dataclass
class Note:
    text: str
    id: int = 0


def size(text: str) -> int:
    """Return the bytes of a note."""
    with memdb.open(None) as db:
        notes = db.collection(Note)
        notes.insert(Note(text))
        return notes.stats().live.bytes


def test_of_nothing(db: memdb.Database) -> None:
    """A collection without records has zeros everywhere, and is not in the database's."""
    stats = db.collection(Note).stats()

    assert ("Note", NOTHING, NOTHING, NOTHING, 0) == (
        stats.name,
        stats.live,
        stats.stale,
        stats.deleted,
        stats.last_identity,
    )
    assert {} == db.stats().collections


def test_live_stale_and_deleted(db: memdb.Database) -> None:
    """Each version with bytes is counted once: as live, as stale, or as the last of a deleted."""
    notes = db.collection(Note)
    notes.insert_many([Note("a"), Note("bb" * 10), Note("ccc")])
    notes.update(1, text="a" * 50)
    notes.update(3, text="c" * 9)
    notes.delete(3)
    stats = notes.stats()
    # What encryption adds.
    more = 24 if db.is_encrypted else 0
    live = [more + size("a" * 50), more + size("bb" * 10)]

    assert VersionStats(2, sum(live), min(live), max(live), sum(live) / 2) == stats.live
    stale = [more + size("a"), more + size("ccc")]
    assert VersionStats(2, sum(stale), min(stale), max(stale), sum(stale) / 2) == stats.stale
    last = more + size("c" * 9)
    assert VersionStats(1, last, last, last, last) == stats.deleted
    assert 3 == stats.last_identity


def test_inserted_again(db: memdb.Database) -> None:
    """A record that was deleted and inserted again is live; its old bytes are stale."""
    notes = db.collection(Note)
    notes.insert(Note("old"))
    notes.delete(1)
    notes.insert(Note("new", id=1))
    stats = notes.stats()

    assert (1, 1, 0) == (stats.live.count, stats.stale.count, stats.deleted.count)


def test_collections_apart(db: memdb.Database) -> None:
    """Each collection counts its own, and the database has them all by name."""
    notes, events = db.collection(Note), db.collection("events")
    notes.insert(Note("a"))
    events.insert_many([{}, {}, {}])
    events.delete(3)

    assert (1, 2) == (notes.stats().live.count, events.stats().live.count)
    assert {"Note": notes.stats(), "events": events.stats()} == db.stats().collections


def test_last_identity_is_remembered(tmp_path: Path) -> None:
    """The highest identity ever given stays known, deleted and reopened."""
    with memdb.open(tmp_path / "a") as db:
        notes = db.collection(Note)
        notes.insert(Note("a", id=1000))
        notes.delete(1000)
    with memdb.open(tmp_path / "a") as db:
        assert 1000 == db.collection(Note).stats().last_identity == 1000
        assert 1001 == db.collection(Note).insert(Note("b"))


def test_database_sizes(tmp_path: Path) -> None:
    """File, log and map have their sizes; a closed file is as long as its log."""
    with memdb.open(tmp_path / "a") as db:
        before = db.stats()
        db.collection(Note).insert_many([Note("x" * 100)] * 50)
        after = db.stats()
        db.checkpoint()
        checked = db.stats()

    assert (0, 0, 0) == (before.versions, before.log_bytes, before.unchecked_versions)
    assert (50, 50, 0) == (after.versions, after.unchecked_versions, checked.unchecked_versions)
    assert 50 * 100 < after.log_bytes < after.file_bytes
    # A pointer of 32 bytes in the file and its position of 8 in memory.
    assert 50 * 40 <= after.map_bytes <= 51 * 40
    with memdb.open(tmp_path / "a", "r") as db:
        closed = db.stats()
    assert closed.file_bytes == (tmp_path / "a").stat().st_size
    assert closed.log_bytes == checked.log_bytes
    assert 50 == closed.versions


@given(
    st.lists(
        st.tuples(st.integers(1, 2), st.integers(1, 5), st.sampled_from(Kind), st.integers(1, 100)),
        max_size=30,
    ),
    st.integers(0, 10),
)
def test_counts_like_a_loop(versions: list[tuple[int, int, Kind, int]], last: int) -> None:
    """The vectorised counting agrees with one version at a time."""
    pointers = np.zeros(len(versions), POINTER_DTYPE)
    newest: dict[int, int] = {}
    with_bytes: dict[int, list[int]] = {}
    for row, (collection, identity, kind, length) in zip(pointers, versions, strict=True):
        bytes_ = 0 if kind is Kind.DELETED else length
        row["collection"], row["identity"], row["kind"] = collection, identity, kind
        row["length"] = bytes_
        if collection == 1:
            newest[identity] = bytes_
            with_bytes.setdefault(identity, [])
            if bytes_:
                with_bytes[identity].append(bytes_)
    live = [length for length in newest.values() if length]
    stale = [length for lengths in with_bytes.values() for length in lengths[:-1]]
    gone = [with_bytes[i][-1] for i, length in newest.items() if not length and with_bytes[i]]
    stats = collection_stats("x", 1, pointers, last, has_key=False)

    for expected, actual in ((live, stats.live), (stale, stats.stale), (gone, stats.deleted)):
        assert (len(expected), sum(expected)) == (actual.count, actual.bytes)
        assert (min(expected, default=0), max(expected, default=0)) == (
            actual.smallest_bytes,
            actual.largest_bytes,
        )
        assert actual.mean_bytes == (sum(expected) / len(expected) if expected else 0.0)
    assert max(last, 0, *newest) == stats.last_identity if newest else last == stats.last_identity
