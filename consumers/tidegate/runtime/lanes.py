"""Tasks of one table in order, of different tables side by side."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from typing import Generic, TypeVar

T = TypeVar("T")


class Lanes(Generic[T]):
    """A pool of threads in which every key has a lane of its own, worked off in order."""

    def __init__(self, threads: int, work: Callable[[T], None]) -> None:
        """Start no thread yet; `work` is called for each task and must not raise."""
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="lane")
        self._work = work
        self._lanes: dict[Hashable, deque[T]] = {}
        self._running: set[Future[None]] = set()
        self._lock = threading.Lock()

    def put(self, key: Hashable, task: T) -> None:
        """Append a task to its lane."""
        with self._lock:
            if key in self._lanes:
                self._lanes[key].append(task)
                return
            self._lanes[key] = deque([task])
            future = self._pool.submit(self._drive, key)
            self._running.add(future)
        future.add_done_callback(self._running.discard)

    def drop(self, unwanted: Callable[[T], bool]) -> None:
        """Forget the tasks that have not begun and are unwanted."""
        with self._lock:
            for key, lane in self._lanes.items():
                self._lanes[key] = deque(task for task in lane if not unwanted(task))

    def close(self, deadline: float) -> bool:
        """Begin no further task; wait up to `deadline` seconds. Says whether all have ended."""
        self.drop(lambda _: True)
        _, late = wait_for(set(self._running), timeout=deadline)
        self._pool.shutdown(wait=not late, cancel_futures=True)
        return not late

    def _drive(self, key: Hashable) -> None:
        while True:
            with self._lock:
                lane = self._lanes[key]
                if not lane:
                    del self._lanes[key]
                    return
                task = lane.popleft()
            self._work(task)
