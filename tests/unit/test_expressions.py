"""Conditions: how they are written, what they mean, and what is refused."""

from __future__ import annotations

import copy
import math
import pickle
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, TypedDict, TypeVar

import msgspec
import numpy as np
import pytest

from memdb.errors import QueryError
from memdb.query import Expression, F, Field, compile_condition
from memdb.query._compiler import CACHED_SHAPES, DEEPEST, _kept
from memdb.query._conditions import And, Or
from memdb.query._evaluate import evaluate
from memdb.serializers import shape_of


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Extras(TypedDict):
    width: int


Score = NewType("Score", int)
T = TypeVar("T")


@dataclass
class Address:
    city: str | None
    lines: list[str] = field(default_factory=list)
    items: int = 0


@dataclass
class Office:
    floor: int


class Point(NamedTuple):
    x: int
    y: int


class Car(msgspec.Struct):
    doors: int


@dataclass
class Box(Generic[T]):
    content: T


@dataclass
class Person:
    name: str
    age: int | None = None
    born: date | None = None
    tags: set[str] = field(default_factory=set)
    address: Address | None = None
    place: Address | Office | None = None
    color: Color = Color.RED
    kind: Literal["a", "b"] = "a"
    score: Annotated[Score, "points"] = Score(0)
    extra: Any = None
    data: dict[str, Any] = field(default_factory=dict)
    typed: Extras | None = None
    point: Point = field(default_factory=lambda: Point(0, 0))
    car: Car | None = None
    other: object = None
    amount: Decimal = Decimal(0)
    rest: float = 0.0
    id: int = 0


PERSON = shape_of(Person)
DICT = shape_of(None)


def matches(condition: Any, record: Any, **equals: object) -> bool:
    """Compile for the record's class and apply, in agreement with the definition."""
    shape = DICT if type(record) is dict else shape_of(type(record))
    compiled = compile_condition(condition, equals, shape)
    answer = compiled.matches(record)
    if compiled.expression is not None and not compiled.needs_copy:
        assert answer is evaluate(compiled.expression, record)
    return answer


