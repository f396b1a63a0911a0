"""The tables of docs/guide/values.md and evolution.md are true: each row is tried."""

from __future__ import annotations

import json
import re
import sys
import types
from collections.abc import Iterator
from dataclasses import make_dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

import memdb
from memdb.serializers import get_serializer, shape_of
from memdb.serializers._exact import ExactTier
from memdb.serializers._generate import GeneratedSerializer
from tests.support.exact import assert_exact
from tests.support.markdown import ROOT, blocks
from tests.support.python import PICKLES_SCOPES

VALUES = ROOT / "docs" / "guide" / "values.md"
EVOLUTION = ROOT / "docs" / "guide" / "evolution.md"
SERIALIZERS = ("binary", "msgpack", "json", "pickle")
TRUST: dict[str, Any] = {"trusted_serializers": ["pickle"]}
PACKED = {
    type(None): "nil",
    bool: "bool",
    int: "int",
    float: "float",
    str: "str",
    bytes: "bin",
    datetime: "timestamp",
    list: "array",
    dict: "map",
}

Row = dict[str, str]


def rows(page: Path, *header: str) -> list[Row]:
    """Return the rows of every table of a page whose header begins so, by column."""
    found: list[Row] = []
    columns: list[str] = []
    for line in page.read_text(encoding="utf-8").splitlines():
        if not line.startswith("|"):
            columns = []
            continue
        cells = [
            cell.strip().strip("`").replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", line)
        ][1:-1]
        if columns:
            if set(cells[0]) != {"-"}:
                found.append(dict(zip(columns, cells, strict=True)))
        elif cells[: len(header)] == list(header):
            columns = cells
    return found


STORED = rows(VALUES, "field", "value")
REFUSED = rows(VALUES, "value", "the message says")
RECORDS = rows(VALUES, "record", "made by")
WIDENED = rows(EVOLUTION, "was", "is now")


@pytest.fixture(scope="module")
def names() -> Iterator[dict[str, Any]]:
    """The names that stand in the tables, which the page defines in its last block."""
    *_, block = blocks(VALUES.read_text(encoding="utf-8"))
    module = types.ModuleType("names_of_the_tables")
    # Pickle and annotations look the classes up there.
    sys.modules[module.__name__] = module
    exec(compile(block.code, str(VALUES), "exec"), module.__dict__)
    yield module.__dict__
    del sys.modules[module.__name__]


def made(row: Row, names: dict[str, Any]) -> tuple[Any, Any]:
    """Return a class with a field as a row has it, and the row's value."""
    return row_class(eval(row["field"], names)), eval(row["value"], names)


def row_class(annotation: Any) -> Any:
    """Return a class of records with one field that is annotated so."""
    return make_dataclass("Row", [("value", annotation), ("id", int, 0)])


def name(row: Row) -> str:
    """Return what the tests call a row."""
    return " ".join(list(row.values())[:2])[:60].encode("ascii", "replace").decode()


def test_there_are_rows() -> None:
    """The tables were found, and each has the columns that the tests look at."""
    assert len(STORED) > 70 and len(REFUSED) > 15 and len(RECORDS) > 10 and len(WIDENED) > 10
    assert all([*row] == [*STORED[0]] for row in STORED)
    assert list(STORED[0])[2:] == [
        *("binary", "msgpack", "json", "exact form", "pickle", "key"),
    ]


# -- values


def records(names: dict[str, Any]) -> dict[str, Any]:
    """Return two records for each row, by label: its value in a field, and in a list in one."""
    found = {}
    for number, row in enumerate(STORED):
        annotation, value = eval(row["field"], names), eval(row["value"], names)
        found[f"{number} alone"] = row_class(annotation)(value)
        found[f"{number} in a list"] = row_class(list[annotation])([value])  # type: ignore[valid-type]
    return found


@pytest.fixture(scope="module", params=SERIALIZERS)
def stored(
    request: pytest.FixtureRequest, names: dict[str, Any], tmp_path_factory: Any
) -> dict[str, list[Any]]:
    """The values of all rows as they are read: at once, and reopened; or the error instead."""
    path = tmp_path_factory.mktemp("table") / "a.memdb"
    every = records(names)
    found: dict[str, list[Any]] = {label: [] for label in every}
    for moment in ("at once", "reopened"):
        with memdb.open(path, serializer=request.param, **TRUST) as db:
            for label, record in every.items():
                try:
                    rows_of = db.collection(type(record), name=label)
                    if moment == "at once":
                        rows_of.insert(record)
                    found[label].append(rows_of[1].value)
                except memdb.MemdbError as error:
                    found[label].append(error)
    return found


@pytest.mark.parametrize("number", range(len(STORED)), ids=lambda number: name(STORED[number]))
def test_a_value_comes_back(
    stored: dict[str, list[Any]],
    names: dict[str, Any],
    number: int,
    request: pytest.FixtureRequest,
) -> None:
    """At once and from a new handle, in its field and in a list there."""
    value = eval(STORED[number]["value"], names)
    if "%" in str(value) and "pickle" in str(request.node.name) and not PICKLES_SCOPES:
        pytest.skip("this Python forgets the scope of an IPv6 address in pickling")
    for label, expected in ((f"{number} alone", value), (f"{number} in a list", [value])):
        at_once, reopened = stored[label]
        assert_exact(at_once, expected)
        assert_exact(reopened, expected)


