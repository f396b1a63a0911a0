"""Values of the exact tier: arrays, Enums by name or with odd values, and the lesser containers."""

from __future__ import annotations

import base64
import contextlib
import enum
import math
import re
import typing
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass, make_dataclass
from datetime import date, datetime, timedelta, tzinfo
from decimal import Decimal
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
import orjson
import pytest
from numpy.typing import NDArray

from memdb._cloners import deep, get_cloner
from memdb.errors import DecodeError, EncodeError
from memdb.serializers import MAX_DEPTH, by_name, get_serializer, shape_of
from memdb.serializers._enums import is_by_name, member_of, name_of
from memdb.serializers._exact import ExactTier
from tests.support.exact import assert_exact
from tests.support.labels import label_of
from tests.support.python import CACHES_UNNAMED_FLAGS, PICKLES_ENUMS_BY_VALUE

SPECS = ("binary", "msgpack", "json", "pickle")


@dataclass
class Holder:
    value: Any


TIER = ExactTier(shape_of(Holder))


@pytest.fixture(params=SPECS)
def spec(request: pytest.FixtureRequest) -> str:
    """Return the name of each serializer in turn."""
    name: str = request.param
    return name


def round_trip(spec: str, record: Any) -> Any:
    """Return a record after encoding and decoding."""
    codec = get_serializer(spec).codec(shape_of(type(record)))
    return codec.decode(codec.encode(record), 7)


def from_plain(*plain: Any) -> Any:
    """Return the value of a plain form that stands in a payload."""
    codec = get_serializer("json").codec(shape_of(Holder))
    return codec.decode(orjson.dumps(["exact", {"value": [*plain]}]), 1).value


# -- arrays

ALIGNED = np.dtype(
    [("a", "i1"), ("b", ">f8", (2, 3)), ("c", [("x", "U3"), ("y", "?")])], align=True
)
# Newer ones of NumPy warn about other ways to make an array of dates without a unit.
NO_DATES = np.frombuffer(b"\0" * 7 + b"\x80", "<M8")
ARRAYS: dict[str, np.ndarray[Any, Any]] = {
    "integers": np.arange(6).reshape(2, 3),
    "big-endian": np.array([1, 2**40], ">i8"),
    "small": np.array([-1, 1], np.int8),
    "unsigned": np.array([2**64 - 1], np.uint64),
    "half": np.array([1.5, np.inf], np.float16),
    "nan": np.array([np.nan, -0.0, np.frombuffer(b"\1" * 7 + b"\xff")[0]]),
    "complex": np.array([1j, complex(-0.0, np.nan)], np.complex64),
    "booleans": np.array([[True], [False]]),
    "dates": np.array(["2020-01-01", "NaT"], "M8[ns]"),
    "dates without a unit": NO_DATES,
    "spans": np.array([1, -1], ">m8[25s]"),
    "text": np.array(["a", "żółw", "😀"]),
    "big-endian text": np.array(["ab\x00c"], ">U7"),
    "bytes": np.array([b"a\x00b", b""]),
    "scalar": np.array(5),
    "scalar text": np.array("abc"),
    "empty": np.zeros((0, 3)),
    "empty in the middle": np.zeros((2, 0, 4), "U2"),
    "fortran": np.asfortranarray(np.arange(6).reshape(2, 3)),
    "transposed text": np.array([["a", "b"], ["c", "d"]]).T,
    "reversed": np.arange(10)[::-2],
    "broadcast": np.broadcast_to(np.arange(3), (2, 3)),
    "many dimensions": np.zeros((1,) * 20),
    "structure": np.array([(1, 2.0, "c")], [("a", "<i4"), ("b", ">f8"), ("c", "U2")]),
    "aligned structure": np.ones(2, ALIGNED),
    "holes": np.ones(2, {"names": ["b", "a"], "formats": ["i4", "i2"], "offsets": [8, 0],
                         "itemsize": 20}),
    "view of fields": np.ones(2, [("a", "i4"), ("b", "f8"), ("c", "i4")])[["a", "c"]],
}  # fmt: skip


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_come_back(spec: str, name: str) -> None:
    """An array comes back with its dtype, byte order, shape and values, as an array of its own."""
    array = ARRAYS[name]
    if spec == "pickle" and array.dtype == np.dtype(">m8[25s]"):
        pytest.skip("NumPy's own pickle forgets the byte order of dates")

    actual = round_trip(spec, Holder(array)).value

    assert type(actual) is np.ndarray
    assert (actual.dtype, actual.dtype.str, actual.shape) == (
        array.dtype, array.dtype.str, array.shape,
    )  # fmt: skip
    assert actual.dtype.isalignedstruct == array.dtype.isalignedstruct
    for part in array.dtype.names or [...]:
        assert actual[part].tobytes() == array[part].tobytes()
    assert actual.flags.writeable
    if spec != "pickle":
        assert actual.flags.owndata and actual.flags.c_contiguous


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_are_cloned(name: str) -> None:
    """A clone of an array is equal and shares no memory with it."""
    array = ARRAYS[name]

    clone = deep([array])[0]

    assert (type(clone), clone.dtype, clone.shape) == (np.ndarray, array.dtype, array.shape)
    assert clone.tobytes() == array.tobytes() or array.dtype.names
    assert not np.shares_memory(clone, array)
    assert clone.flags.writeable


