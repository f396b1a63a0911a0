"""Claims: the keys that a change wants in unique indexes, and one that is another's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memdb._insertion import Insertion

# For each unique index the keys of a record in it: one, or none.
Claims = tuple[tuple[Any, ...], ...]


class Taken(Exception):
    """A unique key that a change claims is another record's; becomes DuplicateKeyError."""

    def __init__(self, store: Insertion, index: str, number: int, owner: int) -> None:
        super().__init__(index, number, owner)
        self.store = store
        self.index = index
        self.number = number
        self.owner = owner
