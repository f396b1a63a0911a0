"""Registry: serializers by name, by dotted path, or as they are."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable
from typing import Any

from memdb.errors import ConfigError
from memdb.serializers._binary import BinarySerializer
from memdb.serializers._json import JsonSerializer
from memdb.serializers._msgpack import MsgpackSerializer
from memdb.serializers._pickle import PickleSerializer
from memdb.serializers._protocol import Serializer

_factories: dict[str, Callable[[], Serializer]] = {
    "binary": BinarySerializer,
    "json": JsonSerializer,
    "msgpack": MsgpackSerializer,
    "pickle": PickleSerializer,
}

# Reading with them runs nothing that a file could choose.
_harmless = {"binary", "json", "msgpack"}


def is_harmless(name: str) -> bool:
    """Whether a file may ask for this serializer without the program having named it.

    So for all but pickle and dotted paths; what the program has registered, it has named.
    """
    return name in _harmless


def register(name: str, factory: Callable[[], Serializer]) -> None:
    """Make a serializer available by a short name in this process.

    A program that reads the file must register the same name first; a dotted path needs no such
    care.

    Args:
        name: The name for ``serializer=``; no colon.
        factory: Called without arguments, gives the serializer, whose ``name`` must be this one.

    Raises:
        ConfigError: The name is taken by another factory, or has a colon.
    """
    if not name or ":" in name:
        raise ConfigError(f"{name!r} can't be a serializer's short name. Use a name without colon.")
    if _factories.setdefault(name, factory) is not factory:
        raise ConfigError(f"a serializer {name!r} is registered already. Choose another name.")
    if name != "pickle":
        _harmless.add(name)


def get_serializer(spec: str | Serializer) -> Serializer:
    """Return the serializer that a setting means.

    Args:
        spec: "binary", "json", "msgpack", "pickle", a registered name,
            "package.module:factory", or a serializer.

    Raises:
        ConfigError: There is none of this name, or what was found is no serializer.

    >>> get_serializer("json").name
    'json'
    """
    if not isinstance(spec, str):
        return _checked(spec, repr(spec))
    factory = _factories.get(spec) or (_load(spec) if ":" in spec else None)
    if factory is None:
        near = difflib.get_close_matches(spec.lower(), _factories, 1, 0.5)
        hint = f"Did you mean {near[0]!r}?" if near else f"Use one of {sorted(_factories)}"
        end = "" if near else ', or "package.module:factory".'
        raise ConfigError(f"there is no serializer {spec!r}. {hint}{end}")
    serializer = _checked(factory(), spec)
    if serializer.name != spec:
        raise ConfigError(
            f"the serializer {spec!r} calls itself {serializer.name!r}, by which a file could not "
            f"find it again. Set its name to {spec!r}."
        )
    return serializer


def _load(path: str) -> Callable[[], Any]:
    """Import the factory of a dotted path, which the user's settings name."""
    module_name, _, attribute = path.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(
            f"the serializer {path!r} can't be imported: {error}. "
            "Check the path, which must be package.module:factory."
        ) from error
    if not callable(found):
        raise ConfigError(f"{path!r} is no factory. Name a callable that gives a serializer.")
    factory: Callable[[], Any] = found
    return factory


def _checked(serializer: Any, origin: str) -> Serializer:
    if isinstance(serializer, type) or not isinstance(serializer, Serializer):
        raise ConfigError(
            f"{origin} is no serializer: it must have a name and codec(shape, writer). "
            "See memdb.serializers.Serializer."
        )
    return serializer
