"""Checkpoints keep opening short and are not written again and again."""

from __future__ import annotations

from pathlib import Path
from struct import unpack_from

import pytest

import memdb
from tests.support import reader

SESSIONS = 64


def chain_of(data: bytes) -> list[reader.Block]:
    """Return the checkpoints that opening follows, newest first."""
    contents = reader.read_by_walking(data)
    blocks = {block.offset: block for block in contents.blocks}
    chain, offset = [], contents.root.checkpoint
    while offset:
        chain.append(blocks[offset])
        (offset,) = unpack_from("<Q", chain[-1].payload, 8)
    return chain


@pytest.mark.parametrize("explicit", [True, False])
def test_small_checkpoints_are_taken_over(tmp_path: Path, explicit: bool) -> None:
    """Of many small checkpoints few are left to follow, and little was written again for that."""
    path = tmp_path / "a.memdb"
    if explicit:
        with memdb.open(path) as db:
            for number in range(SESSIONS):
                db.collection("notes").insert({"n": number})
                db.checkpoint()
    else:
        for number in range(SESSIONS):
            with memdb.open(path) as db:
                db.collection("notes").insert({"n": number})
    data = path.read_bytes()
    written = [
        len(block.pointers) for block in reader.read_by_walking(data).blocks if block.kind == "P"
    ]

    assert SESSIONS == sum(len(block.pointers) for block in chain_of(data))
    assert len(chain_of(data)) <= 7
    assert sum(written) <= SESSIONS * 7


def test_automatic_checkpoints_bound_what_a_crash_leaves_to_walk(tmp_path: Path) -> None:
    """With a checkpoint each few versions the log behind the last one stays short."""
    path = tmp_path / "a.memdb"
    with memdb.open(path, checkpoint_interval=10, flush_interval=1000) as db:
        notes = db.collection("notes")
        for number in range(200):
            notes.insert({"n": number})
            if number % 10 == 9:
                db.flush()
        unchecked = db.stats().unchecked_versions
        with memdb.open(path, "r") as beside:
            recovery = beside.recovery
            found = len(beside.collection("notes"))

    assert recovery is not None
    assert unchecked < 10 and recovery.replayed_versions < 10
    assert 200 == found


def test_closing_again_without_a_change_writes_nothing(tmp_path: Path) -> None:
    """Opening and closing leave a closed file byte for byte as it was."""
    path = tmp_path / "a.memdb"
    with memdb.open(path) as db:
        db.collection("notes").insert({"n": 1})
    before = path.read_bytes()
    for _ in range(3):
        with memdb.open(path) as db:
            assert db.collection("notes")[1] == {"n": 1, "id": 1}

    assert before == path.read_bytes()
