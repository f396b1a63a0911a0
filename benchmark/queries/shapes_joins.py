"""The shapes with joins over items, records, orders and documents.

The sizes are those of ``specs/queries.md`` (the public fixture's description) where it has them;
those of its tables with real misses, and of the shapes marked as ours, were counted here.
"""

from __future__ import annotations

from dataclasses import replace

from benchmark.queries.fixture import TIME_BASE
from benchmark.queries.join_shape import JoinShape, Size

_ONE_GROUP = {"group": 13}
_THREE = {"group": 13, "band": 113, "lane": 413}
_WINDOW = {"after": TIME_BASE + 3_060_000, "key_a": 0, "key_b": 0}
_ONE_CUSTOMER = {"customer_id": 8}  # The original's 7.

_OF_GROUP = "items.where(F.group == P.group)"
_OF_THREE = "items.where(F.group == P.group, F.band == P.band, F.lane == P.lane)"
_OF_CUSTOMER = "orders.where(F.customer_id == P.customer_id)"
_OF_DOCS = "docs.where(F.group == P.group)"
_TO_LINES = ".join_many(lines, back=F.item_id)"
_TO_CUSTOMER = ".join(customers, on=F.customer_id)"
_TO_DETAILS = ".join(order_details, on=F.id)"
_TO_NOTES = ".join_many(notes, on=(F.customer_id, F.customer_id))"
_TO_TAGS = ".join_many(tags, on=F.tag_ids)"
_BY_SCORE = ".order_by(F.score)"
_TIED = ".order_by(F.score % 8)"
_TOP = ".limit(20)"
_PAGE = ".skip(20).limit(20)"

# A page is cut before the joins: of the ways to say it in SQL the fastest.
_SQL_PAGE = "ORDER BY score % 8, id LIMIT 20 OFFSET 20"
_SQL_THREE = '"group" = ? AND band = ? AND lane = ?'
_SQL_LINES = "JOIN lines l ON l.item_id = i.id"
_SQL_HAS_LINES = "EXISTS (SELECT 1 FROM lines l WHERE l.item_id = i.id)"
_SQL_ORDERS = "FROM orders o {} WHERE o.customer_id = ?"
_SQL_CUSTOMER = "LEFT JOIN customers c ON c.id = o.customer_id"
_SQL_DETAILS = "JOIN order_details d ON d.id = o.id"
_SQL_NOTES = "JOIN notes n ON n.customer_id = o.customer_id"


def _inner(joins: str) -> str:
    return joins[:-1] + ', how="inner")'


def _of(joins: str, condition: str) -> str:
    return f"{joins[:-1]}, where={condition})"


def _orders(name: str, joins: str, sql: str, size: Size, with_misses: Size) -> JoinShape:
    statement = f"SELECT * {_SQL_ORDERS.format(sql)}"
    return JoinShape(name, _ONE_CUSTOMER, _OF_CUSTOMER, joins, statement, size, with_misses)


def _orders_of(region: str, name: str, joins: str, sql: str, *rights: int) -> JoinShape:
    condition, (found, found_with_misses) = f'F.region == "{region}"', rights
    sizes = Size(1000, found), Size(1000, found_with_misses)
    return _orders(name, _of(joins, condition), f"{sql}.region = '{region}'", *sizes)


def _window(name: str, field: str) -> JoinShape:
    where = f"{field} > ? AND key_a = ? AND key_b = ?"
    return JoinShape(
        name,
        _WINDOW,
        f"records.where(F.{field} > P.after, F.key_a == P.key_a, F.key_b == P.key_b)",
        ".join(rec_customers, on=F.customer_id).join(rec_products, on=F.product_id)",
        f"SELECT * FROM (SELECT * FROM records WHERE {where} {_SQL_PAGE}) r "
        "LEFT JOIN rec_customers c ON c.id = r.customer_id "
        "LEFT JOIN rec_products p ON p.id = r.product_id",
        Size(20, 36),
        Size(20, 36),
        count_sql=f"SELECT count(*) FROM records WHERE {where}",
        order=_TIED,
        page=_PAGE,
    )


def _docs(name: str, joins: str, sql: str, size: Size, with_misses: Size) -> JoinShape:
    statement = (
        f"SELECT d.*, t.* FROM docs d {sql}JOIN doc_tags dt ON dt.doc_id = d.id "
        f'{sql}JOIN tags t ON t.id = dt.tag_id WHERE d."group" = ?'
    )
    return JoinShape(name, {"group": 3}, _OF_DOCS, joins, statement, size, with_misses)


