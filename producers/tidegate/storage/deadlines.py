"""Calls of HDFS's client with a deadline: it waits for a silent NameNode without end.

A thread makes the calls, and is left alone after the deadline. Many calls are handed over to it at
once, because a hand-over takes as long as half a call.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeVar

from tidegate.errors import TransientError

R = TypeVar("R")


@dataclass(slots=True, eq=False)
class _Thread:
    """Makes calls, until it gets None instead of them. Calls may consist of calls themselves."""

    calls: SimpleQueue[Iterator[Any] | None] = field(default_factory=SimpleQueue)
    ended: SimpleQueue[tuple[list[Any], BaseException | None]] = field(default_factory=SimpleQueue)
    above: _Thread | None = None
    """The thread that waits for this one, if it is another one of these."""
    made: int = 0
    """Counts the calls, so that a wait for all of them is longer than that for one."""
    is_left: bool = False

    def run(self) -> None:
        """Make calls, and hand over their results."""
        _here.thread = self
        while (calls := self.calls.get()) is not None:
            results, error = list[Any](), None
            try:
                results = self.make(calls)
            except BaseException as raised:  # noqa: BLE001 - the caller raises it
                error = raised
            self.ended.put((results, error))

    def make(self, calls: Iterator[R]) -> list[R]:
        """Make calls on this thread.

        Raises:
            TransientError: nothing waits for them any more.
        """
        self._count()
        results: list[R] = []
        for result in calls:
            results.append(result)
            self._count()
        return results

    def _count(self) -> None:
        waiting: _Thread | None = self
        while waiting is not None:
            waiting.made += 1
            if waiting.is_left:
                raise TransientError("the NameNode answered too late")
            waiting = waiting.above

    def end_of(self, seconds: float) -> tuple[list[Any], BaseException | None]:
        """Wait for the last call; the results, and the error of a call, if there is one.

        Raises:
            TransientError: a call did not end in time.
        """
        seen = -1
        while self.made != seen:
            seen = self.made
            try:
                return self.ended.get(timeout=seconds)
            except Empty:
                continue
        raise TransientError(f"the NameNode did not answer within {seconds:g} s")


_idle: Final[list[_Thread]] = []
"""Threads without a call."""
_here: Final = threading.local()
"""`thread` is the running one of these, if it is one."""


def is_within() -> bool:
    """Whether this code is called by one of these threads."""
    return hasattr(_here, "thread")


def _idle_thread() -> _Thread:
    try:
        return _idle.pop()
    except IndexError:
        thread = _Thread()
        threading.Thread(target=thread.run, name="hdfs", daemon=True).start()
        return thread


def within(seconds: float, calls: Sequence[Iterator[R]]) -> list[R]:
    """Let a thread make each series of calls. After an error, the other threads are left.

    One of these threads makes a single series itself. A thread that is left ends with the call that
    it makes. A thread that waits for many calls is not woken for each, so a call may take twice as
    long before it is given up.

    Raises:
        Exception: of a call.
        TransientError: a call did not end in time; it may still be carried out.
    """
    here: _Thread | None = getattr(_here, "thread", None)
    if here is not None and len(calls) == 1:
        return here.make(calls[0])
    running = [_idle_thread() for _ in calls]
    found, error = list[R](), None
    try:
        for thread, series in zip(running, calls, strict=True):
            thread.above = here
            thread.calls.put(series)
        while running and error is None:
            results, error = running[0].end_of(seconds)
            found += results
            _idle.append(running.pop(0))
    finally:
        for thread in running:
            thread.is_left = True
            thread.calls.put(None)
    if error is not None:
        raise error
    return found
