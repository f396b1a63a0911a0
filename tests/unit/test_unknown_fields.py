"""What a newer program has stored survives when an older one changes the record."""

import enum
from collections import OrderedDict
from dataclasses import dataclass, field, make_dataclass, replace
from datetime import date
from decimal import Decimal
from typing import Any, TypedDict

import pydantic
import pytest

from memdb.errors import DecodeError, EncodeError, RecordTypeError
from memdb.serializers import (
    Evolution,
    get_serializer,
    make_decoder,
    shape_of,
    unknown_fields,
)
from tests.support.evolving import WAYS, encode, schema_of
from tests.support.exact import assert_exact

Way = tuple[str, str]


class Mood(enum.Enum):
    GOOD = "good"


@dataclass
class Street:
    name: str
    number: int = 1


@dataclass
class Zip:
    code: str


@dataclass
class NewStreet:
    name: str
    number: int = 1
    zip_code: Zip | None = None


NewStreet.__qualname__ = "Street"


@dataclass
class Person:
    """As the older program knows it."""

    name: str
    street: Street | None = None
    streets: dict[str, Street] = field(default_factory=dict)
    odd: Any = None
    id: int = 0


@dataclass
class NewPerson:
    """As the newer program knows it."""

    name: str
    born: date
    street: NewStreet | None = None
    streets: dict[str, NewStreet] = field(default_factory=dict)
    mood: Mood | None = None
    price: Decimal = Decimal(0)
    odd: Any = None
    id: int = 0


def changed(
    way: Way, record: Any, change: Any, *, new: Any = NewPerson, old: Any = Person, **evolution: Any
) -> Any:
    """Return a newer program's record after an older one has changed it, as the newer reads it."""
    spec, tier = way
    serializer = get_serializer(spec)
    data, schema = encode(spec, tier, record), schema_of(spec, new)
    declared = Evolution(**evolution)
    seen = make_decoder(serializer, shape_of(old), schema, declared)(data, 7)
    change(seen)
    unknown = unknown_fields(serializer, shape_of(old), schema, declared)
    assert unknown is not None
    kept = unknown.of(data)
    assert kept is not None
    written = unknown.encode(seen, kept)
    # The older program goes on reading and changing what it has written.
    own = unknown_fields(serializer, shape_of(old), schema_of(spec, old), declared)
    assert own is not None
    seen = make_decoder(serializer, shape_of(old), schema_of(spec, old), declared)(written, 7)
    assert_exact(serializer.codec(shape_of(old)).decode(written, 7), seen)
    kept = own.of(written)
    assert kept is not None
    written = own.encode(seen, kept)
    return make_decoder(serializer, shape_of(new), schema_of(spec, old), Evolution())(written, 7)


def rename(record: Any) -> None:
    """Change the field that both programs know."""
    record.name = "changed"


@pytest.fixture(params=WAYS, ids="-".join)
def way(request: pytest.FixtureRequest) -> Way:
    """A serializer and a tier."""
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(params=[way for way in WAYS if way[0] != "pickle"], ids="-".join)
def exact_way(request: pytest.FixtureRequest) -> Way:
    """A serializer that holds values by their own description, and a tier."""
    return request.param  # type: ignore[no-any-return]


def test_unknown_fields_are_kept(way: Way) -> None:
    """What only the newer class has comes back exactly as it was, the rest as changed."""
    record = NewPerson("n", date(2000, 1, 1), mood=Mood.GOOD, price=Decimal("1.10"))

    actual = changed(way, record, rename)
    assert_exact(actual, replace(record, name="changed", id=7))


def test_nested_unknown_fields_are_kept(exact_way: Way) -> None:
    """Inside nested records too, directly or by the key of a dict."""
    street = NewStreet("s", 2, Zip("z"))
    record = NewPerson(
        "n", date(2000, 1, 1), street, {"a": street, "b": NewStreet("t", 3, Zip("y"))}
    )

    def change(seen: Person) -> None:
        assert seen.street is not None
        seen.street.number = 5
        seen.streets["a"].number = 6
        del seen.streets["b"]
        seen.streets["c"] = Street("u")

    expected = NewPerson(
        "n",
        date(2000, 1, 1),
        NewStreet("s", 5, Zip("z")),
        {"a": NewStreet("s", 6, Zip("z")), "c": NewStreet("u")},
        id=7,
    )
    assert_exact(changed(exact_way, record, change), expected)


