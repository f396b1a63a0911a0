"""The catalogue as bytes and back, and whether it has the structure that the format gives it."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import orjson

from memdb.errors import ConfigError, DamageError
from memdb.storage._constants import INDEX_DTYPES, MAX_CATALOGUE_NUMBER

_Number = Annotated[int, msgspec.Meta(ge=1, le=MAX_CATALOGUE_NUMBER)]
_Text = Annotated[str, msgspec.Meta(min_length=1)]
_Pairs = list[tuple[str, str]]


class _Key(msgspec.Struct):
    fields: Annotated[list[_Text], msgspec.Meta(min_length=1)]
    hash: str
    seed: Annotated[int, msgspec.Meta(ge=0, lt=2**48)]
    displaced: bool = False
    former: list[Annotated[list[_Text], msgspec.Meta(min_length=1)]] = []


class _Collection(msgspec.Struct):
    id: _Number
    name: _Text
    key: _Key | msgspec.UnsetType = msgspec.UNSET


class _Enum(msgspec.Struct):
    kind: str
    members: list[tuple[str, Any]]
    by_name: bool = False


class _Schema(msgspec.Struct):
    serializer: _Text
    class_: str = msgspec.field(name="class")
    kind: str
    fields: _Pairs
    records: dict[str, _Pairs] = {}
    enums: dict[str, _Enum] = {}
    version: Annotated[int, msgspec.Meta(ge=1)] = 1
    tag: str | msgspec.UnsetType = msgspec.UNSET


class _Writer(msgspec.Struct):
    id: _Number
    collection: _Number
    schema: _Schema


class _Index(msgspec.Struct):
    collection: _Number
    name: _Text
    slot: Annotated[int, msgspec.Meta(ge=1)]
    offset: Annotated[int, msgspec.Meta(ge=1, lt=2**62)]
    layout: list[tuple[str, str, Annotated[int, msgspec.Meta(ge=0, lt=2**56)]]]
    meta: dict[str, Any]


class _Origin(msgspec.Struct):
    file: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{16}$")]
    slot: Annotated[int, msgspec.Meta(ge=1)]
    time: Annotated[int, msgspec.Meta(ge=0)]
    archive: str | msgspec.UnsetType = msgspec.UNSET


class _Catalogue(msgspec.Struct):
    collections: list[_Collection]
    writers: list[_Writer]
    indexes: list[_Index] = []
    origin: _Origin | msgspec.UnsetType = msgspec.UNSET


def pack_catalogue(catalogue: dict[str, Any]) -> bytes:
    """Return the catalogue as JSON.

    Raises:
        ConfigError: It has a text or number that JSON can't hold.
    """
    try:
        return orjson.dumps(catalogue)
    except TypeError as error:
        raise ConfigError(
            f"the class can't be described in the file ({error}). Use names that are valid text,"
            " and a version of 64 bits."
        ) from error


def unpack_catalogue(body: bytes | memoryview, path: object = None, offset: int = 0) -> Any:
    """Return the catalogue of bytes whose checksum is right.

    Keys that this version does not know are kept; nothing else is taken on trust, since whoever
    writes a checksum may write anything.

    Args:
        body: JSON.
        path, offset: Of the file and of the block in it, for the error.

    Raises:
        DamageError: It is not what `docs/format.md` describes.
    """
    try:
        catalogue = orjson.loads(body)
        _refuse_contradictions(msgspec.convert(catalogue, _Catalogue))
    except ValueError as error:
        raise DamageError(
            f"{path}: the catalogue at byte {offset} is not what memdb writes ({error})."
            " Restore the file from a copy.",
            path=path,
            offset=offset,
        ) from error
    return catalogue


def _refuse_contradictions(catalogue: _Catalogue) -> None:
    collections = [each.id for each in catalogue.collections]
    writers = [each.id for each in catalogue.writers]
    names = [each.name for each in catalogue.collections]
    for what, found in (("collection", collections), ("writer", writers), ("name", names)):
        if len(set(found)) < len(found):
            raise ValueError(f"a {what} occurs twice")
    if not {each.collection for each in catalogue.writers} <= set(collections):
        raise ValueError("a writer of no collection")
    for index in catalogue.indexes:
        if index.collection not in collections:
            raise ValueError("an index of no collection")
        if not {dtype for _, dtype, _ in index.layout} <= set(INDEX_DTYPES):
            raise ValueError("an index of another dtype")
    for writer in catalogue.writers:
        for fields in (writer.schema.fields, *writer.schema.records.values()):
            if len({name for name, _ in fields}) < len(fields):
                raise ValueError("a field occurs twice")
