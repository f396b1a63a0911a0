"""Conditions on records: written with `F`, compiled to a plain function.

>>> from memdb.query import F
>>> (F.age >= 18) & ~F.name.in_(["Kyle", "Stan"])
(F.age >= 18) & ~F.name.in_(['Kyle', 'Stan'])
"""

from memdb.query._compiler import Condition, compile_condition
from memdb.query._expressions import Expression, F, Field

__all__ = ["Condition", "Expression", "F", "Field", "compile_condition"]
