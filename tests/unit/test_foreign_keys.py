"""Checked foreign keys: what may be written, and what becomes of records that refer."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, NamedTuple, TypedDict

import attrs
import msgspec
import pydantic
import pytest

import memdb
from memdb import F, ForeignKey, ForeignKeyError, _natural_key
from memdb.indexes import _keys


@dataclass
class Customer:
    name: str
    id: int = 0


@dataclass
class Order:
    customer_id: Annotated[int | None, ForeignKey(Customer, "restrict")]
    total: int = 0
    id: int = 0


@dataclass
class Line:
    order_id: Annotated[int, ForeignKey(Order, "cascade")]
    text: str = ""
    id: int = 0


@dataclass
class Note:
    customer_id: Annotated[int | None, ForeignKey(Customer, "set_none")] = None
    line_ids: Annotated[list[int], ForeignKey(Line, "set_none")] = field(default_factory=list)
    id: int = 0


@dataclass
class Person:
    name: str
    boss_id: Annotated[int | None, ForeignKey("Person", "cascade")] = None
    id: int = 0


@dataclass
class Visit:
    customer_id: Annotated[int, ForeignKey(Customer)]
    id: int = 0


@pytest.fixture
def shop(db: memdb.Database) -> SimpleNamespace:
    """Ann and Bob; Ann has two orders, the first with two lines; notes about all of it."""
    shop = SimpleNamespace(
        db=db,
        customers=db.collection(Customer),
        orders=db.collection(Order),
        lines=db.collection(Line),
        notes=db.collection(Note),
    )
    shop.customers.insert_many([Customer("Ann"), Customer("Bob")])
    shop.orders.insert_many([Order(1, 10), Order(1, 20)])
    shop.lines.insert_many([Line(1, "tea"), Line(1, "milk")])
    shop.notes.insert_many([Note(2, [1, 2]), Note(1), Note()])
    return shop


def state(shop: SimpleNamespace) -> list[Any]:
    """Return everything, to compare."""
    return [dict(each.items()) for each in (shop.customers, shop.orders, shop.lines, shop.notes)]


@contextlib.contextmanager
def refused(shop: SimpleNamespace, text: str = "") -> Iterator[Any]:
    """Expect an error about a foreign key, and that nothing is changed."""
    before, versions = state(shop), shop.db.stats().versions
    with pytest.raises(ForeignKeyError) as caught:
        yield caught
    assert text in str(caught.value)
    assert before == state(shop)
    assert versions == shop.db.stats().versions


WRITES: dict[str, Any] = {
    "insert": lambda orders, value: orders.insert(Order(value)),
    "insert_many": lambda orders, value: orders.insert_many([Order(1), Order(value)]),
    "insert with an identity": lambda orders, value: orders.insert(Order(value, id=50)),
    "put a new one": lambda orders, value: orders.put(Order(value)),
    "put another one": lambda orders, value: orders.put(Order(value, id=1)),
    "update a field": lambda orders, value: orders.update(1, customer_id=value),
    "update by a record": lambda orders, value: orders.update(1, Order(value)),
    "update by a function": lambda orders, value: orders.update(
        1, lambda order: setattr(order, "customer_id", value)
    ),
    "edit": lambda orders, value: edit(orders, value),
    "Query.update": lambda orders, value: orders.where(total=20).update(customer_id=value),
    "Query.update by a function": lambda orders, value: orders.where(total=20).update(
        lambda order: Order(value)
    ),
}


def edit(orders: memdb.Collection[Order], value: Any) -> None:
    """Change the first order in a block."""
    with orders.edit(1) as order:
        order.customer_id = value


class TestWriting:
    """Each reference that is written leads to a record."""

    @pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
    def test_what_leads_nowhere_is_refused(self, shop: SimpleNamespace, write: Any) -> None:
        """However it is written, in a transaction or not, it is refused and nothing is changed."""
        with refused(shop, "refers to 99, and Customer has no such record. Insert that first"):
            write(shop.orders, 99)
        with refused(shop, "refers to 99"), shop.db.transaction():
            write(shop.orders, 99)
            shop.customers.insert(Customer("Cid"))

    @pytest.mark.parametrize("value", [2, None])
    @pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
    def test_what_leads_somewhere_is_written(
        self, shop: SimpleNamespace, write: Any, value: int | None
    ) -> None:
        """A reference to another record, or to none, is as any other value."""
        write(shop.orders, value)

        assert value in [order.customer_id for order in shop.orders]

    @pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
    def test_what_a_transaction_inserts(self, shop: SimpleNamespace, write: Any) -> None:
        """Records of one transaction may refer to each other, in whatever order they come."""
        with shop.db.transaction():
            write(shop.orders, 9)
            shop.customers.insert(Customer("Cid", id=9))

        assert 9 in [order.customer_id for order in shop.orders]

    @pytest.mark.parametrize("value", [True, 1.0, "1", 0, -1, 2**70, b"1", (1,)])
    def test_a_value_that_is_no_identity(self, shop: SimpleNamespace, value: Any) -> None:
        """What equals an identity and is of another type is none, as in get()."""
        with refused(shop), contextlib.suppress(memdb.EncodeError):
            shop.orders.insert(Order(value))
            pytest.fail("it was written")
        with refused(shop), shop.db.transaction():
            shop.orders.insert(Order(value))

    def test_a_message_shows_no_content(self, shop: SimpleNamespace) -> None:
        """What can't be an identity is content of a record, and is not shown."""
        with refused(shop, "customer_id of a new record refers to a value of type str, and"):
            shop.orders.insert(Order("secret"))  # type: ignore[arg-type]

    def test_what_the_error_holds(self, shop: SimpleNamespace) -> None:
        """The error names both records, as far as they have identities."""
        with pytest.raises(ForeignKeyError) as new:
            shop.orders.insert(Order(7))
        with pytest.raises(ForeignKeyError) as old:
            shop.orders.update(2, customer_id=8)

        assert ("Order", None, "customer_id", "Customer", 7) == attributes(new.value)
        assert ("Order", 2, "customer_id", "Customer", 8) == attributes(old.value)
        assert (
            "Order: customer_id of the record 2 refers to 8, and Customer has no such record."
            " Insert that first, or in the same transaction."
        ) == str(old.value)

    def test_an_unchanged_record_is_not_written(self, shop: SimpleNamespace) -> None:
        """What changes nothing is no write, and what was written back is none either."""
        assert not shop.orders.update(1, customer_id=1)
        with shop.db.transaction():
            shop.orders.update(1, customer_id=99)
            shop.orders.update(1, customer_id=1)

        assert Order(1, 10, 1) == shop.orders[1]

    def test_a_savepoint_that_was_undone(self, shop: SimpleNamespace) -> None:
        """Only what is left at the end of the transaction counts."""
        with shop.db.transaction():
            with contextlib.suppress(KeyError), shop.db.transaction():
                shop.orders.insert(Order(99))
                raise KeyError
            shop.orders.insert(Order(2))
        with refused(shop, "refers to 9"), shop.db.transaction():
            with contextlib.suppress(KeyError), shop.db.transaction():
                shop.customers.insert(Customer("Cid", id=9))
                raise KeyError
            shop.orders.insert(Order(9))

    def test_records_that_refer_to_each_other(self, db: memdb.Database) -> None:
        """Those of one insert_many may; a new record may refer to itself by an own identity."""
        people = db.collection(Person)
        people.insert_many([Person("a", 2, id=1), Person("b", 1, id=2), Person("c", 3, id=3)])
        people.insert(Person("d", 7, id=7))
        with pytest.raises(ForeignKeyError):
            people.insert_many([Person("e", 9, id=8), Person("f", 10, id=9)])

        assert [2, 1, 3, 7] == [person.boss_id for person in people]

    def test_a_failed_write_uses_no_identity(self, shop: SimpleNamespace) -> None:
        """The next order gets the identity that the refused one did not."""
        with pytest.raises(ForeignKeyError):
            shop.orders.insert(Order(99))

        assert 3 == shop.orders.insert(Order(1))

    def test_a_kept_method(self, db: memdb.Database) -> None:
        """A bound insert from before the target was asked for, or found elsewhere, checks too."""
        orders = db.collection(Order)
        orders.insert(Order(None))
        insert = orders.insert
        with pytest.raises(memdb.ConfigError, match="no collection of that name or class"):
            insert(Order(1))
        old = db.collection(Customer, name="old")
        old.insert(Customer("Ann"))
        insert(Order(1))
        insert = orders.insert
        db.collection(Customer)
        with pytest.raises(ForeignKeyError):
            insert(Order(1))

        assert [None, 1] == [order.customer_id for order in orders]
        orders.update(2, customer_id=None)

    def test_at_the_end_in_another_context(self, shop: SimpleNamespace) -> None:
        """A transaction may be left by who was not in it, and its own records are seen then."""
        transaction = shop.db.transaction()
        with shop.db.transaction():
            pass
        inside = contextvars.copy_context()
        inside.run(transaction.__enter__)
        inside.run(shop.customers.insert, Customer("Cid", id=9))
        inside.run(shop.orders.insert, Order(9))
        transaction.__exit__(None, None, None)

        assert 9 == shop.orders[3].customer_id

    def test_values_of_other_types_without_an_index(self, shop: SimpleNamespace) -> None:
        """Nothing else asks then whether a record is as its class says."""
        shop.orders.indexes.drop("customer_id")
        with refused(shop):
            shop.orders.insert(Order(True))

    def test_is_generated(self, tmp_path: Path) -> None:
        """The fast insert is there for a key to assigned identities, once these are known."""
        with memdb.open(tmp_path / "a") as db:
            db.collection(Customer).insert(Customer("Ann"))
            db.collection(Order).insert(Order(1))
        with memdb.open(tmp_path / "a") as db:
            orders = db.collection(Order)
            assert orders._store.fast_insert is None
            db.collection(Customer)

            assert orders._store.fast_insert is not None
            assert 2 == orders.insert(Order(1))

    def test_append_mode(self, tmp_path: Path) -> None:
        """Where only new records are taken, they are checked all the same."""
        with memdb.open(tmp_path / "a") as db:
            db.collection(Customer).insert(Customer("Ann"))
        with memdb.open(tmp_path / "a", mode="append") as db:
            orders = db.collection(Order)
            db.collection(Customer)
            orders.insert_many([Order(1)])
            with pytest.raises(ForeignKeyError):
                orders.insert(Order(2))

            assert 1 == len(orders)

    def test_ignore(self, db: memdb.Database) -> None:
        """Unless on_delete says more, nothing is checked."""
        visits, customers = db.collection(Visit), db.collection(Customer)
        visits.insert_many([Visit(1), Visit(99)])
        customers.insert(Customer("Ann"))
        customers.delete(1)
        customers.clear()

        assert [1, 99] == [visit.customer_id for visit in visits]
        assert [] == db.check()


