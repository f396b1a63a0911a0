"""A reader of records' bytes and natural keys, written from docs/format.md alone.

Nothing of memdb is used. Records come out as dicts, nested ones too, and members of Enum classes
as their values.
"""

from __future__ import annotations

import base64
import json
import re
import struct
import uuid
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
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
from pathlib import PosixPath, PurePath, PurePosixPath, PureWindowsPath, WindowsPath
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import numpy as np
import xxhash

Convert = Callable[[Any], Any]


class Unreadable(Exception):
    """The bytes are not what the document describes."""


def decode_payload(
    schema: Mapping[str, Any], payload: bytes, identity: int | None = None
) -> dict[str, Any]:
    """Return the record of a payload.

    Args:
        schema: Of its writer.
        payload: The bytes.
        identity: What the pointer has; None in a collection with a natural key.
    """
    form = schema["serializer"]
    if form not in ("json", "msgpack", "binary"):
        raise Unreadable(f"a payload of the serializer {form}")
    exact = exact_plain(form, payload)
    record = _native(schema, payload) if exact is None else Exact(schema).fields(exact[0])
    names = [name for name, _ in schema["fields"]]
    if identity is not None and (schema["kind"] == "dict" or "id" not in names):
        record["id"] = identity
    return record


def is_exact(schema: Mapping[str, Any], payload: bytes) -> bool:
    """Whether a payload is of the exact form."""
    return exact_plain(schema["serializer"], payload) is not None


def exact_plain(form: str, payload: bytes) -> tuple[Any] | None:
    """Return the plain form in a payload, in a tuple; None if it is of the native form."""
    if form != "json":
        return (msgspec.msgpack.decode(payload[1:]),) if payload[0] == 0xC1 else None
    if payload[0] != 0x5B:
        return None
    mark, plain = json.loads(payload)
    if mark != "exact":
        raise Unreadable(f"an array of {mark}")
    return (plain,)


# -- the native form -------------------------------------------------------------------------


def _native(schema: Mapping[str, Any], payload: bytes) -> dict[str, Any]:
    form, fields = schema["serializer"], schema["fields"]
    values = json.loads(payload) if form == "json" else msgspec.msgpack.decode(payload)
    if schema["kind"] == "dict":
        if type(values) is not dict:
            raise Unreadable("no dict")
        return values
    names = [name for name, _ in fields]
    if form == "binary":
        values = dict(zip(names, values, strict=True))
    elif not set(names) <= values.keys() <= {*names, "id"}:
        raise Unreadable(f"fields {list(values)}")
    types = Types(schema)
    return {name: types.converter(text)(values[name]) for name, text in fields}


