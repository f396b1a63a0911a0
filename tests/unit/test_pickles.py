"""What pickle brings back where nested classes have changed since."""

from __future__ import annotations

import enum
from collections import deque
from dataclasses import field, make_dataclass
from typing import Any, NamedTuple

import attrs
import msgspec
import pydantic
import pytest

from memdb._cloners import get_cloner
from memdb.errors import DecodeError, EncodeError
from memdb.serializers import Evolution, by_name, get_serializer, make_decoder, shape_of
from tests.support.evolving import encode, schema_of
from tests.support.exact import assert_exact
from tests.support.python import PICKLES_ENUMS_BY_VALUE

PICKLE = ("pickle", "only")


def made(name: str, *fields: Any) -> Any:
    """Return a dataclass that is no part of a pickle."""
    return make_dataclass(name, fields)


def _dataclass(*fields: Any) -> Any:
    return _public(make_dataclass("In", fields))


def _slots(*fields: Any) -> Any:
    return _public(make_dataclass("In", fields, slots=True))


def _frozen_slots(*fields: Any) -> Any:
    return _public(make_dataclass("In", fields, slots=True, frozen=True))


def _attrs(*fields: Any) -> Any:
    made = {one[0]: attrs.field(type=one[1], **_attrs_default(*one[2:])) for one in fields}
    return _public(attrs.make_class("In", made, slots=True))


def _attrs_default(default: Any = attrs.NOTHING) -> dict[str, Any]:
    is_factory = hasattr(default, "default_factory")
    return {"factory": default.default_factory} if is_factory else {"default": default}


def _struct(*fields: Any) -> Any:
    return _public(msgspec.defstruct("In", [_struct_field(*one) for one in fields]))


def _struct_field(name: str, annotation: Any, default: Any = msgspec.NODEFAULT) -> tuple[Any, ...]:
    if hasattr(default, "default_factory"):
        default = msgspec.field(default_factory=default.default_factory)
    return name, annotation, default


def _keyword_struct(*fields: Any) -> Any:
    made = [_struct_field(*one) for one in fields]
    return _public(msgspec.defstruct("In", made, kw_only=True))


def _model(*fields: Any) -> Any:
    made: dict[str, Any] = {}
    for name, annotation, *default in fields:
        factory = getattr(default[0], "default_factory", None) if default else None
        value = pydantic.Field(default_factory=factory) if factory else (default or [...])[0]
        made[name] = annotation, value
    return _public(pydantic.create_model("In", **made))


def _named_tuple(*fields: Any) -> Any:
    cls: Any = NamedTuple("In", [one[:2] for one in fields])
    # Defaults of a namedtuple are at its end, and shared.
    given = [one[2] for one in fields if len(one) > 2]
    cls.__new__.__defaults__ = tuple(getattr(d, "default_factory", lambda d=d: d)() for d in given)
    names = [one[0] for one in fields if len(one) > 2]
    cls._field_defaults = dict(zip(names, cls.__new__.__defaults__, strict=True))
    return _public(cls)


def _colors(**members: str) -> Any:
    return _public(enum.Enum("Color", members))  # type: ignore[misc]


def _public(cls: Any) -> Any:
    """Put a class to where pickle looks for it."""
    cls.__module__, cls.__qualname__ = __name__, cls.__name__
    globals()[cls.__name__] = cls
    return cls


BY_NAME = [_dataclass, _slots, _attrs, _keyword_struct, _model]
BY_POSITION = [_frozen_slots, _struct, _named_tuple]


def pickled(make: Any, before: list[Any], after: list[Any], values: dict[str, Any]) -> Any:
    """Return a record that holds nested ones in several ways, after their class has changed."""
    record_class = make(*before)
    inner = record_class(**values)
    old = made("Out", ("one", record_class), ("many", list[record_class]), ("by", dict))
    record = old(inner, [inner], {"k": record_class(**values)})
    data, schema = encode(*PICKLE, record), schema_of("pickle", old)
    new_class = make(*after)
    new = made("Out", ("one", new_class), ("many", list[new_class]), ("by", dict), ("id", int, 0))
    decode = make_decoder(get_serializer("pickle"), shape_of(new), schema, Evolution())
    return decode(data, 7)


@pytest.mark.parametrize("make", [*BY_NAME, *BY_POSITION], ids=lambda make: make.__name__)
def test_a_pickled_record_gets_the_fields_that_it_lacks(make: Any) -> None:
    """New fields of a nested class have their defaults in what pickle brings back, each its own."""
    after = [("a", int), ("b", int, 5), ("c", list, field(default_factory=list))]
    actual = pickled(make, [("a", int)], after, {"a": 1})

    for one in (actual.one, actual.many[0], actual.by["k"]):
        assert (one.a, one.b, one.c) == (1, 5, [])
    assert actual.one.c is not actual.by["k"].c or make is _named_tuple
    shape = shape_of(type(actual))
    assert_exact(get_cloner("auto", shape, get_serializer("pickle").codec(shape))(actual), actual)


