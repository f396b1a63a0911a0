"""The structures of the indexes against plain lists, after any changes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from memdb.indexes import (
    ABSENT,
    NO_KEY,
    ColumnEntries,
    HashEntries,
    SortedEntries,
    UniqueEntries,
    bounds,
    descending,
    sort_key,
)
from memdb.indexes import _sorted as sorted_module
from memdb.indexes import _sorted_span as span_module

BERLIN = ZoneInfo("Europe/Berlin")
EAST = timezone(timedelta(hours=5))
NAN = math.nan
MICROSECOND = timedelta(microseconds=1)

# There are many kinds of keys; each has few examples in a plain run.
FEW = settings() if settings.get_current_profile_name() == "fuzz" else settings(max_examples=40)

INTS = st.one_of(st.integers(-3, 3), st.sampled_from([2**53, 2**53 + 1, -(2**63), 2**63 - 1]))
FLOATS = st.sampled_from(
    [0.0, -0.0, 1.0, 0.5, -2.5, NAN, -NAN, math.inf, -math.inf, 2.0**53, 1e300, 5e-324]
)
NUMBERS = st.one_of(
    INTS,
    FLOATS,
    st.booleans(),
    st.sampled_from([2**63, -(2**63) - 1, 10**400, -(10**400), Fraction(1, 3)]),
    st.sampled_from([Decimal("0.5"), Decimal("NaN"), Decimal("sNaN"), Decimal("Infinity")]),
)
TEXTS = st.sampled_from(["", "a", "ab", "abc", "b", "é", "\U0010ffff"])
BYTES = st.sampled_from([b"", b"a", b"ab", b"\xff", bytearray(b"a")])
DATES = st.dates(date(2020, 1, 1), date(2020, 1, 5))
NAIVE = st.sampled_from(
    [
        datetime(2020, 1, 1),
        datetime(2020, 1, 1) + MICROSECOND,
        datetime(1, 1, 1),
        datetime(9999, 12, 31, 23, 59, 59, 999999),
    ]
)
FOLDED = st.one_of(NAIVE, st.just(datetime(2020, 1, 1, fold=1)))
FIXED = st.sampled_from(
    [
        datetime(2020, 1, 1, tzinfo=UTC),
        datetime(2020, 1, 2, tzinfo=UTC),
        datetime.min.replace(tzinfo=UTC),
    ]
)
AWARE = st.one_of(
    FIXED,
    st.sampled_from(
        [
            datetime(2020, 1, 1, 5, tzinfo=EAST),
            datetime(1, 1, 1, tzinfo=EAST),
            datetime(2020, 10, 25, 2, 30, tzinfo=BERLIN),
            datetime(2020, 10, 25, 2, 30, tzinfo=BERLIN, fold=1),
            datetime(2020, 10, 25, 0, 30, tzinfo=UTC),
            datetime(2020, 3, 29, 2, 30, tzinfo=BERLIN),
        ]
    ),
)
TIMES = st.sampled_from([time(1), time(2), time(1, tzinfo=UTC), time(6, tzinfo=EAST)])
OTHERS = st.one_of(
    st.sampled_from([timedelta(1), timedelta(-1)]),
    st.sampled_from([UUID(int=1), UUID(int=2)]),
    st.sampled_from([(1,), [1], (1, None), (), ("a", [NAN])]),
)
ANYTHING = st.one_of(
    st.sampled_from([None, ABSENT]), NUMBERS, TEXTS, BYTES, DATES, FOLDED, AWARE, TIMES, OTHERS
)
NUMBER_IDS = st.one_of(st.integers(1, 12), st.sampled_from([100, 2**31, 2**40, 2**62]))

KINDS = [
    INTS, FLOATS, st.booleans(), NUMBERS, TEXTS, BYTES, DATES, NAIVE, FOLDED, FIXED, AWARE, TIMES,
    OTHERS, ANYTHING, st.one_of(st.just(None), INTS),
    st.sampled_from([None, ABSENT, date(2020, 1, 1), date(2020, 1, 2)]),
]  # fmt: skip
KIND_NAMES = [
    "ints", "floats", "bools", "numbers", "texts", "bytes", "dates", "naive", "folded", "fixed",
    "aware", "times", "others", "anything", "optional", "absent dates",
]  # fmt: skip

Key = Callable[[Any], Any]


def changes_of(keys: st.SearchStrategy[Any]) -> st.SearchStrategy[list[tuple[str, Any]]]:
    """Return changes: set one, remove one, set many."""
    return st.lists(
        st.one_of(
            st.tuples(st.just("set"), st.tuples(NUMBER_IDS, keys)),
            st.tuples(st.just("remove"), NUMBER_IDS),
            st.tuples(st.just("many"), st.dictionaries(NUMBER_IDS, keys, max_size=4)),
        ),
        max_size=15,
    )


def changed(entries: Any, model: dict[int, Any], changes: list[tuple[str, Any]]) -> None:
    """Make the changes in the structure and in the model."""
    for name, what in changes:
        if name == "set":
            number, key = what
            entries.set(number, key)
            model[number] = key
        elif name == "remove":
            entries.remove(what)
            model.pop(what, None)
        else:
            entries.set_many(list(what.values()), list(what))
            model.update(what)


@pytest.fixture(autouse=True, scope="module")
def _small_sizes() -> Iterator[None]:
    """Small limits force new bases and several blocks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(span_module, "LEAST_CHANGES", 5)
        patch.setattr(sorted_module, "LEAST_CHANGES", 20)
        patch.setattr(span_module, "BLOCK_BITS", 2)
        patch.setattr(span_module, "_BLOCK", 4)
        yield


