"""A reader of the file format, written from docs/format.md alone: nothing of memdb is used."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any

import xxhash

from tests.support.payloads import decode_payload, key_numbers, key_of, plain_dicts
from tests.support.sealed import Opener

HEADER_MAGIC = b"\x93MEMDB\r\n"
LOG_START = 12288


#: What a saved index has for a record without the field.
ABSENT = "no such field"

#: What the format codes of `struct` are for the dtypes of the document.
CODES = {"<i8": "q", "<u8": "Q", "<f8": "d", "<u4": "I", "|u1": "B"}

#: Meaning -> dtype and the value of an item.
ITEMS: dict[str, tuple[str, Any]] = {
    "bool": ("|u1", lambda item: [False, True][item]),
    "int": ("<i8", int),
    "float": ("<f8", float),
    "date": ("<u4", date.fromordinal),
    "datetime": ("<i8", lambda item: datetime(1970, 1, 1) + timedelta(microseconds=item)),
    "moment": (
        "<i8",
        lambda item: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=item),
    ),
}


class Invalid(Exception):
    """The bytes are not what the document describes."""


@dataclass
class Pointer:
    """One version of one record."""

    identity: int
    offset: int
    length: int
    checksum: int
    collection: int
    writer: int
    kind: int
    flags: int
    reserved: int
    slot: int = 0


@dataclass
class Block:
    """A whole block."""

    offset: int
    kind: str
    sequence: int
    timestamp: int
    pointers: list[Pointer]
    payload: bytes
    end: int


@dataclass
class Root:
    """A valid root."""

    offset: int
    flags: int
    generation: int
    log_end: int
    checkpoint: int
    catalogue: int
    sequence: int
    timestamp: int
    boot_id: bytes


@dataclass
class Contents:
    """What a file holds.

    Attributes:
        versions: Slot - 1 -> pointer.
        end: Where the walk ended.
    """

    file_id: int
    root: Root
    blocks: list[Block]
    versions: list[Pointer]
    catalogue: dict[str, Any]
    end: int
    last_identities: dict[int, int] = field(default_factory=dict)
    opener: Opener | None = None

    def add(self, pointers: Iterable[Pointer]) -> None:
        """Take further versions."""
        for pointer in pointers:
            pointer.slot = len(self.versions) + 1
            self.versions.append(pointer)

    def payload_of(self, data: bytes, pointer: Pointer) -> bytes:
        """Return the record's bytes of a version, as they were before they were encrypted."""
        stored = payload_of(data, pointer)
        if self.opener is None or not pointer.length:
            return stored
        if not pointer.flags & 2:
            if not self.opener.may_be_plain:
                raise Invalid(f"record {pointer.identity} is plain")
            return stored
        ends = struct.pack("<HHBBH", pointer.collection, pointer.writer, pointer.kind,
                           pointer.flags, pointer.reserved)  # fmt: skip
        authenticated = struct.pack("<q", pointer.identity) + ends
        return self.opener.open(b"MDBC", pointer.slot, authenticated, stored)

    def take_catalogue(self, block: Block) -> None:
        """Take the catalogue of a block in the place of the one before."""
        self.catalogue = json.loads(_body_of(block, self.opener))

    def live(self, data: bytes) -> dict[str, dict[int, bytes]]:
        """Return collection name -> identity -> the bytes of the record as it is now."""
        names = {entry["id"]: entry["name"] for entry in self.catalogue.get("collections", [])}
        records: dict[str, dict[int, bytes]] = {name: {} for name in names.values()}
        for pointer in self.versions:
            of = records[names[pointer.collection]]
            if pointer.kind == 3:
                del of[pointer.identity]
            else:
                of[pointer.identity] = self.payload_of(data, pointer)
        return records

    def records(self, data: bytes) -> dict[str, dict[int, dict[str, Any]]]:
        """Return collection name -> identity -> the record as it is now; check natural keys."""
        entries = {entry["id"]: entry for entry in self.catalogue.get("collections", [])}
        schemas = {entry["id"]: entry["schema"] for entry in self.catalogue.get("writers", [])}
        found: dict[str, dict[int, dict[str, Any]]] = {
            entry["name"]: {} for entry in entries.values()
        }
        last = {(pointer.collection, pointer.identity): pointer for pointer in self.versions}
        for (collection, identity), pointer in last.items():
            if pointer.kind == 3:
                continue
            entry, payload = entries[collection], self.payload_of(data, pointer)
            given = None if "key" in entry else identity
            record = plain_dicts(decode_payload(schemas[pointer.writer], payload, given))
            if "key" in entry:
                digest = xxhash.xxh3_64_intdigest
                if self.opener is not None:
                    digest = self.opener.key_digest
                if entry["key"]["hash"] != ("xxh3" if self.opener is None else "blake2b"):
                    raise Invalid(f"hash {entry['key']['hash']}")
                key = key_of(entry["key"], record)
                numbers = key_numbers(key, entry["key"]["seed"], digest)
                if identity not in numbers[: 16 if entry["key"].get("displaced") else 1]:
                    raise Invalid(f"number of the key of {record}")
            found[entry["name"]][identity] = record
        return found

    def indexes(self, data: bytes) -> dict[str, dict[str, list[tuple[int, Any]]]]:
        """Return collection -> saved index -> numbers and their keys, in the order of the file."""
        names = {entry["id"]: entry["name"] for entry in self.catalogue.get("collections", [])}
        found: dict[str, dict[str, list[tuple[int, Any]]]] = {name: {} for name in names.values()}
        for entry in self.catalogue.get("indexes", []):
            arrays = _arrays_of(data, entry, self.file_id, self.opener)
            pairs = _column_of if entry["meta"]["declaration"]["kind"] == "column" else _sorted_of
            found[names[entry["collection"]]][entry["name"]] = pairs(entry["meta"], arrays)
        return found


