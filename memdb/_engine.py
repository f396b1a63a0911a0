"""What the collections of one open database share: the log, the catalogue, whose turn it is."""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

from memdb._refreshing import Refreshing
from memdb.errors import ConfigError, ReadOnlyError, TransactionError
from memdb.storage import MAX_CATALOGUE_NUMBER, Array, Flusher, Kind, Log

if TYPE_CHECKING:
    from memdb._config import Config
    from memdb._insertion import Insertion
    from memdb._members import Member
    from memdb._store import Store
    from memdb._transaction import Net, Transaction

R = TypeVar("R")

_TURN_POLL_S = 0.05


class Engine:
    """The shared state of one open database.

    Threads: every method may be called from any thread unless it says that the log's lock must
    be held.

    Attributes:
        stores: Collection name -> its store.
        transaction: The one that is open, or None.
        is_publishing: A commit of several versions is being made visible. A reader that finds
            it set after it has looked a slot up looks again under the lock, so that it sees
            each commit wholly or not at all.
        is_following: It reads a file that another process may be writing.
        refreshing: What keeps it up with that process, None where it is no reader of a file.
        refuse_dangling: Raises for a transaction and its changes if foreign keys do not hold;
            None while no collection has any that are checked.
    """

    def __init__(self, log: Log, config: Config, mode: str) -> None:
        self.log = log
        self.config = config
        self.mode = mode
        self.stores: dict[str, Store] = {}
        self.transaction: Transaction | None = None
        self.is_publishing = False
        self.refuse_dangling: Callable[[Transaction, list[Net]], None] | None = None
        self.is_synced = config.durability == "synced" and mode != "r"
        self.is_following = log.is_following
        # A token and not the transaction, which a context would keep alive, engine and all.
        self._current: ContextVar[object] = ContextVar("transaction", default=None)
        catalogue = log.catalogue
        self.collections: list[dict[str, Any]] = list(catalogue.get("collections", ()))
        self.writers: list[dict[str, Any]] = list(catalogue.get("writers", ()))
        self.refreshing = Refreshing(self) if self.is_following else None
        # What looks at this database as it was, and, in there, this one: as long as anybody reads
        # from a view, its database stays open.
        self._views: weakref.WeakSet[Engine] = weakref.WeakSet()
        self._parent: Engine | None = None
        self._is_closing = False
        # One compaction at a time, and the thread that it is of.
        self.compacting = threading.Lock()
        self.compacted_by: int | None = None
        self._compactor: Flusher | None = None
        # Held while a collection is made, which could miss what happens between its making and
        # its being known; and while that happens. Taken before the log's lock.
        self.making = threading.Lock() if self.refreshing is None else self.refreshing.lock
        _open_engines.add(self)
        # Also at the normal end of the process, so that what is buffered is flushed.
        self._finalizer = weakref.finalize(self, log.close_unused)
        if self.refreshing is not None and not isinstance(config.refresh, str):
            self.refreshing.start(config.refresh)

    @property
    def place(self) -> str:
        """What messages call the database."""
        return self.log.path or "memory"

    def add_view(self, view: Engine) -> Engine:
        """Let something be closed together with this database; return it."""
        view._parent = self
        self._views.add(view)
        # After it was added: either it is met by `close`, or it meets that here.
        if self._is_closing or self.log.is_closed:
            view.close()
        return view

    def is_of(self, other: object) -> bool:
        """Whether this and another one are of one database, as views or itself."""
        return isinstance(other, Engine) and ((self._parent or self) is (other._parent or other))

    def compact_in_background(self, compactor: Flusher) -> None:
        """Start the thread that compacts, which ends when the database is closed."""
        self._compactor = compactor
        compactor.start()

    def close(self) -> None:
        """Close the log and let go of every cached record, here and in views."""
        self._is_closing = True
        try:
            # Before the log, so that whoever reads from them is told that they are closed.
            for view in _members(self._views):
                view.close()
            if self._compactor is not None:
                self._compactor.stop()
            try:
                self.save_indexes()
            finally:
                self.log.close()
        finally:
            self._is_closing = self.log.is_closed
            self.forget()
            # Not so when an interrupt came: then the end of the process tries again.
            if self.log.is_closed:
                self._finalizer.detach()
                _open_engines.discard(self)

    def save_indexes(self) -> None:
        """Write the large indexes that have changed, directly before a checkpoint."""
        if self.mode != "r" and self.log.path is not None and not self.log.is_shut:
            # Not while a compaction changes the file that it is written to.
            with self.making:
                for store in list(self.stores.values()):
                    store.indexes.save()

    def forget(self) -> None:
        """Drop caches and transaction, so that every call comes to where the gate is looked at."""
        self.transaction = None
        for store in self.stores.values():
            # First, so that no query takes the empty cache for an empty collection.
            store.indexes.forget()
            store.cache.clear()

    # -- whose turn it is ----------------------------------------------------------------

    def current(self) -> Transaction | None:
        """Return the transaction that the calling context is in, or None."""
        transaction = self.transaction
        if transaction is not None and self._current.get() is transaction.token:
            return transaction
        return None

    def begin(self, transaction: Transaction) -> None:
        """Give the turn to a transaction, once nobody else has it."""
        self.adopt(transaction)
        while True:
            with self.log.lock:
                self.log.raise_if_unusable()
                if self.transaction is None:
                    self.transaction = self.log.gate = transaction
                    return
            self.wait_for_turn()

    def adopt(self, transaction: Transaction) -> None:
        """Let the calling context belong to a transaction, if it did not."""
        self._current.set(transaction.token)

    def end(self, transaction: Transaction) -> None:
        """Take the turn back, if the transaction has it; doing it twice is as good as once."""
        with self.log.lock:
            if self.transaction is not transaction:
                return
            self.transaction = None
            self.is_publishing = False
            if self.log.gate is transaction:
                self.log.gate = None
        transaction.over.release()

    def autocommit(self, action: Callable[[], R]) -> R:
        """Run ``action`` under the lock while no transaction is open, then sync if asked to.

        Raises:
            MemdbError: Whatever the gate says, or the action raises.
        """
        log = self.log
        while True:
            with log.lock:
                if log.gate is None:
                    result = action()
                    end = log.end
                    break
            self.wait_for_turn()
        if self.is_synced:
            log.sync_to(end)
        return result

    def wait_for_turn(self) -> None:
        """Return when the open transaction has ended; raise if writing is not possible."""
        self.log.raise_if_unusable()
        transaction = self.transaction
        if transaction is None:
            return
        if transaction.thread == threading.get_ident():
            raise TransactionError(
                f"{self.place}: another task of this thread has a transaction open, and waiting"
                " for it would block both. Leave that transaction first, or run this in its"
                " context."
            )
        # With a time limit: should an interrupt hit between the two halves of `end`, the
        # lock stays locked, and this is what notices.
        while self.transaction is transaction:
            if transaction.over.acquire(timeout=_TURN_POLL_S):
                transaction.over.release()

    def refuse_change(self) -> None:
        """Raise if the mode allows new records only."""
        if self.mode == "append":
            raise ReadOnlyError(
                f'{self.place}: is open with mode="append", which only takes new records.'
                ' Open it with mode="rw" to change or delete.'
            )

    # -- the catalogue -------------------------------------------------------------------

    def register(self, forms: list[tuple[Insertion, Member]]) -> None:
        """Enter collections, their keys and writers into one new catalogue; the lock is held."""
        self.log.take_failure()
        collections, writers = list(self.collections), list(self.writers)
        numbers = []
        for store, member in forms:
            # Looked for, though the store has no numbers: an interrupt may have come between
            # the catalogue and the store.
            collection_id = _number_of(collections, name=store.name)
            if not collection_id:
                collection_id = 1 + max([entry["id"] for entry in collections], default=0)
                collections.append({"id": collection_id, "name": store.name})
            if store.key is not None:
                key = {"key": store.key.to_catalogue()}
                collections = [e | key if e["id"] == collection_id else e for e in collections]
            form = {"collection": collection_id, "schema": member.schema}
            writer_id = _number_of(writers, **form)
            if not writer_id:
                writer_id = 1 + max([entry["id"] for entry in writers], default=0)
                writers.append({"id": writer_id, **form})
            numbers.append((collection_id, writer_id))
        if max(map(max, numbers)) > MAX_CATALOGUE_NUMBER:
            raise ConfigError(
                f"{self.place}: holds {MAX_CATALOGUE_NUMBER} collections or forms of records"
                " already, and can't hold another. Use one collection with a field that tells"
                " the kinds apart."
            )
        self.log.write_catalogue({"collections": collections, "writers": writers})
        self.collections, self.writers = collections, writers
        for (store, member), (collection_id, writer_id) in zip(forms, numbers, strict=True):
            store.set_numbers(collection_id, member, writer_id)

    def entry_of(self, name: str) -> dict[str, Any] | None:
        """Return what the catalogue has of a collection, None for a new one."""
        # A list: an interrupt (Ctrl-C) that hits the closing of a generator would be lost.
        found = [entry for entry in self.collections if entry["name"] == name]
        return found[0] if found else None

    def collection_id(self, name: str) -> int:
        """Return the number of a collection in the catalogue, 0 for a new one."""
        return _number_of(self.collections, name=name)

    def writer_id(self, collection_id: int, schema: dict[str, Any]) -> int:
        """Return the number of a collection's writer in the catalogue, 0 for a new one."""
        return _number_of(self.writers, collection=collection_id, schema=schema)

    # -- publication ---------------------------------------------------------------------

    def commit(
        self, pointers: Array, payloads: Sequence[bytes], publish: Callable[[int], None]
    ) -> None:
        """Append a commit of several versions and make it visible; the lock is held.

        Args:
            pointers, payloads: As `Log.append_batch` takes them.
            publish: Called with the first slot; takes the versions into the indexes.
        """
        first_slot = self.log.next_slot
        try:
            slot = self.log.append_batch(pointers, payloads)
            self.is_publishing = True
            publish(slot)
            self.is_publishing = False
        except BaseException:
            self.catch_up(first_slot)
            raise

    def catch_up(self, first_slot: int) -> None:
        """Take the commits from ``first_slot`` on into the indexes; the lock is held.

        For an append that was interrupted (Ctrl-C) between the log and the index. What is
        taken in already is taken in again.
        """
        stores = {store.collection_id: store for store in self.stores.values()}
        slots = range(first_slot, self.log.next_slot)
        for slot, pointer in zip(slots, self.log.pointers(first_slot).tolist(), strict=True):
            identity, _, _, _, collection, _, kind, _, _ = pointer
            store = stores.get(collection)
            if store is not None:
                store.publish(identity, 0 if kind == Kind.DELETED else slot)
                store.indexes.distrust()
        self.is_publishing = False


