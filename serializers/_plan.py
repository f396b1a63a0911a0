"""Plan: how the fast tier checks, packs, types and unpacks a value of one annotation.

The fast tier lets the packer write values in its own way, which is exact for some values of a
type and not for others. A plan's check is source text that is true only for values that are
natively exact; every other value sends its record to the exact tier. So a plan may always check
too little of what could be done natively, and never too much.
"""

from __future__ import annotations

import enum
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Literal
from uuid import UUID

import msgspec

from memdb.errors import RecordTypeError
from memdb.serializers._build import assignments, is_plain_name, safe_name
from memdb.serializers._enums import is_by_name
from memdb.serializers._exact import MAX_DEPTH, is_valid_text
from memdb.serializers._pydantic import usual_check
from memdb.serializers._shape import FieldShape, Shape, is_union, kind_of, shape_of, strip
from memdb.serializers._stack import pass_on

Form = Literal["msgpack", "json"]
Expression = Callable[[str], str]

_INT_RANGE = range(-(2**63), 2**63)


#: How deep an annotation is followed into source text. Python takes 20 blocks in each other, of
#: which a level needs one (with more, 3.12.1 crashes), and 200 parentheses, of which it needs five.
MAX_NESTING = 10


class NotNative(Exception):
    """A value inside a nested record is not natively exact; never leaves this package."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How the fast tier treats a value.

    Attributes:
        wire: The type that msgspec decodes to.
        check: From the source of a value to that of a condition.
        pack: From the source of a value to that of what is packed; None: the value itself.
        unpack: From the source of a decoded value to that of the field's; None: the same.
        exact_types: Set if the check asks nothing but that the type is one of these.
    """

    wire: Any
    check: Expression
    pack: Expression | None = None
    unpack: Expression | None = None
    exact_types: frozenset[type] | None = None


