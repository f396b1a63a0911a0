"""A scenario killed, failed or without power at each single call to the system in turn.

It runs once on a disk that remembers. Then what each call left, whole or half-done, and what a
power loss may have left there, is opened and must be a legal state.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import memdb
from memdb.storage import OSFile, _file, _log
from tests.crash import children
from tests.crash.children import (
    State,
    Step,
    apply_to_database,
    apply_to_state,
    next_ids_of,
    state_of,
)
from tests.support.disk import Content, Disk
from tests.support.effort import times
from tests.support.faulty import FaultyFile, drop, open_on

MODES = ("buffered", "written", "synced")
OTHER_BOOT = bytes(range(16))
KEY = bytes(range(32))


@pytest.fixture(autouse=True)
def commits_of_both_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commits go through the map and, where they are larger, through a write."""
    monkeypatch.setattr(_log, "_WORTH_A_WRITE_BYTES", 400)


def scenario(seed: int, count: int) -> list[Step]:
    """Return steps with a flush and a checkpoint for sure, for an empty database."""
    live: dict[str, list[int]] = {name: [] for name in children.COLLECTIONS}
    next_ids = dict.fromkeys(children.COLLECTIONS, 1)
    steps = list(islice(children.steps(seed, live, next_ids), count))
    third = count // 3
    return [
        *steps[:third],
        Step("flush"),
        *steps[third:-third],
        Step("checkpoint"),
        *steps[-third:],
    ]


@dataclass(frozen=True)
class Progress:
    """How far a scenario was at some moment.

    Attributes:
        last: Index of the state after the last step that was acknowledged.
        safe: Index of the newest state that must survive a power loss.
        written: Index of the newest state that must survive a kill.
        following: The state after the step that was under way, None between two of them.
    """

    last: int
    safe: int
    written: int
    following: State | None


class Run:
    """One run of a scenario in two sessions, and what must be there after each moment of it.

    Attributes:
        history: The state after each step that was acknowledged.
        safe, written, following: See `Progress`.
    """

    def __init__(self, path: Path, durability: str, steps: list[Step]) -> None:
        self.path = path
        self.durability = durability
        self.steps = steps
        self.history: list[State] = [{name: {} for name in children.COLLECTIONS}]
        self.safe = self.written = 0
        self.following: State | None = None
        self.files: list[FaultyFile] = []
        self.db: memdb.Database | None = None

    def progress(self) -> Progress:
        """Return how far it is."""
        return Progress(len(self.history) - 1, self.safe, self.written, self.following)

    def acknowledge(self, step: Step) -> None:
        """Note that a step is done."""
        self.history.append(apply_to_state(self.history[-1], step))
        is_flush = step.kind in ("flush", "checkpoint")
        last = len(self.history) - 1
        if self.durability == "synced" or is_flush:
            self.safe = last
        if self.durability != "buffered" or is_flush:
            self.written = last

    def open(self, prepare: Callable[[FaultyFile], None]) -> memdb.Database:
        """Open the file for the next session, so that it can fail."""
        file = FaultyFile(self.path)
        self.files.append(file)
        prepare(file)
        self.db = open_on(file, durability=self.durability)
        return self.db

    def sessions(self) -> Iterator[list[Step]]:
        """Yield the steps of each session."""
        half = len(self.steps) // 2
        yield self.steps[:half]
        yield self.steps[half:]

    def legal(self, first: int, progress: Progress) -> list[State]:
        """Return the states that may be found at a moment, from the one at index ``first`` on."""
        following = [] if progress.following is None else [progress.following]
        return [*self.history[first : progress.last + 1], *following]

    def run(
        self, opened: Callable[[], memdb.Database], note: Callable[[str], None] = lambda what: None
    ) -> None:
        """Run to the end.

        Args:
            opened: Opens the database for each session.
            note: Called when a step is acknowledged.
        """
        for steps in self.sessions():
            db = opened()
            for step in steps:
                self.following = apply_to_state(self.history[-1], step)
                apply_to_database(db, step)
                self.acknowledge(step)
                self.following = None
                note("acknowledged")
            db.close()
            self.safe = self.written = len(self.history) - 1
            note("closed")