def attributes(error: ForeignKeyError) -> tuple[Any, ...]:
    """Return what an error holds."""
    return error.collection, error.identity, error.field, error.target, error.referred


DELETIONS: dict[str, Any] = {
    "delete": lambda collection, identity: collection.delete(identity),
    "del": lambda collection, identity: collection.__delitem__(identity),
    "Query.delete": lambda collection, identity: collection.where(id=identity).delete(),
}


class TestRestrict:
    @pytest.mark.parametrize("delete", DELETIONS.values(), ids=DELETIONS)
    def test_refuses(self, shop: SimpleNamespace, delete: Any) -> None:
        """A record that is referred to stays, and everything with it."""
        with refused(shop) as caught:
            delete(shop.customers, 1)
        with refused(shop), shop.db.transaction():
            shop.customers.delete(2)
            delete(shop.customers, 1)

        assert (
            "Customer: the record 1 is referred to by customer_id of Order 1 and 1 more. Delete or"
            " change these first, or in the same transaction."
        ) == str(caught.value)
        assert ("Order", 1, "customer_id", "Customer", 1) == attributes(caught.value)

    def test_clear(self, shop: SimpleNamespace) -> None:
        """All records of a collection can't go while one is referred to."""
        with refused(shop, "the record 1 is referred to"):
            shop.customers.clear()
        shop.orders.clear()

        assert 2 == shop.customers.clear()
        assert [] == [*shop.customers, *shop.lines]

    @pytest.mark.parametrize("delete", DELETIONS.values(), ids=DELETIONS)
    def test_only_the_end_counts(self, shop: SimpleNamespace, delete: Any) -> None:
        """The reference may go before or after, or come back, in the same transaction."""
        with shop.db.transaction():
            delete(shop.customers, 1)
            shop.orders.update(1, customer_id=2)
            shop.orders.delete(2)
        with shop.db.transaction():
            delete(shop.customers, 2)
            shop.customers.insert(Customer("Bob again", id=2))

        assert {2: Customer("Bob again", 2)} == dict(shop.customers.items())
        assert {1: Order(2, 10, 1)} == dict(shop.orders.items())

    def test_what_nothing_refers_to(self, shop: SimpleNamespace) -> None:
        """Other records go as always; one that is not there is not found."""
        shop.customers.delete(2)
        with pytest.raises(memdb.RecordNotFoundError):
            shop.customers.delete(2)

        assert [1] == shop.customers.ids()

    def test_a_reference_written_and_undone(self, shop: SimpleNamespace) -> None:
        """What a savepoint refers to and does not keep holds nothing back."""
        with shop.db.transaction():
            with contextlib.suppress(KeyError), shop.db.transaction():
                shop.orders.insert(Order(2))
                raise KeyError
            shop.customers.delete(2)

        assert [1] == shop.customers.ids()

    def test_a_collection_that_was_not_asked_for(self, tmp_path: Path) -> None:
        """Deletions are checked against the collections that the program has asked for."""
        with memdb.open(tmp_path / "a") as db:
            db.collection(Customer).insert(Customer("Ann"))
            db.collection(Order).insert(Order(1))
        with memdb.open(tmp_path / "a") as db:
            customers = db.collection(Customer)
            customers.delete(1)
            orders = db.collection(Order)

            assert ["Order: customer_id of the record 1 refers to a record of Customer that is"
                    " not there"] == [finding.message for finding in db.check()]  # fmt: skip
            with pytest.raises(ForeignKeyError):
                orders.update(1, total=5)
            assert orders.update(1, customer_id=None)
            assert [] == db.check()


