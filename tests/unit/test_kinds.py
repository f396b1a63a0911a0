"""Every kind and form of record class comes back exactly from every serializer and cloner."""

from __future__ import annotations

import abc
import dataclasses
import enum
import gc
import sys
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass, field, make_dataclass, replace
from datetime import date
from decimal import Decimal
from typing import Annotated, Any, Generic, TypeVar

import attrs
import msgspec
import pydantic
import pytest

from memdb._cloners import get_cloner
from memdb.errors import DecodeError, EncodeError, RecordTypeError
from memdb.serializers import Codec, Shape, get_serializer, shape_of
from memdb.serializers._annotations import annotations_of
from memdb.serializers._shape import reachable, strip, type_text
from tests.support import kinds
from tests.support.elsewhere import Town
from tests.support.exact import assert_exact
from tests.support.kinds import (
    DAY,
    OUTERS,
    RECORDS,
    Animal,
    AttrsPoint,
    Box,
    BoxAttrs,
    BoxDict,
    BoxModel,
    BoxStruct,
    BoxTuple,
    Cat,
    Color,
    DayBox,
    Lion,
    Movie,
    MovieWithId,
    Point,
    StructPoint,
    TuplePoint,
    Visit,
    VisitStruct,
    as_dataclass,
    make_outer,
)

SPECS = ("binary", "msgpack", "json", "pickle")
T = TypeVar("T")


@pytest.fixture(params=SPECS)
def spec(request: pytest.FixtureRequest) -> str:
    """Return the name of each serializer in turn."""
    name: str = request.param
    return name


def codec_of(spec: str, cls: Any, **changes: Any) -> Codec:
    """Return a codec for a class, its shape changed or not."""
    return get_serializer(spec).codec(replace(shape_of(cls), **changes))


def round_trip(spec: str, record: Any, cls: Any = None, identity: int = 7) -> Any:
    """Return a record after encoding and decoding."""
    codec = codec_of(spec, cls or type(record))
    return codec.decode(codec.encode(record), identity)


def is_exact_tier(record: Any) -> bool:
    """Whether a record is too unusual for the fast tier."""
    return codec_of("msgpack", type(record)).encode(record).startswith(b"\xc1")


# -- all kinds


@pytest.mark.parametrize("name", RECORDS)
def test_records_come_back(spec: str, name: str) -> None:
    """A record of every kind and form comes back equal in value and type."""
    record = RECORDS[name]

    assert_exact(round_trip(spec, record), record)


@pytest.mark.parametrize("name", RECORDS)
def test_records_come_back_through_the_exact_tier(spec: str, name: str) -> None:
    """So it does where a value of it is one that the fast tier refuses."""
    record, shape = RECORDS[name], shape_of(type(RECORDS[name]))
    codec = get_serializer(spec).codec(shape)
    values = {f.name: getattr(record, f.name) for f in shape.fields}
    values[shape.payload_fields[0].name] = 2**80
    changed = rebuilt(record, values)

    assert_exact(codec.decode(codec.encode(changed), 7), changed)


def rebuilt(record: Any, values: dict[str, Any]) -> Any:
    """Return a record of the same class with other values, whatever its class says to them."""
    cls = type(record)
    if isinstance(record, tuple):
        return cls(*values.values())
    if isinstance(record, pydantic.BaseModel):
        return record.model_copy(update=values)
    if isinstance(record, msgspec.Struct):
        return cls(**values)
    made = object.__new__(cls)
    for name, value in values.items():
        object.__setattr__(made, name, value)
    return made


@pytest.mark.parametrize("outer", OUTERS, ids=lambda outer: outer.__name__)
@pytest.mark.parametrize("name", RECORDS)
def test_every_kind_in_every_kind(name: str, outer: Callable[[Any], type[Any]], spec: str) -> None:
    """A record of every kind nested in one of every other kind comes back."""
    inner = RECORDS[name]
    record = make_outer(outer(type(inner)), inner)

    assert_exact(round_trip(spec, record), record)


