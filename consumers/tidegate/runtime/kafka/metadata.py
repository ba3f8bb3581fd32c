"""Asks a cluster about topics and groups: partitions, watermarks, committed offsets."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._listoffsets import EarliestSpec, LatestSpec, OffsetSpec
from confluent_kafka.admin._resource import ResourceType

from tidegate.errors import ConfigError, TransientError
from tidegate.errors.commands import command_line
from tidegate.publisher.connection import BrokerFaults, codes
from tidegate.runtime.bus import Partition, TopicIdentity, Watermarks
from tidegate.runtime.kafka.errors import is_transient, translate_kafka_errors
from tidegate.runtime.kafka.records import STABLE

R = TypeVar("R")
_Asked = Mapping[TopicPartition, Future[Any]]
_FUTURE_SECONDS: Final = 30.0
_PEOPLES_SECONDS: Final = 5.0
"""How long a command that a person typed waits for a broker that does not answer."""
_REQUEST_SECONDS: Final = 5.0
_METADATA_SECONDS: Final = 2.0
# librdkafka's local codes have underscores
_REFUSALS: Final = {KafkaError._AUTHENTICATION, KafkaError._SSL}  # noqa: SLF001
_LEADER_MOVED: Final = codes("FENCED_LEADER_EPOCH NOT_LEADER_FOR_PARTITION UNKNOWN_LEADER_EPOCH")
# confluent-kafka leaves these two untyped
_FIRST: Final[OffsetSpec] = EarliestSpec()  # type: ignore[no-untyped-call]
_END: Final[OffsetSpec] = LatestSpec()  # type: ignore[no-untyped-call]


class KafkaMetadata:
    """Asks the cluster. A refused login is reported at once, not after a time-out. Thread-safe."""

    def __init__(
        self, config: Mapping[str, str | int | bool], *, wait_seconds: float = _FUTURE_SECONDS
    ) -> None:
        """Take librdkafka's settings; connects with the first request.

        Args:
            config: The settings.
            wait_seconds: How long to wait for a broker that does not answer.
        """
        self._wait_seconds, self._seconds_if_refused = wait_seconds, wait_seconds
        self._faults = BrokerFaults(config)
        self._refusal: KafkaError | None = None
        self._settings: dict[str, Any] = {
            **config,
            "allow.auto.create.topics": False,
            "log_level": 0,
        }
        admin: dict[str, Any] = {**self._settings, "error_cb": self._on_error}
        self._admin = AdminClient(admin)

    @staticmethod
    def for_people(config: Mapping[str, str | int | bool]) -> KafkaMetadata:
        """For a command that a person typed: a wrong address is reported at once."""
        metadata = KafkaMetadata(config, wait_seconds=_PEOPLES_SECONDS)
        metadata._seconds_if_refused = 0.0
        return metadata

    def partitions(self, topic: str) -> int:
        """The number of partitions of a topic.

        Raises:
            ConfigError: the topic does not exist, or the broker refuses the login.
            TransientError: the broker did not answer, or the topic has no leader now.
        """
        with translate_kafka_errors(f"topic {topic}"):
            found = self._asked(lambda: self._admin.list_topics(topic, timeout=_METADATA_SECONDS))
        if (described := found.topics.get(topic)) is None:
            raise TransientError(f"topic {topic}: a broker answered without it")
        count, fault = len(described.partitions), described.error
        if fault is not None and is_transient(fault):
            raise TransientError(f"topic {topic}: {fault.str()}")
        if fault is not None or not count:
            raise ConfigError(_missing(topic, fault))
        return count

    def cluster_id(self) -> str:
        """The id of the cluster.

        Raises:
            TransientError: the broker did not answer, or does not know the id yet.
        """
        with translate_kafka_errors("the cluster's id can't be read"):
            found = self._asked(lambda: self._admin.list_topics(timeout=_METADATA_SECONDS))
        if not found.cluster_id:
            raise TransientError("the broker does not know the cluster's id yet")
        return str(found.cluster_id)

    def max_message_bytes(self, topic: str) -> int:
        """The largest message, or batch of compressed messages, that a topic accepts.

        Raises:
            TransientError: the broker did not answer.
            StopService: the topic's settings may not be described.
        """
        resource = ConfigResource(ResourceType.TOPIC, topic)
        with translate_kafka_errors(f"settings of {topic}"):
            asked = self._admin.describe_configs([resource], request_timeout=_REQUEST_SECONDS)
            entries = asked[resource].result(_FUTURE_SECONDS)
        return int(entries["max.message.bytes"].value)

    def require_connection(self) -> None:
        """Wait until a broker answers.

        Raises:
            ConfigError: the broker refuses the login.
            TransientError: no broker answers.
        """
        with translate_kafka_errors("connecting to Kafka"):
            self._asked(lambda: self._admin.list_topics(timeout=_METADATA_SECONDS))

    def watermarks(self, partitions: Collection[Partition]) -> dict[Partition, Watermarks]:
        """The first and end offsets of partitions, and the ids of their topics.

        Raises:
            TransientError: the broker did not answer.
        """
        names = sorted({partition.topic for partition in partitions})
        topics = self.identities(names)
        with translate_kafka_errors(f"watermarks of {', '.join(names)}"):
            asked = [self._ask(partitions, spec) for spec in (_FIRST, _END)]  # at the same time
            first, end = map(self._required, asked)
        return {
            partition: Watermarks(
                topics[partition.topic].topic_id, first[partition], end[partition]
            )
            for partition in partitions
        }

    def ends(
        self, partitions: Collection[Partition], isolation: IsolationLevel = STABLE
    ) -> dict[Partition, int]:
        """The end offsets of partitions (see `records`); with APPENDED behind open transactions.

        Raises:
            TransientError: the broker did not answer.
        """
        with translate_kafka_errors(f"end of {next(iter(partitions)).topic}"):
            return self._required(self._ask(partitions, _END, isolation))

    def spans(self, topic: str, since_ms: int = 0) -> dict[Partition, range]:
        """The offsets that each partition of a topic holds, from the time `since_ms` on.

        If no record is that late, it is an empty range at the partition's end.

        Raises:
            ConfigError: the topic does not exist, or the broker refuses the login.
            TransientError: the broker did not answer.
        """
        parts = [Partition(topic, number) for number in range(self.partitions(topic))]
        return self.spans_of(parts, since_ms)

    def spans_of(
        self, partitions: Collection[Partition], since_ms: int = 0
    ) -> dict[Partition, range]:
        """The offsets that partitions of one topic hold; see `spans`.

        Raises:
            TransientError: the broker did not answer.
        """
        with translate_kafka_errors(f"offsets of {next(iter(partitions)).topic}"):
            end = self._required(self._ask(partitions, _END))
            if since_ms <= 0:
                start = self._required(self._ask(partitions, _FIRST))
            else:
                since = OffsetSpec.for_timestamp(since_ms)
                start = self._answered(self._ask(partitions, since))
        # below 0: no record is that late. Meanwhile a later record may have been appended.
        return {p: range(at if 0 <= at < end[p] else end[p], end[p]) for p, at in start.items()}

    def identities(self, topics: Sequence[str]) -> dict[str, TopicIdentity]:
        """The ids and partition counts of topics.

        Raises:
            TransientError: the broker did not answer, or does not know a topic (now).
        """
        names = TopicCollection(list(topics))
        with translate_kafka_errors(f"topics {', '.join(topics)}"):
            asked = self._admin.describe_topics(names, request_timeout=_REQUEST_SECONDS)
        found = dict[str, Any]()
        for name, answer in asked.items():
            with translate_kafka_errors(f"topic {name}"):
                found[name] = answer.result(_FUTURE_SECONDS)
        return {
            name: TopicIdentity(str(topic.topic_id), len(topic.partitions))
            for name, topic in found.items()
        }

    def committed(
        self, group: str, partitions: Collection[Partition]
    ) -> dict[Partition, TopicPartition]:
        """Committed offsets with their metadata. Partitions without one are left out.

        Raises:
            TransientError: the broker did not answer, or the group's coordinator is moving.
        """
        # A consumer that never joins, not the admin client: if the coordinator dies meanwhile, the
        # admin client's ListConsumerGroupOffsets aborts the process (seen with librdkafka 2.16).
        asking = Consumer({**self._settings, "group.id": group, "enable.auto.commit": False})
        try:
            with translate_kafka_errors(f"committed offsets of {group}"):
                parts = [TopicPartition(*partition) for partition in partitions]
                found = asking.committed(parts, timeout=_FUTURE_SECONDS)
                for offset in found:
                    if offset.error is not None:
                        raise KafkaException(offset.error)
        finally:
            asking.close()
        return {Partition(at.topic, at.partition): at for at in found if at.offset >= 0}

    def _required(self, asked: _Asked) -> dict[Partition, int]:
        found = self._answered(asked)
        # While a leader is elected librdkafka may return neither an error nor an offset for a
        # partition. A member that began at such an offset would fail: its partition has no offset.
        if missing := [partition for partition, offset in found.items() if offset < 0]:
            raise TransientError(f"no broker returned the offsets of {missing[0]}")
        return found

    def _ask(
        self,
        partitions: Collection[Partition],
        spec: OffsetSpec,
        isolation: IsolationLevel = STABLE,
    ) -> _Asked:
        asked = dict.fromkeys((TopicPartition(*partition) for partition in partitions), spec)
        return self._admin.list_offsets(
            asked, isolation_level=isolation, request_timeout=_REQUEST_SECONDS
        )

    def _answered(self, asked: _Asked) -> dict[Partition, int]:
        try:
            return {
                Partition(at.topic, at.partition): answer.result(_FUTURE_SECONDS).offset
                for at, answer in asked.items()
            }
        except KafkaException as error:
            if error.args[0].code() in _LEADER_MOVED:
                # without this librdkafka asks its cached leader for minutes, with every retry
                for topic in {partition.topic for partition in asked}:
                    self._admin.list_topics(topic, timeout=_METADATA_SECONDS)
            raise

    def _asked(self, question: Callable[[], R]) -> R:
        began = time.monotonic()
        while True:
            try:
                return question()
            except KafkaException as error:
                self._admin.poll(0)
                if self._refusal is not None:
                    reason = self._refusal.str()
                    raise ConfigError(f"the broker refuses the connection: {reason}") from None
                refused = self._faults.away is not None
                seconds = self._seconds_if_refused if refused else self._wait_seconds
                if time.monotonic() - began >= seconds:
                    # the connection's own fault explains more than "Broker transport failure"
                    if (away := self._faults.explained(error)) is None:
                        raise
                    raise TransientError(away) from error

    def _on_error(self, error: KafkaError) -> None:
        if error.code() in _REFUSALS:
            self._refusal = error
        else:
            self._faults.record(error)


def _missing(topic: str, fault: KafkaError | None) -> str:
    if fault is not None and fault.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
        return f"topic {topic}: {fault.str()}"
    return (
        f"topic {topic} does not exist (yet): check [topics] prefix, or run:"
        f" {command_line('topics create')}"
    )
