"""Bulk: some fields of very many records, read from the file without making the records.

For indexes that are built over records that are not in the cache. A record that the present class
has written in its fast tier is read by a field reader; every other one is decoded as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from memdb.indexes._order import ABSENT
from memdb.query._evaluate import value_at
from memdb.serializers._codec import GeneratedCodec
from memdb.storage import Array, Payloads

if TYPE_CHECKING:
    from memdb._records import Records
    from memdb.serializers._reader import FieldReader

Path = tuple[str | int, ...]


def values_of(
    store: Records, numbers: Sequence[int] | Array, slots: Array, paths: Sequence[Path]
) -> list[Any]:
    """Return what stands at some paths in records, in the order of ``slots``.

    Args:
        store: The collection.
        numbers: (n,) of integers, of the records.
        slots: (n,) of integers from 1, of their committed versions.
        paths: One or several.

    Returns:
        The value of each record, as in the record that `Records.record_at` makes; a tuple of
        values where there is not just one path. ABSENT where the path leads nowhere. The values
        are new objects, shared with no other reader.

    Raises:
        DamageError: The bytes of a record do not match their checksum.
        DecodeError: A record can't be made. One that could not be made for the sake of another
            field may be read all the same, if nobody but memdb has written it.

    Cost: for a field that is no record or container 250 ns a record, with the collector paused.
    """
    reading = _Reading(store, paths)
    found: list[Any] = []
    for part in store.engine.log.payloads(np.asarray(slots)):
        first = len(found)
        found += reading.values(part, numbers[first : first + len(part.payloads)])
    return found


class _Reading:
    """What is made once for all parts.

    Threads: each reading has one of its own.
    """

    def __init__(self, store: Records, paths: Sequence[Path]) -> None:
        self._paths = paths
        self._decoding = store.decoding
        # None with what has no such tier; its records are not read by fields.
        self._exact_start: int | None = getattr(store.serializer, "exact_start", None)
        self._fields_of: dict[int, _Fields | None] = {}

    def values(self, part: Payloads, numbers: Sequence[int] | Array) -> list[Any]:
        """Return the values of some records."""
        writers = part.writers
        if (writers == writers[0]).all():
            fields = self._fields(int(writers[0]))
            if fields is not None and not (part.first_bytes == self._exact_start).any():
                try:
                    return fields.values(part.payloads, numbers)
                except Exception:
                    # One by one, to find which is wrong.
                    pass
        columns = _listed(numbers), writers.tolist(), part.first_bytes.tolist(), part.payloads
        return [self._value(*row) for row in zip(*columns, strict=True)]

    def _value(self, number: int, writer_id: int, first_byte: int, payload: bytes) -> Any:
        fields = self._fields(writer_id)
        if fields is not None and first_byte != self._exact_start:
            try:
                return fields.values([payload], [number])[0]
            except Exception:
                # The whole has the error, or can be read all the same.
                pass
        record = self._decoding.decode(writer_id, payload, number)
        values = [value_at(record, path) for path in self._paths]
        return values[0] if len(values) == 1 else tuple(values)

    def _fields(self, writer_id: int) -> _Fields | None:
        try:
            return self._fields_of[writer_id]
        except KeyError:
            made = self._fields_of[writer_id] = self._made_fields(writer_id)
            return made

    def _made_fields(self, writer_id: int) -> _Fields | None:
        """Return what reads the records of a writer by fields, None where that can't be."""
        member = self._decoding.own_member(writer_id)
        if member is None or not isinstance(member.codec, GeneratedCodec):
            return None
        identity = member.shape.identity
        names = dict.fromkeys([str(path[0]) for path in self._paths if path[0] != identity])
        reader = member.codec.field_reader(tuple(names), ABSENT)
        return None if reader is None else _Fields(reader, tuple(names), self._paths, identity)


class _Fields:
    """Reads the values at some paths from payloads of one writer's fast tier."""

    def __init__(
        self, reader: FieldReader, names: Sequence[str], paths: Sequence[Path], identity: str | None
    ) -> None:
        self._many = reader.many
        self._names = names
        self._paths = paths
        self._identity = identity
        # What the reader gives is what is wanted.
        self._is_plain = [(name,) for name in names] == list(paths)

    def values(self, payloads: list[bytes], numbers: Sequence[int] | Array) -> list[Any]:
        """Return the values of some records; raise if one of them is not of the fast tier."""
        found = self._many(payloads)
        if self._is_plain:
            return found
        columns: dict[str | None, Sequence[Any]] = {self._identity: _listed(numbers)}
        if len(self._names) == 1:
            columns[self._names[0]] = found
        else:
            columns |= dict(zip(self._names, zip(*found, strict=True), strict=True))
        wanted = [_column(columns[str(path[0])], path[1:]) for path in self._paths]
        return wanted[0] if len(wanted) == 1 else list(zip(*wanted, strict=True))


def _listed(numbers: Sequence[int] | Array) -> Sequence[int]:
    """Return numbers as Python's own."""
    return numbers.tolist() if isinstance(numbers, np.ndarray) else numbers


def _column(values: Sequence[Any], path: Path) -> list[Any]:
    return [value_at(value, path) for value in values] if path else list(values)
