"""From keys to the one number that has each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Self

from memdb.indexes._by_number import NOTHING, ByNumber
from memdb.indexes._hash import is_unequal
from memdb.indexes._odd import SURE, OddKeys, is_sure

NO_KEY = NOTHING
"""Says that a number has no key: its record is not in the index."""


class Duplicate(ValueError):
    """Two numbers have equal keys.

    Attributes:
        key: The key of both.
        first: The lower number.
        second: The higher one.
    """

    def __init__(self, key: Any, first: int, second: int) -> None:
        # Without the key: it is the user's content.
        super().__init__(f"The numbers {first} and {second} have the same key.")
        self.key = key
        self.first = first
        self.second = second


class UniqueEntries:
    """Keys and numbers, one number a key.

    A key that nothing equals, as NaN, is kept for its number and can't be found; so any number of
    them may have it.

    Threads: changes need the writer's lock; reading needs none.

    Attributes:
        numbers: Key -> number.
        odd: The numbers whose keys do not go by their hash.
        rows: Key -> whatever the owner of the records keeps here; each change of a number's entry
            drops that of its key.
    """

    __slots__ = ("_keys", "numbers", "odd", "rows")

    def __init__(self) -> None:
        self.numbers: dict[Any, int] = {}
        self.rows: dict[Any, Any] = {}
        self.odd = OddKeys(is_sure)
        self._keys = ByNumber()

    @classmethod
    def build(cls, keys: Sequence[Any], numbers: Sequence[int]) -> Self:
        """Make it of one key, or `NO_KEY`, for each number; the numbers rise.

        Raises:
            Duplicate: Two numbers have equal keys: the first pair of them.
            TypeError: A key has no hash.
        """
        self = cls()
        found = dict(zip(keys, numbers, strict=True))
        has_all = NO_KEY not in found
        unequal = [key for key in found if is_unequal(key)]
        if len(found) < len(keys) or not has_all or unequal:
            found = {}
            for key, number in zip(keys, numbers, strict=True):
                if key is NO_KEY or found.setdefault(key, number) == number:
                    continue
                if not is_unequal(key):
                    raise Duplicate(key, found[key], number)
            for key in unequal:
                del found[key]
        self.numbers = found
        self._keys = ByNumber(numbers, keys)
        self.odd.note_all(keys, numbers)
        if not has_all:
            self._keys.count -= sum([key is NO_KEY for key in keys])
        return self

    def find(self, key: Any) -> int:
        """Return the number with a key, 0 when there is none.

        Raises:
            TypeError: The key has no hash.
        """
        return self.numbers.get(key, 0)

    def set(self, number: int, key: Any) -> None:
        """Give a number a key, or `NO_KEY`, instead of the one that it had.

        A key that another number has goes over to this one, which lets two numbers swap theirs;
        whoever wants to refuse that looks before.

        Raises:
            TypeError: The key has no hash; nothing is changed.

        Cost: O(1), 0.3 us.
        """
        numbers = self.numbers
        numbers.get(key)
        old = self._keys.get(number)
        if old is not NOTHING and numbers.get(old) == number:
            del numbers[old]
            self.rows.pop(old, None)
        if type(key) not in SURE or self.odd.are_any:
            self.odd.note(number, (key,))
        if key is NO_KEY:
            self._keys.remove(number)
            return
        if not is_unequal(key):
            numbers[key] = number
            # It may have been another number's.
            if self.rows:
                self.rows.pop(key, None)
        self._keys.set(number, key)

    def remove(self, number: int) -> None:
        """Forget a number, if it is there."""
        old = self._keys.remove(number)
        if old is not NOTHING and self.numbers.get(old) == number:
            del self.numbers[old]
            self.rows.pop(old, None)
        if self.odd.are_any:
            self.odd.discard(number)

    def clear(self) -> None:
        """Forget everything."""
        self.numbers.clear()
        self.rows.clear()
        self.odd.clear()
        self._keys = ByNumber()

    def key_of(self, number: int) -> Any:
        """Return the key of a number, or `NO_KEY`."""
        return self._keys.get(number)

    def __len__(self) -> int:
        """Return how many numbers have a key."""
        return self._keys.count

    def items(self) -> Iterator[tuple[Any, int]]:
        """Iterate over the keys that can be found and their numbers."""
        return iter(self.numbers.items())
