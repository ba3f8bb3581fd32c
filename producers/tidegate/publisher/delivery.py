"""Sends messages and waits until the broker confirms them."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import inf
from queue import Empty, SimpleQueue
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Producer

from tidegate.errors import (
    ConfigError,
    DeliveryError,
    DeliveryRefusedError,
    MessageTooLargeError,
)
from tidegate.errors.deliveries import Delivery, NotStored, Receipt, Unconfirmed
from tidegate.events.limits import MAX_WIDE_BYTES
from tidegate.events.message import Message
from tidegate.events.topics import PARTITIONER
from tidegate.publisher.client_settings import require_protected_settings
from tidegate.publisher.reports import Reports

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
_POLL_SECONDS: Final = 0.01
"""How long the main thread's messages wait at most for the reports of other threads'."""
_CHECK_SECONDS: Final = 1.0
"""How often a waiting call checks that the polling thread is alive."""
_CLOSE_SECONDS: Final = 5.0
_EXIT_SECONDS: Final = 1.0
_REPORT_SECONDS: Final = 10.0
"""How long after its time-out the client may take to report a message."""
_TIMEOUTS: Final = ("delivery.timeout.ms", "message.timeout.ms")
_REFUSALS: Final = {
    KafkaError._AUTHENTICATION,  # noqa: SLF001 - librdkafka's own codes have underscores
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
}
_NOT_STORED: Final = {
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.INVALID_MSG,
    KafkaError.INVALID_RECORD,
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.POLICY_VIOLATION,
    KafkaError.RECORD_LIST_TOO_LARGE,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.TOPIC_EXCEPTION,
    KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
    KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001
}
"""Answers by which the broker does not have the message. After any other it may have it."""
_PURGED: Final = {KafkaError._PURGE_INFLIGHT, KafkaError._PURGE_QUEUE}  # noqa: SLF001


class _Denial:
    """The last answer by which the broker denied access.

    Apart from `_Connection`: a cycle would leave the client's end to the garbage collector.
    """

    def __init__(self) -> None:
        self.error: KafkaError | None = None
        self.is_new = False
        """Whether messages wait that will be denied too."""

    def record(self, error: KafkaError) -> None:
        if error.code() == KafkaError._AUTHENTICATION:  # noqa: SLF001
            self.error, self.is_new = error, True


class _Connection:
    """A client, and the one thread that polls it for reports.

    That thread takes no lock that a publishing thread may hold, and no callback runs in any other
    thread: an exception that a signal handler raises in a publishing thread can't stop it. Signal
    handlers run in the main thread, and `Producer.produce` replaces what they raise by a TypeError
    of its own: the main thread's messages are sent by this thread too.
    """

    def __init__(self, config: Mapping[str, str | int | bool]) -> None:
        """Connect; the thread starts with the first message."""
        self.process = os.getpid()
        self.is_closed = False
        self.denial = _Denial()
        try:
            self.producer = Producer({**config, "error_cb": self.denial.record})
        except KafkaException as error:
            raise ConfigError(f"Kafka producer: {error.args[0].str()}") from error
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._starting = threading.Lock()
        self._ended: SimpleQueue[None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Make sure that the thread is there."""
        if self._is_served():
            return
        # the end of the wait: an exception out of a signal handler may have left the lock taken,
        # and a second thread does no harm
        is_ours = self._starting.acquire(timeout=_CHECK_SECONDS)
        try:
            if not self._is_served():
                self._thread = threading.Thread(target=self._serve, name="publisher", daemon=True)
                self._thread.start()
        finally:
            if is_ours:
                self._starting.release()

    def run(self, job: Callable[[], None]) -> None:
        """Send messages: run the job in this thread, or the main thread's in the polling one."""
        if threading.current_thread() is threading.main_thread():
            self._jobs.put(job)
            return
        try:
            job()
        finally:
            self.wake()

    def wake(self) -> None:
        """Have the reports served of what was sent."""
        self._jobs.put(_nothing)

    def wait_for_room(self) -> None:
        """The client's queue is full: wait a moment."""
        if threading.current_thread() is self._thread:
            self.producer.poll(_POLL_SECONDS)
        else:
            self.start()
            self.wake()
            time.sleep(_POLL_SECONDS)

    def stop(self, seconds: float) -> None:
        """End the thread once every message has a report; wait for that at most so many seconds."""
        if self.process != os.getpid():
            return
        self.is_closed = True
        self._jobs.put(None)
        if self._is_served() and self._thread is not threading.current_thread():
            try:
                self._ended.get(timeout=seconds)
            except Empty:
                return
            self._ended.put(None)  # for the next call

    def _is_served(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _serve(self) -> None:
        while (job := self._next_job()) is not None:
            job()
            del job  # it refers to the producer, with whose end this thread ends
        self._jobs.put(None)  # for a second thread, if there is one
        self._ended.put(None)

    def _next_job(self) -> Callable[[], None] | None:
        """The next job; without one, serve reports. The end comes when all are served."""
        while len(self.producer):
            self.producer.poll(_POLL_SECONDS)
            if self.denial.is_new:
                self.producer.purge()
            if (job := self._waiting_job()) is not None:
                return job
        self.denial.is_new = False
        return self._jobs.get()

    def _waiting_job(self) -> Callable[[], None] | None:
        """A job that waits already; None for none, and for the end."""
        try:
            job = self._jobs.get_nowait()
        except Empty:
            return None
        if job is None:
            self._jobs.put(None)
        return job


def _nothing() -> None:
    """A job that only wakes the polling thread."""


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
        self._replacing = threading.Lock()
        self._connect()

    def send(self, messages: Sequence[Message]) -> list[Receipt]:
        """Send messages and wait until each is confirmed or has failed.

        Raises:
            DeliveryError: at least one was not confirmed within `delivery.timeout.ms`; `results`
                has the outcome of each. Repeated events are recognised by their ids.
            DeliveryRefusedError: the broker denies this principal access; raised at once.
            MessageTooLargeError: a message exceeds its topic's limit.
        """
        reports = Reports(len(messages))
        self._confirm(messages, reports)
        return reports.receipts()

    def confirm(self, messages: Sequence[Message]) -> None:
        """Send as `send` does, where the messages' places are not needed.

        Raises:
            DeliveryError, DeliveryRefusedError, MessageTooLargeError: as `send`.
        """
        self._confirm(messages, Reports(len(messages), places=False))

    def _confirm(self, messages: Sequence[Message], reports: Reports) -> None:
        connection = self._own_connection()
        self._attempt(connection, dict(enumerate(messages)), reports)
        if len(messages) > 1:
            # the broker refuses all that the client put into one request with what is too large
            for index in reports.too_large():
                reports.forget(index)
                self._attempt(connection, {index: messages[index]}, reports)
        failed = reports.failed()
        if not failed and reports.arrived == len(messages):
            return
        if any(error.fatal() or error.code() == KafkaError._FATAL for error in failed):  # noqa: SLF001
            self._replace(connection)
        raise self._fault(messages, reports, connection.denial.error)

    def _attempt(
        self, connection: _Connection, messages: Mapping[int, Message], reports: Reports
    ) -> None:
        connection.start()
        connection.run(partial(self._produce_all, connection, messages, reports))
        self._wait(connection, reports)

    def close(self) -> None:
        """Wait up to five seconds for messages that other threads are sending.

        A producer that is used again connects again.
        """
        self._connection.stop(_CLOSE_SECONDS)

    def _wait(self, connection: _Connection, reports: Reports) -> None:
        """Wait for the reports: as long as they come, and once none comes, for a time."""
        arrived, since = -1, time.monotonic()
        while not reports.wait(_CHECK_SECONDS):
            connection.start()
            connection.wake()
            if reports.arrived > arrived:
                arrived, since = reports.arrived, time.monotonic()
            elif time.monotonic() - since > self._seconds:
                return

    def _own_connection(self) -> _Connection:
        """The connection of this process: after a fork, one that has librdkafka's threads."""
        connection = self._connection
        if connection.process != os.getpid():
            _keep_for_ever(connection)
            self._replacing = threading.Lock()
            return self._connect()
        return self._replace(connection) if connection.is_closed else connection

    def _connect(self) -> _Connection:
        connection = self._connection = _Connection(self._config)
        # the thread ends with this producer, and before the interpreter
        weakref.finalize(self, _end, weakref.ref(connection))
        return connection

    def _replace(self, dead: _Connection) -> _Connection:
        """Replace a connection that was closed, or had a fatal error and never sends again."""
        is_ours = self._replacing.acquire(timeout=_CHECK_SECONDS)  # as in `_Connection.start`
        try:
            if self._connection is dead:
                dead.stop(0)
                self._connect()
            return self._connection
        finally:
            if is_ours:
                self._replacing.release()

    def _fault(
        self, messages: Sequence[Message], reports: Reports, denied: KafkaError | None
    ) -> DeliveryError:
        results: list[Delivery] = []
        kinds: dict[type[DeliveryError], str] = {}
        for index, found in enumerate(reports.outcomes()):
            if isinstance(found, Receipt):
                results.append(found)
                continue
            error = denied if found and denied and found.code() in _PURGED else found
            reason = "the client did not report it in time" if error is None else error.str()
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

    def _produce_all(
        self, connection: _Connection, messages: Mapping[int, Message], reports: Reports
    ) -> None:
        for index, message in messages.items():
            try:
                self._produce(connection, message, index, reports)
            except Exception as error:  # noqa: BLE001 - it may be another thread than the caller's
                reports.fail(error)
                return

    def _produce(
        self, connection: _Connection, message: Message, index: int, reports: Reports
    ) -> None:
        topic, key, value, headers, partition = message
        where = _ANY_PARTITION if partition is None else partition
        on_delivery = partial(reports.record, index)
        deadline = None
        while True:
            try:
                # positional arguments, because this runs for every message
                connection.producer.produce(
                    topic, value, key, where, on_delivery, None, 0, list(headers)
                )
            except BufferError:  # the local queue is full: wait for the broker
                connection.wait_for_room()
                deadline = deadline or time.monotonic() + self._seconds
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


def _end(connection: weakref.ref[_Connection]) -> None:
    if (found := connection()) is not None:
        found.stop(_EXIT_SECONDS)


def _report_seconds(config: Mapping[str, str | int | bool]) -> float:
    """How long after its last report a call waits for the next one; a time-out of 0 is none."""
    given = [float(value) for name, value in config.items() if name.endswith(_TIMEOUTS)]
    return inf if 0 in given else max(given) / 1000 + _REPORT_SECONDS


def _keep_for_ever(inherited: object) -> None:
    """Hold a reference that not even the end of the interpreter drops.

    Destroying a client that a fork inherited may wait for a lock that a thread of the parent held.
    A daemon thread's frame is never cleared.
    """
    threading.Thread(target=_hold, args=(inherited,), name="inherited", daemon=True).start()


def _hold(_inherited: object) -> None:
    threading.Event().wait()


def _error_type(reason: KafkaError | None) -> type[DeliveryError]:
    if reason is None:
        return DeliveryError
    if reason.code() == KafkaError.MSG_SIZE_TOO_LARGE:
        return MessageTooLargeError
    return DeliveryRefusedError if reason.code() in _REFUSALS else DeliveryError
