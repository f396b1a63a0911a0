"""Everything at once for a while: threads that write, ask, look back and maintain."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import memdb
from memdb import F, HashIndex, SetIndex, SortedIndex
from tests.support.concurrently import and_then, run_all, switching_often, until
from tests.support.effort import times

WRITERS = 8
CENTS = 1_000
KINDS: dict[str, dict[str, Any]] = {
    "plain": {"durability": "written"},
    "encrypted": {"key": bytes(range(32)), "durability": "buffered"},
    "synced": {"durability": "synced", "cache": 50},
}


@dataclass
class Thing:
    """A record of one writer."""

    owner: int
    n: int
    code: str
    tags: list[str] = field(default_factory=list)
    id: int = 0


@dataclass
class Pot:
    """One of two whose sum never changes."""

    cents: int
    id: int = 0


@pytest.fixture(autouse=True)
def often() -> Iterator[None]:
    """Let threads take turns often."""
    with switching_often(2e-4):
        yield


class World:
    """An open database, and what each writer knows to be in it."""

    def __init__(self, db: memdb.Database) -> None:
        self.db = db
        self.things = db.collection(
            Thing,
            indexes=[
                HashIndex("owner"),
                SortedIndex("n"),
                HashIndex("code", unique=True),
                SetIndex("tags"),
            ],
        )
        self.pots = db.collection(Pot)
        self.known: list[dict[int, Thing]] = [{} for _ in range(WRITERS)]

    def whole(self) -> list[str]:
        """Return all that is known, in a form that compares by value."""
        return sorted(repr(thing) for own in self.known for thing in own.values())


class Writer:
    """Changes things of its own in every way, and knows what must be there."""

    def __init__(self, world: World, number: int, chance: random.Random) -> None:
        self.world = world
        self.number = number
        self.own = world.known[number]
        self.chance = chance
        self.count = 0

    def turn(self) -> None:
        """Do one thing, and look whether it is right."""
        ways = [self.insert, self.insert, self.insert_many, self.update, self.delete, self.put]
        ways += [self.transaction, self.undone, self.duplicate, self.ask, self.move, self.bulk]
        self.chance.choice(ways)()
        if len(self.own) > 60:
            self.clear_some()

    def new(self) -> Thing:
        """Return a thing that is not there yet."""
        self.count += 1
        n = self.chance.randint(0, 50)
        tags = [f"tag {n % 5}", f"owner {self.number}"]
        return Thing(self.number, n, f"{self.number}:{self.count}", tags)

    def any(self) -> int:
        """Return the identity of one that is there; a new one if there was none."""
        if not self.own:
            self.insert()
        return self.chance.choice(list(self.own))

    def insert(self) -> None:
        """Insert one."""
        thing = self.new()
        thing.id = self.world.things.insert(thing)
        assert thing.id not in self.own
        self.own[thing.id] = thing

    def insert_many(self) -> None:
        """Insert several at once."""
        things = [self.new() for _ in range(5)]
        for thing, identity in zip(things, self.world.things.insert_many(things), strict=True):
            thing.id = identity
            self.own[identity] = thing

    def update(self) -> None:
        """Change a field that is indexed."""
        identity, n = self.any(), self.chance.randint(0, 50)
        self.world.things.update(identity, n=n)
        self.own[identity].n = n
        assert self.world.things[identity] == self.own[identity]

    def put(self) -> None:
        """Replace one."""
        thing = self.new()
        thing.id = self.any()
        self.world.things.put(thing)
        self.own[thing.id] = thing

    def delete(self) -> None:
        """Delete one."""
        identity = self.any()
        self.world.things.delete(identity)
        del self.own[identity]
        assert self.world.things.get(identity) is None

    def clear_some(self) -> None:
        """Delete many by a query."""
        gone = [each for each, thing in self.own.items() if thing.n < 35]
        count = self.world.things.where((F.owner == self.number) & (F.n < 35)).delete()
        assert len(gone) == count
        for identity in gone:
            del self.own[identity]

    def bulk(self) -> None:
        """Change several by a query."""
        count = self.world.things.where((F.owner == self.number) & (F.n == 7)).update(n=8)
        changed = [thing for thing in self.own.values() if thing.n == 7]
        assert len(changed) == count
        for thing in changed:
            thing.n = 8

    def transaction(self) -> None:
        """Change several things as one, with a part of it undone."""
        first, thing = self.any(), self.new()
        with self.world.db.transaction():
            self.world.things.update(first, n=1)
            thing.id = self.world.things.insert(thing)
            try:
                with self.world.db.transaction():
                    self.world.things.update(first, n=2)
                    self.world.things.delete(thing.id)
                    raise ZeroDivisionError
            except ZeroDivisionError:
                pass
            assert self.world.things[first].n == 1
        self.own[first].n = 1
        self.own[thing.id] = thing

    def undone(self) -> None:
        """Change things and take it back."""
        first = self.any()
        try:
            with self.world.db.transaction():
                self.world.things.update(first, n=-1)
                self.world.things.insert(self.new())
                raise ZeroDivisionError
        except ZeroDivisionError:
            pass
        assert self.world.things[first] == self.own[first]

    def duplicate(self) -> None:
        """Try to give a second thing the code of a first."""
        thing = self.new()
        thing.code = self.own[self.any()].code
        with pytest.raises(memdb.DuplicateKeyError):
            self.world.things.insert(thing)

    def move(self) -> None:
        """Move cents from one pot to the other."""
        with self.world.db.transaction():
            cents = self.chance.randint(0, CENTS)
            self.world.pots.update(1, cents=cents)
            self.world.pots.update(2, cents=CENTS - cents)

    def ask(self) -> None:
        """Ask for one's own in several ways."""
        things = self.world.things
        mine = things.where(owner=self.number).all()
        assert sorted(map(repr, mine)) == sorted(map(repr, self.own.values()))
        n = self.chance.randint(0, 50)
        found = things.where((F.owner == self.number) & (F.n >= n)).order_by("n").all()
        assert [thing.n for thing in found] == sorted(
            thing.n for thing in self.own.values() if thing.n >= n
        )
        tagged = things.where(F.tags.contains(f"owner {self.number}")).count()
        assert len(self.own) == tagged


