"""Shape: what a record class looks like, whichever library made it."""

from __future__ import annotations

import copy
import dataclasses
import datetime
import decimal
import enum
import inspect
import ipaddress
import sys
import types
import typing
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from memdb.errors import RecordTypeError

Kind = Literal["dataclass", "struct", "attrs", "namedtuple", "dict"]


class _Missing(enum.Enum):
    MISSING = "MISSING"

    def __repr__(self) -> str:
        return "MISSING"


#: Stands for "this field has no default".
MISSING = _Missing.MISSING

# Values of these types can be shared by any number of records.
_IMMUTABLE = frozenset(
    {
        type(None),
        bool,
        int,
        float,
        complex,
        str,
        bytes,
        datetime.date,
        datetime.time,
        datetime.datetime,
        datetime.timedelta,
        decimal.Decimal,
        uuid.UUID,
        ipaddress.IPv4Address,
        ipaddress.IPv6Address,
    }
)


@dataclass(frozen=True, slots=True, eq=False)
class FieldShape:
    """One field of a record class.

    Attributes:
        name: The attribute's name.
        annotation: The resolved annotation, ``Annotated`` and all; ``Any`` where it can't be
            resolved.
        required: Whether the class gives the field no default.
        default: The default value, or ``MISSING``.
        default_factory: What makes a default for each record, or None.
        in_init: Whether the constructor takes it.
    """

    name: str
    annotation: Any
    required: bool = True
    default: Any = MISSING
    default_factory: Callable[[], Any] | None = None
    in_init: bool = True

    def make_default(self) -> Any:
        """Return a default that no other record shares, as far as it is mutable."""
        if self.default_factory is not None:
            return self.default_factory()
        if self.default is MISSING:
            raise LookupError(self.name)
        if type(self.default) in _IMMUTABLE or isinstance(self.default, enum.Enum):
            return self.default
        return copy.deepcopy(self.default)


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """What a record class looks like.

    Attributes:
        cls: The class; ``dict`` for plain dicts.
        name: The class's own name.
        kind: Which library made it.
        fields: In order of definition; empty for dicts.
        identity: The field that carries the identity, or None if the class has none.
        is_frozen: Whether its attributes can't be assigned.
        has_slots: Whether its instances have no ``__dict__``.
    """

    cls: type
    name: str
    kind: Kind
    fields: tuple[FieldShape, ...]
    identity: str | None
    is_frozen: bool
    has_slots: bool

    @property
    def payload_fields(self) -> tuple[FieldShape, ...]:
        """The fields that a payload holds: all but the identity, which the pointer carries."""
        return tuple(field for field in self.fields if field.name != self.identity)


def shape_of(cls: type | None) -> Shape:
    """Return the shape of a record class.

    Args:
        cls: A dataclass, ``msgspec.Struct``, attrs class or NamedTuple; None or ``dict`` for
            plain dicts.

    Returns:
        Its shape. Annotations that can't be resolved count as ``Any``.

    Raises:
        RecordTypeError: The class is none of these, or can't have instances.

    >>> class Point(typing.NamedTuple):
    ...     x: int
    ...     y: int = 0
    >>> shape = shape_of(Point)
    >>> shape.kind, [field.name for field in shape.fields], shape.fields[1].default
    ('namedtuple', ['x', 'y'], 0)
    """
    if cls is None or cls is dict:
        return Shape(dict, "dict", "dict", (), "id", False, False)
    kind = kind_of(cls)
    if kind is None:
        raise RecordTypeError(_not_a_record(cls))
    fields = _FIELDS[kind](cls, _annotations(cls))
    if kind in ("dataclass", "attrs"):
        try:
            object.__new__(cls)
        except TypeError as error:
            raise RecordTypeError(
                f"{cls.__qualname__} can't be a record class: {error}. "
                "Use a class that can have instances and extends no builtin."
            ) from error
    identity = next(
        (field.name for field in fields if field.name == "id" and _is_int(field.annotation)), None
    )
    return Shape(
        cls,
        cls.__name__,
        kind,
        fields,
        identity,
        _is_frozen(cls, kind),
        cls.__dictoffset__ == 0,
    )


