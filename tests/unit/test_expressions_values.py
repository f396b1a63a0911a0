"""Values of conditions and queries: what is calculated, compared with each other and ordered by."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Any
from uuid import UUID, uuid4

import numpy as np
import pytest

from memdb.errors import QueryError
from memdb.indexes._order import ABSENT
from memdb.query import (
    Aggregate,
    Expression,
    F,
    Group,
    Order,
    P,
    SourceWriter,
    Value,
    case,
    compile_condition,
    count_,
    evaluate,
    optional,
    order_term,
    term_key,
    value_of,
    value_term,
)
from memdb.query._conditions import DEEPEST
from memdb.serializers import shape_of


class Color(Enum):
    RED = "red"


class Level(IntEnum):
    LOW = 1


class Weight:
    """Have an order of its own."""

    def __lt__(self, other: object) -> bool:
        return True


class Own(int):
    """Have an order of its own in the place of that of its base."""

    def __lt__(self, other: object) -> bool:
        return True


@dataclass
class Address:
    city: str | None = None


@dataclass
class Item:
    name: str = "chair"
    price: int = 3
    amount: int = 4
    rate: float = 0.5
    cost: Decimal = Decimal("1.5")
    note: str | None = None
    tags: list[str] = field(default_factory=list)
    pair: tuple[int, str] = (1, "x")
    numbers: tuple[int, ...] = ()
    raw: bytes = b"ab"
    table: dict[str, int] = field(default_factory=dict)
    by_number: dict[int, str] = field(default_factory=dict)
    labels: set[str] = field(default_factory=set)
    when: datetime = datetime(2020, 1, 1)
    day: date = date(2020, 1, 1)
    hour: time = time(1)
    span: timedelta = timedelta(1)
    key: UUID = field(default_factory=uuid4)
    color: Color = Color.RED
    level: Level = Level.LOW
    address: Address | None = None
    weight: Weight | None = None
    own: Own = field(default_factory=Own)
    generic: Callable[[], int] | None = None
    either: int | str = 0
    extra: Any = None
    id: int = 0


ITEM = shape_of(Item)


def matches(condition: Expression, record: Any) -> bool:
    """Compile for the record's class and apply, in agreement with the definition."""
    shape = shape_of(None if type(record) is dict else type(record))
    answer = compile_condition(condition, {}, shape).matches(record)
    assert answer is evaluate(condition, record)
    return answer


