"""Progress reports of long work on a table: a restore or a large cleaning."""

from __future__ import annotations

from collections.abc import Callable, Generator
from concurrent.futures import Future, wait
from contextvars import copy_context
from datetime import timedelta
from threading import Thread
from typing import Final, TypeVar

T = TypeVar("T")
U = TypeVar("U")
PAUSE: Final = timedelta(seconds=20)
"""Time between two outcomes that report the progress of one task."""


def while_working(
    work: Callable[[], T], poll: Callable[[], U | None], pause: timedelta = PAUSE
) -> Generator[U, None, T]:
    """Do work that can't be interrupted, and poll its progress from time to time.

    The work runs on its own thread, with this thread's context variables. Closing the generator
    waits for the end of the work.

    Args:
        work: Called once.
        poll: Called on the caller's thread after every pause, until the work has ended.
        pause: The time between two polls.

    Yields:
        The result of every poll, except None.

    Returns:
        The result of the work.

    Raises:
        Exception: any error of the work or of a poll.
    """
    done, context = Future[T](), copy_context()

    def run() -> None:
        try:
            done.set_result(context.run(work))
        except BaseException as error:  # noqa: BLE001 - raised where the result is taken
            done.set_exception(error)

    thread = Thread(target=run, name="tidegate-work", daemon=True)
    thread.start()
    try:
        while not wait([done], pause.total_seconds()).done:
            if (found := poll()) is not None:
                yield found
    finally:
        thread.join()
    return done.result()
