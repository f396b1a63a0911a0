"""The source that conditions and values are written in, and what it is kept by."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum
from typing import Any

import pytest

from memdb.errors import QueryError
from memdb.query import (
    Expression,
    F,
    P,
    SourceWriter,
    case,
    conjuncts,
    constants,
    optional,
    structure,
)
from memdb.query._conditions import DEEPEST
from memdb.serializers import shape_of


class Level(IntEnum):
    LOW = 1


@dataclass
class Item:
    name: str = ""
    tier: int = 0
    rate: float = 0.0
    flag: bool = False
    maybe: bool | None = None
    note: str | None = None
    when: datetime = datetime(2020, 1, 1)
    tags: list[str] = field(default_factory=list)
    table: dict[str, int] = field(default_factory=dict)
    inner: Item | None = None
    color: Level = Level.LOW
    extra: Any = None


ITEM, DICT = shape_of(Item), shape_of(None)
MODES = {0: F.tier == 1, 1: F.tier == P.x}


class TestSource:
    """The source of conditions: plain comparisons, with guards where a None may be met."""

    @pytest.mark.parametrize(
        ("condition", "typed", "untyped"),
        [
            (F.tier == 13, "r.tier == c0", None),
            (F.tier != 13, "not (r.tier == c0)", None),
            (F.flag == True, "r.flag", "r.flag == True"),  # noqa: E712
            (F.flag == False, "not r.flag", "r.flag == False"),  # noqa: E712
            (F.flag != True, "not (r.flag)", "not (r.flag == True)"),  # noqa: E712
            (F.maybe == True, "r.maybe is True", "r.maybe == True"),  # noqa: E712
            (F.tier == True, "r.tier == True", None),  # noqa: E712
            (F.note == None, "r.note is None", "r.note == None"),  # noqa: E711
            (F.note != None, "not (r.note is None)", "not (r.note == None)"),  # noqa: E711
            (F.extra == None, "r.extra == None", None),  # noqa: E711
            (F.note.is_none(), "r.note is None", None),
            (F.note == "x", "r.note == c0", None),
            (F.note < "x", "(v0 := r.note) is not None and v0 < c0", None),
            (F.extra < 3, "(v0 := r.extra) is not None and v0 < c0", None),
            (F.tier % 10 == 0, "r.tier % c0 == c1", None),
            ((F.tier + 1) * 2 > F.rate, "(r.tier + c0) * c1 > r.rate", None),
            (-F.tier < 3, "-r.tier < c0", None),
            (abs(F.tier - 1) < 3, "abs(r.tier - c0) < c1", None),
            (F.tags.len_() > 1, "len(r.tags) > c0", None),
            (F.name.between("a", "b"), "c0 <= r.name <= c1", None),
            (
                F.name.in_(["a"]),
                "r.name in c0",
                "((v0 := r.name) in c0 or type_of(v0) not in SURE and odd_in(v0, c0))",
            ),
            (F.name.matches("a"), "c0(r.name) is not None", None),
            (F.name.endswith("a"), "r.name.endswith(c0)", None),
            (F.tags.contains("a"), "c0 in r.tags", None),
            (F.name.in_(F.tags), "r.name in r.tags", None),
            (F.name == F.note, "r.name == r.note", None),
            (
                F.note < F.inner.name,
                "(v0 := r.note) is not None and (v1 := r.inner) is not None and v0 < v1.name",
                None,
            ),
            (
                F.table["a b"] == 1,
                "(v0 := r.table.get('a b', absent)) is not absent and v0 == c0",
                None,
            ),
            (
                F.tags[0] == "x",
                "(v0 := item(r.tags, 0, absent)) is not absent and v0 == c0",
                None,
            ),
            (
                (F.tier == 1) & ~((F.flag == True) | (F.name == "x")),  # noqa: E712
                "(r.tier == c0) and (not ((r.flag) or (r.name == c1)))",
                "(r.tier == c0) and (not ((r.flag == True) or (r.name == c1)))",
            ),
            (optional(P.x, F.tier == P.x), "p_x is None or (r.tier == p_x)", None),
            (
                case(P.x, {1: F.tier == 5}, F.tier == 6),
                "((r.tier == c1) if arm0 == 0 else (r.tier == c2))",
                None,
            ),
        ],
    )
    def test_condition(self, condition: Expression, typed: str, untyped: str | None) -> None:
        """The source trusts the annotations or not, and has the constants in order."""
        for is_typed, expected in ((True, typed), (False, untyped or typed)):
            writer = SourceWriter(ITEM, is_typed=is_typed)

            assert writer.condition(condition) == expected
            assert writer.constants == len(constants(condition))

    def test_dict(self) -> None:
        """A dict is looked into by key."""
        source = SourceWriter(DICT, is_typed=False).condition(F["a'b"] == 1)

        assert source == '(v0 := r.get("a\'b", absent)) is not absent and v0 == c0'

    def test_one_after_the_other(self) -> None:
        """Constants and variables are numbered through the whole function."""
        writer = SourceWriter(ITEM, is_typed=True)
        sources = [
            writer.condition(F.note > "a"),
            writer.value(F.tier % 8),
            writer.value(F.inner.note),
            writer.condition(F.note < "b"),
        ]

        assert sources == [
            "(v0 := r.note) is not None and v0 > c0",
            "(r.tier % c1)",
            "(v1.note if (v1 := r.inner) is not None else absent)",
            "(v2 := r.note) is not None and v2 < c2",
        ]

    def test_unknown_expression(self) -> None:
        """A class of condition that memdb does not know is refused."""

        class Strange(Expression):
            pass

        with pytest.raises(QueryError, match="Strange"):
            SourceWriter(ITEM, is_typed=True).condition(Strange())

    def test_callables_have_no_source(self) -> None:
        """The user's own code is no part of the source."""
        with pytest.raises(QueryError, match="no source"):
            SourceWriter(ITEM, is_typed=True).condition((F.tier == 1) & (lambda item: True))


