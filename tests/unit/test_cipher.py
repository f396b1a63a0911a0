"""What seals and opens: no nonce occurs twice with a key, and what was changed opens not."""

from __future__ import annotations

import itertools
import os
import random
import struct
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xxhash

import memdb
from memdb.storage import Keys, Log, MemoryFile, OSFile, Secret, empty_pointers, pointer_end
from memdb.storage import _cipher as cipher_module
from memdb.storage import _log as log_module
from memdb.storage._cipher import Cipher
from memdb.storage._constants import (
    CATALOGUE_MAGIC,
    COMMIT_MAGIC,
    INDEX_MAGIC,
    POINTER_SEALED,
    Kind,
)
from tests.support import reader
from tests.support.faulty import FaultyFile, drop, open_on

KEY = bytes(range(32))


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[tuple[bytes, bytes]]]:
    """How often each pair of key and nonce was used to encrypt in this test."""
    found: Counter[tuple[bytes, bytes]] = Counter()

    class Counting:
        def __init__(self, key: bytes) -> None:
            self._key = key
            self._real = cipher_module.AESGCM.__wrapped__(key)  # type: ignore[attr-defined]

        def encrypt(self, nonce: bytes, content: bytes, associated: bytes) -> bytes:
            found[self._key, nonce] += 1
            return bytes(self._real.encrypt(nonce, content, associated))

        def decrypt(self, nonce: bytes, content: bytes, associated: bytes) -> bytes:
            return bytes(self._real.decrypt(nonce, content, associated))

    Counting.__wrapped__ = cipher_module.AESGCM  # type: ignore[attr-defined]
    monkeypatch.setattr(cipher_module, "AESGCM", Counting)
    yield found
    assert found
    assert max(found.values()) == 1


def keys() -> Keys:
    """Return keys for a new file or one that was made with the same."""
    return Keys(Secret("key", KEY))


# -- nonces ----------------------------------------------------------------------------------


def test_no_nonce_twice_in_plain_use(tmp_path: Path, used: Counter[tuple[bytes, bytes]]) -> None:
    """Single records, batches, transactions, catalogues, several openings."""
    for _ in range(3):
        with memdb.open(tmp_path / "a.memdb", key=KEY) as db:
            notes = db.collection("notes")
            first = notes.insert({"n": 1})
            notes.insert_many([{"n": n} for n in range(5)])
            with db.transaction():
                notes.update(first, n=2)
                notes.insert({"n": 3})
            notes.delete(first)
            db.collection(f"more {len(notes)}").insert({"n": 1})


def test_no_nonce_twice_after_a_crash(tmp_path: Path, used: Counter[tuple[bytes, bytes]]) -> None:
    """Slots that a crash took back are given again, in another session."""
    path = tmp_path / "a.memdb"
    memdb.open(path, key=KEY).close()
    slots = []
    for attempt in range(4):
        before = path.read_bytes()
        file = OSFile(str(path), write=True)
        db = open_on(file, key=KEY)
        notes = db.collection("notes")
        notes.insert({"attempt": attempt})
        notes.insert_many([{"attempt": attempt}] * 3)
        slots.append(db._engine.log.next_slot)
        drop(db)
        # As if nothing of it had reached the disk.
        path.write_bytes(before)
    assert len(set(slots)) == 1


def test_no_nonce_twice_in_copies(tmp_path: Path, used: Counter[tuple[bytes, bytes]]) -> None:
    """Two copies of a file that go their own ways share no session."""
    path, copy = tmp_path / "a.memdb", tmp_path / "b.memdb"
    with memdb.open(path, key=KEY) as db:
        db.collection("notes").insert({"n": 1})
    copy.write_bytes(path.read_bytes())
    for each in (path, copy):
        with memdb.open(each, key=KEY) as db:
            db.collection("notes").insert({"n": each.name})


