"""Collections with foreign keys of all kinds, in random order, against plain dicts."""

from __future__ import annotations

import contextlib
import copy
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

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
from memdb import F, ForeignKey
from tests.support.effort import times


@dataclass
class Country:
    code: str
    n: int = 0


@dataclass
class Customer:
    country: Annotated[str | None, ForeignKey("Country", "set_none")] = None
    guide: Annotated[int | None, ForeignKey("Customer", "cascade")] = None
    n: int = 0
    id: int = 0


@dataclass(frozen=True, slots=True)
class Order:
    customer: Annotated[int | None, ForeignKey(Customer, "restrict")] = None
    payer: Annotated[int | None, ForeignKey(Customer, "cascade")] = None
    seen: Annotated[int, ForeignKey(Customer)] = 0
    n: int = 0
    id: int = 0


@dataclass
class Basket:
    owner: Annotated[int, ForeignKey(Customer, "restrict")] | None = None
    orders: Annotated[list[int], ForeignKey("Order", "set_none")] = field(default_factory=list)
    from_: list[Annotated[str, ForeignKey(Country, "restrict")]] = field(default_factory=list)
    n: int = 0
    id: int = 0


class Key(NamedTuple):
    """A checked key, said anew."""

    source: type
    field: str
    target: type
    on_delete: str


KEYS = [
    Key(Customer, "country", Country, "set_none"),
    Key(Customer, "guide", Customer, "cascade"),
    Key(Order, "customer", Customer, "restrict"),
    Key(Order, "payer", Customer, "cascade"),
    Key(Basket, "owner", Customer, "restrict"),
    Key(Basket, "orders", Order, "set_none"),
    Key(Basket, "from_", Country, "restrict"),
]
CLASSES: list[Any] = [Country, Customer, Order, Basket]
CODES = ["fr", "de", "it"]
WAYS = [
    *("insert", "insert", "insert", "insert_many", "put", "put", "update", "update", "edit"),
    *("update_query", "delete", "delete", "delete", "delete_query", "clear"),
    *("begin", "begin", "commit", "roll_back", "drop_index", "reopen"),
]

State = dict[type, dict[Any, Any]]


def values_in(record: Any, name: str) -> list[Any]:
    """Return what a record refers to in a field."""
    value = getattr(record, name)
    return [each for each in (value if isinstance(value, list) else [value]) if each is not None]


def holds(state: State) -> bool:
    """Whether each checked reference leads somewhere."""
    return all(
        value in state[key.target]
        for key in KEYS
        for record in state[key.source].values()
        for value in values_in(record, key.field)
    )


def delete(state: State, target: type, identity: Any) -> None:
    """Delete a record and do with those that refer to it what their keys say."""
    if state[target].pop(identity, None) is None:
        return
    for key in KEYS:
        if key.target is not target:
            continue
        for other, record in list(state[key.source].items()):
            if other not in state[key.source] or identity not in values_in(record, key.field):
                continue
            if key.on_delete == "cascade":
                delete(state, key.source, other)
            elif key.on_delete == "set_none":
                old = getattr(record, key.field)
                new = [v for v in old if v != identity] if isinstance(old, list) else None
                state[key.source][other] = replace(record, **{key.field: new})