class TestCascade:
    @pytest.mark.parametrize("delete", DELETIONS.values(), ids=DELETIONS)
    def test_takes_the_records_along(self, shop: SimpleNamespace, delete: Any) -> None:
        """What refers to a deleted record is deleted too, as one commit."""
        shop.lines.insert(Line(2, "tea"))
        delete(shop.orders, 1)
        times = {shop.orders.history(1)[-1].time, shop.lines.history(1)[-1].time}

        assert [3] == shop.lines.ids()
        assert [] == shop.notes[1].line_ids
        assert 1 == len(times)

    def test_shows_at_once(self, shop: SimpleNamespace) -> None:
        """A transaction sees what its deletions took along, and others see it at the end."""
        with shop.db.transaction():
            shop.orders.delete(1)

            assert 0 == len(shop.lines)
            assert contextvars.Context().run(len, shop.lines) == 2
            with pytest.raises(memdb.RecordNotFoundError):
                shop.lines.delete(1)
        assert 0 == len(shop.lines)

    def test_what_the_transaction_wrote(self, shop: SimpleNamespace) -> None:
        """Records that were inserted or changed before in the transaction are found too."""
        with shop.db.transaction():
            shop.lines.insert(Line(2, "new"))
            shop.lines.update(1, order_id=2)
            shop.lines.update(2, text="changed")
            shop.orders.delete(2)

            assert [2] == shop.lines.ids()
            shop.lines.update(2, order_id=1)
            shop.lines.insert(Line(1, "newer"))
            shop.orders.delete(1)
            assert [] == shop.lines.ids()

    def test_a_savepoint_that_was_undone(self, shop: SimpleNamespace) -> None:
        """An undone deletion brings back what it took along, and is forgotten."""
        with shop.db.transaction():
            with contextlib.suppress(KeyError), shop.db.transaction():
                shop.lines.update(1, order_id=2)
                shop.orders.delete(2)
                raise KeyError
            assert [1, 2] == shop.lines.ids()
            shop.orders.delete(2)
            assert [1, 2] == shop.lines.ids()
            shop.orders.delete(1)

        assert [] == shop.lines.ids()

    def test_what_an_undone_savepoint_wrote(self, shop: SimpleNamespace) -> None:
        """After it, what was written before it is found again."""
        with shop.db.transaction():
            shop.lines.update(1, order_id=2)
            with contextlib.suppress(KeyError), shop.db.transaction():
                shop.lines.update(1, order_id=1)
                shop.orders.delete(2)
                raise KeyError
            shop.orders.delete(2)

            assert [2] == shop.lines.ids()

    def test_undone_with_all(self, shop: SimpleNamespace) -> None:
        """A transaction that raises changes nothing."""
        before = state(shop)
        with contextlib.suppress(KeyError), shop.db.transaction():
            shop.orders.clear()
            raise KeyError

        assert before == state(shop)

    def test_clear(self, shop: SimpleNamespace) -> None:
        """What is cleared takes all along that refers to it."""
        assert 2 == shop.orders.clear()

        assert [] == [*shop.orders, *shop.lines]
        assert [Note(2, [], 1), Note(1, [], 2), Note(id=3)] == list(shop.notes)

    def test_within_one_collection(self, db: memdb.Database) -> None:
        """A tree goes with its root, and a circle of records comes to an end."""
        people = db.collection(Person)
        people.insert_many([Person("a"), Person("b", 1), Person("c", 2), Person("d")])
        people.insert_many([Person("e", 6, id=5), Person("f", 7, id=6), Person("g", 5, id=7)])
        people.insert(Person("h", 8, id=8))
        people.delete(1)
        people.delete(6)
        people.delete(8)

        assert [4] == people.ids()

    def test_a_query_that_finds_both(self, db: memdb.Database) -> None:
        """A record that a deletion of the same query took along is no error, and is counted."""
        people = db.collection(Person)
        people.insert_many([Person("a"), Person("b", 1), Person("c", 2), Person("d")])

        assert 3 == people.where(F.id <= 3).delete()
        assert [4] == people.ids()
        people.insert(Person("e", 4))
        assert 2 == people.clear()
        assert [] == people.ids()

    def test_a_deep_tree(self, db: memdb.Database) -> None:
        """No chain is too long."""
        people = db.collection(Person)
        people.insert_many([Person("a", number or None, id=number + 1) for number in range(3_000)])
        people.delete(1)

        assert 0 == len(people)

    def test_restrict_behind_a_cascade(self, db: memdb.Database) -> None:
        """What a cascade would take along may be held by another key, which then holds all."""
        customers, trips = db.collection(Customer), db.collection(Trip)
        stops, bills = db.collection(Stop), db.collection(Bill)
        customers.insert(Customer("Ann"))
        trips.insert(Trip(1))
        stops.insert(Stop(1))
        bills.insert(Bill(1))
        with pytest.raises(ForeignKeyError, match="Trip: the record 1 is referred to by trip_id"):
            customers.delete(1)
        assert [1, 1, 1] == [*customers.ids(), *trips.ids(), *stops.ids()]
        bills.clear()
        customers.delete(1)

        assert [] == [*customers, *trips, *stops]

    def test_a_collection_that_can_only_be_read(self, tmp_path: Path) -> None:
        """Records of a class that was opened as a TypedDict are left alone by cascades too."""
        with memdb.open(tmp_path / "a") as db:
            db.collection(Customer).insert(Customer("Ann"))
            db.collection(Trip).insert(Trip(1))
        with memdb.open(tmp_path / "a") as db:
            customers, trips = db.collection(Customer), db.collection(TypedTrip, name="Trip")
            with pytest.raises(
                memdb.ReadOnlyError, match="opened as TypedTrip it can only be read"
            ):
                customers.delete(1)

            assert [1, 1] == [len(customers), len(trips)]

    def test_two_ways_to_one_record(self, db: memdb.Database) -> None:
        """A record that two keys lead to is deleted once, whatever the other key would do."""
        customers, transfers = db.collection(Customer), db.collection(Transfer)
        customers.insert_many([Customer("Ann"), Customer("Bob"), Customer("Cid")])
        transfers.insert_many(
            [Transfer(1, 1, 1), Transfer(2, 1, None), Transfer(2, 3, 1), Transfer(3, 3, 1)]
        )
        customers.delete(1)

        assert [Transfer(2, 3, None, 3), Transfer(3, 3, None, 4)] == list(transfers)


