"""Saved indexes: in the bytes as the document says, found again, and never in the way."""

from __future__ import annotations

import errno
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import memdb
from memdb.errors import WriteError
from memdb.storage import Log, MemoryFile, OSFile, SavedIndex, _blocks
from memdb.storage._constants import MAGIC_OFFSET
from tests.support import reader
from tests.support.faulty import open_on
from tests.support.markdown import ROOT

DOCUMENT = (ROOT / "docs" / "format.md").read_text(encoding="utf-8")
META = {"kind": "sorted", "fields": ["n"], "writers": [1]}


def arrays(count: int = 5) -> dict[str, np.ndarray[Any, Any]]:
    """Return one array of each dtype."""
    return {
        "keys": np.arange(count, dtype="<i8") - 2,
        "floats": np.arange(count, dtype="<f8") / 4,
        "numbers": np.arange(1, count + 1, dtype="<u4"),
        "places": np.arange(count, dtype="<u8"),
        "flags": np.arange(count, dtype="u1"),
    }


def save(log: Log, name: str = "n", count: int = 5, collection: int = 1) -> None:
    """Save an index of everything that there is."""
    with log.lock:
        saved = log.append_index(collection, name, log.next_slot, META, arrays(count))
        log.name_indexes(collection, [saved])


def check_saved(log: Log, name: str = "n", count: int = 5) -> SavedIndex:
    """Return what a log has saved under a name, once the arrays are as they were."""
    (saved,) = [each for each in log.saved_indexes(1) if each.name == name]
    found = log.index_arrays(saved)
    assert found is not None
    assert saved.meta == META
    assert list(found) == list(arrays())
    for each, array in arrays(count).items():
        assert found[each].dtype == array.dtype
        assert found[each].tolist() == array.tolist()
        assert not found[each].flags.writeable
    return saved


def log_of(db: memdb.Database) -> Log:
    """Return the inside of a database."""
    return db._engine.log


def make(path: Path, count: int = 5) -> None:
    """Make a file with five records, and an index of them, closed."""
    with memdb.open(path) as db:
        db.collection("things").insert_many([{"n": n} for n in range(5)])
        save(log_of(db), count=count)


@pytest.mark.parametrize("count", [0, 1, 5, 40_000])
def test_comes_back(tmp_path: Path, count: int) -> None:
    """Arrays are there again at the next opening, for writers and readers, small or large."""
    make(tmp_path / "a.memdb", count)

    for mode in ("r", "rw"):
        with memdb.open(tmp_path / "a.memdb", mode) as db:  # type: ignore[arg-type]
            assert db.recovery is None
            assert check_saved(log_of(db), count=count).slot == 6
            assert log_of(db).saved_indexes(2) == []
            assert db.check() == []
            assert len(db.collection("things")) == 5


@pytest.mark.parametrize("count", [0, 5, 40_000])
def test_bytes_are_as_the_document_says(tmp_path: Path, count: int) -> None:
    """A reader written from the document finds the arrays where the catalogue says."""
    make(tmp_path / "a.memdb", count)
    data = (tmp_path / "a.memdb").read_bytes()
    contents = reader.read_by_walking(data)
    (block,) = [block for block in contents.blocks if block.kind == "I"]
    (entry,) = contents.catalogue["indexes"]

    at, expected = 8, arrays(count)
    for name, dtype, size in entry["layout"]:
        found = np.frombuffer(block.payload, dtype, size, at)
        assert found.tolist() == expected.pop(name).tolist()
        at = (at + found.nbytes + 7) // 8 * 8
    assert not expected
    assert at == len(block.payload)
    assert block.pointers == []
    assert (entry["collection"], entry["name"], entry["slot"]) == (1, "n", 6)
    assert entry["offset"] == block.offset
    assert reader.read_by_checkpoints(data).records(data) == contents.records(data)


def test_entry_has_the_keys_of_the_document(tmp_path: Path) -> None:
    """Example and table of the document name what is written, and nothing else."""
    make(tmp_path / "a.memdb")
    contents = reader.read_by_walking((tmp_path / "a.memdb").read_bytes())
    (entry,) = contents.catalogue["indexes"]
    section = DOCUMENT.partition("\n### Index (`I`)\n")[2].partition("\n### ")[0]
    example = json.loads(section.partition("```json")[2].partition("```")[0])

    assert list(example) == list(entry)
    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == list(entry)


