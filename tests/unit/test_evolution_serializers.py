"""Records that one form of a class has written, read as another, in each serializer and tier."""

import copy
import enum
from collections.abc import Callable
from dataclasses import field, make_dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Literal, NamedTuple, TypedDict

import attrs
import msgspec
import pytest

from memdb.errors import ConfigError, DecodeError
from memdb.serializers import (
    Evolution,
    by_name,
    get_serializer,
    is_current,
    make_decoder,
    shape_of,
    writer_schema,
)
from tests.support.evolving import WAYS, encode, evolve, schema_of
from tests.support.exact import assert_exact
from tests.support.python import PICKLES_ENUMS_BY_VALUE

Way = tuple[str, str]
EXACT_WAYS = [way for way in WAYS if way[0] != "pickle"]


def made(name: str, *fields: Any, **namespace: Any) -> Any:
    """Return a dataclass whose qualified name is just its name."""
    cls = make_dataclass(name, fields, namespace=namespace)
    cls.__qualname__ = name
    # Pickle looks its classes up where they say that they are.
    globals()[name] = cls
    return cls


def made_enum(name: str, **members: Any) -> Any:
    """Return an Enum class whose qualified name is just its name."""
    cls = enum.Enum(name, members)  # type: ignore[misc]
    cls.__qualname__ = name
    cls.__module__ = __name__
    globals()[name] = cls
    return cls


@pytest.fixture(params=WAYS, ids="-".join)
def way(request: pytest.FixtureRequest) -> Way:
    """A serializer and a tier."""
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(params=EXACT_WAYS, ids="-".join)
def exact_way(request: pytest.FixtureRequest) -> Way:
    """A serializer that holds values by their own description, and a tier."""
    return request.param  # type: ignore[no-any-return]


# -- fields ------------------------------------------------------------------------------------


def test_fields_are_added_removed_and_reordered(way: Way) -> None:
    """Fields are found by name: new ones get their default, removed ones are dropped."""
    old = made("Person", ("name", str), ("gone", date), ("born", date))
    new = made(
        "Person",
        ("born", date),
        ("name", str),
        ("tags", list[str], field(default_factory=list)),
        ("size", int, 5),
        ("id", int, 0),
    )
    record = old("Ann", date(1999, 1, 1), date(2000, 1, 1))
    first, second = (evolve(way, record, new) for _ in range(2))
    first.tags.append("x")

    assert_exact(second, new(date(2000, 1, 1), "Ann", [], 5, 7))


def test_a_field_that_is_required_now(way: Way) -> None:
    """A new field without default is an error that names it and what to do."""
    old, new = made("Person", ("name", str)), made("Person", ("name", str), ("born", date))
    with pytest.raises(DecodeError, match=r"^born: .*default.*upgrade=.*upgrades=") as caught:
        evolve(way, old("Ann"), new)

    assert caught.value.field == "born"


def test_a_required_field_that_an_upgrade_sets(way: Way) -> None:
    """A declared function can give a new field its value."""
    old, new = made("Person", ("name", str)), made("Person", ("name", str), ("born", date))

    def upgrade(record: dict[str, Any]) -> None:
        record["born"] = date(2000, 1, 1)

    assert_exact(evolve(way, old("Ann"), new, upgrade=upgrade), new("Ann", date(2000, 1, 1)))


def test_a_field_is_renamed(way: Way) -> None:
    """A renamed field keeps its values; another name's default does not come in."""
    old = made("Person", ("name", str), ("dob", date), ("size", int, 3))
    new = made("Person", ("size", int, 3), ("born", date | None, None), ("full_name", str, ""))
    actual = evolve(
        way,
        old("Ann", date(2000, 1, 1)),
        new,
        renames={"dob": "born", "name": "full_name"},
    )

    assert_exact(actual, new(3, date(2000, 1, 1), "Ann"))


def test_renames_of_several_generations(way: Way) -> None:
    """A field that was renamed twice is found under each of its names."""
    new = made("Person", ("c", str), ("n", int, 1))
    for renames in ({"a": "c", "b": "c"}, {"a": "b", "b": "c"}):
        for name in ("a", "b", "c"):
            old = made("Person", (name, str))

            assert_exact(evolve(way, old("x"), new, renames=renames), new("x", 1))


def test_a_rename_does_not_replace_what_is_there(way: Way) -> None:
    """A writer that had both names: the present one's value counts."""
    old = made("Person", ("a", str), ("b", str))
    new = made("Person", ("b", str), ("n", int, 1))

    assert_exact(evolve(way, old("old", "new"), new, renames={"a": "b"}), new("new", 1))


def test_a_renamed_and_retyped_field(way: Way) -> None:
    """A field can change its name and its type at once."""
    old, new = made("Item", ("cents", int)), made("Item", ("price", Decimal))
    actual = evolve(
        way,
        old(250),
        new,
        renames={"cents": "price"},
        converters={"price": lambda cents: Decimal(cents) / 100},
    )

    assert_exact(actual, new(Decimal("2.5")))


# -- types -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stored", "value", "wanted", "expected"),
    [
        (int, 5, float, 5.0),
        (int, 5, Decimal, Decimal(5)),
        (int, 5, int | None, 5),
        (int, 5, str | float, 5.0),
        (bool, True, int, 1),
        (list[int], [1, 2], tuple[float, ...], (1.0, 2.0)),
        (tuple[int, str], (1, "a"), list[Any], [1, "a"]),
        (dict[str, int], {"a": 1}, dict[str, Decimal], {"a": Decimal(1)}),
        (bytes, b"x", bytearray, bytearray(b"x")),
        (set[str], {"a"}, frozenset[str], frozenset({"a"})),
        (Decimal, Decimal("1.10"), Any, Decimal("1.10")),
        (tuple[Any, Any], (1, 2), Any, (1, 2)),
        (date, date(2000, 1, 1), object, date(2000, 1, 1)),
        (str, "b", Literal["a", "b"], "b"),
    ],
    ids=repr,
)
def test_types_widen(way: Way, stored: Any, value: Any, wanted: Any, expected: Any) -> None:
    """What loses nothing is converted by itself."""
    old, new = made("Item", ("v", stored), ("n", int)), made("Item", ("n", int), ("v", wanted))

    assert_exact(evolve(way, old(value, 1), new), new(1, expected))


