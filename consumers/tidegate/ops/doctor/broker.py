"""Check that the broker is reachable, and that the topics are as declared and co-partitioned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from tidegate.errors import ConfigError
from tidegate.errors.commands import command_line
from tidegate.events.topics import ALL_TOPICS, DEAD_LETTERS
from tidegate.ops.doctor.finding import Finding, Status
from tidegate.ops.groups import Groups
from tidegate.runtime.bus import Partition
from tidegate.runtime.kafka.metadata import KafkaMetadata
from tidegate.service.settings import Settings, TopicSettings
from tidegate.service.topics import TopicDifference, deployment, describe_topics, differences

REQUEST_TIMEOUT: Final = 5.0
"""Seconds for a request."""
RESULT_TIMEOUT: Final = REQUEST_TIMEOUT + 1
"""Longer than the request's, because the client's own error is more specific than our time-out."""
_ADVICE: Final = (
    "start it, or correct the settings: KAFKA_BOOTSTRAP_SERVERS, or in [kafka]"
    " bootstrap.servers, security.protocol, sasl.*, ssl.*"
)


class Broker:
    """The cluster of the settings, read-only."""

    def __init__(self, settings: Settings) -> None:
        """Create the clients; nothing is sent yet.

        Raises:
            ConfigError: no broker is configured, or librdkafka refuses a setting.
        """
        self.connection = settings.connection()
        self.topics = settings.topics
        self._faults: list[KafkaError] = []
        callbacks: dict[str, Any] = {"log_level": 0, "error_cb": self._faults.append}
        config = {**self.connection, **callbacks}
        try:
            self.admin = AdminClient(config)
        except KafkaException as error:
            raise ConfigError(f"Kafka: {error.args[0].str()}") from error
        self.metadata = KafkaMetadata(self.connection, wait_seconds=REQUEST_TIMEOUT)
        self.groups = Groups(self.admin, self.metadata)

    def spans(self, topics: Sequence[str]) -> dict[Partition, range]:
        """The available offsets of every partition; topics that do not exist are left out."""
        parts = [
            Partition(name, number)
            for name, found in describe_topics(self.admin, topics, REQUEST_TIMEOUT).items()
            for number in range(found.partitions)
        ]
        marks = self.metadata.watermarks(parts) if parts else {}
        return {part: range(mark.first, mark.end) for part, mark in marks.items()}

    def reached(self) -> Finding:
        """Whether a broker responds, and the number of brokers."""
        try:
            future = self.admin.describe_cluster(request_timeout=REQUEST_TIMEOUT)
            cluster = future.result(RESULT_TIMEOUT)
        except KafkaException as error:
            return Finding("broker", Status.FAIL, self._why(error.args[0]), _ADVICE)
        nodes = ", ".join(f"{node.host}:{node.port}" for node in cluster.nodes)
        controller = cluster.controller.id if cluster.controller else "unknown"
        seen = f"{len(cluster.nodes)} reached as {nodes}, controller {controller}"
        return Finding("broker", Status.OK, seen)

    def check_topics_as_declared(self) -> Finding:
        """Whether every topic exists as declared."""
        declared = deployment(self.topics)
        try:
            found = describe_topics(self.admin, [topic.name for topic in declared], REQUEST_TIMEOUT)
        except ConfigError as error:
            return not_permitted("topics", error)
        if wrong := differences(declared, found):
            seen = "; ".join(TopicDifference.lines(wrong))
            hidden = all(difference.what == "settings" for difference in wrong)
            state = Status.WARN if hidden else Status.FAIL
            return Finding("topics", state, seen, f"see: {command_line('topics check')}")
        return Finding("topics", Status.OK, f"all {len(declared)} are as declared")

    def check_copartitioning(self) -> Finding:
        """Whether the topics have the same number of partitions."""
        names = copartitioned(self.topics)
        try:
            found = describe_topics(self.admin, names, REQUEST_TIMEOUT)
        except ConfigError as error:
            return not_permitted("co-partitioning", error)
        counts = {name: topic.partitions for name, topic in found.items()}
        return copartitioning(names, counts)

    def _why(self, error: KafkaError) -> str:
        """The underlying cause: a time-out does not mention a refused login or connection."""
        self.admin.poll(0)
        causes = [
            fault
            for fault in self._faults
            if fault.code() != KafkaError._ALL_BROKERS_DOWN  # noqa: SLF001 - librdkafka's own code
        ]
        return causes[-1].str() if causes else error.str()


def not_permitted(check: str, error: Exception) -> Finding:
    """A warning: a service's own principal need not see the topics of others."""
    advice = "run the doctor as a principal that may describe all topics and their settings"
    return Finding(check, Status.WARN, f"unknown: {error}", advice)


def copartitioned(settings: TopicSettings) -> list[str]:
    """The topics on which a table's events and rows are on the same partition number."""
    return [topic.name(settings.prefix) for topic in ALL_TOPICS if topic is not DEAD_LETTERS]


def copartitioning(names: Sequence[str], partitions: Mapping[str, int]) -> Finding:
    """Compare the partition counts of the topics that must be co-partitioned. Pure.

    Args:
        names: Those topics.
        partitions: The number of partitions of each existing topic.
    """
    check = "co-partitioning"
    if missing := sorted(set(names) - set(partitions)):
        return Finding(check, Status.SKIPPED, f"missing topics: {', '.join(missing)}")
    if len({partitions[name] for name in names}) > 1:
        seen = ", ".join(f"{name} has {partitions[name]}" for name in names)
        advice = (
            "create them again with the same number of partitions: a table's events and state are"
            " on different partitions"
        )
        return Finding(check, Status.FAIL, seen, advice)
    return Finding(check, Status.OK, f"{len(names)} topics have the same number of partitions")
