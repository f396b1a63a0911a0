"""Compaction, snapshots and restoring, killed, without power and out of space at each step."""

from __future__ import annotations

import copy
import errno
import os
import random
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import memdb
from memdb.storage import _block_writer, _compaction, _copying
from tests.crash import children
from tests.crash.children import State, apply_to_database, apply_to_state, next_ids_of, state_of
from tests.crash.compacting import write_and_compact
from tests.crash.test_kill import Expectation
from tests.support.disk import Content, Disk, Moment
from tests.support.effort import times
from tests.support.faulty import FaultyFile, open_on
from tests.support.processes import Child

OTHER_BOOT = bytes(range(16))
KEY = bytes(range(32))


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small tests have several commits, parts, rounds and pieces."""
    monkeypatch.setattr(_compaction, "_COMMIT_VERSIONS", 7)
    monkeypatch.setattr(_compaction, "_PART_VERSIONS", 23)
    monkeypatch.setattr(_compaction, "_SMALL_REST_BYTES", 200)
    monkeypatch.setattr(_copying, "_PIECE_BYTES", 4096)
    monkeypatch.setattr(_block_writer, "_WRITE_BYTES", 500)


def change(db: memdb.Database, seed: int, count: int, note: Callable[[Any], None]) -> None:
    """Insert, update and delete at random; say what is going to be, and when it is."""
    state = state_of(db)
    live = {name: list(records) for name, records in state.items()}
    for step in islice(children.steps(seed, live, next_ids_of(db)), count):
        state = apply_to_state(state, step)
        note(state)
        apply_to_database(db, step)
        note(None)


class Story:
    """What a database held, one state after the other.

    Attributes:
        states: All of them, the one that is under way too.
        done: Index of the last one that was acknowledged.
        safe: Index of the newest one that must survive a power loss.
    """

    def __init__(self, first: State) -> None:
        self.states = [first]
        self.done = self.safe = 0

    def note(self, state: State | None) -> None:
        """Take in a state that is under way, or that it is done."""
        if state is not None:
            self.states.append(state)
        else:
            self.done = len(self.states) - 1

    def mark(self) -> tuple[int, int, int]:
        """Return where it is."""
        return self.safe, self.done, len(self.states)


def laid_out(folder: Path, content: Content) -> Path:
    """Write the files of a folder."""
    folder.mkdir()
    for name, data in content.items():
        (folder / name).write_bytes(data)
    return folder


def found_in(path: Path, monkeypatch: pytest.MonkeyPatch, *, is_rebooted: bool = False) -> State:
    """Open a file for writing, demand that it is whole, and return what it holds."""
    with monkeypatch.context() as patch:
        if is_rebooted:
            patch.setattr("memdb.storage._file.boot_id", lambda: OTHER_BOOT)
        with memdb.open(path) as db:
            findings, state = db.check(), state_of(db)
            next_ids = next_ids_of(db)
    assert [] == findings
    for name, records in state.items():
        assert next_ids[name] > max(records, default=0)
    return state


# -- compaction ------------------------------------------------------------------------------


def compacted_on_a_disk(folder: Path, archive: Path | None) -> tuple[Story, list[Moment]]:
    """Compact a database under writes; return what it held and all moments."""
    path = folder / "a.memdb"
    with memdb.open(path) as db:
        change(db, 1, 60, lambda state: None)
        story = Story(state_of(db))
    with Disk(folder, story.mark) as disk:
        with memdb.open(path, durability="synced", flush_interval=86_400) as db:
            rounds = iter(range(100))

            def meanwhile(*progress: Any) -> None:
                number = next(rounds)
                if number < 4:
                    change(db, 10 + number, 3, story.note)
                story.safe = story.done

            db.compact(progress=meanwhile, archive=archive)
            change(db, 50, 3, story.note)
            story.safe = story.done
        return story, disk.moments


@pytest.mark.parametrize("has_archive", [False, True])
def test_f1_killed_at_each_step_of_a_compaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_archive: bool
) -> None:
    """Killed at any call, the file holds what was acknowledged, and no left-over stays."""
    folder = tmp_path / "disk"
    folder.mkdir()
    archive = folder / "old.memdb" if has_archive else None
    story, moments = compacted_on_a_disk(folder, archive)
    calls = {moment.call.split()[0] for moment in moments}
    chance = random.Random(1)
    for number, moment in enumerate(moments):
        _, done, following = moment.mark
        legal = story.states[done:following]
        contents = [moment.content()]
        if number:
            contents.append(moment.torn(moments[number - 1], chance))
        for place, content in enumerate(contents):
            where = laid_out(tmp_path / f"{number}-{place}", content)
            assert found_in(where / "a.memdb", monkeypatch) in legal, moment.call
            names = {name for name in os.listdir(where) if ".torn-" not in name}
            assert {"a.memdb"} <= names <= {"a.memdb", "old.memdb"}
            if "old.memdb" in names:
                assert found_in(where / "old.memdb", monkeypatch) in story.states

    assert {"replace", "pwrite", "fdatasync", "fsync"} <= calls
    assert len(moments) > 40


def test_f1_without_power_at_each_step_of_a_compaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever of unsynced sectors and names a power loss keeps, all that was synced is there."""
    folder = tmp_path / "disk"
    folder.mkdir()
    story, moments = compacted_on_a_disk(folder, None)
    chance = random.Random(2)
    for number, moment in enumerate(moments):
        safe, _, following = moment.mark
        for place in range(2):
            content = moment.after_power_loss(chance)
            where = laid_out(tmp_path / f"{number}-{place}", content)
            found = found_in(where / "a.memdb", monkeypatch, is_rebooted=True)
            assert found in story.states[safe:following], moment.call


