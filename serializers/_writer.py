"""Writer schema: what a file remembers of the class that its payloads were written with.

The other way round, `shape_of_writer` makes the *writer's world* of a schema: classes that stand
for those that the writer knew, so that its payloads decode exactly in a program that has none of
them. `as_plain` turns what they give into dicts and values.
"""

from __future__ import annotations

import ast
import enum
import functools
import re
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal, Union

from memdb.errors import DecodeError, EncodeError, MemdbError, RecordTypeError
from memdb.serializers._build import safe_name
from memdb.serializers._enums import by_name, is_by_name
from memdb.serializers._exact import ExactTier
from memdb.serializers._protocol import Serializer
from memdb.serializers._pydantic import EXTRA, FIELDS_SET, further_values
from memdb.serializers._shape import (
    IMMUTABLE,
    STANDARD_TYPES,
    FieldShape,
    Shape,
    reachable,
    shape_of,
    type_text,
)
from memdb.serializers._stack import pass_on


def writer_schema(
    shape: Shape, serializer: Serializer, *, version: int = 1, tag: str | None = None
) -> dict[str, Any]:
    """Return what decoding needs to know of the class as it is now, as JSON can hold it.

    Two classes with equal schemas write the same payloads. Fields are those of the payload: the
    identity is in the pointer. What is empty or as usual is left out.

    Args:
        shape: The class.
        serializer: What writes the payloads.
        version: The version of the class, where the program counts them.
        tag: What the file calls the class, in a collection of several.

    >>> from memdb.serializers import get_serializer, shape_of
    >>> writer_schema(shape_of(None), get_serializer("json"))
    {'serializer': 'json', 'class': 'dict', 'kind': 'dict', 'fields': []}
    """
    classes = reachable(shape, is_declared=True)
    names = {cls: name for name, cls in classes.items()}
    schema: dict[str, Any] = {
        "serializer": serializer.name,
        "class": shape.name,
        "kind": shape.kind,
        "fields": _fields(shape.payload_fields, names),
    }
    records = {
        name: _fields(shape_of(cls).fields, names)
        for name, cls in classes.items()
        if not issubclass(cls, enum.Enum)
    }
    enums = {name: _enum(cls) for name, cls in classes.items() if issubclass(cls, enum.Enum)}
    if records:
        schema["records"] = records
    if enums:
        schema["enums"] = enums
    if version != 1:
        schema["version"] = version
    if tag is not None:
        schema["tag"] = tag
    return schema


def _fields(fields: Iterable[FieldShape], names: Mapping[type, str]) -> list[list[str]]:
    return [[field.name, type_text(field.annotation, names)] for field in fields]


#: Stands for the value of an Enum member that can't be stored. Do not change: part of the format.
OPAQUE = ["opaque"]
_ENUM_KINDS: tuple[type[enum.Enum], ...] = (enum.IntFlag, enum.Flag, enum.IntEnum, enum.StrEnum)


def _enum(cls: type[enum.Enum]) -> dict[str, Any]:
    """Return the members of an Enum class, with the plain forms of their values."""
    tier = ExactTier(shape_of(None))
    kind = next((base.__name__ for base in _ENUM_KINDS if issubclass(cls, base)), "Enum")
    members: list[list[Any]] = []
    for name, member in cls.__members__.items():
        try:
            members.append([name, tier.to_plain(member.value)])
        except (EncodeError, RecordTypeError):
            members.append([name, OPAQUE])
    schema: dict[str, Any] = {"kind": kind, "members": members}
    if is_by_name(cls):
        schema["by_name"] = True
    return schema


@contextmanager
def understanding(writer: Mapping[str, Any] | None) -> Iterator[None]:
    """Make a `DecodeError` of whatever a writer schema makes go wrong.

    Whoever writes a file may write anything into it.
    """
    try:
        yield
    except Exception as error:
        pass_on(error, MemdbError)
        if writer is None:
            raise
        raise DecodeError(
            "the file describes the class of a record in a way that can't be understood "
            f"({type(error).__name__}). It was not written by memdb, or by a newer one."
        ) from error


# -- the writer's world ------------------------------------------------------------------------


class _Absent(enum.Enum):
    ABSENT = "ABSENT"


#: Stands in a `WorldRecord` for a field that the stored record has not.
ABSENT = _Absent.ABSENT


