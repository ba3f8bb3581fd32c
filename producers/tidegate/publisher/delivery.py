"""Sends messages and waits until the broker confirms them."""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from functools import partial
from math import inf
from queue import Empty, SimpleQueue
from typing import Any, Final, cast

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import Message as Delivered
from confluent_kafka.admin import AdminClient

from tidegate.errors import (
    Delivery,
    DeliveryError,
    DeliveryRefusedError,
    MessageTooLargeError,
    NotStored,
    Receipt,
    Unconfirmed,
)
from tidegate.errors.commands import command_line
from tidegate.events.fields import MAX_WIDE_BYTES
from tidegate.events.topics import PARTITIONER
from tidegate.events.wire import Message
from tidegate.publisher.client_settings import require_protected_settings
from tidegate.publisher.connection import (
    CHECK_SECONDS,
    POLL_SECONDS,
    BrokerFaults,
    Connection,
    codes,
    login_refused,
)

log = logging.getLogger(__name__)
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
_CLOSE_SECONDS: Final = 5.0
_EXIT_SECONDS: Final = 0.2
_REPORT_SECONDS: Final = 10.0
"""How long after its time-out the client may take to report a message."""
_CHECKS_BEFORE_WARNING: Final = 2
_TIMEOUTS: Final = ("delivery.timeout.ms", "message.timeout.ms")
_REFUSALS: Final = codes(
    """
    _AUTHENTICATION CLUSTER_AUTHORIZATION_FAILED SASL_AUTHENTICATION_FAILED
    TOPIC_AUTHORIZATION_FAILED
    """
)
_NOT_STORED: Final = codes(
    """
    CLUSTER_AUTHORIZATION_FAILED INVALID_MSG INVALID_RECORD MSG_SIZE_TOO_LARGE POLICY_VIOLATION
    RECORD_LIST_TOO_LARGE TOPIC_AUTHORIZATION_FAILED TOPIC_EXCEPTION _UNKNOWN_PARTITION
    _UNKNOWN_TOPIC
    """
)
"""After these answers the broker does not have the message; after others it may have it."""
_NO_TOPIC: Final = {KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_OR_PART}  # noqa: SLF001
_PURGED: Final = {KafkaError._PURGE_INFLIGHT, KafkaError._PURGE_QUEUE}  # noqa: SLF001


class _Reports:
    """The delivery reports of one call, by the index of the message.

    `SimpleQueue` is the signal because its calls are atomic: an exception that a signal handler
    raises in the waiting call leaves no lock taken that `record` would wait for.
    """

    __slots__ = ("_by_index", "_complete", "_count", "_fault", "_is_back", "not_sent")

    def __init__(self, count: int) -> None:
        """Expect reports of so many messages."""
        self._count = count
        self._by_index: dict[int, KafkaError | Receipt] = {}
        self._complete: SimpleQueue[None] = SimpleQueue()
        self._fault: Exception | None = None
        self._is_back = False
        self.not_sent: set[int] = set()
        """The messages that the client did not take."""

    @property
    def arrived(self) -> int:
        """How many messages have a report."""
        return len(self._by_index)

    def record(self, index: int, error: KafkaError | None, delivered: Delivered | None) -> None:
        """Store a report. The polling thread calls it; it never blocks."""
        if error is not None:
            self._by_index[index] = error
        elif delivered is not None:
            topic, partition, offset = delivered.topic(), delivered.partition(), delivered.offset()
            self._by_index[index] = Receipt(topic or "", partition or 0, offset or 0)
        if len(self._by_index) == self._count:
            self._complete.put(None)

    def fail(self, error: Exception) -> None:
        """The messages can't be sent: raise this where they are waited for."""
        self._fault = error
        self._complete.put(None)

    def hand_back(self) -> None:
        """The connection was closed before it took the messages."""
        self._is_back = True
        self._complete.put(None)

    def was_handed_back(self) -> bool:
        """Whether the messages have to be sent again; then it expects their reports again."""
        is_back, self._is_back = self._is_back, False
        return is_back

    def wait(self, seconds: float) -> bool:
        """Wait until every message has a report, at most so many seconds; whether it has.

        It is true, too, where the messages were handed back.

        Raises:
            Exception: what `fail` was called with.
        """
        if len(self._by_index) < self._count:
            try:
                self._complete.get(timeout=seconds)
            except Empty:
                return False
        if self._fault is not None:
            raise self._fault
        return self._is_back or len(self._by_index) >= self._count

    def too_large(self) -> list[int]:
        """The messages that the broker refused for their size."""
        return [
            index
            for index, found in sorted(self._by_index.items())
            if isinstance(found, KafkaError)
            and found.code() == KafkaError.MSG_SIZE_TOO_LARGE
            and index not in self.not_sent
        ]

    def forget(self, index: int) -> None:
        """Expect another report of a message: it is sent again."""
        del self._by_index[index]

    def outcomes(self) -> list[KafkaError | Receipt | None]:
        """The outcome of each message, in their order; None where no report came."""
        return [self._by_index.get(index) for index in range(self._count)]

    def receipts(self) -> list[Receipt]:
        """The receipts in the order of the messages."""
        return [found for found in self.outcomes() if isinstance(found, Receipt)]

    def failed(self) -> list[KafkaError]:
        """The errors of the messages that were not confirmed."""
        return [found for found in self._by_index.values() if isinstance(found, KafkaError)]


