"""Send messages and wait until the broker has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import Message as Delivered

from tidegate.errors import ConfigError, DeliveryError, DeliveryRefusedError
from tidegate.events.message import Headers
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
_REFUSALS: Final = {
    KafkaError._AUTHENTICATION,  # noqa: SLF001 - librdkafka's own codes have underscores
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
}


class Message(NamedTuple):
    """A message to send. Without a partition, the key decides."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    partition: int | None = None


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
        self._login_refused: KafkaError | None = None
        try:
            self._producer = Producer({**DEFAULTS, **config, "error_cb": self._note})
        except KafkaException as error:
            raise ConfigError(f"Kafka producer: {error.args[0].str()}") from error

    def send(self, messages: Sequence[Message]) -> list[Receipt]:
        """Send messages and wait for every one of them.

        Raises:
            DeliveryError: at least one was not confirmed in `delivery.timeout.ms`. Others may have
                been: sending all again is safe, because a repeat has the same event id.
            DeliveryRefusedError: the broker refuses this principal; said at once.
        """
        self._login_refused = None
        answers: dict[int, Receipt | KafkaError] = {}
        for index, message in enumerate(messages):
            self._produce(message, index, answers)
        while len(answers) < len(messages):
            self._producer.poll(0.05)
            if self._login_refused is not None:
                self._producer.purge()
        failed = [answer for answer in answers.values() if isinstance(answer, KafkaError)]
        if failed:
            raise self._fault(messages, failed)
        receipts = (answers[index] for index in range(len(messages)))
        return [receipt for receipt in receipts if isinstance(receipt, Receipt)]

    def _note(self, error: KafkaError) -> None:
        if error.code() == KafkaError._AUTHENTICATION:  # noqa: SLF001
            self._login_refused = error

    def _fault(self, messages: Sequence[Message], failed: Sequence[KafkaError]) -> DeliveryError:
        reason = failed[0] if self._login_refused is None else self._login_refused
        topics = ", ".join(sorted({each.topic for each in messages}))
        told = f"{len(failed)} of {len(messages)} messages were not confirmed ({topics})"
        kind = DeliveryRefusedError if reason.code() in _REFUSALS else DeliveryError
        return kind(f"{told}: {reason.str()}")

    def _produce(
        self, message: Message, index: int, answers: dict[int, Receipt | KafkaError]
    ) -> None:
        def settle(error: KafkaError | None, delivered: Delivered) -> None:
            answers[index] = error or _receipt(delivered)

        while True:
            try:
                self._producer.produce(
                    message.topic,
                    key=message.key,
                    value=message.value,
                    headers=list(message.headers),
                    partition=_ANY_PARTITION if message.partition is None else message.partition,
                    on_delivery=settle,
                )
            except BufferError:  # the local queue is full: let the broker catch up
                self._producer.poll(0.05)
            except KafkaException as error:
                answers[index] = error.args[0]
                return
            else:
                return

    def close(self) -> None:
        """Wait shortly for what is still on its way in other threads."""
        self._producer.flush(5)


def _receipt(delivered: Delivered) -> Receipt:
    return Receipt(
        str(delivered.topic()), int(delivered.partition() or 0), int(delivered.offset() or 0)
    )