def test_lies_before_the_checkpoint(tmp_path: Path) -> None:
    """A memdb that knows no such blocks reads a file that was closed, and forgets them."""
    path = tmp_path / "a.memdb"
    make(path)
    known = tuple(magic for magic in _blocks.MAGICS if magic != b"MDBI")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_blocks, "MAGICS", known)
        with memdb.open(path) as db:
            things = db.collection("things")
            assert things.ids() == [1, 2, 3, 4, 5]
            things.insert({"n": 5})
            log = log_of(db)
            # As that one wrote catalogues.
            log.catalogue.pop("indexes")
            db.collection("others").insert({})

    with memdb.open(path) as db:
        assert log_of(db).saved_indexes(1) == []
        assert len(db.collection("things")) == 6
        assert db.check() == []


def test_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    """One of the same name replaces it, others stay, and one can be forgotten."""
    make(tmp_path / "a.memdb")
    with memdb.open(tmp_path / "a.memdb") as db:
        log = log_of(db)
        save(log, "other")
        db.collection("things").insert({"n": 6})
        save(log, count=6)
        assert [(each.name, each.slot) for each in log.saved_indexes(1)] == [("other", 6), ("n", 7)]
        check_saved(log, "other")
        check_saved(log, count=6)
        with log.lock:
            log.name_indexes(1, [], ["n", "no such"])
            end = log.end
            log.name_indexes(1, [], ["n"])
        assert log.end == end

    with memdb.open(tmp_path / "a.memdb") as db:
        check_saved(log_of(db), "other")
        assert len(log_of(db).saved_indexes(1)) == 1
        assert db.check() == []


def test_stays_when_the_catalogue_changes(tmp_path: Path) -> None:
    """A new collection writes a new catalogue, which knows the index all the same."""
    make(tmp_path / "a.memdb")
    with memdb.open(tmp_path / "a.memdb") as db:
        db.collection("others").insert({"m": 1})
        check_saved(log_of(db))

    with memdb.open(tmp_path / "a.memdb") as db:
        check_saved(log_of(db))
        assert db.collections() == ["things", "others"]


def test_arrays_outlive_the_log(tmp_path: Path) -> None:
    """Whoever still holds an array may read it after the database is closed."""
    make(tmp_path / "a.memdb")
    with memdb.open(tmp_path / "a.memdb") as db:
        found = log_of(db).index_arrays(check_saved(log_of(db)))

    assert found is not None
    assert found["keys"].tolist() == arrays()["keys"].tolist()


@pytest.mark.parametrize("count", [5, 40_000])
def test_is_found_after_a_kill(tmp_path: Path, count: int) -> None:
    """Behind the last checkpoint the walk goes over it, and what follows it is there."""
    path, copy = tmp_path / "a.memdb", tmp_path / "b.memdb"
    with memdb.open(path, flush_interval=1000) as db:
        things = db.collection("things")
        things.insert_many([{"n": n} for n in range(5)])
        save(log_of(db), count=count)
        things.insert({"n": 5})
        copy.write_bytes(path.read_bytes())

    with memdb.open(copy) as db:
        assert db.recovery is not None
        assert db.recovery.replayed_versions == 6
        assert len(db.collection("things")) == 6
        check_saved(log_of(db), count=count)
        assert db.check() == []


def test_cut_anywhere(tmp_path: Path) -> None:
    """Torn in the middle of it, the records before it and an earlier index are there."""
    path, copy = tmp_path / "a.memdb", tmp_path / "b.memdb"
    make(path)
    with memdb.open(path, flush_interval=1000) as db:
        db.collection("things").insert({"n": 5})
        start = log_of(db).end
        save(log_of(db), count=9)
        end = log_of(db).end
        data = path.read_bytes()

    for cut in range(start, end + 1, 8):
        copy.write_bytes(data[:cut])
        with memdb.open(copy) as db:
            assert len(db.collection("things")) == 6
            check_saved(log_of(db), count=9 if cut == end else 5)
            assert db.check() == []
        for torn in tmp_path.glob("*.torn-*"):
            torn.unlink()


def test_damage_is_told_and_does_no_harm(tmp_path: Path) -> None:
    """Each flipped bit of the block leaves the index unused, the file open, and a finding."""
    path = tmp_path / "a.memdb"
    make(path)
    whole = path.read_bytes()
    with memdb.open(path, "r") as db:
        saved = check_saved(log_of(db))
    (block,) = [each for each in reader.read_by_walking(whole).blocks if each.kind == "I"]
    stop = block.offset + 40 + len(block.payload)

    for offset in range(saved.offset, stop, 7):
        data = bytearray(whole)
        data[offset] ^= 4
        path.write_bytes(data)
        with memdb.open(path, "r") as db:
            assert log_of(db).index_arrays(saved) is None
            assert len(db.collection("things")) == 5
            assert db.check() != []


