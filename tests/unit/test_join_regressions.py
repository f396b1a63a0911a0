"""Faults of joins that were found by looking for them, each as small as it can be shown."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import memdb
from memdb import F, P
from tests.support.shop import Shop, add_indexes, make_shop


@pytest.fixture
def db() -> Iterator[memdb.Database]:
    """A database in memory."""
    with memdb.open(None) as database:
        yield database


@pytest.fixture
def shop(db: memdb.Database) -> Shop:
    """The shop."""
    return make_shop(db)


# -- copies ----------------------------------------------------------------------------------


@dataclass
class Document:
    """Has fields that are called as variables of the code that copies it."""

    right_id: int
    is_clone_of: int = 0
    _clone_1: int = 0
    tags: list[int] = field(default_factory=list)
    id: int = 0


def test_fields_that_are_called_as_variables(db: memdb.Database) -> None:
    """Renaming variables in the source of a copy renamed a field as well."""
    documents = db.collection(Document)
    documents.insert_many([Document(2, 7, 8, [1]), Document(1, 5)])
    query = documents.where().join(documents, on=F.right_id, as_="right")
    rows = query.all()

    assert [(Document(2, 7, 8, [1], 1), Document(1, 5, id=2))] == [tuple(rows[0])]
    assert rows == query.all() == query.prepare()()


@dataclass
class Pile:
    ref: int
    tags: list[int] = field(default_factory=list)
    id: int = 0


def test_records_of_the_cache_are_never_given_away(tmp_path: Path) -> None:
    """What was read and dropped left its id behind, which a record in the cache got next."""
    count = 300
    path = tmp_path / "a.memdb"
    with memdb.open(path) as db:
        lefts, rights = db.collection(Pile, name="left"), db.collection(Pile, name="right")
        for each in (lefts, rights):
            each.insert_many([Pile(1, [n]) for n in range(count)])
    for _ in range(3):
        with memdb.open(path) as db:
            lefts, rights = db.collection(Pile, name="left"), db.collection(Pile, name="right")
            with db.transaction():
                for identity in range(1, count + 1):
                    lefts.update(identity, tags=[identity, 7])
                (row,) = lefts.where().limit(1).join_many(rights, on=(F.ref, F.ref)).all()
                assert count == len(row.rights)
                for record in (row.left, *row.rights):
                    record.tags.append(-1)

                assert not any(-1 in each.tags for each in (*lefts, *rights))


def test_right_of_nested_rows_is_one_copy(shop: Shop) -> None:
    """A right inside of a right that two rows share was copied for each of them."""
    query = shop.lines.where(F.product_id == 1).join(
        shop.products,
        on=F.product_id,
        then=lambda q: q.join_many(shop.lines, back=F.product_id, as_="all_lines"),
    )
    for rows in (query.all(), query.all(), query.prepare()()):
        first, second = (row.product for row in rows)

        assert first.product is second.product
        assert [1, 3] == [line.id for line in first.all_lines]
        for one, other in zip(first.all_lines, second.all_lines, strict=True):
            assert one is other


# -- which identity --------------------------------------------------------------------------


@dataclass
class Event:
    at: datetime
    name: str


UTC_NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
SAME_MOMENT = UTC_NOON.astimezone(timezone(timedelta(hours=2)))


def test_equal_datetimes_are_different_keys(db: memdb.Database) -> None:
    """One moment in two zones is two natural keys, which a memory of equal values mixed up."""
    events = db.collection(Event, key="at")
    events.insert_many([Event(UTC_NOON, "utc"), Event(SAME_MOMENT, "plus two")])
    notes = db.collection("notes")
    notes.insert_many([{"when": UTC_NOON}, {"when": SAME_MOMENT}, {"when": UTC_NOON}])
    query = notes.where().join(events, on=F.when, as_="event")
    back = events.where().join_many(notes, back=F.when)

    for _ in range(2):
        assert ["utc", "plus two", "utc"] == query.values(F.event.name).all()
        assert ["utc", "plus two", "utc"] == [row.event.name for row in query]
        assert [[1, 3], [2]] == [[note["id"] for note in row.notes] for row in back]


@dataclass
class Loose:
    ref: int | bool | float
    refs: tuple[int | bool, ...] = ()
    id: int = 0


def test_constant_that_equals_the_identity_of_another_type(db: memdb.Database) -> None:
    """Where the left's value was a constant, what only equals the identity was taken for it."""
    lefts, rights = db.collection(Loose, name="left"), db.collection("right")
    rights.insert({})
    lefts.insert_many([Loose(True, (True,)), Loose(1, (1,)), Loose(1.0)])
    rights.where().all()
    one = lefts.where(F.ref == 1).join(rights, on=F.ref)
    many = lefts.where(F.refs == (1,)).join_many(rights, on=F.refs)

    for _ in range(2):
        assert [False, True, False] == [row.right is not None for row in one]
        assert [0, 1] == [len(row.rights) for row in many]
    assert 1 == lefts.where(F.ref == 1).join(rights, on=F.ref, how="inner").count()


