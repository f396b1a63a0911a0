"""Changing the key of a file, killed at each step (F3); and what its key slots may hold."""

from __future__ import annotations

import errno
import random
import struct
from pathlib import Path
from typing import Any

import pytest
import xxhash

import memdb
from memdb import WrongKeyError
from memdb.storage import _key_slots
from tests.support import sealed
from tests.support.disk import Content, Disk
from tests.support.faulty import FaultyFile, open_on

OLD: dict[str, Any] = {"key": bytes(range(32))}
NEW: dict[str, Any] = {"password": "the new one"}
SLOTS = (2560, 3072)


@pytest.fixture(autouse=True)
def quick_scrypt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Derive keys from passwords in no time."""
    monkeypatch.setattr(_key_slots, "SCRYPT_N", 2)


def make(path: Path) -> None:
    """Make a database with one record."""
    with memdb.open(path, **OLD) as db:
        db.collection("notes").insert({"n": 1})


def opening(path: Path, mode: Any = "r") -> list[str]:
    """Return which of the two opens a file with its record."""
    found = []
    for name, settings in (("old", OLD), ("new", NEW)):
        try:
            with memdb.open(path, mode, **settings) as db:
                assert [{"n": 1, "id": 1}] == list(db.collection("notes"))
                assert [] == db.check()
        except WrongKeyError:
            continue
        found.append(name)
    return found


def left(path: Path, content: Content) -> None:
    """Put what a disk holds into the place of a database."""
    path.parent.mkdir(exist_ok=True)
    (name,) = content
    path.write_bytes(content[name])


def test_f3_killed_at_each_step(tmp_path: Path) -> None:
    """Until success the old or the new one opens the file, at least one; afterwards only the new.

    The same of power losses, with sectors that are torn.
    """
    folder, path = tmp_path / "disk", tmp_path / "left" / "a.memdb"
    folder.mkdir()
    make(folder / "a.memdb")
    chance, stages = random.Random(3), {"stage": "before"}
    disk = Disk(folder, lambda: stages["stage"])
    with memdb.open(folder / "a.memdb", **OLD) as db, disk:
        db.rekey(**NEW)
        stages["stage"] = "after"
        disk.note("success")
    seen = []
    for before, moment in zip(disk.moments, disk.moments[1:], strict=False):
        contents = [moment.content(), moment.torn(before, chance)]
        contents += [moment.after_power_loss(chance) for _ in range(30)]
        for content in contents:
            left(path, content)
            found = opening(path)
            seen.append(tuple(found))
            assert found, moment.call
            assert moment.mark == "before" or found == ["new"]

    assert {("old",), ("old", "new"), ("new",)} == set(seen)
    assert ["new"] == opening(folder / "a.memdb")


def test_f3_who_opens_by_the_new_one_wipes_the_old(tmp_path: Path) -> None:
    """A change that was cut short between its two steps is carried through, killed or not."""
    folder, path = tmp_path / "disk", tmp_path / "left" / "a.memdb"
    folder.mkdir()
    make(folder / "a.memdb")
    with memdb.open(folder / "a.memdb", **OLD) as db, Disk(folder) as disk:
        db.rekey(**NEW)
    both = [
        content
        for content in (moment.content() for moment in disk.moments)
        if len(sealed.read_slots(content["a.memdb"])) == 2
    ]
    assert both
    left(path, both[0])
    assert ["old", "new"] == opening(path)
    with memdb.open(path, **OLD):
        pass
    assert ["old", "new"] == opening(path), "who comes with the old one leaves both"
    with Disk(path.parent) as disk, memdb.open(path, **NEW):
        pass
    assert ["new"] == opening(path)
    for moment in disk.moments:
        left(tmp_path / "again" / "a.memdb", moment.content())
        assert "new" in opening(tmp_path / "again" / "a.memdb")


@pytest.fixture
def with_both(tmp_path: Path) -> Path:
    """A file that was left between the two steps of a change, so that both keys open it."""
    folder, path = tmp_path / "disk", tmp_path / "left" / "a.memdb"
    folder.mkdir()
    make(folder / "a.memdb")
    with memdb.open(folder / "a.memdb", **OLD) as db, Disk(folder) as disk:
        db.rekey(**NEW)
    contents = [moment.content() for moment in disk.moments]
    left(path, next(each for each in contents if len(sealed.read_slots(each["a.memdb"])) == 2))
    return path


@pytest.mark.parametrize("durability", ["written", "buffered"])
def test_f3_whoever_has_a_file_with_two_keys_hears_of_it(with_both: Path, durability: Any) -> None:
    """A reader and who opens by the old one, until the next change; who finishes it is told."""
    changing = [
        memdb.open(with_both, "r", **OLD),
        memdb.open(with_both, "r", **NEW),
        memdb.open(with_both, durability=durability, **OLD),
    ]
    names = [db.health().names for db in changing]
    recoveries = [db.recovery for db in changing]
    changing[-1].rekey(**OLD)
    later = [db.health().names for db in changing]
    for db in changing:
        db.close()

    assert [("two_keys",)] * 3 == names
    assert [None] * 3 == recoveries
    assert [()] * 3 == later
    assert ["old"] == opening(with_both)


def test_f3_who_opens_by_the_new_one_is_told_that_the_old_one_is_gone(with_both: Path) -> None:
    """The opening that finishes a change says so, once, and all is well then."""
    with memdb.open(with_both, "r", **OLD) as reader:
        with memdb.open(with_both, **NEW) as db:
            found = db.recovery, db.health(), reader.health()
        with memdb.open(with_both, **NEW) as db:
            later = db.recovery, db.health()

    assert found[0] is not None
    assert (True, True, 0, None) == (
        found[0].finished_rekey,
        found[0].was_clean,
        found[0].cut_bytes,
        found[0].kept_in,
    )
    assert (memdb.Health(), memdb.Health()) == found[1:]
    assert (None, memdb.Health()) == later


def test_f3_copies_and_compaction_of_a_file_with_two_keys(with_both: Path) -> None:
    """A snapshot opens by both, as the file; a compacted file by the one that it was opened by."""
    copy = with_both.with_name("copy.memdb")
    with memdb.open(with_both, **OLD) as db:
        db.snapshot(copy)
        db.compact()
        names = db.health().names

    assert () == names
    assert (["old"], ["old", "new"]) == (opening(with_both), opening(copy))


def test_f3_a_second_change_after_one_that_was_cut_short(tmp_path: Path) -> None:
    """Whoever opened by the old one can change it again; only the newest opens then."""
    folder, path = tmp_path / "disk", tmp_path / "left" / "a.memdb"
    folder.mkdir()
    make(folder / "a.memdb")
    with memdb.open(folder / "a.memdb", **OLD) as db, Disk(folder) as disk:
        db.rekey(**NEW)
    both = [
        content
        for content in (moment.content() for moment in disk.moments)
        if len(sealed.read_slots(content["a.memdb"])) == 2
    ]
    for opened_by in (OLD, NEW):
        left(path, both[0])
        with memdb.open(path, **opened_by) as db:
            db.rekey(key=b"3" * 32)
        assert [] == opening(path)
        with memdb.open(path, key=b"3" * 32) as db:
            assert 1 == len(db.collection("notes"))


@pytest.mark.parametrize(
    ("method", "number"), [("write", 1), ("sync", 1), ("write", 2), ("sync", 2)]
)
def test_f3_a_disk_that_refuses(tmp_path: Path, method: str, number: int) -> None:
    """The call raises, nothing more is written by the handle, and one of the two opens the file."""
    path = tmp_path / "a.memdb"
    make(path)
    file = FaultyFile(str(path))
    db = open_on(file, **OLD)
    file.fail(method, number, errno.EIO)
    with pytest.raises(memdb.FailedError):
        db.rekey(**NEW)
    with pytest.raises(memdb.FailedError):
        db.collection("notes").insert({"n": 2})
    assert {"n": 1, "id": 1} == db.collection("notes")[1]
    file.heal()
    db.close()
    found = opening(path)

    assert found == {"write1": ["old"], "sync1": ["old", "new"], "write2": ["old", "new"]}.get(
        f"{method}{number}", ["new"]
    )


def test_f3_an_interrupt_leaves_one_that_opens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C behind the first step: the handle goes on, and the change can be made again."""
    path = tmp_path / "a.memdb"
    make(path)
    with memdb.open(path, **OLD) as db:
        with monkeypatch.context() as patch:

            def interrupted(*arguments: object) -> None:
                raise KeyboardInterrupt

            patch.setattr(_key_slots, "wipe", interrupted)
            with pytest.raises(KeyboardInterrupt):
                db.rekey(**NEW)
        assert ["old", "new"] == opening(path)
        assert ("two_keys",) == db.health().names
        db.rekey(key=b"3" * 32)
        assert db.health().is_well
    assert [] == opening(path)
    with memdb.open(path, key=b"3" * 32) as db:
        assert 1 == len(db.collection("notes"))


