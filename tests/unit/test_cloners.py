"""Cloners: each copy is equal in type and value, and nothing that can change is shared."""

from __future__ import annotations

import copy
import pickle
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import PurePosixPath
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, NewType
from uuid import UUID

import msgspec
import pytest

from memdb._cloners import Cloner, deep, get_cloner
from memdb.errors import ConfigError
from memdb.serializers import get_serializer, shape_of

attrs = pytest.importorskip("attrs")

NOW = datetime(2026, 1, 2, tzinfo=UTC)
Score = NewType("Score", int)


class Color(Enum):
    RED = "red"


@dataclass
class Flat:
    name: str
    when: datetime
    amount: Decimal
    id: int = 0


@dataclass(slots=True)
class Slots:
    name: str
    tags: list[str]
    id: int = 0


@dataclass(frozen=True)
class Frozen:
    name: str
    pair: tuple[int, ...]
    color: Color | None = None
    id: int = 0


@dataclass(frozen=True, slots=True)
class FrozenList:
    name: str
    tags: list[str]
    id: int = 0


@dataclass(frozen=True)
class FrozenDict:
    tags: dict[str, int]
    id: int = 0


@dataclass(frozen=True)
class FrozenAny:
    value: Any
    id: int = 0


@dataclass
class Address:
    city: str
    lines: list[str]


@dataclass(frozen=True)
class Point:
    x: int
    y: int


@dataclass(kw_only=True)
class Nested:
    address: Address | None = None
    point: Point = Point(1, 2)
    matrix: list[list[int]] = field(default_factory=list)
    by_name: dict[str, Address] = field(default_factory=dict)
    by_point: dict[Point, int] = field(default_factory=dict)
    ids: set[UUID] = field(default_factory=set)
    both: tuple[int, list[int]] = field(default_factory=lambda: (0, []))
    many: tuple[Address, ...] = ()
    anything: Any = None
    bare: list = field(default_factory=list)  # type: ignore[type-arg]
    either: list[int] | dict[str, int] | None = None
    raw: bytearray = field(default_factory=bytearray)
    kind: Literal["a", "b"] = "a"
    score: Annotated[Score, "points"] = Score(0)
    notes: Annotated[list[Annotated[str, {"max": 5}]], "few"] = field(default_factory=list)
    points: list[Point] = field(default_factory=list)
    ranks: dict[int, tuple[str, int | None]] = field(default_factory=dict)
    mixed: frozenset[int | str] = frozenset()
    id: int = 0


@dataclass
class Base:
    tags: list[str]


@dataclass
class Derived(Base):
    more: list[str]
    id: int = 0


@dataclass
class Tree:
    name: str
    children: list[Tree] = field(default_factory=list)
    parent: Any = None
    id: int = 0


@dataclass(frozen=True)
class Chain:
    value: int
    rest: Chain | None = None
    id: int = 0


@dataclass(frozen=True)
class Left:
    right: Right | None = None


@dataclass(frozen=True)
class Right:
    left: Left | None
    tags: list[str]


class Struct(msgspec.Struct):
    name: str
    when: datetime
    id: int = 0


class StructNested(msgspec.Struct):
    tags: list[str]
    address: Address
    inner: Struct | None = None
    id: int = 0


class FrozenStruct(msgspec.Struct, frozen=True):
    name: str
    id: int = 0


class FrozenStructList(msgspec.Struct, frozen=True):
    tags: list[str]
    id: int = 0


class StructOwnCopy(msgspec.Struct):
    name: str
    id: int = 0

    def __copy__(self) -> StructOwnCopy:
        raise AssertionError("not to be called")


class Named(NamedTuple):
    name: str
    pair: tuple[int, str]
    id: int = 0


class NamedList(NamedTuple):
    tags: list[str]
    id: int = 0


@attrs.define
class Attrs:
    name: str
    tags: list[str]
    id: int = 0


@attrs.define
class AttrsChecked:
    name: str = attrs.field(validator=attrs.validators.instance_of(str))
    tags: list[str] = attrs.field(factory=list, converter=list)
    id: int = 0


@attrs.frozen
class AttrsFrozen:
    name: str
    id: int = 0


@dataclass(frozen=True)
class Empty:
    pass


