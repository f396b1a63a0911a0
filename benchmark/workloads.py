"""The named workloads, kept for ever: which contenders meet in each, and how often.

Each runs in a process of its own: ``python -m benchmark.workloads NAME COUNT ROUNDS`` prints its
series as JSON.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from benchmark import fresh, readers
from benchmark.codecs import codec_contenders
from benchmark.group_commit import thread_contenders
from benchmark.migration import migration_contenders
from benchmark.ours import ENCRYPTED, FORMS, KEYED_FORMS, SECRET, open_store
from benchmark.peers.floor import DictContender, SyncLoopContender
from benchmark.queries import concurrent, upkeep
from benchmark.queries import rounds as query_rounds
from benchmark.queries import rounds_joins as join_rounds
from benchmark.records import Item, ItemStruct, KeyedItem, KeyedStruct
from benchmark.stores import Store, StoreContender
from benchmark.timing import Contender, Series, run_rounds

# Each synced operation waits for the disk: a few hundred tell as much as many.
_SYNCED_COUNT = 300
_HOT_COUNT = 5_000


def run_workload(name: str, count: int, rounds: int) -> list[Series]:
    """Run one workload in this process."""
    if name in WHOLE:
        return WHOLE[name](count, rounds)
    return run_rounds(name, contenders(name, count), rounds)


def contenders(name: str, count: int) -> list[Contender]:
    """Return who takes part in a timed workload: ours first, then the peers, then the floor."""
    return _WORKLOADS[name](count)


def workload_names() -> list[str]:
    """Return the names of all workloads, in the order in which they run."""
    return [*_WORKLOADS, *WHOLE]


def _ours(
    count: int, *, suffix: str = "", is_keyed: bool = False, **options: Any
) -> list[Contender]:
    made: list[Contender] = []
    for form, (cls, serializer) in (KEYED_FORMS if is_keyed else FORMS).items():
        settings = options.get("settings", {})
        make = partial(open_store, cls=cls, serializer=serializer, **settings)
        made.append(
            StoreContender(
                form + suffix,
                make,
                cls,
                count=count,
                operations=options.get("operations"),
                has_gc_rounds=options.get("has_gc_rounds", True),
                workload=options.get("workload"),
            )
        )
    return made


def _sqlite(
    count: int, name: str = "sqlite3", operations: int | None = None, **options: Any
) -> list[Contender]:
    from benchmark.peers.sqlite import SqliteStore

    def make(directory: Path) -> Store:
        return SqliteStore(directory / "items.sqlite", **options)

    return [StoreContender(name, make, Item, count=count, operations=operations)]


def _lmdb(
    count: int, name: str = "lmdb", operations: int | None = None, **options: Any
) -> list[Contender]:
    try:
        from benchmark.peers.lightning import LmdbStore
    except ImportError:
        print("lmdb is not installed: its rows are left out", file=sys.stderr)
        return []

    def make(directory: Path) -> Store:
        return LmdbStore(directory / "items.lmdb", **options)

    return [StoreContender(name, make, ItemStruct, count=count, operations=operations)]


def _beside_peers(count: int) -> list[Contender]:
    return [*_ours(count), *_sqlite(count), *_lmdb(count)]


def _insert_many(count: int) -> list[Contender]:
    single = _ours(count, suffix=", insert one by one", workload="insert")
    return [*_ours(count), *single, *_sqlite(count), *_lmdb(count)]


def _beside_encrypted(workload: str, count: int) -> list[Contender]:
    return [
        *_ours(count, workload=workload),
        *_ours(count, suffix=ENCRYPTED, workload=workload, settings={"key": SECRET}),
    ]


def _get_encrypted(count: int) -> list[Contender]:
    """From the file, where it is decrypted; what the cache has is as quick as ever."""
    plain: dict[str, Any] = {"cache": "none"}
    settings = {"": plain, ENCRYPTED: {**plain, "key": SECRET}}
    return [
        each
        for suffix, chosen in settings.items()
        for each in _ours(count, suffix=suffix, settings=chosen, workload="get")
    ]


def _get(count: int, operations: int | None = None) -> list[Contender]:
    uncached: dict[str, Any] = {
        "settings": {"cache": "none"},
        "has_gc_rounds": False,
        "operations": operations,
    }
    return [
        *_ours(count, operations=operations),
        *_ours(count, suffix=', cache="none"', **uncached),
        *_sqlite(count, "sqlite3, record built", operations),
        *_sqlite(count, "sqlite3, row only", operations, rows=True),
        *_lmdb(count, operations=operations),
        DictContender("dict, generated copy", Item, count, operations),
        DictContender("dict, Struct copy", ItemStruct, count, operations),
    ]


def _get_hot(count: int) -> list[Contender]:
    """Few enough records for the processor's caches: what the code costs, without the memory."""
    return _get(min(count, _HOT_COUNT), count)


