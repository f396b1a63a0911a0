"""Joined queries see one state of all their collections: a commit, or a transaction's."""

from __future__ import annotations

import contextvars
from pathlib import Path
from typing import Any

import pytest

import memdb
from memdb import F, P
from tests.support.shop import (
    Customer,
    Note,
    Order,
    OrderLine,
    Shop,
    add_indexes,
    make_shop,
    open_shop,
)


@pytest.fixture(
    params=["plain", "indexed", "without a cache"],
)
def shop(request: pytest.FixtureRequest) -> Any:
    """The shop: with and without indexes for its joins, with and without a cache."""
    with memdb.open(None, cache="none" if request.param == "without a cache" else "all") as db:
        shop = make_shop(db)
        if request.param == "indexed":
            add_indexes(shop)
        yield shop


class Undo(Exception):
    """Rolls a transaction back."""


def found(shop: Shop) -> list[Any]:
    """Return customers by name, with the identities of their orders and notes."""
    query = (
        shop.customers.where()
        .join_many(shop.orders, back=F.customer_id)
        .join_many(shop.notes.where().order_by("-at").limit(1), back=F.customer_id)
    )
    rows = query.all()
    assert len(rows) == query.count()
    return [
        (row.customer.name, [each.id for each in row.orders], [each.at for each in row.notes])
        for row in rows
    ]


BEFORE = [("Ann", [1, 2], [40]), ("Bob", [3], []), ("Cid", [], [5]), ("Dee", [], [])]
AFTER = [("Anna", [2], [40]), ("Cid", [1], [60]), ("Dee", [], []), ("Eve", [6], [])]


def change(shop: Shop) -> None:
    """Insert, update and delete on every side."""
    shop.customers.update(1, name="Anna")
    shop.orders.update(1, customer_id=3)
    shop.customers.delete(2)
    shop.orders.delete(3)
    shop.notes.insert(Note(3, 60))
    eve = shop.customers.insert(Customer("Eve", "EU"))
    shop.orders.insert(Order(eve, 70))


def test_inside_of_a_transaction(shop: Shop) -> None:
    """It sees what the transaction changed, on every side; nobody else does before the end."""
    outside = contextvars.Context()
    assert BEFORE == found(shop)
    with shop.db.transaction():
        change(shop)

        assert AFTER == found(shop)
        assert BEFORE == outside.run(found, shop)
    assert AFTER == found(shop) == outside.run(found, shop)


def test_rolled_back(shop: Shop) -> None:
    """What was rolled back was never there."""
    with pytest.raises(Undo), shop.db.transaction():
        change(shop)
        assert AFTER == found(shop)
        raise Undo

    assert BEFORE == found(shop)


def test_savepoints(shop: Shop) -> None:
    """A nested transaction that is rolled back takes only its own changes along."""
    with shop.db.transaction():
        change(shop)
        with pytest.raises(Undo), shop.db.transaction():
            shop.orders.clear()
            shop.customers.delete(1)
            shop.notes.insert(Note(3, 80))
            assert [("Cid", [], [80]), ("Dee", [], []), ("Eve", [], [])] == found(shop)
            raise Undo
        assert AFTER == found(shop)
        with shop.db.transaction():
            shop.orders.update(2, customer_id=4)

    assert [("Anna", [], [40]), ("Cid", [1], [60]), ("Dee", [2], []), ("Eve", [6], [])] == found(
        shop
    )


def test_prepared_inside_and_outside(shop: Shop) -> None:
    """A prepared query is the same inside of a transaction and outside of it."""
    prepared = (
        shop.orders.where(F.total >= P.least)
        .join(shop.customers, on=F.customer_id, how="inner")
        .prepare()
    )

    def ask() -> list[Any]:
        rows = prepared(least=20)
        assert len(rows) == prepared.count(least=20)
        return [(row.order.id, row.customer.name) for row in rows]

    outside = contextvars.Context()
    assert [(1, "Ann"), (3, "Bob")] == ask()
    with shop.db.transaction():
        change(shop)
        assert [(1, "Cid"), (6, "Eve")] == ask()
        assert [(1, "Ann"), (3, "Bob")] == outside.run(ask)
    assert [(1, "Cid"), (6, "Eve")] == ask() == outside.run(ask)


def test_untouched_collections_in_a_transaction(shop: Shop) -> None:
    """A transaction that changed only one side, or none, sees the other as it is."""
    with shop.db.transaction():
        assert BEFORE == found(shop)
        shop.orders.update(2, customer_id=4)
        assert [("Ann", [1], [40]), *BEFORE[1:3], ("Dee", [2], [])] == found(shop)
    with shop.db.transaction():
        shop.customers.update(1, name="Anna")
        assert [("Anna", [1], [40]), *BEFORE[1:3], ("Dee", [2], [])] == found(shop)


def test_everything_deleted(shop: Shop) -> None:
    """Either side may be emptied."""
    with shop.db.transaction():
        shop.orders.clear()
        shop.notes.clear()
        assert [(name, [], []) for name, _, _ in BEFORE] == found(shop)
        shop.customers.clear()
        assert [] == found(shop)
    assert [] == found(shop)


def test_changing_the_result_of_a_join(shop: Shop) -> None:
    """Records of rows can be changed and put back, in one transaction."""
    with shop.db.transaction():
        for row in shop.orders.where().join(shop.customers, on=F.customer_id, how="inner"):
            row.order.total += row.customer.id
            shop.orders.update(row.order.id, row.order)

    assert [31, 11, 22, 40, 50] == [order.total for order in shop.orders]


def test_result_does_not_change(shop: Shop) -> None:
    """A list that was returned stays as it is."""
    rows = shop.orders.where().join_many(shop.lines, back=F.order_id).all()
    change(shop)
    shop.lines.clear()

    assert [2, 1, 1, 0, 0] == [len(row.order_lines) for row in rows]
    assert OrderLine(1, 1, 2, 1) == rows[0].order_lines[0]


def test_collections_in_any_state_of_the_file(tmp_path: Path) -> None:
    """After a checkpoint, after reopening, and in a reader, the answers are those of before."""
    path = tmp_path / "shop.memdb"
    with memdb.open(path) as db:
        shop = make_shop(db)
        add_indexes(shop)
        assert BEFORE == found(shop)
        db.checkpoint()
        change(shop)
        assert AFTER == found(shop)
    with memdb.open(path) as db:
        assert AFTER == found(open_shop(db))
    with memdb.open(path, "r") as db:
        assert AFTER == found(open_shop(db))


def test_indexes_come_and_go(shop: Shop) -> None:
    """Adding, renaming and dropping indexes never changes an answer."""
    before = found(shop)
    added = []
    for collection, index in (
        (shop.orders, memdb.HashIndex("customer_id", name="a")),
        (shop.orders, memdb.SortedIndex("customer_id", "total", name="b")),
        (shop.notes, memdb.SortedIndex("-at", name="c")),
        (shop.notes, memdb.HashIndex("customer_id", where=F.pinned == True, name="d")),  # noqa: E712
        (shop.notes, memdb.SortedIndex("customer_id", "-at", name="e")),
    ):
        collection.indexes.add(index)
        added.append((collection, index.name))
        assert before == found(shop)
    for collection, name in added:
        collection.indexes.rename(name, f"new {name}")
        assert before == found(shop)
    for collection, name in reversed(added):
        collection.indexes.drop(f"new {name}")
        assert before == found(shop)
