"""The source of joins: one comprehension over the records on the left, with all look-ups in it.

Like the source of a query it reads what the cache shares, as of one commit of each collection, and
gives None where it can't answer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, get_args, get_origin

from memdb.query._conditions import has_callback
from memdb.query._fields import Field
from memdb.query._join import Join
from memdb.query._join_access import Access, access_of
from memdb.query._join_runtime import KeyFinder, Loader, Tables, listing, naming
from memdb.query._joining import canonical
from memdb.query._order_source import order_lines
from memdb.query._paths import members_of, resolve_path
from memdb.query._plan_source import ESCAPES
from memdb.query._runtime import Misfit, Runtime
from memdb.query._source import SourceWriter
from memdb.query._structure import constants
from memdb.query._values import Value
from memdb.serializers._build import is_plain_name

if TYPE_CHECKING:
    from memdb._index_set import View
    from memdb.query._row_source import RowSource

What = Literal["rows", "count"]
Lines = list[Any]

# Types whose values equal a value of another type only if that is no identity.
_EXACT: Final = frozenset({int, str, bytes})


class Side(NamedTuple):
    """A collection whose records are in a slot.

    Attributes:
        store: It.
        number: By which the source names what is of it.
        record: The source of a record.
        may_be_none: There may be none in the slot.
    """

    store: Any
    number: int
    record: str
    may_be_none: bool


class JoinWriter:
    """Write the function that makes rows of the records on the left.

    Attributes:
        names: What the source needs besides arguments.
        constants: How many constants it takes.
        windows: What it calls the limits of rights, in the order of `join_limits`.
        stores: The collections, each once, the left one first.
    """

    def __init__(self, source: RowSource, views: dict[Any, View], what: What) -> None:
        self._source = source
        self._what = what
        self._views = views
        self.stores = list(views)
        self.constants = 0
        self.windows: list[str] = []
        left = source.left._store
        self._base = SourceWriter(left.query_shape, is_typed=left.decoding.is_typed)
        self.names: dict[str, Any] = {"ESCAPES": ESCAPES, "Misfit": Misfit, "canonical": canonical}
        self._count = 0
        self._defined: Lines = []
        self._prelude: Lines = []
        self._needed: set[int] = set()

    # -- the function --------------------------------------------------------------------

    def write(self, parameters: Sequence[str]) -> str:
        """Return the source of ``run``, a function of records, constants, parameters and limits.

        Raises:
            Misfit: Only the general way can answer.
        """
        source = self._source
        made = self._level(source, "found", source.left._store, self._what)
        limits = [f"{name}_{end}" for name in self.windows for end in ("start", "stop")]
        arguments = ["found", *[f"c{number}" for number in range(self.constants)]]
        arguments += [*[f"p_{name}" for name in parameters], *limits]
        numbers = range(len(self.stores))
        changed = " or ".join([f"horizon{n}.slot != version{n}" for n in numbers])
        # The views too: a record that is not as its class says may have been read meanwhile.
        changed += " or " + " or ".join([f"view{n}.cursor != version{n}" for n in numbers])
        body: Lines = [
            *self._base.prelude,
            "try:",
            [*self._lookups(), *self._prelude, *self._defined, f"rows = {made}"],
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
        return "\n".join(_indented(lines, 0))

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

    def _level(self, source: RowSource, found: str, store: Any, what: What) -> str:
        """Return the source of the list of the rows of some records.

        Args:
            source: What is joined to them.
            found: The source of the records.
            store: Their collection.
            what: Rows, or their number.
        """
        level = self._number()
        record = f"r{level}"
        sides = [Side(store, self.stores.index(store), record, False)]
        row = f"Row{level}"
        self.names[row] = source.row
        last = max([n for n, join in enumerate(source.joins) if join.is_inner], default=-1)
        used = {join.place for join in source.joins}
        clauses: list[str] = []
        elements = [record]
        for place, join in enumerate(source.joins, 1):
            number = self._number()
            name = f"x{number}"
            is_before = place - 1 <= last
            is_unused = not join.is_inner and not (place in used and is_before)
            if what == "count" and is_unused:
                self.constants += len(join_constants([join]))
                self.windows += [f"w{self._number()}" for _ in windows_in([join])]
                sides.append(Side(join.store, -1, "None", True))
                continue
            taken = self._rights(join, sides, number)
            if join.is_inner:
                clauses.append(name_test(name, taken, is_many=join.is_many))
                elements.append(name)
            elif place in used and is_before:
                clauses.append(f"(({name} := {taken}) or True)")
                elements.append(name)
            elif place in used:
                elements.append(f"({name} := {taken})")
            else:
                elements.append(taken)
            may_be_none = not join.is_inner
            sides.append(Side(join.store, self.stores.index(join.store), name, may_be_none))
        condition = f" if {' and '.join(clauses)}" if clauses else ""
        if what == "count":
            return f"len([1 for {record} in {found}{condition}])"
        return f"[{row}({', '.join(elements)}) for {record} in {found}{condition}]"

    def _rights(self, join: Join, sides: list[Side], number: int) -> str:
        """Return the source of what belongs to one row."""
        if join.right._condition is not None and has_callback(join.right._condition):
            raise Misfit
        if join.right._cursor is not None:
            raise Misfit
        side = sides[join.place]
        right = self.stores.index(join.store)
        access = access_of(join, side.store)
        key = _Key(self, join, side, access)
        candidates = _Candidates(self, join, access, key, right, number)
        is_simple = not (join.has_window or join.right._order or join.nested)
        if join.match is not None and constants(join.match):
            raise Misfit
        is_inline = is_simple and not join.is_many and candidates.is_sole
        checks = self._checks(join, key, is_inline=is_inline)
        source = self._made(join, candidates, number, checks, is_simple=is_simple)
        return (
            f"({key.nothing} if {side.record} is None else {source})" if key.is_guarded else source
        )

    def _made(
        self,
        join: Join,
        candidates: _Candidates,
        number: int,
        checks: list[str],
        *,
        is_simple: bool,
    ) -> str:
        """Return the source of the content of a slot."""
        right = candidates.right
        if is_simple and not join.is_many and candidates.is_sole:
            name = f"y{number}"
            condition = self._condition(join, right, name)
            tests = [*[check.replace("{r}", name) for check in checks], *condition]
            if not tests:
                return candidates.sole()
            return (
                f"({name} if ({name} := {candidates.sole()}) is not None"
                f" and {' and '.join(tests)} else None)"
            )
        condition = self._condition(join, right, "r")
        if is_simple and not condition and not checks:
            if join.is_many:
                return candidates.many()
            return candidates.only()
        # Everything else is made of the list of the candidates.
        tests = [*[check.replace("{r}", "r") for check in checks], *condition]
        lines: Lines = []
        if tests:
            lines.append(f"found = [r for r in found if {' and '.join(tests)}]")
        else:
            lines.append("found = [*found]")
        lines += self._order(join, number)
        if join.nested is not None:
            lines += self._nested(join)
        if join.is_many:
            lines.append("return tuple(found)")
        else:
            lines += [
                "if len(found) > 1:", ["raise Misfit"],
                "return found[0] if found else None",
            ]  # fmt: skip
        identity = ", identity" if checks else ""
        self._defined += [f"def made{number}(found{identity}):", lines]
        given = f", {candidates.key.identity}" if checks else ""
        return f"made{number}({candidates.list()}{given})"

    def _checks(self, join: Join, key: _Key, *, is_inline: bool) -> list[str]:
        """Return what else is compared, where the type of an identity matters."""
        if join.left is not None or join.match is None or key.is_exact:
            return []
        name = f"is_named{self._number()}"
        self.names[name] = naming(key.side.store, join.form)
        source = self.value(join.match, join.store, "{r}")
        identity = key.identity if is_inline else "identity"
        return [f"{name}({source}, {identity})"]

    def _condition(self, join: Join, right: int, record: str) -> list[str]:
        condition = join.right._condition
        if condition is None:
            return []
        store = self.stores[right]
        writer = self.writer(store, record)
        writer.constants = self.constants
        source = writer.condition(condition)
        self.constants = writer.constants
        return [f"({source})"]

    def _order(self, join: Join, number: int) -> Lines:
        """Return the lines that put what belongs to a row in order, and cut it."""
        lines: Lines = []
        if join.has_window:
            self.windows.append(f"w{number}")
            lines += [f"start, stop = w{number}_start, w{number}_stop"]
        order = join.right._order
        if order:
            writer = self.writer(join.store, "r")
            made, names, self.constants = order_lines(
                join.store, writer, order, self.constants, has_window=join.has_window,
                tag=f"{number}_",
            )  # fmt: skip
            self.names |= names
            return [*lines, *made]
        return [*lines, "found = found[start:stop]"] if join.has_window else lines

    def _nested(self, join: Join) -> Lines:
        nested = join.nested
        assert nested is not None
        is_more = nested._condition is not None or nested._order or nested._limit is not None
        if is_more or not (type(nested._skip) is int and nested._skip == 0):
            raise Misfit
        return [f"found = {self._level(nested._store, 'found', join.store, 'rows')}"]

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

    def writer(self, store: Any, record: str) -> SourceWriter:
        """Return a writer for records of a collection."""
        is_typed = store.decoding.is_typed
        return SourceWriter(store.query_shape, is_typed=is_typed, record=record, beside=self._base)

    def value(self, value: Value, store: Any, record: str) -> str:
        """Return the source of a value of a record."""
        writer = self.writer(store, record)
        writer.constants = self.constants
        source = writer.value(value)
        self.constants = writer.constants
        return source

    def view(self, store: Any) -> View:
        """Return the view of a collection's indexes that the function looks at."""
        return self._views[store]


