"""Pickled: what pickles hold inside records, where the classes of now may be others.

A pickle holds nested records and Enum members as Python objects of its own. What they were when
they were stored they are when they are read, so what has changed in their classes is looked for
here: what they lack gets its default, and what can't be made is named with its path.
"""

from __future__ import annotations

import enum
import io
import pickle
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from memdb.errors import DecodeError, RecordTypeError
from memdb.serializers._build import Trail, key_place, path_text
from memdb.serializers._enums import is_by_name, member_of
from memdb.serializers._shape import IMMUTABLE, FieldShape, Shape, kind_of, shape_of
from memdb.serializers._stack import pass_on
from memdb.serializers._writer import writer_schema

_SEQUENCES, _SETS = (list, tuple, deque), (set, frozenset)


def _walk(values: Mapping[Any, Any]) -> Iterator[tuple[Trail, Any]]:
    """Give everything in a record's values that can be walked to, with its path."""
    waiting: list[tuple[Trail, Any]] = [(None, values)]
    seen: set[int] = set()
    while waiting:
        trail, value = waiting.pop()
        if type(value) in IMMUTABLE or id(value) in seen:
            continue
        seen.add(id(value))
        yield trail, value
        waiting += reversed([*_parts(trail, value)])


def _parts(trail: Trail, value: Any) -> Iterator[tuple[Trail, Any]]:
    """Give what is directly in a value."""
    shape = _shape_of(type(value))
    if shape is not None:
        for field in shape.fields:
            if hasattr(value, field.name):
                yield (trail, f".{field.name}"), getattr(value, field.name)
    elif isinstance(value, dict):
        for key, item in value.items():
            # The outermost dict is that of the fields.
            is_field = trail is None and type(key) is str
            yield (trail, ".keys()"), key
            yield (trail, f".{key}" if is_field else key_place(key)), item
    elif isinstance(value, _SEQUENCES):
        for number, item in enumerate(value):
            yield (trail, f"[{number}]"), item
    elif isinstance(value, _SETS):
        for item in value:
            yield (trail, "{}"), item


def _shape_of(cls: Any) -> Shape | None:
    """Return the shape of a class, None if it is no record class."""
    return _remembered_shape(cls)


@lru_cache(maxsize=1024)
def _remembered_shape(cls: Any) -> Shape | None:
    if kind_of(cls) is None:
        return None
    try:
        return shape_of(cls)
    except RecordTypeError:
        return None


# -- records of classes that have changed ------------------------------------------------------


def completer(
    shape: Shape, serializer: Any, writer: Mapping[str, Any]
) -> Callable[[Mapping[str, Any]], None] | None:
    """Return what gives the nested records of a writer the fields that they lack.

    Args:
        shape: The class as it is now.
        serializer: That for pickles.
        writer: The schema that the pickles were written with.

    Returns:
        A function of the values by name, which raises `DecodeError` with the path of what can't be
        completed; None where the nested classes are as they were.
    """
    before = writer.get("records", {})
    # Without a class nothing says what the nested ones are now.
    has_class = shape.kind != "dict" or writer["kind"] == "dict"
    if has_class and writer_schema(shape, serializer).get("records", {}) == before:
        return None

    def complete(values: Mapping[str, Any]) -> None:
        for trail, value in _walk(values):
            nested = _shape_of(type(value))
            if nested is None:
                continue
            if _is_by_position(value) and not _begins_with(nested, before):
                raise _by_position(trail, nested)
            for field in nested.fields:
                if not hasattr(value, field.name):
                    _set_default(value, nested, field, trail)

    return complete


def forgetter(
    shape: Shape, serializer: Any, writer: Mapping[str, Any]
) -> Callable[[Mapping[str, Any]], None] | None:
    """Return what takes fields that their classes have no more from a writer's nested records.

    A pickle brings them back as attributes, and with the next copy of the record they are gone:
    what a program stores must not depend on whether there was one.

    Args:
        shape: The class as it is now.
        serializer: That for pickles.
        writer: The schema that the pickles were written with.

    Returns:
        A function of the values by name; None where no class has lost a field.
    """
    before = writer.get("records", {})
    if shape.kind == "dict" or writer_schema(shape, serializer).get("records", {}) == before:
        return None

    def forget(values: Mapping[str, Any]) -> None:
        for _, value in _walk(values):
            nested = _shape_of(type(value))
            attributes = getattr(value, "__dict__", None)
            if nested is None or type(attributes) is not dict:
                continue
            own = {field.name for field in nested.fields}
            for name in _names_before(nested.cls, before):
                if name not in own:
                    attributes.pop(name, None)
                    if nested.kind == "pydantic":
                        value.__pydantic_fields_set__.discard(name)

    return forget


def _begins_with(shape: Shape, before: Mapping[str, Any]) -> bool:
    """Whether the fields of a class begin with those that it had, if that is known."""
    names = _names_before(shape.cls, before)
    return [field.name for field in shape.fields][: len(names)] == names


