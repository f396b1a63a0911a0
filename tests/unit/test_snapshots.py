"""Snapshots and restoring: another file with the state of one commit, and nothing else."""

from __future__ import annotations

import os
import threading
import time
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import memdb
from memdb.storage import _copying
from tests.crash.children import Account
from tests.support.concurrently import run_all

KEY = bytes(range(32))


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small files be copied in several pieces."""
    monkeypatch.setattr(_copying, "_PIECE_BYTES", 1000)


def filled(path: Path, **settings: Any) -> memdb.Database:
    """Return an open database with some history."""
    db = memdb.open(path, **settings)
    notes = db.collection("notes")
    for number in range(30):
        notes.insert({"a": number})
    notes.update(3, a=33)
    notes.delete(4)
    return db


def content(path: Any, **settings: Any) -> list[dict[str, Any]]:
    """Return the records of a file, which must be whole and closed."""
    with memdb.open(path, **settings) as db:
        assert (None, []) == (db.recovery, db.check())
        return list(db.collection("notes"))


# -- snapshots -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["written", "buffered", "synced", "encrypted", "memory", "r"])
def test_a_snapshot_is_the_database(tmp_path: Path, kind: str) -> None:
    """The copy has records, history and times, and opens as a closed file, from anywhere."""
    path, copy = tmp_path / "a.memdb", tmp_path / "copy.memdb"
    key = {"key": KEY} if kind == "encrypted" else {}
    settings: dict[str, Any] = dict(key)
    if kind in ("buffered", "synced"):
        settings["durability"] = kind
    if kind == "r":
        filled(path).close()
        db = memdb.open(path, "r")
    elif kind == "memory":
        db = filled(None)  # type: ignore[arg-type]
    else:
        db = filled(path, **settings)
    with db:
        told: list[Any] = []
        result = db.snapshot(copy, progress=lambda *each: told.append(each))
        expected = list(db.collection("notes"))
        history = db.collection("notes").history(3)
    found = content(copy, **key)
    with memdb.open(copy, "r", **key) as db:
        found_history = db.collection("notes").history(3)

    assert expected == found
    assert history == found_history
    assert (str(copy), os.path.getsize(copy), 32) == (result.path, result.bytes, result.versions)
    assert ("bytes", result.copied_bytes) == (told[-1][2], told[-1][0]) and len(told) > 2
    assert [] == memdb.check(copy, **key)  # type: ignore[arg-type]


def test_f4_a_snapshot_under_writes_is_of_one_commit(tmp_path: Path) -> None:
    """While transactions move money, each snapshot has the whole sum."""
    with memdb.open(tmp_path / "a.memdb") as db:
        accounts = db.collection(Account)
        first, second = accounts.insert_many([Account("a", 1000), Account("b", 0)])
        is_over = threading.Event()

        def move() -> None:
            while not is_over.is_set():
                with db.transaction():
                    cents = accounts[first].cents
                    accounts.update(first, cents=cents - 1)
                    accounts.update(second, cents=1001 - cents)

        def copy() -> None:
            try:
                for number in range(5):
                    db.snapshot(tmp_path / f"{number}.memdb")
            finally:
                is_over.set()

        run_all(move, copy)
    sums = []
    for number in range(5):
        with memdb.open(tmp_path / f"{number}.memdb") as db:
            sums.append(sum(each.cents for each in db.collection(Account)))
            assert [] == db.check()

    assert [1000] * 5 == sums


@pytest.mark.parametrize("kind", ["written", "encrypted"])
def test_an_incremental_snapshot_copies_what_is_new(tmp_path: Path, kind: str) -> None:
    """Extended in place or copied first, it has everything, and only the rest was copied."""
    key: Any = {"key": KEY} if kind == "encrypted" else {}
    first, second = tmp_path / "1.memdb", tmp_path / "2.memdb"
    with filled(tmp_path / "a.memdb", **key) as db:
        whole = db.snapshot(first)
        db.collection("notes").insert({"a": "new"})
        rest = db.snapshot(second, base=first)
        older = content(first, **key)
        again = db.snapshot(first, base=first)
        nothing = db.snapshot(first, base=first)
        db.checkpoint()
        db.collection("notes").insert_many([{"a": number} for number in range(5000)])
        db.snapshot(first, base=first)
        expected = list(db.collection("notes"))

    assert expected == content(first, **key)
    assert (29, 30) == (len(older), len(content(second, **key)))
    assert rest.copied_bytes == again.copied_bytes < 300 < whole.copied_bytes
    assert (0, again.bytes) == (nothing.copied_bytes, nothing.bytes)
    assert [] == memdb.check(first, **key)


@pytest.mark.parametrize("key", [{}, {"key": KEY}], ids=["plain", "encrypted"])
def test_what_can_be_no_base_is_refused(tmp_path: Path, key: dict[str, Any]) -> None:
    """Another file's, a newer one, one from before a compaction, a changed one."""
    path, other, newer = tmp_path / "a.memdb", tmp_path / "b.memdb", tmp_path / "newer.memdb"
    changed, before = tmp_path / "changed.memdb", tmp_path / "before.memdb"
    filled(other, **key).close()
    with filled(path, **key) as db:
        db.snapshot(changed)
        db.snapshot(before)
    with memdb.open(changed, **key) as db:
        db.collection("notes").insert({"a": "elsewhere"})
    with memdb.open(path, **key) as db:
        db.collection("notes").insert_many([{"a": "here"}] * 50)
        copies = {each: each.read_bytes() for each in (other, changed)}
        for base, reason in ((other, "another file"), (changed, "differ"), (path, "itself")):
            for target in (base, tmp_path / "new.memdb"):
                if base is path and target is not base:
                    continue
                with pytest.raises(memdb.FileTakenError, match=reason):
                    db.snapshot(target, base=base)
        db.snapshot(newer)
        for target in (tmp_path / "no.memdb", tmp_path / "new.memdb"):
            with pytest.raises(memdb.FileMissingError, match="no older snapshot"):
                db.snapshot(target, base=tmp_path / "no.memdb")
        db.compact()
        with pytest.raises(memdb.FileTakenError, match="before a compaction"):
            db.snapshot(before, base=before)
    with (
        memdb.open(before, **key) as db,
        pytest.raises(memdb.FileTakenError, match=r"another file|more"),
    ):
        db.snapshot(newer, base=newer)

    assert copies == {each: each.read_bytes() for each in copies}
    assert not (tmp_path / "no.memdb").exists() and not (tmp_path / "new.memdb").exists()


