"""Shape: what is known of a record class of each kind."""

import abc
import dataclasses
import enum
import typing
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Annotated, Any, Generic, Literal, TypeVar

import attrs
import msgspec
import pydantic
import pytest

from memdb.errors import RecordTypeError
from memdb.serializers import MISSING, get_serializer, shape_of, writer_schema
from memdb.serializers._shape import reachable, strip, type_text
from memdb.serializers._writer import parse_type
from tests.support.exact import assert_exact
from tests.support.records import (
    Address,
    AttrsFrozen,
    AttrsOpen,
    AttrsRecord,
    Color,
    Derived,
    FrozenSlotted,
    FrozenStruct,
    KeywordOnly,
    Pair,
    Plain,
    Slotted,
    Struct,
    TextId,
    Watched,
    Wide,
)

T = TypeVar("T")


@dataclass
class Box(Generic[T]):
    value: T
    id: int = 0


@dataclass
class Half:
    """One annotation can be resolved, the other can't."""

    known: "date"
    unknown: "NoSuchName"  # type: ignore[name-defined] # noqa: F821
    nothing: None = None


@pytest.mark.parametrize(
    ("cls", "kind", "identity", "is_frozen", "has_slots"),
    [
        (Plain, "dataclass", "id", False, False),
        (Slotted, "dataclass", "id", False, True),
        (FrozenSlotted, "dataclass", "id", True, True),
        (TextId, "dataclass", None, False, False),
        (Struct, "struct", "id", False, True),
        (FrozenStruct, "struct", "id", True, True),
        (Pair, "namedtuple", "id", True, True),
        (AttrsRecord, "attrs", "id", False, True),
        (AttrsFrozen, "attrs", None, True, True),
        (AttrsOpen, "attrs", None, False, False),
        (None, "dict", "id", False, False),
        (dict, "dict", "id", False, False),
    ],
)
def test_kinds(
    cls: type | None, kind: str, identity: str | None, is_frozen: bool, has_slots: bool
) -> None:
    """Each kind of record class is told, with its identity, frozenness and slots."""
    shape = shape_of(cls)

    assert (shape.kind, shape.identity) == (kind, identity)
    assert (shape.is_frozen, shape.has_slots) == (is_frozen, has_slots)


def test_fields_of_a_dataclass() -> None:
    """Fields come in order of definition, inherited ones first, with their defaults."""
    shape = shape_of(Derived)

    assert [f.name for f in shape.fields] == ["a", "b", "c", "d", "e"]
    assert [f.required for f in shape.fields] == [True, False, False, False, False]
    assert (shape.fields[1].default, shape.fields[2].default) == ("b", MISSING)
    assert shape.fields[2].default_factory is list
    assert shape.fields[2].annotation == list[Address]
    assert not shape_of(Watched).fields[1].in_init
    assert repr(MISSING) == "MISSING"


def test_fields_of_the_other_kinds() -> None:
    """Defaults are found in Structs, attrs classes and named tuples too."""
    struct = {f.name: f for f in shape_of(Struct).fields}
    attrs_fields = {f.name: f for f in shape_of(AttrsRecord).fields}
    pair = {f.name: f for f in shape_of(Pair).fields}

    assert struct["tags"].make_default() == []
    assert struct["name"].required
    assert attrs_fields["_hidden"].default == 1
    assert attrs_fields["tags"].make_default() == []
    assert shape_of(AttrsOpen).fields[1].required
    assert (pair["left"].required, pair["right"].default) == (True, "r")


def test_a_required_field_has_no_default() -> None:
    """Asking a required field for its default is an error."""
    with pytest.raises(LookupError):
        shape_of(Pair).fields[0].make_default()


def test_only_payload_fields_are_stored() -> None:
    """The identity is not among the fields of the payload."""
    assert [f.name for f in shape_of(Pair).payload_fields] == ["left", "right"]


@pytest.mark.parametrize(
    ("annotation", "identity"),
    [
        (int, "id"),
        (int | None, "id"),
        (Annotated[int, "key"], "id"),
        (typing.NewType("Key", int), "id"),
        (str, None),
        (int | str, None),
        (Any, None),
        (bool, None),
    ],
)
def test_the_identity_is_an_int(annotation: Any, identity: str | None) -> None:
    """Only a field named id whose annotation is int, or int or None, carries the identity."""
    assert shape_of(dataclasses.make_dataclass("R", [("id", annotation)])).identity == identity


def test_annotations_that_cannot_be_resolved() -> None:
    """An annotation that can't be resolved counts as Any; the others keep their types."""
    assert [f.annotation for f in shape_of(Half).fields] == [date, Any, type(None)]


def test_a_generic_class() -> None:
    """A generic dataclass is a record class whose type variables hold anything."""
    codec = get_serializer("binary").codec(shape_of(Box))

    assert_exact(codec.decode(codec.encode(Box((1, "a"))), 3), Box((1, "a"), 3))


class Abstract(abc.ABC):
    @abc.abstractmethod
    def method(self) -> None: ...


