"""What a database says of its own state, and what it tells the program's log."""

from __future__ import annotations

import errno
import logging
import re
import threading
from pathlib import Path
from typing import Any

import pytest

import memdb
from memdb import _health
from memdb.storage import Log
from tests.crash.children import Account, collections
from tests.crash.test_sync_failure import wait_until
from tests.support.faulty import FaultyFile, drop, open_on
from tests.support.markdown import ROOT
from tests.support.processes import run_script


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing be late by less than any time at all."""
    monkeypatch.setattr(_health, "_LATE_S", 0.0)


class Stuck(FaultyFile):
    """A disk that does not answer until it is told to."""

    def __init__(self, *arguments: Any) -> None:
        self.is_stuck = False
        self.answer = threading.Event()
        super().__init__(*arguments)

    def sync(self) -> None:
        """As `FaultyFile`, or wait."""
        if self.is_stuck:
            assert self.answer.wait(60)
        super().sync()


def test_all_is_well(tmp_path: Path) -> None:
    """A database that nothing happened to gives no reason, in each mode and in memory."""
    path = tmp_path / "a.memdb"
    found = []
    for where, mode in ((None, "rw"), (path, "rw"), (path, "append"), (path, "r")):
        with memdb.open(where, mode) as db:  # type: ignore[arg-type]
            found.append(db.health())
            if mode != "r":
                collections(db)["Account"].insert(Account("a", 1))
            found.append(db.health())

    assert [memdb.Health()] * 8 == found
    assert found[0].is_well and not found[0].names


def test_closed(tmp_path: Path) -> None:
    """A closed database has no health: that it is closed is an error as everywhere."""
    db = memdb.open(tmp_path / "a.memdb")
    db.close()

    with pytest.raises(memdb.ClosedError):
        db.health()


def test_failed_sync(tmp_path: Path) -> None:
    """Once a sync has failed that is the reason, until the file is opened again."""
    path = tmp_path / "a.memdb"
    file = FaultyFile(path)
    db = open_on(file)
    collections(db)["Account"].insert(Account("a", 1))
    file.fail("sync")
    with pytest.raises(memdb.FailedError):
        db.flush()
    health = db.health()
    drop(db)
    with memdb.open(path) as db:
        after = db.health()

    assert not health.is_well
    assert ("sync_failed",) == health.names
    assert str(path) in health.reasons[0].message
    assert after.is_well


def test_failed_sync_in_the_background(tmp_path: Path) -> None:
    """A sync that failed in the background is the same reason, before any call was told."""
    file = FaultyFile(tmp_path / "a.memdb")
    db = open_on(file, flush_interval=0.001)
    file.fail("sync", for_ever=True)
    collections(db)["Account"].insert(Account("a", 1))
    wait_until(lambda: not db.health().is_well)
    found = db.health().names
    with pytest.raises(memdb.FailedError):
        db.flush()
    drop(db)

    assert ("sync_failed",) == found


def test_waiting_failure(tmp_path: Path) -> None:
    """A failure in the background is a reason until a call was told of it, by that call."""
    db = open_on(FaultyFile(tmp_path / "a.memdb"))
    own = collections(db)["Account"]
    own.insert(Account("a", 1))
    flusher = db._engine.log._flusher
    before = flusher._sync

    def fail() -> None:
        raise RuntimeError("for the test")

    flusher._sync = fail
    flusher.wake()
    wait_until(lambda: flusher.failure is not None)
    flusher._sync = before
    found = [db.health(), db.health()]
    with pytest.raises(memdb.WriteError) as caught:
        while True:
            own.insert(Account("a", 2))
    after = db.health()
    db.close()

    assert [("background_failure",)] * 2 == [each.names for each in found]
    assert str(caught.value) == found[0].reasons[0].message
    assert "for the test" in str(caught.value)
    assert after.is_well


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("durability", ["written", "buffered"])
def test_disk_that_does_not_answer(tmp_path: Path, durability: str) -> None:
    """Commits that wait for a sync for too long are a reason, and nobody waits to hear it."""
    file = Stuck(tmp_path / "a.memdb")
    db = open_on(file, durability=durability, flush_interval=0.001)
    own = collections(db)["Account"]
    own.insert(Account("a", 1))
    file.is_stuck = True
    own.insert(Account("b", 2))
    wait_until(lambda: db.health().names == ("unsynced",))
    # As a writer has it who waits for the same disk.
    with db._engine.log.lock:
        found = db.health().names
    file.is_stuck = False
    file.answer.set()
    wait_until(lambda: db.health().is_well)
    db.close()

    assert ("unsynced",) == found


def test_unsynced_for_no_longer_than_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is not due yet is no reason, however long ago the last commit before it was."""
    monkeypatch.setattr(_health, "_LATE_S", 0.0)
    with memdb.open(tmp_path / "a.memdb", flush_interval=3600) as db:
        own = collections(db)["Account"]
        own.insert(Account("a", 1))
        db.flush()
        db._engine.log.safe_since_s -= 3 * 3600 - 60
        own.insert(Account("b", 2))
        before = db.health()
        db._engine.log.safe_since_s -= 120
        after = db.health()

    assert (True, ("unsynced",)) == (before.is_well, after.names)


