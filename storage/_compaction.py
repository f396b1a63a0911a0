"""Compaction: what still lives of a log in a new file, which takes the place of the old one.

While the new file is made others read and write the old one as ever. What they commit meanwhile is
copied after it, commit by commit; only the last of that, the syncing and the renaming happen under
the locks. Until the renaming the old file is in force, and nothing of it was changed.
"""

from __future__ import annotations

import errno
import mmap
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from memdb.errors import DamageError, FileTakenError, LockedError, MemdbError, WriteError
from memdb.storage._archive import Archive
from memdb.storage._block_writer import BlockWriter
from memdb.storage._blocks import Array, BlockHeader, aligned, checksum32, checksum64
from memdb.storage._constants import (
    BLOCK_BYTES,
    CATALOGUE_MAGIC,
    CHECKSUM_BYTES,
    COMMIT_MAGIC,
    MAGIC_OFFSET,
    PAGE_BYTES,
    POINTER_BYTES,
    POINTER_DTYPE,
    SINGLE_COMMIT,
    SINGLE_MAGIC_AND_COUNT,
    Kind,
)
from memdb.storage._creation import own_name, write_holder
from memdb.storage._era import Era
from memdb.storage._file import File
from memdb.storage._gate import write_error
from memdb.storage._left_over import created_of, is_left_over
from memdb.storage._live import live_numbers
from memdb.storage._new_file import Progress, complete, fresh_cipher, fresh_header
from memdb.storage._origin import Origin
from memdb.storage._recovery import LogState, MapReader, valid_header

if TYPE_CHECKING:
    from memdb.storage._log import Log

# Of so many versions or bytes is a commit of what lives. Above the size from which checkpoints
# refer to commits instead of gathering their pointers.
_COMMIT_VERSIONS = 16_384
_COMMIT_BYTES = 8 << 20
# Of so many at once the pointers are in memory.
_PART_VERSIONS = 1 << 18
# The writers wait while so many last bytes are copied.
_SMALL_REST_BYTES = 1 << 18
# Where what is left does not shrink to this part of it from one round to the next, the writers
# have to wait in between: while so many blocks are copied, then they have so many seconds.
_GAIN = 0.5
_TURN_BLOCKS = 4_000
_TURN_GAIN = 0.9
_OTHERS_TURN_S = 0.001
_POLL_S = 0.001
_SINGLE_BYTES = BLOCK_BYTES + POINTER_BYTES
_SINGLE_HEAD_BYTES = MAGIC_OFFSET + len(SINGLE_MAGIC_AND_COUNT)

Convert = Callable[[Array, list[bytes]], None]
"""Is given pointers and payloads of some versions, and changes those that are to be written in
another form: the payload, and the writer in the pointer."""

Switch = Callable[[Callable[[], "Numbering"]], None]
"""Is given what has the log go over to the new file, has to call that, and then to tell whoever
knows slots what they are by now."""


@dataclass(frozen=True, slots=True)
class CompactionResult:
    """What a compaction did.

    Attributes:
        bytes_before, bytes_after: Of the log, without reserved space.
        versions: Versions in the new file.
        dropped_versions: Versions of the old file that are not in it.
    """

    bytes_before: int
    bytes_after: int
    versions: int
    dropped_versions: int


@dataclass(frozen=True, slots=True)
class Numbering:
    """What the versions of the old file are called in the new one.

    Attributes:
        old, new: The eras.
        first_kept: Number in the old file from which on every version is in the new one.
        numbers: Number in the old file -> number in the new one, (n,) <u4, 0 for dropped ones.
    """

    old: Era
    new: Era
    first_kept: int
    numbers: Array

    def slots(self, slots: Array) -> Array:
        """Return the new slots of old ones, (n,) of integers; 0 stays 0."""
        numbers = self.numbers[np.maximum(slots.astype("<i8") - self.old.base, 0)].astype("<i8")
        return np.where(numbers > 0, numbers + self.new.base, 0)

    def cursor(self, slot: int) -> int | None:
        """Return the new slot of one before which all was taken in; None where that is not kept."""
        number = slot - self.old.base
        if number < self.first_kept:
            return None
        dropped = self.first_kept - 1 - int(np.count_nonzero(self.numbers[: self.first_kept]))
        return number - dropped + self.new.base