@pytest.mark.parametrize(
    ("stored", "value", "wanted", "name"),
    [
        (str, "2000-01-01", date, "date"),
        (str, "1.10", Decimal, "Decimal"),
        (date, date(2000, 1, 1), datetime, "datetime"),
        (datetime, datetime(2000, 1, 1), date, "date"),
        (list[str], ["a"], set[str], "set[str]"),
        (int, 1, str, "str"),
        (int, 2**62 + 1, float, "float"),
        (int | None, None, int, "int"),
        (dict[str, Any], {"a": 1}, list[int], "list[int]"),
    ],
    ids=repr,
)
def test_other_types_are_refused(way: Way, stored: Any, value: Any, wanted: Any, name: str) -> None:
    """What could lose something is an error that says what is stored, wanted and to be done."""
    old, new = made("Item", ("v", stored), ("n", int)), made("Item", ("v", wanted), ("n", int))
    with pytest.raises(DecodeError) as caught:
        evolve(way, old(value, 1), new)
    text = str(caught.value)

    stored_name = "None" if value is None else type(value).__name__
    assert text.startswith(f"v: stored as {stored_name}, and {name} is wanted")
    assert "converters={'v': ...}" in text and "upgrade=" in text
    assert caught.value.field == "v"


def test_the_path_of_what_can_not_be_converted(exact_way: Way) -> None:
    """The error names the place inside the field, and the field to declare a converter for."""
    old_part, new_part = made("Part", ("sizes", list[str])), made("Part", ("sizes", list[int]))
    old, new = made("Item", ("parts", dict[str, old_part])), None
    new = made("Item", ("parts", dict[str, new_part]))
    globals()["Part"] = old_part
    with pytest.raises(DecodeError, match=r"converters=\{'parts'") as caught:
        evolve(exact_way, old({"a": old_part(["1"])}), new)

    assert caught.value.field == "parts['a'].sizes[0]"


def test_a_converter(way: Way) -> None:
    """A declared converter gets each value of another type, None and what would widen too."""
    old, new = made("Item", ("v", int | None)), made("Item", ("v", Decimal))
    given: list[Any] = []

    def convert(value: Any) -> Decimal:
        given.append(value)
        return Decimal(value or 0) / 100

    for value in (5, None):
        evolve(way, old(value), new, converters={"v": convert})

    assert given == [5, None]
    assert evolve(way, old(5), new, converters={"v": convert}) == new(Decimal("0.05"))


def test_a_converter_is_not_for_values_of_the_type(way: Way) -> None:
    """Records whose field has the type of now are not converted again."""
    old = made("Item", ("v", Decimal), ("gone", int))
    new = made("Item", ("v", Decimal))

    assert_exact(evolve(way, old(Decimal(1), 1), new, converters={"v": str}), new(Decimal(1)))


def test_what_a_converter_gives_is_converted_to_the_type(way: Way) -> None:
    """The result of a converter may be what converts by itself; what does not is refused."""
    new = made("Item", ("v", float))
    old = made("Item", ("v", str))

    assert_exact(evolve(way, old("12"), new, converters={"v": int}), new(12.0))
    with pytest.raises(DecodeError, match=r"^v: stored as str, and float is wanted"):
        evolve(way, old("12"), new, converters={"v": str})


def test_a_converter_that_raises(way: Way) -> None:
    """The error of a converter names it and the field, and keeps the cause, not the value."""
    old, new = made("Item", ("v", str)), made("Item", ("v", int))
    with pytest.raises(DecodeError, match=r"^v: converters\['v'\]=int raised ValueError") as caught:
        evolve(way, old("secret"), new, converters={"v": int})

    assert isinstance(caught.value.__cause__, ValueError)
    assert "secret" not in str(caught.value)
    assert caught.value.field == "v"


def test_what_a_converter_gives_is_not_shared(way: Way) -> None:
    """Two records do not share the list that a converter returns."""
    old, new = made("Item", ("v", str)), made("Item", ("v", list[int]))
    constant: list[int] = [1]
    evolve(way, old("a"), new, converters={"v": lambda _: constant}).v.append(2)

    assert constant == [1]


def test_values_that_never_fitted_stay(way: Way) -> None:
    """Annotations are not enforced: a value that did not fit its old one is left alone."""
    old = made("Item", ("v", int), ("w", list[int]), ("x", str))
    new = made("Item", ("v", Decimal), ("w", list[float]), ("x", str | None))
    record = old("text", [1, "two"], 3)
    if way[1] == "fast":
        with pytest.raises(AssertionError, match="not of the fast tier"):
            evolve(way, record, new)
        way = (way[0], "exact")

    assert_exact(evolve(way, record, new), new("text", [1.0, "two"], 3))


# -- nested records ----------------------------------------------------------------------------


def test_nested_records_change(exact_way: Way) -> None:
    """Fields of a nested class are added, removed and retyped like those of the record's own."""
    old_part = made("Part", ("size", int), ("gone", str))
    old = made("Item", ("part", old_part), ("parts", list[old_part]), ("by", dict[str, old_part]))
    new_part = made("Part", ("size", float), ("tags", list[str], field(default_factory=list)))
    new = made("Item", ("parts", list[new_part]), ("by", dict[str, new_part]), ("part", new_part))
    record = old(old_part(1, ""), [old_part(2, "")], {"a": old_part(3, "")})
    actual = evolve(exact_way, record, new)

    assert_exact(actual, new([new_part(2.0)], {"a": new_part(3.0)}, new_part(1.0)))
    assert actual.part.tags is not actual.parts[0].tags


def test_a_nested_field_that_is_required_now(exact_way: Way) -> None:
    """The error for a nested field without default has the path to it."""
    old_part = made("Part", ("size", int))
    old = made("Item", ("part", old_part))
    new_part = made("Part", ("size", int), ("weight", int))
    new = made("Item", ("part", new_part))
    with pytest.raises(DecodeError, match=r"^part.weight: .*upgrade=") as caught:
        evolve(exact_way, old(old_part(1)), new)

    assert caught.value.field == "part.weight"


def test_a_nested_class_is_renamed(exact_way: Way) -> None:
    """A nested class of another name takes its place where the annotation leaves no doubt."""
    old_part = made("Part", ("size", int), ("day", date))
    new_part = made("Piece", ("size", int), ("day", date))
    old = made("Item", ("v", old_part | None), ("w", list[old_part]))
    new = made("Item", ("v", new_part | None), ("w", list[new_part]))
    day = date(2000, 1, 1)
    for value in (None, old_part(1, day)):
        expected = None if value is None else new_part(1, day)
        actual = evolve(exact_way, old(value, [old_part(2, day)]), new)

        assert_exact(actual, new(expected, [new_part(2, day)]))


