"""Key slots: the data key of an encrypted file, wrapped by what the user gave.

All that is encrypted in a file is so with keys made from its data key, which is random and never
changes. A slot in the header page holds it, encrypted with a key that is made of the user's key or
password; to change that is to write the other slot and to wipe the one before.
"""

from __future__ import annotations

import hmac
import mmap
import os
import threading
from dataclasses import dataclass, replace
from typing import NamedTuple

from memdb.errors import ConfigError, DamageError, UnsupportedFormatError, WrongKeyError
from memdb.storage._blocks import checksum64
from memdb.storage._constants import (
    CHECKSUM_BYTES,
    KDF_NONE,
    KDF_SCRYPT,
    KEY_BYTES,
    KEY_CHECK_BYTES,
    KEY_CHECK_INFO,
    KEY_SLOT,
    KEY_SLOT_BYTES,
    KEY_SLOT_MAGIC,
    KEY_SLOT_MARKED,
    KEY_SLOT_OFFSETS,
    NONCE_BYTES,
    SALT_BYTES,
    WRAPPING_INFO,
)
from memdb.storage._file import File
from memdb.storage._secret import Secret

# RFC 7914 names the three; with these a guess takes a third of a second and 128 MiB.
SCRYPT_N = 2**17
SCRYPT_R = 8
SCRYPT_P = 1
_NONCE_OFFSET = 80
# Whoever writes a file may write any numbers: they must not take all memory or time there is.
_MAX_SCRYPT_BYTES = 1 << 30
_MAX_SCRYPT_P = 16


class Derivation(NamedTuple):
    """How the wrapping key is made of what the user gives.

    Attributes:
        kdf: `KDF_NONE` for a key, `KDF_SCRYPT` for a password.
        n, r, p: Of scrypt; 0 for a key.
        salt: 32 random bytes.
    """

    kdf: int
    n: int
    r: int
    p: int
    salt: bytes

    @classmethod
    def fresh(cls, secret: Secret) -> Derivation:
        """Return a derivation with a new salt for a kind of secret."""
        salt = os.urandom(SALT_BYTES)
        if secret.kind == "key":
            return cls(KDF_NONE, 0, 0, 0, salt)
        return cls(KDF_SCRYPT, SCRYPT_N, SCRYPT_R, SCRYPT_P, salt)

    @property
    def secret_kind(self) -> str:
        """The kind of secret that it is for."""
        return "key" if self.kdf == KDF_NONE else "password"

    def is_sane(self) -> bool:
        """Whether the numbers are such as memdb writes, or could."""
        if self.kdf == KDF_NONE:
            return (self.n, self.r, self.p) == (0, 0, 0)
        return (
            self.kdf == KDF_SCRYPT
            and self.n > 1
            and self.n & (self.n - 1) == 0
            and 0 < self.p <= _MAX_SCRYPT_P
            and 0 < 128 * self.n * self.r <= _MAX_SCRYPT_BYTES
        )

    def wrapping_key(self, secret: Secret) -> bytes:
        """Return the key that wraps the data key. Cost: for a password what scrypt costs."""
        if self.kdf == KDF_NONE:
            return derive(secret.reveal(), self.salt, WRAPPING_INFO)
        from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

        scrypt = Scrypt(salt=self.salt, length=KEY_BYTES, n=self.n, r=self.r, p=self.p)
        return scrypt.derive(secret.reveal())


def derive(key: bytes, salt: bytes, info: bytes) -> bytes:
    """Return 32 bytes made of a key by HKDF with SHA-256."""
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=salt, info=info).derive(key)


def key_check(data_key: bytes, file_id: int) -> bytes:
    """Return what tells whoever has a data key whether a file has the same one."""
    return derive(data_key, b"", KEY_CHECK_INFO + file_id.to_bytes(8, "little"))[:KEY_CHECK_BYTES]


@dataclass(frozen=True, slots=True)
class KeySlot:
    """One slot as it is in the file."""

    generation: int
    derivation: Derivation
    is_marked: bool
    nonce: bytes
    wrapped: bytes
    check: bytes

    @property
    def offset(self) -> int:
        """Where it lies in the file."""
        return KEY_SLOT_OFFSETS[self.generation % 2]

    def pack(self) -> bytes:
        """Return its bytes."""
        kdf, n, r, p, salt = self.derivation
        flags = KEY_SLOT_MARKED if self.is_marked else 0
        body = KEY_SLOT.pack(
            b"", KEY_SLOT_MAGIC, kdf, self.generation, n, r, p, flags, b"",
            salt, self.nonce, self.wrapped, self.check, b"",
        )[CHECKSUM_BYTES:]  # fmt: skip
        return checksum64(body) + body

    def associated(self, file_id: int) -> bytes:
        """Return what is authenticated besides the data key: the file, and all before the nonce."""
        return file_id.to_bytes(8, "little") + self.pack()[CHECKSUM_BYTES:_NONCE_OFFSET]

    def open(self, wrapping_key: bytes, file_id: int) -> bytes | None:
        """Return the data key, None if the wrapping key is another one."""
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        try:
            return AESGCM(wrapping_key).decrypt(self.nonce, self.wrapped, self.associated(file_id))
        except InvalidTag:
            return None


