"""What the child processes of the crash tests run, and the records that they write."""

from __future__ import annotations

import contextlib
import errno
import random
import resource
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

import memdb

State = dict[str, dict[int, Any]]
COLLECTIONS = ("Account", "notes")


@dataclass
class Account:
    """A typed record with a nested mutable value."""

    owner: str
    cents: int
    tags: list[str] = field(default_factory=list)
    id: int = 0


def collections(db: memdb.Database) -> dict[str, memdb.Collection[Any]]:
    """Return the collections that the children use."""
    return {"Account": db.collection(Account), "notes": db.collection("notes")}


def state_of(db: memdb.Database) -> State:
    """Return all that a database holds, in a form that compares by value and type."""
    return {
        name: {identity: repr(record) for identity, record in collection.items()}
        for name, collection in collections(db).items()
    }


def next_ids_of(db: memdb.Database) -> dict[str, int]:
    """Return the identity that the next record of each collection gets."""
    return {
        name: 1 + collection.stats().last_identity for name, collection in collections(db).items()
    }


@dataclass(frozen=True)
class Step:
    """One acknowledged call: a list of changes that are one commit, or a flush."""

    kind: str
    changes: tuple[tuple[str, str, int, Any], ...] = ()


def steps(seed: int, live: dict[str, list[int]], next_ids: dict[str, int]) -> Iterator[Step]:
    """Yield steps for ever, the same ones for the same arguments.

    Args:
        seed: Decides.
        live: Collection -> identities that are there; is changed.
        next_ids: Collection -> the identity that the next insert gets; is changed.
    """
    chance = random.Random(seed)
    while True:
        kind = chance.choices(
            ("single", "transaction", "many", "flush", "checkpoint"), (12, 5, 2, 2, 1)
        )[0]
        if kind in ("flush", "checkpoint"):
            yield Step(kind)
            continue
        changes: list[tuple[str, str, int, Any]] = []
        touched = set()
        for _ in range(1 if kind == "single" else chance.randint(2, 6)):
            name = "Account" if kind == "many" else chance.choice(COLLECTIONS)
            free = [each for each in live[name] if (name, each) not in touched]
            what = chance.choice(("insert", "update", "delete")) if free else "insert"
            if kind == "many":
                what = "insert"
            if what == "insert":
                identity = next_ids[name]
                next_ids[name] += 1
                live[name].append(identity)
            else:
                identity = chance.choice(free)
                if what == "delete":
                    live[name].remove(identity)
            touched.add((name, identity))
            value = chance.randint(0, 10**9), "x" * chance.choice((0, 3, 40, 400))
            changes.append((what, name, identity, value))
        yield Step(kind, tuple(changes))


def record_of(name: str, value: tuple[int, str]) -> Any:
    """Return the record of a value; its identity is left open."""
    number, text = value
    if name == "Account":
        return Account(text, number, [text, str(number)])
    return {"number": number, "text": text, "list": [number, None]}


def with_identity(name: str, identity: int, record: Any) -> Any:
    """Return the record as it is stored."""
    if name == "Account":
        record.id = identity
        return record
    return record | {"id": identity}


def apply_to_state(state: State, step: Step) -> State:
    """Return the state after a step."""
    after = {name: dict(records) for name, records in state.items()}
    for what, name, identity, value in step.changes:
        if what == "delete":
            del after[name][identity]
        else:
            after[name][identity] = repr(with_identity(name, identity, record_of(name, value)))
    return after


def apply_to_database(db: memdb.Database, step: Step) -> None:
    """Run a step."""
    own = collections(db)
    if step.kind == "flush":
        db.flush()
    elif step.kind == "checkpoint":
        db.checkpoint()
    elif step.kind == "many":
        own["Account"].insert_many([record_of("Account", value) for *_, value in step.changes])
    elif step.kind == "single":
        _change(own, *step.changes[0])
    else:
        with db.transaction():
            for change in step.changes:
                _change(own, *change)


def _change(
    own: dict[str, memdb.Collection[Any]], what: str, name: str, identity: int, value: Any
) -> None:
    if what == "delete":
        own[name].delete(identity)
    elif what == "insert":
        assert own[name].insert(record_of(name, value)) == identity
    else:
        own[name].update(identity, with_identity(name, identity, record_of(name, value)))


# -- what runs in children -------------------------------------------------------------------


def write_steps(
    connection: Connection,
    path: str,
    settings: dict[str, Any],
    seed: int,
    live: dict[str, list[int]],
    next_ids: dict[str, int],
    compact_each: int = 0,
) -> None:
    """Run steps until killed and send the number of each once it is done.

    Each so many steps, if it is told, the file is compacted.
    """
    db = memdb.open(path, **settings)
    for number, step in enumerate(steps(seed, live, next_ids)):
        apply_to_database(db, step)
        connection.send(number)
        if compact_each and number % compact_each == 0:
            db.compact()


