"""Saved indexes: arrays in the file that spare an opening the decoding of every record.

The file says of an index where its arrays lie, what they are an index of, and up to which slot.
Slots never change, so that it stays right for ever for the versions before that slot.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from memdb.storage._blocks import Array, aligned, unpack_checked
from memdb.storage._constants import CHECKSUM_BYTES, INDEX_DTYPES, INDEX_MAGIC, SEAL_BYTES
from memdb.storage._recovery import MapReader, valid_header

if TYPE_CHECKING:
    from memdb.storage._cipher import Cipher

Layout = tuple[tuple[str, str, int], ...]


class SavedIndex(NamedTuple):
    """What the catalogue says of an index.

    Attributes:
        collection: Number of the collection.
        name: Of the index in it.
        slot: The arrays hold what lived before it; later versions have to be caught up with.
        offset: Of the block with the arrays.
        layout: Name, dtype and number of items of each array, in order.
        meta: What else whoever saved it has to know of it, as JSON can hold it.
    """

    collection: int
    name: str
    slot: int
    offset: int
    layout: Layout
    meta: dict[str, Any]

    def to_catalogue(self) -> dict[str, Any]:
        """Return the entry of the catalogue."""
        return self._asdict() | {"layout": [list(each) for each in self.layout]}


def from_catalogue(catalogue: Mapping[str, Any]) -> list[SavedIndex]:
    """Return the entries of a catalogue, whose structure is known to be right."""
    return [
        SavedIndex(
            entry["collection"],
            entry["name"],
            entry["slot"],
            entry["offset"],
            tuple((name, dtype, count) for name, dtype, count in entry["layout"]),
            entry["meta"],
        )
        for entry in catalogue.get("indexes", ())
    ]


def pack_arrays(arrays: Mapping[str, Array]) -> tuple[bytes, Layout]:
    """Return the body of an index block's payload, and what is in it.

    Args:
        arrays: (n,) each, of a dtype of `INDEX_DTYPES`.

    Raises:
        ValueError: An array is of another dtype.
    """
    parts: list[bytes] = []
    layout: list[tuple[str, str, int]] = []
    for name, array in arrays.items():
        dtype = array.dtype.newbyteorder("<").str
        if dtype not in INDEX_DTYPES or array.ndim != 1:
            raise ValueError(f"an array of {array.dtype} and {array.ndim} dimensions")
        content = array.astype(dtype, copy=False).tobytes()
        parts.append(content.ljust(aligned(len(content)), b"\0"))
        layout.append((name, dtype, len(array)))
    return b"".join(parts), tuple(layout)


def payload_bytes(layout: Layout, *, is_sealed: bool) -> int:
    """Return the length of the payload of an index block."""
    arrays = sum([_padded_bytes(dtype, count) for _, dtype, count in layout])
    return CHECKSUM_BYTES + arrays + (SEAL_BYTES if is_sealed else 0)


def _padded_bytes(dtype: str, count: int) -> int:
    return aligned(count * np.dtype(dtype).itemsize)


def unpack_arrays(
    data: mmap.mmap, file_id: int, saved: SavedIndex, end: int, cipher: Cipher | None = None
) -> dict[str, Array] | None:
    """Return the arrays of an index, views that can't be written to; None if they are damaged.

    Args:
        data: The mapped file.
        file_id: Its id.
        saved: What the catalogue says.
        end: Where the log ends.
        cipher: Of an encrypted file; the views are over a copy then.

    Cost: O(bytes), for the checksum.
    """
    reader = MapReader(data)
    header = valid_header(reader, file_id, saved.offset, end)
    size = payload_bytes(saved.layout, is_sealed=cipher is not None)
    if header is None or (header.magic, header.payload_bytes) != (INDEX_MAGIC, size):
        return None
    body = unpack_checked(reader.read(header.payload_offset, size), file_id)
    if body is None:
        return None
    content: mmap.mmap | bytes | None = data
    at = header.payload_offset + CHECKSUM_BYTES
    if cipher is not None:
        content, at = cipher.open_block(INDEX_MAGIC, header.sequence, body), 0
    if content is None:
        return None
    arrays: dict[str, Array] = {}
    for name, dtype, count in saved.layout:
        arrays[name] = np.frombuffer(content, dtype, count, at)
        arrays[name].flags.writeable = False
        at += _padded_bytes(dtype, count)
    return arrays


def replaced(
    catalogue: Mapping[str, Any], collection: int, names: Iterable[str], *new: SavedIndex
) -> dict[str, Any]:
    """Return a catalogue in which other indexes stand for some of a collection's."""
    gone = {(collection, name) for name in names}
    kept = [
        saved for saved in from_catalogue(catalogue) if (saved.collection, saved.name) not in gone
    ]
    return {**catalogue, "indexes": [saved.to_catalogue() for saved in (*kept, *new)]}
