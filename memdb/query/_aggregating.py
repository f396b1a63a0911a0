"""Counts, sums, means, the first and the last value, from columns and sorted indexes alone.

No record is read, but the one whose value is the first or the last of a sorted index. Whatever is
not certain to be exactly what the records would give is left to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial, reduce
from math import inf, isfinite
from operator import and_, or_
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import numpy as np

from memdb.indexes import ColumnEntries, SortedEntries
from memdb.indexes._column import VALUE_STATE
from memdb.indexes._order import NONE_RANK, sort_key
from memdb.indexes._sorted_kinds import FLOATS, INTS, Kind
from memdb.query._candidates import best_candidates, names_of, seeds_for
from memdb.query._compiler import compile_condition
from memdb.query._conditions import (
    Always,
    And,
    Comparison,
    Expression,
    Never,
    Not,
    Or,
    conjuncts,
    is_value,
)
from memdb.query._fields import Field
from memdb.query._reading import column, owned
from memdb.query._seeds import Columns, Seed, Union
from memdb.query._structure import structure
from memdb.query._values import Value
from memdb.storage import Array, Moved

if TYPE_CHECKING:
    from memdb._bound_index import BoundIndex
    from memdb._index_set import View
    from memdb._store import Store

What = Literal["count", "sum", "mean", "min", "max"]

Path = tuple[Any, ...]

NO_ANSWER: Final = object()
"""Says that the records have to be looked at."""

_OPERATORS: Final = frozenset({"==", "!=", "<", "<=", ">", ">=", "between", "in", "is"})

# A loop over fewer records is as fast as the calls of NumPy, with and without a condition.
_LEAST_COMPARED: Final = 1024
_LEAST_RECORDS: Final = 128

# Each value of an `in` takes a pass over the column; a loop over records looks it up in a set.
_MOST_VALUES: Final = 16

# A record costs a loop at least so many times what a row costs a column.
_ROWS_A_RECORD: Final = 32

# How often to read while others may commit, before they have to wait.
_ATTEMPTS: Final = 3

# What half of a change may lead to, and what values do that have no sum.
_FAILURES: Final = (TypeError, ValueError, ArithmeticError, LookupError, RuntimeError)

# Finite floats up to here have a finite sum, in any sequence.
_LARGE: Final = 1e290

# Of what is kept with the plans.
_MOST_KEPT: Final = 1000

# Whose items are the values of the records themselves.
_TYPES: Final[dict[Kind | None, type]] = {INTS: int, FLOATS: float}

# So many equal values are looked up to find the one that was written first.
_MOST_EQUAL: Final = 4096


def answer(store: Store, expression: Expression | None, value: Value | None, what: What) -> Any:
    """Return what `what` is of a value over the records that match, as the records would give it.

    Args:
        store: The collection.
        expression: The condition, without parameters; None for all records.
        value: Of the records; None to count them.
        what: What is asked for.

    Returns:
        `NO_ANSWER` where only the records can tell, or where they are few.

    Raises:
        QueryError: A field can't be compared with a constant.

    Cost: 10 to 40 us, and for a record 0.1 to 1 ns a comparison and 0.1 to 2 for the result; of a
        sorted index 15 us in all.
    """
    served = _served(store)
    if (value is not None and not isinstance(value, Field)) or not any(served):
        return NO_ANSWER
    if store.engine.current() is not None:
        return NO_ANSWER
    path = None if value is None else value._path
    index = None if path is None else served.ends.get(path)
    if path is not None and index is not None and expression is None and what in ("min", "max"):
        found = _at_an_end(store, index, path, what == "max")
        if found is not NO_ANSWER:
            # By now the name may be that of another index.
            return found if _served(store) is served else NO_ANSWER
    if not served.columns:
        return NO_ANSWER
    found = _of_columns(store, served.columns, expression, path, what)
    return found if _served(store) is served else NO_ANSWER


class _Served(NamedTuple):
    """What the indexes of a collection have of fields.

    Attributes:
        columns: Path -> the name of its column.
        ends: Path -> the sorted index of it alone, which every record is in.
    """

    columns: dict[Path, str]
    ends: dict[Path, BoundIndex]


def _served(store: Store) -> _Served:
    # With the plans, as it is forgotten together with them.
    plans = store.indexes.plans
    found: _Served | None = plans.get(_Served)
    if found is None:
        found = _Served({}, {})
        for index in store.indexes:
            if index.kind == "column":
                found.columns[index.asked[0]] = index.name
            is_whole = index.kind == "sorted" and index.condition is None
            if len(index.asked) == 1 and is_whole:
                found.ends[index.asked[0]] = index
        # Last, as other threads take it as it is.
        plans[_Served] = found
    return found


def _read(
    store: Store, names: Iterable[str], read: Callable[[View], Any], finish: Any = None
) -> Any:
    """Return what is read from indexes as they are after one commit.

    Args:
        store: The collection.
        names: Of the indexes.
        read: Reads them; it may see half of a change, and is called again then.
        finish: Is given what was read, with the log's lock held and nothing committed since.
    """
    indexes, log = store.indexes, store.engine.log
    for attempt in range(2 * _ATTEMPTS):
        view = indexes.catch_up(names)
        has_lock = attempt >= _ATTEMPTS
        with log.lock:
            log.raise_if_closed()
            # Another query may have taken in more of one of the indexes than of the others.
            version = indexes.level_of(view)
            if version is None:
                continue
            if has_lock:
                found = _tried(read, view)
                if finish is None or found is NO_ANSWER:
                    return found
                if store.horizon.slot <= version:
                    return finish(found)
                continue
        # Without the lock: nobody should wait for this.
        found = _tried(read, view)
        with log.lock:
            if indexes.level_of(view) != version:
                continue
            if finish is None or found is NO_ANSWER:
                return found
            if store.horizon.slot <= version:
                return finish(found)
    return NO_ANSWER


def _tried(read: Callable[[View], Any], view: View) -> Any:
    try:
        return read(view)
    except _FAILURES:
        return NO_ANSWER


# -- columns -----------------------------------------------------------------------------


def _of_columns(
    store: Store,
    columns: dict[Path, str],
    expression: Expression | None,
    path: Path | None,
    what: What,
) -> Any:
    if len(store.identities) < (_LEAST_RECORDS if expression is None else _LEAST_COMPARED):
        return NO_ANSWER
    if expression is not None and what == "count":
        key = (_are_few, structure(expression))
        if key in store.indexes.plans:
            return NO_ANSWER
    paths: set[Path] = set() if path is None else {path}
    if expression is not None and not _is_served(expression, columns, paths):
        return NO_ANSWER
    if not paths or not paths <= columns.keys():
        return NO_ANSWER
    if expression is not None:
        # Refuses what can't be compared, as the general way does.
        compile_condition(expression, {}, store.query_shape)
        if _are_few(store, expression, what):
            return NO_ANSWER
    names = {each: columns[each] for each in paths}
    base = next(iter(paths)) if path is None else path
    return _read(store, sorted(names.values()), partial(_reduced, names, base, expression, what))


def _is_served(expression: Expression, columns: dict[Path, str], paths: set[Path]) -> bool:
    """Whether columns can tell which records match; the paths of those are added."""
    if isinstance(expression, And | Or):
        return all([_is_served(part, columns, paths) for part in expression.parts])
    if isinstance(expression, Not):
        return _is_served(expression.part, columns, paths)
    if not isinstance(expression, Comparison):
        return isinstance(expression, Always | Never)
    value, operator, operands = expression.value, expression.operator, expression.operands
    if not isinstance(value, Field) or value._path not in columns or operator not in _OPERATORS:
        return False
    if any([is_value(each) for each in operands]):
        return False
    if operator == "is" and operands[0] is not None:
        return False
    paths.add(value._path)
    return operator != "in" or len(operands[0]) <= _MOST_VALUES


def _are_few(store: Store, expression: Expression, what: What) -> bool:
    """Whether another index gives so few candidates, or the count itself, that it is faster."""
    seeds = [seed for seed in seeds_for(store, expression) if not _is_of_columns(seed)]
    if not seeds:
        return False
    view = store.indexes.catch_up(names_of(seeds))
    # An estimate only, so that half of a change does no harm.
    best = _tried(lambda view: best_candidates(view, expression, seeds), view)
    if best is None or best is NO_ANSWER:
        return False
    covered = 0 if best.seed is None else len(best.seed.covers)
    if what == "count" and best.is_exact and covered == len(conjuncts(expression)):
        # So it is whatever the constants are.
        plans = store.indexes.plans
        if len(plans) < _MOST_KEPT:
            plans[_are_few, structure(expression)] = True
        return True
    return bool(best.count * _ROWS_A_RECORD < len(store.identities))


def _is_of_columns(seed: Seed) -> bool:
    """Whether a seed scans columns, which is what is done here."""
    if isinstance(seed, Union):
        return any(map(_is_of_columns, seed.seeds))
    return isinstance(seed, Columns)


def _reduced(
    names: dict[Path, str], base: Path, expression: Expression | None, what: What, view: View
) -> Any:
    """Return the result from the columns of a view, whose rows are those of the base."""
    entries = {path: view.entries[name] for path, name in names.items()}
    columns = {path: each for path, each in entries.items() if isinstance(each, ColumnEntries)}
    if len(columns) < len(names) or not all([each.is_exact for each in columns.values()]):
        return NO_ANSWER
    own = columns[base]
    mask = None if expression is None else _mask(columns, own, expression)
    if expression is not None and mask is None:
        return NO_ANSWER
    if what == "count":
        return len(own) if mask is None else int(np.count_nonzero(mask))
    if own.is_mixed:
        # A float does not tell whether it was an int.
        return NO_ANSWER
    found = getattr(own, what)(mask)
    return found if type(found) is not float or _is_certain(own, mask, found, what) else NO_ANSWER


def _is_certain(own: ColumnEntries, mask: Array | None, found: float, what: What) -> bool:
    """Whether the records give the same float, in whatever sequence they come."""
    if what in ("min", "max"):
        return found != 0.0 or not own.has_both_zeros(mask)
    if isfinite(found):
        return True
    large: Any = reduce(or_, [own.mask(">", _LARGE), own.mask("<", -_LARGE)])
    endless: Any = reduce(or_, [own.mask("==", inf), own.mask("==", -inf)])
    large &= ~endless
    return not (large if mask is None else large & mask).any()


def _mask(
    columns: dict[Path, ColumnEntries], own: ColumnEntries, expression: Expression
) -> Array | None:
    """Return which rows of a column match a condition, None where the columns can't tell."""
    if isinstance(expression, Comparison):
        return _compared(columns, own, expression)
    if isinstance(expression, And | Or):
        masks = [_mask(columns, own, part) for part in expression.parts]
        join: Callable[[Any, Any], Any] = and_ if isinstance(expression, And) else or_
        return None if any([each is None for each in masks]) else reduce(join, masks)
    if isinstance(expression, Not):
        mask = _mask(columns, own, expression.part)
        return None if mask is None else own.present() & ~mask
    is_all = isinstance(expression, Always)
    return own.present() if is_all else np.zeros(len(own.present()), bool)


