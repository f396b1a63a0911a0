"""What is said of how a query is answered, and that it is so."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import memdb
from memdb import F, HashIndex, P, SetIndex, SortedIndex, case, count_, optional
from memdb.query import Expression
from tests.support.tracing import traced


@dataclass
class Item:
    """A record."""

    shop: str
    price: int
    code: str = ""
    tags: list[str] = field(default_factory=list)
    rate: float = 0.0
    id: int = 0


INDEXES = [
    HashIndex("shop"),
    SortedIndex("price"),
    SortedIndex("shop", "-price", name="both"),
    HashIndex("code", unique=True),
    SetIndex("tags"),
]


def _filled(db: memdb.Database) -> memdb.Collection[Item]:
    """Return a collection of 40 items in 4 shops, with 10 prices, that have been read."""
    items = db.collection(Item, indexes=INDEXES)
    items.insert_many(
        [Item("abcd"[n % 4], n % 10, f"c{n}", ["x"] if n % 2 else ["y", "z"]) for n in range(40)]
    )
    assert len(items.query().all()) == 40
    return items


@pytest.fixture
def db() -> Iterator[memdb.Database]:
    """Give a database in memory."""
    with memdb.open(None) as database:
        yield database


@pytest.fixture
def items(db: memdb.Database) -> memdb.Collection[Item]:
    """Give such a collection."""
    return _filled(db)


def _lines(explanation: object) -> list[str]:
    """Return the lines behind the first one, which shows the query."""
    return [line.strip() for line in str(explanation).split("\n")[1:]]


# -- the lines -----------------------------------------------------------------------------


def test_first_line_shows_the_query(items: memdb.Collection[Item]) -> None:
    """The text begins with the query as it shows itself."""
    query = items.where(F.shop == "a", F.rate < 1).order_by("code").limit(2)

    assert str(query.explain()).split("\n")[0] == repr(query) == query.explain().query


def test_whole_text(items: memdb.Collection[Item]) -> None:
    """Candidates, what was not taken, comparisons, order, and the generated function."""
    explanation = items.where((F.shop == "a") & (F.price > 5) & (F.rate < 1)).order_by("code")

    assert _lines(explanation.explain()) == [
        "candidates  sorted index 'both' for (F.shop == 'a') & (F.price > 5): 4",
        "not taken   hash index 'shop' for F.shop == 'a': 10",
        "not taken   sorted index 'price' for F.price > 5: 16",
        "compare     F.rate < 1",
        "order       F.code.asc()",
        "answered by a generated function",
    ]


def test_repr_is_the_text(items: memdb.Collection[Item]) -> None:
    """A prompt shows the explanation to be read, and an access on one line."""
    explanation = items.where(F.shop == "a").explain()

    assert repr(explanation) == str(explanation)
    assert repr(explanation.chosen) == "<hash index 'shop' for F.shop == 'a': 10>"


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (F.code == "c7", "unique index 'code' for F.code == 'c7': 1"),
        (F.code == "none", "unique index 'code' for F.code == 'none': 0"),
        (F.shop.in_(["a", "b"]), "hash index 'shop', several keys for F.shop.in_(['a', 'b']): 20"),
        (F.tags.contains("z"), "set index 'tags' for F.tags.contains('z'): 20"),
        (F.price.between(2, 3), "sorted index 'price' for F.price.between(2, 3): 8"),
        (
            (F.code == "c1") | (F.price == 2),
            "unique index 'code' or sorted index 'price' for (F.code == 'c1') | (F.price == 2): 5",
        ),
        (F.rate == 0, "all records: 40"),
        (F.rate.in_([]), "none: 0"),
    ],
    ids=repr,
)
def test_candidates(items: memdb.Collection[Item], condition: Expression, expected: str) -> None:
    """Each kind of index is named, with what it covers and its exact count."""
    explanation = items.where(condition).explain()

    assert str(explanation.chosen) == expected
    assert explanation.filters == ((repr(condition),) if expected.startswith("all") else ())


def test_no_condition(items: memdb.Collection[Item]) -> None:
    """All records are the candidates, and nothing is compared."""
    explanation = items.query().explain()

    assert (str(explanation.chosen), explanation.filters) == ("all records: 40", ())


def test_nothing_matches(items: memdb.Collection[Item]) -> None:
    """An empty `in_` leaves nothing to compare, with indexes beside it and without."""
    explanation = items.where(F.rate.in_([]), F.shop == "a").explain()

    assert _lines(explanation) == ["candidates  none: 0", "answered by a generated function"]


def test_condition_of_a_partial_index_is_covered() -> None:
    """What the index says of its records is not compared again."""
    with memdb.open(None) as db:
        items = db.collection(Item, indexes=[HashIndex("shop", where=F.price > 2)])
        items.insert_many([Item("a", 1), Item("a", 5)])
        explanation = items.where(F.price > 2, F.shop == "a").explain()

    assert str(explanation.chosen) == "hash index 'shop' for (F.price > 2) & (F.shop == 'a'): 1"
    assert explanation.filters == ()


def test_column_index_gives_candidates() -> None:
    """A scan of columns is named as such, with both of its conditions."""
    with memdb.open(None) as db:
        indexes = [memdb.ColumnIndex("price"), memdb.ColumnIndex("rate")]
        items = db.collection(Item, indexes=indexes)
        items.insert_many([Item("a", n, rate=n / 2) for n in range(10)])
        explanation = items.where(F.price > 2, F.price <= 6, F.shop == "a").explain()

    expected = "column index 'price' for (F.price > 2) & (F.price <= 6): 4"
    assert str(explanation.chosen) == expected
    assert explanation.filters == ("F.shop == 'a'",)


# -- order ---------------------------------------------------------------------------------


@pytest.mark.parametrize("sign", ["", "-"])
def test_order_from_an_index(items: memdb.Collection[Item], sign: str) -> None:
    """A whole index that gives the order is the candidates, from either end."""
    explanation = items.query().order_by(f"{sign}price").limit(3).explain()
    direction = "desc" if sign else "asc"

    assert explanation.is_order_given
    assert _lines(explanation) == [
        "candidates  sorted index 'price': 40",
        f"order       F.price.{direction}(), from the index",
        "answered by a generated function",
    ]


def test_order_with_another_condition(items: memdb.Collection[Item]) -> None:
    """The whole index gives the order, and each of its records is compared."""
    explanation = items.where(F.rate < 1).order_by("price").explain()

    assert explanation.is_order_given
    assert (str(explanation.chosen), explanation.filters) == (
        "sorted index 'price': 40", ("F.rate < 1",),
    )  # fmt: skip


def test_order_wins_ties(items: memdb.Collection[Item]) -> None:
    """Of two equal counts the one is taken that needs no sorting."""
    plain = items.where(F.shop == "a").explain()
    ordered = items.where(F.shop == "a").order_by("-price").explain()

    assert str(plain.chosen) == "hash index 'shop' for F.shop == 'a': 10"
    assert str(ordered.chosen) == "sorted index 'both' for F.shop == 'a': 10"
    assert [str(each) for each in ordered.others] == ["hash index 'shop' for F.shop == 'a': 10"]
    assert (plain.is_order_given, ordered.is_order_given) == (False, True)


def test_sorted_order_says_no_index(items: memdb.Collection[Item]) -> None:
    """What is sorted afterwards is not said to come from the index."""
    explanation = items.where(F.code == "c1").order_by("price", "-shop").explain()

    assert "order       F.price.asc(), F.shop.desc()" in _lines(explanation)
    assert not explanation.is_order_given


# -- indexes only --------------------------------------------------------------------------


def test_methods_that_indexes_answer() -> None:
    """Sums of a column and the ends of a sorted index are told, of a whole query only."""
    with memdb.open(None) as db:
        indexes = [memdb.ColumnIndex("price"), SortedIndex("code")]
        items = db.collection(Item, indexes=indexes)
        items.insert_many([Item("a", n, str(n)) for n in range(2_000)])
        plain = items.query().explain()
        some = items.where(~(F.price < 1_000)).explain()
        cut = items.query().limit(5).explain()
        distinct = items.where(~(F.price < 1_000)).distinct().explain()

    of_price = tuple([f"{what}(F.price)" for what in ("sum", "mean", "min", "max")])
    assert plain.by_index == (*of_price, "min(F.code)", "max(F.code)")
    assert some.by_index == ("count()", *of_price)
    assert f"index only  {', '.join(some.by_index)}" in _lines(some)
    assert cut.by_index == distinct.by_index == ()


def test_few_records_are_not_asked_of_a_column() -> None:
    """Where a loop is as fast, no column is told."""
    with memdb.open(None) as db:
        items = db.collection(Item, indexes=[memdb.ColumnIndex("price")])
        items.insert_many([Item("a", n) for n in range(10)])

        assert items.query().explain().by_index == ()


# -- who answers ---------------------------------------------------------------------------


def _yes(item: Item) -> bool:
    return True


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (lambda q: q.where(_yes), "its condition has a callable"),
        (lambda q: q.where(F.shop == [1]), "an index can't serve what is compared"),
    ],
    ids=["callable", "operand"],
)
def test_general_way(
    items: memdb.Collection[Item],
    made: Callable[[memdb.Query[Any]], memdb.Query[Any]],
    reason: str,
) -> None:
    """What no generated function answers says why; the general way compares with everything."""
    query = made(items.where(F.price == 3))
    with traced() as ran:
        query.all()
    explanation = query.explain()

    assert not ran
    assert (explanation.is_compiled, explanation.source) == (False, None)
    assert explanation.reason == reason
    assert _lines(explanation)[-1] == f"answered by the general way: {reason}"
    assert str(explanation.chosen) == "sorted index 'price' for F.price == 3: 4"
    assert explanation.filters[0] == "F.price == 3"


def test_cursors(items: memdb.Collection[Item], db: memdb.Database) -> None:
    """An index that has the order leads to what is behind a cursor; with natural keys none has."""
    query = items.where(shop="a").order_by("price")
    after = query.after(query.page(0, 3).cursor)
    explanation = after.explain()
    mixed = query.order_by("price", "code")
    partly = mixed.after(mixed.page(0, 3).cursor).explain()
    keyed = db.collection(Item, name="keyed", key="code")
    keyed.insert_many([Item("a", n, f"c{n}") for n in range(3)])
    by_key = keyed.query().order_by("price")
    general = by_key.after(by_key.page(0, 1).cursor).explain()

    assert str(explanation.chosen) == (
        "sorted index 'both' for (F.shop == 'a') & behind the cursor: 7"
    )
    assert after.count() == 7
    assert (explanation.filters, explanation.is_order_given) == ((), True)
    assert str(partly.chosen) == "sorted index 'both' for F.shop == 'a': 8"
    assert partly.filters == ("behind the cursor",)
    assert general.reason == "it goes on after a cursor"


@pytest.mark.parametrize(
    "made",
    [
        lambda q: q.select("shop"),
        lambda q: q.values("shop"),
        lambda q: q.distinct(),
        lambda q: q.group_by("shop").select("shop", count_()).order_by("shop").limit(1),
        lambda q: q.after(q.limit(2).page(0, 1).cursor).limit(1),
        lambda q: (o := q.order_by(F.rate)).after(o.limit(2).page(0, 1).cursor).limit(1),
    ],
    ids=["select", "values", "distinct", "group", "cursor", "cursor of a float"],
)
def test_what_is_made_of_records(
    items: memdb.Collection[Item], made: Callable[[memdb.Query[Any]], memdb.Query[Any]]
) -> None:
    """The records that something is made of are found by a generated function."""
    query = made(items.where(F.price == 3))
    query.all()
    with traced() as ran:
        query.all()
    explanation = query.explain()

    assert ran
    assert explanation.is_compiled
    assert explanation.query == repr(query)
    assert str(explanation.chosen).startswith("sorted index 'price' for ")
    assert query.analyze().is_compiled


def test_order_of_any_values_with_constants(items: memdb.Collection[Item]) -> None:
    """An order that no source is written for is put right by the general way."""
    explanation = items.query().order_by(F.rate * 2).explain()

    assert explanation.reason == "its order is of values of any type"


def test_first_of_all_records(db: memdb.Database) -> None:
    """The first of all are taken one by one, unless a query for all has kept them at hand."""
    items = db.collection(Item)
    items.insert_many([Item("a", n) for n in range(10)])
    query = items.where(F.price > 1).limit(2)
    before = query.analyze()
    assert len(items.query().all()) == len(items.query().all()) == 10
    after = query.analyze()

    assert before.reason == "it looks at no more records than it takes"
    assert (str(before.chosen), before.filters) == ("all records: 10", ("F.price > 1",))
    assert after.is_compiled


def test_general_way_takes_no_large_sets(items: memdb.Collection[Item]) -> None:
    """The general way looks at all records when an index leaves more than half of them."""
    generated = items.where(F.price > 1).explain()
    general = items.where(F.price > 1, _yes).explain()

    assert str(generated.chosen) == "sorted index 'price' for F.price > 1: 32"
    assert str(general.chosen) == "all records: 40"
    assert [str(each) for each in general.others] == ["sorted index 'price' for F.price > 1: 32"]


@pytest.mark.parametrize("cache", ["none", 5])
def test_bounded_cache(cache: Any) -> None:
    """Where not every record is kept the general way answers."""
    with memdb.open(None, cache=cache) as db:
        explanation = _filled(db).where(F.shop == "a").explain()

    assert explanation.reason == "the setting `cache` keeps not every record"
    assert explanation.chosen.count == 10


def test_transaction(db: memdb.Database, items: memdb.Collection[Item]) -> None:
    """Inside of a transaction its changes are looked at besides what indexes say."""
    query = items.where(F.shop == "a", F.price == 2)
    with db.transaction():
        before = query.explain()
        items.insert(Item("a", 2, "new"))
        items.delete(1)
        explanation = query.explain()

    assert before.changes == 0
    assert explanation.changes == 2
    assert _lines(explanation) == [
        "candidates  sorted index 'both' for (F.shop == 'a') & (F.price == 2): 2",
        "not taken   sorted index 'price' for F.price == 2: 4",
        "not taken   hash index 'shop' for F.shop == 'a': 10",
        "besides     changes of the transaction: 2",
        "compare     F.shop == 'a'",
        "compare     F.price == 2",
        "answered by the general way: a transaction is open",
    ]
    assert query.explain().changes is None
    assert query.explain().is_compiled


def test_unread_records_are_told(tmp_path: Path) -> None:
    """After opening, and read-only, the records that have to be read first are counted."""
    path = tmp_path / "items.memdb"
    with memdb.open(path) as db:
        db.collection(Item).insert_many([Item("ab"[n % 2], n) for n in range(10)])
    with memdb.open(path, "r") as db:
        items = db.collection(Item, indexes=[HashIndex("shop"), SortedIndex("price")])
        first = items.where(F.price >= 9).explain()
        query = items.where(F.shop == "a")
        before, wanted = query.explain(), query.all()
        after = query.explain()
        every = items.query().explain()
        top = items.query().order_by("-price").limit(1).explain()

    assert len(wanted) == before.chosen.count == after.chosen.count == 5
    assert (before.unread, after.unread, every.unread, top.unread) == (5, 0, 5, 1)
    assert _lines(before)[-1] == "answered by a generated function, after reading 5 records"
    assert _lines(first)[-1] == "answered by a generated function, after reading 1 record"
    assert _lines(after)[-1] == "answered by a generated function"


def test_closed_database(db: memdb.Database, items: memdb.Collection[Item]) -> None:
    """A closed database explains nothing, neither with indexes nor for the general way."""
    query, prepared = items.where(F.shop == "a"), items.where(F.shop == P.x).prepare()
    db.close()

    nothing = items.where(F.rate.in_([])).select("shop")
    for ask in (query.explain, query.analyze, query.select("shop").explain, nothing.explain):
        with pytest.raises(memdb.ClosedError):
            ask()
    with pytest.raises(memdb.ClosedError):
        prepared.explain(x="a")


@pytest.mark.parametrize(
    "made",
    [
        lambda q: q.where(F.shp == 1),
        lambda q: q.where(F.price < "a"),
        lambda q: q.where(_yes).where(F.price < "a"),
        lambda q: q.order_by("shp"),
        lambda q: q.select("shp"),
        lambda q: q.group_by("shp"),
        lambda q: q.select(F.shp.sum_()),
        lambda q: q.having(count_() > 1),
        lambda q: q.where(F.price == P.x),
        lambda q: q.where(optional(P.x, F.price == P.x)),
        lambda q: q.order_by(F.price % P.x),
        lambda q: q.limit(P.x),
    ],
)
def test_what_asking_refuses_is_refused(
    items: memdb.Collection[Item], made: Callable[[memdb.Query[Any]], memdb.Query[Any]]
) -> None:
    """No explanation is given of a query that can't be asked."""
    query = made(items.query())
    with pytest.raises(memdb.QueryError) as asked:
        query.all()
    with pytest.raises(memdb.QueryError) as explained:
        query.explain()

    assert str(explained.value) == str(asked.value)


