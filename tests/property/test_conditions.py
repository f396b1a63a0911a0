"""Compiled conditions agree with a naive evaluation, on any records."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from memdb.query import Expression, F, compile_condition
from memdb.serializers import shape_of


@dataclass
class Inner:
    a: int
    b: str | None
    c: Any


@dataclass
class Outer:
    a: int
    b: str | None
    c: Any
    inner: Inner
    maybe: Inner | None
    table: dict[str, int]
    when: datetime


PATHS = [
    ("a",), ("b",), ("c",), ("inner",), ("table",), ("when",), ("when", "year"), ("c", "a"),
    ("c", "a", "b"), ("inner", "a"), ("inner", "b"), ("inner", "c"), ("inner", "c", "b"),
    ("maybe", "a"), ("maybe", "b"), ("maybe", "c"), ("table", "a"), ("table", "b"),
]  # fmt: skip

ORDERS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([0.5, 1.0, float("nan"), float("inf")]),
    st.sampled_from(["", "a", "b", "ab"]),
    st.sampled_from([b"", b"a", bytearray(b"a")]),
    st.sampled_from([Decimal(1), Decimal("NaN"), Decimal("sNaN")]),
    st.sampled_from(
        [date(2020, 1, 1), datetime(2020, 1, 1), datetime(2021, 1, 1, tzinfo=UTC)]
    ),
)  # fmt: skip

VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=2),
        st.tuples(inner),
        st.frozensets(st.integers(0, 2), max_size=2),
        st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=2),
    ),
    max_leaves=4,
)

# What the annotation of a path lets `<` and its kin compare with; anything, where none is here.
_NUMBERS = st.one_of(
    st.booleans(), st.integers(-3, 3), st.sampled_from([0.5, float("nan"), Decimal(1)])
)
_TEXTS = st.sampled_from(["", "a", "b", "ab"])
FITTING: dict[tuple[str, ...], st.SearchStrategy[Any]] = {
    ("a",): _NUMBERS,
    ("b",): _TEXTS,
    ("when",): st.sampled_from([datetime(2020, 1, 1), datetime(2021, 1, 1, tzinfo=UTC)]),
    ("when", "year"): VALUES,
    ("inner", "a"): _NUMBERS,
    ("inner", "b"): _TEXTS,
    ("maybe", "a"): _NUMBERS,
    ("maybe", "b"): _TEXTS,
    ("table", "a"): _NUMBERS,
    ("table", "b"): _NUMBERS,
}
# Of a record class, which has no order at all, or of dicts.
UNORDERED = [("inner",), ("maybe",), ("table",)]

# Now and then the value is not what the annotation says.
INNERS = st.builds(Inner, st.integers(-3, 3) | VALUES, st.none() | VALUES, VALUES)
RECORDS = st.builds(
    Outer,
    st.integers(-3, 3) | VALUES,
    st.sampled_from([None, "a", "ab"]) | VALUES,
    VALUES | INNERS,
    INNERS | VALUES,
    st.none() | INNERS | VALUES,
    st.dictionaries(st.sampled_from(["a", "b"]), st.integers(-3, 3)) | VALUES,
    st.just(datetime(2020, 1, 1)) | VALUES,
)
DICTS = st.dictionaries(
    st.sampled_from([path[0] for path in PATHS]), VALUES | INNERS, max_size=len(PATHS)
)

Naive = Callable[[Any], bool]
_ABSENT = object()


def _value(record: Any, path: tuple[str, ...]) -> Any:
    """Return what the path leads to, or _ABSENT."""
    for name in path:
        if isinstance(record, dict):
            record = record.get(name, _ABSENT)
        else:
            record = getattr(record, name, _ABSENT)
        if record is _ABSENT:
            return _ABSENT
    return record


def _naive(path: tuple[str, ...], test: Callable[[Any], Any]) -> Naive:
    """Return the evaluation of one comparison."""

    def matches(record: Any) -> bool:
        value = _value(record, path)
        if value is _ABSENT:
            return False
        try:
            return bool(test(value))
        except (TypeError, AttributeError, ArithmeticError):
            return False

    return matches


def _equals(value: Any, other: Any) -> bool:
    try:
        return bool(value == other)
    except ArithmeticError:
        return False


@st.composite
def comparisons(draw: st.DrawFn) -> tuple[Expression, Naive]:
    """Draw a comparison and its naive evaluation."""
    path = draw(st.sampled_from(PATHS))
    field: Any = F
    for name in path:
        field = field[name]
    kind = draw(st.sampled_from([*ORDERS, "in", "is", "contains", "between", "startswith"]))
    if kind == "!=":
        value = draw(VALUES)
        equal = _naive(path, lambda found: found == value)
        return field != value, lambda record: not equal(record)
    if kind not in ("==", "in", "is", "contains") and path in UNORDERED:
        path, field = ("c",), F.c
    fitting = FITTING.get(path, VALUES)
    if kind in ORDERS:
        value = draw(VALUES if kind == "==" else fitting)
        return ORDERS[kind](field, value), _naive(path, lambda found: ORDERS[kind](found, value))
    if kind == "in":
        values = draw(st.lists(VALUES, max_size=3))
        return field.in_(values), _naive(
            path, lambda found: any([_equals(found, value) for value in values])
        )
    if kind == "is":
        value = draw(st.sampled_from([None, True, False]))
        return field.is_(value), _naive(path, lambda found: found is value)
    if kind == "contains":
        value = draw(VALUES)
        return field.contains(value), _naive(path, lambda found: value in found)
    if kind == "between":
        low, high = draw(fitting), draw(fitting)
        return field.between(low, high), _naive(path, lambda found: low <= found <= high)
    if fitting is not VALUES and fitting is not _TEXTS:
        path, field = ("c",), F.c
    prefix = draw(st.sampled_from(["a", ""]) if fitting is _TEXTS else st.sampled_from(["a", b""]))
    return field.startswith(prefix), _naive(path, lambda found: found.startswith(prefix))


def _combined(
    inner: st.SearchStrategy[tuple[Expression, Naive]],
) -> st.SearchStrategy[tuple[Expression, Naive]]:
    pairs = st.tuples(inner, inner)
    return st.one_of(
        pairs.map(lambda p: (p[0][0] & p[1][0], lambda r: p[0][1](r) and p[1][1](r))),
        pairs.map(lambda p: (p[0][0] | p[1][0], lambda r: p[0][1](r) or p[1][1](r))),
        inner.map(lambda p: (~p[0], lambda r: not p[1](r))),
    )


CONDITIONS = st.recursive(comparisons(), _combined, max_leaves=6)


@given(condition=CONDITIONS, records=st.lists(RECORDS, min_size=1, max_size=4))
def test_typed_records(condition: tuple[Expression, Naive], records: list[Outer]) -> None:
    """On typed records the compiled function finds what the naive evaluation finds."""
    expression, naive = condition
    compiled = compile_condition(expression, {}, shape_of(Outer))

    for record in records:
        assert compiled.matches(record) is naive(record)


@given(condition=CONDITIONS, records=st.lists(DICTS, min_size=1, max_size=4))
def test_dict_records(condition: tuple[Expression, Naive], records: list[dict[str, Any]]) -> None:
    """On dicts, with and without the keys, it does too."""
    expression, naive = condition
    compiled = compile_condition(expression, {}, shape_of(None))

    for record in records:
        assert compiled.matches(record) is naive(record)


@given(condition=CONDITIONS, record=RECORDS)
def test_opposite(condition: tuple[Expression, Naive], record: Outer) -> None:
    """Each record matches exactly one of a condition and its opposite."""
    expression, _ = condition
    plain = compile_condition(expression, {}, shape_of(Outer)).matches(record)
    opposite = compile_condition(~expression, {}, shape_of(Outer)).matches(record)

    assert plain is not opposite
