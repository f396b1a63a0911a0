"""Compaction: the same records afterwards, identities and settings too, in a smaller file."""

from __future__ import annotations

import contextlib
import gc
import os
import stat
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import memdb
from memdb import F, HashIndex, SortedIndex, _auto_compaction, _health
from memdb.storage import OSFile, _compaction
from tests.crash import children
from tests.crash.children import apply_to_database, next_ids_of, state_of
from tests.support.concurrently import run_all

KEY = bytes(range(32))
KINDS = ("written", "buffered", "encrypted", "memory")


@dataclass
class Item:
    """A record with indexes."""

    name: str
    price: int
    id: int = 0


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small tests have several commits, parts and rounds."""
    monkeypatch.setattr(_compaction, "_COMMIT_VERSIONS", 7)
    monkeypatch.setattr(_compaction, "_PART_VERSIONS", 23)
    monkeypatch.setattr(_compaction, "_SMALL_REST_BYTES", 200)


def opened(kind: str, path: Path, **settings: Any) -> memdb.Database:
    """Open a database of some kind."""
    if kind == "encrypted":
        settings["key"] = KEY
    if kind == "buffered":
        settings["durability"] = "buffered"
    return memdb.open(None if kind == "memory" else path, **settings)


def change(db: memdb.Database, seed: int, count: int) -> None:
    """Insert, update and delete at random."""
    live = {name: list(state) for name, state in state_of(db).items()}
    for step in islice(children.steps(seed, live, next_ids_of(db)), count):
        apply_to_database(db, step)


def wait_until(is_so: Callable[[], object]) -> None:
    """Return when something is so."""
    while not is_so():
        time.sleep(0.005)


def everything(db: memdb.Database) -> tuple[Any, Any]:
    """Return what a database holds and gives next."""
    return state_of(db), next_ids_of(db)


# -- the same afterwards ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_f1_the_same_as_an_uncompacted_twin(tmp_path: Path, kind: str) -> None:
    """Records, identities and what is written later are those of a twin that is never compacted."""
    path = tmp_path / "a.memdb"
    with memdb.open(None) as twin:
        with opened(kind, path) as db:
            for number in range(4):
                change(db, number, 60)
                change(twin, number, 60)
                result = db.compact()

                assert everything(twin) == everything(db)
                assert [] == db.check()
                assert result.dropped_versions > 0
        if kind != "memory":
            with opened(kind, path) as db:
                assert everything(twin) == everything(db)
                assert None is db.recovery
                assert [] == db.check()
            assert [path] == list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_committed_meanwhile_is_there(tmp_path: Path, kind: str) -> None:
    """Commits that are made while the new file is written are in it, in their order."""
    path = tmp_path / "a.memdb"
    with memdb.open(None) as twin:
        with opened(kind, path) as db:
            change(db, 1, 200)
            change(twin, 1, 200)
            seeds = iter(range(2, 1000))

            def meanwhile(done: int, total: int, unit: str) -> None:
                assert unit == "records"
                seed = next(seeds)
                if seed < 12:
                    for each in (db, twin):
                        change(each, seed, 15)
                        each.collection(f"new {seed}").insert({"seed": seed})

            result = db.compact(progress=meanwhile)

            assert everything(twin) == everything(db)
            assert twin.collections() == db.collections()
            assert [] == db.check()
            assert result.versions == db.stats().versions
        if kind != "memory":
            with opened(kind, path) as db:
                assert everything(twin) == everything(db)
                assert {"seed": 2, "id": 1} == db.collection("new 2")[1]


def test_c4_no_identity_is_given_twice(tmp_path: Path) -> None:
    """The highest identity, deleted and compacted away, is not given again, also after a kill."""
    path = tmp_path / "a.memdb"
    with memdb.open(path) as db:
        items = db.collection(Item)
        items.insert_many([Item(str(number), number) for number in range(10)])
        items.delete(10)
        db.compact()
        # A file as a kill would leave it: nothing was written behind the compaction.
        (tmp_path / "killed.memdb").write_bytes(path.read_bytes())
        first = items.insert(Item("a", 1))
    with memdb.open(tmp_path / "killed.memdb") as db:
        killed = db.collection(Item).insert(Item("a", 1))
    with memdb.open(path) as db:
        items = db.collection(Item)
        items.clear()
        db.compact()
        cleared = items.insert(Item("a", 1))

    assert (11, 11, 12) == (first, killed, cleared)


def test_an_empty_database_can_be_compacted(tmp_path: Path) -> None:
    """Without records, without collections, and when all were deleted."""
    path = tmp_path / "a.memdb"
    with memdb.open(path) as db:
        first = db.compact()
        db.collection("notes").insert({"a": 1})
        db.collection("notes").clear()
        second = db.compact()
        findings = db.check()
    with memdb.open(path) as db:
        names, next_one = db.collections(), db.collection("notes").insert({})

    assert (0, 0, 2) == (first.versions, second.versions, second.dropped_versions)
    assert ([], ["notes"], 2) == (findings, names, next_one)


def test_natural_keys_and_their_seed_are_kept(tmp_path: Path) -> None:
    """Records are found by their keys, in this session and in the next."""
    path = tmp_path / "a.memdb"
    with memdb.open(path) as db:
        users = db.collection("users", key="email")
        for number in range(50):
            users.put({"email": f"{number % 20}@x", "number": number})
        seed = db._engine.entry_of("users")["key"]["seed"]  # type: ignore[index]
        db.compact()
        found = users["3@x"]["number"]
        users.put({"email": "3@x", "number": 99})
    with memdb.open(path) as db:
        users = db.collection("users", key="email")

        assert (43, 99, 20) == (found, users["3@x"]["number"], len(users))
        assert seed == db._engine.entry_of("users")["key"]["seed"]  # type: ignore[index]
        assert [] == db.check()


def test_times_of_what_lives_are_kept(tmp_path: Path) -> None:
    """The history has the present version alone, with the time at which it was committed."""
    with memdb.open(tmp_path / "a.memdb") as db:
        items = db.collection(Item)
        for number in range(30):
            items.insert(Item("a", number))
            items.update(number + 1, name="b")
        before = {identity: items.history(identity)[-1] for identity in items.ids()}
        db.compact()
        after = {identity: items.history(identity) for identity in items.ids()}

    assert {each: [version.time] for each, version in before.items()} == {
        each: [version.time for version in versions] for each, versions in after.items()
    }
    assert {"inserted"} == {each.kind for versions in after.values() for each in versions}


# -- those who use it meanwhile --------------------------------------------------------------


def test_an_iteration_ends_over_what_it_began_with(tmp_path: Path) -> None:
    """Whoever iterates sees the state of the beginning to the end, though the file is another."""
    with memdb.open(tmp_path / "a.memdb", cache="none") as db:
        notes = db.collection("notes")
        notes.insert_many([{"a": number} for number in range(3000)])
        reading = iter(notes)
        first = next(reading)
        for identity in range(1, 3001, 3):
            notes.update(identity, a=-1)
        notes.delete(3000)
        db.compact()
        rest = [record["a"] for record in reading]

    assert [0, *range(1, 3000)] == [first["a"], *rest]


def test_the_old_file_is_let_go_of(tmp_path: Path) -> None:
    """Once nobody reads the old file any more its map is gone, and with it the space on disk."""
    path = tmp_path / "a.memdb"
    with memdb.open(path) as db:
        items = db.collection(Item, indexes=[SortedIndex("price")])
        items.insert_many([Item(str(number), number) for number in range(20_000)])
        assert items.where(F.price < 5).count() == 5
    with memdb.open(path) as db:
        items = db.collection(Item, indexes=[SortedIndex("price")])
        # Out of the file, whose map it keeps.
        assert items.where(F.price < 5).count() == 5
        old = weakref.ref(db._engine.log.era)
        db.compact()
        gc.collect()
        maps = Path("/proc/self/maps").read_text() if os.path.exists("/proc/self/maps") else ""

        assert None is old()
        assert f"{path} (deleted)" not in maps
        assert 5 == items.where(F.price < 5).count()
        assert [] == db.check()


def test_indexes_and_caches_go_on(tmp_path: Path) -> None:
    """Queries, unique keys and prepared queries give the same, and know what is written later."""
    declared = [SortedIndex("price"), HashIndex("name", unique=True)]
    with memdb.open(tmp_path / "a.memdb") as db:
        items = db.collection(Item, indexes=declared)
        items.insert_many([Item(str(number), number % 50) for number in range(500)])
        for identity in range(1, 500, 2):
            items.update(identity, price=7)
        cheap = items.where(F.price < memdb.P.limit).prepare()
        kept_insert = items.insert
        before = cheap(limit=10), items.where(name="77").one()
        db.compact()
        after = cheap(limit=10), items.where(name="77").one()
        new = kept_insert(Item("new", 3))
        with pytest.raises(memdb.DuplicateKeyError):
            items.insert(Item("77", 1))
        items.delete(items.where(name="77").one().id)
        again = items.insert(Item("77", 1))

        assert before == after
        assert (501, 502) == (new, again)
        assert ["new", "77"] == [each.name for each in cheap(limit=4) if each.id > 500]
        assert [] == db.check()


def test_an_index_that_lagged_behind_is_right(tmp_path: Path) -> None:
    """An index that has not taken in deletions before the compaction does not keep them."""
    with memdb.open(tmp_path / "a.memdb") as db:
        items = db.collection(Item, indexes=[SortedIndex("price")])
        items.insert_many([Item(str(number), number) for number in range(100)])
        assert items.where(F.price >= 50).count() == 50
        for identity in range(60, 101):
            items.delete(identity)
        db.compact()

        assert 9 == items.where(F.price >= 50).count()
        assert [] == db.check()


def test_an_open_transaction_goes_on(tmp_path: Path) -> None:
    """A transaction of another thread, open all the while, is committed to the new file."""
    path = tmp_path / "a.memdb"
    with memdb.open(path) as db:
        notes = db.collection("notes")
        notes.insert_many([{"a": number} for number in range(20)])
        with db.transaction():
            notes.update(1, a=100)
            notes.delete(2)
            added = notes.insert({"a": 200})
            run_all(db.compact)
            notes.update(3, a=300)
            seen = notes[1]["a"], notes.get(2), notes[added]["a"]
        findings = db.check()
    with memdb.open(path) as db:
        notes = db.collection("notes")
        found = notes[1]["a"], notes.get(2), notes[added]["a"], notes[3]["a"]

    assert ((100, None, 200), []) == (seen, findings)
    assert (100, None, 200, 300) == found


@pytest.mark.parametrize("is_inside", [False, True])
@pytest.mark.parametrize("way", ["edit", "update", "bulk", "put"])
def test_a_change_that_began_before_is_no_conflict(
    tmp_path: Path, way: str, is_inside: bool
) -> None:
    """A record that nobody has changed can be changed, though its version has another number."""
    with memdb.open(tmp_path / "a.memdb") as db:
        items = db.collection(Item)
        items.insert_many([Item("a", number) for number in range(10)])
        items.delete(1)
        calls = []

        def double(item: Item) -> None:
            if not calls:
                run_all(db.compact)
            calls.append(item.id)
            item.price *= 2

        with db.transaction() if is_inside else contextlib.nullcontext():
            if way == "edit":
                with items.edit(5) as item:
                    double(item)
            elif way == "update":
                items.update(5, double)
            elif way == "bulk":
                items.where(price=4).update(double)
            else:
                state = items._store.current_state(5, is_replaced=True)
                run_all(db.compact)
                member = items._store.members.find(Item)
                assert member is not None
                assert items._store.replace(state, Item("a", 8, 5), member)
                calls.append(5)

        assert [5] == calls
        assert 8 == items[5].price
        assert 2 == len(items.history(5))
        assert [] == db.check()


@pytest.mark.parametrize("other", ["update", "delete", "update and back"])
def test_a_change_by_somebody_else_is_a_conflict(tmp_path: Path, other: str) -> None:
    """What somebody else has changed since is noticed across a compaction too."""
    with memdb.open(tmp_path / "a.memdb") as db:
        items = db.collection(Item)
        items.insert_many([Item("a", number) for number in range(10)])

        def change() -> None:
            if other == "delete":
                items.delete(5)
            else:
                items.update(5, price=100)

        with (
            pytest.raises(memdb.TransactionError)
            if other != "update and back"
            else contextlib.nullcontext(),
            items.edit(5) as item,
        ):
            run_all(change)
            run_all(db.compact)
            if other == "update and back":
                # Nothing is lost by this.
                run_all(lambda: items.update(5, price=4))
                run_all(db.compact)
            item.name = "edited"
        found = items.get(5)

    assert found == {
        "update": Item("a", 100, 5),
        "delete": None,
        "update and back": Item("edited", 4, 5),
    }.get(other)


def test_an_edit_of_a_record_that_is_converted_meanwhile(tmp_path: Path) -> None:
    """A compaction that writes the record in its present form is no change of it."""

    @dataclass
    class Old:
        name: str
        id: int = 0

    @dataclass
    class New:
        name: str
        size: int = 5
        id: int = 0

    path = tmp_path / "a.memdb"
    with memdb.open(path) as db:
        db.collection(Old, name="things").insert_many([Old("a"), Old("b")])
    with memdb.open(path) as db:
        things = db.collection(New, name="things")
        with things.edit(1) as thing:
            db.compact()
            thing.size = 7
        with pytest.raises(memdb.TransactionError), things.edit(2) as thing:
            things.update(2, size=8)
            db.compact()
            thing.size = 9
        found = list(things)

    assert [New("a", 7, 1), New("b", 8, 2)] == found


def test_a_migration_goes_on_over_compactions(tmp_path: Path) -> None:
    """Compactions in the middle of a migration bring the rest up to date themselves."""

    @dataclass
    class New:
        name: str
        size: int = 5
        id: int = 0

    path = tmp_path / "a.memdb"
    with memdb.open(path, serializer="json") as db:
        db.collection("things").insert_many([{"name": "a"}])
        db.collection(Item, name="items").insert_many([Item("a", n) for n in range(3000)])
    with memdb.open(path) as db:
        items = db.collection(Item, name="items")
        result = db.migrate(progress=lambda done, total: db.compact())
        schema = memdb.schema(db).collections["items"]
        again = db.migrate().collections["items"]
        found = [item.price for item in items]

    assert result.is_complete
    assert 3000 == result.collections["items"].old
    assert (0, list(range(3000))) == (again.old, found)
    assert {"json": 0, "binary": 3000} == {form.serializer: form.records for form in schema.forms}


def test_views_and_readers_go_on(tmp_path: Path) -> None:
    """A view stays at its commit, and a reader beside the writer follows to the new file."""
    path = tmp_path / "a.memdb"
    with memdb.open(path) as db, memdb.open(path, "r") as reader:
        notes = db.collection("notes")
        notes.insert_many([{"a": number} for number in range(50)])
        reader.refresh()
        seen = reader.collection("notes")
        length = len(seen)
        with db.view() as view:
            for identity in range(1, 51, 2):
                notes.update(identity, a=-1)
            notes.delete(50)
            db.compact()
            notes.insert({"a": "new"})
            old = [record["a"] for record in view.collection("notes")]
        followed = reader.refresh()
        found = [record["a"] for record in seen]

        assert (50, True, list(range(50))) == (length, followed, old)
        assert [record["a"] for record in notes] == found
        assert [] == reader.check()


def test_a_key_that_is_changed_meanwhile_stays_changed(tmp_path: Path) -> None:
    """The new file opens with the key of its last moment, and not with that of the first."""
    path, new_key = tmp_path / "a.memdb", bytes(32)
    with memdb.open(path, key=KEY) as db:
        db.collection("notes").insert_many([{"a": number} for number in range(50)])
        rekeys = iter([lambda: db.rekey(key=new_key)])
        db.compact(progress=lambda *_: next(rekeys, lambda: None)())
    with pytest.raises(memdb.WrongKeyError):
        memdb.open(path, key=KEY)
    with memdb.open(path, key=new_key) as db:
        assert 50 == len(db.collection("notes"))
        assert [] == db.check()


# -- conversion ------------------------------------------------------------------------------


def test_old_forms_are_converted(tmp_path: Path) -> None:
    """Records of an older class and serializer are written in the present form."""
    path = tmp_path / "a.memdb"

    @dataclass
    class Old:
        name: str
        id: int = 0

    @dataclass
    class New:
        name: str
        size: int = 5
        id: int = 0

    with memdb.open(path, serializer="json") as db:
        db.collection(Old, name="things").insert_many([Old(str(number)) for number in range(30)])
    with memdb.open(path) as db:
        things = db.collection(New, name="things")
        before = list(things)
        db.compact()
        after = list(things)
        schema = memdb.schema(db).collections["things"]
        migrated = db.migrate().collections["things"].old
    with memdb.open(path) as db:
        again = list(db.collection(New, name="things"))
        findings = db.check()

    assert before == after == again == [New(str(number), 5, number + 1) for number in range(30)]
    assert {"json": 0, "binary": 30} == {form.serializer: form.records for form in schema.forms}
    assert (0, []) == (migrated, findings)


def test_what_can_not_be_converted_stays_as_it_is(tmp_path: Path) -> None:
    """Records that the class can't read, and those of other collections, keep their bytes."""
    path = tmp_path / "a.memdb"

    @dataclass
    class Before:
        name: str
        id: int = 0

    @dataclass
    class After:
        name: str
        needed: int
        id: int = 0

    with memdb.open(path, serializer="json") as db:
        db.collection(Before, name="things").insert_many([Before("a"), Before("b")])
        db.collection("others").insert({"a": 1})
    with memdb.open(path) as db:
        things = db.collection(After, name="things")
        db.compact()
        with pytest.raises(memdb.DecodeError):
            things[1]
    with memdb.open(path) as db:
        found = list(db.collection(Before, name="things"))
        others = db.collection("others")[1]

    assert [Before("a", 1), Before("b", 2)] == found
    assert {"a": 1, "id": 1} == others


