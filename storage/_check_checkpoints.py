"""Verifying checkpoints: whether they gather what the commits before them hold."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from memdb.errors import DamageError
from memdb.storage._blocks import BlockHeader, Checkpoint, unpack_checkpoint
from memdb.storage._constants import POINTER_BYTES, POINTER_DTYPE, RUN_NANOSECONDS
from memdb.storage._findings import Finding

if TYPE_CHECKING:
    from memdb.storage._origin import Origin
    from memdb.storage._recovery import MapReader


class Commits:
    """The commits that a walk has met, and the checkpoints that it has met among them.

    Attributes:
        slots: First slot of each commit, rising; those whose slots are not known are left out.
        headers: Theirs.
        highest: Collection -> highest identity so far.
        ends: Offset of a checkpoint -> the slot behind the versions that it gathers.
    """

    def __init__(self) -> None:
        self.slots: list[int] = []
        self.headers: list[BlockHeader] = []
        self.highest: dict[int, int] = {}
        self.ends: dict[int, int] = {}

    def add(self, header: BlockHeader, pointers: bytes, slot: int) -> None:
        """Note a commit, with slot 0 where that is not known."""
        if slot and header.count:
            self.slots.append(slot)
            self.headers.append(header)
        rows = np.frombuffer(pointers, POINTER_DTYPE)
        for collection in set(rows["collection"].tolist()):
            identity = int(rows["identity"][rows["collection"] == collection].max())
            self.highest[collection] = max(identity, self.highest.get(collection, 0))

    def between(self, first: int, stop: int) -> Iterator[tuple[int, BlockHeader]]:
        """Give first slot and header of the commits that begin between two slots."""
        for place in range(bisect_left(self.slots, first), bisect_left(self.slots, stop)):
            yield self.slots[place], self.headers[place]

    def of(self, slot: int) -> BlockHeader | None:
        """Return the commit that a version is in, None where that is not known."""
        place = bisect_right(self.slots, slot) - 1
        if place < 0 or slot >= self.slots[place] + self.headers[place].count:
            return None
        return self.headers[place]


def check_checkpoint(
    reader: MapReader,
    header: BlockHeader,
    body: bytes | memoryview,
    commits: Commits,
    slot: int,
    origin: Origin | None,
) -> tuple[int, list[Finding]]:
    """Compare a checkpoint with the commits before it.

    Args:
        reader: Gives bytes of the file.
        header, body: Of the checkpoint, checked.
        commits: What came before it; takes the checkpoint in.
        slot: That of the next version, 0 where the walk does not know it.
        origin: What the file was compacted from.

    Returns:
        The slot of the next version, and what is wrong.
    """
    try:
        checkpoint = unpack_checkpoint(body, None, header.offset)
    except DamageError:
        return slot, [Finding(header.payload_offset, "the checkpoint is of a wrong length")]
    counts = checkpoint.segments["value"]
    stop = checkpoint.first_slot + int(counts.sum())
    commits.ends[header.offset] = stop
    findings = [
        Finding(header.offset, message)
        for message in _messages(reader, header, checkpoint, commits, slot, stop, origin)
    ]
    return stop, findings


def _messages(
    reader: MapReader,
    header: BlockHeader,
    checkpoint: Checkpoint,
    commits: Commits,
    slot: int,
    stop: int,
    origin: Origin | None,
) -> Iterator[str]:
    previous = checkpoint.previous
    # One behind damage may name what the walk did not come to.
    if slot and previous and previous not in commits.ends:
        yield f"the checkpoint names a block at byte {previous} before it, which is no checkpoint"
    expected = commits.ends.get(previous, checkpoint.first_slot) if previous else 1
    if checkpoint.first_slot != expected:
        yield (f"the checkpoint starts at slot {checkpoint.first_slot}, {expected} was expected")
    if slot and slot != stop:
        yield f"the checkpoint ends before slot {stop}, {slot} was expected"
    own = checkpoint.segments["key"] == 0
    if int(checkpoint.segments["value"][own].sum()) != header.count:
        yield "the checkpoint has another number of pointers than its segments"
    else:
        yield from _segments(reader, header, checkpoint, commits)
    yield from _runs(checkpoint, commits, stop, origin)
    given = dict(checkpoint.last_identities.tolist())
    for collection, highest in commits.highest.items():
        if given.get(collection, 0) < highest:
            yield (
                f"the checkpoint says that {given.get(collection, 0)} is the highest identity of"
                f" collection {collection}, which has {highest}"
            )


def _segments(
    reader: MapReader, header: BlockHeader, checkpoint: Checkpoint, commits: Commits
) -> Iterator[str]:
    slot, at = checkpoint.first_slot, header.pointers_offset
    for offset, count in checkpoint.segments.tolist():
        if offset:
            commit = commits.of(slot)
            if commit is not None and (commit.offset, commit.count) != (offset, count):
                yield f"the checkpoint refers to a commit at byte {offset}, which is not there"
        else:
            for first, commit in commits.between(slot, slot + count):
                size = commit.count * POINTER_BYTES
                own = reader.read(at + (first - slot) * POINTER_BYTES, size)
                if own != reader.read(commit.pointers_offset, size):
                    yield (
                        f"the checkpoint has other pointers than the commit at byte {commit.offset}"
                    )
            at += count * POINTER_BYTES
        slot += count


def _runs(
    checkpoint: Checkpoint, commits: Commits, stop: int, origin: Origin | None
) -> Iterator[str]:
    slots, times = checkpoint.runs["key"].tolist(), checkpoint.runs["value"].tolist()
    if stop == checkpoint.first_slot:
        # One without versions may say of when the last one before it was.
        return
    is_in_order = slots == sorted(set(slots)) and times == sorted(times)
    if slots[:1] != [checkpoint.first_slot] or not is_in_order or slots[-1] >= stop:
        yield "the times of the checkpoint are not those of its versions"
        return
    first_own = 0 if origin is None else origin.slot
    for slot, time in zip(slots, times, strict=True):
        commit = commits.of(slot)
        if commit is None:
            continue
        is_compacted = slot < first_own
        if time > commit.timestamp or (
            not is_compacted and time <= commit.timestamp - RUN_NANOSECONDS
        ):
            yield f"the checkpoint has another time for slot {slot} than its commit"
