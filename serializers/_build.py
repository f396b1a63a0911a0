"""Build: make a record from its values without running the user's ``__init__``."""

from __future__ import annotations

import gc
import inspect
import keyword
import types
from collections.abc import Callable, Mapping
from functools import cached_property, lru_cache
from typing import Any

import msgspec

from memdb.errors import DecodeError, EncodeError
from memdb.serializers._pydantic import (
    EXTRA,
    FIELDS_SET,
    STATE_NAMES,
    model_lines,
    set_state,
    take_declared,
)
from memdb.serializers._shape import FieldShape, Shape

force_setattr: Callable[[Any, str, Any], None] = msgspec.structs.force_setattr

#: Types whose values are their own plain form, once they are in one.
PLAIN = frozenset({type(None), bool, int, float, str})

# A path is linked from the leaf to the root, so that no text is built unless something is wrong.
Trail = tuple[Any, str] | None


def path_text(trail: Trail) -> str:
    """Return the path of a field as text: ``address.lines[2]``."""
    parts = []
    while trail is not None:
        trail, part = trail
        parts.append(part)
    return "".join(reversed(parts)).removeprefix(".")


def key_place(key: object) -> str:
    """Return the part of a path that leads to a dict's value; long keys are cut."""
    if type(key) is str or (type(key) is int and -(10**9) < key < 10**9):
        text = repr(key)
        return f"[{text}]" if len(text) <= 40 else f"[{text[:40]}...]"
    return "[...]"


def has_own_attributes(value: Any) -> bool:
    """Whether a container has attributes of its own, beyond the alias that it was made by."""
    return any(name != "__orig_class__" for name in vars(value))


def full_name(cls: type) -> str:
    """Return the name of a class with its module, that of builtins left out."""
    return f"{cls.__module__}.{cls.__qualname__}".removeprefix("builtins.")


def get_attribute(record: Any, name: str, trail: Trail = None) -> Any:
    """Return a field's value.

    Raises:
        EncodeError: The record has no such attribute (it was deleted or never set).
    """
    try:
        return getattr(record, name)
    except AttributeError as error:
        path = path_text(trail) or name
        raise EncodeError(
            f"{path}: the record has no value for this field of {full_name(type(record))}. "
            "Set it before storing the record.",
            field=path,
        ) from error


def is_plain_name(name: str) -> bool:
    """Whether a name can stand in source text as it is."""
    return name.isascii() and name.isidentifier() and not keyword.iskeyword(name)


def safe_name(text: str) -> str:
    """Return a text as a class can be named; only what nobody calls a class is changed."""
    return text.encode("utf-8", "replace").decode().replace("\0", "?")


def assignments(shape: Shape, values: Mapping[str, str], namespace: dict[str, Any]) -> list[str]:
    """Return the source lines that make a record ``o`` from the expressions of its values.

    Args:
        shape: The record class.
        values: For each field the source of its value.
        namespace: Gets the names that the lines use.
    """
    cls: Any = shape.cls
    namespace["cls"] = cls
    ordered = [(field.name, values[field.name]) for field in shape.fields]
    if shape.kind == "namedtuple":
        namespace["new_tuple"] = tuple.__new__
        items = "".join(f"{value}, " for _, value in ordered)
        return [f"o = new_tuple(cls, ({items}))"]
    if shape.kind == "struct":
        return _struct_lines(cls, ordered, namespace)
    if shape.kind == "pydantic":
        return model_lines(shape, values, namespace)
    namespace["new"] = object.__new__
    lines = ["o = new(cls)"]
    is_free = cls.__setattr__ is object.__setattr__
    for number, (name, value) in enumerate(ordered):
        if is_free and is_plain_name(name):
            lines.append(f"o.{name} = {value}")
            continue
        descriptor = inspect.getattr_static(cls, name, None)
        if isinstance(descriptor, types.MemberDescriptorType):
            namespace[f"set_{number}"] = descriptor.__set__
            lines.append(f"set_{number}(o, {value})")
        else:
            namespace["set_any"] = object.__setattr__
            lines.append(f"set_any(o, {name!r}, {value})")
    if caches_hash(cls):
        namespace["set_any"] = object.__setattr__
        lines.append(f"set_any(o, {HASH_CACHE!r}, None)")
    return lines


#: Where attrs keeps the hash of a record, None until it is asked for.
HASH_CACHE = "_attrs_cached_hash"


def caches_hash(cls: type) -> bool:
    """Whether records of an attrs class must have a place for their hash, which is no field."""
    return HASH_CACHE in getattr(getattr(cls.__hash__, "__code__", None), "co_names", ())


