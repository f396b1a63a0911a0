"""Generate: the codec of one class as source text, as ``dataclasses`` does for ``__init__``.

Each codec has two tiers. The fast one is generated here: a check that the record's values are
natively exact, and one call of the packer. What the check or the packer refuses goes through the
exact tier as a whole. The first byte of a payload tells the two apart.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NoReturn

import msgspec

from memdb.errors import DecodeError, EncodeError, MemdbError, RecordTypeError
from memdb.serializers._build import (
    Builder,
    assignments,
    force_setattr,
    full_name,
    missing_field,
)
from memdb.serializers._codec import GeneratedCodec
from memdb.serializers._exact import ExactTier
from memdb.serializers._plan import (
    Form,
    NotNative,
    Plan,
    Planner,
    all_of,
    attribute,
    is_native_struct,
    is_plain_json,
    is_plain_msgpack,
    mentions_any,
    mirror,
    packed_value,
)
from memdb.serializers._protocol import Codec
from memdb.serializers._pydantic import FIELDS_SET, usual_check
from memdb.serializers._reader import FieldReader, dict_reader, has_plain_fields, record_reader
from memdb.serializers._shape import FieldShape, Shape, type_text
from memdb.serializers._stack import pass_on
from memdb.serializers._writer import (
    as_dicts,
    foreign_value,
    parse_type,
    shape_of_writer,
    understanding,
    without_state,
)

Layout = Literal["named", "positional"]
Fallback = Callable[[bytes, int, DecodeError], Any]

# What a check or the packer raises for a value that is not natively exact.
NOT_NATIVE = (
    NotNative,
    TypeError,
    ValueError,
    OverflowError,
    ArithmeticError,
    AttributeError,
    RecursionError,
)

# What a packer raises for what it can't hold at all; that of orjson is a TypeError.
UNPACKABLE = (TypeError, ValueError, OverflowError, RecursionError)


@dataclass(frozen=True, slots=True)
class Format:
    """How bytes are written: what differs between JSON and MessagePack.

    Attributes:
        form: Which of the two.
        encode: Packs a value.
        decoder: From a type to a function that unpacks it.
        retrying_decoder: The same; reads also what that refuses though it was packed by `encode`.
        encode_dict: Packs a dict of what the form brings back exactly by itself.
        decode_dict: Unpacks it, untyped.
        encode_exact: Packs the plain form of the exact tier.
        decode_exact: Unpacks it; ``NOT_EXACT`` if the bytes are not of the exact tier.
        exact_start: The first byte of what is of the exact tier, and of nothing else.
    """

    form: Form
    encode: Callable[[Any], bytes]
    decoder: Callable[[Any], Callable[[bytes], Any]]
    retrying_decoder: Callable[[Any], Callable[[bytes], Any]]
    encode_dict: Callable[[Any], bytes]
    decode_dict: Callable[[bytes], Any]
    encode_exact: Callable[[Any], bytes]
    decode_exact: Callable[[bytes], Any]
    exact_start: int


NOT_EXACT = object()


class GeneratedSerializer:
    """What the serializers with generated codecs share; a subclass says the rest.

    Attributes:
        name: What a file remembers.
    """

    name: str
    _format: ClassVar[Format]
    _layout: ClassVar[Layout]

    def codec(self, shape: Shape, writer: Mapping[str, Any] | None = None) -> Codec:
        """Return a codec for the class; ``Serializer.codec`` says the rest."""
        with understanding(writer):
            return make_codec(shape, writer, self._format, self._layout)

    def decoder(
        self,
        shape: Shape,
        writer: Mapping[str, Any],
        renames: Mapping[str, str],
        fallback: Fallback,
        carried: frozenset[str] = frozenset(),
        decode_carried: Callable[[bytes, int], Any] | None = None,
    ) -> Callable[[bytes, int], Any]:
        """Return the decoder of records that another form of the class has written.

        Args:
            shape: The class as it is now.
            writer: The schema of the class as it was.
            renames: Field names of the writer that are called otherwise now.
            fallback: Called for what is refused, with the error, to return a record or raise.
            carried: Names that the writer's schema lacks, to be looked for in exact payloads.
            decode_carried: Decodes the payloads that have one of them.
        """
        codec = _RecordCodec(shape, writer, self._format, self._layout, renames)
        codec.fallback = fallback
        codec.carried, codec.decode_carried = carried, decode_carried
        return codec.make_decode()

    @property
    def exact_start(self) -> int:
        """The first byte of a payload of the exact tier, and of no other."""
        return self._format.exact_start

    def exact_bytes(self, plain: Any) -> bytes:
        """Return a payload of the exact tier."""
        return encode_exactly(self._format, lambda: plain)

    def exact_plain(self, data: bytes) -> Any:
        """Return the plain form that a payload of the exact tier holds, None for any other."""
        plain = self._format.decode_exact(data)
        return None if plain is NOT_EXACT else plain

    def world_decoder(
        self, world: Shape, writer: Mapping[str, Any]
    ) -> Callable[[bytes, int], dict[str, Any]]:
        """Return the decoder that gives the values of a writer's world by field name.

        Args:
            world: What `shape_of_writer` has made of the writer, without an identity.
            writer: The schema of a class, or of dicts.
        """
        codec = _RecordCodec(world, writer, self._format, self._layout)
        return codec.decode_dict if writer["kind"] == "dict" else codec.make_decode()


def make_codec(
    shape: Shape, writer: Mapping[str, Any] | None, form: Format, layout: Layout
) -> GeneratedCodec:
    """Return the codec of a class.

    Args:
        shape: The class as it is now.
        writer: What the bytes to decode were written with; None for the class as it is now.
        form: JSON or MessagePack.
        layout: Whether records are packed by name or by position.
    """
    if shape.kind == "dict":
        codec = _dict_codec(shape, form)
        # A TypedDict's own records need no other decoder; without it, its classes are missing.
        is_own = writer is None or (writer["kind"] == "dict" and bool(shape.fields))
        is_open = writer is not None and writer["kind"] == "dict" and not writer["fields"]
        if writer is None or is_own or is_open:
            return codec
        return GeneratedCodec(codec.encode, dict_decoder(shape, writer, form, layout))
    codec = _RecordCodec(shape, None, form, layout).make()
    if writer is None:
        return codec
    return GeneratedCodec(codec.encode, _RecordCodec(shape, writer, form, layout).make_decode())


def dict_decoder(
    shape: Shape, writer: Mapping[str, Any], form: Format, layout: Layout
) -> Callable[[bytes, int], dict[str, Any]]:
    """Return the decoder that gives records of a class as dicts, without the class."""
    world = shape_of_writer(writer, identity=shape.identity)
    codec = _RecordCodec(world, writer, form, layout)
    decode = codec.decode_dict if writer["kind"] == "dict" else codec.make_decode()
    tag = writer.get("tag")

    def decode_plainly(data: bytes, identity: int) -> dict[str, Any]:
        stored = decode(data, identity)
        try:
            values = {name: as_dicts(value) for name, value in without_state(stored.items())}
        except Exception as error:
            pass_on(error, DecodeError)
            # A record in a set that holds what can't be in one, as its own class could.
            raise DecodeError(
                f"the record can't be shown as a dict ({type(error).__name__}). Open the "
                "collection with its class."
            ) from error
        return values if tag is None else {"__class__": tag, **values}

    return decode_plainly


class _RecordCodec:
    """Collects what the generated functions of one codec use."""

    def __init__(
        self,
        shape: Shape,
        writer: Mapping[str, Any] | None,
        form: Format,
        layout: Layout,
        renames: Mapping[str, str] | None = None,
    ) -> None:
        self.shape = shape
        self.form = form
        self.layout = layout
        self.is_dict = shape.kind == "dict"
        self.exact = ExactTier(shape, make_foreign=foreign_value if self.is_dict else None)
        self.build = None if self.is_dict else Builder(shape, is_root=True)
        self.fields = shape.payload_fields
        types = {field.name: type_text(field.annotation) for field in self.fields}
        self.renames = dict(renames or {})
        written = dict(writer["fields"]) if writer is not None else types
        self.writer_types = {self.renames.get(name, name): t for name, t in written.items()}
        self.writer_names = list(self.writer_types)
        # In order: binary payloads are by position.
        self.is_as_written = list(self.writer_types.items()) == list(types.items())
        if writer is not None and writer["kind"] == "dict":
            self.layout = "named"
        self._lenient: Callable[[bytes, int], Any] | None = None
        self._codec: GeneratedCodec | None = None
        self.fallback: Fallback | None = None
        self.carried: frozenset[str] = frozenset()
        self.decode_carried: Callable[[bytes, int], Any] | None = None

    def make(self) -> GeneratedCodec:
        """Return the codec for bytes as this class writes them."""
        planner, plans, is_native = self._planned()
        if is_native:
            self._codec = self._native_struct(planner, plans)
            return self._codec
        try:
            decode = self._decoder(planner, plans)
        except TypeError:
            # msgspec knows a combination of types that it can't tell apart, and the plans do not.
            self._codec = GeneratedCodec(self._encode_exactly, self._decode_slowly)
        else:
            encode = self._encoder(planner, plans)
            self._codec = GeneratedCodec(encode, decode, make_reader=self._reader)
        return self._codec

    def _planned(self) -> tuple[Planner, dict[str, Plan], bool]:
        """Return the plans for the class, and whether it is a Struct that msgspec handles."""
        if self.layout == "named" and self.shape.kind == "struct":
            planner = Planner(self.form.form, is_struct=True)
            plans = self._plans(planner)
            if is_native_struct(self.shape, plans):
                return planner, plans, True
        planner = Planner(self.form.form)
        return planner, self._plans(planner), False

    def _reader(self, names: tuple[str, ...], absent: object) -> FieldReader | None:
        """Return the reader of some fields of what this class writes."""
        stored = [field.name for field in self.fields]
        if not set(names) <= set(stored) or not has_plain_fields(self.shape, names):
            return None
        planner, plans, _ = self._planned()
        return record_reader(
            names,
            plans,
            planner.namespace,
            self.form.decoder,
            stored if self.layout == "positional" else None,
        )

    def make_decode(self) -> Callable[[bytes, int], Any]:
        """Return the decoder for bytes of the writer schema."""
        if self.is_as_written and not self.is_dict:
            return self.make().decode
        planner = Planner(self.form.form, is_lenient=True)
        try:
            return self._decoder(planner, self._plans(planner))
        except (DecodeError, TypeError):
            # A required field is missing: each record raises.
            return self._decode_slowly

    def _plans(self, planner: Planner) -> dict[str, Plan]:
        return {field.name: self._plan(planner, field) for field in self.shape.fields}

    def _plan(self, planner: Planner, field: FieldShape) -> Plan:
        plan = planner.plan(field.annotation)
        written = self.writer_types.get(field.name)
        if written is not None and mentions_any(plan.wire):
            # The annotation says too little to tell a date from text; the writer's may say more.
            known = parse_type(written)
            if not mentions_any(known):
                return planner.plan(known)
        return plan

    # -- encode

    def _encoder(self, planner: Planner, plans: dict[str, Plan]) -> Callable[[Any], bytes]:
        fields = self.fields
        values = [packed_value(plans[f.name], f"v{i}") for i, f in enumerate(fields)]
        packed = ", ".join(values)
        if self.layout == "positional":
            whole = f"({packed}{',' if fields else ''})"
        else:
            made = mirror(self.shape, fields, plans, is_lenient=False)
            whole = f"{planner.bind('mirror', made)}({packed})"
        return self._encode_function(planner, plans, fields, whole)

    def _encode_function(
        self,
        planner: Planner,
        plans: dict[str, Plan],
        fields: tuple[FieldShape, ...],
        whole: str,
    ) -> Callable[[Any], bytes]:
        # The values are read once, so that what was checked is what is packed.
        reads = "".join(
            f"            v{i} = {attribute('r', f.name)}\n" for i, f in enumerate(fields)
        )
        condition = all_of(plans[f.name].check(f"v{i}") for i, f in enumerate(fields))
        if self.shape.kind == "pydantic":
            condition += f" and {usual_check(self.shape, 'r', planner.namespace, is_root=True)}"
        source = (
            "def encode(r):\n"
            "    if type(r) is cls:\n"
            "        try:\n"
            f"{reads}"
            f"            if {condition}:\n"
            f"                return pack({whole})\n"
            "        except NOT_NATIVE:\n"
            "            pass\n"
            "    return slow(r)\n"
        )
        namespace = {
            **planner.namespace,
            "cls": self.shape.cls,
            "pack": self.form.encode,
            "NOT_NATIVE": NOT_NATIVE,
            "slow": self._encode_exactly,
        }
        return compiled(source, "encode", namespace)

    def _encode_exactly(self, record: Any) -> bytes:
        if type(record) is not self.shape.cls:
            raise RecordTypeError(wrong_class(record, self.shape))
        return encode_exactly(self.form, lambda: self.exact.fields_to_plain(record), record)

    def _native_struct(self, planner: Planner, plans: dict[str, Plan]) -> GeneratedCodec:
        # What stands in the identity field does not matter: decoding sets it, and what msgspec
        # can't decode there is decoded without it, by the slow way.
        encode = self._encode_function(planner, plans, self.fields, "r")
        lines = ["o = unpack(data)"]
        if self.shape.identity and self.shape.is_frozen:
            lines.append(f"force(o, {self.shape.identity!r}, identity)")
        elif self.shape.identity:
            lines.append(f"o.{self.shape.identity} = identity")
        namespace = {
            "unpack": self.form.decoder(self.shape.cls),
            "force": force_setattr,
        }
        decode = _decode_function(lines, namespace, self._decode_slowly)
        return GeneratedCodec(
            encode,
            decode,
            omits_identity=self.shape.identity is None,
            make_reader=self._reader,
        )

    # -- decode

    def _decoder(
        self, planner: Planner, plans: dict[str, Plan], *, has_fallback: bool = True
    ) -> Callable[[bytes, int], Any]:
        """Return the decoder for bytes of the writer schema, in the layout."""
        namespace: dict[str, Any] = {}
        values: dict[str, str] = {}
        if self.shape.identity:
            values[self.shape.identity] = "identity"
        if self.layout == "positional":
            first = self._positional(planner, plans, values)
        else:
            made = self._mirror(plans, is_lenient=planner.is_lenient)
            make = self.form.decoder if has_fallback else self.form.retrying_decoder
            planner.namespace["unpack"] = make(made)
            first = "w = unpack(data)"
            for number, field in enumerate(self.fields):
                values[field.name] = planner.unpacked_value(
                    field, plans[field.name], f"w.f{number}"
                )
        if self.is_dict:
            pairs = "".join(f"{f.name!r}: {values[f.name]}, " for f in self.fields)
            if self.shape.identity:
                pairs += f"{self.shape.identity!r}: identity"
            lines = [f"o = {{{pairs}}}"]
        else:
            lines = assignments(self.shape, values, namespace)
        return _decode_function(
            [first, *lines],
            {**planner.namespace, **namespace},
            self._decode_slowly if has_fallback else None,
        )

    def _mirror(self, plans: dict[str, Plan], *, is_lenient: bool) -> Any:
        """Return the mirror of what is stored, under the names that it is stored under."""
        stored = {new: old for old, new in self.renames.items()}
        fields = tuple(replace(f, name=stored.get(f.name, f.name)) for f in self.fields)
        by_stored = {stored.get(name, name): plan for name, plan in plans.items()}
        return mirror(self.shape, fields, by_stored, is_lenient=is_lenient)

    def _positional(self, planner: Planner, plans: dict[str, Plan], values: dict[str, str]) -> str:
        wires: list[Any] = []
        targets: list[str] = []
        by_name = {field.name: field for field in self.fields}
        for number, name in enumerate(self.writer_names):
            targets.append(f"w{number}")
            if name in by_name:
                plan = plans[name]
                wires.append(plan.wire)
                values[name] = plan.unpack(f"w{number}") if plan.unpack else f"w{number}"
            else:
                wires.append(Any)
        for field in self.fields:
            if field.name not in values:
                if field.required:
                    raise missing_field(field.name, self.shape.name)
                values[field.name] = f"{planner.bind('default', field.make_default)}()"
        planner.namespace["unpack"] = self.form.decoder(tuple[tuple(wires)])  # type: ignore[misc]
        return f"[{', '.join(targets)}] = unpack(data)"

    def _decode_slowly(self, data: bytes, identity: int) -> Any:
        """Decode what the fast decoder refused, or say what is wrong with it."""
        if self._codec is not None and self._codec.on_slow is not None:
            self._codec.on_slow()
        if self.fallback is None:
            return self._decode_by_name(bytes(data), identity)
        try:
            return self._decode_by_name(bytes(data), identity)
        except DecodeError as error:
            return self.fallback(data, identity, error)

    def _decode_by_name(self, data: bytes, identity: int) -> Any:
        try:
            plain = self.form.decode_exact(data)
            if plain is NOT_EXACT:
                return self._decode_leniently(data, identity)
            if self.carried and type(plain) is dict and not self.carried.isdisjoint(plain):
                assert self.decode_carried is not None
                return self.decode_carried(data, identity)
            if self.renames and type(plain) is dict:
                self._rename(plain)
            if self.build is not None:
                return self.exact.record_from_plain(plain, self.build, identity)
            return self._with_identity(self.exact.fields_from_plain(plain), identity)
        except Exception as error:
            pass_on(error, DecodeError)
            self._refuse(error)

    def decode_dict(self, data: bytes, identity: int) -> dict[str, Any]:
        """Return the items of a plain dict's payload, in the writer's world."""
        try:
            plain = self.form.decode_exact(bytes(data))
            if plain is NOT_EXACT:
                values = self.form.decode_dict(data)
                if type(values) is dict:
                    return self._with_identity(values, identity)
            elif type(plain) is list and plain[:1] != ["dict"]:
                raise DecodeError(_NO_DICT)
            else:
                values = self.exact.from_plain(plain)
                if type(values) is dict:
                    return self._with_identity(values, identity)
        except Exception as error:
            pass_on(error, DecodeError)
            raise DecodeError(_NO_DICT) from error
        raise DecodeError(_NO_DICT)

    def _with_identity(self, values: dict[str, Any], identity: int) -> dict[str, Any]:
        if self.shape.identity is not None:
            values[self.shape.identity] = identity
        return values

    def _rename(self, plain: dict[str, Any]) -> None:
        """Give the fields of an exact payload the names that they have now."""
        for old, new in self.renames.items():
            if old in plain and new not in plain:
                plain[new] = plain.pop(old)
        if FIELDS_SET in plain:
            tag, *names = plain[FIELDS_SET]
            plain[FIELDS_SET] = [tag, *(self.renames.get(name, name) for name in names)]

    def _decode_leniently(self, data: bytes, identity: int) -> Any:
        if self._lenient is None:
            planner = Planner(self.form.form, is_lenient=True)
            plans = self._plans(planner)
            self._lenient = self._decoder(planner, plans, has_fallback=False)
        return self._lenient(data, identity)

    def _refuse(self, error: BaseException) -> NoReturn:
        # What another exception says may be of the record's own values.
        is_ours = isinstance(error, msgspec.MsgspecError | json.JSONDecodeError)
        text, path = _split_path(str(error) if is_ours else "")
        text = re.sub("(enum value) .*", r"\1", text)
        path = self._field_path(path)
        found = re.fullmatch(r"Object missing required field `(.+)`", text)
        if found:
            path = f"{path}.{found[1]}" if path else found[1]
            raise missing_field(path, self.shape.name) from error
        raise DecodeError(
            f"{path or 'the payload'}: the bytes do not fit {self.shape.name} "
            f"({text or type(error).__name__}). "
            "Open the collection with the class and serializer that it was written with.",
            field=path,
        ) from error

    def _field_path(self, path: str) -> str:
        """Return msgspec's path with the name of the field in place of its position."""
        if self.layout == "positional":
            found = re.match(r"\[(\d+)\]", path)
            if found and int(found[1]) < len(self.writer_names):
                path = self.writer_names[int(found[1])] + path[found.end() :]
        return path.removeprefix(".")


