"""The bus on Apache Kafka, through confluent-kafka."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from confluent_kafka import KafkaException

from tidegate.errors import ConfigError, DeliveryRefusedError, StopService
from tidegate.publisher import ConfirmedProducer, Message
from tidegate.publisher.client_settings import require_protected_settings
from tidegate.runtime.bus import Partition, RebalanceListener, Record
from tidegate.runtime.kafka.changelog import KafkaChangelog
from tidegate.runtime.kafka.metadata import KafkaMetadata
from tidegate.runtime.kafka.records import LARGE, Config, read_spans, readable
from tidegate.runtime.kafka.subscription import INSTANCE_ID, KafkaSubscription

_NO_IDS: Final[Mapping[str, str]] = MappingProxyType({})


class KafkaBus(KafkaMetadata):
    """A Kafka cluster, with librdkafka's settings for every client of it; the bus on it."""

    def __init__(
        self,
        config: Config,
        consumer: Config | None = None,
        instance_ids: Mapping[str, str] = _NO_IDS,
    ) -> None:
        """Connect.

        Args:
            config: Settings for every client.
            consumer: Further settings for group members (time-outs).
            instance_ids: By group, the static member's id of this process. In other groups it joins
                as a dynamic member.

        Raises:
            ConfigError: librdkafka rejects a setting, or the setting would break a guarantee.
        """
        require_protected_settings({**config, **(consumer or {})})
        self._config = config
        self._consumer = {**config, **(consumer or {})}
        self._instance_ids = instance_ids
        self._producer: ConfirmedProducer | None = None
        self._making = threading.Lock()
        try:
            super().__init__(config)
        except KafkaException as error:
            raise ConfigError(f"Kafka: {error.args[0].str()}") from error

    def subscribe(
        self,
        group: str,
        topics: Sequence[str],
        listener: RebalanceListener,
        watched: Sequence[str] = (),
    ) -> KafkaSubscription:
        """Join a group.

        A member publishes, too. Its producer connects now: the first message of one that was made
        with it waits for half a second, or a whole one.
        """
        self._own_producer()
        settings = dict(self._consumer)
        if group in self._instance_ids:
            settings[INSTANCE_ID] = self._instance_ids[group]
        return KafkaSubscription(settings, group, topics, listener, self, watched=watched)

    def send(self, messages: Sequence[Message]) -> None:
        """Send and wait."""
        try:
            self._own_producer().send(messages)
        except DeliveryRefusedError as error:
            raise StopService(str(error)) from error

    def log(self, partition: Partition) -> Iterator[Record]:
        """Read a partition; a record that the client can't read is an error."""
        return readable(self.read(self.spans_of([partition])))

    def read(self, spans: Mapping[Partition, range]) -> Iterator[Record]:
        """Read them outside of any group; see `read_spans`."""
        return read_spans(self._config, spans)

    def changelog(self, topic: str) -> KafkaChangelog:
        """Open a changelog; it owns no partition yet."""
        return KafkaChangelog(self._config, topic, self)

    def close(self) -> None:
        """Wait for messages that are being sent."""
        if self._producer is not None:
            self._producer.close()

    def _own_producer(self) -> ConfirmedProducer:
        """The producer, created with the first membership or message.

        An idempotent producer requests its id in the background, which fails without the right to
        write to any topic. A principal without that right must still be able to read.
        """
        with self._making:
            if self._producer is None:
                self._producer = ConfirmedProducer({**LARGE, **self._config})
            return self._producer
