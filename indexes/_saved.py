"""Entries as arrays that a file can hold, and back: numbers, bools, dates and datetimes only.

What the arrays and words mean is part of the file format (docs/format.md, "Arrays of an index"):
another meaning needs another word. Arrays out of a file are looked at before they are believed:
what a search would stumble over is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC
from typing import Any, Final, NamedTuple

import numpy as np

from memdb.indexes._column import ABSENT_STATE, VALUE_STATE, ColumnEntries
from memdb.indexes._order import AWARE_RANK
from memdb.indexes._sorted import SortedEntries, short
from memdb.indexes._sorted_columns import Column
from memdb.indexes._sorted_kinds import BOOLS, DATES, FLOATS, INTS, NAIVE, Array, Kind, decode
from memdb.indexes._sorted_optional import OptionalColumn

_KINDS: Final = {
    "bool": BOOLS,
    "int": INTS,
    "float": FLOATS,
    "date": DATES,
    "datetime": NAIVE,
    "moment": Kind(AWARE_RANK, "<i8", UTC),
}
# The dtype in the file, where that has not the one in memory; of the same length.
_STORED: Final = {"?": "|u1", "<i4": "<u4"}
_NUMBERS: Final = ("<u4", "<i8")
# Of arrays and of facts.
_NAMES: Final = {
    "sorted": ({"keys", "numbers"}, {"keys_are", "absent", "none"}),
    "column": ({"values", "numbers", "states"}, {"values_are", "mixed"}),
}


class Saved(NamedTuple):
    """Entries as a file can hold them.

    Attributes:
        arrays: Name -> (n,).
        facts: What else has to be known of them, as JSON can hold it.
    """

    arrays: Mapping[str, Array]
    facts: Mapping[str, Any]


def to_saved(entries: object) -> Saved | None:
    """Return entries as arrays; None where their keys are of no kind that is saved.

    Cost: O(n), vectorised; the arrays may be those of the entries, and are not to be changed.
    """
    if isinstance(entries, SortedEntries):
        return _sorted_to_saved(entries)
    return _column_to_saved(entries) if isinstance(entries, ColumnEntries) else None


def from_saved(kind: str, saved: Saved) -> SortedEntries | ColumnEntries | None:
    """Return the entries of arrays; None where they are not what `to_saved` gives.

    Args:
        kind: ``sorted`` or ``column``.
        saved: What `is_known` is true of. Arrays that can't be written to will do, and are used
            as they are where that can be.

    Cost: O(n), vectorised: 4 ms a million.
    """
    return _sorted_from_saved(saved) if kind == "sorted" else _column_from_saved(saved)


def is_known(kind: str, facts: Mapping[str, Any], arrays: Iterable[str]) -> bool:
    """Whether arrays of these names, with these facts, are of a kind that is known here."""
    names = _NAMES.get(kind)
    if names is None or (set(arrays), set(facts)) != names:
        return False
    word = facts.get("keys_are", facts.get("values_are"))
    return isinstance(word, str) and word in _KINDS


def numbers_of_saved(saved: Saved) -> Array:
    """Return the numbers of the entries, rising, (n,) of integers."""
    numbers = saved.arrays["numbers"]
    highest = int(numbers.max()) if len(numbers) else 0
    if len(numbers) and numbers.min() >= 0 and highest < 4 * len(numbers):
        # An eighth of the time of a sort.
        there = np.zeros(highest + 1, bool)
        there[numbers] = True
        rising = np.flatnonzero(there)
        if len(rising) == len(numbers):
            return rising
    return np.sort(numbers)


def _word_of(kind: Kind | None) -> str | None:
    for word, each in _KINDS.items():
        if each == kind and each.zone is kind.zone:
            return word
    return None


def _stored(raw: Array) -> Array:
    dtype = _STORED.get(raw.dtype.str.replace("|b1", "?"))
    return raw if dtype is None else raw.view(dtype)


def _held(word: str, stored: Array) -> tuple[Kind, Array] | None:
    """Return kind and items of an array, None where it can't be of that kind."""
    kind = _KINDS[word]
    if stored.dtype.str != _STORED.get(kind.dtype, kind.dtype):
        return None
    if kind == BOOLS and len(stored) and stored.max() > 1:
        return None
    return kind, stored.view(kind.dtype)


