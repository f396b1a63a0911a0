"""What follows the last commit: zeros, stray bytes, a torn commit, or damage (A3, A4, A5, A9)."""

from __future__ import annotations

from pathlib import Path

import pytest

import memdb
from memdb.storage import OSFile
from tests.crash.children import Account, collections, state_of
from tests.support import reader
from tests.support.faulty import FaultyFile, drop, open_on


def clean_file(path: Path) -> dict[str, dict[int, object]]:
    """Make a closed file with a few commits; return what it holds."""
    with memdb.open(path) as db:
        own = collections(db)
        own["Account"].insert(Account("a", 1))
        own["Account"].insert_many([Account("b", 2), Account("c", 3)])
        own["notes"].insert({"text": "d"})
        own["Account"].update(1, cents=5)
        own["Account"].delete(2)
        return state_of(db)


def killed_file(path: Path, transactions: int = 3) -> list[dict[str, dict[int, object]]]:
    """Make a file as a killed writer leaves it: nothing synced after a first flush.

    Returns:
        The state after the flush and after each transaction behind it.
    """
    db = open_on(FaultyFile(path))
    own = collections(db)
    own["Account"].insert(Account("first", 0))
    own["notes"].insert({"text": "first"})
    db.flush()
    states = [state_of(db)]
    for number in range(transactions):
        with db.transaction():
            own["Account"].insert(Account(f"new {number}", number))
            own["notes"].insert({"text": f"new {number}"})
            own["Account"].update(1, cents=number + 100)
        states.append(state_of(db))
    drop(db)
    return states


def blocks_of(path: Path) -> list[reader.Block]:
    """Return the blocks of a file."""
    return reader.read_by_walking(path.read_bytes()).blocks


def change(path: Path, offset: int, data: bytes) -> None:
    """Overwrite bytes of a file."""
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def damage(path: Path, offset: int) -> None:
    """Flip a bit of a byte."""
    change(path, offset, bytes([path.read_bytes()[offset] ^ 4]))


@pytest.mark.parametrize("count", [1, 23, 4096, 100_000])
def test_a3_zeros_behind_a_clean_file_are_cut(tmp_path: Path, count: int) -> None:
    """Zeros behind a closed file lose no record; they are cut off and reported."""
    path = tmp_path / "a.memdb"
    expected = clean_file(path)
    length = path.stat().st_size
    with path.open("ab") as file:
        file.write(bytes(count))
    with memdb.open(path, "r") as db:
        read, seen = state_of(db), db.recovery
    with memdb.open(path) as db:
        found, recovery = state_of(db), db.recovery

    assert expected == read == found
    assert seen is not None and recovery is not None
    assert (length, count, None) == (recovery.cut_offset, recovery.cut_bytes, recovery.kept_in)
    assert (length, count, None) == (seen.cut_offset, seen.cut_bytes, seen.kept_in)
    assert length == path.stat().st_size
    assert [path] == list(tmp_path.iterdir())


@pytest.mark.parametrize("stray", [b"\x01", b"M", b"\0\0\0\0\0\0\0\0MDBC", b"x" * 10_000])
def test_a4_a_stray_byte_hides_no_later_record(tmp_path: Path, stray: bytes) -> None:
    """What is inserted after stray bytes were cut off is there after a reopen."""
    path = tmp_path / "a.memdb"
    clean_file(path)
    length = path.stat().st_size
    with path.open("ab") as file:
        file.write(stray)
    with memdb.open(path) as db:
        recovery = db.recovery
        identity = collections(db)["Account"].insert(Account("new", 9))
        expected = state_of(db)
    with memdb.open(path) as db:
        found, second = state_of(db), db.recovery
        findings = db.check()

    assert recovery is not None and recovery.kept_in is not None
    assert (length, len(stray)) == (recovery.cut_offset, recovery.cut_bytes)
    assert stray == Path(recovery.kept_in).read_bytes()
    assert expected == found
    assert (4, None, []) == (identity, second, findings)


@pytest.mark.parametrize("part", ["payload", "second payload", "pointer", "header", "checksum"])
def test_a5_damaged_last_transaction_is_there_wholly_or_not(tmp_path: Path, part: str) -> None:
    """The last transaction of a killed writer with any part damaged is gone as a whole."""
    path = tmp_path / "a.memdb"
    states = killed_file(path)
    last = blocks_of(path)[-1]
    offset = {
        "payload": last.pointers[0].offset,
        "second payload": last.pointers[1].offset + 2,
        "pointer": last.offset + 40 + 32,
        "header": last.offset + 12,
        "checksum": last.offset,
    }[part]
    damage(path, offset)
    torn = path.read_bytes()[last.offset : last.end].rstrip(b"\0")
    with memdb.open(path, "r") as db:
        read = state_of(db)
    with memdb.open(path) as db:
        found, recovery, findings = state_of(db), db.recovery, db.check()

    assert states[-2] == read == found
    assert [] == findings
    assert recovery is not None and recovery.kept_in == f"{path}.torn-{last.offset}"
    assert (last.offset, len(torn)) == (recovery.cut_offset, recovery.cut_bytes)
    assert torn == Path(recovery.kept_in).read_bytes()


