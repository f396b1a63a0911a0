"""Load real data into one file, index and query it, kill a writer, show what came back."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import memdb
from benchmark.demo.asking import ask, ask_again, ask_until, build_indexes, explain
from benchmark.demo.crash import FIRST, cold_start_seconds, kill_a_writer
from benchmark.demo.data import FLIGHTS, Airport, Flight, read_airports, read_flights
from benchmark.demo.questions import BY_TIME
from benchmark.demo.screen import Screen
from memdb import F

_CHUNK = 4_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; return 0 when every check held."""
    parser = argparse.ArgumentParser(prog="python -m benchmark.demo", description=__doc__)
    parser.add_argument("--keep", metavar="PATH", type=Path, help="write there, and leave the file")
    parser.add_argument("--limit", type=int, default=FLIGHTS, help="at most so many of each kind")
    options = parser.parse_args(arguments)
    if options.keep and options.keep.exists():
        parser.error(f"{options.keep} exists already; the demo overwrites nothing")
    screen = Screen()
    with tempfile.TemporaryDirectory(prefix="memdb-demo-") as directory:
        path = options.keep or Path(directory) / "demo.memdb"
        _run(screen, path, options.limit)
        screen.summary()
    print("every check held" if screen.all_held else "A CHECK FAILED")
    return 0 if screen.all_held else 1


def _run(screen: Screen, path: Path, limit: int) -> None:
    screen.step("Reading the source data")
    airports = list(islice(read_airports(), limit))
    screen.say(f"airports: {len(airports):,}")
    total = min(FLIGHTS, limit)
    flights = list(screen.follow("flights", islice(read_flights(), limit), total))
    with memdb.open(path) as db:
        _load(screen, db, airports, flights)
        _use(screen, db)
        build_indexes(screen, db)
        answers = ask(screen, db)
        explain(screen, db)
    expected = ask_again(screen, path, answers)
    total = len(expected[0]) + len(expected[1])
    screen.add("records", f"{total:,}")
    screen.add("file size", f"{path.stat().st_size / 1e6:.1f} MB")
    starts = [cold_start_seconds(path) for _ in range(3)]
    screen.add("cold start, open to first record", f"{median(starts) * 1000:.1f} ms")
    _crash(screen, path, flights, expected)


def _load(screen: Screen, db: Any, airports: list[Airport], flights: list[Flight]) -> None:
    screen.step("Writing")
    begin = perf_counter()
    collection = db.collection(Airport)
    for airport in screen.follow("airports, one by one", airports, len(airports)):
        collection.insert(airport)
    _add_rate(screen, "insert airports, one by one", len(airports), perf_counter() - begin)
    begin = perf_counter()
    collection = db.collection(Flight)
    with screen.progress(f"flights, {_CHUNK:,} at a time", len(flights)) as show:
        for first in range(0, len(flights), _CHUNK):
            collection.insert_many(flights[first : first + _CHUNK])
            show(first)
    _add_rate(screen, f"insert flights, {_CHUNK:,} at a time", len(flights), perf_counter() - begin)
    for name, found, given in (
        ("airports", db.collection(Airport), airports),
        ("flights", db.collection(Flight), flights),
    ):
        same = len(found) == len(given) and all(map(_same, found, given))
        screen.check(f"{len(given):,} {name} read back equal what was given", same)


def _use(screen: Screen, db: Any) -> None:
    airports, flights = db.collection(Airport), db.collection(Flight)
    screen.step("Reading, updating, deleting")
    for code in ("ZRH", "EGS"):
        found = airports.find(F.iata == code)
        if found is not None:
            screen.say(f"{code}: {found.name}, {found.city} ({found.zone})")
    screen.say(f"airports without an IATA code: {airports.count(F.iata.is_(None)):,}")
    ids = list(flights.ids())
    begin = perf_counter()
    for identity in ids:
        flights[identity]
    _add_rate(screen, "get, by identity", len(ids), perf_counter() - begin)
    cancelled = [each.id for each in flights.find_all(F.departure.is_(None))]
    begin = perf_counter()
    for identity in cancelled:
        flights.update(identity, is_cancelled=True)
    _add_rate(screen, "update", len(cancelled), perf_counter() - begin)
    marked = flights.count(is_cancelled=True)
    screen.check(f"{marked:,} flights without a departure are marked", marked == len(cancelled))
    doomed = [each.id for each in flights.find_all(carrier="EV")]
    before = len(flights)
    begin = perf_counter()
    with db.transaction():
        for identity in doomed:
            flights.delete(identity)
    _add_rate(screen, "delete, in one transaction", len(doomed), perf_counter() - begin)
    gone = len(flights) == before - len(doomed) and not flights.exists(carrier="EV")
    screen.check(f"{len(doomed):,} flights of one carrier are deleted", gone)


def _crash(
    screen: Screen, path: Path, flights: list[Flight], expected: tuple[list[Airport], list[Flight]]
) -> None:
    screen.step("Killing a writer with kill -9")
    limit = min(5_000, len(flights))
    acknowledged = kill_a_writer(path, after=min(2_000, max(limit // 2, 1)), limit=limit)
    screen.say(f"the child had {len(acknowledged):,} inserts acknowledged when it was killed")
    begin = perf_counter()
    with memdb.open(path) as db:
        collection = db.collection(Flight, indexes=[BY_TIME])
        if acknowledged:
            collection.get(acknowledged[-1])
        seconds = perf_counter() - begin
        screen.add("open after kill -9, to first record", f"{seconds * 1000:.1f} ms")
        if db.recovery is not None:
            screen.say(f"opening mended: {db.recovery}")
        kept = [
            identity
            for identity in acknowledged
            if identity in collection and _same(collection[identity], flights[identity - FIRST])
        ]
        text = f"{len(kept):,} of {len(acknowledged):,} acknowledged inserts are there"
        screen.check(text, len(kept) == len(acknowledged) > 0)
        now = list(collection)
        old = [flight for flight in now if flight.id < FIRST]
        untouched = (list(db.collection(Airport)), old) == expected
        total = len(expected[0]) + len(expected[1])
        screen.check(f"the {total:,} records from before are unchanged", untouched)
        if acknowledged:
            ask_until(screen, collection, now, flights[len(acknowledged) - 1].scheduled)
        findings = db.check()
        screen.check(f"check() has {len(findings)} findings", not findings)
        screen.add("acknowledged inserts kept", f"{len(kept):,} of {len(acknowledged):,}")


def _same(found: Any, given: Any) -> bool:
    """Tell whether two records are equal but for the identity, which the database gave one."""
    names = [name for name in given.__slots__ if name != "id"]
    return all(
        getattr(found, name) == getattr(given, name)
        and type(getattr(found, name)) is type(getattr(given, name))
        for name in names
    )


def _add_rate(screen: Screen, name: str, count: int, seconds: float) -> None:
    rate = f"{count / seconds:,.0f} a second" if count else "none"
    screen.add(name, f"{count:,} in {seconds:.2f} s, {rate}")


if __name__ == "__main__":
    sys.exit(main())