@dataclass
class Trip:
    customer_id: Annotated[int, ForeignKey(Customer, "cascade")]
    id: int = 0


class TypedTrip(TypedDict):
    customer_id: Annotated[int, ForeignKey(Customer, "cascade")]


@dataclass
class Stop:
    trip_id: Annotated[int, ForeignKey(Trip, "cascade")]
    id: int = 0


@dataclass
class Bill:
    trip_id: Annotated[int, ForeignKey(Trip, "restrict")]
    id: int = 0


@dataclass
class Transfer:
    source: Annotated[int, ForeignKey(Customer, "cascade")]
    sink: Annotated[int, ForeignKey(Customer, "cascade")]
    seen_by: Annotated[int | None, ForeignKey(Customer, "set_none")]
    id: int = 0


class TestSetNone:
    def test_a_single_one(self, shop: SimpleNamespace) -> None:
        """The field of what refers to a deleted record becomes None, as one commit."""
        shop.customers.delete(2)

        assert [Note(None, [1, 2], 1), Note(1, [], 2), Note(id=3)] == list(shop.notes)
        assert shop.notes.history(1)[-1].time == shop.customers.history(2)[-1].time

    def test_one_of_a_list(self, shop: SimpleNamespace) -> None:
        """A list loses the identity, as often as it has it."""
        shop.notes.insert(Note(None, [2, 1, 2]))
        shop.lines.delete(2)

        assert [[1], [], [], [1]] == [note.line_ids for note in shop.notes]

    def test_shows_at_once(self, shop: SimpleNamespace) -> None:
        """A transaction sees it, also of what it wrote itself."""
        with shop.db.transaction():
            shop.notes.insert(Note(2, [1]))
            shop.customers.delete(2)
            shop.lines.delete(1)

            assert [None, 1, None, None] == [note.customer_id for note in shop.notes]
            assert [[2], [], [], []] == [note.line_ids for note in shop.notes]

    def test_an_equal_value_of_another_type_stays(self, shop: SimpleNamespace) -> None:
        """What is equal to the identity and is none is not what is taken out."""
        with pytest.raises(ForeignKeyError), shop.db.transaction():
            shop.notes.insert(Note(None, [True, 1]))
            shop.lines.delete(1)

            assert [True] == shop.notes[4].line_ids
            assert shop.notes[4].line_ids[0] is True


