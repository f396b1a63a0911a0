"""Encrypted databases as the user meets them: keys, what is refused, what is encrypted."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest

import memdb
from memdb import Config, ConfigError, WrongKeyError
from memdb.storage import _key_slots
from memdb.storage._secret import Secret

KEY = bytes(range(32))
OTHER = bytes(range(1, 33))
WORD = "correct horse"


@pytest.fixture(autouse=True)
def quick_scrypt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Derive keys from passwords in no time."""
    monkeypatch.setattr(_key_slots, "SCRYPT_N", 2)


@dataclass
class Person:
    """A record with an assigned identity."""

    name: str
    age: int = 0
    id: int = 0


@dataclass
class User:
    """A record with a natural key."""

    email: str
    name: str = ""


@dataclass
class Order:
    """A record that refers to another one."""

    owner: Annotated[int, memdb.ForeignKey(Person)]
    text: str
    id: int = 0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the database is."""
    return tmp_path / "a.memdb"


def make(path: Path, **settings: Any) -> None:
    """Make a database with one record."""
    with memdb.open(path, **settings) as db:
        db.collection(Person).insert(Person("Ann", 7))


# -- the ways to give a key ------------------------------------------------------------------


def ways(monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """Return settings that make a file, and others that open it."""
    monkeypatch.setenv("THE_KEY", KEY.hex())
    monkeypatch.setenv("THE_KEY_64", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n")
    monkeypatch.setenv("THE_WORD", WORD)
    return {
        "key": ({"key": KEY}, {"key": bytearray(KEY)}),
        "function": ({"key": lambda: KEY}, {"key": memoryview(KEY)}),
        "word from key=": ({"key": lambda: WORD}, {"password": WORD}),
        "password": ({"password": WORD}, {"password": WORD.encode()}),
        "password function": ({"password": lambda: WORD}, {"password": lambda: WORD.encode()}),
        "hexadecimal": ({"key_env": "THE_KEY"}, {"key": KEY}),
        "base64": ({"key_env": "THE_KEY_64"}, {"key": KEY}),
        "word in environment": ({"password_env": "THE_WORD"}, {"password": WORD}),
        "config": ({"config": Config(key=KEY)}, {"config": {"key_env": "THE_KEY"}}),
    }


WAYS = (
    *("key", "function", "word from key=", "password", "password function"),
    *("hexadecimal", "base64", "word in environment", "config"),
)


@pytest.mark.parametrize("way", WAYS)
def test_each_way_to_give_a_key(path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """What a file was made with opens it, in whichever way it is given."""
    made, opened = ways(monkeypatch)[way]
    make(path, **made)
    for mode in ("rw", "append", "r"):
        with memdb.open(path, mode, **opened) as db:
            assert db.is_encrypted
            assert [Person("Ann", 7, 1)] == list(db.collection(Person))
            assert [] == db.check()


def test_a_function_is_called_once_at_each_opening(path: Path) -> None:
    """And not before, nor for a configuration that is only made."""
    calls = []

    def fetch() -> bytes:
        calls.append(1)
        return KEY

    config = Config(key=fetch)
    assert not calls
    make(path, config=config)
    assert len(calls) == 1
    with memdb.open(path, "r", config=config):
        pass
    assert len(calls) == 2


def test_what_a_function_raises_comes_out(path: Path) -> None:
    """The error of a function that can't fetch the key is not hidden; no file is made."""

    def fail() -> bytes:
        raise RuntimeError("the vault is shut")

    with pytest.raises(RuntimeError, match="vault"):
        memdb.open(path, key=fail)
    assert not path.exists()


def test_composed_and_decomposed_letters_are_the_same_password(path: Path) -> None:
    """What the user sees as the same text opens the file."""
    make(path, password="caf\u00e9")
    with memdb.open(path, "r", password="cafe\u0301") as db:
        assert len(db.collection(Person)) == 1


