"""The exact tier: a tagged plain form of any supported value, shared by the text and byte codecs.

A plain form is what JSON can hold without loss: null, booleans, integers of 64 bits, finite
floats, valid strings, objects with string keys, and arrays. A dict with string keys is an object;
every other value is an array that begins with its tag: ``["tuple", 1, 2]``.
Values are described by their own types, never by annotations, so that exactly what went in comes
back. A tag names one of the types below or a class that the annotations of the record class lead
to: nothing in a payload can import or call anything else.
"""

from __future__ import annotations

import base64
import enum
import math
import struct
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Address,
    IPv6Interface,
    IPv6Network,
)
from pathlib import (
    Path,
    PosixPath,
    PurePath,
    PurePosixPath,
    PureWindowsPath,
    WindowsPath,
)
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np

from memdb.errors import DecodeError, EncodeError
from memdb.serializers._build import (
    PLAIN,
    Builder,
    Trail,
    full_name,
    get_attribute,
    has_own_attributes,
    key_place,
    path_text,
)
from memdb.serializers._enums import is_by_name, member_of, name_of
from memdb.serializers._numpy import (
    UnsupportedArray,
    array_from_plain,
    array_to_plain,
    scalar_from_plain,
    scalar_to_plain,
)
from memdb.serializers._pydantic import unusual_state
from memdb.serializers._shape import Shape, kind_of, reachable, shape_of
from memdb.serializers._stack import pass_on

#: How deep lists, dicts, sets, tuples and records may be nested in each other.
MAX_DEPTH = 64

_INT_MIN, _INT_MAX = -(2**63), 2**64 - 1
_ADVICE = 'Convert it to a supported type, or use serializer="pickle" for data that you trust.'
_NAME_IT = (
    'Name its class in the field\'s annotation, or use serializer="pickle" for data that you trust.'
)
_NO_NAMES = "Convert it, or use a collection of a class whose annotations name it."

_ToPlain = Callable[[Any, Trail, int], Any]


