"""Convert: a stored value of one type to the annotation that its field has now.

A value that fits the annotation stays as it is. These others are converted by themselves, as
nothing is lost and every value of the type behaves alike:

| stored | wanted |
|---|---|
| `bool` | `int` |
| `int` | `float` and `complex` where they hold it exactly; `Decimal`, `Fraction` |
| `float` | `complex` |
| `bytes`, `bytearray` | the other |
| `list`, `tuple` | the other; a tuple of fixed length from as many |
| `set`, `frozenset` | the other |
| the items of a container, keys and values of a dict | the same, each |
| a record | a record class, field by field by name; a dict; a TypedDict |
| a dict with names as keys | a record class, a TypedDict |
| an Enum member | a member of the same value, else of the same name; its value |
| a value | the Enum member that has it |
| `T` | `T | None`, or any union that has a place for it |

Nothing else is: not text to numbers, dates or paths, not `date` to `datetime`, not `float` to
`Decimal`, not lists to sets (order and repetition would be lost), not `None` to anything. Which
record class of a union is meant, the stored name of the class says, then the aliases, then the
names of the fields, where they fit one class only.

A value that did not fit the annotation under which it was stored is left alone: annotations are
never enforced.
"""

from __future__ import annotations

import enum
import typing
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal, NoReturn

from memdb.errors import DecodeError, RecordTypeError
from memdb.serializers._annotations import annotations_of
from memdb.serializers._build import (
    Builder,
    Trail,
    default_of,
    key_place,
    missing_field,
    path_text,
)
from memdb.serializers._enums import is_by_name, member_of, name_of
from memdb.serializers._fit import (
    MISFIT,
    alternative,
    by_fit,
    class_name,
    is_one,
    is_open,
    item_annotations,
)
from memdb.serializers._pydantic import EXTRA, FIELDS_SET, allows_extra
from memdb.serializers._shape import (
    FieldShape,
    Shape,
    is_typed_dict,
    is_union,
    kind_of,
    reachable,
    shape_of,
    strip,
    type_text,
)
from memdb.serializers._stack import pass_on
from memdb.serializers._writer import (
    NamedDict,
    WorldRecord,
    is_of_world,
    items_present,
    without_state,
)

_CONTAINERS = (list, tuple, set, frozenset, dict)
_SEQUENCES, _SETS = (list, tuple), (set, frozenset)


def _int_to_float(value: int) -> float:
    return _exactly(value, float(value))


def _int_to_complex(value: int) -> complex:
    return complex(_exactly(value, float(value)))


def _exactly(value: int, converted: float) -> float:
    if int(converted) != value:
        raise OverflowError
    return converted


_WIDENINGS: dict[tuple[type, type], Callable[[Any], Any]] = {
    (bool, int): int,
    (int, float): _int_to_float,
    (int, complex): _int_to_complex,
    (int, Decimal): Decimal,
    (int, Fraction): Fraction,
    (float, complex): complex,
    (bytes, bytearray): bytearray,
    (bytearray, bytes): bytes,
}


