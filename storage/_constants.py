"""Every number of the file format; `docs/format.md` explains them, this module only names them.

header page   0 magic 8s | 8 version u4 | 12 page u4 | 16 file id u8 | 24 created u8
              | 32 reserved 24s | 56 checksum 8s ... 2048 holder note 256s
root          0 checksum 8s | 8 magic 4s | 12 flags u4 | 16 generation u8 | 24 log end u8
              | 32 checkpoint u8 | 40 catalogue u8 | 48 sequence u8 | 56 timestamp u8
              | 64 boot id 16s | 80 reserved 48s
key slot      0 checksum 8s | 8 magic 4s | 12 kdf u4 | 16 generation u8 | 24 n u8 | 32 r u4
              | 36 p u4 | 40 flags u4 | 44 reserved 4s | 48 salt 32s | 80 nonce 12s
              | 92 wrapped data key 48s | 140 check 16s | 156 reserved 36s
block         0 checksum 8s | 8 magic 4s | 12 count u4 | 16 sequence u8 | 24 timestamp u8
              | 32 payload bytes u8, then the pointers, then the payload
pointer       0 identity i8 | 8 offset u8 | 16 length u4 | 20 checksum u4 | 24 collection u2
              | 26 writer u2 | 28 kind u1 | 29 flags u1 | 30 reserved u2
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct

import numpy as np

FORMAT_VERSION = 1
ENCRYPTED_FORMAT_VERSION = 2
MAGIC = b"\x93MEMDB\r\n"
PAGE_BYTES = 4096
ROOT_OFFSETS = (PAGE_BYTES, 2 * PAGE_BYTES)
LOG_START = 3 * PAGE_BYTES
ALIGNMENT = 8

HEADER = Struct("<8sIIQQ24s8s")
HEADER_CHECKSUM_OFFSET = 56
HOLDER_OFFSET = 2048
HOLDER_BYTES = 256

# In sectors of their own, so that the writing of one can't tear the other.
KEY_SLOT_OFFSETS = (2560, 3072)
KEY_SLOT = Struct("<8s4sIQQIII4s32s12s48s16s36s")
KEY_SLOT_MAGIC = b"MDBS"
KEY_SLOT_MARKED = 1
KDF_NONE = 1
KDF_SCRYPT = 2
KEY_BYTES = 32
SALT_BYTES = 32
NONCE_BYTES = 12
KEY_CHECK_BYTES = 16
KEY_CHECK_INFO = b"memdb check "
WRAPPING_INFO = b"memdb wrapping"

# A sealed record or block: the session that it was sealed in, the ciphertext, the tag.
SESSION_BYTES = 8
TAG_BYTES = 16
SEAL_BYTES = SESSION_BYTES + TAG_BYTES
NONCE = Struct("<4sQ")
SUBKEY_INFO = b"memdb session "
KEY_HASH_INFO = b"memdb natural keys"
# The most that the AES-GCM of `cryptography` takes at once.
MAX_SEALED_BYTES = 2**31 - 1

ROOT = Struct("<8s4sIQQQQQQ16s48s")
ROOT_MAGIC = b"MDBR"
ROOT_CLEAN = 1
BOOT_ID_BYTES = 16

BLOCK = Struct("<8s4sIQQQ")
COMMIT_MAGIC = b"MDBC"
CHECKPOINT_MAGIC = b"MDBP"
CATALOGUE_MAGIC = b"MDBK"
INDEX_MAGIC = b"MDBI"
MAGIC_OFFSET = 8

# The header without its checksum and one pointer: a commit of a single version in one pack. What
# is the same for each (magic and count; the pointer's last fields) is bytes, as an integer of
# more than 30 bits takes four times as long to pack.
SINGLE_COMMIT = Struct("<8sQQQqQII8s")
POINTER_END = Struct("<HHBBH")
SINGLE_MAGIC_AND_COUNT = COMMIT_MAGIC + (1).to_bytes(4, "little")
CHECKSUM_BYTES = 8

POINTER = Struct("<qQIIHHBBH")
POINTER_DTYPE = np.dtype(
    [
        ("identity", "<i8"),
        ("offset", "<u8"),
        ("length", "<u4"),
        ("checksum", "<u4"),
        ("collection", "<u2"),
        ("writer", "<u2"),
        ("kind", "u1"),
        ("flags", "u1"),
        ("reserved", "<u2"),
    ]
)
POINTER_LAST_OF_COMMIT = 1
POINTER_SEALED = 2
MAX_PAYLOAD_BYTES = 2**32 - 1
MAX_CATALOGUE_NUMBER = 2**16 - 1

# A checkpoint's payload: checksum, previous, first slot, numbers of segments, runs, collections.
CHECKPOINT = Struct("<8sQQQQQ")
PAIR_DTYPE = np.dtype([("key", "<u8"), ("value", "<u8")])
RUN_NANOSECONDS = 1_000_000

# What the arrays of a saved index may be of.
INDEX_DTYPES = ("<i8", "<u8", "<f8", "<u4", "|u1")


class Kind(IntEnum):
    """What a version did. Do not change: part of the file format."""

    INSERTED = 1
    UPDATED = 2
    DELETED = 3


HEADER_BYTES = HEADER.size
ROOT_BYTES = ROOT.size
BLOCK_BYTES = BLOCK.size
POINTER_BYTES = POINTER.size
KEY_SLOT_BYTES = KEY_SLOT.size

assert (HEADER_BYTES, ROOT_BYTES, BLOCK_BYTES, POINTER_BYTES) == (64, 128, 40, 32)
assert (KEY_SLOT_BYTES, NONCE.size) == (192, NONCE_BYTES)
assert POINTER_DTYPE.itemsize == POINTER_BYTES
assert CHECKSUM_BYTES + SINGLE_COMMIT.size == BLOCK_BYTES + POINTER_BYTES
