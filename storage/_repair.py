"""Salvaging: all that is still readable of a damaged file, in a new one, and what is lost."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from memdb.errors import DamageError
from memdb.storage._block_writer import BlockWriter
from memdb.storage._blocks import checksum32
from memdb.storage._checkpoint import FULL_CHECKPOINT, unchecked_slot
from memdb.storage._constants import (
    POINTER,
    POINTER_BYTES,
    POINTER_DTYPE,
    POINTER_LAST_OF_COMMIT,
    POINTER_SEALED,
    Kind,
)
from memdb.storage._file import OSFile
from memdb.storage._new_file import NewFile, Progress, complete, fresh_cipher, fresh_header, silent
from memdb.storage._origin import origin_of
from memdb.storage._recovery import load
from memdb.storage._salvage import Gap, Piece, Survey, survey

if TYPE_CHECKING:
    from memdb.storage._key_slots import Keys

# A version that is lost may have been of so few bytes: a block's header and a pointer.
_LEAST_COMMIT_BYTES = 72
# So many places are tried for a sealed record whose slot damage has hidden.
_MOST_GUESSES = 100_000


@dataclass(frozen=True, slots=True)
class Loss:
    """Something that could not be salvaged.

    Attributes:
        offset: Bytes from the start of the damaged file to it.
        bytes: How many there are.
        collection: Name of the collection, None where that is not known.
        identity: Of the record, None where that is not known or it has a natural key.
        message: What is lost, in one sentence.
    """

    offset: int
    bytes: int
    collection: str | None
    identity: int | None
    message: str


@dataclass(frozen=True, slots=True)
class RepairResult:
    """What a repair has salvaged.

    Attributes:
        path: The new file.
        versions: Versions in it.
        records: Records that live in it.
        losses: What is not in it, in the order of the damaged file.
    """

    path: str
    versions: int
    records: int
    losses: tuple[Loss, ...]

    @property
    def is_complete(self) -> bool:
        """Whether nothing was lost."""
        return not self.losses


def repair(
    path: str, to: str, *, keys: Keys | None = None, progress: Progress = silent
) -> RepairResult:
    """Make a new file of all versions that are readable in a damaged one, which stays as it is.

    Args:
        path: The damaged file.
        to: Where the new one is to be, and nothing is.
        keys: Of an encrypted file.
        progress: Is told of bytes: first those that are surveyed, then those that are written.

    Raises:
        DamageError: Nothing can be salvaged: the file id or every catalogue is lost.
    """
    file = OSFile(path, write=False)
    try:
        total = 2 * file.length()
        found = survey(file, keys, progress, total)
        if not found.state.catalogue and any(isinstance(item, Piece) for item in found.items):
            raise DamageError(
                f"{path}: no catalogue is whole, which says what the bytes of the records mean."
                " Restore the file from a copy.",
                path=path,
            )
        with NewFile(to, file) as new:
            file_id = int.from_bytes(os.urandom(8), "little") or 1
            header = fresh_header(file_id, found.created, keys)
            writer = BlockWriter(new.file, file_id, fresh_cipher(file_id, keys))
            salvage = _Repairer(found, writer)
            salvage.run(progress, total)
            complete(new.file, writer.root(), header, file_id)
            load(new.file, "read", keys)
            new.appear()
            progress(total, total, "bytes")
            return salvage.result(new.path)
    finally:
        file.close()


class _Repairer:
    """Writes what a survey has found."""

    def __init__(self, found: Survey, writer: BlockWriter) -> None:
        self._found = found
        self._writer = writer
        catalogue = found.state.catalogue
        collections = catalogue.get("collections", [])
        self._names: dict[int, str] = {each["id"]: each["name"] for each in collections}
        self._keyed = {each["id"] for each in collections if "key" in each}
        self._writers = {each["id"] for each in catalogue.get("writers", [])}
        self._live: set[tuple[int, int]] = set()
        self._losses: list[Loss] = []
        # How many slots damage may have hidden before the present place.
        self._hidden = 0
        self._last_slot = 0

    def run(self, progress: Progress, total: int) -> None:
        """Write everything."""
        found, writer = self._found, self._writer
        for offset, what in found.spoilt:
            self._losses.append(Loss(offset, 0, None, None, f"{what} that is not needed any more"))
        catalogue = {key: value for key, value in found.state.catalogue.items() if key != "indexes"}
        origin = origin_of(catalogue)
        has_losses = any(isinstance(item, Gap) and not item.is_tail for item in found.items)
        if origin is not None and has_losses:
            # Its slots are not those of the new file.
            del catalogue["origin"]
        if catalogue:
            writer.catalogue(catalogue, _first_time(found.items))
        told = 0
        for item in found.items:
            if isinstance(item, Piece):
                self._piece(item)
                end = item.header.end
            else:
                self._gap(item)
                end = item.stop
            if writer.state.map.next_slot - unchecked_slot(writer.state) >= FULL_CHECKPOINT:
                writer.checkpoint()
            if end - told >= 1 << 20:
                told = end
                progress(total // 2 + min(end, total // 2), total, "bytes")
        state = writer.state
        for collection, identity in found.state.last_identities.items():
            if collection in self._names:
                highest = state.last_identities.get(collection, 0)
                state.last_identities[collection] = max(highest, identity)
        writer.checkpoint()
        writer.write()

    def result(self, path: str) -> RepairResult:
        """Return what came of it."""
        losses = tuple(sorted(self._losses, key=lambda loss: loss.offset))
        return RepairResult(path, len(self._writer.state.map), len(self._live), losses)

    def _piece(self, piece: Piece) -> None:
        """Write what is whole of a commit."""
        header, reader = piece.header, self._found.reader
        pointers = bytes(reader.read(header.pointers_offset, header.count * POINTER_BYTES))
        kept: list[tuple[bytes, bytes]] = []
        for number, at in enumerate(range(0, len(pointers), POINTER_BYTES)):
            pointer = pointers[at : at + POINTER_BYTES]
            payload = self._payload(piece.slot + number if piece.slot else 0, pointer)
            if payload is not None:
                kept.append((pointer, payload))
        if piece.slot:
            self._last_slot, self._hidden = piece.slot + header.count - 1, 0
        else:
            self._last_slot += header.count
        self._commit(kept, header.timestamp)

    def _gap(self, gap: Gap) -> None:
        """Write what a checkpoint knows of lost commits, each version by itself."""
        kept = 0
        for slot, time, pointer in gap.known:
            payload = self._payload(slot, pointer)
            if payload is not None:
                kept += 1
                self._commit([(pointer, payload)], time)
        size = gap.stop - gap.start
        self._hidden += size // _LEAST_COMMIT_BYTES + 1
        unknown = None if gap.versions is None else gap.versions - len(gap.known)
        if gap.is_tail:
            what = "what follows the last whole commit: one that was not finished, or was cut"
        elif unknown is None:
            what = "damaged blocks, and the versions in them, whose number is not known"
        elif unknown:
            what = f"damaged blocks, and {unknown} versions in them"
        elif kept:
            # All was found elsewhere, or is listed by itself.
            return
        else:
            what = "damaged blocks without versions"
        self._losses.append(Loss(gap.start, size, None, None, what))

    def _payload(self, slot: int, pointer: bytes) -> bytes | None:
        """Return the checked bytes of a version, empty for a deletion; note it if they are lost."""
        identity, offset, length, checksum, collection, writer, kind, flags, _ = POINTER.unpack(
            pointer
        )
        if kind == Kind.DELETED:
            return b""
        reason = None
        payload: bytes | None = bytes(self._found.reader.read(offset, length))
        if collection not in self._names or writer not in self._writers:
            reason = "the catalogue that tells of its class is lost"
        elif payload is None or len(payload) != length or checksum32(payload) != checksum:
            reason = "its bytes are damaged"
        elif flags & POINTER_SEALED:
            payload = self._opened(slot, pointer, payload)
            if payload is None:
                reason = "it is not as it was encrypted, or its place is not known"
        if reason is None:
            return payload
        name = self._names.get(collection)
        what = "a version of a record"
        if name is not None:
            what = f"a version of {name}" + ("" if collection in self._keyed else f" {identity}")
        older = ", an older one is kept" if (collection, identity) in self._live else ""
        given = None if name is None or collection in self._keyed else identity
        self._losses.append(Loss(offset, length, name, given, f"{what}: {reason}{older}"))
        return None

    def _opened(self, slot: int, pointer: bytes, payload: bytes) -> bytes | None:
        """Return the bytes of a sealed record; where damage hides its slot, it is guessed."""
        cipher = self._found.state.cipher
        if cipher is None:
            return None
        guesses = range(self._last_slot + 1, self._last_slot + 2 + self._hidden)
        for guess in [slot] if slot else guesses[:_MOST_GUESSES]:
            opened = cipher.open_one(guess, pointer, payload)
            if opened is not None:
                return opened
        return None

    def _commit(self, versions: list[tuple[bytes, bytes]], timestamp: int) -> None:
        """Write versions as one commit, with the kinds that they have in the new file."""
        kept: list[tuple[int, ...]] = []
        payloads: list[bytes] = []
        for pointer, payload in versions:
            identity, _, _, _, collection, writer, kind, flags, _ = POINTER.unpack(pointer)
            record = collection, identity
            if kind == Kind.DELETED:
                if record not in self._live:
                    continue
                self._live.discard(record)
            else:
                kind = Kind.UPDATED if record in self._live else Kind.INSERTED
                self._live.add(record)
            flags &= ~POINTER_LAST_OF_COMMIT
            kept.append((identity, 0, 0, 0, collection, writer, kind, flags, 0))
            payloads.append(payload)
        if kept:
            self._writer.commit(np.array(kept, POINTER_DTYPE), payloads, timestamp)


def _first_time(items: Iterable[Piece | Gap]) -> int:
    """Return when the first of the commits was made of which that is known, 0 for none."""
    for item in items:
        if isinstance(item, Piece):
            return item.header.timestamp
        if item.known:
            return item.known[0][1]
    return 0
