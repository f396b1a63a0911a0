"""References: the foreign keys of a collection, and which collections they lead to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, get_args, get_origin

from memdb._config import nearest
from memdb._foreign_keys import MANY, DeclaredKey, ForeignKey, OnDelete, serves
from memdb._reference_checks import refuse_dangling
from memdb.errors import ConfigError
from memdb.query._paths import members_of
from memdb.serializers._shape import is_typed_dict, strip, type_text

if TYPE_CHECKING:
    from memdb._bound_index import BoundIndex
    from memdb._engine import Engine
    from memdb._records import Records
    from memdb._store import Store


class Reference:
    """A foreign key of a collection; `store.references` has all of them, checked or not.

    Which collection it leads to depends on those that the program has asked for, and is asked
    anew whenever there is another one, see `connect`:

    - `leads_to(store) -> bool`: whether it leads to a collection; what a join without `on` asks.
    - `target -> Store`: the collection; raises ConfigError where there is none, or are several.

    Attributes:
        store: The collection whose records refer.
        field: The name of the field.
        path: The same as the path of a field, `(field,)`.
        is_many: The field holds several identities: a list, tuple, set or frozenset.
        key: The declaration.
        on_delete: What becomes of a record when the one that it refers to is deleted.
        is_checked: Whether references are checked: unless that is "ignore".
    """

    def __init__(self, store: Store, declared: DeclaredKey) -> None:
        self.store = store
        self.field = declared.field
        self.path: tuple[str | int, ...] = (declared.field,)
        self.is_many = declared.is_many
        self.key: ForeignKey = declared.key
        self.on_delete: OnDelete = declared.key.on_delete
        self.is_checked = declared.is_checked
        self.candidates: tuple[Store, ...] = ()
        self._members = declared.members
        is_dict = store.shape.kind == "dict"
        self._get: Callable[[Any], Any] = (itemgetter if is_dict else attrgetter)(self.field)

    def __repr__(self) -> str:
        return f"<{self.store.name}.{self.field}: {self.key!r}>"

    # -- where it leads ------------------------------------------------------------------

    def leads_to(self, store: Records) -> bool:
        """Whether it refers to the records of a collection.

        Raises:
            ConfigError: It may be this collection or another one.
        """
        return store in self.candidates and self.target is store

    @property
    def target(self) -> Store:
        """The collection that it refers to.

        Raises:
            ConfigError: The program has asked for none that it can be, or for several.
        """
        if len(self.candidates) == 1:
            return self.candidates[0]
        place, name = f"{self.store.name}: {self.field}", self.key.target_name
        if self.candidates:
            names = " or ".join([repr(store.name) for store in self.candidates])
            raise ConfigError(
                f"{place} refers to {name}, which may be the collection {names}. Give the name of"
                f" one of them as the target: ForeignKey({self.candidates[0].name!r})."
            )
        hint = nearest(name, self.store.engine.stores)
        raise ConfigError(
            f"{place} refers to {name}, and no collection of that name or class was asked for."
            f" Ask for it with db.collection() before references are written.{hint}"
        )

    def candidates_in(self, stores: Mapping[str, Store]) -> tuple[Store, ...]:
        """Return the collections that it may refer to: one, if all is well."""
        target = self.key.target
        if isinstance(target, str):
            if target in stores:
                return (stores[target],)
            return tuple([each for each in stores.values() if _has_class_named(each, target)])
        found = [store for store in stores.values() if _holds(store, target)]
        named = [store for store in found if store.name == self.key.target_name]
        return tuple(named or found)

    def refuse_types(self, target: Store) -> None:
        """Raise if by its annotation no value of it can be an identity of a collection.

        Raises:
            ConfigError: So it is.
        """
        wanted: list[Any] = [int]
        if target.key is not None:
            wanted = [tuple]
            if target.key.sole_field is not None:
                fields = [f for f in target.shape.fields if f.name == target.key.sole_field]
                wanted = [m for f in fields for m in members_of(f.annotation)] or [Any]
        if not any(_may_equal(own, other) for own in self._members for other in wanted):
            own, other = (
                " | ".join(map(type_text, self._members)),
                " | ".join(map(type_text, wanted)),
            )
            raise ConfigError(
                f"{self.store.name}: {self.field} is annotated {own}, and the records of"
                f" {target.name} are named by {other}. Annotate it {other}, or leave the foreign"
                " key out."
            )

    # -- what records refer to -----------------------------------------------------------

    def value_of(self, record: Any) -> Any:
        """Return what is in the field of a record, None where the record has no such field."""
        try:
            return self._get(record)
        except (AttributeError, KeyError):
            # Another class of several, or a key that a dict lacks.
            return None

    def values_of(self, record: Any) -> Sequence[Any]:
        """Return what a record refers to, which should be identities: none, one or several."""
        value = self.value_of(record)
        if not self.is_many or not isinstance(value, MANY):
            return () if value is None else (value,)
        return [each for each in value if each is not None]

    def index(self) -> BoundIndex | None:
        """Return the index that finds the records by what they refer to; None if it was dropped."""
        for bound in self.store.indexes:
            if serves(bound.declaration, self.field, is_many=self.is_many):
                return bound
        return None


def _holds(store: Store, target: Any) -> bool:
    """Whether records of a class belong to a collection."""
    cls = get_origin(target) or target
    if is_typed_dict(cls):
        return store.shape.kind == "dict" and store.shape.name == type_text(target)
    if get_args(target):
        return any([member.shape.name == type_text(target) for member in store.members])
    # An abstract class is no member, and what the collection was asked for with.
    return store.members.find(cls) is not None or store.shape.cls is cls


def _has_class_named(store: Store, name: str) -> bool:
    return any([member.shape.name == name for member in store.members])


def _may_equal(own: Any, other: Any) -> bool:
    """Whether values of two annotations can be the same identity, as far as these tell."""
    one, two = [get_origin(strip(each)) or strip(each) for each in (own, other)]
    if not isinstance(one, type) or not isinstance(two, type) or {one, two} & {Any, object}:
        return True
    return issubclass(one, two) or issubclass(two, one)


# -- the keys of a whole database


def connect(engine: Engine, store: Store) -> None:
    """Take a new collection into a database, and find out anew which keys lead where.

    Raises:
        ConfigError: A key can't lead where it would, or cascades would go round in a circle;
            the collection is not taken in.
    """
    stores = {**engine.stores, store.name: store}
    references = [reference for each in stores.values() for reference in each.references]
    found = {reference: reference.candidates_in(stores) for reference in references}
    for reference, candidates in found.items():
        if len(candidates) == 1:
            reference.refuse_types(candidates[0])
    _refuse_circle(store, found)
    changed = [reference for reference in references if reference.candidates != found[reference]]
    referrers = {
        each: tuple([r for r in references if r.is_checked and each in found[r]])
        for each in stores.values()
    }
    # Under the lock: a deletion that looked before it was taken looks again.
    with engine.log.lock:
        engine.stores[store.name] = store
        if any([reference.is_checked for reference in references]):
            engine.refuse_dangling = refuse_dangling
        for reference in changed:
            reference.candidates = found[reference]
            # Generated code that somebody has kept knows the former target.
            reference.store.indexes.token = object()
        for each, leading in referrers.items():
            each.referrers = leading
    for source in dict.fromkeys([reference.store for reference in changed]):
        if source.on_numbers is not None and source.collection_id:
            source.on_numbers()


def _refuse_circle(store: Store, found: Mapping[Reference, Iterable[Store]]) -> None:
    """Raise if cascades lead from a new collection over others back to it."""
    ways: list[list[Reference]] = [
        [reference] for reference in found if reference.store is store and _cascades(reference)
    ]
    seen: set[Store] = set()
    while ways:
        way = ways.pop()
        for target in found[way[-1]]:
            if target is store and len(way) > 1:
                circle = ", ".join([f"{each.store.name}.{each.field}" for each in way])
                raise ConfigError(
                    f"{store.name}: the foreign keys {circle} cascade in a circle, so that one"
                    " deletion could empty all of these collections. Declare one of them"
                    " on_delete='restrict' or 'set_none'."
                )
            if target not in seen and target is not store:
                seen.add(target)
                ways += [[*way, r] for r in found if r.store is target and _cascades(r)]


def _cascades(reference: Reference) -> bool:
    return reference.on_delete == "cascade"
