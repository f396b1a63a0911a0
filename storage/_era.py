"""Eras: what slots mean from one change of the file to the next."""

from __future__ import annotations

import mmap
from array import array
from collections.abc import Iterator
from typing import TYPE_CHECKING

from memdb.storage._blocks import Array
from memdb.storage._pointer_map import PointerMap

if TYPE_CHECKING:
    from memdb.storage._cipher import Cipher

# The identity indexes hold slots in four bytes.
MAX_SLOT = 2**32 - 1
# Half of them, so that the file can grow.
MAX_BASE = 2**31


class Moved(Exception):
    """A slot is of a file that nobody keeps any more: look the record up again."""


class Era:
    """One file while a log is open, and the slots of its versions.

    Each file numbers its versions from 1. When a log goes over to another file (one that was
    compacted, or another that lies at the path now), the numbers begin anew; the slots that the
    program knows go on: they are the file's numbers and `base`. So no slot, snapshot or cursor
    from before can be taken for one of now, and slots only ever rise.

    Whoever keeps the object can go on reading the versions of its file, see `LogReader.read`: a
    scan that runs ends over the file that it began with.

    Attributes:
        base: What slots are higher than the numbers of the versions in the file.
        stop: The slot from which they are of another era; `MAX_SLOT` while this is the present one.
        map: The pointer map, by the numbers in the file.
        positions: That of the map.
        data: The mapped file; replaced when it grows.
        file_id: Of the file.
        cipher: What opens the records of an encrypted file, None for a plain one.
    """

    __slots__ = ("__weakref__", "base", "cipher", "data", "file_id", "map", "positions", "stop")

    def __init__(
        self,
        base: int,
        pointer_map: PointerMap,
        data: mmap.mmap,
        file_id: int,
        cipher: Cipher | None = None,
    ) -> None:
        self.base = base
        self.stop = MAX_SLOT
        self.map = pointer_map
        self.positions: array[int] = pointer_map.positions
        self.data = data
        self.file_id = file_id
        self.cipher = cipher

    def parts(self, stop: int) -> Iterator[tuple[int, Array]]:
        """Give the pointers before a number in the file, with slots; see `PointerMap.parts`."""
        for number, pointers in self.map.parts(self.data, 1, stop):
            yield self.base + number, pointers
