"""A random class becomes another random class, and a naive model says what its records become."""

import enum
from collections import Counter, OrderedDict, deque
from dataclasses import dataclass, make_dataclass, replace
from datetime import date
from decimal import Decimal
from typing import Any, NamedTuple

import attrs
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memdb.serializers import Evolution, get_serializer, make_decoder, shape_of
from memdb.serializers._shape import kind_of
from tests.support.evolving import encode, schema_of
from tests.support.exact import assert_exact
from tests.support.strategies import record_classes, records_of


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class OldPart:
    """The nested class as it was."""

    size: int
    day: date
    gone: str


@dataclass
class NewPart:
    """And as it is: a field retyped, one removed, one added, in another order."""

    day: date
    size: float
    note: str = "none"


OldPart.__qualname__ = NewPart.__qualname__ = "Part"

parts = st.builds(OldPart, st.integers(-1000, 1000), st.dates(), st.text(max_size=3))


def _new_part(part: OldPart) -> NewPart:
    return NewPart(part.day, float(part.size))


class Kind(NamedTuple):
    """A type of fields: how it was, what it is now, and what its values become."""

    old: Any
    values: st.SearchStrategy[Any]
    new: Any
    becomes: Any


def _same(value: Any) -> Any:
    return value


#: What a field may be, and become without a word.
KINDS = [
    Kind(str, st.text(max_size=5), str, _same),
    Kind(int, st.integers(), int, _same),
    Kind(float, st.floats(allow_nan=False) | st.integers(-5, 5), float, _same),
    Kind(date, st.dates(), date | None, _same),
    Kind(int, st.integers(-(2**53), 2**53), float, float),
    Kind(bool, st.booleans(), int, int),
    Kind(int | None, st.none() | st.integers(), int | None | str, _same),
    Kind(
        list[int],
        st.lists(st.integers(), max_size=3),
        tuple[Decimal, ...],
        lambda items: tuple(map(Decimal, items)),
    ),
    Kind(Color, st.sampled_from(Color), str, lambda member: member.value),
    Kind(str, st.sampled_from(["red", "blue"]), Color, Color),
    Kind(bytes, st.binary(max_size=3), bytearray, bytearray),
    Kind(OldPart, parts, NewPart, _new_part),
    Kind(OldPart | None, st.none() | parts, NewPart | None, lambda p: p and _new_part(p)),
    Kind(
        list[OldPart],
        st.lists(parts, max_size=2),
        list[NewPart],
        lambda items: [_new_part(item) for item in items],
    ),
    Kind(
        dict[str, OldPart],
        st.dictionaries(st.text(max_size=2), parts, max_size=2),
        dict[str, NewPart],
        lambda items: {key: _new_part(item) for key, item in items.items()},
    ),
]

#: Fits none of the types above.
MISFIT = ("misfit", 1)


@st.composite
def classes(draw: st.DrawFn, fields: list[tuple[str, Any]], defaults: dict[str, Any]) -> Any:
    """Return a class of any library with the fields in this order; keyword-only where it can be."""
    library = draw(st.sampled_from(["dataclass", "frozen", "slots", "struct", "attrs"]))
    if library == "struct":
        specs: list[Any] = [
            (name, annotation, defaults[name]) if name in defaults else (name, annotation)
            for name, annotation in fields
        ]
        return msgspec.defstruct("Record", specs, kw_only=True)
    if library == "attrs":
        return attrs.make_class(
            "Record",
            {
                name: attrs.field(type=annotation, default=defaults.get(name, attrs.NOTHING))
                for name, annotation in fields
            },
            kw_only=True,
        )
    options: dict[str, Any] = {
        "dataclass": {},
        "frozen": {"frozen": True},
        "slots": {"slots": True},
    }
    specs = [
        (name, annotation, defaults[name]) if name in defaults else (name, annotation)
        for name, annotation in fields
    ]
    return make_dataclass("Record", specs, kw_only=True, **options[library])


class Case(NamedTuple):
    """One evolution of a class, with a record and what it must become."""

    record: Any
    cls: Any
    declared: Evolution
    expected: Any


