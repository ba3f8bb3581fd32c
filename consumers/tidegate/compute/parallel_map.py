"""Run a function over many items in parallel, on threads or on Spark, with the same results.

`AdaptiveMap` chooses: at least `spark_min_items` items run on Spark, fewer in this process.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from tidegate.errors import PermanentError, TransientError
from tidegate.storage import ParallelMap

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CHUNKS_PER_THREAD: Final = 32
_TASKS_PER_CORE: Final = 3
_ITEMS_PER_TASK: Final = 500

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class ThreadMap:
    """Runs on threads of this process: for work that is too small to be worth a Spark job."""

    threads: int = 4
    """More wait for a slow disk or store at once; on a fast disk they only take turns."""

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Apply `function` on `threads` threads."""
        if len(items) <= 1:
            return [function(item) for item in items]
        # many small chunks cost queueing time, few large ones end at different times
        size = max(1, len(items) // (self.threads * _CHUNKS_PER_THREAD))
        chunks = [items[start : start + size] for start in range(0, len(items), size)]
        with ThreadPoolExecutor(min(self.threads, len(chunks))) as pool:
            results = pool.map(partial(_apply, function), chunks)
            return [result for chunk in results for result in chunk]


def _apply(function: Callable[[T], R], chunk: Sequence[T]) -> list[R]:
    return [function(item) for item in chunk]


@dataclass(frozen=True, slots=True)
class SparkMap:
    """Runs one Spark job per call. `session` is first called for the first job."""

    session: Callable[[], SparkSession]
    max_tasks: int = 64

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Apply `function` in one Spark job of at most `max_tasks` tasks, each of many items.

        A job costs as much as hundreds of items, and a task as much as dozens. So this process
        handles a single item itself. A local master gets one task per core, or up to three for many
        items. A cluster may grow during a job, so its current number of cores is not a limit.

        Raises:
            TransientError: Spark itself failed: no session, a lost executor, a dead driver.
            PermanentError: `function` raised an error that can't be pickled on the executor.
        """
        if len(items) <= 1:
            return [function(item) for item in items]
        results = self._collect(partial(_call, function), items)
        return [_result_or_raise(result) for result in results]

    def _collect(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        from py4j.protocol import Py4JError  # noqa: PLC0415 - imported only where Spark runs
        from pyspark.errors import PySparkException  # noqa: PLC0415

        try:
            context = self.session().sparkContext
            tasks = min(len(items), self.max_tasks)
            if str(context.master).startswith("local"):
                cores = context.defaultParallelism
                rounds = max(1, len(items) // (cores * _ITEMS_PER_TASK))
                tasks = min(tasks, cores * min(rounds, _TASKS_PER_CORE))
            return context.parallelize(items, tasks).map(function).collect()
        except (Py4JError, PySparkException) as error:
            reason = (str(getattr(error, "java_exception", None) or error).splitlines() or [""])[0]
            raise TransientError(f"Spark failed: {type(error).__name__}: {reason}") from error


@dataclass(frozen=True, slots=True)
class _Raised:
    """An error raised on an executor; Spark would wrap it in a Java exception without its type."""

    error: Exception


def _call(function: Callable[[T], R], item: T) -> R | _Raised:
    try:
        return function(item)
    except Exception as error:  # noqa: BLE001 - returned to the driver and raised there
        return _Raised(_picklable(error))


def _picklable(error: Exception) -> Exception:
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - pickled on this line
    except Exception:  # noqa: BLE001 - an error's constructor may fail in any way
        return PermanentError(f"{type(error).__name__}: {error}")
    return error


def _result_or_raise(result: R | _Raised) -> R:
    if isinstance(result, _Raised):
        raise result.error
    return result


@dataclass(frozen=True, slots=True)
class AdaptiveMap:
    """Runs large work on Spark and small work on threads, by the number of items."""

    spark: SparkMap
    threads: ThreadMap = ThreadMap()
    spark_min_items: int = 256

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Apply `function` on Spark for at least `spark_min_items` items, else on threads."""
        chosen: ParallelMap = self.spark if len(items) >= self.spark_min_items else self.threads
        return chosen.map(function, items)
