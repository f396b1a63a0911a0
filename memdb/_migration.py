"""Rewriting what older forms of the classes wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from memdb.errors import DamageError, DecodeError, EncodeError, TransactionError

if TYPE_CHECKING:
    from memdb._engine import Engine
    from memdb._members import Member
    from memdb._store import Store
    from memdb.storage import Era

_BATCH = 1000

Failure = DecodeError | EncodeError | DamageError


@dataclass(frozen=True, slots=True)
class CollectionMigration:
    """What a migration did to one collection.

    Attributes:
        old: Records that were in another form than the present one.
        migrated: Those of them that are in the present form now, or would be after a dry run.
        failures: Those that can't be, each with its error; an identity is None where the record
            could not be read so far.
    """

    old: int
    migrated: int
    failures: tuple[tuple[Any, Failure], ...]


@dataclass(frozen=True, slots=True)
class MigrationResult:
    """What `Database.migrate` did, or would do.

    Attributes:
        collections: By name.
        is_dry_run: Nothing was written.
    """

    collections: dict[str, CollectionMigration]
    is_dry_run: bool

    @property
    def is_complete(self) -> bool:
        """Whether no record failed."""
        return not any(each.failures for each in self.collections.values())


def migrate(
    engine: Engine, *, progress: Callable[[int, int], object] | None, is_dry_run: bool
) -> MigrationResult:
    """Rewrite the old records of every collection that was asked for."""
    if is_dry_run:
        engine.log.raise_if_closed()
    else:
        engine.log.raise_if_unusable()
        engine.refuse_change()
    if engine.current() is not None:
        raise TransactionError(
            f"{engine.place}: migrate() makes commits of its own and can't be part of a"
            " transaction. Call it outside."
        )
    old = {store: _old_slots(store) for store in list(engine.stores.values()) if _can_write(store)}
    total = sum([len(slots) for _, slots in old.values()])
    done = 0
    results = {}
    for store, (_, slots) in old.items():
        migrated, failures = 0, list[tuple[Any, Failure]]()
        for start in range(0, len(slots), _BATCH):
            batch = slots[start : start + _BATCH]
            states = list(_upgraded(store, batch, failures))
            migrated += len(states) if is_dry_run else store.rewrite(states)
            done += len(batch)
            if progress is not None:
                progress(done, total)
        results[store.name] = CollectionMigration(len(slots), migrated, tuple(failures))
    return MigrationResult(results, is_dry_run)


def _can_write(store: Store) -> bool:
    """Whether the collection was asked for by its class, not as dicts by its name."""
    return not store.is_borrowed()


def _old_slots(store: Store) -> tuple[Era, list[int]]:
    """Return the slots of the live versions that are not in their present form.

    With their era, which is kept so that they can be read when a compaction, which converts them
    all, comes meanwhile.
    """
    log = store.engine.log
    with log.lock:
        era = log.era
        _, slots = store.identities.arrays()
        writers = log.pointers_of(slots)["writer"]
    old = [writer for writer in np.unique(writers).tolist() if store.decoding.is_old(writer)]
    return era, sorted(slots[np.isin(writers, old)].tolist())


def _upgraded(
    store: Store, slots: list[int], failures: list[tuple[Any, Failure]]
) -> Iterator[tuple[int, int, bytes, Member]]:
    """Give number, slot, new bytes and class of the records that can be upgraded."""
    for slot in slots:
        try:
            number, writer_id, _, payload = store.engine.log.read(slot)
            record = store.decoding.decode(writer_id, payload, number)
            member = store.member_of(record)
            identity = store.identity_of(number, record)
            yield number, slot, store.encode(member, record, identity), member
        except (DecodeError, EncodeError) as error:
            failures.append((error.identity, error))
        except DamageError as error:
            failures.append((None, error))
