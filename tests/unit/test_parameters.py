"""Parameters of conditions, and what depends on them: optional, case, bind."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from memdb.errors import QueryError
from memdb.query import (
    Always,
    Expression,
    F,
    Never,
    P,
    Value,
    bind,
    bind_value,
    case,
    check_parameters,
    compile_condition,
    evaluate,
    has_callback,
    optional,
    parameters,
    value_of,
)
from memdb.query._conditions import DEEPEST
from memdb.serializers import shape_of


@dataclass
class Item:
    name: str = "chair"
    price: int = 3
    note: str | None = None
    id: int = 0


class Odd:
    """Can't be compared."""

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        raise TypeError


ITEM = shape_of(Item)
CHOICE = case(P.mode, {0: F.price == 3, "b": F.name == "b", None: F.id > 0}, F.price > 90)


class TestWriting:
    """How parameters are named, and what stands where only a parameter may."""

    @pytest.mark.parametrize("name", ["a b", "", "1a", "class", "a-b", 3, None])
    def test_bad_names(self, name: Any) -> None:
        """A name that no keyword argument can have is refused."""
        with pytest.raises(QueryError, match="can't be the name of a parameter"):
            P[name]

    def test_names(self) -> None:
        """A name is taken as Python takes those in a source."""

        assert repr(P["x"]) == repr(P.x) == "P.x"
        assert repr(P["ﬁn"]) == "P.fin"
        assert repr(P) == "P"
        with pytest.raises(TypeError):
            iter(P)  # type: ignore[call-overload]
        with pytest.raises(AttributeError):
            P.__wrapped__  # noqa: B018

    @pytest.mark.parametrize(
        ("use", "expected"),
        [
            (lambda: optional("x", F.a == 1), "takes a parameter first, as P.name, not 'x'"),
            (lambda: optional(F.x, F.a == 1), "takes a parameter first, as P.name, not F.x"),
            (lambda: optional(P.x, F.a), "F.a is a field, not a condition"),
            (lambda: optional(P.x, True), "not a bool"),
            (lambda: case(F.x, {}), "takes a parameter first"),
            (lambda: case(P.x, [F.a == 1]), "a dict of conditions"),
            (lambda: case(P.x, {1: 2}), "not a int"),
            (lambda: case(P.x, {1: F.a == 1}, default=3), "not a int"),
            (lambda: case(P.x, {(F.a == 1): F.a == 1}), "plain values, not F.a == 1"),
        ],
    )
    def test_refused(self, use: Callable[[], object], expected: str) -> None:
        """What can't be meant is refused where it is written."""
        with pytest.raises(QueryError, match=re.escape(expected)):
            use()

    @pytest.mark.parametrize(
        ("expression", "text"),
        [
            (optional(P.x, F.a == P.x), "optional(P.x, F.a == P.x)"),
            (~optional(P.x, F.a == 1), "~optional(P.x, F.a == 1)"),
            (
                case(P.x, {1: F.a == 1}, F.a == 2) & (F.b == 1),
                "case(P.x, {1: F.a == 1}, default=F.a == 2) & (F.b == 1)",
            ),
            (case(P.x, {"a": F.a.is_none()}), "case(P.x, {'a': F.a.is_(None)})"),
        ],
    )
    def test_repr(self, expression: Expression, text: str) -> None:
        """Conditions that depend on parameters show themselves as they are written."""

        assert repr(expression) == text


