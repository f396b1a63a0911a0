"""Going back: which prefix of a log is the state at an earlier commit, and a file made of it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from memdb.errors import CommitNotFoundError, DamageError, MemdbError, NotADatabaseError
from memdb.storage._blocks import Root
from memdb.storage._constants import (
    CATALOGUE_MAGIC,
    CHECKPOINT_MAGIC,
    COMMIT_MAGIC,
    HEADER_BYTES,
    LOG_START,
)
from memdb.storage._copying import Prefix, SnapshotResult, copy_to
from memdb.storage._creation import refuse_unfinished
from memdb.storage._file import File, OSFile
from memdb.storage._left_over import created_of
from memdb.storage._new_file import Progress, copied_header, silent
from memdb.storage._origin import Origin, origin_of
from memdb.storage._recovery import LogState, MapReader, load, read_header, valid_header

if TYPE_CHECKING:
    import mmap

    from memdb.storage._key_slots import Keys


def restore(
    path: str,
    to: str,
    *,
    at: int | datetime | None = None,
    archives: Iterable[str] = (),
    overwrite: bool = False,
    keys: Keys | None = None,
    progress: Progress = silent,
) -> SnapshotResult:
    """Make a file of the state of another one at an earlier commit.

    Args:
        path: The file; a writer may be at work in it.
        to: Where the new one is to be.
        at: The slot of a version, for the state behind its commit; or a time with a zone; None for
            the last commit.
        archives: What compactions have kept of the file; those that it names are found without.
        overwrite: Take the place of a database at ``to``.
        keys: Of an encrypted file.
        progress: Is told of bytes.

    Raises:
        CommitNotFoundError: There is no such state in any of them.
    """
    file, state, data = _found(path, at, list(archives), keys)
    try:
        root = root_at(file, state, data, _slot_at(path, state, at))
        prefix = Prefix(file, state.file_id, root, copied_header(file), keys)
        return copy_to(prefix, to, overwrite=overwrite, progress=progress)
    finally:
        file.close()


def _found(
    path: str, at: int | datetime | None, archives: list[str], keys: Keys | None
) -> tuple[OSFile, LogState, mmap.mmap]:
    """Open the file of the chain that holds a state."""
    while True:
        file = OSFile(path, write=False)
        try:
            refuse_unfinished(file)
            state, _, data = load(file, "read", keys)
            origin = origin_of(state.catalogue)
            if origin is None or not _is_before(at, origin):
                return file, state, data
            path = _archive(file, at, origin, archives, keys)
        except BaseException:
            file.close()
            raise
        file.close()


def _is_before(at: int | datetime | None, origin: Origin) -> bool:
    if isinstance(at, datetime):
        return nanoseconds(at) // 1000 < origin.time // 1000
    return at is not None and at < origin.slot - 1


def _archive(
    later: File, at: int | datetime | None, origin: Origin, archives: list[str], keys: Keys | None
) -> str:
    """Return the path of what a file was compacted from, or of what holds the state anyway."""
    path, oldest = str(later.path), as_text(origin.time)
    if isinstance(at, int):
        # Each file numbers its versions anew.
        raise CommitNotFoundError(
            f"{path}: was compacted, and does not hold the state behind version {at}: the oldest"
            f" is that behind version {origin.slot - 1}. Give a time, or restore from the archive."
        )
    named = []
    if origin.archive is not None:
        named = [os.path.join(os.path.dirname(os.path.realpath(path)), origin.archive)]
    for each in (*archives, *named):
        try:
            file = OSFile(each, write=False)
        except MemdbError:
            if each in archives:
                raise
            continue
        try:
            if read_header(file)[0] == origin.file_id:
                return each
        except NotADatabaseError:
            # What the file names is another one by now.
            if each in archives:
                raise
        finally:
            file.close()
    # What was compacted in between may not have been kept.
    for each in archives:
        if _holds(each, at, created_of(later.read(0, HEADER_BYTES)), keys):
            return each
    raise CommitNotFoundError(
        f"{path}: was compacted, and goes back to {oldest} only. Name the file that the compaction"
        " kept: archives=[...]."
    )


def _holds(path: str, at: int | datetime | None, created: int, keys: Keys | None) -> bool:
    """Whether a file is of the database that was made then, and has the state at a time."""
    file = OSFile(path, write=False)
    try:
        if created_of(file.read(0, HEADER_BYTES)) != created:
            return False
        state, _, _ = load(file, "read", keys)
        origin = origin_of(state.catalogue)
        # Behind its last commit there may have been others, in the file that is not there.
        last = state.map.time_of(len(state.map)) if len(state.map) else 0
        is_after = isinstance(at, datetime) and nanoseconds(at) // 1000 > last // 1000
        return not is_after and (origin is None or not _is_before(at, origin))
    finally:
        file.close()


def _slot_at(path: str, state: LogState, at: int | datetime | None) -> int:
    """Return the slot of the last version that a state has."""
    last = len(state.map)
    if at is None:
        return last
    if isinstance(at, datetime):
        slot = state.map.slot_at(nanoseconds(at))
        if not slot:
            first = f"the first is of {as_text(state.map.time_of(1))}" if last else "there is none"
            raise CommitNotFoundError(f"{path}: has no commit from {at} or before: {first}.")
        return slot
    if at > last:
        raise CommitNotFoundError(f"{path}: has {last} versions, and none with the slot {at}.")
    return at


def nanoseconds(time: datetime) -> int:
    """Return a time with a zone in nanoseconds since 1970-01-01 UTC."""
    delta = time - datetime(1970, 1, 1, tzinfo=UTC)
    return ((delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds) * 1000


def as_text(timestamp: int) -> str:
    """Return a time of the file for a message."""
    return datetime.fromtimestamp(timestamp // 1_000_000 / 1000, UTC).isoformat(" ", "milliseconds")


def root_at(file: File, state: LogState, data: mmap.mmap, slot: int) -> Root:
    """Return the root of the log that ends behind the commit of a version.

    Raises:
        DamageError: A block on the way there is damaged.

    Cost: O(blocks since the checkpoint before it).
    """
    reader = MapReader(data)
    start, count = LOG_START, 0
    for link in state.chain:
        if link.first_slot + link.count - 1 <= slot and state.catalogue_offset < link.offset:
            start, count = link.offset, link.first_slot + link.count - 1
    root = Root(0, start, boot_id=file.boot_id, is_clean=True)
    catalogue = state.catalogue_offset if start > LOG_START else 0
    found: dict[str, int] = {"log_end": start, "catalogue": catalogue}
    while found["log_end"] < state.end:
        header = valid_header(reader, state.file_id, found["log_end"], state.end)
        if header is None:
            raise DamageError(
                f"{file.path}: the block at byte {found['log_end']} is damaged, so that no commit"
                " from there on can be found. Repair the file first.",
                path=file.path,
                offset=found["log_end"],
            )
        if header.magic == COMMIT_MAGIC:
            if count >= slot:
                break
            count += header.count
        elif header.magic == CATALOGUE_MAGIC:
            found["catalogue"] = header.offset
        elif header.magic == CHECKPOINT_MAGIC:
            found["checkpoint"] = header.offset
        found |= {
            "log_end": header.end,
            "sequence": header.sequence,
            "timestamp": header.timestamp,
        }
    return root.next(**found)
