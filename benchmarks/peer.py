"""What the reader gate is measured against: a consumer as a careful user would write it.

confluent-kafka in batches, fastavro with the parsed schema, and pydantic models that check every
limit which the schemas document. It derives no ids, and does nothing with an event.

It omits what any consumer must do that is to lose nothing: commit offsets, set aside what it can't
decode, check that an event is on its table's partition. So it is faster than a careful user's whole
service would be, and a ratio to it errs against us.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from io import BytesIO
from typing import Annotated, Any, Final, NamedTuple, Self

import fastavro
from confluent_kafka import Consumer, TopicPartition
from pydantic import AwareDatetime, BaseModel, Field, model_validator

from tidegate.events import LockReleased, LockType, ReleaseReason, VacuumFinished, VacuumKind
from tidegate.events.codec import schema_of, single_object_prefix

Decode = Callable[[bytes | None, bytes], object]
_BATCH: Final = 1000
_PREFIX_BYTES: Final = 10


_Text = Annotated[str, Field(min_length=1, max_length=1_000)]
_Id = Annotated[int, Field(ge=0, lt=2**63)]
_Name = Annotated[str, Field(pattern=r"^[^/\\\x00-\x1f\x7f]{1,255}$")]


class _Event(BaseModel, frozen=True, extra="forbid"):
    event_id: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,99}$")
    table: str = Field(max_length=500, pattern=r"^[^\s./\\]+\.[^\s./\\]+\.[^\s./\\]+$")
    location: str = Field(max_length=4_000, pattern=r"^(/|[A-Za-z][A-Za-z0-9+.-]*:/)")
    occurred_at: AwareDatetime
    source: _Text
    caused_by: _Text | None


class Hold(BaseModel, frozen=True, extra="forbid"):
    """A lock of a vacuum."""

    lock_id: _Id
    transaction_id: _Id | None
    partition: _Text | None
    lock_type: LockType | None
    owner: _Text | None


class Vacuum(_Event, frozen=True):
    """A compaction."""

    kind: VacuumKind
    partition: _Text | None
    directories: tuple[_Name, ...] = Field(min_length=1, max_length=1_000)
    min_write_id: _Id
    max_write_id: _Id
    valid_write_ids: str = Field(min_length=1, max_length=250_000)
    own_lock_id: _Id
    own_transaction_id: _Id | None
    locks: tuple[Hold, ...] = Field(min_length=1, max_length=10_000)
    open_transactions: tuple[_Id, ...] = Field(max_length=100_000)
    metastore: _Text | None

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        if self.own_lock_id not in {lock.lock_id for lock in self.locks}:
            raise ValueError("a vacuum holds its own lock")
        if self.min_write_id > self.max_write_id:
            raise ValueError("min_write_id is greater than max_write_id")
        return self


class Release(_Event, frozen=True):
    """The end of a lock or a transaction."""

    lock_id: _Id | None
    transaction_id: _Id | None
    partition: _Text | None
    lock_type: LockType | None
    reason: ReleaseReason
    reconciled: bool
    metastore: _Text | None

    @model_validator(mode="after")
    def _names_something(self) -> Self:
        if self.lock_id is None and self.transaction_id is None:
            raise ValueError("neither a lock nor a transaction")
        return self


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


class Spent(NamedTuple):
    """Events, and the seconds that they took: of the clock, and of this process's processor."""

    events: int
    seconds: float
    cpu: float


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
        self._consumer.pause([TopicPartition(topic, 0) for topic in topics])

    def consume(self, seconds: float, most: int, decode: Decode = decoded) -> Spent:
        """Consume and decode for so long, or so many events."""
        self._begin()
        began, cpu, seen = time.perf_counter(), time.process_time(), 0
        while seen < most and time.perf_counter() - began < seconds:
            for message in self._consumer.consume(_BATCH, 0.5):
                decode(message.key(), message.value() or b"")
                seen += 1
        spent = Spent(seen, time.perf_counter() - began, time.process_time() - cpu)
        # it fetches nothing while others are measured
        self._consumer.pause([TopicPartition(topic, 0) for topic in self._topics])
        return spent

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
        self._consumer.resume([TopicPartition(topic, 0) for topic in self._topics])
        for topic in self._topics:
            self._consumer.seek(TopicPartition(topic, 0, 0))
        self._consumer.consume(1, 5)
