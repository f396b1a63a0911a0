"""Random collections, indexes and questions, and how the database is asked them.

`naive` says what a question means; here it is drawn to suit a schema, and put to a collection in
every way that there is.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
from hypothesis import strategies as st

import memdb
from memdb.query import F, P, case, count_, optional
from tests.support import naive
from tests.support.exact import assert_exact
from tests.support.naive import (
    All,
    Applied,
    Calculation,
    Call,
    Choice,
    Condition,
    Constant,
    No,
    Optionally,
    Parameter,
    Path,
    Question,
    Row,
    Some,
    Term,
    Test,
    Value,
)

PARIS = ZoneInfo("Europe/Paris")
KATHMANDU = timezone(timedelta(hours=5, minutes=45))
NAN = float("nan")


@dataclass(frozen=True)
class Address:
    """A record inside a record; hashable."""

    city: str
    code: int | None = None


class Shown:
    """Is shown by hypothesis as its ``repr`` has it, where it would list every field."""

    def _repr_pretty_(self, printer: Any, is_cycle: bool) -> None:
        printer.text(repr(self))


# -- schemas ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class FieldKind(Shown):
    """A field: its annotation, and the values that it has in the tests.

    Attributes:
        name: Of the field, and what it is for.
        annotation: Its type.
        values: What it may hold; the first ones are met most.
        operands: What `<` and its kin compare it with.
        parts: What may be in one of its values; empty where ``contains`` makes no sense.
        is_hashable: Whether the annotation promises values that are.
        is_number: Whether it can be calculated with.
        is_plain: Whether equal values are the same value: no NaN, nothing of several types.
    """

    name: str
    annotation: Any
    values: tuple[Any, ...]
    operands: tuple[Any, ...] = ()
    parts: tuple[Any, ...] = ()
    is_hashable: bool = True
    is_number: bool = False
    is_plain: bool = True

    def __repr__(self) -> str:
        return self.name


_NUMBERS = (*(0, 1, 2, 3, -1, -2), *(2**53, 2**53 + 1, 2**62, 2**63, -(2**63), 2**70))
_TEXTS = ("a", "b", "ab", "", "B", "a\uffff", "a\U0010ffff", "é", "\ud800", "a\x00")
_MOMENTS = (
    datetime(2024, 10, 27, 2, 30),
    datetime(2024, 10, 27, 2, 30, fold=1),
    datetime(2024, 10, 27, 0, 30),
    datetime(2024, 1, 1),
    datetime(1969, 12, 31, 23, 59, 59, 999_999),
    datetime.min,
    datetime.max,
)
_INSTANTS = (
    datetime(2024, 10, 27, 0, 30, tzinfo=UTC),
    datetime(2024, 10, 27, 1, 30, tzinfo=UTC),
    datetime(2024, 10, 27, 2, 30, tzinfo=PARIS),
    datetime(2024, 10, 27, 2, 30, tzinfo=PARIS, fold=1),
    datetime(2024, 10, 27, 2, 45, tzinfo=PARIS),
    datetime(2024, 10, 27, 6, 15, tzinfo=KATHMANDU),
    datetime(2024, 3, 31, 2, 30, tzinfo=PARIS),
    datetime.min.replace(tzinfo=UTC),
    datetime.min.replace(tzinfo=KATHMANDU),
    datetime.max.replace(tzinfo=UTC),
)
_DAYS = (date(2024, 10, 27), date(2024, 10, 28), date(2024, 1, 1), date.min, date.max)
_RATIOS = (0.5, 1.0, 1.5, -2.5, 0.0, -0.0, NAN, math.inf, 1e300, 2.0**53, 1, 2**53 + 1)
_PRICES = tuple(map(Decimal, ("1.10", "1.1", "0", "-0", "3", "1E+3", "NaN", "0.5", "1E-30")))
_HOMES = (Address("Rome", 1), Address("Rome"), Address("Oslo", 2), Address("", 0))
_ANYTHING = (
    *(None, True, 0, 1, 1.0, 1.5, NAN, Decimal(1), 2**70, "", "a", "1", b"a", bytearray(b"a")),
    *(_DAYS[0], _MOMENTS[0], _INSTANTS[0], (1,), [1], [1, 2], ["a"], [None], {"a": 1}, {1}),
    *(frozenset({1}), timedelta(1)),
)

FIELDS = [
    FieldKind("number", int, _NUMBERS, (*_NUMBERS, 0.5, True, Decimal("1.5"), NAN), is_number=True),
    FieldKind("maybe", int | None, (None, *_NUMBERS), (*_NUMBERS, 1.5), is_number=True),
    FieldKind("text", str, _TEXTS, _TEXTS, ("a", "b", "", "ab")),
    FieldKind("flag", bool, (True, False), (True, False, 0, 1)),
    FieldKind("ratio", float, _RATIOS, (*_RATIOS, Decimal("0.5")), is_number=True, is_plain=False),
    FieldKind("price", Decimal, _PRICES, (*_PRICES, 1, 0.5), is_number=True, is_plain=False),
    FieldKind("day", date, _DAYS, _DAYS),
    FieldKind("moment", datetime, _MOMENTS, _MOMENTS, is_plain=False),
    FieldKind("instant", datetime, _INSTANTS, _INSTANTS, is_plain=False),
    FieldKind("when", datetime, (*_MOMENTS, *_INSTANTS), (*_MOMENTS, *_INSTANTS), is_plain=False),
    FieldKind(
        "tags",
        list[str],
        ([], ["a"], ["b"], ["a", "b"], ["a", "a"], ["", "c"]),
        ([], ["a"], ["a", "b"]),
        ("a", "b", "", "x"),
        is_hashable=False,
    ),
    FieldKind("home", Address, _HOMES),
    FieldKind("second_home", Address | None, (None, *_HOMES)),
    FieldKind(
        "anything",
        Any,
        _ANYTHING,
        tuple(value for value in _ANYTHING if value is not None),
        (1, "a", "x", 2),
        is_plain=False,
    ),
]
HOMES = ("home", "second_home")
# What a dict may hold besides; a set index wants its tags to be lists.
STRAY = (*_ANYTHING, {"city": "Rome"})


@dataclass(frozen=True, repr=False)
class Schema(Shown):
    """What the records of a collection are.

    Attributes:
        fields: Their fields besides ``id``.
        way: "dataclass", "frozen", "slots", "struct" or "dict".
        has_identity: Whether there is a field ``id``.
        key: The natural key, if any.
    """

    fields: tuple[FieldKind, ...]
    way: str
    has_identity: bool
    key: str | None

    def __repr__(self) -> str:
        names = " ".join(field.name for field in self.fields)
        return f"<{self.way} {names}{' id' * self.has_identity}, key={self.key}>"

    @property
    def groupable(self) -> list[FieldKind]:
        """The fields by which records can be grouped without a doubt."""
        fields = [] if self.is_dict else self.fields
        return [
            field
            for field in fields
            if field.is_plain and field.is_hashable and field.name not in HOMES
        ]

    @property
    def is_dict(self) -> bool:
        """Whether any field can be absent, and hold anything."""
        return self.way == "dict"

    def target(self) -> Any:
        """Return a new class, or the name for dicts."""
        if self.is_dict:
            return "records"
        fields: list[Any] = [(field.name, field.annotation) for field in self.fields]
        if self.has_identity:
            fields.append(("id", int, 0))
        if self.way == "struct":
            return msgspec.defstruct("Record", fields)
        flags: dict[str, Any] = {"frozen": self.way == "frozen", "slots": self.way == "slots"}
        return dataclasses.make_dataclass("Record", fields, **flags)

    def make(self, cls: Any, values: dict[str, Any], identity: Any = 0) -> Any:
        """Return a record as it is stored."""
        own = {name: _copied(value) for name, value in values.items()}
        if self.has_identity and (identity or not self.is_dict):
            own["id"] = identity
        return own if self.is_dict else cls(**own)

    def values(self, record: Any) -> dict[str, Any]:
        """Return the fields of a record that are there, without the identity."""
        if self.is_dict:
            return {name: value for name, value in record.items() if name != "id" or self.key}
        return {field.name: getattr(record, field.name) for field in self.fields}


def _copied(value: Any) -> Any:
    return value.copy() if isinstance(value, list | dict | set | bytearray) else value


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    """Draw what the records of a collection are."""
    fields = draw(st.lists(st.sampled_from(FIELDS), min_size=2, max_size=4, unique=True))
    way = draw(st.sampled_from(["dataclass", "frozen", "slots", "struct", "dict", "dict"]))
    keys = [field.name for field in fields if field.name in ("number", "text", "day")]
    key = draw(st.sampled_from([None, None, *keys]))
    has_identity = key is None and (way == "dict" or draw(st.booleans()))
    return Schema(tuple(fields), way, has_identity, key)


@st.composite
def records_of(draw: st.DrawFn, schema: Schema) -> dict[str, Any]:
    """Draw the values of a record."""
    values = {}
    for field in schema.fields:
        value = draw(st.sampled_from(field.values))
        if schema.is_dict and field.name != schema.key:
            how = draw(st.sampled_from("vvvvvas"))
            if how == "a":
                continue
            if how == "s" and field.name != "tags":
                value = draw(st.sampled_from(STRAY))
        if schema.is_dict and isinstance(value, Address):
            value = dataclasses.asdict(value)
        values[field.name] = value
    return values


# -- indexes ---------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Declared(Shown):
    """An index: how it is declared, and what the tests have to know of it.

    Attributes:
        kind: "hash", "unique", "sorted", "set", "column".
        paths: The fields.
        make: Return the declaration under a name.
        condition: What the records in a partial one fulfil.
        key: The function, if it has one.
    """

    name: str
    kind: str
    paths: tuple[tuple[str, ...], ...]
    make: Callable[[str], Any]
    condition: Condition | None = None
    key: Callable[[Any], Any] | None = None

    def __repr__(self) -> str:
        return f"<{self.name}: {self.kind} of {self.paths}, where {self.condition}>"

    def declare(self) -> Any:
        """Return the declaration."""
        return self.make(self.name)

    def renamed(self, name: str) -> Declared:
        """Return the same index under another name."""
        return dataclasses.replace(self, name=name)

    def holds(self, record: Any) -> bool:
        """Whether a record is in the index."""
        return self.condition is None or naive.matches(self.condition, record)

    def key_of(self, record: Any) -> tuple[Any, ...]:
        """Return the values by which a record is in the index."""
        if self.key is not None:
            return (self.key(record),)
        return tuple(naive.look_up(record, path) for path in self.paths)

    def accepts(self, record: Any) -> bool:
        """Whether a record can be in the collection, as far as this index alone tells."""
        if self.kind not in ("hash", "unique") or not self.holds(record):
            return True
        try:
            hash(self.key_of(record))
        except TypeError:
            return False
        return True


def text_length(record: Any) -> Any:
    """Return the length of the text; the key of an index."""
    text = naive.look_up(record, ("text",))
    return len(text) if isinstance(text, str) else None


def _dotted(path: tuple[str, ...]) -> str:
    return ".".join(path)


@st.composite
def declared(draw: st.DrawFn, schema: Schema, taken: Sequence[str] = ()) -> Declared:
    """Draw an index that suits a schema, under a name of its own."""
    name = next(name for name in (f"index{n}" for n in range(1_000)) if name not in taken)
    sortable = [(field.name,) for field in schema.fields if field.name not in HOMES]
    sortable += [
        (field.name, part)
        for field in schema.fields
        if field.name in HOMES
        for part in ("city", "code")
    ]
    names = {field.name for field in schema.fields}
    hashable = [path for path in sortable if path != ("tags",)]
    unique = [path for path in hashable if path[0] in ("number", "text", "day")]
    columns = [name for name in ("number", "maybe", "flag", "ratio", "day", "moment")]
    kinds = ["hash", "sorted", "sorted"] if hashable else ["sorted"]
    kinds += ["unique"] * (bool(unique) and not schema.is_dict)
    kinds += ["set"] * ("tags" in names)
    kinds += ["column"] * bool(names & set(columns))
    kinds += ["function", "function"] * ("text" in names)
    kind = draw(st.sampled_from(kinds), label="kind of index")
    condition = draw(st.none() | st.none() | tests_of(schema), label="where")
    if kind == "column":
        field = draw(st.sampled_from(sorted(names & set(columns))), label="column")
        return Declared(name, kind, ((field,),), lambda name: memdb.ColumnIndex(field, name=name))
    where = None if condition is None else expression(condition)
    make: Any
    if kind == "function":
        is_sorted = draw(st.booleans(), label="sorted")
        make = functools.partial(
            memdb.SortedIndex if is_sorted else memdb.HashIndex, key=text_length, version="1"
        )
        kind, paths = "sorted" if is_sorted else "hash", []
    elif kind == "set":
        make, paths = functools.partial(memdb.SetIndex, "tags"), [("tags",)]
    else:
        choice = {"hash": hashable, "sorted": sortable, "unique": unique}[kind]
        paths = draw(st.lists(st.sampled_from(choice), min_size=1, max_size=2, unique=True))
        fields = list(map(_dotted, paths))
        if kind == "sorted":
            signs = [draw(st.sampled_from(["", "", "-"]), label="direction") for _ in paths]
            fields = [sign + field for sign, field in zip(signs, fields, strict=True)]
            make = functools.partial(memdb.SortedIndex, *fields)
        else:
            make = functools.partial(memdb.HashIndex, *fields, unique=kind == "unique")
    key = None if paths else text_length
    return Declared(
        name, kind, tuple(paths), lambda name: make(name=name, where=where), condition, key
    )


# -- questions -------------------------------------------------------------------------------


@st.composite
def values_of(draw: st.DrawFn, schema: Schema, field: FieldKind) -> tuple[Value, FieldKind]:
    """Draw a value of a record that leads to a field or starts with one; and what it is like."""
    path = Path((field.name,))
    if field.name in HOMES:
        part = draw(st.sampled_from(["city", "code"]))
        inner = next(each for each in FIELDS if each.name == ("text", "maybe")[part == "code"])
        return Path((field.name, part)), inner
    if field.name in ("tags", "text") and draw(st.integers(0, 5)) == 0:
        return Applied("len", path), FIELDS[0]
    if field.name == "tags" and draw(st.integers(0, 4)) == 0:
        return Path(("tags", draw(st.sampled_from([0, 1, -1])))), FIELDS[2]
    if not field.is_number or draw(st.integers(0, 3)):
        return path, field
    way = draw(st.sampled_from(["-", "abs", "number", "reversed", "field"]))
    if way in ("-", "abs"):
        return Applied(way, path), field
    others = [Path((each.name,)) for each in schema.fields if each.is_number]
    # In a dict there may be a text beside a large number.
    signs = ["+", "-", "//", "%", "/"] if schema.is_dict else ["+", "-", "*", "//", "%", "/"]
    sign = draw(st.sampled_from(signs))
    if way == "field":
        return Calculation(sign, path, draw(st.sampled_from(others))), field
    number = Constant(draw(st.sampled_from([1, 2, 3, 0])))
    pair = (path, number) if way == "number" else (number, path)
    return Calculation(sign, *pair), field


ORDERINGS = ("<", "<=", ">", ">=", "between")


@st.composite
def tests_of(draw: st.DrawFn, schema: Schema) -> Test:
    """Draw a comparison of some value with others."""
    field = draw(st.sampled_from(schema.fields), label="field")
    value, like = draw(values_of(schema, field))
    operators = ["==", "==", "!=", "in", "is none"]
    if like.operands:
        operators += ["<", "<=", ">", ">=", "between", "between"]
    if like.name in ("text", "anything"):
        operators += ["startswith", "matches"]
    if like.parts:
        operators += ["contains", "contains"]
    if like.name in ("flag", "anything", "maybe"):
        operators.append("is")
    sign = draw(st.sampled_from(operators), label="operator")
    count = {"between": 2, "is none": 0}.get(sign, 1)
    if sign == "in":
        several = draw(st.lists(st.sampled_from(like.values), max_size=3), label="values")
        return Test(sign, value, (Constant(several),))
    choices = {
        "contains": like.parts,
        "startswith": ("a", "", "ab", "a\uffff", "\U0010ffff"),
        "endswith": ("a", "b", ""),
        "matches": ("^a", "b$", "[ab]+", "^$"),
        "is": (None, True, False),
    }
    operands = like.operands if sign in ORDERINGS else like.values
    operands = choices.get(sign, operands)
    drawn = [Constant(draw(st.sampled_from(operands), label="operand")) for _ in range(count)]
    others = [each for each in schema.fields if each.annotation == field.annotation != list[str]]
    is_comparison = sign in ("==", "!=", "<", "<=", ">", ">=") and field.name not in HOMES
    if len(others) > 1 and is_comparison and draw(st.booleans(), label="between fields"):
        return Test(sign, value, (Path((draw(st.sampled_from(others)).name,)),))
    return Test(sign, value, tuple(drawn))


@st.composite
def conditions_of(draw: st.DrawFn, schema: Schema, depth: int = 2) -> Condition:
    """Draw a condition."""
    tests = tests_of(schema)
    way = draw(st.sampled_from("ttttaaoonc" if depth else "t"), label="way")
    if way == "t":
        return draw(tests)
    if way == "c":
        return Call(draw(tests))
    inner = conditions_of(schema, depth - 1)
    if way == "n":
        return No(draw(inner))
    parts = tuple(draw(st.lists(inner, min_size=2, max_size=3)))
    return All(parts) if way == "a" else Some(parts)


@st.composite
def orders_of(draw: st.DrawFn, schema: Schema) -> tuple[Term, ...]:
    """Draw the keys of an order."""
    terms = []
    for field in draw(st.lists(st.sampled_from(schema.fields), max_size=2, unique=True)):
        value, _ = draw(values_of(schema, field))
        terms.append(Term(value, draw(st.booleans())))
    return tuple(terms)


@st.composite
def questions_of(draw: st.DrawFn, schema: Schema) -> Question:
    """Draw a question without parameters."""
    condition = draw(st.none() | conditions_of(schema) | conditions_of(schema))
    order = draw(orders_of(schema))
    skip = draw(st.sampled_from([0, 0, 0, 1, 2, 5, 50]), label="skip")
    limit = draw(st.sampled_from([None, None, None, 0, 1, 2, 3, 50]), label="limit")
    return Question(condition, order, skip, limit)


@st.composite
def with_parameters(draw: st.DrawFn, question: Question, schema: Schema) -> Question:
    """Draw a question with parameters where one has constants, and perhaps some more of them."""
    parameters: dict[str, Any] = {}
    condition = question.condition
    if condition is not None:
        condition = _parametrised(condition, parameters)
    more = draw(st.sampled_from(["no", "optional", "optional", "case"]), label="more")
    extra: Condition | None = None
    if more == "optional":
        inner = draw(tests_of(schema))
        is_open = len(inner.operands) == 1 and isinstance(inner.operands[0], Constant)
        if is_open and inner.operator != "is":
            given = inner.operands[0].value
            inner = dataclasses.replace(inner, operands=(Parameter("given"),))
            extra = Optionally("given", inner)
            # None counts as not given, and so does leaving it out.
            if draw(st.booleans(), label="given"):
                parameters["given"] = given
            elif draw(st.booleans(), label="None"):
                parameters["given"] = None
    elif more == "case":
        arms = tuple(
            (mode, _parametrised(draw(tests_of(schema)), parameters)) for mode in (0, "one")
        )
        default = draw(st.none() | tests_of(schema))
        extra = Choice("mode", arms, default)
        parameters["mode"] = draw(st.sampled_from([0, "one", 2, None]), label="mode")
    if extra is not None:
        condition = extra if condition is None else All((condition, extra))
    return dataclasses.replace(question, condition=condition, parameters=parameters)


def _parametrised(condition: Condition, parameters: dict[str, Any]) -> Condition:
    """Return a condition with parameters for its constants, whose values are put with them."""
    match condition:
        case Test(operator="is"):
            return condition
        case Test():
            return Test(
                condition.operator,
                _parametrised_value(condition.value, parameters),
                tuple(_parametrised_value(value, parameters) for value in condition.operands),
            )
        case All():
            return All(tuple(_parametrised(part, parameters) for part in condition.parts))
        case Some():
            return Some(tuple(_parametrised(part, parameters) for part in condition.parts))
        case No():
            return No(_parametrised(condition.part, parameters))
    return condition


def _parametrised_value(value: Value, parameters: dict[str, Any]) -> Value:
    match value:
        case Constant():
            name = f"p{len(parameters)}"
            parameters[name] = value.value
            return Parameter(name)
        case Calculation():
            return Calculation(
                value.operator,
                _parametrised_value(value.left, parameters),
                _parametrised_value(value.right, parameters),
            )
    return value


# -- asking the database ---------------------------------------------------------------------


def term_of(value: Value) -> Any:
    """Return a value as the database is asked for it."""
    match value:
        case Constant():
            return value.value
        case Parameter():
            return getattr(P, value.name)
        case Path():
            found: Any = F
            for name in value.names:
                found = found[name]
            return found
        case Applied():
            inner = term_of(value.value)
            return (
                inner.len_() if value.function == "len" else naive.FUNCTIONS[value.function](inner)
            )
        case Calculation():
            return naive.ARITHMETIC[value.operator](term_of(value.left), term_of(value.right))


def expression(condition: Condition) -> Any:
    """Return a condition as the database is asked it."""
    match condition:
        case Test():
            return _comparison(condition)
        case All() | Some():
            return _joined(condition)
        case No():
            inner = expression(condition.part)
            if not isinstance(inner, memdb.query.Expression):
                return lambda record: not inner(record)
            return ~inner
        case Call():
            return lambda record: naive.matches(condition.part, record)
        case Optionally():
            return optional(getattr(P, condition.name), expression(condition.part))
        case Choice():
            arms = {key: expression(part) for key, part in condition.arms}
            default = None if condition.default is None else expression(condition.default)
            return case(getattr(P, condition.name), arms, default=default)


def _joined(condition: All | Some) -> Any:
    """Return the parts with ``&`` or ``|`` between them; functions of the user's come last."""
    parts = [expression(part) for part in condition.parts]
    parts.sort(key=lambda part: not isinstance(part, memdb.query.Expression))
    if isinstance(parts[0], memdb.query.Expression):
        return functools.reduce(
            operator.and_ if isinstance(condition, All) else operator.or_, parts
        )
    return lambda record: naive.matches(condition, record)


