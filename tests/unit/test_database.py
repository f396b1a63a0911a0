"""Opening, the database's own methods, and every kind of bad input."""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import memdb
from memdb.storage._blocks import checksum64
from tests.support.own_serializer import PATH
from tests.support.samples import KINDS, SERIALIZERS, RecordKind

VERSION_OFFSET = 8


@dataclass
class Person:
    name: str
    tags: list[str] = field(default_factory=list)
    id: int = 0


@dataclass
class Holder:
    value: Any
    id: int = 0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A place for a file."""
    return tmp_path / "people.memdb"


@pytest.fixture
def filled(path: Path) -> Path:
    """A file with Ann and Bob, closed."""
    with memdb.open(path) as db:
        db.collection(Person).insert_many([Person("Ann"), Person("Bob", ["x"])])
    return path


class TestOpening:
    def test_keeps_records(self, path: Path) -> None:
        """What was inserted is there when the file is opened again."""
        with memdb.open(path) as db:
            identity = db.collection(Person).insert(Person("Ann"))
        with memdb.open(path) as db:
            assert Person("Ann", id=identity) == db.collection(Person)[identity]
            assert db.recovery is None

    @pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
    @pytest.mark.parametrize("serializer", SERIALIZERS)
    def test_keeps_every_kind(self, path: Path, kind: RecordKind, serializer: str) -> None:
        """Each kind of record comes back from each serializer, in a new session."""
        with memdb.open(path, serializer=serializer) as db:
            record = kind.make({"name": "żółw", "n": 2**70})
            identity = db.collection(kind.target).insert(record)
        with memdb.open(path, trusted_serializers=["pickle"]) as db:
            found = db.collection(kind.target)[identity]

        assert kind.make(kind.values(record), identity) == found

    @pytest.mark.parametrize("convert", [str, os.fsencode, Path])
    @pytest.mark.parametrize("name", ["a b", "#?%;=&", "żółw", "x" * 255, "-", "a\nb"])
    def test_takes_any_path(
        self, tmp_path: Path, convert: Callable[[Path], Any], name: str
    ) -> None:
        """The path is a str, bytes or path object, and means exactly that file."""
        name = os.fsdecode(os.fsencode(name)[:255])
        with memdb.open(convert(tmp_path / name)) as db:
            db.collection(Person).insert(Person("Ann"))
            assert str(tmp_path / name) == db.path

        assert [name] == os.listdir(tmp_path)

    def test_in_memory(self) -> None:
        """Without a path nothing is left, and each one is a database of its own."""
        with memdb.open(None) as db, memdb.open(None) as other:
            db.collection(Person).insert(Person("Ann"))
            assert (None, 0) == (db.path, len(other.collection(Person)))
            db.flush()
            db.checkpoint()
            assert 1 == len(db.collection(Person))

    def test_closes_at_the_end_of_with(self, path: Path) -> None:
        """A with block closes the database, also when it raises."""
        with pytest.raises(ZeroDivisionError), memdb.open(path) as db:
            db.collection(Person).insert(Person("Ann"))
            raise ZeroDivisionError

        assert db.is_closed
        with memdb.open(path) as db:
            assert 1 == len(db.collection(Person))
        db.close()
        db.close()

    def test_recovery_says_what_was_mended(self, path: Path, tmp_path: Path) -> None:
        """After a crash `recovery` tells what was replayed."""
        with memdb.open(path) as db:
            db.collection(Person).insert_many([Person("Ann"), Person("Bob")])
            (tmp_path / "copy").write_bytes(path.read_bytes())
        with memdb.open(tmp_path / "copy") as db:
            recovery = db.recovery
            assert recovery is not None
            assert (False, 1, 2) == (
                recovery.was_clean,
                recovery.replayed_commits,
                recovery.replayed_versions,
            )
            assert 2 == len(db.collection(Person))
        with memdb.open(tmp_path / "copy") as db:
            assert db.recovery is None

    @pytest.mark.parametrize("setting", ["serializer", "cloner", "cache"])
    def test_config_and_keywords(self, path: Path, setting: str) -> None:
        """Keywords go before the config, and both before the defaults."""
        config = memdb.Config(serializer="json", cloner="share", cache=1)
        values = {"serializer": "msgpack", "cloner": "roundtrip", "cache": "none"}
        with memdb.open(path, config=config, **{setting: values[setting]}) as db:
            used = db._engine.config
        for name in values:
            expected = values[name] if name == setting else getattr(config, name)
            assert expected == getattr(used, name)

    def test_change_of_serializer(self, path: Path) -> None:
        """A file may be opened with another serializer each time; old records stay readable."""
        for number, serializer in enumerate([*SERIALIZERS, *reversed(SERIALIZERS)], 1):
            with memdb.open(path, serializer=serializer, trusted_serializers=["pickle"]) as db:
                people = db.collection(Person)
                people.insert(Person(serializer, ["x"]))
                people.update(1, tags=[serializer])
                assert number == len(list(people))
        with memdb.open(path, "r", config={"trusted_serializers": ["pickle"]}) as db:
            names = [person.name for person in db.collection(Person)]

        assert [*SERIALIZERS, *reversed(SERIALIZERS)] == names

    @pytest.mark.parametrize("serializer", ["pickle", PATH])
    def test_what_may_run_code_must_be_named(self, path: Path, serializer: str) -> None:
        """A file can't make its reader unpickle or import: only the program's own naming can."""
        with memdb.open(path) as db:
            people = db.collection(Person, serializer=serializer)
            people.insert(Person("Ann"))
        with memdb.open(path) as db:
            people = db.collection(Person)
            people.insert(Person("Bob"))
            for read in (
                lambda: people[1],
                lambda: list(people),
                lambda: people.update(1, name="x"),
            ):
                with pytest.raises(memdb.DecodeError, match="trusted_serializers"):
                    read()
            assert "trusted_serializers" in str(people.history(1)[0].error)
            assert ("Bob", [1, 2]) == (people[2].name, people.ids())
        for settings in (
            {"serializer": serializer},
            {"trusted_serializers": ["other:one", serializer]},
        ):
            with memdb.open(path, "r", **settings) as db:
                assert ["Ann", "Bob"] == [person.name for person in db.collection(Person)]
        with memdb.open(path, "r") as db:
            assert "Ann" == db.collection(Person, serializer=serializer)[1].name

    def test_class_that_gained_a_field(self, path: Path) -> None:
        """Records of an older form of the class get the defaults, each its own."""

        def make(fields: dict[str, Any]) -> type[Any]:
            names = {"__annotations__": {name: type(value) for name, value in fields.items()}}
            defaults = {
                name: field(default_factory=list) if value == [] else value
                for name, value in fields.items()
            }
            return dataclass(type("Thing", (), names | defaults))

        with memdb.open(path) as db:
            old = make({"name": "", "old": 0, "id": 0})
            db.collection(old, name="things").insert_many([old("a"), old("b")])
        new = make({"id": 0, "more": [], "name": ""})
        with memdb.open(path) as db:
            things = db.collection(new, name="things")
            one, two = things
            one.more.append("x")

            assert (["a", "b"], []) == ([one.name, two.name], two.more)


class TestBadPath:
    def test_directory(self, tmp_path: Path) -> None:
        """A directory is refused, in every mode."""
        for mode in ("rw", "r", "append"):
            with pytest.raises(memdb.NotADatabaseError, match="is a directory") as caught:
                memdb.open(tmp_path, mode)
            assert str(tmp_path) == caught.value.path
            assert isinstance(caught.value, OSError)

    def test_missing_directory(self, tmp_path: Path) -> None:
        """A file in a directory that is not there can't be made."""
        with pytest.raises(memdb.FileMissingError, match="no such file or directory") as caught:
            memdb.open(tmp_path / "no" / "a")

        assert isinstance(caught.value, FileNotFoundError)
        assert str(tmp_path / "no" / "a") == caught.value.path

    def test_missing_file_for_reading(self, path: Path) -> None:
        """A reader does not make a file, and says how one is made."""
        with pytest.raises(memdb.FileMissingError, match='mode="rw"'):
            memdb.open(path, "r")

        assert not path.exists()

    def test_file_as_directory(self, filled: Path) -> None:
        """A path through a file can't be opened."""
        with pytest.raises(memdb.OpenError) as caught:
            memdb.open(filled / "a")

        assert str(filled / "a") == caught.value.path

    def test_name_too_long(self, tmp_path: Path) -> None:
        """A name that the file system refuses is an OpenError with its errno."""
        with pytest.raises(memdb.OpenError) as caught:
            memdb.open(tmp_path / ("x" * 300))

        assert caught.value.errno is not None

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
    def test_not_writable(self, filled: Path) -> None:
        """A read-only file can be read and says that it is read-only, not locked."""
        filled.chmod(0o444)
        with pytest.raises(memdb.FilePermissionError, match='mode="r"') as caught:
            memdb.open(filled)

        assert isinstance(caught.value, PermissionError)
        assert str(filled) == caught.value.path
        with memdb.open(filled, "r") as db:
            assert 2 == len(db.collection(Person))

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
    def test_directory_not_writable(self, tmp_path: Path) -> None:
        """In a read-only directory no file can be made."""
        tmp_path.chmod(0o555)
        try:
            with pytest.raises(memdb.FilePermissionError):
                memdb.open(tmp_path / "a")
        finally:
            tmp_path.chmod(0o755)

    @pytest.mark.skipif(sys.platform != "linux", reason="needs a file that nobody may write")
    def test_nobody_may_write(self) -> None:
        """Not even root may write a file of the kernel's; the error is about permissions."""
        with pytest.raises(memdb.OpenError):
            memdb.open("/proc/new-file")

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs a named pipe")
    def test_pipe_and_device(self, tmp_path: Path) -> None:
        """What is no regular file is refused at once, and not waited for."""
        os.mkfifo(tmp_path / "pipe")
        for path in (tmp_path / "pipe", "/dev/null"):
            with pytest.raises(memdb.NotADatabaseError, match="not a regular file"):
                memdb.open(path)

    @pytest.mark.parametrize("path", [5, 1.5, ["a"], object()])
    def test_no_path(self, path: Any) -> None:
        """What is no path is a TypeError."""
        with pytest.raises(TypeError):
            memdb.open(path)


