"""What opens an encrypted file, written from docs/format.md alone: nothing of memdb is used."""

from __future__ import annotations

import hashlib
import struct
import unicodedata
from dataclasses import dataclass
from typing import Any

import xxhash
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

SLOT_BYTES = 192


@dataclass
class KeySlot:
    """A valid key slot."""

    offset: int
    derivation: int
    generation: int
    n: int
    r: int
    p: int
    flags: int
    salt: bytes
    nonce: bytes
    wrapped: bytes
    check: bytes
    authenticated: bytes


def read_slots(data: bytes) -> list[KeySlot]:
    """Return the valid key slots of a file."""
    slots = []
    for offset in (2560, 3072):
        slot = data[offset : offset + SLOT_BYTES]
        checksum, magic, derivation, generation, n, r, p, flags, reserved = struct.unpack_from(
            "<8s4sIQQIII4s", slot
        )
        if magic != b"MDBS" or checksum != xxhash.xxh3_64_digest(slot[8:], 0):
            continue
        if any(reserved) or any(slot[156:]) or offset != 2560 + 512 * (generation % 2):
            raise ValueError(f"key slot at {offset}")
        parts = (slot[48:80], slot[80:92], slot[92:140], slot[140:156])
        authenticated = data[16:24] + slot[8:80]
        numbers = (derivation, generation, n, r, p, flags)
        slots.append(KeySlot(offset, *numbers, *parts, authenticated))
    return slots


def _hkdf(key: bytes, salt: bytes, info: bytes) -> bytes:
    return HKDF(algorithm=SHA256(), length=32, salt=salt, info=info).derive(key)


def _wrapping_key(slot: KeySlot, secret: bytes | str) -> bytes:
    if slot.derivation == 1:
        assert isinstance(secret, bytes)
        return _hkdf(secret, slot.salt, b"memdb wrapping")
    if isinstance(secret, str):
        secret = unicodedata.normalize("NFC", secret).encode("utf-8", "surrogatepass")
    return Scrypt(salt=slot.salt, length=32, n=slot.n, r=slot.r, p=slot.p).derive(secret)


class Opener:
    """Opens what is sealed in one file."""

    def __init__(self, data: bytes, secret: bytes | str) -> None:
        self._file_id = data[16:24]
        for slot in read_slots(data):
            wrapping = AESGCM(_wrapping_key(slot, secret))
            try:
                self.data_key = wrapping.decrypt(slot.nonce, slot.wrapped, slot.authenticated)
            except InvalidTag:
                continue
            check = _hkdf(self.data_key, b"", b"memdb check " + self._file_id)
            if check[:16] != slot.check:
                raise ValueError(f"check of the key slot at {slot.offset}")
            self.may_be_plain = bool(slot.flags & 1)
            return
        raise ValueError("no key slot opens")

    def open(self, magic: bytes, number: int, authenticated: bytes, sealed: bytes) -> bytes:
        """Return what a record, a catalogue or an index was in clear."""
        subkey = _hkdf(self.data_key, sealed[:8], b"memdb session " + self._file_id)
        nonce = magic + struct.pack("<Q", number)
        return AESGCM(subkey).decrypt(nonce, sealed[8:], authenticated)

    def key_digest(self, content: bytes, seed: int) -> int:
        """Return the hash of a natural key."""
        secret = _hkdf(self.data_key, b"", b"memdb natural keys")
        salt = struct.pack("<Q", seed)
        hashed: Any = hashlib.blake2b(content, digest_size=8, key=secret, salt=salt)
        return int.from_bytes(hashed.digest(), "little")
