"""The same work on threads and on Spark: the same results, the same errors."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark import TaskContext
from pyspark.errors import PySparkException, PySparkRuntimeError

from tidegate.compute.parallel_map import SparkMap, ThreadMap, _Raised, _result_or_raise
from tidegate.errors import FormatError, PermanentError, TransientError
from tidegate.storage import ParallelMap

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class TwoArguments(Exception):  # noqa: N818 - it stands for any error that can't be unpickled
    def __init__(self, one: str, two: str) -> None:
        super().__init__(one + two)


def no_session() -> SparkSession:
    raise AssertionError("Spark was asked for")


@pytest.fixture(params=["threads", pytest.param("on Spark", marks=pytest.mark.spark)])
def parallel_map(request: pytest.FixtureRequest) -> ParallelMap:
    if request.param == "threads":
        return ThreadMap(threads=3)
    session: SparkSession = request.getfixturevalue("spark")
    return SparkMap(lambda: session, max_tasks=3)


def failing(error: Callable[[int], Exception], *numbers: int) -> Callable[[int], int]:
    def work(number: int) -> int:
        if number in numbers:
            raise error(number)
        return number

    return work


@pytest.mark.parametrize("count", [0, 1, 2, 10])
def test_the_results_are_in_the_order_of_the_items(parallel_map: ParallelMap, count: int) -> None:
    items = list(range(count, 0, -1))

    assert parallel_map.map(lambda n: n * n, items) == [n * n for n in items]


def test_an_error_keeps_its_type_and_message(parallel_map: ParallelMap) -> None:
    work = failing(lambda n: FormatError(f"bad file {n}"), 4)

    with pytest.raises(FormatError, match=r"^bad file 4$"):
        parallel_map.map(work, list(range(8)))


def test_the_error_of_the_first_item_is_raised(parallel_map: ParallelMap) -> None:
    work = failing(lambda n: FormatError(f"bad file {n}"), 2, 5, 7)

    with pytest.raises(FormatError, match="bad file 2"):
        parallel_map.map(work, list(range(8)))


def test_an_os_error_keeps_its_type(parallel_map: ParallelMap) -> None:
    with pytest.raises(PermissionError):
        parallel_map.map(failing(lambda _: PermissionError(13, "denied"), 1), [1, 2])


@pytest.mark.spark
def test_an_error_that_cannot_be_pickled_becomes_a_permanent_one_that_names_it(
    spark: SparkSession,
) -> None:
    work = failing(lambda _: TwoArguments("can't ", "travel"), 1)

    with pytest.raises(PermanentError, match=r"^TwoArguments: can't travel$"):
        SparkMap(lambda: spark).map(work, [1, 2])


@pytest.mark.spark
def test_a_worker_that_dies_is_a_transient_error_of_one_line(spark: SparkSession) -> None:
    def die(number: int) -> int:
        os._exit(number)

    with pytest.raises(TransientError) as caught:
        SparkMap(lambda: spark).map(die, [3, 3])
    assert re.fullmatch(r"Spark failed: [^\n]+", str(caught.value))


@pytest.mark.parametrize(
    "fault",
    [
        Py4JNetworkError("Answer from Java side is empty\nand more"),
        PySparkRuntimeError(error_class="JAVA_GATEWAY_EXITED", message_parameters={}),
    ],
)
def test_a_driver_that_is_gone_is_a_transient_error(fault: Exception) -> None:
    def session() -> SparkSession:
        raise fault

    with pytest.raises(TransientError, match=r"^Spark failed: \w+: [^\n]+$"):
        SparkMap(session).map(str, [1, 2])


_TRACE = """An error occurred while calling collect.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 failed 4 times:
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "pyspark/worker.py", line 1225, in main
    check_python_version(infile)
{line}

\tat org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala:572)
\tat java.base/java.lang.Thread.run(Thread.java:840)

