"""Files that earlier versions of memdb wrote, each opened from a copy."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import memdb
from tests.support import reader
from tests.support.make_golden import DATA, Item, content_of, golden_files, item

FILES = sorted(DATA.glob("*.memdb"))


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
    with memdb.open(golden) as db:
        assert [] == db.check()


def test_golden_file_can_be_written(golden: Path) -> None:
    """An old file takes new records, whatever it was written with, and keeps the old ones."""
    expected = expected_of(golden)["records"]
    with memdb.open(golden, serializer="binary") as db:
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
    contents = read(data)
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
    found = reader.read_by_walking(data).records(data)
    with memdb.open(golden, "r") as db:
        for name in db.collections():
            expected = sorted(map(shown, _without_tags(db.collection(name))))

            assert expected == sorted(map(shown, found[name].values()))


def _without_tags(records: Iterable[dict[str, Any]]) -> Iterable[dict[str, Any]]:
    for record in records:
        record.pop("__class__", None)
        yield record


@pytest.mark.parametrize("serializer", ["json", "msgpack", "binary"])
@pytest.mark.parametrize("family", ["evolved", "values"])
def test_both_forms_of_payloads_are_there(family: str, serializer: str) -> None:
    """Each serializer has golden files with payloads of the native and of the exact form."""
    data = (DATA / f"v1-{family}-{serializer}.memdb").read_bytes()
    contents = reader.read_by_walking(data)
    schemas = {entry["id"]: entry["schema"] for entry in contents.catalogue["writers"]}
    forms = {
        (pointer.writer, is_exact(schemas[pointer.writer], reader.payload_of(data, pointer)))
        for pointer in contents.versions
        if pointer.writer
    }

    assert {serializer} == {schema["serializer"] for schema in schemas.values()}
    for writer, schema in schemas.items():
        both = {(writer, False), (writer, True)}
        assert both <= forms or schema["class"] == "Mixture" or "nickname" in str(schema)


@pytest.mark.parametrize("serializer", ["json", "msgpack", "binary"])
def test_every_tag_is_in_a_golden_file(serializer: str) -> None:
    """The golden files with values hold each tag that the document has."""
    data = (DATA / f"v1-values-{serializer}.memdb").read_bytes()
    contents = reader.read_by_walking(data)
    found: set[str] = set()
    for pointer in contents.versions:
        payload = reader.payload_of(data, pointer)
        plain = exact_plain(serializer, payload)
        if plain is not None:
            found |= set(tags_in(plain[0]))

    assert documented_tags() == found


def test_both_ways_of_reading_agree(golden: Path) -> None:
    """Walking all blocks and following the checkpoints give the same versions in order."""
    data = golden.read_bytes()
    walked, followed = reader.read_by_walking(data), reader.read_by_checkpoints(data)

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
