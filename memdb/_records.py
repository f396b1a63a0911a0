"""The records of a collection as they are read: identities, cache, decoding."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from memdb._decoding import Decoding
from memdb._members import Members
from memdb._natural_key import NaturalKey
from memdb._transaction import Deleted
from memdb.errors import DamageError, DecodeError, IdentityError
from memdb.indexes import HashedIdentities, IdentityIndex, ScannedIdentities
from memdb.indexes._identity import Identities
from memdb.serializers import Evolution, Serializer, shape_of
from memdb.storage import Array, Kind, Moved

if TYPE_CHECKING:
    from memdb._declaration import Declaration
    from memdb._engine import Engine
    from memdb._index_set import IndexSet
    from memdb._references import Reference


class Horizon:
    """Until where a collection's versions are visible.

    Attributes:
        slot: The slot after the last commit that changed it, as of when that was made visible. It
            is raised under the log's lock before anything else is changed, so that a reader who
            finds it the same before and after has seen a single state of the collection.
        taken: How often a record was taken out of the cache by an open transaction; raised before
            that. A reader who finds it the same before and after, and the cache complete before,
            may conclude from its not being there that there is no such record.
    """

    __slots__ = ("slot", "taken")

    def __init__(self) -> None:
        self.slot = 0
        self.taken = 0


class Records:
    """The records of one collection, for reading.

    A record's *number* is the identity in its pointer. Without a natural key the two are the
    same; with one, the number is a hash of it, see `memdb.indexes._keys`.

    Attributes:
        members: The classes of the records.
        query_shape: What queries can ask of a record: the fields, and the functions of indexes.
        key: The natural key, None where identities are numbers.
        indexes: The applied indexes.
        horizon: Until where its versions are visible.
        cache: Number -> decoded live version. Its objects are never changed and never given
            away; a change removes the old one. An entry is as good as proof that the database
            is open and no transaction has touched the record, so that a hit needs no check.
        cache_limit: The most entries, or None.
        identities: Number -> slot of the live version.
        collection_id: Number in the catalogue, 0 until the first write.
        references: The foreign keys of the collection.
        checked: Those of them that are checked.
        referrers: The foreign keys, of all collections that were asked for, that are checked and
            lead here.
        declaration: How the program has asked for the collection.
        on_key: Called when a reader's natural key has become that of the file.
        on_untyped: Called once, when `decoding.is_typed` or `decoding.is_native` becomes False; by
            any thread, in the middle of a reading, and before what is read is there.
    """

    on_untyped: Callable[[], None] | None = None
    on_key: Callable[[], None] | None = None

    declaration: Declaration
    indexes: IndexSet
    references: tuple[Reference, ...] = ()
    checked: tuple[Reference, ...] = ()
    referrers: tuple[Reference, ...] = ()

    def __init__(
        self,
        engine: Engine,
        name: str,
        members: Members,
        key: NaturalKey | None,
        *,
        serializer: Serializer,
        evolution: Evolution,
        cache_limit: int | None,
        has_identity_index: bool,
    ) -> None:
        self.engine = engine
        self.name = name
        self.members = members
        self.shape = members.shape
        self.query_shape = members.shape
        self.cloner = members.cloner
        self.key = key
        self.serializer = serializer
        self.evolution = evolution
        self.dict_shape = shape_of(None) if key is None else replace(shape_of(None), identity=None)
        self.horizon = Horizon()
        self.cache: dict[int, Any] = {}
        self.cache_limit = cache_limit
        self.decoding = Decoding(self)
        self.collection_id = engine.collection_id(name)
        if self.collection_id:
            for member in members:
                member.set_writer(
                    self.collection_id,
                    engine.writer_id(self.collection_id, member.schema),
                    engine.log,
                )
        self._has_identity_index = has_identity_index
        with engine.log.lock:
            self.identities = self.identities_here()

    def identities_here(self) -> Identities:
        """Return the identity index for what the log has; the lock is held."""
        log, number = self.engine.log, self.collection_id
        count, last = log.next_slot - log.first_slot, log.last_identities.get(number, 0)
        return self.identities_in(log.pointer_parts(), number, count, last)

    def identities_in(
        self,
        parts: Iterable[tuple[int, Array]],
        collection_id: int,
        count: int,
        last_identity: int,
    ) -> Identities:
        """Return the identity index for what a file holds of the collection.

        Args:
            parts: All pointers, with the slot of the first of each part, in order of slots.
            collection_id: The number of the collection there.
            count: How many pointers there are.
            last_identity: The highest identity ever given.

        Raises:
            DamageError: A pointer is none that memdb writes.
        """
        cls: type[Any] = IdentityIndex if self.key is None else HashedIdentities
        if not self._has_identity_index:
            cls = ScannedIdentities
        own = self._own_pointers(parts, collection_id)
        made: Identities = cls.build(own, count, last_identity)
        return made

    def _own_pointers(
        self, parts: Iterable[tuple[int, Array]], collection_id: int
    ) -> Iterator[tuple[Array, Array]]:
        """Give identities and slots of a collection's versions, slot 0 for a deletion."""
        for first, pointers in parts:
            slots = np.arange(first, first + len(pointers), dtype="u4")
            identities, kinds = pointers["identity"], pointers["kind"]
            is_deletion = kinds == Kind.DELETED
            if is_deletion.any():
                slots[is_deletion] = 0
            is_own = pointers["collection"] == collection_id
            if not is_own.all():
                identities, kinds, slots = identities[is_own], kinds[is_own], slots[is_own]
            if len(slots):
                self._refuse_unknown(identities.min(), kinds.min(), kinds.max())
            yield identities, slots

    def refuse_unknown(self, pointers: Array) -> None:
        """Raise DamageError for pointers that memdb does not write."""
        kinds = pointers["kind"]
        self._refuse_unknown(pointers["identity"].min(), kinds.min(), kinds.max())

    def _refuse_unknown(self, identity: int, first_kind: int, last_kind: int) -> None:
        """Raise for pointers that memdb does not write, though their checksum is right."""
        if identity < 1 or first_kind < min(Kind) or last_kind > max(Kind):
            path = self.engine.log.path
            raise DamageError(
                f"{path}: {self.name} has a version with the identity {identity} or of a kind from"
                f" {first_kind} to {last_kind}, which memdb does not write. Call check() for the"
                " place, and restore the file from a copy.",
                path=path,
            )

    # -- where a record is ---------------------------------------------------------------

    def slot_of(self, number: int) -> int:
        """Return the slot of the committed live version, 0 when there is none."""
        slot = self.identities.find(number)
        if self.engine.is_publishing:
            with self.engine.log.lock:
                slot = self.identities.find(number)
        return slot

    def is_there(self, number: int) -> bool:
        """Whether a record has this number, as the calling context sees it."""
        transaction = self.engine.current()
        if transaction is not None:
            change = transaction.find(self, number)
            if change is not None:
                return not isinstance(change, Deleted)
        return self.slot_of(number) != 0

    def find_number(self, identity: object) -> int:
        """Return the number of the record with an identity, 0 when there is none."""
        return self.find_version(identity)[0]

    def find_version(self, identity: object) -> tuple[int, int]:
        """Return number and slot of the record with an identity, (0, 0) when there is none.

        The slot is 0 where the calling context's transaction has changed the record.
        """
        self.engine.log.raise_if_closed()
        if self.key is None:
            if type(identity) is not int:
                return 0, 0
            slot = self._slot_here(identity)
            return (0, 0) if slot is None else (identity, slot)
        try:
            encoded = self.key.encode(identity)
        except IdentityError:
            # What can't be a key is the key of no record.
            return 0, 0
        numbers = self.key.numbers(encoded)
        for number in numbers:
            try:
                found, slot = self.key_at(self.key, number)
            except DamageError:
                # It must be possible to delete or replace what can't be read any more. Of a
                # number that no two keys share, the key is as good as certain.
                if self.key.is_displaced:
                    raise
                return number, self.slot_of(number)
            if found == encoded:
                return number, slot
        return 0, 0

    def _slot_here(self, number: int) -> int | None:
        """Return the slot as the calling context sees it, 0 if its transaction changed it."""
        if self.engine.transaction is not None:
            transaction = self.engine.current()
            change = None if transaction is None else transaction.find(self, number)
            if change is not None:
                return None if isinstance(change, Deleted) else 0
        return self.slot_of(number) or None

    def key_at(self, key: NaturalKey, number: int) -> tuple[tuple[int, bytes] | None, int]:
        """Return the encoded key of the record with a number, None for none, and its slot.

        The slot first and then the key of just that version: between two look-ups the number may
        be given to a record with another key.

        Raises:
            DecodeError: The record can't be made, and not even its key can be told.
        """
        try:
            return self._key_at(key, number)
        except Moved:
            return self.key_at(key, number)

    def _key_at(self, key: NaturalKey, number: int) -> tuple[tuple[int, bytes] | None, int]:
        slot = self._slot_here(number)
        if slot is None:
            return None, 0
        try:
            if not slot:
                found = self.shared(number)
                return (None if found is None else key.encode(key.of(found[0]))), 0
            # What readers share they may have changed: what the file says is asked of the file.
            record = None if self.cloner.is_sharing else self.cache.get(number)
            if record is None or self.identities.find(number) != slot:
                record = self.record_at(slot)
            return key.encode(key.of(record)), slot
        except DecodeError as error:
            # The record can't be read with this class, and can be deleted or replaced all the same.
            if error.identity is None:
                raise
            return key.encode(error.identity), slot

    def identity_of(self, number: int, record: Any) -> Any:
        """Return what the user calls a stored record."""
        return number if self.key is None else self.key.of(record)

    # -- reading -------------------------------------------------------------------------

    def read(self, identity: object) -> Any:
        """Return a copy of a record, None when there is none."""
        engine = self.engine
        log = engine.log
        if log.is_closed:
            log.raise_if_closed()
        if self.key is not None:
            return self._read_by_key(self.key, identity)
        if type(identity) is not int:
            return None
        return self._given(self.shared(identity))

    def _read_by_key(self, key: NaturalKey, identity: object) -> Any:
        try:
            encoded = key.encode(identity)
        except IdentityError:
            return None
        for number in key.numbers(encoded):
            found = self.shared(number)
            if found is not None and key.is_of(found[0], encoded):
                return self._given(found)
        return None

    def _given(self, found: tuple[Any, bool] | None) -> Any:
        if found is None:
            return None
        record, is_kept = found
        return self.cloner.clone(record) if is_kept else record

    def shared(self, number: int) -> tuple[Any, bool] | None:
        """Return a record and whether the cache has it too; None when there is none.

        It must not be changed, nor given to anybody who might.
        """
        engine = self.engine
        log = engine.log
        if engine.transaction is not None:
            transaction = engine.current()
            change = None if transaction is None else transaction.find(self, number)
            if change is not None:
                if isinstance(change, Deleted):
                    return None
                return change.member.codec.decode(change.payload, number), False
        record = self.cache.get(number)
        if record is not None:
            return record, True
        slot = self.slot_of(number)
        if not slot:
            return None
        try:
            _, writer_id, _, payload = log.read(slot)
        except Moved:
            return self.shared(number)
        record = self.decoding.decode(writer_id, payload, number)
        conforms = self.cloner.conforms
        if self.cache_limit == 0 or (conforms is not None and not conforms(record)):
            return record, False
        with log.lock:
            transaction = engine.transaction
            is_kept = (
                self.identities.find(number) == slot
                and not log.is_closed
                and (transaction is None or transaction.find(self, number) is None)
            )
            if is_kept:
                self.cache[number] = record
                if self.cache_limit is not None and len(self.cache) > self.cache_limit:
                    self._evict()
        return record, is_kept

    def _evict(self) -> None:
        """Shrink a bounded cache; the lock is held."""
        cache, limit = self.cache, self.cache_limit
        assert limit is not None
        # The oldest sixteenth at once: cheaper than one by one, and a hit stays free.
        for identity in list(islice(cache, len(cache) - limit + limit // 16)):
            cache.pop(identity, None)

    # -- what came from elsewhere --------------------------------------------------------

    def take_numbers(self, collection_id: int, key: NaturalKey | None) -> None:
        """Take what the catalogue says of the collection and its classes by now.

        For a reader: a writer sets its own.

        Args:
            collection_id: 0 where the catalogue does not have it.
            key: The natural key, where the collection has just come into the file.
        """
        for member in self.members:
            writer_id = self.engine.writer_id(collection_id, member.schema)
            if writer_id != member.writer_id:
                member.set_writer(collection_id, writer_id, self.engine.log)
        if self.key is not None:
            if key is not None:
                self.key.become(key)
                if self.on_key is not None:
                    self.on_key()
            entry = self.engine.entry_of(self.name) or {}
            if entry.get("key", {}).get("displaced"):
                self.key.is_displaced = True
        # Last: by it a call that comes after an interrupt knows whether there is a key to take.
        self.collection_id = collection_id

    def take_in(self, numbers: Array, slots: Array) -> None:
        """Make versions that another process has written the live ones; the lock is held.

        The horizon is raised already. Doing it twice is as good as once.

        Args:
            numbers: (n,) <i8, in order of commit.
            slots: (n,) <i8, rising; 0 for a deletion.
        """
        cache = self.cache
        # Invariant: before the index, as in `publish`.
        if len(numbers) <= len(cache):
            for number in numbers.tolist():
                cache.pop(number, None)
        elif cache:
            changed = set(numbers.tolist())
            for number in [number for number in cache if number in changed]:
                del cache[number]
        self.identities.update(numbers, slots)

    def start_over(self, identities: Identities) -> None:
        """Forget what was read and have other identities: of another file; the lock is held."""
        self.cache.clear()
        self.identities = identities
        self.indexes.start_over()

    # -- whole versions ------------------------------------------------------------------

    def record_at(self, slot: int) -> Any:
        """Return a new object of any version that has bytes."""
        identity, writer_id, _, payload = self.engine.log.read(slot)
        return self.decoding.decode(writer_id, payload, identity)

    def keep(self, rows: list[tuple[int, int, Any]]) -> set[int]:
        """Put decoded records into an unbounded cache; return the identities of those taken.

        Left out are those that changed meanwhile, that the open transaction has changed, and
        those that the cloner could not copy safely by their annotations.
        """
        conforms, log = self.cloner.conforms, self.engine.log
        taken: set[int] = set()
        with log.lock:
            transaction = self.engine.transaction
            for identity, slot, record in rows:
                if (
                    self.identities.find(identity) == slot
                    and not log.is_closed
                    and (transaction is None or transaction.find(self, identity) is None)
                    and (conforms is None or conforms(record))
                ):
                    self.cache[identity] = record
                    taken.add(identity)
        return taken
