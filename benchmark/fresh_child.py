"""What runs inside the fresh processes of ``benchmark.fresh``; prints one JSON object."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import orjson

import memdb
from benchmark.ours import SECRET, MemdbStore
from benchmark.peers.floor import generated_copy
from benchmark.records import (
    Item,
    ItemStruct,
    KeyedItem,
    KeyedStruct,
    key_of,
    make_distinct,
    make_records,
)
from benchmark.stores import Store

Answer = dict[str, float]


def build(folder: str, form: str, count: str, how: str) -> Answer:
    """Write ``count`` records; close, or answer and be killed."""
    Path(folder).mkdir()
    store = _make(form, Path(folder))
    records = make_records(_record_class(form), int(count))
    if how == "killed" and form not in ("sqlite3", "lmdb"):
        for record in records:
            store.insert(record)
    else:
        store.insert_many(records)
    if how == "killed":
        os.write(1, b"{}")
        os.kill(os.getpid(), signal.SIGKILL)
    store.close()
    return {}


def open_and_get(folder: str, form: str, identity: str) -> Answer:
    """Time from opening to the first record in hand, modules imported before."""
    wanted = key_of(int(identity)) if form.startswith("key-") else int(identity)
    if form.startswith("encrypted-"):
        MemdbStore(None, Item, "binary", key=SECRET).close()
    begin = perf_counter_ns()
    store = _make(form, Path(folder))
    record = store.get(wanted)
    elapsed = perf_counter_ns() - begin
    assert record is not None
    store.close()
    return {"ns": elapsed}


def memory_insert(path: str, cache: str, count: str) -> Answer:
    """Grow from an open empty database by single inserts."""
    distinct = make_distinct(Item)
    store = MemdbStore(Path(path), Item, "binary", cache=cache)
    before = _footprint()
    insert = store.insert
    for number in range(int(count)):
        insert(distinct[number % len(distinct)])
    grown = _growth(before, int(count))
    store.close()
    return grown | {"file": Path(path).stat().st_size / int(count)}


def memory_reopen(path: str, cache: str, count: str) -> Answer:
    """Grow from an open empty database by opening a full one, and by reading all of it."""
    empty = MemdbStore(None, Item, "binary", cache=cache)
    before = _footprint()
    store = MemdbStore(Path(path), Item, "binary", cache=cache)
    store.get(1)
    untouched = _growth(before, int(count))
    for identity in range(1, int(count) + 1):
        store.get(identity)
    read = _growth(before, int(count))
    store.close()
    empty.close()
    return {f"{key}, untouched": value for key, value in untouched.items()} | {
        f"{key}, all read": value for key, value in read.items()
    }


def memory_dict(count: str) -> Answer:
    """Grow by copies in a bare dict."""
    distinct, copy = make_distinct(Item), generated_copy(Item)
    before = _footprint()
    kept = {number: copy(distinct[number % len(distinct)]) for number in range(int(count))}
    grown = _growth(before, int(count))
    assert len(kept) == int(count)
    return grown


def _make(form: str, folder: Path) -> Store:
    is_keyed = form.startswith("key-")
    name = form.removeprefix("key-")
    if name == "sqlite3":
        from benchmark.peers.sqlite import KeyedSqliteStore, SqliteStore

        return (KeyedSqliteStore if is_keyed else SqliteStore)(folder / "items.sqlite")
    if name == "lmdb":
        from benchmark.peers.lightning import KeyedLmdbStore, LmdbStore

        return (KeyedLmdbStore if is_keyed else LmdbStore)(folder / "items.lmdb")
    settings = {"key": SECRET} if name.startswith("encrypted-") else {}
    serializer = name.removeprefix("encrypted-").removeprefix("struct-")
    return MemdbStore(folder / "items.memdb", _record_class(form), serializer, **settings)


def _record_class(form: str) -> type[Any]:
    is_struct = form.endswith(("lmdb", "struct-msgpack"))
    if form.startswith("key-"):
        return KeyedStruct if is_struct else KeyedItem
    return ItemStruct if is_struct else Item


def _footprint() -> dict[str, int]:
    """Return resident and private bytes; a mapping of the file that is resident is in both."""
    gc.collect()
    found = {"resident": 0, "private": 0}
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines()[1:]:
        name, kib, *_ = line.split()
        if name == "Rss:":
            found["resident"] = int(kib) * 1024
        elif name in ("Private_Clean:", "Private_Dirty:"):
            found["private"] += int(kib) * 1024
    return found


def _growth(before: dict[str, int], count: int) -> Answer:
    return {name: (value - before[name]) / count for name, value in _footprint().items()}


_COMMANDS: dict[str, Callable[..., Answer]] = {
    "build": build,
    "open": open_and_get,
    "memory-insert": memory_insert,
    "memory-reopen": memory_reopen,
    "memory-dict": memory_dict,
}

if __name__ == "__main__":
    assert memdb.__name__
    answer = _COMMANDS[sys.argv[1]](*sys.argv[2:])
    sys.stdout.buffer.write(orjson.dumps(answer))
