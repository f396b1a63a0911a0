"""Functions at once in threads of their own, and what such tests share."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field


@dataclass
class Item:
    """A record of a thread."""

    thread: int
    n: int
    tags: list[str] = field(default_factory=list)
    id: int = 0


@contextlib.contextmanager
def switching_often(interval_s: float = 5e-6) -> Iterator[None]:
    """Let threads take turns a thousand times as often, so that races are met."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(interval_s)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def run_all(*works: Callable[[], object], timeout_s: float = 60) -> None:
    """Run functions in a thread each, from one moment on; raise the first error of any.

    One that has not ended after the time that each may take is a deadlock.
    """
    errors: list[BaseException] = []
    barrier = threading.Barrier(len(works))

    def run(work: Callable[[], object]) -> None:
        barrier.wait()
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout_s)
    if errors:
        raise errors[0]
    assert not any(thread.is_alive() for thread in threads), "a deadlock"


def until(is_over: threading.Event, work: Callable[[], object]) -> Callable[[], None]:
    """Return a function that repeats `work` until the event, at least once."""

    def repeat() -> None:
        while True:
            work()
            if is_over.is_set():
                return

    return repeat


def and_then(is_over: threading.Event, work: Callable[[], object]) -> Callable[[], None]:
    """Return a function that does `work` and sets the event, whatever happens."""

    def run() -> None:
        try:
            work()
        finally:
            is_over.set()

    return run
