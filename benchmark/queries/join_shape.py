"""One question over several tables: memdb's program text, the SQL, and how much it finds."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, NamedTuple


class Size(NamedTuple):
    """How large a result is: its rows, and the rights in them."""

    rows: int
    rights: int


@dataclass(frozen=True)
class JoinShape:
    """One question.

    Attributes:
        name: As in the original.
        arguments: By name, in the order in which loop, query and statement take them.
        left: Program text of the left query, with ``P`` for the parameters.
        joins: What follows it: the joins.
        sql: The statement.
        count_sql: The statement of the twin that counts, if there is one.
        size: Of the result at full size, as documented for the original tables.
        size_with_misses: The same with real misses, as this project found it.
        order: Program text between the left query and the joins.
        page: Program text at the end: skip and limit.
        is_paged_first: The page is that of the left query, before the joins.
        is_count: It is counted, not listed.
    """

    name: str
    arguments: dict[str, Any]
    left: str
    joins: str
    sql: str
    size: Size
    size_with_misses: Size
    count_sql: str = ""
    order: str = ""
    page: str = ""
    is_paged_first: bool = False
    is_count: bool = False

    @property
    def prepared_text(self) -> str:
        """Return the query with parameters."""
        if self.is_paged_first:
            return f"{self.left}{self.order}{self.page}{self.joins}"
        return f"{self.left}{self.order}{self.joins}{self.page}"

    @property
    def ad_hoc_text(self) -> str:
        """Return the program text with the arguments as variables, which builds and asks."""
        asked = ".count()" if self.is_count else ".all()"
        return re.sub(r"\bP\.(\w+)", r"\1", self.prepared_text) + asked

    def counted(self, count: int, count_with_misses: int) -> JoinShape:
        """Return its twin that counts; what is counted has neither order nor page."""
        return replace(
            self,
            name=f"Count_{self.name}",
            sql=self.count_sql,
            size=Size(count, 0),
            size_with_misses=Size(count_with_misses, 0),
            order="",
            page="",
            is_count=True,
        )
