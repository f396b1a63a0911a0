"""Header page, roots and blocks as bytes and back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memdb.errors import DamageError
from memdb.storage._blocks import (
    BlockHeader,
    Checkpoint,
    Root,
    aligned,
    empty_pointers,
    pack_block,
    pack_checked,
    pack_checkpoint,
    pack_header,
    pack_root,
    unpack_block,
    unpack_checked,
    unpack_checkpoint,
    unpack_header,
    unpack_root,
)
from memdb.storage._constants import (
    BLOCK_BYTES,
    COMMIT_MAGIC,
    FORMAT_VERSION,
    MAGIC,
    PAIR_DTYPE,
    POINTER_BYTES,
    ROOT_BYTES,
)

U64 = st.integers(0, 2**64 - 1)
FILE_IDS = st.integers(1, 2**64 - 1)
ROOTS = st.builds(
    Root,
    generation=U64,
    log_end=U64,
    checkpoint=U64,
    catalogue=U64,
    sequence=U64,
    timestamp=U64,
    boot_id=st.binary(min_size=16, max_size=16),
    is_clean=st.booleans(),
)


def pairs(*values: tuple[int, int]) -> np.ndarray:
    """Return pairs as a table of a checkpoint."""
    return np.array(list(values), PAIR_DTYPE)


@given(FILE_IDS, U64)
def test_header_comes_back(file_id: int, created: int) -> None:
    """The header page gives magic, version and file id back, and is a page long."""
    page = pack_header(file_id, created)

    assert (MAGIC, FORMAT_VERSION, file_id, True) == unpack_header(page)
    assert 4096 == len(page)


@given(FILE_IDS, st.integers(0, 64 * 8 - 1))
def test_header_with_a_flipped_bit_does_not_match(file_id: int, bit: int) -> None:
    """Any flipped bit of the header is found by its checksum."""
    page = bytearray(pack_header(file_id, 5))
    page[bit // 8] ^= 1 << bit % 8

    assert not unpack_header(bytes(page))[3]


@given(ROOTS, FILE_IDS)
def test_root_comes_back(root: Root, file_id: int) -> None:
    """A root gives every field back."""
    data = pack_root(root, file_id)

    assert root == unpack_root(data, file_id)
    assert ROOT_BYTES == len(data)


@given(ROOTS, FILE_IDS, st.integers(0, ROOT_BYTES * 8 - 1))
def test_root_with_a_flipped_bit_is_not_valid(root: Root, file_id: int, bit: int) -> None:
    """Any flipped bit of a root makes it invalid."""
    data = bytearray(pack_root(root, file_id))
    data[bit // 8] ^= 1 << bit % 8

    assert unpack_root(bytes(data), file_id) is None


@given(ROOTS, FILE_IDS, FILE_IDS)
def test_root_of_another_file_is_not_valid(root: Root, file_id: int, other: int) -> None:
    """A root belongs to one file."""
    assert (unpack_root(pack_root(root, file_id), other) is None) == (file_id != other)


@pytest.mark.parametrize("size", [0, 1, ROOT_BYTES - 1])
def test_short_root_is_not_valid(size: int) -> None:
    """A root that was cut is not valid."""
    assert unpack_root(pack_root(Root(1, 2), 3)[:size], 3) is None


def test_next_root_counts_on() -> None:
    """The root that follows has the next generation and only the given changes."""
    root = Root(4, 100, 7, 8, 9, 10, bytes(range(16)), True)

    assert Root(5, 200, 7, 8, 9, 10, bytes(range(16)), False) == root.next(
        log_end=200, is_clean=False
    )


@given(U64, U64, st.integers(0, 4), st.integers(0, 1000), FILE_IDS)
def test_block_header_comes_back(
    sequence: int, timestamp: int, count: int, payload_bytes: int, file_id: int
) -> None:
    """A block gives the fields of its header back and knows where its parts lie."""
    pointers = empty_pointers(count).tobytes()
    data = pack_block(COMMIT_MAGIC, sequence, timestamp, pointers, payload_bytes, file_id)
    unpacked = unpack_block(data[:BLOCK_BYTES], 800)
    assert unpacked is not None
    _, header = unpacked

    assert BlockHeader(800, COMMIT_MAGIC, count, sequence, timestamp, payload_bytes) == header
    assert BLOCK_BYTES + count * POINTER_BYTES == len(data)
    assert 840 == header.pointers_offset
    assert 840 + 32 * count == header.payload_offset
    assert aligned(header.payload_offset + payload_bytes) == header.end


def test_unknown_magic_is_no_block() -> None:
    """Bytes with another magic are not taken for a block."""
    data = bytearray(pack_block(COMMIT_MAGIC, 1, 2, b"", 0, 3))
    data[11] = ord("X")

    assert unpack_block(bytes(data), 0) is None


@given(st.binary(max_size=100), FILE_IDS)
def test_checked_payload_comes_back(body: bytes, file_id: int) -> None:
    """A checked payload gives its body back, and to no other file."""
    payload = pack_checked(body, file_id)

    assert body == unpack_checked(payload, file_id)
    assert body == unpack_checked(memoryview(payload), file_id)
    assert unpack_checked(payload, file_id - 1 or file_id + 1) is None


@given(st.binary(min_size=1, max_size=100), st.data())
def test_checked_payload_with_a_flipped_bit_is_refused(body: bytes, data: st.DataObject) -> None:
    """Any flipped bit of a checked payload is found."""
    payload = bytearray(pack_checked(body, 7))
    bit = data.draw(st.integers(0, len(payload) * 8 - 1))
    payload[bit // 8] ^= 1 << bit % 8

    assert unpack_checked(bytes(payload), 7) is None


@pytest.mark.parametrize("size", range(8))
def test_payload_shorter_than_its_checksum_is_refused(size: int) -> None:
    """A payload without room for a checksum does not match one."""
    assert unpack_checked(bytes(size), 7) is None


@given(st.lists(st.tuples(U64, U64), max_size=5), st.lists(st.tuples(U64, U64), max_size=5), U64)
def test_checkpoint_comes_back(
    segments: list[tuple[int, int]], runs: list[tuple[int, int]], previous: int
) -> None:
    """A checkpoint gives its tables back."""
    checkpoint = Checkpoint(previous, 17, pairs(*segments), pairs(*runs), pairs((1, 5)))
    found = unpack_checkpoint(pack_checkpoint(checkpoint), "a", 0)

    assert (previous, 17) == (found.previous, found.first_slot)
    assert segments == found.segments.tolist()
    assert runs == found.runs.tolist()
    assert [(1, 5)] == found.last_identities.tolist()


@pytest.mark.parametrize("change", [-16, -1, 1, 16])
def test_checkpoint_of_a_wrong_length_is_damage(change: int) -> None:
    """Tables that do not fill the payload are refused, with the offset."""
    body = pack_checkpoint(Checkpoint(0, 1, pairs((0, 3)), pairs((1, 9)), pairs((1, 3))))
    body = body[:change] if change < 0 else body + bytes(change)
    with pytest.raises(DamageError) as caught:
        unpack_checkpoint(body, "a.memdb", 77)

    assert ("a.memdb", 77) == (caught.value.path, caught.value.offset)


def test_checkpoint_shorter_than_its_head_is_damage() -> None:
    """A checkpoint without room for its numbers is refused."""
    with pytest.raises(DamageError):
        unpack_checkpoint(bytes(39), "a.memdb", 0)


@given(st.integers(0, 10_000))
def test_aligned_is_the_next_multiple_of_eight(offset: int) -> None:
    """Blocks start at multiples of eight, with less than eight bytes between."""
    found = aligned(offset)

    assert 0 == found % 8
    assert 0 <= found - offset < 8
