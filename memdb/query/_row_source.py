"""What a joined query asks: the query on the left, what is joined to it, and the shape of its rows.

It stands where the collection stands for other queries: conditions, order and values are about
rows as they are about records there.
"""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from memdb.errors import QueryError, shown
from memdb.query._builder import QueryBuilder
from memdb.query._conditions import DEEPEST, Expression, walk
from memdb.query._fields import Field
from memdb.query._functions import QueryShape, functions_of
from memdb.query._join import Form, Join, annotation_of, checked, keys_for, slot_name
from memdb.query._parameters import bind_value, parameters
from memdb.query._paths import path_text, resolve_path
from memdb.query._rewriting import rewritten
from memdb.query._row import is_slot_name, row_class
from memdb.query._values import Order, Value
from memdb.serializers import FieldShape

if TYPE_CHECKING:
    from memdb._engine import Engine
    from memdb.query._query import Query

N = TypeVar("N", Expression, Value)


class RowSource:
    """A query and what is joined to each of its records.

    Attributes:
        left: The query.
        joins: What is joined, in order.
        row: The class of the rows.
        query_shape: What can be asked of a row.
        name: What messages call it.
        depth: How deep joins are nested in it.
    """

    # As of a collection whose records have no natural key.
    key = None

    def __init__(self, left: Query[Any], joins: tuple[Join, ...]) -> None:
        self.left = left
        self.joins = joins
        self.first = slot_name(left._store, is_many=False)
        self.names = (self.first, *[join.slot for join in joins])
        annotations = (annotation_of(left._store), *[join.annotation for join in joins])
        self.row = row_class(self.names)
        self._shape = _shape_of_rows(self.row, self.names, annotations)
        self.query_shape = self._shape
        functions = self._functions()
        if functions:
            # A shape of its own, which keeps what is compiled for the functions of the user's.
            self.query_shape = replace(self.query_shape, functions=functions, kept={})
        inside = [join.nested._store.depth for join in joins if join.nested is not None]
        self.depth: int = 1 + max(inside, default=0)
        if self.depth > DEEPEST:
            raise QueryError(f"Joins can be nested {DEEPEST} levels deep at most.")
        self.name = f"{left._store.name} with {', '.join(self.names[1:])}" if joins else self.first

    @property
    def engine(self) -> Engine:
        """What the collections share."""
        engine: Engine = self.left._store.engine
        return engine

    def _functions(self) -> dict[str, Any]:
        """Return the functions of the collections' indexes, by slot, a dot and their name."""
        stores: list[Any] = [self.left._store]
        stores += [
            None if join.is_many or join.nested is not None else join.store for join in self.joins
        ]
        return {
            f"{slot}.{name}": _of_slot(slot, function)
            for slot, store in zip(self.names, stores, strict=True)
            if store is not None
            for name, function in functions_of(store.query_shape).items()
        }

    # -- names ---------------------------------------------------------------------------

    def check_name(self, name: Any) -> None:
        """Raise unless another slot can be called so.

        Raises:
            QueryError: It is no name, or one of another slot.
        """
        if not is_slot_name(name):
            raise QueryError(
                f"{self.left._store.name}: a slot of the rows can't be called {name!r}. Give a"
                " Python identifier that begins with a letter as as_=."
            )
        if name in self.names:
            raise QueryError(
                f"{self.left._store.name}: two slots of the rows would be called {name!r}. Give"
                " one another name with as_=."
            )

    def place_of(self, value: Value) -> tuple[int, Value]:
        """Return the slot that a value is taken from, and the value of the record in it.

        Raises:
            QueryError: It is of several slots.
        """
        places: set[int] = set()

        def inside(field: Field) -> Value:
            if field._path[0] in self.names[1:]:
                self._refuse_left(self.names.index(str(field._path[0])))
            path = self._rooted(field, ())._path
            slot, _, function = str(path[0]).partition(".")
            places.add(self.names.index(slot))
            if function:
                return Field((function, *path[1:]))
            if len(path) == 1:
                raise QueryError(
                    f"{self.name}: {field!r} is the whole record. Join on one of its fields, as"
                    f" {field!r}.id."
                )
            return Field(path[1:])

        found = rewritten(value, inside)
        if len(places) > 1:
            raise QueryError(
                f"{self.name}: on={value!r} is of several slots. Give one of a single."
            )
        return places.pop() if places else 0, found

    def _refuse_left(self, place: int) -> None:
        """Raise if there is not one record in a slot.

        Raises:
            QueryError: There are many, or a row.
        """
        if self.joins[place - 1].is_many:
            raise QueryError(
                f"{self.name}: {self.names[place]} has many records for a row, so that nothing can"
                " be joined to one. Join to each of them with then=."
            )
        if self.joins[place - 1].nested is not None:
            raise QueryError(
                f"{self.name}: {self.names[place]} is a row itself. Join to what is in it with"
                " then=."
            )

    def rooted(self, node: Any, known: tuple[str, ...] = ()) -> Any:
        """Return a condition, value or term in which every path begins with a slot.

        Args:
            node: It.
            known: Names of selected values, which stay as they are.

        Raises:
            QueryError: A name is that of a slot and of a field of the left record, or of neither.
        """
        if isinstance(node, Order):
            return Order(self.rooted(node.value, known), node.is_descending)
        return rewritten(node, lambda field: self._rooted(field, known))

    def _rooted(self, field: Field, known: tuple[str, ...]) -> Field:
        path = field._path
        if (len(path) == 1 and path[0] in known) or path[0] in self.query_shape.functions:
            return field
        if ".".join(map(str, path[:2])) in self.query_shape.functions:
            return Field((".".join(map(str, path[:2])), *path[2:]))
        if path[0] not in self.names and f"{self.first}.{path[0]}" in self.query_shape.functions:
            return Field((f"{self.first}.{path[0]}", *path[1:]))
        beside = Field((self.first, *path))
        is_slot = path[0] in self.names and _leads_somewhere(path, self._shape)
        is_field = _leads_somewhere(beside._path, self._shape)
        if is_slot and is_field and self.left._store.shape.kind != "dict":
            raise QueryError(
                f"{self.name}: {field!r} is ambiguous, a slot and a field of"
                f" {self.left._store.name!r}. Say {beside!r} for the field, or give the slot"
                " another name with as_=."
            )
        if is_slot:
            return field
        if is_field:
            return beside
        if path[0] in self.names:
            resolve_path(path, self.query_shape)
        names = [*self.names, *[each.name for each in self.left._store.shape.fields]]
        close = difflib.get_close_matches(str(path[0]), names, n=1)
        hint = f"Did you mean {close[0]!r}?" if close else f"Slots: {', '.join(self.names)}."
        raise QueryError(
            f"{path_text(path)}: the rows have no slot {path[0]!r}, and {self.left._store.name!r}"
            f" has no such field. {hint}"
        )

    def rooted_all(self, nodes: Iterable[Any]) -> list[Any]:
        """Return several conditions, values or terms, as `rooted` does."""
        return [self.rooted(node) for node in nodes]

    def of_left(self, node: N) -> N | None:
        """Return a condition or value of rows as one of the records on the left.

        Args:
            node: As `rooted` gives it.

        Returns:
            None where it asks for another slot, or for none, or for the whole record.
        """
        paths = [self._inside_left(each) for each in walk(node) if isinstance(each, Field)]
        if not paths or not all(paths):
            return None
        return rewritten(node, lambda field: Field(self._inside_left(field)))

    def _inside_left(self, field: Field) -> tuple[str | int, ...]:
        """Return the path of a field in the left record; empty where it is not in there."""
        slot, _, function = str(field._path[0]).partition(".")
        if slot != self.first:
            return ()
        return (function, *field._path[1:]) if function else field._path[1:]

    def bound(self, given: Mapping[str, Any]) -> RowSource:
        """Return it with the values of parameters in their places."""

        def bound(query: Any) -> Any:
            names = parameters(*query._nodes())
            return query._bound({name: given[name] for name in names if name in given})

        def inside(value: Value | None) -> Value | None:
            if value is None:
                return None
            names = parameters(value)
            return bind_value(value, {name: given[name] for name in names}) if names else value

        joins = [
            replace(
                join,
                right=bound(join.right),
                nested=None if join.nested is None else bound(join.nested),
                left=inside(join.left),
                match=inside(join.match),
            )
            for join in self.joins
        ]
        return RowSource(bound(self.left), tuple(joins))


