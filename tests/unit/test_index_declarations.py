"""Declarations of indexes, and the keys that they make of records."""

from __future__ import annotations

import copy
import enum
import itertools
import math
import pickle
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, make_dataclass
from datetime import date, datetime
from decimal import Decimal
from ipaddress import IPv4Network
from typing import Any, Literal, NamedTuple, NotRequired, TypedDict

import attrs
import msgspec
import numpy as np
import pydantic
import pytest

from memdb import ColumnIndex, F, HashIndex, SetIndex, SortedIndex
from memdb._index_declarations import BoundIndex, IndexDeclaration
from memdb._members import member_shapes
from memdb.errors import ConfigError, DuplicateKeyError, EncodeError, IndexKeyError
from memdb.indexes import ABSENT, NO_KEY
from memdb.query import P, evaluate
from memdb.serializers import get_serializer, shape_of


class Color(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


@dataclass
class Address:
    city: str
    zip: int | None = None


@dataclass(frozen=True)
class Place:
    city: str


class Fixed(msgspec.Struct, frozen=True):
    city: str


class Loose(msgspec.Struct):
    city: str


class Pair(NamedTuple):
    left: str
    right: int


class Entry(TypedDict):
    name: str
    tags: NotRequired[list[str]]


@dataclass
class Person:
    name: str
    age: int | None = None
    tags: list[str] = field(default_factory=list)
    address: Address | None = None
    meta: dict[str, Any] = field(default_factory=dict)
    anything: Any = None
    id: int = 0


@dataclass(slots=True)
class Slotted:
    name: str
    age: int | None = None
    tags: list[str] = field(default_factory=list)


class Structured(msgspec.Struct):
    name: str
    age: int | None = None
    tags: list[str] = []


@attrs.define
class Defined:
    name: str
    age: int | None = None
    tags: list[str] = attrs.field(factory=list)


class Model(pydantic.BaseModel):
    name: str
    age: int | None = None
    tags: list[str] = []


class Row(NamedTuple):
    name: str
    age: int | None = None
    tags: Sequence[str] = ()


class Typed(TypedDict):
    name: str
    age: NotRequired[int | None]
    tags: NotRequired[list[str]]


@dataclass
class Cat:
    name: str
    lives: int = 9


@dataclass
class Dog:
    name: str
    owner: Address | None = None


@dataclass
class Anything:
    """Has a field of each sort of annotation."""

    any: Any = None
    bare: object = None
    text: str = ""
    number: int = 0
    real: float = 0.0
    exact: Decimal = Decimal(0)
    day: date = date(2000, 1, 1)
    moment: datetime = datetime(2000, 1, 1)
    mixed: int | str = 0
    dated: int | date = 0
    color: Color = Color.RED
    level: Level = Level.LOW
    rights: Rights = Rights.READ
    choice: Literal["a", 1] = "a"
    items: list[str] = field(default_factory=list)
    maybe_items: list[str] | None = None
    text_or_items: str | list[str] = ""
    lists: list[list[int]] = field(default_factory=list)
    anys: list[Any] = field(default_factory=list)
    bare_list: list = field(default_factory=list)  # type: ignore[type-arg]
    sequence: Sequence[str] = ()
    iterable: Iterable[str] = ()
    queue: deque[int] = field(default_factory=deque)
    names: set[str] = field(default_factory=set)
    fixed_names: frozenset[str] = frozenset()
    mapping: dict[str, int] = field(default_factory=dict)
    pair: tuple[int, str] = (0, "")
    texts: tuple[str, ...] = ()
    bare_tuple: tuple = ()  # type: ignore[type-arg]
    list_pair: tuple[int, list[int]] = (0, [])
    named: Pair | None = None
    address: Address | None = None
    place: Place | None = None
    struct: Loose | None = None
    fixed_struct: Fixed | None = None
    model: Model | None = None
    array: np.ndarray | None = None
    call: Callable[[], int] | None = None
    entry: Entry | None = None
    nothing: None = None


@dataclass
class Inner:
    text: str = ""
    items: list[str] = field(default_factory=list)


@dataclass
class Sure:
    inner: Inner


@dataclass
class Nested:
    inner: Inner | None = None
    again: Nested | None = None


PEOPLE = shape_of(Person)
ANYTHING = shape_of(Anything)
PETS = member_shapes(Cat | Dog, subclasses=False, tags={}, aliases={}, has_key=False)[0]
ERIC = Person("Eric", 9, ["tv", "food", "tv"], Address("South Park", 80440), {"size": "big"}, [1])
KENNY = Person("Kenny")


def bound(declaration: IndexDeclaration, shape: Any = PEOPLE) -> BoundIndex:
    return declaration.bind(shape, "people")


def keys(declaration: IndexDeclaration, record: Any, shape: Any = PEOPLE) -> tuple[Any, ...]:
    return bound(declaration, shape).keys_of(record)


# -- declaring


@pytest.mark.parametrize(
    ("index", "text", "name"),
    [
        (HashIndex("name"), "HashIndex('name')", "name"),
        (HashIndex(F.name), "HashIndex('name')", "name"),
        (HashIndex("a", "b.c", unique=True), "HashIndex('a', 'b.c', unique=True)", "a_b.c"),
        (HashIndex(F.a.b), "HashIndex('a.b')", "a.b"),
        (HashIndex(F["a.b"]), "HashIndex(F['a.b'])", "a.b"),
        (HashIndex(F["-a"]), "HashIndex(F['-a'])", "-a"),
        (SortedIndex("a", "-b"), "SortedIndex('a', '-b')", "a_b"),
        (SortedIndex(F.a.desc(), F.b.asc()), "SortedIndex('-a', 'b')", "a_b"),
        (SortedIndex(F["-a"].desc()), "SortedIndex(F['-a'].desc())", "-a"),
        (HashIndex(F.tags[0]), "HashIndex(F.tags[0])", "tags.0"),
        (SetIndex("tags", name="t"), "SetIndex('tags', name='t')", "t"),
        (ColumnIndex("age"), "ColumnIndex('age')", "age"),
        (HashIndex("a", where=F.b > 1), "HashIndex('a', where=F.b > 1)", "a"),
        (SetIndex(key=len, name="n"), "SetIndex(key=len, name='n')", "n"),
        (HashIndex(len, name="n", version=2), "HashIndex(key=len, name='n', version='2')", "n"),
    ],
)
def test_declarations_show_what_they_say(index: IndexDeclaration, text: str, name: str) -> None:
    """The repr of a declaration is how it can be written, and the name that of its fields."""
    assert (repr(index), index.name) == (text, name)


def test_declarations_are_values() -> None:
    """Declarations that say the same are equal, have one hash, and can't be changed."""
    index = HashIndex("a", F.b.c, unique=True, where=F.a > 1)
    same = HashIndex(F.a, "b.c", unique=True, where=F.a > 1)
    others = [
        HashIndex("a", "b.c", unique=True),
        HashIndex("a", "b.c", where=F.a > 1),
        HashIndex("a", "b.c", unique=True, where=F.a > 2),
        HashIndex("a", "b.c", unique=True, where=F.a > 1, name="x"),
        SortedIndex("a", "b.c", unique=True, where=F.a > 1),
        HashIndex("b.c", "a", unique=True, where=F.a > 1),
    ]

    assert index == same
    assert hash(index) == hash(same)
    assert index not in others
    assert index != "a"
    with pytest.raises(AttributeError, match="can't be changed"):
        index.name = "b"
    with pytest.raises(AttributeError, match="can't be changed"):
        del index.name


def test_functions_are_told_apart_by_their_version() -> None:
    """A function that is written anew is the same until its version is another."""
    first, again = [HashIndex(key=lambda r: r.name, name="n") for _ in range(2)]

    assert first == again
    assert first != HashIndex(key=lambda r: r.name, name="n", version="2")
    assert (first.version, HashIndex("a").version) == ("1", None)


@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, lambda i: pickle.loads(pickle.dumps(i))]
)
def test_declarations_can_be_copied(duplicate: Callable[[Any], Any]) -> None:
    """Copies and pickles of a declaration are equal to it."""
    index = SortedIndex("a", "-b", unique=True)

    assert duplicate(index) == index