def test_cursor_of_another_order(items: memdb.Collection[Item]) -> None:
    """A cursor that does not fit is refused as it is when asked."""
    cursor = items.query().order_by("price").page(0, 1).cursor
    query = items.query().after(cursor).order_by("shop")

    with pytest.raises(memdb.QueryError, match="another order"):
        query.explain()


# -- parameters ----------------------------------------------------------------------------


def test_prepared_shows_the_values(items: memdb.Collection[Item]) -> None:
    """The query and its conditions have the values that were given."""
    prepared = items.where(F.shop == P.shop, F.rate < P.rate).order_by("code").limit(P.n).prepare()
    explanation = prepared.explain(shop="b", rate=0.5, n=3)

    assert str(explanation).split("\n") == [
        "<Query of 'Item' where (F.shop == 'b') & (F.rate < 0.5) order by F.code.asc() limit 3>",
        "  candidates  hash index 'shop' for F.shop == 'b': 10",
        "  compare     F.rate < 0.5",
        "  order       F.code.asc()",
        "  answered by a generated function",
    ]
    assert explanation.source is not None
    assert "p_shop" in explanation.source
    assert "0.5" not in explanation.source


def test_prepared_goes_the_way_of_what_is_given(items: memdb.Collection[Item]) -> None:
    """Optional conditions and cases count as they do when it is called."""
    prepared = items.where(
        optional(P.shop, F.shop == P.shop),
        case(P.mode, {"one": F.code == P.code, "all": F.id > 0}),
        optional(P.tag, F.tags.contains(P.tag)),
    ).prepare()

    def chosen(**given: Any) -> str:
        explanation = prepared.explain(**given)
        assert explanation.is_compiled
        return str(explanation.chosen)

    assert chosen(mode="all", code="") == "all records: 40"
    assert chosen(mode="all", code="", tag="z") == "set index 'tags' for F.tags.contains('z'): 20"
    assert chosen(mode="all", code="", shop="a") == "hash index 'shop' for F.shop == 'a': 10"
    assert chosen(mode="one", code="c3") == "unique index 'code' for F.code == 'c3': 1"
    assert chosen(mode="other", code="c3") == "none: 0"


