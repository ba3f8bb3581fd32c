"""Distribute work on many local directories, depending on how long the file system takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from tidegate.storage.parallel import ParallelMap

DIRECTORIES_PER_TASK: Final = 100
"""Directories of one parent per task, which opens the parent once for all of them."""
_PROBES: Final = 3
_WAITING_SECONDS: Final = 100e-6
"""A slower listing of a directory had to wait; from memory, it takes a tenth of this."""

T = TypeVar("T")
R = TypeVar("R")


def batches_of(items: Sequence[T], size: int = DIRECTORIES_PER_TASK) -> list[Sequence[T]]:
    """Cut into batches of `size`; the last one may be smaller."""
    return [items[start : start + size] for start in range(0, len(items), size)]


def map_batches(
    function: Callable[[Sequence[T]], list[R]], items: Sequence[T], parallel_map: ParallelMap
) -> list[R]:
    """Apply a function that lists local directories to batches; return all results in order.

    Threads help if listings wait for a cold disk or a server. If listings come from memory, threads
    only wait for one another, which takes twice as long as a single thread. So the first batches
    are listed here, and the fastest of them decides whether the rest runs in parallel.
    """
    batches = batches_of(items)
    results: list[R] = []
    fastest = float("inf")
    for batch in batches[:_PROBES]:
        began = time.perf_counter()
        results += function(batch)
        fastest = min(fastest, (time.perf_counter() - began) / len(batch))
    rest = batches[_PROBES:]
    waits = bool(rest) and fastest > _WAITING_SECONDS
    done = parallel_map.map(function, rest) if waits else map(function, rest)
    return [*results, *(result for batch in done for result in batch)]