class WorldRecord(tuple[Any, ...]):
    """A nested record of a class that only the writer knew; a tuple of its fields' values.

    They are no attributes, as their names may be any.
    """

    __slots__ = ()
    _fields: tuple[str, ...]

    # Two records that were apart in a set of the writer's stay apart.
    __eq__ = object.__eq__
    __ne__ = object.__ne__
    __hash__ = object.__hash__


def items_present(record: WorldRecord) -> Iterable[tuple[str, Any]]:
    """Return the fields that a stored record has."""
    pairs = zip(record._fields, record, strict=True)
    return [(name, value) for name, value in pairs if value is not ABSENT]


class NamedDict(dict[str, Any]):
    """A nested record as a dict, which has not forgotten the name of its class."""

    __slots__ = ("class_name",)

    def __init__(self, items: Iterable[tuple[str, Any]], class_name: str) -> None:
        super().__init__(items)
        self.class_name = class_name


def world_of(writer: Mapping[str, Any]) -> dict[str, type]:
    """Return classes that stand for the nested records and Enums of a writer schema, by name."""
    tier = ExactTier(shape_of(None))
    classes: dict[str, type] = {}
    for name, content in writer.get("enums", {}).items():
        made = _world_enum(name, content, tier)
        if made is not None:
            classes[name] = made
    records = writer.get("records", {})
    for name, fields in records.items():
        classes[name] = _world_record(name, [field for field, _ in fields])
    texts = _by_text(classes)
    for name, fields in records.items():
        # Only now, as records may contain each other.
        classes[name].__annotations__ = {field: parse_type(text, texts) for field, text in fields}
    return classes


