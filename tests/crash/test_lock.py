"""Who may write: one process at a time, no forked child, nobody without permission (B2, B3, B6)."""

from __future__ import annotations

import os
import signal
import socket
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import memdb
from tests.crash import children
from tests.crash.children import Account, collections
from tests.support.processes import Child, in_fork, run_script, start_script

# -- B2 --------------------------------------------------------------------------------------


def ways_to(path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return other names of the same file."""
    folder = path.parent
    link, hard = folder / "link", folder / "hard"
    link.symlink_to(path)
    os.link(path, hard)
    (folder / "inner").mkdir()
    (folder / "way").symlink_to(folder, target_is_directory=True)
    monkeypatch.chdir(folder / "inner")
    return {
        "path": path,
        "text": str(path),
        "bytes": os.fsencode(path),
        "link": link,
        "hard link": hard,
        "linked folder": folder / "way" / path.name,
        "relative": f"../{path.name}",
        "dots": f"{folder}/inner/../{path.name}",
    }


@pytest.mark.parametrize("mode", ["rw", "append"])
def test_b2_second_writer_in_the_same_process(
    tmp_path: Path, mode: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second writer in one process is refused by whatever name it asks, and told by whom."""
    path = tmp_path / "a.memdb"
    holder = f"process {os.getpid()} on {socket.gethostname()}"
    with memdb.open(path, mode):
        for name, way in ways_to(path, monkeypatch).items():
            with pytest.raises(memdb.LockedError) as caught:
                memdb.open(way)
            assert (name, holder) == (name, caught.value.holder)
            assert holder in str(caught.value)
            assert os.fsdecode(way) in str(caught.value) or str(path) in str(caught.value)
    memdb.open(path).close()


@pytest.mark.parametrize("name", ["path", "link", "hard link", "relative"])
def test_b2_second_writer_in_another_process(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both ways round a second process is refused with the first one's pid and host."""
    path = tmp_path / "a.memdb"
    memdb.open(path).close()
    way = ways_to(path, monkeypatch)[name]
    with Child(children.hold, str(path), {}) as child:
        assert child.receive() == "open"
        expected = f"process {child.pid} on {socket.gethostname()}"
        with pytest.raises(memdb.LockedError) as caught:
            memdb.open(way)
        child.send("end")
        assert child.wait() == 0
    with memdb.open(way):
        code = (
            "import memdb, sys\n"
            "try:\n    memdb.open(sys.argv[1])\n"
            "except memdb.LockedError as error:\n    print(error.holder)\n"
        )
        other = run_script(code, path)

    assert expected == caught.value.holder
    assert f"process {os.getpid()} on {socket.gethostname()}\n" == other.stdout


def test_b2_refused_writer_changes_nothing(tmp_path: Path) -> None:
    """The refusal leaves file, holder and note as they are."""
    path = tmp_path / "a.memdb"
    with memdb.open(path, flush_interval=1000) as db:
        own = collections(db)["Account"]
        own.insert(Account("a", 1))
        before = path.read_bytes()
        for _ in range(3):
            with pytest.raises(memdb.LockedError):
                memdb.open(path)
        after = path.read_bytes()
        own.insert(Account("b", 2))
        found = len(own)

    assert before == after
    assert 2 == found


def test_b2_readers_need_no_lock(tmp_path: Path) -> None:
    """Any number of readers open beside a writer and before it, and do not keep it out."""
    path = tmp_path / "a.memdb"
    with memdb.open(path) as db:
        collections(db)["Account"].insert(Account("a", 1))
        with memdb.open(path, "r") as first, memdb.open(path, "r") as second:
            found = [len(collections(each)["Account"]) for each in (first, second)]
    with memdb.open(path, "r"), memdb.open(path):
        pass

    assert [1, 1] == found


def test_b2_the_note_is_gone_after_close(tmp_path: Path) -> None:
    """A closed file names no holder."""
    path = tmp_path / "a.memdb"
    memdb.open(path).close()

    assert bytes(256) == path.read_bytes()[2048:2304]


def test_b2_threads_that_open_at_once(tmp_path: Path) -> None:
    """Of many threads that make the same new file one gets it, the others are told."""
    path = tmp_path / "a.memdb"
    opened: list[memdb.Database] = []
    refused: list[memdb.LockedError] = []
    start = threading.Barrier(8)

    def work() -> None:
        start.wait()
        try:
            opened.append(memdb.open(path))
        except memdb.LockedError as error:
            refused.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for db in opened:
        db.close()

    assert (1, 7) == (len(opened), len(refused))


# -- B3 --------------------------------------------------------------------------------------


def enter(manager: Any) -> None:
    """Enter a context manager."""
    manager.__enter__()


USES: dict[str, Callable[[memdb.Database, Any], object]] = {
    "get": lambda db, own: own.get(1),
    "[]": lambda db, own: own[1],
    "in": lambda db, own: 1 in own,
    "len": lambda db, own: len(own),
    "iterate": lambda db, own: list(own),
    "ids": lambda db, own: own.ids(),
    "items": lambda db, own: list(own.items()),
    "find": lambda db, own: own.find(owner="a"),
    "find by id": lambda db, own: own.find(id=1),
    "find_all": lambda db, own: own.find_all(lambda account: True),
    "count": lambda db, own: own.count(owner="a"),
    "count all": lambda db, own: own.count(),
    "exists": lambda db, own: own.exists(owner="a"),
    "exists any": lambda db, own: own.exists(),
    "where": lambda db, own: own.where(owner="a").all(),
    "where page": lambda db, own: own.where(owner="a").page(0, 1),
    "where delete": lambda db, own: own.where(owner="a").delete(),
    "query": lambda db, own: own.query().first(),
    "query update": lambda db, own: own.query().update(cents=3),
    "indexes add": lambda db, own: own.indexes.add(memdb.HashIndex("owner")),
    "history": lambda db, own: own.history(1),
    "collection stats": lambda db, own: own.stats(),
    "insert": lambda db, own: own.insert(Account("b", 2)),
    "insert_many": lambda db, own: own.insert_many([Account("b", 2)]),
    "put new": lambda db, own: own.put(Account("b", 2)),
    "put": lambda db, own: own.put(Account("b", 2, id=1)),
    "update": lambda db, own: own.update(1, cents=3),
    "edit": lambda db, own: enter(own.edit(1)),
    "delete": lambda db, own: own.delete(1),
    "del": lambda db, own: own.__delitem__(1),
    "clear": lambda db, own: own.clear(),
    "collection": lambda db, own: db.collection("other"),
    "known collection": lambda db, own: db.collection(Account),
    "collections": lambda db, own: db.collections(),
    "transaction": lambda db, own: enter(db.transaction()),
    "flush": lambda db, own: db.flush(),
    "checkpoint": lambda db, own: db.checkpoint(),
    "check": lambda db, own: db.check(),
    "stats": lambda db, own: db.stats(),
    "migrate": lambda db, own: db.migrate(),
    "health": lambda db, own: db.health(),
    "refresh": lambda db, own: db.refresh(),
    "view": lambda db, own: enter(db.view()),
    "at": lambda db, own: enter(db.at(1)),
    "snapshot": lambda db, own: db.snapshot("no snapshot of a forked child"),
    "compact": lambda db, own: db.compact(),
    "rekey": lambda db, own: db.rekey(password="secret"),
}


def error_of_each(db: memdb.Database, own: Any) -> dict[str, str]:
    """Run every method and return the class of error of each."""
    answers = {}
    for name, use in USES.items():
        try:
            answers[name] = f"gave {use(db, own)!r}"
        except BaseException as error:
            answers[name] = type(error).__name__
    return answers


def test_b3_every_method_is_named() -> None:
    """The table of uses covers each public method that needs the file."""
    names = {name for cls in (memdb.Database, memdb.Collection) for name in vars(cls)}
    public = {name for name in names if not name.startswith("_")}
    # These answer or do nothing in a child.
    harmless = {"path", "name", "recovery", "is_closed", "is_encrypted", "close"}

    assert public - harmless <= {use.split()[0] for use in USES} | {"stats"}


@pytest.mark.parametrize("durability", ["buffered", "written", "synced"])
@pytest.mark.parametrize("cache", ["all", "none"])
def test_b3_every_method_in_a_forked_child(tmp_path: Path, durability: Any, cache: Any) -> None:
    """In a forked child every method raises ForkedError at once; the parent is unharmed."""
    path = tmp_path / "a.memdb"
    with memdb.open(path, durability=durability, cache=cache, flush_interval=0.01) as db:
        own = collections(db)["Account"]
        own.insert(Account("a", 1))
        assert own[1].owner == "a"
        answers = in_fork(lambda: error_of_each(db, own))
        closed = in_fork(lambda: (db.close(), db.is_closed, repr(db)))
        # Children that used, closed, and ended normally: the lock is still the parent's.
        with pytest.raises(memdb.LockedError):
            memdb.open(path)
        own.insert(Account("b", 2))
        db.flush()
        findings = db.check()
    with memdb.open(path) as db:
        found = [account.owner for account in collections(db)["Account"]]

    assert dict.fromkeys(USES, "ForkedError") == answers
    assert closed[1]
    assert ([], ["a", "b"]) == (findings, found)


@pytest.mark.parametrize("mode", ["r", None])
def test_b3_readers_and_memory_databases_too(tmp_path: Path, mode: Any) -> None:
    """A reader's and a memory database's handle is as useless in a child."""
    path = tmp_path / "a.memdb"
    with memdb.open(path) as db:
        collections(db)["Account"].insert(Account("a", 1))
    with memdb.open(None) if mode is None else memdb.open(path, mode) as db:
        own = collections(db)["Account"]
        if mode is None:
            own.insert(Account("a", 1))
        answers = in_fork(lambda: error_of_each(db, own))
        found = own[1].owner

    assert dict.fromkeys(USES, "ForkedError") == answers
    assert "a" == found


def test_b3_a_fork_inside_a_transaction(tmp_path: Path) -> None:
    """In a child forked inside a transaction every method raises; the parent's one commits."""
    path = tmp_path / "a.memdb"
    with memdb.open(path) as db:
        own = collections(db)["Account"]
        own.insert(Account("a", 1))
        with db.transaction():
            own.update(1, cents=2)
            answers = in_fork(lambda: error_of_each(db, own))
        found = own[1].cents

    assert dict.fromkeys(USES, "ForkedError") == answers
    assert 2 == found


def test_b3_a_fork_while_another_thread_is_in_a_transaction(tmp_path: Path) -> None:
    """A transaction of a thread that the child does not have blocks nothing in the child."""
    path = tmp_path / "a.memdb"
    entered, leave = threading.Event(), threading.Event()
    with memdb.open(path) as db:
        own = collections(db)["Account"]
        own.insert(Account("a", 1))

        def work() -> None:
            with db.transaction():
                own.update(1, cents=2)
                entered.set()
                leave.wait(60)

        thread = threading.Thread(target=work)
        thread.start()
        entered.wait(60)
        try:
            answers = in_fork(lambda: error_of_each(db, own))
        finally:
            leave.set()
            thread.join()
        found = own[1].cents

    assert dict.fromkeys(USES, "ForkedError") == answers
    assert 2 == found


def test_b3_forks_while_other_threads_write(tmp_path: Path) -> None:
    """Forks at any moment of other threads' writes neither hang the child nor harm the parent."""
    path = tmp_path / "a.memdb"
    done = threading.Event()
    with memdb.open(path, flush_interval=0.001, checkpoint_interval=50) as db:
        own = collections(db)["Account"]
        own.insert(Account("a", 1))

        def work() -> None:
            while not done.is_set():
                own.insert(Account("b", 2))
                with db.transaction():
                    own.update(1, cents=own[1].cents + 1)

        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            answers = [in_fork(lambda: error_of_each(db, own)) for _ in range(10)]
        finally:
            done.set()
            for thread in threads:
                thread.join()
        findings = db.check()
        expected = len(own)
    with memdb.open(path) as db:
        found = len(collections(db)["Account"])

    assert [dict.fromkeys(USES, "ForkedError")] * 10 == answers
    assert ([], expected) == (findings, found)


def test_b3_the_child_may_open_for_itself(tmp_path: Path) -> None:
    """A child reads through a handle of its own beside the parent, and is no second writer."""
    path = tmp_path / "a.memdb"
    with memdb.open(path) as db:
        collections(db)["Account"].insert(Account("a", 1))

        def use() -> tuple[int, str]:
            with memdb.open(path, "r") as own:
                count = len(collections(own)["Account"])
            try:
                memdb.open(path)
            except memdb.LockedError:
                return count, "locked"
            return count, "opened"

        answer = in_fork(use)

    assert (1, "locked") == answer


ORPHAN = """
import os, sys, time
import memdb
db = memdb.open(sys.argv[1])
db.collection("notes").insert({"a": 1})
reading, writing = os.pipe()
pid = os.fork()
if pid == 0:
    os.write(writing, b"x")  # What is done after a fork is done.
    os.close(1)
    time.sleep(60)
    os._exit(0)
os.read(reading, 1)
print(pid, flush=True)
if sys.argv[2] == "close":
    db.close()
    print("closed", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("end", ["close", "kill"])
def test_b3_an_orphaned_child_does_not_keep_the_lock(tmp_path: Path, end: str) -> None:
    """When the parent closed or was killed the lock is free, though a forked child lives on."""
    path = tmp_path / "a.memdb"
    with start_script(ORPHAN, path, end) as program:
        assert program.stdout is not None
        orphan = int(program.stdout.readline())
        try:
            if end == "close":
                assert program.stdout.readline() == "closed\n"
            else:
                program.kill()
                program.wait()
            with memdb.open(path) as db:
                found = db.collection("notes")[1]
        finally:
            program.kill()
            os.kill(orphan, signal.SIGKILL)

    assert {"a": 1, "id": 1} == found


# -- B6 --------------------------------------------------------------------------------------


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that another user can reach."""
    candidates = dict.fromkeys((tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev/shm"))
    for parent in candidates:
        path = Path(parent)
        reachable = all(
            each.exists() and each.stat().st_mode & stat.S_IXOTH for each in (path, *path.parents)
        )
        if reachable and os.access(path, os.W_OK):
            break
    else:
        pytest.skip("no folder that another user can reach")
    with tempfile.TemporaryDirectory(dir=path) as name:
        os.chmod(name, 0o755)
        yield Path(name)


UNPRIVILEGED = """
import os, sys
import memdb
from tests.crash.children import Account, collections
path = sys.argv[1]
# What Python imports late must be there before its files can't be read any more.
list(collections(memdb.open(path, "r"))["Account"])
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
with memdb.open(path, "r") as db:
    print(len(collections(db)["Account"]), db.check())
for mode in ("rw", "append"):
    try:
        memdb.open(path, mode)
    except memdb.MemdbError as error:
        print(type(error).__name__, isinstance(error, PermissionError), 'mode="r"' in str(error))
try:
    memdb.open(path + ".new")
except memdb.MemdbError as error:
    print(type(error).__name__, path in str(error))
"""


def test_b6_file_and_folder_that_may_only_be_read(open_folder: Path) -> None:
    """Reading works and makes nothing; writing says that it is not permitted, not locked."""
    path = open_folder / "a.memdb"
    with memdb.open(path) as db:
        collections(db)["Account"].insert(Account("a", 1))
    path.chmod(0o444)
    open_folder.chmod(0o555)
    before = path.read_bytes()
    result = run_script(UNPRIVILEGED, path)
    listing = list(open_folder.iterdir())
    open_folder.chmod(0o755)

    refused = "FilePermissionError True True\n"
    assert f"1 []\n{refused}{refused}FilePermissionError True\n" == result.stdout, result.stderr
    assert [path] == listing
    assert before == path.read_bytes()


def test_b6_file_of_another_that_nobody_else_may_read(open_folder: Path) -> None:
    """A file that may not be read at all is refused for its permissions in all modes."""
    path = open_folder / "a.memdb"
    memdb.open(path).close()
    path.chmod(0o600)
    code = UNPRIVILEGED.split("with memdb.open")[0] + (
        "for mode in ('r', 'rw'):\n"
        "    try:\n        memdb.open(path, mode)\n"
        "    except memdb.FilePermissionError as error:\n        print(error.errno)\n"
    )
    if os.geteuid() != 0:
        path.chmod(0)
    result = run_script(code, path)

    assert "13\n13\n" == result.stdout, result.stderr