def _split_path(text: str) -> tuple[str, str]:
    """Split msgspec's message into what is wrong and the path, as far as it has one."""
    found = re.fullmatch(r"(.*?) - at `(?:key in )?\$?(.*)`", text, re.DOTALL)
    return (found[1], found[2]) if found else (text, "")


def _decode_function(
    lines: list[str],
    namespace: dict[str, Any],
    slow: Callable[[bytes, int], Any] | None,
) -> Callable[[bytes, int], Any]:
    """Compile a decoder from the lines that make the record ``o``."""
    if slow is None:
        source = "\n    ".join(["def decode(data, identity):", *lines, "return o\n"])
    else:
        # Whatever the bytes make go wrong, the slow way finds the right error for it.
        body = "\n        ".join([*lines, "return o"])
        source = (
            "def decode(data, identity):\n"
            "    try:\n"
            f"        {body}\n"
            "    except Exception:\n"
            "        pass\n"
            "    return slow(data, identity)\n"
        )
    return compiled(source, "decode", {**namespace, "slow": slow})


def compiled(source: str, name: str, namespace: dict[str, Any]) -> Callable[..., Any]:
    """Return the function of a name that the source text defines."""
    exec(compile(source, f"<memdb {name}>", "exec"), namespace)
    function: Callable[..., Any] = namespace[name]
    return function


