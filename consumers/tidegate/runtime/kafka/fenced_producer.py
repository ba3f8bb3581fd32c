"""A producer that writes in transactions until another process makes the broker fence it.

The transaction serves as a fence only: the broker refuses a producer whose transactional id another
one has taken. The meaning of the records does not depend on being written together: a batch has
an end mark of its own (see `coordinator/rows/store.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, KafkaError, KafkaException, Message, Producer

from tidegate.errors import StopService, TransientError
from tidegate.publisher.connection import codes
from tidegate.runtime.bus import ChangelogRecord
from tidegate.runtime.kafka.records import LARGE, Config

_Step = Callable[[float], None]
_WAIT: Final = 30.0
_PAUSE: Final = 0.1
_AT_ONCE: Final = 4
"""Earlier producers that are fenced at the same time: each one costs a short-lived connection."""
FENCED: Final = codes("_FENCED PRODUCER_FENCED INVALID_PRODUCER_EPOCH")
FORGOTTEN: Final = KafkaError.INVALID_PRODUCER_ID_MAPPING
"""The broker forgets a transactional id that is idle for days."""
_PERMANENT: Final = codes(
    "MSG_SIZE_TOO_LARGE TOPIC_AUTHORIZATION_FAILED TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
)


class FencedProducer:
    """Writes to partitions of one topic under a transactional id of its own.

    Every method raises KafkaException if the broker refuses it. The codes include those in FENCED
    and FORGOTTEN.
    """

    def __init__(self, config: Config, topic: str, transactional_id: str) -> None:
        """Take the id: fences the producer that had it, and aborts its open transaction."""
        self._topic = topic
        self._producer = _take_id(config, transactional_id)
        self.ends: dict[int, int] = {}
        """By partition, the offset after the last record that this producer wrote."""
        self._unfinished: _Step | None = None
        """The commit or abort that was begun and whose outcome the broker has not reported."""
        self.appended_ms: int | None = None
        """When the broker appended the last record, in ms since the epoch."""

    def write(self, entries: Mapping[int, Sequence[ChangelogRecord]]) -> None:
        """Append to several partitions in one transaction; return when the broker has committed it.

        Raises:
            TransientError: the broker did not accept the transaction now, or did not report its
                outcome. Repeat all of it before you write anything else.
            StopService: the broker will never accept it.
        """
        try:
            if self._unfinished is not None:
                self._finish(self._unfinished)
            self._producer.begin_transaction()
            for number, records in entries.items():
                for count, (key, value) in enumerate(records, 1):
                    # the last one is appended behind all others, or the transaction fails
                    self._append(number, key, value, is_last=count == len(records))
            self._finish(self._producer.commit_transaction)
        except KafkaException as error:
            fault: KafkaError = error.args[0]
            if fault.fatal() or fault.code() in {*FENCED, FORGOTTEN}:
                raise
            reason = f"changelog {self._topic}: {fault.str()}"
            if self._unfinished is not None:  # the step may yet succeed: the client allows no other
                raise TransientError(reason) from error
            self._abort(reason)
            raise (StopService if fault.code() in _PERMANENT else TransientError)(reason) from error

    def close(self) -> None:
        """Discard unwritten records; a later producer's fence stays."""
        self._producer.purge()

    def _append(self, number: int, key: bytes, value: bytes | None, *, is_last: bool) -> None:
        report = self._on_delivery if is_last else None
        while True:
            try:
                self._producer.produce(self._topic, value, key, number, on_delivery=report)
            except BufferError:  # the local queue is full: let the broker catch up
                self._producer.poll(0.05)
            else:
                return

    def _finish(self, step: _Step) -> None:
        """Commit or abort, or resume that step if the broker has not reported its outcome."""
        self._unfinished = step
        try:
            _persist(step, _WAIT)  # after that the caller repeats it
        except KafkaException as error:
            if not error.args[0].retriable():
                self._unfinished = None
            raise
        self._unfinished = None

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            number, end = int(message.partition() or 0), int(message.offset() or 0) + 1
            self.ends[number] = max(self.ends.get(number, 0), end)
            kind, appended_ms = message.timestamp()
            if kind == TIMESTAMP_LOG_APPEND_TIME:
                self.appended_ms = int(appended_ms)

    def _abort(self, reason: str) -> None:
        """Abort: after a failure the next transaction can't begin otherwise."""
        try:
            self._finish(self._producer.abort_transaction)
        except KafkaException as error:
            if is_fence(error):
                raise
            is_over = self._unfinished is None
            raise (StopService if is_over else TransientError)(reason) from error


def fence(config: Config, transactional_ids: Collection[str]) -> None:
    """Make the broker refuse all further writes of the producers with these ids.

    When this returns, their open transactions have ended: they are committed or aborted.

    Raises:
        KafkaException: the broker refuses the request, or does not answer.
    """
    with ThreadPoolExecutor(_AT_ONCE, "fence") as pool:
        list(pool.map(partial(_take_id, config), transactional_ids))


def is_fence(error: KafkaException) -> bool:
    """Whether a producer was refused because another one has taken its id."""
    return error.args[0].code() in FENCED


def _take_id(config: Config, transactional_id: str) -> Producer:
    producer = Producer(
        {
            **config,
            "transactional.id": transactional_id,
            **LARGE,
            # as long as the group waits for a poll: the transaction survives an outage of that time
            "transaction.timeout.ms": 300_000,
            "allow.auto.create.topics": False,
            "retry.backoff.ms": 1,
            "retry.backoff.max.ms": 20,
            # with sparse connections librdkafka queries its coordinator again only after 500 ms
            "enable.sparse.connections": False,
            "log_level": 0,
        }
    )
    _persist(producer.init_transactions)
    return producer


def _persist(step: _Step, seconds: float = 2 * _WAIT) -> None:
    """Repeat a step of a transaction while the broker is away: librdkafka resumes it."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            step(_WAIT)
        except KafkaException as error:
            fault: KafkaError = error.args[0]
            if not fault.retriable() or time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE)
        else:
            return
