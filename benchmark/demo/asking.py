"""Build the indexes, ask the questions, and ask them again of the file opened anew."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from operator import eq
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import memdb
from benchmark.demo.data import Airport, Flight
from benchmark.demo.questions import AIRPORT_INDEXES, FLIGHT_INDEXES, departures, questions
from benchmark.demo.screen import Screen
from memdb import F

# A question is repeated so often, or until it has taken so many seconds.
_ROUNDS, _ENOUGH = 5, 0.1
# Closing a file saves an index of so many records and more.
_SAVED = 10_000


def build_indexes(screen: Screen, db: Any) -> None:
    """Build each index, and have the unique one refuse a second record with its key."""
    screen.step("Building indexes")
    spent = 0.0
    for kind, indexes in ((Airport, AIRPORT_INDEXES), (Flight, FLIGHT_INDEXES)):
        collection = db.collection(kind)
        for index in indexes:
            begin = perf_counter()
            collection.indexes.add(index)
            seconds = perf_counter() - begin
            screen.say(f"{index}: {len(collection):,} in {seconds:.2f} s")
            spent += seconds
    count = len(AIRPORT_INDEXES) + len(FLIGHT_INDEXES)
    screen.add("build indexes", f"{count} in {spent:.2f} s")
    _insert_again(screen, db.collection(Airport))


def _insert_again(screen: Screen, airports: Any) -> None:
    known = airports.find(~F.iata.is_none())
    if known is None:
        return
    before = len(airports)
    try:
        airports.insert(replace(known, icao="again", id=0))
        is_refused = False
    except memdb.DuplicateKeyError as error:
        is_refused = error.other == known.id and len(airports) == before
    screen.check(f"a second airport with the code {known.iata} is refused", is_refused)


def ask(screen: Screen, db: Any) -> list[Any]:
    """Ask each question of ``db`` and of lists of the same records; return the answers."""
    screen.step("Asking, beside a plain loop over the same records in a list")
    answers = []
    for question in questions(db, list(db.collection(Airport)), list(db.collection(Flight))):
        expected, of_loop = _timed(question.loop)
        answer, seconds = _timed(question.ask)
        source = question.explain().chosen.source
        holds = answer == expected and source == question.index
        screen.check(f"{question.text}: as by the loop, from {source}", holds)
        screen.add(question.text, f"{_shown(seconds)}, loop {_shown(of_loop)}")
        answers.append(answer)
    return answers


def explain(screen: Screen, db: Any) -> None:
    """Print how a query would be answered."""
    screen.step("What explain() says of a query")
    query = db.collection(Flight).where(F.carrier == "UA", F.miles > 2_500)
    for line in str(query.order_by("-scheduled").explain()).splitlines():
        screen.say(line)


def ask_again(screen: Screen, path: Path, answers: list[Any]) -> tuple[list[Airport], list[Flight]]:
    """Ask the same of the file opened anew; return all its records."""
    screen.step("Opening the file again, and asking the same")
    begin = perf_counter()
    with memdb.open(path, mode="r") as db:
        airports = db.collection(Airport, indexes=AIRPORT_INDEXES)
        flights = db.collection(Flight, indexes=FLIGHT_INDEXES)
        departures(db).first()
        seconds = perf_counter() - begin
        how = "saved index" if len(flights) >= _SAVED else "index built"
        screen.add(f"open to first answer, {how}", f"{seconds * 1000:.1f} ms")
        records = list(airports), list(flights)
        again = [question.ask() for question in questions(db, *records)]
        same = sum(map(eq, again, answers))
        text = f"{same} of {len(answers)} answers are the same"
        screen.check(text, same == len(answers))
    return records


def ask_until(screen: Screen, collection: Any, flights: list[Flight], last: datetime) -> None:
    """Compare what a saved index finds, up to a time, with a loop over the same flights."""
    query = collection.where(F.scheduled <= last)
    found = query.ids()
    same = found == [flight.id for flight in flights if flight.scheduled <= last]
    source = query.explain().chosen.source
    text = f"{len(found):,} flights until {last:%d %b %H:%M} UTC: as by a loop, from {source}"
    screen.check(text, same and source == "sorted index 'scheduled'")


def _timed(function: Callable[[], Any]) -> tuple[Any, float]:
    """Return what the function gives, and the median of its seconds."""
    seconds: list[float] = []
    while len(seconds) < _ROUNDS and sum(seconds) < _ENOUGH:
        begin = perf_counter()
        result = function()
        seconds.append(perf_counter() - begin)
    return result, median(seconds)


def _shown(seconds: float) -> str:
    thousandths = seconds * 1000
    return f"{thousandths:,.3f} ms" if thousandths < 1 else f"{thousandths:,.1f} ms"
