"""Small tables: rooms, their desks and who sits there; and one whose half has a counterpart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

_DESKS_A_ROOM = 16


@dataclass(frozen=True, slots=True)
class Room:
    """A room with sixteen desks."""

    id: int
    name: str


@dataclass(frozen=True, slots=True)
class Desk:
    """A desk in a room."""

    id: int
    room_id: int


@dataclass(frozen=True, slots=True)
class Occupier:
    """Who sits at a desk; at every second one nobody does."""

    id: int
    desk_id: int
    name: str


@dataclass(frozen=True, slots=True)
class Part:
    """A record of which every second has a counterpart."""

    id: int
    size: int


@dataclass(frozen=True, slots=True)
class Counterpart:
    """The one counterpart of a part."""

    id: int
    part_id: int


CLASSES: dict[str, type[Any]] = {
    "rooms": Room,
    "desks": Desk,
    "occupiers": Occupier,
    "parts": Part,
    "counterparts": Counterpart,
}


def make_tables(count: int) -> dict[str, list[Any]]:
    """Return the rows of every table; ``count`` parts, and a fiftieth as many rooms."""
    rooms = [Room(number + 1, f"room {number}") for number in range(count // 50)]
    desks = [
        Desk(number + 1, number // _DESKS_A_ROOM + 1)
        for number in range(len(rooms) * _DESKS_A_ROOM)
    ]
    even = [desk.id for desk in desks if desk.id % 2 == 0]
    return {
        "rooms": rooms,
        "desks": desks,
        "occupiers": [
            Occupier(number, desk_id, f"occupier of {desk_id}")
            for number, desk_id in enumerate(even, 1)
        ],
        "parts": [Part(number, number % 13) for number in range(1, count + 1)],
        "counterparts": [
            Counterpart(number, part_id) for number, part_id in enumerate(range(2, count + 1, 2), 1)
        ],
    }
