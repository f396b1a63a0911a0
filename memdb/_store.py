"""The inside of a collection: reading a record, taking a snapshot, writing a version."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from itertools import islice
from operator import attrgetter
from types import NoneType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from memdb._cloners import get_cloner
from memdb._scan import collector_paused, scan, take_snapshot
from memdb.errors import (
    DecodeError,
    DuplicateIdentityError,
    IdentityError,
    ReadOnlyError,
    RecordNotFoundError,
    RecordTypeError,
)
from memdb.indexes import IdentityIndex, ScannedIdentities
from memdb.indexes._identity import MAX_IDENTITY, Identities
from memdb.serializers import (
    Codec,
    Serializer,
    Shape,
    get_serializer,
    is_harmless,
    writer_schema,
)
from memdb.storage import Array, Kind, checksum32, empty_pointers, pointer_end

if TYPE_CHECKING:
    from collections.abc import Callable

    from memdb._engine import Engine


class Current(NamedTuple):
    """The state of a record that a change starts from.

    Attributes:
        slot: Of the live version; 0 when the open transaction changed it.
        is_same_writer: The bytes are of the present serializer and class.
        payload: Its bytes.
        record: A copy.
    """

    slot: int
    is_same_writer: bool
    payload: bytes
    record: Any


class Store:
    """The records of one collection.

    Attributes:
        cache: Identity -> decoded live version. Its objects are never changed and never given
            away; a change removes the old one. An entry is as good as proof that the database
            is open and no transaction has touched the record, so that a hit needs no check.
        cache_limit: The most entries, or None.
        identities: Identity -> slot of the live version.
        collection_id, writer_id: Numbers in the catalogue, 0 until the first write.
    """

    def __init__(
        self,
        engine: Engine,
        name: str,
        shape: Shape,
        *,
        serializer: Serializer,
        cloner: str | Callable[[Any], Any],
        cache_limit: int | None,
        has_identity_index: bool,
    ) -> None:
        self.engine = engine
        self.name = name
        self.shape = shape
        self.serializer = serializer
        self.codec: Codec = serializer.codec(shape)
        self.cloner = get_cloner(cloner, shape, self.codec)
        self.schema = writer_schema(shape, serializer)
        self.field_names = frozenset(field.name for field in shape.fields)
        self.cache: dict[int, Any] = {}
        self.cache_limit = cache_limit
        self.on_numbers: Callable[[], None] | None = None
        self.fast_insert: Callable[[Any, Any], int] | None = None
        self._decoders: dict[int, Callable[[bytes, int], Any]] = {}
        self.collection_id = engine.collection_id(name)
        self.writer_id = engine.writer_id(self.collection_id, self.schema)
        self.identities = self._build_identities(has_identity_index)
        self.pointer_ends = self._make_pointer_ends(self.collection_id, self.writer_id)

    def _build_identities(self, has_index: bool) -> Identities:
        log = self.engine.log
        cls = IdentityIndex if has_index else ScannedIdentities
        last = log.last_identities.get(self.collection_id, 0)
        with log.lock:
            return cls.build(self._own_pointers(), log.next_slot, last)

    def _own_pointers(self) -> Iterator[tuple[Array, Array]]:
        """Give identities and slots of the collection's versions, slot 0 for a deletion."""
        for first, pointers in self.engine.log.pointer_parts():
            slots = np.arange(first, first + len(pointers), dtype="u4")
            identities = pointers["identity"]
            is_deletion = pointers["kind"] == Kind.DELETED
            if is_deletion.any():
                slots[is_deletion] = 0
            is_own = pointers["collection"] == self.collection_id
            if not is_own.all():
                identities, slots = identities[is_own], slots[is_own]
            yield identities, slots

    # -- numbers in the catalogue --------------------------------------------------------

    def ensure_registered(self) -> None:
        """See to it that the catalogue has the collection and its writer; the lock is held."""
        if not self.writer_id:
            self.engine.register(self)

    def set_numbers(self, collection_id: int, writer_id: int) -> None:
        """Take the numbers that the catalogue gave."""
        pointer_ends = self._make_pointer_ends(collection_id, writer_id)
        # No call between: an interrupt must not leave the number of a writer without the rest.
        self.collection_id, self.pointer_ends = collection_id, pointer_ends
        self.writer_id = writer_id
        if self.on_numbers is not None:
            self.on_numbers()

    @staticmethod
    def _make_pointer_ends(collection_id: int, writer_id: int) -> dict[Kind, bytes]:
        """Return the constant end of a pointer of this collection for each kind."""
        return {
            kind: pointer_end(collection_id, 0 if kind is Kind.DELETED else writer_id, kind)
            for kind in Kind
        }

    # -- reading -------------------------------------------------------------------------

    def decode(self, writer_id: int, payload: bytes, identity: int) -> Any:
        """Make a record of bytes that the given writer wrote."""
        try:
            decoder = self._decoders[writer_id]
        except KeyError:
            decoder = self._decoders[writer_id] = self._decoder(writer_id)
        return decoder(payload, identity)

    def _decoder(self, writer_id: int) -> Callable[[bytes, int], Any]:
        if writer_id == self.writer_id:
            return self.codec.decode
        schema = next(entry["schema"] for entry in self.engine.writers if entry["id"] == writer_id)
        name = schema["serializer"]
        if name == self.serializer.name:
            serializer = self.serializer
        elif is_harmless(name) or name in self.engine.config.trusted_serializers:
            serializer = get_serializer(name)
        else:
            # What a file names may run code: it must be named by the program too.
            raise DecodeError(
                f"{self.name}: a record was written with the serializer {name!r}, which can run"
                f" code that the file chooses. If you trust the file, open it with"
                f" trusted_serializers=[{name!r}]."
            )
        return serializer.codec(self.shape, schema).decode

    def slot_of(self, identity: int) -> int:
        """Return the slot of the committed live version, 0 when there is none."""
        slot = self.identities.find(identity)
        if self.engine.is_publishing:
            with self.engine.log.lock:
                slot = self.identities.find(identity)
        return slot

    def exists(self, identity: object) -> bool:
        """Whether the record is there, as the calling context sees it."""
        self.engine.log.raise_if_closed()
        transaction = self.engine.current()
        if transaction is not None and type(identity) is int:
            change = transaction.find(self, identity)
            if change is not None:
                return change[0] is not None
        return type(identity) is int and self.slot_of(identity) != 0

    def read(self, identity: object) -> Any:
        """Return a copy of a record, None when there is none."""
        engine = self.engine
        log = engine.log
        if log.is_closed:
            log.raise_if_closed()
        if type(identity) is not int:
            return None
        if engine.transaction is not None:
            transaction = engine.current()
            change = None if transaction is None else transaction.find(self, identity)
            if change is not None:
                return None if change[0] is None else self.codec.decode(change[0], identity)
        slot = self.slot_of(identity)
        if not slot:
            return None
        _, writer_id, _, payload = log.read(slot)
        record = self.decode(writer_id, payload, identity)
        conforms = self.cloner.conforms
        if self.cache_limit == 0 or (conforms is not None and not conforms(record)):
            return record
        with log.lock:
            transaction = engine.transaction
            is_kept = (
                self.identities.find(identity) == slot
                and not log.is_closed
                and (transaction is None or transaction.find(self, identity) is None)
            )
            if is_kept:
                self.cache[identity] = record
                if self.cache_limit is not None and len(self.cache) > self.cache_limit:
                    self._evict()
        return self.cloner.clone(record) if is_kept else record

    def _evict(self) -> None:
        """Shrink a bounded cache; the lock is held."""
        cache, limit = self.cache, self.cache_limit
        assert limit is not None
        # The oldest sixteenth at once: cheaper than one by one, and a hit stays free.
        for identity in list(islice(cache, len(cache) - limit + limit // 16)):
            cache.pop(identity, None)

    def record_at(self, slot: int) -> Any:
        """Return a new object of any version that has bytes."""
        identity, writer_id, _, payload = self.engine.log.read(slot)
        return self.decode(writer_id, payload, identity)

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

    # -- writing -------------------------------------------------------------------------

    def refuse_borrowed(self) -> None:
        """Raise if this is a collection of a class that was opened by its name, as dicts.

        Written as dicts its records would lose the types that their class gives them.
        """
        if self.shape.kind == "dict" and any(
            entry["collection"] == self.collection_id and entry["schema"]["kind"] != "dict"
            for entry in self.engine.writers
        ):
            raise ReadOnlyError(
                f"{self.name}: holds records of a class, and opened by its name it can only be"
                " read. Open it with the class to change it."
            )

    def identity_of(self, record: Any) -> int:
        """Check the class of a record and return the identity that it asks for, 0 for none.

        Raises:
            RecordTypeError: It is of another class.
            IdentityError: What its identity field holds can't be one.
        """
        self.refuse_borrowed()
        shape = self.shape
        cls: type = type(record)
        if cls is not shape.cls:
            raise RecordTypeError(
                f"{self.name}: holds records of {shape.cls.__qualname__}, not of"
                f" {cls.__qualname__}. Give one of that class, or use a collection of"
                " its own for the other."
            )
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
                f"{self.name}: the field {shape.identity!r} is {identity!r}; an identity is an"
                f" int from 1 to {MAX_IDENTITY}. Leave it 0 to have one assigned."
            )
        return identity

    def commit_one(self, identity: int, payload: bytes, kind: Kind) -> None:
        """Append one version and make it visible; the lock is held and the gate is open."""
        log = self.engine.log
        self.ensure_registered()
        first = log.next_slot
        try:
            slot = log.append_one(identity, payload, self.pointer_ends[kind])
            self.publish(identity, 0 if kind is Kind.DELETED else slot)
        except BaseException:
            self.engine.catch_up(first)
            raise

    def publish(self, identity: int, slot: int) -> None:
        """Make a version the live one, slot 0 for a deletion; the lock is held.

        Doing it twice is as good as once.
        """
        if slot:
            self.identities.set(identity, slot)
        elif self.identities.find(identity):
            self.identities.remove(identity)
        # Invariant: after the index, so that a reader can't put the old object back.
        self.cache.pop(identity, None)

    def is_same(self, slot: int, payload: bytes) -> bool:
        """Whether a version was written by the present writer with these bytes."""
        identity, writer_id, _, old = self.engine.log.read(slot)
        return writer_id == self.writer_id and self._is_unchanged(identity, old, payload)

    def _is_unchanged(self, identity: int, old: bytes, new: bytes) -> bool:
        if old == new:
            return True
        if getattr(self.codec, "omits_identity", False):
            return False
        # The bytes hold what stood in the identity field, which an insert left 0.
        return self.codec.encode(self.codec.decode(old, identity)) == new

    def insert(self, record: Any) -> int:
        """Insert a record and return its identity."""
        explicit = self.identity_of(record)
        payload = self.codec.encode(record)
        transaction = self.engine.current()
        if transaction is not None:
            with transaction.lock:
                identity = explicit or self.checked_next(transaction.next_identity(self))
                if explicit and self.exists(explicit):
                    raise self.duplicate(explicit)
                transaction.write(self, identity, payload)
            return identity

        def action() -> int:
            identity = explicit or self.identities.next_identity
            if explicit and self.identities.find(explicit):
                raise self.duplicate(explicit)
            self.commit_one(self.checked_next(identity), payload, Kind.INSERTED)
            return identity

        return self.engine.autocommit(action)

    def checked_next(self, identity: int) -> int:
        """Return an identity that can be assigned; the highest possible one was given else."""
        if identity > MAX_IDENTITY:
            raise IdentityError(
                f"{self.name}: identity {MAX_IDENTITY} is taken, there is none after it to"
                " assign. Give the record an identity of your own."
            )
        return identity

    def duplicate(self, identity: int) -> DuplicateIdentityError:
        """Return the error for an identity that a live record has."""
        return DuplicateIdentityError(
            f"{self.name}: a record with identity {identity} is there already. Use put() to"
            " replace it, or leave the field 0 to have a new identity assigned.",
            collection=self.name,
            identity=identity,
        )

    def not_found(self, identity: object) -> RecordNotFoundError:
        """Return the error for an identity that no live record has."""
        hint = "" if type(identity) is int else " Identities are of type int."
        # What is no identity may be a record, whose content is nobody's business.
        is_plain = isinstance(identity, int | float | str | bytes | tuple | None)
        shown = repr(identity) if is_plain else f"of type {type(identity).__qualname__}"
        return RecordNotFoundError(
            f"{self.name}: there is no record with identity {shown}.{hint}",
            collection=self.name,
            identity=identity,
        )

    def insert_many(self, records: list[Any]) -> list[int]:
        """Insert records as one commit and return their identities."""
        self.engine.log.raise_if_unusable()
        self.refuse_borrowed()
        with collector_paused():
            explicit = self._identities_of(records)
            payloads = list(map(self.codec.encode, records))
            if not records:
                return []
            transaction = self.engine.current()
            if transaction is not None:
                with transaction.lock:
                    first = transaction.next_identity(self)
                    wanted = explicit or [0] * len(records)
                    identities = self._assigned(wanted, first, self.exists)
                    for identity, payload in zip(identities, payloads, strict=True):
                        transaction.write(self, identity, payload)
                return identities
            return self.engine.autocommit(lambda: self._commit_many(explicit, payloads))

    def _identities_of(self, records: list[Any]) -> list[int]:
        """Return what `identity_of` says of each record, or nothing when none asks for one.

        The usual case is told without a call for each record, a tenth of ``insert_many``.
        """
        shape = self.shape
        if set(map(type, records)) <= {shape.cls}:
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
        return list(map(self.identity_of, records))

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

    def _commit_many(self, explicit: list[int], payloads: list[bytes]) -> list[int]:
        """Append records as one commit; ``explicit`` is empty when none asks for an identity."""
        self.ensure_registered()
        first = self.identities.next_identity
        identities: Sequence[int] = range(first, first + len(payloads))
        if explicit:
            identities = self._assigned(explicit, first, self.identities.find)
        else:
            self.checked_next(identities[-1])
        pointers = self._pointers(identities, payloads, Kind.INSERTED)

        def publish(slot: int) -> None:
            if not explicit:
                self.identities.extend(first, slot, len(identities))
                return
            for offset, identity in enumerate(identities):
                self.identities.set(identity, slot + offset)

        self.engine.commit(pointers, b"".join(payloads), publish)
        return list(identities)

    def _pointers(self, identities: Sequence[int], payloads: list[bytes], kind: Kind) -> Array:
        count = len(identities)
        pointers = empty_pointers(count)
        if isinstance(identities, range):
            pointers["identity"] = np.arange(identities.start, identities.stop)
        else:
            pointers["identity"] = np.fromiter(identities, "<i8", count)
        lengths = np.fromiter(map(len, payloads), "<i8", count)
        self.engine.log.refuse_large(int(lengths.max()))
        pointers["length"] = lengths
        pointers["checksum"] = np.fromiter(map(checksum32, payloads), "<u4", count)
        pointers["checksum"][pointers["length"] == 0] = 0
        pointers["collection"] = self.collection_id
        pointers["writer"] = self.writer_id
        pointers["kind"] = kind
        return pointers

    def current_state(self, identity: object) -> Current:
        """Return what a change of a record starts from.

        Raises:
            RecordNotFoundError: There is none.
        """
        engine = self.engine
        engine.log.raise_if_unusable()
        self.refuse_borrowed()
        if type(identity) is not int:
            raise self.not_found(identity)
        transaction = engine.current()
        if transaction is not None:
            change = transaction.find(self, identity)
            if change is not None:
                if change[0] is None:
                    raise self.not_found(identity)
                return Current(0, True, change[0], self.codec.decode(change[0], identity))
        slot = self.slot_of(identity)
        if not slot:
            raise self.not_found(identity)
        _, writer_id, _, payload = engine.log.read(slot)
        cached = self.cache.get(identity)
        record = cached
        if cached is not None and self.identities.find(identity) == slot:
            record = self.cloner.clone(cached)
        if record is cached:
            # Not in the cache, or the cloner gives out the object itself, which whoever
            # changes it must not have.
            record = self.decode(writer_id, payload, identity)
        return Current(slot, writer_id == self.writer_id, payload, record)

    def replace(self, identity: int, state: Current, record: Any) -> bool | None:
        """Write a new version of a record, if it is still in ``state``.

        Returns:
            True when it was written, False when the bytes are the same and nothing was, None
            when somebody else changed the record meanwhile.
        """
        payload = self.codec.encode(record)
        if state.is_same_writer and self._is_unchanged(identity, state.payload, payload):
            return False
        transaction = self.engine.current()
        if transaction is not None:
            with transaction.lock:
                change = transaction.find(self, identity)
                if change is None:
                    is_as_before = self.slot_of(identity) == state.slot
                else:
                    is_as_before = change[0] is state.payload
                if not is_as_before:
                    return None
                transaction.write(self, identity, payload)
            return True

        def action() -> bool | None:
            if self.identities.find(identity) != state.slot:
                return None
            self.commit_one(identity, payload, Kind.UPDATED)
            return True

        return self.engine.autocommit(action)

    def delete(self, identity: object) -> None:
        """Delete a record."""
        self.refuse_borrowed()
        transaction = self.engine.current()
        if transaction is not None:
            with transaction.lock:
                if type(identity) is not int or not self.exists(identity):
                    raise self.not_found(identity)
                transaction.write(self, identity, None)
            return

        def action() -> None:
            if type(identity) is not int or not self.identities.find(identity):
                raise self.not_found(identity)
            self.commit_one(identity, b"", Kind.DELETED)

        self.engine.autocommit(action)

    def clear(self) -> int:
        """Delete every record as one commit and return how many there were."""
        self.refuse_borrowed()
        transaction = self.engine.current()
        if transaction is not None:
            with transaction.lock:
                parts = scan(self, take_snapshot(self))
                identities = [identity for part in parts for identity in part.identities]
                for identity in identities:
                    transaction.write(self, identity, None)
            return len(identities)

        def publish(identities: list[int]) -> None:
            for identity in identities:
                self.publish(identity, 0)

        def action() -> int:
            identities = list(self.identities)
            if identities:
                pointers = self._pointers(identities, [b""] * len(identities), Kind.DELETED)
                pointers["writer"] = 0
                self.engine.commit(pointers, b"", lambda _: publish(identities))
            return len(identities)

        return self.engine.autocommit(action)
