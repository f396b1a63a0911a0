"""Saved indexes: taken from the file where they fit, built anew where not, and never wrong."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, make_dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import memdb
from memdb import ColumnIndex, F, HashIndex, SetIndex, SortedIndex, _saved_indexes
from memdb._index_set import IndexSet
from memdb.indexes import ABSENT, ColumnEntries, SortedEntries
from memdb.indexes._saved import Saved, from_saved, is_known, to_saved
from memdb.storage import OSFile
from tests.support.concurrently import run_all, switching_often, until
from tests.support.faulty import drop
from tests.support.own_serializer import PATH
from tests.support.reader import read_by_walking

LEAST = 10
DAY = date(2020, 1, 1)
LOCAL = datetime(2020, 1, 1, 12)


@pytest.fixture(autouse=True)
def built(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Save small indexes too; return the names of those that were built from the records."""
    names: list[str] = []
    build = IndexSet._build

    def noted(self: IndexSet, bound: Any, snapshot: Any) -> Any:
        names.append(bound.name)
        return build(self, bound, snapshot)

    monkeypatch.setattr(IndexSet, "_build", noted)
    monkeypatch.setattr(_saved_indexes, "_LEAST_ENTRIES", LEAST)
    monkeypatch.setattr(_saved_indexes, "_LEAST_CHANGES", 4)
    return names


@dataclass
class Part:
    """A record with a number."""

    n: int
    name: str = ""
    id: int = 0


BOTH = (SortedIndex("n"), ColumnIndex("n", name="column"))


def parts_of(db: memdb.Database, *indexes: Any) -> Any:
    """Return the collection of parts with indexes, both kinds unless told."""
    return db.collection(Part, indexes=indexes or BOTH)


def use(collection: Any) -> dict[str, list[tuple[Any, int]]]:
    """Use every index; return name -> keys and numbers, by number."""
    indexes = collection._store.indexes
    names = list(collection.indexes)
    entries = {name: indexes.catch_up([name]).entries[name] for name in names}
    return {name: sorted(each.items(), key=lambda item: item[1]) for name, each in entries.items()}


def check(collection: Any) -> None:
    """Use every index, and compare with the records."""
    records = list(collection)
    for name, pairs in use(collection).items():
        (path,) = collection.indexes[name].paths
        values = [
            record.get(path[0], ABSENT) if isinstance(record, dict) else getattr(record, path[0])
            for record in records
        ]
        assert repr([key for key, _ in pairs]) == repr(values)
        assert [number for _, number in pairs] == sorted(collection._store.identities)


def make(path: Path, count: int = 20, indexes: Any = BOTH) -> None:
    """Make a file with records and saved indexes."""
    with memdb.open(path) as db:
        parts = parts_of(db, *indexes)
        parts.insert_many([Part(7 * n % 10) for n in range(count)])
        use(parts)


def saved_names(path: Path) -> list[str]:
    """Return the names of the saved indexes in a file."""
    catalogue = read_by_walking(path.read_bytes()).catalogue
    return sorted(entry["name"] for entry in catalogue.get("indexes", []))


VALUES: dict[str, Callable[[int], Any]] = {
    "int": lambda n: n * n % 7 - 3,
    "large ints": lambda n: (-1) ** n * 2**62 + n,
    "float": lambda n: n % 5 / 4,
    "float with odd ones": lambda n: [1.5, float("nan"), -0.0, 0.0, float("-inf")][n % 5],
    "bool": lambda n: n % 3 == 0,
    "date": lambda n: [date.min, date.max, DAY][n % 3],
    "datetime": lambda n: [datetime.min, datetime.max, LOCAL + timedelta(microseconds=n)][n % 3],
    "moment": lambda n: (LOCAL + timedelta(days=n % 4)).replace(tzinfo=UTC),
    "int or None": lambda n: None if n % 3 else n,
    "date or None": lambda n: None if n % 3 else DAY + timedelta(n),
}


