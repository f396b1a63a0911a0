"""Files that earlier versions of memdb wrote, each opened from a copy."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

import memdb
from memdb._index_set import IndexSet
from memdb.indexes import ABSENT
from tests.support import golden_classes, reader
from tests.support.golden_classes import shown
from tests.support.make_golden import (
    DATA,
    Item,
    content_of,
    golden_files,
    item,
    readings_of,
    secret_of,
    settings_of,
)
from tests.support.payloads import TAGS, exact_plain, is_exact, key_of, tags_in

FILES = sorted(DATA.glob("*.memdb"))
SERIALIZERS = ("json", "msgpack", "binary")
WITH_INDEXES = ("v1-indexes", "v2-indexes")

#: The tags that there were when the golden files with values were made.
FIRST_TAGS = {
    *("int", "float", "str", "complex", "bytes", "bytearray", "date", "time", "datetime", "zone"),
    *("timedelta", "decimal", "fraction", "uuid", "path", "range", "list", "tuple", "set", "dict"),
    *("ip4", "ip6", "ip4 network", "ip6 network", "ip4 interface", "ip6 interface", "frozenset"),
    *("ordered dict", "counter", "deque", "record", "enum", "enum name", "array", "scalar"),
}


def expected_of(path: Path) -> dict[str, Any]:
    """Return what was in a golden file when it was made."""
    return json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))  # type: ignore[no-any-return]


@pytest.fixture(params=FILES, ids=lambda path: path.stem)
def golden(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of a golden file."""
    copy = tmp_path / request.param.name
    shutil.copy(request.param, copy)
    shutil.copy(request.param.with_suffix(".json"), copy.with_suffix(".json"))
    return copy


def test_every_kind_of_golden_file_is_there() -> None:
    """Each golden file that the script can make is in the repository, and small."""
    assert set(golden_files()) <= {path.stem for path in FILES}
    assert all(path.stat().st_size < 50_000 for path in FILES)


@pytest.mark.parametrize("mode", ["r", "append", "rw"])
def test_golden_file_gives_its_records(golden: Path, mode: str) -> None:
    """In every mode a file of an earlier version gives the records and histories it held."""
    expected = expected_of(golden)

    assert expected == content_of(golden, mode)


def test_golden_file_is_not_changed_by_reading(golden: Path) -> None:
    """Reading changes no byte of an old file, however it was left."""
    before = golden.read_bytes()
    content_of(golden, "r")

    assert before == golden.read_bytes()


def test_golden_file_is_whole(golden: Path) -> None:
    """check() finds nothing wrong in an old file."""
    with memdb.open(golden, **settings_of(golden)) as db:
        assert [] == db.check()


def test_golden_file_can_be_written(golden: Path) -> None:
    """An old file takes new records, whatever it was written with, and keeps the old ones."""
    expected = expected_of(golden)["records"]
    with memdb.open(golden, serializer="binary", **settings_of(golden)) as db:
        items, notes = db.collection(Item), db.collection("notes")
        new_item, new_note = items.insert(item(3)), notes.insert({"new": True})
    found = content_of(golden)["records"]

    assert new_item > max(map(int, expected.get("Item", {"0": ""})))
    assert repr({"new": True, "id": new_note}) == found["notes"].pop(str(new_note))
    assert found["Item"].pop(str(new_item)) == repr(item(3))[: -len("0)")] + f"{new_item})"
    assert {name: records for name, records in found.items() if records} == expected


@pytest.mark.parametrize("read", [reader.read_by_walking, reader.read_by_checkpoints])
def test_document_describes_the_golden_files(golden: Path, read: Any) -> None:
    """The reader that knows the document only finds the same identities, both ways it can read."""
    data = golden.read_bytes()
    expected = {name: sorted(records) for name, records in expected_of(golden)["records"].items()}
    contents = read(data, secret_of(golden))
    found = {name: sorted(_texts_of(contents, data, name)) for name in expected}

    assert expected == found
    assert expected.keys() == contents.live(data).keys()


def _texts_of(contents: reader.Contents, data: bytes, name: str) -> list[str]:
    """Return the identities or natural keys that the reader finds, as the expectation has them."""
    [entry] = [each for each in contents.catalogue["collections"] if each["name"] == name]
    if "key" not in entry:
        return [str(identity) for identity in contents.live(data)[name]]
    records = contents.records(data)[name].values()
    return [repr(key_of(entry["key"], record)) for record in records]


def test_document_describes_the_records(golden: Path) -> None:
    """The reader that knows the document only finds the records that memdb gives as dicts."""
    data = golden.read_bytes()
    found = reader.read_by_walking(data, secret_of(golden)).records(data)
    with memdb.open(golden, "r", **settings_of(golden)) as db:
        for name in db.collections():
            expected = sorted(map(shown, _without_tags(db.collection(name))))

            assert expected == sorted(map(shown, found[name].values()))


def _without_tags(records: Iterable[dict[str, Any]]) -> Iterable[dict[str, Any]]:
    for record in records:
        record.pop("__class__", None)
        yield record


def payloads_of(name: str) -> Iterator[tuple[dict[str, Any], bytes]]:
    """Yield every payload of a golden file, with the schema of its writer."""
    data = (DATA / f"{name}.memdb").read_bytes()
    contents = reader.read_by_walking(data)
    schemas = {entry["id"]: entry["schema"] for entry in contents.catalogue["writers"]}
    for pointer in contents.versions:
        if pointer.writer:
            yield schemas[pointer.writer], reader.payload_of(data, pointer)