class TestMeaning:
    """What a condition means for given parameters; binding it first changes nothing."""

    @pytest.mark.parametrize(
        ("condition", "given", "expected"),
        [
            (F.price == P.x, {"x": 3}, True),
            (F.price == P.x, {"x": None}, False),
            (P.x < F.price, {"x": 2}, True),
            (F.price + P.x == 5, {"x": 2}, True),
            (F.price % P.x == 0, {"x": 0}, False),
            (F.price.in_(P.x), {"x": iter([1, 3])}, True),
            (F.price.in_(P.x), {"x": []}, False),
            (F.price.in_([P.x, P.y]), {"x": 1, "y": 3}, True),
            (F.price.between(P.x, P.y), {"x": 1, "y": 3}, True),
            (F.name.startswith(P.x), {"x": "ch"}, True),
            (F.name.endswith(P.x), {"x": "ch"}, False),
            (F.name.contains(P.x), {"x": "hai"}, True),
            (F.name.matches(P.x), {"x": "^c"}, True),
            (F.name.matches(P.x), {"x": re.compile("^C", re.I)}, True),
            (P.x == 3, {"x": 3}, True),
            (P.x.len_() == F.price, {"x": "abc"}, True),
            (-P.x == F.price, {"x": -3}, True),
            (P.x.between(F.price, 9), {"x": 4}, True),
            (optional(P.x, F.price == P.x), {"x": 4}, False),
            (optional(P.x, F.price == P.x), {"x": None}, True),
            (optional(P.x, F.price == P.x), {}, True),
            (optional(P.x, F.price == 4), {"x": 0}, False),
            (~optional(P.x, F.price == P.x), {}, False),
            (~optional(P.x, F.price == P.x), {"x": 4}, True),
            (optional(P.x, F.price == 4) | (F.price == 5), {}, True),
            (optional(P.x, F.price == 3) & (F.name == "x"), {}, False),
            (optional(P.x, lambda item: item.price == 4), {"x": 1}, False),
            (CHOICE, {"mode": 0}, True),
            (CHOICE, {"mode": False}, True),
            (CHOICE, {"mode": "b"}, False),
            (CHOICE, {"mode": None}, False),
            (CHOICE, {"mode": []}, False),
            (case(P.mode, {Odd(): F.id == 1, 1: F.price == 3}), {"mode": 1}, True),
            (~CHOICE, {"mode": 7}, True),
            (case(P.mode, {1: F.price == 3}), {"mode": 2}, False),
            (~case(P.mode, {1: F.price == 3}), {"mode": 2}, True),
            (case(P.mode, {}, lambda item: item.price == 3), {"mode": 2}, True),
            (case(P.mode, {1: optional(P.x, F.price == P.x)}), {"mode": 1}, True),
            (~(F.price == P.x), {"x": 4}, True),
        ],
    )
    def test_meaning(self, condition: Expression, given: dict[str, Any], expected: bool) -> None:
        """The condition means the same evaluated, bound, and bound and compiled."""
        checked = check_parameters(condition, given)
        bound = bind(condition, checked)

        assert evaluate(condition, Item(), checked) is expected
        assert evaluate(bound, Item()) is expected
        assert compile_condition(bound, {}, ITEM).matches(Item()) is expected
        assert not parameters(bound)

    @pytest.mark.parametrize(
        ("condition", "given", "text"),
        [
            (F.a == 1, {}, "F.a == 1"),
            ((F.a == P.x) & (F.b == 1), {"x": 2}, "(F.a == 2) & (F.b == 1)"),
            (optional(P.x, F.a == 1) & (F.b == 1), {}, "F.b == 1"),
            (optional(P.x, F.a == 1) & optional(P.y, F.b == 1), {}, "Always()"),
            (optional(P.x, F.a == 1) | (F.b == 1), {}, "Always()"),
            (~optional(P.x, F.a == 1) & (F.b == 1), {}, "Never()"),
            (~optional(P.x, F.a == 1) | (F.b == 1), {}, "F.b == 1"),
            (~~optional(P.x, F.a == 1), {}, "Always()"),
            (case(P.x, {1: (F.a == 1) & (F.b == 2)}) & (F.c == 3), {"x": 1}, "(F.a == 1) & "),
            (case(P.x, {1: F.a == 1}) | (F.c == 3), {"x": 2}, "F.c == 3"),
            (case(P.x, {1: (F.a == 1) | (F.b == 2)}) | (F.c == 3), {"x": 1}, "(F.a == 1) | "),
            (case(P.x, {1: F.a == 1}) & (F.c == 3), {"x": 2}, "Never()"),
            (P.x == 3, {"x": 2}, "2 == 3"),
            (F.a.in_(P.x), {"x": (1, 2)}, "F.a.in_([1, 2])"),
        ],
    )
    def test_bound(self, condition: Expression, given: dict[str, Any], text: str) -> None:
        """What is bound has only what is left to be looked at."""

        assert repr(bind(condition, given)).startswith(text)

    def test_unchanged_parts_are_kept(self) -> None:
        """A condition without parameters is bound to itself."""
        condition = (F.a + 1 == 3) & (F.b.len_() == 2)
        bound = bind(condition, {})

        assert list(map(id, bound.parts)) == list(map(id, condition.parts))  # type: ignore[attr-defined]

    @pytest.mark.parametrize(
        ("value", "text"),
        [(F.a % P.x, "F.a % 8"), (P.x, "8"), (-P.x, "-8"), (F.a, "F.a"), (P.x + F.a, "8 + F.a")],
    )
    def test_values(self, value: Value, text: str) -> None:
        """Values are bound as conditions are."""
        given = {"x": 8} if parameters(value) else {}

        assert repr(bind_value(value, given)) == text
        assert value_of(value, {"a": 3}, given) == value_of(bind_value(value, given), {"a": 3})

    def test_always_and_never(self) -> None:
        """Conditions that say the same of every record are compiled too."""
        always, never = Always(), Never()

        assert compile_condition(always, {}, ITEM).matches(Item())
        assert not compile_condition(never, {}, ITEM).matches(Item())
        assert evaluate(always, None) and not evaluate(never, None)

    def test_callables(self) -> None:
        """A callable anywhere within is found, so that it gets copies."""

        assert has_callback(optional(P.x, lambda item: True))
        assert has_callback(case(P.x, {}, lambda item: True))
        assert not has_callback(CHOICE)


