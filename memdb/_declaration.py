"""What a program says of a collection when it asks for it, and what the file has of it already."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypedDict, get_origin, is_typeddict

from memdb._foreign_keys import declared_keys, with_key_indexes
from memdb._index_declarations import IndexDeclaration
from memdb._members import Member, Members, member_shapes
from memdb._natural_key import NaturalKey, field_names
from memdb._references import Reference
from memdb._referring_store import ReferringStore
from memdb._store import Store
from memdb.errors import ConfigError, RecordTypeError, shown
from memdb.serializers import Evolution, Serializer, Shape, get_serializer
from memdb.serializers._shape import is_union, type_text

if TYPE_CHECKING:
    from memdb._engine import Engine

Upgrade = Callable[[dict[str, Any]], dict[str, Any] | None]

# Settings whose values are functions, which a program may well write anew each time.
_OF_FUNCTIONS = ("upgrade", "upgrades", "converters")


class CollectionSettings(TypedDict, total=False):
    """The keywords of `Database.collection` besides ``key``, for type checkers."""

    name: str | None
    serializer: str | Serializer | None
    cloner: str | Callable[[Any], Any] | None
    cache: int | str | None
    identity_index: bool | None
    version: int | None
    upgrade: Upgrade | None
    upgrades: Mapping[int, Upgrade] | None
    renames: Mapping[str, str] | None
    converters: Mapping[str, Callable[[Any], Any]] | None
    subclasses: bool | None
    tags: Mapping[str, type] | None
    aliases: Mapping[str, type] | None
    indexes: Iterable[IndexDeclaration]


@dataclass(frozen=True, kw_only=True, slots=True)
class Declaration:
    """The arguments of `Database.collection`; None where nothing was said.

    Attributes:
        cls: The class, a union of some, or None for plain dicts.
    """

    cls: Any
    name: str
    key: tuple[str, ...] | None
    serializer: str | Serializer | None
    cloner: str | Callable[[Any], Any] | None
    cache: int | str | None
    identity_index: bool | None
    version: int | None
    upgrade: Upgrade | None
    upgrades: Mapping[int, Upgrade] | None
    renames: Mapping[str, str] | None
    converters: Mapping[str, Callable[[Any], Any]] | None
    subclasses: bool | None
    tags: Mapping[str, type] | None
    aliases: Mapping[str, type] | None
    indexes: tuple[IndexDeclaration, ...]

    @classmethod
    def of(cls, cls_or_name: Any, *, name: str | None, **settings: Any) -> Declaration:
        """Return the declaration that these arguments make.

        Raises:
            RecordTypeError: The first is neither a class nor a name.
            ConfigError: A setting can't be what it is.
        """
        if name is None:
            name = _name_of(cls_or_name)
        if not _is_name(name):
            raise ConfigError(
                f"The name of a collection is a text of at least one letter, not {name!r}."
            )
        for setting in ("upgrades", "renames", "converters", "tags", "aliases"):
            if not isinstance(settings[setting], Mapping | None):
                raise ConfigError(f"{name}: {setting}= is a mapping, not {settings[setting]!r}.")
        for setting in ("tags", "aliases"):
            for text, value in (settings[setting] or {}).items():
                if not _is_name(text) or not isinstance(value, type):
                    raise ConfigError(
                        f"{name}: {setting}= leads from a name to a class, not from {text!r} to"
                        f" {value!r}."
                    )
        if len(set((settings["tags"] or {}).values())) < len(settings["tags"] or {}):
            raise ConfigError(
                f"{name}: tags= has two names for one class. Declare the one that is written in"
                " tags=, and former ones in aliases=."
            )
        settings["indexes"] = _declared_indexes(name, settings["indexes"])
        if settings["key"] is not None:
            settings["key"] = field_names(name, settings["key"])
        record_class = None if isinstance(cls_or_name, str) else cls_or_name
        return cls(cls=record_class, name=name, **settings)

    @classmethod
    def asked(cls, cls_or_name: Any, **settings: Any) -> Declaration:
        """Return the declaration that these arguments make, where nothing is said of the others.

        The errors are those of `of`.
        """
        names = [field.name for field in fields(cls) if field.name != "cls"]
        return cls.of(cls_or_name, **{**dict.fromkeys(names), "indexes": (), **settings})

    def refuse_another(self, other: Declaration) -> None:
        """Raise if somebody asks for the same collection in another way.

        Raises:
            ConfigError: They do; what they say nothing about does not matter.
        """
        for field in fields(self):
            before, now = getattr(self, field.name), getattr(other, field.name)
            if field.name in _OF_FUNCTIONS and before is not None and now is not None:
                continue
            if field.name == "indexes" and not now:
                continue
            if now != before and (now is not None or field.name == "cls"):
                setting = "class" if field.name == "cls" else field.name
                raise ConfigError(
                    f"The collection {self.name!r} was asked for with {setting}={before!r}"
                    f" before, now with {now!r}. Ask for it the same way, or give another"
                    " name=."
                )

    def make_store(self, engine: Engine) -> Store:
        """Return the inside of the collection.

        Raises:
            RecordTypeError: A class is no record class.
            ConfigError: A setting is wrong, or contradicts the file.
        """
        given = {
            setting: getattr(self, setting)
            for setting in ("cache", "cloner", "serializer")
            if getattr(self, setting) is not None
        }
        config = engine.config.merge(engine.config, given)
        evolution = Evolution(
            version=1 if self.version is None else self.version,
            renames=self.renames or {},
            converters=self.converters or {},
            upgrade=self.upgrade,
            upgrades=self.upgrades or {},
        )
        serializer = get_serializer(config.serializer)
        entry = engine.entry_of(self.name)
        has_key = self.key is not None or (entry is not None and "key" in entry)
        shape, parts = member_shapes(
            self.cls,
            subclasses=bool(self.subclasses),
            tags=self.tags or {},
            aliases=self.aliases or {},
            has_key=has_key,
        )
        evolution.validate(*(part for part, _ in parts))
        key = self._natural_key(engine, [part for part, _ in parts], entry)
        members = [
            Member(part, tag, serializer, config.cloner, evolution.version) for part, tag in parts
        ]
        limits = {"all": None, "none": 0}
        foreign = declared_keys(
            self.name, [part for part, _ in parts], () if key is None else key.fields
        )
        cls = ReferringStore if any([each.is_checked for each in foreign]) else Store
        store = cls(
            engine,
            self.name,
            Members(shape, members),
            key,
            serializer=serializer,
            evolution=evolution,
            cache_limit=config.cache if isinstance(config.cache, int) else limits[config.cache],
            has_identity_index=self.identity_index is not False,
            indexes=[
                index.bind(shape, self.name) for index in with_key_indexes(self.indexes, foreign)
            ],
        )
        store.declaration = self
        store.references = tuple([Reference(store, each) for each in foreign])
        store.checked = tuple([each for each in store.references if each.is_checked])
        return store

    def key_of(self, store: Store, entry: Mapping[str, Any]) -> NaturalKey | None:
        """Return the key of a store that was made of this, by what a catalogue has of it.

        Raises:
            ConfigError: That contradicts the declaration.
        """
        shapes = [member.shape for member in store.members]
        return self._natural_key(store.engine, shapes, entry)

    def _natural_key(
        self, engine: Engine, shapes: list[Shape], entry: Mapping[str, Any] | None
    ) -> NaturalKey | None:
        """Return the key of the collection, None where identities are numbers.

        Raises:
            ConfigError: It is another than the file has.
        """
        stored = None if entry is None else entry.get("key")
        secret_digest = engine.log.key_hash()
        if self.key is None:
            if stored is not None and self.cls is not None:
                raise ConfigError(
                    f"{self.name}: its records are named by their {_names(stored['fields'])}."
                    f" Ask for it with key={_as_setting(stored['fields'])}."
                )
            return None if stored is None else NaturalKey.stored(self.name, stored, secret_digest)
        declared = NaturalKey.declared(self.name, self.key, shapes, secret_digest)
        if entry is None:
            return declared
        if stored is None:
            raise ConfigError(
                f"{self.name}: its records have assigned identities, which can't become the key"
                f" {_names(declared.fields)}. Copy them into a new collection with that key."
            )
        renames = self.renames or {}
        was = tuple(stored["fields"])
        if tuple(renames.get(name, name) for name in was) != declared.fields:
            raise ConfigError(
                f"{self.name}: its records are named by their {_names(was)}, not by"
                f" {_names(declared.fields)}. Ask for it with key={_as_setting(was)}, declare"
                " renames= if the fields have other names now, or copy the records into a new"
                " collection with another key."
            )
        names = dict(zip(was, declared.fields, strict=True))
        for shape in shapes:
            self._refuse_another_type(engine, shape, entry["id"], names)
        return NaturalKey.stored(self.name, stored, secret_digest).renamed(declared.fields)

    def _refuse_another_type(
        self, engine: Engine, shape: Shape, collection_id: int, names: Mapping[str, str]
    ) -> None:
        """Raise if a field of the key has changed its type: no old record would be found."""
        types = {field.name: type_text(field.annotation) for field in shape.fields}
        for writer in engine.writers:
            if writer["collection"] != collection_id:
                continue
            for name, was in writer["schema"]["fields"]:
                now = types.get(names.get(name, ""), "Any")
                if (
                    name in names
                    and not _parts(was) <= _parts(now)
                    and now not in ("Any", "object")
                ):
                    raise ConfigError(
                        f"{self.name}: {name} is part of its key and was {was}, now {now}, so that"
                        " no record would be found any more. Copy the records into a new"
                        " collection."
                    )


def _declared_indexes(name: str, indexes: Any) -> tuple[IndexDeclaration, ...]:
    """Return the declarations of a collection's indexes.

    Raises:
        ConfigError: They are none, or two have one name.
    """
    if isinstance(indexes, str | Mapping) or not isinstance(indexes, Iterable):
        raise ConfigError(
            f"{name}: indexes= is a list of declarations as memdb.HashIndex, not {shown(indexes)}."
        )
    declared = tuple(indexes)
    names: set[str] = set()
    for index in declared:
        if not isinstance(index, IndexDeclaration):
            raise ConfigError(
                f"{name}: indexes= has {shown(index)}. Declare an index with HashIndex,"
                " SortedIndex, SetIndex or ColumnIndex."
            )
        if index.name in names:
            raise ConfigError(
                f"{name}: two indexes are named {index.name!r}. Give one of them a name=."
            )
        names.add(index.name)
    return declared


def _name_of(cls_or_name: Any) -> str:
    """Return the name of the collection of a class, or what is a name itself."""
    if isinstance(cls_or_name, str):
        return cls_or_name
    if is_union(cls_or_name):
        raise ConfigError("A collection of several classes needs a name: name=...")
    is_class = isinstance(cls_or_name, type) or get_origin(cls_or_name) is not None
    is_mapping = isinstance(cls_or_name, type) and issubclass(cls_or_name, Mapping | dict)
    if not is_class or (is_mapping and not is_typeddict(cls_or_name)):
        raise RecordTypeError(
            "A collection is made for a record class, or by a name for plain dicts, not for a"
            f" value of type {type(cls_or_name).__qualname__}."
        )
    return cls_or_name.__name__ if isinstance(cls_or_name, type) else type_text(cls_or_name)


def _is_name(value: object) -> bool:
    return isinstance(value, str) and value != "" and value.isprintable()


def _parts(text: str) -> set[str]:
    return set(text.split(" | "))


def _names(names: Sequence[str]) -> str:
    return ", ".join(names)


def _as_setting(names: Sequence[str]) -> str:
    return repr(names[0]) if len(names) == 1 else repr(tuple(names))
