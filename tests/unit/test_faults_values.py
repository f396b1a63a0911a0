"""Faults with values and identities: cases D1 to D4."""

from __future__ import annotations

import dataclasses
import io
import math
import operator
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memdb
from memdb import F
from memdb.indexes import encode_key
from tests.support.exact import assert_exact, is_exact, leaf_key
from tests.support.local_zone import local_zone
from tests.support.samples import SERIALIZERS
from tests.support.strategies import moments
from tests.support.values import SAMPLES

TRUST: dict[str, Any] = {"trusted_serializers": ["pickle"]}


@dataclass
class Event:
    when: datetime
    others: list[datetime | None] = field(default_factory=list)
    id: int = 0


@dataclass
class Anything:
    value: Any
    id: int = 0


@dataclass
class Named:
    """Is named by its value."""

    value: Any
    n: int


class Item(msgspec.Struct):
    value: Any
    id: int = 0


# -- D1: datetimes ---------------------------------------------------------------------------

LOCAL_ZONES = st.sampled_from(
    ["UTC", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe", "Pacific/Apia"]
)


@pytest.mark.parametrize("serializer", SERIALIZERS)
@given(written_in=LOCAL_ZONES, read_in=LOCAL_ZONES, when=moments, others=st.lists(moments))
@settings(max_examples=25)
def test_d1_any_datetime_in_any_local_zone(
    tmp_path_factory: pytest.TempPathFactory,
    serializer: str,
    written_in: str,
    read_in: str,
    when: datetime,
    others: list[datetime | None],
) -> None:
    """A datetime keeps value, zone and fold, whatever the local time of writer and reader."""
    path = tmp_path_factory.mktemp("d1") / "a.memdb"
    with local_zone(written_in), memdb.open(path, serializer=serializer) as db:
        db.collection(Event).insert(Event(when, others))
        odd: dict[Any, Any] = {"when": when, when: others}
        db.collection("events").insert(odd)
    with local_zone(read_in), memdb.open(path, "r", **TRUST) as db:
        found = db.collection(Event)[1], db.collection("events")[1]

    assert_exact(found, (Event(when, others, 1), {"when": when, when: others, "id": 1}))


def test_d1_conditions_tell_the_two_repeated_hours_apart(db: memdb.Database) -> None:
    """Both hours of a change to winter time are found by their instants in UTC."""
    paris = ZoneInfo("Europe/Paris")
    first = datetime(2024, 10, 27, 2, 30, tzinfo=paris)
    events = db.collection(Event)
    events.insert_many([Event(first), Event(first.replace(fold=1))])
    instant = datetime(2024, 10, 27, 1, 0, tzinfo=UTC)

    assert [1] == [each.id for each in events.find_all(F.when < instant)]
    assert [2] == [each.id for each in events.find_all(F.when > instant)]
    assert [0, 1] == [each.when.fold for each in events]
    spans = [each.when.astimezone(UTC) for each in events]
    assert timedelta(hours=1) == spans[1] - spans[0]


# -- D2: odd values --------------------------------------------------------------------------


@dataclass
class Ring:
    """Can contain itself."""

    name: str
    next: Ring | None = None
    id: int = 0


def rings() -> dict[str, tuple[Any, str]]:
    """Return records that contain themselves, and the beginning of the path where they do."""
    in_list: list[Any] = []
    in_list.append(in_list)
    in_dict: dict[str, Any] = {}
    in_dict["k"] = (in_dict,)
    ring = Ring("a", Ring("b"))
    assert ring.next is not None
    ring.next.next = ring
    return {
        "list": (Anything(in_list), "value[0]"),
        "dict": (Anything(in_dict), "value['k'][0]"),
        "record": (ring, "next.next"),
    }


@pytest.mark.parametrize("serializer", ["binary", "msgpack", "json"])
@pytest.mark.parametrize("where", ["list", "dict", "record"])
def test_d2_self_reference_is_refused(tmp_path: Path, serializer: str, where: str) -> None:
    """A record that contains itself is refused with the path of the field, and nothing changes."""
    path = tmp_path / "a.memdb"
    record, place = rings()[where]
    with memdb.open(path, serializer=serializer, flush_interval=86_400.0) as db:
        collection = db.collection(type(record))
        good = Anything(1) if type(record) is Anything else Ring("good")
        collection.insert(good)
        before = path.read_bytes()
        for refuse in (
            lambda: collection.insert(record),
            lambda: collection.insert_many([good, record]),
            lambda: collection.update(1, lambda _: record),
        ):
            with pytest.raises(memdb.EncodeError) as caught:
                refuse()
            assert caught.value.field.startswith(place)
            assert caught.value.field[:40] in str(caught.value)
        after = path.read_bytes()

        assert before == after
        assert_exact(collection[1], dataclasses.replace(good, id=1))


@pytest.mark.parametrize("serializer", SERIALIZERS)
@pytest.mark.parametrize("depth", [10, 50, 100, 2_000])
def test_d2_deep_nesting_is_held_or_refused(tmp_path: Path, serializer: str, depth: int) -> None:
    """However deep a value is nested, it comes back or is refused at the insert."""
    path = tmp_path / "a.memdb"
    value: Any = {"bottom": 2**70}
    for level in range(depth):
        value = [value] if level % 2 else {"k": value}
    with memdb.open(path, serializer=serializer) as db:
        own = db.collection(Anything)
        own.insert(Anything(0))
        try:
            own.insert(Anything(value))
            is_held = True
        except memdb.EncodeError as error:
            assert error.field.startswith("value") or serializer == "pickle"
            is_held = False
        # What is read is not held together by the stack of this thread.
        assert is_held or depth > 50
        last = own.insert(Anything(1))
        assert [] == db.check()
    with memdb.open(path, "r", **TRUST) as db:
        own = db.collection(Anything)
        found = own[2] if is_held else None

        assert 2 + is_held == len(own) == last
        if found is not None:
            value = found.value
            for level in reversed(range(depth)):
                value = value[0] if level % 2 else value["k"]
            assert_exact(value, {"bottom": 2**70})


ORDERINGS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def scalars() -> list[Any]:
    """Return the values that D2 and E3 name, and their neighbours."""
    return [
        *(None, True, False, 0, 1, -1, 2**63, 2**200, 1.0, 1.5, -0.0),
        *(math.nan, math.inf, -math.inf, Decimal("1.10"), Decimal("NaN"), Decimal("sNaN")),
        *("", "x", "\ud800", "a\x00b", b"", b"x", bytearray(b"x"), date(2020, 1, 1)),
        *(datetime(2020, 1, 1), datetime(2020, 1, 1, tzinfo=UTC), [], [1], (), (1,), {}, set()),
    ]


class TestD2Conditions:
    """Conditions over values of all kinds at once."""

    @pytest.fixture
    def things(self, db: memdb.Database) -> memdb.Collection[Item]:
        """Return a collection of every value."""
        things = db.collection(Item)
        things.insert_many([Item(value) for value in scalars()])
        return things

    @pytest.mark.parametrize("sign", ORDERINGS)
    def test_ordering_is_that_of_python(self, things: memdb.Collection[Item], sign: str) -> None:
        """An ordering finds what Python says is so; what Python can't compare does not match."""
        compare = ORDERINGS[sign]
        for bound in scalars():
            expected = [
                number for number, value in enumerate(scalars(), 1) if _is_so(compare, value, bound)
            ]
            found = [item.id for item in things.find_all(compare(F.value, bound))]
            assert expected == found, f"value {sign} {bound!r}"

    def test_equality_is_that_of_python(self, things: memdb.Collection[Item]) -> None:
        """Equality, by condition and by keyword, finds what Python says is equal."""
        for wanted in scalars():
            expected = [
                number
                for number, value in enumerate(scalars(), 1)
                if _is_so(operator.eq, value, wanted)
            ]
            unequal = {item.id for item in things.find_all(F.value != wanted)}
            everything = range(1, len(scalars()) + 1)

            assert expected == [item.id for item in things.find_all(F.value == wanted)], wanted
            assert expected == [item.id for item in things.find_all(value=wanted)], wanted
            assert expected == [each for each in everything if each not in unequal], wanted


def _is_so(compare: Callable[[Any, Any], Any], one: Any, other: Any) -> bool:
    if one is None or other is None:
        return compare in (operator.eq,) and one is other
    try:
        return bool(compare(one, other))
    except (TypeError, ArithmeticError):
        return False


def _is_itself(value: Any) -> bool:
    return bool(value == value)


def returning(record: Any) -> Callable[[Any], Any]:
    """Return a function for `Collection.update` that gives a record."""
    return lambda old: record


# -- D3: identities --------------------------------------------------------------------------

NO_IDENTITIES: list[Any] = [
    *("1", True, 1.0, b"1", (1,), math.nan, Decimal(1), None, "", [], 0, -1, 2**63, 2**64 + 1),
    *(1 + 0j, frozenset({1})),
]


def _lookups(things: memdb.Collection[Any], identity: Any) -> Iterator[Callable[[], object]]:
    yield lambda: things[identity]
    yield lambda: things.update(identity, value=5)
    yield lambda: things.delete(identity)
    yield lambda: things.__delitem__(identity)

    def edit() -> None:
        with things.edit(identity):
            pass

    yield edit


@pytest.mark.parametrize("cache", ["all", "none"])
@pytest.mark.parametrize("index", [True, False])
def test_d3_what_is_no_identity_finds_nothing(tmp_path: Path, cache: str, index: bool) -> None:
    """1 is found by 1 only, cached or not, in a transaction, before and after a reopen."""
    path = tmp_path / "a.memdb"
    for round_number in range(2):
        with memdb.open(path, cache=cache) as db:
            collections: list[memdb.Collection[Any]] = [
                db.collection(Item, identity_index=index),
                db.collection("things", identity_index=index),
            ]
            for things in collections:
                if round_number == 0:
                    things.insert({"value": 1} if things.name == "things" else Item(1))
                before = list(things)
                for _ in range(2):
                    for identity in NO_IDENTITIES:
                        check_absent(things, identity)
                        with db.transaction():
                            check_absent(things, identity)
                    # From now on it is in the cache.
                    assert things[1] is not None
                assert_exact(list(things), before)
                assert [1] == things.ids()
            assert [] == db.check()


def check_absent(things: memdb.Collection[Any], identity: Any) -> None:
    """Check that every method says there is no such record."""
    assert (None, "none") == (things.get(identity), things.get(identity, "none"))
    assert identity not in things
    assert [] == things.history(identity)
    for look_up in _lookups(things, identity):
        with pytest.raises(memdb.RecordNotFoundError) as caught:
            look_up()
        assert caught.value.identity is identity


@pytest.mark.parametrize(
    "identity",
    [
        *(each for each in NO_IDENTITIES if each is not None and (type(each), each) != (int, 0)),
        False,
        0.0,
        -0.0,
    ],
    ids=repr,
)
def test_d3_what_is_no_identity_is_refused_in_a_record(tmp_path: Path, identity: Any) -> None:
    """A record that asks for such an identity is refused by every way of writing."""
    path = tmp_path / "a.memdb"
    with memdb.open(path, flush_interval=86_400.0) as db:
        ways: list[tuple[Any, memdb.Collection[Any]]] = [
            (Item, db.collection(Item)),
            (lambda value, id: {"value": value, "id": id}, db.collection("things")),
        ]
        for make, things in ways:
            first = things.insert(make(1, 0))
            before = path.read_bytes()
            record = make(2, identity)
            for refuse in (
                partial(things.insert, record),
                partial(things.insert_many, [record]),
                partial(things.put, record),
                partial(things.update, 1, returning(record)),
                partial(things.update, 1, id=identity),
            ):
                with pytest.raises(memdb.IdentityError):
                    refuse()
            assert before == path.read_bytes()
            assert [first] == things.ids()
    with memdb.open(path) as db:
        assert [[1], [1]] == [db.collection(Item).ids(), db.collection("things").ids()]


# Equal in Python, or alike as text or bytes.
ALIKE: list[list[Any]] = [
    [1, "1", True, b"1", (1,), ("1",), (True,), (b"1",), ((1,),)],
    [0, False, "", b"", None, (), (0,), (None,), ("",), "0", "None", ((),)],
    ["a", b"a", ("a",), ("a", ""), ("", "a"), ("a", None), "a\x00", "\x00a"],
    [date(2020, 1, 1), datetime(2020, 1, 1), "2020-01-01", datetime(2020, 1, 1, fold=1)],
    [
        datetime(2020, 1, 1, tzinfo=UTC),
        datetime(2020, 1, 1, tzinfo=ZoneInfo("UTC")),
        datetime(2020, 1, 1, tzinfo=timezone(timedelta(0), "Z")),
        datetime(2020, 1, 1, tzinfo=timezone(timedelta(0), "")),
        datetime(2020, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))),
        datetime(2020, 1, 1, 1, tzinfo=ZoneInfo("Europe/Paris")),
        datetime(2020, 1, 1, 1, tzinfo=timezone(timedelta(hours=1), "Europe/Paris")),
        datetime(2020, 1, 1, 1, tzinfo=timezone(timedelta(hours=1), "\ud800")),
    ],
    [UUID(int=1), str(UUID(int=1)), UUID(int=1).bytes, UUID(int=1).hex, 1],
]