@pytest.mark.parametrize(
    ("cls", "message"),
    [
        (int, "int is no record class. Use a dataclass"),
        (tuple, "tuple is no record class"),
        (msgspec.Struct, "Struct is no record class"),
        ("Plain", "'Plain' is no record class"),
        (list[int], "list is no record class"),
        (pydantic.BaseModel, "BaseModel is no record class"),
        (enum.Enum, "Enum is no record class"),
        (Color, "Color is no record class"),
        (dataclass(type("Ab", (Abstract,), {})), "Ab can't be a record class"),
        (dataclass(type("Sub", (dict,), {})), "Sub can't be a record class"),
    ],
)
def test_what_is_no_record_class(cls: Any, message: str) -> None:
    """A class without fields, or without instances, is refused with what to use."""
    with pytest.raises(RecordTypeError, match=message):
        shape_of(cls)


def test_the_classes_that_a_payload_may_name() -> None:
    """The annotations lead to record and Enum classes, through containers and other records."""
    assert set(reachable(shape_of(Wide))) == {
        *("Color", "Level", "Text", "Address", "BetterAddress", "Pair", "Inner")
    }


class Outer:
    class Color(enum.Enum):
        GREEN = "green"


def test_classes_of_the_same_name() -> None:
    """Classes that share a qualified name are told apart by their modules."""
    other = enum.Enum("Color", "RED", module="elsewhere", qualname="Color")
    cls = dataclasses.make_dataclass("R", [("a", Color), ("b", other), ("c", Any)])
    shape = shape_of(cls)
    codec = get_serializer("json").codec(shape)
    record = cls(Color.RED, other.RED, (1,))  # type: ignore[attr-defined]

    assert set(reachable(shape)) == {"tests.support.records.Color", "elsewhere.Color"}
    assert_exact(codec.decode(codec.encode(record), 1), record)


def test_a_name_that_became_ambiguous_or_plain() -> None:
    """A class is found by the end of its name when others like it came or went."""
    other = enum.Enum("Color", "RED", module="elsewhere", qualname="Color")
    many = dataclasses.make_dataclass("R", [("a", Color), ("c", Any), ("b", other | None, None)])
    one = dataclasses.make_dataclass("R", [("a", Color), ("c", Any)])
    json = get_serializer("json")
    old = json.codec(shape_of(many)).encode(many(Color.RED, (1,)))

    assert json.codec(shape_of(one)).decode(old, 1).a is Color.RED


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (int, "int"),
        (None, "None"),
        (int | None, "int | None"),
        (typing.Optional[date], "date | None"),  # noqa: UP045
        (dict[str, list[Decimal]], "dict[str, list[Decimal]]"),
        (tuple[int, ...], "tuple[int, ...]"),
        (tuple[()], "tuple[()]"),
        (typing.List[int], "list[int]"),  # noqa: UP006
        (Annotated[int, object()], "int"),
        (Literal["a", 1, Color.RED], "Literal['a', 1, Color.RED]"),
        (Any, "Any"),
        (T, "T"),
        (Box[int], "Box[int]"),
        (Outer.Color, "Outer.Color"),
    ],
)
def test_type_texts(annotation: Any, text: str) -> None:
    """An annotation's text is short and the same in every process."""
    assert type_text(annotation) == text


@pytest.mark.parametrize(
    "annotation",
    [
        *(int, int | None, dict[str, list[Decimal]], tuple[int, ...], frozenset[date], type(None)),
        Literal["a", 1],
    ],
)
def test_type_texts_can_be_read(annotation: Any) -> None:
    """The text of a standard type leads back to it."""
    assert parse_type(type_text(annotation)) == annotation


@pytest.mark.parametrize("text", ["Color", "Literal[x]", "int[", "os.system('x')", "x()", "1"])
def test_other_texts_are_any(text: str) -> None:
    """A text that is no standard type counts as Any; nothing in it is evaluated."""
    assert parse_type(text) is Any


def test_a_type_alias_stands_for_its_value() -> None:
    """An alias made by a type statement, which Python has from 3.12 on, is what it stands for."""
    alias = type("TypeAliasType", (), {"__value__": Annotated[int, "key"]})()

    assert strip(alias) is int


def test_the_writer_schema() -> None:
    """A writer schema names the serializer, the class, and the payload's fields in order."""
    assert writer_schema(shape_of(Pair), get_serializer("binary")) == {
        "serializer": "binary",
        "class": "Pair",
        "kind": "namedtuple",
        "fields": [["left", "int"], ["right", "str"]],
    }


def test_keyword_only_fields() -> None:
    """Keyword-only fields of a dataclass keep their place."""
    assert [f.name for f in shape_of(KeywordOnly).fields] == ["a", "b"]


def test_immutable_defaults_are_shared_and_others_copied() -> None:
    """A default is copied unless it can't be changed."""
    cls = attrs.make_class(
        "R", {"a": attrs.field(default=[1]), "b": attrs.field(default=Color.RED)}
    )
    first, second = shape_of(cls).fields

    assert first.make_default() == [1]
    assert first.make_default() is not first.make_default()
    assert second.make_default() is Color.RED