class TestWriting:
    """How values are written, and how they show themselves."""

    @pytest.mark.parametrize(
        ("value", "text"),
        [
            (F.a + 1, "F.a + 1"),
            (1 - F.a, "1 - F.a"),
            (F.a * F.b - 2, "(F.a * F.b) - 2"),
            (2 / F.a, "2 / F.a"),
            (F.a // 2, "F.a // 2"),
            (7 // F.a, "7 // F.a"),
            (7 % F.a, "7 % F.a"),
            (F.a % P.n, "F.a % P.n"),
            (2 ** (F.a**2), "2 ** (F.a ** 2)"),
            ("x" + F.a, "'x' + F.a"),
            (3 * F.a, "3 * F.a"),
            (F.a / 3, "F.a / 3"),
            (-F.a, "-F.a"),
            (-(F.a + 1), "-(F.a + 1)"),
            ((-F.a) ** 2, "(-F.a) ** 2"),
            (abs(F.a - 1), "abs(F.a - 1)"),
            (abs(F.a) + 1, "abs(F.a) + 1"),
            (F.tags.len_(), "F.tags.len_()"),
            ((F.a + F.b).len_(), "(F.a + F.b).len_()"),
            (F.tags[0], "F.tags[0]"),
            (F.meta["k"][-1].x, "F.meta.k[-1].x"),
            (P.x, "P.x"),
            (count_(), "count_()"),
            (F.a.sum_(), "F.a.sum_()"),
            ((F.a * F.b).mean_(), "(F.a * F.b).mean_()"),
            (F.a.min_(), "F.a.min_()"),
            (F.a.max_() - F.a.min_(), "F.a.max_() - F.a.min_()"),
        ],
    )
    def test_repr(self, value: Value, text: str) -> None:
        """A value shows itself as it is written in Python, and so does what compares it."""
        inside = value._enclosed()

        assert repr(value) == text
        assert repr(value == 3) == f"{inside} == 3"
        assert repr(value.desc()) == f"{inside}.desc()"
        assert repr(value.in_([1])) == f"{inside}.in_([1])"

    @pytest.mark.parametrize(
        ("condition", "text"),
        [
            (F.a < F.b, "F.a < F.b"),
            (F.a + F.b > 3, "(F.a + F.b) > 3"),
            (5 < F.a, "F.a > 5"),
            (P.x >= F.a, "F.a <= P.x"),
            (P.x == 3, "P.x == 3"),
            (P.x < P.y, "P.x < P.y"),
            (F.a.in_(P.x), "F.a.in_(P.x)"),
            (F.a.in_(F.b), "F.b.contains(F.a)"),
            (F.a.in_([P.x, 1]), "F.a.in_([1]) | (F.a == P.x)"),
            (F.a.in_([F.b]), "F.a == F.b"),
            (F.a.matches("x$"), "F.a.matches('x$')"),
            (F.a.matches(b"x"), "F.a.matches(b'x')"),
            (F.a.matches(re.compile("x", re.I)), "F.a.matches(re.compile('x', re.IGNORECASE))"),
            (F.a.matches(P.x), "F.a.matches(P.x)"),
            (F.a.startswith(P.x), "F.a.startswith(P.x)"),
            (F.a.endswith("x"), "F.a.endswith('x')"),
            (F.a.is_none(), "F.a.is_(None)"),
            (np.int64(5) < F.a, "F.a > "),
        ],
    )
    def test_repr_of_conditions(self, condition: Expression, text: str) -> None:
        """A condition on values shows itself as it could be written."""

        assert repr(condition).startswith(text)

    @pytest.mark.parametrize(
        ("use", "expected"),
        [
            (lambda: F.a.matches("("), "no regular expression"),
            (lambda: F.a.matches(3), "takes a regular expression, not a int"),
            (lambda: F.a.matches(F.b), "takes a regular expression, not a Field"),
            (lambda: F.a.endswith(3), "text or bytes"),
            (lambda: bool(F.a + 1), "no truth value"),
            (lambda: (F.a + 1) & (F.b == 1), "parentheses"),
            (lambda: (F.a == 1) & (F.b + 1), "parentheses"),
            (lambda: order_term(3), "3 is no field"),
            (lambda: order_term("-"), "'' is no field"),
            (lambda: value_term(F.a == 1), "is no field"),
            (lambda: value_term(F.a.desc()), "is no field"),
        ],
    )
    def test_refused(self, use: Callable[[], object], expected: str) -> None:
        """What can't be meant is refused where it is written."""
        with pytest.raises(QueryError, match=expected):
            use()

    def test_values_are_no_containers(self) -> None:
        """Python does not take a value for something to iterate over or to hash."""
        for value in (F.a + 1, F.a.len_(), P.x, count_()):
            with pytest.raises(TypeError):
                iter(value)
            with pytest.raises(TypeError):
                hash(value)

    @pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))])
    @pytest.mark.parametrize(
        "node",
        [
            F,
            P,
            F.a,
            F.a.b[0] + 1,
            -F.a % 3,
            F.a.len_(),
            P.x,
            count_(),
            F.a.sum_(),
            F.a.desc(),
            F.a.matches("x"),
            optional(P.x, F.a == P.x),
            case(P.x, {1: F.a == 1}, F.b == 2),
            ~((F.a == 1) | (F.b.in_([[1]]))),
        ],
    )
    def test_copies(self, duplicate: Callable[[Any], Any], node: Any) -> None:
        """Everything survives being copied and pickled, used before or not."""
        if isinstance(node, Expression):
            node._analysis = (node._take([], 0), [])

        assert repr(duplicate(node)) == repr(node)

    def test_fields_are_found_again(self) -> None:
        """The field of a name is made once, unless there are very many names."""
        assert F.again is F.again

        for number in range(2000):
            getattr(F, f"many{number}")
        assert len(vars(F)) <= 1000

    def test_names_of_methods(self) -> None:
        """A field with the name of a method is reached with brackets."""
        condition = (F["matches"] == 1) & (F.a["sum_"] == 2) & (F.inner == 3) & (F.a.take == 4)

        assert matches(condition, {"matches": 1, "a": {"sum_": 2, "take": 4}, "inner": 3})