def _comparison(test: Test) -> Any:
    value = term_of(test.value)
    operands = [term_of(operand) for operand in test.operands]
    if test.operator in _COMPARISONS:
        return _COMPARISONS[test.operator](value, *operands)
    return getattr(value, _METHODS[test.operator])(*operands)


_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_METHODS = {
    "in": "in_",
    "between": "between",
    "startswith": "startswith",
    "endswith": "endswith",
    "contains": "contains",
    "matches": "matches",
    "is": "is_",
    "is none": "is_none",
}


def ordering(term: Term) -> Any:
    """Return the key of an order as the database is told it."""
    is_field = isinstance(term.value, Path) and all(type(name) is str for name in term.value.names)
    if is_field:
        text = ".".join(term.value.names)  # type: ignore[union-attr]
        # Both ways of saying it, by a field's name, as good as at random.
        if len(text) % 2:
            return f"-{text}" if term.falls else text
    value = term_of(term.value)
    return value.desc() if term.falls else value.asc()


def query_for(collection: memdb.Collection[Any], question: Question) -> Any:
    """Return the query that asks a collection a question."""
    condition = question.condition
    if condition is None:
        query = collection.query()
    elif isinstance(condition, All):
        query = collection.where(*map(expression, condition.parts))
    else:
        query = collection.where(expression(condition))
    if question.order:
        query = query.order_by(*map(ordering, question.order))
    if question.skip:
        query = query.skip(question.skip)
    if question.limit is not None:
        query = query.limit(question.limit)
    return query


