"""A database as it was: `Database.view`, `Database.at` and what a `View` can do."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import memdb
from memdb import F, P
from tests.support.following import Town, User, all_indexes


@pytest.fixture(params=["memory", "file", "encrypted", "buffered"])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[memdb.Database]:
    """An open database of each kind."""
    settings: dict[str, Any] = {}
    if request.param == "encrypted":
        settings["key"] = bytes(range(32))
    if request.param == "buffered":
        settings["durability"] = "buffered"
    with memdb.open(None if request.param == "memory" else tmp_path / "a", **settings) as db:
        yield db


class TestView:
    """The state of now, which stays."""

    @pytest.mark.parametrize("cache", ["all", "none", 3])
    def test_stays_at_its_commit(self, db: memdb.Database, cache: Any) -> None:
        """Reads, scans, queries and counts are those of its beginning, whatever is written."""
        towns = db.collection(Town, indexes=all_indexes(), cache=cache)
        towns.insert_many([Town(f"n{n}", n % 7, [f"t{n % 3}"]) for n in range(500)])
        expected = list(towns)
        with db.view() as view:
            for identity in towns.ids()[::3]:
                towns.delete(identity)
            for identity in towns.ids()[::5]:
                towns.update(identity, people=1000, name=f"new{identity}")
            towns.insert(Town("more", 1))
            db.checkpoint()
            seen = view.collection(towns)
            assert list(seen) == expected
            assert (len(seen), seen.count(people=3)) == (500, 71)
            assert (seen[1], seen.get(501)) == (expected[0], None)
            assert seen.find(name="n5") == expected[5]
            assert seen.where(F.people > 4).order_by("-people", "name").first() is not None
            assert seen.where(F.tags.contains("t1")).count() == 167
            assert seen.where(F.people == P.n).prepare()(n=1000) == []
            assert seen.indexes.keys() == towns.indexes.keys()
            towns.clear()
            assert list(seen) == expected
            assert [] == db.check()
        assert len(towns) == 0

    def test_collections_are_of_one_commit(self, db: memdb.Database) -> None:
        """A collection that is first asked for later is as of the beginning all the same."""
        towns, users = db.collection(Town), db.collection(User, key="email")
        with db.transaction():
            towns.insert(Town("Bath", 1))
            users.insert(User("1", 1))
        view = db.view()
        with db.transaction():
            towns.update(1, people=2)
            users.update("1", age=2)
            users.insert(User("2", 2))
        rows = (
            view.collection(towns)
            .where()
            .join_many(view.collection(users), on=(F.people, F.age), as_="same")
        )
        assert [(row.town.people, len(row.same)) for row in rows.all()] == [(1, 1)]
        assert list(view.collection(users)) == [User("1", 1)]
        assert view.collection(users).get("2") is None

    def test_of_a_transaction(self, db: memdb.Database) -> None:
        """What is not committed is not in it, also for the transaction's own context."""
        notes = db.collection("notes")
        notes.insert({"n": 1})
        with db.transaction():
            notes.update(1, n=2)
            with db.view() as view:
                assert view.collection("notes")[1]["n"] == 1
            assert notes[1]["n"] == 2

    def test_how_collections_are_asked_for(self, db: memdb.Database) -> None:
        """By collection, class or name: what the database declares holds, and it is one object."""
        users = db.collection(User, key="email", name="people", indexes=[memdb.HashIndex("age")])
        users.insert(User("a@x", 1))
        with db.view() as view:
            seen = view.collection(users)
            assert seen is view.collection("people")
            assert seen is view.collection(User, name="people")
            assert seen is view.collection(seen)
            assert (seen.name, list(seen.indexes), seen["a@x"]) == (
                "people",
                ["age"],
                User("a@x", 1),
            )
            assert view.collections() == ["people"]
            with pytest.raises(memdb.ConfigError, match="was asked for with class="):
                view.collection(Town, name="people")
        with memdb.open(None) as other, pytest.raises(memdb.ConfigError, match="another database"):
            db.view().collection(other.collection(User, key="email"))

    def test_collections_that_the_database_was_not_asked_for(self, tmp_path: Path) -> None:
        """A class or name alone is enough for what is in the file."""
        with memdb.open(tmp_path / "a") as db:
            db.collection(Town).insert(Town("Bath", 1))
            db.collection("users", key="email").insert({"email": "a@x"})
        with memdb.open(tmp_path / "a") as db, db.view() as view:
            assert view.collection(Town)[1].name == "Bath"
            assert view.collection("users")["a@x"] == {"email": "a@x"}
            assert len(view.collection("nothing")) == 0
            assert view.collections() == ["Town", "users"]
            with pytest.raises(memdb.ConfigError, match="other"):
                view.collection(Town, indexes=[memdb.HashIndex("name")])
            assert db.collection(Town, indexes=[memdb.HashIndex("name")]).find(name="Bath")
            assert view.collection(Town)[1].name == "Bath"

    @pytest.mark.parametrize("is_registered", [True, False])
    def test_writing_is_refused(self, db: memdb.Database, is_registered: bool) -> None:
        """Every way to write raises ReadOnlyError and changes nothing."""
        towns = db.collection(Town, indexes=[memdb.HashIndex("name", unique=True)])
        if is_registered:
            towns.insert(Town("Bath", 1))
        size = db.stats().log_bytes
        with db.view() as view:
            seen = view.collection(towns)
            calls: list[Any] = [
                lambda: seen.insert(Town("Ely", 1)),
                lambda: seen.insert_many([Town("Ely", 1)]),
                lambda: seen.put(Town("Ely", 1, id=7)),
            ]
            if is_registered:
                calls += [
                    lambda: seen.put(Town("Ely", 1, id=1)),
                    lambda: seen.update(1, people=5),
                    lambda: seen.edit(1).__enter__(),
                    lambda: seen.delete(1),
                    lambda: seen.clear(),
                    lambda: seen.where(F.people > 0).update(people=3),
                    lambda: seen.where(F.people > 0).delete(),
                ]
            for call in calls:
                with pytest.raises(memdb.ReadOnlyError, match="a view can't be changed"):
                    call()
            assert len(seen) == len(towns) == is_registered
        assert db.stats().log_bytes == size

    def test_results_are_copies(self, db: memdb.Database) -> None:
        """What is done to a record of a view is seen by nobody."""
        towns = db.collection(Town)
        towns.insert(Town("Bath", 1, ["a"]))
        with db.view() as view:
            view.collection(towns)[1].tags.append("b")
            assert view.collection(towns)[1].tags == towns[1].tags == ["a"]

    def test_before_the_first_commit(self, db: memdb.Database) -> None:
        """A view of an empty database is empty, and stays so."""
        with db.view() as view:
            db.collection(Town).insert(Town("Bath", 1))
            assert (view.slot, view.time, view.collections()) == (0, None, [])
            assert len(view.collection(Town)) == 0
            assert view.collection(Town).history(1) == []

    def test_what_it_is_called(self, db: memdb.Database) -> None:
        """Its repr says of what it is, and as of when."""
        db.collection("notes").insert({})
        view = db.view()
        assert repr(view) == f"<View of {db.path or 'memory'} (version 1)>"
        view.close()
        assert repr(view) == f"<View of {db.path or 'memory'} (closed)>"

    def test_many_views(self, db: memdb.Database) -> None:
        """Each of many views keeps its own state."""
        notes = db.collection("notes")
        notes.insert({"n": 0})
        views = []
        for number in range(1, 50):
            views.append(db.view())
            notes.update(1, n=number)
        found = [view.collection("notes")[1]["n"] for view in views]
        assert found == list(range(49))
        assert [view.slot for view in views] == list(range(1, 50))


