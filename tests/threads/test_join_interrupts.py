"""Interrupts in the middle of joined queries: nothing is left half done."""

from __future__ import annotations

import contextlib
import gc
import random
import signal
from collections.abc import Callable
from typing import Any

# NumPy imports it late, and an interrupt in the middle of that says nothing of memdb.
import numpy.ma  # noqa: F401
import pytest

import memdb
from memdb import F, P
from tests.support.effort import every
from tests.support.interrupts import Interrupt, Timer, interrupted_at
from tests.support.shop import Order, OrderLine, Shop, add_indexes, make_shop
from tests.threads.test_interrupts import in_time

# More than any of the questions here has.
MOST_PLACES = 60_000

# Each place needs a fresh shop.
STEPS = pytest.mark.parametrize(
    "step", [199, pytest.param(every(5), marks=pytest.mark.slow, id="5")]
)

# An interrupt while a generator is thrown away comes out nowhere.
LOST = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


def _nested(shop: Shop) -> Any:
    return shop.customers.where().join_many(
        shop.orders.where().order_by("-total"),
        back=F.customer_id,
        then=lambda q: q.join_many(shop.lines, back=F.order_id),
    )


QUESTIONS: dict[str, Callable[[Shop], Any]] = {
    "all": lambda shop: shop.orders.where().join(shop.customers, on=F.customer_id).all(),
    "count": lambda shop: (
        shop.orders.where().join(shop.customers, on=F.customer_id, how="inner").count()
    ),
    "prepared": lambda shop: (
        shop.orders.where(F.total >= P.least)
        .join(shop.customers, on=F.customer_id)
        .where(F.customer.region == P.region)
        .prepare()(least=10, region="EU")
    ),
    "nested": lambda shop: _nested(shop).all(),
    "grouped": lambda shop: (
        shop.orders.where()
        .join(shop.customers, on=F.customer_id)
        .group_by(F.customer.region)
        .select(F.customer.region, F.total.sum_())
        .all()
    ),
}


@pytest.mark.parametrize("is_indexed", [False, True], ids=["plain", "indexed"])
@pytest.mark.parametrize("name", QUESTIONS)
@STEPS
@LOST
def test_every_place(name: str, is_indexed: bool, step: int) -> None:
    """Wherever a question is interrupted, the next ones are right, and writing goes on."""
    question = QUESTIONS[name]
    interrupted = 0
    for number in range(0, MOST_PLACES, step):
        with memdb.open(None) as db:
            shop = make_shop(db)
            if is_indexed:
                add_indexes(shop)
            place = ""
            try:
                with interrupted_at(number) as interrupt:
                    found = question(shop)
            except Interrupt as error:
                place = str(error)
            if not interrupt.is_done:
                assert found == question(shop)
                break
            interrupted += 1
            _check_goes_on(shop, question, place)
    else:
        raise AssertionError("more places than expected")

    assert interrupted > 1


def _check_goes_on(shop: Shop, question: Callable[[Shop], Any], place: str) -> None:
    """Check that answers are right before and after changes on every side."""
    with memdb.open(None) as db:
        other = make_shop(db)
        assert question(other) == in_time(lambda: question(shop)), place
        for each in (shop, other):
            _change(each)
        assert question(other) == in_time(lambda: question(shop)), place
        with shop.db.transaction(), db.transaction():
            for each in (shop, other):
                each.customers.delete(1)
                each.orders.update(4, customer_id=3)
            assert question(other) == question(shop), place
        assert question(other) == question(shop), place
        assert [] == shop.db.check(), place


def _change(shop: Shop) -> None:
    shop.customers.update(1, region="AS")
    identity = shop.orders.insert(Order(3, 70))
    shop.lines.insert(OrderLine(identity, 1, 9))
    shop.orders.delete(2)


@pytest.mark.parametrize("step", [11, pytest.param(1, marks=pytest.mark.slow)])
@LOST
def test_second_time(step: int) -> None:
    """Also when everything is compiled and read already, and after a change in between."""
    with memdb.open(None) as db:
        shop = make_shop(db)
        add_indexes(shop)
        query = _nested(shop)
        prepared = query.prepare()
        expected = query.to_dicts()
        for ask in (query.all, query.count, prepared, prepared.count, lambda: list(query)):
            for number in range(0, MOST_PLACES, step):
                # What the indexes have to take in at the next question.
                shop.orders.update(1, total=31)
                shop.orders.update(1, total=30)
                shop.lines.update(3, order_id=1)
                shop.lines.update(3, order_id=2)
                place = ""
                try:
                    with interrupted_at(number) as interrupt:
                        ask()
                except Interrupt as error:
                    place = str(error)
                assert expected == in_time(query.to_dicts), place
                assert len(expected) == query.count() == len(prepared()), place
                if not interrupt.is_done:
                    break


