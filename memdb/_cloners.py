"""How a record is copied at the boundary, so that no reader can change what is kept.

`get_cloner` turns the setting `cloner` and the class of the records into a `Cloner`. That of
`"auto"` is generated from the annotations of the class: immutable records are returned as they are,
flat ones copied field by field, nested ones as deeply as they can change. Values may differ from
their annotations; `Cloner.conforms` says, once for each decoded record, whether the generated code
is right for it. Where an annotation says nothing certain, the copy looks at the value.

A reference that occurs twice in a record leads to two copies, and a record that contains itself is
copied by `copy.deepcopy`.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import inspect
import operator
import re
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import lru_cache, partial
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Address,
    IPv6Interface,
    IPv6Network,
)
from pathlib import Path, PosixPath, PurePath, PurePosixPath, PureWindowsPath, WindowsPath
from types import MemberDescriptorType, NoneType
from typing import Any, Final, get_args, get_origin
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
import numpy as np

from memdb._config import CLONERS, nearest
from memdb.errors import ConfigError, DecodeError, RecordTypeError
from memdb.query._paths import members_of
from memdb.serializers import Codec, Shape, shape_of
from memdb.serializers._build import (
    HASH_CACHE,
    caches_hash,
    copy_struct,
    force_setattr,
    has_own_attributes,
    is_plain_name,
)
from memdb.serializers._plan import MAX_NESTING
from memdb.serializers._pydantic import EXTRA, FIELDS_SET, PRIVATE, allows_extra
from memdb.serializers._shape import kind_of, reachable

Clone = Callable[[Any], Any]

# Classes whose values never change. Exact types only: a subclass may have attributes of its own.
_ATOMS: Final[frozenset[type]] = frozenset(
    {
        NoneType, bool, int, float, complex, str, bytes, range, type(...), re.Pattern,
        date, datetime, time, timedelta, timezone, ZoneInfo, Decimal, Fraction, UUID,
        Path, PosixPath, WindowsPath, PurePath, PurePosixPath, PureWindowsPath,
        IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, IPv6Network,
        *(cls for cls in np.sctypeDict.values() if cls not in (np.void, np.object_)),
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cloner:
    """Copy the records of one class; called with a record, return one that is independent of it.

    Attributes:
        name: The setting that it was made from.
        clone: The copy alone, as fast as it gets. Requires: the record conforms.
        conforms: Whether a record's values are as its annotations say, as far as `clone` relies on
            it; None when it relies on nothing. A record that does not conform must not be given to
            `clone`: call the cloner itself, or decode such a record anew for each reader.
        by_value: The copy that looks at each value; right for any record.
        inline_expression: Source of the copy of `{r}`, when a single expression does it.
        inline_lines: Source lines that leave the copy of `{r}` in `{o}`, when no call is needed.
        namespace: The names that the inline source needs, all beginning with `_clone_`.
        is_sharing: It may give out the record itself, though that can be changed.

    Threads: any number of threads may use a cloner at once.
    """

    name: str
    clone: Clone
    conforms: Callable[[Any], bool] | None
    by_value: Clone
    inline_expression: str | None = None
    inline_lines: tuple[str, ...] | None = None
    namespace: dict[str, Any] = field(default_factory=dict)
    is_sharing: bool = False

    def __call__(self, record: Any) -> Any:
        if self.conforms is None or self.conforms(record):
            return self.clone(record)
        return self.by_value(record)


def get_cloner(spec: str | Clone, shape: Shape, codec: Codec) -> Cloner:
    """Return the cloner for records of `shape`.

    Args:
        spec: `"auto"`, `"roundtrip"`, `"fields"`, `"share"`, a dotted path
            `"package.module:function"`, or a callable that takes a record and returns its copy.
        shape: The class of the records.
        codec: What `"roundtrip"` goes through.

    Raises:
        ConfigError: There is no such cloner, or the dotted path leads to nothing callable.

    Cost: `"auto"` and `"fields"` generate code, some milliseconds for a class.
    """
    if callable(spec):
        name = getattr(spec, "__qualname__", repr(spec))
        return Cloner(name, spec, None, spec, is_sharing=True)
    if spec == "auto":
        return _auto(shape, codec)
    if spec == "roundtrip":
        return _roundtrip(shape, codec)
    if spec == "fields":
        return _fields(shape)
    if spec == "share":
        return Cloner("share", _same, None, _same, "{r}", ("{o} = {r}",), is_sharing=True)
    if ":" in spec:
        function = _imported(spec)
        return Cloner(spec, function, None, function, is_sharing=True)
    raise ConfigError(
        f"There is no cloner {spec!r}. Use {', '.join(map(repr, CLONERS))}, "
        f"'package.module:function' or a callable.{nearest(spec, CLONERS)}"
    )


def _imported(spec: str) -> Clone:
    """Return the function that a dotted path names."""
    module_name, _, name = spec.partition(":")
    try:
        function = operator.attrgetter(name)(importlib.import_module(module_name))
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"The cloner {spec!r} can't be imported: {error}.") from error
    if not callable(function):
        raise ConfigError(f"The cloner {spec!r} is a {type(function).__name__}, not a callable.")
    imported: Clone = function
    return imported


def _same(record: Any) -> Any:
    return record


def _roundtrip(shape: Shape, codec: Codec) -> Cloner:
    """Return the cloner that encodes a record and decodes it."""
    encode, decode = codec.encode, codec.decode
    name, is_dict = shape.identity, shape.kind == "dict"

    def clone(record: Any) -> Any:
        identity = 0
        if name is not None:
            identity = record.get(name) if is_dict else getattr(record, name)
        return decode(encode(record), identity if type(identity) is int else 0)

    return Cloner("roundtrip", clone, None, clone)


def _fields(shape: Shape) -> Cloner:
    """Return the cloner that makes a new record of the same values."""
    if shape.kind == "dict":
        return Cloner("fields", dict.copy, None, dict.copy, "{r}.copy()", ("{o} = {r}.copy()",))
    if _is_fixed(shape):
        return Cloner("fields", _same, None, _same, "{r}", ("{o} = {r}",))
    generator = _Generator(_keep)
    lines = generator.copy_lines(shape)
    clone = generator.function(lines)
    return generator.cloner("fields", lines, clone, None, clone)


def _auto(shape: Shape, codec: Codec) -> Cloner:
    """Return the cloner that copies whatever can change, and no more."""

    def again(record: Any) -> Any:
        # Made when it is needed, which is hardly ever.
        return _roundtrip(shape, codec).clone(record)

    by_value = _guarded(deep, again)
    if shape.kind == "dict":
        return Cloner("auto", by_value, None, by_value)
    generator = _Annotated(shape, again)
    conforms = generator.conforms(shape)
    if shape.cls in generator.immutable:
        return Cloner("auto", _same, conforms, by_value, "{r}", ("{o} = {r}",))
    lines = generator.copy_lines(shape)
    clone = generator.function(lines, is_guarded=not _is_inline(lines))
    return generator.cloner("auto", lines, clone, conforms, by_value)


def _is_fixed(shape: Shape) -> bool:
    """Whether nothing of a record but its fields' values can change."""
    if shape.kind == "pydantic":
        cls: Any = shape.cls
        # What is private can be set in a frozen model too.
        return shape.is_frozen and not allows_extra(cls) and not cls.__private_attributes__
    return shape.is_frozen