def test_signatures_are_data() -> None:
    """The signature leaves the name out and holds nothing that JSON has not."""
    index = SortedIndex("a.b", "-c", name="x", where=F.a == 1)

    assert index.signature == {
        "kind": "sorted",
        "fields": [["a", "b"], ["c"]],
        "directions": [1, -1],
        "unique": False,
        "where": "F.a == 1",
        "version": None,
    }
    assert index.renamed("y").signature == index.signature
    assert index.renamed("y").name == "y"
    assert (type(index.renamed("y")), index.name) == (SortedIndex, "x")


async def _coroutine(record: object) -> None: ...


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (lambda: SortedIndex((F.a % 2).desc()), "a field is a name or a field of F"),
        (lambda: HashIndex(), "give the fields of the index, or a function"),
        (lambda: SetIndex(), "give the fields of the index, or a function"),
        (lambda: HashIndex("a", key=len, name="x"), "one of the two"),
        (lambda: HashIndex(len, key=len, name="x"), "one of the two"),
        (lambda: HashIndex("a", len, name="x"), "one function alone"),
        (lambda: HashIndex(1), "a field is a name or a field of F, not 1"),
        (lambda: HashIndex(F.a > 1), "a field is a name or a field of F, not F.a > 1"),
        (lambda: HashIndex(F.a % 2), "not F.a % 2. What is calculated is made by one function"),
        (lambda: HashIndex(F.a.desc()), "only a SortedIndex has an order"),
        (lambda: HashIndex("a", where=(F.a > 1) & len), "where= is an expression of F"),
        (lambda: HashIndex("a", where=F.a > P.low), "where= has the parameters low"),
        (lambda: HashIndex(""), "'' is no field"),
        (lambda: HashIndex("a..b"), "'a..b' is no field"),
        (lambda: SortedIndex("--a"), "'--a' is no field"),
        (lambda: SortedIndex("-"), "'-' is no field"),
        (lambda: HashIndex("-a"), "only a SortedIndex has an order"),
        (lambda: SetIndex("-a"), "only a SortedIndex has an order"),
        (lambda: ColumnIndex("-a"), "only a SortedIndex has an order"),
        (lambda: SortedIndex("a", "-a"), "one field stands twice among a, a"),
        (lambda: HashIndex(key=len), "needs a name"),
        (lambda: HashIndex(key=str, name="x"), "key= is a plain function"),
        (lambda: HashIndex(key="a", name="x"), "key= is a plain function"),
        (lambda: HashIndex(key=_coroutine, name="x"), "key= is a plain function"),
        (lambda: HashIndex("a", name=""), "a text of at least one letter, not ''"),
        (lambda: HashIndex("a", name="\n"), "a text of at least one letter"),
        (lambda: HashIndex("a", name=3), "a text of at least one letter, not 3"),
        (lambda: HashIndex("a").renamed(""), "a text of at least one letter"),
        (lambda: HashIndex("a", unique=1), "unique= is True or False, not 1"),
        (lambda: HashIndex("a", where=len), "where= is an expression of F"),
        (lambda: HashIndex("a", where=F.a), "where= is an expression of F"),
        (lambda: HashIndex("a", version=1), "there is none"),
        (lambda: HashIndex(len, name="a", version=True), "a text or a number, not True"),
        (lambda: HashIndex(len, name="a", version=""), "a text or a number, not ''"),
        (lambda: ColumnIndex(len), "give the name of a field"),
    ],
)
def test_what_can_not_be_an_index_is_refused(declare: Any, message: str) -> None:
    """A declaration that can't be right is refused when it is written."""
    with pytest.raises(ConfigError, match="(?i)" + message.replace("(", r"\(")):
        declare()


