"""Joins of readers, of views, and of a writer whose file is compacted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest

import memdb
from memdb import F, P

Collections = dict[str, Any]
State = dict[str, dict[Any, Any]]


@dataclass
class Customer:
    """A record with a natural key."""

    name: str
    region: str


@dataclass
class Order:
    """Refers to a customer."""

    customer: Annotated[str | None, memdb.ForeignKey(Customer, on_delete="cascade")]
    total: int
    id: int = 0


@dataclass
class Line:
    """Refers to an order, and to others."""

    order: Annotated[int, memdb.ForeignKey("Order", on_delete="cascade")]
    see_also: Annotated[list[int], memdb.ForeignKey("Order", on_delete="set_none")]
    sku: str
    id: int = 0


def collections(db: Any, **settings: Any) -> Collections:
    """Return the collections of a database or view."""
    return {
        "customers": db.collection(Customer, key="name", **settings),
        "orders": db.collection(Order, indexes=[memdb.SortedIndex("total")], **settings),
        "lines": db.collection(Line, **settings),
    }


def state_of(found: Collections) -> State:
    """Return all records, by single look-ups."""
    return {
        name: {identity: collection[identity] for identity in collection.ids()}
        for name, collection in found.items()
    }


Row = tuple[Any, ...]


def naive_chain(state: State) -> list[Row]:
    """Each order with its customer, its lines, and those that mention it."""
    return [
        (
            order,
            state["customers"].get(order.customer),
            tuple(line for line in state["lines"].values() if line.order == order.id),
            tuple(line for line in state["lines"].values() if order.id in line.see_also),
        )
        for order in state["orders"].values()
    ]


def naive_nested(state: State) -> list[Row]:
    """Each customer that has orders with them, the dearest first, and their lines."""
    found = []
    for customer in state["customers"].values():
        orders = [order for order in state["orders"].values() if order.customer == customer.name]
        orders.sort(key=lambda order: -order.total)
        if orders:
            rows = tuple(
                (order, tuple(line for line in state["lines"].values() if line.order == order.id))
                for order in orders
            )
            found.append((customer, rows))
    return found


def naive_listed(state: State) -> list[Row]:
    """Each line with the orders that it mentions."""
    return [
        (line, tuple(state["orders"][each] for each in line.see_also if each in state["orders"]))
        for line in state["lines"].values()
    ]


def naive_dear(state: State) -> list[Row]:
    """The orders of at least ten that have a customer of the north."""
    return [
        (order, state["customers"][order.customer])
        for order in state["orders"].values()
        if order.total >= 10
        and order.customer in state["customers"]
        and state["customers"][order.customer].region == "north"
    ]


def asked(found: Collections) -> list[tuple[Any, Callable[[State], list[Row]]]]:
    """Return queries, and what they mean."""
    customers, orders, lines = found["customers"], found["orders"], found["lines"]
    return [
        (
            orders.where()
            .join(customers)
            .join_many(lines, back=F.order)
            .join_many(lines, back=F.see_also, as_="mentions"),
            naive_chain,
        ),
        (
            customers.where().join_many(
                orders.where().order_by("-total"),
                how="inner",
                then=lambda q: q.join_many(lines, back=F.order),
            ),
            naive_nested,
        ),
        (lines.where().join_many(orders, on=F.see_also), naive_listed),
        (
            orders.where(F.total >= 10).join(customers, where=F.region == "north", how="inner"),
            naive_dear,
        ),
    ]


def plain(row: Any) -> Any:
    """Return a row, and those in it, as tuples."""
    return tuple(
        tuple(plain(each) if isinstance(each, memdb.Row) else each for each in slot)
        if isinstance(slot, tuple)
        else slot
        for slot in row
    )


class Asker:
    """Asks a database or a view: queries that it keeps, new ones and prepared ones."""

    def __init__(self, db: Any, **settings: Any) -> None:
        self.found = collections(db, **settings)
        self.kept = asked(self.found)
        self.prepared = [query.prepare() for query, _ in self.kept]
        orders, customers = self.found["orders"], self.found["customers"]
        self.least = orders.where(F.total >= P.least).join(customers, how="inner").prepare()

    def check(self, state: State) -> None:
        """All answers are those of a state, in any order of customers."""
        for (query, meaning), prepared in zip(self.kept, self.prepared, strict=True):
            expected = meaning(state)
            fresh = next(each for each, other in asked(self.found) if other is meaning)
            for one in (query, fresh):
                rows = [plain(row) for row in one.all()]
                assert sorted(rows, key=repr) == sorted(expected, key=repr)
                assert [plain(row) for row in prepared()] == rows
                assert [one.count(), prepared.count()] == [len(expected)] * 2
                assert one.exists() is bool(expected)
                page = one.page(1, 2)
                assert ([plain(row) for row in page], page.total) == (rows[1:3], len(rows))
        known = [order for order in state["orders"].values() if order.customer]
        for least in (0, 15):
            dear = [order for order in known if order.total >= least]
            assert [row.order for row in self.least(least=least)] == dear
        assert self.found["orders"].where().max("total") == max(
            [order.total for order in state["orders"].values()], default=None
        )


def change(db: memdb.Database, found: Collections, turn: int) -> None:
    """Change records of all collections in some commits, the first of them over all."""
    customers, orders, lines = found["customers"], found["orders"], found["lines"]
    name = f"c{turn}"
    with db.transaction():
        customers.insert(Customer(name, "north" if turn % 2 else "south"))
        first = orders.insert(Order(name, 5 * turn))
        second = orders.insert(Order(None if turn % 3 else name, 3 * turn))
        lines.insert_many([Line(first, [second, first], f"a{turn}"), Line(second, [], f"b{turn}")])
    if turn > 2:
        customers.delete(f"c{turn - 2}")
        customers.update(f"c{turn - 1}", region="north")
        orders.update(first, total=100 - turn)
        lines.update(lines.ids()[0], see_also=[second, first])


TURNS = 7
CACHES = pytest.mark.parametrize("cache", ["all", "none", 2])


@CACHES
def test_of_a_writer_that_compacts(tmp_path: Path, cache: Any) -> None:
    """Queries, also prepared ones, answer the same before and after a compaction."""
    with memdb.open(tmp_path / "a") as db:
        asker = Asker(db, cache=cache)
        for turn in range(TURNS):
            change(db, asker.found, turn)
            asker.check(state_of(asker.found))
            before = state_of(asker.found)
            db.compact()
            asker.check(before)
            assert before == state_of(asker.found)
        assert [] == db.check()


@CACHES
@pytest.mark.parametrize("is_late", [False, True], ids=["early", "late"])
def test_of_a_reader(tmp_path: Path, cache: Any, is_late: bool) -> None:
    """They answer as of the last refresh, also of a file that was compacted since."""
    path = tmp_path / "a"
    with memdb.open(path) as writer, memdb.open(path, "r") as reader:
        found = collections(writer)
        if is_late:
            change(writer, found, 0)
            reader.refresh()
        asker = Asker(reader, cache=cache)
        known = state_of(asker.found)
        for turn in range(1, TURNS):
            change(writer, found, turn)
            if turn % 3 == 0:
                writer.compact()
            asker.check(known)
            assert reader.refresh()
            known = state_of(found)
            asker.check(known)
        assert [] == reader.check()


@CACHES
@pytest.mark.parametrize("of", ["writer", "reader"])
def test_of_views(tmp_path: Path, cache: Any, of: str) -> None:
    """They answer as of the commit that the view is of, whatever comes after it."""
    path = tmp_path / "a"
    with memdb.open(path) as writer, memdb.open(path, "r") as reader:
        found = collections(writer, cache=cache)
        db = writer if of == "writer" else reader
        if of == "reader":
            collections(reader, cache=cache)
        views: list[tuple[Asker, State]] = []
        slots: list[tuple[int, State]] = []
        for turn in range(TURNS):
            change(writer, found, turn)
            reader.refresh()
            view = db.view()
            state = state_of(found)
            views.append((Asker(view, cache=cache), state))
            slots.append((view.slot, state))
            if turn == 5:
                writer.compact()
                slots.clear()
                reader.refresh()
            for asker, own in views[-3:]:
                asker.check(own)
        for asker, own in views:
            asker.check(own)
        for slot, own in slots:
            with db.at(slot) as past:
                Asker(past, cache=cache).check(own)


def test_a_view_is_not_joined_with_its_database(tmp_path: Path) -> None:
    """A query sees one state: whoever mixes two is told which collection to ask for."""
    with memdb.open(tmp_path / "a") as db:
        found = collections(db)
        change(db, found, 0)
        with db.view() as view, db.view() as other:
            own = view.collection(Order)
            for right in (found["customers"], other.collection(Customer)):
                with pytest.raises(memdb.QueryError, match=r"of a view .* view\.collection\(\)"):
                    own.where().join(right, on=F.customer)
            with pytest.raises(memdb.QueryError, match="a view"):
                found["orders"].where().join(view.collection(Customer), on=F.customer)
            rows = own.where().join(view.collection(found["customers"])).all()
            assert [row.order for row in rows] == list(found["orders"])


def test_foreign_keys_in_a_view_lead_to_its_own_collections(tmp_path: Path) -> None:
    """In whatever order the collections are asked for, and nothing can be written."""
    with memdb.open(tmp_path / "a") as db:
        found = collections(db)
        change(db, found, 0)
        for names in (["orders", "customers", "lines"], ["lines", "customers", "orders"]):
            with db.view() as view:
                own = {name: view.collection(found[name]) for name in names}
                references = [each for one in own.values() for each in one._store.references]
                assert {each.target for each in references} == {
                    own["customers"]._store,
                    own["orders"]._store,
                }
                for query, meaning in asked(own):
                    assert [plain(row) for row in query.all()] == meaning(state_of(found))
        # Before the collection that it refers to was asked for, too.
        with db.view() as view, pytest.raises(memdb.ReadOnlyError):
            view.collection(Order).insert(Order("c0", 1))
        with db.view() as view, pytest.raises(memdb.ReadOnlyError):
            view.collection(Customer).delete("c0")
        assert [] == db.check()