class TestPrelude:
    """What is made of parameters and checked, once for each call."""

    @staticmethod
    def run(condition: Expression, *, is_checked_only: bool = False, **given: object) -> list[str]:
        """Write, run the prelude with the parameters, and return its lines."""
        writer = SourceWriter(ITEM, is_typed=True)
        (writer.check if is_checked_only else writer.condition)(condition)
        names = {f"p_{name}": value for name, value in given.items()}
        held = {f"c{number}": value for number, value in enumerate(constants(condition))}
        exec("\n".join(writer.prelude), {**writer.namespace, **names, **held})
        return writer.prelude

    @pytest.mark.parametrize(
        ("condition", "given", "lines"),
        [
            (F.tier == P.x, {"x": "any"}, []),
            (F.extra < P.x, {"x": "any"}, []),
            (F.tier >= P.x, {"x": 1.5}, ["type(p_x) is int or check0(p_x)"]),
            (F.rate < P.x, {"x": 1}, ["type(p_x) is int or type(p_x) is float or check0(p_x)"]),
            (F.note < P.x, {"x": "a"}, ["type(p_x) is str or check0(p_x)"]),
            (F.color < P.x, {"x": 3}, ["type(p_x) is type0 or check0(p_x)"]),
            (F.when < P.x, {"x": datetime(2020, 1, 1)}, ["type(p_x) is type0 or check0(p_x)"]),
            (F.name.in_(P.x), {"x": {"a"}}, ["m0 = members(p_x, 'x')"]),
            (F.name.matches(P.x), {"x": "a"}, ["s0 = search(p_x, 'x')"]),
            (
                F.name.startswith(P.x),
                {"x": "a"},
                ["check_text(p_x, 'x')", "type(p_x) is str or check0(p_x)"],
            ),
            (
                optional(P.x, F.tier < P.x),
                {"x": None},
                ["p_x is None or type(p_x) is int or check0(p_x)"],
            ),
            (
                optional(P.x, F.name.in_(P.x)),
                {"x": None},
                ["m0 = None if p_x is None else members(p_x, 'x')"],
            ),
            (
                case(P.x, {1: F.tier < P.y}, F.name.in_(P.y)),
                {"x": 1, "y": 2},
                [
                    "arm0 = chosen_arm(p_x, c0)",
                    "arm0 != 0 or type(p_y) is int or check1(p_y)",
                    "m2 = None if arm0 != 1 else members(p_y, 'y')",
                ],
            ),
        ],
    )
    def test_lines(self, condition: Expression, given: dict[str, object], lines: list[str]) -> None:
        """The lines do only what the condition needs, and only if it counts."""

        assert self.run(condition, **given) == lines

    @pytest.mark.parametrize(
        ("condition", "given", "expected"),
        [
            (F.tier < P.x, "a", "F.tier is annotated int, which can't be compared by < with 'a'"),
            (F.tier < P.x, None, "with None"),
            (F.note.between("a", P.x), 3, "by between with 3"),
            (F.name.startswith(P.x), b"a", "by startswith"),
            (F.extra.startswith(P.x), 3, "takes text or bytes, not a int"),
            (F.table < P.x, {}, "annotated dict"),
            (F.name.in_(P.x), "abc", "takes a collection of values, not a str"),
            (optional(P.x, F.tier < P.x), "a", "can't be compared"),
        ],
    )
    @pytest.mark.parametrize("is_checked_only", [False, True])
    def test_refused(
        self, condition: Expression, given: object, expected: str, is_checked_only: bool
    ) -> None:
        """A parameter that does not fit is refused, whoever answers the condition."""
        with pytest.raises(QueryError) as caught:
            self.run(condition, is_checked_only=is_checked_only, x=given)

        assert expected in str(caught.value)

    def test_check(self) -> None:
        """What an index answers is checked without being written."""
        writer = SourceWriter(ITEM, is_typed=True)
        writer.check((F.tier < P.x) & (F.name.in_(P.y)) & (F.tier > 3))

        assert writer.condition(F.tier == 3) == "r.tier == c0"
        assert writer.prelude == [
            "type(p_x) is int or check0(p_x)",
            "check_members(p_y, 'y')",
        ]
        with pytest.raises(QueryError, match="annotated int"):
            writer.check(F.tier < "a")
        assert writer.constants == 1