class TestBadFile:
    @pytest.mark.parametrize(
        "content",
        [b"x", b"hello, world" * 10, b"SQLite format 3\x00" + bytes(20_000), b"\xff" * 20_000],
        ids=["byte", "text", "sqlite", "ones"],
    )
    @pytest.mark.parametrize("mode", ["rw", "r", "append"])
    def test_not_a_database(self, path: Path, content: bytes, mode: Any) -> None:
        """A file of something else is refused and stays as it is."""
        path.write_bytes(content)
        with pytest.raises(memdb.NotADatabaseError) as caught:
            memdb.open(path, mode)

        assert str(path) == caught.value.path
        assert str(path) in str(caught.value)
        assert content == path.read_bytes()

    @pytest.mark.parametrize("size", [0, 1, 4096, 12288])
    def test_empty(self, path: Path, size: int) -> None:
        """A file of nothing is refused to a reader, and made a database by a writer."""
        path.write_bytes(bytes(size))
        with pytest.raises(memdb.NotADatabaseError, match="is empty"):
            memdb.open(path, "r")
        with memdb.open(path) as db:
            db.collection(Person).insert(Person("Ann"))

        with memdb.open(path, "r") as db:
            assert 1 == len(db.collection(Person))

    @pytest.mark.parametrize("mode", ["rw", "r", "append"])
    def test_newer_format(self, filled: Path, mode: Any) -> None:
        """A file of a newer format is refused with both versions, and stays as it is."""
        content = bytearray(filled.read_bytes())
        supported = 2
        struct.pack_into("<I", content, VERSION_OFFSET, supported + 1)
        content[56:64] = checksum64(bytes(content[:56]))
        filled.write_bytes(content)
        with pytest.raises(memdb.UnsupportedFormatError) as caught:
            memdb.open(filled, mode)

        assert (supported + 1, supported) == (caught.value.found, caught.value.supported)
        assert str(filled) == caught.value.path
        assert bytes(content) == filled.read_bytes()

    def test_damaged_record(self, filled: Path) -> None:
        """A record that rotted is an error with file and offset; the others are readable."""
        content = bytearray(filled.read_bytes())
        offset = content.index(b"Ann")
        content[offset] ^= 1
        filled.write_bytes(content)
        with memdb.open(filled, "r") as db:
            people = db.collection(Person)
            for read in (lambda: people[1], lambda: people.get(1), lambda: list(people)):
                with pytest.raises(memdb.DamageError, match="checksum") as caught:
                    read()
                assert str(filled) == caught.value.path
                assert 0 <= offset - caught.value.offset < 8
            assert "Bob" == people[2].name
            assert 1 == len(db.check())

    def test_bytes_that_do_not_fit(self, filled: Path) -> None:
        """Whole bytes that the class can't hold are an error that names record and field."""

        @dataclass
        class Other:
            name: str
            age: int
            id: int = 0

        with memdb.open(filled, "r") as db:
            people = db.collection(Other, name="Person")
            with pytest.raises(memdb.DecodeError) as caught:
                people[1]
            assert "age" == caught.value.field
            assert "default" in str(caught.value)
            assert 2 == len(people)