# -- binding


@pytest.mark.parametrize(
    ("declaration", "kind"),
    [
        (HashIndex("name"), "hash"),
        (HashIndex("name", unique=True), "unique"),
        (SortedIndex("name"), "sorted"),
        (SortedIndex("name", unique=True), "sorted"),
        (SetIndex("tags"), "set"),
        (ColumnIndex("age"), "column"),
    ],
)
def test_each_declaration_has_its_structure(declaration: IndexDeclaration, kind: str) -> None:
    """A bound index says which structure holds it, and what it was made from."""
    index = bound(declaration)

    assert (index.kind, index.name, index.collection) == (kind, declaration.name, "people")
    assert index.declaration is declaration
    assert (index.paths, index.directions) == (declaration.paths, declaration.directions)
    assert (index.unique is not None) is declaration.unique
    assert repr(index) == f"<people: {declaration!r}>"
    assert (index.renamed("x").name, index.renamed("x").kind) == ("x", kind)


@pytest.mark.parametrize(
    ("declaration", "message"),
    [
        (HashIndex("nam"), "index 'nam': F.nam: Person has no field 'nam'. Did you mean 'name'?"),
        (HashIndex("address.town"), "Address has no field 'town'"),
        (HashIndex("name", where=F.agee > 1), "Did you mean 'age'?"),
        (HashIndex("id", unique=True), "id is the identity"),
        (SortedIndex("name", "id", unique=True), "id is the identity"),
        (HashIndex("name", unique=True, where=(F.age > 1) & ~(F.id == 3)), "id is the identity"),
        (SortedIndex("tags", unique=True), "tags is list[str], which has no hash"),
    ],
)
def test_fields_that_do_not_exist_are_refused(declaration: IndexDeclaration, message: str) -> None:
    """Binding names the collection, the index, and the nearest field."""
    with pytest.raises(ConfigError) as caught:
        bound(declaration)

    assert str(caught.value).startswith("people: the index ")
    assert message in str(caught.value)


