"""The 8-field record that every workload uses, from a seeded generator, in two forms.

Beside it the same record with a natural key: a text in the place of the assigned identity.
"""

from __future__ import annotations

import hashlib
import random
import string
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec

DISTINCT = 10_000
SEED = 20260101
_EPOCH = datetime(2020, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class Item:
    """The record as a slotted dataclass."""

    id: int
    name: str
    category: str
    created_at: datetime
    updated_at: datetime
    amount: Decimal
    count: int
    is_active: bool


class ItemStruct(msgspec.Struct):
    """The same record as a ``msgspec.Struct``."""

    id: int
    name: str
    category: str
    created_at: datetime
    updated_at: datetime
    amount: Decimal
    count: int
    is_active: bool


@dataclass(slots=True)
class KeyedItem:
    """The record as a slotted dataclass with a natural key."""

    code: str
    name: str
    category: str
    created_at: datetime
    updated_at: datetime
    amount: Decimal
    count: int
    is_active: bool


class KeyedStruct(msgspec.Struct):
    """The record as a ``msgspec.Struct`` with a natural key."""

    code: str
    name: str
    category: str
    created_at: datetime
    updated_at: datetime
    amount: Decimal
    count: int
    is_active: bool


KEY = "code"

# With a natural key -> without.
_WITHOUT_KEY: dict[type[Any], type[Any]] = {KeyedItem: Item, KeyedStruct: ItemStruct}


def make_distinct(cls: type[Any], how_many: int = DISTINCT, seed: int = SEED) -> list[Any]:
    """Return ``how_many`` different records of ``cls``, each with ``id=0``."""
    dice = random.Random(seed)
    made = []
    for _ in range(how_many):
        created = _EPOCH + timedelta(milliseconds=dice.randrange(5 * 365 * 86_400_000))
        made.append(
            cls(
                id=0,
                name="".join(dice.choices(string.ascii_lowercase, k=16)),
                category=f"cat{dice.randrange(1000):04d}",
                created_at=created,
                updated_at=created + timedelta(milliseconds=dice.randrange(86_400_000)),
                amount=Decimal(dice.randrange(1_000_000)).scaleb(-2),
                count=dice.randrange(500),
                is_active=dice.random() < 0.5,
            )
        )
    return made


def repeat(distinct: list[Any], count: int) -> list[Any]:
    """Return a list of ``count`` references, the distinct records over and over."""
    times, rest = divmod(count, len(distinct))
    return distinct * times + distinct[:rest]


def shuffled_ids(count: int, how_many: int) -> list[int]:
    """Return ``how_many`` identities from 1 to ``count`` in a seeded random order."""
    dice = random.Random(SEED)
    ids = list(range(1, count + 1))
    dice.shuffle(ids)
    return repeat(ids, how_many)


def key_of(number: int) -> str:
    """Return the natural key of a record: 20 characters, different for each, in no order."""
    return hashlib.blake2b(number.to_bytes(8, "big"), digest_size=10).hexdigest()


def make_records(cls: type[Any], count: int) -> list[Any]:
    """Return ``count`` records; with a natural key as many objects, the other values over again."""
    distinct = make_distinct(_WITHOUT_KEY.get(cls, cls), min(count, DISTINCT))
    if cls not in _WITHOUT_KEY:
        return repeat(distinct, count)
    made = []
    for number, record in enumerate(repeat(distinct, count), 1):
        values = [getattr(record, name) for name in cls.__match_args__[1:]]
        made.append(cls(key_of(number), *values))
    return made


def shuffled_identities(cls: type[Any], count: int, how_many: int) -> list[Any]:
    """Return ``how_many`` identities of `make_records` in a seeded random order.

    Keys are other objects than those in the records, as those that a program looks up are.
    """
    ids = shuffled_ids(count, how_many)
    return [key_of(number) for number in ids] if cls in _WITHOUT_KEY else ids
