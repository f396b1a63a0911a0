"""The source of a query: for exactly its shape, its indexes and the class of its records.

What is written looks at the smallest set of candidates and compares the rest in one loop; there is
no call for a record and nothing is decided for each. It works on shared objects of the cache as of
one commit, and gives None where it can't: then the query is answered the general way.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, Literal
from uuid import UUID

from memdb.indexes import SURE, are_sure, is_sure, is_usual
from memdb.query._choice import MOST_WAYS, Choice, branch_at, ways_of
from memdb.query._conditions import Always, Expression, conjuncts
from memdb.query._costs import cost_of, matches_nothing
from memdb.query._evaluate import NO_MATCH
from memdb.query._functions import functions_of
from memdb.query._order_source import order_lines
from memdb.query._parameters import Case, Optional
from memdb.query._paths import resolve_path
from memdb.query._runtime import (
    Misfit,
    Runtime,
    keys_among,
    keys_without_none,
    pair,
    range_finder,
    scanned,
    size_of,
    sizes_of,
)
from memdb.query._seeds import (
    Among,
    Columns,
    Equal,
    Operands,
    Path,
    Range,
    Seed,
    Test,
    Union,
)
from memdb.query._source import SourceWriter
from memdb.query._values import Order

if TYPE_CHECKING:
    from memdb._index_set import View
    from memdb._store import Store

What = Literal["rows", "count"]
Lines = list[Any]

_BUILTINS: Final = frozenset({int, str, float, bytes})
_TEXTS: Final[frozenset[Any]] = frozenset({str, bytes, UUID, NoneType})

# What says that the general way must answer. KeyError and IndexError are among them: a record that
# is not in the cache, an index in the middle of a change.
ESCAPES: Final = (*NO_MATCH, ValueError, RuntimeError, Misfit)


@dataclass(frozen=True, slots=True)
class Shape:
    """What a query is, without its constants.

    Attributes:
        expression: What records must match, `Always` for all.
        order: The terms.
        what: Records in order, or their number.
        has_window: Only a part of the records is wanted, from ``start`` to ``stop``.
    """

    expression: Expression
    order: tuple[Order, ...]
    what: What
    has_window: bool


class PlanWriter:
    """Write the body of one query.

    Attributes:
        names: What the source needs besides constants and parameters.
        constants: How many constants it takes, first those of the expression.
        prelude: Lines before everything, which check parameters.
        shared: Those of `names` that mean the same in every plan of the collection.
        has_loop: It may look at many records.
    """

    def __init__(self, store: Store, view: View, shape: Shape) -> None:
        self.has_loop = False
        self._store = store
        self._shape = shape
        self._runtime = Runtime(store)
        self._operands = Operands(shape.expression)
        decoding = store.decoding
        self._writer = SourceWriter(
            store.query_shape, is_typed=decoding.is_typed, is_native=decoding.is_native
        )
        self.constants = self._operands.count
        self.names: dict[str, Any] = {
            "ESCAPES": ESCAPES,
            "cache": store.cache,
            "engine": store.engine,
            "horizon": store.horizon,
            "runtime": self._runtime,
            "fill": self._runtime.fill,
            "size_of": size_of,
            "sizes_of": sizes_of,
            "keys_among": keys_among,
            "keys_without_none": keys_without_none,
            "Misfit": Misfit,
            "islice": islice,
            "pair": pair,
            "scanned": scanned,
            "SURE": SURE,
            "are_sure": are_sure,
            "is_sure": is_sure,
            "is_usual": is_usual,
        }
        self.shared = frozenset([*self.names, *self._writer.namespace])
        self.names["view"] = view
        self._sources: dict[int, str] = {}
        self._named: dict[str, str] = {}
        self._order_lines: Lines = []
        order = shape.order if shape.what == "rows" else ()
        self._choice = Choice(store, view, order)
        self._entries, self._uniques = self._choice.entries, self._choice.uniques

    def write(self) -> Lines:
        """Return the lines that set ``found``, to be run inside a ``try``."""
        if self._shape.what == "rows" and self._shape.order:
            self._order_lines, names, self.constants = order_lines(
                self._store, self._writer, self._shape.order, self.constants,
                has_window=self._shape.has_window,
            )  # fmt: skip
            self.names |= names
        lines = self._branches(conjuncts(self._shape.expression), MOST_WAYS)
        self.names |= self._writer.namespace
        return lines

    @property
    def prelude(self) -> list[str]:
        """Lines that check what parameters were given, before anything else."""
        return self._writer.prelude

    # -- variants ------------------------------------------------------------------------

    def _branches(self, parts: list[Expression], budget: int) -> Lines:
        """Return the lines for parts of which some may not count."""
        branch = branch_at(parts, budget)
        if branch is None:
            return self._variant([part for part in parts if not isinstance(part, Always)])
        part = parts[branch[0]]
        bodies = [self._branches(way, branch[1]) for way in ways_of(parts, branch[0])]
        if isinstance(part, Case):
            return self._arms(part, bodies)
        assert isinstance(part, Optional)
        return [f"if p_{part.parameter.name} is None:", bodies[0], "else:", bodies[1]]

    def _arms(self, case: Case, bodies: list[Lines]) -> Lines:
        """Return the lines for the arms of a case and what holds without one."""
        # Keys come before the constants of the conditions.
        first = self._operands.first(case)
        keys = [f"c{first + number}" for number in range(len(case.arms))]
        call = ", ".join([f"p_{case.parameter.name}", *keys])
        lines: Lines = [f"arm = chosen_arm({call})"]
        for number, body in enumerate(bodies[:-1]):
            lines += [f"{'elif' if number else 'if'} arm == {number}:", body]
        return [*lines, "else:", bodies[-1]] if case.arms else [*lines, *bodies[-1]]

    # -- one variant ---------------------------------------------------------------------

    def _variant(self, parts: list[Expression]) -> Lines:
        """Return the lines for parts that all count."""
        # The order in which they were given does not matter: the cheapest are compared first.
        functions = functions_of(self._store.query_shape)
        parts = sorted(parts, key=lambda part: cost_of(part, functions))
        if any([matches_nothing(part) for part in parts]):
            for part in parts:
                # What is wrong in the others is refused all the same.
                self._write_part(part, is_covered=True)
            return ["found = 0" if self._shape.what == "count" else "found = []"]
        seeds = self._choice.seeds(parts, self._operands)
        checks: Lines = []
        for place, part in enumerate(parts):
            is_covered = bool(seeds) and all([place in seed.covers for seed in seeds])
            checks += self._write_part(part, is_covered=is_covered)
        return checks + self._access(parts, seeds)

    def _access(self, parts: list[Expression], seeds: list[Seed]) -> Lines:
        """Return the lines that look the seeds up and take the smallest."""
        if not seeds:
            ordered = self._choice.whole_order()
            if ordered is not None:
                return self._find(0, ordered) + self._chosen(0, ordered, parts)
            self.has_loop = True
            rows = "runtime.all_rows(view, version)"
            if self._shape.has_window and not self._shape.order:
                rows = "runtime.kept_rows(view)"
            return self._found(rows, parts, frozenset(), is_fresh=False)
        if len(seeds) == 1:
            return self._find(0, seeds[0]) + self._chosen(0, seeds[0], parts)
        lines: Lines = []
        for number, seed in enumerate(seeds):
            lines += [*self._find(number, seed), f"n{number} = {self._count(number, seed)}"]
        for number, seed in enumerate(seeds[:-1]):
            others = [f"n{number} <= n{other}" for other in range(number + 1, len(seeds))]
            lines += [
                f"{'elif' if number else 'if'} {' and '.join(others)}:",
                self._chosen(number, seed, parts),
            ]
        lines += ["else:", self._chosen(len(seeds) - 1, seeds[-1], parts)]
        return lines

    def _chosen(self, number: int, seed: Seed, parts: list[Expression]) -> Lines:
        """Return the lines that set ``found`` from the seed that was taken."""
        is_all = len(seed.covers) == len(parts)
        if self._shape.what == "count":
            if is_all and not isinstance(seed, Union):
                return [f"found = {self._count(number, seed)}"]
            if is_all and isinstance(seed, Union) and _is_of_one_hash(seed):
                return [f"found = {self._distinct_count(number, seed)}"]
        direction = self._choice.direction(seed)
        if direction:
            return self._in_order(number, seed, parts, is_falling=direction < 0)
        if not _is_unique(seed):
            self.has_loop = True
        elif not is_all:
            return self._sole(number, seed, parts)
        if isinstance(seed, Range) and not is_all and self._runtime.identity is not None:
            return self._survivors(number, seed, parts)
        is_fresh = isinstance(seed, Range | Columns) or _is_unique(seed)
        return self._found(self._rows(number, seed), parts, seed.covers, is_fresh=is_fresh)

    def _sole(self, number: int, seed: Seed, parts: list[Expression]) -> Lines:
        """Return the lines for the only candidate, which has to be compared."""
        condition = self._condition(parts, seed.covers)
        is_count = self._shape.what == "count"
        none, one = ("0", "1") if is_count else ("[]", "[r]")
        cut = ["found = found[start:stop]"] if self._shape.has_window and not is_count else []
        return [
            f"if s{number} is None:",
            [f"found = {none}"],
            "else:",
            [f"r = cache[s{number}]", f"found = {one} if {condition} else {none}", *cut],
        ]

    def _survivors(self, number: int, seed: Range, parts: list[Expression]) -> Lines:
        """Return the lines for a range that is compared before it is put in default order."""
        condition = self._condition(parts, seed.covers)
        rows = f"[r for r in s{number}.rows(runtime.load) if {condition}]"
        if self._shape.what == "count":
            return [f"found = len({rows})"]
        is_cut = self._shape.has_window and not self._shape.order
        return [
            f"found = {rows}",
            "found.sort(key=runtime.identity)",
            *(["found = found[start:stop]"] if is_cut else self._order_lines),
        ]

    def _in_order(
        self, number: int, seed: Seed, parts: list[Expression], *, is_falling: bool
    ) -> Lines:
        """Return the lines for candidates that an index gives in the order that is wanted."""
        span, condition = f"s{number}", self._condition(parts, seed.covers)
        if self._shape.has_window and condition:
            select = f"lambda rows: [r for r in rows if {condition}]"
            return [f"found = runtime.first({span}, {is_falling}, {select}, start, stop)"]
        if self._shape.has_window:
            return [f"found = runtime.load({span}.numbers({is_falling}, stop)[start:])"]
        rows = f"{span}.rows(runtime.load)"
        if is_falling:
            rows = f"runtime.load({span}.numbers(True))"
        return [f"found = [r for r in {rows} if {condition}]" if condition else f"found = {rows}"]

    def _condition(self, parts: list[Expression], covers: frozenset[int]) -> str:
        """Return the source of the parts that are not covered, empty if all are."""
        left = [self._sources[id(part)] for place, part in enumerate(parts) if place not in covers]
        return " and ".join([f"({each})" if len(left) > 1 else each for each in left])

    def _found(
        self, rows: str, parts: list[Expression], covers: frozenset[int], *, is_fresh: bool
    ) -> Lines:
        """Return the lines that compare candidates with the parts that are not covered.

        Args:
            rows: Source of the candidates.
            parts: What they must match.
            covers: Places of the parts that they match all.
            is_fresh: The list of the candidates is nobody else's.
        """
        condition = self._condition(parts, covers)
        if self._shape.what == "count":
            if not condition:
                return [f"found = len({rows})"]
            return [f"found = len([r for r in {rows} if {condition}])"]
        is_cut = self._shape.has_window and not self._shape.order
        if condition and is_cut:
            return [f"found = [*islice((r for r in {rows} if {condition}), start, stop)]"]
        if condition:
            return [f"found = [r for r in {rows} if {condition}]", *self._order_lines]
        cut = "[start:stop]" if is_cut else "" if is_fresh else "[:]"
        return [f"found = ({rows}){cut}" if cut else f"found = {rows}", *self._order_lines]

    def _write_part(self, part: Expression, *, is_covered: bool) -> Lines:
        """Write the source of a part, and return the lines that it needs before.

        They check and prepare parameters, and count in this variant only. Constants are named by
        their place in the whole condition.
        """
        writer = self._writer
        before, writer.prelude = writer.prelude, []
        writer.constants = self._operands.first(part)
        if is_covered:
            writer.check(part)
        else:
            self._sources[id(part)] = writer.condition(part)
        lines: Lines = [*writer.prelude]
        writer.prelude = before
        return lines

    # -- seeds ---------------------------------------------------------------------------

    def _find(self, number: int, seed: Seed) -> Lines:
        """Return the lines that look a seed up."""
        found = f"s{number}"
        if isinstance(seed, Union):
            lines: Lines = []
            for inner, each in _arms(number, seed):
                lines += self._find(inner, each)
            return lines
        if isinstance(seed, Columns):
            return [f"{found} = scanned({', '.join(map(self._test, seed.tests))})"]
        checks = self._checks(seed)
        if isinstance(seed, Range):
            return [*checks, f"{found} = {self._span(seed)}"]
        get = self._get(seed)
        if isinstance(seed, Among):
            keys = "keys_without_none" if seed.index.kind == "unique" else "keys_among"
            return [*checks, f"{found} = runtime.among({get}, {keys}({seed.operand.source}))"]
        line = f"{found} = {get}({self._key(seed)})"
        if seed.index.kind == "unique":
            # The index has no entry for None.
            tests = [
                f"{operand.source} is None"
                for operand, path in zip(seed.operands, seed.index.asked, strict=True)
                if operand.source[0] == "p" and self._choice.may_be_none(path)
            ]
            refusal: Lines = [f"if {' or '.join(tests)}:", ["raise Misfit"]] if tests else []
            return [*refusal, *checks, line]
        return [*checks, line]

    def _checks(self, seed: Equal | Among | Range) -> Lines:
        """Return the lines that let an index stand for the comparisons, Misfit where it can't."""
        operands = seed.compared
        entries: Any = self._uniques if seed.index.kind == "unique" else self._entries
        odd = entries[seed.index.name].odd
        if odd.numbers and operands:
            # They may match whatever is asked for.
            raise Misfit
        tests: list[str] = []
        if isinstance(seed, Among):
            given = seed.operand.source
            if given[0] == "p":
                tests = [f"not SURE.issuperset(map(type, {given})) and not are_sure({given})"]
        elif isinstance(seed, Equal):
            # What a range is looked up by is looked at there.
            for each, path in zip(operands, seed.index.asked, strict=True):
                if each.source[0] == "p" and not self._is_text(path):
                    usual, kind = self._usual(path), f"type_of({each.source})"
                    test = f"{kind} is not {usual} and {kind} not in SURE"
                    tests.append(f"{test} and not is_sure({each.source})")
        if odd.tame:
            check = "all(map(is_usual, {}))" if isinstance(seed, Among) else "is_usual({})"
            tests += [f"not {check.format(each.source)}" for each in operands]
        return [f"if {' or '.join(tests)}:", ["raise Misfit"]] if tests else []

    def _is_text(self, path: Path) -> bool:
        """Whether a field of the records is certain to be what no value of NumPy's equals."""
        if not self._store.decoding.is_typed:
            return False
        return _TEXTS.issuperset(resolve_path(path, self._store.query_shape)[-1].members)

    def _usual(self, path: Path) -> str:
        """Return the name of the type that a field is usually compared with, to be asked first."""
        members = resolve_path(path, self._store.query_shape)[-1].members
        return next((each.__name__ for each in members if each in _BUILTINS), "str")

    def _count(self, number: int, seed: Seed) -> str:
        """Return the source of the number of candidates of a seed that was looked up."""
        found = f"s{number}"
        if isinstance(seed, Union):
            return " + ".join([f"({self._count(*arm)})" for arm in _arms(number, seed)])
        if isinstance(seed, Range):
            return f"{found}.count"
        if isinstance(seed, Columns):
            return f"len({found})"
        if isinstance(seed, Among):
            return f"sizes_of({found})"
        if seed.index.kind == "unique":
            return f"0 if {found} is None else 1"
        return f"0 if {found} is None else 1 if type({found}) is int else len({found}.numbers)"

    def _distinct_count(self, number: int, seed: Union) -> str:
        """Return the source of the number of records of several keys of one hash index."""
        counts = []
        names: list[str] = []
        for inner, each in _arms(number, seed):
            count = f"({self._count(inner, each)})"
            # What two look-ups of equal keys find is one object.
            same = " or ".join([f"s{inner} is {name}" for name in names])
            counts.append(f"(0 if {same} else {count})" if same else count)
            names.append(f"s{inner}")
        return " + ".join(counts)

    def _rows(self, number: int, seed: Seed) -> str:
        """Return the source of the records of a seed, in default order."""
        found = f"s{number}"
        if isinstance(seed, Range):
            return f"runtime.in_default_order({found})"
        if isinstance(seed, Columns):
            return f"runtime.of_numbers({found})"
        if isinstance(seed, Among):
            return f"runtime.joined({found}, version)"
        if isinstance(seed, Union):
            arms = _arms(number, seed)
            is_pair = len(arms) == 2 and not self._runtime.is_keyed
            if is_pair and all([_is_unique(each) for _, each in arms]):
                (one, _), (other, _) = arms
                return f"[cache[each] for each in pair(s{one}, s{other})]"
            if _is_of_one_hash(seed):
                return f"runtime.joined([{', '.join([f's{inner}' for inner, _ in arms])}], version)"
            parts = [self._part(inner, each) for inner, each in arms]
            return f"runtime.merged([{', '.join(parts)}])"
        if seed.index.kind == "unique":
            return f"([] if {found} is None else [cache[{found}]])"
        return (
            f"([] if {found} is None else [cache[{found}]] if type({found}) is int"
            f" else {found}.rows or fill({found}, version))"
        )

    def _part(self, number: int, seed: Seed) -> str:
        """Return the source of numbers and records of an arm of a union."""
        if isinstance(seed, Range):
            return f"(s{number}.numbers(), s{number}.rows(runtime.load))"
        if isinstance(seed, Among):
            return f"*runtime.parts_of(s{number}, version)"
        if isinstance(seed, Columns):
            return f"(s{number}.tolist(), runtime.load(s{number}.tolist()))"
        if isinstance(seed, Union):
            return ", ".join([self._part(*arm) for arm in _arms(number, seed)])
        return f"runtime.part_of(s{number}, version)"

    def _get(self, seed: Equal | Among) -> str:
        index = seed.index
        name = self._name("get", index.name)
        if index.kind == "unique":
            self.names[name] = self._uniques[index.name].numbers.get
        else:
            entries: Any = self._entries[index.name]
            self.names[name] = entries.buckets.get
        return name

    def _span(self, seed: Range) -> str:
        entries: Any = self._entries[seed.index.name]
        operators = "".join([f" {operator}" for operator, _ in seed.bounds])
        # One function for each number of equal fields, though the operators are the same.
        after = "" if seed.after is None else " after"
        name = self._name("span", f"{seed.index.name} {len(seed.prefix)}{operators}{after}")
        self.names[name] = range_finder(entries, seed)
        return f"{name}({', '.join([each.source for each in seed.operands])})"

    def _test(self, test: Test) -> str:
        """Return the source of a comparison of a column."""
        name = self._name("column", test.index.name)
        self.names[name] = self._entries[test.index.name]
        sources = [each.source for each in test.operands]
        operand = f"({', '.join(sources)})" if test.operator == "between" else sources[0]
        return f"({name}, {test.operator!r}, {operand})"

    def _key(self, seed: Equal) -> str:
        sources = [each.source for each in seed.operands]
        return f"({', '.join(sources)})" if len(sources) > 1 else sources[0]

    def _name(self, word: str, what: str) -> str:
        """Return a name for something of an index, readable if the index's name is."""
        plain = "".join([each if each.isalnum() and each.isascii() else "_" for each in what])
        name = f"{word}_{plain}"
        while self._named.setdefault(name, what) != what:
            name += "_"
        return name


def _arms(number: int, seed: Union) -> list[tuple[int, Seed]]:
    """Return the seeds of a union, each with the number that generated names have for it."""
    return [(number * 100 + 100 + place, each) for place, each in enumerate(seed.seeds)]


def _is_unique(seed: Seed) -> bool:
    return isinstance(seed, Equal) and seed.index.kind == "unique"


def _is_of_one_hash(seed: Union) -> bool:
    """Whether two arms have the same records only if they look up the same key."""
    first = seed.seeds[0]
    return isinstance(first, Equal) and all(
        [
            isinstance(each, Equal) and each.index is first.index and each.index.kind != "set"
            for each in seed.seeds
        ]
    )