def test_each_of_four_optional_conditions_finds_its_index() -> None:
    """Every combination of what is given looks its own smallest index up."""
    with memdb.open(None) as db:
        names = ["shop", "price", "code", "rate"]
        items = db.collection(Item, indexes=[HashIndex(name) for name in names])
        items.insert_many([Item("abcd"[n % 4], n % 5, str(n % 7), rate=n) for n in range(40)])
        assert len(items.query().all()) == 40
        condition = [optional(P[name], F[name] == P[name]) for name in names]
        prepared = items.where(*condition).prepare()

        last = {"code": "3", "rate": 3.0}
        assert str(prepared.explain(**last).chosen) == "hash index 'rate' for F.rate == 3.0: 1"
        assert prepared.explain(**last).filters == ("F.code == '3'",)
        assert prepared.explain(shop="a", price=0, **last).filters == (
            "F.shop == 'a'", "F.price == 0", "F.code == '3'",
        )  # fmt: skip


def test_ranges_of_one_index_that_differ_in_their_equal_fields() -> None:
    """One way holds one field of an index to a value, another one two of them."""
    with memdb.open(None) as db:
        items = db.collection(Item, indexes=[SortedIndex("shop", "price", name="both")])
        items.insert_many([Item("a", 1), Item("a", 2), Item("b", 1)])
        arms = {0: F.price == 1, 1: F.code == ""}
        prepared = items.where(F.shop == P.shop, case(P.mode, arms)).prepare()
        either = items.where((F.shop == "b") | ((F.shop == "a") & (F.price == 2)))
        assert len(items.query().all()) == 3

        for mode, count in ((0, 1), (1, 2)):
            assert prepared.explain(shop="a", mode=mode).chosen.count == count
            assert len(prepared(shop="a", mode=mode)) == count
        assert either.ids() == [each.id for each in either.all()] == [2, 3]


