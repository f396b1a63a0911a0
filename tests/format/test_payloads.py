"""What docs/format.md says of records' bytes and natural keys, held to what memdb writes."""

from __future__ import annotations

import ast
import dataclasses
import enum
import inspect
import json
import re
from collections import Counter, OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from ipaddress import ip_interface, ip_network
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
import pydantic
import pytest

import memdb
from memdb.indexes import encode_key, numbers_of
from memdb.serializers import _exact, get_serializer, shape_of, writer_schema
from memdb.serializers._exact import _SIMPLE_FROM
from memdb.serializers._generate import GeneratedSerializer
from tests.support import (
    evolving,
    golden_classes,
    kinds,
    payloads,
    reader,
    records,
    samples,
    values,
)
from tests.support.exact import assert_exact
from tests.support.markdown import ROOT
from tests.support.payloads import TAGS, decode_payload, key_numbers, plain_dicts, tags_in

DOCUMENT = (ROOT / "docs" / "format.md").read_text(encoding="utf-8")
SERIALIZERS = ("json", "msgpack", "binary")
TIERS = ("as written", "exact")


@dataclass
class Anything:
    """Its values are not what an annotation tells."""

    value: Any


@dataclass(frozen=True)
class Bag:
    """Has records where dicts can't be, and members of every sort of Enum."""

    points: frozenset[values.Point]
    by_point: dict[values.Point, Decimal | None]
    colors: list[records.Color]
    shades: list[records.Shade | records.Mixed]
    may: records.Permission
    mood: kinds.Mood


BAG = Bag(
    frozenset({values.Point(1, 2)}),
    {values.Point(3, 4): Decimal("1.10")},
    [*records.Color],
    [records.Shade.DARK, *records.Mixed],
    records.Permission(3),
    kinds.Mood.SAD,
)


@dataclass
class Generics:
    """Names classes with arguments, and one class twice."""

    model: kinds.BoxModel[date]
    box: kinds.Box[date]
    text: kinds.Box[str] | None
    tree: kinds.Tree
    trees: list[kinds.Tree]


GENERICS = Generics(
    kinds.BoxModel[date](content=kinds.DAY, id=3),
    kinds.Box("2020-01-01"),  # type: ignore[arg-type]
    kinds.Box("a"),
    kinds.Tree("a"),
    [kinds.Tree("b")],
)


@dataclass
class Left:
    """One of two that refer to each other."""

    day: date
    right: Right | None = None


@dataclass
class Right:
    """The other one."""

    left: Left | None = None


@dataclass
class Both:
    """Leads to each from the other: what is found of Right first holds for its own field too."""

    left: Left
    right: Right


# No record, whatever the annotation says: its text is no date.
BOTH: Any = Both(Left(kinds.DAY), Right({"day": "2020-01-01", "right": None}))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Case:
    """A record, and the class that it is written with."""

    name: str
    cls: Any
    record: Any


def cases() -> Iterator[Case]:
    """Return records of every kind and with every value."""
    for number, record in enumerate(records.RECORDS):
        yield Case(f"{number} {type(record).__name__}", type(record), record)
    for name, record in kinds.RECORDS.items():
        yield Case(name, type(record), record)
    for number, value in enumerate([*records.VALUES, *values.NUMPY]):
        yield Case(f"any {number} {type(value).__name__}", Anything, Anything(value))
        yield Case(f"dict {number} {type(value).__name__}", None, {"a": value, "b": [value]})
    for sample in values.SAMPLES:
        cls = dataclasses.make_dataclass("Holder", [("value", sample.annotation)])
        yield Case(sample.name, cls, cls(sample.value))
    for number, moment in enumerate(values.MOMENTS):
        cls = dataclasses.make_dataclass("Holder", [("value", list[datetime | None])])
        yield Case(f"moments {number}", cls, cls([moment, None]))
    for name, record in kinds.RECORDS.items():
        for make in (kinds.as_dataclass, kinds.as_struct):
            outer = make(type(record))
            yield Case(f"{make.__name__} {name}", outer, kinds.make_outer(outer, record))
    yield Case("generics", Generics, GENERICS)
    yield Case("both", Both, BOTH)
    yield Case("natives", golden_classes.Natives, golden_classes.Natives())
    for mixed, named in ([golden_classes.MIXTURES, []], [[], golden_classes.NAMED]):
        yield Case("mixture", golden_classes.Mixture, golden_classes.Mixture(mixed, named))
    movie = {"title": "2020-01-01", "color": kinds.Color.RED, "point": kinds.Point(1)}
    yield Case("TypedDict", kinds.Movie, movie)
    yield Case("TypedDict with id", kinds.MovieWithId, {"when": kinds.DAY, "id": 3})
    yield Case("empty dict", None, {})
    yield Case("dict with numbers", None, {1: "a", "1": date(2020, 1, 1), "id": 3})
    yield Case("bag", Bag, BAG)
    for text in ("fe80::/10", "10.0.0.1/8", "::1/64"):
        value = ip_interface(text) if "1/" in text else ip_network(text)
        yield Case(text, Anything, Anything(value))