def join_constants(joins: Sequence[Join]) -> list[Any]:
    """Return the constants of joins, in the order in which the source names them."""
    found: list[Any] = []
    for join in joins:
        found += [] if join.left is None else constants(join.left)
        found += [] if join.right._condition is None else constants(join.right._condition)
        found += [each for term in join.right._order for each in constants(term)]
        found += [] if join.nested is None else join_constants(join.nested._joins)
    return found


def windows_in(joins: Sequence[Join]) -> list[Join]:
    """Return the joins of which only a part is wanted, in the order of `JoinWriter.windows`."""
    found: list[Join] = []
    for join in joins:
        found += [join] if join.has_window else []
        found += [] if join.nested is None else windows_in(join.nested._joins)
    return found


def name_test(name: str, taken: str, *, is_many: bool) -> str:
    """Return the source that names what belongs to a row, and is true if there is anything."""
    return f"({name} := {taken})" if is_many else f"({name} := {taken}) is not None"


class _Key:
    """What a row looks up.

    Attributes:
        side: Where the row's record is.
        source: The source of the key.
        identity: The source of the identity on the left, where that is the key.
        is_guarded: The slot may be empty.
        nothing: What belongs to no record.
        is_exact: Its type, and that of the values of the right, need not be looked at.
        may_be_none: It may be None or absent.
    """

    def __init__(self, writer: JoinWriter, join: Join, side: Side, access: Access) -> None:
        self.side = side
        self.nothing = "()" if join.is_many else "None"
        self.is_guarded = side.may_be_none and join.left is not None
        if join.left is None:
            self.source = self.identity = _identity_source(side)
            self.may_be_none = False
            self.is_exact = _is_exact_identity(side.store) and _are_exact(
                join.match, join.store, side.store, join.form
            )
            return
        self.identity = ""
        self.source = writer.value(join.left, side.store, side.record)
        self.may_be_none = _may_be_none(join.left, side.store)
        self.is_exact = _are_exact(join.left, side.store, join.store, join.form)


