"""What the demo asks of its records: by indexes and queries, and by plain loops over lists."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from benchmark.demo.data import Airport, Flight
from memdb import ColumnIndex, F, HashIndex, P, SortedIndex, count_

AIRPORT_INDEXES = (HashIndex("iata", unique=True),)
BY_TIME = SortedIndex("scheduled")
FLIGHT_INDEXES = (
    HashIndex("origin", "destination"),
    BY_TIME,
    SortedIndex("carrier", "scheduled"),
    ColumnIndex("arrival_delay"),
)

_PAGE = 20
# The fourth of July, as New York counts it.
_BEGIN, _END = datetime(2013, 7, 4, 4, tzinfo=UTC), datetime(2013, 7, 5, 3, 59, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Question:
    """A question: how memdb is asked, how a loop finds the same, and what memdb says of it.

    The explanation is to name ``index`` as the source of the candidates.
    """

    text: str
    ask: Callable[[], Any]
    loop: Callable[[], Any]
    explain: Callable[[], Any]
    index: str


def questions(db: Any, airports: list[Airport], flights: list[Flight]) -> list[Question]:
    """Return the questions to ``db``, which has its indexes declared, and to the lists."""
    loops = _Loops(airports, flights)
    collection = db.collection(Flight)
    airport = db.collection(Airport).where(F.iata == P.code).prepare()
    route = collection.where(origin="JFK", destination="HNL")
    day, latest = departures(db), collection.where(carrier="UA").order_by("-scheduled")
    arriving = day.join(db.collection(Airport), on=(F.destination, F.iata), as_="to")
    late = collection.where(F.arrival_delay > 60)
    groups = collection.query().group_by("carrier")
    carriers = groups.select("carrier", count_(), F.arrival_delay.mean_())

    def page() -> tuple[list[Flight], int]:
        found = day.page(0, _PAGE)
        return list(found), found.total

    def after_first() -> Any:
        cursor = latest.page(0, _PAGE).cursor
        return latest.after(cursor).limit(_PAGE) if cursor else latest.limit(0)

    return [
        Question(
            "an airport by code, prepared",
            lambda: airport(code="ZRH"),
            loops.airport,
            lambda: airport.explain(code="ZRH"),
            "unique index 'iata'",
        ),
        Question(
            "all flights of one route",
            route.all,
            loops.route,
            route.explain,
            "hash index 'origin_destination'",
        ),
        Question(
            f"one day in order, first {_PAGE}",
            page,
            loops.page,
            day.explain,
            "sorted index 'scheduled'",
        ),
        Question(
            f"a carrier's latest, next {_PAGE}",
            latest.skip(_PAGE).limit(_PAGE).all,
            loops.second_page,
            latest.explain,
            "sorted index 'carrier_scheduled'",
        ),
        Question(
            "the same, by a cursor",
            lambda: after_first().all(),
            loops.second_page,
            lambda: after_first().explain(),
            "sorted index 'carrier_scheduled'",
        ),
        Question(
            "that day, each with where it goes to",
            lambda: list(map(tuple, arriving)),
            loops.arriving,
            lambda: arriving.explain().left,
            "sorted index 'scheduled'",
        ),
        Question(
            "mean of the delays over an hour",
            lambda: late.mean("arrival_delay"),
            loops.late,
            late.explain,
            "column index 'arrival_delay'",
        ),
        Question(
            "all flights grouped by carrier",
            carriers.all,
            loops.carriers,
            carriers.explain,
            "all records",
        ),
    ]


def departures(db: Any) -> Any:
    """Return the query for the departures of one day in their order."""
    return db.collection(Flight).where(F.scheduled.between(_BEGIN, _END)).order_by("scheduled")


class _Loops:
    """The same answers, each by a loop over all records in a list."""

    def __init__(self, airports: list[Airport], flights: list[Flight]) -> None:
        self._airports, self._flights = airports, flights

    def airport(self) -> list[Airport]:
        return [each for each in self._airports if each.iata == "ZRH"]

    def route(self) -> list[Flight]:
        return [
            each for each in self._flights if each.origin == "JFK" and each.destination == "HNL"
        ]

    def page(self) -> tuple[list[Flight], int]:
        found = [each for each in self._flights if _BEGIN <= each.scheduled <= _END]
        found.sort(key=lambda flight: flight.scheduled)
        return found[:_PAGE], len(found)

    def arriving(self) -> list[tuple[Flight, Airport | None]]:
        by_code = {each.iata: each for each in self._airports}
        found = [each for each in self._flights if _BEGIN <= each.scheduled <= _END]
        found.sort(key=lambda flight: flight.scheduled)
        return [(each, by_code.get(each.destination)) for each in found]

    def second_page(self) -> list[Flight]:
        found = [each for each in self._flights if each.carrier == "UA"]
        found.sort(key=lambda flight: flight.scheduled, reverse=True)
        return found[_PAGE : 2 * _PAGE]

    def late(self) -> float | None:
        delays = (each.arrival_delay for each in self._flights)
        return _mean([delay for delay in delays if delay is not None and delay > 60])

    def carriers(self) -> list[tuple[str, int, float | None]]:
        groups: dict[str, list[int | None]] = {}
        for each in self._flights:
            groups.setdefault(each.carrier, []).append(each.arrival_delay)
        return [
            (carrier, len(delays), _mean([delay for delay in delays if delay is not None]))
            for carrier, delays in sorted(groups.items())
        ]


def _mean(values: list[int]) -> float | None:
    return sum(values) / len(values) if values else None
