"""The errors: one family, each also the builtin that a caller would expect."""

from __future__ import annotations

import builtins
import inspect
import re

import pytest

from memdb import errors
from memdb.errors import MemdbError

CLASSES = {
    name: cls
    for name, cls in vars(errors).items()
    if inspect.isclass(cls) and issubclass(cls, Exception) and cls.__module__ == errors.__name__
}

_EXTRA = {
    "UnsupportedFormatError": {"found": 9, "supported": 1},
}


def _tree() -> dict[str, tuple[str, str | None]]:
    """Return for each class in the docstring's tree its parent there and its builtin."""
    found: dict[str, tuple[str, str | None]] = {}
    above: list[tuple[int, str]] = []
    for line in (errors.__doc__ or "").splitlines():
        match = re.match(r"    (?P<lead>[| ]*)\+-- (?P<name>\w+)(?: \((?P<builtin>\w+)\))?", line)
        if match is None:
            continue
        indent = len(match["lead"])
        above = [(depth, name) for depth, name in above if depth < indent]
        if match["name"].endswith("Error"):
            parent = above[-1][1] if above else "MemdbError"
            found[match["name"]] = parent, match["builtin"]
            above.append((indent, match["name"]))
    return found


def _make(name: str) -> MemdbError:
    """Return an error of the class with a message."""
    error = CLASSES[name]("people.memdb: this went wrong.", **_EXTRA.get(name, {}))
    assert isinstance(error, MemdbError)
    return error


def test_tree_has_every_class() -> None:
    """The tree in the docstring names exactly the classes of the module."""

    assert set(CLASSES) - {"MemdbError"} == set(_tree())


@pytest.mark.parametrize("name", sorted(_tree()))
def test_parents(name: str) -> None:
    """Each class derives from MemdbError, from its parent in the tree and from its builtin."""
    parent, builtin = _tree()[name]
    cls = CLASSES[name]

    assert issubclass(cls, MemdbError)
    assert issubclass(cls, CLASSES[parent])
    if builtin is not None:
        assert issubclass(cls, getattr(builtins, builtin))


@pytest.mark.parametrize("name", sorted(_tree()))
def test_has_a_builtin(name: str) -> None:
    """A program that has never heard of memdb can catch each error as a builtin one."""
    others = [base for base in CLASSES[name].__mro__ if base.__module__ == "builtins"]

    assert set(others) - {Exception, BaseException, object}


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_text_is_the_message(name: str) -> None:
    """Showing an error gives its message as it was written, without quotes or number."""

    assert str(_make(name)) == "people.memdb: this went wrong."


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_has_docstring(name: str) -> None:
    """Each class says in one sentence when it is raised."""
    first = (CLASSES[name].__doc__ or "").splitlines()[0]

    assert first.endswith(".")


def test_attributes() -> None:
    """Errors carry their data as attributes."""
    locked = errors.LockedError("locked", path="a.memdb", holder="pid 12 on host")
    newer = errors.UnsupportedFormatError("newer", path="a.memdb", found=9, supported=1)
    damage = errors.DamageError("damage", path="a.memdb", offset=4096)
    absent = errors.RecordNotFoundError("absent", collection="people", identity=7)
    twice = errors.DuplicateIdentityError("twice", collection="people", identity=7)
    encode = errors.EncodeError("encode", field="address.lines[2]")
    decode = errors.DecodeError("decode", field="address.lines[2]")

    assert (locked.path, locked.holder) == ("a.memdb", "pid 12 on host")
    assert (newer.path, newer.found, newer.supported) == ("a.memdb", 9, 1)
    assert (damage.path, damage.offset) == ("a.memdb", 4096)
    assert (absent.collection, absent.identity) == ("people", 7)
    assert (twice.collection, twice.identity) == ("people", 7)
    assert encode.field == decode.field == "address.lines[2]"


@pytest.mark.parametrize("cls", [errors.OpenError, errors.WriteError])
def test_errno(cls: type[errors.OpenError] | type[errors.WriteError]) -> None:
    """An error of the operating system keeps its number beside the message."""
    error = cls("The disk is full.", path="a.memdb", errno=28)

    assert (error.errno, error.path, str(error)) == (28, "a.memdb", "The disk is full.")
    assert cls("Something else.").errno is None