@pytest.mark.parametrize("index", [SortedIndex("v"), ColumnIndex("v")])
@pytest.mark.parametrize("kind", VALUES)
def test_comes_back(tmp_path: Path, built: list[str], kind: str, index: Any) -> None:
    """Values of each kind that is saved come back as they were, in every mode."""
    path, value = tmp_path / "a.memdb", VALUES[kind]
    with memdb.open(path) as db:
        records = db.collection("records", indexes=[index])
        records.insert_many([{"v": value(n)} if n % 7 else {} for n in range(40)])
        use(records)
    assert built == ["v"]

    for mode in ("r", "append", "rw"):
        with memdb.open(path, mode) as db:  # type: ignore[arg-type]
            records = db.collection("records", indexes=[index])
            check(records)
            assert built == ["v"]
            assert db.check() == []
        built[:] = ["v"]


@pytest.mark.parametrize("index", [SortedIndex("v"), ColumnIndex("v")])
@pytest.mark.parametrize("count", [1, 30, 300])
def test_catches_up(tmp_path: Path, built: list[str], count: int, index: Any) -> None:
    """What was inserted, changed and deleted since is taken in, little or much of it."""
    path = tmp_path / "a.memdb"
    with memdb.open(path) as db:
        records = db.collection("records", indexes=[index])
        records.insert_many([{"v": n} for n in range(1000)])
        use(records)
    with memdb.open(path) as db:
        records = db.collection("records", indexes=[index])
        for n in range(count // 3):
            records.update(3 * n + 1, v=-n)
            records.delete(3 * n + 2)
        records.insert_many([{"v": None if n % 2 else 5} for n in range(count // 3 + 1)])
    with memdb.open(path) as db:
        records = db.collection("records", indexes=[index])
        check(records)
        assert built == ["v"]
        records.insert_many([{"v": n} for n in range(50)])
        records.update(1000, v=-5)
        check(records)
        assert db.check() == []


def test_is_built_after_very_much_has_changed(tmp_path: Path, built: list[str]) -> None:
    """Where building is cheaper than catching up, it is built."""
    make(tmp_path / "a.memdb", 100)
    with memdb.open(tmp_path / "a.memdb") as db:
        parts = parts_of(db)
        for n in range(1, 90):
            parts.update(n, n=-n)
    built.clear()
    with memdb.open(tmp_path / "a.memdb") as db:
        check(parts_of(db))
        assert built == ["n", "column"]


def test_queries_use_it(tmp_path: Path, built: list[str]) -> None:
    """Ranges, order, sums and changes are right over arrays that lie in the file."""
    path = tmp_path / "a.memdb"
    make(path, 2000)
    built.clear()
    for _ in range(2):
        with memdb.open(path) as db:
            parts = parts_of(db)
            numbers = [part.n for part in parts]
            assert parts.where(F.n.between(2, 4)).count() == sum(2 <= n <= 4 for n in numbers)
            assert parts.where(F.n > 3).sum(F.n) == sum(n for n in numbers if n > 3)
            assert [part.n for part in parts.where().order_by("-n").limit(9)] == sorted(numbers)[
                :-10:-1
            ]
            assert parts.where(F.n == 3).update(n=30) == numbers.count(3)
            assert parts.where(F.n == 30).delete() == numbers.count(3) + numbers.count(30)
            parts.insert_many([Part(3) for _ in range(100)])
            check(parts)
    assert built == []


def test_natural_keys(tmp_path: Path, built: list[str]) -> None:
    """Numbers of natural keys do not fit into 4 bytes, and come back all the same."""
    for session in range(3):
        with memdb.open(tmp_path / "a.memdb") as db:
            parts = db.collection("parts", key="name", indexes=BOTH)
            parts.put({"name": f"only in {session}", "n": session})
            parts.insert_many(
                [{"name": f"{session} {n}", "n": n % 4} for n in range(0 if session else 50)]
            )
            found = use(parts)
            assert sorted(key for key, _ in found["n"]) == sorted(each["n"] for each in parts)
            assert found["n"] == found["column"]
            assert db.check() == []
        assert built[:2] == ["n", "column"]
    entries = read_by_walking((tmp_path / "a.memdb").read_bytes()).catalogue["indexes"]
    assert {tuple(dtype for _, dtype, _ in each["layout"]) for each in entries} == {
        ("<i8", "<i8"),
        ("<i8", "<i8", "|u1"),
    }


# -- what is not saved ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "index",
    [
        HashIndex("n"),
        SortedIndex("name"),
        SortedIndex("-n"),
        SortedIndex("n", "name"),
        SortedIndex("n", where=F.n > -1),
        SortedIndex(lambda part: part.n, name="function"),
        SetIndex(lambda part: [part.n], name="set"),
        HashIndex("id", name="one"),
    ],
)
def test_others_are_not_saved(tmp_path: Path, index: Any) -> None:
    """Only one field that rises, with numbers or dates, without functions and conditions."""
    make(tmp_path / "a.memdb", indexes=[index])

    assert saved_names(tmp_path / "a.memdb") == []


@pytest.mark.parametrize(
    "value",
    [
        lambda n: n if n else 2**63,
        lambda n: n if n else "text",
        lambda n: str(n),
        lambda n: LOCAL.replace(tzinfo=timezone(timedelta(hours=1))),
        lambda n: LOCAL.replace(fold=n % 2),
        lambda n: None,
    ],
)
def test_values_that_are_not_saved(tmp_path: Path, value: Callable[[int], Any]) -> None:
    """Values that are no plain numbers or dates are not saved, and nothing is lost by it."""
    for _ in range(2):
        with memdb.open(tmp_path / "a.memdb") as db:
            records = db.collection("records", indexes=[SortedIndex("v")])
            records.insert_many([{"v": value(n)} for n in range(20)])
            check(records)
            if len(records) > 20:
                records.update(1, v="other")
                use(records)
    assert saved_names(tmp_path / "a.memdb") == []


def test_small_or_unused_ones_are_not_saved(tmp_path: Path) -> None:
    """Below the limit building is as cheap; what nobody has used is not built for saving."""
    make(tmp_path / "a.memdb", LEAST - 1)
    with memdb.open(tmp_path / "b.memdb") as db:
        parts_of(db).insert_many([Part(n) for n in range(20)])

    assert saved_names(tmp_path / "a.memdb") == saved_names(tmp_path / "b.memdb") == []


def test_a_serializer_of_the_users(tmp_path: Path, built: list[str]) -> None:
    """Its code may read other values next time, so that nothing is saved."""
    for _ in range(2):
        built.clear()
        with memdb.open(tmp_path / "a.memdb", serializer=PATH) as db:
            parts = parts_of(db)
            parts.insert_many([Part(n) for n in range(20)])
            check(parts)
            assert built == ["n", "column"]
    assert saved_names(tmp_path / "a.memdb") == []


def test_in_memory() -> None:
    """Without a file there is nothing to save to."""
    with memdb.open(None) as db:
        parts = parts_of(db)
        parts.insert_many([Part(n) for n in range(20)])
        use(parts)
        db.checkpoint()

        assert "indexes" not in db._engine.log.catalogue


def test_a_reader_changes_nothing(tmp_path: Path, built: list[str]) -> None:
    """A reader builds what it needs and leaves the file alone."""
    path = tmp_path / "a.memdb"
    with memdb.open(path) as db:
        parts_of(db).insert_many([Part(n) for n in range(20)])
    before = path.read_bytes()
    with memdb.open(path, "r") as db:
        check(parts_of(db))
        assert built == ["n", "column"]

    assert path.read_bytes() == before


# -- when it is written --------------------------------------------------------------------------


def test_is_written_again_once_much_has_changed(tmp_path: Path) -> None:
    """A few changes leave the saved index as it is; a quarter of the records has it written."""
    path = tmp_path / "a.memdb"
    make(path, 40)
    slots = []
    for count in (0, 5, 4, 1, 0):
        with memdb.open(path) as db:
            parts = parts_of(db)
            for n in range(1, count + 1):
                parts.update(n, n=parts[n].n + 1)
            check(parts)
        entries = read_by_walking(path.read_bytes()).catalogue["indexes"]
        slots.append({entry["slot"] for entry in entries})

    assert slots == [{41}, {41}, {41}, {51}, {51}]


def test_an_unchanged_file_stays_as_it_is(tmp_path: Path) -> None:
    """Using saved indexes writes nothing."""
    path = tmp_path / "a.memdb"
    make(path)
    before = path.read_bytes()
    with memdb.open(path) as db:
        check(parts_of(db))
        db.checkpoint()

    assert path.read_bytes()[12288:] == before[12288:]


def test_lies_before_the_last_checkpoint(tmp_path: Path) -> None:
    """Also where nothing but indexes was written: opening reads no index block."""
    path = tmp_path / "a.memdb"
    with memdb.open(path) as db:
        parts_of(db).insert_many([Part(n) for n in range(20)])
    for index in BOTH:
        with memdb.open(path) as db:
            use(parts_of(db, index))
    contents = read_by_walking(path.read_bytes())
    kinds = "".join(block.kind for block in contents.blocks)

    assert kinds == "KCPIKPIKP"
    assert contents.root.checkpoint == contents.blocks[-1].offset
    with memdb.open(path) as db:
        check(parts_of(db))
        assert db.recovery is None
        assert db.check() == []


@pytest.mark.parametrize("is_killed", [False, True])
def test_checkpoint_saves(tmp_path: Path, built: list[str], is_killed: bool) -> None:
    """A checkpoint that is asked for saves indexes, which a killed program leaves behind."""
    db = memdb.open(tmp_path / "a.memdb", flush_interval=86_400)
    parts = parts_of(db)
    parts.insert_many([Part(n) for n in range(20)])
    use(parts)
    db.checkpoint()
    parts.insert(Part(100))
    if is_killed:
        drop(db)
    else:
        db.close()
    built.clear()
    with memdb.open(tmp_path / "a.memdb") as db:
        check(parts_of(db))
        assert built == []
        assert (db.recovery is not None) is is_killed


def test_only_what_is_committed(tmp_path: Path, built: list[str]) -> None:
    """A transaction that is open while indexes are saved leaves no trace in them."""
    path = tmp_path / "a.memdb"
    make(path)
    with memdb.open(path) as db:
        parts = parts_of(db)
        for n in range(1, 16):
            parts.update(n, n=-n)
        use(parts)
        with pytest.raises(memdb.ClosedError), db.transaction():
            parts.insert(Part(1000))
            parts.delete(1)
            assert parts.where(F.n == 1000).count() == 1
            db.checkpoint()
            parts.update(2, n=2000)
            db.close()
    built.clear()
    with memdb.open(path) as db:
        parts = parts_of(db)
        assert [part.n for part in parts][:2] == [-1, -2]
        check(parts)
        assert built == []
        assert db.check() == []


def test_while_a_key_function_runs(tmp_path: Path) -> None:
    """A key function that asks for a checkpoint gets one, without indexes in between two states."""
    with memdb.open(tmp_path / "a.memdb") as db:

        def key(part: Part) -> int:
            db.checkpoint()
            return part.n

        parts = parts_of(db, SortedIndex("n"), HashIndex(key, name="function"))
        parts.insert_many([Part(n) for n in range(20)])
        use(parts)
        parts.update(1, n=50)
        assert parts.where(F.n == 50).ids() == [1]
        use(parts)

    assert saved_names(tmp_path / "a.memdb") == ["n"]


def test_beside_writers_and_queries(tmp_path: Path) -> None:
    """Checkpoints while others write and ask save indexes of states that there were."""
    path = tmp_path / "a.memdb"
    make(path, 100)
    with memdb.open(path) as db:
        parts = parts_of(db)
        is_over = threading.Event()

        def write() -> None:
            for n in range(1, 101):
                parts.update(n, n=n + 1000)
                parts.insert_many([Part(n) for _ in range(5)])
            is_over.set()

        def ask() -> None:
            old, new = F.n < 1000, F.n >= 1000
            assert parts.where(old).count() >= 0
            assert parts.where(new).sum(F.n) >= 0

        with switching_often():
            run_all(write, until(is_over, ask), until(is_over, db.checkpoint))
        check(parts)
    with memdb.open(path) as db:
        check(parts_of(db))
        assert db.check() == []
    blocks = read_by_walking(path.read_bytes()).blocks
    assert sum(block.kind == "I" for block in blocks) > 2


@pytest.mark.parametrize("is_lasting", [True, False])
def test_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_lasting: bool) -> None:
    """Without room for it the index is not saved, and nothing else is different."""
    path = tmp_path / "a.memdb"
    make(path)
    with memdb.open(path) as db:
        parts = parts_of(db)
        for n in range(1, 16):
            parts.update(n, n=-n)
        use(parts)
        append = db._engine.log._append_block
        left = [1]

        def refuse(magic: bytes, *rest: Any) -> int:
            if magic != b"MDBP" and (is_lasting or left.pop()):
                left.append(0)
                raise memdb.WriteError("full", path=path, errno=errno.ENOSPC)
            return append(magic, *rest)

        monkeypatch.setattr(type(db._engine.log), "_append_block", staticmethod(refuse))
        db.close()
        monkeypatch.undo()

    with memdb.open(path) as db:
        check(parts_of(db))
        assert db.recovery is None
        assert {each.slot for each in db._engine.log.saved_indexes(1)} == {21}


def test_after_a_failed_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is saved any more, and close() says what it always says."""
    path = tmp_path / "a.memdb"
    make(path)
    before = len(path.read_bytes())
    db = memdb.open(path)
    parts = parts_of(db)
    for n in range(1, 16):
        parts.update(n, n=-n)
    use(parts)
    monkeypatch.setattr(OSFile, "sync", lambda self: (_ for _ in ()).throw(OSError(5, "bad")))
    with pytest.raises(memdb.FailedError):
        db.flush()
    db.close()
    monkeypatch.undo()

    assert db.is_closed
    assert path.read_bytes()[before:].count(b"MDBI") == 0


# -- what does not fit ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "index",
    [
        SortedIndex("m", name="n"),
        ColumnIndex("n"),
        SortedIndex("n", unique=True),
        SortedIndex("-n", name="n"),
        SortedIndex("n", where=F.n > 1),
        SortedIndex(lambda record: record["n"], name="n"),
        SortedIndex("n", "m", name="n"),
        HashIndex("n"),
    ],
)
def test_another_declaration(tmp_path: Path, built: list[str], index: Any) -> None:
    """Under the name of a saved index another one is built, and it does not become the first."""
    path = tmp_path / "a.memdb"
    rows = [{"n": n, "m": -n} for n in range(20)]
    for session, each in enumerate((SortedIndex("n"), index, SortedIndex("n"))):
        with memdb.open(path) as db:
            records = db.collection("records", indexes=[each])
            if not len(records):
                records.insert_many(rows)
            assert records.where(F.n > 5).count() == 14
            found = records._store.indexes.catch_up(["n"]).entries["n"]
            if session != 1:
                assert [key for key, _ in found.items()] == list(range(20))
            else:
                assert built[:2] == ["n", "n"]
            if session == 0:
                assert built == ["n"]
            assert db.check() == []
            built[1:] = []


def evolved(**fields: Any) -> Any:
    """Return a later form of the class of parts."""
    return make_dataclass(
        "Part", [*[(name, each) for name, each in fields.items()], ("id", int, 0)]
    )


def test_another_form_of_the_class(tmp_path: Path, built: list[str]) -> None:
    """Once the class makes other values of the same bytes, nothing that was saved is used."""
    path = tmp_path / "a.memdb"
    make(path)
    built.clear()
    later = evolved(n=int, more=str)
    settings: dict[str, Any] = {
        "name": "Part",
        "indexes": BOTH,
        "upgrade": lambda record: record | {"n": record["n"] + 100, "more": ""},
    }
    with memdb.open(path) as db:
        parts = db.collection(later, **settings)
        check(parts)
        assert parts.where(F.n >= 100).count() == 20
        assert built == ["n", "column"]
        assert db.check() == []
    # Not saved: another program may upgrade in another way.
    with memdb.open(path) as db:
        settings["upgrade"] = lambda record: record | {"n": record["n"] + 200, "more": ""}
        parts = db.collection(later, **settings)
        assert parts.where(F.n >= 200).count() == 20
        db.migrate()
        check(parts)
    built.clear()
    with memdb.open(path) as db:
        parts = db.collection(later, **settings)
        assert parts.where(F.n >= 200).count() == 20
        check(parts)
        assert built == []


def test_read_as_dicts(tmp_path: Path, built: list[str]) -> None:
    """Read as plain dicts, the records of a class get indexes of their own."""
    make(tmp_path / "a.memdb")
    built.clear()
    with memdb.open(tmp_path / "a.memdb") as db:
        check(db.collection("Part", indexes=BOTH))
        assert built == ["n", "column"]


def test_dropped_and_renamed(tmp_path: Path, built: list[str]) -> None:
    """A dropped index is forgotten by the file, a renamed one saved under its new name."""
    path = tmp_path / "a.memdb"
    make(path)
    with memdb.open(path) as db:
        parts = parts_of(db)
        use(parts)
        parts.indexes.rename("n", "other")
        parts.indexes.drop("column")
        use(parts)
    assert saved_names(path) == ["other"]
    built.clear()
    with memdb.open(path) as db:
        check(parts_of(db, SortedIndex("n", name="other")))
        assert built == []


def test_not_declared_any_more(tmp_path: Path, built: list[str]) -> None:
    """A program that does not know a saved index leaves it where it is, for one that does."""
    path = tmp_path / "a.memdb"
    make(path)
    with memdb.open(path) as db:
        parts = db.collection(Part)
        parts.insert(Part(5))
    built.clear()
    with memdb.open(path) as db:
        check(parts_of(db))
        assert built == []


# -- what is wrong -------------------------------------------------------------------------------


def test_damage(tmp_path: Path, built: list[str]) -> None:
    """A flipped bit has the index built from the records; check() tells."""
    path = tmp_path / "a.memdb"
    make(path)
    whole = path.read_bytes()
    (block, *_) = [each for each in read_by_walking(whole).blocks if each.kind == "I"]
    for offset in range(block.offset, block.end, 16):
        data = bytearray(whole)
        data[offset] ^= 8
        path.write_bytes(data)
        built.clear()
        with memdb.open(path) as db:
            findings = db.check()
            check(parts_of(db))
            assert built in (["n"], ["n", "n"])
            assert len(findings) > 0
            assert parts_of(db).where(F.n > 3).count() == 12


Change = Callable[[dict[str, Any], dict[str, Any]], None]


def set_item(name: str, place: int, value: Any) -> Change:
    """Return a change of one item of an array."""

    def change(arrays: dict[str, Any], meta: dict[str, Any]) -> None:
        arrays[name] = arrays[name].copy()
        arrays[name][place] = value

    return change


def set_fact(name: str, value: Any) -> Change:
    """Return a change of a fact."""
    return lambda arrays, meta: meta.update({name: value})


def set_array(name: str, make_array: Callable[[Any], Any]) -> Change:
    """Return a change of an array."""
    return lambda arrays, meta: arrays.update({name: make_array(arrays[name])})


def rewritten(path: Path, name: str, change: Change) -> None:
    """Write a saved index again, with a change and a right checksum."""
    with memdb.open(path) as db:
        log = db._engine.log
        (saved,) = [each for each in log.saved_indexes(1) if each.name == name]
        arrays = log.index_arrays(saved)
        assert arrays is not None
        meta = dict(saved.meta)
        change(arrays, meta)
        with log.lock:
            log.name_indexes(1, [log.append_index(1, name, saved.slot, meta, arrays)])


WRONG: list[tuple[str, Change]] = [
    ("n", set_item("numbers", 0, 21)),
    ("n", set_item("numbers", 0, 2)),
    ("n", set_item("keys", 0, 50)),
    ("n", set_array("numbers", lambda array: array[::-1].copy())),
    ("n", set_array("numbers", lambda array: array[:-1])),
    ("n", set_array("keys", lambda array: array[:0])),
    ("n", set_array("keys", lambda array: array.astype("<f8"))),
    ("n", set_array("numbers", lambda array: array.astype("<f8"))),
    ("n", set_fact("absent", 1)),
    ("n", set_fact("absent", -1)),
    ("n", set_fact("none", "2")),
    ("n", set_fact("keys_are", "float")),
    ("n", set_fact("keys_are", "date")),
    ("column", set_item("numbers", 19, 30)),
    ("column", set_item("states", 3, 0)),
    ("column", set_item("states", 3, 4)),
    ("column", set_array("states", lambda array: array[:-1])),
    ("column", set_array("values", lambda array: array.astype("<u4"))),
    ("column", set_array("numbers", lambda array: array[::-1].copy())),
    ("column", set_fact("mixed", 1)),
    ("column", set_fact("values_are", "bool")),
]


@pytest.mark.parametrize(("name", "change"), WRONG)
def test_what_can_not_be_true(tmp_path: Path, built: list[str], name: str, change: Change) -> None:
    """Arrays with a right checksum that no memdb writes are built anew, and found by check()."""
    path = tmp_path / "a.memdb"
    make(path)
    rewritten(path, name, change)
    built.clear()
    with memdb.open(path) as db:
        parts = parts_of(db)
        check(parts)
        assert built == [name]
        assert [finding.message for finding in db.check()] == [
            f"Part: the index {name!r} is not as its records say"
        ]


@pytest.mark.parametrize("name", ["n", "column"])
def test_keys_that_are_not_those_of_the_records(tmp_path: Path, name: str) -> None:
    """Keys that could be true and are not are found by check(), used or not."""
    path = tmp_path / "a.memdb"
    make(path)
    array = "keys" if name == "n" else "values"
    rewritten(path, name, set_item(array, 19 if name == "n" else 3, 60))
    for is_used in (True, False):
        with memdb.open(path) as db:
            parts = parts_of(db)
            if is_used:
                use(parts)
            assert [finding.message for finding in db.check()] == [
                f"Part: the index {name!r} is not as its records say"
            ]


@pytest.mark.parametrize(
    "change",
    [
        set_fact("keys_are", "complex"),
        set_fact("keys_are", ["int"]),
        set_fact("more", 1),
        set_fact("writers", [1, 2]),
        set_fact("writers", None),
        set_fact("declaration", None),
        lambda arrays, meta: arrays.update(more=np.zeros(1, "<i8")),
        lambda arrays, meta: meta.clear(),
    ],
)
def test_what_another_memdb_may_have_saved(
    tmp_path: Path, built: list[str], change: Change
) -> None:
    """What this one does not know it neither uses nor complains of."""
    path = tmp_path / "a.memdb"
    make(path)
    rewritten(path, "n", change)
    built.clear()
    with memdb.open(path) as db:
        check(parts_of(db))
        assert built == ["n"]
        assert db.check() == []


# -- entries as arrays ---------------------------------------------------------------------------


def arrays_of(entries: Any, kind: str) -> Saved:
    """Return entries as they come back out of a file."""
    saved = to_saved(entries)
    assert saved is not None
    arrays = {}
    for name, array in saved.arrays.items():
        arrays[name] = np.frombuffer(array.tobytes(), array.dtype)
        assert not arrays[name].flags.writeable
    assert is_known(kind, saved.facts, arrays)
    return Saved(arrays, saved.facts)


def changed_entries(kind: str, value: Callable[[int], Any]) -> Any:
    """Return entries with holes, changes and numbers that came out of order."""
    cls: Any = SortedEntries if kind == "sorted" else ColumnEntries
    entries = cls.build([value(n) for n in range(200)], range(1, 401, 2))
    for n in range(1, 400, 7):
        entries.remove(n)
        entries.set(n + 3, value(n))
    for n in (500, 450, 2**40 if kind == "sorted" else 460):
        entries.set(n, value(n % 9))
    return entries


@pytest.mark.parametrize("kind", ["sorted", "column"])
@pytest.mark.parametrize("values", VALUES)
def test_entries_come_back(kind: str, values: str) -> None:
    """Entries with changes are the same out of arrays, and so after further changes."""
    value = VALUES[values]
    entries = changed_entries(kind, value)
    again = from_saved(kind, arrays_of(entries, kind))
    assert again is not None

    def content(each: Any) -> str:
        return repr(sorted(each.items(), key=lambda item: item[1]))

    assert content(entries) == content(again)
    for n in range(0, 300, 5):
        for each in (entries, again):
            each.set(n + 1, value(n + 1))
            each.remove(n + 2)
    for each in (entries, again):
        each.set_many([value(n) for n in range(50)], range(700, 750))
    assert sorted(n for _, n in entries.items()) == sorted(n for _, n in again.items())
    assert len(entries) == len(again)


def test_ints_among_floats_are_told() -> None:
    """A column of floats that had ints knows it after it was saved, too."""
    entries = ColumnEntries.build([1, 2.5], [1, 2])
    again = from_saved("column", arrays_of(entries, "column"))

    assert isinstance(again, ColumnEntries)
    assert again.is_mixed
    assert not ColumnEntries.build([1.0, 2.5], [1, 2]).is_mixed


def test_what_can_not_be_saved() -> None:
    """Entries of texts, of several fields, or that hold not every value have no arrays."""
    sorted_ones: Iterator[Any] = iter(
        [
            SortedEntries.build(["a"], [1]),
            SortedEntries.build([(1, 2)], [1], (1, 1)),
            SortedEntries.build([1], [1], (-1,)),
            SortedEntries.build([1, 2.5], [1, 2]),
            SortedEntries.build([], []),
        ]
    )
    column = ColumnEntries.build([1], [1])
    column.set(1, "a")
    mixed = SortedEntries.build([1], [1])
    mixed.set(2, "a")

    assert [to_saved(each) for each in (*sorted_ones, column, mixed, ColumnEntries())] == [None] * 8
