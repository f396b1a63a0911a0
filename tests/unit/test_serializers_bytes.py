"""What the bytes of each serializer are: they are part of the file format."""

import abc
import dataclasses
import io
import json
import pickle
import sys
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
import pytest

from memdb.errors import DecodeError, EncodeError
from memdb.serializers import Codec, get_serializer, shape_of, writer_schema
from memdb.serializers._binary import BinarySerializer
from memdb.serializers._exact import ExactTier
from memdb.serializers._generate import encode_exactly
from tests.support.records import Address, Color, Holder, Plain, Wide, make_wide


@dataclass(slots=True)
class Record:
    id: int
    name: str
    category: str
    created_at: datetime
    updated_at: datetime
    amount: Decimal
    count: int
    is_active: bool


@dataclass
class Abstract(abc.ABC):
    a: int

    @abc.abstractmethod
    def method(self) -> None: ...


class RecordStruct(msgspec.Struct):
    id: int
    name: str
    count: int
    is_active: bool


RECORD = Record(
    1,
    "abcdefghijklmnop",
    "cat0123",
    datetime(2024, 5, 6, 7, 8, 9, 123000, tzinfo=UTC),
    datetime(2024, 5, 6, 7, 8, 10, 123000, tzinfo=UTC),
    Decimal("1234.56"),
    77,
    True,
)


def codec(name: str, cls: type | None) -> Codec:
    """Return a codec."""
    return get_serializer(name).codec(shape_of(cls))


def test_binary_is_an_array_without_names() -> None:
    """A binary payload is a MessagePack array of the fields in order, the identity left out."""
    data = codec("binary", Record).encode(RECORD)

    assert len(data) == 56
    assert data.hex().startswith("97" + "b0" + b"abcdefghijklmnop".hex() + "a7")


def test_msgpack_is_a_map_of_names() -> None:
    """A msgpack payload is a map by name that any MessagePack reader understands."""
    actual = msgspec.msgpack.decode(codec("msgpack", Record).encode(RECORD))

    assert list(actual) == [f.name for f in dataclasses.fields(Record)][1:]
    assert actual["created_at"] == RECORD.created_at


def test_msgpack_holds_a_struct_as_msgspec_does() -> None:
    """A Struct's payload is msgspec's own, so that it costs no more."""
    record = RecordStruct(1, "a", 2, True)

    assert codec("msgpack", RecordStruct).encode(record) == msgspec.msgpack.encode(record)


def test_json_can_be_read_by_people() -> None:
    """A JSON payload has ISO dates, decimals and UUIDs as strings, and bytes in base64."""
    wide = make_wide(key=UUID(int=1))
    actual = json.loads(codec("json", Wide).encode(wide))

    assert actual["moment"] == "2024-05-06T07:08:09.123456Z"
    assert actual["money"] == "1.50"
    assert actual["key"] == "00000000-0000-0000-0000-000000000001"
    assert actual["data"] == "AP8="
    assert actual["color"] == "red"
    assert actual["address"] == {"city": "Paris", "lines": ["1", "2"], "since": "2000-01-01"}
    assert actual["words"] == ["a", "b"]


def test_json_of_the_exact_tier_is_still_json() -> None:
    """In the exact tier a JSON payload is an array that says what each value is."""
    zone = ZoneInfo("Europe/Paris")
    data = codec("json", Holder).encode(Holder((datetime(2024, 1, 1, tzinfo=zone), Decimal("1"))))

    assert json.loads(data) == [
        "exact",
        {"value": ["tuple", ["datetime", "2024-01-01T00:00:00", "Europe/Paris"], ["decimal", "1"]]},
    ]


@pytest.mark.parametrize(("name", "marker"), [("binary", 0xC1), ("msgpack", 0xC1), ("json", 0x5B)])
def test_the_first_byte_tells_the_tiers_apart(name: str, marker: int) -> None:
    """Typical values take the fast tier, others the exact one, told by the first byte."""
    wide = codec(name, Wide)

    assert wide.encode(make_wide())[0] != marker
    assert wide.encode(make_wide(by_day={date(2020, 1, 1): 1}))[0] == marker
    assert codec(name, Plain).encode(Plain("a", date(2000, 1, 1), Address("b")))[0] != marker
    assert codec(name, Record).encode(RECORD)[0] != marker
    assert codec(name, Record).encode(dataclasses.replace(RECORD, count=True))[0] == marker


@pytest.mark.parametrize("name", ["binary", "msgpack", "json"])
@pytest.mark.parametrize("field", [f.name for f in dataclasses.fields(Wide)])
def test_which_annotations_are_fast(name: str, field: str) -> None:
    """Values of these annotations take the fast tier."""
    changes = {} if name == "json" else {"by_number": {5: "five"}}
    annotation = {f.name: f.annotation for f in shape_of(Wide).fields}[field]
    cls = dataclasses.make_dataclass("One", [("value", annotation)])
    data = codec(name, cls).encode(cls(getattr(make_wide(**changes), field)))

    assert not data.startswith((b"\xc1", b'["exact"'))


