"""Random joins over random collections, against a naive evaluator over plain lists."""

from __future__ import annotations

import contextlib
import contextvars
import random
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    rule,
    run_state_machine_as_test,
)

import memdb
from memdb import F
from tests.support import naive
from tests.support.asking_joins import flat, joined_query
from tests.support.effort import times
from tests.support.exact import assert_exact
from tests.support.joined_answers import (
    check_joined,
    check_joined_pages,
    check_joined_prepared,
    check_joined_selection,
    expected_rows,
    is_doubtful,
)
from tests.support.joining import Drawing, Table, accepts, draw_index, draw_tables, draw_values
from tests.support.naive_joins import Joined, Tables, beneath, parametrised, plain
from tests.support.questions import Declared, are_unique

# A failing example is made shorter by its steps, not by what each of them draws.
CHANCES = st.integers(0, 2**32).map(random.Random)
WAYS_TO_WRITE = (
    *("insert", "insert_many", "insert_many", "put", "update", "update", "update"),
    *("delete", "clear", "update_found", "delete_found"),
    *("begin", "begin", "commit", "commit", "roll_back"),
    *("add_index", "add_index", "drop_index", "reopen", "reopen"),
)
WAYS_TO_ASK = ("plain", "plain", "plain", "prepared", "prepared", "pages", "selection")


class Interrupted(Exception):
    """Leaves a transaction."""


State = dict[str, dict[Any, Any]]


def values_of_rows(drawing: Drawing, question: Joined) -> list[naive.Value]:
    """Return some values of the slots of a question's rows."""
    by_name = {table.name: table for table in drawing.tables}
    found = []
    slots = [(question.slot, by_name[question.left.table])]
    for join in question.joins:
        if not join.is_many and not isinstance(join.right, Joined):
            slots.append((join.slot, by_name[join.right.table]))
    for slot, table in slots:
        if not table.is_dict:
            found += [beneath(slot, naive.Path((name,))) for name in ("number", "word")]
    return found