class ForeignKeyMachine(RuleBasedStateMachine):
    """The operations, on a file."""

    @initialize(data=st.data())
    def start(self, data: st.DataObject) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.scopes: list[Any] = []
        # The committed state, then one for each open transaction or savepoint.
        self.states: list[State] = [{cls: {} for cls in CLASSES}]
        self.open(data)
        for _ in range(6):
            self.write(data, ["insert"])

    def open(self, data: st.DataObject) -> None:
        self.db = memdb.open(self.folder / "a", checkpoint_interval=5, flush_interval=86_400.0)
        order = data.draw(st.permutations(CLASSES), label="order")
        cache = data.draw(st.sampled_from(["all", "none", 2]), label="cache")
        self.collections: dict[type, memdb.Collection[Any]] = {
            cls: self.db.collection(cls, key="code" if cls is Country else None, cache=cache)
            for cls in order
        }

    def teardown(self) -> None:
        if hasattr(self, "db"):
            with contextlib.suppress(memdb.MemdbError):
                while self.scopes:
                    self.scopes.pop().__exit__(KeyError, KeyError(), None)
            self.db.close()
            shutil.rmtree(self.folder)

    # -- drawing -------------------------------------------------------------------------

    @property
    def state(self) -> State:
        return self.states[-1]

    def draw_class(self, data: st.DataObject) -> Any:
        return data.draw(st.sampled_from(CLASSES), label="class")

    def draw_reference(self, data: st.DataObject, target: type) -> Any:
        """Return an identity of a target, mostly one that is there."""
        live = sorted(self.state[target])
        others = CODES if target is Country else [999]
        return data.draw(st.sampled_from([*live, *live, *others]), label="reference")

    def draw_record(self, data: st.DataObject, cls: type, identity: Any = None) -> Any:
        """Return a record; of a Country with any code unless one is given."""
        values: dict[str, Any] = {"n": data.draw(st.integers(0, 2), label="n")}
        for key in KEYS:
            if key.source is cls:
                if key.field in ("orders", "from_"):
                    count = data.draw(st.sampled_from([0, 1, 1, 2]), label=key.field)
                    values[key.field] = [
                        self.draw_reference(data, key.target) for _ in range(count)
                    ]
                elif data.draw(st.booleans(), label=key.field):
                    values[key.field] = self.draw_reference(data, key.target)
        if cls is Order:
            values["seen"] = self.draw_reference(data, Customer)
        if cls is Country:
            values["code"] = identity or data.draw(st.sampled_from(CODES), label="code")
        elif identity is not None:
            values["id"] = identity
        return cls(**values)

    def draw_identity(self, data: st.DataObject, cls: type) -> Any:
        live = sorted(self.state[cls])
        return data.draw(st.sampled_from(live), label="identity") if live else None

    # -- what is expected ----------------------------------------------------------------

    def change(self, act: Callable[[], Any], after: Callable[[State, Any], None]) -> None:
        """Do something that makes the state what `after` makes of it, or changes nothing.

        Args:
            act: What is done to the database.
            after: Changes a copy of the state; given what `act` returned, None if it raised.
        """
        made = copy.deepcopy(self.state)
        try:
            result = act()
        except memdb.ForeignKeyError:
            assert len(self.states) == 1
            after(made, None)
            assert not holds(made)
            return
        after(made, result)
        assert len(self.states) > 1 or holds(made)
        self.states[-1] = made

    @rule(data=st.data(), ways=st.lists(st.sampled_from(WAYS), min_size=1, max_size=4))
    def write(self, data: st.DataObject, ways: list[str]) -> None:
        for way in ways:
            getattr(self, way)(data)
            self.is_equal_to_the_model()

    # -- writing -------------------------------------------------------------------------

    def insert(self, data: st.DataObject) -> None:
        cls = self.draw_class(data)
        identity = None
        if cls is not Country and data.draw(st.booleans(), label="own identity"):
            identity = data.draw(st.integers(1, 8), label="identity")
        record = self.draw_record(data, cls, identity)
        collection = self.collections[cls]
        known = record.code if cls is Country else identity
        if known in self.state[cls]:
            with pytest.raises(memdb.DuplicateIdentityError):
                collection.insert(record)
            return
        self.change(
            lambda: collection.insert(record),
            lambda state, given: self.set(state, record, given or known or 10_000),
        )

    @staticmethod
    def set(state: State, record: Any, identity: Any) -> None:
        cls = type(record)
        stored = record if cls is Country else replace(record, id=identity)
        state[cls][identity] = copy.deepcopy(stored)

    def insert_many(self, data: st.DataObject) -> None:
        cls = data.draw(st.sampled_from([Customer, Order, Basket]), label="class")
        count = data.draw(st.integers(0, 3), label="count")
        first = max([0, *self.states[0][cls], *self.state[cls]]) + 1 + len(self.states) * 4
        are_own = data.draw(st.booleans(), label="own identities")
        records = [
            self.draw_record(data, cls, first + place if are_own else None)
            for place in range(count)
        ]
        if are_own and cls is Customer and count > 1:
            # Two that refer to each other, or to one of the other's that is not there.
            records[0].guide = first + data.draw(st.integers(0, count), label="guide")

        def after(state: State, given: list[int] | None) -> None:
            numbers = given or [first + place for place in range(count)]
            if given is None and not are_own:
                numbers = [10_000 + place for place in range(count)]
            for record, number in zip(records, numbers, strict=True):
                self.set(state, record, number)

        self.change(lambda: self.collections[cls].insert_many(iter(records)), after)

    def put(self, data: st.DataObject) -> None:
        cls = self.draw_class(data)
        identity = self.draw_identity(data, cls) or (None if cls is Country else 3)
        record = self.draw_record(data, cls, identity)
        known = record.code if cls is Country else identity
        self.change(
            lambda: self.collections[cls].put(record),
            lambda state, _: self.set(state, record, known),
        )

    def update(self, data: st.DataObject) -> None:
        cls = self.draw_class(data)
        identity = self.draw_identity(data, cls)
        if identity is None:
            with pytest.raises(memdb.RecordNotFoundError):
                self.collections[cls].update(999, n=1)
            return
        record = self.draw_record(data, cls, identity)
        how = data.draw(st.sampled_from(["record", "fields", "function"]), label="how")
        collection = self.collections[cls]
        values = asdict(record)

        def act() -> object:
            if how == "record":
                return collection.update(identity, record)
            if how == "fields":
                return collection.update(identity, **values)
            return collection.update(identity, lambda _: record)

        self.change(act, lambda state, _: self.set(state, record, identity))

    def edit(self, data: st.DataObject) -> None:
        cls = data.draw(st.sampled_from([Country, Customer, Basket]), label="class")
        identity = self.draw_identity(data, cls)
        if identity is None:
            return
        record = self.draw_record(data, cls, identity)

        def act() -> None:
            with self.collections[cls].edit(identity) as own:
                for name, value in asdict(record).items():
                    setattr(own, name, value)

        self.change(act, lambda state, _: self.set(state, record, identity))

    def update_query(self, data: st.DataObject) -> None:
        n = data.draw(st.integers(0, 2), label="n")
        customer = self.draw_reference(data, Customer)

        def after(state: State, _: Any) -> None:
            for identity, order in state[Order].items():
                if order.n == n:
                    state[Order][identity] = replace(order, payer=customer)

        self.change(lambda: self.collections[Order].where(n=n).update(payer=customer), after)

    def delete(self, data: st.DataObject) -> None:
        cls = self.draw_class(data)
        identity = self.draw_identity(data, cls)
        if identity is None:
            with pytest.raises(memdb.RecordNotFoundError):
                self.collections[cls].delete(999)
            return
        self.change(
            lambda: self.collections[cls].delete(identity),
            lambda state, _: delete(state, cls, identity),
        )

    def delete_query(self, data: st.DataObject) -> None:
        cls = self.draw_class(data)
        n = data.draw(st.integers(0, 2), label="n")
        found = [identity for identity, record in self.state[cls].items() if record.n <= n]

        def act() -> None:
            assert len(found) == self.collections[cls].where(F.n <= n).delete()

        def after(state: State, _: Any) -> None:
            for identity in found:
                delete(state, cls, identity)

        self.change(act, after)

    def clear(self, data: st.DataObject) -> None:
        cls = self.draw_class(data)

        def act() -> None:
            assert len(self.state[cls]) == self.collections[cls].clear()

        def after(state: State, _: Any) -> None:
            for identity in list(state[cls]):
                delete(state, cls, identity)

        self.change(act, after)

    # -- transactions --------------------------------------------------------------------

    def begin(self, data: st.DataObject) -> None:
        scope = self.db.transaction()
        scope.__enter__()
        self.scopes.append(scope)
        self.states.append(copy.deepcopy(self.state))

    def commit(self, data: st.DataObject) -> None:
        if not self.scopes:
            return
        made = self.states.pop()
        if len(self.states) == 1 and not holds(made):
            with pytest.raises(memdb.ForeignKeyError):
                self.scopes.pop().__exit__(None, None, None)
            return
        self.scopes.pop().__exit__(None, None, None)
        self.states[-1] = made

    def roll_back(self, data: st.DataObject) -> None:
        if self.scopes:
            self.scopes.pop().__exit__(KeyError, KeyError(), None)
            self.states.pop()

    def reopen(self, data: st.DataObject) -> None:
        while self.scopes:
            self.roll_back(data)
        self.db.close()
        self.open(data)

    def drop_index(self, data: st.DataObject) -> None:
        """Drop an index of a key, or add it again."""
        key = data.draw(st.sampled_from(KEYS), label="key")
        indexes = self.collections[key.source].indexes
        if key.field in indexes:
            indexes.drop(key.field)
        else:
            cls = memdb.SetIndex if key.field in ("orders", "from_") else memdb.HashIndex
            indexes.add(cls(key.field))

    # -- reading -------------------------------------------------------------------------

    def is_equal_to_the_model(self) -> None:
        for cls in CLASSES:
            found = {
                (record.code if cls is Country else record.id): record
                for record in self.collections[cls]
            }
            assert self.state[cls] == found
        for key in KEYS:
            for identity in self.state[key.target]:
                assert self.referring(key, identity) == list(self.asked(key, identity))

    def referring(self, key: Key, identity: Any) -> list[Any]:
        return [
            record
            for _, record in sorted(self.state[key.source].items())
            if identity in values_in(record, key.field)
        ]

    def asked(self, key: Key, identity: Any) -> Iterator[Any]:
        """Ask the index that the key has."""
        name = F[key.field]
        is_many = key.field in ("orders", "from_")
        condition = name.contains(identity) if is_many else name == identity
        return iter(self.collections[key.source].where(condition))

    @invariant()
    def is_whole(self) -> None:
        if hasattr(self, "db"):
            assert [] == self.db.check()


def run(examples: int) -> None:
    """Run the machine."""
    run_state_machine_as_test(
        ForeignKeyMachine, settings=settings(max_examples=examples, stateful_step_count=25)
    )


@pytest.mark.timeout(900)
def test_foreign_keys_do_what_plain_loops_do() -> None:
    """Whatever is done in whatever order, references hold, and no more is deleted than said."""
    run(60)


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_foreign_keys_do_what_plain_loops_do_for_long() -> None:
    """The same, ten times as often."""
    run(times(600))