class _Candidates:
    """The source of the records that belong to a row, before conditions of the right side.

    Attributes:
        is_sole: There is one at most.
    """

    def __init__(
        self, writer: JoinWriter, join: Join, access: Access, key: _Key, right: int, number: int
    ) -> None:
        self._writer = writer
        self._join = join
        self._access = access
        self._number = number
        self._local = f"b{number}"
        self.key = key
        self.right = right
        way = access.way
        self.is_sole = way in ("number", "key", "unique") and join.form != "listed"
        if way != "table":
            writer.need(right)
        if way == "key":
            writer.names[f"keys{number}"] = KeyFinder(join.store)
            writer.add_line(f"by_key{number} = keys{number}.finder(find{right})")
        if join.form == "listed":
            is_ordered = bool(join.right._order)
            writer.names[f"listed{number}"] = listing(is_ordered, has_numbers=way == "number")
        if way in ("unique", "hash", "set"):
            assert access.index is not None
            view = writer.view(join.store)
            name = access.index.name
            entries: Any = view.uniques[name] if way == "unique" else view.entries[name]
            found = entries.numbers if way == "unique" else entries.buckets
            writer.names[f"look{number}"] = found.get
        if way == "table":
            left = key.side.store
            assert join.match is not None
            writer.names[f"tables{number}"] = Tables(
                join.store, left, join.match, join.form, join.left is None
            )
            writer.add_line(
                f"table{number} = tables{number}.table(view{right}, version{right}).get"
            )

    @property
    def _find(self) -> str:
        """The source of a function from a key to a record or None."""
        return f"by_key{self._number}" if self._access.way == "key" else f"find{self.right}"

    def sole(self) -> str:
        """Return the source of the only record that may belong, None for none."""
        source, _right = self.key.source, self.right
        if self._access.way == "key":
            return f"by_key{self._number}({source})"
        if self._access.way == "unique":
            look = f"look{self._number}({source})"
            return f"(None if ({self._local} := {look}) is None else {self._taken()})"
        if self.key.is_exact:
            return self._record(source)
        local = self._local
        return f"({self._record(local)} if type({local} := {source}) is int else None)"

    def _record(self, number: str) -> str:
        """Return the source of the record of a number, None for none.

        The cache is asked here and not in a function: most records are in it, and a call costs
        twice as much as that.
        """
        right = self.right
        if not _is_always_true(self._join.store):
            return f"find{right}({number})"
        if re.fullmatch(r"[\w.]+", number):
            return f"(get{right}({number}) or load{right}({number}))"
        local = f"n{self._number}"
        return f"(get{right}({local} := {number}) or load{right}({local}))"

    def _taken(self) -> str:
        """Return the source of the record of the number that an index gave."""
        local, right = self._local, self.right
        if not _is_always_true(self._join.store):
            return f"take{right}({local})"
        return f"(get{right}({local}) or take{right}({local}))"

    def only(self) -> str:
        """Return the source of the record of several that may belong; Misfit if more do."""
        local, _right = self._local, self.right
        if self._access.way == "hash" or self._access.way == "set":
            self._writer.names["several"] = _several
            return (
                f"(None if ({local} := {self._looked_up()}) is None else {self._taken()}"
                f" if type({local}) is int else several())"
            )
        self._writer.names["only"] = _only
        return f"only({self.list()})"

    def many(self) -> str:
        """Return the source of the tuple of the records that belong."""
        local, right = self._local, self.right
        if self._access.way in ("hash", "set"):
            return (
                f"(() if ({local} := {self._looked_up()}) is None else ({self._taken()},)"
                f" if type({local}) is int"
                f" else tuple({local}.rows or rows{right}({local}, version{right})))"
            )
        if self._join.form == "listed":
            return self._listed("tuple")
        return f"tuple({self.list()})"

    def list(self) -> str:
        """Return the source of a list or tuple of the records that belong, in default order."""
        local, right = self._local, self.right
        if self._access.way in ("hash", "set"):
            return (
                f"(() if ({local} := {self._looked_up()}) is None else ({self._taken()},)"
                f" if type({local}) is int"
                f" else {local}.rows or rows{right}({local}, version{right}))"
            )
        if self._join.form == "listed":
            return self._listed("")
        if self._access.way == "table":
            return f"{self._in_table()}"
        name = f"z{self._number}"
        return f"(() if ({name} := {self.sole()}) is None else ({name},))"

    def _looked_up(self) -> str:
        look = f"look{self._number}"
        if not self.key.may_be_none:
            return f"{look}({self.key.source})"
        local = f"k{self._number}"
        return (
            f"(None if ({local} := {self.key.source}) is None or {local} is absent"
            f" else {look}({local}))"
        )

    def _in_table(self) -> str:
        table, source = f"table{self._number}", self.key.source
        if self._join.left is None:
            if self.key.side.store.key is not None:
                name = f"left{self._number}"
                self._writer.names[name] = self.key.side.store
                source = f"canonical({name}, {source})"
            return f"{table}({source}, ())"
        local = f"k{self._number}"
        if not self.key.may_be_none:
            return f"{table}({source}, ())"
        # None is no key of the table, and absent neither.
        return f"{table}({local} := {source}, ())"

    def _listed(self, make: str) -> str:
        """Return the source of the records that a list names, in its order."""
        number, key, find = self._number, self.key, self._find
        is_plain = key.is_exact and not key.may_be_none
        source = key.source if is_plain else f"listed{number}({key.source})"
        if make and is_plain and _is_always_true(self._join.store):
            return f"{make}(filter(None, map({find}, {source})))"
        # A function, since what a comprehension goes through can't name anything.
        found = f"{find}(each)"
        if not key.is_exact and self._access.way == "number":
            found = f"{find}(each) if type(each) is int else None"
        listed = "values" if is_plain else f"listed{number}(values)"
        picked = f"[found for each in {listed} if (found := {found}) is not None]"
        self._writer.define([f"def picked{number}(values):", [f"return {make}({picked})"]])
        return f"picked{number}({key.source})"


