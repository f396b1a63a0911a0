"""Queries: building them, and what each way to ask gives."""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import memdb
from memdb import F
from memdb.errors import ClosedError, QueryError
from memdb.query import P, count_
from memdb.query._query import Query


@dataclass
class Address:
    city: str
    zip: int = 0


@dataclass
class Person:
    name: str
    age: int | None = 0
    tags: list[str] = field(default_factory=list)
    home: Address | None = None
    id: int = 0


@dataclass(frozen=True)
class Point:
    """Can't be changed, so that results are shared."""

    x: int
    y: int


@pytest.fixture
def people(db: memdb.Database) -> memdb.Collection[Person]:
    """Ann, Bob, Cid and Dan under 1 to 4."""
    collection = db.collection(Person)
    collection.insert_many(
        [
            Person("Ann", 30, ["x"], Address("Rome", 1)),
            Person("Bob", None),
            Person("Cid", 30, ["x", "y"], Address("Bern", 2)),
            Person("Dan", 41, ["y"], Address("Rome", 3)),
        ]
    )
    return collection


def names(query: Query[Person]) -> str:
    """Return the first letters of the names that a query gives, in order."""
    return "".join(person.name[0] for person in query.all())


class TestWhere:
    def test_conditions_join(self, people: memdb.Collection[Person]) -> None:
        """Records match all conditions and equalities, however they are given."""
        expected = "A"
        found = [
            people.where(F.age == 30, F.home.city == "Rome"),
            people.where(F.age == 30).where(F.home.city == "Rome"),
            people.where((F.age == 30) & (F.home.city == "Rome")),
            people.where(F.home.city == "Rome", age=30),
            people.query().where(age=30).where(F.home.zip < 2),
            people.where(F.age == 30, lambda person: person.home.city == "Rome"),
            people.where(lambda person: person.age == 30, lambda person: "y" not in person.tags),
        ]

        assert [expected] * len(found) == list(map(names, found))

    def test_nothing_asked(self, people: memdb.Collection[Person]) -> None:
        """Without conditions every record matches, in the order of iteration."""
        assert list(people) == people.where().all() == people.query().all()

    def test_equal_to_another_field(self, people: memdb.Collection[Person]) -> None:
        """An equality may be with another field of the record."""
        people.insert(Person("Eve", home=Address("Eve")))

        assert "E" == names(people.where(name=F.home.city))

    @pytest.mark.parametrize("condition", [None, 5, True, "age", F.age, Person])
    def test_no_condition(self, people: memdb.Collection[Person], condition: Any) -> None:
        """What is no condition is refused when it is given."""
        with pytest.raises(QueryError):
            people.where(condition)

    def test_unknown_field(self, people: memdb.Collection[Person]) -> None:
        """A field that does not exist is refused with the nearest name, wherever it stands."""
        query = people.where()
        for ask in (
            people.where(nmae="Ann").all,
            people.where(F.nmae == "Ann").count,
            query.order_by("nmae").all,
            query.order_by("nmae").count,
            query.order_by("nmae").exists,
            query.order_by("nmae").first,
            query.select("nmae").all,
            query.values(F.nmae + "x").all,
            query.group_by("nmae").all,
            lambda: query.sum("nmae"),
            lambda: query.max("nmae"),
        ):
            with pytest.raises(QueryError, match=r"'nmae'. Did you mean 'name'\?"):
                ask()

    def test_condition_as_truth(self, people: memdb.Collection[Person]) -> None:
        """`and` between conditions is refused with what to write."""
        with pytest.raises(QueryError, match="Use & "):
            people.where(F.age == 3 and F.name == "x")

    def test_callables_get_copies(self, people: memdb.Collection[Person]) -> None:
        """What a condition does to its record nobody sees, not even the receiver."""

        def spoil(person: Person) -> bool:
            person.tags.append("spoilt")
            return True

        first = people.where(spoil).all()

        assert [["x"], [], ["x", "y"], ["y"]] == [person.tags for person in first]
        assert first == list(people)