# -- slots -----------------------------------------------------------------------------------


def changed_slot(path: Path, at: int, form: str, value: Any) -> None:
    """Change a field of the first key slot, with a checksum that is right."""
    data = bytearray(path.read_bytes())
    struct.pack_into(form, data, SLOTS[0] + at, value)
    data[SLOTS[0] : SLOTS[0] + 8] = xxhash.xxh3_64_digest(bytes(data[SLOTS[0] + 8 :][:184]))
    path.write_bytes(data)


def test_no_whole_slot_is_damage(tmp_path: Path) -> None:
    """A damaged slot is told from a wrong key."""
    path = tmp_path / "a.memdb"
    make(path)
    for at in (0, 8, 100, 191):
        whole = path.read_bytes()
        data = bytearray(whole)
        data[SLOTS[0] + at] ^= 1
        path.write_bytes(data)
        with pytest.raises(memdb.DamageError, match="key slot") as caught:
            memdb.open(path, **OLD)
        assert SLOTS[0] == caught.value.offset
        path.write_bytes(whole)


@pytest.mark.parametrize(
    ("at", "form", "value"),
    [
        (12, "<I", 3),
        (12, "<I", 0),
        (24, "<Q", 2**16),
        (32, "<I", 8),
        (36, "<I", 1),
    ],
)
def test_derivations_that_are_unknown(tmp_path: Path, at: int, form: str, value: int) -> None:
    """What a newer memdb may write is refused as such, before anything is calculated."""
    path = tmp_path / "a.memdb"
    make(path)
    changed_slot(path, at, form, value)
    with pytest.raises(memdb.UnsupportedFormatError, match="derived"):
        memdb.open(path, **OLD)


