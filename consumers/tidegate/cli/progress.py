"""A sign of life on standard error: lines while a command runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
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