@pytest.mark.parametrize("make", [*BY_NAME, *BY_POSITION], ids=lambda make: make.__name__)
def test_a_pickled_record_lacks_what_is_required(make: Any) -> None:
    """A new field of a nested class that has no default is an error with its path."""
    with pytest.raises(DecodeError, match=r"^one\.c: .*default") as caught:
        pickled(make, [("a", int)], [("a", int), ("c", int)], {"a": 1})

    assert caught.value.field == "one.c"


@pytest.mark.parametrize("make", BY_NAME, ids=lambda make: make.__name__)
def test_pickled_fields_are_found_by_name(make: Any) -> None:
    """What pickle keeps by name may change its order."""
    actual = pickled(make, [("a", int), ("b", str)], [("b", str), ("a", int)], {"a": 1, "b": "x"})

    assert (actual.one.a, actual.one.b) == (1, "x")


@pytest.mark.parametrize("make", BY_POSITION, ids=lambda make: make.__name__)
@pytest.mark.parametrize("names", [["b", "a"], ["c", "a", "b"], ["b"]], ids=" ".join)
def test_pickled_fields_are_not_mixed_up(make: Any, names: list[str]) -> None:
    """What pickle keeps by position is never read as other fields."""
    defaults = [] if "c" not in names else [0]
    after = [(name, int, *defaults) for name in names]
    with pytest.raises(DecodeError, match=r"^one: .*order"):
        pickled(make, [("a", int), ("b", int)], after, {"a": 1, "b": 2})


def test_a_pickled_record_of_a_file_that_knows_nothing_of_nested_classes() -> None:
    """Where the schema describes no nested classes each record is looked at."""
    old_class = _dataclass(("a", int))
    old = made("Out", ("i", old_class))
    data = encode(*PICKLE, old(old_class(1)))
    schema = schema_of("pickle", old)
    del schema["records"]
    new = made("Out", ("i", _dataclass(("a", int), ("c", list, field(default_factory=list)))))
    for shape in (shape_of(new), shape_of(None)):
        actual = make_decoder(get_serializer("pickle"), shape, schema, Evolution())(data, 7)

        assert (actual["i"] if shape.kind == "dict" else actual.i).c == []


@pytest.mark.parametrize("is_described", [True, False])
def test_a_pickle_of_another_form_of_the_record_is_completed(is_described: bool) -> None:
    """On the way over a dict too, before an upgrade sees it."""
    old_class = _dataclass(("a", int))
    old = made("Out", ("i", old_class))
    data, schema = encode(*PICKLE, old(old_class(1))), schema_of("pickle", old)
    if not is_described:
        del schema["records"]
    new = made("Out", ("i", _dataclass(("a", int), ("c", int, 3))), ("sum", int))

    def upgrade(record: dict[str, Any]) -> None:
        record["sum"] = record["i"].a + record["i"].c

    evolution = Evolution(upgrade=upgrade)
    actual = make_decoder(get_serializer("pickle"), shape_of(new), schema, evolution)(data, 7)

    assert actual.sum == 4


class _Refusing:
    """Has no value for a reason of its own."""

    def __get__(self, record: Any, cls: Any = None) -> Any:
        raise RuntimeError("refused")


def test_a_pickled_record_that_can_not_be_looked_at() -> None:
    """Whatever code of the nested class does, what comes out is a DecodeError."""
    old_class = _dataclass(("a", int))
    old = made("Out", ("i", old_class))
    data, schema = encode(*PICKLE, old(old_class(1))), schema_of("pickle", old)
    new_class = _dataclass(("a", int), ("c", int))
    new_class.c = _Refusing()
    new = made("Out", ("i", new_class))
    decode = make_decoder(get_serializer("pickle"), shape_of(new), schema, Evolution())
    with pytest.raises(DecodeError, match=r"can't be unpickled as Out \(RuntimeError\)"):
        decode(data, 7)


def test_records_that_are_none_are_left_alone() -> None:
    """An object of a class that can't be a record class is not looked into."""
    for base in (list, Exception):
        old_class = _public(make_dataclass("In", [("a", int)], bases=(base,)))
        old = made("Out", ("i", Any), ("j", _public(make_dataclass("Other", [("a", int)]))))
        data = encode(*PICKLE, old(old_class(1), globals()["Other"](1)))
        schema = schema_of("pickle", old)
        new = make_dataclass(
            "Out",
            [("i", Any), ("j", _public(make_dataclass("Other", [("b", int, 5), ("a", int, 0)])))],
        )
        decode = make_decoder(get_serializer("pickle"), shape_of(new), schema, Evolution())
        actual = decode(data, 7)

        assert (actual.i.a, actual.j.b) == (1, 5)