def enum_values(writer: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the Enums of a writer schema: name -> member -> value, None where it has none.

    Raises:
        DecodeError: The schema is none.
    """
    tier = ExactTier(shape_of(None))
    with understanding(writer):
        return {
            name: {member: _value(value, None, tier) for member, value in content["members"]}
            for name, content in writer.get("enums", {}).items()
        }


def _value(plain: Any, otherwise: Any, tier: ExactTier) -> Any:
    """Return a member's value, or something else if it was not stored or can't be read here."""
    try:
        return otherwise if plain == OPAQUE else tier.from_plain(plain)
    except DecodeError:
        return otherwise


def _world_record(name: str, fields: list[str], base: type = WorldRecord) -> type:
    namespace: dict[str, Any] = {
        "__slots__": (),
        "__qualname__": name,
        "_fields": tuple(fields),
        # Nothing is required here: whether it is, the present class says.
        "_field_defaults": dict.fromkeys(fields, ABSENT),
    }
    return type(safe_name(name), (base,), namespace)


def _world_enum(name: str, content: Mapping[str, Any], tier: ExactTier) -> Any:
    members = [(member, _value(value, member, tier)) for member, value in content["members"]]
    made = _world_enum_of(name, members, is_flag=content["kind"] in ("Flag", "IntFlag"))
    if made is not None and content.get("by_name"):
        by_name(made)
    return made


# Making an Enum class takes time that grows with the square of these.
_MOST_BITS, _MOST_UNHASHABLE = 1024, 1000


def _world_enum_of(name: str, members: list[tuple[str, Any]], *, is_flag: bool) -> Any:
    """Return an Enum class, None if there can be none; its members are read as unknown then."""
    options: dict[str, Any] = {"boundary": enum.KEEP} if is_flag else {}
    make: Any = enum.Flag if is_flag else enum.Enum
    if any(member.startswith("_") and member.endswith("_") for member, _ in members):
        # Attributes of the class itself, and no members.
        return None
    if is_flag and not all(_is_flag(value) for _, value in members):
        return None
    if sum(type(value) not in IMMUTABLE for _, value in members) > _MOST_UNHASHABLE:
        return None
    try:
        made = make(name, members, **options)
    except Exception as error:
        pass_on(error)
        # Names or values that need what the user's class had.
        return None
    made.__qualname__ = name
    made.__is_of_world__ = True
    return made


def _is_flag(value: Any) -> bool:
    return type(value) is int and value.bit_length() <= _MOST_BITS


def foreign_value(tag: str, name: str, cls: Any, content: Any) -> Any:
    """Return a record of the writer's world, or what stands for a class it does not describe."""
    if tag != "record":
        # Of its class no more is known than this member's value, or its name.
        member = content if tag == "enum name" else "?"
        made = _world_enum_of(name, [(member, content)], is_flag=False)
        return content if made is None else made[member]
    if cls is None or not content.keys() <= set(cls._fields):
        # What a newer program has added to the nested record.
        cls = _wider_record(name, cls, tuple(content))
    return tuple.__new__(cls, [content.get(field, ABSENT) for field in cls._fields])


@functools.lru_cache(maxsize=1024)
def _wider_record(name: str, cls: Any, fields: tuple[str, ...]) -> Any:
    """Return a world's class, None for one that it has not, with further fields."""
    base, known = (WorldRecord, ()) if cls is None else (cls, cls._fields)
    made = _world_record(name, [*known, *(f for f in fields if f not in known)], base)
    made.__annotations__ = dict(base.__annotations__) if known else {}
    return made


def is_of_world(cls: type) -> bool:
    """Whether a class stands for one that only the writer knew."""
    return issubclass(cls, WorldRecord) or "__is_of_world__" in vars(cls)


def shape_of_writer(writer: Mapping[str, Any], identity: str | None = "id") -> Shape:
    """Return a shape that gives the records of a typed collection back as dicts.

    Nested records and Enum members are of the writer's world.

    Args:
        writer: The schema.
        identity: The key for the identity, if no field has that name; None to leave it out.
    """
    fields = fields_of_writer(writer, world_of(writer))
    if any(field.name == identity for field in fields):
        identity = None
    return Shape(dict, str(writer["class"]), "dict", fields, identity, False, False)


def fields_of_writer(
    writer: Mapping[str, Any], classes: Mapping[str, type]
) -> tuple[FieldShape, ...]:
    """Return the fields of a writer schema, annotated with the given classes."""
    texts = _by_text(classes)
    return tuple(FieldShape(name, parse_type(text, texts)) for name, text in writer["fields"])


def as_plain(value: Any) -> Any:
    """Return a value with records of the writer's world as dicts and members as their values.

    The dicts know the names of their classes. In a set, or as a key, a record is a tuple of
    pairs, as a dict can't be there, and what is in it is hashable too.
    """
    return _plain(value, NamedDict)


def as_dicts(value: Any) -> Any:
    """Return the same as `as_plain`, with dicts that are nothing but dicts."""
    return _plain(value, lambda items, name: dict(items))


def _plain(value: Any, make: Callable[[Iterable[tuple[str, Any]], str], dict[str, Any]]) -> Any:
    cls = type(value)
    if cls in IMMUTABLE:
        return value
    if cls is list:
        return [_plain(item, make) for item in value]
    if cls is tuple:
        return tuple([_plain(item, make) for item in value])
    if cls is dict:
        return {_hashable(key): _plain(item, make) for key, item in value.items()}
    if cls is set or cls is frozenset:
        return cls(map(_hashable, value))
    if cls is deque:
        return deque([_plain(item, make) for item in value], value.maxlen)
    if cls is OrderedDict or cls is Counter:
        return cls({_hashable(key): _plain(item, make) for key, item in value.items()})
    if cls is NamedDict:
        return make(((key, _plain(item, make)) for key, item in value.items()), value.class_name)
    if isinstance(value, WorldRecord):
        pairs = [(name, _plain(item, make)) for name, item in items_present(value)]
        return make(without_state(pairs), cls.__qualname__)
    if isinstance(value, enum.Enum) and is_of_world(cls):
        return _plain(value.value, make)
    return value


def without_state(pairs: Iterable[tuple[str, Any]]) -> Iterable[tuple[str, Any]]:
    """Return fields with what a pydantic model holds beyond its own among them.

    Raises:
        DecodeError: What it holds beyond is something else.
    """
    for name, item in pairs:
        if name == EXTRA:
            yield from further_values(item).items()
        elif name != FIELDS_SET:
            yield name, item


def _hashable(value: Any) -> Any:
    cls = type(value)
    if isinstance(value, WorldRecord):
        pairs = without_state(items_present(value))
        return tuple([(name, _hashable(item)) for name, item in pairs])
    if cls in (tuple, list, deque):
        return tuple(map(_hashable, value))
    if cls in (frozenset, set):
        return frozenset(map(_hashable, value))
    if isinstance(value, dict):
        return tuple([(_hashable(key), _hashable(item)) for key, item in value.items()])
    if cls is bytearray:
        return bytes(value)
    return as_plain(value)


# -- annotations as text -----------------------------------------------------------------------

# Written exactly only, but the classes that are named in their brackets must be found.
_EXACT = (deque, OrderedDict, Counter)
_NAMES: dict[str, Any] = {cls.__name__: cls for cls in (*STANDARD_TYPES, *_EXACT)}
_GENERIC = (list, tuple, set, frozenset, dict, *_EXACT)


def parse_type(text: str, classes: Mapping[str, type] | None = None) -> Any:
    """Return the annotation of a type text; ``Any`` for what is not known.

    Args:
        text: What `type_text` gave.
        classes: Record and Enum classes by the text of their names.

    >>> parse_type("dict[str, Decimal]")
    dict[str, decimal.Decimal]
    >>> parse_type("Address")
    typing.Any
    """
    if len(text) > _LONGEST_TYPE:
        return Any
    try:
        return _annotation(_parsed(text), classes or {})
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError) as error:
        pass_on(error)
        return Any