@pytest.mark.parametrize("keys", ALIKE, ids=lambda keys: ascii(keys[0]))
@pytest.mark.parametrize("parts", [1, 2])
def test_d3_keys_that_look_alike_are_apart(tmp_path: Path, keys: list[Any], parts: int) -> None:
    """Each key has its own record, by every way of reading, before and after a reopen."""
    path = tmp_path / "a.memdb"
    key = "value" if parts == 1 else ("value", "other")
    wanted = keys if parts == 1 else [(each, keys[0]) for each in keys]
    with memdb.open(path) as db:
        things = db.collection("things", key=key)
        for number, each in enumerate(keys):
            record = {"value": each, "other": keys[0], "n": number}
            assert_exact(things.insert(record), wanted[number])
        with pytest.raises(memdb.DuplicateIdentityError):
            things.insert(record)
        check_keys(things, wanted)
    with memdb.open(path) as db:
        things = db.collection("things", key=key)
        check_keys(things, wanted)
        for number, each in enumerate(wanted):
            things.update(each, n=number + 100)
            assert number + 100 == things[each]["n"]
            things.delete(each)
            assert each not in things
        assert 0 == len(things)


def check_keys(things: memdb.Collection[Any], keys: list[Any]) -> None:
    """Check that each key leads to its record."""
    assert len(keys) == len(things)
    assert {repr(leaf_key(key)) for key in keys} == {repr(leaf_key(key)) for key in things.ids()}
    no_record = {"n": None}
    for _ in range(2):
        assert list(range(len(keys))) == [things[key]["n"] for key in keys]
        assert list(range(len(keys))) == [things.get(key, no_record)["n"] for key in keys]
        assert [1] * len(keys) == [len(things.history(key)) for key in keys]


