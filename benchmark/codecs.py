"""Encoding and decoding the record without a file, in each of the ways that a record can take."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from benchmark.forms import KINDS, PAST, make_of, past_class, present_class
from benchmark.peers.codecs import FLOORS
from benchmark.records import make_distinct, repeat
from benchmark.timing import Contender, time_each, time_pairs
from memdb.serializers import get_serializer, make_decoder, shape_of, writer_schema

SERIALIZERS = ("binary", "msgpack", "json", "pickle")


@dataclass
class CodecContender:
    """A function over many values; each round is one pass."""

    name: str
    timed: Callable[[], int]
    operations: int
    has_gc_rounds: bool = False

    def round(self, workload: str) -> tuple[int, int]:
        """Do one pass."""
        return self.timed(), self.operations


def codec_contenders(count: int) -> list[Contender]:
    """Return the codecs of each serializer for both kinds of class, and the floor."""
    ways = [
        way
        for kind in KINDS
        for serializer in SERIALIZERS
        for way in _ways(serializer, kind, count)
    ]
    # First all encoders, then all decoders, each way for all serializers.
    order = list(dict.fromkeys(name.partition(": ")[0] for name, _ in ways))
    ways.sort(key=lambda way: order.index(way[0].partition(": ")[0]))
    ways += _floors(count)
    return [CodecContender(name, timed, count) for name, timed in ways]


_Way = tuple[str, Callable[[], int]]


def _ways(serializer: str, kind: str, count: int) -> Iterator[_Way]:
    cls = present_class(kind)
    codec = get_serializer(serializer).codec(shape_of(cls))
    records = make_of(cls, count)
    yield f"encode: {serializer}, {kind}", _encoding(codec.encode, records, count)
    # A value of another type than its annotation's, which only the exact tier can hold.
    others = [_with_count(record, record.count + 0.5) for record in make_of(cls, count)]
    yield f"encode exactly: {serializer}, {kind}", _encoding(codec.encode, others, count)
    yield f"decode: {serializer}, {kind}", _decoding(codec.encode, codec.decode, records, count)
    yield (
        f"decode exactly: {serializer}, {kind}",
        _decoding(codec.encode, codec.decode, others, count),
    )
    for form in PAST:
        past = shape_of(past_class(kind, form))
        schema = writer_schema(past, get_serializer(serializer))
        decode = make_decoder(get_serializer(serializer), shape_of(cls), schema, form.evolution)
        encode = get_serializer(serializer).codec(past).encode
        yield (
            f"decode, {form.name}: {serializer}, {kind}",
            _decoding(encode, decode, make_of(past.cls, count), count),
        )


def _with_count(record: Any, count: object) -> Any:
    record.count = count
    return record


def _encoding(encode: Callable[[Any], bytes], records: list[Any], count: int) -> Callable[[], int]:
    values = repeat(records, count)
    return lambda: time_each(encode, values)


def _decoding(
    encode: Callable[[Any], bytes],
    decode: Callable[[bytes, int], Any],
    records: list[Any],
    count: int,
) -> Callable[[], int]:
    pairs = [(encode(record), number) for number, record in enumerate(records, 1)]
    decode(*pairs[0])
    values = repeat(pairs, count)
    return lambda: time_pairs(decode, values)


def _floors(count: int) -> Iterator[_Way]:
    for name, (cls, encode, decode) in FLOORS.items():
        records = make_distinct(cls)
        yield f"encode: {name}", _encoding(encode, records, count)
        payloads = repeat(list(map(encode, records)), count)
        yield f"decode: {name}", _passing(decode, payloads)


def _passing(decode: Callable[[bytes], Any], payloads: list[bytes]) -> Callable[[], int]:
    return lambda: time_each(decode, payloads)
