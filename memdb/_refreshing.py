"""Refreshing: a database that only reads takes in what another process has written since."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from memdb.errors import ClosedError, ConfigError, ForkedError, MemdbError, OpenError
from memdb.storage import Array, Era, Flusher, Follower, Growth, Kind, Replacement, warn

if TYPE_CHECKING:
    from memdb._engine import Engine
    from memdb._natural_key import NaturalKey
    from memdb._store import Store
    from memdb.indexes._identity import Identities

Catalogue = Mapping[str, Any]


class Refreshing:
    """Keeps the collections of a database up with a file that another process writes.

    Threads: `refresh` may be called from any thread; one at a time gets in.

    Attributes:
        lock: Held while anything becomes visible, and while a collection is made, which could
            miss what comes between its making and its being known. Taken before the log's lock.
        failure: Why the last `refresh` failed, None if it did not.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._follower = Follower(engine.log)
        # Up to where the collections know everything.
        self._shown: tuple[Era, int] = engine.log.era, engine.log.next_slot
        self._known = Numbers()
        self._known.take(self._known.checked(engine.place, engine.log.catalogue))
        # What of a catalogue all collections know.
        self._adopted = engine.collections, engine.writers
        self.lock = threading.Lock()
        self.failure: Exception | None = None

    def start(self, interval_s: float) -> None:
        """Refresh every so many seconds from now on, until the log is closed."""
        self._engine.log.run_in_background(Refresher(self, interval_s))

    def refresh(self) -> bool:
        """Take in what was committed before the call; whether there was anything.

        The errors are those of `Database.refresh`.
        """
        log = self._engine.log
        log.raise_if_closed()
        # That for syncing: so the log is not closed meanwhile.
        with log.sync_lock:
            try:
                is_new = self._refresh()
            except Exception as error:
                self.failure = error
                if isinstance(error, OSError) and not isinstance(error, MemdbError):
                    raise OpenError(
                        f"{log.path}: can't be read: {error.strerror or error}.",
                        path=log.path,
                        errno=error.errno,
                    ) from error
                raise
            self.failure = None
            return is_new

    def _refresh(self) -> bool:
        log, follower = self._engine.log, self._follower
        log.raise_if_failed()
        self._finish()
        is_new = False
        begun = time.time_ns()
        length = follower.length()
        while (found := follower.look(length)) is not None:
            # Somebody may be waiting to close it.
            log.raise_if_failed()
            with self.lock:
                if isinstance(found, Growth):
                    is_new |= self._grow(found)
                else:
                    self._move(found)
                    length = follower.length()
                    is_new = True
            # What was committed after the call is for the next one: a busy writer would be chased
            # for long. A time to come is that of a clock which was wrong, and says nothing.
            if begun < log.timestamp <= time.time_ns():
                break
        return is_new

    # -- making it visible ---------------------------------------------------------------

    def _grow(self, found: Growth) -> bool:
        """Take in more of the same file; `lock` is held.

        Returns:
            Whether there are commits or collections in it, and not only a checkpoint.
        """
        engine, log = self._engine, self._engine.log
        with log.lock:
            log.raise_if_closed()
            before = log.next_slot, engine.collections, engine.writers
            adopt = self._adoption(log.catalogue)

            def take() -> None:
                adopt()
                log.take_in(found.data)

            self._surely(take, self._show)
            return before != (log.next_slot, engine.collections, engine.writers)

    def _move(self, found: Replacement) -> None:
        """Go over to another file; `lock` is held."""
        log = self._engine.log
        try:
            made = self._identities(found)
            with log.lock:
                log.raise_if_closed()
                adopt = self._adoption(found.state.catalogue)

                def take() -> None:
                    adopt()
                    log.move(found.file, found.era, found.state)

                self._surely(take, lambda: self._show(made))
        finally:
            if log.era is not found.era:
                found.file.close()

    def _identities(self, found: Replacement) -> dict[Store, Identities]:
        """Return the identities of each collection in another file, before anybody has to wait."""
        state, count = found.state, len(found.state.map)
        numbers = {entry["name"]: entry["id"] for entry in state.catalogue.get("collections", ())}
        made = {}
        for store in list(self._engine.stores.values()):
            number = numbers.get(store.name, 0)
            last = state.last_identities.get(number, 0)
            made[store] = store.identities_in(found.era.parts(count + 1), number, count, last)
        return made

    def _surely(self, take: Callable[[], None], show: Callable[[], None]) -> None:
        """Take something in and show it, all of it though an interrupt (Ctrl-C) comes.

        The log's lock is held. Meanwhile, whoever looks up a record looks again under that lock.

        Args:
            take, show: Each can be done again wherever it was left.
        """
        try:
            self._engine.is_publishing = True
            take()
            show()
        except Exception:
            self._engine.is_publishing = False
            raise
        except BaseException:
            take()
            show()
            raise

    def _finish(self) -> None:
        """Show what a second interrupt kept the last call from."""
        log = self._engine.log
        if self._shown != (log.era, log.next_slot):
            with self.lock, log.lock:
                self._show()

    def _show(self, made: Mapping[Store, Identities] | None = None) -> None:
        """Let the collections see what the log has; the log's lock is held.

        Args:
            made: The identities of the collections where the file is another one.
        """
        engine, log = self._engine, self._engine.log
        era, first = self._shown
        if era is log.era:
            changes = self._changes(first)
            # All of them, before anything of the commits is visible anywhere.
            for store, _, _ in changes:
                store.horizon.slot = log.next_slot
            for store, numbers, slots in changes:
                store.take_in(numbers, slots)
        else:
            stores = list(engine.stores.values())
            for store in stores:
                store.horizon.slot = log.next_slot
            for store in stores:
                store.start_over(made[store] if made else store.identities_here())
        self._shown = log.era, log.next_slot
        engine.is_publishing = False

    def _changes(self, first: int) -> list[tuple[Store, Array, Array]]:
        """Return numbers and slots, 0 for deletions, of the versions of each collection.

        Raises:
            DamageError: A pointer is none that memdb writes.
        """
        log = self._engine.log
        pointers = (
            log.pointers(first) if first < log.next_slot else log.pointers_of(np.empty(0, int))
        )
        slots = np.arange(first, log.next_slot)
        slots[pointers["kind"] == Kind.DELETED] = 0
        found = []
        for store in list(self._engine.stores.values()):
            own = np.flatnonzero(pointers["collection"] == store.collection_id)
            if store.collection_id and len(own):
                store.refuse_unknown(pointers[own])
                found.append((store, pointers["identity"][own], slots[own]))
        return found

    # -- the catalogue -------------------------------------------------------------------

    def _adoption(self, catalogue: Catalogue) -> Callable[[], None]:
        """Return what takes over a catalogue, and can be done again wherever it was left.

        The log's lock is held.

        Raises:
            OpenError: It is that of another database.
            ConfigError: It contradicts how a collection was asked for.
        """
        engine = self._engine
        found = list(catalogue.get("collections", ())), list(catalogue.get("writers", ()))
        if found == self._adopted:
            return lambda: None
        meanings = self._known.checked(engine.place, catalogue)
        entries = {entry["name"]: entry for entry in found[0]}
        keys = {
            store: self._key_of(store, entries.get(store.name))
            for store in list(engine.stores.values())
        }

        def adopt() -> None:
            self._known.take(meanings)
            engine.collections, engine.writers = found
            for store, key in keys.items():
                store.take_numbers(engine.collection_id(store.name), key)
            # Last: else what an interrupt had left would never be done.
            self._adopted = found

        return adopt

    def _key_of(self, store: Store, entry: Catalogue | None) -> NaturalKey | None:
        """Return the key that a collection has in the file, None for none that is new.

        Raises:
            ConfigError: It is another than this program has asked for.
        """
        if entry is None or store.collection_id:
            return None
        key = store.declaration.key_of(store, entry)
        if store.key is None and key is not None:
            raise ConfigError(
                f"{store.name}: was made meanwhile, by a program that names its records by their"
                f" {', '.join(key.fields)}. Open the database again and ask for it with key=."
            )
        return key


