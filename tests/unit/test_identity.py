"""The identity indexes against a dict."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from memdb.indexes import IdentityIndex, ScannedIdentities
from memdb.indexes._identity import MAX_IDENTITY, Array, Identities

CLASSES = [IdentityIndex, ScannedIdentities]

# Low ones meet each other, 70,000 is still dense, the others are not.
IDENTITIES = st.one_of(
    st.integers(1, 12), st.sampled_from([100, 70_000, 300_000, 2**31, 2**40, MAX_IDENTITY])
)
SLOTS = st.integers(1, 2**32 - 1)


def as_arrays(versions: list[tuple[int, int]]) -> tuple[Array, Array]:
    """Return the identities and the slots of versions."""
    pairs = np.array(versions, "<i8").reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


class IndexMachine(RuleBasedStateMachine):
    """The operations of an index in random order."""

    cls: type[IdentityIndex] | type[ScannedIdentities]

    def __init__(self) -> None:
        super().__init__()
        self.index: Identities = self.cls()
        self.model: dict[int, int] = {}
        self.given = 0

    @rule(identity=IDENTITIES, slot=SLOTS)
    def set(self, identity: int, slot: int) -> None:
        self.index.set(identity, slot)
        self.model[identity] = slot
        self.given = max(self.given, identity)

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        identity = data.draw(st.sampled_from(sorted(self.model)))
        self.index.remove(identity)
        del self.model[identity]

    @precondition(lambda self: self.given < MAX_IDENTITY - 10)
    @rule(first_slot=st.integers(1, 1000), count=st.integers(1, 5))
    def extend(self, first_slot: int, count: int) -> None:
        first = self.given + 1
        self.index.extend(first, first_slot, count)
        self.model.update((first + number, first_slot + number) for number in range(count))
        self.given += count

    @rule(cut=st.integers(0, 10))
    def build_again(self, cut: int) -> None:
        """As opening does: from all versions in order and in parts, a deletion being slot 0."""
        versions = [(identity, 7) for identity in self.model] + [(i, 0) for i in (1, 2, 3)]
        versions += sorted(self.model.items(), reverse=True)
        self.given = max(self.given, 3)
        parts = [as_arrays(versions[:cut]), as_arrays(versions[cut:])]
        self.index = self.cls.build(parts, len(versions), self.given)

    @invariant()
    def is_equal_to_the_dict(self) -> None:
        identities, slots = self.index.arrays()

        assert sorted(self.model.items()) == list(
            zip(identities.tolist(), slots.tolist(), strict=True)
        )
        assert len(self.model) == len(self.index)
        assert sorted(self.model) == list(self.index)
        assert self.given + 1 == self.index.next_identity
        for identity in (*range(14), 70_000, 2**40, MAX_IDENTITY, self.given, self.given + 1):
            assert self.model.get(identity, 0) == self.index.find(identity)
        for nothing in (-1, 0, 2**63, 2**70):
            assert 0 == self.index.find(nothing)


@pytest.mark.parametrize("cls", CLASSES)
def test_is_equal_to_a_dict(cls: type[IdentityIndex]) -> None:
    """Whatever is done in whatever order, an index answers as a dict would."""
    machine = type("Machine", (IndexMachine,), {"cls": cls})
    run_state_machine_as_test(machine, settings=settings(max_examples=60, stateful_step_count=30))


@pytest.mark.parametrize("cls", CLASSES)
@given(
    versions=st.lists(st.tuples(IDENTITIES, st.one_of(st.just(0), SLOTS)), max_size=20),
    more=st.sampled_from([0, 1, 10**6]),
)
def test_built_from_versions(
    cls: type[IdentityIndex], versions: list[tuple[int, int]], more: int
) -> None:
    """The last version of an identity counts, a deletion ends it, and the highest is remembered."""
    last = max((more, *(identity + more for identity, _ in versions)))
    index = cls.build([as_arrays(versions)], len(versions), last)
    expected = {identity: slot for identity, slot in dict(versions).items() if slot}

    assert expected == {identity: index.find(identity) for identity in index}
    assert last + 1 == index.next_identity
    assert len(expected) == len(index)


@pytest.mark.parametrize("cls", CLASSES)
def test_arrays_are_copies(cls: type[IdentityIndex]) -> None:
    """What arrays() gave does not change with the index, and does not keep it from growing."""
    index = cls()
    index.extend(1, 1, 3)
    identities, slots = index.arrays()
    index.set(2, 9)
    index.extend(4, 4, 1000)
    index.remove(1)

    assert ([1, 2, 3], [1, 2, 3]) == (identities.tolist(), slots.tolist())


def test_dense_while_it_is_worth_it() -> None:
    """An array of 4 bytes an identity while few are missing, a dict for those far above."""
    index = IdentityIndex()
    index.extend(1, 1, 1000)
    assert (True, 4 * 1001) == (index.is_dense, len(index.dense) * index.dense.itemsize)
    index.set(20_000, 5)
    assert index.is_dense
    index.set(10**12, 6)

    assert (False, {10**12: 6}) == (index.is_dense, index.sparse)
    assert (10**12 + 1, 5, 6) == (index.next_identity, index.find(20_000), index.find(10**12))


def test_scanned_has_no_index() -> None:
    """Without an index identities of any size are as good, and given in order."""
    scanned = ScannedIdentities()
    for identity in (2**62, 5, 10**9):
        scanned.set(identity, 1)

    assert [5, 10**9, 2**62] == list(scanned)
    assert 2**62 + 1 == scanned.next_identity
