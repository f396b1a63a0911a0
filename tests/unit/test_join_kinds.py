"""Joins of every kind of collection: records, identities, caches and files."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest

import memdb
from memdb import F
from tests.support.shop import Shop, add_indexes, make_shop, open_shop

# -- records ---------------------------------------------------------------------------------


@dataclass
class Plain:
    ref: int | None
    refs: list[int]
    code: str
    id: int = 0


@dataclass(frozen=True)
class Frozen:
    ref: int | None
    refs: tuple[int, ...]
    code: str
    id: int = 0


@dataclass(slots=True)
class Slotted:
    ref: int | None
    refs: list[int]
    code: str
    id: int = 0


class Struct(msgspec.Struct):
    ref: int | None
    refs: list[int]
    code: str
    id: int = 0


class Immutable(msgspec.Struct, frozen=True):
    ref: int | None
    refs: frozenset[int]
    code: str
    id: int = 0


@dataclass
class Anonymous:
    """Does not carry its identity."""

    ref: int | None
    refs: list[int]
    code: str


def as_dict(ref: int | None, refs: Any, code: str) -> dict[str, Any]:
    """Return a record of a collection of dicts."""
    return {"ref": ref, "refs": refs, "code": code}


KINDS: dict[str, tuple[Any, Any]] = {
    "dataclass": (Plain, list),
    "frozen": (Frozen, tuple),
    "slots": (Slotted, list),
    "struct": (Struct, list),
    "frozen struct": (Immutable, frozenset),
    "anonymous": (Anonymous, list),
    "dict": (as_dict, list),
}
VALUES: list[tuple[int | None, list[int], str]] = [
    (2, [1, 2], "a"),
    (None, [], "b"),
    (9, [3, 9], "a"),
    (2, [2], ""),
]


def fill(db: memdb.Database, kind: str, name: str, cache: Any = "all") -> Any:
    """Return a collection of some kind with four records."""
    make, collect = KINDS[kind]
    target: Any = name if make is as_dict else make
    arguments = {} if make is as_dict else {"name": name}
    collection: Any = db.collection(target, cache=cache, **arguments)
    collection.insert_many([make(ref, collect(refs), code) for ref, refs, code in VALUES])
    return collection


def codes(rows: Any) -> list[Any]:
    """Return rows with places instead of records: their identities, found by equality."""
    return list(map(_plain, rows))


def _plain(value: Any) -> Any:
    """Return the values of a record; of each in a tuple or row."""
    if value is None:
        return None
    if isinstance(value, dict):
        return value["ref"], value["code"]
    if hasattr(value, "ref"):
        return value.ref, value.code
    return tuple(map(_plain, value))


A, B, C, D = ((ref, code) for ref, _, code in VALUES)


@pytest.mark.parametrize("cache", ["all", "none", 2])
@pytest.mark.parametrize("right", KINDS)
@pytest.mark.parametrize("left", KINDS)
def test_every_kind_with_every_other(left: str, right: str, cache: Any) -> None:
    """Lefts and rights of any kind, whatever is kept in memory, with and without indexes."""
    with memdb.open(None) as db:
        lefts, rights = fill(db, left, "left", cache), fill(db, right, "right", cache)
        # An anonymous record has no field that is its identity, which a join does not need.
        expected = {
            "on": [(A, B), (B, None), (C, None), (D, B)],
            "pair": [(A, (A, C)), (B, (B,)), (C, (A, C)), (D, (D,))],
            "back": [(A, ()), (B, (A, D)), (C, ()), (D, ())],
            "list": [(A, (A, B)), (B, ()), (C, (C,)), (D, (B,))],
            "elements": [(A, (A,)), (B, (A, D)), (C, (C,)), (D, ())],
        }

        def check() -> None:
            query = lefts.where()
            # The first answer reads records, the second finds them.
            for _ in range(2):
                assert expected == {
                    "on": codes(query.join(rights, on=F.ref)),
                    "pair": codes(query.join_many(rights, on=(F.code, F.code))),
                    "back": codes(query.join_many(rights, back=F.ref)),
                    "list": codes(query.join_many(rights, on=F.refs)),
                    "elements": codes(query.join_many(rights, back=F.refs)),
                }

        check()
        for index in (memdb.HashIndex("ref"), memdb.SortedIndex("code"), memdb.SetIndex("refs")):
            rights.indexes.add(index)
        check()


# -- several classes -------------------------------------------------------------------------


@dataclass
class Cat:
    name: str
    owner_id: int
    lives: int = 9
    id: int = 0


@dataclass
class Dog:
    name: str
    owner_id: int
    tricks: list[str] = field(default_factory=list)
    id: int = 0


@dataclass
class Owner:
    name: str
    favourite_id: int | None = None
    id: int = 0


@dataclass
class Animal:
    name: str
    owner_id: int
    id: int = 0


@dataclass
class Bird(Animal):
    sings: bool = True


class TestSeveralClasses:
    def test_union_on_either_side(self, db: memdb.Database) -> None:
        """A collection of several classes gives each record as its own."""
        pets = db.collection(Cat | Dog, name="Pet")
        owners = db.collection(Owner)
        owners.insert_many([Owner("Ann", 2), Owner("Bob", 9)])
        pets.insert_many([Cat("Tom", 1), Dog("Rex", 1, ["sit"]), Cat("Kit", 7)])

        assert [
            (Owner("Ann", 2, 1), (Cat("Tom", 1, id=1), Dog("Rex", 1, ["sit"], 2))),
            (Owner("Bob", 9, 2), ()),
        ] == [tuple(row) for row in owners.where().join_many(pets, back=F.owner_id)]
        assert [Dog("Rex", 1, ["sit"], 2), None] == [
            row.pet for row in owners.where().join(pets, on=F.favourite_id)
        ]
        assert [
            (Cat("Tom", 1, id=1), Owner("Ann", 2, 1)),
            (Dog("Rex", 1, ["sit"], 2), Owner("Ann", 2, 1)),
            (Cat("Kit", 7, id=3), None),
        ] == [tuple(row) for row in pets.where().join(owners, on=F.owner_id)]

    def test_field_of_one_class(self, db: memdb.Database) -> None:
        """A field that only one of the classes has is absent in the others."""
        pets = db.collection(Cat | Dog, name="Pet")
        owners = db.collection(Owner)
        owners.insert_many([Owner("Ann", 2), Owner("Bob", 1)])
        pets.insert_many([Cat("Tom", 1, lives=7), Dog("Rex", 1)])
        query = owners.where().join(pets, on=F.favourite_id)

        assert ["Bob"] == query.where(F.pet.lives < 9).values(F.owner.name).all()
        assert [None, 7] == query.values(F.pet.lives).all()
        assert ["Ann", "Bob"] == query.order_by(F.pet.lives).values(F.owner.name).all()

    def test_subclasses(self, db: memdb.Database) -> None:
        """A base class and its subclasses in one collection."""
        animals = db.collection(Animal, subclasses=True)
        owners = db.collection(Owner)
        owners.insert(Owner("Ann"))
        animals.insert_many([Animal("Tom", 1), Bird("Tweety", 1, sings=False)])
        query = owners.where().join_many(animals, back=F.owner_id)

        assert (Animal("Tom", 1, 1), Bird("Tweety", 1, 2, sings=False)) == query.one().animals


# -- natural keys ----------------------------------------------------------------------------


@dataclass
class Country:
    code: str
    name: str


@dataclass
class City:
    country: str
    number: int
    name: str


@dataclass
class Trip:
    country_code: str | None
    city: tuple[str, int] | None
    country_codes: list[str]
    id: int = 0


class TestNaturalKeys:
    @pytest.fixture
    def countries(self, db: memdb.Database) -> Any:
        """Countries under their codes."""
        countries = db.collection(Country, key="code")
        countries.insert_many(
            [Country("no", "Norway"), Country("it", "Italy"), Country("1", "One")]
        )
        return countries

    @pytest.fixture
    def cities(self, db: memdb.Database) -> Any:
        """Cities under the code of their country and a number."""
        cities = db.collection(City, key=("country", "number"))
        cities.insert_many([City("it", 1, "Rome"), City("no", 1, "Oslo"), City("it", 2, "Pisa")])
        return cities

    @pytest.fixture
    def trips(self, db: memdb.Database) -> Any:
        """Trips with assigned identities."""
        trips = db.collection(Trip)
        trips.insert_many(
            [
                Trip("it", ("it", 2), ["no", "it"]),
                Trip(None, None, []),
                Trip("xx", ("it", 9), ["xx", "no", "no"]),
            ]
        )
        return trips

    def test_as_right(self, countries: Any, trips: Any) -> None:
        """The left's value is the key of the right."""
        assert ["Italy", None, None] == trips.where().join(countries, on=F.country_code).values(
            F.country.name
        ).all()
        assert [["Norway", "Italy"], [], ["Norway", "Norway"]] == [
            [country.name for country in row.countries]
            for row in trips.where().join_many(countries, on=F.country_codes)
        ]

    def test_as_left(self, countries: Any, trips: Any) -> None:
        """The right's value is the key of the left; lefts are in the order of writing."""
        assert [("Norway", []), ("Italy", [1]), ("One", [])] == [
            (row.country.name, [trip.id for trip in row.trips])
            for row in countries.where().join_many(trips, back=F.country_code)
        ]
        assert [("Norway", [1, 3]), ("Italy", [1]), ("One", [])] == [
            (row.country.name, [trip.id for trip in row.trips])
            for row in countries.where().join_many(trips, back=F.country_codes)
        ]

    def test_composite_as_right(self, cities: Any, trips: Any) -> None:
        """A tuple is the key where it is of several fields."""
        assert ["Pisa", None, None] == trips.where().join(cities, on=F.city, as_="there").values(
            F.there.name
        ).all()

    def test_composite_as_left(self, cities: Any, trips: Any) -> None:
        """The other way round."""
        assert [("Rome", []), ("Oslo", []), ("Pisa", [1])] == [
            (row.city.name, [trip.id for trip in row.trips])
            for row in cities.where().join_many(trips, back=F.city)
        ]

    def test_part_of_a_composite_key(self, countries: Any, cities: Any) -> None:
        """Its fields are values as any others."""
        assert [("Norway", ["Oslo"]), ("Italy", ["Rome", "Pisa"]), ("One", [])] == [
            (row.country.name, [city.name for city in row.cities])
            for row in countries.where().join_many(cities, back=F.country)
        ]
        assert ["Italy", "Norway", "Italy"] == cities.where().join(
            countries, on=F.country, as_="of"
        ).values(F.of.name).all()

    def test_order_of_rights(self, countries: Any, cities: Any) -> None:
        """Rights without an order are in the order of their last writing, too."""
        cities.update(("it", 1), name="Roma")
        query = countries.where(code="it").join_many(cities, back=F.country)

        assert [["Pisa", "Roma"]] == [[city.name for city in row.cities] for row in query]

    def test_types_of_keys_matter(self, db: memdb.Database) -> None:
        """A key is found by a value of its own type, as with get: 1, True and "1" are three."""
        rights, lefts = db.collection("right", key="code"), db.collection("left")
        keys = [1, True, "1", (1,), b"1", UUID(int=1), datetime.date(2024, 1, 1)]
        rights.insert_many([{"code": key} for key in keys])
        lefts.insert_many([{"ref": key} for key in [*keys, 1.0, [1], {}, (True,), "2"]])
        query = lefts.where().join(rights, on=F.ref)

        assert [*keys, *[None] * 5] == [row.right and row.right["code"] for row in query]
        assert [type(key) for key in keys] == [
            type(row.right["code"])
            for row in query.where(F.right != None)  # noqa: E711
        ]
        back = rights.where().join_many(lefts, back=F.ref, as_="found")
        # The list that holds a 1 names it as well.
        assert [[1, 9], [2], [3], [4], [5], [6], [7]] == [
            [left["id"] for left in row.found] for row in back
        ]