class TestWriting:
    """How a condition is written, and how it shows itself."""

    @pytest.mark.parametrize(
        ("expression", "text"),
        [
            (F.age == 1, "F.age == 1"),
            (F.age != None, "F.age != None"),  # noqa: E711
            (F.age < 1, "F.age < 1"),
            (F.age <= 1, "F.age <= 1"),
            (F.age > 1, "F.age > 1"),
            (F.age >= 1, "F.age >= 1"),
            (F.address.city == "x", "F.address.city == 'x'"),
            (F["a b"]["in_"].x == 1, "F['a b']['in_'].x == 1"),
            (F.age.in_(iter([1, 2])), "F.age.in_([1, 2])"),
            (F.age.is_(None), "F.age.is_(None)"),
            (F.age.between(1, 2), "F.age.between(1, 2)"),
            (F.tags.contains("x"), "F.tags.contains('x')"),
            (F.name.startswith("x"), "F.name.startswith('x')"),
            (~(F.a == 1), "~(F.a == 1)"),
            (~~F.a.is_(None), "~~F.a.is_(None)"),
            ((F.a == 1) & (F.b == 2) & (F.c == 3), "(F.a == 1) & (F.b == 2) & (F.c == 3)"),
            (
                (F.a == 1) | (F.b == 2) & ~(F.c == 3),
                "(F.a == 1) | ((F.b == 2) & ~(F.c == 3))",
            ),
        ],
    )
    def test_repr(self, expression: Expression, text: str) -> None:
        """A condition shows itself as it is written in Python."""

        assert repr(expression) == text
        assert repr(F) == "F"

    def test_chains_are_flat(self) -> None:
        """A chain of the same operator has one level, however long."""
        one, two, three = F.a == 1, F.b == 2, F.c == 3
        both, either = (one & two) & three, one | (two | three)

        assert isinstance(both, And)
        assert both.parts == (one, two, three)
        assert isinstance(either, Or)
        assert either.parts == (one, two, three)

    @pytest.mark.parametrize(
        "use",
        [
            lambda: (F.a == 1) and (F.b == 2),
            lambda: not F.a.is_(None),
            lambda: 1 < F.a < 5,
            lambda: F.a in [1, 2],
            lambda: F.a and F.b,
            lambda: bool(F.a),
        ],
    )
    def test_no_truth_value(self, use: Callable[[], object]) -> None:
        """What asks a condition for its truth is told to use & | ~."""
        with pytest.raises(QueryError, match=r"& \| ~"):
            use()

    @pytest.mark.parametrize(
        "use",
        [
            lambda: F.a == 1 & F.b,
            lambda: F.a & (F.b == 1),
            lambda: 1 | F.a,
            lambda: F.a | F.b,
            lambda: ~F.a,
        ],
    )
    def test_forgotten_parentheses(self, use: Callable[[], object]) -> None:
        """A field in the place of a condition is refused with a word on parentheses."""
        with pytest.raises(QueryError, match="parentheses"):
            use()

    @pytest.mark.parametrize(
        ("use", "expected"),
        [
            (lambda: F.a.in_("abc"), "a str"),
            (lambda: F.a.in_(3), "a int"),  # type: ignore[arg-type]
            (lambda: F.a.is_(1), "Use == for other values"),  # type: ignore[arg-type]
            (lambda: F.a.startswith(1), "text or bytes"),  # type: ignore[arg-type]
            (lambda: F.a == (F.b == 1), "not with F.b == 1"),
            (lambda: F.a + (F.b == 1), "not with F.b == 1"),
            (lambda: F.a == F.b.desc(), "not with F.b.desc"),
            (lambda: F.a.in_([F.b == 1]), "not with F.b == 1"),
            (lambda: F.a.between(1, F.b == 1), "not with F.b == 1"),
            (lambda: F.a.contains(F.b == 1), "not with F.b == 1"),
            (lambda: F[1], "named by text"),  # type: ignore[index]
            (lambda: F.a[True], "named by text"),
            (lambda: F.a[1:2], "named by text"),  # type: ignore[index]
        ],
    )
    def test_refused(self, use: Callable[[], object], expected: str) -> None:
        """What can't be meant is refused where it is written."""
        with pytest.raises(QueryError, match=expected):
            use()

    def test_only_conditions_combine(self) -> None:
        """A condition combines with nothing but conditions."""
        with pytest.raises(TypeError):
            (F.a == 1) & True  # type: ignore[operator]
        with pytest.raises(TypeError):
            (F.a == 1) | 3  # type: ignore[operator]

    def test_fields_are_no_containers(self) -> None:
        """Python does not take a field for something to iterate over, hash or inspect."""
        for value in (F, F.a):
            with pytest.raises(TypeError):
                iter(value)  # type: ignore[call-overload]
            with pytest.raises(AttributeError):
                value.__wrapped__  # noqa: B018
        with pytest.raises(TypeError):
            hash(F.a)

    @pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))])
    def test_copies(self, duplicate: Callable[[Expression], Expression]) -> None:
        """A condition survives being copied and pickled."""
        expression = (F.a.b == 1) & ~F.c.in_([2])

        assert repr(duplicate(expression)) == repr(expression)