@pytest.mark.parametrize(
    "name",
    [
        *("dataclass", "dataclass weakref", "dataclass of a generic", "struct", "struct tagged"),
        *("attrs", "attrs open", "pydantic", "pydantic no extra", "pydantic root", "namedtuple"),
    ],
)
def test_the_fast_tier_knows_every_kind(name: str) -> None:
    """A record whose values are as annotated is written by the fast tier, nested or not."""
    record = RECORDS[name]
    outer = make_dataclass("Outer", [("one", type(record)), ("many", list[type(record)])])  # type: ignore[misc]

    assert not is_exact_tier(record)
    assert not is_exact_tier(outer(record, [record]))


@pytest.mark.parametrize("name", RECORDS)
def test_the_identity_as_an_ordinary_field(spec: str, name: str) -> None:
    """Without an identity in the shape a field of that name is stored as any other."""
    record = RECORDS[name]
    codec = codec_of(spec, type(record), identity=None)

    assert_exact(codec.decode(codec.encode(record), 99), record)


@pytest.mark.parametrize("record", [{"id": "x", "a": 1}, {"id": (1,)}, {"a": 1}, {}], ids=repr)
def test_dicts_without_an_identity(spec: str, record: dict[str, Any]) -> None:
    """Without an identity in the shape the key "id" of a dict is neither taken nor set."""
    codec = codec_of(spec, None, identity=None)

    assert_exact(codec.decode(codec.encode(record), 99), record)


@pytest.mark.parametrize("name", RECORDS)
@pytest.mark.parametrize("cloner", ["auto", "fields", "roundtrip", "share"])
def test_records_are_cloned(cloner: str, name: str) -> None:
    """A clone of a record of every kind and form is equal in value and type."""
    record, shape = RECORDS[name], shape_of(type(RECORDS[name]))
    clone = get_cloner(cloner, shape, get_serializer("binary").codec(shape))
    outer = make_outer(OUTERS[0](type(record)), record)
    deep = get_cloner("auto", shape_of(type(outer)), codec_of("json", type(outer)))

    assert_exact(clone(record), record)
    assert_exact(clone.by_value(record), record)
    assert_exact(deep(outer), outer)


def test_a_hash_that_is_kept_is_asked_for_anew() -> None:
    """Records that keep their hash can be hashed after decoding and cloning."""
    for name in ("attrs hashed", "attrs open hashed", "struct frozen"):
        record = RECORDS[name]
        shape = shape_of(type(record))
        codec = get_serializer("binary").codec(shape)
        clone = get_cloner("fields", replace(shape, is_frozen=False), codec)
        expected = hash(record)

        assert hash(codec.decode(codec.encode(record), 7)) == expected
        assert hash(clone(record)) == expected


# -- TypedDict


def test_the_shape_of_a_typed_dict() -> None:
    """A TypedDict describes plain dicts; only one that declares it has an identity."""
    shape = shape_of(Movie)

    assert (shape.kind, shape.cls, shape.name, shape.identity) == ("dict", dict, "Movie", None)
    assert {f.name: f.required for f in shape.fields} == {
        "title": True, "year": False, "color": True, "point": True,
    }  # fmt: skip
    assert [f.annotation for f in shape.fields] == [str, int, Color, Point]
    assert (shape_of(MovieWithId).identity, shape_of(MovieWithId).fields[1].required) == (
        "id",
        False,
    )
    assert shape_of(BoxDict[int]).fields[0].annotation is int
    assert set(reachable(shape)) == {"Color", "Point"}


def test_string_annotations_of_a_typed_dict() -> None:
    """What is not required is told where the annotations are strings too."""

    assert [f.required for f in shape_of(Later).fields] == [True, False]
    assert [f.annotation for f in shape_of(Later).fields] == [int, date]


class Later(typing.TypedDict):
    a: int
    b: typing.NotRequired[date]


def test_records_of_a_typed_dict(spec: str) -> None:
    """They are plain dicts, exact whatever is in them, and whatever they lack."""
    movie: Movie = {"title": "t", "year": 2**70, "color": Color.RED, "point": Point(1)}
    for record in (movie, {"title": "t"}, {"id": "x", 5: (1,)}):
        codec = codec_of(spec, Movie)
        assert_exact(codec.decode(codec.encode(record), 3), record)
    codec = codec_of(spec, MovieWithId)
    assert_exact(codec.decode(codec.encode({"when": DAY}), 3), {"when": DAY, "id": 3})


