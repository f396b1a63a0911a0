"""LMDB: a transaction for each operation, msgspec MessagePack values.

Keys are big-endian numbers, or natural keys as UTF-8.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lmdb
import msgspec

from benchmark.records import ItemStruct, KeyedStruct


class LmdbStore:
    """With ``writemap=True, sync=False``: what is written survives the process, not the power."""

    def __init__(self, path: Path, *, sync: bool = False, cls: type[Any] = ItemStruct) -> None:
        self._env = lmdb.open(
            str(path), subdir=False, map_size=2**32, writemap=True, sync=sync, metasync=sync
        )
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(cls).decode
        with self._env.begin() as transaction:
            self._last = transaction.stat()["entries"]

    def insert(self, record: Any) -> None:
        """Put one record in a write transaction."""
        self._last += 1
        with self._env.begin(write=True) as transaction:
            transaction.put(self._last.to_bytes(8, "big"), self._encode(record), append=True)

    def insert_many(self, records: list[Any]) -> None:
        """Put all records in one write transaction."""
        encode, first = self._encode, self._last + 1
        self._last += len(records)
        pairs = [
            (number.to_bytes(8, "big"), encode(record))
            for number, record in enumerate(records, first)
        ]
        with self._env.begin(write=True) as transaction, transaction.cursor() as cursor:
            cursor.putmulti(pairs, append=True)

    def get(self, identity: Any) -> Any:
        """Get and decode in a read transaction."""
        with self._env.begin(buffers=True) as transaction:
            return self._decode(transaction.get(identity.to_bytes(8, "big")) or b"")

    def update(self, identity: Any, count: int) -> None:
        """Read, change and put in one write transaction."""
        key = identity.to_bytes(8, "big")
        with self._env.begin(write=True, buffers=True) as transaction:
            record = self._decode(transaction.get(key) or b"")
            record.count = count
            transaction.put(key, self._encode(record))

    def delete(self, identity: Any) -> None:
        """Delete in a write transaction."""
        with self._env.begin(write=True) as transaction:
            transaction.delete(identity.to_bytes(8, "big"))

    def close(self) -> None:
        """Close the environment."""
        self._env.close()


class KeyedLmdbStore(LmdbStore):
    """The same by natural key, written out again: a call for the key would count as LMDB's."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, cls=KeyedStruct)

    def insert(self, record: Any) -> None:
        """Put one record in a write transaction, unless the key is there."""
        with self._env.begin(write=True) as transaction:
            if not transaction.put(record.code.encode(), self._encode(record), overwrite=False):
                raise KeyError(record.code)

    def insert_many(self, records: list[Any]) -> None:
        """Put all records in one write transaction."""
        encode = self._encode
        pairs = [(record.code.encode(), encode(record)) for record in records]
        with self._env.begin(write=True) as transaction, transaction.cursor() as cursor:
            cursor.putmulti(pairs, overwrite=False)

    def get(self, identity: Any) -> Any:
        """Get and decode in a read transaction."""
        with self._env.begin(buffers=True) as transaction:
            return self._decode(transaction.get(identity.encode()) or b"")

    def update(self, identity: Any, count: int) -> None:
        """Read, change and put in one write transaction."""
        key = identity.encode()
        with self._env.begin(write=True, buffers=True) as transaction:
            record = self._decode(transaction.get(key) or b"")
            record.count = count
            transaction.put(key, self._encode(record))

    def delete(self, identity: Any) -> None:
        """Delete in a write transaction."""
        with self._env.begin(write=True) as transaction:
            transaction.delete(identity.encode())