# -- the old file ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["written", "encrypted"])
def test_the_archive_has_all_that_was_dropped(tmp_path: Path, kind: str) -> None:
    """The archive is the old file, closed, with every commit up to the change."""
    path, archive = tmp_path / "a.memdb", tmp_path / "old.memdb"
    with opened(kind, path) as db:
        notes = db.collection("notes")
        for number in range(40):
            notes.insert({"a": number})
        notes.update(5, a=-1)
        notes.delete(7)
        db.compact(archive=archive)
        notes.insert({"a": 99})
    with opened(kind, archive) as db:
        notes = db.collection("notes")
        found = len(notes), [version.kind for version in notes.history(7)], db.recovery
        findings = db.check()

    assert (39, ["inserted", "deleted"], None) == found
    assert [] == findings


def test_what_can_be_no_archive_is_refused(tmp_path: Path) -> None:
    """A path that is taken, the file itself, and any in memory."""
    path, taken = tmp_path / "a.memdb", tmp_path / "taken"
    taken.write_bytes(b"mine")
    with memdb.open(path) as db:
        db.collection("notes").insert({"a": 1})
        for archive in (taken, path):
            with pytest.raises(memdb.FileTakenError, match="is there already"):
                db.compact(archive=archive)
        with pytest.raises(FileNotFoundError):
            db.compact(archive=tmp_path / "no" / "where")
        length = len(db.collection("notes"))
    with memdb.open(None) as db, pytest.raises(memdb.ConfigError, match="in memory"):
        db.compact(archive=tmp_path / "b")

    assert (b"mine", 1) == (taken.read_bytes(), length)
    assert {path, taken} == set(tmp_path.iterdir())


