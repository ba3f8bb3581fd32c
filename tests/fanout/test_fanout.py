"""The same work in place and on Spark: the same results, the same errors."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.errors import PySparkRuntimeError

from tidegate.errors import FormatError, PermanentError, TransientError
from tidegate.fanout import BySize, FanOut, InPlace, OnSpark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class TwoArguments(Exception):  # noqa: N818 - it stands for any error that can't be unpickled
    def __init__(self, one: str, two: str) -> None:
        super().__init__(one + two)


def no_session() -> SparkSession:
    raise AssertionError("Spark was asked for")


@pytest.fixture(params=["in place", pytest.param("on Spark", marks=pytest.mark.spark)])
def fan_out(request: pytest.FixtureRequest) -> FanOut:
    if request.param == "in place":
        return InPlace(threads=3)
    session: SparkSession = request.getfixturevalue("spark")
    return OnSpark(lambda: session, max_tasks=3)


def failing(error: Callable[[int], Exception], *numbers: int) -> Callable[[int], int]:
    def work(number: int) -> int:
        if number in numbers:
            raise error(number)
        return number

    return work


@pytest.mark.parametrize("count", [0, 1, 2, 10])
def test_the_results_are_in_the_order_of_the_items(fan_out: FanOut, count: int) -> None:
    items = list(range(count, 0, -1))

    assert fan_out.map(lambda n: n * n, items) == [n * n for n in items]


def test_an_error_keeps_its_type_and_its_words(fan_out: FanOut) -> None:
    work = failing(lambda n: FormatError(f"bad file {n}"), 4)

    with pytest.raises(FormatError, match=r"^bad file 4$"):
        fan_out.map(work, list(range(8)))


def test_the_error_of_the_first_item_is_raised(fan_out: FanOut) -> None:
    work = failing(lambda n: FormatError(f"bad file {n}"), 2, 5, 7)

    with pytest.raises(FormatError, match="bad file 2"):
        fan_out.map(work, list(range(8)))


def test_a_fault_of_the_disk_stays_one_that_is_tried_again(fan_out: FanOut) -> None:
    with pytest.raises(PermissionError):
        fan_out.map(failing(lambda _: PermissionError(13, "denied"), 1), [1, 2])


@pytest.mark.spark
def test_an_error_that_cannot_travel_becomes_a_permanent_one_that_names_it(
    spark: SparkSession,
) -> None:
    work = failing(lambda _: TwoArguments("can't ", "travel"), 1)

    with pytest.raises(PermanentError, match=r"^TwoArguments: can't travel$"):
        OnSpark(lambda: spark).map(work, [1, 2])


@pytest.mark.spark
def test_a_worker_that_dies_is_a_fault_to_try_again_told_in_one_line(spark: SparkSession) -> None:
    def die(number: int) -> int:
        os._exit(number)

    with pytest.raises(TransientError) as caught:
        OnSpark(lambda: spark).map(die, [3])
    assert re.fullmatch(r"Spark failed: [^\n]+", str(caught.value))


@pytest.mark.parametrize(
    "fault",
    [
        Py4JNetworkError("Answer from Java side is empty\nand more"),
        PySparkRuntimeError(error_class="JAVA_GATEWAY_EXITED", message_parameters={}),
    ],
)
def test_a_driver_that_is_gone_is_a_fault_to_try_again(fault: Exception) -> None:
    def session() -> SparkSession:
        raise fault

    with pytest.raises(TransientError, match=r"^Spark failed: \w+: [^\n]+$"):
        OnSpark(session).map(str, [1])


def test_nothing_to_do_starts_no_spark() -> None:
    assert OnSpark(no_session).map(str, []) == []


@pytest.mark.parametrize(("count", "on_spark"), [(0, False), (3, False), (4, True), (5, True)])
def test_work_runs_on_spark_from_the_stated_number_of_items_on(
    count: int,
    on_spark: bool,  # noqa: FBT001
) -> None:
    fan_out = BySize(OnSpark(no_session), spark_from=4)

    if on_spark:
        with pytest.raises(AssertionError, match="Spark was asked for"):
            fan_out.map(str, range(count))
    else:
        assert fan_out.map(str, range(count)) == [str(n) for n in range(count)]


def test_in_place_the_items_are_worked_on_side_by_side() -> None:
    meet = threading.Barrier(3, timeout=10)

    assert sorted(InPlace(threads=3).map(lambda n: (meet.wait(), n)[1], [1, 2, 3])) == [1, 2, 3]