# -- indexes that functions make ---------------------------------------------------------------


class TestFunctions:
    """The name of an index that a function makes is a field of joins, too."""

    @pytest.fixture
    def tables(self, db: memdb.Database) -> tuple[Any, Any]:
        """Pets that say their owner in a text, and the owners, who are found by their initial."""
        owners = db.collection(
            Owner, indexes=[memdb.HashIndex(key=initial_of, name="initial", version=1)]
        )
        pets = db.collection(Cat, indexes=[memdb.HashIndex(key=owner_of, name="owner", version=1)])
        owners.insert_many([Owner("Ann"), Owner("Bob"), Owner("Abe")])
        pets.insert_many([Cat("Tom of 1", 0), Cat("Kit of 2", 0), Cat("Pip of 1", 0), Cat("?", 0)])
        return owners, pets

    def test_on(self, tables: tuple[Any, Any]) -> None:
        """What the function makes of the left names the right."""
        owners, pets = tables
        query = pets.where().join(owners, on=F.owner, as_="who")

        assert ["Ann", "Bob", "Ann", None] == query.values(F.who.name).all()

    def test_back(self, tables: tuple[Any, Any]) -> None:
        """What it makes of the right names the left, by the index."""
        owners, pets = tables
        query = owners.where().join_many(pets, back=F.owner)

        assert [[1, 3], [2], []] == [[cat.id for cat in row.cats] for row in query]
        assert "'owner'" in query.explain().joins[0].source
        assert () == query.explain().warnings

    def test_pair(self, tables: tuple[Any, Any]) -> None:
        """As either of a pair."""
        owners, _ = tables
        query = owners.where().join_many(owners, on=(F.initial, F.initial), as_="same")

        assert [[1, 3], [2], [1, 3]] == [[owner.id for owner in row.same] for row in query]

    def test_of_a_slot(self, tables: tuple[Any, Any]) -> None:
        """In conditions, orders and values, of any slot."""
        owners, pets = tables
        query = pets.where().join(owners, on=F.owner, as_="who")

        assert [1, 3] == query.where(F.who.initial == "A").values(F.cat.id).all()
        assert ["A", "B", "A", None] == query.values(F.who.initial).all()
        assert [4, 1, 3, 2] == query.order_by("who.initial").values(F.cat.id).all()
        assert [2] == query.where(F.owner == 2).values(F.id).all()

    def test_dropped(self, tables: tuple[Any, Any]) -> None:
        """When the index is dropped, the name is unknown."""
        owners, pets = tables
        query = owners.where().join_many(pets, back=F.owner)
        assert 3 == len(query.all())
        pets.indexes.drop("owner")

        with pytest.raises(memdb.QueryError, match="owner"):
            query.all()