class How(NamedTuple):
    """The arguments of `Query.join`, besides the right side; of `join_many` too."""

    on: Any
    back: Any
    how: str
    where: Any
    as_: str | None
    then: Any
    is_many: bool


def with_join(source: RowSource, right: Any, how: How) -> RowSource:
    """Return what is asked with one more join.

    Raises:
        QueryError: As `Query.join`.
    """
    left = source.left._store
    if how.how not in ("left", "inner"):
        raise QueryError(f'{left.name}: how= is "left" or "inner", not {how.how!r}.')
    query, nested = _right_side(source, right)
    if how.where is not None:
        conditions = how.where if isinstance(how.where, tuple | list) else (how.where,)
        query = query.where(*conditions)
    if how.then is not None:
        query, nested = _made_by_then(source, query, nested, how.then)
    store = query._store
    if store.engine is not left.engine:
        if left.engine.is_of(store.engine):
            raise QueryError(
                f"{left.name} and {store.name} are of different states: one of them is of a view of"
                " the database that the other is of. Ask one view for both, by view.collection()."
            )
        raise QueryError(
            f"{left.name} and {store.name} are in different databases, of which no query sees one"
            " state. Copy the records into collections of one database, or look them up by hand"
            " with get()."
        )
    value, match, is_listed = keys_for(left, store, how.on, how.back, is_many=how.is_many)
    place = 0
    if value is not None:
        place, value = source.place_of(value)
    slot = slot_name(store, is_many=how.is_many)
    if how.as_ is not None:
        # As Python does with the names in a source.
        slot = unicodedata.normalize("NFKC", how.as_) if type(how.as_) is str else how.as_
    source.check_name(slot)
    form: Form = "listed" if is_listed else "equal"
    is_inner = how.how == "inner"
    join = Join(slot, query, nested, place, value, match, form, how.is_many, is_inner)
    beside = left if place == 0 else source.joins[place - 1].store
    return RowSource(source.left, (*source.joins, checked(join, beside)))