def _body_of(block: Block, opener: Opener | None) -> bytes:
    """Return the payload of a catalogue or index without its checksum, in clear."""
    if opener is None:
        return block.payload[8:]
    return opener.open(b"MDB" + block.kind.encode(), block.sequence, b"", block.payload[8:])


def _arrays_of(
    data: bytes, entry: dict[str, Any], file_id: int, opener: Opener | None
) -> dict[str, Any]:
    """Return the arrays of a saved index, name -> dtype and items."""
    block = read_block(data, entry["offset"], file_id)
    if block is None or block.kind != "I" or block.pointers:
        raise Invalid(f"index block at {entry['offset']}")
    arrays: dict[str, Any] = {}
    body, at = _body_of(block, opener), 0
    for name, dtype, count in entry["layout"]:
        code = f"<{count}{CODES[dtype]}"
        arrays[name] = dtype, struct.unpack_from(code, body, at)
        end = at + struct.calcsize(code)
        at = (end + 7) // 8 * 8
        if any(body[end:at]):
            raise Invalid(f"padding of the index block at {entry['offset']}")
    if at != len(body):
        raise Invalid(f"length of the index block at {entry['offset']}")
    return arrays


def _values_of(meaning: str, array: tuple[str, Any]) -> list[Any]:
    dtype, value_of = ITEMS[meaning]
    if array[0] != dtype:
        raise Invalid(f"{array[0]} for {meaning}")
    return [value_of(item) for item in array[1]]


def _sorted_of(meta: dict[str, Any], arrays: dict[str, Any]) -> list[tuple[int, Any]]:
    keys = _values_of(meta["keys_are"], arrays["keys"])
    all_keys = [ABSENT] * meta["absent"] + [None] * meta["none"] + keys
    return list(zip(arrays["numbers"][1], all_keys, strict=True))


def _column_of(meta: dict[str, Any], arrays: dict[str, Any]) -> list[tuple[int, Any]]:
    states = arrays["states"][1]
    if arrays["states"][0] != "|u1" or not set(states) <= {1, 2, 3}:
        raise Invalid(f"states {set(states)}")
    items = arrays["values"][1]
    values = [
        ABSENT if state == 1 else None if state == 2 else ITEMS[meta["values_are"]][1](item)
        for state, item in zip(states, items, strict=True)
    ]
    if arrays["values"][0] != ITEMS[meta["values_are"]][0]:
        raise Invalid("dtype of values")
    return list(zip(arrays["numbers"][1], values, strict=True))