def test_a_nested_record_that_is_gone_takes_its_fields_along(exact_way: Way) -> None:
    """There is no place any more for what was unknown in a record that was removed."""
    record = NewPerson("n", date(2000, 1, 1), NewStreet("s", 2, Zip("z")))

    def change(seen: Person) -> None:
        seen.street = None

    assert_exact(changed(exact_way, record, change), replace(record, street=None, id=7))


def test_another_class_in_its_place_takes_no_fields() -> None:
    """What was unknown in a record of one class is not put into one of another."""
    lane = make_dataclass("Lane", [("name", str), ("zip_code", Any, None)])
    lane.__qualname__ = "Lane"
    old = make_dataclass("Old", [("v", Street | lane)])
    new = make_dataclass("New", [("v", NewStreet | lane)])
    record = new(NewStreet("s", 1, Zip("z")))
    spec = "json"
    serializer = get_serializer(spec)
    data, schema = encode(spec, "exact", record), schema_of(spec, new)
    unknown = unknown_fields(serializer, shape_of(old), schema, Evolution())
    assert unknown is not None
    kept = unknown.of(data)
    assert kept is not None
    expected = b'["exact",{"v":["record","Lane",{"name":"l","zip_code":null}]}]'

    assert unknown.encode(old(lane("l")), kept) == expected


def test_keys_that_are_no_text(exact_way: Way) -> None:
    """Nested unknown fields are found again under keys of any type."""
    old = make_dataclass("Old", [("v", dict[date, Street]), ("id", int, 0)])
    new = make_dataclass("New", [("v", dict[date, NewStreet]), ("id", int, 0)])
    one, two = date(2000, 1, 1), date(2000, 1, 2)
    way = (exact_way[0], "exact")

    def change(seen: Any) -> None:
        seen.v[two] = seen.v.pop(two)
        seen.v[one].number = 9

    record = new({one: NewStreet("a", 1, Zip("x")), two: NewStreet("b", 1, Zip("y"))})
    actual = changed(way, record, change, new=new, old=old)

    expected = {two: NewStreet("b", 1, Zip("y")), one: NewStreet("a", 9, Zip("x"))}
    assert actual.v == expected


def test_a_renamed_field_is_not_unknown(way: Way) -> None:
    """What the program has declared to be called otherwise is not kept beside."""
    old = make_dataclass("Old", [("full_name", str)])
    new = make_dataclass("New", [("name", str), ("more", int)])
    spec, tier = way
    data, schema = encode(spec, tier, new("n", 1)), schema_of(spec, new)
    unknown = unknown_fields(
        get_serializer(spec), shape_of(old), schema, Evolution(renames={"name": "full_name"})
    )
    assert unknown is not None
    kept = unknown.of(data)
    assert kept is not None
    written = unknown.encode(old("m"), kept)
    both = make_dataclass("Both", [("full_name", str), ("name", str, ""), ("more", int, 0)])
    read = make_decoder(get_serializer(spec), shape_of(both), schema_of(spec, old), Evolution())

    assert_exact(read(written, 1), both("m", "", 1))


def test_nothing_unknown(way: Way) -> None:
    """A payload of the class itself, or of an older one, has nothing to be kept."""
    older = make_dataclass("Older", [("name", str), ("id", int, 0)])
    spec, tier = way
    for record in (Person("n", Street("s")), older("n")):
        schema = schema_of(spec, type(record))
        unknown = unknown_fields(get_serializer(spec), shape_of(Person), schema, Evolution())
        assert unknown is not None

        assert unknown.of(encode(spec, tier, record)) is None


def test_where_nothing_can_be_kept() -> None:
    """Plain dicts have no unknown fields, and between pickle and others nothing is carried over."""
    json, pickle = get_serializer("json"), get_serializer("pickle")
    schema = schema_of("json", NewPerson)
    shape, none = shape_of(Person), Evolution()

    assert unknown_fields(json, shape_of(None), schema_of("json", dict), none) is None
    assert unknown_fields(json, shape, schema_of("json", dict), none) is None
    assert unknown_fields(json, shape, schema, none, into=pickle) is None
    assert unknown_fields(pickle, shape, schema, none, into=json) is None


def test_from_one_serializer_into_another() -> None:
    """A payload of one serializer is written again by another, unknown fields and all."""
    record = NewPerson("n", date(2000, 1, 1), price=Decimal("1.10"))
    binary = get_serializer("binary")
    for spec in ("json", "msgpack"):
        schema = schema_of(spec, NewPerson)
        unknown = unknown_fields(
            get_serializer(spec), shape_of(Person), schema, Evolution(), into=binary
        )
        assert unknown is not None
        kept = unknown.of(encode(spec, "fast", record))
        assert kept is not None
        written = unknown.encode(Person("m"), kept)
        read = make_decoder(binary, shape_of(NewPerson), schema_of("binary", Person), Evolution())

        assert_exact(read(written, 7), replace(record, name="m", id=7))


