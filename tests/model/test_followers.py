"""Readers and views beside a dict: each is as the database was at its last refresh or beginning."""

from __future__ import annotations

import copy
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, rule

import memdb
from memdb import F
from tests.support.following import Town, User, all_indexes

State = dict[str, dict[Any, Any]]
NAMES = st.sampled_from([f"n{number}" for number in range(6)])
PEOPLE = st.integers(0, 4)
EMAILS = st.sampled_from(["a@x", "b@x", "c@x"])


class Followers(RuleBasedStateMachine):
    """A writer, a reader of its file, and views of both."""

    views = Bundle("views")

    @initialize(cache=st.sampled_from(["all", "none", 2]), is_late=st.booleans())
    def begin(self, cache: Any, is_late: bool) -> None:
        """Open both; the reader asks for its collections before they are there, or later."""
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "a"
        self.model: State = {"Town": {}, "User": {}}
        self.known: State = copy.deepcopy(self.model)
        self.next = 1
        self.open_writer()
        self.reader = memdb.open(self.path, "r", cache=cache)
        if not is_late:
            self.own()

    def open_writer(self) -> None:
        """Open the file for writing."""
        self.writer = memdb.open(self.path, flush_interval=86_400, checkpoint_interval=7)
        self.towns = self.writer.collection(Town)
        self.users = self.writer.collection(User, key="email")

    def own(self) -> tuple[memdb.Collection[Town], memdb.Collection[User]]:
        """Return the reader's collections."""
        return (
            self.reader.collection(Town, indexes=all_indexes()),
            self.reader.collection(User, key="email", indexes=[memdb.SortedIndex("age")]),
        )

    # -- the writer ----------------------------------------------------------------------

    @rule(names=st.lists(NAMES, min_size=1, max_size=3), people=PEOPLE)
    def insert(self, names: list[str], people: int) -> None:
        """Insert towns whose names nobody has, one by one or at once."""
        towns = [Town(f"{name}-{self.next + n}", people, [name]) for n, name in enumerate(names)]
        given = [self.towns.insert(towns[0])] if len(towns) == 1 else self.towns.insert_many(towns)
        for identity, town in zip(given, towns, strict=True):
            town.id = identity
            self.model["Town"][identity] = town
        self.next += len(names)

    @rule(data=st.data(), people=PEOPLE)
    def update(self, data: st.DataObject, people: int) -> None:
        """Change a town."""
        if self.model["Town"]:
            identity = data.draw(st.sampled_from(sorted(self.model["Town"])))
            self.towns.update(identity, people=people)
            self.model["Town"][identity].people = people

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        """Delete a town."""
        if self.model["Town"]:
            identity = data.draw(st.sampled_from(sorted(self.model["Town"])))
            self.towns.delete(identity)
            del self.model["Town"][identity]

    @rule(email=EMAILS, age=PEOPLE)
    def put(self, email: str, age: int) -> None:
        """Insert or replace a user."""
        self.users.put(User(email, age))
        self.model["User"][email] = User(email, age)

    @rule(data=st.data())
    def swap(self, data: st.DataObject) -> None:
        """Let two towns swap their names, and a user go, in one commit."""
        with self.writer.transaction():
            towns = self.model["Town"]
            if len(towns) > 1:
                one, other = data.draw(st.permutations(sorted(towns)))[:2]
                names = towns[one].name, towns[other].name
                towns[other].name, towns[one].name = names
                self.towns.update(one, name=names[1])
                self.towns.update(other, name=names[0])
            if self.model["User"]:
                email = data.draw(st.sampled_from(sorted(self.model["User"])))
                self.users.delete(email)
                del self.model["User"][email]

    @rule()
    def clear(self) -> None:
        """Delete all towns."""
        self.towns.clear()
        self.model["Town"].clear()

    @rule(what=st.sampled_from(["checkpoint", "flush", "compact", "reopen"]))
    def maintain(self, what: str) -> None:
        """Do what changes no record."""
        if what == "reopen":
            self.writer.close()
            self.open_writer()
        else:
            getattr(self.writer, what)()

    # -- readers and views ---------------------------------------------------------------

    @rule()
    def refresh(self) -> None:
        """Take in what there is."""
        self.reader.refresh()
        self.known = copy.deepcopy(self.model)
        assert not self.reader.refresh()

    @rule(target=views)
    def look(self) -> tuple[memdb.View, State]:
        """Make a view of the reader."""
        return self.reader.view(), copy.deepcopy(self.known)

    @rule(made=consumes(views))
    def look_away(self, made: tuple[memdb.View, State]) -> None:
        """Close a view."""
        made[0].close()

    @rule(made=views, people=PEOPLE)
    def ask_view(self, made: tuple[memdb.View, State], people: int) -> None:
        """A view is as it was."""
        view, state = made
        self.compare(view.collection(Town), view.collection(User, key="email"), state, people)

    @rule(people=PEOPLE)
    def ask(self, people: int) -> None:
        """The reader is as the database was at the last refresh."""
        self.compare(*self.own(), self.known, people)
        assert [] == self.reader.check()

    def compare(self, towns: Any, users: Any, state: State, people: int) -> None:
        """Compare with a state, by scan, query and key."""
        expected = [state["Town"][identity] for identity in sorted(state["Town"])]
        assert list(towns) == expected
        assert {user.email: user for user in users} == state["User"]
        found = [town for town in expected if town.people == people]
        assert towns.where(F.people == people).all() == found
        assert towns.where(F.people >= people).count() == len(
            [town for town in expected if town.people >= people]
        )
        for town in expected:
            assert towns.find(name=town.name) == town
        for email in ("a@x", "b@x", "c@x"):
            assert users.get(email) == state["User"].get(email)
        rows = towns.where().join_many(users, on=(F.people, F.age), as_="same").all()
        ages = [user.age for user in state["User"].values()]
        assert [len(row.same) for row in rows] == [ages.count(town.people) for town in expected]

    def teardown(self) -> None:
        """Close everything."""
        if hasattr(self, "reader"):
            self.reader.close()
            self.writer.close()
            self.folder.cleanup()


TestFollowers = Followers.TestCase
TestFollowers.settings = settings(stateful_step_count=40)