def payload_of(data: bytes, pointer: Pointer) -> bytes:
    """Return the record's bytes of a version, checked."""
    payload = data[pointer.offset : pointer.offset + pointer.length]
    if pointer.length and xxhash.xxh32_intdigest(payload, 0) != pointer.checksum:
        raise Invalid(f"record {pointer.identity} at {pointer.offset}")
    return payload


def read_header(data: bytes) -> int:
    """Check the header page; return the file id."""
    magic, version, page, file_id, _created = struct.unpack_from("<8sIIQQ", data, 0)
    if magic != HEADER_MAGIC or version not in (1, 2) or page != 4096 or any(data[32:56]):
        raise Invalid("header page")
    if data[56:64] != xxhash.xxh3_64_digest(data[:56], 0) or not file_id:
        raise Invalid("header checksum")
    return int(file_id)


def read_roots(data: bytes, file_id: int) -> list[Root]:
    """Return the valid roots, the one that counts last."""
    roots = []
    for offset in (4096, 8192):
        page = data[offset : offset + 128]
        checksum, magic, flags, *numbers = struct.unpack_from("<8s4sIQQQQQQ", page)
        is_valid = checksum == xxhash.xxh3_64_digest(page[8:], file_id)
        if magic == b"MDBR" and is_valid:
            if offset != 4096 + 4096 * (numbers[0] % 2) or any(page[80:]):
                raise Invalid(f"root at {offset}")
            roots.append(Root(offset, flags, *numbers, boot_id=page[64:80]))
    if not roots:
        raise Invalid("no root")
    return sorted(roots, key=lambda root: root.generation)


def read_block(data: bytes, offset: int, file_id: int) -> Block | None:
    """Return the block at an offset, None if it is not valid."""
    if offset + 40 > len(data):
        return None
    checksum = data[offset : offset + 8]
    magic, count, sequence, timestamp, size = struct.unpack_from("<4sIQQQ", data, offset + 8)
    start = offset + 40 + 32 * count
    if magic not in (b"MDBC", b"MDBP", b"MDBK", b"MDBI") or start + size > len(data):
        return None
    if checksum != xxhash.xxh3_64_digest(data[offset + 8 : start], file_id):
        return None
    pointers = [
        Pointer(*struct.unpack_from("<qQIIHHBBH", data, offset + 40 + 32 * index))
        for index in range(count)
    ]
    payload = data[start : start + size]
    if magic == b"MDBC":
        try:
            for pointer in pointers:
                payload_of(data, pointer)
        except Invalid:
            return None
    elif payload[:8] != xxhash.xxh3_64_digest(payload[8:], file_id):
        return None
    end = (start + size + 7) // 8 * 8
    return Block(offset, chr(magic[3]), sequence, timestamp, pointers, payload, end)


def is_encrypted(data: bytes) -> bool:
    """Whether the header is one of an encrypted file."""
    return bool(data[8:12] == b"\2\0\0\0")


def _opener(data: bytes, secret: bytes | str | None) -> Opener | None:
    if is_encrypted(data) != (secret is not None):
        raise Invalid("a key for a plain file, or none for an encrypted one")
    return None if secret is None else Opener(data, secret)


def read_by_walking(data: bytes, secret: bytes | str | None = None) -> Contents:
    """Read every block from the first one on, asking no checkpoint; check what *must* be."""
    file_id = read_header(data)
    contents = Contents(file_id, read_roots(data, file_id)[-1], [], [], {}, LOG_START)
    contents.opener = _opener(data, secret)
    sequence = timestamp = 0
    while block := read_block(data, contents.end, file_id):
        if block.sequence != sequence + 1:
            break
        if block.timestamp < timestamp:
            raise Invalid(f"timestamp at {block.offset}")
        sequence, timestamp, contents.end = block.sequence, block.timestamp, block.end
        contents.blocks.append(block)
        if block.kind == "C":
            _check_commit(block, contents.catalogue, is_encrypted=secret is not None)
            contents.add(block.pointers)
        elif block.kind == "K":
            if block.pointers:
                raise Invalid(f"catalogue at {block.offset}")
            contents.take_catalogue(block)
    return contents