def test_a_reader_extends_not_its_own_file(tmp_path: Path) -> None:
    """Also not under another name, where no lock is in the way: it has not changed."""
    path, hard, soft = tmp_path / "a.memdb", tmp_path / "hard.memdb", tmp_path / "soft.memdb"
    filled(path).close()
    os.link(path, hard)
    soft.symlink_to(path)
    before = path.read_bytes()
    with memdb.open(path, "r") as db:
        for target in (path, hard, soft):
            for base in (path, hard, soft):
                with pytest.raises(memdb.FileTakenError, match="is the file itself"):
                    db.snapshot(target, base=base)

    assert before == path.read_bytes()
    assert {path, hard, soft} == set(tmp_path.iterdir())


def test_existing_paths_are_refused(tmp_path: Path) -> None:
    """A snapshot goes over nothing: no file, not itself, no link, and under no reserved name."""
    path, taken, link = tmp_path / "a.memdb", tmp_path / "taken", tmp_path / "link"
    taken.write_bytes(b"mine")
    link.symlink_to(path)
    with filled(path) as db:
        before = path.read_bytes()[12288 : db._engine.log.end]
        reserved = [tmp_path / "x.partial", tmp_path / "x.compacting"]
        for target in (path, taken, link, tmp_path, *reserved):
            with pytest.raises(memdb.FileTakenError):
                db.snapshot(target)
        (tmp_path / "b.memdb.partial").write_bytes(b"mine too")
        with pytest.raises(memdb.FileTakenError, match="in the way"):
            db.snapshot(tmp_path / "b.memdb")
        with pytest.raises(memdb.FileMissingError):
            db.snapshot(tmp_path / "no" / "where.memdb")
        # What a killed one has left.
        (tmp_path / "c.memdb.partial").write_bytes(bytes(9000) + b"rest")
        db.snapshot(tmp_path / "c.memdb")

    assert before == path.read_bytes()[12288 : 12288 + len(before)]
    assert b"mine" == taken.read_bytes()
    assert b"mine too" == (tmp_path / "b.memdb.partial").read_bytes()
    assert 29 == len(content(tmp_path / "c.memdb"))