def _are_held(kind: Kind, *items: Any) -> bool:
    """Whether there are such dates."""
    try:
        for item in items:
            decode(kind, item.item())
    except (OverflowError, ValueError):
        return False
    return True


# -- sorted --------------------------------------------------------------------------------------


def _sorted_to_saved(entries: SortedEntries) -> Saved | None:
    found = None if _word_of(entries.kind) is None else entries.merged()
    if found is None:
        return None
    column, numbers = found
    absent = none = 0
    if isinstance(column, OptionalColumn):
        absent, none, column = column.absent, column.none, column.inner
    # Merging an empty base may have made it of another kind.
    word = _word_of(column.kind) if isinstance(column, Column) else None
    if word is None or not isinstance(column, Column):
        return None
    facts = {"keys_are": word, "absent": absent, "none": none}
    return Saved({"keys": _stored(column.raw), "numbers": numbers}, facts)


def _sorted_from_saved(saved: Saved) -> SortedEntries | None:
    numbers = saved.arrays["numbers"]
    absent, none = saved.facts["absent"], saved.facts["none"]
    held = _held(saved.facts["keys_are"], saved.arrays["keys"])
    if held is None or type(absent) is not int or type(none) is not int:
        return None
    kind, raw = held
    head = absent + none
    is_sized = min(absent, none) >= 0 and head + len(raw) == len(numbers)
    if not is_sized or numbers.dtype.str not in _NUMBERS:
        return None
    parts = numbers[:absent], numbers[absent:head], numbers[head:]
    if not (_rises(parts[0]) and _rises(parts[1]) and _are_in_order(kind, raw, parts[2])):
        return None
    inner = Column(kind, raw)
    return SortedEntries.of(OptionalColumn(absent, none, inner) if head else inner, numbers)


def _rises(numbers: Array) -> bool:
    return bool((numbers[1:] > numbers[:-1]).all())


def _are_in_order(kind: Kind, raw: Array, numbers: Array) -> bool:
    """Whether keys rise, those of equal ones by number, NaNs last, and can be given back."""
    if not len(raw):
        return True
    if kind == FLOATS and raw[-1] != raw[-1]:
        first = len(raw) - int(np.count_nonzero(np.isnan(raw)))
        if not _rises(numbers[first:]) or not np.isnan(raw[first:]).all():
            return False
        raw, numbers = raw[:first], numbers[:first]
    before, after = raw[:-1], raw[1:]
    rise = after > before
    if not rise.all() and not (rise | ((after == before) & (numbers[1:] > numbers[:-1]))).all():
        return False
    return not len(raw) or _are_held(kind, raw[0], raw[-1])


# -- columns -------------------------------------------------------------------------------------


def _column_to_saved(entries: ColumnEntries) -> Saved | None:
    kind, numbers, raw, states = entries.rows()
    word = _word_of(kind)
    if word is None or not entries.is_exact:
        return None
    arrays = {"values": _stored(raw), "numbers": short(numbers), "states": states}
    return Saved(arrays, {"values_are": word, "mixed": entries.is_mixed})


def _column_from_saved(saved: Saved) -> ColumnEntries | None:
    numbers, states = saved.arrays["numbers"], saved.arrays["states"]
    mixed = saved.facts["mixed"]
    held = _held(saved.facts["values_are"], saved.arrays["values"])
    if held is None or type(mixed) is not bool or not _rises(numbers):
        return None
    kind, raw = held
    dtypes = numbers.dtype.str in _NUMBERS and states.dtype.str == "|u1"
    if not dtypes or not len(raw) == len(numbers) == len(states):
        return None
    if len(states) and not ABSENT_STATE <= states.min() <= states.max() <= VALUE_STATE:
        return None
    present = raw if (states == VALUE_STATE).all() else raw[states == VALUE_STATE]
    if len(present) and kind != FLOATS and not _are_held(kind, present.min(), present.max()):
        return None
    return ColumnEntries.of_rows(kind, numbers, raw, states, is_mixed=mixed)