def _compared(
    columns: dict[Path, ColumnEntries], own: ColumnEntries, comparison: Comparison
) -> Array | None:
    assert isinstance(comparison.value, Field)
    column = columns[comparison.value._path]
    operator, operands = comparison.operator, comparison.operands
    mask = column.mask(
        "==" if operator == "is" else operator, operands if operator == "between" else operands[0]
    )
    return mask if mask is None or column is own else own.aligned(column, mask)


# -- columns of groups -------------------------------------------------------------------


class HeldColumn(NamedTuple):
    """The values of a field, from its column index.

    Attributes:
        raw: An item for each record.
        is_there: Whether the record has a value, (n,) bool.
        types: Of the values.
    """

    raw: Array
    is_there: Array
    types: set[type]

    def parts(self, bounds: Sequence[tuple[int, int]]) -> Iterator[list[Any]]:
        """Give the values that are there between each pair of bounds."""
        values = self.raw.compress(self.is_there).tolist()
        before = np.concatenate(([0], np.cumsum(self.is_there))).tolist()
        return (values[before[start] : before[stop]] for start, stop in bounds)


def column_at(store: Store, value: Value, order: Array, version: int) -> HeldColumn | None:
    """Return the values of a field of all records from a column, None where none has them.

    Args:
        store: The collection; without a natural key, and not inside of a transaction.
        value: What is wanted.
        order: (n,) of integers, the places of all records, of which those are rising by identity.
        version: The horizon at which they are.
    """
    served = _served(store)
    name = served.columns.get(value._path) if isinstance(value, Field) else None
    if name is None or len(order) < _LEAST_RECORDS:
        return None

    def read(view: View) -> Any:
        entries = view.entries[name]
        if not isinstance(entries, ColumnEntries) or not entries.is_exact or entries.is_mixed:
            return NO_ANSWER
        kind, _, raw, states = entries.rows()
        if kind not in _TYPES:
            return NO_ANSWER
        return HeldColumn(raw[order], states[order] == VALUE_STATE, {_TYPES[kind]})

    def finish(found: Any) -> Any:
        return found if store.horizon.slot == version else NO_ANSWER

    found = _read(store, [name], read, finish)
    # By now the name may be that of another index.
    return found if found is not NO_ANSWER and _served(store) is served else None