def kind_of(cls: object) -> Kind | None:
    """Return which library made the record class, or None for what is no record class."""
    if not isinstance(cls, type) or isinstance(cls, types.GenericAlias):
        return None
    if issubclass(cls, msgspec.Struct):
        return None if cls is msgspec.Struct else "struct"
    if dataclasses.is_dataclass(cls):
        return "dataclass"
    if hasattr(cls, "__attrs_attrs__"):
        return "attrs"
    if issubclass(cls, tuple) and hasattr(cls, "_fields") and hasattr(cls, "_field_defaults"):
        return "namedtuple"
    return None


def strip(annotation: Any) -> Any:
    """Return what an annotation says about the type: without Annotated, NewType and the like."""
    while True:
        origin = typing.get_origin(annotation)
        if origin in (typing.Annotated, typing.Final, typing.Required, typing.NotRequired):
            annotation = typing.get_args(annotation)[0]
        elif isinstance(annotation, typing.NewType):
            annotation = annotation.__supertype__
        elif type(annotation).__name__ == "TypeAliasType":
            annotation = annotation.__value__
        else:
            return annotation


def is_union(annotation: Any) -> bool:
    """Whether an annotation is a union, written either way."""
    return typing.get_origin(annotation) in (typing.Union, types.UnionType)


def reachable(shape: Shape) -> dict[str, type]:
    """Return the record and Enum classes that the annotations of a shape lead to, by name.

    Only these can be named by a payload. A name is the qualified name of the class, with the
    module before it where two classes share one.
    """
    found: dict[type, None] = {}

    def visit(annotation: Any) -> None:
        annotation = strip(annotation)
        for argument in typing.get_args(annotation):
            visit(argument)
        target = typing.get_origin(annotation) or annotation
        if isinstance(target, type) and target not in found:
            if issubclass(target, enum.Enum):
                found[target] = None
            elif kind_of(target) is not None:
                try:
                    fields = shape_of(target).fields
                except RecordTypeError:
                    # An abstract class, say: no value is exactly of it.
                    return
                found[target] = None
                for field in fields:
                    visit(field.annotation)
        elif isinstance(annotation, enum.Enum):
            visit(type(annotation))

    for field in shape.fields:
        visit(field.annotation)
    names: dict[str, type] = {}
    shared = {cls.__qualname__ for cls in found if _count(cls.__qualname__, found) > 1}
    for cls in found:
        name = cls.__qualname__
        names[f"{cls.__module__}.{name}" if name in shared else name] = cls
    return names


def _count(name: str, classes: dict[type, None]) -> int:
    return sum(cls.__qualname__ == name for cls in classes)


def type_text(annotation: Any) -> str:
    """Return an annotation as text that is the same in every process.

    >>> type_text(dict[str, typing.Optional[decimal.Decimal]])
    'dict[str, Decimal | None]'
    """
    annotation = strip(annotation)
    if annotation is type(None) or annotation is None:
        return "None"
    if annotation is Ellipsis:
        return "..."
    arguments = typing.get_args(annotation)
    if is_union(annotation):
        return " | ".join(type_text(argument) for argument in arguments)
    origin = typing.get_origin(annotation)
    if origin is Literal:
        return f"Literal[{', '.join(_literal_text(argument) for argument in arguments)}]"
    target = origin or annotation
    name = getattr(target, "__qualname__", None) or getattr(target, "_name", None)
    text = str(name) if name else getattr(target, "__name__", type(target).__name__)
    if not arguments:
        return "tuple[()]" if origin is tuple else text
    return f"{text}[{', '.join(type_text(argument) for argument in arguments)}]"


def _literal_text(value: object) -> str:
    if isinstance(value, enum.Enum):
        return f"{type(value).__qualname__}.{value.name}"
    return repr(value)


def _is_int(annotation: Any) -> bool:
    """Whether a field of this annotation can carry the identity: int, or int or None."""
    annotation = strip(annotation)
    if is_union(annotation):
        arguments = {strip(argument) for argument in typing.get_args(annotation)}
        return arguments == {int, type(None)}
    return annotation is int


def _is_frozen(cls: type, kind: Kind) -> bool:
    if kind == "namedtuple":
        return True
    if kind == "struct":
        return bool(typing.cast(Any, cls).__struct_config__.frozen)
    if kind == "dataclass":
        return bool(typing.cast(Any, cls).__dataclass_params__.frozen)
    return getattr(cls.__setattr__, "__name__", "") == "_frozen_setattrs"


