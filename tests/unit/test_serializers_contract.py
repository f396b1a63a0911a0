"""The contract that each serializer keeps, as one class that their tests inherit."""

import copy
import enum
import functools
import random
from collections import OrderedDict
from dataclasses import make_dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import attrs
import msgspec
import pytest

from memdb.errors import DecodeError, EncodeError, RecordTypeError
from memdb.serializers import MAX_DEPTH, Codec, get_serializer, shape_of, writer_schema
from tests.support.exact import assert_exact, is_exact
from tests.support.records import (
    RECORDS,
    REFUSED,
    STRICT_STRUCTS,
    VALUES,
    Address,
    AttrsRecord,
    BetterAddress,
    Color,
    Derived,
    Frozen,
    Holder,
    Level,
    Mixed,
    MyText,
    Node,
    Pair,
    Permission,
    Plain,
    PostStruct,
    Shade,
    Slotted,
    Strict,
    Struct,
    Text,
    Typed,
    Untyped,
    Watched,
    Wide,
    make_wide,
)


def with_identity(record: Any, identity: int) -> Any:
    """Return a copy of a record with its identity set."""
    shape = shape_of(type(record))
    changed = copy.deepcopy(record)
    if shape.identity is None:
        return changed
    if isinstance(record, dict):
        return {**{key: item for key, item in changed.items() if key != "id"}, "id": identity}
    if shape.kind == "namedtuple":
        return changed._replace(id=identity)
    if shape.kind == "struct":
        msgspec.structs.force_setattr(changed, "id", identity)
    else:
        object.__setattr__(changed, "id", identity)
    return changed


@functools.cache
def _codec(spec: str, cls: type | None, writer: type | None) -> Codec:
    serializer = get_serializer(spec)
    schema = None if writer is None else writer_schema(shape_of(writer), serializer)
    return serializer.codec(shape_of(cls), schema)