@pytest.mark.parametrize(
    ("at", "form", "value"),
    [
        (24, "<Q", 0),
        (24, "<Q", 3),
        (24, "<Q", 2**40),
        (32, "<I", 0),
        (32, "<I", 2**30),
        (36, "<I", 0),
        (36, "<I", 2**20),
    ],
)
def test_costs_that_would_take_all_memory(tmp_path: Path, at: int, form: str, value: int) -> None:
    """A file can't make the opening take any amount of memory or time."""
    path = tmp_path / "a.memdb"
    memdb.open(path, **NEW).close()
    changed_slot(path, at, form, value)
    with pytest.raises(memdb.UnsupportedFormatError, match="derived"):
        memdb.open(path, **NEW)


@pytest.mark.parametrize(("at", "form"), [(16, "<Q"), (48, "<B"), (80, "<B"), (92, "<B")])
def test_other_fields_are_authenticated(tmp_path: Path, at: int, form: str) -> None:
    """Generation, salt, nonce and wrapped key: changed, no key opens the file."""
    path = tmp_path / "a.memdb"
    make(path)
    changed_slot(path, at, form, 2 if at == 16 else path.read_bytes()[SLOTS[0] + at] ^ 1)
    with pytest.raises(WrongKeyError):
        memdb.open(path, **OLD)


def test_a_slot_of_another_file(tmp_path: Path) -> None:
    """The file's id is authenticated: a slot of another file with the same key opens nothing."""
    one, two = tmp_path / "one", tmp_path / "two"
    make(one)
    make(two)
    data, other = bytearray(one.read_bytes()), two.read_bytes()
    data[SLOTS[0] : SLOTS[0] + 192] = other[SLOTS[0] : SLOTS[0] + 192]
    one.write_bytes(data)
    with pytest.raises(WrongKeyError):
        memdb.open(one, **OLD)


def test_the_wiped_slot_is_zeros(tmp_path: Path) -> None:
    """Nothing of the old slot is left in the file."""
    path = tmp_path / "a.memdb"
    make(path)
    old = path.read_bytes()[SLOTS[0] : SLOTS[0] + 192]
    with memdb.open(path, **OLD) as db:
        db.rekey(**NEW)
    data = path.read_bytes()

    assert bytes(512) == data[SLOTS[0] : SLOTS[0] + 512]
    assert old[48:140] not in data
    assert [SLOTS[1]] == [slot.offset for slot in sealed.read_slots(data)]


# -- making a file (A10) ---------------------------------------------------------------------


def test_a10_an_encrypted_file_stopped_at_each_step_of_its_making(tmp_path: Path) -> None:
    """It opens as an empty one for whoever makes it again, with this key or another or none."""
    folder, path = tmp_path / "disk", tmp_path / "left" / "a.memdb"
    folder.mkdir()
    path.parent.mkdir()
    with Disk(folder) as disk:
        memdb.open(folder / "a.memdb", **OLD).close()
    chance, seen = random.Random(5), set()
    for before, moment in zip(disk.moments, disk.moments[1:], strict=False):
        contents = [moment.content(), moment.torn(before, chance)]
        contents += [moment.after_power_loss(chance) for _ in range(20)]
        for content in contents:
            for settings in (OLD, NEW, {}):
                path.unlink(missing_ok=True)
                if content:
                    left(path, content)
                try:
                    with memdb.open(path, **settings) as db:
                        assert [] == db.collections() and [] == db.check()
                        db.collection("notes").insert({"n": 1})
                except WrongKeyError:
                    # It was whole already.
                    assert settings != OLD
                    seen.add("whole")
                    continue
                seen.add("made anew" if settings != OLD else "opened")
                with memdb.open(path, **settings) as db:
                    assert 1 == len(db.collection("notes"))
                page = path.read_bytes()[:4096]
                assert settings or not any(page[2304:])

    assert {"whole", "made anew", "opened"} == seen
