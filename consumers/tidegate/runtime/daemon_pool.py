"""A pool of threads that do not keep a process from ending."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class DaemonPool:
    """Like ThreadPoolExecutor, which waits for its threads at the end of the interpreter.

    For work that may be cut off anywhere: a process that was asked to stop ends in time also while
    a broker that is away holds up such a thread.
    """

    def __init__(self, threads: int, name: str) -> None:
        """Start no thread yet."""
        self._most, self._name = threads, name
        self._threads = 0
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()

    def submit(self, action: Callable[[T], R], item: T) -> Future[R]:
        """Call an action on one of the threads. Only one thread may call this."""
        future: Future[R] = Future()
        self._work.put(lambda: _fulfil(future, action, item))
        if self._threads < self._most:
            self._threads += 1
            name = f"{self._name}_{self._threads}"
            threading.Thread(target=self._run, name=name, daemon=True).start()
        return future

    def shutdown(self) -> None:
        """Let the threads end once all work is done; do not wait for them."""
        for _ in range(self._threads):
            self._work.put(None)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            work()


def _fulfil(future: Future[R], action: Callable[[Any], R], item: object) -> None:
    try:
        result = action(item)
    except BaseException as error:  # noqa: BLE001 - raised where the result is asked for
        future.set_exception(error)
    else:
        future.set_result(result)
