"""MessagePack, by name: readable by other programs, half the size of JSON.

Payloads are a map of the fields by name, or, in the exact tier, the byte 0xC1, which MessagePack
never uses, and the plain form.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from memdb.serializers._generate import NOT_EXACT, Format, GeneratedSerializer

# Do not change: part of the file format.
_EXACT = b"\xc1"

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode


def _encode_exact(plain: Any) -> bytes:
    return _EXACT + _encode(plain)


def _decode_exact(data: bytes) -> Any:
    return _decode(data[1:]) if data.startswith(_EXACT) else NOT_EXACT


def msgpack_format(encoder: msgspec.msgpack.Encoder) -> Format:
    """Return the format of the payloads that an encoder packs."""

    def decoder(wire: Any) -> Callable[[bytes], Any]:
        return msgspec.msgpack.Decoder(wire).decode

    return Format(
        "msgpack",
        encoder.encode,
        decoder,
        decoder,
        _encode,
        msgspec.msgpack.Decoder(dict[str, Any]).decode,
        _encode_exact,
        _decode_exact,
        _EXACT[0],
    )


class MsgpackSerializer(GeneratedSerializer):
    """Packs a record as a MessagePack map of its fields by name."""

    name = "msgpack"
    _format = msgpack_format(msgspec.msgpack.Encoder())
    _layout = "named"
