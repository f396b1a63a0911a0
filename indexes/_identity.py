"""From an identity to the slot of the record's live version."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

MAX_IDENTITY = 2**63 - 1

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

    def set(self, identity: int, slot: int) -> None:
        """Make ``slot`` the live version, of a new identity or instead of an older version."""

    def extend(self, first: int, first_slot: int, count: int) -> None:
        """Add ``count`` new identities and slots, both counting up; ``first`` is the next one."""

    def remove(self, identity: int) -> None:
        """Forget an identity that is there."""

    def arrays(self) -> tuple[Array, Array]:
        """Return the live identities, rising, and their slots, (n,) <i8 each, own copies."""

    def __len__(self) -> int:
        """Return the number of live identities."""

    def __iter__(self) -> Iterator[int]:
        """Iterate over the identities that are live now, rising."""


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
    def build(cls, identities: Array, slots: Array, last_identity: int) -> IdentityIndex:
        """Make the index of a collection from its pointers.

        Args:
            identities: (n,) <i8, in order of commit; an identity may occur again.
            slots: (n,) integers, 0 for a deletion.
            last_identity: The highest identity ever given.

        Cost: O(n), one vectorised scatter while the identities are dense.
        """
        self = cls()
        highest = max(int(identities.max(initial=0)), last_identity)
        if highest < self._dense_limit(len(identities)):
            dense = np.zeros(highest + 1, "u4")
            # NumPy assigns in order, so that the last version of an identity stays.
            dense[identities] = slots
            self.dense = array("I")
            self.dense.frombytes(dense.tobytes())
            self._holes = highest - int(np.count_nonzero(dense))
        else:
            pairs = zip(identities.tolist(), slots.tolist(), strict=True)
            self.sparse = {identity: slot for identity, slot in dict(pairs).items() if slot}
            self._beyond = highest + 1
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

    def set(self, identity: int, slot: int) -> None:
        """Make ``slot`` the live version of ``identity``."""
        size = len(self.dense)
        if identity < size:
            if not self.dense[identity]:
                self._holes -= 1
            self.dense[identity] = slot
        elif self.is_dense and identity < self._dense_limit(size):
            self.dense.frombytes(bytes((identity - size) * self.dense.itemsize))
            self._holes += identity - size
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

    def arrays(self) -> tuple[Array, Array]:
        """Return the live identities, rising, and their slots."""
        dense = np.array(self.dense, dtype="<i8")
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
    """No index: the live identities and slots in two arrays that `find` scans.

    For whoever never looks up by identity and would rather have the memory and the time of
    an insert.

    Cost: `find`, `set` of an old identity and `remove` O(n); 12 bytes an identity.
    """

    __slots__ = ("_identities", "_slots", "next_identity")

    def __init__(self) -> None:
        self._identities: array[int] = array("q")
        self._slots: array[int] = array("I")
        self.next_identity = 1

    @classmethod
    def build(cls, identities: Array, slots: Array, last_identity: int) -> ScannedIdentities:
        """Make it from a collection's pointers; the arguments are those of `IdentityIndex`."""
        self = cls()
        live = IdentityIndex.build(identities, slots, last_identity)
        own, their_slots = live.arrays()
        self._identities.frombytes(own.astype("<i8").tobytes())
        self._slots.frombytes(their_slots.astype("u4").tobytes())
        self.next_identity = live.next_identity
        return self

    def _place(self, identity: int) -> int:
        # A copy, as an array that somebody looks at can't grow.
        found = np.flatnonzero(np.array(self._identities, dtype="<i8") == identity)
        return int(found[0]) if len(found) else -1

    def find(self, identity: int) -> int:
        """Return the slot of the live version, 0 when there is none."""
        if not 0 < identity < self.next_identity:
            return 0
        place = self._place(identity)
        return self._slots[place] if place >= 0 else 0

    def set(self, identity: int, slot: int) -> None:
        """Make ``slot`` the live version of ``identity``."""
        place = self._place(identity) if identity < self.next_identity else -1
        if place >= 0:
            self._slots[place] = slot
            return
        self._identities.append(identity)
        self._slots.append(slot)
        self.next_identity = max(self.next_identity, identity + 1)

    def extend(self, first: int, first_slot: int, count: int) -> None:
        """Add ``count`` new identities from the next one on."""
        self._identities.extend(range(first, first + count))
        self._slots.extend(range(first_slot, first_slot + count))
        self.next_identity = first + count

    def remove(self, identity: int) -> None:
        """Forget an identity that is there."""
        place = self._place(identity)
        del self._identities[place]
        del self._slots[place]

    def arrays(self) -> tuple[Array, Array]:
        """Return the live identities, rising, and their slots."""
        identities = np.array(self._identities, dtype="<i8")
        order = np.argsort(identities, kind="stable")
        return identities[order], np.array(self._slots, dtype="<i8")[order]

    def __len__(self) -> int:
        """Return the number of live identities."""
        return len(self._identities)

    def __iter__(self) -> Iterator[int]:
        """Iterate over the identities that are live now, rising."""
        return iter(self.arrays()[0].tolist())
