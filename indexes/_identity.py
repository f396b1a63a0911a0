"""From an identity to the slot of the record's live version."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Part = tuple[Array, Array]

MAX_IDENTITY = 2**63 - 1

# Up to so many versions are taken in one by one: NumPy's calls cost as much.
_FEW = 64

# The array part may have so many places more than four times its records: 256 KiB of zeros.
_SLACK = 65_536


class Identities(Protocol):
    """What a collection needs of its identity index.

    Threads: changes need the writer's lock; `find` needs none.
    """

    @property
    def next_identity(self) -> int:
        """The lowest identity that was never given; only ever rises."""

    def find(self, identity: int) -> int:
        """Return the slot of the live version, 0 when there is none."""

    def find_many(self, identities: Array) -> Array:
        """Return the slots of identities that are live, (n,) <i8 each."""

    def set(self, identity: int, slot: int) -> None:
        """Make ``slot`` the live version, of a new identity or instead of an older version."""

    def extend(self, first: int, first_slot: int, count: int) -> None:
        """Add ``count`` new identities and slots, both counting up; ``first`` is the next one."""

    def remove(self, identity: int) -> None:
        """Forget an identity that is there."""

    def update(self, identities: Array, slots: Array) -> None:
        """Take in versions in the order in which they were committed, slot 0 for a deletion.

        Doing it twice is as good as once.

        Args:
            identities: (n,) <i8.
            slots: (n,) <i8.
        """

    def renumber(self, renumbered: Callable[[Array], Array]) -> None:
        """Give each version another slot, in place: its array is known to the generated insert.

        Args:
            renumbered: Makes new slots of old ones, (n,) of integers each; of 0 it makes 0.
        """

    def arrays(self) -> tuple[Array, Array]:
        """Return the live identities, rising, and their slots, (n,) <i8 each, own copies."""

    def __len__(self) -> int:
        """Return the number of live identities."""

    def __iter__(self) -> Iterator[int]:
        """Iterate over the identities that are live now, rising."""


def update_one_by_one(index: Identities, identities: Array, slots: Array) -> None:
    """Take in versions, see `Identities.update`."""
    for identity, slot in zip(identities.tolist(), slots.tolist(), strict=True):
        if slot:
            index.set(identity, slot)
        elif index.find(identity):
            index.remove(identity)


class IdentityIndex:
    """Dense identities in a flat array of 4 bytes each, the others in a dict.

    Cost: `find` and `set` O(1); 4 bytes an identity while they are dense.

    Attributes:
        dense: Identity -> slot for identities below its length, 0 for none. Place 0 is unused.
        sparse: Identity -> slot for those above.
        is_dense: Nothing was ever given above the array: the next identity is ``len(dense)``,
            which is what lets an insert be a single append.
    """

    __slots__ = ("_beyond", "_holes", "dense", "is_dense", "sparse")

    def __init__(self) -> None:
        self.dense: array[int] = array("I", [0])
        self.sparse: dict[int, int] = {}
        self.is_dense = True
        # The next identity while not is_dense.
        self._beyond = 1
        # Places of dense without a live record: counting these and not the records keeps a
        # counter out of the insert.
        self._holes = 0

    @classmethod
    def build(cls, parts: Iterable[Part], count: int, last_identity: int) -> IdentityIndex:
        """Make the index of a collection from its pointers.

        Args:
            parts: Identities and slots, (n,) of integers each, in order of commit; an identity
                may occur again, and the slot of a deletion is 0.
            count: About how many identities there may be.
            last_identity: The highest identity ever given; none is higher.

        Cost: O(n), one vectorised scatter while the identities are dense.
        """
        self = cls()
        if last_identity < self._dense_limit(count):
            dense = np.zeros(last_identity + 1, "u4")
            for identities, slots in parts:
                # NumPy assigns in order, so that the last version of an identity stays.
                dense[identities] = slots
            self.dense = array("I")
            self.dense.frombytes(dense.data.cast("B"))
            self._holes = last_identity - int(np.count_nonzero(dense))
        else:
            for identities, slots in parts:
                self.sparse.update(zip(identities.tolist(), slots.tolist(), strict=True))
            self.sparse = {identity: slot for identity, slot in self.sparse.items() if slot}
            self._beyond = last_identity + 1
            self.is_dense = False
        return self

    @staticmethod
    def _dense_limit(count: int) -> int:
        return 4 * count + _SLACK

    @property
    def next_identity(self) -> int:
        """The lowest identity that was never given."""
        return len(self.dense) if self.is_dense else self._beyond

    def find(self, identity: int) -> int:
        """Return the slot of the live version, 0 when there is none."""
        if 0 < identity < len(self.dense):
            return self.dense[identity]
        return self.sparse.get(identity, 0)

    def find_many(self, identities: Array) -> Array:
        """Return the slots of identities that are live; the writers' lock is held."""
        if self.sparse:
            return np.fromiter(map(self.find, identities.tolist()), "<i8", len(identities))
        # The array can't grow while NumPy looks at it: only for this one line.
        slots: Array = np.frombuffer(self.dense, "<u4")[identities].astype("<i8")
        return slots

    def set(self, identity: int, slot: int) -> None:
        """Make ``slot`` the live version of ``identity``."""
        size = len(self.dense)
        if identity < size:
            if not self.dense[identity]:
                self._holes -= 1
            self.dense[identity] = slot
        elif self.is_dense and identity < self._dense_limit(size):
            zeros = bytes((identity - size) * self.dense.itemsize)
            # No call between these two, so that an interrupt finds both done or neither.
            self._holes += identity - size
            self.dense.frombytes(zeros)
            self.dense.append(slot)
        else:
            self._beyond = max(self.next_identity, identity + 1)
            self.is_dense = False
            self.sparse[identity] = slot

    def extend(self, first: int, first_slot: int, count: int) -> None:
        """Add ``count`` new identities from the next one on."""
        if not self.is_dense:
            for index in range(count):
                self.set(first + index, first_slot + index)
        else:
            slots = np.arange(first_slot, first_slot + count, dtype="u4")
            self.dense.frombytes(slots.tobytes())

    def remove(self, identity: int) -> None:
        """Forget an identity that is there."""
        if identity < len(self.dense):
            self.dense[identity] = 0
            self._holes += 1
        else:
            del self.sparse[identity]

    def update(self, identities: Array, slots: Array) -> None:
        """Take in versions. Cost: O(n) and, of many, O(identities there are), vectorised."""
        many = len(identities) > _FEW
        highest = int(identities.max()) if many else 0
        size = len(self.dense)
        is_new = highest >= size
        if not many or (is_new and not (self.is_dense and highest < self._dense_limit(size))):
            update_one_by_one(self, identities, slots)
            return
        if is_new:
            self._holes += highest + 1 - size
            self.dense.frombytes(bytes((highest + 1 - size) * self.dense.itemsize))
        # The array can't grow while NumPy looks at it: only for these lines.
        dense = np.frombuffer(self.dense, "<u4")
        # NumPy assigns in order, so that the last version of an identity stays.
        dense[identities] = slots
        holes = len(dense) - 1 - int(np.count_nonzero(dense))
        del dense
        self._holes = holes

    def renumber(self, renumbered: Callable[[Array], Array]) -> None:
        """Give each version another slot."""
        # The array can't grow while NumPy looks at it: only for these lines.
        dense = np.frombuffer(self.dense, "<u4")
        dense[:] = renumbered(dense)
        del dense
        if self.sparse:
            slots = renumbered(np.fromiter(self.sparse.values(), "<i8", len(self.sparse)))
            self.sparse.update(zip(self.sparse, slots.tolist(), strict=True))

    def arrays(self) -> tuple[Array, Array]:
        """Return the live identities, rising, and their slots."""
        # A copy first: an array that NumPy looks at can't grow meanwhile.
        dense = np.array(self.dense[:], dtype="<i8")
        identities = np.flatnonzero(dense)
        slots = dense[identities]
        if self.sparse:
            pairs = np.array(sorted(self.sparse.items()), dtype="<i8")
            identities = np.concatenate((identities, pairs[:, 0]))
            slots = np.concatenate((slots, pairs[:, 1]))
        return identities, slots

    def __len__(self) -> int:
        """Return the number of live identities."""
        return len(self.dense) - 1 - self._holes + len(self.sparse)

    def __iter__(self) -> Iterator[int]:
        """Iterate over the identities that are live now, rising."""
        return iter(self.arrays()[0].tolist())


