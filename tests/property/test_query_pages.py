"""Pages join up to the whole, whatever is in the records and however they are ordered."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memdb
from memdb import F, HashIndex, SortedIndex
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


INDEXES = (
    HashIndex("b", name="hash"),
    SortedIndex("a"),
    SortedIndex("-b"),
    SortedIndex("b", "-a", name="two"),
    SortedIndex("-b", "a", "key", name="three"),
    SortedIndex("a", where=F.b > 0, name="some"),
)


@pytest.fixture(scope="module", params=[None, "indexes", "key", ("b", "key")], ids=str)
def items(request: pytest.FixtureRequest) -> Iterator[memdb.Collection[Any]]:
    """A collection whose records are named by numbers, also with indexes, by a field, by two."""
    with memdb.open(None) as db:
        if request.param is None:
            yield db.collection(Item)
        elif request.param == "indexes":
            yield db.collection(Item, indexes=INDEXES)
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


CONDITIONS: list[tuple[Any, Callable[[Item], bool]]] = [
    (F.b == 1, lambda item: item.b == 1),
    (F.b > 0, lambda item: item.b > 0),
    ((F.b >= 1) & (F.b < 3), lambda item: 1 <= item.b < 3),
    (F.b.between(0, 1), lambda item: 0 <= item.b <= 1),
    (F.key > 9, lambda item: item.key > 9),
    ((F.b == 1) & (F.key < 20), lambda item: item.b == 1 and item.key < 20),
    ((F.b == 1) | (F.b == 2), lambda item: item.b in (1, 2)),
]


@pytest.fixture(scope="module")
def db_with_indexes() -> Iterator[memdb.Database]:
    """A database with a collection that has indexes."""
    with memdb.open(None) as db:
        db.collection(Item, indexes=INDEXES)
        yield db


@given(
    pairs=PAIRS,
    changed=st.lists(st.tuples(st.integers(0, 20), VALUES, st.integers(0, 3)), max_size=5),
    terms=TERMS,
    condition=st.sampled_from(CONDITIONS),
    is_in_transaction=st.booleans(),
    take=st.integers(1, 7),
)
def test_what_is_behind_a_cursor(
    db_with_indexes: memdb.Database,
    pairs: list[tuple[Any, int]],
    changed: list[tuple[int, Any, int]],
    terms: list[str],
    condition: tuple[Any, Callable[[Item], bool]],
    is_in_transaction: bool,
    take: int,
) -> None:
    """Indexes lead behind a cursor, also of another condition and of a record that has gone."""
    indexed = db_with_indexes.collection(Item)
    indexed.clear()
    ids = indexed.insert_many([Item(a, b, n * 7 % 31) for n, (a, b) in enumerate(pairs)])
    indexed.query().order_by(*terms).all()
    for number, a, b in changed:
        if number < len(ids):
            indexed.update(ids[number], a=a, b=b)
    whole = in_order(indexed, terms)
    cursors = []
    for start in range(0, len(whole), take):
        cursor = indexed.query().order_by(*terms).page(start, 1).cursor
        if cursor is not None:
            cursors.append((whole[start].id, cursor))
    gone = cursors[0][0] if cursors and take > 3 else None

    def check() -> None:
        found, matches = condition
        query = indexed.where(found).order_by(*terms)
        for number, cursor in cursors:
            place = [item.id for item in whole].index(number)
            behind = [i.id for i in whole[place + 1 :] if matches(i) and i.id != gone]
            after = query.after(cursor)
            page = after.page(1, take)

            assert behind == after.ids() == after.values("id").all()
            assert behind == [item.id for item in after]
            assert behind[:take] == after.limit(take).values("id").all()
            assert behind[1 : 1 + take] == [item.id for item in page]
            assert len(behind) == page.total == after.count()

    if gone is not None:
        indexed.delete(gone)
    if is_in_transaction:
        with db_with_indexes.transaction():
            check()
    check()
