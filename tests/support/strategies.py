"""Hypothesis strategies from types: the values that an annotation promises, and record classes.

`values_of` gives the values of any annotation, `records_of` those of a record class,
`record_classes` random classes of every kind, `anything` and `hashable_values` whatever a field
annotated `Any` or a key may hold.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import math
import types
import typing
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Hashable
from decimal import Decimal
from fractions import Fraction
from ipaddress import IPv4Address, IPv4Network, IPv6Address
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, TypedDict, get_args, get_origin
from uuid import UUID
from zoneinfo import ZoneInfo

import attrs
import msgspec
import numpy as np
import pydantic
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from memdb import by_name
from tests.support import records as samples

Strategy = st.SearchStrategy[Any]

# How deep records and containers go that refer to their own kind.
DEPTH = 3

# -- scalars ---------------------------------------------------------------------------------

#: Any text, also what is no UTF-8.
texts = st.text(st.characters(exclude_categories=[]), max_size=8) | st.sampled_from(
    ["", "\x00", "a\x00b", "\ud800", "\udcff", "\ud83d\ude00", "😀", "żółw", "a" * 40]
)
integers = st.integers(-(2**200), 2**200) | st.sampled_from(
    [edge + step for edge in (0, 2**31, 2**63, 2**64, -(2**63)) for step in (-1, 0, 1)]
)
floats = st.floats() | st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf, 5e-324, 1e22])
decimals = st.decimals() | st.sampled_from(
    [
        Decimal(text)
        for text in ("-0", "1.10", "1E+5", "0E-10", "NaN", "sNaN", "-NaN12", "Infinity", "1E+6144")
    ]
)

#: Named zones: with a repeated hour, one of half an hour, +05:45, and one that left out a day.
ZONES = [
    ZoneInfo(key)
    for key in (
        *("Europe/Paris", "America/New_York", "Australia/Lord_Howe"),
        *("Asia/Kathmandu", "Pacific/Apia", "UTC"),
    )
]
_REPEATED = {
    "Europe/Paris": dt.datetime(2024, 10, 27, 2, 30),
    "America/New_York": dt.datetime(2024, 11, 3, 1, 30),
    "Australia/Lord_Howe": dt.datetime(2024, 4, 7, 1, 45),
}
offsets = st.builds(
    dt.timezone,
    st.timedeltas(dt.timedelta(hours=-24, microseconds=1), dt.timedelta(hours=24, microseconds=-1)),
) | st.builds(dt.timezone, st.timedeltas(dt.timedelta(hours=-2), dt.timedelta(hours=2)), texts)
zones = st.one_of(st.just(dt.UTC), st.sampled_from(ZONES), offsets)
folds = st.sampled_from([0, 0, 1])
moments = st.one_of(
    st.builds(
        lambda moment, zone, fold: moment.replace(tzinfo=zone, fold=fold),
        st.datetimes() | st.sampled_from([dt.datetime.min, dt.datetime.max]),
        st.none() | zones,
        folds,
    ),
    st.builds(
        lambda key, fold: _REPEATED[key].replace(tzinfo=ZoneInfo(key), fold=fold),
        st.sampled_from(sorted(_REPEATED)),
        folds,
    ),
)
clocks = st.builds(
    lambda clock, zone, fold: clock.replace(tzinfo=zone, fold=fold),
    st.times() | st.sampled_from([dt.time.min, dt.time.max]),
    st.none() | zones,
    folds,
)


@by_name
class Mood(enum.Enum):
    """Is stored by the names of its members."""

    GLAD = 1
    SAD = "sad"


@by_name
class Right(enum.IntFlag):
    """The same, combined."""

    READ = 4
    WRITE = 2
    ALL = 6


# A path drops nothing of a text but doubled and trailing slashes.
path_texts = texts.map(lambda text: text.replace("\x00", ""))


def _flags(cls: type[enum.Flag]) -> Strategy:
    """Return every combination of flags, none of them included."""
    chosen = st.sets(st.sampled_from(list(cls)))
    return chosen.map(lambda members: cls(sum(member.value for member in members)))


#: The dtypes whose scalars and arrays can be stored, of both orders of bytes.
DTYPES = [
    np.dtype(code)
    for code in (
        *("?", "i1", "u1", "<i2", ">u2", "<i4", "<u4", "<i8", ">i8", "<u8"),
        *("<f2", "<f4", "<f8", ">f8", "<c8", "<c16"),
        *("<M8[s]", "<M8[ns]", "<m8[us]", "<U3", "S3", [("x", "<f4"), ("y", "i1", 2)]),
    )
]


def _elements(dtype: np.dtype[Any]) -> Strategy:
    """Return the elements of a dtype; numpy's own texts are without surrogates and NULs."""
    if dtype.kind == "U":
        return st.text(st.characters(exclude_categories=["Cs"], min_codepoint=1), max_size=3)
    return npst.from_dtype(dtype)