def test_stopped_half_way_nothing_is_left(tmp_path: Path) -> None:
    """What `progress` raises comes out; there is no file, and a base is as it was."""
    with filled(tmp_path / "a.memdb") as db:
        base = tmp_path / "base.memdb"
        db.snapshot(base)
        db.collection("notes").insert_many([{"a": 1}] * 100)
        before = base.read_bytes()
        for target, named in ((tmp_path / "b.memdb", {}), (base, {"base": base})):

            def stop(done: int, total: int, unit: str) -> None:
                if done > total / 2:
                    raise KeyboardInterrupt

            with pytest.raises(KeyboardInterrupt):
                db.snapshot(target, progress=stop, **named)  # type: ignore[arg-type]

    assert before == base.read_bytes()
    assert {"a.memdb", "base.memdb"} == set(os.listdir(tmp_path))


def test_a_copy_that_differs_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the disk gives back something else than it was given, there is no snapshot."""
    from memdb.storage import OSFile

    copy_from = OSFile.copy_from

    def spoil(self: OSFile, source: Any, offset: int, size: int) -> None:
        copy_from(self, source, offset, size)
        self.write(offset + size - 1, b"\xff")

    monkeypatch.setattr(OSFile, "copy_from", spoil)
    with (
        filled(tmp_path / "a.memdb") as db,
        pytest.raises(memdb.DamageError, match="are not those of"),
    ):
        db.snapshot(tmp_path / "b.memdb")

    assert ["a.memdb"] == os.listdir(tmp_path)


# -- restoring -------------------------------------------------------------------------------


def states_of(path: Path) -> list[tuple[datetime, int]]:
    """Make a file with commits at different times; return each time and the number of records."""
    found = []
    with memdb.open(path) as db:
        notes = db.collection("notes")
        for number in range(8):
            if number == 5:
                db.checkpoint()
            with db.transaction():
                notes.insert({"a": number})
                notes.insert({"b": number})
            if number == 3:
                db.collection("others").insert({"a": 1})
            found.append((datetime.now(UTC), len(notes)))
            time.sleep(0.002)
    return found


def test_any_commit_can_be_restored(tmp_path: Path) -> None:
    """By time and by slot, between times too, before and behind checkpoints and catalogues."""
    path = tmp_path / "a.memdb"
    states = states_of(path)
    for number, (when, count) in enumerate(states):
        copy = memdb.restore(path, when, to=tmp_path / f"t{number}.memdb").path
        assert count == len(content(copy))
        assert [] == memdb.check(copy)
        elsewhere = when.astimezone(timezone(timedelta(hours=-7)))
        copy = memdb.restore(path, elsewhere, to=tmp_path / f"z{number}.memdb").path
        assert count == len(content(copy))
    for slot in range(1, 18):
        copy = memdb.restore(path, slot, to=tmp_path / f"s{slot}.memdb").path
        with memdb.open(copy) as db:
            # Whole commits: that of slot 9 is the one of the other collection.
            expected = slot + slot % 2 if slot < 9 else 9 if slot == 9 else slot + 1 - slot % 2
            assert expected == db.stats().versions
            assert [] == db.check()
    whole = memdb.restore(path, to=tmp_path / "whole.memdb")

    assert 17 == whole.versions
    assert 16 == len(content(whole.path))


def test_the_time_of_a_version_leads_to_it(tmp_path: Path) -> None:
    """Restoring at the time that the history gives brings just that version back."""
    path = tmp_path / "a.memdb"
    with memdb.open(path) as db:
        notes = db.collection("notes")
        notes.insert({"a": 0})
        for number in range(1, 6):
            time.sleep(0.002)
            notes.update(1, a=number)
        history = notes.history(1)
    found = []
    for number, version in enumerate(history):
        copy = memdb.restore(path, version.time, to=tmp_path / f"{number}.memdb").path
        found.append(content(copy)[0])

    assert [version.record for version in history] == found


def test_f5_the_clock_may_jump(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Back an hour, forward a year, back: the order is that of the commits, and nothing is lost."""
    path = tmp_path / "a.memdb"
    start, hour, year = time.time_ns(), 3600 * 10**9, 365 * 86_400 * 10**9
    clock = [start]
    monkeypatch.setattr("memdb.storage._log._time_ns", lambda: clock[0])
    for number, moment in enumerate((start, start - hour, start + year, start + hour)):
        clock[0] = moment
        with memdb.open(path) as db:
            db.collection("notes").insert({"a": number})
            assert [] == db.check()

    def restored(moment: int) -> list[int]:
        when = datetime.fromtimestamp(moment / 1e9, UTC)
        to = tmp_path / f"{moment}.memdb"
        memdb.restore(path, when, to=to)
        return [record["a"] for record in content(to)]

    assert [0, 1, 2, 3] == [record["a"] for record in content(path)]
    assert [0, 1] == restored(start + 1000)
    assert [0, 1] == restored(start + 2 * hour)
    assert [0, 1, 2, 3] == restored(start + year + hour)
    with pytest.raises(memdb.CommitNotFoundError, match="has no commit"):
        restored(start - hour)


