"""Natural keys as bytes, and the index of their numbers against a dict."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memdb.errors import IdentityError
from memdb.indexes import HashedIdentities, encode_key, numbers_of
from memdb.indexes import _hashed as hashed
from memdb.indexes import _keys as keys
from memdb.indexes._identity import MAX_IDENTITY

ATOMS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.text(st.characters(exclude_categories=())),
    st.binary(),
    st.dates(),
    st.uuids(),
)
KEYS = st.recursive(ATOMS, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=4)

LOOKALIKES = [
    1, "1", b"1", True, (1,), ("1",), ((1,),), (1, 1), 0, "", b"", False, None, (), (None,), ("",),
    "None", 11, ("1", "1"), ("11",), ("1,1",), (b"", ""), ("", b""),
    date(2020, 1, 1), "2020-01-01", datetime(2020, 1, 1), datetime(2020, 1, 1, tzinfo=UTC),
    datetime(2020, 1, 1, tzinfo=ZoneInfo("Europe/Paris")),
    datetime(2020, 1, 1, tzinfo=timezone(timedelta(hours=1))),
    datetime(2020, 1, 1, fold=1),
    UUID(int=1), UUID(int=1).bytes, str(UUID(int=1)), 2**63, -1, 2**200, "\ud800", "\x00",
]  # fmt: skip


def test_keys_that_look_alike_stay_apart() -> None:
    """No two of these have the same canonical form."""
    encoded = [encode_key(key) for key in LOOKALIKES]

    assert len(encoded) == len(set(encoded))


@given(KEYS, KEYS)
def test_canonical_forms_are_equal_for_equal_keys_only(one: Any, other: Any) -> None:
    """Equality of the forms is equality in value and type, all the way down."""
    same = typed(one) == typed(other)

    assert (encode_key(one) == encode_key(other)) is same


def typed(key: Any) -> Any:
    """Return a key with its types, so that == is exact."""
    return type(key), tuple(map(typed, key)) if isinstance(key, tuple) else key


class Text(str):
    """A subclass, whose own part would be lost."""


class Odd(tzinfo):
    """A zone that nothing can bring back."""


@pytest.mark.parametrize(
    ("key", "part"),
    [
        (1.0, "1.0 is a float"),
        (float("nan"), "nan is a float"),
        ((1, 2.0), "2.0 is a float"),
        ([], "type list"),
        (Text("a"), "Text"),
        (bytearray(), "type bytearray"),
        (datetime(2020, 1, 1, tzinfo=Odd()), "tzinfo of type Odd"),
    ],
)
def test_what_can_not_be_a_key_is_refused_by_its_type(key: Any, part: str) -> None:
    """The message names the value's type."""
    with pytest.raises(IdentityError, match=part):
        encode_key(key)


def test_a_key_that_is_nested_too_deep_is_refused() -> None:
    """No recursion error comes out."""
    key: Any = ()
    for _ in range(100_000):
        key = (key,)

    with pytest.raises(IdentityError, match="too deep"):
        encode_key(key)


def test_numbers_are_part_of_the_format() -> None:
    """A file's numbers are found again by every later memdb."""
    assert (2461270601740616221,) == tuple(numbers_of(*encode_key("a@b.c"), 7, is_displaced=False))
    assert 16 == len(set(numbers_of(*encode_key("a@b.c"), 7, is_displaced=True)))


def test_a_number_is_never_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    """Zero means that there is no record."""
    monkeypatch.setattr(keys, "NUMBER_MASK", 1)

    assert {1} == {
        n for key in range(50) for n in numbers_of(*encode_key(key), 0, is_displaced=True)
    }


NUMBERS = st.one_of(st.integers(1, 40), st.integers(1, MAX_IDENTITY))
CHANGES = st.lists(st.tuples(NUMBERS, st.integers(0, 2**32 - 1)), max_size=60)


@settings(max_examples=200)
@given(before=CHANGES, after=CHANGES)
def test_the_index_is_a_dict(before: Any, after: Any) -> None:
    """Built from versions or changed since, also when it is full, it finds what a dict finds."""
    least, hashed._LEAST_BITS = hashed._LEAST_BITS, 4
    overhang, hashed._OVERHANG = hashed._OVERHANG, 2
    try:
        pairs = np.array(before, "<i8").reshape(-1, 2)
        index = HashedIdentities.build([(pairs[:, 0], pairs[:, 1])], len(before), MAX_IDENTITY)
        model = {number: slot for number, slot in dict(before).items() if slot}
        for number, slot in after:
            if slot:
                index.set(number, slot)
                model[number] = slot
            elif number in model:
                index.remove(number)
                del model[number]
            numbers, slots = index.arrays()
            assert sorted(model.items()) == list(zip(numbers.tolist(), slots.tolist(), strict=True))
            assert len(model) == len(index)
            assert sorted(model) == list(index)
            for each in [number, *model, 1, MAX_IDENTITY]:
                assert model.get(each, 0) == index.find(each)
    finally:
        hashed._LEAST_BITS, hashed._OVERHANG = least, overhang


def test_a_large_index_finds_every_number() -> None:
    """Also the first and the last that there can be, and as it grows."""
    numbers = np.unique(np.random.default_rng(1).integers(1, MAX_IDENTITY, 20_000))
    numbers[0], numbers[-1] = 1, MAX_IDENTITY
    slots = np.arange(1, len(numbers) + 1)
    index = HashedIdentities.build([(numbers, slots)], len(numbers), MAX_IDENTITY)

    assert slots.tolist() == [index.find(number) for number in numbers.tolist()]
    assert not any(index.find(number + 1) for number in numbers[:-1].tolist())
    for number in numbers[:-1].tolist():
        index.set(number + 1, number % 1000 + 1)
    assert slots.tolist() == [index.find(number) for number in numbers.tolist()]
    assert all(index.find(n + 1) == n % 1000 + 1 for n in numbers[:-1].tolist())
    assert 2 * len(numbers) - 1 == len(index)


def test_numbers_that_crowd_at_the_end_make_the_table_longer() -> None:
    """They are no hashes, but a file may have them."""
    index = HashedIdentities()
    for number in range(300):
        index.set(MAX_IDENTITY - number, number + 1)

    assert [*range(1, 301)] == [index.find(MAX_IDENTITY - number) for number in range(300)]
    assert 0 == index.find(MAX_IDENTITY - 300)


@pytest.mark.parametrize("numbers", [[0], [-5], [0, -1, 7]])
def test_what_is_no_number_is_left_out(numbers: list[int]) -> None:
    """A damaged or hostile file may have pointers with any."""
    pairs = np.array(numbers, "<i8")
    index = HashedIdentities.build([(pairs, np.arange(1, len(pairs) + 1))], len(pairs), 0)

    assert [7] * (7 in numbers) == list(index)
    assert (7 in numbers) == len(index)
    assert 0 == index.find(0)
