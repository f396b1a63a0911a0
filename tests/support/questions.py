"""Random indexes and questions that suit a schema; `naive` says what a question means."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

import memdb
from tests.support import naive
from tests.support.asking import expression
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
    Some,
    Term,
    Test,
    Value,
)
from tests.support.schemas import FIELDS, HOMES, FieldKind, Schema, Shown

# -- indexes ---------------------------------------------------------------------------------


#: The fields that can have a column.
COLUMNS = {"number", "maybe", "flag", "ratio", "day", "moment"}


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


def are_unique(indexes: Iterable[Declared], records: Collection[Any]) -> bool:
    """Whether no two records have the same key in a unique index."""
    for index in indexes:
        if index.kind != "unique":
            continue
        keys = [index.key_of(record) for record in records if index.holds(record)]
        # What is nothing, as None and NaN are, is nobody's key.
        keys = [
            key
            for key in keys
            if not any(part is None or part is naive.ABSENT or part != part for part in key)
        ]
        if len(set(keys)) < len(keys):
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
    kinds = ["hash", "sorted", "sorted"] if hashable else ["sorted"]
    kinds += ["unique"] * (bool(unique) and not schema.is_dict)
    kinds += ["set"] * ("tags" in names)
    kinds += ["column"] * bool(names & COLUMNS)
    kinds += ["function", "function"] * ("text" in names)
    kind = draw(st.sampled_from(kinds), label="kind of index")
    condition = draw(st.none() | st.none() | tests_of(schema), label="where")
    if kind == "column":
        field = draw(st.sampled_from(sorted(names & COLUMNS)), label="column")
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
        operators += ["startswith", "endswith", "matches"]
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
def questions_for(draw: st.DrawFn, schema: Schema, indexes: Sequence[Declared]) -> Question:
    """Draw a question, often one that an index can help with."""
    question = draw(questions_of(schema))
    paths = [index for index in indexes if index.paths]
    if not paths or draw(st.integers(0, 3), label="aimed") == 0:
        return question
    index = draw(st.sampled_from(paths), label="at which index")
    parts: list[Condition] = []
    rest = index.paths
    if index.kind in ("hash", "unique") or (index.kind == "sorted" and len(rest) > 1):
        equal = rest if index.kind != "sorted" else rest[:1]
        for path in equal:
            values = _kind_at(schema, path).values
            several = draw(st.lists(st.sampled_from(values), min_size=1, max_size=2))
            is_one = len(several) == 1
            operand = Constant(several[0] if is_one else several)
            parts.append(Test("==" if is_one else "in", Path(path), (operand,)))
        rest = rest[len(equal) :]
    if rest and index.kind in ("sorted", "column"):
        operands = _kind_at(schema, rest[0]).operands
        sign = draw(st.sampled_from(["<", "<=", ">", ">=", "between", "no"]), label="range")
        drawn = [Constant(draw(st.sampled_from(operands))) for _ in range(2)]
        if sign != "no":
            parts.append(Test(sign, Path(rest[0]), tuple(drawn[: 1 + (sign == "between")])))
        if draw(st.booleans(), label="in its order"):
            falls = draw(st.booleans(), label="falling")
            terms = tuple(Term(Path(path), falls) for path in rest)
            question = dataclasses.replace(question, order=terms)
    if index.kind == "set":
        part = Constant(draw(st.sampled_from(("a", "b", "", "x"))))
        parts.append(Test("contains", Path(index.paths[0]), (part,)))
    if index.condition is not None and draw(st.integers(0, 3), label="in the part"):
        parts.append(index.condition)
    if question.condition is not None and draw(st.booleans(), label="and more"):
        parts.append(question.condition)
    if not parts:
        return dataclasses.replace(question, condition=None)
    kind = Some if len(parts) > 1 and draw(st.integers(0, 4), label="or") == 0 else All
    return dataclasses.replace(question, condition=kind(tuple(draw(st.permutations(parts)))))


def _kind_at(schema: Schema, path: tuple[str, ...]) -> FieldKind:
    """Return what the values at a path are like."""
    name = {"city": "text", "code": "maybe"}[path[1]] if len(path) > 1 else path[0]
    return next(field for field in FIELDS if field.name == name)


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


def parametrised(question: Question) -> Question:
    """Return the same question with parameters for all of its constants."""
    if question.condition is None:
        return question
    parameters: dict[str, Any] = {}
    condition = _parametrised(question.condition, parameters)
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