class Types:
    """Makes what turns a native value into that of a type."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._is_json = schema["serializer"] == "json"
        self._is_binary = schema["serializer"] == "binary"
        self._records = schema.get("records", {})
        self._enums = schema.get("enums", {})
        self._exact = Exact(schema)
        self._open: set[str] = set()
        self._found: dict[str, Convert] = {}

    def converter(self, text: str) -> Convert:
        """Return what converts the values of a type."""
        parts = _split(text, "|")
        others = [part for part in parts if part != "None"]
        if len(parts) > 1:
            if len(others) > 1:
                return _as_it_is
            inner = self.converter(others[0])
            return lambda value: None if value is None else inner(value)
        name, arguments = _name_and_arguments(text)
        for known in (text, name):
            if known in self._enums:
                return self._member(known)
            if known in self._records:
                return _as_it_is if known in self._open else self._record(known)
        if text in self._scalars:
            return self._scalars[text]
        if not arguments:
            return _as_it_is
        if name == "list":
            return self._items(list, arguments[0])
        if name == "tuple":
            return self._tuple(arguments)
        plain_keys = ["str", "int", "date", "UUID", *([] if self._is_json else ["bytes"])]
        if name in ("set", "frozenset") and arguments[0] in plain_keys:
            return self._items({"set": set, "frozenset": frozenset}[name], arguments[0])
        if name == "dict" and arguments[0] in (["str"] if self._is_json else ["str", "int"]):
            item = self.converter(arguments[1])
            return lambda value: {key: item(part) for key, part in value.items()}
        return _as_it_is

    @property
    def _scalars(self) -> dict[str, Convert]:
        from_bytes: Convert = base64.b64decode if self._is_json else bytes
        return {
            "bytes": from_bytes,
            "bytearray": lambda value: bytearray(from_bytes(value)),
            "date": date.fromisoformat,
            "time": time.fromisoformat,
            "datetime": self._datetime,
            "timedelta": _timedelta,
            "Decimal": Decimal,
            "UUID": lambda v: uuid.UUID(bytes=v) if self._is_binary else uuid.UUID(v),
        }

    def _datetime(self, value: Any) -> datetime:
        if isinstance(value, datetime):
            return value
        found = datetime.fromisoformat(value)
        if found.tzinfo is not None and not self._is_json:
            raise Unreadable("text of a datetime with a zone")
        return found

    def _items(self, cls: Any, text: str) -> Convert:
        item = self.converter(text)
        return lambda value: cls([item(part) for part in value])

    def _tuple(self, arguments: list[str]) -> Convert:
        if arguments[-1] == "...":
            return self._items(tuple, arguments[0])
        items = [self.converter(text) for text in arguments if text != "()"]
        return lambda value: tuple([item(v) for item, v in zip(items, value, strict=True)])

    def _member(self, name: str) -> Convert:
        entry = self._enums[name]
        if not entry.get("by_name") or entry["kind"] in ("Flag", "IntFlag"):
            return _as_it_is
        return lambda value: self._exact.member(name, value)

    def _record(self, name: str) -> Convert:
        if name not in self._found:
            self._open.add(name)
            items = [(field, self.converter(text)) for field, text in self._records[name]]
            self._open.discard(name)
            self._found[name] = lambda value: {field: item(value[field]) for field, item in items}
        return self._found[name]


def _as_it_is(value: Any) -> Any:
    return value


def _timedelta(text: str) -> timedelta:
    found = re.fullmatch(r"(-?)P(?:(\d+)D)?(?:T(\d+)(?:\.(\d{1,6}))?S)?", text)
    if found is None:
        raise Unreadable(text)
    sign, days, seconds, fraction = found.groups()
    span = timedelta(int(days or 0), int(seconds or 0), int((fraction or "0").ljust(6, "0")))
    return -span if sign else span


def _name_and_arguments(text: str) -> tuple[str, list[str]]:
    name, bracket, rest = text.partition("[")
    return name, _split(rest[:-1], ",") if bracket else []


def _split(text: str, separator: str) -> list[str]:
    """Split a type at a separator that is in no brackets and no string."""
    parts, depth, quote, at = [""], 0, "", 0
    while at < len(text):
        char = text[at]
        if quote:
            if char == "\\":
                parts[-1] += char
                at += 1
                char = text[at]
            elif char == quote:
                quote = ""
        elif char in "'\"":
            quote = char
        elif char in "[]":
            depth += 1 if char == "[" else -1
        elif char == separator and not depth:
            parts.append("")
            at += 1
            continue
        parts[-1] += char
        at += 1
    return [part.strip() for part in parts]


# -- the exact form --------------------------------------------------------------------------

FIELDS_SET, EXTRA = "__pydantic_fields_set__", "__pydantic_extra__"


class Exact:
    """Reads plain forms."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._enums = schema.get("enums", {})

    def fields(self, plain: Any) -> dict[str, Any]:
        """Return the fields of a record, or the items of a dict."""
        values = self.value(plain)
        if type(values) is not dict:
            raise Unreadable("no record")
        return _with_further(values)

    def value(self, plain: Any) -> Any:
        """Return the value of a plain form."""
        if isinstance(plain, dict):
            return {key: self.value(item) for key, item in plain.items()}
        if not isinstance(plain, list):
            return plain
        tag, *rest = plain
        if tag in _TAGS:
            return _TAGS[tag](*rest)
        if tag in _SEQUENCES:
            items = [self.value(item) for item in rest]
            return _SEQUENCES[tag](map(_hashable, items) if "set" in tag else items)
        if tag in _MAPPINGS:
            pairs = [(_hashable(self.value(key)), self.value(item)) for key, item in rest]
            return _MAPPINGS[tag](dict(pairs))
        if tag == "deque":
            return deque([self.value(item) for item in rest[1:]], rest[0])
        if tag == "record":
            return Record(_with_further({k: self.value(v) for k, v in rest[1].items()}))
        if tag == "enum":
            return self.value(rest[1])
        if tag == "enum name":
            return self.member(*rest)
        raise Unreadable(f"the tag {tag}")

    def member(self, name: str, member: str) -> Any:
        """Return the value of a member; its name where the file does not tell the value."""
        members = dict(self._enums.get(name, {"members": []})["members"])
        if members.get(member) == ["opaque"]:
            return member
        if member in members:
            return self.value(members[member])
        parts: list[Any] = [int(p) if p.isdecimal() else members.get(p) for p in member.split("|")]
        if not members or None in parts:
            return member
        bits = 0
        for part in parts:
            bits |= part
        return bits


