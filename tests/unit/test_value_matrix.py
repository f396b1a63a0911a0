"""Every value x every serializer x every way of holding it x read at once, reopened, elsewhere.

Each file is written once, with all samples in all forms; the tests look at what came back.
"""

from __future__ import annotations

import copy
import itertools
import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import memdb
from tests.support import kinds
from tests.support.exact import assert_exact, find_difference, leaf_key
from tests.support.local_zone import local_zone
from tests.support.processes import run_script
from tests.support.samples import SERIALIZERS
from tests.support.strategies import names_a_class
from tests.support.values import FORMS, SAMPLES, Form, Sample, can_be_key

#: What `memdb.open` is given besides: each sample must survive in each of these.
CONFIGURATIONS: dict[str, dict[str, Any]] = {"plain": {}}
TRUST: dict[str, Any] = {"trusted_serializers": ["pickle"]}
WRITER_ZONE, READER_ZONE = "America/New_York", "Australia/Lord_Howe"
ELSEWHERE = """
import sys
from tests.unit.test_value_matrix import print_differences
print_differences(*sys.argv[1:])
"""

Place = tuple[str, str]


@dataclass
class Stored:
    """A file with all samples, and what was read from it.

    Attributes:
        path: Of the file.
        settings: The configuration that it was written in.
        refused: Sample and form -> the error of its insert.
        read: Moment -> sample and form -> the record read then, or the error of reading it.
    """

    path: Path
    settings: str
    refused: dict[Place, Exception] = field(default_factory=dict)
    read: dict[str, dict[Place, Any]] = field(default_factory=dict)


def record_of(sample: Sample, form: Form, identity: int = 0) -> Any:
    """Return a new record that holds a sample."""
    cls = form.class_for(sample)
    if cls is None:
        return {"value": form.hold(sample.value), **({"id": identity} if identity else {})}
    return cls(form.hold(sample.value), identity)


def collection_for(db: memdb.Database, sample: Sample, form: Form) -> memdb.Collection[Any]:
    """Return the collection in which a sample is kept."""
    return db.collection(form.class_for(sample) or "dicts")


def read_all(db: memdb.Database, identities: dict[Place, int]) -> dict[Place, Any]:
    """Return what is read of every sample, errors included."""
    found: dict[Place, Any] = {}
    for sample in SAMPLES:
        for form in FORMS:
            place = sample.name, form.name
            if place in identities:
                try:
                    found[place] = collection_for(db, sample, form)[identities[place]]
                except Exception as error:
                    found[place] = error
    return found


def identities_of(refused: set[Place]) -> dict[Place, int]:
    """Return the identity of each sample: they are inserted in order, but for those refused."""
    given: dict[Place, int] = {}
    counts: dict[Any, int] = {}
    for sample in SAMPLES:
        for form in FORMS:
            if (sample.name, form.name) not in refused:
                cls = form.class_for(sample)
                counts[cls] = counts.get(cls, 0) + 1
                given[sample.name, form.name] = counts[cls]
    return given


