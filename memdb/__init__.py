"""A durable, in-memory, single-file database for Python's own typed objects.

>>> import memdb
>>> from dataclasses import dataclass
>>> @dataclass
... class Person:
...     name: str
...     born: int
...     id: int = 0
>>> with memdb.open(None) as db:
...     people = db.collection(Person)
...     eric = people.insert(Person("Eric", 2014))
...     people[eric]
Person(name='Eric', born=2014, id=1)
"""

from memdb._collection import Collection, PutResult, Version
from memdb._config import Config
from memdb._database import Database, open
from memdb._statistics import CollectionStats, DatabaseStats, VersionStats
from memdb._version import __version__
from memdb.errors import (
    ClosedError,
    ConfigError,
    DamageError,
    DecodeError,
    DuplicateIdentityError,
    EncodeError,
    FailedError,
    FileMissingError,
    FilePermissionError,
    ForkedError,
    IdentityError,
    LockedError,
    MemdbError,
    NotADatabaseError,
    OpenError,
    QueryError,
    ReadOnlyError,
    RecordNotFoundError,
    RecordTypeError,
    TransactionError,
    UnsupportedFormatError,
    WriteError,
)
from memdb.query import F
from memdb.storage import Finding, Recovery

__all__ = [
    "ClosedError",
    "Collection",
    "CollectionStats",
    "Config",
    "ConfigError",
    "DamageError",
    "Database",
    "DatabaseStats",
    "DecodeError",
    "DuplicateIdentityError",
    "EncodeError",
    "F",
    "FailedError",
    "FileMissingError",
    "FilePermissionError",
    "Finding",
    "ForkedError",
    "IdentityError",
    "LockedError",
    "MemdbError",
    "NotADatabaseError",
    "OpenError",
    "PutResult",
    "QueryError",
    "ReadOnlyError",
    "RecordNotFoundError",
    "RecordTypeError",
    "Recovery",
    "TransactionError",
    "UnsupportedFormatError",
    "Version",
    "VersionStats",
    "WriteError",
    "__version__",
    "open",
]
