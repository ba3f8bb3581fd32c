"""A sign of life on standard error: lines while a command runs, a bar while one waits."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import wraps
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from tidegate.cli.output import error_console, is_terminal, write_error
from tidegate.monitoring.visible import visible

if TYPE_CHECKING:
    import typer
    from rich import console, progress

    from tidegate.events import Event

T = TypeVar("T")
WITHOUT_PROGRESS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "run": "a service: it logs",
        "monitor": "a service: it logs",
        "bridge metastore": "a service: it logs",
        "bridge hudi": "a service: it logs",
        "broker": "a service: it says when it is ready",
        "demo": "a story with its own output",
    }
)
"""Commands that do not say that they are under way, and why."""
FIRST_SECONDS: Final = 2.0


def add_progress(app: typer.Typer, path: str = "") -> None:
    """Let every command below say after 2, 4, 8, ... seconds that it is under way.

    Only to a person: nothing if standard error is not a terminal, the output is JSON, or the
    command waits for new events (--follow).
    """
    for info in app.registered_commands:
        name = f"{path}{info.name or getattr(info.callback, '__name__', '').replace('_', '-')}"
        if info.callback is not None and name not in WITHOUT_PROGRESS:
            info.callback = _with_progress(info.callback, name)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            add_progress(group.typer_instance, f"{path}{group.name} ")


SHOWS_PROGRESS: Final = "shows_progress"
"""The attribute of a command's function, by which tests see that it says so."""


def _with_progress(command: Callable[..., T], name: str) -> Callable[..., T]:
    @wraps(command)
    def call(*args: Any, **values: Any) -> T:  # noqa: ANN401 - typer passes what it has parsed
        if values.get("as_json") or values.get("follow") or not is_terminal(error=True):
            return command(*args, **values)
        done = threading.Event()
        arguments = (f"{name} is under way", done.wait)
        thread = threading.Thread(target=say_until, args=arguments, daemon=True)
        thread.start()
        try:
            return command(*args, **values)
        finally:
            done.set()
            thread.join()

    setattr(call, SHOWS_PROGRESS, True)
    return call


def say_until(what: str, wait: Callable[[float], bool]) -> None:
    """Print a line after 2, 4, 8, ... seconds, until `wait` returns true."""
    took, pause = 0.0, FIRST_SECONDS
    while not wait(pause):
        took += pause
        write_error(f"{what}, {took:.0f} s ...")
        pause = took


def share_of(event: Event | None) -> tuple[int, int, str] | None:
    """How far the work is that an outcome is about: done, total, of what; None if it is unknown."""
    from tidegate.events import CleaningProgressed, RestoreProgressed, RestoreStarted  # noqa: PLC0415

    match event:
        case RestoreStarted():
            return (0, event.files, "files")
        case RestoreProgressed():
            return (event.files_done, event.files_total, "files")
        case CleaningProgressed():
            return (event.directories_done, event.directories_total, "directories")
        case _:
            return None


class OutcomeBar(AbstractContextManager["OutcomeBar"]):
    """A bar on standard error while a request is waited for; nothing where it is not a terminal."""

    def __init__(self, on: console.Console | None = None, *, wanted: bool = True) -> None:
        """Draw nothing yet; `on` is standard error unless a test gives another."""
        self._console, self._wanted = on, wanted
        self._progress: progress.Progress | None = None
        self._task: progress.TaskID | None = None

    def __enter__(self) -> Self:
        """Nothing is drawn before the first outcome that says how far it is."""
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the bar."""
        self.remove()

    def take(self, event: Event | None) -> bool:
        """Draw how far the work is; False where that is not drawn, and a line is to be printed."""
        share = share_of(event)
        if event is None or share is None or not self._wanted or not self._is_terminal():
            return False
        drawing, task = self._bar(event.table)
        done, total, of = share
        drawing.update(task, completed=done, total=total, of=of)
        return done > 0  # the first one says more than a bar can

    def remove(self) -> None:
        """Remove the bar, so that a line can be printed where it was."""
        if self._progress is not None:
            self._progress.stop()
        self._progress = self._task = None

    def _is_terminal(self) -> bool:
        return is_terminal(error=True) if self._console is None else self._console.is_terminal

    def _bar(self, table: str) -> tuple[progress.Progress, progress.TaskID]:
        if self._progress is None or self._task is None:
            from rich import progress as bars  # noqa: PLC0415
            from rich.markup import escape  # noqa: PLC0415 - heavy

            self._progress = bars.Progress(
                bars.TextColumn("{task.description}"),
                bars.BarColumn(),
                bars.TaskProgressColumn(),
                bars.MofNCompleteColumn(),
                bars.TextColumn("{task.fields[of]}"),
                bars.TimeElapsedColumn(),
                console=self._console or error_console(),
                transient=True,
            )
            self._task = self._progress.add_task(escape(visible(table)), total=None, of="")
            self._progress.start()
        return self._progress, self._task
