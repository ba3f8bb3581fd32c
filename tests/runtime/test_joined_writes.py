"""The partitions of a step are written together: after a fault none is still being written."""

from __future__ import annotations

import threading

import pytest

from support.memory_bus import MemoryBus
from support.samples import EveryThird, commit, memory_bus, message
from tidegate.coordinator.loop import CoordinatorLoop
from tidegate.errors import StopService
from tidegate.runtime.bus import Partition

CHANGELOG = "tidegate.coordinator.changelog"


def test_where_one_partition_is_fenced_nothing_is_written_to_the_others() -> None:
    bus: MemoryBus = memory_bus(partitions=2)
    loop = CoordinatorLoop(EveryThird(), bus)
    loop.step(0)
    bus.send([message(commit(0, f"lake.sales.t{number}")) for number in range(8)])
    assert all(bus.log(Partition("tidegate.commits", number)) for number in range(2))
    list(bus.changelog(CHANGELOG).acquire([1]))

    with pytest.raises(StopService, match="another process"):
        loop.run(threading.Event())
    assert bus.records(CHANGELOG) == []
    assert bus.committed["tidegate.coordinator"] == {}
    loop.close()