class TestSecondWriter:
    @pytest.mark.parametrize("first", ["rw", "append"])
    @pytest.mark.parametrize("second", ["rw", "append"])
    def test_is_refused(self, filled: Path, first: Any, second: Any) -> None:
        """A second writer is refused with an error that names the holder."""
        with memdb.open(filled, first):
            with pytest.raises(memdb.LockedError, match=f"process {os.getpid()}") as caught:
                memdb.open(filled, second)
            assert str(filled) == caught.value.path
            assert str(os.getpid()) in caught.value.holder
        memdb.open(filled, second).close()

    def test_by_another_name(self, filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A link or a relative path to the file is the same file."""
        link = filled.with_name("link")
        link.symlink_to(filled)
        monkeypatch.chdir(filled.parent)
        for one, two in ((link, filled), (filled, link), (filled, filled.name)):
            with memdb.open(one), pytest.raises(memdb.LockedError):
                memdb.open(two)

    def test_reader_beside(self, filled: Path) -> None:
        """Any number of readers open beside a writer, and see what was committed."""
        with memdb.open(filled) as db:
            db.collection(Person).update(1, name="Anna")
            with memdb.open(filled, "r") as one, memdb.open(filled, "r") as two:
                assert "Anna" == one.collection(Person)[1].name == two.collection(Person)[1].name


class TestModes:
    def test_reading(self, filled: Path) -> None:
        """A reader changes nothing, refuses every change, and leaves the file byte by byte."""
        content = filled.read_bytes()
        with memdb.open(filled, "r") as db:
            people = db.collection(Person)
            for change in (
                lambda: people.insert(Person("x")),
                lambda: people.insert_many([Person("x")]),
                lambda: people.put(Person("x", id=1)),
                lambda: people.put(Person("x", id=9)),
                lambda: people.update(1, name="x"),
                lambda: people.edit(1).__enter__(),
                lambda: people.delete(1),
                lambda: people.__delitem__(1),
                people.clear,
                lambda: db.transaction().__enter__(),
            ):
                with pytest.raises(memdb.ReadOnlyError, match='mode="rw"') as caught:
                    change()
                assert isinstance(caught.value, TypeError)
            db.flush()
            assert ["Ann", "Bob"] == [person.name for person in people]
            assert [] == db.check()
            assert 0 == len(db.collection("not there"))

        assert content == filled.read_bytes()
        assert [filled.name] == os.listdir(filled.parent)

    def test_appending(self, filled: Path) -> None:
        """With append new records are taken, nothing is changed or deleted."""
        with memdb.open(filled, "append") as db:
            people = db.collection(Person)
            assert 3 == people.insert(Person("Cid"))
            assert [4, 5] == people.insert_many([Person("Dan"), Person("Eve")])
            assert (6, "inserted") == people.put(Person("Fay", id=6))
            for change in (
                lambda: people.put(Person("x", id=1)),
                lambda: people.update(1, name="x"),
                lambda: people.edit(1).__enter__(),
                lambda: people.delete(1),
                lambda: people.__delitem__(1),
                people.clear,
            ):
                with pytest.raises(memdb.ReadOnlyError, match="append"):
                    change()
            db.checkpoint()
        with memdb.open(filled) as db:
            assert 6 == len(db.collection(Person))


class TestBadSettings:
    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"durabilty": "synced"}, "durability"),
            ({"chache": "all"}, "cache"),
            ({"Serializer": "json"}, "serializer"),
            ({"durability": "sync"}, "synced"),
            ({"serializer": "jsn"}, "json"),
            ({"cloner": "rountrip"}, "roundtrip"),
            ({"cache": "nine"}, "none"),
        ],
    )
    def test_unknown(self, path: Path, settings: dict[str, Any], message: str) -> None:
        """A setting or value that does not exist is refused with the nearest name."""
        with pytest.raises(memdb.ConfigError, match=f"Did you mean '{message}'") as caught:
            memdb.open(path, **settings)

        assert isinstance(caught.value, ValueError)
        assert not path.exists()

    def test_unknown_mode(self, path: Path) -> None:
        """A mode that does not exist is refused."""
        for mode in ("w", "rb", "", None, "read"):
            with pytest.raises(memdb.ConfigError, match="mode="):
                memdb.open(path, mode)  # type: ignore[arg-type]
        assert not path.exists()

    @pytest.mark.parametrize(
        "settings",
        [
            {"mode": "r", "durability": "synced"},
            {"mode": "r", "flush_interval": 1},
            {"mode": "r", "checkpoint_interval": 1},
        ],
    )
    def test_contradiction(self, filled: Path, settings: dict[str, Any]) -> None:
        """Settings of a writer contradict mode r."""
        with pytest.raises(memdb.ConfigError, match="contradicts"):
            memdb.open(filled, **settings)

    @pytest.mark.parametrize(
        "settings", [{"mode": "r"}, {"mode": "append"}, {"durability": "synced"}]
    )
    def test_contradiction_in_memory(self, settings: dict[str, Any]) -> None:
        """In memory there is nothing to read, append to, or sync."""
        with pytest.raises(memdb.ConfigError, match="contradicts"):
            memdb.open(None, **settings)


class TestCollections:
    def test_same_object(self, db: memdb.Database) -> None:
        """Asking again gives the same object, settings may be left out then."""
        people = db.collection(Person, cache=5, serializer="json", cloner="fields")

        assert people is db.collection(Person)
        assert people is db.collection(Person, name="Person", cache=5, serializer="json")
        scanned = db.collection(Person, name="scanned", identity_index=False)
        assert scanned is db.collection(Person, name="scanned")

    def test_names(self, db: memdb.Database) -> None:
        """A collection is called after its class, unless told; it is in the file once used."""
        people, other = db.collection(Person), db.collection(Person, name="other people")
        assert [] == db.collections()
        other.insert(Person("a"))
        people.insert(Person("b"))
        db.collection("events").insert({})

        assert ["other people", "Person", "events"] == db.collections()
        assert ("b", "a") == (people[1].name, other[1].name)

    @pytest.mark.parametrize(
        "settings",
        [
            {"cache": 6},
            {"serializer": "msgpack"},
            {"cloner": "share"},
            {"identity_index": False},
        ],
    )
    def test_other_settings(self, db: memdb.Database, settings: dict[str, Any]) -> None:
        """Asking again with another setting is refused, and names it."""
        db.collection(Person, cache=5, serializer="json", cloner="auto", identity_index=True)
        with pytest.raises(memdb.ConfigError, match=next(iter(settings))):
            db.collection(Person, **settings)

    def test_other_class(self, db: memdb.Database) -> None:
        """A name belongs to one class."""
        db.collection(Person)
        for cls in (Holder, "Person"):
            with pytest.raises(memdb.ConfigError, match="class"):
                db.collection(cls, name="Person")  # type: ignore[call-overload]

    @pytest.mark.parametrize("name", ["", 5, b"x"])
    def test_bad_name(self, db: memdb.Database, name: Any) -> None:
        """A name is a text of at least one letter."""
        with pytest.raises(memdb.ConfigError, match="name"):
            db.collection(Person, name=name)
        with pytest.raises(memdb.MemdbError):
            db.collection(name)

    @pytest.mark.parametrize("cls", [int, dict, object, Person("a"), None, 5, list[int], Any])
    def test_no_record_class(self, db: memdb.Database, cls: Any) -> None:
        """What is no record class is refused."""
        with pytest.raises(memdb.RecordTypeError):
            db.collection(cls)

    @pytest.mark.parametrize(
        "settings",
        [
            {"cache": 0},
            {"cache": -1},
            {"cache": "some"},
            {"cache": True},
            {"serializer": "xml"},
            {"cloner": "deep"},
            {"serializer": "no.such:thing"},
            {"cloner": "no.such:thing"},
        ],
    )
    def test_bad_setting(self, db: memdb.Database, settings: dict[str, Any]) -> None:
        """A wrong setting of a collection is refused, and the collection can still be asked for."""
        with pytest.raises(memdb.ConfigError):
            db.collection(Person, **settings)
        db.collection(Person).insert(Person("a"))

    def test_typed_collection_as_dicts(self, filled: Path) -> None:
        """By its name alone a typed collection reads as dicts."""
        with memdb.open(filled, "r") as db:
            assert {"name": "Bob", "tags": ["x"], "id": 2} == db.collection("Person")[2]


class TestMaintenance:
    def test_check_of_a_whole_file(self, filled: Path) -> None:
        """check() finds nothing when all is well, open for reading or writing."""
        for mode in ("rw", "r", "append"):
            with memdb.open(filled, mode) as db:
                db.collection(Person)
                assert [] == db.check()

    def test_check_finds_rot(self, filled: Path) -> None:
        """check() lists each payload that does not match its checksum, and goes on."""
        content = bytearray(filled.read_bytes())
        for name in (b"Ann", b"Bob"):
            content[content.index(name)] ^= 1
        filled.write_bytes(content)
        with memdb.open(filled) as db:
            findings = db.check()

        assert 2 == len(findings)

    def test_check_compares_the_index(self, filled: Path) -> None:
        """check() finds an identity index that leads to another record."""
        with memdb.open(filled) as db:
            people = db.collection(Person)
            people._store.identities.set(1, 2)

            assert ["another record"] == [
                finding.message[-14:] for finding in db.check() if "Person" in finding.message
            ]

    def test_flush_and_checkpoint(self, path: Path, tmp_path: Path) -> None:
        """A checkpoint leaves nothing to walk after a crash; a flush may."""
        with memdb.open(path) as db:
            people = db.collection(Person)
            people.insert_many([Person("a"), Person("b")])
            assert 2 == db.stats().unchecked_versions
            db.flush()
            db.checkpoint()
            assert 0 == db.stats().unchecked_versions
            (tmp_path / "copy").write_bytes(path.read_bytes())
        with memdb.open(tmp_path / "copy") as db:
            assert db.recovery is not None
            assert 0 == db.recovery.replayed_versions
            assert 2 == len(db.collection(Person))

    def test_repr(self, path: Path) -> None:
        """The repr shows path and state."""
        with memdb.open(path) as db, memdb.open(None) as memory:
            assert f"<Database {path} (mode rw)>" == repr(db)
            assert "<Database memory (mode rw)>" == repr(memory)
        assert f"<Database {path} (closed)>" == repr(db)
