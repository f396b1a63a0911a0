"""From the bytes of any version, whoever wrote it, to a record of the present class."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from memdb._members import Member
from memdb.errors import DamageError, DecodeError, EncodeError, IdentityError, MemdbError, shown
from memdb.serializers import (
    Serializer,
    UnknownFields,
    get_serializer,
    is_current,
    is_harmless,
    make_decoder,
    unknown_fields,
)
from memdb.serializers._codec import GeneratedCodec
from memdb.serializers._generate import GeneratedSerializer

if TYPE_CHECKING:
    from memdb._records import Records

Decode = Callable[[bytes, int], Any]


class Decoding:
    """The decoders of one collection, made when first needed.

    Attributes:
        is_typed: Every record that was decoded so far, the open transaction's too, was written by
            the fast tier of its class as it is now: the check of `memdb.serializers._plan.Plan`
            was true for each of its values. It becomes False for good just before another record
            is decoded; so whoever relies on it looks at it once it holds the records.
        is_native: Every record that was decoded so far is a plain dict of values that its
            serializer has itself, so that none of them is NumPy's. It becomes False as `is_typed`
            does.
    """

    def __init__(self, store: Records) -> None:
        self._store = store
        self._typed_lock = threading.Lock()
        self.is_typed = self.is_native = False
        self._watch()
        self._decoders: dict[int, Decode] = {}
        start = getattr(store.serializer, "exact_start", None)
        self._exact_start = None if start is None else bytes([start])
        self._unknown: dict[tuple[int | Member, Member], UnknownFields | None] = {}

    def _watch(self) -> None:
        """Have the codec tell of records that are not typed or native, if others are."""
        sole = self._store.members.sole
        if sole is None or self._store.cloner.is_sharing:
            # What readers share they may change to anything.
            return
        # That of pickle is generated, too, and says nothing of the values.
        is_tiered = isinstance(self._store.serializer, GeneratedSerializer)
        if is_tiered and isinstance(sole.codec, GeneratedCodec):
            sole.codec.on_slow = self._note_untyped
            self.is_native = sole.shape.kind == "dict"
            self.is_typed = not self.is_native

    def _note_untyped(self) -> None:
        """Note that a record may have values of other types than its class says."""
        if not self.is_typed and not self.is_native:
            return
        with self._typed_lock:
            was_so = self.is_typed or self.is_native
            self.is_typed = self.is_native = False
        hook = self._store.on_untyped
        if was_so and hook is not None:
            hook()

    def decode(self, writer_id: int, payload: bytes, identity: int) -> Any:
        """Make a record of bytes that the given writer wrote.

        Raises:
            DecodeError: The bytes do not fit the class; it names collection and record.
        """
        try:
            try:
                decoder = self._decoders[writer_id]
            except KeyError:
                decoder = self._decoders[writer_id] = self._decoder(writer_id)
            return decoder(payload, identity)
        except DecodeError as error:
            self._locate(error, identity, writer_id, payload)
            raise

    def _locate(self, error: DecodeError, number: int, writer_id: int, payload: bytes) -> None:
        """Put the record's collection and identity into an error."""
        key = self._store.key
        identity: Any = number
        if key is not None:
            identity = None
            with contextlib.suppress(MemdbError):
                # The class can't be made; the dict of what was stored may.
                schema = self._schema(writer_id)
                codec = self._serializer(schema).codec(self._store.dict_shape, schema)
                identity = key.of(codec.decode(payload, 0))
        locate(error, self._store.name, identity)

    def is_old(self, writer_id: int) -> bool:
        """Whether versions of a writer are in a form from before the present one."""
        if self.own_member(writer_id) is not None:
            return False
        schema = self._schema(writer_id)
        member = self._store.members.of_writer(schema)
        return member is None or not self._is_newer(member, writer_id, schema)

    def own_member(self, writer_id: int) -> Member | None:
        """Return the member that is this writer itself."""
        found = [member for member in self._store.members if member.writer_id == writer_id]
        return found[0] if found else None

    def _decoder(self, writer_id: int) -> Decode:
        member = self.own_member(writer_id)
        if member is not None:
            return member.codec.decode
        self._note_untyped()
        schema = self._schema(writer_id)
        target = self._target(schema)
        decode = make_decoder(self._serializer(schema), target.shape, schema, self._store.evolution)
        if self._store.key is None or is_current(target.schema, schema):
            return decode
        return self._keeping_key(decode)

    def _keeping_key(self, decode: Decode) -> Decode:
        """Return the decoder with a check that a record is still found by its key."""
        store = self._store
        key = store.key
        assert key is not None

        def checked(payload: bytes, identity: int) -> Any:
            record = decode(payload, identity)
            try:
                numbers = key.numbers(key.encode(key.of(record)))
            except IdentityError as error:
                raise DecodeError(str(error), field=key.fields[0]) from error
            if identity not in numbers:
                raise DecodeError(
                    f"{', '.join(key.fields)}: upgrading the record changed its key, by which it"
                    " could not be found any more. Leave the key as it is, or copy the records"
                    " into a new collection.",
                    field=key.fields[0],
                )
            return record

        return checked

    def _target(self, schema: Mapping[str, Any]) -> Member:
        member = self._store.members.of_writer(schema)
        if member is None:
            tag = schema.get("tag", schema["class"])
            raise DecodeError(
                f"{self._store.name}: a record is of the class {tag!r}, which the collection was"
                f" not asked for with. Add the class, or say what it is called now:"
                f" aliases={{{tag!r}: ...}}."
            )
        return member

    def _schema(self, writer_id: int) -> Mapping[str, Any]:
        writers = self._store.engine.writers
        # A list: an interrupt (Ctrl-C) that hits the closing of a generator would be lost.
        schemas: list[Mapping[str, Any]] = [
            entry["schema"] for entry in writers if entry["id"] == writer_id
        ]
        if not schemas:
            raise DamageError(
                f"{self._store.name}: a record was written by the writer {writer_id}, which the"
                " file's catalogue does not have. Restore the file from a copy."
            )
        return schemas[0]

    def _serializer(self, schema: Mapping[str, Any]) -> Serializer:
        store = self._store
        name = schema["serializer"]
        if name == store.serializer.name:
            return store.serializer
        if is_harmless(name) or name in store.engine.config.trusted_serializers:
            return get_serializer(name)
        # What a file names may run code: it must be named by the program too.
        raise DecodeError(
            f"{store.name}: a record was written with the serializer {name!r}, which can run"
            f" code that the file chooses. If you trust the file, open it with"
            f" trusted_serializers=[{name!r}]."
        )

    # -- fields that the program does not know ---------------------------------------------

    def encode_over(
        self, member: Member, record: Any, writer: int | Member, payload: bytes
    ) -> bytes:
        """Return a record as bytes that take the place of ``payload``.

        What a newer program has stored in fields that this one does not know is kept.

        Args:
            member, record: What to encode.
            writer: Number of what wrote the payload, or the member that did in a transaction.
            payload: The bytes before.

        Raises:
            EncodeError: A value can't be held.
        """
        is_own = writer is member or writer == member.writer_id
        if is_own and self._exact_start is not None and payload[:1] != self._exact_start:
            # Of our own and of the fast tier, which has the fields of the class and no others.
            return member.codec.encode(record)
        try:
            unknown = self._unknown[writer, member]
        except KeyError:
            unknown = self._unknown[writer, member] = self._unknown_fields(member, writer)
        if unknown is not None:
            try:
                kept = unknown.of(payload)
            except DecodeError:
                # A record that can't be read is being replaced: there is nothing to keep.
                kept = None
            if kept is not None:
                return unknown.encode(record, kept)
        return member.codec.encode(record)

    def _unknown_fields(self, member: Member, writer: int | Member) -> UnknownFields | None:
        if member.shape.kind == "dict":
            return None
        schema = writer.schema if isinstance(writer, Member) else self._schema(writer)
        if self._store.members.of_writer(schema) is not member:
            return None
        is_own = writer is member or writer == member.writer_id
        if not is_own and not self._is_newer(member, writer, schema):
            return None
        return unknown_fields(
            self._serializer(schema),
            member.shape,
            schema,
            self._store.evolution,
            into=self._store.serializer,
        )

    @staticmethod
    def _is_newer(member: Member, writer: int | Member, schema: Mapping[str, Any]) -> bool:
        """Whether a writer knows more than we: by version, by the order of the writers else."""
        theirs, ours = schema.get("version", 1), member.schema.get("version", 1)
        if theirs != ours:
            return bool(theirs > ours)
        number = writer.writer_id if isinstance(writer, Member) else writer
        return 0 < member.writer_id < number


def locate(error: DecodeError | EncodeError, collection: str, identity: Any) -> None:
    """Put collection and identity, None where it is not known, into an error and its message."""
    if not error.collection:
        error.collection, error.identity = collection, identity
        record = "" if identity is None else f" {shown(identity)}"
        text = str(error.args[0]).removeprefix(f"{collection}: ")
        error.args = (f"{collection}{record}: {text}",)