class Planner:
    """Makes the plans for one codec and collects the names that their source uses."""

    def __init__(self, form: Form, *, is_lenient: bool = False, is_struct: bool = False) -> None:
        """Start with nothing planned.

        Args:
            form: What the bytes are.
            is_lenient: Decode nested records that lack fields which have a default.
            is_struct: Plan for a Struct that msgspec handles itself: wire types are the
                annotations, or the plan is of no use.
        """
        self.form = form
        self.is_lenient = is_lenient
        self.is_struct = is_struct
        self.namespace: dict[str, Any] = {
            "is_plain": is_plain_json if form == "json" else is_plain_msgpack,
            "NotNative": NotNative,
            "UNSET": msgspec.UNSET,
            "datetime": datetime,
            "time": time,
            "utc": UTC,
        }
        self._nested: dict[type, Plan] = {}
        self._open: set[type] = set()
        self._names = 0
        self._depth = 0

    def plan(self, annotation: Any) -> Plan:
        """Return the plan for a field's annotation."""
        if self._depth >= MAX_NESTING:
            return self._any()
        self._depth += 1
        try:
            return self._plan(annotation)
        finally:
            self._depth -= 1

    def _plan(self, annotation: Any) -> Plan:
        annotation = strip(annotation) if not self.is_struct else annotation
        if annotation is None or annotation is type(None):
            return self._typed(type(None))
        simple = self._simple(annotation)
        if simple is not None:
            return simple
        if is_union(annotation):
            return self._union(annotation)
        origin = typing.get_origin(annotation)
        if origin is Literal:
            return self._literal(annotation)
        if origin is not None or annotation in (list, dict):
            container = _CONTAINERS.get(origin or annotation)
            if container is not None:
                return container(self, typing.get_args(annotation))
        target = origin or annotation
        if isinstance(target, type):
            if issubclass(target, enum.Enum):
                return self._enum(target)
            if kind_of(target) is not None and target not in self._open:
                return self._record(target)
        return self._any()

    def bind(self, stem: str, value: Any) -> str:
        """Return a new name for a value that the source uses."""
        self._names += 1
        name = f"{stem}_{self._names}"
        self.namespace[name] = value
        return name

    def _any(self) -> Plan:
        return Plan(Any, lambda v: f"is_plain({v})")

    def _typed(self, *allowed: type, wire: Any = None) -> Plan:
        """Return a plan for values whose type alone proves that they are natively exact."""
        names = [self.bind("type", cls) for cls in allowed]
        if len(names) == 1:
            only = names[0]
            check: Expression = lambda v: (  # noqa: E731
                f"{v} is None" if allowed[0] is type(None) else f"type({v}) is {only}"
            )
        else:
            group = self.bind("types", frozenset(allowed))
            check = lambda v: f"type({v}) in {group}"  # noqa: E731
        return Plan(wire or allowed[0], check, exact_types=frozenset(allowed))

    def _simple(self, annotation: Any) -> Plan | None:
        if annotation is float:
            return self._float()
        if annotation is bool:
            return Plan(
                bool, lambda v: f"({v} is True or {v} is False)", exact_types=frozenset({bool})
            )
        if annotation is datetime:
            return Plan(
                datetime,
                lambda v: (
                    f"type({v}) is datetime and ({v}.tzinfo is utc or {v}.tzinfo is None)"
                    f" and not {v}.fold"
                ),
            )
        if annotation is time:
            return Plan(
                time, lambda v: f"type({v}) is time and {v}.tzinfo is None and not {v}.fold"
            )
        if isinstance(annotation, type) and annotation in _BY_TYPE:
            return self._typed(annotation)
        return None

    def _float(self) -> Plan:
        # An int stays an int, unless msgspec decodes to the field's own annotation.
        if self.form == "msgpack":
            if self.is_struct:
                return self._typed(float)
            return self._typed(float, int, wire=int | float)
        finite: Expression = lambda v: f"(type({v}) is float and {v} - {v} == 0.0)"  # noqa: E731
        if self.is_struct:
            return Plan(float, finite)
        name = self.bind("type", int)
        return Plan(int | float, lambda v: f"({finite(v)} or type({v}) is {name})")

    def _enum(self, cls: type[enum.Enum]) -> Plan:
        values = [member.value for member in cls]
        if not values:
            return self._any()
        if is_by_name(cls) or issubclass(cls, enum.Flag):
            return self._converted_enum(cls)
        if all(type(value) is int and value in _INT_RANGE for value in values) or all(
            type(value) is str and is_valid_text(value) for value in values
        ):
            return self._typed(cls)
        return self._any()

    def _converted_enum(self, cls: type[enum.Enum]) -> Plan:
        """Return the plan for an Enum class whose members msgspec does not pack as they are."""
        name = self.bind("enum", cls)
        check: Expression = lambda v: f"type({v}) is {name}"  # noqa: E731
        if not issubclass(cls, enum.Flag):
            # What is stored is the name; what was stored by value, before, is read as well.
            by_value = {m.value: m for m in cls if type(m.value) in (str, int)}
            members = self.bind("members", by_value | dict(cls.__members__))
            wire = str | int if any(type(value) is int for value in by_value) else str
            return Plan(wire, check, lambda v: f"{v}._name_", lambda v: f"{members}[{v}]")
        if is_by_name(cls):
            return self._any()
        return Plan(int, check, lambda v: f"{v}._value_", lambda v: f"{name}({v})")

    def _literal(self, annotation: Any) -> Plan:
        found = {type(value) for value in typing.get_args(annotation)}
        if not found <= {str, int, type(None)}:
            return self._any()
        # Any value of these types is exact, so one outside of the Literal does no harm.
        wire = annotation if self.is_struct else _wire_union([*found])
        plan = self._typed(*sorted(found, key=lambda cls: cls.__name__), wire=wire)
        if not self.is_struct:
            return plan
        allowed = self.bind("literals", frozenset(typing.get_args(annotation)))
        return Plan(wire, lambda v: f"({plan.check(v)} and {v} in {allowed})")

    def _union(self, annotation: Any) -> Plan:
        arguments = [self._inner(argument) for argument in typing.get_args(annotation)]
        others = [argument for argument in arguments if argument is not type(None)]
        has_none = len(others) < len(arguments)
        if len(others) == 1 and has_none:
            return _optional(self.plan(others[0]))
        if not set(map(_key, others)) <= {int, float, str, bool}:
            return self._any()
        plans = [self.plan(argument) for argument in arguments]
        wire = _wire_union([plan.wire for plan in plans])
        if all(plan.exact_types is not None for plan in plans):
            allowed = frozenset().union(*(plan.exact_types or () for plan in plans))
            return self._typed(*sorted(allowed, key=lambda cls: cls.__name__), wire=wire)
        return Plan(wire, lambda v: "(" + " or ".join(f"({p.check(v)})" for p in plans) + ")")

    def _inner(self, annotation: Any) -> Any:
        return annotation if self.is_struct else strip(annotation)

    # -- containers

    def _list(self, arguments: tuple[Any, ...]) -> Plan:
        if not arguments:
            wire = list if self.is_struct else list[Any]
            return Plan(wire, lambda v: f"type({v}) is list and is_plain({v})")
        return self._items(
            list, self.plan(arguments[0]), lambda wire: types.GenericAlias(list, (wire,))
        )

    def _items(self, cls: type, item: Plan, wire: Callable[[Any], Any]) -> Plan:
        """Return the plan for a list or tuple of any number of like items."""
        name, x = self.bind("type", cls), self._variable()
        every = self._every(item)
        opening, closing = ("[", "]") if cls is list else ("tuple([", "])")

        def each(convert: Expression | None) -> Expression | None:
            if convert is None:
                return None
            return lambda v: f"{opening}{convert(x)} for {x} in {v}{closing}"

        return Plan(
            wire(item.wire),
            lambda v: f"type({v}) is {name} and {every(v)}",
            each(item.pack),
            each(item.unpack),
        )

    def _every(self, item: Plan) -> Expression:
        """Return the source of the condition that each element passes the item's check."""
        if item.exact_types is not None:
            # set(map(type, v)) runs without a Python frame: a fifth of all(...)'s time.
            group = self.bind("types", item.exact_types)
            return lambda v: f"{group}.issuperset(map(type, {v}))"
        x = self._variable()
        return lambda v: f"all([{item.check(x)} for {x} in {v}])"

    def _tuple(self, arguments: tuple[Any, ...]) -> Plan:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return self._items(
                tuple, self.plan(arguments[0]), lambda wire: types.GenericAlias(tuple, (wire, ...))
            )
        name = self.bind("type", tuple)
        plans = [self.plan(argument) for argument in arguments]

        def check(v: str) -> str:
            parts = [f"type({v}) is {name} and len({v}) == {len(plans)}"]
            parts += [f"({plan.check(f'{v}[{i}]')})" for i, plan in enumerate(plans)]
            return " and ".join(parts)

        def each(converts: list[Expression | None]) -> Expression | None:
            if not any(converts):
                return None
            return lambda v: (
                "("
                + "".join(
                    f"{convert(f'{v}[{i}]') if convert else f'{v}[{i}]'}, "
                    for i, convert in enumerate(converts)
                )
                + ")"
            )

        wire = types.GenericAlias(tuple, tuple(plan.wire for plan in plans))
        return Plan(wire, check, each([p.pack for p in plans]), each([p.unpack for p in plans]))

    def _set(self, arguments: tuple[Any, ...]) -> Plan:
        return self._hashed(set, arguments)

    def _frozenset(self, arguments: tuple[Any, ...]) -> Plan:
        return self._hashed(frozenset, arguments)

    def _hashed(self, cls: Any, arguments: tuple[Any, ...]) -> Plan:
        """Return the plan for a set; sorted, so that equal sets give equal bytes."""
        item = strip(arguments[0])
        if _key(item) not in (str, int, date, UUID, *((bytes,) if self.form == "msgpack" else ())):
            return self._any()
        name, every = self.bind("type", cls), self._every(self.plan(item))
        return Plan(
            cls[item],
            lambda v: f"type({v}) is {name} and {every(v)}",
            lambda v: f"sorted({v})",
        )

    def _dict(self, arguments: tuple[Any, ...]) -> Plan:
        if not arguments:
            wire = dict if self.is_struct else dict[Any, Any]
            return Plan(wire, lambda v: f"type({v}) is dict and is_plain({v})")
        key = strip(arguments[0])
        if key is not str and (key is not int or self.form == "json"):
            return self._any()
        keys, item = self.plan(arguments[0]), self.plan(arguments[1])
        every_key, every = self._every(keys), self._every(item)
        k, x = self._variable(), self._variable()

        def each(convert: Expression | None) -> Expression | None:
            if convert is None:
                return None
            return lambda v: f"{{{k}: {convert(x)} for {k}, {x} in {v}.items()}}"

        return Plan(
            dict[keys.wire, item.wire],  # type: ignore[name-defined]
            lambda v: f"type({v}) is dict and {every_key(v)} and {every(f'{v}.values()')}",
            each(item.pack),
            each(item.unpack),
        )

    def _variable(self) -> str:
        self._names += 1
        return f"x_{self._names}"

    # -- nested records

    def _record(self, cls: type) -> Plan:
        """Return the plan for a nested record: packed by name, as a mirror Struct."""
        if cls in self._nested:
            return self._nested[cls]
        try:
            shape = shape_of(cls)
        except RecordTypeError:
            return self._any()
        self._open.add(cls)
        try:
            plans = {field.name: self.plan(field.annotation) for field in shape.fields}
        finally:
            self._open.discard(cls)
        make = self._native_struct if self.is_struct else self._mirrored
        plan = make(shape, plans)
        self._nested[cls] = plan
        return plan

    def _native_struct(self, shape: Shape, plans: dict[str, Plan]) -> Plan:
        if not is_native_struct(shape, plans):
            return self._any()
        lines = [f"v{i} = r.{field.name}" for i, field in enumerate(shape.fields)]
        condition = all_of(plans[f.name].check(f"v{i}") for i, f in enumerate(shape.fields))
        check = self._define(["def check(r):", *lines, f"return {condition}"], "check")
        cls = self.bind("cls", shape.cls)
        return Plan(shape.cls, lambda v: f"type({v}) is {cls} and {check}({v})")

    def _mirrored(self, shape: Shape, plans: dict[str, Plan]) -> Plan:
        mirror_name = self.bind(
            "mirror", mirror(shape, shape.fields, plans, is_lenient=self.is_lenient)
        )
        lines = [f"v{i} = {attribute('r', f.name)}" for i, f in enumerate(shape.fields)]
        condition = all_of(plans[f.name].check(f"v{i}") for i, f in enumerate(shape.fields))
        if shape.kind == "pydantic":
            condition += f" and {usual_check(shape, 'r', self.namespace, is_root=False)}"
        packed = [packed_value(plans[f.name], f"v{i}") for i, f in enumerate(shape.fields)]
        pack = self._define(
            [
                "def pack(r):",
                *lines,
                f"if {condition}:",
                f"    return {mirror_name}({', '.join(packed)})",
                "raise NotNative",
            ],
            "pack",
        )
        values = {
            field.name: self.unpacked_value(field, plans[field.name], f"w.f{i}")
            for i, field in enumerate(shape.fields)
        }
        extra: dict[str, Any] = {}
        made = assignments(shape, values, extra)
        unpack = self._define(["def unpack(w):", *made, "return o"], "unpack", extra)
        cls = self.bind("cls", shape.cls)
        return Plan(
            self.namespace[mirror_name],
            lambda v: f"type({v}) is {cls}",
            lambda v: f"{pack}({v})",
            lambda v: f"{unpack}({v})",
        )

    def unpacked_value(self, field: FieldShape, plan: Plan, source: str) -> str:
        """Return the source of a field's value from that of the decoded one."""
        value = plan.unpack(source) if plan.unpack else source
        if not self.is_lenient or field.required:
            return value
        default = self.bind("default", field.make_default)
        return f"({value} if {source} is not UNSET else {default}())"

    def _define(self, lines: list[str], name: str, extra: Mapping[str, Any] | None = None) -> str:
        """Compile a function and return the name under which the source can call it."""
        namespace = {**self.namespace, **(extra or {})}
        exec("\n    ".join(lines), namespace)
        return self.bind(name, namespace[name])