class ScannedIdentities:
    """No index: the live identities and slots in one array that `find` scans.

    For whoever never looks up by identity and would rather have the time of an insert.

    Cost: `find`, `set` of an old identity and `remove` O(n); 16 bytes an identity.
    """

    __slots__ = ("_pairs", "next_identity")

    def __init__(self) -> None:
        # Identity, slot, identity, slot: one array, so that each change is one operation and
        # a reader without a lock never sees half of it.
        self._pairs: array[int] = array("q")
        self.next_identity = 1

    @classmethod
    def build(cls, parts: Iterable[Part], count: int, last_identity: int) -> ScannedIdentities:
        """Make it from a collection's pointers; the arguments are those of `IdentityIndex`."""
        self = cls()
        live = IdentityIndex.build(parts, count, last_identity)
        self._pairs.frombytes(np.stack(live.arrays(), axis=1).astype("<i8").tobytes())
        self.next_identity = live.next_identity
        return self

    def _rows(self) -> Array:
        # A copy first: an array that NumPy looks at can't grow meanwhile.
        return np.frombuffer(self._pairs[:], "<i8").reshape(-1, 2)

    def _place(self, identity: int) -> tuple[int, int]:
        """Return the row and the slot of an identity, (-1, 0) when it is not there."""
        rows = self._rows()
        found = np.flatnonzero(rows[:, 0] == identity)
        return (int(found[0]), int(rows[found[0], 1])) if len(found) else (-1, 0)

    def find(self, identity: int) -> int:
        """Return the slot of the live version, 0 when there is none."""
        return self._place(identity)[1] if 0 < identity < self.next_identity else 0

    def find_many(self, identities: Array) -> Array:
        """Return the slots of identities that are live."""
        live, slots = self.arrays()
        found: Array = slots[np.searchsorted(live, identities)]
        return found

    def set(self, identity: int, slot: int) -> None:
        """Make ``slot`` the live version of ``identity``."""
        row = self._place(identity)[0] if identity < self.next_identity else -1
        if row >= 0:
            self._pairs[2 * row + 1] = slot
            return
        pair = np.array([identity, slot], "<i8").tobytes()
        # First, so that after an interrupt the same call looks whether the pair is there.
        self.next_identity = max(self.next_identity, identity + 1)
        self._pairs.frombytes(pair)

    def extend(self, first: int, first_slot: int, count: int) -> None:
        """Add ``count`` new identities from the next one on."""
        steps = np.arange(count, dtype="<i8")
        rows = np.stack((first + steps, first_slot + steps), axis=1)
        pairs = rows.tobytes()
        self.next_identity = first + count
        self._pairs.frombytes(pairs)

    def remove(self, identity: int) -> None:
        """Forget an identity that is there."""
        row, _ = self._place(identity)
        del self._pairs[2 * row : 2 * row + 2]

    def update(self, identities: Array, slots: Array) -> None:
        """Take in versions."""
        update_one_by_one(self, identities, slots)

    def renumber(self, renumbered: Callable[[Array], Array]) -> None:
        """Give each version another slot."""
        rows = np.frombuffer(self._pairs, "<i8").reshape(-1, 2)
        rows[:, 1] = renumbered(rows[:, 1])

    def arrays(self) -> tuple[Array, Array]:
        """Return the live identities, rising, and their slots."""
        rows = self._rows()
        rows = rows[np.argsort(rows[:, 0], kind="stable")]
        return rows[:, 0].copy(), rows[:, 1].copy()

    def __len__(self) -> int:
        """Return the number of live identities."""
        return len(self._pairs) // 2

    def __iter__(self) -> Iterator[int]:
        """Iterate over the identities that are live now, rising."""
        return iter(self.arrays()[0].tolist())
