"""Random collections, indexes and questions, against a naive evaluator over plain lists."""

from __future__ import annotations

import contextlib
import contextvars
import itertools
import random
import shutil
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
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
from tests.support.answers import (
    check,
    check_groups,
    check_pages,
    check_prepared,
    check_selection,
)
from tests.support.asking import query_for
from tests.support.effort import times
from tests.support.exact import assert_exact
from tests.support.indexes import check_contents
from tests.support.naive import Question, Row
from tests.support.questions import (
    COLUMNS,
    Declared,
    are_unique,
    conditions_of,
    declared,
    parametrised,
    questions_for,
    questions_of,
    with_parameters,
)
from tests.support.schemas import FIELDS, NAN, FieldKind, Schema, records_of, schemas

WHICH = st.integers(0, 30)
SERIALIZERS = st.sampled_from(["binary", "binary", "msgpack", "json"])
CACHES = st.sampled_from(["all", "all", "none", 3])
WAYS_TO_WRITE = (
    *("insert", "insert", "insert_many", "insert_many", "put", "update", "update", "update"),
    *("delete", "delete", "update_found", "delete_found", "clear"),
    *("begin", "begin", "commit", "commit", "roll_back"),
    *("add_index", "add_index", "drop_index", "rename_index"),
    *("reopen", "reopen", "kill", "checkpoint"),
)
WAYS_TO_ASK = ("plain", "plain", "prepared", "prepared", "pages", "selection", "groups")


class Interrupted(Exception):
    """Leaves a transaction."""


State = dict[Any, Any]


