"""From numbers that are spread evenly, as those of natural keys are, to slots."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np

from memdb.indexes._identity import Array, Part, update_one_by_one

_NUMBER_BITS = 63
_LEAST_BITS = 8
# Room behind the last number for those that find their places taken.
_OVERHANG = 64


class Table(NamedTuple):
    """An open hash table: a number is at the first place that was free, from its home on.

    Attributes:
        numbers: 0 where none is. The last place always is such: it ends every search.
        slots: Of their live versions; 0 where the record was deleted.
        shift: From a number to its home; its highest bits, which are as random as any.
        last: The last place.
    """

    numbers: array[int]
    slots: array[int]
    shift: int
    last: int


def _bits_for(count: int) -> int:
    """Return of how many bits a home is, so that a quarter more numbers fit in."""
    return max((count * 15 // 8).bit_length(), _LEAST_BITS)


def _limit_of(bits: int) -> int:
    """Return how many numbers a table takes: two thirds full, a search looks at five places."""
    return (2 << bits) // 3


def _table_of(numbers: Array, slots: Array, bits: int) -> Table:
    """Make the table of rising numbers, (n,) <i8, and their slots, (n,) of integers."""
    shift = _NUMBER_BITS - bits
    # Each goes to its home, or the place behind the one before it: the table is in order.
    steps, places = np.arange(len(numbers)), numbers >> shift
    places -= steps
    np.maximum.accumulate(places, out=places)
    places += steps
    size = max(2**bits, int(places[-1]) + 1 if len(places) else 0) + _OVERHANG
    # Python reads an item of an array in half the time that one of NumPy's takes.
    table = Table(array("q", [0]) * size, array("I", [0]) * size, shift, size - 1)
    np.frombuffer(table.numbers, "<i8")[places] = numbers
    np.frombuffer(table.slots, "<u4")[places] = slots
    return table


class HashedIdentities:
    """Numbers and slots in a hash table of two arrays, 18 to 36 bytes a record.

    Cost: `find`, `set` and `remove` O(1) expected; `set` now and then makes a table of twice the
    size, O(n) and vectorised. 0.2 us among a hundred thousand, 0.4 among a million, which are
    more than the processor's caches hold.

    Attributes:
        table: Replaced as a whole when it is full; its arrays keep their size.
        room: How many new numbers it still takes.
    """

    __slots__ = ("_holes", "_limit", "next_identity", "room", "table")

    def __init__(self) -> None:
        # Nothing is ever assigned.
        self.next_identity = 1
        self._fill(np.empty(0, "<i8"), np.empty(0, "<i8"))

    def _fill(self, numbers: Array, slots: Array) -> None:
        bits = _bits_for(len(numbers))
        table, limit = _table_of(numbers, slots, bits), _limit_of(bits)
        room = limit - len(numbers)
        # Invariant: no call between these, so that an interrupt (Ctrl-C) finds all or none done.
        self.table = table
        self.room = room
        self._limit = limit
        # Places of deleted records: counting these keeps a counter out of the insert.
        self._holes = 0

    @classmethod
    def build(cls, parts: Iterable[Part], count: int, last_identity: int) -> HashedIdentities:
        """Make the index of a collection from its pointers; as `IdentityIndex.build`.

        Cost: O(n log n), vectorised: 0.05 s for a million.
        """
        self = cls()
        pairs = list(parts)
        if pairs:
            numbers = np.concatenate([part[0] for part in pairs]).astype("<i8", copy=False)
            slots = np.concatenate([part[1] for part in pairs])
            self._fill(*_last_of_each(numbers, slots))
        return self

    def find(self, identity: int) -> int:
        """Return the slot of the live version, 0 when there is none."""
        numbers, slots, shift, _ = self.table
        place = identity >> shift
        while (number := numbers[place]) != identity:
            if not number:
                return 0
            place += 1
        return slots[place]

    def find_many(self, identities: Array) -> Array:
        """Return the slots of numbers that are live, (n,) <i8 each."""
        return np.fromiter(map(self.find, identities.tolist()), "<i8", len(identities))

    def set(self, identity: int, slot: int) -> None:
        """Make ``slot`` the live version of ``identity``."""
        numbers, slots, shift, last = self.table
        place = identity >> shift
        while number := numbers[place]:
            if number == identity:
                is_hole = not slots[place]
                # Invariant: as in _fill.
                self._holes -= is_hole
                slots[place] = slot
                return
            place += 1
        if not self.room or place == last:
            self._fill(*self.arrays())
            self.set(identity, slot)
            return
        # Invariant: as in _fill; and the slot first, for readers, who take no lock. `memdb._hot`
        # has these three lines again.
        slots[place] = slot
        numbers[place] = identity
        self.room -= 1

    def extend(self, first: int, first_slot: int, count: int) -> None:
        """Add ``count`` identities, both counting up."""
        for index in range(count):
            self.set(first + index, first_slot + index)

    def remove(self, identity: int) -> None:
        """Forget an identity that is there."""
        numbers, slots, shift, _ = self.table
        place = identity >> shift
        while numbers[place] != identity:
            place += 1
        slots[place] = 0
        self._holes += 1

    def update(self, identities: Array, slots: Array) -> None:
        """Take in versions."""
        update_one_by_one(self, identities, slots)

    def renumber(self, renumbered: Callable[[Array], Array]) -> None:
        """Give each version another slot."""
        slots = np.frombuffer(self.table.slots, "<u4")
        slots[:] = renumbered(slots)

    def arrays(self) -> tuple[Array, Array]:
        """Return the live identities, rising, and their slots."""
        table = self.table
        all_slots = np.frombuffer(table.slots, "<u4")
        places = np.flatnonzero(all_slots)
        numbers = np.frombuffer(table.numbers, "<i8")[places]
        order = np.argsort(numbers)
        return numbers[order], all_slots[places[order]].astype("<i8")

    def __len__(self) -> int:
        """Return the number of live identities."""
        return self._limit - self.room - self._holes

    def __iter__(self) -> Iterator[int]:
        """Iterate over the identities that are live now, rising."""
        return iter(self.arrays()[0].tolist())


def _last_of_each(numbers: Array, slots: Array) -> tuple[Array, Array]:
    """Return the numbers, rising and each once, with their last slots; none where that is 0."""
    # Not a stable sort, which takes five times as long: the last of some equal ones is told by
    # its place in the order of commit.
    order = np.argsort(numbers)
    numbers = numbers[order]
    is_first = np.ones(len(numbers), bool)
    is_first[1:] = numbers[1:] != numbers[:-1]
    if not is_first.all():
        firsts = np.flatnonzero(is_first)
        order = np.maximum.reduceat(order, firsts)
        numbers = numbers[firsts]
    slots = slots[order]
    # A number below 1 is none, whatever the file says.
    keep = (slots != 0) & (numbers > 0)
    return (numbers, slots) if keep.all() else (numbers[keep], slots[keep])
