"""Reading fields of many records without making the records, and whether records are typed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, make_dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import memdb
from memdb._bulk import values_of
from memdb.errors import ClosedError, DamageError, DecodeError, EncodeError
from memdb.indexes._order import ABSENT
from memdb.serializers import get_serializer, shape_of
from memdb.storage import MemoryFile
from tests.support import kinds, own_serializer, records, samples, values
from tests.support.concurrently import Item, and_then, run_all, switching_often, until
from tests.support.exact import assert_exact
from tests.support.faulty import open_on

FAST = ("binary", "msgpack", "json")
ALL_RECORDS = [*kinds.RECORDS.values(), *records.RECORDS]
TRUST: dict[str, Any] = {"trusted_serializers": ["pickle", own_serializer.PATH]}


def field_of(record: Any, name: str) -> Any:
    """Return a field of a record, or what stands for a dict's key that is not there."""
    if isinstance(record, dict):
        return record.get(name, ABSENT)
    return getattr(record, name, ABSENT)


def check_readers(cls: Any, record: Any, serializer: str) -> list[str]:
    """Compare every reader of a record's payload with decoding; return what none could read."""
    shape = shape_of(cls)
    codec = get_serializer(serializer).codec(shape)
    try:
        payload = codec.encode(record)
    except EncodeError:
        return []
    if payload[0] == get_serializer(serializer).exact_start:
        return []
    whole = codec.decode(payload, 7)
    names = [each.name for each in shape.payload_fields]
    if shape.kind == "dict":
        names = [key for key in record if key != "id"]
    unread = []
    for name in names[:: 1 + len(names) // 30]:
        reader = codec.field_reader((name,), ABSENT)
        if reader is None:
            unread.append(name)
            continue
        assert_exact(reader.one(payload), field_of(whole, name))
        assert_exact(reader.many([payload] * 2), [field_of(whole, name)] * 2)
    others = [name for name in names if name not in unread]
    for some in (others, others[::-1], others[1:], others[::2], others[-2:], []):
        reader = codec.field_reader(tuple(some), ABSENT)
        expected = tuple([field_of(whole, name) for name in some])
        if reader is not None:
            assert_exact(reader.one(payload), expected[0] if len(some) == 1 else expected)
    return unread


@pytest.mark.parametrize("serializer", FAST)
@pytest.mark.parametrize("record", ALL_RECORDS, ids=lambda record: type(record).__name__)
def test_fields_are_those_of_the_record(record: Any, serializer: str) -> None:
    """For every kind of class, what a reader gives for a field is what decoding gives."""
    assert [] == check_readers(type(record), record, serializer)


@pytest.mark.parametrize("serializer", FAST)
def test_fields_of_any_type(serializer: str) -> None:
    """For every value, in a field of its type, in a list, in one of no type, and in a dict."""
    for sample in values.SAMPLES:
        for form in values.FORMS:
            cls = form.class_for(sample)
            held = form.hold(sample.value)
            record = {"value": held, "id": 0} if cls is None else cls(held, 0)

            assert [] == check_readers(cls, record, serializer)


@pytest.mark.parametrize("serializer", FAST)
@pytest.mark.parametrize("outer", kinds.OUTERS, ids=lambda outer: outer.__name__)
def test_fields_that_are_records(serializer: str, outer: Callable[[Any], Any]) -> None:
    """A nested record of any kind is made as the whole record's decoder makes it."""
    for inner in kinds.RECORDS.values():
        if isinstance(inner, dict):
            continue
        record = kinds.make_outer(outer(type(inner)), inner)

        assert [] == check_readers(type(record), record, serializer)


@pytest.mark.parametrize("count", [1, 2, 14, 15, 16, 17, 300])
@pytest.mark.parametrize("serializer", FAST)
def test_any_number_of_fields(serializer: str, count: int) -> None:
    """Arrays of more than 15 and more than 255 fields begin otherwise; each field is found."""
    names = [f"n{number}" for number in range(count)]
    cls = make_dataclass("Wide", [(name, int | str) for name in names])
    record = cls(*[number if number % 3 else f"text {number}" for number in range(count)])

    assert [] == check_readers(cls, record, serializer)


class Doubling:
    """Gives something else than what it was set to."""

    def __get__(self, record: Any, owner: type) -> Any:
        return self if record is None else record.__dict__["kept"] * 2

    def __set__(self, record: Any, value: int) -> None:
        record.__dict__["kept"] = value


def test_fields_with_a_will_of_their_own() -> None:
    """Where the class decides what an attribute is, only the record can tell."""

    @dataclass
    class Watched:
        number: int
        other: int

    Watched.number = Doubling()  # type: ignore[assignment]

    @dataclass
    class Deaf:
        number: int

        def __getattribute__(self, name: str) -> Any:
            return object.__getattribute__(self, name)

    class Swapped(kinds.TuplePoint):
        y = kinds.TuplePoint.x  # type: ignore[assignment]

    codec = get_serializer("binary").codec(shape_of(Watched))

    assert codec.field_reader(("number",)) is None
    assert codec.field_reader(("other",)) is not None
    assert get_serializer("binary").codec(shape_of(Deaf)).field_reader(("number",)) is None
    assert get_serializer("json").codec(shape_of(Swapped)).field_reader(("y",)) is None
    assert get_serializer("json").codec(shape_of(Swapped)).field_reader(("x",)) is not None


def test_what_has_no_reader() -> None:
    """Names that are not in the payload, names that msgspec refuses, and codecs of old forms."""
    codec = get_serializer("json").codec(shape_of(Person))
    old = get_serializer("json").codec(shape_of(Person), {"kind": "dataclass", "fields": []})
    dicts = get_serializer("json").codec(shape_of(None))

    assert codec.field_reader(("id",)) is None
    assert codec.field_reader(("nonsense",)) is None
    assert old.field_reader(("name",)) is None
    assert dicts.field_reader(("id",)) is None
    assert dicts.field_reader(('a"b',)) is None


# -- collections


@dataclass
class Home:
    city: str
    since: datetime | None = None


@dataclass
class Person:
    name: str
    age: int
    home: Home | None = None
    tags: list[str] = field(default_factory=list)
    id: int = 0


@dataclass
class Robot:
    name: str
    model: Any = None
    id: int = 0


class Point(NamedTuple):
    name: str
    age: float


def store_of(collection: memdb.Collection[Any]) -> Any:
    """Return the inside of a collection."""
    return collection._store


def serializer_of(db: memdb.Database) -> Any:
    """Return the setting."""
    return db._engine.config.serializer


def all_values(store: Any, *paths: tuple[str, ...], as_list: bool = False) -> list[Any]:
    """Return what bulk reading gives for all records."""
    numbers, slots = store.identities.arrays()
    return values_of(store, numbers.tolist() if as_list else numbers, slots, paths)


def expected_values(store: Any, *paths: tuple[str, ...]) -> list[Any]:
    """Return the same, by making each record."""
    rows = []
    for slot in store.identities.arrays()[1].tolist():
        record, row = store.record_at(slot), []
        for path in paths:
            value = record
            for name in path:
                value = ABSENT if value is ABSENT else field_of(value, name)
            row.append(value)
        rows.append(row[0] if len(row) == 1 else tuple(row))
    return rows


def check_paths(store: Any, paths: Sequence[tuple[str, ...]]) -> None:
    """Compare bulk reading with the records, path by path, two at once, and all."""
    for path in paths:
        assert_exact(all_values(store, path), expected_values(store, path))
        assert_exact(all_values(store, path, paths[0]), expected_values(store, path, paths[0]))
    assert_exact(all_values(store, *paths, as_list=True), expected_values(store, *paths))


def people() -> list[Person]:
    """Return records that the fast tier takes."""
    return [
        Person(f"p{number}", number, Home("Oslo") if number % 2 else None, ["x"] * (number % 3))
        for number in range(20)
    ]


@pytest.fixture(params=samples.SERIALIZERS)
def each(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[memdb.Database]:
    """A database of each serializer."""
    with memdb.open(tmp_path / "a.memdb", serializer=request.param, **TRUST) as db:
        yield db


@pytest.mark.parametrize("kind", samples.KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("serializer", samples.SERIALIZERS)
def test_collections_of_every_kind(serializer: str, kind: samples.RecordKind) -> None:
    """With values of which some need the exact tier, bulk reading gives what the records have."""
    with open_on(MemoryFile(), serializer=serializer, **TRUST) as db:
        collection = db.collection(kind.target)
        for number in (0, 3, -5, 2**63 - 1, 2**70):
            collection.insert(kind.make({"name": "żółw" * (number % 3), "n": number}))
        if kind.cls in (samples.Anything, None):
            collection.insert(kind.make({"name": 5, "n": {1, 2}}))

        names = ["n", "name", *(name for name in kind.fields if name not in ("n", "name"))]
        check_paths(store_of(collection), [(name,) for name in (*names, "id")])


def test_nested_paths_and_identities(each: memdb.Database) -> None:
    """A path into a nested record, one through None, and the identity, alone and with others."""
    store = store_of(each.collection(Person))
    each.collection(Person).insert_many(people())

    check_paths(store, [("age",), ("home", "city"), ("home",), ("id",), ("home", "since", "year")])
    assert all_values(store, ("home", "city"))[:2] == [ABSENT, "Oslo"]
    assert all_values(store, ("id",), ("age",))[:2] == [(1, 0), (2, 1)]


def test_no_records_and_no_paths(each: memdb.Database) -> None:
    """Nothing in, nothing out."""
    collection = each.collection(Robot)
    assert all_values(store_of(collection), ("name",)) == []
    collection.insert_many([Robot("a"), Robot("b")])

    assert all_values(store_of(collection)) == [(), ()]


@pytest.mark.parametrize("serializer", FAST)
def test_records_of_both_tiers(serializer: str) -> None:
    """One record of the exact tier among many others is read as it is."""
    with open_on(MemoryFile(), serializer=serializer) as db:
        collection = db.collection(Robot)
        collection.insert_many([Robot(f"r{number}", number) for number in range(5_000)])
        collection.update(2_500, model=(1, {2}))
        collection.delete(7)

        found = all_values(store_of(collection), ("model",))

    assert_exact(found, [(1, {2}) if n == 2_499 else n for n in range(5_000) if n != 6])


def test_versions_that_are_not_the_newest() -> None:
    """The slots say which versions, in any order."""
    with open_on(MemoryFile()) as db:
        collection = db.collection(Robot)
        collection.insert_many([Robot("a"), Robot("b")])
        collection.update(1, name="c")
        store = store_of(collection)

        assert values_of(store, [1, 2, 1], np.array([3, 2, 1]), [("name",)]) == ["c", "b", "a"]


@pytest.mark.parametrize("serializer", samples.SERIALIZERS)
def test_records_of_other_writers(tmp_path: Path, serializer: str) -> None:
    """What older forms and other serializers wrote is upgraded as in any reading."""

    @dataclass
    class Town:
        name: str
        size: int
        id: int = 0

    old, new = (
        Town,
        make_dataclass("Town", [("size", float), ("name", str), ("at", int, 5), ("id", int, 0)]),
    )
    path = tmp_path / "a.memdb"
    with memdb.open(path, serializer="json") as db:
        db.collection(old).insert_many([old("a", 1), old("b", 2)])
    with memdb.open(path, serializer=serializer, **TRUST) as db:
        collection = db.collection(new)
        collection.insert_many([new(1.5, "c"), new(2, "d", 6)])
        store = store_of(collection)

        check_paths(store, [("name",), ("size",), ("at",), ("id",)])
        assert not store.decoding.is_typed


def test_natural_keys_and_unions(each: memdb.Database) -> None:
    """A natural key is a field as any other, and each of several classes has its own fields."""
    users = each.collection(Person, name="users", key="name")
    users.insert_many(people())
    mixed: Any = each.collection(Person | Robot | Point, name="mixed")
    mixed.insert_many(
        [Person("a", 1), Robot("b"), Point("c", 1.5), Robot("d", (1,)), Person("e", 2)]
    )
    plain = each.collection("plain", key="k")
    plain.insert_many([{"k": "a", "id": 5}, {"k": "b"}])

    check_paths(store_of(users), [("name",), ("id",), ("age",)])
    check_paths(store_of(mixed), [("name",), ("age",), ("id",), ("model",)])
    check_paths(store_of(plain), [("k",), ("id",)])
    assert all_values(store_of(mixed), ("age",)) == [1, ABSENT, 1.5, ABSENT, 2]


def test_dicts(each: memdb.Database) -> None:
    """A key that a dict has not is absent, and one that is None is None."""
    collection = each.collection("things")
    collection.insert_many([{"a": 1}, {"b": None, "a": 2**70}, {"a": None}, {}, {"a": {"b": [1]}}])

    check_paths(store_of(collection), [("a",), ("b",), ("a", "b"), ("id",), ('"',)])
    assert all_values(store_of(collection), ("b",)) == [ABSENT, None, ABSENT, ABSENT, ABSENT]


def test_a_serializer_of_the_users_own(tmp_path: Path) -> None:
    """Its records are decoded as a whole, and nothing is known of their values."""
    with memdb.open(tmp_path / "a.memdb", serializer=own_serializer.PATH) as db:
        collection = db.collection(Robot)
        collection.insert_many([Robot("a", 1), Robot("b", [2])])

        check_paths(store_of(collection), [("name",), ("model",), ("id",)])
        assert not store_of(collection).decoding.is_typed


# -- what goes wrong


@pytest.mark.parametrize("serializer", samples.SERIALIZERS)
def test_damage_is_told_as_by_a_read(serializer: str) -> None:
    """Bytes that do not match their checksum raise with the record and the offset."""
    with open_on(MemoryFile(), serializer=serializer, **TRUST) as db:
        collection = db.collection(Robot)
        collection.insert_many([Robot(f"r{number}") for number in range(5_000)])
        log = db._engine.log
        offset = int(log.pointers_of(np.array([3_000]))["offset"][0])
        log.data[offset] ^= 1

        with pytest.raises(DamageError) as single:
            log.read(3_000)
        with pytest.raises(DamageError) as caught:
            all_values(store_of(collection), ("name",))

        assert str(caught.value) == str(single.value)
        assert caught.value.offset == offset
        log.data[offset] ^= 1


@pytest.mark.parametrize("serializer", FAST)
def test_bytes_that_do_not_fit_are_told_as_by_a_read(serializer: str) -> None:
    """What the class can't take raises with collection, record and field."""
    with open_on(MemoryFile(), serializer=serializer) as db:
        collection = db.collection(Person)
        collection.insert(Person("a", 1))
        store = store_of(collection)
        member = store.members.sole
        other = make_dataclass("Person", [(f.name, Any) for f in shape_of(Person).payload_fields])
        payload = (
            get_serializer(serializer).codec(shape_of(other)).encode(other("b", "old", None, []))
        )
        with store.engine.log.lock:
            store.commit_one(2, payload, member, memdb.storage.Kind.INSERTED)

        with pytest.raises(DecodeError) as single:
            store.record_at(2)
        with pytest.raises(DecodeError) as caught:
            all_values(store, ("age",))

        assert str(caught.value) == str(single.value)
        assert (caught.value.collection, caught.value.identity) == ("Person", 2)
        assert caught.value.field == "age"


def test_closed_meanwhile(tmp_path: Path) -> None:
    """A database that is closed between two parts or before the first says so."""
    db = memdb.open(tmp_path / "a.memdb")
    collection = db.collection(Robot)
    collection.insert_many([Robot(f"r{number}") for number in range(5_000)])
    store = store_of(collection)
    numbers, slots = store.identities.arrays()
    parts = store.engine.log.payloads(slots)
    next(parts)
    db.close()

    with pytest.raises(ClosedError):
        next(parts)
    with pytest.raises(ClosedError):
        values_of(store, numbers, slots, [("name",)])


@pytest.mark.parametrize("durability", ["written", "buffered"])
def test_while_others_write_and_close(tmp_path: Path, durability: Any) -> None:
    """Beside a writer whose file grows each reading is right, and closing it is told."""
    db = memdb.open(tmp_path / "a.memdb", durability=durability)
    collection = db.collection(Item)
    collection.insert_many([Item(0, n) for n in range(3_000)])
    store, is_over = store_of(collection), threading.Event()

    def write() -> None:
        for number in range(3_000, 9_000, 500):
            collection.insert_many([Item(0, n, ["x" * 200]) for n in range(number, number + 500)])
            collection.insert(Item(0, number + 500))
            collection.delete(number + 501 + (number - 3_000) // 500)
        db.close()

    def read() -> None:
        try:
            with store.engine.log.lock:
                numbers, slots = store.identities.arrays()
            found = values_of(store, numbers, slots, [("n",), ("id",)])
        except ClosedError:
            assert db.is_closed
            return
        assert [identity for _, identity in found] == numbers.tolist()
        assert [n for n, _ in found[:3_000]] == list(range(3_000))

    with switching_often():
        run_all(and_then(is_over, write), until(is_over, read), until(is_over, read))

    assert db.is_closed


def test_deletions_have_no_bytes(db: memdb.Database) -> None:
    """The bytes of a deletion are empty, and nothing is wrong with them."""
    collection = db.collection(Robot)
    collection.insert_many([Robot("a"), Robot("b")])
    collection.delete(1)
    (part,) = store_of(collection).engine.log.payloads(np.array([3, 1]))

    assert part.payloads[0] == b""
    assert part.identities.tolist() == [1, 1]
    assert part.writers.tolist() == [0, 1]
    assert part.first_bytes[1] == part.payloads[1][0]


# -- whether records are typed


class Noted:
    """Counts the calls of a store's hook, and looks at the store in it."""

    def __init__(self, store: Any) -> None:
        self.calls: list[bool] = []
        store.on_untyped = lambda: self.calls.append(store.decoding.is_typed)


@pytest.mark.parametrize("serializer", FAST)
def test_typed_until_a_record_is_not(serializer: str) -> None:
    """Records of the fast tier leave a store typed; the first other one ends it, told once."""
    with open_on(MemoryFile(), serializer=serializer) as db:
        collection = db.collection(Person)
        collection.insert_many(people())
        store, noted = store_of(collection), Noted(store_of(collection))
        assert len(list(collection)) == 20
        assert all_values(store, ("age",)) == list(range(20))
        assert store.decoding.is_typed

        odd: Any = [Person("q", (1,)), Person("r", (2,))]  # type: ignore[arg-type]
        collection.insert_many(odd)
        assert store.decoding.is_typed
        assert collection[21].age == (1,)  # type: ignore[comparison-overlap]
        assert not store.decoding.is_typed
        assert collection[22].age == (2,)  # type: ignore[comparison-overlap]

        assert noted.calls == [False]


@pytest.mark.parametrize("serializer", FAST)
def test_bulk_reading_ends_it_too(serializer: str) -> None:
    """A record of the exact tier is decoded as a whole."""
    with open_on(MemoryFile(), serializer=serializer) as db:
        collection = db.collection(Robot)
        collection.insert_many([Robot("q"), Robot("r", (1,))])
        store, noted = store_of(collection), Noted(store_of(collection))

        assert all_values(store, ("name",)) == ["q", "r"]

        assert noted.calls == [False]


def test_a_transaction_ends_it_too(db: memdb.Database) -> None:
    """What the transaction itself has written is decoded from its bytes when it is read."""
    collection = db.collection(Robot)
    store, noted = store_of(collection), Noted(store_of(collection))
    with db.transaction():
        collection.insert(Robot("a", (1,)))
        assert store.decoding.is_typed

        assert collection[1].model == (1,)

        assert noted.calls == [False]


def test_many_threads_tell_it_once() -> None:
    """Of several threads that meet the first other record at once, one calls the hook."""
    with open_on(MemoryFile()) as db:
        for slot in range(1, 21):
            collection = db.collection(Robot, name=f"robots {slot}")
            collection.insert(Robot("a", (1,)))
            noted = Noted(store_of(collection))
            with switching_often():
                run_all(*[partial(store_of(collection).record_at, slot)] * 4)

            assert noted.calls == [False]


def test_another_writer_ends_it(tmp_path: Path) -> None:
    """Records of an older form are upgraded and may hold what their fields do not say."""
    old = make_dataclass("Town", [("name", Any), ("id", int, 0)])
    new = make_dataclass("Town", [("name", str), ("id", int, 0)])
    with memdb.open(tmp_path / "a.memdb") as db:
        db.collection(old).insert(old("b"))
    with memdb.open(tmp_path / "a.memdb") as db:
        collection = db.collection(new)
        collection.insert(new("a"))
        noted = Noted(store_of(collection))

        assert collection[2].name == "a"
        assert noted.calls == []
        assert collection[1].name == "b"
        assert noted.calls == [False]


def test_the_same_class_stays_typed_when_reopened(tmp_path: Path) -> None:
    """A later process is the same writer."""
    with memdb.open(tmp_path / "a.memdb") as db:
        db.collection(Person).insert_many(people())
    with memdb.open(tmp_path / "a.memdb", mode="r") as db:
        collection = db.collection(Person)

        assert len(list(collection)) == 20
        assert store_of(collection).decoding.is_typed


def test_what_is_never_typed(each: memdb.Database) -> None:
    """Dicts, several classes, serializers without tiers, and records that readers may change."""
    is_fast = serializer_of(each) in FAST
    made: dict[str, Any] = {
        "one": each.collection(Person),
        "keyed": each.collection(Person, name="keyed", key="name"),
        "union": each.collection(Person | Robot, name="union"),
        "dicts": each.collection("dicts"),
        "shared": each.collection(Robot, name="shared", cloner="share"),
    }

    found = {name: store_of(collection).decoding.is_typed for name, collection in made.items()}

    assert found == {
        "one": is_fast,
        "keyed": is_fast,
        "union": False,
        "dicts": False,
        "shared": False,
    }


def test_native_until_a_record_is_not(each: memdb.Database) -> None:
    """Dicts are native until one has a value that the serializer has not itself, told once."""
    notes, shared = each.collection("notes"), each.collection("shared", cloner="share")
    notes.insert_many([{"a": 1, "b": ["x", None, {"c": 0.5}]}] * 3)
    store, noted = store_of(notes), Noted(store_of(notes))
    is_fast = serializer_of(each) in FAST
    assert len(list(notes)) == 3
    assert (store.decoding.is_native, store.decoding.is_typed) == (is_fast, False)
    assert not store_of(shared).decoding.is_native
    assert not store_of(each.collection(Person)).decoding.is_native

    notes.insert_many([{"a": np.int64(1)}, {"b": np.float32(1)}])
    assert store.decoding.is_native is is_fast
    assert notes[4] == {"a": 1, "id": 4}
    assert notes[5] == {"b": 1, "id": 5}

    assert not store.decoding.is_native
    assert len(noted.calls) == int(is_fast)


def test_damaged_bytes_leave_it_as_it_is(db: memdb.Database) -> None:
    """What is no record says nothing of the others."""
    collection = db.collection(Robot)
    collection.insert(Robot("a"))
    log = db._engine.log
    offset = int(log.pointers_of(np.array([1]))["offset"][0])
    log.data[offset] ^= 1

    with pytest.raises(DamageError):
        collection.get(1)

    assert store_of(collection).decoding.is_typed
    log.data[offset] ^= 1
