"""Compare deeply, by value and type: what "comes back equal" means in the tests."""

from __future__ import annotations

import dataclasses
import struct
from collections import deque
from datetime import datetime, time, timezone, tzinfo
from decimal import Decimal
from pathlib import PurePath
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import numpy as np


def assert_exact(actual: Any, expected: Any, path: str = "value") -> None:
    """Fail unless both are equal in value and type, all the way down."""
    difference = find_difference(actual, expected, path)

    assert difference is None, difference


def is_exact(actual: Any, expected: Any) -> bool:
    """Whether both are equal in value and type, all the way down."""
    return find_difference(actual, expected, "value") is None


def find_difference(actual: Any, expected: Any, path: str) -> str | None:
    """Return where and how two values differ; None if they do not."""
    if type(actual) is not type(expected):
        return f"{path}: {type(actual)} is not {type(expected)}"
    parts_actual, parts_expected = _parts(actual), _parts(expected)
    if parts_actual is None or parts_expected is None:
        same = _leaf(actual) == _leaf(expected)
        return None if same else f"{path}: {actual!r} is not {expected!r}"
    if len(parts_actual) != len(parts_expected):
        return f"{path}: {len(parts_actual)} parts, not {len(parts_expected)}"
    for (name, one), (other_name, other) in zip(parts_actual, parts_expected, strict=True):
        if name != other_name:
            return f"{path}: {name} is not {other_name}"
        found = find_difference(one, other, f"{path}{name}")
        if found is not None:
            return found
    return None


def _parts(value: Any) -> list[tuple[str, Any]] | None:
    """Return the named parts of a container or record; None for a leaf."""
    if isinstance(value, msgspec.Struct):
        return [(f".{name}", getattr(value, name)) for name in value.__struct_fields__]
    if dataclasses.is_dataclass(value):
        return [(f".{f.name}", getattr(value, f.name)) for f in dataclasses.fields(value)]
    attributes = getattr(type(value), "__attrs_attrs__", None)
    if attributes is not None:
        return [(f".{a.name}", getattr(value, a.name)) for a in attributes]
    if hasattr(type(value), "__pydantic_root_model__"):
        return _model_parts(value)
    if isinstance(value, deque):
        return [(".maxlen", value.maxlen)] + [(f"[{i}]", item) for i, item in enumerate(value)]
    if isinstance(value, list | tuple):
        return [(f"[{i}]", item) for i, item in enumerate(value)]
    if isinstance(value, set | frozenset):
        return [("{}", item) for item in sorted(value, key=lambda item: repr(leaf_key(item)))]
    if isinstance(value, dict):
        flat = []
        for number, (key, item) in enumerate(value.items()):
            flat += [(f"[key {number}]", key), (f"[{number}]", item)]
        return flat
    return None


def _model_parts(model: Any) -> list[tuple[str, Any]]:
    """Return the parts of a pydantic model: its fields, which of them were set, and the rest.

    The database itself sets the identity, so whether that was set before does not count.
    """
    return [
        *((f".{name}", getattr(model, name)) for name in type(model).model_fields),
        (".model_fields_set", model.model_fields_set - {"id"}),
        (".model_extra", model.__pydantic_extra__),
    ]


def leaf_key(value: Any) -> Any:
    """Return what is equal for values that are equal in value and type."""
    parts = _parts(value)
    if parts is None:
        return type(value).__name__, _leaf(value)
    return type(value).__name__, [(name, leaf_key(part)) for name, part in parts]


def _leaf(value: Any) -> Any:
    """Return what tells two leaves of a type apart, where ``==`` is too lax."""
    match value:
        case np.str_() | np.bytes_():
            # Their bytes and dtype are without the NULs at the end.
            return list(value)
        case np.generic() | np.ndarray():
            return value.dtype, value.dtype.isalignedstruct, value.shape, value.tobytes()
        case range():
            return value.start, value.stop, value.step
        case float():
            return struct.pack(">d", value)
        case complex():
            return struct.pack(">dd", value.real, value.imag)
        case Decimal():
            return value.as_tuple()
        case PurePath():
            # Those of Windows are equal whatever the case of their letters.
            return str(value)
        case datetime():
            return value.replace(tzinfo=None, fold=0), value.fold, _zone(value.tzinfo)
        case time():
            return value.replace(tzinfo=None, fold=0), value.fold, _zone(value.tzinfo)
        case tzinfo():
            return _zone(value)
    return value


def _zone(zone: tzinfo | None) -> Any:
    if isinstance(zone, ZoneInfo):
        return "zone", zone.key
    if isinstance(zone, timezone):
        return "offset", zone.__reduce__()[1]
    return zone