class QueryMachine(RuleBasedStateMachine):
    """A collection with indexes that come and go, and its records in a dict."""

    @initialize(data=st.data(), schema=schemas(), has_file=st.booleans())
    def start(self, data: st.DataObject, schema: Schema, has_file: bool) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.path = self.folder / "0.memdb" if has_file else None
        self.schema = schema
        self.cls = schema.target()
        self.states: list[State] = [{}]
        self.scopes: list[Any] = []
        self.indexes: dict[str, Declared] = {}
        self.kept: list[tuple[Any, Any, Question]] = []
        self.open(data)
        for _ in range(2):
            self.insert_many(data)

    def open(self, data: st.DataObject) -> None:
        self.kept.clear()
        self.db = memdb.open(self.path, checkpoint_interval=3, flush_interval=86_400.0)
        self.collection: memdb.Collection[Any] = self.db.collection(
            self.cls,
            key=self.schema.key,
            cache=data.draw(CACHES, label="cache"),
            serializer=data.draw(SERIALIZERS, label="serializer"),
            indexes=[index.declare() for index in self.indexes.values()],
        )

        assert list(self.indexes) == list(self.collection.indexes)

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

    def stored(self, values: dict[str, Any], identity: Any) -> Any:
        """Return a record as it will be read."""
        return self.schema.make(self.cls, values, identity)

    def is_unique(self, state: State) -> bool:
        """Whether no two records have the same key in a unique index."""
        return are_unique(self.indexes.values(), state.values())

    def change(self, after: State, act: Callable[[], Any]) -> Any:
        """Do what leads to a state, or see it refused by a unique index and changing nothing.

        In a transaction a duplicate may be refused at once or at the end.
        """
        if self.is_unique(after):
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
        self.states[-1] = after
        return result

    def accepts(self, records: Iterable[Any]) -> bool:
        """Whether every index has a key for each of some records."""
        return all(index.accepts(record) for record in records for index in self.indexes.values())

    def draw_identity(self, data: st.DataObject) -> Any:
        """Return the identity of a live record."""
        identities = list(self.live)
        return identities[data.draw(WHICH, label="which") % len(identities)]

    # -- writing -------------------------------------------------------------------------

    @rule(
        data=st.data(),
        ways=st.lists(st.sampled_from(WAYS_TO_WRITE), min_size=1, max_size=3),
    )
    def write(self, data: st.DataObject, ways: list[str]) -> None:
        for way in ways:
            getattr(self, way)(data)
        self.ask(data)

    @rule(data=st.data())
    def ask_more(self, data: st.DataObject) -> None:
        for _ in range(3):
            self.ask(data)

    def draw_records(self, data: st.DataObject, count: int) -> list[dict[str, Any]]:
        return [data.draw(records_of(self.schema), label="record") for _ in range(count)]

    def insert(self, data: st.DataObject) -> None:
        self.insert_all(self.draw_records(data, 1), is_single=True)

    def insert_many(self, data: st.DataObject) -> None:
        count = data.draw(st.integers(0, 8), label="count")
        self.insert_all(self.draw_records(data, count), is_single=False)

    def insert_all(self, values: list[dict[str, Any]], *, is_single: bool) -> None:
        key = self.schema.key
        records = [self.stored(each, 0) for each in values]
        if key is not None:
            own = [each[key] for each in values]
            if len(set(own)) < len(own) or set(own) & self.live.keys():
                with pytest.raises((memdb.DuplicateIdentityError, memdb.IndexKeyError)):
                    self.collection.insert_many(records)
                return
            after = self.live | dict(zip(own, records, strict=True))
        else:
            after = self.live | {("new", n): record for n, record in enumerate(records)}

        def act() -> list[Any]:
            if is_single:
                return [self.collection.insert(records[0])]
            return self.collection.insert_many(records)

        if not self.accepts(records):
            with pytest.raises((memdb.IndexKeyError, memdb.DuplicateKeyError)):
                act()
            return
        given = self.change(after, act)
        if given is None:
            return
        if key is None:
            for n, (identity, each) in enumerate(zip(given, values, strict=True)):
                del self.live["new", n]
                self.live[identity] = self.stored(each, identity)
        else:
            assert own == given

    def put(self, data: st.DataObject) -> None:
        values = self.draw_records(data, 1)[0]
        key = self.schema.key
        if key is None and not self.schema.has_identity:
            return
        if key is not None:
            identity = values[key]
        elif self.live and data.draw(st.booleans(), label="there"):
            identity = self.draw_identity(data)
        else:
            identity = max([0, *(each for each in self.live)]) + 5
        record = self.stored(values, identity)
        if not self.accepts([record]):
            with pytest.raises((memdb.IndexKeyError, memdb.DuplicateKeyError)):
                self.collection.put(record)
            return
        self.change(self.live | {identity: record}, lambda: self.collection.put(record))

    def update(self, data: st.DataObject) -> None:
        if not self.live:
            return
        identity = self.draw_identity(data)
        self.update_some(
            data, [identity], lambda fields: self.collection.update(identity, **fields)
        )

    def update_found(self, data: st.DataObject) -> None:
        question = data.draw(questions_of(self.schema), label="of which")
        found = [identity for identity, _ in naive.answer(self.rows(), question)]
        is_by_function = data.draw(st.booleans(), label="by a function")

        def act(fields: dict[str, Any]) -> object:
            query = query_for(self.collection, question)
            if fields and not is_by_function:
                return query.update(**fields)
            return query.update(lambda record: self.replaced(record, fields))

        self.update_some(data, found, act)

    def update_some(
        self,
        data: st.DataObject,
        identities: list[Any],
        act: Callable[[dict[str, Any]], object],
    ) -> None:
        """Give some records new values."""
        drawn = self.draw_records(data, 1)[0]
        names = [name for name in drawn if name != self.schema.key]
        fields = {
            name: drawn[name] for name in names if data.draw(st.booleans(), label=f"set {name}")
        }
        changed = {identity: self.replaced(self.live[identity], fields) for identity in identities}
        if not self.accepts(changed.values()):
            with pytest.raises((memdb.IndexKeyError, memdb.DuplicateKeyError)):
                act(fields)
            return
        self.change(self.live | changed, lambda: act(fields))

    def replaced(self, record: Any, fields: dict[str, Any]) -> Any:
        """Return a record with new values."""
        identity = record["id"] if self.schema.is_dict and self.schema.key is None else 0
        if not self.schema.is_dict and self.schema.has_identity:
            identity = record.id
        return self.stored(self.schema.values(record) | fields, identity)

    def delete(self, data: st.DataObject) -> None:
        if self.live:
            identity = self.draw_identity(data)
            self.collection.delete(identity)
            self.states[-1] = {each: self.live[each] for each in self.live if each != identity}

    def delete_found(self, data: st.DataObject) -> None:
        question = data.draw(questions_of(self.schema), label="of which")
        found = {identity for identity, _ in naive.answer(self.rows(), question)}

        assert len(found) == query_for(self.collection, question).delete()
        self.states[-1] = {each: self.live[each] for each in self.live if each not in found}

    def clear(self, data: st.DataObject) -> None:
        assert len(self.live) == self.collection.clear()
        self.states[-1] = {}

    # -- transactions --------------------------------------------------------------------

    def begin(self, data: st.DataObject) -> None:
        if len(self.scopes) < 3:
            scope = self.db.transaction()
            scope.__enter__()
            self.scopes.append(scope)
            self.states.append(dict(self.live))

    def commit(self, data: st.DataObject) -> None:
        if self.scopes:
            self.end(keep=True)

    def roll_back(self, data: st.DataObject) -> None:
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

    # -- indexes -------------------------------------------------------------------------

    def add_index(self, data: st.DataObject) -> None:
        if self.scopes or len(self.indexes) > 4:
            return
        index = data.draw(declared(self.schema, list(self.indexes)), label="index")
        self.indexes[index.name] = index
        records = self.live.values()
        if not all(map(index.accepts, records)) or not self.is_unique(self.live):
            del self.indexes[index.name]
            with pytest.raises((memdb.DuplicateKeyError, memdb.IndexKeyError)):
                self.collection.indexes.add(index.declare())
        else:
            self.collection.indexes.add(index.declare())
        assert list(self.indexes) == list(self.collection.indexes)

    def drop_index(self, data: st.DataObject) -> None:
        if self.indexes and not self.scopes:
            name = data.draw(st.sampled_from(sorted(self.indexes)), label="index")
            self.collection.indexes.drop(name)
            del self.indexes[name]

    def rename_index(self, data: st.DataObject) -> None:
        if self.indexes and not self.scopes:
            name = data.draw(st.sampled_from(sorted(self.indexes)), label="index")
            taken = {*self.indexes, name}
            new = next(f"renamed{n}" for n in range(100) if f"renamed{n}" not in taken)
            self.collection.indexes.rename(name, new)
            self.indexes = {
                new if each == name else each: index.renamed(new) if each == name else index
                for each, index in self.indexes.items()
            }
            assert list(self.indexes) == list(self.collection.indexes)

    def checkpoint(self, data: st.DataObject) -> None:
        if not self.scopes:
            self.db.checkpoint()

    def reopen(self, data: st.DataObject) -> None:
        if self.path is None:
            return
        while self.scopes:
            self.end(keep=False)
        self.db.close()
        self.declare_again(data)
        self.open(data)

        assert self.db.recovery is None

    def kill(self, data: st.DataObject) -> None:
        """Go on with a copy of the file as it is, as a kill would leave it."""
        if self.path is None:
            return
        old, self.path = self.path, self.folder / f"{int(self.path.stem) + 1}.memdb"
        shutil.copyfile(old, self.path)
        while self.scopes:
            self.end(keep=False)
        self.db.close()
        self.declare_again(data)
        self.open(data)

    def declare_again(self, data: st.DataObject) -> None:
        """Declare the indexes as before, none of them, or one as something else."""
        how = data.draw(st.sampled_from(["same", "none", "other"]), label="indexes")
        if how == "none":
            self.indexes.clear()
        elif how == "other" and self.indexes:
            name = data.draw(st.sampled_from(sorted(self.indexes)), label="which index")
            before = self.indexes[name]
            self.indexes[name] = data.draw(declared(self.schema), label="instead").renamed(name)
            if not self.accepts(self.live.values()) or not self.is_unique(self.live):
                self.indexes[name] = before

    # -- asking --------------------------------------------------------------------------

    def rows(self, state: State | None = None) -> list[Row]:
        """Return identities and records in the order of the collection.

        With a natural key that is the order of writing, which other tests are about.
        """
        live = self.live if state is None else state
        identities = self.collection.ids() if self.schema.key is not None else sorted(live)
        assert live.keys() == set(identities)
        return [(identity, live[identity]) for identity in identities]

    def ask(self, data: st.DataObject) -> None:
        """Ask one question, as the transaction and as everybody else; compare all indexes."""
        indexes = list(self.indexes.values())
        question = data.draw(questions_for(self.schema, indexes), label="question")
        way = data.draw(st.sampled_from(WAYS_TO_ASK), label="way to ask")
        rows = self.rows()
        self.ask_in_way(data, question, way, rows)
        self.ask_again(data, rows)
        if self.scopes:
            outside = contextvars.Context()
            rows = outside.run(self.rows, self.states[0])
            outside.run(check, self.collection, rows, question)
        else:
            check_contents(self.collection, self.rows(), self.indexes.values())

    def ask_again(self, data: st.DataObject, rows: list[Row]) -> None:
        """Ask all questions that were kept, and keep another one: what they look at has changed."""
        for query, prepared, question in self.kept:
            expected = [record for _, record in naive.answer(rows, question)]

            assert_exact(query.all(), expected)
            assert len(expected) == query.count()
            assert_exact(list(prepared(**question.parameters)), expected)
            assert len(expected) == prepared.count(**question.parameters)
        if len(self.kept) < 3:
            indexes = list(self.indexes.values())
            plain = data.draw(questions_for(self.schema, indexes), label="kept question")
            question = parametrised(plain)
            query = query_for(self.collection, plain)
            self.kept.append((query, query_for(self.collection, question).prepare(), question))

    def ask_in_way(
        self, data: st.DataObject, question: Question, way: str, rows: list[Row]
    ) -> None:
        if way == "plain":
            check(self.collection, rows, question)
        elif way == "prepared":
            check_prepared(self.collection, rows, data.draw(with_parameters(question, self.schema)))
        elif way == "pages":
            check_pages(self.collection, rows, question, self.schema)
        elif way == "selection":
            check_selection(self.collection, rows, question, self.schema)
        else:
            fields = self.schema.groupable
            if fields:
                by = data.draw(st.sampled_from(fields), label="group by")
                check_groups(self.collection, rows, question, self.schema, by)