def test_wrong_records_are_refused(way: Way) -> None:
    """Only a record of the class can be written, and only if its values can be held."""
    spec, tier = way
    record = NewPerson("n", date(2000, 1, 1))
    schema = schema_of(spec, NewPerson)
    unknown = unknown_fields(get_serializer(spec), shape_of(Person), schema, Evolution())
    assert unknown is not None
    kept = unknown.of(encode(spec, tier, record))
    assert kept is not None

    with pytest.raises(RecordTypeError):
        unknown.encode(record, kept)
    with pytest.raises(EncodeError, match="odd"):
        unknown.encode(Person("n", odd=lambda: None), kept)


def test_an_older_program_reads_past_classes_it_does_not_know(exact_way: Way) -> None:
    """An unknown field may hold records of classes that the older program has never seen."""
    old = make_dataclass("Old", [("n", int)])
    new = make_dataclass("New", [("n", int), ("street", NewStreet)])
    spec = exact_way[0]
    data = encode(spec, exact_way[1], new(1, NewStreet("s", 1, Zip("z"))))
    read = make_decoder(get_serializer(spec), shape_of(old), schema_of(spec, new), Evolution())

    assert_exact(read(data, 1), old(1))


def test_an_upgrade_sees_what_was_kept(exact_way: Way) -> None:
    """A newer program that upgrades what an older one wrote finds its own fields beside."""
    spec = exact_way[0]
    serializer = get_serializer(spec)
    record = NewPerson("n", date(2000, 1, 1), NewStreet("s", 2, Zip("z")), price=Decimal("1.10"))
    unknown = unknown_fields(
        serializer, shape_of(Person), schema_of(spec, NewPerson, version=2), Evolution()
    )
    assert unknown is not None
    kept = unknown.of(encode(*exact_way, record))
    assert kept is not None
    written = unknown.encode(Person("m", Street("t")), kept)
    seen: list[dict[str, Any]] = []

    def upgrade(values: dict[str, Any]) -> None:
        seen.append(dict(values))
        values["born"] = date(2001, 1, 1)

    read = make_decoder(
        serializer,
        shape_of(NewPerson),
        schema_of(spec, Person),
        Evolution(2, upgrades={2: upgrade}),
    )

    expected = replace(
        record, name="m", street=NewStreet("t", 1, Zip("z")), born=date(2001, 1, 1), id=7
    )
    assert_exact(read(written, 7), expected)
    assert seen[0]["price"] == Decimal("1.10")


def test_payloads_that_hold_what_can_not_be_read() -> None:
    """What is no payload, or no plain form, is an error, which names what is wrong with it."""
    for spec in ("binary", "json", "msgpack"):
        serializer: Any = get_serializer(spec)
        schema = schema_of(spec, NewPerson)
        unknown = unknown_fields(serializer, shape_of(Person), schema, Evolution())
        assert unknown is not None
        exact = serializer.exact_bytes({"odd": ["dict", [1]]})
        for data in (exact, exact[:-1], serializer.exact_bytes(5), b"", b"\xff"):
            with pytest.raises(DecodeError):
                unknown.of(data)


# -- models of pydantic


class Part(pydantic.BaseModel):
    size: int = 1


class Doc(pydantic.BaseModel, extra="allow"):
    """As the older program knows it."""

    name: str = "n"
    size: int = 1
    part: Part | None = None
    parts: dict[str, Part] = {}
    id: int = 0


class ClosedDoc(pydantic.BaseModel):
    """As another older program knows it, which wants nothing further."""

    name: str = "n"
    size: int = 1
    id: int = 0


class NewPart(pydantic.BaseModel):
    size: int = 1
    color: str = "c"
    shape: str = "s"


NewPart.__qualname__ = "Part"


class NewDoc(pydantic.BaseModel, extra="allow"):
    """As the newer program knows it."""

    name: str = "n"
    size: int = 1
    note: str = ""
    mark: int = 0
    part: NewPart | None = None
    parts: dict[str, NewPart] = {}
    id: int = 0


MODEL_WAYS = [("binary", "exact"), ("json", "exact"), ("msgpack", "exact"), ("pickle", "only")]


@pytest.fixture(params=MODEL_WAYS, ids="-".join)
def model_way(request: pytest.FixtureRequest) -> Way:
    """A serializer, and the tier of records that are not as usual."""
    return request.param  # type: ignore[no-any-return]


