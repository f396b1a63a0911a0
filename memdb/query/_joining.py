"""Joins the general way: over snapshots of all collections as of one commit.

This is the way in transactions, with bounded caches and callables, and while others commit all the
time; and the meaning that generated code must agree with.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from memdb import _scan
from memdb.errors import IdentityError, QueryError, shown
from memdb.indexes import are_sure, is_sure, is_tame, is_usual
from memdb.indexes._order import ABSENT
from memdb.query._compiler import compile_condition
from memdb.query._conditions import Expression, any_of
from memdb.query._fitting import NO_MATCH, holds
from memdb.query._join import COLLECTIONS, OPEN_COLLECTIONS, Form, Join, stores_in
from memdb.query._join_access import access_of
from memdb.query._ordering import in_order
from memdb.query._paging import rows_after
from memdb.query._reading import column

if TYPE_CHECKING:
    from memdb._scan import Row, Snapshot
    from memdb._store import Store
    from memdb.query._query import Query

R = TypeVar("R")

# How often everything is looked up again after somebody has committed meanwhile.
_ATTEMPTS: Final = 5

# Up to so many elements are looked up one by one.
_FEW: Final = 16


class Reading:
    """Collections as of one commit.

    Attributes:
        owned: Id -> record, of those that nobody else has, so that they need no copy. It holds
            them, as the id of what is gone may be given to a record of the cache.
    """

    def __init__(self, snapshots: dict[Any, Snapshot] | None = None) -> None:
        """Read.

        Args:
            snapshots: Of the collections; None to look up what is needed, as it is then.
        """
        self._snapshots = snapshots
        self.owned: dict[int, Any] = {}
        self._seen: dict[tuple[int, int], Row] = {}

    def rows(self, query: Query[Any], keys: Expression | None = None) -> list[Row]:
        """Return the rows that a query finds, in its order, without its skip and limit.

        Args:
            query: The query.
            keys: What else may be taken for granted of those that are wanted.
        """
        store = query._store
        condition = query._condition
        if keys is not None and self._snapshots is None:
            condition = keys if condition is None else condition & keys
        compiled = compile_condition(condition, {}, store.query_shape)
        snapshot = None if self._snapshots is None else self._snapshots[store]
        rows = list(_scan.matching(store, compiled, snapshot))
        if query._cursor is not None:
            rows = rows_after(rows, query._cursor, query._order, store)
        return self._noted(store, in_order(rows, query._order, store, 0, None))

    def named(self, query: Query[Any], identities: Sequence[Any]) -> list[Row]:
        """Return the rows that a query finds among some identities, in its order."""
        store = query._store
        if self._snapshots is not None or 2 * len(identities) > len(store.identities):
            return self.rows(query)
        compiled = compile_condition(query._condition, {}, store.query_shape)
        snapshot = _scan.snapshot_of(store, list(map(store.find_number, identities)))
        rows = list(_scan.matching(store, compiled, snapshot))
        return self._noted(store, in_order(rows, query._order, store, 0, None))

    def _noted(self, store: Any, rows: list[Row]) -> list[Row]:
        """Return rows in which each record is one object, however often it was read."""
        place = id(store)
        known = [self._seen.setdefault((place, row[0]), row) for row in rows]
        self.owned.update([(id(row[1]), row[1]) for row in known if not row[2]])
        return known


def as_of_one_commit(left: Query[Any], joins: Sequence[Join], work: Callable[[Reading], R]) -> R:
    """Return what is made of a query and its joins, all of one commit.

    Args:
        left, joins: Which collections are read.
        work: Reads; it may be called again, when somebody has committed meanwhile.
    """
    stores: list[Store] = list(dict.fromkeys([left._store, *stores_in(joins)]))
    log = left._store.engine.log
    for _ in range(_ATTEMPTS):
        log.raise_if_closed()
        with log.lock:
            before = [store.horizon.slot for store in stores]
        result = work(Reading())
        with log.lock:
            if before == [store.horizon.slot for store in stores]:
                return result
    # Somebody commits all the time: nothing is picked out by indexes, and nobody is waited for.
    return work(Reading(_scan.take_snapshots(stores)))


# -- joining -----------------------------------------------------------------------------------


def joined(
    reading: Reading, found: list[Row], store: Any, joins: Sequence[Join], row_class: Any
) -> list[Any]:
    """Return for each record its row, None where a join drops it.

    Where several records belong and one is expected it is the error, for whoever wants the row.

    Args:
        reading: The collections.
        found: The records.
        store: Their collection.
        joins: What is joined to each.
        row_class: Of the rows.
    """
    columns: list[list[Any]] = [[record for _, record, _ in found]]
    rows: list[Any] = [None] * len(found)
    stores = [store, *[join.store for join in joins]]
    places = list(range(len(found)))
    for join in joins:
        lefts = columns[join.place]
        if join.left is None:
            keys = {place: store.identity_of(*found[place][:2]) for place in places}
        else:
            there = [place for place in places if lefts[place] is not None]
            records = [lefts[place] for place in there]
            values = column(join.left, records, stores[join.place].query_shape)
            keys = {
                place: value
                for place, value in zip(there, values, strict=True)
                if value is not None and value is not ABSENT
            }
        rights = _Rights(reading, join, stores[join.place], list(keys.values()))
        slots: list[Any] = [None] * len(found)
        kept: list[int] = []
        for place in places:
            some = rights.of(keys[place]) if place in keys else []
            if some and isinstance(some[-1], QueryError):
                rows[place] = some[-1]
                continue
            if join.is_many:
                slots[place] = tuple(some)
            elif len(some) > 1:
                rows[place] = _several(join, store.identity_of(*found[place][:2]), len(some))
                continue
            elif some:
                slots[place] = some[0]
            if some or not join.is_inner:
                kept.append(place)
        places = kept
        columns.append(slots)
    for place in places:
        rows[place] = row_class(*[values[place] for values in columns])
    return rows


def _several(join: Join, identity: Any, count: int) -> QueryError:
    return QueryError(
        f"{join.slot}: join() expects one record of {join.store.name!r}, and {count} belong to"
        f" {shown(identity)}. Use join_many(), or a query of the right with limit(1)."
    )


class _Rights:
    """The records of the right side of one join, by what the left looks up."""

    def __init__(self, reading: Reading, join: Join, left: Any, keys: list[Any]) -> None:
        """Read what the left may need.

        Args:
            reading: The collections.
            join: The join.
            left: The collection of the record on the left.
            keys: What is looked up for all rows together.
        """
        self._join = join
        self._left = left
        self._owned = reading.owned
        self._by_key: dict[Hashable, list[int]] = {}
        # What has no hash, or one that says nothing of what it equals, has to be compared.
        self._others: list[tuple[Any, int]] = []
        self._entered: list[tuple[Any, int]] = []
        # Of those with a hash: NumPy's numbers that are compared with usual values as Python's
        # are, and values of Python's that are not usual.
        self._has_tame = self._has_unusual = False
        rows = self._read(reading, keys)
        self._results: list[Any] = [record for _, record, _ in rows]
        self._take_in(rows)
        if join.nested is not None:
            source = join.nested._store
            self._results = joined(reading, rows, join.store, source.joins, source.row)

    def of(self, key: Any) -> list[Any]:
        """Return what belongs to a row that looks up this key."""
        join = self._join
        if join.form == "listed":
            places: list[int] = []
            if isinstance(key, COLLECTIONS):
                for each in key:
                    places += self._places(each)
                if isinstance(key, set | frozenset) or join.right._order:
                    places.sort()
        else:
            places = self._places(key)
        start, stop = join.right._start, join.right._stop
        found = [self._results[place] for place in places[start:stop]]
        if join.nested is None:
            return found
        rows = [row for row in found if row is not None]
        errors = [row for row in rows if isinstance(row, QueryError)]
        return errors[:1] or join.nested._finished(rows, self._owned)

    def _read(self, reading: Reading, keys: list[Any]) -> list[Row]:
        join = self._join
        if join.form == "listed":
            keys = [each for key in keys if isinstance(key, COLLECTIONS) for each in key]
        if join.match is None:
            # By their canonical form: 1 and True are two.
            named = {canonical(join.store, each): each for each in keys}
            named.pop(None, None)
            return reading.named(join.right, list(named.values()))
        try:
            distinct = list(dict.fromkeys(keys))
        except NO_MATCH:
            return reading.rows(join.right)
        if 2 * len(distinct) > len(join.store.identities):
            return reading.rows(join.right)
        if join.form == "equal" and not are_sure(distinct):
            # Of those that have one hash only the first is left.
            return reading.rows(join.right)
        if join.form == "equal":
            return reading.rows(join.right, join.match.in_(distinct))
        # Without such an index a value may be an identity itself, whatever its annotation says.
        is_set = access_of(join, self._left).way == "set"
        if join.form == "elements" and is_set and len(distinct) <= _FEW:
            return reading.rows(join.right, any_of([join.match.contains(k) for k in distinct]))
        return reading.rows(join.right)

    def _take_in(self, rows: list[Row]) -> None:
        join = self._join
        if join.match is None:
            values = [join.store.identity_of(number, record) for number, record, _ in rows]
        else:
            values = column(join.match, [row[1] for row in rows], join.store.query_shape)
        for place, value in enumerate(values):
            if value is None or value is ABSENT:
                continue
            if join.form in ("equal", "listed"):
                self._enter(value, place)
                continue
            for each in names_in(self._left, join.form, value):
                self._by_key.setdefault(each, []).append(place)

    def _key(self, value: Any) -> Any:
        """Return what equal values have in common; None where nothing equals it."""
        join = self._join
        if join.match is None:
            return canonical(join.store, value)
        return canonical(self._left, value) if join.left is None else value

    def _enter(self, value: Any, place: int) -> None:
        key = self._key(value)
        if key is None:
            return
        is_known = True
        if not self._join.is_named:
            self._entered.append((key, place))
            if not is_usual(key):
                is_known = is_sure(key)
                self._has_unusual = self._has_unusual or is_known
                if not is_known and is_tame(key):
                    is_known = self._has_tame = True
        try:
            if is_known and key == key:
                self._by_key.setdefault(key, []).append(place)
        except NO_MATCH:
            is_known = False
        if not is_known:
            self._others.append((key, place))

    def _places(self, value: Any) -> list[int]:
        """Return where the records are that one value leads to."""
        key = self._key(value)
        if key is None:
            return []
        try:
            found = self._by_key.get(key, []) if self._goes_by_hash(key) else None
        except NO_MATCH:
            found = None
        if found is None:
            return [p for k, p in self._entered if holds(_equal, key, k)]
        if not self._others:
            return found
        return sorted([*found, *[p for k, p in self._others if holds(_equal, key, k)]])

    def _goes_by_hash(self, key: Any) -> bool:
        """Whether those that have a hash equal a key only if they have the same."""
        if self._join.is_named or is_usual(key):
            return True
        return not self._has_tame if is_sure(key) else is_tame(key) and not self._has_unusual


def _equal(one: Any, other: Any) -> bool:
    return bool(one == other)


def names_in(store: Any, form: Form, value: Any) -> list[Hashable]:
    """Return the identities that a value of the right is or has, each once, in canonical form.

    Args:
        store: The collection whose identities they are.
        form: See `Join`.
        value: The value.
    """
    collections = COLLECTIONS if form == "elements" else OPEN_COLLECTIONS
    values = value if form != "equal" and isinstance(value, collections) else (value,)
    found = dict.fromkeys([canonical(store, each) for each in values])
    return [each for each in found if each is not None]


def canonical(store: Any, value: Any) -> Hashable:
    """Return what names a record in a collection, the same for equal identities of one type.

    None where a value can't be an identity.
    """
    if store.key is None:
        return value if type(value) is int else None
    try:
        encoded: Hashable = store.key.encode(value)
    except IdentityError:
        return None
    return encoded