class TestStructure:
    """What is left of a condition without its constants."""

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            (F.a == 1, F.a == "x"),
            (F.a < 1, F.a < 2),
            (F.a.in_([1]), F.a.in_([[2], 3])),
            (F.a.matches("x"), F.a.matches("y")),
            (F.a % 8 == 0, F.a % 9 == 1),
            ((F.a == 1) & ~(F.b == 2), (F.a == 3) & ~(F.b == 4)),
            (case(P.x, {1: F.a == 1}), case(P.x, {2: F.a == 3})),
            ((F.a % 8).desc(), (F.a % 9).desc()),
        ],
    )
    def test_same(self, one: Any, other: Any) -> None:
        """Constants are no part of it."""

        assert structure(one) == structure(other)
        assert hash(structure(one)) == hash(structure(other))
        assert constants(one) != constants(other)

    def test_different(self) -> None:
        """Everything that the source depends on is part of it."""
        nodes: list[Any] = [
            F.a == 1, F.b == 1, F["a.b"] == 1, F.a.b == 1, F.a != 1, F.a == None, F.a == True,  # noqa: E711, E712
            F.a == False, F.a.is_(None), F.a.is_(True), F.a < 1, F.a < 1.5, F.a < True,  # noqa: E712
            F.a < None, F.a <= 1, F.a == F.b, F.a == P.b, F.a == P.c, F.a[0] == 1, F.a["0"] == 1,
            F.a[1] == 1, F.a.in_([1]), F.a.in_(P.b), ~(F.a == 1), (F.a == 1) & (F.b == 1),
            (F.a == 1) | (F.b == 1), F.a + 1 == 1, 1 + F.a == 1, -F.a == 1, F.a.len_() == 1,
            F.a.between(1, 2), F.a.between(1, F.b), F.a.contains(1), F.a.startswith("x"),
            F.a.endswith("x"), F.a.startswith(b"x"), F.a.matches("x"), F.a.sum_() == 1,
            F.a.min_() == 1, optional(P.x, F.a == 1), optional(P.y, F.a == 1),
            case(P.x, {1: F.a == 1}), case(P.x, {1: F.a == 1}, F.a == 1),
            case(P.x, {1: F.a == 1, 2: F.a == 1}), F.a.desc(), F.a.asc(), F.a,
            (F.a == 1) & (lambda record: True),
        ]  # fmt: skip

        assert len(nodes) == len({structure(node) for node in nodes})

    def test_kept(self) -> None:
        """A condition is taken apart once."""
        condition = (F.a == 1) & (F.b == 2)

        assert structure(condition) is structure(condition)
        assert constants(condition) is constants(condition)

    def test_constants(self) -> None:
        """Constants come as the source needs them, in its order."""
        condition = (F.a % 8 == 1) & F.b.in_([2, float("nan")]) & F.c.between(3, 4)

        assert constants(condition) == [8, 1, frozenset([2]), 3, 4]
        assert constants(F.a == None) == []  # noqa: E711
        assert constants(case(P.x, {5: F.a == 6, 7: F.a == 8}, F.a == 9)) == [5, 7, 6, 8, 9]

    def test_too_deep(self) -> None:
        """Nesting has a limit, whatever is nested; what is below it can be compiled."""
        condition: Expression = F.tier == 1
        for level in range(DEEPEST - 1):
            condition = case(P.x, {level: condition}) if level % 2 else optional(P.x, condition)
        source = SourceWriter(ITEM, is_typed=True).condition(condition)

        compile(f"[r for r in x if ({source})]", "", "eval")
        with pytest.raises(QueryError, match="60 levels"):
            structure(~~condition)

    def test_conjuncts(self) -> None:
        """The parts of the outermost and."""
        one, two = F.a == 1, F.b == 2

        assert list(map(repr, conjuncts(one & two))) == ["F.a == 1", "F.b == 2"]
        assert conjuncts(one)[0] is one