def test_types_that_msgspec_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A class whose types msgspec can't tell apart has every record in the exact tier."""

    def refuse(wire: object) -> Any:
        raise TypeError

    serializer = BinarySerializer()
    schema = writer_schema(shape_of(Holder), serializer)
    monkeypatch.setattr(
        BinarySerializer, "_format", dataclasses.replace(serializer._format, decoder=refuse)
    )
    holder = serializer.codec(shape_of(Holder), schema)
    data = holder.encode(Holder("a"))

    assert data[0] == 0xC1
    assert holder.decode(data, 1) == Holder("a")
    with pytest.raises(DecodeError):
        holder.decode(b"\x91\xa1a", 1)
    schema["fields"].append(["gone", "int"])
    assert serializer.codec(shape_of(Holder), schema).decode(data, 1) == Holder("a")


@pytest.mark.parametrize("name", ["binary", "msgpack"])
def test_dicts_with_utc_moments_are_fast(name: str) -> None:
    """A plain dict of what MessagePack itself tells apart takes the fast tier."""
    record = {"a": [{"b": datetime(2024, 1, 1, tzinfo=UTC)}], "c": b"d"}

    assert codec(name, None).encode(record)[0] != 0xC1
    assert codec(name, None).encode({"a": datetime(2024, 1, 1)})[0] == 0xC1


def test_pickle_is_a_dict_of_the_fields() -> None:
    """A pickle payload is a dict by name, so that the record's class may move."""
    data = codec("pickle", Plain).encode(Plain("a", date(2000, 1, 1)))

    assert pickle.loads(data) == {
        "name": "a",
        "born": date(2000, 1, 1),
        "address": None,
        "tags": [],
    }


def test_pickle_names_the_field_that_it_refuses() -> None:
    """A value that can't be pickled is refused with its field."""
    with pytest.raises(EncodeError, match=r"value: can't pickle .*TextIOWrapper") as caught:
        codec("pickle", Holder).encode(Holder(io.TextIOWrapper(io.BytesIO())))
    assert caught.value.field == "value"


def test_pickle_refuses_what_is_only_together_too_much() -> None:
    """A failure that no single field has is still an EncodeError."""

    class Once:
        calls = 0

        def __reduce__(self) -> Any:
            Once.calls += 1
            if Once.calls == 1:
                raise ValueError
            return (int, ())

    with pytest.raises(EncodeError, match="the record can't be pickled"):
        codec("pickle", Holder).encode(Holder(Once()))


def test_pickle_that_holds_something_else() -> None:
    """A pickle that is no dict of fields is refused."""
    with pytest.raises(DecodeError, match="can't be unpickled as Holder"):
        codec("pickle", Holder).decode(pickle.dumps([1]), 1)


PLAIN_GARBAGE: list[Any] = [
    [],
    [[]],
    ["unknown", 1],
    ["set", ["list"]],
    ["dict", 1],
    ["dict", [["list"], 1]],
    ["int", 5],
    ["int", "zz"],
    ["float", "1.5"],
    ["float", "00"],
    ["str", "%%%"],
    ["bytes", 5],
    ["date", "x"],
    ["datetime", "2024-01-01T00:00:00", "No/Such_Zone"],
    ["datetime", "2024-01-01T00:00:00", "../../etc/passwd"],
    ["datetime", "2024-01-01T00:00:00", [10**15]],
    ["timedelta", 10**18],
    ["decimal", "x"],
    ["fraction", 1, 0],
    ["fraction", "a", 1],
    ["path", "Path", "x"],
    ["path", "PurePosixPath", 5],
    ["zone", [0, 5]],
    ["record", "os.system", {}],
    ["record", "Color", {}],
    ["record", "Address", {}],
    ["record", "Address", 5],
    ["enum", "Address", 1],
    ["enum", "Color", "no such value"],
    ["enum name", "Color", "NO_SUCH_NAME"],
    object(),
]


@pytest.mark.parametrize("plain", PLAIN_GARBAGE, ids=lambda p: f"{p!a:.40}"[:20])
def test_wrong_plain_forms(plain: Any) -> None:
    """A plain form that no value has is refused, and nothing that it names is called."""
    with pytest.raises(DecodeError):
        ExactTier(shape_of(Plain)).from_plain({"a": plain})
    cls = dataclasses.make_dataclass("R", [("a", Color | Address)])
    with pytest.raises(DecodeError):
        ExactTier(shape_of(cls)).from_plain(plain)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("json", b'["exact", 5]'),
        ("json", b'["exact", ["list"]]'),
        ("json", b'["other", {}]'),
        ("json", b"[]"),
        ("json", b"[" * 5000),
        ("binary", b"\xc1\x05"),
        ("binary", b"\xc1"),
        ("binary", b"\x91" * 5000),
        ("binary", b"\xdd\xff\xff\xff\xff"),
        ("msgpack", b"\xc1\x90"),
        ("msgpack", b"\x81\xa4name\x05"),
    ],
)
def test_wrong_bytes(name: str, data: bytes) -> None:
    """Bytes that are no payload are refused for a class and for dicts."""
    with pytest.raises(DecodeError):
        codec(name, Plain).decode(data, 1)
    if data != b"\x81\xa4name\x05":
        with pytest.raises(DecodeError):
            codec(name, None).decode(data, 1)


