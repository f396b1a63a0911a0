"""Indexes: they know keys and slots, no files and no records' classes."""

from __future__ import annotations

from memdb.indexes._hashed import HashedIdentities
from memdb.indexes._identity import IdentityIndex, ScannedIdentities
from memdb.indexes._keys import (
    MAX_SEED,
    NUMBER_MASK,
    TAG_OF_STR,
    TAGS,
    digest,
    encode_key,
    first_seed,
    numbers_of,
)

__all__ = [
    "MAX_SEED",
    "NUMBER_MASK",
    "TAGS",
    "TAG_OF_STR",
    "HashedIdentities",
    "IdentityIndex",
    "ScannedIdentities",
    "digest",
    "encode_key",
    "first_seed",
    "numbers_of",
]
