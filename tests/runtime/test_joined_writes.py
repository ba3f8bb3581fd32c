"""Changelogs are written side by side; none is still being written when a step has ended."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from support.samples import EveryThird, commit, memory_bus, message
from tidegate.errors import FencedError
from tidegate.runtime.bus import Partition
from tidegate.runtime.decider.loop import DeciderLoop
from tidegate.runtime.memory.bus import MemoryBus, MemoryChangelog

SLOWNESS = 0.5
"""Seconds that a write takes at least."""


class OneFencedOneSlow(MemoryBus):
    """Partition 0 refuses its write while the one of partition 1 has begun and goes on."""

    def __init__(self) -> None:
        topics = {each.topic for each in memory_bus(EveryThird.name)._logs}
        super().__init__(topics, partitions=2)
        self.begun, self.never, self.writing = threading.Event(), threading.Event(), False

    def changelog(self, topic: str, partition: int) -> MemoryChangelog:
        made = super().changelog(topic, partition)

        def refuse(entries: Sequence[tuple[bytes, bytes | None]]) -> None:
            assert entries
            assert self.begun.wait(10)
            raise FencedError("another process took it")

        def write_slowly(entries: Sequence[tuple[bytes, bytes | None]]) -> None:
            self.writing = bool(entries)
            self.begun.set()
            self.never.wait(SLOWNESS)
            self.writing = False

        made.write = write_slowly if partition else refuse  # type: ignore[method-assign]
        return made


def test_after_a_fault_of_one_partitions_write_no_other_write_goes_on() -> None:
    bus = OneFencedOneSlow()
    bus.send([message(commit(0, f"lake.sales.t{number}")) for number in range(8)])
    assert all(bus.log(Partition("tidegate.commits", number)) for number in range(2))
    loop = DeciderLoop(EveryThird(), bus)

    with pytest.raises(FencedError):
        loop.run(threading.Event())
    assert bus.begun.is_set()
    assert not bus.writing
    loop.close()