def hold(connection: Connection, path: str, settings: dict[str, Any]) -> None:
    """Open a database, write one record, say so, and keep it until told to end."""
    with memdb.open(path, **settings) as db:
        collections(db)["notes"].insert({"a": 1})
        connection.send("open")
        connection.recv()


def use_up_identities(connection: Connection, path: str, durability: str, seed: int) -> None:
    """Insert, and delete the highest, in every way; send the identities of what is safe."""
    chance = random.Random(seed)
    db = memdb.open(path, durability=durability, checkpoint_interval=chance.choice((3, 1000)))  # type: ignore[arg-type]
    own = collections(db)
    while True:
        name = chance.choice(COLLECTIONS)
        collection, record = own[name], record_of(name, (1, "a"))
        given = []
        way = chance.choice(("one", "many", "delete", "clear", "kept", "undone", "checkpoint"))
        if way == "one":
            given.append(collection.insert(record))
        elif way == "many":
            given += collection.insert_many([record_of(name, (2, "b")) for _ in range(3)])
        elif way == "delete" and len(collection):
            collection.delete(collection.ids()[-1])
        elif way == "clear":
            collection.clear()
        elif way == "checkpoint":
            db.checkpoint()
        elif way in ("kept", "undone"):
            with contextlib.suppress(ZeroDivisionError), db.transaction():
                given.append(collection.insert(record))
                collection.clear()
                given = [collection.insert(record)]
                with contextlib.suppress(ZeroDivisionError), db.transaction():
                    collection.clear()
                    raise ZeroDivisionError
                if way == "undone":
                    given = []
                    raise ZeroDivisionError
        if given and chance.random() < 0.7:
            collection.delete(given[-1])
        if durability == "buffered":
            # Only then is it safe.
            db.flush()
        connection.send((name, given))


def transfer(connection: Connection, path: str) -> None:
    """Move money between two records of two collections for ever; commit and checkpoint."""
    with memdb.open(path, checkpoint_interval=200, flush_interval=0.002) as db:
        own = collections(db)
        if not len(own["Account"]):
            with db.transaction():
                own["Account"].insert(Account("a", 1000))
                own["notes"].insert({"cents": 0})
        connection.send("open")
        chance = random.Random(1)
        while not connection.poll():
            cents = chance.randint(0, 1000)
            text = "x" * chance.choice((0, 5, 3000))
            with db.transaction():
                own["Account"].update(1, cents=cents)
                own["notes"].update(1, cents=1000 - cents, text=text)
            if chance.random() < 0.02:
                db.checkpoint()
            # Bursts: without pauses the file grows faster than a reader can open it.
            if chance.random() < 0.2:
                time.sleep(0.005)


def fill_until_limit(
    connection: Connection, path: str, durability: str, limit_bytes: int, rounds: int
) -> None:
    """Write under a file-size limit, raise the limit after each failure; report what happened."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    acknowledged: list[int] = []
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    db = memdb.open(path, durability=durability, flush_interval=0.01)
    own = collections(db)["Account"]
    failures = []
    for round_number in range(rounds):
        limit = limit_bytes * (round_number + 1)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
        while True:
            number = len(acknowledged)
            try:
                identity = own.insert(Account("x" * 3000, number))
            except memdb.WriteError as error:
                failures.append((type(error).__name__, error.errno, len(own), str(error)))
                break
            acknowledged.append(identity)
            # A failed insert takes no identity.
            assert identity == number + 1
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    acknowledged.append(own.insert(Account("room again", len(acknowledged))))
    findings = [str(finding) for finding in db.check()]
    connection.send((acknowledged, failures, findings))
    if connection.recv() == "close":
        db.close()
        connection.send("closed")
    else:
        signal.pause()


def open_at_limit(connection: Connection, path: str, limit_bytes: int) -> None:
    """Make a new database where there is no room for one; report the error."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, hard))
    try:
        memdb.open(path)
    except memdb.MemdbError as error:
        connection.send((type(error).__name__, getattr(error, "errno", None) == errno.EFBIG))


def leave(path: str, durability: str, how: str) -> None:
    """Write and end the program without closing, in one of the ways in which programs end."""
    db = memdb.open(path, durability=durability, flush_interval=86_400)  # type: ignore[arg-type]
    own = collections(db)["Account"]
    own.insert_many([Account("a", number) for number in range(100)])
    if how == "exception":
        raise SystemExit(3)
    while how == "interrupt":
        print(own.insert(Account("b", 0)), flush=True)
