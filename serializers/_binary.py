"""Binary: the fields by position under the stored writer schema, packed as MessagePack.

By name in meaning and without the names in the bytes: the writer schema, stored once, says which
position holds which field. Nested records are packed by name, and so are plain dicts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from memdb.serializers._generate import make_codec
from memdb.serializers._msgpack import msgpack_format
from memdb.serializers._protocol import Codec
from memdb.serializers._shape import Shape


class BinarySerializer:
    """Packs a record as a MessagePack array of its fields; the smallest and fastest."""

    name = "binary"
    _format = msgpack_format(msgspec.msgpack.Encoder(uuid_format="bytes"))

    def codec(self, shape: Shape, writer: Mapping[str, Any] | None = None) -> Codec:
        """Return a codec for the class; ``Serializer.codec`` says the rest."""
        return make_codec(shape, writer, self._format, "positional")