def test_what_is_between_fields_is_not_stored() -> None:
    """Bytes between the fields of a structure, such as fields that a view leaves out, are zeros."""
    whole = np.zeros(2, [("a", "i4"), ("secret", "S6"), ("c", [("d", "i2"), ("e", "S6")])])
    whole["secret"] = whole["c"]["e"] = b"secret"
    inner = np.dtype({"names": ["d"], "formats": ["i2"], "offsets": [0], "itemsize": 8})
    view = whole.view({"names": ["a", "c"], "formats": ["i4", inner], "offsets": [0, 10],
                       "itemsize": 18})  # fmt: skip
    for value in (view, view[0]):
        assert bytes(6) in base64.b64decode(TIER.to_plain(value)[-1])
        assert b"secret" not in base64.b64decode(TIER.to_plain(value)[-1])


def test_arrays_in_records(spec: str) -> None:
    """An array may stand in a field that is annotated so, in containers, and be cloned with it."""
    cls = make_dataclass(
        "Row", [("a", np.ndarray), ("b", NDArray[np.int64]), ("c", list[Any]), ("d", Any)]
    )
    record = cls(np.arange(2), np.arange(3), [np.ones(2)], {"k": (np.zeros(1),)})
    shape = shape_of(cls)
    cloner = get_cloner("auto", shape, get_serializer(spec).codec(shape))

    assert_exact(round_trip(spec, record), record)
    assert_exact(cloner(record), record)
    clone = cloner(record)
    clone.a[0] = clone.c[0][0] = clone.d["k"][0][0] = 9
    assert (record.a[0], record.c[0][0], record.d["k"][0][0]) == (0, 1, 0)


def test_arrays_of_objects_are_cloned_deeply() -> None:
    """An array of objects, which pickle can store, shares none of them with its clone."""
    array = np.array([None, [1]], object)
    deep(array)[1].append(2)
    structure = np.array([([1],)], [("a", object)])[0]
    deep(structure)["a"].append(2)

    assert array[1] == [1] and structure["a"] == [1]


SCALARS: list[np.generic] = [
    np.bool_(True), np.int8(-1), np.int64(2**63 - 1), np.uint64(2**64 - 1), np.float16(1.5),
    np.float32(np.inf), np.float64(-0.0), np.float64(np.nan), np.complex64(1j), np.complex128(1),
    np.str_(""), np.str_("a\x00"), np.str_("😀\ud800"), np.bytes_(b""), np.bytes_(b"\x00"),
    np.datetime64("NaT", "D"), NO_DATES[0], np.datetime64("2020-01-01T00:00:00.1"),
    np.timedelta64(3, "D"), np.array([(1, 2)], [("a", ">i4"), ("b", "i4")])[0],
    np.ones(1, ALIGNED)[0],
]  # fmt: skip


@pytest.mark.parametrize("scalar", SCALARS, ids=repr)
def test_scalars_come_back(spec: str, scalar: np.generic) -> None:
    """A NumPy scalar comes back as one of its type, in a field or as a key."""
    values: list[Any] = [scalar, [scalar]]
    with contextlib.suppress(TypeError, ValueError):
        values.append({scalar: 1})
    for value in values:
        # Pickle itself drops the NULs at the end of the two.
        if spec != "pickle" or not isinstance(scalar, np.str_ | np.bytes_):
            assert_exact(round_trip(spec, Holder(value)).value, value)
        assert_exact(deep((value, [])), (value, []))


