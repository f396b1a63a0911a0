"""Models of pydantic: what they hold besides their fields, and how they are made."""

from __future__ import annotations

import typing
from dataclasses import make_dataclass
from decimal import Decimal
from typing import Annotated, Any

import pydantic
import pytest

from memdb._cloners import get_cloner
from memdb.errors import DecodeError, EncodeError
from memdb.serializers import Codec, get_serializer, shape_of, writer_schema
from memdb.serializers._shape import type_text
from tests.support import kinds
from tests.support.exact import assert_exact
from tests.support.kinds import (
    DAY,
    RECORDS,
    Color,
    FrozenModel,
    FrozenOpenModel,
    ListModel,
    Model,
    OpenModel,
    Point,
    PointsModel,
)

SPECS = ("binary", "msgpack", "json", "pickle")


@pytest.fixture(params=SPECS)
def spec(request: pytest.FixtureRequest) -> str:
    """Return the name of each serializer in turn."""
    name: str = request.param
    return name


def codec_of(spec: str, cls: Any) -> Codec:
    """Return a codec for a class."""
    return get_serializer(spec).codec(shape_of(cls))


def round_trip(spec: str, record: Any) -> Any:
    """Return a record after encoding and decoding."""
    codec = codec_of(spec, type(record))
    return codec.decode(codec.encode(record), 7)


def is_exact_tier(record: Any) -> bool:
    """Whether a record is too unusual for the fast tier."""
    return codec_of("msgpack", type(record)).encode(record).startswith(b"\xc1")


def test_no_validator_runs(spec: str) -> None:
    """Neither a validator nor a constraint of a model looks at what is decoded or cloned."""
    record = RECORDS["pydantic unchecked"]
    before = Model.validated
    shape = shape_of(Model)
    codec = get_serializer(spec).codec(shape)

    assert codec.decode(codec.encode(record), 7).x == (1,)
    assert get_cloner("auto", shape, codec)(record).x == (1,)
    assert Model.validated == before


def test_the_set_fields_of_a_model(spec: str) -> None:
    """Which fields were set is kept, in a nested model too; the identity counts as set."""
    inner = TreeOf(label="b")
    record = TreeOf(label="a", inner=inner, id=0)
    actual = round_trip(spec, record)

    assert actual.model_fields_set == {"label", "inner", "id"}
    assert actual.inner.model_fields_set == {"label"}
    assert round_trip(spec, inner).model_fields_set == {"label", "id"}
    assert round_trip(spec, TreeOf.model_construct(set(), label="a")).model_fields_set == {"id"}


class TreeOf(pydantic.BaseModel):
    label: str
    inner: TreeOf | None = None
    id: int = 0


def test_only_an_unusual_model_needs_the_exact_tier() -> None:
    """The fast tier takes a model all of whose fields are set, but for the identity."""
    full = {"label": "a", "inner": None}

    assert not is_exact_tier(TreeOf(**full))
    assert not is_exact_tier(TreeOf(**full, id=3))
    assert not is_exact_tier(TreeOf(label="a", inner=TreeOf(**full, id=3)))
    assert is_exact_tier(TreeOf(label="a"))
    assert is_exact_tier(TreeOf(label="a", inner=TreeOf(**full)))
    assert is_exact_tier(OpenModel(x=1, color=Color.RED, more=1))


def test_extra_values_of_a_model(spec: str) -> None:
    """Values under names that a model does not declare are kept, with their own types."""
    record = OpenModel(x=1, more=[DAY], z=Decimal("1.0"))
    outer = make_dataclass("Outer", [("inner", OpenModel)])(record)

    assert round_trip(spec, record).__pydantic_extra__ == {"more": [DAY], "z": Decimal("1.0")}
    assert round_trip(spec, outer).inner.more == [DAY]
    assert round_trip(spec, RECORDS["pydantic no extra"]).__pydantic_extra__ == {}