_NOTHING: Final[dict[Any, Any]] = {}


def _several() -> Any:
    raise Misfit


def _only(found: Any) -> Any:
    if len(found) > 1:
        raise Misfit
    return found[0] if found else None


def _is_always_true(store: Any) -> bool:
    """Whether no record of a collection has a truth value of its own."""
    return all(
        [
            not hasattr(member.shape.cls, "__bool__") and not hasattr(member.shape.cls, "__len__")
            for member in store.members
        ]
    )


def _identity_source(side: Side) -> str:
    """Return the source of a record's identity.

    Raises:
        Misfit: The record does not say it.
    """
    store, record = side.store, side.record
    is_dict = store.shape.kind == "dict"
    if store.key is not None:
        names = store.key.fields
        if not is_dict and not all(map(is_plain_name, names)):
            raise Misfit
        if is_dict and store.key._former:
            raise Misfit
        parts = [f"{record}[{name!r}]" if is_dict else f"{record}.{name}" for name in names]
        return f"({', '.join(parts)})" if len(parts) > 1 else parts[0]
    name = store.shape.identity
    if name is None or store.members.sole is None or not is_plain_name(name):
        raise Misfit
    return f"{record}[{name!r}]" if is_dict else f"{record}.{name}"


def _is_exact_identity(store: Any) -> bool:
    """Whether nothing equals an identity but one of its own type, as far as annotations tell."""
    if store.key is None:
        return True
    members = _members_of_value(Field((store.key.fields[0],)), store)
    return store.key.sole_field is not None and len(members) == 1 and members[0] in _EXACT


