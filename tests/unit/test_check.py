"""`check()` finds each kind of thing that can be wrong, and goes on after each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from struct import pack_into, unpack_from
from typing import Any

import pytest

import memdb
from memdb.storage import Finding, MemoryFile
from memdb.storage._blocks import checksum32, checksum64
from memdb.storage._constants import LOG_START
from tests.support.faulty import open_on


@dataclass
class Note:
    """A record."""

    text: str
    id: int = 0


class Editor:
    """An open database whose bytes in memory are changed behind its back.

    The blocks are, in order: catalogue, commit of 1 (inserted), commit of 2 (updated), commit
    of the records 2 to 4, checkpoint, deletion of 3, commit of 5.
    """

    def __init__(self) -> None:
        self.db = open_on(MemoryFile(), serializer="json")
        self.notes = self.db.collection(Note)
        self.notes.insert(Note("first"))
        self.notes.update(1, text="second")
        self.notes.insert_many([Note("two"), Note("three"), Note("four")])
        self.db.checkpoint()
        self.notes.delete(3)
        self.notes.insert(Note("five"))
        self.log = self.db._engine.log

    def blocks(self) -> list[int]:
        """Return where the blocks start."""
        offsets, at = [], LOG_START
        while at < self.log.end:
            offsets.append(at)
            at = self.end(at)
        return offsets

    def end(self, block: int) -> int:
        """Return where a block ends."""
        count, payload_bytes = self.get(block + 12, "I"), self.get(block + 32, "Q")
        return (block + 40 + 32 * count + payload_bytes + 7) // 8 * 8

    def get(self, offset: int, form: str) -> Any:
        """Return a number of the file."""
        return unpack_from("<" + form, self.log.data, offset)[0]

    def set(self, offset: int, form: str, value: int) -> None:
        """Overwrite a number of the file."""
        pack_into("<" + form, self.log.data, offset, value)

    def seal(self, block: int) -> None:
        """Make the checksum of a block right again."""
        stop = block + 40 + 32 * self.get(block + 12, "I")
        self.log.data[block : block + 8] = checksum64(
            self.log.data[block + 8 : stop], self.log.file_id
        )

    def messages(self) -> list[tuple[int, str]]:
        """Return what check() finds."""
        return [(finding.offset, finding.message) for finding in self.db.check()]


CATALOGUE, FIRST, SECOND, MANY, CHECKPOINT, DELETION, LAST = range(7)


@pytest.fixture
def editor() -> Iterator[Editor]:
    """A database to be spoilt."""
    made = Editor()
    assert made.db.check() == []
    yield made
    made.log._is_closing = True  # Closing would stumble over what was done to it.
    made.db._engine._finalizer.detach()


def test_a_whole_database_has_no_findings(editor: Editor) -> None:
    """Nothing is found where nothing is wrong, before and after the checkpoint."""
    found = editor.db.check()
    with memdb.open(None) as empty:
        none = empty.check()

    assert [] == found == none
    assert 7 == len(editor.blocks())


def pointer(field: str, form: str, value: int) -> Callable[[Editor, int, int], int]:
    """Return a change of one field of a pointer."""
    offsets = {"identity": 0, "offset": 8, "length": 16, "checksum": 20, "collection": 24}
    offsets |= {"writer": 26, "kind": 28, "flags": 29}

    def change(editor: Editor, block: int, index: int) -> int:
        at = block + 40 + 32 * index
        editor.set(at + offsets[field], form, value)
        return at

    return change


@pytest.mark.parametrize(
    ("change", "block", "index", "message"),
    [
        (pointer("kind", "B", 9), LAST, 0, "the version of record 5 has the unknown kind 9"),
        (pointer("kind", "B", 0), MANY, 1, "the version of record 3 has the unknown kind 0"),
        (
            pointer("collection", "H", 7),
            LAST,
            0,
            "the version of record 5 is of collection 7, which is unknown",
        ),
        (pointer("writer", "H", 4), LAST, 0, "the version of record 5 has the unknown writer 4"),
        (pointer("writer", "H", 0), LAST, 0, "the version of record 5 has the unknown writer 0"),
        (
            pointer("writer", "H", 1),
            DELETION,
            0,
            "the version of record 3 has the unknown writer 1",
        ),
    ],
)
def test_wrong_pointers_are_found(
    editor: Editor, change: Callable[[Editor, int, int], int], block: int, index: int, message: str
) -> None:
    """A pointer under a right checksum that can't be is found where it lies."""
    offset = editor.blocks()[block]
    where = change(editor, offset, index)
    editor.seal(offset)

    assert (where, message) in editor.messages()


