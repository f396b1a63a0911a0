"""Random schemas of collections, and the values that their fields have in the tests."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
from hypothesis import strategies as st

PARIS = ZoneInfo("Europe/Paris")
KATHMANDU = timezone(timedelta(hours=5, minutes=45))
NAN = float("nan")


@dataclass(frozen=True)
class Address:
    """A record inside a record; hashable."""

    city: str
    code: int | None = None


class Shown:
    """Is shown by hypothesis as its ``repr`` has it, where it would list every field."""

    def _repr_pretty_(self, printer: Any, is_cycle: bool) -> None:
        printer.text(repr(self))


@dataclass(frozen=True, eq=False, repr=False)
class FieldKind(Shown):
    """A field: its annotation, and the values that it has in the tests.

    Attributes:
        name: Of the field, and what it is for.
        annotation: Its type.
        values: What it may hold; the first ones are met most.
        operands: What `<` and its kin compare it with.
        parts: What may be in one of its values; empty where ``contains`` makes no sense.
        is_hashable: Whether the annotation promises values that are.
        is_number: Whether it can be calculated with.
        is_plain: Whether equal values are the same value: no NaN, nothing of several types.
    """

    name: str
    annotation: Any
    values: tuple[Any, ...]
    operands: tuple[Any, ...] = ()
    parts: tuple[Any, ...] = ()
    is_hashable: bool = True
    is_number: bool = False
    is_plain: bool = True

    def __repr__(self) -> str:
        return self.name


_NUMBERS = (*(0, 1, 2, 3, -1, -2), *(2**53, 2**53 + 1, 2**62, 2**63, -(2**63), 2**70))
_TEXTS = ("a", "b", "ab", "", "B", "a\uffff", "a\U0010ffff", "é", "\ud800", "a\x00")
_MOMENTS = (
    datetime(2024, 10, 27, 2, 30),
    datetime(2024, 10, 27, 2, 30, fold=1),
    datetime(2024, 10, 27, 0, 30),
    datetime(2024, 1, 1),
    datetime(1969, 12, 31, 23, 59, 59, 999_999),
    datetime.min,
    datetime.max,
)
_INSTANTS = (
    datetime(2024, 10, 27, 0, 30, tzinfo=UTC),
    datetime(2024, 10, 27, 1, 30, tzinfo=UTC),
    datetime(2024, 10, 27, 2, 30, tzinfo=PARIS),
    datetime(2024, 10, 27, 2, 30, tzinfo=PARIS, fold=1),
    datetime(2024, 10, 27, 2, 45, tzinfo=PARIS),
    datetime(2024, 10, 27, 6, 15, tzinfo=KATHMANDU),
    datetime(2024, 3, 31, 2, 30, tzinfo=PARIS),
    datetime.min.replace(tzinfo=UTC),
    datetime.min.replace(tzinfo=KATHMANDU),
    datetime.max.replace(tzinfo=UTC),
)
_DAYS = (date(2024, 10, 27), date(2024, 10, 28), date(2024, 1, 1), date.min, date.max)
_RATIOS = (0.5, 1.0, 1.5, -2.5, 0.0, -0.0, NAN, math.inf, 1e300, 2.0**53, 1, 2**53 + 1)
_PRICES = tuple(map(Decimal, ("1.10", "1.1", "0", "-0", "3", "1E+3", "NaN", "0.5", "1E-30")))
_HOMES = (Address("Rome", 1), Address("Rome"), Address("Oslo", 2), Address("", 0))
_ANYTHING = (
    *(None, True, 0, 1, 1.0, 1.5, NAN, Decimal(1), 2**70, "", "a", "1", b"a", bytearray(b"a")),
    *(_DAYS[0], _MOMENTS[0], _INSTANTS[0], (1,), [1], [1, 2], ["a"], [None], {"a": 1}, {1}),
    *(frozenset({1}), timedelta(1)),
)

FIELDS = [
    FieldKind("number", int, _NUMBERS, (*_NUMBERS, 0.5, True, Decimal("1.5"), NAN), is_number=True),
    FieldKind("maybe", int | None, (None, *_NUMBERS), (*_NUMBERS, 1.5), is_number=True),
    FieldKind("text", str, _TEXTS, _TEXTS, ("a", "b", "", "ab")),
    FieldKind("flag", bool, (True, False), (True, False, 0, 1)),
    FieldKind("ratio", float, _RATIOS, (*_RATIOS, Decimal("0.5")), is_number=True, is_plain=False),
    FieldKind("price", Decimal, _PRICES, (*_PRICES, 1, 0.5), is_number=True, is_plain=False),
    FieldKind("day", date, _DAYS, _DAYS),
    FieldKind("moment", datetime, _MOMENTS, _MOMENTS, is_plain=False),
    FieldKind("instant", datetime, _INSTANTS, _INSTANTS, is_plain=False),
    FieldKind("when", datetime, (*_MOMENTS, *_INSTANTS), (*_MOMENTS, *_INSTANTS), is_plain=False),
    FieldKind(
        "tags",
        list[str],
        ([], ["a"], ["b"], ["a", "b"], ["a", "a"], ["", "c"]),
        ([], ["a"], ["a", "b"]),
        ("a", "b", "", "x"),
        is_hashable=False,
    ),
    FieldKind("home", Address, _HOMES),
    FieldKind("second_home", Address | None, (None, *_HOMES)),
    FieldKind(
        "anything",
        Any,
        _ANYTHING,
        tuple(value for value in _ANYTHING if value is not None),
        (1, "a", "x", 2),
        is_plain=False,
    ),
]
HOMES = ("home", "second_home")
# What a dict may hold besides; a set index wants its tags to be lists.
STRAY = (*_ANYTHING, {"city": "Rome"})


@dataclass(frozen=True, repr=False)
class Schema(Shown):
    """What the records of a collection are.

    Attributes:
        fields: Their fields besides ``id``.
        way: "dataclass", "frozen", "slots", "struct" or "dict".
        has_identity: Whether there is a field ``id``.
        key: The natural key, if any.
        is_loose: Whether a field may now and then hold what its annotation does not say.
    """

    fields: tuple[FieldKind, ...]
    way: str
    has_identity: bool
    key: str | None
    is_loose: bool

    def __repr__(self) -> str:
        names = " ".join(field.name for field in self.fields)
        loose = "loose " * self.is_loose
        return f"<{loose}{self.way} {names}{' id' * self.has_identity}, key={self.key}>"

    @property
    def is_certain(self) -> bool:
        """Whether each field is there and holds what it should."""
        return not self.is_dict and not self.is_loose

    @property
    def groupable(self) -> list[FieldKind]:
        """The fields by which records can be grouped without a doubt."""
        fields = self.fields if self.is_certain else ()
        return [
            field
            for field in fields
            if field.is_plain and field.is_hashable and field.name not in HOMES
        ]

    @property
    def is_dict(self) -> bool:
        """Whether any field can be absent, and hold anything."""
        return self.way == "dict"

    def target(self) -> Any:
        """Return a new class, or the name for dicts."""
        if self.is_dict:
            return "records"
        fields: list[Any] = [(field.name, field.annotation) for field in self.fields]
        if self.has_identity:
            fields.append(("id", int, 0))
        if self.way == "struct":
            return msgspec.defstruct("Record", fields)
        flags: dict[str, Any] = {"frozen": self.way == "frozen", "slots": self.way == "slots"}
        return dataclasses.make_dataclass("Record", fields, **flags)

    def make(self, cls: Any, values: dict[str, Any], identity: Any = 0) -> Any:
        """Return a record as it is stored."""
        own = {name: _copied(value) for name, value in values.items()}
        if self.has_identity and (identity or not self.is_dict):
            own["id"] = identity
        return own if self.is_dict else cls(**own)

    def values(self, record: Any) -> dict[str, Any]:
        """Return the fields of a record that are there, without the identity."""
        if self.is_dict:
            return {name: value for name, value in record.items() if name != "id" or self.key}
        return {field.name: getattr(record, field.name) for field in self.fields}


def _copied(value: Any) -> Any:
    return value.copy() if isinstance(value, list | dict | set | bytearray) else value


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    """Draw what the records of a collection are."""
    fields = draw(st.lists(st.sampled_from(FIELDS), min_size=2, max_size=4, unique=True))
    way = draw(st.sampled_from(["dataclass", "frozen", "slots", "struct", "dict", "dict"]))
    keys = [field.name for field in fields if field.name in ("number", "text", "day")]
    key = draw(st.sampled_from([None, None, *keys]))
    has_identity = key is None and (way == "dict" or draw(st.booleans()))
    is_loose = way != "dict" and draw(st.sampled_from([False, False, True]))
    return Schema(tuple(fields), way, has_identity, key, is_loose)


@st.composite
def records_of(draw: st.DrawFn, schema: Schema) -> dict[str, Any]:
    """Draw the values of a record."""
    values = {}
    for field in schema.fields:
        value = draw(st.sampled_from(field.values))
        if not schema.is_certain and field.name != schema.key:
            how = draw(st.sampled_from("vvvvvas" if schema.is_dict else "vvvvvvvvs"))
            if how == "a":
                continue
            if how == "s" and field.name != "tags":
                value = draw(st.sampled_from(STRAY))
        if schema.is_dict and isinstance(value, Address):
            value = dataclasses.asdict(value)
        values[field.name] = value
    return values
