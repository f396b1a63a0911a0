"""The 8-field record that every workload uses, from a seeded generator, in two forms."""

from __future__ import annotations

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
