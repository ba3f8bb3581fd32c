"""Waiting for the outcome of what was published, without missing it and without a clock.

    with publisher.watch("lake.sales.orders") as watch:  # before publishing
        receipt = publisher.request_savepoint(table="lake.sales.orders", ...)
        answer = watch.wait_for(receipt, timeout=60)

A watch notes where the outcomes of its table end when it begins. Whatever answers an event that is
published later comes after that place, so it is read, however late the waiting begins.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple, Self, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka import Message as Received

from tidegate.errors import ConfigError, FormatError, Receipt, TransientError
from tidegate.events import Event, Outcome, table_identity
from tidegate.events.base import Verdict, answered_by, causes_of_answers
from tidegate.events.cleanings import DirectoriesOutcome, PartsJoiner
from tidegate.events.codec import Headers
from tidegate.events.topics import DEAD_LETTERS, OUTCOME_TOPIC, partition_of
from tidegate.events.wire import Wire, answered_id
from tidegate.publisher.connection import BrokerFaults, arrived, codes

_SETTINGS: Final[Mapping[str, str | int | bool]] = {
    "enable.auto.commit": False,
    "isolation.level": "read_committed",
    "allow.auto.create.topics": False,
    "auto.offset.reset": "error",
    "log_level": 0,
}
_BROKER_SECONDS: Final = 10.0
_REQUEST_SECONDS: Final = 5.0
_POLL_SECONDS: Final = 0.2
_ERROR: Final = "__connect.errors.exception.message"
_REFUSALS: Final = codes(
    "TOPIC_AUTHORIZATION_FAILED GROUP_AUTHORIZATION_FAILED _AUTHENTICATION _AUTO_OFFSET_RESET"
)


class Answered(NamedTuple):
    """What became of an event.

    `outcome` is None where there is none: the event was dead-lettered, as `message` says, or
    nothing came in time.
    """

    verdict: Verdict
    outcome: Event | None = None
    message: str = ""


class OutcomeWatch:
    """The outcomes of one table from the moment at which the watch begins. Not for two threads."""

    def __init__(
        self,
        config: Mapping[str, str | int | bool],
        prefix: str,
        wire: Wire,
        table: str,
        *,
        from_start: bool = False,
    ) -> None:
        """Note where the outcomes end now.

        Args:
            config: librdkafka's settings.
            prefix: The prefix of the deployment's topics.
            wire: How events are decoded.
            table: The table; events of other tables are answered elsewhere.
            from_start: Begin with the oldest outcome instead: what is published again may have its
                outcome already, and does not get another one.

        Raises:
            ConfigError: the table's name or a setting is invalid, or the topics don't exist.
            TransientError: no broker answers.
        """
        self._table, self._wire = table_identity(table), wire
        self._topics = tuple(topic.name(prefix) for topic in (OUTCOME_TOPIC, DEAD_LETTERS))
        # never joined, but described: who may read a topic may use the group of its name
        self._faults = BrokerFaults(config)
        own = {"group.id": self._topics[0], "error_cb": self._faults.record}
        try:
            self._consumer = Consumer({**config, **_SETTINGS, **own})
        except KafkaException as error:
            raise ConfigError(f"Kafka consumer: {error.args[0].str()}") from error
        try:
            self._consumer.assign([self._end(topic, from_start) for topic in self._topics])
        except BaseException:
            self._consumer.close()
            raise

    def wait_for(self, receipt: Receipt, timeout: float) -> Answered:
        """Wait for the final outcome of an event, at most so many seconds.

        Raises:
            ConfigError: the broker refuses access to the outcomes.
        """
        *_, last = self.answers(receipt, timeout)
        return last

    def answers(self, receipt: Receipt, timeout: float) -> Iterator[Answered]:
        """Every outcome of an event as it comes; the last one is final, or UNANSWERED.

        An outcome in parts comes once, when its last part is there. AWAITING ends the wait where no
        other outcome is there already: an approval may take a day.

        Raises:
            ConfigError: the broker refuses access to the outcomes.
        """
        causes = causes_of_answers(receipt.event_id)
        deadline, parts = time.monotonic() + timeout, PartsJoiner()
        is_awaiting = False
        while (left := deadline - time.monotonic()) > 0:
            messages = arrived(self._consumer, 100, min(left, _POLL_SECONDS))
            if is_awaiting and not messages:
                return
            for message in messages:
                answered = _whole(self._answered(message, causes), parts)
                if answered is None:
                    continue
                yield answered
                is_awaiting = answered.verdict is Verdict.AWAITING
                if answered.verdict not in (Verdict.UNDER_WAY, Verdict.AWAITING):
                    return
        yield Answered(Verdict.UNANSWERED, message=f"no final outcome within {timeout:g} s")

    def close(self) -> None:
        """Close the connection."""
        self._consumer.close()

    def __enter__(self) -> Self:
        """Close the connection at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    def _end(self, topic: str, from_start: bool) -> TopicPartition:  # noqa: FBT001 - private
        """Where to begin; a broker that is away, or elects a leader, gets some seconds."""
        deadline = time.monotonic() + _BROKER_SECONDS
        while True:
            try:
                return self._end_now(topic, from_start)
            except KafkaException as error:
                self._consumer.poll(0)  # serves the callback of the faults
                if time.monotonic() > deadline or error.args[0].code() in _REFUSALS:
                    reason = self._faults.away or f"the end of {topic}: {error.args[0].str()}"
                    raise TransientError(reason) from error
                time.sleep(_POLL_SECONDS)

    def _end_now(self, topic: str, from_start: bool) -> TopicPartition:  # noqa: FBT001 - private
        listed = self._consumer.list_topics(topic, timeout=_REQUEST_SECONDS).topics
        if (found := listed.get(topic)) is None:  # the answer may be older than the question
            raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
        if found.error is not None or not found.partitions:
            raise ConfigError(f"topic {topic} does not exist (yet), or may not be read")
        part = TopicPartition(topic, partition_of(self._table, len(found.partitions)))
        first, end = self._consumer.get_watermark_offsets(part, timeout=_REQUEST_SECONDS)
        return TopicPartition(topic, part.partition, first if from_start else end)

    def _answered(self, message: Received, causes: frozenset[str]) -> Answered | None:
        if (error := message.error()) is not None:
            if error.code() in _REFUSALS:
                raise ConfigError(f"{message.topic()}: {error.str()}")
            return None  # librdkafka connects again by itself
        if message.topic() == self._topics[1]:
            return _dead_letter(message, causes)
        value = message.value()
        if not isinstance(value, bytes) or not any(cause.encode() in value for cause in causes):
            return None  # decoding costs more than this search for the id
        try:
            outcome = self._wire.deserialize(_bytes(message.key()), value, _headers(message))
        except FormatError:
            return None  # an answer can always be decoded
        if isinstance(outcome, Outcome) and outcome.table == self._table:
            answers = not causes.isdisjoint(answered_by(outcome))
            return Answered(outcome.verdict, outcome) if answers else None
        return None


def _whole(answered: Answered | None, parts: PartsJoiner) -> Answered | None:
    """The same; None for a part of an outcome, until its last one comes."""
    if answered is None or not isinstance(answered.outcome, DirectoriesOutcome):
        return answered
    whole = parts.add(answered.outcome)
    return None if whole is None else answered._replace(outcome=whole)


def _dead_letter(message: Received, causes: frozenset[str]) -> Answered | None:
    """The dead letter of the event itself, or of the task with what was requested."""
    headers = dict(_headers(message))
    if answered_id(headers).decode(errors="replace") not in causes:
        return None
    reason = (headers.get(_ERROR) or b"no reason is given").decode(errors="replace")
    return Answered(Verdict.FAILED, message=f"it was dead-lettered: {reason}")


def _headers(message: Received) -> Headers:
    try:
        # confluent-kafka is typed more widely than the list of pairs that it returns
        return tuple(cast("Headers", message.headers() or ()))
    except (SystemError, UnicodeError):  # a name that is not UTF-8: nothing of ours has one
        return ()


def _bytes(content: bytes | str | None) -> bytes | None:
    return content.encode() if isinstance(content, str) else content
