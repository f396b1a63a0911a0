"""Evolve: read the records of any form that a class has had as records of the class of now.

What a record goes through, as far as it needs to: stored bytes; a plain dict in the writer's own
field names and types; `upgrades`, or `upgrade`; `renames`; `converters` and the conversions of
`memdb.serializers._convert`; defaults; the record. Most writers need only defaults, and some need
renames: for these there is a generated decoder, and the way over the dict is taken only if that
refuses a record.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from memdb.errors import ConfigError, DecodeError
from memdb.serializers._build import Builder, Trail
from memdb.serializers._compare import has_classes, is_fast, is_same_form
from memdb.serializers._convert import Converter
from memdb.serializers._fit import Fit, fit_of
from memdb.serializers._generate import GeneratedSerializer
from memdb.serializers._pickle import PickleSerializer
from memdb.serializers._pickled import forgetter
from memdb.serializers._plan import mentions_any
from memdb.serializers._protocol import Serializer
from memdb.serializers._pydantic import (
    EXTRA,
    FIELDS_SET,
    STATE_NAMES,
    allows_extra,
    take_declared,
)
from memdb.serializers._shape import (
    IMMUTABLE,
    FieldShape,
    Shape,
    reachable,
    shape_of,
)
from memdb.serializers._stack import pass_on
from memdb.serializers._writer import (
    as_dicts,
    as_plain,
    fields_of_writer,
    shape_of_writer,
    understanding,
    without_state,
    writer_schema,
)

Upgrade = Callable[[dict[str, Any]], dict[str, Any] | None]
Decode = Callable[[bytes, int], Any]


@dataclass(frozen=True, slots=True)
class Evolution:
    """What a program declares of how a class has changed.

    Attributes:
        version: The version of the class; only functions in ``upgrades`` need one.
        renames: Old name of a field -> the name that it has now.
        converters: Name of a field as it is now -> function of the stored value (nested records as
            dicts, Enum members as their values), for records that hold another type of the field,
            and for values that don't convert by themselves.
        upgrade: A function of a record as a dict, which it changes in place or returns, for
            records that were written by another form of the class.
        upgrades: The same for each version from 2 on: called in order for records of lower ones.
    """

    version: int = 1
    renames: Mapping[str, str] = field(default_factory=dict)
    converters: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    upgrade: Upgrade | None = None
    upgrades: Mapping[int, Upgrade] = field(default_factory=dict)

    def validate(self, *shapes: Shape) -> None:
        """Check the declarations, and against the classes of the collection if they are given.

        Raises:
            ConfigError: One is of a wrong type, contradicts another, or names no field.
        """
        if type(self.version) is not int or self.version < 1:
            raise ConfigError(f"version must be an int from 1 on, not {self.version!r}.")
        _check_mapping("renames", self.renames, str, lambda v: type(v) is str, "a field's name")
        _check_mapping("converters", self.converters, str, callable, "a function")
        _check_mapping("upgrades", self.upgrades, int, callable, "a function")
        if self.upgrade is not None and not callable(self.upgrade):
            raise ConfigError(f"upgrade must be a function, not {self.upgrade!r}.")
        if self.upgrade is not None and self.upgrades:
            raise ConfigError("upgrade and upgrades contradict each other. Declare one of them.")
        for version in self.upgrades:
            if not 2 <= version <= self.version:
                raise ConfigError(
                    f"upgrades has a function for version {version}, and the class is of version "
                    f"{self.version}. Each key is the version that its function leads to: from 2 "
                    "to version=."
                )
        for old in self.renames:
            if self.new_name(old) == old:
                raise ConfigError(f"renames leads from {old!r} back to it. Leave it out.")
        classes = [shape for shape in shapes if shape.kind != "dict" or shape.fields]
        if classes:
            self._check_names(classes)
        elif shapes and self.converters:
            raise ConfigError(
                "converters are for the fields of a class; plain dicts declare no types. Use "
                "upgrade= or upgrades=."
            )

    def _check_names(self, shapes: list[Shape]) -> None:
        names = {one.name for shape in shapes for one in shape.payload_fields}
        for old in self.renames:
            new = self.new_name(old)
            if new not in names:
                raise ConfigError(
                    f"renames has {old!r}: {new!r}, and no class has a stored field {new!r}."
                )
            for shape in shapes:
                own = {one.name for one in shape.fields}
                if old in own and new in own:
                    raise ConfigError(
                        f"renames has {old!r}: {new!r}, and {shape.name} has a field {old!r} "
                        "too. What was stored under a name that means something else now, "
                        "upgrade= can tell apart."
                    )
        for name in self.converters:
            if name not in names:
                raise ConfigError(
                    f"converters has {name!r}, and no class has a stored field {name!r}."
                )

    def new_name(self, name: str) -> str:
        """Return what a field is called now; the same name if it leads in a circle."""
        found = name
        for _ in self.renames:
            if found not in self.renames:
                return found
            found = self.renames[found]
        return name if found in self.renames else found

    def functions_for(
        self, writer: Mapping[str, Any], *, is_same: bool
    ) -> list[tuple[str, Upgrade]]:
        """Return the functions that records of a writer go through, with what to call them.

        Args:
            writer: The schema that they were written with.
            is_same: Whether it is of the same form as the class of now.
        """
        written = writer.get("version", 1)
        if self.upgrade is not None:
            is_older = written < self.version or (written == self.version and not is_same)
            return [(f"upgrade={_name(self.upgrade)}", self.upgrade)] if is_older else []
        return [
            (f"upgrades[{version}]={_name(function)}", function)
            for version, function in sorted(self.upgrades.items())
            if written < version <= self.version
        ]


def _check_mapping(
    name: str, found: Any, key: type, is_value: Callable[[Any], bool], what: str
) -> None:
    if not isinstance(found, Mapping):
        raise ConfigError(f"{name} must be a dict, not {found!r}.")
    for one, value in found.items():
        if type(one) is not key or not is_value(value):
            raise ConfigError(
                f"{name} must lead from {'a version' if key is int else 'a field name'} to {what};"
                f" it has {one!r}: {value!r}."
            )


def _name(function: Any) -> str:
    return str(getattr(function, "__qualname__", type(function).__name__))


# -- decoders ----------------------------------------------------------------------------------


def make_decoder(
    serializer: Serializer, shape: Shape, writer: Mapping[str, Any], evolution: Evolution
) -> Decode:
    """Return the decoder for the bytes of a writer.

    Args:
        serializer: What they were written with, a user's own too.
        shape: The class as it is now.
        writer: The schema that they were written with.
        evolution: What the program declares.

    Returns:
        A function like ``Codec.decode``.

    Raises:
        DecodeError: The schema is none.
    """
    with understanding(writer):
        return _decoder(serializer, shape, writer, evolution)


def _decoder(
    serializer: Serializer, shape: Shape, writer: Mapping[str, Any], evolution: Evolution
) -> Decode:
    """Return the fastest decoder that does all that is declared and needed."""
    ours = writer_schema(shape, serializer)
    is_same = is_same_form(ours, writer)
    functions = evolution.functions_for(writer, is_same=is_same)
    renames = renames_for(shape, writer, evolution)
    carried = carried_names(shape, writer, evolution)
    if shape.kind == "dict":
        is_declared = bool(functions or renames or carried)
        if not is_declared and (is_same or not shape.fields):
            return serializer.codec(shape, writer).decode
        return _Path(serializer, shape, ours, writer, evolution, functions).decode
    before = {evolution.new_name(name): text for name, text in writer["fields"]}
    retyped = [n for n, text in ours["fields"] if before.get(n, text) != text]
    if not isinstance(serializer, GeneratedSerializer):
        is_declared = bool(functions or renames) or any(
            name in evolution.converters for name in retyped
        )
        is_ours = isinstance(serializer, PickleSerializer)
        if is_declared or (is_ours and (retyped or writer["kind"] == "dict")):
            return _Path(serializer, shape, ours, writer, evolution, functions).decode
        decode = serializer.codec(shape, writer).decode
        if isinstance(serializer, PickleSerializer) and carried:
            path = _Path(serializer, shape, ours, writer, evolution, functions)
            return _unless_carried(decode, carried, path.decode, serializer.reader(shape, writer))
        return decode
    path = _Path(serializer, shape, ours, writer, evolution, functions)
    if (
        functions
        or writer["kind"] == "dict"
        or any(name in evolution.converters for name in retyped)
        or not is_fast(path.world, shape_of_writer(ours, identity=None), renames)
    ):
        return path.decode
    return serializer.decoder(shape, writer, renames, path.decode_after, carried, path.decode)


def renames_for(shape: Shape, writer: Mapping[str, Any], evolution: Evolution) -> dict[str, str]:
    """Return the renames that concern a writer."""
    if writer["kind"] == "dict" and not writer["fields"]:
        return {old: evolution.new_name(old) for old in evolution.renames}
    names = {name for name, _ in writer["fields"]}
    own = {one.name for one in shape.payload_fields}
    renames: dict[str, str] = {}
    for old in evolution.renames:
        new = evolution.new_name(old)
        if old in names and new not in names and (new in own or not shape.fields):
            renames.setdefault(old, new)
    return renames


def carried_names(shape: Shape, writer: Mapping[str, Any], evolution: Evolution) -> frozenset[str]:
    """Return the names that a program declares something of and the writer's schema lacks.

    An older program may have carried fields of a newer one over into its payloads, so these have
    to be looked at one by one.
    """
    written = {name for name, _ in writer["fields"]}
    own = {one.name for one in shape.payload_fields}
    renamed = {old for old in evolution.renames if not own or evolution.new_name(old) in own}
    return frozenset((renamed | evolution.converters.keys() & own) - written)


def _unless_carried(
    decode: Decode, carried: frozenset[str], decode_carried: Decode, read: Callable[[bytes], Any]
) -> Decode:
    """Return a decoder of pickles that takes another for those with certain fields."""
    marks = [name.encode("utf-8", "surrogatepass") for name in carried]

    def decode_either(data: bytes, identity: int) -> Any:
        # Pickled names are UTF-8. Mostly this tells, without unpickling twice.
        if any(mark in data for mark in marks) and not carried.isdisjoint(read(data)):
            return decode_carried(data, identity)
        return decode(data, identity)

    return decode_either


# Stands for the annotation of a value that was carried over under an old name.
_CARRIED = object()


class _Path:
    """The way from stored bytes to a record over a plain dict."""

    def __init__(
        self,
        serializer: Serializer,
        shape: Shape,
        ours: Mapping[str, Any],
        writer: Mapping[str, Any],
        evolution: Evolution,
        functions: list[tuple[str, Upgrade]],
    ) -> None:
        self._shape = shape
        self._evolution = evolution
        self._functions = functions
        self._tag = writer.get("tag")
        self._is_dict = writer["kind"] == "dict"
        self._converter = Converter(shape)
        self._build = None if shape.kind == "dict" else Builder(shape, is_root=True)
        self._forget: Callable[[Mapping[str, Any]], None] | None = None
        described = writer
        if "records" not in writer and "enums" not in writer:
            # A file of before they were described: taken to be as they are now.
            described = {**{key: ours.get(key, {}) for key in ("records", "enums")}, **writer}
        self.world = shape_of_writer(described, identity=None)
        fields = self.world.fields
        if isinstance(serializer, PickleSerializer):
            # Its nested records are of classes of now.
            fields = fields_of_writer(described, reachable(shape))
            self._forget = forgetter(shape, serializer, writer)
        self._read = self._reader(serializer, writer, described)
        self._written = {one.name: one.annotation for one in fields}
        if not self._is_dict:
            # What a payload holds beside its writer's fields a newer program has put there.
            self._written = {
                one.name: one.annotation for one in shape.payload_fields
            } | self._written
        self._stored_as = dict.fromkeys(evolution.renames, _CARRIED) | self._written
        self._with_classes = {
            one.name
            for one in shape.payload_fields
            if one.name in evolution.converters and reachable(replace(shape, fields=(one,)))
        }
        texts = {evolution.new_name(name): text for name, text in writer["fields"]}
        now = dict(ours["fields"])
        self._names = set(texts)
        self._retyped = {name for name, text in texts.items() if now.get(name, text) != text}
        # Values of these are of now as they were stored.
        self._settled = {
            evolution.new_name(one.name): one.annotation
            for one in fields
            if evolution.new_name(one.name) not in self._retyped
            and not has_classes(one.annotation)
            and not mentions_any(one.annotation)
        }

    def _reader(
        self, serializer: Serializer, writer: Mapping[str, Any], described: Mapping[str, Any]
    ) -> Decode:
        """Return what reads the values of a payload by name, in the writer's own types."""
        if isinstance(serializer, GeneratedSerializer):
            return serializer.world_decoder(self.world, described)
        if isinstance(serializer, PickleSerializer):
            read = serializer.reader(self._shape, writer)
            return lambda data, identity: read(data)
        return serializer.codec(replace(shape_of(None), identity=None), writer).decode

    def decode(self, data: bytes, identity: int) -> Any:
        """Return the record of a payload.

        Raises:
            DecodeError: It can't be made into the class of now.
        """
        return self._finish(self._read(data, identity), identity)

    def decode_after(self, data: bytes, identity: int, error: DecodeError) -> Any:
        """Return the record of a payload that the generated decoder has refused.

        Raises:
            DecodeError: That of the decoder if the payload itself is wrong, else one that says
                more.
        """
        try:
            stored = self._read(data, identity)
        except DecodeError:
            raise error from error.__cause__
        return self._finish(stored, identity)

    def _finish(self, stored: Any, identity: int) -> Any:
        if type(stored) is not dict:
            raise DecodeError(
                f"the payload does not come back as a dict, but as {type(stored).__qualname__}. "
                "Its serializer can't read records of a class without the class."
            )
        try:
            if self._functions:
                values = self._upgraded(stored, identity)
            else:
                values = self._as_stored(stored)
            values = self._renamed(values)
            if self._build is None:
                return self._dict(values, identity)
            return self._record(values, identity)
        except Exception as error:
            pass_on(error, DecodeError)
            raise DecodeError(
                f"the stored record can't be made into {self._shape.name} "
                f"({type(error).__name__}). Change it in a function declared as upgrade= or in "
                "upgrades=."
            ) from error

    def _as_stored(self, stored: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
        """Return the values with the annotations that they were stored under."""
        if self._build is None:
            stored = dict(without_state(stored.items()))
        elif EXTRA in stored:
            take_declared(stored, {one.name for one in self._shape.payload_fields})
        return {name: (value, self._stored_as.get(name, Any)) for name, value in stored.items()}

    # -- upgrades

    def _upgraded(self, stored: dict[str, Any], identity: int) -> dict[str, tuple[Any, Any]]:
        """Return the values after the program's functions, with what is known of their types."""
        values = dict(without_state(stored.items()))
        given = {name: as_plain(value) for name, value in values.items()}
        record = dict(given)
        if self._shape.identity is not None:
            record.setdefault(self._shape.identity, identity)
        if self._tag is not None:
            record["__class__"] = self._tag
        for label, function in self._functions:
            record = self._called(label, function, record)
        if self._shape.kind != "dict" or self._shape.fields:
            record.pop("__class__", None)
        after: dict[str, tuple[Any, Any]] = {}
        changed = set()
        for name, value in record.items():
            if name in given and _is_untouched(value, given[name], values[name]):
                after[name] = values[name], self._stored_as.get(name, Any)
            else:
                after[name] = _own(value), Any
                changed.add(name)
        if FIELDS_SET in stored:
            # What a function has set counts as set.
            was_set = changed.union(stored[FIELDS_SET])
            after[FIELDS_SET] = [name for name in after if name in was_set], Any
        return after

    @staticmethod
    def _called(label: str, function: Upgrade, record: dict[str, Any]) -> dict[str, Any]:
        try:
            result = function(record)
        except Exception as error:
            pass_on(error)
            raise DecodeError(
                f"{label} raised {type(error).__name__} for a stored record. It must take every "
                "record of a lower version, or of another form of the class."
            ) from error
        if result is None:
            return record
        if not isinstance(result, dict):
            raise DecodeError(
                f"{label} returned a value of type {type(result).__qualname__}. It must return "
                "the dict of the record's fields, or change the one it is given and return None."
            )
        return result

    def _renamed(self, values: dict[str, tuple[Any, Any]]) -> dict[str, tuple[Any, Any]]:
        for old in self._evolution.renames:
            new = self._evolution.new_name(old)
            if old in values and new not in values and self._is_name(new):
                values = {new if name == old else name: item for name, item in values.items()}
        if FIELDS_SET in values and self._evolution.renames:
            names, written = values[FIELDS_SET]
            values[FIELDS_SET] = [self._evolution.new_name(name) for name in names], written
        return values

    def _is_name(self, name: str) -> bool:
        fields = self._shape.payload_fields
        return not fields or any(one.name == name for one in fields)

    # -- the record

    def _record(self, values: dict[str, tuple[Any, Any]], identity: int) -> Any:
        assert self._build is not None
        made: dict[str, Any] = {}
        if self._is_dict:
            # What is in a dict was set.
            values.setdefault(FIELDS_SET, ([*values], Any))
        for one in self._shape.payload_fields:
            trail: Trail = (None, f".{one.name}")
            if one.name in values:
                value, written = values.pop(one.name)
                made[one.name] = self._converted(one, value, written, trail)
            else:
                made[one.name] = self._converter.default(one, self._shape.name, trail)
        if self._shape.kind == "pydantic":
            made |= self._state(values)
        if self._forget is not None:
            self._forget(made)
        return self._build(made, identity)

    def _state(self, values: dict[str, tuple[Any, Any]]) -> dict[str, Any]:
        """Return what a model holds beside its fields, of what is left of the stored record."""
        own = {one.name for one in self._shape.fields}
        # Fields that the class had and has no more are no further values.
        gone = {self._evolution.new_name(name) for name in self._written} - own
        if self._functions or self._is_dict:
            known = {*self._written, *gone, *STATE_NAMES, self._shape.identity}
            extra = {name: value for name, (value, _) in values.items() if name not in known}
        else:
            extra, _ = values.get(EXTRA, ({}, Any))
        state: dict[str, Any] = {}
        if not (self._functions or self._is_dict):
            # What was carried over and is not known here either.
            gone |= values.keys() - own - extra.keys()
        if not allows_extra(self._shape.cls):
            gone |= extra.keys() - own
        elif extra:
            state[EXTRA] = self._converter.convert(extra, Any, Any, None)
        if FIELDS_SET in values:
            names, _ = values[FIELDS_SET]
            state[FIELDS_SET] = [name for name in names if name not in gone]
        return state

    def _converted(self, one: FieldShape, value: Any, written: Any, trail: Trail) -> Any:
        if written is not Any and written is self._settled.get(one.name):
            return value
        converter = self._evolution.converters.get(one.name)
        is_other = one.name in self._retyped or self._is_carried_as_other(one, value, written)
        if written is _CARRIED:
            written = Any
        if converter is None:
            return self._converter.convert(value, one.annotation, written, trail)
        if not is_other:
            try:
                return self._converter.convert(value, one.annotation, written, trail)
            except DecodeError:
                # What the annotation promised does not hold for this value any more.
                pass
        try:
            value = _own(converter(as_dicts(value)))
        except Exception as error:
            pass_on(error)
            raise DecodeError(
                f"{one.name}: converters[{one.name!r}]={_name(converter)} raised "
                f"{type(error).__name__} for a stored value of type "
                f"{type(value).__qualname__}. It must take every value that was stored.",
                field=one.name,
            ) from error
        return self._converter.convert(value, one.annotation, Any, trail)

    def _is_carried_as_other(self, one: FieldShape, value: Any, written: Any) -> bool:
        """Whether a value that was carried over may have been stored as of another type.

        What it was stored as its writer's schema does not say.
        """
        if written is Any or one.name in self._names:
            return False
        if mentions_any(one.annotation):
            return written is _CARRIED
        # Values of classes are of the writer's world here: whether they fit, converting tells.
        if one.name in self._with_classes:
            return False
        return fit_of(value, one.annotation, lambda name: None) is not Fit.EXACT

    def _dict(self, values: dict[str, tuple[Any, Any]], identity: int) -> dict[str, Any]:
        """Return a plain dict, or a TypedDict, which is one with annotations for some keys."""
        fields = {one.name: one for one in self._shape.payload_fields}
        made: dict[str, Any] = {}
        for name, (value, written) in values.items():
            if name in fields:
                made[name] = self._converted(fields[name], value, written, (None, f".{name}"))
            elif name not in STATE_NAMES:
                made[name] = as_dicts(value)
        if self._tag is not None and not fields:
            made = {"__class__": self._tag, **made}
        if self._shape.identity is not None and self._shape.identity not in self._written:
            made.pop(self._shape.identity, None)
            made[self._shape.identity] = identity
        return made


def _own(value: Any) -> Any:
    """Return a value of the program's that no other record shares."""
    return value if type(value) in IMMUTABLE else copy.deepcopy(value)


def _is_untouched(value: Any, given: Any, stored: Any) -> bool:
    """Whether a function has left a value as it was given it."""
    if type(value) in IMMUTABLE:
        return value is given
    return _is_equal(value, as_plain(stored))


def _is_equal(one: Any, other: Any) -> bool:
    """Whether two values are the same in value and type; False if that can't be told."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        pairs = zip(one.items(), other.items(), strict=False)
        return len(one) == len(other) and all(_is_equal(a, b) for a, b in pairs)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_is_equal, one, other))
    try:
        return one is other or bool(one == other)
    except Exception as error:
        pass_on(error)
        # An array, say, that has no truth.
        return False
