"""What is right with joins: each shape said once more, over plain lists, as nested walks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Tables = dict[str, list[Any]]
Rights = dict[Any, list[Any]]
# The first row, and the one behind the last.
Page = tuple[int, int | None]

_ALL: Page = (0, None)
_TOP: Page = (0, 20)
_PAGE: Page = (20, 40)


@dataclass(frozen=True)
class _Join:
    """One step: which rights belong to a left record ``l``.

    Attributes:
        table: Of the rights.
        left: What ``l`` says: a key, or a tuple of keys.
        right: What a right ``r`` says, the same.
        is_many: A row gets the tuple of its rights.
        is_inner: A row without a right goes.
        condition: What ``r`` must be besides.
        then: A join of the rights themselves.
    """

    table: str
    left: str = "l.id"
    right: str = "r.id"
    is_many: bool = False
    is_inner: bool = False
    condition: str = "True"
    then: _Join | None = None


@dataclass(frozen=True)
class _Question:
    """Which lefts, in which order, their joins, and the page of the rows."""

    table: str
    condition: str
    joins: tuple[_Join, ...]
    order: str = "l.id"
    page: Page = _ALL


def expected(name: str, tables: Tables, arguments: dict[str, Any]) -> Any:
    """Return the rows, or the count, that a shape finds in the tables, given by identity.

    A row is a tuple: the left record, and for each join the right, None, or a tuple of rights.
    """
    question = _QUESTIONS[name.removeprefix("Count_")]
    names = arguments | {"rows": tables[question.table]}
    lefts = eval(f"[l for l in rows if {question.condition}]", names)
    lefts.sort(key=eval(f"lambda l: {question.order}"))
    rows = [(left,) for left in lefts]
    for join in question.joins:
        rows = list(_joined(rows, join, tables))
    if name.startswith("Count_"):
        return len(rows)
    first, last = question.page
    if "take" in arguments:
        first, last = arguments["skip"], arguments["skip"] + arguments["take"]
    return rows[first:last]


def rights_in(rows: list[Any]) -> int:
    """Return how many rights are in the rows."""
    found = 0
    for _, *rights in rows:
        for right in rights:
            found += len(right) if isinstance(right, tuple) else right is not None
    return found


def _joined(rows: list[Any], join: _Join, tables: Tables) -> Iterator[Any]:
    rights = _rights_by_key(join, tables)
    key_of = eval(f"lambda l: {join.left}")
    for row in rows:
        found = [right for key in _keys(key_of(row[0])) for right in rights.get(key, [])]
        if join.then is not None:
            found = list(_joined([(right,) for right in found], join.then, tables))
        if found or not join.is_inner:
            yield (*row, tuple(found) if join.is_many else _only(found))


def _rights_by_key(join: _Join, tables: Tables) -> Rights:
    names = {"rights": tables[join.table]}
    by_key: Rights = {}
    key_of = eval(f"lambda r: {join.right}")
    for right in eval(f"[r for r in rights if {join.condition}]", names):
        for key in dict.fromkeys(_keys(key_of(right))):
            by_key.setdefault(key, []).append(right)
    return by_key


def _keys(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _only(found: list[Any]) -> Any:
    if len(found) > 1:
        raise AssertionError("more than one right")
    return found[0] if found else None


_THREE = "l.group == group and l.band == band and l.lane == lane"
_LINES = _Join("lines", right="r.item_id", is_many=True)
_LINES_INNER = _Join("lines", right="r.item_id", is_many=True, is_inner=True)
_CUSTOMER = _Join("customers", left="l.customer_id")


def _top(order: str, page: Page) -> _Question:
    return _Question("items", "l.group == group", (_LINES,), order, page)


def _three(join: _Join, order: str = "l.id", page: Page = _ALL) -> _Question:
    return _Question("items", _THREE, (join,), order, page)


def _window(field: str) -> _Question:
    joins = (
        _Join("rec_customers", left="l.customer_id"),
        _Join("rec_products", left="l.product_id"),
    )
    condition = f"l.{field} > after and l.key_a == key_a and l.key_b == key_b"
    return _Question("records", condition, joins, "l.score & 7", _PAGE)


def _orders(*joins: _Join) -> _Question:
    return _Question("orders", "l.customer_id == customer_id", joins)


def _details(is_inner: bool = False, condition: str = "True") -> _Join:
    return _Join("order_details", is_inner=is_inner, condition=condition)


def _customer_of(region: str) -> _Join:
    return _Join("customers", left="l.customer_id", condition=f"r.region == {region!r}")


def _notes(is_inner: bool) -> _Join:
    return _Join("notes", "l.customer_id", "r.customer_id", is_many=True, is_inner=is_inner)


def _tags(is_inner: bool) -> _Join:
    return _Join("tags", left="l.tag_ids", is_many=True, is_inner=is_inner)


def _foreign(table: str, field: str, *joins: _Join, is_page: bool = False) -> _Question:
    order, page = ("l.score & 7", _PAGE) if is_page else ("l.id", _ALL)
    return _Question(table, f"l.{field} == {field}", joins, order, page)


def _all(table: str, *joins: _Join, order: str = "l.id") -> _Question:
    return _Question(table, "True", joins, order)


_PROFILE = _Join("profiles", right="r.customer_id")
_LABELLED = _all("scored", _Join("labels", is_inner=True), order="l.score")

_QUESTIONS = {
    "Sort_JoinMany": _top("l.score", _TOP),
    "SortBounded_JoinMany": _top("l.score", _TOP),
    "ListListListSortBoundedJoinOne": _three(_Join("details"), "l.score & 7", _PAGE),
    "ListListListSortBoundedJoinMany": _three(_LINES, "l.score & 7", _PAGE),
    "ListListListInnerJoinMany": _three(_LINES_INNER),
    "TimeWindowListListSortBoundedJoinTwo": _window("updated"),
    "TimeWindowListListSortBoundedJoinTwo, range": _window("ts"),
    "JoinOne": _orders(_CUSTOMER),
    "InnerJoinOne": _orders(_details(is_inner=True)),
    "JoinOneChained": _orders(_CUSTOMER, _details()),
    "JoinOneFiltered": _orders(_customer_of("EU")),
    "JoinOneFiltered, all": _orders(_customer_of("US")),
    "JoinOneFilteredDistinct": _orders(_details(condition="r.region == 'EU'")),
    "JoinOneFilteredDistinct, all": _orders(_details(condition="r.region == 'US'")),
    "JoinMany": _Question("items", "l.group == group", (_LINES,)),
    "InnerJoinMany": _Question("items", "l.group == group", (_LINES_INNER,)),
    "JoinMany_LeftSym": _orders(_notes(is_inner=False)),
    "InnerJoinMany_LeftSym": _orders(_notes(is_inner=True)),
    "JoinMany_Collection": _Question("docs", "l.group == group", (_tags(is_inner=False),)),
    "InnerJoinMany_Collection": _Question("docs", "l.group == group", (_tags(is_inner=True),)),
    "JoinMany_CollectionReverse": _Question(
        "tags", "first <= l.id <= last", (_Join("docs", right="r.tag_ids", is_many=True),)
    ),
    "Fk_ManyToOne": _foreign("orders", "group", _CUSTOMER),
    "Fk_ManyToOne_Inner": _foreign(
        "orders", "group", _Join("customers", "l.customer_id", is_inner=True)
    ),
    "Fk_OneToOneReverse": _foreign("customers", "segment", _PROFILE),
    "Fk_OneToManyReverse": _foreign(
        "orders", "group", _Join("lines", right="r.order_id", is_many=True)
    ),
    "Fk_Collection": _foreign("docs", "bucket", _tags(is_inner=False)),
    "Fk_SortBounded_OneToOneReverse": _foreign("customers", "segment", _PROFILE, is_page=True),
    "Fk_SortBounded_ManyToOne": _foreign("orders", "group", _CUSTOMER, is_page=True),
    "Fk_ManyToOne_Filtered": _foreign(
        "orders",
        "group",
        _Join("customers", "l.customer_id", is_inner=True, condition="r.region == 'EU'"),
    ),
    "Fk_ManyToOne_Filtered, all": _foreign(
        "orders",
        "group",
        _Join("customers", "l.customer_id", is_inner=True, condition="r.region == 'US'"),
    ),
    "Top20JoinOne": _LABELLED,
    "Top200JoinOne": _LABELLED,
    "Top20AtEndJoinOne": _LABELLED,
    "TopHalfJoinOne": _LABELLED,
    "TopAllJoinOne": _LABELLED,
    "JoinMany_Desks": _all("rooms", _Join("desks", right="r.room_id", is_many=True)),
    "JoinMany_DesksJoinOne": _all(
        "rooms",
        _Join(
            "desks",
            right="r.room_id",
            is_many=True,
            then=_Join("occupiers", right="r.desk_id"),
        ),
    ),
    "InnerJoinOne_Half": _all("parts", _Join("counterparts", right="r.part_id", is_inner=True)),
    "HeavyJoin": _Question(
        "products",
        "l.range >= pivot",
        (
            _Join("infos", right="r.product_id"),
            _Join("offers", right="r.product_id", is_many=True),
        ),
    ),
}