def check(collection: memdb.Collection[Any], rows: list[Row], question: Question) -> None:
    """Check every way of asking a question once, against the naive answer.

    Args:
        collection: It is asked.
        rows: All of its records, in its order.
        question: Without parameters.
    """
    expected = naive.answer(rows, question)
    query = query_for(collection, question)

    assert_exact(query.all(), [record for _, record in expected])
    assert [identity for identity, _ in expected] == query.ids()
    assert len(expected) == query.count()
    assert bool(expected) == query.exists()
    assert_exact(query.first(), expected[0][1] if expected else None)


def check_prepared(collection: memdb.Collection[Any], rows: list[Row], question: Question) -> None:
    """Check a prepared query with parameters, twice, and its twins."""
    expected = naive.answer(rows, question)
    prepared = query_for(collection, question).prepare()

    for _ in range(2):
        found = prepared(**question.parameters)
        assert_exact(list(found), [record for _, record in expected])
    assert len(expected) == prepared.count(**question.parameters)


def check_pages(
    collection: memdb.Collection[Any], rows: list[Row], question: Question, schema: Schema
) -> None:
    """Check that pages, by number and by cursor, join up to the whole."""
    # The order of writing moves on while one pages, so that it has no cursors.
    is_paged_by_cursor = schema.key is None or bool(question.order)
    question = dataclasses.replace(question, skip=0, limit=None)
    expected = [record for _, record in naive.answer(rows, question)]
    query = query_for(collection, question)
    take = 2 + len(expected) % 3
    for skip in range(0, len(expected) + take, take):
        page = query.page(skip, take)

        assert_exact(list(page), expected[skip : skip + take])
        assert (len(expected), skip, take) == (page.total, page.skip, page.take)
    if not is_paged_by_cursor:
        return
    found: list[Any] = []
    page = query.page(take=take)
    found += page.items
    while page.cursor is not None:
        assert len(found) < len(expected) + take, "a cursor that leads nowhere"
        page = query.after(page.cursor).page(take=take)
        found += page.items

    assert_exact(found, expected)


