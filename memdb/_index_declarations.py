"""What a program says of an index, and what that comes to for the class of the records."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import FrozenInstanceError
from typing import Any, ClassVar, Final, Literal

from memdb._bound_index import BoundIndex
from memdb._index_keys import Path, Paths, text_of_path
from memdb.errors import ConfigError, shown
from memdb.query import Expression, Field, Order, has_callback, parameters
from memdb.serializers import Shape

__all__ = [
    "BoundIndex",
    "ColumnIndex",
    "HashIndex",
    "IndexDeclaration",
    "SetIndex",
    "SortedIndex",
]

Function = Callable[[Any], Any]
Directions = tuple[int, ...]


class IndexDeclaration:
    """Say which index a collection has; see the classes derived from this one.

    Two are equal if they say the same. Of a function only its version counts, as programs write
    functions anew.

    Threads: a declaration never changes, so that it may be shared freely.

    Attributes:
        name: What the index is called in its collection.
        paths: Where the fields are; None where a function makes the key.
        directions: For each field 1, or -1 where it falls.
        key: The function that makes the key of a record, or None.
        version: The identity of the function; None for an index of fields.
        where: The condition of the records that are in the index; None: all are.
        unique: Whether no two records may have one key.
    """

    __slots__ = ("directions", "key", "name", "paths", "unique", "version", "where")

    kind: ClassVar[Literal["hash", "sorted", "set", "column"]]

    name: str
    paths: Paths | None
    directions: Directions
    key: Function | None
    version: str | None
    where: Expression | None
    unique: bool

    def __init__(
        self,
        fields: tuple[Any, ...],
        key: Function | None = None,
        name: str | None = None,
        unique: bool = False,
        where: Expression | None = None,
        version: str | int | None = None,
    ) -> None:
        who = type(self).__name__
        first = fields[0] if len(fields) == 1 else None
        if callable(first) and key is None:
            fields, key = (), first
        if bool(fields) is (key is not None):
            raise ConfigError(
                f"{who}: give the fields of the index, or a function with key=; one of the two."
            )
        if not isinstance(unique, bool):
            raise ConfigError(f"{who}: unique= is True or False, not {shown(unique)}.")
        paths, directions = _checked_fields(who, fields, self.kind)
        values = {
            "name": _checked_name(who, name, paths),
            "paths": paths or None,
            "directions": directions,
            "key": _checked_function(who, key),
            "version": _checked_version(who, version, key),
            "where": _checked_condition(who, where),
            "unique": unique,
        }
        for attribute, value in values.items():
            object.__setattr__(self, attribute, value)

    @property
    def signature(self) -> dict[str, Any]:
        """What the index is, without its name, in terms that JSON has: equal if it is the same."""
        return {
            "kind": self.kind,
            "fields": None if self.paths is None else [list(path) for path in self.paths],
            "directions": list(self.directions),
            "unique": self.unique,
            "where": None if self.where is None else repr(self.where),
            "version": self.version,
        }

    def renamed(self, name: str) -> IndexDeclaration:
        """Return the same declaration with another name.

        Raises:
            ConfigError: That can't be one.
        """
        other: IndexDeclaration = object.__new__(type(self))
        for attribute in IndexDeclaration.__slots__:
            object.__setattr__(other, attribute, getattr(self, attribute))
        object.__setattr__(other, "name", _checked_name(type(self).__name__, name, ()))
        return other

    def bind(self, shape: Shape, collection: str) -> BoundIndex:
        """Return the index as it is for records of a class.

        Args:
            shape: The class, or what several have together.
            collection: Name of the collection, for messages.

        Raises:
            ConfigError: A field does not exist, or can't have such an index.
        """
        return BoundIndex(self, shape, collection)

    def __setattr__(self, name: str, value: object) -> None:
        raise FrozenInstanceError(f"An index declaration can't be changed: {name!r}.")

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"An index declaration can't be changed: {name!r}.")

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return _restored, (type(self), *[getattr(self, name) for name in _ATTRIBUTES])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, IndexDeclaration):
            return NotImplemented
        return self.name == other.name and self.signature == other.signature

    def __hash__(self) -> int:
        return hash((self.kind, self.name, self.paths, self.unique, self.version))

    def __repr__(self) -> str:
        paths = self.paths or ()
        given = [
            _shown_field(path, direction)
            for path, direction in zip(paths, self.directions, strict=False)
        ]
        if self.key is not None:
            given.append(f"key={getattr(self.key, '__qualname__', None) or shown(self.key)}")
        if self.key is not None or self.name != _usual_name(paths):
            given.append(f"name={self.name!r}")
        if self.version not in (None, "1"):
            given.append(f"version={self.version!r}")
        if self.where is not None:
            given.append(f"where={self.where!r}")
        if self.unique:
            given.append("unique=True")
        return f"{type(self).__name__}({', '.join(given)})"


class HashIndex(IndexDeclaration):
    """Find the records whose field, or whose fields together, equal a value.

    Args:
        fields: Names, `"address.city"` for what is inside; or fields of `F`; or one function.
        key: A function that makes the key of a record; needs a name, by which queries ask for it.
        name: What the index is called; the fields joined by `_` unless told.
        unique: Refuse a record whose key another one has. None and absent values never collide.
        where: The condition of the records that are in the index, an expression of `F`.
        version: Says which function `key` is; another version makes another index.

    Raises:
        ConfigError: That can't be an index.

    Note:
        `__hash__` and `__eq__` of keys of own classes run while changes wait for them; they must
        not change the database.

    Example:
        >>> HashIndex("first_name", "last_name", name="full_name", unique=True)
        HashIndex('first_name', 'last_name', name='full_name', unique=True)
    """

    __slots__ = ()

    kind = "hash"

    def __init__(
        self,
        *fields: str | Field | Function,
        key: Function | None = None,
        name: str | None = None,
        unique: bool = False,
        where: Expression | None = None,
        version: str | int | None = None,
    ) -> None:
        super().__init__(fields, key, name, unique, where, version)


class SortedIndex(IndexDeclaration):
    """Find the records whose field lies between two values, and give records in its order.

    Args:
        fields: Names, with a minus before those that fall: `"-born"`, or `F.born.desc()`; else as
            in `HashIndex`.
        key: As in `HashIndex`, as all others.
        name: What the index is called.
        where: The condition of the records that are in the index.
        version: Says which function `key` is.
        unique: Refuse a record whose key another one has.

    Raises:
        ConfigError: That can't be an index.

    Example:
        >>> SortedIndex("country", "-born").directions
        (1, -1)
    """

    __slots__ = ()

    kind = "sorted"

    def __init__(
        self,
        *fields: str | Field | Order | Function,
        key: Function | None = None,
        name: str | None = None,
        where: Expression | None = None,
        version: str | int | None = None,
        unique: bool = False,
    ) -> None:
        super().__init__(fields, key, name, unique, where, version)


class SetIndex(IndexDeclaration):
    """Find the records whose collection contains a value: a list, tuple, set, or a dict's keys.

    Args:
        field: A name, a field of `F`, or a function that gives the elements.
        key: As in `HashIndex`, as all others.
        name: What the index is called.
        where: The condition of the records that are in the index.
        version: Says which function `key` is.

    Raises:
        ConfigError: That can't be an index.

    Example:
        >>> SetIndex("tags")
        SetIndex('tags')
    """

    __slots__ = ()

    kind = "set"

    def __init__(
        self,
        field: str | Field | Function | None = None,
        *,
        key: Function | None = None,
        name: str | None = None,
        where: Expression | None = None,
        version: str | int | None = None,
    ) -> None:
        super().__init__(() if field is None else (field,), key, name, False, where, version)


class ColumnIndex(IndexDeclaration):
    """Keep the numbers, dates or datetimes of a field in an array, to scan and add them up at once.

    Args:
        field: A name, or a field of `F`.
        name: What the index is called.

    Raises:
        ConfigError: That can't be an index.

    Example:
        >>> ColumnIndex("price")
        ColumnIndex('price')
    """

    __slots__ = ()

    kind = "column"

    def __init__(self, field: str | Field, *, name: str | None = None) -> None:
        if not isinstance(field, str | Field):
            raise ConfigError(f"ColumnIndex: give the name of a field, not {shown(field)}.")
        super().__init__((field,), None, name)


_ATTRIBUTES: Final = ("name", "paths", "directions", "key", "version", "where", "unique")


def _restored(cls: type[IndexDeclaration], *values: Any) -> IndexDeclaration:
    """Return the declaration of some attributes, as pickle and copy make it."""
    declaration: IndexDeclaration = object.__new__(cls)
    for name, value in zip(_ATTRIBUTES, values, strict=True):
        object.__setattr__(declaration, name, value)
    return declaration


def _checked_fields(who: str, fields: Sequence[object], kind: str) -> tuple[Paths, Directions]:
    parsed = [_parsed(who, field) for field in fields]
    paths = tuple([path for path, _ in parsed])
    if len(set(paths)) < len(paths):
        listed = ", ".join(map(text_of_path, paths))
        raise ConfigError(f"{who}: one field stands twice among {listed}.")
    directions = tuple([direction for _, direction in parsed]) or (1,)
    if kind != "sorted" and -1 in directions:
        raise ConfigError(
            f"{who}: only a SortedIndex has an order that a field with a minus can reverse. Leave"
            " the minus out, or write F['-name'] for a field that is called so."
        )
    return paths, directions


def _parsed(who: str, field: object) -> tuple[Path, int]:
    """Return the path that a field stands for, and -1 if it falls."""
    if isinstance(field, Order) and isinstance(field.value, Field):
        return field.value._path, -1 if field.is_descending else 1
    if isinstance(field, Field):
        return field._path, 1
    if not isinstance(field, str):
        raise ConfigError(
            f"{who}: a field is a name or a field of F, not {shown(field)}. What is calculated is"
            " made by one function alone, as key=."
        )
    path = tuple(field.removeprefix("-").split("."))
    if not all(path) or path[0].startswith("-"):
        raise ConfigError(
            f"{who}: {field!r} is no field. Write 'name', 'address.city' for what is inside, or"
            " F['any name']."
        )
    return path, -1 if field.startswith("-") else 1


def _checked_name(who: str, name: object, paths: Paths) -> str:
    if name is None and paths:
        return _usual_name(paths)
    if name is None:
        raise ConfigError(f"{who}: an index made by a function needs a name: name=...")
    if not isinstance(name, str) or not name or not name.isprintable():
        raise ConfigError(
            f"{who}: the name of an index is a text of at least one letter, not {shown(name)}."
        )
    return name


def _checked_function(who: str, key: object) -> Any:
    if key is None:
        return None
    if isinstance(key, type) or not callable(key) or inspect.iscoroutinefunction(key):
        raise ConfigError(
            f"{who}: key= is a plain function that makes the key of a record, not {shown(key)}."
        )
    return key


def _checked_version(who: str, version: object, key: object) -> str | None:
    if version is None:
        return None if key is None else "1"
    if key is None:
        raise ConfigError(f"{who}: version= says which function key= is, and there is none.")
    if isinstance(version, bool) or not isinstance(version, str | int) or version == "":
        raise ConfigError(f"{who}: version= is a text or a number, not {shown(version)}.")
    return str(version)


def _checked_condition(who: str, where: object) -> Expression | None:
    if where is None:
        return None
    if not isinstance(where, Expression) or has_callback(where):
        raise ConfigError(
            f"{who}: where= is an expression of F, as F.age >= 18, not {shown(where)}."
            " Other choices are made by key=, which may return None in a unique index."
        )
    if parameters(where):
        raise ConfigError(
            f"{who}: where= has the parameters {', '.join(parameters(where))}, and an index has"
            " nobody to give them. Write values instead."
        )
    return where


def _usual_name(paths: Paths) -> str:
    return "_".join(map(text_of_path, paths))


def _shown_field(path: Path, direction: int) -> str:
    """Return a field as it can be declared."""
    if all([isinstance(n, str) and n and "." not in n and not n.startswith("-") for n in path]):
        return repr(("-" if direction < 0 else "") + text_of_path(path))
    return repr(Field(path)) + (".desc()" if direction < 0 else "")