@dataclass
class Loose:
    """Nothing here that a copy could rely on."""

    value: Any
    values: list[Any] = field(default_factory=list)
    by_key: dict[FrozenAny, int] = field(default_factory=dict)
    keys: set[FrozenAny] = field(default_factory=set)


@dataclass
class Looser:
    value: Any


@dataclass
class Busy:
    """A class whose own code must not run when a record is copied."""

    name: str
    tags: list[str] = field(default_factory=list)
    id: int = 0
    made: ClassVar[int] = 0

    def __post_init__(self) -> None:
        type(self).made += 1

    def __setattr__(self, name: str, value: object) -> None:
        raise AssertionError("not to be called")


def busy() -> Busy:
    record = object.__new__(Busy)
    vars(record).update(name="Eric", tags=["tv"], id=1)
    return record


def nested() -> Nested:
    return Nested(
        address=Address("Zug", ["a", "b"]),
        matrix=[[1], [2, 3], []],
        by_name={"home": Address("Bern", [])},
        by_point={Point(0, 0): 1},
        ids={UUID(int=1)},
        both=(1, [2]),
        many=(Address("Chur", ["c"]),),
        anything={"deep": [{"er": {1, 2}}, (1, [2]), bytearray(b"x")]},
        bare=[[1], "x"],
        either={"a": 1},
        raw=bytearray(b"raw"),
        notes=["n"],
        points=[Point(3, 4)],
        ranks={1: ("a", None)},
        mixed=frozenset({1, "a"}),
        id=7,
    )


RECORDS: dict[str, Callable[[], Any]] = {
    "flat": lambda: Flat("Eric", NOW, Decimal("1.50"), 1),
    "slots": lambda: Slots("Eric", ["tv"], 1),
    "frozen": lambda: Frozen("Eric", (1, 2), Color.RED, 1),
    "frozen_list": lambda: FrozenList("Eric", ["tv"], 1),
    "frozen_dict": lambda: FrozenDict({"tv": 1}, 1),
    "frozen_any": lambda: FrozenAny(["tv"], 1),
    "frozen_any_immutable": lambda: FrozenAny((1, ("a", frozenset({2}))), 1),
    "nested": nested,
    "nested_empty": Nested,
    "derived": lambda: Derived(["a"], ["b"], 1),
    "tree": lambda: Tree("a", [Tree("b", [Tree("c")]), Tree("d")], {"x": [1]}, 1),
    "chain": lambda: Chain(1, Chain(2, Chain(3)), 1),
    "left_right": lambda: Left(Right(Left(Right(None, ["a"])), ["b"])),
    "struct": lambda: Struct("Eric", NOW, 1),
    "struct_nested": lambda: StructNested(["a"], Address("Zug", ["b"]), Struct("x", NOW), 1),
    "frozen_struct": lambda: FrozenStruct("Eric", 1),
    "frozen_struct_list": lambda: FrozenStructList(["tv"], 1),
    "struct_own_copy": lambda: StructOwnCopy("Eric", 1),
    "named": lambda: Named("Eric", (1, "a"), 1),
    "named_list": lambda: NamedList(["tv"], 1),
    "attrs": lambda: Attrs("Eric", ["tv"], 1),  # type: ignore[call-arg]
    "attrs_checked": lambda: AttrsChecked("Eric", ["tv"], 1),  # type: ignore[call-arg]
    "attrs_frozen": lambda: AttrsFrozen("Eric", 1),  # type: ignore[call-arg]
    "empty": Empty,
    "loose": lambda: Loose([1], [[2]], {FrozenAny(1): 2}, {FrozenAny((3,))}),
    "looser": lambda: Looser([1]),
    "busy": busy,
    "dict": lambda: {"name": "Eric", "when": NOW, "id": 1},
    "dict_nested": lambda: {"tags": [["tv"]], "by": {"a": {1}}, "id": 1},
}

