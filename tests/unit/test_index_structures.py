"""What the structures of the indexes promise beside their content."""

from __future__ import annotations

import math
import threading
from array import array
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from memdb.indexes import (
    ABSENT,
    NO_KEY,
    Bucket,
    ColumnEntries,
    Duplicate,
    HashEntries,
    SortedEntries,
    UniqueEntries,
    bounds,
    sort_key,
)
from memdb.indexes._by_number import NOTHING, ByNumber
from memdb.indexes._sorted_optional import OptionalColumn
from memdb.indexes._sums import sum_of_floats, sum_of_ints

Entries = HashEntries | UniqueEntries


def span_of(entries: SortedEntries, operator: str, operand: Any) -> Any:
    """Return the span of a comparison."""
    limits = bounds(operator, operand)
    assert limits is not None
    return entries.span(*limits[:4])


class Loader:
    """Gives the version of each record, and notes what it was asked for."""

    def __init__(self) -> None:
        self.versions: dict[int, int] = {}
        self.asked: list[int] = []

    def __call__(self, numbers: list[int]) -> list[tuple[int, int]]:
        self.asked += numbers
        return [(number, self.versions.get(number, 0)) for number in numbers]


class TestByNumber:
    """What each number has."""

    @pytest.mark.parametrize(
        "numbers",
        [[], [1, 2, 3], [5, 6], [1, 3, 900], [1, 2**62], [-1, 4]],
        ids=["empty", "from one", "later", "with holes", "scattered", "negative"],
    )
    def test_is_a_mapping(self, numbers: list[int]) -> None:
        """Whatever the numbers are, it is what a dict is, after any change."""
        values: list[Any] = [f"v{number}" for number in numbers]
        found, model = ByNumber(numbers, values), dict(zip(numbers, values, strict=True))
        for number in [2, 4, 7, 900, 5_000, 2**40, 8, 5_000, -7, 3]:
            found.set(number, number)
            model[number] = number
        for number in [2, 2**40, 2**41, 1, 1]:
            assert model.pop(number, NOTHING) == found.remove(number)

        assert model == dict(found.items())
        assert len(model) == len(found)
        assert NOTHING is found.get(2) is found.get(10**6)
        assert 7 == found.get(7)
        assert "NOTHING" == repr(NOTHING)