def numpy_scalars(dtype: np.dtype[Any]) -> Strategy:
    """Return numpy scalars of a dtype."""
    return _elements(dtype).map(lambda element: np.array(element, dtype)[()])


def arrays_of(dtype: np.dtype[Any]) -> Strategy:
    """Return arrays of a dtype: of no dimension to three, empty ones, and not contiguous ones."""
    plain = npst.arrays(
        dtype,
        npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3),
        elements=_elements(dtype),
    )
    return plain | plain.map(np.transpose) | plain.map(lambda array: np.repeat(array, 2)[::2])


arrays = st.sampled_from(DTYPES).flatmap(arrays_of)

#: For each type the values that it promises.
LEAVES: dict[Any, Strategy] = {
    type(None): st.none(),
    int: integers,
    float: floats | integers,
    bool: st.booleans(),
    str: texts,
    bytes: st.binary(max_size=8),
    bytearray: st.binary(max_size=8).map(bytearray),
    complex: st.complex_numbers() | st.builds(complex, floats, floats),
    dt.date: st.dates(),
    dt.time: clocks,
    dt.datetime: moments,
    dt.timedelta: st.timedeltas() | st.sampled_from([dt.timedelta.min, dt.timedelta.max]),
    dt.timezone: offsets,
    ZoneInfo: st.sampled_from(ZONES),
    Decimal: decimals,
    Fraction: st.fractions() | st.builds(Fraction, integers, integers.filter(bool)),
    UUID: st.uuids(),
    IPv4Address: st.ip_addresses(v=4),
    IPv6Address: st.ip_addresses(v=6),
    IPv4Network: st.ip_addresses(v=4).map(lambda address: IPv4Network(int(address))),
    Path: path_texts.map(Path),
    PurePosixPath: path_texts.map(PurePosixPath),
    samples.Color: st.sampled_from(samples.Color),
    samples.Level: st.sampled_from(samples.Level),
    samples.Text: st.sampled_from(samples.Text),
    samples.Shade: st.sampled_from(samples.Shade),
    samples.Permission: _flags(samples.Permission),
    Mood: st.sampled_from(Mood),
    Right: _flags(Right),
    range: st.builds(range, integers, integers, integers.filter(bool)),
}
NUMPY_LEAVES: dict[Any, Strategy] = {
    dtype.type: numpy_scalars(dtype) for dtype in DTYPES if dtype.kind not in "USV"
} | {np.ndarray: arrays}

# Those that need no class to be named, so that a field of any annotation can hold them.
_UNNAMED = [leaf for leaf in LEAVES if not issubclass(leaf, enum.Enum)]
KEYS: list[Any] = [
    *(str, int, bool, bytes, dt.date, dt.datetime, dt.time, dt.timedelta, UUID, Decimal, Fraction),
    *(samples.Color, samples.Level, samples.Permission, Path, IPv4Address, type(None)),
]


