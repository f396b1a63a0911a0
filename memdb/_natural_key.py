"""The natural key of a collection: which fields name a record, and the number in its pointer."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from operator import attrgetter, itemgetter
from typing import Any

from memdb._config import nearest
from memdb.errors import ConfigError, IdentityError, shown
from memdb.indexes import (
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
from memdb.serializers import Shape

# How a file says by which function numbers are made. That of an encrypted file has a secret: who
# can read the file must not find out whether a key that they guess is there.
_HASH = "xxh3"
_SECRET_HASH = "blake2b"


class NaturalKey:
    """The fields whose values are the identity of a record.

    Attributes:
        fields: Their names.
        sole_field: The name where there is one, None where there are several.
        is_displaced: Whether a key of the collection is not under its first number, because
            another key was there. With 63 bits that takes some billions of records.
        is_saved: Whether the catalogue has all of this.
        digest: The hash that makes numbers of keys.
    """

    def __init__(
        self,
        collection: str,
        fields: tuple[str, ...],
        seed: int,
        *,
        is_displaced: bool,
        former: tuple[tuple[str, ...], ...] = (),
        secret_digest: Digest | None = None,
    ) -> None:
        self.fields = fields
        self.sole_field = fields[0] if len(fields) == 1 else None
        self.seed = seed
        self.is_displaced = is_displaced
        self.is_saved = False
        self.digest = secret_digest or digest
        self._secret_digest = secret_digest
        self._former = former
        self._collection = collection
        self._first_seeds = [first_seed(seed, tag) for tag in range(TAGS)]
        self._attributes: Callable[[Any], Any] = attrgetter(*fields)
        self._items: Callable[[Any], Any] = itemgetter(*fields)

    @classmethod
    def declared(
        cls,
        collection: str,
        fields: tuple[str, ...],
        shapes: list[Shape],
        secret_digest: Digest | None = None,
    ) -> NaturalKey:
        """Return the key that a program declares for a collection which the file has not.

        Args:
            collection: Its name.
            fields: Those of the key.
            shapes: Of the classes.
            secret_digest: That of an encrypted file.

        Raises:
            ConfigError: A class has no such field.
        """
        for shape in shapes:
            known = [field.name for field in shape.fields]
            for name in fields:
                if shape.kind != "dict" and name not in known:
                    raise ConfigError(
                        f"{collection}: the key {name!r} is no field of {shape.name}."
                        f"{nearest(name, known)}"
                    )
        seed = secrets.randbelow(MAX_SEED + 1)
        return cls(collection, fields, seed, is_displaced=False, secret_digest=secret_digest)

    @classmethod
    def stored(
        cls, collection: str, entry: Mapping[str, Any], secret_digest: Digest | None = None
    ) -> NaturalKey:
        """Return the key that a file has for a collection.

        Raises:
            ConfigError: It needs a newer memdb.
        """
        known = {_HASH: None} if secret_digest is None else {_SECRET_HASH: secret_digest}
        if entry.get("hash") not in known:
            raise ConfigError(
                f"{collection}: its keys are hashed by {entry.get('hash')!r}, which this memdb does"
                " not know. Use a newer one."
            )
        key = cls(
            collection,
            tuple(entry["fields"]),
            entry["seed"],
            is_displaced=entry.get("displaced", False),
            former=tuple(tuple(names) for names in entry.get("former", ())),
            secret_digest=secret_digest,
        )
        key.is_saved = True
        return key

    def become(self, other: NaturalKey) -> None:
        """Be the key that the file has for a collection that had no record when it was asked for.

        In place, as much holds the object; nothing was looked up by it that is there.
        """
        self.seed, self._first_seeds = other.seed, other._first_seeds
        self.is_displaced, self.is_saved = other.is_displaced, other.is_saved
        self._former = other._former

    def displace(self) -> None:
        """Note that a key is under another than its first number."""
        self.is_displaced = True
        self.is_saved = False

    def renamed(self, fields: tuple[str, ...]) -> NaturalKey:
        """Return the same key after its fields got other names, or the same ones."""
        if fields == self.fields:
            return self
        former = (self.fields, *(names for names in self._former if names != fields))
        return NaturalKey(
            self._collection,
            fields,
            self.seed,
            is_displaced=self.is_displaced,
            former=former,
            secret_digest=self._secret_digest,
        )

    def to_catalogue(self) -> dict[str, Any]:
        """Return what the file remembers of it."""
        name = _HASH if self._secret_digest is None else _SECRET_HASH
        entry: dict[str, Any] = {"fields": list(self.fields), "hash": name, "seed": self.seed}
        if self._former:
            entry["former"] = [list(names) for names in self._former]
        return {**entry, "displaced": True} if self.is_displaced else entry

    def of(self, record: Any) -> Any:
        """Return the key of a record: the field's value, a tuple of them where there are several.

        Raises:
            IdentityError: A field is missing.
        """
        try:
            if type(record) is not dict:
                return self._attributes(record)
            for names in self._former:
                # A record read without its class has the names of when it was written.
                if names[0] in record and self.fields[0] not in record:
                    return itemgetter(*names)(record)
            return self._items(record)
        except (KeyError, AttributeError) as error:
            raise IdentityError(
                f"{self._collection}: the record has no value for its key"
                f" {', '.join(self.fields)}. Set it before storing the record."
            ) from error

    def encode(self, key: Any) -> tuple[int, bytes]:
        """Return a key in its canonical form.

        Raises:
            IdentityError: It can't be a key.
        """
        if type(key) is str:
            # As encode_key has it, in a third of its time: half a microsecond of an update.
            try:
                return TAG_OF_STR, key.encode()
            except UnicodeEncodeError:
                pass  # Half of a surrogate pair.
        try:
            return encode_key(key)
        except IdentityError as error:
            fields = self.fields
            if len(fields) > 1 and type(key) is tuple and len(key) == len(fields):
                fields = tuple(
                    name for name, part in zip(fields, key, strict=True) if not _is_key(part)
                )
            place = f"{self._collection}: {', '.join(fields)}"
            if type(key) is tuple and len(self.fields) == 1:
                place += ": a part of the tuple"
            raise IdentityError(f"{place}: {error}") from error

    def numbers(self, encoded: tuple[int, bytes]) -> tuple[int, ...]:
        """Return the numbers under which a key's record may be, the first one first."""
        tag, content = encoded
        if self.is_displaced:
            seed, hashed = self.seed, self.digest
            return numbers_of(tag, content, seed, is_displaced=True, digest=hashed)
        # The same, a third of its time: every access by key comes here.
        return (self.digest(content, self._first_seeds[tag]) & NUMBER_MASK or 1,)

    def is_of(self, record: Any, encoded: tuple[int, bytes]) -> bool:
        """Whether a stored record has exactly this key."""
        return self.encode(self.of(record)) == encoded


def _is_key(value: object) -> bool:
    try:
        encode_key(value)
    except IdentityError:
        return False
    return True


def field_names(collection: str, key: object) -> tuple[str, ...]:
    """Return the fields of a ``key=``.

    Raises:
        ConfigError: It is neither a name nor some names.
    """
    names = (key,) if isinstance(key, str) else key
    if (
        not isinstance(names, tuple | list)
        or not names
        or not all(isinstance(name, str) and name and name.isprintable() for name in names)
        or len(set(names)) < len(names)
    ):
        raise ConfigError(
            f"{collection}: a key is the name of a field or a tuple of different ones, not"
            f" {shown(key)}."
        )
    return tuple(names)
