"""How far a command is, on standard error, once it takes longer than two seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from tidegate.cli.output import write_error

T = TypeVar("T")
FIRST_SECONDS: Final = 2.0
_EVERY: Final = 256
"""Records between two looks at the clock."""


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
        write_error(f"{self._count} records read in {took:.0f} s ...")


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
    """Say it each time that `wait` has taken its seconds, until that says it is done."""
    took, pause = 0.0, FIRST_SECONDS
    while not wait(pause):
        took += pause
        write_error(f"{what}, {took:.0f} s ...")
        pause = took