def test_records_in_a_nested_typed_dict(spec: str) -> None:
    """An annotation that is a TypedDict leads to the classes that it names."""
    outer = make_dataclass("Outer", [("movie", Movie), ("movies", list[Movie])])
    movie = {"title": "t", "color": Color.RED, "point": Point(1)}

    assert_exact(round_trip(spec, outer(movie, [movie])), outer(movie, [movie]))


@pytest.mark.parametrize("depth", [9, 10, 11, 20, 60, 95, 150])
@pytest.mark.parametrize("form", [list, tuple, frozenset, dict, "optional"])
def test_annotations_nested_deep(spec: str, form: Any, depth: int) -> None:
    """An annotation may be nested as deep as it likes, deeper than values may be, too."""
    annotation: Any = int
    for _ in range(depth):
        if form == "optional":
            annotation = list[annotation] | None
        else:
            annotation = dict[str, annotation] if form is dict else form[annotation]
    cls = make_dataclass("Row", [("a", annotation)])
    value: Any = {} if form is dict else [] if form == "optional" else form()
    # Comparing sets in sets takes time that doubles with each level.
    for _ in range(min(depth, 8 if form is frozenset else 30) - 1):
        value = {"k": value} if form is dict else (list if form == "optional" else form)([value])
    codec = codec_of(spec, cls)

    assert codec.decode(codec.encode(cls(value)), 7) == cls(value)
    assert get_cloner("auto", shape_of(cls), codec)(cls(value)) == cls(value)


# -- generic classes


@pytest.mark.parametrize("cls", [Box, BoxStruct, BoxAttrs, BoxModel, BoxTuple])
def test_generic_classes_with_arguments(spec: str, cls: Any) -> None:
    """What the variables of a class stand for is in its annotations and its name."""
    given = (date, Color) if cls is BoxStruct else date
    shape = shape_of(cls[given])
    # A parametrised model is a class of its own; the others are not.
    make = cls[given] if cls is BoxModel else cls

    assert shape.fields[0].annotation is date
    assert shape.name.startswith(f"{cls.__name__}[date")
    assert shape.cls is make
    codec = get_serializer(spec).codec(shape)
    for content in (DAY, (1, DAY), "text"):
        record = make.model_construct(content=content, id=7) if cls is BoxModel else make(content)
        record = record if cls is BoxModel else rebuilt_with_identity(record)
        assert_exact(codec.decode(codec.encode(record), 7), record)


def rebuilt_with_identity(record: Any) -> Any:
    """Return the record with the identity 7."""
    if isinstance(record, tuple):
        return record._replace(id=7)  # type: ignore[attr-defined]
    record.id = 7
    return record


@pytest.mark.parametrize("cls", [Box, BoxStruct, BoxAttrs, BoxTuple])
def test_records_made_by_an_alias(spec: str, cls: Any) -> None:
    """A record made as ``Box[date](...)`` is stored, cloned and compared as any other."""
    alias = cls[date, Color] if cls is BoxStruct else cls[date]
    shape = shape_of(alias)
    codec = get_serializer(spec).codec(shape)
    record, plain = alias(DAY), cls(DAY)
    outer = make_outer(as_dataclass(cls), record)

    assert codec.encode(record) == codec.encode(plain)
    assert_exact(codec.decode(codec.encode(record), 7), rebuilt_with_identity(cls(DAY)))
    assert_exact(get_cloner("auto", shape, codec)(record), plain)
    if spec != "pickle":
        holder = get_serializer(spec).codec(shape_of(type(outer)))
        assert_exact(holder.decode(holder.encode(outer), 7), outer)


def test_arguments_go_through_bases() -> None:
    """A variable is found where a base of the class was given its argument."""

    class Middle(Box[list[T]], Generic[T]):
        pass

    @dataclass
    class Bottom(Middle[date]):
        own: T | None = None  # type: ignore[valid-type]

    assert shape_of(Bottom).fields[0].annotation == list[date]
    assert shape_of(Bottom).fields[1].annotation == list[list[date]]
    assert shape_of(Bottom).fields[3].annotation == T | None
    assert shape_of(DayBox).fields[0].annotation is date
    assert annotations_of(kinds.DayBoxStruct)["other"] == int | None
    assert shape_of(Box).fields[0].annotation == kinds.T