def test_iterator_is_given_once(items: memdb.Collection[Item]) -> None:
    """What `in_` is given may be an iterator."""
    explanation = items.where(F.shop.in_(P.shops)).prepare().explain(shops=iter("ab"))

    assert explanation.chosen.count == 20


def test_none_for_a_unique_key(items: memdb.Collection[Item]) -> None:
    """Where no record may have None the index tells that none has."""
    prepared = items.where(F.code == P.code, F.shop == "a").prepare()

    assert str(prepared.explain(code=None).chosen) == "unique index 'code' for F.code == None: 0"


def test_none_that_a_unique_index_leaves_out(db: memdb.Database) -> None:
    """Where records may have None the query is answered as one that does without the index."""
    indexes = [HashIndex("shop"), HashIndex("code", unique=True)]
    notes = db.collection("notes", indexes=indexes)
    notes.insert_many([{"shop": "a", "code": None}, {"shop": "a", "code": 1}, {"shop": "b"}])
    prepared = notes.where(F.code == P.code, F.shop == "a").prepare()
    explanation = prepared.explain(code=None)

    assert len(prepared(code=None)) == 1
    assert str(explanation.chosen) == "hash index 'shop' for F.shop == 'a': 2"
    assert explanation.filters == ("F.code == None",)


def test_prepared_inside_of_a_transaction(
    db: memdb.Database, items: memdb.Collection[Item]
) -> None:
    """The general way answers there too."""
    prepared = items.where(F.shop == P.shop).prepare()
    with db.transaction():
        explanation = prepared.explain(shop="a")

    assert explanation.reason == "a transaction is open"
    assert explanation.filters == ("F.shop == 'a'",)


