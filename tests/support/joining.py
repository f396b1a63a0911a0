"""Random collections that refer to each other, their records and indexes, and joins of them."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

import memdb
from tests.support import naive
from tests.support.naive import Applied, Calculation, Condition, Constant, Path, Term, Value
from tests.support.naive_joins import Join, Joined, Source, beneath, rewritten
from tests.support.questions import Declared
from tests.support.schemas import NAN, Shown

# -- collections -----------------------------------------------------------------------------

WAYS = ("dataclass", "frozen", "slots", "struct", "dict")
KINDS = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}

#: What names records of a collection: of numbers that are assigned, texts, or pairs.
POOLS: dict[str, tuple[Any, ...]] = {
    "assigned": (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12),
    "anonymous": (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12),
    "text": ("a", "b", "c", "d", "e", "f"),
    "pair": tuple((part, place) for part in ("x", "y") for place in (0, 1, 2)),
}
_TYPES: dict[str, Any] = {"assigned": int, "anonymous": int, "text": str, "pair": tuple[str, int]}

#: What a plain dict may hold instead, and a record that is not as its class says.
STRAY = (True, 1.0, "1", b"a", None, NAN, (1,), ("x", True), "a", 1, ("x", 0))
_UNHASHABLE = ([1], {1}, {"a": 1}, [], ["a", 1])
NUMBERS = (0, 1, 2, 3, 5, -1)
WORDS = ("a", "b", "ab", "")
RATIOS = (0.5, 1.0, 2.0, NAN, -1.0, 3.0)


@dataclass(frozen=True)
class Ref:
    """A field that names records of a collection.

    Attributes:
        name: Of the field.
        target: Of the collection.
        kind: "one", or what the identities are in.
        pool: What they are, a key of `POOLS`.
    """

    name: str
    target: str
    kind: str
    pool: str

    @property
    def annotation(self) -> Any:
        """The type of the field."""
        inner = _TYPES[self.pool]
        if self.kind == "one":
            return inner | None
        return tuple[inner, ...] if self.kind == "tuple" else KINDS[self.kind][inner]


@dataclass(frozen=True, repr=False)
class Table(Shown):
    """A collection.

    Attributes:
        name: Of the collection, and of its slot.
        way: What its records are, one of `WAYS`.
        identity: What names them, a key of `POOLS`.
        refs: The fields that name others.
        is_loose: Whether a reference may now and then hold what its annotation does not say.
    """

    name: str
    way: str
    identity: str
    refs: tuple[Ref, ...]
    is_loose: bool = False

    def __repr__(self) -> str:
        refs = " ".join(f"{ref.name}({ref.kind})" for ref in self.refs)
        return f"<{self.name}: {'loose ' * self.is_loose}{self.way}, {self.identity}, {refs}>"

    @property
    def is_dict(self) -> bool:
        """Whether any field can be absent, and hold anything."""
        return self.way == "dict"

    @property
    def has_number(self) -> bool:
        """Whether its identities are assigned numbers."""
        return self.identity in ("assigned", "anonymous")

    @property
    def key(self) -> Any:
        """The natural key, if any."""
        return {"text": "code", "pair": ("part", "place")}.get(self.identity)

    @property
    def key_fields(self) -> tuple[str, ...]:
        """The fields that are its natural key."""
        return (self.key,) if isinstance(self.key, str) else self.key or ()

    def target(self) -> Any:
        """Return a new class, or the name for dicts."""
        if self.is_dict:
            return self.name
        fields: list[Any] = [("number", int | None), ("word", str), ("ratio", float)]
        fields += {"text": [("code", str)], "pair": [("part", str), ("place", int)]}.get(
            self.identity, []
        )
        fields += [(ref.name, ref.annotation) for ref in self.refs]
        if self.identity == "assigned":
            fields.append(("id", int, 0))
        if self.way == "struct":
            return msgspec.defstruct("Record", fields)
        flags: dict[str, Any] = {"frozen": self.way == "frozen", "slots": self.way == "slots"}
        return dataclasses.make_dataclass("Record", fields, **flags)

    def make(self, cls: Any, values: dict[str, Any], identity: Any = 0) -> Any:
        """Return a record as it is stored."""
        own = {name: _copied(value) for name, value in values.items()}
        if self.is_dict:
            if self.has_number and identity:
                own["id"] = identity
            return own
        if self.identity == "assigned":
            own["id"] = identity
        return cls(**own)

    def values(self, record: Any) -> dict[str, Any]:
        """Return the fields of a record that are there, without an assigned identity."""
        if self.is_dict:
            return {name: value for name, value in record.items() if name != "id"}
        names = record.__struct_fields__ if self.way == "struct" else record.__dataclass_fields__
        return {name: getattr(record, name) for name in names if name != "id"}

    def key_of(self, values: dict[str, Any]) -> Any:
        """Return the natural key of a record."""
        found = tuple(values[name] for name in self.key_fields)
        return found[0] if len(found) == 1 else found


def _copied(value: Any) -> Any:
    return value.copy() if isinstance(value, list | dict | set) else value


def draw_tables(chance: random.Random, count: int) -> list[Table]:
    """Return some collections that refer to each other, and to themselves."""
    names = ["alpha", "beta", "gamma"][:count]
    identities = {
        name: chance.choice(["assigned", "assigned", "assigned", "anonymous", "text", "pair"])
        for name in names
    }
    # Plain dicts give their numbers as id.
    ways = {name: chance.choice([*WAYS, "dict"]) for name in names}
    found = []
    for name in names:
        if ways[name] == "dict" and identities[name] == "anonymous":
            identities[name] = "assigned"
    for place, name in enumerate(names):
        refs = []
        others = [*names, names[place - 1]]
        for number in range(chance.choice([1, 2, 2, 3])):
            target = others[(place + number + chance.randrange(2)) % len(others)]
            kind = chance.choice(["one", "one", "list", "tuple", "set", "frozenset"])
            refs.append(Ref(f"{target}_{number}", target, kind, identities[target]))
        is_loose = ways[name] != "dict" and chance.random() < 0.3
        found.append(Table(name, ways[name], identities[name], tuple(refs), is_loose))
    return found


def draw_values(chance: random.Random, table: Table) -> dict[str, Any]:
    """Return the fields of a record."""
    values: dict[str, Any] = {
        "number": chance.choice((None, *NUMBERS)),
        "word": chance.choice(WORDS),
        "ratio": chance.choice(RATIOS),
    }
    if table.key is not None:
        key = chance.choice(POOLS[table.identity])
        values |= zip(table.key_fields, key if table.identity == "pair" else (key,), strict=True)
    for ref in table.refs:
        values[ref.name] = _draw_reference(chance, table, ref)
    if not table.is_dict:
        return values
    for name in list(values):
        if name not in table.key_fields and chance.random() < 0.1:
            del values[name]
        elif name in ("number", "word", "ratio") and chance.random() < 0.1:
            values[name] = chance.choice((*STRAY, 1.0, True))
    return values


def _draw_reference(chance: random.Random, table: Table, ref: Ref) -> Any:
    pool = POOLS[ref.pool]
    is_strange = (table.is_dict or table.is_loose) and chance.random() < 0.25
    if is_strange and chance.random() < 0.7:
        return chance.choice((*STRAY, *_UNHASHABLE))
    if ref.kind == "one":
        return chance.choice((None, *pool[: len(pool) // 2], *pool))
    count = chance.choice([0, 1, 2, 2, 3])
    found = [chance.choice(pool[: 1 + len(pool) * 2 // 3]) for _ in range(count)]
    if is_strange:
        found.append(chance.choice([each for each in STRAY if each == each]))
    return KINDS[ref.kind](found)


# -- indexes ---------------------------------------------------------------------------------


def draw_index(chance: random.Random, table: Table, taken: Sequence[str] = ()) -> Declared:
    """Return an index that suits a collection, under a name of its own."""
    name = next(name for name in (f"index{n}" for n in range(1_000)) if name not in taken)
    ones = [ref.name for ref in table.refs if ref.kind == "one"]
    lists = [ref.name for ref in table.refs if ref.kind != "one"]
    fields = [*ones, *ones, "number", "word", "ratio", *table.key_fields]
    kind = chance.choice(["hash", "hash", "sorted", "sorted", "set", "set", "unique", "column"])
    if kind == "set" and not lists:
        kind = "hash"
    condition: Condition | None = None
    if chance.random() < 0.15 and kind != "column":
        condition = naive.Test(">=", Path(("number",)), (Constant(1),))
    where = None if condition is None else memdb.F.number >= 1
    if kind == "set":
        field = chance.choice(lists)
        return Declared(
            name,
            kind,
            ((field,),),
            lambda name: memdb.SetIndex(field, name=name, where=where),
            condition,
        )
    if kind == "column":
        return Declared(
            name, kind, (("number",),), lambda name: memdb.ColumnIndex("number", name=name)
        )
    count = chance.choice([1, 1, 1, 2])
    if kind == "unique":
        fields = ones if ones and chance.random() < 0.7 else ["word"]
        count = 1
    chosen = list(dict.fromkeys(chance.choice(fields) for _ in range(count)))
    paths = tuple((each,) for each in chosen)
    if kind == "sorted":
        signed = [f"-{each}" if chance.random() < 0.3 else each for each in chosen]
        return Declared(
            name,
            kind,
            paths,
            lambda name: memdb.SortedIndex(*signed, name=name, where=where),
            condition,
        )
    return Declared(
        name,
        kind,
        paths,
        lambda name: memdb.HashIndex(*chosen, name=name, unique=kind == "unique", where=where),
        condition,
    )


def accepts(index: Declared, record: Any) -> bool:
    """Whether a record can be in the collection, as far as this index alone tells."""
    if index.kind != "set" or not index.holds(record):
        return index.accepts(record)
    value = index.key_of(record)[0]
    if value is None or value is naive.ABSENT:
        return True
    if not isinstance(value, list | tuple | set | frozenset | dict):
        return False
    try:
        hash(tuple(value))
    except TypeError:
        return False
    return True


# -- joins -----------------------------------------------------------------------------------


Paths = list[tuple[Table, tuple[str, ...]]]


@dataclass
class Drawing:
    """Draws questions over some collections.

    Attributes:
        chance: Everything is drawn from it.
        tables: The collections.
        used: How many slots have been named.
    """

    chance: random.Random
    tables: Sequence[Table]
    used: int = 0

    def question(self, left: Table | None = None, depth: int = 2) -> Joined:
        """Return a question of at least one join, of a collection or any."""
        chance = self.chance
        left = chance.choice(self.tables) if left is None else left
        # What is in the slots: the collection of a record, behind which path; or of many.
        ones: Paths = [(left, (left.name,))]
        manys: Paths = []
        joins: list[Join] = []
        for _ in range(chance.choice([1, 1, 1, 2, 2, 3] if depth == 2 else [1, 1, 2])):
            join, table, inside = self.join(left, ones, depth)
            joins.append(join)
            (manys if join.is_many else ones).append((table, (join.slot, *inside)))
        return Joined(
            self.source(left),
            tuple(joins),
            left.name,
            self.condition_of_rows(ones, manys) if chance.random() < 0.4 else None,
            tuple(self.order_of_rows(ones, manys)) if chance.random() < 0.4 else (),
            *self.counts(),
        )

    def counts(self) -> tuple[int, int | None]:
        """Return a skip and a limit, mostly none."""
        chance = self.chance
        if chance.random() < 0.7:
            return 0, None
        return chance.choice([0, 0, 1, 2, 9]), chance.choice([None, 0, 1, 2, 3, 9])

    def source(self, table: Table) -> Source:
        """Return a query of a collection."""
        chance = self.chance
        if chance.random() < 0.4:
            return Source(table.name)
        condition = self.condition(table, ()) if chance.random() < 0.6 else None
        order = tuple(self.order(table, ())) if chance.random() < 0.5 else ()
        return Source(table.name, condition, order, *self.counts())

    # -- how a right belongs -------------------------------------------------------------

    def join(self, left: Table, ones: Paths, depth: int) -> tuple[Join, Table, tuple[str, ...]]:
        """Return a join, the collection that it joins, and the path to it inside of the slot."""
        chance = self.chance
        found = None
        while found is None:
            method = chance.choice([self.on, self.on, self.back, self.back, self.pair])
            found = method(left, ones)
        way, right, value, other, is_many, holds = found
        source, inside = self.right(right, depth)
        if not is_many and way != "on" and chance.random() < 0.7:
            source = dataclasses.replace(source, limit=1)
        self.used += 1
        join = Join(
            f"slot{self.used}",
            source,
            way,
            value,
            other,
            is_many,
            chance.random() < 0.4,
            holds,
        )
        return join, right, inside

    def right(self, table: Table, depth: int) -> tuple[Source | Joined, tuple[str, ...]]:
        """Return a right side, and where in it the records of its first slot are."""
        chance = self.chance
        if depth == 0 or chance.random() < 0.75:
            return self.source(table), ()
        inner = self.question(table, depth - 1)
        return inner, (inner.slot,)

    def on(self, left: Table, ones: Paths) -> Any:
        """Return a value of a slot that names a right, if there is one."""
        chance = self.chance
        found = [(table, path, ref) for table, path in _records(ones) for ref in table.refs]
        _, path, ref = chance.choice(found)
        right = next(each for each in self.tables if each.name == ref.target)
        value: Value = self.at(path, Path((ref.name,)))
        is_many = ref.kind != "one"
        if not is_many and right.has_number and chance.random() < 0.15:
            value = self.at(path, Calculation("+", Path(("number",)), Constant(1)))
        return "on", right, value, None, is_many, "no"

    def back(self, left: Table, ones: Paths) -> Any:
        """Return a value of a right that names the left, if there is one."""
        chance = self.chance
        found = [(table, ref) for table in self.tables for ref in table.refs]
        found = [(table, ref) for table, ref in found if ref.target == left.name]
        if not found:
            return None
        table, ref = chance.choice(found)
        holds = "no" if ref.kind == "one" else "yes"
        if table.is_dict:
            holds = "open"
        value: Value = Path((ref.name,))
        if ref.kind == "one" and left.has_number and chance.random() < 0.15:
            value = Calculation("+", Path(("number",)), Constant(1))
            holds = "open"
        return "back", table, value, None, chance.random() < 0.75, holds

    def pair(self, left: Table, ones: Paths) -> Any:
        """Return two values that may be equal."""
        chance = self.chance
        table, path = chance.choice(_records(ones))
        right = chance.choice(self.tables)
        pairs = [("number", "number"), ("word", "word"), ("number", "ratio"), ("ratio", "number")]
        pairs += [
            (one.name, other.name)
            for one in table.refs
            for other in right.refs
            if one.pool == other.pool and one.kind == other.kind == "one"
        ]
        if right.identity == "assigned":
            pairs += [("number", "id")]
        if table.identity == "assigned":
            pairs += [("id", "number")]
        if right.identity == "text":
            pairs += [("word", "code")]
        name, other = chance.choice(pairs)
        value: Value = Path((name,))
        if name == "number" and chance.random() < 0.2:
            value = Calculation("+", value, Constant(1))
        return "pair", right, self.at(path, value), Path((other,)), chance.random() < 0.75, "no"

    def at(self, path: tuple[str, ...], value: Value) -> Value:
        """Return a value of the record in a slot as one of rows."""
        # The first slot's name can be left out; those of the fields are no slots.
        if path in {(table.name,) for table in self.tables} and self.chance.random() < 0.5:
            return value
        for name in reversed(path):
            value = beneath(name, value)
        return value

    # -- values --------------------------------------------------------------------------

    def test(self, table: Table, path: tuple[Any, ...]) -> Condition:
        """Return a comparison of a value of the record in a slot."""
        chance = self.chance

        def constant(values: Sequence[Any]) -> Constant:
            return Constant(chance.choice(values))

        names = ["number", "number", "word", "ratio", *(ref.name for ref in table.refs)]
        name = chance.choice(names)
        value = self.at(path, Path((name,)))
        if name == "number":
            sign = chance.choice(["==", "!=", "<", "<=", ">", ">=", "in", "between", "is none"])
            values = NUMBERS
        elif name == "word":
            sign = chance.choice(["==", "!=", "<", ">=", "in", "startswith", "contains"])
            values = WORDS
        elif name == "ratio":
            sign = chance.choice(["==", "<", ">=", "between"])
            values = RATIOS
        else:
            ref = next(ref for ref in table.refs if ref.name == name)
            values = POOLS[ref.pool]
            signs = ["==", "!=", "in", "is none"] if ref.kind == "one" else ["contains", "length"]
            sign = chance.choice(signs)
        if sign == "length":
            return naive.Test(">", Applied("len", value), (Constant(1),))
        if sign == "in":
            return naive.Test(sign, value, (Constant([chance.choice(values) for _ in range(2)]),))
        count = {"between": 2, "is none": 0}.get(sign, 1)
        return naive.Test(sign, value, tuple(constant(values) for _ in range(count)))

    def condition(self, table: Table, path: tuple[Any, ...]) -> Condition:
        """Return a condition of the record in a slot."""
        return self.combined(lambda: self.test(table, path))

    def combined(self, test: Any) -> Condition:
        """Return a test, or several together."""
        chance = self.chance
        way = chance.choice("tttttaaonc")
        if way == "n":
            return naive.No(test())
        if way == "c":
            return naive.Call(test())
        if way == "t":
            found: Condition = test()
            return found
        parts = tuple(test() for _ in range(2))
        return naive.All(parts) if way == "a" else naive.Some(parts)

    def order(self, table: Table, path: tuple[Any, ...]) -> list[Term]:
        """Return the keys of an order by values of the record in a slot."""
        return [self.term(self.value(table, path)) for _ in range(self.chance.choice([1, 1, 2]))]

    def term(self, value: Value) -> Term:
        """Return a value as a key of an order."""
        return Term(value, self.chance.random() < 0.4)

    def value(self, table: Table, path: tuple[Any, ...]) -> Value:
        """Return a value of the record in a slot."""
        names = ["number", "word", "ratio", *table.key_fields]
        names += [ref.name for ref in table.refs if ref.kind == "one"]
        value: Value = Path((self.chance.choice(names),))
        if value == Path(("number",)) and self.chance.random() < 0.3:
            value = Calculation("*", value, Constant(-1))
        return self.at(path, value)

    # -- of rows -------------------------------------------------------------------------

    def condition_of_rows(self, ones: Paths, manys: Paths) -> Condition:
        """Return a condition of values of any slots."""
        return _qualified(self.combined(lambda: self.test_of_rows(ones, manys)), ones)

    def test_of_rows(self, ones: Paths, manys: Paths) -> Condition:
        """Return a comparison of a value of any slot."""
        chance = self.chance
        way = chance.choice(["one", "one", "one", "many", "none"])
        if way == "many" and manys:
            table, path = chance.choice(manys)
            slot = Path(path[:1])
            if chance.random() < 0.5:
                operand = Constant(chance.choice([0, 1, 2]))
                return naive.Test(
                    chance.choice(["==", ">", "<="]), Applied("len", slot), (operand,)
                )
            place = chance.choice([0, 0, 1, -1])
            return self.test(table, (path[0], place, *path[1:]))
        if way == "none" and len(ones) > 1:
            _, path = chance.choice(ones[1:])
            slot = Path(path[:1])
            if chance.random() < 0.5:
                return naive.Test("is none", slot)
            return naive.Test(chance.choice(["==", "!="]), slot, (Constant(None),))
        return self.test(*chance.choice(ones))

    def order_of_rows(self, ones: Paths, manys: Paths) -> list[Term]:
        """Return the keys of an order by values of any slots."""
        chance = self.chance
        found = []
        for _ in range(chance.choice([1, 1, 2])):
            if manys and chance.random() < 0.25:
                _, path = chance.choice(manys)
                found.append(self.term(Applied("len", Path(path[:1]))))
            else:
                found.append(self.term(self.value(*chance.choice(ones))))
        return found


def _records(ones: Paths) -> Paths:
    """Return the slots from which joins can start: not those that have rows themselves."""
    return [(table, path) for table, path in ones if len(path) == 1]


def _qualified(condition: Condition, ones: Any) -> Condition:
    """Return a condition with every path from its slot where a function is in it.

    What a function is given is a row, whose attributes are the slots alone.
    """
    slots = {path[0] for _, path in ones}
    first = ones[0][1][0]

    def change(value: Value) -> Value:
        if isinstance(value, Path) and not _is_slot(value.names[0], slots):
            return Path((first, *value.names))
        return value

    def inner(part: Condition) -> Condition:
        match part:
            case naive.Call():
                return rewritten(part, change)
            case naive.All():
                return naive.All(tuple(map(inner, part.parts)))
            case naive.Some():
                return naive.Some(tuple(map(inner, part.parts)))
            case naive.No():
                return naive.No(inner(part.part))
        return part

    return inner(condition)


def _is_slot(name: Any, slots: set[Any]) -> bool:
    return name in slots or (isinstance(name, str) and name.startswith("slot"))
