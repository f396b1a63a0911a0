"""What indexes and compiled queries once answered wrongly, or at too high a cost."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pytest

import memdb
from memdb._index_set import IndexSet
from memdb.indexes import Bucket, IdentityIndex, ScannedIdentities
from memdb.query import F, P, evaluate
from memdb.query._runtime import Runtime


@dataclass
class Item:
    a: int = 0
    b: int = 0
    s: str = ""
    tags: list[int] = field(default_factory=list)
    id: int = 0


@dataclass
class Keyed:
    k: str = ""
    a: int = 0
    b: int = 0
    tags: list[int] = field(default_factory=list)


INDEXES: dict[str, Callable[[], list[Any]]] = {
    "none": list,
    "hash": lambda: [memdb.HashIndex("a")],
    "unique": lambda: [memdb.HashIndex("a", unique=True)],
    "sorted": lambda: [memdb.SortedIndex("a")],
    "compound": lambda: [memdb.SortedIndex("a", "-b", name="both")],
    "column": lambda: [memdb.ColumnIndex("a")],
}
EACH_INDEX = pytest.mark.parametrize("indexes", INDEXES)


def items_with(db: memdb.Database, *indexes: Any, size: int = 6) -> memdb.Collection[Item]:
    """Return items whose ``a`` counts from 0, all of them read."""
    items = db.collection(Item, indexes=indexes)
    items.insert_many([Item(n, n % 2, str(n), [n]) for n in range(size)])
    list(items)
    return items


def every_answer(query: Any) -> list[list[int]]:
    """Return the identities that each way of asking finds."""
    return [
        [item.id for item in query.all()],
        [item.id for item in query],
        query.ids(),
        list(range(1, query.count() + 1)),
    ]


def check(items: memdb.Collection[Item], condition: Any) -> None:
    """Check that each way of asking finds what the condition says of each record."""
    expected = [item.id for item in items if evaluate(condition, item)]
    query = items.where(condition)
    rows, iterated, ids, counted = every_answer(query)

    assert expected == rows == iterated == ids
    assert len(expected) == len(counted)
    assert bool(expected) == query.exists()


# -- partial indexes ---------------------------------------------------------------------------

PARTIAL: dict[str, Callable[[], Any]] = {
    "hash": lambda: memdb.HashIndex("b", where=F.a > 3, name="part"),
    "sorted": lambda: memdb.SortedIndex("b", where=F.a > 3, name="part"),
    "unique": lambda: memdb.HashIndex("s", where=F.a > 3, name="part", unique=True),
    "set": lambda: memdb.SetIndex("tags", where=F.a > 3, name="part"),
}
ASKED: dict[str, Any] = {
    "hash": F.b == 1,
    "sorted": F.b >= 1,
    "unique": F.s == "9",
    "set": F.tags.contains(9),
}


@pytest.mark.parametrize("kind", PARTIAL)
@pytest.mark.parametrize("limits", [(3, 1), (1, 3), (3, 8), (3, 3.0), (1, 3, 8, 3)], ids=str)
def test_a_plan_of_a_partial_index_is_for_its_constants(
    db: memdb.Database, kind: str, limits: tuple[float, ...]
) -> None:
    """A query like one that a partial index answered, with another constant, is answered anew."""
    items = items_with(db, PARTIAL[kind](), size=20)
    for limit in limits:
        check(items, (F.a > limit) & ASKED[kind])


@pytest.mark.parametrize("kind", PARTIAL)
@pytest.mark.parametrize("limits", [(3, 10), (10, 3)], ids=str)
def test_a_plan_of_a_partial_index_is_for_the_place_of_its_condition(
    db: memdb.Database, kind: str, limits: tuple[int, int]
) -> None:
    """Which of two comparisons a partial index stands for may be another one the next time."""
    items = items_with(db, PARTIAL[kind](), size=20)
    for first, second in (limits, limits[::-1]):
        check(items, (F.a > first) & (F.a > second) & ASKED[kind])


def test_a_partial_index_inside_of_alternatives(db: memdb.Database) -> None:
    """The condition of a partial index may stand beside or in one arm of an ``|``."""
    items = items_with(db, PARTIAL["hash"](), memdb.HashIndex("s"), size=20)
    for limit in (3, 10, 1, 3):
        check(items, (F.a > 3) & (((F.a > limit) & (F.b == 1)) | (F.s == "6")))
        check(items, ((F.a > limit) & (F.b == 1)) | (F.s == "6"))
        check(items, ((F.a > limit) & (F.a > 3) & (F.b == 1)) | (F.s == "6"))


def test_the_sums_of_a_partial_index(db: memdb.Database) -> None:
    """Aggregates over a column are for their constants, beside a partial index too."""
    items = items_with(db, PARTIAL["sorted"](), memdb.ColumnIndex("a", name="c"), size=2_000)
    for limit in (3, 1, 1_990, 3):
        query = items.where(F.a > limit, F.b == 1)
        expected = [item.a for item in items if item.a > limit and item.b == 1]
        assert [len(expected), sum(expected), min(expected)] == [
            query.count(),
            query.sum("a"),
            query.min("a"),
        ]


# -- what matches nothing ----------------------------------------------------------------------


@EACH_INDEX
def test_an_empty_collection_of_values_is_of_its_own_query_only(
    db: memdb.Database, indexes: str
) -> None:
    """After ``in_([])``, which finds nothing, the same with values finds them."""
    items = items_with(db, *INDEXES[indexes]())
    for values in ([], [1, 2], [], [5]):
        check(items, F.a.in_(values))
        check(items, F.a.in_(values) & (F.s != "9"))
    found = items.where(F.a.in_(P.values)).prepare()
    for values in ([], [1, 2], [], [5]):
        assert values == [item.a for item in found(values=values)]
        assert len(values) == found.count(values=values)


@pytest.mark.parametrize(
    "ask",
    [
        lambda query: query.all(),
        lambda query: query.count(),
        lambda query: query.ids(),
        lambda query: query.exists(),
        lambda query: query.delete(),
        lambda query: query.update(b=1),
    ],
)
def test_what_can_not_be_compared_is_refused_beside_an_empty_collection(
    db: memdb.Database, ask: Callable[[Any], object]
) -> None:
    """That nothing can match lets no comparison pass that can never be made."""
    items = items_with(db, memdb.HashIndex("a"))
    with pytest.raises(memdb.QueryError):
        ask(items.where(F.a.in_([]) & (F.tags < 1.0)))


@pytest.mark.parametrize("indexes", ["none", "sorted", "compound", "column"])
@pytest.mark.parametrize(
    "condition", [F.a < "a", F.a.between(1, "b"), F.a.startswith("1"), F.a >= None], ids=str
)
def test_what_can_not_be_compared_is_refused_with_any_index(
    db: memdb.Database, indexes: str, condition: Any
) -> None:
    """A comparison that a class rules out is refused however it is asked."""
    items = items_with(db, *INDEXES[indexes]())
    query = items.where(condition)
    for ask in (query.all, query.count, query.exists, query.first, query.ids, query.delete):
        with pytest.raises(memdb.QueryError):
            ask()


# -- natural keys ------------------------------------------------------------------------------

KEYED_CONDITIONS = [
    (F.a == 0) | (F.b == 2),
    (F.a == 1) | (F.tags.contains(2)),
    (F.tags.contains(1)) | (F.b > 20),
    F.tags.contains(1) | F.tags.contains(2),
    F.a.in_([0, 1]),
    F.a.in_([2, 0]) | (F.b == 4),
    (F.a == 0) | (F.a == 1) | (F.a == 2),
    ((F.a == 0) | (F.b == 1)) & (F.b < 20),
    (F.b >= 3) | (F.a == 1),
]


@pytest.mark.parametrize("settings", [{}, {"cache": 7}], ids=str)
def test_unions_with_natural_keys(db: memdb.Database, settings: dict[str, Any]) -> None:
    """With natural keys each record comes once, in the order of writing, from several indexes."""
    indexes = [memdb.HashIndex("a"), memdb.SortedIndex("b"), memdb.SetIndex("tags")]
    keyed = db.collection(Keyed, key="k", indexes=indexes, **settings)
    keyed.insert_many([Keyed(f"k{n}", n % 3, n, [n % 4, n % 5]) for n in range(30)])

    def look() -> None:
        rows = list(keyed)
        for condition in KEYED_CONDITIONS:
            expected = [row.k for row in rows if evaluate(condition, row)]
            query = keyed.where(condition)
            found = query.prepare()
            # Twice: the second time rows are kept.
            for _ in range(2):
                assert expected == [row.k for row in query.all()], condition
                assert expected == [row.k for row in found()], condition
                assert expected == query.ids(), condition
                assert len(expected) == query.count() == found.count(), condition
                assert expected[:1] == [row.k for row in query.limit(1)], condition

    look()
    keyed.update("k3", a=1)
    keyed.put(Keyed("k0", 0, 2, [2]))
    keyed.delete("k5")
    keyed.insert(Keyed("k5", 2, 40, [1]))
    look()
    with db.transaction():
        keyed.update("k1", a=0, b=2)
        look()


# -- operands ----------------------------------------------------------------------------------


def iterators() -> Iterator[Iterable[int]]:
    """Iterate over what gives its values once."""
    yield iter([1, 2, 3])
    yield (value for value in (1, 2, 3))
    yield map(int, "123")
    yield iter({1: 0, 2: 0, 3: 0})


@EACH_INDEX
@pytest.mark.parametrize("settings", [{}, {"cache": "none"}], ids=str)
def test_an_iterator_as_a_parameter(
    db: memdb.Database, indexes: str, settings: dict[str, Any]
) -> None:
    """The values of an ``in_`` may come from an iterator, whatever was committed meanwhile."""
    items = db.collection(Item, indexes=INDEXES[indexes](), **settings)
    items.insert_many([Item(n, n % 2, str(n)) for n in range(6)])
    alone = items.where(F.a.in_(P.values)).prepare()
    beside = items.where(F.a.in_(P.values), F.s != "none").prepare()
    twice = items.where(F.a.in_(P.values) & (F.b.in_(P.values) | (F.b == 0))).prepare()
    ordered = items.where(F.a.in_(P.values)).order_by("-a").limit(2).prepare()

    def look() -> None:
        for found in (alone, beside):
            assert [[1, 2, 3]] * 4 == [
                [item.a for item in found(values=values)] for values in iterators()
            ]
            assert [3] * 4 == [found.count(values=values) for values in iterators()]
        assert [[1, 2, 3]] * 4 == [
            [item.a for item in twice(values=values)] for values in iterators()
        ]
        assert [[3, 2]] * 4 == [
            [item.a for item in ordered(values=values)] for values in iterators()
        ]

    # Before any record is read, and after it.
    look()
    list(items)
    look()
    for found in (alone, beside):
        for n, values in enumerate(iterators()):
            # The first attempt finds that somebody has committed.
            items.insert(Item(100 + n + len(items)))
            assert [1, 2, 3] == [item.a for item in found(values=values)]
        for n, values in enumerate(iterators()):
            items.insert(Item(200 + n + len(items)))
            assert 3 == found.count(values=values)
    with db.transaction():
        items.update(6, b=7)
        look()


@EACH_INDEX
def test_an_array_is_equal_to_nothing(db: memdb.Database, indexes: str) -> None:
    """A NumPy array as an operand is no match with an index as without one."""
    items = items_with(db, *INDEXES[indexes]())
    array = np.array([1, 2])
    found, among = items.where(F.a == P.x).prepare(), items.where(F.a.in_(P.x)).prepare()

    assert [[]] * 4 == every_answer(items.where(F.a == array))
    assert [[2], [2], [2], [1]] == every_answer(items.where(F.a.in_([array, 1])))
    assert [[2], [2], [2], [1]] == every_answer(items.where(F.a.in_([1, array])))
    assert [[4], [4], [4], [1]] == every_answer(items.where(F.a == np.int64(3)))
    assert not items.where(F.a == array).exists()
    assert [] == found(x=array)
    assert 0 == found.count(x=array)
    assert [2] == [item.id for item in among(x=[array, 1])]
    assert 1 == among.count(x=[array, 1])
    assert 0 == items.where(F.a == array).delete()


NANS: dict[str, Callable[[], list[Any]]] = {
    "none": list,
    "hash": lambda: [memdb.HashIndex("v")],
    "unique": lambda: [memdb.HashIndex("v", unique=True)],
    "sorted": lambda: [memdb.SortedIndex("v")],
    "compound": lambda: [memdb.SortedIndex("v", "w", name="both")],
    "second": lambda: [memdb.SortedIndex("w", "v", name="both")],
    "hash of two": lambda: [memdb.HashIndex("w", "v", name="both")],
}


@pytest.mark.parametrize("indexes", NANS)
def test_nothing_equals_a_nan(db: memdb.Database, indexes: str) -> None:
    """A NaN is not found by comparing with it, not even with the very object."""
    nan = math.nan
    notes = db.collection("notes", indexes=NANS[indexes]())
    notes.insert_many([{"v": nan, "w": 1}, {"v": 1.0, "w": 2}, {"w": 1}])
    list(notes)
    found = notes.where(F.v == P.x).prepare()
    both = notes.where(F.w == 1, F.v == P.x).prepare()

    for query in (
        notes.where(F.v == nan),
        notes.where(v=nan),
        notes.where(F.w == 1, F.v == nan),
        notes.where(F.v == nan, F.w >= 0),
        notes.where(F.v.in_([nan])),
    ):
        assert [] == query.all() == query.ids()
        assert 0 == query.count()
        assert not query.exists()
    assert [] == found(x=nan) == both(x=nan)
    assert 0 == found.count(x=nan) == both.count(x=nan)
    assert [2] == [note["id"] for note in found(x=1.0)]
    # An absent value is unequal to everything as well.
    assert {1, 3} == {note["id"] for note in notes if note.get("v") != 1.0}


# -- keys that can be changed ------------------------------------------------------------------


@dataclass(unsafe_hash=True)
class Point:
    x: int = 0


@dataclass
class Place:
    point: Point
    id: int = 0


@dataclass
class Line:
    point: tuple[Point, int]
    id: int = 0


WRITES: dict[str, Callable[[memdb.Collection[Any], Any], object]] = {
    "insert": lambda places, place: places.insert(place),
    "insert_many": lambda places, place: places.insert_many([place]),
    "put": lambda places, place: places.put(place),
    "update": lambda places, place: places.update(1, point=place.point),
    "function": lambda places, place: places.update(1, lambda old: place),
    "bulk": lambda places, place: places.where(F.id == 1).update(point=place.point),
}


@pytest.mark.parametrize("is_in_transaction", [False, True])
@pytest.mark.parametrize("way", WRITES)
@pytest.mark.parametrize("cls", [Place, Line])
def test_a_key_that_the_caller_changes_afterwards(
    db: memdb.Database, cls: Any, way: str, is_in_transaction: bool
) -> None:
    """What a program does to an object that it has written changes no key of an index."""

    def point(x: int) -> Any:
        return Point(x) if cls is Place else (Point(x), 1)

    places = db.collection(
        cls, indexes=[memdb.HashIndex("point", unique=True), memdb.HashIndex("point", name="p")]
    )
    places.insert(cls(point(0)))
    mine = Point(1)
    written = cls(mine if cls is Place else (mine, 1))
    if is_in_transaction:
        with db.transaction():
            WRITES[way](places, written)
    else:
        WRITES[way](places, written)
    mine.x = 77

    with pytest.raises(memdb.DuplicateKeyError):
        places.insert(cls(point(1)))
    assert 1 == places.where(F.point == point(1)).count()
    assert 0 == places.where(F.point == point(77)).count()
    places.insert(cls(point(77)))
    assert [] == db.check()


def test_what_a_query_gives_changes_no_key(db: memdb.Database) -> None:
    """Keys of results, changed by the program, are still found as they are stored."""
    places = db.collection(
        Place, indexes=[memdb.HashIndex("point", unique=True), memdb.SortedIndex("id")]
    )
    places.insert_many([Place(Point(1)), Place(Point(2))])
    for place in (*places.where(F.point == Point(1)), *places.query().order_by("id"), *places):
        place.point.x += 50

    assert [1] == places.where(F.point == Point(1)).ids()
    with pytest.raises(memdb.DuplicateKeyError):
        places.insert(Place(Point(2)))


# -- what the check of a database says ---------------------------------------------------------


@dataclass
class Loose:
    a: int = 0
    b: float | None = None
    id: int = 0


def test_a_column_that_can_not_serve_any_more_is_whole(db: memdb.Database) -> None:
    """A value that no column holds, written after it was built, is no damage."""
    items: memdb.Collection[Any] = db.collection(Loose, indexes=[memdb.ColumnIndex("a")])
    items.insert_many([Loose(n) for n in range(200)])
    assert sum(range(200)) == items.query().sum("a")
    items.update(1, a="text")

    assert 1 == items.where(F.a == "text").count()
    assert [] == db.check()


@pytest.mark.parametrize("is_first", [True, False])
def test_an_int_that_no_float_holds_in_a_column(db: memdb.Database, is_first: bool) -> None:
    """An int beyond the floats in a column of floats is left to the records."""
    items: memdb.Collection[Any] = db.collection(Loose)
    items.insert_many([Loose(0, float(n)) for n in range(1, 2_000)])
    if is_first:
        items.insert(Loose(0, 10**400))
    items.indexes.add(memdb.ColumnIndex("b"))
    items.where(F.b > 3.0).count()
    if not is_first:
        items.insert(Loose(0, 10**400))

    assert 1_997 == items.where(F.b > 3.0).count()
    assert 10**400 == items.query().max("b")
    assert [] == db.check()


def test_the_check_of_a_sorted_unique_index(db: memdb.Database) -> None:
    """Records without a value in a unique SortedIndex are no duplicates, nor for the check."""
    items = db.collection(Loose, indexes=[memdb.SortedIndex("b", unique=True)])
    items.insert_many([Loose(1), Loose(1), Loose(1, 2.0)])

    assert [1, 2, 3] == items.query().order_by("b").ids()
    assert [] == db.check()


def test_the_check_of_keys_of_any_kind(db: memdb.Database) -> None:
    """Lists, NaNs and equal values of several types as keys, or no records at all, are whole."""
    notes = db.collection(
        "notes",
        indexes=[
            memdb.HashIndex("v", name="hash"),
            memdb.SortedIndex("v", name="sorted"),
            memdb.SortedIndex("list"),
            memdb.SetIndex("list", name="set"),
        ],
    )

    def look() -> None:
        for condition in (F.v == 1, F.v >= 0, F.list.contains(1), F.list > [0]):
            notes.where(condition).all()
        assert [] == db.check()

    look()
    for value in (1, True, 1.0, math.nan, math.nan, "a", None):
        notes.insert({"v": value, "list": [1, value]})
    look()
    notes.update(1, v=True)
    look()
    notes.clear()
    look()


# -- what raised -------------------------------------------------------------------------------


@pytest.mark.parametrize("index", [memdb.HashIndex, memdb.SortedIndex], ids=lambda each: each.kind)
def test_a_renamed_unique_index(db: memdb.Database, index: Any) -> None:
    """After a unique index was renamed inserts go on, and it refuses what it did."""
    items = items_with(db, index("s", unique=True), size=2)
    insert = items.insert
    items.indexes.rename("s", "text")
    items.insert(Item(s="new"))
    insert(Item(s="newer"))

    for write in (items.insert, insert):
        with pytest.raises(memdb.DuplicateKeyError) as caught:
            write(Item(s="new"))
        assert "text" == caught.value.index
    assert [3] == items.where(F.s == "new").ids()


def test_an_index_by_function_gives_no_field_its_order(db: memdb.Database) -> None:
    """A SortedIndex by a function is passed over where the order is that of a field."""
    notes = db.collection(
        "notes", indexes=[memdb.SortedIndex(key=lambda note: -note["a"], name="falling")]
    )
    notes.insert_many([{"a": 2}, {"a": 1}, {"a": 3}])
    list(notes)

    for query in (notes.query(), notes.where(F.a > 0)):
        assert [1, 2, 3] == [note["a"] for note in query.order_by("a")]
    assert [] == db.check()


@pytest.mark.parametrize(
    "build",
    [
        lambda condition: condition,
        lambda condition: condition & (F.a == P.x),
        lambda condition: (F.b == P.x) & condition,
    ],
)
def test_what_is_nested_too_deep_is_refused_by_prepare_too(
    db: memdb.Database, build: Callable[[Any], Any]
) -> None:
    """A condition that is nested too deep to be compiled is a QueryError everywhere."""
    items = items_with(db, memdb.HashIndex("a"))
    condition: Any = F.a == 1
    for n in range(1_000):
        condition = ~(condition & (F.b == n))
    with pytest.raises(memdb.QueryError, match="deep"):
        items.where(build(condition)).prepare()


def test_the_indexes_of_a_closed_database() -> None:
    """Indexes of a closed database can't be changed, and it says why."""
    with memdb.open(None) as db:
        indexes = items_with(db, memdb.HashIndex("a")).indexes
    for change in (
        lambda: indexes.add(memdb.HashIndex("b")),
        lambda: indexes.drop("a"),
        lambda: indexes.rename("a", "b"),
    ):
        with pytest.raises(memdb.ClosedError):
            change()


