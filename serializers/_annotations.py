"""Annotations: what the fields of a class are annotated with, resolved as far as they can be.

Names that exist only for type checkers are looked up in the module that the source imports them
from; the variables of generic classes are replaced by what they stand for.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import sys
import types
import typing
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from memdb.serializers._stack import pass_on


def annotations_of(cls: Any, arguments: tuple[Any, ...] = ()) -> dict[str, Any]:
    """Return the resolved annotations of a class, ``Annotated`` and all, by name.

    Args:
        cls: The class.
        arguments: What its type variables stand for, as in ``Box[int]``.

    Returns:
        ``Any`` for an annotation that can't be resolved; variables that nothing is given for stay.
    """
    try:
        found = typing.get_type_hints(cls, include_extras=True)
    except Exception as error:
        pass_on(error)
        # An annotation may name what exists only for type checkers, or only in a function.
        found = dict(_one_by_one(cls))
    variables = _variables(cls, arguments)
    if not variables:
        return found
    return {
        name: substitute(annotation, _variables_for(name, cls, variables))
        for name, annotation in found.items()
    }


def substitute(annotation: Any, variables: Mapping[Any, Any]) -> Any:
    """Return an annotation with what its type variables stand for in their place.

    >>> T = typing.TypeVar("T")
    >>> substitute(dict[str, list[T]], {T: int})
    dict[str, list[int]]
    """
    if isinstance(annotation, typing.TypeVar):
        return variables.get(annotation, annotation)
    parameters = getattr(annotation, "__parameters__", ())
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        return annotation
    if not parameters or not any(parameter in variables for parameter in parameters):
        return annotation
    try:
        return annotation[tuple(variables.get(p, p) for p in parameters)]
    except TypeError:
        return annotation


def _variables(cls: Any, arguments: tuple[Any, ...]) -> dict[Any, dict[Any, Any]]:
    """Return for the class and its bases what their type variables stand for."""
    found: dict[Any, dict[Any, Any]] = {}

    def visit(target: Any, given: tuple[Any, ...]) -> None:
        parameters = getattr(target, "__parameters__", ())
        if given and len(given) == len(parameters):
            found.setdefault(target, dict(zip(parameters, given, strict=True)))
        variables = found.get(target, {})
        written = vars(target).get("__orig_bases__", ())
        for base in (*written, *target.__bases__):
            origin = typing.get_origin(base) or base
            if isinstance(origin, type) and origin not in (typing.Generic, object):
                visit(origin, tuple(substitute(a, variables) for a in typing.get_args(base)))

    visit(cls, arguments)
    return found


def _variables_for(name: str, cls: Any, variables: dict[Any, dict[Any, Any]]) -> dict[Any, Any]:
    """Return what the variables stand for in the class that annotates a name."""
    for base in cls.__mro__:
        if base in variables and name in _own(base):
            return variables[base]
        if name in _own(base):
            return {}
    # The bases of a TypedDict are no bases at runtime.
    return {key: value for one in reversed(variables.values()) for key, value in one.items()}


def _own(cls: Any) -> Mapping[str, Any]:
    """Return the annotations that stand in the class itself, as they are written."""
    if typing.is_typeddict(cls):
        return {}
    try:
        return inspect.get_annotations(cls)
    except Exception:  # pragma: no cover - from Python 3.14 on, where they are evaluated late
        return {}


def _one_by_one(cls: type) -> Iterator[tuple[str, Any]]:
    for base in reversed(cls.__mro__):
        try:
            annotations = inspect.get_annotations(base)
        except Exception:  # pragma: no cover - from Python 3.14 on, where they are evaluated late
            continue
        module = sys.modules.get(base.__module__, types)
        scope = {**vars(module), base.__name__: base}
        parameters = {p.__name__: p for p in getattr(base, "__type_params__", ())}
        names = _Names({**parameters, **vars(base)}, scope, module)
        for name, annotation in annotations.items():
            if not isinstance(annotation, str):
                yield name, type(None) if annotation is None else annotation
                continue
            holder = type("_Holder", (), {"__annotations__": {name: annotation}})
            try:
                # What stands in the class comes first, then its module, then type checkers'.
                hints = typing.get_type_hints(holder, scope, names, include_extras=True)
                yield name, hints[name]
            except Exception as error:
                pass_on(error)
                yield name, Any


class _Names(dict[str, Any]):
    """The names of a class; others are imported from where the source has them from."""

    def __init__(self, own: Mapping[str, Any], scope: Mapping[str, Any], module: Any) -> None:
        super().__init__(own)
        self._scope = scope
        self._module = module

    def __missing__(self, name: str) -> Any:
        if name in self._scope or hasattr(builtins, name):
            raise KeyError(name)
        module_name, attribute = _imports_for_type_checkers(self._module)[name]
        found = importlib.import_module(module_name)
        if attribute is None:
            return found
        if not hasattr(found, attribute):
            return importlib.import_module(f"{module_name}.{attribute}")
        return getattr(found, attribute)


@lru_cache(maxsize=256)
def _imports_for_type_checkers(module: Any) -> dict[str, tuple[str, str | None]]:
    """Return module and attribute of the names that are imported under ``if TYPE_CHECKING``."""
    tree = ast.parse(inspect.getsource(module))
    found: dict[str, tuple[str, str | None]] = {}
    package = getattr(module, "__package__", None) or ""
    for statement in tree.body:
        if not isinstance(statement, ast.If) or not _is_type_checking(statement.test):
            continue
        for node in statement.body:
            if isinstance(node, ast.ImportFrom):
                parents = package.split(".")
                start = parents[: len(parents) - node.level + 1] if node.level else []
                source = ".".join([*start, *([node.module] if node.module else [])])
                for alias in node.names:
                    found[alias.asname or alias.name] = source, alias.name
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    # `import a.b` binds a.
                    name = alias.asname or alias.name.partition(".")[0]
                    found[name] = (alias.name if alias.asname else name), None
    return found


def _is_type_checking(test: ast.expr) -> bool:
    return "TYPE_CHECKING" in (getattr(test, "id", None), getattr(test, "attr", None))
