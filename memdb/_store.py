"""The inside of a collection: changing and deleting, on top of reading and inserting."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from memdb._decoding import locate
from memdb._insertion import Insertion
from memdb._members import Member
from memdb._reference_checks import follow, present_identities
from memdb._scan import present, take_snapshot
from memdb._transaction import DELETED, TransactionScope, Written
from memdb.errors import DamageError, DecodeError, EncodeError
from memdb.storage import Kind, Moved, empty_pointers


class Current(NamedTuple):
    """The state of a record that a change starts from.

    Attributes:
        number: The record's, see `Records`.
        slot: Of the live version; 0 when the open transaction changed it.
        writer: Number of what wrote its bytes; the member itself in a transaction.
        payload: Its bytes.
        record: A copy; None where the change needs none.
    """

    number: int
    slot: int
    writer: int | Member
    payload: bytes
    record: Any


class Store(Insertion):
    """The records of one collection, for reading and writing."""

    # -- change --------------------------------------------------------------------------

    def current_state(self, identity: object, *, is_replaced: bool = False) -> Current:
        """Return what a change of a record starts from.

        Args:
            identity: The record's.
            is_replaced: The change does not look at the old record, which need not be one that
                the class can still read.

        Raises:
            RecordNotFoundError: There is none.
        """
        engine = self.engine
        engine.log.raise_if_unusable()
        self.refuse_borrowed()
        if self.key is None and engine.transaction is None and type(identity) is int:
            # The usual case of what follows, spelled out: a tenth of an update.
            number, slot = identity, self.slot_of(identity)
            if not slot:
                raise self.not_found(identity)
        else:
            number, slot = self.find_version(identity)
        if not number:
            raise self.not_found(identity)
        if not slot:
            transaction = engine.current()
            change = None if transaction is None else transaction.find(self, number)
            if not isinstance(change, Written):
                raise self.not_found(identity)
            payload, member = change.payload, change.member
            record = None if is_replaced else member.codec.decode(payload, number)
            return Current(number, 0, member, payload, record)
        try:
            _, writer_id, _, payload = engine.log.read(slot)
        except Moved:
            return self.current_state(identity, is_replaced=is_replaced)
        except DamageError:
            if not is_replaced:
                raise
            # It is replaced whatever it was; 0 is no writer.
            return Current(number, slot, 0, b"", None)
        if is_replaced:
            return Current(number, slot, writer_id, payload, None)
        cached = self.cache.get(number)
        record = cached
        if cached is not None and self.identities.find(number) == slot:
            record = self.cloner.clone(cached)
        if record is cached:
            # Not in the cache, or the cloner gives out the object itself, which whoever
            # changes it must not have.
            record = self.decoding.decode(writer_id, payload, number)
        return Current(number, slot, writer_id, payload, record)

    def replace(
        self, state: Current, record: Any, member: Member, is_marked: bool = False
    ) -> bool | None:
        """Write a new version of a record, if it is still in ``state``.

        Args:
            state: Where the change began.
            record: The new version.
            member: Its class.
            is_marked: It is to be encrypted; else that stays as it was.

        Returns:
            True when it was written, False when the bytes are the same and nothing was, None
            when somebody else changed the record meanwhile.
        """
        number, _, writer, old, _ = state
        try:
            if writer == 0:
                payload = member.codec.encode(record)
            else:
                payload = self.decoding.encode_over(member, record, writer, old)
        except EncodeError as error:
            locate(error, self.name, self.identity_of(number, record))
            raise
        is_same_writer = writer is member or (writer == member.writer_id != 0)
        if is_marked:
            self.refuse_marking()
            try:
                is_same_writer &= state.slot != 0 and self.engine.log.is_sealed(state.slot)
            except Moved:
                return None
        if is_same_writer and self._is_unchanged(number, old, payload, member):
            return False
        indexes = self.indexes
        claims = indexes.claims(record, payload, number if self.key is None else None)
        transaction = self.engine.current()
        if transaction is not None:
            with transaction.lock:
                change = transaction.find(self, number)
                if change is None:
                    is_as_before = self.slot_of(number) == state.slot
                else:
                    is_as_before = change.payload is old
                if is_as_before:
                    transaction.write(self, number, Written(payload, member, claims, is_marked))
                    return True
            if change is not None:
                return None
        else:

            def action() -> bool:
                if self.identities.find(number) != state.slot:
                    return False
                self.commit_one(number, payload, member, Kind.UPDATED, claims, is_marked)
                return True

            if self.autocommit(action, [record]):
                return True
        again = self._moved(state)
        return None if again is None else self.replace(again, record, member, is_marked)

    def _moved(self, state: Current) -> Current | None:
        """Return a state by its slot in the present file, None if the record was changed since.

        A compaction gives every version another slot, and nothing else: who began a change
        before it must not be told that somebody else has changed the record.
        """
        log = self.engine.log
        if not 0 < state.slot < log.first_slot:
            return None
        while True:
            slot = self.slot_of(state.number)
            if not slot:
                return None
            try:
                _, writer, _, payload = log.read(slot)
            except Moved:
                continue
            except DamageError:
                return None
            break
        is_same = (writer, payload) == (state.writer, state.payload)
        if not is_same and isinstance(state.writer, int) and self.decoding.is_old(state.writer):
            # The compaction brings old forms up to date.
            try:
                record = self.decoding.decode(state.writer, state.payload, state.number)
                is_same = self.member_of(record).codec.encode(record) == payload
            except (DecodeError, EncodeError):
                return None
        return state._replace(slot=slot, writer=writer, payload=payload) if is_same else None

    def rewrite(self, states: list[tuple[int, int, bytes, Member]]) -> int:
        """Write the same records in their present form, as one commit; see `migrate`.

        Args:
            states: Number, slot of the version that was read, new bytes, class.

        Returns:
            How many were written: those that nobody has changed meanwhile.
        """

        def action() -> int:
            kept = [state for state in states if self.identities.find(state[0]) == state[1]]
            if not kept:
                return 0
            numbers, _, payloads, members = map(list, zip(*kept, strict=True))
            self.ensure_registered(self.distinct(members))
            pointers = self._pointers(numbers, members, Kind.UPDATED)

            def publish(slot: int) -> None:
                for offset, number in enumerate(numbers):
                    self.publish(number, slot + offset)

            self.engine.commit(pointers, payloads, publish)
            return len(kept)

        return self.engine.autocommit(action)

    # -- delete --------------------------------------------------------------------------

    def delete(self, identity: object) -> None:
        """Delete a record, and do with those that refer to it what their keys say."""
        self.refuse_borrowed()
        if self.referrers:
            with TransactionScope(self.engine):
                found = self.find_number(identity)
                if not found:
                    raise self.not_found(identity)
                self.delete_many([found], [identity])
            return
        transaction = self.engine.current()
        if transaction is not None:
            with transaction.lock:
                found = self.find_number(identity)
                if not found:
                    raise self.not_found(identity)
                transaction.write(self, found, DELETED)
            return
        while True:
            number, slot = self.find_version(identity)
            if not number:
                raise self.not_found(identity)

            def action(number: int = number, slot: int = slot) -> bool:
                # Another thread may have changed it since, and given the number to another key.
                if self.identities.find(number) != slot or self.referrers:
                    return False
                self._delete_one(number)
                return True

            if self.engine.autocommit(action):
                return
            if self.referrers:
                # A collection whose keys lead here was asked for just now.
                return self.delete(identity)

    def delete_many(self, numbers: Iterable[int], identities: Sequence[Any]) -> None:
        """Delete records that are there, in the calling context's transaction.

        Args:
            numbers: Theirs.
            identities: Theirs too, as far as they can be told.
        """
        self.refuse_borrowed()
        transaction = self.engine.current()
        assert transaction is not None
        with transaction.lock:
            for number in numbers:
                transaction.write(self, number, DELETED)
            if self.referrers:
                follow(transaction, self, identities)

    def _delete_one(self, number: int) -> None:
        """Append a deletion and make it visible; the lock is held and the gate is open."""
        log = self.engine.log
        first = log.next_slot
        try:
            log.append_one(number, b"", self._deletion_end)
            self.publish(number, 0)
        except BaseException:
            self.engine.catch_up(first)
            raise

    def clear(self) -> int:
        """Delete every record as one commit and return how many there were."""
        self.refuse_borrowed()
        if self.referrers:
            with TransactionScope(self.engine):
                numbers = present(self, take_snapshot(self))
                self.delete_many(numbers, present_identities(self, numbers))
            return len(numbers)
        transaction = self.engine.current()
        if transaction is not None:
            with transaction.lock:
                numbers = present(self, take_snapshot(self))
                for number in numbers:
                    transaction.write(self, number, DELETED)
            return len(numbers)

        def publish(numbers: list[int]) -> None:
            for number in numbers:
                self.publish(number, 0)

        def action() -> int:
            numbers = list(self.identities)
            if self.referrers:
                return -1
            if numbers:
                pointers = empty_pointers(len(numbers))
                pointers["identity"] = numbers
                pointers["collection"] = self.collection_id
                pointers["kind"] = Kind.DELETED
                payloads = [b""] * len(numbers)
                self.engine.commit(pointers, payloads, lambda _: publish(numbers))
                self.indexes.discard_all()
            return len(numbers)

        count = self.engine.autocommit(action)
        return self.clear() if count < 0 else count