def _struct_lines(cls: Any, ordered: list[tuple[str, str]], namespace: dict[str, Any]) -> list[str]:
    """Return the lines that make a Struct; its constructor would run ``__post_init__``."""
    if not hasattr(cls, "__post_init__"):
        if all(is_plain_name(name) for name, _ in ordered):
            return [f"o = cls({', '.join(f'{name}={value}' for name, value in ordered)})"]
        return [f"o = cls(**{{{', '.join(f'{name!r}: {value}' for name, value in ordered)}}})"]
    namespace["force"] = force_setattr
    try:
        namespace |= {"copy": copy_struct, "blank": _blank_struct(cls)}
    except Exception:
        # Its metaclass allows no class derived from it: __post_init__ runs, and what it changes is
        # set back.
        lines = [f"x{i} = {value}" for i, (_, value) in enumerate(ordered)]
        pairs = ", ".join(f"{name!r}: x{i}" for i, (name, _) in enumerate(ordered))
        sets = [f"force(o, {name!r}, x{i})" for i, (name, _) in enumerate(ordered)]
        return [*lines, f"o = cls(**{{{pairs}}})", *sets]
    is_free = cls.__setattr__ is msgspec.Struct.__setattr__ and not cls.__struct_config__.frozen
    return [
        "o = copy(blank)",
        *(
            f"o.{name} = {value}"
            if is_free and is_plain_name(name)
            else f"force(o, {name!r}, {value})"
            for name, value in ordered
        ),
    ]


# The stubs do not know it.
_struct: Any = msgspec.Struct
#: Copies a Struct, whatever its class has for that; runs no code of the class.
copy_struct: Callable[[Any], Any] = _struct.__copy__
_set_class = object.__dict__["__class__"].__set__


class _NoCode:
    """Stands before a Struct class, for one that is derived from it without running its code."""

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        pass

    def __post_init__(self) -> None:
        pass


@lru_cache(maxsize=256)
def _blank_struct(cls: Any) -> Any:
    """Return a record of a Struct class that its ``__post_init__`` has not seen, to be copied."""
    twin = type(cls)(cls.__name__, (_NoCode, cls), {"__module__": cls.__module__})
    blank = twin(**dict.fromkeys(cls.__struct_fields__))
    _set_class(blank, cls)
    # The young ones only: nobody shall find the twin among the derived classes.
    del twin
    gc.collect(0)
    return blank


class Builder:
    """Makes records of one class from their values by name.

    For the tiers where speed is not first; the generated decoders hold the same lines inline.

    Attributes:
        stored: The names of the fields that a payload holds.
    """

    def __init__(self, shape: Shape, *, is_root: bool = False) -> None:
        """Prepare for a class.

        Args:
            shape: The class.
            is_root: The records carry the identity, in the field of the shape; in a record inside
                another that field is like any other.
        """
        self._shape = shape
        self._identity = shape.identity if is_root else None
        self._names = {field.name for field in shape.fields}
        self.stored = self._names - {self._identity}
        self._known = self._names | set(STATE_NAMES)
        self._is_model = shape.kind == "pydantic"
        self._build = self._function(
            "values", {name: f"values[{name!r}]" for name in self._names}, {}
        )

    @cached_property
    def build_exactly(self) -> Callable[[dict[str, Any], Callable[[Any], Any], int], Any]:
        """The function that makes a record from plain forms, of just the names in ``stored``.

        It is called with them, with what makes a value of a plain form, and with the identity.
        """
        values = {
            field.name: f"(v{i} if type(v{i} := plain[{field.name!r}]) in PLAIN else convert(v{i}))"
            for i, field in enumerate(self._shape.fields)
        }
        if self._identity is not None:
            values[self._identity] = "identity"
        return self._function("plain, convert, identity", values, {"PLAIN": PLAIN})

    def _function(
        self, parameters: str, values: dict[str, str], namespace: dict[str, Any]
    ) -> Callable[..., Any]:
        """Compile the function that makes a record from the sources of its values."""
        lines = assignments(self._shape, values, namespace)
        exec("\n    ".join([f"def build({parameters}):", *lines, "return o"]), namespace)
        function: Callable[..., Any] = namespace["build"]
        return function

    def values_of(self, plain: dict[str, Any], convert: Callable[[Any], Any]) -> dict[str, Any]:
        """Return the values of what is of use to the class in a payload's plain forms by name.

        What else there is a newer program may have added, and it may be of classes that are not
        there.
        """
        values = {name: convert(item) for name, item in plain.items() if name in self._known}
        gone = plain.keys() - self._known
        if gone and FIELDS_SET in values:
            # Names of further values stay, those of fields that are gone do not.
            values[FIELDS_SET] = [name for name in values[FIELDS_SET] if name not in gone]
        return values

    def __call__(self, values: dict[str, Any], identity: int = 0) -> Any:
        """Return a record.

        Args:
            values: By field name; may be changed. Unknown names are dropped, and missing ones get
                their default.
            identity: Goes into the field that carries it, if there is one.

        Raises:
            DecodeError: A required field is missing.
        """
        if self._identity is not None:
            values[self._identity] = identity
        if EXTRA in values:
            take_declared(values, self._names)
        try:
            record = self._build(values)
        except KeyError:
            for field in self._shape.fields:
                if field.name not in values:
                    values[field.name] = default_of(field, self._shape.name)
            record = self._build(values)
        if self._is_model:
            set_state(record, values, self._identity)
        return record


def default_of(field: FieldShape, class_name: str) -> Any:
    """Return the default for a field that the payload does not have.

    Raises:
        DecodeError: The field is required.
    """
    if field.required:
        raise missing_field(field.name, class_name)
    return field.make_default()


def missing_field(path: str, class_name: str) -> DecodeError:
    """Return the error for a required field that an older payload does not have."""
    return DecodeError(
        f"{path}: the stored record has no such field, and {class_name} gives it no default. "
        "Give the field a default or a default_factory, or set it in a function declared as "
        "upgrade= or in upgrades=, to read records from before it existed.",
        field=path,
    )
