"""Collections of several classes, in random order, against plain dicts.

Each opening makes the classes anew, as a new process does, with more of them or with other names.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, make_dataclass
from functools import partial, reduce
from operator import or_
from pathlib import Path
from typing import Any, NamedTuple

import attrs
import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

import memdb
from memdb import F
from tests.support.effort import times
from tests.support.exact import assert_exact
from tests.support.model import CollectionModel, forget_open
from tests.support.samples import BY_NAME, SERIALIZERS

TRUST: dict[str, Any] = {"trusted_serializers": ["pickle"]}
WHICH = st.integers(0, 30)
NAME = "animals"
# Behind names that no type checker follows: the fields are known only when it runs.
_named_tuple: Any = NamedTuple
_defstruct: Any = msgspec.defstruct

#: Tag -> the field that only this class has, its type, and its values.
OWN: dict[str, tuple[str, Any, st.SearchStrategy[Any]]] = {
    "Cat": ("lives", int, st.sampled_from([0, 9, 2**70])),
    "Dog": ("friends", list[str], st.lists(st.sampled_from(["a", "\ud800"]), max_size=2)),
    "Bird": ("wing", float | None, st.sampled_from([None, 1.5, -0.0, 2])),
    "Fish": ("scales", dict[str, bytes], st.just({"k": b"v"}) | st.builds(dict)),
    # Has the same fields as a cat: only the tag tells them apart.
    "Tiger": ("lives", int, st.sampled_from([1, 9])),
}
TAGS = list(OWN)
_COMMON = {"name": st.sampled_from(["", "a", "b"]), "n": st.integers(0, 3)}


@dataclass
class Family:
    """The classes of one process.

    Attributes:
        way: How the collection is asked for: by a union, a base class, or declared tags.
        names: Tag of the model -> name of the class now.
        old_names: Tag of the model -> the names that the class had before.
    """

    way: str
    names: dict[str, str]
    old_names: dict[str, list[str]]
    classes: dict[str, Any] = field(init=False)
    base: Any = field(init=False, default=None)

    def __post_init__(self) -> None:
        common = [("name", str), ("n", int)]
        if self.way == "base":
            self.base = make_dataclass("Animal", [*common, ("id", int, field(default=0))])
        self.classes = {tag: self._make(tag) for tag in self.names}

    def _make(self, tag: str) -> Any:
        name, (own, annotation, _) = self.names[tag], OWN[tag]
        if self.base is not None:
            extra: Any = field(default=None)
            return make_dataclass(name, [(own, annotation, extra)], bases=(self.base,))
        required = [("name", str), ("n", int), (own, annotation)]
        if tag == "Dog":
            return _defstruct(name, [*required, ("id", int, 0)])
        if tag == "Bird":
            bird = _named_tuple(name, [*required, ("id", int)])
            bird.__new__.__defaults__ = (0,)
            bird._field_defaults = {"id": 0}
            return bird
        if tag == "Fish":
            fields = {each: attrs.field(type=of) for each, of in required}
            return attrs.make_class(name, fields | {"id": attrs.field(type=int, default=0)})
        is_frozen = tag == "Tiger"
        return make_dataclass(name, [*required, ("id", int, field(default=0))], frozen=is_frozen)

    def collection(self, db: memdb.Database, **asked: Any) -> memdb.Collection[Any]:
        """Ask for the collection as a program with these classes does."""
        if self.way == "tags":
            tags = {tag.lower(): cls for tag, cls in self.classes.items()}
            target: Any = reduce(or_, self.classes.values())
            return db.collection(target, name=NAME, tags=tags, **asked)
        aliases = {old: self.classes[tag] for tag, names in self.old_names.items() for old in names}
        if self.way == "base":
            return db.collection(self.base, name=NAME, subclasses=True, aliases=aliases, **asked)
        target = reduce(or_, self.classes.values())
        return db.collection(target, name=NAME, aliases=aliases, **asked)

    def record(self, plain: dict[str, Any]) -> Any:
        """Return the record of what the model holds."""
        values = {name: value for name, value in plain.items() if name != "tag"}
        return self.classes[plain["tag"]](**values)

    def plain(self, record: Any) -> dict[str, Any]:
        """Return what the model holds of a record."""
        tag = next(tag for tag, cls in self.classes.items() if type(record) is cls)
        names = ("name", "n", OWN[tag][0], "id")
        return {"tag": tag, **{name: getattr(record, name) for name in names}}

    def is_mutable(self, tag: str) -> bool:
        """Whether a field of a record of this class can be set."""
        return self.base is not None or tag not in ("Bird", "Tiger")


def returning(record: Any) -> Callable[[Any], Any]:
    """Return a function for `Collection.update` that gives a record."""
    return lambda old: record


class PolymorphicMachine(RuleBasedStateMachine):
    """The operations, on a file."""

    @initialize(
        data=st.data(),
        way=st.sampled_from(["union", "base", "tags"]),
        tags=st.lists(st.sampled_from(TAGS), min_size=2, max_size=4, unique=True),
    )
    def start(self, data: st.DataObject, way: str, tags: list[str]) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.number = self.generation = 0
        self.scopes: list[Any] = []
        self.model = CollectionModel(BY_NAME["dict"])
        self.family = Family(way, {tag: tag for tag in tags}, {tag: [] for tag in tags})
        self.open(data)
        self.insert_many(data)

    @property
    def path(self) -> Path:
        return self.folder / f"{self.number}.memdb"

    def open(self, data: st.DataObject) -> None:
        self.db = memdb.open(self.path, checkpoint_interval=3, flush_interval=86_400.0, **TRUST)
        self.collection = self.family.collection(
            self.db,
            serializer=data.draw(st.sampled_from(SERIALIZERS), label="serializer"),
            cloner=data.draw(st.sampled_from(["auto", "roundtrip"]), label="cloner"),
            cache=data.draw(st.sampled_from(["all", "none", 2]), label="cache"),
        )

    def teardown(self) -> None:
        if hasattr(self, "db"):
            with contextlib.suppress(Exception):
                while self.scopes:
                    self.end(keep=False)
            self.db.close()
            shutil.rmtree(self.folder)

    def draw_plain(self, data: st.DataObject) -> dict[str, Any]:
        tag = data.draw(st.sampled_from(sorted(self.family.names)), label="tag")
        own, _, values = OWN[tag]
        common = {name: data.draw(strategy, label=name) for name, strategy in _COMMON.items()}
        return {"tag": tag, **common, own: data.draw(values, label=own)}

    def draw_identity(self, data: st.DataObject) -> int:
        identities = sorted(self.model.live)
        which = data.draw(WHICH, label="which")
        if not identities or which == 7:
            return 7_000
        return identities[which % len(identities)]

    # -- writing -------------------------------------------------------------------------

    @rule(
        data=st.data(),
        ways=st.lists(
            st.sampled_from(
                [
                    *("insert", "insert_many", "put", "update", "update", "update", "edit"),
                    *("delete", "refused", "begin", "begin", "commit", "roll_back"),
                ]
            ),
            min_size=1,
            max_size=4,
        ),
    )
    def write(self, data: st.DataObject, ways: list[str]) -> None:
        for way in ways:
            getattr(self, way)(data)
            self.is_equal_to_the_model()

    def insert(self, data: st.DataObject) -> None:
        plain = self.draw_plain(data)
        identity = self.collection.insert(self.family.record(plain))

        assert self.model.is_new_identity(identity)
        self.model.set(identity, plain)

    def insert_many(self, data: st.DataObject) -> None:
        plains = [self.draw_plain(data) for _ in range(data.draw(st.integers(0, 4)))]
        identities = self.collection.insert_many([self.family.record(plain) for plain in plains])
        self.model.set_many(zip(identities, plains, strict=True))

    def put(self, data: st.DataObject) -> None:
        identity, plain = self.draw_identity(data), self.draw_plain(data)
        result = self.collection.put(self.family.record(plain | {"id": identity}))

        assert (result.outcome == "inserted") == (identity not in self.model.live)
        assert result.identity == identity
        if identity in self.model.live and self.model.is_changed_by(identity, plain):
            assert result.outcome == "updated"
        self.model.set(identity, plain)

    def update(self, data: st.DataObject) -> None:
        """Change fields, or put a record in its place, mostly of another class."""
        identity, plain = self.draw_identity(data), self.draw_plain(data)
        how = data.draw(st.sampled_from(["fields", "record", "function"]), label="how")
        record = self.family.record(plain)
        if identity not in self.model.live:
            with pytest.raises(memdb.RecordNotFoundError):
                self.collection.update(identity, n=plain["n"])
            return
        if how == "fields":
            old = self.model.live[identity]
            plain = {name: value for name, value in old.items() if name != "id"} | {"n": plain["n"]}
            was_written = self.collection.update(identity, n=plain["n"])
        elif how == "record":
            was_written = self.collection.update(identity, record)
        else:
            was_written = self.collection.update(identity, lambda _: record)
        if self.model.is_changed_by(identity, plain):
            assert was_written
        self.model.set(identity, plain)

    def edit(self, data: st.DataObject) -> None:
        identity, n = self.draw_identity(data), data.draw(_COMMON["n"], label="n")
        if identity not in self.model.live:
            return
        plain = dict(self.model.live[identity])
        del plain["id"]
        if not self.family.is_mutable(plain["tag"]):
            with pytest.raises(memdb.RecordTypeError), self.collection.edit(identity):
                pass
            return
        with self.collection.edit(identity) as record:
            record.n = n
        self.model.set(identity, plain | {"n": n})

    def delete(self, data: st.DataObject) -> None:
        identity = self.draw_identity(data)
        if identity in self.model.live:
            self.collection.delete(identity)
            self.model.delete(identity)

    def refused(self, data: st.DataObject) -> None:
        """Check that a class beside the declared ones, and a field of another, are refused."""
        stranger = make_dataclass("Stranger", [("name", str), ("n", int)])
        bases: list[Any] = [self.family.base] if self.family.base is not None else []
        later = make_dataclass("Later", [("x", int, field(default=0))], bases=(*bases,))
        records = [stranger("a", 1), {"name": "a", "n": 1}]
        records += [later("a", 1)] if bases else []
        identity = self.draw_identity(data)
        for record in records:
            writes: list[Callable[[], object]] = [
                partial(self.collection.insert, record),
                partial(self.collection.insert_many, [record]),
                partial(self.collection.put, record),
            ]
            if identity in self.model.live:
                writes.append(partial(self.collection.update, identity, returning(record)))
            for write in writes:
                with pytest.raises(memdb.RecordTypeError):
                    write()
        if identity in self.model.live:
            with pytest.raises(memdb.RecordTypeError):
                self.collection.update(identity, no_such_field=1)

    # -- reading -------------------------------------------------------------------------

    @rule(data=st.data())
    def find(self, data: st.DataObject) -> None:
        n, tag = data.draw(_COMMON["n"], label="n"), self.draw_plain(data)["tag"]
        cls, own = self.family.classes[tag], OWN[tag][0]
        value = self.draw_plain(data).get(own)
        matching = self.model.matching

        assert_exact(
            self.plains(self.collection.find_all(n=n)), matching(lambda r: bool(r["n"] == n))
        )
        assert_exact(
            self.plains(self.collection.find_all(lambda record: type(record) is cls)),
            matching(lambda r: bool(r["tag"] == tag)),
        )
        # A class that lacks the field has nothing equal to the value.
        expected = matching(lambda r: own in r and r[own] == value and value is not None)
        if value is not None:
            condition = (getattr(F, own) == value) & (F.n >= 0)
            assert_exact(self.plains(self.collection.find_all(condition)), expected)

    @rule(data=st.data())
    def history(self, data: st.DataObject) -> None:
        identity = data.draw(st.sampled_from([*sorted(self.model.past), 7_000]), label="identity")
        found: list[tuple[str, Any]] = []
        for version in self.collection.history(identity):
            plain = None if version.record is None else self.family.plain(version.record)
            is_rewritten = version.kind == "updated" and found[-1][1] == plain
            if not is_rewritten:
                found.append((version.kind, plain))

        assert_exact(found, self.model.past.get(identity, []))

    @rule()
    def read_by_name(self) -> None:
        """Without the classes: as dicts, and read-only."""
        if self.scopes or not self.model.past:
            return
        with memdb.open(self.path, "r", **TRUST) as reader:
            found = dict(reader.collection(NAME).items())

        assert found.keys() == self.model.committed.keys()
        for identity, plain in self.model.committed.items():
            values = {name: value for name, value in plain.items() if name != "tag"}
            assert_exact({name: found[identity].get(name, "missing") for name in values}, values)

    def plains(self, records: list[Any]) -> list[dict[str, Any]]:
        return [self.family.plain(record) for record in records]

    # -- transactions and maintenance ----------------------------------------------------

    def begin(self, data: st.DataObject) -> None:
        if len(self.scopes) < 3:
            self.scopes.append(self.db.transaction())
            self.scopes[-1].__enter__()
            self.model.begin()

    def commit(self, data: st.DataObject) -> None:
        if self.scopes:
            self.end(keep=True)

    def roll_back(self, data: st.DataObject) -> None:
        if self.scopes:
            self.end(keep=False)

    def end(self, *, keep: bool) -> None:
        error = None if keep else ZeroDivisionError()
        self.scopes.pop().__exit__(None if keep else ZeroDivisionError, error, None)
        self.model.end(keep=keep)

    @rule(data=st.data(), is_killed=st.booleans())
    def reopen(self, data: st.DataObject, is_killed: bool) -> None:
        """Go on with the classes of another process."""
        old = self.path
        if is_killed:
            self.number += 1
            log = self.db._engine.log
            with log.sync_lock, log.lock:
                shutil.copyfile(old, self.path)
        while self.scopes:
            self.scopes.pop().__exit__(ZeroDivisionError, ZeroDivisionError(), None)
        self.db.close()
        forget_open([self.model])
        self.family = self.draw_family(data)
        self.open(data)

    def draw_family(self, data: st.DataObject) -> Family:
        """Return the classes anew: one more, one renamed, or in another order."""
        names, old_names = dict(self.family.names), dict(self.family.old_names)
        change = data.draw(st.sampled_from(["none", "add", "rename", "reorder"]), label="change")
        unused = [tag for tag in TAGS if tag not in names]
        if change == "add" and unused:
            names[unused[0]], old_names[unused[0]] = unused[0], []
        elif change == "rename":
            tag = data.draw(st.sampled_from(sorted(names)), label="renamed")
            self.generation += 1
            old_names[tag] = [*old_names[tag], names[tag]]
            names[tag] = f"{tag}{self.generation}"
        elif change == "reorder":
            names = dict(reversed(names.items()))
        return Family(self.family.way, names, old_names)

    # -- after each step -----------------------------------------------------------------

    @invariant()
    def is_equal_to_the_model(self) -> None:
        if not hasattr(self, "db"):
            return
        model = self.model

        assert sorted(model.live) == self.collection.ids()
        assert_exact(self.plains(list(self.collection)), model.records())
        for identity, record in list(model.live.items())[-2:]:
            for _ in range(2):
                assert_exact(self.family.plain(self.collection[identity]), record)

    @invariant()
    def is_whole(self) -> None:
        if hasattr(self, "db"):
            assert [] == self.db.check()


def run(examples: int) -> None:
    """Run the machine."""
    run_state_machine_as_test(
        PolymorphicMachine, settings=settings(max_examples=examples, stateful_step_count=25)
    )


@pytest.mark.timeout(900)
def test_collections_of_several_classes_are_equal_to_dicts() -> None:
    """Whatever is done in whatever order, each record comes back with its class and values."""
    run(35)


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_collections_of_several_classes_are_equal_to_dicts_for_long() -> None:
    """The same, ten times as often."""
    run(times(350))
