"""The interface by which every store, ours and the peers', is driven."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from benchmark.records import make_records, shuffled_identities
from benchmark.timing import time_call, time_each, time_pairs


class Store(Protocol):
    """An open store of records, with identities from 1 or by natural key."""

    @property
    def insert(self) -> Callable[[Any], object]:
        """Write one record under the next identity, or its key."""

    @property
    def insert_many(self) -> Callable[[list[Any]], object]:
        """Write all records as one unit."""

    def get(self, identity: Any) -> object:
        """Return the caller's own copy of a record."""

    def update(self, identity: Any, count: int) -> object:
        """Set the field ``count`` of a record."""

    def delete(self, identity: Any) -> object:
        """Remove a record."""

    def close(self) -> None:
        """Close the store."""


class StoreContender:
    """A store as a contender: a fresh file each round, closed outside of the timed part."""

    def __init__(
        self,
        name: str,
        make: Callable[[Path], Store],
        cls: type[Any],
        *,
        count: int,
        operations: int | None = None,
        has_gc_rounds: bool = False,
        workload: str | None = None,
    ) -> None:
        self.name = name
        self.has_gc_rounds = has_gc_rounds
        self._make = make
        self._workload = workload
        self._records = make_records(cls, count)
        self._ids = shuffled_identities(cls, count, operations or count)

    def round(self, workload: str) -> tuple[int, int]:
        """Do one round of ``workload`` (or of the one fixed at the beginning)."""
        with tempfile.TemporaryDirectory(prefix="memdb-bench-") as directory:
            store = self._make(Path(directory))
            try:
                return _TIMED[self._workload or workload](store, self._records, self._ids)
            finally:
                store.close()


def _insert(store: Store, records: list[Any], ids: list[Any]) -> tuple[int, int]:
    store.insert(records[0])  # The first one makes the collection or the table's pages.
    return time_each(store.insert, records), len(records)


def _insert_keyed(store: Store, records: list[Any], ids: list[Any]) -> tuple[int, int]:
    store.insert(records[0])  # As above; but no key twice.
    return time_each(store.insert, records[1:]), len(records) - 1


def _insert_many(store: Store, records: list[Any], ids: list[Any]) -> tuple[int, int]:
    return time_call(lambda: store.insert_many(records)), len(records)


def _get(store: Store, records: list[Any], ids: list[Any]) -> tuple[int, int]:
    store.insert_many(records)
    for identity in ids:  # The first touch decodes; the steady state is what is timed.
        store.get(identity)
    return time_each(store.get, ids), len(ids)


def _update(store: Store, records: list[Any], ids: list[Any]) -> tuple[int, int]:
    store.insert_many(records)
    pairs = [(identity, 1000 + number) for number, identity in enumerate(ids)]
    return time_pairs(store.update, pairs), len(pairs)


def _delete(store: Store, records: list[Any], ids: list[Any]) -> tuple[int, int]:
    store.insert_many(records)
    return time_each(store.delete, ids), len(ids)


_TIMED: dict[str, Callable[[Store, list[Any], list[Any]], tuple[int, int]]] = {
    "insert": _insert,
    "insert_many": _insert_many,
    "get": _get,
    "get_hot": _get,
    "update": _update,
    "delete": _delete,
    "synced": _insert,
    "key_insert": _insert_keyed,
    "key_insert_many": _insert_many,
    "key_get": _get,
    "key_get_hot": _get,
    "key_update": _update,
    "key_delete": _delete,
    "insert_struct_msgpack": _insert,
    "insert_dataclass_binary": _insert,
}
