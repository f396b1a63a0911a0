"""A writer whose every commit is a round: all records of two collections get its number."""

from __future__ import annotations

import random
from dataclasses import dataclass
from multiprocessing.connection import Connection

import memdb

SIZE = 30


@dataclass
class Counter:
    """A record that has the number of the last round."""

    round: int
    place: int
    text: str = ""
    id: int = 0


def begin(db: memdb.Database) -> None:
    """Write round 0 if nothing is there."""
    if not len(db.collection(Counter)):
        with db.transaction():
            db.collection(Counter).insert_many([Counter(0, n) for n in range(SIZE)])
            db.collection("places", key="place").insert_many(
                [{"place": f"{n}", "round": 0} for n in range(SIZE)]
            )


def next_round(db: memdb.Database, chance: random.Random) -> int:
    """Commit one round; return its number."""
    counters, places = db.collection(Counter), db.collection("places", key="place")
    number = 1 + max(counter.round for counter in counters)
    text = "x" * chance.choice((0, 3, 50, 3000))
    with db.transaction():
        for identity in counters.ids():
            counters.update(identity, round=number, text=text)
        for key in places.ids():
            places.update(key, round=number)
        # The first one goes, and another one comes.
        first = counters.ids()[0]
        counters.delete(first)
        counters.insert(Counter(number, first + SIZE - 1))
    return number


def write_rounds(connection: Connection, path: str, seed: int, durability: str) -> None:
    """Commit rounds until killed, and tell of each; checkpoint, compact, close and reopen."""
    chance = random.Random(seed)
    while True:
        interval = chance.choice((5, 100, 65_536))
        with memdb.open(
            path,
            durability=durability,  # type: ignore[arg-type]
            flush_interval=0.01,
            checkpoint_interval=interval,
        ) as db:
            begin(db)
            while chance.random() < 0.97:
                number = next_round(db, chance)
                if durability == "buffered" and chance.random() < 0.5:
                    db.flush()
                    connection.send(number)
                elif durability != "buffered":
                    connection.send(number)
                what = chance.random()
                if what < 0.05:
                    db.checkpoint()
                elif what < 0.08:
                    db.compact()