def _check_commit(block: Block, catalogue: dict[str, Any], *, is_encrypted: bool) -> None:
    collections = {entry["id"] for entry in catalogue["collections"]}
    writers = {entry["id"]: entry["collection"] for entry in catalogue["writers"]}
    at = block.offset + 40 + 32 * len(block.pointers)
    seen = set()
    for index, pointer in enumerate(block.pointers):
        is_deleted = pointer.kind == 3
        nothing = (pointer.offset, pointer.length, pointer.checksum, pointer.writer)
        is_last = index == len(block.pointers) - 1
        facts = (
            pointer.kind in (1, 2, 3),
            pointer.collection in collections,
            nothing == (0, 0, 0, 0) if is_deleted else pointer.offset == at,
            is_deleted or writers.get(pointer.writer) == pointer.collection,
            pointer.flags & ~(2 if is_encrypted and not is_deleted else 0) == int(is_last),
            pointer.reserved == 0,
            (pointer.collection, pointer.identity) not in seen,
        )
        if not all(facts):
            raise Invalid(f"pointer {index} of the commit at {block.offset}: {facts}")
        seen.add((pointer.collection, pointer.identity))
        at += pointer.length
    if not block.pointers or at != block.end - (-at % 8):
        raise Invalid(f"payload of the commit at {block.offset}")


def read_by_checkpoints(data: bytes, secret: bytes | str | None = None) -> Contents:
    """Read as opening does: the root, the chain of checkpoints, the blocks behind the last."""
    file_id = read_header(data)
    root = read_roots(data, file_id)[-1]
    if len(data) < root.log_end:
        raise Invalid("cut")
    contents = Contents(file_id, root, [], [], {}, LOG_START)
    contents.opener = _opener(data, secret)
    chain: list[Block] = []
    offset = root.checkpoint
    while offset:
        block = read_block(data, offset, file_id)
        if block is None or block.kind != "P":
            raise Invalid(f"checkpoint at {offset}")
        chain.append(block)
        (offset,) = struct.unpack_from("<Q", block.payload, 8)
    sequence = 0
    for block in reversed(chain):
        _take_checkpoint(data, contents, block)
        contents.end, sequence = block.end, block.sequence
    if root.catalogue:
        block = read_block(data, root.catalogue, file_id)
        if block is None or block.kind != "K":
            raise Invalid(f"catalogue at {root.catalogue}")
        contents.take_catalogue(block)
    while (block := read_block(data, contents.end, file_id)) and block.sequence == sequence + 1:
        contents.end, sequence = block.end, block.sequence
        if block.kind == "C":
            contents.add(block.pointers)
        elif block.kind == "K":
            contents.take_catalogue(block)
    if contents.end < root.log_end:
        raise Invalid(f"damage at {contents.end}")
    return contents


def _take_checkpoint(data: bytes, contents: Contents, block: Block) -> None:
    _, _, first_slot, segments, runs, collections = struct.unpack_from("<6Q", block.payload)
    if first_slot != len(contents.versions) + 1:
        raise Invalid(f"first slot of the checkpoint at {block.offset}")
    pairs = list(struct.iter_unpack("<QQ", block.payload[48:]))
    if len(pairs) != segments + runs + collections:
        raise Invalid(f"tables of the checkpoint at {block.offset}")
    own = iter(block.pointers)
    for offset, count in pairs[:segments]:
        if offset:
            commit = read_block(data, offset, contents.file_id)
            if commit is None or commit.kind != "C" or len(commit.pointers) != count:
                raise Invalid(f"segment of the checkpoint at {block.offset}")
            contents.add(commit.pointers)
        else:
            contents.add(next(own) for _ in range(count))
    if list(own):
        raise Invalid(f"pointers of the checkpoint at {block.offset}")
    contents.last_identities = dict(pairs[segments + runs :])