def unpack_slot(data: bytes) -> KeySlot | None:
    """Return the slot of some bytes, None where there is none or a torn one."""
    if len(data) < KEY_SLOT_BYTES:
        return None
    fields = KEY_SLOT.unpack(data)
    checksum, magic, kdf, generation, n, r, p, flags, _, salt, nonce, wrapped, check, _ = fields
    if magic != KEY_SLOT_MAGIC or checksum != checksum64(data[CHECKSUM_BYTES:]):
        return None
    derivation = Derivation(kdf, n, r, p, salt)
    return KeySlot(generation, derivation, bool(flags & KEY_SLOT_MARKED), nonce, wrapped, check)


def read_slots(file: File) -> list[KeySlot]:
    """Return the valid slots of a file, the newest first."""
    found = [unpack_slot(file.read(offset, KEY_SLOT_BYTES)) for offset in KEY_SLOT_OFFSETS]
    slots = [slot for slot in found if slot is not None]
    return sorted(slots, key=lambda slot: -slot.generation)


def has_two_slots(data: mmap.mmap) -> bool:
    """Whether a mapped file is opened by two keys, as a change that was cut short leaves it."""
    return all(unpack_slot(data[at : at + KEY_SLOT_BYTES]) for at in KEY_SLOT_OFFSETS)