def test_a_scalar_is_not_taken_for_a_builtin(spec: str) -> None:
    """A float64 in a field annotated float, and the like, stays one."""
    cls = make_dataclass("Row", [("a", float), ("b", str), ("c", dict[str, float]), ("d", bool)])
    record = cls(np.float64(1.5), np.str_("s"), {"k": np.float64(2)}, np.bool_(True))

    assert_exact(round_trip(spec, record), record)
    assert_exact(round_trip(spec, Holder({np.str_("k"): 1})).value, {np.str_("k"): 1})


def test_a_structure_is_copied() -> None:
    """A scalar of a structure can be changed, so a clone has one of its own."""
    structure = np.array([(1, 2)], [("a", "i4"), ("b", "i4")])[0]
    clone, decoded = deep(structure), round_trip("json", Holder(structure)).value
    clone["a"] = decoded["a"] = 9

    assert structure["a"] == 1
    assert deep(np.int64(1)) == 1


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.array([object()]), "dtype object is not supported. Use one of booleans"),
        (np.zeros(2, np.longdouble), "dtype float128|longdouble"),
        (np.zeros(2, "V3"), "dtype void24 is not supported"),
        (np.zeros(2, []), "dtype void is not supported"),
        (np.zeros(2, [("a", object)]), "dtype object is not supported"),
        (np.zeros(2, [("a", "i4"), ("b", "V2")]), "dtype void16 is not supported"),
        (np.zeros(2, [(("title", "a"), "i4")]), "with titles"),
        (np.rec.array([(1, 2)]).view(np.ndarray), "dtype of records"),
        (np.array([1], np.dtype("i4", metadata={"a": 1})), "metadata of its dtype would be lost"),
        (np.ma.MaskedArray([1]), "subclass of numpy.ndarray, whose own part would be lost"),
        (np.rec.array([(1, 2)]), "subclass of numpy.ndarray"),
        (np.longlong(1), "another name by which it would come back. Use numpy.int64"),
        (np.void(b"abc"), "dtype void24 is not supported"),
        (np.longdouble(1), "is not supported. Use one of"),
    ],
    ids=label_of,
)
def test_refused_arrays(value: Any, message: str) -> None:
    """What NumPy has and could not come back is refused with path, type and what to do."""
    codec = get_serializer("binary").codec(shape_of(Holder))
    name = f"{type(value).__module__}.{type(value).__qualname__}"

    with pytest.raises(EncodeError, match=message) as caught:
        codec.encode(Holder([value]))
    assert str(caught.value).startswith(f"value[0]: can't store a value of type {name}: ")
    assert caught.value.field == "value[0]"


HUGE = 2**40
BYTES_4 = base64.b64encode(b"\0" * 4).decode()


