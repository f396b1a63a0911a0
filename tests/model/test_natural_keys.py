"""Collections with natural keys, in random order, against plain dicts: reopened, killed, undone."""

from __future__ import annotations

import contextlib
import copy
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

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
from memdb import F, _natural_key
from memdb.indexes import _keys
from tests.support.effort import times
from tests.support.exact import assert_exact, is_exact, leaf_key
from tests.support.model import CollectionModel, forget_open
from tests.support.samples import SERIALIZERS, RecordKind

TRUST: dict[str, Any] = {"trusted_serializers": ["pickle"]}
WHICH = st.integers(0, 30)
CACHES: st.SearchStrategy[Any] = st.sampled_from(["all", "none", 2])
PARIS = ZoneInfo("Europe/Paris")


@dataclass
class ByText:
    first: str
    n: int = 0
    tags: list[str] = field(default_factory=list)
    # An ordinary field: the identity is the key.
    id: int = 0


@dataclass(slots=True)
class ByNumber:
    first: int
    n: int = 0
    tags: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class ByAnything:
    first: Any
    second: Any = None
    n: int = 0
    tags: tuple[str, ...] = ()


class ByPair(msgspec.Struct):
    second: int
    first: str
    n: int = 0
    id: int | None = None


TEXTS = st.sampled_from(["", "a", "b", "1", "żółw", "\ud800", "a\x00b", "a" * 300])
NUMBERS = st.sampled_from([0, 1, 2, -1, 2**31, 2**63, -(2**63), 2**200])
DAYS = [date(2024, 10, 27), date.min, date.max]
MOMENTS = [
    datetime(2024, 10, 27),
    datetime(2024, 10, 27, tzinfo=UTC),
    datetime(2024, 10, 27, 2, 30, tzinfo=PARIS),
    datetime(2024, 10, 27, 2, 30, tzinfo=PARIS, fold=1),
    datetime(2024, 10, 27, 2, 30, fold=1),
    datetime(2024, 10, 27, tzinfo=timezone(timedelta(hours=5, minutes=45))),
    datetime(2024, 10, 27, tzinfo=timezone(timedelta(0), "UTC")),
]
SCALARS = st.sampled_from(
    [
        *(None, True, False, 0, 1, 2**63, -1, "", "1", "0", "True", b"", b"1", "None"),
        *(*DAYS, *MOMENTS, UUID(int=1), UUID(int=1).hex, UUID(int=1).bytes, str(UUID(int=1))),
        *(MOMENTS[0].isoformat(), DAYS[0].isoformat(), DAYS[0].isoformat().encode()),
    ]
)
ANY_KEY = SCALARS | st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=2).map(tuple), max_leaves=3
)
NO_KEYS: list[Any] = [
    *(1.0, float("nan"), 0.0, Decimal(1), [], {}, bytearray(b"1"), (1.0,), (1, [2]), 1 + 0j),
    *(frozenset({1}), timedelta(1), object()),
]
_TAGS = st.lists(st.sampled_from(["x", "y"]), max_size=2)
_NUMBER = {"n": st.integers(0, 3)}


@dataclass(frozen=True, eq=False)
class KeyedKind(RecordKind):
    """A kind of record with a natural key."""

    key: Any = "first"

    @property
    def name(self) -> str:
        """What files call the kind."""
        return f"{super().name} {self.key}"

    def key_of(self, record: Any) -> Any:
        """Return what names a record."""
        if isinstance(self.key, str):
            return self.get(record, self.key)
        return tuple(self.get(record, name) for name in self.key)

    def make(self, values: dict[str, Any], identity: Any = None) -> Any:
        """Return a new record; its identity is in its values."""
        return copy.deepcopy(values) if self.cls is None else self.cls(**values)

    def values(self, record: Any) -> dict[str, Any]:
        """Return all fields of a record."""
        if self.cls is None:
            return dict(record)
        if self.cls is ByPair:
            return dict(msgspec.structs.asdict(record))
        return {name: getattr(record, name) for name in self.cls.__dataclass_fields__}