# -- bounded costs -----------------------------------------------------------------------------


def test_many_values_are_not_compared_with_each_other(
    db: memdb.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an ``in_`` finds in a hash index is not looked for among all that was found."""
    items = db.collection(Item, indexes=[memdb.HashIndex("a")])
    items.insert_many([Item(n // 2) for n in range(400)])
    list(items)
    calls = 0

    def is_same(self: Bucket, other: object) -> bool:
        nonlocal calls
        calls += 1
        return self is other

    monkeypatch.setattr(Bucket, "__eq__", is_same, raising=False)
    monkeypatch.setattr(Bucket, "__hash__", object.__hash__, raising=False)
    found = items.where(F.a.in_(P.values)).prepare()
    for _ in range(2):
        assert 400 == len(items.where(F.a.in_(range(200))).all())
        assert 400 == len(found(values=list(range(200))))
        assert 400 == found.count(values=list(range(200)))
    assert calls <= 200


def test_equal_values_of_a_union_come_once(db: memdb.Database) -> None:
    """The same key, looked up several times in one index, gives its records once."""
    items = items_with(db, memdb.HashIndex("b"))
    list(items)
    both = items.where((F.b == P.x) | (F.b == P.y)).prepare()
    found = items.where((F.b == P.x) | (F.b == P.y) | F.b.in_(P.z)).prepare()

    assert [2, 4, 6] == [item.id for item in both(x=1, y=1.0)]
    assert [1, 2, 3, 4, 5, 6] == [item.id for item in both(x=1, y=0)]
    assert (3, 6) == (both.count(x=1, y=1.0), both.count(x=1, y=0))

    assert [2, 4, 6] == [item.id for item in found(x=1, y=1.0, z=[True, 1])]
    assert 3 == found.count(x=1, y=1.0, z=[True, 1])
    check(items, (F.b == 1) | (F.b == 1.0))
    check(items, (F.b == 1) | (F.b == 1.0) | F.b.in_([1, True]))


class Passes(list[Any]):
    """A list that counts how often it is gone through.

    Attributes:
        count: How often, all lists together.
    """

    count = 0

    def __iter__(self) -> Iterator[Any]:
        Passes.count += 1
        return super().__iter__()


@pytest.mark.parametrize("is_in_transaction", [False, True])
def test_keys_that_move_on_by_one(
    db: memdb.Database, monkeypatch: pytest.MonkeyPatch, is_in_transaction: bool
) -> None:
    """A change of n unique keys, each to what another record has, goes through them a few times."""
    items = items_with(db, memdb.HashIndex("a", unique=True), size=200)
    refuse = IndexSet.refuse_taken

    def counted(self: IndexSet, changes: Any) -> None:
        refuse(self, Passes(changes))

    monkeypatch.setattr(IndexSet, "refuse_taken", counted)
    monkeypatch.setattr(Passes, "count", 0)
    if is_in_transaction:
        with db.transaction():
            items.query().update(a=F.a + 1)
    else:
        items.query().update(a=F.a + 1)

    assert list(range(1, 201)) == [item.a for item in items]
    assert 0 < Passes.count < 10


@pytest.mark.parametrize(
    ("settings", "identities"),
    [
        ({}, IdentityIndex),
        ({"identity_index": False}, ScannedIdentities),
    ],
)
def test_candidates_are_looked_up_together(
    db: memdb.Database,
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, Any],
    identities: Any,
) -> None:
    """The slots of an index's candidates are found at once, not one by one under the lock."""
    keyed = db.collection(Keyed, indexes=[memdb.HashIndex("a")], **settings)
    keyed.insert_many([Keyed(f"k{n}", n % 3) for n in range(300)])
    expected = keyed.where(F.a == 1).ids()
    calls = 0
    find, lock = identities.find, db._engine.log.lock

    def counted(self: Any, number: int) -> int:
        nonlocal calls
        # What costs O(1) may be done once a record where nobody waits.
        calls += lock.locked() or identities is ScannedIdentities
        slot: int = find(self, number)
        return slot

    monkeypatch.setattr(identities, "find", counted)
    assert type(keyed._store.identities) is identities
    assert expected == keyed.where(F.a == 1).ids()
    assert 100 == len(expected)
    assert 100 == len(keyed.where(F.a == 1, lambda row: True).ids())
    assert calls < 10
    with db.transaction():
        keyed.insert(Keyed("new", 9))
        calls = 0
        assert 100 == len(keyed.where(F.a == 1).ids())
    assert calls < 10


def live(cls: type) -> int:
    """Return how many objects of a class there are."""
    gc.collect()
    return sum(type(each) is cls for each in gc.get_objects())


@pytest.mark.parametrize("way", ["indexes", "bulk"])
def test_a_prepared_query_lets_go_of_what_it_was_made_from(db: memdb.Database, way: str) -> None:
    """However often the indexes are others, a prepared query keeps those of a few times only."""
    items = db.collection(Item, indexes=[memdb.HashIndex("a")])
    items.insert_many([Item(n % 10) for n in range(200)])
    found = items.where(F.a == P.x).prepare()
    before = live(Bucket)
    for _ in range(20):
        assert found(x=1)
        assert found.count(x=1)
        if way == "indexes":
            items.indexes.drop("a")
            items.indexes.add(memdb.HashIndex("a"))
        else:
            items.query().update(b=F.b + 1)

    assert 20 == found.count(x=1) == len(found(x=1))
    assert live(Bucket) - before <= 50


def test_a_prepared_query_of_a_closed_database_holds_no_records() -> None:
    """What a prepared query was made from goes when its database is closed."""
    before = live(Bucket)
    with memdb.open(None) as db:
        items = db.collection(Item, indexes=[memdb.HashIndex("a")])
        items.insert_many([Item(n % 10) for n in range(200)])
        found = items.where(F.a == P.x).prepare()
        assert 20 == len(found(x=1))
    del items
    with pytest.raises(memdb.ClosedError):
        found(x=1)

    assert live(Bucket) <= before


def test_writes_to_another_collection_cost_a_query_nothing(
    db: memdb.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is committed elsewhere lets no query catch up or gather its records again."""
    items = items_with(db, memdb.HashIndex("a"))
    notes = db.collection("notes")
    by_index, by_scan = (items.where(each == P.x).prepare() for each in (F.a, F.s))
    assert ([1], [1]) == (
        [item.id for item in by_index(x=0)],
        [item.id for item in by_scan(x="0")],
    )
    calls: list[str] = []
    catch_up, load = IndexSet.catch_up, Runtime.load

    def caught_up(self: IndexSet, *arguments: Any) -> Any:
        calls.append("catch_up")
        return catch_up(self, *arguments)

    def loaded(self: Runtime, numbers: Any) -> Any:
        calls.append("load")
        return load(self, numbers)

    monkeypatch.setattr(IndexSet, "catch_up", caught_up)
    monkeypatch.setattr(Runtime, "load", loaded)
    for n in range(5):
        notes.insert({"n": n})
        assert [1] == [item.id for item in by_index(x=0)]
        assert [1] == [item.id for item in by_scan(x="0")]
        assert 1 == items.where(F.s == "0").count() == items.where(F.a == 0).count()

    # The first count of each shape makes its plan, and keeps what it reads.
    assert calls.count("catch_up") <= 2
    assert calls.count("load") <= 2


@pytest.mark.parametrize(
    "ask",
    [
        lambda query: query.first(),
        lambda query: query.exists(),
        lambda query: query.limit(1).all(),
        lambda query: list(query.limit(2)),
    ],
)
def test_the_first_match_is_found_without_all_records(
    db: memdb.Database, monkeypatch: pytest.MonkeyPatch, ask: Callable[[Any], object]
) -> None:
    """Who wants the first record only does not wait until all are gathered, after a write too."""
    items = items_with(db, size=500)
    loaded = 0
    load = Runtime.load

    def counted(self: Runtime, numbers: Iterable[int]) -> Any:
        nonlocal loaded
        numbers = list(numbers)
        loaded += len(numbers)
        return load(self, numbers)

    monkeypatch.setattr(Runtime, "load", counted)
    for n in range(3):
        items.insert(Item(n))
        # All are in the cache, so that they could be gathered.
        list(items)
        assert ask(items.where(F.b == 0))
    assert loaded < 100


@pytest.mark.parametrize("indexes", INDEXES)
def test_the_users_code_runs_without_the_log_s_lock(db: memdb.Database, indexes: str) -> None:
    """An operand's own ``__eq__`` and ``__hash__`` may take long, or use the database."""
    items = db.collection(Item, indexes=INDEXES[indexes]())
    items.insert_many([Item(n, n % 2) for n in range(50)])
    list(items)
    lock = db._engine.log.lock
    seen: list[bool] = []

    class Three:
        def __hash__(self) -> int:
            seen.append(lock.locked())
            return hash(3)

        def __eq__(self, other: object) -> bool:
            seen.append(lock.locked())
            return other == 3

    query = items.where(F.a == Three())
    asks: list[Callable[[], object]] = [
        query.ids,
        query.all,
        query.count,
        partial(query.update, b=1),
        items.where(F.a == Three(), lambda item: True).all,
        items.where(F.a.in_([Three(), 4])).ids,
    ]
    for ask in asks:
        # The first time indexes are brought up to date.
        for _ in range(2):
            ask()
    assert seen
    assert not any(seen)
