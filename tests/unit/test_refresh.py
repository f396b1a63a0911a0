"""A reader takes in what was committed since: `Database.refresh`, and what queries see of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import memdb
from memdb import F, P
from memdb.storage import Follower
from tests.support.following import Town, User, all_indexes, writer_and_reader

SETTINGS: list[dict[str, Any]] = [{}, {"cache": "none"}, {"cache": 2}]


def named(settings: dict[str, Any]) -> str:
    """Return a name for a test."""
    return "-".join(f"{name}={value}" for name, value in settings.items()) or "default"


class TestWhatIsSeen:
    """Commits show after a refresh, all of them, and not before."""

    @pytest.mark.parametrize("settings", SETTINGS, ids=named)
    @pytest.mark.parametrize("has_index", [True, False])
    def test_each_change(self, tmp_path: Path, settings: dict[str, Any], has_index: bool) -> None:
        """Inserts, updates, deletions and batches show when they are asked for."""
        with writer_and_reader(tmp_path / "a", **settings) as (writer, reader):
            towns = writer.collection(Town)
            towns.insert(Town("Bath", 1))
            seen = reader.collection(Town, identity_index=has_index)
            assert [len(seen), reader.refresh(), len(seen)] == [0, True, 1]
            assert seen[1] == towns[1]

            towns.update(1, people=2)
            assert seen[1].people == 1
            assert reader.refresh()
            assert seen[1].people == 2

            towns.delete(1)
            assert 1 in seen
            assert reader.refresh()
            assert seen.get(1) is None

            towns.insert_many([Town(f"{number}", number) for number in range(100)])
            towns.clear()
            towns.insert_many([Town(f"{number}", number) for number in range(200)])
            assert len(seen) == 0
            assert reader.refresh()
            assert seen.ids() == towns.ids()

    def test_nothing_new(self, tmp_path: Path) -> None:
        """A refresh that finds nothing says so; so does that of a writer, or in memory."""
        with memdb.open(None) as db:
            assert db.refresh() is False
        with writer_and_reader(tmp_path / "a") as (writer, reader):
            assert [writer.refresh(), reader.refresh()] == [False, False]
            writer.collection(Town).insert(Town("Bath", 1))
            assert [writer.refresh(), reader.refresh(), reader.refresh()] == [False, True, False]
            # A block comes, and nothing that anybody could see.
            writer.checkpoint()
            assert reader.refresh() is False
            assert reader._engine.log.end == writer._engine.log.end

    def test_transaction_is_seen_wholly(self, tmp_path: Path) -> None:
        """A transaction over two collections shows in both or in none, and never before its end."""
        with writer_and_reader(tmp_path / "a") as (writer, reader):
            towns, notes = writer.collection(Town), writer.collection("notes")
            with writer.transaction():
                towns.insert(Town("Bath", 1))
                notes.insert({"text": "a"})
                assert reader.refresh() is False
            own = reader.collection(Town), reader.collection("notes")
            assert [len(each) for each in own] == [0, 0]
            assert reader.refresh()
            assert [len(each) for each in own] == [1, 1]

    @pytest.mark.parametrize("durability", ["buffered", "written", "synced"])
    def test_each_durability(self, tmp_path: Path, durability: Any) -> None:
        """Under "buffered" what was flushed shows, else what was committed."""
        with memdb.open(tmp_path / "a", durability=durability, flush_interval=1000) as writer:
            towns = writer.collection(Town)
            with memdb.open(tmp_path / "a", "r") as reader:
                seen = reader.collection(Town)
                for number in range(5):
                    towns.insert(Town("a", number))
                    found = reader.refresh()
                    assert found is (durability != "buffered")
                    writer.flush()
                    reader.refresh()
                    assert len(seen) == number + 1

    @pytest.mark.parametrize("count", [1, 63, 65, 5_000, 200_000])
    def test_batches_of_any_size(self, tmp_path: Path, count: int) -> None:
        """What is taken in at once, and what in pieces, is all there."""
        with writer_and_reader(tmp_path / "a") as (writer, reader):
            seen = reader.collection("n")
            numbers = writer.collection("n")
            numbers.insert_many({"n": number} for number in range(count))
            assert reader.refresh()
            assert len(seen) == count
            assert seen[count] == {"n": count - 1, "id": count}

    def test_backlog_is_taken_in_in_pieces(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Commits larger and smaller than a piece are all taken in, whole and in order."""
        monkeypatch.setattr("memdb.storage._following._ROUND_BYTES", 4096)
        monkeypatch.setattr("memdb.storage._following._PIECE_BYTES", 256)
        with writer_and_reader(tmp_path / "a") as (writer, reader):
            seen, notes = reader.collection("notes"), writer.collection("notes")
            for number in range(50):
                notes.insert({"text": "x" * (number * 100 % 1700)})
            notes.insert_many([{"text": "y" * 3000}] * 20)
            notes.insert({"text": "z" * 100_000})
            notes.insert({"text": "last"})
            assert reader.refresh()
            assert len(seen) == 72

    def test_explicit_identities_far_apart(self, tmp_path: Path) -> None:
        """Identities beyond the dense part are found, and forgotten when deleted."""
        with writer_and_reader(tmp_path / "a") as (writer, reader):
            towns, seen = writer.collection(Town), reader.collection(Town)
            towns.insert_many([Town("a", 1, id=each) for each in (1, 500, 2**40, 2**62)])
            assert reader.refresh()
            assert seen.ids() == [1, 500, 2**40, 2**62]
            towns.insert_many([Town("b", 1, id=2**50 + each) for each in range(100)])
            towns.delete(2**40)
            assert reader.refresh()
            assert (len(seen), 2**40 in seen) == (103, False)

    def test_an_iteration_keeps_to_its_state(self, tmp_path: Path) -> None:
        """What was begun before a refresh goes on over the state from before it."""
        with writer_and_reader(tmp_path / "a", cache="none") as (writer, reader):
            towns = writer.collection(Town)
            towns.insert_many([Town(f"{number}", number) for number in range(3000)])
            reader.refresh()
            iteration = iter(reader.collection(Town))
            first = next(iteration)
            towns.clear()
            assert reader.refresh()
            assert [first.people, *[town.people for town in iteration]] == list(range(3000))

    def test_history(self, tmp_path: Path) -> None:
        """The versions that came in are in the history, with their times."""
        with writer_and_reader(tmp_path / "a") as (writer, reader):
            towns, seen = writer.collection(Town), reader.collection(Town)
            towns.insert(Town("Bath", 1))
            for number in range(3):
                towns.update(1, people=number + 5)
                reader.refresh()
            assert seen.history(1) == towns.history(1)
            assert [version.slot for version in seen.history(1)] == [1, 2, 3, 4]

    def test_evolved_class(self, tmp_path: Path) -> None:
        """Records of a writer with a newer class are read as those of any other form."""

        @memdb_record
        class Newer:
            name: str
            people: int
            mayor: str = ""
            id: int = 0

        with memdb.open(tmp_path / "a") as writer, memdb.open(tmp_path / "a", "r") as reader:
            seen = reader.collection(Town, name="towns")
            newer = writer.collection(Newer, name="towns")
            newer.insert(Newer("Bath", 1, "Ann"))
            assert reader.refresh()
            assert seen[1] == Town("Bath", 1, id=1)

    def test_an_interrupted_walk_is_taken_up_again(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Whatever ends a refresh in the middle, the next one finds everything, once."""
        with writer_and_reader(tmp_path / "a") as (writer, reader):
            towns, seen = writer.collection(Town), reader.collection(Town)
            look = Follower.look

            def interrupted(self: Follower, length: int) -> Any:
                look(self, length)
                raise KeyboardInterrupt

            for number in range(5):
                towns.insert(Town("a", number))
                monkeypatch.setattr(Follower, "look", interrupted)
                with pytest.raises(KeyboardInterrupt):
                    reader.refresh()
                assert len(seen) == number
                monkeypatch.setattr(Follower, "look", look)
                assert reader.refresh()
                assert [town.people for town in seen] == list(range(number + 1))


def memdb_record(cls: type[Any]) -> Any:
    """Return a dataclass that is called like the records of the other tests."""
    from dataclasses import dataclass

    made = dataclass(cls)
    made.__name__ = made.__qualname__ = "Town"
    return made


class TestCollectionsThatComeLater:
    """A reader may ask for a collection before anybody has written to it."""

    def test_natural_key(self, tmp_path: Path) -> None:
        """The key gets the file's seed, so that records are found, by the generated methods too."""
        with writer_and_reader(tmp_path / "a") as (writer, reader):
            seen = reader.collection(User, key="email", indexes=[memdb.HashIndex("age")])
            assert seen.get("a@x") is None
            users = writer.collection(User, key="email")
            users.insert(User("a@x", 1))
            assert reader.refresh()
            assert [seen["a@x"], seen["a@x"]] == [User("a@x", 1)] * 2
            # From the cache, without a look at the file.
            key = seen._store.key
            assert key is not None
            assert tuple(seen._store.cache) == key.numbers(key.encode("a@x"))
            assert seen.find(age=1) == User("a@x", 1)
            users.update("a@x", age=2)
            users.insert(User("b@x", 3))
            users.delete("a@x")
            assert reader.refresh()
            assert (seen.get("a@x"), seen["b@x"].age, len(seen)) == (None, 3, 1)

    def test_plain_dicts_get_a_key(self, tmp_path: Path) -> None:
        """A collection that was asked for by its name, and has a natural key now, is refused."""
        with memdb.open(tmp_path / "a") as writer, memdb.open(tmp_path / "a", "r") as reader:
            reader.collection("users")
            other = reader.collection(Town)
            writer.collection(Town).insert(Town("Bath", 1))
            writer.collection("users", key="email").insert({"email": "a@x"})
            for _ in range(2):
                with pytest.raises(memdb.ConfigError, match="users: was made meanwhile"):
                    reader.refresh()
            assert len(other) == 0
            with memdb.open(tmp_path / "a", "r") as again:
                assert again.collection("users")["a@x"] == {"email": "a@x"}

    def test_another_key(self, tmp_path: Path) -> None:
        """A collection whose key is another than was asked for is refused."""
        with memdb.open(tmp_path / "a") as writer, memdb.open(tmp_path / "a", "r") as reader:
            reader.collection(User, key="email")
            writer.collection(User, key="age").insert(User("a@x", 1))
            with pytest.raises(memdb.ConfigError, match="named by their age, not by email"):
                reader.refresh()

    def test_displaced_keys(self, tmp_path: Path) -> None:
        """Once the file says that two keys share a number, the reader looks under others too."""
        with writer_and_reader(tmp_path / "a") as (writer, reader):
            users = writer.collection(User, key="email")
            users.insert(User("a@x", 1))
            reader.refresh()
            key, own = reader.collection(User, key="email")._store.key, users._store.key
            assert key is not None and own is not None
            assert not key.is_displaced
            own.displace()
            users.insert(User("b@x", 2))
            assert reader.refresh()
            assert key.is_displaced

    def test_asked_for_after_the_commit(self, tmp_path: Path) -> None:
        """A collection that is asked for after a refresh has what came before and comes after."""
        with writer_and_reader(tmp_path / "a") as (writer, reader):
            towns = writer.collection(Town)
            towns.insert(Town("Bath", 1))
            assert reader.refresh()
            seen = reader.collection(Town)
            towns.insert(Town("Ely", 2))
            assert reader.refresh()
            assert [town.name for town in seen] == ["Bath", "Ely"]
            assert reader.collections() == ["Town"]

    def test_schema_and_stats(self, tmp_path: Path) -> None:
        """Counts, sizes and the schema are those of what was taken in."""
        with writer_and_reader(tmp_path / "a") as (writer, reader):
            writer.collection(Town).insert_many([Town("Bath", 1), Town("Ely", 2)])
            writer.collection(Town).delete(1)
            assert reader.stats().versions == 0
            assert reader.refresh()
            assert reader.stats().collections == writer.stats().collections
            assert memdb.schema(reader) == memdb.schema(writer)


class TestQueries:
    """Indexes and plans follow."""

    @pytest.mark.parametrize("step", [1, 40, 400])
    def test_indexes_follow(self, tmp_path: Path, step: int) -> None:
        """Every kind of index has what the writer's records say, whatever came at once."""
        with writer_and_reader(tmp_path / "a") as (writer, reader):
            towns = writer.collection(Town)
            seen = reader.collection(Town, indexes=all_indexes())
            by_name = seen.where(F.name == P.name).prepare()
            for start in range(0, 1200, step):
                numbers = range(start, start + step)
                towns.insert_many([Town(f"n{n}", n % 7, [f"t{n % 5}"]) for n in numbers])
                towns.update(start + 1, people=100 + start, name=f"new{start}")
                if start:
                    towns.delete(start)
                assert reader.refresh()
                assert [town.id for town in by_name(name=f"new{start}")] == [start + 1]
                assert seen.find(name=f"n{start}") is None
                assert seen.where(F.people == 3).count() == towns.where(F.people == 3).count()
                expected = towns.where(F.people > 90).order_by("-people").all()
                assert seen.where(F.people > 90).order_by("-people").all() == expected
                assert seen.where(F.tags.contains("t1")).count() == len(
                    [town for town in towns if "t1" in town.tags]
                )
            assert [] == reader.check()

    def test_unique_keys_swap(self, tmp_path: Path) -> None:
        """Records that swap their unique keys, or take that of a deleted one, are followed."""
        with writer_and_reader(tmp_path / "a") as (writer, reader):
            towns = writer.collection(Town, indexes=[memdb.HashIndex("name", unique=True)])
            seen = reader.collection(Town, indexes=[memdb.HashIndex("name", unique=True)])
            towns.insert_many([Town("Bath", 1), Town("Ely", 2), Town("Wells", 3)])
            reader.refresh()
            assert seen.find(name="Ely").id == 2
            with writer.transaction():
                towns.update(1, name="Ely")
                towns.update(2, name="Bath")
                towns.delete(3)
                towns.insert(Town("Wells", 4))
            reader.refresh()
            found = [seen.find(name=name).id for name in ("Ely", "Bath", "Wells")]
            assert found == [1, 2, 4]

    def test_a_query_without_indexes_does_not_hide_that_unique_ones_are_behind(
        self, tmp_path: Path
    ) -> None:
        """A scan after a refresh, and then a look-up by a unique key: both see what came in."""
        with writer_and_reader(tmp_path / "a") as (writer, reader):
            towns = writer.collection(Town)
            seen = reader.collection(Town, indexes=[memdb.HashIndex("name", unique=True)])
            towns.insert(Town("Bath", 1))
            reader.refresh()
            assert seen.find(name="Bath").id == 1
            assert seen.where(F.people > 0).count() == 1
            for number in range(3):
                towns.update(1, name=f"n{number}")
                reader.refresh()
                assert seen.where(F.people > 0).count() == 1
                assert seen.find(name=f"n{number}").id == 1
                assert seen.find(name="Bath") is None

    def test_unique_index_that_the_writer_has_not(self, tmp_path: Path) -> None:
        """Two records with one key are an error for who asks, until one of them is gone."""
        with writer_and_reader(tmp_path / "a") as (writer, reader):
            towns = writer.collection(Town)
            seen = reader.collection(Town, indexes=[memdb.HashIndex("name", unique=True)])
            towns.insert(Town("Bath", 1))
            reader.refresh()
            assert seen.find(name="Bath").id == 1
            towns.insert(Town("Bath", 2))
            reader.refresh()
            for _ in range(2):
                with pytest.raises(memdb.DuplicateKeyError):
                    seen.find(name="Bath")
            assert len(seen) == 2
            towns.delete(1)
            reader.refresh()
            assert seen.find(name="Bath").id == 2

    def test_joins(self, tmp_path: Path) -> None:
        """Rows are of one commit, before and after a refresh."""
        with writer_and_reader(tmp_path / "a") as (writer, reader):
            for db in (writer, reader):
                db.collection("orders", indexes=[memdb.HashIndex("town")])
                db.collection(Town)
            orders, towns = writer.collection("orders"), writer.collection(Town)
            query = reader.collection("orders").where().join(reader.collection(Town), on=F.town)
            assert query.all() == []
            for number in range(1, 30):
                with writer.transaction():
                    towns.insert(Town(f"{number}", number))
                    orders.insert({"town": number, "n": number})
                    for earlier in range(1, number):
                        towns.update(earlier, people=number)
                reader.refresh()
                rows = query.all()
                assert len(rows) == number
                assert {row.town.people for row in rows} == {number}

    def test_saved_indexes(self, tmp_path: Path) -> None:
        """A reader takes saved indexes out of the file, and follows from there."""
        with memdb.open(tmp_path / "a") as writer:
            towns = writer.collection(Town, indexes=[memdb.SortedIndex("people")])
            towns.insert_many([Town("a", number) for number in range(20_000)])
            assert towns.where(F.people > 19_990).count() == 9
        with writer_and_reader(tmp_path / "a") as (writer, reader):
            seen = reader.collection(Town, indexes=[memdb.SortedIndex("people")])
            towns = writer.collection(Town, indexes=[memdb.SortedIndex("people")])
            assert seen.where(F.people > 19_990).count() == 9
            towns.insert(Town("b", 30_000))
            writer.checkpoint()
            reader.refresh()
            assert seen.where(F.people > 19_990).count() == 10


class TestRefusals:
    """What can't be."""

    def test_closed(self, tmp_path: Path) -> None:
        """A closed reader says so."""
        memdb.open(tmp_path / "a").close()
        reader = memdb.open(tmp_path / "a", "r")
        reader.close()
        with pytest.raises(memdb.ClosedError):
            reader.refresh()

    @pytest.mark.parametrize("value", [0, -1, "auto", None, True, float("nan"), 1e6])
    def test_settings(self, value: Any) -> None:
        """What is neither "manual" nor seconds is refused."""
        with pytest.raises(memdb.ConfigError, match="refresh="):
            memdb.Config(refresh=value)

    def test_setting_of_a_writer(self, tmp_path: Path) -> None:
        """Asked for by a writer it is a misunderstanding; in a shared configuration it is not."""
        with pytest.raises(memdb.ConfigError, match="mode='rw' contradicts refresh"):
            memdb.open(tmp_path / "a", refresh=1)
        with memdb.open(tmp_path / "a", config={"refresh": 0.5}) as db:
            assert db.refresh() is False

    def test_from_the_environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The variable may hold seconds or the word."""
        monkeypatch.setenv("MEMDB_REFRESH", "0.25")
        assert memdb.Config.load().refresh == 0.25
        monkeypatch.setenv("MEMDB_REFRESH", "manual")
        assert memdb.Config.load().refresh == "manual"
