"""Program texts as contenders: checked once, then timed many times a round."""

from __future__ import annotations

import gc
import timeit
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

# Who takes part; a contender is named after its shape and one of these.
LOOP, PREPARED, AD_HOC, REVERSED, SQLITE = (
    "loop",
    "memdb prepared",
    "memdb ad hoc",
    "memdb reversed",
    "sqlite3",
)

_TURN_NS = 4_000_000
_MOST_CALLS = 50_000


class Statement:
    """A program text that gives a result; no frame of ours is between it and the clock.

    Attributes:
        name: The shape, and who answers it.
        has_gc_rounds: As the runner wants it.
    """

    has_gc_rounds = False

    def __init__(self, name: str, text: str, names: dict[str, Any]) -> None:
        self.name = name
        self._text = text
        self._names = names
        self._calls = 0
        # Without the second statement timeit would hold the collector off.
        self._timer = timeit.Timer(text, "gc.enable()", globals=names | {"gc": gc})

    def answer(self) -> Any:
        """Return the result."""
        return eval(self._text, dict(self._names))

    def round(self, workload: str) -> tuple[int, int]:
        """Run it for some milliseconds."""
        # Not counted: it finds in the processor's caches what another contender left there.
        self._timer.timeit(1)
        if not self._calls:
            begin = perf_counter_ns()
            self._timer.timeit(1)
            once = max(perf_counter_ns() - begin, 1)
            self._calls = min(max(_TURN_NS // once, 1), _MOST_CALLS)
        return round(self._timer.timeit(self._calls) * 1e9), self._calls


def freeze_heap() -> None:
    """Take all that lives now from the collector; the turns' own garbage stays its work."""
    gc.collect()
    gc.freeze()


def call_text(arguments: dict[str, Any], *, by_keyword: bool) -> str:
    """Return the text that calls ``ask`` with the arguments."""
    if by_keyword:
        return f"ask({', '.join(f'{name}={value!r}' for name, value in arguments.items())})"
    return f"ask({', '.join(map(repr, arguments.values()))})"


def copying(ask: Callable[..., list[Any]], copy: Callable[[Any], Any]) -> Callable[..., list[Any]]:
    """Return ``ask`` with a copy of every row of its result."""

    def asked(*arguments: Any) -> list[Any]:
        return list(map(copy, ask(*arguments)))

    return asked
