"""A collection: the records of one class, as the user meets them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar, overload

from memdb import _hot
from memdb._changes import changed
from memdb._indexes import Indexes
from memdb._scan import (
    Row,
    given,
    history,
    keys_in,
    present,
    rows_of,
    scan,
    size,
    take_snapshot,
)
from memdb._statistics import CollectionStats, collection_stats
from memdb._store import Store
from memdb.errors import (
    DamageError,
    DecodeError,
    DuplicateIdentityError,
    RecordNotFoundError,
    RecordTypeError,
    TransactionError,
)
from memdb.query import Expression
from memdb.query._builder import joined
from memdb.query._query import Query

T = TypeVar("T")
D = TypeVar("D")

Predicate = Expression | Callable[[T], object]
Outcome = Literal["inserted", "updated", "unchanged"]


class PutResult(NamedTuple):
    """What `Collection.put` did.

    Attributes:
        identity: Of the record.
        outcome: ``"inserted"``, ``"updated"``, or ``"unchanged"`` when nothing was written.
    """

    identity: Any
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Version(Generic[T]):
    """One state in the history of a record.

    Attributes:
        record: A copy; None where it was deleted, or can't be read.
        kind: ``"inserted"``, ``"updated"`` or ``"deleted"``.
        time: When it was committed, UTC, to a millisecond.
        error: Why it can't be read, as an old version that nothing upgrades any more, or damage;
            None else.
        slot: Its number, as the file counts versions from 1; what `Database.at` takes.
    """

    record: T | None
    kind: Literal["inserted", "updated", "deleted"]
    time: datetime
    error: DecodeError | DamageError | None = None
    slot: int = 0


class Collection(Generic[T]):
    """The records of one class in a database; made by `Database.collection`.

    Reads like a mapping from identity to record. Every record that comes out is a copy (or
    can't be changed), every record that goes in is stored as it is at that moment.

    Threads: all methods may be called from any thread at once. Reads take no lock; a commit is
    seen wholly or not at all.

    >>> import memdb
    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class City:
    ...     name: str
    ...     people: int
    ...     id: int = 0
    >>> db = memdb.open(None)
    >>> cities = db.collection(City)
    >>> paris = cities.insert(City("Paris", 2_100_000))
    >>> cities[paris]
    City(name='Paris', people=2100000, id=1)
    >>> cities.update(paris, people=2_102_650)
    True
    >>> cities.find(name="Paris").people
    2102650
    >>> db.close()
    """

    _store: Store

    def __init__(self, store: Store) -> None:
        self._store = store

    # -- reading -------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The name of the collection in the file."""
        return self._store.name

    @property
    def indexes(self) -> Indexes:
        """The applied indexes, a mapping from name to declaration, with ``add`` and ``drop``."""
        return Indexes(self._store)

    def __repr__(self) -> str:
        return f"<Collection {self._store.name!r} of {self._store.engine.place}>"

    def __getitem__(self, identity: int) -> T:
        """Return a copy of the record.

        Raises:
            RecordNotFoundError: There is none (a ``KeyError``).
            DamageError: Its bytes do not match their checksum.
            DecodeError: Its bytes do not fit the class.

        Cost: O(1); one dict lookup and the copy once the record was read before.
        """
        record = self._store.read(identity)
        if record is None:
            raise self._store.not_found(identity)
        return record  # type: ignore[no-any-return]

    @overload
    def get(self, identity: int) -> T | None: ...
    @overload
    def get(self, identity: int, default: D) -> T | D: ...
    def get(self, identity: int, default: Any = None) -> Any:
        """Return a copy of the record, ``default`` when there is none.

        Raises:
            DamageError: Its bytes do not match their checksum.
            DecodeError: Its bytes do not fit the class.

        Cost: as ``[]``.
        """
        record = self._store.read(identity)
        return default if record is None else record

    def __contains__(self, identity: object) -> bool:
        """Whether a record has this identity. Cost: O(1)."""
        return self._store.find_number(identity) != 0

    def __len__(self) -> int:
        """Return the number of records. Cost: O(1), in a transaction O(its changes)."""
        return size(self._store)

    def __bool__(self) -> bool:
        """Return True: a collection is not false for being empty."""
        return True

    def __iter__(self) -> Iterator[T]:
        """Iterate over copies of the records as they are now, rising by identity.

        What is changed during the iteration does not show in it.
        """
        store = self._store
        return (given(store, row) for row in rows_of(scan(store, take_snapshot(store))))

    def ids(self) -> list[int]:
        """Return the identities in the order of iteration.

        Cost: O(records). Nothing is decoded, unless the identity is a natural key: then as
        iterating.
        """
        store = self._store
        if store.key is None:
            return present(store, take_snapshot(store))
        return keys_in(store, store.key, take_snapshot(store))

    def items(self) -> Iterator[tuple[int, T]]:
        """Iterate over identities and copies of the records, as iterating over it does."""
        store = self._store
        return ((identity, given(store, row)) for identity, row in self._shared_items())

    def _shared_items(self) -> Iterator[tuple[Any, Row]]:
        store = self._store
        rows = rows_of(scan(store, take_snapshot(store)))
        return ((store.identity_of(row[0], row[1]), row) for row in rows)

    def query(self) -> Query[T]:
        """Return the query for all records, to be refined; see `Query`."""
        return Query(self._store)

    def where(self, /, *conditions: Predicate[T], **equals: Any) -> Query[T]:
        """Return the query for the records that match all of this; see `Query`.

        Args:
            conditions: Expressions of `F`, or callables that are given a copy of each record.
            equals: Fields and what they must equal.

        Raises:
            QueryError: A condition is none. A field that does not exist is refused when the query
                is asked.

        Cost: 1 us; nothing is looked for yet.
        """
        return Query(self._store, joined(None, conditions, equals))

    def find(self, condition: Predicate[T] | None = None, /, **equals: Any) -> T | None:
        """Return a copy of the first record that matches, by identity, or None.

        Args:
            condition: An expression of `F`, or a callable that is given a copy of each record.
            equals: Fields and what they must equal, besides.

        Raises:
            QueryError: A field does not exist, or the condition is none.

        Cost: O(records) up to the match. ``find(id=...)`` is a `get`.
        """
        store = self._store
        if condition is None and len(equals) == 1:
            # Also by a natural key: a text equals no key but itself.
            name = store.shape.identity if store.key is None else store.key.sole_field
            identity: Any = equals.get(name or "")
            cls: type = type(identity)
            if cls is (int if store.key is None else str):
                return self.get(identity)
        return self._asked(condition, equals).first()

    def find_all(self, condition: Predicate[T] | None = None, /, **equals: Any) -> list[T]:
        """Return copies of all records that match, rising by identity.

        The arguments, errors and cost are those of `find`.
        """
        return self._asked(condition, equals).all()

    def count(self, condition: Predicate[T] | None = None, /, **equals: Any) -> int:
        """Return how many records match; the arguments and errors are those of `find`.

        Cost: O(records), O(1) without a condition. Nothing is copied, unless the condition is
        a callable.
        """
        if condition is None and not equals:
            return len(self)
        return self._asked(condition, equals).count()

    def exists(self, condition: Predicate[T] | None = None, /, **equals: Any) -> bool:
        """Whether a record matches; the arguments and errors are those of `find`."""
        if condition is None and not equals:
            return len(self) > 0
        return self._asked(condition, equals).exists()

    def _asked(self, condition: Predicate[T] | None, equals: dict[str, Any]) -> Query[T]:
        """Return the query for a condition and equalities."""
        conditions = () if condition is None else (condition,)
        return Query(self._store, joined(None, conditions, equals))

    def history(self, identity: int) -> list[Version[T]]:
        """Return the committed versions of a record, oldest first; empty if it never was.

        Cost: O(versions in the file), vectorised, and the decoding of those found.
        """
        store = self._store
        store.engine.log.raise_if_closed()
        return [
            Version(
                record,
                kind.name.lower(),  # type: ignore[arg-type]
                datetime.fromtimestamp(time / 1e9, UTC),
                error,
                number,
            )
            for number, time, kind, record, error in history(store, identity)
        ]

    def stats(self) -> CollectionStats:
        """Return counts and sizes of live, stale and deleted versions.

        Cost: O(versions in the file), vectorised; no record is read.
        """
        log = self._store.engine.log
        log.raise_if_closed()
        return collection_stats(
            self._store.name,
            self._store.collection_id,
            log.pointers(),
            log.last_identities.get(self._store.collection_id, 0),
            has_key=self._store.key is not None,
        )

    # -- writing -------------------------------------------------------------------------

    def insert(self, record: T, *, encrypt: bool = False) -> int:
        """Insert a record and return its identity.

        Args:
            record: Of exactly the collection's class. It is not changed and not kept. Where its
                class has a field ``id`` that is not 0 or None, that is the identity.
            encrypt: Encrypt it, and what becomes of it; for a database that is open with
                ``encrypt="marked"``. With ``"all"`` every record is encrypted anyway.

        Raises:
            RecordTypeError: The record is of another class.
            EncodeError: A value can't be held; the message has the path of the field.
            IdentityError: Its ``id`` can't be an identity.
            DuplicateIdentityError: A record with this ``id`` is there already.
            ReadOnlyError, ClosedError: The database can't be written.
            WriteError: The disk refused; nothing was changed.
            DuplicateKeyError: Another record has the same key in a unique index.
            ForeignKeyError: A checked foreign key leads to no record.
            IndexKeyError: A key of the record can't be one.
            TransactionError: A unique index was added or dropped at the same time; try again.
            ConfigError: It is to be encrypted, and the database has no key.

        Cost: O(1), one encoding, one copy into the mapped file; one sync when ``"synced"``.
        """
        fast = self._store.fast_insert
        if fast is not None:
            # A bound method from before the first write comes here.
            return fast(self, record, encrypt=encrypt)
        identity: int = self._store.insert(record, encrypt)
        return identity

    def insert_many(self, records: Iterable[T], *, encrypt: bool = False) -> list[int]:
        """Insert records as one commit, all or none, and return their identities in order.

        ``encrypt`` and the errors are those of `insert`. Cost: less than half of as many inserts.
        """
        return self._store.insert_many(list(records), encrypt)

    def put(self, record: T, *, encrypt: bool = False) -> PutResult:
        """Insert a record, or replace the one with its ``id``.

        A record whose bytes are the same as before (by the present serializer) is unchanged and
        writes nothing. ``encrypt`` is that of `insert`; one that is replaced stays encrypted.

        Raises:
            RecordTypeError: The class has no field ``id``.
            MemdbError: As `insert` and `update`.
        """
        store = self._store
        member = store.member_of(record)
        identity: Any
        if store.key is not None:
            identity = store.key.of(record)
            store.key.encode(identity)
        else:
            identity = store.asked_identity(record, member)
            if member.shape.identity is None:
                raise RecordTypeError(
                    f"{store.name}: put() finds the record by its field 'id' of type int, which"
                    f" {member.shape.name} does not have. Use insert() or update(), or ask for the"
                    " collection with key= the field that names a record."
                )
        while True:
            try:
                if not store.find_number(identity):
                    return PutResult(store.insert(record, encrypt), "inserted")
                store.engine.refuse_change()
                outcome = store.replace(
                    store.current_state(identity, is_replaced=True), record, member, encrypt
                )
            except (DuplicateIdentityError, RecordNotFoundError):
                # Another thread inserted or deleted it since we looked.
                continue
            if outcome is not None:
                return PutResult(identity, "updated" if outcome else "unchanged")

    def update(
        self,
        identity: int,
        change: T | Callable[[T], T | None] | None = None,
        /,
        **fields: Any,
    ) -> bool:
        """Change a record.

        Args:
            identity: The record's.
            change: A record that takes its place; or a function that is given a copy, which it
                changes or for which it returns another record. It may be called again when
                another thread changed the record meanwhile.
            fields: New values of fields, set after ``change``.

        Returns:
            Whether anything was written; not so when the record's bytes are as before.

        Raises:
            RecordNotFoundError: There is no such record.
            RecordTypeError: A field does not exist, or the new record is of another class.
            IdentityError: The change would alter the identity.
            EncodeError, ReadOnlyError, ClosedError, WriteError: As `insert`.

        Cost: O(1), a copy, an encoding and an append.
        """
        store = self._store
        store.engine.refuse_change()
        is_replaced = change is not None and store.members.find(type(change)) is not None
        while True:
            state = store.current_state(identity, is_replaced=is_replaced)
            outcome = store.replace(state, *changed(store, identity, state, change, fields))
            if outcome is not None:
                return outcome

    @contextlib.contextmanager
    def edit(self, identity: int) -> Iterator[T]:
        """Give a copy of a record to be changed, and write it back at the end of the block.

        Nothing is written when the block raises, or has changed nothing.

        Raises:
            RecordNotFoundError: There is no such record.
            TransactionError: Somebody else changed the record meanwhile; nothing is written.
            RecordTypeError: The record can't be changed in place; use `update`.
            MemdbError: As `update`.
        """
        store = self._store
        store.engine.refuse_change()
        state = store.current_state(identity)
        record = state.record
        shape = store.member_of(record).shape
        if shape.is_frozen:
            raise RecordTypeError(
                f"{store.name}: {shape.name} can't be changed in place."
                " Use update() with new values or a function that returns a new record."
            )
        yield record
        if store.replace(state, *changed(store, identity, state, None, {})) is None:
            raise TransactionError(
                f"{store.name}: record {identity} was changed by somebody else during edit()."
                " Nothing was written. Try again, or use update() with a function."
            )

    def delete(self, identity: int) -> None:
        """Delete a record.

        Raises:
            RecordNotFoundError: There is no such record.
            ForeignKeyError: Another one refers to it by a foreign key with ``"restrict"``.
            ReadOnlyError, ClosedError, WriteError: As `insert`.

        Cost: O(1), one append of 72 bytes. Where foreign keys lead to the collection, those of a
        transaction, and the same for each record that goes with it.
        """
        self._store.engine.refuse_change()
        self._store.delete(identity)

    def __delitem__(self, identity: int) -> None:
        """Delete a record, as `delete`."""
        self.delete(identity)

    def clear(self) -> int:
        """Delete all records as one commit and return how many there were; else as `delete`."""
        self._store.engine.refuse_change()
        return self._store.clear()


class KeyedCollection(Collection[T]):
    """A collection whose identities are natural keys; made by `Database.collection` with ``key=``.

    The methods are those of `Collection`, with a key wherever they have an identity: the value of
    the field, or a tuple of the values of the fields.

    >>> import memdb
    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class User:
    ...     email: str
    ...     name: str
    >>> db = memdb.open(None)
    >>> users = db.collection(User, key="email")
    >>> users.insert(User("ann@example.org", "Ann"))
    'ann@example.org'
    >>> users["ann@example.org"].name
    'Ann'
    >>> db.close()
    """

    if TYPE_CHECKING:
        # What type checkers have to know; the keys' types can't be told from the fields' names.
        def __getitem__(self, identity: Any) -> T: ...
        @overload
        def get(self, identity: Any) -> T | None: ...
        @overload
        def get(self, identity: Any, default: D) -> T | D: ...
        def get(self, identity: Any, default: Any = None) -> Any: ...
        def ids(self) -> list[Any]: ...
        def items(self) -> Iterator[tuple[Any, T]]: ...
        def history(self, identity: Any) -> list[Version[T]]: ...
        def insert(self, record: T, *, encrypt: bool = False) -> Any: ...
        def insert_many(self, records: Iterable[T], *, encrypt: bool = False) -> list[Any]: ...
        def update(
            self, identity: Any, change: T | Callable[[T], T | None] | None = None, /, **fields: Any
        ) -> bool: ...
        def edit(self, identity: Any) -> contextlib._GeneratorContextManager[T]: ...
        def delete(self, identity: Any) -> None: ...
        def __delitem__(self, identity: Any) -> None: ...


def make_collection(store: Store) -> Collection[Any]:
    """Return the collection of a store, with its generated methods.

    They live in a class of its own: a method that is found on the class is called faster than
    one on the instance, and ``[]`` is looked for there only.
    """
    base: type[Collection[Any]] = Collection if store.key is None else KeyedCollection
    cls: Any = type(base.__name__, (base,), dict(_hot.read_methods(store, base)))
    cls.__module__ = base.__module__

    def renew_insert() -> None:
        store.fast_insert = _hot.insert_method(store, base).get("insert")
        if store.fast_insert is not None:
            cls.insert = store.fast_insert
        elif "insert" in vars(cls):
            del cls.insert

    def renew_reading() -> None:
        for name, method in _hot.read_methods(store, base).items():
            setattr(cls, name, method)

    store.on_numbers = renew_insert
    store.on_key = renew_reading
    if store.collection_id:
        renew_insert()
    collection: Collection[Any] = cls(store)
    return collection
