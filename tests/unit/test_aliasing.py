"""No reference leads into the database: what anybody does to an object is seen by nobody else.

For each kind of record, serializer and cloner; `"share"` promises nothing of this, and `"fields"`
only that the record itself is the receiver's own.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator
from dataclasses import make_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import memdb
from memdb import F
from tests.support.exact import assert_exact
from tests.support.samples import KINDS, SERIALIZERS, Address, RecordKind

VALUES: dict[str, Any] = {
    "name": "a",
    "n": 1,
    "tags": ["x", "y"],
    "rows": [[1], [2, 3]],
    "table": {"k": ["v"]},
    "home": Address("Rome", ["1"]),
    "grid": np.arange(6.0).reshape(2, 3),
    "parts": ({"x"}, bytearray(b"x"), ([1], [2])),
    "value": {"list": [1, [2]], "set": {3}, "array": bytearray(b"x"), "pair": ([4], {"k": []})},
    "data": [{"k": [1]}, {"s"}],
}


def make(kind: RecordKind) -> Any:
    """Return a new record with every nested value that the kind has."""
    names = kind.fields.keys() & VALUES.keys()
    values = {name: copy.deepcopy(VALUES[name]) for name in kind.fields if name in names}
    if kind.name == "Pair":
        values["tags"] = ("x", "y")
    return kind.make(values)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("serializer", SERIALIZERS)
@pytest.mark.parametrize("cloner", ["auto", "roundtrip", "fields"])
@pytest.mark.parametrize("cache", ["all", "none"])
class TestRecords:
    """Case E1."""

    def test_objects_are_the_users(
        self, tmp_path: Path, kind: RecordKind, serializer: str, cloner: str, cache: str
    ) -> None:
        """Changing what was inserted, read, found, iterated or given to a predicate is not seen."""
        settings: Any = {"serializer": serializer, "cloner": cloner, "cache": cache}
        # With a file in half of the cases: each costs some syncs.
        path = tmp_path / "a" if cache == "all" else None
        with memdb.open(path, **settings) as db:
            collection = db.collection(kind.target)
            deeply = cloner != "fields"
            original = make(kind)
            expected = kind.make(kind.values(make(kind)), 1)
            assert 1 == collection.insert(original)
            kind.vandalise(original)
            assert_exact(collection[1], expected)

            def spoil(record: Any) -> bool:
                kind.vandalise(record, deeply=deeply)
                return True

            for read in _reads(collection, spoil):
                for _ in range(2):
                    found = read()
                    assert_exact(found, expected)
                    kind.vandalise(found, deeply=deeply)
            for count in (collection.count, collection.exists):
                count(spoil)
            assert_exact(collection[1], expected)
            self._check_writes(collection, kind, deeply)
            state = dict(collection.items())
            versions = [each.record for each in collection.history(1)]
        if path is not None:
            with memdb.open(path, "r", trusted_serializers=["pickle"]) as db:
                assert_exact(dict(db.collection(kind.target).items()), state)
                found = [each.record for each in db.collection(kind.target).history(1)]
                assert_exact(found, versions)

    def _check_writes(
        self, collection: memdb.Collection[Any], kind: RecordKind, deeply: bool
    ) -> None:
        """Check the records that come in through the other ways of writing."""
        kept: list[Any] = []
        many = [make(kind), make(kind)]
        identities = collection.insert_many(many)
        kept += many
        new = make(kind)
        collection.update(1, lambda record: new)
        kept.append(new)
        replacing = kind.make(kind.values(make(kind)) | {"n": 2})
        collection.update(identities[0], replacing)
        kept.append(replacing)
        if kind.has_identity:
            put = kind.make(kind.values(make(kind)) | {"n": 3}, identities[1])
            collection.put(put)
            kept.append(put)
        given: list[Any] = []
        collection.update(identities[1], given.append)
        kept += given
        before = list(collection.items())
        for record in kept:
            kind.vandalise(record, deeply=deeply or record not in given)

        assert_exact(list(collection.items()), before)
        assert [1, 2] == [kind.get(record, "n") for _, record in before[:2]]

    def test_first_read(self, kind: RecordKind, serializer: str, cloner: str, cache: str) -> None:
        """The first to read a record gets a copy as all others do, however it reads."""
        settings: Any = {"serializer": serializer, "cloner": cloner, "cache": cache}
        expected = kind.make(kind.values(make(kind)), 1)
        with memdb.open(None, **settings) as db:
            collection = db.collection(kind.target)
            collection.insert(make(kind))
            for read in _reads(collection, _accept):
                collection._store.cache.clear()
                for _ in range(3):
                    found = read()
                    assert_exact(found, expected)
                    kind.vandalise(found, deeply=cloner != "fields")

    def test_function_that_raises(
        self, kind: RecordKind, serializer: str, cloner: str, cache: str
    ) -> None:
        """What a function or an edit block did before it raised is not seen."""
        settings: Any = {"serializer": serializer, "cloner": cloner, "cache": cache}
        with memdb.open(None, **settings) as db:
            collection = db.collection(kind.target)
            collection.insert(make(kind))
            expected = collection[1]

            def spoil(record: Any) -> None:
                kind.vandalise(record, deeply=cloner != "fields")
                raise ZeroDivisionError

            with pytest.raises(ZeroDivisionError):
                collection.update(1, spoil)
            if kind.is_mutable:
                with pytest.raises(ZeroDivisionError), collection.edit(1) as record:
                    spoil(record)
            assert_exact(collection[1], expected)

    def test_fields_of_an_update(
        self, kind: RecordKind, serializer: str, cloner: str, cache: str
    ) -> None:
        """Values given to update stay the caller's, and earlier results keep theirs."""
        settings: Any = {"serializer": serializer, "cloner": cloner, "cache": cache}
        with memdb.open(None, **settings) as db:
            collection = db.collection(kind.target)
            collection.insert(make(kind))
            results = [collection[1], collection[1], next(iter(collection))]
            before = copy.deepcopy(results)
            fields = {"name": "new"} | {
                name: copy.deepcopy(VALUES[name])
                for name in ("tags", "rows", "value", "data")
                if name in kind.fields and kind.name != "Pair"
            }
            collection.update(1, **fields)
            expected = collection[1]
            for name, value in fields.items():
                if isinstance(value, list):
                    value.append("VANDALISED")
                elif isinstance(value, dict):
                    value.clear()
                assert name in kind.fields

            assert_exact(collection[1], expected)
            assert_exact(results, before)


