"""Fit: whether a value is what an annotation means, and which part of a union it is."""

from __future__ import annotations

import enum
import typing
from collections.abc import Callable, Iterable
from typing import Any, Literal

from memdb.serializers._shape import is_typed_dict, is_union, strip
from memdb.serializers._writer import NamedDict, WorldRecord, is_of_world

#: Stands for the part of an annotation that a value fits, where it fits none.
MISFIT = object()

_CONTAINERS = (list, tuple, set, frozenset, dict)
# What `isinstance` takes for these is too much: a bool is no int here, a datetime no date.
_EXACT = frozenset({bool, int, str, bytes, *_CONTAINERS})


class Fit(enum.IntEnum):
    """How well a value fits: what ``OPEN`` says nothing of, and in ``ROUGH`` only the outside."""

    NOT = 0
    OPEN = 1
    ROUGH = 2
    LOOSE = 3
    EXACT = 4


#: From the name of a stored class to the class of now, None if there is none.
Named = Callable[[str], Any]


def _nobody(name: str) -> Any:
    return None


def alternative(value: Any, annotation: Any) -> Any:
    """Return the annotation, or that part of a union, that a value fits; or ``MISFIT``."""
    annotation = strip(annotation)
    if not is_union(annotation):
        fit = _outer_fit(value, annotation, _nobody)
        return (MISFIT, Any)[fit] if fit <= Fit.OPEN else annotation
    parts = [strip(part) for part in typing.get_args(annotation)]
    best = by_fit(value, parts, _nobody)[0]
    return alternative(value, best)


def by_fit(value: Any, annotations: Iterable[Any], named: Named) -> list[Any]:
    """Return annotations, that which a value fits best first."""
    return sorted(annotations, key=lambda annotation: -fit_of(value, annotation, named))


def fit_of(value: Any, annotation: Any, named: Named) -> Fit:
    """Return how well a value fits an annotation, all the way down.

    Args:
        value: A value of this program, or of a writer's world.
        annotation: The annotation.
        named: What stored classes are called now, where the annotation is of now.
    """
    annotation = strip(annotation)
    if is_union(annotation):
        return max(fit_of(value, part, named) for part in typing.get_args(annotation))
    fit = _outer_fit(value, annotation, named)
    if fit < Fit.LOOSE or type(value) not in _CONTAINERS:
        return fit
    inner = [fit_of(item, part, named) for item, part in _parts(value, annotation)]
    # What an annotation leaves open fits, and not as well as what it names.
    worst = min((Fit.LOOSE if one is Fit.OPEN else one for one in inner), default=fit)
    return Fit.ROUGH if worst < Fit.LOOSE else min(fit, worst)


def _parts(value: Any, annotation: Any) -> Iterable[tuple[Any, Any]]:
    """Return what a container holds, each with its annotation."""
    if type(value) is not dict:
        annotations = item_annotations(annotation, len(value))
        # Another number of items: none that nothing fits.
        return zip(value, annotations, strict=True) if annotations is not None else [(value, None)]
    keys, items = typing.get_args(annotation) or (Any, Any)
    return [*((key, keys) for key in value), *((item, items) for item in value.values())]


def item_annotations(annotation: Any, length: int) -> list[Any] | None:
    """Return an annotation for each item; None if there must be another number of them."""
    arguments = typing.get_args(annotation)
    if (typing.get_origin(annotation) or annotation) is tuple:
        if annotation is tuple:
            return [Any] * length
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return [arguments[0]] * length
        return list(arguments) if len(arguments) == length else None
    return [arguments[0] if arguments else Any] * length


def _outer_fit(value: Any, annotation: Any, named: Named) -> Fit:
    """Return how well a value fits an annotation that is no union, by its own type."""
    origin = typing.get_origin(annotation)
    if annotation is None or annotation is type(None):
        return Fit.EXACT if value is None else Fit.NOT
    if origin is Literal:
        arguments = typing.get_args(annotation)
        fits = any(type(a) is type(value) and a == value for a in arguments)
        return Fit.EXACT if fits else Fit.NOT
    target = origin or annotation
    if is_open(target):
        return Fit.OPEN
    if is_one(value, target, is_strict=True):
        return Fit.EXACT
    if is_one(value, target, is_strict=False):
        return Fit.LOOSE
    now = named(class_name(value))
    return Fit.EXACT if isinstance(now, type) and issubclass(now, target) else Fit.NOT


def is_open(target: Any) -> bool:
    """Whether what is left of an annotation without its arguments says nothing."""
    return target is Any or target is object or not isinstance(target, type)


def is_one(value: Any, target: type, *, is_strict: bool) -> bool:
    """Whether a value is of a class, as annotations are meant.

    Unless ``is_strict``, an int is meant by float too, and both are by complex.
    """
    cls = type(value)
    if cls is target:
        return True
    if target is float:
        return cls is int and not is_strict
    if target is complex:
        return cls in (int, float) and not is_strict
    if target is dict:
        return cls is NamedDict and not is_strict
    if is_of_world(cls):
        return isinstance(value, target) and is_of_world(target)
    if target in _EXACT or target.__module__ == "datetime":
        return False
    if is_typed_dict(target):
        return cls is dict
    return isinstance(value, target)


def class_name(value: Any) -> str:
    """Return the name that the file gives the class of a value; empty for any other value."""
    if isinstance(value, NamedDict):
        return value.class_name
    cls = type(value)
    is_stored = isinstance(value, WorldRecord | enum.Enum) and is_of_world(cls)
    return cls.__qualname__ if is_stored else ""