class TestClosing:
    """The end of views and of their databases."""

    def test_closed_view(self, db: memdb.Database) -> None:
        """Everything of a closed view says that it is closed; the database goes on."""
        notes = db.collection("notes")
        notes.insert_many([{"n": n} for n in range(2000)])
        view = db.view()
        seen = view.collection(notes)
        iteration = iter(seen)
        next(iteration)
        assert seen[1]["n"] == 0
        view.close()
        view.close()
        assert view.is_closed
        calls: list[Any] = [
            *(lambda: seen[1], lambda: seen.get(1), lambda: list(seen), lambda: len(seen)),
            *(lambda: seen.where(F.n > 1).all(), lambda: seen.history(1), seen.stats),
            *(view.collections, lambda: view.collection("notes"), lambda: view.time),
            *(lambda: list(iteration), lambda: seen.insert({})),
        ]
        for call in calls:
            with pytest.raises(memdb.ClosedError, match="the view is closed"):
                call()
        assert len(notes) == 2000

    def test_closed_database(self, db: memdb.Database) -> None:
        """A view is closed with its database."""
        notes = db.collection("notes")
        notes.insert({"n": 1})
        view = db.view()
        seen = view.collection(notes)
        assert seen[1]["n"] == 1
        db.close()
        assert view.is_closed
        for call in (lambda: seen[1], lambda: seen.get(1), view.collections, db.view):
            with pytest.raises(memdb.ClosedError):
                call()

    def test_a_view_keeps_its_database_open(self, tmp_path: Path) -> None:
        """As long as somebody reads from a view, a database that nobody has is not closed."""
        db = memdb.open(tmp_path / "a")
        db.collection("notes").insert_many([{"n": n} for n in range(100)])
        seen = db.view().collection("notes")
        del db
        gc.collect()
        assert [note["n"] for note in seen] == list(range(100))
        del seen
        gc.collect()
        memdb.open(tmp_path / "a").close()


