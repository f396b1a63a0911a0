"""Joins: what belongs to each record of a query, and how that is found."""

from __future__ import annotations

import datetime
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from types import GenericAlias, NoneType
from typing import TYPE_CHECKING, Any, Final, Literal, get_args, get_origin
from uuid import UUID

from memdb.errors import QueryError, shown
from memdb.query._aggregates import Aggregate
from memdb.query._conditions import walk
from memdb.query._evaluate import no_aggregate
from memdb.query._fields import Field
from memdb.query._functions import QueryShape
from memdb.query._paths import is_open, members_of, resolve_path
from memdb.query._rewriting import rewritten
from memdb.query._row import is_slot_name
from memdb.query._values import Value
from memdb.serializers import Shape

if TYPE_CHECKING:
    from memdb._records import Records
    from memdb.query._joined import JoinedQuery
    from memdb.query._query import Query

# How a value of the left meets one of the right: it equals it; it is a collection of such; the
# right's is a collection that has it; or the right's is either, since no annotation tells.
Form = Literal["equal", "listed", "elements", "either"]

# What identities are listed in; and where no annotation says so, only what can't be an identity.
COLLECTIONS: Final = (list, tuple, set, frozenset)
OPEN_COLLECTIONS: Final = (list, set)


@dataclass(frozen=True, slots=True, eq=False)
class Join:
    """What belongs to each row, in a slot of its own.

    Attributes:
        slot: What the slot is called.
        right: The records that may belong: condition and order, and of those that belong to one
            row, which part.
        nested: What is made of each of them; None for themselves.
        place: The slot of the record on the left.
        left: Which of its values is looked up; None for its identity.
        match: Which value of the right is looked at; None for its identity.
        form: How the two meet.
        is_many: All that belong, in a tuple.
        is_inner: Rows that nothing belongs to are dropped.
    """

    slot: str
    right: Query[Any]
    nested: JoinedQuery[*tuple[Any, ...]] | None
    place: int
    left: Value | None
    match: Value | None
    form: Form
    is_many: bool
    is_inner: bool

    @property
    def store(self) -> Any:
        """The collection of the right."""
        return self.right._store

    @property
    def is_named(self) -> bool:
        """Whether an identity is looked up or looked for, whose type matters."""
        return self.left is None or self.match is None

    @property
    def has_window(self) -> bool:
        """Whether only a part of what belongs to a row is wanted."""
        return self.right._has_window

    @property
    def annotation(self) -> Any:
        """What is in the slot, for whoever follows a path through it."""
        inside: Any = annotation_of(self.store) if self.nested is None else Any
        if self.is_many:
            return GenericAlias(tuple, (inside, ...))
        return inside if self.is_inner or inside is Any else inside | None

    def left_shown(self, slots: Sequence[str]) -> str:
        """Return what is looked up, for a person.

        Args:
            slots: What the slots of the rows are called.
        """
        if self.left is None:
            return "the identity"
        if not self.place:
            return repr(self.left)
        slot = slots[self.place]
        return repr(rewritten(self.left, lambda field: Field((slot, *field._path))))

    def shown(self, slots: Sequence[str]) -> str:
        """Return the join for a person; see `left_shown`."""
        right = "identity" if self.match is None else repr(self.match)
        return f"{self.slot} by {self.left_shown(slots)} = {right} of {self.store.name!r}"


def each_join(joins: Sequence[Join]) -> Iterator[Join]:
    """Give the joins, each before those that are nested in it."""
    for join in joins:
        yield join
        if join.nested is not None:
            yield from each_join(join.nested._joins)


def stores_in(joins: Sequence[Join]) -> Iterator[Any]:
    """Give the collections of the right sides, the nested ones too."""
    return (join.store for join in each_join(joins))


def nodes_in(joins: Sequence[Join]) -> list[Any]:
    """Return all of the joins that may have parameters in it."""
    nodes: list[Any] = []
    for join in each_join(joins):
        nodes += [each for each in (join.left, join.match) if each is not None]
        nodes += join.right._nodes()
        # Of a nested one what is said of its rows; its joins come by themselves.
        nodes += [] if join.nested is None else join.nested._row_nodes()
    return nodes


def annotation_of(store: Records) -> Any:
    """Return what a record of a collection is, for whoever follows a path through it."""
    if store.shape.kind == "dict":
        return dict
    if store.members.sole is not None:
        return store.shape.cls
    found: Any = None
    for member in store.members:
        found = member.shape.cls if found is None else found | member.shape.cls
    return found


# -- from what the user says -----------------------------------------------------------------