CASES = list(cases())


def payload_of(spec: str, tier: str, case: Case) -> bytes:
    """Return the bytes of a record, as it is written or in the exact form."""
    if tier == "exact":
        return evolving.encode(spec, "exact", case.record, case.cls)
    return get_serializer(spec).codec(shape_of(case.cls)).encode(case.record)


def as_dict(spec: str, schema: dict[str, Any], payload: bytes) -> Any:
    """Return what a collection that was opened by its name gives."""
    codec = get_serializer(spec).codec(shape_of(None), schema)
    return codec.decode(payload, 7)


@pytest.mark.parametrize("case", CASES, ids=lambda case: ascii(case.name))
def test_document_describes_the_payload(case: Case) -> None:
    """A reader that knows the document only finds what the collection gives as dicts."""
    for spec in SERIALIZERS:
        schema = json.loads(json.dumps(evolving.schema_of(spec, case.cls)))
        for tier in TIERS:
            payload = payload_of(spec, tier, case)
            found = plain_dicts(decode_payload(schema, payload, 7))

            assert tier != "exact" or payloads.is_exact(schema, payload)
            assert_exact(found, as_dict(spec, schema, payload), f"{spec} {tier}")
            assert_exact(sorted_items(found), sorted_items(neutral_record(case.record)), spec)


def neutral_record(record: Any) -> dict[str, Any]:
    """Return the dict that a record is to be read as."""
    fields = record if type(record) is dict else fields_of(record)
    values = {name: neutral(value) for name, value in fields.items()}
    # Which field carries an identity: a plain dict's, and that of a class if it is an int.
    return values if type(values.get("id")) is str else values | {"id": 7}


def neutral(value: Any) -> Any:
    """Return a value as the reader is to find it: records as dicts, members as their values."""
    if isinstance(value, enum.Enum):
        is_opaque = value in (records.Mixed.OBJECT, records.Mixed.DEEP)
        return value.name if is_opaque else value.value
    match value:
        case OrderedDict() | Counter():
            return type(value)({neutral_key(key): neutral(item) for key, item in value.items()})
        case dict():
            return {neutral_key(key): neutral(item) for key, item in value.items()}
        case list():
            return [neutral(item) for item in value]
        case deque():
            return deque([neutral(item) for item in value], value.maxlen)
        case set() | frozenset():
            return type(value)(neutral_key(item) for item in value)
    if type(value) is tuple:
        return tuple(map(neutral, value))
    fields = fields_of(value)
    return value if fields is None else {name: neutral(item) for name, item in fields.items()}


def neutral_key(value: Any) -> Any:
    """Return a value where a dict can't be: a record as a tuple of pairs."""
    found = neutral(value)
    return tuple(found.items()) if type(found) is dict else found


def fields_of(value: Any) -> Any:
    """Return the fields of a record, None of any other value."""
    cls: Any = type(value)
    if dataclasses.is_dataclass(cls):
        return {each.name: getattr(value, each.name) for each in dataclasses.fields(cls)}
    if isinstance(value, msgspec.Struct):
        return {name: getattr(value, name) for name in cls.__struct_fields__}
    if hasattr(cls, "__attrs_attrs__"):
        return {each.name: getattr(value, each.name) for each in cls.__attrs_attrs__}
    if isinstance(value, pydantic.BaseModel):
        return dict(value)
    return value._asdict() if hasattr(cls, "_fields") else None


def sorted_items(record: dict[Any, Any]) -> list[Any]:
    """Return the items of a dict in an order of their own."""
    return sorted(record.items(), key=lambda item: repr(item[0]))


def test_cases_are_of_both_forms() -> None:
    """What is compared is written in the native form often enough, in each serializer."""
    for spec in SERIALIZERS:
        natives = [
            case
            for case in CASES
            if not payloads.is_exact({"serializer": spec}, payload_of(spec, "as written", case))
        ]

        assert len(CASES) // 4 < len(natives) < len(CASES) * 3 // 4


