"""Collections with a natural key, as examples."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
import pytest

import memdb
from memdb import F
from memdb import _hot as hot
from memdb import _natural_key as natural_key
from memdb.indexes import _hashed as hashed
from memdb.indexes import _keys as keys
from memdb.storage import Kind
from tests.support.exact import assert_exact


@dataclass
class User:
    email: str
    name: str = ""
    id: int = 0


@dataclass(frozen=True)
class Place:
    country: str
    code: int
    name: str = ""


@dataclass
class Unset:
    email: str = field(init=False)


class Sku(msgspec.Struct):
    code: Any
    price: int = 0


class Row(NamedTuple):
    day: date
    count: int = 0


ANN, BOB = User("ann@x.org", "Ann", 5), User("bob@x.org", "Bob")


def test_records_are_found_by_their_key(db: memdb.Database) -> None:
    """Every way to name a record takes the key."""
    users = db.collection(User, key="email")

    assert "ann@x.org" == users.insert(ANN)
    assert ["bob@x.org"] == users.insert_many([BOB])
    assert_exact(users["ann@x.org"], ANN)
    assert users.get("nobody") is None
    assert "bob@x.org" in users
    assert "nobody" not in users
    assert users.update("bob@x.org", name="Robert")
    assert "Robert" == users["bob@x.org"].name
    with users.edit("bob@x.org") as bob:
        bob.name = "Rob"
    assert ["", "Rob"] == [users.get("x", User("")).name, users["bob@x.org"].name]
    assert ["Bob", "Robert", "Rob"] == [each.record.name for each in users.history("bob@x.org")]
    assert 2 == len(users)
    del users["ann@x.org"]
    with pytest.raises(KeyError, match=r"User: there is no record with identity 'ann@x\.org'"):
        users["ann@x.org"]
    assert ["inserted", "deleted"] == [each.kind for each in users.history("ann@x.org")]
    assert [] == users.history("nobody")


def test_iteration_is_in_the_order_of_the_last_writing(db: memdb.Database) -> None:
    """So are identities, items and what is found."""
    users = db.collection(User, key="email")
    users.insert_many([User("c"), User("a"), User("b")])
    users.update("c", name="later")

    assert ["a", "b", "c"] == users.ids()
    assert ["a", "b", "c"] == [user.email for user in users]
    assert [("a", User("a")), ("b", User("b")), ("c", User("c", "later"))] == list(users.items())
    assert ["a", "b"] == [user.email for user in users.find_all(F.name == "")]
    assert "a" == users.find(email="a").email


def test_the_field_id_is_a_field_like_any_other(db: memdb.Database) -> None:
    """With a natural key nothing is assigned to it and nothing is left out."""
    users = db.collection(User, key="email")
    users.insert(ANN)
    events = db.collection("events", key="name")
    events.insert({"name": "login", "id": "x"})
    events.insert({"name": "logout"})

    assert 5 == users["ann@x.org"].id
    assert users.update("ann@x.org", id=7)
    assert 7 == users["ann@x.org"].id
    assert {"name": "login", "id": "x"} == events["login"]
    assert {"name": "logout"} == events["logout"]


@pytest.mark.parametrize("serializer", ["binary", "msgpack", "json", "pickle"])
@pytest.mark.parametrize("cls", [User, "dicts"])
def test_a_field_id_is_stored_in_every_serializer(
    tmp_path: Path, serializer: str, cls: Any
) -> None:
    """Also where the identity would be in the pointer."""
    record = ANN if cls is User else {"email": "ann@x.org", "id": 5}
    for _ in range(2):
        with memdb.open(tmp_path / "a.memdb", serializer=serializer) as db:
            users = db.collection(cls, key="email")
            users.put(record)
            assert_exact(users["ann@x.org"], record)


def test_a_key_is_given_once(db: memdb.Database) -> None:
    """A second record with it is refused, alone and among many, and nothing is changed."""
    users = db.collection(User, key="email")
    users.insert(ANN)

    with pytest.raises(
        memdb.DuplicateIdentityError, match=r"'ann@x\.org' is there already"
    ) as info:
        users.insert(User("ann@x.org"))
    assert "ann@x.org" == info.value.identity
    with pytest.raises(memdb.DuplicateIdentityError):
        users.insert_many([BOB, User("ann@x.org")])
    with pytest.raises(memdb.DuplicateIdentityError):
        users.insert_many([BOB, BOB])
    assert [ANN] == list(users)
    users.delete("ann@x.org")
    users.insert(User("ann@x.org", "again"))
    assert "again" == users["ann@x.org"].name


def test_put_inserts_or_replaces_by_key(db: memdb.Database) -> None:
    """Its outcome says which."""
    users = db.collection(User, key="email")

    outcomes = [users.put(user) for user in (ANN, ANN, User("ann@x.org", "Anna"))]

    assert ["inserted", "unchanged", "updated"] == [each.outcome for each in outcomes]
    assert {"ann@x.org"} == {each.identity for each in outcomes}


def test_a_key_never_changes(db: memdb.Database) -> None:
    """Neither by update nor by edit; the message says what to do, and nothing is changed."""
    users = db.collection(User, key="email")
    users.insert(ANN)
    changes: list[Any] = [User("eve@x.org"), lambda user: User("eve@x.org")]

    for change in changes:
        with pytest.raises(memdb.IdentityError, match=r"never changes. Insert a new record"):
            users.update("ann@x.org", change)
    with pytest.raises(memdb.IdentityError, match="can't become 'eve'"):
        users.update("ann@x.org", email="eve")
    with (
        pytest.raises(memdb.IdentityError, match="can't become 'eve'"),
        users.edit("ann@x.org") as u,
    ):
        u.email = "eve"
    assert [ANN] == list(users)


def test_several_fields_make_a_tuple(db: memdb.Database) -> None:
    """In the order in which they were declared."""
    places = db.collection(Place, key=("country", "code"))

    assert ("fr", 1) == places.insert(Place("fr", 1, "Paris"))
    places.insert(Place("fr", 2, "Lyon"))

    assert "Lyon" == places["fr", 2].name
    assert ("fr", "2") not in places
    assert "fr" not in places
    assert [("fr", 1), ("fr", 2)] == places.ids()
    assert places.update(("fr", 1), name="Lutetia")
    assert places.delete(("fr", 2)) is None


VALUES: list[Any] = [
    "", "1", b"", b"1", 0, 1, False, True, None, (), (1,), ("a", b"a", (None,)), 2**200,
    date(2020, 1, 1), UUID(int=1), "\ud800",
]  # fmt: skip


@pytest.mark.parametrize("serializer", ["binary", "msgpack", "json", "pickle"])
def test_keys_of_every_type_stay_apart(tmp_path: Path, serializer: str) -> None:
    """1, "1", b"1", True and (1,) name different records, before and after reopening."""
    for turn in range(2):
        with memdb.open(tmp_path / "a.memdb", serializer=serializer) as db:
            skus = db.collection(Sku, key="code")
            if not turn:
                skus.insert_many([Sku(value, place) for place, value in enumerate(VALUES)])
            for place, value in enumerate(VALUES):
                assert_exact(skus[value], Sku(value, place))
            assert len(VALUES) == len(skus)
            assert_exact(skus.ids(), VALUES)


@pytest.mark.parametrize("value", [1.0, float("nan"), [], {}, 1j, object()])
def test_what_can_not_be_a_key_is_refused(db: memdb.Database, value: Any) -> None:
    """A record with it is not stored; nothing is found by it."""
    skus = db.collection(Sku, key="code")
    skus.insert(Sku(1))

    with pytest.raises(memdb.IdentityError, match=r"Sku: code: .* can't be a key"):
        skus.insert(Sku(value))
    with pytest.raises(memdb.IdentityError, match=r"Sku: code: .* can't be a key"):
        skus.put(Sku(value))
    with pytest.raises(memdb.IdentityError, match=r"Sku: code: .* can't be a key"):
        skus.insert_many([Sku(2), Sku(value)])
    assert skus.get(value) is None
    assert value not in skus
    with pytest.raises(memdb.RecordNotFoundError):
        skus.update(value, price=1)
    with pytest.raises(memdb.RecordNotFoundError):
        skus.delete(value)
    assert [] == skus.history(value)
    assert 1 == len(skus)


def test_a_record_without_its_key_is_refused(db: memdb.Database) -> None:
    """The message names the field."""
    events = db.collection("events", key=("day", "name"))

    with pytest.raises(memdb.IdentityError, match="events: the record has no value for its key"):
        events.insert({"day": 1})


def test_messages_say_which_part_of_a_key_is_wrong(db: memdb.Database) -> None:
    """And that several fields make a tuple."""
    places = db.collection(Place, key=("country", "code"))

    with pytest.raises(memdb.IdentityError, match=r"^Place: code: 1\.5 is a float"):
        places.insert(Place("fr", 1.5))  # type: ignore[arg-type]
    with pytest.raises(memdb.RecordNotFoundError, match="Identities are tuples of country, code"):
        places["fr"]


def test_the_record_of_many_that_is_refused_is_told(db: memdb.Database) -> None:
    """By its place and its key."""
    skus = db.collection(Sku, key="code")
    users = db.collection(User)

    with pytest.raises(memdb.EncodeError, match=r"^Sku, number 1 of the given ones 'b': price"):
        skus.insert_many([Sku("a"), Sku("b", object())])  # type: ignore[arg-type]
    with pytest.raises(memdb.EncodeError, match=r"^User, number 1 of the given ones: name"):
        users.insert_many([BOB, User("b", object())])  # type: ignore[arg-type]
    with pytest.raises(memdb.EncodeError, match=r"^User: name"):
        users.insert(User("b", object()))  # type: ignore[arg-type]
    assert 0 == len(skus) + len(users)


@pytest.mark.parametrize("key", ["", (), 5, ("a", "a"), ["email", 3], "\ud800", b"email"])
def test_a_key_that_is_no_field_is_refused(db: memdb.Database, key: Any) -> None:
    """So is one that is no name at all."""
    with pytest.raises(memdb.ConfigError, match="a key is the name of a field"):
        db.collection(User, key=key)


def test_an_unknown_field_as_key_is_refused_with_the_nearest(db: memdb.Database) -> None:
    """A typing error is told."""
    with pytest.raises(memdb.ConfigError, match=r"is no field of User\. Did you mean 'email'"):
        db.collection(User, key="emial")


def test_the_key_of_a_file_is_the_key(tmp_path: Path) -> None:
    """Another one, or none, is refused with what to say instead."""
    path = tmp_path / "a.memdb"
    with memdb.open(path) as db:
        db.collection(User, key="email").insert(ANN)
        db.collection(Place).insert(Place("fr", 1))

    with memdb.open(path) as db:
        with pytest.raises(memdb.ConfigError, match="Ask for it with key='email'"):
            db.collection(User)
        with pytest.raises(memdb.ConfigError, match="named by their email, not by name"):
            db.collection(User, key="name")
        with pytest.raises(memdb.ConfigError, match="assigned identities, which can't become"):
            db.collection(Place, key="country")
        assert ANN == db.collection(User, key=("email",))["ann@x.org"]


def test_by_its_name_a_collection_keeps_its_key(tmp_path: Path) -> None:
    """A file read without the class finds records by key, as dicts."""
    with memdb.open(tmp_path / "a.memdb") as db:
        db.collection(User, key="email").insert(ANN)
        db.collection("events", key="name").insert({"name": "login"})

    with memdb.open(tmp_path / "a.memdb") as db:
        users = db.collection("User")
        assert {"email": "ann@x.org", "name": "Ann", "id": 5} == users["ann@x.org"]
        assert ["ann@x.org"] == users.ids()
        events = db.collection("events")
        assert "logout" == events.insert({"name": "logout"})
        assert ["login", "logout"] == events.ids()


def test_a_transaction_sees_its_own_keys(db: memdb.Database) -> None:
    """Insert, delete and insert again in one; a savepoint that fails takes its keys along."""
    users = db.collection(User, key="email")
    users.insert(ANN)
    with db.transaction():
        users.insert(BOB)
        with pytest.raises(memdb.DuplicateIdentityError):
            users.insert(User("bob@x.org"))
        users.delete("ann@x.org")
        assert "ann@x.org" not in users
        users.insert(User("ann@x.org", "new"))
        with pytest.raises(ZeroDivisionError), db.transaction():
            users.insert(User("eve@x.org"))
            users.update("bob@x.org", name="gone")
            _ = 1 / 0
        assert "eve@x.org" not in users
        users.insert_many([User("eve@x.org", "kept"), User("x")])
        users.delete("x")

    assert ["new", "Bob", "kept"] == [
        users[each].name for each in ("ann@x.org", "bob@x.org", "eve@x.org")
    ]
    assert 3 == len(users)
    assert 3 == db.stats().collections["User"].live.count
    assert 0 == db.stats().collections["User"].last_identity


def test_a_clear_in_a_transaction_deletes_by_key(db: memdb.Database) -> None:
    """Also what the transaction has inserted."""
    users = db.collection(User, key="email")
    users.insert(ANN)
    with db.transaction():
        users.insert(BOB)
        assert 2 == users.clear()
        assert [] == users.ids()

    assert 0 == len(users)
    assert users.get("ann@x.org") is None


def test_a_lookup_after_opening_decodes_one_record(tmp_path: Path) -> None:
    """The key index comes from the pointers."""
    with memdb.open(tmp_path / "a.memdb") as db:
        db.collection(User, key="email").insert_many([User(f"{n}@x.org") for n in range(500)])

    with memdb.open(tmp_path / "a.memdb") as db:
        users = db.collection(User, key="email")
        assert "77@x.org" in users
        assert "77@x.org" == users["77@x.org"].email
        assert "none" not in users
        assert 1 == len(users._store.cache)


@pytest.mark.parametrize("identity_index", [True, False])
def test_two_keys_with_one_number_stay_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, identity_index: bool
) -> None:
    """Should 63 bits not be enough, each key still finds its own record, here and reopened."""
    for module in (keys, natural_key, hot):
        monkeypatch.setattr(module, "NUMBER_MASK", 31)
    monkeypatch.setattr(natural_key, "secrets", SimpleNamespace(randbelow=lambda stop: 5))
    path, names = tmp_path / "a.memdb", [f"{n}@x.org" for n in range(20)]
    with memdb.open(path) as db:
        users = db.collection(User, key="email", identity_index=identity_index)
        for name in names[:5]:
            users.insert(User(name, name))
        users.insert_many([User(name, name) for name in names[5:10]])
        with db.transaction():
            for name in names[10:]:
                users.insert(User(name, name))
    with memdb.open(path) as db:
        users = db.collection(User, key="email", identity_index=identity_index)
        assert names == [users[name].name for name in names]
        assert "none" not in users
        for name in names[::2]:
            users.delete(name)
        assert names[1::2] == [users[name].name for name in names[1::2]]
        assert not any(name in users for name in names[::2])
        for name in names[1::2]:
            with pytest.raises(memdb.DuplicateIdentityError):
                users.insert(User(name))
        for name in names[::2]:
            users.insert(User(name, "again"))
        assert 20 == len(users)
        assert [["inserted", "deleted", "inserted"]] * 10 == [
            [each.kind for each in users.history(name)] for name in names[::2]
        ]
        for name in names[::2]:
            users.delete(name)
        assert [] == db.check()
    with memdb.open(path) as db:
        # Their first numbers may be free now, as those of other keys were given up.
        users = db.collection(User, key="email", identity_index=identity_index)
        for name in names[1::2]:
            with pytest.raises(memdb.DuplicateIdentityError):
                users.insert(User(name))
        assert names[1::2] == sorted(users.ids(), key=names.index)


@pytest.mark.parametrize("cls", [User, "dicts"])
@pytest.mark.parametrize("is_crowded", [False, True])
def test_inserts_one_by_one_fill_the_table_again_and_again(
    monkeypatch: pytest.MonkeyPatch, db: memdb.Database, cls: Any, is_crowded: bool
) -> None:
    """An index that is made larger in between finds each record, and no other."""
    monkeypatch.setattr(hashed, "_LEAST_BITS", 4)
    if is_crowded:
        # All at its very end.
        monkeypatch.setattr(natural_key, "digest", lambda content, seed: 2**63 - 1 - int(content))
    users = db.collection(cls, key="email")
    for number in range(600):
        record = User(f"{number}")
        assert f"{number}" == users.insert(record if cls is User else vars(record))
        assert number + 1 == len(users)
        assert users._store.identities.room >= 0
        assert f"{number}" in users
        assert f"{number + 1}" not in users
        with pytest.raises(memdb.DuplicateIdentityError):
            users.insert(record if cls is User else vars(record))

    assert [f"{number}" for number in range(600)] == users.ids()


def test_a_key_that_is_no_unicode_is_one_like_any_other(db: memdb.Database) -> None:
    """Half of a surrogate pair can't be written as UTF-8, and can be part of a name."""
    users = db.collection(User, key="email")
    names = ["a", "\ud800", "\udfff"]

    assert names == [users.insert(User(name)) for name in names]
    assert names == [users[name].email for name in names]
    assert names == users.ids()