def wrong_class(record: object, shape: Shape) -> str:
    """Return the message for a record that is not exactly of the codec's class."""
    cls = type(record)
    return (
        f"a record of type {cls.__module__}.{cls.__qualname__} can't be stored as {shape.name}. "
        f"Convert it to {shape.name}, or give its class a collection of its own."
    )


def _dict_codec(shape: Shape, form: Format) -> GeneratedCodec:
    """Return the codec of plain dicts; the key of their identity is not in the bytes."""
    exact = ExactTier(shape)
    key = shape.identity
    pack, unpack = form.encode_dict, form.decode_dict
    is_plain = is_plain_json if form.form == "json" else is_plain_msgpack

    def encode(record: Any) -> bytes:
        if type(record) is dict:
            if key is not None and key in record:
                record = {name: value for name, value in record.items() if name != key}
            try:
                if is_plain(record):
                    return pack(record)
            except NOT_NATIVE:
                pass
        else:
            raise RecordTypeError(wrong_class(record, shape))
        return encode_exactly(form, lambda: exact.to_plain(record), record)

    def decode(data: bytes, identity: int) -> Any:
        try:
            record = unpack(data)
            if type(record) is dict:
                if key is not None:
                    record[key] = identity
                return record
        except Exception:
            pass
        return decode_slowly(data, identity)

    def decode_slowly(data: bytes, identity: int) -> Any:
        if codec.on_slow is not None:
            codec.on_slow()
        try:
            plain = form.decode_exact(bytes(data))
            record = NOT_EXACT if plain is NOT_EXACT else exact.from_plain(plain)
        except Exception as error:
            pass_on(error, DecodeError)
            raise DecodeError(_NO_DICT) from error
        if type(record) is not dict:
            raise DecodeError(_NO_DICT)
        if key is not None:
            record[key] = identity
        return record

    def make_reader(names: tuple[str, ...], absent: object) -> FieldReader | None:
        return None if key in names else dict_reader(names, form.decoder, absent)

    codec = GeneratedCodec(encode, decode, make_reader=make_reader)
    return codec


