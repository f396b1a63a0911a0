"""What `Query.explain` and `Query.analyze` return."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, repr=False)
class Access:
    """One way to the records that may match.

    Attributes:
        source: The index, or what else.
        count: How many records it gives, exactly.
        condition: What all of them match, as the query shows it; empty when that is nothing.
    """

    source: str
    count: int
    condition: str = ""

    def __str__(self) -> str:
        condition = f" for {self.condition}" if self.condition else ""
        return f"{self.source}{condition}: {self.count:,}"

    def __repr__(self) -> str:
        return f"<{self}>"


@dataclass(frozen=True, slots=True, repr=False)
class Explanation:
    """How a query is answered; its text is for a person.

    Attributes:
        query: What was asked, with the values of its parameters.
        chosen: Where the candidates come from.
        others: The other indexes that give some, the smallest set first.
        filters: The conditions that each candidate is compared with.
        order: What the results are sorted by.
        is_order_given: They come so from the index, and nothing is sorted.
        by_index: The methods that indexes answer without looking at records, as ``"count()"``.
        changes: How many changes of the transaction are looked at besides; None outside of one.
        is_compiled: A generated function answers; if not, the general way.
        reason: Why it is the general way; None when it is not.
        unread: How many records the function needs that are not in the cache. The general way
            answers until they have been read, which it does.
        source: The generated function, as text; None where the general way answers.
        results: How many results there were, after `Query.analyze`.
        seconds: How long it took, after `Query.analyze`.
    """

    query: str
    chosen: Access
    others: tuple[Access, ...]
    filters: tuple[str, ...]
    order: tuple[str, ...]
    is_order_given: bool = False
    by_index: tuple[str, ...] = ()
    changes: int | None = None
    is_compiled: bool = True
    reason: str | None = None
    unread: int = 0
    source: str | None = None
    results: int | None = None
    seconds: float | None = None

    def __str__(self) -> str:
        lines = [self.query, f"  candidates  {self.chosen}"]
        lines += [f"  not taken   {other}" for other in self.others]
        if self.changes is not None:
            lines.append(f"  besides     changes of the transaction: {self.changes:,}")
        lines += [f"  compare     {each}" for each in self.filters]
        if self.order:
            given = ", from the index" if self.is_order_given else ""
            lines.append(f"  order       {', '.join(self.order)}{given}")
        if self.by_index:
            lines.append(f"  index only  {', '.join(self.by_index)}")
        way = "a generated function" if self.is_compiled else f"the general way: {self.reason}"
        unread = f"{self.unread:,} record{'s' if self.unread > 1 else ''}"
        lines.append(f"  answered by {way}{f', after reading {unread}' if self.unread else ''}")
        if self.seconds is not None:
            lines.append(f"  took        {self.seconds * 1e6:,.1f} us for {self.results:,} results")
        return "\n".join(lines)

    # In a prompt it is asked for to be read.
    __repr__ = __str__


@dataclass(frozen=True, slots=True, repr=False)
class JoinAccess:
    """How one join finds what belongs to a row.

    Attributes:
        slot: The slot of the join.
        source: The identity, the index, or what else.
        kind: What the join does: ``"left"`` or ``"inner"``, and ``"many"`` for tuples.
        filters: What the records of the right are compared with.
        order: What they are sorted by, for each row.
        inside: The joins of each of them.
        warning: What is amiss, and what to do; None where nothing is.
    """

    slot: str
    source: str
    kind: str
    filters: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    inside: tuple[JoinAccess, ...] = ()
    warning: str | None = None

    def lines(self, indent: str = "") -> list[str]:
        """Return its text, with that of the joins inside."""
        lines = [f"  {indent}join        {self.slot} ({self.kind}): {self.source}"]
        lines += [f"  {indent}  compare   {each}" for each in self.filters]
        lines += [f"  {indent}  order     {', '.join(self.order)}"] if self.order else []
        lines += [f"  {indent}  WARNING   {self.warning}"] if self.warning else []
        return [*lines, *[line for each in self.inside for line in each.lines(indent + "  ")]]

    def __str__(self) -> str:
        return "\n".join(self.lines())

    __repr__ = __str__


@dataclass(frozen=True, slots=True, repr=False)
class JoinedExplanation:
    """How a joined query is answered; its text is for a person.

    Attributes:
        query: What was asked, with the values of its parameters.
        left: How the query on the left is answered, with what could be moved there from behind
            the joins.
        joins: How each join finds what belongs to a row.
        filters: The conditions that each row is compared with.
        order: What the rows are sorted by.
        is_cut: Only so many records of the left are looked at as are wanted.
        is_compiled: A generated function joins; if not, the general way.
        reason: Why it is the general way; None when it is not.
        source: The generated function, as text; None where the general way joins.
        results: How many results there were, after `JoinedQuery.analyze`.
        seconds: How long it took, after `JoinedQuery.analyze`.
    """

    query: str
    left: Explanation
    joins: tuple[JoinAccess, ...]
    filters: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    is_cut: bool = False
    is_compiled: bool = True
    reason: str | None = None
    source: str | None = None
    results: int | None = None
    seconds: float | None = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is amiss with the joins, and what to do about it."""
        return tuple(_warnings(self.joins))

    def __str__(self) -> str:
        lines = [self.query, *str(self.left).split("\n")[1:]]
        lines += [line for join in self.joins for line in join.lines()]
        lines += [f"  compare     {each}" for each in self.filters]
        lines += [f"  order       {', '.join(self.order)}"] if self.order else []
        way = "a generated function" if self.is_compiled else f"the general way: {self.reason}"
        lines.append(f"  joined by {way}")
        if self.seconds is not None:
            lines.append(f"  took        {self.seconds * 1e6:,.1f} us for {self.results:,} results")
        return "\n".join(lines)

    __repr__ = __str__


def _warnings(joins: tuple[JoinAccess, ...]) -> Iterator[str]:
    for join in joins:
        if join.warning:
            yield join.warning
        yield from _warnings(join.inside)
