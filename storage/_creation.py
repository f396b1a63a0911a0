"""Making an empty database, and the note of who holds one."""

from __future__ import annotations

import os
import socket
import time

from memdb.errors import LockedError, NotADatabaseError, WrongKeyError
from memdb.storage._blocks import Root, pack_header, pack_root
from memdb.storage._constants import (
    HEADER_BYTES,
    HOLDER_BYTES,
    HOLDER_OFFSET,
    KEY_SLOT_BYTES,
    KEY_SLOT_OFFSETS,
    LOG_START,
    PAGE_BYTES,
    ROOT_OFFSETS,
)
from memdb.storage._file import File, OSFile
from memdb.storage._gate import write_error
from memdb.storage._key_slots import Keys


def is_unfinished(file: File) -> bool:
    """Whether the file holds nothing yet: new, or its making was cut short by a crash."""
    if file.length() > LOG_START:
        return False
    page = file.read(0, PAGE_BYTES)
    # The first key slot of an encrypted file is written before the header, wholly or not.
    slot = KEY_SLOT_OFFSETS[0]
    return not any(page[:slot]) and not any(page[slot + KEY_SLOT_BYTES :])


def refuse_unfinished(file: File) -> None:
    """Raise NotADatabaseError if the file holds nothing: a reader makes no database."""
    if is_unfinished(file):
        raise NotADatabaseError(
            f"{file.path}: is empty ({file.length()} bytes). If it held data, restore it from a"
            ' copy; mode="rw" makes a new database of it.',
            path=file.path,
        )


def create(file: File, keys: Keys | None = None) -> None:
    """Make an empty database; the header comes last, so that a crash leaves none.

    Args:
        file: Is locked.
        keys: For an encrypted one.

    Raises:
        WriteError: The disk refused; a file that was made for it is gone again.
        WrongKeyError: The key or password can't be one; the same.
    """
    file_id = int.from_bytes(os.urandom(8), "little") or 1
    try:
        slot = None if keys is None else keys.make(file_id)
    except WrongKeyError:
        if isinstance(file, OSFile) and file.is_new:
            file.remove()
        raise
    try:
        file.reserve(LOG_START)
        root = Root(0, LOG_START, boot_id=file.boot_id, is_clean=True)
        for generation in range(2):
            page = pack_root(root.next() if generation else root, file_id)
            file.write(ROOT_OFFSETS[generation], page)
        if slot is not None:
            file.write(slot.offset, slot.pack())
        file.sync()
        header = pack_header(file_id, time.time_ns(), is_encrypted=slot is not None)
        file.write(0, header if slot is None else header[:HEADER_BYTES])
        file.sync()
        if isinstance(file, OSFile):
            file.sync_directory()
    except OSError as error:
        if isinstance(file, OSFile) and file.is_new:
            file.remove()
        raise write_error(error, file.path) from error


def own_name() -> str:
    """Return what a holder notes of itself."""
    return f"process {os.getpid()} on {socket.gethostname()}"


def locked_error(path: str | None, holder: str) -> LockedError:
    """Return the error for a file that another writer has."""
    hint = ""
    if holder == own_name():
        hint = " That is this process: a handle of it was not closed."
    return LockedError(
        f"{path}: is open for writing already, by {holder}.{hint} Close it there, or open with"
        ' mode="r" to read beside the writer.',
        path=path,
        holder=holder,
    )


def read_holder(file: File) -> str:
    """Return what the holder of the lock noted of itself; for a message only."""
    note = file.read(HOLDER_OFFSET, HOLDER_BYTES).rstrip(b"\0")
    return note.decode("utf-8", "replace") or "an unknown process"


def write_holder(file: File, note: str) -> None:
    """Write the note, empty to remove it."""
    file.write(HOLDER_OFFSET, note.encode()[:HOLDER_BYTES].ljust(HOLDER_BYTES, b"\0"))
