"""Every error that memdb raises, grouped by when it happens.

A leaf module: all rooms may import it, it imports none of them.

    MemdbError
    +-- opening
    |   +-- OpenError (OSError)
    |   |   +-- LockedError                another writer has the file
    |   |   +-- FileMissingError (FileNotFoundError)
    |   |   +-- FilePermissionError (PermissionError)
    |   |   +-- NotADatabaseError          the file is something else
    |   |   +-- FileTakenError (FileExistsError)  a file is where a new one is to be
    |   |   +-- UnsupportedFormatError     written by a newer memdb
    |   |   +-- WrongKeyError              no key, or another than the file's
    |   +-- ConfigError (ValueError)       unknown, wrong or contradicting setting
    +-- reading
    |   +-- DamageError (ValueError)       bytes that do not match their checksum
    |   +-- RecordNotFoundError (KeyError) no live record has this identity
    |   +-- DecodeError (ValueError)       whole bytes that do not fit the class
    |   +-- CommitNotFoundError (LookupError)  the file does not go back so far
    +-- writing
    |   +-- RecordTypeError (TypeError)    a record of another class
    |   +-- EncodeError (TypeError)        a value that the serializer can't hold
    |   +-- IdentityError (ValueError)     an identity out of range or of a wrong type
    |   |   +-- DuplicateIdentityError     a live record has this identity already
    |   +-- IndexKeyError (ValueError)     an index can't make a key of a record
    |   +-- DuplicateKeyError (ValueError) a live record has this key of a unique index already
    |   +-- ForeignKeyError (ValueError)   a reference to a record that is not there
    |   +-- ReadOnlyError (TypeError)      the mode allows no such change
    |   +-- WriteError (OSError)           the disk refused; nothing was changed
    |   |   +-- FailedError                an earlier sync failed; reopen to go on
    |   +-- TransactionError (RuntimeError)
    +-- using
        +-- ClosedError (ValueError)       the handle is closed
        +-- ForkedError (RuntimeError)     the handle came through a fork
        +-- QueryError (ValueError)        a condition that can't be answered
"""

from __future__ import annotations

from typing import Any

_LONGEST_SHOWN = 100


def shown(value: object) -> str:
    """Return a user's value for a message: its repr, cut if it is long, its type if it has none.

    Never raises: an int of some thousand digits, a deep tuple or a class of the user's may have a
    repr that does.
    """
    try:
        text = repr(value)
    except Exception:
        return f"of type {type(value).__qualname__}"
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 3]}..."


class MemdbError(Exception):
    """Base of every error that memdb raises."""


class OpenError(MemdbError, OSError):
    """The file could not be opened.

    Attributes:
        path: The path as it was given.
    """

    def __init__(self, message: str, *, path: object = None, errno: int | None = None) -> None:
        super().__init__(message)
        self.path = path
        if errno is not None:
            self.errno = errno

    def __str__(self) -> str:
        return str(self.args[0])


class LockedError(OpenError):
    """Another writer has the file open; ``holder`` says who, as far as it is known."""

    def __init__(self, message: str, *, path: object = None, holder: str = "") -> None:
        super().__init__(message, path=path)
        self.holder = holder


class FileMissingError(OpenError, FileNotFoundError):
    """There is no such file or directory."""


class FilePermissionError(OpenError, PermissionError):
    """The file may not be opened in this mode."""


class NotADatabaseError(OpenError):
    """The file exists and is not a memdb database."""


class FileTakenError(OpenError, FileExistsError):
    """A file is where a new one is to be made."""


class UnsupportedFormatError(OpenError):
    """The file was written in a format version that this memdb does not know."""

    def __init__(self, message: str, *, path: object = None, found: int, supported: int) -> None:
        super().__init__(message, path=path)
        self.found = found
        self.supported = supported


class WrongKeyError(OpenError, ValueError):
    """The key or password is missing, is none, or is another than the file's; or it has none."""


class ConfigError(MemdbError, ValueError):
    """A setting does not exist, has a wrong value, or contradicts another one."""


class DamageError(MemdbError, ValueError):
    """Bytes in the file do not match their checksum.

    Attributes:
        path: The file.
        offset: Bytes from the start of the file to what is damaged.
    """

    def __init__(self, message: str, *, path: object = None, offset: int = 0) -> None:
        super().__init__(message)
        self.path = path
        self.offset = offset


class RecordNotFoundError(MemdbError, KeyError):
    """No live record has this identity."""

    def __init__(self, message: str, *, collection: str = "", identity: Any = None) -> None:
        super().__init__(message)
        self.collection = collection
        self.identity = identity

    def __str__(self) -> str:
        return str(self.args[0])


