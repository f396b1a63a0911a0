"""Joins over plain lists of identities and records, as slow and plain as can be.

What joined queries must agree with. Written from what is promised and nothing else: it shares no
code with the package, walks all rights for each left, and knows of no index.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.support import naive
from tests.support.naive import ABSENT, Condition, Parameter, Parameters, Path, Term, Value

#: The records of each collection, in its order.
Tables = dict[str, list[naive.Row]]
Count = int | Parameter


# -- questions -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Source:
    """A query of one collection.

    Attributes:
        table: The name of the collection.
        condition: None: all records.
        order: From the most to the least significant key; ties rise by identity.
        skip: How many are left out at the beginning.
        limit: How many there are at most; None for all.
    """

    table: str
    condition: Condition | None = None
    order: tuple[Term, ...] = ()
    skip: Count = 0
    limit: Count | None = None

    @property
    def source(self) -> Source:
        """The query of the first slot: itself."""
        return self


@dataclass(frozen=True)
class Join:
    """A further slot.

    Attributes:
        slot: Its name.
        right: What is joined; itself a joined one for nested joins.
        way: "on": a value of the left is the right's identity, or with `is_many` holds several;
            "pair": a value of the left equals one of the right; "back": a value of the right is
            the left's identity, or holds it.
        value: Of the left, or with "back" of the right.
        other: With "pair" that of the right.
        is_many: Whether there is a tuple of rights.
        is_inner: Whether lefts without a right are dropped.
        holds: With "back" whether the value is a collection of identities, by its annotation:
            "no" or "yes"; "open" without one, when lists and sets are.
    """

    slot: str
    right: Source | Joined
    way: str
    value: Value
    other: Value | None = None
    is_many: bool = False
    is_inner: bool = False
    holds: str = "no"


@dataclass(frozen=True)
class Joined:
    """A question over several collections.

    Attributes:
        left: Gives the rows.
        joins: The other slots, in their sequence.
        slot: The name of the first one.
        condition: Of rows.
        order: Of rows; ties stay as they are.
        skip: How many rows are left out at the beginning.
        limit: How many there are at most; None for all.
        parameters: The values of all parameters in it.
    """

    left: Source
    joins: tuple[Join, ...]
    slot: str = "left"
    condition: Condition | None = None
    order: tuple[Term, ...] = ()
    skip: Count = 0
    limit: Count | None = None
    parameters: Parameters = field(default_factory=dict)

    @property
    def source(self) -> Source:
        """The query of the first slot."""
        return self.left


# -- answers ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Found:
    """A record that was found."""

    identity: Any
    record: Any

    @property
    def first(self) -> Found:
        """The record of the first slot: itself."""
        return self

    @property
    def view(self) -> Any:
        """What paths of values lead through."""
        return self.record

    @property
    def plain(self) -> Any:
        """What a program is given."""
        return self.record


class View(dict[str, Any]):
    """The slots of a row; any other name is a field of the first one."""

    left: Any

    def get(self, name: Any, default: Any = None) -> Any:
        """Return a slot, or a field of the first one."""
        return self[name] if name in self else naive.look_up(self.left, (name,))


@dataclass(frozen=True, eq=False)
class Line:
    """A row: its slots by name, the first one first.

    A slot is a record or a row, None, or a tuple of them.
    """

    slots: dict[str, Any]

    @property
    def first(self) -> Found:
        """The record of the first slot."""
        found: Found = next(iter(self.slots.values()))
        return found

    @property
    def view(self) -> View:
        """What paths of values lead through."""
        view = View({name: _each(slot, "view") for name, slot in self.slots.items()})
        view.left = self.first.record
        return view

    @property
    def plain(self) -> tuple[Any, ...]:
        """What a program is given, as tuples."""
        return tuple(_each(slot, "plain") for slot in self.slots.values())


def _each(slot: Any, name: str) -> Any:
    if isinstance(slot, tuple):
        return tuple(getattr(each, name) for each in slot)
    return None if slot is None else getattr(slot, name)


class SeveralError(Exception):
    """A left has several rights where one is expected."""


def rows(tables: Tables, question: Joined, *, is_lenient: bool = False) -> list[Line]:
    """Return the rows that are asked for, in order.

    Args:
        is_lenient: Take the first of several rights where one is expected.

    Raises:
        SeveralError: A left has several, and `is_lenient` is not set.
    """
    candidates = [Found(*row) for row in tables[question.left.table]]
    return _evaluate(tables, question, candidates, question.parameters, is_lenient)


def plain(lines: Iterable[Line]) -> list[tuple[Any, ...]]:
    """Return rows as a program is given them, as tuples."""
    return [line.plain for line in lines]


def viewed(lines: Iterable[Line]) -> list[naive.Row]:
    """Return rows as `naive` takes them."""
    return [(place, line.view) for place, line in enumerate(lines)]


def _evaluate(
    tables: Tables,
    right: Source | Joined,
    candidates: list[Found],
    parameters: Parameters,
    is_lenient: bool,
) -> list[Any]:
    """Return the results of a query, if only these were in its first collection."""
    source = right.source
    asked = naive.Question(
        source.condition,
        source.order,
        _count(source.skip, parameters) or 0,
        _count(source.limit, parameters),
        parameters,
    )
    found: list[Any] = [
        Found(*row)
        for row in naive.answer([(each.identity, each.record) for each in candidates], asked)
    ]
    if isinstance(right, Source):
        return found
    lines = [Line({right.slot: each}) for each in found]
    for join in right.joins:
        lines = [
            Line({**line.slots, join.slot: slot})
            for line in lines
            for slot in _slot(tables, join, line, parameters, is_lenient)
        ]
    if right.condition is not None:
        condition = right.condition
        lines = [line for line in lines if naive.matches(condition, line.view, parameters)]
    lines = in_order(lines, right.order, parameters)
    skip, limit = _count(right.skip, parameters) or 0, _count(right.limit, parameters)
    return lines[skip : None if limit is None else skip + limit]


def _slot(
    tables: Tables, join: Join, line: Line, parameters: Parameters, is_lenient: bool
) -> list[Any]:
    """Return what is in a slot of a row; nothing at all if the row is dropped."""
    table = [Found(*row) for row in tables[join.right.source.table]]
    candidates = _that_belong(table, join, line, parameters)
    found = _evaluate(tables, join.right, candidates, parameters, is_lenient)
    if join.is_inner and not found:
        return []
    if join.is_many:
        return [tuple(found)]
    if len(found) > 1 and not is_lenient:
        raise SeveralError(line.first.identity)
    return [found[0] if found else None]


def _that_belong(table: list[Found], join: Join, line: Line, parameters: Parameters) -> list[Found]:
    """Return the records of the right that belong to a row, however they are filtered."""
    if join.way == "back":
        identity = line.first.identity
        return [
            right
            for right in table
            if any(
                is_same(each, identity)
                for each in _named(naive.value_of(join.value, right.record, parameters), join)
            )
        ]
    value = naive.value_of(join.value, line.view, parameters)
    if value is ABSENT or value is None:
        return []
    if join.way == "pair":
        other = join.other
        assert other is not None
        return [
            right
            for right in table
            if naive.matches(
                naive.Test("==", naive.Constant(value), (other,)), right.record, parameters
            )
            and naive.value_of(other, right.record, parameters) is not None
        ]
    if not join.is_many:
        return [right for right in table if is_same(value, right.identity)]
    if isinstance(value, set | frozenset):
        return [right for right in table if any(is_same(each, right.identity) for each in value)]
    if not isinstance(value, list | tuple):
        return []
    return [right for each in value for right in table if is_same(each, right.identity)]


def _named(value: Any, join: Join) -> list[Any]:
    """Return the identities that a right's value names."""
    if value is ABSENT or value is None:
        return []
    if join.holds == "open":
        return [*value] if isinstance(value, list | set) else [value]
    if join.holds == "no" or not isinstance(value, list | tuple | set | frozenset):
        return [value]
    return [*value]


