"""Generated copies are right for any annotation and any value, as annotated or not."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from memdb._cloners import get_cloner
from memdb.serializers import get_serializer, shape_of

CODEC = get_serializer("pickle").codec(shape_of(None))


@dataclass
class Open:
    value: Any


@dataclass(frozen=True)
class Closed:
    value: int


class Struct(msgspec.Struct):
    values: list[int]


class Pair(NamedTuple):
    one: int
    two: list[int]


SCALARS = st.sampled_from([int, str, float, bool, bytes, NoneType])
RECORDS = st.sampled_from([Open, Closed, Struct, Pair])


def _containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        inner.map(lambda part: list[part]),  # type: ignore[valid-type]
        inner.map(lambda part: tuple[part, ...]),  # type: ignore[valid-type]
        st.tuples(inner, inner).map(lambda parts: tuple[parts[0], parts[1]]),  # type: ignore[valid-type]
        st.tuples(SCALARS | st.just(Closed), inner).map(
            lambda parts: dict[parts[0], parts[1]]  # type: ignore[valid-type]
        ),
        inner.map(lambda part: part | None),
        st.sampled_from([set[int], frozenset[str], set[Closed], Any, list, object, int | str]),
    )


ANNOTATIONS = st.recursive(SCALARS | RECORDS, _containers, max_leaves=4)

PLAIN = st.one_of(
    st.none(), st.booleans(), st.integers(), st.text(max_size=2), st.binary(max_size=2)
)
VALUES = st.recursive(
    st.one_of(
        PLAIN,
        PLAIN.map(lambda value: Closed(value)),  # type: ignore[arg-type]
        st.sets(st.integers(0, 3), max_size=2),
        st.frozensets(st.text(max_size=1), max_size=2),
        st.just(bytearray(b"x")),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2),
        st.lists(inner, max_size=2).map(tuple),
        st.dictionaries(PLAIN, inner, max_size=2),
        inner.map(Open),
        st.lists(inner, max_size=2).map(Struct),
        st.tuples(inner, st.lists(inner, max_size=1)).map(lambda parts: Pair(*parts)),
    ),
    max_leaves=5,
)


def _parts(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [*value.keys(), *value.values()]
    if isinstance(value, (list, tuple, set, frozenset)):
        return list(value)
    if dataclasses.is_dataclass(value):
        return [getattr(value, field.name) for field in dataclasses.fields(value)]
    if isinstance(value, msgspec.Struct):
        return [getattr(value, name) for name in value.__struct_fields__]
    return []


def _described(value: Any) -> Any:
    if isinstance(value, (set, frozenset)):
        return type(value), sorted(repr(part) for part in value)
    parts = [_described(part) for part in _parts(value)]
    return (type(value), parts) if parts else (type(value), repr(value))


def _mutables(value: Any) -> set[int]:
    found = set().union(*map(_mutables, _parts(value)))
    about: Any = getattr(value, "__dataclass_params__", None)
    about = about or getattr(value, "__struct_config__", None)
    if isinstance(value, (list, dict, set, bytearray)) or (about and not about.frozen):
        found.add(id(value))
    return found


def _values(annotation: Any) -> st.SearchStrategy[Any]:
    """Return the values that are as annotated."""
    if annotation in (Any, object, list):
        return VALUES
    if annotation is Open:
        return VALUES.map(Open)
    parts = [_values(part) for part in get_args(annotation) if part is not ...]
    origin = get_origin(annotation)
    if origin in (UnionType, Union):
        return st.one_of(parts)
    if origin is list:
        return st.lists(parts[0], max_size=3)
    if origin is dict:
        return st.dictionaries(*parts, max_size=2)
    if origin is tuple:
        return st.lists(parts[0], max_size=3).map(tuple) if len(parts) == 1 else st.tuples(*parts)
    return st.from_type(annotation)


@cache
def _values_or_not(annotation: Any) -> st.SearchStrategy[Any]:
    return _values(annotation) | VALUES


# Behind a name that no type checker follows, since the fields are known only when it runs.
_named_tuple: Any = NamedTuple


@st.composite
def records(draw: st.DrawFn) -> Any:
    """Draw a record class and a record of it."""
    annotations = draw(st.lists(ANNOTATIONS, min_size=1, max_size=3))
    values = [draw(_values_or_not(annotation)) for annotation in annotations]
    names = [f"field_{number}" for number in range(len(annotations))]
    kind = draw(st.sampled_from(["dataclass", "struct", "tuple"]))
    fields: Any = list(zip(names, annotations, strict=True))
    cls: Any = None
    if kind == "dataclass":
        cls = dataclasses.make_dataclass(
            "Record", fields, frozen=draw(st.booleans()), slots=draw(st.booleans())
        )
    elif kind == "struct":
        cls = msgspec.defstruct("Record", fields, frozen=draw(st.booleans()))
    else:
        cls = _named_tuple("Record", fields)
    return cls(*values)


@given(record=records())
def test_auto(record: Any) -> None:
    """The copy is equal in type and value, shares nothing mutable, and leaves the record alone."""
    cloner = get_cloner("auto", shape_of(type(record)), CODEC)
    before = _described(record)
    copies = [cloner(record), cloner.by_value(record)]
    if cloner.conforms is None or cloner.conforms(record):
        copies.append(cloner.clone(record))

    for clone in copies:
        assert _described(clone) == before == _described(record)
        assert not _mutables(record) & _mutables(clone)


@given(value=VALUES, others=st.lists(VALUES, max_size=3))
def test_dicts(value: Any, others: list[Any]) -> None:
    """So is the copy of a plain dict."""
    record = {"value": value} | {f"field_{i}": other for i, other in enumerate(others)}
    clone = get_cloner("auto", shape_of(None), CODEC)(record)

    assert _described(clone) == _described(record)
    assert not _mutables(record) & _mutables(clone)