@dataclass
class Listed:
    ids: frozenset[int]
    id: int = 0


def test_identity_where_a_collection_of_them_is_annotated(db: memdb.Database) -> None:
    """One that stood for itself was found only when all rights were looked at."""
    lefts, rights = db.collection("left"), db.collection(Listed, name="right")
    lefts.insert_many([{}, {}])
    alone: Any = 1
    rights.insert_many([Listed(alone), *(Listed(frozenset({9})) for _ in range(9))])
    query = lefts.where().join_many(rights, back=F.ids)

    for _ in range(3):
        assert [[1], []] == [[each.id for each in row.rights] for row in query]
    with db.transaction():
        lefts.insert({})
        assert [[1], [], []] == [[each.id for each in row.rights] for row in query]


@dataclass
class Anonymous:
    n: int


def test_values_that_equal_an_identity_hide_none(tmp_path: Path) -> None:
    """Of 1.0, True and 1 only the first was looked up, until all records had been read."""
    path = tmp_path / "a.memdb"
    with memdb.open(path) as db:
        db.collection(Anonymous, name="right").insert_many([Anonymous(n) for n in range(12)])
        db.collection("left").insert_many(
            [{"ids": {1.0, 3, 9}}, {"ids": {1}}, {"ids": [True, 1, 7]}, {"ids": [1.0, True]}]
        )
    with memdb.open(path) as db:
        rights = db.collection(Anonymous, name="right")
        query = db.collection("left").where().join_many(rights, on=F.ids)
        for _ in range(2):
            assert [[2, 8], [0], [0, 6], []] == [[each.n for each in row.rights] for row in query]


def test_set_index_and_tuples_that_are_keys(db: memdb.Database) -> None:
    """A tuple that is the left's key is one thing, which an index of its elements has not."""
    lefts = db.collection("left", key="code")
    rights = db.collection("right", indexes=[memdb.SetIndex("names")])
    lefts.insert({"code": (1, 2)})
    rights.insert_many([{"names": (1, 2)}, {"names": [(1, 2)]}, {"names": [1, 2]}])
    query = lefts.where().join_many(rights, back=F.names)

    for _ in range(2):
        assert [[1, 2]] == [[each["id"] for each in row.rights] for row in query]


# -- parameters ------------------------------------------------------------------------------


def test_parameter_called_self(shop: Shop) -> None:
    """A parameter may be called as the first one of a method."""
    prepared = (
        shop.orders.where()
        .join(shop.customers, on=F.customer_id, where=F.name == P.self, how="inner")
        .prepare()
    )

    assert [1, 2] == [row.order.id for row in prepared(self="Ann")]
    assert 2 == prepared.count(self="Ann")
    assert "Ann" in str(prepared.explain(self="Ann"))