def compact(
    log: Log,
    *,
    convert: Convert,
    switch: Switch,
    guard: AbstractContextManager[object],
    archive: str | None,
    progress: Progress,
) -> CompactionResult:
    """Put a file with what lives of a log in the place of the log's own.

    Args:
        log: Open for writing.
        convert: See `Convert`.
        switch: See `Switch`; the log's lock is held, and it must not fail.
        guard: Entered before the locks of the log are taken for the change.
        archive: Where the old file is kept.
        progress: Is told of records.

    Raises:
        DamageError: A version that lives does not match its checksum.
        WriteError: The disk refused, or the file is not at its path any more. The old file is in
            force, and nothing is left.
        FailedError: Syncing the folder failed after the renaming; no write is accepted any more.
    """
    with log.lock:
        log.raise_if_unusable()
        file, path = log.file, log.path
    _refuse_moved(file)
    kept = None if archive is None else Archive(archive, file)
    successor: File | None = None
    try:
        successor = _begin(file)
        compaction = _Compaction(log, successor, convert, kept)
        compaction.copy(progress)
        # Not in this thread, where an interrupt (Ctrl-C) could come between the renaming and
        # what must follow it.
        return _undisturbed(lambda: compaction.finish(switch, guard))
    except BaseException as error:
        if log.file is not successor:
            if successor is not None:
                _remove(successor)
            if kept is not None:
                kept.give_up()
        if isinstance(error, OSError) and not isinstance(error, MemdbError):
            raise write_error(error, path) from error
        raise


def _refuse_moved(file: File) -> None:
    """Raise WriteError if what lies at the path of a file is another one, or nothing."""
    if file.path is not None and not file.is_at_its_path():
        raise WriteError(
            f"{file.path}: the file that is open is not there any more: it was moved, removed or"
            " replaced. Nothing was changed. Put it back, or make a snapshot of the database at"
            " another path.",
            path=file.path,
            errno=errno.ENOENT,
        )


def _begin(file: File) -> File:
    """Return the empty file that is to be the new one, locked."""
    successor = file.successor()
    is_ours = successor.is_new
    try:
        if not successor.lock():
            raise LockedError(f"{successor.path}: is in use. Try again.", path=successor.path)
        if not is_left_over(successor, file):
            raise FileTakenError(
                f"{successor.path}: is in the way of the file that the compaction makes. Move it"
                " away.",
                path=successor.path,
            )
        is_ours = True
        successor.truncate(0)
    except BaseException:
        if is_ours:
            _remove(successor)
        else:
            successor.close()
        raise
    return successor


def _remove(successor: File) -> None:
    try:
        successor.remove()
    except FileNotFoundError:
        pass
    finally:
        successor.close()


def _undisturbed(action: Callable[[], CompactionResult]) -> CompactionResult:
    """Run an action to its end, whatever interrupts come meanwhile; they are raised afterwards."""
    results: list[CompactionResult] = []
    errors: list[BaseException] = []
    # Whoever gets it decides whether the action is run.
    turn = threading.Lock()

    def run() -> None:
        if turn.acquire(blocking=False):
            try:
                results.append(action())
            except BaseException as error:
                errors.append(error)

    interrupt: BaseException | None = None
    try:
        threading.Thread(target=run, name="memdb-compaction", daemon=True).start()
    except BaseException as error:
        if turn.acquire(blocking=False):
            raise
        interrupt = error
    while not results and not errors:
        try:
            time.sleep(_POLL_S)
        except BaseException as error:
            interrupt = error
    if errors:
        raise errors[0]
    if interrupt is not None:
        raise interrupt
    return results[0]