def test_permissions_and_links_stay(tmp_path: Path) -> None:
    """The new file has the permissions of the old one, and a link leads to it."""
    path, link = tmp_path / "a.memdb", tmp_path / "link.memdb"
    memdb.open(path).close()
    path.chmod(0o640)
    link.symlink_to(path)
    with memdb.open(link) as db:
        db.collection("notes").insert({"a": 1})
        db.compact()
    with memdb.open(path) as db:
        found = len(db.collection("notes"))

    assert (1, True, 0o640) == (found, link.is_symlink(), stat.S_IMODE(path.stat().st_mode))


# -- what is refused, and what fails ---------------------------------------------------------


def test_where_it_can_not_be_done(tmp_path: Path) -> None:
    """Inside a transaction, by a reader, by who may only append, and when closed."""
    path = tmp_path / "a.memdb"
    with memdb.open(path) as db:
        db.collection("notes").insert({"a": 1})
        with db.transaction(), pytest.raises(memdb.TransactionError):
            db.compact()
    with memdb.open(path, "r") as db, pytest.raises(memdb.ReadOnlyError):
        db.compact()
    with memdb.open(path, "append") as db, pytest.raises(memdb.ReadOnlyError):
        db.compact()
    with pytest.raises(memdb.ClosedError):
        db.compact()