def test_a_union_of_renamed_classes(exact_way: Way) -> None:
    """Which class of a union is meant, names of fields say, and aliases where they do not."""
    cat, dog = made("Cat", ("name", str), ("lives", int)), made("Dog", ("name", str))
    old = made("Owner", ("pet", cat | dog))
    new_cat, new_dog = made("Feline", ("name", str), ("lives", int)), made("Hound", ("name", str))
    new = made("Owner", ("pet", new_cat | new_dog))
    if exact_way[1] == "fast":
        exact_way = (exact_way[0], "exact")

    assert_exact(evolve(exact_way, old(cat("a", 9)), new), new(new_cat("a", 9)))
    assert_exact(evolve(exact_way, old(dog("a")), new), new(new_dog("a")))


def test_a_union_that_aliases_decide(exact_way: Way) -> None:
    """Classes with the same fields are told apart by their aliases only."""
    spec, tier = exact_way[0], "exact"
    cat, dog = made("Cat", ("name", str)), made("Dog", ("name", str))
    old = made("Owner", ("pet", cat | dog))
    new_cat, new_dog = made("Feline", ("name", str)), made("Hound", ("name", str))
    new = made("Owner", ("pet", new_cat | new_dog))
    shape = shape_of(new)
    data, schema = encode(spec, tier, old(dog("a"))), schema_of(spec, old)
    decode = make_decoder(get_serializer(spec), shape, schema, Evolution())
    with pytest.raises(DecodeError, match=r"^pet: stored as Dog.*aliases=\{'Dog'"):
        decode(data, 1)
    aliased = replace(shape, aliases={"Dog": new_dog})
    decode = make_decoder(get_serializer(spec), aliased, schema, Evolution())

    assert_exact(decode(data, 1), new(new_dog("a")))


def test_a_dict_becomes_a_record_and_back(exact_way: Way) -> None:
    """A dict with names becomes a nested record by its annotation, and the other way round."""
    part = made("Part", ("size", float), ("note", str, ""))
    as_dict = made("Item", ("part", dict[str, int]))
    as_record = made("Item", ("part", part))

    assert_exact(evolve(exact_way, as_dict({"size": 1}), as_record), as_record(part(1.0)))
    with_any = made("Item", ("part", dict[str, Any]))
    actual = evolve(exact_way, as_record(part(1.5, "x")), with_any)
    assert_exact(actual, with_any({"size": 1.5, "note": "x"}))


def test_a_nested_class_that_no_annotation_names(exact_way: Way) -> None:
    """A record in a field that is annotated Any now says which annotation is missing."""
    part = made("Part", ("size", int))
    old, new = made("Item", ("v", part)), made("Item", ("v", Any))
    with pytest.raises(DecodeError, match=r"^v: .*names the class Part.*aliases=") as caught:
        evolve(exact_way, old(part(1)), new)

    assert caught.value.field == "v"


# -- Enums -------------------------------------------------------------------------------------


def test_an_enum_gains_a_member(way: Way) -> None:
    """A new member does not change the others."""
    old_color = made_enum("Color", RED="red")
    old = made("Item", ("c", old_color), ("gone", int))
    data_of = {spec: encode(spec, tier, old(old_color.RED, 1)) for spec, tier in [way]}
    schema = schema_of(way[0], old)
    new_color = made_enum("Color", BLUE="blue", RED="red")
    new = made("Item", ("c", new_color))
    decode = make_decoder(get_serializer(way[0]), shape_of(new), schema, Evolution())

    assert_exact(decode(data_of[way[0]], 1), new(new_color.RED))


def test_an_enum_member_is_renamed(way: Way) -> None:
    """Members are stored by value, so that another name changes nothing."""
    if way[0] == "pickle" and not PICKLES_ENUMS_BY_VALUE:
        pytest.skip("this Python pickles members by name")
    old_color = made_enum("Color", RED="red")
    old = made("Item", ("c", old_color))
    data, schema = encode(*way, old(old_color.RED)), schema_of(way[0], old)
    new_color = made_enum("Color", CRIMSON="red")
    new = made("Item", ("c", new_color))
    decode = make_decoder(get_serializer(way[0]), shape_of(new), schema, Evolution())

    assert_exact(decode(data, 1), new(new_color.CRIMSON))


def test_an_enum_member_has_another_value(exact_way: Way) -> None:
    """A value that no member has any more is found by the name that it had."""
    old_color = made_enum("Color", RED="red", BLUE="blue")
    new_color = made_enum("Color", RED=1, BLUE=2)
    old, new = made("Item", ("c", old_color)), made("Item", ("c", new_color))

    assert_exact(evolve(exact_way, old(old_color.BLUE), new), new(new_color.BLUE))


def test_an_enum_member_is_gone(exact_way: Way) -> None:
    """The record of a removed member is an error, unless a converter is declared; others stay."""
    old_color = made_enum("Color", RED="red", GREEN="green")
    new_color = made_enum("Color", RED="red", BLUE="blue")
    old, new = made("Item", ("c", old_color)), made("Item", ("c", new_color))

    def convert(value: Any) -> Any:
        return {"green": new_color.BLUE}[value]

    with pytest.raises(DecodeError, match=r"^c: stored as Color.*no longer has GREEN.*convert"):
        evolve(exact_way, old(old_color.GREEN), new)
    assert_exact(evolve(exact_way, old(old_color.RED), new), new(new_color.RED))
    green = evolve(exact_way, old(old_color.GREEN), new, converters={"c": convert})
    assert_exact(green, new(new_color.BLUE))
    red = evolve(exact_way, old(old_color.RED), new, converters={"c": convert})
    assert_exact(red, new(new_color.RED))


def test_members_that_are_gone_are_named(exact_way: Way) -> None:
    """A member that has another name now is not among those that are said to be gone."""
    old_color = made_enum("Color", RED="red", GREEN="green", BLUE="blue", GREY="grey")
    new_color = made_enum("Color", CRIMSON="red", BLUE="#00f")
    old, new = made("Item", ("c", old_color)), made("Item", ("c", new_color))
    with pytest.raises(DecodeError, match=r": Color no longer has GREEN, GREY\. Declare"):
        evolve(exact_way, old(old_color.GREEN), new)


def test_text_becomes_an_enum_and_back(exact_way: Way) -> None:
    """A value becomes the member that has it, and a member its value."""
    color = made_enum("Color", RED="red", BLUE="blue")
    text, member = made("Item", ("c", str)), made("Item", ("c", color | None))

    assert_exact(evolve(exact_way, text("blue"), member), member(color.BLUE))
    assert_exact(evolve(exact_way, member(color.BLUE), text), text("blue"))
    with pytest.raises(DecodeError, match=r"^c: stored as str, and Color \| None is wanted"):
        evolve(exact_way, text("green"), member)