def slot_name(store: Records, *, is_many: bool) -> str:
    """Return what a slot is called unless told: the collection's name in snake case."""
    return _snake_case(store.name, is_many)


@lru_cache(maxsize=256)
def _snake_case(name: str, is_many: bool) -> str:
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    name = re.sub(r"\W+", "_", unicodedata.normalize("NFKC", words)).strip("_").lower()
    if not is_slot_name(name):
        # No name that Python could be given: a digit first, a keyword, or nothing left.
        name = f"record_{name}".rstrip("_")
    if not is_many or name.endswith("s"):
        return name
    if re.search(r"(x|z|ch|sh)$", name):
        return name + "es"
    return name[:-1] + "ies" if re.search(r"[^aeiou]y$", name) else name + "s"


def keys_for(
    left: Records, right: Records, on: Any, back: Any, *, is_many: bool
) -> tuple[Value | None, Value | None, bool]:
    """Return what is looked up, what is looked at, and whether several are named at once.

    Raises:
        QueryError: Neither is given and no foreign key says it, or both are.
    """
    if on is not None and back is not None:
        raise QueryError(
            f"{left.name}: join() takes on= (a field of the left) or back= (a field of the right),"
            " not both."
        )
    if on is None and back is None:
        return _referring(left, right, is_many=is_many)
    if back is not None:
        return None, _term(back, "back"), False
    if isinstance(on, tuple):
        if len(on) != 2:
            raise QueryError(
                f"{left.name}: on= takes a field of the left, or a pair of one of the left and one"
                f" of the right, not {len(on)} values."
            )
        return _term(on[0], "on"), _term(on[1], "on"), False
    return _term(on, "on"), None, is_many


def _term(term: object, argument: str) -> Value:
    if isinstance(term, Value):
        for each in walk(term):
            if isinstance(each, Aggregate):
                raise no_aggregate(each)
        return term
    if isinstance(term, str) and term:
        return Field(tuple(term.split(".")))
    raise QueryError(f"{argument}= takes a field, as F.customer_id, not {shown(term)}.")


def _referring(
    left: Records, right: Records, *, is_many: bool
) -> tuple[Value | None, Value | None, bool]:
    """Return what a foreign key between two collections says.

    Raises:
        QueryError: There is none, or more than one.
    """
    there = [each for each in left.references if each.leads_to(right)]
    back = [each for each in right.references if each.leads_to(left)]
    # join() goes the way on which one record is expected, and join_many() the other.
    there = [each for each in there if each.is_many is is_many]
    found = there or ([each for each in back if not each.is_many or is_many])
    if len(found) == 1:
        value = Field(found[0].path)
        return (value, None, is_many) if there else (None, value, False)
    method = "join_many" if is_many else "join"
    if not found:
        raise QueryError(
            f"{method}(): there is no foreign key between {left.name!r} and {right.name!r} that"
            " says what belongs together. Give on=, as on=F.customer_id for a field that names a"
            " record of the other collection, or back= for a field of the other that names this"
            " one; or declare a memdb.ForeignKey."
        )
    names = ", ".join([repr(Field(each.path)) for each in found])
    argument = "on" if there else "back"
    raise QueryError(
        f"{method}(): several foreign keys join {left.name!r} and {right.name!r}: {names}."
        f" Say which one with {argument}=."
    )


# -- whether it can be -------------------------------------------------------------------------


def checked(join: Join, left: Records) -> Join:
    """Return a join whose form is known, if it makes sense.

    Args:
        join: The join.
        left: The collection of the record on the left.

    Raises:
        QueryError: A field does not exist, or values of these types are never equal.
    """
    left_members = _members(join.left, left)
    right_members = _members(join.match, join.store)
    form: Form = join.form
    if form == "listed":
        if not any([_may_be_collection(member) for member in left_members]):
            raise QueryError(
                f"{left.name}: join_many(on={join.left!r}) takes a field that holds a list of"
                f" identities, and it is annotated {_names(left_members)}. Use join(), which"
                " expects one record, or give the pair on=(left field, right field)."
            )
        left_members = _elements(left_members)
    elif join.left is None:
        form = _form_of(right_members, _is_composite(left))
        if form != "equal":
            right_members = _elements(right_members)
    _refuse_different(join, left, left_members, right_members)
    return replace(join, form=form)


