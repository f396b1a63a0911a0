"""Codec: what the generated functions of one class are held by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from memdb.serializers._reader import FieldReader


class GeneratedCodec:
    """A codec whose ``encode`` and ``decode`` are functions generated for one class.

    Attributes:
        omits_identity: The payload does not depend on the identity field, so that the bytes of
            two states of a record tell whether they differ.
        on_slow: Called, with no lock of the codec's held, before a payload is decoded that the
            fast tier did not write as it writes now; None for nothing. That of plain dicts says of
            their values that the serializer has them itself, as JSON has numbers and texts.
    """

    __slots__ = ("_make_reader", "decode", "encode", "omits_identity", "on_slow")

    def __init__(
        self,
        encode: Callable[[Any], bytes],
        decode: Callable[[bytes, int], Any],
        *,
        omits_identity: bool = True,
        make_reader: Callable[[tuple[str, ...], object], FieldReader | None] | None = None,
    ) -> None:
        self.encode = encode
        self.decode = decode
        self.omits_identity = omits_identity
        self.on_slow: Callable[[], object] | None = None
        self._make_reader = make_reader

    def field_reader(
        self, names: tuple[str, ...], absent: object = msgspec.UNSET
    ) -> FieldReader | None:
        """Return what decodes nothing but some fields of the payloads that this codec writes.

        Args:
            names: Of fields, each once, without the identity; of plain dicts any keys.
            absent: Stands for a key that a plain dict has not.

        Returns:
            None where only a whole record tells what a field of it is.

        Cost: generates code, a millisecond for a class.
        """
        return None if self._make_reader is None else self._make_reader(names, absent)
