"""The pointer map: for each slot, where its pointer lies in the file, and when it was committed."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np

from memdb.storage._constants import (
    ALIGNMENT,
    PAIR_DTYPE,
    POINTER_BYTES,
    POINTER_DTYPE,
    RUN_NANOSECONDS,
)

if TYPE_CHECKING:
    import mmap

    from memdb.storage._blocks import Array

_PART_SLOTS = 65_536
_WORTH_A_ROW = 64
_first_slot, _time = itemgetter(0), itemgetter(1)


class PointerMap:
    """Slots in order of commit; slot 0 is never used, so that 0 can mean "none".

    A pointer is not copied out of the file: a slot costs the 8 bytes of its position here,
    and what is read of the mapped file.

    Attributes:
        positions: Slot -> offset of its pointer in the file.
        time_runs: (first slot, commit time) of each run of equal times (to a millisecond),
            nanoseconds since 1970-01-01 UTC. One list, so that an interrupt finds no half of it.
    """

    __slots__ = ("_rows", "positions", "time_runs")

    def __init__(self) -> None:
        self.positions: array[int] = array("Q", [0])
        # (first slot, offset, count) of pointers that lie in a row.
        self._rows: list[tuple[int, int, int]] = []
        self.time_runs: list[tuple[int, int]] = []

    def __len__(self) -> int:
        """Return the number of versions."""
        return len(self.positions) - 1

    @property
    def next_slot(self) -> int:
        """The slot that the next version gets."""
        return len(self.positions)

    def extend(self, pointers_offset: int, count: int) -> None:
        """Add ``count`` slots whose pointers lie in a row from ``pointers_offset``."""
        if count >= _WORTH_A_ROW:
            self._rows.append((len(self.positions), pointers_offset, count))
        stop = pointers_offset + count * POINTER_BYTES
        positions = np.arange(pointers_offset, stop, POINTER_BYTES, dtype="<u8")
        self.positions.frombytes(positions.data.cast("B"))

    def cut(self, next_slot: int) -> None:
        """Take back the slots from ``next_slot`` on."""
        del self.positions[next_slot:]
        while self.time_runs and self.time_runs[-1][0] >= next_slot:
            self.time_runs.pop()
        while self._rows and self._rows[-1][0] >= next_slot:
            self._rows.pop()

    def add_run(self, slot: int, timestamp: int) -> None:
        """Note that versions from ``slot`` on were committed at ``timestamp``."""
        if timestamp >= self.next_run:
            self.time_runs.append((slot, timestamp))

    @property
    def next_run(self) -> int:
        """The time from which a commit starts a new run."""
        return self.time_runs[-1][1] + RUN_NANOSECONDS if self.time_runs else 0

    def _run_of(self, slot: int) -> int:
        """Return the index of the time run that the slot is in."""
        return bisect_left(self.time_runs, (slot + 1, 0)) - 1

    def time_of(self, slot: int) -> int:
        """Return when the version was committed, to a millisecond, in nanoseconds."""
        return self.time_runs[self._run_of(slot)][1]

    def slot_at(self, time: int) -> int:
        """Return the last slot of the time runs that began by a time, 0 for none.

        Microseconds are compared: a time that `time_of` gave may have lost the rest.
        """
        later = bisect_right(self.time_runs, time // 1000 * 1000 + 999, key=_time)
        return self.time_runs[later][0] - 1 if later < len(self.time_runs) else len(self)

    def runs(self, first_slot: int) -> Array:
        """Return the time runs from ``first_slot`` on, (n,) PAIR_DTYPE.

        The first one starts at ``first_slot``.
        """
        runs = np.array(self.time_runs[self._run_of(first_slot) :], PAIR_DTYPE)
        runs["key"][:1] = first_slot
        return runs

    def parts(self, data: mmap.mmap, start: int, stop: int) -> Iterator[tuple[int, Array]]:
        """Give the pointers of the slots from ``start`` to before ``stop``, in order.

        Returns:
            The first slot of each part and its pointers, (n,) POINTER_DTYPE, n at most 65,536.
            Views into the map where pointers lie in a row (checkpoints, large commits), which
            spares a cold start the copy of 32 bytes a record; do not keep them.
        """
        slot = start
        # Of the rows that begin before it the last one may reach into it. A list of its own: a
        # writer may add to it meanwhile.
        first_row = max(bisect_right(self._rows, start, key=_first_slot) - 1, 0)
        rows = self._rows[first_row : bisect_left(self._rows, stop, key=_first_slot)]
        for row_slot, offset, count in [*rows, (stop, 0, 0)]:
            row_start, row_stop = max(row_slot, start), min(row_slot + count, stop)
            if row_start >= row_stop and count:
                continue
            yield from self._singles(data, slot, min(row_start, stop))
            for first in range(row_start, row_stop, _PART_SLOTS):
                size = min(_PART_SLOTS, row_stop - first)
                at = offset + (first - row_slot) * POINTER_BYTES
                yield first, np.frombuffer(data, POINTER_DTYPE, size, at)
            slot = max(slot, row_stop)

    def _singles(self, data: mmap.mmap, start: int, stop: int) -> Iterator[tuple[int, Array]]:
        for first in range(start, stop, _PART_SLOTS):
            positions = self.positions[first : min(first + _PART_SLOTS, stop)]
            yield first, self.gather(data, np.array(positions, dtype="<u8"))

    def pointers(self, data: mmap.mmap, start: int, stop: int) -> Array:
        """Return the pointers of the slots from ``start`` to before ``stop``.

        Returns:
            (stop - start,) POINTER_DTYPE, a copy.

        Cost: O(stop - start), vectorised.
        """
        # As plain words: NumPy joins structured arrays field by field, ten times as slowly.
        parts = [pointers.view("<u8") for _, pointers in self.parts(data, start, stop)]
        return np.concatenate([np.empty(0, "<u8"), *parts]).view(POINTER_DTYPE)

    @staticmethod
    def gather(data: mmap.mmap, positions: Array) -> Array:
        """Return a copy of the pointers at ``positions``, (n,) <u8, offsets in the file."""
        if not len(positions):
            return np.empty(0, POINTER_DTYPE)
        # Each pointer is copied as one item of 32 bytes that starts at any multiple of 8: eleven
        # times as fast as picking its words one by one.
        count = (len(data) - POINTER_BYTES) // ALIGNMENT + 1
        # The memoryview keeps the map from being closed meanwhile. An array made in this way does
        # not, whatever it is given, and would look at memory that is not there any more.
        held = memoryview(data)
        items: Array = np.ndarray(count, f"V{POINTER_BYTES}", held, strides=(ALIGNMENT,))
        pointers: Array = items[(positions // ALIGNMENT).astype(np.intp)].view(POINTER_DTYPE)
        return pointers
