"""An index as it is for the records of a collection: which keys each one has in it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, Literal

from memdb._index_annotations import (
    NO_COLLECTIONS,
    are_collections,
    are_columnar,
    are_hashable,
    have_hashable_elements,
    is_proven,
    members_at,
    text_of,
)
from memdb._index_keys import (
    Form,
    Keys,
    Path,
    Paths,
    compile_function,
    compile_keys,
    text_of_path,
)
from memdb.errors import ConfigError, IndexKeyError, QueryError
from memdb.indexes import ABSENT
from memdb.query import Condition, Field, compile_condition
from memdb.query._conditions import walk
from memdb.serializers import Shape
from memdb.serializers._stack import pass_on

if TYPE_CHECKING:
    from memdb._index_declarations import IndexDeclaration

Kind = Literal["hash", "unique", "sorted", "set", "column"]

_FORMS: Final[dict[Kind, Form]] = {
    "hash": "key",
    "unique": "unique",
    "sorted": "key",
    "set": "elements",
    "column": "key",
}


class BoundIndex:
    """An index of a collection: which keys a record has in it.

    Threads: any number may call the functions at once.

    Attributes:
        declaration: What it was made from.
        shape: That of the records.
        collection: Name of the collection.
        name: What the index is called.
        kind: Which structure holds it.
        paths: Where the fields are; None where a function makes the key.
        asked: The fields that queries ask it for; its name, where a function makes the key.
        directions: For each field 1, or -1 where it falls.
        condition: Which records are in it; None: all are.
        is_partial: Whether a record may have no key in it.
        is_checked_always: Whether `check` has to be asked for each record that is written; if not,
            then for those whose values are not as the class says.
        needs_copy: Whether a function of the user's is called, which may change the record.
        keys_of: The keys of a record: none where it is not in the index, one, or those of its
            elements. Requires: a record that `check` accepts.
        check: The same for a record that may be anything; raises IndexKeyError if keys can't be
            made, or can't be keys.
        extract: The same for many records: for each its key, `NO_KEY` where it has none; of a
            SetIndex the tuple of the elements.
        unique: The same index of kind "unique", where no two records may have one key, else None.
            A unique SortedIndex has records in it that can't collide, and this one has not.
    """

    __slots__ = (
        "asked",
        "check",
        "collection",
        "condition",
        "declaration",
        "directions",
        "extract",
        "is_checked_always",
        "is_partial",
        "keys_of",
        "kind",
        "name",
        "needs_copy",
        "paths",
        "shape",
        "unique",
    )

    def __init__(
        self,
        declaration: IndexDeclaration,
        shape: Shape,
        collection: str,
        kind: Kind | None = None,
    ) -> None:
        if kind is None:
            is_hash = declaration.kind == "hash"
            kind = "unique" if is_hash and declaration.unique else declaration.kind
        self.declaration = declaration
        self.shape = shape
        self.collection = collection
        self.name = declaration.name
        self.kind: Kind = kind
        self.paths = declaration.paths
        self.asked: Paths = declaration.paths or ((declaration.name,),)
        self.directions = declaration.directions
        self.needs_copy = declaration.key is not None
        self.condition = self._condition()
        self.is_partial = self.condition is not None or kind in ("unique", "set")
        keys = self._keys()
        self.keys_of = keys.keys_of
        self.check = keys.check
        self.extract = keys.extract
        self.is_checked_always = not self._is_certain()
        self.unique: BoundIndex | None = None
        if declaration.unique:
            is_own = kind == "unique"
            self.unique = self if is_own else BoundIndex(declaration, shape, collection, "unique")
            self.is_checked_always |= self.unique.is_checked_always

    def renamed(self, name: str) -> BoundIndex:
        """Return the same index with another name.

        Raises:
            ConfigError: That can't be one.
        """
        return self.declaration.renamed(name).bind(self.shape, self.collection)

    def __repr__(self) -> str:
        return f"<{self.collection}: {self.declaration!r}>"

    def _condition(self) -> Condition | None:
        if self.declaration.where is None:
            return None
        try:
            condition = compile_condition(self.declaration.where, {}, self.shape)
        except QueryError as error:
            raise self._refusal(f"where=: {error}") from error
        return condition

    def _keys(self) -> Keys:
        """Return the functions that make the keys."""
        form = _FORMS[self.kind]
        matches = None if self.condition is None else self.condition.matches
        slow_check = None if self.kind in ("sorted", "column") else self._slow_check
        if self.kind == "unique":
            self._refuse_identity(self.paths or ())
        if self.paths is None:
            self._refuse_field()
            return compile_function(self._call, form, matches, self._elements_of, slow_check)
        try:
            return compile_keys(
                self.paths, self.shape, form, matches, self._elements_of, slow_check
            )
        except QueryError as error:
            raise self._refusal(str(error)) from error

    def _refuse_field(self) -> None:
        """Refuse the name of a field for an index that queries ask by its name."""
        names = [field.name for field in self.shape.fields]
        if self.name in names or self.name == self.shape.identity:
            raise self._refusal(
                f"the records have a field {self.name!r} too, which queries would mean. Give an"
                " index that a function makes another name=."
            )

    def _refuse_identity(self, paths: Paths) -> None:
        """Refuse a unique index that asks for the identity, which a new record has not yet."""
        where = self.declaration.where
        asked = (
            {node._path[0] for node in walk(where) if isinstance(node, Field)}
            if where is not None
            else ()
        )
        if (self.shape.identity,) in paths or self.shape.identity in asked:
            raise self._refusal(
                f"{self.shape.identity} is the identity, which a new record gets after its keys are"
                " compared. Leave it out of a unique index."
            )

    def _is_certain(self) -> bool:
        """Whether every record that is as annotated has keys, and serializers tell which is."""
        if self.paths is None:
            return False
        fit = all([self._fits(path) for path in self.paths])
        if self.kind in ("sorted", "column"):
            return True
        return fit and all([is_proven(path, self.shape) for path in self.paths])

    def _fits(self, path: Path) -> bool:
        """Whether every value that is as annotated can be a key; refuse what never can."""
        members = members_at(path, self.shape)
        place = f"{text_of_path(path)} is {text_of(members)},"
        if self.kind in ("hash", "unique"):
            is_sure = are_hashable(members)
            if is_sure is False:
                raise self._refusal(f"{place} which has no hash. {self._way_out(members)}")
            return is_sure is True
        if self.kind == "set":
            is_sure, are_sure = are_collections(members), have_hashable_elements(members)
            if is_sure is False:
                raise self._refusal(f"{place} which is no collection of elements. Use HashIndex.")
            if are_sure is False:
                raise self._refusal(f"{place} whose elements have no hash. {self._way_out()}")
            return is_sure is True and are_sure is True
        if self.kind == "column" and not are_columnar(members):
            raise self._refusal(
                f"{place} and a column has ints, floats and bools, or dates, or datetimes."
                " Use SortedIndex."
            )
        return True

    def _way_out(self, members: Iterable[Any] = (str,)) -> str:
        """Return what to do about values without a hash."""
        if self.kind != "set" and are_collections([*members]):
            return "Use SetIndex, which has an entry for each element."
        return "Make a text, a number or a tuple of it with key=, or use SortedIndex."

    def _slow_check(self, record: Any) -> tuple[Any, ...]:
        """Return the keys of a record, which may be anything.

        Raises:
            IndexKeyError: They can't be made, or can't be keys.
        """
        try:
            keys = self.keys_of(record)
            for key in keys:
                hash(key)
        except Exception as error:
            pass_on(error, IndexKeyError)
            raise self._key_error(
                f"can't hold its key, which has no hash ({type(error).__qualname__})."
                f" {self._way_out()}"
            ) from error
        return keys

    def _key_error(self, message: str) -> IndexKeyError:
        return IndexKeyError(
            f"the index {self.name!r} {message}", collection=self.collection, index=self.name
        )

    def _call(self, record: Any) -> Any:
        """Call the function of the user's."""
        function = self.declaration.key
        assert function is not None
        try:
            return function(record)
        except Exception as error:
            pass_on(error)
            raise self._function_error(error) from error

    def value_of(self, record: Any) -> Any:
        """Return what the function makes of a record, for queries: elements as a collection.

        Raises:
            IndexKeyError: It raises.
        """
        value = self._call(record)
        if self.kind != "set" or hasattr(value, "__len__") or not isinstance(value, Iterable):
            return value
        try:
            return tuple(value)
        except Exception as error:
            pass_on(error)
            raise self._function_error(error) from error

    def _function_error(self, error: Exception) -> IndexKeyError:
        return self._key_error(
            f"can't make a key, as its function raised {type(error).__qualname__}. Let it"
            " return None for a record that has no key."
        )

    def _elements_of(self, value: Any) -> tuple[Any, ...]:
        """Return the different elements of a value of any kind."""
        if value is None or value is ABSENT:
            return ()
        # What has no length may have no end; a function's result is made for this.
        is_sized = hasattr(value, "__len__") or self.needs_copy
        if isinstance(value, NO_COLLECTIONS) or not is_sized or not isinstance(value, Iterable):
            raise self._key_error(
                f"has an entry for each element, and a value of type {type(value).__qualname__}"
                " is no collection of elements. Store a list, tuple, set or dict, or None."
            )
        return tuple(dict.fromkeys(value))

    def _refusal(self, message: str) -> ConfigError:
        return ConfigError(f"{self.collection}: the index {self.name!r}: {message}")