def test_pointer_to_a_wrong_place_is_found(editor: Editor) -> None:
    """A pointer that does not lead to its own bytes is found, and so are those bytes."""
    block = editor.blocks()[MANY]
    right = editor.get(block + 40 + 32 + 8, "Q")
    editor.set(block + 40 + 32 + 8, "Q", right + 1)
    editor.seal(block)
    found = editor.messages()

    assert (
        block + 72,
        f"the version of record 3 points to byte {right + 1}, {right} was expected",
    ) in found
    assert (right + 1, "the bytes of record 3 do not match their checksum") in found


def test_rotten_payload_is_found(editor: Editor) -> None:
    """A record whose bytes changed is found at its offset, and nothing else is."""
    block = editor.blocks()[MANY]
    at = editor.get(block + 40 + 8, "Q")
    editor.set(at + 3, "B", 1)

    assert [(at, "the bytes of record 2 do not match their checksum")] == editor.messages()


@pytest.mark.parametrize("block", [FIRST, MANY, CHECKPOINT, DELETION, LAST])
def test_damaged_block_is_found(editor: Editor, block: int) -> None:
    """A block whose header changed is found at its offset."""
    offset = editor.blocks()[block]
    editor.set(offset + 24, "B", editor.get(offset + 24, "B") ^ 1)

    assert (offset, "the block does not match its checksum") in editor.messages()


@pytest.mark.parametrize(("block", "skip"), [(CATALOGUE, 0), (CHECKPOINT, 32 * 5)])
def test_damaged_catalogue_and_checkpoint_are_found(editor: Editor, block: int, skip: int) -> None:
    """The payload of a catalogue or checkpoint that changed is found at its offset."""
    payload = editor.blocks()[block] + 40 + skip
    editor.set(payload + 12, "B", editor.get(payload + 12, "B") ^ 1)

    assert (payload, "the payload does not match its checksum") in editor.messages()


def test_gap_in_the_sequence_is_found(editor: Editor) -> None:
    """A block whose sequence is not the next one is found."""
    block = editor.blocks()[SECOND]
    editor.set(block + 16, "Q", 9)
    editor.seal(block)

    assert (block, "the block has sequence 9, 3 was expected") in editor.messages()


def test_time_that_runs_back_is_found(editor: Editor) -> None:
    """A block that is older than the one before it is found."""
    block = editor.blocks()[SECOND]
    editor.set(block + 24, "Q", 5)
    editor.seal(block)

    assert [(block, "the block is older than the one before it")] == editor.messages()


def test_commit_without_versions_is_found(editor: Editor) -> None:
    """A commit of nothing is found."""
    block = editor.blocks()[LAST]
    editor.set(block + 12, "I", 0)
    editor.set(block + 32, "Q", editor.end(block) - block - 40)
    editor.seal(block)

    assert (block, "the commit has no versions") in editor.messages()


def test_payload_of_another_length_is_found(editor: Editor) -> None:
    """A payload that is longer than its records together is found."""
    block = editor.blocks()[LAST]
    length = editor.get(block + 32, "Q")
    assert length % 8
    editor.set(block + 32, "Q", length + 1)
    editor.seal(block)

    assert (
        block + 72,
        "the payload has another length than its records",
    ) in editor.messages()