# When it fails hypothesis looks for a shorter example, for five minutes at most.
@pytest.mark.timeout(900)
def test_queries_are_equal_to_a_naive_evaluation() -> None:
    """Whatever was done in whatever order, each question has the answer of a plain loop."""
    run_state_machine_as_test(
        QueryMachine, settings=settings(max_examples=40, stateful_step_count=12)
    )


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_queries_are_equal_to_a_naive_evaluation_for_long() -> None:
    """The same, seven times as often and twice as long."""
    run_state_machine_as_test(
        QueryMachine, settings=settings(max_examples=times(280), stateful_step_count=24)
    )


@given(data=st.data(), schema=schemas())
@settings(max_examples=40)
def test_the_same_answer_with_any_indexes(data: st.DataObject, schema: Schema) -> None:
    """With each of some sets of indexes, and with none, the answer is that of a plain loop."""
    values = data.draw(st.lists(records_of(schema), max_size=25), label="records")
    if schema.key is not None:
        values = list({each[schema.key]: each for each in values}.values())
    cls = schema.target()
    question = data.draw(questions_of(schema), label="question")
    prepared = data.draw(with_parameters(question, schema), label="prepared")
    with memdb.open(None) as db:
        collection = db.collection(cls, key=schema.key)
        given = collection.insert_many([schema.make(cls, each) for each in values])
        rows = [
            (identity, schema.make(cls, each, 0 if schema.key else identity))
            for identity, each in zip(given, values, strict=True)
        ]
        assert_exact(list(collection), [record for _, record in rows])
        indexes: list[Declared] = []
        for _ in range(3):
            check(collection, rows, question)
            check_prepared(collection, rows, prepared)
            index = data.draw(declared(schema, list(collection.indexes)), label="index")
            records = [record for _, record in rows]
            if all(map(index.accepts, records)) and are_unique([index], records):
                collection.indexes.add(index.declare())
                indexes.append(index)
            aimed = data.draw(questions_for(schema, indexes), label="aimed question")
            check(collection, rows, aimed)
            aimed = data.draw(with_parameters(aimed, schema), label="aimed, prepared")
            check_prepared(collection, rows, aimed)
        check(collection, rows, question)
        check_prepared(collection, rows, prepared)
        check_pages(collection, rows, question, schema)