class TestHashEntries:
    """Keys and numbers by hash."""

    def test_single_number_needs_no_bucket(self) -> None:
        """The dict holds the number itself, a bucket from two on, and the number again."""
        entries = HashEntries.build(["a", "b", "b"], [1, 2, 3])
        assert 1 == entries.buckets["a"]
        assert isinstance(entries.buckets["b"], Bucket)

        entries.remove(2)

        assert {"a": 1, "b": 3} == entries.buckets

    def test_empty_bucket_is_gone(self) -> None:
        """A key without a number is not in the dict."""
        entries = HashEntries.build(["a"], [1])

        entries.set(1, ())

        assert {} == entries.buckets
        assert () == entries.keys_of(1) and 1 in entries and 1 == len(entries)

    @pytest.mark.parametrize("key", [math.nan, (1, math.nan), Decimal("NaN")], ids=repr)
    def test_nan_is_never_found(self, key: Any) -> None:
        """What equals nothing is not found, not even by the same object, and can be removed."""
        for entries in [HashEntries.build([key, key], [1, 2]), HashEntries()]:
            entries.set(3, (key,))
            entries.set(4, (key, 5))
            assert entries.find(key) is None
            assert (key,) == entries.keys_of(3)

            for number in (1, 2, 3, 4):
                entries.remove(number)

            assert 0 == len(entries) and {} == entries.buckets

    @pytest.mark.parametrize("key", [[1], {}, Decimal("sNaN")], ids=repr)
    def test_unhashable_key_changes_nothing(self, key: Any) -> None:
        """A key without a hash is refused and the number keeps what it had."""
        entries = HashEntries.build(["a"], [1])

        for keys in [(key,), ("b", key)]:
            with pytest.raises(TypeError):
                entries.set(1, keys)
        with pytest.raises(TypeError):
            entries.find(key)
        with pytest.raises(TypeError):
            HashEntries.build([key], [1])

        assert {"a": 1} == entries.buckets
        assert ("a",) == entries.keys_of(1)

    def test_tuple_is_one_key_or_several(self) -> None:
        """A number with the key (1, 2) is another than one with the keys 1 and 2."""
        entries = HashEntries()
        entries.set(1, ((1, 2),))
        entries.set(2, (1, 2))
        assert [((1, 2), [1]), (1, [2]), (2, [2])] == list(entries.items())

        entries.set(1, (1, 2))
        entries.set(2, ((1, 2),))

        assert [(1, [1]), (2, [1]), ((1, 2), [2])] == list(entries.items())

    def test_repeated_keys_count_once(self) -> None:
        """An element that a list has twice has one entry."""
        entries = HashEntries.build_many([["a", "a"], []], [1, 2])
        entries.set(3, ("b", "b"))

        assert [("a", [1]), ("b", [3])] == list(entries.items())
        assert 3 == len(entries)

    @pytest.mark.parametrize("keys", [("a",), ("a", "z")])
    def test_each_change_drops_the_rows(self, keys: tuple[str, ...]) -> None:
        """A bucket's rows are gone after a number came, changed in the same key, or left."""
        entries = HashEntries.build_many([["a"], ["a"], list(keys)], [1, 2, 3])
        bucket = entries.buckets["a"]
        assert isinstance(bucket, Bucket)
        for change in [
            lambda: entries.set(3, keys),
            lambda: entries.set(4, ("a",)),
            lambda: entries.set(0, ("a",)),
            lambda: entries.set(4, ("b",)),
            lambda: entries.remove(0),
        ]:
            bucket.rows = []
            change()
            assert bucket.rows is None
        assert [1, 2, 3] == bucket.numbers.tolist()

    def test_numbers_that_somebody_looks_at(self) -> None:
        """An array that NumPy looks at is left as it is; the change goes into another one."""
        entries = HashEntries.build(["a"] * 3, [2, 4, 6])
        seen = []
        for change in [
            lambda: entries.set(3, ("a",)),
            lambda: entries.set(9, ("a",)),
            lambda: entries.remove(4),
        ]:
            bucket = entries.find("a")
            assert bucket is not None
            view = np.frombuffer(bucket.numbers, "<i8")
            change()
            seen.append(view.tolist())

        assert [[2, 4, 6], [2, 3, 4, 6], [2, 3, 4, 6, 9]] == seen
        bucket = entries.find("a")
        assert bucket is not None and array("q", [2, 3, 6, 9]) == bucket.numbers

    def test_removing_what_is_not_there(self) -> None:
        """Removing an unknown number does nothing."""
        entries = HashEntries.build(["a"], [1])
        entries.remove(7)
        Bucket("a", array("q", [1])).discard(2)

        assert 1 == len(entries) and 7 not in entries


class TestUniqueEntries:
    """Keys with one number each."""

    def test_duplicate_in_a_build(self) -> None:
        """The first pair with equal keys is named, without the key in the message."""
        with pytest.raises(Duplicate) as caught:
            UniqueEntries.build(["a", "secret", "c", "secret", "a"], [1, 2, 3, 4, 5])

        assert ("secret", 2, 4) == (caught.value.key, caught.value.first, caught.value.second)
        assert "secret" not in str(caught.value)

    def test_no_key_and_nan_may_repeat(self) -> None:
        """Numbers without a key, and keys that equal nothing, are no duplicates."""
        keys = [NO_KEY, NO_KEY, math.nan, math.nan, (1, math.nan), (1, math.nan), None]
        entries = UniqueEntries.build(keys, range(1, 8))

        assert {None: 7} == entries.numbers
        assert 5 == len(entries)
        assert 0 == entries.find(math.nan) == entries.find((1, math.nan))
        assert NO_KEY is entries.key_of(1)

    def test_swap(self) -> None:
        """Two numbers exchange their keys in two changes; on the way one key has moved on."""
        entries = UniqueEntries.build(["a", "b"], [1, 2])

        entries.set(1, "b")
        entries.set(2, "a")

        assert {"a": 2, "b": 1} == entries.numbers

    def test_unhashable_key_changes_nothing(self) -> None:
        """A key without a hash is refused and the number keeps what it had."""
        entries = UniqueEntries.build(["a"], [1])

        with pytest.raises(TypeError):
            entries.set(1, [])
        with pytest.raises(TypeError):
            entries.find([])

        assert {"a": 1} == entries.numbers