def _members(value: Value | None, store: Records) -> list[Any]:
    """Return what a value is by its annotation, Any where nothing is known.

    Raises:
        QueryError: A field in it does not exist.
    """
    if value is None:
        return _identity_members(store)
    shape = store.query_shape
    members = _kept_members if not isinstance(shape, QueryShape) else _members_at
    found: list[Any] = [Any]
    for each in walk(value):
        if isinstance(each, Field):
            found = [*members(each._path, shape)]
    return found if isinstance(value, Field) else [Any]


def _members_at(path: tuple[str | int, ...], shape: Shape) -> tuple[Any, ...]:
    return resolve_path(path, shape)[-1].members


# Not for the shapes of single collections, which it would keep alive.
_kept_members = lru_cache(maxsize=512)(_members_at)


def _identity_members(store: Records) -> list[Any]:
    if store.key is None:
        return [int]
    if store.key.sole_field is None:
        return [tuple]
    if store.shape.kind == "dict" or store.members.sole is None:
        return [Any]
    return members_of(
        next(f.annotation for f in store.shape.fields if f.name == store.key.sole_field)
    )


def _may_be_collection(member: Any) -> bool:
    """Whether values of an annotation may list identities, as those of a Sequence may."""
    cls = get_origin(member) or member
    return (
        is_open(member)
        or issubclass(cls, COLLECTIONS)
        or any([issubclass(each, cls) for each in COLLECTIONS])
    )


def _is_composite(store: Records) -> bool:
    """Whether the identities of a collection are tuples."""
    return store.key is not None and store.key.sole_field is None


def _form_of(members: Sequence[Any], is_composite: bool) -> Form:
    """Return how values of the right have an identity, which is a tuple if it is composite."""
    if any(map(is_open, members)) or not {*members} - {NoneType}:
        return "either"
    known = [get_origin(member) or member for member in members if member is not NoneType]
    if any([_may_be_collection(cls) and not issubclass(cls, COLLECTIONS) for cls in known]):
        return "either"
    are_collections = [issubclass(cls, COLLECTIONS) for cls in known]
    if is_composite and all([issubclass(cls, tuple) for cls in known]):
        parts = [get_origin(each) or each for each in _elements(members) if each is not NoneType]
        has_tuples = not any(map(is_open, parts)) and all([issubclass(cls, tuple) for cls in parts])
        return "elements" if has_tuples else "equal"
    if all(are_collections):
        return "elements"
    return "either" if any(are_collections) else "equal"


def _elements(members: Sequence[Any]) -> list[Any]:
    """Return what the elements of collections are by their annotation, and the rest as it is."""
    found: list[Any] = []
    for member in members:
        cls = get_origin(member) or member
        if is_open(member) or not issubclass(cls, COLLECTIONS):
            found.append(member)
            continue
        arguments = [each for each in get_args(member) if each is not Ellipsis]
        found += [part for each in arguments for part in members_of(each)] or [Any]
    return found


_NUMBERS: Final = (int, float, Decimal, Fraction, complex)
_APART: Final = (
    str, bytes, datetime.datetime, datetime.date, datetime.time, datetime.timedelta, UUID, dict,
    *COLLECTIONS,
)  # fmt: skip


def _kind(member: Any) -> Any:
    """Return what values of an annotation can be equal to, None if nobody knows."""
    cls = get_origin(member) or member
    if is_open(member) or issubclass(cls, Enum):
        return None
    if issubclass(cls, _NUMBERS):
        return "number"
    return next((base for base in _APART if issubclass(cls, base)), None)


def _refuse_different(
    join: Join, left: Records, left_members: Sequence[Any], right_members: Sequence[Any]
) -> None:
    """Raise where no value of the left equals one of the right, by their annotations.

    Raises:
        QueryError: It is so.
    """
    sides = []
    for members in (left_members, right_members):
        kinds = {_kind(member) for member in members if member is not NoneType}
        if None in kinds or not kinds:
            return
        sides.append(kinds)
    if sides[0].isdisjoint(sides[1]):
        way_out = "Join on fields of one type."
        if not join.is_many and not sides[0].isdisjoint(COLLECTIONS) and join.match is None:
            way_out = "Use join_many(), which takes a list of identities."
        names = []
        for value, store, members in (
            (join.left, left, left_members),
            (join.match, join.store, right_members),
        ):
            what = "the identity" if value is None else repr(value)
            names.append(f"{what} of {store.name!r} is {_names(members)}")
        raise QueryError(f"{join.slot}: {' and '.join(names)}, which are never equal. {way_out}")


def _names(members: Sequence[Any]) -> str:
    names = [
        "None" if each is NoneType else getattr(each, "__name__", str(each)) for each in members
    ]
    return " | ".join(dict.fromkeys(names))
