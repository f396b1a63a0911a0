"""Plans: generated functions for the shapes of queries, kept by shape, and how they are run.

A plan answers from the cache and the indexes as of one commit, without a lock; or it says that it
can't (None), and then indexes are caught up and it is asked again, or the general way answers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from memdb.query._candidates import names_of
from memdb.query._choice import every_way
from memdb.query._conditions import ALWAYS, Expression, conjuncts, has_callback
from memdb.query._fields import Field
from memdb.query._parameters import parameters
from memdb.query._plan_source import PlanWriter, Shape, What
from memdb.query._runtime import Misfit
from memdb.query._seeds import Operands, is_usable, not_dominated, places_of, seeds_of
from memdb.query._structure import constants, structure
from memdb.query._values import Order

if TYPE_CHECKING:
    from memdb._index_set import View
    from memdb._store import Store

Lines = list[Any]


class OfView(Protocol):
    """A plan of any kind, as of one view."""

    @property
    def view(self) -> View:
        """What it looks at, of the collection that keeps it."""


P = TypeVar("P", bound=OfView)

# Plans that one collection keeps; they are forgotten all at once when there are more.
MOST_PLANS: Final = 1024

# How often a plan is asked again after somebody has committed meanwhile.
ATTEMPTS: Final = 3

# Further than any number of records.
ENDLESS: Final = 2**62


@dataclass(frozen=True, slots=True)
class Plan:
    """A generated function and what it was made for.

    Attributes:
        run: Takes constants, parameters, ``start`` and ``stop``; None where the general way is
            the only one.
        writer: What wrote it.
        lines: What it wrote.
        constants: Those of the query that it was made for.
        parameters: Names of those that `run` takes, in order.
        view: What it looks at.
        indexes: Names of those that it uses.
        source: Its source.
    """

    run: Callable[..., Any] | None
    writer: PlanWriter | None
    lines: Lines
    constants: list[Any]
    parameters: tuple[str, ...]
    view: View
    indexes: tuple[str, ...]
    source: str


def answer(
    store: Store,
    expression: Expression | None,
    order: Sequence[Order],
    what: What,
    start: int = 0,
    stop: int | None = None,
) -> Any:
    """Return the shared records that match, in order, or their number, by a generated function.

    Args:
        store: The collection.
        expression: The condition, without parameters; None for all records.
        order: The terms.
        what: ``"rows"`` or ``"count"``.
        start, stop: The part that is wanted; no stop for all.

    Returns:
        None where only the general way can answer.

    Raises:
        QueryError: A field does not exist, or can't be compared with a constant.
    """
    if store.cache_limit is not None:
        return None
    if expression is None:
        expression = ALWAYS
    has_window = stop is not None
    key: tuple[Any, ...] = (structure(expression), what, has_window)
    if order:
        key += tuple([structure(term) for term in order])
    if store.indexes.partials:
        # Whether a partial index can be used, and for which parts, depends on constants.
        parts = conjuncts(expression)
        key += tuple(
            [
                (each.name, places_of(each, parts))
                for each in store.indexes.partials
                if is_usable(each, parts)
            ]
        )
    values = constants(expression)
    if order:
        values = [*values, *[each for term in order for each in constants(term)]]
    for _ in range(ATTEMPTS):
        plan = store.indexes.plans.get(key)
        if plan is None or not plan.view.is_valid:
            shape = Shape(expression, tuple(order), what, has_window)
            plan = keep_plan(store, key, make_plan(store, shape))
        if plan.run is None:
            return None
        found = plan.run(*values, start, stop)
        if found is not None or not try_again(store, plan):
            return found
    return None


def keep_plan(store: Store, key: object, plan: P) -> P:
    """Keep a plan for its shape, unless the indexes have changed since it was made."""
    plans = store.indexes.plans
    if len(plans) >= MOST_PLANS:
        plans.clear()
    if plan.view.is_valid:
        plans[key] = plan
    return plan


def try_again(store: Store, plan: Plan) -> bool:
    """Catch the indexes up after a plan gave no answer; whether another attempt makes sense.

    Raises:
        ClosedError: The database is closed.
    """
    log = store.engine.log
    log.raise_if_closed()
    if store.engine.current() is not None:
        return False
    if plan.view.is_valid and plan.view.cursor == store.horizon.slot:
        # Not for what somebody has committed: a record has to be read, or an operand is unusual.
        return False
    store.indexes.catch_up(plan.indexes)
    return True


def make_plan(
    store: Store,
    shape: Shape,
    *,
    has_parameters: bool = False,
    is_bounded: bool = False,
) -> Plan:
    """Return the plan for a shape, with its indexes built.

    Args:
        store: The collection.
        shape: The query.
        has_parameters: The caller gives them.
        is_bounded: The cache does not hold every record, so that only the general way can answer.

    Raises:
        QueryError: As `answer`.
    """
    indexes = tuple(dict.fromkeys([*_useful(store, shape), *_ordering(store, shape)]))
    view = store.indexes.catch_up(indexes)
    none = Plan(None, None, [], [], (), view, indexes, "")
    if is_bounded or has_callback(shape.expression) or (_parameters(shape) and not has_parameters):
        return none
    writer = PlanWriter(store, view, shape)
    try:
        lines = writer.write()
    except Misfit:
        return none
    values = list(constants(shape.expression))
    for term in shape.order:
        values += constants(term)
    names = {f"c{number}": None for number in range(writer.constants)}
    taken = tuple(_parameters(shape))
    names |= {f"p_{name}": None for name in taken}
    source = function_source(writer, lines, [*names, "start", "stop"])
    run = compiled(source, "run", writer.names, store.name)
    return Plan(run, writer, lines, values, taken, view, indexes, source)


def _parameters(shape: Shape) -> dict[str, bool]:
    return parameters(shape.expression, *[term.value for term in shape.order])


def _ordering(store: Store, shape: Shape) -> list[str]:
    """Return the names of the indexes that may give the order of all records."""
    paths = [term.value._path for term in shape.order if isinstance(term.value, Field)]
    if store.key is not None or not paths or len(paths) < len(shape.order):
        return []
    return [
        index.name
        for index in store.indexes
        if index.kind == "sorted" and index.condition is None and index.asked == tuple(paths)
    ]


def _useful(store: Store, shape: Shape) -> list[str]:
    """Return the names of the indexes that a query may be answered with."""
    operands = Operands(shape.expression)
    names: list[str] = []
    for parts in every_way(conjuncts(shape.expression)):
        seeds = seeds_of(parts, store.indexes, operands)
        # One that is never smaller than another may still give the order.
        names += names_of(seeds if shape.order else not_dominated(seeds))
    return names


def function_source(writer: PlanWriter, lines: Lines, arguments: list[str]) -> str:
    """Return the source of a function that gives what was found, None where it can't."""
    body: Lines = [
        *writer.prelude,
        *guarded(writer, lines, "return None"),
        "return found",
    ]
    return "\n".join([f"def run({', '.join(arguments)}):", *indented(body, 1)])