def _members_of_value(value: Any, store: Any) -> list[Any]:
    if not isinstance(value, Field) or not store.decoding.is_typed:
        return [Any]
    return [*resolve_path(value._path, store.query_shape)[-1].members]


def _are_exact(value: Any, store: Any, named: Any, form: str) -> bool:
    """Whether each value, or each element of it, is an identity by its type, or None.

    Args:
        value: A value.
        store: The collection whose records have it.
        named: The collection whose identities it has.
        form: How it has them.
    """
    members = [each for each in _members_of_value(value, store) if each is not type(None)]
    if form in ("listed", "elements"):
        found: list[Any] = []
        for member in members:
            arguments = [each for each in get_args(member) if each is not Ellipsis]
            if get_origin(member) not in (list, tuple, set, frozenset) or not arguments:
                return False
            if form == "listed" and get_origin(member) not in (list, tuple):
                return False
            found += [part for each in arguments for part in members_of(each)]
        members = found
    elif form == "either":
        return False
    if named.key is None:
        return bool(members) and all([member is int for member in members])
    own = _members_of_value(Field((named.key.fields[0],)), named)
    return bool(members) and members == own and _is_exact_identity(named)


def _may_be_none(value: Value, store: Any) -> bool:
    if not isinstance(value, Field) or not store.decoding.is_typed:
        return True
    steps = resolve_path(value._path, store.query_shape)
    return any([step.may_be_none or step.way != "attribute" for step in steps])


def _indented(lines: Lines, level: int) -> list[str]:
    result: list[str] = []
    for line in lines:
        if isinstance(line, list):
            result += _indented(line, level + 1)
        else:
            result.append("    " * level + line)
    return result
