"""A thread pool in which the tasks of a key run in order, and the keys take turns."""

from __future__ import annotations

import heapq
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from itertools import count
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class _Queue(Generic[T]):
    """The tasks of one key: ready, waiting for its next attempt, or run by one thread."""

    key: Hashable
    tasks: deque[T] = field(default_factory=deque[T])
    retries: bool = False
    """Whether its first task was tried before."""


class _Waiting(NamedTuple, Generic[T]):
    """A queue whose first task is due at a time; `number` orders those due at the same time."""

    due: float
    number: int
    queue: _Queue[T]


class KeyedExecutor(Generic[T]):
    """A thread pool with a queue of tasks for each key.

    - Tasks of one key run one after another, in the order in which they were put.
    - Keys take turns: one task of a key, then the next key. A long queue delays nobody else's.
    - A task that is to be tried again waits in its queue, not on a thread.
    - Of several threads one is kept for first attempts: if every retry hangs, new work goes on.
    """

    def __init__(self, threads: int, run_task: Callable[[T], float | None]) -> None:
        """Start no thread yet.

        Args:
            threads: How many tasks run at the same time.
            run_task: Called on one of the threads; must not raise. It gives None when the task is
                over, else after how many seconds to call it with this task again.
        """
        self._max_threads, self._run_task = threads, run_task
        self._max_retries = max(1, threads - 1)
        self._queues: dict[Hashable, _Queue[T]] = {}
        self._ready: deque[_Queue[T]] = deque()
        self._ready_retries: deque[_Queue[T]] = deque()
        self._waiting: list[_Waiting[T]] = []
        self._numbers = count()
        self._running_retries = 0
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
        """Remove the tasks that are unwanted and do not run now, also those to be tried again."""
        with self._changed:
            for queue in self._queues.values():
                queue.tasks = deque(task for task in queue.tasks if not unwanted(task))
            emptied = [each for each in self._waiting if not each.queue.tasks]
            self._waiting = [each for each in self._waiting if each.queue.tasks]
            heapq.heapify(self._waiting)
            for each in emptied:
                del self._queues[each.queue.key]

    def close(self, deadline: float) -> bool:
        """Start no further task; wait up to `deadline` seconds. Give whether all have ended."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        until = time.monotonic() + deadline
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _make_ready(self, queue: _Queue[T]) -> None:
        (self._ready_retries if queue.retries else self._ready).append(queue)
        if self._idle:
            self._changed.notify()
        elif len(self._threads) < self._max_threads:
            # a daemon: a task that never returns must not keep the process from ending
            thread = threading.Thread(target=self._work, name="executor", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _work(self) -> None:
        while (taken := self._take()) is not None:
            queue, task = taken
            retry = queue.retries
            delay = self._run_task(task)
            self._put_back(queue, task, delay, was_retry=retry)

    def _take(self) -> tuple[_Queue[T], T] | None:
        """Wait for a queue's turn and give its first task; None: there will be no further one."""
        with self._changed:
            while not self._closed:
                self._end_waits()
                queue = self._next_ready()
                if queue is None:
                    self._wait()
                elif queue.tasks:
                    self._running_retries += queue.retries
                    return queue, queue.tasks.popleft()
                else:  # its tasks were discarded
                    del self._queues[queue.key]
            return None

    def _next_ready(self) -> _Queue[T] | None:
        may_retry = self._ready_retries and self._running_retries < self._max_retries
        if may_retry and (self._retry_next or not self._ready):
            self._retry_next = False
            return self._ready_retries.popleft()
        self._retry_next = True
        return self._ready.popleft() if self._ready else None

    def _end_waits(self) -> None:
        now = time.monotonic()
        while self._waiting and self._waiting[0].due <= now:
            self._make_ready(heapq.heappop(self._waiting).queue)

    def _wait(self) -> None:
        due = self._waiting[0].due - time.monotonic() if self._waiting else None
        self._idle += 1
        self._changed.wait(due)
        self._idle -= 1

    def _put_back(self, queue: _Queue[T], task: T, delay: float | None, *, was_retry: bool) -> None:
        """Give the queue its next turn: at once, when its task is due again, or never."""
        with self._changed:
            self._running_retries -= was_retry
            queue.retries = delay is not None
            if delay is not None:
                queue.tasks.appendleft(task)
                due = time.monotonic() + delay
                heapq.heappush(self._waiting, _Waiting(due, next(self._numbers), queue))
                self._changed.notify()  # its time may be the next
            elif queue.tasks:
                self._make_ready(queue)
            else:
                del self._queues[queue.key]
            if self._ready_retries:
                self._changed.notify()  # this thread's place is free for one of them
