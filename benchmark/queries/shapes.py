"""The shapes: each question once as memdb's program text, once as SQL, and how much it finds.

The sizes are those that ``specs/queries.md`` (the public fixture's description) gives for the
full tables; with fewer rows only the naive evaluator says what is right.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from benchmark.queries.fixture import TIME_BASE

_T = TIME_BASE + 3_060_000
_HOUR_END = TIME_BASE + 3_600_000


@dataclass(frozen=True)
class Shape:
    """One question.

    Attributes:
        name: As in the original.
        arguments: By name, in the order in which the hand-written loop takes them.
        size: Of the result at full size: rows, or the count.
        conditions: Program texts with ``P`` for the parameters, joined by *and*.
        sql: What follows ``WHERE``.
        tail: What follows ``where(...)``: order, skip and limit.
        ad_hoc: The conditions where a program without parameters writes others.
        sql_names: The arguments that the statement takes, in order; None: all.
        is_count: It is counted, not listed.
    """

    name: str
    arguments: dict[str, Any]
    size: int
    conditions: tuple[str, ...]
    sql: str
    tail: str = ""
    ad_hoc: tuple[str, ...] | None = None
    sql_names: tuple[str, ...] | None = None
    is_count: bool = False

    @property
    def parameters(self) -> dict[str, Any]:
        """Return the arguments that the prepared query takes."""
        names = re.findall(r"\bP\.(\w+)", self.prepared_text)
        return {name: self.arguments[name] for name in dict.fromkeys(names)}

    @property
    def is_ordered(self) -> bool:
        """Tell whether it asks for an order."""
        return "order_by" in self.tail

    @property
    def prepared_text(self) -> str:
        """Return the query with parameters; without arguments, bound when it is built."""
        return _query_text(self.conditions, self.tail)

    @property
    def reversed_text(self) -> str | None:
        """Return the same with the conditions the other way round; None for fewer than two."""
        if len(self.conditions) < 2:
            return None
        return _query_text(self.conditions[::-1], self.tail)

    @property
    def ad_hoc_text(self) -> str:
        """Return the query with the arguments as variables of the program."""
        return re.sub(r"\bP\.(\w+)", r"\1", _query_text(self.ad_hoc or self.conditions, self.tail))

    @property
    def sql_values(self) -> tuple[Any, ...]:
        """Return what the statement is executed with."""
        names = self.arguments if self.sql_names is None else self.sql_names
        return tuple(self.arguments[name] for name in names)

    def counted(self, size: int) -> Shape:
        """Return its twin that counts; what is counted has neither order nor page."""
        name = f"Count_{self.name}"
        return Shape(
            name,
            self.arguments,
            size,
            self.conditions,
            self.sql.partition(" ORDER BY")[0],
            ad_hoc=self.ad_hoc,
            sql_names=self.sql_names,
            is_count=True,
        )


def _query_text(conditions: tuple[str, ...], tail: str) -> str:
    return f"table.where({', '.join(conditions)}){tail}"


_GROUP = "F.group == P.group"
_TIER = "F.tier == P.tier"
_FLAG = "F.flag == True"
_BAND = "F.band == P.band"
_LANE = "F.lane == P.lane"
_FROM = "F.code >= P.low"
_TO = "F.code < P.high"
_SQL_GROUP = '"group" = ?'
_ONE_GROUP = {"group": 13}
_TWO = {"group": 13, "tier": 13}
_THREE = {"group": 13, "band": 113, "lane": 413}
_RANGE = {"low": 51_000, "high": 52_000}
_SQL_TWO = '"group" = ? AND tier = ?'
_SQL_THREE = '"group" = ? AND band = ? AND lane = ?'
_SQL_RANGE = "code >= ? AND code < ?"
_TOP = ".order_by(F.score).limit(20)"
_SQL_TOP = " ORDER BY score, id LIMIT 20"
_PAGE = ".order_by(F.score % 8).skip(20).limit(20)"
_SQL_PAGE = " ORDER BY score % 8, id LIMIT 20 OFFSET 20"

_LIST_WHERE = Shape("ListWhere", _ONE_GROUP, 333, (_GROUP, _FLAG), _SQL_GROUP + " AND flag")
_LIST_LIST = Shape("ListList", _TWO, 100, (_GROUP, _TIER), _SQL_TWO)
_LIST_RANGE = Shape(
    "ListRange",
    {"group": 13, "low": 21_000, "high": 81_000},
    600,
    (_GROUP, _FROM, _TO),
    f"{_SQL_GROUP} AND {_SQL_RANGE}",
)
_OR = Shape(
    "Or",
    {"group": 13, "other": 42},
    2000,
    ("(F.group == P.group) | (F.group == P.other)",),
    f"{_SQL_GROUP} OR {_SQL_GROUP}",
)
_MATCH = Shape(
    "Match",
    {"mode": 2, "group": 13, "code": 43_013},
    333,
    (f"case(P.mode, {{0: F.code == P.code, 1: {_GROUP}, 2: ({_GROUP}) & ({_FLAG})}})",),
    _SQL_GROUP + " AND flag",
    ad_hoc=(_GROUP, _FLAG),
    sql_names=("group",),
)
_SORT_BOUNDED = Shape("SortBounded", _ONE_GROUP, 20, (_GROUP,), _SQL_GROUP + _SQL_TOP, tail=_TOP)
_SHAPE_A = Shape(
    "ListListListSortBounded",
    _THREE,
    20,
    (_GROUP, _BAND, _LANE),
    _SQL_THREE + _SQL_PAGE,
    tail=_PAGE,
)

ITEM_SHAPES = [
    Shape("Unique", {}, 1, ("F.code == 43_042",), "code = 43042"),
    Shape("UniqueArg", {"code": 43_042}, 1, ("F.code == P.code",), "code = ?"),
    Shape("UniqueWhere", {"code": 43_042}, 1, ("F.code == P.code", _FLAG), "code = ? AND flag"),
    Shape(
        "UniqueArgWhere",
        {"code": 43_042, "least": 0},
        1,
        ("F.code == P.code", "F.score >= P.least"),
        "code = ? AND score >= ?",
    ),
    _LIST_WHERE,
    Shape("Range", _RANGE, 1000, (_FROM, _TO), _SQL_RANGE),
    Shape(
        "OptionalRange",
        _RANGE,
        1000,
        (f"optional(P.low, {_FROM})", f"optional(P.high, {_TO})"),
        _SQL_RANGE,
        ad_hoc=(_FROM, _TO),
    ),
    Shape(
        "ListTwoWheres",
        _ONE_GROUP,
        34,
        (_GROUP, _FLAG, "F.score % 10 == 0"),
        _SQL_GROUP + " AND flag AND score % 10 = 0",
    ),
    Shape(
        "ListThreeWheresSelectiveLast",
        _ONE_GROUP,
        4,
        (_GROUP, "F.id >= 0", _FLAG, "F.score % 100 == 0"),
        _SQL_GROUP + " AND id >= 0 AND flag AND score % 100 = 0",
    ),
    Shape(
        "ListTwoArgWheres",
        {"group": 13, "least": 20_000, "most": 80_000},
        600,
        (_GROUP, "F.id >= P.least", "F.id <= P.most"),
        _SQL_GROUP + " AND id >= ? AND id <= ?",
    ),
    _LIST_LIST,
    Shape("ListListReversed", _TWO, 100, (_TIER, _GROUP), _SQL_TWO),
    Shape("ListListList", _THREE, 111, (_GROUP, _BAND, _LANE), _SQL_THREE),
    _LIST_RANGE,
    Shape("ListKeySet", _ONE_GROUP, 333, (_GROUP, _FLAG), _SQL_GROUP + " AND flag"),
    Shape(
        "ListLastUpdated",
        {"group": 13, "after": 1_050_000},
        500,
        (_GROUP, "F.updated > P.after"),
        _SQL_GROUP + " AND updated > ?",
    ),
    _OR,
    Shape(
        "OrAfterList",
        {"group": 13, "code": 1013, "other": 43_013},
        2,
        (_GROUP, "(F.code == P.code) | (F.code == P.other)"),
        _SQL_GROUP + " AND (code = ? OR code = ?)",
    ),
    _MATCH,
    Shape(
        "IfTaken",
        {"group": 13, "code": 43_013},
        1,
        (_GROUP, "optional(P.code, F.code == P.code)"),
        _SQL_GROUP + " AND code = ?",
        ad_hoc=(_GROUP, "F.code == P.code"),
    ),
    Shape(
        "IfSkipped",
        {"group": 13, "code": None},
        1000,
        (_GROUP, "optional(P.code, F.code == P.code)"),
        _SQL_GROUP,
        ad_hoc=(_GROUP,),
        sql_names=("group",),
    ),
    Shape(
        "Sort_ListList",
        _TWO,
        100,
        (_GROUP, _TIER),
        _SQL_TWO + " ORDER BY score, id",
        tail=".order_by(F.score)",
    ),
    _SORT_BOUNDED,
    Shape("SortBounded_ListList", _TWO, 20, (_GROUP, _TIER), _SQL_TWO + _SQL_TOP, tail=_TOP),
    _SHAPE_A,
    _LIST_WHERE.counted(333),
    _LIST_LIST.counted(100),
    _LIST_RANGE.counted(600),
    _OR.counted(2000),
    _MATCH.counted(333),
    _SORT_BOUNDED.counted(1000),
    _SHAPE_A.counted(111),
]


def _window(name: str, after: int, size: int, tail: str = "", sql: str = "") -> Shape:
    return Shape(
        name,
        {"after": after, "key_a": 0, "key_b": 0},
        size,
        ("F.updated > P.after", "F.key_a == P.key_a", "F.key_b == P.key_b"),
        "updated > ? AND key_a = ? AND key_b = ?" + sql,
        tail=tail,
    )


_SHAPE_B = _window("TimeWindowListListSortBounded", _T, 20, _PAGE, _SQL_PAGE)
_SHAPE_B_RANGE = Shape(
    "TimeWindowListListSortBounded, range",
    _SHAPE_B.arguments,
    20,
    ("F.ts > P.after", *_SHAPE_B.conditions[1:]),
    _SHAPE_B.sql.replace("updated", "ts"),
    tail=_PAGE,
)

RECORD_SHAPES = [
    _SHAPE_B,
    _SHAPE_B_RANGE,
    _SHAPE_B.counted(99),
    _SHAPE_B_RANGE.counted(99),
    _window("TimeRangeSeedOrder, 1 s", _HOUR_END - 1000, 0),
    _window("TimeRangeSeedOrder, 60 s", _HOUR_END - 60_000, 12),
    _window("TimeRangeSeedOrder, 15%", _T, 99),
    _window("TimeRangeSeedOrder, all", 0, 667),
]


def top_shapes(count: int) -> list[Shape]:
    """Return the pages of a table of ``count`` rows without an index: all of it is walked."""
    pages = {
        "Top20": (0, 20),
        "Top200": (0, 200),
        "Top20AtEnd": (count - 20, 20),
        "TopHalf": (0, count // 2),
        "TopAll": (0, count),
    }
    return [
        Shape(
            name,
            {"skip": skip, "take": take},
            min(take, count - skip),
            (),
            f"1 ORDER BY score, id LIMIT {take} OFFSET {skip}",
            tail=f".order_by(F.score).skip({skip}).limit({take})",
            sql_names=(),
        )
        for name, (skip, take) in pages.items()
    ]


def compound_shapes() -> list[Shape]:
    """Return the pages of one key of a compound index, in its order: a seek and a walk."""
    shapes = []
    for name, key_field in (("10", "category"), ("100", "segment")):
        for page, skip, take in (("20", 0, 20), ("100", 0, 100), ("20", 40, 20)):
            shapes.append(
                Shape(
                    f"Cheapest{page}of{name}" + (", page 3" if skip else ""),
                    {key_field: 0, "skip": skip, "take": take},
                    take,
                    (f"F.{key_field} == P.{key_field}",),
                    f"{key_field} = ? ORDER BY price, id LIMIT {take} OFFSET {skip}",
                    tail=f".order_by(F.price).skip({skip}).limit({take})",
                    sql_names=(key_field,),
                )
            )
    return shapes