def test_variables_that_stand_for_several_types() -> None:
    """Other variables than those for one type are replaced where that can be done."""
    parameters, several = typing.ParamSpec("parameters"), typing.TypeVarTuple("several")

    hook: Any = make_dataclass(
        "Hook", [("a", Callable[parameters, int])], bases=(Generic[parameters],)
    )  # type: ignore[arg-type,valid-type]
    row: Any = make_dataclass("Row", [("a", tuple[*several])], bases=(Generic[*several],))  # type: ignore[arg-type,valid-type]

    # Older ones of Python can't put several types for the parameters of a callable.
    assert shape_of(hook[int, str]).fields[0].annotation in (
        Callable[parameters, int],
        Callable[[int, str], int],
    )
    assert shape_of(row[int]).fields[0].annotation == tuple[int]
    assert_exact(round_trip("json", row((1,)), row[int, str]), row((1,)))


def test_the_names_of_generic_classes() -> None:
    """The name of a class with arguments tells them."""
    assert shape_of(Box[dict[str, int]]).name == "Box[dict[str, int]]"
    assert shape_of(BoxModel[int]).name == "BoxModel[int]"


def test_a_bound_leads_to_classes(spec: str) -> None:
    """A type variable's bound and constraints are classes that payloads may name."""
    bound = TypeVar("bound", bound=Animal)
    either = TypeVar("either", Color, Point)
    outer = make_dataclass("Outer", [("a", bound), ("b", either)])
    record = outer(Cat("a", 1), Color.RED)

    assert_exact(round_trip(spec, record), record)


# -- derived classes


def test_derived_classes_come_back(spec: str) -> None:
    """A field annotated with a base class holds records of all classes derived from it."""
    outer = make_dataclass("Zoo", [("one", Animal), ("all", list[Animal])])
    record = outer(Cat("a"), [Animal("b"), Lion("c", mane=Cat("d"))])

    assert_exact(round_trip(spec, record), record)


def test_a_class_derived_later(spec: str) -> None:
    """A class that is derived after the codec was made is found, on both sides."""

    @dataclass
    class Base:
        a: int

    outer = make_dataclass("Outer", [("one", Base)])
    writer, reader = codec_of(spec, outer), codec_of(spec, outer)
    late = make_dataclass("Late", [("b", int)], bases=(Base,))
    late.__qualname__ = "Late"
    late.__module__ = __name__

    if spec == "pickle":
        pytest.skip("pickle needs classes that can be imported")
    assert_exact(reader.decode(writer.encode(outer(late(1, 2))), 1), outer(late(1, 2)))


def test_a_plain_base_class() -> None:
    """A base that is no record class itself leads to the record classes derived from it."""

    class Shape(abc.ABC):
        @abc.abstractmethod
        def area(self) -> float: ...

    @dataclass
    class Square(Shape):
        side: float

        def area(self) -> float:
            return self.side**2

    outer = make_dataclass("Outer", [("shape", Shape)])

    assert_exact(round_trip("json", outer(Square(2.0))), outer(Square(2.0)))


def test_an_abstract_base_class() -> None:
    """An abstract dataclass is left out, and the classes derived from it are not."""

    @dataclass
    class Shape(abc.ABC):
        name: str

        @abc.abstractmethod
        def area(self) -> float: ...

    @dataclass
    class Square(Shape):
        def area(self) -> float:
            return 1.0

    outer = make_dataclass("Outer", [("shape", Shape)])

    assert [cls for cls in reachable(shape_of(outer)).values()] == [Square]
    assert_exact(round_trip("json", outer(Square("a"))), outer(Square("a")))


def test_an_enum_base_class() -> None:
    """An Enum class without members stands for those derived from it."""

    class Named(enum.Enum):
        pass

    class Size(Named):
        BIG = 1

    outer = make_dataclass("Outer", [("size", Named)])

    assert_exact(round_trip("json", outer(Size.BIG)), outer(Size.BIG))


@pytest.mark.parametrize(
    "base", [object, tuple, Any, enum.Enum, msgspec.Struct, pydantic.BaseModel]
)
def test_a_base_that_means_nothing(base: Any) -> None:
    """A payload can't name whatever a program has defined: builtin bases lead to nothing."""
    outer = make_dataclass("Outer", [("one", base)])

    assert reachable(shape_of(outer)) == {}
    with pytest.raises(EncodeError, match="a record of a class that no annotation leads to"):
        codec_of("json", outer).encode(outer(StructPoint(1)))


