"""What a cluster says of its topics: how many partitions, what they hold."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import EarliestSpec, LatestSpec, OffsetSpec

from tidegate.errors import ConfigError
from tidegate.runtime.bus import Extent, Partition
from tidegate.runtime.kafka_faults import told_apart

_WAIT: Final = 30.0
_ANSWER: Final = 5.0
_SHORT: Final = 2.0
# librdkafka's local codes have underscores
_REFUSALS: Final = {KafkaError._AUTHENTICATION, KafkaError._SSL}  # noqa: SLF001
# confluent-kafka leaves these two untyped
_FIRST: Final[OffsetSpec] = EarliestSpec()  # type: ignore[no-untyped-call]
_END: Final[OffsetSpec] = LatestSpec()  # type: ignore[no-untyped-call]


class KafkaMetadata:
    """Asks the cluster; a login that it refuses is said at once, not after a time-out."""

    def __init__(self, config: Mapping[str, str | int | bool]) -> None:
        """Take librdkafka's settings; connects when first asked."""
        self._refusal: KafkaError | None = None
        settings: dict[str, Any] = {**config, "log_level": 0, "error_cb": self._note}
        self._admin = AdminClient(settings)

    def partitions(self, topic: str) -> int:
        """How many partitions a topic has.

        Raises:
            ConfigError: there is no such topic, or the broker does not let us in.
            TransientError: the broker can't say now.
        """
        with told_apart(f"topic {topic}"):
            count, fault = self._described(topic, time.monotonic() + _WAIT)
        if fault is not None or not count:
            raise ConfigError(f"topic {topic}: {fault.str() if fault else 'it has no partitions'}")
        return count

    def extent(self, partition: Partition) -> Extent:
        """What a partition holds now.

        Raises:
            TransientError: the broker can't say now.
        """
        where = TopicPartition(*partition)
        with told_apart(f"topic {partition.topic}"):
            topics = TopicCollection([partition.topic])
            [told] = self._admin.describe_topics(topics, request_timeout=_ANSWER).values()
            first, end = (
                self._admin.list_offsets({where: spec}, request_timeout=_ANSWER)[where]
                .result(_WAIT)
                .offset
                for spec in (_FIRST, _END)
            )
            return Extent(str(told.result(_WAIT).topic_id), first, end)

    def _described(self, topic: str, deadline: float) -> tuple[int, KafkaError | None]:
        while True:
            try:
                found = self._admin.list_topics(topic, timeout=_SHORT).topics[topic]
            except KafkaException:
                self._admin.poll(0)
                if self._refusal is not None:
                    raise ConfigError(f"the broker can't be used: {self._refusal.str()}") from None
                if time.monotonic() > deadline:
                    raise
            else:
                return len(found.partitions), found.error

    def _note(self, error: KafkaError) -> None:
        if error.code() in _REFUSALS:
            self._refusal = error
