"""The nodes of conditions and values, under one name."""

from memdb.query._conditions import And, Callback, Comparison, Expression, Not, Or
from memdb.query._evaluate import NO_MATCH, TESTS, evaluate, is_in, step
from memdb.query._fields import F, Field

__all__ = [
    "NO_MATCH",
    "TESTS",
    "And",
    "Callback",
    "Comparison",
    "Expression",
    "F",
    "Field",
    "Not",
    "Or",
    "evaluate",
    "is_in",
    "step",
]
