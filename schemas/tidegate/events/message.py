"""An event as a Kafka message: key, value and CloudEvents headers."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache, lru_cache
from typing import Final, NamedTuple

from tidegate.errors import FormatError
from tidegate.events.base import Event
from tidegate.events.codec import decode
from tidegate.events.framing import Headers
from tidegate.events.tasks import TaskIssued

__all__ = [
    "TYPE_PREFIX",
    "Headers",
    "Message",
    "answered_id",
    "check_key",
    "event_of",
    "headers_of",
]

TYPE_PREFIX: Final = "io.tidegate."
_VERSION: Final = ("ce_specversion", b"1.0")
_CONTENT: Final = ("content-type", b"application/avro")


class Message(NamedTuple):
    """A message to send. An event's message has its table's identity, in UTF-8, as its key.

    Without a partition, the producer's partitioner chooses one by the key.
    """

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    partition: int | None = None


def headers_of(event: Event) -> Headers:
    """An event's CloudEvents attributes (Kafka protocol binding, binary mode)."""
    attributes = (
        _VERSION,
        ("ce_id", event.event_id.encode()),
        _type(type(event)),
        ("ce_source", event.source.encode()),
        ("ce_subject", event.table.encode()),
        ("ce_time", _rfc3339(event.occurred_at)),
        _CONTENT,
    )
    if isinstance(event, TaskIssued):  # also known where the event can't be decoded
        number, location = str(event.number).encode(), event.location.encode()
        command = (event.caused_by or "").encode()
        return (
            *attributes,
            ("ce_number", number),
            ("ce_location", location),
            ("ce_command", command),
        )
    return attributes


def answered_id(headers: Mapping[str, bytes | None]) -> bytes:
    """The id of the event that a message is about; empty if the headers have none.

    A task is about the command that it carries.
    """
    return headers.get("ce_command") or headers.get("ce_id") or b""


@lru_cache(maxsize=100)  # many events are published with the same time
def _rfc3339(at: datetime) -> bytes:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z").encode()


@cache
def _type(kind: type[Event]) -> tuple[str, bytes]:
    return "ce_type", (TYPE_PREFIX + kind.__name__).encode()


def event_of(key: bytes | None, value: bytes | None) -> Event:
    """Decode an Avro single object and check its key.

    Raises:
        FormatError: it can't be decoded, or the key is not the event's table.
    """
    return check_key(key, decode(value))


def check_key(key: bytes | None, event: Event) -> Event:
    """Return the event if the message's key is its table.

    Raises:
        FormatError: it is not: the message may be on another partition than the table's state.
    """
    if key != event.table.encode():
        raise FormatError(f"the key {key!r} is not the event's table {event.table}")
    return event
