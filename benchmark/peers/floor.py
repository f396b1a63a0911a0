"""The floor: a bare dict with a generated copy, and a bare loop of pwrite and fdatasync."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from pathlib import Path
from time import perf_counter_ns
from typing import Any

from benchmark.records import KEY, make_records, shuffled_identities
from benchmark.timing import time_each


def generated_copy(cls: type[Any]) -> Callable[[Any], Any]:
    """Return a field-wise copy, generated for ``cls`` without a loop; a Struct has its own."""
    if not is_dataclass(cls):
        copy: Callable[[Any], Any] = cls.__copy__
        return copy
    lines = [f"    new.{each.name} = record.{each.name}" for each in fields(cls)]
    source = "\n".join(["def copy(record):", "    new = make(cls)", *lines, "    return new"])
    names: dict[str, Any] = {"make": object.__new__, "cls": cls}
    exec(source, names)
    made: Callable[[Any], Any] = names["copy"]
    return made


class DictContender:
    """``copy(records[identity])`` inlined in the loop: a lookup and a copy, no frame between."""

    has_gc_rounds = True

    def __init__(
        self, name: str, cls: type[Any], count: int, operations: int | None = None
    ) -> None:
        self.name = name
        self._copy = generated_copy(cls)
        self._records = {
            getattr(record, KEY, number): self._copy(record)
            for number, record in enumerate(make_records(cls, count), 1)
        }
        self._ids = shuffled_identities(cls, count, operations or count)

    def round(self, workload: str) -> tuple[int, int]:
        """Get every record once, in random order."""
        copy, records = self._copy, self._records
        for identity in self._ids:  # As warm as the stores are.
            copy(records[identity])
        begin = perf_counter_ns()
        for identity in self._ids:
            copy(records[identity])
        return perf_counter_ns() - begin, len(self._ids)


class SyncLoopContender:
    """Append ``size_bytes``, make it durable, again and again."""

    has_gc_rounds = False

    def __init__(self, name: str, count: int, *, size_bytes: int = 136, reserved: bool) -> None:
        self.name = name
        self._count = count
        self._data = os.urandom(size_bytes)
        self._reserved = reserved

    def round(self, workload: str) -> tuple[int, int]:
        """Write and sync ``count`` times."""
        with tempfile.TemporaryDirectory(prefix="memdb-bench-") as directory:
            file = os.open(Path(directory) / "floor", os.O_RDWR | os.O_CREAT)
            try:
                if self._reserved:
                    os.posix_fallocate(file, 0, len(self._data) * self._count)
                os.fsync(file)
                return self._timed(file), self._count
            finally:
                os.close(file)

    def _timed(self, file: int) -> int:
        data, size_bytes = self._data, len(self._data)

        def append(number: int) -> None:
            os.pwrite(file, data, number * size_bytes)
            os.fdatasync(file)

        return time_each(append, range(self._count))
