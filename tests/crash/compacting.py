"""What the children of the tests of compaction run."""

from __future__ import annotations

import threading
from multiprocessing.connection import Connection
from typing import Any

import memdb
from tests.crash.children import apply_to_database, steps


def write_and_compact(
    connection: Connection,
    path: str,
    settings: dict[str, Any],
    seed: int,
    live: dict[str, list[int]],
    next_ids: dict[str, int],
) -> None:
    """Run steps until killed and send the number of each, while a thread compacts over and over."""
    db = memdb.open(path, **settings)

    def compact() -> None:
        while True:
            db.compact()

    threading.Thread(target=compact, daemon=True).start()
    for number, step in enumerate(steps(seed, live, next_ids)):
        apply_to_database(db, step)
        connection.send(number)