# Values that are not what the annotation says. `deep` has to see through each of them.
LIARS: dict[str, Callable[[], Any]] = {
    "list_for_text": lambda: Flat(["x"], NOW, Decimal(1), 1),  # type: ignore[arg-type]
    "dict_for_id": lambda: Flat("x", NOW, Decimal(1), {"a": [1]}),  # type: ignore[arg-type]
    "frozen_list_for_text": lambda: Frozen(["x"], (1,), None, 1),  # type: ignore[arg-type]
    "list_in_tuple": lambda: Frozen("x", ([1],), None, 1),  # type: ignore[arg-type]
    "list_for_enum": lambda: Frozen("x", (1,), [1], 1),  # type: ignore[arg-type]
    "list_in_list": lambda: Slots("x", [["y"]], 1),  # type: ignore[list-item]
    "dict_for_list": lambda: Slots("x", {"y": [1]}, 1),  # type: ignore[arg-type]
    "tuple_for_list": lambda: Slots("x", ([1],), 1),  # type: ignore[arg-type]
    "none_for_list": lambda: Slots("x", None, 1),  # type: ignore[arg-type]
    "list_in_dict": lambda: FrozenDict({"a": [1]}, 1),  # type: ignore[dict-item]
    "list_for_record": lambda: Nested(address=[1]),  # type: ignore[arg-type]
    "record_for_record": lambda: Nested(address=Flat(["x"], NOW, Decimal(1))),  # type: ignore
    "liar_in_record": lambda: Nested(address=Address(["x"], [])),  # type: ignore[arg-type]
    "liar_in_frozen": lambda: Nested(point=Point([1], 2)),  # type: ignore[arg-type]
    "liar_in_list": lambda: Nested(points=[Point([1], 2)]),  # type: ignore[arg-type]
    "liar_in_key": lambda: Nested(by_point={(1, 2): [1]}),  # type: ignore[dict-item]
    "short_tuple": lambda: Nested(both=(1,)),  # type: ignore[arg-type]
    "long_tuple": lambda: Nested(both=(1, [2], [3])),  # type: ignore[arg-type]
    "struct_list_for_text": lambda: Struct(["x"], NOW, 1),  # type: ignore[arg-type]
    "named_list_in_tuple": lambda: Named("x", (1, ["y"]), 1),  # type: ignore[arg-type]
    "chain_liar_at_the_end": lambda: Chain(1, Chain(2, Chain([3]))),  # type: ignore[arg-type]
}

# Containers of other classes, and what nobody knows, in fields that say nothing.
OTHERS: dict[str, Callable[[], Any]] = {
    "empty": lambda: FrozenAny([Empty()]),
    "deque": lambda: FrozenAny(deque([[1]])),
    "ordered": lambda: FrozenAny(OrderedDict(a=[1])),
    "namedtuple": lambda: FrozenAny((NamedList(["a"]), Named("b", (1, "c")))),
    "records": lambda: FrozenAny([Slots("a", ["b"]), FrozenList("c", ["d"]), Struct("e", NOW)]),
    "set_of_frozen": lambda: FrozenAny({Frozen("a", (1,)), frozenset({2})}),
    "frozenset_of_records": lambda: FrozenAny(frozenset({FrozenAny((1,))})),
    "atoms": lambda: FrozenAny((Fraction(1, 2), PurePosixPath("/a"), 1j, None, Color.RED, int)),
}

_IMMUTABLE = (str, bytes, int, float, complex, datetime, Decimal, UUID, Fraction, Enum, type)


def parts(value: Any) -> Iterator[Any]:
    """Yield what a value directly holds."""
    if isinstance(value, dict):
        yield from value.keys()
        yield from value.values()
    elif isinstance(value, (list, tuple, set, frozenset, deque)):
        yield from value
    elif is_dataclass(value):
        yield from (getattr(value, field.name) for field in fields(value))
    elif isinstance(value, msgspec.Struct):
        yield from (getattr(value, name) for name in value.__struct_fields__)
    elif attrs.has(type(value)):
        yield from (getattr(value, name) for name in attrs.fields_dict(type(value)))


def is_frozen(value: Any) -> bool:
    """Whether the value itself can't be changed, whatever is in it."""
    if value is None or isinstance(value, (tuple, frozenset, PurePosixPath, *_IMMUTABLE)):
        return True
    parameters = getattr(value, "__dataclass_params__", None)
    config = getattr(value, "__struct_config__", None)
    return (
        bool(parameters and parameters.frozen)
        or bool(config and config.frozen)
        or isinstance(value, AttrsFrozen)
    )