class Record(dict[str, Any]):
    """A nested record; equal to a dict, and in a set a tuple of pairs."""


def plain_dicts(value: Any) -> Any:
    """Return a value with nested records as dicts that are nothing but dicts."""
    match value:
        case OrderedDict() | Counter():
            return type(value)({key: plain_dicts(item) for key, item in value.items()})
        case dict():
            return {key: plain_dicts(item) for key, item in value.items()}
        case list():
            return [plain_dicts(item) for item in value]
        case tuple():
            return tuple([plain_dicts(item) for item in value])
        case deque():
            return deque([plain_dicts(item) for item in value], value.maxlen)
    return value


def _hashable(value: Any) -> Any:
    if isinstance(value, Record):
        return tuple((name, _hashable(item)) for name, item in value.items())
    if type(value) is tuple:
        return tuple(map(_hashable, value))
    return value


def tags_in(plain: Any) -> Iterator[str]:
    """Yield the tags of a plain form."""
    if isinstance(plain, dict):
        for item in plain.values():
            yield from tags_in(item)
    elif isinstance(plain, list) and plain:
        tag, *rest = plain
        yield tag
        if tag in _MAPPINGS:
            rest = [part for pair in rest for part in pair]
        if tag not in ("array", "scalar", "zone", "datetime", "time"):
            for part in rest:
                yield from tags_in(part)


def _with_further(values: dict[str, Any]) -> dict[str, Any]:
    """Return fields with what a pydantic model holds under other names among them."""
    found: dict[str, Any] = {}
    for name, item in values.items():
        if name == EXTRA:
            found |= item
        elif name != FIELDS_SET:
            found[name] = item
    return found


def _zone(plain: Any) -> Any:
    if isinstance(plain, str):
        return ZoneInfo(plain)
    offset, *name = plain
    if not offset and not name:
        return UTC
    return timezone(timedelta(microseconds=offset), *map(_text, name))


def _moment(cls: Any) -> Callable[..., Any]:
    def read(text: str, zone: Any = None, fold: int = 0) -> Any:
        value = cls.fromisoformat(text).replace(fold=fold)
        return value if zone is None else value.replace(tzinfo=_zone(zone))

    return read


def _int(plain: Any) -> int:
    return int(plain[1], 16) if isinstance(plain, list) else int(plain)


def _float(plain: Any) -> float:
    return _special(plain[1]) if isinstance(plain, list) else float(plain)


def _special(text: str) -> float:
    if text in ("inf", "-inf", "nan"):
        return float(text)
    (value,) = struct.unpack(">d", bytes.fromhex(text))
    return float(value)


def _text(plain: Any) -> str:
    return _lone(plain[1]) if isinstance(plain, list) else str(plain)


def _lone(data: str) -> str:
    return base64.b64decode(data).decode("utf-8", "surrogatepass")


def _path(name: str, text: Any) -> PurePath:
    classes = (PurePosixPath, PureWindowsPath, PosixPath, WindowsPath)
    return {cls.__name__: cls for cls in classes}[name](_text(text))


def _dtype(plain: Any) -> np.dtype[Any]:
    if isinstance(plain, str):
        return np.dtype(plain)
    if isinstance(plain, list):
        return np.dtype((_dtype(plain[0]), tuple(plain[1])))
    formats = [_dtype(part) for part in plain["formats"]]
    described: Any = {**plain, "formats": formats}
    is_aligned = described.pop("aligned")
    made: np.dtype[Any] = np.dtype(described, align=is_aligned)
    return made


