"""From conditions and values to Python source: plain comparisons of the record's attributes.

The source never contains a value that a user compares with. Those are names, `c0`, `c1` ... for
constants and `p_name` for parameters; only None, True and False stand for themselves. Where values
do not fit each other the source raises one of `NO_MATCH`; then `evaluate` decides.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from functools import partial
from itertools import count
from types import NoneType
from typing import Any, Final, NamedTuple
from uuid import UUID

from memdb.errors import QueryError
from memdb.indexes import ABSENT, SURE
from memdb.query._aggregates import Aggregate
from memdb.query._comparable import can_refuse, check_operand, usual_type
from memdb.query._conditions import (
    RANGES,
    Always,
    And,
    Behind,
    Callback,
    Comparison,
    Expression,
    Never,
    Not,
    Or,
    unknown,
)
from memdb.query._evaluate import item, no_aggregate, step
from memdb.query._fields import Field
from memdb.query._fitting import Members, members, odd_in
from memdb.query._functions import functions_of
from memdb.query._parameters import (
    Case,
    Optional,
    check_members,
    chosen_arm,
    members_given,
    pattern_given,
    text_given,
)
from memdb.query._paths import Step, resolve_path
from memdb.query._values import Arithmetic, Constant, Function, Parameter, Value
from memdb.serializers import Shape
from memdb.serializers._build import is_plain_name

_TEMPLATES: Final = {
    "==": "{v} == {0}",
    "!=": "{v} == {0}",
    "<": "{v} < {0}",
    "<=": "{v} <= {0}",
    ">": "{v} > {0}",
    ">=": "{v} >= {0}",
    "in": "{v} in {0}",
    "is": "{v} is {0}",
    "contains": "{0} in {v}",
    "between": "{0} <= {v} <= {1}",
    "startswith": "{v}.startswith({0})",
    "endswith": "{v}.endswith({0})",
    "matches": "{0}({v}) is not None",
}

# These have an answer for None; for the others a None is kept away, since raising costs more.
_FITS_NONE: Final = frozenset({"==", "!=", "in", "is"})

# Where a value is exactly of one of these types, `==` with None is `is`.
ATOMS: Final[frozenset[Any]] = frozenset(
    {int, str, bool, float, bytes, datetime.date, datetime.time, datetime.datetime}
    | {datetime.timedelta, Decimal, UUID, NoneType}
)

_BUILTINS: Final = frozenset({int, str, bool, float, bytes})


class _Place(NamedTuple):
    """Where a value comes from.

    Attributes:
        guards: What must hold, in this order, before the source can be evaluated.
        source: The value.
        is_loose: An operator is in it.
        members: What its annotation says.
    """

    guards: list[str]
    source: str
    is_loose: bool = False
    members: tuple[Any, ...] = (Any,)


def _members_of_parameter(values: Any, name: str) -> frozenset[Any] | Members:
    return members(members_given(values, name))


def _search_of_parameter(pattern: Any, name: str) -> Callable[[Any], Any]:
    search: Callable[[Any], Any] = pattern_given(pattern, name).search
    return search


# What the source of a condition or value may call.
_NAMES: Final[dict[str, Any]] = {
    "absent": ABSENT,
    "step": step,
    "item": item,
    "chosen_arm": chosen_arm,
    "members": _members_of_parameter,
    "check_text": text_given,
    "check_members": check_members,
    "search": _search_of_parameter,
    "SURE": SURE,
    "odd_in": odd_in,
    # So that a parameter can be named type.
    "type_of": type,
}


class SourceWriter:
    """Write the source of the conditions and values of one generated function.

    Attributes:
        constants: How many constants the source has, named `c0`, `c1` ... in the order in which
            `constants` gives those of one condition or value after the other.
        prelude: Lines that belong before the source, once for each call, outside of any `try`:
            they make what is needed from parameters, and raise QueryError for one that does not
            fit.
        namespace: What the source and the prelude need.
    """

    def __init__(
        self,
        shape: Shape,
        *,
        is_typed: bool,
        is_native: bool = False,
        record: str = "r",
        beside: SourceWriter | None = None,
    ) -> None:
        """Write for a class.

        Args:
            shape: The class of the records.
            is_typed: The values are of exactly the types that the annotations say.
            is_native: No value is NumPy's, but for what functions of indexes give.
            record: What a record is called in the source.
            beside: Another writer of the same function, with which it shares prelude and names.
        """
        self._shape = shape
        self._is_typed = is_typed
        self._is_native = is_native and not functions_of(shape)
        self._record = record
        self._gates: list[str] = []
        self._is_checking = False
        self.constants = 0
        self._variables: Iterator[int] = count() if beside is None else beside._variables
        self._prepared: Iterator[int] = count() if beside is None else beside._prepared
        self._functions: dict[tuple[int, str], str] = {} if beside is None else beside._functions
        self.prelude: list[str] = [] if beside is None else beside.prelude
        self.namespace: dict[str, Any] = {} if beside is None else beside.namespace
        if beside is None:
            self.namespace |= _NAMES

    def condition(self, expression: Expression) -> str:
        """Return the source of a condition, to be put in parentheses where it is a part.

        Raises:
            QueryError: A field does not exist, or can't be compared with a constant; or a callable
                is part of the condition.
        """
        writer = _WRITERS.get(type(expression))
        if writer is None:
            raise unknown(expression)
        return writer(self, expression)

    def check(self, expression: Expression) -> None:
        """Do nothing but refuse what `condition` refuses, for what an index answers.

        Checks of parameters are added to the prelude.

        Raises:
            QueryError: As from `condition`.
        """
        constants, self._is_checking = self.constants, True
        try:
            self.condition(expression)
        finally:
            self.constants, self._is_checking = constants, False

    @contextmanager
    def gate(self, gate: str) -> Iterator[None]:
        """Let the prelude of what is written within do nothing while the source `gate` is true."""
        self._gates.append(gate)
        yield
        self._gates.pop()

    def value(self, value: Value) -> str:
        """Return the source of a value, `absent` where there is none.

        What Python refuses to calculate is absent too: then the source raises one of `NO_MATCH`.

        Raises:
            QueryError: A field does not exist, or the value is an aggregate.
        """
        place = self._place(value, False)
        if not place.guards:
            return f"({place.source})" if place.is_loose else place.source
        return f"({place.source} if {' and '.join(place.guards)} else absent)"

    def _joined(self, expression: Any) -> str:
        word = " and " if isinstance(expression, And) else " or "
        return word.join([f"({self.condition(part)})" for part in expression.parts])

    def _not(self, expression: Any) -> str:
        return f"not ({self.condition(expression.part)})"

    def _callback(self, expression: Any) -> str:
        raise QueryError(f"{expression!r} is a callable, which has no source.")

    def _behind(self, expression: Any) -> str:
        test, _ = self._constant(), self._constant()
        plain = None if expression.plain is None else self.condition(expression.plain)
        return f"{test}({self._record})" if plain is None or not self._is_typed else plain

    def _optional(self, expression: Any) -> str:
        gate = f"p_{expression.parameter.name} is None"
        with self.gate(gate):
            return f"{gate} or ({self.condition(expression.condition)})"

    def _case(self, expression: Any) -> str:
        arm = f"arm{next(self._prepared)}"
        keys = [self._constant() for _ in expression.arms]
        call = ", ".join([f"p_{expression.parameter.name}", *keys])
        self._prepare(arm, f"chosen_arm({call})")
        source = ""
        for position, (_, condition) in enumerate(expression.arms):
            with self.gate(f"{arm} != {position}"):
                source += f"({self.condition(condition)}) if {arm} == {position} else "
        with self.gate(f"{arm} != {len(keys)}"):
            return f"({source}({self.condition(expression.default)}))"

    def _comparison(self, expression: Any) -> str:
        comparison: Comparison = expression
        operator = comparison.operator
        place = self._place(comparison.value, operator not in _FITS_NONE)
        guards = [*place.guards]
        sources: list[str] = []
        for position, operand in enumerate(comparison.operands):
            if isinstance(operand, Parameter):
                sources.append(self._given(comparison, operand, place.members, position))
            elif isinstance(operand, Value):
                other = self._place(operand, operator in RANGES)
                guards += other.guards
                sources.append(other.source)
            elif operator in ("==", "!=", "is") and (operand is None or type(operand) is bool):
                sources.append(repr(operand))
            else:
                if operator in RANGES:
                    check_operand(
                        repr(comparison.value), place.members, operator, operand, position
                    )
                sources.append(self._constant())
        template = self._among(place) if operator == "in" else _TEMPLATES[operator]
        source = self._literal(place, operator, sources[0]) or template.format(
            *sources, v=place.source
        )
        source = " and ".join([*guards, source])
        return f"not ({source})" if operator == "!=" else source

    def _among(self, place: _Place) -> str:
        """Return the template of an `in_`, which looks closer at what its hash does not find."""
        if self._is_native or (self._is_typed and ATOMS.issuperset(place.members)):
            return _TEMPLATES["in"]
        held, found = place.source, "{v} in {0}"
        if not held.isidentifier():
            held = f"v{next(self._variables)}"
            found = f"({held} := {{v}}) in {{0}}"
        return f"({found} or type_of({held}) not in SURE and odd_in({held}, {{0}}))"

    def _literal(self, place: _Place, operator: str, operand: str) -> str | None:
        """Return a shorter source for an equality with None, True or False, if there is one."""
        if not self._is_typed or operator not in ("==", "!="):
            return None
        if operand == "None":
            return f"{place.source} is None" if ATOMS.issuperset(place.members) else None
        if operand not in ("True", "False"):
            return None
        if place.members == (bool,):
            return place.source if operand == "True" else f"not {place.source}"
        return f"{place.source} is {operand}" if {bool, NoneType} == {*place.members} else None

    def _given(
        self, comparison: Comparison, parameter: Parameter, members: tuple[Any, ...], position: int
    ) -> str:
        """Return the name of a parameter that is an operand, after what prepares and checks it."""
        operator, name = comparison.operator, f"p_{parameter.name}"
        if operator == "in" and self._is_checking:
            self._check(f"check_members({name}, {parameter.name!r})")
            return name
        if operator == "in":
            prepared = f"m{next(self._prepared)}"
            self._prepare(prepared, f"members({name}, {parameter.name!r})")
            return prepared
        if operator == "matches":
            prepared = f"s{next(self._prepared)}"
            self._prepare(prepared, f"search({name}, {parameter.name!r})")
            return prepared
        if operator in ("startswith", "endswith"):
            self._check(f"check_text({name}, {parameter.name!r})")
        if operator in RANGES and can_refuse(members):
            number = next(self._prepared)
            self.namespace[f"check{number}"] = partial(
                check_operand, repr(comparison.value), members, operator, position=position
            )
            usual = usual_type(members, operator)
            test = f"check{number}({name})"
            if usual is not None:
                text = usual.__name__ if usual in _BUILTINS else f"type{number}"
                if usual not in _BUILTINS:
                    self.namespace[text] = usual
                test = f"type({name}) is {text} or {test}"
                if usual is float:
                    test = f"type({name}) is int or {test}"
            self._check(test)
        return name

    def _prepare(self, name: str, source: str) -> None:
        """Let the prelude set a name, unless what needs it does not count."""
        gate = " or ".join(self._gates)
        self.prelude.append(
            f"{name} = None if {gate} else {source}" if gate else f"{name} = {source}"
        )

    def _check(self, source: str) -> None:
        """Let the prelude check something, unless what needs it does not count."""
        self.prelude.append(" or ".join([*self._gates, source]))

    def _constant(self) -> str:
        self.constants += 1
        return f"c{self.constants - 1}"

    def _place(self, value: Any, needs_value: bool) -> _Place:
        """Return where a value or constant comes from; a None is kept away if a value is needed."""
        if isinstance(value, Field):
            return self._field(value, needs_value)
        if isinstance(value, Arithmetic):
            left, right = self._place(value.left, True), self._place(value.right, True)
            source = f"{_inside(left)} {value.operator} {_inside(right)}"
            return _Place([*left.guards, *right.guards], source, True)
        if isinstance(value, Function):
            place = self._place(value.value, True)
            if value.name == "-":
                return _Place(place.guards, f"-{_inside(place)}", True)
            members = (int,) if value.name == "len" else (Any,)
            return _Place(place.guards, f"{value.name}({place.source})", False, members)
        if isinstance(value, Parameter):
            return _Place([], f"p_{value.name}")
        if isinstance(value, Aggregate):
            raise no_aggregate(value)
        if isinstance(value, Value) and not isinstance(value, Constant):
            raise unknown(value)
        return _Place([], self._constant())

    def _field(self, field: Field, needs_value: bool) -> _Place:
        """Return where a field comes from, with a guard for each step that may lead nowhere."""
        steps = resolve_path(field._path, self._shape)
        guards: list[str] = []
        source = self._record
        for position, each in enumerate(steps):
            if each.may_be_none and (needs_value or position < len(steps) - 1):
                nothing = "None"
            else:
                is_open = each.way in ("key", "item", "function") or isinstance(each.name, int)
                nothing = "absent" if is_open else ""
            if each.way == "function":
                source = f"{self._function(str(each.name))}({self._record}, {nothing})"
            else:
                source = _access(source, each, nothing)
            if nothing:
                variable = f"v{next(self._variables)}"
                guards.append(f"({variable} := {source}) is not {nothing}")
                source = variable
        return _Place(guards, source, False, steps[-1].members)

    def _function(self, name: str) -> str:
        """Return what the source calls the function of an index."""
        function = functions_of(self._shape)[name]
        called = self._functions.setdefault(
            (id(self._shape), name), f"function{len(self._functions)}"
        )
        self.namespace[called] = function
        return called


_WRITERS: Final[dict[type, Callable[[SourceWriter, Any], str]]] = {
    Comparison: SourceWriter._comparison,
    And: SourceWriter._joined,
    Or: SourceWriter._joined,
    Not: SourceWriter._not,
    Always: lambda writer, expression: "True",
    Never: lambda writer, expression: "False",
    Callback: SourceWriter._callback,
    Behind: SourceWriter._behind,
    Optional: SourceWriter._optional,
    Case: SourceWriter._case,
}


def _inside(place: _Place) -> str:
    return f"({place.source})" if place.is_loose else place.source


def _access(value: str, step_taken: Step, nothing: str) -> str:
    """Return the source that goes one step further from `value`, to `nothing` for no such key."""
    name = step_taken.name
    if step_taken.way == "key":
        return f"{value}.get({name!r}, {nothing})"
    if isinstance(name, int):
        return f"item({value}, {name!r}, {nothing})"
    if step_taken.way == "either":
        return f"step({value}, {name!r})"
    if isinstance(name, str) and is_plain_name(name):
        return f"{value}.{name}"
    return f"getattr({value}, {name!r})"