def mutables(value: Any, found: dict[int, Any] | None = None) -> dict[int, Any]:
    """Return every object in a value that can change, by id."""
    found = {} if found is None else found
    if id(value) not in found:
        if not is_frozen(value):
            found[id(value)] = value
        for part in parts(value):
            mutables(part, found)
    return found


def described(value: Any) -> Any:
    """Return a form of a value that is equal only for values of the same types throughout."""
    if isinstance(value, (set, frozenset)):
        return type(value), sorted([repr(described(part)) for part in value])
    inner = [described(part) for part in parts(value)]
    return (type(value), inner) if inner or not is_frozen(value) else (type(value), repr(value))


def cloner_for(spec: Any, record: Any, serializer: str = "binary") -> Cloner:
    """Return the cloner for a record's class."""
    shape = shape_of(type(record))
    return get_cloner(spec, shape, get_serializer(serializer).codec(shape))


class ClonerContract:
    """What every cloner promises; each one's test class inherits it."""

    spec: Any
    records = RECORDS
    is_deep = True

    @pytest.fixture(params=sorted(RECORDS))
    def record(self, request: pytest.FixtureRequest) -> Any:
        """A record of each kind."""
        return RECORDS[request.param]()

    def test_equal(self, record: Any) -> None:
        """The copy is equal to the record in type and value, all the way down."""
        before = described(record)
        clone = cloner_for(self.spec, record)(record)

        assert type(clone) is type(record)
        assert described(clone) == before
        assert described(record) == before

    def test_nothing_shared(self, record: Any) -> None:
        """No object that can change is in both."""
        clone = cloner_for(self.spec, record)(record)

        if self.is_deep:
            assert not mutables(record).keys() & mutables(clone).keys()
        elif not is_frozen(record):
            assert clone is not record

    def test_again(self, record: Any) -> None:
        """A copy of the copy is as good as the first."""
        cloner = cloner_for(self.spec, record)

        assert described(cloner(cloner(record))) == described(record)

    def test_inline(self, record: Any) -> None:
        """The source that a cloner offers does what the cloner does."""
        cloner = cloner_for(self.spec, record)
        results = []
        if cloner.inline_lines is not None:
            lines = [
                line.replace("{r}", "rec").replace("{o}", "out") for line in cloner.inline_lines
            ]
            scope: dict[str, Any] = {"rec": record, **cloner.namespace}
            exec("\n".join(lines), scope)
            results.append(scope["out"])
        if cloner.inline_expression is not None:
            source = cloner.inline_expression.replace("{r}", "rec")
            results.append(eval(source, {"rec": record, **cloner.namespace}))

        assert all(name.startswith("_clone_") for name in cloner.namespace)
        for result in results:
            assert described(result) == described(record)
            assert (result is record) is (cloner(record) is record)
            assert not self.is_deep or not mutables(record).keys() & mutables(result).keys()


