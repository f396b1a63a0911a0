"""Copies of a log up to the end of a commit: snapshots, whole and incremental.

Bytes before the end of a log never change, so that a copy needs no lock while it is made.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import xxhash

from memdb.errors import DamageError, FileMissingError, FileTakenError, MemdbError
from memdb.storage._blocks import Root
from memdb.storage._constants import LOG_START
from memdb.storage._creation import locked_error, read_holder, refuse_unfinished
from memdb.storage._file import File, OSFile
from memdb.storage._gate import write_error
from memdb.storage._key_slots import write_key_slots
from memdb.storage._new_file import NewFile, Progress, complete, silent
from memdb.storage._recovery import load, read_header

if TYPE_CHECKING:
    from memdb.storage._key_slots import Keys

_PIECE_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Prefix:
    """A log up to the end of a commit, while others may go on behind it.

    Attributes:
        file: Holds it; is closed by whoever got this.
        file_id: Of the file.
        root: What a root says of such a log.
        header: The header page for a copy of it.
        keys: Of an encrypted file.
    """

    file: File
    file_id: int
    root: Root
    header: bytes
    keys: Keys | None = None


@dataclass(frozen=True, slots=True)
class SnapshotResult:
    """What a snapshot is.

    Attributes:
        path: The file.
        bytes: Its length.
        copied_bytes: How many of them were copied; the others were there in its base.
        versions: Versions in it.
    """

    path: str
    bytes: int
    copied_bytes: int
    versions: int


def take_snapshot(
    prefix: Prefix, path: str, *, base: str | None = None, progress: Progress = silent
) -> SnapshotResult:
    """Make a file of a prefix, read it back, compare it, and open it.

    Args:
        prefix: What is copied; its file is closed here.
        path: Where the file is to be, and nothing is; or that of the base.
        base: An older snapshot of the same file. At the same path it is extended in place.
        progress: Is told of bytes.

    Raises:
        FileTakenError: Something is at the path; or the base is none of this file.
        DamageError: What is read back is not what was copied.
        WriteError: The disk refused; nothing is left.
    """
    try:
        if base is not None and _is_same(base, path):
            return _extend(prefix, path, progress)
        with NewFile(path, prefix.file) as new:
            start = LOG_START
            if base is not None:
                start = _copy_base(prefix, base, new.file, progress)
            return _finish(prefix, new, start, progress)
    finally:
        prefix.file.close()


def copy_to(
    prefix: Prefix, path: str, *, overwrite: bool = False, progress: Progress = silent
) -> SnapshotResult:
    """Make a file of a prefix, as `take_snapshot` does; ``overwrite`` as for `NewFile`."""
    with NewFile(path, prefix.file, overwrite=overwrite) as new:
        return _finish(prefix, new, LOG_START, progress)


def _finish(prefix: Prefix, new: NewFile, start: int, progress: Progress) -> SnapshotResult:
    """Copy the blocks from ``start`` on, and let the file appear."""
    copy_range(prefix, new.file, start, progress)
    complete(new.file, prefix.root, prefix.header, prefix.file_id)
    versions = _opened(new.file, prefix)
    new.appear()
    return _result(prefix, new.file, start, versions)


def _result(prefix: Prefix, file: File, start: int, versions: int) -> SnapshotResult:
    end = prefix.root.log_end
    return SnapshotResult(str(file.path), end, end - start, versions)


def copy_range(prefix: Prefix, file: File, start: int, progress: Progress) -> None:
    """Copy the blocks from ``start`` on, and compare the copy with the source."""
    end = prefix.root.log_end
    progress(start - LOG_START, end - LOG_START, "bytes")
    file.reserve(end)
    for offset, size in _pieces(start, end):
        file.copy_from(prefix.file, offset, size)
        # It is still near the processor.
        if _digest(prefix.file, offset, size) != _digest(file, offset, size):
            raise DamageError(
                f"{file.path}: the bytes from {offset} to {offset + size} are not those of"
                f" {prefix.file.path}, from where they were copied just now. Nothing was kept of"
                " the copy. Check disk and memory.",
                path=file.path,
                offset=offset,
            )
        # While the next piece is copied and compared: a snapshot of 129 MB takes 126 ms instead
        # of 164 then (`benchmark.maintenance`).
        file.begin_sync(offset, size)
        progress(offset + size - LOG_START, end - LOG_START, "bytes")


def _pieces(start: int, end: int) -> Iterator[tuple[int, int]]:
    """Give offset and size of the pieces of a range."""
    for offset in range(start, end, _PIECE_BYTES):
        yield offset, min(_PIECE_BYTES, end - offset)


def _digest(file: File, offset: int, size: int) -> bytes:
    return xxhash.xxh3_128_digest(file.read(offset, size))


def _opened(file: File, prefix: Prefix) -> int:
    """Open a copy for reading; return how many versions it has.

    Raises:
        DamageError: It is not whole, or ends elsewhere.
    """
    state, _, _ = load(file, "read", prefix.keys)
    root = prefix.root
    if (state.end, state.sequence) != (root.log_end, root.sequence):
        raise DamageError(
            f"{file.path}: the copy ends at byte {state.end}, {root.log_end} was expected. Check"
            f" {prefix.file.path}.",
            path=file.path,
            offset=state.end,
        )
    return len(state.map)


# -- incremental snapshots ---------------------------------------------------------------


def _base_file(base: str) -> OSFile:
    """Open an older snapshot for reading."""
    try:
        return OSFile(base, write=False)
    except FileMissingError as error:
        raise FileMissingError(
            f"{base}: there is no older snapshot. Check the path of base=, or leave it out to make"
            " a whole one.",
            path=base,
            errno=error.errno,
        ) from error


def _copy_base(prefix: Prefix, base: str, file: File, progress: Progress) -> int:
    """Copy an older snapshot; return where it ends."""
    source = _base_file(base)
    try:
        _, end = _compared_base(prefix, source, base, progress)
        for offset, size in _pieces(LOG_START, end):
            file.copy_from(source, offset, size)
            if _digest(prefix.file, offset, size) != _digest(file, offset, size):
                raise _no_base(base, prefix, f"it differs from byte {offset} on")
        return end
    finally:
        source.close()


def _extend(prefix: Prefix, path: str, progress: Progress) -> SnapshotResult:
    """Append to an older snapshot what it lacks.

    As a writer does: first the blocks, and once they are safe the roots that say so. Killed in
    between it is the older snapshot with some commits more.
    """
    # Looked for first: opening for writing would make it.
    _base_file(path).close()
    own = prefix.file.path
    # Also under another name (a hard link): a reader has no lock that would keep it from that.
    if own is not None and os.path.exists(own) and os.path.samefile(path, own):
        raise FileTakenError(f"{path}: is the file itself. Give another path.", path=path)
    file = prefix.file.another(path)
    try:
        if not file.lock():
            raise locked_error(file.path, read_holder(file))
        root, start = _compared_base(prefix, file, path, progress)
        length = file.length()
        try:
            copy_range(prefix, file, start, progress)
            file.sync()
        except BaseException:
            file.truncate(length)
            raise
        # Before the header page, so that a power loss can't leave a file without a key slot.
        write_key_slots(file, prefix.header)
        newest = replace(prefix.root, generation=root.generation + 1)
        complete(file, newest, prefix.header, prefix.file_id)
        return _result(prefix, file, start, _opened(file, prefix))
    except OSError as error:
        if isinstance(error, MemdbError):
            raise
        raise write_error(error, path) from error
    finally:
        file.close()


def _compared_base(prefix: Prefix, file: File, base: str, progress: Progress) -> tuple[Root, int]:
    """Return the root of an older snapshot and where its log ends.

    Raises:
        FileTakenError: It is none of this file, or was changed since: what is in it would be lost.
    """
    refuse_unfinished(file)
    # Before it is loaded: another file has another data key, and nobody gave one for it.
    if read_header(file)[0] != prefix.file_id:
        raise _no_base(base, prefix, "it is of another file, or from before a compaction")
    state, tail, _ = load(file, "read", prefix.keys)
    total = prefix.root.log_end - LOG_START
    if state.end > prefix.root.log_end or tail.torn:
        raise _no_base(base, prefix, "it holds more than the file")
    for offset, size in _pieces(LOG_START, state.end):
        if _digest(prefix.file, offset, size) != _digest(file, offset, size):
            raise _no_base(base, prefix, f"they differ behind byte {offset}")
        progress(offset + size - LOG_START, total, "bytes")
    return state.root, state.end


def _no_base(base: str, prefix: Prefix, reason: str) -> FileTakenError:
    return FileTakenError(
        f"{base}: is no older snapshot of {prefix.file.path or 'this database'}: {reason}. Make a"
        " whole snapshot at another path.",
        path=base,
    )


def _is_same(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)