def test_huge_integers() -> None:
    """An int beyond Python's limit of decimal digits is stored all the same."""
    for name in ("binary", "msgpack", "json"):
        holder = codec(name, Holder)

        assert holder.decode(holder.encode(Holder(10**5000)), 1).value == 10**5000


@pytest.mark.parametrize("annotation", [int, Any, list[int], int | None])
def test_huge_integers_of_another_process(annotation: Any) -> None:
    """A number is read again whatever the limits of decimal digits were and are."""
    cls = dataclasses.make_dataclass("Row", [("a", annotation), ("b", str, "9" * 5000)])
    limit = sys.get_int_max_str_digits()
    for digits in (640, 4299, 4300, 5000, 20000):
        for number in (10**digits - 1, -(10 ** (digits - 1)), 7 * 10 ** (digits - 2)):
            value = [number, 1] if annotation == list[int] else number
            for written, read in ((0, 640), (0, limit), (limit, 640), (640, 0)):
                try:
                    sys.set_int_max_str_digits(written)
                    data = codec("json", cls).encode(cls(value))
                    sys.set_int_max_str_digits(read)
                    actual = codec("json", cls).decode(data, 1)
                finally:
                    sys.set_int_max_str_digits(limit)
                assert actual.a == value


def test_a_number_that_nobody_has_written() -> None:
    """A number that would take for ever to read is refused, as are those that are no ints."""
    cls = dataclasses.make_dataclass("Row", [("a", int)])
    for text in (b"1" * 1_000_001, b"1" * 700 + b".5", b'"' + b"1" * 700 + b'"'):
        with pytest.raises(DecodeError, match="do not fit Row"):
            codec("json", cls).decode(b'{"a":' + text + b"}", 1)


def test_a_packer_that_fails() -> None:
    """What the packer of the exact tier refuses, such as 4 GiB, names the field and type."""

    def refuse(plain: Any) -> bytes:
        if b"!" in msgspec.msgpack.encode(plain):
            raise ValueError("too large")
        return b""

    form = dataclasses.replace(BinarySerializer._format, encode_exact=refuse)
    cases: list[tuple[Any, Any, str, str]] = [
        ({"a": 1, "b": ["!"]}, Holder(1), "b", "b: a value can't be packed as msgpack: too large"),
        ({"value": ["!"]}, Holder(["!"]), "value", "value: a value of type list can't be packed"),
        ({"value": "!"}, {"value": "!"}, "value", "value: a value of type str can't be packed"),
        (["dict", ["!", 1]], {1: "!"}, "", "the record can't be packed as msgpack: too large"),
        ({"!": 1}, {"!": 1}, "", "the record can't be packed as msgpack: too large"),
    ]
    for plain, record, field, message in cases:
        with pytest.raises(EncodeError) as caught:
            encode_exactly(form, lambda plain=plain: plain, record)

        assert caught.value.field == field
        assert str(caught.value).startswith(message)


def test_the_record_that_a_packer_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A codec gives the packer its record, to be named in the error."""

    def refuse(plain: Any) -> bytes:
        raise OverflowError("too large")

    form = dataclasses.replace(BinarySerializer._format, encode_exact=refuse)
    monkeypatch.setattr(BinarySerializer, "_format", form)
    for record in (Holder((1,)), {"value": (1,)}):
        with pytest.raises(EncodeError, match=r"^value: a value of type tuple can't be packed"):
            BinarySerializer().codec(shape_of(type(record))).encode(record)


def test_an_abstract_class_in_an_annotation() -> None:
    """A field annotated with an abstract class holds what other fields can hold, too."""
    cls = dataclasses.make_dataclass("R", [("value", Abstract | None)])
    for name in ("binary", "msgpack", "json"):
        one = codec(name, cls)

        assert one.decode(one.encode(cls((1,))), 1).value == (1,)


def test_paths_show_no_long_keys() -> None:
    """A path cuts a long key, and shows no huge number."""
    for key, shown in (("k" * 100, "value['kkkkkk"), (10**5000, "value[...]"), (5, "value[5]")):
        with pytest.raises(EncodeError) as caught:
            codec("binary", Holder).encode(Holder({key: object()}))

        assert caught.value.field.startswith(shown)
        assert len(caught.value.field) < 60


def test_a_zone_without_key_is_refused() -> None:
    """A time zone that was made from a file's bytes has no name to find it by again."""
    zone = ZoneInfo.from_file(_tzfile())
    with pytest.raises(EncodeError, match=r"tzinfo of type zoneinfo\.ZoneInfo"):
        codec("json", Holder).encode(Holder(datetime(2024, 1, 1, tzinfo=zone)))


def _tzfile() -> Any:
    """Return a minimal time zone file: UTC without transitions."""
    counts = bytes.fromhex("000000000000000000000000000000000000000100000004")
    block = b"TZif2" + bytes(15) + counts + bytes(6) + b"UTC\x00"
    return io.BytesIO(block + block + b"\nUTC0\n")
