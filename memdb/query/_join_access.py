"""How the right side of a join is looked up: what generated code does and `explain` shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from memdb.query._fields import Field
from memdb.query._join import Join

if TYPE_CHECKING:
    from memdb._bound_index import BoundIndex

# By the number that is the identity, or the natural key; by the kind of an index; or by a table of
# all records, made for the one query.
Way = Literal["number", "key", "unique", "hash", "set", "sorted", "table"]


@dataclass(frozen=True, slots=True)
class Access:
    """How one join finds what belongs to a row.

    Attributes:
        way: How.
        index: Which index; None where it needs none or there is none.
    """

    way: Way
    index: BoundIndex | None = None


def access_of(join: Join, left: Any) -> Access:
    """Return how a join is looked up, with the indexes that there are now.

    Args:
        join: The join.
        left: The collection of the record on the left.
    """
    store: Any = join.store
    if join.match is None:
        return Access("number" if store.key is None else "key")
    if isinstance(join.match, Field):
        for kind in _KINDS[join.form]:
            # A natural key may be a tuple, which such an index has the parts of.
            if kind == "set" and join.form == "either" and left.key is not None:
                continue
            for index in store.indexes:
                is_whole = index.declaration.where is None and index.kind == kind
                if is_whole and index.asked == (join.match._path,):
                    return Access(kind, index)
    return Access("table")


_KINDS: Final[dict[str, tuple[Way, ...]]] = {
    "equal": ("unique", "hash", "sorted"),
    "elements": ("set",),
    # A hash index refuses lists and sets, so that all of its values are single ones. A set index
    # has only collections, tuples among them, which are looked at.
    "either": ("unique", "hash", "set"),
}


def suggestion(join: Join) -> str:
    """Return the declaration of the index that a join without one would need."""
    name = join.match._path[0] if isinstance(join.match, Field) else None
    if not isinstance(join.match, Field) or len(join.match._path) > 1:
        text = ".".join(map(str, join.match._path)) if isinstance(join.match, Field) else None
        if text is None:
            return f"an index of a function that gives {join.match!r}"
        name = text
    kind = "SetIndex" if join.form == "elements" else "HashIndex"
    return f'memdb.{kind}("{name}")'
