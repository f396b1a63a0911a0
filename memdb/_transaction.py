"""Transactions: changes kept aside until all of them become one commit."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from memdb._claims import Claims, Taken
from memdb.errors import TransactionError
from memdb.indexes import HashEntries
from memdb.storage import POINTER_DTYPE, Array, Kind, Moved

if TYPE_CHECKING:
    from memdb._engine import Engine
    from memdb._insertion import Insertion
    from memdb._members import Member
    from memdb._records import Records
    from memdb._references import Reference


class Written(NamedTuple):
    """A new state of a record: its bytes, their class, and its keys in unique indexes.

    Attributes:
        is_marked: It is to be encrypted, whatever it was before.
    """

    payload: bytes
    member: Member
    claims: Claims | None = None
    is_marked: bool = False


class Deleted(NamedTuple):
    """The state of a record that is gone."""

    payload: None = None
    member: None = None


Change = Written | Deleted
# Insertion, number, state, and what the version does.
Net = tuple["Insertion", int, Change, Kind]

DELETED = Deleted()


class Transaction:
    """An open transaction: what it has changed, in layers, one for each savepoint.

    Threads: any thread that runs in the transaction's context may use it, one call at a time
    gets the lock.

    Attributes:
        thread: The thread that opened it, by `threading.get_ident`.
        lock: Held by each operation in the transaction.
        token: What the contexts that belong to it carry.
        over: Locked until the end; whoever waits for the turn waits for it.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.thread = threading.get_ident()
        self.lock = threading.RLock()
        self.token = object()
        self.over = threading.Lock()
        self.over.acquire()
        self._layers: list[dict[tuple[Insertion, int], Change]] = [{}]
        self._next_identities: dict[Insertion, int] = {}
        self._has_marks = engine.log.has_marks
        # Of collections with checked foreign keys: what was written, in order and perhaps dropped
        # since, and until where it was taken into the entries of `pending`.
        self._written: dict[Insertion, list[int]] = {}
        self._pending: dict[Reference, tuple[HashEntries, int]] = {}

    def find(self, store: Records, number: int) -> Change | None:
        """Return the state that a record was given here, None if it was not changed."""
        key: Any = (store, number)
        for layer in reversed(self._layers):
            change: Change | None = layer.get(key)
            if change is not None:
                return change
        return None

    def changes(self, store: Records) -> dict[int, Change]:
        """Return what was changed in a collection, by number."""
        with self.lock:
            return {
                number: change
                for layer in self._layers
                for (changed, number), change in layer.items()
                if changed is store
            }

    def pending(self, reference: Reference) -> HashEntries:
        """Return the records that were written here, by what they refer to; `lock` is held.

        Cost: O(what was written since the last time), so that each of many deletions need not
        look at everything.
        """
        store = reference.store
        entries, seen = self._pending.get(reference) or (HashEntries(), 0)
        written = self._written.get(store, [])
        for number in dict.fromkeys(written[seen:]):
            change = self.find(store, number)
            if isinstance(change, Written):
                record = change.member.codec.decode(change.payload, number)
                entries.set(number, tuple(filter(_has_hash, reference.values_of(record))))
            else:
                entries.remove(number)
        self._pending[reference] = entries, len(written)
        return entries

    def next_identity(self, store: Insertion) -> int:
        """Return the identity that the next new record of the collection gets."""
        return self._next_identities.get(store, store.identities.next_identity)

    def write(self, store: Insertion, number: int, change: Change) -> None:
        """Note a new state of a record; `lock` is held.

        Raises:
            TransactionError: Another thread of the context has ended the transaction.
        """
        if self._engine.transaction is not self:
            self._engine.log.raise_if_closed()
            raise TransactionError(f"{self._engine.place}: the transaction has ended already.")
        # The numbers of natural keys are given by nobody.
        if store.key is None and number >= self.next_identity(store):
            self._next_identities[store] = number + 1
        if self._has_marks and isinstance(change, Written):
            before = self.find(store, number)
            if isinstance(before, Written) and before.is_marked:
                change = change._replace(is_marked=True)
        # Readers must come to where the transaction is looked at. Under the lock, so that none
        # puts the old object back.
        with self._engine.log.lock:
            self._layers[-1][store, number] = change
            store.horizon.taken += 1
            store.cache.pop(number, None)
        if store.checked:
            self._written.setdefault(store, []).append(number)

    def push(self) -> None:
        """Begin a savepoint."""
        self._layers.append({})

    def pop(self, *, keep: bool) -> None:
        """End the newest savepoint; its changes join the layer below or are dropped."""
        layer = self._layers.pop()
        if keep:
            self._layers[-1].update(layer)
        else:
            # What was written in between is as it was before.
            self._pending.clear()

    @property
    def depth(self) -> int:
        """The number of scopes that are open, 1 without savepoints."""
        return len(self._layers)

    def commit(self) -> int:
        """Write the changes as one commit and make them visible; return where the log ends.

        Raises:
            WriteError: The disk refused; nothing was changed.
            ForeignKeyError: A record would refer to one that is not there.
        """
        engine, log = self._engine, self._engine.log
        stores = dict.fromkeys([store for store, _ in self._layers[0]])
        for store in stores:
            store.indexes.build_uniques()
        # Before the lock, as it may decode; nobody else can write now.
        changes = self._net_changes()
        if engine.refuse_dangling is not None:
            # Whoever ends it may have come from another context.
            engine.adopt(self)
            engine.refuse_dangling(self, changes)
        with log.lock:
            if log.gate is not self:
                log.raise_if_unusable()
            if not changes:
                return log.end
            for store in stores:
                store.indexes.refuse_taken(_claims(store, changes))
            forms = [
                (store, change.member)
                for store, _, change, _ in changes
                if isinstance(change, Written) and not store.is_registered(change.member)
            ]
            if forms:
                engine.register(list(dict.fromkeys(forms)))
            engine.commit(
                self._pointers(changes),
                [change.payload or b"" for _, _, change, _ in changes],
                lambda slot: self._publish(changes, slot, list(stores)),
            )
            return log.end

    def _pointers(self, changes: list[Net]) -> Array:
        """Return pointers without what the log fills in."""
        log = self._engine.log
        flags, has_marks = log.seal_flags(), log.has_marks
        rows = []
        for store, number, change, kind in changes:
            if isinstance(change, Deleted):
                rows.append((number, 0, 0, 0, store.collection_id, 0, kind, 0, 0))
                continue
            if has_marks:
                flags = store.seal_flags(number, change.is_marked)
            ends = (store.collection_id, change.member.writer_id, kind, flags, 0)
            rows.append((number, 0, 0, 0, *ends))
        return np.array(rows, POINTER_DTYPE)

    @staticmethod
    def _publish(changes: list[Net], slot: int, stores: list[Insertion]) -> None:
        for offset, (store, number, change, _) in enumerate(changes):
            store.publish(number, 0 if change.payload is None else slot + offset)
        for store in stores:
            store.indexes.take_claims(_claims(store, changes))

    def _net_changes(self) -> list[Net]:
        """Return what differs from the state before, each record once."""
        net: list[Net] = []
        for (store, number), change in self._layers[0].items():
            slot = store.identities.find(number)
            if isinstance(change, Deleted):
                if slot:
                    net.append((store, number, change, Kind.DELETED))
            elif not slot:
                net.append((store, number, change, Kind.INSERTED))
            elif not _is_same(store, number, change):
                net.append((store, number, change, Kind.UPDATED))
        return net


