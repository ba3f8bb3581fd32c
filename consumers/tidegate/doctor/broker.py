"""Is there a broker, are its topics as declared, do the topics of a decider fit together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from tidegate.doctor.finding import Finding, State
from tidegate.errors import ConfigError
from tidegate.events.topics import COMMAND_TOPIC, changelog, topic_of
from tidegate.services.assembly import DECIDERS, HEARD
from tidegate.settings import Settings, TopicSettings
from tidegate.topics import deployment, differences, look

SECONDS: Final = 5.0
"""How long a broker may take for an answer."""
PATIENCE: Final = SECONDS + 1
"""So much longer than a request: its own fault says more than a time-out does."""
_PUT_RIGHT: Final = (
    "start it, or put the settings right: KAFKA_BOOTSTRAP_SERVERS, or in [kafka]"
    " bootstrap.servers, security.protocol, sasl.*, ssl.*"
)


class Broker:
    """The cluster of the settings. Nothing is written there."""

    def __init__(self, settings: Settings) -> None:
        """Describe the connection; nothing is sent yet.

        Raises:
            ConfigError: no broker is named, or librdkafka refuses a setting.
        """
        self.connection = settings.connection()
        self.topics = settings.topics
        self._faults: list[KafkaError] = []
        noted: dict[str, Any] = {"log_level": 0, "error_cb": self._faults.append}
        config = {**self.connection, **noted}
        try:
            self.admin = AdminClient(config)
        except KafkaException as error:
            raise ConfigError(f"Kafka: {error.args[0].str()}") from error

    def reached(self) -> Finding:
        """Whether a broker answers, and how many there are."""
        try:
            asked = self.admin.describe_cluster(request_timeout=SECONDS)
            told = asked.result(PATIENCE)
        except KafkaException as error:
            return Finding("broker", State.FAIL, self._why(error.args[0]), _PUT_RIGHT)
        nodes = ", ".join(f"{each.host}:{each.port}" for each in told.nodes)
        controller = told.controller.id if told.controller else "unknown"
        seen = f"{len(told.nodes)} reached as {nodes}, controller {controller}"
        return Finding("broker", State.OK, seen)

    def topics_as_declared(self) -> Finding:
        """Whether every topic is there, as it is declared."""
        declared = deployment(self.topics, DECIDERS)
        try:
            found = look(self.admin, [each.name for each in declared], SECONDS)
        except ConfigError as error:
            return unseen("topics", error)
        if wrong := differences(declared, found):
            seen = "; ".join(map(str, wrong))
            hidden = all(each.what == "settings" for each in wrong)
            state = State.WARN if hidden else State.FAIL
            return Finding("topics", state, seen, "see them: tidegate topics check")
        return Finding("topics", State.OK, f"all {len(declared)} are as declared")

    def copartitioned(self) -> Finding:
        """Whether all topics of each decider have the same number of partitions."""
        names = [each.name for each in deployment(self.topics, DECIDERS)]
        try:
            found = look(self.admin, names, SECONDS)
        except ConfigError as error:
            return unseen("co-partitioning", error)
        counts = {name: each.partitions for name, each in found.items()}
        return copartitioning(decider_topics(self.topics), counts)

    def _why(self, error: KafkaError) -> str:
        """The cause: a time-out's own words say nothing of a refused login or connection."""
        self.admin.poll(0)
        causes = [
            fault
            for fault in self._faults
            if fault.code() != KafkaError._ALL_BROKERS_DOWN  # noqa: SLF001 - librdkafka's own code
        ]
        return causes[-1].str() if causes else error.str()


def unseen(check: str, error: Exception) -> Finding:
    """A service's own principal need not see the topics of the others."""
    advice = "run the doctor as a principal that may describe all topics and their settings"
    return Finding(check, State.WARN, f"unknown: {error}", advice)


def decider_topics(settings: TopicSettings) -> dict[str, tuple[str, ...]]:
    """For each decider what must lie together: its inputs, the commands, its changelog."""
    return {
        name: tuple(
            topic.name(settings.prefix)
            for topic in (*map(topic_of, HEARD[name]), COMMAND_TOPIC, changelog(name))
        )
        for name in DECIDERS
    }


def copartitioning(groups: Mapping[str, Sequence[str]], partitions: Mapping[str, int]) -> Finding:
    """Compare the numbers of partitions of the topics that belong together. Pure.

    Args:
        groups: The topics of each decider.
        partitions: The number of partitions of each topic that is there.
    """
    check = "co-partitioning"
    if missing := sorted({name for each in groups.values() for name in each} - set(partitions)):
        return Finding(check, State.SKIPPED, f"not all topics are there: {', '.join(missing)}")
    wrong = [
        f"{decider}: " + ", ".join(f"{name} has {partitions[name]}" for name in names)
        for decider, names in groups.items()
        if len({partitions[name] for name in names}) > 1
    ]
    if wrong:
        advice = "make these topics anew with one number: a table's events and its state lie apart"
        return Finding(check, State.FAIL, "; ".join(wrong), advice)
    return Finding(check, State.OK, f"the topics of {' and '.join(groups)} lie together")
