"""Readers that refresh while others query, close or fork: each query sees one commit."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import memdb
from memdb import F
from memdb.storage import Follower
from tests.support.concurrently import and_then, run_all, switching_often, until
from tests.support.following import Town, User
from tests.support.interrupts import Interrupt, interrupted_at
from tests.support.processes import in_fork

SIZE = 40


@pytest.fixture(autouse=True)
def often() -> Iterator[None]:
    """Let threads take turns often."""
    with switching_often(1e-4):
        yield


def threads_named(name: str) -> list[threading.Thread]:
    """Return the threads of a name."""
    return [each for each in threading.enumerate() if each.name == name]


def eventually(holds: Callable[[], bool], timeout_s: float = 20) -> bool:
    """Wait until something holds."""
    end = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.002)
    return True


def fill(db: memdb.Database, size: int = SIZE) -> None:
    """Write the records that `commit` changes."""
    with db.transaction():
        db.collection(Town).insert_many([Town(f"0-{n}", 0, ["r0"]) for n in range(size)])
        db.collection(User, key="email").insert_many([User(f"{n}", 0) for n in range(size)])


def commit(db: memdb.Database, number: int) -> None:
    """Give every record of two collections a number, and exchange some of them, in one commit."""
    towns, users = db.collection(Town), db.collection(User, key="email")
    with db.transaction():
        for place, identity in enumerate(towns.ids()):
            towns.update(identity, people=number, name=f"{number}-{place}", tags=[f"r{number}"])
        for key in users.ids():
            users.update(key, age=number)
        towns.delete(towns.ids()[0])
        towns.insert(Town(f"{number}-new", number, [f"r{number}"]))


def questions(db: memdb.Database, size: int = SIZE) -> list[Callable[[], None]]:
    """Return functions that ask and find what is of one commit, whichever."""
    towns = db.collection(
        Town,
        indexes=[
            memdb.HashIndex("name", unique=True),
            memdb.HashIndex("people", name="hashed"),
            memdb.SortedIndex("people", name="sorted"),
            memdb.SetIndex("tags"),
        ],
    )
    users = db.collection(User, key="email", indexes=[memdb.HashIndex("age")])
    joined = users.where().join_many(towns, on=(F.age, F.people), as_="same")

    def one_commit(found: list[Any]) -> int:
        numbers = set(found)
        assert len(numbers) == 1, f"of several commits: {sorted(numbers)}"
        assert len(found) == size
        return int(numbers.pop())

    def by_scan() -> None:
        one_commit([town.people for town in towns])

    def by_order() -> None:
        one_commit(towns.where().order_by("-people").values(F.people).all())

    def by_sorted_index() -> None:
        one_commit(towns.where(F.people >= 0).values(F.people).all())

    def by_hash_index() -> None:
        number = towns.where().first().people  # type: ignore[union-attr]
        assert towns.where(people=number).count() in (0, size)

    def by_set_index() -> None:
        number = towns.where().first().people  # type: ignore[union-attr]
        assert towns.where(F.tags.contains(f"r{number}")).count() in (0, size)

    def by_callable() -> None:
        one_commit([town.people for town in towns.find_all(lambda town: town.people >= 0)])

    def by_groups() -> None:
        groups = towns.where().group_by("people").select("people", n=memdb.count_()).all()
        assert [count for _, count in groups] == [size]

    def by_key() -> None:
        number = users["4"].age
        assert users["4"].age >= number

    def by_unique_key() -> None:
        name = towns.where().first().name  # type: ignore[union-attr]
        found = towns.find(name=name)
        assert found is None or found.name == name

    def by_join() -> None:
        rows = joined.all()
        assert [len(row.same) for row in rows] == [size] * size
        one_commit([row.user.age for row in rows])

    return [
        *(by_scan, by_order, by_sorted_index, by_hash_index, by_set_index, by_callable),
        *(by_groups, by_key, by_unique_key, by_join),
    ]


class TestQueriesMeanwhile:
    """Whoever asks while another thread refreshes."""

    @pytest.mark.parametrize("cache", ["all", "none"])
    @pytest.mark.parametrize("compacts", [False, True])
    def test_see_one_commit(self, tmp_path: Path, cache: Any, compacts: bool) -> None:
        """Each query, of whatever kind, is of one commit, also while the file is compacted."""
        path = tmp_path / "a"
        with memdb.open(path) as writer, memdb.open(path, "r", cache=cache) as reader:
            fill(writer)
            reader.refresh()
            is_over = threading.Event()

            def write() -> None:
                for number in range(1, 40):
                    commit(writer, number)
                    if compacts and number % 8 == 0:
                        writer.compact()

            def ask(own: list[Callable[[], None]]) -> Callable[[], None]:
                def all_of_them() -> None:
                    for question in own:
                        question()

                return all_of_them

            asked = questions(reader)
            run_all(
                and_then(is_over, write),
                until(is_over, reader.refresh),
                until(is_over, ask(asked[:5])),
                until(is_over, ask(asked[5:])),
                timeout_s=200,
            )
            reader.refresh()
            assert list(reader.collection(Town)) == list(writer.collection(Town))
            assert [] == reader.check()

    def test_views_stay(self, tmp_path: Path) -> None:
        """Views of a reader that refreshes, and of a writer that compacts, stay at their commit."""
        path = tmp_path / "a"
        with memdb.open(path) as writer, memdb.open(path, "r", refresh=0.001) as reader:
            fill(writer)
            reader.refresh()
            is_over = threading.Event()

            def write() -> None:
                for number in range(1, 40):
                    commit(writer, number)
                    if number % 10 == 0:
                        writer.compact()

            def look(db: memdb.Database) -> Callable[[], None]:
                def at_one_commit() -> None:
                    with db.view() as view:
                        towns, users = view.collection(Town), view.collection(User)
                        first = {town.people for town in towns}
                        for _ in range(3):
                            assert {user.age for user in users} == first
                            assert towns.where(F.people >= 0).count() == SIZE
                            assert {town.people for town in towns} == first

                return at_one_commit

            for db in (writer, reader):
                db.collection(Town)
                db.collection(User, key="email")
            run_all(
                and_then(is_over, write),
                until(is_over, look(writer)),
                until(is_over, look(reader)),
                timeout_s=200,
            )

    def test_a_collection_that_is_asked_for_meanwhile_misses_nothing(self, tmp_path: Path) -> None:
        """What comes in while a collection is being made is in it."""
        path = tmp_path / "a"
        with memdb.open(path) as writer:
            notes = writer.collection("notes")
            notes.insert({"n": 0})
            for _ in range(30):
                with memdb.open(path, "r") as reader:

                    def write() -> None:
                        for number in range(5):
                            notes.insert({"n": number})

                    def refresh(reader: memdb.Database = reader) -> None:
                        for _ in range(5):
                            reader.refresh()

                    def make(reader: memdb.Database = reader) -> None:
                        reader.collection("notes")

                    run_all(write, refresh, make)
                    reader.refresh()
                    assert reader.collection("notes").ids() == notes.ids()


class TestInTheBackground:
    """`refresh=` seconds."""

    def test_commits_show_by_themselves(self, tmp_path: Path) -> None:
        """What is committed shows without a call, and the thread ends with the database."""
        path = tmp_path / "a"
        with memdb.open(path) as writer, memdb.open(path, "r", refresh=0.005) as reader:
            seen, towns = reader.collection(Town), writer.collection(Town)
            for number in range(1, 6):
                towns.insert(Town("a", number))
                assert eventually(lambda number=number: len(seen) == number)  # type: ignore[misc]
            assert len(threads_named("memdb-refresher")) == 1
        assert threads_named("memdb-refresher") == []

    def test_a_reader_that_is_forgotten_closes_itself(self, tmp_path: Path) -> None:
        """A handle that nobody has any more is closed, its thread too."""
        path = tmp_path / "a"
        memdb.open(path).close()
        reader = memdb.open(path, "r", refresh=0.005)
        reader.collection(Town)
        del reader

        def is_gone() -> bool:
            gc.collect()
            return threads_named("memdb-refresher") == []

        assert eventually(is_gone)

    def test_failures_are_told_and_overcome(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        """A refresh that fails is logged once, not printed; the next one may succeed."""
        path = tmp_path / "a"
        with memdb.open(path) as db:
            db.collection(Town).insert(Town("Bath", 1))
        with (
            caplog.at_level(logging.WARNING, "memdb"),
            memdb.open(path, "r", refresh=0.005) as reader,
        ):
            seen = reader.collection(Town)
            path.rename(tmp_path / "b")
            assert eventually(lambda: bool(caplog.records))
            time.sleep(0.05)
            assert len(seen) == 1
            (tmp_path / "b").rename(path)
            with memdb.open(path) as db:
                db.collection(Town).insert(Town("Ely", 1))
            assert eventually(lambda: len(seen) == 2)
        assert len(caplog.records) == 1
        assert "there is no such file" in caplog.text

    def test_closing_from_any_thread(self, tmp_path: Path) -> None:
        """Closing while others refresh ends all of them, without a deadlock."""
        path = tmp_path / "a"
        with memdb.open(path) as writer:
            fill(writer)
            for turn in range(20):
                reader = memdb.open(path, "r", refresh=0.001)
                seen = reader.collection(Town)

                def refresh(reader: memdb.Database = reader) -> None:
                    with pytest.raises(memdb.ClosedError):
                        while True:
                            reader.refresh()

                def read(seen: Any = seen) -> None:
                    with pytest.raises(memdb.ClosedError):
                        while True:
                            assert len(list(seen)) == SIZE

                def close(reader: memdb.Database = reader, turn: int = turn) -> None:
                    commit(writer, turn + 1)
                    reader.close()

                run_all(refresh, refresh, read, close)
        assert threads_named("memdb-refresher") == []

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
    def test_fork(self, tmp_path: Path) -> None:
        """In a forked child the reader is unusable, and says so; the parent's goes on."""
        path = tmp_path / "a"
        with memdb.open(path) as writer, memdb.open(path, "r", refresh=0.001) as reader:
            towns, seen = writer.collection(Town), reader.collection(Town)
            towns.insert(Town("Bath", 1))
            assert eventually(lambda: len(seen) == 1)
            view = reader.view()
            own = view.collection(Town)
            assert own[1] == seen[1]

            def errors() -> list[str]:
                found = []
                for call in (reader.refresh, reader.view, lambda: seen[1], lambda: own[1]):
                    try:
                        call()
                    except memdb.MemdbError as error:
                        found.append(type(error).__name__)
                return found

            for _ in range(5):
                assert in_fork(errors) == ["ForkedError"] * 4
            towns.insert(Town("Ely", 2))
            assert eventually(lambda: len(seen) == 2)
            assert own[1] == seen[1]