class TestSortedEntries:
    """Keys and numbers in order."""

    def test_empty(self) -> None:
        """Without an entry there is no first key, and spans are empty."""
        entries = SortedEntries()

        for end in (entries.first_key, entries.last_key):
            with pytest.raises(KeyError):
                end()
        with pytest.raises(KeyError):
            entries.key_of(1)
        assert 0 == len(entries) == entries.span().count
        assert [] == entries.span().numbers() == entries.span().rows(lambda numbers: numbers)
        entries.remove(5)
        entries.set_many([], [])
        assert 5 not in entries

    @pytest.mark.parametrize(
        ("keys", "bytes_each"),
        [
            ([3, 1, 2] * 500, 8),
            ([True, False, True] * 500, 1),
            ([1.5, -0.0, math.nan] * 500, 8),
            ([date(2020, 1, 2), date(2020, 1, 1), date(1, 1, 1)] * 500, 4),
            ([datetime(2020, 1, 2), datetime(1, 1, 1), datetime(2020, 1, 1)] * 500, 8),
            ([datetime(2020, 1, day, tzinfo=UTC) for day in (3, 1, 2)] * 500, 8),
        ],
        ids=["ints", "bools", "floats", "dates", "naive", "aware"],
    )
    def test_arrays(self, keys: list[Any], bytes_each: int) -> None:
        """Numbers, dates and datetimes are kept in arrays, before and after changes."""
        entries = SortedEntries.build(keys, range(1, len(keys) + 1))
        for number, key in enumerate(keys[:1200], 2000):
            entries.set(number, key)

        column = entries._state.column
        assert len(keys) < column.size
        assert isinstance(column.raw, np.ndarray)  # type: ignore[union-attr]
        assert bytes_each == column.raw.itemsize  # type: ignore[union-attr]
        assert {type(keys[0])} == {type(key) for key, _ in entries.items()}

    def test_user_values(self) -> None:
        """First and last key are of the user's type and zone."""
        zone = timezone(timedelta(hours=5))
        early, late = datetime(2020, 1, 1, tzinfo=zone), datetime(2020, 1, 2, tzinfo=zone)
        entries = SortedEntries.build([late, early], [1, 2])
        assert zone is entries.first_key().tzinfo and early == entries.first_key()

        folded = datetime(2020, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=1)
        entries.set(3, folded)

        assert (folded.tzinfo, 1) == (entries.last_key().tzinfo, entries.last_key().fold)

    def test_mixed_ints_and_floats_are_exact(self) -> None:
        """An int beyond the floats keeps its place among them."""
        entries = SortedEntries.build([2.0**53, 2**53 + 1, 2**53 - 1, math.nan], [1, 2, 3, 4])
        assert [3, 1, 2, 4] == entries.span().numbers()
        assert [2] == span_of(entries, ">", 2.0**53).numbers()

        floats = SortedEntries.build([2.0**53, 2.0**53 + 2], [1, 2])

        assert [2] == span_of(floats, ">", 2**53 + 1).numbers()
        assert [] == span_of(floats, "==", 2**53 + 1).numbers()

    def test_rows_are_kept(self) -> None:
        """What did not change is loaded once; a changed block, and what moved, again."""
        load = Loader()
        entries = SortedEntries.build(range(1000), range(1, 1001))
        rows = entries.span().rows(load)
        assert [(number, 0) for number in range(1, 1001)] == rows
        load.asked.clear()

        assert rows == entries.span().rows(load)
        assert rows[300:600] == span_of(entries, "between", (300, 599)).rows(load)
        assert [] == load.asked

        load.versions = {5: 1, 700: 1}
        entries.set(5, 4)
        entries.set(700, 2000)
        changed = entries.span().rows(load)

        assert [(5, 1), (700, 1)] == [row for row in changed if row[1]]
        assert (700, 1) == changed[-1]
        assert [*range(1, 257), 700] == load.asked

    def test_dead_entries_are_not_loaded(self) -> None:
        """A record that is gone is not asked for, and leaves no gap."""
        load = Loader()
        entries = SortedEntries.build(range(600), range(1, 601))
        for number in (1, 2, 300, 600):
            entries.remove(number)

        rows = entries.span().rows(load)

        assert [number for number in range(3, 600) if number != 300] == [row[0] for row in rows]
        assert {1, 2, 300, 600}.isdisjoint(load.asked)
        assert rows == entries.span().rows(load)

    def test_change_during_a_load(self) -> None:
        """Rows that were read before a change, and arrive behind it, are not kept."""
        load = Loader()
        entries = SortedEntries.build(range(10), range(1, 11))

        def slow(numbers: list[int]) -> list[Any]:
            rows = load(numbers)
            load.versions[3] = 1
            entries.set(3, 2)
            return rows

        entries.span().rows(slow)

        assert (3, 1) == entries.span().rows(load)[2]

    def test_load_that_gives_too_few(self) -> None:
        """A load that lost records is an error, and nothing is kept of it."""
        entries = SortedEntries.build(range(10), range(1, 11))

        with pytest.raises(RuntimeError):
            entries.span().rows(lambda numbers: numbers[1:])
        assert list(range(1, 11)) == entries.span().rows(lambda numbers: numbers)

    def test_span_of_an_older_base(self) -> None:
        """A span stays what it was when a new base has taken the place of its own."""
        entries = SortedEntries.build(range(100), range(1, 101))
        span = entries.span()

        entries.set_many(range(5000), range(1, 5001))

        assert list(range(1, 101)) == span.numbers()
        assert 5000 == entries.span().count

    def test_many_changes_make_a_new_base(self) -> None:
        """The delta never outgrows its limit, with numbers of any size."""
        entries = SortedEntries.build([1], [2**62])
        for number in range(3000):
            entries.set(number * 2**40, -number)
            assert len(entries._state.entries) <= 1025

        for number in range(3000):
            entries.remove(number * 2**40)
            assert len(entries._state.dead) <= 1025
        assert [(1, 2**62)] == list(entries.items())

    def test_new_family_in_a_new_base(self) -> None:
        """Keys of another family turn the array into a list, whose order is the same."""
        entries = SortedEntries.build(range(2000), range(1, 2001))
        entries.set_many([None, "a", 1.5, 2**70], [3001, 3002, 3003, 1])
        entries.set_many([ABSENT] * 2000, range(4001, 6001))

        assert 4001 == entries.span().first() and ABSENT is entries.first_key()
        assert [3002] == entries.span().numbers(reverse=True, limit=1)
        assert [2, 3003] == span_of(entries, "<", 2).numbers()
        assert 2**70 == entries.key_of(1)

    def test_compound_prefix(self) -> None:
        """A prefix narrows to the records with it; limits are for the part behind."""
        people = [("DE", 5), ("US", 7), ("DE", 9), ("US", 7), ("AT", 1), ("US", None)]
        entries = SortedEntries.build(people, range(1, 7), (1, -1))

        assert [5, 3, 1, 2, 4, 6] == entries.span().numbers()
        assert [2, 4, 6] == entries.span(prefix=("US",)).numbers()
        assert [2, 4] == entries.span(prefix=("US", 7)).numbers()
        limits = bounds(">=", 6)
        assert limits is not None
        assert [3] == entries.span(*limits[:4], prefix=("DE",)).numbers()
        assert [] == entries.span(prefix=("FR",)).numbers()
        assert ("AT", 1) == entries.first_key()

    def test_catching_up(self) -> None:
        """Many keys of the base's kind go in at once: new ones, changed ones, and twice given."""
        entries = SortedEntries.build(range(500), range(1, 501))
        model = dict(zip(range(1, 501), range(500), strict=True))
        for numbers in [range(400, 900), range(2000, 1000, -1), [7, 7, 8] * 100]:
            keys = [(number * 7919 + place) % 1000 for place, number in enumerate(numbers)]
            entries.set_many(keys, numbers)
            model.update(zip(numbers, keys, strict=True))

        rising = sorted(model.items(), key=lambda pair: (pair[1], pair[0]))
        assert [(key, number) for number, key in rising] == list(entries.items())

    @pytest.mark.parametrize("none", [None, ABSENT])
    def test_optional_keys(self, none: Any) -> None:
        """None and absent keys lie before an array of the others, which stays one."""
        entries = SortedEntries.build([2, none, 1, none] * 500, range(1, 2001))
        assert isinstance(entries._state.column, OptionalColumn)
        assert "<i8" == entries._state.column.kind.dtype
        for number in range(1, 1500):
            entries.set(number, none if number % 4 == 1 else number % 3)

        assert isinstance(entries._state.column, OptionalColumn)
        rest = range(1500, 2001)
        ones = [number for number in range(1, 1500) if number % 4 != 1 and number % 3 == 1]
        ones += [number for number in rest if number % 4 == 3]
        nones = [*range(1, 1500, 4), *[number for number in rest if number % 2 == 0]]
        assert ones == span_of(entries, "==", 1).numbers()
        assert nones == entries.span(high=(2,)).numbers()
        assert (len(nones) if none is None else 0) == span_of(entries, "==", None).count
        assert 2000 - len(nones) == entries.span(low=(2,)).count
        assert none is entries.first_key() and 2 == entries.last_key()
        assert 0 == span_of(entries, "==", "a").count

    @pytest.mark.parametrize("width", [0, 10, 1500, 2999, 5000])
    def test_ranges_of_any_width(self, width: int) -> None:
        """Both ends of a range are found, be they near each other or far."""
        entries = SortedEntries.build([key // 2 for key in range(6000)], range(1, 6001))
        for start in (0, 700, 2900):
            for operator, operand in [("between", (start, start + width)), ("<", start + width)]:
                low = start if operator == "between" else 0
                high = start + width + (operator == "between")
                expected = 2 * max(min(high, 3000) - low, 0)
                assert expected == span_of(entries, operator, operand).count

    @pytest.mark.parametrize(
        ("keys", "new"),
        [
            (["b", "a", "c"], "bb"),
            ([2, Decimal("1.5"), 0.5], Decimal("NaN")),
            ([datetime(2020, 1, day, tzinfo=ZoneInfo("Europe/Berlin")) for day in (2, 1, 3)], None),
            ([None, 3, 1], 2),
        ],
        ids=["texts", "numbers", "zone", "optional"],
    )
    def test_many_equal_keys(self, keys: list[Any], new: Any) -> None:
        """Keys that occur often are in order, numbers rising, before and after a new base."""
        model = dict(zip(range(1, 1501), keys * 500, strict=True))
        entries = SortedEntries.build(list(model.values()), list(model))
        for number in range(1, 1500):
            key = new if number % 4 == 0 else keys[number % 3]
            entries.set(number, key)
            model[number] = key

        rising = sorted(model, key=lambda number: (sort_key(model[number]), number))
        assert rising == entries.span().numbers()
        expected = [number for number in rising if sort_key(model[number]) == sort_key(keys[0])]
        assert expected == entries.span(prefix=(keys[0],)).numbers()

    def test_array(self) -> None:
        """The numbers of a span as an array, with changes and without."""
        entries = SortedEntries.build([3, 1, 2], [1, 2, 3])
        assert [2, 3, 1] == entries.span().array().tolist()

        entries.set(3, 9)

        assert [2, 1, 3] == entries.span().array().tolist()

    def test_nan_in_a_prefix(self) -> None:
        """A prefix asks what equals it, and nothing equals NaN."""
        entries = SortedEntries.build([(math.nan, 1), (1.0, 1)], [1, 2], (1, 1))

        assert [] == entries.span(prefix=(math.nan,)).numbers()
        assert 0 == SortedEntries.build([math.nan], [1]).span(prefix=(math.nan,)).count

    def test_a_delta_that_a_writer_is_changing(self) -> None:
        """A reader that finds half of a change gets an error."""
        entries = SortedEntries.build([1, 2], [1, 2])
        entries.set(3, 2)
        span = entries.span()
        entries.remove(3)

        with pytest.raises(RuntimeError):
            span.numbers()
        with pytest.raises(RuntimeError):
            span.rows(lambda numbers: numbers)

    def test_changed_rows_that_are_too_few(self) -> None:
        """A load that lost a record of the delta is an error too."""
        entries = SortedEntries()
        entries.set(1, 1)

        with pytest.raises(RuntimeError):
            entries.span().rows(lambda numbers: [])

    def test_value_of_another_type_in_its_place(self) -> None:
        """An equal key of another type, zone or unknown class takes the old one's place."""
        noon = datetime(2020, 1, 1, tzinfo=UTC)
        east = noon.astimezone(timezone(timedelta(hours=5)))
        for old, new in [(1, True), (1, 1.0), ([1], [True]), ([1], (1,)), (noon, east), ({1}, {2})]:
            entries = SortedEntries.build([old], [1])
            entries.set(1, new)

            assert repr(new) == repr(entries.first_key())

    def test_prefix_of_a_single_key(self) -> None:
        """For a single key the prefix is the key, in the base and beside it."""
        entries = SortedEntries.build([1, 2, 2], [1, 2, 3])
        entries.set(4, 2)

        assert [2, 3, 4] == entries.span(prefix=(2,)).numbers()

    def test_directions_must_fit(self) -> None:
        """A compound key of another length than the directions is a mistake."""
        entries = SortedEntries((1, -1))

        with pytest.raises(ValueError):
            entries.set(1, (1, 2, 3))
        assert 0 == len(entries)


class TestColumnEntries:
    """Values in arrays."""

    @pytest.mark.parametrize("value", ["a", 2**63, [1], 1j, 1.5, datetime(2020, 1, 1, fold=1)])
    def test_misfit(self, value: Any) -> None:
        """A value that an array of bools or dates can't hold ends its use, for good."""
        built = ColumnEntries.build([True, value], [1, 2])
        grown = ColumnEntries.build([date(2020, 1, 1)], [1])
        grown.set(2, value)
        grown.set(2, date(2020, 1, 1))
        many = ColumnEntries.build([True], [1])
        many.set_many([value] * 100, range(2, 102))

        assert not built.is_exact and not grown.is_exact and not many.is_exact

    def test_large_int(self) -> None:
        """An int beyond 64 bits does not fit among ints, one beyond 53 not among floats."""
        ints = ColumnEntries.build([1], [1])
        ints.set(2, 2**63)
        floats = ColumnEntries.build([1.5], [1])
        floats.set(2, 2**53)
        assert not ints.is_exact
        assert floats.is_exact and floats.is_mixed

        floats.set(2, 2**53 + 1)

        assert not floats.is_exact

    def test_column_that_can_not_tell(self) -> None:
        """Operands of unknown types, and aware ones of changing zones, are not answered."""
        column = ColumnEntries.build([datetime(2020, 1, 1, tzinfo=UTC)], [1])
        berlin = datetime(2020, 1, 1, 1, tzinfo=ZoneInfo("Europe/Berlin"))

        assert column.mask("<", berlin) is None
        assert column.mask("!=", {1}) is None
        assert column.mask("in", [{1}]) is None
        assert [True] == np.asarray(column.mask("==", datetime(2020, 1, 1, tzinfo=UTC))).tolist()

    def test_removed_rows_are_used_again(self) -> None:
        """Rows of removed numbers are left out, come back, and are cleared away when many."""
        column = ColumnEntries.build(range(5000), range(1, 5001))
        column.remove(9999)
        for number in range(1, 4001):
            column.remove(number)
            column.remove(number)
        assert 1000 == len(column) == column.count()
        assert column._rows < 3000

        column.set(1, 7)
        column.set(5001, 8)
        column.set(3, None)

        assert [1, 3, *range(4001, 5002)] == column.numbers().tolist()
        assert 1002 == column.count()
        assert [1] == column.numbers(column.mask("==", 7)).tolist()

    def test_items(self) -> None:
        """Values come back with their types, None and absent ones too, removed ones not."""
        day = date(2020, 1, 1)
        column = ColumnEntries.build([day, None, ABSENT, day], [1, 2, 3, 4])
        column.remove(4)

        assert [(day, 1), (None, 2), (ABSENT, 3)] == list(column.items())
        assert [True, True, True, False] == column.present().tolist()

    def test_aligned(self) -> None:
        """A mask of one column is one of another whose rows are others."""
        one = ColumnEntries.build([1, 2, 3], [1, 2, 3])
        other = ColumnEntries.build([4, 5, 6], [1, 2, 3])
        mask = one.mask(">", 1)
        assert mask is not None
        for _ in range(2):
            assert mask is other.aligned(one, mask)

        other.set_many([7] * 100, range(3, 103))
        other.remove(2)

        assert [3] == other.numbers(other.aligned(one, mask)).tolist()

    def test_zeros_of_both_signs(self) -> None:
        """Least and greatest may be either zero where both are there."""
        column = ColumnEntries.build([0.0, -0.0, 1.0], [1, 2, 3])

        assert column.has_both_zeros()
        assert not column.has_both_zeros(np.array([True, False, True]))

    def test_numbers_in_any_order(self) -> None:
        """Rows that came late are found, and their numbers rise all the same."""
        column = ColumnEntries.build([5, 6], [5, 6])
        for number in (3, 9, 4, 3):
            column.set(number, number)

        assert [3, 4, 5, 6, 9] == column.numbers().tolist()
        assert [3, 4] == column.numbers(column.mask("<", 5)).tolist()
        column.remove(3)
        assert 4 == len(column)

    def test_int_column_takes_floats(self) -> None:
        """A NaN or another float turns a column of ints into one of floats, if that rounds none."""
        column = ColumnEntries.build([1, 2], [1, 2])
        column.set(1, math.nan)
        assert column.is_exact and column.is_mixed
        assert [2] == column.numbers(column.mask("<", 5)).tolist()

        large = ColumnEntries.build([2**60, 2], [1, 2])
        large.set(2, 0.5)

        assert not large.is_exact

    def test_mask_of_an_older_column(self) -> None:
        """A mask made before rows were added is refused."""
        column = ColumnEntries.build([1, 2], [1, 2])
        mask = column.mask(">", 0)
        column.set(3, 3)

        with pytest.raises(RuntimeError):
            column.sum(mask)

    def test_limits_at_the_ends_of_64_bits(self) -> None:
        """Limits beyond what the array can hold find all or nothing."""
        column = ColumnEntries.build([-(2**63), 0, 2**63 - 1], [1, 2, 3])
        for operator, operand, expected in [
            ("<", -(2**63), []), ("<=", -(2**63), [1]), (">", 2**63 - 1, []),
            (">=", 2**63 - 1, [3]), (">", math.inf, []), ("<", math.inf, [1, 2, 3]),
            (">", -math.inf, [1, 2, 3]), ("<", 10**400, [1, 2, 3]), (">=", 0.5, [3]),
            ("<=", Decimal("-0.5"), [1]),
        ]:  # fmt: skip
            assert expected == column.numbers(column.mask(operator, operand)).tolist()
        floats = ColumnEntries.build([1.0, 1e308, math.nan], [1, 2, 3])
        assert [1, 2] == floats.numbers(floats.mask("<", 10**400)).tolist()
        assert [1, 2] == floats.numbers(floats.mask(">", -(10**400))).tolist()

    @pytest.mark.parametrize("seed", range(4))
    def test_float_sums_are_those_of_fsum(self, seed: int) -> None:
        """The sum of a large array is the nearest float, also where much of it cancels."""
        random = np.random.default_rng(seed)
        for scale in (0, 3, 30, 300):
            values = random.standard_normal(50_000) * 10.0 ** random.integers(
                -scale, scale + 1, 50_000
            )
            values[:100] = -values[-100:]

            assert math.fsum(values.tolist()) == sum_of_floats(values)

    def test_float_sum_between_two_floats(self) -> None:
        """A sum in the middle of two floats, which the fast way can't tell, is that of fsum."""
        values = np.zeros(50_000)
        values[0], values[20_000], values[30_000], values[40_000] = (
            2.0**53,
            1.0,
            2.0**-60,
            -(2.0**-60),
        )

        assert math.fsum(values.tolist()) == sum_of_floats(values)

    @pytest.mark.parametrize("count", [1, 30_000])
    def test_sums_beyond_floats(self, count: int) -> None:
        """Infinities and NaN go through, sums too large on the way come back."""
        zeros = [0.0] * count
        assert math.inf == sum_of_floats(np.array([math.inf, 1.0, *zeros]))
        assert math.isnan(sum_of_floats(np.array([math.inf, -math.inf, *zeros])))
        assert math.isnan(sum_of_floats(np.array([math.nan, *zeros])))
        assert 1e308 == sum_of_floats(np.array([1e308, 1e308, -1e308, *zeros]))
        with pytest.raises(OverflowError):
            sum_of_floats(np.array([1.7e308] * 3 + zeros))

    def test_int_sums_beyond_64_bits(self) -> None:
        """The sum of ints is Python's, however large."""
        values = [2**63 - 1, 2**63 - 1, -(2**63), -5, 2**62] * 3

        assert sum(values) == sum_of_ints(np.array(values, "<i8"))
        assert 2 == sum_of_ints(np.array([True, True, False]))


def test_readers_beside_a_writer() -> None:
    """Readers without a lock see an error of the three kinds at most, never anything else."""
    count = 600
    entries = SortedEntries.build(range(count), range(1, count + 1))
    pairs = SortedEntries.build(
        [(key % 7, key) for key in range(count)], range(1, count + 1), (1, -1)
    )
    column = ColumnEntries.build(range(count), range(1, count + 1))
    by_hash = HashEntries.build([key % 9 for key in range(count)], range(1, count + 1))
    reads: list[Callable[[], object]] = [
        lambda: span_of(entries, "between", (100, 500)).numbers(reverse=True),
        lambda: entries.span().rows(lambda numbers: numbers),
        entries.last_key,
        lambda: list(entries.items()),
        lambda: pairs.span(prefix=(3,)).numbers(reverse=True),
        lambda: column.numbers(column.mask("!=", 5)),
        lambda: column.sum(column.mask(">", 5)),
        lambda: list(by_hash.items()),
    ]
    is_done = threading.Event()
    surprises: list[Exception] = []

    def read() -> None:
        while not is_done.is_set():
            for one in reads:
                try:
                    one()
                except (IndexError, KeyError, RuntimeError):
                    pass
                except Exception as error:
                    surprises.append(error)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for step in range(4000):
        number = step * 7919 % (count + 50) + 1
        if step % 3:
            entries.set(number, None if step % 50 == 0 else step % 700)
            pairs.set(number, (step % 7, step))
            column.set(number, step)
            by_hash.set(number, (step % 11,))
        else:
            for structure in (entries, pairs, column, by_hash):
                structure.remove(number)
    is_done.set()
    for reader in readers:
        reader.join()

    assert [] == surprises


MANY: dict[str, Callable[[int], Any]] = {
    "different ints": lambda n: n * 7919 % 100_003,
    "equal ints": lambda n: n % 5,
    "floats with NaN": lambda n: [float("nan"), n % 9 / 4, 0.0][n % 3],
    "dates": lambda n: date(2000, 1, 1) + timedelta(days=n % 100),
    "bools": lambda n: n % 3 == 0,
    "with None": lambda n: None if n % 50 == 0 else n % 11,
    "of two kinds": lambda n: "text" if n == 300 else n,
}


@pytest.mark.parametrize("values", MANY)
@pytest.mark.parametrize("count", [255, 256, 1000, 1500])
@pytest.mark.parametrize("step", [1, 3])
def test_many_at_once(values: str, count: int, step: int) -> None:
    """Changing hundreds at once gives what changing them one by one gives."""
    value = MANY[values]
    size = 20_000
    one, other = (
        SortedEntries.build([value(n) for n in range(size)], range(1, size + 1)) for _ in range(2)
    )
    for entries in (one, other):
        for n in range(30, 60):
            entries.set(n, value(n + 1))
            entries.remove(n + 100)
        entries.set(size + 500, value(4))
    numbers = [size - 300 + n * step for n in range(count)]
    numbers += [*range(50, 70), 40, 40]
    keys = [value(n + 7) for n in range(len(numbers))]
    one.set_many(keys, numbers)
    for number, key in zip(numbers, keys, strict=True):
        other.set(number, key)

    assert repr(list(one.items())) == repr(list(other.items()))
    assert repr([one.key_of(n) for n in (50, 69)]) == repr([other.key_of(n) for n in (50, 69)])
    one.set(41, value(8))
    assert one.key_of(41) == value(8) or value(8) != value(8)