class ExactTier:
    """Turns the values of one record class into the plain form and back."""

    def __init__(
        self, shape: Shape, *, make_foreign: Callable[[str, str, Any, Any], Any] | None = None
    ) -> None:
        """Prepare for the classes that the annotations of ``shape`` lead to.

        Args:
            shape: The record class.
            make_foreign: From a tag, the name of a class, the class (None if it is not there) and
                the value behind it to a record, or to what stands for a class that is not there;
                None to make records as usual and refuse classes that are not there.
        """
        self._shape = shape
        self._make_foreign = make_foreign
        self._classes: dict[str, type] = {}
        self._trails: list[tuple[str, Trail]] = [
            (field.name, (None, f".{field.name}")) for field in shape.payload_fields
        ]
        self._is_model = shape.kind == "pydantic"
        self._builders: dict[type, Builder] = {}
        self._to: dict[type, _ToPlain] = {}
        self._look_again()

    def _look_again(self) -> None:
        """Learn the classes that the annotations lead to by now.

        Classes derived from these may have been defined since. What there is is replaced as a
        whole, as other threads use it.
        """
        to: dict[type, _ToPlain] = {
            **_SIMPLE_TO,
            list: self._sequence_to("list"),
            tuple: self._sequence_to("tuple"),
            set: self._set_to("set"),
            frozenset: self._set_to("frozenset"),
            dict: self._dict_to,
            OrderedDict: self._pairs_to("ordered dict"),
            Counter: self._pairs_to("counter"),
            deque: self._deque_to,
        }
        classes = reachable(self._shape)
        for name, cls in classes.items():
            if issubclass(cls, enum.Enum):
                to[cls] = self._enum_to(name, cls)
            else:
                to[cls] = self._record_to(name, cls)
        self._classes, self._to = classes, to

    def fields_to_plain(self, record: Any) -> dict[str, Any]:
        """Return the record's payload fields, the identity left out, in the plain form."""
        plain = {}
        to = self._to
        for name, trail in self._trails:
            try:
                value = getattr(record, name)
            except AttributeError:
                value = get_attribute(record, name)
            cls = type(value)
            if cls is str and value.isascii():
                plain[name] = value
            else:
                # Mostly without a call of to_plain between.
                plain[name] = to.get(cls, self.to_plain)(value, trail, 1)
        if self._is_model:
            plain |= self._state_to(record, self._shape.identity, None, 1)
        return plain

    def record_from_plain(self, plain: Any, build: Builder, identity: int) -> Any:
        """Return the record of what ``fields_to_plain`` gave.

        Raises:
            DecodeError: It is something else, or lacks a field that is required.
        """
        if type(plain) is not dict:
            raise DecodeError(_NO_RECORD)
        try:
            if plain.keys() == build.stored:
                return build.build_exactly(plain, self._from, identity)
            values = build.values_of(plain, self._from)
        except Exception as error:
            pass_on(error, DecodeError)
            raise _unreadable(error) from error
        return build(values, identity)

    def fields_from_plain(self, plain: Any) -> dict[str, Any]:
        """Return the values by field name of what ``fields_to_plain`` gave.

        Raises:
            DecodeError: It is something else.
        """
        if type(plain) is not dict:
            raise DecodeError(_NO_RECORD)
        values = self.from_plain(plain)
        assert type(values) is dict
        return values

    def to_plain(self, value: Any, trail: Trail = None, depth: int = 0) -> Any:
        """Return the plain form of a value.

        Raises:
            EncodeError: The value, or one inside it, is of no supported type, or it is nested too
                deep.
        """
        convert = self._to.get(type(value))
        if convert is None:
            self._look_again()
            convert = self._to.get(type(value))
            if convert is None:
                raise self._refused(value, trail)
        return convert(value, trail, depth)

    def from_plain(self, plain: Any) -> Any:
        """Return the value of a plain form.

        Raises:
            DecodeError: It is no plain form, or names a class that the annotations do not.
        """
        try:
            return self._from(plain)
        except Exception as error:
            pass_on(error, DecodeError)
            raise _unreadable(error) from error

    # -- to plain

    def _refused(self, value: Any, trail: Trail) -> EncodeError:
        """Return the error for a value of a type that has no plain form."""
        cls = type(value)
        base = next((known for known in cls.__mro__[1:] if known in self._to), None)
        advice = _ADVICE
        if cls is defaultdict:
            why = "its factory would be lost"
            advice = "Convert it with dict()."
        elif issubclass(cls, enum.Enum) or kind_of(cls) is not None:
            what = "a member" if issubclass(cls, enum.Enum) else "a record"
            why = f"it is {what} of a class that no annotation leads to"
            advice = _NAME_IT if self._shape.fields else _NO_NAMES
        elif base is not None:
            why = f"it is a subclass of {full_name(base)}, whose own part would be lost"
        else:
            why = "it is not a supported type, nor a class that the record's annotations name"
        return _refusal(value, trail, f"{why}. {advice}")

    def _enter(self, value: Any, trail: Trail, depth: int) -> int:
        """Return the depth inside a container, unless it is too deep."""
        if depth >= MAX_DEPTH:
            path = path_text(trail)
            start = path if len(path) <= 80 else path[:80] + "..."
            raise EncodeError(
                f"{start}: a value of type {full_name(type(value))} is nested deeper than "
                f"{MAX_DEPTH} levels, or contains itself. "
                "Flatten it, or store the parts as records of their own.",
                field=path,
            )
        return depth + 1

    def _sequence_to(self, tag: str) -> _ToPlain:
        def convert(value: Any, trail: Trail, depth: int) -> Any:
            depth = self._enter(value, trail, depth)
            return [
                tag,
                *[
                    # Most are text, which needs neither a call nor a path.
                    v
                    if type(v) is str and v.isascii()
                    else self.to_plain(v, (trail, f"[{i}]"), depth)
                    for i, v in enumerate(value)
                ],
            ]

        return convert

    def _set_to(self, tag: str) -> _ToPlain:
        def convert(value: Any, trail: Trail, depth: int) -> Any:
            depth = self._enter(value, trail, depth)
            # Sorted, so that equal sets give equal bytes in every process.
            items = (self.to_plain(v, (trail, "{}"), depth) for v in value)
            return [tag, *sorted(items, key=repr)]

        return convert

    def _dict_to(self, value: dict[Any, Any], trail: Trail, depth: int) -> Any:
        depth = self._enter(value, trail, depth)
        if all(type(key) is str and is_valid_text(key) for key in value):
            return {k: self.to_plain(v, (trail, key_place(k)), depth) for k, v in value.items()}
        return ["dict", *self._pairs(value, trail, depth)]

    def _pairs_to(self, tag: str) -> _ToPlain:
        def convert(value: dict[Any, Any], trail: Trail, depth: int) -> Any:
            depth = self._enter(value, trail, depth)
            if has_own_attributes(value):
                raise _refusal(value, trail, f"its own attributes would be lost. {_ADVICE}")
            return [tag, *self._pairs(value, trail, depth)]

        return convert

    def _pairs(self, value: dict[Any, Any], trail: Trail, depth: int) -> list[list[Any]]:
        pairs = []
        for number, (key, item) in enumerate(value.items()):
            inner = (trail, key_place(key) if type(key) in (str, int) else f"[key {number}]")
            pairs.append([self.to_plain(key, inner, depth), self.to_plain(item, inner, depth)])
        return pairs

    def _deque_to(self, value: deque[Any], trail: Trail, depth: int) -> Any:
        depth = self._enter(value, trail, depth)
        items = [self.to_plain(v, (trail, f"[{i}]"), depth) for i, v in enumerate(value)]
        return ["deque", value.maxlen, *items]

    def _enum_to(self, name: str, cls: type[enum.Enum]) -> _ToPlain:
        is_flag = issubclass(cls, enum.Flag)
        known: dict[str, Any] = {}

        def convert(value: Any, trail: Trail, depth: int) -> Any:
            if is_flag:
                # There may be more combinations than can be remembered.
                return self._member_to(name, value, trail)
            plain = known.get(value._name_)
            if plain is None:
                plain = known[value._name_] = self._member_to(name, value, trail)
            return plain

        return convert

    def _member_to(self, name: str, member: Any, trail: Trail) -> Any:
        """Return a member by its value, where that leads back to it, or else by its name."""
        cls = type(member)
        inner: Any = member._value_
        if not is_by_name(cls) and (type(inner) in _SIMPLE_TO or type(inner) is tuple):
            try:
                plain = self.to_plain(inner, (trail, ".value"), 1)
                if cls(self._from(plain)) is member:
                    return ["enum", name, plain]
            except (ValueError, EncodeError):
                pass
        return ["enum name", name, name_of(member)]

    def _record_to(self, name: str, cls: type) -> _ToPlain:
        shape = shape_of(cls)
        names = tuple(field.name for field in shape.fields)
        is_model, is_tuple = shape.kind == "pydantic", shape.kind == "namedtuple"

        def convert(value: Any, trail: Trail, depth: int) -> Any:
            depth = self._enter(value, trail, depth)
            fields = {}
            for number, field in enumerate(names):
                inner = (trail, f".{field}")
                item = value[number] if is_tuple else get_attribute(value, field, inner)
                fields[field] = self.to_plain(item, inner, depth)
            if is_model:
                fields |= self._state_to(value, None, trail, depth)
            return ["record", name, fields]

        return convert

    def _state_to(
        self, model: Any, identity: str | None, trail: Trail, depth: int
    ) -> dict[str, Any]:
        """Return in plain form what a pydantic model holds besides its fields."""
        state = unusual_state(model, identity)
        return {name: self.to_plain(value, trail, depth) for name, value in state.items()}

    # -- from plain

    def _from(self, plain: Any) -> Any:
        cls = type(plain)
        if cls is dict:
            return {
                key: item if type(item) in PLAIN else self._from(item)
                for key, item in plain.items()
            }
        if cls is not list:
            if cls in PLAIN:
                return plain
            raise TypeError(cls)
        tag, *rest = plain
        simple = _SIMPLE_FROM.get(tag)
        if simple is not None:
            return simple(*rest)
        if tag == "list":
            return [self._from(item) for item in rest]
        if tag == "tuple":
            return tuple([self._from(item) for item in rest])
        if tag == "set":
            return {self._from(item) for item in rest}
        if tag == "frozenset":
            return frozenset([self._from(item) for item in rest])
        if tag == "dict":
            return {self._from(key): self._from(item) for key, item in rest}
        if tag == "ordered dict":
            return OrderedDict((self._from(key), self._from(item)) for key, item in rest)
        if tag == "counter":
            return Counter({self._from(key): self._from(item) for key, item in rest})
        if tag == "deque":
            length, *items = rest
            return deque([self._from(item) for item in items], length)
        return self._from_class(tag, *rest)

    def _from_class(self, tag: str, name: str, content: Any) -> Any:
        if tag not in ("record", "enum", "enum name"):
            raise ValueError("unknown tag")
        cls = self._class_of(name)
        if self._make_foreign is not None and (cls is None or tag == "record"):
            return self._make_foreign(tag, name, cls, self._from(content))
        if cls is None or issubclass(cls, enum.Enum) != (tag != "record"):
            raise DecodeError(
                f"the payload names the class {name}, which no annotation of "
                f"{self._shape.name} leads to. Bring back the annotation or the class's old name, "
                f"or declare what it is called now with aliases={{{name!r}: ...}}."
            )
        if tag == "enum name":
            return member_of(cls, content)
        if tag == "enum":
            value = self._from(content)
            if self._make_foreign is not None and not _is_value_of(cls, value):
                return self._make_foreign(tag, name, None, value)
            return cls(value)
        build = self._builders.get(cls)
        if build is None:
            build = self._builders[cls] = Builder(shape_of(cls))
        if content.keys() == build.stored:
            return build.build_exactly(content, self._from, 0)
        return build(build.values_of(content, self._from))

    def _class_of(self, name: str) -> type | None:
        """Return the class that a payload names, None if there is none."""
        cls = self._classes.get(name) or self._by_other_name(name)
        if cls is None and self._make_foreign is None:
            self._look_again()
            cls = self._classes.get(name) or self._by_other_name(name)
        return cls

    def _by_other_name(self, name: str) -> type | None:
        """Return the class of an older name, or of one written when there were more like it."""
        matches = {
            cls
            for names in (self._classes, self._shape.aliases)
            for known, cls in names.items()
            if known == name or known.endswith(f".{name}") or name.endswith(f".{known}")
        }
        return self._shape.aliases.get(name) or (matches.pop() if len(matches) == 1 else None)


