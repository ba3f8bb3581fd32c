"""The loop of the Metastore bridge, without a broker and without a Metastore."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import cast

from confluent_kafka import TopicPartition

from support.samples import memory_bus
from tidegate.bridges.event_reader import EventReader
from tidegate.bridges.metastore import MetastoreBridgeLoop
from tidegate.bridges.position import (
    METASTORE_BRIDGE,
    baseline_in,
    last_poll,
    leading_partition,
    split_time,
)
from tidegate.errors import TransientError
from tidegate.events import Event
from tidegate.hive_bridge.baseline import Baseline
from tidegate.hive_bridge.bridge import MetastoreBridge


class Looked:
    """A bridge that notes whether the collector was on, and ends the run after some looks."""

    baseline = Baseline()

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop
        self.collects: list[bool] = []

    def take(self, events: list[Event]) -> None:
        """There is nothing."""

    def look(self) -> int:
        self.collects.append(gc.isenabled())
        if len(self.collects) > 1:
            self._stop.set()
        return 0

    def close(self) -> None:
        """Nothing is open."""


class Away(Looked):
    """The same, but the Metastore does not answer."""

    def look(self) -> int:
        super().look()
        raise TransientError("it is away")


class NothingThere:
    def read(self) -> Iterator[list[Event]]:
        return iter(())


def test_no_garbage_collection_falls_into_a_look() -> None:
    """With 10,000 locks and all that waits, one took as long as the rest of a look."""
    stop = threading.Event()
    bridge = Looked(stop)
    loop = MetastoreBridgeLoop(
        memory_bus(),
        "tidegate",
        lambda _: cast("MetastoreBridge", bridge),
        lambda *_: cast("EventReader", NothingThere()),
        interval_ms=1,
    )
    loop.run(stop)
    loop.close()
    assert bridge.collects == [False, False]
    assert gc.isenabled()


def test_the_successor_knows_the_baseline_and_people_the_time_of_the_last_poll() -> None:
    bus, known = memory_bus(), list[Baseline]()
    for _ in range(2):
        stop = threading.Event()
        bridge = Looked(stop)
        bridge.baseline = Baseline("uuid", 7)

        def made(baseline: Baseline, bridge: Looked = bridge) -> MetastoreBridge:
            known.append(baseline)
            return cast("MetastoreBridge", bridge)

        loop = MetastoreBridgeLoop(
            bus, "tidegate", made, lambda *_: cast("EventReader", NothingThere()), interval_ms=1
        )
        loop.run(stop)
        text = loop._metadata()[leading_partition("tidegate")]
        loop.close()

    assert known == [Baseline(), bridge.baseline]
    position = TopicPartition(*leading_partition("tidegate"), 0, metadata=f"id|{text}")
    polled = last_poll(METASTORE_BRIDGE, "tidegate", {leading_partition("tidegate"): position})
    assert polled is not None
    assert timedelta() <= datetime.now(UTC) - polled < timedelta(minutes=2)
    assert baseline_in(position) == bridge.baseline


def test_a_successor_that_cannot_poll_keeps_the_time_of_the_last_poll() -> None:
    """Else `status` would show no problem while the Metastore is away."""
    bus, leading = memory_bus(), leading_partition("tidegate")

    def run(bridge: Looked, stop: threading.Event) -> str:
        loop = MetastoreBridgeLoop(
            bus,
            "tidegate",
            lambda _: cast("MetastoreBridge", bridge),
            lambda *_: cast("EventReader", NothingThere()),
            interval_ms=1,
        )
        loop.run(stop)
        loop.close()
        return bus.commit_metadata[loop._group][leading]

    stop = threading.Event()
    polled = run(Looked(stop), stop)
    assert split_time(polled)[0]

    stop = threading.Event()
    assert run(Away(stop), stop) == polled