def _guarded(clone: Clone, again: Clone) -> Clone:
    """Return a copying function that leaves odd records to `_copy_oddly`."""

    def guarded(record: Any) -> Any:
        try:
            return clone(record)
        except (RecursionError, AttributeError):
            return _copy_oddly(record, again)

    return guarded


def _copy_oddly(record: Any, again: Clone) -> Any:
    """Copy what contains itself, is nested very deep, or has a record without a field's value.

    Pickle brings such records back, the last where a class has a new field.

    Args:
        record: The record.
        again: The copy that goes through the codec, and so deeper than the stack.

    Raises:
        DecodeError: Without the value it can't be copied.
    """
    try:
        return copy.deepcopy(record)
    except RecursionError:
        return again(record)
    except AttributeError as error:
        raise DecodeError(
            f"a record in the stored {type(record).__qualname__} lacks the value of a field that "
            f"its class has now ({error}). Name the class in the annotation of the field that "
            "holds it, and give the new field a default."
        ) from error


def deep(value: Any) -> Any:
    """Return a copy that shares nothing that can change; `value` itself when nothing in it can."""
    cls: Any = type(value)
    return value if cls in _ATOMS else _copier_of(cls)(value)


def _is_immutable(value: Any) -> bool:
    """Whether nothing in the value can change."""
    return deep(value) is value


