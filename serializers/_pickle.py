"""Pickle: any value that pickle can hold, for files that nobody else can write.

**Danger.** Reading a pickle can run any code: whoever can change the file, or make a program open
one of theirs, controls the process. Use it only by name, for data of your own, and prefer to
convert the one value that the other serializers refuse.
"""

from __future__ import annotations

import enum
import pickle
import typing
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, time, timezone
from functools import partial
from typing import Any, Literal, NoReturn
from zoneinfo import ZoneInfo

from memdb.errors import DecodeError, EncodeError, RecordTypeError
from memdb.serializers._build import Builder, full_name, get_attribute
from memdb.serializers._codec import GeneratedCodec
from memdb.serializers._generate import compiled, wrong_class
from memdb.serializers._pickled import changed_member, comes_back, completer, forgetter, lost_in
from memdb.serializers._plan import attribute
from memdb.serializers._protocol import Codec
from memdb.serializers._pydantic import unusual_state
from memdb.serializers._shape import IMMUTABLE, FieldShape, Shape, reachable, strip
from memdb.serializers._stack import pass_on
from memdb.serializers._writer import understanding

# Do not change: part of the file format.
PROTOCOL = 5


class PickleSerializer:
    """Pickles a dict of the record's fields by name; the record's own class is not in the bytes.

    What comes back is what the values' own pickling support makes of them. Reading runs code that
    the file names: see the module's warning.
    """

    name = "pickle"

    def codec(self, shape: Shape, writer: Mapping[str, Any] | None = None) -> Codec:
        """Return a codec for the class. Fields are by name, so the writer schema matters little."""
        with understanding(writer):
            return self._codec(shape, writer)

    def _codec(self, shape: Shape, writer: Mapping[str, Any] | None) -> Codec:
        """Return a codec, whatever the schema makes go wrong."""
        is_dict = shape.kind == "dict"
        build = None if is_dict else Builder(shape, is_root=True)
        encode = _dict_encoder(shape) if is_dict else _encoder(shape)
        read = self.reader(shape, writer)
        forget = None if writer is None else forgetter(shape, self, writer)
        written = [] if writer is None else [name for name, _ in writer["fields"]]
        tag = writer.get("tag") if is_dict and writer is not None else None
        # A typed record's own field of that name goes before the identity, which it has not.
        key = None if shape.identity in written else shape.identity

        def decode(data: bytes, identity: int) -> Any:
            values = read(data)
            if build is None:
                if tag is not None:
                    values = {"__class__": tag, **values}
                if key is not None:
                    values[key] = identity
                return values
            try:
                if forget is not None:
                    forget(values)
                return build(values, identity)
            except Exception as error:
                pass_on(error, DecodeError)
                raise _wrong(shape.name, error) from error

        return GeneratedCodec(encode, decode)

    def reader(
        self, shape: Shape, writer: Mapping[str, Any] | None = None
    ) -> Callable[[bytes], dict[str, Any]]:
        """Return what gives the values by field name of a writer's payloads.

        Nested records are as their classes are now, as far as that is possible. It raises
        `DecodeError`.
        """
        complete = None if writer is None else completer(shape, self, writer)
        if complete is None:
            return partial(_values_of, shape.name)

        def read(data: bytes) -> dict[str, Any]:
            values = _values_of(shape.name, data)
            try:
                complete(values)
            except Exception as error:
                pass_on(error, DecodeError)
                raise _wrong(shape.name, error) from error
            return values

        return read


def _dict_encoder(shape: Shape) -> Callable[[Any], bytes]:
    """Return what pickles dicts, the key of the identity left out."""
    sure = _sure_types(shape)

    def encode(record: Any) -> bytes:
        if type(record) is not dict:
            raise RecordTypeError(wrong_class(record, shape))
        values = {key: value for key, value in record.items() if key != shape.identity}
        data = _pickle(values)
        is_sure = all([type(v) in sure or _is_sure_moment(v) for v in values.values()])
        return data if is_sure else _checked(values, data)

    return encode


def _encoder(shape: Shape) -> Callable[[Any], bytes]:
    """Generate what pickles the records of a class.

    Generated, the check whether pickle gives the values back costs no more than it saves.
    """
    fields = shape.payload_fields
    source = _encoder_source(fields, is_model=shape.kind == "pydantic")

    def refuse(record: object) -> NoReturn:
        raise RecordTypeError(wrong_class(record, shape))

    def name_missing(record: object) -> None:
        for field in fields:
            get_attribute(record, field.name)

    namespace = {
        "cls": shape.cls,
        "refuse": refuse,
        "name_missing": name_missing,
        "state_of": unusual_state,
        "identity": shape.identity,
        "pickle": _pickle,
        "sure": _sure_types(shape),
        "is_moment": _is_sure_moment,
        "checked": _checked,
    }
    return compiled(source, "encode", namespace)


