"""Enums by name: which classes are stored by the names of their members, and how."""

from __future__ import annotations

import enum
from typing import Any, TypeVar

EnumType = TypeVar("EnumType", bound=type[enum.Enum])

_MARK = "__memdb_by_name__"


def by_name(cls: EnumType) -> EnumType:
    """Store the members of an Enum class by their names, whatever the serializer.

    Without it they are stored by their values, so that a member can be renamed; with it a value
    can be changed and a name can't. For a class of one's own it is a decorator; otherwise it is to
    be called before a collection uses the class.

    Args:
        cls: The class. If it has no members it stands for all that are derived from it.

    Returns:
        The class itself.

    Raises:
        TypeError: It is no Enum class.

    >>> @by_name
    ... class Color(enum.Enum):
    ...     RED = 1
    """
    if not isinstance(cls, enum.EnumType):
        raise TypeError(f"by_name() takes an Enum class, not {cls!r}.")
    target: Any = cls
    setattr(target, _MARK, True)
    # Pickle asks the class; copy does not, as members are never copied.
    target.__reduce_ex__ = _reduce
    return cls


def is_by_name(cls: type) -> bool:
    """Whether the members of an Enum class are stored by their names."""
    return getattr(cls, _MARK, False) is True


def name_of(member: Any) -> str:
    """Return the name of a member, or the names of a combination of Flags joined by bars.

    Bits of a Flag that have no name are a number among the names.
    """
    cls = type(member)
    if not isinstance(member, enum.Flag) or cls.__members__.get(member._name_ or "") is member:
        return str(member._name_)
    rest = member._value_
    names = []
    for single in cls:
        if single._value_ & member._value_:
            names.append(str(single._name_))
            rest &= ~single._value_
    return "|".join([*names, *([str(rest)] if rest or not names else [])])


def member_of(cls: Any, name: str) -> Any:
    """Return the member that `name_of` has named.

    Raises:
        KeyError: There is none.
        ValueError: There is none of these bits.
    """
    if name in cls.__members__ or not issubclass(cls, enum.Flag):
        return cls.__members__[name]
    value = 0
    for part in name.split("|"):
        value |= int(part) if part.isdecimal() else cls.__members__[part]._value_
    return cls(value)


def _reduce(member: Any, protocol: Any) -> tuple[Any, ...]:
    return member_of, (type(member), name_of(member))