def is_within(limits: Any, key: Any) -> bool:
    """Return whether a sort key lies within bounds."""
    return bool(
        (key > limits.low if limits.is_low_open else key >= limits.low)
        and (key < limits.high if limits.is_high_open else key <= limits.high)
    )


def agrees(span: Any, model: dict[int, Any], key: Key) -> None:
    """Check a span against the numbers and keys that should be in it."""
    rising = [
        number for _, number in sorted((key(value), number) for number, value in model.items())
    ]
    falling = sorted(sorted(model), key=lambda number: key(model[number]), reverse=True)

    assert len(model) == span.count == len(span)
    assert rising == span.numbers()
    assert falling == span.numbers(reverse=True)
    for limit in (0, 1, 2, len(model), len(model) + 1):
        assert rising[:limit] == span.numbers(limit=limit)
        assert falling[:limit] == span.numbers(reverse=True, limit=limit)
    assert (rising[0] if rising else None) == span.first()
    assert (falling[0] if falling else None) == span.last()
    for _ in range(2):
        assert [(number, model[number]) for number in rising] == [
            (number, model[number]) for number in span.rows(lambda numbers: numbers)
        ]


def same(one: Any, other: Any) -> bool:
    """Return whether values are the same to a user: in the order, type, and zone."""
    return (
        type(one) is type(other)
        and sort_key(one) == sort_key(other)
        and str(getattr(one, "tzinfo", None)) == str(getattr(other, "tzinfo", None))
        and getattr(one, "fold", 0) == getattr(other, "fold", 0)
    )


@pytest.mark.parametrize("keys", KINDS, ids=KIND_NAMES)
def test_sorted_entries(keys: st.SearchStrategy[Any]) -> None:
    """Sorted entries are those of a sorted list: whole, in ranges, turned round, limited."""

    @FEW
    @given(
        st.dictionaries(NUMBER_IDS, keys, max_size=14),
        changes_of(st.one_of(keys, keys, ANYTHING)),
        st.lists(st.tuples(st.sampled_from(["<", "<=", ">", ">=", "=="]), ANYTHING | keys)),
        st.lists(st.tuples(keys, keys), max_size=3),
    )
    def check(
        start: dict[int, Any],
        changes: list[tuple[str, Any]],
        comparisons: list[tuple[str, Any]],
        pairs: list[tuple[Any, Any]],
    ) -> None:
        model = dict(start)
        entries = SortedEntries.build(list(start.values()), list(start))
        changed(entries, model, changes)

        agrees(entries.span(), model, sort_key)
        assert len(model) == len(entries)
        for number in model:
            assert number in entries and same(model[number], entries.key_of(number))
        for limits in [
            *[bounds(operator, operand) for operator, operand in comparisons],
            *[bounds("between", pair) for pair in pairs],
        ]:
            if limits is not None:
                inside = {n: v for n, v in model.items() if is_within(limits, sort_key(v))}
                agrees(entries.span(*limits[:4]), inside, sort_key)
        rebuilt = SortedEntries.build(list(model.values()), list(model))
        assert [number for _, number in rebuilt.items()] == [n for _, n in entries.items()]
        if model:
            ends = sorted(map(sort_key, model.values()))
            assert ends[0] == sort_key(entries.first_key())
            assert ends[-1] == sort_key(entries.last_key())

    check()