def test_settings_from_the_environment(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`Config.load()` takes the key itself, or the name of another variable."""
    monkeypatch.setenv("MEMDB_KEY", KEY.hex())
    make(path, config=Config.load())
    monkeypatch.delenv("MEMDB_KEY")
    monkeypatch.setenv("ELSEWHERE", KEY.hex())
    monkeypatch.setenv("MEMDB_KEY_ENV", "ELSEWHERE")
    with memdb.open(path, "r", config=Config.load()) as db:
        assert db.is_encrypted


# -- what is refused -------------------------------------------------------------------------

WRONG: dict[str, dict[str, Any]] = {
    "no key": {},
    "another key": {"key": OTHER},
    "one bit off": {"key": bytes([KEY[0] ^ 1]) + KEY[1:]},
    "an empty key": {"key": b""},
    "a short key": {"key": KEY[:-1]},
    "a long key": {"key": KEY + b"\0"},
    "an empty key of a function": {"key": lambda: b""},
    "an empty password": {"password": ""},
    "a password": {"password": WORD},
    "a password of a function": {"key": lambda: WORD},
    "a variable that is not set": {"key_env": "NO_SUCH_VARIABLE"},
}


@pytest.mark.parametrize("mode", ["rw", "append", "r"])
@pytest.mark.parametrize("has_records", [True, False])
@pytest.mark.parametrize("wrong", WRONG)
def test_f2_wrong_keys_are_refused(path: Path, mode: Any, has_records: bool, wrong: str) -> None:
    """Also those of an empty database, in every mode, and the file is left as it is."""
    if has_records:
        make(path, key=KEY)
    else:
        memdb.open(path, key=KEY).close()
    before = path.read_bytes()
    with pytest.raises(WrongKeyError) as caught:
        memdb.open(path, mode, **WRONG[wrong])

    assert str(path) in str(caught.value)
    assert isinstance(caught.value, OSError) and isinstance(caught.value, ValueError)
    assert before == path.read_bytes()
    with memdb.open(path, key=KEY) as db:
        assert len(db.collection(Person)) == has_records


@pytest.mark.parametrize("wrong", [{"password": "Correct horse"}, {"password": b""}, {"key": KEY}])
def test_f2_wrong_passwords_are_refused(path: Path, wrong: dict[str, Any]) -> None:
    """The same of a file with a password."""
    make(path, password=WORD)
    with pytest.raises(WrongKeyError):
        memdb.open(path, **wrong)


@pytest.mark.parametrize("mode", ["rw", "r"])
@pytest.mark.parametrize("given", [{"key": KEY}, {"password": WORD}])
def test_f2_a_plain_file_with_a_key_is_refused(path: Path, mode: Any, given: Any) -> None:
    """So nobody takes for encrypted what is not."""
    make(path)
    before = path.read_bytes()
    with pytest.raises(WrongKeyError, match="not encrypted"):
        memdb.open(path, mode, **given)

    assert before == path.read_bytes()


@pytest.mark.parametrize("wrong", ["an empty key", "a short key", "an empty password"])
def test_what_can_be_no_key_makes_no_file(path: Path, wrong: str) -> None:
    """Nothing is left behind that a second try would stumble over."""
    with pytest.raises(WrongKeyError):
        memdb.open(path, **WRONG[wrong])
    assert not path.exists()


@pytest.mark.parametrize(
    ("value", "what"), [("", "empty"), ("5" * 63, "63 characters"), ("not a key!", "10 characters")]
)
def test_variables_that_hold_no_key(
    path: Path, monkeypatch: pytest.MonkeyPatch, value: str, what: str
) -> None:
    """The message has the name of the variable and never its content."""
    monkeypatch.setenv("THE_KEY", value)
    with pytest.raises(WrongKeyError, match=what) as caught:
        memdb.open(path, key_env="THE_KEY")

    assert "THE_KEY" in str(caught.value)
    assert not value or value not in str(caught.value)


@pytest.mark.parametrize(
    "settings",
    [
        {"key": "a text"},
        {"key": 5},
        {"key": [1]},
        {"password": 5},
        {"password": True},
        {"key_env": ""},
        {"key_env": "A=B"},
        {"key_env": 7},
        {"password_env": b"NAME"},
        {"encrypt": "some"},
        {"encrypt": True},
        {"encrypt": "marked"},
        {"key": KEY, "password": WORD},
        {"key": KEY, "key_env": "THE_KEY"},
        {"password": WORD, "password_env": "THE_WORD"},
        {"key": lambda: None},
        {"password": lambda: 7},
    ],
)
def test_settings_that_are_refused(path: Path, settings: dict[str, Any]) -> None:
    """Wrong types and contradictions are errors of the configuration; no value is shown."""
    with pytest.raises(ConfigError) as caught:
        memdb.open(path, **settings)

    assert "a text" not in str(caught.value) and WORD not in str(caught.value)
    assert not path.exists()


def test_a_reader_and_what_is_for_writers(path: Path) -> None:
    """`encrypt` is a matter of writing, and a keyword for a reader a misunderstanding."""
    make(path, key=KEY, encrypt="marked")
    with pytest.raises(ConfigError, match="encrypt"):
        memdb.open(path, "r", key=KEY, encrypt="marked")
    with memdb.open(path, "r", config=Config(key=KEY, encrypt="marked")) as db:
        assert len(db.collection(Person)) == 1


@pytest.mark.parametrize("suffix", ["toml", "json"])
@pytest.mark.parametrize("name", ["key", "password"])
def test_no_secret_in_a_file_of_settings(tmp_path: Path, suffix: str, name: str) -> None:
    """A secret in a file is refused, with the setting that names a variable instead."""
    text = {"toml": f'[memdb]\n{name} = "hush"\n', "json": f'{{"{name}": "hush"}}'}[suffix]
    file = tmp_path / f"settings.{suffix}"
    file.write_text(text)
    with pytest.raises(ConfigError, match=f"{name}_env") as caught:
        Config.load(file)

    assert "hush" not in str(caught.value)


# -- nothing is shown ------------------------------------------------------------------------


def faces(config: Config) -> Iterator[str]:
    """Give the texts in which a configuration may turn up."""
    yield repr(config)
    yield str(config)
    yield repr(dataclasses.asdict(config))
    yield repr(dataclasses.astuple(config))
    yield repr(vars(config))
    yield repr(copy.deepcopy(config))
    yield repr(config.replace(cache=5))
    yield repr(hash(config))
    yield f"{config.key!r} {config.password!s} {config.password}"


@pytest.mark.parametrize("settings", [{"key": b"0123456789abcdef" * 2}, {"password": "hush-hush"}])
def test_secrets_show_nowhere(path: Path, settings: dict[str, Any]) -> None:
    """Neither in a configuration nor in a database, its parts and its errors."""
    secret = next(iter(settings.values()))
    config = Config(**settings)
    texts = list(faces(config))
    with memdb.open(path, config=config) as db:
        engine: Any = db._engine
        texts += [repr(db), repr(engine.config), repr(engine.log), repr(engine.log._keys)]
        texts += [repr(engine.log._state.cipher), repr(engine.log._state)]
    for wrong in ({**settings, "cache": "al"}, {**settings, "key_env": "X"}):
        with pytest.raises(ConfigError) as caught:
            Config(**wrong)
        texts.append(str(caught.value))
    for text in texts:
        for face in (secret, bytes(secret).hex() if isinstance(secret, bytes) else secret):
            assert str(face) not in text and repr(face) not in text


def test_a_secret_can_not_be_pickled() -> None:
    """It would be in clear there; the message says what to do instead."""
    with pytest.raises(TypeError, match="key_env"):
        pickle.dumps(Config(key=KEY))
    assert Config(key_env="A") == pickle.loads(pickle.dumps(Config(key_env="A")))


def test_secrets_are_compared_by_content() -> None:
    """Two configurations are the same if their secrets are."""
    assert Config(key=KEY) == Config(key=bytearray(KEY))
    assert Config(key=KEY) != Config(key=OTHER)
    assert Config(password="a") != Config(password="b")
    assert hash(Config(key=KEY)) == hash(Config(key=KEY))
    assert Secret("key", KEY) != Secret("password", KEY)
    assert Secret("key", KEY) != KEY
    assert Config(key=KEY).replace(cache=1).key == Config(key=KEY).key


def test_an_open_database_keeps_no_secret_of_the_user(path: Path) -> None:
    """What the user gave is forgotten once the data key is known."""
    make(path, password=WORD)
    with memdb.open(path, password=WORD) as db:
        engine: Any = db._engine

        assert engine.config.password is None
        assert engine.log._keys._secret is None


# -- what is encrypted -----------------------------------------------------------------------


@pytest.mark.parametrize("serializer", ["binary", "json", "msgpack", "pickle"])
@pytest.mark.parametrize("durability", ["buffered", "written", "synced"])
def test_every_way_to_write(path: Path, serializer: str, durability: Any) -> None:
    """Each kind of change comes back, now and after reopening, and nothing stands in clear."""
    settings: dict[str, Any] = {"key": KEY, "serializer": serializer}
    with memdb.open(path, durability=durability, **settings) as db:
        people, users = db.collection(Person), db.collection(User, key="email")
        people.insert(Person("hidden"))
        people.insert(Person("hidden", 1))
        people.insert_many(Person(f"hidden {n}", n) for n in range(20))
        people.insert_many([Person("hidden explicit", id=100), Person("hidden after")])
        users.insert(User("hidden@example.org"))
        users.insert(User("hidden2@example.org"))
        users.insert_many([User(f"hidden{n}@example.org", "x") for n in range(3, 20)])
        users.put(User("hidden@example.org", "hidden"))
        with db.transaction():
            people.update(1, age=5)
            people.delete(2)
            users.delete("hidden7@example.org")
            people.insert(Person("hidden in a transaction"))
        people.update(3, name="hidden now")
        db.collection("hidden notes").insert({"hidden": "hidden"})
        expected = {"people": dict(people.items()), "users": dict(users.items())}
        history = people.history(1)
        assert [] == db.check()
    with memdb.open(path, "r", **settings) as db:
        people, users = db.collection(Person), db.collection(User, key="email")

        assert expected == {"people": dict(people.items()), "users": dict(users.items())}
        assert history == people.history(1)
        assert [0, 5] == [each.record.age for each in history if each.record]
        assert users.get("hidden7@example.org") is None
        assert "hidden" == users["hidden@example.org"].name
        assert people.find(name="hidden now") == people[3]
        assert [{"hidden": "hidden", "id": 1}] == list(db.collection("hidden notes"))
        assert [] == db.check()
    for needle in (b"hidden", b"Person", b"notes", b"example", b"email"):
        assert needle not in path.read_bytes()


def test_in_memory() -> None:
    """A configuration with a key serves a database in memory too."""
    with memdb.open(None, key=KEY) as db:
        people = db.collection(Person)
        people.insert_many([Person("a"), Person("b")])
        people.update(1, age=3)
        db.rekey(password=WORD)

        assert [Person("a", 3, 1), Person("b", 0, 2)] == list(people)
        assert [] == db.check()


def test_migration_reads_and_writes_what_is_encrypted(path: Path) -> None:
    """Records of an older class are rewritten, and stay encrypted."""
    make(path, key=KEY)

    @dataclass
    class Grown:
        name: str
        age: int = 0
        hidden_word: str = "grown"
        id: int = 0

    with memdb.open(path, key=KEY) as db:
        people = db.collection(Grown, name="Person")
        assert 1 == db.migrate().collections["Person"].migrated
        assert [Grown("Ann", 7, "grown", 1)] == list(people)
        assert [] == db.check()
    assert b"grown" not in path.read_bytes()


def test_saved_indexes_are_encrypted(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large indexes are saved and used again, and no key of theirs stands in clear."""
    monkeypatch.setattr("memdb._saved_indexes._LEAST_ENTRIES", 10)
    monkeypatch.setattr("memdb._saved_indexes._LEAST_CHANGES", 10)
    ages = [0x1122334455660000 + n for n in range(50)]
    index = memdb.SortedIndex("age")
    with memdb.open(path, key=KEY) as db:
        people = db.collection(Person, indexes=[index])
        people.insert_many([Person("a", age) for age in ages])
        assert 1 == people.count(memdb.F.age > ages[-2])
    assert bytes.fromhex("665544332211") not in path.read_bytes()
    with memdb.open(path, key=KEY) as db:
        log: Any = db._engine.log
        people = db.collection(Person, indexes=[index])
        (saved,) = log.saved_indexes(1)
        arrays = log.index_arrays(saved)

        assert ages == arrays["keys"].tolist()
        assert not arrays["keys"].flags.writeable
        assert 1 == people.count(memdb.F.age > ages[-2])
        assert [] == db.check()


def test_natural_keys_are_hashed_with_a_secret(path: Path, tmp_path: Path) -> None:
    """Numbers of the same keys differ from file to file, also with the same seed."""
    found = []
    for name in ("one", "two"):
        with memdb.open(tmp_path / name, key=KEY) as db:
            users = db.collection(User, key="email")
            key: Any = users._store.key
            found.append((key.digest(b"a", 5), key.to_catalogue()["hash"]))
            users.insert(User("a"))
        with memdb.open(tmp_path / name, key=KEY) as db:
            assert found[-1][0] == db.collection(User, key="email")._store.key.digest(b"a", 5)
            assert User("a") == db.collection(User, key="email")["a"]
    assert found[0][0] != found[1][0]
    assert [each[1] for each in found] == ["blake2b", "blake2b"]


def test_displaced_natural_keys(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys whose hashes are the same are told apart in an encrypted file too."""
    from memdb import _hot, _natural_key
    from memdb.indexes import _keys

    for module in (_keys, _natural_key, _hot):
        monkeypatch.setattr(module, "NUMBER_MASK", 63)
    with memdb.open(path, key=KEY) as db:
        users = db.collection(User, key="email")
        for number in range(25):
            users.insert(User(f"{number}"))
        users.put(User("5", "five"))
    with memdb.open(path, key=KEY) as db:
        users = db.collection(User, key="email")
        assert {str(number) for number in range(25)} == set(users.ids())
        assert "five" == users["5"].name
        assert [] == db.check()


# -- marked records --------------------------------------------------------------------------


def marked(path: Path) -> memdb.Database:
    """Open a database in which marked records are encrypted."""
    return memdb.open(path, key=KEY, encrypt="marked")


def sealed(db: memdb.Database, collection: Any, identity: Any) -> bool:
    """Whether the live version of a record is encrypted."""
    store = collection._store
    slot = store.identities.find(store.find_number(identity))
    return db._engine.log.is_sealed(slot)


def test_only_marked_records_are_encrypted(path: Path) -> None:
    """Each way to insert takes the mark; the catalogue is encrypted in any case."""
    with marked(path) as db:
        people, users = db.collection(Person), db.collection(User, key="email")
        assert 1 == people.insert(Person("open1"))
        assert 2 == people.insert(Person("hush2"), encrypt=True)
        assert 3 == people.insert(Person("open3"), encrypt=False)
        assert [4, 5] == people.insert_many([Person("hush4"), Person("hush5")], encrypt=True)
        assert [6] == people.insert_many([Person("open6")])
        assert "inserted" == people.put(Person("hush7", id=7), encrypt=True).outcome
        assert "inserted" == people.put(Person("open8", id=8)).outcome
        users.insert(User("hush9@a"), encrypt=True)
        users.insert(User("open10@a"))
        users.insert_many([User("hush11@a")], encrypt=True)
        with db.transaction():
            people.insert(Person("hush12"), encrypt=True)
            people.insert(Person("open13"))
            people.insert_many([Person("hush14")], encrypt=True)
            users.put(User("hush15@a"), encrypt=True)
        names = sorted(person.name for person in people)
        assert [] == db.check()
    data = path.read_bytes()

    assert b"hush" not in data and b"Person" not in data
    for number in (1, 3, 6, 8, 10, 13):
        assert f"open{number}".encode() in data
    with marked(path) as db:
        people, users = db.collection(Person), db.collection(User, key="email")
        assert names == sorted(person.name for person in people)
        assert {f"{each}@a" for each in ("hush9", "open10", "hush11", "hush15")} == set(users.ids())
        assert Person("hush4", id=4) == people[4]


def test_an_update_keeps_what_the_record_had(path: Path) -> None:
    """Whichever way a record is changed, it stays encrypted, or plain."""
    with marked(path) as db:
        people = db.collection(Person)
        people.insert(Person("hush"), encrypt=True)
        people.insert(Person("open"))
        changes = [
            lambda: [people.update(n, age=1) for n in (1, 2)],
            lambda: people.query().update(age=2),
            lambda: [people.put(dataclasses.replace(people[n], age=3)) for n in (1, 2)],
            lambda: [people.update(n, lambda person: Person(person.name, 4)) for n in (1, 2)],
        ]
        for change in (*changes, in_transaction(db, people)):
            change()
            assert [True, False] == [sealed(db, people, 1), sealed(db, people, 2)]
            assert 1 == len({person.age for person in people})
        with people.edit(1) as person:
            person.age = 77
        assert sealed(db, people, 1)
        people.put(Person("open no more", id=2), encrypt=True)
        assert sealed(db, people, 2)
        people.put(Person("still hushed", id=1))
        assert sealed(db, people, 1)
        assert [] == db.check()
    assert b"hush" not in path.read_bytes()


def in_transaction(db: memdb.Database, people: Any) -> Any:
    """Return a change that is made of several in a transaction."""

    def change() -> None:
        with db.transaction():
            for number in (1, 2):
                people.update(number, age=8)
                people.update(number, age=9)

    return change


def test_marks_within_a_transaction(path: Path) -> None:
    """A record that is inserted with the mark and changed in one transaction is encrypted."""
    with marked(path) as db:
        people = db.collection(Person)
        with db.transaction():
            first = people.insert(Person("hush"), encrypt=True)
            people.update(first, age=1)
            with db.transaction():
                people.update(first, age=2)
            second = people.insert(Person("open"))
            people.put(Person("hush", id=second), encrypt=True)
            people.update(second, age=2)
        assert [True, True] == [sealed(db, people, first), sealed(db, people, second)]
    assert b"hush" not in path.read_bytes()


def test_marking_a_plain_record_writes_it_anew(path: Path) -> None:
    """Though its bytes are the same as before."""
    with marked(path) as db:
        people, users = db.collection(Person), db.collection(User, key="email")
        people.insert(Person("a"))
        users.insert(User("a"))
        assert "unchanged" == people.put(Person("a", id=1)).outcome
        assert "updated" == people.put(Person("a", id=1), encrypt=True).outcome
        assert "unchanged" == people.put(Person("a", id=1), encrypt=True).outcome
        with db.transaction():
            users.put(User("a"), encrypt=True)
        assert sealed(db, people, 1) and sealed(db, users, "a")
        versions = db.stats().versions
        with db.transaction():
            users.put(User("a"), encrypt=True)
        assert versions == db.stats().versions


def test_marks_with_foreign_keys_and_unique_indexes(path: Path) -> None:
    """Collections that take the longer ways take the mark too."""
    with marked(path) as db:
        people = db.collection(Person, indexes=[memdb.HashIndex("name", unique=True)])
        orders = db.collection(Order)
        people.insert(Person("open1"))
        people.insert(Person("hush2"), encrypt=True)
        people.insert(Person("hush3"), encrypt=True)
        orders.insert(Order(1, "open4"))
        orders.insert(Order(2, "hush5"), encrypt=True)
        orders.insert_many([Order(2, "hush6")], encrypt=True)
        orders.put(Order(1, "hush7", id=1), encrypt=True)
        with pytest.raises(memdb.DuplicateKeyError):
            people.insert(Person("hush2"), encrypt=True)
        assert 3 == len(people) == len(orders)
        assert [] == db.check()
    assert b"hush" not in path.read_bytes()


@pytest.mark.parametrize("settings", [{}, {"key": KEY}])
def test_the_mark_in_other_databases(path: Path, settings: dict[str, Any]) -> None:
    """With "all" it says nothing new; without a key it is refused, and nothing is written."""
    with memdb.open(path, **settings) as db:
        people = db.collection(Person)
        people.insert(Person("first"))
        for change in (
            lambda: people.insert(Person("a"), encrypt=True),
            lambda: people.insert_many([Person("a")], encrypt=True),
            lambda: people.put(Person("a", id=9), encrypt=True),
            lambda: people.put(Person("b", id=1), encrypt=True),
        ):
            if settings:
                change()
            else:
                with pytest.raises(ConfigError, match="key="):
                    change()
        assert (4 if settings else 1) == len(people)
        assert [] == db.check()


def test_a_file_of_all_takes_no_plain_records(path: Path) -> None:
    """Whoever forgets that it was made so is told; a file of marked ones may get all encrypted."""
    make(path, key=KEY)
    with pytest.raises(ConfigError, match="encrypt='all'"):
        marked(path)
    with memdb.open(path, "r", config=Config(key=KEY, encrypt="marked")) as db:
        assert len(db.collection(Person)) == 1
    other = path.with_name("b.memdb")
    with marked(other) as db:
        db.collection(Person).insert(Person("open"))
    with memdb.open(other, key=KEY) as db:
        people = db.collection(Person)
        people.insert(Person("hush"))
        people.update(1, name="hushed now")
        assert [True, True] == [sealed(db, people, 1), sealed(db, people, 2)]
    with marked(other) as db:
        db.collection(Person).insert(Person("open again"))
        assert [] == db.check()
    assert b"hush" not in other.read_bytes() and b"open again" in other.read_bytes()


# -- rekey -----------------------------------------------------------------------------------

SECRETS: list[dict[str, Any]] = [
    {"key": KEY},
    {"password": WORD},
    {"key": OTHER},
    {"password": lambda: "another"},
]


@pytest.mark.parametrize("before", range(4))
@pytest.mark.parametrize("after", range(4))
def test_rekey(path: Path, before: int, after: int) -> None:
    """From then on the new one opens the file and the old one does not, whichever they are."""
    make(path, **SECRETS[before])
    with memdb.open(path, **SECRETS[before]) as db:
        db.rekey(**SECRETS[after])
        db.collection(Person).insert(Person("later"))
    for which in range(4):
        if which == after:
            with memdb.open(path, **SECRETS[which]) as db:
                assert ["Ann", "later"] == [person.name for person in db.collection(Person)]
        else:
            with pytest.raises(WrongKeyError):
                memdb.open(path, **SECRETS[which])


def test_rekey_many_times(path: Path) -> None:
    """The slots are used in turn, in one session and over several."""
    key = KEY
    make(path, key=key)
    for _ in range(3):
        with memdb.open(path, key=key) as db:
            for _ in range(3):
                old, key = key, secrets.token_bytes(32)
                db.rekey(key=key)
                with pytest.raises(WrongKeyError):
                    memdb.open(path, "r", key=old)
                with memdb.open(path, "r", key=key) as reader:
                    assert len(reader.collection(Person)) == 1
            assert [] == db.check()


def test_a_reader_goes_on_after_rekey(path: Path) -> None:
    """Whoever has the file open has the data key."""
    make(path, key=KEY)
    with memdb.open(path, key=KEY) as db, memdb.open(path, "r", key=KEY) as reader:
        db.rekey(password=WORD)

        assert "Ann" == reader.collection(Person)[1].name


def test_a_reader_whose_file_is_another_one_now(path: Path) -> None:
    """It has another data key, also where it was made with the same key; what was read stays."""
    make(path, key=KEY)
    with memdb.open(path, "r", key=KEY) as reader:
        people = reader.collection(Person)
        path.unlink()
        make(path, key=KEY)
        for _ in range(2):
            with pytest.raises(WrongKeyError, match="another database lies there"):
                reader.refresh()

        assert (1, ("refresh_failed",)) == (len(people), reader.health().names[:1])


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({}, ConfigError),
        ({"key": KEY, "password": WORD}, ConfigError),
        ({"key": "text"}, ConfigError),
        ({"key": lambda: 5}, ConfigError),
        ({"key": b""}, WrongKeyError),
        ({"key": KEY[:-1]}, WrongKeyError),
        ({"password": ""}, WrongKeyError),
    ],
)
def test_rekey_refuses(path: Path, settings: dict[str, Any], error: type[Exception]) -> None:
    """What can be no key changes nothing."""
    make(path, key=KEY)
    with memdb.open(path, key=KEY) as db:
        before = path.read_bytes()[:4096]
        with pytest.raises(error):
            db.rekey(**settings)
        assert before == path.read_bytes()[:4096]
    with memdb.open(path, key=KEY) as db:
        assert len(db.collection(Person)) == 1


def test_rekey_where_it_can_not_be(path: Path) -> None:
    """A plain file, a reader and a closed handle refuse."""
    make(path)
    with memdb.open(path) as db, pytest.raises(WrongKeyError, match="not encrypted"):
        db.rekey(key=KEY)
    path.unlink()
    make(path, key=KEY)
    with memdb.open(path, "r", key=KEY) as db, pytest.raises(memdb.ReadOnlyError):
        db.rekey(key=OTHER)
    with pytest.raises(memdb.ClosedError):
        db.rekey(key=OTHER)


def test_rekey_in_a_transaction(path: Path) -> None:
    """It is about the file and waits for no transaction."""
    make(path, key=KEY)
    with memdb.open(path, key=KEY) as db, db.transaction():
        db.collection(Person).insert(Person("in"))
        db.rekey(key=OTHER)
    with memdb.open(path, key=OTHER) as db:
        assert len(db.collection(Person)) == 2
