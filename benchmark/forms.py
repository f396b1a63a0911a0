"""The forms that the record's class had in the past, for reading what they wrote."""

from __future__ import annotations

import dataclasses
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec

from benchmark.records import DISTINCT, Item, make_distinct
from memdb.serializers import Evolution

KINDS = ("dataclass", "Struct")

_Fields = list[tuple[Any, ...]]

# As `Item`; the last field, which came last, has a default.
_PRESENT: dict[str, tuple[Any, ...]] = {
    "id": (int,),
    "name": (str,),
    "category": (str,),
    "created_at": (datetime,),
    "updated_at": (datetime,),
    "amount": (Decimal,),
    "count": (int,),
    "is_active": (bool, False),
}


class Form(NamedTuple):
    """A form that the class had once.

    Attributes:
        name: In the tables.
        fields: Its fields, each a name and a type.
        evolution: What reading it with the present class needs to be told.
    """

    name: str
    fields: _Fields
    evolution: Evolution


def _fields(**changes: Any) -> _Fields:
    """Return the present fields; a change is another type, a new name, or None for no field."""
    found: _Fields = []
    for name, what in _PRESENT.items():
        change = changes.get(name, what[0])
        if isinstance(change, str):
            found.append((change, what[0]))
        elif change is not None:
            found.append((name, change))
    return found


PAST = (
    Form("a field added", _fields(is_active=None), Evolution()),
    Form("a field renamed", _fields(name="title"), Evolution(renames={"title": "name"})),
    Form("a field retyped", _fields(amount=int), Evolution()),
)


def present_class(kind: str) -> type[Any]:
    """Return the class as it is now, a dataclass or a Struct."""
    return _make(kind, [(name, *what) for name, what in _PRESENT.items()])


def past_class(kind: str, form: Form) -> type[Any]:
    """Return the class as it was then."""
    return _make(kind, form.fields)


def _make(kind: str, fields: _Fields) -> type[Any]:
    """Make a class called as `Item` is, whatever its form."""
    if kind == "Struct":
        return msgspec.defstruct(Item.__name__, fields)
    made = [
        (name, cls, dataclasses.field(default=default[0])) if default else (name, cls)
        for name, cls, *default in fields
    ]
    return dataclasses.make_dataclass(Item.__name__, made, slots=True)


def make_of(cls: type[Any], count: int) -> list[Any]:
    """Return the distinct ones of ``count`` records as records of any form."""
    rows = []
    for record in make_distinct(Item, min(count, DISTINCT)):
        row = {name: getattr(record, name) for name in _PRESENT} | {"title": record.name}
        if cls.__annotations__["amount"] is int:
            row["amount"] = int(record.amount)
        rows.append(cls(**{name: row[name] for name in cls.__match_args__}))
    return rows
