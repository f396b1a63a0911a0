"""All public operations in random order, against plain dicts: reopened, killed, rolled back."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
from tests.support.concurrently import run_all
from tests.support.effort import times
from tests.support.exact import assert_exact, is_exact
from tests.support.model import CollectionModel, forget_open
from tests.support.samples import KINDS, SERIALIZERS, RecordKind

IDENTITIES = st.sampled_from([0, 0, 0, 1, 2, 3, 4, 5, 9, 10**6, 2**40])
CACHES = st.sampled_from(["all", "all", "none", 1, 2, 17])
TRUST: dict[str, Any] = {"trusted_serializers": ["pickle"]}
# Which record an operation is about; taken modulo what is there, so that it shrinks well.
WHICH = st.integers(0, 30)
WAYS_TO_WRITE = (
    *("insert", "insert", "insert_many", "insert_many", "put", "put", "update", "update", "update"),
    *("edit", "delete", "delete", "clear", "write_what_is_refused"),
    *("begin", "begin", "commit", "commit", "roll_back"),
)
WAYS_TO_READ = (
    *("read_one", "read_one", "find", "history", "count_versions", "read_beside"),
    *("begin_iterating", "begin_iterating", "finish_iterating"),
)
WAYS_TO_MAINTAIN = ("flush", "checkpoint", "compact", "reopen", "kill")
WAYS_TO_UPDATE = ("fields", "record", "in place", "returned", "nothing", "both")


class Interrupted(Exception):
    """Leaves a transaction."""


@dataclass
class Table:
    """A collection, its model, and what it was asked for with."""

    collection: memdb.Collection[Any]
    model: CollectionModel
    settings: dict[str, Any]

    @property
    def kind(self) -> RecordKind:
        return self.model.kind

    @property
    def is_shared(self) -> bool:
        """Whether a receiver must leave the records alone."""
        return self.settings["cloner"] in ("share",)

    @property
    def may_rewrite(self) -> bool:
        """Whether equal records may have different bytes."""
        return self.settings["serializer"] == "pickle"

    def vandalise(self, record: Any) -> None:
        """Change what was received: nobody else may see it."""
        if record is not None and not self.is_shared:
            self.kind.vandalise(record, deeply=self.settings["cloner"] != "fields")

    def draw_identity(self, data: st.DataObject) -> int:
        """Return an identity of a live record, mostly, or one that is not there."""
        identities = sorted(self.model.live)
        which = data.draw(WHICH, label="which identity")
        if not identities or which == 7:
            return 7
        return identities[which % len(identities)]


class DatabaseMachine(RuleBasedStateMachine):
    """The operations, on a file."""

    has_file = True

    @initialize(
        data=st.data(),
        kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=3, unique=True),
        durability=st.sampled_from(["written", "written", "synced"]),
    )
    def start(self, data: st.DataObject, kinds: list[RecordKind], durability: str) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.number = self.steps = 0
        self.scopes: list[Any] = []
        self.iterations: list[tuple[Iterator[Any], list[Any]]] = []
        self.settings = {"checkpoint_interval": 3, "flush_interval": 86_400.0, **TRUST}
        if self.has_file:
            self.settings["durability"] = durability
        self.tables: list[Table] = []
        self.open()
        for kind in kinds:
            model = CollectionModel(kind)
            self.tables.append(self.make_table(model, data))
            self.insert_many(self.tables[-1], data, [0, 0, 0])

    @property
    def path(self) -> Path | None:
        return self.folder / f"{self.number}.memdb" if self.has_file else None

    def open(self) -> None:
        self.db = memdb.open(self.path, **self.settings)

    def make_table(self, model: CollectionModel, data: st.DataObject) -> Table:
        asked = {
            "serializer": data.draw(st.sampled_from(SERIALIZERS), label="serializer"),
            "cloner": data.draw(st.sampled_from(model.kind.cloners), label="cloner"),
            "cache": data.draw(CACHES, label="cache"),
            "identity_index": data.draw(st.sampled_from([True, True, False]), label="index"),
        }
        return Table(self.db.collection(model.kind.target, **asked), model, asked)

    def teardown(self) -> None:
        if not hasattr(self, "db"):
            return
        with contextlib.suppress(Exception):
            self.leave_all()
        self.db.close()
        shutil.rmtree(self.folder)

    def leave_all(self) -> None:
        """Leave every open transaction by an exception."""
        while self.scopes:
            self.end(keep=False)

    def table(self, which: int) -> Table:
        return self.tables[which % len(self.tables)]

    def draw_record(self, table: Table, data: st.DataObject, identity: int = 0) -> Any:
        values = {
            name: data.draw(strategy, label=name) for name, strategy in table.kind.fields.items()
        }
        return table.kind.make(values, identity)

    # -- writing -------------------------------------------------------------------------

    # Three rules only, as hypothesis leaves many a rule out of a run.

    @rule(
        data=st.data(),
        ways=st.lists(st.tuples(st.sampled_from(WAYS_TO_WRITE), WHICH), min_size=1, max_size=4),
    )
    def write(self, data: st.DataObject, ways: list[tuple[str, int]]) -> None:
        for way, which in ways:
            getattr(self, way)(self.table(which), data)
            self.is_equal_to_the_model()

    @rule(data=st.data(), way=st.sampled_from(WAYS_TO_READ), which=WHICH)
    def read(self, data: st.DataObject, way: str, which: int) -> None:
        getattr(self, way)(self.table(which), data)

    @rule(data=st.data(), way=st.sampled_from(WAYS_TO_MAINTAIN))
    def maintain(self, data: st.DataObject, way: str) -> None:
        getattr(self, way)(data)

    def insert(self, table: Table, data: st.DataObject) -> None:
        identity = data.draw(IDENTITIES, label="identity")
        record = self.draw_record(table, data, identity)
        if not table.kind.has_identity:
            identity = 0
        if identity in table.model.live:
            with pytest.raises(memdb.DuplicateIdentityError):
                table.collection.insert(record)
            return
        given = table.collection.insert(record)

        assert given == identity or (not identity and table.model.is_new_identity(given))
        table.model.set(given, record)
        table.kind.vandalise(record)

    def insert_many(
        self, table: Table, data: st.DataObject, identities: list[int] | None = None
    ) -> None:
        if identities is None:
            identities = data.draw(st.lists(IDENTITIES, max_size=5), label="identities")
        if not table.kind.has_identity:
            identities = [0] * len(identities)
        records = [self.draw_record(table, data, identity) for identity in identities]
        explicit = [identity for identity in identities if identity]
        if len(set(explicit)) < len(explicit) or table.model.live.keys() & set(explicit):
            with pytest.raises(memdb.DuplicateIdentityError):
                table.collection.insert_many(iter(records))
            return
        given = table.collection.insert_many(iter(records))

        assert len(records) == len(given) == len(set(given))
        for identity, wanted in zip(given, identities, strict=True):
            assert identity == wanted or (not wanted and identity > table.model.given)
        table.model.set_many(zip(given, records, strict=True))
        for record in records:
            table.kind.vandalise(record)

    def put(self, table: Table, data: st.DataObject) -> None:
        identity = data.draw(IDENTITIES, label="identity") or table.draw_identity(data)
        record = self.draw_record(table, data, identity)
        if not table.kind.has_identity:
            with pytest.raises(memdb.RecordTypeError):
                table.collection.put(record)
            return
        result = table.collection.put(record)
        if identity not in table.model.live:
            assert result.outcome == "inserted"
            assert identity in (0, result.identity)
            assert identity or table.model.is_new_identity(result.identity)
        else:
            assert result.identity == identity
            self.check_change(table, identity, record, result.outcome == "updated")
        table.model.set(result.identity, record)
        table.kind.vandalise(record)

    def check_change(self, table: Table, identity: int, record: Any, was_written: bool) -> None:
        """Check that a change says it wrote something if, and only if, it had to."""
        if table.model.is_changed_by(identity, record):
            assert was_written
        elif identity not in table.model.foreign and not table.may_rewrite:
            assert not was_written

    def update(self, table: Table, data: st.DataObject) -> None:
        how = data.draw(st.sampled_from(WAYS_TO_UPDATE), label="how")
        identity = table.draw_identity(data)
        kind = table.kind
        record = self.draw_record(table, data)
        names = [name for name in kind.fields if data.draw(st.booleans(), label=name)]
        fields = {name: kind.get(record, name) for name in names}
        change: Any = None
        if how == "record" or (how == "in place" and not kind.is_mutable):
            how = "record"
            change, fields = record, {}
        elif how == "in place" and kind.is_mutable and not table.is_shared:
            change, fields = self.setter(kind, fields), {}
        elif how == "returned":
            change, fields = (lambda old: record), {}
        elif how == "both":
            change = record
        elif how == "nothing":
            fields = {}
        if identity not in table.model.live:
            with pytest.raises(memdb.RecordNotFoundError):
                table.collection.update(identity, change, **fields)
            return
        was_written = table.collection.update(identity, change, **fields)

        if how in ("record", "returned", "both"):
            expected = record
        elif how == "nothing":
            expected = table.model.live[identity]
        else:
            values = {name: kind.get(record, name) for name in names}
            expected = kind.make(kind.values(table.model.live[identity]) | values)
        self.check_change(table, identity, expected, was_written)
        table.model.set(identity, expected)
        kind.vandalise(record)

    @staticmethod
    def setter(kind: RecordKind, fields: dict[str, Any]) -> Callable[[Any], None]:
        def change(record: Any) -> None:
            for name, value in fields.items():
                kind.set(record, name, value)

        return change

    def edit(self, table: Table, data: st.DataObject) -> None:
        identity, fails = table.draw_identity(data), data.draw(st.booleans(), label="fails")
        if identity not in table.model.live:
            with pytest.raises(memdb.RecordNotFoundError), table.collection.edit(identity):
                pass
            return
        if not table.kind.is_mutable:
            with pytest.raises(memdb.RecordTypeError), table.collection.edit(identity):
                pass
            return
        if table.is_shared:
            return
        number = data.draw(table.kind.fields["n"], label="n")
        with contextlib.suppress(Interrupted), table.collection.edit(identity) as record:
            table.kind.set(record, "n", number)
            if fails:
                raise Interrupted
        if not fails:
            values = table.kind.values(table.model.live[identity])
            table.model.set(identity, table.kind.make(values | {"n": number}))

    def delete(self, table: Table, data: st.DataObject) -> None:
        identity = table.draw_identity(data)
        is_by_item = data.draw(st.booleans(), label="by item")
        delete = table.collection.__delitem__ if is_by_item else table.collection.delete
        if identity not in table.model.live:
            with pytest.raises(memdb.RecordNotFoundError):
                delete(identity)
            return
        delete(identity)
        table.model.delete(identity)

    def clear(self, table: Table, data: st.DataObject) -> None:
        assert len(table.model.live) == table.collection.clear()
        table.model.clear()

    def write_what_is_refused(self, table: Table, data: st.DataObject) -> None:
        collection = table.collection
        good, bad = self.draw_record(table, data), self.draw_record(table, data)
        if table.kind.cls is None:
            bad["name"] = object
        else:
            bad = table.kind.make(table.kind.values(bad) | {"name": (object for _ in ())})
        identity = table.draw_identity(data)
        with pytest.raises((memdb.EncodeError, memdb.RecordTypeError)):
            collection.insert(bad if table.settings["serializer"] != "pickle" else Exception())
        with pytest.raises(memdb.RecordTypeError):
            collection.insert_many([good, Exception()])
        if identity in table.model.live:
            with pytest.raises(memdb.RecordTypeError):
                collection.update(identity, lambda record: Exception())
            if table.settings["serializer"] != "pickle":
                with pytest.raises(memdb.EncodeError):
                    collection.update(identity, name=(object for _ in ()))
            if table.kind.has_identity:
                with pytest.raises(memdb.IdentityError):
                    collection.update(identity, id=identity + 1)

    # -- reading -------------------------------------------------------------------------

    def read_one(self, table: Table, data: st.DataObject) -> None:
        identity = table.draw_identity(data)
        expected = table.model.live.get(identity)
        collection = table.collection

        assert (expected is not None) == (identity in collection)
        if expected is None:
            assert collection.get(identity, "none") == "none"
            with pytest.raises(memdb.RecordNotFoundError):
                collection[identity]
        else:
            for record in (collection.get(identity), collection[identity]):
                assert_exact(record, expected)
                table.vandalise(record)
        if table.kind.has_identity:
            assert_exact(collection.find(id=identity), expected)

    def find(self, table: Table, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(["", "a"]), label="name")
        number = data.draw(st.sampled_from([0, 1, 2]), label="n")
        get = table.kind.get

        def is_large(record: Any) -> bool:
            found = bool(get(record, "n") >= number)
            table.vandalise(record)
            return found

        def has_name(record: Any) -> bool:
            return bool(get(record, "name") == name)

        def is_large_model(record: Any) -> bool:
            return bool(get(record, "n") >= number)

        for condition, equals, matches in (
            (F.name == name, {}, has_name),
            (None, {"name": name}, has_name),
            (F.n >= number, {"name": name}, lambda r: is_large_model(r) and has_name(r)),
            ((F.n >= number) & ~(F.name == name), {}, lambda r: is_large_model(r) > has_name(r)),
            (is_large, {}, is_large_model),
            (is_large, {"name": name}, lambda r: is_large_model(r) and has_name(r)),
            (None, {}, lambda r: True),
        ):
            expected = table.model.matching(matches)
            found = table.collection.find_all(condition, **equals)
            assert_exact(found, expected)
            for record in found:
                table.vandalise(record)
            assert len(expected) == table.collection.count(condition, **equals)
            assert bool(expected) == table.collection.exists(condition, **equals)
            first = table.collection.find(condition, **equals)
            assert_exact(first, expected[0] if expected else None)
            table.vandalise(first)

    def begin_iterating(self, table: Table, data: st.DataObject) -> None:
        iteration: Iterator[Any]
        expected: list[Any]
        if data.draw(st.booleans(), label="records"):
            expected, iteration = table.model.records(), iter(table.collection)
        else:
            expected = [(i, table.model.live[i]) for i in sorted(table.model.live)]
            iteration = table.collection.items()
        self.iterations.append((iteration, expected))

    def finish_iterating(self, table: Table, data: st.DataObject) -> None:
        for iteration, expected in self.iterations:
            assert_exact(list(iteration), expected)
        self.iterations.clear()

    def history(self, table: Table, data: st.DataObject) -> None:
        past = table.model.past
        identity = data.draw(st.sampled_from([*sorted(past), 7]), label="identity")
        found: list[tuple[str, Any]] = []
        last = None
        for version in table.collection.history(identity):
            assert last is None or version.time >= last
            last = version.time
            # Bytes may differ where records do not, see may_rewrite.
            is_rewritten = version.kind == "updated" and is_exact(found[-1][1], version.record)
            if not is_rewritten:
                found.append((version.kind, version.record))

        assert_exact(found, past.get(identity, []))

    def read_beside(self, table: Table, data: st.DataObject) -> None:
        if not self.has_file:
            return
        with memdb.open(self.path, "r", **TRUST) as reader:
            for table in self.tables:
                seen = reader.collection(table.kind.target)

                assert_exact(dict(seen.items()), dict(sorted(table.model.committed.items())))
                with pytest.raises(memdb.ReadOnlyError):
                    seen.clear()
            assert [] == reader.check()

    def count_versions(self, table: Table, data: st.DataObject) -> None:
        stats = self.db.stats()
        committed = len(table.model.committed)
        own = table.collection.stats()

        assert committed == own.live.count
        assert len(table.model.past) - committed == own.deleted.count
        assert table.model.given == own.last_identity
        if table.model.past:
            assert own == stats.collections[table.kind.name]

    # -- transactions --------------------------------------------------------------------

    def begin(self, table: Table, data: st.DataObject) -> None:
        if len(self.scopes) == 3:
            return
        scope = self.db.transaction()
        scope.__enter__()
        self.scopes.append(scope)
        for each in self.tables:
            each.model.begin()

    def commit(self, table: Table, data: st.DataObject) -> None:
        if self.scopes:
            self.end(keep=True)

    def roll_back(self, table: Table, data: st.DataObject) -> None:
        if self.scopes:
            self.end(keep=False)

    def end(self, *, keep: bool) -> None:
        error = None if keep else Interrupted()
        self.scopes.pop().__exit__(None if keep else Interrupted, error, None)
        for table in self.tables:
            table.model.end(keep=keep)

    # -- maintenance ---------------------------------------------------------------------

    def flush(self, data: st.DataObject) -> None:
        self.db.flush()

    def checkpoint(self, data: st.DataObject) -> None:
        self.db.checkpoint()

    def compact(self, data: st.DataObject) -> None:
        # Another thread's, as this one may have a transaction open.
        run_all(self.db.compact)
        for table in self.tables:
            table.model.drop_history()

    def reopen(self, data: st.DataObject) -> None:
        if not self.has_file:
            return
        self.leave_all()
        self.db.close()
        self.open()

        assert self.db.recovery is None
        self.make_tables_again(data)

    def kill(self, data: st.DataObject) -> None:
        if not self.has_file:
            return
        self.copy_as_killed()
        self.open()
        self.make_tables_again(data)

    def make_tables_again(self, data: st.DataObject) -> None:
        """Ask for the collections of a new database, with other settings."""
        self.iterations.clear()
        for number, table in enumerate(self.tables):
            before = table.settings["serializer"]
            self.tables[number] = after = self.make_table(table.model, data)
            if after.settings["serializer"] != before:
                after.model.foreign = set(after.model.committed)

    def copy_as_killed(self) -> None:
        """Go on from a copy of the file as it is, as a kill would leave it."""
        old = self.path
        self.number += 1
        log = self.db._engine.log
        # The flusher must not write while the copy reads: a kill stops it, too.
        with log.sync_lock, log.lock:
            shutil.copyfile(old, self.path)
        for scope in reversed(self.scopes):
            scope.__exit__(Interrupted, Interrupted(), None)
        self.scopes.clear()
        self.db.close()
        forget_open(table.model for table in self.tables)

    # -- after each step -----------------------------------------------------------------

    @invariant()
    def is_equal_to_the_model(self) -> None:
        for table in getattr(self, "tables", ()):
            model, collection = table.model, table.collection
            assert sorted(model.live) == collection.ids()
            assert len(model.live) == len(collection)
            # Not each time, as iterating fills the cache.
            self.steps += 1
            if self.steps % 2:
                assert_exact(list(collection), model.records())

    @invariant()
    def is_whole(self) -> None:
        if hasattr(self, "db"):
            assert [] == self.db.check()


class MemoryMachine(DatabaseMachine):
    """The operations, in memory only."""

    has_file = False


RUNS = {"file": (DatabaseMachine, 45, 50), "memory": (MemoryMachine, 20, 50)}


# When it fails hypothesis looks for a shorter example, for five minutes at most.
@pytest.mark.timeout(900)
@pytest.mark.parametrize("where", RUNS)
def test_database_is_equal_to_dicts(where: str) -> None:
    """Whatever is done in whatever order, the database holds what plain dicts would."""
    machine, examples, steps = RUNS[where]
    run_state_machine_as_test(
        machine, settings=settings(max_examples=examples, stateful_step_count=steps)
    )


@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("where", RUNS)
def test_database_is_equal_to_dicts_for_long(where: str) -> None:
    """The same, five times as often and three times as long."""
    machine, examples, steps = RUNS[where]
    run_state_machine_as_test(
        machine, settings=settings(max_examples=times(5 * examples), stateful_step_count=3 * steps)
    )