_SORT_JOIN_MANY = JoinShape(
    "Sort_JoinMany",
    _ONE_GROUP,
    _OF_GROUP,
    _TO_LINES,
    'SELECT * FROM (SELECT * FROM items WHERE "group" = ? ORDER BY score, id LIMIT 20) i '
    f"LEFT {_SQL_LINES}",
    Size(20, 40),
    Size(20, 24),
    order=_BY_SCORE,
    page=_TOP,
)
_SHAPE_A = JoinShape(
    "ListListListSortBoundedJoinOne",
    _THREE,
    _OF_THREE,
    ".join(details, on=F.id)",
    f"SELECT * FROM (SELECT * FROM items WHERE {_SQL_THREE} {_SQL_PAGE}) i "
    "LEFT JOIN details d ON d.id = i.id",
    Size(20, 20),
    Size(20, 16),
    count_sql=f"SELECT count(*) FROM items WHERE {_SQL_THREE}",
    order=_TIED,
    page=_PAGE,
)
_SHAPE_B = _window("TimeWindowListListSortBoundedJoinTwo", "updated")
_SHAPE_B_RANGE = _window("TimeWindowListListSortBoundedJoinTwo, range", "ts")
_THREE_INNER_MANY = JoinShape(
    "ListListListInnerJoinMany",
    _THREE,
    _OF_THREE,
    _inner(_TO_LINES),
    f"SELECT * FROM items i {_SQL_LINES} WHERE {_SQL_THREE}",
    Size(111, 222),
    Size(83, 166),
    count_sql=f"SELECT count(*) FROM items i WHERE {_SQL_THREE} AND {_SQL_HAS_LINES}",
)
_JOIN_MANY = JoinShape(
    "JoinMany",
    _ONE_GROUP,
    _OF_GROUP,
    _TO_LINES,
    f'SELECT * FROM items i LEFT {_SQL_LINES} WHERE i."group" = ?',
    Size(1000, 2000),
    Size(1000, 1500),
    count_sql='SELECT count(*) FROM items WHERE "group" = ?',
)
_INNER_JOIN_MANY = JoinShape(
    "InnerJoinMany",
    _ONE_GROUP,
    _OF_GROUP,
    _inner(_TO_LINES),
    f'SELECT * FROM items i {_SQL_LINES} WHERE i."group" = ?',
    Size(1000, 2000),
    Size(750, 1500),
    count_sql=f'SELECT count(*) FROM items i WHERE "group" = ? AND {_SQL_HAS_LINES}',
)
_INNER_JOIN_ONE = replace(
    _orders("InnerJoinOne", _inner(_TO_DETAILS), _SQL_DETAILS, Size(1000, 1000), Size(750, 750)),
    count_sql=f"SELECT count(*) {_SQL_ORDERS.format(_SQL_DETAILS)}",
)

JOIN_SHAPES = [
    _SORT_JOIN_MANY,
    replace(_SORT_JOIN_MANY, name="SortBounded_JoinMany", is_paged_first=True),
    _SHAPE_A,
    _SHAPE_B,
    _SHAPE_B_RANGE,
    replace(
        _SHAPE_A,
        name="ListListListSortBoundedJoinMany",
        joins=_TO_LINES,
        sql=f"SELECT * FROM (SELECT * FROM items WHERE {_SQL_THREE} {_SQL_PAGE}) i "
        f"LEFT {_SQL_LINES}",
        size=Size(20, 40),
        size_with_misses=Size(20, 32),
    ),
    _THREE_INNER_MANY,
    _orders("JoinOne", _TO_CUSTOMER, _SQL_CUSTOMER, Size(1000, 1000), Size(1000, 1000)),
    _INNER_JOIN_ONE,
    _orders(
        "JoinOneChained",
        _TO_CUSTOMER + _TO_DETAILS,
        f"{_SQL_CUSTOMER} LEFT {_SQL_DETAILS}",
        Size(1000, 2000),
        Size(1000, 1750),
    ),
    _orders_of("EU", "JoinOneFiltered", _TO_CUSTOMER, f"{_SQL_CUSTOMER} AND c", 0, 0),
    _orders_of("EU", "JoinOneFilteredDistinct", _TO_DETAILS, f"LEFT {_SQL_DETAILS} AND d", 0, 0),
    # These two are ours: in the original nothing passes the filter.
    _orders_of("US", "JoinOneFiltered, all", _TO_CUSTOMER, f"{_SQL_CUSTOMER} AND c", 1000, 1000),
    _orders_of(
        "US",
        "JoinOneFilteredDistinct, all",
        _TO_DETAILS,
        f"LEFT {_SQL_DETAILS} AND d",
        1000,
        750,
    ),
    _JOIN_MANY,
    _INNER_JOIN_MANY,
    _orders(
        "JoinMany_LeftSym",
        _TO_NOTES,
        f"LEFT {_SQL_NOTES}",
        Size(1000, 3000),
        Size(1000, 3000),
    ),
    _orders(
        "InnerJoinMany_LeftSym", _inner(_TO_NOTES), _SQL_NOTES, Size(1000, 3000), Size(1000, 3000)
    ),
    _docs("JoinMany_Collection", _TO_TAGS, "LEFT ", Size(1000, 3000), Size(1000, 2250)),
    _docs("InnerJoinMany_Collection", _inner(_TO_TAGS), "", Size(1000, 3000), Size(750, 2250)),
    # Ours: the same the other way round.
    JoinShape(
        "JoinMany_CollectionReverse",
        # None of these is named twice by one document, which SQL would show.
        {"first": 2, "last": 101},
        "tags.where(F.id >= P.first, F.id <= P.last)",
        ".join_many(docs, back=F.tag_ids)",
        "SELECT t.*, d.* FROM tags t LEFT JOIN doc_tags dt ON dt.tag_id = t.id "
        "LEFT JOIN docs d ON d.id = dt.doc_id WHERE t.id BETWEEN ? AND ?",
        Size(100, 4500),
        Size(100, 4500),
    ),
    _JOIN_MANY.counted(1000, 1000),
    _INNER_JOIN_MANY.counted(1000, 750),
    _THREE_INNER_MANY.counted(111, 83),
    _SHAPE_A.counted(111, 111),
    _SHAPE_B.counted(99, 99),
    _SHAPE_B_RANGE.counted(99, 99),
    _INNER_JOIN_ONE.counted(1000, 750),
]