class Plan:
    """Which call of which method fails, over all files."""

    def __init__(self, method: str = "", number: int = 0) -> None:
        self.method = method
        self.number = number
        self.calls: list[str] = []
        self.is_on = False


class PlannedFile(FaultyFile):
    """A file, and those made beside it, that fail as planned."""

    plan = Plan()

    def _enter(self, method: str) -> None:
        plan = PlannedFile.plan
        if plan.is_on:
            plan.calls.append(method)
            if method == plan.method and plan.calls.count(method) == plan.number:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super()._enter(method)

    def take_name(self, path: str, *, replace: bool) -> None:
        """As `OSFile`, or fail."""
        self._enter("take_name")
        super().take_name(path, replace=replace)

    def copy_from(self, source: Any, offset: int, size: int) -> None:
        """As `OSFile`, or fail."""
        self._enter("copy_from")
        super().copy_from(source, offset, size)

    def add_name(self, path: str) -> None:
        """As `OSFile`, or fail."""
        self._enter("add_name")
        super().add_name(path)


@pytest.fixture
def planned() -> Iterator[Callable[[Plan], None]]:
    """Have the next files fail as planned."""

    def have(plan: Plan) -> None:
        PlannedFile.plan = plan

    yield have
    PlannedFile.plan = Plan()


def failed_compaction(path: Path, plan: Plan, archive: Path | None) -> tuple[Any, memdb.Database]:
    """Compact a database of which one call fails; return the error and the database."""
    db = open_on(PlannedFile(path))
    change(db, 1, 40, lambda state: None)
    db.flush()
    plan.is_on = True
    try:
        db.compact(archive=archive)
        return None, db
    except memdb.MemdbError as error:
        return error, db
    finally:
        plan.is_on = False


@pytest.mark.parametrize("has_archive", [False, True])
def test_f1_out_of_space_at_each_step_of_a_compaction(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    planned: Callable[[Plan], None],
    has_archive: bool,
) -> None:
    """Whichever call fails, the compaction says so, the old file holds and writing goes on."""
    everything = Plan()
    planned(everything)
    archive = tmp_path / "old" if has_archive else None
    _, db = failed_compaction(tmp_path / "all.memdb", everything, archive)
    expected = state_of(db)
    db.close()
    cases = 0
    for method in sorted(set(everything.calls)):
        for number in range(1, everything.calls.count(method) + 1):
            plan = Plan(method, number)
            planned(plan)
            folder = tmp_path / f"{method}-{number}"
            folder.mkdir()
            path = folder / "a.memdb"
            error, db = failed_compaction(path, plan, folder / "old" if has_archive else None)
            plan.number = 0
            where = f"{method} {number}: {error!r}"
            cases += 1
            if isinstance(error, memdb.FailedError):
                with pytest.raises(memdb.FailedError):
                    db.collection("notes").insert({"a": 1})
            assert expected == state_of(db), where
            if error is not None and not isinstance(error, memdb.FailedError):
                assert {"a.memdb"} == set(os.listdir(folder)) - {"old"}, where
                change(db, 7, 5, lambda state: None)
                expected_now = state_of(db)
            else:
                expected_now = expected
            db.close()
            assert expected_now == found_in(path, monkeypatch), where

    assert cases > 15


# -- snapshots and restoring -----------------------------------------------------------------


def source(folder: Path) -> tuple[Path, State, State]:
    """Make a database with an earlier and a present state, and a snapshot of the earlier one."""
    path = folder / "a.memdb"
    with memdb.open(path) as db:
        change(db, 1, 30, lambda state: None)
        earlier = state_of(db)
        db.snapshot(folder / "older.memdb")
        change(db, 2, 30, lambda state: None)
        present = state_of(db)
    return path, earlier, present


