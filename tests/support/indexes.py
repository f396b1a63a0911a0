"""What is inside of the indexes of a collection, compared with what its records say."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import memdb
from memdb.indexes import ABSENT
from tests.support import naive
from tests.support.naive import Row
from tests.support.questions import Declared


def check_contents(
    collection: memdb.Collection[Any], rows: Iterable[Row], indexes: Iterable[Declared]
) -> None:
    """Check that each index holds the keys of each record, and nothing else.

    Args:
        collection: Outside of a transaction.
        rows: All of its records.
        indexes: Those that it has.
    """
    store: Any = collection._store
    store.indexes.build_uniques()
    view = store.indexes.catch_up(list(collection.indexes))
    numbers = [
        (identity if store.key is None else store.find_number(identity), record)
        for identity, record in rows
    ]
    for index in indexes:
        if index.kind == "column":
            # It has no keys; its sums are compared.
            continue
        entries = (view.uniques if index.kind == "unique" else view.entries)[index.name]
        expected = {number: _keys(index, record) for number, record in numbers}
        expected = {number: keys for number, keys in expected.items() if keys}
        found = _found(entries)

        assert sorted(expected) == sorted(found), index
        for number, keys in expected.items():
            ours, theirs = (sorted(each, key=naive.order_key) for each in (keys, found[number]))
            # Python holds both hours of a change to winter time equal in one zone.
            are_same = naive.compare(ours, theirs) == 0 or ours == theirs
            assert are_same, f"{index}: {number} is under {theirs}, not {ours}"


def _found(entries: Any) -> dict[int, list[Any]]:
    """Return what is in an index: number -> keys."""
    found: dict[int, list[Any]] = defaultdict(list)
    for key, numbers in entries.items():
        for number in [numbers] if isinstance(numbers, int) else numbers:
            found[number].append(_known(key))
    return found


def _keys(index: Declared, record: Any) -> list[Any]:
    """Return the keys that a record must have in an index."""
    if not index.holds(record):
        return []
    parts = index.key_of(record)
    if index.kind == "set":
        return naive.distinct(parts[0]) if isinstance(parts[0], list) else []
    if index.kind == "unique" and any(part is None or part is naive.ABSENT for part in parts):
        return []
    if index.kind == "hash" and any(part != part for part in parts):
        return []
    return [parts[0] if len(parts) == 1 else parts]


def _known(key: Any) -> Any:
    """Return a key with the absent value of the tests."""
    if isinstance(key, tuple):
        return tuple(map(_known, key))
    return naive.ABSENT if key is ABSENT else key