class TestMeaning:
    """What is calculated, and which records are found by it."""

    @pytest.mark.parametrize(
        ("condition", "record"),
        [
            (F.price * F.amount == 12, Item()),
            (F.price < F.amount, Item()),
            (F.amount > F.price, Item()),
            (F.price + 1 == F.amount, Item()),
            (10 - F.price == 7, Item()),
            (F.price / 2 == 1.5, Item()),
            (12 / F.price == F.amount, Item()),
            (F.price // 2 == 1, Item()),
            (F.price % 2 == 1, Item()),
            (F.price**2 == 9, Item()),
            (2**F.price == 8, Item()),
            (-F.price == -3, Item()),
            ((-F.price) ** 2 == 9, Item()),
            (-(F.price**2) == -9, Item()),
            (abs(F.price - 10) == 7, Item()),
            ((F.price - 1) - (F.amount - 5) == 3, Item()),
            (F.cost + 1 == Decimal("2.5"), Item()),
            (F.when + timedelta(1) == datetime(2020, 1, 2), Item()),
            (F.name + "s" == "chairs", Item()),
            ("arm" + F.name == "armchair", Item()),
            (F.name.len_() == 5, Item()),
            (F.tags.len_() >= 2, Item(tags=["a", "b"])),
            (F.note.len_() == 1, Item(note="x")),
            (F.tags[0] == "a", Item(tags=["a", "b"])),
            (F.tags[-1] == "b", Item(tags=["a", "b"])),
            (F.tags[1] > "a", Item(tags=["a", "b"])),
            (F.pair[1] == "x", Item()),
            (F.pair[0] + 1 == 2, Item()),
            (F.numbers[2] == 3, Item(numbers=(1, 2, 3))),
            (F.raw[0] == 97, Item()),
            (F.name[0] == "c", Item()),
            (F.name[0].startswith("c"), Item()),
            (F.table["a"] == 1, Item(table={"a": 1})),
            (F.by_number[7] == "x", Item(by_number={7: "x"})),
            (F.extra[0][1] == 2, Item(extra=[[1, 2]])),
            (F.extra[0] == "x", Item(extra={0: "x"})),
            (F.when.year + 1 == 2021, Item()),
            (F.address.city == F.note, Item(address=Address())),
            (F.name.matches("^c.*r$"), Item()),
            (F.name.matches("ai"), Item()),
            (F.name.matches(re.compile("AI", re.I)), Item()),
            (F.raw.matches(b"^a"), Item()),
            (F.name.endswith("air"), Item()),
            (F.name.startswith(F.note), Item(note="ch")),
            (F.tags.contains(F.name), Item(tags=["chair"])),
            (F.name.in_(F.tags), Item(tags=["chair"])),
            (F.price.in_([1, F.amount - 1]), Item()),
            (F.amount.between(F.price, F.price + 1), Item()),
            (F.note.is_none(), Item()),
            (np.int64(2) + F.price == 5, Item()),
            (F.a % 2 == 1, {"a": 3}),
            (F.a.b[0] < F.c, {"a": {"b": [1]}, "c": 2}),
        ],
    )
    def test_match(self, condition: Expression, record: Any) -> None:
        """The record matches the condition, and does not match its opposite."""

        assert matches(condition, record) is True
        assert matches(~condition, record) is False

    @pytest.mark.parametrize(
        ("condition", "record"),
        [
            # What is absent, or can't be calculated, equals nothing.
            (F.note + "x" == "x", Item()),
            (F.note.len_() == 0, Item()),
            (F.price.len_() == 0, Item()),
            (F.price / 0 == 0, Item()),
            (F.name % 3 == "", Item(name="%q")),
            (F.tags[0] == "a", Item()),
            (F.tags[0].is_none(), Item()),
            (F.table["x"] == None, Item()),  # noqa: E711
            (F.by_number[1] == "x", Item()),
            (F.extra[0] == 1, Item(extra=3)),
            (F.extra[0] == 1, Item(extra={})),
            (F.address.city == F.address.city, Item()),
            (F.a == F.b, {}),
            (F.a + F.b == 3, {"a": 3}),
            (F.a < F.b, {"a": 1, "b": "x"}),
            (F.a < F.b, {"a": None, "b": None}),
            (F.name.matches("^x"), Item()),
            (F.note.matches(""), Item()),
            (F.price.matches(""), Item()),
            (F.name.matches(b"c"), Item()),
            (F.name.endswith("x"), Item()),
            (F.name.in_(F.tags), Item()),
            (F.cost % 0 < 1, Item()),
            (F.extra**2 > 0, Item(extra="x")),
        ],
    )
    def test_no_match(self, condition: Expression, record: Any) -> None:
        """The record does not match, nothing is raised, and the opposite matches."""

        assert matches(condition, record) is False
        assert matches(~condition, record) is True

    def test_not_equal(self) -> None:
        """What is absent on either side is not equal."""

        assert matches(F.a != F.b, {"a": 1})
        assert matches(F.a != F.b, {"b": 1})
        assert matches(F.a + 1 != 3, {})

    @pytest.mark.parametrize(
        ("value", "expected"),
        [
            (F.price, 3),
            (F.price % 2 + F.amount, 5),
            (F.note, None),
            (F.note.len_(), ABSENT),
            (F.address.city, ABSENT),
            (F.tags[3], ABSENT),
            (abs(-F.price), 3),
        ],
    )
    def test_value_of(self, value: Value, expected: object) -> None:
        """A value is calculated, or absent; its source says the same."""
        writer = SourceWriter(ITEM, is_typed=True)
        source = writer.value(value)

        assert value_of(value, Item()) == expected
        assert eval(source, {**writer.namespace, "r": Item(), "c0": 2}) == expected

    def test_deep_value(self) -> None:
        """Values within each other have the same limit as conditions."""
        value: Value = F.price
        for _ in range(DEEPEST - 1):
            value = -value
        assert matches(value == -3, Item())

        with pytest.raises(QueryError, match="60 levels"):
            matches(-value == 3, Item())

    def test_unknown_kind_of_value(self) -> None:
        """A class of value that memdb does not know is refused, not ignored."""

        class Strange(Value):
            pass

        for use in (
            lambda: compile_condition(Strange() == 1, {}, ITEM),
            lambda: evaluate(Strange() == 1, Item()),
            lambda: SourceWriter(ITEM, is_typed=True).value(Strange()),
        ):
            with pytest.raises(QueryError, match="Strange"):
                use()


class TestComparable:
    """What can't be compared by `<` and its kin is refused, as far as annotations tell."""

    @pytest.mark.parametrize(
        ("condition", "expected"),
        [
            (F.price < "a", "F.price is annotated int, which can't be compared by < with 'a'"),
            (F.price <= None, "or use .is_"),
            (F.note > 3, "annotated str | None"),
            (F.note >= None, "with None"),
            (F.rate > "x", "float"),
            (F.cost < b"x", "Decimal"),
            (F.name.between("a", 3), "by between with 3"),
            (F.name.between(3, "a"), "by between with 3"),
            (F.name.startswith(b"x"), "by startswith"),
            (F.name.endswith(b"x"), "by endswith"),
            (F.raw.startswith("x"), "annotated bytes"),
            (F.price.startswith("x"), "annotated int"),
            (F.when < date(2020, 1, 1), "annotated datetime"),
            (F.day < datetime(2020, 1, 1), "annotated date"),
            (F.hour < datetime(2020, 1, 1), "annotated time"),
            (F.span < 3, "annotated timedelta"),
            (F.key < 3, "annotated UUID"),
            (F.color < "red", "annotated Color"),
            (F.table < {}, "annotated dict"),
            (F.table["a"] < "x", "annotated int"),
            (F.tags[0] < 3, "annotated str"),
            (F.tags < 3, "annotated list"),
            (F.pair[1] < 3, "annotated str"),
            (F.address < 3, "annotated Address | None"),
            (F.tags.len_() < "x", "F.tags.len_() is annotated int"),
            (F.weight < None, "annotated Weight"),
            (F.own < None, "annotated Own"),
            ((F.price == 1) | ~(F.price < "a"), "annotated int"),
            (optional(P.x, F.price < "a"), "annotated int"),
            (case(P.x, {1: F.price < "a"}), "annotated int"),
        ],
    )
    def test_refused(self, condition: Expression, expected: str) -> None:
        """A constant that Python could never compare with the annotated type is refused."""
        with pytest.raises(QueryError) as caught:
            SourceWriter(ITEM, is_typed=False).condition(condition)

        assert expected in str(caught.value)

    @pytest.mark.parametrize(
        "condition",
        [
            F.price < 1.5,
            F.price < Decimal(1),
            F.price < True,
            F.price < Decimal("NaN"),
            F.rate > 3,
            F.cost < 1.5,
            F.when < datetime(2020, 1, 1, tzinfo=UTC),
            F.hour < time(1, tzinfo=UTC),
            F.labels < {"a"},
            F.tags < ["a"],
            F.pair < (2,),
            F.level < 3,
            F.either < "a",
            F.either < 3,
            F.weight < "anything",
            F.own < "anything",
            F.generic < 3,
            F.generic[0] == 3,
            F.extra < "a",
            F.extra < None,
            F.price < np.int64(3),
            F.price + 1 < "a",
            F.price < F.name,
        ],
    )
    def test_allowed(self, condition: Expression) -> None:
        """What may be comparable is not refused, and never raises."""

        assert matches(condition, Item(extra=3)) in (True, False)

    def test_dicts(self) -> None:
        """Nothing is known of the values of dicts, so that nothing is refused."""

        assert not matches((F.a < "x") | (F.a < None), {"a": 3})

    def test_constants_of_another_type(self) -> None:
        """What was compiled for one type is not taken for a constant of another."""
        assert matches(F.price < 9, Item())

        with pytest.raises(QueryError, match="can't be compared"):
            matches(F.price < "a", Item())

    @pytest.mark.parametrize(
        ("condition", "expected"),
        [
            (F.labels[0] == 1, "F.labels[0]: set has no elements by number"),
            (F.price[0] == 1, "int has no elements"),
            (F.address[0] == 1, "Address has no elements"),
        ],
    )
    def test_elements(self, condition: Expression, expected: str) -> None:
        """An element is refused where there can't be any."""
        with pytest.raises(QueryError) as caught:
            matches(condition, Item())

        assert expected in str(caught.value)


class TestTerms:
    """What queries order, select and group by."""

    @pytest.mark.parametrize(
        ("given", "text"),
        [
            (F.a, "F.a.asc()"),
            (F.a.desc(), "F.a.desc()"),
            (F.a.asc().desc(), "F.a.desc()"),
            (F.a.desc().asc(), "F.a.asc()"),
            ("a", "F.a.asc()"),
            ("-a", "F.a.desc()"),
            ("-a.b", "F.a.b.desc()"),
            (F.a % 8, "(F.a % 8).asc()"),
        ],
    )
    def test_order(self, given: Any, text: str) -> None:
        """An order is given by a term, a value or a name."""
        term = order_term(given)

        assert isinstance(term, Order)
        assert repr(term) == text

    def test_values(self) -> None:
        """A value is given as such or by a name."""

        assert repr(value_term("a.b")) == "F.a.b"
        assert value_term(F.a) is F.a

    def test_keys(self) -> None:
        """The same calculation has the same key, whatever objects it is written with."""
        keys = [
            term_key(value)
            for value in (F.a, F.a % 8, F.a % 8.0, F.a % True, F.a.sum_(), count_(), F.a[1])
        ]

        assert len(keys) == len(set(keys))
        assert term_key(F.a % 8) == term_key(F.a % 8)
        assert term_key(F.a * [1]) == term_key(F.a * [1])

    def test_group(self) -> None:
        """A condition on a group takes what the group has, and calculates the rest from it."""
        group = Group({term_key(F.a): 3, term_key(F.b.sum_()): 10, term_key(count_()): 4})

        assert evaluate((F.a == 3) & (F.b.sum_() / count_() == 2.5), group)
        assert value_of(F.b, group) is ABSENT
        with pytest.raises(QueryError, match=r"F.b.mean_\(\) is calculated over a group"):
            evaluate(F.b.mean_() > 3, group)

    def test_no_group(self) -> None:
        """A single record has no aggregates."""
        assert isinstance(count_(), Aggregate)

        with pytest.raises(QueryError, match="group_by"):
            compile_condition(count_() > 1, {}, ITEM)
        with pytest.raises(QueryError, match="group_by"):
            evaluate(F.price.sum_() > 1, Item())
