"""Table work side by side: on Spark, or in place where it is small. The result is the same.

The one rule: work of at least `spark_from` items runs on Spark, less runs in this process.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from tidegate.errors import PermanentError, TransientError

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
        """Apply `function` in one Spark job of at most `max_tasks` tasks.

        Raises:
            TransientError: Spark itself failed: no session, a lost executor, a dead driver.
            PermanentError: `function` raised what can't travel from an executor to here.
        """
        if not items:
            return []
        slices = min(len(items), self.max_tasks)
        answers = self._collect(partial(_answer, function), items, slices)
        return [_unpacked(answer) for answer in answers]

    def _collect(self, function: Callable[[T], R], items: Sequence[T], slices: int) -> list[R]:
        from py4j.protocol import Py4JError  # noqa: PLC0415 - only who has table work needs Spark
        from pyspark.errors import PySparkException  # noqa: PLC0415

        try:
            context = self.session().sparkContext
            return context.parallelize(items, slices).map(function).collect()
        except (Py4JError, PySparkException) as error:
            reason = (str(getattr(error, "java_exception", None) or error).splitlines() or [""])[0]
            raise TransientError(f"Spark failed: {type(error).__name__}: {reason}") from error


@dataclass(frozen=True, slots=True)
class _Raised:
    """What a function raised on an executor: Spark would hide its type in a Java exception."""

    error: Exception


def _answer(function: Callable[[T], R], item: T) -> R | _Raised:
    try:
        return function(item)
    except Exception as error:  # noqa: BLE001 - it travels to the caller and is raised there
        return _Raised(_travelling(error))


def _travelling(error: Exception) -> Exception:
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    except Exception:  # noqa: BLE001 - an error's own constructor can fail in any way
        return PermanentError(f"{type(error).__name__}: {error}")
    return error


def _unpacked(answer: R | _Raised) -> R:
    if isinstance(answer, _Raised):
        raise answer.error
    return answer


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