class TestMeaning:
    """Which records a condition finds."""

    @pytest.mark.parametrize(
        ("condition", "record"),
        [
            (F.name == "Eric", Person("Eric")),
            (F.name != "Kyle", Person("Eric")),
            (F.age < 9, Person("Eric", 8)),
            (F.age <= 8, Person("Eric", 8)),
            (F.age > 7, Person("Eric", 8)),
            (F.age >= 8, Person("Eric", 8)),
            (F.age.between(8, 9), Person("Eric", 8)),
            (F.age.between(7, 8), Person("Eric", 8)),
            (F.age.in_([7, 8]), Person("Eric", 8)),
            (F.age.in_({8.0}), Person("Eric", 8)),
            (F.age.in_([[], 8]), Person("Eric", 8)),
            (F.extra.in_([[1], 2]), Person("Eric", extra=[1])),
            (F.extra.in_([b"x", 2]), Person("Eric", extra=bytearray(b"x"))),
            (F.age.is_(None), Person("Eric")),
            (F.age == None, Person("Eric")),  # noqa: E711
            (F.extra.is_(True), Person("Eric", extra=True)),
            (F.tags.contains("tv"), Person("Eric", tags={"tv"})),
            (F.name.contains("ri"), Person("Eric")),
            (F.data.contains("k"), Person("Eric", data={"k": 1})),
            (F.name.startswith("Er"), Person("Eric")),
            (F.address.city == "Zug", Person("Eric", address=Address("Zug"))),
            (F.address.items == 3, Person("Eric", address=Address("Zug", items=3))),
            (F.place.floor > 2, Person("Eric", place=Office(3))),
            (F.place.city == "Zug", Person("Eric", place=Address("Zug"))),
            (F.born.year == 2014, Person("Eric", born=date(2014, 5, 13))),
            (F.color == Color.RED, Person("Eric")),
            (F.color.value == "red", Person("Eric")),
            (F.kind.in_(["a"]), Person("Eric")),
            (F.score >= 0, Person("Eric")),
            (F.data.a.b == 1, Person("Eric", data={"a": {"b": 1}})),
            (F.typed.width == 1, Person("Eric", typed={"width": 1})),
            (F.extra.city == "Zug", Person("Eric", extra=Address("Zug"))),
            (F.extra.city == "Zug", Person("Eric", extra={"city": "Zug"})),
            (F.other.city == "Zug", Person("Eric", other={"city": "Zug"})),
            (F.point.x == 0, Person("Eric")),
            (F.car.doors == 3, Person("Eric", car=Car(3))),
            (F.y == 2, Point(1, 2)),
            (F.doors == 5, Car(5)),
            ((F.age > 7) & (F.name == "Eric"), Person("Eric", 8)),
            ((F.age > 9) | (F.name == "Eric"), Person("Eric", 8)),
            (~(F.age > 9), Person("Eric", 8)),
            (F.a == 1, {"a": 1}),
            (F["a b"].c >= 1, {"a b": {"c": 1}}),
            (F.absent == 1, {"absent": 1}),
            (F.get == 1, {"get": 1}),
        ],
    )
    def test_match(self, condition: Expression, record: Any) -> None:
        """The record matches the condition, and does not match its opposite."""

        assert matches(condition, record) is True
        assert matches(~condition, record) is False

    @pytest.mark.parametrize(
        ("condition", "record"),
        [
            # None has no order.
            (F.age < 9, Person("Eric")),
            (F.age >= 9, Person("Eric")),
            (F.extra < None, Person("Eric", extra=8)),
            (F.extra.between(None, 9), Person("Eric", extra=8)),
            # Nor have values of different types.
            (F.age < 9, Person("Eric", "eight")),  # type: ignore[arg-type]
            (F.extra < datetime(2020, 1, 1), Person("Eric", extra=date(2014, 5, 13))),
            (F.extra.between(1, 9), Person("Eric", extra="Eric")),
            (F.amount < 3, Person("Eric", amount=Decimal("NaN"))),
            (F.amount == 3, Person("Eric", amount=Decimal("sNaN"))),
            (F.amount.in_([3]), Person("Eric", amount=Decimal("sNaN"))),
            (F.name == 3, Person("Eric")),
            # What an operation does not apply to.
            (F.name.startswith("E"), Person(3)),  # type: ignore[arg-type]
            (F.extra.startswith(b"E"), Person("Eric", extra="Eric")),
            (F.extra == np.array([1, 2]), Person("Eric", extra=1)),
            (F.name.contains(3), Person("Eric")),
            (F.age.contains(3), Person("Eric", 3)),
            (F.age.contains(3), Person("Eric")),
            (F.tags.contains([]), Person("Eric")),
            (F.extra.in_([1, 2]), Person("Eric", extra=[1])),
            (F.extra.in_([]), Person("Eric")),
            # NaN equals nothing, not even itself.
            (F.rest == math.nan, Person("Eric", rest=math.nan)),
            (F.rest.in_([math.nan]), Person("Eric", rest=math.nan)),
            # What is absent equals nothing, not even None.
            (F.a == 1, {}),
            (F.a == None, {}),  # noqa: E711
            (F.a.is_(None), {}),
            (F.a.in_([None, 1]), {}),
            (F.a < 1, {}),
            (F.a.b == 1, {"a": None}),
            (F.a.b == 1, {"a": 5}),
            (F.a.b == 1, {"a": {}}),
            (F.a.b.is_(None), {"a": None}),
            (F.address.city == "Zug", Person("Eric")),
            (F.address.city.is_(None), Person("Eric")),
            (F.address.city.startswith("Z"), Person("Eric", address=Address(None))),
            (F.address.items == 1, Person("Eric", address={"city": "Zug"})),  # type: ignore[arg-type]
            (F.place.floor > 2, Person("Eric", place=Address("Zug"))),
            (F.data.a == 1, Person("Eric", data=Address("Zug"))),  # type: ignore[arg-type]
            (F.extra.x == 1, Person("Eric", extra=3)),
        ],
    )
    def test_no_match(self, condition: Expression, record: Any) -> None:
        """The record does not match, nothing is raised, and the opposite matches."""

        assert matches(condition, record) is False
        assert matches(~condition, record) is True

    @pytest.mark.parametrize(
        "record", [{}, {"a": None}, {"a": 2}, {"a": "x"}, {"a": Decimal("sNaN")}]
    )
    def test_not_equal(self, record: dict[str, Any]) -> None:
        """What is absent or can't be compared is not equal."""

        assert matches(F.a != 1, record) is True
        assert matches(~(F.a == 1), record) is True
        assert matches(~(F.a != 1), record) is False

    def test_value_beside_its_annotation(self) -> None:
        """Where a value is not as annotated, a dict is still looked into by key."""
        record = Person("Eric", address={"city": "Zug", "items": 4})  # type: ignore[arg-type]

        assert matches(F.address.city == "Zug", record)
        assert matches(F.address.items == 4, record)

    def test_annotation_that_is_no_class(self) -> None:
        """Where an annotation names no class, the value decides how to go on."""

        assert matches(F.content.city == "Zug", Box({"city": "Zug"}))
        assert matches(F.content.city == "Zug", Box(Address("Zug")))
        assert matches(F.content[0] == "Zug", Box(["Zug"]))
        assert not matches(F.content[0] == "Zug", Box([]))

    def test_one_bad_comparison_does_not_spoil_the_rest(self) -> None:
        """Each comparison answers for itself, whatever another one came across."""
        record = Person("Eric", "eight")  # type: ignore[arg-type]

        assert matches((F.age < 9) | (F.name == "Eric"), record)
        assert matches(~(F.age < 9) & (F.name == "Eric"), record)

    def test_defaultdict_is_only_read(self) -> None:
        """Looking into a defaultdict does not add what is looked for."""
        record = Person("Eric", extra=defaultdict(int), data=defaultdict(int))

        assert not matches((F.extra.x == 0) | (F.data.x == 0), record)
        assert not record.extra
        assert not record.data

    def test_long_condition(self) -> None:
        """A condition of thousands of parts is compiled like any other."""
        condition = F.age == 0
        for age in range(1, 3000):
            condition = condition | (F.age == age)

        assert matches(condition, Person("Eric", 2999))
        assert not matches(condition, Person("Eric", 3000))

    def test_deep_condition(self) -> None:
        """Nesting has a limit, which has its own error."""
        condition = F.name == "Eric"
        for level in range(DEEPEST):
            condition = ~condition if level % 2 else (condition | (F.age == 1)) & (F.id == 0)
            if level == DEEPEST // 2:
                assert isinstance(matches(condition, Person("Eric")), bool)

        with pytest.raises(QueryError, match="60 levels"):
            matches(condition, Person("Eric"))