class TestChecking:
    """Which parameters there are, and what is refused."""

    def test_parameters(self) -> None:
        """They come in order; those that only their own optional conditions use may be left out."""
        condition = (
            (F.a > P.low)
            & optional(P.high, F.a < P.high)
            & optional(P.both, F.b == P.other)
            & case(P.mode, {1: optional(P.mode, F.a == P.mode)})
            & F.c.in_(P.among)
            & optional(P.late, F.a == 1)
        )

        assert parameters(condition, F.d % P.late, F.e + P.last) == {
            "low": True, "high": False, "both": False, "other": True, "mode": True, "among": True,
            "late": True, "last": True,
        }  # fmt: skip

    @pytest.mark.parametrize(
        ("condition", "given", "expected"),
        [
            (F.a == P.low, {}, "P.low was not given"),
            (F.a == P.low, {"low": 1, "lov": 2}, "no parameter 'lov'. Did you mean 'low'?"),
            (F.a == P.low, {"low": 1, "x": 2}, "no parameter 'x'. It has low."),
            (F.a == 1, {"x": 2}, "no parameter 'x'. It has none."),
            (optional(P.x, F.a == P.y), {"x": None}, "P.y was not given"),
            (F.a.in_(P.x), {"x": "abc"}, "P.x of in_() takes a collection of values, not a str"),
            (F.a.in_(P.x), {"x": 3}, "takes a collection of values, not a int"),
            (F.a.in_(P.x), {"x": None}, "takes a collection of values, not a NoneType"),
            (F.a.startswith(P.x), {"x": 3}, "P.x of startswith() or endswith() takes text"),
            (F.a.endswith(P.x), {"x": None}, "takes text or bytes, not a NoneType"),
            (F.a.matches(P.x), {"x": "("}, "P.x of matches(): '(' is no regular expression"),
            (F.a.matches(P.x), {"x": 3}, "takes a regular expression, not a int"),
        ],
    )
    def test_refused(self, condition: Expression, given: dict[str, Any], expected: str) -> None:
        """Missing, unknown and unfitting parameters are refused, with their names."""
        with pytest.raises(QueryError) as caught:
            bind(condition, given)
        assert expected in str(caught.value)

        if "no parameter" not in expected and "y" not in parameters(condition):
            with pytest.raises(QueryError) as caught:
                evaluate(condition, {"a": "x"}, given)
            assert expected in str(caught.value)

    def test_what_does_not_count_is_not_refused(self) -> None:
        """A value is only looked at where its condition counts."""
        condition = case(P.mode, {1: F.a.in_(P.x), 2: F.a.startswith(P.x)}, F.a == 3)

        assert repr(bind(condition, {"mode": 3, "x": None})) == "F.a == 3"
        assert repr(bind(condition, {"mode": 2, "x": "abc"})) == "F.a.startswith('abc')"
        assert check_parameters(optional(P.x, F.a.in_(P.x)), {}) == {"x": None}

    def test_iterators_are_read_once(self) -> None:
        """What can be read only once serves every record."""
        checked = check_parameters(F.a.in_(P.x) & F.b.in_(P.x), {"x": iter([1, 2])})

        assert checked == {"x": [1, 2]}

    def test_no_value(self) -> None:
        """What has parameters can't be compiled before they are given."""
        with pytest.raises(QueryError, match="which has no value here"):
            compile_condition(F.price == P.x, {}, ITEM)
        with pytest.raises(QueryError, match="prepare"):
            compile_condition(None, {"price": P.x}, ITEM)

    def test_too_deep(self) -> None:
        """What is nested too deep is refused before anything else is done with it."""
        condition: Expression = F.price == P.x
        for _ in range(50 * DEEPEST):
            condition = ~condition

        with pytest.raises(QueryError, match="60 levels"):
            bind(condition, {"x": 1})

    def test_unfitting_type(self) -> None:
        """A bound value is compared with the annotation as a constant is."""
        with pytest.raises(QueryError, match="annotated int"):
            compile_condition(bind(F.price < P.x, {"x": "a"}), {}, ITEM)