def test_a_pickle_that_its_class_refuses() -> None:
    """An exception of the record's own class is an error that names it."""
    old, new = made("Out", ("v", int)), made("Out", ("v", int))

    def refuse(record: Any, value: int) -> None:
        raise RuntimeError("refused")

    new.v = property(fset=refuse)
    codec = get_serializer("pickle").codec(shape_of(new))
    with pytest.raises(DecodeError, match=r"can't be unpickled as Out \(RuntimeError\)"):
        codec.decode(encode(*PICKLE, old(1)), 7)


def test_removed_fields_of_a_pickled_model() -> None:
    """A field that a nested model has no more is neither there nor among those that were set."""
    before, after = [("a", int), ("gone", int)], [("a", int)]
    actual = pickled(_model, before, after, {"a": 1, "gone": 2})

    assert_exact(actual.one, globals()["In"](a=1))
    assert_exact(pickled(_dataclass, before, after, {"a": 1, "gone": 2}).one, globals()["In"](1))


def test_a_cloner_meets_a_record_that_lacks_a_field() -> None:
    """A record in a field annotated Any, of a class that has changed, comes back as it is."""
    for make in (_dataclass, _slots, _attrs):
        old_class = make(("a", int))
        out = made("Out", ("x", Any), ("many", list[Any]))
        data = encode(*PICKLE, out(old_class(1), [old_class(2)]))
        make(("a", int), ("c", int))
        shape = shape_of(out)
        codec = get_serializer("pickle").codec(shape)
        record = codec.decode(data, 7)
        cloner = get_cloner("auto", shape, codec)
        if make is _attrs:
            # It can't be copied by anybody.
            with pytest.raises(DecodeError, match="lacks the value of a field"):
                cloner(record)
            continue
        clone = cloner(record)
        assert (clone.x.a, clone.many[0].a, hasattr(clone.x, "c")) == (1, 2, False)
        assert clone.x is not record.x and clone.many[0] is not record.many[0]


@pytest.mark.parametrize("depth", [60, 200, 400, 700])
def test_values_nested_very_deep(depth: int) -> None:
    """What pickle has taken can be read and cloned, deeper than Python itself can go, too."""
    for nest in (lambda v: (v, []), lambda v: frozenset({v}), lambda v: deque([v]), list):
        value: Any = ()
        for _ in range(depth):
            value = [value] if nest is list else nest(value)
        for record in (made("Out", ("x", Any))(value), {"x": value}):
            shape = shape_of(type(record))
            codec = get_serializer("pickle").codec(shape)
            try:
                read = codec.decode(codec.encode(record), 7)
            except EncodeError:
                # Refused when it is stored, which is as good.
                continue
            clone = get_cloner("auto", shape, codec)(read)
            inner = clone["x"] if isinstance(clone, dict) else clone.x
            assert inner is not value
            for _ in range(depth):
                inner = next(iter(inner))
            assert inner == ()


@pytest.mark.skipif(not PICKLES_ENUMS_BY_VALUE, reason="this Python pickles members by name")
def test_a_pickled_member_that_is_gone() -> None:
    """The path of a member that is not there any more, by value or name, and what to do."""
    for mark in (lambda cls: cls, by_name):
        color = mark(_colors(RED="red", GREEN="green"))
        old = made("Car", ("color", Any), ("parts", dict[str, list[Any]]), ("all", Any, None))
        nested = encode(*PICKLE, old(color.RED, {"door": [color.RED, color.GREEN]}))
        key = encode(*PICKLE, old(color.RED, {}, {color.GREEN}))
        mark(_colors(RED="red"))
        decode = get_serializer("pickle").codec(shape_of(old)).decode
        for data, path in ((nested, "parts['door'][1]"), (key, "all{}")):
            with pytest.raises(DecodeError, match="Color has no member of the stored") as caught:
                decode(data, 7)

            assert caught.value.field == path
            assert str(caught.value).startswith(f"{path}: ")


def test_a_pickled_class_that_is_gone() -> None:
    """The path of a record of a class that is not there any more, and the name of the class."""
    inner = _dataclass(("a", int))
    old = made("Out", ("x", Any))
    data = encode(*PICKLE, old([1, inner(1)]))
    del globals()["In"]
    with pytest.raises(DecodeError, match=rf"^x\[1\]: the class {__name__}\.In is not") as caught:
        get_serializer("pickle").codec(shape_of(old)).decode(data, 7)

    assert caught.value.field == "x[1]"
