"""Reader: a few fields of a payload, without making the record.

msgspec skips what nobody asks for faster than it makes objects of it: 40 ns for seven fields where
decoding them takes 250 (``timeit``). Values come out of the same types and the same conversions as
those of the whole record, so that they are the same.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from memdb.serializers._plan import Plan
from memdb.serializers._shape import Shape
from memdb.serializers._stack import pass_on

Decoder = Callable[[Any], Callable[[bytes], Any]]


class FieldReader(NamedTuple):
    """What decodes some fields of payloads of the fast tier, and nothing else of them.

    Both raise, anything, for a payload that decoding as a whole may still be able to read, or has
    the right error for. A payload of the exact tier is none for it, and is not always refused.

    Attributes:
        one: From a payload to the value, or to a tuple where not just one field was asked for.
        many: From payloads to a list of the same.

    Threads: any number of threads may use a reader at once.
    """

    one: Callable[[bytes], Any]
    many: Callable[[Iterable[bytes]], list[Any]]


def record_reader(
    names: Sequence[str],
    plans: Mapping[str, Plan],
    namespace: Mapping[str, Any],
    decoder: Decoder,
    positions: Sequence[str] | None,
) -> FieldReader:
    """Return the reader of some fields of a record class, whose decoder msgspec could make.

    Args:
        names: Of fields that are in the payload.
        plans: For each field how the whole record is decoded.
        namespace: The names that the plans use.
        decoder: From a type to a function that unpacks it.
        positions: All fields of a payload, where they are told apart by their position.
    """
    wires = {name: plans[name].wire for name in names}
    prefix = b""
    if positions is None:
        mirror = _by_name(wires)
    else:
        prefix, mirror = _by_position(wires, positions)
    values = []
    for number, name in enumerate(names):
        convert = plans[name].unpack
        values.append(convert(f"w.f{number}") if convert else f"w.f{number}")
    return _reader(values, {**namespace, "unpack": decoder(mirror)}, prefix)


def dict_reader(names: Sequence[str], decoder: Decoder, absent: object) -> FieldReader | None:
    """Return the reader of some keys of plain dicts, with what stands for one that is not there."""
    try:
        unpack = decoder(_by_name(dict.fromkeys(names, Any), absent))
    except Exception as error:
        pass_on(error)
        # A key that is no name for msgspec, as it has a quotation mark in it.
        return None
    return _reader([f"w.f{number}" for number in range(len(names))], {"unpack": unpack}, b"")


def _reader(values: list[str], namespace: dict[str, Any], prefix: bytes) -> FieldReader:
    """Compile the functions that give the values, from the sources of these."""
    value = values[0] if len(values) == 1 else f"({''.join(f'{each}, ' for each in values)})"
    data = "prefix + p" if prefix else "p"
    source = (
        "def one(p):\n"
        f"    w = unpack({data})\n"
        f"    return {value}\n"
        "def many(payloads):\n"
        f"    return [{value} for p in payloads for w in (unpack({data}),)]\n"
    )
    made = {**namespace, "prefix": prefix}
    exec(compile(source, "<memdb reader>", "exec"), made)
    return FieldReader(made["one"], made["many"])


def _by_name(wires: Mapping[str, Any], *default: object) -> Any:
    """Return a Struct of the wanted fields, with a default if there is one; the rest is skipped."""
    definitions: list[Any] = [
        (f"f{number}", wire, *default) for number, wire in enumerate(wires.values())
    ]
    rename = {f"f{number}": name for number, name in enumerate(wires)}
    return msgspec.defstruct("Fields", definitions, rename=rename, gc=False)


def _by_position(wires: Mapping[str, Any], positions: Sequence[str]) -> tuple[bytes, Any]:
    """Return a Struct of the wanted fields, and what must stand before a payload to decode it.

    msgspec skips what follows the fields of a Struct that is like an array, not what precedes. So
    the prefix wraps the leading fields into an array of their own, which is decoded as a Struct
    without any: behind its header, the payload's own header is the content of a byte string.

        payload         98       f0 f1 f2 f3 ... f7
        to read f3      96 94 C4 01 98  f0 f1 f2  f3 ... f7
    """
    first = min([positions.index(name) for name in wires], default=0)
    numbers = {name: number for number, name in enumerate(wires)}
    wanted = positions[first : max([positions.index(name) + 1 for name in wires], default=0)]
    definitions: list[Any] = [
        (f"f{numbers[name]}", wires[name]) if name in wires else (f"skipped{number}", msgspec.Raw)
        for number, name in enumerate(wanted)
    ]
    prefix = b""
    if first:
        definitions.insert(0, ("leading", _NOTHING))
        own_header = len(_array_header(len(positions)))
        prefix = (
            _array_header(1 + len(positions) - first)
            + _array_header(1 + first)
            + bytes([_BYTES_HEADER, own_header])
        )
    return prefix, msgspec.defstruct("Fields", definitions, array_like=True, gc=False)


_NOTHING = msgspec.defstruct("Nothing", [], array_like=True, gc=False)
_BYTES_HEADER = 0xC4


def _array_header(count: int) -> bytes:
    """Return how MessagePack begins an array, as msgspec writes it."""
    header: bytes = msgspec.msgpack.encode([None] * count)[:-count]
    return header


def has_plain_fields(shape: Shape, names: Iterable[str]) -> bool:
    """Whether what a record gives for the fields is nothing but what decoding put into it."""
    cls: Any = shape.cls
    if cls.__getattribute__ not in _PLAIN_ACCESS:
        return False
    order = [field.name for field in shape.fields]
    for name in names:
        found = inspect.getattr_static(cls, name, None)
        if shape.kind == "namedtuple":
            # One that is derived may call another item so.
            if type(found) is not _ITEM or found.__reduce__()[1][0] != order.index(name):
                return False
        elif type(found) is not types.MemberDescriptorType and hasattr(type(found), "__set__"):
            # A property, or anything else that may have a value of its own.
            return False
    return True


_PLAIN_ACCESS = (object.__getattribute__, tuple.__getattribute__, msgspec.Struct.__getattribute__)


class _Sample(NamedTuple):
    item: None = None


_ITEM = type(inspect.getattr_static(_Sample, "item"))
