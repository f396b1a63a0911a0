"""Records of every kind for the model, thread and aliasing tests, and how to handle them alike.

Each kind has a text `name` and an int `n` besides what makes it special, so that one test can
run over all of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

import attrs
import msgspec
import numpy as np
import pydantic
from hypothesis import strategies as st

from tests.support.exact import is_exact

SERIALIZERS = ("binary", "msgpack", "json", "pickle")


@dataclass
class Address:
    city: str
    lines: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Slotted:
    name: str
    n: int
    when: datetime | None = None
    amount: Decimal = Decimal(0)
    id: int = 0


class Struct(msgspec.Struct):
    name: str
    n: int
    tags: list[str] = []
    id: int = 0


@dataclass
class Nested:
    name: str
    n: int
    rows: list[list[int]] = field(default_factory=list)
    table: dict[str, list[str]] = field(default_factory=dict)
    home: Address | None = None
    id: int = 0


@dataclass(frozen=True)
class Frozen:
    name: str
    n: int
    pair: tuple[int, ...] = ()
    id: int = 0


class Pair(NamedTuple):
    name: str
    n: int
    tags: tuple[str, ...] = ()
    id: int = 0


@attrs.define
class Defined:
    name: str
    n: int
    tags: list[str] = attrs.Factory(list)
    home: Address | None = None
    id: int = 0


@dataclass(frozen=True, slots=True)
class Sealed:
    """Frozen, and yet what its fields hold can be changed."""

    name: str
    n: int
    rows: list[list[int]] = field(default_factory=list)
    parts: tuple[set[str], bytearray, tuple[list[int], ...]] = field(
        default_factory=lambda: (set(), bytearray(), ())
    )
    home: Address | None = None
    id: int = 0


class Model(pydantic.BaseModel):
    name: str
    n: int
    tags: list[str] = []
    id: int = 0


@dataclass
class Arrays:
    name: str
    n: int
    grid: np.ndarray[Any, Any] = field(default_factory=lambda: np.zeros(0))
    scale: np.float32 = field(default_factory=lambda: np.float32(1))
    id: int = 0

    def __eq__(self, other: object) -> bool:
        """As arrays have no single truth."""
        return is_exact(self, other)


@dataclass
class Nameless:
    """Has no field for its identity."""

    name: str
    n: int
    tags: list[str] = field(default_factory=list)


@dataclass
class Anything:
    """Its values are not what an annotation tells."""

    name: str
    n: int
    value: Any = None
    id: int = 0


@dataclass(frozen=True, eq=False)
class RecordKind:
    """A kind of record, and how a test makes and changes one.

    Attributes:
        cls: The class, None for plain dicts.
        fields: Strategies for the values of the fields besides ``id``.
        cloners: Those under which a reader that changes only the record itself does no harm.
        is_mutable: Whether a field can be set.
    """

    cls: type[Any] | None
    fields: dict[str, st.SearchStrategy[Any]]
    cloners: tuple[str, ...] = ("auto", "roundtrip")
    is_mutable: bool = True

    @property
    def name(self) -> str:
        """What messages and files call the kind."""
        return "dict" if self.cls is None else self.cls.__name__

    @property
    def target(self) -> Any:
        """What `Database.collection` is given."""
        return "dict" if self.cls is None else self.cls

    @property
    def has_identity(self) -> bool:
        """Whether the records carry their identity."""
        return self.cls is not Nameless

    def make(self, values: dict[str, Any], identity: int = 0) -> Any:
        """Return a new record, with an identity where it can have one."""
        if self.cls is None:
            return {**values, "id": identity} if identity else dict(values)
        if self.has_identity:
            values = values | {"id": identity}
        # A model would refuse what is not as annotated, and then nobody else could.
        return self.cls.model_construct(**values) if self.cls is Model else self.cls(**values)

    def values(self, record: Any) -> dict[str, Any]:
        """Return the fields of a record without its identity."""
        if self.cls is None:
            return {name: value for name, value in record.items() if name != "id"}
        if self.cls is Pair:
            found = record._asdict()
        elif self.cls is Struct:
            found = msgspec.structs.asdict(record)
        elif self.cls is Defined:
            found = {each.name: getattr(record, each.name) for each in attrs.fields(Defined)}
        elif self.cls is Model:
            found = dict(record)
        else:
            found = {f.name: getattr(record, f.name) for f in dataclasses.fields(record)}
        found.pop("id", None)
        return dict(found)

    def get(self, record: Any, name: str) -> Any:
        """Return the value of a field."""
        return record[name] if self.cls is None else getattr(record, name)

    def set(self, record: Any, name: str, value: Any) -> None:
        """Set a field of a mutable record."""
        if self.cls is None:
            record[name] = value
        else:
            setattr(record, name, value)

    def vandalise(self, record: Any, *, deeply: bool = True) -> None:
        """Change whatever can be changed in a record, as a careless receiver would."""
        if deeply:
            for value in self.values(record).values():
                _vandalise_value(value)
        if self.is_mutable:
            self.set(record, "name", "VANDALISED")
            self.set(record, "n", -666)


def _vandalise_value(value: Any) -> None:
    if isinstance(value, list):
        for part in value:
            _vandalise_value(part)
        value.append("VANDALISED")
    elif isinstance(value, dict):
        for part in value.values():
            _vandalise_value(part)
        value["VANDALISED"] = True
    elif isinstance(value, set):
        value.add("VANDALISED")
    elif isinstance(value, np.ndarray):
        value.fill(66)
    elif isinstance(value, bytearray):
        value.extend(b"VANDALISED")
    elif isinstance(value, tuple):
        for part in value:
            _vandalise_value(part)
    elif isinstance(value, Address):
        _vandalise_value(value.lines)
        value.city = "VANDALISED"


# New objects each time: what one test changes must not be another's.
def _fresh(*makers: Callable[[], Any]) -> st.SearchStrategy[Any]:
    return st.sampled_from(makers).map(lambda make: make())


NAMES = st.sampled_from(["", "a", "b", "żółw", "a" * 40])
NUMBERS = st.sampled_from([0, 1, 2, 3, -5, 2**31, 2**63 - 1, 2**70])
TEXTS = _fresh(list, lambda: ["x"], lambda: ["x", ""], lambda: ["y"] * 3)
MOMENTS = st.sampled_from(
    [
        None,
        datetime(2024, 5, 6, 7, 8, 9, 123456, tzinfo=UTC),
        datetime(2024, 10, 27, 2, 30, fold=1),
        datetime(1, 1, 1),
    ]
)
ANYTHING = _fresh(
    lambda: None,
    lambda: True,
    lambda: 1.0,
    lambda: -0.0,
    lambda: float("nan"),
    lambda: 2**200,
    lambda: b"\x00",
    lambda: bytearray(b"x"),
    lambda: date(2020, 2, 29),
    lambda: timedelta(-1, 5, 7),
    lambda: Decimal("1.10"),
    lambda: (1, [2, {3}]),
    lambda: {1: "a", "1": ["b"], (1, 2): {}},
    lambda: {"x", "y"},
    lambda: frozenset({1, 2}),
    lambda: [[], {}, ()],
)

AMOUNTS = st.sampled_from([Decimal(0), Decimal("1.10"), Decimal("1E+5")])

ROWS = _fresh(list, lambda: [[1], []], lambda: [[2, 3]])
HOMES = _fresh(lambda: None, lambda: Address("Rome"), lambda: Address("", ["1", "2"]))

_BASE = {"name": NAMES, "n": NUMBERS}
KINDS = (
    RecordKind(
        Slotted,
        _BASE | {"when": MOMENTS, "amount": AMOUNTS},
        cloners=("auto", "roundtrip", "fields", "share"),
    ),
    RecordKind(Struct, _BASE | {"tags": TEXTS}, cloners=("auto", "roundtrip", "fields", "share")),
    RecordKind(
        Nested,
        _BASE
        | {
            "rows": ROWS,
            "table": _fresh(dict, lambda: {"k": ["v"]}, lambda: {"k": [], "": ["w"]}),
            "home": HOMES,
        },
    ),
    RecordKind(
        Frozen,
        _BASE | {"pair": st.sampled_from([(), (1,), (1, 2)])},
        cloners=("auto", "roundtrip", "fields", "share"),
        is_mutable=False,
    ),
    RecordKind(Pair, _BASE | {"tags": st.sampled_from([(), ("x", "y")])}, is_mutable=False),
    RecordKind(Defined, _BASE | {"tags": TEXTS, "home": HOMES}),
    RecordKind(
        Sealed,
        _BASE
        | {
            "rows": ROWS,
            "parts": _fresh(
                lambda: (set(), bytearray(), ()), lambda: ({"x"}, bytearray(b"x"), ([1], []))
            ),
            "home": HOMES,
        },
        is_mutable=False,
    ),
    RecordKind(Model, _BASE | {"tags": TEXTS}),
    RecordKind(
        Arrays,
        _BASE
        | {
            "grid": _fresh(
                lambda: np.zeros(0),
                lambda: np.arange(6.0).reshape(2, 3).T,
                lambda: np.array([1, 2], ">i2"),
            ),
            "scale": st.sampled_from([np.float32(1), np.float32(0.1)]),
        },
    ),
    RecordKind(Nameless, _BASE | {"tags": TEXTS}),
    RecordKind(Anything, _BASE | {"value": ANYTHING}),
    RecordKind(None, _BASE | {"data": ANYTHING}),
)
BY_NAME = {kind.name: kind for kind in KINDS}