class TestImmutable:
    def test_every_method_gives_another(self, people: memdb.Collection[Person]) -> None:
        """A query is as it was after others were made of it."""
        query = people.where(F.age > 1).order_by("name")
        before = names(query), repr(query)
        query.where(name="Ann")
        query.order_by("-name").skip(1).limit(1).distinct()
        query.select("name").after(query.page(take=1).cursor)
        query.group_by("age").having(count_() > 1).values("age")

        assert before == (names(query), repr(query))

    def test_sequence_is_free(self, people: memdb.Collection[Person]) -> None:
        """The parts of a query mean the same in any sequence."""
        steps: list[Any] = [
            lambda query: query.where(F.age > 1),
            lambda query: query.order_by("-age", "name"),
            lambda query: query.skip(1),
            lambda query: query.limit(1),
            lambda query: query.select("name"),
        ]
        found = []
        for order in itertools.permutations(steps):
            query: Any = people.query()
            for each in order:
                query = each(query)
            found.append(query.all())

        assert [[("Ann",)]] * 120 == found

    def test_the_last_one_counts(self, people: memdb.Collection[Person]) -> None:
        """Another order, skip, limit or selection takes the place of the one before."""
        query = people.where().order_by("name").skip(3).limit(1).select("name")

        assert [(4,), (3,)] == query.order_by("-id").skip(0).limit(2).select("id").all()
        assert 4 == query.skip(0).limit(None).count()

    def test_repr(self, people: memdb.Collection[Person]) -> None:
        """It shows what it asks, and nothing of what it would find."""
        query = people.where(F.age > 1).order_by("-age", "name").skip(P.start).limit(5)

        assert "<Query of 'Person'>" == repr(people.where())
        assert (
            "<Query of 'Person' where F.age > 1 order by F.age.desc(), F.name.asc() skip P.start"
            " limit 5>"
        ) == repr(query)
        grouped = people.query().group_by("age").having(count_() > 1).select(n=count_()).distinct()
        assert "<Query of 'Person' group by F.age having count_() > 1 select n distinct>" == repr(
            grouped
        )
        cursor = people.where().page(take=1).cursor
        assert "<Query of 'Person' after a cursor>" == repr(people.where().after(cursor))


