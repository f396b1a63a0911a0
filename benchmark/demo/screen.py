"""What the demo shows: a progress bar on a terminal, plain lines anywhere else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

_EVERY = 2_000

_T = TypeVar("_T")


class Screen:
    """Prints steps and the summary, and remembers whether every check held."""

    def __init__(self) -> None:
        self._console = Console(highlight=False, soft_wrap=True)
        self._rows: list[tuple[str, str]] = []
        self.all_held = True

    def step(self, text: str) -> None:
        """Print a heading."""
        self._console.print(f"\n[bold]{text}[/bold]")

    def say(self, text: str) -> None:
        """Print a line as it is."""
        self._console.print("  " + text, markup=False)

    def check(self, text: str, holds: bool) -> None:
        """Print what was checked; a check that fails makes the demo fail."""
        self.all_held &= holds
        self.say(("ok      " if holds else "FAILED  ") + text)

    def add(self, name: str, value: str) -> None:
        """Add a row to the summary."""
        self._rows.append((name, value))

    def summary(self) -> None:
        """Print the summary."""
        table = Table(title="Summary", title_justify="left", show_header=False)
        table.add_column()
        table.add_column(justify="right")
        for row in self._rows:
            table.add_row(*row)
        self._console.print()
        self._console.print(table)

    @contextmanager
    def progress(self, text: str, total: int) -> Iterator[Callable[[int], None]]:
        """Show progress; call what it gives with the number done so far."""
        columns = (TextColumn("  {task.description}"), BarColumn(), MofNCompleteColumn())
        shown = self._console.is_terminal
        begin = perf_counter()
        with Progress(
            *columns, TimeElapsedColumn(), console=self._console, disable=not shown, transient=True
        ) as bar:
            task = bar.add_task(text, total=total)
            yield lambda done: bar.update(task, completed=done)
        self.say(f"{text}: {total:,} in {perf_counter() - begin:.2f} s")

    def follow(self, text: str, values: Iterable[_T], total: int) -> Iterator[_T]:
        """Yield the values and show how far they are."""
        with self.progress(text, total) as show:
            for number, value in enumerate(values, 1):
                yield value
                if not number % _EVERY:
                    show(number)