def _is_hashable(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        # A signalling NaN.
        return False
    return True


def hashable_values(*, with_classes: bool = False) -> Strategy:
    """Return whatever may be a key or an element of a set.

    Args:
        with_classes: Also members of Enum classes, which only an annotation can name.
    """
    leaves = [leaf for leaf in (LEAVES if with_classes else _UNNAMED) if leaf is not bytearray]
    scalars = st.one_of([LEAVES[leaf] for leaf in leaves]).filter(_is_hashable)
    return scalars | st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=2).map(tuple) | st.frozensets(inner, max_size=2),
        max_leaves=3,
    )


def anything(*, with_numpy: bool = True) -> Strategy:
    """Return whatever a field annotated ``Any`` can hold: all but members of classes."""
    leaves = [LEAVES[leaf] for leaf in _UNNAMED]
    if with_numpy:
        leaves += [st.one_of(*NUMPY_LEAVES.values())]
    keys = hashable_values()
    return st.recursive(
        st.one_of(leaves),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.lists(inner, max_size=3).map(tuple),
            st.dictionaries(texts, inner, max_size=3),
            st.dictionaries(keys, inner, max_size=3),
            st.sets(keys, max_size=3),
            st.frozensets(keys, max_size=3),
            st.builds(deque, st.lists(inner, max_size=2), st.none() | st.integers(0, 3)),
            st.dictionaries(keys, inner, max_size=2).map(OrderedDict),
            st.dictionaries(keys, st.integers(-1, 2), max_size=2).map(Counter),
        ),
        max_leaves=6,
    )


# -- annotations -----------------------------------------------------------------------------


def values_of(annotation: Any, *, depth: int = DEPTH) -> Strategy:
    """Return the values that an annotation promises.

    Args:
        annotation: A type, a union, a container of them, a record class of any kind, or one of
            the forms of `typing`; references by name must have been resolved.
        depth: How many records may lie in each other; below that, whatever can be empty is.

    Raises:
        LookupError: Nothing is known about the annotation.
    """
    return _values(annotation, {}, depth)


def _values(annotation: Any, variables: dict[Any, Any], depth: int) -> Strategy:
    annotation = _stripped(annotation, variables)
    if annotation in (Any, object):
        return anything()
    if isinstance(annotation, Hashable):
        known = LEAVES | NUMPY_LEAVES
        if annotation in known:
            return known[annotation]
    origin = get_origin(annotation)
    if origin is typing.Literal:
        return st.sampled_from(get_args(annotation))
    if origin in (typing.Union, types.UnionType):
        parts = [part for part in get_args(annotation) if depth > 0 or not _is_record(part)]
        return st.one_of(
            [_values(part, variables, depth) for part in parts or get_args(annotation)]
        )
    target = origin or annotation
    if target is np.ndarray:
        return _arrays_by(annotation)
    if target in _CONTAINERS:
        return _contained(target, get_args(annotation), variables, depth)
    if isinstance(target, type) and issubclass(target, enum.Flag):
        return _flags(target)
    if isinstance(target, type) and issubclass(target, enum.Enum):
        return st.sampled_from(target)
    if isinstance(target, type) and _is_record(target):
        parameters = getattr(target, "__parameters__", ())
        return records_of(
            target, depth=depth, variables=dict(zip(parameters, get_args(annotation), strict=False))
        )
    raise LookupError(annotation)


def _stripped(annotation: Any, variables: dict[Any, Any]) -> Any:
    """Return what an annotation comes down to, without names and notes."""
    while True:
        origin = get_origin(annotation)
        if origin in (typing.Annotated, typing.Final, typing.Required, typing.NotRequired):
            annotation = get_args(annotation)[0]
        elif isinstance(annotation, typing.NewType):
            annotation = annotation.__supertype__
        elif isinstance(annotation, typing.TypeVar):
            annotation = variables.get(annotation, annotation.__bound__ or Any)
        elif isinstance(annotation, dataclasses.InitVar):
            annotation = annotation.type
        elif annotation is None:
            return type(None)
        else:
            return annotation