def _accept(record: Any) -> bool:
    return True


def _reads(collection: memdb.Collection[Any], spoil: Callable[[Any], object]) -> list[Any]:
    """Return every way of reading record 1."""
    return [
        lambda: collection[1],
        lambda: collection.get(1),
        lambda: next(iter(collection)),
        lambda: next(collection.items())[1],
        lambda: collection.find(F.n == 1),
        lambda: collection.find(name="a"),
        lambda: collection.find_all(n=1)[0],
        lambda: collection.find(spoil),
        lambda: collection.find_all(spoil, name="a")[0],
        lambda: collection.history(1)[0].record,
    ]


def _old_thing() -> type[Any]:
    fields: list[Any] = [("name", str), ("tags", list[str]), ("id", int, 0)]
    return make_dataclass("Thing", fields)


def _new_thing() -> type[Any]:
    fields: list[Any] = [("name", str), ("tags", list[str]), ("extra", list[str]), ("id", int, 0)]
    return make_dataclass("Thing", fields)


def _retyped_thing() -> type[Any]:
    fields: list[Any] = [("name", str), ("tags", dict[str, list[str]]), ("id", int, 0)]
    return make_dataclass("Thing", fields)


@pytest.mark.parametrize("serializer", SERIALIZERS)
@pytest.mark.parametrize("cache", ["all", "none"])
class TestEvolution:
    """What the functions for old records were given, or gave, is not the record."""

    def open_old(self, path: Path, serializer: str, cache: Any) -> memdb.Database:
        """Return a database with two records of the class as it was."""
        old = _old_thing()
        with memdb.open(path, serializer=serializer) as db:
            db.collection(old).insert_many([old("a", ["x"]), old("b", ["y"])])
        return memdb.open(path, serializer=serializer, cache=cache)

    @pytest.mark.parametrize("by_version", [True, False])
    def test_dict_of_an_upgrade(
        self, tmp_path: Path, serializer: str, cache: str, by_version: bool
    ) -> None:
        """A dict that an upgrade keeps, and a list that it gives to every record."""
        kept: list[Any] = []
        shared = ["extra"]

        def upgrade(plain: dict[str, Any]) -> None:
            plain["extra"] = shared
            kept.append(plain)

        asked: Any = {"version": 2, "upgrades": {2: upgrade}} if by_version else {}
        asked = asked or {"upgrade": upgrade}
        new = _new_thing()
        with self.open_old(tmp_path / "a", serializer, cache) as db:
            things = db.collection(new, **asked)
            for read in _reads_of_things(things):
                found = read()
                assert_exact(found, new("a", ["x"], ["extra"], 1))
                found.tags.append("VANDALISED")
                found.extra.append("VANDALISED")
                for plain in kept:
                    plain.get("tags", []).append("VANDALISED")
                    plain.clear()
                assert ["extra"] == shared
            things.update(1, name="c")
            shared.append("VANDALISED")

            assert_exact(things[1], new("c", ["x"], ["extra"], 1))

    def test_value_of_a_converter(self, tmp_path: Path, serializer: str, cache: str) -> None:
        """A value that a converter keeps, and one that it gives to every record."""
        kept: list[Any] = []
        shared = {"k": ["v"]}

        def convert(tags: list[str]) -> dict[str, list[str]]:
            kept.append(tags)
            return shared

        new = _retyped_thing()
        with self.open_old(tmp_path / "a", serializer, cache) as db:
            things = db.collection(new, converters={"tags": convert})
            for read in _reads_of_things(things):
                found = read()
                assert_exact(found, new("a", {"k": ["v"]}, 1))
                found.tags["k"].append("VANDALISED")
                for tags in kept:
                    tags.append("VANDALISED")
                assert {"k": ["v"]} == shared


