"""Check the broker, its topics, and the rights of this principal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from tidegate.errors import ConfigError
from tidegate.errors.commands import command_line
from tidegate.ops.acls import Acl, acls
from tidegate.ops.doctor.finding import DENIED, Finding, Status
from tidegate.ops.groups import Groups
from tidegate.runtime.bus import Partition
from tidegate.runtime.kafka.metadata import KafkaMetadata
from tidegate.service.settings import Settings
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
            return Finding(Status.FAIL, self._why(error.args[0]), _ADVICE)
        nodes = ", ".join(f"{node.host}:{node.port}" for node in cluster.nodes)
        controller = cluster.controller.id if cluster.controller else "unknown"
        seen = f"{len(cluster.nodes)} reached as {nodes}, controller {controller}"
        return Finding(Status.OK, seen)

    def check_topics_as_declared(self) -> Finding:
        """Whether every topic exists as declared."""
        declared = deployment(self.topics)
        try:
            found = describe_topics(self.admin, [topic.name for topic in declared], REQUEST_TIMEOUT)
        except ConfigError as error:
            return not_permitted(error)
        if wrong := differences(declared, found):
            seen = "; ".join(TopicDifference.lines(wrong))
            hidden = all(difference.what == "settings" for difference in wrong)
            state = Status.WARN if hidden else Status.FAIL
            return Finding(state, seen, f"see: {command_line('topics check')}")
        return Finding(Status.OK, f"all {len(declared)} are as declared")

    def _why(self, error: KafkaError) -> str:
        """The underlying cause: a time-out does not mention a refused login or connection."""
        self.admin.poll(0)
        causes = [
            fault
            for fault in self._faults
            if fault.code() != KafkaError._ALL_BROKERS_DOWN  # noqa: SLF001 - librdkafka's own code
        ]
        return causes[-1].str() if causes else error.str()


def not_permitted(error: Exception) -> Finding:
    """A warning: a service's own principal need not see the topics of others."""
    advice = "run the doctor as a principal that may describe all topics and their settings"
    return Finding(Status.WARN, f"unknown: {error}", advice)


Allowed = Mapping[tuple[str, str], frozenset[str]]
"""The allowed operations by resource and name; unreported resources are left out."""


def check_access(broker: Broker, service: str) -> Finding:
    """Whether the principal of the settings has every right that a service needs."""
    rights = acls(broker.topics.prefix)
    needed = [right for right in rights if right.role == service]
    return compare_rights(needed, _allowed(broker, needed))


def compare_rights(needed: Sequence[Acl], allowed: Allowed) -> Finding:
    """Compare the needed rights with the rights that the broker reports. Pure."""
    missing = [
        right
        for right in needed
        if right.operation not in allowed.get((right.resource, right.name), {right.operation})
    ]
    unreported = [right for right in needed if (right.resource, right.name) not in allowed]
    unknown = sorted({right.resource for right in unreported})
    if missing:
        rights = ", ".join(f"{right.operation} {right.resource} {right.name}" for right in missing)
        advice = (
            "run the doctor as the service's principal, or grant them:"
            f" {command_line('topics acls')}"
        )
        return Finding(Status.FAIL, f"this principal may not {rights}", advice)
    known = "this principal has all rights that the broker reports"
    seen = f"{known}; unknown: {', '.join(unknown)}" if unknown else known
    return Finding(Status.OK if len(unreported) < len(needed) else Status.SKIPPED, seen)


def _allowed(broker: Broker, needed: Sequence[Acl]) -> dict[tuple[str, str], frozenset[str]]:
    names = {
        kind: sorted({right.name for right in needed if right.resource == kind})
        for kind in ("topic", "group")
    }
    options: dict[str, Any] = {
        "include_authorized_operations": True,
        "request_timeout": REQUEST_TIMEOUT,
    }
    futures = {
        "topic": broker.admin.describe_topics(TopicCollection(names["topic"]), **options),
        "group": broker.admin.describe_consumer_groups(names["group"], **options),
    }
    return {
        (kind, name): operations
        for kind, described in futures.items()
        for name, operations in _operations(described.items())
    }


def _operations(futures: Iterable[tuple[str, Future[Any]]]) -> Iterator[tuple[str, frozenset[str]]]:
    for name, future in futures:
        try:
            operations = future.result(RESULT_TIMEOUT).authorized_operations
        except KafkaException as error:
            if error.args[0].code() in DENIED:
                yield name, frozenset()
            continue
        if operations is not None:
            yield name, frozenset(operation.name.lower() for operation in operations)
