"""Records of random classes go through a database: cached, copied, reopened, refused."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memdb
from tests.support.exact import assert_exact
from tests.support.strategies import anything, record_classes, records_of, type_annotations

NAMES = ("binary", "msgpack", "json")
ANNOTATIONS = type_annotations(with_numpy=True)


@pytest.mark.parametrize("serializer", NAMES)
@given(
    data=st.data(),
    cls=record_classes(of=ANNOTATIONS, max_fields=3),
    cloner=st.sampled_from(["auto", "auto", "roundtrip"]),
    cache=st.sampled_from(["all", "none", 1]),
)
@settings(max_examples=40)
def test_records_of_any_class_in_a_file(
    tmp_path_factory: pytest.TempPathFactory,
    serializer: str,
    data: st.DataObject,
    cls: Any,
    cloner: str,
    cache: Any,
) -> None:
    """Each record comes back exactly, by every way of reading, from this handle and the next."""
    records = data.draw(st.lists(records_of(cls), min_size=1, max_size=3))
    path = tmp_path_factory.mktemp("any") / "a.memdb"
    asked: dict[str, Any] = {"name": "any", "cloner": cloner, "cache": cache}
    before = copy.deepcopy(records)
    with memdb.open(path, serializer=serializer) as db:
        collection = db.collection(cls, **asked)
        identities = collection.insert_many(records)
        expected = [with_identity(*pair) for pair in zip(before, identities, strict=True)]
        check_reading(collection, identities, expected)
    with memdb.open(path, "r") as db:
        check_reading(db.collection(cls, **asked), identities, expected)

    assert_exact(records, before)


def check_reading(
    collection: memdb.Collection[Any], identities: list[int], expected: list[Any]
) -> None:
    """Check the records one by one, from the cache, and in an iteration."""
    for _ in range(2):
        assert_exact([collection[identity] for identity in identities], expected)
        assert_exact(list(collection), expected)
    found = [collection.history(identity)[0].record for identity in identities]
    assert_exact(found, expected)


def with_identity(record: Any, identity: int) -> Any:
    """Return a copy of a record with its identity, where its class has a field for it."""
    record = copy.deepcopy(record)
    if not hasattr(record, "id"):
        return record
    if isinstance(record, tuple):
        return record._replace(id=identity)  # type: ignore[attr-defined]
    if isinstance(record, msgspec.Struct):
        msgspec.structs.force_setattr(record, "id", identity)
    elif hasattr(type(record), "model_fields"):
        record = record.model_copy(update={"id": identity})
    else:
        object.__setattr__(record, "id", identity)
    return record


# -- refused values --------------------------------------------------------------------------


class Opaque:
    """What no serializer holds."""


@dataclass
class Part:
    """A record inside a record."""

    name: str
    value: Any = None


@dataclass
class Holder:
    """Leads to what is refused."""

    part: Part
    value: Any = None
    id: int = 0


@dataclass(frozen=True)
class Way:
    """A step from a value to one inside it.

    Attributes:
        text: How the path of an error shows it.
        wrap: Return a value that holds another there.
    """

    text: str
    wrap: Any


def _in_list(before: list[Any]) -> Way:
    return Way(f"[{len(before)}]", lambda value: [*before, value, None])


def _in_tuple(before: list[Any]) -> Way:
    return Way(f"[{len(before)}]", lambda value: (*before, value))


def _in_dict(key: str | int) -> Way:
    return Way(f"[{key!r}]", lambda value: {"other": 1, key: value})


def _in_part(name: str) -> Way:
    return Way(".value", lambda value: Part(name, value))


KEYS: list[str | int] = ["k", "a.b", "", 5, -1]
ODD = st.lists(anything(), max_size=2)
WAYS = st.lists(
    st.one_of(
        ODD.map(_in_list),
        ODD.map(_in_tuple),
        st.sampled_from(KEYS).map(_in_dict),
        st.sampled_from(["", "p"]).map(_in_part),
    ),
    max_size=4,
)


@pytest.mark.parametrize("serializer", NAMES)
@given(ways=WAYS, how=st.sampled_from(["insert", "insert_many", "put", "update", "fields"]))
@settings(max_examples=40)
def test_refused_value_is_named_by_its_path(serializer: str, ways: list[Way], how: str) -> None:
    """The error has collection, identity, path, type, and what to do; nothing was changed."""
    value: Any = Opaque()
    for way in reversed(ways):
        value = way.wrap(value)
    path = "value" + "".join(way.text for way in ways)
    with memdb.open(None, serializer=serializer) as db:
        holders = db.collection(Holder)
        holders.insert_many([Holder(Part("a")), Holder(Part("b"))])
        before = list(holders)
        with pytest.raises(memdb.EncodeError) as caught:
            if how == "insert":
                holders.insert(Holder(Part(""), value, 7))
            elif how == "insert_many":
                holders.insert_many([Holder(Part("")), Holder(Part(""), value, 7)])
            elif how == "put":
                holders.put(Holder(Part(""), value, 2))
            elif how == "update":
                holders.update(2, lambda holder: setattr(holder, "value", value))
            else:
                holders.update(2, value=value)
        error, message = caught.value, str(caught.value)

        assert path == error.field
        assert ("Holder", 7 if "insert" in how else 2) == (error.collection, error.identity)
        for part in ("Holder", str(error.identity), path, "Opaque", "Convert"):
            assert part in message
        assert_exact(list(holders), before)
        assert 3 == holders.insert(Holder(Part("c")))