class _Compaction:
    """One compaction in the making."""

    def __init__(
        self, log: Log, successor: File, convert: Convert, archive: Archive | None
    ) -> None:
        self._log = log
        self._file = successor
        self._convert = convert
        self._archive = archive
        with log.lock:
            log.raise_if_unusable()
            self._era = era = log.era
            self._first_kept = log.next_slot - era.base
            # Where the first block lies that is not copied yet.
            self._copied_end = log.end
            self._timestamp = log.timestamp
            catalogue = {key: each for key, each in log.catalogue.items() if key != "indexes"}
            self._keys = log.keys
        old = log.file
        file_id = int.from_bytes(os.urandom(8), "little") or 1
        self._created = created_of(old.read(0, PAGE_BYTES))
        self._writer = BlockWriter(successor, file_id, fresh_cipher(file_id, self._keys))
        self._live, highest = live_numbers(era, self._first_kept)
        # By how much the numbers of what is committed meanwhile are lower in the new file.
        self._dropped = self._first_kept - 1 - len(self._live)
        state = self._writer.state
        state.last_identities = {**log.last_identities, **highest}
        for collection, identity in log.last_identities.items():
            state.last_identities[collection] = max(identity, highest.get(collection, 0))
        if catalogue:
            last = era.map.time_of(self._first_kept - 1) if self._first_kept > 1 else 0
            kept_in = None if archive is None else archive.name
            origin = Origin(era.file_id, len(self._live) + 1, last, kept_in)
            catalogue["origin"] = origin.to_catalogue()
            self._writer.catalogue(catalogue, self._timestamp)

    # -- what lives ----------------------------------------------------------------------

    def copy(self, progress: Progress) -> None:
        """Write what lives, and what is committed meanwhile, all but a rest."""
        done, total = 0, len(self._live)
        progress(0, total, "records")
        for pointers, payloads, times in self._commits():
            self._convert(pointers, payloads)
            pointers["kind"] = Kind.INSERTED
            pointers["flags"] |= self._log.seal_flags()
            self._writer.commit(pointers, payloads, self._timestamp, times)
            done += len(pointers)
            progress(done, total, "records")
        self._writer.checkpoint()
        self._catch_up(lambda: progress(total, total, "records"))
        if self._archive is not None:
            _refuse_moved(self._log.file)
            self._archive.prepare(self._log)
        self._writer.write()
        # So that little is left to be synced under the locks.
        self._file.sync()

    def _commits(self) -> Iterator[tuple[Array, list[bytes], list[tuple[int, int]]]]:
        """Give pointers, checked bytes and times of what lives, in pieces that become commits."""
        log, era = self._log, self._era
        runs = np.array(era.map.time_runs, "<i8").reshape(-1, 2)
        for first in range(0, len(self._live), _PART_VERSIONS):
            numbers = self._live[first : first + _PART_VERSIONS]
            slots = numbers.astype("<i8") + era.base
            pointers = log.pointers_of(slots)
            payloads: list[bytes] = []
            start = size = 0
            for part in log.payloads(slots):
                payloads += part.payloads
                size += sum(map(len, part.payloads))
                if len(payloads) >= _COMMIT_VERSIONS or size >= _COMMIT_BYTES:
                    stop = start + len(payloads)
                    yield pointers[start:stop], payloads, _times(runs, numbers[start:stop])
                    payloads, start, size = [], stop, 0
            if payloads:
                yield pointers[start:], payloads, _times(runs, numbers[start:])

    # -- what is committed meanwhile -----------------------------------------------------

    def _catch_up(self, tell: Callable[[], object]) -> None:
        """Copy what was committed meanwhile, until little is left."""
        log, rest = self._log, None
        while True:
            with log.lock:
                log.raise_if_unusable()
                end, data = log.end, log.data
            size = end - self._copied_end
            if size <= _SMALL_REST_BYTES:
                return
            if rest is not None and size > rest * _GAIN:
                break
            rest = size
            self._follow(data, end)
            tell()
        # They write as fast as this copies: from now on they have to wait in between, the longer
        # the less that gains.
        most_blocks = _TURN_BLOCKS
        while size > _SMALL_REST_BYTES:
            tell()
            time.sleep(_OTHERS_TURN_S)
            before = size
            with log.lock:
                log.raise_if_unusable()
                self._follow(log.data, log.end, most_blocks)
                size = log.end - self._copied_end
            if size > before * _TURN_GAIN:
                most_blocks *= 2

    def _follow(self, data: mmap.mmap, end: int, most_blocks: int = sys.maxsize) -> None:
        """Copy the blocks of the old log up to ``end``, or so many of them."""
        reader = MapReader(data)
        for _ in range(most_blocks):
            if self._copied_end >= end:
                return
            start = self._copied_end
            if data[start + MAGIC_OFFSET : start + _SINGLE_HEAD_BYTES] == SINGLE_MAGIC_AND_COUNT:
                self._follow_single(data, start)
                continue
            header = valid_header(reader, self._era.file_id, start, end)
            if header is None:
                raise self._damage(start)
            if header.magic == COMMIT_MAGIC:
                self._follow_commit(reader, header)
            elif header.magic == CATALOGUE_MAGIC:
                body = reader.read(header.payload_offset + 8, header.payload_bytes - 8)
                catalogue = self._log.read_catalogue(header, body)
                catalogue.pop("indexes", None)
                catalogue["origin"] = self._writer.state.catalogue.get("origin") or self._origin()
                self._writer.catalogue(catalogue, header.timestamp)
            self._copied_end = header.end

    def _damage(self, offset: int) -> DamageError:
        return DamageError(
            f"{self._log.path}: what was just written at byte {offset} does not match its"
            " checksum. The file was left as it is.",
            path=self._log.path,
            offset=offset,
        )

    def _follow_single(self, data: mmap.mmap, start: int) -> None:
        """Copy a commit of one version, the usual case, spelled out: 3 us instead of 30."""
        era = self._era
        fields = SINGLE_COMMIT.unpack_from(data, start + CHECKSUM_BYTES)
        _, _, timestamp, size, identity, _, _, checksum, end_of_pointer = fields
        at = start + _SINGLE_BYTES
        head, payload = data[start:at], data[at : at + size]
        if head[:CHECKSUM_BYTES] != checksum64(head[CHECKSUM_BYTES:], era.file_id) or (
            size and checksum32(payload) != checksum
        ):
            raise self._damage(start)
        if era.cipher is not None and size:
            number = self._writer.state.map.next_slot + self._dropped
            opened = era.cipher.open_one(number, head[BLOCK_BYTES:], payload)
            if opened is None:
                raise self._damage(start)
            payload = opened
        self._writer.single(identity, payload, end_of_pointer, timestamp)
        self._copied_end = aligned(at + size)

    def _origin(self) -> dict[str, Any]:
        """Return the origin of a file that had no collections when the compaction began."""
        name = None if self._archive is None else self._archive.name
        return Origin(self._era.file_id, 1, 0, name).to_catalogue()

    def _follow_commit(self, reader: MapReader, header: BlockHeader) -> None:
        """Copy a commit of several versions."""
        writer, era = self._writer, self._era
        raw = bytes(reader.read(header.pointers_offset, header.count * POINTER_BYTES))
        pointers = np.frombuffer(bytearray(raw), POINTER_DTYPE)
        payloads = []
        number = writer.state.map.next_slot + self._dropped
        rows = zip(
            pointers["offset"].tolist(),
            pointers["length"].tolist(),
            pointers["checksum"].tolist(),
            strict=True,
        )
        for place, (offset, length, checksum) in enumerate(rows):
            payload: bytes | None = bytes(reader.read(offset, length))
            if length and checksum32(payload or b"") != checksum:
                raise self._damage(offset)
            if era.cipher is not None and length:
                at = place * POINTER_BYTES
                pointer = raw[at : at + POINTER_BYTES]
                payload = era.cipher.open_one(number + place, pointer, payload or b"")
            if payload is None:
                raise self._damage(offset)
            payloads.append(payload)
        writer.commit(pointers, payloads, header.timestamp)

    # -- the change ----------------------------------------------------------------------

    def finish(self, switch: Switch, guard: AbstractContextManager[object]) -> CompactionResult:
        """Copy the rest, and let the new file take the place of the old one."""
        log, writer = self._log, self._writer
        with guard, log.sync_lock, log.lock:
            log.raise_if_unusable()
            before, last = log.end, log.next_slot
            self._follow(log.data, log.end)
            writer.checkpoint()
            writer.write()
            state = writer.state
            root = writer.root()
            # Not before: another key or password may have been given to the database meanwhile.
            header = fresh_header(state.file_id, self._created, self._keys)
            complete(self._file, root, header, state.file_id)
            write_holder(self._file, own_name())
            old = None
            # Invariant: nothing but its own file is replaced, whatever was put there meanwhile.
            _refuse_moved(log.file)
            if self._archive is not None:
                self._archive.keep(log)
                old = log.file.duplicate()
            era, state.root = self._new_era(state), root.next()
            path = log.path
            if path is not None:
                self._file.take_name(path, replace=True)
            # Invariant: from here on nothing may keep the log from going over to the new file:
            # what is appended to the old one would be lost.
            switch(lambda: self._moved(era, last))
            log.sync_name()
        if self._archive is not None and old is not None:
            self._archive.finish(old)
        return CompactionResult(
            bytes_before=before,
            bytes_after=state.end,
            versions=len(state.map),
            dropped_versions=self._dropped,
        )

    def _new_era(self, state: LogState) -> Era:
        log = self._log
        data = log.map_like_own(self._file, state.end)
        return Era(log.next_base(len(state.map)), state.map, data, state.file_id, state.cipher)

    def _moved(self, new: Era, last: int) -> Numbering:
        """Have the log go over to the new file.

        Returns:
            What the versions are called by now, of those before the slot ``last``.
        """
        self._log.move(self._file, new, self._writer.state)
        numbers = np.zeros(last - self._era.base, "<u4")
        count = len(self._live)
        numbers[self._live] = np.arange(1, count + 1)
        kept = len(numbers) - self._first_kept
        numbers[self._first_kept :] = np.arange(count + 1, count + 1 + kept)
        return Numbering(self._era, new, self._first_kept, numbers)


def _times(runs: Array, numbers: Array) -> list[tuple[int, int]]:
    """Return the times of versions: the place of the first one of each, and the time.

    Args:
        runs: (n, 2) <i8, the time runs of their file.
        numbers: (n,) of integers, rising.
    """
    places = np.searchsorted(runs[:, 0], numbers, "right") - 1
    starts = np.concatenate(([0], np.flatnonzero(np.diff(places)) + 1))
    return list(zip(starts.tolist(), runs[places[starts], 1].tolist(), strict=True))