def owner_of(cat: Any) -> int | None:
    """Return the identity at the end of a cat's name."""
    return int(cat.name[-1]) if cat.name[-1].isdigit() else None


def initial_of(owner: Any) -> str:
    """Return the first letter of an owner's name."""
    initial: str = owner.name[0]
    return initial


# -- databases -------------------------------------------------------------------------------


def answers(shop: Shop) -> dict[str, Any]:
    """Return the answers to some joined queries."""
    orders = shop.orders.where()
    queries = {
        "on": orders.join(shop.customers, on=F.customer_id),
        "pair": orders.join(shop.products, on=(F.sku, F.code)),
        "back": shop.customers.where().join(shop.profiles, back=F.customer_id),
        "many": shop.customers.where().join_many(
            shop.notes.where().order_by("-at").limit(2), back=F.customer_id
        ),
        "list": shop.docs.where().join_many(shop.tags, on=F.tag_ids, how="inner"),
        "elements": shop.tags.where().join_many(shop.docs, back=F.tag_ids),
        "nested": orders.join_many(
            shop.lines, back=F.order_id, then=lambda q: q.join(shop.products, on=F.product_id)
        ),
        "self": shop.employees.where().join(shop.employees, on=F.manager_id, as_="manager"),
        "sorted": orders.join(shop.customers, on=F.customer_id).order_by("-customer.name").limit(2),
    }
    found: dict[str, Any] = {name: query.to_dicts() for name, query in queries.items()}
    for name, query in queries.items():
        assert len(found[name]) == query.count() == len(query.all())
    return found


