"""An event as a Kafka message: key, value and CloudEvents headers."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache, lru_cache
from typing import Final, NamedTuple

from tidegate.errors import FormatError
from tidegate.events.base import Event
from tidegate.events.codec import decode, encode
from tidegate.events.framing import Headers

__all__ = ["TYPE_PREFIX", "Envelope", "Headers", "from_envelope", "to_envelope", "under_its_key"]

TYPE_PREFIX: Final = "io.tidegate."
_VERSION: Final = ("ce_specversion", b"1.0")
_CONTENT: Final = ("content-type", b"application/avro")


class Envelope(NamedTuple):
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
    key = event.table.encode()
    headers = (
        _VERSION,
        ("ce_id", event.event_id.encode()),
        _type(type(event)),
        ("ce_source", event.said_by.encode()),
        ("ce_subject", key),
        ("ce_time", _moment(event.occurred_at)),
        _CONTENT,
    )
    return Envelope(key, encode(event) if value is None else value, headers)


@lru_cache(maxsize=100)  # events are often published many at a time
def _moment(at: datetime) -> bytes:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z").encode()


@cache
def _type(kind: type[Event]) -> tuple[str, bytes]:
    return "ce_type", (TYPE_PREFIX + kind.__name__).encode()


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
