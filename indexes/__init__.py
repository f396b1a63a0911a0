"""Indexes: they know keys, numbers and slots, no files and no records' classes."""

from __future__ import annotations

from memdb.indexes._column import ColumnEntries
from memdb.indexes._hash import Bucket, HashEntries
from memdb.indexes._hashed import HashedIdentities
from memdb.indexes._identity import IdentityIndex, ScannedIdentities
from memdb.indexes._keys import (
    MAX_SEED,
    NUMBER_MASK,
    TAG_OF_STR,
    TAGS,
    Digest,
    digest,
    encode_key,
    first_seed,
    numbers_of,
)
from memdb.indexes._odd import SURE, are_sure, is_placed, is_sure, is_tame, is_usual
from memdb.indexes._order import (
    ABSENT,
    HIGHEST,
    Bounds,
    Reversed,
    bounds,
    descending,
    family_name,
    sort_key,
)
from memdb.indexes._sequel import Sequel, reach, sequel
from memdb.indexes._sorted import SortedEntries
from memdb.indexes._sorted_span import Span
from memdb.indexes._unique import NO_KEY, Duplicate, UniqueEntries

__all__ = [
    "ABSENT",
    "HIGHEST",
    "MAX_SEED",
    "NO_KEY",
    "NUMBER_MASK",
    "SURE",
    "TAGS",
    "TAG_OF_STR",
    "Bounds",
    "Bucket",
    "ColumnEntries",
    "Digest",
    "Duplicate",
    "HashEntries",
    "HashedIdentities",
    "IdentityIndex",
    "Reversed",
    "ScannedIdentities",
    "Sequel",
    "SortedEntries",
    "Span",
    "UniqueEntries",
    "are_sure",
    "bounds",
    "descending",
    "digest",
    "encode_key",
    "family_name",
    "first_seed",
    "is_placed",
    "is_sure",
    "is_tame",
    "is_usual",
    "numbers_of",
    "reach",
    "sequel",
    "sort_key",
]
