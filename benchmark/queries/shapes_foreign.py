"""The shapes over foreign keys, sorted pages with a join, and small tables.

The sizes are those of ``specs/queries.md``, whose tables have real misses here.
"""

from __future__ import annotations

from benchmark.queries.join_shape import JoinShape, Size

_TIED = ".order_by(F.score % 8)"
_PAGE = ".skip(20).limit(20)"
_SQL_PAGE = "ORDER BY score % 8, id LIMIT 20 OFFSET 20"
_SQL_CUSTOMER = "JOIN customers c ON c.id = o.customer_id"
_SQL_PROFILE = "LEFT JOIN profiles p ON p.customer_id = c.id"


def _orders(name: str, joins: str, sql: str, size: Size, count_sql: str = "") -> JoinShape:
    return JoinShape(
        name,
        {"group": 13},
        "orders.where(F.group == P.group)",
        joins,
        f'SELECT * FROM orders o {sql} WHERE o."group" = ?',
        size,
        size,
        count_sql=count_sql,
    )


def _customers(name: str, sql: str, size: Size, *, is_page: bool = False) -> JoinShape:
    return JoinShape(
        name,
        {"segment": 13},
        "customers.where(F.segment == P.segment)",
        ".join(profiles)",
        f"SELECT * FROM {sql} {_SQL_PROFILE}" + ("" if is_page else " WHERE c.segment = ?"),
        size,
        size,
        order=_TIED if is_page else "",
        page=_PAGE if is_page else "",
    )


_INNER = _orders(
    "Fk_ManyToOne_Inner",
    '.join(customers, how="inner")',
    _SQL_CUSTOMER,
    Size(750, 750),
    f'SELECT count(*) FROM orders o {_SQL_CUSTOMER} WHERE o."group" = ?',
)


def _filtered(name: str, region: str, size: Size) -> JoinShape:
    joins = f'.join(customers, where=F.region == "{region}", how="inner")'
    return _orders(name, joins, f"{_SQL_CUSTOMER} AND c.region = '{region}'", size)


FOREIGN_SHAPES = [
    _orders(
        "Fk_ManyToOne",
        ".join(customers)",
        f"LEFT {_SQL_CUSTOMER}",
        Size(1000, 750),
    ),
    _INNER,
    _customers("Fk_OneToOneReverse", "customers c", Size(1000, 750)),
    _orders(
        "Fk_OneToManyReverse",
        ".join_many(lines)",
        "LEFT JOIN lines l ON l.order_id = o.id",
        Size(1000, 1500),
    ),
    JoinShape(
        "Fk_Collection",
        {"bucket": 3},
        "docs.where(F.bucket == P.bucket)",
        ".join_many(tags)",
        "SELECT d.*, t.* FROM docs d LEFT JOIN doc_tags dt ON dt.doc_id = d.id "
        "LEFT JOIN tags t ON t.id = dt.tag_id WHERE d.bucket = ?",
        Size(1000, 2250),
        Size(1000, 2250),
    ),
    _customers(
        "Fk_SortBounded_OneToOneReverse",
        f"(SELECT * FROM customers WHERE segment = ? {_SQL_PAGE}) c",
        Size(20, 17),
        is_page=True,
    ),
    JoinShape(
        "Fk_SortBounded_ManyToOne",
        {"group": 13},
        "orders.where(F.group == P.group)",
        ".join(customers)",
        f'SELECT * FROM (SELECT * FROM orders WHERE "group" = ? {_SQL_PAGE}) o '
        f"LEFT {_SQL_CUSTOMER}",
        Size(20, 15),
        Size(20, 15),
        order=_TIED,
        page=_PAGE,
    ),
    _filtered("Fk_ManyToOne_Filtered", "EU", Size(0, 0)),
    # Ours: nothing passes the original's filter.
    _filtered("Fk_ManyToOne_Filtered, all", "US", Size(750, 750)),
    _INNER.counted(750, 750),
]


def top_joined_shapes(count: int) -> list[JoinShape]:
    """Return the sorted pages of a table of ``count`` rows, each with its label."""
    pages = {
        "Top20JoinOne": (0, 20),
        "Top200JoinOne": (0, 200),
        "Top20AtEndJoinOne": (count - 20, 20),
        "TopHalfJoinOne": (0, count // 2),
        "TopAllJoinOne": (0, count),
    }
    shapes = []
    for name, (skip, take) in pages.items():
        size = Size(min(take, count - skip), min(take, count - skip))
        shapes.append(
            JoinShape(
                name,
                {"skip": skip, "take": take},
                "scored.where()",
                '.join(labels, on=F.id, how="inner")',
                "SELECT * FROM scored s JOIN labels l ON l.id = s.id "
                "ORDER BY s.score, s.id LIMIT ?2 OFFSET ?1",
                size,
                size,
                order=".order_by(F.score)",
                page=".skip(P.skip).limit(P.take)",
            )
        )
    return shapes


def room_shapes(count: int) -> list[JoinShape]:
    """Return the shapes over rooms and desks, and over ``count`` parts."""
    rooms, desks, half = count // 50, count // 50 * 16, count // 2
    sql = "SELECT * FROM rooms r LEFT JOIN desks d ON d.room_id = r.id"
    inner = JoinShape(
        "InnerJoinOne_Half",
        {},
        "parts.where()",
        '.join(counterparts, back=F.part_id, how="inner")',
        "SELECT * FROM parts p JOIN counterparts c ON c.part_id = p.id",
        Size(half, half),
        Size(half, half),
        count_sql="SELECT count(*) FROM parts p JOIN counterparts c ON c.part_id = p.id",
    )
    return [
        JoinShape(
            "JoinMany_Desks",
            {},
            "rooms.where()",
            ".join_many(desks, back=F.room_id)",
            sql,
            Size(rooms, desks),
            Size(rooms, desks),
        ),
        JoinShape(
            "JoinMany_DesksJoinOne",
            {},
            "rooms.where()",
            ".join_many(desks, back=F.room_id, then=lambda q: q.join(occupiers, back=F.desk_id))",
            f"{sql} LEFT JOIN occupiers o ON o.desk_id = d.id",
            Size(rooms, desks),
            Size(rooms, desks),
        ),
        inner,
        inner.counted(half, half),
    ]


HEAVY_SHAPES = [
    JoinShape(
        "HeavyJoin",
        {"pivot": 251},
        "products.where(F.range >= P.pivot)",
        ".join(infos, back=F.product_id).join_many(offers, back=F.product_id)",
        "SELECT * FROM products p LEFT JOIN infos i ON i.product_id = p.id "
        "LEFT JOIN offers o ON o.product_id = p.id WHERE p.range >= ?",
        Size(250, 5250),
        Size(250, 5250),
    )
]
