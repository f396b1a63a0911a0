"""memdb, driven as a new user would."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import memdb
from benchmark.records import KEY, Item, ItemStruct, KeyedItem, KeyedStruct

# name in the tables -> (class, serializer)
FORMS: dict[str, tuple[type[Any], str]] = {
    "memdb dataclass, binary": (Item, "binary"),
    "memdb Struct, msgpack": (ItemStruct, "msgpack"),
}

# The same with a natural key.
KEYED_FORMS: dict[str, tuple[type[Any], str]] = {
    "memdb dataclass, binary": (KeyedItem, "binary"),
    "memdb Struct, msgpack": (KeyedStruct, "msgpack"),
}


# Of encrypted files.
ENCRYPTED = ", encrypted"
SECRET = bytes(range(32))


class MemdbStore:
    """A memdb collection; its methods are the collection's own, without a frame between."""

    def __init__(self, path: Path | None, cls: type[Any], serializer: str, **settings: Any) -> None:
        self._db = memdb.open(path, **settings)
        key = KEY if cls in (KeyedItem, KeyedStruct) else None
        self.items = self._db.collection(cls, name="items", key=key, serializer=serializer)
        self.get: Callable[[Any], object] = self.items.get
        self.delete: Callable[[Any], object] = self.items.delete

    @property
    def insert(self) -> Callable[[Any], object]:
        """The collection's own method as it is now: the first insert makes a faster one."""
        return self.items.insert

    @property
    def insert_many(self) -> Callable[[list[Any]], object]:
        """The collection's own method."""
        return self.items.insert_many

    def update(self, identity: Any, count: int) -> object:
        """Set one field."""
        return self.items.update(identity, count=count)

    def close(self) -> None:
        """Close the database."""
        self._db.close()


def open_store(directory: Path, cls: type[Any], serializer: str, **settings: Any) -> MemdbStore:
    """Open a fresh memdb file in ``directory``."""
    return MemdbStore(directory / "items.memdb", cls, serializer, **settings)