_ANY_FIELDS = _NUMBER | {"first": ANY_KEY}
KINDS = [
    KeyedKind(ByText, _NUMBER | {"first": TEXTS, "tags": _TAGS, "id": NUMBERS}),
    KeyedKind(ByNumber, _NUMBER | {"first": NUMBERS, "tags": _TAGS}),
    KeyedKind(ByAnything, _ANY_FIELDS | {"tags": _TAGS.map(tuple)}, is_mutable=False),
    KeyedKind(
        ByAnything, _ANY_FIELDS | {"second": SCALARS}, is_mutable=False, key=("first", "second")
    ),
    KeyedKind(
        ByPair,
        _NUMBER | {"first": TEXTS, "second": st.integers(0, 2), "id": st.none() | st.just(7)},
        key=("second", "first"),
    ),
    KeyedKind(None, _ANY_FIELDS | {"id": NUMBERS | st.just("x")}),
    KeyedKind(None, _ANY_FIELDS | {"second": TEXTS, "tags": _TAGS}, key=("second", "first")),
]


def returning(record: Any) -> Callable[[Any], Any]:
    """Return a function for `Collection.update` that gives a record."""
    return lambda old: record


class KeyedModel(CollectionModel):
    """A collection as a dict from key, by value and type, to record.

    Attributes:
        keys: What a dict of Python would hold equal is told apart -> the key.
    """

    def __init__(self, kind: KeyedKind) -> None:
        super().__init__(kind)
        self.keys: dict[Any, Any] = {}

    def exact_key(self, key: Any) -> Any:
        """Return what tells a key from all others."""
        exact = repr(leaf_key(key))
        self.keys[exact] = key
        return exact

    def stored(self, record: Any, identity: Any) -> Any:
        """Return a record as it will be read: its own object."""
        return self.kind.make(copy.deepcopy(self.kind.values(record)))

    def note_given(self, identity: Any) -> None:
        """Remember nothing: keys may be given again."""


