"""What a compaction that was killed has left beside a file."""

from __future__ import annotations

import contextlib
import os

from memdb.storage._blocks import unpack_header
from memdb.storage._constants import HEADER, HEADER_BYTES, MAGIC, PAGE_BYTES
from memdb.storage._file import SUCCESSOR_SUFFIX, File


def created_of(page: bytes) -> int:
    """Return when the database of a header page was made, in nanoseconds."""
    return int(HEADER.unpack(page[:HEADER_BYTES])[4])


def is_left_over(found: File, file: File) -> bool:
    """Whether what lies where a successor is made was to be one, and not somebody's data.

    It has no header yet; or it was made of the same database, and is no copy of this very file.
    """
    page, own = found.read(0, PAGE_BYTES), file.read(0, HEADER_BYTES)
    if not any(page):
        return True
    if page[: len(MAGIC)] != MAGIC or len(page) < HEADER_BYTES:
        return False
    is_same_database = created_of(page) == created_of(own)
    return is_same_database and unpack_header(page)[2] != unpack_header(own)[2]


def remove_left_over(file: File) -> None:
    """Remove what a compaction of a file has left when it was killed; the file's lock is held."""
    if file.path is None or not os.path.isfile(file.path + SUCCESSOR_SUFFIX):
        return
    # It means nothing, so that who may not remove it has no harm.
    with contextlib.suppress(OSError):
        found = file.another(file.path + SUCCESSOR_SUFFIX)
        try:
            if found.lock() and is_left_over(found, file):
                found.remove()
        finally:
            found.close()