def _keyed_sqlite(
    count: int, name: str = "sqlite3", operations: int | None = None, **options: Any
) -> list[Contender]:
    from benchmark.peers.sqlite import KeyedSqliteStore

    def make(directory: Path) -> Store:
        return KeyedSqliteStore(directory / "items.sqlite", **options)

    return [StoreContender(name, make, KeyedItem, count=count, operations=operations)]


def _keyed_lmdb(count: int, operations: int | None = None) -> list[Contender]:
    try:
        from benchmark.peers.lightning import KeyedLmdbStore
    except ImportError:
        print("lmdb is not installed: its rows are left out", file=sys.stderr)
        return []

    def make(directory: Path) -> Store:
        return KeyedLmdbStore(directory / "items.lmdb")

    return [StoreContender("lmdb", make, KeyedStruct, count=count, operations=operations)]


def _keyed_beside_peers(count: int) -> list[Contender]:
    return [*_ours(count, is_keyed=True), *_keyed_sqlite(count), *_keyed_lmdb(count)]


def _key_insert(count: int) -> list[Contender]:
    assigned = _ours(count, suffix=", assigned identity", workload="insert")
    return [*_keyed_beside_peers(count), *assigned]


def _key_get(count: int, operations: int | None = None) -> list[Contender]:
    return [
        *_ours(count, is_keyed=True, operations=operations),
        *_keyed_sqlite(count, "sqlite3, record built", operations),
        *_keyed_sqlite(count, "sqlite3, row only", operations, rows=True),
        *_keyed_lmdb(count, operations),
        DictContender("dict, generated copy", KeyedItem, count, operations),
        DictContender("dict, Struct copy", KeyedStruct, count, operations),
    ]


def _key_get_hot(count: int) -> list[Contender]:
    """As `_get_hot`."""
    return _key_get(min(count, _HOT_COUNT), count)


def _synced(count: int) -> list[Contender]:
    count = min(count, _SYNCED_COUNT)
    return [
        *_ours(count, settings={"durability": "synced"}, has_gc_rounds=False),
        *_sqlite(count, "sqlite3, FULL", synchronous="FULL"),
        *_lmdb(count, "lmdb, sync", sync=True),
        SyncLoopContender("pwrite + fdatasync", count, reserved=False),
        SyncLoopContender("pwrite + fdatasync, reserved", count, reserved=True),
    ]


_WORKLOADS: dict[str, Callable[[int], list[Contender]]] = {
    "insert": _beside_peers,
    "insert_struct_msgpack": lambda count: [_ours(count)[1], *_sqlite(count), *_lmdb(count)],
    "insert_dataclass_binary": lambda count: [_ours(count)[0], *_sqlite(count), *_lmdb(count)],
    "insert_many": _insert_many,
    "get": _get,
    "get_hot": _get_hot,
    "update": _beside_peers,
    "delete": _beside_peers,
    "synced": _synced,
    "synced_threads": thread_contenders,
    "key_insert": _key_insert,
    "key_insert_many": _keyed_beside_peers,
    "key_get": _key_get,
    "key_get_hot": _key_get_hot,
    "key_update": _keyed_beside_peers,
    "key_delete": _keyed_beside_peers,
    "encrypted_insert": partial(_beside_encrypted, "insert"),
    "encrypted_insert_many": partial(_beside_encrypted, "insert_many"),
    "encrypted_update": partial(_beside_encrypted, "update"),
    "encrypted_get": _get_encrypted,
    "codec": codec_contenders,
    "migrate": migration_contenders,
}

# These arrange their rounds themselves.
WHOLE: dict[str, Callable[[int, int], list[Series]]] = {
    **fresh.WORKLOADS,
    **query_rounds.WORKLOADS,
    **join_rounds.WORKLOADS,
    **upkeep.WORKLOADS,
    **concurrent.WORKLOADS,
    **readers.WORKLOADS,
}


if __name__ == "__main__":
    found = run_workload(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    sys.stdout.buffer.write(orjson.dumps([each.to_dict() for each in found]))
