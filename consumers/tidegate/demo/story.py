"""Telling the demo: plain sentences, how long each step took, and a check that can fail."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table

from tidegate.errors import TidegateError


class BrokenPromise(TidegateError):  # noqa: N818 - that is what it is
    """A check of the demo does not hold. The demo stops and exits with 1."""


@dataclass(slots=True)
class Story:
    """Tells what happens on a terminal."""

    console: Console = field(default_factory=Console)
    _told: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])

    def act(self, title: str) -> None:
        """Begin a new act."""
        self.console.rule(f"[bold]{title}", align="left")

    @contextmanager
    def step(self, sentence: str) -> Generator[None]:
        """Tell a step, with a spinner while it lasts and its time at the end."""
        began = time.monotonic()
        with self.console.status(sentence):
            yield
        seconds = time.monotonic() - began
        self._told.append((sentence, seconds))
        self.console.print(f"[green]✓[/] {sentence} [dim]{seconds:.1f} s[/]", highlight=False)

    def say(self, sentence: str) -> None:
        """Tell something that needs no time."""
        self.console.print(f"  {sentence}", highlight=False)

    def check(self, promise: str, *, holds: bool, otherwise: object = "") -> None:
        """Check a promise.

        Raises:
            BrokenPromise: it does not hold.
        """
        if not holds:
            raise BrokenPromise(f"{promise}: no. {otherwise}")
        self.console.print(f"  [green]holds:[/] {promise}", highlight=False)

    def end(self) -> None:
        """Show how long each step took."""
        table = Table(title="Where the time went", show_footer=True, title_justify="left")
        total = sum(seconds for _, seconds in self._told)
        table.add_column("step", footer="in all")
        table.add_column("seconds", justify="right", footer=f"{total:.1f}")
        for sentence, seconds in self._told:
            table.add_row(sentence, f"{seconds:.1f}")
        self.console.print(table)