def _number_of(entries: list[dict[str, Any]], **wanted: Any) -> int:
    """Return the number of the entry of a catalogue that has these values, 0 for none."""
    # A list: an interrupt (Ctrl-C) that hits the closing of a generator would be lost.
    found = [
        int(entry["id"])
        for entry in entries
        if all([entry[name] == value for name, value in wanted.items()])
    ]
    return found[0] if found else 0


_open_engines: weakref.WeakSet[Engine] = weakref.WeakSet()
_held: list[Log] = []


def _members(engines: weakref.WeakSet[Engine]) -> list[Engine]:
    """Return those of a set to which other threads may be adding."""
    while True:
        try:
            return list(engines)
        except RuntimeError:
            # It has grown meanwhile. A lock would be in the way of signal handlers and forks.
            continue


def _before_fork() -> None:
    # The child gets a copy of memory: with the locks held, no commit is half in it.
    for engine in _members(_open_engines):
        engine.log.lock.acquire()
        _held.append(engine.log)


def _release() -> None:
    while _held:
        _held.pop().lock.release()


def _after_fork_in_child() -> None:
    engines = _members(_open_engines)
    _open_engines.clear()
    for engine in engines:
        engine._finalizer.detach()
        engine.log.shut_after_fork()
        engine.forget()
    _release()
    for engine in engines:
        # Whatever can't be let go of stays with this process; nobody is there to be told.
        with contextlib.suppress(Exception):
            engine.log.abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_release, after_in_child=_after_fork_in_child
    )