@pytest.mark.parametrize("given_", [{}, {"shop": "a", "other": 1}])
def test_parameters_are_checked(items: memdb.Collection[Item], given_: dict[str, Any]) -> None:
    """A missing one and one that there is not are refused."""
    prepared = items.where(F.shop == P.shop).prepare()

    with pytest.raises(memdb.QueryError, match="parameter"):
        prepared.explain(**given_)


def test_prepared_is_an_instance(items: memdb.Collection[Item]) -> None:
    """`isinstance` knows a prepared query."""
    assert isinstance(items.query().prepare(), memdb.Prepared)
    assert not isinstance(len, memdb.Prepared)


# -- source and clock ----------------------------------------------------------------------


def test_source_on_demand(items: memdb.Collection[Item]) -> None:
    """The source is Python that holds no value, and is not in the text."""
    explanation = items.where(F.shop == "secret", F.rate < 1.25).explain()

    assert explanation.source is not None
    compile(explanation.source, "source", "exec")
    assert "secret" not in explanation.source
    assert "1.25" not in explanation.source
    assert "def run" not in str(explanation)


def test_analyze(items: memdb.Collection[Item]) -> None:
    """The results are counted and the time is told."""
    explanation = items.where(F.shop == "a").limit(3).analyze()

    assert explanation.results == 3
    assert explanation.seconds is not None
    assert explanation.is_compiled
    assert re.fullmatch(r"took        [\d,]+\.\d us for 3 results", _lines(explanation)[-1])
    assert items.query().explain().seconds is None