class Converter:
    """Converts values to the annotations of one record class and of those inside it."""

    def __init__(self, shape: Shape) -> None:
        """Prepare for the classes that the annotations of ``shape`` lead to."""
        self._shape = shape
        self._classes = reachable(shape)
        self._builders: dict[type, Builder] = {}

    def convert(self, value: Any, wanted: Any, written: Any = Any, trail: Trail = None) -> Any:
        """Return a value as the annotation ``wanted`` has it.

        Args:
            value: A value of the writer's world, or of this program.
            wanted: The annotation that it has now.
            written: The annotation, in the writer's world, that it was stored under.
            trail: Where it is in the record.

        Returns:
            A value that shares no list, dict or set with the one given.

        Raises:
            DecodeError: It can't be converted; ``field`` is its path.
        """
        written = alternative(value, written)
        if written is MISFIT:
            return self._as_it_is(value, trail)
        wanted = strip(wanted)
        if is_union(wanted):
            return self._to_union(value, wanted, written, trail)
        origin = typing.get_origin(wanted)
        target = origin or wanted
        if wanted is None or wanted is type(None):
            if value is None:
                return None
            self._refuse(value, wanted, trail)
        if origin is Literal:
            return self._to_literal(value, wanted, written, trail)
        if target in _CONTAINERS:
            return self._to_container(value, wanted, written, trail)
        if is_open(target):
            return self._as_it_is(value, trail)
        if issubclass(target, enum.Enum):
            return self._to_enum(value, target, trail)
        if is_typed_dict(target):
            return self._to_typed_dict(value, target, trail)
        if kind_of(target) is not None:
            return self._to_record(value, wanted, trail)
        # An int in a field that was annotated float before stays one.
        return self._to_value(value, wanted, target, trail, is_strict=written is not target)

    # -- values

    def _to_value(
        self, value: Any, wanted: Any, target: type, trail: Trail, *, is_strict: bool
    ) -> Any:
        cls = type(value)
        if isinstance(value, enum.Enum) and (is_of_world(cls) or not isinstance(value, target)):
            return self._to_value(value.value, wanted, target, trail, is_strict=True)
        if is_one(value, target, is_strict=is_strict):
            return self._as_it_is(value, trail)
        widen = _WIDENINGS.get((cls, target))
        if widen is None:
            self._refuse(value, wanted, trail)
        try:
            return widen(value)
        except OverflowError:
            self._refuse(value, wanted, trail, "it would not be exact")

    def _to_literal(self, value: Any, wanted: Any, written: Any, trail: Trail) -> Any:
        found = {type(argument) for argument in typing.get_args(wanted)}
        # One of these types that is no allowed value does no harm, as annotations go.
        plain = [cls for cls in found if not issubclass(cls, enum.Enum)]
        enums = [cls for cls in found if issubclass(cls, enum.Enum)]
        for cls in (*plain, *enums):
            if type(value) is cls:
                return value
        for cls in enums:
            try:
                return self._to_enum(value, cls, trail)
            except DecodeError:
                continue
        if isinstance(value, enum.Enum) and type(value.value) in plain:
            return value.value
        self._refuse(value, wanted, trail)

    def _to_enum(self, value: Any, cls: type[enum.Enum], trail: Trail) -> Any:
        if isinstance(value, cls):
            return value
        name, inner = None, value
        if isinstance(value, enum.Enum):
            name, inner = name_of(value), value.value
        is_named = is_by_name(cls)
        if is_named and name is None and type(value) is str:
            name = value
        of_name = None if name is None else _member_of_name(cls, name)
        if is_named and of_name is not None:
            return of_name
        found = _member_of_value(cls, inner)
        # A Flag without bits is false.
        found = of_name if found is None else found
        if found is not None:
            return found
        why = ""
        if isinstance(value, enum.Enum):
            gone = [
                name
                for name, member in sorted(type(value).__members__.items())
                if name not in {*cls.__members__, "?"}
                and _member_of_value(cls, member.value) is None
            ]
            if gone and type(value).__qualname__ == cls.__qualname__:
                why = f"{cls.__qualname__} no longer has {', '.join(gone)}"
        self._refuse(value, cls, trail, why)

    def _as_it_is(self, value: Any, trail: Trail) -> Any:
        """Return a value that no annotation speaks of, with classes of now in it."""
        cls = type(value)
        if cls in _SEQUENCES:
            return cls([self._as_it_is(v, (trail, f"[{i}]")) for i, v in enumerate(value)])
        if cls in _SETS:
            return cls([self._as_it_is(item, (trail, "{}")) for item in value])
        if cls is dict:
            return {
                self._as_it_is(key, (trail, ".keys()")): self._as_it_is(
                    item, (trail, key_place(key))
                )
                for key, item in value.items()
            }
        if cls is OrderedDict or cls is Counter:
            return cls(self._as_it_is(dict(value), trail))
        if cls is deque:
            return deque(self._as_it_is(list(value), trail), value.maxlen)
        if cls is bytearray:
            return bytearray(value)
        if cls is NamedDict:
            known = self._named(value.class_name)
            if known is None or issubclass(known, enum.Enum):
                return self._as_it_is(dict(value), trail)
            return self._to_record(value, known, trail)
        if not is_of_world(cls):
            return value
        known = self._named(cls.__qualname__)
        if known is not None and issubclass(known, enum.Enum) == isinstance(value, enum.Enum):
            convert: Any = self._to_record if isinstance(value, WorldRecord) else self._to_enum
            return convert(value, known, trail)
        path = path_text(trail)
        raise DecodeError(
            f"{path}: the stored value names the class {cls.__qualname__}, which no annotation of "
            f"{self._shape.name} leads to. Bring back the annotation, or declare "
            f"aliases={{{cls.__qualname__!r}: ...}}.",
            field=path,
        )

    # -- containers

    def _to_container(self, value: Any, wanted: Any, written: Any, trail: Trail) -> Any:
        target: Any = typing.get_origin(wanted) or wanted
        cls = type(value)
        if target is dict:
            return self._to_dict(value, wanted, written, trail)
        same_family = _SEQUENCES if target in _SEQUENCES else _SETS
        if cls not in same_family:
            self._refuse(value, wanted, trail)
        items = list(value)
        arguments = item_annotations(wanted, len(items))
        if arguments is None:
            self._refuse(value, wanted, trail, "it has another number of items")
        stored = item_annotations(written, len(items)) or [Any] * len(items)
        places = (f"[{i}]" if cls in _SEQUENCES else "{}" for i in range(len(items)))
        return target(
            [
                self.convert(item, argument, theirs, (trail, place))
                for item, argument, theirs, place in zip(
                    items, arguments, stored, places, strict=True
                )
            ]
        )

    def _to_dict(self, value: Any, wanted: Any, written: Any, trail: Trail) -> Any:
        keys, items = typing.get_args(wanted) or (Any, Any)
        if isinstance(value, WorldRecord | NamedDict):
            annotations = _annotations_of(value)
            return {
                self.convert(name, keys, str, trail): self.convert(
                    item, items, annotations.get(name, Any), (trail, f".{name}")
                )
                for name, item in _items_of(value)
            }
        if type(value) is not dict:
            self._refuse(value, wanted, trail)
        stored_keys, stored_items = typing.get_args(written) or (Any, Any)
        converted = {
            self.convert(key, keys, stored_keys, (trail, ".keys()")): self.convert(
                item, items, stored_items, (trail, key_place(key))
            )
            for key, item in value.items()
        }
        if len(converted) != len(value):
            self._refuse(value, wanted, trail, "two keys would be the same")
        return converted

    # -- records

    def _to_record(self, value: Any, wanted: Any, trail: Trail) -> Any:
        cls: type = typing.get_origin(wanted) or wanted
        if isinstance(value, cls):
            return value
        if not isinstance(value, WorldRecord | dict):
            self._refuse(value, wanted, trail)
        named = self._named(class_name(value))
        if named is not None and named is not cls and issubclass(named, cls):
            wanted = cls = named
        try:
            shape = shape_of(wanted)
        except RecordTypeError:
            self._refuse(value, wanted, trail)
        values = self._fields(value, shape.fields, trail)
        if shape.kind == "pydantic":
            values |= self._state(value, shape, trail)
        for field in shape.fields:
            if field.name not in values:
                inner = (trail, f".{field.name}")
                values[field.name] = self.default(field, shape.name, inner)
        builder = self._builders.get(wanted)
        if builder is None:
            builder = self._builders[wanted] = Builder(shape)
        return builder(values)

    def _state(self, value: Any, shape: Shape, trail: Trail) -> dict[str, Any]:
        """Return what a nested pydantic model holds beside its fields."""
        stored = dict(items_present(value) if isinstance(value, WorldRecord) else value)
        names = {field.name for field in shape.fields}
        gone = _annotations_of(value).keys() - names
        if isinstance(value, WorldRecord):
            extra = stored.get(EXTRA, {})
        else:
            extra = {name: item for name, item in stored.items() if name not in names}
        state: dict[str, Any] = {}
        if not allows_extra(shape.cls):
            gone |= extra.keys() - names
        elif extra:
            state[EXTRA] = self._as_it_is(extra, trail)
        # Of a dict what is in it was set.
        was_set = stored.get(FIELDS_SET) if isinstance(value, WorldRecord) else stored
        if was_set is not None:
            state[FIELDS_SET] = [name for name in was_set if name not in gone]
        return state

    def _to_typed_dict(self, value: Any, cls: type, trail: Trail) -> Any:
        if not isinstance(value, WorldRecord | dict):
            self._refuse(value, cls, trail)
        annotations = annotations_of(cls)
        fields = tuple(FieldShape(name, annotation) for name, annotation in annotations.items())
        rest = {
            name: self._as_it_is(item, (trail, f".{name}"))
            for name, item in _items_of(value)
            if name not in annotations and type(value) is dict
        }
        return {**self._fields(value, fields, trail), **rest}

    def _fields(self, value: Any, fields: Iterable[FieldShape], trail: Trail) -> dict[str, Any]:
        """Return the fields that a stored record has, converted."""
        stored = dict(_items_of(value))
        annotations = _annotations_of(value)
        is_stored = isinstance(value, WorldRecord)
        return {
            field.name: self.convert(
                stored[field.name],
                field.annotation,
                # What its class did not have, a newer program has put there.
                annotations.get(field.name, field.annotation if is_stored else Any),
                (trail, f".{field.name}"),
            )
            for field in fields
            if field.name in stored
        }

    def default(self, field: FieldShape, class_name: str, trail: Trail) -> Any:
        """Return the default of a field that a stored record has not.

        Raises:
            DecodeError: It has none.
        """
        if not field.required:
            return default_of(field, class_name)
        raise missing_field(path_text(trail), class_name)

    def _named(self, name: str) -> Any:
        """Return the class of now that a stored name means, None if there is none."""
        if not name:
            return None
        found = self._find(name)
        if found is None:
            # A derived class may have been defined since.
            self._classes = reachable(self._shape)
            found = self._find(name)
        return found

    def _find(self, name: str) -> Any:
        found = self._shape.aliases.get(name) or self._classes.get(name)
        if found is not None:
            return found
        matches = [
            cls
            for known, cls in self._classes.items()
            if known.endswith(f".{name}") or name.endswith(f".{known}")
        ]
        return matches[0] if len(matches) == 1 else None

    # -- unions

    def _to_union(self, value: Any, wanted: Any, written: Any, trail: Trail) -> Any:
        alternatives = [strip(argument) for argument in typing.get_args(wanted)]
        if isinstance(value, WorldRecord | dict):
            ordered = self._for_record(value, alternatives)
            if ordered is None:
                name = class_name(value)
                what = f", as aliases={{{name!r}: ...}}" if name else ""
                self._refuse(value, wanted, trail, f"several classes fit: say which{what}")
        elif isinstance(value, enum.Enum) and is_of_world(type(value)):
            named = self._named(type(value).__qualname__)
            enums = [a for a in alternatives if isinstance(a, type) and issubclass(a, enum.Enum)]
            ordered = [named] if named in enums else [*enums, *alternatives]
        else:
            ordered = by_fit(value, alternatives, self._named)
        last: DecodeError | None = None
        for one in ordered:
            try:
                return self.convert(value, one, written, trail)
            except DecodeError as error:
                last = error
        if last is not None and len(ordered) == 1:
            raise last
        self._refuse(value, wanted, trail)

    def _for_record(self, value: Any, alternatives: list[Any]) -> list[Any] | None:
        """Return the alternatives for a stored record or dict; None if it is not clear which."""
        records = [a for a in alternatives if _is_record(a)]
        others = [a for a in alternatives if not _is_record(a) and a is not type(None)]
        if type(value) is dict and any((typing.get_origin(a) or a) is dict for a in others):
            return by_fit(value, others, self._named)
        for cls in (type(value), self._named(class_name(value))):
            same = [a for a in records if cls is not None and issubclass(cls, _class_of(a))]
            exact = [a for a in same if _class_of(a) is cls]
            if same:
                return exact or same[:1]
        if not records:
            return others
        names = {name for name, _ in _items_of(value)}
        fitting = records if len(records) == 1 else [a for a in records if _takes(a, names)]
        if len(fitting) > 1:
            fitting = [a for a in fitting if {f.name for f in shape_of(a).fields} == names]
        return fitting if len(fitting) == 1 else (others or None)

    # -- errors

    def _refuse(self, value: Any, wanted: Any, trail: Trail, why: str = "") -> NoReturn:
        path = path_text(trail)
        name = path.partition(".")[0].partition("[")[0].partition("{")[0]
        raise DecodeError(
            f"{path or 'the value'}: stored as {_stored_type(value)}, and {type_text(wanted)} is "
            f"wanted{': ' if why else ''}{why}. Declare converters={{{name!r}: ...}} with a "
            "function of the stored value, or change it in a function declared as upgrade= or in "
            "upgrades=.",
            field=path,
        )


