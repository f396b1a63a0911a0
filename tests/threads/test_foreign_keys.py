"""Foreign keys while other threads write: no reference ever leads nowhere."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import pytest

import memdb
from memdb import ForeignKey, ForeignKeyError
from tests.support.concurrently import and_then, run_all, switching_often, until


@pytest.fixture(autouse=True)
def often() -> Iterator[None]:
    """Let threads take turns often."""
    with switching_often():
        yield


@dataclass
class Customer:
    name: str
    id: int = 0


@dataclass
class Held:
    customer_id: Annotated[int, ForeignKey(Customer, "restrict")]
    id: int = 0


@dataclass
class Along:
    customer_id: Annotated[int, ForeignKey(Customer, "cascade")]
    id: int = 0


@dataclass
class Loose:
    customer_ids: Annotated[list[int], ForeignKey(Customer, "set_none")] = field(
        default_factory=list
    )
    id: int = 0


@dataclass
class Product:
    code: str
    n: int = 0


@dataclass
class Offer:
    product: Annotated[str, ForeignKey(Product, "restrict")]
    id: int = 0


CLASSES: dict[type, Any] = {
    Held: Held,
    Along: Along,
    Loose: lambda customer: Loose([customer, customer]),
}
WAYS: dict[str, Any] = {
    "insert": lambda db, collection, record: collection.insert(record),
    "insert_many": lambda db, collection, record: collection.insert_many([record, record]),
    "update": lambda db, collection, record: collection.update(1, record),
    "a transaction": lambda db, collection, record: in_transaction(db, collection, record),
}


def in_transaction(db: memdb.Database, collection: Any, record: Any) -> None:
    """Insert in a transaction."""
    with db.transaction():
        collection.insert(record)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_a_reference_and_the_deletion_of_its_target(tmp_path: Path, cls: Any, way: Any) -> None:
    """Of a write that refers to a record and its deletion one is first, and the other knows."""
    with memdb.open(tmp_path / "a") as db:
        customers, records = db.collection(Customer), db.collection(cls)
        customers.insert(Customer("first"))
        records.insert(CLASSES[cls](1))
        is_over = threading.Event()
        newest = [1]
        outcomes = {"written": 0, "refused": 0}

        def come_and_go() -> None:
            for _ in range(150):
                newest[0] = customers.insert(Customer("new"))
                with contextlib.suppress(ForeignKeyError):
                    customers.delete(newest[0])

        def refer() -> None:
            try:
                way(db, records, CLASSES[cls](newest[0]))
                outcomes["written"] += 1
            except ForeignKeyError:
                outcomes["refused"] += 1
            except memdb.RecordNotFoundError:
                # A cascade took along what was to be updated.
                records.put(cls(1, id=1) if cls is not Loose else Loose(id=1))

        def look() -> None:
            assert [] == db.check()

        run_all(and_then(is_over, come_and_go), until(is_over, refer), until(is_over, refer))
        look()

        assert outcomes["written"] + outcomes["refused"] > 0
    with memdb.open(tmp_path / "a") as db:
        db.collection(Customer)
        db.collection(cls)
        assert [] == db.check()


def test_readers_see_cascades_wholly(tmp_path: Path) -> None:
    """Whoever reads sees a record with all that refers to it, or nothing of them."""
    with memdb.open(tmp_path / "a") as db:
        customers, records = db.collection(Customer), db.collection(Along)
        is_over = threading.Event()

        def come_and_go() -> None:
            for _ in range(100):
                with db.transaction():
                    one = customers.insert(Customer("new"))
                    records.insert_many([Along(one)] * 5)
                customers.delete(one)

        def read() -> None:
            assert len(records) in (0, 5)
            assert len(list(records)) in (0, 5)

        run_all(and_then(is_over, come_and_go), until(is_over, read), until(is_over, read))

        assert 0 == len(records) == len(customers)


def test_natural_keys(tmp_path: Path) -> None:
    """The same for a target that is named by a text, which also changes all the time."""
    with memdb.open(tmp_path / "a") as db:
        products, offers = db.collection(Product, key="code"), db.collection(Offer)
        is_over = threading.Event()

        def come_and_go() -> None:
            for number in range(200):
                products.put(Product("tea", number))
                with contextlib.suppress(ForeignKeyError):
                    products.delete("tea")
                offers.clear()

        def refer() -> None:
            with contextlib.suppress(ForeignKeyError):
                offers.insert(Offer("tea"))

        run_all(and_then(is_over, come_and_go), until(is_over, refer), until(is_over, refer))

        assert [] == db.check()


def test_check_beside_writers(tmp_path: Path) -> None:
    """What `check` finds is never half of a change."""
    with memdb.open(tmp_path / "a") as db:
        customers, records = db.collection(Customer), db.collection(Along)
        is_over = threading.Event()

        def come_and_go() -> None:
            for _ in range(60):
                with db.transaction():
                    records.insert_many([Along(one) for one in (500, 501)])
                    customers.insert_many([Customer("x", 500), Customer("y", 501)])
                customers.clear()

        def check() -> None:
            assert [] == db.check()

        run_all(and_then(is_over, come_and_go), until(is_over, check))


def test_collections_that_are_asked_for_meanwhile(tmp_path: Path) -> None:
    """A collection whose keys lead to another may be asked for while that is deleted from."""
    for _ in range(30):
        with memdb.open(None) as db:
            customers = db.collection(Customer)
            customers.insert_many([Customer("x")] * 20)

            def delete(customers: Any = customers) -> None:
                for identity in range(1, 21):
                    with contextlib.suppress(ForeignKeyError):
                        customers.delete(identity)

            def ask(db: memdb.Database = db) -> None:
                records = db.collection(Held)
                for identity in range(20, 0, -1):
                    with contextlib.suppress(ForeignKeyError):
                        records.insert(Held(identity))

            run_all(delete, ask)

            assert [] == db.check()