@pytest.mark.parametrize("old", [Doc, ClosedDoc])
def test_which_unknown_fields_were_set(model_way: Way, old: Any) -> None:
    """A field that only the newer model has stays set or not set, further values stay too."""
    record = NewDoc(size=2, note="x", more=[1], other=2)  # type: ignore[call-arg]
    actual = changed(model_way, record, rename, new=NewDoc, old=old)

    expected = NewDoc(name="changed", size=2, note="x", more=[1], other=2, id=7)  # type: ignore[call-arg]
    assert_exact(actual, expected)


def test_all_unknown_fields_were_set(way: Way) -> None:
    """Where every field was set that need not be said, and still holds for the newer model."""
    record = NewDoc(name="n", size=2, note="x", mark=3, part=None, parts={})
    actual = changed(way, record, rename, new=NewDoc, old=Doc)

    assert_exact(actual, record.model_copy(update={"name": "changed", "id": 7}))


def test_the_older_program_sets_less_than_all() -> None:
    """What the older program has replaced by a record of its own says which fields are set."""
    for way in MODEL_WAYS:
        record = NewDoc(name="n", size=2, note="x", mark=3, part=None, parts={})

        def replace_all(seen: Doc) -> None:
            object.__setattr__(seen, "__pydantic_fields_set__", {"name"})

        actual = changed(way, record, replace_all, new=NewDoc, old=Doc)
        assert actual.model_fields_set - {"id"} == {"name", "note", "mark"}


def test_which_unknown_fields_of_nested_models_were_set() -> None:
    """The same for models inside, where the older program may set what was not set before."""
    for way in MODEL_WAYS[:-1]:
        inner = NewPart(color="red")
        record = NewDoc(note="x", part=inner, parts={"k": inner})

        def change(seen: Doc) -> None:
            assert seen.part is not None
            seen.part.size = 5

        actual = changed(way, record, change, new=NewDoc, old=Doc)
        expected = NewDoc(
            note="x", part=NewPart(color="red", size=5), parts={"k": NewPart(color="red")}, id=7
        )
        assert_exact(actual, expected)


def test_unknown_fields_in_ordered_dicts(exact_way: Way) -> None:
    """A dict that keeps its order on purpose is no other place than a dict."""
    new = make_dataclass("Shelf", [("name", str), ("by", Any), ("street", NewStreet | None, None)])
    old = make_dataclass("Shelf", [("name", str), ("by", Any), ("street", Street | None, None)])
    record = new("n", OrderedDict(b=NewStreet("s", 2, Zip("z"))))
    actual = changed((exact_way[0], "exact"), record, rename, new=new, old=old)

    assert_exact(actual, new("changed", OrderedDict(b=NewStreet("s", 2, Zip("z")))))


# -- renamed since


@dataclass
class First:
    """As the oldest program knows it, which carries the rest over."""

    name: str
    n: int = 0
    id: int = 0


@dataclass
class Second:
    """As a newer program knows it, which has written the record."""

    name: str
    n: int = 0
    extra: Any = None
    mood: Mood | None = None
    street: Street | None = None
    cents: int = 0
    id: int = 0


@dataclass
class Third:
    """As it is now, with other names."""

    name: str
    n: int = 0
    renamed: Any = None
    feeling: Mood | None = None
    place: Street | None = None
    price: float = 0.0
    id: int = 0


RENAMES = {"extra": "renamed", "mood": "feeling", "street": "place", "cents": "price"}


def carried_over(spec: str) -> bytes:
    """Return a payload of First, with the fields in it that only Second has."""
    record = Second("n", 1, (1, "precious"), Mood.GOOD, Street("s", 2), 150)
    serializer, schema = get_serializer(spec), schema_of(spec, Second)
    unknown = unknown_fields(serializer, shape_of(First), schema, Evolution())
    assert unknown is not None
    kept = unknown.of(serializer.codec(shape_of(Second)).encode(record))
    assert kept is not None
    return unknown.encode(First("n", 2), kept)


@pytest.fixture(params=["binary", "json", "msgpack", "pickle"])
def spec(request: pytest.FixtureRequest) -> str:
    """A serializer."""
    return request.param  # type: ignore[no-any-return]


def test_what_was_carried_over_is_found_by_its_new_name(spec: str) -> None:
    """A rename holds for a field that the writer's schema lacks and its payload has."""
    schema = schema_of(spec, First)
    read = make_decoder(get_serializer(spec), shape_of(Third), schema, Evolution(renames=RENAMES))

    actual = read(carried_over(spec), 7)

    expected = Third("n", 2, (1, "precious"), Mood.GOOD, Street("s", 2), 150.0, 7)
    assert_exact(actual, expected)
    assert_exact(
        read(get_serializer(spec).codec(shape_of(First)).encode(First("m")), 8), Third("m", id=8)
    )


