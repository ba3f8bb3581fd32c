"""Send messages and wait until the broker has them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import Message as Delivered

from tidegate.errors import (
    ConfigError,
    DeliveryError,
    DeliveryRefusedError,
    MessageTooLargeError,
)
from tidegate.events.message import Message
from tidegate.events.topics import PARTITIONER

DEFAULTS: Final[Mapping[str, str | int | bool]] = {
    "enable.idempotence": True,
    "acks": "all",
    "partitioner": PARTITIONER,
    "linger.ms": 0,
    "message.max.bytes": 2 * 2**20,  # each topic has its own, smaller limit
    "delivery.timeout.ms": 30_000,
    "log_level": 0,
}
_ANY_PARTITION: Final = -1
_Answer = Callable[[KafkaError | None, Delivered | None], None]
_REFUSALS: Final = {
    KafkaError._AUTHENTICATION,  # noqa: SLF001 - librdkafka's own codes have underscores
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
}


class Receipt(NamedTuple):
    """Where the broker put a message."""

    topic: str
    partition: int
    offset: int


class ConfirmedProducer:
    """An idempotent producer whose `send` returns only confirmed messages. Safe to share."""

    def __init__(self, config: Mapping[str, str | int | bool]) -> None:
        """Take librdkafka's settings; `bootstrap.servers` is the one that must be there.

        Raises:
            ConfigError: librdkafka refuses a setting.
        """
        self._config = {**DEFAULTS, **config, "error_cb": self._note}
        self._login_refused: KafkaError | None = None
        self._replacing = threading.Lock()
        self._producer = self._connect()

    def send(self, messages: Sequence[Message]) -> list[Receipt]:
        """Send messages and wait for every one of them.

        Raises:
            DeliveryError: at least one was not confirmed in `delivery.timeout.ms`. Others may have
                been: sending all again is safe, because a repeat has the same event id.
            DeliveryRefusedError: the broker refuses this principal; said at once.
            MessageTooLargeError: a topic takes no message of that size.
        """
        self._login_refused = None
        producer, answers = self._producer, _Answers(len(messages))
        take = answers.take
        for index, message in enumerate(messages):
            self._produce(producer, message, partial(take, index))
        while answers.missing:
            producer.poll(0.05)
            if self._login_refused is not None:
                producer.purge()
        if failed := answers.faults():
            if any(each.fatal() or each.code() == KafkaError._FATAL for each in failed):  # noqa: SLF001
                self._replace(producer)
            raise self._fault(messages, failed)
        return answers.receipts()

    def close(self) -> None:
        """Wait shortly for what is still on its way in other threads."""
        self._producer.flush(5)

    def _connect(self) -> Producer:
        try:
            return Producer(self._config)
        except KafkaException as error:
            raise ConfigError(f"Kafka producer: {error.args[0].str()}") from error

    def _replace(self, dead: Producer) -> None:
        """After a fatal fault librdkafka sends nothing more through a producer, for ever."""
        with self._replacing:
            if self._producer is dead:
                self._producer = self._connect()

    def _note(self, error: KafkaError) -> None:
        if error.code() == KafkaError._AUTHENTICATION:  # noqa: SLF001
            self._login_refused = error

    def _fault(self, messages: Sequence[Message], failed: Sequence[KafkaError]) -> DeliveryError:
        reason = failed[0] if self._login_refused is None else self._login_refused
        topics = ", ".join(sorted({each.topic for each in messages}))
        told = f"{len(failed)} of {len(messages)} messages were not confirmed ({topics})"
        return _kind_of(reason)(f"{told}: {reason.str()}")

    def _produce(self, producer: Producer, message: Message, answer: _Answer) -> None:
        topic, key, value, headers, partition = message
        where = _ANY_PARTITION if partition is None else partition
        while True:
            try:
                # by position, and one call: this runs for every message
                producer.produce(topic, value, key, where, answer, None, 0, list(headers))
            except BufferError:  # the local queue is full: let the broker catch up
                producer.poll(0.05)
            except KafkaException as error:
                answer(error.args[0], None)
                return
            else:
                return


def _kind_of(reason: KafkaError) -> type[DeliveryError]:
    if reason.code() == KafkaError.MSG_SIZE_TOO_LARGE:
        return MessageTooLargeError
    return DeliveryRefusedError if reason.code() in _REFUSALS else DeliveryError


class _Answers:
    """What the broker says to each of some messages, by their index."""

    __slots__ = ("_count", "_said")

    def __init__(self, count: int) -> None:
        self._count = count
        self._said: dict[int, KafkaError | Receipt] = {}

    @property
    def missing(self) -> bool:
        """Whether a message is not answered yet."""
        return len(self._said) < self._count

    def take(self, index: int, error: KafkaError | None, delivered: Delivered | None) -> None:
        """Note an answer, in whichever thread asks for them."""
        if error is not None:
            self._said[index] = error
        elif delivered is not None:
            topic, partition, offset = delivered.topic(), delivered.partition(), delivered.offset()
            self._said[index] = Receipt(topic or "", partition or 0, offset or 0)

    def faults(self) -> list[KafkaError]:
        """Why messages were not confirmed."""
        return [each for each in self._said.values() if isinstance(each, KafkaError)]

    def receipts(self) -> list[Receipt]:
        """Where the messages are, in their order."""
        placed = (self._said[index] for index in range(self._count))
        return [each for each in placed if isinstance(each, Receipt)]
