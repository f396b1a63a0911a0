"""Random joins over readers, views and compacted files, against a naive evaluator."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule, run_state_machine_as_test

import memdb
from tests.model.test_joins import CHANCES, WAYS_TO_ASK, JoinMachine, State, values_of_rows
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
from tests.support.joining import Drawing, Table, accepts, draw_index
from tests.support.naive_joins import Joined, Tables, parametrised, plain
from tests.support.questions import Declared, are_unique

MOST_VIEWS = 3
MOST_KEPT = 3


class Follower:
    """A reader or a view: its collections, and the state that they should be in."""

    def __init__(
        self, schemas: Iterable[Table], collections: dict[str, Any], indexes: list[Declared]
    ) -> None:
        self.schemas = list(schemas)
        self.collections = collections
        self.state: State = {}
        self.indexes = {
            name: {each.name: each for each in indexes if each.name in collection.indexes}
            for name, collection in collections.items()
        }
        self.kept: list[tuple[Any, Any, Joined, Joined]] = []

    def tables(self) -> Tables:
        """Return the records of each collection in its order."""
        found = {}
        for table in self.schemas:
            own, identities = self.state[table.name], self.collections[table.name].ids()
            assert sorted(own, key=repr) == sorted(identities, key=repr)
            if table.key is None:
                assert sorted(own) == identities
            found[table.name] = [(identity, own[identity]) for identity in identities]
        return found

    def ask(self, chance: random.Random) -> None:
        """Ask a question, and those that were kept."""
        self.drop_unfit_indexes()
        tables, drawing = self.tables(), Drawing(chance, self.schemas)
        question = drawing.question()
        way = chance.choice(WAYS_TO_ASK)
        if way == "plain":
            check_joined(self.collections, tables, question, chance)
        elif way == "prepared":
            check_joined_prepared(self.collections, tables, question, chance)
        elif way == "pages":
            check_joined_pages(self.collections, tables, question, chance)
        elif values := values_of_rows(drawing, question):
            check_joined_selection(self.collections, tables, question, values, chance)
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
        if len(self.kept) < MOST_KEPT:
            asked = parametrised(question)
            query = joined_query(self.collections, question, chance)
            prepared = joined_query(self.collections, asked, chance).prepare()
            self.kept.append((query, prepared, question, asked))

    def drop_unfit_indexes(self) -> None:
        """Drop what the records, which somebody else has written, can't be in."""
        for name, own in self.indexes.items():
            records = list(self.state[name].values())
            for index in list(own.values()):
                is_held = all(accepts(index, record) for record in records)
                if not is_held or not are_unique([index], records):
                    self.collections[name].indexes.drop(index.name)
                    del own[index.name]

    def add_index(self, chance: random.Random) -> None:
        """Declare another index, here alone."""
        table = chance.choice(self.schemas)
        own = self.indexes[table.name]
        index = draw_index(chance, table, list(own))
        records = list(self.state[table.name].values())
        is_held = all(accepts(index, record) for record in records)
        if len(own) < 4 and is_held and are_unique([index], records):
            self.collections[table.name].indexes.add(index.declare())
            own[index.name] = index