_NO_RECORD = "the payload holds no record. It was not written by memdb."


def _unreadable(error: Exception) -> DecodeError:
    """Return the error for a plain form that can't be read."""
    return DecodeError(
        f"the payload holds a value that can't be read ({type(error).__name__}). "
        "It was not written by memdb, or needs something that this machine lacks, such as a time "
        "zone (install tzdata)."
    )


def _is_value_of(cls: Any, value: Any) -> bool:
    """Whether an Enum class, made from what a file says of it, has a member of this value."""
    try:
        cls(value)
    except ValueError:
        return False
    return True


def _refusal(value: Any, trail: Trail, why: str) -> EncodeError:
    """Return the error for a value that can't be stored; ``why`` ends with what to do."""
    path = path_text(trail)
    return EncodeError(
        f"{path or 'the record'}: can't store a value of type {full_name(type(value))}: {why}",
        field=path,
    )


def is_valid_text(text: str) -> bool:
    """Whether a string can be UTF-8: it holds no lone surrogate."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _int_to(value: int) -> Any:
    # Hexadecimal: no limit of digits, and linear.
    return value if _INT_MIN <= value <= _INT_MAX else ["int", format(value, "x")]


def _float_to(value: float) -> Any:
    if math.isfinite(value):
        return value
    if math.isinf(value):
        return ["float", "inf" if value > 0 else "-inf"]
    bits = struct.pack(">d", value)
    return ["float", "nan" if bits == _NAN else bits.hex()]


_NAN = struct.pack(">d", math.nan)


def _float_from(text: str) -> float:
    if text in ("inf", "-inf", "nan"):
        return float(text)
    value: float = struct.unpack(">d", bytes.fromhex(text))[0]
    return value


def _text_to(value: str) -> Any:
    if is_valid_text(value):
        return value
    return ["str", base64.b64encode(value.encode("utf-8", "surrogatepass")).decode()]


def _text_from(text: str) -> str:
    return base64.b64decode(text, validate=True).decode("utf-8", "surrogatepass")


def _plain_text(plain: Any) -> str:
    """Return the string of a plain string or of a tagged one."""
    if type(plain) is list and len(plain) == 2 and plain[0] == "str":
        return _text_from(plain[1])
    if type(plain) is not str:
        raise TypeError(type(plain))
    return plain


def _zone_to(zone: Any, trail: Trail) -> Any:
    """Return the plain form of a time zone: its key, or [microseconds], or that with a name."""
    if type(zone) is ZoneInfo and zone.key is not None:
        return zone.key
    if type(zone) is timezone:
        offset, *name = zone.__getinitargs__()  # type: ignore[attr-defined]
        return [offset // timedelta(microseconds=1), *map(_text_to, name)]
    path = path_text(trail)
    raise EncodeError(
        f"{path or 'the record'}: can't store a time with a tzinfo of type "
        f"{full_name(type(zone))}, as it may not come back the same. "
        "Use zoneinfo.ZoneInfo with a key, or datetime.timezone.",
        field=path,
    )


def _zone_from(plain: Any) -> Any:
    if type(plain) is str:
        return ZoneInfo(plain)
    microseconds, *name = plain
    return timezone(timedelta(microseconds=microseconds), *map(_plain_text, name))


def _moment_to(value: datetime | time, trail: Trail) -> list[Any]:
    """Return a moment as ISO text, and zone and fold after it where the text can't hold them."""
    tag = "datetime" if type(value) is datetime else "time"
    zone = value.tzinfo
    if zone is None or zone is UTC:
        plain: list[Any] = [tag, value.isoformat()]
    else:
        plain = [tag, value.replace(tzinfo=None).isoformat(), _zone_to(zone, trail)]
    if value.fold:
        plain += [None, 1] if len(plain) == 2 else [1]
    return plain


