"""What is done to whole databases: compaction, snapshots, restoring, repair, removal."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, TypedDict, Unpack

import numpy as np

from memdb import storage
from memdb._config import Config
from memdb._scan import collector_paused
from memdb._secrets import keys_of
from memdb.errors import ConfigError, DecodeError, EncodeError, TransactionError, shown
from memdb.storage import (
    CompactionResult,
    Finding,
    Keys,
    Numbering,
    OSFile,
    Progress,
    RepairResult,
    SnapshotResult,
    silent,
)

if TYPE_CHECKING:
    from memdb._engine import Engine
    from memdb._store import Store
    from memdb.storage import Array

Path = str | bytes | os.PathLike[str] | os.PathLike[bytes]


class KeySettings(TypedDict, total=False):
    """What opens an encrypted file, one of these; see `Config`."""

    key: bytes | Callable[[], bytes | str] | None
    password: str | bytes | Callable[[], bytes | str] | None
    key_env: str | None
    password_env: str | None


# -- of an open database ---------------------------------------------------------------------


def snapshot(
    engine: Engine, path: Path, base: Path | None, progress: Progress | None
) -> SnapshotResult:
    """Copy the database to a new file, see `Database.snapshot`."""
    engine.log.raise_if_closed()
    return storage.take_snapshot(
        engine.log.prefix(),
        os.fsdecode(path),
        base=None if base is None else os.fsdecode(base),
        progress=progress or silent,
    )


def compact(engine: Engine, archive: Path | None, progress: Progress | None) -> CompactionResult:
    """Put a file with what lives in the place of the database's, see `Database.compact`."""
    log = engine.log
    log.raise_if_unusable()
    engine.refuse_change()
    if engine.current() is not None:
        raise TransactionError(
            f"{engine.place}: compact() can't be part of a transaction. Call it outside."
        )
    own = threading.get_ident()
    if engine.compacting.locked() and engine.compacted_by == own:
        raise TransactionError(
            f"{engine.place}: compact() was called by the progress= of another compact(), and"
            " would wait for its end. Call it afterwards."
        )
    with engine.compacting:
        engine.compacted_by = own
        try:
            return _compact(engine, archive, progress or silent)
        finally:
            engine.compacted_by = None


def _compact(engine: Engine, archive: Path | None, progress: Progress) -> CompactionResult:
    """Compact; nobody else does meanwhile."""
    log = engine.log
    for store in list(engine.stores.values()):
        # Those that lag behind can't be told what their slots are called in the new file.
        store.indexes.catch_up_built()
    result = storage.compact(
        log,
        convert=_Conversion(engine).convert,
        switch=lambda move: _switch(engine, move),
        guard=engine.making,
        archive=None if archive is None else os.fsdecode(archive),
        progress=progress,
    )
    # The file that they were in is no more.
    end = log.end
    engine.save_indexes()
    if log.end != end:
        log.sync(checkpoint=True)
    for store in list(engine.stores.values()):
        store.indexes.let_go_of_the_file()
    return result


def _switch(engine: Engine, move: Callable[[], Numbering]) -> None:
    """Go over to the new file, and have every collection know its versions by their new slots.

    The log's lock is held.
    """
    # Before anything else: whoever looks a record up from now on looks again under the lock.
    engine.is_publishing = True
    try:
        numbering = move()
        stores = list(engine.stores.values())
        for store in stores:
            store.horizon.slot = engine.log.next_slot
        for store in stores:
            store.identities.renumber(numbering.slots)
            store.indexes.renumber(numbering.cursor)
    finally:
        engine.is_publishing = False