def _deep_list(value: list[Any]) -> list[Any]:
    if _ATOMS.issuperset(map(type, value)):
        return value.copy()
    return [deep(element) for element in value]


def _deep_dict(value: dict[Any, Any]) -> dict[Any, Any]:
    if _ATOMS.issuperset(map(type, value)) and _ATOMS.issuperset(map(type, value.values())):
        return value.copy()
    return {deep(key): deep(element) for key, element in value.items()}


def _deep_set(value: set[Any]) -> set[Any]:
    if _ATOMS.issuperset(map(type, value)):
        return value.copy()
    return {deep(element) for element in value}


def _deep_tuple(value: tuple[Any, ...]) -> tuple[Any, ...]:
    if _ATOMS.issuperset(map(type, value)):
        return value
    copies = [deep(element) for element in value]
    return value if all(map(operator.is_, copies, value)) else tuple(copies)


def _deep_frozenset(value: frozenset[Any]) -> frozenset[Any]:
    elements = tuple(value)
    copies = _deep_tuple(elements)
    return value if copies is elements else frozenset(copies)


def _deep_pairs(value: Any) -> Any:
    """Copy an OrderedDict or a Counter."""
    if has_own_attributes(value):
        return copy.deepcopy(value)
    made = type(value)()
    for key, element in value.items():
        made[deep(key)] = deep(element)
    return made


def _deep_deque(value: deque[Any]) -> deque[Any]:
    return deque([deep(element) for element in value], value.maxlen)


