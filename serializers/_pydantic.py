"""Pydantic: what a model of pydantic 2 holds besides its fields, and how one is made without it.

The library is never imported; a model's class says all that is needed.

A model knows which of its fields were set by whoever made it, and may hold further values under
names of its own. Usual is that all fields were set and there is nothing further: then a payload
says nothing about either. The identity is left out of account in the record that carries it, as
the database sets it. Private attributes are not stored; they come back as their defaults.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from memdb.errors import DecodeError
from memdb.serializers._shape import Shape

# Do not change: part of the file format. No field can have such a name.
FIELDS_SET = "__pydantic_fields_set__"
EXTRA = "__pydantic_extra__"
#: The names under which a payload holds what is not as usual, beside those of the fields.
STATE_NAMES = (FIELDS_SET, EXTRA)

#: Where a model has its private attributes, None if it declares none.
PRIVATE = "__pydantic_private__"


def unusual_state(record: Any, identity: str | None) -> dict[str, Any]:
    """Return what a model holds besides its fields, as far as it is not as usual.

    Args:
        record: The model.
        identity: The name of the field that carries its identity; None if it is nested in a record.
    """
    fields_set: set[str] = record.__pydantic_fields_set__
    found: dict[str, Any] = {}
    every = type(record).model_fields.keys()
    if fields_set | {identity} != every | {identity}:
        found[FIELDS_SET] = sorted(fields_set - {identity})
    extra = record.__pydantic_extra__
    if extra:
        found[EXTRA] = extra
    return found


def usual_check(shape: Shape, record: str, namespace: dict[str, Any], *, is_root: bool) -> str:
    """Return the source of the condition that a model holds nothing unusual.

    Args:
        shape: The model's class.
        record: The source of the model.
        namespace: Gets the names that the condition uses.
        is_root: Whether the model carries the identity, rather than being nested.
    """
    names = {field.name for field in shape.fields}
    every = f"every_field_{len(namespace)}"
    namespace[every] = names
    condition = f"{record}.{FIELDS_SET} == {every}"
    if is_root and shape.identity is not None:
        namespace[f"{every}_but_one"] = names - {shape.identity}
        condition = f"({condition} or {record}.{FIELDS_SET} == {every}_but_one)"
    return f"{condition} and not {record}.{EXTRA}"


def model_lines(
    shape: Shape, values: Mapping[str, str], namespace: dict[str, Any], *, setter: str = "set_any"
) -> list[str]:
    """Return the source lines that make a model ``o``, as usual, from the sources of its values.

    No validator, ``__init__`` or ``model_post_init`` runs.
    """
    cls: Any = shape.cls
    pairs = ", ".join(f"{field.name!r}: {values[field.name]}" for field in shape.fields)
    names = ", ".join(repr(field.name) for field in shape.fields)
    namespace["new"] = object.__new__
    namespace[setter] = object.__setattr__
    lines = [
        "o = new(cls)",
        f'{setter}(o, "__dict__", {{{pairs}}})',
        f"{setter}(o, {FIELDS_SET!r}, {{{names}}})"
        if names
        else f"{setter}(o, {FIELDS_SET!r}, set())",
    ]
    if cls.__pydantic_root_model__:
        # Has neither of the two below; the class says so.
        return lines
    lines.append(f"{setter}(o, {EXTRA!r}, {'{}' if allows_extra(cls) else None})")
    if cls.__private_attributes__:
        namespace["make_private"] = private_maker(cls)
        lines.append(f"{setter}(o, {PRIVATE!r}, make_private(o.__dict__))")
    else:
        lines.append(f"{setter}(o, {PRIVATE!r}, None)")
    return lines


def allows_extra(cls: Any) -> bool:
    """Whether a model may hold values under names that it does not declare."""
    return bool(cls.model_config.get("extra") == "allow")


def private_maker(cls: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return what makes the private attributes of a model with their defaults.

    It is called with the values of the model's fields, as some factories take them.
    """

    def make(values: dict[str, Any]) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for name, info in cls.__private_attributes__.items():
            if info.default_factory is None:
                if not is_undefined(info.default):
                    made[name] = copy.deepcopy(info.default)
            elif getattr(info, "default_factory_takes_validated_data", False):
                made[name] = info.default_factory({**values, **made})
            else:
                made[name] = info.default_factory()
        return made

    return make


def is_undefined(value: object) -> bool:
    """Whether a value is pydantic's sign for none."""
    return type(value).__name__ == "PydanticUndefinedType"


def further_values(stored: Any) -> dict[str, Any]:
    """Return what a payload holds of further values.

    Raises:
        DecodeError: It is no dict with names as keys.
    """
    if type(stored) is not dict or not _are_names(stored):
        raise DecodeError(_WRONG_STATE)
    return stored


def take_declared(values: dict[str, Any], names: set[str]) -> None:
    """Make fields of the further values that a class declares by now.

    Raises:
        DecodeError: What is under their name is something else.
    """
    extra = further_values(values[EXTRA])
    declared = extra.keys() & names
    if declared:
        values[EXTRA] = {name: item for name, item in extra.items() if name not in declared}
        for name in declared:
            values.setdefault(name, extra[name])


def set_state(record: Any, values: Mapping[str, Any], identity: str | None) -> None:
    """Give a model that was made as usual what `unusual_state` has found.

    Requires: `take_declared` has looked at the further values.

    Raises:
        DecodeError: The names of the fields that were set are something else.
    """
    extra, fields_set = values.get(EXTRA, {}), values.get(FIELDS_SET)
    is_open = allows_extra(type(record))
    if fields_set is not None:
        if type(fields_set) is not list or not _are_names(fields_set):
            raise DecodeError(_WRONG_STATE)
        names = set(fields_set) if is_open else set(fields_set) - extra.keys()
        if identity is not None:
            names.add(identity)
        object.__setattr__(record, FIELDS_SET, names)
    if extra and is_open:
        object.__setattr__(record, EXTRA, extra)


def _are_names(names: Iterable[object]) -> bool:
    return all(type(name) is str for name in names)


_WRONG_STATE = "the payload says of a pydantic model what can't be so. It was not written by memdb."
