"""Readers beside a writer that is at work, and what a handle leaves behind."""

from __future__ import annotations

import gc
import os
import random
import threading
from pathlib import Path
from typing import Any

import pytest

import memdb
from tests.crash import children
from tests.crash.children import Account, collections, state_of
from tests.support.effort import times
from tests.support.faulty import FaultyFile, drop, open_on
from tests.support.processes import Child


def read_beside_a_writer(path: Path, times: int) -> int:
    """Open for reading again and again while a child commits; return how many states it saw."""
    seen = set()
    with Child(children.transfer, str(path)) as child:
        child.receive()
        before = 0
        for number in range(times):
            with memdb.open(path, "r", cache=random.Random(number).choice(("all", "none"))) as db:
                own = collections(db)
                cents, other = own["Account"][1].cents, own["notes"][1]["cents"]
                assert cents + other == 1000, f"half a transaction: {cents} and {other}"
                versions = db.stats().versions
                assert versions >= before, "the log got shorter"
                before = versions
                seen.add(versions)
                if number % (times // 8) == 0:
                    assert db.check() == []
                    histories = [len(collection.history(1)) for collection in own.values()]
                    assert sum(histories) == versions
        child.send("end")
        assert child.wait() == 0
    with memdb.open(path) as db:
        assert db.recovery is None
        assert db.check() == []
    return len(seen)


def test_a_reader_beside_a_writer_sees_whole_transactions(tmp_path: Path) -> None:
    """A reader that opens hundreds of times beside a writer meets no error and nothing half."""
    seen = read_beside_a_writer(tmp_path / "a.memdb", 300)

    assert seen > 1


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_reader_that_opens_thousands_of_times(tmp_path: Path) -> None:
    """A reader that opens thousands of times beside a writer meets no error and nothing half."""
    seen = [read_beside_a_writer(tmp_path / f"{number}.memdb", 500) for number in range(times(10))]

    assert min(seen) > 10


def test_readers_come_and_go_while_writers_do(tmp_path: Path) -> None:
    """Readers open while writers open, commit and close: only "no database yet" may be said."""
    path = tmp_path / "a.memdb"
    done = threading.Event()
    failures: list[BaseException] = []

    def read() -> None:
        while not done.is_set():
            # Looked at before: afterwards the writer may have come further.
            was_there = path.exists() and path.stat().st_size > 12_288
            try:
                with memdb.open(path, "r") as db:
                    records = list(collections(db)["Account"])
                    assert [account.cents for account in records] == list(range(len(records)))
            except (memdb.FileMissingError, memdb.NotADatabaseError):
                if was_there:
                    failures.append(AssertionError("a database was not recognised"))
            except BaseException as error:
                failures.append(error)

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for number in range(40):
        with memdb.open(path, flush_interval=0.001, checkpoint_interval=2) as db:
            own = collections(db)["Account"]
            for each in range(5):
                own.insert(Account("a", number * 5 + each))
    done.set()
    for thread in threads:
        thread.join()

    assert [] == failures


def test_an_open_reader_keeps_its_state(tmp_path: Path) -> None:
    """A reader sees the state at its opening, whatever the writer does and wherever it ends."""
    path = tmp_path / "a.memdb"
    writer = memdb.open(path)
    own = collections(writer)
    own["Account"].insert(Account("a", 1))
    own["notes"].insert({"text": "n"})
    with memdb.open(path, "r") as reader:
        expected = state_of(writer)
        own["Account"].update(1, cents=2)
        own["notes"].delete(1)
        own["Account"].insert_many([Account("x" * 1000, each) for each in range(2000)])
        writer.checkpoint()
        during = state_of(reader)
        writer.close()
        after = state_of(reader)
        findings = reader.check()

    assert expected == during == after
    assert [] == findings


@pytest.mark.parametrize("durability", ["written", "synced"])
def test_a_reader_sees_each_commit_at_once(tmp_path: Path, durability: Any) -> None:
    """What a call has committed is there for the next reader, without any flush."""
    path = tmp_path / "a.memdb"
    found = []
    with memdb.open(path, durability=durability, flush_interval=1000) as db:
        own = collections(db)["Account"]
        for number in range(5):
            own.insert(Account("a", number))
            with memdb.open(path, "r") as reader:
                found.append(len(collections(reader)["Account"]))

    assert [1, 2, 3, 4, 5] == found


def test_a_reader_beside_a_buffered_writer_sees_what_was_flushed(tmp_path: Path) -> None:
    """Under "buffered" a reader sees what was flushed, and no part of anything later."""
    path = tmp_path / "a.memdb"
    found = []
    with memdb.open(path, durability="buffered", flush_interval=1000) as db:
        own = collections(db)["Account"]
        for number in range(6):
            own.insert(Account("a", number))
            if number % 3 == 2:
                db.flush()
            with memdb.open(path, "r") as reader:
                found.append(len(collections(reader)["Account"]))

    assert [0, 0, 3, 3, 3, 6] == found


def test_a_reader_beside_a_torn_tail_changes_nothing(tmp_path: Path) -> None:
    """A reader of a file with a torn tail gives the prefix, reports it and leaves it alone."""
    path = tmp_path / "a.memdb"
    db = open_on(FaultyFile(path))
    own = collections(db)["Account"]
    own.insert(Account("a", 1))
    expected = state_of(db)
    end = db._engine.log.end
    own.insert(Account("b", 2))
    drop(db)
    data = bytearray(path.read_bytes())
    data[end + 73] ^= 1
    path.write_bytes(data)
    with memdb.open(path, "r") as db:
        found, recovery = state_of(db), db.recovery

    assert expected == found
    assert recovery is not None
    assert (end, None) == (recovery.cut_offset, recovery.kept_in)
    assert recovery.cut_bytes > 72
    assert bytes(data) == path.read_bytes()
    assert [path] == list(tmp_path.iterdir())


def open_files() -> int:
    """Return how many file descriptors this process has."""
    return len(os.listdir("/proc/self/fd"))


def memdb_maps(path: Path) -> list[str]:
    """Return the mappings of a file that this process has."""
    return [line for line in Path("/proc/self/maps").read_text().splitlines() if str(path) in line]


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts files in /proc")
@pytest.mark.parametrize("durability", ["buffered", "written", "synced"])
def test_close_leaves_nothing_behind(tmp_path: Path, durability: Any) -> None:
    """After close no file, mapping or thread is left, in all modes and after refusals too."""
    path = tmp_path / "a.memdb"
    memdb.open(path).close()
    gc.collect()
    before, threads = open_files(), threading.active_count()
    for mode in ("rw", "append", "r"):
        settings = {} if mode == "r" else {"durability": durability, "flush_interval": 0.001}
        with memdb.open(path, mode, **settings) as db:  # type: ignore[arg-type]
            own = collections(db)["Account"]
            if mode != "r":
                own.insert_many([Account("x" * 1000, each) for each in range(3000)])
                with pytest.raises(memdb.LockedError):
                    memdb.open(path)
            list(own)
            db.check()
            db.stats()
    gc.collect()

    assert (before, threads, []) == (open_files(), threading.active_count(), memdb_maps(path))
    assert [path] == list(tmp_path.iterdir())


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts files in /proc")
def test_a_database_that_is_forgotten_closes_itself(tmp_path: Path) -> None:
    """A handle that nobody has any more is closed, and what it had buffered is in the file."""
    path = tmp_path / "a.memdb"
    before = open_files()
    db = memdb.open(path, durability="buffered", flush_interval=1000)
    collections(db)["Account"].insert(Account("a", 1))
    del db
    gc.collect()
    after = open_files()
    with memdb.open(path) as db:
        found, recovery = len(collections(db)["Account"]), db.recovery

    assert (before, 1, None) == (after, found, recovery)
    assert [] == [each for each in threading.enumerate() if each.name == "memdb-flusher"]


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts files in /proc")
@pytest.mark.parametrize("method", ["sync", "write", "truncate"])
def test_a_failing_close_leaves_nothing_behind(tmp_path: Path, method: str) -> None:
    """A close that raises gives up file, mapping, thread and lock all the same."""
    path = tmp_path / "a.memdb"
    before, threads = open_files(), threading.active_count()
    file = FaultyFile(path)
    db = open_on(file)
    collections(db)["Account"].insert(Account("a", 1))
    file.fail(method, for_ever=True)
    with pytest.raises(memdb.MemdbError):
        db.close()
    after = open_files(), threading.active_count(), memdb_maps(path)
    memdb.open(path).close()

    assert (before, threads, []) == after


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts files in /proc")
def test_refused_openings_leave_nothing_behind(tmp_path: Path) -> None:
    """Each kind of refusal at opening leaves neither file, mapping nor thread."""
    good = tmp_path / "good.memdb"
    with memdb.open(good) as db:
        collections(db)["Account"].insert(Account("a", 1))
    data = good.read_bytes()
    cases = {"other": b"something else", "cut": data[:-9], "head": data[:30] + b"?" + data[31:]}
    before, threads = open_files(), threading.active_count()
    for name, content in cases.items():
        path = tmp_path / name
        path.write_bytes(content)
        for mode in ("rw", "r"):
            with pytest.raises(memdb.MemdbError):
                memdb.open(path, mode)  # type: ignore[arg-type]
    for path in (tmp_path, tmp_path / "no" / "such", Path("/dev/null")):
        with pytest.raises(memdb.MemdbError):
            memdb.open(path)

    assert (before, threads, []) == (open_files(), threading.active_count(), memdb_maps(tmp_path))