def test_an_enum_that_is_stored_by_name(exact_way: Way) -> None:
    """An Enum may be declared to be stored by name after records have been stored by value."""
    by_value = made_enum("Color", RED="red", BLUE="blue")
    named = made_enum("Color", RED="#f00", BLUE="#00f")
    by_name(named)
    old, new = made("Item", ("c", by_value)), made("Item", ("c", named))

    assert_exact(evolve(exact_way, old(by_value.BLUE), new), new(named.BLUE))
    assert_exact(evolve(exact_way, new(named.BLUE), old), old(by_value.BLUE))


# -- upgrades ----------------------------------------------------------------------------------


def test_versions_are_upgraded_in_order(way: Way) -> None:
    """Each function takes a record one version up, from wherever it was."""
    one, two = made("Person", ("name", str)), made("Person", ("names", list[str]))
    three = made("Person", ("names", tuple[str, ...]), ("count", int))

    def to_2(record: dict[str, Any]) -> dict[str, Any]:
        return {"names": record["name"].split()}

    def to_3(record: dict[str, Any]) -> None:
        record["count"] = len(record["names"])

    declared: dict[str, Any] = {"version": 3, "upgrades": {3: to_3, 2: to_2}}
    expected = three(("Ann", "Lee"), 2)

    assert_exact(evolve(way, one("Ann Lee"), three, written=1, **declared), expected)
    assert_exact(evolve(way, two(["Ann", "Lee"]), three, written=2, **declared), expected)
    assert_exact(evolve(way, expected, three, written=3, **declared), expected)


def test_a_newer_writer_is_not_upgraded(way: Way) -> None:
    """Of a newer version the known fields are read, and no function runs."""
    newer = made("Person", ("name", str), ("more", list[int]))
    new = made("Person", ("name", str), ("age", int, 1))

    def refuse(record: Any) -> None:
        raise AssertionError

    for declared in ({"upgrades": {2: refuse}}, {"upgrade": refuse}):
        actual = evolve(way, newer("a", [1]), new, written=3, version=2, **declared)

        assert_exact(actual, new("a", 1))


def test_upgrade_is_for_other_forms_only(way: Way) -> None:
    """A record of the present form, in whatever order of the fields, is not upgraded."""
    old, new = made("Item", ("a", int), ("b", str)), made("Item", ("b", str), ("a", int))

    def refuse(record: Any) -> None:
        raise AssertionError

    assert_exact(evolve(way, old(1, "x"), new, upgrade=refuse), new("x", 1))


def test_upgrade_with_a_version(way: Way) -> None:
    """A single function may go with a version: then it is for each lower one."""
    old = made("Item", ("a", int))

    def double(record: dict[str, Any]) -> None:
        record["a"] *= 2

    assert evolve(way, old(1), old, version=2, upgrade=double) == old(2)
    assert evolve(way, old(1), old, written=2, version=2, upgrade=double) == old(1)


def test_what_an_upgrade_is_given(exact_way: Way) -> None:
    """The dict has the writer's names, nested records as dicts, and exact values."""
    color = made_enum("Color", RED="red")
    part = made("Part", ("price", Decimal), ("color", color))
    old = made("Item", ("parts", list[part]), ("part", part), ("at", tuple[int, date]))
    new = made("Item", ("seen", int))
    given: list[dict[str, Any]] = []

    def upgrade(record: dict[str, Any]) -> dict[str, Any]:
        given.append(copy.deepcopy(record))
        return {"seen": 1}

    one = part(Decimal("1.10"), color.RED)
    actual = evolve(exact_way, old([one], one, (1, date(2000, 1, 1))), new, upgrade=upgrade)
    [record] = given

    assert_exact(actual, new(1))
    expected = {"price": Decimal("1.10"), "color": "red"}
    assert record == {"parts": [expected], "part": expected, "at": (1, date(2000, 1, 1))}
    assert type(record["part"]["color"]) is str and isinstance(record["part"], dict)
    assert type(record["at"]) is tuple


def test_an_upgrade_sees_the_identity(way: Way) -> None:
    """The identity is in the dict for a class that has one, and can't be changed there."""
    old, new = made("Item", ("a", int), ("id", int, 0)), made("Item", ("b", int), ("id", int, 0))

    def upgrade(record: dict[str, Any]) -> dict[str, Any]:
        return {"b": record["id"] * 10, "id": 1000}

    assert_exact(evolve(way, old(1), new, upgrade=upgrade), new(70, 7))


def test_an_upgrade_sees_the_tag(way: Way) -> None:
    """In a collection of several classes the dict says which it was; records never hold that."""
    old, new = made("Cat", ("a", int)), made("Cat", ("a", int), ("b", str))

    def upgrade(record: dict[str, Any]) -> None:
        record["b"] = record["__class__"]

    assert_exact(evolve(way, old(1), new, upgrade=upgrade, tag="cat"), new(1, "cat"))


def test_what_an_upgrade_does_not_touch_keeps_its_type(exact_way: Way) -> None:
    """Enum members and nested records that a function leaves alone are not guessed again."""
    color, shade = made_enum("Color", A="x", B="y"), made_enum("Shade", A="x", B="y")
    part, piece = made("Part", ("size", int)), made("Piece", ("size", int))
    old = made(
        "Item",
        ("c", color | shade),
        ("cs", list[color | shade]),
        ("p", part | piece),
        ("ps", dict[str, part | piece]),
        ("odd", int),
    )
    new = made(
        "Item",
        ("c", color | shade),
        ("cs", list[color | shade]),
        ("p", part | piece),
        ("ps", dict[str, part | piece]),
        ("odd", int),
        ("new", int),
    )
    values = (shade.B, [color.A, shade.A], piece(1), {"a": piece(2), "b": part(3)}, "not an int")

    def upgrade(record: dict[str, Any]) -> None:
        record["new"] = 1

    way = (exact_way[0], "exact")

    assert_exact(evolve(way, old(*values), new, upgrade=upgrade), new(*values, 1))


def test_what_an_upgrade_changes_in_place(exact_way: Way) -> None:
    """Changes inside of a list or of a nested dict are seen, and classes found by their names."""
    part, piece = made("Part", ("size", int)), made("Piece", ("size", int))
    old, new = made("Item", ("ps", list[part | piece])), made("Item", ("ps", list[part | piece]))
    new = made("Item", ("ps", list[part | piece]), ("n", int, 0))

    def upgrade(record: dict[str, Any]) -> None:
        for number, one in enumerate(record["ps"]):
            one["size"] += number
        record["ps"].append({"size": 9})
        record["ps"][-1:] = []

    way = (exact_way[0], "exact")
    actual = evolve(way, old([piece(1), part(1)]), new, upgrade=upgrade)

    assert_exact(actual, new([piece(1), part(2)]))


