"""A service's consumer group: its members, its topics, and how far it has read them."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import Final, NamedTuple

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from tidegate.bridges.position import READS, group_of
from tidegate.coordinator.rows.position import Position
from tidegate.coordinator.rows.store import Store
from tidegate.errors import ConfigError, TidegateError
from tidegate.events.topics import CHANGELOG
from tidegate.runtime.bus import Bus, Partition
from tidegate.runtime.kafka.errors import translate_kafka_errors
from tidegate.runtime.kafka.metadata import KafkaMetadata
from tidegate.runtime.kafka.records import Config
from tidegate.runtime.retry import RetryPolicy
from tidegate.service.catalogue import NAMES, inputs_of

_REQUEST_TIMEOUT: Final = 10.0
_RESULT_TIMEOUT: Final = 30.0
"""Longer than the request's, because the client's own error is more specific than our time-out."""
_RETRIES: Final = RetryPolicy(attempts=6, longest=2.0)
"""A broker that has just started loads its groups first."""
_IN_USE: Final = {
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.NON_EMPTY_GROUP,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.GROUP_SUBSCRIBED_TO_TOPIC,
}


class _Lag(NamedTuple):
    """A group's progress on a partition."""

    committed: int | None
    """The offset of the next record to read; None if the group has committed none."""
    records: int
    """The number of uncommitted records: kafka_consumergroup_lag."""


class Groups:
    """The consumer groups of a cluster."""

    def __init__(self, connection: Config, retries: RetryPolicy = _RETRIES) -> None:
        """Take librdkafka's settings, and the policy for failed requests."""
        self._admin = AdminClient({**connection, "log_level": 0})
        # for committed offsets: the admin client's ListConsumerGroupOffsets may abort the process
        # (librdkafka 2.16)
        self._metadata, self._retries = KafkaMetadata(connection), retries

    def check_unused(self, group: str) -> None:
        """Refuse a group with members; a group that does not exist has no members.

        Raises:
            TidegateError: the service is running.
        """
        if members := self.members(group):
            raise TidegateError(
                f"group {group} is in use by {', '.join(members)}: stop the service first; one that"
                " was killed, or has an instance_id, stays a member for session_timeout_ms"
            )

    def members(self, group: str) -> list[str]:
        """The members of a group, by client and host; empty if the group does not exist."""
        return self._retries.call(lambda: self._members(group))

    def stopped(self, prefix: str, services: Iterable[str]) -> list[str]:
        """Those of these services that do not run."""
        return [name for name in services if not self.members(f"{prefix}.{name}")]

    def _members(self, group: str) -> list[str]:
        try:
            [future] = self._admin.describe_consumer_groups(
                [group], request_timeout=_REQUEST_TIMEOUT
            ).values()
            return [f"{m.client_id} on {m.host}" for m in future.result(_RESULT_TIMEOUT).members]
        except KafkaException as error:
            if error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
                return []
            with translate_kafka_errors(f"group {group}"):
                raise

    def committed(self, group: str, partitions: Collection[Partition]) -> dict[Partition, int]:
        """The group's committed offsets; partitions without one are left out.

        Args:
            group: Its name, with the prefix.
            partitions: The partitions.
        """
        return {part: at.offset for part, at in self.positions(group, partitions).items()}

    def positions(
        self, group: str, partitions: Collection[Partition]
    ) -> dict[Partition, TopicPartition]:
        """The same, with the metadata that the group committed."""
        return self._retries.call(lambda: self._metadata.committed(group, partitions))

    def set_offsets(self, group: str, offsets: Mapping[Partition, int]) -> None:
        """Commit offsets for the group.

        Raises:
            TidegateError: the service was started meanwhile; no offset was changed.
        """
        self._retries.call(lambda: self._set_offsets(group, offsets))

    def _set_offsets(self, group: str, offsets: Mapping[Partition, int]) -> None:
        changed = [TopicPartition(*part, offset) for part, offset in offsets.items()]
        request = ConsumerGroupTopicPartitions(group, changed)
        try:
            [future] = self._admin.alter_consumer_group_offsets(
                [request], request_timeout=_REQUEST_TIMEOUT
            ).values()
            done = future.result(_RESULT_TIMEOUT).topic_partitions or []
            _check(partition.error for partition in done)
        except KafkaException as error:
            if error.args[0].code() in _IN_USE:
                raise TidegateError(
                    f"group {group} is in use by now: no offset was changed"
                ) from error
            with translate_kafka_errors(f"group {group}"):
                raise


def _check(errors: Iterable[KafkaError | None]) -> None:
    for error in errors:
        if error is not None:
            raise KafkaException(error)


def lags_of(
    metadata: KafkaMetadata, group: str, ends: Mapping[Partition, int]
) -> dict[Partition, _Lag]:
    """A group's progress on each partition that it reads.

    On a partition without a committed offset it starts at the first record, so all are uncommitted.

    Args:
        metadata: The cluster's.
        group: Its name, with the prefix.
        ends: The end offset of each partition.

    Raises:
        TransientError: the broker did not answer.
    """
    committed = {part: at.offset for part, at in metadata.committed(group, list(ends)).items()}
    new = [part for part in ends if part not in committed]
    first = {part: marks.first for part, marks in metadata.watermarks(new).items()} if new else {}
    return {
        # the end was read first, so a newer commit may be beyond it
        part: _Lag(committed.get(part), max(0, end - (committed | first)[part]))
        for part, end in ends.items()
    }


def topics_of(service: str, prefix: str) -> list[str]:
    """The full names of the topics that a service or a bridge reads as a member of its group."""
    topics = [READS[service]] if service in READS else inputs_of(service)
    return [topic.name(prefix) for topic in topics]


def lags_of_service(metadata: KafkaMetadata, prefix: str, service: str) -> dict[Partition, _Lag]:
    """How far a service or a bridge has read each partition of its topics; raises as `lags_of`."""
    names = topics_of(service, prefix)
    parts = [Partition(name, n) for name in names for n in range(metadata.partitions(name))]
    return lags_of(metadata, group_of(prefix, service), metadata.ends(parts))


def input_topics(service: str, topic: str | None, prefix: str) -> list[str]:
    """The full names of a service's input topics.

    Args:
        service: Its name.
        topic: Only this input topic, with or without the prefix; None: all of them.
        prefix: The prefix of the deployment's topics.

    Raises:
        ConfigError: there is no such service, or it does not consume the topic.
    """
    if service not in NAMES:
        raise ConfigError(f"unknown service {service!r}: choose one of {', '.join(NAMES)}")
    topics = sorted(found.suffix for found in inputs_of(service))
    wanted = topics if topic is None else [topic.removeprefix(f"{prefix}.")]
    if not set(wanted) <= set(topics):
        raise ConfigError(f"{service} does not consume {topic}, only {', '.join(topics)}")
    return [f"{prefix}.{suffix}" for suffix in wanted]


@contextmanager
def changed_position(bus: Bus, prefix: str, number: int) -> Generator[Position]:
    """Fence the coordinator, and write its changed position on a partition back after the block.

    Raises:
        StopService: the service was started meanwhile; nothing was written.
        FormatError: the changelog cannot be decoded.
    """
    log = bus.changelog(CHANGELOG.name(prefix))
    try:
        store = Store(())
        store.restore(record for _, records in log.acquire([number]) for record in records)
        yield store.position
        log.write({number: store.batch()})
    finally:
        log.close()