class TestCompiling:
    """What the compiler returns, refuses and keeps."""

    def test_nothing(self) -> None:
        """No condition matches everything, and says so."""
        compiled = compile_condition(None, {}, PERSON)

        assert compiled.matches(Person("Eric")) is True
        assert (compiled.matches_all, compiled.needs_copy) == (True, False)

    def test_expression_reads_only(self) -> None:
        """An expression may be given the stored objects."""
        compiled = compile_condition(F.age > 1, {"name": "Eric"}, PERSON)

        assert (compiled.matches_all, compiled.needs_copy) == (False, False)
        assert compiled.prefilter is compiled.matches
        assert repr(compiled.expression) == "(F.age > 1) & (F.name == 'Eric')"

    def test_callable_needs_copies(self) -> None:
        """A user's callable gets what it may change, and its answer becomes a bool."""
        compiled = compile_condition(lambda person: person.tags, {}, PERSON)

        assert (compiled.needs_copy, compiled.prefilter) == (True, None)
        assert compiled.matches(Person("Eric", tags={"tv"})) is True
        assert compiled.matches(Person("Eric")) is False

    def test_callables_mixed_in(self) -> None:
        """Callables stand beside expressions, on either side; the expressions come first."""
        seen: list[str] = []

        def is_old(person: Person) -> bool:
            seen.append(person.name)
            return (person.age or 0) > 8

        for condition in (
            (F.name == "Eric") & is_old,
            is_old & (F.name == "Eric"),
            (F.name == "Eric") & ((F.id == 7) | is_old),
            (F.name == "Eric") & (is_old | (F.id == 7)),
            (F.name == "Eric") & ~((F.id == 7) | (lambda person: not is_old(person))),
        ):
            seen.clear()
            compiled = compile_condition(condition, {}, PERSON)

            assert compiled.needs_copy
            assert repr(compiled.expression) == "F.name == 'Eric'"
            assert compiled.prefilter is not None
            assert compiled.prefilter(Person("Eric"))
            assert not compiled.matches(Person("Kyle", 9))
            assert compiled.matches(Person("Eric", 9))
            assert not compiled.matches(Person("Eric", 8))
            assert seen == ["Eric", "Eric"]

    def test_several_callables(self) -> None:
        """Several callables must all agree."""
        condition = (F.id == 0) & (lambda person: person.name) & (lambda person: person.age)
        compiled = compile_condition(condition, {}, PERSON)

        assert compiled.matches(Person("Eric", 9)) is True
        assert compiled.matches(Person("Eric", 0)) is False
        assert compiled.matches(Person("", 9)) is False

    def test_errors_of_callables_mixed_in(self) -> None:
        """What one raises comes out, once, though the like is no match in a comparison."""
        calls: list[Person] = []

        def fails(person: Person) -> bool:
            calls.append(person)
            raise LookupError

        compiled = compile_condition((F.name == "Eric") | fails, {}, PERSON)

        assert compiled.matches(Person("Eric"))
        with pytest.raises(LookupError):
            compiled.matches(Person("Kyle"))
        assert len(calls) == 1

    def test_callable_with_equalities(self) -> None:
        """Equalities beside a callable are checked first, on the stored objects."""
        seen: list[str] = []

        def is_old(person: Person) -> bool:
            seen.append(person.name)
            return (person.age or 0) > 8

        compiled = compile_condition(is_old, {"name": "Eric"}, PERSON)

        assert compiled.needs_copy
        assert compiled.prefilter is not None
        assert compiled.prefilter(Person("Eric"))
        assert not compiled.prefilter(Person("Kyle"))
        assert not compiled.matches(Person("Kyle", 9))
        assert compiled.matches(Person("Eric", 9))
        assert seen == ["Eric"]

    def test_errors_of_a_callable_are_the_users(self) -> None:
        """What a user's callable raises comes out as it is."""
        compiled = compile_condition(lambda person: person.nickname, {}, PERSON)

        with pytest.raises(AttributeError):
            compiled.matches(Person("Eric"))

    @pytest.mark.parametrize("condition", [True, False, 3, "name", [F.a == 1], F.name, Person])
    def test_no_condition(self, condition: Any) -> None:
        """What is neither an expression nor a function is refused."""
        with pytest.raises(QueryError, match="condition"):
            compile_condition(condition, {}, PERSON)

    def test_coroutine_function(self) -> None:
        """A coroutine function, which would match everything, is refused."""

        async def condition(person: Person) -> bool:
            return False

        with pytest.raises(QueryError, match="coroutine"):
            compile_condition(condition, {}, PERSON)

    def test_unknown_kind_of_expression(self) -> None:
        """A class of expression that memdb does not know is refused, not ignored."""

        class Strange(Expression):
            pass

        with pytest.raises(QueryError, match="Strange"):
            compile_condition(Strange(), {}, PERSON)
        with pytest.raises(QueryError, match="Strange"):
            evaluate(Strange(), Person("Eric"))

    @pytest.mark.parametrize(
        ("condition", "equals", "expected"),
        [
            (F.nme == 1, {}, "Person has no field 'nme'. Did you mean 'name'?"),
            (None, {"nme": 1}, "Person has no field 'nme'. Did you mean 'name'?"),
            (F.qqq == 1, {}, "It has name, age"),
            (F.address.cty == 1, {}, "F.address.cty: Address has no field 'cty'. Did you mean"),
            (F.place.flor == 1, {}, "Address or Office has no field 'flor'. Did you mean 'floor'"),
            (F.born.yaer == 1, {}, "date has no field 'yaer'. Did you mean 'year'?"),
            (F.name.upper == 1, {}, "str has no field 'upper'"),
            (F.score.x == 1, {}, "int has no field 'x'"),
            (F.tags.first == 1, {}, "set has no field 'first'. It has none."),
            (~(F.age == 1) & (F.age.x == 1), {}, "int has no field 'x'"),
            (None, {"name": F.age == 1}, "not with F.age == 1"),
        ],
    )
    def test_unknown_field(
        self, condition: Expression | None, equals: Mapping[str, object], expected: str
    ) -> None:
        """A field that can't be there is refused at once, with the nearest that is."""
        with pytest.raises(QueryError) as caught:
            compile_condition(condition, equals, PERSON)

        assert expected in str(caught.value)

    def test_nothing_inside_none(self) -> None:
        """A field that is None and nothing else has nothing inside."""

        @dataclass
        class Empty:
            nothing: None = None

        with pytest.raises(QueryError, match="None has no field 'x'"):
            compile_condition(F.nothing.x == 1, {}, shape_of(Empty))

    def test_code_is_reused(self) -> None:
        """The same structure with other constants shares one code object."""
        first = compile_condition((F.age > 1) & F.name.in_(["a"]), {}, PERSON)
        second = compile_condition((F.age > 7) & F.name.in_([["b"], "c"]), {}, shape_of(Person))

        assert first.matches.__code__ is second.matches.__code__
        assert second.matches(Person("c", 8))
        assert not first.matches(Person("c", 8))

    def test_code_is_not_shared_between_classes(self) -> None:
        """A class of the same name with other fields gets code of its own."""
        one = msgspec.defstruct("Thing", [("value", int)])
        two = msgspec.defstruct("Thing", [("value", int | None)])
        codes = {
            compile_condition(F.value > 1, {}, shape_of(cls)).matches.__code__ for cls in (one, two)
        }

        assert len(codes) == 2

    def test_kept_code_is_limited(self) -> None:
        """Only so many structures are kept, the newest of them."""
        for number in range(CACHED_SHAPES + 1):
            compile_condition(F[f"field{number}"] == 1, {}, DICT)

        assert CACHED_SHAPES == len(_kept)

    def test_source(self) -> None:
        """The generated source is plain comparisons, guarded where a None may be met."""
        source = compile_condition((F.name == "x") & (F.age > 1) & (F.id < 9), {}, PERSON).source

        assert (
            source == "(r.name == c0) and ((v0 := r.age) is not None and v0 > c1) and (r.id < c2)"
        )

    def test_names_that_are_no_python(self) -> None:
        """A field whose name is a keyword is reached all the same."""
        cls = msgspec.defstruct("Odd", [("class", int), ("größe", int)])
        record = cls(3, 4)

        assert matches((F["class"] == 3) & (F["größe"] == 4), record)

    def test_names_can_not_break_out(self) -> None:
        """A key is text in the generated code, whatever it looks like."""
        key = "'] or exit() or r['"

        assert matches(F[key] == 1, {key: 1})
        assert not matches(F[key] == 1, {})

    def test_field_type(self) -> None:
        """F gives fields."""

        assert isinstance(F.anything, Field)
