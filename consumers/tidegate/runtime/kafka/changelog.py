"""A decider's state on a compacted topic, fenced by a transactional id.

The transaction serves as a fence only: the broker refuses a writer that was replaced. The meaning
of the records does not depend on being written together (see `runtime/decider/state_store.py`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from tidegate.errors import FencedError, StopService, TransientError
from tidegate.runtime.kafka.errors import translate_kafka_errors
from tidegate.runtime.kafka.partition_reader import read_partition
from tidegate.runtime.kafka.records import LARGE, as_bytes

log = logging.getLogger(__name__)
_OnDelivery = Callable[[KafkaError | None, Message], None]
_WAIT: Final = 30.0
_PAUSE: Final = 0.1
_FENCED: Final = {
    KafkaError._FENCED,  # noqa: SLF001 - librdkafka's local codes have underscores
    KafkaError.PRODUCER_FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
}
_FORGOTTEN: Final = KafkaError.INVALID_PRODUCER_ID_MAPPING
_PERMANENT: Final = {
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


class KafkaChangelog:
    """One partition of a changelog topic, writable by this process until another opens it."""

    def __init__(self, config: Mapping[str, str | int | bool], topic: str, partition: int) -> None:
        """Open the changelog: from here on every earlier writer is fenced.

        Raises:
            TransientError: the broker did not open it now.
        """
        self._config = config
        self._where = TopicPartition(topic, partition, 0)
        self._next_offset = 0
        """Behind the last record that was read or written here."""
        self._producer = self._connect()
        self._guarded(lambda: _persist(self._producer.init_transactions))

    def _connect(self) -> Producer:
        topic, partition = self._where.topic, self._where.partition
        return Producer(
            {
                **self._config,
                "transactional.id": f"{topic}-{partition}",
                **LARGE,
                "allow.auto.create.topics": False,
                "retry.backoff.ms": 1,
                "retry.backoff.max.ms": 20,
                "log_level": 0,
            }
        )

    def read(self) -> Iterator[tuple[bytes, bytes | None]]:
        """Read from the beginning to the end of what is committed.

        Raises:
            TransientError: not all of it could be read now.
        """
        for message in read_partition(self._config, self._where.topic, self._where.partition):
            self._next_offset = (message.offset() or 0) + 1
            yield as_bytes(message.key()) or b"", as_bytes(message.value())

    def write(self, entries: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Append in one transaction. After a TransientError nothing was written: repeat it all.

        Raises:
            FencedError: another process has opened this changelog.
            TransientError: the broker did not accept it now.
        """
        self._guarded(lambda: self._write_or_reopen(entries))

    def close(self) -> None:
        """Discard what was not written; a later writer's fence is not touched."""
        self._producer.purge()

    def _write_or_reopen(self, entries: Sequence[tuple[bytes, bytes | None]]) -> None:
        try:
            self._write(entries)
        except KafkaException as error:
            if error.args[0].code() != _FORGOTTEN:
                raise
            self._reopen()
            self._write(entries)

    def _reopen(self) -> None:
        """Take the transactional id again: the broker forgets one that is idle for days.

        The broker reports the same where another process has opened the changelog since. What that
        one wrote is then behind our last record.
        """
        log.info(
            "%s[%d]: opened again after a long idle time", self._where.topic, self._where.partition
        )
        self._producer = self._connect()
        _persist(self._producer.init_transactions)
        for message in read_partition(self._config, self._where.topic, self._where.partition):
            if (message.offset() or 0) >= self._next_offset:
                raise FencedError(self._fenced())

    def _fenced(self) -> str:
        return f"another process has opened {self._where.topic}[{self._where.partition}] since"

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self._next_offset = max(self._next_offset, (message.offset() or 0) + 1)

    def _write(self, entries: Sequence[tuple[bytes, bytes | None]]) -> None:
        self._producer.begin_transaction()
        try:
            for key, value in entries[:-1]:
                self._append(key, value, None)
            for key, value in entries[-1:]:  # only the last one's offset matters
                self._append(key, value, self._on_delivery)
            _persist(self._producer.commit_transaction)
        except KafkaException as error:
            fault: KafkaError = error.args[0]
            if fault.fatal() or fault.code() in {*_FENCED, _FORGOTTEN}:
                raise
            reason = f"changelog {self._where.topic}[{self._where.partition}]: {fault.str()}"
            self._abort(reason)
            raise (StopService if fault.code() in _PERMANENT else TransientError)(reason) from error

    def _append(self, key: bytes, value: bytes | None, on_delivery: _OnDelivery | None) -> None:
        topic, partition = self._where.topic, self._where.partition
        while True:
            try:
                self._producer.produce(topic, value, key, partition, on_delivery=on_delivery)
            except BufferError:  # the local queue is full: let the broker catch up
                self._producer.poll(0.05)
            else:
                return

    def _abort(self, reason: str) -> None:
        """Abort: after any failure only that allows the next transaction to begin."""
        try:
            _persist(self._producer.abort_transaction)
        except KafkaException as error:
            if _is_fence(error):
                raise
            raise StopService(reason) from error

    def _guarded(self, action: Callable[[], None]) -> None:
        try:
            with translate_kafka_errors(f"changelog {self._where.topic}[{self._where.partition}]"):
                action()
        except StopService as error:
            if isinstance(error.__cause__, KafkaException) and _is_fence(error.__cause__):
                raise FencedError(self._fenced()) from error
            raise


def _is_fence(error: KafkaException) -> bool:
    return error.args[0].code() in _FENCED


def _persist(step: Callable[[float], None]) -> None:
    """Repeat a step of a transaction while the broker is away: librdkafka resumes it."""
    deadline = time.monotonic() + 2 * _WAIT
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