class JoinMachine(RuleBasedStateMachine):
    """Collections with indexes that come and go, and their records in dicts."""

    @initialize(chance=CHANCES, count=st.sampled_from([2, 2, 3]), has_file=st.booleans())
    def start(self, chance: random.Random, count: int, has_file: bool) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.path = self.folder / "0.memdb" if has_file else None
        self.schemas = draw_tables(chance, count)
        self.classes = {table.name: table.target() for table in self.schemas}
        self.states: list[State] = [{table.name: {} for table in self.schemas}]
        self.scopes: list[Any] = []
        self.indexes: dict[str, dict[str, Declared]] = {table.name: {} for table in self.schemas}
        self.kept: list[tuple[Any, Any, Joined, Joined]] = []
        self.open(chance)
        for table in self.schemas:
            self.insert_all(table, [draw_values(chance, table) for _ in range(5)])

    def open(self, chance: random.Random) -> None:
        self.kept.clear()
        self.db = memdb.open(self.path, checkpoint_interval=3, flush_interval=86_400.0)
        self.collections: dict[str, memdb.Collection[Any]] = {}
        for table in self.schemas:
            cls = self.classes[table.name]
            name: dict[str, Any] = {} if table.is_dict else {"name": table.name}
            self.collections[table.name] = self.db.collection(
                cls,
                key=table.key,
                cache=chance.choice(["all", "all", "all", "none", 3]),
                serializer=chance.choice(["binary", "binary", "msgpack", "json"]),
                indexes=[index.declare() for index in self.indexes[table.name].values()],
                **name,
            )

    def teardown(self) -> None:
        if not hasattr(self, "db"):
            return
        with contextlib.suppress(Exception):
            while self.scopes:
                self.end(keep=False)
        self.db.close()
        shutil.rmtree(self.folder)

    # -- the model -----------------------------------------------------------------------

    @property
    def live(self) -> State:
        """What the innermost transaction sees."""
        return self.states[-1]

    def is_unique(self, state: State) -> bool:
        """Whether no two records have the same key in a unique index."""
        return all(
            are_unique(self.indexes[name].values(), records.values())
            for name, records in state.items()
        )

    def accepts(self, table: Table, records: Iterable[Any]) -> bool:
        """Whether every index has a key for each of some records."""
        indexes = self.indexes[table.name].values()
        return all(accepts(index, record) for record in records for index in indexes)

    def change(self, table: Table, after: dict[Any, Any], act: Callable[[], Any]) -> Any:
        """Do what leads to a state, or see it refused and changing nothing."""
        new = [
            record for key, record in after.items() if self.live[table.name].get(key) is not record
        ]
        if not self.accepts(table, new):
            with pytest.raises((memdb.IndexKeyError, memdb.DuplicateKeyError)):
                act()
            return None
        state = self.live | {table.name: after}
        if self.is_unique(state):
            result = act()
        elif not self.scopes:
            with pytest.raises(memdb.DuplicateKeyError):
                act()
            return None
        else:
            try:
                result = act()
            except memdb.DuplicateKeyError:
                return None
        self.states[-1] = state
        return result

    def draw_table(self, chance: random.Random) -> Table:
        return chance.choice(self.schemas)

    # -- writing -------------------------------------------------------------------------

    @rule(chance=CHANCES, ways=st.lists(st.sampled_from(WAYS_TO_WRITE), min_size=1, max_size=4))
    def write(self, chance: random.Random, ways: list[str]) -> None:
        for way in ways:
            getattr(self, way)(chance)
        self.ask(chance)

    @rule(chance=CHANCES)
    def ask_more(self, chance: random.Random) -> None:
        for _ in range(4):
            self.ask(chance)

    def insert(self, chance: random.Random) -> None:
        table = self.draw_table(chance)
        self.insert_all(table, [draw_values(chance, table)], is_single=True)

    def insert_many(self, chance: random.Random) -> None:
        table = self.draw_table(chance)
        self.insert_all(table, [draw_values(chance, table) for _ in range(chance.randrange(5))])

    def insert_all(
        self, table: Table, values: list[dict[str, Any]], *, is_single: bool = False
    ) -> None:
        collection, cls = self.collections[table.name], self.classes[table.name]
        live = self.live[table.name]
        records = [table.make(cls, each) for each in values]
        if table.key is not None:
            own = {}
            for each, record in zip(values, records, strict=True):
                key = table.key_of(each)
                if key not in live:
                    own.setdefault(key, record)
            records = list(own.values())
            after = live | own
            is_single = is_single and len(records) == 1
        else:
            after = live | {("new", place): record for place, record in enumerate(records)}

        def act() -> list[Any]:
            if is_single:
                return [collection.insert(records[0])]
            return collection.insert_many(records)

        given = self.change(table, after, act)
        if given is None or table.key is not None:
            return
        for place, (identity, each) in enumerate(zip(given, values, strict=True)):
            del after["new", place]
            after[identity] = table.make(cls, each, identity)

    def put(self, chance: random.Random) -> None:
        table = self.draw_table(chance)
        collection, cls = self.collections[table.name], self.classes[table.name]
        values = draw_values(chance, table)
        live = self.live[table.name]
        if table.identity == "anonymous":
            return
        if table.key is not None:
            identity = table.key_of(values)
        else:
            # Sometimes one that others name already.
            identity = chance.choice([*live, max([0, *live]) + 1, max([0, *live]) + 3])
        record = table.make(cls, values, identity)
        self.change(table, live | {identity: record}, lambda: collection.put(record))

    def update(self, chance: random.Random) -> None:
        table = self.draw_table(chance)
        live = self.live[table.name]
        if not live:
            return
        identity = chance.choice(list(live))
        fields = self.draw_fields(chance, table)
        changed = {identity: self.replaced(table, live[identity], fields)}
        collection = self.collections[table.name]
        self.change(table, live | changed, lambda: collection.update(identity, **fields))

    def draw_fields(self, chance: random.Random, table: Table) -> dict[str, Any]:
        return {
            name: value
            for name, value in draw_values(chance, table).items()
            if name not in table.key_fields and chance.random() < 0.5
        }

    def replaced(self, table: Table, record: Any, fields: dict[str, Any]) -> Any:
        """Return a record with new values."""
        identity = record.get("id", 0) if table.is_dict else getattr(record, "id", 0)
        return table.make(self.classes[table.name], table.values(record) | fields, identity)

    def update_found(self, chance: random.Random) -> None:
        """Update what a query of one collection finds."""
        table = self.draw_table(chance)
        live = self.live[table.name]
        fields = self.draw_fields(chance, table)
        if not fields:
            return
        query = self.collections[table.name].where(F.number >= 1)
        condition = naive.Test(">=", naive.Path(("number",)), (naive.Constant(1),))
        changed = {
            identity: self.replaced(table, record, fields)
            for identity, record in live.items()
            if naive.matches(condition, record)
        }
        self.change(table, live | changed, lambda: query.update(**fields))

    def delete(self, chance: random.Random) -> None:
        table = self.draw_table(chance)
        live = self.live[table.name]
        if live:
            identity = chance.choice(list(live))
            self.collections[table.name].delete(identity)
            self.states[-1] = self.live | {
                table.name: {each: live[each] for each in live if each != identity}
            }

    def delete_found(self, chance: random.Random) -> None:
        table = self.draw_table(chance)
        live = self.live[table.name]
        word = chance.choice(["a", "b", "ab"])
        left = {
            identity: record
            for identity, record in live.items()
            if naive.look_up(record, ("word",)) != word
        }

        assert len(live) - len(left) == self.collections[table.name].where(word=word).delete()
        self.states[-1] = self.live | {table.name: left}

    def clear(self, chance: random.Random) -> None:
        table = self.draw_table(chance)
        if chance.random() < 0.5:
            assert len(self.live[table.name]) == self.collections[table.name].clear()
            self.states[-1] = self.live | {table.name: {}}

    # -- transactions --------------------------------------------------------------------

    def begin(self, chance: random.Random) -> None:
        if len(self.scopes) < 3:
            scope = self.db.transaction()
            scope.__enter__()
            self.scopes.append(scope)
            self.states.append(dict(self.live))

    def commit(self, chance: random.Random) -> None:
        if self.scopes:
            self.end(keep=True)

    def roll_back(self, chance: random.Random) -> None:
        if self.scopes:
            self.end(keep=False)

    def end(self, *, keep: bool) -> None:
        scope, state = self.scopes.pop(), self.states.pop()
        if not keep:
            scope.__exit__(Interrupted, Interrupted(), None)
        elif self.scopes or self.is_unique(state):
            scope.__exit__(None, None, None)
            self.states[-1] = state
        else:
            with pytest.raises(memdb.DuplicateKeyError):
                scope.__exit__(None, None, None)

    # -- indexes and the file --------------------------------------------------------------

    def add_index(self, chance: random.Random) -> None:
        table = self.draw_table(chance)
        own = self.indexes[table.name]
        if self.scopes or len(own) > 4:
            return
        index = draw_index(chance, table, list(own))
        records = list(self.live[table.name].values())
        collection = self.collections[table.name]
        is_held = all(accepts(index, record) for record in records)
        if is_held and are_unique([index], records):
            collection.indexes.add(index.declare())
            own[index.name] = index
        else:
            with pytest.raises((memdb.DuplicateKeyError, memdb.IndexKeyError)):
                collection.indexes.add(index.declare())
        assert list(own) == list(collection.indexes)

    def drop_index(self, chance: random.Random) -> None:
        table = self.draw_table(chance)
        own = self.indexes[table.name]
        if own and not self.scopes:
            name = chance.choice(list(own))
            self.collections[table.name].indexes.drop(name)
            del own[name]

    def reopen(self, chance: random.Random) -> None:
        if self.path is None:
            return
        while self.scopes:
            self.end(keep=chance.random() < 0.5)
        self.db.close()
        if chance.random() < 0.5:
            for own in self.indexes.values():
                own.clear()
        self.open(chance)

        assert self.db.recovery is None

    # -- asking --------------------------------------------------------------------------

    def tables(self, state: State | None = None) -> Tables:
        """Return the records of each collection in its order.

        With a natural key that is the order of writing, which other tests are about.
        """
        found = {}
        for table in self.schemas:
            live = (self.live if state is None else state)[table.name]
            collection = self.collections[table.name]
            identities = collection.ids() if table.key is not None else sorted(live)
            assert live.keys() == set(identities)
            found[table.name] = [(identity, live[identity]) for identity in identities]
        return found

    def ask(self, chance: random.Random) -> None:
        """Ask one question, as the transaction and as everybody else, and those that were kept."""
        drawing = Drawing(chance, self.schemas)
        question = drawing.question()
        tables = self.tables()
        way = chance.choice(WAYS_TO_ASK)
        if way == "plain":
            check_joined(self.collections, tables, question, chance)
        elif way == "prepared":
            check_joined_prepared(self.collections, tables, question, chance)
        elif way == "pages":
            check_joined_pages(self.collections, tables, question, chance)
        else:
            values = values_of_rows(drawing, question)
            if values:
                check_joined_selection(self.collections, tables, question, values, chance)
        self.ask_again(chance, tables, question)
        if self.scopes:
            outside = contextvars.Context()
            tables = outside.run(self.tables, self.states[0])
            outside.run(check_joined, self.collections, tables, question, chance)

    def ask_again(self, chance: random.Random, tables: Tables, question: Joined) -> None:
        """Ask all questions that were kept, and keep another one: what they look at has changed."""
        for query, prepared, kept, asked in self.kept:
            expected = expected_rows(tables, kept)
            if expected is None or is_doubtful(tables, kept):
                continue
            assert_exact([flat(row, kept) for row in query.all()], plain(expected))
            assert len(expected) == query.count()
            assert bool(expected) == query.exists()
            found = prepared(**asked.parameters)
            assert_exact([flat(row, kept) for row in found], plain(expected))
            assert len(expected) == prepared.count(**asked.parameters)
        if len(self.kept) < 3:
            asked = parametrised(question)
            query = joined_query(self.collections, question, chance)
            prepared = joined_query(self.collections, asked, chance).prepare()
            self.kept.append((query, prepared, question, asked))


