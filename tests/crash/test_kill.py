"""Processes that end without closing: killed, interrupted, or just finished (A2, B1)."""

from __future__ import annotations

import copy
import random
import signal
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import memdb
from tests.crash import children
from tests.crash.children import (
    Account,
    State,
    Step,
    apply_to_state,
    collections,
    next_ids_of,
    state_of,
)
from tests.support.effort import times
from tests.support.processes import Child, run_script, start_script

MODES = ("buffered", "written", "synced")
KEY = bytes(range(32))
LEAVE = "import sys; from tests.crash.children import leave; leave(*sys.argv[1:])"


class Expectation:
    """What a file holds, carried from one killed writer to the next."""

    def __init__(self) -> None:
        self.state: State = {name: {} for name in children.COLLECTIONS}
        self.next_ids = dict.fromkeys(children.COLLECTIONS, 1)

    def live(self) -> dict[str, list[int]]:
        """Return the identities that are there."""
        return {name: sorted(records) for name, records in self.state.items()}

    def kill_a_writer(
        self, path: Path, seed: int, after: int, settings: dict[str, Any], compact_each: int
    ) -> int:
        """Run a writer, kill it once it has acknowledged some steps; return how many it has."""
        live, next_ids = self.live(), copy.copy(self.next_ids)
        arguments = (str(path), settings, seed, live, next_ids, compact_each)
        with Child(children.write_steps, *arguments) as child:
            for number in child.messages():
                if number + 1 == after:
                    child.kill()
        return number + 1

    def take(
        self, found: State, found_ids: dict[str, int], seed: int, acknowledged: int, durability: str
    ) -> int:
        """Find the legal state that was found; return after how many steps it is."""
        live, next_ids = self.live(), copy.copy(self.next_ids)
        history: list[tuple[State, dict[str, int], Step | None]] = [
            (self.state, copy.copy(next_ids), None)
        ]
        for step in islice(children.steps(seed, live, next_ids), acknowledged + 1):
            history.append((apply_to_state(history[-1][0], step), copy.copy(next_ids), step))
        first = acknowledged
        if durability == "buffered":
            flushes = [
                number
                for number, (*_, step) in enumerate(history[: acknowledged + 1])
                if step is not None and step.kind in ("flush", "checkpoint")
            ]
            first = max(flushes, default=0)
        for number in range(first, len(history)):
            state, next_ids, _ = history[number]
            if (state, next_ids) == (found, found_ids):
                self.state, self.next_ids = state, next_ids
                return number
        raise AssertionError(
            f"{acknowledged} steps were acknowledged, {first} of them safe; none of the"
            f" {len(history) - first} legal states is what the file holds"
        )


def kill_again_and_again(folder: Path, durability: str, rounds: int, for_each_file: int) -> None:
    """Kill a writer ``rounds`` times; after each, all that was promised is there, nothing half.

    Every other file is encrypted, and every third writer compacts it.
    """
    chance = random.Random(durability)
    for seed in range(rounds):
        if seed % for_each_file == 0:
            path, expected = folder / f"{seed}.memdb", Expectation()
            opening: dict[str, Any] = {"key": KEY} if seed // for_each_file % 2 else {}
        settings = {
            "durability": durability,
            "flush_interval": chance.choice((0.001, 0.01, 60.0)),
            "checkpoint_interval": chance.choice((3, 30, 1000)),
            "serializer": chance.choice(("binary", "json", "msgpack")),
            **opening,
        }
        after, compact_each = chance.randint(1, 80), chance.choice((0, 0, 5))
        acknowledged = expected.kill_a_writer(path, seed, after, settings, compact_each)
        assert acknowledged >= after
        with memdb.open(path, "r", **opening) as db:
            read = state_of(db)
        with memdb.open(path, **opening) as db:
            found, found_ids = state_of(db), next_ids_of(db)
            assert db.check() == []
        print(f"seed {seed}, {settings}, {acknowledged} steps acknowledged")
        expected.take(found, found_ids, seed, acknowledged, durability)
        assert read == found


