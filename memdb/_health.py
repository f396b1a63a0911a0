"""Whether an open database is well, and if not, why."""

from __future__ import annotations

import time
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from memdb._statistics import live_pointers
from memdb.storage import POINTER_DTYPE, behind_s, is_elsewhere, vitals

if TYPE_CHECKING:
    from memdb._engine import Engine
    from memdb.storage import Log, Vitals

_POINTER_BYTES: Final = POINTER_DTYPE.itemsize
_BLOCK_BYTES: Final = 40

# From here on something is late, and not only busy.
_LATE_S: Final = 10.0
_LATE_TIMES: Final = 3
# A smaller file is not worth a word.
_LARGE_LOG_BYTES: Final = 16 << 20
_LARGE_SHARE: Final = 0.5
# Counted again once the log has grown by this.
_GROWTH: Final = 1.1


@dataclass(frozen=True, slots=True)
class HealthReason:
    """One thing that is not well.

    Attributes:
        name: What it is, for programs; see `Health`.
        message: What it is, for people, and what to do.
    """

    name: str
    message: str


@dataclass(frozen=True, slots=True)
class Health:
    """How a database is.

    Attributes:
        reasons: What is not well, the most urgent first; empty when all is.

    The names of reasons are:

    - ``"sync_failed"``: the disk refused, and nothing can be written until it is opened again.
    - ``"background_failure"``: something failed in the background; the next call that writes
      raises it.
    - ``"refresh_failed"``: a reader could not take in what is in the file when it last tried.
    - ``"file_moved"``: the path leads to no file any more, or to another one than is written to.
    - ``"unsynced"``: commits wait for a sync that is long due, as when the disk does not answer.
    - ``"damaged"``: records were read that are damaged in the file.
    - ``"two_keys"``: a change of the key or password was cut short, and both open the file.
    - ``"torn_tail"``: opening had to cut something off behind the last whole commit.
    - ``"checkpoint_overdue"``: opening after a crash would walk more commits than it should.
    - ``"reader_behind"``: a reader has not taken in what is in the file for long.
    - ``"mostly_dead"``: more than half of the file is old versions.
    """

    reasons: tuple[HealthReason, ...] = ()

    @property
    def is_well(self) -> bool:
        """Whether there is nothing to say."""
        return not self.reasons

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the reasons, in their order."""
        return tuple(reason.name for reason in self.reasons)


def health_of(engine: Engine) -> Health:
    """Return how an open database is; see `Database.health`."""
    log = engine.log
    log.raise_if_closed()
    found = vitals(log)
    return Health(
        (
            *_failures(engine, found),
            *_lateness(engine, found),
            *_findings(engine, found),
        )
    )


def _failures(engine: Engine, found: Vitals) -> Iterator[HealthReason]:
    if found.has_failed:
        yield HealthReason(
            "sync_failed",
            f"{engine.place}: a sync has failed, so that what is on the disk is not known. Close"
            " the database and open it again.",
        )
    elif found.failure is not None:
        yield HealthReason("background_failure", str(found.failure))
    refreshing = engine.refreshing
    if refreshing is not None and refreshing.failure is not None:
        yield HealthReason("refresh_failed", f"the last refresh failed: {refreshing.failure}")
    if engine.mode != "r" and _is_moved(engine):
        yield HealthReason(
            "file_moved",
            f"{engine.place}: the file that is open is not there any more: it was moved, removed"
            " or replaced, and what is written still goes to it. Close the database, and put the"
            " right file there.",
        )


def _is_moved(engine: Engine) -> bool:
    """Whether the path leads elsewhere, and not only while a compaction changes the file."""
    is_compacting = engine.compacting.locked()
    return is_elsewhere(engine.log) and not is_compacting and not engine.compacting.locked()


def _lateness(engine: Engine, found: Vitals) -> Iterator[HealthReason]:
    if found.unsynced_s > max(_LATE_S, _LATE_TIMES * found.flush_interval_s):
        yield HealthReason(
            "unsynced",
            f"{engine.place}: there have been commits that are not synced for"
            f" {found.unsynced_s:.0f} s. Look whether the disk answers.",
        )
    if found.unchecked_versions > _LATE_TIMES * found.checkpoint_interval:
        yield HealthReason(
            "checkpoint_overdue",
            f"{engine.place}: {found.unchecked_versions} versions are behind the last checkpoint,"
            f" which should be {found.checkpoint_interval}. Make room on the disk, or call"
            " checkpoint() to hear what is in the way.",
        )
    if engine.mode == "r":
        behind = _behind_s(engine)
        if behind > _LATE_S:
            yield HealthReason(
                "reader_behind",
                f"{engine.place}: what has been in the file for {behind:.0f} s was not taken in."
                " Call refresh().",
            )


# Engine of a reader -> since when it is known that another file lies at its path.
_left: weakref.WeakKeyDictionary[Engine, float] = weakref.WeakKeyDictionary()


def _behind_s(engine: Engine) -> float:
    """Return for how long something has been in the file that a reader has not taken in."""
    now = time.monotonic()
    if is_elsewhere(engine.log):
        return now - _left.setdefault(engine, now)
    _left.pop(engine, None)
    try:
        return behind_s(engine.log)
    except OSError:
        # What is behind its back can't be read either; a refresh says why.
        return now - _left.setdefault(engine, now)


def _findings(engine: Engine, found: Vitals) -> Iterator[HealthReason]:
    if found.damaged:
        yield HealthReason(
            "damaged",
            f"{engine.place}: {len(found.damaged)} damaged records were met, the first of them at"
            f" byte {found.damaged[0]}. Call check() to see what else is, and restore the file"
            " from a copy.",
        )
    if found.has_two_keys:
        yield HealthReason(
            "two_keys",
            f"{engine.place}: a change of its key or password was cut short, so that the one"
            " before and the new one both open the file. Open it for writing with the new one,"
            " which ends that, or call rekey() with the one that is to stay.",
        )
    recovery = engine.log.recovery
    if recovery is not None and recovery.kept_in is not None:
        yield HealthReason(
            "torn_tail",
            f"{engine.place}: {recovery.cut_bytes} bytes behind the last whole commit (at byte"
            f" {recovery.cut_offset}) were cut off when it was opened, and are kept in"
            f" {recovery.kept_in}. Remove that file, or send it to whoever looks into the crash.",
        )
    share = dead_share(engine)
    if share > _LARGE_SHARE:
        yield HealthReason(
            "mostly_dead",
            f"{engine.place}: {share:.0%} of its {found.log_bytes} bytes are old versions. Call"
            " compact() to get rid of them.",
        )


# -- the dead part ---------------------------------------------------------------------------

# Log -> (bytes of the log, dead share) when it was counted last.
_counted: weakref.WeakKeyDictionary[Engine, tuple[int, float]] = weakref.WeakKeyDictionary()


def dead_share(engine: Engine) -> float:
    """Return about what part of the log's bytes is not needed any more, 0 for a small log.

    Cost: O(versions), vectorised, once the log has grown by a tenth; else O(1).
    """
    log_bytes = vitals(engine.log).log_bytes
    if log_bytes < _LARGE_LOG_BYTES:
        return 0.0
    before, share = _counted.get(engine, (0, 0.0))
    if not before <= log_bytes < before * _GROWTH:
        share = max(1 - _live_bytes(engine.log) / log_bytes, 0.0)
        _counted[engine] = log_bytes, share
    return share


def _live_bytes(log: Log) -> int:
    """Return what the live versions take, each as if it were alone in its commit."""
    pointers = log.pointers()
    size = 0
    for entry in log.catalogue.get("collections", ()):
        live = live_pointers(pointers[pointers["collection"] == entry["id"]])
        size += int(live["length"].sum(dtype="<u8")) + len(live) * (_BLOCK_BYTES + _POINTER_BYTES)
    return size
