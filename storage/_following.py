"""Following: what comes into a file after it was opened for reading, by whoever writes it."""

from __future__ import annotations

import mmap
from typing import NamedTuple

from memdb.errors import DamageError
from memdb.storage._constants import BLOCK_BYTES
from memdb.storage._creation import refuse_unfinished
from memdb.storage._era import Era
from memdb.storage._file import File
from memdb.storage._log import Log
from memdb.storage._recovery import LogState, Window, load, read_root, walk

# Commits are taken in in pieces of about so many bytes, each made visible before the next is
# looked at, so that a reader that was away for long does not keep others waiting for long.
_ROUND_BYTES = 1 << 20
# Few, as mostly little has come; and because reading what a writer is about to write takes it out
# of his processor's cache: with 64 KiB a busy reader costs him a tenth (benchmark
# ``beside_reader``).
_PIECE_BYTES = 1 << 10


class Growth(NamedTuple):
    """What follows in the same file.

    Attributes:
        data: A map that covers it, None where the one that there is does.
    """

    data: mmap.mmap | None


class Replacement(NamedTuple):
    """Another file that is to be read from now on.

    Attributes:
        file: It.
        state: What it holds.
        era: Its slots.
    """

    file: File
    state: LogState
    era: Era


class Follower:
    """Finds what a log that only reads does not know yet; `Log.take_in` and `Log.move` take it in.

    Nothing in memory is changed in a way that shows before that, whatever goes wrong.

    Threads: the log's `sync_lock` is held for every call, so that it is not closed meanwhile.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._note()

    def _note(self) -> None:
        """Note what the log has taken in."""
        state = self._log._state
        at = state.last_block
        # What is in the file as long as it is the same log; empty where there is no block.
        head = self._log._file.read(at, BLOCK_BYTES) if at else b""
        self._state, self._mark, self._head = state, state.mark(), head

    def _go_back(self) -> None:
        """Forget what was found and not taken in, where an interrupt has ended the last call."""
        log = self._log
        if log._state is self._state and log.end == self._mark.end:
            self._state.go_back(self._mark)
        else:
            self._note()

    def length(self) -> int:
        """Return where the file ends now: no commit that is there by now lies behind."""
        return self._log._file.length()

    def look(self, length: int) -> Growth | Replacement | None:
        """Return what is new, None for nothing; a part of it if it is much.

        Args:
            length: Behind this nothing of the same file is looked at, so that whoever takes in
                all that was there when he came is not kept by a busy writer.

        Raises:
            FileMissingError: No file is at the path any more.
            OpenError: What lies there is no database, or one that can't be read with this memdb
                or these keys.
            DamageError: It is damaged.
            OSError: It can't be read.
        """
        file = self._log._file
        self._go_back()
        if not file.is_at_its_path() or self._is_another_log():
            return self._replacement()
        state = self._state
        start = state.end
        try:
            walk(file, Window(file, min(length, start + _ROUND_BYTES), _PIECE_BYTES), state)
            if state.end == start and start + _ROUND_BYTES < length:
                # One that is longer.
                walk(file, Window(file, length), state)
            if state.end == start and self._is_behind(start, length):
                # Unless it was written and synced between the two looks.
                walk(file, Window(file), state)
                if state.end == start:
                    raise DamageError(
                        f"{file.path}: the block at byte {start} is damaged. What was read before"
                        " stays readable. Restore the file from a copy.",
                        path=file.path,
                        offset=start,
                    )
            if state.end == start:
                return None
            data = None
            if state.end > len(self._log.data):
                # The space that the writer has reserved too, so that this is rare.
                data = file.map(max(file.length(), state.end), "read")
            return Growth(data)
        except BaseException:
            state.go_back(self._mark)
            raise

    def _is_another_log(self) -> bool:
        """Whether what was taken in is not in the file any more: something was copied over it."""
        at = self._mark.last_block
        return bool(at) and self._log._file.read(at, BLOCK_BYTES) != self._head

    def _is_behind(self, start: int, length: int) -> bool:
        """Whether there is something where the log ends that a root says is not its end."""
        file = self._log._file
        if start >= length or not any(file.read(start, BLOCK_BYTES)):
            return False
        return read_root(file, self._state.file_id).log_end > start

    def _replacement(self) -> Replacement:
        log = self._log
        file = log._file.reopened()
        try:
            refuse_unfinished(file)
            state, _, data = load(file, "read", log._keys)
            era = Era(log.next_base(len(state.map)), state.map, data, state.file_id, state.cipher)
        except BaseException:
            file.close()
            raise
        return Replacement(file, state, era)