@pytest.mark.parametrize("which", [0, 1, 2])
def test_a5_rotten_payload_of_a_closed_file_is_no_half_transaction(
    tmp_path: Path, which: int
) -> None:
    """In a closed file a damaged record raises when read, with its offset; it is never missing."""
    path = tmp_path / "a.memdb"
    with memdb.open(path) as db, db.transaction():
        for number in range(3):
            collections(db)["Account"].insert(Account("a", number))
    pointer = blocks_of(path)[-2].pointers[which]
    damage(path, pointer.offset + 1)
    with memdb.open(path) as db:
        accounts = collections(db)["Account"]
        with pytest.raises(memdb.DamageError) as caught:
            accounts.get(which + 1)
        with pytest.raises(memdb.DamageError):
            list(accounts)
        with pytest.raises(memdb.DamageError):
            accounts.update(which + 1, cents=7)
        others = [accounts[each].cents for each in (1, 2, 3) if each != which + 1]
        findings = [finding.offset for finding in db.check()]

    assert pointer.offset == caught.value.offset
    assert str(path) in str(caught.value)
    assert [each for each in range(3) if each != which] == others
    assert [pointer.offset] == findings


def test_a5_damaged_header_of_a_closed_file_loses_nothing(tmp_path: Path) -> None:
    """A damaged commit header in a closed file is found by check(); the checkpoint has its map."""
    path = tmp_path / "a.memdb"
    with memdb.open(path) as db, db.transaction():
        for number in range(3):
            collections(db)["Account"].insert(Account("a", number))
    offset = blocks_of(path)[-2].offset
    damage(path, offset + 16)
    with memdb.open(path) as db:
        cents = [account.cents for account in collections(db)["Account"]]
        findings = [finding.offset for finding in db.check()]

    assert [0, 1, 2] == cents
    assert [offset] == findings


@pytest.mark.parametrize("where", ["payload", "pointer", "header", "magic"])
@pytest.mark.parametrize("mode", ["rw", "r", "append"])
def test_a9_damage_before_whole_commits_is_no_torn_tail(
    tmp_path: Path, where: str, mode: str
) -> None:
    """One byte flipped in the middle after a kill is reported with its offset; nothing is cut."""
    path = tmp_path / "a.memdb"
    killed_file(path, transactions=20)
    block = blocks_of(path)[-10]
    steps = {"payload": block.pointers[1].offset - block.offset, "pointer": 44, "header": 25}
    damage(path, block.offset + steps.get(where, 8))
    before = path.read_bytes()
    with pytest.raises(memdb.DamageError) as caught:
        memdb.open(path, mode)

    assert block.offset == caught.value.offset
    assert str(block.offset) in str(caught.value)
    assert before == path.read_bytes()
    assert [path] == list(tmp_path.iterdir())


def test_a9_a_valid_block_far_behind_the_damage_is_found(tmp_path: Path) -> None:
    """Whole commits more than a mebibyte behind the damage still make it damage."""
    path = tmp_path / "a.memdb"
    db = open_on(FaultyFile(path))
    own = collections(db)["Account"]
    own.insert(Account("a", 1))
    own.insert(Account("x" * 3_000_000, 2))
    own.insert(Account("c", 3))
    drop(db)
    big = blocks_of(path)[2]
    damage(path, big.pointers[0].offset + 1_000_000)
    with pytest.raises(memdb.DamageError) as caught:
        memdb.open(path)

    assert big.offset == caught.value.offset


def test_damage_before_the_synced_end_is_never_a_torn_tail(tmp_path: Path) -> None:
    """Damage to the very last commit is damage and not a torn tail once it was synced."""
    path = tmp_path / "a.memdb"
    db = open_on(FaultyFile(path))
    collections(db)["Account"].insert(Account("a", 1))
    db.flush()
    drop(db)
    last = blocks_of(path)[-1]
    damage(path, last.offset + 20)
    with pytest.raises(memdb.DamageError) as caught:
        memdb.open(path)

    assert last.offset == caught.value.offset


@pytest.mark.parametrize("mode", ["rw", "r"])
def test_after_a_reboot_damage_behind_the_synced_end_is_a_torn_tail(
    tmp_path: Path, mode: str
) -> None:
    """Another boot id than the root's says that power was lost: any subset of pages is normal."""
    path = tmp_path / "a.memdb"
    states = killed_file(path, transactions=6)
    block = blocks_of(path)[-4]
    damage(path, block.pointers[0].offset)
    file = OSFile(str(path), write=mode == "rw")
    file.boot_id = bytes(range(16))
    db = open_on(file, mode)
    found, recovery = state_of(db), db.recovery
    db.close()

    assert states[2] == found
    assert recovery is not None and recovery.cut_offset == block.offset
    assert (recovery.kept_in is not None) == (mode == "rw")