def reopened(
    path: Path, content: Content, *, is_rebooted: bool = False, **settings: Any
) -> tuple[State, dict[str, int]]:
    """Write files, open the one, and demand that it is whole and can be written.

    Returns:
        What it holds, and the next identities.
    """
    for left in path.parent.iterdir():
        left.unlink()
    for name, data in content.items():
        (path.parent / name).write_bytes(data)
    with pytest.MonkeyPatch.context() as patch:
        if is_rebooted:
            patch.setattr(_file, "boot_id", lambda: OTHER_BOOT)
        with memdb.open(path, **settings) as db:
            found, next_ids = state_of(db), next_ids_of(db)
            assert db.check() == []
            db.collection("more").insert({"a": 1})
    with memdb.open(path, **settings) as db:
        assert db.collection("more")[1] == {"a": 1, "id": 1}
        assert db.check() == []
        assert state_of(db) == found
        assert next_ids_of(db) == next_ids
    others = {each.name for each in path.parent.iterdir()} - {path.name}
    assert [name for name in others if not name.startswith(f"{path.name}.torn-")] == []
    return found, next_ids


class Judge:
    """Opens what a disk may hold, and gives the state; what it has seen already it knows."""

    def __init__(self, path: Path, settings: dict[str, Any]) -> None:
        path.parent.mkdir()
        self._path = path
        self._settings = settings
        self._found: dict[tuple[bool, frozenset[tuple[str, bytes]]], State] = {}
        self.times = 0

    def __call__(self, content: Content, *, is_rebooted: bool = False) -> State:
        """Return the state that comes back."""
        self.times += 1
        key = is_rebooted, frozenset(content.items())
        if key not in self._found:
            found, _ = reopened(self._path, content, is_rebooted=is_rebooted, **self._settings)
            self._found[key] = found
        return self._found[key]

    def __len__(self) -> int:
        return len(self._found)


def sweep(tmp_path: Path, durability: str, steps: list[Step], losses: int, **settings: Any) -> None:
    """Look at each moment: what a kill leaves, and what power losses may leave, is legal."""
    used: dict[str, Any] = {"durability": durability, "flush_interval": 86_400.0, **settings}
    folder = tmp_path / "disk"
    folder.mkdir()
    run = Run(folder / "a.memdb", durability, steps)
    with Disk(folder, run.progress) as disk, pytest.MonkeyPatch.context() as patch:
        # So that room is made often.
        patch.setattr(OSFile, "growth_bytes", FaultyFile.growth_bytes)
        run.run(lambda: memdb.open(run.path, **used), disk.note)
    state_after = Judge(tmp_path / "left" / "a.memdb", settings)
    chance = random.Random(3)
    before = disk.moments[0]
    for number, moment in enumerate(disk.moments):
        progress, where = moment.mark, f"{durability}, moment {number} ({moment.call})"
        killed = run.legal(progress.written, progress)
        assert state_after(moment.content()) in killed, f"killed: {where}"
        assert state_after(moment.torn(before, chance)) in killed, f"killed inside: {where}"
        for _ in range(losses):
            found = state_after(moment.after_power_loss(chance), is_rebooted=True)
            assert found in run.legal(progress.safe, progress), f"no power: {where}"
        before = moment
    print(f"{len(disk.moments)} moments, {state_after.times} states, {len(state_after)} different")


@pytest.mark.parametrize("durability", MODES)
def test_stop_at_each_call(tmp_path: Path, durability: str) -> None:
    """Killed or without power at any call to the system, a legal state comes back."""
    sweep(tmp_path, durability, scenario(5, 12), losses=2)


@pytest.mark.parametrize("durability", MODES)
def test_stop_at_each_call_of_an_encrypted_file(tmp_path: Path, durability: str) -> None:
    """The same where all that is written is encrypted, from the making of the file on."""
    sweep(tmp_path, durability, scenario(6, 12), losses=2, key=KEY)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("durability", MODES)
@pytest.mark.parametrize("seed", range(4))
def test_stop_at_each_call_of_longer_scenarios(tmp_path: Path, durability: str, seed: int) -> None:
    """Killed or without power at any call of longer scenarios, a legal state comes back."""
    settings = {"key": KEY} if seed == 3 else {}
    sweep(tmp_path, durability, scenario(seed, 60), losses=times(10), **settings)


