"""The bus on Apache Kafka, through confluent-kafka."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tidegate.errors import DeliveryRefusedError, StopService
from tidegate.publisher import ConfirmedProducer, Message
from tidegate.runtime.bus import Extent, Listener, Partition, Record
from tidegate.runtime.kafka_changelog import KafkaChangelog
from tidegate.runtime.kafka_metadata import KafkaMetadata
from tidegate.runtime.kafka_reading import read_partition
from tidegate.runtime.kafka_records import LARGE, Config, as_record
from tidegate.runtime.kafka_subscription import KafkaSubscription


class KafkaBus:
    """A Kafka cluster. `config` holds librdkafka's settings for every client of it."""

    def __init__(self, config: Config, consumer: Config | None = None) -> None:
        """Connect; `consumer` holds settings for the group members alone (time-outs)."""
        self._config = config
        self._consumer = {**config, **(consumer or {})}
        self._producer = ConfirmedProducer({**LARGE, **config})
        self._metadata = KafkaMetadata(config)

    def partitions(self, topic: str) -> int:
        """Ask the cluster."""
        return self._metadata.partitions(topic)

    def extent(self, partition: Partition) -> Extent:
        """Ask the cluster."""
        return self._metadata.extent(partition)

    def subscribe(self, group: str, topics: Sequence[str], listener: Listener) -> KafkaSubscription:
        """Join a group."""
        return KafkaSubscription(self._consumer, group, topics, listener)

    def send(self, messages: Sequence[Message]) -> None:
        """Send and wait."""
        try:
            self._producer.send(messages)
        except DeliveryRefusedError as error:
            raise StopService(str(error)) from error

    def log(self, partition: Partition) -> Iterator[Record]:
        """Read a partition."""
        return map(as_record, read_partition(self._config, *partition))

    def changelog(self, topic: str, partition: int) -> KafkaChangelog:
        """Take a changelog partition."""
        return KafkaChangelog(self._config, topic, partition)

    def close(self) -> None:
        """Wait for what is on its way."""
        self._producer.close()