@pytest.mark.parametrize(
    "directions", [(1, 1), (1, -1), (-1, 1), (-1, -1), (1, -1, 1), (-1,)], ids=str
)
@pytest.mark.parametrize("is_coded", [True, False], ids=["codes", "tuples"])
def test_compound_entries(
    directions: tuple[int, ...], is_coded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compound entries are those of a sorted list of tuples, each part in its direction."""
    if not is_coded:
        monkeypatch.setattr("memdb.indexes._sorted_compound._LARGEST_CODE", 8)
    part = st.one_of(st.none(), st.integers(0, 2), TEXTS, FLOATS)
    count = len(directions)
    keys = part if count == 1 else st.tuples(*[part] * count)

    def parts_of(value: Any) -> tuple[Any, ...]:
        return (value,) if count == 1 else value

    def key(value: Any) -> Any:
        return tuple(
            sort_key(part) if direction > 0 else descending(sort_key(part))
            for part, direction in zip(parts_of(value), directions, strict=True)
        )

    @FEW
    @given(
        st.dictionaries(NUMBER_IDS, keys, max_size=14),
        changes_of(keys),
        st.lists(
            st.tuples(keys, st.integers(0, count), st.sampled_from(["<", ">=", "=="]), part),
            max_size=5,
        ),
    )
    def check(
        start: dict[int, Any],
        changes: list[tuple[str, Any]],
        lookups: list[tuple[Any, int, str, Any]],
    ) -> None:
        model = dict(start)
        entries = SortedEntries.build(list(start.values()), list(start), directions)
        changed(entries, model, changes)

        agrees(entries.span(), model, key)
        for number in model:
            assert key(model[number]) == key(entries.key_of(number))
        for whole, length, operator, operand in lookups:
            prefix = parts_of(whole)[:length]
            heads = tuple(map(sort_key, prefix))
            inside = {
                number: value
                for number, value in model.items()
                if all(map(is_found, prefix))
                and heads == tuple(map(sort_key, parts_of(value)[:length]))
            }
            agrees(entries.span(prefix=prefix), inside, key)
            limits = bounds(operator, operand)
            if length < count and limits is not None:
                narrowed = {
                    number: value
                    for number, value in inside.items()
                    if is_within(limits, sort_key(parts_of(value)[length]))
                }
                agrees(entries.span(*limits[:4], prefix=prefix), narrowed, key)

    check()


HASHABLE = st.one_of(
    st.integers(0, 3),
    st.booleans(),
    TEXTS,
    FLOATS,
    st.tuples(st.integers(0, 1), FLOATS),
    st.just(Decimal("NaN")),
)


def is_found(key: Any) -> bool:
    """Return whether a key equals itself, in each part."""
    parts = key if isinstance(key, tuple) else (key,)
    return all(part == part for part in parts)


@given(
    st.dictionaries(NUMBER_IDS, st.lists(HASHABLE, max_size=3)),
    st.lists(st.tuples(NUMBER_IDS, st.none() | st.lists(HASHABLE, max_size=3)), max_size=20),
    st.booleans(),
)
def test_hash_entries(
    start: dict[int, list[Any]], changes: list[tuple[int, list[Any] | None]], is_single: bool
) -> None:
    """Hash entries find the numbers that a scan finds, and equal those of a rebuild."""
    if is_single:
        start = {number: keys[:1] for number, keys in start.items() if keys}
        changes = [(number, keys and keys[:1]) for number, keys in changes]
    model = dict(sorted(start.items()))
    if is_single:
        entries = HashEntries.build([keys[0] for keys in model.values()], list(model))
    else:
        entries = HashEntries.build_many(list(model.values()), list(model))
    for number, keys in changes:
        if keys is None:
            entries.remove(number)
            model.pop(number, None)
        else:
            entries.set(number, tuple(keys))
            model[number] = keys

    assert len(model) == len(entries)
    every = [key for keys in model.values() for key in keys]
    for key in [*every, *[0, 1, "a", NAN, (0, NAN)]]:
        expected = sorted(
            number
            for number, keys in model.items()
            if is_found(key) and any(is_found(other) and other == key for other in keys)
        )
        bucket = entries.find(key)
        assert expected == ([] if bucket is None else bucket.numbers.tolist())
        assert bucket is None or bucket.rows is None
    rebuilt = HashEntries.build_many([model[number] for number in sorted(model)], sorted(model))
    assert dict(rebuilt.items()) == dict(entries.items())
    for number, keys in model.items():
        assert number in entries
        assert set(filter(is_found, keys)) == set(filter(is_found, entries.keys_of(number)))
    # A single number is kept as such.
    assert all(type(found) is int or len(found.numbers) > 1 for found in entries.buckets.values())


@given(
    st.dictionaries(HASHABLE, NUMBER_IDS),
    st.lists(st.tuples(NUMBER_IDS, HASHABLE | st.just(NO_KEY) | st.none()), max_size=20),
)
def test_unique_entries(start: dict[Any, int], changes: list[tuple[int, Any]]) -> None:
    """Unique entries find the number that has a key, whoever had it before."""
    keys = dict(sorted({number: key for key, number in start.items()}.items()))
    entries = UniqueEntries.build(list(keys.values()), list(keys))
    model = {key: number for number, key in keys.items() if is_found(key)}
    for number, key in changes:
        model = {other: owner for other, owner in model.items() if owner != number}
        if key is None:
            entries.remove(number)
            keys.pop(number, None)
            continue
        entries.set(number, key)
        keys.pop(number, None)
        if key is not NO_KEY:
            keys[number] = key
            if is_found(key):
                model[key] = number

    assert model == entries.numbers == dict(entries.items())
    assert len(keys) == len(entries)
    for key in [*keys.values(), 0, "a", NAN]:
        assert (model.get(key, 0) if is_found(key) else 0) == entries.find(key)
    for number, key in keys.items():
        assert repr(key) == repr(entries.key_of(number))


COLUMN_KINDS = [
    INTS,
    FLOATS,
    st.one_of(INTS.filter(lambda n: abs(n) <= 2**53), FLOATS),
    st.booleans(),
    DATES,
    NAIVE,
    FIXED,
]
OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "==": lambda value, operand: value == operand,
    "!=": lambda value, operand: value != operand,
    "<": lambda value, operand: value < operand,
    "<=": lambda value, operand: value <= operand,
    ">": lambda value, operand: value > operand,
    ">=": lambda value, operand: value >= operand,
    "between": lambda value, operand: operand[0] <= value <= operand[1],
    "in": lambda value, operand: any(holds("==", value, one) for one in operand),
}


def holds(operator: str, value: Any, operand: Any) -> bool:
    """Return what Python's comparison says; where it says that it can't, only != holds."""
    if value is ABSENT:
        return operator == "!="
    try:
        return bool(OPERATORS[operator](value, operand))
    except (TypeError, ArithmeticError):
        return operator == "!="


@pytest.mark.parametrize(
    "values", COLUMN_KINDS, ids=["ints", "floats", "mixed", "bools", "dates", "naive", "fixed"]
)
def test_column_entries(values: st.SearchStrategy[Any]) -> None:
    """A column finds, counts and sums what a loop over its values does."""
    optional = st.one_of(values, values, values, st.sampled_from([None, ABSENT]))
    operands = st.one_of(values, values, NUMBERS, NAIVE, FIXED, DATES, TEXTS, st.none())

    @FEW
    @given(
        st.dictionaries(NUMBER_IDS, optional),
        changes_of(optional),
        st.lists(
            st.one_of(
                st.tuples(st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), operands),
                st.tuples(st.just("between"), st.tuples(operands, operands)),
                st.tuples(st.just("in"), st.lists(operands, max_size=3)),
            )
        ),
    )
    @example({1: 1, 2: None, 3: ABSENT}, [], [("==", None), ("!=", None), ("in", [])])
    def check(
        start: dict[int, Any], changes: list[tuple[str, Any]], lookups: list[tuple[str, Any]]
    ) -> None:
        model = dict(sorted(start.items()))
        entries = ColumnEntries.build(list(model.values()), list(model))
        changed(entries, model, changes)
        if not entries.is_exact:
            types = {type(value) for value in [*start.values(), *model.values()]}
            assert {int, float} <= types or changes
            return

        assert len(model) == len(entries)
        assert sorted(model) == entries.numbers().tolist()
        aggregates(entries, model, None)
        for operator, operand in lookups:
            mask = entries.mask(operator, operand)
            assert mask is not None
            chosen = {
                number: value
                for number, value in sorted(model.items())
                if holds(operator, value, operand)
            }
            assert list(chosen) == entries.numbers(mask).tolist(), (operator, operand)
            aggregates(entries, chosen, mask)

    check()


def aggregates(entries: ColumnEntries, model: dict[int, Any], mask: Any) -> None:
    """Check count, sum, mean, min and max against a loop."""
    values = [value for value in model.values() if value is not None and value is not ABSENT]
    assert len(values) == entries.count(mask)
    ranked = sorted(values, key=sort_key)
    assert ([*ranked, None][0] is None) == (entries.min(mask) is None)
    if values:
        assert sort_key(ranked[0]) == sort_key(entries.min(mask))
        assert sort_key(ranked[-1]) == sort_key(entries.max(mask))
    if values and isinstance(values[0], date):
        with pytest.raises(TypeError):
            entries.sum(mask)
        return
    try:
        is_float = entries.is_mixed or float in map(type, values)
        expected = math.fsum(values) if is_float and values else sum(values)
    except ValueError:
        expected = NAN
    assert sort_key(expected) == sort_key(entries.sum(mask))
    if values:
        assert sort_key(expected / len(values)) == sort_key(entries.mean(mask))
    else:
        assert entries.mean(mask) is None
