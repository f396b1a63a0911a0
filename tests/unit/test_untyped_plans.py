"""Plans that were made while every record was as its class says, after one comes that is not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
import pytest

import memdb
from memdb import F


@dataclass
class Visit:
    day: date
    s: str = ""
    a: int = 0
    flag: bool = False
    id: int = 0


DAYS = [date(2020, 1, 5), date(2020, 1, 1)]
# NumPy compares it with dates, but in the total order it is behind all of them.
DAY: Any = np.datetime64("2020-01-03")

QUERIES: dict[str, Callable[[memdb.Collection[Visit]], Any]] = {
    "all": lambda visits: visits.query().order_by("day"),
    "some": lambda visits: visits.where((F.s != "qq") & (F.a != 99)).order_by("day"),
    "last": lambda visits: visits.query().order_by("-day").limit(3),
    "true": lambda visits: visits.where(F.flag == True),  # noqa: E712
}
EXPECTED = {
    "all": [2, 1, 3],
    "some": [2, 1, 3],
    "last": [3, 1, 2],
    "true": [1],
}


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("is_prepared", [False, True], ids=["ad hoc", "prepared"])
def test_queries_from_before(db: memdb.Database, name: str, is_prepared: bool) -> None:
    """A query that was asked or prepared before answers rightly, each time that it is asked."""
    visits = db.collection(Visit)
    visits.insert_many([Visit(DAYS[0], flag=True), Visit(DAYS[1])])
    query = QUERIES[name](visits)
    ask: Callable[[], Any] = query.prepare() if is_prepared else query.all
    # The second time a plan answers, for which the records are in the cache by then.
    before = [[visit.id for visit in ask()] for _ in range(2)]
    odd: Any = 2
    visits.insert_many([Visit(DAY, flag=odd)])
    after = [[visit.id for visit in ask()] for _ in range(3)]

    assert [[number for number in EXPECTED[name] if number != 3]] * 2 == before
    assert [EXPECTED[name]] * 3 == after