@given(data=st.data(), schema=schemas())
@settings(max_examples=40)
def test_a_condition_and_its_opposite_divide_the_records(
    data: st.DataObject, schema: Schema
) -> None:
    """With and without indexes each record matches exactly one of a condition and its opposite."""
    condition = data.draw(conditions_of(schema), label="condition")
    values = data.draw(st.lists(records_of(schema), max_size=12), label="records")
    if schema.key is not None:
        values = list({each[schema.key]: each for each in values}.values())
    cls = schema.target()
    with memdb.open(None) as db:
        collection = db.collection(cls, key=schema.key)
        records = [schema.make(cls, each) for each in values]
        for index in data.draw(st.lists(declared(schema), max_size=1), label="indexes"):
            if all(map(index.accepts, records)) and are_unique([index], records):
                collection.indexes.add(index.declare())
        collection.insert_many(records)
        some = query_for(collection, Question(condition))
        others = query_for(collection, Question(naive.No(condition)))

        assert sorted(map(repr, [*some.ids(), *others.ids()])) == sorted(
            map(repr, collection.ids())
        )
        assert len(values) == some.count() + others.count()


OPERATORS = ("==", "!=", "<", "<=", ">", ">=", "in", "between")
INDEX_KINDS: dict[str, Callable[[str], Any]] = {
    "hash": memdb.HashIndex,
    "sorted": memdb.SortedIndex,
    "falling": lambda name: memdb.SortedIndex(f"-{name}"),
    "column": memdb.ColumnIndex,
}


