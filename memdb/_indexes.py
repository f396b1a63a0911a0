"""The indexes of a collection as the user meets them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from memdb._config import nearest
from memdb._index_declarations import IndexDeclaration
from memdb.errors import ConfigError, shown

if TYPE_CHECKING:
    from memdb._insertion import Insertion


class Indexes(Mapping[str, IndexDeclaration]):
    """The applied indexes of a collection, a mapping from name to declaration.

    Made by `Collection.indexes`. They live as long as the collection is open: a program declares
    the indexes that it needs each time.

    Threads: all methods may be called from any thread at once.

    >>> import memdb
    >>> db = memdb.open(None)
    >>> notes = db.collection("notes", indexes=[memdb.HashIndex("author")])
    >>> notes.indexes.add(memdb.SortedIndex("written"))
    >>> list(notes.indexes)
    ['author', 'written']
    >>> notes.indexes.drop("author")
    >>> db.close()
    """

    def __init__(self, store: Insertion) -> None:
        self._store = store

    def __getitem__(self, name: str) -> IndexDeclaration:
        """Return the declaration of an index.

        Raises:
            KeyError: There is none of this name.
        """
        found = self._store.indexes.find(name)
        if found is None:
            raise KeyError(name)
        return found.declaration

    def __iter__(self) -> Iterator[str]:
        return iter([bound.name for bound in self._store.indexes])

    def __len__(self) -> int:
        return len(self._store.indexes)

    def __repr__(self) -> str:
        return f"<Indexes of {self._store.name!r}: {', '.join(self) or 'none'}>"

    def add(self, index: IndexDeclaration) -> None:
        """Add an index and build it at once.

        Raises:
            ConfigError: It is none, there is one of its name, or its fields are not the class's.
            DuplicateKeyError: It is unique and two records have the same key; it is not added.
            IndexKeyError: The key of a record can't be one; it is not added.
            ClosedError: The database is closed.

        Cost: O(records), each of which is read once.
        """
        store = self._store
        store.engine.log.raise_if_closed()
        if not isinstance(index, IndexDeclaration):
            raise ConfigError(
                f"{store.name}: {shown(index)} is no index. Declare one with HashIndex,"
                " SortedIndex, SetIndex or ColumnIndex."
            )
        store.indexes.add(index.bind(store.shape, store.name))
        self._renew_insert()

    def drop(self, name: str) -> None:
        """Remove an index.

        Raises:
            ConfigError: There is none of this name.
        """
        self._refuse_unknown(name)
        self._store.indexes.drop(name)
        self._renew_insert()

    def rename(self, old: str, new: str) -> None:
        """Give an index another name; it is not built again.

        Raises:
            ConfigError: There is none of the old name, or one of the new name.
        """
        self._refuse_unknown(old)
        if new in self:
            raise ConfigError(f"{self._store.name}: has an index {new!r} already. Drop it first.")
        store = self._store
        declaration = self[old].renamed(new)
        store.indexes.rename(old, declaration.bind(store.shape, store.name))
        self._renew_insert()

    def _refuse_unknown(self, name: str) -> None:
        if name not in self:
            raise ConfigError(
                f"{self._store.name}: has no index {name!r}.{nearest(name, list(self))}"
            )

    def _renew_insert(self) -> None:
        store = self._store
        if store.on_numbers is not None and store.collection_id:
            store.on_numbers()