def test_archives_are_looked_into(tmp_path: Path) -> None:
    """A time from before a compaction is found in what that has kept, and before the one before."""
    path = tmp_path / "a.memdb"
    times = []
    with memdb.open(path) as db:
        notes = db.collection("notes")
        for number in range(3):
            notes.insert({"a": number})
            times.append(datetime.now(UTC))
            time.sleep(0.002)
            notes.update(1, a=-number)
            notes.delete(number + 1) if number else None
            time.sleep(0.002)
            times.append(datetime.now(UTC))
            db.compact(archive=tmp_path / f"old{number}.memdb")
            time.sleep(0.002)
        notes.insert({"a": "last"})
    found = []
    for number, when in enumerate(times):
        copy = memdb.restore(path, when, to=tmp_path / f"{number}.memdb").path
        found.append([record["a"] for record in content(copy)])
    expected = [[0], [0], [0, 1], [-1], [-1, 2], [-2]]
    (tmp_path / "old1.memdb").rename(tmp_path / "elsewhere.memdb")
    with pytest.raises(memdb.CommitNotFoundError, match="archives="):
        memdb.restore(path, times[2], to=tmp_path / "no.memdb")
    named = memdb.restore(
        path, times[2], to=tmp_path / "yes.memdb", archives=[tmp_path / "elsewhere.memdb"]
    )

    assert expected == found
    assert [0, 1] == [record["a"] for record in content(named.path)]
    assert not (tmp_path / "no.memdb").exists()


@pytest.mark.parametrize("settings", [{}, {"key": KEY}])
def test_an_archive_that_is_named_is_enough(tmp_path: Path, settings: dict[str, Any]) -> None:
    """It holds what it holds, though a later compaction kept nothing; what is in none is told."""
    path, archive, stranger = (tmp_path / f"{name}.memdb" for name in ("a", "archive", "other"))
    times, states = [], []
    with memdb.open(path, **settings) as db:
        notes = db.collection("notes")

        def commit(number: int) -> None:
            notes.insert({"a": number})
            time.sleep(0.002)
            times.append(datetime.now(UTC))
            states.append(list(notes))
            time.sleep(0.002)

        for number in range(3):
            commit(number)
        # The archive knows of the moments before its last commit only.
        notes.update(1, a=-1)
        db.compact(archive=archive)
        commit(3)
        notes.update(1, a=-2)
        if settings:
            db.rekey(key=b"2" * 32)
        db.compact()
        commit(4)
    with filled(stranger, **settings) as db:
        pass
    given = {"key": b"2" * 32} if settings else {}
    found = []
    for number, when in enumerate(times):
        try:
            result = memdb.restore(
                path, when, to=tmp_path / f"{number}.memdb", archives=[archive], **given
            )
        except memdb.CommitNotFoundError:
            found.append(None)
            continue
        with memdb.open(result.path, **(settings if number < 3 else given)) as db:
            assert [] == db.check()
            found.append(list(db.collection("notes")))
    with pytest.raises(memdb.CommitNotFoundError):
        memdb.restore(path, times[0], to=tmp_path / "no", archives=[stranger], **given)
    with pytest.raises(memdb.ConfigError, match="archives="):
        memdb.restore(path, times[0], to=tmp_path / "no", archives=str(archive), **given)

    assert [*states[:3], None, states[4]] == found