@pytest.mark.parametrize("serializer", SERIALIZERS)
def test_golden_files_have_both_forms_of_payloads(serializer: str) -> None:
    """Each serializer has payloads of the native and of the exact form, in every version."""
    evolved = {
        (schema["serializer"], schema.get("version", 1), is_exact(schema, payload))
        for schema, payload in payloads_of(f"v1-evolved-{serializer}")
    }
    values = {
        (schema["serializer"], schema["class"], is_exact(schema, payload))
        for schema, payload in payloads_of(f"v1-values-{serializer}")
    }

    assert set(itertools.product([serializer], [1, 2, 3], [False, True])) == evolved
    assert {
        *itertools.product([serializer], ["Natives", "Model", "dict"], [False, True]),
        (serializer, "Mixture", True),
    } == values


@pytest.mark.parametrize("serializer", SERIALIZERS)
def test_golden_files_have_every_tag(serializer: str) -> None:
    """Each tag that was written when the files were made is in them, and known today."""
    found: set[str] = set()
    for schema, payload in payloads_of(f"v1-values-{serializer}"):
        if is_exact(schema, payload):
            plain = exact_plain(serializer, payload)
            assert plain is not None
            found |= set(tags_in(plain[0]))

    assert found == FIRST_TAGS
    assert FIRST_TAGS <= TAGS


def test_golden_file_with_keys_has_every_type() -> None:
    """Keys of all types are in the golden file, and are found under them."""
    with memdb.open(DATA / "v1-keys.memdb", "r") as db:
        everything = db.collection("everything", key="k")
        found = [everything[key]["number"] for key in golden_classes.KEYS if type(key) is not int]

    types = {"NoneType", "bool", "int", "str", "bytes", "date", "datetime", "UUID", "tuple"}

    assert types == {type(key).__name__ for key in golden_classes.KEYS}
    assert found == [
        -1 if key is True else number
        for number, key in enumerate(golden_classes.KEYS)
        if type(key) is not int
    ]


@pytest.mark.parametrize("name", WITH_INDEXES)
def test_document_describes_the_saved_indexes(name: str) -> None:
    """The reader that knows the document only finds the keys that the records had at the slot."""
    path = DATA / f"{name}.memdb"
    data = path.read_bytes()
    contents = reader.read_by_walking(data, secret_of(path))
    entries = contents.catalogue["indexes"]
    slots = {(each["collection"], each["name"]): each["slot"] for each in entries}
    found = contents.indexes(data)
    for number, name in enumerate(found, 1):
        for index, pairs in found[name].items():
            slot = slots[number, index]
            before = replace(contents, versions=contents.versions[: slot - 1])
            field = index.removesuffix(" column")
            values = {
                identity: record.get(field, reader.ABSENT)
                for identity, record in before.records(data)[name].items()
            }

            assert repr(dict(sorted(pairs))) == repr(dict(sorted(values.items())))
            assert slot <= len(contents.versions)
            if " column" in index:
                assert pairs == sorted(pairs, key=itemgetter(0))
            else:
                assert repr(pairs) == repr(sorted(pairs, key=in_order))
    assert {name: len(indexes) for name, indexes in found.items()} == {"Reading": 12, "loose": 2}


def in_order(pair: tuple[int, Any]) -> Any:
    """Return what pairs of number and key are sorted by, as the document says."""
    number, key = pair
    if key is None or key == reader.ABSENT:
        return key is None, number
    return (2, 0, number) if key != key else (1.5, key, number)


def test_saved_indexes_are_used(monkeypatch: pytest.MonkeyPatch, golden_indexes: Path) -> None:
    """What an earlier version saved of each index is taken, not built, and is as the records."""
    settings = settings_of(golden_indexes)
    with monkeypatch.context() as patch, memdb.open(golden_indexes, "r", **settings) as db:
        patch.setattr(IndexSet, "_build", None)
        for collection in readings_of(db):
            records = list(collection)
            for name in collection.indexes:
                entries = collection._store.indexes.catch_up([name]).entries[name]
                field = name.removesuffix(" column")
                values = [
                    record.get(field, ABSENT)
                    if isinstance(record, dict)
                    else getattr(record, field)
                    for record in records
                ]
                expected = dict(zip(collection.ids(), values, strict=True))
                assert repr(expected) == repr(dict(sorted((n, key) for key, n in entries.items())))
    with memdb.open(golden_indexes, "r", **settings) as db:
        readings_of(db)
        assert db.check() == []


@pytest.fixture(params=WITH_INDEXES)
def golden_indexes(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of a golden file with saved indexes."""
    copy = tmp_path / f"{request.param}.memdb"
    shutil.copy(DATA / copy.name, copy)
    return copy


def test_both_ways_of_reading_agree(golden: Path) -> None:
    """Walking all blocks and following the checkpoints give the same versions in order."""
    data = golden.read_bytes()
    secret = secret_of(golden)
    walked = reader.read_by_walking(data, secret)
    followed = reader.read_by_checkpoints(data, secret)

    assert walked.versions == followed.versions
    assert (walked.end, walked.catalogue) == (followed.end, followed.catalogue)


def test_large_commit_is_referred_to() -> None:
    """The golden file with large commits has a checkpoint that refers to them."""
    contents = reader.read_by_walking((DATA / "v1-large.memdb").read_bytes())
    [checkpoint] = [block for block in contents.blocks if block.kind == "P"]

    assert len(checkpoint.pointers) < 20 < len(contents.versions)


def test_torn_file_is_torn() -> None:
    """The golden file of a killed writer has a half commit behind its end."""
    data = (DATA / "v1-torn.memdb").read_bytes()
    contents = reader.read_by_walking(data)

    assert any(data[contents.end :])
    assert contents.root.flags == 0
    assert contents.root.log_end < contents.end
