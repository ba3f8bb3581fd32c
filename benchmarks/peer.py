"""What the reader gate is measured against: a consumer as a careful user would write it.

confluent-kafka in batches, fastavro with the parsed schema, pydantic models of every field. Of
Tidegate it has the schema files only.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from io import BytesIO
from typing import Any, Final, Literal

import fastavro
from confluent_kafka import Consumer, TopicPartition
from pydantic import AwareDatetime, BaseModel, Field

from tidegate.events import LockReleased, VacuumFinished
from tidegate.events.codec import single_object_prefix
from tidegate.events.schema import schema_of

_BATCH: Final = 1000
_PREFIX_BYTES: Final = 10


class _Event(BaseModel, frozen=True):
    event_id: str
    table: str = Field(max_length=500)
    location: str = Field(min_length=1, max_length=4_000)
    occurred_at: AwareDatetime
    said_by: str
    caused_by: str | None


class Hold(BaseModel, frozen=True):
    """A lock of a vacuum."""

    lock_id: int = Field(ge=0)
    transaction_id: int | None
    partition: str | None
    lock_type: str | None
    owner: str | None


class Vacuum(_Event, frozen=True):
    """A compaction."""

    kind: Literal["minor", "major"]
    partition: str | None
    directories: tuple[str, ...] = Field(min_length=1)
    min_write_id: int = Field(ge=0)
    max_write_id: int = Field(ge=0)
    valid_write_ids: str
    own_lock_id: int
    own_transaction_id: int | None
    locks: tuple[Hold, ...] = Field(min_length=1)
    open_transactions: tuple[int, ...]


class Release(_Event, frozen=True):
    """The end of a lock or a transaction."""

    lock_id: int | None
    transaction_id: int | None
    partition: str | None
    lock_type: str | None
    reason: Literal["unlocked", "committed", "aborted", "expired"]
    reconciled: bool


_READS: Final[dict[bytes, tuple[Any, type[_Event]]]] = {
    single_object_prefix(kind): (schema_of(kind).parsed, model)
    for kind, model in ((VacuumFinished, Vacuum), (LockReleased, Release))
}


def decoded(key: bytes | None, value: bytes) -> _Event:
    """The event of a message."""
    schema, model = _READS[value[:_PREFIX_BYTES]]
    body = BytesIO(value)
    body.seek(_PREFIX_BYTES)
    event = model.model_validate(fastavro.schemaless_reader(body, schema, None))
    if key != event.table.encode():
        raise ValueError(f"the key {key!r} is not the event's table {event.table}")
    return event


class Peer:
    """Reads partition 0 of some topics, again and again from the beginning."""

    def __init__(self, servers: str, topics: Sequence[str]) -> None:
        """Begin to fetch."""
        self._topics = topics
        self._consumer = Consumer(
            {"bootstrap.servers": servers, "group.id": "peer", "enable.auto.commit": False}
        )
        self._consumer.assign([TopicPartition(topic, 0, 0) for topic in topics])
        self._consumer.consume(1, 5)

    def consume(self, seconds: float, most: int) -> tuple[float, float]:
        """Consume and decode for so long, or so many events; give events a second.

        Returns:
            Of the clock, and of this process's processor time.
        """
        self._begin()
        began, cpu, seen = time.perf_counter(), time.process_time(), 0
        while seen < most and time.perf_counter() - began < seconds:
            for message in self._consumer.consume(_BATCH, 0.5):
                decoded(message.key(), message.value() or b"")
                seen += 1
        return seen / (time.perf_counter() - began), seen / (time.process_time() - cpu)

    def take(self, count: int) -> float:
        """Take so many records and keep them by key; give records a second."""
        self._begin()
        began, kept, seen = time.perf_counter(), dict[bytes, bytes](), 0
        while seen < count - 1:  # `_begin` took one
            for message in self._consumer.consume(_BATCH, 0.5):
                kept[message.key() or b""] = message.value() or b""
                seen += 1
        return seen / (time.perf_counter() - began)

    def close(self) -> None:
        """End."""
        self._consumer.close()

    def _begin(self) -> None:
        for topic in self._topics:
            self._consumer.seek(TopicPartition(topic, 0, 0))
        self._consumer.consume(1, 5)