def test_a_compacted_file_begins_with_a_whole_state(tmp_path: Path) -> None:
    """What lived at the compaction can't be restored in part; what came then can."""
    path = tmp_path / "a.memdb"
    with filled(path) as db:
        db.compact()
        db.collection("notes").insert({"a": "new"})
    with pytest.raises(memdb.CommitNotFoundError, match="is that behind version 29"):
        memdb.restore(path, 28, to=tmp_path / "no.memdb")
    lengths = [
        len(content(memdb.restore(path, at, to=tmp_path / f"{at}.memdb").path)) for at in (29, 30)
    ]

    assert [29, 30] == lengths


def test_an_existing_file_is_replaced_when_told(tmp_path: Path) -> None:
    """Only with `overwrite`, only a database, and never one in use or the file itself."""
    path, target, foreign = tmp_path / "a.memdb", tmp_path / "b.memdb", tmp_path / "c"
    filled(path).close()
    with memdb.open(target) as db:
        db.collection("notes").insert({"b": 1})
    foreign.write_bytes(b"mine")
    with pytest.raises(memdb.FileTakenError, match="is there already"):
        memdb.restore(path, to=target)
    with memdb.open(target) as db, pytest.raises(memdb.LockedError):
        memdb.restore(path, to=target, overwrite=True)
    with pytest.raises(memdb.FileTakenError, match="the file itself"):
        memdb.restore(path, to=path, overwrite=True)
    with pytest.raises(memdb.NotADatabaseError, match="never overwrites"):
        memdb.restore(path, to=foreign, overwrite=True)
    before = target.read_bytes()
    with pytest.raises(KeyboardInterrupt):
        memdb.restore(path, to=target, overwrite=True, progress=interrupt)
    untouched = target.read_bytes()
    with memdb.open(path):
        # Somebody may well have the source open.
        memdb.restore(path, to=target, overwrite=True)

    assert before == untouched
    assert b"mine" == foreign.read_bytes()
    assert 29 == len(content(target))
    assert {"a.memdb", "b.memdb", "c"} == set(os.listdir(tmp_path))


def interrupt(*progress: Any) -> None:
    """Stop what is going on."""
    raise KeyboardInterrupt


@pytest.mark.parametrize("at", [0, -1, True, "now", 1.5, datetime(2026, 1, 1)])
def test_a_wrong_moment_is_refused(tmp_path: Path, at: Any) -> None:
    """A time needs a zone, a slot is a number from 1 on."""
    path = tmp_path / "a.memdb"
    filled(path).close()
    with pytest.raises(memdb.ConfigError, match="at="):
        memdb.restore(path, at, to=tmp_path / "b.memdb")


def test_a_moment_that_is_not_there(tmp_path: Path) -> None:
    """A slot behind the last one, and a time before the first, are not found."""
    path = tmp_path / "a.memdb"
    filled(path).close()
    memdb.open(tmp_path / "empty.memdb").close()
    with pytest.raises(memdb.CommitNotFoundError, match="has 32 versions"):
        memdb.restore(path, 33, to=tmp_path / "b.memdb")
    for source in (path, tmp_path / "empty.memdb"):
        with pytest.raises(memdb.CommitNotFoundError, match="has no commit"):
            memdb.restore(source, datetime(1999, 1, 1, tzinfo=UTC), to=tmp_path / "b.memdb")
    memdb.restore(tmp_path / "empty.memdb", to=tmp_path / "b.memdb")

    assert [] == content(tmp_path / "b.memdb")


def test_an_encrypted_file_is_restored_with_its_key(tmp_path: Path) -> None:
    """With the key only, and the copy needs the same one."""
    path = tmp_path / "a.memdb"
    filled(path, key=KEY).close()
    with pytest.raises(memdb.WrongKeyError):
        memdb.restore(path, 5, to=tmp_path / "b.memdb")
    memdb.restore(path, 5, to=tmp_path / "b.memdb", key=KEY)
    with pytest.raises(memdb.WrongKeyError):
        memdb.open(tmp_path / "b.memdb")

    assert 5 == len(content(tmp_path / "b.memdb", key=KEY))
