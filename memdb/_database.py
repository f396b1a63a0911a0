"""Opening a database, and the database as the user meets it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType, UnionType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, overload

import numpy as np

from memdb import _config, _maintenance
from memdb._auto_compaction import Compactor
from memdb._collection import Collection, KeyedCollection, Version, make_collection
from memdb._declaration import CollectionSettings, Declaration, Upgrade
from memdb._engine import Engine
from memdb._health import Health, health_of
from memdb._index_declarations import IndexDeclaration
from memdb._migration import MigrationResult, migrate
from memdb._reference_checks import dangling
from memdb._references import connect
from memdb._scan import misplaced
from memdb._secrets import keys_of, new_secret, without_secrets
from memdb._statistics import DatabaseStats, collection_stats
from memdb._transaction import TransactionScope
from memdb._view import View, checked_moment
from memdb.serializers import Serializer
from memdb.storage import (
    CompactionResult,
    Finding,
    Log,
    MemoryFile,
    OSFile,
    Progress,
    Recovery,
    SnapshotResult,
    check_log,
)

if TYPE_CHECKING:
    from memdb._config import Config

T = TypeVar("T")
Path = str | bytes | os.PathLike[str] | os.PathLike[bytes]
Mode = Literal["rw", "r", "append"]
Key = str | Sequence[str]


def open(
    path: Path | None,
    mode: Mode = "rw",
    config: Config | Mapping[str, Any] | str | os.PathLike[str] | None = None,
    **settings: Any,
) -> Database:
    """Open a database, made if there is none.

    Args:
        path: The file; None for a database in memory only.
        mode: ``"rw"``; ``"r"`` reads beside any writer and changes nothing; ``"append"`` takes
            new records and neither changes nor deletes any.
        config: Settings to start from: a `Config`, a mapping, or the path of a TOML or JSON file.
        settings: Single settings, which go before those of ``config``; see `Config`.

    Returns:
        The database, which closes itself at the end of a ``with`` block.

    Raises:
        ConfigError: A setting is unknown or wrong, or contradicts another.
        LockedError: Another writer has the file open.
        FileMissingError: There is no such file (``"r"``), or no such directory.
        FilePermissionError: The file may not be opened so.
        NotADatabaseError: It is something else.
        UnsupportedFormatError: A newer memdb wrote it.
        DamageError: The file is damaged; it is left as it is.
        WrongKeyError: The file is encrypted and the key is missing or another one; or it is not
            encrypted and a key was given.

    Cost: O(versions), vectorised: some ten milliseconds for a million. Records are not read. With
    a password another third of a second, and 128 MiB of memory for that time.
    After a crash also the walk over the commits since the last checkpoint, and one sync of them.

    >>> import memdb
    >>> with memdb.open(None) as db:
    ...     notes = db.collection("notes")
    ...     notes.insert({"text": "hello"})
    1
    """
    resolved = _config.resolve(None if path is None else os.fsdecode(path), mode, config, settings)
    keys = keys_of(resolved, None if path is None else os.fsdecode(path))
    resolved = without_secrets(resolved)
    if path is None:
        log = Log(MemoryFile(), checkpoint_interval=resolved.checkpoint_interval, keys=keys)
    else:
        log = Log(
            OSFile(os.fsdecode(path), write=mode != "r"),
            mode=mode,
            durability=resolved.durability,
            flush_interval_s=resolved.flush_interval,
            checkpoint_interval=resolved.checkpoint_interval,
            keys=keys,
        )
    try:
        engine = Engine(log, resolved, mode)
        if mode == "rw" and resolved.compact_when is not None:
            engine.compact_in_background(Compactor(engine, resolved.compact_when))
        return Database(engine)
    except BaseException:
        log.close()
        raise


class Database:
    """An open database; made by `open`.

    Threads: all methods may be called from any thread at once.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._collections: dict[str, tuple[Collection[Any], Declaration]] = {}

    def __repr__(self) -> str:
        state = "closed" if self.is_closed else f"mode {self._engine.mode}"
        return f"<Database {self._engine.place} ({state})>"

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @overload
    def collection(
        self, cls_or_name: type[T], *, key: None = None, **settings: Unpack[CollectionSettings]
    ) -> Collection[T]: ...
    @overload
    def collection(
        self, cls_or_name: str, *, key: None = None, **settings: Unpack[CollectionSettings]
    ) -> Collection[dict[str, Any]]: ...
    @overload
    def collection(
        self, cls_or_name: UnionType, *, key: None = None, **settings: Unpack[CollectionSettings]
    ) -> Collection[Any]: ...
    @overload
    def collection(
        self,
        cls_or_name: type[T],
        *,
        key: str | Sequence[str],
        **settings: Unpack[CollectionSettings],
    ) -> KeyedCollection[T]: ...
    @overload
    def collection(
        self, cls_or_name: str, *, key: Key, **settings: Unpack[CollectionSettings]
    ) -> KeyedCollection[dict[str, Any]]: ...
    @overload
    def collection(
        self,
        cls_or_name: UnionType,
        *,
        key: str | Sequence[str],
        **settings: Unpack[CollectionSettings],
    ) -> KeyedCollection[Any]: ...
    def collection(
        self,
        cls_or_name: Any,
        *,
        name: str | None = None,
        key: Key | None = None,
        serializer: str | Serializer | None = None,
        cloner: str | Callable[[Any], Any] | None = None,
        cache: int | str | None = None,
        identity_index: bool | None = None,
        version: int | None = None,
        upgrade: Upgrade | None = None,
        upgrades: Mapping[int, Upgrade] | None = None,
        renames: Mapping[str, str] | None = None,
        converters: Mapping[str, Callable[[Any], Any]] | None = None,
        subclasses: bool | None = None,
        tags: Mapping[str, type] | None = None,
        aliases: Mapping[str, type] | None = None,
        indexes: Iterable[IndexDeclaration] = (),
    ) -> Collection[Any]:
        """Return the collection of a class, made with its first record.

        Args:
            cls_or_name: The class of the records, a dataclass or one of its kin; a union of
                some; or a name, for records that are plain dicts. By its name a collection of a
                class can be read as dicts, and not be changed.
            name: The collection's name in the file, the class's own unless told.
            key: The natural key: the field whose value names a record, or a tuple of fields.
                Given when the collection is made, and the same ever after.
            serializer, cloner, cache: Instead of the database's settings.
            identity_index: False scans for each lookup by identity; True unless told.
            version: Of the class, a number from 1 (unless told) that rises when the class
                changes in a way that needs one of the ``upgrades``.
            upgrade: For the records of any other form of the class: a function of the record as a
                dict of what was stored, which changes that or returns another.
            upgrades: Version -> such a function, which makes records of the version before into
                that one.
            renames: Old name of a field -> new one.
            converters: Field -> a function of the stored value, for records in which the field
                was of another type.
            subclasses: Whether records of any subclass of the class belong to the collection.
            tags: What the file calls a class -> the class, where that is not to be its own
                name. These classes belong to the collection too.
            aliases: Former name or tag of a class, also of a nested one or an Enum -> the class.
            indexes: `HashIndex`, `SortedIndex`, `SetIndex`, `ColumnIndex`. Each is built when it
                is first used, a unique one before the first write at the latest.

        Returns:
            The same object each time.

        Raises:
            RecordTypeError: The class is no record class.
            ConfigError: A setting is wrong, or another than when it was first asked for.

        Cost: O(versions in the file), vectorised, the first time.
        """
        self._engine.log.raise_if_closed()
        declaration = Declaration.of(
            cls_or_name,
            name=name,
            key=key,
            serializer=serializer,
            cloner=cloner,
            cache=cache,
            identity_index=identity_index,
            version=version,
            upgrade=upgrade,
            upgrades=upgrades,
            renames=renames,
            converters=converters,
            subclasses=subclasses,
            tags=tags,
            aliases=aliases,
            indexes=indexes,
        )
        with self._lock:
            return self._collection(declaration)

    def _collection(self, declaration: Declaration) -> Collection[Any]:
        """Return the collection that was asked for, made the first time; `_lock` is held."""
        name = declaration.name
        if name in self._collections:
            collection, before = self._collections[name]
            before.refuse_another(declaration)
            return collection
        # It must not miss what comes in between its making and its being known.
        with self._engine.making:
            store = declaration.make_store(self._engine)
            connect(self._engine, store)
        collection = make_collection(store)
        self._collections[name] = collection, declaration
        return collection

    def collections(self) -> list[str]:
        """Return the names of the collections in the file, in order of their making."""
        self._engine.log.raise_if_closed()
        return [entry["name"] for entry in self._engine.collections]

    def transaction(self) -> TransactionScope:
        """Return a context manager: all changes inside are one commit, or none if it raises.

        Reads inside see what was changed inside; others do not until the end, and other writers
        wait. Inside another transaction it is a savepoint. Not tied to a thread: whatever runs in
        the same `contextvars` context is part of it, as `asyncio.to_thread` is.

        Raises:
            TransactionError: Another task of this thread has one open.
            ReadOnlyError, ClosedError: The database can't be written.
            WriteError: At the end: the disk refused, nothing was changed.
            ForeignKeyError: At the end: a record would refer to one that is not there.

        >>> import memdb
        >>> db = memdb.open(None)
        >>> accounts = db.collection("accounts")
        >>> accounts.insert_many([{"cents": 100}, {"cents": 0}])
        [1, 2]
        >>> with db.transaction():
        ...     accounts.update(1, cents=40)
        ...     accounts.update(2, cents=60)
        True
        True
        >>> db.close()
        """
        return TransactionScope(self._engine)

    # -- as it was -----------------------------------------------------------------------

    def view(self) -> View:
        """Return the database as of the last commit, which stays so while others write.

        What the calling context's transaction has changed is not in it. Close it, best by
        ``with``, so that its caches go; it is closed with the database at the latest.

        Raises:
            ClosedError: The database is closed.

        Cost: some microseconds; what `View.collection` says for each collection.
        """
        return View(self._engine, None)

    def at(self, when: datetime | int | Version[Any]) -> View:
        """Return the database as it was, as far back as the file goes.

        Args:
            when: A time with a zone: behind the last commit that was made by then, to a
                millisecond. Or the number of a version, as the file counts them from 1, or a
                `Version` of `Collection.history`: behind the commit that it is in. A compaction
                renumbers them.

        Returns:
            A view like that of `view`.

        Raises:
            CommitNotFoundError: There was no commit by then, or it was before a compaction.
            ConfigError: The time has no zone, or it is nothing of the kind.
            ClosedError: The database is closed.

        Cost: as `view`.

        >>> import memdb
        >>> db = memdb.open(None)
        >>> notes = db.collection("notes")
        >>> note = notes.insert({"text": "first"})
        >>> notes.update(note, text="second")
        True
        >>> with db.at(notes.history(note)[0]) as before:
        ...     before.collection(notes)[note]["text"]
        'first'
        >>> db.close()
        """
        return View(self._engine, checked_moment(when))

    # -- maintenance ---------------------------------------------------------------------

    def migrate(
        self,
        *,
        progress: Callable[[int, int], object] | None = None,
        dry_run: bool = False,
    ) -> MigrationResult:
        """Rewrite every record that was written by another form of its class.

        Not needed for reading, where each record is upgraded as it is met; it does so once for
        all, so that old upgrades can be thrown away and every record is known to be readable.
        Of the collections that were asked for in this program; records that a newer program
        wrote are left as they are. Each thousand records are one commit, and others can write
        in between; what was done stays done when it is interrupted.

        Args:
            progress: Called now and then with the numbers of records done and to be done.
            dry_run: Try every record and write nothing.

        Returns:
            How many records there were, and those that could not be upgraded, with the errors.

        Raises:
            TransactionError: Inside a transaction.
            ReadOnlyError, ClosedError, WriteError: As for an update.

        Cost: O(versions in the file), vectorised, and for each old record a decoding, an encoding
        and an append.
        """
        return migrate(self._engine, progress=progress, is_dry_run=dry_run)

    def rekey(
        self,
        *,
        key: bytes | Callable[[], bytes | str] | None = None,
        password: str | bytes | Callable[[], bytes | str] | None = None,
    ) -> None:
        """Have the file opened by another key or password from now on.

        Killed at any moment, the old one or the new one opens the file; when this returns only
        the new one does. What encrypts the records is not changed: see `docs/security.md`.

        Args:
            key: 32 bytes, or a function that returns them; see `Config`.
            password: A password, or a function that returns it.

        Raises:
            ConfigError: Not just one of the two is given, or it is of a wrong type.
            WrongKeyError: The file is not encrypted, or the new key or password can't be one.
            ReadOnlyError, ClosedError: The file can't be written.
            FailedError: The disk refused; the old one or the new one opens the file.

        Cost: two syncs; with a password a third of a second and 128 MiB.
        """
        self._engine.log.raise_if_unusable()
        self._engine.log.rekey(new_secret(key, password))

    def refresh(self) -> bool:
        """Take in what another process has committed since, when open with ``mode="r"``.

        Everything that was committed before the call is visible after it, each commit wholly and
        in order; a query that is running keeps to what it began with. If the path leads to
        another file by now, as after a compaction, that is read from then on. The writer is never
        kept waiting.

        Returns:
            Whether there was anything new. False for a writer, who knows every commit.

        Raises:
            FileMissingError: There is no file at the path any more.
            OpenError: What lies there can't be read, or is another database.
            DamageError: The file is damaged.
            ConfigError: A collection that was asked for before it was in the file contradicts what
                is in there now.
            ClosedError: The database is closed.

            After each of these, what was read before stays as it was, and a later refresh may
            succeed.

        Cost: 20 us when there is nothing new, and 1 us a commit. After a compaction as `open`.
        """
        engine = self._engine
        engine.log.raise_if_closed()
        return engine.refreshing is not None and engine.refreshing.refresh()

    def flush(self) -> None:
        """Return once every commit so far survives power loss.

        Raises:
            FailedError: The disk refused; no further write is accepted until reopened.
            ClosedError: The database is closed.
        """
        self._engine.log.sync()

    def checkpoint(self) -> None:
        """Write a checkpoint, so that opening after a crash walks nothing older; then flush.

        Large indexes that were built or have changed much since are written first, as by `close`.

        Raises:
            WriteError: There is no room; the commits are safe all the same.
            FailedError, ClosedError: As `flush`.
        """
        self._engine.save_indexes()
        self._engine.log.sync(checkpoint=True)

    def snapshot(
        self,
        path: Path,
        *,
        base: Path | None = None,
        progress: Progress | None = None,
    ) -> SnapshotResult:
        """Copy the database to another file, as it is at this moment, while others go on.

        The copy has every commit up to the call and none after it, its history and its time
        included. What is copied is read back and compared, and the copy is opened; it appears under
        its path when it is whole. In a transaction the copy has what was committed before it.

        Args:
            path: Where the copy is to be, and nothing is; for an in-memory database too.
            base: An older snapshot of the same file, of which only what came since is copied. If
                it is the same as ``path`` it is extended in place; else it is copied first, and
                stays as it is.
            progress: Called with the numbers of bytes done and to be done, and ``"bytes"``. What
                it raises ends the work; nothing is left of it then, and a base is as it was.

        Returns:
            Where the copy is, and what is in it.

        Raises:
            FileTakenError: Something is at the path, or the base is no older snapshot of this
                file: that of another one, from before a compaction, or changed since.
            FileMissingError: There is no base, or no such directory.
            LockedError: The base is open for writing, or somebody makes the same file.
            DamageError: What was read back is not what was copied.
            WriteError: The disk refused; nothing is left.
            ClosedError: The database is closed.

        Cost: a copy of the log, by the system where it can share or copy ranges, and reading both.

        >>> import memdb, tempfile, os
        >>> folder = tempfile.TemporaryDirectory()
        >>> with memdb.open(None) as db:
        ...     db.collection("notes").insert({"text": "hello"})
        ...     copy = db.snapshot(os.path.join(folder.name, "copy.memdb"))
        1
        >>> with memdb.open(copy.path, "r") as db:
        ...     db.collection("notes")[1]
        {'text': 'hello', 'id': 1}
        >>> folder.cleanup()
        """
        return _maintenance.snapshot(self._engine, path, base, progress)

    def compact(
        self, *, archive: Path | None = None, progress: Progress | None = None
    ) -> CompactionResult:
        """Rewrite the file with the records that live, so that it takes no more than they need.

        Old versions and deleted records are dropped, and with them the history; identities are
        never given twice all the same. Records of the collections that were asked for are
        converted to their present class and serializer, as by `migrate`. Others read and write
        meanwhile, and wait only for the last moment, in which the new file takes the place of the
        old one at one stroke; who writes without a pause has to wait in between, too. Killed,
        interrupted or out of space before that, the old file is untouched and in force, and nothing
        of the new one is left.

        Args:
            archive: Where the old file is kept, and nothing is: for `memdb.restore`, which finds
                it if it stays where it is, seen from the database.
            progress: Called with the numbers of records done and to be done, and ``"records"``.
                What it raises ends the work, and nothing has changed.

        Returns:
            Sizes before and after, and how many versions there are and were dropped.

        Raises:
            DamageError: The bytes of a record that lives are damaged. Nothing has changed.
            WriteError: The disk refused, or the file is not at its path any more. Nothing has
                changed, unless the message says that the archive could not be finished.
            FailedError: Whether the new file survives a power loss is not known; no further write
                is accepted until reopened. What was committed is in either file.
            FileTakenError: Something is at ``archive``.
            TransactionError: Inside a transaction, or called by ``progress`` of another one.
            ReadOnlyError, ClosedError: The database can't be written.

        Cost: 1 us a record that lives, 3 us a commit that is made meanwhile; the file needs room
        beside it for what lives. Indexes stay as they are, and the cache does.

        >>> import memdb
        >>> with memdb.open(None) as db:
        ...     notes = db.collection("notes")
        ...     note = notes.insert({"text": "draft"})
        ...     notes.update(note, text="final")
        ...     db.compact().dropped_versions
        True
        1
        """
        return _maintenance.compact(self._engine, archive, progress)

    def check(self) -> list[Finding]:
        """Verify every byte of the log and what was built from it; change nothing.

        Returns:
            What was found, empty when all is well.

        Cost: O(file). Safe while in use.
        """
        log = self._engine.log
        log.raise_if_closed()
        findings = check_log(log)
        for store in list(self._engine.stores.values()):
            with log.lock:
                # Kept, so that the slots can be read when a compaction comes meanwhile.
                era = log.era
                identities, slots = store.identities.arrays()
                count = len(store.identities)
                pointers = log.pointers_of(slots)
            if count != np.count_nonzero(np.diff(identities, prepend=0)):
                message = (
                    f"{store.name}: the index counts {count} records, it has {len(identities)}"
                )
                findings.append(Finding(log.end, message))
            is_wrong = (pointers["identity"] != identities) | (
                pointers["collection"] != store.collection_id
            )
            findings += [
                Finding(int(pointer["offset"]), f"{store.name}: the index leads to another record")
                for pointer in pointers[is_wrong]
            ]
            findings += [
                Finding(log.end, f"{store.name}: the index {name!r} {fault}")
                for name, fault in store.indexes.faults().items()
            ]
            # In a transaction, references may lead to what it has not committed yet.
            if self._engine.current() is None:
                findings += [
                    Finding(log.end, f"{store.name}: {fault}") for fault in dangling(store)
                ]
            if store.key is not None:
                findings += misplaced(store, store.key, pointers["offset"].tolist(), slots)
            del era
        return findings

    def stats(self) -> DatabaseStats:
        """Return counts and sizes. Cost: O(versions), vectorised; no record is read."""
        log = self._engine.log
        log.raise_if_closed()
        with log.lock:
            sizes, pointers = log.sizes(), log.pointers()
        return DatabaseStats(
            collections={
                entry["name"]: collection_stats(
                    entry["name"],
                    entry["id"],
                    pointers,
                    log.last_identities.get(entry["id"], 0),
                    has_key="key" in entry,
                )
                for entry in self._engine.collections
            },
            **sizes,
        )

    def health(self) -> Health:
        """Return whether all is well, and what is not; for whoever watches over a program.

        It reads nothing but the state in memory, waits for nobody, and changes nothing: a failure
        of the background that is among the reasons is still raised by the next call.

        Returns:
            The reasons, with names for programs and messages for people; none when all is well.

        Raises:
            ClosedError, ForkedError: The database can't be used.

        Cost: O(1); O(versions), vectorised, each time that a large log has grown by a tenth.
        With ``mode="r"`` a look at what follows in the file.

        >>> import memdb
        >>> with memdb.open(None) as db:
        ...     db.health().is_well
        True
        """
        return health_of(self._engine)

    @property
    def path(self) -> str | None:
        """The real path of the file, None in memory."""
        return self._engine.log.path

    @property
    def is_encrypted(self) -> bool:
        """Whether the file was made with a key or a password."""
        return self._engine.log.is_encrypted

    @property
    def recovery(self) -> Recovery | None:
        """What opening had to mend, None when the file was closed cleanly."""
        return self._engine.log.recovery

    @property
    def is_closed(self) -> bool:
        """Whether the handle can't be used any more."""
        return self._engine.log.is_closed

    def close(self) -> None:
        """Flush, checkpoint and close; the second time does nothing.

        Raises:
            FailedError: The data could not be synced. The file is closed all the same.

        Cost: O(versions since the last checkpoint) and two syncs; nothing when nothing changed.
        A large index of numbers, dates or datetimes that was built or has changed much is written
        first: some 30 ms for a million records.
        """
        self._engine.close()