def _arrays_by(annotation: Any) -> Strategy:
    """Return the arrays that ``NDArray[...]`` promises."""
    found = [np.dtype(get_args(part)[0]) for part in get_args(annotation) if get_args(part)[:1]]
    kinds = [part for part in found if part.type is not np.object_]
    return arrays_of(kinds[-1]) if kinds else arrays


_CONTAINERS: dict[Any, Callable[[Strategy, int], Strategy]] = {
    list: lambda inner, size: st.lists(inner, max_size=size),
    set: lambda inner, size: st.sets(inner.filter(_is_hashable), max_size=size),
    frozenset: lambda inner, size: st.frozensets(inner.filter(_is_hashable), max_size=size),
    tuple: lambda inner, size: st.lists(inner, max_size=size).map(tuple),
    dict: lambda inner, size: st.dictionaries(texts, inner, max_size=size),
    deque: lambda inner, size: st.lists(inner, max_size=size).map(deque),
    OrderedDict: lambda inner, size: st.dictionaries(texts, inner, max_size=size).map(OrderedDict),
}


def _contained(
    target: Any, arguments: tuple[Any, ...], variables: dict[Any, Any], depth: int
) -> Strategy:
    if not arguments:
        inner = hashable_values() if target in (set, frozenset) else anything()
        return _CONTAINERS[target](inner, 3)
    size = 0 if depth <= 0 and any(map(_is_record, arguments)) else min(3, depth + 1)
    if target in (dict, OrderedDict):
        keys = _values(arguments[0], variables, depth).filter(_is_hashable)
        items = _values(arguments[1], variables, depth)
        return st.dictionaries(keys, items, max_size=size).map(target)
    if target is tuple and arguments[-1] is not Ellipsis:
        return st.tuples(*[_values(part, variables, depth) for part in arguments if part != ()])
    if size == 0:
        return st.builds(target)
    return _CONTAINERS[target](_values(arguments[0], variables, depth), size)


# -- records ---------------------------------------------------------------------------------

Kind = typing.Literal["dataclass", "struct", "attrs", "namedtuple", "pydantic", "typeddict"]
KINDS: tuple[Kind, ...] = typing.get_args(Kind)


def _is_record(cls: Any) -> bool:
    return kind_of(get_origin(cls) or cls) is not None


def kind_of(cls: Any) -> Kind | None:
    """Return which library made a record class, None for what is none."""
    if typing.is_typeddict(cls):
        return "typeddict"
    if not isinstance(cls, type):
        return None
    if issubclass(cls, msgspec.Struct):
        return "struct"
    if dataclasses.is_dataclass(cls):
        return "dataclass"
    if attrs.has(cls):
        return "attrs"
    if issubclass(cls, pydantic.BaseModel):
        return "pydantic"
    return "namedtuple" if issubclass(cls, tuple) and hasattr(cls, "_fields") else None


def records_of(
    cls: Any, *, depth: int = DEPTH, variables: dict[Any, Any] | None = None
) -> Strategy:
    """Return records of a class, made as a program makes them; their identity is left at 0.

    Args:
        cls: A record class of any kind, also one that refers to itself.
        depth: How many records may lie in each other.
        variables: What the type variables of a generic class stand for.
    """
    kind = kind_of(cls)
    hints = typing.get_type_hints(cls, include_extras=True)
    names = _names_of(cls, kind, hints)
    identity = {}
    if "id" in names and _stripped(hints["id"], {}) in (int, int | None):
        names.remove("id")
        identity = {"id": 0}

    def values(name: str) -> Strategy:
        return st.deferred(lambda: _values(hints.get(name, Any), variables or {}, depth - 1))

    fields = {name: values(name) for name in names}
    if kind == "typeddict":
        optional = {name: fields.pop(name) for name in cls.__optional_keys__}
        return st.fixed_dictionaries(fields, optional=optional)
    return st.fixed_dictionaries(fields).map(lambda values: make_record(cls, values | identity))


