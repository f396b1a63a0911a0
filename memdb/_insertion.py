"""Taking new records in: what a record is, its number, and the commit that it becomes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date
from itertools import repeat
from operator import attrgetter
from types import NoneType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from uuid import UUID

import numpy as np

from memdb._claims import NO_CLAIMS, Claims, Taken
from memdb._decoding import locate
from memdb._index_set import IndexSet
from memdb._members import Member, Members
from memdb._natural_key import NaturalKey
from memdb._records import Records
from memdb._scan import collector_paused
from memdb._transaction import Written
from memdb.errors import (
    ConfigError,
    DamageError,
    DuplicateIdentityError,
    EncodeError,
    IdentityError,
    ReadOnlyError,
    RecordNotFoundError,
    RecordTypeError,
    shown,
)
from memdb.indexes._identity import MAX_IDENTITY
from memdb.storage import Array, Kind, empty_pointers, pointer_end

if TYPE_CHECKING:
    from memdb._engine import Engine
    from memdb._index_declarations import BoundIndex

# What an action gives that has to be run again, once the unique indexes are built.
_AGAIN: Any = object()

R = TypeVar("R")
Encoded = tuple[int, bytes]


class _Plan(NamedTuple):
    """Numbers for new keys, and what they rely on.

    Attributes:
        numbers: One for each key.
        seen: The numbers that were looked at -> their slots.
        is_displaced: Whether more than the first number of each key was looked at.
    """

    numbers: list[int]
    seen: dict[int, int]
    is_displaced: bool


class Insertion(Records):
    """The records of one collection, for reading and inserting.

    Attributes:
        on_numbers: Called when the catalogue has given numbers, or the indexes are others.
        fast_insert: The generated ``insert`` of `memdb._hot`, where there is one.
    """

    def __init__(
        self,
        engine: Engine,
        name: str,
        members: Members,
        key: NaturalKey | None,
        *,
        indexes: Iterable[BoundIndex] = (),
        **settings: Any,
    ) -> None:
        super().__init__(engine, name, members, key, **settings)
        self.indexes = IndexSet(self, indexes)
        self.on_numbers: Callable[[], None] | None = None
        self.fast_insert: Callable[..., int] | None = None
        self._deletion_end = pointer_end(self.collection_id, 0, Kind.DELETED)
        self._has_marks = engine.log.has_marks

    # -- numbers in the catalogue --------------------------------------------------------

    def is_registered(self, member: Member) -> bool:
        """Whether the catalogue has collection, key and writer."""
        return member.writer_id != 0 and (self.key is None or self.key.is_saved)

    def distinct(self, members: Iterable[Member]) -> list[Member]:
        """Return each of the members once."""
        sole = self.members.sole
        return [sole] if sole is not None else list(dict.fromkeys(members))

    def ensure_registered(self, members: Iterable[Member]) -> None:
        """See to it that the catalogue has collection, key and writers; the lock is held."""
        new = [(self, member) for member in members if not self.is_registered(member)]
        if new:
            self.engine.register(new)

    def set_numbers(self, collection_id: int, member: Member, writer_id: int) -> None:
        """Take the numbers that the catalogue gave."""
        self._deletion_end = pointer_end(collection_id, 0, Kind.DELETED)
        self.collection_id = collection_id
        member.set_writer(collection_id, writer_id, self.engine.log)
        if self.key is not None:
            self.key.is_saved = True
        if self.on_numbers is not None:
            self.on_numbers()

    # -- what a record is ----------------------------------------------------------------

    def is_borrowed(self) -> bool:
        """Whether this is a collection of a class that was opened by its name, as dicts."""
        return self.shape.kind == "dict" and any(
            [
                entry["collection"] == self.collection_id and entry["schema"]["kind"] != "dict"
                for entry in self.engine.writers
            ]
        )

    def refuse_borrowed(self) -> None:
        """Raise if the collection is borrowed.

        Written as dicts its records would lose the types that their class gives them.
        """
        if self.shape.kind == "dict" and self.is_borrowed():
            how = "by its name" if self.shape.name == "dict" else f"as {self.shape.name}"
            raise ReadOnlyError(
                f"{self.name}: holds records of a class, and opened {how} it can only be read, as"
                " dicts. Open it with the class to change it."
            )

    def member_of(self, record: Any) -> Member:
        """Return the member whose record it is.

        Raises:
            RecordTypeError: It is of another class.
        """
        self.refuse_borrowed()
        cls: type = type(record)
        member = self.members.find(cls)
        if member is None:
            expected = " or ".join(each.shape.cls.__qualname__ for each in self.members)
            base = next((each for each in self.members if issubclass(cls, each.shape.cls)), None)
            hint = " or use a collection of its own for the other"
            if base is not None and self.shape.kind == "union":
                hint = (
                    " or define it before the collection is asked for, with subclasses=True or in"
                    " tags="
                )
            elif base is not None and self.shape.kind != "dict":
                hint = f" or ask for the collection with tags={{{cls.__name__!r}: {cls.__name__}}}"
            raise RecordTypeError(
                f"{self.name}: holds records of {expected}, not of {cls.__qualname__}. Give one of"
                f" that class,{hint}."
            )
        return member

    def asked_identity(self, record: Any, member: Member) -> int:
        """Return the number that a record asks for in its identity field, 0 for none.

        Raises:
            IdentityError: What its identity field holds can't be one.
        """
        shape = member.shape
        if shape.identity is None:
            return 0
        if shape.kind == "dict":
            identity = record.get(shape.identity)
        else:
            identity = getattr(record, shape.identity, None)
        if identity is None or (type(identity) is int and identity == 0):
            return 0
        if type(identity) is not int or not 0 < identity <= MAX_IDENTITY:
            raise IdentityError(
                f"{self.name}: the field {shape.identity!r} is {shown(identity)}; an identity is an"
                f" int from 1 to {MAX_IDENTITY}. Leave it 0 to have one assigned."
            )
        return identity

    def encode(self, member: Member, record: Any, identity: Any = None) -> bytes:
        """Return a record as bytes.

        Raises:
            EncodeError: A value can't be held; it names collection, record and field.
        """
        try:
            return member.codec.encode(record)
        except EncodeError as error:
            locate(error, self.name, identity)
            raise

    # -- what is encrypted ---------------------------------------------------------------

    def refuse_marking(self) -> None:
        """Raise ConfigError if no record can be encrypted."""
        if not self.engine.log.seal_flags(is_marked=True):
            raise ConfigError(
                f"{self.name}: encrypt=True needs a database that was made with key= or password=,"
                f" and {self.engine.place} was not. Copy the records into one that is."
            )

    def seal_flags(self, number: int, is_marked: bool) -> int:
        """Return the flags of the next version of a record: it stays encrypted if it was."""
        log = self.engine.log
        if not is_marked:
            slot = self.identities.find(number)
            is_marked = bool(slot) and log.is_sealed(slot)
        return log.seal_flags(is_marked=is_marked)

    # -- one version ---------------------------------------------------------------------

    def autocommit(self, action: Callable[[], R], records: Sequence[Any]) -> R:
        """Run ``action`` as `Engine.autocommit` does, with unique indexes that are built.

        Args:
            action: What is run.
            records: What it writes; here nobody looks at them, see `ReferringStore`.

        Raises:
            DuplicateKeyError: A key that it claims is another record's.
        """
        indexes = self.indexes
        if not indexes.has_uniques:
            return self.engine.autocommit(action)
        try:
            while True:
                indexes.build_uniques()
                result = self.engine.autocommit(
                    lambda: action() if indexes.are_uniques_built else _AGAIN
                )
                if result is not _AGAIN:
                    return result
        except Taken as taken:
            raise indexes.duplicate(taken) from None

    def commit_one(
        self,
        number: int,
        payload: bytes,
        member: Member,
        kind: Kind,
        claims: Claims | None = None,
        is_marked: bool = False,
    ) -> None:
        """Append one version and make it visible; the lock is held and the gate is open."""
        log = self.engine.log
        is_claiming = claims is not None and (claims.keys or self.indexes.uniques)
        if is_claiming:
            self.indexes.refuse_taken([(number, claims)])
        if not self.is_registered(member):
            self.engine.register([(self, member)])
        if self._has_marks:
            is_marked = bool(self.seal_flags(number, is_marked))
        ends = member.marked_ends if is_marked else member.pointer_ends
        first = log.next_slot
        try:
            self.publish(number, log.append_one(number, payload, ends[kind]))
            if is_claiming:
                self.indexes.take_claims([(number, claims)])
        except BaseException:
            self.engine.catch_up(first)
            raise

    def publish(self, number: int, slot: int) -> None:
        """Make a version the live one, slot 0 for a deletion; the lock is held.

        Doing it twice is as good as once.
        """
        self.horizon.slot = self.engine.log.next_slot
        # Invariant: before the index, so that whoever finds the new slot does not find the old
        # object. Nobody puts that back, which needs the lock and the old slot in the index.
        self.cache.pop(number, None)
        if slot:
            self.identities.set(number, slot)
        elif self.identities.find(number):
            self.identities.remove(number)
            self.indexes.remove(number)

    def is_same(self, slot: int, payload: bytes, member: Member, is_marked: bool) -> bool:
        """Whether a version was written by the present writer with these bytes.

        One that is to be encrypted now and was not is another.
        """
        if is_marked and not self.engine.log.is_sealed(slot):
            return False
        try:
            number, writer_id, _, old = self.engine.log.read(slot)
        except DamageError:
            # Whatever it was, it is written anew.
            return False
        return writer_id == member.writer_id and self._is_unchanged(number, old, payload, member)

    @staticmethod
    def _is_unchanged(number: int, old: bytes, new: bytes, member: Member) -> bool:
        if old == new:
            return True
        if member.omits_identity:
            return False
        # The bytes hold what stood in the identity field, which an insert left 0.
        return member.codec.encode(member.codec.decode(old, number)) == new

    # -- insert --------------------------------------------------------------------------

    def insert(self, record: Any, is_marked: bool = False) -> Any:
        """Insert a record and return its identity; a marked one is encrypted."""
        member = self.member_of(record)
        if is_marked:
            self.refuse_marking()
        if self.key is not None:
            return self._insert_keyed(self.key, record, member, is_marked)
        explicit = self.asked_identity(record, member)
        payload = self.encode(member, record, explicit or None)
        claims = self.indexes.claims(record, payload, explicit or None)
        transaction = self.engine.current()
        if transaction is not None:
            with transaction.lock:
                number = explicit or self.checked_next(transaction.next_identity(self))
                if explicit and self.is_there(explicit):
                    raise self.duplicate(explicit)
                transaction.write(self, number, Written(payload, member, claims, is_marked))
            return number

        def action() -> int:
            number = explicit or self.identities.next_identity
            if explicit and self.identities.find(explicit):
                raise self.duplicate(explicit)
            number = self.checked_next(number)
            self.commit_one(number, payload, member, Kind.INSERTED, claims, is_marked)
            return number

        return self.autocommit(action, [record])

    def _insert_keyed(self, key: NaturalKey, record: Any, member: Member, is_marked: bool) -> Any:
        identity = key.of(record)
        keys = [(identity, key.encode(identity))]
        payload = self.encode(member, record, identity)
        claims = self.indexes.claims(record, payload, identity)
        transaction = self.engine.current()
        if transaction is not None:
            with transaction.lock:
                (number,) = self._plan(key, keys).numbers
                transaction.write(self, number, Written(payload, member, claims, is_marked))
            return identity
        while True:
            plan = self._plan(key, keys)

            def action(plan: _Plan = plan) -> bool:
                if self._is_as_planned(key, plan):
                    number = plan.numbers[0]
                    self.commit_one(number, payload, member, Kind.INSERTED, claims, is_marked)
                    return True
                return False

            if self.autocommit(action, [record]):
                return identity

    def _is_as_planned(self, key: NaturalKey, plan: _Plan) -> bool:
        """Whether nobody has touched what the plan relies on; the lock is held."""
        return plan.is_displaced == key.is_displaced and all(
            [self.identities.find(number) == slot for number, slot in plan.seen.items()]
        )

    def _plan(self, key: NaturalKey, keys: list[tuple[Any, Encoded]]) -> _Plan:
        """Return numbers for the records of new keys, as they are and encoded.

        Without the lock, as reading a record that is in the way may run a user's upgrade.

        Raises:
            DuplicateIdentityError: There is a record with one of the keys, or one occurs twice.
        """
        taken: dict[int, Encoded] = {}
        seen: dict[int, int] = {}
        is_displaced = key.is_displaced
        for identity, encoded in keys:
            free = 0
            for number in key.numbers(encoded):
                owner, seen[number] = self._owner_of(key, number, encoded)
                owner = owner or taken.get(number)
                if owner == encoded:
                    raise self.duplicate(identity)
                free = free or (0 if owner else number)
            if not free and is_displaced:
                raise IdentityError(
                    f"{self.name}: too many keys have the same hash as {shown(identity)}."
                )
            if not free:
                # Two keys with one number: from now on every look-up tries the other ones. Under
                # the lock, so that no catalogue that is being written is taken to say so.
                with self.engine.log.lock:
                    key.displace()
                return self._plan(key, keys)
            taken[free] = encoded
        return _Plan(list(taken), seen, is_displaced)

    def _owner_of(
        self, key: NaturalKey, number: int, encoded: Encoded
    ) -> tuple[Encoded | None, int]:
        """Return the key of the record with a number, and its slot; damaged, it is of this key."""
        try:
            return self.key_at(key, number)
        except DamageError:
            if key.is_displaced:
                raise
            return encoded, self.slot_of(number)

    def checked_next(self, identity: int) -> int:
        """Return an identity that can be assigned; the highest possible one was given else."""
        if identity > MAX_IDENTITY:
            raise IdentityError(
                f"{self.name}: identity {MAX_IDENTITY} is taken, there is none after it to"
                " assign. Give the record an identity of your own."
            )
        return identity

    def duplicate(self, identity: Any) -> DuplicateIdentityError:
        """Return the error for an identity that a live record has."""
        hint = "."
        if self.key is None:
            hint = ", or leave the field 0 to have a new identity assigned."
        return DuplicateIdentityError(
            f"{self.name}: a record with identity {shown(identity)} is there already. Use put() to"
            f" replace it{hint}",
            collection=self.name,
            identity=identity,
        )

    def not_found(self, identity: object) -> RecordNotFoundError:
        """Return the error for an identity that no live record has."""
        hint = ""
        if self.key is None:
            hint = "" if type(identity) is int else " Identities are of type int."
        elif len(self.key.fields) > 1 and type(identity) is not tuple:
            hint = f" Identities are tuples of {', '.join(self.key.fields)}."
        # What is no identity may be a record, whose content is nobody's business.
        is_plain = isinstance(identity, int | float | str | bytes | tuple | date | UUID | None)
        text = shown(identity) if is_plain else f"of type {type(identity).__qualname__}"
        return RecordNotFoundError(
            f"{self.name}: there is no record with identity {text}.{hint}",
            collection=self.name,
            identity=identity,
        )

    # -- insert_many ---------------------------------------------------------------------

    def insert_many(self, records: list[Any], is_marked: bool = False) -> list[Any]:
        """Insert records as one commit and return their identities; marked ones are encrypted."""
        self.engine.log.raise_if_unusable()
        self.refuse_borrowed()
        if is_marked:
            self.refuse_marking()
        with collector_paused():
            members = self._members_of(records)
            if self.key is not None:
                return self._insert_many_keyed(self.key, records, members, is_marked)
            explicit = self._asked_identities(records, members)
            payloads = self._payloads(records, members, explicit)
            if not records:
                return []
            claims = self.indexes.claims_of_many(records, payloads, explicit)
            transaction = self.engine.current()
            if transaction is not None:
                with transaction.lock:
                    first = transaction.next_identity(self)
                    wanted = explicit or [0] * len(records)
                    numbers = self._assigned(wanted, first, self.is_there)
                    states = self._states(payloads, members, claims, is_marked)
                    for number, state in zip(numbers, states, strict=False):
                        transaction.write(self, number, state)
                return numbers
            return self.autocommit(
                lambda: self._commit_many(explicit, payloads, members, claims, is_marked), records
            )

    @staticmethod
    def _states(
        payloads: list[bytes], members: list[Member], claims: list[Claims], is_marked: bool
    ) -> Iterator[Written]:
        """Give the states of new records for a transaction."""
        return map(Written, payloads, members, claims or repeat(NO_CLAIMS), repeat(is_marked))

    def _insert_many_keyed(
        self, key: NaturalKey, records: list[Any], members: list[Member], is_marked: bool
    ) -> list[Any]:
        identities = list(map(key.of, records))
        keys = [(identity, key.encode(identity)) for identity in identities]
        payloads = self._payloads(records, members, identities)
        if not records:
            return []
        claims = self.indexes.claims_of_many(records, payloads, identities)
        transaction = self.engine.current()
        if transaction is not None:
            with transaction.lock:
                numbers = self._plan(key, keys).numbers
                states = self._states(payloads, members, claims, is_marked)
                for number, state in zip(numbers, states, strict=False):
                    transaction.write(self, number, state)
            return identities
        while True:
            plan = self._plan(key, keys)

            def action(plan: _Plan = plan) -> bool:
                if self._is_as_planned(key, plan):
                    self._commit_numbered(plan.numbers, payloads, members, claims, is_marked)
                    return True
                return False

            if self.autocommit(action, records):
                return identities

    def _members_of(self, records: list[Any]) -> list[Member]:
        """Return what `member_of` says of each record; of one class it is told at once."""
        sole = self.members.sole
        if sole is not None and set(map(type, records)) <= {sole.shape.cls}:
            return [sole] * len(records)
        return list(map(self.member_of, records))

    def _payloads(
        self, records: list[Any], members: list[Member], identities: list[Any]
    ) -> list[bytes]:
        sole = self.members.sole
        if sole is not None:
            try:
                return list(map(sole.codec.encode, records))
            except EncodeError:
                # Again, one by one, for the error that says which.
                pass
        payloads = []
        for place, (record, member) in enumerate(zip(records, members, strict=True)):
            try:
                payloads.append(member.codec.encode(record))
            except EncodeError as error:
                identity = identities[place] if identities else None
                where = f"{self.name}, number {place} of the given ones"
                locate(error, where, identity if self.key is not None else identity or None)
                error.collection = self.name
                raise
        return payloads

    def _asked_identities(self, records: list[Any], members: list[Member]) -> list[int]:
        """Return what `asked_identity` says of each record, or nothing when none asks for one.

        The usual case is told without a call for each record, a tenth of ``insert_many``.
        """
        sole = self.members.sole
        if sole is not None:
            shape = sole.shape
            own: list[Any] = [...]
            if shape.identity is None:
                return []
            if shape.kind == "dict":
                own = [record.get(shape.identity) for record in records]
            else:
                with contextlib.suppress(AttributeError):  # One that was never set.
                    own = list(map(attrgetter(shape.identity), records))
            if set(map(type, own)) <= {int, NoneType} and not any(own):
                return []
        return list(map(self.asked_identity, records, members))

    def _assigned(
        self, explicit: list[int], first: int, exists: Callable[[int], object]
    ) -> list[int]:
        """Return the identities of new records: their own, or the next ones in order."""
        wanted = [identity for identity in explicit if identity]
        seen: set[int] = set()
        for identity in wanted:
            if identity in seen or exists(identity):
                raise self.duplicate(identity)
            seen.add(identity)
        following = max(first, max(wanted, default=0) + 1)
        result = []
        for identity in explicit:
            result.append(identity or self.checked_next(following))
            following += not identity
        return result

    def _commit_many(
        self,
        explicit: list[int],
        payloads: list[bytes],
        members: list[Member],
        claims: list[Claims],
        is_marked: bool,
    ) -> list[int]:
        """Append records as one commit; ``explicit`` is empty when none asks for an identity."""
        first = self.identities.next_identity
        if explicit:
            numbers = self._assigned(explicit, first, self.identities.find)
            self._commit_numbered(numbers, payloads, members, claims, is_marked)
            return numbers
        identities = range(first, first + len(payloads))
        self.checked_next(identities[-1])
        changes = self._claimed(identities, claims)
        self.indexes.refuse_taken(changes)
        self.ensure_registered(self.distinct(members))
        pointers = self._pointers(identities, members, Kind.INSERTED, is_marked)

        def publish(slot: int) -> None:
            self.horizon.slot = self.engine.log.next_slot
            self.identities.extend(first, slot, len(identities))
            self.indexes.take_claims(changes)

        self.engine.commit(pointers, payloads, publish)
        return list(identities)

    def _claimed(
        self, numbers: Sequence[int], claims: list[Claims]
    ) -> list[tuple[int, Claims | None]]:
        """Return what new records claim in unique indexes, nothing where there are none."""
        # Empty where there was no unique index; if there is one now, the change is refused.
        if not claims and not self.indexes.uniques:
            return []
        return list(zip(numbers, claims or repeat(NO_CLAIMS), strict=False))

    def _commit_numbered(
        self,
        numbers: list[int],
        payloads: list[bytes],
        members: list[Member],
        claims: list[Claims],
        is_marked: bool,
    ) -> None:
        """Append new records as one commit; the lock is held."""
        changes = self._claimed(numbers, claims)
        self.indexes.refuse_taken(changes)
        self.ensure_registered(self.distinct(members))
        pointers = self._pointers(numbers, members, Kind.INSERTED, is_marked)

        def publish(slot: int) -> None:
            self.horizon.slot = self.engine.log.next_slot
            for offset, number in enumerate(numbers):
                self.identities.set(number, slot + offset)
            self.indexes.take_claims(changes)

        self.engine.commit(pointers, payloads, publish)

    def _pointers(
        self, numbers: Sequence[int], members: Sequence[Member], kind: Kind, is_marked: bool = False
    ) -> Array:
        """Return the pointers of a commit without what the log fills in; the lock is held."""
        count = len(numbers)
        pointers = empty_pointers(count)
        if isinstance(numbers, range):
            pointers["identity"] = np.arange(numbers.start, numbers.stop)
        else:
            pointers["identity"] = np.fromiter(numbers, "<i8", count)
        pointers["collection"] = self.collection_id
        if self.members.sole is not None:
            pointers["writer"] = self.members.sole.writer_id
        else:
            pointers["writer"] = np.fromiter((each.writer_id for each in members), "<u2", count)
        pointers["kind"] = kind
        pointers["flags"] = self.engine.log.seal_flags(is_marked=is_marked)
        if self._has_marks and kind is Kind.UPDATED:
            pointers["flags"] = [self.seal_flags(number, is_marked) for number in numbers]
        return pointers
