"""A progress bar on a terminal, fed by the outcomes that say how far a restore or cleaning is."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from tidegate.cli.output import error_console, is_terminal
from tidegate.events import CleaningProgressed, Event, RestoreProgressed, RestoreStarted
from tidegate.monitoring.visible import visible

if TYPE_CHECKING:
    from rich import console
    from rich.progress import Progress, TaskID

_WIDTH: Final = 24
_FULL: Final = "█"
_EMPTY: Final = "░"


class Share(NamedTuple):
    """How much of some work is done, and of what."""

    done: int
    total: int
    of: str

    @property
    def percent(self) -> int:
        """In full percent; work of nothing is done."""
        return 100 * self.done // self.total if self.total else 100


def share_of(event: Event | None) -> Share | None:
    """How far the work is that an outcome is about; None for what does not say."""
    match event:
        case RestoreStarted():
            return Share(0, event.files, "files")
        case RestoreProgressed():
            return Share(event.files_done, event.files_total, "files")
        case CleaningProgressed():
            return Share(event.directories_done, event.directories_total, "directories")
        case _:
            return None


def drawn(share: Share, width: int = _WIDTH) -> str:
    """A bar as text, for a picture that is drawn again and again."""
    full = width * share.percent // 100
    return f"{_FULL * full}{_EMPTY * (width - full)} {share.percent} %"


class OutcomeBar(AbstractContextManager["OutcomeBar"]):
    """A bar on standard error while a request is waited for; nothing where it is not a terminal."""

    def __init__(self, on: console.Console | None = None, *, wanted: bool = True) -> None:
        """Draw nothing yet; `on` is standard error unless a test gives another."""
        self._console, self._wanted = on, wanted
        self._progress: Progress | None = None
        self._task: TaskID | None = None

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
        progress, task = self._bar(event.table)
        progress.update(task, completed=share.done, total=share.total, of=share.of)
        return not isinstance(event, RestoreStarted)  # that one says more than a bar can

    def remove(self) -> None:
        """Remove the bar, so that a line can be printed where it was."""
        if self._progress is not None:
            self._progress.stop()
        self._progress = self._task = None

    def _is_terminal(self) -> bool:
        return is_terminal(error=True) if self._console is None else self._console.is_terminal

    def _bar(self, table: str) -> tuple[Progress, TaskID]:
        if self._progress is None or self._task is None:
            from rich.markup import escape  # noqa: PLC0415 - heavy
            from rich.progress import (  # noqa: PLC0415
                BarColumn,
                MofNCompleteColumn,
                Progress,
                TaskProgressColumn,
                TextColumn,
                TimeElapsedColumn,
            )

            self._progress = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TaskProgressColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[of]}"),
                TimeElapsedColumn(),
                console=self._console or error_console(),
                transient=True,
            )
            self._task = self._progress.add_task(escape(visible(table)), total=None, of="")
            self._progress.start()
        return self._progress, self._task
