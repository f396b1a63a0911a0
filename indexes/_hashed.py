"""From numbers that are spread evenly, as those of natural keys are, to slots."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from memdb.indexes._identity import Array, Part

# So many changes are gathered in a dict, at least, before they join the arrays.
_RECENT_LIMIT = 16_384
_BITS = 63


class _Base(NamedTuple):
    """The numbers that do not change any more; replaced as a whole.

    Attributes:
        numbers: Rising.
        slots: Of their live versions; 0 where it was deleted.
        starts: Place in ``numbers`` where each bucket begins, and the end. A number's bucket is
            its highest bits, so that a search looks at a few neighbours: 150 ns for a million.
        shift: From a number to its bucket.
    """

    numbers: array[int]
    slots: array[int]
    starts: array[int]
    shift: int


def _base_of(numbers: Array, slots: Array) -> _Base:
    """Make the arrays of rising numbers, (n,) <i8, and their slots, (n,) of integers."""
    bits = max(len(numbers).bit_length() - 2, 0)
    shift = _BITS - bits
    borders = np.arange(2**bits + 1, dtype="<u8") << np.uint64(shift)
    starts = np.searchsorted(numbers.astype("<u8"), borders)
    return _Base(
        _array("q", numbers.astype("<i8")),
        _array("I", slots.astype("<u4")),
        _array("I", starts.astype("<u4")),
        shift,
    )


def _array(code: str, values: Array) -> array[int]:
    made: array[int] = array(code)
    made.frombytes(values.data.cast("B"))
    return made


class HashedIdentities:
    """Numbers in sorted arrays, 13 bytes each, and what changed since in a dict.

    Cost: `find` O(1) expected, `set` and `remove` O(1) amortised: the dict joins the arrays when it
    is a quarter of them, O(n) and vectorised.
    """

    __slots__ = ("_base", "_count", "_recent", "next_identity")

    def __init__(self) -> None:
        self._base = _base_of(np.empty(0, "<i8"), np.empty(0, "<i8"))
        # Number -> slot, 0 for a removed one; goes before the base.
        self._recent: dict[int, int] = {}
        self._count = 0
        # Nothing is ever assigned.
        self.next_identity = 1

    @classmethod
    def build(cls, parts: Iterable[Part], count: int, last_identity: int) -> HashedIdentities:
        """Make the index of a collection from its pointers; as `IdentityIndex.build`.

        Cost: O(n log n), vectorised: 0.1 s for a million.
        """
        self = cls()
        pairs = list(parts)
        if pairs:
            numbers = np.concatenate([part[0] for part in pairs]).astype("<i8")
            slots = np.concatenate([part[1] for part in pairs]).astype("<i8")
            self._base = _base_of(*_last_of_each(numbers, slots))
            self._count = len(self._base.numbers)
        return self

    def find(self, identity: int) -> int:
        """Return the slot of the live version, 0 when there is none."""
        slot = self._recent.get(identity)
        if slot is not None:
            return slot
        # After the dict: what leaves it is in the arrays before.
        numbers, slots, starts, shift = self._base
        bucket = identity >> shift
        end = starts[bucket + 1]
        place = bisect_left(numbers, identity, starts[bucket], end)
        return slots[place] if place < end and numbers[place] == identity else 0

    def set(self, identity: int, slot: int) -> None:
        """Make ``slot`` the live version of ``identity``."""
        is_new = not self.find(identity)
        # No call between these two, so that an interrupt finds both done or neither.
        self._recent[identity] = slot
        self._count += is_new
        if len(self._recent) > _RECENT_LIMIT and len(self._recent) > len(self._base.numbers) // 4:
            self._merge()

    def extend(self, first: int, first_slot: int, count: int) -> None:
        """Add ``count`` identities, both counting up."""
        for index in range(count):
            self.set(first + index, first_slot + index)

    def remove(self, identity: int) -> None:
        """Forget an identity that is there."""
        self._recent[identity] = 0
        self._count -= 1

    def _merge(self) -> None:
        """Let the dict join the arrays; readers find each number in one or the other."""
        self._base = _base_of(*self.arrays())
        self._recent = {}

    def arrays(self) -> tuple[Array, Array]:
        """Return the live identities, rising, and their slots."""
        base = self._base
        numbers = np.frombuffer(base.numbers, "<i8") if base.numbers else np.empty(0, "<i8")
        slots = (np.frombuffer(base.slots, "<u4") if base.slots else np.empty(0)).astype("<i8")
        recent = self._recent
        if not recent:
            return numbers.copy(), slots
        count = len(recent)
        new_numbers = np.fromiter(recent, "<i8", count)
        new_slots = np.fromiter(recent.values(), "<i8", count)
        return _last_of_each(
            np.concatenate((numbers, new_numbers)), np.concatenate((slots, new_slots))
        )

    def __len__(self) -> int:
        """Return the number of live identities."""
        return self._count

    def __iter__(self) -> Iterator[int]:
        """Iterate over the identities that are live now, rising."""
        return iter(self.arrays()[0].tolist())


def _last_of_each(numbers: Array, slots: Array) -> tuple[Array, Array]:
    """Return the numbers, rising and each once, with their last slots; none where that is 0."""
    order = np.argsort(numbers, kind="stable")
    numbers, slots = numbers[order], slots[order]
    is_last = np.ones(len(numbers), bool)
    is_last[:-1] = numbers[1:] != numbers[:-1]
    keep = is_last & (slots != 0)
    return numbers[keep], slots[keep]
