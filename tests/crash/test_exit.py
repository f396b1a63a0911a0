"""Programs that end without closing, in all the ways in which programs end."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

import memdb
from tests.support.processes import run_script, start_script

# Each program takes some tenths of a second. What ends one without closing it matters most where
# the least is written before.
MODES = [
    "buffered",
    pytest.param("written", marks=pytest.mark.slow),
    pytest.param("synced", marks=pytest.mark.slow),
]
SIGNALS = [
    signal.SIGTERM,
    pytest.param(signal.SIGHUP, marks=pytest.mark.slow),
    pytest.param(signal.SIGQUIT, marks=pytest.mark.slow),
    pytest.param(signal.SIGUSR1, marks=pytest.mark.slow),
]

# What each way of ending does once a hundred records are in the file; the number says how many
# further ones are there afterwards, None for any.
BEGIN = """
import os, signal, sys, threading, time
import memdb
db = memdb.open(sys.argv[1], durability=sys.argv[2], flush_interval=60)
own = db.collection("notes", indexes=[memdb.SortedIndex("n")])
own.insert_many([{"n": n} for n in range(100)])
assert own.where(n=5).count() == 1
"""
WAYS: dict[str, tuple[str, int | None, int]] = {
    "writing threads": (
        """
def work():
    try:
        while True:
            own.insert({"n": 100})
    except memdb.ClosedError:
        pass
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.05)
""",
        None,
        0,
    ),
    "a thread that is waited for": (
        """
def work():
    time.sleep(0.2)
    own.insert({"n": 100})
threading.Thread(target=work).start()
""",
        1,
        0,
    ),
    "reading threads": (
        """
def work():
    try:
        while True:
            own.query().order_by("n").limit(3).all()
            list(own)
    except memdb.ClosedError:
        pass
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.05)
""",
        0,
        0,
    ),
    "an open transaction": (
        """
scope = db.transaction()
scope.__enter__()
own.insert({"n": 100})
""",
        0,
        0,
    ),
    "an error inside of a transaction": (
        """
with db.transaction():
    own.insert({"n": 100})
    raise SystemExit(5)
""",
        0,
        5,
    ),
    "a handle in a cycle": (
        """
class Cycle: pass
cycle = Cycle()
cycle.own, cycle.db, cycle.cycle = own, db, cycle
own.insert({"n": 100})
del own, db
""",
        1,
        0,
    ),
    "an exit handler that writes": (
        """
import atexit
atexit.register(lambda: own.insert({"n": 100}))
""",
        1,
        0,
    ),
    "a generator that is half read": (
        """
iterator = iter(own)
next(iterator)
rows = iter(own.query().order_by("n"))
next(rows)
""",
        0,
        0,
    ),
    "a failed sync": (
        """
from memdb.storage import OSFile
db.flush()
def fail(self):
    raise OSError(5, "broken")
OSFile.sync = fail
try:
    own.insert({"n": 100})
    db.flush()
except memdb.FailedError:
    pass
""",
        None,
        0,
    ),
    "a signal that ends it by a handler": (
        """
signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(6))
own.insert({"n": 100})
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(60)
""",
        1,
        6,
    ),
    "a forked child that ends": (
        """
pid = os.fork()
if pid == 0:
    sys.exit(7)
os.waitpid(pid, 0)
own.insert({"n": 100})
""",
        1,
        0,
    ),
    "a forked child that outlives it": (
        """
own.insert({"n": 100})
if os.fork() == 0:
    os.close(1), os.close(2)
    time.sleep(0.3)
""",
        1,
        0,
    ),
    "a second handle that reads": (
        """
db.flush()
reader = memdb.open(sys.argv[1], "r")
assert len(reader.collection("notes")) == 100
own.insert({"n": 100})
""",
        1,
        0,
    ),
}


@pytest.mark.parametrize("durability", MODES)
@pytest.mark.parametrize("way", WAYS)
def test_programs_that_end(tmp_path: Path, way: str, durability: str) -> None:
    """However a program ends, it ends at once, silently, and what was acknowledged is there."""
    path = tmp_path / "a.memdb"
    code, more, status = WAYS[way]
    done = run_script(BEGIN + code, path, durability)
    with memdb.open(path) as db:
        notes = db.collection("notes")
        numbers = [note["n"] for note in notes]
        findings = db.check()

    assert (status, "", "") == (done.returncode, done.stdout, done.stderr)
    assert list(range(100)) == numbers[:100]
    assert set(numbers[100:]) <= {100}
    assert more is None or more == len(numbers) - 100
    assert [] == findings


FROM_OUTSIDE = (
    BEGIN
    + """
print("ready", flush=True)
try:
    while True:
        print(own.insert({"n": 100}), flush=True)
except BaseException as error:
    print(type(error).__name__, flush=True)
    raise
"""
)


@pytest.mark.parametrize("durability", MODES)
@pytest.mark.parametrize("number", SIGNALS)
def test_signals_that_end_a_program(tmp_path: Path, durability: str, number: int) -> None:
    """A signal without a handler ends a writer as a kill does; nothing promised is lost."""
    path = tmp_path / "a.memdb"
    with start_script(FROM_OUTSIDE, path, durability) as program:
        assert program.stdout is not None
        assert "ready\n" == program.stdout.readline()
        for _ in range(20):
            program.stdout.readline()
        program.send_signal(number)
        told = program.stdout.read().split()
        program.wait(30)
    with memdb.open(path) as db:
        found = len(db.collection("notes"))
        findings = db.check()

    assert -number == program.returncode
    assert [] == findings
    if durability != "buffered":
        # The last line may be half there, and the last record without its line.
        assert found >= 120 + len(told) - 1
    else:
        assert found <= 122 + len(told)


@pytest.mark.parametrize("durability", MODES)
def test_signals_that_a_handler_takes(tmp_path: Path, durability: str) -> None:
    """Signals whose handlers come back interrupt no write: system calls are taken up again."""
    path = tmp_path / "a.memdb"
    code = (
        BEGIN
        + """
counts = []
signal.signal(signal.SIGALRM, lambda number, frame: counts.append(number))
signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
for n in range(200):
    own.insert({"n": 100})
    own.insert_many([{"n": 100, "text": "x" * 3000}] * 100) if n % 40 == 0 else None
    db.flush() if n % 20 == 0 else None
signal.setitimer(signal.ITIMER_REAL, 0)
assert counts
db.close()
"""
    )
    done = run_script(code, path, durability)
    with memdb.open(path) as db:
        found, findings, recovery = len(db.collection("notes")), db.check(), db.recovery

    assert (0, "", "") == (done.returncode, done.stdout, done.stderr)
    assert (800, [], None) == (found, findings, recovery)