@pytest.mark.parametrize("mode", ["rw", "append"])
def test_what_an_opening_has_shown_survives(tmp_path: Path, mode: Any) -> None:
    """What was found after a kill is there after every later power loss, synced before or not."""
    folder = tmp_path / "disk"
    folder.mkdir()
    path = folder / "a.memdb"
    with Disk(folder) as disk:
        memdb.open(path).close()
        killed = memdb.open(path, flush_interval=86_400.0)
        for step in scenario(8, 9):
            if step.kind != "flush":
                apply_to_database(killed, step)
        expected = state_of(killed)
        drop(killed)
        db = memdb.open(path, mode)
        shown = state_of(db)
        disk.note("shown")
        drop(db)
    state_after = Judge(tmp_path / "left" / "a.memdb", {})
    chance = random.Random(4)
    found = [
        state_after(disk.moments[-1].after_power_loss(chance), is_rebooted=True) for _ in range(30)
    ]

    assert expected == shown
    assert [shown] * 30 == found


def lose_power_again_and_again(tmp_path: Path, durability: str, seed: int, rounds: int) -> None:
    """Lose power between any two steps, mend, go on, and lose it again."""
    path, left = tmp_path / "a.memdb", tmp_path / "left" / "a.memdb"
    left.parent.mkdir(exist_ok=True)
    chance = random.Random(seed)
    state: State = {name: {} for name in children.COLLECTIONS}
    next_ids = dict.fromkeys(children.COLLECTIONS, 1)
    for number in range(rounds):
        file = FaultyFile(path)
        file.boot_id = number.to_bytes(8, "big") + b"boot-id-"
        db = open_on(file, durability=durability, checkpoint_interval=chance.choice((5, 1000)))
        assert state_of(db) == state
        live = {name: sorted(records) for name, records in state.items()}
        ids = dict(next_ids)
        legal = [(state, dict(ids))]
        safe = 0
        for step in islice(children.steps(seed * 1000 + number, live, ids), chance.randint(0, 9)):
            if step.kind == "flush" and chance.random() < 0.7:
                continue
            apply_to_database(db, step)
            legal.append((apply_to_state(legal[-1][0], step), dict(ids)))
            if durability == "synced" or step.kind in ("flush", "checkpoint"):
                safe = len(legal) - 1
        data = file.lose_power(chance)
        drop(db)
        state, next_ids = reopened(left, {left.name: data}, is_rebooted=True)
        assert (state, next_ids) in legal[safe:], f"seed {seed}, round {number}, {durability}"
        path.write_bytes(data)
    for kept in tmp_path.glob("*.torn-*"):
        kept.unlink()


@pytest.mark.parametrize("durability", MODES)
def test_power_losses_in_a_row(tmp_path: Path, durability: str) -> None:
    """However often power fails, what comes back is a state that was, as new as was promised."""
    for seed in range(4):
        (tmp_path / "a.memdb").unlink(missing_ok=True)
        lose_power_again_and_again(tmp_path, durability, seed, 12)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("durability", MODES)
def test_many_power_losses_in_a_row(tmp_path: Path, durability: str) -> None:
    """After hundreds of power losses too a state comes back that was."""
    for seed in range(100, 100 + times(25)):
        (tmp_path / "a.memdb").unlink(missing_ok=True)
        lose_power_again_and_again(tmp_path, durability, seed, 30)


class Fault:
    """One call that fails, counted over both sessions of a scenario."""

    def __init__(self, method: str, session: int, number: int, code: int, lasting: bool) -> None:
        self.method, self.session, self.number = method, session, number
        self.code, self.lasting = code, lasting

    def __repr__(self) -> str:
        return (
            f"{self.method} {self.number} of session {self.session} ({errno.errorcode[self.code]})"
        )

    def prepare(self, session: int, file: FaultyFile) -> None:
        """Set the fault if it is this session's."""
        if session == self.session:
            file.fail(self.method, self.number, self.code, for_ever=self.lasting)