def test_the_twin_of_a_class_with_slots() -> None:
    """The class that slots=True leaves behind does not stand in the way of the other."""
    gc.disable()
    try:

        @dataclass
        class Base:
            a: int

        @dataclass(slots=True)
        class Thin(Base):
            b: int

        @attrs.define
        class Other(Base):
            c: int = 0

        outer = make_dataclass("Outer", [("one", Base)])
        record = outer(Thin(1, 2))

        assert_exact(round_trip("json", record), record)
        assert sorted(cls.__name__ for cls in reachable(shape_of(outer)).values()) == [
            "Base", "Other", "Thin",
        ]  # fmt: skip
    finally:
        gc.enable()


def test_derived_classes_change_no_names() -> None:
    """A derived class that shares its name with an annotated one gets the longer name."""
    base = make_dataclass("Base", [("a", int)])
    other = make_dataclass("Point", [("a", int)], bases=(base,))
    base.__module__, other.__module__ = __name__, "elsewhere"
    outer = make_dataclass("Outer", [("one", Point), ("two", base)])

    assert reachable(shape_of(outer)) == {"Point": Point, "Base": base, "elsewhere.Point": other}


# -- aliases


def test_older_names_of_classes() -> None:
    """A payload that names a class as it was called is read where the shape knows the name."""
    old_point = make_dataclass("OldPoint", [("x", int)])
    old_color = enum.Enum("OldColor", {"RED": "red"})
    old = make_dataclass("Outer", [("one", old_point), ("two", old_color), ("more", Any)])
    new = make_dataclass("Outer", [("one", Point), ("two", Color), ("more", Any)])
    aliases: dict[str, type] = {"OldPoint": Point, "OldColor": Color}
    json = get_serializer("json")
    data = json.codec(shape_of(old)).encode(old(old_point(1), old_color.RED, [(2,)]))  # type: ignore[attr-defined]

    actual = json.codec(replace(shape_of(new), aliases=aliases)).decode(data, 1)
    assert_exact(actual, new(Point(1), Color.RED, [(2,)]))
    with pytest.raises(
        DecodeError, match=r"names the class OldPoint.*aliases=\{'OldPoint': \.\.\.\}"
    ):
        json.codec(shape_of(new)).decode(data, 1)


def test_an_alias_makes_its_class_known() -> None:
    """A class that only an alias names can be stored and read."""
    shape = replace(shape_of(make_dataclass("Outer", [("any", Any)])), aliases={"Old": Point})
    codec = get_serializer("binary").codec(shape)
    record = shape.cls(Point(1))

    assert_exact(codec.decode(codec.encode(record), 1), record)


def test_a_shape_has_no_aliases_of_its_own() -> None:
    """Aliases come from the program's settings, never from the class."""
    assert shape_of(Point).aliases == {}


# -- names that are hard to resolve


def test_a_class_named_only_for_type_checkers(spec: str) -> None:
    """A class that is imported under TYPE_CHECKING is found where the source has it from."""
    assert shape_of(Visit).fields[0].annotation is Town
    for record in (Visit(Town("a"), {"b": [Town("c", 2)]}, 7), VisitStruct(Town("a"), 7)):
        assert_exact(round_trip(spec, record), record)


SOURCE = """
import typing
from dataclasses import dataclass

try:
    x = 1
except Exception:
    pass
if typing.TYPE_CHECKING:
    import decimal
    import os.path
    import collections.abc as abc
    from .elsewhere import Town as City
    from . import records
    from nowhere import Nothing
    from wsgiref import headers
    print(1)

@dataclass
class Named:
    a: "decimal.Decimal"
    b: "os.PathLike"
    c: "City"
    d: "records.Pair"
    e: "Nothing"
    f: "abc.Sequence[int]"
    g: "int"
    h: "Unheard"
    i: "headers.Headers"
"""


def test_every_form_of_import(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """Each form of import under TYPE_CHECKING is understood; what is not there counts as Any."""
    import collections.abc
    import os

    from tests.support import records

    path = tmp_path / "named.py"
    path.write_text(SOURCE)
    module = types.ModuleType("tests.support.named")
    module.__package__, module.__file__ = "tests.support", str(path)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(SOURCE, str(path), "exec"), vars(module))

    annotations = [f.annotation for f in shape_of(module.Named).fields]
    import wsgiref.headers

    assert annotations == [
        *(Decimal, os.PathLike, Town, records.Pair, Any, collections.abc.Sequence[int], int, Any),
        wsgiref.headers.Headers,
    ]