def test_whoever_is_told_can_stop_it(tmp_path: Path) -> None:
    """What `progress` raises comes out, and file and folder are as before."""
    path = tmp_path / "a.memdb"
    with memdb.open(path) as db:
        notes = db.collection("notes")
        notes.insert_many([{"a": number} for number in range(60)])
        db.flush()
        before, told = path.read_bytes(), []

        def stop(*progress: Any) -> None:
            told.append(progress)
            if len(told) == 4:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            db.compact(progress=stop)

        assert before == path.read_bytes()
        assert [path] == list(tmp_path.iterdir())
        assert [(0, 60, "records"), (23, 60, "records")] == told[:2]
        assert 61 == notes.insert({"a": 1})
        db.compact()
        assert [] == db.check()


def test_damage_is_not_carried_on(tmp_path: Path) -> None:
    """A record that lives and is damaged stops it; one that is dropped does not matter."""
    path = tmp_path / "a.memdb"
    with memdb.open(path, cache="none") as db:
        notes = db.collection("notes")
        notes.insert({"text": "dead dead dead"})
        notes.insert({"text": "alive alive"})
        notes.update(1, text="new")
    data = bytearray(path.read_bytes())
    data[data.index(b"dead dead")] ^= 1
    path.write_bytes(data)
    with memdb.open(path) as db:
        db.compact()
        findings = db.check()
        found = db.collection("notes")[1]["text"]
    data = bytearray(path.read_bytes())
    data[data.index(b"alive alive")] ^= 1
    path.write_bytes(data)
    with memdb.open(path) as db:
        with pytest.raises(memdb.DamageError) as caught:
            db.compact()
        still = db.collection("notes")[1]["text"]

    assert ([], "new", "new") == (findings, found, still)
    assert data.index(b"alive alive"[1:]) - 1 >= caught.value.offset > 0
    assert [path] == list(tmp_path.iterdir())