# When it fails hypothesis looks for a shorter example, for five minutes at most.
@pytest.mark.timeout(900)
def test_joins_are_equal_to_a_naive_evaluation() -> None:
    """Whatever was done in whatever order, each question has the answer of plain loops."""
    run_state_machine_as_test(
        JoinMachine, settings=settings(max_examples=40, stateful_step_count=12)
    )


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_joins_are_equal_to_a_naive_evaluation_for_long() -> None:
    """The same, seven times as often and twice as long."""
    run_state_machine_as_test(
        JoinMachine, settings=settings(max_examples=times(420), stateful_step_count=24)
    )


@given(seed=st.integers(0, 2**32))
@settings(max_examples=40)
def test_the_same_answer_with_any_indexes(seed: int) -> None:
    """With each of some sets of indexes, and with none, the answer is that of plain loops."""
    check_with_indexes(random.Random(seed), questions=4)


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@given(seed=st.integers(0, 2**32))
@settings(max_examples=times(1_500))
def test_the_same_answer_with_any_indexes_for_long(seed: int) -> None:
    """The same, more often."""
    check_with_indexes(random.Random(seed), questions=8)


def check_with_indexes(chance: random.Random, questions: int) -> None:
    """Ask some questions, and again after each of some indexes was added."""
    schemas = draw_tables(chance, chance.choice([2, 3]))
    with memdb.open(None) as db:
        collections: dict[str, Any] = {}
        tables: Tables = {}
        for table in schemas:
            cls = table.target()
            name: dict[str, Any] = {} if table.is_dict else {"name": table.name}
            collections[table.name] = db.collection(cls, key=table.key, **name)
            found: dict[Any, Any] = {}
            for place in range(1, 1 + chance.choice([0, 3, 8, 12, 12])):
                values = draw_values(chance, table)
                identity = place if table.key is None else table.key_of(values)
                if identity not in found:
                    found[identity] = table.make(cls, values, identity)
                    collections[table.name].insert(table.make(cls, values))
            tables[table.name] = list(found.items())
        drawing = Drawing(chance, schemas)
        asked = [drawing.question() for _ in range(questions)]
        for _ in range(3):
            for question in asked:
                check_joined(collections, tables, question, chance)
                check_joined_prepared(collections, tables, question, chance)
            for table in schemas:
                collection = collections[table.name]
                index = draw_index(chance, table, list(collection.indexes))
                records = [record for _, record in tables[table.name]]
                if all(accepts(index, record) for record in records) and are_unique(
                    [index], records
                ):
                    collection.indexes.add(index.declare())


