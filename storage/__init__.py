"""The file: blocks, pointers, recovery, locking. Knows bytes and pointers, no records."""

from __future__ import annotations

from memdb.storage._blocks import Array, checksum32, empty_pointers
from memdb.storage._check import Finding, check_log
from memdb.storage._constants import MAX_CATALOGUE_NUMBER, POINTER_DTYPE, Kind
from memdb.storage._file import File, MapAccess, MemoryFile, OSFile
from memdb.storage._log import Durability, Log, pointer_end
from memdb.storage._reading import Payloads
from memdb.storage._recovery import Recovery
from memdb.storage._saved import SavedIndex

__all__ = [
    "MAX_CATALOGUE_NUMBER",
    "POINTER_DTYPE",
    "Array",
    "Durability",
    "File",
    "Finding",
    "Kind",
    "Log",
    "MapAccess",
    "MemoryFile",
    "OSFile",
    "Payloads",
    "Recovery",
    "SavedIndex",
    "check_log",
    "checksum32",
    "empty_pointers",
    "pointer_end",
]
