"""Rows: what a joined query gives, one value for each slot, by name and by place.

A class is made for each set of slots. It is a `msgspec.Struct` for speed: making one costs 10 ns
more than a tuple, where a named tuple costs 120,
and its attributes are read in a third of the time.
"""

from __future__ import annotations

import keyword
from collections.abc import Iterator
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, TypeVarTuple
from weakref import WeakValueDictionary

import msgspec

Ts = TypeVarTuple("Ts")

if TYPE_CHECKING:

    class Row(tuple[*Ts]):
        """What type checkers know of a row: the types of its slots, by place."""

        def __getattr__(self, name: str) -> Any: ...

else:

    class Row(msgspec.Struct, frozen=True, gc=False):
        """What a joined query found together: a record, and what belongs to it.

        Its slots have names, as ``row.customer``, and places, as in ``order, customer = row``;
        `JoinedQuery` says what they are called. It can't be changed. Rows are equal if they have
        the same slots and what is in them is equal.

        Rows are kept out of the cyclic garbage collector: a record that is made to refer to the
        row it is in, is never freed.
        """

        def __iter__(self) -> Iterator[Any]:
            """Iterate over the slots in order."""
            return iter(msgspec.structs.astuple(self))

        def __len__(self) -> int:
            """Return the number of slots."""
            return len(self.__struct_fields__)

        def __getitem__(self, place: int | slice) -> Any:
            """Return the slot at a place."""
            return msgspec.structs.astuple(self)[place]

        def __reduce__(self) -> Any:
            return _restored, (self.__struct_fields__, msgspec.structs.astuple(self))


# While there are rows of a class there is no other of its slots: else they would not be equal.
_classes: Final[WeakValueDictionary[tuple[str, ...], Any]] = WeakValueDictionary()
_lock: Final = Lock()


# The latest are kept: making one takes 0.3 ms.
@lru_cache(maxsize=256)
def row_class(names: tuple[str, ...]) -> Any:
    """Return the class of rows with these slots, whose names are checked by `is_slot_name`."""
    with _lock:
        found = _classes.get(names)
        if found is None:
            found = _classes[names] = msgspec.defstruct(
                "Row", names, bases=(Row,), frozen=True, gc=False, module=__name__
            )
        return found


def is_slot_name(name: object) -> bool:
    """Whether a slot can be called so."""
    return (
        isinstance(name, str)
        and name.isidentifier()
        and not name.startswith("_")
        and not keyword.iskeyword(name)
    )


def _restored(names: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    """Return a row that was pickled or copied."""
    return row_class(names)(*values)