def test_extra_values_are_dropped_where_none_are_allowed(spec: str) -> None:
    """A model that no longer allows further values is read without them."""
    data = codec_of(spec, OpenModel).encode(OpenModel(x=1, more=1))
    closed = pydantic.create_model("OpenModel", x=(int, ...), color=(Color, Color.RED))

    actual = codec_of(spec, closed).decode(data, 1)
    assert (actual.x, actual.__pydantic_extra__) == (1, None)


@pytest.mark.parametrize(
    "state",
    [
        *({"__pydantic_fields_set__": bad} for bad in (5, {"x": 1}, ["tuple", "x"], ["list", 1])),
        *({"__pydantic_extra__": bad} for bad in (5, "x", ["list", "x"], ["dict", [1, 2]])),
    ],
    ids=repr,
)
def test_state_that_no_model_has(state: dict[str, Any]) -> None:
    """A payload that says of a model what can't be so is an error, with and without its class."""
    outer = make_dataclass("Outer", [("inner", OpenModel)])
    for name in ("binary", "json", "msgpack"):
        serializer: Any = get_serializer(name)
        fields = {"x": 1, "color": ["enum", "Color", "red"], **state}
        nested = {"inner": ["record", "OpenModel", fields]}
        for cls, plain in ((OpenModel, fields), (outer, nested)):
            data = serializer.exact_bytes(plain)
            with pytest.raises(DecodeError):
                codec_of(name, cls).decode(data, 7)
            if "__pydantic_extra__" in state:
                schema = writer_schema(shape_of(cls), serializer)
                with pytest.raises(DecodeError, match="of a pydantic model what can't be so"):
                    serializer.codec(shape_of(None), schema).decode(data, 7)


def test_private_attributes_are_defaults(spec: str) -> None:
    """Private attributes come back as their defaults, each record having its own."""
    record = Model(ex=1)
    record._cached["a"] = 1
    first, second = round_trip(spec, record), round_trip(spec, record)
    first._cached["b"] = 2

    assert second._cached == {}
    assert RECORDS["pydantic frozen"].__pydantic_private__ is None
    assert round_trip(spec, RECORDS["pydantic frozen"]).__pydantic_private__ is None


def test_a_decoded_model_is_a_model(spec: str) -> None:
    """A decoded model can be shown, dumped, validated, compared, copied and changed."""
    actual = round_trip(spec, Model(ex=1))

    assert actual == Model(ex=1, id=7) and repr(actual) == repr(Model(ex=1, id=7))
    assert actual.model_dump() == Model(ex=1, id=7).model_dump()
    assert actual.model_copy(deep=True) == actual and actual.twice == 2
    actual.y = Decimal(3)
    assert round_trip(spec, ListModel([DAY])).model_dump_json() == '["2000-01-02"]'


def test_clones_of_models_share_nothing() -> None:
    """What can change in a clone, set fields, private and further values too, is its own."""
    record = FrozenOpenModel(x=1, more=[1])
    record._note.append("n")
    for cls_record in (record, Model(ex=1), TreeOf(label="a", inner=TreeOf(label="b"))):
        shape = shape_of(type(cls_record))
        clone = get_cloner("auto", shape, get_serializer("json").codec(shape))(cls_record)

        assert_exact(clone, cls_record)
        assert clone is not cls_record
        assert clone.__pydantic_fields_set__ is not cls_record.__pydantic_fields_set__
    shape = shape_of(FrozenOpenModel)
    clone = get_cloner("auto", shape, get_serializer("json").codec(shape))(record)
    clone._note.append("other")
    clone.more.append(2)
    assert (record._note, record.more) == (["n"], [1])  # type: ignore[attr-defined]


def test_the_field_cloner_copies_what_a_model_holds_besides_fields() -> None:
    """A shallow clone has dicts of its own for private and further values."""
    record = FrozenOpenModel(x=1, more=[1])
    shape = shape_of(FrozenOpenModel)
    clone = get_cloner("fields", shape, get_serializer("json").codec(shape))(record)

    assert_exact(clone, record)
    assert clone.__pydantic_extra__ is not record.__pydantic_extra__
    assert clone.__pydantic_private__ is not record.__pydantic_private__