@pytest.fixture
def expected() -> Iterator[dict[str, Any]]:
    """The answers over a fresh shop in memory."""
    with memdb.open(None) as db:
        yield answers(make_shop(db))


@pytest.mark.parametrize("is_indexed", [False, True], ids=["plain", "indexed"])
@pytest.mark.parametrize("cache", ["all", "none", 3])
@pytest.mark.parametrize("serializer", ["binary", "msgpack", "json", "pickle"])
def test_files_and_caches(
    tmp_path: Path, expected: Any, serializer: str, cache: Any, is_indexed: bool
) -> None:
    """In any serializer and with any cache: when written, reopened, and opened for reading."""
    path = tmp_path / "shop.memdb"
    settings: dict[str, Any] = {"serializer": serializer, "cache": cache}
    with memdb.open(path, **settings) as db:
        shop = make_shop(db)
        if is_indexed:
            add_indexes(shop)

        assert expected == answers(shop)
    modes: list[Any] = ["r", "append"]
    for mode in modes:
        with memdb.open(path, mode, **settings) as db:
            shop = open_shop(db)
            # Nothing has been read yet: the first answer reads, the second finds it all.
            assert expected == answers(shop) == answers(shop)
            if is_indexed:
                add_indexes(shop)
                assert expected == answers(shop)