# -- left-overs ------------------------------------------------------------------------------


def test_a_left_over_is_removed_at_the_next_opening(tmp_path: Path) -> None:
    """What a killed compaction has left goes, unfinished or whole; a stranger's file does not."""
    path, beside = tmp_path / "a.memdb", tmp_path / "a.memdb.compacting"
    with memdb.open(path) as db:
        db.collection("notes").insert({"a": 1})
        copy = path.read_bytes()
        db.compact()
    whole = path.read_bytes()
    path.write_bytes(copy)
    left = []
    for content in (b"", bytes(5000), bytes(4096) + b"blocks", whole):
        beside.write_bytes(content)
        with memdb.open(path, "r"):
            assert beside.exists()
        with memdb.open(path) as db:
            assert 1 == len(db.collection("notes"))
        left.append(beside.exists())
    memdb.open(tmp_path / "other.memdb").close()
    kept = []
    for content in (b"mine", (tmp_path / "other.memdb").read_bytes(), path.read_bytes()):
        beside.write_bytes(content)
        with memdb.open(path) as db, pytest.raises(memdb.FileTakenError, match="in the way"):
            db.compact()
        kept.append(beside.read_bytes() == content)

    assert ([False] * 4, [True] * 3) == (left, kept)


def test_who_waits_for_the_lock_gets_the_new_file(tmp_path: Path) -> None:
    """A writer that had opened the old file before it was replaced goes on with the new one."""
    path = tmp_path / "a.memdb"
    with memdb.open(path) as db:
        db.collection("notes").insert({"a": 1})
        waiting = OSFile(str(path), write=True)
        refused = waiting.lock()
        db.compact()
        still_refused = waiting.lock()
    granted = waiting.lock()
    content = waiting.read(0, waiting.length())
    waiting.close()

    assert (False, False, True) == (refused, still_refused, granted)
    assert path.read_bytes() == content


