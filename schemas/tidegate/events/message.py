"""An event as a Kafka message: key, value and CloudEvents headers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC
from typing import Final

from tidegate.errors import FormatError
from tidegate.events.base import Event
from tidegate.events.codec import decode, encode
from tidegate.events.framing import Headers

__all__ = ["TYPE_PREFIX", "Envelope", "Headers", "from_envelope", "to_envelope", "under_its_key"]

TYPE_PREFIX: Final = "io.tidegate."


@dataclass(frozen=True, slots=True)
class Envelope:
    """What goes on the wire for one event. The key is the table's identity in UTF-8."""

    key: bytes
    value: bytes
    headers: Headers


def to_envelope(event: Event, value: bytes | None = None) -> Envelope:
    """Put an event under its CloudEvents attributes (Kafka protocol binding, binary mode).

    Args:
        event: The event.
        value: Its bytes, if they are not to be an Avro single object.
    """
    attributes = {
        "ce_specversion": "1.0",
        "ce_id": event.event_id,
        "ce_type": TYPE_PREFIX + type(event).__name__,
        "ce_source": event.said_by,
        "ce_subject": event.table,
        "ce_time": event.occurred_at.astimezone(UTC).isoformat().replace("+00:00", "Z"),
        "content-type": "application/avro",
    }
    headers = tuple((name, text.encode()) for name, text in attributes.items())
    return Envelope(event.table.encode(), encode(event) if value is None else value, headers)


def from_envelope(key: bytes | None, value: bytes | None) -> Event:
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