@dataclass
class Left:
    """Names rights in every way."""

    ref: int | None
    refs: list[int]
    code: int
    id: int = 0


@dataclass(frozen=True)
class Right:
    """Names lefts in every way."""

    ref: int | None
    refs: tuple[int, ...]
    code: int
    id: int = 0


class Crowd:
    """Two collections of some thousand records, and what each join of them must give.

    So many that indexes have several blocks, deltas and bulk catch-ups.
    """

    def __init__(self, db: memdb.Database, chance: random.Random, cache: Any) -> None:
        self.chance = chance
        self.collections: dict[Any, Any] = {
            Left: db.collection(Left, cache=cache),
            Right: db.collection(Right, cache=cache),
        }
        self.live: dict[Any, dict[int, Any]] = {Left: {}, Right: {}}

    def draw(self, cls: Any, identity: int = 0) -> Any:
        """Return a record that refers to records of the other collection, there or not."""
        other = self.live[Right if cls is Left else Left]
        most = len(other) + 20
        refs = [self.chance.randrange(1, most) for _ in range(self.chance.randrange(4))]
        ref = self.chance.choice([None, self.chance.randrange(1, most)])
        kind = list if cls is Left else tuple
        return cls(ref, kind(refs), self.chance.randrange(700), identity)

    def insert(self, cls: Any, count: int) -> None:
        """Insert some records."""
        records = [self.draw(cls) for _ in range(count)]
        for identity, record in zip(
            self.collections[cls].insert_many(records), records, strict=True
        ):
            self.live[cls][identity] = replace(record, id=identity)

    def change(self, cls: Any, count: int) -> None:
        """Update some records, and delete a few."""
        live = self.live[cls]
        for identity in self.chance.sample(sorted(live), min(count, len(live))):
            if self.chance.random() < 0.2:
                self.collections[cls].delete(identity)
                del live[identity]
            else:
                live[identity] = self.draw(cls, identity)
                self.collections[cls].update(identity, live[identity])

    def check(self) -> None:
        """Check each kind of join, by identities."""
        lefts, rights = self.collections[Left].where(), self.collections[Right]
        by_ref, by_element, by_code = defaultdict(list), defaultdict(list), defaultdict(list)
        for identity, right in sorted(self.live[Right].items()):
            by_ref[right.ref].append(identity)
            by_code[right.code].append(identity)
            for each in dict.fromkeys(right.refs):
                by_element[each].append(identity)
        there = self.live[Right]
        expected: dict[str, Any] = {
            "on": {i: left.ref if left.ref in there else None for i, left in self.lefts()},
            "list": {i: [each for each in left.refs if each in there] for i, left in self.lefts()},
            "back": {i: by_ref[i] for i, _ in self.lefts()},
            "elements": {i: by_element[i] for i, _ in self.lefts()},
            "pair": {i: by_code[left.code] for i, left in self.lefts()},
        }
        queries = {
            "on": lefts.join(rights, on=F.ref, as_="found"),
            "list": lefts.join_many(rights, on=F.refs, as_="found"),
            "back": lefts.join_many(rights, back=F.ref, as_="found"),
            "elements": lefts.join_many(rights, back=F.refs, as_="found"),
            "pair": lefts.join_many(rights, on=(F.code, F.code), as_="found"),
        }
        for name, query in queries.items():
            found = {row.left.id: _ids(row.found) for row in query}

            assert expected[name] == found, name
            assert list(expected[name]) == list(found), name
            counted = sum(1 for each in found.values() if each)
            inner = query.where(F.found.is_none() if name == "on" else F.found.len_() == 0)
            assert len(found) - counted == inner.count(), name
        some = lefts.where(F.code < 20).join_many(rights, back=F.refs, how="inner", as_="found")
        assert {
            i: by_element[i] for i, left in self.lefts() if left.code < 20 and by_element[i]
        } == {row.left.id: _ids(row.found) for row in some}

    def lefts(self) -> list[tuple[int, Any]]:
        """Return the lefts in their order."""
        return sorted(self.live[Left].items())


