"""A reader when the path leads to another file, or the file is not what it was."""

from __future__ import annotations

import gc
import os
import shutil
import struct
import threading
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest

import memdb
from memdb import F
from memdb._claims import Taken
from memdb._reference_checks import dangling
from tests.support.following import Town, User, all_indexes, contents, writer_and_reader


@dataclass
class Pet:
    """A record that refers to a user."""

    owner: Annotated[str, memdb.ForeignKey(User, on_delete="cascade")]
    age: int
    id: int = 0


SETTINGS: list[dict[str, Any]] = [{}, {"cache": "none"}, {"cache": 2}]


def named(settings: dict[str, Any]) -> str:
    """Return a name for a test."""
    return "-".join(f"{name}={value}" for name, value in settings.items()) or "default"


def maps_of(path: Path) -> list[str]:
    """Return the mappings of a file, also of one that had its name, that this process has."""
    return [line for line in Path("/proc/self/maps").read_text().splitlines() if str(path) in line]


class TestCompaction:
    """The path leads to a compacted file."""

    @pytest.mark.parametrize("settings", SETTINGS, ids=named)
    def test_reader_goes_over_to_it(self, tmp_path: Path, settings: dict[str, Any]) -> None:
        """Records, keys, indexes and what comes afterwards are those of the new file."""
        with writer_and_reader(tmp_path / "a", **settings) as (writer, reader):
            towns, users = writer.collection(Town), writer.collection(User, key="email")
            seen = reader.collection(Town, indexes=all_indexes())
            known = reader.collection(User, key="email", indexes=[memdb.SortedIndex("age")])
            for round_number in range(4):
                first = 1000 * round_number
                towns.insert_many([Town(f"n{first + n}", n % 9) for n in range(200)])
                users.insert_many([User(f"{first + n}@x", n) for n in range(50)])
                for identity in towns.ids()[::3]:
                    towns.delete(identity)
                reader.refresh()
                last = towns.ids()[-1]
                assert seen.find(name=towns[last].name) == towns[last]
                assert known.where(F.age > 47).count() == 2 * (round_number + 1)
                users.delete(f"{first + 49}@x")
                users.insert(User(f"{first + 49}@y", 49))
                towns.update(towns.ids()[0], people=-1)
                if round_number:
                    writer.compact()
                towns.update(towns.ids()[1], people=-2)
                assert reader.refresh()
                assert seen.where(F.people < 0).count() == towns.where(F.people < 0).count()
                assert known.get(f"{first + 49}@x") is None
                assert known[f"{first + 49}@y"].age == 49
                assert [] == reader.check()
                assert seen.history(towns.ids()[1])[-1].record == towns[towns.ids()[1]]

    def test_several_between_two_refreshes(self, tmp_path: Path) -> None:
        """A reader that slept through some compactions finds the last file."""
        with writer_and_reader(tmp_path / "a") as (writer, reader):
            towns, seen = writer.collection(Town), reader.collection(Town)
            for number in range(5):
                towns.insert(Town(f"{number}", number))
                writer.compact()
            assert reader.refresh()
            assert [town.people for town in seen] == [0, 1, 2, 3, 4]

    def test_everything_was_deleted(self, tmp_path: Path) -> None:
        """An empty new file empties the collections; a scan over the old one ends as it began."""
        with writer_and_reader(tmp_path / "a", cache="none") as (writer, reader):
            towns = writer.collection(Town)
            towns.insert_many([Town(f"{number}", number) for number in range(3000)])
            reader.refresh()
            seen = reader.collection(Town, indexes=all_indexes())
            assert seen.find(name="5").people == 5
            horizon = seen._store.horizon.slot
            iteration = iter(seen)
            next(iteration)
            towns.clear()
            writer.compact()
            assert reader.refresh()
            assert seen._store.horizon.slot > horizon
            assert (len(seen), list(seen), seen.find(name="5")) == (0, [], None)
            assert [town.people for town in iteration] == list(range(1, 3000))

    @pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="looks for maps in /proc")
    def test_the_old_file_goes_with_its_last_query(self, tmp_path: Path) -> None:
        """The space of the old file is given back once no query over it runs any more."""
        path = tmp_path / "a"
        with writer_and_reader(path, cache="none") as (writer, reader):
            towns = writer.collection(Town)
            towns.insert_many([Town(f"{number}", number) for number in range(3000)])
            reader.refresh()
            seen = reader.collection(Town)
            view = reader.view()
            iteration = iter(seen)
            next(iteration)
            old = weakref.ref(reader._engine.log.era)
            writer.compact()
            reader.refresh()
            gc.collect()
            assert old() is not None
            view.close()
            gc.collect()
            assert old() is not None
            assert len(list(iteration)) == 2999
            del iteration
            gc.collect()
            assert old() is None
            assert [line for line in maps_of(path) if "deleted" in line] == []

    def test_view_keeps_the_old_file(self, tmp_path: Path) -> None:
        """A view from before stays as it is, indexes and history included."""
        with writer_and_reader(tmp_path / "a") as (writer, reader):
            towns = writer.collection(Town)
            towns.insert_many([Town(f"{number}", number) for number in range(100)])
            towns.update(1, people=-1)
            reader.refresh()
            seen = reader.collection(Town, indexes=all_indexes())
            with reader.view() as view, writer.view() as own:
                towns.delete(2)
                writer.compact()
                reader.refresh()
                for found in (view.collection(seen), own.collection(towns)):
                    assert [version.slot for version in found.history(1)] == [1, 101]
                    assert (found[2].people, found.where(F.people < 2).count()) == (1, 2)
                assert 2 not in seen

    def test_look_up_between_two_files(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A slot that was looked up just before the change is looked up again."""
        with writer_and_reader(tmp_path / "a", cache="none") as (writer, reader):
            towns, users = writer.collection(Town), writer.collection(User, key="email")
            towns.insert_many([Town("a", 1), Town("b", 2)])
            users.insert_many([User("a@x", 1), User("b@x", 2)])
            reader.refresh()
            seen = reader.collection(Town)
            known = reader.collection(User, key="email")
            log = reader._engine.log
            read = type(log).read
            due = [True]

            def late(self: Any, slot: int) -> Any:
                if self is log and due:
                    due.clear()
                    towns.update(2, people=3)
                    users.update("b@x", age=3)
                    writer.compact()
                    reader.refresh()
                return read(self, slot)

            monkeypatch.setattr(type(log), "read", late)
            assert seen[2].people == 3
            due.append(True)
            assert known["b@x"].age == 3
            due.append(True)
            assert known._store.find_number("b@x")

    @pytest.mark.parametrize("of", ["reader", "writer"])
    def test_a_file_that_changes_under_what_reads_one_record(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of: str
    ) -> None:
        """The end of an index, a check of references and who has a key are looked up again."""
        with writer_and_reader(tmp_path / "a", cache="none") as (writer, reader):
            for db in (writer, reader):
                db.collection(User, key="email")
                db.collection(Pet, indexes=[memdb.SortedIndex("age")])
            writer.collection(User).insert_many([User("a@x", 1), User("b@x", 2)])
            writer.collection(Pet).insert_many([Pet("a@x", 1), Pet("b@x", 2)])
            reader.refresh()
            db = reader if of == "reader" else writer
            users, pets = db.collection(User), db.collection(Pet)
            assert pets.where().max("age") == 2
            log = db._engine.log
            read = type(log).read
            # In how many reads the file changes; below 0 it has.
            due = -1
            others: list[threading.Thread] = []

            def late(self: Any, slot: int) -> Any:
                nonlocal due
                if self is log and due >= 0:
                    due -= 1
                    if due < 0:
                        # Not in the transaction of a deletion; and whoever reads may hold a lock
                        # that it has to wait for.
                        compaction = threading.Thread(target=writer.compact)
                        compaction.start()
                        compaction.join(0.2)
                        others.append(compaction)
                        reader.refresh()
                return read(self, slot)

            monkeypatch.setattr(type(log), "read", late)
            due = 0
            assert (pets.where().max("age"), due) == (2, -1)
            due = 0
            assert (list(dangling(pets._store)), due) == ([], -1)
            due = 0
            taken = Taken(users._store, "email", *users._store.identities.arrays()[0].tolist())
            assert "email" in str(users._store.indexes.duplicate(taken))
            assert due == -1
            if of == "reader":
                return
            for number in range(10):
                users.insert(User("c@x", 1))
                pets.insert(Pet("c@x", 7))
                due = number
                users.delete("c@x")
                assert (len(users), len(pets)) == (2, 2)
                for other in others:
                    other.join()


class TestReplacedFiles:
    """Somebody has put another file there."""

    def make(self, path: Path, *names: str) -> None:
        """Write a file of some towns."""
        with memdb.open(path) as db:
            db.collection(Town).insert_many([Town(name, 1) for name in names])

    def test_renamed_over_it(self, tmp_path: Path) -> None:
        """A file that was moved to the path is read from then on."""
        path, other = tmp_path / "a", tmp_path / "b"
        self.make(path, "Bath", "Ely")
        self.make(other, "Wells")
        with memdb.open(path, "r") as reader:
            seen = reader.collection(Town)
            assert len(seen) == 2
            os.replace(other, path)
            assert reader.refresh()
            assert [town.name for town in seen] == ["Wells"]
            assert reader.refresh() is False
            assert [] == reader.check()

    def test_an_earlier_state(self, tmp_path: Path) -> None:
        """A copy from before, moved to the path, takes the reader back to it."""
        path, copy = tmp_path / "a", tmp_path / "copy"
        self.make(path, "Bath")
        shutil.copy(path, copy)
        with memdb.open(path) as db:
            db.collection(Town).insert(Town("Ely", 1))
            db.collection("notes").insert({"a": 1})
        with memdb.open(path, "r") as reader:
            seen, notes = reader.collection(Town), reader.collection("notes")
            assert (len(seen), len(notes)) == (2, 1)
            os.replace(copy, path)
            assert reader.refresh()
            assert (len(seen), len(notes), reader.collections()) == (1, 0, ["Town"])
            with memdb.open(path) as db:
                db.collection("notes").insert_many([{"b": 1}, {"b": 2}])
            assert reader.refresh()
            assert [note["b"] for note in notes] == [1, 2]

    def test_copied_over_it(self, tmp_path: Path) -> None:
        """A file whose bytes were written over the old ones is read anew."""
        path, other = tmp_path / "a", tmp_path / "b"
        self.make(path, "Bath", "Ely")
        self.make(other, *["Wells"] * 100)
        with memdb.open(path, "r") as reader:
            seen = reader.collection(Town)
            assert len(seen) == 2
            shutil.copyfile(other, path)
            assert reader.refresh()
            assert [town.name for town in seen] == ["Wells"] * 100

    def test_cut_to_an_earlier_state(self, tmp_path: Path) -> None:
        """A shorter state of the same file, written over it, is read anew."""
        path = tmp_path / "a"
        self.make(path, "Bath")
        before = path.read_bytes()
        with memdb.open(path) as db:
            db.collection(Town).insert_many([Town("Ely", 1)] * 500)
        with memdb.open(path, "r") as reader:
            seen = reader.collection(Town)
            assert len(seen) == 501
            path.write_bytes(before)
            assert reader.refresh()
            assert [town.name for town in seen] == ["Bath"]

    def test_missing(self, tmp_path: Path) -> None:
        """A file that is gone is an error; what was read stays, and a new one is followed."""
        path = tmp_path / "a"
        self.make(path, "Bath")
        with memdb.open(path, "r") as reader:
            seen = reader.collection(Town)
            path.rename(tmp_path / "b")
            for _ in range(2):
                with pytest.raises(memdb.FileMissingError):
                    reader.refresh()
            assert [town.name for town in seen] == ["Bath"]
            self.make(path, "Ely")
            assert reader.refresh()
            assert [town.name for town in seen] == ["Ely"]

    @pytest.mark.parametrize(
        ("content", "error"),
        [
            (b"something else", memdb.NotADatabaseError),
            (b"", memdb.NotADatabaseError),
            (bytes(12_288), memdb.NotADatabaseError),
            (b"\x93MEMDB\r\n", memdb.DamageError),
        ],
        ids=["text", "empty", "unfinished", "cut"],
    )
    def test_no_database(self, tmp_path: Path, content: bytes, error: Any) -> None:
        """What is no database is refused, and leaves neither file nor change behind."""
        path = tmp_path / "a"
        self.make(path, "Bath")
        with memdb.open(path, "r") as reader:
            seen = reader.collection(Town)
            before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
            (tmp_path / "b").write_bytes(content)
            (tmp_path / "b").rename(path)
            for _ in range(3):
                with pytest.raises(error):
                    reader.refresh()
            assert [town.name for town in seen] == ["Bath"]
            if before:
                assert len(os.listdir("/proc/self/fd")) == before

    def test_another_database(self, tmp_path: Path) -> None:
        """One whose numbers mean something else is refused: nothing that was asked for holds."""
        path, other = tmp_path / "a", tmp_path / "b"
        self.make(path, "Bath")
        with memdb.open(other) as db:
            db.collection("notes").insert({"text": "a"})
        with memdb.open(path, "r") as reader:
            seen = reader.collection(Town)
            os.replace(other, path)
            with pytest.raises(memdb.OpenError, match="another database lies there"):
                reader.refresh()
            assert [town.name for town in seen] == ["Bath"]
            assert contents(reader)["Town"] == {1: Town("Bath", 1, id=1)}

    def test_what_a_refused_file_says_is_forgotten(self, tmp_path: Path) -> None:
        """Once the right file is back, its next collection may have a number of the other one's."""
        path, other, aside = tmp_path / "a", tmp_path / "b", tmp_path / "c"
        self.make(path, "Bath")
        with memdb.open(other) as db:
            # The same collection, and one that the other file does not have; another writer.
            db.collection("Town").insert({"name": "Ely"})
            db.collection("notes").insert({"text": "a"})
        with memdb.open(path, "r") as reader:
            seen = reader.collection(Town)
            path.rename(aside)
            other.rename(path)
            with pytest.raises(memdb.OpenError, match="another database lies there"):
                reader.refresh()
            aside.rename(path)
            with memdb.open(path) as db:
                db.collection("pets").insert({"name": "Tom"})
            assert reader.refresh()
            assert reader.collections() == ["Town", "pets"]
            assert [town.name for town in seen] == ["Bath"]

    def test_another_seed(self, tmp_path: Path) -> None:
        """A file made anew, with other hashes of natural keys, is another database."""
        for name in ("a", "b"):
            with memdb.open(tmp_path / name) as db:
                db.collection(User, key="email").insert(User("a@x", 1))
        with memdb.open(tmp_path / "a", "r") as reader:
            seen = reader.collection(User, key="email")
            os.replace(tmp_path / "b", tmp_path / "a")
            with pytest.raises(memdb.OpenError, match="another database"):
                reader.refresh()
            assert seen["a@x"].age == 1

    def test_damaged(self, tmp_path: Path) -> None:
        """A block that is wrong though it was synced is damage; what was read stays readable."""
        path = tmp_path / "a"
        with memdb.open(path) as writer, memdb.open(path, "r") as reader:
            towns, seen = writer.collection(Town), reader.collection(Town)
            towns.insert(Town("Bath", 1))
            reader.refresh()
            end = writer._engine.log.end
            towns.insert(Town("Ely", 2))
            with path.open("r+b") as file:
                file.seek(end + 74)
                byte = file.read(1)
                file.seek(end + 74)
                file.write(bytes([byte[0] ^ 1]))
            # Nobody can say yet that it will not be whole in a moment.
            assert reader.refresh() is False
            writer.flush()
            for _ in range(2):
                with pytest.raises(memdb.DamageError, match=f"the block at byte {end} is damaged"):
                    reader.refresh()
            assert [town.name for town in seen] == ["Bath"]
            with path.open("r+b") as file:
                file.seek(end + 74)
                file.write(byte)
            assert reader.refresh()
            assert len(seen) == 2

    def test_unknown_kind_of_version(self, tmp_path: Path) -> None:
        """A pointer that memdb does not write is damage, and changes nothing."""
        path = tmp_path / "a"
        with memdb.open(path) as writer, memdb.open(path, "r") as reader:
            towns, seen = writer.collection(Town), reader.collection(Town)
            towns.insert(Town("Bath", 1))
            reader.refresh()
            towns._store.members.sole.pointer_ends[memdb.storage.Kind.UPDATED] = struct.pack(  # type: ignore[union-attr]
                "<HHBBH", 1, 1, 9, 1, 0
            )
            towns.update(1, people=2)
            for _ in range(2):
                with pytest.raises(memdb.DamageError, match="which memdb does not write"):
                    reader.refresh()
            assert seen[1].people == 1

    def test_torn_tail_and_the_next_writer(self, tmp_path: Path) -> None:
        """A commit that a dead writer left half is cut by the next; what follows is seen."""
        path = tmp_path / "a"
        self.make(path, "Bath")
        with memdb.open(path, "r") as reader:
            seen = reader.collection(Town)
            with path.open("ab") as file:
                # The beginning of a commit.
                file.write(os.urandom(8) + b"MDBC" + bytes(range(100)))
            assert reader.refresh() is False
            self.make(path, "Ely")
            assert reader.refresh()
            assert [town.name for town in seen] == ["Bath", "Ely"]


def test_a_writer_that_closes_while_its_file_is_mapped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refresh between the look at the length and the mapping takes in what was committed."""
    path = tmp_path / "a.memdb"
    with memdb.open(path) as writer:
        writer.collection("notes").insert({"n": 0})
    reader = memdb.open(path, mode="r")
    with memdb.open(path) as writer:
        writer.collection("notes").insert_many([{"n": n} for n in range(1, 1_000)])
        file = reader._engine.log.file
        length = file.length()
    assert os.path.getsize(path) < length
    monkeypatch.setattr(type(file), "length", lambda _: length)

    assert reader.refresh()
    monkeypatch.undo()
    assert 1_000 == len(reader.collection("notes"))
    assert {"n": 999, "id": 1_000} == reader.collection("notes")[1_000]
    reader.close()
