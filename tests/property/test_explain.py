"""What `explain` says against what the generated function does, and against the records."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import memdb
from memdb import F, HashIndex, P, SetIndex, SortedIndex, case, optional
from memdb.query import Expression, evaluate
from memdb.query._conditions import Or
from tests.support.tracing import Run, taken, traced


@dataclass
class Row:
    """A record with fields of known types; the other collections here are of dicts."""

    x: int
    y: int | None
    t: str
    g: list[str]
    u: int | None
    id: int = 0


_DECLARED = [
    HashIndex("x", name="hashx"),
    HashIndex("y", name="hashy"),
    SortedIndex("y", name="sorty"),
    SortedIndex("x", "-y", name="falling"),
    SortedIndex("t", name="text"),
    SetIndex("g", name="elements"),
    HashIndex("x", name="part", where=F.y > 1),
    HashIndex("u", name="sole", unique=True),
    memdb.ColumnIndex("x", name="whole"),
    memdb.ColumnIndex("y", name="numbers"),
]

_X = st.integers(0, 2)
_Y = st.integers(0, 4)
_T = st.sampled_from(["", "a", "ab", "b"])
_G = st.sampled_from("pqr")
_U = st.integers(0, 9)
_ROWS = st.lists(
    st.fixed_dictionaries(
        {"x": _X, "y": _Y | st.none(), "t": _T, "g": st.lists(_G, max_size=3), "u": _U | st.none()}
    ),
    unique_by=lambda row: object() if row["u"] is None else row["u"],
    max_size=30,
)
_PARTS = st.one_of(
    _X.map(lambda x: F.x == x),
    _Y.map(lambda y: F.y == y),
    _Y.map(lambda y: F.y > y),
    _Y.map(lambda y: F.y <= y),
    st.tuples(_Y, _Y).map(lambda both: F.y.between(*both)),
    st.lists(_X, max_size=3).map(lambda xs: F.x.in_(xs)),
    _T.map(lambda t: F.t.startswith(t)),
    _G.map(lambda g: F.g.contains(g)),
    _U.map(lambda u: F.u == u),
    st.lists(_U, max_size=3).map(lambda us: F.u.in_(us)),
    st.just(F.y.is_none()),
    st.just(F.y > 1),
    _X.map(lambda x: F.x != x),
)
_CONDITIONS = st.lists(
    _PARTS | st.tuples(_PARTS, _PARTS).map(lambda both: both[0] | both[1]), max_size=3
)
_ORDERS = st.sampled_from([(), ("y",), ("-y",), ("x", "-y"), ("-x", "y"), ("t",), ("t", "x")])


def _filled(
    db: memdb.Database, rows: list[dict[str, Any]], indexes: set[Any], *, is_typed: bool
) -> Any:
    """Return a collection of these rows."""
    declared = sorted(indexes, key=lambda each: str(each.name))
    if is_typed:
        typed = db.collection(Row, indexes=declared)
        typed.insert_many([Row(**row) for row in rows])
        return typed
    collection = db.collection("rows", indexes=declared)
    collection.insert_many(rows)
    return collection


def _check_run(collection: Any, explanation: memdb.Explanation, runs: list[Run]) -> None:
    """Compare what was said with what was done."""
    chosen, names = explanation.chosen, [index.name for index in _DECLARED]
    assert explanation.is_compiled
    assert len(runs) == 1
    assert explanation.source is not None
    indexes, count = taken(runs[0], explanation.source, names)
    assert indexes == set(re.findall(r"'(\w+)'", chosen.source))
    assert count == (chosen.count if indexes else None)
    is_given = ".sort(" not in "".join(
        [explanation.source.split("\n")[number - 2] for number in runs[0].lines]
    )
    assert not explanation.is_order_given or is_given
    _check_count(collection, chosen)


def _check_count(collection: Any, chosen: Any) -> None:
    """Compare a count with the records that match what it is said to be of."""
    records = list(collection)
    if not chosen.condition:
        assert chosen.count in (len(records), 0)
        return
    # As the text stands there it is Python that means the same.
    condition = eval(chosen.condition, {"F": F})
    if isinstance(condition, Or):
        parts = condition.parts
        matching = sum(evaluate(part, record) for part in parts for record in records)
    else:
        matching = sum(evaluate(condition, record) for record in records)
    if isinstance(condition, Or) or " or " not in chosen.source:
        assert chosen.count == matching
    else:
        assert chosen.count >= matching


@settings(deadline=None, max_examples=150)
@given(
    rows=_ROWS,
    indexes=st.sets(st.sampled_from(_DECLARED)),
    conditions=_CONDITIONS,
    order=_ORDERS,
    is_typed=st.booleans(),
    limit=st.none() | st.integers(1, 4),
)
def test_explanation_is_true(
    rows: list[dict[str, Any]],
    indexes: set[Any],
    conditions: list[Expression],
    order: tuple[str, ...],
    is_typed: bool,
    limit: int | None,
) -> None:
    """The generated function takes what is said, and that many records match what it covers."""
    with memdb.open(None) as db:
        collection = _filled(db, rows, indexes, is_typed=is_typed)
        assert len(collection.query().all()) == len(rows)
        query = collection.where(*conditions).order_by(*order).limit(limit)
        # So that the function is there, with its indexes.
        wanted = query.all()
        explanation = query.explain()
        with traced() as runs:
            found = query.all()
        general = query.where(lambda record: True).explain()

        assert found == wanted
        if explanation.is_compiled:
            _check_run(collection, explanation, runs)
        else:
            # Unless all of them are at hand, the first of all records are taken one by one.
            assert not runs
            assert explanation.chosen.source == "all records"
            assert limit is not None
        assert not general.is_compiled
        _check_count(collection, general.chosen)


# Conditions with a parameter, and the values that it may have.
_ASKED: st.SearchStrategy[tuple[Callable[[Any], Expression], Any]] = st.one_of(
    _X.map(lambda x: (lambda p: F.x == p, x)),
    (_X | st.none()).map(lambda x: (lambda p: optional(p, F.x == p), x)),
    (_Y | st.none()).map(lambda y: (lambda p: optional(p, F.y > p), y)),
    _Y.map(lambda y: (lambda p: F.y <= p, y)),
    _U.map(lambda u: (lambda p: F.u == p, u)),
    _X.map(lambda x: (lambda p: case(p, {0: F.y == 1, 1: F.x == 1}, default=F.y > 1), x)),
    st.lists(_X, max_size=3).map(lambda xs: (lambda p: F.x.in_(p), xs)),
    _G.map(lambda g: (lambda p: F.g.contains(p), g)),
)


@settings(deadline=None, max_examples=100)
@given(
    rows=_ROWS,
    indexes=st.sets(st.sampled_from(_DECLARED)),
    asked=st.lists(_ASKED, max_size=4),
    order=_ORDERS,
    is_typed=st.booleans(),
)
def test_explanation_of_a_prepared_query_is_true(
    rows: list[dict[str, Any]],
    indexes: set[Any],
    asked: list[tuple[Callable[[Any], Expression], Any]],
    order: tuple[str, ...],
    is_typed: bool,
) -> None:
    """Which of its ways the generated function goes, and what it takes there, is as said."""
    with memdb.open(None) as db:
        collection = _filled(db, rows, indexes, is_typed=is_typed)
        assert len(collection.query().all()) == len(rows)
        conditions = [make(P[f"p{number}"]) for number, (make, _) in enumerate(asked)]
        values = {f"p{number}": value for number, (_, value) in enumerate(asked)}
        prepared: Any = collection.where(*conditions).order_by(*order).prepare()
        wanted = prepared(**values)
        explanation = prepared.explain(**values)
        source = explanation.source or ""
        # What is behind the call, whose source has the same lines.
        owner = prepared.__globals__["owner"]
        with traced() as runs:
            found = owner._answer("rows", values)

        assert found == wanted
        # But for the numbers behind the names, of which each prepared query has its own.
        plain = [re.sub(r"(_\d+)+\b", "", each) for each in (owner._plans["rows"].source, source)]
        assert plain[0] == plain[1]
        _check_run(collection, explanation, runs)