Driver stacktrace:
\tat org.apache.spark.scheduler.DAGScheduler.failJobAndIndependentStages(DAGScheduler.scala:2898)
Caused by: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
{line}
\t... 1 more
"""


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        pytest.param("ModuleNotFoundError: No module named 'tidegate'", PermanentError, id="none"),
        pytest.param(
            "pyspark.errors.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has"
            " different version (3, 9) than that in driver 3.11.",
            PermanentError,
            id="another Python",
        ),
        pytest.param(
            "AttributeError: Can't get attribute '_call' on <module 'tidegate.compute'>",
            PermanentError,
            id="another Tidegate",
        ),
        pytest.param("MemoryError: no more", TransientError, id="a full machine"),
    ],
)
def test_the_executors_last_line_is_the_reason_and_decides_whether_to_try_again(
    line: str, kind: type[Exception]
) -> None:
    def session() -> SparkSession:
        raise PySparkException(_TRACE.format(line=line))

    with pytest.raises(kind, match=re.escape(line)) as caught:
        SparkMap(session).map(str, [1, 2])
    assert "\n" not in str(caught.value)


def test_a_stopped_session_of_connect_is_a_permanent_error() -> None:
    def session() -> SparkSession:
        raise PySparkException("[NO_ACTIVE_SESSION] No active Spark session found.")

    with pytest.raises(PermanentError, match="NO_ACTIVE_SESSION"):
        SparkMap(session).map(str, [1, 2])


def test_a_session_that_was_stopped_is_a_permanent_error() -> None:
    stopped: Any = SimpleNamespace(sparkContext=SimpleNamespace(_jsc=None))

    with pytest.raises(PermanentError, match="session was stopped"):
        SparkMap(lambda: stopped).map(str, [1, 2])


@pytest.mark.spark
def test_a_job_is_cancelled_at_its_deadline_and_the_next_one_runs(spark: SparkSession) -> None:
    with pytest.raises(TransientError, match=r"did not end within 0\.5 s"):
        SparkMap(lambda: spark, deadline=0.5).map(time.sleep, [600, 600])
    assert SparkMap(lambda: spark).map(abs, [-1, -2]) == [1, 2]


def test_a_module_that_an_executor_misses_is_a_permanent_error() -> None:
    with pytest.raises(PermanentError, match="No module named 's3fs'"):
        _result_or_raise(_Raised(ModuleNotFoundError("No module named 's3fs'")))


def test_no_items_start_no_spark_session() -> None:
    assert SparkMap(no_session).map(str, []) == []


@pytest.mark.parametrize(("count", "on_spark"), [(0, False), (3, False), (4, True), (5, True)])
def test_work_runs_on_spark_from_the_stated_number_of_items_on(
    count: int,
    on_spark: bool,  # noqa: FBT001
) -> None:
    parallel_map = SparkMap(no_session, min_items=4)

    if on_spark:
        with pytest.raises(AssertionError, match="Spark was asked for"):
            parallel_map.map(str, range(count))
    else:
        assert parallel_map.map(str, range(count)) == [str(n) for n in range(count)]


def test_threads_work_on_items_in_parallel() -> None:
    meet = threading.Barrier(3, timeout=60)

    assert sorted(ThreadMap(threads=3).map(lambda n: (meet.wait(), n)[1], [1, 2, 3])) == [1, 2, 3]


@pytest.mark.parametrize("count", [3, 65, 1000, 1001])
def test_threads_return_every_result_in_order_however_the_items_are_cut(count: int) -> None:
    assert ThreadMap(threads=2).map(lambda n: n + 1, range(count)) == list(range(1, count + 1))


def test_ten_thousand_items_are_a_few_dozen_tasks_of_a_thread_pool(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each task takes memory until the last one ends, and a table may have a million files."""
    submitted: list[object] = []
    submit = ThreadPoolExecutor.submit

    def counted(*args: object, **more: object) -> object:
        submitted.append(args)
        return submit(*args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(ThreadPoolExecutor, "submit", counted)
    ThreadMap(threads=2).map(str, range(10_000))

    assert len(submitted) <= 2 * 33


@pytest.mark.spark
@pytest.mark.parametrize(("items", "rounds"), [(2, 1), (200, 1), (2_999, 2), (10_000, 3)])
def test_a_local_spark_gets_a_task_a_core_and_of_many_items_three_at_most(
    spark: SparkSession, items: int, rounds: int
) -> None:
    cores = spark.sparkContext.defaultParallelism
    assert cores == 2

    def task(_: int) -> int:
        context = TaskContext.get()
        assert context is not None
        return context.partitionId()

    tasks = SparkMap(lambda: spark).map(task, range(items))

    assert len(set(tasks)) == rounds * cores


def test_a_single_item_starts_no_spark_session() -> None:
    assert SparkMap(no_session).map(str, [7]) == ["7"]