class _Conversion:
    """Has records of other forms written as their collections write them now."""

    def __init__(self, engine: Engine) -> None:
        self._stores: dict[int, Store] = {}
        self._old: set[int] = set()
        log = engine.log
        for store in list(engine.stores.values()):
            if not store.collection_id or store.is_borrowed():
                continue
            old = [
                entry["id"]
                for entry in engine.writers
                if entry["collection"] == store.collection_id and store.decoding.is_old(entry["id"])
            ]
            if old:
                # Before the file is copied, so that its catalogue has them.
                with log.lock:
                    log.raise_if_unusable()
                    store.ensure_registered(store.members)
                self._old |= set(old)
                self._stores[store.collection_id] = store

    def convert(self, pointers: Array, payloads: list[bytes]) -> None:
        """Convert what is old among some versions; what can't be read stays as it is."""
        if not self._old:
            return
        places = np.flatnonzero(np.isin(pointers["writer"], list(self._old))).tolist()
        numbers, writers = pointers["identity"].tolist(), pointers["writer"].tolist()
        collections = pointers["collection"].tolist()
        with collector_paused():
            for place in places:
                store = self._stores[collections[place]]
                try:
                    record = store.decoding.decode(writers[place], payloads[place], numbers[place])
                    member = store.member_of(record)
                    payloads[place] = member.codec.encode(record)
                except (DecodeError, EncodeError):
                    # As readable as before, in the old form.
                    continue
                writers[place] = member.writer_id
        pointers["writer"] = writers


# -- of files --------------------------------------------------------------------------------


def restore(
    path: Path,
    at: int | datetime | None = None,
    *,
    to: Path,
    archives: Iterable[Path] = (),
    overwrite: bool = False,
    progress: Progress | None = None,
    **key: Unpack[KeySettings],
) -> SnapshotResult:
    """Make a new file of a database as it was at some commit.

    Args:
        path: The file, a snapshot or an archive. Somebody may have it open, also for writing.
        at: A time with a zone: the last commit that was made by then. A number: that of a
            version as the file counts them, from 1, for the commit that it is in. None for the
            last commit.
        to: Where the new file is to be.
        archives: Files that compactions have kept, for times before the last compaction. Those
            that the file names, and that are still there, are found without. One that is named
            here is enough, whatever compactions came after it.
        overwrite: Take the place of a database that is at ``to``, at one stroke.
        progress: Called with the numbers of bytes done and to be done, and ``"bytes"``. What it
            raises ends the work; nothing is left of it then.
        key: Of an encrypted file: ``key``, ``password``, ``key_env`` or ``password_env``.

    Returns:
        Where the file is, and what is in it.

    Raises:
        CommitNotFoundError: Neither the file nor its archives go back so far.
        FileTakenError: Something is at ``to`` already, or it is the file itself.
        LockedError: The database at ``to`` is open for writing.
        DamageError: The file is damaged: `repair` it first.
        ConfigError: ``at`` is no time with a zone and no number from 1 on, or ``archives`` a path.
        WriteError: The disk refused; nothing is left.
        OpenError: The file can't be read, as for `open`.

    Cost: a copy of the file up to that commit.

    >>> import memdb, tempfile, os
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = os.path.join(folder.name, "notes.memdb")
    >>> with memdb.open(path) as db:
    ...     notes = db.collection("notes")
    ...     first, second = notes.insert({"text": "one"}), notes.insert({"text": "two"})
    >>> result = memdb.restore(path, at=1, to=os.path.join(folder.name, "before.memdb"))
    >>> with memdb.open(result.path) as db:
    ...     len(db.collection("notes"))
    1
    >>> folder.cleanup()
    """
    is_time = isinstance(at, datetime)
    is_slot = isinstance(at, int) and not isinstance(at, bool) and at >= 1
    if at is not None and not is_slot and not (is_time and at.utcoffset() is not None):  # type: ignore[union-attr]
        raise ConfigError(
            f"at={shown(at)} is not allowed. Give a datetime with a zone, the number of a version"
            " from 1 on, or None for the last commit."
        )
    if isinstance(archives, str | bytes | os.PathLike):
        raise ConfigError(f"archives={shown(archives)} is one path. Give a list of them.")
    return storage.restore(
        os.fsdecode(path),
        os.fsdecode(to),
        at=at,
        archives=list(map(os.fsdecode, archives)),
        overwrite=overwrite,
        keys=_keys(path, key),
        progress=progress or silent,
    )