@pytest.fixture(scope="module", params=itertools.product(SERIALIZERS, CONFIGURATIONS), ids="-".join)
def stored(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Stored:
    """Write every sample in every form, and read all of them at once and from a new handle."""
    serializer, settings = request.param
    configuration = CONFIGURATIONS[settings]
    result = Stored(tmp_path_factory.mktemp("matrix") / "a.memdb", settings)
    with (
        local_zone(WRITER_ZONE),
        memdb.open(result.path, serializer=serializer, **configuration) as db,
    ):
        for sample in SAMPLES:
            for form in FORMS:
                try:
                    collection_for(db, sample, form).insert(record_of(sample, form))
                except Exception as error:
                    result.refused[sample.name, form.name] = error
        identities = identities_of(set(result.refused))
        result.read["at once"] = read_all(db, identities)
        result.read["from the cache"] = read_all(db, identities)
        assert [] == db.check()
    with memdb.open(result.path, "r", **TRUST, **configuration) as db:
        result.read["reopened"] = read_all(db, identities)
        assert [] == db.check()
    return result


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_value_comes_back(stored: Stored, sample: Sample) -> None:
    """A value comes back equal in value and type, in every form, at once and after reopening.

    Where no annotation names its class it may be refused instead, with the path of the field.
    """
    for form in FORMS:
        error = stored.refused.get((sample.name, form.name))
        if error is not None and form.needs_no_name and names_a_class(sample.value):
            assert isinstance(error, memdb.EncodeError)
            assert "value" in error.field
            assert error.field in str(error)
            continue
        if error is not None:
            raise error
        identity = identities_of(set(stored.refused))[sample.name, form.name]
        for moment, found in stored.read.items():
            record = found[sample.name, form.name]
            if isinstance(record, Exception):
                raise record
            assert_exact(record, record_of(sample, form, identity), f"{form.name}, {moment}: ")


# -- whole records ---------------------------------------------------------------------------


@pytest.mark.parametrize("settings", CONFIGURATIONS)
@pytest.mark.parametrize("serializer", SERIALIZERS)
def test_records_of_every_kind(tmp_path: Path, serializer: str, settings: str) -> None:
    """A record of every kind of class comes back, at once, from the cache and after reopening."""
    configuration = CONFIGURATIONS[settings]
    path = tmp_path / "a.memdb"
    identities = {}
    with memdb.open(path, serializer=serializer, **configuration) as db:
        for name, record in kinds.RECORDS.items():
            collection = db.collection(type(record), name=name)
            identities[name] = collection.insert(record)
            for _ in range(2):
                assert_exact(collection[identities[name]], record, name)
            # Pickle may write an equal set in another order.
            was_written = collection.update(identities[name], copy.deepcopy)
            assert not was_written or serializer == "pickle"
        assert [] == db.check()
    with memdb.open(path, "r", **TRUST, **configuration) as db:
        for name, record in kinds.RECORDS.items():
            collection = db.collection(type(record), name=name)
            assert_exact(list(collection.items()), [(identities[name], record)], name)


# -- as natural keys -------------------------------------------------------------------------


@dataclass
class Keyed:
    """A record that is named by a value of any type."""

    value: Any
    number: int


KEYS = list({repr(leaf_key(sample.value)): sample for sample in SAMPLES}.values())


@dataclass
class StoredKeys:
    """A file whose records are named by all samples.

    Attributes:
        given: Sample and kind of record -> what its insert returned or raised.
        reads: Moment -> sample and kind of record -> the record read by the sample as key, None
            where there is none.
        all_keys: Moment -> kind of record -> the keys of all records.
    """

    given: dict[Place, Any] = field(default_factory=dict)
    reads: dict[str, dict[Place, Any]] = field(default_factory=dict)
    all_keys: dict[str, dict[str, list[Any]]] = field(default_factory=dict)

    def read(self, db: memdb.Database, moment: str) -> None:
        """Read by every key, twice: decoded, and from the cache."""
        for which in ("", ", again"):
            self.reads[moment + which] = {
                (sample.name, kind): collection.get(sample.value)
                for kind, collection in keyed_collections(db).items()
                for sample in KEYS
            }
        self.all_keys[moment] = {
            kind: collection.ids() for kind, collection in keyed_collections(db).items()
        }


def keyed_collections(db: memdb.Database) -> dict[str, memdb.Collection[Any]]:
    """Return the collections whose records are named by their values."""
    return {
        "dataclass": db.collection(Keyed, key="value"),
        "dict": db.collection("dicts", key="value"),
        "pair": db.collection("pairs", key=("number", "value")),
    }


def keyed_record(kind: str, value: Any, number: int) -> Any:
    """Return a record that a value names."""
    return Keyed(value, number) if kind == "dataclass" else {"value": value, "number": number}


@pytest.fixture(scope="module", params=itertools.product(SERIALIZERS, CONFIGURATIONS), ids="-".join)
def stored_keys(request: pytest.FixtureRequest, tmp_path_factory: Any) -> StoredKeys:
    """Use every sample as a key, and read by it at once and from a new handle."""
    serializer, settings = request.param
    configuration = CONFIGURATIONS[settings]
    result = StoredKeys()
    path = tmp_path_factory.mktemp("keys") / "a.memdb"
    with memdb.open(path, serializer=serializer, **configuration) as db:
        for kind, collection in keyed_collections(db).items():
            for number, sample in enumerate(KEYS):
                try:
                    given = collection.insert(keyed_record(kind, sample.value, number))
                except memdb.MemdbError as error:
                    given = error
                result.given[sample.name, kind] = given
        result.read(db, "at once")
        assert [] == db.check()
    with local_zone(READER_ZONE), memdb.open(path, "r", **TRUST, **configuration) as db:
        result.read(db, "reopened")
    return result


@pytest.mark.parametrize("number", range(len(KEYS)), ids=lambda number: KEYS[number].name)
def test_value_as_key(stored_keys: StoredKeys, number: int) -> None:
    """A value that can be a key finds its own record and no other; any else is refused."""
    sample = KEYS[number]
    for kind in ("dataclass", "dict"):
        given = stored_keys.given[sample.name, kind]
        if not can_be_key(sample.value):
            assert isinstance(given, memdb.IdentityError), given
            assert "value" in str(given)
            assert all(read[sample.name, kind] is None for read in stored_keys.reads.values())
            continue
        assert_exact(given, sample.value)
        for moment, read in stored_keys.reads.items():
            expected = keyed_record(kind, sample.value, number)
            assert_exact(read[sample.name, kind], expected, f"{kind}, {moment}: ")


@pytest.mark.parametrize("kind", ["dataclass", "dict", "pair"])
def test_keys_are_all_there(stored_keys: StoredKeys, kind: str) -> None:
    """No two values are one key, alone or as part of one: each record is there once."""
    wanted = [
        (number, sample.value) if kind == "pair" else sample.value
        for number, sample in enumerate(KEYS)
        if can_be_key(sample.value)
    ]
    for keys in stored_keys.all_keys.values():
        assert sorted(map(repr, map(leaf_key, wanted))) == sorted(
            map(repr, map(leaf_key, keys[kind]))
        )


# -- in another process ----------------------------------------------------------------------


def print_differences(path: str, settings: str, refused: str) -> None:
    """Print how a file differs from the samples; for a process with another time zone."""
    with (
        local_zone(READER_ZONE),
        memdb.open(path, "r", **TRUST, **CONFIGURATIONS[settings]) as db,
    ):
        identities = identities_of({(name, form) for name, form in json.loads(refused)})
        found = read_all(db, identities)
        for sample in SAMPLES:
            for form in FORMS:
                place = sample.name, form.name
                if place in identities:
                    expected = record_of(sample, form, identities[place])
                    difference = find_difference(found[place], expected, "record")
                    if difference is not None:
                        print(*place, ascii(difference))
        print(time.tzname, len(identities))


def test_another_process_in_another_time_zone(stored: Stored) -> None:
    """A process whose local time is another one reads the same."""
    refused = json.dumps(list(stored.refused))
    ended = run_script(ELSEWHERE, stored.path, stored.settings, refused)
    count = len(SAMPLES) * len(FORMS) - len(stored.refused)

    assert (0, "") == (ended.returncode, ended.stderr)
    assert f"('+1030', '+11') {count}\n" in ended.stdout.replace("LHST", "+1030").replace(
        "LHDT", "+11"
    )
    assert 1 == len(ended.stdout.splitlines()), ended.stdout