def run_with_fault(path: Path, durability: str, steps: list[Step], fault: Fault) -> list[str]:
    """Run a scenario in which one call fails; return what was not as it must be."""
    run = Run(path, durability, steps)
    wrong: list[str] = []

    def attempt(action: Callable[[], Any]) -> BaseException | None:
        try:
            action()
        except memdb.MemdbError as error:
            return error
        except Exception as error:
            wrong.append(f"{type(error).__name__} instead of a MemdbError: {error}")
            return error
        return None

    def reopen(session: int, *, with_fault: bool) -> memdb.Database | None:
        def prepare(file: FaultyFile) -> None:
            if with_fault:
                fault.prepare(session, file)

        return None if attempt(lambda: run.open(prepare)) else run.db

    for session, own in enumerate(run.sessions()):
        db = reopen(session, with_fault=True) or reopen(session, with_fault=False)
        if db is None:
            return [*wrong, "can't be opened once a call failed"]
        for step in own:
            error = attempt(lambda db=db, step=step: apply_to_database(db, step))  # type: ignore[misc]
            if error is None:
                run.acknowledge(step)
                continue
            after = apply_to_state(run.history[-1], step)
            run.files[-1].heal()
            if isinstance(error, memdb.FailedError):
                # Final: close, open again, and see what is there.
                attempt(db.close)
                db = reopen(session, with_fault=False)
                if db is None:
                    return [*wrong, "can't be opened after a failed sync"]
                found = state_of(db)
                if found == after:
                    run.acknowledge(step)
                elif found in run.history[run.safe :]:
                    # Nothing that was not safe is promised after a failed sync.
                    run.history.append(found)
                    return wrong if attempt(db.close) is None else [*wrong, "can't be closed"]
                else:
                    return [*wrong, f"after a failed sync: {found}"]
                continue
            if state_of(db) != run.history[-1]:
                wrong.append(f"{step.kind} raised {error!r} and changed something")
            error = attempt(lambda db=db, step=step: apply_to_database(db, step))  # type: ignore[misc]
            if error is not None:
                return [*wrong, f"{step.kind} again: {error!r}"]
            run.acknowledge(step)
        is_closed = attempt(db.close) is None
        run.files[-1].heal()
        if not db.is_closed:
            wrong.append("not closed after close() raised")
        if is_closed:
            run.safe = len(run.history) - 1
        db = reopen(session, with_fault=False)
        if db is None:
            return [*wrong, "can't be opened after close()"]
        found = state_of(db)
        findings = db.check()
        attempt(db.close)
        if findings:
            wrong.append(f"findings: {findings}")
        # close() may raise and lose what "buffered" never wrote.
        first = len(run.history) - 1 if is_closed or durability != "buffered" else run.safe
        if found not in run.history[first:]:
            wrong.append("another state after close() and opening")
        if found != run.history[-1]:
            return wrong
    return wrong


def sweep_faults(tmp_path: Path, durability: str, steps: list[Step], methods: Any) -> None:
    """Let each call fail in turn; nothing but errors of memdb, nothing changed by them."""
    path = tmp_path / "a.memdb"
    run = Run(path, durability, steps)
    run.run(lambda: run.open(lambda file: None))
    wrong = {}
    for session, counted in enumerate([file.calls for file in run.files]):
        for method in methods:
            for number in range(1, counted[method] + 1):
                codes = [errno.EIO] if method not in ("write", "reserve") else [errno.ENOSPC]
                for code in codes:
                    for lasting in (False, True):
                        for left in tmp_path.iterdir():
                            left.unlink()
                        fault = Fault(method, session, number, code, lasting)
                        verdict = run_with_fault(path, durability, steps, fault)
                        if verdict:
                            wrong[f"{fault!r}{', lasting' if lasting else ''}"] = verdict

    assert {} == wrong


@pytest.mark.parametrize("durability", MODES)
@pytest.mark.parametrize("method", ["reserve", "truncate", "sync", "write", "sync_directory"])
def test_each_change_fails(tmp_path: Path, durability: str, method: str) -> None:
    """Whichever change of the file fails, the error is memdb's and nothing else is changed."""
    sweep_faults(tmp_path, durability, scenario(7, 9), [method])


@pytest.mark.parametrize("method", ["read", "map", "lock"])
def test_each_read_fails(tmp_path: Path, method: str) -> None:
    """Whichever reading call fails, the error is memdb's and nothing is changed."""
    sweep_faults(tmp_path, "written", scenario(7, 9), [method])
