"""The floor of encoding and decoding: the libraries by themselves, no value checked."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import Any

import msgspec
import orjson

from benchmark.records import Item, ItemStruct

Encode = Callable[[Any], bytes]
Decode = Callable[[bytes], Any]

# Of JSON the two datetimes and the Decimal are texts, which are to be converted.


def _dump(record: Item) -> bytes:
    return orjson.dumps(record, default=str)


def _load(data: bytes) -> Item:
    row = orjson.loads(data)
    return Item(
        row["id"],
        row["name"],
        row["category"],
        datetime.fromisoformat(row["created_at"]),
        datetime.fromisoformat(row["updated_at"]),
        Decimal(row["amount"]),
        row["count"],
        row["is_active"],
    )


def _pickled(record: Any) -> bytes:
    return pickle.dumps(record, protocol=pickle.HIGHEST_PROTOCOL)


#: name in the tables -> (class, encode, decode)
FLOORS: dict[str, tuple[type[Any], Encode, Decode]] = {
    "bare msgspec msgpack, Struct": (
        ItemStruct,
        msgspec.msgpack.Encoder().encode,
        msgspec.msgpack.Decoder(ItemStruct).decode,
    ),
    "bare orjson, dataclass": (Item, _dump, _load),
    "bare pickle, dataclass": (Item, _pickled, pickle.loads),
    "bare pickle, Struct": (ItemStruct, _pickled, pickle.loads),
}
