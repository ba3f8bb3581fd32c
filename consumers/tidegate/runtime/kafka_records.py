"""What confluent-kafka gives, as the bus has it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from tidegate.runtime.bus import Partition, Record

if TYPE_CHECKING:
    from confluent_kafka import Message as Received

Config = Mapping[str, str | int | bool]
"""librdkafka's settings."""


def as_record(message: Received) -> Record:
    """A received message as a record. It runs for every message: little is made anew."""
    key, value = message.key(), message.value()
    return Record(
        _partition(message.topic(), message.partition()),
        message.offset() or 0,
        key if isinstance(key, bytes) else as_bytes(key),
        value if isinstance(value, bytes) else as_bytes(value),
        tuple(cast("Any", message.headers()) or ()),  # a list of pairs, whatever the types allow
        message.timestamp()[1],
    )


@lru_cache(maxsize=10_000)
def _partition(topic: str | None, number: int | None) -> Partition:
    return Partition(topic or "", number or 0)


def as_bytes(content: bytes | str | None) -> bytes | None:
    """Undo confluent-kafka's typing, which allows text where a broker only ever has bytes."""
    return content.encode() if isinstance(content, str) else content
