"""The pointer map: slots in order of commit, and when they were committed."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memdb.storage._blocks import empty_pointers
from memdb.storage._constants import POINTER_BYTES, RUN_NANOSECONDS
from memdb.storage._pointer_map import PointerMap


def mapped(groups: list[tuple[int, int]]) -> tuple[mmap.mmap, PointerMap]:
    """Return a map of pointers in groups with gaps between, identities counting from 1.

    Args:
        groups: For each its number of pointers and the words of the gap before it.
    """
    size = sum(count * POINTER_BYTES + gap * 8 for count, gap in groups)
    data = mmap.mmap(-1, max(size, 8))
    slots = PointerMap()
    at, identity = 0, 1
    for count, gap in groups:
        at += gap * 8
        pointers = empty_pointers(count)
        pointers["identity"] = range(identity, identity + count)
        data[at : at + count * POINTER_BYTES] = pointers.tobytes()
        slots.extend(at, count)
        at += count * POINTER_BYTES
        identity += count
    return data, slots


GROUPS = st.lists(st.tuples(st.sampled_from((0, 1, 1, 1, 2, 63, 64, 65, 300)), st.integers(0, 9)))


@given(GROUPS, st.data())
def test_pointers_come_in_order_of_slots(
    groups: list[tuple[int, int]], data: st.DataObject
) -> None:
    """Any range of slots gives its pointers, however they lie in the file."""
    file, slots = mapped(groups)
    total = sum(count for count, _ in groups)
    start = data.draw(st.integers(1, total + 1))
    stop = data.draw(st.integers(start, total + 1))
    found = slots.pointers(file, start, stop)

    assert total == len(slots) == slots.next_slot - 1
    assert list(range(start, stop)) == found["identity"].tolist()


@given(GROUPS, st.data())
def test_gather_gives_what_is_asked_for(groups: list[tuple[int, int]], data: st.DataObject) -> None:
    """Slots in any order give their pointers in that order."""
    file, slots = mapped(groups)
    total = len(slots)
    wanted = data.draw(st.lists(st.integers(1, total), max_size=20)) if total else []
    positions = np.array(slots.positions, "<u8")[np.array(wanted, "<i8")]
    found = slots.gather(file, positions)

    assert wanted == found["identity"].tolist()


def test_pointers_are_a_copy() -> None:
    """What is given does not change with the file."""
    file, slots = mapped([(100, 0)])
    found = slots.pointers(file, 1, 101)
    file[0:8] = b"\xff" * 8

    assert 1 == found["identity"][0]


class Closing(np.ndarray[Any, Any]):
    """Positions that close the map when they are divided."""

    data_map: mmap.mmap

    def __floordiv__(self, other: Any) -> Any:  # type: ignore[override]
        with pytest.raises(BufferError):
            self.data_map.close()
        return np.asarray(self) // other


def test_a_map_that_is_closed_while_pointers_are_gathered() -> None:
    """It can't be, as the memory would be gone under the hands of NumPy."""
    file, slots = mapped([(100, 0)])
    positions = np.array(slots.positions, "<u8")[1:].view(Closing)
    positions.data_map = file

    assert list(range(1, 101)) == slots.gather(file, positions)["identity"].tolist()
    file.close()


def test_more_slots_than_are_gathered_at_once() -> None:
    """Hundreds of thousands of pointers come in parts and in order."""
    file, slots = mapped([(70_000, 1), (1, 1), (70_000, 2)])
    found = slots.pointers(file, 1, slots.next_slot)

    assert np.array_equal(np.arange(1, 140_002), found["identity"])


def test_slot_zero_is_never_used() -> None:
    """The first version has slot 1, so that 0 can say "none"."""
    slots = PointerMap()
    before = slots.next_slot
    slots.extend(80, 1)

    assert (1, 2, 1) == (before, slots.next_slot, len(slots))
    assert 80 == slots.positions[1]


@given(st.lists(st.integers(0, 3 * RUN_NANOSECONDS), min_size=1, max_size=30))
def test_times_are_right_to_a_millisecond(steps: list[int]) -> None:
    """The time of a version is that of its commit or less than a millisecond before."""
    slots = PointerMap()
    now, times = 10**18, []
    for step in steps:
        now += step
        slots.add_run(slots.next_slot, now)
        slots.extend(8 * len(times), 1)
        times.append(now)

    for slot, time in enumerate(times, 1):
        assert 0 <= time - slots.time_of(slot) < RUN_NANOSECONDS


def test_runs_from_a_slot_start_there() -> None:
    """The runs for a checkpoint begin with its first slot, in the run that it lies in."""
    slots = PointerMap()
    for slot, time in ((1, 0), (5, 10), (9, 20)):
        slots.add_run(slot, time * RUN_NANOSECONDS)
    found = [slots.runs(first).tolist() for first in (1, 5, 7, 9, 12)]
    unit = RUN_NANOSECONDS

    assert [
        [(1, 0), (5, 10 * unit), (9, 20 * unit)],
        [(5, 10 * unit), (9, 20 * unit)],
        [(7, 10 * unit), (9, 20 * unit)],
        [(9, 20 * unit)],
        [(12, 20 * unit)],
    ] == found


@pytest.mark.parametrize(
    ("kept", "runs"), [(1, []), (2, [1]), (66, [1]), (67, [1]), (131, [1, 67])]
)
def test_cut_takes_slots_back(kept: int, runs: list[int]) -> None:
    """What is cut is as if it had never been added."""
    file, slots = mapped([(1, 0), (64, 2), (1, 1), (64, 0)])
    slots.add_run(1, 0)
    slots.add_run(67, 10 * RUN_NANOSECONDS)
    slots.cut(kept)
    found = slots.pointers(file, 1, kept)
    next_slot = slots.next_slot
    slots.extend(0, 64)

    assert list(range(1, kept)) == found["identity"].tolist()
    assert (kept, kept + 64) == (next_slot, slots.next_slot)
    assert runs == [slot for slot, _ in slots.time_runs]
