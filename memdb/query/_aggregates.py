"""What is calculated over the records of a group: counts, sums and their kin."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from memdb.query._conditions import Node, deeper
from memdb.query._values import Value


class Aggregate(Value):
    """Calculate over a group: "count", or "sum", "min", "max", "mean" of a value.

    For `select` and `having` after `group_by`; a single record has no aggregates.
    """

    __slots__ = ("kind", "value")

    def __init__(self, kind: str, value: Value | None) -> None:
        self.kind = kind
        self.value = value
        self._held = None

    def _inner(self) -> Iterable[Node]:
        """Return the value that is aggregated."""
        return () if self.value is None else (self.value,)

    def _take(self, constants: list[Any], depth: int) -> Any:
        """Return the structure, and append the constants in the order of the source."""
        if self.value is None:
            return (self.kind,)
        return self.kind, self.value._held or self.value._take(constants, deeper(depth))

    def __repr__(self) -> str:
        return "count_()" if self.value is None else f"{self.value._enclosed()}.{self.kind}_()"


def count_() -> Aggregate:
    """Return the number of records of a group.

    Example:
        >>> count_() > 1
        count_() > 1
    """
    return Aggregate("count", None)


class Group:
    """Stand for a group where a condition or value is evaluated, in the place of a record.

    Attributes:
        values: What is known of the group: the terms it was made by, and aggregates, by
            `term_key`. Everything else is calculated from these; a field that is not among them is
            absent.
    """

    __slots__ = ("values",)

    def __init__(self, values: Mapping[Hashable, Any]) -> None:
        self.values = values


def term_key(value: Value) -> Hashable:
    """Return what two values have in common exactly if they are the same calculation."""
    constants: list[Any] = []
    taken = value._held or value._take(constants, 0)
    # Through repr, since constants may have no hash, and 1 is not the same as True or 1.0 here.
    return taken, tuple([(type(constant), repr(constant)) for constant in constants])
