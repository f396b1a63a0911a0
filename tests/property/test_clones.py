"""Generated copies are right for any annotation and any value, as annotated or not."""

from __future__ import annotations

import copy
import typing
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from memdb._cloners import get_cloner
from memdb.serializers import get_serializer, shape_of
from tests.support.exact import assert_exact
from tests.support.strategies import (
    anything,
    field_values,
    make_record,
    record_classes,
    type_annotations,
    values_of,
)

CODEC = get_serializer("pickle").codec(shape_of(None))


@dataclass
class Open:
    value: Any


@dataclass(frozen=True)
class Closed:
    value: Any


class Struct(msgspec.Struct):
    values: list[Any]


class Pair(NamedTuple):
    one: Any
    two: list[Any]


OWN = st.sampled_from([Open, Closed, Struct, Pair, list[Open], tuple[Closed, ...], Open | None])
ANNOTATIONS = type_annotations(with_numpy=True) | OWN
ANYTHING = anything()
# Values that the annotations do not promise, records of all kinds of mutability among them.
OTHERS = st.one_of(
    ANYTHING,
    ANYTHING.map(Open),
    ANYTHING.map(Closed),
    st.lists(ANYTHING.map(Closed) | ANYTHING.map(Open), max_size=2).map(Struct),
    st.tuples(ANYTHING, st.lists(ANYTHING, max_size=1)).map(lambda parts: Pair(*parts)),
    st.lists(ANYTHING.map(Open), max_size=2).map(tuple),
)


def _parts(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [*value.keys(), *value.values()]
    if isinstance(value, list | tuple | set | frozenset):
        return list(value)
    return list(field_values(value).values())


def _is_mutable(value: Any) -> bool:
    if isinstance(value, list | dict | set | bytearray | np.ndarray):
        return True
    cls: Any = type(value)
    about = getattr(cls, "__dataclass_params__", None) or getattr(cls, "__struct_config__", None)
    if about is not None:
        return not about.frozen
    if hasattr(cls, "__pydantic_fields__"):
        return not cls.model_config.get("frozen")
    return hasattr(cls, "__attrs_attrs__") and cls.__setattr__.__name__ != "_frozen_setattrs"


def _mutables(value: Any) -> set[int]:
    """Return the ids of all that could be changed in a value."""
    found = set().union(*map(_mutables, _parts(value)))
    return found | {id(value)} if _is_mutable(value) else found


@st.composite
def records(draw: st.DrawFn) -> Any:
    """Draw a record class and a record of it."""
    cls = draw(record_classes(of=ANNOTATIONS, has_identity=False, max_fields=3))
    hints = typing.get_type_hints(cls, include_extras=True)
    values = {name: draw(values_of(hint) | OTHERS, label=name) for name, hint in hints.items()}
    return cls, make_record(cls, values)


@given(pair=records())
def test_auto(pair: Any) -> None:
    """The copy is equal in type and value, shares nothing mutable, and leaves the record alone."""
    cls, record = pair
    cloner = get_cloner("auto", shape_of(cls), CODEC)
    before = copy.deepcopy(record)
    copies = [cloner(record), cloner.by_value(record)]
    if cloner.conforms is None or cloner.conforms(record):
        copies.append(cloner.clone(record))

    assert_exact(record, before)
    for clone in copies:
        assert_exact(clone, before)
        assert not _mutables(record) & _mutables(clone)


@given(value=OTHERS, others=st.lists(OTHERS, max_size=3))
def test_dicts(value: Any, others: list[Any]) -> None:
    """So is the copy of a plain dict."""
    record = {"value": value} | {f"field_{i}": other for i, other in enumerate(others)}
    before = copy.deepcopy(record)
    clone = get_cloner("auto", shape_of(None), CODEC)(record)

    assert_exact(record, before)
    assert_exact(clone, before)
    assert not _mutables(record) & _mutables(clone)


def test_the_search_for_mutables_finds_them() -> None:
    """What the tests above rely on sees a list in a frozen record in a tuple."""
    inner: list[int] = []
    record = Open((Closed({1: inner}), np.zeros(1)))

    assert {id(record), id(inner), id(record.value[0].value), id(record.value[1])} == _mutables(
        record
    )
