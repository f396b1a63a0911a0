"""Foreign keys: what a class says of its fields that hold identities of other records."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from types import NoneType
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeVar, get_args, get_origin

from memdb._config import nearest
from memdb._index_declarations import HashIndex, IndexDeclaration, SetIndex
from memdb.errors import ConfigError, shown
from memdb.query import Field
from memdb.query._paths import members_of
from memdb.serializers import FieldShape, Shape
from memdb.serializers._shape import is_typed_dict, is_union, strip, type_text, unwrap

OnDelete = Literal["ignore", "restrict", "cascade", "set_none"]

_ON_DELETE: Final = ("ignore", "restrict", "cascade", "set_none")

# What a field with several identities may be; no others, so that one can be taken out of them.
MANY: Final = (list, tuple, set, frozenset)
_ABSTRACT_MANY: Final = (Sequence, Set, Collection, Iterable)


@dataclass(frozen=True, slots=True, repr=False)
class ForeignKey:
    """Say in the annotation of a field that it holds the identity of another record.

    The field gets an index, and joins know the way: `orders.where().join(Customer)`. Unless
    `on_delete` is `"ignore"`, each reference that is written must also lead to a record at the
    end of the transaction, and no record may go that is referred to.

    Args:
        target: The class of the records that the field refers to, or the name of their
            collection or class, which may be defined later.
        on_delete: What becomes of a record when the one that it refers to is deleted:
            `"ignore"`: nothing is checked, neither then nor when a reference is written;
            `"restrict"`: the deletion is refused, unless the reference goes too in the same
            transaction; `"cascade"`: it is deleted too; `"set_none"`: the field becomes None, and
            a list of identities loses the one.

    Raises:
        ConfigError: The target is neither, or there is no such `on_delete`.

    Example:
        >>> from typing import Annotated
        >>> Annotated[int | None, ForeignKey("Customer", "set_none")].__metadata__
        (ForeignKey('Customer', on_delete='set_none'),)
    """

    target: Any
    on_delete: OnDelete = "ignore"

    def __post_init__(self) -> None:
        if not _can_be_target(self.target):
            raise ConfigError(
                "ForeignKey: the target is a record class or the name of a collection, as in"
                f" ForeignKey(Customer) or ForeignKey('Customer'), not {shown(self.target)}."
            )
        if not isinstance(self.on_delete, str) or self.on_delete not in _ON_DELETE:
            raise ConfigError(
                "ForeignKey: on_delete= is 'ignore', 'restrict', 'cascade' or 'set_none', not"
                f" {shown(self.on_delete)}.{nearest(self.on_delete, _ON_DELETE)}"
            )

    @property
    def target_name(self) -> str:
        """What messages call the target."""
        return self.target if isinstance(self.target, str) else type_text(self.target)

    def __repr__(self) -> str:
        target = repr(self.target) if isinstance(self.target, str) else self.target_name
        is_usual = self.on_delete == "ignore"
        return f"ForeignKey({target}{'' if is_usual else f', on_delete={self.on_delete!r}'})"


def _can_be_target(target: object) -> bool:
    if isinstance(target, str):
        return target != "" and target.isprintable()
    cls = get_origin(target) or target
    return isinstance(cls, type) and (is_typed_dict(cls) or cls.__module__ != "builtins")


class DeclaredKey(NamedTuple):
    """A foreign key as the classes of a collection declare it.

    Attributes:
        field: The name of the field.
        key: What its annotation says.
        is_many: It holds several identities.
        members: What the annotation says of one identity, `members_of` it, without None.
    """

    field: str
    key: ForeignKey
    is_many: bool
    members: tuple[Any, ...]

    @property
    def is_checked(self) -> bool:
        """Whether references are checked."""
        return self.key.on_delete != "ignore"


def declared_keys(
    collection: str, shapes: Iterable[Shape], key_fields: Iterable[str]
) -> tuple[DeclaredKey, ...]:
    """Return the foreign keys of the classes of a collection.

    Args:
        collection: Its name, for messages.
        shapes: Those of its classes. A key that one of them declares holds for the field of this
            name in all.
        key_fields: The fields of the natural key.

    Raises:
        ConfigError: An annotation has a key where none can be, or two that contradict each other.
    """
    found: dict[str, DeclaredKey] = {}
    shapes = list(shapes)
    for shape in shapes:
        for field in shape.fields:
            _refuse_unresolved(collection, shape, field)
            for declared in _keys_of(collection, field):
                if found.setdefault(field.name, declared)[:3] != declared[:3]:
                    raise ConfigError(
                        f"{collection}: {field.name} has two foreign keys,"
                        f" {found[field.name].key!r} and {declared.key!r}. Leave one out."
                    )
    fixed = {*key_fields, *[shape.identity for shape in shapes]}
    for declared in found.values():
        if declared.key.on_delete == "set_none" and not declared.is_many:
            _refuse_set_none(collection, declared, shapes, fixed)
    return tuple(found.values())


def _keys_of(collection: str, field: FieldShape) -> list[DeclaredKey]:
    """Return the keys in the annotation of a field."""
    return [
        DeclaredKey(field.name, key, is_many, tuple(members))
        for key, is_many, members in _found(f"{collection}: {field.name}", field.annotation)
    ]


def _found(place: str, annotation: Any) -> Iterator[tuple[ForeignKey, bool, list[Any]]]:
    """Give each key in an annotation, whether it is for several, and what one identity is."""
    keys: list[ForeignKey] = []
    while True:
        if get_origin(annotation) is Annotated:
            keys += [each for each in annotation.__metadata__ if isinstance(each, ForeignKey)]
        inner = unwrap(annotation)
        if inner is annotation:
            break
        annotation = inner
    for key in keys:
        yield (key, *_values(place, annotation))
    if is_union(annotation):
        for part in get_args(annotation):
            yield from _found(place, part)
        return
    for number, part in enumerate(get_args(annotation)):
        for key, is_many, members in _found(place, part):
            if is_many or number or not _is_many(annotation):
                raise ConfigError(
                    f"{place} is {type_text(annotation)}, and no foreign key can be inside of that."
                    " Annotate one identity, or a list, tuple, set or frozenset of them."
                )
            yield key, True, members


def _values(place: str, annotation: Any) -> tuple[bool, list[Any]]:
    """Return whether an annotation is for several identities, and what one of them is."""
    members = [member for member in members_of(annotation) if member is not NoneType]
    are_many = set(map(_is_many, members))
    if len(are_many) > 1:
        raise ConfigError(
            f"{place} is {type_text(annotation)}, and a foreign key is for one identity or for"
            " several. Annotate it as one of the two."
        )
    if True not in are_many:
        return False, members
    parts = [get_args(member)[0] if get_args(member) else Any for member in members]
    return True, [each for part in parts for each in members_of(part) if each is not NoneType]


def _is_many(annotation: Any) -> bool:
    """Whether the values of an annotation are collections of identities.

    A tuple of a fixed length is one identity: the key of several fields.
    """
    cls = get_origin(annotation) or annotation
    if cls is tuple:
        arguments = get_args(annotation)
        return not arguments or arguments[-1] is Ellipsis
    return cls in MANY or cls in _ABSTRACT_MANY


def _refuse_unresolved(collection: str, shape: Shape, field: FieldShape) -> None:
    """Raise for a key in an annotation that can't be resolved, as it would be lost."""
    if field.annotation is not Any:
        return
    for base in shape.cls.__mro__:
        try:
            text = inspect.get_annotations(base).get(field.name)
        except Exception:  # pragma: no cover - from Python 3.14 on, where they are evaluated late
            continue
        if isinstance(text, str) and ForeignKey.__name__ in text:
            raise ConfigError(
                f"{collection}: the annotation of {field.name} names a foreign key and can't be"
                " resolved. Define or import all of its names in the module of the class, or give"
                " the target as a text: ForeignKey('Customer')."
            )


