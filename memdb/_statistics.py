"""Counts and sizes, from the pointers alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from memdb.storage import Array, Kind


@dataclass(frozen=True, slots=True)
class VersionStats:
    """Number and sizes in bytes of some versions; all 0 when there are none."""

    count: int
    bytes: int
    smallest_bytes: int
    largest_bytes: int
    mean_bytes: float


@dataclass(frozen=True, slots=True)
class CollectionStats:
    """What a collection has in the file.

    Attributes:
        live: The records as they are now.
        stale: Earlier versions of any record.
        deleted: The last version of each record that was deleted.
        last_identity: The highest identity ever given, 0 for none or with a natural key.
    """

    name: str
    live: VersionStats
    stale: VersionStats
    deleted: VersionStats
    last_identity: int


@dataclass(frozen=True, slots=True)
class DatabaseStats:
    """What a database has in the file and in memory, sizes in bytes.

    Attributes:
        file_bytes: Length of the file, reserved space included.
        log_bytes: Of the log without reserved space.
        map_bytes: Of the pointer map: pointers in the file and their positions in memory.
        versions: Versions in the log.
        unchecked_versions: Versions behind the last checkpoint, which opening would walk.
    """

    file_bytes: int
    log_bytes: int
    map_bytes: int
    versions: int
    unchecked_versions: int
    collections: dict[str, CollectionStats]


def collection_stats(
    name: str, collection_id: int, pointers: Array, last_identity: int, *, has_key: bool
) -> CollectionStats:
    """Count the versions of one collection.

    Args:
        pointers: (n,) POINTER_DTYPE, all of the file, in order of slots.
        last_identity: The highest identity known to have been given.
        has_key: Identities are natural keys.
    """
    own = pointers[pointers["collection"] == collection_id]
    is_deletion = own["kind"] == Kind.DELETED
    # The last pointer of each record, and the last one with bytes.
    is_last = _is_last(own["identity"])
    with_bytes = own[~is_deletion]
    is_newest = _is_last(with_bytes["identity"])
    live = own[is_last & ~is_deletion]
    gone = np.isin(with_bytes["identity"], own["identity"][is_last & is_deletion])
    return CollectionStats(
        name=name,
        live=_version_stats(live["length"]),
        stale=_version_stats(with_bytes["length"][~is_newest]),
        deleted=_version_stats(with_bytes["length"][is_newest & gone]),
        last_identity=0 if has_key else max(int(own["identity"].max(initial=0)), last_identity),
    )


def live_pointers(own: Array) -> Array:
    """Return the pointers of the live versions of one collection.

    Args:
        own: (n,) POINTER_DTYPE, the collection's, in order of slots.
    """
    live: Array = own[_is_last(own["identity"]) & (own["kind"] != Kind.DELETED)]
    return live


def _is_last(identities: Array) -> Array:
    """Return which places hold the last occurrence of their value."""
    result = np.zeros(len(identities), bool)
    _, first_from_behind = np.unique(identities[::-1], return_index=True)
    result[len(identities) - 1 - first_from_behind] = True
    return result


def _version_stats(lengths: Array) -> VersionStats:
    if not len(lengths):
        return VersionStats(0, 0, 0, 0, 0.0)
    return VersionStats(
        count=len(lengths),
        bytes=int(lengths.sum(dtype="<u8")),
        smallest_bytes=int(lengths.min()),
        largest_bytes=int(lengths.max()),
        mean_bytes=float(lengths.mean()),
    )
