"""Archives: the file that a compaction has replaced, kept under another name."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from memdb.errors import ConfigError, FileMissingError, FileTakenError, MemdbError
from memdb.storage._blocks import Root
from memdb.storage._constants import LOG_START
from memdb.storage._copying import Prefix, copy_range
from memdb.storage._file import File
from memdb.storage._gate import write_error
from memdb.storage._new_file import NewFile, complete, copied_header, silent

if TYPE_CHECKING:
    from memdb.storage._log import Log


class Archive:
    """Where a compaction keeps the old file: the file itself, or a copy on another disk.

    Attributes:
        name: Its path, relative to the folder of the database.
    """

    def __init__(self, path: str, file: File) -> None:
        """Refuse what can't be one; nothing is made yet.

        Raises:
            ConfigError: The database is in memory only.
            FileTakenError: Something is there.
            FileMissingError: There is no such directory.
        """
        if file.path is None:
            raise ConfigError(
                "archive= contradicts a database in memory: there is no old file to be kept. Leave"
                " it out, or take a snapshot before."
            )
        self.path = os.path.realpath(path)
        # What a compaction that was killed has left: the file itself, under both names.
        self._is_there = os.path.exists(self.path) and os.path.samefile(self.path, file.path)
        if os.path.lexists(self.path) and (not self._is_there or self.path == file.path):
            raise FileTakenError(f"{path}: is there already. Give another archive=.", path=path)
        if not os.path.isdir(os.path.dirname(self.path)):
            raise FileMissingError(
                f"{path}: there is no such directory for archive=. Make it, or give another path.",
                path=path,
                errno=errno.ENOENT,
            )
        folder = os.path.dirname(file.path)
        self.name = os.path.relpath(self.path, folder)
        self._root: Root | None = None
        self._file_id = 0
        self._is_ours = False
        self._copy: NewFile | None = None
        self._copied_end = LOG_START

    def prepare(self, log: Log) -> None:
        """Copy to another disk what is there by now; nothing on the same one.

        Raises:
            WriteError: The disk refused.
        """
        assert log.path is not None
        here, there = os.stat(log.path), os.stat(os.path.dirname(self.path))
        if self._is_there or here.st_dev == there.st_dev:
            return
        prefix = log.prefix()
        self._copy = NewFile(self.path, prefix.file)
        try:
            self._copy_up_to(prefix)
        finally:
            prefix.file.close()

    def _copy_up_to(self, prefix: Prefix) -> None:
        assert self._copy is not None
        copy_range(prefix, self._copy.file, self._copied_end, silent)
        self._copied_end = prefix.root.log_end

    def keep(self, log: Log) -> None:
        """Have the whole old file under the name; the locks of the log are held.

        Raises:
            OSError: The disk refused.
        """
        prefix = log.locked_prefix()
        try:
            self._root, self._file_id = prefix.root, prefix.file_id
            if self._copy is not None:
                self._copy_up_to(prefix)
                complete(self._copy.file, prefix.root, prefix.header, prefix.file_id)
                self._copy.appear()
                return
            # Its last commits are safe in the new file; but this is to be a whole one too.
            log.file.sync()
            if not self._is_there:
                log.file.add_name(self.path)
                self._is_ours = True
            log.file.sync_directory_of(self.path)
        finally:
            prefix.file.close()

    def finish(self, old: File) -> None:
        """Mark the old file, which nobody writes to any more, as closed.

        Raises:
            WriteError: The disk refused. All commits are in it all the same.
        """
        try:
            if self._copy is not None:
                self._copy.__exit__(None, None, None)
                return
            assert self._root is not None
            old.truncate(self._root.log_end)
            header = copied_header(old)
            complete(old, self._root, header, self._file_id)
        except OSError as error:
            if isinstance(error, MemdbError):
                raise
            raise write_error(error, self.path) from error
        finally:
            old.close()

    def give_up(self) -> None:
        """Leave nothing."""
        if self._copy is not None:
            self._copy.__exit__(None, None, None)
        if self._is_ours:
            os.unlink(self.path)
