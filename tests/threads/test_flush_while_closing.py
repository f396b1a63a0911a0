"""The flusher wakes up in the very moment in which the database is closed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import memdb


@pytest.mark.parametrize("durability", ["buffered", "written", "synced"])
def test_flush_that_begins_while_closing(
    tmp_path: Path, durability: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It leaves everything to close(), and is no failure in the background."""
    path = tmp_path / "a.memdb"
    db = memdb.open(path, durability=durability, flush_interval=60.0)
    db.collection("notes").insert({"text": "kept"})
    flusher = db._engine.log._flusher
    stop = type(flusher).stop

    def flush_then_stop(self: Any) -> None:
        # The gate is shut already, and the flusher has not been told to stop.
        self.run_once()
        stop(self)

    monkeypatch.setattr(type(flusher), "stop", flush_then_stop)
    db.close()

    with memdb.open(path) as again:
        assert again.recovery is None
        assert [note["text"] for note in again.collection("notes")] == ["kept"]