def check(path: Path, **key: Unpack[KeySettings]) -> list[Finding]:
    """Verify every byte of a file that nobody writes to, and change nothing.

    Unlike `Database.check` it needs no opening, so that it tells of a file that is too damaged
    for that; what only the classes know, as foreign keys and indexes, it does not look at.

    Args:
        path: The file.
        key: Of an encrypted file: ``key``, ``password``, ``key_env`` or ``password_env``.

    Returns:
        What was found, in the order of the file; empty when all is well. A commit that was not
        finished when its writer was killed is no finding: opening cuts it off.

    Raises:
        FileMissingError: There is no such file.
        NotADatabaseError: It is something else, or empty.
        UnsupportedFormatError: A newer memdb wrote it.
        WrongKeyError: The key is missing or another one, or the file is not encrypted.

    Cost: O(file), 2 us a record.

    >>> import memdb, tempfile, os
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = os.path.join(folder.name, "notes.memdb")
    >>> with memdb.open(path) as db:
    ...     db.collection("notes").insert({"text": "hello"})
    1
    >>> memdb.check(path)
    []
    >>> folder.cleanup()
    """
    file = OSFile(os.fsdecode(path), write=False)
    try:
        findings = storage.check_file(file, _keys(path, key))
    finally:
        file.close()
    return sorted(findings, key=lambda finding: finding.offset)


def repair(
    path: Path,
    *,
    to: Path,
    progress: Progress | None = None,
    **key: Unpack[KeySettings],
) -> RepairResult:
    """Salvage everything that is readable in a damaged file into a new one, and list the loss.

    The damaged file is not changed. All versions that are whole are kept, in their order, with
    their times; the numbers of collections and the highest identities too. Of a record whose last
    version is damaged an older one is kept, and the loss says so. A deletion that is among what is
    lost can't be told: look through the records if the result says that versions are lost whose
    records are not named.

    Args:
        path: The damaged file, which nobody writes to.
        to: Where the new one is to be, and nothing is.
        progress: As for `restore`.
        key: Of an encrypted file: ``key``, ``password``, ``key_env`` or ``password_env``.

    Returns:
        How much there is in the new file, and what is not.

    Raises:
        DamageError: Nothing can be salvaged: the file's id is lost, or each of its catalogues.
        FileTakenError: Something is at ``to`` already.
        WriteError: The disk refused; nothing is left.
        OpenError: The file can't be read, or is something else.

    Cost: O(file), 5 us a record.

    >>> import memdb, tempfile, os
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = os.path.join(folder.name, "notes.memdb")
    >>> with memdb.open(path) as db:
    ...     db.collection("notes").insert({"text": "hello"})
    1
    >>> memdb.repair(path, to=os.path.join(folder.name, "whole.memdb")).losses
    ()
    >>> folder.cleanup()
    """
    return storage.repair(
        os.fsdecode(path),
        os.fsdecode(to),
        keys=_keys(path, key),
        progress=progress or silent,
    )


def destroy(path: Path) -> list[str]:
    """Remove a database and what memdb has made beside it: torn tails and unfinished files.

    Snapshots and archives stay.

    Args:
        path: The file; where it is a link, that goes too.

    Returns:
        The paths that were removed.

    Raises:
        FileMissingError: There is no such file.
        NotADatabaseError: It is something else, and stays.
        LockedError: It is open for writing.
        FilePermissionError: It may not be opened for writing.
        WriteError: The system refused.

    >>> import memdb, tempfile, os
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = os.path.join(folder.name, "notes.memdb")
    >>> memdb.open(path).close()
    >>> len(memdb.destroy(path))
    1
    >>> folder.cleanup()
    """
    return storage.destroy(os.fsdecode(path))


def _keys(path: Path, settings: KeySettings) -> Keys | None:
    return keys_of(Config(**settings), os.fsdecode(path))
