"""Read a deployment's topics from outside: outcomes, tasks, dead letters."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from tidegate.events import Event
from tidegate.events.topics import DEAD_LETTERS, OUTCOME_TOPIC, TASK_TOPIC
from tidegate.events.wire import Wire
from tidegate.runtime.bus import Partition, Record
from tidegate.runtime.kafka.bus import KafkaBus
from tidegate.runtime.retry import BROKER_RETRIES


@dataclass(frozen=True, slots=True)
class TopicMonitor:
    """Reads whole topics, without joining a consumer group."""

    servers: str
    prefix: str
    partitions: int

    def outcomes(self) -> list[Event]:
        """All outcomes, in the order of the broker's timestamps; of a repeated id, the first."""
        found = {event.event_id: event for event in reversed(self.events(OUTCOME_TOPIC.suffix))}
        return list(reversed(found.values()))

    def commands(self) -> list[Event]:
        """All tasks, repeated ones too."""
        return self.events(TASK_TOPIC.suffix)

    def dead_letters(self) -> list[Record]:
        """All dead letters."""
        return self.records(DEAD_LETTERS.suffix)

    def events(self, suffix: str) -> list[Event]:
        """All events of a topic."""
        return [Wire().deserialize(record.key, record.value) for record in self.records(suffix)]

    def records(self, suffix: str) -> list[Record]:
        """All records of a topic, in the order of the broker's timestamps."""
        records: list[Record] = []
        for number in range(self.partitions):
            part = Partition(f"{self.prefix}.{suffix}", number)
            records += BROKER_RETRIES.call(partial(self._read, part))
        return sorted(records, key=lambda record: (record.timestamp_ms, record.offset))

    def _read(self, part: Partition) -> list[Record]:
        return list(KafkaBus({"bootstrap.servers": self.servers}).log(part))