def _each(names: str, answer: bool | None) -> dict[str, bool | None]:
    return dict.fromkeys(names.split(" "), answer)


HASHES = {
    **_each("any bare exact dated bare_tuple named place fixed_struct call", None),
    **_each("text_or_items sequence iterable", None),
    **_each("text number real day moment mixed color level", True),
    **_each("rights choice fixed_names pair texts nothing", True),
    **_each("items maybe_items lists anys bare_list queue names mapping", False),
    **_each("list_pair address struct model array entry", False),
}


def test_every_annotation_is_judged() -> None:
    """The table of what has a hash has each annotation of the class."""
    assert set(HASHES) == {each.name for each in ANYTHING.fields}


@pytest.mark.parametrize(("name", "has_hash"), HASHES.items())
@pytest.mark.parametrize("unique", [False, True])
def test_hash_indexes_ask_annotations_for_a_hash(
    name: str, has_hash: bool | None, unique: bool
) -> None:
    """What can't have a hash is refused, and what need not have one is checked at each write."""
    declaration = HashIndex(name, unique=unique)
    if has_hash is False:
        with pytest.raises(ConfigError, match=rf"{name} is .*, which has no hash"):
            bound(declaration, ANYTHING)
    else:
        assert bound(declaration, ANYTHING).is_checked_always is not has_hash


ELEMENTS = {
    **_each("any bare anys bare_list sequence queue", None),
    **_each("text_or_items iterable bare_tuple named array call entry", None),
    **_each("items maybe_items names fixed_names mapping pair texts", True),
    **_each("nothing", True),
}


@pytest.mark.parametrize("name", HASHES)
def test_set_indexes_ask_annotations_for_elements(name: str) -> None:
    """What is no collection of elements that have a hash is refused."""
    if name not in ELEMENTS:
        with pytest.raises(ConfigError, match=r"which is no collection of|elements have no hash"):
            bound(SetIndex(name), ANYTHING)
    else:
        assert bound(SetIndex(name), ANYTHING).is_checked_always is not ELEMENTS[name]


@pytest.mark.parametrize("name", HASHES)
def test_columns_are_for_numbers_dates_and_times(name: str) -> None:
    """A column is refused for any other annotation, and for numbers together with dates."""
    allowed = "any bare number real day moment level nothing"
    if name in allowed.split():
        assert not bound(ColumnIndex(name), ANYTHING).is_checked_always
    else:
        with pytest.raises(ConfigError, match=f"{name} is .*, and a column has"):
            bound(ColumnIndex(name), ANYTHING)


@pytest.mark.parametrize("name", HASHES)
def test_everything_can_be_sorted(name: str) -> None:
    """A SortedIndex takes any annotation, and need not be asked at a write."""
    assert not bound(SortedIndex(name), ANYTHING).is_checked_always


HOSTILE: list[Any] = [
    *(
        None,
        1,
        2**70,
        1.5,
        "text",
        b"x",
        [],
        [1],
        [[1]],
        {},
        {"a": [1]},
        {1: 2},
        (),
        ([],),
        "\ud800",
    ),
    *(
        {"city": []},
        Address([]),
        Loose([]),
        Place("x"),
        Color.RED,
        date(2000, 1, 1),
        Decimal("sNaN"),
    ),
    *({1, "a"}, frozenset([(1,)]), [{}], [None], {"a": 1}, Pair([], 0), bytearray(b"x"), True),  # type: ignore[arg-type]
    *(Nested(Inner([])), Nested(Inner("x")), {"inner": {"text": []}}, np.arange(2), deque([[]])),  # type: ignore[arg-type]
]


