"""The first outcome of a worker is as fast as later ones: its producer connects at the start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidegate.runtime.bus import Partition
from tidegate.runtime.kafka.bus import KafkaBus


class Unobserved:
    """A listener of a group that no broker answers."""

    def assigned(self, starts: Mapping[Partition, int]) -> None: ...

    def revoked(self, partitions: Sequence[Partition]) -> None: ...

    def lost(self, partitions: Sequence[Partition]) -> None: ...


def test_a_members_producer_is_made_when_it_joins_and_not_with_its_first_message() -> None:
    """librdkafka holds a new producer's first message for half a second, or a whole one."""
    bus = KafkaBus({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
    assert bus._producer is None, "a principal without the right to write can read"
    member = bus.subscribe("group", ["topic"], Unobserved())
    assert bus._producer is not None
    member.close()
    bus.close()
