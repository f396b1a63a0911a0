"""The source of joins: one comprehension over the records on the left, with all look-ups in it.

Like the source of a query it reads what the cache shares, as of one commit of each collection, and
gives None where it can't answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final, Literal

from memdb.indexes import is_sure
from memdb.query._conditions import Comparison, conjuncts, has_callback
from memdb.query._fields import Field
from memdb.query._join import Join, each_join
from memdb.query._join_access import Access
from memdb.query._join_candidates import (
    Candidates,
    Key,
    Side,
    Taken,
    is_of_one_type,
    is_proven,
)
from memdb.query._join_runtime import Loader, naming
from memdb.query._order_source import order_lines
from memdb.query._plan_source import ESCAPES
from memdb.query._plans import indented
from memdb.query._runtime import Misfit, Runtime
from memdb.query._source import SourceWriter
from memdb.query._structure import constants
from memdb.query._values import Parameter, Value

if TYPE_CHECKING:
    from memdb._index_set import View
    from memdb.query._query import Query
    from memdb.query._row_source import RowSource

What = Literal["rows", "count"]
Lines = list[Any]

# Stands for a collection of which every record is in the cache: there are no others to load.
_NOTHING: Final[dict[Any, Any]] = {}


class JoinWriter:
    """Write the function that makes rows of the records on the left.

    Attributes:
        names: What the source needs besides arguments.
        constants: How many constants it takes.
        windows: What it calls the limits of rights, in the order of `join_limits`.
        stores: The collections, each once, the left one first.
    """

    def __init__(
        self,
        source: RowSource,
        views: dict[Any, View],
        accesses: dict[int, Access],
        what: What,
        constant: frozenset[int],
    ) -> None:
        """Write for some joins.

        Args:
            source: The joins.
            views: Of all collections, the left one first.
            accesses: How each join is looked up, by its id.
            what: Rows, or their number.
            constant: The places of the joins that look up the same in all rows.
        """
        self._source = source
        self._what = what
        self._views = views
        self._accesses = accesses
        self._constant = constant
        self.stores = list(views)
        self.constants = 0
        self.windows: list[str] = []
        left = source.left._store
        self._base = SourceWriter(left.query_shape, is_typed=left.decoding.is_typed)
        self.names: dict[str, Any] = {
            "ESCAPES": ESCAPES,
            "Misfit": Misfit,
            "repeat": repeat,
        }
        self._count = 0
        self._defined: Lines = []
        self._prelude: Lines = []
        self._needed: set[int] = set()

    # -- the function --------------------------------------------------------------------

    def write(self, parameters: Sequence[str]) -> str:
        """Return the source of ``run``, a function of records, constants, parameters and limits.

        Raises:
            Misfit: Only the general way can answer, or an index has been dropped meanwhile.
        """
        source = self._source
        made = self._level(source, source.left._store, self._what)
        limits = [f"{name}_{end}" for name in self.windows for end in ("start", "stop")]
        arguments = ["found", *[f"c{number}" for number in range(self.constants)]]
        arguments += [*[f"p_{name}" for name in parameters], *limits]
        numbers = range(len(self.stores))
        changed = " or ".join([f"horizon{n}.slot != version{n}" for n in numbers])
        # The views too: a record that is not as its class says may have been read meanwhile.
        changed += " or " + " or ".join([f"view{n}.cursor != version{n}" for n in numbers])
        changed += "".join([f" or horizon{n}.taken != taken{n}" for n in sorted(self._needed)])
        body: Lines = [
            *self._base.prelude,
            "if not found:",
            [f"return {'0' if self._what == 'count' else '[]'}"],
            "try:",
            [*self._lookups(), *self._prelude, *self._defined, *made],
            "except ESCAPES:",
            ["return None"],
            f"if {changed}:",
            ["return None"],
            "return rows",
        ]
        versions = [f"version{n}" for n in numbers]
        for number, store in enumerate(self.stores):
            self.names |= {
                f"horizon{number}": store.horizon,
                f"view{number}": self._views[store],
            }
        self.names |= self._base.namespace
        lines: Lines = [f"def run({', '.join([*versions, *arguments])}):", body]
        return "\n".join(indented(lines, 0))

    def _lookups(self) -> Lines:
        """Return the lines that choose how records of each collection are read."""
        lines: Lines = []
        for number in sorted(self._needed):
            store = self.stores[number]
            self.names |= {
                f"cache{number}": store.cache,
                f"identities{number}": store.identities,
                f"get{number}": store.cache.get,
                f"getitem{number}": store.cache.__getitem__,
                f"fill{number}": Runtime(store).fill,
                f"store{number}": store,
                "Loader": Loader,
                "nothing": _NOTHING.get,
            }
            names = f"find{number}, load{number}, take{number}, rows{number}"
            lines += [
                # Before the length: see `Horizon.taken`.
                f"taken{number} = horizon{number}.taken",
                f"if len(cache{number}) == len(identities{number}):",
                [f"{names} = get{number}, nothing, getitem{number}, fill{number}"],
                "else:",
                [
                    f"loader = Loader(store{number}, fill{number})",
                    f"{names} = loader.find, loader.find, loader.take, loader.rows",
                ],
            ]
        return lines

    # -- one level -----------------------------------------------------------------------

    def _level(self, source: RowSource, store: Any, what: What) -> Lines:
        """Return the lines that set ``rows`` to the rows of what is in ``found``.

        Args:
            source: What is joined to them.
            store: Their collection.
            what: Rows, or their number.
        """
        level = self._number()
        record, row = f"r{level}", f"Row{level}"
        is_top = source is self._source
        self.names[row] = source.row
        sides = [Side(store, record, False)]
        last = max([n for n, join in enumerate(source.joins, 1) if join.is_inner], default=0)
        used = {join.place for join in source.joins}
        lines: Lines = []
        clauses: list[str] = []
        elements = [record]
        for place, join in enumerate(source.joins, 1):
            if what == "count" and not join.is_inner and not (place in used and place < last):
                self._skip(join)
                sides.append(Side(join.store, "None", True))
                continue
            number = self._number()
            taken = self._rights(join, sides, number)
            name = f"x{number}"
            is_constant = (is_top and self._is_constant(place)) or sides[join.place].is_constant
            if is_constant:
                lines += [f"{each} = {made}" for each, made in taken.before]
                lines.append(f"{name} = {taken.source}")
                if join.is_inner:
                    lines += [
                        f"if not {name}:" if join.is_many else f"if {name} is None:",
                        ["found = []"],
                    ]
                elements.append(name)
            else:
                clauses += [_named(each, made) for each, made in taken.before]
                if join.is_inner and what == "count" and taken.test and place not in used:
                    clauses.append(f"if {taken.test}")
                elif join.is_inner and taken.sure and place not in used:
                    clauses.append(f"if {taken.test}")
                    elements.append(taken.sure)
                elif join.is_inner:
                    clauses.append(_named(name, taken.source))
                    clauses.append(f"if {name}" if join.is_many else f"if {name} is not None")
                    elements.append(name)
                elif place in used:
                    clauses.append(_named(name, taken.source))
                    elements.append(name)
                else:
                    elements.append(taken.source)
            # What all rows share is looked up also where there is to be no row.
            may_be_none = not join.is_inner or is_constant
            sides.append(Side(join.store, name, may_be_none, is_constant))
        if is_top and any([side.is_constant for side in sides]):
            lines = [f"{record} = found[0]", *lines]
        if what == "count":
            made = f"len([1 for {' '.join([f'{record} in found', *clauses])}])"
            return [*lines, f"rows = {made if clauses else 'len(found)'}"]
        if not clauses and all([side.is_constant for side in sides[1:]]):
            # Half of the time of a comprehension (benchmark query_joins, JoinOne).
            shared = "".join([f", repeat({name})" for name in elements[1:]])
            return [*lines, f"rows = [*map({row}, found{shared})]"]
        made = f"{row}({', '.join(elements)})"
        return [*lines, f"rows = [{made} for {' '.join([f'{record} in found', *clauses])}]"]

    def _is_constant(self, place: int) -> bool:
        """Whether what is constant is the same value in all rows, and no equal one."""
        join, store = self._source.joins[place - 1], self._source.left._store
        if place not in self._constant or join.left is None:
            return False
        # Of an identity the type matters too, which equal values need not have in common.
        is_certain = is_of_one_type if join.is_named else is_proven
        return is_certain(join.left, store)

    def _skip(self, join: Join) -> None:
        """Leave a join out that does not matter for the number of rows."""
        self.constants += len(join_constants([join]))
        self.windows += [f"w{self._number()}" for _ in windows_in([join])]

    def _rights(self, join: Join, sides: list[Side], number: int) -> Taken:
        """Return the source of what belongs to one row."""
        right = join.right
        if right._condition is not None and has_callback(right._condition):
            raise Misfit
        if right._cursor is not None or (join.match is not None and constants(join.match)):
            raise Misfit
        side = sides[join.place]
        key = Key(self, join, side)
        candidates = Candidates(self, join, self._accesses[id(join)], key, number)
        if right._order or join.has_window or join.nested is not None:
            return self._made(join, candidates, number)
        if candidates.is_sole and not join.is_many:
            return self._sole(join, candidates, number)
        if right._condition is not None or self._is_checked(join, key):
            return self._made(join, candidates, number)
        return candidates.many() if join.is_many else candidates.only()

    def _sole(self, join: Join, candidates: Candidates, number: int) -> Taken:
        """Return the source of the only record that may belong, if it is as it must be."""
        taken, name = candidates.sole(), f"y{number}"
        tests = self._tests(join, candidates.key, name, candidates.key.source)
        if not tests:
            return taken
        source = f"({name} if {' and '.join([f'{name} is not None', *tests])} else None)"
        return Taken([*taken.before, (name, taken.source)], source)

    def _made(self, join: Join, candidates: Candidates, number: int) -> Taken:
        """Return the source of what a function makes of the records that may belong."""
        tests = self._tests(join, candidates.key, "r", "identity")
        lines: Lines = ["found = [*found]"]
        if tests:
            lines = [f"found = [r for r in found if {' and '.join(tests)}]"]
        lines += self._order(join, number)
        if join.nested is not None:
            lines += self._nested(join)
        if join.is_many:
            lines.append("return tuple(found)")
        else:
            lines += ["if len(found) > 1:", ["raise Misfit"]]
            lines.append("return found[0] if found else None")
        is_checked = self._is_checked(join, candidates.key)
        self._defined += [f"def made{number}(found{', identity' if is_checked else ''}):", lines]
        taken = candidates.list()
        given = f", {candidates.key.source}" if is_checked else ""
        return Taken(taken.before, f"made{number}({taken.source}{given})")

    def _is_checked(self, join: Join, key: Key) -> bool:
        """Whether the type of a value that equals an identity has to be looked at."""
        return key.is_identity and join.match is not None and not key.is_exact

    def _tests(self, join: Join, key: Key, record: str, identity: str) -> list[str]:
        """Return what a record of the right must match."""
        tests: list[str] = []
        if self._is_checked(join, key):
            assert join.match is not None
            name = f"is_named{self._number()}"
            self.names[name] = naming(key.side.store, join.form)
            value = self.value(join.match, join.store, record)
            tests.append(f"{name}({value}, {identity})")
        condition = join.right._condition
        if condition is not None:
            writer = self._writer(join.store, record)
            writer.constants = self.constants
            tests.append(f"({writer.condition(condition)})")
            self.constants = writer.constants
        return tests

    def _order(self, join: Join, number: int) -> Lines:
        """Return the lines that put what belongs to a row in order, and cut it."""
        lines: Lines = []
        if join.has_window:
            self.windows.append(f"w{number}")
            lines.append(f"start, stop = w{number}_start, w{number}_stop")
        order = join.right._order
        if order:
            writer = self._writer(join.store, "r")
            made, names, self.constants = order_lines(
                join.store, writer, order, self.constants, has_window=join.has_window,
                tag=f"{number}_",
            )  # fmt: skip
            self.names |= names
            return [*lines, *made]
        return [*lines, "found = found[start:stop]"] if join.has_window else lines

    def _nested(self, join: Join) -> Lines:
        """Return the lines that make rows of what belongs to a row."""
        nested = join.nested
        assert nested is not None
        if nested._says_more:
            raise Misfit
        return [*self._level(nested._store, join.store, "rows"), "found = rows"]

    # -- parts ---------------------------------------------------------------------------

    def _number(self) -> int:
        self._count += 1
        return self._count

    def need(self, number: int) -> None:
        """Note that records of a collection are looked up by number."""
        self._needed.add(number)

    def add_line(self, line: str) -> None:
        """Let something be made before the rows."""
        self._prelude.append(line)

    def define(self, lines: Lines) -> None:
        """Let a function be made before the rows."""
        self._defined += lines

    def value(self, value: Value, store: Any, record: str) -> str:
        """Return the source of a value of a record."""
        writer = self._writer(store, record)
        writer.constants = self.constants
        source = writer.value(value)
        self.constants = writer.constants
        return source

    def view(self, store: Any) -> View:
        """Return the view of a collection's indexes that the function looks at."""
        return self._views[store]

    def _writer(self, store: Any, record: str) -> SourceWriter:
        is_typed = store.decoding.is_typed
        return SourceWriter(store.query_shape, is_typed=is_typed, record=record, beside=self._base)


