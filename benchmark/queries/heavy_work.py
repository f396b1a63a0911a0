"""What the readers and writers of products do, and what a reader may never see.

The two kinds of writers: one puts later states of single records, as the original does; the other
changes all that belongs to two products in one transaction, so that half of it would show.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import memdb
from benchmark.queries import heavy, ours
from benchmark.queries.fixture import NetRandom
from memdb import F, P

Ask = Callable[[int], Sequence[Any]]
Check = Callable[[Sequence[Any]], None]

_PAUSE_S = 0.001
_OFFERS_A_TURN = 5
_SEED = 123


@dataclass
class Products:
    """An open database of products.

    Attributes:
        db: The database.
        tables: Its collections, by the names of `heavy.CLASSES`.
    """

    db: memdb.Database
    tables: dict[str, Any]

    @classmethod
    def open(cls, path: Path | None, mode: Any = "rw") -> Products:
        """Open a file, or make a database in memory."""
        db = memdb.open(path, mode)
        return cls(db, ours.open_tables(db, heavy.CLASSES, ours.heavy_indexes()))

    def fill(self, count: int) -> None:
        """Insert ``count`` products with all that belongs to them."""
        with self.db.transaction():
            for name, rows in heavy.make_tables(count).items():
                self.tables[name].insert_many(rows)

    def ask(self) -> Ask:
        """Return the query: the products from a pivot on, each with its info and its offers."""
        products, infos, offers = (self.tables[name] for name in heavy.CLASSES)
        made: Any = (
            products.where(F.range >= P.pivot)
            .join(infos, back=F.product_id)
            .join_many(offers, back=F.product_id)
            .prepare()
        )
        return lambda pivot: made(pivot=pivot)


@dataclass
class Reads:
    """What a reader has seen."""

    queries: int = 0
    rows: int = 0


def read(
    ask: Ask,
    product_count: int,
    number: int,
    is_over: Callable[[], bool],
    check: Check | None = None,
) -> Reads:
    """Ask from random pivots on until it is over; look at every row if there is a ``check``."""
    chosen, reads = NetRandom(_SEED + number), Reads()
    while not is_over():
        rows = ask(1 + chosen.below(product_count))
        reads.queries += 1
        reads.rows += len(rows)
        if check is not None:
            check(rows)
    return reads


class Putting:
    """A writer that puts one info and five offers a turn, all of them made before."""

    def __init__(self, products: Products) -> None:
        self._tables = products.tables
        rows = heavy.make_tables(len(self._tables["products"]))
        self._infos = heavy.info_updates(rows["infos"])
        self._offers = heavy.offer_updates(rows["offers"])

    def write(self, number: int, is_over: Callable[[], bool]) -> int:
        """Put until it is over, with a pause after each turn; return how many records."""
        chosen, puts = random.Random(_SEED + number), 0
        put_info, put_offer = self._tables["infos"].put, self._tables["offers"].put
        while not is_over():
            put_info(chosen.choice(chosen.choice(self._infos)))
            for _ in range(_OFFERS_A_TURN):
                put_offer(chosen.choice(chosen.choice(self._offers)))
            puts += 1 + _OFFERS_A_TURN
            time.sleep(_PAUSE_S)
        return puts


class Stamping:
    """A writer that changes two products at once.

    One transaction gives a product and its partner, at the other end of the table, their infos
    and all their offers one new stamp, and moves an offer from one to the other.
    """

    def __init__(self, products: Products) -> None:
        self._db = products.db
        self._tables = products.tables
        self._count = len(self._tables["products"])

    def write(self, number: int, is_over: Callable[[], bool]) -> int:
        """Change pairs until it is over, with a pause after each; return how many records."""
        chosen, written = random.Random(_SEED + number), 0
        while not is_over():
            one = chosen.randint(1, self._count)
            written += self.change(one, stamp=chosen.randrange(2**40))
            time.sleep(_PAUSE_S)
        return written

    def change(self, one: int, stamp: int) -> int:
        """Change a product and its partner; return how many records were written."""
        products, infos, offers = (self._tables[name] for name in heavy.CLASSES)
        other, written = self._count + 1 - one, 0
        with self._db.transaction():
            moved = offers.where(product_id=one).limit(1).ids()
            offers.where(F.id.in_(moved)).update(product_id=other)
            for identity in {one, other}:
                own = offers.where(product_id=identity)
                written += own.update(stamp=stamp)
                products.update(identity, stamp=stamp, offer_count=own.count())
                infos.update(identity, stamp=stamp)
                written += 2
        return written


def check_rows(rows: Sequence[Any], count: int) -> None:
    """Raise AssertionError for a row, or rows, that no commit of `Stamping` has ever left.

    Args:
        rows: The products from some pivot on.
        count: Of all products.
    """
    stamps: dict[int, int] = {}
    for product, info, offers in rows:
        seen = Counter(each.stamp for each in (product, info, *offers))
        if list(seen) != [product.stamp]:
            raise AssertionError(f"product {product.id}: parts of several commits, {seen}")
        if len(offers) != product.offer_count:
            raise AssertionError(
                f"product {product.id}: {len(offers)} offers, not {product.offer_count}"
            )
        if not {offer.product_id for offer in offers} <= {product.id}:
            raise AssertionError(f"product {product.id}: an offer of another product")
        stamps[product.id] = product.stamp
    for identity, stamp in stamps.items():
        if stamps.get(count + 1 - identity, stamp) != stamp:
            raise AssertionError(f"product {identity} and its partner are of different commits")
    if len(rows) == count:
        offers_found = sum(len(offers) for _, _, offers in rows)
        if offers_found != count * heavy.OFFERS_A_PRODUCT:
            raise AssertionError(f"{offers_found} offers in all")