def all_of(conditions: Any) -> str:
    """Return the source of the conjunction of conditions; ``True`` if there are none."""
    return " and ".join(f"({condition})" for condition in conditions) or "True"


def attribute(record: str, name: str) -> str:
    """Return the source of a field's value."""
    return f"{record}.{name}" if is_plain_name(name) else f"getattr({record}, {name!r})"


def packed_value(plan: Plan, source: str) -> str:
    """Return the source of what is packed for a value."""
    return plan.pack(source) if plan.pack else source


def mirror(
    shape: Shape,
    fields: tuple[FieldShape, ...],
    plans: Mapping[str, Plan],
    *,
    is_lenient: bool,
) -> Any:
    """Return a Struct with the wire types of a class's fields, named the same in the bytes.

    msgspec builds and packs it faster than a dict (216 ns against 349 for seven fields, by
    ``timeit``), and it runs no code of the user's when it is decoded.
    """
    definitions: list[Any] = []
    for number, field in enumerate(fields):
        definition = (f"f{number}", plans[field.name].wire)
        optional = is_lenient and not field.required
        definitions.append((*definition, msgspec.UNSET) if optional else definition)
    # A default may come before a required field, which only keyword fields may.
    return msgspec.defstruct(
        safe_name(shape.name),
        definitions,
        rename={f"f{number}": field.name for number, field in enumerate(fields)},
        gc=False,
        kw_only=is_lenient,
    )


