"""Pages join up to the whole, whatever is in the records and however they are ordered."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memdb
from memdb.indexes import sort_key

# Few different ones, so that many are equal.
VALUES = st.sampled_from(
    [
        None, 0, 1, True, 1.0, -1, 2**70, 0.5, math.nan, float("nan"), math.inf, Decimal("0.5"),
        Decimal("NaN"), "", "a", "b", b"", b"a", date(2020, 1, 1), datetime(2020, 1, 1),
        datetime(2020, 1, 1, tzinfo=UTC), timedelta(1), [], [1], (1,), [None, "a"],
    ]
)  # fmt: skip
SAME_TYPE = st.sampled_from([st.integers(-3, 3), st.sampled_from("abc"), st.floats(0, 1), VALUES])
PAIRS = SAME_TYPE.flatmap(lambda values: st.lists(st.tuples(values, st.integers(0, 3))))
TERMS = st.lists(st.sampled_from(["a", "-a", "b", "-b", "a.x", "key", "-key"]), max_size=3)


@dataclass
class Item:
    a: Any
    b: int
    key: int
    id: int = 0


@pytest.fixture(scope="module", params=[None, "key", ("b", "key")], ids=str)
def items(request: pytest.FixtureRequest) -> Iterator[memdb.Collection[Any]]:
    """A collection whose records are named by numbers, by a field, by two."""
    with memdb.open(None) as db:
        if request.param is None:
            yield db.collection(Item)
        else:
            yield db.collection(Item, key=request.param)


def in_order(items: memdb.Collection[Item], terms: list[str]) -> list[Item]:
    """Return the records sorted in the plainest way."""
    rows = list(items.items())
    if terms:
        rows.sort(key=lambda row: sort_key(row[0]))
    for term in reversed(terms):
        name = term.removeprefix("-")
        # There is no x in any value.
        if name != "a.x":
            keys = {id(record): sort_key(getattr(record, name)) for _, record in rows}
            rows.sort(key=lambda row, keys=keys: keys[id(row[1])], reverse=term != name)
    return [record for _, record in rows]


@given(pairs=PAIRS, terms=TERMS, take=st.integers(1, 7), data=st.data())
def test_pages_join_up(
    items: memdb.Collection[Item],
    pairs: list[tuple[Any, int]],
    terms: list[str],
    take: int,
    data: st.DataObject,
) -> None:
    """Any skip and limit cut the whole, pages by skip and by cursor join up to it."""
    items.clear()
    items.insert_many([Item(a, b, key * 7 % 31) for key, (a, b) in enumerate(pairs[:31])])
    expected = [item.key for item in in_order(items, terms)]
    query = items.where().order_by(*terms)
    keys = query.values("key")
    skip, limit = data.draw(st.integers(0, 40)), data.draw(st.none() | st.integers(0, 40))

    assert expected == keys.all()
    assert expected[skip:][:limit] == keys.skip(skip).limit(limit).all()
    assert expected == [
        key for start in range(0, len(expected) + 1, take) for key in keys.page(start, take)
    ]
    if terms or not isinstance(items, memdb.KeyedCollection):
        joined: list[Any] = []
        page = query.page(take=take)
        joined += [item.key for item in page]
        while page.cursor is not None:
            assert expected[len(joined) :] == keys.after(page.cursor).all()
            page = query.after(page.cursor).page(take=take)
            joined += [item.key for item in page]
        assert expected == joined