def _not_a_record(cls: object) -> str:
    name = getattr(cls, "__qualname__", None) or repr(cls)
    if hasattr(cls, "model_fields") and hasattr(cls, "model_validate"):
        return (
            f"{name} is a pydantic model, which can't be a record class yet. "
            "Use a dataclass (pydantic's own dataclasses work), or store model_dump() as a dict."
        )
    return (
        f"{name} is no record class. Use a dataclass, a msgspec.Struct, an attrs class, "
        "a NamedTuple, or no class at all for plain dicts."
    )


def _annotations(cls: type) -> dict[str, Any]:
    """Return the resolved annotations, one by one where not all can be resolved."""
    try:
        return typing.get_type_hints(cls, include_extras=True)
    except Exception:
        # An annotation may name what exists only for type checkers, or only in a function.
        return dict(_annotations_one_by_one(cls))


def _annotations_one_by_one(cls: type) -> Iterator[tuple[str, Any]]:
    for base in reversed(cls.__mro__):
        try:
            annotations = inspect.get_annotations(base)
        except Exception:  # pragma: no cover - from Python 3.14 on, where they are evaluated late
            continue
        scope = {**vars(sys.modules.get(base.__module__, types)), base.__name__: base}
        for name, annotation in annotations.items():
            if not isinstance(annotation, str):
                yield name, type(None) if annotation is None else annotation
                continue
            holder = type("_Holder", (), {"__annotations__": {name: annotation}})
            try:
                hints = typing.get_type_hints(holder, scope, dict(vars(base)), include_extras=True)
                yield name, hints[name]
            except Exception:
                yield name, Any


def _dataclass_fields(cls: Any, annotations: dict[str, Any]) -> tuple[FieldShape, ...]:
    fields = []
    for field in dataclasses.fields(cls):
        default = MISSING if field.default is dataclasses.MISSING else field.default
        factory = None if field.default_factory is dataclasses.MISSING else field.default_factory
        fields.append(
            FieldShape(
                field.name,
                annotations.get(field.name, Any),
                default is MISSING and factory is None,
                default,
                factory,
                field.init,
            )
        )
    return tuple(fields)


def _struct_fields(cls: Any, annotations: dict[str, Any]) -> tuple[FieldShape, ...]:
    names: tuple[str, ...] = cls.__struct_fields__
    defaults: tuple[Any, ...] = cls.__struct_defaults__
    padded = (msgspec.NODEFAULT,) * (len(names) - len(defaults)) + defaults
    fields = []
    for name, default in zip(names, padded, strict=True):
        factory = getattr(default, "factory", None) if _is_struct_factory(default) else None
        value = MISSING if default is msgspec.NODEFAULT or factory is not None else default
        fields.append(
            FieldShape(
                name,
                annotations.get(name, Any),
                value is MISSING and factory is None,
                value,
                factory,
            )
        )
    return tuple(fields)


def _is_struct_factory(default: object) -> bool:
    return type(default).__module__.startswith("msgspec") and type(default).__name__ == "Factory"


def _attrs_fields(cls: Any, annotations: dict[str, Any]) -> tuple[FieldShape, ...]:
    fields = []
    for attribute in cls.__attrs_attrs__:
        default, factory = attribute.default, None
        if type(default).__name__ == "Factory":
            # A factory that takes the record can't be called before there is one.
            factory = None if default.takes_self else default.factory
            default = MISSING
        elif repr(default) == "NOTHING":
            default = MISSING
        annotation = annotations.get(attribute.name, attribute.type)
        fields.append(
            FieldShape(
                attribute.name,
                Any if annotation is None or isinstance(annotation, str) else annotation,
                default is MISSING and factory is None,
                default,
                factory,
                attribute.init,
            )
        )
    return tuple(fields)


def _namedtuple_fields(cls: Any, annotations: dict[str, Any]) -> tuple[FieldShape, ...]:
    defaults = cls._field_defaults
    return tuple(
        FieldShape(
            name, annotations.get(name, Any), name not in defaults, defaults.get(name, MISSING)
        )
        for name in cls._fields
    )


_FIELDS: dict[str, Callable[[Any, dict[str, Any]], tuple[FieldShape, ...]]] = {
    "dataclass": _dataclass_fields,
    "struct": _struct_fields,
    "attrs": _attrs_fields,
    "namedtuple": _namedtuple_fields,
}