def is_native_struct(shape: Shape, plans: Mapping[str, Plan]) -> bool:
    """Whether msgspec itself brings a Struct back exactly, without running the user's code.

    ``omit_defaults`` is not native: old records would change with the default.
    """
    if shape.kind != "struct" or hasattr(shape.cls, "__post_init__"):
        return False
    cls: Any = shape.cls
    if getattr(cls, "__parameters__", ()):
        # What its variables stand for is in the annotations of the shape, not in the class.
        return False
    config = cls.__struct_config__
    if config.array_like or config.omit_defaults or config.forbid_unknown_fields or config.tag:
        return False
    if cls.__struct_encode_fields__ != cls.__struct_fields__:
        return False
    return _is_known_to_msgspec(cls) and all(
        is_plain_name(field.name)
        and plans[field.name].pack is None
        and plans[field.name].unpack is None
        and _is_same(plans[field.name].wire, field.annotation)
        for field in shape.fields
    )


def _is_known_to_msgspec(cls: Any) -> bool:
    """Whether msgspec can resolve the annotations of a Struct by itself."""
    try:
        msgspec.msgpack.Decoder(cls)
    except Exception as error:
        pass_on(error)
        return False
    return True


def mentions_any(wire: Any) -> bool:
    """Whether a type leaves open, anywhere in it, what a value is."""
    return wire is Any or any(mentions_any(part) for part in typing.get_args(wire))


