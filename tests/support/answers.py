"""Every way of asking a collection a question, each answer compared with the naive one."""

from __future__ import annotations

import dataclasses
import math
from decimal import Decimal
from typing import Any

import memdb
from memdb import count_
from tests.support import naive
from tests.support.asking import expression, query_for, term_of
from tests.support.exact import assert_exact
from tests.support.naive import (
    Path,
    Question,
    Row,
)
from tests.support.schemas import HOMES, FieldKind, Schema


def check(collection: memdb.Collection[Any], rows: list[Row], question: Question) -> None:
    """Check every way of asking a question once, against the naive answer.

    Args:
        collection: It is asked.
        rows: All of its records, in its order.
        question: Without parameters.
    """
    expected = naive.answer(rows, question)
    query = query_for(collection, question)

    assert_exact(query.all(), [record for _, record in expected])
    assert [identity for identity, _ in expected] == query.ids()
    assert len(expected) == query.count()
    assert bool(expected) == query.exists()
    assert_exact(query.first(), expected[0][1] if expected else None)
    if question.condition is not None:
        found = naive.answer(rows, Question(question.condition))
        condition = expression(question.condition)

        assert_exact(collection.find_all(condition), [record for _, record in found])
        assert len(found) == collection.count(condition)


def check_prepared(collection: memdb.Collection[Any], rows: list[Row], question: Question) -> None:
    """Check a prepared query with parameters, twice, and its twins."""
    expected = naive.answer(rows, question)
    prepared = query_for(collection, question).prepare()

    for _ in range(2):
        found = prepared(**question.parameters)
        assert_exact(list(found), [record for _, record in expected])
    assert len(expected) == prepared.count(**question.parameters)
    assert str(prepared.explain(**question.parameters))


def check_pages(
    collection: memdb.Collection[Any], rows: list[Row], question: Question, schema: Schema
) -> None:
    """Check that pages, by number and by cursor, join up to the whole."""
    # The order of writing moves on while one pages, so that it has no cursors.
    is_paged_by_cursor = schema.key is None or bool(question.order)
    question = dataclasses.replace(question, skip=0, limit=None)
    expected = [record for _, record in naive.answer(rows, question)]
    query = query_for(collection, question)
    take = 2 + len(expected) % 3
    for skip in range(0, len(expected) + take, take):
        page = query.page(skip, take)

        assert_exact(list(page), expected[skip : skip + take])
        assert (len(expected), skip, take) == (page.total, page.skip, page.take)
    if not is_paged_by_cursor:
        return
    found: list[Any] = []
    page = query.page(take=take)
    found += page.items
    while page.cursor is not None:
        assert len(found) < len(expected) + take, "a cursor that leads nowhere"
        page = query.after(page.cursor).page(take=take)
        found += page.items

    assert_exact(found, expected)


def check_selection(
    collection: memdb.Collection[Any], rows: list[Row], question: Question, schema: Schema
) -> None:
    """Check selected values, distinct ones, sums and groups."""
    expected = naive.answer(rows, question)
    query = query_for(collection, question)
    values = [Path((field.name,)) for field in schema.fields]

    assert_exact(
        list(query.select(*map(term_of, values)).all()),
        naive.selected(expected, values),
    )
    for field, value in zip(schema.fields, values, strict=True):
        if not schema.is_certain or not field.is_plain or not field.is_hashable:
            continue
        found = list(query.select(term_of(value)).distinct().all())
        # What is skipped and limited are the selected rows, of which there are fewer.
        all_rows = naive.answer(rows, dataclasses.replace(question, skip=0, limit=None))
        kept = naive.distinct(naive.selected(all_rows, [value]))
        stop = None if question.limit is None else question.skip + question.limit
        assert_exact(found, kept[question.skip : stop])
    for field, value in zip(schema.fields, values, strict=True):
        if not schema.is_certain:
            continue
        own = naive.present(expected, value)
        if field.name not in (*HOMES, "anything"):
            check_equal(query.min(term_of(value)), naive.least(own))
            check_equal(query.max(term_of(value)), naive.greatest(own))
        if field.is_number:
            check_close(query.sum(term_of(value)), naive.total(own))
            check_close(query.mean(term_of(value)), naive.mean(own))


def check_groups(
    collection: memdb.Collection[Any],
    rows: list[Row],
    question: Question,
    schema: Schema,
    field: FieldKind,
) -> None:
    """Check counts, sums, least and greatest values of groups."""
    question = dataclasses.replace(question, order=(), skip=0, limit=None)
    value = Path((field.name,))
    term = term_of(value)
    found_groups = naive.groups(naive.answer(rows, question), [value])
    query = query_for(collection, question).group_by(term)
    found = list(query.select(term, count_()).all())

    assert len(found_groups) == len(found)
    for (key, members), (own_key, count) in zip(found_groups, found, strict=True):
        check_equal(own_key, naive.or_none(key[0]))
        assert len(members) == count
    several = list(query.select(term, count_()).having(count_() > 1).all())
    assert sum(len(members) > 1 for _, members in found_groups) == len(several)
    for other in schema.fields:
        if not other.is_number or not schema.is_certain:
            continue
        inner = term_of(Path((other.name,)))
        sums = list(query.select(inner.sum_(), inner.min_(), inner.max_(), inner.mean_()).all())
        for (_, members), row in zip(found_groups, sums, strict=True):
            own = naive.present(members, Path((other.name,)))
            check_close(row[0], naive.total(own))
            check_equal(row[1], naive.least(own))
            check_equal(row[2], naive.greatest(own))
            check_close(row[3], naive.mean(own))


def check_equal(found: Any, expected: Any) -> None:
    """Check that two values are equal in the order of all values."""
    assert naive.compare(found, expected) == 0, f"{found!r} is not {expected!r}"


def check_close(found: Any, expected: Any) -> None:
    """Check that two sums are equal but for rounding."""
    if isinstance(found, float | Decimal) and expected is not None:
        are_nan = math.isnan(found) and math.isnan(expected)
        assert are_nan or math.isclose(found, expected, rel_tol=1e-9), f"{found!r}, {expected!r}"
    else:
        check_equal(found, expected)