def test_no_room_for_checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints that find no room are a reason once opening would have much to walk."""

    def refuse(log: Log) -> None:
        raise memdb.WriteError("there is no room", errno=errno.ENOSPC)

    with memdb.open(tmp_path / "a.memdb", checkpoint_interval=3) as db:
        own = collections(db)["Account"]
        own.insert(Account("a", 0))
        with monkeypatch.context() as patch:
            patch.setattr(Log, "_append_checkpoint", refuse)
            own.insert_many([Account("a", number) for number in range(20)])
            # The commits are synced all the same.
            db.flush()
            found = db.health()
        db.checkpoint()
        after = db.health()

    assert ("checkpoint_overdue",) == found.names
    assert after.is_well


def test_damage_that_was_met(tmp_path: Path) -> None:
    """A record that turned out to be damaged is a reason, with its place, also in bulk."""
    path = tmp_path / "a.memdb"
    with memdb.open(path) as db:
        collections(db)["notes"].insert_many([{"text": "a" * 50}, {"text": "b" * 50}])
    data = path.read_bytes()
    offset = data.index(b"b" * 50)
    path.write_bytes(data[:offset] + b"c" + data[offset + 1 :])
    found = []
    for mode in ("rw", "r"):
        with memdb.open(path, mode) as db:
            notes = collections(db)["notes"]
            assert notes[1]["text"] and db.health().is_well
            for _ in range(2):
                with pytest.raises(memdb.DamageError) as caught:
                    notes.get(2)
            found.append(db.health())

    assert [("damaged",)] * 2 == [each.names for each in found]
    assert str(caught.value.offset) in found[0].reasons[0].message
    assert found[0].reasons[0].message.startswith(f"{path}: 1 damaged record")


def test_torn_tail(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What opening cut off is a reason while it is open, and is logged once."""
    path = tmp_path / "a.memdb"
    with memdb.open(path) as db:
        collections(db)["Account"].insert(Account("a", 1))
    with path.open("ab") as file:
        file.write(b"torn")
    with memdb.open(path, "r") as db:
        assert db.health().is_well
    assert [] == caplog.record_tuples
    with memdb.open(path) as db:
        found, recovery = db.health(), db.recovery
    with memdb.open(path) as db:
        after = db.health()

    assert recovery is not None and recovery.kept_in is not None
    assert ("torn_tail",) == found.names
    assert recovery.kept_in in found.reasons[0].message
    assert after.is_well
    [(name, level, message)] = caplog.record_tuples
    assert ("memdb", logging.WARNING) == (name, level)
    assert str(path) in message and recovery.kept_in in message


