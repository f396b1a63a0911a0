"""Queries: pages and cursors."""

from __future__ import annotations

import binascii
import enum
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
import pytest

import memdb
from memdb import F
from memdb.errors import QueryError
from memdb.query import count_
from memdb.query._paging import Page
from memdb.storage import checksum32


class Color(enum.Enum):
    RED = "r"
    BLUE = "b"


@dataclass
class Item:
    a: Any = None
    b: Any = None
    color: Color | None = None
    id: int = 0


@dataclass
class User:
    name: str
    group: int = 0


@dataclass
class Reading:
    rate: float
    at: datetime
    n: int = 0
    id: int = 0


@dataclass
class Shop:
    kind: str
    id: int = 0


MIXED = [
    3, None, "x", 1.5, math.nan, True, "x", None, 3, b"b", Decimal("1.50"), UUID(int=5), 2**70,
    datetime(2020, 1, 1), datetime(2020, 10, 25, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin")),
    datetime(2020, 1, 1, tzinfo=UTC), "\ud800", [1, "a"], (1, "a"), math.inf, 0, False, "",
]  # fmt: skip


@pytest.fixture
def items(db: memdb.Database) -> memdb.Collection[Item]:
    """One of each of the mixed values, under 1 and on."""
    collection = db.collection(Item)
    collection.insert_many([Item(value, n % 3) for n, value in enumerate(MIXED)])
    return collection


def by_cursor(query: Any, take: int) -> list[Any]:
    """Return what the pages of a query join up to."""
    joined: list[Any] = []
    cursor = None
    while True:
        page = query.after(cursor).page(take=take)
        joined += page
        cursor = page.cursor
        if cursor is None:
            return joined


class TestPages:
    def test_parts(self, items: memdb.Collection[Item]) -> None:
        """A page is a sequence of its items, and knows the whole."""
        page = items.where().order_by("id").page(20, 2)

        assert [21, 22] == [item.id for item in page] == [item.id for item in page.items]
        assert (len(MIXED), 20, 2, 2) == (page.total, page.skip, page.take, len(page))
        assert (21, [22], True) == (page[0].id, [each.id for each in page[1:]], page[1] in page)
        assert page == items.where().order_by("id").page(20, 2) != items.where().page(20, 3)
        assert page != page.items
        assert repr(page) == f"Page({page.items!r}, total={len(MIXED)}, skip=20, take=2)"

    def test_is_typed_as_sequence(self) -> None:
        """It can't be hashed, as no list can, and an empty one is false."""
        page: Page[int] = Page([], total=3, skip=3, take=2)

        assert not page
        with pytest.raises(TypeError):
            hash(page)

    @pytest.mark.parametrize("take", [1, 2, 5, len(MIXED) - 1, len(MIXED), len(MIXED) + 1])
    @pytest.mark.parametrize("terms", [["a"], ["-a"], ["b", "-a"], ["-b"], []], ids=str)
    def test_join_up(self, items: memdb.Collection[Item], take: int, terms: list[str]) -> None:
        """Pages by skip, and pages by cursor, join up to the whole in every order."""
        query = items.where().order_by(*terms)
        whole = query.ids()
        by_skip = [
            item.id for skip in range(0, len(MIXED) + take, take) for item in query.page(skip, take)
        ]

        assert whole == by_skip
        assert whole == [item.id for item in by_cursor(query, take)]
        assert [(each,) for each in whole] == by_cursor(query.select("id"), take)
        assert whole == by_cursor(query.values("id"), take)

    def test_totals(self, items: memdb.Collection[Item]) -> None:
        """The total is what all() would give: skip, limit and cursor count."""
        query = items.where(F.id > 3).order_by("-id")

        assert 20 == query.page(take=5).total == query.page(50, 1).total == query.page().total
        assert [17, 4, 0] == [
            query.skip(3).page(1, 1).total, query.limit(4).page(0, 9).total,
            query.limit(0).page().total,
        ]  # fmt: skip
        assert 15 == query.after(query.page(take=5).cursor).page(take=2).total
        assert 3 == items.where().values("b").distinct().page(1, 1).total

    def test_inside_limits(self, items: memdb.Collection[Item]) -> None:
        """Pages divide what a query gives, and do not lead out of it."""
        query = items.where().order_by("id").skip(2).limit(5)

        assert [3, 4, 5, 6, 7] == [item.id for item in query.page()]
        assert [7] == [item.id for item in query.page(4, 10)]
        assert query.page(4, 10).cursor is None
        assert query.page(0, 4).cursor is not None

    def test_at_the_end(self, items: memdb.Collection[Item]) -> None:
        """The last page has no cursor, nor has an empty one."""
        query = items.where()
        count = len(MIXED)
        for page in (
            query.page(),
            query.page(count - 1, 1),
            query.page(count, 1),
            query.page(0, 0),
        ):
            assert page.cursor is None
        assert query.page(count - 2, 1).cursor is not None

    def test_made_of_several(self, items: memdb.Collection[Item]) -> None:
        """Pages of groups and distinct results have no cursor, and say so when asked."""
        for query in (items.where().group_by("b"), items.where().values("b").distinct()):
            page = query.page(1, 1)
            assert (1, 3) == (len(page), page.total)
            with pytest.raises(QueryError, match="have no cursor"):
                page.cursor  # noqa: B018
        cursor = items.where().page(take=1).cursor
        with pytest.raises(QueryError, match="have no cursor"):
            items.where().after(cursor).group_by("b").select(count_()).all()


class TestCursors:
    def test_through_changes(self, items: memdb.Collection[Item]) -> None:
        """What is inserted and deleted between two pages moves nothing else."""
        query = items.where().order_by("b", "-id")
        whole = query.ids()
        page = query.page(take=10)
        items.delete(whole[0])
        items.delete(whole[9])
        items.insert(Item(b=-1))

        assert whole[10:20] == [item.id for item in query.after(page.cursor).page(take=10)]

    def test_is_plain_text(self, items: memdb.Collection[Item]) -> None:
        """It can stand in an address as it is, and is the same in every process."""
        for terms in (["a"], ["-a", "b"], []):
            for skip in range(len(MIXED) - 1):
                cursor = items.where().order_by(*terms).page(skip, 1).cursor
                assert cursor is not None
                assert cursor.replace("-", "").replace("_", "").isalnum()
                assert cursor.isascii()

    def test_of_another_order(self, items: memdb.Collection[Item]) -> None:
        """A cursor is refused by any other order, at once or when the query is asked."""
        cursor = items.where().order_by("a").page(take=1).cursor
        for terms in (["-a"], ["b"], ["a", "b"], ["b", "a"], ["a.b"]):
            with pytest.raises(QueryError, match="belongs to another order"):
                items.where().order_by(*terms).after(cursor)
            query = items.where().after(cursor).order_by(*terms)
            for ask in (query.all, query.count, query.page, query.first, query.exists):
                with pytest.raises(QueryError, match="belongs to another order"):
                    ask()
        with pytest.raises(QueryError, match="belongs to another order"):
            items.where().after(cursor).all()

    def test_other_conditions(self, items: memdb.Collection[Item]) -> None:
        """It goes on in the same order of other records too."""
        cursor = items.where().order_by("id").page(take=5).cursor

        assert [8, 9] == items.where(F.id > 7).order_by(F.id).after(cursor).limit(2).ids()

    def test_of_another_collection(self, items: memdb.Collection[Item], db: memdb.Database) -> None:
        """It says nothing of another collection."""
        shops = db.collection(Shop)
        with pytest.raises(QueryError, match="belongs to another order"):
            shops.where().after(items.where().page(take=1).cursor).all()

    def test_begin(self, items: memdb.Collection[Item]) -> None:
        """None begins at the beginning."""
        query = items.where().order_by("a")
        cursor = query.page(take=3).cursor

        assert query.ids() == query.after(None).ids() == query.after(cursor).after(None).ids()

    @pytest.mark.parametrize(
        "text", ["", "x", "AAAA", "====", "Zm9v", "a b", "é", "\ud800", "null", "+/+/", "A" * 5000]
    )
    def test_no_cursor(self, items: memdb.Collection[Item], text: str) -> None:
        """Any other text is refused."""
        with pytest.raises(QueryError, match="is not the cursor of a page"):
            items.where().after(text)

    @pytest.mark.parametrize("given", [5, b"AAAA", True, ["x"], object])
    def test_no_text(self, items: memdb.Collection[Item], given: Any) -> None:
        """Anything but a text is refused."""
        with pytest.raises(QueryError, match="takes the cursor of a page"):
            items.where().after(given)

    def test_broken(self, items: memdb.Collection[Item]) -> None:
        """A cursor that was cut, or in which a letter is another, is refused and nothing else."""
        cursor = items.where().order_by("a", "-b").page(take=1).cursor
        assert cursor is not None
        for place in range(len(cursor)):
            other = "A" if cursor[place] != "A" else "B"
            for broken in (cursor[:place], cursor[:place] + other + cursor[place + 1 :]):
                with pytest.raises(QueryError):
                    items.where().order_by("a", "-b").after(broken).all()

    @pytest.mark.parametrize(
        "content",
        [
            None,
            [],
            {},
            [1],
            [2, b"", [], 1],
            [1, b"", 5, 1],
            [1, b"", [5], 1],
            [1, b"", [[["?"]]], 1],
        ],
        ids=repr,
    )
    def test_forged(self, items: memdb.Collection[Item], content: Any) -> None:
        """What only looks like a cursor is refused too."""
        data = msgspec.msgpack.encode(content)
        data = checksum32(data).to_bytes(4, "little") + data
        text = binascii.b2a_base64(data, newline=False).rstrip(b"=").decode()
        with pytest.raises(QueryError):
            items.where().after(text.replace("+", "-").replace("/", "_")).all()

    def test_enum_members(self, db: memdb.Database) -> None:
        """Classes that the annotations name come through a cursor."""
        items = db.collection(Item)
        items.insert_many([Item(color=color) for color in (Color.BLUE, None, Color.RED)])

        assert [2, 3, 1] == [item.id for item in by_cursor(items.where().order_by("color"), 1)]

    @pytest.mark.parametrize("indexes", [[], ["rate", "at", "n"]], ids=str)
    @pytest.mark.parametrize("term", ["rate", "-rate", "at", "-at", "n", "-n"])
    def test_what_comparisons_do_not_order(
        self, db: memdb.Database, indexes: list[str], term: str
    ) -> None:
        """Floats that are NaN and datetimes of all zones, as annotated, come in the total order."""
        readings = db.collection(Reading, indexes=list(map(memdb.SortedIndex, indexes)))
        rates = [1.5, math.nan, -math.inf, 0.0, -0.0, math.nan, 2.5]
        times = [datetime(2020, 1, 3 - n % 3, tzinfo=None if n % 2 else UTC) for n in range(7)]
        readings.insert_many([Reading(*each) for each in zip(rates, times, range(7), strict=False)])
        query = readings.query().order_by(term)
        expected = query.all()

        for take in (1, 2, 5):
            assert repr(expected) == repr(by_cursor(query, take))
        page = query.page(0, 3)
        readings.insert_many([Reading(0.0, times[0], odd) for odd in (math.nan, True)])  # type: ignore[arg-type]
        found = [reading.id for reading in query.after(page.cursor)]
        ids = query.ids()
        assert found == ids[ids.index(page[-1].id) + 1 :] == query.after(page.cursor).ids()

    @pytest.mark.parametrize("is_indexed", [False, True])
    @pytest.mark.parametrize("way", ["count", "page", "all", "ids"])
    def test_records_that_are_not_as_their_class_says(
        self, tmp_path: Path, is_indexed: bool, way: str
    ) -> None:
        """They stand in the total order, though nobody has read them before."""
        indexes = [memdb.SortedIndex("kind")] if is_indexed else []
        odd: Any = [Shop("a"), Shop(None), Shop("b"), Shop("c"), Shop(1)]  # type: ignore[arg-type]
        with memdb.open(tmp_path / "shops") as db:
            shops = db.collection(Shop)
            shops.insert_many(odd)
            cursor = shops.query().order_by("-kind").page(0, 2).cursor
        with memdb.open(tmp_path / "shops") as db:
            after = db.collection(Shop, indexes=indexes).query().order_by("-kind").after(cursor)
            asked: dict[str, Callable[[], Any]] = {
                "count": after.count,
                "page": lambda: after.page().total,
                "all": lambda: len(after.all()),
                "ids": lambda: len(after.ids()),
            }

            assert 3 == asked[way]()
            assert [1, 5, 2] == after.ids()

    def test_value_that_none_can_hold(self, db: memdb.Database) -> None:
        """Then the page is there, and its cursor says why it is not."""
        items = db.collection(Item, serializer="pickle")
        items.insert_many([Item(slice(1)), Item(slice(2))])
        page = items.where().order_by("a").page(take=1)

        assert [1] == [item.id for item in page]
        with pytest.raises(QueryError, match="a cursor can't hold a value"):
            page.cursor  # noqa: B018


class TestNaturalKeys:
    def test_join_up(self, db: memdb.Database) -> None:
        """In an order of its own a collection with a natural key has cursors."""
        users = db.collection(User, key="name")
        users.insert_many([User(name, n % 3) for n, name in enumerate("qwertzuiopü")])
        for terms in (["group"], ["-group"], ["name"], ["-name"], [F.group % 2]):
            query = users.where().order_by(*terms)
            assert query.all() == by_cursor(query, 2)

    def test_without_an_order(self, db: memdb.Database) -> None:
        """Without one a page has none, and says what to do."""
        users = db.collection(User, key="name")
        users.insert_many([User("a"), User("b")])
        page = users.where().page(take=1)

        assert (1, 2) == (len(page), page.total)
        with pytest.raises(QueryError, match=r"Use order_by\(\)"):
            page.cursor  # noqa: B018
        cursor = users.where().order_by("name").page(take=1).cursor
        with pytest.raises(QueryError, match=r"Use order_by\(\)"):
            users.where().after(cursor).all()

    def test_large_numbers(self, items: memdb.Collection[Item]) -> None:
        """No number of results is too large."""
        query = items.where().skip(sys.maxsize * 2).limit(sys.maxsize * 2)

        assert ([], 0) == (query.all(), query.page(sys.maxsize * 2, sys.maxsize * 2).total)
