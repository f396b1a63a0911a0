"""Removing a database, and what lies beside it."""

from __future__ import annotations

import os
import re

from memdb.errors import MemdbError, NotADatabaseError, WriteError
from memdb.storage._constants import HEADER_BYTES, MAGIC
from memdb.storage._creation import is_unfinished, locked_error, read_holder
from memdb.storage._file import SUCCESSOR_SUFFIX, OSFile, sync_directory
from memdb.storage._new_file import PART_SUFFIX


def destroy(path: str) -> list[str]:
    """Remove a database with its side files: torn tails, and what was left unfinished.

    Args:
        path: Of the file. A link to it goes too; archives and snapshots stay.

    Returns:
        The paths that were removed.

    Raises:
        FileMissingError: There is no such file.
        NotADatabaseError: It is something else.
        LockedError: Somebody writes to it.
        WriteError: The system refused; what was removed so far is gone.
    """
    # Looked for first: opening for writing would make it.
    OSFile(path, write=False).close()
    file = OSFile(path, write=True)
    try:
        if file.read(0, HEADER_BYTES)[: len(MAGIC)] != MAGIC and not is_unfinished(file):
            raise NotADatabaseError(
                f"{path}: is not a memdb file, and is left alone. Check the path.", path=path
            )
        if not file.lock():
            raise locked_error(file.path, read_holder(file))
        assert file.path is not None
        removed = []
        # The database last: whoever is interrupted can do it again.
        for each in [*side_files(file.path), *_link(path), file.path]:
            os.unlink(each)
            removed.append(each)
        sync_directory(os.path.dirname(file.path))
        return removed
    except OSError as error:
        if isinstance(error, MemdbError):
            raise
        raise WriteError(
            f"{path}: can't be removed: {error.strerror or error}.", path=path, errno=error.errno
        ) from error
    finally:
        file.close()


def _link(path: str) -> list[str]:
    return [path] if os.path.islink(path) else []


def side_files(path: str) -> list[str]:
    """Return the files that memdb has made beside one, given by its real path."""
    folder, name = os.path.split(path)
    endings = rf"\.torn-\d+(-\d+)?|{re.escape(SUCCESSOR_SUFFIX)}|{re.escape(PART_SUFFIX)}"
    pattern = re.compile(re.escape(name) + f"({endings})")
    found = [each for each in os.listdir(folder or ".") if pattern.fullmatch(each)]
    return [os.path.join(folder, each) for each in sorted(found)]