def _encoder_source(fields: Sequence[FieldShape], *, is_model: bool) -> str:
    """Return the source of ``encode`` for records with these fields."""
    reads = [f"        v{i} = {attribute('r', field.name)}" for i, field in enumerate(fields)]
    pairs = ", ".join(f"{field.name!r}: v{i}" for i, field in enumerate(fields))
    checks = [f"(type(v{i}) in sure or is_moment(v{i}))" for i in range(len(fields))]
    return "\n".join(
        [
            "def encode(r):",
            "    if type(r) is not cls:",
            "        refuse(r)",
            "    try:",
            *(reads or ["        pass"]),
            "    except AttributeError:",
            "        name_missing(r)",
            f"    values = {{{pairs}}}",
            *(["    state = state_of(r, identity)", "    values |= state"] if is_model else []),
            "    data = pickle(values)",
            f"    if {' and '.join([*checks, 'not state' if is_model else 'True'])}:",
            "        return data",
            "    return checked(values, data)",
        ]
    )


def _pickle(values: dict[Any, Any]) -> bytes:
    """Return values as a pickle, or refuse the first that is none."""
    try:
        return pickle.dumps(values, PROTOCOL)
    except Exception as error:
        pass_on(error)
        _refuse(values, error)


def _checked(values: Mapping[Any, Any], data: bytes) -> bytes:
    """Return a pickle that gives back what it was made of.

    Raises:
        EncodeError: It does not.
    """
    # Without this opcode there is nothing in it but plain data.
    if b"\x93" not in data:
        return data
    try:
        pickle.loads(data)
    except Exception as error:
        pass_on(error)
        path, why = lost_in(data) or ("", f"it raises {type(error).__name__}")
        raise EncodeError(
            f"{path or 'the record'}: what pickle makes of the value can't be unpickled: {why}. "
            f"{_ADVICE}",
            field=path,
        ) from error
    changed = changed_member(values)
    if changed is not None:
        raise EncodeError(
            f"{changed}: pickle looks the member of an Enum class up by its value, and this value "
            f"leads to another one. {_ADVICE}",
            field=changed,
        )
    return data


_ADVICE = "Convert the value, or mark its class with memdb.by_name if it is an Enum class."


# What pickle is known to give back, datetimes with one of these zones too.
_SURE: frozenset[type] = IMMUTABLE | {bytearray, timezone, ZoneInfo}
_MOMENTS, _ZONES = {datetime, time}, {type(None), timezone, ZoneInfo}


def _is_sure_moment(value: Any) -> bool:
    return type(value) in _MOMENTS and type(value.tzinfo) in _ZONES


def _sure_types(shape: Shape) -> frozenset[type]:
    """Return the types of values that pickle gives back without doubt.

    Annotations are trusted for what is inside lists, tuples, dicts and sets.
    """
    members: set[type] = {
        cls
        for cls in reachable(shape).values()
        if issubclass(cls, enum.Enum) and all(map(comes_back, cls.__members__.values()))
    }
    leaves = _SURE | members
    sure = leaves - _MOMENTS
    if shape.fields and all(_has_only(field.annotation, leaves) for field in shape.payload_fields):
        sure |= {list, tuple, dict, set, frozenset}
    return sure


def _has_only(annotation: Any, leaves: frozenset[type]) -> bool:
    """Whether an annotation leads to nothing but some types and builtin containers of them."""
    annotation = strip(annotation)
    parts = typing.get_args(annotation)
    if typing.get_origin(annotation) is Literal:
        return all(type(part) in leaves for part in parts)
    if parts:
        return all(part is Ellipsis or _has_only(part, leaves) for part in parts)
    return annotation is None or annotation in leaves


def _values_of(name: str, data: bytes) -> dict[str, Any]:
    """Return the values by field name that a payload of the class of this name holds.

    Raises:
        DecodeError: It is no such pickle, or holds what can't be made any more.
    """
    try:
        values = pickle.loads(data)
        if type(values) is not dict:
            raise TypeError("the pickle holds no dict of fields")
    except Exception as error:
        pass_on(error)
        lost = lost_in(data)
        if lost is None:
            raise _wrong(name, error) from error
        path, why = lost
        raise DecodeError(f"{path}: {why}.", field=path) from error
    return values


def _wrong(name: str, error: Exception) -> DecodeError:
    return DecodeError(
        f"the payload can't be unpickled as {name} ({type(error).__name__}). "
        "A class that it names was moved or removed, or it is no pickle."
    )


def _refuse(values: dict[Any, Any], error: Exception) -> NoReturn:
    """Raise for the first value that can't be pickled by itself."""
    for name, value in values.items():
        try:
            pickle.dumps(value, PROTOCOL)
        except Exception:
            raise EncodeError(
                f"{name}: can't pickle a value of type {full_name(type(value))} "
                f"({type(error).__name__}). Convert it to what pickle supports.",
                field=str(name),
            ) from error
    raise EncodeError(
        f"the record can't be pickled ({type(error).__name__}). Convert its values to what pickle "
        "supports."
    ) from error