@pytest.mark.parametrize(
    "plain",
    [
        ("array", "<i4", [HUGE], ""),
        ("array", "<i4", [HUGE, HUGE, HUGE], ""),
        ("array", "<i4", [2**61, 2**61, 0], ""),
        ("array", "<i4", [2**63, 0], ""),
        ("array", "<i4", [-1], ""),
        ("array", "<i4", [True], BYTES_4),
        ("array", "<i4", [1.0], BYTES_4),
        ("array", "<i4", "1", BYTES_4),
        ("array", "<i4", [0] * 65, ""),
        ("array", "<i4", [1], "AAA"),
        ("array", "<i4", [1], "*AAAA==="),
        ("array", "<i4", [1], 5),
        ("array", "O", [0], ""),
        ("array", "object", [0], ""),
        ("array", "i4,i4", [0], ""),
        ("array", "<U999999999", [0], ""),
        ("array", "|S9999999999", [0], ""),
        ("array", "<f16", [0], ""),
        ("array", 5, [0], ""),
        ("array", None, [0], ""),
        ("array", ["<i4", [2**30, 2**30]], [0], ""),
        ("array", ["<i4", [2]], [1], base64.b64encode(bytes(8)).decode()),
        ("array", ["<i4", [-1]], [0], ""),
        ("array", "|b1", [1], "Ag=="),
        ("array", "<U1", [1], "/////w=="),
        ("array", {"names": ["a"], "formats": ["|O8"], "offsets": [0], "itemsize": 8,
                   "aligned": False}, [0], ""),
        ("array", {"names": ["a"], "formats": ["<i4"], "offsets": [-4], "itemsize": 4,
                   "aligned": False}, [1], BYTES_4),
        ("array", {"names": ["a"], "formats": ["<i4"], "offsets": [2], "itemsize": 4,
                   "aligned": False}, [1], BYTES_4),
        ("array", {"names": ["a", "a"], "formats": ["<i4", "<i4"], "offsets": [0, 0],
                   "itemsize": 4, "aligned": False}, [1], BYTES_4),
        ("array", {"names": [5], "formats": ["<i4"], "offsets": [0], "itemsize": 4,
                   "aligned": False}, [1], BYTES_4),
        ("array", {"names": ["a"], "formats": [["|b1", [4]]], "offsets": [0], "itemsize": 4,
                   "aligned": False}, [1], "AgICAg=="),
        ("array", {}, [0], ""),
        ("array", "<i4"),
        ("scalar", "<i4", ""),
        ("scalar", "<i4", BYTES_4 + BYTES_4),
        ("scalar", "str", "AAA="),
        ("scalar", "str", "/////w=="),
        ("scalar", "O", ""),
        ("deque", -1, 1),
        ("deque", "x"),
        ("counter", [1]),
        ("ordered dict", [[], 1]),
        ("range", 1, 2, 0),
        ("range", 1, 2, "x"),
        ("nonsense", "x", 1),
    ],
    ids=lambda plain: str(plain)[:50],
)  # fmt: skip
def test_hostile_payloads(plain: tuple[Any, ...]) -> None:
    """What no array or container has written is refused before anything large is made."""
    with pytest.raises(DecodeError):
        from_plain(*plain)


def test_text_of_either_byte_order_is_checked() -> None:
    """Text is refused by its number whatever the byte order, in a structure too."""
    for dtype in ("<U1", ">U1"):
        code = np.array([0x110000], dtype[0] + "u4").tobytes()
        structure = {"names": ["a"], "formats": [dtype], "offsets": [0], "itemsize": 4,
                     "aligned": False}  # fmt: skip
        for form in (dtype, structure):
            with pytest.raises(DecodeError):
                from_plain("array", form, [1], base64.b64encode(code).decode())


def test_a_dtype_nested_without_end() -> None:
    """A structure nested deeper than any program's is refused."""
    nested: Any = "<i4"
    for _ in range(20):
        nested = {"names": ["a"], "formats": [nested], "offsets": [0], "itemsize": 4,
                  "aligned": False}  # fmt: skip

    with pytest.raises(DecodeError):
        from_plain("array", nested, [0], "")


def test_arrays_of_many_dimensions_stay_writable_to_older_numpy() -> None:
    """An array has at most the 32 dimensions that every NumPy knows."""
    assert round_trip("json", Holder(np.zeros((1,) * 32))).value.ndim == 32
    if np.lib.NumpyVersion(np.__version__) >= "2.0.0":
        with pytest.raises(EncodeError, match=r"value: .*more than 32 dimensions"):
            round_trip("json", Holder(np.zeros((1,) * 33)))


# -- Enums


class Color(enum.Enum):
    RED = "red"
    CRIMSON = "red"
    BLUE = "blue"


@by_name
class Mood(enum.Enum):
    GLAD = 1
    HAPPY = 1
    SAD = "GLAD"


@by_name
class Rights(enum.Flag):
    READ = 1
    WRITE = 2
    BOTH = 3
    OTHER = 8


@by_name
class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Open(enum.IntFlag, boundary=enum.KEEP):
    A = 1
    B = 4


@by_name
class OpenNamed(enum.Flag, boundary=enum.KEEP):
    A = 1
    B = 4


class Strict(enum.Flag):
    A = 1
    B = 2


class Big(enum.Flag):
    A = 2**70
    B = 1


@dataclass(frozen=True)
class Planet:
    mass: float


class Odd(enum.Enum):
    LIST = [1, 2]  # noqa: RUF012
    DICT = {"a": 1}  # noqa: RUF012
    EARTH = Planet(1.0)
    NAN = math.nan
    PAIR = (math.nan, 1)
    TRUE = True
    ONE_HALF = Decimal("0.50")
    DAY = date(2000, 1, 1)
    NONE = None
    BIG = 2**80
    INNER = Color.RED