@pytest.mark.parametrize("cache", ["all", "none"])
def test_iterator_as_parameter(cache: Any) -> None:
    """An iterator was empty when another way than the generated one answered."""
    with memdb.open(None, cache=cache) as db:
        shop = make_shop(db)
        prepared = (
            shop.orders.where(F.total.in_(P.totals))
            .join(shop.customers, on=F.customer_id, where=F.name.in_(P.names), how="inner")
            .prepare()
        )

        def ask() -> tuple[list[int], int]:
            rows = prepared(names=iter(["Ann", "Bob"]), totals=iter([30, 20]))
            count = prepared.count(names=iter(["Ann", "Bob"]), totals=iter([30, 20]))
            return [row.order.id for row in rows], count

        assert ([1, 3], 2) == ask() == ask()
        with db.transaction():
            shop.orders.update(2, total=11)
            assert ([1, 3], 2) == ask() == ask()


# -- names -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "one", "many"),
    [
        ("class", "record_class", "record_class"),
        ("2024 orders", "record_2024_orders", "record_2024_orders"),
        ("---", "record", "records"),
        ("\N{LATIN SMALL LIGATURE FI}x", "fix", "fixes"),
        ("OrderLine", "order_line", "order_lines"),
    ],
)
def test_names_of_collections_that_make_no_slots(
    db: memdb.Database, name: str, one: str, many: str
) -> None:
    """Whatever a collection is called, rows of it can be made, and have a slot."""
    records, others = db.collection(name), db.collection("other")
    records.insert({"ref": 1, "n": 5})
    others.insert({"ref": 1})
    left = records.where().join(others, on=F.ref).one()

    assert 5 == getattr(left, one)["n"]
    assert 5 == getattr(others.where().join(records, on=F.ref).one(), one)["n"]
    assert 5 == getattr(others.where().join_many(records, back=F.ref).one(), many)[0]["n"]
    query = records.where().join(others, on=F.ref)
    assert [5] == query.where(F[one].n == 5).values(F[one].n).all()


def test_name_of_a_slot_is_as_python_reads_it(shop: Shop) -> None:
    """Names with ligatures are those that Python makes of them."""
    row = (
        shop.orders.where(id=1)
        .join(shop.customers, on=F.customer_id, as_="\N{LATIN SMALL LIGATURE FI}rst")
        .one()
    )

    assert "Ann" == row.first.name


def test_rows_of_many_other_slots(shop: Shop) -> None:
    """Rows are equal to those of an equal query, however many other queries there were."""
    rows = shop.orders.where().join(shop.customers, on=F.customer_id).all()
    pickled = pickle.dumps(rows)
    for number in range(300):
        shop.orders.where(id=1).join(shop.customers, on=F.customer_id, as_=f"slot{number}").all()
    again = shop.orders.where().join(shop.customers, on=F.customer_id).all()

    assert rows == again == pickle.loads(pickled)


# -- depth and number ------------------------------------------------------------------------


def test_nested_very_deep(shop: Shop) -> None:
    """Joins nested too deep are refused in words; some ten are not too deep."""

    def nested(depth: int) -> Any:
        query: Any = shop.employees.where()
        for level in range(depth):
            query = shop.employees.where().join(query, on=F.manager_id, as_=f"m{level}")
        return query

    assert 4 == len(nested(30).all())
    with pytest.raises(memdb.QueryError, match="deep"):
        nested(400).all()


def test_plans_are_bounded(shop: Shop) -> None:
    """Very many different queries do not fill the memory with what was generated for them."""
    for number in range(1_100):
        query = shop.orders.where(id=1).join(shop.customers, on=F.customer_id, as_=f"s{number}")
        assert 1 == len(query.prepare()())
    store: Any = shop.orders._store

    assert len(store.indexes.plans) <= 1_024


# -- beside others ---------------------------------------------------------------------------


