"""The loop of the Metastore bridge, without a broker and without a Metastore."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from typing import cast

from support.samples import memory_bus
from tidegate.bridges.facts import FactsReader
from tidegate.bridges.metastore import MetastoreBridgeLoop
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
        lambda *_: cast("FactsReader", NothingThere()),
        interval_ms=1,
    )
    loop.run(stop)
    loop.close()
    assert bridge.collects == [False, False]
    assert gc.isenabled()