MEMBERS = [
    *Color, Color.CRIMSON, *Mood, *Rights, Rights(0), Rights.READ | Rights.OTHER, ~Rights(0),
    *Level, *Open, Open(0), Open(5), Open(2), Open(2**40 + 1), OpenNamed(0), OpenNamed(5),
    OpenNamed(2), OpenNamed(2**40 + 1), *Strict, Strict(0), Strict(3), *Big, Big(0), ~Big(0), *Odd,
]  # fmt: skip


@pytest.mark.parametrize("member", MEMBERS, ids=repr)
def test_members_come_back(spec: str, member: enum.Enum) -> None:
    """A member is itself again, from a field, a list, a set and a key, by either tier."""
    cls = type(member)
    if cls(member.value) is not member and not CACHES_UNNAMED_FLAGS:
        pytest.skip("in this Python such a member is not equal to itself")
    if spec == "pickle" and "nan" in repr(member):
        # Pickle looks a member up by its value, which is not equal to itself.
        return
    named = make_dataclass(
        "Named",
        [("a", cls), ("b", list[cls]), ("c", dict[cls, int]), ("d", set[cls]), ("e", Any)],  # type: ignore[valid-type]
    )
    for other in (None, 2**80):
        record = named(member, [member], {member: 1}, {member}, other)
        assert_exact(round_trip(spec, record), record)
        assert round_trip(spec, record).a is member
    flat = make_dataclass("Flat", [("a", cls), ("b", list[cls]), ("c", cls | None)])  # type: ignore[valid-type]
    assert_exact(round_trip(spec, flat(member, [member], None)), flat(member, [member], None))


@pytest.mark.skipif(not PICKLES_ENUMS_BY_VALUE, reason="this Python pickles members by name")
@pytest.mark.parametrize("where", ["annotated", "any", "against the annotation", "dict"])
def test_members_that_pickle_does_not_give_back_are_refused(where: str) -> None:
    """What can't be unpickled, or is another member then, is refused with its path."""
    for member in (Odd.NAN, Odd.PAIR, Lenient.NAN):
        annotation = {"annotated": list[type(member)], "against the annotation": list[int]}  # type: ignore[misc]
        cls = make_dataclass("Row", [("a", int), ("b", annotation.get(where, Any))])
        other = type(member)["DAY" if type(member) is Odd else "OTHER"]
        # Of what is in a list the annotation is trusted.
        is_alone = where == "against the annotation"
        bad, path = (member, "b") if is_alone else ([other, {"k": member}], "b[1]['k']")
        record = {"a": 1, "b": bad} if where == "dict" else cls(1, bad)
        codec = get_serializer("pickle").codec(shape_of(type(record)))
        with pytest.raises(EncodeError, match=r"memdb\.by_name") as caught:
            codec.encode(record)

        assert caught.value.field == path
        assert str(caught.value).startswith(f"{path}: ")


def test_what_pickle_does_not_give_back_is_refused() -> None:
    """An object whose own pickling support is wrong is refused when it is stored."""
    codec = get_serializer("pickle").codec(shape_of(Holder))
    with pytest.raises(EncodeError, match=r"^the record: .* it raises TypeError"):
        codec.encode(Holder([NeedsTwo(1, 2)]))
    with pytest.raises(EncodeError, match="can't be unpickled"):
        codec.encode(Holder(datetime(2024, 1, 1, tzinfo=NeedsHours(2))))