class ConfirmedProducer:
    """An idempotent producer that waits for confirmation.

    Safe to share between threads. A forked process that uses it gets a connection of its own. An
    exception may leave any call at any moment (Ctrl-C, a time limit that a signal handler raises):
    what that call sent may be stored, and the producer works on.
    """

    def __init__(self, config: Mapping[str, str | int | bool]) -> None:
        """Create the client from librdkafka's settings; `bootstrap.servers` is required.

        Raises:
            ConfigError: librdkafka rejects a setting, or it would break a guarantee.
        """
        require_protected_settings(config)
        self._config = {**DEFAULTS, **config}
        self._seconds = _report_seconds(self._config)
        self._cluster_id = ""
        self._connection = self._owned(Connection(self._config))
        self._connection.connect()

    def send(self, messages: Sequence[Message]) -> list[Receipt]:
        """Send messages and wait until each is confirmed or has failed.

        Raises:
            DeliveryError: at least one was not confirmed within `delivery.timeout.ms`; `results`
                has the outcome of each. Repeated events are recognised by their ids.
            DeliveryRefusedError: the broker denies this principal access; raised at once.
            MessageTooLargeError: a message exceeds its topic's limit.
        """
        reports = _Reports(len(messages))

        connection = self._attempt(dict(enumerate(messages)), reports)
        if len(messages) > 1:
            # the broker refuses all that the client put into one request with what is too large
            for index in reports.too_large():
                reports.forget(index)
                connection = self._attempt({index: messages[index]}, reports)
        failed = reports.failed()
        if not failed and reports.arrived == len(messages):
            connection.faults.away = None
            return reports.receipts()
        if any(error.fatal() or error.code() == KafkaError._FATAL for error in failed):  # noqa: SLF001
            self._replace(connection)
        raise self._fault(messages, reports, connection.faults)

    def _attempt(self, messages: Mapping[int, Message], reports: _Reports) -> Connection:
        """Send messages and wait for their reports; the connection that took them."""
        while True:
            connection = self._own_connection()
            connection.start()
            connection.run(partial(_send_all, self._seconds, messages, reports))
            self._wait(connection, reports)
            if not reports.was_handed_back():
                return connection

    def cluster_id(self) -> str:
        """The id of the Kafka cluster; asked for once.

        Raises:
            DeliveryError: no broker answers within `delivery.timeout.ms`.
            DeliveryRefusedError: the broker refuses the login; raised at once.
        """
        deadline, faults = time.monotonic() + self._seconds, BrokerFaults(self._config)
        settings: dict[str, Any] = {**self._config, "error_cb": faults.record}
        admin = None if self._cluster_id else AdminClient(settings)
        while admin is not None and not self._cluster_id:
            reason = "the broker does not know it yet"
            try:
                found = cast("str | None", admin.list_topics(timeout=CHECK_SECONDS).cluster_id)
                self._cluster_id = found or ""
            except KafkaException as error:
                reason = error.args[0].str()
            admin.poll(0)  # serves `error_cb`
            if faults.denied is not None or time.monotonic() > deadline:
                kind = DeliveryError if faults.denied is None else DeliveryRefusedError
                why = faults.away or reason if faults.denied is None else faults.denied.str()
                raise kind(f"nothing was sent, because a signature names the cluster: {why}")
        return self._cluster_id

    def close(self) -> None:
        """Wait up to five seconds for messages that other threads are sending.

        A producer that is used again connects again.
        """
        self._connection.stop(_CLOSE_SECONDS)

    def _wait(self, connection: Connection, reports: _Reports) -> None:
        """Wait for the reports; gives up some time after the last one."""
        arrived, since, waited = -1, time.monotonic(), 0
        while not reports.wait(CHECK_SECONDS):
            connection.start()
            waited += 1
            if waited == _CHECKS_BEFORE_WARNING and connection.faults.away:
                log.warning("%s. Trying again for a while", connection.faults.away)
            if reports.arrived > arrived:
                arrived, since = reports.arrived, time.monotonic()
            elif time.monotonic() - since > self._seconds:
                return

    def _own_connection(self) -> Connection:
        """The connection of this process; after a fork a new one, with librdkafka's threads."""
        connection = self._connection
        if connection.process != os.getpid():
            _keep_forever(connection)
            connection = self._connection = self._owned(Connection(self._config))
        return self._replace(connection) if connection.is_closed else connection

    def _owned(self, connection: Connection) -> Connection:
        # its thread ends with this producer, and before the interpreter
        weakref.finalize(self, _end, weakref.ref(connection))
        return connection

    def _replace(self, dead: Connection) -> Connection:
        """Replace a connection that was closed, or had a fatal error and never sends again."""
        dead.stop(0)
        connection = self._connection = self._owned(dead.successor())
        return connection

    def _fault(
        self, messages: Sequence[Message], reports: _Reports, faults: BrokerFaults
    ) -> DeliveryError:
        denied = faults.denied
        results: list[Delivery] = []
        kinds: dict[type[DeliveryError], str] = {}
        for index, found in enumerate(reports.outcomes()):
            if isinstance(found, Receipt):
                results.append(found)
                continue
            error = denied if found and denied and found.code() in _PURGED else found
            reason = _reason(error, faults, messages[index].topic)
            kinds.setdefault(_error_type(error), reason)
            is_refused = index in reports.not_sent or (error and error.code() in _NOT_STORED)
            results.append(NotStored(reason) if is_refused else Unconfirmed(reason))
        topics = ", ".join(sorted({message.topic for message in messages}))
        failed = sum(not isinstance(result, Receipt) for result in results)
        summary = f"{failed} of {len(messages)} messages were not confirmed ({topics})"
        kind = next(iter(kinds)) if len(kinds) == 1 else DeliveryError
        fault = kind(f"{summary}: {'; '.join(kinds.values())}")
        fault.results = tuple(results)
        return fault