class NaturalKeyMachine(RuleBasedStateMachine):
    """The operations, on a file."""

    @initialize(data=st.data(), kind=st.sampled_from(KINDS))
    def start(self, data: st.DataObject, kind: KeyedKind) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.number = 0
        self.scopes: list[Any] = []
        self.kind, self.model = kind, KeyedModel(kind)
        self.open(data)
        for _ in range(4):
            self.insert(data)

    @property
    def path(self) -> Path:
        return self.folder / f"{self.number}.memdb"

    def open(self, data: st.DataObject) -> None:
        self.db = memdb.open(self.path, checkpoint_interval=3, flush_interval=86_400.0, **TRUST)
        self.serializer = data.draw(st.sampled_from(SERIALIZERS), label="serializer")
        # Whoever asks for dicts by their name need not say the key of a file again.
        is_known = self.kind.cls is None and bool(self.model.past)
        says_key = not is_known or data.draw(st.booleans(), label="says key")
        self.collection: memdb.Collection[Any] = self.db.collection(
            self.kind.target,
            name=self.kind.name,
            key=self.kind.key if says_key else None,
            serializer=self.serializer,
            cache=data.draw(CACHES, label="cache"),
            identity_index=data.draw(st.sampled_from([True, True, False]), label="index"),
        )

    def teardown(self) -> None:
        if hasattr(self, "db"):
            with contextlib.suppress(Exception):
                while self.scopes:
                    self.end(keep=False)
            self.db.close()
            shutil.rmtree(self.folder)

    def draw_record(self, data: st.DataObject, like: Any = None) -> Any:
        values = {name: data.draw(s, label=name) for name, s in self.kind.fields.items()}
        if like is not None:
            names = (self.kind.key,) if isinstance(self.kind.key, str) else self.kind.key
            values |= {name: self.kind.get(like, name) for name in names}
        return self.kind.make(values)

    def draw_key(self, data: st.DataObject) -> tuple[Any, Any]:
        """Return a key and its exact form, mostly of a live record."""
        live = sorted(self.model.live)
        which = data.draw(WHICH, label="which")
        if not live or which % 5 == 4:
            key = self.kind.key_of(self.draw_record(data))
        else:
            key = self.model.keys[live[which % len(live)]]
        return key, self.model.exact_key(key)

    # -- writing -------------------------------------------------------------------------

    @rule(
        data=st.data(),
        ways=st.lists(
            st.sampled_from(
                [
                    *("insert", "insert", "insert_many", "put", "put", "update", "update", "edit"),
                    *("delete", "delete", "clear", "refused", "begin", "begin", "commit"),
                    "roll_back",
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
        record = self.draw_record(data)
        key = self.kind.key_of(record)
        exact = self.model.exact_key(key)
        if exact in self.model.live:
            with pytest.raises(memdb.DuplicateIdentityError) as caught:
                self.collection.insert(record)
            assert_exact(caught.value.identity, key)
            return
        assert_exact(self.collection.insert(record), key)
        self.model.set(exact, record)

    def insert_many(self, data: st.DataObject) -> None:
        records = [self.draw_record(data) for _ in range(data.draw(st.integers(0, 3)))]
        keys = [self.kind.key_of(record) for record in records]
        exact = [self.model.exact_key(key) for key in keys]
        if len(set(exact)) < len(exact) or self.model.live.keys() & set(exact):
            with pytest.raises(memdb.DuplicateIdentityError):
                self.collection.insert_many(records)
            return
        assert_exact(self.collection.insert_many(iter(records)), keys)
        self.model.set_many(zip(exact, records, strict=True))

    def put(self, data: st.DataObject) -> None:
        key, exact = self.draw_key(data)
        record = self.draw_record(data)
        if exact in self.model.live:
            record = self.draw_record(data, self.model.live[exact])
        else:
            exact = self.model.exact_key(key := self.kind.key_of(record))
        is_there = exact in self.model.live
        result = self.collection.put(record)

        assert_exact(result.identity, key)
        assert (result.outcome == "inserted") != is_there
        if is_there and self.model.is_changed_by(exact, record):
            assert result.outcome == "updated"
        self.model.set(exact, record)

    def update(self, data: st.DataObject) -> None:
        key, exact = self.draw_key(data)
        how = data.draw(st.sampled_from(["fields", "record", "function", "same key"]), label="how")
        n = data.draw(_NUMBER["n"], label="n")
        if exact not in self.model.live:
            with pytest.raises(memdb.RecordNotFoundError):
                self.collection.update(key, n=n)
            return
        old = self.model.live[exact]
        record = self.draw_record(data, old)
        if how == "fields":
            record = self.kind.make(self.kind.values(old) | {"n": n})
            was_written = self.collection.update(key, n=n)
        elif how == "record":
            was_written = self.collection.update(key, record)
        elif how == "function":
            was_written = self.collection.update(key, lambda _: record)
        else:
            record = self.kind.make(self.kind.values(old) | {"n": n})
            parts = {"first": self.kind.get(old, "first"), "n": n}
            was_written = self.collection.update(key, **parts)
        if self.model.is_changed_by(exact, record):
            assert was_written
        self.model.set(exact, record)

    def edit(self, data: st.DataObject) -> None:
        key, exact = self.draw_key(data)
        n = data.draw(_NUMBER["n"], label="n")
        if not self.kind.is_mutable:
            with pytest.raises(memdb.MemdbError), self.collection.edit(key):
                pass
        elif exact not in self.model.live:
            with pytest.raises(memdb.RecordNotFoundError), self.collection.edit(key):
                pass
        else:
            with self.collection.edit(key) as record:
                self.kind.set(record, "n", n)
            values = self.kind.values(self.model.live[exact]) | {"n": n}
            self.model.set(exact, self.kind.make(values))

    def delete(self, data: st.DataObject) -> None:
        key, exact = self.draw_key(data)
        is_by_item = data.draw(st.booleans(), label="by item")
        delete = self.collection.__delitem__ if is_by_item else self.collection.delete
        if exact not in self.model.live:
            with pytest.raises(memdb.RecordNotFoundError):
                delete(key)
            return
        delete(key)
        self.model.delete(exact)

    def clear(self, data: st.DataObject) -> None:
        assert len(self.model.live) == self.collection.clear()
        self.model.clear()

    def refused(self, data: st.DataObject) -> None:
        """Check that a key never changes, and what can't be one is refused or finds nothing."""
        bad = data.draw(st.sampled_from(NO_KEYS), label="no key")
        record = self.draw_record(data)
        names = (self.kind.key,) if isinstance(self.kind.key, str) else self.kind.key
        for name in names:
            wrong = self.kind.make(self.kind.values(record) | {name: bad})
            for write in (
                partial(self.collection.insert, wrong),
                partial(self.collection.insert_many, [record, wrong]),
                partial(self.collection.put, wrong),
            ):
                with pytest.raises(memdb.IdentityError):
                    write()
        looked_up = bad if len(names) == 1 else (bad, bad)
        assert looked_up not in self.collection
        assert self.collection.get(looked_up) is None
        assert [] == self.collection.history(looked_up)
        with pytest.raises(memdb.RecordNotFoundError):
            self.collection.delete(looked_up)
        key, exact = self.draw_key(data)
        if exact in self.model.live:
            self.refuse_new_key(data, key, exact, bad)

    def refuse_new_key(self, data: st.DataObject, key: Any, exact: Any, bad: Any) -> None:
        first = self.kind.get(self.model.live[exact], "first")
        other = data.draw(self.kind.fields["first"], label="other key")
        for new in (other, bad):
            if is_exact(new, first):
                continue
            record = self.kind.make(self.kind.values(self.model.live[exact]) | {"first": new})
            changes: list[Callable[[], object]] = [
                partial(self.collection.update, key, first=new),
                partial(self.collection.update, key, record),
                partial(self.collection.update, key, returning(record)),
            ]
            for change in changes:
                with pytest.raises(memdb.IdentityError):
                    change()
            if self.kind.is_mutable:
                with pytest.raises(memdb.IdentityError), self.collection.edit(key) as edited:
                    self.kind.set(edited, "first", new)

    # -- reading -------------------------------------------------------------------------

    @rule(data=st.data())
    def read_one(self, data: st.DataObject) -> None:
        key, exact = self.draw_key(data)
        expected = self.model.live.get(exact)

        assert (expected is not None) == (key in self.collection)
        if expected is None:
            assert self.collection.get(key, "none") == "none"
            with pytest.raises(memdb.RecordNotFoundError) as caught:
                self.collection[key]
            assert_exact(caught.value.identity, key)
        else:
            for record in (self.collection[key], self.collection.get(key)):
                assert_exact(record, expected)
                if self.kind.is_mutable:
                    self.kind.set(record, "n", -666)

    @rule(data=st.data())
    def find(self, data: st.DataObject) -> None:
        n, get = data.draw(_NUMBER["n"], label="n"), self.kind.get
        expected = self.model.matching(lambda record: get(record, "n") == n)
        key, exact = self.draw_key(data)
        names = (self.kind.key,) if isinstance(self.kind.key, str) else self.kind.key
        parts = dict(zip(names, (key,) if len(names) == 1 else key, strict=True))
        by_key = self.collection.find_all(lambda record: is_exact(self.kind.key_of(record), key))

        assert_exact(self.in_order(self.collection.find_all(F.n == n)), expected)
        assert len(expected) == self.collection.count(n=n)
        assert_exact(by_key, [self.model.live[exact]] if exact in self.model.live else [])
        found = self.collection.find(**parts)
        # Python holds 1 and True equal, and so does a condition.
        assert (found is not None) or exact not in self.model.live
        for each in self.collection.find_all(**parts):
            assert self.kind.key_of(each) == key

    @rule(data=st.data())
    def history(self, data: st.DataObject) -> None:
        past = self.model.past
        key, exact = self.draw_key(data)
        if past:
            chosen = sorted(past)[data.draw(WHICH, label="which") % len(past)]
            key, exact = self.model.keys[chosen], chosen
        found: list[tuple[str, Any]] = []
        for version in self.collection.history(key):
            is_rewritten = version.kind == "updated" and is_exact(found[-1][1], version.record)
            if not is_rewritten:
                found.append((version.kind, version.record))

        assert_exact(found, past.get(exact, []))

    def in_order(self, records: list[Any]) -> list[Any]:
        """Return records in the order of the model."""
        return sorted(records, key=lambda r: self.model.exact_key(self.kind.key_of(r)))

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

    @rule(data=st.data(), way=st.sampled_from(["flush", "checkpoint", "reopen", "kill", "beside"]))
    def maintain(self, data: st.DataObject, way: str) -> None:
        if way == "flush":
            self.db.flush()
        elif way == "checkpoint":
            self.db.checkpoint()
        elif way == "beside":
            self.read_beside()
        else:
            self.reopen(data, is_killed=way == "kill")

    def reopen(self, data: st.DataObject, *, is_killed: bool) -> None:
        old = self.path
        if is_killed:
            self.number += 1
            log = self.db._engine.log
            with log.sync_lock, log.lock:
                shutil.copyfile(old, self.path)
        while self.scopes:
            error = ZeroDivisionError()
            self.scopes.pop().__exit__(ZeroDivisionError, error, None)
        self.db.close()
        forget_open([self.model])
        self.open(data)

    def read_beside(self) -> None:
        with memdb.open(self.path, "r", **TRUST) as reader:
            collection = reader.collection(self.kind.target, name=self.kind.name, key=self.kind.key)
            found = {self.model.exact_key(key): record for key, record in collection.items()}

            assert_exact(dict(sorted(found.items())), dict(sorted(self.model.committed.items())))
            assert [] == reader.check()

    # -- after each step -----------------------------------------------------------------

    @invariant()
    def is_equal_to_the_model(self) -> None:
        if not hasattr(self, "db"):
            return
        items = list(self.collection.items())
        found = {self.model.exact_key(key): record for key, record in items}

        assert len(items) == len(found) == len(self.collection)
        assert_exact(dict(sorted(found.items())), dict(sorted(self.model.live.items())))
        assert_exact(self.collection.ids(), [key for key, _ in items])
        assert_exact(list(self.collection), [record for _, record in items])

    @invariant()
    def is_whole(self) -> None:
        if hasattr(self, "db"):
            assert [] == self.db.check()


RUNS = {"hashed": 40, "with the same hashes": 25}


def run(monkeypatch: pytest.MonkeyPatch, how: str, examples: int) -> None:
    """Run the machine, with the hashes of keys as they are, or with forty of them for all keys."""
    # The same in each run, so that hypothesis can bring a failure back.
    monkeypatch.setattr(_natural_key, "secrets", SimpleNamespace(randbelow=lambda stop: 5))
    if how == "with the same hashes":
        digest = _keys.digest
        monkeypatch.setattr(_natural_key, "digest", lambda *parts: digest(*parts) % 40)
    run_state_machine_as_test(
        NaturalKeyMachine,
        settings=settings(max_examples=examples, stateful_step_count=30),
    )


@pytest.mark.timeout(900)
@pytest.mark.parametrize("how", RUNS)
def test_natural_keys_are_equal_to_dicts(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """Whatever is done in whatever order, a collection with a key holds what a dict would."""
    run(monkeypatch, how, RUNS[how])


@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("how", RUNS)
def test_natural_keys_are_equal_to_dicts_for_long(
    monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """The same, ten times as often."""
    run(monkeypatch, how, times(10 * RUNS[how]))