def constant_places(left: Query[Any], joins: Sequence[Join]) -> dict[int, str | None]:
    """Return the places of the joins that look up a value that a query holds constant.

    And the name of the parameter that holds it, which has to be `memdb.indexes.is_sure`, as several
    values may equal one of NumPy's: 0.1 and what it is with 32 bits do. None for none.
    """
    held: dict[Any, str | None] = {}
    for part in [] if left._condition is None else conjuncts(left._condition):
        if (
            isinstance(part, Comparison)
            and part.operator == "=="
            and isinstance(part.value, Field)
            and not any([_is_of_record(each) for each in part.operands])
        ):
            (operand,) = part.operands
            if isinstance(operand, Parameter):
                held.setdefault(part.value._path, operand.name)
            elif is_sure(operand):
                held[part.value._path] = None
    return {
        place: held[join.left._path]
        for place, join in enumerate(joins, 1)
        if join.place == 0
        and isinstance(join.left, Field)
        and join.left._path in held
        and (join.match is not None or join.form == "equal")
    }


def _named(name: str, source: str) -> str:
    """Return the clause of a comprehension that names something."""
    # Assigning in a condition costs a tenth more of the whole, as the name is then shared with the
    # function around; but what a comprehension goes through can't assign.
    return f"if (({name} := {source}),)" if ":=" in source else f"for {name} in ({source},)"


def _is_of_record(operand: Any) -> bool:
    """Whether an operand may differ from record to record."""
    return isinstance(operand, Value) and not isinstance(operand, Parameter)


def join_constants(joins: Sequence[Join]) -> list[Any]:
    """Return the constants of joins, in the order in which the source names them."""
    found: list[Any] = []
    for join in each_join(joins):
        found += [] if join.left is None else constants(join.left)
        found += [] if join.right._condition is None else constants(join.right._condition)
        found += [each for term in join.right._order for each in constants(term)]
    return found


def windows_in(joins: Sequence[Join]) -> list[Join]:
    """Return the joins of which only a part is wanted, in the order of `JoinWriter.windows`."""
    return [join for join in each_join(joins) if join.has_window]
