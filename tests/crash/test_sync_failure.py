"""A sync that fails is final, in the foreground and in the background (A6, B5)."""

from __future__ import annotations

import contextlib
import errno
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import memdb
from tests.crash.children import Account, collections, state_of
from tests.support.faulty import FaultyFile, drop, open_on
from tests.support.processes import start_script

MODES = ("buffered", "written", "synced")
# Far more than any of these needs; a hang is what it ends.
PATIENCE_S = 20.0


def wait_until(is_done: Any) -> None:
    """Return once ``is_done()`` is true; fail if it never is."""
    deadline = time.monotonic() + PATIENCE_S
    while not is_done():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.001)


@pytest.mark.parametrize("durability", MODES)
def test_a6_failed_flush_is_final(tmp_path: Path, durability: str) -> None:
    """Once a sync has failed no write is accepted, though a second sync would succeed."""
    path = tmp_path / "a.memdb"
    file = FaultyFile(path)
    db = open_on(file, durability=durability)
    own = collections(db)
    own["Account"].insert(Account("a", 1))
    db.flush()
    safe = state_of(db)
    file.fail("sync", code=errno.EIO)
    with pytest.raises(memdb.FailedError) as caught:
        own["Account"].insert(Account("b", 2))
        db.flush()
    calls = file.calls["sync"]
    before = state_of(db)
    writes = [
        lambda: own["Account"].insert(Account("c", 3)),
        lambda: own["Account"].insert_many([Account("c", 3)]),
        lambda: own["Account"].update(1, cents=7),
        lambda: own["Account"].delete(1),
        lambda: own["Account"].clear(),
        lambda: own["Account"].put(Account("c", 3)),
        lambda: own["notes"].insert({}),
        lambda: db.transaction().__enter__(),
        db.flush,
        db.checkpoint,
    ]
    for write in writes:
        with pytest.raises(memdb.FailedError):
            write()

    assert errno.EIO == caught.value.errno
    assert before == state_of(db)
    _close(db)
    assert db.is_closed
    # A failed sync is never tried again: its success would prove nothing.
    assert calls == file.calls["sync"]
    with memdb.open(path) as db:
        assert state_of(db) in (safe, before)
        assert db.check() == []
        collections(db)["Account"].insert(Account("d", 4))


def test_a6_reading_goes_on_after_a_failed_sync(tmp_path: Path) -> None:
    """Reads answer as before once a sync has failed, and check() works."""
    file = FaultyFile(tmp_path / "a.memdb")
    db = open_on(file)
    own = collections(db)["Account"]
    own.insert(Account("a", 1))
    file.fail("sync", for_ever=True)
    with pytest.raises(memdb.FailedError):
        db.flush()
    found = (own[1].owner, len(own), own.count(owner="a"), list(own.ids()), db.check())
    drop(db)

    assert ("a", 1, 1, [1], []) == found


@pytest.mark.parametrize("method", ["sync", "write"])
def test_a6_failed_root_is_final_too(tmp_path: Path, method: str) -> None:
    """A flush whose root can't be written fails as one whose data can't be synced."""
    path = tmp_path / "a.memdb"
    file = FaultyFile(path)
    db = open_on(file)
    collections(db)["Account"].insert(Account("a", 1))
    expected = state_of(db)
    file.fail(method)
    with pytest.raises(memdb.FailedError):
        db.flush()
    with pytest.raises(memdb.FailedError):
        collections(db)["Account"].insert(Account("b", 2))
    drop(db)
    with memdb.open(path) as db:
        found = state_of(db)

    assert expected == found


def test_a6_transaction_that_is_open_when_a_sync_fails_is_refused(tmp_path: Path) -> None:
    """A transaction that began before the failed sync raises at its end and changes nothing."""
    path = tmp_path / "a.memdb"
    file = FaultyFile(path)
    db = open_on(file)
    own = collections(db)["Account"]
    own.insert(Account("a", 1))
    file.fail("sync")
    with pytest.raises(memdb.FailedError), db.transaction():
        own.insert(Account("b", 2))
        with pytest.raises(memdb.FailedError):
            db.flush()
    after = len(own)
    drop(db)
    with memdb.open(path) as db:
        found = len(collections(db)["Account"])

    assert (1, 1) == (after, found)