def _right_side(source: RowSource, right: Any) -> tuple[Any, Any]:
    """Return the query of the records on the right, and what is made of each of them."""
    name = source.left._store.name
    if isinstance(right, type):
        return type(source.left)(_store_of(source.left._store, right)), None
    store = getattr(right, "_store", None)
    if isinstance(right, QueryBuilder):
        is_made = right._selection is not None or right._is_distinct or right._group is not None
        if is_made or right._having is not None or right._cursor is not None:
            raise QueryError(
                f"{name}: the right side of a join gives whole records, and {right!r} makes"
                " something else of them. Leave out select(), values(), distinct(), group_by() and"
                " after()."
            )
        return (store.left, right) if isinstance(store, RowSource) else (right, None)
    if store is None or not hasattr(store, "query_shape"):
        raise QueryError(
            f"{name}: a collection, a query of one or a record class is joined, not {shown(right)}."
        )
    return type(source.left)(store), None


def _store_of(left: Any, cls: type) -> Any:
    """Return the collection that a class stands for."""
    stores = [s for s in left.engine.stores.values() if s.members.find(cls) is not None]
    named = [store for store in stores if store.name == cls.__name__]
    if len(stores) == 1 or len(named) == 1:
        return stores[0] if len(stores) == 1 else named[0]
    if not stores:
        raise QueryError(
            f"{left.name}: no collection of {cls.__qualname__} was asked for yet. Call"
            f" db.collection({cls.__qualname__}) first, and join what it gives."
        )
    names = ", ".join([repr(store.name) for store in stores])
    raise QueryError(
        f"{left.name}: several collections hold {cls.__qualname__}: {names}. Join one of them"
        " instead of the class."
    )


def _made_by_then(source: RowSource, query: Any, nested: Any, then: Any) -> tuple[Any, Any]:
    """Return the right side that ``then=`` makes of the query."""
    name = source.left._store.name
    if nested is not None or not callable(then):
        raise QueryError(
            f"{name}: then= takes a function of the right side's query, where that is a collection"
            f" or a plain query, not {shown(then)}."
        )
    made = then(query)
    if not isinstance(made, QueryBuilder):
        raise QueryError(
            f"{name}: then= has to return a query, as lambda q: q.join(...), not {shown(made)}."
        )
    result = _right_side(source, made)
    if result[0]._store is not query._store:
        raise QueryError(
            f"{name}: then= has to return a query of {query._store.name!r}, which it is given, not"
            f" {made!r}."
        )
    return result


def _of_slot(slot: str, function: Any) -> Any:
    """Return what a function of an index makes of the record in a slot of a row."""
    get = attrgetter(slot)

    def of_row(row: Any, nothing: Any) -> Any:
        record = get(row)
        return nothing if record is None else function(record, nothing)

    return of_row


# The shapes of rows are kept all the same; to resolve a path takes 20 to 80 us.
@lru_cache(maxsize=1024)
def _leads_somewhere(path: tuple[str | int, ...], shape: QueryShape) -> bool:
    """Whether there may be something at a path of rows."""
    try:
        resolve_path(path, shape)
    except QueryError:
        return False
    return True


@lru_cache(maxsize=256)
def _shape_of_rows(row: Any, names: tuple[str, ...], annotations: tuple[Any, ...]) -> QueryShape:
    """Return the shape of rows: always the same for the same slots, as compiled code is kept by it.

    A `QueryShape`, which keeps that code itself: two with one class differ in their annotations.
    """
    fields = tuple([FieldShape(name, each) for name, each in zip(names, annotations, strict=True)])
    return QueryShape(row, "row", "struct", fields, None, True, True)