# -- by itself -------------------------------------------------------------------------------


def test_it_is_done_by_itself_when_much_is_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `compact_when` the file is compacted once that part of it is dead, and not before."""
    monkeypatch.setattr(_health, "_LARGE_LOG_BYTES", 10_000)
    monkeypatch.setattr(_auto_compaction, "_INTERVAL_S", 0.01)
    path = tmp_path / "a.memdb"
    with memdb.open(path, compact_when=0.5) as db:
        notes = db.collection("notes")
        notes.insert_many([{"text": "x" * 50, "number": number} for number in range(300)])
        first = db._engine.log.era
        wait_until(lambda: db._engine._compactor is not None)
        for round_number in range(12):
            for identity in range(1, 301):
                notes.update(identity, number=round_number)
        wait_until(lambda: db._engine.log.era is not first)
        wait_until(lambda: db.stats().log_bytes < 100_000)

        assert [] == db.check()
    with memdb.open(path) as db:
        assert {11} == {record["number"] for record in db.collection("notes")}


def test_a_failure_in_the_background_reaches_the_next_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When it fails by itself the next write says so, once, and everything goes on."""
    path = tmp_path / "a.memdb"
    monkeypatch.setattr(_auto_compaction, "dead_share", lambda engine: 1.0)
    monkeypatch.setattr(_auto_compaction, "_INTERVAL_S", 0.01)
    (tmp_path / "a.memdb.compacting").write_bytes(b"in the way")
    with memdb.open(path, compact_when=0.5) as db:
        notes = db.collection("notes")
        wait_until(lambda: db._engine.log._flusher.failure is not None)
        with pytest.raises(memdb.WriteError, match="compaction in the background failed"):
            notes.insert({"a": 1})
        (tmp_path / "a.memdb.compacting").unlink()
        notes.insert({"a": 2})
        time.sleep(0.05)

        assert 1 == len(notes)


@pytest.mark.parametrize("value", [0, 1, -0.5, 2, "often", True])
def test_a_wrong_part_is_refused(value: Any) -> None:
    """`compact_when` is a number between 0 and 1, or None."""
    with pytest.raises(memdb.ConfigError, match="compact_when"):
        memdb.Config(compact_when=value)