class TestAt:
    """Earlier states, as far back as the file goes."""

    def test_of_versions(self, db: memdb.Database) -> None:
        """Each version of a history leads to the state behind its commit."""
        towns, users = db.collection(Town, indexes=all_indexes()), db.collection(User, key="email")
        towns.insert_many([Town(f"{n}", 0) for n in range(20)])
        for number in range(1, 6):
            with db.transaction():
                towns.update(1, people=number)
                towns.update(2, people=number)
                if number == 3:
                    users.insert(User("a@x", 3))
        towns.delete(1)
        versions = towns.history(1)
        assert [version.kind for version in versions] == ["inserted", *["updated"] * 5, "deleted"]
        for number, version in enumerate(versions):
            for when in (version, version.slot):
                with db.at(when) as view:
                    seen = view.collection(towns)
                    assert seen.history(1) == versions[: number + 1]
                    assert seen[2].people == min(number, 5)
                    assert (1 in seen) == (number < 6)
                    assert seen.where(F.people > 0).count() == (min(number, 1) + (1 <= number < 6))
                    assert len(view.collection(users)) == (number >= 3)

    def test_inside_of_a_commit(self, db: memdb.Database) -> None:
        """The number of any version of a commit means its end."""
        notes = db.collection("notes")
        notes.insert({})
        notes.insert_many([{}] * 10_000)
        notes.insert({})
        for slot, size in ((1, 1), (2, 10_001), (5000, 10_001), (10_001, 10_001), (10_002, 10_002)):
            with db.at(slot) as view:
                assert (len(view.collection(notes)), view.slot) == (size, size)

    def test_of_times(self, db: memdb.Database, monkeypatch: pytest.MonkeyPatch) -> None:
        """A time means the last commit until then, in any zone, to a millisecond."""
        clock = [datetime(2026, 5, 1, 12, tzinfo=UTC)]
        monkeypatch.setattr(
            "memdb.storage._log._time_ns", lambda: int(clock[0].timestamp() * 1000) * 10**6
        )
        notes = db.collection("notes")
        times = []
        for number in range(5):
            clock[0] += timedelta(seconds=10)
            if number:
                notes.update(1, n=number)
            else:
                notes.insert({"n": 0})
            times.append(clock[0])
        for number, time in enumerate(times):
            for when in (
                *(time, time + timedelta(seconds=9), time + timedelta(milliseconds=1)),
                time.astimezone(timezone(timedelta(hours=5, minutes=45))),
                notes.history(1)[number].time,
            ):
                with db.at(when) as view:
                    assert view.collection(notes)[1]["n"] == number
                    assert view.time == time
        with pytest.raises(memdb.CommitNotFoundError, match="no commit from"):
            db.at(times[0] - timedelta(milliseconds=1))
        with db.at(datetime.max.replace(tzinfo=UTC)) as view:
            assert view.collection(notes)[1]["n"] == 4

    def test_after_a_compaction(self, tmp_path: Path) -> None:
        """What a compaction has dropped is refused, and what came after it is there."""
        with memdb.open(tmp_path / "a") as db:
            notes = db.collection("notes")
            notes.insert_many([{"n": 0}] * 10)
            before = datetime.now(UTC) - timedelta(seconds=1)
            for number in range(1, 6):
                notes.update(1, n=number)
            db.compact()
            notes.update(1, n=6)
            notes.update(1, n=7)
            assert [version.slot for version in notes.history(1)][1:] == [11, 12]
            with db.at(11) as view, db.at(10) as compacted:
                assert view.collection(notes)[1]["n"] == 6
                assert compacted.collection(notes)[1]["n"] == 5
            with pytest.raises(memdb.CommitNotFoundError, match="behind version 10, not 9"):
                db.at(9)
            with pytest.raises(memdb.CommitNotFoundError, match="goes back to"):
                db.at(before)

    def test_what_can_not_be(self, db: memdb.Database) -> None:
        """A time without a zone, a number that is none, and one that is not there yet."""
        db.collection("notes").insert({})
        with pytest.raises(memdb.ConfigError, match="a time with a zone, and 2026-01-01"):
            db.at(datetime(2026, 1, 1))
        for wrong in (0, -1, True, 1.5, "yesterday", None):
            with pytest.raises(memdb.ConfigError, match="number of a version from 1 on"):
                db.at(wrong)  # type: ignore[arg-type]
        with pytest.raises(memdb.CommitNotFoundError, match="has 1 versions, and none with"):
            db.at(2)

    def test_of_an_empty_database(self, db: memdb.Database) -> None:
        """Nothing was ever committed."""
        with pytest.raises(memdb.CommitNotFoundError, match="there is none"):
            db.at(datetime.now(UTC))

    def test_saved_indexes(self, tmp_path: Path) -> None:
        """Indexes of the file that are as of later are not taken for an earlier state."""
        with memdb.open(tmp_path / "a") as db:
            towns = db.collection(Town, indexes=[memdb.SortedIndex("people")])
            towns.insert_many([Town("a", n) for n in range(15_000)])
            half = towns.history(15_000)[0].slot
            towns.insert_many([Town("b", n) for n in range(15_000)])
            assert towns.where(F.people > 14_000).count() == 1998
            db.checkpoint()
            with db.at(half) as view:
                assert view.collection(towns).where(F.people > 14_000).count() == 999
            with db.view() as view:
                towns.clear()
                assert view.collection(towns).where(F.people > 14_000).count() == 1998
