"""What a checkpoint gathers, and which earlier ones it takes over."""

from __future__ import annotations

import mmap

import numpy as np

from memdb.storage._blocks import Array, Checkpoint
from memdb.storage._constants import PAIR_DTYPE
from memdb.storage._recovery import LinkedCheckpoint, LogState

# Checkpoints of so many versions and more are never taken over by later ones.
FULL_CHECKPOINT = 65_536


def unchecked_slot(state: LogState) -> int:
    """Return the first slot that no checkpoint gathers."""
    if not state.chain:
        return 1
    return state.chain[-1].first_slot + state.chain[-1].count


def build_checkpoint(
    state: LogState, data: mmap.mmap, full_count: int
) -> tuple[bytes, Checkpoint, LinkedCheckpoint]:
    """Gather the versions since the last checkpoint.

    Small earlier checkpoints are taken over when they are no larger than what is gathered so
    far, so that the chain stays short (log2 of ``full_count`` below full size) and each
    version is written again at most that often, whatever the pattern of opening and closing.

    Args:
        state: Is left as it is, but for the highest identities.
        data: The mapped file.
        full_count: Checkpoints of at least so many versions are never taken over.

    Returns:
        The block's pointers, its payload, and the link for the chain, whose offset is still 0.
    """
    first_slot, stop = unchecked_slot(state), state.map.next_slot
    chain = list(state.chain)
    while (
        chain
        and not chain[-1].has_large_commits
        and chain[-1].count < full_count
        and chain[-1].count <= stop - first_slot
    ):
        first_slot = chain.pop().first_slot

    segments: list[tuple[int, int]] = []
    own: list[Array] = []
    slot = first_slot
    for large_slot, offset, count in (*state.large_commits, (stop, 0, 0)):
        if large_slot > slot:
            own.append(state.map.pointers(data, slot, large_slot))
            segments.append((0, large_slot - slot))
            state.note_identities(own[-1])
        if count:
            segments.append((offset, count))
            state.note_identities(state.map.pointers(data, large_slot, large_slot + count))
        slot = large_slot + count

    checkpoint = Checkpoint(
        previous=chain[-1].offset if chain else 0,
        first_slot=first_slot,
        segments=np.array(segments, PAIR_DTYPE),
        runs=state.map.runs(first_slot),
        last_identities=np.array(sorted(state.last_identities.items()), PAIR_DTYPE),
    )
    link = LinkedCheckpoint(0, first_slot, stop - first_slot, bool(state.large_commits))
    return b"".join(pointers.tobytes() for pointers in own), checkpoint, link
