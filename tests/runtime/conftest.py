from __future__ import annotations

import pytest

from support.memory_bus import MemoryBus
from support.samples import memory_bus


@pytest.fixture
def bus() -> MemoryBus:
    """A bus with the topics of the decider `EveryThird`, of one partition each."""
    return memory_bus(partitions=1)
