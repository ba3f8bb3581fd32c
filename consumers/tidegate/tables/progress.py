"""How often long work on a table says how far it is: a restore, and a large cleaning."""

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
"""Between two outcomes that say how far one task is."""


def while_working(
    work: Callable[[], T], look: Callable[[], U | None], pause: timedelta = PAUSE
) -> Generator[U, None, T]:
    """Do work that can't be interrupted, and look now and then how far it is.

    The work runs on a thread of its own, with this thread's context variables. Whoever closes the
    generator waits for its end.

    Args:
        work: Done once.
        look: Called after each pause in which the work has not ended, on the caller's thread.
        pause: Between two looks.

    Yields:
        What each look finds, but None.

    Returns:
        What the work returns.

    Raises:
        Exception: what the work raises, or a look.
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
            if (found := look()) is not None:
                yield found
    finally:
        thread.join()
    return done.result()
