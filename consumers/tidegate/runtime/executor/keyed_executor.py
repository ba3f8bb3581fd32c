"""A thread pool in which the tasks of a key run in order, and the keys take turns."""

from __future__ import annotations

import heapq
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from itertools import count
from typing import Final, Generic, NamedTuple, TypeVar

T = TypeVar("T")
LONG_SECONDS: Final = 60.0
"""A task that has been running for longer no longer counts towards the number of threads."""
_MOST: Final = 4
"""The highest number of threads, with uncounted tasks, is this many times the counted number."""


@dataclass(slots=True, eq=False)
class _Queue(Generic[T]):
    """The tasks of one key: ready, waiting for its next attempt, or run by one thread."""

    key: Hashable
    tasks: deque[T] = field(default_factory=deque[T])
    retries: bool = False
    """Whether the first task was tried before."""


@dataclass(slots=True, eq=False)
class _Run(Generic[T]):
    """A task that one thread runs."""

    task: T
    is_retry: bool
    began: float = field(default_factory=time.monotonic)
    is_long: bool = False


class _Waiting(NamedTuple, Generic[T]):
    """A queue whose first task is due later; `number` orders queues that are due together."""

    due: float
    number: int
    queue: _Queue[T]


class KeyedExecutor(Generic[T]):
    """A thread pool with a queue of tasks for each key.

    - Tasks of one key run one after another, in the order in which they were put.
    - Keys take turns: one task of a key, then the next key. A long queue does not delay other keys.
    - A task that waits for its next attempt waits in its queue, not on a thread.
    - One of several threads is reserved for first attempts: if every retry hangs, new work goes on.
    - A long-running task no longer counts: if every first attempt hangs, new work goes on, up to
      four times as many threads. One of those is reserved for first attempts, too.
    """

    def __init__(self, threads: int, run_task: Callable[[T], float | None]) -> None:
        """Start no thread yet.

        Args:
            threads: How many tasks run at the same time, not counting long-running ones.
            run_task: Called on one of the threads; must not raise. It returns None when the task is
                over, otherwise the seconds after which to call it with this task again.
        """
        self._run_task = run_task
        self._max_counted, self._max_threads = threads, _MOST * threads
        self._queues: dict[Hashable, _Queue[T]] = {}
        self._ready: deque[_Queue[T]] = deque()
        self._ready_retries: deque[_Queue[T]] = deque()
        self._waiting: list[_Waiting[T]] = []
        self._numbers = count()
        self._runs: set[_Run[T]] = set()
        self._retry_next = False
        self._idle = 0
        self._threads: list[threading.Thread] = []
        self._closed = False
        # guards everything above; notified when a queue gets ready and at the end
        self._changed = threading.Condition()

    def put(self, key: Hashable, task: T) -> None:
        """Append a task to the queue of its key."""
        with self._changed:
            queue = self._queues.get(key)
            if queue is not None:
                queue.tasks.append(task)
                return
            self._queues[key] = queue = _Queue(key, deque([task]))
            self._make_ready(queue)

    def discard(self, unwanted: Callable[[T], bool]) -> None:
        """Remove unwanted tasks that do not run now, including those that wait for a retry."""
        with self._changed:
            for queue in self._queues.values():
                queue.tasks = deque(task for task in queue.tasks if not unwanted(task))
            emptied = [waiting for waiting in self._waiting if not waiting.queue.tasks]
            self._waiting = [waiting for waiting in self._waiting if waiting.queue.tasks]
            heapq.heapify(self._waiting)
            for waiting in emptied:
                del self._queues[waiting.queue.key]

    def relieve(self) -> list[T]:
        """Stop counting long-running tasks, so that others can run; call it about every second.

        Returns:
            The tasks that no longer count since this call.
        """
        with self._changed:
            since = time.monotonic() - LONG_SECONDS
            found = [run for run in self._runs if run.began < since and not run.is_long]
            for run in found:
                run.is_long = True
                self._wake_one()
            return [run.task for run in found]

    @property
    def is_running(self) -> bool:
        """Whether a thread runs a task now."""
        return bool(self._runs)

    def close(self, deadline: float) -> bool:
        """Start no further task; wait up to `deadline` seconds. Return whether all have ended."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        until = time.monotonic() + deadline
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _make_ready(self, queue: _Queue[T]) -> None:
        (self._ready_retries if queue.retries else self._ready).append(queue)
        self._wake_one()

    def _wake_one(self) -> None:
        """Wake or start a thread for the ready work, if one may run it."""
        if self._idle:
            self._changed.notify()
        elif len(self._threads) < min(self._max_threads, self._max_counted + self._long()):
            # a daemon: a task that never returns must not keep the process from ending
            thread = threading.Thread(target=self._work, name="executor", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _work(self) -> None:
        while (taken := self._take()) is not None:
            queue, run = taken
            delay = self._run_task(run.task)
            self._put_back(queue, run, delay)

    def _take(self) -> tuple[_Queue[T], _Run[T]] | None:
        """Wait for a queue's turn and take its first task; None: the executor is closed."""
        with self._changed:
            while not self._closed:
                self._end_waits()
                queue = self._next_ready()
                if queue is None:
                    self._wait()
                elif queue.tasks:
                    run = _Run(queue.tasks.popleft(), queue.retries)
                    self._runs.add(run)
                    if self._ready or self._ready_retries:
                        self._wake_one()  # this thread takes only one of the ready queues
                    return queue, run
                else:  # its tasks were discarded
                    del self._queues[queue.key]
            return None

    def _next_ready(self) -> _Queue[T] | None:
        if len(self._runs) - self._long() >= self._max_counted:
            return None
        may_retry = self._ready_retries and self._may_retry()
        if may_retry and (self._retry_next or not self._ready):
            self._retry_next = False
            return self._ready_retries.popleft()
        self._retry_next = True
        return self._ready.popleft() if self._ready else None

    def _long(self) -> int:
        return sum(run.is_long for run in self._runs)

    def _may_retry(self) -> bool:
        counted = sum(run.is_retry and not run.is_long for run in self._runs)
        is_last = len(self._runs) == self._max_threads - 1
        return counted < max(1, self._max_counted - 1) and not is_last

    def _end_waits(self) -> None:
        now = time.monotonic()
        while self._waiting and self._waiting[0].due <= now:
            self._make_ready(heapq.heappop(self._waiting).queue)

    def _wait(self) -> None:
        due = self._waiting[0].due - time.monotonic() if self._waiting else None
        self._idle += 1
        self._changed.wait(due)
        self._idle -= 1

    def _put_back(self, queue: _Queue[T], run: _Run[T], delay: float | None) -> None:
        """Schedule the queue's next turn: at once, when its task is due again, or never."""
        with self._changed:
            self._runs.remove(run)
            queue.retries = delay is not None
            if delay is not None:
                queue.tasks.appendleft(run.task)
                due = time.monotonic() + delay
                heapq.heappush(self._waiting, _Waiting(due, next(self._numbers), queue))
                self._changed.notify()  # it may be the next one due
            elif queue.tasks:
                self._make_ready(queue)
            else:
                del self._queues[queue.key]
            if self._ready_retries:
                self._changed.notify()  # this thread can run one of them
