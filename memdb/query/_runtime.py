"""What generated queries call: from what an index found to the records, in default order.

All of it reads without a lock and may meet a change half-way: the query looks afterwards whether
anything was committed meanwhile, and asks again. An exception says the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import date
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from memdb.errors import QueryError
from memdb.indexes import Bucket, Sequel, SortedEntries, Span, reach, sequel
from memdb.indexes._order import (
    BYTES_RANK,
    DATE_RANK,
    NOTHING,
    NUMBER_RANK,
    TEXT_RANK,
    Bounds,
    bounds,
)
from memdb.indexes._sequel import EVERYTHING
from memdb.query._seeds import After, Range
from memdb.serializers._build import is_plain_name
from memdb.storage import Array

if TYPE_CHECKING:
    from memdb._index_set import View
    from memdb._store import Store

# How many candidates are looked at first.
_LEAST_STEP: Final = 64

Found = Bucket | int | None


class Misfit(Exception):
    """The generated way can't answer: an operand that the index does not serve exactly."""


class Runtime:
    """The records of one collection for generated queries.

    Only records that are in the cache are found; for others a KeyError says that they have to be
    read first.
    """

    def __init__(self, store: Store) -> None:
        self.cache = store.cache
        self.log = store.engine.log
        self._horizon = store.horizon
        self.is_keyed = store.key is not None
        self._identities = store.identities
        self._slot_of = store.identities.find
        # Sorting by a field of the records is cheaper than by numbers that are kept apart.
        identity = store.shape.identity
        is_field = identity is not None and is_plain_name(identity) and not self.is_keyed
        self.identity: Callable[[Any], int] | None = None
        if is_field and store.members.sole is not None and store.shape.kind != "dict":
            self.identity = attrgetter(identity or "")

    @property
    def size(self) -> int:
        """How many records there are."""
        return len(self._identities)

    def load(self, numbers: Iterable[int]) -> list[Any]:
        """Return the cached records of numbers."""
        return list(map(self.cache.__getitem__, numbers))

    def fill(self, bucket: Bucket, version: int) -> list[Any]:
        """Return the records of a bucket, kept in it until one of them changes."""
        numbers = bucket.numbers
        rows = self.load(numbers)
        if self.is_keyed:
            rows = self._by_slot(numbers.tolist(), rows)
        with self.log.lock:
            if self._horizon.slot == version:
                bucket.rows = rows
        return rows

    def rows_of(self, found: Found, version: int) -> list[Any]:
        """Return the records of what a hash look-up found."""
        if found is None:
            return []
        if not isinstance(found, Bucket):
            return [self.cache[found]]
        return found.rows or self.fill(found, version)

    def all_rows(self, view: View, version: int) -> list[Any]:
        """Return all records, kept until one changes."""
        rows = view.rows
        if rows is not None:
            return rows
        with self.log.lock:
            if self._horizon.slot != version:
                raise Misfit
            if len(self.cache) < len(self._identities):
                raise Misfit
            numbers, slots = self._identities.arrays()
        if self.is_keyed:
            numbers = numbers[slots.argsort()]
        rows = self.load(numbers.tolist())
        with self.log.lock:
            if self._horizon.slot == version:
                view.rows = rows
        return rows

    def joined(self, found: Iterable[Found], version: int) -> list[Any]:
        """Return the records of several keys of one hash index, each once, in default order.

        Cost: that of sorting what is in order in parts already.
        """
        rows: list[Any] = []
        # What look-ups of equal keys find is one object.
        distinct = {id(each): each for each in found if each is not None}.values()
        for each in distinct:
            rows += self.rows_of(each, version)
        if len(distinct) < 2:
            return rows
        if self.identity is not None:
            rows.sort(key=self.identity)
            return rows
        return self.merged([self.part_of(each, version) for each in distinct])

    def merged(self, parts: list[tuple[list[int], list[Any]]]) -> list[Any]:
        """Return the records of several sets of candidates, each once, in default order.

        Args:
            parts: Numbers and records of each.
        """
        by_number: dict[int, Any] = {}
        for numbers, some in parts:
            by_number.update(zip(numbers, some, strict=True))
        if self.is_keyed:
            return self._by_slot(list(by_number), list(by_number.values()))
        return list(map(by_number.__getitem__, sorted(by_number)))

    def among(self, get: Callable[[Any], Found], keys: Iterable[Any]) -> list[Found]:
        """Return what a hash index has for several keys."""
        return [found for found in map(get, keys) if found is not None]

    def kept_rows(self, view: View) -> list[Any]:
        """Return all records if they are at hand: for who needs the first ones only.

        Raises:
            Misfit: They are not.
        """
        if view.rows is None:
            raise Misfit
        return view.rows

    def part_of(self, found: Found, version: int) -> tuple[list[int], list[Any]]:
        """Return numbers and records of what a hash look-up found."""
        if found is None:
            return [], []
        if self.is_keyed and isinstance(found, Bucket):
            # What is kept is in the order of slots, and the numbers are in their own.
            return found.numbers.tolist(), self.load(found.numbers)
        numbers = [found] if type(found) is int else found.numbers.tolist()  # type: ignore[union-attr]
        return numbers, self.rows_of(found, version)

    def parts_of(self, found: Iterable[Found], version: int) -> list[tuple[list[int], list[Any]]]:
        """Return numbers and records of several look-ups."""
        return [self.part_of(each, version) for each in found]

    def of_numbers(self, numbers: Array) -> list[Any]:
        """Return the records of rising numbers, in default order."""
        found = numbers.tolist()
        rows = self.load(found)
        return self._by_slot(found, rows) if self.is_keyed else rows

    def in_default_order(self, span: Span | Sequel) -> list[Any]:
        """Return the records of a range of a sorted index, by identity."""
        rows: list[Any] = span.rows(self.load)
        if len(rows) < 2:
            return rows
        numbers = span.array()
        if self.is_keyed:
            return self._by_slot(numbers.tolist(), rows)
        if (numbers[1:] > numbers[:-1]).all():
            return rows
        return list(map(rows.__getitem__, numbers.argsort().tolist()))

    def first(
        self,
        span: Span | Sequel,
        is_falling: bool,
        select: Callable[[list[Any]], list[Any]],
        start: int,
        stop: int,
    ) -> list[Any]:
        """Return rows start to stop of those of a range that match, in the order of its keys.

        Cost: as many candidates are looked at as it takes, in doubling steps.
        """
        found: list[Any] = []
        limit, done = 2 * stop + _LEAST_STEP, 0
        while len(found) < stop and done < span.count:
            numbers = span.numbers(is_falling, limit)
            found += select(self.load(numbers[done:]))
            done = len(numbers)
            limit *= 2
        return found[start:stop]

    def _by_slot(self, numbers: list[int], rows: list[Any]) -> list[Any]:
        slots = list(map(self._slot_of, numbers))
        return [rows[place] for place in sorted(range(len(rows)), key=slots.__getitem__)]


