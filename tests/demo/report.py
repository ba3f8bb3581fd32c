"""The demo's output on the terminal: each step with its duration, and checks that can fail."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table

from tidegate.errors import TidegateError


class _CheckFailed(TidegateError):  # noqa: N818 - named for what happened, like a test's failure
    """A check of the demo failed. The demo stops and exits with 1."""


@dataclass(slots=True)
class DemoReport:
    """Prints what happens."""

    console: Console = field(default_factory=Console)
    _durations: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])

    def heading(self, title: str) -> None:
        """Print a heading."""
        self.console.rule(f"[bold]{title}", align="left")

    @contextmanager
    def step(self, sentence: str) -> Generator[None]:
        """Print a step: a spinner while it runs, its duration at the end."""
        started = time.monotonic()
        with self.console.status(sentence):
            yield
        seconds = time.monotonic() - started
        self._durations.append((sentence, seconds))
        self.console.print(f"[green]✓[/] {sentence} [dim]{seconds:.1f} s[/]", highlight=False)

    def detail(self, sentence: str) -> None:
        """Print a detail of the last step."""
        self.console.print(f"  {sentence}", highlight=False)

    def check(self, expectation: str, *, met: bool, found: object = "") -> None:
        """Print that an expectation is met.

        Args:
            expectation: What is expected, as a statement.
            met: Whether it is so.
            found: What there is instead, for the error.

        Raises:
            _CheckFailed: the expectation is not met.
        """
        if not met:
            raise _CheckFailed(f"expected: {expectation}; found: {found or 'the opposite'}")
        self.console.print(f"  [green]checked:[/] {expectation}", highlight=False)

    def durations(self) -> None:
        """Print a table of all steps with their durations."""
        table = Table(title="Duration of each step", show_footer=True, title_justify="left")
        total = sum(seconds for _, seconds in self._durations)
        table.add_column("step", footer="total")
        table.add_column("seconds", justify="right", footer=f"{total:.1f}")
        for sentence, seconds in self._durations:
            table.add_row(sentence, f"{seconds:.1f}")
        self.console.print(table)