class SerializerContract:
    """What every serializer keeps; a subclass says which."""

    spec: str

    def codec(self, cls: type | None, writer: type | None = None) -> Codec:
        """Return a codec for a class, reading what was written with another one."""
        return _codec(self.spec, cls, writer)

    def round_trip(self, record: Any, identity: int = 7) -> Any:
        """Return a record after encoding and decoding."""
        codec = self.codec(type(record))
        return codec.decode(codec.encode(record), identity)

    @pytest.mark.parametrize("record", RECORDS, ids=lambda r: type(r).__name__)
    def test_records_come_back(self, record: Any) -> None:
        """A record of every kind comes back equal in value and type, with its identity set."""
        before = copy.deepcopy(record)

        actual = self.round_trip(record)

        assert_exact(actual, with_identity(before, 7))
        assert_exact(record, before)

    @pytest.mark.parametrize("value", VALUES, ids=lambda v: type(v).__name__)
    def test_values_come_back(self, value: Any) -> None:
        """A supported value comes back equal in value and type from a field of any annotation."""
        assert_exact(self.round_trip(Holder(value)), Holder(value))
        assert_exact(self.round_trip(Untyped(value)), Untyped(value))
        assert_exact(self.round_trip({"v": value}, 7), {"v": value, "id": 7})
        names = [f.name for f in shape_of(Typed).fields]
        for name in names:
            assert_exact(self.round_trip(Typed(**{name: value})), Typed(**{name: value}))

    @pytest.mark.parametrize("value", VALUES, ids=lambda v: type(v).__name__)
    def test_values_come_back_from_every_annotation(self, value: Any) -> None:
        """Whatever the annotation, what a field holds comes back, as do the elements in it."""
        wide = make_wide()
        for name in ("numbers", "many", "counts", "nested", "looser", "moments", "either"):
            held = getattr(wide, name)
            for changed in (
                value,
                [value],
                (value,),
                {"k": value},
                type(held)([*held, value]) if isinstance(held, list | tuple) else value,
            ):
                record = make_wide(**{name: changed})
                assert_exact(self.round_trip(record), record)

    @pytest.mark.parametrize(
        "member",
        [*Color, *Level, *Text, Mixed.TEXT, Mixed.NUMBER, Mixed.PAIR, *Permission, *Shade],
    )
    def test_enum_members_come_back(self, member: enum.Enum) -> None:
        """An Enum member comes back as itself, whatever its value."""
        cls = make_dataclass("Choice", [("value", type(member)), ("other", type(member) | None)])

        actual = self.round_trip(cls(member, None))

        assert actual.value is member

    def test_combined_flags_come_back(self) -> None:
        """A combination of flags comes back as that combination."""
        cls = make_dataclass("Choice", [("value", Permission)])
        value = Permission.READ | Permission.WRITE

        assert_exact(self.round_trip(cls(value)).value, value)
        assert_exact(self.round_trip(cls(Permission(0))).value, Permission(0))

    def test_dicts_come_back(self) -> None:
        """A plain dict comes back with the identity under "id", whatever stood there."""
        codec = self.codec(None)

        assert codec.decode(codec.encode({"a": 1, "id": 3}), 9) == {"a": 1, "id": 9}
        assert codec.decode(codec.encode({}), 9) == {"id": 9}
        assert codec.decode(codec.encode({1: (2,), "id": "x"}), 9) == {1: (2,), "id": 9}

    def test_decoding_twice_shares_nothing(self) -> None:
        """Two records decoded from the same bytes share nothing that can be changed."""
        codec = self.codec(Wide)
        for record in (make_wide(), make_wide(number=2**70)):
            data = codec.encode(record)
            first, second = codec.decode(data, 1), codec.decode(data, 1)
            first.numbers.append(9)
            first.array.append(9)
            first.words.add("more")
            first.address.lines.append("more")
            first.addresses["home"][0].lines.append("more")
            first.anything["a"].append(9)

            assert_exact(second, record)

    def test_later_changes_do_not_reach_the_bytes(self) -> None:
        """What is done to a record after encoding is not in the bytes."""
        codec = self.codec(Plain)
        record = Plain("Ann", date(2000, 1, 1), Address("Paris"), ["x"])
        expected = with_identity(record, 1)

        data = codec.encode(record)
        record.tags.append("y")
        assert record.address is not None
        record.address.city = "Rome"

        assert_exact(codec.decode(data, 1), expected)

    def test_no_user_code_runs(self) -> None:
        """Decoding runs neither __init__ nor __post_init__ nor __setattr__ of a dataclass."""
        codec = self.codec(Watched)
        record = Watched("abc")
        record.size = 99
        object.__setattr__(record, "name", "refused")
        data = codec.encode(record)
        calls = Watched.calls

        actual = codec.decode(data, 1)

        assert (actual.name, actual.size, Watched.calls) == ("refused", 99, calls)

    def test_a_struct_keeps_what_post_init_would_change(self) -> None:
        """A Struct's values come back as they were, whatever its __post_init__ makes of them."""
        record = PostStruct(1)
        msgspec.structs.force_setattr(record, "a", -1)

        assert self.round_trip(record).a == -1

    @pytest.mark.parametrize("make", STRICT_STRUCTS, ids=lambda make: make.__name__)
    def test_post_init_of_a_struct_does_not_run(self, make: Any) -> None:
        """A Struct that would refuse what is stored comes back all the same, nested too."""
        made = make(1)
        msgspec.structs.force_setattr(made, "a", -1)
        holder = make_dataclass("Holder", [("one", make), ("many", list[make])])
        codec, outer = self.codec(make), self.codec(holder)
        data = codec.encode(made)
        before = Strict.calls
        actual = codec.decode(data, 1)

        assert (type(actual), actual.a, Strict.calls) == (make, -1, before)
        if self.spec != "pickle":
            nested = outer.decode(outer.encode(holder(made, [made])), 1)
            assert (nested.one.a, nested.many[0].a, Strict.calls) == (-1, -1, before)

    def test_a_struct_that_nothing_can_be_derived_from(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Where its metaclass is in the way ``__post_init__`` runs, and changes nothing."""

        def refuse(cls: Any) -> Any:
            raise TypeError("final")

        class Final(msgspec.Struct):
            a: int
            seen: int = 0

            def __post_init__(self) -> None:
                if self.a < 0:
                    raise ValueError("negative")
                self.seen += 1

        monkeypatch.setattr("memdb.serializers._build._blank_struct", refuse)
        record = Final(1)
        assert self.round_trip(record).seen == 1

        record.a = -1
        with pytest.raises(DecodeError, match=r"Final \(ValueError\)"):
            self.round_trip(record)

    def test_another_class_is_refused(self) -> None:
        """A record of another class, even of a subclass, is refused."""
        codec = self.codec(Address)

        for record in (BetterAddress("a"), {"city": "a"}, None):
            with pytest.raises(RecordTypeError, match="can't be stored as Address"):
                codec.encode(record)
        with pytest.raises(RecordTypeError, match="can't be stored as dict"):
            self.codec(None).encode(OrderedDict())

    def test_a_missing_attribute_is_refused(self) -> None:
        """A record that lacks a field's attribute is refused with the field's name."""
        record = Plain("Ann", date(2000, 1, 1))
        del record.name

        with pytest.raises(EncodeError, match="name: the record has no value") as caught:
            self.codec(Plain).encode(record)
        assert caught.value.field == "name"

    def test_a_memoryview_is_decoded(self) -> None:
        """A view of the bytes decodes as the bytes do, in both tiers."""
        codec = self.codec(Plain)
        for record in (Plain("a", date(2000, 1, 1), id=7), Plain("\ud800", date(2000, 1, 1), id=7)):
            assert_exact(codec.decode(memoryview(codec.encode(record)), 7), record)  # type: ignore[arg-type]

    # -- older writers

    def test_added_fields_get_their_default(self) -> None:
        """A field added since gets its default, a fresh one for each record."""
        old = make_dataclass("Plain", [("name", str), ("born", date)])
        new = self.codec(Plain, old)
        for name in ("Ann", "\ud800"):
            data = self.codec(old).encode(old(name, date(2000, 1, 1)))
            first, second = new.decode(data, 3), new.decode(data, 4)
            first.tags.append("x")

            assert_exact(first, Plain(name, date(2000, 1, 1), None, ["x"], 3))
            assert_exact(second, Plain(name, date(2000, 1, 1), None, [], 4))

    def test_a_mutable_default_is_not_shared(self) -> None:
        """A default value that can be changed is copied for each record."""
        old = attrs.make_class("Record", {"a": attrs.field(type=int)})
        new = attrs.make_class(
            "Record", {"a": attrs.field(type=int), "b": attrs.field(type=list, default=[])}
        )
        codec = self.codec(new, old)
        data = self.codec(old).encode(old(1))
        codec.decode(data, 1).b.append(1)

        assert codec.decode(data, 1).b == []

    def test_removed_and_reordered_fields(self) -> None:
        """A removed field is dropped, and fields are found by name in any order."""
        old = make_dataclass(
            "Plain", [("tags", list[str]), ("gone", Any), ("born", date), ("name", str)]
        )
        new = self.codec(Plain, old)
        for gone in (1, {"a": [1]}, 2**70, (1, 2)):
            data = self.codec(old).encode(old(["t"], gone, date(2000, 1, 1), "Ann"))

            assert_exact(new.decode(data, 3), Plain("Ann", date(2000, 1, 1), None, ["t"], 3))

    def test_a_missing_required_field(self) -> None:
        """A required field that the older class did not have is an error that names it."""
        old = make_dataclass("Plain", [("name", str)])
        new = self.codec(Plain, old)
        for name in ("Ann", "\ud800"):
            data = self.codec(old).encode(old(name))
            with pytest.raises(DecodeError, match=r"born: .* Give the field a default") as caught:
                new.decode(data, 3)

            assert caught.value.field == "born"

    def test_the_writer_may_lack_the_identity(self) -> None:
        """A class that has gained an identity field reads what was written without one."""
        old = make_dataclass("Frozen", [("name", str), ("born", date)])
        data = self.codec(old).encode(old("a", date(2000, 1, 1)))

        assert_exact(self.codec(Frozen, old).decode(data, 5), Frozen("a", date(2000, 1, 1), 5))

    def test_a_codec_for_old_bytes_encodes_for_the_class_as_it_is(self) -> None:
        """With a writer schema only decoding differs."""
        old = make_dataclass("Frozen", [("born", date)])
        record = Frozen("a", date(2000, 1, 1))

        assert self.codec(Frozen, old).encode(record) == self.codec(Frozen).encode(record)

    def test_typed_payloads_read_as_dicts(self) -> None:
        """Without the class a typed payload reads as a dict of its fields."""
        record = Slotted(0, "n", datetime(2024, 1, 1, tzinfo=UTC), Decimal("1.10"), 5, True)
        for number in (5, 2**70):
            record.count = number
            data = self.codec(Slotted).encode(record)

            assert_exact(
                self.codec(None, Slotted).decode(data, 8),
                {
                    "name": "n",
                    "created_at": datetime(2024, 1, 1, tzinfo=UTC),
                    "amount": Decimal("1.10"),
                    "count": number,
                    "is_active": True,
                    "id": 8,
                },
            )

    def test_typed_payloads_of_nested_records_read_as_dicts(self) -> None:
        """Without the classes nested records read as dicts, and Enum members as their values."""
        old = make_dataclass("Choice", [("value", Color | None), ("other", Any)])
        data = self.codec(old).encode(old(Color.RED, (1,)))

        if self.spec != "pickle":
            actual = self.codec(None, old).decode(data, 8)
            assert_exact(actual, {"value": "red", "other": (1,), "id": 8})

    def test_dicts_read_as_typed(self) -> None:
        """A dict's payload reads as a class that has the same fields."""
        codec = self.codec(Frozen, dict)
        data = self.codec(None).encode({"name": "a", "born": date(2000, 1, 1), "more": 1})

        assert_exact(codec.decode(data, 5), Frozen("a", date(2000, 1, 1), 5))

    def test_an_annotation_that_says_less(self) -> None:
        """Values keep their type when a field's annotation becomes Any."""
        old = make_dataclass("Holder", [("value", list[date]), ("other", Decimal | None)])
        new = make_dataclass("Holder", [("value", list), ("other", Any)])
        data = self.codec(old).encode(old([date(2000, 1, 1)], Decimal("1.0")))

        assert_exact(self.codec(new, old).decode(data, 1), new([date(2000, 1, 1)], Decimal("1.0")))

    # -- wrong bytes

    @pytest.mark.parametrize("cls", [Plain, Slotted, Struct, Pair, AttrsRecord, Wide, None])
    def test_garbage_is_refused(self, cls: type | None) -> None:
        """Random bytes give a DecodeError or a record of the class, and no other exception."""
        codec = self.codec(cls)
        source = random.Random(5)
        for _ in range(300):
            data = source.randbytes(source.randrange(0, 60))
            if self.spec == "pickle" and data.startswith((b"c", b"(")):
                continue
            try:
                record = codec.decode(data, 1)
            except DecodeError as error:
                assert len(str(error)) > 20
            else:
                assert type(record) is (cls or dict)

    @pytest.mark.parametrize("cut", [0, 1, -1])
    def test_truncated_bytes_are_refused(self, cut: int) -> None:
        """Every shorter or longer piece of a payload is refused."""
        for record in (make_wide(), make_wide(number=2**70), {"a": 1}, {"a": (1,)}):
            codec = self.codec(type(record))
            data = codec.encode(record)
            pieces = [data[: len(data) // 2 + cut], data[:-1], b""]
            # Without its first byte a dict of the exact tier is a dict of the fast one.
            pieces += [data[1:]] if type(record) is Wide else []
            for piece in pieces:
                with pytest.raises(DecodeError):
                    codec.decode(piece, 1)

    def test_another_class_payload(self) -> None:
        """A payload of a class with other fields is refused with the first that does not fit."""
        data = self.codec(Pair).encode(Pair(1, "x"))

        with pytest.raises(DecodeError) as caught:
            self.codec(Plain).decode(data, 1)
        assert caught.value.field in ("name", "")


class ExactContract(SerializerContract):
    """What the serializers keep that hold values by their own description."""

    @pytest.mark.parametrize("record", RECORDS, ids=lambda r: type(r).__name__)
    def test_the_bytes_are_repeatable(self, record: Any) -> None:
        """Encoding a record twice, and what was decoded from it, gives the same bytes."""
        codec = self.codec(type(record))
        data = codec.encode(record)

        assert codec.encode(copy.deepcopy(record)) == data
        assert codec.encode(codec.decode(data, 0)) == data

    def test_nested_records_change_too(self) -> None:
        """A nested class may gain fields with a default, and lose fields."""
        old_address = make_dataclass("Address", [("city", str), ("gone", int)])
        old = make_dataclass("Derived", [("a", int), ("b", str), ("c", list[old_address])])  # type: ignore[valid-type]
        old_address.__qualname__ = "Address"
        new = self.codec(Derived, old)
        for number in (1, 2**70):
            data = self.codec(old).encode(old(number, "b", [old_address("Paris", 1)]))

            assert_exact(new.decode(data, 1), Derived(number, "b", [Address("Paris")]))

    @pytest.mark.parametrize(("what", "value", "path"), REFUSED, ids=[r[0] for r in REFUSED])
    def test_refused_values(self, what: str, value: Any, path: str) -> None:
        """A value that could not come back exactly is refused with the path of its field."""
        with pytest.raises(EncodeError) as caught:
            self.codec(Holder).encode(Holder(value))
        assert caught.value.field == path
        assert str(caught.value).startswith(f"{path}: ")

        if what != "record of an unnamed class":
            with pytest.raises(EncodeError) as caught:
                self.codec(None).encode({"a": value})
            assert caught.value.field == f"['a']{path.removeprefix('value')}"

    def test_the_path_of_a_nested_field(self) -> None:
        """The path leads through nested records and lists to the value."""
        record = Plain("a", date(2000, 1, 1), Address("c", ["x", MyText("y")]))

        with pytest.raises(EncodeError, match=r"^address\.lines\[1\]: .*MyText.*subclass of str"):
            self.codec(Plain).encode(record)

    def test_a_subclass_of_a_nested_class_comes_back(self) -> None:
        """A nested record of a class derived from the annotated one keeps its class and part."""
        record = Plain("a", date(2000, 1, 1), BetterAddress("c", zip_code="z"), [], 7)

        assert_exact(self.round_trip(record), record)

    def test_values_are_not_in_messages(self) -> None:
        """An error tells the type and the place of a value, never the value."""
        with pytest.raises(EncodeError) as caught:
            self.codec(Holder).encode(Holder(MyText("secret")))

        assert "secret" not in str(caught.value)
        assert 'serializer="pickle"' in str(caught.value)

    def test_a_value_that_contains_itself(self) -> None:
        """A value that contains itself is refused without a crash."""
        loop: list[Any] = []
        loop.append(loop)
        table: dict[str, Any] = {}
        table["a"] = [table]
        node = Node("a")
        node.children.append(node)

        for record in (Holder(loop), Holder(table), node, {"a": loop}, Holder((loop,))):
            with pytest.raises(EncodeError, match="contains itself"):
                self.codec(type(record)).encode(record)

    def test_the_depth_limit(self) -> None:
        """What is nested MAX_DEPTH levels deep comes back, one level more is refused."""
        for make in (lambda v: [v], lambda v: (v,), lambda v: {"k": v}, lambda v: {1: v}):
            value: Any = 1
            for _ in range(MAX_DEPTH - 1):
                value = make(value)

            assert_exact(self.round_trip(Holder(value)), Holder(value))
            with pytest.raises(EncodeError, match="nested deeper than"):
                self.round_trip(Holder(make(make(value))))

    def test_an_enum_member_without_name_in_the_file(self) -> None:
        """A member whose value can't be stored is stored by its name."""
        cls = make_dataclass("Choice", [("value", Mixed)])

        assert self.round_trip(cls(Mixed.OBJECT)).value is Mixed.OBJECT
        assert self.round_trip(cls(Mixed.DEEP)).value is Mixed.DEEP

    def test_equal_sets_give_equal_bytes(self) -> None:
        """The order in which a set was filled is not in the bytes."""
        one, other = {"a", "b", "c"}, {"c"}
        other |= {"b", "a"}
        codec = self.codec(Typed)
        for extra in ({}, {"number": 2**70}):
            assert codec.encode(Typed(group=one, **extra)) == codec.encode(
                Typed(group=other, **extra)
            )

    def test_a_field_of_another_type_names_itself(self) -> None:
        """Bytes whose field is of another type are refused with the field's name."""
        old = make_dataclass("Slim", [("name", list[int]), ("born", date)])
        new = make_dataclass("Slim", [("name", str), ("born", date)])
        data = self.codec(old).encode(old([1], date(2000, 1, 1)))

        with pytest.raises(DecodeError, match=r"^name: the bytes do not fit Slim") as caught:
            self.codec(new, old).decode(data, 1)
        assert caught.value.field == "name"

    def test_a_class_that_is_no_longer_named(self) -> None:
        """A payload can't bring in a class that the annotations do not name."""
        old = make_dataclass("Choice", [("value", Color | Address), ("number", int)])
        new = make_dataclass("Choice", [("value", Any), ("number", int)])
        for value in (Color.RED, Address("a")):
            data = self.codec(old).encode(old(value, 2**70))
            with pytest.raises(DecodeError, match=r"names the class (Color|Address)"):
                self.codec(new, old).decode(data, 1)

    def test_flipped_bytes(self) -> None:
        """A payload with one byte changed gives an error or a record, never another exception."""
        for record in (make_wide(), make_wide(number=2**70)):
            codec = self.codec(Wide)
            data = codec.encode(record)
            for place in range(0, len(data), 3):
                changed = bytearray(data)
                changed[place] ^= 0x15
                try:
                    actual = codec.decode(bytes(changed), 1)
                except DecodeError:
                    continue
                assert type(actual) is Wide


class TestBinary(ExactContract):
    """The binary serializer keeps the contract."""

    spec = "binary"


class TestMsgpack(ExactContract):
    """The msgpack serializer keeps the contract."""

    spec = "msgpack"


class TestJson(ExactContract):
    """The json serializer keeps the contract."""

    spec = "json"


class TestPickle(SerializerContract):
    """The pickle serializer keeps the contract, as far as the values' own pickling does."""

    spec = "pickle"


def test_the_comparison_tells_types_apart() -> None:
    """The helper of these tests is not fooled by values that only compare equal."""
    pairs = [(1, True), (1, 1.0), (0.0, -0.0), ([1], (1,)), (Decimal("1"), Decimal("1.0"))]
    pairs += [({1}, {True}), ({"a": 1, "b": 2}, {"b": 2, "a": 1}), (Color.RED, "red")]
    pairs += [(VALUES[40], VALUES[41])]

    assert not any(is_exact(one, other) for one, other in pairs)
    assert is_exact(float("nan"), float("nan"))


@pytest.mark.parametrize("spec", ["binary", "json", "msgpack"])
def test_members_whose_values_are_no_valid_text(spec: str) -> None:
    """A class with such an Enum is as any other; the exact tier holds the member."""
    odd: Any = enum.Enum("Odd", {"PLAIN": "a", "LONE": "\ud800"})  # type: ignore[misc]
    for cls in (make_dataclass("Row", [("v", odd)]), msgspec.defstruct("Row", [("v", odd)])):
        codec = get_serializer(spec).codec(shape_of(cls))
        for member in odd:
            assert_exact(codec.decode(codec.encode(cls(member)), 1), cls(member))