@pytest.mark.parametrize(
    "key", [1.0, math.nan, -0.0, Decimal(1), [], (1, 1.0), 1 + 0j, bytearray(b"1")], ids=repr
)
def test_d3_what_can_be_no_key_is_refused(tmp_path: Path, key: Any) -> None:
    """A float, and whatever else equals a key in Python but is none, is refused and found by none.

    The error names the field and the type.
    """
    path = tmp_path / "a.memdb"
    with memdb.open(path, flush_interval=86_400.0) as db:
        things = db.collection("things", key="value")
        things.insert({"value": 1})
        before = path.read_bytes()
        record = {"value": key}
        for refuse in (
            lambda: things.insert(record),
            lambda: things.insert_many([{"value": 2}, record]),
            lambda: things.put(record),
            lambda: things.update(1, value=key),
            lambda: things.update(1, record),
        ):
            with pytest.raises(memdb.IdentityError, match=r"things.*value") as caught:
                refuse()
        assert type(key).__name__ in str(caught.value) or repr(key) in str(caught.value)
        assert (None, False, []) == (things.get(key), key in things, things.history(key))
        assert before == path.read_bytes()


def test_d3_zone_data_may_change() -> None:
    """A key with a time zone is the same key when the rules of the zone are others."""
    keys = []
    for hours in (1, 2):
        # A zone file of one offset and no changes (RFC 9636).
        rules = struct.pack(">4s16x6l", b"TZif", 0, 0, 0, 0, 1, 4)
        rules += struct.pack(">lBB4s", hours * 3600, 0, 0, b"CET\0")
        zone = ZoneInfo.from_file(io.BytesIO(rules), key="Europe/Paris")
        moment = datetime(2030, 7, 1, 12, tzinfo=zone)
        assert timedelta(hours=hours) == moment.utcoffset()
        keys.append(encode_key(moment))

    assert keys[0] == keys[1]