@pytest.mark.parametrize("serializer", ["binary", "msgpack", "json"])
@pytest.mark.parametrize("row", STORED, ids=name)
def test_what_a_value_is_packed_as(row: Row, names: dict[str, Any], serializer: str) -> None:
    """Natively as the column of the serializer says, or the record takes the exact form."""
    cls, value = made(row, names)
    made_of: Any = get_serializer(serializer)
    assert isinstance(made_of, GeneratedSerializer)
    data = made_of.codec(shape_of(cls)).encode(cls(value))

    if made_of.exact_plain(data) is not None:
        assert row[serializer] == "exact"
    elif serializer == "json":
        assert f'{{"value":{row[serializer]}}}' == data.decode()
    else:
        packed = msgspec.msgpack.decode(data)
        assert row[serializer] == PACKED[type(packed[0 if serializer == "binary" else "value"])]


@pytest.mark.parametrize("row", STORED, ids=name)
def test_the_exact_form(row: Row, names: dict[str, Any]) -> None:
    """It is the JSON that the table shows."""
    cls, value = made(row, names)
    plain = ExactTier(shape_of(cls)).to_plain(value)

    assert_exact(json.loads(row["exact form"]), plain)


@pytest.mark.parametrize("row", STORED, ids=name)
def test_a_value_as_key(row: Row, names: dict[str, Any]) -> None:
    """The last column says whether the value can name a record."""
    cls, value = made(row, names)
    with memdb.open(None) as db:
        keyed = db.collection(cls, key="value")
        if row["key"] == "yes":
            assert_exact(keyed.insert(cls(value)), value)
            assert_exact(keyed[value].value, value)
        else:
            assert row["key"] == "no"
            with pytest.raises(memdb.IdentityError):
                keyed.insert(cls(value))


@pytest.mark.parametrize("row", STORED, ids=name)
def test_pickle_stores_each_of_them(row: Row) -> None:
    """No row says anything else, as `test_a_value_comes_back` tries."""
    assert row["pickle"] == "yes"


@pytest.mark.parametrize("row", REFUSED, ids=name)
def test_a_value_is_refused(row: Row, names: dict[str, Any]) -> None:
    """By all but pickle, with the path of the field and the text of the table, which says why."""
    value = eval(row["value"], names)
    cls = row_class(Any)
    for serializer in SERIALIZERS:
        with memdb.open(None, serializer=serializer) as db:
            collection = db.collection(cls)
            if serializer == "pickle" and row["pickle"] == "stores it":
                collection.insert(cls(value))
                continue
            with pytest.raises(memdb.EncodeError) as caught:
                collection.insert(cls(value))
            error = caught.value
            assert (error.collection, error.identity, len(collection)) == ("Row", None, 0)
            assert error.field.startswith("value")
            if serializer == "pickle":
                assert row["pickle"] == "refuses it"
                continue
            assert row["the message says"] in str(error)
            assert re.search(r"\. (Convert|Use|Flatten|Name) ", str(error))


# -- record classes


def class_of(row: Row, record: Any, names: dict[str, Any]) -> Any:
    """Return what the collection is asked for, which stands after "as" in the row."""
    declared = re.search(r", as `?([\w\[\]]+)$", row["made by"])
    if declared:
        return eval(declared[1], names)
    return "plain dicts" if type(record) is dict else type(record)


@pytest.mark.parametrize("serializer", SERIALIZERS)
@pytest.mark.parametrize("row", RECORDS, ids=name)
def test_a_record_comes_back(
    row: Row, names: dict[str, Any], serializer: str, tmp_path: Path
) -> None:
    """Of its own class and nested in another, and only that code of its class runs."""
    record = eval(row["record"], names)
    cls = class_of(row, record, names)
    ran: list[str] = names["ran"]
    path = tmp_path / "a.memdb"
    outer = row_class(dict[str, Any if isinstance(cls, str) else cls])  # type: ignore[misc]
    with memdb.open(path, serializer=serializer) as db:
        identity = db.collection(cls).insert(record)
        nested = db.collection(outer).insert(outer({"k": record}))
    ran.clear()
    with memdb.open(path, "r", **TRUST) as db:
        assert_exact(db.collection(cls)[identity], record)
        assert {*ran} == {row["runs when read"]} - {"nothing"}
        assert_exact(db.collection(outer)[nested].value, {"k": record})


# -- changes of a field's type


@pytest.mark.parametrize("serializer", SERIALIZERS)
@pytest.mark.parametrize("row", WIDENED, ids=name)
def test_a_field_of_another_type(
    row: Row, names: dict[str, Any], serializer: str, tmp_path: Path
) -> None:
    """A stored value becomes what the table says, or its record alone can't be read."""
    before, now = (row_class(eval(row[column], names)) for column in ("was", "is now"))
    path = tmp_path / "a.memdb"
    with memdb.open(path, serializer=serializer) as db:
        db.collection(before).insert(before(eval(row["stored"], names)))
    with memdb.open(path, "r", **TRUST) as db:
        if row["is read as"] == "an error":
            with pytest.raises(memdb.DecodeError, match=r"^Row 1: value.* converters="):
                db.collection(now)[1]
        else:
            assert_exact(db.collection(now)[1].value, eval(row["is read as"], names))
