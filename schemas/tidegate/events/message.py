"""An event as a Kafka message: key, value and CloudEvents headers."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache, lru_cache
from typing import Final, NamedTuple

from tidegate.errors import FormatError
from tidegate.events.base import Event
from tidegate.events.codec import decode
from tidegate.events.framing import Headers

__all__ = ["TYPE_PREFIX", "Headers", "Message", "event_of", "headers_of", "under_its_key"]

TYPE_PREFIX: Final = "io.tidegate."
_VERSION: Final = ("ce_specversion", b"1.0")
_CONTENT: Final = ("content-type", b"application/avro")


class Message(NamedTuple):
    """A message to send; that of an event has its table's identity, in UTF-8, as its key.

    Without a partition, the key decides.
    """

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    partition: int | None = None


def headers_of(event: Event) -> Headers:
    """Give an event's CloudEvents attributes (Kafka protocol binding, binary mode)."""
    return (
        _VERSION,
        ("ce_id", event.event_id.encode()),
        _type(type(event)),
        ("ce_source", event.said_by.encode()),
        ("ce_subject", event.table.encode()),
        ("ce_time", _moment(event.occurred_at)),
        _CONTENT,
    )


@lru_cache(maxsize=100)  # events are often published many at a time
def _moment(at: datetime) -> bytes:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z").encode()


@cache
def _type(kind: type[Event]) -> tuple[str, bytes]:
    return "ce_type", (TYPE_PREFIX + kind.__name__).encode()


def event_of(key: bytes | None, value: bytes | None) -> Event:
    """Decode an Avro single object whose key must name the event's own table.

    Raises:
        FormatError: it can't be decoded, or its key names another table.
    """
    return under_its_key(key, decode(value))


def under_its_key(key: bytes | None, event: Event) -> Event:
    """Give the event back if the key names its table.

    Raises:
        FormatError: it names another: the message then lies on a partition where the table's state
            is not.
    """
    if key != event.table.encode():
        raise FormatError(f"the key {key!r} is not the event's table {event.table}")
    return event
