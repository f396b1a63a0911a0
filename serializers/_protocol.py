"""The extension point: what a serializer and its codecs do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from memdb.serializers._shape import Shape


@runtime_checkable
class Codec(Protocol):
    """Turns the records of one class into bytes and back.

    Invariant: ``decode(encode(record), identity)`` is equal to the record in value and type, the
    identity apart; what can't be is refused by ``encode``.

    Threads: both may be called by any number of threads at once.
    """

    def encode(self, record: Any, /) -> bytes:
        """Return the record as bytes, which later changes of the record can't reach.

        Raises:
            EncodeError: A value can't be held; ``field`` is its path.
            RecordTypeError: The record is not exactly of the codec's class.
        """
        ...

    def decode(self, data: bytes, identity: int, /) -> Any:
        """Return a new record that shares nothing mutable with any other.

        Raises:
            DecodeError: The bytes are no record of the class; no other exception comes out.
        """
        ...


@runtime_checkable
class Serializer(Protocol):
    """Makes codecs.

    Attributes:
        name: What a file remembers; for a user's own the dotted path that gives the serializer.
    """

    name: str

    def codec(self, shape: Shape, writer: Mapping[str, Any] | None = None) -> Codec:
        """Return a codec for the class.

        Args:
            shape: The class as it is now.
            writer: The writer schema that the bytes were written with, as ``writer_schema``
                gives it; None for the class as it is now. Fields are matched by name: new ones
                get their default, removed ones are dropped.
        """
        ...
