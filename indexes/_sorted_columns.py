"""Keys in rising order and the searches in them, one key or several an entry."""

from __future__ import annotations

import operator
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from itertools import compress
from typing import Any, Final, NamedTuple
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from memdb.indexes._order import (
    AWARE_RANK,
    BYTES_RANK,
    DATE_RANK,
    DELTA_RANK,
    EPOCH,
    NAIVE_RANK,
    NAN_RANK,
    NUMBER_RANK,
    OTHER_RANK,
    TEXT_RANK,
    TIME_RANK,
    UUID_RANK,
    SortKey,
    sort_key,
)

Array = NDArray[Any]
Raw = Any
"""The keys of a column: an array of numbers, or a list."""

_NAIVE_EPOCH: Final = datetime(1970, 1, 1)
_MICROSECOND: Final = timedelta(microseconds=1)
_NEAR: Final = 1024
_NUMBERS: Final = {int, bool, float, Decimal, Fraction}


class Kind(NamedTuple):
    """How keys are held.

    Attributes:
        rank: The family of all keys; -1 where they are mixed, and the sort keys are held.
        dtype: Of the array; empty where they are in a list.
        zone: Of aware datetimes.
    """

    rank: int
    dtype: str = ""
    zone: timezone | None = None


_MIXED: Final = Kind(-1)
BOOLS: Final = Kind(NUMBER_RANK, "?")
INTS: Final = Kind(NUMBER_RANK, "<i8")
FLOATS: Final = Kind(NUMBER_RANK, "<f8")
_DATES: Final = Kind(DATE_RANK, "<i4")
_NAIVE: Final = Kind(NAIVE_RANK, "<i8")

_LISTED: Final[dict[type, Kind]] = {
    str: Kind(TEXT_RANK),
    bytes: Kind(BYTES_RANK),
    timedelta: Kind(DELTA_RANK),
    UUID: Kind(UUID_RANK),
}


def encode(keys: Sequence[Any]) -> tuple[Kind, Raw, list[Any] | None]:
    """Return the kind that fits all keys, the keys in it, and themselves where it can't say."""
    types = set(map(type, keys))
    if len(types) == 1:
        found = _encode_same(types.pop(), keys)
        if found is not None:
            return found
    elif types and types <= _NUMBERS:
        return Kind(NUMBER_RANK), list(keys), None
    return _MIXED, list(map(sort_key, keys)), list(keys)


def _encode_same(cls: type, keys: Sequence[Any]) -> tuple[Kind, Raw, None] | None:
    """Return kind and keys where all are of one type, None where they are to be mixed."""
    if cls is int:
        try:
            return INTS, np.array(keys, "<i8"), None
        except OverflowError:
            return Kind(NUMBER_RANK), list(keys), None
    if cls is bool:
        return BOOLS, np.array(keys, "?"), None
    if cls is float:
        return FLOATS, np.array(keys, "<f8"), None
    if cls in _NUMBERS:
        return Kind(NUMBER_RANK), list(keys), None
    if cls is date:
        return _DATES, np.fromiter(map(date.toordinal, keys), "<i4", len(keys)), None
    if cls is datetime:
        return _encode_datetimes(keys)
    if cls is time and all([key.tzinfo is None for key in keys]):
        return Kind(TIME_RANK), list(keys), None
    kind = _LISTED.get(cls)
    return None if kind is None else (kind, list(keys), None)