def check_selection(
    collection: memdb.Collection[Any], rows: list[Row], question: Question, schema: Schema
) -> None:
    """Check selected values, distinct ones, sums and groups."""
    expected = naive.answer(rows, question)
    query = query_for(collection, question)
    values = [Path((field.name,)) for field in schema.fields]

    assert_exact(
        list(query.select(*map(term_of, values)).all()),
        naive.selected(expected, values),
    )
    for field, value in zip(schema.fields, values, strict=True):
        if schema.is_dict or not field.is_plain or not field.is_hashable:
            continue
        found = list(query.select(term_of(value)).distinct().all())
        # What is skipped and limited are the selected rows, of which there are fewer.
        all_rows = naive.answer(rows, dataclasses.replace(question, skip=0, limit=None))
        kept = naive.distinct(naive.selected(all_rows, [value]))
        stop = None if question.limit is None else question.skip + question.limit
        assert_exact(found, kept[question.skip : stop])
    for field, value in zip(schema.fields, values, strict=True):
        if schema.is_dict:
            continue
        own = naive.present(expected, value)
        if field.name not in (*HOMES, "anything"):
            check_equal(query.min(term_of(value)), naive.least(own))
            check_equal(query.max(term_of(value)), naive.greatest(own))
        if field.is_number:
            check_close(query.sum(term_of(value)), naive.total(own))
            check_close(query.mean(term_of(value)), naive.mean(own))


