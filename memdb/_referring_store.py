"""The inside of a collection with checked foreign keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from memdb._store import Current, Store
from memdb._transaction import TransactionScope

if TYPE_CHECKING:
    from memdb._members import Member
    from memdb._references import Reference

R = TypeVar("R")


class _Unproven(Exception):
    """Not all that a change refers to was found; a transaction has to find out."""


class ReferringStore(Store):
    """The records of one collection with checked foreign keys, for reading and writing.

    In a transaction the references are checked at its end. A single change outside of one mostly
    refers to records that are there already, which a look under the lock proves; a transaction of
    its own, which takes four times as long, says what is wrong, or that nothing is: records of
    one change may refer to each other.
    """

    def insert(self, record: Any, is_marked: bool = False) -> Any:
        """Insert a record and return its identity, see `Insertion.insert`."""
        return self._checked(super().insert, record, is_marked)

    def insert_many(self, records: list[Any], is_marked: bool = False) -> list[Any]:
        """Insert records as one commit, see `Insertion.insert_many`."""
        return self._checked(super().insert_many, records, is_marked)

    def replace(
        self, state: Current, record: Any, member: Member, is_marked: bool = False
    ) -> bool | None:
        """Write a new version of a record, see `Store.replace`."""
        return self._checked(super().replace, state, record, member, is_marked)

    def _checked(self, change: Callable[..., R], *arguments: Any) -> R:
        try:
            return change(*arguments)
        except _Unproven:
            pass
        with TransactionScope(self.engine):
            return change(*arguments)

    def autocommit(self, action: Callable[[], R], records: Sequence[Any]) -> R:
        """Run ``action`` if the records that are referred to are there, see `Store.autocommit`.

        Raises:
            _Unproven: Perhaps they are not.
        """
        # Before the references, whose collections a reader or a view need not have.
        self.engine.log.raise_if_unusable()
        found = [
            (reference, slots)
            for reference in self.checked
            if (slots := _found(reference, records))
        ]

        def proven() -> R:
            for reference, slots in found:
                is_there = reference.target.identities.find
                for number, slot in slots.items():
                    now = is_there(number)
                    # Of another slot, the number of a natural key may be that of another key.
                    if not now or now != slot != 0:
                        raise _Unproven
            return action()

        return super().autocommit(proven, records)


def _found(reference: Reference, records: Sequence[Any]) -> dict[int, int]:
    """Return the numbers of the records that some refer to, and their slots.

    The slot is 0 where it does not matter, as the number is the identity.

    Raises:
        _Unproven: One is not there, or needs another look.
    """
    found: dict[int, int] = {}
    for record in records:
        values = reference.values_of(record)
        if not values and reference.field == reference.store.shape.identity:
            # None is what gets an identity, which has to be there as well.
            raise _Unproven
        for value in values:
            target = reference.target
            if target.key is None:
                if type(value) is not int:
                    raise _Unproven
                found[value] = 0
            else:
                number, slot = target.find_version(value)
                if not slot:
                    raise _Unproven
                found[number] = slot
    return found