def test_a_converter_sees_what_was_carried_over(spec: str) -> None:
    """The value of another type that a payload holds beside its schema is converted."""
    seen: list[Any] = []

    def in_euros(cents: int) -> float:
        seen.append(cents)
        return cents / 100

    declared = Evolution(renames=RENAMES, converters={"price": in_euros, "feeling": in_euros})
    schema = schema_of(spec, First)
    read = make_decoder(get_serializer(spec), shape_of(Third), schema, declared)

    actual = read(carried_over(spec), 7)

    assert_exact(actual.price, 1.5)
    # What fits as it is was not of another type.
    assert (actual.feeling, seen) == (Mood.GOOD, [150])


@pytest.mark.parametrize("spec", ["binary", "json", "msgpack"])
def test_a_converter_sees_what_was_carried_over_under_its_own_name(spec: str) -> None:
    """Without a rename too, where the value is not of the type that the field has now."""
    now = make_dataclass("Now", [("name", str), ("cents", float, 0.0), ("mood", str, "")])
    declared = Evolution(converters={"cents": lambda cents: cents / 100, "mood": str.upper})
    schema = schema_of(spec, First)
    read = make_decoder(get_serializer(spec), shape_of(now), schema, declared)

    assert_exact(read(carried_over(spec), 7), now("n", 1.5, "GOOD"))


def test_a_carried_field_is_renamed_in_dicts(spec: str) -> None:
    """Opened by its name, or as a TypedDict, a collection takes the new names as well."""
    schema = schema_of(spec, First)
    declared = Evolution(renames={"extra": "renamed"})
    for shape in (shape_of(None), shape_of(TypedRecord)):
        read = make_decoder(get_serializer(spec), shape, schema, declared)
        actual = read(carried_over(spec), 7)

        assert actual["renamed"] == (1, "precious")
        assert "extra" not in actual


class TypedRecord(TypedDict, total=False):
    """As it is now, as a dict."""

    name: str
    n: int
    renamed: Any


def test_a_carried_field_that_is_renamed_is_not_unknown(spec: str) -> None:
    """It is not carried over once more, unless its new name is there too."""
    serializer, schema = get_serializer(spec), schema_of(spec, First)
    declared = Evolution(renames=RENAMES)
    unknown = unknown_fields(serializer, shape_of(Third), schema, declared)
    assert unknown is not None
    data = carried_over(spec)

    assert unknown.of(data) is None
    # A record of Third that the program of Second has changed: both of them have set a price.
    third = unknown_fields(serializer, shape_of(Second), schema_of(spec, Third), Evolution())
    assert third is not None
    kept = third.of(serializer.codec(shape_of(Third)).encode(Third("n", price=2.5)))
    assert kept is not None
    data = third.encode(Second("n", cents=150), kept)
    second = unknown_fields(serializer, shape_of(Third), schema_of(spec, Second), declared)
    assert second is not None
    kept = second.of(data)
    assert kept is not None
    again = second.encode(Third("m", price=2.5), kept)
    read = make_decoder(serializer, shape_of(Second), schema_of(spec, Third), Evolution())
    assert read(again, 1).cents == 150


def test_names_of_carried_fields_are_not_set_in_a_model() -> None:
    """What a model knows of the fields that were set is of its own fields."""
    old = pydantic.create_model("Model", name=(str, ...), n=(int, 0))
    new = pydantic.create_model("Model", name=(str, ...), n=(int, 0), a=(int, 0), b=(int, 0))
    now = pydantic.create_model("Model", name=(str, ...), n=(int, 0), c=(int, 0), d=(int, 0))
    for spec in ("binary", "pickle"):
        serializer = get_serializer(spec)
        unknown = unknown_fields(serializer, shape_of(old), schema_of(spec, new), Evolution())
        assert unknown is not None
        kept = unknown.of(serializer.codec(shape_of(new)).encode(new(name="n", a=1, b=2)))
        assert kept is not None
        data = unknown.encode(old(name="n"), kept)
        declared = Evolution(renames={"a": "c"})
        read = make_decoder(serializer, shape_of(now), schema_of(spec, old), declared)

        actual = read(data, 1)

        assert (actual.c, actual.d) == (1, 0)
        assert actual.model_fields_set == {"name", "c"}
