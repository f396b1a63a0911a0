"""The worked example of docs/format.md, read with a reader that knows the document only."""

from __future__ import annotations

import ast
import json
import re
import sys
from pathlib import Path

import pytest

import memdb
from tests.support import reader
from tests.support.make_golden import BEGIN, DOCUMENT, END, Town, worked_example
from tests.support.markdown import ROOT

RECORDS = {
    1: {"name": "Bath", "people": 94782},
    3: {"name": "Wells", "people": 11145},
}


def example() -> bytes:
    """Return the file that the document shows."""
    text = DOCUMENT.read_text(encoding="utf-8")
    _, _, section = text.partition(BEGIN)
    section, found, _ = section.partition(END)
    assert found, "the document has no worked example"
    size = re.search(r"A file of (\d+) bytes", section)
    assert size is not None
    data = bytearray(int(size[1]))
    for at, row in re.findall(r"^([0-9a-f]{8})  ((?:[0-9a-f]{2} ?)+)", section, re.MULTILINE):
        part = bytes.fromhex(row)
        data[int(at, 16) : int(at, 16) + len(part)] = part
    return bytes(data)


def decoded(data: bytes, contents: reader.Contents) -> dict[int, object]:
    """Return the live records of the example's collection."""
    return {
        identity: json.loads(payload) for identity, payload in contents.live(data)["Town"].items()
    }


@pytest.mark.parametrize("read", [reader.read_by_walking, reader.read_by_checkpoints])
def test_the_example_is_what_the_document_says(read: object) -> None:
    """Read both ways that the document describes, the bytes give the expected records."""
    data = example()
    contents = read(data)  # type: ignore[operator]

    assert RECORDS == decoded(data, contents)
    assert [(1, 1), (2, 1), (3, 1), (2, 3)] == [
        (pointer.identity, pointer.kind) for pointer in contents.versions
    ]
    assert contents.root.log_end == contents.end == len(data)
    assert contents.root.flags == 1
    assert contents.root.boot_id == b"an example boot."


def test_the_example_has_one_block_of_each_kind() -> None:
    """Catalogue, commits of one and of two, a deletion and a checkpoint are shown."""
    contents = reader.read_by_walking(example())

    assert "KCCCP" == "".join(block.kind for block in contents.blocks)
    assert [0, 1, 2, 1, 4] == [len(block.pointers) for block in contents.blocks]
    assert {1: 3} == reader.read_by_checkpoints(example()).last_identities


def test_memdb_opens_the_example(tmp_path: Path) -> None:
    """The bytes of the document open as a database, which finds nothing wrong."""
    path = tmp_path / "example.memdb"
    path.write_bytes(example())
    with memdb.open(path) as db:
        found = {town.id: town for town in db.collection(Town)}
        recovery, findings = db.recovery, db.check()

    assert {1: Town("Bath", 94782, 1), 3: Town("Wells", 11145, 3)} == found
    assert (None, []) == (recovery, findings)


def test_memdb_still_writes_the_example(tmp_path: Path) -> None:
    """What memdb writes today for the same calls has the same blocks, pointers and payloads."""
    now, shown = worked_example(tmp_path), example()
    contents, expected = reader.read_by_walking(now), reader.read_by_walking(shown)

    assert expected.versions == contents.versions
    assert expected.catalogue == contents.catalogue
    assert [(block.kind, block.offset, block.sequence, block.end) for block in expected.blocks] == [
        (block.kind, block.offset, block.sequence, block.end) for block in contents.blocks
    ]
    assert RECORDS == decoded(now, contents)


def test_the_reader_knows_nothing_of_memdb() -> None:
    """The reader imports the standard library and libraries for bytes and ciphers only."""
    imported = set()
    for name in ("reader.py", "payloads.py", "sealed.py"):
        tree = ast.parse((ROOT / "tests" / "support" / name).read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add(node.module or "")
    others = {name for name in imported if name.partition(".")[0] not in sys.stdlib_module_names}
    libraries = {name.partition(".")[0] for name in others if not name.startswith("tests.")}

    assert {"cryptography", "msgspec", "numpy", "xxhash"} == libraries
    assert {"tests.support.payloads", "tests.support.sealed"} == others & {
        name for name in others if name.startswith("tests.")
    }
