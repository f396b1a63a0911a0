"""Keys and numbers in the total order: for ranges, sorting, least and greatest."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import compress
from typing import Any, Final, Self

import numpy as np

from memdb.indexes._odd import SURE, OddKeys, is_placed
from memdb.indexes._order import HIGHEST, NAN_RANK, SortKey, sort_key
from memdb.indexes._sorted_columns import Column, spliced
from memdb.indexes._sorted_compound import CompoundColumn, Probes, TupleColumn
from memdb.indexes._sorted_kinds import Array, Kind, encode, order_of, viewed
from memdb.indexes._sorted_optional import OptionalColumn, build_column
from memdb.indexes._sorted_span import AnyColumn, Span, State

LEAST_CHANGES: Final = 1024
_LARGEST_SHORT: Final = 2**32 - 1
# A change takes 5 us, inserting some into arrays 20 ns for each entry, building anew 100 and more.
_LEAST_SOME: Final = 256
_SHARE_OF_SOME: Final = 256
_SHARE_OF_MOST: Final = 16


class SortedEntries:
    """One key a number, in the total order; equal keys by number, rising.

    Most of it is a *base*, an array of keys beside one of numbers, which is never changed. A number
    whose key changes is dead in the base and has an entry in the *delta*, a short sorted list. When
    there are many, a new base is made.

    Threads: changes need the writer's lock; reading needs none, and may see half of a change. A
    change must be made known here after the record's new version can be read and before anybody
    is told of it, so that no row of an older version stays.

    Attributes:
        odd: The numbers with a key that is not compared as its place in the order says.
    """

    __slots__ = ("_probes", "_state", "odd")

    def __init__(
        self, directions: Sequence[int] = (1,), *, is_compound: bool | None = None
    ) -> None:
        is_tuple = len(directions) > 1 if is_compound is None else is_compound
        is_plain = not is_tuple and tuple(directions) == (1,)
        self._probes = None if is_plain else Probes(directions, is_tuple)
        self.odd = OddKeys(is_placed)
        self._state = self._state_of([], np.empty(0, "<u4"))

    @classmethod
    def build(
        cls,
        keys: Sequence[Any],
        numbers: Sequence[int],
        directions: Sequence[int] = (1,),
        *,
        is_compound: bool | None = None,
    ) -> Self:
        """Make it of one key for each number.

        Args:
            keys: In any order; for several directions tuples, with one key for each.
            numbers: Each once.
            directions: 1 for rising, -1 for falling, one for each part of a key.
            is_compound: Keys are tuples even though there is one direction only.

        Cost: 0.1 us an entry for ints, 1 to 2 for texts that differ.
        """
        self = cls(directions, is_compound=is_compound)
        self._state = self._state_of(*_by_number(keys, np.array(numbers, "<i8")))
        if self.kind is None or not self.kind.dtype:
            self.odd.note_all(keys, numbers, are_compound=self._is_compound)
        return self

    @property
    def _is_compound(self) -> bool:
        """Whether keys are tuples of the parts that are compared."""
        return self._probes is not None and self._probes.is_tuple

    def _state_of(self, keys: Sequence[Any], numbers: Array) -> State:
        """Return the state of keys and their numbers, which rise."""
        column: AnyColumn
        if self._probes is None:
            column, order = build_column(keys)
        else:
            built = CompoundColumn.build(keys, self._probes)
            column, order = built or TupleColumn.build(keys, self._probes)
        return State(column, short(numbers[order]))

    @classmethod
    def of(cls, column: Column | OptionalColumn, numbers: Array) -> Self:
        """Make it of the keys of one rising field, and their numbers in the same order."""
        self = cls()
        self._state = State(column, numbers)
        return self

    @property
    def kind(self) -> Kind | None:
        """How most keys are held, None where they are of several fields."""
        column = self._state.column
        return column.kind if isinstance(column, Column | OptionalColumn) else None

    def merged(self) -> tuple[AnyColumn, Array] | None:
        """Return all keys in order, and their numbers; None where they are of several kinds."""
        state: State | None = self._state
        if state is not None and state.is_changed:
            state = _rebased(state, *_parts_of(state))
        return None if state is None else (state.column, state.numbers)

    def set(self, number: int, key: Any) -> None:
        """Give a number this key instead of the one that it had.

        With the same key only the row of the number is dropped: the record is another.

        Cost: O(log n), a move in the delta, and now and then a new base, O(n) and vectorised.
        """
        if type(key) not in SURE or self.odd.are_any:
            self.odd.note(number, key if self._is_compound else (key,))
        state = self._state
        head = state.column.key_of(key)
        old = state.delta.get(number)
        if old is not None:
            if old[0][:-1] == head:
                state.delta[number] = (old[0], key)
                return
            state.drop_delta(number, old[0])
        elif (place := state.place_of(number)) >= 0:
            if state.column.is_same(place, key):
                state.drop_block(place)
                return
            state.kill(number, place)
        state.add_delta(number, key, (*head, number))
        if state.is_full():
            self._state = self._merged(state)

    def remove(self, number: int) -> None:
        """Forget a number, if it is there."""
        if self.odd.are_any:
            self.odd.discard(number)
        state = self._state
        old = state.delta.get(number)
        if old is not None:
            state.drop_delta(number, old[0])
        elif (place := state.place_of(number)) >= 0:
            state.kill(number, place)
            if state.is_full():
                self._state = self._merged(state)

    def set_many(self, keys: Sequence[Any], numbers: Sequence[int]) -> None:
        """Give each number its key; the same as `set` for each, and faster for many.

        Cost: as for one, or as building anew where they are many.
        """
        if self.odd.are_any:
            for number in numbers:
                self.odd.discard(number)
        count = len(numbers)
        is_most = count * _SHARE_OF_MOST > max(len(self), LEAST_CHANGES)
        is_some = count >= _LEAST_SOME and count * _SHARE_OF_SOME >= len(self)
        if (is_most or is_some) and self._join(keys, numbers):
            return
        if not is_most:
            for number, key in zip(numbers, keys, strict=True):
                self.set(number, key)
            return
        added, keys = _last_of_each(keys, numbers)
        state = self._merged(self._state)
        keep = _others(state, added)
        kept = list(compress(state.column.values(), keep.tolist()))
        all_numbers = np.concatenate((state.numbers[keep].astype("<i8"), added))
        self._state = self._state_of(*_by_number([*kept, *keys], all_numbers))
        self.odd.note_all(keys, added.tolist(), are_compound=self._is_compound)

    def _join(self, keys: Sequence[Any], numbers: Sequence[int]) -> bool:
        """Give numbers new keys if all are held in an array of one kind; return whether so."""
        column = self._state.column
        if not isinstance(column, Column) or not column.kind.dtype:
            return False
        added, keys = _last_of_each(keys, numbers)
        kind, raw, _ = encode(keys)
        found = self.merged() if kind == column.kind else None
        if found is None or not isinstance(found[0], Column):
            return False
        state = State(*found)
        keep = _others(state, added)
        if not keep.any():
            return False
        self._state = _joined(found[0], state.numbers, keep, raw, added)
        return True

    def _merged(self, state: State) -> State:
        """Return the state with a new base and nothing beside it."""
        if not state.is_changed:
            return state
        parts = _parts_of(state)
        found = _rebased(state, *parts)
        if found is not None:
            return found
        keep, places, keys, numbers = parts
        merged = spliced(list(state.column.values()), keep, places, keys)
        return self._state_of(*_by_number(merged, numbers.astype("<i8")))

    def span(
        self,
        low: SortKey | None = None,
        high: SortKey | None = None,
        is_low_open: bool = False,
        is_high_open: bool = False,
        *,
        prefix: Sequence[Any] = (),
        head: Sequence[SortKey] = (),
    ) -> Span:
        """Return the entries of an interval, of those with these first keys.

        Args:
            low: Sort key, as `bounds` gives it; None for no limit. The limits are for the key
                behind the prefix, and where that one falls `low` is still the lower value.
            high: As `low`.
            is_low_open: Without `low` itself.
            is_high_open: Without `high` itself.
            prefix: Values that the first parts of a compound key equal; a NaN equals nothing.
            head: Sort keys that the parts behind the prefix have.

        Cost: two searches, 1 us.
        """
        state = self._state
        if prefix:
            first_keys = tuple(map(sort_key, prefix))
            if (NAN_RANK,) in first_keys:
                # Equal in the order, and to nothing for Python.
                return Span(state, 0, 0, 0)
            head = (*first_keys, *head)
        start, stop = state.column.range(head, low, high, is_low_open, is_high_open)
        if stop < start:
            stop = start
        if not state.is_changed:
            return Span(state, start, stop, stop - start)
        if self._probes is not None:
            first, last = self._probes.of(head, low, high, is_low_open, is_high_open)
        else:
            if head:
                low = high = head[0]
            first = () if low is None else (*low, HIGHEST) if is_low_open else low
            last = (HIGHEST,) if high is None else high if is_high_open else (*high, HIGHEST)
        begin = state.index_of(first, start)
        end = max(state.index_of(last, stop), begin)
        dead = state.dead
        dead_begin, dead_end = bisect_left(dead, start), bisect_left(dead, stop)
        count = stop - start + end - begin - dead_end + dead_begin
        return Span(state, start, stop, count, (begin, end, dead_begin, dead_end))

    def clear(self) -> None:
        """Forget everything."""
        self._state = self._state_of([], np.empty(0, "<u4"))
        self.odd.clear()

    def first_key(self) -> Any:
        """Return the first key, as the user gave it or an equal one.

        Raises:
            KeyError: There is none.
        """
        return self._key_at(self.span().first())

    def last_key(self) -> Any:
        """Return the last key, as the user gave it or an equal one.

        Raises:
            KeyError: There is none.
        """
        return self._key_at(self.span().last())

    def _key_at(self, number: int | None) -> Any:
        if number is None:
            raise KeyError("There is no entry.")
        return self.key_of(number)

    def key_of(self, number: int) -> Any:
        """Return the key of a number, as the user gave it or an equal one.

        Raises:
            KeyError: The number is not there.
        """
        state = self._state
        old = state.delta.get(number)
        if old is not None:
            return old[1]
        place = state.place_of(number)
        if place < 0:
            raise KeyError(number)
        return state.column.value_at(place)

    def __len__(self) -> int:
        """Return how many numbers there are."""
        state = self._state
        return state.column.size - len(state.dead) + len(state.entries)

    def __contains__(self, number: int) -> bool:
        """Whether a number is there."""
        state = self._state
        return number in state.delta or state.place_of(number) >= 0

    def items(self) -> Iterator[tuple[Any, int]]:
        """Iterate over keys and numbers, in order."""
        for number in self.span().numbers():
            yield self.key_of(number), number


def _last_of_each(keys: Sequence[Any], numbers: Sequence[int]) -> tuple[Array, Sequence[Any]]:
    """Return numbers, each once, and the last key of each."""
    added = np.array(numbers, "<i8")
    if (added[1:] > added[:-1]).all():
        return added, keys
    news = dict(zip(numbers, keys, strict=True))
    return np.fromiter(news, "<i8", len(news)), list(news.values())


def _others(state: State, added: Array) -> Array:
    """Return which entries of a base are not of some numbers, (n,) bool."""
    if not state.column.size or added.min() > state.numbers.max():
        return np.ones(state.column.size, bool)
    others: Array = np.isin(state.numbers, added, invert=True)
    return others


def _parts_of(state: State) -> tuple[Array | None, Array, list[Any], Array]:
    """Return what makes a new base: which keys stay, places and keys of new ones, all numbers."""
    keep = None
    places = np.array(state.places, "<i8")
    if state.dead:
        dead = np.array(state.dead, "<i8")
        keep = np.ones(state.column.size, bool)
        keep[dead] = False
        places -= np.searchsorted(dead, places)
    added = [entry[-1] for entry in state.entries]
    keys = [state.delta[number][1] for number in added]
    kept = state.numbers if keep is None else state.numbers[keep]
    # Of the new numbers' dtype only where they need it: a copy of all is not for nothing.
    added_array = short(np.array(added, "<i8"))
    if added_array.dtype == "<i8":
        kept = kept.astype("<i8", copy=False)
    return keep, places, keys, np.insert(kept, places, added_array)


def _rebased(
    state: State, keep: Array | None, places: Array, keys: list[Any], numbers: Array
) -> State | None:
    """Return the state with a new base, None where the new keys are of another kind."""
    column = state.column.merged(keep, places, keys)
    return None if column is None else State(column, numbers)


def _by_number(keys: Sequence[Any], numbers: Array) -> tuple[Sequence[Any], Array]:
    """Return keys and numbers so that the numbers rise."""
    if (numbers[1:] > numbers[:-1]).all():
        return keys, numbers
    order = np.argsort(numbers)
    return [keys[place] for place in order.tolist()], numbers[order]


def _joined(column: Column, numbers: Array, keep: Array, raw: Array, added: Array) -> State:
    """Return the state of a base's entries that stay and of others, whose keys are of its kind."""
    if len(added) * _SHARE_OF_MOST <= column.size:
        return _inserted(column, numbers, keep, raw, added)
    numbers = np.concatenate((numbers[keep].astype("<i8"), added))
    by_number = np.argsort(numbers)
    raw = np.concatenate((column.raw[keep], raw))[by_number]
    order = order_of(column.kind, raw)
    return State(Column(column.kind, raw[order]), short(numbers[by_number][order]))


def _inserted(column: Column, numbers: Array, keep: Array, raw: Array, added: Array) -> State:
    """Do as `_joined` without sorting all."""
    by_number = np.argsort(added)
    raw, added = raw[by_number], short(added[by_number])
    order = order_of(column.kind, raw)
    raw, added = raw[order], added[order]
    kept, kept_numbers = column.raw[keep], numbers[keep]
    places, ends = np.searchsorted(kept, raw, "left"), np.searchsorted(kept, raw, "right")
    view = viewed(kept_numbers)
    for at in np.flatnonzero(places < ends).tolist():
        places[at] = bisect_left(view, int(added[at]), int(places[at]), int(ends[at]))
    if added.dtype == "<i8":
        kept_numbers = kept_numbers.astype("<i8", copy=False)
    joined = Column(column.kind, np.insert(kept, places, raw))
    return State(joined, np.insert(kept_numbers, places, added))


def short(numbers: Array) -> Array:
    """Return numbers in 4 bytes each where they fit."""
    if len(numbers) and (numbers.max() > _LARGEST_SHORT or numbers.min() < 0):
        return numbers.astype("<i8", copy=False)
    return numbers.astype("<u4", copy=False)