class Refers(NamedTuple):
    """One kind of class with each key."""

    cls: Any
    make: Any
    get: Any


@attrs.define
class AttrsRecord:
    many: Annotated[frozenset[int], ForeignKey(Customer, "set_none")]
    one: Annotated[int | None, ForeignKey(Customer, "set_none")] = None
    id: int = 0


class StructRecord(msgspec.Struct, frozen=True):
    many: Annotated[tuple[int, ...], ForeignKey(Customer, "set_none")]
    one: Annotated[int | None, ForeignKey(Customer, "set_none")] = None
    id: int = 0


class ModelRecord(pydantic.BaseModel):
    many: Annotated[set[int], ForeignKey(Customer, "set_none")]
    one: Annotated[int | None, ForeignKey(Customer, "set_none")] = None
    id: int = 0


class TupleRecord(NamedTuple):
    many: Annotated[list[int], ForeignKey(Customer, "set_none")]
    one: Annotated[int | None, ForeignKey(Customer, "set_none")] = None
    id: int = 0


class DictRecord(TypedDict):
    many: Annotated[list[int] | None, ForeignKey(Customer, "set_none")]
    one: Annotated[int | None, ForeignKey(Customer, "set_none")]


@dataclass(slots=True, frozen=True)
class FrozenRecord:
    many: Annotated[list[int], ForeignKey(Customer, "set_none")]
    one: Annotated[int | None, ForeignKey(Customer, "set_none")] = None
    id: int = 0


RECORDS = [AttrsRecord, StructRecord, ModelRecord, TupleRecord, DictRecord, FrozenRecord]


@pytest.mark.parametrize("cls", RECORDS, ids=lambda cls: cls.__name__)
def test_records_of_any_library(db: memdb.Database, cls: Any) -> None:
    """Whichever library made the class, its keys are checked and set to None."""

    def value(record: Any, name: str) -> Any:
        return record.get(name) if isinstance(record, dict) else getattr(record, name)

    customers, records = db.collection(Customer), db.collection(cls)
    customers.insert_many([Customer("Ann"), Customer("Bob")])
    records.insert(cls(many=[1, 2] if cls is not ModelRecord else {1, 2}, one=2))
    with pytest.raises(ForeignKeyError):
        records.insert(cls(many=[], one=3))
    with pytest.raises(ForeignKeyError):
        records.insert_many([cls(many=[2, 3], one=1)])
    customers.delete(2)

    assert ["many", "one"] == list(records.indexes)
    assert [1] == list(value(records[1], "many"))
    assert value(records[1], "one") is None
    assert 1 == len(records)


@dataclass
class Product:
    code: str
    version: int = 1


@dataclass
class NewProduct:
    code: str
    missing: int


@dataclass
class Offer:
    product: Annotated[str | None, ForeignKey("products", "restrict")]
    id: int = 0


@dataclass
class Part:
    name: str
    of: Annotated[str, ForeignKey("products", "cascade")]
    like: Annotated[list[str], ForeignKey("products", "set_none")] = field(default_factory=list)


@pytest.fixture
def few_numbers(monkeypatch: pytest.MonkeyPatch) -> Iterator[memdb.Database]:
    """A database in which all natural keys have eight numbers."""
    monkeypatch.setattr(_natural_key, "secrets", SimpleNamespace(randbelow=lambda stop: 5))
    digest = _keys.digest
    monkeypatch.setattr(_natural_key, "digest", lambda *parts: digest(*parts) % 8)
    with memdb.open(None) as db:
        yield db
        assert [] == db.check()