def test_each_question_first(tmp_path: Path, expected: Any) -> None:
    """Each of the questions can be the first one after opening."""
    path = tmp_path / "shop.memdb"
    with memdb.open(path) as db:
        make_shop(db)
    for ask in (
        lambda shop: shop.orders.where().join(shop.customers, on=F.customer_id).count(),
        lambda shop: shop.orders.where().join(shop.customers, on=F.customer_id).exists(),
        lambda shop: shop.orders.where().join_many(shop.lines, back=F.order_id).first(),
        lambda shop: shop.docs.where().join_many(shop.tags, on=F.tag_ids).page(1, 1),
        lambda shop: (
            shop.orders.where()
            .join(shop.customers, on=F.customer_id)
            .where(F.customer.name == "Ann")
            .sum("total")
        ),
    ):
        with memdb.open(path) as db:
            shop = open_shop(db)
            first = ask(shop)
            assert first == ask(shop)
            assert expected == answers(shop)


def test_mixed_caches() -> None:
    """Collections with different caches in one query."""
    with memdb.open(None) as db:
        for left_cache in ("all", "none", 2):
            for right_cache in ("all", "none", 2):
                names = f"left {left_cache} {right_cache}", f"right {left_cache} {right_cache}"
                lefts = fill(db, "frozen", names[0], left_cache)
                rights = fill(db, "struct", names[1], right_cache)
                query = lefts.where().join(rights, on=F.ref)

                assert [(A, B), (B, None), (C, None), (D, B)] == codes(query) == codes(query)
                assert 2 == query.where(F[_slot(names[1])].code == "b").count()


def _slot(name: str) -> str:
    return name.replace(" ", "_")


@pytest.mark.parametrize("cloner", ["auto", "roundtrip", "fields", "share"])
def test_cloners(cloner: Any) -> None:
    """However records are copied, if at all."""
    with memdb.open(None, cloner=cloner) as db:
        shop = make_shop(db)
        rows = shop.orders.where().join(shop.customers, on=F.customer_id).all()

        assert rows[0].customer is rows[1].customer
        assert (rows[0].customer is shop.customers[1]) == (cloner == "share")


def test_stale_versions() -> None:
    """Records that were changed and deleted often are found as they are, and gone."""
    with memdb.open(None) as db:
        shop = make_shop(db)
        query = shop.customers.where().join_many(shop.orders, back=F.customer_id)
        for turn in range(20):
            shop.orders.update(1, customer_id=1 + turn % 4)
            shop.customers.update(1 + turn % 4, name=f"n{turn}")
            found = {row.customer.name: [each.id for each in row.orders] for row in query}

            assert 1 in found[f"n{turn}"]
            assert 1 == sum(1 in ids for ids in found.values())
        shop.orders.delete(1)
        assert not any(each.id == 1 for row in query for each in row.orders)
