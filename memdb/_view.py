"""Views: a database as it was at one commit."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from types import TracebackType, UnionType
from typing import Any, TypeVar, Unpack, overload

from memdb._collection import Collection, KeyedCollection, Version, make_collection
from memdb._declaration import CollectionSettings, Declaration
from memdb._engine import Engine
from memdb._references import connect
from memdb.errors import ConfigError, shown
from memdb.storage import PastLog, number_at

T = TypeVar("T")


class View:
    """A database as it was at one commit, for reading; made by `Database.view` and `Database.at`.

    Its collections read like those of the database, with queries, joins, indexes and history,
    and stay as they are while others write. They have caches and indexes of their own, so that
    each record is decoded again when it is first read here. Writing raises `ReadOnlyError`.

    Threads: all methods may be called from any thread at once.

    Attributes:
        slot: The number of the last version that is seen, as the file counts them from 1.

    >>> import memdb
    >>> db = memdb.open(None)
    >>> notes = db.collection("notes")
    >>> notes.insert({"text": "before"})
    1
    >>> with db.view() as view:
    ...     notes.update(1, text="after")
    ...     view.collection(notes)[1]["text"]
    True
    'before'
    >>> db.close()
    """

    def __init__(self, engine: Engine, at: int | datetime | None) -> None:
        """Look at a database.

        Args:
            engine: Of the database.
            at: As of when, None for now; see `Database.at`.
        """
        log = engine.log
        log.raise_if_closed()
        with log.lock:
            log.raise_if_closed()
            self.slot = log.next_slot - log.first_slot if at is None else number_at(log, at)
            past = PastLog(log, self.slot + 1)
        self._engine = engine.add_view(Engine(past, engine.config, "r"))
        self._parent = engine
        self._lock = threading.Lock()
        self._collections: dict[str, Collection[Any]] = {}

    def __repr__(self) -> str:
        state = "closed" if self.is_closed else f"version {self.slot}"
        return f"<View of {self._engine.place} ({state})>"

    def __enter__(self) -> View:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @overload
    def collection(self, wanted: KeyedCollection[T]) -> KeyedCollection[T]: ...
    @overload
    def collection(self, wanted: Collection[T]) -> Collection[T]: ...
    @overload
    def collection(
        self, wanted: type[T], *, key: None = None, **settings: Unpack[CollectionSettings]
    ) -> Collection[T]: ...
    @overload
    def collection(
        self, wanted: type[T], *, key: str | Sequence[str], **settings: Unpack[CollectionSettings]
    ) -> KeyedCollection[T]: ...
    @overload
    def collection(
        self,
        wanted: str | UnionType,
        *,
        key: str | Sequence[str] | None = None,
        **settings: Unpack[CollectionSettings],
    ) -> Collection[Any]: ...
    def collection(
        self,
        wanted: Any,
        *,
        key: str | Sequence[str] | None = None,
        **settings: Unpack[CollectionSettings],
    ) -> Collection[Any]:
        """Return a collection as it was.

        Args:
            wanted: A collection of the database, which is declared as there; or what
                `Database.collection` takes.
            key, settings: As for `Database.collection`. Nothing need be said of a collection that
                the database was asked for: it is declared as there.

        Returns:
            The same object each time.

        Raises:
            ConfigError: It is a collection of another database, or the database was asked for it
                in another way.
            RecordTypeError: The class is no record class.
            ClosedError: View or database are closed.

        Cost: some milliseconds for the generated code, and O(versions in the file), vectorised,
        the first time. Records and indexes are read when they are asked for.
        """
        self._engine.log.raise_if_closed()
        if isinstance(wanted, Collection):
            asked = self._declaration_of(wanted)
        else:
            asked = Declaration.asked(wanted, key=key, **settings)
        with self._lock:
            made = self._collections.get(asked.name)
            store = self._parent.stores.get(asked.name) if made is None else made._store
            declaration = asked if store is None else store.declaration
            if isinstance(wanted, str):
                # The name alone is that of whatever it is.
                asked = replace(asked, cls=declaration.cls)
            declaration.refuse_another(asked)
            if made is None:
                own = declaration.make_store(self._engine)
                connect(self._engine, own)
                made = self._collections[asked.name] = make_collection(own)
            return made

    def _declaration_of(self, collection: Collection[Any]) -> Declaration:
        store = collection._store
        if store.engine not in (self._parent, self._engine):
            raise ConfigError(
                f"{store.name}: is a collection of {store.engine.place}, and the view is of another"
                f" database, {self._engine.place}. Give the class or the name."
            )
        return store.declaration

    def collections(self) -> list[str]:
        """Return the names of the collections that had ever had a record, in order of making."""
        log = self._engine.log
        log.raise_if_closed()
        with log.lock:
            there = log.last_identities
        return [entry["name"] for entry in self._engine.collections if entry["id"] in there]

    @property
    def time(self) -> datetime | None:
        """When the last commit that is seen was made, UTC, to a millisecond; None for none."""
        log = self._engine.log
        # In this order: a view that is closed has another one.
        era = log.era
        log.raise_if_closed()
        if not self.slot:
            return None
        return datetime.fromtimestamp(era.map.time_of(self.slot) / 1e9, UTC)

    @property
    def is_closed(self) -> bool:
        """Whether the view can't be used any more: it is closed, or its database is."""
        return self._engine.log.is_closed

    def close(self) -> None:
        """Let go of what was read; the second time does nothing. The database stays open."""
        self._engine.close()


def checked_moment(at: object) -> int | datetime:
    """Return what `Database.at` was given as a number or a time.

    Raises:
        ConfigError: It is none, or a time without a zone.
    """
    if isinstance(at, Version):
        return at.slot
    if isinstance(at, datetime) and at.tzinfo is not None and at.utcoffset() is not None:
        return at
    if isinstance(at, int) and not isinstance(at, bool) and at >= 1:
        return at
    if isinstance(at, datetime):
        raise ConfigError(
            f"at() takes a time with a zone, and {at} has none. Give one, as"
            " at.replace(tzinfo=...) or datetime.now(UTC)."
        )
    raise ConfigError(
        f"at() takes a datetime with a zone, the number of a version from 1 on or a Version from"
        f" history(), not {shown(at)}."
    )