# -- the ends of sorted indexes ----------------------------------------------------------


def _at_an_end(store: Store, index: BoundIndex, path: Path, is_last: bool) -> Any:
    """Return the first or last value of a sorted index, None of none, or `NO_ANSWER`."""
    is_falling = index.directions[0] < 0
    read = partial(_end, index.name, is_last is not is_falling, store.key is not None)
    slot = _read(store, [index.name], read, partial(_first_slot, store))
    if slot is NO_ANSWER or not slot:
        return slot or None
    try:
        # The key in the index may be another one that is equal.
        record = store.record_at(slot)
    except Moved:
        return NO_ANSWER
    return owned(column(Field(path), [record], store.query_shape))[0]


def _end(name: str, is_last: bool, is_keyed: bool, view: View) -> Any:
    """Return the numbers of the records one of which has the value, none where none has one."""
    entries = view.entries[name]
    if not isinstance(entries, SortedEntries):
        return NO_ANSWER
    span = entries.span((NONE_RANK,), None, is_low_open=True)
    number = span.last() if is_last else span.first()
    if number is None:
        return []
    if not is_keyed:
        # Of equal values the first in the order of numbers, which is that of the records.
        return [number]
    key = sort_key(entries.key_of(number))
    equal = entries.span(key, key)
    return equal.numbers() if 0 < equal.count <= _MOST_EQUAL else NO_ANSWER


def _first_slot(store: Store, numbers: list[int]) -> Any:
    """Return the slot of the record that comes first, 0 where there is none."""
    slots = list(map(store.identities.find, numbers))
    return NO_ANSWER if 0 in slots else min(slots, default=0)