@pytest.mark.parametrize(("index", "flags"), [(0, 1), (2, 0)])
def test_wrong_end_of_a_commit_is_found(editor: Editor, index: int, flags: int) -> None:
    """The last version of a commit, and only that, is marked; anything else is found."""
    block = editor.blocks()[MANY]
    editor.set(block + 40 + 32 * index + 29, "B", flags)
    editor.seal(block)

    assert (block + 40, "the end of the commit is marked wrong") in editor.messages()


def test_record_that_is_twice_in_a_commit_is_found(editor: Editor) -> None:
    """A record of which a commit has two versions is found."""
    block = editor.blocks()[MANY]
    editor.set(block + 40 + 32, "q", 2)
    editor.seal(block)

    assert (block + 40, "a record occurs twice in the commit") in editor.messages()


def test_checkpoint_that_says_something_else_is_found() -> None:
    """A pointer map that differs from the commits is found, with the field."""
    editor = Editor()
    file = editor.log._file
    data = file.read(0, editor.log.end)
    copy = MemoryFile()
    copy.write(0, data)
    checkpoint, commit = editor.blocks()[CHECKPOINT], editor.blocks()[MANY]
    editor.db.close()
    at = checkpoint + 40 + 32 * 2
    copy.write(at + 28, b"\x02")
    count = unpack_from("<I", data, checkpoint + 12)[0]
    stop = checkpoint + 40 + 32 * count
    changed = copy.read(checkpoint + 8, stop - checkpoint - 8)
    copy.write(checkpoint, checksum64(changed, int.from_bytes(data[16:24], "little")))
    # A root names the checkpoint, so that opening takes the map from it and not from the commits.
    assert checkpoint in {unpack_from("<Q", data, root + 32)[0] for root in (4096, 8192)}
    with open_on(copy) as db:
        found = [finding.message for finding in db.check()]

    assert [
        "a checkpoint has another kind for the versions of this commit",
        f"the checkpoint has other pointers than the commit at byte {commit}",
    ] == found


def test_version_that_the_map_lacks_is_found(editor: Editor) -> None:
    """A pointer map with another number of versions than the log is found."""
    editor.log._count -= 1
    found = editor.messages()
    editor.log._count += 1

    assert (editor.log.end, "the log holds 7 versions, the pointer map 6") in found


def test_index_that_leads_elsewhere_is_found(editor: Editor) -> None:
    """An identity that leads to another record's version is found."""
    identities = editor.notes._store.identities
    identities.set(1, identities.find(4))
    offset = editor.log.pointers_of([identities.find(4)])[0]["offset"]

    assert [(offset, "Note: the index leads to another record")] == editor.messages()


def test_check_never_stops_at_the_first(editor: Editor) -> None:
    """All of many findings are listed, behind a damaged block too."""
    blocks = editor.blocks()
    many, last = blocks[MANY], blocks[LAST]
    payloads = [editor.get(many + 40 + 32 * index + 8, "Q") for index in range(3)]
    final = editor.get(last + 40 + 8, "Q")
    for at in (*payloads, final):
        editor.set(at, "B", 0)
    editor.set(blocks[FIRST] + 20, "B", 99)
    found = [offset for offset, _ in editor.messages()]

    assert [blocks[FIRST], *payloads, final] == found


def test_check_ends_where_nothing_valid_follows(editor: Editor) -> None:
    """A damaged last block is one finding; what follows it is nothing."""
    last = editor.blocks()[LAST]
    editor.set(last + 20, "B", 99)

    assert [(last, "the block does not match its checksum")] == editor.messages()


def test_check_changes_nothing(editor: Editor) -> None:
    """Neither the file nor the records change by being checked."""
    before = editor.log.data[: editor.log.end]
    editor.db.check()

    assert before == editor.log.data[: editor.log.end]


def test_findings_are_values() -> None:
    """A finding compares by what it says, and can't be changed."""
    finding = Finding(5, "wrong")
    with pytest.raises(AttributeError):
        finding.offset = 6  # type: ignore[misc]

    assert Finding(5, "wrong") == finding


def test_checksums_are_of_the_payload() -> None:
    """The checksum that a pointer holds is XXH32 of the record's bytes, as xxHash gives it."""
    assert 0x550D7456 == checksum32(b"a")
