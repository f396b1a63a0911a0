"""Joined questions as the database is asked them; `naive_joins` says what they mean."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import memdb
from tests.support.asking import expression, ordering, query_for, term_of
from tests.support.naive import Condition, Parameter, Path, Question, Value
from tests.support.naive_joins import Join, Joined, Source

Collections = Mapping[str, memdb.Collection[Any]]


def joined_query(
    collections: Collections, question: Joined, chance: random.Random | None = None
) -> Any:
    """Return the query that asks a joined question.

    Args:
        collections: By the names that the question has for them.
        chance: Chooses among the ways of saying the same.
    """
    chance = random.Random(0) if chance is None else chance
    left = query_of(collections, question.left)
    return _with_joins(collections, left, question, chance)


def query_of(collections: Collections, source: Source) -> Any:
    """Return the query of a source."""
    query = query_for(collections[source.table], Question(source.condition, source.order))
    return _cut(query, source)


def _cut(query: Any, question: Source | Joined) -> Any:
    """Return a query with a question's skip and limit."""
    if isinstance(question.skip, Parameter) or question.skip:
        query = query.skip(_count(question.skip))
    if question.limit is not None:
        query = query.limit(_count(question.limit))
    return query


def _count(count: Any) -> Any:
    return term_of(count) if isinstance(count, Parameter) else count


def _with_joins(
    collections: Collections, query: Any, question: Joined, chance: random.Random
) -> Any:
    """Return a query with a question's joins, and what it says of rows."""
    for join in question.joins:
        query = _join(collections, query, join, chance)
    if question.condition is not None:
        query = query.where(expression(question.condition))
    if question.order:
        query = query.order_by(*map(ordering, question.order))
    return _cut(query, question)


def _join(collections: Collections, query: Any, join: Join, chance: random.Random) -> Any:
    arguments: dict[str, Any] = {"as_": join.slot}
    if join.is_inner or chance.random() < 0.3:
        arguments["how"] = "inner" if join.is_inner else "left"
    if join.way == "pair":
        assert join.other is not None
        arguments["on"] = (_side(join.value, chance), _side(join.other, chance))
    else:
        arguments[join.way] = _side(join.value, chance)
    method = query.join_many if join.is_many else query.join
    right, more = _right(collections, join.right, chance)
    return method(right, **arguments, **more)


def _side(value: Value, chance: random.Random) -> Any:
    """Return one side of a join: a name, or a value."""
    is_named = isinstance(value, Path) and all(type(name) is str for name in value.names)
    if is_named and chance.random() < 0.3:
        return ".".join(value.names)  # type: ignore[union-attr, arg-type]
    return term_of(value)


def _right(
    collections: Collections, right: Source | Joined, chance: random.Random
) -> tuple[Any, dict[str, Any]]:
    """Return what is joined, and what is said of it besides."""
    source = right.source
    more: dict[str, Any] = {}
    condition: Condition | None = source.condition
    if condition is not None and chance.random() < 0.5:
        more["where"] = expression(condition)
        source = Source(source.table, None, source.order, source.skip, source.limit)
    is_plain = source == Source(source.table)
    given: Any = query_of(collections, source)
    if is_plain and chance.random() < 0.6:
        given = collections[source.table]
    if not isinstance(right, Joined):
        return given, more
    # A condition beside a joined right would be one of its rows.
    if "where" in more or chance.random() < 0.5:
        more["then"] = lambda inner: _with_joins(collections, inner, right, chance)
        return given, more
    return _with_joins(collections, query_of(collections, source), right, chance), more


def flat(row: Any, question: Joined) -> tuple[Any, ...]:
    """Return a row of the database as tuples, as `naive_joins.plain` has it."""
    slots = list(row)
    assert len(slots) == 1 + len(question.joins) == len(row)
    found = [slots[0]]
    for slot, join in zip(slots[1:], question.joins, strict=True):
        if join.is_many:
            assert type(slot) is tuple
            found.append(tuple(_flat(each, join.right) for each in slot))
        else:
            found.append(None if slot is None else _flat(slot, join.right))
    return tuple(found)


def _flat(value: Any, right: Source | Joined) -> Any:
    return flat(value, right) if isinstance(right, Joined) else value
