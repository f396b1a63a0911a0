"""What a database must be equal to: plain dicts.

Records in a model are never changed in place, so that states may share them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.support.exact import is_exact
from tests.support.samples import RecordKind

State = dict[int, Any]


@dataclass
class CollectionModel:
    """A collection as a dict from identity to record.

    Attributes:
        states: The committed state, then one for each open transaction or savepoint.
        past: Identity -> its committed versions, kind and record.
        given: The highest identity that a commit has given.
        touched: Identities that the open transaction has given, kept or not.
        foreign: Identities whose bytes are of another serializer than the present one, so
            that an equal record may be written anew.
    """

    kind: RecordKind
    states: list[State] = field(default_factory=lambda: [{}])
    past: dict[int, list[tuple[str, Any]]] = field(default_factory=dict)
    given: int = 0
    touched: set[int] = field(default_factory=set)
    foreign: set[int] = field(default_factory=set)

    @property
    def live(self) -> State:
        """What the innermost transaction sees."""
        return self.states[-1]

    @property
    def committed(self) -> State:
        """What everybody else sees."""
        return self.states[0]

    def records(self) -> list[Any]:
        """Return the live records, rising by identity."""
        return [self.live[identity] for identity in sorted(self.live)]

    def matching(self, matches: Callable[[Any], object]) -> list[Any]:
        """Return the live records that match, rising by identity."""
        return [record for record in self.records() if matches(record)]

    def stored(self, record: Any, identity: int) -> Any:
        """Return a record as it will be read: its own object, with its identity."""
        return self.kind.make(copy.deepcopy(self.kind.values(record)), identity)

    def is_new_identity(self, identity: int) -> bool:
        """Whether an assigned identity is one that was never given before."""
        if len(self.states) == 1:
            return identity == self.given + 1
        return identity > self.given and identity not in self.touched

    def set(self, identity: int, record: Any) -> None:
        """Insert or replace a record."""
        self._change({identity: self.stored(record, identity)})

    def set_many(self, pairs: Iterable[tuple[int, Any]]) -> None:
        """Insert several records."""
        self._change({identity: self.stored(record, identity) for identity, record in pairs})

    def delete(self, identity: int) -> None:
        """Delete a record."""
        self._change({identity: None})

    def clear(self) -> None:
        """Delete all records."""
        self._change(dict.fromkeys(self.live))

    def _change(self, changes: dict[int, Any]) -> None:
        after = self.live | changes
        after = {identity: record for identity, record in after.items() if record is not None}
        if len(self.states) == 1:
            self._commit(after)
        else:
            self.touched.update(changes)
            self.states[-1] = after

    def begin(self) -> None:
        """Begin a transaction or savepoint."""
        self.states.append(self.live)

    def end(self, *, keep: bool) -> None:
        """End the innermost transaction or savepoint."""
        state = self.states.pop()
        if not keep:
            state = self.states[-1]
        if len(self.states) == 1:
            self.touched.clear()
            self._commit(state)
        else:
            self.states[-1] = state

    def _commit(self, after: State) -> None:
        before = self.committed
        for identity in before.keys() | after.keys():
            old, new = before.get(identity), after.get(identity)
            # An equal record by another object: the database may have written it anew.
            if old is new or (old is not None and new is not None and is_exact(old, new)):
                continue
            event = "deleted" if new is None else "inserted" if old is None else "updated"
            self.past.setdefault(identity, []).append((event, new))
            self.note_given(identity)
            self.foreign.discard(identity)
        self.states = [after]

    def drop_history(self) -> None:
        """Forget all but the committed state, as a compaction does."""
        self.past = {
            identity: [("inserted", record)] for identity, record in self.committed.items()
        }

    def note_given(self, identity: int) -> None:
        """Remember that a commit has given an identity."""
        self.given = max(self.given, identity)

    def is_changed_by(self, identity: int, record: Any) -> bool:
        """Whether a record differs from the live one."""
        return not is_exact(self.live[identity], self.stored(record, identity))


def forget_open(models: Iterable[CollectionModel]) -> None:
    """Drop what is not committed, as a crash does."""
    for model in models:
        model.states = model.states[:1]
        model.touched.clear()
