"""Read a deployment's topics from outside: outcomes, commands, dead letters, consumer lag."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from confluent_kafka import Consumer, TopicPartition

from tidegate.events import Event
from tidegate.events.message import event_of
from tidegate.events.topics import COMMAND_TOPIC, DEAD_LETTERS, OUTCOME_TOPIC, TOPICS
from tidegate.runtime.bus import Record
from tidegate.runtime.kafka.errors import translate_kafka_errors
from tidegate.runtime.kafka.partition_reader import read_partition
from tidegate.runtime.kafka.records import as_record
from tidegate.runtime.retry import BROKER_RETRIES
from tidegate.service.assembly import SERVICES

_WAIT = 30.0


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
        """All commands, repeated ones too."""
        return self.events(COMMAND_TOPIC.suffix)

    def dead_letters(self) -> list[Record]:
        """All dead letters."""
        return self.records(DEAD_LETTERS.suffix)

    def events(self, suffix: str) -> list[Event]:
        """All events of a topic."""
        return [event_of(record.key, record.value) for record in self.records(suffix)]

    def records(self, suffix: str) -> list[Record]:
        """All records of a topic, in the order of the broker's timestamps."""
        records: list[Record] = []
        for part in self._parts(f"{self.prefix}.{suffix}"):
            records += BROKER_RETRIES.call(partial(self._read, part))
        return sorted(records, key=lambda record: (record.timestamp_ms, record.offset))

    def _read(self, part: TopicPartition) -> list[Record]:
        config = {"bootstrap.servers": self.servers}
        return [as_record(each) for each in read_partition(config, part.topic, part.partition)]

    def lag(self) -> int:
        """How many records the services have not committed yet."""
        return sum(
            self._group_lag(f"{self.prefix}.{name}", topics) for name, topics in self._inputs()
        )

    def _inputs(self) -> list[tuple[str, list[TopicPartition]]]:
        """The partitions that each service reads, by the declarations of the topics."""
        return [
            (
                name,
                [
                    part
                    for topic in TOPICS
                    if topic != OUTCOME_TOPIC and name in topic.readers
                    for part in self._parts(topic.name(self.prefix))
                ],
            )
            for name in SERVICES
        ]

    def _group_lag(self, group: str, parts: Sequence[TopicPartition]) -> int:
        return BROKER_RETRIES.call(partial(self._lag_now, group, parts))

    def _lag_now(self, group: str, parts: Sequence[TopicPartition]) -> int:
        consumer = self._consumer(group)
        try:
            with translate_kafka_errors(f"lag of {group}"):
                return sum(
                    consumer.get_watermark_offsets(each, timeout=_WAIT)[1] - max(each.offset, 0)
                    for each in consumer.committed(list(parts), timeout=_WAIT)
                )
        finally:
            consumer.close()

    def _parts(self, topic: str) -> list[TopicPartition]:
        return [TopicPartition(topic, number, 0) for number in range(self.partitions)]

    def _consumer(self, group: str) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": group,
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