# -- D4: false values ------------------------------------------------------------------------

FALSE: list[Any] = [b"", "", None, [], 0, False, 0.0, (), {}, set(), bytearray(), Decimal(0)]


@pytest.mark.parametrize("serializer", SERIALIZERS)
def test_d4_false_values_are_present(tmp_path: Path, serializer: str) -> None:
    """A field whose whole value is false is there with that value, and is found by it."""
    path = tmp_path / "a.memdb"
    with memdb.open(path, serializer=serializer) as db:
        db.collection(Item).insert_many([Item(value) for value in FALSE])
        db.collection("dicts").insert_many([{"value": value} for value in FALSE])
        db.collection("dicts").insert({})
    with memdb.open(path, "r", **TRUST) as db:
        items, dicts = db.collection(Item), db.collection("dicts")
        found = [item.value for item in items], [each.get("value", "none") for each in dicts]
        by_value = [
            [item.value for item in items if is_exact(item.value, value)] for value in FALSE
        ]
        none = [item.id for item in items.find_all(value=None)]

    assert_exact(found, (FALSE, [*FALSE, "none"]))
    assert_exact(by_value, [[value] for value in FALSE])
    assert [1 + FALSE.index(None)] == none


@pytest.mark.parametrize("serializer", SERIALIZERS)
def test_d4_false_values_are_keys(tmp_path: Path, serializer: str) -> None:
    """A false value that can be a key names a record as any other does."""
    path = tmp_path / "a.memdb"
    keys = [b"", "", None, 0, False, ()]
    with memdb.open(path, serializer=serializer) as db:
        things = db.collection(Named, key="value")
        assert_exact(things.insert_many([Named(key, n) for n, key in enumerate(keys)]), keys)
        check_named(things, keys)
    with memdb.open(path) as db:
        check_named(db.collection(Named, key="value", serializer=serializer), keys)


def check_named(things: memdb.Collection[Named], keys: list[Any]) -> None:
    """Check that each key is there and names its record."""
    for number, key in enumerate(keys):
        assert key in things
        assert_exact((things[key], things.get(key)), (Named(key, number), Named(key, number)))
        assert things.put(Named(key, number)) == (key, "unchanged")


@pytest.mark.parametrize("serializer", SERIALIZERS)
@pytest.mark.parametrize("value", FALSE, ids=repr)
def test_d4_updates_between_false_values(serializer: str, value: Any) -> None:
    """A false value replaced by another one, or by None, is a change that is written."""
    with memdb.open(None, serializer=serializer) as db:
        items = db.collection(Item)
        items.insert(Item("before"))
        for other in FALSE:
            items.update(1, value=value)
            assert is_exact(value, other) != items.update(1, value=other)
            assert_exact(items[1], Item(other, 1))


def test_samples_have_names_of_their_own() -> None:
    """No two samples of the matrix are mixed up."""
    assert len(SAMPLES) == len({sample.name for sample in SAMPLES})