def _datetime_from(text: str, zone: Any = None, fold: int = 0) -> datetime:
    value = datetime.fromisoformat(text)
    if zone is not None:
        return value.replace(tzinfo=_zone_from(zone), fold=fold)
    return value.replace(fold=fold) if fold else value


def _time_from(text: str, zone: Any = None, fold: int = 0) -> time:
    value = time.fromisoformat(text)
    if zone is not None:
        return value.replace(tzinfo=_zone_from(zone), fold=fold)
    return value.replace(fold=fold) if fold else value


def _number_from(plain: Any) -> float:
    if type(plain) is list:
        return _float_from(plain[1])
    return float(plain)


def _int_from(plain: Any) -> int:
    if type(plain) is list:
        return int(plain[1], 16)
    if type(plain) is not int:
        raise TypeError(type(plain))
    return plain


def _array_to(value: Any, trail: Trail, depth: int) -> Any:
    try:
        return array_to_plain(value) if type(value) is np.ndarray else scalar_to_plain(value)
    except UnsupportedArray as error:
        raise _refusal(value, trail, f"{error}.") from error


_BY_TEXT: dict[str, type] = {
    "ip4": IPv4Address,
    "ip6": IPv6Address,
    "ip4 network": IPv4Network,
    "ip6 network": IPv6Network,
    "ip4 interface": IPv4Interface,
    "ip6 interface": IPv6Interface,
}
_PATHS: tuple[type[PurePath], ...] = (PurePosixPath, PureWindowsPath, PosixPath, WindowsPath)