class TestNaturalKeys:
    """The identity that a reference holds is the key's value."""

    def test_a_text(self, db: memdb.Database) -> None:
        """References to a natural key are checked as others, from a natural key as well."""
        products = db.collection(Product, name="products", key="code")
        offers, parts = db.collection(Offer), db.collection(Part, key="name")
        products.insert_many([Product("tea"), Product("mug"), Product("pot")])
        offers.insert_many([Offer("tea"), Offer(None)])
        parts.insert_many([Part("lid", "pot", ["mug", "tea"]), Part("bag", "mug", ["pot"])])
        offers.insert(Offer("mug"))
        for bad in (lambda: offers.insert(Offer("cup")), lambda: parts.put(Part("x", "cup"))):
            with pytest.raises(ForeignKeyError, match="refers to 'cup', and products has no such"):
                bad()
        with pytest.raises(ForeignKeyError, match="the record 'tea' is referred to"):
            products.delete("tea")
        with pytest.raises(ForeignKeyError, match="of the record 'bag' refers to 'cup'"):
            parts.update("bag", of="cup")
        products.delete("pot")

        assert [Part("bag", "mug", [])] == list(parts)
        with db.transaction():
            products.delete("tea")
            products.insert(Product("tea", 2))
            offers.insert(Offer("new"))
            products.insert(Product("new"))
        with pytest.raises(ForeignKeyError):
            products.clear()
        offers.clear()
        assert 3 == products.clear()
        assert 0 == len(parts)

    def test_what_can_be_no_key(self, db: memdb.Database) -> None:
        """A value that no natural key can be is shown by its type, and taken out of no list."""
        products = db.collection(Product, name="products", key="code")
        parts = db.collection(Part, key="name")
        products.insert_many([Product("tea"), Product("mug")])
        with pytest.raises(ForeignKeyError, match="refers to a value of type float, and products"):
            parts.insert(Part("lid", 1.5))  # type: ignore[arg-type]
        with pytest.raises(ForeignKeyError), db.transaction():
            parts.insert(Part("lid", "tea", ["mug", 1.5]))  # type: ignore[list-item]
            products.delete("mug")

            assert [1.5] == parts["lid"].like

    def test_several_fields(self, db: memdb.Database) -> None:
        """A key of several fields is referred to by a tuple of a fixed length."""
        products = db.collection(Product, name="versions", key=("code", "version"))
        uses, lists = db.collection(Use), db.collection(Uses)
        products.insert_many([Product("tea", 1), Product("tea", 2)])
        uses.insert_many([Use(("tea", 1)), Use(("tea", 2)), Use(("tea", 2))])
        lists.insert(Uses([("tea", 2), ("tea", 1)]))
        for value in (("tea", 3), ("tea", True), ("tea",)):
            with pytest.raises(ForeignKeyError):
                uses.insert(Use(value))  # type: ignore[arg-type]
            with pytest.raises(ForeignKeyError):
                lists.insert(Uses([("tea", 1), value]))  # type: ignore[list-item]
        products.delete(("tea", 2))

        assert [Use(("tea", 1), 1)] == list(uses)
        assert [("tea", 1)] == lists[1].products

    def test_as_the_natural_key_itself(self, db: memdb.Database) -> None:
        """A record may be named by what it refers to."""
        customers, accounts = db.collection(Customer), db.collection(Account, key="customer_id")
        customers.insert(Customer("Ann"))
        accounts.insert(Account(1))
        with pytest.raises(ForeignKeyError):
            accounts.insert(Account(2))
        customers.delete(1)

        assert 0 == len(accounts)

    def test_a_number(self, few_numbers: memdb.Database) -> None:
        """An integer that is a natural key is not taken for the number of another."""
        customers = few_numbers.collection(Customer, key="id")
        trips = few_numbers.collection(Trip)
        customers.insert_many([Customer("Ann", id=100), Customer("Bob", id=101)])
        trips.insert(Trip(100))
        for number in range(1, 10):
            with pytest.raises(ForeignKeyError):
                trips.insert(Trip(number))

        assert [Trip(100, 1)] == list(trips)

    def test_as_the_identity_itself(self, db: memdb.Database) -> None:
        """So may one with an identity of its own, or one that is assigned and is there."""
        customers, profiles = db.collection(Customer), db.collection(Profile)
        customers.insert_many([Customer("Ann"), Customer("Bob"), Customer("Cid")])
        assert 2 == profiles.insert(Profile(2))
        assert 3 == profiles.insert(Profile())
        assert [1] == profiles.insert_many([Profile(1)])
        with pytest.raises(ForeignKeyError, match="id of a new record refers to 4"):
            profiles.insert(Profile())
        assert profiles.update(2, Profile(text="new"))
        customers.delete(2)

        assert [Profile(1), Profile(3)] == list(profiles)
        others = db.collection(OptionalProfile)
        assert 1 == others.insert(OptionalProfile())
        with pytest.raises(ForeignKeyError):
            others.insert(OptionalProfile())

    def test_a_key_that_comes_back(self, few_numbers: memdb.Database) -> None:
        """A record that was deleted and inserted again is there, also under another number."""
        db = few_numbers
        products = db.collection(Product, name="products", key="code")
        offers = db.collection(Offer)
        codes = ["tea", "mug", "pot", "cup", "pan", "jug"]
        products.insert_many(list(map(Product, codes)))
        offers.insert_many(list(map(Offer, codes)))
        before = list(map(products._store.find_number, codes))
        with db.transaction():
            products.clear()
            products.insert_many(list(map(Product, reversed(codes))))

        assert before != list(map(products._store.find_number, codes))
        assert codes == [offer.product for offer in offers]
        with pytest.raises(ForeignKeyError, match="'pot' is referred to"):
            products.delete("pot")

    def test_what_its_class_can_not_be_made_of(self, tmp_path: Path) -> None:
        """A record that the class can't be made of any more goes with all that refers to it."""
        with memdb.open(tmp_path / "a") as db:
            db.collection(Product, name="products", key="code").insert(Product("tea"))
            db.collection(Part, key="name").insert(Part("bag", "tea"))
        with memdb.open(tmp_path / "a") as db:
            products = db.collection(NewProduct, name="products", key="code")
            parts = db.collection(Part, key="name")
            with pytest.raises(memdb.DecodeError):
                list(products)
            assert 1 == products.clear()

            assert 0 == len(parts)

    def test_what_is_damaged_can_go(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A record that can't be read any more can be deleted, whoever refers to it."""
        with memdb.open(tmp_path / "a") as db:
            products = db.collection(Product, name="products", key="code", cache="none")
            parts = db.collection(Part, key="name")
            products.insert_many([Product("tea"), Product("mug")])
            parts.insert(Part("bag", "tea"))
            decode = products._store.decoding.decode

            def damaged(writer_id: int, payload: bytes, number: int) -> Any:
                record = decode(writer_id, payload, number)
                if record.code == "tea":
                    raise memdb.DamageError("damaged")
                return record

            monkeypatch.setattr(products._store.decoding, "decode", damaged)
            assert 2 == products.clear()

            assert 1 == len(parts)
            monkeypatch.undo()
            parts.clear()


@dataclass
class Use:
    product: Annotated[tuple[str, int], ForeignKey("versions", "cascade")]
    id: int = 0


@dataclass
class Uses:
    products: list[Annotated[tuple[str, int], ForeignKey("versions", "set_none")]]
    id: int = 0


@dataclass
class Account:
    customer_id: Annotated[int, ForeignKey(Customer, "cascade")]


@dataclass
class OptionalProfile:
    id: Annotated[int | None, ForeignKey(Customer, "restrict")] = None


@dataclass
class Profile:
    id: Annotated[int, ForeignKey(Customer, "cascade")] = 0
    text: str = ""


class TestIndexes:
    """How the records that refer are found."""

    def test_dropped(self, shop: SimpleNamespace) -> None:
        """Without its index a key is enforced all the same, only later."""
        shop.orders.indexes.drop("customer_id")
        shop.lines.indexes.drop("order_id")
        shop.notes.indexes.drop("line_ids")
        with refused(shop), shop.db.transaction():
            shop.orders.update(1, customer_id=2)
            shop.customers.delete(1)
        with shop.db.transaction():
            shop.lines.insert(Line(1))
            shop.orders.delete(1)

        assert [] == [*shop.lines, *shop.notes[1].line_ids]

    def test_unhashable_without_it(self, shop: SimpleNamespace) -> None:
        """What could be in no index leads nowhere, and disturbs no deletion."""
        shop.notes.indexes.drop("line_ids")
        with pytest.raises(ForeignKeyError, match="a value of type list"), shop.db.transaction():
            shop.notes.insert(Note(None, [[1]]))  # type: ignore[list-item]
            shop.lines.delete(1)

            assert [[1]] == shop.notes[4].line_ids

    def test_unique(self, db: memdb.Database) -> None:
        """A unique index on the field serves as well."""
        customers = db.collection(Customer)
        trips = db.collection(Trip, indexes=[memdb.HashIndex("customer_id", unique=True)])
        customers.insert_many([Customer("Ann"), Customer("Bob")])
        trips.insert_many([Trip(1), Trip(2)])
        with pytest.raises(memdb.DuplicateKeyError):
            trips.insert(Trip(1))
        with pytest.raises(ForeignKeyError):
            trips.insert(Trip(3))
        customers.delete(2)

        assert [1] == trips.ids()

    def test_untyped(self, db: memdb.Database) -> None:
        """A record of which the serializer proves nothing is found as well."""
        customers, loose = db.collection(Customer), db.collection(Loose)
        customers.insert_many([Customer("Ann"), Customer("Bob")])
        loose.insert_many([Loose(1, 5), Loose(2, "text")])
        loose.insert(Loose(None))
        with pytest.raises(ForeignKeyError):
            loose.insert(Loose(1.0))
        customers.delete(1)

        assert [2, None] == [each.customer for each in loose]


@dataclass
class Loose:
    customer: Annotated[Any, ForeignKey(Customer, "cascade")]
    other: Any = None
    id: int = 0


class TestFromBefore:
    """Records that were in the file before the key was declared."""

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        """A file with orders that lead nowhere, or hold what equals an identity and is none."""
        with memdb.open(tmp_path / "a") as db:
            db.collection(Customer).insert_many([Customer("Ann"), Customer("Bob")])
            db.collection(OldOrder, name="Order").insert_many(
                [OldOrder(1), OldOrder(9), OldOrder(True)]
            )
        return tmp_path / "a"

    def test_dangling_until_written(self, path: Path) -> None:
        """They can be read, and deleted, and are refused when they are written."""
        with memdb.open(path) as db:
            customers, orders = db.collection(Customer), db.collection(Order)

            assert [1, 9, True] == [order.customer_id for order in orders]
            assert 2 == len(db.check())
            with pytest.raises(ForeignKeyError, match="of the record 2 refers to 9"):
                orders.update(2, total=7)
            orders.delete(2)
            orders.delete(1)
            customers.delete(1)
            assert ["Order: customer_id of the record 3 refers to a record of Customer that is not"
                    " there"] == [finding.message for finding in db.check()]  # fmt: skip

    def test_equal_values_of_other_types_refer_to_nothing(self, path: Path) -> None:
        """So they hold no record back."""
        with memdb.open(path) as db:
            customers, orders = db.collection(Customer), db.collection(Order)
            orders.delete(1)
            customers.delete(1)

            assert [9, True] == [order.customer_id for order in orders]

    def test_check_leaves_out_what_it_can_not_tell(self, path: Path) -> None:
        """Keys whose target was not asked for are no findings; nor is what a transaction does."""
        with memdb.open(path) as db:
            orders = db.collection(Order)
            assert [] == db.check()
            customers = db.collection(Customer)
            orders.delete(2)
            orders.delete(3)
            with contextlib.suppress(KeyError), db.transaction():
                customers.delete(1)

                assert [] == db.check()
                raise KeyError

    @pytest.mark.parametrize(("at", "way"), [(3, "insert"), (2, "delete")])
    def test_check_while_others_write(
        self, path: Path, monkeypatch: pytest.MonkeyPatch, at: int, way: str
    ) -> None:
        """What is there again, or gone, by the time that it is looked at is no finding."""
        with memdb.open(path) as db:
            customers, orders = db.collection(Customer), db.collection(Order)
            store, find = customers._store, customers._store.find_number
            orders.delete(3)
            found: list[int] = []

            def late(identity: Any) -> int:
                found.append(find(identity))
                if len(found) == at and way == "insert":
                    customers.insert(Customer("Cid", id=9))
                elif len(found) == at:
                    orders.delete(2)
                return found[-1]

            monkeypatch.setattr(store, "find_number", late)

            assert [] == db.check()
            assert len(found) > at

    def test_check_and_records_of_older_forms(self, path: Path) -> None:
        """What can't be read with the class is left out as well."""
        with memdb.open(path) as db:
            db.collection(Customer)
            db.collection(NewOrder, name="Order")

            assert [] == db.check()


@dataclass
class OldOrder:
    customer_id: int | None
    total: int = 0
    id: int = 0


@dataclass
class NewOrder:
    missing: int
    customer_id: Annotated[int | None, ForeignKey(Customer, "restrict")] = None
    id: int = 0


class TestPolymorphic:
    def test_a_key_of_one_class(self, db: memdb.Database) -> None:
        """In a collection of several classes a key holds for the field of its name."""
        customers = db.collection(Customer)
        papers = db.collection(Letter | Memo, name="papers")
        customers.insert(Customer("Ann"))
        papers.insert_many([Letter(1), Memo("x")])
        with pytest.raises(ForeignKeyError):
            papers.insert(Letter(2))
        customers.delete(1)

        assert [Memo("x", 2)] == list(papers)

    def test_as_target(self, db: memdb.Database) -> None:
        """A reference to one of the classes leads to the collection that holds it."""
        papers = db.collection(Letter | Memo, name="papers")
        scans = db.collection(Scan)
        db.collection(Customer)
        papers.insert(Memo("x"))
        scans.insert(Scan(1))
        with pytest.raises(ForeignKeyError):
            scans.insert(Scan(2))
        papers.delete(1)

        assert 0 == len(scans)


@dataclass
class Letter:
    customer_id: Annotated[int, ForeignKey(Customer, "cascade")]
    id: int = 0


@dataclass
class Memo:
    text: str
    id: int = 0


@dataclass
class Scan:
    paper_id: Annotated[int, ForeignKey(Memo, "cascade")]
    id: int = 0


class TestRaces:
    """What another thread does in between, made to happen."""

    def test_a_key_that_comes_in_between(
        self, db: memdb.Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A deletion that began before the keys were known looks again under the lock."""
        customers = db.collection(Customer)
        customers.insert_many([Customer("Ann"), Customer("Bob")])
        engine = db._engine
        autocommit = engine.autocommit

        def late(action: Any) -> Any:
            monkeypatch.undo()
            orders = db.collection(Order)
            if not len(orders):
                orders.insert(Order(1))
            return autocommit(action)

        monkeypatch.setattr(engine, "autocommit", late)
        with pytest.raises(ForeignKeyError):
            customers.delete(1)

        assert 2 == len(customers)

    def test_a_key_that_comes_in_between_clear(
        self, db: memdb.Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """So does clear()."""
        customers = db.collection(Customer)
        customers.insert_many([Customer("Ann"), Customer("Bob")])
        engine = db._engine
        autocommit = engine.autocommit

        def late(action: Any) -> Any:
            monkeypatch.undo()
            db.collection(Trip).insert(Trip(1))
            return autocommit(action)

        monkeypatch.setattr(engine, "autocommit", late)

        assert 2 == customers.clear()
        assert 0 == len(db.collection(Trip))

    @pytest.mark.parametrize(
        "name", [name for name in WRITES if name not in ("insert", "put a new one")]
    )
    def test_a_target_that_goes_in_between(
        self, shop: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        """A record that was there when a write began, and is not when it has the lock."""
        engine = shop.db._engine
        autocommit, begin = engine.autocommit, engine.begin

        def delete_first(go_on: Any) -> Any:
            def late(argument: Any) -> Any:
                monkeypatch.undo()
                shop.customers.delete(2)
                return go_on(argument)

            return late

        monkeypatch.setattr(engine, "autocommit", delete_first(autocommit))
        monkeypatch.setattr(engine, "begin", delete_first(begin))
        with pytest.raises(ForeignKeyError):
            WRITES[name](shop.orders, 2)

        assert [1, 1] == [order.customer_id for order in shop.orders]

    @pytest.mark.parametrize("code", ["tea", "mug"])
    def test_a_natural_key_whose_number_another_has(
        self, monkeypatch: pytest.MonkeyPatch, code: str
    ) -> None:
        """The number of a key proves nothing when its record is another by then."""
        monkeypatch.setattr(_natural_key, "digest", lambda *parts: 5)
        db = memdb.open(None)
        products = db.collection(Product, name="products", key="code")
        offers = db.collection(Offer)
        products.insert(Product("tea"))
        engine = db._engine
        autocommit = engine.autocommit
        is_late = False

        def late(action: Any) -> Any:
            nonlocal is_late
            if not is_late:
                is_late = True
                products.delete("tea")
                products.insert(Product(code, 2))
            return autocommit(action)

        monkeypatch.setattr(engine, "autocommit", late)
        with contextlib.nullcontext() if code == "tea" else pytest.raises(ForeignKeyError):
            offers.insert(Offer("tea"))

        assert code == "tea" or not len(offers)
        db.close()
