"""The numbers of docs/format.md are those of the code, and the code has no others."""

from __future__ import annotations

import re
from struct import Struct

import pytest

from memdb.storage import _constants as constants
from memdb.storage._constants import POINTER_DTYPE, Kind
from tests.support.markdown import ROOT

DOCUMENT = (ROOT / "docs" / "format.md").read_text(encoding="utf-8")

_ROW = re.compile(r"^\| (?P<offset>\d*) *\| (?P<size>[\d SRC]+) \| (?P<name>[\w ]+?) \| .* \|$")


def table(title: str) -> list[tuple[int, int, str]]:
    """Return offset, bytes and field of the first table under a heading."""
    rows = []
    _, _, section = DOCUMENT.partition(f"\n{title}\n")
    assert section, title
    for line in section.splitlines():
        found = _ROW.match(line)
        if found is not None and found["offset"] and found["size"].isdigit():
            rows.append((int(found["offset"]), int(found["size"]), found["name"]))
        elif rows and not line.startswith("|"):
            break
    return rows


def fields(form: Struct) -> list[tuple[int, int]]:
    """Return offset and bytes of each field of a struct."""
    parts = re.findall(r"\d*[a-zA-Z]", form.format.lstrip("<"))
    sizes = []
    for part in parts:
        count, letter = part[:-1], part[-1]
        sizes += (
            [Struct("<" + part).size]
            if letter == "s"
            else [Struct("<" + letter).size] * int(count or 1)
        )
    return [(sum(sizes[:index]), size) for index, size in enumerate(sizes)]


@pytest.mark.parametrize(
    ("title", "form"),
    [
        ("## Roots", constants.ROOT),
        ("## Blocks", constants.BLOCK),
        ("### Pointers", constants.POINTER),
        ("### Key slots", constants.KEY_SLOT),
    ],
)
def test_tables_are_the_structs(title: str, form: Struct) -> None:
    """Each field of a table lies where the struct has it, and none is missing."""
    assert fields(form) == [row[:2] for row in table(title)]


def test_header_page() -> None:
    """The header page is the struct and the holder note, where the document says."""
    expected = [*fields(constants.HEADER), (constants.HOLDER_OFFSET, constants.HOLDER_BYTES)]

    assert expected == [row[:2] for row in table("## Header page")]
    assert constants.HEADER_CHECKSUM_OFFSET == table("## Header page")[-2][0]


def test_pointers_have_the_names_of_the_document() -> None:
    """The pointer map's columns are the document's fields, in place and name."""
    described = POINTER_DTYPE.fields
    assert described is not None
    found = [(described[name][1], described[name][0].itemsize, name) for name in described]

    assert found == table("### Pointers")


def test_checkpoint_table() -> None:
    """The head of a checkpoint's payload is the struct; the tables that follow are pairs of 16."""
    assert fields(constants.CHECKPOINT) == [row[:2] for row in table("### Checkpoint (`P`)")]
    assert f"| {constants.CHECKPOINT.size} | {constants.PAIR_DTYPE.itemsize} S |" in DOCUMENT


def test_magics_and_places() -> None:
    """Magics, version, page size, places and kinds are the ones that the document names."""
    magic = " ".join(f"{byte:02X}" for byte in constants.MAGIC)
    letters = {constants.COMMIT_MAGIC: "C", constants.CHECKPOINT_MAGIC: "P"}
    letters |= {constants.CATALOGUE_MAGIC: "K", constants.INDEX_MAGIC: "I"}

    assert f"`{magic}`" in DOCUMENT
    versions = (constants.FORMAT_VERSION, constants.ENCRYPTED_FORMAT_VERSION)
    assert "| format version | {}; {} for an encrypted file |".format(*versions) in DOCUMENT
    assert f"| page size | {constants.PAGE_BYTES} |" in DOCUMENT
    assert "`4D 44 42 52` (`MDBR`)" in DOCUMENT and constants.ROOT_MAGIC == b"MDBR"
    assert f"The first block starts at {constants.LOG_START}" in DOCUMENT
    assert f"rounded up to a multiple of {constants.ALIGNMENT}" in DOCUMENT
    assert "starts at 4096 (A) and at 8192 (B)" in DOCUMENT
    assert (4096, 8192) == constants.ROOT_OFFSETS
    for whole, letter in letters.items():
        assert whole == b"MDB" + letter.encode() and f"(`{letter}`)" in DOCUMENT
    kinds = ", ".join(f"{kind.value} {kind.name.lower()}" for kind in Kind)
    assert f"| kind | {kinds} |" in DOCUMENT


def test_dtypes_of_saved_indexes() -> None:
    """The arrays of a saved index are of the types that the document names, and of no others."""
    _, _, section = DOCUMENT.partition("\n### Index (`I`)\n")
    row = next(line for line in section.splitlines() if line.startswith("| `layout` |"))

    assert tuple(re.findall(r"[<|][a-z]\d", row)) == constants.INDEX_DTYPES


def test_the_title_names_the_version() -> None:
    """The document is about the versions that the code writes, and lists them."""
    versions = (constants.FORMAT_VERSION, constants.ENCRYPTED_FORMAT_VERSION)
    assert DOCUMENT.startswith("# The file format, version {} and {}\n".format(*versions))
    for version in versions:
        assert re.search(rf"^\| {version} \| ", DOCUMENT, re.MULTILINE)


def test_encryption() -> None:
    """Places, sizes, domains and infos of what is encrypted are the ones of the document."""
    _, _, section = DOCUMENT.partition("\n## Encryption\n")
    first, second = constants.KEY_SLOT_OFFSETS

    assert f"lies at `{first} + {second - first} * (g % 2)`" in section
    assert f"bytes 8 to {constants.KEY_SLOT.size - 1} |" in section
    assert "`4D 44 42 53` (`MDBS`)" in section and constants.KEY_SLOT_MAGIC == b"MDBS"
    kinds = f"{constants.KDF_NONE}: the user has a key of {constants.KEY_BYTES} bytes;"
    assert f"{kinds} {constants.KDF_SCRYPT}: a password" in section
    assert f"nonces of {constants.NONCE_BYTES} bytes and tags of {constants.TAG_BYTES}" in section
    assert f"| {constants.SESSION_BYTES} | the name of the session" in section
    infos = (constants.SUBKEY_INFO, constants.KEY_HASH_INFO, constants.WRAPPING_INFO)
    for info in (*infos, constants.KEY_CHECK_INFO):
        assert f"the info `{info.decode()}`" in section
    for magic in (constants.COMMIT_MAGIC, constants.CATALOGUE_MAGIC, constants.INDEX_MAGIC):
        assert f"(`{magic.decode()}`)" in section
    assert (constants.KEY_SLOT_MARKED, constants.POINTER_SEALED) == (1, 2)