class NeedsTwo(Exception):
    """Unpickled, it is called with its only argument."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(one)


class NeedsHours(tzinfo):
    """Unpickled, it is called without its argument."""

    def __init__(self, hours: int) -> None:
        self.hours = hours

    def utcoffset(self, when: datetime | None) -> timedelta:
        return timedelta(hours=self.hours)


def test_a_value_that_leads_to_another_member(spec: str) -> None:
    """A member whose value leads to another one is stored by its name."""
    if spec != "pickle":
        holder = make_dataclass("Row", [("a", Lenient), ("b", Any)])
        assert round_trip(spec, holder(Lenient.NAN, (1,))).a is Lenient.NAN


class Lenient(enum.Enum):
    NAN = math.nan
    OTHER = 1

    @classmethod
    def _missing_(cls, value: object) -> Lenient:
        return cls.OTHER


def test_what_is_stored_by_name() -> None:
    """The name stands in the payload of every tier, as a key too, where a class asks for it."""
    cls = make_dataclass("Row", [("a", Level), ("b", Mood | None), ("c", Any)])
    keyed = make_dataclass("Keyed", [("a", dict[Level, int])])
    json = get_serializer("json")
    fast = json.codec(shape_of(cls)).encode(cls(Level.HIGH, Mood.HAPPY, None))
    exact = json.codec(shape_of(cls)).encode(cls(Level.HIGH, None, (1,)))
    key = json.codec(shape_of(keyed)).encode(keyed({Level.HIGH: 1}))

    assert fast == b'{"a":"HIGH","b":"GLAD","c":null}'
    assert b'["enum name","Level","HIGH"]' in exact and b'["enum name","Level","HIGH"]' in key
    assert b"HIGH" in get_serializer("pickle").codec(shape_of(cls)).encode(cls(Level.HIGH, None, 1))


def test_a_value_that_changes(spec: str) -> None:
    """Where members are stored by name their values may change, whatever the tier."""
    old = by_name(enum.Enum("Size", {"SMALL": 1, "BIG": 2}, module=__name__))
    new = by_name(enum.Enum("Size", {"SMALL": "s", "BIG": "b"}, module=__name__))
    for first, second in ((old, new), (new, old)):
        before = make_dataclass("Row", [("a", first), ("b", Any)])
        after = make_dataclass("Row", [("a", second), ("b", Any)])
        for other in (1, (1,)):
            globals()["Size"] = first
            data = get_serializer(spec).codec(shape_of(before)).encode(before(first.BIG, other))  # type: ignore[attr-defined]
            globals()["Size"] = second
            actual = get_serializer(spec).codec(shape_of(after)).decode(data, 1)
            assert actual.a is second.BIG  # type: ignore[attr-defined]


def test_stored_by_value_before() -> None:
    """What was stored by value is read after a class has asked for names."""
    size = enum.Enum("Size", {"SMALL": 1, "BIG": "b"}, module=__name__)
    cls = make_dataclass("Row", [("a", size), ("b", Any)])
    for spec in ("binary", "msgpack", "json"):
        before = get_serializer(spec).codec(shape_of(cls))
        payloads = [before.encode(cls(m, other)) for m in size for other in (1, (1,))]
        by_name(size)
        after = get_serializer(spec).codec(shape_of(cls))
        assert [after.decode(p, 1).a for p in payloads] == [*[size.SMALL] * 2, *[size.BIG] * 2]  # type: ignore[attr-defined]


def test_names_of_flags() -> None:
    """A combination is its names, and a number for the bits that have none."""
    assert name_of(Rights.BOTH) == "BOTH"
    assert name_of(Rights.READ | Rights.OTHER) == "READ|OTHER"
    assert name_of(Rights(0)) == "0"
    assert name_of(OpenNamed(7)) == "A|B|2"
    assert member_of(OpenNamed, "A|B|2").value == 7
    with pytest.raises(KeyError):
        member_of(Rights, "NOPE")
    if CACHES_UNNAMED_FLAGS:
        # The first Pythons 3.11 let the number through.
        with pytest.raises(ValueError, match="17"):
            member_of(Rights, "READ|16")


def test_a_base_is_marked_for_all_that_are_derived() -> None:
    """An Enum class without members marks those derived from it; others are not marked."""

    @by_name
    class Base(enum.Enum):
        pass

    class Derived(Base):
        A = 1

    assert is_by_name(Derived) and not is_by_name(Color)


@pytest.mark.parametrize("what", [int, Planet, "Color", Color.RED])
def test_by_name_takes_enum_classes(what: Any) -> None:
    """Anything but an Enum class is refused."""
    with pytest.raises(TypeError, match=r"by_name\(\) takes an Enum class, not "):
        by_name(what)


def test_a_member_that_is_gone() -> None:
    """A stored member that the class no longer has is a DecodeError, in both tiers."""
    old = by_name(enum.Enum("Size", {"SMALL": 1, "BIG": 2}, module=__name__))
    new = by_name(enum.Enum("Size", {"SMALL": 1}, module=__name__))
    before = make_dataclass("Row", [("a", old), ("b", Any)])
    after = make_dataclass("Row", [("a", new), ("b", Any)])
    for spec in ("binary", "json"):
        for other in (1, (1,)):
            data = get_serializer(spec).codec(shape_of(before)).encode(before(old.BIG, other))  # type: ignore[attr-defined]
            with pytest.raises(DecodeError):
                get_serializer(spec).codec(shape_of(after)).decode(data, 1)


def test_flags_are_fast() -> None:
    """Flags, and Enums by name, need no exact tier."""
    cls = make_dataclass("Row", [("a", Open), ("b", Strict), ("c", Mood), ("d", list[Level])])
    record = cls(Open(7), Strict(3), Mood.SAD, [Level.LOW])

    assert not get_serializer("msgpack").codec(shape_of(cls)).encode(record).startswith(b"\xc1")
    assert_exact(round_trip("msgpack", record), record)


def test_a_literal_of_an_enum_by_name() -> None:
    """A Literal leads to the class of the members that it names."""
    cls = make_dataclass("Row", [("a", Literal[Mood.GLAD, "x"])])

    assert_exact(round_trip("json", cls(Mood.SAD)), cls(Mood.SAD))


# -- containers

Pair = namedtuple("Pair", ["left", "right"])


class Typed(NamedTuple):
    left: Any
    right: deque[int]


CONTAINERS: list[Any] = [
    OrderedDict([("b", 1), ("a", (2,))]), OrderedDict(), OrderedDict({(1,): 2, "\ud800": 3}),
    deque([1, (2,)]), deque([1, 2], maxlen=2), deque(maxlen=0), Counter("abca"), Counter(),
    Counter({(1, 2): -3, "x": 2.5}), range(5), range(0), range(1, 1), range(0, -(2**70), -(2**65)),
    range(3, 3, 2), deque([deque([OrderedDict(a=Counter("a"))])]),
]  # fmt: skip


@pytest.mark.parametrize("value", CONTAINERS, ids=repr)
def test_containers_come_back(spec: str, value: Any) -> None:
    """A lesser container comes back as it was, with its order, limit or bounds."""
    for held in (value, [value], {"k": value}, (value, value)):
        assert_exact(round_trip(spec, Holder(held)).value, held)
    assert_exact(round_trip(spec, {"v": value}), {"v": value, "id": 7})


@pytest.mark.parametrize("value", CONTAINERS, ids=repr)
def test_containers_are_cloned(value: Any) -> None:
    """A clone of one is equal and, where it can change, another."""
    clone = deep(value)

    assert_exact(clone, value)
    assert (clone is value) == isinstance(value, range)


def test_clones_of_containers_share_nothing() -> None:
    """What is in a container is copied with it."""
    for value in (deque([[1]], 3), OrderedDict(a=[1]), Counter(a=[1])):  # type: ignore[call-overload]
        key: Any = 0 if isinstance(value, deque) else "a"
        deep(value)[key].append(2)
        assert value[key] == [1]
    noted: Any = OrderedDict(a=[1])
    noted.note = [1]
    deep(noted).note.append(2)
    assert noted.note == [1]


def test_containers_made_by_an_alias(spec: str) -> None:
    """What is noted on an object that was made by a generic alias is no attribute of its own."""
    aliased: list[Any] = [
        Counter[str]("aab"), OrderedDict[str, int](a=1), typing.OrderedDict(a=1), deque[int]([1], 3)
    ]  # fmt: skip
    for value in aliased:
        assert_exact(round_trip(spec, Holder([value])).value[0], value)
        assert_exact(deep(value), value)
    value = OrderedDict[str, int](a=1)
    value.note = 1  # type: ignore[attr-defined]
    if spec != "pickle":
        with pytest.raises(EncodeError, match="its own attributes would be lost"):
            round_trip(spec, Holder(value))


def test_annotated_containers(spec: str) -> None:
    """Such containers may be annotated, and lead to the classes that are in them."""
    cls = make_dataclass(
        "Row",
        [
            *(("a", deque[Planet]), ("b", OrderedDict[str, Color]), ("c", Counter[Color])),
            *(("d", range), ("e", Pair), ("f", list[Typed])),
        ],
    )
    record = cls(
        deque([Planet(1.0)]), OrderedDict(a=Color.RED), Counter([Color.RED]), range(3),
        Pair(1, [2]), [Typed((1,), deque([1]))],
    )  # fmt: skip

    assert_exact(round_trip(spec, record), record)


def test_a_default_dict_is_refused() -> None:
    """A defaultdict is refused, as its factory could not come back, with what to do."""
    codec = get_serializer("json").codec(shape_of(Holder))

    with pytest.raises(EncodeError) as caught:
        codec.encode(Holder([defaultdict(int)]))
    assert str(caught.value) == (
        "value[0]: can't store a value of type collections.defaultdict: its factory would be "
        "lost. Convert it with dict()."
    )


@pytest.mark.parametrize("make", [list, deque, lambda v: OrderedDict(a=v[0]), lambda v: {1: v[0]}])
def test_values_that_contain_themselves(make: Any) -> None:
    """What contains itself, or is nested without end, is refused with path, type and advice."""
    value: Any = 1
    for _ in range(MAX_DEPTH + 1):
        value = make([value])
    loop: deque[Any] = deque()
    loop.append(loop)
    codec = get_serializer("json").codec(shape_of(Holder))
    for bad in (value, loop):
        with pytest.raises(EncodeError, match=r"^value.*: a value of type [\w.]+ is nested deeper"):
            codec.encode(Holder(bad))


def test_subclasses_are_refused_with_their_path() -> None:
    """Text and numbers of classes of one's own are refused, deep in a value too."""

    class Name(str):
        pass

    class Count(int):
        pass

    codec = get_serializer("binary").codec(shape_of(Holder))
    for value, base in ((Name("n"), "str"), (Count(1), "int")):
        with pytest.raises(
            EncodeError, match=f"(Name|Count): it is a subclass of {base}"
        ) as caught:
            codec.encode(Holder({"a": (1, value)}))
        assert caught.value.field == "value['a'][1]"


