"""Every way of asking a joined question, each answer compared with the naive one."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

import memdb
from memdb import count_
from tests.support import naive
from tests.support.answers import check_close, check_equal
from tests.support.asking import term_of
from tests.support.asking_joins import Collections, flat, joined_query
from tests.support.exact import assert_exact, leaf_key
from tests.support.naive import Path, Value
from tests.support.naive_joins import (
    Joined,
    Line,
    SeveralError,
    Tables,
    parametrised,
    plain,
    rows,
    viewed,
    without_page,
)


def expected_rows(tables: Tables, question: Joined) -> list[Line] | None:
    """Return the rows of a question; None if a left has several rights where one is expected."""
    try:
        return rows(tables, question)
    except SeveralError:
        return None


def is_doubtful(tables: Tables, question: Joined) -> bool:
    """Whether a right inside of a right is one of several, perhaps where nobody looks.

    Rights of rights are found for many lefts at once, so that whether this is refused depends on
    the way of the answer.
    """
    for join in question.joins:
        right = join.right
        if isinstance(right, Joined):
            left = dataclasses.replace(right.left, condition=None, skip=0, limit=None)
            whole = dataclasses.replace(
                without_page(right), left=left, parameters=question.parameters
            )
            if expected_rows(tables, whole) is None or is_doubtful(tables, right):
                return True
    return False


def check_joined(
    collections: Collections, tables: Tables, question: Joined, chance: random.Random
) -> None:
    """Check the plain ways of asking a question, against the naive answer.

    Args:
        collections: They are asked.
        tables: All of their records, in their order.
        question: Without parameters.
        chance: Chooses among the ways of saying the same.
    """
    if is_doubtful(tables, question):
        return
    query = joined_query(collections, question, chance)
    expected = expected_rows(tables, question)
    if expected is None:
        _check_refused(query, tables, question)
        return
    found = query.all()

    assert_exact([flat(row, question) for row in found], plain(expected))
    assert len(expected) == query.count()
    assert bool(expected) == query.exists()
    assert_exact([flat(row, question) for row in query], plain(expected))
    first = query.first()
    assert_exact(first and flat(first, question), expected[0].plain if expected else None)
    check_shared(found, question)


def _check_refused(query: Any, tables: Tables, question: Joined) -> None:
    """Check what is said of a question where a left has several rights.

    What is not looked at, since it is behind the page or no row in the end, need not be refused.
    """
    lenient = plain(rows(tables, question, is_lenient=True))

    def ask(asked: Callable[[], Any], expected: Any, make: Callable[[Any], Any]) -> None:
        try:
            found = asked()
        except memdb.QueryError as error:
            assert "join_many" in str(error), error
        else:
            assert_exact(make(found), expected)

    if are_all_looked_at(question):
        with pytest.raises(memdb.QueryError, match="join_many"):
            query.all()
    else:
        ask(query.all, lenient, lambda found: [flat(row, question) for row in found])
    ask(
        query.first,
        lenient[0] if lenient else None,
        lambda found: found and flat(found, question),
    )


def are_all_looked_at(question: Joined) -> bool:
    """Whether every left is a row, so that each of its rights has to be found."""
    is_whole = question.limit is None and question.condition is None
    return is_whole and not any(join.is_inner for join in question.joins)


def check_shared(found: Sequence[Any], question: Joined) -> None:
    """Check that a right of one slot is one object in a result, and each row is its own."""
    for place, join in enumerate(question.joins, 1):
        if isinstance(join.right, Joined):
            continue
        by_identity: dict[Any, Any] = {}
        for row in found:
            slot = row[place]
            for record in slot if join.is_many else () if slot is None else (slot,):
                identity = _identity(record)
                if identity is not None:
                    assert record is by_identity.setdefault(identity, record)


def _identity(record: Any) -> Any:
    found = record.get("id") if isinstance(record, dict) else getattr(record, "id", None)
    return found or None


def check_joined_prepared(
    collections: Collections, tables: Tables, question: Joined, chance: random.Random
) -> None:
    """Check a prepared query with parameters for all constants, twice, and its twin."""
    if is_doubtful(tables, question):
        return
    asked = parametrised(question)
    expected = expected_rows(tables, question)
    prepared = joined_query(collections, asked, chance).prepare()
    if expected is None:
        if are_all_looked_at(question):
            with pytest.raises(memdb.QueryError, match="join_many"):
                prepared(**asked.parameters)
        return
    for _ in range(2):
        found = prepared(**asked.parameters)
        assert_exact([flat(row, asked) for row in found], plain(expected))
    assert len(expected) == prepared.count(**asked.parameters)
    assert str(prepared.explain(**asked.parameters))


def check_joined_pages(
    collections: Collections, tables: Tables, question: Joined, chance: random.Random
) -> None:
    """Check that pages join up to the whole, and say how many there are."""
    question = without_page(question)
    expected = expected_rows(tables, question)
    if expected is None or is_doubtful(tables, question):
        return
    whole = plain(expected)
    query = joined_query(collections, question, chance)
    take = 1 + len(whole) % 3
    for skip in range(0, len(whole) + take, take):
        page = query.page(skip, take)
        part = query.skip(skip).limit(take)

        assert_exact([flat(row, question) for row in page], whole[skip : skip + take])
        assert (len(whole), skip, take) == (page.total, page.skip, page.take)
        assert_exact([flat(row, question) for row in part.all()], whole[skip : skip + take])
        assert len(whole[skip : skip + take]) == part.count()


def check_joined_selection(
    collections: Collections,
    tables: Tables,
    question: Joined,
    values: Sequence[Value],
    chance: random.Random,
) -> None:
    """Check selected values of slots, distinct ones, sums and groups.

    Args:
        values: Of rows; those of records whose fields hold what they should.
    """
    expected = expected_rows(tables, question)
    if expected is None or is_doubtful(tables, question):
        return
    query = joined_query(collections, question, chance)
    terms = [term_of(value) for value in values]
    views = viewed(expected)
    slots = [Path((question.slot,)), *(Path((join.slot,)) for join in question.joins)]
    wholes = query.select(*[term_of(slot) for slot in slots]).all()

    assert_exact([flat(row, question) for row in wholes], plain(expected))
    assert_exact(list(query.select(*terms).all()), naive.selected(views, values))
    assert_exact(
        list(query.values(terms[0]).all()),
        [row[0] for row in naive.selected(views, values[:1])],
    )
    all_rows = expected_rows(tables, without_page(question))
    assert all_rows is not None
    kept = _distinct(naive.selected(viewed(all_rows), values[:1]))
    start, limit = question.skip, question.limit
    assert isinstance(start, int)
    stop = None if limit is None else start + limit  # type: ignore[operator]
    assert_exact(list(query.select(terms[0]).distinct().all()), kept[start:stop])
    assert len(kept[start:stop]) == query.select(terms[0]).distinct().count()
    whole = dataclasses.replace(without_page(question), order=())
    _check_groups(joined_query(collections, whole, chance), all_rows, values)
    for value, term in zip(values, terms, strict=True):
        own = naive.present(views, value)
        check_equal(query.min(term), naive.least(own))
        check_equal(query.max(term), naive.greatest(own))
        if all(isinstance(each, int | float) for each in own):
            check_close(query.sum(term), naive.total(own))
            check_close(query.mean(term), naive.mean(own))


def _distinct(found: Sequence[Any]) -> list[Any]:
    """Return the first of those that are equal, all NaN being so."""
    kept: dict[Any, Any] = {}
    for row in found:
        key = tuple("nan" if each != each else each for each in row)
        try:
            hash(key)
        except TypeError:
            key = repr(leaf_key(row))  # type: ignore[assignment]
        kept.setdefault(key, row)
    return list(kept.values())


def _check_groups(query: Any, expected: list[Line], values: Sequence[Value]) -> None:
    value = values[0]
    term = term_of(value)
    found_groups = naive.groups(viewed(expected), [value])
    found = list(query.group_by(term).select(term, count_()).all())

    assert len(found_groups) == len(found)
    for (key, members), (own_key, count) in zip(found_groups, found, strict=True):
        check_equal(own_key, naive.or_none(key[0]))
        assert len(members) == count
