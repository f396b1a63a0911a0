"""The tables that the queries run over: the same rows in every run, on every machine.

They come from a .NET cache's benchmarks, so the random numbers are those of .NET's ``Random``.
Two things differ from the original. Identities begin at 1: ``id`` is ``i + 1`` and a field that
names another record is one more too; every other field is computed from ``i``. And the cache's
time of writing is a field, ``updated``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

ITEM_COUNT = 100_000
RECORD_COUNT = 10_000
TIME_BASE = 1_700_000_000_000
_HOUR_MS = 3_600_000
_SEED = 1234
_INT_MAX = 2**31 - 1


class NetRandom:
    """.NET's ``Random(seed)``: the subtractive generator that it has for a given seed.

    >>> random = NetRandom(0)
    >>> random.sample(), random.sample()
    (1559595546, 1755192844)
    """

    def __init__(self, seed: int) -> None:
        state = [0] * 56
        last = 161_803_398 - abs(seed)
        state[55] = last
        following = 1
        for number in range(1, 55):
            place = 21 * number % 55
            state[place] = following
            following = last - following
            if following < 0:
                following += _INT_MAX
            last = state[place]
        for _ in range(4):
            for place in range(1, 56):
                state[place] -= state[1 + (place + 30) % 55]
                if state[place] < 0:
                    state[place] += _INT_MAX
        self._state = state
        self._one = 0
        self._other = 21

    def sample(self) -> int:
        """Return the next number, from 0 to 2**31 - 2: ``Next()``."""
        self._one = self._one % 55 + 1
        self._other = self._other % 55 + 1
        number = self._state[self._one] - self._state[self._other]
        if number == _INT_MAX:
            number -= 1
        if number < 0:
            number += _INT_MAX
        self._state[self._one] = number
        return number

    def below(self, limit: int) -> int:
        """Return the next number from 0 to ``limit - 1``: ``Next(limit)``."""
        # The product in .NET's order, which decides how it is rounded.
        return int(self.sample() * (1.0 / _INT_MAX) * limit)


@dataclass(frozen=True, slots=True)
class Item:
    """A row of the main table; immutable, so that results are shared."""

    id: int
    code: int
    group: int
    tier: int
    band: int
    lane: int
    flag: bool
    score: int
    updated: int


@dataclass(slots=True)
class MutableItem:
    """The same, mutable, so that every result is a copy."""

    id: int
    code: int
    group: int
    tier: int
    band: int
    lane: int
    flag: bool
    score: int
    updated: int


@dataclass(frozen=True, slots=True)
class Record:
    """A row of the table with a time window."""

    id: int
    ts: int
    key_a: int
    key_b: int
    customer_id: int
    product_id: int
    score: int
    updated: int


@dataclass(slots=True)
class MutableRecord:
    """The same, mutable."""

    id: int
    ts: int
    key_a: int
    key_b: int
    customer_id: int
    product_id: int
    score: int
    updated: int


@dataclass(frozen=True, slots=True)
class Scored:
    """A row of the table for sorted paging."""

    id: int
    score: int


@dataclass(frozen=True, slots=True)
class Label:
    """A row of the table that is joined to sorted pages."""

    id: int
    label: str


@dataclass(frozen=True, slots=True)
class Priced:
    """A row of the table with compound indexes; ``category`` of 10, ``segment`` of 100."""

    id: int
    category: int
    segment: int
    price: int


def make_items(cls: type[Any] = Item, count: int = ITEM_COUNT) -> list[Any]:
    """Return the first ``count`` items, in order of identity."""
    random = NetRandom(_SEED)
    return [cls(*_item(i), random.below(_INT_MAX), 1_000_000 + i) for i in range(count)]


def make_records(cls: type[Any] = Record, count: int = RECORD_COUNT) -> list[Any]:
    """Return the first ``count`` records, in order of identity."""
    random = NetRandom(_SEED)
    for _ in range(ITEM_COUNT):  # One generator for both tables: the items' scores come first.
        random.sample()
    return [_record(cls, i, random.below(1 << 20)) for i in range(count)]


def make_scored(count: int) -> list[Scored]:
    """Return ``count`` rows with scores in no order."""
    random = NetRandom(_SEED)
    return [Scored(i + 1, random.below(_INT_MAX)) for i in range(count)]


def make_labels(count: int) -> list[Label]:
    """Return the labels of so many scored rows: none is missing."""
    return [Label(i + 1, "r") for i in range(count)]


def make_priced(count: int) -> list[Priced]:
    """Return ``count`` rows with prices from 1 to 999,999."""
    random = NetRandom(42)
    return [Priced(i + 1, i % 10, i % 100, 1 + random.below(999_999)) for i in range(count)]


def values_of(record: Any) -> tuple[Any, ...]:
    """Return the values of all fields, in order; of a record of any of these classes."""
    return tuple(getattr(record, name) for name in record.__dataclass_fields__)


def item_stream(start: int) -> Iterator[Item]:
    """Give items without end and without an identity, from ``i = start`` on."""
    for i in itertools.count(start):
        yield Item(0, *_item(i)[1:], i, 1_000_000 + i)


def _item(i: int) -> tuple[int, int, int, int, int, int, bool]:
    band = i % 100 + 100 * (i // 300 % 3)
    lane = i % 100 + 100 * (i // 300 % 9)
    return i + 1, 1000 + i, i % 100, i % 1000, band, lane, i % 3 == 0


def _record(cls: type[Any], i: int, score: int) -> Any:
    # A shuffle of an hour in steps of 360 ms: no time twice.
    ts = TIME_BASE + (i * 7919 % 10_000) * _HOUR_MS // 10_000
    key_a = 0 if i % 3 == 0 else 1 + i % 19
    key_b = 0 if i % 5 == 0 else 1 + i % 49
    return cls(i + 1, ts, key_a, key_b, i % 2000 + 1, i % 500 + 1, score, ts)
