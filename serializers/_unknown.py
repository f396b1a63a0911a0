"""Unknown fields: what a newer program has stored that the class of this one has no field for.

When this program changes such a record it writes the unknown fields again, beside its own: as an
exact payload of its own writer, with names in it that the writer schema does not have. Nothing is
decoded for it; the plain form of the exact tier is carried over as it is.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from memdb.errors import DecodeError, EncodeError, RecordTypeError
from memdb.serializers._evolve import Evolution
from memdb.serializers._exact import ExactTier
from memdb.serializers._generate import GeneratedSerializer, wrong_class
from memdb.serializers._pickle import PROTOCOL, PickleSerializer
from memdb.serializers._protocol import Serializer
from memdb.serializers._pydantic import EXTRA, FIELDS_SET, STATE_NAMES, allows_extra
from memdb.serializers._shape import Shape, kind_of, reachable, shape_of
from memdb.serializers._stack import pass_on
from memdb.serializers._writer import shape_of_writer, understanding, writer_schema

# Where an unknown field is: from the outermost field to it, each step the container that it is
# in, as `_mapping_in` knows it, and the name or key there.
_Steps = tuple[tuple[str, str], ...]


class UnknownFields(Protocol):
    """Takes the unknown fields out of the payloads of one writer, and puts them into new ones."""

    def of(self, data: bytes) -> Mapping[Any, Any] | None:
        """Return what a payload holds that the class has no field for; None if that is nothing.

        Raises:
            DecodeError: The payload is none.
        """
        ...

    def encode(self, record: Any, unknown: Mapping[Any, Any]) -> bytes:
        """Return a record as bytes, with what ``of`` has found beside its own fields.

        Raises:
            EncodeError: A value can't be held.
            RecordTypeError: The record is not exactly of the class.
        """
        ...


def unknown_fields(
    serializer: Serializer,
    shape: Shape,
    writer: Mapping[str, Any],
    evolution: Evolution,
    *,
    into: Serializer | None = None,
) -> UnknownFields | None:
    """Return what takes the unknown fields of a writer's payloads over into new ones.

    Args:
        serializer: What the payloads were written with.
        shape: The class as it is now.
        writer: The schema that they were written with.
        evolution: What the program declares: a renamed field is not unknown.
        into: What the new payloads are written with; the same if not given.

    Returns:
        None where nothing can be unknown or nothing can be kept: for plain dicts, a user's own
        serializer, and from pickle into another or back.

    Raises:
        DecodeError: The schema is none.
    """
    into = serializer if into is None else into
    with understanding(writer):
        if shape.kind == "dict" or writer["kind"] == "dict":
            return None
        own = {field.name for field in shape.payload_fields}
        renames = {old: evolution.new_name(old) for old in evolution.renames}
        renames = {old: new for old, new in renames.items() if new in own}
        if isinstance(serializer, GeneratedSerializer) and isinstance(into, GeneratedSerializer):
            return _Exact(serializer, shape, writer, renames, into)
        if isinstance(serializer, PickleSerializer) and isinstance(into, PickleSerializer):
            return _Pickled(into, shape, renames)
    return None


class _Exact:
    """Unknown fields in the plain form of the exact tier; nested ones too, but in no list."""

    def __init__(
        self,
        serializer: GeneratedSerializer,
        shape: Shape,
        writer: Mapping[str, Any],
        renames: Mapping[str, str],
        into: GeneratedSerializer,
    ) -> None:
        self._serializer = serializer
        self._into = into
        self._shape = shape
        self._tier = ExactTier(shape)
        self._own = _own_names(shape)
        self._renames = renames
        self._names = {
            name: _own_names(shape_of(cls))
            for name, cls in {**reachable(shape), **shape.aliases}.items()
            if kind_of(cls) is not None
        }
        world = shape_of_writer(writer, identity=None)
        self._world_tier = ExactTier(world)
        self._decode_world = serializer.world_decoder(world, writer)
        # A payload of the fast tier holds just what its writer schema says.
        now = writer_schema(shape, serializer).get("records", {})
        written = dict(writer["fields"])
        known = self._own | _renamed_in(written, renames)
        self._has_more = not written.keys() <= known or any(
            {field for field, _ in fields} - {field for field, _ in now.get(name, fields)}
            for name, fields in writer.get("records", {}).items()
        )
        self._exact_start = serializer.exact_start

    def of(self, data: bytes) -> Mapping[_Steps, Any] | None:
        # On the path of every update, where mostly nothing is unknown: a byte tells.
        if not self._has_more and not (data and data[0] == self._exact_start):
            return None
        data = bytes(data)
        try:
            plain = self._serializer.exact_plain(data)
            if plain is None:
                values = self._decode_world(data, 0)
                plain = {name: self._world_tier.to_plain(value) for name, value in values.items()}
            known = self._own | _renamed_in(plain, self._renames)
            return dict(self._unknown(plain, "", known, ())) or None
        except Exception as error:
            pass_on(error, DecodeError)
            raise DecodeError(
                "the payload holds fields that the class does not have, and that can't be read "
                f"({type(error).__name__}). It was not written by memdb."
            ) from error

    def _unknown(
        self, fields: Mapping[str, Any], container: str, own: set[str], steps: _Steps
    ) -> Iterator[tuple[_Steps, Any]]:
        unknown = {name: item for name, item in fields.items() if name not in own}
        if unknown and FIELDS_SET in own:
            # First, as it goes by the names that are not yet there when it is put back.
            names = fields.get(FIELDS_SET)
            yield (*steps, (container, FIELDS_SET)), _SetElsewhere.of(unknown, names and names[1:])
        for name, item in fields.items():
            inner = (*steps, (container, name))
            if name in unknown:
                yield inner, item
            elif name not in STATE_NAMES:
                yield from self._unknown_in(item, inner)

    def _unknown_in(self, plain: Any, steps: _Steps) -> Iterator[tuple[_Steps, Any]]:
        if type(plain) is dict:
            for key, item in plain.items():
                yield from self._unknown_in(item, (*steps, (_DICT, key)))
        elif type(plain) is not list or not plain:
            return
        elif plain[0] in _PAIRED:
            for key, item in plain[1:]:
                yield from self._unknown_in(item, (*steps, (_PAIRS, repr(key))))
        elif plain[0] == "record":
            _, name, fields = plain
            own = self._names.get(name)
            if own is not None:
                yield from self._unknown(fields, name, own, steps)

    def encode(self, record: Any, unknown: Mapping[_Steps, Any]) -> bytes:
        if type(record) is not self._shape.cls:
            raise RecordTypeError(wrong_class(record, self._shape))
        plain = self._tier.fields_to_plain(record)
        for steps, item in unknown.items():
            _put(plain, steps, item)
        return self._into.exact_bytes(plain)


def _renamed_in(names: Mapping[str, Any], renames: Mapping[str, str]) -> set[str]:
    """Return the names that decoding takes for others, as these are not there themselves."""
    return {old for old, new in renames.items() if old in names and new not in names}


def _own_names(shape: Shape) -> set[str]:
    """Return the names in a payload that a class knows what to do with."""
    names = {field.name for field in shape.fields}
    if shape.kind == "pydantic":
        names.add(FIELDS_SET)
        if allows_extra(shape.cls):
            names.add(EXTRA)
    return names


@dataclass(frozen=True, slots=True)
class _SetElsewhere:
    """Which of the unknown fields of a pydantic model were set by whoever made it.

    Attributes:
        names: Those.
        is_all: It was not said, as every field was.
    """

    names: frozenset[str]
    is_all: bool

    @classmethod
    def of(cls, unknown: Mapping[str, Any], fields_set: Sequence[str] | None) -> _SetElsewhere:
        """Return them, given the names that are said to be set, None if that is not said."""
        further = unknown.get(EXTRA)
        names = unknown.keys() | (further.keys() if type(further) is dict else ())
        if fields_set is None:
            return cls(frozenset(names), True)
        return cls(frozenset(names.intersection(fields_set)), False)

    def merged(self, own: Iterable[str], fields_set: Sequence[str] | None) -> list[str] | None:
        """Return the fields of the new payload that are set, None if that need not be said.

        Args:
            own: The names of the class's own fields in the payload.
            fields_set: Those that are set, None for all.
        """
        if fields_set is None and self.is_all:
            return None
        return sorted(self.names.union(own if fields_set is None else fields_set))


# The container of a step: "" is the record itself, and a name a nested record of that class.
_DICT, _PAIRS = "{}", "[]"
# The tags of what holds pairs of a key and a value.
_PAIRED = ("dict", "ordered dict")


def _put(plain: dict[str, Any], steps: _Steps, item: Any) -> None:
    """Put an unknown field to where it was, if there is still such a place."""
    place: Any = plain
    for container, key in steps[:-1]:
        mapping = _mapping_in(place, container)
        if mapping is None or key not in mapping:
            return
        place = mapping[key]
    container, key = steps[-1]
    fields = _mapping_in(place, container)
    if fields is None:
        return
    if isinstance(item, _SetElsewhere):
        said = fields.get(FIELDS_SET)
        merged = item.merged(fields.keys() - set(STATE_NAMES), said and said[1:])
        if merged is not None:
            fields[FIELDS_SET] = ["list", *merged]
    else:
        fields.setdefault(key, item)


def _mapping_in(place: Any, container: str) -> dict[str, Any] | None:
    """Return the fields or items of a container of this kind, None if it is another."""
    if container in ("", _DICT):
        return place if type(place) is dict else None
    if type(place) is not list or not place:
        return None
    if container == _PAIRS:
        return {repr(key): item for key, item in place[1:]} if place[0] in _PAIRED else None
    return place[2] if place[:2] == ["record", container] else None


class _Pickled:
    """Unknown fields of pickles: the values of names that the class has not."""

    def __init__(
        self, serializer: PickleSerializer, shape: Shape, renames: Mapping[str, str]
    ) -> None:
        self._codec = serializer.codec(shape)
        self._read = serializer.reader(shape)
        self._own = _own_names(shape)
        self._renames = renames

    def of(self, data: bytes) -> Mapping[str, Any] | None:
        values = self._read(data)
        known = self._own | _renamed_in(values, self._renames)
        unknown = {name: value for name, value in values.items() if name not in known}
        if unknown and FIELDS_SET in self._own:
            # First, as it goes by the names that are not yet there when it is put back.
            return {FIELDS_SET: _SetElsewhere.of(unknown, values.get(FIELDS_SET)), **unknown}
        return unknown or None

    def encode(self, record: Any, unknown: Mapping[str, Any]) -> bytes:
        values = self._read(self._codec.encode(record))
        for name, item in unknown.items():
            if isinstance(item, _SetElsewhere):
                merged = item.merged(values.keys() - set(STATE_NAMES), values.get(FIELDS_SET))
                if merged is not None:
                    values[FIELDS_SET] = merged
            else:
                values.setdefault(name, item)
        try:
            return pickle.dumps(values, PROTOCOL)
        except Exception as error:
            pass_on(error)
            raise EncodeError(
                f"the unknown fields of the record can't be pickled again ({type(error).__name__})."
                " Update it with the program that has written them."
            ) from error