def _send_all(
    seconds: float, messages: Mapping[int, Message], reports: _Reports, producer: Producer | None
) -> None:
    """A job of the polling thread; without a producer the connection was closed before it ran."""
    if producer is None:
        reports.hand_back()
        return
    for index, message in messages.items():
        try:
            _send(seconds, message, index, reports, producer)
        except Exception as error:  # noqa: BLE001 - the caller, in another thread, raises it
            reports.fail(error)
            return


def _send(
    seconds: float, message: Message, index: int, reports: _Reports, producer: Producer
) -> None:
    topic, key, value, headers, partition = message
    where = _ANY_PARTITION if partition is None else partition
    on_delivery = partial(reports.record, index)
    deadline = None
    while True:
        try:
            # positional arguments, because this runs for every message
            producer.produce(topic, value, key, where, on_delivery, None, 0, list(headers))
        except BufferError:  # the local queue is full: wait for the broker
            producer.poll(POLL_SECONDS)
            deadline = deadline or time.monotonic() + seconds
            if time.monotonic() > deadline:
                reports.not_sent.add(index)
                on_delivery(KafkaError(KafkaError._QUEUE_FULL), None)  # noqa: SLF001
                return
        except KafkaException as error:
            reports.not_sent.add(index)
            on_delivery(error.args[0], None)
            return
        else:
            return


def _end(connection: weakref.ref[Connection]) -> None:
    found = connection()
    if found is not None and found.is_served:  # at the interpreter's end none can be started
        found.stop(_EXIT_SECONDS)


def _report_seconds(config: Mapping[str, str | int | bool]) -> float:
    """The seconds that a call waits after its last report; endless with a time-out of 0."""
    given = [float(value) for name, value in config.items() if name.endswith(_TIMEOUTS)]
    return inf if 0 in given else max(given) / 1000 + _REPORT_SECONDS


def _keep_forever(inherited: object) -> None:
    """Hold a reference that not even the end of the interpreter drops.

    Destroying a client that a fork inherited may wait for a lock that a thread of the parent held.
    A daemon thread's frame is never cleared.
    """
    threading.Thread(target=_hold, args=(inherited,), name="inherited", daemon=True).start()


def _hold(_inherited: object) -> None:
    threading.Event().wait()


def _reason(error: KafkaError | None, faults: BrokerFaults, topic: str) -> str:
    if faults.away and (error is None or error.code() == KafkaError._MSG_TIMED_OUT):  # noqa: SLF001
        return faults.away
    if error is None:
        return "the client did not report it in time"
    if error.code() in _NO_TOPIC:
        create = command_line("topics create")
        return f"topic {topic} does not exist: correct the prefix, or run: {create}"
    if error.code() == KafkaError._AUTHENTICATION:  # noqa: SLF001
        return login_refused(faults.servers, error)
    if error.code() == KafkaError._MSG_TIMED_OUT:  # noqa: SLF001
        return (
            f"{faults.servers} confirmed nothing in time (delivery.timeout.ms): check that a broker"
            f" answers there, and that it has the topic {topic}"
        )
    return error.str()


def _error_type(reason: KafkaError | None) -> type[DeliveryError]:
    if reason is None:
        return DeliveryError
    if reason.code() == KafkaError.MSG_SIZE_TOO_LARGE:
        return MessageTooLargeError
    return DeliveryRefusedError if reason.code() in _REFUSALS else DeliveryError
