"""Seeds: the ways in which the indexes of a collection narrow a condition down.

A seed gives a set of candidates and how many there are, exactly, before any record is touched.
The parts of the condition that it *covers* need not be looked at again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from memdb.indexes import is_sure
from memdb.query._conditions import (
    And,
    Behind,
    Callback,
    Comparison,
    Expression,
    Or,
    conjuncts,
    is_value,
)
from memdb.query._fields import Field
from memdb.query._parameters import Case
from memdb.query._values import Parameter

if TYPE_CHECKING:
    from memdb._index_declarations import BoundIndex

Path = tuple[Any, ...]

_OF_COLUMNS: Final = frozenset({"==", "!=", "<", "<=", ">", ">=", "between"})
_RISING: Final = frozenset({">", ">="})
_FALLING: Final = frozenset({"<", "<="})


@dataclass(frozen=True, slots=True)
class Operand:
    """What a field is compared with.

    Attributes:
        value: The constant, or the parameter that stands for it.
        source: What generated code calls it.
    """

    value: Any
    source: str


@dataclass(frozen=True, slots=True)
class Equal:
    """The records whose key in an index is a value: by hash, or as the element of a set.

    Attributes:
        index: The index.
        operands: One for each of its fields.
        covers: Places of the parts that need no further look.
    """

    index: BoundIndex
    operands: tuple[Operand, ...]
    covers: frozenset[int]

    def __str__(self) -> str:
        return f"{self.index.kind} index {self.index.name!r}"

    @property
    def compared(self) -> Sequence[Operand]:
        """What keys are compared with."""
        return self.operands


@dataclass(frozen=True, slots=True)
class Among:
    """The records whose key in an index is one of several values."""

    index: BoundIndex
    operand: Operand
    covers: frozenset[int]

    @property
    def compared(self) -> Sequence[Operand]:
        """What keys are compared with: each of the values of this one."""
        return (self.operand,)

    def __str__(self) -> str:
        return f"{self.index.kind} index {self.index.name!r}, several keys"


@dataclass(frozen=True, slots=True)
class After:
    """Where in a sorted index a cursor stands.

    Attributes:
        operand: The `memdb.query._keyset.Place`.
        is_exact: The index has all terms of the order, so that it leads right behind the place;
            else it has the first one, and leads to all whose value of that is not before it.
        is_falling: The order of the first term is read from the end of the index.
    """

    operand: Operand
    is_exact: bool
    is_falling: bool


@dataclass(frozen=True, slots=True)
class Range:
    """The records whose key in a sorted index lies in an interval.

    Attributes:
        index: The index.
        prefix: What its first fields equal.
        bounds: Operator and operands of the comparisons of the field after them, at most one from
            below and one from above, or one that is both.
        covers: See `Equal`.
        after: Where that interval begins, or ends where the order falls, in the total order.
    """

    index: BoundIndex
    prefix: tuple[Operand, ...]
    bounds: tuple[tuple[str, tuple[Operand, ...]], ...]
    covers: frozenset[int]
    after: After | None = None

    def __str__(self) -> str:
        return f"sorted index {self.index.name!r}"

    @property
    def compared(self) -> Sequence[Operand]:
        """What keys are compared with."""
        return [*self.prefix, *[each for _, some in self.bounds for each in some]]

    @property
    def operands(self) -> Sequence[Operand]:
        """What the interval is found by, in order."""
        return [*self.compared, *([] if self.after is None else [self.after.operand])]


@dataclass(frozen=True, slots=True)
class Union:
    """The records of several seeds, each once."""

    seeds: tuple[Seed, ...]
    covers: frozenset[int]

    def __str__(self) -> str:
        return " or ".join(map(str, self.seeds))


@dataclass(frozen=True, slots=True)
class Test:
    """A comparison of a field that a column index has.

    Attributes:
        index: The index.
        operator: As `ColumnEntries.mask` takes it.
        operands: One, or two for ``between``.
    """

    index: BoundIndex
    operator: str
    operands: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Columns:
    """The records for which comparisons of whole columns are true; as costly as it is vectorised.

    Attributes:
        tests: The comparisons, all of which must be true.
        covers: See `Equal`.
    """

    tests: tuple[Test, ...]
    covers: frozenset[int]

    def __str__(self) -> str:
        names = dict.fromkeys([repr(test.index.name) for test in self.tests])
        return f"column index {', '.join(names)}"


Seed = Equal | Among | Range | Union | Columns


class Operands:
    """Names what generated code calls the constants of a condition, by their order in it."""

    def __init__(self, expression: Expression) -> None:
        self._first: dict[int, int] = {}
        self.count = self._number(expression, 0)

    def _number(self, expression: Expression, first: int) -> int:
        self._first[id(expression)] = first
        constants: list[Any] = []
        if isinstance(expression, Comparison | Callback | Behind):
            expression._take(constants, 0)
            return first + len(constants)
        if isinstance(expression, Case):
            # The keys of its arms come before what is in them.
            first += len(expression.arms)
        for part in expression._inner():
            if isinstance(part, Expression):
                first = self._number(part, first)
        return first

    def first(self, expression: Expression) -> int:
        """Return the number of the first constant of a part of the condition."""
        return self._first[id(expression)]

    def of(self, comparison: Comparison) -> tuple[Operand, ...]:
        """Return the operands of a comparison of a field."""
        number = self.first(comparison)
        found = []
        for value in comparison.operands:
            if is_value(value):
                found.append(Operand(value, f"p_{value.name}"))
            elif value is None or value is True or value is False:
                constants: list[Any] = []
                Comparison((value,), comparison.operator, comparison.value)._take(constants, 0)
                found.append(Operand(value, f"c{number}" if constants else repr(value)))
                number += len(constants)
            else:
                found.append(Operand(value, f"c{number}"))
                number += 1
        return tuple(found)


@dataclass(slots=True)
class _Behind:
    """A cursor in an order that an index may have."""

    place: int
    operand: Operand


@dataclass(slots=True)
class _Part:
    """A comparison of a field that an index may serve."""

    place: int
    path: Path
    operator: str
    operands: tuple[Operand, ...]


def seeds_of(
    parts: Sequence[Expression], indexes: Iterable[BoundIndex], operands: Operands
) -> list[Seed]:
    """Return the seeds of a condition.

    Args:
        parts: What a record must match all of.
        indexes: Those of the collection.
        operands: Of the whole condition that the parts belong to.
    """
    usable = [index for index in indexes if is_usable(index, parts)]
    served = [part for part in _parts(parts, operands)]
    behind = _behind(parts, operands)
    seeds: list[Seed] = []
    for index in usable:
        # What is in a partial index matches its condition.
        own = places_of(index, parts)
        found = _of_index(index, served, behind)
        seeds += [replace(seed, covers=seed.covers | own) for seed in found]
    for place, part in enumerate(parts):
        if isinstance(part, Or):
            union = _union(place, part, usable, operands)
            if union is not None:
                seeds.append(union)
    return seeds or _columns(indexes, served)


def _behind(parts: Sequence[Expression], operands: Operands) -> _Behind | None:
    """Return the part that is a cursor in an order of fields, None where there is none."""
    for number, part in enumerate(parts):
        if isinstance(part, Behind) and part.place.paths:
            return _Behind(number, Operand(part.place, f"c{operands.first(part) + 1}"))
    return None


def _columns(indexes: Iterable[BoundIndex], parts: list[_Part]) -> list[Seed]:
    """Return the seed that column indexes are, if they serve a part."""
    columns = {index.asked[0]: index for index in indexes if index.kind == "column"}
    found = [part for part in parts if part.path in columns and part.operator in _OF_COLUMNS]
    if not found:
        return []
    tests = [Test(columns[part.path], part.operator, part.operands) for part in found]
    return [Columns(tuple(tests), frozenset([part.place for part in found]))]


def not_dominated(seeds: list[Seed]) -> list[Seed]:
    """Return the seeds without those that are never smaller than another one."""
    equal = [seed for seed in seeds if isinstance(seed, Equal)]
    for each in equal:
        if each.index.kind == "unique":
            return [each]
    kept: list[Seed] = []
    for place, seed in enumerate(seeds):
        if isinstance(seed, Range) and seed.after is not None:
            # It leaves those out that are before a cursor, even where it covers no part by that.
            kept.append(seed)
            continue
        is_dominated = [
            seed.covers < other.covers
            or (seed.covers == other.covers and (seeds.index(other) < place or seed not in equal))
            for other in equal
            if other is not seed
        ]
        if not any(is_dominated):
            kept.append(seed)
    return kept


def is_usable(index: BoundIndex, parts: Sequence[Expression]) -> bool:
    """Whether every record that matches is in the index."""
    if index.declaration.where is None:
        return True
    return all(
        [
            any([_is_same(wanted, part) for part in parts])
            for wanted in conjuncts(index.declaration.where)
        ]
    )


def places_of(index: BoundIndex, parts: Sequence[Expression]) -> frozenset[int]:
    """Return the places of the parts that are the condition of a partial index."""
    if index.declaration.where is None:
        return frozenset()
    wanted = conjuncts(index.declaration.where)
    return frozenset(
        [
            place
            for place, part in enumerate(parts)
            if any([_is_same(each, part) for each in wanted])
        ]
    )


def _is_same(one: Expression, other: Expression) -> bool:
    ours: list[Any] = []
    theirs: list[Any] = []
    if one._take(ours, 0) != other._take(theirs, 0):
        return False
    return [(type(each), each) for each in ours] == [(type(each), each) for each in theirs]


def _parts(parts: Sequence[Expression], operands: Operands) -> Iterator[_Part]:
    for place, part in enumerate(parts):
        if not isinstance(part, Comparison) or not isinstance(part.value, Field):
            continue
        if all([isinstance(e, Parameter) if is_value(e) else is_sure(e) for e in part.operands]):
            yield _Part(place, part.value._path, part.operator, operands.of(part))


def _of_index(index: BoundIndex, parts: list[_Part], behind: _Behind | None) -> list[Seed]:
    equal: dict[Path, _Part] = {}
    for part in parts:
        is_none = part.operator == "is" and part.operands[0].value is None
        if part.operator == "==" or is_none:
            equal.setdefault(part.path, part)
    if index.kind in ("hash", "unique"):
        return _hashed(index, equal, parts)
    if index.kind == "set":
        return [
            Equal(index, part.operands, frozenset([part.place]))
            for part in parts
            if part.operator == "contains" and part.path == index.asked[0]
        ]
    if index.kind == "sorted":
        return _sorted(index, equal, parts, behind)
    return []


def _hashed(index: BoundIndex, equal: dict[Path, _Part], parts: list[_Part]) -> list[Seed]:
    if all([path in equal for path in index.asked]):
        found = [equal[path] for path in index.asked]
        if index.kind == "unique" and any([part.operands[0].value is None for part in found]):
            # It has no entry for None.
            return []
        operands = tuple([part.operands[0] for part in found])
        return [Equal(index, operands, frozenset([part.place for part in found]))]
    if len(index.asked) > 1:
        return []
    return [
        Among(index, part.operands[0], frozenset([part.place]))
        for part in parts
        if part.operator == "in" and part.path == index.asked[0]
    ]


def _sorted(
    index: BoundIndex, equal: dict[Path, _Part], parts: list[_Part], behind: _Behind | None
) -> list[Seed]:
    prefix: list[_Part] = []
    for path in index.asked:
        if path not in equal or equal[path].operands[0].value is None:
            break
        prefix.append(equal[path])
    covers = {part.place for part in prefix}
    bounds: list[tuple[str, tuple[Operand, ...]]] = []
    if len(prefix) < len(index.asked):
        path = index.asked[len(prefix)]
        for operators in (_RISING, _FALLING, {"between"}, {"startswith"}):
            found = [p for p in parts if p.path == path and p.operator in operators]
            is_both = operators not in (_RISING, _FALLING)
            if found and not (bounds and is_both):
                bounds.append((found[0].operator, found[0].operands))
                covers.add(found[0].place)
    after = None if behind is None else _after(index, len(prefix), behind)
    if after is not None and after.is_exact:
        assert behind is not None
        covers.add(behind.place)
    if not covers and after is None:
        return []
    operands = tuple([part.operands[0] for part in prefix])
    return [Range(index, operands, tuple(bounds), frozenset(covers), after)]


def _after(index: BoundIndex, first: int, behind: _Behind) -> After | None:
    """Return where a cursor stands in an index behind some fields, None where it does not tell."""
    paths, falling = behind.operand.value.paths, behind.operand.value.falling
    if first == len(index.asked) or index.asked[first] != paths[0]:
        return None
    is_falling = falling[0] is (index.directions[first] > 0)
    return After(behind.operand, index.asked[first:] == paths, is_falling)


def _union(place: int, part: Or, indexes: list[BoundIndex], operands: Operands) -> Union | None:
    """Return the seed of an or, whose every arm has one; None if one has not."""
    # Whether partial indexes serve an arm would depend on its constants, by which no plan is kept.
    indexes = [index for index in indexes if index.declaration.where is None]
    seeds = []
    is_exact = True
    for arm in part.parts:
        parts = list(arm.parts) if isinstance(arm, And) else [arm]
        found = seeds_of(parts, indexes, operands)
        if not found:
            return None
        best = min(not_dominated(found), key=_rank)
        is_exact = is_exact and len(best.covers) == len(parts)
        seeds.append(best)
    return Union(tuple(seeds), frozenset([place]) if is_exact else frozenset())


def _rank(seed: Seed) -> int:
    """Return how many candidates a seed may have, as far as that is known beforehand."""
    if isinstance(seed, Equal):
        return 0 if seed.index.kind == "unique" else 2 if len(seed.operands) == 1 else 1
    return {Among: 3, Union: 4, Range: 5, Columns: 6}[type(seed)]