def _names_of(cls: Any, kind: Kind | None, hints: dict[str, Any]) -> list[str]:
    match kind:
        case "dataclass":
            own = [each.name for each in dataclasses.fields(cls)]
            return own + [n for n, hint in hints.items() if isinstance(hint, dataclasses.InitVar)]
        case "struct":
            return list(cls.__struct_fields__)
        case "attrs":
            return [each.name for each in attrs.fields(cls)]
        case "pydantic":
            return list(cls.model_fields)
        case "typeddict":
            return list(hints)
        case "namedtuple":
            return list(cls._fields)
    raise LookupError(cls)


def make_record(cls: Any, values: dict[str, Any]) -> Any:
    """Return a record of values by field name, also of fields that no constructor takes."""
    match kind_of(cls):
        case "dataclass":
            outside = {each.name for each in dataclasses.fields(cls) if not each.init}
            record = cls(**{name: v for name, v in values.items() if name not in outside})
            for name in outside & values.keys():
                object.__setattr__(record, name, values[name])
            return record
        case "attrs":
            aliases = {each.name: each.alias or each.name for each in attrs.fields(cls)}
            return cls(**{aliases[name]: value for name, value in values.items()})
        case "pydantic":
            # Validation would turn many a value into another one, or refuse it.
            return cls.model_construct(**values)
    return cls(**values)


def field_values(record: Any) -> dict[str, Any]:
    """Return the values of a record by field name; of what is no record, nothing."""
    cls: Any = type(record)
    kind = kind_of(cls)
    return {} if kind is None else {n: getattr(record, n) for n in _names_of(cls, kind, {})}


#: Classes that annotations refer to.
RECORDS: list[Any] = [
    *(samples.Address, samples.Inner, samples.Pair, samples.FrozenStruct, samples.AttrsFrozen),
    *(samples.Node, samples.Frozen),
]


def type_annotations(*, with_numpy: bool = False, with_records: bool = True) -> Strategy:
    """Return annotations: of scalars, containers, unions, records, and ``Any``."""
    scalars = st.sampled_from([*LEAVES, Any])
    if with_numpy:
        scalars |= st.sampled_from([*NUMPY_LEAVES])
    if with_records:
        scalars |= st.sampled_from(RECORDS)
    return st.recursive(scalars, _containing, max_leaves=3)


# Behind names that no type checker follows: what they are given is known only when it runs.
_LIST, _TUPLE, _DICT, _SET, _FROZENSET = typing.cast(Any, (list, tuple, dict, set, frozenset))
_DEQUE, _ORDERED_DICT = typing.cast(Any, (deque, OrderedDict))
_UNION, _ANNOTATED, _new_type = typing.cast(Any, (typing.Union, typing.Annotated, typing.NewType))
_named_tuple, _typed_dict = typing.cast(Any, (NamedTuple, TypedDict))
_make_dataclass, _defstruct, _create_model = typing.cast(
    Any, (dataclasses.make_dataclass, msgspec.defstruct, pydantic.create_model)
)