def _ids(found: Any) -> Any:
    if found is None:
        return None
    return [each.id for each in found] if isinstance(found, tuple) else found.id


@pytest.mark.parametrize(("seed", "cache"), [(0, "all"), (1, "all"), (0, "none"), (1, 50)])
def test_many_records(seed: int, cache: Any) -> None:
    """Among some thousand records, changed a few or many at a time, with and without indexes."""
    chance = random.Random(seed)
    with memdb.open(None) as db:
        crowd = Crowd(db, chance, cache)
        for cls in (Left, Right, Left):
            crowd.insert(cls, 900 if cache == "all" else 400)
        crowd.check()
        for index in (
            memdb.HashIndex("ref"),
            memdb.SetIndex("refs"),
            memdb.SortedIndex("code"),
            memdb.HashIndex("code", name="by hash"),
        ):
            crowd.collections[Right].indexes.add(index)
            crowd.check()
            crowd.change(chance.choice([Left, Right]), chance.choice([1, 30, 400]))
            crowd.change(Right, chance.choice([1, 100]))
            crowd.check()
            with contextlib.suppress(Interrupted), db.transaction():
                before = {cls: dict(live) for cls, live in crowd.live.items()}
                crowd.change(Right, 20)
                crowd.insert(Left, 20)
                crowd.check()
                if chance.random() < 0.5:
                    crowd.live = before
                    raise Interrupted
            crowd.insert(Right, chance.choice([1, 300]))
            crowd.check()

        assert [] == db.check()