@pytest.mark.parametrize("durability", MODES)
def test_a2_killed_writer_keeps_what_it_promised(tmp_path: Path, durability: str) -> None:
    """After kill -9 all that the durability mode promises is there and nothing half."""
    kill_again_and_again(tmp_path, durability, 4, for_each_file=2)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("durability", MODES)
def test_a2_killed_writer_hundreds_of_times(tmp_path: Path, durability: str) -> None:
    """After each of 340 kills all that the durability mode promises is there and nothing half."""
    kill_again_and_again(tmp_path, durability, times(340), for_each_file=20)


def test_b1_killed_writer_locks_nobody_out(tmp_path: Path) -> None:
    """The file of a killed writer opens at once for writing; what it left means nothing."""
    path = tmp_path / "a.memdb"
    with Child(children.hold, str(path), {}) as child:
        assert child.receive() == "open"
        child.kill()

    with memdb.open(path) as db:
        found = db.collection("notes")[1]

    assert {"a": 1, "id": 1} == found
    assert [path] == list(tmp_path.iterdir())


def test_b1_the_note_of_a_killed_holder_is_not_believed(tmp_path: Path) -> None:
    """A later second writer is told of the present holder, not of the killed one."""
    path = tmp_path / "a.memdb"
    with Child(children.hold, str(path), {}) as killed:
        killed.receive()
        pid = killed.pid
        killed.kill()
    with Child(children.hold, str(path), {}) as holder:
        holder.receive()
        with pytest.raises(memdb.LockedError) as caught:
            memdb.open(path)
        expected = f"process {holder.pid} "

    assert caught.value.holder.startswith(expected)
    assert f"process {pid} " not in caught.value.holder


@pytest.mark.parametrize("durability", MODES)
@pytest.mark.parametrize(("how", "code"), [("return", 0), ("exception", 3)])
def test_normal_exit_without_close_flushes(
    tmp_path: Path, durability: str, how: str, code: int
) -> None:
    """A program that ends without close() loses nothing, whatever the durability."""
    path = tmp_path / "a.memdb"
    ended = run_script(LEAVE, path, durability, how)
    with memdb.open(path) as db:
        found = len(db.collection(Account))
        recovery = db.recovery

    assert (code, 100, None) == (ended.returncode, found, recovery)


@pytest.mark.parametrize("durability", MODES)
def test_ctrl_c_ends_a_writer_cleanly(tmp_path: Path, durability: str) -> None:
    """Ctrl-C during inserts raises in the program, and the file has every acknowledged one."""
    path = tmp_path / "a.memdb"
    with start_script(LEAVE, path, durability, "interrupt") as program:
        assert program.stdout is not None and program.stderr is not None
        lines = [program.stdout.readline() for _ in range(50)]
        program.send_signal(signal.SIGINT)
        lines += program.stdout.readlines()
        errors = program.stderr.read()
    acknowledged = int(lines[-1])
    with memdb.open(path) as db:
        found = len(db.collection(Account))
        findings = db.check()

    assert (-signal.SIGINT, []) == (program.returncode, findings)
    assert errors.endswith("KeyboardInterrupt\n")
    assert acknowledged <= found <= acknowledged + 1


def test_killed_writer_leaves_no_half_transaction_to_readers(tmp_path: Path) -> None:
    """A reader beside a killed writer sees whole transactions only and changes nothing."""
    path = tmp_path / "a.memdb"
    with Child(children.transfer, str(path)) as child:
        child.receive()
        with memdb.open(path, "r") as db:
            first = collections(db)["Account"][1].cents
        while True:
            with memdb.open(path, "r") as db:
                if collections(db)["Account"][1].cents != first:
                    break
        child.kill()
    before = path.read_bytes()
    with memdb.open(path, "r") as db:
        own = collections(db)
        total = own["Account"][1].cents + own["notes"][1]["cents"]
        findings = db.check()

    assert (1000, []) == (total, findings)
    assert before == path.read_bytes()
    assert [path] == list(tmp_path.iterdir())
