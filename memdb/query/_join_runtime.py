"""What generated joins call: records by their identity, and by a value where no index has it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import date
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

from memdb.errors import IdentityError
from memdb.indexes import SURE, is_sure, is_tame, is_usual
from memdb.indexes._order import ABSENT
from memdb.query._join import COLLECTIONS, Form
from memdb.query._joining import canonical, names_in
from memdb.query._reading import column
from memdb.query._runtime import Misfit, Runtime, range_finder
from memdb.query._seeds import Operand, Range

if TYPE_CHECKING:
    from memdb._bound_index import BoundIndex
    from memdb._index_set import IndexSet, View
    from memdb.indexes import Bucket, UniqueEntries
    from memdb.query._values import Value

# Types of which equal values are one key: not so datetimes of different zones, nor tuples.
_ONE_FORM: Final = frozenset({str, int, bool, bytes, UUID, date})

# A look into a sorted index takes as long as grouping so many records.
_SPANS: Final = 20

# Natural keys whose numbers are remembered.
_MOST_NUMBERS: Final = 65_536


class Loader:
    """The records of a collection of which the cache does not hold all, for one run of a query."""

    __slots__ = ("_cache", "_fill", "_read", "_store")

    def __init__(self, store: Any, fill: Callable[[Bucket, int], list[Any]]) -> None:
        """Load records.

        Args:
            store: The collection.
            fill: `Runtime.fill` of it.
        """
        self._store = store
        self._cache = store.cache
        self._fill = fill
        # Those that the cache did not take, so that each is one object in a result.
        self._read: dict[int, Any] = {}

    def find(self, number: Any) -> Any:
        """Return the record of a number, None where there is none."""
        if type(number) is not int:
            return None
        record = self._cache.get(number)
        if record is None:
            record = self._read.get(number)
        return self._load(number) if record is None else record

    def take(self, number: int) -> Any:
        """Return the record of a number.

        Raises:
            KeyError: There is none.
        """
        record = self.find(number)
        if record is None:
            raise KeyError(number)
        return record

    def rows(self, bucket: Bucket, version: int) -> list[Any]:
        """Return the records of a bucket, in default order."""
        try:
            return self._fill(bucket, version)
        except KeyError:
            pass
        numbers = bucket.numbers.tolist()
        rows = list(map(self.take, numbers))
        if self._store.key is not None:
            slots = list(map(self._store.identities.find, numbers))
            rows = [rows[place] for place in sorted(range(len(rows)), key=slots.__getitem__)]
        return rows

    def _load(self, number: int) -> Any:
        found = self._store.shared(number)
        if found is None:
            return None
        record, is_kept = found
        if not is_kept:
            conforms = self._store.cloner.conforms
            if conforms is not None and not conforms(record):
                raise Misfit
            self._read[number] = record
        return record


class KeyFinder:
    """From natural keys to records; one for all plans of a collection."""

    def __init__(self, store: Any) -> None:
        self._key = store.key
        # By type and key: 1 and True are two.
        self._numbers: dict[tuple[type, Any], tuple[int, Any]] = {}

    def finder(self, find: Callable[[int], Any]) -> Callable[[Any], Any]:
        """Return a function from a key to its record, None where there is none.

        Args:
            find: From a number to its record.
        """
        key, numbers = self._key, self._numbers

        def by_key(value: Any) -> Any:
            if value is None or value is ABSENT:
                return None
            known = None if key.is_displaced else numbers.get((type(value), value))
            if known is None:
                return self._look_up(value, find)
            number, encoded = known
            record = find(number)
            # Another key may have got the number since.
            return record if record is not None and key.is_of(record, encoded) else None

        return by_key

    def _look_up(self, value: Any, find: Callable[[int], Any]) -> Any:
        try:
            encoded = self._key.encode(value)
        except IdentityError:
            return None
        for number in self._key.numbers(encoded):
            record = find(number)
            if record is not None and self._key.is_of(record, encoded):
                if type(value) in _ONE_FORM and len(self._numbers) < _MOST_NUMBERS:
                    self._numbers[type(value), value] = number, encoded
                return record
        return None


class UniqueReader:
    """The records of a unique index by their keys, kept with the index until they change."""

    def __init__(self, store: Any, entries: UniqueEntries) -> None:
        self._lock = store.engine.log.lock
        self._horizon = store.horizon
        self._entries = entries

    def reader(self, take: Callable[[int], Any], version: int) -> Callable[[Any], Any]:
        """Return a function from a key to its record, None where there is none.

        Args:
            take: From a number to its record.
            version: Of the collection, for which records are kept.
        """
        entries, horizon, lock = self._entries, self._horizon, self._lock
        find = entries.numbers.get

        def read(key: Any) -> Any:
            number = find(key)
            if number is None:
                return None
            record = take(number)
            with lock:
                if horizon.slot == version:
                    entries.rows[key] = record
            return record

        return read


def key_finder(store: Any) -> KeyFinder:
    """Return the finder of a collection, which is kept with its plans."""
    found: KeyFinder = store.indexes.plans.setdefault(("keys",), KeyFinder(store))
    return found


def sure(value: Any) -> Any:
    """Return a value that equals what its hash says.

    Raises:
        Misfit: It is not such.
    """
    if is_sure(value):
        return value
    raise Misfit


def usual(value: Any) -> Any:
    """Return a value that tame ones equal as its hash says; see `memdb.indexes.is_tame`.

    Raises:
        Misfit: It is not such.
    """
    if value is ABSENT or is_usual(value):
        return value
    raise Misfit


def naming(store: Any, form: Form) -> Callable[[Any, Any], bool]:
    """Return whether a value of the right is or has an identity of the left.

    Args:
        store: The collection on the left.
        form: See `Join`.
    """

    def is_named(value: Any, identity: Any) -> bool:
        return canonical(store, identity) in names_in(store, form, value)

    return is_named


def listing(is_ordered: bool, *, has_numbers: bool) -> Callable[[Any], Iterable[Any]]:
    """Return a function that gives the identities that a value lists.

    Args:
        is_ordered: Their order does not matter, as the rights have one of their own.
        has_numbers: The identities are numbers, whose order is that of the records.
    """

    def listed(value: Any) -> Iterable[Any]:
        if not isinstance(value, COLLECTIONS):
            return ()
        if isinstance(value, list | tuple) and not is_ordered:
            return value
        if has_numbers:
            # The default order, and that of what an order holds equal.
            return sorted([each for each in value if type(each) is int])
        if not is_ordered:
            # What a set names comes in default order, which is not that of the keys.
            raise Misfit
        return value

    return listed


class Table(NamedTuple):
    """Records by a value.

    Attributes:
        by_key: Value, of identities in canonical form, -> records in default order.
        has_tame: Some values are `memdb.indexes.is_tame`.
    """

    by_key: dict[Any, list[Any]]
    has_tame: bool


class Tables:
    """The records of the right side of a join by what the left looks up, of one version."""

    def __init__(
        self, store: Any, left: Any, match: Value, form: Form, is_named: bool, is_proven: bool
    ) -> None:
        """Say what is grouped.

        Args:
            store: The collection on the right.
            left: That on the left.
            match: By which value.
            form: See `Join`.
            is_named: It is or has an identity of the left, whose type matters.
            is_proven: It is certain to be nothing that NumPy compares.
        """
        self._runtime = Runtime(store)
        self._shape = store.query_shape
        self._match = match
        self._form = form
        self._left = left if is_named else None
        self._is_checked = not is_named and not is_proven
        self._span: Callable[..., Any] | None = None
        self._has_tame = False

    def use(self, index: BoundIndex, view: View, indexes: IndexSet) -> None:
        """Let a sorted index find the records, where few rows look something up.

        Raises:
            Misfit: It has been dropped meanwhile.
        """
        entries: Any = view.entries.get(index.name)
        if entries is None or indexes.find(index.name) is not index:
            raise Misfit
        if self._left is None:
            if entries.odd.numbers:
                # Its values may have a hash nevertheless, as a complex number has.
                return
            self._has_tame = bool(entries.odd.tame)
        # The operand is given later.
        operand = Operand(None, "")
        seed = Range(index, (), (("==", (operand,)),), frozenset())
        self._span = range_finder(entries, seed)

    def finder(self, view: View, version: int, count: int) -> Callable[[Any, Any], Any]:
        """Return a function of what is looked up, and of what to give where nothing belongs.

        Args:
            view, version: Of the collection.
            count: How many rows look something up.

        Raises:
            Misfit, TypeError: As `table`.
        """
        if self._span is None or count * _SPANS > self._runtime.size:
            found = self.table(view, version)
            get, left = found.by_key.get, self._left
            if found.has_tame:
                return lambda value, nothing: get(usual(value), nothing)
            if left is None or left.key is None:
                return get
            return lambda value, nothing: get(canonical(left, value), nothing)
        return self._in_span

    def _in_span(self, value: Any, nothing: Any) -> Any:
        """Return the records that have a value, by the sorted index."""
        if value is None or value is ABSENT:
            return nothing
        assert self._span is not None
        if self._has_tame:
            usual(value)
        rows = self._runtime.in_default_order(self._span(value))
        if self._left is None:
            return rows
        values = column(self._match, rows, self._shape)
        wanted = canonical(self._left, value)
        return [
            row
            for row, own in zip(rows, values, strict=True)
            if wanted in names_in(self._left, self._form, own)
        ]

    def table(self, view: View, version: int) -> Table:
        """Return the records by their values.

        Raises:
            Misfit: Not every record is at hand, or the hash of a value says nothing.
            TypeError: A value has no hash.

        Cost: O(records).
        """
        records = self._runtime.all_rows(view, version)
        values = column(self._match, records, self._shape)
        has_tame = False
        if self._is_checked and not SURE.issuperset(map(type, values)):
            odd = [value for value in values if type(value) not in SURE and not is_sure(value)]
            if not all(map(is_tame, odd)):
                raise Misfit
            has_tame = bool(odd)
        found: dict[Any, list[Any]] = {}
        for record, value in zip(records, values, strict=True):
            if value is None or value is ABSENT:
                continue
            if self._left is not None:
                for key in names_in(self._left, self._form, value):
                    found.setdefault(key, []).append(record)
            elif value == value:
                found.setdefault(value, []).append(record)
        return Table(found, has_tame)