def _refuse_set_none(
    collection: str, declared: DeclaredKey, shapes: list[Shape], fixed: set[str | None]
) -> None:
    """Raise if a field can't become None."""
    name = declared.field
    if name in fixed:
        raise ConfigError(
            f"{collection}: {name} names the record, so that on_delete='set_none' can't change it."
            " Use 'restrict' or 'cascade'."
        )
    for shape in shapes:
        for field in shape.fields:
            annotation = strip(field.annotation)
            is_open = annotation in (Any, object) or isinstance(annotation, TypeVar)
            if field.name == name and not is_open and NoneType not in members_of(annotation):
                raise ConfigError(
                    f"{collection}: {name} is {type_text(annotation)}, which"
                    f" on_delete='set_none' can't make None. Annotate it {type_text(annotation)} |"
                    " None, or use 'restrict' or 'cascade'."
                )


def with_key_indexes(
    indexes: Iterable[IndexDeclaration], keys: Iterable[DeclaredKey]
) -> list[IndexDeclaration]:
    """Return the declared indexes, and one for each foreign key that has none among them.

    It is named after the field, or `<field>_key` where another index has that name.
    """
    made = list(indexes)
    for declared in keys:
        if not any(serves(index, declared.field, is_many=declared.is_many) for index in made):
            name = declared.field
            while name in [index.name for index in made]:
                name += "_key"
            cls = SetIndex if declared.is_many else HashIndex
            made.append(cls(Field((declared.field,)), name=name))
    return made


def serves(index: IndexDeclaration, field: str, *, is_many: bool) -> bool:
    """Whether an index tells which records have a value in a field, or among its elements."""
    kind = "set" if is_many else "hash"
    return index.kind == kind and index.paths == ((field,),) and index.where is None