@pytest.mark.parametrize("kind", INDEX_KINDS)
@pytest.mark.parametrize("cache", ["all", "none"])
@pytest.mark.parametrize(
    "what", [each for each in FIELDS if each.operands and each.name != "tags"], ids=str
)
def test_every_operator_with_every_pair_of_values(what: FieldKind, cache: str, kind: str) -> None:
    """For each value in a record and each operand an index finds what the comparison says."""
    if kind == "column" and what.name not in COLUMNS:
        return
    loose = Schema((what,), "dataclass", True, None, True)
    cls = loose.target()
    values = list(what.values)
    if kind == "hash":
        index = Declared("", kind, ((what.name,),), str)
        values = [value for value in values if index.accepts({what.name: value})]
    path = naive.Path((what.name,))
    with memdb.open(None, cache=cache) as db:
        records = db.collection(cls, indexes=[INDEX_KINDS[kind](what.name)])
        records.insert_many([cls(value) for value in values])
        rows = [(number, cls(value, number)) for number, value in enumerate(values, 1)]
        for sign, operand in itertools.product(OPERATORS, (*what.operands, *what.values)):
            if operand is None and sign not in ("==", "!=", "in"):
                continue
            operands = {"in": ([operand, values[0]],), "between": (operand, values[0])}
            if sign == "between" and values[0] is None:
                operands["between"] = (operand, operand)
            constants = tuple(map(naive.Constant, operands.get(sign, (operand,))))
            condition = naive.Test(sign, path, constants)
            expected = [number for number, _ in naive.answer(rows, Question(condition))]
            query = query_for(records, Question(condition))

            assert expected == [record.id for record in query.all()], condition
            assert len(expected) == query.count(), condition


@dataclass
class Piece:
    """Something with few different values."""

    k: int
    v: int
    tags: list[str]
    name: str = ""
    id: int = 0