@pytest.mark.parametrize("method", ["write", "reserve", "map"])
def test_no_nonce_twice_after_a_failed_write(
    tmp_path: Path,
    used: Counter[tuple[bytes, bytes]],
    monkeypatch: pytest.MonkeyPatch,
    method: str,
) -> None:
    """A slot whose append failed is sealed anew in another session, small or large."""
    monkeypatch.setattr(log_module, "_WORTH_A_WRITE_BYTES", 5_000)
    file = FaultyFile(str(tmp_path / "a.memdb"))
    db = open_on(file, key=KEY)
    notes = db.collection("notes")
    notes.insert({"n": 1})
    failures = 0
    for number in range(40):
        file.fail(method)
        try:
            notes.insert({"n": number, "text": "x" * 1000 * (number % 3)})
            notes.insert_many([{"n": number, "text": "y" * 400}] * (1 + 15 * (number % 2)))
            db.collection(f"collection {number}").insert({"n": 1})
        except memdb.WriteError:
            failures += 1
        file.heal()
    assert failures > 3
    assert [] == db.check()
    db.close()
    with memdb.open(tmp_path / "a.memdb", key=KEY) as db:
        assert [] == db.check()


class _Interrupt(BaseException):
    pass


@pytest.mark.parametrize("size", [1, 5])
def test_no_nonce_twice_after_an_interrupt(
    tmp_path: Path,
    used: Counter[tuple[bytes, bytes]],
    monkeypatch: pytest.MonkeyPatch,
    size: int,
) -> None:
    """An append that an interrupt stopped behind the sealing leaves its slot to another one."""
    log = Log(OSFile(str(tmp_path / "a.memdb"), write=True), keys=keys())
    end = pointer_end(1, 1, Kind.INSERTED, POINTER_SEALED)
    pointers = empty_pointers(size)
    pointers["identity"] = range(1, size + 1)
    pointers["collection"] = pointers["writer"] = pointers["kind"] = 1
    pointers["flags"] = POINTER_SEALED

    def append(content: bytes) -> None:
        with log.lock:
            if size == 1:
                log.append_one(1, content, end)
            else:
                log.append_batch(pointers.copy(), [content] * size)

    append(b"first")

    def stopped(*arguments: Any) -> bytes:
        raise _Interrupt

    with monkeypatch.context() as patch:
        patch.setattr(log_module, "checksum64" if size == 1 else "pack_block", stopped)
        with pytest.raises(_Interrupt):
            append(b"second")
    append(b"third")

    assert b"third" == log.read(log.next_slot - 1)[3]
    log.close()


def test_one_session_for_each_opening(tmp_path: Path) -> None:
    """All that one opening seals names the same session, and each opening another one."""
    path = tmp_path / "a.memdb"
    sessions = []
    for _ in range(3):
        with memdb.open(path, key=KEY) as db:
            start = db._engine.log.end
            db.collection("notes").insert({"n": 1})
            db.collection("notes").insert_many([{"n": 1}] * 3)
        data = path.read_bytes()
        blocks = [each for each in reader.read_by_walking(data, KEY).blocks if each.offset >= start]
        names = {each.payload[8:16] for each in blocks if each.kind == "K"}
        for block in blocks:
            for pointer in block.pointers if block.kind == "C" else ():
                names.add(reader.payload_of(data, pointer)[:8])
        sessions.append(names)

    assert [1, 1, 1] == [len(names) for names in sessions]
    assert 3 == len(set.union(*sessions))


def test_numbers_that_come_again_begin_a_session() -> None:
    """The rule by itself: whatever is not above the last number is sealed in a new session."""
    cipher = Cipher(bytes(32), 5, is_marked=False)
    pointers = empty_pointers(2)
    pointers["flags"] = POINTER_SEALED
    names = []
    for slot in (1, 3, 5, 6, 8, 8, 1):
        names.append(cipher.seal_many(slot, pointers, [b"a", b"b"])[0][:8])
    names += [cipher.seal_block(CATALOGUE_MAGIC, n, b"")[:8] for n in (1, 2, 2, 1)]
    changed = [old != new for old, new in itertools.pairwise(names)]

    assert [False, False, True, False, True, True] == changed[:6]
    assert [False, False, True, True] == changed[6:]


# -- what opens ------------------------------------------------------------------------------


def sealed_pair() -> tuple[Cipher, bytes, bytes]:
    """Return a cipher, a pointer, and bytes sealed for it in slot 7."""
    cipher = Cipher(bytes(32), 5, is_marked=False)
    pointers = empty_pointers(1)
    pointers[0] = (42, 9, 9, 9, 3, 4, 1, POINTER_SEALED, 0)
    (stored,) = cipher.seal_many(7, pointers, [b"content"])
    return cipher, pointers.tobytes(), stored


