"""Natural keys as bytes, and the number that stands for a key in the pointer.

A pointer has eight bytes for the identity. A record with a natural key is found under its *number*,
a 63-bit hash of the key and its type, so that an index of numbers can be made from the pointers
alone and no record need be read. Two keys may have one number; whoever looks a key up compares it
with that of the record found.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from types import NoneType
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from xxhash import xxh3_64_intdigest

from memdb.errors import IdentityError, shown

#: How deep the tuples of a key may be nested in each other.
MAX_KEY_DEPTH = 20

#: How many numbers a key may have besides the first one, which another key may have taken.
MAX_DISPLACEMENT = 15

#: Of bytes and a seed, 64 bits.
Digest = Callable[[bytes, int], int]

digest: Digest = xxh3_64_intdigest

# Do not change: part of the file format. The tag of a key's type goes into the seed of its hash
# (for the parts of a tuple before their bytes), so that 1, "1", b"1" and True stay apart.
_NONE, _BOOL, _INT, _STR, _BYTES, _DATE, _DATETIME, _UUID, _TUPLE = range(1, 10)
TAG_OF_STR = _STR
#: One more than the highest tag.
TAGS = 10
_SEED_SHIFT = 8
NUMBER_MASK = 2**63 - 1

# A number is a whole one of 63 bits, the seed one of 48: room for tag and displacement.
MAX_SEED = 2**48 - 1


def _int_bytes(value: int) -> bytes:
    # Hexadecimal: no limit of digits, and linear.
    return b"%x" % value


def _text_bytes(value: str) -> bytes:
    return value.encode("utf-8", "surrogatepass")


def _datetime_bytes(value: datetime) -> bytes:
    # The zone by its name and never by its offset, which new zone data may change.
    zone = value.tzinfo
    if zone is None:
        place = ""
    elif zone is UTC:
        place = "utc"
    elif type(zone) is ZoneInfo and zone.key is not None:
        place = f"zone {zone.key}"
    elif type(zone) is timezone:
        offset, *name = zone.__getinitargs__()  # type: ignore[attr-defined]
        place = " ".join(["offset", str(offset // timedelta(microseconds=1)), *name])
    else:
        raise IdentityError(
            f"a time with a tzinfo of type {type(zone).__qualname__} can't be part of a key."
            " Use zoneinfo.ZoneInfo with a key, or datetime.timezone."
        )
    return _text_bytes(f"{value.replace(tzinfo=None).isoformat()} {value.fold} {place}")


def _tuple_bytes(value: tuple[Any, ...], depth: int = 1) -> bytes:
    if depth > MAX_KEY_DEPTH:
        raise IdentityError("a key is nested too deep. Use a flat tuple.")
    parts = []
    for part in value:
        if type(part) is tuple:
            tag, content = _TUPLE, _tuple_bytes(part, depth + 1)
        else:
            tag, content = encode_key(part)
        parts.append(b"%c%x:" % (tag, len(content)))
        parts.append(content)
    return b"".join(parts)


_ENCODERS: dict[type, tuple[int, Callable[[Any], bytes]]] = {
    NoneType: (_NONE, lambda _: b""),
    bool: (_BOOL, lambda value: b"1" if value else b"0"),
    int: (_INT, _int_bytes),
    str: (_STR, _text_bytes),
    bytes: (_BYTES, lambda value: value),
    date: (_DATE, lambda value: value.isoformat().encode()),
    datetime: (_DATETIME, _datetime_bytes),
    UUID: (_UUID, lambda value: value.bytes),
    tuple: (_TUPLE, _tuple_bytes),
}


def encode_key(key: Any) -> tuple[int, bytes]:
    """Return the tag of a key's type and the key as bytes; equal exactly for the same keys.

    Raises:
        IdentityError: It is of a type that can't be a key.

    >>> encode_key("1") == encode_key(1)
    False
    """
    try:
        tag, encode = _ENCODERS[type(key)]
    except KeyError:
        raise IdentityError(_refusal(key)) from None
    return tag, encode(key)


def numbers_of(
    tag: int, content: bytes, seed: int, *, is_displaced: bool, digest: Digest = digest
) -> tuple[int, ...]:
    """Return the numbers under which the record of a key may be, the first one first.

    Args:
        tag, content: As `encode_key` gives them.
        seed: The collection's.
        is_displaced: Whether any key of the collection is not under its first number.
        digest: The hash of the collection.
    """
    places = range(MAX_DISPLACEMENT + 1 if is_displaced else 1)
    return tuple(
        [digest(content, first_seed(seed, tag) | place << 4) & NUMBER_MASK or 1 for place in places]
    )


def first_seed(seed: int, tag: int) -> int:
    """Return the seed of the hash that gives the first number of keys of one type."""
    return seed << _SEED_SHIFT | tag


def _refusal(key: object) -> str:
    cls = type(key)
    if cls is float:
        # 1.0 and 1 would be one key in a dict and two in a file; nan is not even itself.
        return f"{shown(key)} is a float, which can't be a key. Use an int or a str."
    return (
        f"a value of type {cls.__module__}.{cls.__qualname__} can't be a key.".replace(
            "builtins.", ""
        )
        + " Use a str, int, bytes, bool, date, datetime, UUID, None, or a tuple of these."
    )