@pytest.mark.parametrize("unknown", ["now", "then"])
def test_without_a_boot_id_damage_stays_damage(tmp_path: Path, unknown: str) -> None:
    """Where the boot id was or is unknown, nothing says that power was lost."""
    path = tmp_path / "a.memdb"
    writer = FaultyFile(path)
    if unknown == "then":
        writer.boot_id = bytes(16)
    db = open_on(writer)
    for number in range(5):
        collections(db)["Account"].insert(Account("a", number))
    drop(db)
    damage(path, blocks_of(path)[-2].pointers[0].offset)
    file = OSFile(str(path), write=True)
    file.boot_id = bytes(16) if unknown == "now" else bytes(range(16))
    with pytest.raises(memdb.DamageError):
        open_on(file)


def test_after_a_reboot_damage_before_the_synced_end_is_damage(tmp_path: Path) -> None:
    """What was synced is never cut off, reboot or not."""
    path = tmp_path / "a.memdb"
    killed_file(path)
    damage(path, blocks_of(path)[1].offset + 9)
    before = path.read_bytes()
    file = OSFile(str(path), write=True)
    file.boot_id = bytes(range(16))
    with pytest.raises(memdb.DamageError):
        open_on(file)

    assert before == path.read_bytes()


def test_torn_tails_never_overwrite_each_other(tmp_path: Path) -> None:
    """A second torn tail at the same place is kept beside the first one."""
    path = tmp_path / "a.memdb"
    clean_file(path)
    kept = []
    for stray in (b"one", b"two"):
        with path.open("ab") as file:
            file.write(stray)
        with memdb.open(path) as db:
            assert db.recovery is not None and db.recovery.kept_in is not None
            kept.append(db.recovery.kept_in)

    assert [b"one", b"two"] == [Path(name).read_bytes() for name in kept]
    assert 2 == len(set(kept))


def test_recovery_after_a_kill_counts_what_it_replayed(tmp_path: Path) -> None:
    """The report says how many commits and versions were found behind the last checkpoint."""
    path = tmp_path / "a.memdb"
    states = killed_file(path, transactions=4)
    with memdb.open(path) as db:
        found, recovery = state_of(db), db.recovery

    assert states[-1] == found
    assert recovery is not None
    assert (False, 6, 14) == (
        recovery.was_clean,
        recovery.replayed_commits,
        recovery.replayed_versions,
    )
    assert (0, None) == (recovery.cut_bytes, recovery.kept_in)


def test_recovery_is_done_once(tmp_path: Path) -> None:
    """After a recovered file was closed there is nothing left to mend."""
    path = tmp_path / "a.memdb"
    states = killed_file(path)
    memdb.open(path).close()
    with memdb.open(path) as db:
        found, recovery = state_of(db), db.recovery

    assert (states[-1], None) == (found, recovery)


def test_writing_goes_on_after_a_torn_tail_was_cut(tmp_path: Path) -> None:
    """Commits behind a cut, killed again before any sync, are found; the old tail is not."""
    path = tmp_path / "a.memdb"
    states = killed_file(path, transactions=4)
    # The block before the last one: the last one is whole, and of a sequence that comes again.
    torn = blocks_of(path)[-2]
    damage(path, torn.offset)
    file = FaultyFile(path)
    file.boot_id = bytes(range(16))
    db = open_on(file)
    assert states[2] == state_of(db)
    with db.transaction():
        collections(db)["Account"].insert(Account("new 2", 2))
        collections(db)["notes"].insert({"text": "new 2"})
        collections(db)["Account"].update(1, cents=102)
    drop(db)
    with memdb.open(path) as db:
        found, findings = state_of(db), db.check()

    assert (states[3], []) == (found, findings)


@pytest.mark.parametrize("which", [1, -2])
def test_an_older_block_behind_the_end_is_not_taken(tmp_path: Path, which: int) -> None:
    """A valid block of the file itself that lies behind its end out of sequence is a torn tail."""
    path = tmp_path / "a.memdb"
    expected = clean_file(path)
    block = blocks_of(path)[which]
    stale = path.read_bytes()[block.offset : block.end]
    with path.open("ab") as file:
        file.write(stale)
    with memdb.open(path, "r") as db:
        read = state_of(db)
    with memdb.open(path) as db:
        found, recovery, findings = state_of(db), db.recovery, db.check()

    assert (expected, expected, []) == (read, found, findings)
    assert recovery is not None and len(stale) == recovery.cut_bytes


def test_a_block_of_another_file_is_not_taken(tmp_path: Path) -> None:
    """A valid next block of another database behind the end of this one is a torn tail."""
    path, other = tmp_path / "a.memdb", tmp_path / "b.memdb"
    expected = clean_file(path)
    killed_file(other, transactions=30)
    sequence = blocks_of(path)[-1].sequence + 1
    [block] = [block for block in blocks_of(other) if block.sequence == sequence]
    with path.open("ab") as file:
        file.write(other.read_bytes()[block.offset : block.end])
    with memdb.open(path) as db:
        found, recovery = state_of(db), db.recovery

    assert expected == found
    assert recovery is not None and recovery.cut_bytes > 0
