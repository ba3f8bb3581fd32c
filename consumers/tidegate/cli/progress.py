"""The progress of a command, on standard error, once it takes longer than two seconds.

On a terminal every command prints at least that it is under way (`add_progress`). Commands that
count records or wait for outcomes print more.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tidegate.cli.output import is_terminal, write_error

if TYPE_CHECKING:
    import typer

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
_EVERY: Final = 256
"""Records between two checks of the clock."""


class Progress:
    """Counts the records that a command reads, and says so after 2, 4, 8, ... seconds.

    So a command of an hour prints a dozen lines, whether into a terminal or a log.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Start the clock."""
        self._clock, self._started = clock, clock()
        self._wait, self._count = FIRST_SECONDS, 0

    def __call__(self, records: Iterable[T]) -> Iterator[T]:
        """The same records, counted as they are taken; several calls are counted together."""
        for record in records:
            self._count += 1
            if self._count % _EVERY == 0:
                self._look()
            yield record

    def _look(self) -> None:
        took = self._clock() - self._started
        if took < self._wait:
            return
        while self._wait <= took:
            self._wait *= 2
        _say(f"{self._count} records read in {took:.0f} s ...")


@contextmanager
def under_way(what: str) -> Generator[None]:
    """Say that a step without records to count is still under way, after 2, 4, 8, ... seconds."""
    done = threading.Event()
    thread = threading.Thread(target=say_until, args=(what, done.wait), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def say_until(what: str, wait: Callable[[float], bool]) -> None:
    """Print progress after every `wait`, until it returns true."""
    took, pause = 0.0, FIRST_SECONDS
    while not wait(pause):
        took += pause
        _say(f"{what}, {took:.0f} s ...")
        pause = took


def add_progress(app: typer.Typer, path: str = "") -> None:
    """Let every command below say that it is under way, unless it has said more by itself.

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
        thread = threading.Thread(target=say_unless_said, args=arguments, daemon=True)
        thread.start()
        try:
            return command(*args, **values)
        finally:
            done.set()
            thread.join()

    setattr(call, SHOWS_PROGRESS, True)
    return call


def say_unless_said(what: str, wait: Callable[[float], bool]) -> None:
    """As `say_until`, but skip a line if other progress was printed since the last one."""
    took, pause, seen = 0.0, FIRST_SECONDS, _said.count
    while not wait(pause):
        took += pause
        if _said.count == seen:
            _say(f"{what}, {took:.0f} s ...")
        pause, seen = took, _said.count


class _Said:
    """The number of progress lines that this module has printed."""

    count = 0


_said: Final = _Said()


def _say(line: str) -> None:
    _said.count += 1
    write_error(line)
