"""Members: the classes whose records a collection holds, one or several."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Union, get_args

from memdb._cloners import Cloner, get_cloner
from memdb.errors import ConfigError, RecordTypeError
from memdb.serializers import Codec, FieldShape, Serializer, Shape, shape_of, writer_schema
from memdb.serializers._shape import is_union
from memdb.storage import Kind, Log, pointer_end


class Member:
    """One class of a collection's records, and how they are written.

    Attributes:
        tag: What the file calls the class; None in a collection of one class.
        schema: The writer schema of the class as it is now.
        writer_id: Number of the schema in the catalogue, 0 until the first write.
        pointer_ends: Constant end of a pointer of this class for each kind.
        marked_ends: The same where the record is marked to be encrypted.
    """

    def __init__(
        self,
        shape: Shape,
        tag: str | None,
        serializer: Serializer,
        cloner: str | Callable[[Any], Any],
        version: int,
    ) -> None:
        self.shape = shape
        self.tag = tag
        self.codec: Codec = serializer.codec(shape)
        self.cloner = get_cloner(cloner, shape, self.codec)
        self.schema = writer_schema(shape, serializer, version=version, tag=tag)
        self.field_names = frozenset(field.name for field in shape.fields)
        self.omits_identity = bool(getattr(self.codec, "omits_identity", False))
        self.writer_id = 0
        self.pointer_ends: dict[Kind, bytes] = {}
        self.marked_ends: dict[Kind, bytes] = {}

    def set_writer(self, collection_id: int, writer_id: int, log: Log) -> None:
        """Take the numbers that the catalogue gave."""
        pointer_ends, marked_ends = [
            {
                kind: pointer_end(collection_id, writer_id, kind, flags)
                for kind in (Kind.INSERTED, Kind.UPDATED)
            }
            for flags in (log.seal_flags(), log.seal_flags(is_marked=True))
        ]
        # No call between: an interrupt must not leave the number of a writer without the rest.
        self.pointer_ends = pointer_ends
        self.marked_ends = marked_ends
        self.writer_id = writer_id


class Members:
    """The classes of a collection.

    Attributes:
        shape: Of the only class; of kind "union" where there are several.
        cloner: Of the only class; one that asks each record for its class where there are several.
        sole: The only class, None where there are several.
    """

    def __init__(self, shape: Shape, members: Sequence[Member]) -> None:
        self._by_class = {member.shape.cls: member for member in members}
        # By its own name too, if no other class is called so: the tag may be younger.
        self._by_tag = {member.shape.name: member for member in members}
        self._by_tag |= {member.tag: member for member in members if member.tag is not None}
        self.sole = members[0] if shape.kind != "union" else None
        self.shape = shape
        self.cloner = self.sole.cloner if self.sole else _joined_cloner(self._by_class)

    def __iter__(self) -> Iterator[Member]:
        return iter(self._by_class.values())

    def find(self, cls: type) -> Member | None:
        """Return the member of exactly this class."""
        return self._by_class.get(cls)

    def of_writer(self, schema: Mapping[str, Any]) -> Member | None:
        """Return the class that records of a writer schema become now, None if there is none."""
        tag = schema.get("tag")
        if tag is None:
            if self.sole is not None:
                return self.sole
            tag = schema["class"]
        elif self.sole is not None and self.sole.shape.kind == "dict":
            return self.sole
        member = self._by_tag.get(tag)
        if member is None and (cls := self.shape.aliases.get(tag)) is not None:
            member = self._by_class.get(cls)
        return member


def member_shapes(
    classes: object,
    *,
    subclasses: bool,
    tags: Mapping[str, type],
    aliases: Mapping[str, type],
    has_key: bool,
) -> tuple[Shape, list[tuple[Shape, str | None]]]:
    """Return the shape of a collection's records, and those of its classes with their tags.

    Args:
        classes: A record class, a union of some, a name's ``None`` for plain dicts.
        subclasses: Take every subclass of the class that there is now as well.
        tags: Tag -> class, where the tag is not the class's name.
        aliases: Old name or tag -> class.
        has_key: The identity is a natural key, and a field ``id`` one like any other.

    Raises:
        RecordTypeError: A class is no record class.
        ConfigError: Two classes have one tag, or a tag or alias is for another class.
    """
    found = _classes_of(classes, subclasses=subclasses)
    found += [cls for cls in tags.values() if cls not in found]
    if len(found) > 1:
        # A base class may be named for the type of the collection alone.
        found = [cls for cls in found if not inspect.isabstract(cls)] or found
    is_union = len(found) > 1 or subclasses or bool(tags)
    shapes = [_shape(cls, aliases, has_key=has_key) for cls in found]
    if not is_union:
        return shapes[0], [(shapes[0], None)]
    names = {cls: tag for tag, cls in tags.items()}
    tagged = [(shape, names.get(shape.cls, shape.name)) for shape in shapes]
    _refuse_ambiguous(tagged, aliases)
    return _union_of(classes, shapes, aliases), [*tagged]


def _shape(cls: Any, aliases: Mapping[str, type], *, has_key: bool) -> Shape:
    shape = replace(shape_of(cls), aliases=dict(aliases))
    return replace(shape, identity=None) if has_key else shape


def _classes_of(classes: Any, *, subclasses: bool) -> list[Any]:
    """Return the record classes that are meant; an abstract base is none."""
    found: list[Any] = list(get_args(classes)) if is_union(classes) else [classes]
    if not subclasses:
        return found
    if not all(isinstance(cls, type) for cls in found):
        raise ConfigError("subclasses=True is for a class or a union of classes.")
    waiting, found = found, []
    while waiting:
        cls = waiting.pop(0)
        if cls in found:
            continue
        waiting += type.__subclasses__(cls)
        if not inspect.isabstract(cls):
            found.append(cls)
    if not found:
        raise RecordTypeError(
            f"{classes.__qualname__} is abstract and has no subclass yet. Import the modules that"
            " define its subclasses before the collection is asked for."
        )
    return found


def _refuse_ambiguous(tagged: list[tuple[Shape, str]], aliases: Mapping[str, type]) -> None:
    classes: dict[str, type] = {}
    if len({shape.cls for shape, _ in tagged}) < len(tagged):
        raise ConfigError(
            "A class stands twice in the union, with other type arguments. A record does not say"
            " which it was made with: use a collection for each."
        )
    for shape, tag in tagged:
        other = classes.setdefault(tag, shape.cls)
        if other is not shape.cls:
            raise ConfigError(
                f"Two classes, {other.__module__}.{other.__qualname__} and"
                f" {shape.cls.__module__}.{shape.cls.__qualname__}, would have the tag {tag!r}."
                " Declare another for one of them: tags={...}."
            )
        if shape.kind == "dict":
            raise RecordTypeError(
                "Plain dicts can't share a collection with classes, as nothing in them says what"
                " they are. Use a collection of their own."
            )
    for name, cls in aliases.items():
        if name in classes and classes[name] is not cls:
            raise ConfigError(
                f"{name!r} is the tag of {classes[name].__qualname__} and can't be an alias of"
                f" {cls.__qualname__}."
            )


def _union_of(classes: Any, shapes: list[Shape], aliases: Mapping[str, type]) -> Shape:
    """Return the shape whose fields are those of any of the classes."""
    annotations: dict[str, Any] = {}
    for shape in shapes:
        for field in shape.fields:
            known = annotations.get(field.name, field.annotation)
            annotations[field.name] = Union[known, field.annotation]  # noqa: UP007
    base = classes if isinstance(classes, type) else object
    identities = {shape.identity for shape in shapes}
    return Shape(
        cls=base,
        name=" | ".join(shape.name for shape in shapes),
        kind="union",
        fields=tuple(FieldShape(name, annotation) for name, annotation in annotations.items()),
        identity=identities.pop() if len(identities) == 1 else None,
        is_frozen=all(shape.is_frozen for shape in shapes),
        has_slots=False,
        aliases=dict(aliases),
    )


def _joined_cloner(members: Mapping[type, Member]) -> Cloner:
    """Return the cloner that copies each record as its own class does."""
    cloners = {cls: member.cloner for cls, member in members.items()}

    def clone(record: Any) -> Any:
        return cloners[type(record)].clone(record)

    def conforms(record: Any) -> bool:
        check = cloners[type(record)].conforms
        return check is None or check(record)

    def by_value(record: Any) -> Any:
        return cloners[type(record)].by_value(record)

    name = next(iter(cloners.values())).name
    has_checks = any(cloner.conforms is not None for cloner in cloners.values())
    is_sharing = any(cloner.is_sharing for cloner in cloners.values())
    return Cloner(name, clone, conforms if has_checks else None, by_value, is_sharing=is_sharing)