PREPARED: dict[str, Callable[[Shop], Any]] = {
    "all": lambda shop: shop.orders.where().join(shop.customers, on=F.customer_id),
    "pairs": lambda shop: shop.customers.where().join_many(
        shop.orders, on=(F.id, F.customer_id), as_="found"
    ),
    "inner": lambda shop: shop.orders.where(F.total >= P.least).join(
        shop.customers, on=F.customer_id, how="inner"
    ),
    "more": lambda shop: (
        shop.orders.where(F.total >= P.least)
        .join(shop.customers, on=F.customer_id)
        .where(F.customer.region == "EU")
        .order_by("-total")
    ),
    "nested": _nested,
}


@pytest.mark.parametrize("name", PREPARED)
@pytest.mark.parametrize("step", [23, pytest.param(3, marks=pytest.mark.slow)])
@LOST
def test_preparing(name: str, step: int) -> None:
    """An interrupted prepare() leaves nothing behind that the next one would stumble over."""
    with memdb.open(None) as db:
        shop = make_shop(db)
        query = PREPARED[name](shop)
        given = dict.fromkeys(query.prepare()._required, 15)  # type: ignore[attr-defined]
        expected = query.prepare()(**given)
        for number in range(0, MOST_PLACES, step):
            # All plans are made anew.
            shop.orders.indexes.add(memdb.HashIndex("customer_id", name="i"))
            shop.customers.indexes.add(memdb.SortedIndex("region", name="i"))
            place = ""
            try:
                with interrupted_at(number) as interrupt:
                    query.prepare()
            except Interrupt as error:
                place = str(error)
            prepared = query.prepare()
            for _ in range(2):
                assert expected == in_time(lambda prepared=prepared: prepared(**given)), place
                assert len(expected) == prepared.count(**given), place
            shop.orders.indexes.drop("i")
            shop.customers.indexes.drop("i")
            assert expected == prepared(**given), place
            if not interrupt.is_done:
                break
        assert number > step
        assert [] == db.check()


@pytest.mark.parametrize("name", PREPARED)
@pytest.mark.parametrize("step", [23, pytest.param(3, marks=pytest.mark.slow)])
@LOST
def test_preparing_again(name: str, step: int) -> None:
    """A prepared query that is interrupted while indexes let it be made anew is as fast as ever."""
    with memdb.open(None) as db:
        shop = make_shop(db)
        prepared: Any = PREPARED[name](shop).prepare()
        given = dict.fromkeys(prepared._required, 15)
        expected, is_fast = prepared(**given), prepared._fast is not None
        for number in range(0, MOST_PLACES, step):
            is_there = "i" in shop.orders.indexes
            for collection, field in ((shop.orders, "customer_id"), (shop.customers, "region")):
                if is_there:
                    collection.indexes.drop("i")
                else:
                    collection.indexes.add(memdb.HashIndex(field, name="i"))
            place = ""
            try:
                with interrupted_at(number) as interrupt:
                    (prepared if number % 2 else prepared.count)(**given)
            except Interrupt as error:
                place = str(error)
            assert expected == in_time(lambda: prepared(**given)), place
            assert len(expected) == prepared.count(**given), place
            if is_fast:
                assert prepared._fast(**given) is not None, place
            if not interrupt.is_done and number % 2:
                break
        assert number > step
        assert [] == db.check()


@pytest.mark.parametrize("step", [11, pytest.param(1, marks=pytest.mark.slow)])
@LOST
def test_inside_of_a_transaction(step: int) -> None:
    """An interrupted question takes nothing of a transaction with it."""
    with memdb.open(None) as db:
        shop = make_shop(db)
        for number in range(0, MOST_PLACES, step):
            with db.transaction():
                shop.orders.update(1, total=100 + number)
                with contextlib.suppress(Interrupt), interrupted_at(number) as interrupt:
                    _nested(shop).all()
                assert 100 + number == _nested(shop).first().orders[0].order.total
            assert 100 + number == shop.orders[1].total
            if not interrupt.is_done:
                break


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs a timer")
# Not by a signal, as that is the one that the timer uses.
@pytest.mark.timeout(120, method="thread")
def test_signals(no_callbacks: None) -> None:
    """By real signals at random moments, beside changes."""
    chance = random.Random(3)
    with memdb.open(None) as db:
        shop = make_shop(db)
        add_indexes(shop)
        query = (
            shop.orders.where()
            .join(shop.customers, on=F.customer_id)
            .join_many(shop.lines, back=F.order_id)
        )
        asks: list[Callable[[], Any]] = [query.all, query.count, query.prepare(), query.to_dicts]
        with Timer(3, 200e-6) as timer:
            for _ in range(600):
                shop.orders.update(chance.randint(1, 5), customer_id=chance.randint(1, 4))
                try:
                    try:
                        timer.start()
                        chance.choice(asks)()
                    finally:
                        timer.stop()
                except Interrupt:
                    pass
                expected = {
                    order.id: order.customer_id if order.customer_id in shop.customers else None
                    for order in shop.orders
                }
                found = {row.order.id: row.customer and row.customer.id for row in query}
                assert expected == found
            assert timer.count > 20
        assert [] == db.check()


@pytest.fixture
def no_callbacks() -> Any:
    """Take away the collector's callbacks, one of hypothesis: interrupts in them are lost."""
    before = gc.callbacks[:]
    gc.callbacks.clear()
    yield
    gc.callbacks.extend(before)