def test_old_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log of which more than half is dead is a reason; it is counted only now and then."""
    monkeypatch.setattr(_health, "_LARGE_LOG_BYTES", 20_000)
    counted: list[int] = []
    live_bytes = _health._live_bytes

    def noted(log: Any) -> int:
        counted.append(1)
        return live_bytes(log)

    monkeypatch.setattr(_health, "_live_bytes", noted)
    with memdb.open(tmp_path / "a.memdb") as db:
        notes = collections(db)["notes"]
        notes.insert({"text": "x" * 100})
        small = db.health()
        notes.insert_many([{"text": "x" * 100} for _ in range(200)])
        large = [db.health().is_well for _ in range(5)]
        for letter in "yz":
            for identity in range(1, 202):
                notes.update(identity, text=letter * 100)
        dead = [db.health() for _ in range(5)]

    assert small.is_well
    assert [True] * 5 == large
    assert [("mostly_dead",)] * 5 == [each.names for each in dead]
    assert 2 == len(counted)


@pytest.mark.usefixtures("at_once")
def test_reader_behind(tmp_path: Path) -> None:
    """A reader that has not taken in what is there is behind, until it refreshes."""
    path = tmp_path / "a.memdb"
    with memdb.open(path) as db:
        own = collections(db)["Account"]
        own.insert(Account("a", 1))
        with memdb.open(path, "r") as reader:
            before = reader.health()
            own.insert(Account("b", 2))
            found = reader.health()
            reader.refresh()
            after = reader.health()

    assert (True, ("reader_behind",), True) == (before.is_well, found.names, after.is_well)


@pytest.mark.usefixtures("at_once")
def test_reader_of_a_file_that_was_replaced(tmp_path: Path) -> None:
    """A reader that goes on with a file that was compacted away is behind, until it refreshes."""
    path = tmp_path / "a.memdb"
    with memdb.open(path) as db:
        collections(db)["Account"].insert(Account("a", 1))
        with memdb.open(path, "r") as reader:
            before = reader.health()
            db.compact()
            reader.health()
            found = reader.health()
            reader.refresh()
            after = reader.health()

    assert (True, ("reader_behind",), True) == (before.is_well, found.names, after.is_well)


@pytest.mark.parametrize("where", ["memory", "r"])
def test_who_writes_no_checkpoints_is_not_late_with_them(tmp_path: Path, where: str) -> None:
    """A database in memory, and a reader, have no checkpoints and no syncs to be late with."""
    path = tmp_path / "a.memdb"
    with memdb.open(None if where == "memory" else path, checkpoint_interval=5) as db:
        own = collections(db)["Account"]
        for number in range(50):
            own.insert(Account("a", number))
        killed = tmp_path / "killed.memdb"
        if where == "r":
            killed.write_bytes(path.read_bytes())
        with db if where == "memory" else memdb.open(killed, "r") as looked_at:
            looked_at._engine.log.safe_since_s -= 1_000_000
            found = looked_at.health()

    assert memdb.Health() == found


def test_reader_that_can_not_refresh(tmp_path: Path) -> None:
    """What kept a reader from taking in what is there is a reason, until it could."""
    path, aside = tmp_path / "a.memdb", tmp_path / "aside"
    memdb.open(path).close()
    with memdb.open(path, "r") as reader:
        path.rename(aside)
        with pytest.raises(memdb.FileMissingError) as caught:
            reader.refresh()
        found = reader.health()
        aside.rename(path)
        reader.refresh()
        after = reader.health()

    assert ("refresh_failed",) == found.names
    assert str(caught.value) in found.reasons[0].message
    assert after.is_well


@pytest.mark.parametrize("what", ["removed", "moved", "replaced", "folder moved"])
def test_file_that_is_not_there_any_more(tmp_path: Path, what: str) -> None:
    """That what is written goes to a file that is elsewhere is a reason, for writers."""
    folder = tmp_path / "folder"
    folder.mkdir()
    path = folder / "a.memdb"
    with memdb.open(path) as db:
        collections(db)["Account"].insert(Account("a", 1))
        before = db.health()
        if what == "removed":
            path.unlink()
        elif what == "folder moved":
            folder.rename(tmp_path / "aside")
        else:
            path.rename(folder / "aside")
        if what == "replaced":
            memdb.open(path).close()
        collections(db)["Account"].insert(Account("b", 2))
        found = db.health()

    assert (True, ("file_moved",)) == (before.is_well, found.names)


def test_a_compaction_is_no_reason(tmp_path: Path) -> None:
    """While a compaction puts another file in the place of the old one, all is well."""
    with memdb.open(tmp_path / "a.memdb") as db:
        own = collections(db)["Account"]
        own.insert_many([Account("a", number) for number in range(300)])
        found: list[memdb.Health] = []
        for _ in range(3):
            thread = threading.Thread(target=db.compact)
            thread.start()
            while thread.is_alive():
                found.append(db.health())
            thread.join()

    assert {memdb.Health()} == set(found)


def test_reasons_come_together(tmp_path: Path) -> None:
    """Several things can be wrong at once; the most urgent comes first."""
    path = tmp_path / "a.memdb"
    with memdb.open(path) as db:
        collections(db)["Account"].insert(Account("a", 1))
    with path.open("ab") as stray:
        stray.write(b"torn")
    file = FaultyFile(path)
    db = open_on(file)
    collections(db)["Account"].insert(Account("b", 1))
    file.fail("sync")
    with pytest.raises(memdb.FailedError):
        db.flush()
    found = db.health().names
    drop(db)

    assert ("sync_failed", "torn_tail") == found


# -- the log ---------------------------------------------------------------------------------


@pytest.mark.parametrize("failure", [OSError(errno.EIO, "broken"), RuntimeError("odd")])
def test_failures_of_the_background_are_logged(
    tmp_path: Path, failure: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """What fails in the background is logged at once, whether a call follows or not."""
    path = tmp_path / "a.memdb"
    file = FaultyFile(path)
    db = open_on(file)
    collections(db)["Account"].insert(Account("a", 1))

    def fail() -> None:
        raise failure

    file.sync = fail  # type: ignore[method-assign]
    db._engine.log._flusher.wake()
    wait_until(lambda: caplog.records)
    drop(db)

    [(name, level, message)] = caplog.record_tuples
    assert ("memdb", logging.WARNING) == (name, level)
    assert str(failure.args[-1]) in message


def test_a_handler_may_use_the_database(tmp_path: Path) -> None:
    """Whoever is told of a failure may look at the database, and close it."""
    file = FaultyFile(tmp_path / "a.memdb")
    db = open_on(file)
    own = collections(db)["Account"]
    own.insert(Account("a", 1))
    seen: list[Any] = []

    class Closing(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            seen.extend([len(own), db.health().names, db.check()])
            with pytest.raises(memdb.FailedError):
                own.insert(Account("b", 2))
            seen.append("refused")
            drop(db)
            seen.append("closed")

    handler = Closing()
    logging.getLogger("memdb").addHandler(handler)
    try:
        file.fail("sync", for_ever=True)
        db._engine.log._flusher.wake()
        wait_until(lambda: "closed" in seen)
    finally:
        logging.getLogger("memdb").removeHandler(handler)

    assert [1, ("sync_failed",), [], "refused", "closed"] == seen


SILENT = """
import sys, time
import memdb
from memdb.storage import OSFile
with open(sys.argv[1], "ab") as file:
    file.write(b"torn")
db = memdb.open(sys.argv[1], flush_interval=0.001)
def fail(self):
    raise OSError(5, "broken")
OSFile.sync = fail
db.collection("notes").insert({"a": 1})
while db.health().is_well or "sync_failed" not in db.health().names:
    time.sleep(0.001)
try:
    db.close()
except memdb.FailedError:
    pass
"""


def test_nothing_is_printed(tmp_path: Path) -> None:
    """A program that has set up no logging sees no warning on its output."""
    path = tmp_path / "a.memdb"
    memdb.open(path).close()
    done = run_script(SILENT, path)

    assert ("", "", 0) == (done.stdout, done.stderr, done.returncode)


def test_nothing_prints() -> None:
    """No module of the package prints, or asks for the streams to print to."""
    printing = re.compile(r"^\s*print\(|\bstd(out|err)\b", re.MULTILINE)
    found = [
        str(path.relative_to(ROOT))
        for room in ("memdb", "storage", "indexes", "serializers")
        for path in sorted((ROOT / room).rglob("*.py"))
        if path.name != "__main__.py" and printing.search(path.read_text(encoding="utf-8"))
    ]

    assert [] == found