class TestAsking:
    def test_first(self, people: memdb.Collection[Person]) -> None:
        """The first in order, a default for none."""
        query = people.where(F.age > 1)

        assert ["Ann", "Dan"] == [
            found.name for found in (query.first(), query.order_by("-id").first()) if found
        ]
        assert (None, "none") == (query.where(id=9).first(), query.where(id=9).first("none"))
        assert (None, None) == (query.limit(0).first(), query.skip(3).first())
        assert ("Ann",) == query.select("name").first()
        assert 3 == people.where().select(count_()).first()[0] - 1  # type: ignore[index]

    def test_one(self, people: memdb.Collection[Person]) -> None:
        """Exactly one, or an error that says how many."""
        assert "Ann" == people.where(name="Ann").one().name
        assert "Bob" == people.where().skip(1).limit(1).values("name").one()
        with pytest.raises(QueryError, match="there are several"):
            people.where(age=30).one()
        with pytest.raises(QueryError, match="there is none"):
            people.where(age=31).one()

    @pytest.mark.parametrize("skip", [0, 1, 3, 4, 5, 10**30])
    @pytest.mark.parametrize("limit", [0, 1, 3, 4, 5, 10**30, None])
    def test_skip_and_limit(
        self, people: memdb.Collection[Person], skip: int, limit: int | None
    ) -> None:
        """All, count, exists, ids, iteration and first agree about skip and limit at all ends."""
        for query in (people.where(), people.where(F.id > 0), people.where().order_by("-name")):
            whole = query.all()
            cut = query.skip(skip).limit(limit)
            expected = whole[skip:][:limit]

            assert expected == cut.all() == list(cut)
            assert (len(expected), bool(expected)) == (cut.count(), cut.exists())
            assert [person.id for person in expected] == cut.ids()
            assert (expected[0] if expected else None) == cut.first()
            assert [(person.name,) for person in expected] == cut.select("name").all()
            assert len(expected) == cut.select("name").count() == cut.distinct().count()

    @pytest.mark.parametrize("count", [-1, 1.0, "1", True, None, [1]])
    def test_no_number(self, people: memdb.Collection[Person], count: Any) -> None:
        """Skip and limit take numbers from 0; the error shows what was given."""
        query = people.where()
        builders = [query.skip, query.page]
        if count is not None:
            builders += [query.limit, lambda take: query.page(0, take)]
        for build in builders:
            with pytest.raises(QueryError, match="is a number of results") as caught:
                build(count)
            assert str(caught.value).endswith(f"not {count!r}.")

    def test_exists_and_count(self, people: memdb.Collection[Person]) -> None:
        """They agree with all, also behind a cursor and with callables."""
        cursor = people.where().page(take=3).cursor
        for query in (
            people.where(F.age == 30),
            people.where(F.age == 31),
            people.where(lambda person: person.age == 30),
            people.where().after(cursor),
            people.where(F.id < 4).after(cursor),
            people.where().distinct(),
            people.where().group_by("age"),
            people.where(id=9).group_by("age"),
        ):
            assert (len(query.all()), bool(query.all())) == (query.count(), query.exists())

    def test_count_copies_nothing(self, db: memdb.Database) -> None:
        """Neither counting nor asking whether there are some copies a record."""
        copied: list[Any] = []

        def clone(record: Person) -> Person:
            copied.append(record)
            return Person(record.name, record.age)

        people = db.collection(Person, cloner=clone)
        people.insert_many([Person("Ann", 1), Person("Bob", 2)])
        for query in (people.where(), people.where(F.age > 1), people.where().order_by("name")):
            query.count()
            query.exists()
            query.skip(1).count()
            query.sum("age")
            query.values("age").distinct().count()

        assert [] == copied

    def test_results_are_copies(self, people: memdb.Collection[Person]) -> None:
        """Nothing that a receiver does to a result is seen by the next."""
        query = people.where(id=3).order_by("name")
        for ask in (
            lambda: query.all()[0].tags,
            lambda: query.one().tags,
            lambda: next(iter(people.where(id=3))).tags,
            lambda: query.page().items[0].tags,
            lambda: query.select("tags").one()[0],
            lambda: query.values(F.tags).one(),
            lambda: query.values(F.tags + ["z"]).one()[:2],  # noqa: RUF005
            lambda: query.distinct().one().tags,
            lambda: query.min("tags"),
            lambda: query.max("tags"),
            lambda: query.to_dicts()[0]["tags"],
            lambda: query.order_by().group_by("tags").one()[0],
            lambda: query.order_by().select(F.tags.max_()).one()[0],
        ):
            for _ in range(2):
                tags: Any = ask()
                assert ["x", "y"] == tags
                tags.append("changed")
        home = query.values("home").one()
        home.city = "changed"
        assert "Bern" == query.values("home.city").one()

    def test_immutable_records_are_shared(self, db: memdb.Database) -> None:
        """What can't be changed is given out as it is."""
        points = db.collection(Point)
        points.insert_many([Point(1, 2), Point(3, 4)])
        points.where().all()

        assert points.where().all()[1] is points.where(x=3).one()

    def test_iteration_is_over_the_start(self, people: memdb.Collection[Person]) -> None:
        """What is changed while iterating, here or in another thread, does not show."""
        for query in (
            people.where(),
            people.where(F.id > 0),
            people.where().order_by("name"),
            people.where(lambda person: True),
            people.where().skip(1).limit(2),
        ):
            before = query.all()
            seen = []
            for person in query:
                seen.append(person)
                people.update(person.id, name=person.name.lower(), age=0)
                thread = threading.Thread(
                    target=lambda: people.insert_many([Person("new")] * 3), daemon=True
                )
                thread.start()
                thread.join()
                if person.id > 1:
                    people.delete(person.id)

            assert before == seen

    def test_in_a_transaction(self, db: memdb.Database, people: memdb.Collection[Person]) -> None:
        """A query sees what its own transaction changed, and nothing of it after a rollback."""
        query = people.where(F.age > 29).order_by("-name")
        with pytest.raises(ZeroDivisionError), db.transaction():
            people.update(2, age=50)
            people.delete(4)
            people.insert(Person("Eve", 60))
            assert ("ECBA", 4, 4) == (names(query), query.count(), people.where().count())
            assert 170 == query.sum("age")
            1 / 0  # noqa: B018

        assert ("DCA", 3, 4) == (names(query), query.count(), people.where().count())

    def test_ids(self, people: memdb.Collection[Person]) -> None:
        """The identities of the results, in their order."""
        assert [4, 3, 1] == people.where(F.age > 1).order_by("-id").ids()

    def test_closed(self, tmp_path: Path) -> None:
        """A query of a closed database is refused, however it asks."""
        db = memdb.open(tmp_path / "x.memdb")
        people = db.collection(Person)
        people.insert(Person("Ann"))
        query = people.where(F.age == 0)
        db.close()
        for ask in (query.all, query.count, query.first, people.where().count, query.delete):
            with pytest.raises(ClosedError):
                ask()


