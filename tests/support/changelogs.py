"""One partition of a changelog, as tests read and write it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidegate.runtime.bus import Bus, ChangelogRecord
from tidegate.runtime.kafka.changelog import KafkaChangelog

if TYPE_CHECKING:
    from confluent_kafka import Producer


class OpenPartition:
    """A partition that is ours, and what it held when it was acquired."""

    def __init__(self, bus: Bus, topic: str, number: int = 0) -> None:
        self._changelog, self._number = bus.changelog(topic), number
        self._found: list[ChangelogRecord] = []
        for _, records in self._changelog.acquire([number]):
            self._found += records

    def read(self) -> list[ChangelogRecord]:
        return self._found

    @property
    def producer(self) -> Producer:
        """The client that writes, for what a killed process leaves undone."""
        assert isinstance(self._changelog, KafkaChangelog)
        assert self._changelog._producer is not None
        return self._changelog._producer._producer

    def write(self, records: Sequence[ChangelogRecord]) -> None:
        self._changelog.write({self._number: records})