_NO_DICT = (
    "the payload: the bytes are no dict. "
    "Open the collection with the serializer that it was written with."
)


def encode_exactly(form: Format, make_plain: Callable[[], Any], record: Any = None) -> bytes:
    """Return the bytes of the exact tier.

    Args:
        form: JSON or MessagePack.
        make_plain: Gives the plain form.
        record: What it is of, for an error to say the type of the value that is in the way.

    Raises:
        EncodeError: A value can't be held.
    """
    plain = None
    try:
        plain = make_plain()
        return form.encode_exact(plain)
    except UNPACKABLE as error:
        # A packer may run out of stack, too.
        pass_on(error, MemdbError)
        name = _unpackable(form, plain)
        what = "the record" if name is None else f"{name}: a value{_type_of(record, name)}"
        raise EncodeError(
            f"{what} can't be packed as {form.form}: {error}. Store large data in parts, as "
            "records of their own.",
            field=name or "",
        ) from error


def _unpackable(form: Format, plain: Any) -> str | None:
    """Return the name of the first field whose value can't even be packed alone, if it has one."""
    for name, item in plain.items() if type(plain) is dict else ():
        try:
            form.encode_exact(item)
        except UNPACKABLE:
            return str(name)
    return None


def _type_of(record: Any, name: str) -> str:
    value = record.get(name) if type(record) is dict else getattr(record, name, None)
    return "" if value is None else f" of type {full_name(type(value))}"
