"""The file: blocks, pointers, recovery, locking. Knows bytes and pointers, no records."""

from __future__ import annotations

from memdb.storage._blocks import Array, checksum32, empty_pointers
from memdb.storage._check import check_log
from memdb.storage._check_file import check_file
from memdb.storage._compaction import CompactionResult, Numbering, compact
from memdb.storage._constants import MAX_CATALOGUE_NUMBER, POINTER_DTYPE, Kind
from memdb.storage._copying import SnapshotResult, take_snapshot
from memdb.storage._era import Era, Moved
from memdb.storage._file import File, MapAccess, MemoryFile, OSFile
from memdb.storage._findings import Finding
from memdb.storage._flusher import Flusher
from memdb.storage._following import Follower, Growth, Replacement
from memdb.storage._key_slots import Keys, refuse_unusable
from memdb.storage._log import Durability, Log, pointer_end
from memdb.storage._new_file import Progress, silent
from memdb.storage._past import PastLog, number_at
from memdb.storage._reading import Payloads
from memdb.storage._recovery import Recovery
from memdb.storage._removal import destroy
from memdb.storage._repair import Loss, RepairResult, repair
from memdb.storage._restoring import restore
from memdb.storage._saved import SavedIndex
from memdb.storage._secret import Secret
from memdb.storage._vitals import Vitals, behind_s, is_elsewhere, vitals
from memdb.storage._warning import warn

__all__ = [
    "MAX_CATALOGUE_NUMBER",
    "POINTER_DTYPE",
    "Array",
    "CompactionResult",
    "Durability",
    "Era",
    "File",
    "Finding",
    "Flusher",
    "Follower",
    "Growth",
    "Keys",
    "Kind",
    "Log",
    "Loss",
    "MapAccess",
    "MemoryFile",
    "Moved",
    "Numbering",
    "OSFile",
    "PastLog",
    "Payloads",
    "Progress",
    "Recovery",
    "RepairResult",
    "Replacement",
    "SavedIndex",
    "Secret",
    "SnapshotResult",
    "Vitals",
    "behind_s",
    "check_file",
    "check_log",
    "checksum32",
    "compact",
    "destroy",
    "empty_pointers",
    "is_elsewhere",
    "number_at",
    "pointer_end",
    "refuse_unusable",
    "repair",
    "restore",
    "silent",
    "take_snapshot",
    "vitals",
    "warn",
]
