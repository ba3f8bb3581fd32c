"""Inputs in memory whose last offset holds no record, as after a transaction."""

from __future__ import annotations

from collections.abc import Collection, Generator
from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import patch

from support.memory_bus import MemoryBus, MemorySubscription
from tidegate.runtime.bus import Partition, Watermarks


@contextmanager
def marker_behind(topic: str) -> Generator[None]:
    """Inside the block every partition of a topic ends with a marker."""
    watermarks, ends = MemoryBus.watermarks, MemorySubscription.ends

    def later(bus: MemoryBus, partitions: Collection[Partition]) -> dict[Partition, Watermarks]:
        found = watermarks(bus, partitions)
        return {p: replace(marks, end=marks.end + (p.topic == topic)) for p, marks in found.items()}

    def reached(subscription: MemorySubscription) -> dict[Partition, int]:
        return {p: at + (p.topic == topic) for p, at in ends(subscription).items()}

    with (
        patch.object(MemoryBus, "watermarks", later),
        patch.object(MemorySubscription, "ends", reached),
    ):
        yield
