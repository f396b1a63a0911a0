"""Verifying a file that nobody has open: header, roots, blocks, and what follows them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from memdb.errors import NotADatabaseError
from memdb.storage._blocks import BlockHeader, Root, checksum64, unpack_header, unpack_root
from memdb.storage._check import UNKNOWN, Place, Source, Walk
from memdb.storage._constants import (
    ENCRYPTED_FORMAT_VERSION,
    HEADER,
    HEADER_BYTES,
    HEADER_CHECKSUM_OFFSET,
    HOLDER_BYTES,
    HOLDER_OFFSET,
    KEY_SLOT_BYTES,
    KEY_SLOT_OFFSETS,
    LOG_START,
    MAGIC,
    PAGE_BYTES,
    ROOT_BYTES,
    ROOT_OFFSETS,
)
from memdb.storage._creation import refuse_unfinished
from memdb.storage._file import File
from memdb.storage._findings import Finding
from memdb.storage._key_slots import unpack_slot
from memdb.storage._recovery import (
    LogState,
    MapReader,
    read_header,
    read_tail,
    unlock,
    whole_blocks,
)

if TYPE_CHECKING:
    from memdb.storage._key_slots import Keys

# The end of a root's page that says nothing.
_ROOT_RESERVED = 80
# More versions than any file has: where damage leaves unknown how many there are.
_ANY = 2**62


def check_file(file: File, keys: Keys | None = None) -> list[Finding]:
    """Verify every byte of a file, and change nothing.

    Args:
        file: Open for reading.
        keys: Of an encrypted file.

    Returns:
        What was found, in no order; empty when all is well.

    Raises:
        NotADatabaseError: It is something else, or empty.
        UnsupportedFormatError: A newer memdb wrote it.
        WrongKeyError: These are not its keys.
    """
    refuse_unfinished(file)
    page = file.read(0, PAGE_BYTES)
    if page[: len(MAGIC)] != MAGIC:
        raise NotADatabaseError(
            f"{file.path}: is not a memdb file (it begins with {page[:8]!r}). Check the path.",
            path=file.path,
        )
    length = file.length()
    if length < LOG_START:
        return [Finding(length, f"the file was cut to {length} bytes")]
    _, version, file_id, is_whole = unpack_header(page)
    if is_whole:
        # For the error of a version that is not known.
        read_header(file)
    findings = list(_header_findings(page))
    roots = _roots(file, file_id)
    findings += [
        Finding(offset, "the root does not match its checksum")
        for offset, root in zip(ROOT_OFFSETS, roots, strict=True)
        if root is None
    ]
    findings += list(_root_findings(file, roots))
    cipher = unlock(file, file_id, version == ENCRYPTED_FORMAT_VERSION, keys)
    newest = max(filter(None, roots), key=lambda root: root.generation, default=None)
    state = LogState(file_id, newest or Root(0, LOG_START), cipher)
    return findings + list(_log_findings(file, state, roots))


def _header_findings(page: bytes) -> Iterator[Finding]:
    """Give what is wrong with the header page."""
    _, version, size, file_id, _, reserved, checksum = HEADER.unpack(page[:HEADER_BYTES])
    if checksum != checksum64(page[:HEADER_CHECKSUM_OFFSET]):
        yield Finding(0, "the header does not match its checksum")
    elif size != PAGE_BYTES or not file_id or any(reserved):
        yield Finding(0, "the header has a page size, file id or reserved bytes that can't be")
    used = [(0, HEADER_BYTES), (HOLDER_OFFSET, HOLDER_OFFSET + HOLDER_BYTES)]
    if version == ENCRYPTED_FORMAT_VERSION:
        for offset in KEY_SLOT_OFFSETS:
            slot = page[offset : offset + KEY_SLOT_BYTES]
            if any(slot) and unpack_slot(slot) is None:
                yield Finding(offset, "the key slot does not match its checksum")
            used.append((offset, offset + KEY_SLOT_BYTES))
    rest = bytearray(page)
    for start, stop in used:
        rest[start:stop] = bytes(stop - start)
    if any(rest):
        offset = next(place for place, byte in enumerate(rest) if byte)
        yield Finding(offset, "the header page has bytes where there are none")


def _roots(file: File, file_id: int) -> list[Root | None]:
    return [unpack_root(file.read(offset, ROOT_BYTES), file_id) for offset in ROOT_OFFSETS]


def _root_findings(file: File, roots: list[Root | None]) -> Iterator[Finding]:
    """Give what is wrong with roots by themselves."""
    for number, (offset, root) in enumerate(zip(ROOT_OFFSETS, roots, strict=True)):
        page = file.read(offset, PAGE_BYTES)
        if root is not None and root.generation % 2 != number:
            yield Finding(offset, f"the root of generation {root.generation} is in the wrong place")
        if any(page[_ROOT_RESERVED:]):
            yield Finding(offset, "the page of the root has bytes where there are none")


def _log_findings(file: File, state: LogState, roots: list[Root | None]) -> Iterator[Finding]:
    """Give what is wrong with the blocks, and with what roots say of them."""
    length = file.length()
    reader = MapReader(file.map(length, "read"))
    root = state.root
    if length < root.log_end:
        yield Finding(length, f"the file was cut, its log reached to byte {root.log_end}")
    # What follows the end that the root knows: commits that are whole, then perhaps a torn one.
    state.end, state.sequence = min(root.log_end, length), root.sequence
    for header, _ in whole_blocks(reader, state):
        state.note(header)
    tail = read_tail(reader, state)
    end = state.end
    if length >= root.log_end and not any(roots):
        # No root is left to tell where the log ends.
        end = length - tail.zero_bytes
    elif tail.next_block is not None:
        yield Finding(
            state.end, f"the block is damaged, and whole ones follow from byte {tail.next_block} on"
        )
    elif tail.torn and root.is_clean:
        yield Finding(state.end, f"{len(tail.torn)} bytes follow the end of a log that was closed")

    def read_catalogue(header: BlockHeader, body: bytes | memoryview) -> dict[str, Any]:
        return state.read_catalogue(header, body, file.path)

    walk = Walk(Source(reader, state.file_id, end, state.cipher, read_catalogue))
    yield from walk.findings()
    yield from walk.closing_findings(walk.slot - 1 if walk.slot else _ANY)
    for offset, each in zip(ROOT_OFFSETS, roots, strict=True):
        if each is not None and each.log_end <= length:
            message = _misfit(each, walk.places.get(each.log_end))
            if message:
                yield Finding(offset, message)


def _misfit(root: Root, place: Place | None) -> str:
    """Return what a root says wrongly of the log that ends where it says; nothing is all right."""
    if place is None:
        return f"the root says that the log ends at byte {root.log_end}, where no block ends"
    for name in ("checkpoint", "catalogue", "sequence", "timestamp"):
        said, found = getattr(root, name), getattr(place, name)
        if said != found and found != UNKNOWN:
            return f"the root says {said} of the {name}, {found} was found"
    return ""
