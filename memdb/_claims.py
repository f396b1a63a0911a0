"""Claims: the keys that a change wants in unique indexes, and one that is another's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from memdb._bound_index import BoundIndex
    from memdb._insertion import Insertion


class Claims(NamedTuple):
    """The keys of a record in the unique indexes of its collection.

    Attributes:
        indexes: `IndexSet.claimed` as it was when they were made.
        keys: For each of them the keys of the record: one, or none.
    """

    indexes: list[BoundIndex]
    keys: tuple[tuple[Any, ...], ...]


NO_CLAIMS: Final = Claims([], ())
"""Of records that were written while there were no unique indexes."""


class Taken(Exception):
    """A unique key that a change claims is another record's; becomes DuplicateKeyError."""

    def __init__(self, store: Insertion, index: str, number: int, owner: int) -> None:
        super().__init__(index, number, owner)
        self.store = store
        self.index = index
        self.number = number
        self.owner = owner