def _with_one_field(name: str, annotation: Any) -> Any:
    return shape_of(make_dataclass("One", [(name, annotation)]))


ONE_FIELD = {each.name: _with_one_field(each.name, each.annotation) for each in ANYTHING.fields}
PROVEN = {
    *("text", "number", "real", "day", "moment", "mixed", "level", "choice", "nothing", "rights"),
    *("fixed_names", "pair", "texts", "items", "maybe_items", "names", "mapping", "color"),
}


@pytest.mark.parametrize("serializer", ["json", "msgpack", "binary"])
def test_what_serializers_prove_needs_no_check(serializer: str) -> None:
    """Where a check is not needed, the serializer marks or refuses each record that fails it."""
    chosen: Any = get_serializer(serializer)
    shapes: list[tuple[Any, tuple[str, ...]]] = [(s, (n,)) for n, s in ONE_FIELD.items()]
    shapes += [(shape_of(Nested), path) for path in [("inner", "text"), ("inner", "items")]]
    shapes += [(shape_of(Nested), path) for path in [("again", "again", "inner", "text")]]
    shapes += [(shape_of(Typed), ("name",)), (shape_of(dict), ("name",))]
    unchecked: set[str] = set()
    for (shape, path), kind in itertools.product(shapes, [HashIndex, SetIndex]):
        try:
            index = bound(kind(".".join(path)), shape)
        except ConfigError:
            continue
        if index.is_checked_always:
            continue
        unchecked.add(".".join(path))
        codec = chosen.codec(shape)
        for value in HOSTILE:
            given = {path[0]: value}
            try:
                record = given if shape.kind == "dict" else shape.cls(**given)
                if codec.encode(record)[0] != chosen.exact_start:
                    index.check(record)
            except EncodeError:
                pass

    assert unchecked == PROVEN | {"inner.text", "inner.items"}


def test_refusals_say_what_to_use() -> None:
    """For a list there is SetIndex, for a record in a record a function."""
    with pytest.raises(ConfigError, match="Use SetIndex"):
        bound(HashIndex("tags"))
    with pytest.raises(ConfigError, match="with key="):
        bound(HashIndex("address"))
    with pytest.raises(ConfigError, match="Use HashIndex"):
        bound(SetIndex("name"))


# -- keys of fields

KINDS = [Person, Slotted, Structured, Defined, Model, Row, Typed, dict]


def made(cls: Any, **values: Any) -> Any:
    return values if cls in (Typed, dict) else cls(**values)


@pytest.mark.parametrize("cls", KINDS, ids=lambda cls: cls.__name__)
def test_keys_are_the_values_of_fields(cls: Any) -> None:
    """Whatever the kind of the records, a key is the field's value."""
    shape = shape_of(cls)
    record = made(cls, name="Eric", age=9, tags=["tv", "food", "tv"])
    other = made(cls, name="Kenny", age=None, tags=[])
    columns = {
        HashIndex("name"): [("Eric",), ("Kenny",)],
        HashIndex("name", unique=True): [("Eric",), ("Kenny",)],
        HashIndex("age"): [(9,), (None,)],
        HashIndex("age", unique=True): [(9,), ()],
        HashIndex("name", "age"): [(("Eric", 9),), (("Kenny", None),)],
        HashIndex("name", "age", unique=True): [(("Eric", 9),), ()],
        HashIndex("name", where=F.age > 1): [("Eric",), ()],
        SortedIndex("-age"): [(9,), (None,)],
        SortedIndex("age", unique=True): [(9,), (None,)],
        SetIndex("tags"): [("tv", "food"), ()],
        SetIndex("tags", where=F.age == 1): [(), ()],
        ColumnIndex("age"): [(9,), (None,)],
        HashIndex(lambda r: 1, name="f", unique=True, where=F.age > 1): [(1,), ()],
    }

    for declaration, expected in columns.items():
        index = bound(declaration, shape)
        found = [index.keys_of(each) for each in (record, other)]
        assert found == expected, declaration
        assert [index.check(each) for each in (record, other)] == expected
        if index.kind != "set":
            expected = [each[0] if each else NO_KEY for each in expected]
        assert index.extract([record, other]) == expected
        assert index.extract([]) == []
        assert index.is_partial or NO_KEY not in expected