def test_a6_many_threads_all_get_the_error(tmp_path: Path) -> None:
    """Writers that share a sync that fails all raise; none is told that it is safe."""
    file = FaultyFile(tmp_path / "a.memdb")
    db = open_on(file, durability="synced")
    own = collections(db)["Account"]
    own.insert(Account("a", 1))
    file.fail("sync", for_ever=True)
    errors: list[BaseException] = []

    def write() -> None:
        try:
            own.insert(Account("b", 2))
        except memdb.FailedError as error:
            errors.append(error)

    threads = [threading.Thread(target=write) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    drop(db)

    assert 8 == len(errors)


@pytest.mark.parametrize("durability", ["buffered", "written"])
@pytest.mark.parametrize("then", ["insert", "flush", "close", "transaction", "update"])
def test_b5_failure_of_the_flusher_reaches_the_next_call(
    tmp_path: Path, durability: str, then: str
) -> None:
    """What the background flusher met is raised at the next call, whichever that is."""
    file = FaultyFile(tmp_path / "a.memdb")
    db = open_on(file, durability=durability, flush_interval=0.001)
    own = collections(db)["Account"]
    file.fail("sync", for_ever=True)
    own.insert(Account("a", 1))
    wait_until(lambda: db._engine.log._flusher.failure is not None)

    def call() -> None:
        if then == "insert":
            own.insert(Account("b", 2))
        elif then == "flush":
            db.flush()
        elif then == "close":
            db.close()
        elif then == "update":
            own.update(1, cents=2)
        else:
            with db.transaction():
                own.insert(Account("b", 2))

    with pytest.raises(memdb.FailedError) as caught:
        call()
    with pytest.raises(memdb.MemdbError):
        own.insert(Account("c", 3))
    thread = threading.Thread(target=_close, args=(db,))
    thread.start()
    thread.join(PATIENCE_S)

    assert not thread.is_alive()
    assert db.is_closed
    assert str(file.path) in str(caught.value)
    assert [] == [each.name for each in threading.enumerate() if each.name == "memdb-flusher"]


def _close(db: memdb.Database) -> None:
    with contextlib.suppress(memdb.FailedError):  # close() may say it again or not.
        db.close()


def test_b5_full_disk_of_the_flusher_is_told_once_and_heals(tmp_path: Path) -> None:
    """A checkpoint that finds no room is told to one call; with room writing goes on."""
    path = tmp_path / "a.memdb"
    file = FaultyFile(path)
    db = open_on(file, flush_interval=0.001, checkpoint_interval=1)
    own = collections(db)["Account"]
    acknowledged = 0
    file.fail("reserve", 4, errno.ENOSPC, for_ever=True)
    with pytest.raises(memdb.WriteError) as caught:
        for _ in range(100_000):
            own.insert(Account("a" * 100, acknowledged))
            acknowledged += 1
    file.heal()
    for _ in range(3):
        try:
            own.insert(Account("b", acknowledged))
        except memdb.WriteError:
            # The flusher may have met the full disk besides; it is told at most once more.
            own.insert(Account("b", acknowledged))
        acknowledged += 1
    db.close()
    with memdb.open(path) as db:
        found = [account.cents for account in collections(db)["Account"]]
        findings = db.check()

    assert errno.ENOSPC == caught.value.errno
    assert (list(range(acknowledged)), []) == (found, findings)


def test_full_disk_does_not_keep_a_flush_from_syncing(tmp_path: Path) -> None:
    """A flush makes all commits safe though there is no room for the checkpoint that is due."""
    path = tmp_path / "a.memdb"
    file = FaultyFile(path)
    db = open_on(file, checkpoint_interval=3)
    own = collections(db)["Account"]
    own.insert(Account("a", 0))
    file.fail("reserve", 1, errno.ENOSPC, for_ever=True)
    with pytest.raises(memdb.WriteError):
        while True:
            own.insert(Account("a" * 500, 1))
    expected = state_of(db)
    db.flush()
    survives = file.synced
    drop(db)
    path.write_bytes(survives)
    with memdb.open(path) as db:
        found = state_of(db)

    assert expected == found


@pytest.mark.parametrize("interval", [1, 1000])
@pytest.mark.parametrize("durability", MODES)
def test_full_disk_does_not_keep_a_database_from_closing(
    tmp_path: Path, durability: str, interval: int
) -> None:
    """close() syncs every commit though there is no room for the last checkpoint."""
    path = tmp_path / "a.memdb"
    file = FaultyFile(path)
    db = open_on(file, durability=durability, checkpoint_interval=interval)
    own = collections(db)["Account"]
    own.insert(Account("a", 0))
    file.fail("reserve", 1, errno.ENOSPC, for_ever=True)
    with pytest.raises(memdb.WriteError):
        while True:
            own.insert(Account("a" * 500, 1))
    expected = state_of(db)
    db.close()
    with memdb.open(path) as db:
        found, recovery, findings = state_of(db), db.recovery, db.check()

    assert (expected, None, []) == (found, recovery, findings)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_close_reports_a_failed_sync_and_gives_everything_up(tmp_path: Path, number: int) -> None:
    """A sync that fails in close() raises; lock and file are given up all the same."""
    path = tmp_path / "a.memdb"
    file = FaultyFile(path)
    db = open_on(file)
    collections(db)["Account"].insert(Account("a", 1))
    expected = state_of(db)
    file.fail("sync", number)
    try:
        db.close()
    except memdb.FailedError:
        assert file.calls["sync"] >= number
    else:
        assert file.calls["sync"] < 2 + number  # close() has no so many syncs.

    assert db.is_closed
    with memdb.open(path) as db:
        assert expected == state_of(db)


HANGING = """
import sys, threading, time
import memdb
from tests.crash.children import Account, collections
from tests.support.faulty import FaultyFile, open_on

class Hanging(FaultyFile):
    def sync(self):
        if is_hanging:
            print("hangs", flush=True)
            time.sleep(3600)
        super().sync()

is_hanging = False
db = open_on(Hanging(sys.argv[1]), flush_interval=0.01, durability=sys.argv[2])
own = collections(db)["Account"]
own.insert(Account("a", 1))
db.flush()
is_hanging = True
try:
    while True:
        own.insert(Account("b", 2))
        time.sleep(0.001)
        if sys.argv[3] == "flush":
            db.flush()
except KeyboardInterrupt:
    print("interrupted", flush=True)
    import os
    os._exit(7)
"""


@pytest.mark.parametrize(("durability", "call"), [("written", "insert"), ("written", "flush")])
def test_b5_ctrl_c_reaches_a_program_whose_disk_hangs(
    tmp_path: Path, durability: str, call: str
) -> None:
    """While the disk hangs in the flusher or in a flush, Ctrl-C still works."""
    path = tmp_path / "a.memdb"
    with start_script(HANGING, path, durability, call) as program:
        assert program.stdout is not None
        assert "hangs\n" == program.stdout.readline()
        time.sleep(0.05)
        program.send_signal(signal.SIGINT)
        try:
            code = program.wait(PATIENCE_S)
        finally:
            program.kill()

    assert 7 == code
    with memdb.open(path) as db:
        assert db.check() == []
