"""Checked foreign keys beside values that NumPy compares: none of them is an identity.

They may be in a file that was written before the key was declared. A list with an element that has
no hash in it made the check of a deletion fail with a bare TypeError, where the index of the key
was built over it.
"""

from __future__ import annotations

from dataclasses import make_dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest

import memdb
from memdb import ForeignKey, SetIndex
from memdb.errors import ForeignKeyError, IndexKeyError

# As in test_odd_values.
pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

Number = make_dataclass("Number", [("n", int), ("id", int, 0)])
Text = make_dataclass("Text", [("code", str)])

VALUES: dict[str, Any] = {
    "whole number": np.int64(3),
    "float": np.float64(3),
    "float of 32 bits": np.float32(3),
    "duration": np.timedelta64(3, "s"),
    "text": np.str_("x"),
    "array": np.array([3]),
    "array of none": np.array(3),
    "array of texts": np.array(["x"]),
    "number": 3,
    "plain text": "x",
}


def opened(path: Path, target: Any, annotation: Any) -> tuple[memdb.Database, Any, Any]:
    """Return a database, the records that are referred to, and those that refer."""
    db = memdb.open(path)
    key: dict[str, Any] = {"key": "code"} if target is Text else {}
    cls = make_dataclass("Ref", [("ref", annotation), ("id", int, 0)])
    return db, db.collection(target, **key), db.collection(cls, name="refs")


def fill(path: Path, target: Any, annotation: Any, values: list[Any]) -> None:
    """Write records that refer by no declared key."""
    db, targets, refs = opened(path, target, annotation)
    with db:
        targets.insert_many(map(Text, "xyz") if target is Text else [Number(n) for n in range(5)])
        refs.insert_many([refs._store.shape.cls(value) for value in values])


@pytest.mark.parametrize("on_delete", ["restrict", "cascade", "set_none"])
@pytest.mark.parametrize("is_many", [False, True], ids=["one", "several"])
@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("target", [Number, Text], ids=["number", "text"])
def test_with_the_index_and_without(
    tmp_path: Path, target: Any, value: str, is_many: bool, on_delete: Any
) -> None:
    """A deletion does the same; or it tells whose value the index can't hold, and does nothing."""
    given, identity, plain = VALUES[value], *((3, int) if target is Number else ("x", str))
    given, own = ([given], [identity]) if is_many else (given, identity)
    annotation: Any = list[plain] if is_many else plain | None  # type: ignore[valid-type]
    is_identity = type(VALUES[value]) is plain
    gone = {"restrict": [repr(own)], "cascade": [], "set_none": ["[]" if is_many else "None"]}
    left = [*(gone[on_delete] if is_identity else [repr(given)]), *gone[on_delete]]
    for is_dropped in (False, True):
        path = tmp_path / f"{is_dropped}.memdb"
        fill(path, target, annotation, [given, own])
        db, targets, refs = opened(
            path, target, Annotated[annotation, ForeignKey(target, on_delete=on_delete)]
        )
        with db:
            if is_dropped:
                for name in list(refs.indexes):
                    refs.indexes.drop(name)
            before = (len(targets), repr(list(refs)))
            # A key that leads nowhere is told of, with what is no identity too.
            assert is_identity is (not db.check())
            if not is_identity:
                with pytest.raises((ForeignKeyError, IndexKeyError)):
                    refs.insert(refs._store.shape.cls(given))
            try:
                targets.delete(identity)
            except IndexKeyError as error:
                assert not is_dropped
                assert "refs 1: the index 'ref'" in str(error)
                assert isinstance(VALUES[value], np.ndarray)
                assert before == (len(targets), repr(list(refs)))
                continue
            except ForeignKeyError:
                assert on_delete == "restrict"
            assert len(targets) == before[0] - (on_delete != "restrict")
            assert left == [repr(each.ref) for each in refs]


def test_an_element_without_a_hash(tmp_path: Path) -> None:
    """An index of elements that is built over such a record says which it is."""
    path = tmp_path / "a.memdb"
    with memdb.open(path) as db:
        db.collection("rows").insert_many([{"a": [1]}, {"a": [np.array([1])]}])
    with memdb.open(path) as db:
        rows = db.collection("rows")
        with pytest.raises(IndexKeyError, match="rows 2: the index 'a'"):
            rows.indexes.add(SetIndex("a"))
        assert [] == list(rows.indexes)
        list(rows)
        with pytest.raises(IndexKeyError, match="rows 2: the index 'a'"):
            rows.indexes.add(SetIndex("a"))