def test_struct_with_its_identity_inside() -> None:
    """A Struct's payload may hold an identity, which means nothing."""
    record = samples.Struct("a", 1, ["t"], 99)
    for spec in ("json", "msgpack"):
        schema = evolving.schema_of(spec, samples.Struct)
        payload = payload_of(spec, "as written", Case("", samples.Struct, record))

        assert b"id" in payload
        assert {"name": "a", "n": 1, "tags": ["t"], "id": 7} == decode_payload(schema, payload, 7)


def test_field_of_a_newer_program() -> None:
    """An exact payload may hold fields that its schema does not have."""
    schema = evolving.schema_of("json", Anything)
    payload = b'["exact",{"value":["tuple"],"more":["int","10000000000000000"]}]'

    assert {"value": (), "more": 2**64, "id": 7} == decode_payload(schema, payload, 7)


def test_reader_refuses_what_is_not_described() -> None:
    """An unknown tag, another array and a pickle are refused, not guessed."""
    schema = evolving.schema_of("json", Anything)
    for payload in (b'["exact",{"value":["point",1,2]}]', b'["other",{}]', b'{"value":1,"b":2}'):
        with pytest.raises(payloads.Unreadable):
            decode_payload(schema, payload, 7)
    with pytest.raises(payloads.Unreadable):
        decode_payload(evolving.schema_of("pickle", Anything), b"\x80\x05}.", 7)


# -- the tables ------------------------------------------------------------------------------


def rows(heading: str) -> list[list[str]]:
    """Return the cells of the rows of the first table with a heading."""
    _, _, rest = DOCUMENT.partition(f"\n| {heading} |")
    lines = rest.splitlines()[2:]
    table = lines[: next(i for i, line in enumerate(lines) if not line.startswith("|"))]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in table]


def documented_tags() -> set[str]:
    """Return the tags of the document's table."""
    found = [row[0].strip("`") for row in rows("tag | after the tag | value")]
    assert len(found) == len(set(found))
    return set(found)


def tags_in_source() -> set[str]:
    """Return the tags that the code reads: those of its table, and those it compares with."""
    found = set(_SIMPLE_FROM)
    for node in ast.walk(ast.parse(inspect.getsource(_exact))):
        if isinstance(node, ast.Compare) and getattr(node.left, "id", None) == "tag":
            found |= {
                part.value
                for other in node.comparators
                for part in ast.walk(other)
                if isinstance(part, ast.Constant)
            }
    return found


def test_every_tag_is_documented() -> None:
    """The document's table has the tags that the code reads, and no other."""
    assert tags_in_source() == documented_tags()


def test_reader_knows_every_tag() -> None:
    """The reader, too, knows the tags of the table and no other."""
    assert documented_tags() == TAGS


def test_every_tag_is_written() -> None:
    """Each tag of the table is in a payload that the reader is tried with, and no other tag is."""
    serializer = get_serializer("json")
    assert isinstance(serializer, GeneratedSerializer)
    written: set[str] = set()
    for case in CASES:
        written |= set(tags_in(serializer.exact_plain(payload_of("json", "exact", case))))

    assert documented_tags() == written


def test_every_key_of_a_schema_is_documented() -> None:
    """The table of the writer's schema has each key that is written, and no other."""
    schemas = [writer_schema(shape_of(case.cls), get_serializer("json")) for case in CASES]
    schemas.append(writer_schema(shape_of(Anything), get_serializer("json"), version=2, tag="a"))
    written = {key for schema in schemas for key in schema}
    _, _, section = DOCUMENT.partition("Its `schema` has:\n\n")
    table, _, _ = section.partition("\n\n")

    assert written == set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))


# -- the examples ----------------------------------------------------------------------------


@dataclass
class Address:
    """Nested in the record of the examples."""

    city: str
    since: date | None = None


@dataclass
class Sale:
    """The record of the examples."""

    price: Decimal
    at: datetime
    home: Address
    more: Any = None
    id: int = 0


SALE = Sale(Decimal("1.10"), datetime(2024, 2, 29, 12, tzinfo=UTC), Address("Oslo"))
PARIS_SALE = dataclasses.replace(
    SALE, at=datetime(2024, 2, 29, 13, tzinfo=ZoneInfo("Europe/Paris")), more=(1, b"a")
)