class FollowingMachine(JoinMachine):
    """A writer of random collections, a reader of its file, and views of both."""

    @initialize(chance=CHANCES, count=st.sampled_from([2, 2, 3]), is_late=st.booleans())
    def start(self, chance: random.Random, count: int, is_late: bool) -> None:
        """Open both; the reader asks for its collections before they are there, or later."""
        self.views: list[tuple[bool, memdb.View, Follower]] = []
        # Number of the last version -> the state that it ends.
        self.past: dict[int, State] = {}
        self.known: State = {}
        self.reader: memdb.Database | None = None
        self.is_late = is_late
        super().start(chance=chance, count=count, has_file=True)
        if self.reader is None:
            self.open_reader(chance)
        self.refresh(chance)

    def open(self, chance: random.Random) -> None:
        """Open the file for writing; the first time for reading too."""
        self.views = [each for each in self.views if not each[0]]
        super().open(chance)
        self.declared = [each for own in self.indexes.values() for each in own.values()]
        if self.reader is None and not self.is_late:
            self.open_reader(chance)

    def open_reader(self, chance: random.Random) -> None:
        """Open the file for reading."""
        assert self.path is not None
        self.reader = memdb.open(self.path, "r", cache=chance.choice(["all", "all", "none", 3]))
        collections = {
            table.name: self.reader.collection(
                self.classes[table.name],
                key=table.key,
                **({} if table.is_dict else {"name": table.name}),
            )
            for table in self.schemas
        }
        self.follower = Follower(self.schemas, collections, [])

    def teardown(self) -> None:
        """Close everything."""
        if getattr(self, "reader", None) is not None:
            self.reader.close()  # type: ignore[union-attr]
        super().teardown()

    def note(self) -> None:
        """Note the state that the last commit has made, for those that look back."""
        with self.db.view() as view:
            self.past[view.slot] = self.states[0]

    @rule(chance=CHANCES)
    def refresh(self, chance: random.Random) -> None:
        """Take in what there is; the reader is in the order of the writer then."""
        assert self.reader is not None
        self.note()
        self.reader.refresh()
        self.known = self.follower.state = self.states[0]
        for name, collection in self.follower.collections.items():
            if not self.scopes:
                assert self.collections[name].ids() == collection.ids()
        if chance.random() < 0.5:
            self.follower.drop_unfit_indexes()
            self.follower.add_index(chance)
        self.follower.ask(chance)

    @rule(chance=CHANCES)
    def ask_reader(self, chance: random.Random) -> None:
        """The reader is as it was when it last refreshed."""
        self.note()
        for _ in range(3):
            self.follower.ask(chance)

    @rule(chance=CHANCES)
    def compact(self, chance: random.Random) -> None:
        """The writer answers as before, and so does a reader that refreshes or does not."""
        if not self.scopes:
            self.db.compact()
            self.past.clear()
            self.note()
        for _ in range(3):
            self.ask(chance)
        self.follower.ask(chance)

    @rule(chance=CHANCES, what=st.sampled_from(["writer", "reader", "past", "past"]))
    def look(self, chance: random.Random, what: str) -> None:
        """Make a view."""
        assert self.reader is not None
        self.note()
        if len(self.views) >= MOST_VIEWS:
            self.views.pop(chance.randrange(len(self.views)))[1].close()
        if what == "past" and any(self.past):
            slot = chance.choice([slot for slot in self.past if slot])
            view, state = self.db.at(slot), self.past[slot]
        elif what == "reader":
            view, state = self.reader.view(), self.known
        else:
            view, state = self.db.view(), self.states[0]
        of = self.follower.collections if what == "reader" else self.collections
        declared = [] if what == "reader" else self.declared
        found = {name: view.collection(collection) for name, collection in of.items()}
        follower = Follower(self.schemas, found, declared)
        follower.state = state
        self.views.append((what != "reader", view, follower))
        follower.ask(chance)

    @rule(chance=CHANCES)
    def ask_views(self, chance: random.Random) -> None:
        """Each view is as it was made."""
        for _, _, follower in self.views:
            follower.ask(chance)
            if chance.random() < 0.2:
                follower.add_index(chance)


# When it fails hypothesis looks for a shorter example, for five minutes at most.
@pytest.mark.timeout(900)
def test_joins_of_readers_and_views() -> None:
    """Whoever asks, whatever was done to the file: the answer is that of plain loops."""
    run_state_machine_as_test(
        FollowingMachine, settings=settings(max_examples=25, stateful_step_count=12)
    )


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_joins_of_readers_and_views_for_long() -> None:
    """The same, ten times as often and twice as long."""
    run_state_machine_as_test(
        FollowingMachine, settings=settings(max_examples=times(250), stateful_step_count=24)
    )
