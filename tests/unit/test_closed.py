"""Use after close: every public method refuses, and says why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import memdb


@dataclass
class Person:
    name: str
    id: int = 0


def _calls(db: memdb.Database) -> dict[str, Callable[[], Any]]:
    """Return a call of each public method that must refuse a closed database."""
    people = db.collection(Person)
    return {
        "collection": lambda: db.collection("other"),
        "collections": db.collections,
        "transaction": lambda: db.transaction().__enter__(),
        "flush": db.flush,
        "checkpoint": db.checkpoint,
        "check": db.check,
        "stats": db.stats,
        "migrate": db.migrate,
        "health": db.health,
        "refresh": db.refresh,
        "view": lambda: db.view().__enter__(),
        "at": lambda: db.at(1).__enter__(),
        "snapshot": lambda: db.snapshot("no snapshot of a closed database"),
        "compact": db.compact,
        "rekey": lambda: db.rekey(password="secret"),
        "Collection.get": lambda: people.get(1),
        "Collection.__getitem__": lambda: people[1],
        "Collection.__contains__": lambda: 1 in people,
        "Collection.__len__": lambda: len(people),
        "Collection.__iter__": lambda: iter(people),
        "Collection.ids": people.ids,
        "Collection.items": people.items,
        "Collection.find": lambda: [people.find(name="a"), people.find(id=1)],
        "Collection.find_all": people.find_all,
        "Collection.count": people.count,
        "Collection.exists": people.exists,
        "Collection.where": lambda: people.where(name="a").all(),
        "Collection.query": people.query().all,
        "Collection.history": lambda: people.history(1),
        "Collection.stats": people.stats,
        "Collection.insert": lambda: people.insert(Person("a")),
        "Collection.insert_many": lambda: people.insert_many([]),
        "Collection.put": lambda: people.put(Person("a", id=1)),
        "Collection.update": lambda: people.update(1, name="b"),
        "Collection.edit": lambda: people.edit(1).__enter__(),
        "Collection.delete": lambda: people.delete(1),
        "Collection.__delitem__": lambda: people.__delitem__(1),
        "Collection.clear": people.clear,
    }


# What answers on a closed database as well.
_ANSWERS = {
    *("path", "recovery", "is_closed", "is_encrypted", "close", "__repr__"),
    *("__enter__", "__exit__"),
    *("Collection.name", "Collection.__repr__", "Collection.__bool__", "Collection.indexes"),
}


class TestUseAfterClose:
    @pytest.mark.parametrize("name", _calls(memdb.open(None)))
    @pytest.mark.parametrize("cache", ["all", "none"])
    def test_is_refused(self, tmp_path: Path, name: str, cache: str) -> None:
        """Every method of a closed database says that it is closed, cached or not."""
        for path in (None, tmp_path / "a"):
            db = memdb.open(path, cache=cache)
            people = db.collection(Person)
            people.insert(Person("a"))
            people.get(1)
            call = _calls(db)[name]
            db.close()
            with pytest.raises(memdb.ClosedError, match="is closed") as caught:
                call()
            assert isinstance(caught.value, ValueError)

    def test_no_method_is_forgotten(self) -> None:
        """The list above has every public method."""

        def public(cls: type[Any], prefix: str) -> set[str]:
            return {
                prefix + name
                for name, value in vars(cls).items()
                if (callable(value) or isinstance(value, property))
                and (not name.startswith("_") or name.startswith("__"))
                and name not in ("__init__", "__class_getitem__", "__orig_bases__")
            }

        expected = public(memdb.Database, "") | public(memdb.Collection, "Collection.")

        assert expected == set(_calls(memdb.open(None))) | _ANSWERS

    def test_iteration_over_the_end(self) -> None:
        """An iteration that goes on after the close ends in the same error."""
        for cache in ("all", "none"):
            db = memdb.open(None, cache=cache)
            people = db.collection(Person)
            people.insert_many([Person("a")] * 5_000)
            iterations = [iter(people), people.items()]
            for each in iterations:
                next(each)
            db.close()
            for each in iterations:
                with pytest.raises(memdb.ClosedError):
                    list(each)

    def test_properties_answer(self, tmp_path: Path) -> None:
        """What a handle is can be asked for ever."""
        path = tmp_path / "a"
        db = memdb.open(path)
        people = db.collection(Person)
        assert not db.is_closed
        db.close()

        assert (True, str(path), None, "Person") == (
            db.is_closed,
            db.path,
            db.recovery,
            people.name,
        )
        with pytest.raises(memdb.ClosedError), db:
            db.flush()