def test_an_immutable_model_is_shared() -> None:
    """A frozen model with nothing but immutable fields is its own clone."""
    record = FrozenModel(x=1, names=("a",))
    shape = shape_of(FrozenModel)

    assert get_cloner("auto", shape, get_serializer("json").codec(shape))(record) is record


def test_fields_of_a_model() -> None:
    """Annotations carry their constraints, and defaults are found, as of the other kinds."""

    class Full(pydantic.BaseModel):
        a: int = pydantic.Field(gt=1)
        b: list[int] = pydantic.Field(default_factory=list)
        c: int = pydantic.Field(default_factory=lambda data: data["a"])
        d: Annotated[str, "note"] = "d"

    shape = shape_of(Full)

    assert (shape.kind, shape.has_slots, shape.is_frozen) == ("pydantic", False, False)
    # Older ones of pydantic have no factories that take the data.
    takes_data = hasattr(Full.model_fields["c"], "default_factory_takes_validated_data")
    assert [f.required for f in shape.fields] == [True, False, takes_data, False]
    assert typing.get_origin(shape.fields[0].annotation) is Annotated
    assert type_text(shape.fields[3].annotation) == "str"
    assert shape.fields[1].make_default() == []
    assert shape_of(FrozenModel).is_frozen
    assert [f.make_default() for f in shape_of(kinds.PydanticDataclass).fields[1:]] == [[], 3, 0]


def test_private_attributes_of_every_form() -> None:
    """A private attribute may have no default, a default that is copied, or a factory."""

    class Full(pydantic.BaseModel):
        a: int
        _none: int
        _list: list[int] = [1]
        _made: list[int] = pydantic.PrivateAttr(default_factory=lambda: [2])

    first, second = round_trip("json", Full(a=1)), round_trip("json", Full(a=1))
    first._list.append(3)
    first._made.append(3)

    assert second.__pydantic_private__ == {"_list": [1], "_made": [2]}


def test_a_private_attribute_made_from_the_fields() -> None:
    """A factory that takes the values of the fields, where pydantic has that, gets them."""
    takes_data = hasattr(pydantic.fields.ModelPrivateAttr, "default_factory_takes_validated_data")
    if not takes_data:
        pytest.skip("this pydantic has no such factories")

    class Full(pydantic.BaseModel):
        a: int
        _twice: int = pydantic.PrivateAttr(default_factory=lambda data: data["a"] * 2)

    assert round_trip("json", Full(a=4))._twice == 8


class Unfinished(pydantic.BaseModel):
    a: int
    b: list[NoSuchName] = []  # type: ignore[name-defined] # noqa: F821


def test_a_model_that_names_what_is_nowhere() -> None:
    """What a model names and nobody defines counts as Any, as for the other kinds."""
    assert [f.annotation for f in shape_of(Unfinished).fields] == [int, Any]


def test_a_model_without_fields() -> None:
    """A model may have no fields at all."""
    empty = pydantic.create_model("Empty")

    for spec in SPECS:
        assert_exact(round_trip(spec, empty()), empty())


def test_further_values_lead_to_classes(spec: str) -> None:
    """The annotation of a model's further values names the classes that may be in them."""
    record = PointsModel(p=Point(1))

    assert_exact(round_trip(spec, record), record)
    assert round_trip(spec, record).p == Point(1)


def test_a_model_that_names_a_later_one() -> None:
    """A model is read once the class that it names is defined."""
    assert shape_of(Early).fields[0].annotation == Late | None
    assert_exact(round_trip("json", Early(late=Late(x=1))), Early(late=Late(x=1)))


class Early(pydantic.BaseModel):
    late: Late | None = None


class Late(pydantic.BaseModel):
    x: int = 0


def test_a_missing_value_of_a_model_is_refused() -> None:
    """A model that was made without a required field is refused with the field's name."""
    with pytest.raises(EncodeError, match=r"^x: .* tests\.support\.kinds\.Model\. Set it"):
        codec_of("json", Model).encode(Model.model_construct(y=1))