@pytest.mark.parametrize("declare", ["upgrade", "upgrades"])
def test_an_upgrade_that_raises(way: Way, declare: str) -> None:
    """The error of a function names it, keeps the cause, and shows no value."""
    old, new = made("Item", ("a", str)), made("Item", ("b", str))

    def broken(record: dict[str, Any]) -> None:
        raise KeyError(record["a"])

    declared: dict[str, Any] = {"upgrade": broken}
    name = "upgrade="
    if declare == "upgrades":
        declared, name = {"version": 2, "upgrades": {2: broken}}, r"upgrades\[2\]="
    with pytest.raises(DecodeError, match=rf"^{name}.*broken raised KeyError") as caught:
        evolve(way, old("secret"), new, **declared)

    assert isinstance(caught.value.__cause__, KeyError)
    assert "secret" not in str(caught.value)


def test_an_upgrade_that_returns_something_else(way: Way) -> None:
    """A function must return a dict or None."""
    old, new = made("Item", ("a", str)), made("Item", ("b", str))
    with pytest.raises(DecodeError, match=r"upgrade=.* returned a value of type list"):
        evolve(way, old("a"), new, upgrade=lambda record: [record])


def test_what_an_upgrade_gives_is_not_shared(way: Way) -> None:
    """Two records do not share the list that a function has put into both."""
    old, new = made("Item", ("a", str)), made("Item", ("a", str), ("tags", list[str]))
    constant: list[str] = []

    def upgrade(record: dict[str, Any]) -> None:
        record["tags"] = constant

    evolve(way, old("a"), new, upgrade=upgrade).tags.append("x")

    assert constant == []


def test_upgrade_rename_converter_and_default_go_in_this_order(way: Way) -> None:
    """An upgrade sees old names, a converter what the upgrade left, and defaults come last."""
    old = made("Item", ("cents", int), ("gone", str))
    new = made("Item", ("price", Decimal), ("note", str, "none"), ("kept", str, "default"))

    def upgrade(record: dict[str, Any]) -> None:
        record["cents"] += 1
        record["kept"] = record.pop("gone")

    actual = evolve(
        way,
        old(99, "x"),
        new,
        version=2,
        upgrades={2: upgrade},
        renames={"cents": "price"},
        converters={"price": lambda cents: Decimal(cents) / 100},
    )

    assert_exact(actual, new(Decimal(1), "none", "x"))


# -- classes -----------------------------------------------------------------------------------


def _kinds() -> dict[str, Callable[[], Any]]:
    fields = {"name": str, "born": date, "size": int | None}
    typed: Any = [(name, annotation) for name, annotation in fields.items()]

    def as_struct(**options: Any) -> Any:
        return msgspec.defstruct("Person", [*typed, ("id", int, 0)], **options)

    def as_attrs() -> Any:
        made = {name: attrs.field(type=annotation) for name, annotation in fields.items()}
        return attrs.make_class("Person", {**made, "id": attrs.field(type=int, default=0)})

    def as_tuple() -> Any:
        cls: Any = NamedTuple("Person", [*typed, ("id", int)])
        cls._field_defaults = {"id": 0}
        cls.__new__.__defaults__ = (0,)
        return cls

    def as_dataclass(**options: Any) -> Any:
        return make_dataclass("Person", [*reversed(typed), ("id", int, 0)], **options)

    return {
        "dataclass": as_dataclass,
        "frozen": lambda: as_dataclass(frozen=True),
        "slots": lambda: as_dataclass(slots=True),
        "struct": as_struct,
        "frozen struct": lambda: as_struct(frozen=True),
        "array struct": lambda: as_struct(array_like=True),
        "attrs": as_attrs,
        "namedtuple": as_tuple,
    }


@pytest.mark.parametrize("after", _kinds())
@pytest.mark.parametrize("before", _kinds())
def test_a_class_becomes_one_of_another_kind(way: Way, before: str, after: str) -> None:
    """Whatever library makes the class, frozen or with slots, fields are found by name."""
    old, new = _kinds()[before](), _kinds()[after]()
    values = {"name": "Ann", "born": date(2000, 1, 1), "size": None}

    assert_exact(evolve(way, old(**values, id=7), new), new(**values, id=7))


def test_a_class_is_renamed_or_moved(way: Way) -> None:
    """The record's own class may have any name."""
    old, new = made("Old", ("a", date)), made("New", ("a", date))

    assert_exact(evolve(way, old(date(2000, 1, 1)), new), new(date(2000, 1, 1)))


def test_dicts_become_records(way: Way) -> None:
    """Plain dicts are read as a class: values by their own types, with the declared changes."""
    new = made("Item", ("price", float), ("name", str), ("n", int, 3), ("id", int, 0))
    record = {"title": "a", "price": 2, "more": [1]}
    actual = evolve(way, record, new, old=dict, renames={"title": "name"})

    assert_exact(actual, new(2.0, "a", 3, 7))
    with pytest.raises(DecodeError, match=r"^price: stored as str, and float is wanted"):
        evolve(way, {"name": "a", "price": "2"}, new, old=dict)
    actual = evolve(way, {"name": "a", "price": "2"}, new, old=dict, converters={"price": float})
    assert_exact(actual, new(2.0, "a", 3, 7))


def test_plain_dicts_have_versions_too(way: Way) -> None:
    """Functions and renames work on plain dicts."""

    def upgrade(record: dict[str, Any]) -> None:
        record["b"] = record["b"] + 1

    declared: dict[str, Any] = {"version": 2, "upgrades": {2: upgrade}, "renames": {"a": "c"}}
    actual = evolve(way, {"a": [1], "b": 1}, dict, old=dict, **declared)

    assert_exact(actual, {"c": [1], "b": 2, "id": 7})


class Movie(TypedDict):
    """A record that is a dict with annotations."""

    name: str
    year: float


def test_typed_dicts(exact_way: Way) -> None:
    """Records of a TypedDict become others of it, with the declared changes."""
    old: Any = TypedDict("Movie", {"title": str, "year": int})
    record = {"title": "a", "year": 1999}
    actual = evolve(exact_way, record, Movie, old=old, renames={"title": "name"})

    assert_exact(actual, {"name": "a", "year": 1999.0})


