"""The source of what one join looks up: the key of a row, and the records that may belong to it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple, get_args, get_origin

from memdb.indexes import SURE
from memdb.query._fields import Field
from memdb.query._functions import functions_of
from memdb.query._join import Join
from memdb.query._join_access import Access
from memdb.query._join_runtime import Tables, UniqueReader, key_finder, listing, sure, usual
from memdb.query._paths import members_of, resolve_path
from memdb.query._runtime import Misfit
from memdb.query._source import ATOMS
from memdb.query._values import Value
from memdb.serializers._build import is_plain_name

if TYPE_CHECKING:
    from memdb.query._join_source import JoinWriter

# Types whose values equal a value of another type only if that is no identity.
_EXACT: Final = frozenset({int, str, bytes})


class Side(NamedTuple):
    """A collection whose records are in a slot.

    Attributes:
        store: It.
        record: The source of a record.
        may_be_none: There may be none in the slot.
        is_constant: It is the same in all rows.
    """

    store: Any
    record: str
    may_be_none: bool
    is_constant: bool = False


class Taken(NamedTuple):
    """The source of something that belongs to a row.

    Attributes:
        before: Names, and what each stands for, in order.
        source: What belongs.
        test: Whether anything does, in less time; empty for the source itself.
        sure: The source where the test was true; empty for the same.
    """

    before: list[tuple[str, str]]
    source: str
    test: str = ""
    sure: str = ""


class Key:
    """What a row looks up.

    Attributes:
        side: Where the row's record is.
        source: The source of the key.
        is_identity: It is the identity of that record.
        is_exact: Its type, and that of the values of the right, need not be looked at.
        may_be_none: It may be None or absent.
    """

    def __init__(self, writer: JoinWriter, join: Join, side: Side) -> None:
        self.side = side
        self.is_identity = join.left is None
        if join.left is None:
            self.source = _identity_source(side)
            self.may_be_none = False
            self.is_exact = _is_exact_identity(side.store) and _are_exact(
                join.match, join.store, side.store, join.form
            )
            return
        self.source = writer.value(join.left, side.store, side.record)
        self.may_be_none = _may_be_none(join.left, side.store)
        self.is_exact = _are_exact(join.left, side.store, join.store, join.form)
        if side.may_be_none:
            self.source = f"(None if {side.record} is None else {self.source})"
            self.may_be_none = True


class Candidates:
    """The source of the records that belong to a row, before conditions of the right side.

    Attributes:
        key: What is looked up.
        is_sole: There is one at most.
    """

    def __init__(
        self, writer: JoinWriter, join: Join, access: Access, key: Key, number: int
    ) -> None:
        self._writer = writer
        self._join = join
        self._way = access.way
        self._number = number
        self._local = f"b{number}"
        self._right = right = writer.stores.index(join.store)
        self._is_always_true = _is_always_true(join.store)
        self.key = key
        # What lets only such keys be looked up as are found by their hash; empty for no need.
        self._guard = "" if join.is_named or is_proven(join.left, key.side.store) else "sure"
        self.is_sole = access.way in ("number", "key", "unique") and join.form != "listed"
        names = writer.names
        names |= {"SURE": SURE, "sure": sure, "usual": usual}
        if access.way not in ("table", "sorted"):
            writer.need(right)
        if access.way == "key":
            names[f"keys{number}"] = key_finder(join.store)
            writer.add_line(f"by_key{number} = keys{number}.finder(find{right})")
        if join.form == "listed":
            is_ordered = bool(join.right._order)
            names[f"listed{number}"] = listing(is_ordered, has_numbers=access.way == "number")
        if access.way in ("unique", "hash", "set"):
            assert access.index is not None
            view, name = writer.view(join.store), access.index.name
            entries: Any = (view.uniques if access.way == "unique" else view.entries).get(name)
            # Looked at last: the name may be that of another index, but not before it is that here.
            if entries is None or join.store.indexes.find(name) is not access.index:
                raise Misfit
            if not join.is_named:
                if entries.odd.numbers:
                    # They may match whatever is looked up.
                    raise Misfit
                self._guard = "usual" if entries.odd.tame else self._guard
            found = entries.numbers if access.way == "unique" else entries.buckets
            names[f"look{number}"] = found.get
            if access.way == "unique":
                names[f"kept{number}"] = entries.rows.get
                names[f"unique{number}"] = UniqueReader(join.store, entries)
                writer.add_line(
                    f"read{number} = unique{number}.reader(take{right}, version{right})"
                )
        if access.way in ("table", "sorted"):
            assert join.match is not None
            tables = Tables(
                join.store, key.side.store, join.match, join.form, key.is_identity,
                is_proven(join.match, join.store),
            )  # fmt: skip
            if access.index is not None:
                tables.use(access.index, writer.view(join.store), join.store.indexes)
            names[f"tables{number}"] = tables
            table = f"tables{number}.finder(view{right}, version{right}, len(found))"
            writer.add_line(f"table{number} = {table}")

    def sole(self) -> Taken:
        """Return the source of the only record that may belong, None for none."""
        source, local = self.key.source, self._local
        if self._way == "key":
            return Taken([], f"by_key{self._number}({source})")
        if self._way == "unique":
            number, source = self._number, self._guarded(source)
            test = f"look{number}({local}) is not None"
            if not self._is_always_true:
                return Taken([(local, source)], f"read{number}({local})", test)
            # What was looked up once is kept with the index: two look-ups and the test of what
            # is between them take twice as long.
            record = f"(kept{number}({local}) or read{number}({local}))"
            return Taken([(local, source)], record, test)
        if self.key.is_exact and re.fullmatch(r"[\w.]+", source):
            cache, load = f"cache{self._right}", f"load{self._right}"
            test = f"({source} in {cache} or {load}({source}) is not None)"
            return Taken([], self._of_number(source), test if self._is_always_true else "")
        record = self._of_number(local)
        if not self.key.is_exact:
            record = f"({record} if type({local}) is int else None)"
        return Taken([(local, source)], record)

    def only(self) -> Taken:
        """Return the source of the record of several that may belong; Misfit if more do."""
        local = self._local
        if self._way in ("hash", "set"):
            self._writer.names["several"] = _several
            record = f"{self._of_index()} if type({local}) is int else several()"
            look = [(local, self._looked_up())]
            return Taken(look, f"(None if {local} is None else {record})", f"{local} is not None")
        self._writer.names["only"] = _only
        taken = self.list()
        return Taken(taken.before, f"only({taken.source})")

    def many(self) -> Taken:
        """Return the source of the tuple of the records that belong."""
        if self._join.form == "listed":
            return Taken([], self._listed("tuple"))
        taken = self.list("tuple")
        return taken if taken.test else Taken(taken.before, f"tuple({taken.source})")

    def list(self, make: str = "") -> Taken:
        """Return the source of a list or tuple of the records that belong, in default order."""
        local, right = self._local, self._right
        if self._way in ("hash", "set"):
            rows = f"{make}({local}.rows or rows{right}({local}, version{right}))"
            sure = f"({self._of_index()},) if type({local}) is int else {rows}"
            source = f"(() if {local} is None else {sure})"
            test = f"{local} is not None"
            return Taken([(local, self._looked_up())], source, test, f"({sure})")
        if self._join.form == "listed":
            return Taken([], self._listed(""))
        if self._way in ("table", "sorted"):
            return Taken([], f"table{self._number}({self._guarded(self.key.source)}, ())")
        taken = self.sole()
        name = f"z{self._number}"
        return Taken(
            [*taken.before, (name, taken.source)], f"(() if {name} is None else ({name},))"
        )

    def _of_number(self, number: str) -> str:
        """Return the source of the record of a number, None for none.

        The cache is asked here and not in a function: most records are in it, and a call costs
        twice as much as that.
        """
        right = self._right
        if not self._is_always_true:
            return f"find{right}({number})"
        return f"(get{right}({number}) or load{right}({number}))"

    def _of_index(self) -> str:
        """Return the source of the record of the number that an index gave."""
        local, right = self._local, self._right
        if not self._is_always_true:
            return f"take{right}({local})"
        return f"(get{right}({local}) or take{right}({local}))"

    def _looked_up(self) -> str:
        look, source = f"look{self._number}", self.key.source
        if not self.key.may_be_none:
            return f"{look}({self._guarded(source)})"
        # None is a key of the index too, and nothing belongs to it.
        local = f"k{self._number}"
        found = f"{look}({self._guarded(local)})"
        return f"(None if ({local} := {source}) is None or {local} is absent else {found})"

    def _guarded(self, source: str) -> str:
        """Return the source of a key that its hash is to find, Misfit where that says nothing."""
        if not self._guard:
            return source
        if self._guard == "usual":
            return f"usual({source})"
        if source.isidentifier():
            return f"{source} if type({source}) in SURE else sure({source})"
        local = f"g{self._number}"
        return f"({local} if type({local} := {source}) in SURE else sure({local}))"

    def _listed(self, make: str) -> str:
        """Return the source of the records that a list names, in its order."""
        number, key = self._number, self.key
        find = f"by_key{number}" if self._way == "key" else f"find{self._right}"
        is_plain = key.is_exact and not key.may_be_none and not self._join.right._order
        source = key.source if is_plain else f"listed{number}({key.source})"
        if make and is_plain and self._is_always_true:
            return f"{make}(filter(None, map({find}, {source})))"
        # A function, since what a comprehension goes through can't name anything.
        found = f"{find}(each)"
        if not key.is_exact and self._way == "number":
            found = f"{find}(each) if type(each) is int else None"
        listed = "values" if is_plain else f"listed{number}(values)"
        picked = f"[found for each in {listed} if (found := {found}) is not None]"
        self._writer.define([f"def picked{number}(values):", [f"return {make}({picked})"]])
        return f"picked{number}({key.source})"


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


def is_of_one_type(value: Value, store: Any) -> bool:
    """Whether all that a value may be, besides None, are identities only if they are equal."""
    members = {each for each in _members_of_value(value, store) if each is not type(None)}
    return len(members) == 1 and members <= _EXACT


def is_proven(value: Value | None, store: Any) -> bool:
    """Whether a value of a collection's records is certain to be nothing that NumPy compares."""
    if not isinstance(value, Field):
        # What is calculated may have a constant of NumPy's in it.
        return False
    if store.decoding.is_native:
        return not functions_of(store.query_shape)
    return ATOMS.issuperset(_members_of_value(value, store))


def _may_be_none(value: Value, store: Any) -> bool:
    if not isinstance(value, Field) or not store.decoding.is_typed:
        return True
    steps = resolve_path(value._path, store.query_shape)
    return any([step.may_be_none or step.way != "attribute" for step in steps])