PIECE_INDEXES: dict[str, Callable[[], list[Any]]] = {
    "none": list,
    "hash": lambda: [memdb.HashIndex("k")],
    "compound hash": lambda: [memdb.HashIndex("k", "v")],
    "sorted": lambda: [memdb.SortedIndex("k")],
    "compound": lambda: [memdb.SortedIndex("k", "-v"), memdb.SortedIndex("-k", "v", name="other")],
    "set": lambda: [memdb.SetIndex("tags")],
    "column": lambda: [memdb.ColumnIndex("k"), memdb.ColumnIndex("v")],
    "partial": lambda: [
        memdb.HashIndex("k", where=F.v < 3),
        memdb.SortedIndex("v", where=F.k == 1),
    ],
    "all": lambda: [memdb.HashIndex("k"), memdb.SortedIndex("v"), memdb.SetIndex("tags")],
}
_K, _V, _TAGS = (naive.Path((name,)) for name in ("k", "v", "tags"))
_ONE, _TWO = naive.Constant(1), naive.Constant(2)
_IS_ONE = naive.Test("==", _K, (_ONE,))
_LOW = naive.Test("<", _V, (naive.Constant(3),))
PIECE_QUESTIONS = [
    Question(),
    Question(_IS_ONE),
    Question(naive.Test("in", _K, (naive.Constant([1, 2]),))),
    Question(naive.Test(">=", _K, (_ONE,))),
    Question(naive.Test("between", _V, (_ONE, _TWO))),
    Question(naive.Test("contains", _TAGS, (naive.Constant("b"),))),
    Question(naive.All((_IS_ONE, _LOW))),
    Question(naive.All((_IS_ONE, naive.Test("==", _V, (_TWO,))))),
    Question(naive.Some((_IS_ONE, naive.Test("contains", _TAGS, (naive.Constant("a"),))))),
    Question(None, (naive.Term(_K), naive.Term(_V, falls=True))),
    Question(None, (naive.Term(_K, falls=True), naive.Term(_V)), 1, 3),
    Question(_IS_ONE, (naive.Term(_V),), 0, 2),
    Question(_LOW, (naive.Term(_V, falls=True),)),
]


@pytest.mark.parametrize(
    ("cache", "key"), [("all", None), ("all", "name"), (3, None)], ids=["plain", "keyed", "bounded"]
)
@pytest.mark.parametrize("kind", PIECE_INDEXES)
def test_kept_questions_follow_every_change(kind: str, cache: int | str, key: Any) -> None:
    """Queries and prepared ones, asked again after each change, never answer from before it."""
    chance = random.Random(kind)
    live: State = {}
    names = iter(f"{number * 37 % 101}" for number in range(100))

    def draw() -> tuple[int, int, list[str], str]:
        return chance.randrange(3), chance.randrange(5), chance.choices("abc", k=2), next(names)

    def insert(pieces: memdb.Collection[Piece]) -> None:
        piece = Piece(*draw())
        identity = pieces.insert(piece)
        live[identity] = piece if key else replace(piece, id=identity)

    def change(pieces: memdb.Collection[Piece]) -> None:
        way, identity = chance.randrange(8), chance.choice(sorted(live))
        k, v, tags, _ = draw()
        if way == 0:
            pieces.delete(identity)
            del live[identity]
            return
        if way == 1:
            insert(pieces)
            return
        # Mostly one field alone, so that the record stays where it is in other indexes.
        new = [{"v": v}, {"v": v}, {"k": k}, {"tags": tags}, {"k": k, "v": v}][way % 5]
        pieces.update(identity, **new)
        live[identity] = replace(live[identity], **new)

    with memdb.open(None, cache=cache) as db:
        pieces = db.collection(Piece, key=key, indexes=PIECE_INDEXES[kind]())
        for _ in range(20):
            insert(pieces)
        kept = []
        for question in PIECE_QUESTIONS:
            given = parametrised(question)
            prepared = query_for(pieces, given).prepare()
            kept.append((question, query_for(pieces, question), prepared, given.parameters))

        def ask() -> None:
            # With a key the order is that of writing, which other tests are about.
            rows = [(identity, live[identity]) for identity in pieces.ids()]
            assert len(live) == len(rows)
            for question, query, prepared, parameters in kept:
                expected = [record for _, record in naive.answer(rows, question)]
                for _ in range(2):
                    assert expected == query.all() == list(prepared(**parameters)), question
                assert len(expected) == query.count() == prepared.count(**parameters), question

        ask()
        for turn in range(20):
            if turn % 10 == 9:
                before = dict(live)
                with contextlib.suppress(Interrupted), db.transaction():
                    change(pieces)
                    ask()
                    change(pieces)
                    if turn > 10:
                        live.clear()
                        live.update(before)
                        raise Interrupted
            else:
                change(pieces)
            ask()


