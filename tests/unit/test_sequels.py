"""What comes behind a place in a sorted index, and how it is read."""

from __future__ import annotations

import math
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest

from memdb.indexes import (
    ABSENT,
    Bounds,
    Reversed,
    Sequel,
    SortedEntries,
    bounds,
    reach,
    sequel,
    sort_key,
)
from memdb.indexes._sequel import EVERYTHING

MIXED = [ABSENT, None, 1, 2, 2.5, True, math.nan, "a", "b", b"x", (1,), [2], {}]
NUMBERS = [1, 2, 3, 5]
OPTIONAL = [ABSENT, None, None, 1.5, math.nan, 3.0]
LIMITS = [EVERYTHING, bounds(">", 1), bounds("<=", 2), Bounds((5,), (7,), False, True)]


def filled(
    values: list[Any], directions: tuple[int, ...], seed: int, *, is_changed: bool
) -> tuple[SortedEntries, dict[int, tuple[Any, ...]]]:
    """Return entries of random keys, and the keys by number."""
    random = Random(seed)

    def key() -> tuple[Any, ...]:
        return tuple([random.choice(values) for _ in directions])

    keys = {number: key() for number in random.sample(range(1, 200), 60)}
    given = [each if len(directions) > 1 else each[0] for each in keys.values()]
    entries = SortedEntries.build(given, list(keys), directions)
    for number in random.sample(range(1, 200), 40) if is_changed else ():
        if number % 3:
            keys[number] = key()
            entries.set(number, keys[number] if len(directions) > 1 else keys[number][0])
        elif keys.pop(number, None) is not None:
            entries.remove(number)
    return entries, keys


def in_order(keys: dict[int, tuple[Any, ...]], falling: tuple[bool, ...]) -> list[int]:
    """Return the numbers in the order of their keys, equal ones rising."""

    def key(number: int) -> Any:
        own = map(sort_key, keys[number])
        return [Reversed(k) if f else k for k, f in zip(own, falling, strict=True)]

    return sorted(sorted(keys), key=key)


def lies_in(limits: Any, value: Any) -> bool:
    """Whether a value is between limits."""
    key = sort_key(value)
    is_above = key > limits.low or (key == limits.low and not limits.is_low_open)
    return is_above and (key < limits.high or (key == limits.high and not limits.is_high_open))


def check(found: Any, expected: list[int], *, is_reversed: bool) -> None:
    """Check all that a sequel says of its numbers."""
    limit = len(expected) // 2

    assert len(expected) == found.count == len(found)
    assert expected == found.numbers(is_reversed)
    assert expected[:limit] == found.numbers(is_reversed, limit)
    assert [] == found.numbers(is_reversed, 0)
    assert expected == found.numbers(is_reversed, len(expected) + 5)
    assert sorted(expected) == sorted(found.numbers(not is_reversed))
    assert found.numbers() == found.array().tolist()
    assert found.numbers() == [n for (n,) in found.rows(lambda some: [(n,) for n in some])]


@pytest.mark.parametrize("is_changed", [False, True])
@pytest.mark.parametrize("values", [MIXED, NUMBERS, OPTIONAL], ids=["mixed", "ints", "floats"])
@pytest.mark.parametrize("directions", [(1,), (-1,), (1, 1), (1, -1), (-1, -1, 1)], ids=str)
def test_sequel(directions: tuple[int, ...], values: list[Any], is_changed: bool) -> None:
    """It has what comes behind, in the order of the index or the opposite one, within limits."""
    for seed, is_reversed, limits in product(range(3), (False, True), LIMITS):
        assert limits is not None
        entries, keys = filled(values, directions, seed, is_changed=is_changed)
        falling = tuple([(direction < 0) is not is_reversed for direction in directions])
        order = in_order(keys, falling)
        for place in range(0, len(order), 7):
            number = order[place]
            found = sequel(
                entries, (), list(map(sort_key, keys[number])), falling, number, limits,
                is_reversed=is_reversed,
            )  # fmt: skip
            behind = [n for n in order[place + 1 :] if lies_in(limits, keys[n][0])]

            check(found, behind, is_reversed=is_reversed)


@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize("directions", [(1, 1), (1, -1), (-1, 1, -1)], ids=str)
def test_prefix(directions: tuple[int, ...], is_reversed: bool) -> None:
    """Behind values that the first fields equal; nothing equals a NaN."""
    entries, keys = filled(OPTIONAL, directions, 1, is_changed=True)
    falling = tuple([(direction < 0) is not is_reversed for direction in directions[1:]])
    for first in (1.5, None, math.nan):
        own = {n: key[1:] for n, key in keys.items() if key[0] is first or key[0] == first}
        if first is math.nan:
            own = {}
        order = in_order(own, falling)
        for place, number in enumerate(order):
            place_keys = list(map(sort_key, own[number]))
            found = sequel(
                entries, [first], place_keys, falling, number, EVERYTHING, is_reversed=is_reversed
            )

            check(found, order[place + 1 :], is_reversed=is_reversed)
        key = [sort_key(3.0)] * len(falling)
        found = sequel(entries, [first], key, falling, 0, EVERYTHING, is_reversed=is_reversed)
        assert found.count <= len(own)


@pytest.mark.parametrize("is_falling", [False, True])
@pytest.mark.parametrize("direction", [1, -1])
def test_reach(direction: int, is_falling: bool) -> None:
    """All whose first field is not before a key, in whatever direction the index has it."""
    entries, keys = filled(MIXED, (direction, 1), 5, is_changed=True)
    for value, limits in product(MIXED, LIMITS):
        assert limits is not None
        key = sort_key(value)
        found = reach(entries, (), key, limits, is_falling=is_falling)
        expected = {
            number
            for number, (own, _) in keys.items()
            if lies_in(limits, own)
            and (sort_key(own) <= key if is_falling else sort_key(own) >= key)
        }

        assert expected == set(found.numbers())


def test_large_numbers() -> None:
    """Numbers of natural keys need all 64 bits, and small ones beside them none."""
    large = 2**62 + 1
    entries = SortedEntries.build([1, 1, 2], [3, large, 5])
    found = sequel(entries, (), [sort_key(1)], [False], 3, EVERYTHING, is_reversed=False)

    assert [large, 5] == found.numbers() == found.array().tolist()
    empty = Sequel(np.empty(0, "<u4"), [], is_reversed=False)
    assert ([], 0, []) == (empty.numbers(), empty.count, empty.array().tolist())