def scanned(*tests: tuple[Any, str, Any]) -> Array:
    """Return the numbers for which comparisons of columns are all true, (n,) <i8, rising.

    Args:
        tests: Column entries, operator and operand of each.

    Raises:
        Misfit: A column can't tell.
    """
    masks: dict[int, tuple[Any, Array]] = {}
    for entries, operator, operand in tests:
        mask = entries.mask(operator, operand) if entries.is_exact else None
        if mask is None:
            raise Misfit
        # Of one column all at once.
        _, other = masks.get(id(entries), (entries, mask))
        masks[id(entries)] = entries, mask & other
    numbers: Array | None = None
    for entries, mask in masks.values():
        some = entries.numbers(mask)
        numbers = some if numbers is None else np.intersect1d(numbers, some, assume_unique=True)
    assert numbers is not None
    return numbers


def pair(one: int | None, other: int | None) -> tuple[int, ...]:
    """Return the numbers that two look-ups in unique indexes found, rising, each once."""
    if one is None or one == other:
        return () if other is None else (other,)
    if other is None:
        return (one,)
    return (one, other) if one < other else (other, one)


def size_of(found: Found) -> int:
    """Return how many numbers a hash look-up found."""
    return 0 if found is None else 1 if type(found) is int else len(found.numbers)  # type: ignore[union-attr]


def sizes_of(found: Iterable[Found]) -> int:
    """Return how many numbers several look-ups found."""
    return sum(map(size_of, found))


def keys_among(values: Any) -> Any:
    """Return the different values of an ``in_`` as keys.

    Raises:
        QueryError: They are a text or no collection.
        TypeError: One has no hash, so that it has to be compared.
    """
    if type(values) is frozenset:
        return values
    if isinstance(values, str | bytes):
        raise QueryError("in_() takes a collection of values, not a text.")
    return frozenset([value for value in values if value == value])


def keys_without_none(values: Any) -> Any:
    """Return the same for an index that has no entry for None.

    Raises:
        Misfit: None is among them.
    """
    keys = keys_among(values)
    if None in keys:
        raise Misfit
    return keys


# Types whose values are their own sort keys behind the rank. A float may be a NaN, and a datetime
# needs a look at its zone.
_RANKS: Final[dict[type, int]] = {
    int: NUMBER_RANK, str: TEXT_RANK, bytes: BYTES_RANK, date: DATE_RANK,
}  # fmt: skip