def _member_of_value(cls: type[enum.Enum], value: Any) -> Any:
    """Return the member that has exactly this value, or that the class gives in its place."""
    try:
        member = cls(value)
        # True is no 1 here.
        is_other = type(member.value) is not type(value) and bool(member.value == value)
    except Exception as error:
        pass_on(error)
        return None
    return None if is_other else member


def _member_of_name(cls: type[enum.Enum], name: str) -> Any:
    """Return the member of this name, or of these names of a Flag."""
    try:
        return member_of(cls, name)
    except (KeyError, ValueError):
        return None


def _annotations_of(value: Any) -> Mapping[str, Any]:
    """Return the annotations, in the writer's world, of the fields of a stored record."""
    return vars(type(value)).get("__annotations__", {}) if isinstance(value, WorldRecord) else {}


def _items_of(value: Any) -> Iterable[tuple[str, Any]]:
    """Return the fields of a stored record, or the items of a dict."""
    if isinstance(value, WorldRecord):
        return without_state(items_present(value))
    return typing.cast(Iterable[tuple[str, Any]], value.items())


def _stored_type(value: Any) -> str:
    return class_name(value) or ("None" if value is None else type(value).__qualname__)


def _class_of(annotation: Any) -> type:
    cls: type = typing.get_origin(annotation) or annotation
    return cls


def _is_record(annotation: Any) -> bool:
    cls = typing.get_origin(annotation) or annotation
    return cls is not dict and kind_of(cls) is not None


def _takes(annotation: Any, names: set[str]) -> bool:
    """Whether a record class has fields of these names, and requires no other."""
    fields = shape_of(annotation).fields
    required = {field.name for field in fields if field.required}
    return required <= names <= {field.name for field in fields}
