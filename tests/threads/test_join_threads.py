"""Joins beside writers: every row is of one commit, in threads and in other processes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

import memdb
from benchmark.queries import heavy
from benchmark.queries.heavy_work import Products, Stamping, check_rows
from memdb import F
from tests.support.concurrently import and_then, run_all, switching_often, until
from tests.support.processes import Child

COUNT = 30
TURNS = 40

Write = Callable[[], None]


def filled(path: Path | None) -> Products:
    """Return a database with a few products."""
    products = Products.open(path)
    products.fill(COUNT)
    return products


def changing(products: Products, number: int, turns: int = TURNS) -> Write:
    """Return a function that changes one pair of products after the other."""
    writer = Stamping(products)

    def write() -> None:
        for turn in range(turns):
            writer.change(1 + (turn * 7 + number) % COUNT, stamp=2 * turn + number)

    return write


def ways_to_ask(products: Products) -> dict[str, Callable[[int], Any]]:
    """Return the query prepared, ad hoc, and as a right side that is a join itself."""
    tables = products.tables
    prepared = products.ask()

    def ad_hoc(pivot: int) -> Any:
        joined = tables["products"].where(F.range >= pivot).join(tables["infos"], back=F.product_id)
        return joined.join_many(tables["offers"], back=F.product_id).all()

    def sorted_after(pivot: int) -> Any:
        joined = tables["products"].where().join(tables["infos"], back=F.product_id, as_="info")
        joined = joined.join_many(tables["offers"], back=F.product_id)
        return joined.where(F.info.product_id >= pivot).order_by(F.info.product_id).all()

    return {"prepared": prepared, "ad hoc": ad_hoc, "sorted after": sorted_after}


def test_reading_part_by_part_is_noticed() -> None:
    """Rows put together from two commits are refused, whatever was read before the change."""
    products = filled(None)
    with products.db:
        before = products.ask()(1)
        Stamping(products).change(7, stamp=1)
        after = products.ask()(1)
    rows = list(zip(before, after, strict=True))
    mixtures = {
        "parts of several commits": [(old[0], new[1], new[2]) for old, new in rows],
        "of different commits": [old if old[0].id == 7 else new for old, new in rows],
        "offers, not": [(new[0], new[1], new[2][1:]) for _, new in rows],
        "an offer of another": [(p, i, (*o[1:], rows[0][1][2][0])) for _, (p, i, o) in rows[1:]],
    }

    check_rows(before, COUNT)
    check_rows(after, COUNT)
    for message, mixture in mixtures.items():
        with pytest.raises(AssertionError, match=message):
            check_rows(mixture, COUNT)


@pytest.mark.parametrize("way", ["prepared", "ad hoc", "sorted after"])
def test_rows_are_of_one_commit(way: str) -> None:
    """Readers beside two writers see what each transaction changes wholly or not at all."""
    products = filled(None)
    with switching_often(), products.db:
        ask, is_over = ways_to_ask(products)[way], threading.Event()
        ends = [threading.Event(), threading.Event()]

        def write(number: int) -> None:
            and_then(ends[number], changing(products, number))()
            if all(end.is_set() for end in ends):
                is_over.set()

        def read_all() -> None:
            check_rows(ask(1), COUNT)

        def read_half() -> None:
            check_rows(ask(COUNT // 2), COUNT)

        run_all(
            partial(write, 0),
            partial(write, 1),
            until(is_over, read_all),
            until(is_over, read_half),
        )
        check_rows(ask(1), COUNT)

        assert [] == products.db.check()


def test_counts_are_of_one_commit() -> None:
    """So are counts, sums and the rows of a join from the other side."""
    products = filled(None)
    with switching_often(), products.db:
        tables, is_over = products.tables, threading.Event()
        total = COUNT * heavy.OFFERS_A_PRODUCT
        from_offers = tables["offers"].where().join(tables["products"], on=F.product_id)

        def count() -> None:
            assert total == from_offers.count()
            assert (
                COUNT
                == tables["products"]
                .where()
                .join_many(tables["infos"], back=F.product_id, how="inner")
                .count()
            )

        def compare() -> None:
            for offer, product in from_offers:
                assert offer.stamp == product.stamp

        run_all(
            and_then(is_over, changing(products, 0)),
            until(is_over, count),
            until(is_over, compare),
        )


def test_a_transaction_sees_its_own_changes() -> None:
    """Inside a transaction a join sees what it has changed, while others see nothing of it."""
    products = filled(None)
    with products.db:
        ask = products.ask()
        before = ask(1)
        elsewhere: list[Any] = []
        with products.db.transaction():
            changing(products, 1, turns=3)()
            inside = ask(1)
            thread = threading.Thread(target=lambda: elsewhere.append(ask(1)))
            thread.start()
            thread.join(60)
        after = ask(1)

    check_rows(inside, COUNT)
    assert inside == after != before
    assert [before] == elsewhere


def write_pairs(connection: Connection, path: str) -> None:
    """Change pairs until there is a message; a child process runs this."""
    products = Products.open(Path(path))
    with products.db:
        writer, number = Stamping(products), 0
        connection.send("ready")
        while not connection.poll():
            writer.change(1 + number % COUNT, stamp=number)
            number += 1


def test_readers_in_other_processes(tmp_path: Path) -> None:
    """A process that opens the file beside its writer again and again sees whole commits only."""
    path = tmp_path / "products.memdb"
    filled(path).db.close()
    stamps = set()
    with Child(write_pairs, str(path)) as child:
        child.receive()
        for _ in range(30):
            products = Products.open(path, "r")
            with products.db:
                for way in ways_to_ask(products).values():
                    rows = way(1)
                    check_rows(rows, COUNT)
                stamps.add(tuple(product.stamp for product, _, _ in rows))
        child.send("end")
        assert 0 == child.wait()
    with memdb.open(path) as db:
        assert [] == db.check()

    assert len(stamps) > 1
