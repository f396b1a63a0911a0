"""What each number has, in a list while the numbers are dense."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final


class Nothing:
    """The type of `NOTHING`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "NOTHING"


NOTHING: Final = Nothing()
"""Stands for what a number has that has nothing."""

# The list may have so many places more than four times its numbers.
_SLACK: Final = 1024


class ByNumber:
    """A mapping from numbers to objects: 8 bytes a dense number, some 80 a scattered one.

    Attributes:
        count: How many numbers have something.
    """

    __slots__ = ("_dense", "_sparse", "count")

    def __init__(self, numbers: Sequence[int] = (), values: Sequence[Any] = ()) -> None:
        """Take rising numbers and the value of each."""
        self.count = len(numbers)
        self._dense: list[Any] = [NOTHING]
        self._sparse: dict[int, Any] = {}
        if not self.count or numbers[0] < 0 or numbers[-1] > 4 * self.count + _SLACK:
            self._sparse.update(zip(numbers, values, strict=True))
        elif numbers[-1] - numbers[0] + 1 == self.count:
            self._dense = [NOTHING] * numbers[0]
            self._dense += values
        else:
            self._dense = dense = [NOTHING] * (numbers[-1] + 1)
            for number, value in zip(numbers, values, strict=True):
                dense[number] = value

    def get(self, number: int) -> Any:
        """Return what a number has, or `NOTHING`."""
        if 0 <= number < len(self._dense):
            return self._dense[number]
        return self._sparse.get(number, NOTHING)

    def set(self, number: int, value: Any) -> None:
        """Give a number something; what it had must be looked at before."""
        dense = self._dense
        size = len(dense)
        if 0 <= number < size:
            self.count += dense[number] is NOTHING
            dense[number] = value
        elif number == size <= 4 * self.count + _SLACK and number not in self._sparse:
            dense.append(value)
            self.count += 1
        elif size < number <= 4 * self.count + _SLACK and not self._sparse:
            dense += [NOTHING] * (number - size)
            dense.append(value)
            self.count += 1
        else:
            self.count += number not in self._sparse
            self._sparse[number] = value

    def remove(self, number: int) -> Any:
        """Take away what a number has, and return it; `NOTHING` when it had nothing."""
        if 0 <= number < len(self._dense):
            value, self._dense[number] = self._dense[number], NOTHING
        else:
            value = self._sparse.pop(number, NOTHING)
        self.count -= value is not NOTHING
        return value

    def __len__(self) -> int:
        """Return how many numbers have something."""
        return self.count

    def items(self) -> Iterator[tuple[int, Any]]:
        """Iterate over numbers and what they have, the dense ones first."""
        for number, value in enumerate(self._dense):
            if value is not NOTHING:
                yield number, value
        yield from self._sparse.items()
