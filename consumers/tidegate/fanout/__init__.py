"""Table work side by side: on Spark, or in place where it is small. The result is the same.

The one rule: work of at least `spark_from` items runs on Spark, less runs in this process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
R = TypeVar("R")


class FanOut(Protocol):
    """Applies a function to many items, in any order, and gives the results in theirs."""

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Apply `function` (picklable) to each item. The first error is raised."""
        ...


@dataclass(frozen=True, slots=True)
class InPlace:
    """Threads of this process: for small work, where a Spark job costs more than it saves."""

    threads: int = 8

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Apply `function` on a few threads."""
        if len(items) <= 1:
            return [function(item) for item in items]
        with ThreadPoolExecutor(min(self.threads, len(items))) as pool:
            return list(pool.map(function, items))


@dataclass(frozen=True, slots=True)
class OnSpark:
    """One Spark job a call. `session` is called on first use: Spark starts only when needed."""

    session: Callable[[], SparkSession]
    max_tasks: int = 64

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Apply `function` in one Spark job of at most `max_tasks` tasks."""
        if not items:
            return []
        context = self.session().sparkContext
        slices = min(len(items), self.max_tasks)
        return context.parallelize(items, slices).map(function).collect()


@dataclass(frozen=True, slots=True)
class BySize:
    """The rule of this module's first paragraph."""

    spark: OnSpark
    in_place: InPlace = InPlace()
    spark_from: int = 256

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Apply `function` on Spark from `spark_from` items on, else in place."""
        chosen: FanOut = self.spark if len(items) >= self.spark_from else self.in_place
        return chosen.map(function, items)