def check_groups(
    collection: memdb.Collection[Any],
    rows: list[Row],
    question: Question,
    schema: Schema,
    field: FieldKind,
) -> None:
    """Check counts, sums, least and greatest values of groups."""
    question = dataclasses.replace(question, order=(), skip=0, limit=None)
    value = Path((field.name,))
    term = term_of(value)
    found_groups = naive.groups(naive.answer(rows, question), [value])
    query = query_for(collection, question).group_by(term)
    found = list(query.select(term, count_()).all())

    assert len(found_groups) == len(found)
    for (key, members), (own_key, count) in zip(found_groups, found, strict=True):
        check_equal(own_key, naive.or_none(key[0]))
        assert len(members) == count
    several = list(query.select(term, count_()).having(count_() > 1).all())
    assert sum(len(members) > 1 for _, members in found_groups) == len(several)
    for other in schema.fields:
        if not other.is_number or schema.is_dict:
            continue
        inner = term_of(Path((other.name,)))
        sums = list(query.select(inner.sum_(), inner.min_(), inner.max_(), inner.mean_()).all())
        for (_, members), row in zip(found_groups, sums, strict=True):
            own = naive.present(members, Path((other.name,)))
            check_close(row[0], naive.total(own))
            check_equal(row[1], naive.least(own))
            check_equal(row[2], naive.greatest(own))
            check_close(row[3], naive.mean(own))


def check_equal(found: Any, expected: Any) -> None:
    """Check that two values are equal in the order of all values."""
    assert naive.compare(found, expected) == 0, f"{found!r} is not {expected!r}"


def check_close(found: Any, expected: Any) -> None:
    """Check that two sums are equal but for rounding."""
    if isinstance(found, float | Decimal) and expected is not None:
        are_nan = math.isnan(found) and math.isnan(expected)
        assert are_nan or math.isclose(found, expected, rel_tol=1e-9), f"{found!r}, {expected!r}"
    else:
        check_equal(found, expected)
