"""Binary: the fields by position under the stored writer schema, packed as MessagePack.

By name in meaning and without the names in the bytes: the writer schema, stored once, says which
position holds which field. Nested records are packed by name, and so are plain dicts.
"""

from __future__ import annotations

import msgspec

from memdb.serializers._generate import GeneratedSerializer
from memdb.serializers._msgpack import msgpack_format


class BinarySerializer(GeneratedSerializer):
    """Packs a record as a MessagePack array of its fields; the smallest and fastest."""

    name = "binary"
    _format = msgpack_format(msgspec.msgpack.Encoder(uuid_format="bytes"))
    _layout = "positional"