def test_what_is_authenticated() -> None:
    """Each bit of the bytes, of identity, collection, writer, kind and flags, slot and file."""
    cipher, pointer, stored = sealed_pair()
    assert b"content" == cipher.open_one(7, pointer, stored)
    for bit in range(8 * len(stored)):
        changed = bytearray(stored)
        changed[bit // 8] ^= 1 << bit % 8
        assert cipher.open_one(7, pointer, bytes(changed)) is None
    for bit in [*range(64), *range(8 * 24, 8 * 32)]:
        other = bytearray(pointer)
        other[bit // 8] ^= 1 << bit % 8
        assert cipher.open_one(7, bytes(other), stored) is None
    for slot in (6, 8, 7 + 2**32):
        assert cipher.open_one(slot, pointer, stored) is None
    for other_cipher in (
        Cipher(bytes(32), 6, is_marked=False),
        Cipher(bytes(31) + b"\1", 5, is_marked=False),
    ):
        assert other_cipher.open_one(7, pointer, stored) is None


@pytest.mark.parametrize("size", [0, 1, 23])
def test_what_is_too_short_opens_not(size: int) -> None:
    """Fewer bytes than session and tag are none that were sealed."""
    cipher, pointer, stored = sealed_pair()
    assert cipher.open_one(7, pointer, stored[:size]) is None
    assert cipher.open_block(INDEX_MAGIC, 1, stored[:size]) is None


@pytest.mark.parametrize("is_marked", [False, True])
def test_plain_records(is_marked: bool) -> None:
    """They are legal only in a file that was made for them."""
    cipher = Cipher(bytes(32), 5, is_marked=is_marked)
    pointers = empty_pointers(3)
    pointers["flags"] = [0, POINTER_SEALED, 0]
    stored = cipher.seal_many(1, pointers, [b"open", b"hush", b""])
    pointers["length"] = list(map(len, stored))
    one = cipher.open_one(1, pointers[:1].tobytes(), stored[0])
    many = cipher.open_many(np.arange(1, 4), pointers, stored)

    assert stored[0] == b"open" and stored[2] == b"" and b"hush" not in stored[1]
    assert one == (b"open" if is_marked else None)
    assert many == ([b"open", b"hush", b""] if is_marked else None)


def test_domains_are_apart() -> None:
    """A record, a catalogue and an index of the same number do not open as each other."""
    cipher = Cipher(bytes(32), 5, is_marked=False)
    for magic in (CATALOGUE_MAGIC, INDEX_MAGIC, COMMIT_MAGIC):
        sealed = cipher.seal_block(magic, 3, b"body")
        opened = {
            other: cipher.open_block(other, 3, sealed)
            for other in (CATALOGUE_MAGIC, INDEX_MAGIC, COMMIT_MAGIC)
        }
        assert {other for other, body in opened.items() if body is not None} == {magic}


def test_empty_records_are_sealed_too(tmp_path: Path) -> None:
    """A record without bytes is not told from others, and comes back empty."""
    log = Log(MemoryFile(), keys=keys())
    with log.lock:
        slot = log.append_one(1, b"", pointer_end(1, 1, Kind.INSERTED, POINTER_SEALED))
        log.append_one(1, b"", pointer_end(1, 0, Kind.DELETED))
    assert (1, 1, 1, b"") == log.read(slot)
    assert 24 == int(log.pointers(slot, slot + 1)["length"][0])
    assert (1, 0, 3, b"") == log.read(slot + 1)
    (part,) = log.payloads(np.array([slot, slot + 1]))
    assert [b"", b""] == part.payloads


def test_too_large_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """What AES-GCM does not take at once is refused, and nothing is changed."""
    monkeypatch.setattr(log_module, "MAX_SEALED_BYTES", 1000)
    with open_on(MemoryFile(), key=KEY) as db:
        notes = db.collection("notes")
        notes.insert({"n": 1})
        cipher: Any = db._engine.log._state.cipher
        name, encrypt = cipher.session

        def limited(nonce: bytes, content: bytes, associated: bytes) -> bytes:
            if len(content) > 1000:
                raise OverflowError
            return bytes(encrypt(nonce, content, associated))

        cipher.session = name, limited
        for insert in (notes.insert, lambda record: notes.insert_many([record])):
            with pytest.raises(memdb.WriteError, match="larger than the 1000"):
                insert({"text": "x" * 3000})
        assert len(notes) == 1
        notes.insert({"n": 2})
        assert [] == db.check()


# -- tampering -------------------------------------------------------------------------------


def checksummed(data: bytearray, block: reader.Block, file_id: int) -> None:
    """Make the checksum of a block right again, as somebody does who knows the format."""
    start = block.offset
    stop = start + 40 + 32 * len(block.pointers)
    data[start : start + 8] = xxhash.xxh3_64_digest(bytes(data[start + 8 : stop]), file_id)


def two_notes(path: Path) -> tuple[bytearray, list[reader.Block], int]:
    """Make a file of two records of one size; return its bytes, their commits, and its id.

    It is left as a kill leaves it, so that no checkpoint has the pointers.
    """
    file = OSFile(str(path), write=True)
    db = open_on(file, key=KEY)
    notes = db.collection("notes")
    notes.insert({"n": 1})
    notes.insert({"n": 2})
    drop(db)
    data = bytearray(path.read_bytes())
    contents = reader.read_by_walking(bytes(data), KEY)
    blocks = [block for block in contents.blocks if block.kind == "C"]
    return data, blocks, contents.file_id


def found_in(path: Path, data: bytearray) -> list[Any]:
    """Write a file, read both records, and demand that the rest is told by `check`."""
    path.write_bytes(data)
    found: list[Any] = []
    with memdb.open(path, "r", key=KEY) as db:
        notes = db.collection("notes")
        for identity in (1, 2):
            try:
                found.append(notes.get(identity))
            except memdb.DamageError as error:
                assert "authentication" in str(error) and error.offset
                found.append("tampered")
        findings = [finding for finding in db.check() if "authentication" in finding.message]
        assert len(findings) == found.count("tampered")
        if "tampered" in found:
            with pytest.raises(memdb.DamageError, match="authentication"):
                list(notes)
            with pytest.raises(memdb.DamageError, match="authentication"):
                db._engine.log.payloads(np.array([1, 2])).__next__()
    return found


def test_f2_swapped_ciphertexts_are_found(tmp_path: Path) -> None:
    """The bytes of two records in each other's place, with checksums that are right."""
    data, (one, two), file_id = two_notes(tmp_path / "a.memdb")
    first, second = one.pointers[0], two.pointers[0]
    assert first.length == second.length
    pieces = [bytes(data[each.offset : each.offset + each.length]) for each in (first, second)]
    for pointer, block, piece in zip((first, second), (one, two), pieces[::-1], strict=True):
        data[pointer.offset : pointer.offset + pointer.length] = piece
        struct.pack_into("<I", data, block.offset + 40 + 20, xxhash.xxh32_intdigest(piece))
        checksummed(data, block, file_id)

    assert ["tampered", "tampered"] == found_in(tmp_path / "b.memdb", data)


def test_f2_flipped_ciphertext_is_found(tmp_path: Path) -> None:
    """One bit of one record, with checksums that are right."""
    data, (one, _), file_id = two_notes(tmp_path / "a.memdb")
    pointer = one.pointers[0]
    data[pointer.offset + 10] ^= 4
    piece = bytes(data[pointer.offset : pointer.offset + pointer.length])
    struct.pack_into("<I", data, one.offset + 40 + 20, xxhash.xxh32_intdigest(piece))
    checksummed(data, one, file_id)

    assert ["tampered", {"n": 2, "id": 2}] == found_in(tmp_path / "b.memdb", data)


def test_f2_a_record_under_another_identity_is_found(tmp_path: Path) -> None:
    """A pointer that says that the second record is the first one's new state."""
    data, (_, two), file_id = two_notes(tmp_path / "a.memdb")
    struct.pack_into("<q", data, two.offset + 40, 1)
    checksummed(data, two, file_id)

    assert ["tampered", None] == found_in(tmp_path / "b.memdb", data)


def test_f2_a_plain_record_that_somebody_puts_in_is_found(tmp_path: Path) -> None:
    """Whoever has no key can't add records to a file in which all are encrypted."""
    data, (_, two), file_id = two_notes(tmp_path / "a.memdb")
    pointer = two.pointers[0]
    forged = b"\xc1" * pointer.length
    data[pointer.offset : pointer.offset + pointer.length] = forged
    struct.pack_into("<I", data, two.offset + 40 + 20, xxhash.xxh32_intdigest(forged))
    data[two.offset + 40 + 29] = 1
    checksummed(data, two, file_id)

    assert [{"n": 1, "id": 1}, "tampered"] == found_in(tmp_path / "b.memdb", data)


def test_f2_a_changed_catalogue_is_found(tmp_path: Path) -> None:
    """A bit of the catalogue, with a checksum that is right: opening refuses."""
    data, _, file_id = two_notes(tmp_path / "a.memdb")
    blocks = reader.read_by_walking(bytes(data), KEY).blocks
    (catalogue,) = [block for block in blocks if block.kind == "K"]
    start = catalogue.offset + 40
    data[start + 30] ^= 1
    body = bytes(data[start + 8 : start + len(catalogue.payload)])
    data[start : start + 8] = xxhash.xxh3_64_digest(body, file_id)
    (tmp_path / "b.memdb").write_bytes(data)
    for mode in ("rw", "r"):
        with pytest.raises(memdb.DamageError, match="encrypted") as caught:
            memdb.open(tmp_path / "b.memdb", mode, key=KEY)  # type: ignore[arg-type]
        assert catalogue.offset == caught.value.offset


def test_f2_the_flag_of_the_key_slot_is_authenticated(tmp_path: Path) -> None:
    """So nobody can make a file one that may have plain records."""
    path = tmp_path / "a.memdb"
    memdb.open(path, key=KEY).close()
    data = bytearray(path.read_bytes())
    data[2560 + 40] ^= 1
    data[2560:2568] = xxhash.xxh3_64_digest(bytes(data[2568 : 2560 + 192]), 0)
    path.write_bytes(data)
    with pytest.raises(memdb.WrongKeyError):
        memdb.open(path, key=KEY)


def test_another_boot_id_and_urandom(monkeypatch: pytest.MonkeyPatch) -> None:
    """Data key, salt and sessions are all of the system's source of randomness."""
    sizes: list[int] = []
    real = os.urandom

    def counted(size: int) -> bytes:
        sizes.append(size)
        return real(size)

    monkeypatch.setattr(os, "urandom", counted)
    Log(MemoryFile(), keys=keys()).close()

    # File id, salt, data key, nonce of the wrapping, session.
    assert [8, 32, 32, 12, 8] == sizes


def test_a_reader_whose_database_is_closed_meanwhile(tmp_path: Path) -> None:
    """It gets the error for a closed database wherever in the reading that happens."""
    path = tmp_path / "a.memdb"
    with memdb.open(path, key=KEY, cache="none") as db:
        notes = db.collection("notes")
        for number in range(20):
            notes.insert({"n": number})
    for _ in range(30):
        db = memdb.open(path, key=KEY, cache="none")
        notes = db.collection("notes")
        closing = threading.Thread(target=db.close)
        with pytest.raises(memdb.ClosedError):
            closing.start()
            while True:
                for number in range(20):
                    assert {"n": number, "id": number + 1} == notes[number + 1]
        closing.join()


@pytest.mark.parametrize("encrypt", ["all", "marked"])
def test_f2_any_changed_byte(tmp_path: Path, encrypt: Any) -> None:
    """One bit of each byte in turn: an error or the right data, and no wrong key."""
    path = tmp_path / "a.memdb"
    with memdb.open(path, key=KEY, encrypt=encrypt) as db:
        notes = db.collection("notes")
        notes.insert({"n": 1}, encrypt=True)
        notes.insert_many([{"n": 2}, {"n": 3}])
        notes.update(1, n=4)
        notes.delete(3)
    whole = path.read_bytes()
    right = [{"n": 4, "id": 1}, {"n": 2, "id": 2}]
    chance, outcomes = random.Random(4), Counter[str]()
    places = [at for at in range(len(whole)) if whole[at] or at >= 12288 or at % 97 == 0]
    for at in places:
        file = MemoryFile()
        data = bytearray(whole)
        data[at] ^= 1 << chance.randrange(8)
        file.write(0, data)
        try:
            db = open_on(file, "r", key=KEY)
            found = list(db.collection("notes"))
        except memdb.MemdbError as error:
            outcomes[type(error).__name__] += 1
            continue
        outcomes["right"] += 1
        # A tail that is cut, where no root says that it was there, is a state from before.
        assert found == right, at

    # A changed key slot is told from a wrong key by its checksum.
    assert {"right", "DamageError", "NotADatabaseError"} == set(outcomes)
