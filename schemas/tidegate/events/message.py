"""An event as a Kafka message: key, value and CloudEvents headers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC
from typing import Final

from tidegate.errors import FormatError
from tidegate.events.base import Event
from tidegate.events.codec import decode, encode

Headers = tuple[tuple[str, bytes], ...]
TYPE_PREFIX: Final = "io.tidegate."


@dataclass(frozen=True, slots=True)
class Envelope:
    """What goes on the wire for one event. The key is the table's identity in UTF-8."""

    key: bytes
    value: bytes
    headers: Headers


def to_envelope(event: Event) -> Envelope:
    """Encode an event with its CloudEvents attributes (Kafka protocol binding, binary mode)."""
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
    return Envelope(event.table.encode(), encode(event), headers)


def from_envelope(key: bytes | None, value: bytes | None) -> Event:
    """Decode a message whose key must name the event's own table.

    Raises:
        FormatError: it can't be decoded, or its key names another table: it then lies on a
            partition where the table's state is not.
    """
    event = decode(value)
    if key != event.table.encode():
        raise FormatError(f"the key {key!r} is not the event's table {event.table}")
    return event
