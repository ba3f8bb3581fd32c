"""Run a function over many items in parallel, on threads or on Spark, with the same results."""

from __future__ import annotations

import pickle
import re
import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import uuid4

from tidegate.errors import PermanentError, TransientError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CHUNKS_PER_THREAD: Final = 32
_TASKS_PER_CORE: Final = 3
_ITEMS_PER_TASK: Final = 500
_TRACEBACK: Final = "Traceback (most recent call last):"
_ERROR_LINE: Final = re.compile(r"^[A-Za-z_][\w.]*: .+", re.MULTILINE)
# an executor without the modules, of another version of Python or Tidegate; a stopped session
_LASTING: Final = re.compile(
    r"^(ModuleNotFound|Import|Attribute)Error: |PYTHON_VERSION_MISMATCH|stopped SparkContext"
    "|NO_ACTIVE_SESSION"
)

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
        # a task of the pool takes 1.7 kB: a million items as so many tasks would take 1.7 GB
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
    min_items: int = 0
    """Fewer items are processed on threads of this process."""
    max_tasks: int = 64
    deadline: float = 3600.0
    """Seconds until a job is cancelled: without a worker it would wait without end."""

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Apply `function` in one Spark job of at most `max_tasks` tasks, each of many items.

        A job costs as much as hundreds of items, and a task as much as dozens. So this process
        handles a single item itself. A local master gets one task per core, or up to three for many
        items. A cluster may grow during a job, so its current number of cores is not a limit.

        Raises:
            TransientError: Spark itself failed: a lost executor, a dead driver, the deadline.
            PermanentError: the executors can't run the function (a missing module, another
                Python), the session was stopped, or `function` raised an error that can't be
                pickled on the executor.
        """
        if len(items) < max(2, self.min_items):
            return ThreadMap().map(function, items)
        results = self._collect(partial(_call, function), items)
        return [_result_or_raise(result) for result in results]

    def _collect(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        from py4j.protocol import Py4JError  # noqa: PLC0415 - imported only where Spark runs
        from pyspark.errors import PySparkException  # noqa: PLC0415

        is_late = threading.Event()
        try:
            session = self.session()
            collect = _on_connect if is_connect(session) else _on_classic
            limited = partial(_limited, self.deadline, is_late)
            return collect(session, self.max_tasks, function, items, limited)
        except (Py4JError, PySparkException) as error:
            if is_late.is_set():
                raise TransientError(
                    f"the Spark job did not end within {self.deadline:g} s: are there workers?"
                ) from error
            raise _spark_error(error) from error


_Limited = Callable[[Callable[[], object]], AbstractContextManager[None]]
"""A context in which a job is cancelled at the deadline, given what cancels it."""


@contextmanager
def _limited(
    seconds: float, is_late: threading.Event, cancel: Callable[[], object]
) -> Generator[None]:
    """Cancel a job that takes longer; `is_late` is then set."""
    done = threading.Event()

    def watch() -> None:
        wait = seconds
        # again and again: a cancellation before the job was submitted has no effect
        while not done.wait(wait):
            is_late.set()
            cancel()
            wait = 1.0

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        done.set()


def is_connect(session: object) -> bool:
    """Whether a session is one of Spark Connect, which has no RDDs."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def _on_classic(
    session: SparkSession,
    max_tasks: int,
    function: Callable[[T], R],
    items: Sequence[T],
    limited: _Limited,
) -> list[R]:
    """Collect an RDD."""
    context: Any = session.sparkContext
    if context._jsc is None:  # noqa: SLF001 - PySpark has no public way to tell
        raise PermanentError("the Spark session was stopped")
    tasks = min(len(items), max_tasks)
    if is_local(str(context.master)):
        cores = context.defaultParallelism
        rounds = max(1, len(items) // (cores * _ITEMS_PER_TASK))
        tasks = min(tasks, cores * min(rounds, _TASKS_PER_CORE))
    tag = f"tidegate-{uuid4().hex}"
    context.addJobTag(tag)
    context.setInterruptOnCancel(True)
    try:
        with limited(partial(context.cancelJobsWithTag, tag)):
            collected: list[R] = context.parallelize(items, tasks).map(function).collect()
            return collected
    finally:
        if context._jsc is not None:  # noqa: SLF001 - stopped meanwhile
            context.removeJobTag(tag)


def _on_connect(
    session: SparkSession,
    max_tasks: int,
    function: Callable[[T], R],
    items: Sequence[T],
    limited: _Limited,
) -> list[R]:
    """Collect a UDF over the pickled items. It is not deterministic, so it is called once."""
    from pyspark.sql.functions import udf  # noqa: PLC0415 - imported only where Spark runs

    connect: Any = session
    tag = f"tidegate-{uuid4().hex}"
    connect.addTag(tag)
    try:
        with limited(partial(connect.interruptTag, tag)):
            rows = [(number, pickle.dumps(item)) for number, item in enumerate(items)]
            work = udf(partial(_call_pickled, function), "binary").asNondeterministic()
            frame = session.createDataFrame(rows, "number int, item binary")
            frame = frame.repartition(min(len(items), max_tasks)).select("number", work("item"))
            done = {number: bytes(result) for number, result in frame.collect()}
    finally:
        connect.removeTag(tag)
    return [pickle.loads(done[number]) for number in range(len(items))]  # noqa: S301 - from our executors


def _call_pickled(function: Callable[[T], R], item: bytes) -> bytes:
    return pickle.dumps(function(pickle.loads(bytes(item))))  # noqa: S301 - pickled by the driver


def is_local(master: str) -> bool:
    """Whether a master runs everything in the driver's process; `local-cluster` does not."""
    return master == "local" or master.startswith("local[")


def _spark_error(error: Exception) -> PermanentError | TransientError:
    text = str(getattr(error, "java_exception", None) or error)
    _, found, trace = text.partition(_TRACEBACK)
    trace = trace.split("\n\tat ", 1)[0]  # Java's part
    lines = _ERROR_LINE.findall(trace) if found else text.splitlines()[:1]
    reason = lines[-1] if lines else type(error).__name__
    if _LASTING.search(reason):
        return PermanentError(f"Spark can't run this work: {reason} (see docs/spark.md)")
    return TransientError(f"Spark failed: {type(error).__name__}: {reason}")


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
        if isinstance(result.error, ImportError):
            raise PermanentError(
                f"Spark's executors can't run this work: {result.error} (see docs/spark.md)"
            ) from result.error
        raise result.error
    return result
