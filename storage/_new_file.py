"""Files that are made under another name, and appear under their own when they are whole."""

from __future__ import annotations

import contextlib
import os
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

from memdb.errors import (
    FileTakenError,
    LockedError,
    MemdbError,
    NotADatabaseError,
    WriteError,
)
from memdb.storage._blocks import Root, pack_header, pack_root
from memdb.storage._constants import HOLDER_BYTES, HOLDER_OFFSET, MAGIC, PAGE_BYTES, ROOT_OFFSETS
from memdb.storage._creation import is_unfinished, locked_error, read_holder
from memdb.storage._file import SUCCESSOR_SUFFIX, File, OSFile
from memdb.storage._gate import OUT_OF_SPACE

if TYPE_CHECKING:
    from memdb.storage._cipher import Cipher
    from memdb.storage._key_slots import Keys

# What the name of a file that is being made ends in.
PART_SUFFIX = ".partial"


class Progress(Protocol):
    """Is told how far something is; what it raises stops that without harm."""

    def __call__(self, done: int, total: int, unit: str, /) -> object:
        """Take the part that is done, and of how much, in ``"bytes"``, ``"records"``, ..."""


def silent(done: int, total: int, unit: str, /) -> None:
    """Be told, and do nothing."""


def copied_header(file: File) -> bytes:
    """Return the header page of a file for a copy of it, which nobody holds yet."""
    page = file.read(0, PAGE_BYTES)
    end = HOLDER_OFFSET + HOLDER_BYTES
    return page[:HOLDER_OFFSET] + bytes(HOLDER_BYTES) + page[end:]


def fresh_header(file_id: int, created: int, keys: Keys | None) -> bytes:
    """Return the header page of a file with an id of its own, for the same database and keys."""
    page = pack_header(file_id, created, is_encrypted=keys is not None)
    if keys is None:
        return page
    slot = keys.make(file_id)
    content = slot.pack()
    return page[: slot.offset] + content + page[slot.offset + len(content) :]


def fresh_cipher(file_id: int, keys: Keys | None) -> Cipher | None:
    """Return what encrypts the records of such a file, None for a plain one."""
    if keys is None:
        return None
    from memdb.storage._cipher import Cipher

    return Cipher(keys.data_key, file_id, is_marked=keys.is_marked)


def complete(file: File, root: Root, header: bytes, file_id: int) -> None:
    """Make a database of a file that has its blocks, and sync it; the header comes last.

    So a process that is killed leaves none. After a power loss there may be a header without the
    blocks, which is why the file must not have its name yet.

    Args:
        file: Has its blocks, synced or not.
        root: What its roots are to say; it is a clean one.
        header: Its header page.
        file_id: That of the header.
    """
    if file.length() < root.log_end:
        file.reserve(root.log_end)
    for generation in range(2):
        page = pack_root(root.next() if generation else root, file_id)
        file.write(ROOT_OFFSETS[(root.generation + generation) % 2], page)
    file.write(0, header)
    file.sync()


class NewFile:
    """A file in the making: a context manager that leaves either the whole file or nothing.

    A process that is killed leaves a part without a header, which the next attempt takes over.

    Attributes:
        file: To be written to.
        path: Where it will be.
    """

    def __init__(self, path: str, source: File, *, overwrite: bool = False) -> None:
        """Begin a file; nothing is at its path before `appear`.

        Args:
            path: Where it is to be; the file that a link leads to.
            source: What it is made from; that is never overwritten.
            overwrite: Take the place of a database that is there and that nobody writes to.

        Raises:
            FileTakenError: Something is at the path, or at that of the part.
            LockedError: The database that is there is in use.
            NotADatabaseError: What is there is something else.
        """
        self.path = os.path.realpath(path)
        self._replaced: OSFile | None = None
        self._is_done = False
        if self.path.endswith((SUCCESSOR_SUFFIX, PART_SUFFIX)):
            raise FileTakenError(
                f"{path}: names that end in {SUCCESSOR_SUFFIX} and {PART_SUFFIX} are those of"
                " unfinished files. Give another path.",
                path=path,
            )
        if os.path.lexists(self.path):
            self._refuse_present(path, source, overwrite=overwrite)
        try:
            self.file = self._begin(source)
        except BaseException as error:
            self._let_go()
            if isinstance(error, OSError) and not isinstance(error, MemdbError):
                raise _refused(error, self.path) from error
            raise

    def _refuse_present(self, path: str, source: File, *, overwrite: bool) -> None:
        if source.path is not None and os.path.samefile(self.path, source.path):
            raise FileTakenError(f"{path}: is the file itself. Give another path.", path=path)
        if not overwrite:
            raise FileTakenError(f"{path}: is there already. Give another path.", path=path)
        present = OSFile(path, write=True)
        self._replaced = present
        try:
            if present.read(0, len(MAGIC)) != MAGIC and not is_unfinished(present):
                raise NotADatabaseError(
                    f"{path}: is not a memdb file, and memdb never overwrites another one. Give"
                    " another path.",
                    path=path,
                )
            # Held until the new one is in its place, so that nobody begins to write to it.
            if not present.lock():
                raise locked_error(present.path, read_holder(present))
        except BaseException:
            self._let_go()
            raise

    def _begin(self, source: File) -> File:
        path = self.path + PART_SUFFIX
        file = source.another(path)
        try:
            if not file.lock():
                raise LockedError(
                    f"{path}: somebody is making this file just now. Wait for them, or give"
                    " another path.",
                    path=path,
                )
            if file.length() and any(file.read(0, PAGE_BYTES)):
                raise FileTakenError(
                    f"{path}: is in the way, and is no unfinished copy. Move it away, or give"
                    " another path.",
                    path=path,
                )
            file.truncate(0)
        except BaseException:
            if file.is_new:
                file.remove()
            file.close()
            raise
        return file

    def __enter__(self) -> NewFile:
        return self

    def appear(self) -> None:
        """Let the file, which is whole, be found at its path, and return once that is safe.

        Raises:
            FileTakenError: Somebody else has made a file there meanwhile.
        """
        # Invariant: not before the file is whole and synced, see `complete`.
        try:
            self.file.take_name(self.path, replace=self._replaced is not None)
        except FileExistsError as error:
            raise FileTakenError(
                f"{self.path}: somebody else has made a file there meanwhile. Give another path.",
                path=self.path,
            ) from error
        self._is_done = True
        self.file.sync_directory()

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            # An interrupt may have come behind the renaming.
            if not self._is_done and self.file.path != self.path:
                with contextlib.suppress(FileNotFoundError):
                    self.file.remove()
        finally:
            self._let_go()
        if isinstance(exc, OSError) and not isinstance(exc, MemdbError):
            raise _refused(exc, self.path) from exc

    def _let_go(self) -> None:
        if hasattr(self, "file"):
            self.file.close()
        if self._replaced is not None:
            self._replaced.close()


def _refused(error: OSError, path: str) -> WriteError:
    """Return the error for a file that the disk would not take."""
    advice = " Make room and try again." if error.errno in OUT_OF_SPACE else ""
    return WriteError(
        f"{path}: can't be made: {error.strerror or error}. Nothing is left of it.{advice}",
        path=path,
        errno=error.errno,
    )