def test_a_typed_dict_becomes_a_record_and_back(exact_way: Way) -> None:
    """A TypedDict's records are read as a class by its annotations, and a class's as dicts."""
    part = made("Part", ("size", int))
    as_dict: Any = TypedDict("as_dict", {"name": str, "part": part, "year": int})
    new_part = made("Part", ("size", float), ("note", str, ""))
    as_record = made("Movie", ("year", float), ("name", str), ("part", new_part))
    globals()["Part"] = part
    way = (exact_way[0], "exact")
    actual = evolve(way, {"name": "a", "part": part(1), "year": 1999}, as_record, old=as_dict)

    assert_exact(actual, as_record(1999.0, "a", new_part(1.0)))
    back: Any = TypedDict("back", {"name": str, "part": part, "year": int})
    actual = evolve(exact_way, as_record(1, "a", new_part(1)), back)
    # An int in a field annotated float is one.
    assert_exact(actual, {"year": 1, "name": "a", "part": part(1)})


# -- pydantic ----------------------------------------------------------------------------------


def _models() -> tuple[Any, Any]:
    pydantic = pytest.importorskip("pydantic")
    config = pydantic.ConfigDict(extra="allow")

    def model(name: str, /, **fields: Any) -> Any:
        cls = pydantic.create_model(name, __config__=config, **fields)
        cls.__qualname__ = name
        return cls

    old_part = model("Part", size=(int, 1), gone=(str, "g"))
    new_part = model("Part", size=(float, 1.0), note=(str, "n"))
    old = model("Item", part=(old_part, ...), name=(str, "a"), gone=(int, 1), old=(int, 2))
    new = model("Item", name=(str, "a"), part=(new_part, ...), new=(Decimal, 3))
    return (old, old_part), (new, new_part)


@pytest.mark.parametrize("with_upgrade", [False, True])
def test_pydantic_models_evolve(exact_way: Way, with_upgrade: bool) -> None:
    """Which fields were set and what else a model holds stays, without fields that are gone."""
    (old, old_part), (new, _) = _models()
    record = old(part=old_part(size=5, gone="x", more=(1, 2)), old=4, gone=2, extra=[1])
    declared: dict[str, Any] = {"renames": {"old": "new"}}
    if with_upgrade:
        declared |= {"version": 2, "upgrades": {2: lambda record: record}}
    actual = evolve((exact_way[0], "exact"), record, new, **declared)

    assert_exact(dict(actual), {"name": "a", "part": actual.part, "new": Decimal(4), "extra": [1]})
    assert_exact(dict(actual.part), {"size": 5.0, "note": "n", "more": (1, 2)})
    assert actual.part.model_fields_set == {"size", "more"}
    assert actual.model_extra == {"extra": [1]}
    assert actual.model_fields_set == {"part", "new", "extra"}


def test_what_an_upgrade_sets_counts_as_set(exact_way: Way) -> None:
    """What a function changes or adds was set, what it takes away was not."""
    (old, _), (new, new_part) = _models()
    record = old(part={"size": 5}, name="b", old=4, extra=[1], other=2)

    def upgrade(record: dict[str, Any]) -> None:
        record["new"] = record.pop("old")
        del record["other"]
        record["added"] = 5

    actual = evolve((exact_way[0], "exact"), record, new, upgrade=upgrade)

    part = new_part(size=5.0)
    assert_exact(actual, new(name="b", part=part, new=Decimal(4), extra=[1], added=5))


@pytest.mark.parametrize("how", ["generated", "by conversion", "by an upgrade", "nested"])
def test_a_further_value_becomes_a_field(exact_way: Way, how: str) -> None:
    """What was a further value of a model is its field once the class declares one of the name."""
    pydantic = pytest.importorskip("pydantic")
    config = pydantic.ConfigDict(extra="allow")
    old = pydantic.create_model("Item", __config__=config, a=(int, 1), b=(int, 2))
    retyped = float if how == "by conversion" else int
    new = pydantic.create_model(
        "Item", __config__=config, a=(retyped, 1), b=(int, 2), more=(list[int], [])
    )
    declared = {"upgrade": lambda record: None} if how == "by an upgrade" else {}
    record, expected = old(a=5, more=[1], z=2), new(a=5, more=[1], z=2)
    way = (exact_way[0], "exact")
    if how == "nested":
        old.__qualname__ = new.__qualname__ = "Item"
        outer, new_outer = made("Outer", ("item", old)), made("Outer", ("item", new))
        actual = evolve(way, outer(record), new_outer, **declared).item
    else:
        actual = evolve(way, record, new, **declared)

    assert_exact(actual, expected)


@pytest.mark.parametrize("with_upgrade", [False, True])
def test_a_model_that_takes_no_further_values_any_more(exact_way: Way, with_upgrade: bool) -> None:
    """Further values are dropped then, and their names with them, in a nested model too."""
    (old, old_part), _ = _models()
    pydantic = pytest.importorskip("pydantic")
    part = pydantic.create_model("Part", size=(float, 1.0))
    part.__qualname__ = "Part"
    new = pydantic.create_model("Item", name=(str, "a"), part=(part, ...))
    record = old(name="b", part=old_part(size=5, gone="x", more=1), extra=[1])
    declared = {"upgrade": lambda record: None} if with_upgrade else {}
    actual = evolve((exact_way[0], "exact"), record, new, **declared)

    assert actual.model_fields_set == {"name", "part"}
    assert actual.part.model_fields_set == {"size"}
    assert_exact(dict(actual), {"name": "b", "part": actual.part})


def test_a_renamed_field_of_a_model_stays_set(exact_way: Way) -> None:
    """The generated decoder keeps which fields were set under the names that they have now."""
    pydantic = pytest.importorskip("pydantic")
    old = pydantic.create_model("Item", a=(int, 1), b=(int, 2), gone=(int, 3))
    new = pydantic.create_model("Item", x=(int, 1), b=(int, 2))
    way = (exact_way[0], "exact")
    actual = evolve(way, old(a=5, gone=6), new, renames={"a": "x"})

    assert (actual.x, actual.b, actual.model_fields_set) == (5, 2, {"x"})


def test_a_dict_with_more_becomes_a_model(exact_way: Way) -> None:
    """A dict, nested or not, becomes a model that takes what it has no field for."""
    (_, _), (_, part) = _models()
    old, new = made("Item", ("v", dict[str, Any])), made("Item", ("v", part))
    actual = evolve(exact_way, old({"size": 1, "more": [1]}), new)

    assert_exact(actual.v, part(size=1.0, more=[1]))
    way = (exact_way[0], "exact")
    assert_exact(evolve(way, {"size": 1, "more": [1]}, part), part(size=1.0, more=[1]))


def test_a_model_with_more_becomes_a_dict(exact_way: Way) -> None:
    """Further values are items of the TypedDict that a model has become."""
    (_, part), _ = _models()
    cls: Any = TypedDict("cls", {"size": float, "gone": str})
    actual = evolve((exact_way[0], "exact"), part(size=5, more=[1]), cls)

    assert_exact(actual, {"size": 5.0, "gone": "g", "more": [1]})


