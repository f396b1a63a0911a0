"""Encrypted files beside the document: what stands where, and what an older memdb says of one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import memdb
from memdb.storage import _key_slots
from memdb.storage._constants import ENCRYPTED_FORMAT_VERSION, FORMAT_VERSION
from tests.support import reader, sealed
from tests.support.make_golden import DATA, KEY, PASSWORD

SECRETS: list[Any] = [KEY, PASSWORD]


@pytest.fixture(autouse=True)
def quick_scrypt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Derive keys from passwords in no time."""
    monkeypatch.setattr(_key_slots, "SCRYPT_N", 2)


def settings_for(secret: Any) -> dict[str, Any]:
    """Return the setting that gives a secret."""
    return {"key" if isinstance(secret, bytes) else "password": secret}


@pytest.mark.parametrize("secret", SECRETS, ids=["key", "password"])
@pytest.mark.parametrize("read", [reader.read_by_walking, reader.read_by_checkpoints])
def test_the_reader_opens_what_memdb_writes(tmp_path: Path, secret: Any, read: Any) -> None:
    """Records, natural keys and the catalogue, after a change of the key too."""
    path = tmp_path / "a.memdb"
    with memdb.open(path, key=bytes(32), encrypt="marked") as db:
        notes, users = db.collection("notes"), db.collection("users", key="name")
        notes.insert({"n": 1}, encrypt=True)
        notes.insert({"n": 2})
        users.insert_many([{"name": "a"}, {"name": "b", "x": 1}], encrypt=True)
        notes.delete(2)
        notes.update(1, n=3)
        db.rekey(**settings_for(secret))
    data = path.read_bytes()
    contents = read(data, secret)
    found = contents.records(data)

    assert {1: {"n": 3, "id": 1}} == found["notes"]
    assert [{"name": "a"}, {"name": "b", "x": 1}] == sorted(found["users"].values(), key=str)
    assert [3, 1, 3, 3, 1, 3] == [pointer.flags | 1 for pointer in contents.versions]
    with pytest.raises(ValueError, match="no key slot opens"):
        read(data, bytes(32) if isinstance(secret, bytes) else "another")


def test_only_encrypted_files_have_the_new_version(tmp_path: Path) -> None:
    """A plain file stays one that every memdb reads."""
    for settings, version in (({}, FORMAT_VERSION), ({"key": KEY}, ENCRYPTED_FORMAT_VERSION)):
        path = tmp_path / f"{version}.memdb"
        with memdb.open(path, **settings) as db:
            db.collection("notes").insert({"n": 1})
        page = path.read_bytes()[:4096]

        assert version.to_bytes(4, "little") == page[8:12]
        assert bool(settings) == any(page[2560:])
        assert not any(page[64:2048]) and not any(page[2304:2560])


def test_a_file_that_all_are_encrypted_in_has_no_plain_record(tmp_path: Path) -> None:
    """The flag is set for all versions but deletions."""
    path = tmp_path / "a.memdb"
    with memdb.open(path, key=KEY) as db:
        notes = db.collection("notes")
        notes.insert_many([{"n": n} for n in range(3)])
        notes.insert({"n": 4})
        with db.transaction():
            notes.delete(1)
            notes.update(2, n=5)
        notes.clear()
    data = path.read_bytes()
    contents = reader.read_by_walking(data, KEY)

    assert {(1, 2), (2, 2), (3, 0)} == {
        (pointer.kind, pointer.flags & 2) for pointer in contents.versions
    }
    assert [0] == [slot.flags for slot in sealed.read_slots(data)]


def test_scrypt_costs_what_it_should(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guessing a password takes 128 MiB and 2^17 blocks each time."""
    monkeypatch.undo()

    assert (2**17, 8, 1) == (_key_slots.SCRYPT_N, _key_slots.SCRYPT_R, _key_slots.SCRYPT_P)


@pytest.mark.slow
def test_a_password_with_the_real_costs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The costs stand in the slot, and open it."""
    monkeypatch.undo()
    path = tmp_path / "a.memdb"
    memdb.open(path, password=PASSWORD).close()
    (slot,) = sealed.read_slots(path.read_bytes())

    assert (2, 2**17, 8, 1) == (slot.derivation, slot.n, slot.r, slot.p)
    with memdb.open(path, password=PASSWORD) as db:
        assert [] == db.check()
    with pytest.raises(memdb.WrongKeyError):
        memdb.open(path, password=PASSWORD[1:])


def test_golden_files_open_only_by_their_keys() -> None:
    """What an earlier memdb has encrypted is refused to others."""
    for path in DATA.glob("v2-*.memdb"):
        for wrong in ({}, {"key": KEY[::-1]}, {"password": PASSWORD[::-1]}):
            with pytest.raises(memdb.WrongKeyError):
                memdb.open(path, "r", **wrong)  # type: ignore[arg-type]