class TestInterrupts:
    """Ctrl-C at every place of a refresh, one after the other."""

    @pytest.mark.parametrize("compacts", [False, True])
    @pytest.mark.parametrize("is_batch", [False, True])
    def test_every_place(self, tmp_path: Path, compacts: bool, is_batch: bool) -> None:
        """Everything of what there was is seen or nothing, and the next refresh finds the rest."""
        path = tmp_path / "a"
        with memdb.open(path) as writer, memdb.open(path, "r") as reader:
            fill(writer, 6)
            reader.refresh()
            asked = questions(reader, 6)
            seen, users = reader.collection(Town), reader.collection(User, key="email")
            is_done = False
            place = turn = 0
            while not is_done:
                before, turn = turn, turn + 1
                commit(writer, turn)
                if is_batch:
                    with writer.transaction():
                        writer.collection("notes").clear()
                        writer.collection("notes").insert_many([{"n": 1}] * 70)
                if compacts:
                    writer.compact()
                with contextlib.suppress(Interrupt), interrupted_at(place) as interrupt:
                    reader.refresh()
                is_done = not interrupt.is_done
                numbers = {town.people for town in seen}
                assert numbers in ({before}, {turn})
                assert numbers == {user.age for user in users}
                if place % 25 == 0:
                    for question in asked:
                        question()
                reader.refresh()
                assert {town.people for town in seen} == {turn}
                place += 1
            assert place > 50
            assert [] == reader.check()

    @pytest.mark.parametrize("compacts", [False, True])
    def test_every_place_of_a_new_collection(self, tmp_path: Path, compacts: bool) -> None:
        """A collection that was asked for before it was in the file is found all the same."""
        path = tmp_path / "a"
        with memdb.open(path) as writer:
            before = path.read_bytes()
            writer.collection(Town).insert(Town("Bath", 1))
            writer.collection(User, key="email").insert(User("a@x", 1))
            if compacts:
                writer.compact()
            after = path.read_bytes()
        is_done = False
        place = 0
        while not is_done:
            # What the writer has done again, without its syncs.
            path, other = tmp_path / f"{place}", tmp_path / "other"
            path.write_bytes(before)
            other.write_bytes(after)
            with memdb.open(path, "r") as reader:
                seen, users = reader.collection(Town), reader.collection(User, key="email")
                if compacts:
                    other.rename(path)
                else:
                    with path.open("r+b") as file:
                        file.write(after)
                with contextlib.suppress(Interrupt), interrupted_at(place) as interrupt:
                    reader.refresh()
                is_done = not interrupt.is_done
                reader.refresh()
                assert [town.people for town in seen] == [1], place
                assert users.get("a@x") == User("a@x", 1), place
            path.unlink()
            place += 3
        assert place > 200