# -- odd ends ----------------------------------------------------------------------------------


def test_recursive_classes(exact_way: Way) -> None:
    """A class that contains itself changes on every level."""
    old = made("Node", ("name", str), ("next", "Node | None", None), ("size", int, 0))
    old_inner = old("b", old("c", None, 3), 2)
    record = old("a", old_inner, 1)
    way = (exact_way[0], "exact")
    schema = schema_of(way[0], old)
    data = encode(*way, record)
    for size_type, sizes in ((int, (1, 2, 3)), (float, (1.0, 2.0, 3.0))):
        new = made("Node", ("name", str), ("next", "Node | None", None), ("size", size_type, 0))
        shape = shape_of(new)
        actual = make_decoder(get_serializer(way[0]), shape, schema, Evolution())(data, 1)

        assert_exact(actual, new("a", new("b", new("c", None, sizes[2]), sizes[1]), sizes[0]))


def test_an_annotation_that_says_more(way: Way) -> None:
    """What was Any and has an annotation now must fit it, or convert."""
    old, new = made("Item", ("v", Any)), made("Item", ("v", list[float]))

    assert_exact(evolve(way, old([1, 2.5]), new), new([1.0, 2.5]))
    with pytest.raises(DecodeError, match=r"^v: stored as str"):
        evolve(way, old("text"), new)


def test_flags_by_name(exact_way: Way) -> None:
    """Combined Flags that are stored by name keep their names when the bits change."""
    old_right = enum.Flag("Right", {"READ": 1, "WRITE": 2})  # type: ignore[misc]
    new_right = enum.Flag("Right", {"WRITE": 4, "READ": 8})  # type: ignore[misc]
    for cls in (old_right, new_right):
        by_name(cls)
        cls.__qualname__ = "Right"
    old, new = made("Item", ("v", old_right), ("n", int)), made("Item", ("v", new_right))
    new = made("Item", ("v", new_right), ("n", float))
    record = old(old_right.READ | old_right.WRITE, 1)

    actual = evolve((exact_way[0], "exact"), record, new)
    assert_exact(actual, new(new_right.READ | new_right.WRITE, 1.0))


def test_an_enum_that_replaces_its_members(exact_way: Way) -> None:
    """An Enum class may say itself what has taken the place of a value."""

    class New(enum.Enum):
        BLUE = "blue"

        @classmethod
        def _missing_(cls, value: object) -> Any:
            return cls.BLUE if value == "green" else None

    New.__qualname__ = "Color"
    old_color = made_enum("Color", GREEN="green", RED="red")
    old, new = made("Item", ("c", old_color), ("n", int)), made("Item", ("c", New), ("n", float))

    assert_exact(evolve(exact_way, old(old_color.GREEN, 1), new), new(New.BLUE, 1.0))
    with pytest.raises(DecodeError, match="Color no longer has RED"):
        evolve(exact_way, old(old_color.RED, 1), new)


def test_arrays_go_through_an_upgrade(exact_way: Way) -> None:
    """Values that can't be compared as a whole may be left, changed and replaced."""
    import numpy as np

    old = made("Item", ("a", np.ndarray), ("b", np.ndarray))
    new = made("Item", ("a", np.ndarray), ("b", np.ndarray), ("c", np.ndarray))

    def upgrade(record: dict[str, Any]) -> None:
        record["b"] = np.array([3, 4])
        record["c"] = record["a"]
        record["a"][0] = 9

    record = old(np.array([1, 2]), np.array([1, 2]))
    actual = evolve((exact_way[0], "exact"), record, new, upgrade=upgrade)

    assert [one.tolist() for one in (actual.a, actual.b, actual.c)] == [[9, 2], [3, 4], [9, 2]]
    assert actual.a is not actual.c


def test_a_class_that_refuses_to_be_made(exact_way: Way) -> None:
    """An exception of the class itself becomes an error that says what to do."""

    def refuse(item: Any, value: float) -> None:
        raise ValueError("refused")

    old, new = made("Item", ("v", int)), made("Item", ("v", float))
    new.v = property(fset=refuse)
    with pytest.raises(DecodeError, match=r"can't be made into Item \(ValueError\)"):
        evolve(exact_way, old(1), new)


def test_a_struct_that_would_refuse_what_is_stored(way: Way) -> None:
    """The ``__post_init__`` of a Struct does not see stored records, of whatever form."""

    class Item(msgspec.Struct):
        v: float
        added: int = 5

        def __post_init__(self) -> None:
            if self.v < 0:
                raise ValueError("refused")
            self.added += 1

    actual = evolve(way, made("Item", ("v", int))(-1), Item)

    assert (actual.v, actual.added) == (-1.0, 5)


def test_dicts_with_any_keys(exact_way: Way) -> None:
    """A plain dict whose keys are no text goes through an upgrade too."""
    declared: dict[str, Any] = {"version": 2, "upgrades": {2: lambda record: record}}
    record = {1: "a", "b": (1, 2)}
    actual = evolve((exact_way[0], "exact"), record, dict, old=dict, **declared)

    assert_exact(actual, {1: "a", "b": (1, 2), "id": 7})


@pytest.mark.parametrize("spec", ["binary", "json", "msgpack"])
def test_payloads_that_are_no_dicts(spec: str) -> None:
    """What is no dict is an error on the way of plain dicts too."""
    serializer: Any = get_serializer(spec)
    schema = schema_of(spec, dict)
    declared = Evolution(2, upgrades={2: lambda record: record})
    decode = make_decoder(serializer, shape_of(None), schema, declared)
    one = made("One", ("a", int))
    for data in (
        b"",
        b"1",
        serializer.exact_bytes(["list", 1]),
        serializer.exact_bytes(1),
        serializer.exact_bytes(["dict", 1]),
        serializer.codec(shape_of(one)).encode(one(1))[:-1],
    ):
        with pytest.raises(DecodeError):
            decode(data, 1)


# -- old files ---------------------------------------------------------------------------------


def test_schemas_that_know_nothing_of_nested_classes(exact_way: Way) -> None:
    """A file of before nested classes were described is read as if they were as they are now."""
    color = made_enum("Color", RED="red")
    part = made("Part", ("day", date), ("color", color | None))
    old = made("Item", ("part", part | None), ("parts", list[part]), ("n", int))
    new = made("Item", ("n", float), ("part", part | None), ("parts", list[part]))
    schema = schema_of(exact_way[0], old)
    one = part(date(2000, 1, 1), color.RED)
    for key in ("records", "enums"):
        del schema[key]
    actual = evolve(exact_way, old(one, [one], 1), new, schema=schema)

    assert_exact(actual, new(1.0, one, [one]))