def _by_text(tag: str) -> _ToPlain:
    return lambda value, trail, depth: [tag, str(value)]


def _path_to(value: Any, trail: Trail, depth: int) -> Any:
    return ["path", type(value).__name__, _text_to(str(value))]


def _path_from(name: str, text: Any) -> PurePath:
    cls = {path.__name__: path for path in _PATHS}[name]
    return cls(_plain_text(text))


_SIMPLE_TO: dict[type, _ToPlain] = {
    type(None): lambda value, trail, depth: None,
    bool: lambda value, trail, depth: value,
    int: lambda value, trail, depth: _int_to(value),
    float: lambda value, trail, depth: _float_to(value),
    str: lambda value, trail, depth: _text_to(value),
    complex: lambda value, trail, depth: [
        "complex",
        _float_to(value.real),
        _float_to(value.imag),
    ],
    bytes: lambda value, trail, depth: ["bytes", base64.b64encode(value).decode()],
    bytearray: lambda value, trail, depth: ["bytearray", base64.b64encode(value).decode()],
    date: lambda value, trail, depth: ["date", value.isoformat()],
    time: lambda value, trail, depth: _moment_to(value, trail),
    datetime: lambda value, trail, depth: _moment_to(value, trail),
    timedelta: lambda value, trail, depth: [
        "timedelta",
        value.days,
        value.seconds,
        value.microseconds,
    ],
    timezone: lambda value, trail, depth: ["zone", _zone_to(value, trail)],
    ZoneInfo: lambda value, trail, depth: ["zone", _zone_to(value, trail)],
    Decimal: _by_text("decimal"),
    Fraction: lambda value, trail, depth: [
        "fraction",
        _int_to(value.numerator),
        _int_to(value.denominator),
    ],
    UUID: _by_text("uuid"),
    **{cls: _by_text(tag) for tag, cls in _BY_TEXT.items()},
    **{cls: _path_to for cls in _PATHS},
    range: lambda value, trail, depth: [
        "range",
        *map(_int_to, (value.start, value.stop, value.step)),
    ],
    np.ndarray: _array_to,
    # Those that can't be stored are refused there, with what to use.
    **{cls: _array_to for cls in set(np.sctypeDict.values())},
}

_SIMPLE_FROM: dict[Any, Callable[..., Any]] = {
    "int": lambda text: int(text, 16),
    "float": _float_from,
    "str": _text_from,
    "complex": lambda real, imag: complex(_number_from(real), _number_from(imag)),
    "bytes": lambda text: base64.b64decode(text, validate=True),
    "bytearray": lambda text: bytearray(base64.b64decode(text, validate=True)),
    "date": date.fromisoformat,
    "time": _time_from,
    "datetime": _datetime_from,
    "timedelta": timedelta,
    "zone": _zone_from,
    "decimal": Decimal,
    "fraction": lambda upper, lower: Fraction(_int_from(upper), _int_from(lower)),
    "uuid": UUID,
    "path": _path_from,
    "range": lambda start, stop, step: range(*map(_int_from, (start, stop, step))),
    "array": array_from_plain,
    "scalar": scalar_from_plain,
    **_BY_TEXT,
}

assert Path not in _SIMPLE_TO