def test_transaction_of_another_thread_in_the_middle(shop: Shop) -> None:
    """A record that another thread's open transaction has written was missing in the rows.

    Such a record is not in the cache, which was looked at before.
    """
    is_asked, is_written, is_over = threading.Event(), threading.Event(), threading.Event()

    def write() -> None:
        is_asked.wait(10)
        with pytest.raises(ZeroDivisionError), shop.db.transaction():
            shop.customers.update(2, region="changed")
            is_written.set()
            is_over.wait(10)
            raise ZeroDivisionError

    class Waiting:
        """Equals everything, once the other thread has written."""

        __hash__ = None  # type: ignore[assignment]

        def __eq__(self, other: object) -> bool:
            is_asked.set()
            is_written.wait(10)
            return True

    query = shop.orders.where().join(shop.customers, on=F.customer_id, where=F.name == Waiting())
    inner = shop.orders.where().join(shop.customers, on=F.customer_id, how="inner")
    expected = ["Ann", "Ann", "Bob", None, None]
    inner.all()
    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    try:
        assert expected == [row.customer and row.customer.name for row in query.all()]
        assert expected[:3] == [row.customer.name for row in inner.all()]
        assert 3 == inner.count()
    finally:
        is_over.set()
        thread.join(10)

    assert expected == query.values(F.customer.name).all()
    assert "US" == shop.customers[2].region


@pytest.mark.parametrize("is_indexed", [False, True], ids=["plain", "indexed"])
def test_count_where_several_belong(db: memdb.Database, is_indexed: bool) -> None:
    """Whether count() finds that several belong does not depend on indexes or transactions."""
    shop = make_shop(db)
    if is_indexed:
        add_indexes(shop)
    outcomes = set()

    def count(query: Any) -> None:
        try:
            outcomes.add(query.count())
        except memdb.QueryError:
            outcomes.add("refused")

    for query in (
        shop.customers.where().join(shop.orders, back=F.customer_id, how="inner"),
        shop.customers.where().join(shop.orders, back=F.customer_id, how="inner"),
    ):
        count(query)
        with db.transaction():
            shop.customers.update(1, region="AS")
            count(query)
        count(query)

    assert 1 == len(outcomes)


@pytest.mark.parametrize("how", ["left", "inner"])
@pytest.mark.parametrize("is_indexed", [False, True], ids=["plain", "indexed"])
def test_count_gives_a_number_where_all_raises(
    db: memdb.Database, is_indexed: bool, how: Any
) -> None:
    """Several belong to one: count() and exists() need no rows, whose making is refused."""
    shop = make_shop(db)
    if is_indexed:
        add_indexes(shop)
    query = shop.customers.where().join(shop.orders, back=F.customer_id, how=how)
    limited = shop.customers.where(F.id <= P.most).join(shop.orders, back=F.customer_id, how=how)
    ordered = query.order_by(F.order.total)
    count = 4 if how == "left" else 2

    def check() -> None:
        for each, given in ((query, {}), (limited, {"most": 9})):
            prepared = each.prepare()
            with pytest.raises(memdb.QueryError, match=r"order: join\(\) expects one record"):
                prepared(**given)
            assert count == prepared.count(**given)
        with pytest.raises(memdb.QueryError, match=r"order: join\(\) expects one record"):
            query.all()
        assert count == query.count()
        assert query.exists()
        assert ordered.exists()
        assert [True, False] == [query.skip(n).exists() for n in (count - 1, count)]
        # To the second customer one belongs, to the others none.
        assert [2, 3, 4][: count - 1] == [row.customer.id for row in query.where(F.id > 1)]

    check()
    with db.transaction():
        shop.customers.update(4, region="AS")
        check()
    check()


def test_constant_that_names_nothing_in_a_chain(db: memdb.Database) -> None:
    """A join behind one that drops everything gives nothing, at once."""
    lefts, rights = db.collection("left"), db.collection("right")
    lefts.insert_many([{"ref": 77}, {"ref": 77}])
    rights.insert({"ref": 1})
    query = (
        lefts.where(F.ref == 77)
        .join(rights, on=F.ref, how="inner")
        .join(rights, on=F.right.ref, as_="next")
    )

    assert [] == query.all() == query.all() == query.prepare()()
    assert 0 == query.count()