class TestAuto(ClonerContract):
    """The cloner that copies what can change, and no more."""

    spec = "auto"

    @pytest.mark.parametrize(
        "name",
        ["frozen", "chain", "frozen_struct", "named", "attrs_frozen", "frozen_any_immutable"],
    )
    def test_immutable_is_shared(self, name: str) -> None:
        """A record in which nothing can change is its own copy."""
        record = RECORDS[name]()

        assert cloner_for("auto", record)(record) is record

    def test_immutable_by_value(self) -> None:
        """Where the annotation says nothing, the value decides."""
        shared, copied = FrozenAny((1, "a")), FrozenAny((1, ["a"]))
        cloner = cloner_for("auto", shared)

        assert cloner.clone(shared) is shared
        assert cloner.clone(copied) is not copied
        assert cloner.clone(copied).value[1] is not copied.value[1]

    @pytest.mark.parametrize("name", sorted(RECORDS))
    def test_conforms(self, name: str) -> None:
        """A record that is as annotated takes the generated copy, which is right for it."""
        record = RECORDS[name]()
        cloner = cloner_for("auto", record)

        assert cloner.conforms is None or cloner.conforms(record) is True
        assert described(cloner.clone(record)) == described(record)
        assert not mutables(record).keys() & mutables(cloner.clone(record)).keys()

    @pytest.mark.parametrize("name", sorted(LIARS))
    def test_annotation_may_lie(self, name: str) -> None:
        """A value that is not as annotated is never shared and never damaged."""
        record = LIARS[name]()
        cloner = cloner_for("auto", record)
        clone = cloner(record)

        assert cloner.conforms is not None
        assert cloner.conforms(record) is False
        assert described(clone) == described(record)
        assert not mutables(record).keys() & mutables(clone).keys()

    @pytest.mark.parametrize(
        "record",
        [
            Flat(1.5, NOW, Decimal(1)),  # type: ignore[arg-type]
            Flat((1, 2), NOW, Decimal(1)),  # type: ignore[arg-type]
            Flat(None, NOW, Decimal(1)),  # type: ignore[arg-type]
            Slots("x", [1, None, (2,)]),  # type: ignore[list-item]
            Frozen(Point(1, 2), (1,)),  # type: ignore[arg-type]
        ],
    )
    def test_harmless_lies(self, record: Any) -> None:
        """An immutable value conforms wherever one is expected."""
        cloner = cloner_for("auto", record)

        assert cloner.conforms is not None
        assert cloner.conforms(record) is True
        assert described(cloner.clone(record)) == described(record)

    @pytest.mark.parametrize("name", sorted(OTHERS))
    def test_other_values(self, name: str) -> None:
        """Containers of other classes are copied too, and keep their class."""
        record = OTHERS[name]()
        clone = cloner_for("auto", record)(record)

        assert described(clone) == described(record)
        assert not mutables(record).keys() & mutables(clone).keys()

    def test_nothing_to_rely_on(self) -> None:
        """Where annotations say nothing at all there is nothing to check."""

        assert cloner_for("auto", Looser([1])).conforms is None

    def test_unknown_object(self) -> None:
        """An object of a class that nobody knows is copied deeply."""

        class Thing:
            def __init__(self) -> None:
                self.tags = ["a"]

        record = FrozenAny(Thing())
        clone = cloner_for("auto", record)(record)

        assert type(clone.value) is Thing
        assert clone.value.tags == ["a"]
        assert clone.value.tags is not record.value.tags

    def test_subclass_of_a_scalar(self) -> None:
        """A text with attributes of its own is no plain text."""

        class Text(str):
            tags: list[str]

        text = Text("Eric")
        text.tags = ["a"]
        record = Flat(text, NOW, Decimal(1))
        clone = cloner_for("auto", record)(record)

        assert type(clone.name) is Text
        assert clone.name.tags == ["a"]
        assert clone.name.tags is not text.tags

    def test_dataclass_that_extends_a_builtin(self) -> None:
        """A value whose class can't be a record class is copied all the same."""

        @dataclass
        class Tagged(list[str]):
            name: str = ""

        value = Tagged("x")
        value.append("a")
        clone = deep([value])[0]

        assert type(clone) is Tagged
        assert (list(clone), clone.name, clone is value) == (["a"], "x", False)

    def test_shared_reference(self) -> None:
        """What occurs twice in a record may become two copies, both independent of it."""
        tags = ["a"]
        record = {"one": tags, "two": tags}
        clone = cloner_for("auto", record)(record)

        assert clone == record
        assert clone["one"] is not tags
        assert clone["two"] is not tags

    @pytest.mark.parametrize("where", ["children", "parent"])
    def test_record_that_contains_itself(self, where: str) -> None:
        """A cycle is copied as a cycle."""
        record = Tree("a")
        if where == "children":
            record.children.append(record)
        else:
            record.parent = [record]
        clone = cloner_for("auto", record)(record)

        assert clone is not record
        assert (clone.children or clone.parent)[0] is clone

    def test_dict_that_contains_itself(self) -> None:
        """A cycle in a dict is too."""
        record: dict[str, Any] = {"a": [1]}
        record["self"] = record
        clone = cloner_for("auto", record)(record)

        assert clone["self"] is clone
        assert clone["a"] is not record["a"]

    def test_own_code_is_not_run(self) -> None:
        """Neither the constructor nor __post_init__ nor __setattr__ of the class is called."""
        before = Busy.made
        cloner_for("auto", busy())(busy())

        assert Busy.made == before

    def test_struct_post_init_is_not_run(self) -> None:
        """A copied Struct is not initialised again."""

        class Counted(msgspec.Struct):
            count: int = 0
            tags: list[str] = msgspec.field(default_factory=list)

            def __post_init__(self) -> None:
                self.count += 1

        record = Counted()
        clone = cloner_for("auto", record)(record)

        assert (record.count, clone.count) == (1, 1)
        assert clone.tags is not record.tags

    def test_names_that_are_no_python(self) -> None:
        """Fields whose names are keywords are copied like any others."""
        cls = msgspec.defstruct("Odd", [("class", list[int]), ("größe", list[int])])
        record = cls([1], [2])
        clone = cloner_for("auto", record)(record)

        assert clone == record
        assert getattr(clone, "class") is not getattr(record, "class")

    def test_flat_struct_is_inline(self) -> None:
        """A flat Struct is copied by the fastest there is."""
        cloner = cloner_for("auto", Struct("Eric", NOW))

        assert cloner.inline_expression == "{r}.__copy__()"

    def test_flat_dataclass_is_inline(self) -> None:
        """A flat dataclass is copied by plain assignments."""
        cloner = cloner_for("auto", Flat("Eric", NOW, Decimal(1)))

        assert cloner.inline_lines is not None
        assert cloner.inline_lines[1] == "{o}.name = {r}.name"


