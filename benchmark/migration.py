"""Rewriting the records of an older form of the class, a record an operation."""

from __future__ import annotations

import tempfile
from pathlib import Path

import memdb
from benchmark.codecs import SERIALIZERS
from benchmark.forms import PAST, make_of, past_class, present_class
from benchmark.records import repeat
from benchmark.timing import Contender, time_call


class MigrationContender:
    """``db.migrate()`` of a file that was just written with the older class and closed."""

    has_gc_rounds = False

    def __init__(self, serializer: str, count: int) -> None:
        self.name = serializer
        form = PAST[0]
        self._old, self._new = past_class("dataclass", form), present_class("dataclass")
        self._records = repeat(make_of(self._old, count), count)

    def round(self, workload: str) -> tuple[int, int]:
        """Write, close, reopen; migrate is what is timed."""
        with tempfile.TemporaryDirectory(prefix="memdb-bench-") as directory:
            path = Path(directory) / "items.memdb"
            with memdb.open(path) as db:
                db.collection(self._old, serializer=self.name).insert_many(self._records)
            with memdb.open(path) as db:
                items = db.collection(self._new, serializer=self.name)
                results: list[memdb.MigrationResult] = []
                elapsed = time_call(lambda: results.append(db.migrate()))
                assert results[0].collections[items.name].migrated == len(self._records)
            return elapsed, len(self._records)


def migration_contenders(count: int) -> list[Contender]:
    """Return one for each serializer."""
    return [MigrationContender(serializer, count) for serializer in SERIALIZERS]
