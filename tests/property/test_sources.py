"""The generated source agrees with `evaluate`, whether it trusts the annotations or not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from memdb.query import (
    NO_MATCH,
    Expression,
    F,
    P,
    SourceWriter,
    Value,
    bind,
    case,
    check_parameters,
    constants,
    evaluate,
    optional,
    parameters,
    structure,
    value_of,
)
from memdb.serializers import Shape, shape_of


@dataclass
class Inner:
    size: int = 0
    label: str | None = None


@dataclass
class Row:
    number: int = 0
    other: int | None = None
    ratio: float = 0.0
    amount: Decimal = Decimal(0)
    flag: bool = False
    maybe: bool | None = None
    text: str = ""
    note: str | None = None
    when: datetime = datetime(2020, 1, 1)
    tags: list[str] = field(default_factory=list)
    table: dict[str, int] = field(default_factory=dict)
    inner: Inner | None = None
    extra: Any = None


ROW, DICT = shape_of(Row), shape_of(None)

INTEGERS = st.integers(-3, 3)
FLOATS = st.sampled_from([-1.0, 0.0, 0.5, float("nan"), float("inf")])
DECIMALS = st.sampled_from([Decimal(0), Decimal("1.5"), Decimal("NaN"), Decimal("sNaN")])
TEXTS = st.sampled_from(["", "a", "ab", "b"])
DATETIMES = st.sampled_from([datetime(2020, 1, 1), datetime(2021, 1, 1, tzinfo=UTC)])
LISTS = st.lists(TEXTS, max_size=2)
TABLES = st.dictionaries(st.sampled_from(["a", "b"]), INTEGERS)
NUMBERS = st.one_of(INTEGERS, FLOATS, DECIMALS, st.booleans())
ANYTHING = st.one_of(st.none(), NUMBERS, TEXTS, DATETIMES, LISTS, TABLES)

EXACT = st.builds(
    Row, INTEGERS, st.none() | INTEGERS, FLOATS, DECIMALS, st.booleans(),
    st.none() | st.booleans(), TEXTS, st.none() | TEXTS, DATETIMES, LISTS, TABLES,
    st.none() | st.builds(Inner, INTEGERS, st.none() | TEXTS), ANYTHING,
)  # fmt: skip
LOOSE = st.builds(
    Row, *[EXACT.map(lambda row, name=name: getattr(row, name)) | ANYTHING for name in vars(Row())]
)
DICTS = EXACT.flatmap(
    lambda row: st.lists(st.sampled_from(list(vars(row))), unique=True).map(
        lambda names: {name: getattr(row, name) for name in names}
    )
)

GIVEN = st.fixed_dictionaries(
    {"number": INTEGERS, "text": TEXTS, "among": st.lists(INTEGERS | TEXTS, max_size=3)},
    optional={"maybe": st.none() | INTEGERS},
)


@st.composite
def numbers(draw: st.DrawFn, depth: int = 2) -> Any:
    """Draw a value that is a number, more or less."""
    kinds = ["field", "field", "len", "year", "item"]
    kind = draw(st.sampled_from(kinds + ["calculate", "minus", "abs"] * bool(depth)))
    if kind == "field":
        return draw(
            st.sampled_from(
                [F.number, F.other, F.ratio, F.amount, F.inner.size, F.table["a"], F.extra, F.flag]
            )
        )
    if kind == "len":
        return draw(st.sampled_from([F.text, F.note, F.tags, F.table, F.extra])).len_()
    if kind == "year":
        return F.when.year
    if kind == "item":
        return draw(st.sampled_from([F.extra[0], F.table["b"]]))
    inside = draw(numbers(depth - 1))
    if kind == "minus":
        return -inside
    if kind == "abs":
        return abs(inside)
    other = draw(numbers(depth - 1) | NUMBERS | st.just(P.number))
    operation: Callable[[Any, Any], Any] = draw(
        st.sampled_from(
            [
                lambda a, b: a + b,
                lambda a, b: a - b,
                lambda a, b: a * b,
                lambda a, b: a / b,
                lambda a, b: b // a,
                lambda a, b: a % b,
                lambda a, b: b - a,
            ]
        )
    )
    return operation(inside, other)


@st.composite
def comparisons(draw: st.DrawFn) -> Expression:
    """Draw a comparison of numbers, of texts, of collections, or for equality with anything."""
    kind = draw(st.sampled_from(["number", "text", "collection", "equal", "datetime"]))
    if kind == "number":
        value, operand = draw(numbers()), draw(numbers() | NUMBERS | st.just(P.number))
        tests = [
            value < operand, value <= operand, value > operand, value >= operand,
            value == operand, value != operand, value.between(operand, 3),
            value.between(-1, P.number), value.in_([1, 2, P.number]), value.in_(P.among),
        ]  # fmt: skip
    elif kind == "text":
        value = draw(st.sampled_from([F.text, F.note, F.inner.label, F.tags[0], F.tags[-1]]))
        operand = draw(TEXTS | st.sampled_from([F.text, F.note, P.text]))
        tests = [
            value < operand, value >= operand, value.startswith(operand), value.contains(operand),
            value.endswith(operand),
            value.matches("^a"), value.matches(P.text), value.in_(P.among), value + "b" == operand,
        ]  # fmt: skip
    elif kind == "collection":
        value = draw(st.sampled_from([F.tags, F.table, F.extra, F.text]))
        tests = [
            value.contains("a"), value.contains(P.text), value.contains(F.text),
            F.text.in_(value), value.contains(F.note), value == ["a"],
        ]  # fmt: skip
    elif kind == "equal":
        names = st.sampled_from(list(vars(Row())))
        value, operand = F[draw(names)], draw(ANYTHING | names.map(F.__getitem__))
        tests = [
            value == operand, value != operand, value == True, value == False,  # noqa: E712
            value == None, value != None, value != True, value.is_none(),  # noqa: E711, E712
            value.is_(True), value.in_([operand, None]),
        ]  # fmt: skip
    else:
        operand = draw(DATETIMES | st.just(F.when))
        tests = [F.when < operand, F.when >= operand, F.when.between(operand, operand)]
    return draw(st.sampled_from(tests))


def _combined(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    return st.one_of(
        st.tuples(inner, inner).map(lambda pair: pair[0] & pair[1]),
        st.tuples(inner, inner).map(lambda pair: pair[0] | pair[1]),
        inner.map(lambda part: ~part),
        inner.map(lambda part: optional(P.maybe, part)),
        st.tuples(inner, inner).map(lambda pair: case(P.number, {0: pair[0], 1.0: pair[1]})),
        st.tuples(inner, inner).map(lambda pair: case(P.text, {"a": pair[0]}, pair[1])),
    )


CONDITIONS = st.recursive(comparisons(), _combined, max_leaves=5)


def compiled(
    expression: Expression, shape: Shape, is_typed: bool, values: dict[str, Any]
) -> Callable[[Any], bool]:
    """Return the function that the source makes, as a query would."""
    writer = SourceWriter(shape, is_typed=is_typed)
    source = writer.condition(expression)
    held = constants(expression)
    namespace = {
        **writer.namespace,
        **{f"c{number}": value for number, value in enumerate(held)},
        **{f"p_{name}": value for name, value in values.items()},
    }
    exec("\n".join([*writer.prelude, f"def matches(r): return ({source})"]), namespace)
    assert len(held) == writer.constants

    def matches(record: Any) -> bool:
        try:
            return bool(namespace["matches"](record))
        except NO_MATCH:
            return evaluate(expression, record, values)

    return matches


def _agrees(
    condition: Expression, shape: Shape, is_typed: bool, records: list[Any], values: dict[str, Any]
) -> None:
    known = {name: value for name, value in values.items() if name in parameters(condition)}
    checked = check_parameters(condition, known)
    matches = compiled(condition, shape, is_typed, checked)
    bound = bind(condition, known)

    for record in records:
        expected = evaluate(condition, record, checked)
        assert expected is matches(record)
        assert expected is evaluate(bound, record)
        assert expected is not evaluate(~condition, record, checked)


@given(condition=CONDITIONS, records=st.lists(EXACT, min_size=1, max_size=4), values=GIVEN)
def test_trusting(condition: Expression, records: list[Row], values: dict[str, Any]) -> None:
    """Where the values are as annotated, so does what trusts the annotations."""

    _agrees(condition, ROW, True, records, values)


@given(condition=CONDITIONS, records=st.lists(LOOSE, min_size=1, max_size=4), values=GIVEN)
def test_typed_records(condition: Expression, records: list[Row], values: dict[str, Any]) -> None:
    """Whatever the values are, what does not trust the annotations agrees."""

    _agrees(condition, ROW, False, records, values)


@given(condition=CONDITIONS, records=st.lists(DICTS, min_size=1, max_size=4), values=GIVEN)
def test_dicts(condition: Expression, records: list[Any], values: dict[str, Any]) -> None:
    """On dicts, with and without the keys, too."""

    _agrees(condition, DICT, False, records, values)


@given(value=numbers(), record=EXACT, is_typed=st.booleans(), number=INTEGERS)
def test_values(value: Value, record: Row, is_typed: bool, number: int) -> None:
    """The source of a value gives the value, or `absent`, or raises what means absent."""
    writer = SourceWriter(ROW, is_typed=is_typed)
    source = writer.value(value)
    names = {f"c{place}": constant for place, constant in enumerate(constants(value))}
    namespace = {**writer.namespace, **names, "p_number": number, "r": record}
    expected = value_of(value, record, {"number": number})

    try:
        found = eval(source, namespace)
    except NO_MATCH:
        found = namespace["absent"]
    assert repr(expected) == repr(found)


@given(first=CONDITIONS, second=CONDITIONS)
def test_structure(first: Expression, second: Expression) -> None:
    """Conditions of one structure have one source."""
    if structure(first) == structure(second):
        sources = [SourceWriter(ROW, is_typed=True).condition(each) for each in (first, second)]

        assert sources[0] == sources[1]