@pytest.mark.parametrize("change", ["offset", "layout", "slot"])
def test_an_entry_that_leads_elsewhere(change: str) -> None:
    """What the catalogue says wrongly of an index is found, and never read."""
    with open_on(MemoryFile()) as db:
        db.collection("things").insert_many([{"n": n} for n in range(5)])
        log = log_of(db)
        save(log)
        entry = dict(log.catalogue["indexes"][0])
        changed = {"offset": entry["offset"] + 8, "layout": entry["layout"][1:], "slot": 7}
        entry[change] = changed[change]
        with log.lock:
            log.write_catalogue({**log.catalogue, "indexes": [entry]})
        found = [log.index_arrays(saved) for saved in log.saved_indexes(1)]

        assert found == ([] if change == "slot" else [None])
        assert [finding.offset for finding in db.check()] == [entry["offset"]]


@pytest.mark.parametrize(
    "entry",
    [
        {"collection": 9},
        {"collection": "1"},
        {"name": ""},
        {"slot": 0},
        {"offset": -8},
        {"layout": [["keys", "|O8", 1]]},
        {"layout": [["keys", "<i8", -1]]},
        {"layout": [["keys"]]},
        {"meta": None},
    ],
)
def test_a_wrong_entry_is_damage(tmp_path: Path, entry: dict[str, Any]) -> None:
    """An entry of another structure makes the catalogue one that memdb does not write."""
    path = tmp_path / "a.memdb"
    with memdb.open(path) as db:
        db.collection("things").insert({"n": 1})
        save(log_of(db))
        log = log_of(db)
        right = log.catalogue["indexes"][0]
        with log.lock:
            log.write_catalogue({**log.catalogue, "indexes": [right | entry]})

    with pytest.raises(memdb.DamageError):
        memdb.open(path)


def test_arrays_that_are_refused() -> None:
    """Only the dtypes of the document, and one dimension; nothing is written then."""
    with open_on(MemoryFile()) as db:
        db.collection("things").insert({"n": 1})
        log = log_of(db)
        end = log.end
        for wrong in (np.array(["a"]), np.zeros((2, 2)), np.array([True]), np.array([None])):
            with log.lock, pytest.raises(ValueError, match="an array of"):
                log.append_index(1, "n", 1, {}, {"keys": wrong})
        with log.lock:
            found_index = log.append_index(1, "n", 1, {}, {"keys": np.array([1, 258], ">i8")})
            log.name_indexes(1, [found_index])
        (saved,) = log.saved_indexes(1)
        found = log.index_arrays(saved)

        assert end < saved.offset + 1
        assert found is not None
        assert found["keys"].tolist() == [1, 258]


@pytest.mark.parametrize("count", [50, 40_000])
def test_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """On a full disk the index that was saved before stays, and writing goes on after."""
    path = tmp_path / "a.memdb"
    make(path)
    with memdb.open(path) as db:
        log = log_of(db)

        def refuse(*args: Any) -> None:
            raise OSError(errno.ENOSPC, "full")

        with monkeypatch.context() as patch:
            patch.setattr(OSFile, "reserve", refuse)
            patch.setattr(OSFile, "write", refuse)
            with pytest.raises(WriteError):
                save(log, count=count)
        check_saved(log)
        db.collection("things").insert({"n": 5})

    with memdb.open(path) as db:
        check_saved(log_of(db))
        assert len(db.collection("things")) == 6
        assert db.check() == []


def test_a_record_that_looks_like_one(tmp_path: Path) -> None:
    """Bytes in a record that begin as an index block are none."""
    path = tmp_path / "a.memdb"
    make(path)
    data = path.read_bytes()
    (block,) = [each for each in reader.read_by_walking(data).blocks if each.kind == "I"]
    copied = data[block.offset : block.end]
    assert copied[MAGIC_OFFSET : MAGIC_OFFSET + 4] == b"MDBI"
    with memdb.open(path) as db:
        db.collection("things").insert({"n": copied})

    with memdb.open(path) as db:
        assert db.collection("things")[6] == {"n": copied, "id": 6}
        check_saved(log_of(db))
        assert db.check() == []