class Keys:
    """The keys of an encrypted database, before and after its file was opened.

    Made of what the user gave; `make` or `unlock` find the data key, and what the user gave is
    forgotten then. May be given to any number of logs, also at once: a copy of a file, or one
    that takes the place of another, has the same data key, wrapped anew for its own id.

    Attributes:
        wants_marked: Only marked records are to be encrypted: ``encrypt="marked"``.
        is_marked: Whether the file may have plain records, which was decided when it was made.
    """

    def __init__(self, secret: Secret, *, wants_marked: bool = False) -> None:
        self._secret: Secret | None = secret
        self.wants_marked = wants_marked
        self.is_marked = wants_marked
        self._data_key = b""
        self._wrapping: tuple[Derivation, bytes] | None = None
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return "<keys>"

    @property
    def data_key(self) -> bytes:
        """The data key; it is known once a file was made or unlocked."""
        assert self._data_key
        return self._data_key

    def make(self, file_id: int) -> KeySlot:
        """Return the first slot of a new file, with a new data key if none is known yet.

        Raises:
            WrongKeyError: The user's key or password can't be one.
        """
        with self._lock:
            if not self._data_key:
                assert self._secret is not None
                refuse_unusable(self._secret)
                derivation = Derivation.fresh(self._secret)
                self._wrapping = derivation, derivation.wrapping_key(self._secret)
                self._data_key = os.urandom(KEY_BYTES)
                self._secret = None
            return self._wrapped(file_id, 0)

    def _wrapped(self, file_id: int, generation: int) -> KeySlot:
        """Return a slot that holds the data key."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        assert self._wrapping is not None
        derivation, wrapping_key = self._wrapping
        nonce = os.urandom(NONCE_BYTES)
        check = key_check(self._data_key, file_id)
        slot = KeySlot(generation, derivation, self.is_marked, nonce, b"", check)
        wrapped = AESGCM(wrapping_key).encrypt(nonce, self._data_key, slot.associated(file_id))
        return replace(slot, wrapped=wrapped)

    def unlock(self, file: File, file_id: int) -> None:
        """Find the data key in the slots of a file.

        Raises:
            WrongKeyError: The user's key or password does not open it.
            DamageError: It has no whole slot.
            UnsupportedFormatError: A newer memdb wrote its slots.
        """
        with self._lock:
            slots = read_slots(file)
            if not slots:
                raise DamageError(
                    f"{file.path}: neither key slot (bytes {KEY_SLOT_OFFSETS[0]} and"
                    f" {KEY_SLOT_OFFSETS[1]}) is whole, so that no key opens the file. Restore it"
                    " from a copy.",
                    path=file.path,
                    offset=KEY_SLOT_OFFSETS[0],
                )
            for slot in slots:
                if not slot.derivation.is_sane():
                    raise UnsupportedFormatError(
                        f"{file.path}: its key is derived in a way that this memdb does not know."
                        " Open it with a newer memdb.",
                        path=file.path,
                        found=slot.derivation.kdf,
                        supported=KDF_SCRYPT,
                    )
            if self._secret is None:
                found = self._unlock_again(slots, file_id)
            else:
                refuse_unusable(self._secret, file.path)
                found = self._unlock_with(self._secret, slots, file_id)
            if found is None:
                if self._secret is None:
                    raise _another_database(file.path)
                raise _wrong(file.path, slots, self._secret)
            self.is_marked = found.is_marked
            self._secret = None

    def _unlock_with(self, secret: Secret, slots: list[KeySlot], file_id: int) -> KeySlot | None:
        for slot in slots:
            if slot.derivation.secret_kind != secret.kind:
                continue
            wrapping_key = slot.derivation.wrapping_key(secret)
            data_key = slot.open(wrapping_key, file_id)
            if data_key is not None:
                self._data_key, self._wrapping = data_key, (slot.derivation, wrapping_key)
                return slot
        return None

    def _unlock_again(self, slots: list[KeySlot], file_id: int) -> KeySlot | None:
        """Return a slot of the data key that is known already, whatever wraps it by now."""
        check = key_check(self._data_key, file_id)
        found = [slot for slot in slots if hmac.compare_digest(slot.check, check)]
        return found[0] if found else None

    def _is_own(self, slot: KeySlot, file_id: int) -> bool:
        """Whether the slot is opened by what the user gave."""
        assert self._wrapping is not None
        return slot.open(self._wrapping[1], file_id) == self._data_key

    def refuse_marking(self, path: str | None) -> None:
        """Raise ConfigError if plain records are wanted in a file that may have none."""
        if self.wants_marked and not self.is_marked:
            raise ConfigError(
                f"{path}: was made with encrypt='all', so that each of its records is encrypted."
                " Leave encrypt out, or copy the records into a database that is made with"
                " encrypt='marked'."
            )

    def finish_change(self, file: File, file_id: int) -> bool:
        """Wipe the older of two slots, if the newer one is that of these keys.

        So a change that was cut short after the new slot was safe is carried through by whoever
        opens the file with the new key or password; who comes with the old one leaves both.

        Returns:
            Whether there was one to be carried through.
        """
        slots = read_slots(file)
        if len(slots) < 2 or not self._is_own(slots[0], file_id):
            return False
        wipe(file, slots[1])
        return True

    def change(self, file: File, file_id: int, secret: Secret) -> None:
        """Have a file opened by another key or password from now on.

        The writer's lock is held. Killed at any moment, the old one or the new one opens the
        file; when this returns only the new one does.

        Raises:
            WrongKeyError: The new key or password can't be one.
            OSError: The disk refused.
        """
        refuse_unusable(secret, file.path)
        derivation = Derivation.fresh(secret)
        # Before anything is written: with a password it takes its time, and memory.
        wrapping_key = derivation.wrapping_key(secret)
        with self._lock:
            slots = read_slots(file)
            own = next((slot for slot in slots if self._is_own(slot, file_id)), None)
            if own is None:
                raise _wrong(file.path, slots, None)
            before, self._wrapping = self._wrapping, (derivation, wrapping_key)
            try:
                new = self._wrapped(file_id, own.generation + 1)
                file.write(new.offset, new.pack())
                file.sync()
            except BaseException:
                self._wrapping = before
                raise
            wipe(file, own)


def wipe(file: File, slot: KeySlot) -> None:
    """Overwrite a slot with zeros, and return once that survives power loss."""
    file.write(slot.offset, bytes(KEY_SLOT_BYTES))
    file.sync()


def write_key_slots(file: File, header: bytes) -> None:
    """Write the slots that a header page has; a slot of the file in the other place stays."""
    for offset in KEY_SLOT_OFFSETS:
        content = header[offset : offset + KEY_SLOT_BYTES]
        if any(content):
            file.write(offset, content)


def refuse_unusable(secret: Secret, path: str | None = None) -> None:
    """Raise WrongKeyError for a key that is not 32 bytes long, or an empty password."""
    place = path or "memory"
    if secret.kind == "key" and len(secret) != KEY_BYTES:
        raise WrongKeyError(
            f"{place}: the key has {len(secret)} bytes, {KEY_BYTES} are needed. Make one with"
            f" secrets.token_bytes({KEY_BYTES}), or give a password= instead.",
            path=path,
        )
    if not len(secret):
        raise WrongKeyError(f"{place}: the password is empty. Give the one of the file.", path=path)


def missing_key(path: str | None) -> WrongKeyError:
    """Return the error for an encrypted file that is opened without a key."""
    return WrongKeyError(
        f"{path}: is encrypted. Open it with key= or password=, or key_env= or password_env= for"
        " the name of an environment variable that has it.",
        path=path,
    )


def unexpected_key(path: str | None) -> WrongKeyError:
    """Return the error for a plain file that is opened with a key."""
    return WrongKeyError(
        f"{path}: is not encrypted, and a key or password was given. Open it without; to encrypt"
        " its records, copy them into a new database that is made with the key.",
        path=path,
    )


def _another_database(path: str | None) -> WrongKeyError:
    """Return the error for a file that is not of the database whose data key is known."""
    return WrongKeyError(
        f"{path}: another database lies there than the one that was opened, with a data key of its"
        " own. Open it by itself, with its key or password.",
        path=path,
    )


def _wrong(path: str | None, slots: list[KeySlot], secret: Secret | None) -> WrongKeyError:
    kinds = {slot.derivation.secret_kind for slot in slots}
    if secret is not None and secret.kind not in kinds:
        (needed,) = kinds
        text = f"opens with a {needed}, and a {secret.kind} was given. Give the {needed}."
    else:
        kind = "key or password" if secret is None else secret.kind
        text = f"the {kind} is not the one of this file. Give the right one; nothing was changed."
    return WrongKeyError(f"{path}: {text}", path=path)