def shown_payloads() -> list[tuple[str, str, bytes]]:
    """Return serializer, form and bytes of each payload that the document shows."""
    _, _, section = DOCUMENT.partition("<!-- payloads: begin -->\n")
    section, found, _ = section.partition("<!-- payloads: end -->")
    assert found, "the document shows no payloads"
    shown = []
    for form, spec, code in re.findall(r"^(\w+) (\w+)\n((?:[^\n`]+\n)+)", section, re.MULTILINE):
        text = "".join(code.splitlines())
        shown.append((spec, form, text.encode() if spec == "json" else bytes.fromhex(text)))
    return shown


def test_payloads_of_the_document() -> None:
    """What the document shows is what memdb writes today, and reads as the same record."""
    native = [(spec, "native", SALE) for spec in SERIALIZERS]
    exact = [(spec, "exact", PARIS_SALE) for spec in ("json", "binary")]

    for (spec, form, record), shown in zip(native + exact, shown_payloads(), strict=True):
        schema = evolving.schema_of(spec, Sale)
        expected = {
            "price": record.price,
            "at": record.at,
            "home": {"city": "Oslo", "since": None},
            "more": record.more,
            "id": 7,
        }
        codec = get_serializer(spec).codec(shape_of(Sale))

        assert (spec, form, codec.encode(record)) == shown
        assert dataclasses.replace(record, id=7) == codec.decode(shown[2], 7)
        assert_exact(plain_dicts(decode_payload(schema, shown[2], 7)), expected)


def test_schema_of_the_document() -> None:
    """The schema that the document shows with the payloads is the one that is written."""
    _, _, section = DOCUMENT.partition("<!-- payloads: begin -->\n")
    found = re.search(r"```json\n(.*?)```", section, re.DOTALL)
    assert found is not None

    assert evolving.schema_of("json", Sale) == json.loads(found[1])


# -- natural keys ----------------------------------------------------------------------------

KEYS: list[Any] = [
    *(None, True, False, 0, 1, -255, 2**200, "", "1", "żółw", "\ud800", b"", b"1", b"\x00\xff"),
    *(date(2020, 1, 31), UUID(int=0), UUID(int=5), (), (1,), ("FR", 75001), ((None, b"a"), "x")),
    datetime(2020, 1, 31),
    datetime(2020, 1, 31, 1, 2, 3, 4, tzinfo=UTC),
    datetime(2024, 10, 27, 2, 30, tzinfo=ZoneInfo("Europe/Paris"), fold=1),
    datetime(2020, 1, 1, tzinfo=timezone(timedelta(hours=-5, microseconds=1))),
    datetime(2020, 1, 1, tzinfo=timezone(timedelta(hours=1), "a 'b'")),
    datetime(2020, 1, 1, tzinfo=timezone(timedelta(0), "")),
]


@pytest.mark.parametrize("key", KEYS, ids=ascii)
def test_numbers_of_keys(key: Any) -> None:
    """All sixteen numbers of a key follow from the document, for any seed."""
    for seed in (0, 1, 2**48 - 1):
        tag, content = encode_key(key)
        found = key_numbers(key, seed)

        assert list(numbers_of(tag, content, seed, is_displaced=True)) == found
        assert list(numbers_of(tag, content, seed, is_displaced=False)) == found[:1]


def test_tags_of_keys_are_documented() -> None:
    """The table of the tags of keys has those of the code, by the names of their types."""
    table = {row[1]: int(row[0]) for row in rows("tag | type | bytes")}
    written = {type(key).__name__: encode_key(key)[0] for key in KEYS}

    assert written == {"NoneType": table.pop("None")} | table


def test_pointers_have_the_numbers(tmp_path: Any) -> None:
    """In a file, the identity of each pointer is the number that the document gives the key."""
    path = tmp_path / "keys.memdb"
    with memdb.open(path) as db:
        everything = db.collection("everything", key="k")
        pairs = db.collection("pairs", key=("a", "b"))
        for key in KEYS:
            everything.insert({"k": key})
            pairs.insert({"a": key, "b": 1})
    contents = reader.read_by_walking(path.read_bytes())
    entries = {entry["name"]: entry["key"] for entry in contents.catalogue["collections"]}
    live = contents.live(path.read_bytes())

    for name, keys in (("everything", KEYS), ("pairs", [(key, 1) for key in KEYS])):
        numbers = {key_numbers(key, entries[name]["seed"])[0] for key in keys}
        assert numbers == set(live[name])
    for name, found in contents.records(path.read_bytes()).items():
        keys = [repr(payloads.key_of(entries[name], record)) for record in found.values()]
        assert sorted(keys) == sorted(repr(k if name == "everything" else (k, 1)) for k in KEYS)