def _names_before(cls: type, before: Mapping[str, Any]) -> list[str]:
    """Return the fields that a class had, as far as a writer's schema says."""
    fields = before.get(f"{cls.__module__}.{cls.__qualname__}", before.get(cls.__qualname__, []))
    return [name for name, _ in fields]


def _is_by_position(record: Any) -> bool:
    """Whether pickle stores the fields of a record without their names."""
    cls = type(record)
    kind = kind_of(cls)
    if kind == "struct":
        return bool(record.__reduce__()[0] is cls)
    # So those of frozen dataclasses with slots.
    setter = getattr(cls, "__setstate__", None)
    return kind == "namedtuple" or getattr(setter, "__name__", "") == "_dataclass_setstate"


def _by_position(trail: Trail, shape: Shape) -> DecodeError:
    path = path_text(trail)
    return DecodeError(
        f"{path}: pickle stores the fields of {shape.name} by position, and they are others now, "
        "or in another order. Bring the old order back, and add new fields with a default at the "
        "end.",
        field=path,
    )


def _set_default(record: Any, shape: Shape, field: FieldShape, trail: Trail) -> None:
    """Give an unpickled record the default of a field; a Struct lacks none."""
    path = path_text((trail, f".{field.name}"))
    if field.required:
        raise DecodeError(
            f"{path}: the pickled {shape.name} has no such field, and the class gives it no "
            "default. Give the field a default or a default_factory, to read what was stored "
            "before it existed.",
            field=path,
        )
    value = field.make_default()
    if shape.kind == "pydantic":
        record.__dict__[field.name] = value
    else:
        object.__setattr__(record, field.name, value)


# -- what can't be made ------------------------------------------------------------------------


def lost_in(data: bytes) -> tuple[str, str] | None:
    """Return path of, and what is wrong with, the first object that a pickle can't give back.

    Returns:
        None if that can't be told.
    """
    try:
        values = _Finder(io.BytesIO(data)).load()
        if type(values) is not dict:
            return None
        return next(
            (path_text(trail) + value.place, value.why)
            for trail, value in _walk(values)
            if isinstance(value, _Lost)
        )
    except Exception as error:
        pass_on(error)
        return None


def changed_member(values: Mapping[Any, Any]) -> str | None:
    """Return the path of the first Enum member that pickle does not give back, None if it does."""
    for trail, value in _walk(values):
        if isinstance(value, enum.Enum) and not comes_back(value):
            return path_text(trail)
    return None


@lru_cache(maxsize=4096, typed=True)
def comes_back(member: enum.Enum) -> bool:
    """Whether pickle gives a member of an Enum class back: it is looked up by its value."""
    try:
        return pickle.loads(pickle.dumps(member)) is member
    except Exception as error:
        pass_on(error)
        return False


class _Lost:
    """Stands for an object that can't be made.

    Attributes:
        why: What is wrong, and what to do.
        place: The part of the path that leads to the field that is missing, if that is it.
    """

    def __init__(self, why: str, place: str = "") -> None:
        self.why = why
        self.place = place

    def __setstate__(self, state: object) -> None:
        """Take what pickle would have put into the object, and forget it."""

    append = extend = add = __setitem__ = lambda self, *parts: None


class _Finder(pickle.Unpickler):
    """Goes on where an object can't be made."""

    def find_class(self, module: str, name: str) -> Any:
        """Return a class, or what stands in for it where its objects may not be there any more."""
        try:
            found = super().find_class(module, name)
        except Exception:
            return _stand_in(
                None, f"the class {module}.{name} is not there any more. Bring it back"
            )
        if found is member_of:
            return _named_member
        if not isinstance(found, type):
            return found
        if issubclass(found, enum.Enum):
            return _stand_in(found, _no_member(found))
        if kind_of(found) in ("struct", "namedtuple"):
            why = (
                f"{found.__qualname__} can't be made of the fields that it had. Bring them back in "
                "their old order, and add new ones with a default at the end"
            )
            return _stand_in(found, why)
        return found


def _stand_in(cls: Any, why: str) -> type:
    """Return a class that makes what another one makes, and says why where it can't."""

    def new(_: type, *args: Any, **values: Any) -> Any:
        if cls is None:
            return _Lost(why)
        try:
            return cls(*args, **values)
        except Exception:
            return _Lost(why, _missing_place(cls, len(args), values))

    return type("_StandIn", (), {"__new__": new, "original": cls})


def _missing_place(cls: type, count: int, values: Mapping[str, Any]) -> str:
    """Return the place of the first required field beyond those that are given."""
    shape = _shape_of(cls)
    missing = [
        field.name
        for field in (shape.fields[count:] if shape is not None else ())
        if field.required and field.name not in values
    ]
    return f".{missing[0]}" if missing else ""


def _named_member(stand_in: Any, name: str) -> Any:
    cls = stand_in.original
    try:
        return member_of(cls, name)
    except Exception:
        return _Lost(_no_member(cls))


def _no_member(cls: Any) -> str:
    if is_by_name(cls):
        return f"{cls.__qualname__} has no member of the stored name. Bring it back"
    return f"{cls.__qualname__} has no member of the stored value. Bring it back"