class DecodeError(MemdbError, ValueError):
    """The bytes of a record are whole and can't be made into its class.

    Attributes:
        field: Path of the field in the record, as ``address.lines[2]``; empty for the whole.
        collection: Name of the collection; empty outside of one.
        identity: The record's; None where it is not known.
    """

    def __init__(self, message: str, *, field: str = "") -> None:
        super().__init__(message)
        self.field = field
        self.collection = ""
        self.identity: Any = None


class CommitNotFoundError(MemdbError, LookupError):
    """The file and its archives do not hold the state that was asked for."""


class RecordTypeError(MemdbError, TypeError):
    """A record is not of the collection's class."""


class EncodeError(MemdbError, TypeError):
    """A value can't be held by the serializer.

    Attributes:
        field: Path of the field in the record, as ``address.lines[2]``; empty for the whole.
        collection: Name of the collection; empty outside of one.
        identity: The record's; None for a new record without one.
    """

    def __init__(self, message: str, *, field: str = "") -> None:
        super().__init__(message)
        self.field = field
        self.collection = ""
        self.identity: Any = None


class IdentityError(MemdbError, ValueError):
    """An identity is out of range or of a type that can't be one."""


class DuplicateIdentityError(IdentityError):
    """A live record has this identity already."""

    def __init__(self, message: str, *, collection: str = "", identity: Any = None) -> None:
        super().__init__(message)
        self.collection = collection
        self.identity = identity


class IndexKeyError(MemdbError, ValueError):
    """An index can't make a key of a record.

    Attributes:
        collection: Name of the collection.
        index: Name of the index.
        identity: The record's; None for a new record without one.
    """

    def __init__(
        self, message: str, *, collection: str = "", index: str = "", identity: Any = None
    ) -> None:
        super().__init__(message)
        self.collection = collection
        self.index = index
        self.identity = identity

    def located(self, collection: str, identity: Any) -> IndexKeyError:
        """Return the same error for a record that is known by now, named in the message."""
        place = f"{collection} {shown(identity)}" if identity else collection
        return IndexKeyError(
            f"{place}: {self}", collection=collection, index=self.index, identity=identity or None
        )


class DuplicateKeyError(MemdbError, ValueError):
    """A live record has the key of another one in a unique index already.

    Attributes:
        collection: Name of the collection.
        index: Name of the index.
        other: Identity of the record that has the key; None if it is as new as this one.
        identity: Of the record that may not have it; None for a new record without one.
    """

    def __init__(
        self,
        message: str,
        *,
        collection: str = "",
        index: str = "",
        other: Any = None,
        identity: Any = None,
    ) -> None:
        super().__init__(message)
        self.collection = collection
        self.index = index
        self.other = other
        self.identity = identity

    @classmethod
    def of(cls, collection: str, index: str, other: Any, identity: Any) -> DuplicateKeyError:
        """Return the error for two records, each named as far as it has an identity."""
        owner = "another new record" if other is None else f"the record {shown(other)}"
        record = "a new record" if identity is None else f"the record {shown(identity)}"
        return cls(
            f"{collection}: {owner} has the same key in the unique index {index!r} as {record}."
            " Change or delete one of them first.",
            collection=collection,
            index=index,
            other=other,
            identity=identity,
        )


class ForeignKeyError(MemdbError, ValueError):
    """A record refers to another one that is not there, or would not be there any more.

    Attributes:
        collection: Name of the collection of the record that refers.
        identity: Of that record; None for a new record without one.
        field: The field that refers.
        target: Name of the collection that it refers to.
        referred: The identity that it refers to.
    """

    def __init__(
        self,
        message: str,
        *,
        collection: str = "",
        identity: Any = None,
        field: str = "",
        target: str = "",
        referred: Any = None,
    ) -> None:
        super().__init__(message)
        self.collection = collection
        self.identity = identity
        self.field = field
        self.target = target
        self.referred = referred


class ReadOnlyError(MemdbError, TypeError):
    """The mode in which the database is open allows no such change."""


class WriteError(MemdbError, OSError):
    """The disk refused a write; nothing was changed, and a later write may succeed."""

    def __init__(self, message: str, *, path: object = None, errno: int | None = None) -> None:
        super().__init__(message)
        self.path = path
        if errno is not None:
            self.errno = errno

    def __str__(self) -> str:
        return str(self.args[0])


class FailedError(WriteError):
    """An earlier sync failed, so that no further write is accepted until the file is reopened."""


class TransactionError(MemdbError, RuntimeError):
    """A transaction was used outside its scope, or would wait for itself."""


class ClosedError(MemdbError, ValueError):
    """The database is closed."""


class ForkedError(MemdbError, RuntimeError):
    """The handle was opened before a fork and can't be used in the child."""


class QueryError(MemdbError, ValueError):
    """A condition names a field that does not exist or can't be answered."""