def test_fields_that_are_not_there_are_absent() -> None:
    """A path through None, a missing key, or a field that was deleted has no value."""
    bare = Person("Kyle")
    del bare.name

    assert keys(HashIndex("address.city"), ERIC) == ("South Park",)
    assert keys(HashIndex("address.city"), KENNY) == (ABSENT,)
    assert keys(HashIndex("inner.text"), Sure(Inner("x")), shape_of(Sure)) == ("x",)
    assert keys(HashIndex("inner.text"), Sure(None), shape_of(Sure)) == (ABSENT,)  # type: ignore[arg-type]
    assert keys(HashIndex("meta.size"), ERIC) == ("big",)
    assert keys(HashIndex("meta.size"), KENNY) == (ABSENT,)
    assert keys(HashIndex("name"), bare) == (ABSENT,)
    assert keys(HashIndex("name", "age"), bare) == ((ABSENT, None),)
    assert keys(HashIndex("name", unique=True), bare) == ()
    assert keys(HashIndex("address.city", "age", unique=True), KENNY) == ()
    assert keys(SetIndex("anything.tags"), KENNY) == ()
    assert bound(HashIndex("name")).extract([bare, ERIC]) == [ABSENT, "Eric"]
    assert bound(HashIndex("meta.size")).extract([KENNY, ERIC]) == [ABSENT, "big"]
    assert bound(HashIndex("name", "address.city")).extract([bare, ERIC]) == [
        (ABSENT, ABSENT),
        ("Eric", "South Park"),
    ]


def test_classes_of_a_union_may_lack_the_field() -> None:
    """A record of a class that has no such field has no value for it."""
    cat, dog = Cat("Kit"), Dog("Sparky", Address("South Park"))

    assert keys(HashIndex("lives"), cat, PETS) == (9,)
    assert keys(HashIndex("lives"), dog, PETS) == (ABSENT,)
    assert keys(HashIndex("owner.city"), cat, PETS) == (ABSENT,)
    assert keys(HashIndex("owner.city"), dog, PETS) == ("South Park",)
    assert keys(HashIndex("owner.city", "name"), cat, PETS) == ((ABSENT, "Kit"),)
    assert keys(HashIndex("lives", unique=True), dog, PETS) == ()
    assert bound(HashIndex("lives"), PETS).extract([cat, dog]) == [9, ABSENT]


