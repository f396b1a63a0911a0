"""Shape: what a record class looks like, whichever library made it."""

from __future__ import annotations

import collections
import contextlib
import copy
import dataclasses
import datetime
import decimal
import enum
import fractions
import ipaddress
import pathlib
import sys
import types
import typing
import uuid
import zoneinfo
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from memdb.errors import RecordTypeError
from memdb.serializers._annotations import annotations_of, substitute

Kind = Literal["dataclass", "struct", "attrs", "pydantic", "namedtuple", "dict", "union"]


class _Missing(enum.Enum):
    MISSING = "MISSING"

    def __repr__(self) -> str:
        return "MISSING"


#: Stands for "this field has no default".
MISSING = _Missing.MISSING

#: Values of these types can be shared by any number of records.
IMMUTABLE = frozenset(
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

#: The types that a type text names without their modules, beside the classes of the program.
STANDARD_TYPES: tuple[type, ...] = (
    *(bool, int, float, complex, str, bytes, bytearray, list, tuple, set, frozenset, dict),
    *(datetime.date, datetime.time, datetime.datetime, datetime.timedelta),
    *(datetime.timezone, zoneinfo.ZoneInfo, decimal.Decimal, fractions.Fraction, uuid.UUID),
    *(ipaddress.IPv4Address, ipaddress.IPv4Network, ipaddress.IPv4Interface),
    *(ipaddress.IPv6Address, ipaddress.IPv6Network, ipaddress.IPv6Interface),
    *(pathlib.Path, pathlib.PurePath, pathlib.PosixPath, pathlib.PurePosixPath),
    *(pathlib.WindowsPath, pathlib.PureWindowsPath),
)
# These say less, and a class of the program's may not be taken for them either.
_TAKEN = {cls.__name__ for cls in STANDARD_TYPES} | {
    *("Any", "Counter", "Literal", "OrderedDict", "deque", "ndarray", "object", "range"),
}


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
        if type(self.default) in IMMUTABLE or isinstance(self.default, enum.Enum):
            return self.default
        return copy.deepcopy(self.default)


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """What a record class looks like.

    Attributes:
        cls: The class; ``dict`` for plain dicts and a TypedDict.
        name: The class's own name, with what its type variables stand for: ``Box[int]``.
        kind: Which library made it.
        fields: In order of definition; empty for dicts, but not for a TypedDict.
        identity: The field that carries the identity, or None: then a field ``id`` is as any other.
        is_frozen: Whether its attributes can't be assigned.
        has_slots: Whether its instances have no ``__dict__``.
        aliases: Older names of classes, as payloads may hold them, and what they are called now.
    """

    cls: type
    name: str
    kind: Kind
    fields: tuple[FieldShape, ...]
    identity: str | None
    is_frozen: bool
    has_slots: bool
    aliases: Mapping[str, type] = dataclasses.field(default_factory=dict)

    @property
    def payload_fields(self) -> tuple[FieldShape, ...]:
        """The fields that a payload holds: all but the identity, which the pointer carries."""
        return tuple(field for field in self.fields if field.name != self.identity)


def shape_of(cls: Any) -> Shape:
    """Return the shape of a record class.

    Args:
        cls: A dataclass, ``msgspec.Struct``, attrs class, pydantic model, NamedTuple or TypedDict,
            with its arguments if it is generic (``Box[int]``); None or ``dict`` for plain dicts.

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
    target, arguments = typing.get_origin(cls) or cls, typing.get_args(cls)
    kind: Kind | None = "dict" if is_typed_dict(target) else kind_of(target)
    if kind is None:
        raise RecordTypeError(_not_a_record(cls))
    fields = _FIELDS[kind](target, annotations_of(target, arguments))
    if kind in ("dataclass", "attrs", "pydantic"):
        try:
            object.__new__(target)
        except TypeError as error:
            raise RecordTypeError(
                f"{target.__qualname__} can't be a record class: {error}. "
                "Use a class that can have instances and extends no builtin."
            ) from error
    identity = next(
        (field.name for field in fields if field.name == "id" and _is_int(field.annotation)), None
    )
    return Shape(
        dict if kind == "dict" else target,
        target.__name__ + (f"[{', '.join(map(type_text, arguments))}]" if arguments else ""),
        kind,
        fields,
        identity,
        _is_frozen(target, kind),
        kind != "dict" and target.__dictoffset__ == 0,
    )


def kind_of(cls: object) -> Kind | None:
    """Return which library made the record class, or None for what is no record class.

    A TypedDict is none here: its records are plain dicts, which nothing tells from others.
    """
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
    if hasattr(cls, "__pydantic_root_model__") and not cls.__module__.startswith("pydantic."):
        return "pydantic"
    return None


def is_typed_dict(cls: object) -> bool:
    """Whether a class is a TypedDict, of the standard library or of typing_extensions."""
    return isinstance(cls, type) and issubclass(cls, dict) and hasattr(cls, "__required_keys__")


def strip(annotation: Any) -> Any:
    """Return what an annotation says about the type: without Annotated, NewType and the like.

    A type alias that contains itself says nothing: ``Any``.
    """
    while (inner := unwrap(annotation)) is not annotation:
        annotation = inner
    return annotation


def unwrap(annotation: Any) -> Any:
    """Return an annotation without the outermost thing that `strip` takes off."""
    origin = typing.get_origin(annotation)
    if origin in _QUALIFIERS:
        return typing.get_args(annotation)[0]
    if isinstance(annotation, typing.NewType):
        return annotation.__supertype__
    return _alias_value(annotation) if _is_alias(origin or annotation) else annotation


def is_union(annotation: Any) -> bool:
    """Whether an annotation is a union, written either way."""
    return typing.get_origin(annotation) in (typing.Union, types.UnionType)


# ReadOnly came with Python 3.13.
_QUALIFIERS = (
    *(typing.Annotated, typing.Final, typing.Required, typing.NotRequired),
    getattr(typing, "ReadOnly", typing.NotRequired),
)


def _is_alias(annotation: Any) -> bool:
    """Whether an annotation was made by a type statement, which Python has from 3.12 on."""
    return type(annotation).__name__ == "TypeAliasType"


def _alias_value(annotation: Any) -> Any:
    """Return what an alias stands for, ``Any`` if that contains the alias."""
    alias = typing.get_origin(annotation) or annotation
    if _contains(alias.__value__, alias):
        return Any
    parameters = getattr(alias, "__type_params__", ())
    arguments = typing.get_args(annotation)
    return substitute(alias.__value__, dict(zip(parameters, arguments, strict=False)))


def _contains(annotation: Any, alias: Any, seen: tuple[Any, ...] = ()) -> bool:
    """Whether an annotation leads to an alias."""
    target = typing.get_origin(annotation) or annotation
    if target is alias:
        return True
    parts = typing.get_args(annotation)
    if _is_alias(target) and not any(target is other for other in seen):
        seen = (*seen, target)
        parts = (*parts, target.__value__)
    return any(_contains(part, alias, seen) for part in parts)


def reachable(shape: Shape, *, is_declared: bool = False) -> dict[str, type]:
    """Return the record and Enum classes that the annotations of a shape lead to, by name.

    So do the classes derived from these, as far as they are defined by now, and those that
    `Shape.aliases` lead to. Only these can be named by a payload. A name is the qualified name of
    the class, with the module before it where two classes, or one and a standard type, share one.

    Args:
        shape: The record class.
        is_declared: Leave out what depends on which modules are imported, and the aliases.
    """
    visitor = _Visitor(is_declared=is_declared)
    visitor.visit_fields(shape)
    if not is_declared:
        for cls in shape.aliases.values():
            visitor.visit(cls)
    return visitor.names()


class _Visitor:
    """Walks annotations and gathers the classes that they lead to."""

    def __init__(self, *, is_declared: bool) -> None:
        self._is_declared = is_declared
        # Whether an annotation names the class itself, or a base of it.
        self._found: dict[type, bool] = {}
        self._bases: set[type] = set()
        self._aliases: list[Any] = []

    def visit(self, annotation: Any) -> None:
        """Gather what an annotation leads to."""
        for argument in typing.get_args(annotation):
            self.visit(argument)
        target = typing.get_origin(annotation) or annotation
        if _is_alias(target):
            if not any(target is alias for alias in self._aliases):
                self._aliases.append(target)
                self.visit(target.__value__)
        elif isinstance(target, typing.NewType):
            self.visit(target.__supertype__)
        elif isinstance(target, typing.TypeVar):
            for bound in (target.__bound__, *target.__constraints__):
                self.visit(bound)
        elif isinstance(target, enum.Enum):
            self._visit_class(type(target), is_named=True)
        elif isinstance(target, type):
            self._visit_class(target, is_named=True)

    def visit_fields(self, shape: Shape) -> None:
        """Gather what the annotations of a class lead to."""
        for field in shape.fields:
            self.visit(field.annotation)
        if shape.kind == "pydantic":
            # Of the values that it does not declare.
            self.visit(annotations_of(shape.cls).get("__pydantic_extra__"))

    def _visit_class(self, cls: type, *, is_named: bool) -> None:
        if cls in self._found:
            self._found[cls] |= is_named
            return
        if is_typed_dict(cls):
            if cls not in self._bases:
                self._bases.add(cls)
                for annotation in annotations_of(cls).values():
                    self.visit(annotation)
            return
        if issubclass(cls, enum.Enum):
            if cls.__members__:
                self._found[cls] = is_named
        elif kind_of(cls) is not None:
            # An abstract class is left out: no value is exactly of it.
            with contextlib.suppress(RecordTypeError):
                shape = shape_of(cls)
                self._found[cls] = is_named
                self.visit_fields(shape)
        if self._is_declared or cls in self._bases:
            return
        if cls.__module__.partition(".")[0] in _FOREIGN:
            return
        self._bases.add(cls)
        subclasses: list[type] = type.__subclasses__(cls)
        for derived in subclasses:
            self._visit_class(derived, is_named=False)

    def names(self) -> dict[str, type]:
        """Return the classes by name."""
        classes = list(self._found)
        # What slots=True was applied to leaves a twin behind, which lives until it is collected.
        kept = [cls for cls in classes if self._found[cls] or _is_current(cls, classes)]
        # Derived classes come and go with what is imported: they change no other class's name.
        named = collections.Counter(cls.__qualname__ for cls in kept if self._found[cls])
        every = collections.Counter(cls.__qualname__ for cls in kept)
        names: dict[str, type] = {}
        for cls in kept:
            name = cls.__qualname__
            is_only = (named if self._found[cls] else every)[name] == 1 and name not in _TAKEN
            names[name if is_only else f"{cls.__module__}.{name}"] = cls
        return names


# Derived classes of theirs are not meant by an annotation: of tuple, say, or of BaseModel.
_FOREIGN = sys.stdlib_module_names | {"attr", "attrs", "msgspec", "numpy", "pydantic"}


def _is_current(cls: type, classes: list[type]) -> bool:
    """Whether a class is the one that its module and name mean, as far as that can be told."""
    place = cls.__module__, cls.__qualname__
    twins = [other for other in classes if (other.__module__, other.__qualname__) == place]
    if len(twins) == 1:
        return True
    found: Any = sys.modules.get(cls.__module__)
    for part in cls.__qualname__.split("."):
        found = getattr(found, part, None)
    return cls is (found if found in twins else twins[-1])


def type_text(annotation: Any, names: Mapping[type, str] | None = None) -> str:
    """Return an annotation as text that is the same in every process.

    Args:
        annotation: The annotation.
        names: What to call classes whose qualified name is not unique.

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
        return " | ".join(type_text(argument, names) for argument in arguments)
    origin = typing.get_origin(annotation)
    if origin is Literal:
        return f"Literal[{', '.join(_literal_text(argument) for argument in arguments)}]"
    target = origin or annotation
    name = getattr(target, "__qualname__", None) or getattr(target, "_name", None)
    text = str(name) if name else getattr(target, "__name__", type(target).__name__)
    if names and isinstance(target, type):
        text = names.get(target, text)
    if not arguments:
        return "tuple[()]" if origin is tuple else text
    return f"{text}[{', '.join(type_text(argument, names) for argument in arguments)}]"


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
    if kind == "dict":
        return False
    if kind == "pydantic":
        return bool(typing.cast(Any, cls).model_config.get("frozen"))
    if kind == "struct":
        return bool(typing.cast(Any, cls).__struct_config__.frozen)
    if kind == "dataclass":
        return bool(typing.cast(Any, cls).__dataclass_params__.frozen)
    return getattr(cls.__setattr__, "__name__", "") == "_frozen_setattrs"


def _not_a_record(cls: object) -> str:
    name = getattr(cls, "__qualname__", None) or repr(cls)
    return (
        f"{name} is no record class. Use a dataclass, a msgspec.Struct, an attrs class, a pydantic "
        "model (of pydantic 2), a NamedTuple, a TypedDict, or no class at all for plain dicts."
    )


def _dataclass_fields(cls: Any, annotations: dict[str, Any]) -> tuple[FieldShape, ...]:
    fields = []
    for field in dataclasses.fields(cls):
        default = MISSING if field.default is dataclasses.MISSING else field.default
        factory = None if field.default_factory is dataclasses.MISSING else field.default_factory
        if type(default).__name__ == "FieldInfo":
            # A pydantic dataclass keeps its Field(...) there.
            default, factory = _pydantic_default(default)
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


def _pydantic_fields(cls: Any, annotations: dict[str, Any]) -> tuple[FieldShape, ...]:
    if not cls.__pydantic_complete__:
        # It names what was not yet defined; what still is not is as any other such name.
        cls.model_rebuild(raise_errors=False)
    fields = []
    for name, info in cls.model_fields.items():
        annotation = info.annotation
        if _is_open(annotation):
            annotation = annotations.get(name, Any)
        elif info.metadata:
            annotation = typing.Annotated[annotation, *info.metadata]
        default, factory = _pydantic_default(info)
        required = default is MISSING and factory is None
        fields.append(FieldShape(name, annotation, required, default, factory))
    return tuple(fields)


def _pydantic_default(info: Any) -> tuple[Any, Callable[[], Any] | None]:
    """Return default and default factory of a pydantic field."""
    if info.default_factory is not None:
        # One that takes the validated data can't be called before there is a record.
        takes_data = getattr(info, "default_factory_takes_validated_data", False)
        return MISSING, None if takes_data else info.default_factory
    undefined = type(info.default).__name__ == "PydanticUndefinedType" or info.default is ...
    return MISSING if undefined else info.default, None


def _is_open(annotation: Any) -> bool:
    """Whether names in an annotation are not resolved."""
    if isinstance(annotation, str | typing.ForwardRef):
        return True
    return any(_is_open(part) for part in typing.get_args(annotation) if not isinstance(part, str))


def _typed_dict_fields(cls: Any, annotations: dict[str, Any]) -> tuple[FieldShape, ...]:
    fields = []
    for name, annotation in annotations.items():
        required = name in cls.__required_keys__
        # Python itself does not see these two where annotations are strings.
        while typing.get_origin(annotation) in _QUALIFIERS[2:]:
            required = {typing.Required: True, typing.NotRequired: False}.get(
                typing.get_origin(annotation), required
            )
            annotation = typing.get_args(annotation)[0]
        fields.append(FieldShape(name, annotation, required))
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
    "pydantic": _pydantic_fields,
    "namedtuple": _namedtuple_fields,
    "dict": _typed_dict_fields,
}
