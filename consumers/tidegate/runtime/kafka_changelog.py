"""A decider's memory on a compacted topic, fenced by a transactional id.

The transaction is there for the fence alone: the broker refuses a writer that was replaced. What
the entries mean does not depend on their being written together (see `memory_of.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka import Message as Received

from tidegate.errors import FencedError, StopService, TransientError

_WAIT: Final = 30.0
_LOST_FENCE: Final = {
    KafkaError._FENCED,  # noqa: SLF001 - librdkafka's local codes have underscores
    KafkaError.PRODUCER_FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
    KafkaError.INVALID_PRODUCER_ID_MAPPING,
}


class KafkaChangelog:
    """One partition of a changelog topic, held by this process until another takes it."""

    def __init__(self, config: Mapping[str, str | int | bool], topic: str, partition: int) -> None:
        """Take the changelog: from here on every earlier holder is fenced."""
        self._config = config
        self._where = TopicPartition(topic, partition, 0)
        self._producer = Producer(
            {
                **config,
                "transactional.id": f"{topic}-{partition}",
                "retry.backoff.ms": 1,
                "retry.backoff.max.ms": 20,
                "log_level": 0,
            }
        )
        self._guarded(lambda: self._producer.init_transactions(_WAIT))

    def read(self) -> Iterator[tuple[bytes, bytes | None]]:
        """Read from the beginning to the end of what is committed."""
        consumer = Consumer(
            {
                **self._config,
                "group.id": "tidegate-changelog-reader",  # never joined: librdkafka wants a name
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "log_level": 0,
            }
        )
        try:
            consumer.assign([self._where])
            for message in _until_end(consumer):
                yield as_bytes(message.key()) or b"", as_bytes(message.value())
        finally:
            consumer.close()

    def write(self, entries: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Append in one transaction."""
        self._guarded(lambda: self._write(entries))

    def close(self) -> None:
        """Let the connection go; the fence stays with the next holder."""
        self._producer.purge()

    def _write(self, entries: Sequence[tuple[bytes, bytes | None]]) -> None:
        self._producer.begin_transaction()
        for key, value in entries:
            self._producer.produce(
                self._where.topic, key=key, value=value, partition=self._where.partition
            )
        self._producer.commit_transaction(_WAIT)

    def _guarded(self, action: Callable[[], None]) -> None:
        try:
            action()
        except KafkaException as error:
            fault: KafkaError = error.args[0]
            if fault.code() in _LOST_FENCE:
                raise FencedError(
                    f"another process took over {self._where.topic}[{self._where.partition}]"
                ) from error
            if fault.txn_requires_abort():
                self._producer.abort_transaction(_WAIT)
                raise TransientError(fault.str()) from error
            if fault.retriable():
                raise TransientError(fault.str()) from error
            raise StopService(fault.str()) from error


def _until_end(consumer: Consumer) -> Iterator[Received]:
    while True:
        for message in consumer.consume(1000, 0.1):
            error = message.error()
            if error is None:
                yield message
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
                return
            elif not error.retriable():
                raise StopService(f"changelog {message.topic()}: {error.str()}")


def as_bytes(content: bytes | str | None) -> bytes | None:
    """Undo confluent-kafka's typing, which allows text where a broker only ever has bytes."""
    return content.encode() if isinstance(content, str) else content