def _array(dtype: Any, shape: list[int], data: str) -> Any:
    return np.frombuffer(bytearray(base64.b64decode(data)), _dtype(dtype)).reshape(shape)


def _scalar(dtype: Any, data: str) -> Any:
    content = base64.b64decode(data)
    if dtype == "str":
        return np.str_(content.decode("utf-32-le", "surrogatepass"))
    if dtype == "bytes":
        return np.bytes_(content)
    return np.frombuffer(content, _dtype(dtype))[0]


_TAGS: dict[str, Callable[..., Any]] = {
    "int": lambda text: int(text, 16),
    "float": _special,
    "str": _lone,
    "complex": lambda real, imaginary: complex(_float(real), _float(imaginary)),
    "bytes": base64.b64decode,
    "bytearray": lambda data: bytearray(base64.b64decode(data)),
    "date": date.fromisoformat,
    "time": _moment(time),
    "datetime": _moment(datetime),
    "timedelta": timedelta,
    "zone": _zone,
    "decimal": Decimal,
    "fraction": lambda upper, lower: Fraction(_int(upper), _int(lower)),
    "uuid": uuid.UUID,
    "ip4": IPv4Address,
    "ip6": IPv6Address,
    "ip4 network": IPv4Network,
    "ip6 network": IPv6Network,
    "ip4 interface": IPv4Interface,
    "ip6 interface": IPv6Interface,
    "path": _path,
    "range": lambda *numbers: range(*map(_int, numbers)),
    "array": _array,
    "scalar": _scalar,
}
_SEQUENCES: dict[str, Any] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}
_MAPPINGS: dict[str, Any] = {"dict": dict, "ordered dict": OrderedDict, "counter": Counter}


#: Every tag that the reader knows.
TAGS = {*_TAGS, *_SEQUENCES, *_MAPPINGS, "deque", "record", "enum", "enum name"}


# -- natural keys ----------------------------------------------------------------------------


def key_of(entry: Mapping[str, Any], record: Mapping[str, Any]) -> Any:
    """Return the natural key of a record, from the key's entry in the catalogue."""
    for names in (entry["fields"], *entry.get("former", [])):
        if all(name in record for name in names):
            values = tuple(record[name] for name in names)
            return values if len(values) > 1 else values[0]
    raise Unreadable("a record without its key")


def key_numbers(
    key: Any, seed: int, digest: Callable[[bytes, int], int] = xxhash.xxh3_64_intdigest
) -> list[int]:
    """Return the sixteen numbers under which a key may be, the first one first."""
    tag, content = _key_bytes(key)
    numbers = []
    for displaced in range(16):
        found = digest(content, seed * 256 + 16 * displaced + tag)
        numbers.append(found % 2**63 or 1)
    return numbers


def _key_bytes(key: Any) -> tuple[int, bytes]:
    match key:
        case None:
            return 1, b""
        case bool():
            return 2, b"1" if key else b"0"
        case int():
            return 3, format(key, "x").encode()
        case str():
            return 4, key.encode("utf-8", "surrogatepass")
        case bytes():
            return 5, key
        case datetime():
            clock = key.replace(tzinfo=None).isoformat()
            return 7, f"{clock} {key.fold} {_key_zone(key.tzinfo)}".encode("utf-8", "surrogatepass")
        case date():
            return 6, key.isoformat().encode()
        case uuid.UUID():
            return 8, key.bytes
        case tuple():
            parts = [_key_bytes(part) for part in key]
            return 9, b"".join(
                bytes([tag]) + format(len(content), "x").encode() + b":" + content
                for tag, content in parts
            )
    raise Unreadable(f"a key of type {type(key)}")


def _key_zone(zone: Any) -> str:
    if zone is None:
        return ""
    if zone is UTC:
        return "utc"
    if isinstance(zone, ZoneInfo):
        return f"zone {zone.key}"
    microseconds = zone.utcoffset(None) // timedelta(microseconds=1)
    name = zone.tzname(None)
    is_named = repr(zone).count("'") or repr(zone).count('"')
    return f"offset {microseconds}{f' {name}' if is_named else ''}"
