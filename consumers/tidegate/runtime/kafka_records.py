"""What confluent-kafka gives, as the bus has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tidegate.events.message import Headers
from tidegate.runtime.bus import Partition, Record

if TYPE_CHECKING:
    from confluent_kafka import Message as Received

Config = Mapping[str, str | int | bool]
"""librdkafka's settings."""


def as_record(message: Received) -> Record:
    """A received message as a record."""
    return Record(
        Partition(str(message.topic()), int(message.partition() or 0)),
        int(message.offset() or 0),
        as_bytes(message.key()),
        as_bytes(message.value()),
        _headers(message),
        int(message.timestamp()[1]),
    )


def _headers(message: Received) -> Headers:
    """The headers, of which confluent-kafka's types allow more than a broker ever has."""
    headers = message.headers() or ()
    pairs = headers.items() if isinstance(headers, dict) else headers
    return tuple((name, as_bytes(value) or b"") for name, value in pairs)


def as_bytes(content: bytes | str | None) -> bytes | None:
    """Undo confluent-kafka's typing, which allows text where a broker only ever has bytes."""
    return content.encode() if isinstance(content, str) else content
