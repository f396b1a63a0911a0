"""Conditions on records: written with `F`, compiled to a plain function.

>>> from memdb.query import F
>>> (F.age >= 18) & ~F.name.in_(["Kyle", "Stan"])
(F.age >= 18) & ~F.name.in_(['Kyle', 'Stan'])
"""

from memdb.query._aggregates import Aggregate, Group, count_, term_key
from memdb.query._compiler import Condition, compile_condition
from memdb.query._conditions import (
    Always,
    Callback,
    Expression,
    Never,
    as_condition,
    conjuncts,
    has_callback,
)
from memdb.query._evaluate import NO_MATCH, evaluate, value_of
from memdb.query._fields import F, Field, order_term, value_term
from memdb.query._parameters import (
    P,
    bind,
    bind_value,
    case,
    check_parameters,
    optional,
    parameters,
)
from memdb.query._source import SourceWriter
from memdb.query._structure import constants, structure
from memdb.query._values import Order, Parameter, Value

__all__ = [
    "NO_MATCH",
    "Aggregate",
    "Always",
    "Callback",
    "Condition",
    "Expression",
    "F",
    "Field",
    "Group",
    "Never",
    "Order",
    "P",
    "Parameter",
    "SourceWriter",
    "Value",
    "as_condition",
    "bind",
    "bind_value",
    "case",
    "check_parameters",
    "compile_condition",
    "conjuncts",
    "constants",
    "count_",
    "evaluate",
    "has_callback",
    "optional",
    "order_term",
    "parameters",
    "structure",
    "term_key",
    "value_of",
    "value_term",
]