def test_a_record_whose_key_was_never_set_is_refused(db: memdb.Database) -> None:
    """Its class has the field, and the record has no value for it."""
    users = db.collection(Unset, key="email")
    record = Unset()
    record.email = "a"
    users.insert(record)

    for _ in range(2):
        with pytest.raises(memdb.IdentityError, match="no value for its key email"):
            users.insert(Unset())


def test_many_threads_insert_a_key_once(tmp_path: Path) -> None:
    """Of those that insert the same key at once, one succeeds."""
    with memdb.open(tmp_path / "a.memdb") as db:
        users = db.collection(User, key="email")
        inserted: list[str] = []

        def insert() -> None:
            for number in range(200):
                with contextlib.suppress(memdb.DuplicateIdentityError):
                    inserted.append(users.insert(User(f"{number}")))

        threads = [threading.Thread(target=insert) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert sorted(inserted) == sorted({f"{number}" for number in range(200)})


def test_a_renamed_key_stays_the_key(tmp_path: Path) -> None:
    """With renames= the class may call it something else; by name both are read."""

    @dataclass
    class Person:
        mail: str
        name: str = ""

    path = tmp_path / "a.memdb"
    with memdb.open(path) as db:
        db.collection(User, key="email").insert(ANN)
    with memdb.open(path) as db:
        people = db.collection(Person, name="User", key="mail", renames={"email": "mail"})
        assert Person("ann@x.org", "Ann") == people["ann@x.org"]
        people.insert(Person("eve"))
    with memdb.open(path) as db:
        assert ["ann@x.org", "eve"] == db.collection("User").ids()


def test_a_key_of_another_type_is_refused(tmp_path: Path) -> None:
    """Its records would not be found any more."""

    @dataclass
    class Item:
        code: int

    @dataclass
    class TextItem:
        code: str

    with memdb.open(tmp_path / "a.memdb") as db:
        db.collection(Item, key="code").insert(Item(1))
    with (
        memdb.open(tmp_path / "a.memdb") as db,
        pytest.raises(memdb.ConfigError, match="code is part of its key and was int, now str"),
    ):
        db.collection(TextItem, name="Item", key="code")


def test_a_named_tuple_may_be_named_by_a_day(db: memdb.Database) -> None:
    """A key may be a date."""
    rows = db.collection(Row, key="day")
    rows.insert(Row(date(2020, 1, 1), 3))

    assert 3 == rows[date(2020, 1, 1)].count
    assert rows.update(date(2020, 1, 1), count=4)
    assert rows.get("2020-01-01") is None


def test_what_readers_share_does_not_decide_what_the_file_holds(tmp_path: Path) -> None:
    """A shared record whose key a reader has changed is still there for whoever writes."""
    with memdb.open(tmp_path / "a.memdb", cloner="share") as db:
        users = db.collection(User, key="email")
        users.insert(User("x", "one"))
        users["x"].email = "y"

        with pytest.raises(memdb.DuplicateIdentityError):
            users.insert(User("x", "two"))
        assert "updated" == users.put(User("x", "two")).outcome
        assert [] == db.check()
    with memdb.open(tmp_path / "a.memdb") as db:
        assert [User("x", "two")] == list(db.collection(User, key="email"))


def test_a_deep_stack_is_not_taken_for_a_missing_record(db: memdb.Database) -> None:
    """Python's own RecursionError goes up; it says nothing about the record."""
    places = db.collection(Place, key=("country", "code"))
    places.insert(Place("fr", 1))

    def deep(levels: int) -> Any:
        return deep(levels - 1) if levels else places.get(("fr", 1))

    answers = []
    for levels in range(0, 1100, 3):
        try:
            answers.append(deep(levels))
        except RecursionError:
            break
    assert [Place("fr", 1)] * len(answers) == answers
    assert len(answers) > 100


def test_check_finds_records_under_a_wrong_number(tmp_path: Path) -> None:
    """And two with one key: what no program of ours has written."""
    with memdb.open(tmp_path / "a.memdb") as db:
        users = db.collection(User, key="email")
        users.insert(User("x"))
        store = users._store
        member = store.members.sole
        assert member is not None
        with db._engine.log.lock:
            store.commit_one(77, member.codec.encode(User("x")), member, Kind.INSERTED)
        messages = [finding.message for finding in db.check()]

    assert [
        "User: a record is not under the number of its key",
        "User: another record has the same key",
    ] == messages


def damaged(path: Path, part: bytes) -> None:
    """Flip a bit of a record's bytes in a closed file."""
    data = bytearray(path.read_bytes())
    data[data.index(part)] ^= 1
    path.write_bytes(data)


def test_a_damaged_record_can_be_deleted_and_replaced(tmp_path: Path) -> None:
    """Its key is as good as certain from its number; everything that reads it says damage."""
    path = tmp_path / "a.memdb"
    with memdb.open(path) as db:
        users = db.collection(User, key="email")
        users.insert_many([User("a", "one"), User("b", "two"), User("c", "three"), User("d")])
    for part in (b"one", b"two", b"three"):
        damaged(path, part)
    with memdb.open(path) as db:
        users = db.collection(User, key="email")
        for read in (lambda: users["a"], lambda: list(users), users.ids):
            with pytest.raises(memdb.DamageError):
                read()
        assert isinstance(users.history("a")[0].error, memdb.DamageError)
        assert "a" in users
        with pytest.raises(memdb.DuplicateIdentityError):
            users.insert(User("a"))
        users.delete("a")
        assert "updated" == users.put(User("b", "new")).outcome
        with db.transaction():
            users.delete("c")
            users.insert(User("c", "new"))
        assert [User("d"), User("b", "new"), User("c", "new")] == list(users)


def test_a_damaged_record_with_a_number_can_be_replaced(tmp_path: Path) -> None:
    """By put, by update with a whole record, and in a transaction."""
    path = tmp_path / "a.memdb"
    with memdb.open(path) as db:
        db.collection(User).insert_many([User("one"), User("two"), User("three")])
    for part in (b"one", b"two", b"three"):
        damaged(path, part)
    with memdb.open(path) as db:
        users = db.collection(User)
        assert "updated" == users.put(User("a", id=1)).outcome
        assert users.update(2, User("b"))
        with db.transaction():
            users.delete(3)
            users.insert(User("c", id=3))
        with pytest.raises(memdb.RecordNotFoundError):
            users.update(4, User("d"))
        assert ["a", "b", "c"] == [user.email for user in users]


@pytest.mark.parametrize(("place", "value"), [(0, 0), (0, -1), (0, -(2**63)), (6, 0), (6, 255)])
@pytest.mark.parametrize("key", [None, "email"])
def test_pointers_that_memdb_does_not_write_are_damage(
    tmp_path: Path, place: int, value: int, key: Any
) -> None:
    """An identity below 1 or an unknown kind, with checksums that are right."""
    path = tmp_path / "a.memdb"
    with memdb.open(path) as db:
        users = db.collection(User, key=key)
        users.insert(User("a"))
        log = db._engine.log
        pointers = log.pointers(1, 2).copy()
        pointers[0][place] = value
        with log.lock:
            log.append_batch(pointers, [b"x" * int(pointers["length"][0])])
    with memdb.open(path) as db, pytest.raises(memdb.DamageError, match="memdb does not write"):
        db.collection(User, key=key)


@pytest.fixture
def rivals(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[memdb.Collection[User], str, str]]:
    """A collection, and two keys that have the same first number and another second one."""
    for module in (keys, natural_key, hot):
        monkeypatch.setattr(module, "NUMBER_MASK", 31)
    with memdb.open(None) as db:
        users = db.collection(User, key="email")
        users.insert(User("first"))
        key = users._store.key
        assert key is not None
        free = [f"{n}" for n in range(200) if not users._store.is_there(_number(key, f"{n}"))]
        one = free[0]
        other = next(n for n in free[1:] if _number(key, n) == _number(key, one))
        yield users, one, other


def _number(key: natural_key.NaturalKey, text: str) -> int:
    return key.numbers(key.encode(text))[0]


def test_a_key_that_is_displaced_meanwhile_is_not_given_twice(rivals: Any) -> None:
    """Whoever planned before any key was displaced has looked at too few numbers."""
    users, one, other = rivals
    store, plan = users._store, users._store._plan

    def overtaken(*arguments: Any) -> Any:
        planned = plan(*arguments)
        store._plan = plan
        store.insert(User(other))
        store.insert(User(one))
        store.delete(other)
        return planned

    store._plan = overtaken
    with pytest.raises(memdb.DuplicateIdentityError):
        store.insert(User(one))
    assert ["first", one] == sorted(users.ids(), reverse=True)


def test_a_number_that_goes_to_another_key_is_not_deleted(rivals: Any) -> None:
    """Between the look-up and the lock, another thread may do anything."""
    users, one, other = rivals
    users.insert(User(one))
    store, find = users._store, users._store.find_version

    def overtaken(identity: object) -> tuple[int, int]:
        found: tuple[int, int] = find(identity)
        store.find_version = find
        store.delete(one)
        store.insert(User(other))
        return found

    store.find_version = overtaken
    with pytest.raises(memdb.RecordNotFoundError):
        store.delete(one)
    assert ["first", other] == users.ids()