# What is longer nobody has written.
_LONGEST_TYPE = 100_000
_MOST_ALTERNATIVES = 100


def _parsed(text: str) -> ast.expr:
    # The qualified name of a class that a function made has "<locals>" in it, which is no Python.
    return ast.parse(re.sub(r"<(\w+)>", r"_\1_", text), mode="eval").body


def _by_text(classes: Mapping[str, type]) -> dict[str, type]:
    """Return classes by their names, written as they are when a text has been parsed."""
    texts = {}
    for name, cls in classes.items():
        try:
            texts[ast.unparse(_parsed(name))] = cls
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            pass_on(error)
    return texts


def _annotation(node: ast.expr, classes: Mapping[str, type]) -> Any:
    """Look the names of a type expression up in a fixed table; nothing is evaluated."""
    if isinstance(node, ast.Name | ast.Attribute | ast.Subscript):
        found = classes.get(ast.unparse(node))
        if found is not None:
            return found
    match node:
        case ast.Constant(value=None):
            return type(None)
        case ast.Name(id=name):
            return _NAMES.get(name, Any)
        case ast.Attribute():
            return Any
        case ast.BinOp(op=ast.BitOr()):
            return Union[tuple(_annotation(part, classes) for part in _alternatives(node))]  # noqa: UP007
        case ast.Subscript(value=ast.Name(id="Literal"), slice=element):
            values = list(map(_literal, _elements(element)))
            # Any for this part alone: what it is in still says whether it is a tuple or a list.
            return Any if ABSENT in values else Literal[tuple(values)]
        case ast.Subscript(value=value, slice=element):
            base = _annotation(value, classes)
            if base not in _GENERIC:
                # Arguments of a record class are in the annotations of its fields.
                return base
            return base[_arguments(base, _elements(element), classes)]
    raise ValueError(type(node))


def _alternatives(node: ast.expr) -> list[ast.expr]:
    found: list[ast.expr] = []
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        found.append(node.right)
        node = node.left
    if len(found) >= _MOST_ALTERNATIVES:
        raise ValueError("too many alternatives")
    return [node, *reversed(found)]


def _elements(node: ast.expr) -> list[ast.expr]:
    return node.elts if isinstance(node, ast.Tuple) else [node]


def _literal(node: ast.expr) -> Any:
    """Return a value of a ``Literal``, `ABSENT` for one that is no plain one, as a member."""
    try:
        value = ast.literal_eval(node)
    except ValueError:
        return ABSENT
    return value if type(value) in (type(None), bool, int, str, bytes) else ABSENT


def _arguments(base: Any, nodes: list[ast.expr], classes: Mapping[str, type]) -> tuple[Any, ...]:
    """Return the arguments of a builtin container, which must be as many as it takes."""
    count = {dict: 2, OrderedDict: 2, tuple: len(nodes)}.get(base, 1)
    if len(nodes) != count:
        raise ValueError(count)
    is_open = base is tuple and count == 2 and _is_ellipsis(nodes[1])
    found = [_annotation(node, classes) for node in (nodes[:1] if is_open else nodes)]
    return (*found, ...) if is_open else tuple(found)


def _is_ellipsis(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is Ellipsis