def _encode_datetimes(keys: Sequence[Any]) -> tuple[Kind, Raw, None] | None:
    """Return kind and keys of datetimes whose zone and fold can be told from their instants."""
    zone = keys[0].tzinfo
    if not all([key.tzinfo is zone and not key.fold for key in keys]):
        return None
    if zone is None:
        kind, epoch = _NAIVE, _NAIVE_EPOCH
    elif isinstance(zone, timezone):
        kind, epoch = Kind(AWARE_RANK, "<i8", zone), EPOCH
    else:
        return None
    return kind, np.array([(key - epoch) // _MICROSECOND for key in keys], "<i8"), None


def _since_epoch(value: datetime) -> int:
    return (value - _NAIVE_EPOCH) // _MICROSECOND


def _microseconds(value: timedelta) -> int:
    return value // _MICROSECOND


_ENCODERS: Final[dict[int, Callable[[Any], int]]] = {
    DATE_RANK: date.toordinal,
    NAIVE_RANK: _since_epoch,
    AWARE_RANK: _microseconds,
}


def viewed(array: Array) -> Any:
    """Return an array's items as Python's numbers, without a copy."""
    return memoryview(array)  # type: ignore[arg-type]


def decode(kind: Kind, item: Any) -> Any:
    """Return what an item of an array stands for."""
    if kind.rank == NUMBER_RANK:
        return item
    if kind.rank == DATE_RANK:
        return date.fromordinal(item)
    if kind.zone is None:
        return _NAIVE_EPOCH + timedelta(microseconds=item)
    # Not over UTC, where the first and last days of the zone may be out of range.
    since_epoch = timedelta(microseconds=item) + kind.zone.utcoffset(None)
    return (_NAIVE_EPOCH + since_epoch).replace(tzinfo=kind.zone)


def raw_of(kind: Kind, key: SortKey) -> Any:
    """Return the item of an array that stands for a sort key of its family."""
    encoder = _ENCODERS.get(kind.rank)
    return key[1] if encoder is None else encoder(key[1])


def order_of(kind: Kind, raw: Raw) -> Array:
    """Return the positions of keys in rising order, those of equal ones rising."""
    if not kind.dtype:
        return _order_of_list(kind, raw)
    count = len(raw)
    if kind.dtype != "<f8" and count:
        # One sort of key and position together takes a twentieth of the time of a stable argsort.
        low, bits = int(raw.min()), count.bit_length()
        if (int(raw.max()) - low).bit_length() + bits <= 63:
            joined: Array = raw.astype("<i8")
            joined -= low
            joined <<= bits
            joined |= np.arange(count)
            joined.sort()
            joined &= (1 << bits) - 1
            return joined
    # Then equal ones are put right: still a third of the time of a stable sort.
    order = np.argsort(raw)
    changes = np.ones(count, bool)
    rising = raw[order]
    changes[1:] = rising[1:] != rising[:-1]
    if kind.dtype == "<f8":
        changes[np.searchsorted(rising, np.nan) + 1 :] = False
    if changes.all():
        return order
    bits = count.bit_length()
    order |= np.cumsum(changes) << bits
    order.sort()
    order &= (1 << bits) - 1
    return order


def _order_of_list(kind: Kind, raw: list[Any]) -> Array:
    count = len(raw)
    if kind.rank in (TEXT_RANK, BYTES_RANK, DATE_RANK, UUID_RANK):
        distinct = set(raw)
        if 2 * len(distinct) < count:
            places = {key: place for place, key in enumerate(sorted(distinct))}
            codes = np.fromiter(map(places.__getitem__, raw), "<i8", count)
            return order_of(INTS, codes)
    if kind.rank != NUMBER_RANK:
        return np.array(sorted(range(count), key=raw.__getitem__), "<i8")
    keys = [sort_key(key) for key in raw]
    return np.array(sorted(range(count), key=keys.__getitem__), "<i8")


class Column:
    """One key an entry, rising.

    Attributes:
        size: How many there are.
        end: Where the NaNs begin, which are the last; the size where there are none.
    """

    __slots__ = ("_encoder", "_rank", "_values", "_view", "end", "kind", "raw", "size")

    def __init__(self, kind: Kind, raw: Raw, values: list[Any] | None = None) -> None:
        """Take keys in rising order."""
        self.kind = kind
        self.raw = raw
        self.size = len(raw)
        self.end = _first_nan(kind, raw)
        self._values = values
        self._rank = kind.rank
        self._encoder = _ENCODERS.get(kind.rank) if kind.dtype else None
        # Python's bisect compares exactly, whatever number it is given.
        self._view = viewed(raw) if kind.dtype else raw

    @classmethod
    def build(cls, keys: Sequence[Any]) -> tuple[Column, Array]:
        """Make it of keys in any order; also return which were taken, in rising order."""
        kind, raw, values = encode(keys)
        order = order_of(kind, raw)
        places = order.tolist() if values is not None or not kind.dtype else []
        if values is not None:
            values = [values[place] for place in places]
        raw = raw[order] if kind.dtype else [raw[place] for place in places]
        return cls(kind, raw, values), order

    def left(self, key: SortKey) -> int:
        """Return how many keys come before this one."""
        rank = self._rank
        if key[0] == rank and len(key) > 1:
            value = key[1] if self._encoder is None else self._encoder(key[1])
            return bisect_left(self._view, value, 0, self.end)
        if rank < 0:
            return bisect_left(self._view, key)
        if key[0] <= rank:
            return 0
        return self.end if key[0] == NAN_RANK else self.size

    def right(self, key: SortKey) -> int:
        """Return how many keys come before this one or equal it."""
        rank = self._rank
        if key[0] == rank and len(key) > 1:
            value = key[1] if self._encoder is None else self._encoder(key[1])
            return bisect_right(self._view, value, 0, self.end)
        if rank < 0:
            return bisect_right(self._view, key)
        return 0 if key[0] <= rank else self.size

    def equal(self, key: SortKey) -> tuple[int, int]:
        """Return where the keys that equal this one begin and end."""
        view, end = self._view, self.end
        if key[0] == self._rank and len(key) > 1:
            value = key[1] if self._encoder is None else self._encoder(key[1])
            first = bisect_left(view, value, 0, end)
            if first == end or view[first] != value:
                return first, first
            return first, bisect_right(view, value, first, end)
        return self.left(key), self.right(key)

    def range(
        self,
        prefix: Sequence[SortKey],
        low: SortKey | None,
        high: SortKey | None,
        is_low_open: bool,
        is_high_open: bool,
    ) -> tuple[int, int]:
        """Return where the keys of an interval begin and end; see `SortedEntries.span`."""
        if self._encoder is None and self.end == self.size and low and high and not prefix:
            rank, view = self._rank, self._view
            if low[0] == rank == high[0] and len(low) == len(high) == 2:
                value = low[1]
                start = bisect_right(view, value) if is_low_open else bisect_left(view, value)
                # The other end is mostly near, and found with half of the steps then.
                near, value = start + _NEAR, high[1]
                if near >= self.size or view[near] <= value:
                    near = self.size
                if is_high_open:
                    return start, bisect_left(view, value, start, near)
                return start, bisect_right(view, value, start, near)
        if prefix:
            return self.equal(prefix[0])
        start = 0 if low is None else self.right(low) if is_low_open else self.left(low)
        if high is None:
            return start, self.size
        return start, self.left(high) if is_high_open else self.right(high)

    def key_of(self, value: Any) -> SortKey:
        """Return the beginning of the delta's entry for a key."""
        return sort_key(value)

    def value_at(self, place: int) -> Any:
        """Return a key as the user gave it."""
        if self._values is not None:
            return self._values[place]
        item = self._view[place]
        return item if self._encoder is None else decode(self.kind, item)

    def is_same(self, place: int, value: Any) -> bool:
        """Whether a key is this very value: equal in the order, and of its type, zone and so on."""
        cls = type(value)
        if cls is int or cls is str:
            old = self._view[place] if self._values is None else self._values[place]
            return type(old) is cls and bool(old == value)
        return _is_same(self.value_at(place), value)

    def values(self) -> list[Any]:
        """Return all keys as the user gave them, rising."""
        if self._values is not None:
            return self._values
        if self._encoder is None:
            items: list[Any] = self._view.tolist() if self.kind.dtype else self.raw
            return items
        return [self.value_at(place) for place in range(self.size)]

    def changes(self, start: int, stop: int) -> Array:
        """Return which keys of a range differ from the one before, (stop - start,) bool."""
        flags = np.ones(stop - start, bool)
        raw, last = self.raw, min(stop, self.end)
        if last - start > 1:
            if self.kind.dtype:
                flags[1 : last - start] = raw[start + 1 : last] != raw[start : last - 1]
            else:
                differ = map(operator.ne, raw[start + 1 : last], raw[start : last - 1])
                flags[1 : last - start] = list(differ)
        # NaN equals NaN here.
        flags[max(self.end + 1 - start, 1) :] = False
        return flags

    def take(self, places: Array) -> Column:
        """Return the column of some of the keys."""
        if self.kind.dtype:
            return Column(self.kind, self.raw[places])
        chosen = places.tolist()
        values = None if self._values is None else [self._values[place] for place in chosen]
        return Column(self.kind, [self.raw[place] for place in chosen], values)

    def merged(self, keep: Array | None, places: Array, keys: Sequence[Any]) -> Column | None:
        """Return the column without some keys and with others.

        Args:
            keep: Which ones stay, (size,) bool; None for all.
            places: Where the new ones go among those that stay, rising.
            keys: The new ones, rising.

        Returns:
            The new column; None where the new keys are of another kind.
        """
        kind, raw, values = self.kind, None, None
        if len(keys) and kind.rank >= 0:
            found, raw, values = encode(keys)
            if found != kind and self.size:
                # A list of numbers takes any of them.
                if kind != Kind(NUMBER_RANK) or found.rank != NUMBER_RANK:
                    return None
                raw = list(keys)
            kind = found if not self.size else kind
        elif len(keys):
            raw, values = list(map(sort_key, keys)), list(keys)
        return Column(
            kind,
            spliced(self.raw if self.size or raw is None else raw[:0], keep, places, raw),
            None if kind.rank >= 0 else spliced(self._values or [], keep, places, values),
        )


def _is_same(one: Any, other: Any) -> bool:
    """Whether nobody could tell two values apart."""
    if type(one) is not type(other):
        return False
    if isinstance(one, (tuple, list)):
        return len(one) == len(other) and all(map(_is_same, one, other))
    key = sort_key(one)
    if key[0] == OTHER_RANK:
        return one is other
    if isinstance(one, (datetime, time)) and (one.tzinfo, one.fold) != (other.tzinfo, other.fold):
        return False
    return key == sort_key(other)


def _first_nan(kind: Kind, raw: Raw) -> int:
    """Return where the NaNs begin in rising numbers."""
    size = len(raw)
    if kind.rank != NUMBER_RANK or kind.dtype in ("?", "<i8") or not size:
        return size
    if kind.dtype:
        return int(np.searchsorted(raw, np.nan)) if raw[-1] != raw[-1] else size
    while size and sort_key(raw[size - 1])[0] == NAN_RANK:
        size -= 1
    return size


def spliced(items: Raw, keep: Array | None, places: Array, new: Any) -> Raw:
    """Return an array or a list without some items and with others; see `Column.merged`."""
    if isinstance(items, np.ndarray):
        array = items if keep is None else items[keep]
        return array if new is None else np.insert(array, places, new)
    kept = items if keep is None else list(compress(items, keep.tolist()))
    if new is None:
        return kept
    result: list[Any] = []
    start = 0
    for place, item in zip(places.tolist(), new, strict=True):
        if place > start:
            result += kept[start:place]
            start = place
        result.append(item)
    result += kept[start:]
    return result