@st.composite
def evolutions(draw: st.DrawFn) -> Case:
    """Return a class that changes in any of the ways there are."""
    old_fields: list[tuple[str, Any]] = []
    new_fields: list[tuple[str, Any]] = []
    stored: dict[str, Any] = {}
    expected: dict[str, Any] = {}
    renames: dict[str, str] = {}
    converters: dict[str, Any] = {}
    for number in range(draw(st.integers(1, 5))):
        name = f"f{number}"
        kind = draw(st.sampled_from(KINDS))
        value = draw(kind.values)
        fate = draw(st.sampled_from(["keep", "keep", "remove", "rename", "convert", "misfit"]))
        old_fields.append((name, kind.old))
        stored[name] = value
        if fate == "remove":
            continue
        new_name = name
        if fate == "rename" or (fate == "convert" and draw(st.booleans())):
            new_name = renames[name] = f"new_{number}"
        if fate == "convert":
            # Not what any value is, so that the model need not know what a converter is given.
            new_fields.append((new_name, frozenset[int]))
            converters[new_name] = lambda value, number=number: frozenset({number})
            expected[new_name] = frozenset({number})
            continue
        new_fields.append((new_name, kind.new))
        if fate == "misfit":
            stored[name] = expected[new_name] = MISFIT
        else:
            expected[new_name] = kind.becomes(value)
    defaults = {f"added_{n}": n for n in range(draw(st.integers(0, 2)))}
    new_fields += [(name, int) for name in defaults]
    if draw(st.booleans()):
        old_fields.append(("id", int))
        stored["id"] = 0
    if draw(st.booleans()):
        new_fields.append(("id", int))
        expected["id"] = 7
    old = draw(classes(draw(st.permutations(old_fields)), {}))
    new = draw(classes(draw(st.permutations(new_fields)), defaults))
    declared = Evolution(renames=renames, converters=converters)
    return Case(old(**stored), new, declared, new(**expected))


@pytest.mark.parametrize("spec", ["binary", "json", "msgpack"])
@pytest.mark.parametrize("tier", ["codec", "exact"])
@given(case=evolutions())
@settings(max_examples=150)
def test_a_class_evolves(spec: str, tier: str, case: Case) -> None:
    """Every record of the old class becomes what the model says, in whichever tier it is."""
    serializer = get_serializer(spec)
    cls = type(case.record)
    data = (
        serializer.codec(shape_of(cls)).encode(case.record)
        if tier == "codec"
        else encode(spec, tier, case.record)
    )
    case.declared.validate(shape_of(case.cls))
    decode = make_decoder(serializer, shape_of(case.cls), schema_of(spec, cls), case.declared)

    assert_exact(decode(data, 7), case.expected)
    # Going through an upgrade that changes nothing gives the same.
    declared = Evolution(2, case.declared.renames, case.declared.converters, upgrades={2: _nothing})
    decode = make_decoder(serializer, shape_of(case.cls), schema_of(spec, cls), declared)
    assert_exact(decode(data, 7), case.expected)


def _nothing(record: dict[str, Any]) -> None:
    assert type(record) is dict


@pytest.mark.parametrize("spec", ["binary", "json", "msgpack"])
@given(data=st.data())
@settings(max_examples=60)
def test_the_way_over_the_dict_loses_nothing(spec: str, data: st.DataObject) -> None:
    """A record of any class that goes through an upgrade that changes nothing is as it was."""
    cls = data.draw(record_classes(has_identity=False, max_fields=3))
    record = data.draw(records_of(cls))
    serializer, shape = get_serializer(spec), shape_of(cls)
    payload, schema = serializer.codec(shape).encode(record), schema_of(spec, cls)
    decode = make_decoder(serializer, shape, schema, Evolution(2, upgrades={2: _nothing}))

    assert_exact(decode(payload, 7), record)


@pytest.mark.parametrize("spec", ["binary", "json", "msgpack"])
@given(data=st.data())
@settings(max_examples=60)
def test_records_as_dicts(spec: str, data: st.DataObject) -> None:
    """Without its class a record of any class is the dict that a naive model makes of it."""
    cls = data.draw(record_classes(has_identity=False, max_fields=3))
    record = data.draw(records_of(cls))
    serializer, shape = get_serializer(spec), shape_of(cls)
    payload = serializer.codec(shape).encode(record)
    without = replace(shape_of(None), identity=None)
    actual = serializer.codec(without, schema_of(spec, cls)).decode(payload, 7)

    assert_exact(actual, _plain(record))


def _plain(value: Any) -> Any:
    """Return nested records as dicts, members as their values, everything else as it is."""
    if isinstance(value, enum.Enum):
        return _plain(value.value)
    if type(value) in (list, tuple):
        return type(value)(map(_plain, value))
    if type(value) in (set, frozenset):
        return type(value)(map(_hashable, value))
    if type(value) is deque:
        return deque(map(_plain, value), value.maxlen)
    if type(value) in (dict, OrderedDict, Counter):
        return type(value)({_hashable(key): _plain(item) for key, item in value.items()})
    if kind_of(type(value)) is None:
        return value
    return {name: _plain(item) for name, item in _fields(value)}


def _hashable(value: Any) -> Any:
    if type(value) in (tuple, frozenset):
        return type(value)(map(_hashable, value))
    if kind_of(type(value)) is None:
        return _plain(value)
    return tuple((name, _hashable(item)) for name, item in _fields(value))


def _fields(record: Any) -> list[tuple[str, Any]]:
    extra = getattr(record, "__pydantic_extra__", None) or {}
    names = [one.name for one in shape_of(type(record)).fields]
    return [*((name, getattr(record, name)) for name in names), *extra.items()]