class TestReductions:
    def test_values(self, people: memdb.Collection[Person]) -> None:
        """Sum, mean, min and max of a value; None and absent are left out."""
        query = people.where()

        assert (101, 101 / 3, 30, 41) == (
            query.sum("age"), query.mean("age"), query.min("age"), query.max("age")
        )  # fmt: skip
        assert (6, 2.0, "Bern", "Rome") == (
            query.sum("home.zip"), query.mean(F.home.zip), query.min("home.city"),
            query.max(F.home.city),
        )  # fmt: skip
        assert 10 == query.sum(F.age % 7)

    def test_of_none(self, people: memdb.Collection[Person]) -> None:
        """Of no values the sum is 0 and the others are None."""
        query = people.where(name="Bob")

        assert (0, None, None, None) == (
            query.sum("age"), query.mean("age"), query.min("age"), query.max("age")
        )  # fmt: skip

    def test_honour_the_rest(self, people: memdb.Collection[Person]) -> None:
        """They are over what the query gives: its order, skip, limit and cursor count."""
        query = people.where().order_by("-id")

        assert (41, 71) == (query.limit(1).sum("age"), query.limit(3).sum("age"))
        assert 30 == query.after(query.page(take=2).cursor).sum("age")

    def test_of_selected_values(self, people: memdb.Collection[Person]) -> None:
        """After values() they need no name, and distinct counts."""
        query = people.where().values("age")

        assert (101, 71) == (query.sum(), query.distinct().sum())
        assert 2 == people.where().group_by("age").values(count_()).max()

    def test_refused(self, people: memdb.Collection[Person]) -> None:
        """What has no sum is refused with its types, and a selection that is none."""
        query = people.where()
        with pytest.raises(QueryError, match="values of type str have no sum"):
            query.sum("name")
        with pytest.raises(QueryError, match="values of type Address have no sum"):
            query.mean("home")
        with pytest.raises(QueryError, match="takes a field"):
            query.sum()
        with pytest.raises(QueryError, match="is for whole records"):
            query.distinct().max("age")


class TestParameters:
    def test_without_values(self, people: memdb.Collection[Person]) -> None:
        """A parameter without a value is refused, wherever it stands."""
        query = people.where()
        for ask in (
            people.where(F.age == P.x).all,
            query.order_by(F.age % P.x).all,
            query.values(F.age % P.x).all,
            query.skip(P.x).all,
            query.limit(P.x).count,
            query.limit(P.x).page,
        ):
            with pytest.raises(QueryError, match=r"P\.x"):
                ask()

    def test_bound(self, people: memdb.Collection[Person]) -> None:
        """With values for its parameters a query is as if it had been written so."""
        query = (
            people.where(F.age % P.divisor == P.rest)
            .order_by((F.id * P.sign).asc())
            .skip(P.skip)
            .limit(P.limit)
            .select(F.id * P.sign)
        )
        given = {"divisor": 10, "rest": 0, "sign": -1, "skip": 0, "limit": None}

        assert [(-3,), (-1,)] == query._bound(given).all()
        assert [(-1,)] == query._bound({**given, "skip": 1, "limit": 5}).all()
        grouped = people.query().group_by(F.age % P.n).having(count_() > P.least)
        assert [(0,)] == grouped._bound({"n": 2, "least": 1}).all()
        with pytest.raises(QueryError, match="was not given"):
            query._bound({"divisor": 1})
        with pytest.raises(QueryError, match="has no parameter 'more'"):
            query._bound({**given, "more": 1})
        with pytest.raises(QueryError, match="is a number of results"):
            query._bound({**given, "skip": -1})