TYPE_STATEMENTS = """
type Points[X] = dict[str, list[X]]
type Tree = dict[str, Tree] | int | Point
type Even = list[Odd]
type Odd = list[Even] | None

@dataclass
class Row[X]:
    points: Points[X]
    tree: Tree
    even: Even
    x: X | None = None

@dataclass
class Half[X](Row[X]):
    unknown: "NoSuchName" = 1
"""


@pytest.mark.skipif(sys.version_info < (3, 12), reason="Python has the type statement from 3.12 on")
def test_type_statements(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Aliases with and without variables are what they stand for; those in a circle say nothing."""
    # Without what this module imports from __future__, and with it.
    source = (
        TYPE_STATEMENTS
        if spec != "json"
        else f"from __future__ import annotations\n{TYPE_STATEMENTS}"
    )
    module = types.ModuleType(f"{__name__}.with_statements")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    vars(module).update({"dataclass": dataclass, "Point": Point})
    exec(compile(source, "<test>", "exec", dont_inherit=True), vars(module))
    namespace = vars(module)
    row, alias = namespace["Row"], namespace["Points"]
    record = row({"a": [Point(1)]}, {"b": {"c": Point(2)}}, [[[]], None], DAY)

    assert strip(alias[int]) == dict[str, list[int]]
    assert strip(namespace["Tree"]) is Any and strip(namespace["Even"]) is Any
    assert type_text(alias[int]) == "dict[str, list[int]]"
    for generic in (row, namespace["Half"]):
        assert shape_of(generic[Point]).fields[3].annotation == Point | None
    if spec != "pickle":
        assert_exact(round_trip(spec, record, row[Point]), record)
    shape = shape_of(row[Point])
    assert_exact(get_cloner("auto", shape, codec_of("json", row[Point]))(record), record)


def test_aliases_on_every_python() -> None:
    """An alias is what it stands for; one that leads to itself leads to classes all the same."""
    alias_type: Any = type("TypeAliasType", (), {"__value__": None})
    plain, first, second = alias_type(), alias_type(), alias_type()
    plain.__value__ = Annotated[Point, "note"]
    first.__value__ = list[second] | None  # type: ignore[valid-type]
    second.__value__ = dict[str, first] | Color  # type: ignore[valid-type]
    outer = make_dataclass("Outer", [("a", plain), ("b", first), ("c", list[plain])])  # type: ignore[valid-type]
    record = outer(Point(1), [{"k": None}, Color.RED], [Point(2)])

    assert strip(plain) is Point and strip(first) is Any and strip(second) is Any
    assert set(reachable(shape_of(outer))) == {"Point", "Color"}
    assert_exact(round_trip("binary", record), record)
    assert_exact(get_cloner("auto", shape_of(outer), codec_of("json", outer))(record), record)


def test_unhashable_arguments() -> None:
    """An annotation that can't be hashed is no obstacle."""
    outer = make_dataclass("Outer", [("one", Annotated[Box[Annotated[int, {}]], []])])

    assert_exact(round_trip("binary", outer(Box(1))), outer(Box(1)))


# -- what is refused


@pytest.mark.parametrize(
    ("cls", "message"),
    [
        (pydantic.BaseModel, "BaseModel is no record class. Use a dataclass"),
        (list[int], "list is no record class"),
        (typing.List, "no record class"),  # noqa: UP006
        (Color, "Color is no record class"),
        (Generic[T], "no record class"),
    ],
)
def test_what_is_no_record_class(cls: Any, message: str) -> None:
    """What is no record class is refused with what to use."""
    with pytest.raises(RecordTypeError, match=message):
        shape_of(cls)


def test_the_records_are_all_different() -> None:
    """The table of records has one for every form: no two are of one class and equal."""
    assert len({(type(r), repr(r)) for r in RECORDS.values()}) == len(RECORDS)
    assert {shape_of(type(r)).kind for r in RECORDS.values()} == {
        *("dataclass", "struct", "attrs", "pydantic", "namedtuple")
    }
    assert isinstance(shape_of(TuplePoint), Shape) and shape_of(AttrsPoint).has_slots
    assert dataclasses.is_dataclass(DayBox) and field is not None
