"""Origins: what a compacted file was made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Origin:
    """What a compacted file was made from, as its catalogue says.

    Attributes:
        file_id: Of the file before.
        slot: Versions before this one are the state at `time`; they are whole together only.
        time: Of the last commit that is in them, nanoseconds since 1970-01-01 UTC.
        archive: Path of the file before, relative to the folder of the compacted one; None where
            it was not kept.
    """

    file_id: int
    slot: int
    time: int
    archive: str | None

    def to_catalogue(self) -> dict[str, Any]:
        """Return the entry of the catalogue."""
        entry = {"file": f"{self.file_id:016x}", "slot": self.slot, "time": self.time}
        return entry if self.archive is None else entry | {"archive": self.archive}


def origin_of(catalogue: Mapping[str, Any]) -> Origin | None:
    """Return the origin that a catalogue names, whose structure is known to be right."""
    entry = catalogue.get("origin")
    if entry is None:
        return None
    return Origin(int(entry["file"], 16), entry["slot"], entry["time"], entry.get("archive"))