@pytest.mark.parametrize("spec", ["binary", "json", "msgpack", "pickle"])
def test_what_is_current(spec: str) -> None:
    """A writer is current if a record would be written in the same way now."""
    color = made_enum("Color", RED="red")
    part = made("Part", ("color", color))
    base: Any = [("a", int), ("part", part)]
    schema = schema_of(spec, made("Item", *base))
    older = {key: value for key, value in schema.items() if key not in ("records", "enums")}
    others = [
        schema_of(spec, made("Item", *reversed(base))),
        schema_of(spec, made("Item", *base, ("b", int, 0))),
        schema_of(spec, made("Item", ("a", float), ("part", part))),
        schema_of(spec, made("Item", ("a", int), ("part", made("Part", ("color", str))))),
        schema_of("json" if spec == "binary" else "binary", made("Item", *base)),
        schema_of(spec, made("Item", *base), version=2),
        schema_of(spec, made("Item", *base), tag="item"),
        schema_of(spec, dict),
    ]
    wider = made_enum("Color", RED="red", BLUE="blue")
    others.append(
        schema_of(spec, made("Item", ("a", int), ("part", made("Part", ("color", wider)))))
    )

    assert is_current(schema, schema)
    assert is_current(schema, older)
    assert is_current(schema, schema_of(spec, made("Moved", *base)))
    assert [False] * len(others) == [is_current(schema, other) for other in others]


# -- wrong bytes and declarations --------------------------------------------------------------


def test_payloads_that_are_no_records(exact_way: Way) -> None:
    """Garbage gives a DecodeError on every path, and never another exception."""
    old, new = made("Item", ("a", int), ("b", str)), made("Item", ("b", str), ("c", float, 1.0))
    serializer = get_serializer(exact_way[0])
    data = encode(*exact_way, old(1, "x"))
    for declared in (Evolution(), Evolution(renames={"a": "c"}), Evolution(upgrade=lambda d: d)):
        decode = make_decoder(serializer, shape_of(new), schema_of(exact_way[0], old), declared)
        for size in range(len(data)):
            try:
                assert type(decode(data[:size], 1)) is new
            except DecodeError as error:
                assert len(str(error)) > 20


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"version": 0}, "version must be an int from 1 on, not 0"),
        ({"version": True}, "version must be an int"),
        ({"version": "2"}, "version must be an int"),
        ({"renames": [("a", "b")]}, "renames must be a dict"),
        ({"renames": {"old": 1}}, "renames must lead from a field name to a field's name"),
        ({"renames": {"a": "a"}}, "leads from 'a' back"),
        ({"renames": {"x": "y", "y": "x"}}, "leads from 'x' back"),
        ({"renames": {"old": "nothing"}}, "no class has a stored field 'nothing'"),
        ({"renames": {"old": "id"}}, "no class has a stored field 'id'"),
        ({"renames": {"b": "a"}}, "Item has a field 'b' too"),
        ({"converters": {"a": 1}}, "converters must lead from a field name to a function"),
        ({"converters": {"old": int}}, "no class has a stored field 'old'"),
        ({"upgrade": 1}, "upgrade must be a function"),
        ({"version": 2, "upgrade": print, "upgrades": {2: print}}, "contradict"),
        ({"upgrades": {2: print}}, "the class is of version 1"),
        ({"version": 3, "upgrades": {1: print}}, "a function for version 1"),
        ({"version": 3, "upgrades": {4: print}}, "a function for version 4"),
        ({"version": 2, "upgrades": {"2": print}}, "upgrades must lead from a version"),
        ({"version": 2, "upgrades": {2: None}}, "upgrades must lead from a version to a function"),
    ],
)
def test_wrong_declarations(declared: dict[str, Any], message: str) -> None:
    """A declaration of a wrong type, or that contradicts another or the class, is refused."""
    shape = shape_of(made("Item", ("a", int), ("b", int), ("id", int, 0)))
    with pytest.raises(ConfigError) as caught:
        Evolution(**declared).validate(shape)

    assert message in str(caught.value)


def test_right_declarations() -> None:
    """What fits the class, or any class of several, is accepted."""
    cat, dog = made("Cat", ("a", int)), made("Dog", ("b", int))
    declared = Evolution(2, {"x": "a", "y": "b"}, {"b": float}, None, {2: print})
    declared.validate()
    declared.validate(shape_of(cat), shape_of(dog))
    Evolution(renames={"x": "y"}).validate(shape_of(None))
    with pytest.raises(ConfigError, match="plain dicts declare no types"):
        Evolution(converters={"x": int}).validate(shape_of(None))


# -- a user's own serializer -------------------------------------------------------------------


class OwnSerializer:
    """Keeps the interface and nothing else: JSON of the values by name."""

    name = "tests.own"

    def codec(self, shape: Any, writer: Any = None) -> Any:
        """Return the codec of JSON."""
        return get_serializer("json").codec(shape, writer)


def test_a_serializer_of_the_users() -> None:
    """What is declared works with any serializer that can give dicts."""
    serializer = OwnSerializer()
    old, new = made("Item", ("a", int), ("cents", int)), made("Item", ("b", Decimal), ("n", int, 1))
    shape = shape_of(old)
    data, schema = serializer.codec(shape).encode(old(1, 250)), writer_schema(shape, serializer)
    declared = Evolution(
        renames={"cents": "b"}, converters={"b": lambda cents: Decimal(cents) / 100}
    )

    actual = make_decoder(serializer, shape_of(new), schema, declared)(data, 1)
    assert_exact(actual, new(Decimal("2.5")))
    plain = made("Item", ("a", int), ("more", str, "x"))
    actual = make_decoder(serializer, shape_of(plain), schema, Evolution())(data, 1)
    assert_exact(actual, plain(1, "x"))


def test_a_serializer_that_gives_no_dict() -> None:
    """A serializer that can't read a class as a dict is named as the reason."""

    class Codec:
        encode = decode = staticmethod(lambda *_: 1)

    class Serializer:
        name = "tests.none"

        def codec(self, shape: Any, writer: Any = None) -> Any:
            return Codec

    old, new = made("Item", ("a", int)), made("Item", ("b", int))
    schema = writer_schema(shape_of(old), Serializer())
    decode = make_decoder(Serializer(), shape_of(new), schema, Evolution(renames={"a": "b"}))
    with pytest.raises(DecodeError, match="does not come back as a dict, but as int"):
        decode(b"", 1)
