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

from memdb._collection import Collection, KeyedCollection, PutResult, Version
from memdb._config import Config
from memdb._database import Database, open
from memdb._foreign_keys import ForeignKey
from memdb._health import Health, HealthReason
from memdb._index_declarations import ColumnIndex, HashIndex, SetIndex, SortedIndex
from memdb._indexes import Indexes
from memdb._maintenance import check, destroy, repair, restore
from memdb._migration import CollectionMigration, MigrationResult
from memdb._schema import CollectionSchema, FormSchema, Schema, schema
from memdb._statistics import CollectionStats, DatabaseStats, VersionStats
from memdb._version import __version__
from memdb._view import View
from memdb.errors import (
    ClosedError,
    CommitNotFoundError,
    ConfigError,
    DamageError,
    DecodeError,
    DuplicateIdentityError,
    DuplicateKeyError,
    EncodeError,
    FailedError,
    FileMissingError,
    FilePermissionError,
    FileTakenError,
    ForeignKeyError,
    ForkedError,
    IdentityError,
    IndexKeyError,
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
    WrongKeyError,
)
from memdb.query import F, P, case, count_, optional
from memdb.query._explanation import Explanation, JoinAccess, JoinedExplanation
from memdb.query._joined import JoinedQuery
from memdb.query._paging import Page
from memdb.query._prepared import Prepared
from memdb.query._query import Query
from memdb.query._row import Row
from memdb.serializers import by_name
from memdb.storage import (
    CompactionResult,
    Finding,
    Loss,
    Recovery,
    RepairResult,
    SnapshotResult,
)

__all__ = [
    "ClosedError",
    "Collection",
    "CollectionMigration",
    "CollectionSchema",
    "CollectionStats",
    "ColumnIndex",
    "CommitNotFoundError",
    "CompactionResult",
    "Config",
    "ConfigError",
    "DamageError",
    "Database",
    "DatabaseStats",
    "DecodeError",
    "DuplicateIdentityError",
    "DuplicateKeyError",
    "EncodeError",
    "Explanation",
    "F",
    "FailedError",
    "FileMissingError",
    "FilePermissionError",
    "FileTakenError",
    "Finding",
    "ForeignKey",
    "ForeignKeyError",
    "ForkedError",
    "FormSchema",
    "HashIndex",
    "Health",
    "HealthReason",
    "IdentityError",
    "IndexKeyError",
    "Indexes",
    "JoinAccess",
    "JoinedExplanation",
    "JoinedQuery",
    "KeyedCollection",
    "LockedError",
    "Loss",
    "MemdbError",
    "MigrationResult",
    "NotADatabaseError",
    "OpenError",
    "P",
    "Page",
    "Prepared",
    "PutResult",
    "Query",
    "QueryError",
    "ReadOnlyError",
    "RecordNotFoundError",
    "RecordTypeError",
    "Recovery",
    "RepairResult",
    "Row",
    "Schema",
    "SetIndex",
    "SnapshotResult",
    "SortedIndex",
    "TransactionError",
    "UnsupportedFormatError",
    "Version",
    "VersionStats",
    "View",
    "WriteError",
    "WrongKeyError",
    "__version__",
    "by_name",
    "case",
    "check",
    "count_",
    "destroy",
    "open",
    "optional",
    "repair",
    "restore",
    "schema",
]
