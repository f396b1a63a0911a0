"""From keys to the numbers that have them, by hash: for equality, and for elements of sets."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Self

import numpy as np

from memdb.indexes._by_number import NOTHING, ByNumber
from memdb.indexes._odd import SURE, OddKeys, is_sure


class Bucket:
    """The numbers with one key.

    Attributes:
        key: As it was given first.
        numbers: Rising.
        rows: Whatever the owner of the records keeps here; each change of a number's entry sets
            it to None.
    """

    __slots__ = ("key", "numbers", "rows")

    def __init__(self, key: Any, numbers: array[int]) -> None:
        self.key = key
        self.numbers = numbers
        self.rows: list[Any] | None = None

    def add(self, number: int) -> None:
        """Take in a number that is not there."""
        numbers = self.numbers
        place = len(numbers) if number > numbers[-1] else bisect_left(numbers, number)
        try:
            numbers.insert(place, number)
        except BufferError:
            # Somebody looks at it through NumPy: they keep what they have.
            numbers = numbers[:]
            numbers.insert(place, number)
            self.numbers = numbers
        self.rows = None

    def append(self, number: int) -> None:
        """Take in a number that is higher than all others."""
        try:
            self.numbers.append(number)
        except BufferError:
            self.numbers = self.numbers[:]
            self.numbers.append(number)
        self.rows = None

    def discard(self, number: int) -> None:
        """Take out a number, if it is there."""
        numbers = self.numbers
        place = bisect_left(numbers, number)
        if place < len(numbers) and numbers[place] == number:
            try:
                del numbers[place]
            except BufferError:
                self.numbers = numbers[:place] + numbers[place + 1 :]
        self.rows = None


class _Several(tuple[Any, ...]):
    """The keys of a number that has not exactly one, so that a key may be a tuple."""

    __slots__ = ()


def is_unequal(key: Any) -> bool:
    """Whether nothing equals a key, not even itself: a NaN, or a compound key with one."""
    return bool(key != key) or (type(key) is tuple and any([part != part for part in key]))


class HashEntries:
    """Keys and numbers, one key or several a number.

    A key that nothing equals, as NaN, is kept for its number and can't be found.

    Threads: changes need the writer's lock; reading needs none, and may see half of a change.

    Attributes:
        buckets: Key -> the numbers, or the one number where there is just one.
        odd: The numbers whose keys do not go by their hash.
    """

    __slots__ = ("_keys", "buckets", "odd")

    def __init__(self) -> None:
        self.buckets: dict[Any, Bucket | int] = {}
        self.odd = OddKeys(is_sure)
        self._keys = ByNumber()

    @classmethod
    def build(cls, keys: Sequence[Any], numbers: Sequence[int]) -> Self:
        """Make it of one key for each number; the numbers rise.

        Raises:
            TypeError: A key has no hash.

        Cost: 0.2 us an entry.
        """
        self = cls()
        self.buckets, canonical = _grouped(keys, numbers)
        self._keys = ByNumber(numbers, canonical)
        self.odd.note_all(keys, numbers)
        return self

    @classmethod
    def build_many(cls, key_sets: Sequence[Iterable[Any]], numbers: Sequence[int]) -> Self:
        """Make it of any number of keys for each number; the numbers rise.

        Raises:
            TypeError: A key has no hash.
        """
        self = cls()
        rows = [list(dict.fromkeys(keys)) for keys in key_sets]
        counts = list(map(len, rows))
        flat_numbers = np.repeat(np.array(numbers, "<i8"), counts)
        keys = [key for row in rows for key in row]
        self.buckets, flat = _grouped(keys, flat_numbers)
        self.odd.note_all(keys, flat_numbers.tolist())
        kept: list[Any] = []
        place = 0
        for count in counts:
            kept.append(flat[place] if count == 1 else _Several(flat[place : place + count]))
            place += count
        self._keys = ByNumber(numbers, kept)
        return self

    def find(self, key: Any) -> Bucket | None:
        """Return the numbers with a key, None when there are none.

        Raises:
            TypeError: The key has no hash.

        Cost: O(1), 0.1 us.
        """
        found = self.buckets.get(key)
        if type(found) is int:
            return Bucket(key, array("q", (found,)))
        return found  # type: ignore[return-value]

    def set(self, number: int, keys: tuple[Any, ...]) -> None:
        """Give a number these keys instead of those that it had.

        With the same keys only the rows of their buckets are dropped: the record is another.

        Raises:
            TypeError: A key has no hash; nothing is changed.

        Cost: O(log n) and a move of the bucket's later numbers, for each key that changes.
        """
        if len(keys) == 1:
            key = keys[0]
            found = self.buckets.get(key)
            if type(key) not in SURE or self.odd.are_any:
                self.odd.note(number, keys)
            old = self._keys.get(number)
            if old is NOTHING:
                if isinstance(found, Bucket):
                    # One object for equal keys; the record's own need not stay alive for it.
                    self._keys.set(number, found.key)
                    if number > found.numbers[-1]:
                        found.append(number)
                    else:
                        found.add(number)
                else:
                    self._keys.set(number, key)
                    self._add(number, key)
                return
            if type(old) is type(key) and old == key:
                if type(found) is Bucket:
                    found.rows = None
                return
            if type(old) is not _Several:
                self._discard(number, old)
                self._add(number, key)
                self._keys.set(number, key)
                return
        self._replace(number, keys)

    def _replace(self, number: int, keys: tuple[Any, ...]) -> None:
        """Change the keys of a number, whatever they are."""
        new = dict.fromkeys(keys)
        self.odd.note(number, keys)
        old = dict.fromkeys(self.keys_of(number))
        for key in old:
            if key not in new:
                self._discard(number, key)
            elif type(found := self.buckets.get(key)) is Bucket:
                found.rows = None
        for key in new:
            if key not in old:
                self._add(number, key)
        self._keys.set(number, next(iter(new)) if len(new) == 1 else _Several(new))

    def _add(self, number: int, key: Any) -> None:
        found = self.buckets.get(key)
        if found is None:
            if not is_unequal(key):
                self.buckets[key] = number
        elif isinstance(found, Bucket):
            found.add(number)
        elif found != number:
            self.buckets[key] = Bucket(key, array("q", sorted((found, number))))

    def _discard(self, number: int, key: Any) -> None:
        found = self.buckets.get(key)
        if type(found) is Bucket:
            found.discard(number)
            if len(found.numbers) == 1:
                self.buckets[key] = found.numbers[0]
        elif found == number:
            del self.buckets[key]

    def remove(self, number: int) -> None:
        """Forget a number and its keys, if it is there."""
        for key in self.keys_of(number):
            self._discard(number, key)
        self._keys.remove(number)
        if self.odd.are_any:
            self.odd.discard(number)

    def clear(self) -> None:
        """Forget everything."""
        self.buckets.clear()
        self.odd.clear()
        self._keys = ByNumber()

    def keys_of(self, number: int) -> tuple[Any, ...]:
        """Return the keys of a number, () when it has none."""
        kept = self._keys.get(number)
        if kept is NOTHING:
            return ()
        return tuple(kept) if type(kept) is _Several else (kept,)

    def __len__(self) -> int:
        """Return how many numbers there are."""
        return self._keys.count

    def __contains__(self, number: int) -> bool:
        """Whether a number is there, with keys or without."""
        return self._keys.get(number) is not NOTHING

    def items(self) -> Iterator[tuple[Any, list[int]]]:
        """Iterate over the keys and their numbers, rising."""
        for key, found in self.buckets.items():
            yield key, list(found.numbers) if isinstance(found, Bucket) else [found]


def _grouped(
    keys: Sequence[Any], numbers: Sequence[int] | np.ndarray[Any, Any]
) -> tuple[dict[Any, Bucket | int], list[Any]]:
    """Return the buckets of keys and numbers, and the keys with one object for equal ones."""
    distinct = dict.fromkeys(keys)
    buckets: dict[Any, Bucket | int] = {}
    if len(distinct) == len(keys):
        singles = numbers.tolist() if isinstance(numbers, np.ndarray) else numbers
        buckets.update(zip(keys, singles, strict=True))
        for key in [key for key in distinct if is_unequal(key)]:
            del buckets[key]
        return buckets, list(keys)
    names = list(distinct)
    places = dict(zip(names, range(len(names)), strict=True))
    kind = "u2" if len(names) <= 2**16 else "u4"
    codes = np.fromiter(map(places.__getitem__, keys), kind, len(keys))
    order = np.argsort(codes, kind="stable")
    ends = np.cumsum(np.bincount(codes, minlength=len(names))).tolist()
    sorted_numbers = np.array(numbers, "<i8")[order]
    start = 0
    for key, end in zip(names, ends, strict=True):
        if not is_unequal(key):
            if end - start == 1:
                buckets[key] = int(sorted_numbers[start])
            else:
                part: array[int] = array("q")
                part.frombytes(sorted_numbers[start:end].tobytes())
                buckets[key] = Bucket(key, part)
        start = end
    return buckets, list(map(names.__getitem__, codes.tolist()))