def _is_same(store: Insertion, number: int, change: Written) -> bool:
    """Whether a record that is there would be written as it is."""
    while True:
        slot = store.identities.find(number)
        try:
            return store.is_same(slot, change.payload, change.member, change.is_marked)
        except Moved:
            # A compaction has just given it another slot.
            continue


def _has_hash(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _claims(store: Insertion, changes: list[Net]) -> list[tuple[int, Claims | None]]:
    """Return what the records of one collection that were changed claim in unique indexes."""
    if not store.indexes.uniques:
        return []
    return [
        (number, None if isinstance(change, Deleted) else change.claims)
        for owner, number, change, _ in changes
        if owner is store
    ]


class _Scope:
    """A `TransactionScope` without its ``__del__``: what it becomes at its end."""

    # On the class, for __del__ of one whose making was interrupted.
    _transaction: Transaction | None = None
    _depth = 0

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def __enter__(self) -> None:
        if self._transaction is not None:
            raise TransactionError(
                f"{self._engine.place}: this transaction was entered before."
                " Call db.transaction() for each."
            )
        current = self._engine.current()
        if current is not None:
            self._transaction = current
            current.push()
            self._depth = current.depth
        else:
            self._transaction = Transaction(self._engine)
            self._depth = 1
            self._engine.begin(self._transaction)

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        transaction, engine = self._transaction, self._engine
        assert transaction is not None
        if engine.transaction is not transaction:
            engine.log.raise_if_closed()
            raise self._out_of_order()
        if exc_type is None and transaction.depth != self._depth:
            engine.end(transaction)
            raise self._out_of_order()
        # Savepoints inside whose end an interrupt hit.
        while transaction.depth > self._depth:
            transaction.pop(keep=False)
        if self._depth > 1:
            transaction.pop(keep=exc_type is None)
            self._depth = 0
            self.__class__ = _Scope
            return
        # Under the lock: what other threads of the context are in the middle of is in it wholly.
        with transaction.lock:
            try:
                end = transaction.commit() if exc_type is None else 0
            except Taken as taken:
                raise taken.store.indexes.duplicate(taken) from None
            finally:
                engine.end(transaction)
                # What needs no __del__ any more has none: an interrupt in it would be lost.
                self.__class__ = _Scope
        if engine.is_synced:
            engine.log.sync_to(end)

    def _out_of_order(self) -> TransactionError:
        return TransactionError(
            f"{self._engine.place}: transactions end in the reverse order of their beginning."
            " Nothing of this one was kept."
        )


class TransactionScope(_Scope):
    """What ``db.transaction()`` gives: a context manager, used once.

    All changes inside are one commit, or none if the block raises. Inside another one it is a
    savepoint: if it raises, only what changed since is dropped.
    """

    def __del__(self) -> None:
        # An interrupt (Ctrl-C) can hit where no `finally` reaches: on the way into __exit__.
        # Then this ends what would stay open for ever.
        transaction = self._transaction
        if transaction is None or self._engine.transaction is not transaction:
            return
        if self._depth == 1:
            self._engine.end(transaction)
        while 1 < self._depth <= transaction.depth:
            transaction.pop(keep=False)