class _Same:
    """Equals whatever it is compared with."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = object.__hash__


VALUES: list[Any] = [
    *(None, 1, "text", [], [1], (), Address("x"), Address("x", 1), Place("x"), Color.RED),
    *({}, {"city": "x"}, {"city": None}, {"size": 1}, {"keys": 1}, {"address": {"city": 3}}),
    *(defaultdict(lambda: 1), OrderedDict(city=2), Pair("a", 1), Loose("x"), date(2000, 1, 1)),
    *({"city": {"size": 4}}, Decimal("sNaN"), {"date of": 1}),
]
PATHS: list[tuple[str | int, ...]] = [
    *(("address",), ("address", "city"), ("address", "zip"), ("meta", "city"), ("meta", "keys")),
    *(("meta", "date of"), ("meta", "city", "size"), ("anything", "city"), ("anything", "keys")),
    *(("anything", "address", "city"), ("anything", "name"), ("anything", "value")),
    *(("anything", "left"), ("anything", "year"), ("anything", "date of"), ("name",)),
    *(("anything", 0), ("anything", -1), ("meta", 0, "x"), ("anything", "tags", 3)),
]


@pytest.mark.parametrize("path", PATHS, ids=str)
@pytest.mark.parametrize("shape", [PEOPLE, shape_of(dict)], ids=["class", "dict"])
def test_keys_are_what_conditions_see(path: tuple[str | int, ...], shape: Any) -> None:
    """Whatever is in a field, annotated or not, an index and a condition see the same."""
    where: Any = F
    for name in path:
        where = where[name]
    index = bound(HashIndex(where), shape) if path != ("address",) else None
    index = index or bound(SortedIndex(where), shape)
    records: list[Any] = []
    for value in VALUES:
        given = {"address": value, "meta": value, "anything": value, "name": "x"}
        records.append(Person(**given) if shape is PEOPLE else given)
    records += [] if shape is PEOPLE else [{}, defaultdict(list)]
    condition = where == _Same()
    found = [index.keys_of(record)[0] for record in records]

    assert [key is not ABSENT for key in found] == [evaluate(condition, r) for r in records]
    assert all(a is b or a == b for a, b in zip(index.extract(records), found, strict=True))
    assert all(not isinstance(r, defaultdict) or not r for r in VALUES), "a look-up added a key"


# -- unique keys


@pytest.mark.parametrize(
    "value", [None, math.nan, Decimal("nan"), complex(math.nan, 0), np.float64("nan")], ids=repr
)
def test_what_equals_nothing_never_collides(value: Any) -> None:
    """None and NaN are no keys of a unique index, alone or as a part of one."""
    record = Person("Kenny", anything=value)

    assert keys(HashIndex("anything", unique=True), record) == ()
    assert keys(HashIndex("name", "anything", unique=True), record) == ()
    assert keys(HashIndex(lambda r: r.anything, name="x", unique=True), record) == ()
    assert bound(HashIndex("anything", unique=True)).extract([record]) == [NO_KEY]


def test_sorted_unique_indexes_hold_what_can_not_collide() -> None:
    """Every record is in the order of a unique SortedIndex; its keys that collide are beside."""
    index = bound(SortedIndex("age", unique=True))

    assert index.keys_of(KENNY) == (None,)
    assert index.unique is not None
    assert (index.unique.kind, index.unique.name) == ("unique", "age")
    assert (index.unique.keys_of(KENNY), index.unique.keys_of(ERIC)) == ((), (9,))
    hashed = bound(HashIndex("age", unique=True))
    assert hashed.unique is hashed


# -- elements


@pytest.mark.parametrize(
    ("value", "elements"),
    [
        (None, ()),
        ([], ()),
        ([1, 2, 1, True, 1.0], (1, 2)),
        ((1, None), (1, None)),
        ({"a": 1}, ("a",)),
        (OrderedDict(b=1), ("b",)),
        (frozenset([3]), (3,)),
        (deque([1, 1]), (1,)),
        (np.array([1, 1, 2]), (1, 2)),
        (Pair("a", 1), ("a", 1)),
        (range(2), (0, 1)),
    ],
    ids=repr,
)
def test_elements_are_taken_once(value: Any, elements: tuple[Any, ...]) -> None:
    """A SetIndex has each different element of a collection, or key of a dict."""
    index = bound(SetIndex("anything"))

    assert index.check(Person("x", anything=value)) == elements
    assert index.extract([Person("x", anything=value)]) == [elements]


@pytest.mark.parametrize(
    "value",
    ["text", b"bytes", bytearray(b"x"), 5, Rights.READ, IPv4Network("10.0.0.0/8"), Address("x")],
    ids=repr,
)
def test_what_has_no_elements_is_refused(value: Any) -> None:
    """A text and whatever else is no collection of elements can't be in a SetIndex."""
    index = bound(SetIndex("anything"))
    with pytest.raises(IndexKeyError, match="'anything' has an entry for each element") as caught:
        index.check(Person("x", anything=value))

    assert (caught.value.index, caught.value.collection) == ("anything", "people")
    assert type(value).__qualname__ in str(caught.value)


def test_functions_may_give_elements_one_by_one() -> None:
    """The function of a SetIndex may be a generator, and may give none."""
    index = bound(SetIndex(lambda r: (tag.upper() for tag in r.tags), name="upper"))

    assert index.check(ERIC) == ("TV", "FOOD")
    assert index.check(KENNY) == ()
    with pytest.raises(IndexKeyError, match="of type str is no collection"):
        bound(SetIndex(lambda r: r.name, name="letters")).check(ERIC)


# -- checks


