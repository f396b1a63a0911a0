"""A serializer of a user's own, reached by the dotted path to ``make``."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from memdb.errors import DecodeError, EncodeError
from memdb.serializers import Shape

PATH = "tests.support.own_serializer:make"


@dataclass
class ReprCodec:
    """Python literals as text."""

    shape: Shape

    def encode(self, record: Any, /) -> bytes:
        """Return the fields as the text of a dict."""
        values = {f.name: getattr(record, f.name) for f in self.shape.payload_fields}
        text = repr(values)
        try:
            ast.literal_eval(text)
        except (ValueError, SyntaxError) as error:
            raise EncodeError("a value is no literal") from error
        return text.encode()

    def decode(self, data: bytes, identity: int, /) -> Any:
        """Read the text back."""
        try:
            values = ast.literal_eval(data.decode())
        except (ValueError, SyntaxError) as error:
            raise DecodeError("no literal") from error
        if self.shape.identity:
            values[self.shape.identity] = identity
        return self.shape.cls(**values)


class ReprSerializer:
    """Makes the codecs."""

    name = PATH

    def codec(self, shape: Shape, writer: Mapping[str, Any] | None = None) -> ReprCodec:
        """Return a codec for the class."""
        return ReprCodec(shape)


def make() -> ReprSerializer:
    """Return the serializer."""
    return ReprSerializer()


def make_nothing() -> object:
    """Return what is no serializer."""
    return object()


def make_misnamed() -> ReprSerializer:
    """Return a serializer under a name that does not lead to it."""
    serializer = ReprSerializer()
    serializer.name = "other"
    return serializer


NOT_CALLABLE = 1
