"""Sends messages and waits until the broker confirms them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import Message as Delivered

from tidegate.errors import (
    ConfigError,
    DeliveryError,
    DeliveryRefusedError,
    MessageTooLargeError,
)
from tidegate.events.limits import MAX_WIDE_BYTES
from tidegate.events.message import Message
from tidegate.events.topics import PARTITIONER
from tidegate.publisher.client_settings import require_protected_settings
from tidegate.publisher.reports import Receipt, Reports, Turns

DEFAULTS: Final[Mapping[str, str | int | bool]] = {
    "enable.idempotence": True,
    "acks": "all",
    "partitioner": PARTITIONER,
    "allow.auto.create.topics": False,
    "linger.ms": 0,
    # before compression; the topics' own limits, of 1 MiB as a rule, count what is compressed
    "message.max.bytes": MAX_WIDE_BYTES + 2**20,
    "compression.type": "zstd",
    "delivery.timeout.ms": 30_000,
    "log_level": 0,
}
_ANY_PARTITION: Final = -1
_OnDelivery = Callable[[KafkaError | None, Delivered | None], None]
_REFUSALS: Final = {
    KafkaError._AUTHENTICATION,  # noqa: SLF001 - librdkafka's own codes have underscores
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
}


@dataclass(slots=True, eq=False)
class _Connection:
    """A client, and whose turn it is to poll it."""

    producer: Producer
    turns: Turns = field(default_factory=Turns)


class ConfirmedProducer:
    """An idempotent producer that waits for confirmation.

    Safe to share between threads. A forked process that uses it gets a connection of its own.
    """

    def __init__(self, config: Mapping[str, str | int | bool]) -> None:
        """Create the client from librdkafka's settings; `bootstrap.servers` is required.

        Raises:
            ConfigError: librdkafka rejects a setting, or it would break a guarantee.
        """
        require_protected_settings(config)
        self._config = {**DEFAULTS, **config, "error_cb": self._on_error}
        self._denied: KafkaError | None = None
        self._replacing = threading.Lock()
        self._connection = self._connect()
        self._process = os.getpid()

    def send(self, messages: Sequence[Message]) -> list[Receipt]:
        """Send messages and wait until each is confirmed or has failed.

        Raises:
            DeliveryError: at least one was not confirmed within `delivery.timeout.ms`. Any of them
                may be stored nevertheless; repeated events are recognised by their ids.
            DeliveryRefusedError: the broker denies this principal access; raised at once.
            MessageTooLargeError: a message exceeds its topic's limit.
        """
        reports = Reports(len(messages))
        self._confirm(messages, reports)
        return reports.receipts()

    def confirm(self, messages: Sequence[Message]) -> None:
        """Send as `send` does, where nobody needs to know the messages' places.

        Raises:
            DeliveryError, DeliveryRefusedError, MessageTooLargeError: as `send`.
        """
        self._confirm(messages, Reports(len(messages), places=False))

    def _confirm(self, messages: Sequence[Message], reports: Reports) -> None:
        self._denied = None
        connection, record = self._own_connection(), reports.record
        for index, message in enumerate(messages):
            self._produce(connection.producer, message, partial(record, index))
        connection.turns.wait(reports, partial(self._poll, connection.producer))
        if failed := reports.faults():
            if any(each.fatal() or each.code() == KafkaError._FATAL for each in failed):  # noqa: SLF001
                self._replace(connection)
            raise self._fault(messages, failed)

    def close(self) -> None:
        """Wait up to five seconds for messages that other threads are sending."""
        if self._process == os.getpid():
            self._connection.producer.flush(5)

    def _poll(self, producer: Producer) -> None:
        producer.poll(0.05)
        if self._denied is not None:
            producer.purge()

    def _own_connection(self) -> _Connection:
        """The connection of this process: after a fork, one that has librdkafka's threads."""
        if self._process != os.getpid():
            _keep_for_ever(self._connection)
            self._connection, self._replacing = self._connect(), threading.Lock()
            self._process = os.getpid()
        return self._connection

    def _connect(self) -> _Connection:
        try:
            return _Connection(Producer(self._config))
        except KafkaException as error:
            raise ConfigError(f"Kafka producer: {error.args[0].str()}") from error

    def _replace(self, dead: _Connection) -> None:
        """Replace a producer after a fatal error: librdkafka never sends through it again."""
        with self._replacing:
            if self._connection is dead:
                self._connection = self._connect()

    def _on_error(self, error: KafkaError) -> None:
        if error.code() == KafkaError._AUTHENTICATION:  # noqa: SLF001
            self._denied = error

    def _fault(self, messages: Sequence[Message], failed: Sequence[KafkaError]) -> DeliveryError:
        reason = failed[0] if self._denied is None else self._denied
        topics = ", ".join(sorted({message.topic for message in messages}))
        summary = f"{len(failed)} of {len(messages)} messages were not confirmed ({topics})"
        return _error_type(reason)(f"{summary}: {reason.str()}")

    def _produce(self, producer: Producer, message: Message, on_delivery: _OnDelivery) -> None:
        topic, key, value, headers, partition = message
        where = _ANY_PARTITION if partition is None else partition
        while True:
            try:
                # positional arguments, because this runs for every message
                producer.produce(topic, value, key, where, on_delivery, None, 0, list(headers))
            except BufferError:  # the local queue is full: wait for the broker
                producer.poll(0.05)
            except KafkaException as error:
                on_delivery(error.args[0], None)
                return
            else:
                return


def _keep_for_ever(inherited: object) -> None:
    """Hold a reference that not even the end of the interpreter drops.

    Destroying a client that a fork inherited may wait for a lock that a thread of the parent held.
    A daemon thread's frame is never cleared.
    """
    threading.Thread(target=_hold, args=(inherited,), name="inherited", daemon=True).start()


def _hold(_inherited: object) -> None:
    threading.Event().wait()


def _error_type(reason: KafkaError) -> type[DeliveryError]:
    if reason.code() == KafkaError.MSG_SIZE_TOO_LARGE:
        return MessageTooLargeError
    return DeliveryRefusedError if reason.code() in _REFUSALS else DeliveryError
