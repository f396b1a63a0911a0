"""The log's blocks that are no commits: the catalogue, and the indexes that it leads to."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from memdb.storage._blocks import Array, pack_checked
from memdb.storage._catalogue import pack_catalogue
from memdb.storage._constants import CATALOGUE_MAGIC, INDEX_MAGIC
from memdb.storage._reading import LogReader
from memdb.storage._saved import SavedIndex, pack_arrays, replaced


class CatalogueLog(LogReader):
    """What an open log has for the catalogue; `Log` appends the blocks.

    Threads: `lock` is held for every call.
    """

    __slots__ = ()

    sequence: int

    @abstractmethod
    def _append_block(self, magic: bytes, pointers: bytes, payload: bytes) -> int:
        """Append a block that is no commit; return its offset."""

    @abstractmethod
    def refuse_large(self, payload_bytes: int) -> None:
        """Raise WriteError if that is more than can be written at once."""

    def _body(self, magic: bytes, content: bytes) -> bytes:
        """Return the payload of the next block, encrypted where the file is."""
        state = self._state
        if state.cipher is not None:
            self.refuse_large(len(content))
            content = state.cipher.seal_block(magic, self.sequence + 1, content)
        return pack_checked(content, state.file_id)

    def write_catalogue(self, catalogue: dict[str, Any]) -> None:
        """Append a new catalogue; `lock` is held and the gate is open.

        What it does not speak of stays as it is, as the saved indexes and the origin.
        """
        catalogue = {**self.catalogue, **catalogue}
        payload = self._body(CATALOGUE_MAGIC, pack_catalogue(catalogue))
        self._state.catalogue_offset = self._append_block(CATALOGUE_MAGIC, b"", payload)
        self._state.catalogue = catalogue

    def append_index(
        self,
        collection: int,
        name: str,
        slot: int,
        meta: dict[str, Any],
        arrays: Mapping[str, Array],
    ) -> SavedIndex:
        """Append the arrays of an index; they mean nothing until `name_indexes`.

        The gate is open, or the log is about to be closed.

        Args:
            collection: Its number in the catalogue.
            name, meta: See `SavedIndex`.
            slot: All versions before it are in the index; not more than `next_slot`.
            arrays: (n,) each, of a dtype of the format.

        Raises:
            WriteError: There is no room.
        """
        body, layout = pack_arrays(arrays)
        offset = self._append_block(INDEX_MAGIC, b"", self._body(INDEX_MAGIC, body))
        self._state.has_index_behind = True
        return SavedIndex(collection, name, slot - self.era.base, offset, layout, meta)

    def name_indexes(
        self, collection: int, saved: Sequence[SavedIndex], forgotten: Iterable[str] = ()
    ) -> None:
        """Have the catalogue lead to indexes, and to some of the collection no longer.

        They take the place of those of the same names. The gate is as for `append_index`.

        Raises:
            WriteError: There is no room. The indexes that were saved before stay.
        """
        names = [*[each.name for each in saved], *forgotten]
        catalogue = replaced(self.catalogue, collection, names, *saved)
        if catalogue["indexes"] != self.catalogue.get("indexes", []):
            self.write_catalogue(catalogue)
