"""What somebody sees who only watches the topics: outcomes, dead letters, backlog."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from confluent_kafka import Consumer, TopicPartition

from tidegate.events import Event
from tidegate.events.message import event_of
from tidegate.events.topics import COMMAND_TOPIC, DEAD_LETTERS, OUTCOME_TOPIC, TOPICS
from tidegate.runtime.bus import Record
from tidegate.runtime.kafka_faults import told_apart
from tidegate.runtime.kafka_reading import read_partition
from tidegate.runtime.kafka_records import as_record
from tidegate.runtime.patience import BRIEF
from tidegate.services import SERVICES

_WAIT = 30.0


@dataclass(frozen=True, slots=True)
class Audience:
    """Reads a deployment's topics from their beginning, outside of every group."""

    servers: str
    prefix: str
    partitions: int

    def outcomes(self) -> list[Event]:
        """Every outcome so far, each id once, the first of each, in the order of the broker."""
        found = {event.event_id: event for event in reversed(self.events(OUTCOME_TOPIC.suffix))}
        return list(reversed(found.values()))

    def commands(self) -> list[Event]:
        """Every command so far, repeats too."""
        return self.events(COMMAND_TOPIC.suffix)

    def dead_letters(self) -> list[Record]:
        """Every dead letter so far."""
        return self.records(DEAD_LETTERS.suffix)

    def events(self, suffix: str) -> list[Event]:
        """Every event on a topic."""
        return [event_of(each.key, each.value) for each in self.records(suffix)]

    def records(self, suffix: str) -> list[Record]:
        """Every record on a topic, in the order in which the broker took them."""
        taken: list[Record] = []
        for part in self._parts(f"{self.prefix}.{suffix}"):
            taken += BRIEF.call(partial(self._read, part))
        return sorted(taken, key=lambda each: (each.timestamp_ms, each.offset))

    def _read(self, part: TopicPartition) -> list[Record]:
        config = {"bootstrap.servers": self.servers}
        return [as_record(each) for each in read_partition(config, part.topic, part.partition)]

    def lag(self) -> int:
        """How many records the services have not acknowledged yet."""
        return sum(
            self._group_lag(f"{self.prefix}.{name}", topics) for name, topics in self._heard()
        )

    def _heard(self) -> list[tuple[str, list[TopicPartition]]]:
        """What each service reads, by the topics' own declarations."""
        return [
            (
                name,
                [
                    part
                    for topic in TOPICS
                    if topic != OUTCOME_TOPIC and name in topic.read_by.split(", ")
                    for part in self._parts(topic.name(self.prefix))
                ],
            )
            for name in SERVICES
        ]

    def _group_lag(self, group: str, parts: Sequence[TopicPartition]) -> int:
        return BRIEF.call(partial(self._lag_now, group, parts))

    def _lag_now(self, group: str, parts: Sequence[TopicPartition]) -> int:
        consumer = self._consumer(group)
        try:
            with told_apart(f"lag of {group}"):
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
