"""Interleaved rounds, with the collector as it is or held off."""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import Any, Protocol


@dataclass
class Series:
    """What one contender took or used, one figure a round.

    Attributes:
        contender: Its name in the tables.
        unit: ``"ns"`` an operation, or ``"bytes"`` a record.
        operations: How many operations one figure is the mean of.
        values: A figure a round.
        values_gc_off: The same with the cyclic collector held off; empty where not measured.
        result_size: Of a query: how many rows it gives, or the count.
    """

    contender: str
    unit: str = "ns"
    operations: int = 1
    values: list[float] = field(default_factory=list)
    values_gc_off: list[float] = field(default_factory=list)
    result_size: int | None = None

    @property
    def median(self) -> float:
        """Return the median of the rounds."""
        return statistics.median(self.values)

    def to_dict(self) -> dict[str, Any]:
        """Return what goes into the results file."""
        return {
            "contender": self.contender,
            "unit": self.unit,
            "operations": self.operations,
            "values": [round(each, 1) for each in self.values],
            "values_gc_off": [round(each, 1) for each in self.values_gc_off],
            "result_size": self.result_size,
        }


class Contender(Protocol):
    """One way of doing a workload's operation."""

    name: str
    has_gc_rounds: bool

    def round(self, workload: str) -> tuple[int, int]:
        """Set up, do the timed part once, tear down; return (nanoseconds, operations)."""


def run_rounds(
    workload: str, contenders: Sequence[Contender], rounds: int, warm_up: bool = True
) -> list[Series]:
    """Give each contender a turn in every round, so that a slow minute hits all alike."""
    found = {each.name: Series(each.name) for each in contenders}
    for number in range(-1 if warm_up else 0, rounds):
        for each in contenders:
            gc.collect()
            elapsed, operations = each.round(workload)
            if number >= 0:
                found[each.name].operations = operations
                found[each.name].values.append(elapsed / operations)
            if number >= 0 and each.has_gc_rounds:
                with collector_off():
                    elapsed, operations = each.round(workload)
                found[each.name].values_gc_off.append(elapsed / operations)
    return list(found.values())


@contextmanager
def collector_off() -> Iterator[None]:
    """Hold the cyclic collector off, and bring it back as it was."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def time_each(function: Callable[[Any], object], values: Iterable[Any]) -> int:
    """Return the nanoseconds of calling ``function`` with each value, the loop included."""
    begin = perf_counter_ns()
    for value in values:
        function(value)
    return perf_counter_ns() - begin


def time_pairs(function: Callable[[Any, Any], object], pairs: Iterable[tuple[Any, Any]]) -> int:
    """Return the nanoseconds of calling ``function`` with each pair, the loop included."""
    begin = perf_counter_ns()
    for one, other in pairs:
        function(one, other)
    return perf_counter_ns() - begin


def time_call(function: Callable[[], object]) -> int:
    """Return the nanoseconds of one call."""
    begin = perf_counter_ns()
    function()
    return perf_counter_ns() - begin