def is_same(one: Any, other: Any) -> bool:
    """Whether two values are one identity: equal and of one type, all the way down."""
    if one is None or type(one) is not type(other):
        return False
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(is_same, one, other))
    return bool(one == other)


def _count(count: Count | None, parameters: Parameters) -> Any:
    return parameters[count.name] if isinstance(count, Parameter) else count


def in_order(
    lines: list[Line], order: Sequence[Term], parameters: Parameters | None = None
) -> list[Line]:
    """Return rows in an order, those that it holds equal as they were."""
    given = {} if parameters is None else parameters
    for term in reversed(order):

        def key(line: Line, value: Value = term.value) -> Any:
            return naive.order_key(naive.value_of(value, line.view, given))

        # Python's reversed sorting keeps the order of equal ones.
        lines = sorted(lines, key=key, reverse=term.falls)
    return lines


# -- other questions of the same shape -------------------------------------------------------


def without_page(question: Joined) -> Joined:
    """Return the question for all rows."""
    return dataclasses.replace(question, skip=0, limit=None)


def rewritten(condition: Condition, change: Callable[[Value], Value]) -> Condition:
    """Return a condition with other values in it."""

    def inner(part: Condition) -> Condition:
        return rewritten(part, change)

    match condition:
        case naive.Test():
            return naive.Test(
                condition.operator,
                value_rewritten(condition.value, change),
                tuple(value_rewritten(value, change) for value in condition.operands),
            )
        case naive.All():
            return naive.All(tuple(map(inner, condition.parts)))
        case naive.Some():
            return naive.Some(tuple(map(inner, condition.parts)))
        case naive.No():
            return naive.No(inner(condition.part))
        case naive.Call():
            return naive.Call(inner(condition.part))
    raise TypeError(condition)