def test_analyze_of_what_is_not_plain(items: memdb.Collection[Item]) -> None:
    """Groups are counted, and a generated function finds their records."""
    explanation = items.query().group_by("shop").analyze()

    assert (explanation.results, explanation.is_compiled) == (4, True)


def test_analyze_reads_what_is_not_read(tmp_path: Path) -> None:
    """It tells of a query whose records are in the cache."""
    path = tmp_path / "items.memdb"
    with memdb.open(path) as db:
        db.collection(Item).insert_many([Item("a", n) for n in range(10)])
    with memdb.open(path) as db:
        items = db.collection(Item, indexes=[SortedIndex("price")])
        explanation = items.where(F.price < 5).analyze()

    assert (explanation.is_compiled, explanation.unread) == (True, 0)


def test_analyze_finds_what_only_records_tell(items: memdb.Collection[Item]) -> None:
    """A NaN in the order leaves it to the general way, which only asking shows."""
    items.insert(Item("a", 1, "nan", rate=math.nan))
    query = items.where(F.shop == "a").order_by("rate")

    assert query.explain().is_compiled
    explanation = query.analyze()
    assert (explanation.is_compiled, explanation.source) == (False, None)
    assert explanation.results == 11
    assert explanation.reason is not None
    assert "does not sort" in explanation.reason