def _deep_array(value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return copy.deepcopy(value) if value.dtype.hasobject else value.copy("K")


def _deep_structure(value: np.void) -> np.void:
    return copy.deepcopy(value) if value.dtype.hasobject else value.copy()


_CONTAINERS: Final[dict[type, Clone]] = {
    list: _deep_list,
    dict: _deep_dict,
    set: _deep_set,
    tuple: _deep_tuple,
    frozenset: _deep_frozenset,
    bytearray: bytearray.copy,
    OrderedDict: _deep_pairs,
    Counter: _deep_pairs,
    deque: _deep_deque,
    np.ndarray: _deep_array,
    np.void: _deep_structure,
}


@lru_cache(maxsize=1024)
def _copier_of(cls: type) -> Clone:
    """Return what copies values of exactly this class, whatever is in them."""
    if cls in _ATOMS or issubclass(cls, (Enum, type)):
        return _same
    if cls in _CONTAINERS:
        return _CONTAINERS[cls]
    if kind_of(cls) is not None:
        try:
            shape = shape_of(cls)
        except RecordTypeError:
            return copy.deepcopy
        generator = _Generator(_copy_by_value)
        return generator.function(generator.copy_lines(shape))
    return copy.deepcopy


def _keep(annotation: Any, value: str) -> str:
    """Write no copy at all."""
    return value


def _copy_shallowly(annotation: Any, value: str) -> str:
    """Write a copy of a dict, or of None."""
    return f"(None if {value} is None else {value}.copy())"


def _copy_by_value(annotation: Any, value: str) -> str:
    """Write a copy that looks at the value."""
    return f"_clone_deep({value})"


def _is_inline(lines: list[str]) -> bool:
    """Whether the lines can stand in another function: they call nothing that may recurse."""
    return not any("_clone_deep(" in line or "_clone_copy" in line for line in lines)


class _Generator:
    """Write the code that copies records, with one rule for the values of their fields.

    Args:
        copy_source: Takes an annotation and the source of a value; returns the source of its
            copy, which is the source of the value where it is shared.
    """

    def __init__(self, copy_source: Callable[[Any, str], str]) -> None:
        self._copy_source = copy_source
        self.namespace: dict[str, Any] = {
            "_clone_deep": deep,
            "_clone_force": force_setattr,
            "_clone_is_immutable": _is_immutable,
            "_clone_atoms": _ATOMS,
            "_clone_new": object.__new__,
            "_clone_new_tuple": tuple.__new__,
            "_clone_set": object.__setattr__,
            "_clone_struct": copy_struct,
        }

    def name_of(self, value: Any, kind: str) -> str:
        """Return the name that stands for `value` in the generated code."""
        name = f"_clone_{kind}_{len(self.namespace)}"
        self.namespace[name] = value
        return name

    def copy_lines(self, shape: Shape) -> list[str]:
        """Return the lines that leave the copy of `{r}` in `{o}`."""
        copies = {
            field.name: self._copy_source(field.annotation, _attribute(field.name))
            for field in shape.fields
        }
        changed = {name: text for name, text in copies.items() if text != _attribute(name)}
        if not _is_fixed(shape):
            return self._new_record(shape, copies, changed)
        if not changed:
            return ["{o} = {r}"]
        if any(_is_inline([text]) for text in changed.values()):
            return self._new_record(shape, copies, changed)
        # A frozen record whose values turn out to be their own copies is its own copy too.
        variables = {name: f"_clone_v{number}" for number, name in enumerate(changed)}
        lines = [f"{variables[name]} = {text}" for name, text in changed.items()]
        same = " and ".join(f"{variables[name]} is {_attribute(name)}" for name in changed)
        made = self._new_record(shape, copies | variables, variables)
        return [*lines, f"if {same}:", "    {o} = {r}", "else:", *[f"    {m}" for m in made]]

    def _new_record(
        self, shape: Shape, copies: dict[str, str], changed: dict[str, str]
    ) -> list[str]:
        """Return the lines that make a record without running the user's constructor."""
        cls: Any = shape.cls
        class_name = self.name_of(cls, "class")
        if shape.kind == "namedtuple":
            return [f"{{o}} = _clone_new_tuple({class_name}, ({', '.join(copies.values())},))"]
        if shape.kind == "pydantic":
            return self._new_model(shape, class_name, copies)
        is_free = cls.__setattr__ is object.__setattr__
        if shape.kind == "struct":
            is_own = cls.__copy__ is not copy_struct
            lines = ["{o} = _clone_struct({r})" if is_own else "{o} = {r}.__copy__()"]
            is_free = cls.__setattr__ is msgspec.Struct.__setattr__ and not shape.is_frozen
            copies = changed
        else:
            lines = [f"{{o}} = _clone_new({class_name})"]
        for name, text in copies.items():
            if is_free and is_plain_name(name):
                lines.append(f"{{o}}.{name} = {text}")
                continue
            slot = inspect.getattr_static(cls, name, None)
            if shape.kind == "struct":
                lines.append(f"_clone_force({{o}}, {name!r}, {text})")
            elif isinstance(slot, MemberDescriptorType):
                lines.append(f"{self.name_of(slot.__set__, 'set')}({{o}}, {text})")
            else:
                lines.append(f"_clone_set({{o}}, {name!r}, {text})")
        if caches_hash(cls):
            lines.append(f"_clone_set({{o}}, {HASH_CACHE!r}, None)")
        return lines

    def _new_model(self, shape: Shape, class_name: str, copies: dict[str, str]) -> list[str]:
        """Return the lines that make a pydantic model, with what it holds besides its fields."""
        cls: Any = shape.cls
        pairs = ", ".join(f"{name!r}: {text}" for name, text in copies.items())
        lines = [
            f"{{o}} = _clone_new({class_name})",
            f'_clone_set({{o}}, "__dict__", {{{pairs}}})',
            f"_clone_set({{o}}, {FIELDS_SET!r}, {{r}}.{FIELDS_SET}.copy())",
        ]
        if cls.__pydantic_root_model__:
            return lines
        own = _copy_by_value if self._copy_source is not _keep else _copy_shallowly
        for name, has_any in (
            (EXTRA, allows_extra(cls)),
            (PRIVATE, bool(cls.__private_attributes__)),
        ):
            text = f"{{r}}.{name}"
            lines.append(f"_clone_set({{o}}, {name!r}, {own(None, text) if has_any else text})")
        return lines

    def function(self, lines: list[str], *, is_guarded: bool = False) -> Clone:
        """Return the function of one record that has these lines as its body."""
        body = [line.replace("{r}", "r").replace("{o}", "o") for line in lines] + ["return o"]
        if is_guarded:
            body = ["try:", *[f"    {line}" for line in body]]
            body += ["except (RecursionError, AttributeError):", "    return _clone_oddly(r)"]
        return self._executed(["def copy_record(r):", *[f"    {line}" for line in body]])

    def _executed(self, lines: list[str]) -> Callable[[Any], Any]:
        """Define the one function in `lines` and return it."""
        name = lines[0].removeprefix("def ").partition("(")[0]
        source = "\n".join(lines)
        exec(compile(source, "<memdb cloner>", "exec"), self.namespace)
        function: Callable[[Any], Any] = self.namespace.pop(name)
        return function

    def cloner(
        self,
        name: str,
        lines: list[str],
        clone: Clone,
        conforms: Callable[[Any], bool] | None,
        by_value: Clone,
    ) -> Cloner:
        """Return the cloner, with its source where others can use it."""
        if not _is_inline(lines):
            return Cloner(name, clone, conforms, by_value)
        expression = lines[0].removeprefix("{o} = ") if len(lines) == 1 else None
        used = {key for key in self.namespace if any(key in line for line in lines)}
        namespace = {key: self.namespace[key] for key in sorted(used)}
        return Cloner(name, clone, conforms, by_value, expression, tuple(lines), namespace)


class _Annotated(_Generator):
    """Write the code that copies records by their annotations, and the code that checks these."""

    def __init__(self, root: Shape, again: Clone) -> None:
        super().__init__(self._copy)
        self.namespace["_clone_oddly"] = partial(_copy_oddly, again=again)
        classes = [cls for cls in reachable(root).values() if kind_of(cls) is not None]
        self._shapes = {root.cls: root}
        for cls in classes:
            with contextlib.suppress(RecordTypeError):
                self._shapes.setdefault(cls, shape_of(cls))
        self.immutable = self._immutable_classes()
        self._names: dict[tuple[str, type], str] = {}

    def _immutable_classes(self) -> frozenset[type]:
        """Return the classes whose records never change if they are as annotated.

        Classes may name each other: all frozen ones are supposed to be immutable, until no class
        is left that has a field which contradicts that.
        """
        found = frozenset(cls for cls, shape in self._shapes.items() if _is_fixed(shape))
        while True:
            left = frozenset(
                cls
                for cls in found
                if all(_is_shared(field.annotation, found) for field in self._shapes[cls].fields)
            )
            if left == found:
                return found
            found = left

    def _copy(self, annotation: Any, value: str, depth: int = 0) -> str:
        """Return the source that copies a value of this annotation, if it is what it says."""
        if _is_shared(annotation, self.immutable):
            return value
        if depth >= MAX_NESTING:
            return _copy_by_value(annotation, value)
        members = members_of(annotation)
        others = [member for member in members if member is not NoneType]
        if len(others) != 1:
            return _copy_by_value(annotation, value)
        made = self._copy_member(others[0], value, depth)
        if len(members) == 1 or made == _copy_by_value(annotation, value):
            return made
        return f"(None if {value} is None else {made})"

    def _copy_member(self, member: Any, value: str, depth: int) -> str:
        """Return the source that copies a value which is not None and of no union."""
        if isinstance(member, type) and member in self._shapes:
            return f"{self._function_of(member, 'copy')}({value})"
        form = _form_of(member)
        if form is None:
            return _copy_by_value(member, value)
        kind, arguments = form
        element = f"_clone_e{depth}"
        if kind is tuple and arguments[-1] is not Ellipsis:
            items = [
                self._copy(part, f"{value}[{position}]", depth + 1)
                for position, part in enumerate(arguments)
            ]
            return f"({', '.join(items)},)"
        made = self._copy(arguments[-1], element, depth + 1)
        if kind is tuple:
            made = self._copy(arguments[0], element, depth + 1)
            return f"tuple([{made} for {element} in {value}])"
        # What is hashed and can change all the same is too rare for code of its own.
        if (kind is dict and not _is_shared(arguments[0], self.immutable)) or (
            kind is set and made != element
        ):
            return _copy_by_value(member, value)
        if made == element:
            return f"{value}.copy()"
        if kind is dict:
            return f"{{_clone_k{depth}: {made} for _clone_k{depth}, {element} in {value}.items()}}"
        return f"[{made} for {element} in {value}]"

    def conforms(self, shape: Shape) -> Callable[[Any], bool] | None:
        """Return what checks a record's values; None when the copy relies on none of them."""
        checks = self._field_checks(shape, "r")
        if not checks:
            return None
        return self._executed(
            [
                "def conforms(r):",
                "    try:",
                f"        return {' and '.join(checks)}",
                "    except (RecursionError, AttributeError):",
                "        return False",
            ]
        )

    def _field_checks(self, shape: Shape, record: str) -> list[str]:
        checks = [
            self._check(field.annotation, _attribute(field.name).replace("{r}", record))
            for field in shape.fields
        ]
        return [check for check in checks if check]

    def _check(self, annotation: Any, value: str, depth: int = 0) -> str:
        """Return the source of the check that `_copy` is right for a value; empty: always."""
        if depth >= MAX_NESTING:
            is_shared = _is_shared(annotation, self.immutable)
            return f"_clone_is_immutable({value})" if is_shared else ""
        members = members_of(annotation)
        tests = [self._check_member(member, value, depth) for member in members]
        if _is_shared(annotation, self.immutable):
            return f"({' or '.join([*filter(None, tests), f'_clone_is_immutable({value})'])})"
        if self._copy(annotation, value, depth) == _copy_by_value(annotation, value):
            return ""
        return tests[0] if len(tests) == 1 else f"({' or '.join(tests)})"

    def _check_member(self, member: Any, value: str, depth: int) -> str:
        """Return a quick test for one member of a union; empty where only the value can tell."""
        if member is NoneType:
            return f"{value} is None"
        if isinstance(member, type) and member in self._shapes:
            test = f"type({value}) is {self.name_of(member, 'class')}"
            return f"({test} and {self._function_of(member, 'check')}({value}))"
        if isinstance(member, type) and (member in _ATOMS or issubclass(member, Enum)):
            return f"type({value}) is {self.name_of(member, 'class')}"
        form = _form_of(member)
        if form is None:
            return ""
        kind, arguments = form
        tests = [f"type({value}) is {kind.__name__}"]
        if kind is tuple and arguments[-1] is not Ellipsis:
            tests.append(f"len({value}) == {len(arguments)}")
            tests += [
                self._check(part, f"{value}[{position}]", depth + 1)
                for position, part in enumerate(arguments)
            ]
        elif kind is dict:
            tests.append(self._check_all(arguments[0], value, depth))
            tests.append(self._check_all(arguments[1], f"{value}.values()", depth))
        else:
            tests.append(self._check_all(arguments[0], value, depth))
        return f"({' and '.join(filter(None, tests))})"

    def _check_all(self, annotation: Any, values: str, depth: int) -> str:
        """Return the source of the check for every element of a container."""
        element = f"_clone_e{depth}"
        check = self._check(annotation, element, depth + 1)
        if not check:
            return ""
        each = f"all([{check} for {element} in {values}])"
        if not _is_shared(annotation, self.immutable):
            return each
        return f"(_clone_atoms.issuperset(map(type, {values})) or {each})"

    def _function_of(self, cls: type, kind: str) -> str:
        """Return the name of the function that copies or checks nested records of a class."""
        key = kind, cls
        if key in self._names:
            return self._names[key]
        # Named before it is written, since the class may contain itself.
        name = self._names[key] = self.name_of(None, kind)
        shape = self._shapes[cls]
        if kind == "copy":
            self.namespace[name] = self.function(self.copy_lines(shape))
        else:
            checks = self._field_checks(shape, "r") or ["True"]
            self.namespace[name] = self._executed(
                ["def conforms(r):", f"    return {' and '.join(checks)}"]
            )
        return name


def _attribute(name: str) -> str:
    """Return the source of a field's value."""
    return f"{{r}}.{name}" if is_plain_name(name) else f"getattr({{r}}, {name!r})"


def _is_shared(annotation: Any, immutable: frozenset[type]) -> bool:
    """Whether values of this annotation never change, given the immutable record classes."""
    return all(_is_shared_member(member, immutable) for member in members_of(annotation))


def _is_shared_member(member: Any, immutable: frozenset[type]) -> bool:
    """Whether values of one member of a union never change."""
    if get_origin(member) in (tuple, frozenset):
        return all(part is Ellipsis or _is_shared(part, immutable) for part in get_args(member))
    return isinstance(member, type) and (
        member in immutable or member in _ATOMS or issubclass(member, Enum)
    )


def _form_of(member: Any) -> tuple[type, tuple[Any, ...]] | None:
    """Return a builtin container and the annotations of its elements; None for anything else."""
    kind, arguments = get_origin(member), get_args(member)
    if kind is tuple and arguments:
        return tuple, arguments
    if kind in (list, set) and len(arguments) == 1:
        return kind, arguments
    if kind is dict and len(arguments) == 2:
        return dict, arguments
    return None