class Moment(datetime):
    pass


def test_a_class_that_no_annotation_names() -> None:
    """A record or member of a class that the annotations do not lead to: name it there."""
    codec = get_serializer("binary").codec(shape_of(Holder))
    for value, what in (
        (Planet(1.0), "a record"),
        (Pair(1, 2), "a record"),
        (Color.RED, "a member"),
        (Level.LOW, "a member"),
        (Strict.A, "a member"),
    ):
        with pytest.raises(EncodeError) as caught:
            codec.encode(Holder([value]))
        with pytest.raises(EncodeError) as in_dict:
            get_serializer("binary").codec(shape_of(None)).encode({"value": value})

        name = f"{__name__}.{type(value).__qualname__}"
        start = f"can't store a value of type {name}: it is {what} of a class that no annotation"
        assert str(caught.value).startswith(f"value[0]: {start} leads to. Name its class in the ")
        assert str(in_dict.value).startswith(f"['value']: {start} leads to. Convert it, or use a ")


def test_the_nearest_base_is_named() -> None:
    """Of a class derived from a builtin the message names the builtin that is nearest."""
    codec = get_serializer("binary").codec(shape_of(Holder))
    derived = {"datetime": Moment(2024, 1, 1), "Counter": type("Bag", (Counter,), {})()}
    for base, value in derived.items():
        with pytest.raises(EncodeError, match=rf"it is a subclass of \w+\.{base}, "):
            codec.encode(Holder(value))


def test_every_refusal_says_what_to_do() -> None:
    """Each message has the path, the full name of the type, and what to do."""
    codec = get_serializer("json").codec(shape_of(Holder))
    bad = Holder(1)
    del bad.value
    messages = []
    for record in (Holder(object()), Holder([np.zeros(1, "O")]), bad, Holder(Decimal)):
        with pytest.raises(EncodeError) as caught:
            codec.encode(record)
        messages.append(str(caught.value))

    assert messages[0].startswith("value: can't store a value of type object: it is not a ")
    assert messages[1].startswith("value[0]: can't store a value of type numpy.ndarray: ")
    assert messages[2] == (
        f"value: the record has no value for this field of {__name__}.Holder. "
        "Set it before storing the record."
    )
    assert "of type type:" in messages[3]
    assert all(re.search(r"\. (Convert|Use|Set) ", message) for message in messages)


def test_plain_forms_are_json() -> None:
    """The plain form of everything here is what JSON and MessagePack hold without loss."""
    for value in [*ARRAYS.values(), *SCALARS, *CONTAINERS]:
        plain = TIER.to_plain(value)

        assert orjson.loads(orjson.dumps(plain)) == plain
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(plain)) == plain