def pots_are_right(pots: Any) -> None:
    """Demand that the sum is that of one commit."""
    assert CENTS == sum(pot.cents for pot in pots)
    assert CENTS == pots.query().sum("cents")


class Maintenance:
    """What is done to the database meanwhile."""

    def __init__(self, world: World, path: Path, opening: dict[str, Any]) -> None:
        self.world = world
        self.path = path
        self.opening = opening
        self.number = 0

    def keep(self) -> None:
        """Flush, checkpoint, verify."""
        db = self.world.db
        db.flush()
        db.checkpoint()
        assert [] == db.check()
        assert set(db.health().names) <= {"mostly_dead"}
        assert db.stats().versions > 0

    def compact(self) -> None:
        """Compact."""
        self.world.db.compact()
        time.sleep(0.05)

    def copy(self) -> None:
        """Take a snapshot and look into it."""
        self.number += 1
        path = self.path.with_name(f"snapshot {self.number}")
        self.world.db.snapshot(path)
        with memdb.open(path, "r", **self.opening) as db:
            pots_are_right(db.collection(Pot))
            assert [] == db.check()
        path.unlink()

    def view(self) -> None:
        """Look at one commit while others go on."""
        with self.world.db.view() as view:
            for _ in range(3):
                pots_are_right(view.collection(Pot))
                count = len(view.collection(Thing))
                time.sleep(0.01)
                assert count == len(view.collection(Thing))

    def follow(self) -> None:
        """Read as another process does."""
        with memdb.open(self.path, "r", **self.opening) as db:
            pots = db.collection(Pot)
            for _ in range(5):
                pots_are_right(pots)
                db.refresh()
                things = db.collection(Thing)
                assert len(things) == len(list(things))


def soak(path: Path, kind: str, seconds: float) -> None:
    """Let everything happen at once for so many seconds."""
    settings = KINDS[kind]
    opening = {"key": settings["key"]} if "key" in settings else {}
    is_over = threading.Event()
    with memdb.open(path, flush_interval=0.02, checkpoint_interval=700, **settings) as db:
        world = World(db)
        world.pots.insert_many([Pot(CENTS), Pot(0)])
        db.flush()
        end = time.monotonic() + seconds
        writers = [Writer(world, each, random.Random(each)) for each in range(WRITERS)]

        def writing(writer: Writer) -> Callable[[], None]:
            def work() -> None:
                while time.monotonic() < end and not is_over.is_set():
                    writer.turn()

            return and_then(is_over, work)

        maintenance = Maintenance(world, path, opening)
        run_all(
            *map(writing, writers),
            *(
                until(is_over, work)
                for work in (
                    maintenance.keep,
                    maintenance.compact,
                    maintenance.copy,
                    maintenance.view,
                    maintenance.follow,
                    lambda: pots_are_right(world.pots),
                )
            ),
            timeout_s=seconds + 120,
        )
        assert [] == db.check()
        assert world.whole() == sorted(map(repr, world.things))
    with memdb.open(path, **opening) as db:
        assert db.recovery is None
        assert world.whole() == sorted(map(repr, db.collection(Thing)))
        pots_are_right(db.collection(Pot))
        assert [] == db.check()
    assert [path] == list(path.parent.iterdir())


@pytest.mark.parametrize("kind", KINDS)
def test_b4_all_at_once(tmp_path: Path, kind: str) -> None:
    """Writers, readers and maintenance at once for a moment: nothing is lost, nothing torn."""
    soak(tmp_path / "a.memdb", kind, 0.5)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", KINDS)
def test_b4_all_at_once_for_long(tmp_path: Path, kind: str) -> None:
    """The same for a third of a minute, and for ten minutes in all with TEST_EFFORT=10."""
    soak(tmp_path / "a.memdb", kind, times(20))
