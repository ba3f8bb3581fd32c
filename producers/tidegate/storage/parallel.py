"""The one interface for work on many items; `tidegate.compute` runs it on threads or on Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Semaphore
from typing import Final, Protocol, TypeVar

DIRECTORIES_PER_TASK: Final = 100
"""Directories of one parent per task."""

T = TypeVar("T")
R = TypeVar("R")


class ParallelMap(Protocol):
    """Applies a function to many items, in any order, and returns the results in item order."""

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Apply `function` (picklable) to every item; raise the first failed item's error."""
        ...


_slots: Final[dict[tuple[str, int], Semaphore]] = {}


def slots_of(place: str, max_concurrency: int) -> Semaphore:
    """What each thread of this process takes for a request to a place, where these are limited."""
    # in one step: of a cache, threads that begin together would get one each
    return _slots.setdefault((place, max_concurrency), Semaphore(max_concurrency))


def batches_of(items: Sequence[T], size: int = DIRECTORIES_PER_TASK) -> list[Sequence[T]]:
    """Cut into batches of `size`; the last one may be smaller."""
    return [items[start : start + size] for start in range(0, len(items), size)]