def guarded(writer: PlanWriter, lines: Lines, otherwise: str) -> Lines:
    """Return lines between two looks at the log: what they read is of one commit."""
    is_other = "horizon.slot != version"
    is_changed = "engine.transaction is not None and engine.current() is not None"
    # The horizon only rises and is never behind a cursor: the look afterwards would do for both.
    # The one before spares a loop whose result can't be given.
    before: Lines = [f"if {is_other} or {is_changed}:", [otherwise]]
    return [
        "version = view.cursor",
        *(before if writer.has_loop else []),
        "try:",
        lines,
        "except ESCAPES:",
        [otherwise],
        # The view too: a record that is not as its class says may have been read meanwhile.
        f"if {is_other} or view.cursor != version"
        + (":" if writer.has_loop else f" or {is_changed}:"),
        [otherwise],
    ]


def indented(lines: Lines, level: int) -> list[str]:
    """Return nested lines as text."""
    result: list[str] = []
    for line in lines:
        if isinstance(line, list):
            result += indented(line, level + 1)
        else:
            result.append("    " * level + line)
    return result


def compiled(source: str, name: str, names: dict[str, Any], collection: str) -> Any:
    """Run the source inside a function, so that what it needs are fast closure variables."""
    lines = [f"def make({', '.join(names)}):"]
    lines += ["    " + line for line in source.split("\n")]
    lines.append(f"    return {name}")
    scope: dict[str, Any] = {}
    exec(compile("\n".join(lines), f"<memdb query of {collection}>", "exec"), scope)
    return scope["make"](**names)