def _containing(inner: Strategy) -> Strategy:
    """Return annotations that contain others."""
    keys = st.sampled_from(KEYS)
    literals = st.sampled_from(
        [
            typing.Literal["a", "b"],
            typing.Literal[1, "1", True, None],
            typing.Literal[samples.Color.RED, 0],
        ]
    )
    return st.one_of(
        inner.map(lambda part: _LIST[part]),
        inner.map(lambda part: _TUPLE[part, ...]),
        st.tuples(inner, inner).map(lambda pair: _TUPLE[pair]),
        st.tuples(keys, inner).map(lambda pair: _DICT[pair]),
        keys.map(lambda part: _SET[part]),
        inner.map(lambda part: _DEQUE[part]),
        st.tuples(keys, inner).map(lambda pair: _ORDERED_DICT[pair]),
        keys.map(lambda part: _FROZENSET[part]),
        inner.map(lambda part: _UNION[part, None]),
        st.tuples(inner, inner).map(lambda pair: _UNION[pair]),
        inner.map(lambda part: _ANNOTATED[part, "a note"]),
        inner.map(lambda part: _new_type("Named", part)),
        literals,
        st.sampled_from([list, dict, set, frozenset, tuple]),
    )


# Names that generated code might use itself, and one that is not ASCII.
_FIELD_NAMES = [
    *("a", "value", "data", "record", "identity", "type", "len", "list", "e", "r", "o"),
    "żółw",
]


@st.composite
def record_classes(
    draw: st.DrawFn,
    *,
    kinds: typing.Sequence[Kind] = KINDS,
    of: Strategy | None = None,
    has_identity: bool | None = None,
    max_fields: int = 4,
) -> Any:
    """Draw a record class of some kind with some fields.

    Args:
        draw: Of hypothesis.
        kinds: Which libraries may make it.
        of: The annotations of the fields; any unless told.
        has_identity: Whether there is a field ``id``; either unless told.
        max_fields: The most besides ``id``.
    """
    kind = draw(st.sampled_from(kinds), label="kind")
    names = draw(
        st.lists(st.sampled_from(_FIELD_NAMES), min_size=1, max_size=max_fields, unique=True)
    )
    fields = {name: draw(type_annotations() if of is None else of, label=name) for name in names}
    if has_identity is None:
        has_identity = draw(st.booleans(), label="has identity")
    flags = {name: draw(st.booleans(), label=name) for name in ("frozen", "slots", "kw_only")}
    return make_class(kind, fields, flags, has_identity=has_identity)


def make_class(
    kind: Kind, fields: dict[str, Any], flags: dict[str, bool], *, has_identity: bool
) -> Any:
    """Return a record class; flags that its library does not know are left out."""
    identity: list[tuple[str, Any, Any]] = [("id", int, 0)] if has_identity else []
    plain = list(fields.items())
    match kind:
        case "dataclass":
            return _make_dataclass("Record", [*plain, *identity], **flags)
        case "struct":
            known = {name: flags[name] for name in ("frozen", "kw_only")}
            return _defstruct("Record", [*plain, *identity], **known)
        case "attrs":
            own = {name: attrs.field(type=annotation) for name, annotation in plain}
            own |= {name: attrs.field(type=of, default=0) for name, of, _ in identity}
            return attrs.make_class("Record", own, slots=flags["slots"], frozen=flags["frozen"])
        case "namedtuple":
            tuple_cls = _named_tuple("Record", [*plain, *[(name, of) for name, of, _ in identity]])
            tuple_cls.__new__.__defaults__ = (0,) * len(identity)
            tuple_cls._field_defaults = {name: default for name, _, default in identity}
            return tuple_cls
        case "pydantic":
            return _create_model(
                "Record",
                __config__=pydantic.ConfigDict(
                    arbitrary_types_allowed=True, frozen=flags["frozen"]
                ),
                **{name: (annotation, ...) for name, annotation in plain},
                **{name: (of, default) for name, of, default in identity},
            )
        case "typeddict":
            return _typed_dict("Record", dict(plain))
    raise LookupError(kind)


def names_a_class(value: Any) -> bool:
    """Whether a value is or holds a record or an Enum member, which only annotations can name."""
    if isinstance(value, enum.Enum) or kind_of(type(value)) is not None:
        return True
    if isinstance(value, dict):
        return any(map(names_a_class, [*value, *value.values()]))
    if isinstance(value, list | tuple | set | frozenset | deque):
        return any(map(names_a_class, value))
    return False