def _is_same(wire: Any, annotation: Any) -> bool:
    return bool(wire == (type(None) if annotation is None else annotation))


def _optional(plan: Plan) -> Plan:
    def optional(convert: Expression | None) -> Expression | None:
        if convert is None:
            return None
        return lambda v: f"(None if {v} is None else {convert(v)})"

    return Plan(
        plan.wire if plan.wire is Any else plan.wire | None,
        lambda v: f"({v} is None or {plan.check(v)})",
        optional(plan.pack),
        optional(plan.unpack),
        None if plan.exact_types is None else plan.exact_types | {type(None)},
    )


def _wire_union(wires: list[Any]) -> Any:
    wire = wires[0]
    for other in wires[1:]:
        wire = wire | other
    return wire


def _key(annotation: Any) -> Any:
    """Return an annotation as something that can be looked up in a set."""
    return annotation if isinstance(annotation, type) else None


_BY_TYPE = frozenset({str, int, bytes, bytearray, date, timedelta, Decimal, UUID})

_CONTAINERS: dict[Any, Callable[[Planner, tuple[Any, ...]], Plan]] = {
    list: Planner._list,
    tuple: Planner._tuple,
    set: Planner._set,
    frozenset: Planner._frozenset,
    dict: Planner._dict,
}

_MSGPACK_SCALARS = frozenset({type(None), bool, int, float, str, bytes})
_JSON_SCALARS = frozenset({type(None), bool, int, str})


def is_plain_msgpack(value: Any, depth: int = 1) -> bool:
    """Whether MessagePack brings a value back exactly without being told its type."""
    cls = type(value)
    if cls in _MSGPACK_SCALARS:
        return True
    if depth > MAX_DEPTH:
        return False
    if cls is dict:
        for key, item in value.items():
            if type(key) is not str:
                return False
            if type(item) not in _MSGPACK_SCALARS and not is_plain_msgpack(item, depth + 1):
                return False
        return True
    if cls is list:
        for item in value:
            if type(item) not in _MSGPACK_SCALARS and not is_plain_msgpack(item, depth + 1):
                return False
        return True
    return cls is datetime and value.tzinfo is UTC and not value.fold


def is_plain_json(value: Any, depth: int = 1) -> bool:
    """Whether JSON brings a value back exactly without being told its type."""
    cls = type(value)
    if cls in _JSON_SCALARS:
        return True
    if cls is float:
        return bool(value - value == 0.0)
    if depth > MAX_DEPTH:
        return False
    if cls is dict:
        for key, item in value.items():
            if type(key) is not str:
                return False
            if type(item) not in _JSON_SCALARS and not is_plain_json(item, depth + 1):
                return False
        return True
    if cls is list:
        for item in value:
            if type(item) not in _JSON_SCALARS and not is_plain_json(item, depth + 1):
                return False
        return True
    return False