def _reads_of_things(things: memdb.Collection[Any]) -> list[Callable[[], Any]]:
    return [
        lambda: things[1],
        lambda: things.get(1),
        lambda: next(iter(things)),
        lambda: things.find_all(F.name == "a")[0],
        lambda: things.find(lambda thing: thing.name == "a"),
        lambda: things.history(1)[0].record,
        lambda: things[1],
    ]


def test_result_list_is_the_users(db: memdb.Database) -> None:
    """The lists that methods give are the receiver's, too."""
    events = db.collection("events")
    events.insert_many([{"a": 1}, {"a": 2}])
    for give in (events.ids, events.find_all, lambda: events.history(1), db.collections):
        give().clear()
    given = events.insert_many([{"a": 3}])
    given.clear()

    assert [1, 2, 3] == events.ids() == [event["id"] for event in events.find_all()]
    assert (1, ["events"]) == (len(events.history(1)), db.collections())


@pytest.mark.parametrize("cache", ["all", "none", 3])
@pytest.mark.parametrize("index", [True, False])
@pytest.mark.parametrize("of", ["records", "items", "find_all"])
class TestIteration:
    """Case E2: an iteration is over the state at its start."""

    COUNT = 1_100

    def collection(self, db: memdb.Database, cache: Any, index: bool) -> memdb.Collection[Any]:
        events = db.collection("events", cache=cache, identity_index=index)
        events.insert_many({"n": number} for number in range(1, self.COUNT + 1))
        return events

    def iterate(self, events: memdb.Collection[Any], of: str) -> Iterator[Any]:
        if of == "items":
            return (record for _, record in events.items())
        return iter(events) if of == "records" else iter(events.find_all())

    def test_changes_on_the_way(self, db: memdb.Database, cache: Any, index: bool, of: str) -> None:
        """Deleting, updating and inserting while iterating does not show."""
        events = self.collection(db, cache, index)
        events.get(1_050)
        before = list(events)
        seen = []
        for event in self.iterate(events, of):
            seen.append(event)
            if event["id"] % 100 == 1:
                events.update(event["id"], n=-1)
                events.update(self.COUNT, n=event["id"])
                # Now the new state is in the cache.
                assert events[self.COUNT]["n"] == event["id"]
                events.delete(event["id"] + 1)
                events.insert({"n": 0})
                assert events[event["id"]]["n"] == -1
        assert_exact(seen, before)
        assert self.COUNT == len(events)

    def test_changes_from_another_thread(
        self, db: memdb.Database, cache: Any, index: bool, of: str
    ) -> None:
        """The same when another thread changes everything meanwhile."""
        events = self.collection(db, cache, index)
        before = list(events)
        seen = []
        iteration = self.iterate(events, of)
        seen.append(next(iteration))

        def change() -> None:
            events.clear()
            events.insert_many({"n": -1} for _ in range(10))

        thread = threading.Thread(target=change)
        thread.start()
        thread.join()
        seen += iteration

        assert_exact(seen, before)
        assert 10 == len(events)