class TestRoundtrip(ClonerContract):
    """The cloner that goes through the serializer."""

    spec = "roundtrip"

    # A nested record can be stored only if the annotations lead to its class.
    def test_identity(self) -> None:
        """The identity comes back though the payload does not hold it."""

        assert cloner_for("roundtrip", Flat("Eric", NOW, Decimal(1)))(
            Flat("Eric", NOW, Decimal(1), 12)
        ) == Flat("Eric", NOW, Decimal(1), 12)
        assert cloner_for("roundtrip", {})({"a": 1, "id": 12}) == {"a": 1, "id": 12}

    @pytest.mark.parametrize("serializer", ["json", "msgpack", "pickle"])
    @pytest.mark.parametrize("name", ["nested", "struct", "dict_nested", "named_list"])
    def test_serializers(self, name: str, serializer: str) -> None:
        """It works with each serializer."""
        record = RECORDS[name]()

        assert described(cloner_for("roundtrip", record, serializer)(record)) == described(record)


class TestFields(ClonerContract):
    """The cloner that copies the record itself and shares its values."""

    spec = "fields"
    is_deep = False

    def test_values_are_shared(self) -> None:
        """Values are the same objects."""
        record = Slots("Eric", ["tv"])
        clone = cloner_for("fields", record)(record)

        assert clone is not record
        assert clone.tags is record.tags

    def test_frozen_is_shared(self) -> None:
        """A record whose fields can't be assigned needs no copy of its own."""
        record = FrozenList("Eric", ["tv"])

        assert cloner_for("fields", record)(record) is record


class TestShare(ClonerContract):
    """No copy at all."""

    spec = "share"
    is_deep = False

    def test_nothing_shared(self, record: Any) -> None:
        """The record is its own copy, at its reader's risk."""

        assert cloner_for("share", record)(record) is record


class TestCallable(ClonerContract):
    """A cloner of the user's."""

    spec = staticmethod(copy.deepcopy)

    def test_is_used_as_it_is(self) -> None:
        """The user's function is the copy itself."""
        cloner = cloner_for(copy.deepcopy, {})

        assert cloner.clone is copy.deepcopy
        assert cloner.name == "deepcopy"
        assert cloner.conforms is None


class TestDottedPath(ClonerContract):
    """A cloner of the user's by its path."""

    spec = "copy:deepcopy"

    @pytest.mark.parametrize("spec", ["nowhere.at.all:f", "copy:nothing", ":f", "copy:", "math:pi"])
    def test_wrong_path(self, spec: str) -> None:
        """A path that leads to no function is refused."""
        with pytest.raises(ConfigError, match="cloner"):
            cloner_for(spec, {})


def test_unknown_name() -> None:
    """An unknown name is refused with the nearest."""
    with pytest.raises(ConfigError, match="Did you mean 'roundtrip'"):
        cloner_for("roundtrp", {})


def test_stored_cycle() -> None:
    """A record that pickle brought back with a cycle in it is copied right."""
    values: list[Any] = [1]
    values.append(values)
    record = pickle.loads(pickle.dumps(FrozenAny(values)))
    clone = cloner_for("auto", record, "pickle")(record)

    assert clone.value[1] is clone.value
    assert clone.value is not record.value
