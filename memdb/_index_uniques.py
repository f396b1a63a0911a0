"""Unique indexes: who claims which key, and that nobody else has it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any

from memdb._claims import Claims, Taken
from memdb._cloners import deep
from memdb._index_building import IndexBuilding
from memdb._scan import Snapshot
from memdb.errors import IndexKeyError, TransactionError
from memdb.indexes import UniqueEntries

if TYPE_CHECKING:
    from memdb._bound_index import BoundIndex


class UniqueKeys(IndexBuilding):
    """The inside of `IndexSet` that keeps unique indexes; it fills the attributes."""

    _bound: dict[str, BoundIndex]
    # A reentrant lock, whose type has no name.
    _lock: Any
    _exact_start: bytes | None
    uniques: dict[str, UniqueEntries]
    uniques_at: int
    claimed: list[BoundIndex]
    nothing_claimed: Claims
    is_strict: bool

    def is_changed_since(self, slot: int) -> bool:
        """Whether any record was changed from a slot on; the lock is held."""
        raise NotImplementedError

    @property
    def has_uniques(self) -> bool:
        """Whether any index is unique."""
        return bool(self.claimed)

    @property
    def are_uniques_built(self) -> bool:
        """Whether unique indexes know every key."""
        return len(self.uniques) == len(self.claimed)

    def build_uniques(self) -> None:
        """Build the unique indexes if they are not.

        Raises:
            DuplicateKeyError: Two records have the same key.
            IndexKeyError: A record's key can't be one.
        """
        store, log = self._store, self._store.engine.log
        while not self.are_uniques_built:
            with self._lock:
                with log.lock:
                    log.raise_if_closed()
                    stop, era = log.next_slot, log.era
                    numbers, slots = store.identities.arrays()
                snapshot = Snapshot(numbers, slots, stop, {}, era)
                built = {
                    bound.name: self._watched(self._build_unique(bound, snapshot))
                    for bound in self.claimed
                }
                with log.lock:
                    is_as_before = log.era is era and not self.is_changed_since(stop)
                    if is_as_before and list(built) == [each.name for each in self.claimed]:
                        self.uniques_at = log.next_slot
                        self.uniques = built
                        self.renew()

    def distrust(self) -> None:
        """Build unique indexes anew before the next write; the lock is held."""
        if self.uniques:
            self.uniques = {}
            self.renew()

    def claims(self, record: Any, payload: bytes, identity: Any = None) -> Claims:
        """Return the keys of a record that is about to be written in each unique index.

        Args:
            record: The user's, as it was encoded.
            payload: Its bytes, which tell whether its values are as the class says.
            identity: For the error.

        Raises:
            IndexKeyError: A key can't be one, in any of the indexes.
        """
        # Read before the indexes: if one is added after it, the claims are those of before.
        indexes, nothing = self.claimed, self.nothing_claimed
        if not self._bound:
            return nothing
        is_exact = self._exact_start is None or payload[:1] == self._exact_start
        try:
            claims = []
            for bound in list(self._bound.values()):
                if bound.unique is None and not (is_exact or bound.is_checked_always):
                    continue
                keys = bound.check(self.copy_for(bound, record))
                if bound.unique is not None and bound.unique is not bound:
                    keys = bound.unique.check(self.copy_for(bound.unique, record))
                if bound.unique is not None:
                    # A copy: what the caller can change must not change here.
                    claims.append(tuple(map(deep, keys)))
            return Claims(indexes, tuple(claims))
        except IndexKeyError as error:
            raise self._located(error, identity) from error.__cause__

    def claims_of_many(
        self, records: list[Any], payloads: list[bytes], identities: list[Any]
    ) -> list[Claims]:
        """Return the `claims` of each record, nothing where no index is unique.

        Args:
            records, payloads: As for `claims`.
            identities: Of the records, none where they have none yet.
        """
        if not self._bound:
            return []
        wanted = list(zip(records, payloads, identities or repeat(None), strict=False))
        if not self.is_strict:
            wanted = [each for each in wanted if each[1][:1] == self._exact_start]
        claims = [self.claims(*each) for each in wanted]
        return claims if self.claimed else []

    def refuse_taken(self, changes: Sequence[tuple[int, Claims | None]]) -> None:
        """Raise if a change would give two records one key; the lock is held, uniques are built.

        Args:
            changes: Number and claims of each record that is changed, None of one that is deleted.

        Raises:
            Taken: It would.
            TransactionError: The claims are for other indexes than there are now.
        """
        for _, claims in changes:
            if claims is not None and claims.indexes is not self.claimed:
                raise TransactionError(
                    f"{self._store.name}: a unique index was added or dropped during this change."
                    " Nothing was changed. Try again."
                )
        changed = {number for number, _ in changes}
        for place, (name, entries) in enumerate(self.uniques.items()):
            new: dict[Any, int] = {}
            for number, claims in changes:
                for key in claims.keys[place] if claims is not None else ():
                    if new.setdefault(key, number) != number:
                        raise Taken(self._store, name, number, new[key])
            for key, number in new.items():
                owner = entries.find(key)
                if owner and owner not in changed:
                    raise Taken(self._store, name, number, owner)

    def take_claims(self, changes: Sequence[tuple[int, Claims | None]]) -> None:
        """Enter what was written into the unique indexes; the lock is held."""
        for place, entries in enumerate(self.uniques.values()):
            # All keys are given up first: two records may have swapped theirs.
            for number, _ in changes:
                entries.remove(number)
            for number, claims in changes:
                for key in claims.keys[place] if claims is not None else ():
                    entries.set(number, key)

    def remove(self, number: int) -> None:
        """Take a deleted record out of the unique indexes; the lock is held."""
        for entries in self.uniques.values():
            entries.remove(number)
