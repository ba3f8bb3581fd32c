"""A decider's memory on a compacted topic, fenced by a transactional id.

The transaction is there for the fence alone: the broker refuses a writer that was replaced. What
the entries mean does not depend on their being written together (see `ledger.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from tidegate.errors import FencedError, StopService, TransientError
from tidegate.runtime.kafka_faults import told_apart
from tidegate.runtime.kafka_reading import read_partition
from tidegate.runtime.kafka_records import LARGE, as_bytes

_WAIT: Final = 30.0
_PAUSE: Final = 0.1
_LOST_FENCE: Final = {
    KafkaError._FENCED,  # noqa: SLF001 - librdkafka's local codes have underscores
    KafkaError.PRODUCER_FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
    KafkaError.INVALID_PRODUCER_ID_MAPPING,
}
_HOPELESS: Final = {
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


class KafkaChangelog:
    """One partition of a changelog topic, held by this process until another takes it."""

    def __init__(self, config: Mapping[str, str | int | bool], topic: str, partition: int) -> None:
        """Take the changelog: from here on every earlier holder is fenced.

        Raises:
            TransientError: the broker can't give it now.
        """
        self._config = config
        self._where = TopicPartition(topic, partition, 0)
        self._producer = Producer(
            {
                **config,
                "transactional.id": f"{topic}-{partition}",
                **LARGE,
                "retry.backoff.ms": 1,
                "retry.backoff.max.ms": 20,
                "log_level": 0,
            }
        )
        self._guarded(lambda: _persist(self._producer.init_transactions))

    def read(self) -> Iterator[tuple[bytes, bytes | None]]:
        """Read from the beginning to the end of what is committed.

        Raises:
            TransientError: the broker can't give all of it now.
        """
        for message in read_partition(self._config, self._where.topic, self._where.partition):
            yield as_bytes(message.key()) or b"", as_bytes(message.value())

    def write(self, entries: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Append in one transaction; after a TransientError nothing was, and all may be repeated.

        Raises:
            FencedError: another process has taken this changelog.
            TransientError: the broker can't take it now.
        """
        self._guarded(lambda: self._write(entries))

    def close(self) -> None:
        """Let the connection go; the fence stays with the next holder."""
        self._producer.purge()

    def _write(self, entries: Sequence[tuple[bytes, bytes | None]]) -> None:
        self._producer.begin_transaction()
        try:
            for key, value in entries:
                self._append(key, value)
            _persist(self._producer.commit_transaction)
        except KafkaException as error:
            fault: KafkaError = error.args[0]
            if fault.fatal() or fault.code() in _LOST_FENCE:
                raise
            told = f"changelog {self._where.topic}[{self._where.partition}]: {fault.str()}"
            self._abort(told)
            raise (StopService if fault.code() in _HOPELESS else TransientError)(told) from error

    def _append(self, key: bytes, value: bytes | None) -> None:
        topic, partition = self._where.topic, self._where.partition
        while True:
            try:
                self._producer.produce(topic, key=key, value=value, partition=partition)
            except BufferError:  # the local queue is full: let the broker catch up
                self._producer.poll(0.05)
            else:
                return

    def _abort(self, reason: str) -> None:
        """Whatever it was, only an aborted transaction lets the next one begin."""
        try:
            _persist(self._producer.abort_transaction)
        except KafkaException as error:
            if _is_fence(error):
                raise
            raise StopService(reason) from error

    def _guarded(self, action: Callable[[], None]) -> None:
        try:
            with told_apart(f"changelog {self._where.topic}[{self._where.partition}]"):
                action()
        except StopService as error:
            if isinstance(error.__cause__, KafkaException) and _is_fence(error.__cause__):
                raise FencedError(
                    f"another process took over {self._where.topic}[{self._where.partition}]"
                ) from error
            raise


def _is_fence(error: KafkaException) -> bool:
    return error.args[0].code() in _LOST_FENCE


def _persist(step: Callable[[float], None]) -> None:
    """Call a step of a transaction again while the broker is away: it resumes where it was."""
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