def value_rewritten(value: Value, change: Callable[[Value], Value]) -> Value:
    """Return a value with others in it; each path, constant and parameter is changed."""
    match value:
        case naive.Calculation():
            return naive.Calculation(
                value.operator,
                value_rewritten(value.left, change),
                value_rewritten(value.right, change),
            )
        case naive.Applied():
            return naive.Applied(value.function, value_rewritten(value.value, change))
    return change(value)


def beneath(slot: str | int, value: Value) -> Value:
    """Return the value of a record as one of a row that has the record in a slot."""

    def below(each: Value) -> Value:
        return Path((slot, *each.names)) if isinstance(each, Path) else each

    return value_rewritten(value, below)


def condition_beneath(slot: str | int, condition: Condition) -> Condition:
    """Return the condition of a record as one of a row that has the record in a slot."""
    return rewritten(condition, lambda value: beneath(slot, value))


def parametrised(question: Joined, *, counts: bool = True) -> Joined:
    """Return the same question with parameters for its constants, and for its counts.

    What is in functions of the user's stays as it is.
    """
    parameters: Parameters = {}

    def name(value: Any) -> Parameter:
        parameters[f"p{len(parameters)}"] = value
        return Parameter(f"p{len(parameters) - 1}")

    def change(value: Value) -> Value:
        return name(value.value) if isinstance(value, naive.Constant) else value

    def of_condition(condition: Condition | None) -> Condition | None:
        match condition:
            case None | naive.Call() | naive.Test(operator="is"):
                return condition
            case naive.All() | naive.Some():
                parts = tuple(map(of_condition, condition.parts))
                return dataclasses.replace(condition, parts=parts)
            case naive.No():
                # A function is turned round as a whole.
                if _has_call(condition.part):
                    return condition
                return naive.No(rewritten(condition.part, change))
        return rewritten(condition, change)

    def of_count(count: Count | None) -> Any:
        return count if isinstance(count, Parameter) or not counts else name(count)

    def of(each: Any) -> Any:
        changed: dict[str, Any] = {
            "condition": of_condition(each.condition),
            "order": tuple(
                dataclasses.replace(term, value=value_rewritten(term.value, change))
                for term in each.order
            ),
        }
        # Without a count there is nothing to be said; None as a limit is said by a parameter.
        if each.skip:
            changed["skip"] = of_count(each.skip)
        if each.limit is not None:
            changed["limit"] = of_count(each.limit)
        if isinstance(each, Joined):
            changed["left"] = of(each.left)
            changed["joins"] = tuple(
                dataclasses.replace(
                    join, right=of(join.right), value=value_rewritten(join.value, change)
                )
                for join in each.joins
            )
        return dataclasses.replace(each, **changed)

    made: Joined = of(question)
    return dataclasses.replace(made, parameters=parameters)


def _has_call(condition: Condition) -> bool:
    match condition:
        case naive.Call():
            return True
        case naive.All() | naive.Some():
            return any(map(_has_call, condition.parts))
        case naive.No():
            return _has_call(condition.part)
    return False