def range_finder(entries: SortedEntries, seed: Range) -> Callable[..., Span | Sequel]:
    """Return a function of a range's operands that gives the span of the index.

    The function raises Misfit where the span would not be exactly what the comparisons say.
    """
    prefix = len(seed.prefix)
    operators = [operator for operator, _ in seed.bounds]
    if seed.after is not None:
        return _after(entries, prefix, operators, seed.after)
    if not prefix and not operators:
        return entries.span
    if prefix:
        return _prefixed(entries, prefix, operators)
    span = entries.span
    if operators == ["between"]:
        return _between(span)
    if len(operators) == 1:
        return _one_sided(span, operators[0])
    rising, falling = operators
    is_low_open, is_high_open = rising == ">", falling == "<"

    def both(low: Any, high: Any) -> Span:
        # Without the bounds of each, which cost 1 us together.
        if type(low) is type(high) and (rank := _RANKS.get(type(low))) is not None:
            return span((rank, low), (rank, high), is_low_open, is_high_open)
        return span(*_both(rising, low, falling, high))

    return both


def _between(span: Callable[..., Span]) -> Callable[..., Span]:
    def between(low: Any, high: Any) -> Span:
        if type(low) is type(high) and (rank := _RANKS.get(type(low))) is not None:
            return span((rank, low), (rank, high))
        return span(*_exact(bounds("between", (low, high)))[:4])

    return between


def _one_sided(span: Callable[..., Span], operator: str) -> Callable[..., Span]:
    is_open = operator in ("<", ">")

    def above(operand: Any) -> Span:
        rank = _RANKS.get(type(operand))
        if rank is None:
            return span(*_exact(bounds(operator, operand))[:4])
        return span((rank, operand), (rank + 1,), is_open, True)

    def below(operand: Any) -> Span:
        rank = _RANKS.get(type(operand))
        if rank is None:
            return span(*_exact(bounds(operator, operand))[:4])
        return span((rank,), (rank, operand), False, is_open)

    if operator in (">", ">="):
        return above
    if operator in ("<", "<="):
        return below
    return lambda operand: span(*_exact(bounds(operator, operand))[:4])


def _both(rising: str, low: Any, falling: str, high: Any) -> tuple[Any, Any, bool, bool]:
    first, last = _exact(bounds(rising, low)), _exact(bounds(falling, high))
    if first.low[0] != last.high[0]:
        # Of different families, or one of them is empty: nothing is above one and below the other.
        return NOTHING[:4]
    return first.low, last.high, first.is_low_open, last.is_high_open


def _exact(found: Bounds | None) -> Bounds:
    if found is None or not found.is_exact:
        raise Misfit
    return found


def _prefixed(entries: SortedEntries, prefix: int, operators: list[str]) -> Callable[..., Span]:
    def find(*operands: Any) -> Span:
        values = operands[:prefix]
        if not _can_be(values):
            return entries.span(*NOTHING[:4])
        if not operators:
            return entries.span(prefix=values)
        return entries.span(*_limits(operators, operands[prefix:]), prefix=values)

    return find


def _after(
    entries: SortedEntries, prefix: int, operators: list[str], after: After
) -> Callable[..., Span | Sequel]:
    def find(*operands: Any) -> Span | Sequel:
        *rest, place = operands
        values = rest[:prefix]
        if not _can_be(values):
            return entries.span(*NOTHING[:4])
        limits = EVERYTHING
        if operators:
            limits = Bounds(*_limits(operators, rest[prefix:]))
        if not after.is_exact:
            return reach(entries, values, place.keys[0], limits, is_falling=place.falling[0])
        return sequel(
            entries, values, place.keys, place.falling, place.identity, limits,
            is_reversed=after.is_falling,
        )  # fmt: skip

    return find


def _can_be(values: Iterable[Any]) -> bool:
    """Whether fields can equal values that an index is asked for.

    Raises:
        Misfit: The index can't tell.
    """
    for value in values:
        if type(value) in _RANKS:
            continue
        if _exact(bounds("==", value)) is NOTHING:
            # Nothing equals a NaN, though the index has an entry for it.
            return False
    return True


def _limits(operators: list[str], operands: Sequence[Any]) -> tuple[Any, Any, bool, bool]:
    """Return the interval of one or two comparisons."""
    if operators == ["between"]:
        return _exact(bounds("between", operands))[:4]
    if len(operators) == 2:
        return _both(operators[0], operands[0], operators[1], operands[1])
    return _exact(bounds(operators[0], operands[0]))[:4]