def test_health_waits_for_no_refresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While another thread takes in what there is, which may take long, health is told at once."""
    path = tmp_path / "a"
    with memdb.open(path) as writer, memdb.open(path, "r") as reader:
        writer.collection(Town).insert(Town("Bath", 1))
        look = Follower.look
        is_in, is_over = threading.Event(), threading.Event()

        def slow(self: Follower, length: int) -> Any:
            is_in.set()
            assert is_over.wait(60)
            return look(self, length)

        monkeypatch.setattr(Follower, "look", slow)

        def ask() -> None:
            assert is_in.wait(60)
            assert reader.health().is_well

        run_all(reader.refresh, and_then(is_over, ask))


class TestViewsMeanwhile:
    """Views that are made while something else happens to the database."""

    @pytest.mark.parametrize("mode", ["rw", "r"])
    def test_closing(self, tmp_path: Path, mode: Any) -> None:
        """Whoever reads from a view is told that it is closed, however late it was made."""
        path = tmp_path / "a"
        with memdb.open(path) as writer:
            fill(writer)
        for turn in range(10):
            db = memdb.open(path, mode)
            towns = db.collection(Town)
            if mode == "rw":
                towns.update(towns.ids()[0], people=turn)
            views: list[memdb.View] = []

            def look(db: memdb.Database = db, views: list[memdb.View] = views) -> None:
                with contextlib.suppress(memdb.ClosedError):
                    while True:
                        view = db.view()
                        views.append(view)
                        with contextlib.suppress(memdb.ClosedError):
                            assert len(list(view.collection(Town))) == SIZE
                            assert view.time is not None

            def close(db: memdb.Database = db, views: list[memdb.View] = views) -> None:
                while len(views) < 30:
                    time.sleep(0.0005)
                db.close()

            run_all(look, look, look, close)
            assert all(view.is_closed for view in views)

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
    def test_forking(self, tmp_path: Path) -> None:
        """A process can be forked while other threads make views; in the child none is usable."""
        path = tmp_path / "a"
        with memdb.open(path) as db:
            fill(db)
            db.collection(Town)
            is_over = threading.Event()

            def errors(view: memdb.View) -> list[str]:
                found = []
                for call in (
                    db.view,
                    lambda: view.collection(Town),
                    lambda: len(view.collections()),
                ):
                    try:
                        call()
                    except memdb.MemdbError as error:
                        found.append(type(error).__name__)
                return found

            def fork() -> None:
                view = db.view()
                for _ in range(20):
                    assert in_fork(lambda: errors(view)) == ["ForkedError"] * 3

            def look() -> None:
                with db.view() as view:
                    assert len(view.collection(Town)) == SIZE

            run_all(and_then(is_over, fork), until(is_over, look), until(is_over, look))