@dataclass
class Crowd:
    """Some thousand records, so that indexes have several blocks, deltas and bulk catch-ups."""

    collection: memdb.Collection[Any]
    schema: Schema
    cls: Any
    chance: random.Random
    is_wide: bool
    live: State = field(default_factory=dict)
    indexes: list[Declared] = field(default_factory=list)
    used: int = 0

    def draw(self, number: int) -> dict[str, Any]:
        """Return the values of a record."""
        values: dict[str, Any] = {}
        for each in self.schema.fields:
            values[each.name] = self.chance.choice(each.values)
            if each.name == "number" and self.is_wide:
                values[each.name] = number * 7_919 % 1_000_003
            elif each.name == "text" and self.is_wide:
                values[each.name] = f"{number * 7_919 % 1_000_003}"
            elif self.schema.is_dict and self.chance.random() < 0.1:
                del values[each.name]
            elif self.schema.is_loose and self.chance.random() < 0.01 and each.name != "tags":
                values[each.name] = self.chance.choice((None, NAN, "stray", 2**70))
            elif self.schema.is_dict and is_dataclass(values[each.name]):
                values[each.name] = asdict(values[each.name])
        return values

    def insert(self, count: int) -> None:
        """Insert some records."""
        several = [self.draw(self.used + n) for n in range(count)]
        self.used += count
        given = self.collection.insert_many([self.schema.make(self.cls, each) for each in several])
        for identity, values in zip(given, several, strict=True):
            self.live[identity] = self.schema.make(self.cls, values, identity)

    def change(self, count: int) -> None:
        """Update some records, and delete a few."""
        chosen = self.chance.sample(sorted(self.live), min(count, len(self.live)))
        for identity in chosen:
            if self.chance.random() < 0.2:
                self.collection.delete(identity)
                del self.live[identity]
                continue
            values = self.draw(self.used)
            self.used += 1
            record = self.schema.make(self.cls, values, identity)
            self.collection.update(identity, record)
            self.live[identity] = record

    def add(self, index: Declared) -> None:
        """Add an index if the records allow it, and will."""
        records = [record for record in self.live.values() if index.holds(record)]
        if not all(map(index.accepts, records)) or not are_unique([index], records):
            return
        if index.kind == "unique" and not (
            self.is_wide and index.paths[0][0] in ("number", "text")
        ):
            return
        self.collection.indexes.add(index.declare())
        self.indexes.append(index)

    @property
    def rows(self) -> list[Row]:
        """The records in their order."""
        return sorted(self.live.items())


@given(
    data=st.data(),
    schema=schemas(),
    seed=st.integers(0, 2**16),
    cache=CACHES,
    is_wide=st.booleans(),
)
# A shorter example would have as many records, and take minutes to find.
@settings(
    max_examples=5,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)
def test_many_records(
    data: st.DataObject, schema: Schema, seed: int, cache: int | str, is_wide: bool
) -> None:
    """Among some thousand records, changed a few or many at a time, too."""
    schema = replace(schema, key=None, has_identity=schema.has_identity or schema.is_dict)
    cls = schema.target()
    with memdb.open(None, cache=cache) as db:
        collection = db.collection(cls)
        crowd = Crowd(collection, schema, cls, random.Random(seed), is_wide)
        crowd.insert(1_500)
        for _ in range(2):
            for _ in range(2):
                crowd.add(data.draw(declared(schema, list(collection.indexes)), label="index"))
            question = data.draw(questions_for(schema, crowd.indexes), label="question")
            check(collection, crowd.rows, question)
            crowd.change(data.draw(st.sampled_from([1, 30, 100, 400]), label="changes"))
            check(collection, crowd.rows, question)
            crowd.insert(data.draw(st.sampled_from([1, 30, 100, 1_100]), label="inserts"))
            prepared = data.draw(with_parameters(question, schema), label="prepared")
            check_prepared(collection, crowd.rows, prepared)
            crowd.change(3)
            check_prepared(collection, crowd.rows, prepared)
            check_contents(collection, crowd.rows, crowd.indexes)