@pytest.mark.parametrize(
    ("declaration", "value"),
    [
        (HashIndex("anything"), [1]),
        (HashIndex("anything", unique=True), {}),
        (HashIndex("name", "anything"), [1]),
        (HashIndex("name", "anything", unique=True), (1, [])),
        (HashIndex("anything"), Decimal("sNaN")),
        (HashIndex("anything", unique=True), Decimal("sNaN")),
        (HashIndex("anything", unique=True), np.arange(3)),
        (SetIndex("anything"), [[1]]),
        (SetIndex("anything"), np.zeros((2, 2))),
        (SetIndex("anything"), np.array(1)),
        (SetIndex("tags"), None),
        (HashIndex(lambda r: r.anything, name="x"), [1]),
        (SetIndex(lambda r: r.anything, name="x"), [[1]]),
    ],
)
def test_keys_without_a_hash_are_refused(declaration: IndexDeclaration, value: Any) -> None:
    """A key that has no hash is refused by the check, with no content of the record."""
    record = Person("Eric", tags=[["x"]], anything=value)  # type: ignore[list-item]
    with pytest.raises(IndexKeyError, match="can't hold its key, which has no hash") as caught:
        bound(declaration).check(record)

    assert (caught.value.collection, caught.value.index) == ("people", declaration.name)
    assert caught.value.__cause__ is not None
    assert "Eric" not in str(caught.value)


def test_sorted_and_column_keys_need_no_hash() -> None:
    """A list can be sorted, and a column does not use what does not fit."""
    record = Person("Eric", anything=[2])

    assert bound(SortedIndex("anything")).check(record) == ([2],)
    assert bound(ColumnIndex("anything")).check(record) == ([2],)


@pytest.mark.parametrize("kind", [HashIndex, SortedIndex, SetIndex])
def test_functions_that_raise_are_named(kind: Any) -> None:
    """What a key function raises is the cause of the error, by keys, check and extract."""
    index = bound(kind(key=lambda r: r.address.city, name="city"))

    assert index.needs_copy
    assert index.is_checked_always
    for call in (index.keys_of, index.check, lambda r: index.extract([r])):
        with pytest.raises(
            IndexKeyError, match=r"'city' can't make a key, .* raised AttributeError"
        ) as caught:
            call(KENNY)
        assert isinstance(caught.value.__cause__, AttributeError)
        assert (caught.value.collection, caught.value.index) == ("people", "city")


def test_functions_are_called_for_records_in_the_index_only() -> None:
    """A key function never sees a record that does not match the index's condition."""
    seen: list[str] = []
    index = bound(HashIndex(lambda r: seen.append(r.name), name="x", where=F.age > 1))
    index.keys_of(KENNY)
    index.check(ERIC)

    assert seen == ["Eric"]


class _Unhashable:
    def __hash__(self) -> int:
        raise RuntimeError("no")


def test_a_hash_that_raises_is_refused() -> None:
    """Whatever a value's own code raises, the check raises IndexKeyError."""
    for declaration in (HashIndex("anything"), SetIndex("tags")):
        record = Person("x", tags=[_Unhashable()], anything=_Unhashable())  # type: ignore[list-item]
        with pytest.raises(IndexKeyError, match="RuntimeError"):
            bound(declaration).check(record)


# -- errors


def test_index_errors_say_which_record() -> None:
    """Once the record is known, the error names it."""
    with pytest.raises(IndexKeyError) as caught:
        bound(HashIndex("anything")).check(Person("x", anything=[]))
    known, new = caught.value.located("people", 7), caught.value.located("people", None)

    assert str(known) == f"people 7: {caught.value}"
    assert (known.collection, known.index, known.identity) == ("people", "anything", 7)
    assert (str(new), new.identity) == (f"people: {caught.value}", None)


@pytest.mark.parametrize(
    ("other", "identity", "text"),
    [
        (3, 7, "the record 3 has the same key in the unique index 'email' as the record 7"),
        (3, None, "the record 3 has the same key in the unique index 'email' as a new record"),
        (None, None, "another new record has the same key"),
        (("a", 1), None, r"the record \('a', 1\) has"),
    ],
)
def test_duplicate_errors_say_which_records(other: Any, identity: Any, text: str) -> None:
    """The error for two records with one key names both, as far as they have identities."""
    error = DuplicateKeyError.of("people", "email", other, identity)

    assert isinstance(error, ValueError)
    assert (error.collection, error.index) == ("people", "email")
    assert (error.other, error.identity) == (other, identity)
    with pytest.raises(DuplicateKeyError, match=text):
        raise error