class Numbers:
    """What the numbers of collections and writers mean, as far as they were ever met.

    They are kept when a file is compacted and never given again. So whatever contradicts them is
    another database, of which nothing that was read or asked for holds.
    """

    def __init__(self) -> None:
        self._meanings: dict[tuple[str, int], Any] = {}

    def checked(self, place: str, catalogue: Catalogue) -> dict[tuple[str, int], Any]:
        """Return what the numbers of a catalogue mean, for `take`.

        Raises:
            OpenError: One has another meaning by now.
        """
        meanings: dict[tuple[str, int], Any] = {}
        for entry in catalogue.get("collections", ()):
            key = entry.get("key", {})
            meanings["collection", entry["id"]] = entry["name"], key.get("hash"), key.get("seed")
        for entry in catalogue.get("writers", ()):
            meanings["writer", entry["id"]] = entry["collection"], entry["schema"]
        for number, meaning in meanings.items():
            if self._meanings.get(number, meaning) != meaning:
                raise OpenError(
                    f"{place}: another database lies there than the one that was opened. Close it"
                    " and open it again.",
                    path=place,
                )
        return meanings

    def take(self, meanings: Mapping[tuple[str, int], Any]) -> None:
        """Note what `checked` has returned, once nothing is against that file."""
        self._meanings.update(meanings)


class Refresher(Flusher):
    """The thread that refreshes at intervals; it ends with the database.

    A failure is told by `logging`, once until it is another one, and by `Database.health`; the
    next attempt may well succeed.
    """

    __slots__ = ("_refreshing", "_told")

    name = "memdb-refresher"

    def __init__(self, refreshing: Refreshing, interval_s: float) -> None:
        super().__init__(self._refresh, interval_s, lambda: None)
        # Weak, so that a database that nobody has any more can go.
        self._refreshing = weakref.ref(refreshing)
        self._told = ""

    def _refresh(self) -> None:
        refreshing = self._refreshing()
        if refreshing is None:
            self._is_stopping = True
        else:
            refreshing.refresh()

    def run_once(self) -> None:
        """Refresh once and tell of a failure."""
        try:
            self._refresh()
            self._told = ""
        except (ClosedError, ForkedError):
            self._is_stopping = True
        except Exception as error:
            if str(error) != self._told:
                self._told = str(error)
                warn(f"the refresh in the background failed: {error}")
