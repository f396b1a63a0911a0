"""Pickle: any value that pickle can hold, for files that nobody else can write.

**Danger.** Reading a pickle can run any code: whoever can change the file, or make a program open
one of theirs, controls the process. Use it only by name, for data of your own, and prefer to
convert the one value that the other serializers refuse.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any, NoReturn

from memdb.errors import DecodeError, EncodeError, RecordTypeError
from memdb.serializers._build import Builder, get_attribute
from memdb.serializers._generate import GeneratedCodec, wrong_class
from memdb.serializers._protocol import Codec
from memdb.serializers._pydantic import unusual_state
from memdb.serializers._shape import Shape

# Do not change: part of the file format.
PROTOCOL = 5


class PickleSerializer:
    """Pickles a dict of the record's fields by name; the record's own class is not in the bytes.

    What comes back is what the values' own pickling support makes of them. Reading runs code that
    the file names: see the module's warning.
    """

    name = "pickle"

    def codec(self, shape: Shape, writer: Mapping[str, Any] | None = None) -> Codec:
        """Return a codec for the class; the writer schema is not needed, fields are by name."""
        is_dict = shape.kind == "dict"
        build = None if is_dict else Builder(shape, is_root=True)
        names = tuple(field.name for field in shape.payload_fields)
        identity_name = shape.identity
        written = [] if writer is None else [name for name, _ in writer["fields"]]
        tag = writer.get("tag") if is_dict and writer is not None else None
        # A typed record's own field of that name goes before the identity, which it has not.
        key = None if identity_name in written else identity_name

        def encode(record: Any) -> bytes:
            cls = type(record)
            if cls is not shape.cls:
                raise RecordTypeError(wrong_class(record, shape))
            if is_dict:
                values = {key: value for key, value in record.items() if key != identity_name}
            else:
                values = {name: get_attribute(record, name) for name in names}
                if shape.kind == "pydantic":
                    values |= unusual_state(record, identity_name)
            try:
                return pickle.dumps(values, PROTOCOL)
            except Exception as error:
                _refuse(values, error)

        def decode(data: bytes, identity: int) -> Any:
            values = self.values_of(data, shape.name)
            if build is None:
                if tag is not None:
                    values = {"__class__": tag, **values}
                if key is not None:
                    values[key] = identity
                return values
            try:
                return build(values, identity)
            except DecodeError:
                raise
            except Exception as error:
                raise _wrong(shape.name, error) from error

        return GeneratedCodec(encode, decode)

    def values_of(self, data: bytes, name: str) -> dict[str, Any]:
        """Return the values by field name that a payload holds.

        Args:
            data: The payload.
            name: What to call the class in an error.

        Raises:
            DecodeError: The payload is no such pickle.
        """
        try:
            values = pickle.loads(data)
            if type(values) is not dict:
                raise TypeError("the pickle holds no dict of fields")
        except Exception as error:
            raise _wrong(name, error) from error
        return values


def _wrong(name: str, error: Exception) -> DecodeError:
    return DecodeError(
        f"the payload can't be unpickled as {name} ({type(error).__name__}). "
        "A class that it names was moved or removed, or it is no pickle."
    )


def _refuse(values: dict[Any, Any], error: Exception) -> NoReturn:
    """Raise for the first value that can't be pickled by itself."""
    for name, value in values.items():
        try:
            pickle.dumps(value, PROTOCOL)
        except Exception:
            cls = type(value)
            raise EncodeError(
                f"{name}: can't pickle a value of type {cls.__module__}.{cls.__qualname__} "
                f"({type(error).__name__}). Convert it to what pickle supports.",
                field=str(name),
            ) from error
    raise EncodeError(
        f"the record can't be pickled ({type(error).__name__}). Convert its values to what pickle "
        "supports."
    ) from error
