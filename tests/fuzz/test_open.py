"""Whatever the bytes: opening, reading and mending give records that were, or errors of memdb."""

from __future__ import annotations

import functools
import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import memdb
from memdb import ColumnIndex, SortedIndex, _saved_indexes
from memdb.storage import File, MemoryFile, OSFile
from memdb.storage._constants import MAGIC
from tests.crash.children import Account
from tests.support.effort import times
from tests.support.faulty import FaultyFile, drop, open_on

T = TypeVar("T")

# Longer than the plain run; the fuzz profile multiplies it again.
THOROUGH = settings(
    max_examples=10_000,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
KEY = bytes(range(32))
KINDS = ("closed", "killed", "encrypted", "killed encrypted", "compacted", "indexed")
# Twice as often: these are what there is most of.
DRAWN = (*KINDS, "closed", "killed")
Versions = frozenset[tuple[str, str]]


class Sample(NamedTuple):
    """The bytes of a file, what opens it, and every version that it holds."""

    data: bytes
    opening: dict[str, Any]
    legal: Versions


@functools.cache
def sample(kind: str) -> Sample:
    """Return a small file of some kind."""
    opening: dict[str, Any] = {"key": KEY} if "encrypted" in kind else {}
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(_saved_indexes, "_LEAST_ENTRIES", 1)
        patch.setattr(_saved_indexes, "_LEAST_CHANGES", 1)
        path = Path(folder) / "a.memdb"
        db = open_on(FaultyFile(path), **opening)
        own = collections(db, kind)
        for number in range(6):
            own["Account"].insert(Account(f"owner {number}", number, ["x" * number]))
            with db.transaction():
                own["notes"].insert({"number": number})
                own["Account"].update(1, cents=number + 100)
            if number == 3:
                db.checkpoint()
        own["Account"].delete(2)
        if kind == "indexed":
            assert own["Account"].query().order_by("cents").first() is not None
            assert own["Account"].query().sum("cents") > 0
        versions = everything(db, kind)
        if kind == "compacted":
            db.compact()
            versions |= everything(db, kind)
        if "killed" in kind:
            drop(db)
        else:
            db.close()
        data = path.read_bytes()
    assert kind != "indexed" or b"MDBI" in data
    return Sample(data.rstrip(b"\0") + bytes(16), opening, versions)


def collections(db: memdb.Database, kind: str) -> dict[str, memdb.Collection[Any]]:
    """Return the collections of the samples; those of some have indexes."""
    indexes = [SortedIndex("cents"), ColumnIndex("cents", name="column")]
    return {
        "Account": db.collection(Account, indexes=indexes if kind == "indexed" else []),
        "notes": db.collection("notes"),
    }


def everything(db: memdb.Database, kind: str) -> Versions:
    """Return all versions of all records, and call what else reads."""
    found = set()
    for name, collection in collections(db, kind).items():
        last = collection.stats().last_identity
        for identity in range(1, min(last, 50) + 1):
            for version in collection.history(identity):
                found.add((name, repr(version.record)))
        for record in collection:
            assert (name, repr(record)) in found
        assert len(collection) == len(collection.ids())
        if kind == "indexed" and name == "Account":
            by_index = collection.query().order_by("cents").all()
            assert sorted(map(repr, by_index)) == sorted(map(repr, collection))
    return frozenset(found)


def judge(
    data: bytes,
    mode: Any,
    kind: str = "closed",
    legal: Versions = frozenset(),
    folder: Path | None = None,
) -> None:
    """Open bytes and read; anything but errors of memdb and versions that were is a failure.

    In memory, or, where there is a folder, in a real file, whose end no map may pass.
    """
    opening = sample(kind).opening
    file: File = MemoryFile()
    if folder is not None:
        (folder / "a.memdb").write_bytes(data)
        file = OSFile(str(folder / "a.memdb"), write=mode == "rw")
    else:
        file.write(0, data)
    try:
        db = open_on(file, mode, **opening)
    except memdb.MemdbError:
        if folder is not None:
            assert (folder / "a.memdb").read_bytes() == data
        else:
            assert file.read(0, file.length()) == data
        return
    try:
        db.stats()
        db.check()
        db.health()
        assert everything(db, kind) <= legal
        if mode == "rw":
            identity = collections(db, kind)["Account"].insert(Account("new", 1))
            assert collections(db, kind)["Account"][identity].owner == "new"
    except memdb.MemdbError:
        pass
    finally:
        db.close()


def judge_mending(folder: Path, data: bytes, kind: str, legal: Versions) -> None:
    """Check and repair bytes, and copy what there was before; nothing that never was comes out."""
    opening = sample(kind).opening
    path, mended, earlier = (folder / name for name in ("a.memdb", "mended", "earlier"))
    path.write_bytes(data)
    for made, make in (
        (mended, lambda: memdb.repair(path, to=mended, **opening)),
        (earlier, lambda: memdb.restore(path, at=5, to=earlier, **opening)),
    ):
        made.unlink(missing_ok=True)
        try:
            memdb.check(path, **opening)
            make()
            with memdb.open(made, **opening) as db:
                assert everything(db, kind) <= legal
                assert db.check() == [] or made == earlier
        except memdb.MemdbError:
            pass
    assert path.read_bytes() == data


# -- changed files ---------------------------------------------------------------------------


class Choices(NamedTuple):
    """Where the choices of a mutation come from.

    Attributes:
        integer: Gives one between two, both included.
        one_of: Gives one of a sequence.
        some_bytes: Gives a few bytes.
    """

    integer: Callable[[int, int], int]
    one_of: Callable[[Any], Any]
    some_bytes: Callable[[], bytes]


def mutated(choices: Choices) -> tuple[bytes, str]:
    """Return a file to which something was done, and of which kind it is."""
    kind = choices.one_of(DRAWN)
    data = sample(kind).data
    changed = bytearray(data)

    def place(length: int) -> int:
        # Where something is: the pages before the log are nearly empty.
        first, last = choices.one_of(
            ((0, 80), (2048, 2320), (2560, 3264), (4096, 4224), (8192, 8320), (12288, length - 1))
        )
        return choices.integer(first, last) if last >= first else 0

    for _ in range(choices.integer(1, 4)):
        at = place(len(data))
        size = choices.one_of((1, 2, 4, 8, 40, 72, 512, 4096))
        what = choices.one_of(
            ("flip", "bytes", "zeros", "copy", "splice", "insert", "remove", "cut")
        )
        if not changed:
            break
        at = min(at, len(changed) - 1)
        if what == "flip":
            changed[at] ^= 1 << choices.integer(0, 7)
        elif what == "bytes":
            part = choices.some_bytes()
            changed[at : at + len(part)] = part
        elif what == "zeros":
            changed[at : at + size] = bytes(len(changed[at : at + size]))
        elif what == "copy":
            # Blocks, pages and roots of the file itself, somewhere else.
            source = place(len(data))
            changed[at : at + size] = data[source : source + size]
        elif what == "splice":
            # The rest of another file, or a part of it, at the same place or another.
            other = sample(choices.one_of(KINDS)).data
            source = choices.one_of((at, place(len(other))))
            part = other[source:] if choices.integer(0, 1) else other[source : source + size]
            changed[at : at + len(part)] = part
        elif what == "insert":
            changed[at:at] = choices.one_of((bytes(size), data[at : at + size]))
        elif what == "remove":
            del changed[at : at + size]
        else:
            del changed[at:]
    return bytes(changed), kind


@st.composite
def mutations(draw: st.DrawFn) -> tuple[bytes, str]:
    """Draw a changed file, so that a failure is made small."""
    return mutated(
        Choices(
            lambda first, last: draw(st.integers(first, last)),
            lambda values: draw(st.sampled_from(values)),
            lambda: draw(st.binary(min_size=1, max_size=40)),
        )
    )


def mutation(seed: int) -> tuple[bytes, str]:
    """Return the changed file of a number."""
    chance = random.Random(seed)
    return mutated(
        Choices(chance.randint, chance.choice, lambda: chance.randbytes(chance.randint(1, 40)))
    )


MODES = st.sampled_from(("rw", "r"))
HEADS = st.sampled_from(
    (b"", MAGIC, b"MDBC", sample("closed").data[:64], sample("closed").data[:12288])
)


@given(HEADS, st.binary(max_size=300), MODES)
def test_random_bytes(head: bytes, body: bytes, mode: str) -> None:
    """Random bytes, also behind a valid beginning, are refused or hold nothing."""
    judge(head + body, mode)


@given(mutations(), MODES)
def test_mutated_files(file: tuple[bytes, str], mode: str) -> None:
    """A file in which anything was changed gives versions that were, or errors of memdb."""
    data, kind = file
    judge(data, mode, kind, all_versions())


def all_versions() -> Versions:
    """Return what is in any of the samples; a splice may have made one of them of another."""
    return frozenset().union(*[sample(kind).legal for kind in KINDS])


def mutated_files(count: int, folder: Path) -> None:
    """Judge the changed files of the numbers below ``count``; each tenth is mended too."""
    legal = all_versions()
    for seed in range(count):
        data, kind = mutation(seed)
        try:
            judge(data, ("rw", "r")[seed % 2], kind, legal, folder if seed % 2 else None)
            if seed % 10 == 0:
                judge_mending(folder, data, kind, legal)
        except BaseException as error:
            # Ids and times are others in the next run.
            (folder / "changed").write_bytes(data)
            error.add_note(f"the changed file of number {seed}, {kind}: {folder / 'changed'}")
            raise


def test_some_mutated_files(tmp_path: Path) -> None:
    """Hundreds of changed files give versions that were, or errors of memdb; mended ones too."""
    mutated_files(300, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_many_mutated_files(tmp_path: Path) -> None:
    """Ten thousand changed files give versions that were, or errors of memdb; TEST_EFFORT more."""
    mutated_files(times(10_000), tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@THOROUGH
@given(HEADS, st.binary(max_size=5000), MODES)
def test_much_random_bytes(head: bytes, body: bytes, mode: str) -> None:
    """Thousands of random files are refused or hold nothing."""
    judge(head + body, mode)