@pytest.mark.parametrize("how", ["snapshot", "in place", "beside", "restore"])
def test_f4_killed_at_each_step_of_a_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """A copy is there whole or not at all; what is extended or replaced is old, new or between."""
    folder = tmp_path / "disk"
    folder.mkdir()
    path, earlier, present = source(folder)
    between: list[State] = []
    with memdb.open(folder / "older.memdb", "r") as db:
        first = db.stats().versions
    with memdb.open(path, "r") as db:
        last = db.stats().versions
    for slot in range(first, last + 1):
        copy = memdb.restore(path, at=slot, to=tmp_path / f"{slot}.memdb").path
        with memdb.open(copy, "r") as db:
            between.append(state_of(db))
    older = folder / "older.memdb"
    target = older if how in ("in place", "restore") else folder / "new.memdb"
    with Disk(folder) as disk:
        if how == "restore":
            memdb.restore(path, to=target, overwrite=True)
        else:
            with memdb.open(path, "r") as db:
                db.snapshot(target, base=None if how == "snapshot" else older)
        disk.note("made")
    legal = {
        "snapshot": [present],
        "in place": between,
        "beside": [present],
        "restore": [earlier, present],
    }[how]
    chance = random.Random(3)
    for number, moment in enumerate(disk.moments):
        for place, content in enumerate([moment.content(), moment.after_power_loss(chance)]):
            where = laid_out(tmp_path / f"{number}-{place}", content)
            assert present == found_in(where / "a.memdb", monkeypatch)
            copy = where / target.name
            if copy.exists() or how in ("in place", "restore"):
                found = found_in(copy, monkeypatch, is_rebooted=place == 1)
                assert found in legal, moment.call

    assert present == found_in(where / target.name, monkeypatch)
    assert not (folder / (target.name + ".partial")).exists()


def copied(folder: Path, plan: Plan, how: str) -> tuple[Any, State]:
    """Make a copy of which one call fails; return the error and the state of the source."""
    folder.mkdir()
    path, _, present = source(folder)
    db = open_on(PlannedFile(path))
    plan.is_on = True
    try:
        base = None if how == "snapshot" else folder / "older.memdb"
        target = base if how == "in place" else folder / "new.memdb"
        assert target is not None
        db.snapshot(target, base=base)
        return None, present
    except memdb.MemdbError as error:
        return error, present
    finally:
        plan.is_on = False
        db.close()


@pytest.mark.parametrize("how", ["snapshot", "in place", "beside"])
def test_f4_out_of_space_at_each_step_of_a_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, planned: Callable[[Plan], None], how: str
) -> None:
    """Whichever call fails, the error says so, nothing is left, and the base is as it was."""
    everything = Plan()
    planned(everything)
    copied(tmp_path / "all", everything, how)
    cases = 0
    for method in sorted(set(everything.calls)):
        for number in range(1, everything.calls.count(method) + 1):
            plan = Plan(method, number)
            planned(plan)
            folder = tmp_path / f"{method}-{number}"
            error, present = copied(folder, plan, how)
            where = f"{method} {number}: {error!r}"
            cases += 1
            names = set(os.listdir(folder))
            assert names <= {"a.memdb", "older.memdb", "new.memdb"}, where
            if "new.memdb" in names:
                assert present == found_in(folder / "new.memdb", monkeypatch), where
            found_in(folder / "older.memdb", monkeypatch)
            assert present == found_in(folder / "a.memdb", monkeypatch), where

    assert cases > 15


# -- real processes --------------------------------------------------------------------------


class CompactingExpectation(Expectation):
    """What a file holds whose killed writers had compacted it all the while."""

    def kill_while_compacting(
        self, path: Path, seed: int, after: int, settings: dict[str, Any]
    ) -> int:
        """Do as `kill_a_writer`, of a writer with a thread that compacts over and over."""
        live, next_ids = self.live(), copy.copy(self.next_ids)
        arguments = (str(path), settings, seed, live, next_ids)
        number = -1
        with Child(write_and_compact, *arguments) as child:
            for number in child.messages():
                if number + 1 == after:
                    child.kill()
        return number + 1


def kill_in_compactions(folder: Path, durability: str, rounds: int, key: bytes | None) -> None:
    """Kill writers that compact; after each, all that was promised is there, nothing half."""
    chance = random.Random(f"{durability} {key!r}")
    opening: dict[str, Any] = {} if key is None else {"key": key}
    for seed in range(rounds):
        if seed % 10 == 0:
            path, expected = folder / f"{seed}.memdb", CompactingExpectation()
        settings = {
            "durability": durability,
            "flush_interval": chance.choice((0.001, 0.01, 60.0)),
            "checkpoint_interval": chance.choice((3, 30, 1000)),
            **opening,
        }
        after = chance.randint(1, 120)
        acknowledged = expected.kill_while_compacting(path, seed, after, settings)
        assert acknowledged >= after
        with memdb.open(path, **opening) as db:
            found, found_ids = state_of(db), next_ids_of(db)
            assert [] == db.check()
        assert not Path(f"{path}.compacting").exists()
        print(f"seed {seed}, {durability}, {acknowledged} steps acknowledged")
        expected.take(found, found_ids, seed, acknowledged, durability)


@pytest.mark.parametrize("durability", ["buffered", "written", "synced"])
def test_f1_a_killed_compaction_loses_nothing(tmp_path: Path, durability: str) -> None:
    """After kill -9 in the middle of compactions the file has all that was promised."""
    kill_in_compactions(tmp_path, durability, 3, None)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "encrypted"])
@pytest.mark.parametrize("durability", ["buffered", "written", "synced"])
def test_f1_many_killed_compactions_lose_nothing(
    tmp_path: Path, durability: str, key: bytes | None
) -> None:
    """After each of 100 kills in the middle of compactions all that was promised is there."""
    kill_in_compactions(tmp_path, durability, times(100), key)
