"""Whatever the bytes: opening and reading give records that were, or errors of memdb."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import memdb
from memdb.storage import MemoryFile
from memdb.storage._constants import MAGIC
from tests.crash.children import Account, collections
from tests.support.faulty import FaultyFile, drop, open_on

# Longer than the plain run; the fuzz profile multiplies it again.
THOROUGH = settings(
    max_examples=10_000,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@functools.cache
def sample(kind: str) -> tuple[bytes, frozenset[tuple[str, str]]]:
    """Return the bytes of a file and every version that it holds."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.memdb"
        db = open_on(FaultyFile(path))
        own = collections(db)
        for number in range(6):
            own["Account"].insert(Account(f"owner {number}", number, ["x" * number]))
            with db.transaction():
                own["notes"].insert({"number": number})
                own["Account"].update(1, cents=number + 100)
            if number == 3:
                db.checkpoint()
        own["Account"].delete(2)
        versions = everything(db)
        if kind == "closed":
            db.close()
        else:
            drop(db)
        data = path.read_bytes()
    return data.rstrip(b"\0") + bytes(16), versions


def everything(db: memdb.Database) -> frozenset[tuple[str, str]]:
    """Return all versions of all records, and call what else reads."""
    found = set()
    for name, collection in collections(db).items():
        last = collection.stats().last_identity
        for identity in range(1, min(last, 50) + 1):
            for version in collection.history(identity):
                found.add((name, repr(version.record)))
        for record in collection:
            assert (name, repr(record)) in found
        assert len(collection) == len(collection.ids())
    return frozenset(found)


def judge(data: bytes, mode: Any, legal: frozenset[tuple[str, str]]) -> None:
    """Open bytes and read; anything but errors of memdb and versions that were is a failure."""
    file = MemoryFile()
    file.write(0, data)
    try:
        db = open_on(file, mode)
    except memdb.MemdbError:
        assert file.read(0, file.length()) == data
        return
    try:
        db.stats()
        db.check()
        assert everything(db) <= legal
        if mode == "rw":
            identity = collections(db)["Account"].insert(Account("new", 1))
            assert collections(db)["Account"][identity].owner == "new"
    except memdb.MemdbError:
        pass
    finally:
        db.close()


@st.composite
def mutated(draw: st.DrawFn) -> tuple[bytes, frozenset[tuple[str, str]]]:
    """Draw a file to which something was done, and the versions that it held."""
    data, legal = sample(draw(st.sampled_from(("closed", "killed"))))
    changed = bytearray(data)
    # Where something is: the pages before the log are nearly empty.
    places = st.one_of(
        st.integers(0, 80),
        st.integers(4096, 4224),
        st.integers(8192, 8320),
        st.integers(12288, len(data) - 1),
    )
    for _ in range(draw(st.integers(1, 4))):
        at, size = draw(places), draw(st.sampled_from((1, 2, 4, 8, 40, 72, 512, 4096)))
        what = draw(st.sampled_from(("flip", "bytes", "zeros", "copy", "insert", "remove", "cut")))
        if not changed:
            break
        at = min(at, len(changed) - 1)
        if what == "flip":
            changed[at] ^= 1 << draw(st.integers(0, 7))
        elif what == "bytes":
            part = draw(st.binary(min_size=1, max_size=40))
            changed[at : at + len(part)] = part
        elif what == "zeros":
            changed[at : at + size] = bytes(len(changed[at : at + size]))
        elif what == "copy":
            # Blocks, pages and roots of the file itself, somewhere else.
            source = draw(places)
            changed[at : at + size] = data[source : source + size]
        elif what == "insert":
            changed[at:at] = draw(st.sampled_from((bytes(size), data[at : at + size])))
        elif what == "remove":
            del changed[at : at + size]
        else:
            del changed[at:]
    return bytes(changed), legal


MODES = st.sampled_from(("rw", "r"))
HEADS = st.sampled_from(
    (b"", MAGIC, b"MDBC", sample("closed")[0][:64], sample("closed")[0][:12288])
)


@given(HEADS, st.binary(max_size=300), MODES)
def test_random_bytes(head: bytes, body: bytes, mode: str) -> None:
    """Random bytes, also behind a valid beginning, are refused or hold nothing."""
    judge(head + body, mode, frozenset())


@given(mutated(), MODES)
def test_mutated_files(file: tuple[bytes, frozenset[tuple[str, str]]], mode: str) -> None:
    """A file in which anything was changed gives versions that were, or errors of memdb."""
    judge(file[0], mode, file[1])


@pytest.mark.slow
@pytest.mark.timeout(1200)
@THOROUGH
@given(mutated(), MODES)
def test_many_mutated_files(file: tuple[bytes, frozenset[tuple[str, str]]], mode: str) -> None:
    """Thousands of changed files give versions that were, or errors of memdb."""
    judge(file[0], mode, file[1])


@pytest.mark.slow
@pytest.mark.timeout(1200)
@THOROUGH
@given(HEADS, st.binary(max_size=5000), MODES)
def test_much_random_bytes(head: bytes, body: bytes, mode: str) -> None:
    """Thousands of random files are refused or hold nothing."""
    judge(head + body, mode, frozenset())
